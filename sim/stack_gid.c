/* The GID tables as the NIC sees them, and address resolution for modify_qp(RTR) (Linux
 * drivers/infiniband/core/cache.c, addr.c, verbs.c). */
#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "sim/stack_impl.h"

/* Reports a change, once for each entry, because v1 and v2 of an address are two entries.
 * Without a listener the host is still being built, which is not logged. */
static void tell(struct sim_netdev *netdev, const struct sim_ip *ip, const char *change,
                 uint32_t n_changed)
{
    struct weft_trace *trace = sim_trace(netdev->stack->engine);
    const struct sim_netdev *holder = sim_netdev_holder(netdev);
    char text[SIM_IP_TEXT_BYTES];
    if (n_changed == 0 || holder->gids_changed == NULL) {
        return;
    }
    if (weft_trace_on(trace, WEFT_TRACE_STORY)) {
        weft_trace_event(trace, sim_now_ns(netdev->stack->engine), netdev->stack->host,
                         netdev->name, "gid", "ip=%s change=%s slots=%u",
                         ip == NULL ? "-" : sim_ip_format(ip, text), change, n_changed);
    }
    for (uint32_t i = 0; i < n_changed; i++) {
        holder->gids_changed(holder->gids_context, holder->port);
    }
}

int sim_netdev_add_gid(struct sim_netdev *netdev, const struct sim_ip *ip)
{
    struct sim_netdev *holder = sim_netdev_holder(netdev);
    if (holder->gids.n_slots == 0) {
        return 0;
    }
    uint32_t n_changed;
    int error = sim_gid_table_add(&holder->gids, ip, netdev->ifindex, &n_changed);
    tell(netdev, ip, "added", n_changed);
    return error;
}

int sim_netdev_del_gid(struct sim_netdev *netdev, const struct sim_ip *ip)
{
    struct sim_netdev *holder = sim_netdev_holder(netdev);
    uint32_t n_changed = sim_gid_table_del(&holder->gids, ip, netdev->ifindex);
    tell(netdev, ip, "deleted", n_changed);
    return n_changed == 0 ? EADDRNOTAVAIL : 0;
}

void sim_netdev_set_default_gids(struct sim_netdev *netdev)
{
    struct sim_netdev *holder = sim_netdev_holder(netdev);
    tell(netdev, &netdev->link_local, "added",
         sim_gid_table_set_default(&holder->gids, netdev->ifindex, netdev->mac));
}

void sim_netdev_drop_gids(struct sim_netdev *netdev, bool with_default)
{
    struct sim_netdev *holder = sim_netdev_holder(netdev);
    tell(netdev, NULL, "deleted",
         sim_gid_table_drop(&holder->gids, netdev->ifindex, with_default));
}

void sim_netdev_clear_gids(struct sim_netdev *netdev)
{
    tell(netdev, NULL, "cleared", sim_gid_table_clear(&netdev->gids));
}

int sim_stack_del_gid(struct sim_stack *stack, uint32_t ifindex, const struct sim_ip *ip)
{
    struct sim_netdev *netdev = sim_stack_find(stack, ifindex);
    return netdev == NULL ? EADDRNOTAVAIL : sim_netdev_del_gid(netdev, ip);
}

int sim_stack_add_gid(struct sim_stack *stack, uint32_t ifindex, const struct sim_ip *ip)
{
    struct sim_netdev *netdev = sim_stack_find(stack, ifindex);
    return netdev == NULL ? ENODEV : sim_netdev_add_gid(netdev, ip);
}

int sim_stack_gid(const struct sim_stack *stack, const struct sim_port *port,
                  uint32_t index, struct sim_gid *out)
{
    const struct sim_netdev *netdev = sim_stack_netdev_of(stack, port);
    const struct sim_gid_slot *slot;
    if (netdev == NULL) {
        return EINVAL;
    }
    int error = sim_gid_table_get(&netdev->gids, index, &slot);
    if (error != 0) {
        return error;
    }
    *out = (struct sim_gid){.gid = sim_gid_of_ip(&slot->ip),
                            .type = slot->type,
                            .ifindex = slot->ifindex,
                            .vlan_id = sim_stack_find(stack, slot->ifindex)->vlan_id,
                            .valid = true};
    return 0;
}

