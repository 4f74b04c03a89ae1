/* Netdevs of a host stack, and lookups of their addresses (Linux net/ipv4/devinet.c). */
#include "base/check.h"
#include "base/text.h"
#include "sim/stack_impl.h"

#define FIRST_IFINDEX 2 /* 1 is lo */

struct sim_netdev *sim_stack_find(const struct sim_stack *stack, uint32_t ifindex)
{
    if (ifindex < FIRST_IFINDEX || ifindex - FIRST_IFINDEX >= stack->n_netdevs) {
        return NULL;
    }
    return stack->netdevs[ifindex - FIRST_IFINDEX];
}

struct sim_netdev *sim_stack_vlan_of(const struct sim_stack *stack,
                                     const struct sim_port *port, uint16_t vlan_id)
{
    for (uint32_t i = 0; i < stack->n_netdevs; i++) {
        struct sim_netdev *netdev = stack->netdevs[i];
        if (netdev->port == port && netdev->vlan_id == vlan_id) {
            return netdev;
        }
    }
    return NULL;
}

struct sim_netdev *sim_stack_netdev_of(const struct sim_stack *stack,
                                       const struct sim_port *port)
{
    return sim_stack_vlan_of(stack, port, 0);
}

bool sim_stack_has_vlan(const struct sim_stack *stack, const struct sim_port *port,
                        uint16_t vlan_id)
{
    return sim_stack_vlan_of(stack, port, vlan_id) != NULL;
}

uint32_t sim_stack_n_netdevs(const struct sim_stack *stack)
{
    return stack->n_netdevs;
}

struct sim_netdev_info sim_stack_netdev(const struct sim_stack *stack, uint32_t index)
{
    const struct sim_netdev *netdev = stack->netdevs[index];
    return (struct sim_netdev_info){
        .ifindex = netdev->ifindex,
        .name = netdev->name,
        .mac = netdev->mac,
        .mtu_bytes = sim_port_mtu(netdev->port),
        .speed_bps = sim_port_rate(netdev->port),
        .is_up = sim_port_is_up(netdev->port),
        .is_management = netdev->is_management,
        .vlan_id = netdev->vlan_id,
        .master = netdev->master == NULL ? 0 : netdev->master->ifindex,
        .addresses = netdev->addresses,
        .n_addresses = netdev->n_addresses};
}

uint32_t sim_stack_ifindex(const struct sim_stack *stack, const struct sim_port *port,
                           uint16_t vlan_id)
{
    const struct sim_netdev *netdev = sim_stack_vlan_of(stack, port, vlan_id);
    return netdev == NULL ? 0 : netdev->ifindex;
}

struct sim_netdev *sim_stack_new_netdev(struct sim_stack *stack, struct sim_port *port)
{
    struct sim_netdev *netdev = weft_calloc(1, sizeof *netdev);
    netdev->stack = stack;
    netdev->port = port;
    netdev->ifindex = FIRST_IFINDEX + stack->n_netdevs;
    netdev->mac = sim_port_mac(port);
    weft_format(netdev->name, sizeof netdev->name, "%s", sim_port_name(port));
    netdev->link_local = sim_ip_of_mac(netdev->mac);
    stack->netdevs =
        weft_realloc(stack->netdevs, (stack->n_netdevs + 1) * sizeof(*stack->netdevs));
    stack->netdevs[stack->n_netdevs++] = netdev;
    sim_port_set_encoder(port, sim_stack_encode);
    return netdev;
}

void sim_netdev_send(struct sim_netdev *netdev, struct sim_packet *packet)
{
    /* A forwarded packet leaves with the tag of the outgoing netdev, not of the incoming
     * one. */
    packet->wire_bytes -= packet->vlan_id != 0 ? SIM_TAG_BYTES : 0;
    packet->vlan_id = netdev->vlan_id;
    packet->wire_bytes += packet->vlan_id != 0 ? SIM_TAG_BYTES : 0;
    packet->source_mac = netdev->mac;
    sim_port_send(netdev->port, packet);
}

/* ---- addresses ---- */

struct sim_address *sim_netdev_address(const struct sim_netdev *netdev,
                                       const struct sim_ip *ip)
{
    for (uint32_t i = 0; i < netdev->n_addresses; i++) {
        if (sim_ip_equal(&netdev->addresses[i].ip, ip)) {
            return &netdev->addresses[i];
        }
    }
    return NULL;
}

bool sim_address_covers(const struct sim_address *address, const struct sim_ip *ip)
{
    return sim_ip_in_prefix(ip, &address->peer, address->prefix_len);
}

bool sim_netdev_owns(const struct sim_netdev *netdev, const struct sim_ip *ip)
{
    return sim_ip_equal(&netdev->link_local, ip) ||
           sim_netdev_address(netdev, ip) != NULL;
}

struct sim_netdev *sim_stack_owner(const struct sim_stack *stack, const struct sim_ip *ip)
{
    for (uint32_t i = 0; i < stack->n_netdevs; i++) {
        if (sim_netdev_owns(stack->netdevs[i], ip)) {
            return stack->netdevs[i];
        }
    }
    return NULL;
}

bool sim_netdev_select(const struct sim_netdev *netdev, const struct sim_ip *to,
                       struct sim_ip *out)
{
    const struct sim_address *first = NULL;
    for (uint32_t i = 0; i < netdev->n_addresses; i++) {
        const struct sim_address *own = &netdev->addresses[i];
        if (own->is_secondary) {
            continue;
        }
        if (sim_address_covers(own, to)) {
            *out = own->ip;
            return true;
        }
        if (first == NULL && sim_ip_is_v4(&own->ip) == sim_ip_is_v4(to) &&
            !sim_ip_is_link_local_v6(&own->ip)) {
            first = own;
        }
    }
    if (first != NULL && !sim_ip_is_link_local_v6(to)) {
        *out = first->ip;
        return true;
    }
    *out = netdev->link_local;
    return !sim_ip_is_v4(to);
}

bool sim_netdev_is_broadcast(const struct sim_netdev *netdev, const struct sim_ip *ip)
{
    if (!sim_ip_is_v4(ip)) {
        return false;
    }
    const struct sim_ip everybody = sim_ip_v4(255, 255, 255, 255);
    if (sim_ip_equal(ip, &everybody)) {
        return true;
    }
    for (uint32_t i = 0; i < netdev->n_addresses; i++) {
        const struct sim_address *own = &netdev->addresses[i];
        if (own->prefix_len < 31 && sim_address_covers(own, ip) &&
            sim_ip_in_prefix(ip, &everybody, 0) && sim_ip_is_last(ip, own->prefix_len)) {
            return true;
        }
    }
    return false;
}
