/* Counts RoCE frames as they cross an interface: packet(7) with a filter, without reading
 * them. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/lab/fabric.h"
#include "base/check.h"

#define ROCE_PORT 4791

/* Accepts UDP to port 4791 over IPv4 without options or IPv6 without extension headers, as rxe
 * sends it, and keeps one byte of each frame. */
static int attach_filter(int fd, bool only_outgoing)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 12),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 4),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 8),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 36),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_PORT, 5, 6),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 0, 5),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 20),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 3),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 56),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_PORT, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    unsigned short skipped = only_outgoing ? 0 : 2;
    struct sock_fprog program = {.len = (unsigned short)(WEFT_LENGTH(code) - skipped),
                                 .filter = code + skipped};

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

void lab_tap_open(const struct lab_fabric *fabric, const struct lab_place *place,
                  const char *netdev, bool only_outgoing, struct lab_tap *out)
{
    struct sockaddr_ll at = {.sll_family = AF_PACKET};
    int fd;

    *out = (struct lab_tap){.fd = -1};
    if (lab_place_enter(place) != 0) {
        return;
    }
    fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    lab_fabric_go_home(fabric);
    if (fd < 0) {
        return;
    }
    at.sll_protocol = htons(ETH_P_ALL);
    at.sll_ifindex = (int)netlink_ifindex(place->route_fd, netdev);
    if (attach_filter(fd, only_outgoing) != 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0) {
        close(fd);
        return;
    }
    out->fd = fd;
}

uint64_t lab_tap_count(struct lab_tap *tap)
{
    struct tpacket_stats stats = {0};
    socklen_t n = sizeof(stats);

    /* tp_packets includes frames dropped because the queue was full. Each read resets it. */
    if (tap->fd >= 0 &&
        getsockopt(tap->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &n) == 0) {
        tap->n_frames += stats.tp_packets;
    }
    return tap->n_frames;
}

uint64_t lab_fabric_roce_frames(struct lab_fabric *fabric, uint32_t host, uint32_t port)
{
    struct lab_host *at = &fabric->hosts[host];

    return lab_tap_count(port == UINT32_MAX ? &at->management_tap : &at->ports[port].tap);
}
