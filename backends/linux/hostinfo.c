/* Host facts from the kernel: rtnetlink(7), ethtool, /proc. What cannot be read is IO_UNKNOWN (or
 * 0, where the fact specifies that), never a guess. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/linux/private.h"
#include "backends/linux/shm.h"
#include "base/text.h"

/* ---- /proc ---- */

/* Reads the first line of a file without its newline. Returns false if there is none. */
static bool read_line(const char *path, char *out, size_t out_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t n = read(fd, out, out_bytes - 1);
    close(fd);
    out[n < 0 ? 0 : n] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return n > 0;
}

static int read_number(const char *path)
{
    char line[32];
    char *end;
    if (!read_line(path, line, sizeof line)) {
        return IO_UNKNOWN;
    }
    long number = strtol(line, &end, 10);
    return end == line || number < 0 || number > INT_MAX ? IO_UNKNOWN : (int)number;
}

struct conf { /* net.ipv4.conf of one interface, or of "all" */
    int rp_filter, arp_ignore, arp_announce, accept_local;
};

static int read_setting(const char *netdev, const char *name)
{
    char path[160];
    weft_format(path, sizeof path, "/proc/sys/net/ipv4/conf/%s/%s", netdev, name);
    return read_number(path);
}

static struct conf read_conf(const char *netdev)
{
    return (struct conf){.rp_filter = read_setting(netdev, "rp_filter"),
                         .arp_ignore = read_setting(netdev, "arp_ignore"),
                         .arp_announce = read_setting(netdev, "arp_announce"),
                         .accept_local = read_setting(netdev, "accept_local")};
}

/* The kernel uses the greater of `all` and the interface's own value for rp_filter and arp_ignore
 * (ip-sysctl), the logical or for accept_local, which is the same for 0 and 1. */
static int effective(int all, int own)
{
    if (all == IO_UNKNOWN || own == IO_UNKNOWN) {
        return IO_UNKNOWN;
    }
    return own > all ? own : all;
}

/* Reads the VLAN id from the first line of the VLAN's file, "p0.100  VID: 100  REORD_HDR: ...".
 * Without the 8021q module there is no such directory, and no VLAN. */
static int read_vlan(const char *netdev)
{
    char path[160];
    char line[128];
    weft_format(path, sizeof path, "/proc/net/vlan/%s", netdev);
    if (!read_line(path, line, sizeof line)) {
        return 0;
    }
    const char *id = strstr(line, "VID: ");
    long number = id == NULL ? IO_UNKNOWN : strtol(id + 5, NULL, 10);
    return number < 1 || number > 4094 ? IO_UNKNOWN : (int)number;
}

/* ---- ethtool ---- */

/* Returns the speed of the netdev in bit/s; 0 if unknown. Uses ioctl(2) on a socket, which
 * answers for the current namespace; /sys shows the namespace of the process that mounted it. */
static uint64_t read_speed(int fd, const char *netdev)
{
    /* Three bitmaps of up to 127 words follow the header. */
    union {
        struct ethtool_link_settings head;
        uint32_t words[sizeof(struct ethtool_link_settings) / 4 + 3 * 127];
    } link = {.head = {.cmd = ETHTOOL_GLINKSETTINGS}};
    struct ifreq request = {.ifr_data = (void *)&link};
    weft_format(request.ifr_name, sizeof request.ifr_name, "%s", netdev);
    if (ioctl(fd, SIOCETHTOOL, &request) != 0 || link.head.link_mode_masks_nwords >= 0) {
        return 0;
    }
    /* The first call returns only the length of the bitmaps, as a negative number (ethtool.h). */
    link.head.cmd = ETHTOOL_GLINKSETTINGS;
    link.head.link_mode_masks_nwords = (int8_t)-link.head.link_mode_masks_nwords;
    if (ioctl(fd, SIOCETHTOOL, &request) != 0 ||
        link.head.speed == (uint32_t)SPEED_UNKNOWN) {
        return 0;
    }
    return (uint64_t)link.head.speed * 1000000;
}

/* ---- all facts ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* FNV-1a, 64 bits. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text != '\0'; text++) {
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Mixes the boot's id with the namespace's, so that two containers, or two namespaces that play
 * two hosts, have different ids. `given` distinguishes hosts that share a namespace. Returns
 * false if the boot's id cannot be read. */
static bool read_host_id(const char *given, uint8_t out[16])
{
    static const uint8_t none[16];
    uint64_t hash = given == NULL || *given == '\0' ? 0 : hash_of(given);
    char text[64] = "";
    size_t n = 0;
    uint64_t inode = linux_netns_inode();
    bool is_told = read_line("/proc/sys/kernel/random/boot_id", text, sizeof text);
    if (!is_told && memcmp(out, none, sizeof none) != 0) {
        return false; /* out of descriptors; keep the id, which does not change */
    }
    memset(out, 0, 16);
    for (const char *at = text; *at != '\0' && n < 32; at++) {
        int digit = hex_digit(*at);
        if (digit >= 0) {
            out[n / 2] = (uint8_t)(out[n / 2] << 4 | digit);
            n++;
        }
    }
    for (size_t i = 0; i < sizeof inode; i++) {
        out[8 + i] ^= (uint8_t)(inode >> 8 * i);
        out[i] ^= (uint8_t)(hash >> 8 * i);
    }
    return is_told;
}

static int64_t read_memlock(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
        return IO_UNKNOWN;
    }
    return limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > INT64_MAX
               ? INT64_MAX
               : (int64_t)limit.rlim_cur;
}

void linux_hostinfo_read(struct io_hostinfo *info, const char *management,
                         const char *host_id, bool *knows_host_id, struct weft_log *log)
{
    const struct conf all = read_conf("all");
    struct io_netdev *netdevs = NULL;
    uint32_t n_netdevs = 0;
    int error = linux_netlink_netdevs(&netdevs, &n_netdevs);
    info->netdevs_errno = error;
    if (error != 0) {
        weft_log(log, WEFT_LOG_ERROR, "cannot ask the kernel for its interfaces: %s",
                 strerrordesc_np(error));
        if (info->n_netdevs > 0) {
            return; /* keep the last known netdevs */
        }
    }
    io_hostinfo_fini(info);
    info->netdevs = netdevs;
    info->n_netdevs = n_netdevs;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        struct io_netdev *netdev = &info->netdevs[i];
        const struct conf own = read_conf(netdev->name);
        netdev->speed_bps = fd < 0 ? 0 : read_speed(fd, netdev->name);
        netdev->is_management = strcmp(netdev->name, management) == 0;
        netdev->vlan_id = read_vlan(netdev->name);
        netdev->rp_filter = effective(all.rp_filter, own.rp_filter);
        netdev->arp_ignore = effective(all.arp_ignore, own.arp_ignore);
        netdev->arp_announce = effective(all.arp_announce, own.arp_announce);
        netdev->accept_local = effective(all.accept_local, own.accept_local);
    }
    if (fd >= 0) {
        close(fd);
    }
    *knows_host_id = *knows_host_id || read_host_id(host_id, info->host_id);
    info->memlock_bytes = read_memlock();
    info->shm_dev = linux_shm_dev();
    info->ip_forward = read_number("/proc/sys/net/ipv4/ip_forward");
}
