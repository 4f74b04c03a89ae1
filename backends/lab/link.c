/* Requests of rtnetlink(7), tc-netem(8) and rdma-link(8). */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <rdma/rdma_netlink.h>
#include <string.h>
#include <sys/socket.h>

#include "backends/lab/netlink.h"
#include "base/text.h"

#define QUEUE_PACKETS 10000

/* ---- links ---- */

static const struct ifinfomsg any_link = {.ifi_family = AF_UNSPEC};

static void put_end(struct netlink_request *request, const struct netlink_veth_end *end)
{
    netlink_put_text(request, IFLA_IFNAME, end->name);
    netlink_put_u32(request, IFLA_NET_NS_FD, (uint32_t)end->netns_fd);
    if (end->mtu_bytes != 0) {
        netlink_put_u32(request, IFLA_MTU, end->mtu_bytes);
    }
}

int netlink_add_veth(int fd, const struct netlink_veth_end ends[2])
{
    struct netlink_request request;

    netlink_begin(&request, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &any_link,
                  sizeof(any_link));
    put_end(&request, &ends[0]);
    netlink_nest(&request, IFLA_LINKINFO);
    netlink_put_text(&request, IFLA_INFO_KIND, "veth");
    netlink_nest(&request, IFLA_INFO_DATA);
    netlink_nest(&request, VETH_INFO_PEER);
    netlink_put_body(&request, &any_link, sizeof(any_link));
    put_end(&request, &ends[1]);
    netlink_unnest(&request);
    netlink_unnest(&request);
    netlink_unnest(&request);
    return netlink_call(fd, &request);
}

int netlink_add_bridge(int fd, const char *name)
{
    struct netlink_request request;

    netlink_begin(&request, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &any_link,
                  sizeof(any_link));
    netlink_put_text(&request, IFLA_IFNAME, name);
    netlink_nest(&request, IFLA_LINKINFO);
    netlink_put_text(&request, IFLA_INFO_KIND, "bridge");
    netlink_unnest(&request);
    return netlink_call(fd, &request);
}

int netlink_delete_link(int fd, const char *name)
{
    struct netlink_request request;

    netlink_begin(&request, RTM_DELLINK, 0, &any_link, sizeof(any_link));
    netlink_put_text(&request, IFLA_IFNAME, name);
    return netlink_call(fd, &request);
}

int netlink_enslave(int fd, const char *name, const char *bridge)
{
    struct netlink_request request;
    uint32_t index = netlink_ifindex(fd, bridge);

    if (index == 0) {
        return ENODEV;
    }
    netlink_begin(&request, RTM_NEWLINK, 0, &any_link, sizeof(any_link));
    netlink_put_text(&request, IFLA_IFNAME, name);
    netlink_put_u32(&request, IFLA_MASTER, index);
    return netlink_call(fd, &request);
}

int netlink_set_up(int fd, const char *name, bool is_up)
{
    struct ifinfomsg link = {
        .ifi_family = AF_UNSPEC, .ifi_flags = is_up ? IFF_UP : 0, .ifi_change = IFF_UP};
    struct netlink_request request;

    netlink_begin(&request, RTM_NEWLINK, 0, &link, sizeof(link));
    netlink_put_text(&request, IFLA_IFNAME, name);
    return netlink_call(fd, &request);
}

int netlink_set_mtu(int fd, const char *name, uint32_t mtu_bytes)
{
    struct netlink_request request;

    netlink_begin(&request, RTM_NEWLINK, 0, &any_link, sizeof(any_link));
    netlink_put_text(&request, IFLA_IFNAME, name);
    netlink_put_u32(&request, IFLA_MTU, mtu_bytes);
    return netlink_call(fd, &request);
}

/* ---- addresses ---- */

