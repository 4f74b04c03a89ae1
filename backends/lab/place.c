/* Network namespaces, their settings, and their sockets. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/lab/place.h"
#include "base/check.h"
#include "base/text.h"

#define PATH_BYTES 256

int lab_place_enter(const struct lab_place *place)
{
    return setns(place->netns_fd, CLONE_NEWNET) == 0 ? 0 : errno;
}

void lab_fabric_go_home(const struct lab_fabric *fabric)
{
    /* Fails only because of a bug. Going on would configure the wrong host. */
    int result = setns(fabric->home_fd, CLONE_NEWNET);

    weft_check(result == 0);
}

static void path_of(const char *name, char out[PATH_BYTES])
{
    weft_format(out, PATH_BYTES, "%s/%s", LAB_NETNS_DIR, name);
}

/* Names the calling thread's namespace as ip-netns(8) does. */
static int pin_namespace(const char *name)
{
    char path[PATH_BYTES];
    int fd;

    path_of(name, path);
    if (mkdir(LAB_NETNS_DIR, 0755) != 0 && errno != EEXIST) {
        return errno;
    }
    fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    close(fd);
    if (mount("/proc/thread-self/ns/net", path, "none", MS_BIND, NULL) != 0) {
        int error = errno;

        unlink(path);
        return error;
    }
    return 0;
}

void lab_unpin(const char *name)
{
    char path[PATH_BYTES];

    path_of(name, path);
    umount2(path, MNT_DETACH);
    unlink(path);
}

static void write_setting(const char *path, int value)
{
    char text[16];
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0) {
        return; /* absent, such as IPv6 settings in a kernel without IPv6 */
    }
    weft_format(text, sizeof(text), "%d\n", value);
    if (write(fd, text, strlen(text)) < 0) {
        /* the kernel's default stays, and appears in the host facts */
    }
    close(fd);
}

void lab_apply_sysctl(const struct world_sysctl *sysctl, const char *scope)
{
    const struct {
        const char *name;
        int value;
    } settings[] = {
        {"rp_filter", sysctl->rp_filter},
        {"arp_ignore", sysctl->arp_ignore},
        {"arp_announce", sysctl->arp_announce},
        {"accept_local", sysctl->accept_local},
        {"forwarding", sysctl->ip_forward},
        {"arp_filter", sysctl->arp_filter},
        {"promote_secondaries", sysctl->promote_secondaries},
    };

    for (size_t i = 0; i < WEFT_LENGTH(settings); i++) {
        char path[PATH_BYTES];

        weft_format(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/%s", scope,
                    settings[i].name);
        write_setting(path, settings[i].value);
    }
}

/* Sets the values for future interfaces ("default"), and for "all", because the kernel uses the
 * greater of "all" and the interface's own for some of them (ip-sysctl). */
static void apply_to_namespace(const struct world_sysctl *sysctl)
{
    lab_apply_sysctl(sysctl, "all");
    lab_apply_sysctl(sysctl, "default");
    /* A link-local GID must not wait a second for duplicate address detection, which cannot find
     * anything on a cable. */
    write_setting("/proc/sys/net/ipv6/conf/default/accept_dad", 0);
    write_setting("/proc/sys/net/ipv6/conf/default/router_solicitations", 0);
    /* A fault takes the netdev down, but stands for a cable, which leaves the addresses alone. */
    write_setting("/proc/sys/net/ipv6/conf/all/keep_addr_on_down", 1);
    write_setting("/proc/sys/net/ipv6/conf/default/keep_addr_on_down", 1);
}

/* Opens the descriptor and the sockets of the current namespace. */
static int open_place(struct lab_place *place, bool with_devices)
{
    int error;

    place->netns_fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (place->netns_fd < 0) {
        return errno;
    }
    error = netlink_open(NETLINK_ROUTE, &place->route_fd);
    if (error == 0 && with_devices) {
        error = netlink_open(NETLINK_RDMA, &place->rdma_fd);
    }
    return error != 0 ? error : netlink_set_up(place->route_fd, "lo", true);
}

weft_status lab_place_make(struct lab_fabric *fabric, struct lab_place *place,
                           const char *name, const struct world_sysctl *sysctl,
                           bool with_devices, struct weft_error *error)
{
    char full[LAB_NAME_BYTES];
    int problem;

    weft_format(full, sizeof(full), "%s%d-%s", LAB_NAME_PREFIX, fabric->owner, name);
    if (unshare(CLONE_NEWNET) != 0) {
        return weft_fail_errno(error, errno, WEFT_PHASE_NAMESPACE, "cannot make %s",
                               full);
    }
    problem = pin_namespace(full);
    if (problem == 0) {
        memcpy(place->name, full, sizeof(full));
        apply_to_namespace(sysctl);
        problem = open_place(place, with_devices);
    }
    lab_fabric_go_home(fabric);
    return problem == 0 ? WEFT_OK
                        : weft_fail_errno(error, problem, WEFT_PHASE_NAMESPACE,
                                          "cannot make %s", full);
}

weft_status lab_place_make_host(struct lab_fabric *fabric, uint32_t index,
                                bool with_devices, struct weft_error *error)
{
    const struct world_host *spec = &fabric->spec->hosts[index];
    struct lab_place *place = &fabric->hosts[index].place;
    const struct world_sysctl none = {0};
    int problem;

    if (fabric->layout == LAB_NAMESPACES) {
        return lab_place_make(fabric, place, spec->name, &spec->sysctl, with_devices,
                              error);
    }
    apply_to_namespace(&none);
    problem = open_place(place, with_devices);
    return problem == 0 ? WEFT_OK
                        : weft_fail_errno(error, problem, WEFT_PHASE_NAMESPACE,
                                          "cannot configure it");
}

void lab_place_close(struct lab_place *place)
{
    int *const fds[] = {&place->netns_fd, &place->route_fd, &place->rdma_fd};

    for (size_t i = 0; i < WEFT_LENGTH(fds); i++) {
        if (*fds[i] >= 0) {
            close(*fds[i]);
        }
        *fds[i] = -1;
    }
    if (place->name[0] != '\0') {
        lab_unpin(place->name);
        place->name[0] = '\0';
    }
}
