/* Addresses of netdevs, with their routes and GIDs (Linux net/ipv4/devinet.c,
 * net/ipv6/addrconf.c, drivers/infiniband/core/roce_gid_mgmt.c). */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/stack_impl.h"

/* Returns the address in the GID table: for an IPv4 address its peer's (ifa_address,
 * which without a peer is the address itself), for an IPv6 address its own. */
static const struct sim_ip *gid_of(const struct sim_address *address)
{
    return sim_ip_is_v4(&address->ip) ? &address->peer : &address->ip;
}

/* Returns true for an IPv4 address in the subnet of an earlier one with the same mask. */
static bool is_secondary(const struct sim_netdev *netdev,
                         const struct sim_address *address)
{
    for (uint32_t i = 0; i < netdev->n_addresses; i++) {
        const struct sim_address *own = &netdev->addresses[i];
        if (!own->is_secondary && own->prefix_len == address->prefix_len &&
            sim_ip_is_v4(&address->ip) && sim_address_covers(own, &address->peer)) {
            return true;
        }
    }
    return false;
}

static int put_address(struct sim_stack *stack, uint32_t ifindex,
                       const struct sim_address *like)
{
    struct sim_netdev *netdev = sim_stack_find(stack, ifindex);
    if (netdev == NULL) {
        return ENODEV;
    }
    if (sim_netdev_owns(netdev, &like->ip)) {
        return EEXIST;
    }
    struct sim_address address = *like;
    address.is_secondary = is_secondary(netdev, &address);
    netdev->addresses = weft_realloc(netdev->addresses, (netdev->n_addresses + 1) *
                                                            sizeof *netdev->addresses);
    netdev->addresses[netdev->n_addresses++] = address;
    sim_route_add(stack, &(struct sim_route){
                             .to = {.ip = address.peer, .prefix_len = address.prefix_len},
                             .netdev = netdev,
                             .is_connected = true});
    /* The GID of a peer's address may exist already. */
    int error = sim_netdev_add_gid(netdev, gid_of(&address));
    return error == EEXIST ? 0 : error;
}

int sim_stack_add_address(struct sim_stack *stack, uint32_t ifindex,
                          const struct sim_prefix *address)
{
    return put_address(stack, ifindex,
                       &(struct sim_address){.ip = address->ip,
                                             .prefix_len = address->prefix_len,
                                             .peer = address->ip});
}

int sim_stack_add_peer_address(struct sim_stack *stack, uint32_t ifindex,
                               const struct sim_ip *ip, const struct sim_prefix *peer)
{
    return put_address(stack, ifindex,
                       &(struct sim_address){
                           .ip = *ip, .prefix_len = peer->prefix_len, .peer = peer->ip});
}

static void drop_address(struct sim_netdev *netdev, struct sim_address *address)
{
    const struct sim_ip gid = *gid_of(address);
    sim_route_del_connected(
        netdev->stack, netdev,
        &(struct sim_prefix){.ip = address->peer, .prefix_len = address->prefix_len});
    size_t n_after = (size_t)(netdev->addresses + netdev->n_addresses - (address + 1));
    memmove(address, address + 1, n_after * sizeof *address);
    netdev->n_addresses--;
    (void)sim_netdev_del_gid(netdev, &gid);
}

/* Returns the next secondary in the subnet of `gone`, or NULL. */
static struct sim_address *secondary_of(const struct sim_netdev *netdev,
                                        const struct sim_address *gone)
{
    for (uint32_t i = 0; i < netdev->n_addresses; i++) {
        struct sim_address *own = &netdev->addresses[i];
        if (own->is_secondary && own->prefix_len == gone->prefix_len &&
            sim_address_covers(gone, &own->peer)) {
            return own;
        }
    }
    return NULL;
}

int sim_stack_del_address(struct sim_stack *stack, uint32_t ifindex,
                          const struct sim_ip *ip)
{
    struct sim_netdev *netdev = sim_stack_find(stack, ifindex);
    struct sim_address *found = netdev == NULL ? NULL : sim_netdev_address(netdev, ip);
    if (found == NULL) {
        return EADDRNOTAVAIL;
    }
    const struct sim_address gone = *found;
    drop_address(netdev, found);
    if (gone.is_secondary || !sim_ip_is_v4(ip)) {
        return 0;
    }
    struct sim_address *heir = secondary_of(netdev, &gone);
    if (heir != NULL && stack->sysctl.promote_secondaries != 0) {
        /* It moves behind the other primaries, and is announced like a new address. Its
         * GID is added again, in case it was equal to the old primary's and was removed
         * with it. */
        struct sim_address promoted = *heir;
        promoted.is_secondary = false;
        size_t n_after = (size_t)(netdev->addresses + netdev->n_addresses - (heir + 1));
        memmove(heir, heir + 1, n_after * sizeof *heir);
        netdev->addresses[netdev->n_addresses - 1] = promoted;
        (void)sim_netdev_add_gid(netdev, gid_of(&promoted));
        return 0;
    }
    for (; heir != NULL; heir = secondary_of(netdev, &gone)) {
        drop_address(netdev, heir);
    }
    return 0;
}

void sim_stack_set_promotion(struct sim_stack *stack, bool on)
{
    stack->sysctl.promote_secondaries = on;
}

/* ---- GIDs of a new device ---- */

static void scan_v4(struct sim_netdev *netdev, bool of_secondaries)
{
    for (uint32_t i = 0; i < netdev->n_addresses; i++) {
        const struct sim_address *own = &netdev->addresses[i];
        if (sim_ip_is_v4(&own->ip) && own->is_secondary == of_secondaries) {
            (void)sim_netdev_add_gid(netdev, gid_of(own));
        }
    }
}

/* Adds IPv6 GIDs. ipv6_link_dev_addr keeps the wider scope first, and within it the
 * newest. */
static void scan_v6(struct sim_netdev *netdev, bool of_link_local)
{
    for (uint32_t i = netdev->n_addresses; i-- > 0;) {
        const struct sim_address *own = &netdev->addresses[i];
        if (!sim_ip_is_v4(&own->ip) &&
            sim_ip_is_link_local_v6(&own->ip) == of_link_local) {
            (void)sim_netdev_add_gid(netdev, gid_of(own));
        }
    }
}

void sim_netdev_scan(struct sim_netdev *netdev)
{
    scan_v4(netdev, false);
    scan_v4(netdev, true);
    scan_v6(netdev, false);
    scan_v6(netdev, true);
    (void)sim_netdev_add_gid(netdev, &netdev->link_local);
}

int sim_stack_scan_gids(struct sim_stack *stack, const struct sim_port *port)
{
    struct sim_netdev *netdev = sim_stack_netdev_of(stack, port);
    if (netdev == NULL || netdev->gids.n_slots == 0) {
        return ENODEV;
    }
    sim_netdev_clear_gids(netdev);
    for (uint32_t i = 0; i < stack->n_netdevs; i++) {
        if (sim_netdev_holder(stack->netdevs[i]) == netdev) {
            sim_netdev_scan(stack->netdevs[i]);
        }
    }
    return 0;
}