static int change_address(int fd, uint16_t type, const char *name,
                          const struct io_prefix *address, const struct io_ip *peer)
{
    bool is_v4 = io_ip_is_v4(&address->ip);
    struct ifaddrmsg body = {.ifa_family = is_v4 ? AF_INET : AF_INET6,
                             .ifa_prefixlen = address->prefix_len,
                             /* No other host can have the address, and IPv6 duplicate
                              * address detection would delay the GID. */
                             .ifa_flags = is_v4 ? 0 : IFA_F_NODAD};
    size_t skip = is_v4 ? 12 : 0;
    size_t n_bytes = 16 - skip;
    struct netlink_request request;

    body.ifa_index = netlink_ifindex(fd, name);
    if (body.ifa_index == 0) {
        return ENODEV;
    }
    netlink_begin(&request, type,
                  (uint16_t)(type == RTM_NEWADDR ? NLM_F_CREATE | NLM_F_EXCL : 0), &body,
                  sizeof(body));
    netlink_put(&request, IFA_LOCAL, address->ip.bytes + skip, n_bytes);
    netlink_put(&request, IFA_ADDRESS, peer->bytes + skip, n_bytes);
    return netlink_call(fd, &request);
}

int netlink_add_address(int fd, const char *name, const struct io_prefix *address)
{
    return change_address(fd, RTM_NEWADDR, name, address, &address->ip);
}

int netlink_add_peer_address(int fd, const char *name, const struct io_prefix *address,
                             const struct io_ip *peer)
{
    return change_address(fd, RTM_NEWADDR, name, address, peer);
}

int netlink_delete_address(int fd, const char *name, const struct io_prefix *address)
{
    return change_address(fd, RTM_DELADDR, name, address, &address->ip);
}

/* ---- netem ---- */

/* Converts parts per 10^9 to netem's fraction of 2^32 - 1. */
static uint32_t share_of(uint32_t ppb)
{
    return (uint32_t)((uint64_t)ppb * UINT32_MAX / 1000000000U);
}

static void put_netem(struct netlink_request *request,
                      const struct netlink_impairment *impairment)
{
    const struct world_impairment *random = &impairment->random;
    struct tc_netem_qopt options = {
        .limit =
            impairment->queue_packets != 0 ? impairment->queue_packets : QUEUE_PACKETS,
        .loss = share_of(random->loss_ppb),
        .duplicate = share_of(random->duplicate_ppb),
        .gap = random->reorder_ppb != 0 ? 1 : 0,
    };
    struct tc_netem_corrupt corrupt = {.probability = share_of(random->corrupt_ppb)};
    struct tc_netem_reorder reorder = {.probability = share_of(random->reorder_ppb)};
    struct tc_netem_rate rate = {0};
    uint64_t bytes_per_s = impairment->rate_bps / 8;

    /* TCA_OPTIONS begins with a struct that is older than netlink attributes. */
    netlink_nest(request, TCA_OPTIONS);
    netlink_put_body(request, &options, sizeof(options));
    netlink_put(request, TCA_NETEM_LATENCY64, &impairment->delay_ns, 8);
    netlink_put(request, TCA_NETEM_JITTER64, &impairment->jitter_ns, 8);
    /* Zero values are sent as well, because the kernel keeps what a change does not name. */
    netlink_put(request, TCA_NETEM_CORRUPT, &corrupt, sizeof(corrupt));
    netlink_put(request, TCA_NETEM_REORDER, &reorder, sizeof(reorder));
    rate.rate = bytes_per_s >= UINT32_MAX ? UINT32_MAX : (uint32_t)bytes_per_s;
    if (bytes_per_s >= UINT32_MAX) {
        netlink_put(request, TCA_NETEM_RATE64, &bytes_per_s, 8);
    }
    netlink_put(request, TCA_NETEM_RATE, &rate, sizeof(rate));
    netlink_unnest(request);
}

int netlink_set_netem(int fd, const char *name,
                      const struct netlink_impairment *impairment)
{
    struct tcmsg body = {.tcm_family = AF_UNSPEC, .tcm_parent = TC_H_ROOT};
    struct netlink_request request;

    body.tcm_ifindex = (int)netlink_ifindex(fd, name);
    if (body.tcm_ifindex == 0) {
        return ENODEV;
    }
    netlink_begin(&request, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, &body,
                  sizeof(body));
    netlink_put_text(&request, TCA_KIND, "netem");
    put_netem(&request, impairment);
    return netlink_call(fd, &request);
}

/* ---- RDMA ---- */

#define RDMA_TYPE(command) RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command)