uint32_t sim_stack_gid_length(const struct sim_stack *stack, const struct sim_port *port)
{
    const struct sim_netdev *netdev = sim_stack_netdev_of(stack, port);
    return netdev == NULL ? 0 : netdev->gids.n_slots;
}

bool sim_stack_owns_gid(const struct sim_stack *stack, const struct sim_port *port,
                        const union ibv_gid *gid, uint16_t vlan_id)
{
    const struct sim_netdev *holder = sim_stack_netdev_of(stack, port);
    const struct sim_netdev *netdev = sim_stack_vlan_of(stack, port, vlan_id);
    struct sim_ip ip = sim_ip_of_gid(gid);
    if (netdev == NULL) {
        return false;
    }
    uint32_t ifindex = netdev->master != NULL ? netdev->master->ifindex : netdev->ifindex;
    return sim_gid_table_has(&holder->gids, &ip, ifindex);
}

void sim_stack_gid_hold(struct sim_stack *stack, const struct sim_port *port,
                        uint32_t index)
{
    struct sim_netdev *netdev = sim_stack_netdev_of(stack, port);
    if (netdev != NULL) {
        sim_gid_table_hold(&netdev->gids, index);
    }
}

void sim_stack_gid_release(struct sim_stack *stack, const struct sim_port *port,
                           uint32_t index)
{
    struct sim_netdev *netdev = sim_stack_netdev_of(stack, port);
    if (netdev != NULL) {
        sim_gid_table_release(&netdev->gids, index);
    }
}

void sim_stack_watch_gids(struct sim_stack *stack, const struct sim_port *port,
                          void (*changed)(void *context, struct sim_port *port),
                          void *context)
{
    struct sim_netdev *netdev = sim_stack_netdev_of(stack, port);
    weft_check(netdev != NULL);
    netdev->gids_changed = changed;
    netdev->gids_context = context;
}

/* ---- resolution ---- */

/* Resolves from `from` on `netdev`, to which the lookup is bound (addr_resolve). IPv4
 * checks that the host has the source (ip_route_output_key_hash_rcu), which fails for the
 * GID of a peer's address. */
static int resolve_unicast(struct sim_netdev *netdev, const struct sim_ip *from,
                           const struct sim_ip *to, struct sim_resolve *resolve)
{
    bool is_v4 = sim_ip_is_v4(to);
    struct sim_hop hop;
    if (is_v4 != sim_ip_is_v4(from)) {
        return EINVAL;
    }
    if (is_v4 && sim_stack_owner(netdev->stack, from) == NULL) {
        return ENETUNREACH;
    }
    if (is_v4 && sim_ip_is_zero(to)) {
        return ENODEV; /* this host's loopback, which has no RDMA device */
    }
    if (sim_netdev_is_broadcast(netdev, to)) {
        resolve->destination_mac = SIM_MAC_BROADCAST;
        return 0;
    }
    if (sim_netdev_owns(netdev, to)) {
        resolve->destination_mac = netdev->mac;
        return 0;
    }
    int error = sim_route_lookup(netdev->stack, to, netdev, &hop);
    return error != 0 ? error : sim_neigh_resolve(netdev, &hop.next, resolve);
}

int sim_stack_resolve(struct sim_stack *stack, struct sim_port *port, uint32_t sgid_index,
                      const union ibv_gid *dgid, struct sim_resolve *resolve)
{
    struct sim_netdev *netdev = sim_stack_netdev_of(stack, port);
    const struct sim_gid_slot *slot;
    resolve->entry = NULL;
    if (netdev == NULL) {
        return ENODEV;
    }
    int error = sim_gid_table_get(&netdev->gids, sgid_index, &slot);
    if (error != 0) {
        return error;
    }
    struct sim_ip to = sim_ip_of_gid(dgid);
    if (sim_ip_is_multicast(&to)) {
        resolve->destination_mac = sim_mac_of_group(&to);
        return 0;
    }
    if (slot->type == IBV_GID_TYPE_ROCE_V1 && sim_ip_is_link_local_v6(&to)) {
        resolve->destination_mac = sim_mac_of_ip(&to);
        return 0;
    }
    return resolve_unicast(sim_stack_find(stack, slot->ifindex), &slot->ip, &to, resolve);
}

void sim_stack_resolve_cancel(struct sim_stack *stack, struct sim_resolve *resolve)
{
    (void)stack;
    sim_neigh_cancel(resolve);
}
