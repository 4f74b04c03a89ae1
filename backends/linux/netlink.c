/* Reads links and addresses through libnl. No other file needs libnl. */
#include <errno.h>
#include <linux/if.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "backends/linux/private.h"
#include "base/text.h"

/* Converts libnl's error numbers to errno. */
static int errno_of(int nl_error)
{
    switch (-nl_error) {
    case NLE_NOMEM:
        return ENOMEM;
    case NLE_PERM:
        return EPERM;
    case NLE_AF_NOSUPPORT:
    case NLE_PROTO_MISMATCH:
        return EAFNOSUPPORT;
    default: /* a socket could not be opened; libnl does not report its errno */
        return errno == EMFILE || errno == ENFILE ? errno : EIO;
    }
}

static int by_ifindex(const void *a, const void *b)
{
    uint32_t left = ((const struct io_netdev *)a)->ifindex;
    uint32_t right = ((const struct io_netdev *)b)->ifindex;
    return (left > right) - (left < right);
}

/* Returns true if the netdev with this index is a bond or a team, whose ports share its
 * addresses. Ports of a bridge or a VRF have a master, too, but not its addresses. */
static bool is_bond(struct nl_cache *links, int ifindex)
{
    for (struct nl_object *at = nl_cache_get_first(links); at != NULL;
         at = nl_cache_get_next(at)) {
        struct rtnl_link *link = (struct rtnl_link *)at;
        const char *type = rtnl_link_get_type(link);

        if (rtnl_link_get_ifindex(link) == ifindex) {
            return type != NULL &&
                   (strcmp(type, "bond") == 0 || strcmp(type, "team") == 0);
        }
    }
    return false;
}

static void read_links(struct nl_cache *links, struct io_netdev **out, uint32_t *out_n)
{
    uint32_t n = 0;
    struct io_netdev *netdevs =
        weft_calloc((size_t)nl_cache_nitems(links) + 1, sizeof *netdevs);
    for (struct nl_object *at = nl_cache_get_first(links); at != NULL;
         at = nl_cache_get_next(at)) {
        struct rtnl_link *link = (struct rtnl_link *)at;
        unsigned flags = rtnl_link_get_flags(link);
        struct nl_addr *mac = rtnl_link_get_addr(link);
        if ((flags & IFF_LOOPBACK) != 0) {
            continue;
        }
        struct io_netdev *netdev = &netdevs[n++];
        netdev->ifindex = (uint32_t)rtnl_link_get_ifindex(link);
        netdev->mtu_bytes = rtnl_link_get_mtu(link);
        if (is_bond(links, rtnl_link_get_master(link))) {
            netdev->master = (uint32_t)rtnl_link_get_master(link);
        }
        netdev->is_up = (flags & IFF_UP) != 0 && (flags & IFF_LOWER_UP) != 0;
        weft_format(netdev->name, sizeof netdev->name, "%s", rtnl_link_get_name(link));
        if (mac != NULL && nl_addr_get_len(mac) == sizeof netdev->mac) {
            memcpy(netdev->mac, nl_addr_get_binary_addr(mac), sizeof netdev->mac);
        }
    }
    qsort(netdevs, n, sizeof *netdevs, by_ifindex);
    *out = netdevs;
    *out_n = n;
}

/* An address and its sort keys. */
struct found {
    struct io_prefix prefix;
    int ifindex;
    bool is_v6;
    uint32_t created; /* hundredths of a second since boot */
    uint32_t order;   /* position in the kernel's list */
};

/* Orders addresses by their creation. The kernel lists IPv4 in that order but IPv6 newest first,
 * so IPv6 addresses of the same tick are sorted in reverse. */
static int by_age(const void *a, const void *b)
{
    const struct found *left = a;
    const struct found *right = b;
    if (left->created != right->created) {
        return left->created < right->created ? -1 : 1;
    }
    if (left->is_v6 != right->is_v6) {
        return left->is_v6 ? 1 : -1;
    }
    int listed = left->order < right->order ? -1 : 1;
    return left->is_v6 ? -listed : listed;
}

/* Returns false if it is not an IP address. */
static bool read_address(struct rtnl_addr *from, struct found *out)
{
    struct nl_addr *local = rtnl_addr_get_local(from);
    int family = rtnl_addr_get_family(from);
    if (local == NULL || (family != AF_INET && family != AF_INET6)) {
        return false;
    }
    const uint8_t *bytes = nl_addr_get_binary_addr(local);
    *out = (struct found){.ifindex = rtnl_addr_get_ifindex(from),
                          .is_v6 = family == AF_INET6,
                          .created = rtnl_addr_get_create_time(from)};
    out->prefix.prefix_len = (uint8_t)rtnl_addr_get_prefixlen(from);
    if (family == AF_INET) {
        out->prefix.ip = io_ip_v4(bytes[0], bytes[1], bytes[2], bytes[3]);
    } else {
        memcpy(out->prefix.ip.bytes, bytes, sizeof out->prefix.ip.bytes);
    }
    return true;
}

static void read_addresses(struct nl_cache *addresses, struct io_netdev *netdevs,
                           uint32_t n_netdevs)
{
    uint32_t n = 0;
    struct found *found =
        weft_calloc((size_t)nl_cache_nitems(addresses) + 1, sizeof *found);
    for (struct nl_object *at = nl_cache_get_first(addresses); at != NULL;
         at = nl_cache_get_next(at)) {
        if (read_address((struct rtnl_addr *)at, &found[n])) {
            found[n].order = n;
            n++;
        }
    }
    qsort(found, n, sizeof *found, by_age);
    for (uint32_t i = 0; i < n_netdevs; i++) {
        struct io_netdev *netdev = &netdevs[i];
        netdev->addresses = weft_calloc((size_t)n + 1, sizeof *netdev->addresses);
        for (uint32_t j = 0; j < n; j++) {
            if ((uint32_t)found[j].ifindex == netdev->ifindex) {
                netdev->addresses[netdev->n_addresses++] = found[j].prefix;
            }
        }
    }
    free(found);
}

int linux_netlink_netdevs(struct io_netdev **out, uint32_t *out_n)
{
    struct nl_cache *links = NULL;
    struct nl_cache *addresses = NULL;
    struct nl_sock *sock = nl_socket_alloc();
    *out = NULL;
    *out_n = 0;
    if (sock == NULL) { /* no memory, or no library (netlink_late.c) */
        int shortage = linux_descriptor_shortage();
        return shortage != 0 ? shortage : ENOMEM;
    }
    int result = nl_connect(sock, NETLINK_ROUTE);
    if (result == 0) {
        result = rtnl_link_alloc_cache(sock, AF_UNSPEC, &links);
    }
    if (result == 0) {
        result = rtnl_addr_alloc_cache(sock, &addresses);
    }
    if (result == 0) {
        read_links(links, out, out_n);
        read_addresses(addresses, *out, *out_n);
    }
    nl_cache_free(addresses);
    nl_cache_free(links);
    nl_socket_free(sock);
    return result == 0 ? 0 : errno_of(result);
}