int netlink_add_rxe(int rdma_fd, const char *device, const char *netdev)
{
    struct netlink_request request;

    netlink_begin(&request, RDMA_TYPE(RDMA_NLDEV_CMD_NEWLINK), 0, NULL, 0);
    netlink_put_text(&request, RDMA_NLDEV_ATTR_DEV_NAME, device);
    netlink_put_text(&request, RDMA_NLDEV_ATTR_LINK_TYPE, "rxe");
    netlink_put_text(&request, RDMA_NLDEV_ATTR_NDEV_NAME, netdev);
    return netlink_call(rdma_fd, &request);
}

struct find {
    const char *prefix;
    bool is_whole; /* `prefix` is the whole name */
    uint32_t index;
    char name[64];
    bool is_found;
};

/* Examines one device of the kernel's list. */
static void look_at(struct find *find, const uint8_t *bytes, size_t n)
{
    uint32_t index = 0;
    char name[sizeof(find->name)] = "";

    for (size_t at = 0; at + NETLINK_HEAD_BYTES <= n;) {
        struct nlattr head;
        const uint8_t *value = bytes + at + NETLINK_HEAD_BYTES;
        size_t n_value;

        memcpy(&head, bytes + at, sizeof(head));
        if (head.nla_len < NETLINK_HEAD_BYTES || at + head.nla_len > n) {
            break;
        }
        n_value = (size_t)head.nla_len - NETLINK_HEAD_BYTES;
        if (head.nla_type == RDMA_NLDEV_ATTR_DEV_INDEX && n_value >= sizeof(index)) {
            memcpy(&index, value, sizeof(index));
        }
        if (head.nla_type == RDMA_NLDEV_ATTR_DEV_NAME && n_value <= sizeof(name)) {
            memcpy(name, value, n_value);
            name[sizeof(name) - 1] = '\0';
        }
        at += NLMSG_ALIGN((size_t)head.nla_len);
    }
    if (find->is_whole ? strcmp(name, find->prefix) == 0
                       : strncmp(name, find->prefix, strlen(find->prefix)) == 0) {
        find->index = index;
        find->is_found = true;
        memcpy(find->name, name, sizeof(name));
    }
}

/* Examines one reply. Returns false at the end of the list. */
static bool look_at_all(struct find *find, const uint8_t *bytes, size_t n)
{
    for (size_t at = 0; at + NLMSG_HDRLEN <= n;) {
        struct nlmsghdr header;

        memcpy(&header, bytes + at, sizeof(header));
        if (header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR ||
            header.nlmsg_len < NLMSG_HDRLEN || at + header.nlmsg_len > n) {
            return false;
        }
        look_at(find, bytes + at + NLMSG_HDRLEN, header.nlmsg_len - NLMSG_HDRLEN);
        at += NLMSG_ALIGN(header.nlmsg_len);
    }
    return true;
}

static int find_device(int rdma_fd, struct find *find)
{
    _Alignas(8) uint8_t answer[32768];
    struct netlink_request request;
    uint32_t seq;
    size_t n;
    int error;

    netlink_begin(&request, RDMA_TYPE(RDMA_NLDEV_CMD_GET), NLM_F_DUMP, NULL, 0);
    error = netlink_send(rdma_fd, &request, &seq);
    do {
        error = error == 0 ? netlink_receive(rdma_fd, seq, answer, sizeof(answer), &n)
                           : error;
    } while (error == 0 && look_at_all(find, answer, n));
    return error != 0 || find->is_found ? error : ENODEV;
}

int netlink_find_rdma(int rdma_fd, const char *prefix, char *out, size_t n_bytes)
{
    struct find find = {.prefix = prefix};
    int error = find_device(rdma_fd, &find);

    if (error == 0) {
        weft_format(out, n_bytes, "%s", find.name);
    }
    return error;
}

int netlink_delete_rdma(int rdma_fd, const char *device)
{
    struct find find = {.prefix = device, .is_whole = true};
    struct netlink_request request;
    int error = find_device(rdma_fd, &find);

    if (error != 0) {
        return error;
    }
    netlink_begin(&request, RDMA_TYPE(RDMA_NLDEV_CMD_DELLINK), 0, NULL, 0);
    netlink_put_u32(&request, RDMA_NLDEV_ATTR_DEV_INDEX, find.index);
    return netlink_call(rdma_fd, &request);
}
