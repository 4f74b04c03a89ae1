#include "sim/stack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/link.h"
#include "sim/stack_impl.h"

#define FIRST_IFINDEX 2 /* 1 is lo */

struct sim_stack *sim_stack_create(struct sim_engine *engine,
                                   const struct sim_stack_config *config)
{
    struct sim_stack *stack = weft_calloc(1, sizeof *stack);
    stack->engine = engine;
    stack->host = config->host;
    stack->sysctl = config->sysctl;
    stack->forward_accept = config->forward_accept;
    stack->n_input_drop = config->n_input_drop;
    if (config->n_input_drop > 0) {
        size_t n_bytes = config->n_input_drop * sizeof *config->input_drop;
        stack->input_drop = weft_alloc(n_bytes);
        memcpy(stack->input_drop, config->input_drop, n_bytes);
    }
    stack->tcp = sim_tcp_create(stack, config->tcp_chunk_bytes);
    sim_stack_loopback_init(stack);
    return stack;
}

void sim_stack_destroy(struct sim_stack *stack)
{
    if (stack == NULL) {
        return;
    }
    sim_tcp_destroy(stack->tcp);
    sim_udp_destroy(stack);
    sim_stack_loopback_fini(stack);
    for (uint32_t i = 0; i < stack->n_netdevs; i++) {
        struct sim_netdev *netdev = stack->netdevs[i];
        sim_neigh_fini(netdev);
        sim_bond_free(netdev->bond);
        sim_gid_table_fini(&netdev->gids);
        free(netdev->addresses);
        free(netdev);
    }
    free(stack->netdevs);
    free(stack->routes);
    free(stack->input_drop);
    free(stack);
}

void sim_stack_reset_streams(struct sim_stack *stack)
{
    if (!stack->is_dead) {
        sim_tcp_reset_all(stack->tcp);
    }
}

void sim_stack_reset_streams_of(struct sim_stack *stack,
                                bool (*is_its)(const void *waker, const void *who),
                                const void *who)
{
    if (!stack->is_dead) {
        sim_tcp_reset_of(stack->tcp, is_its, who);
    }
}

void sim_stack_kill(struct sim_stack *stack)
{
    stack->is_dead = true;
    sim_tcp_stop(stack->tcp);
    for (uint32_t i = 0; i < stack->n_netdevs; i++) {
        sim_neigh_stop(stack->netdevs[i]);
        sim_bond_stop(stack->netdevs[i]->bond);
    }
}

/* ---- netdevs ---- */

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

uint32_t sim_stack_add_port(struct sim_stack *stack, struct sim_port *port,
                            const struct sim_gid_config *gids)
{
    struct sim_netdev *netdev = sim_stack_new_netdev(stack, port);
    sim_gid_table_init(&netdev->gids, gids->n_slots, gids->has_roce_v1, gids->n_foreign,
                       netdev->ifindex, netdev->mac);
    return netdev->ifindex;
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

uint32_t sim_stack_add_vlan(struct sim_stack *stack, uint32_t lower, uint16_t vlan_id)
{
    struct sim_netdev *below = sim_stack_find(stack, lower);
    if (below == NULL || below->lower != NULL || vlan_id == 0 || vlan_id > 4094 ||
        sim_stack_vlan_of(stack, below->port, vlan_id) != NULL) {
        return 0;
    }
    struct sim_netdev *netdev = sim_stack_new_netdev(stack, below->port);
    netdev->lower = below;
    netdev->vlan_id = vlan_id;
    netdev->is_management = below->is_management;
    weft_format(netdev->name, sizeof netdev->name, "%s.%u", below->name, vlan_id);
    (void)sim_netdev_add_gid(netdev, &netdev->link_local);
    return netdev->ifindex;
}

bool sim_stack_has_vlan(const struct sim_stack *stack, const struct sim_port *port,
                        uint16_t vlan_id)
{
    return sim_stack_vlan_of(stack, port, vlan_id) != NULL;
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

uint32_t sim_stack_add_management(struct sim_stack *stack, struct sim_port *port)
{
    struct sim_netdev *netdev = sim_stack_new_netdev(stack, port);
    netdev->is_management = true;
    return netdev->ifindex;
}

struct sim_netdev *sim_stack_find(const struct sim_stack *stack, uint32_t ifindex)
{
    if (ifindex < FIRST_IFINDEX || ifindex - FIRST_IFINDEX >= stack->n_netdevs) {
        return NULL;
    }
    return stack->netdevs[ifindex - FIRST_IFINDEX];
}

struct sim_netdev *sim_stack_netdev_of(const struct sim_stack *stack,
                                       const struct sim_port *port)
{
    return sim_stack_vlan_of(stack, port, 0);
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

/* ---- from the ports ---- */

static void stack_input(struct sim_stack *stack, struct sim_port *port,
                        struct sim_packet *packet)
{
    struct sim_netdev *netdev = sim_stack_vlan_of(stack, port, packet->vlan_id);
    if (netdev != NULL && netdev->master != NULL) {
        /* Packets on the backup port are dropped. */
        netdev = netdev->master->port == port ? netdev->master : NULL;
    }
    if (stack->is_dead || netdev == NULL) {
        sim_packet_free(packet);
    } else if (packet->kind == SIM_FRAME_NEIGH) {
        sim_neigh_input(netdev, packet);
    } else if (packet->kind == SIM_FRAME_UDP) {
        sim_udp_input(netdev, packet);
    } else {
        sim_stack_tcp_input(netdev, packet);
    }
}

static void stack_carrier(struct sim_stack *stack, struct sim_port *port, bool is_up)
{
    for (uint32_t i = 0; i < stack->n_netdevs; i++) {
        struct sim_netdev *netdev = stack->netdevs[i];
        if (netdev->port != port || netdev->bond != NULL || stack->is_dead) {
            continue;
        }
        if (netdev->master != NULL) {
            sim_bond_carrier(netdev->master->bond);
        } else if (!is_up) {
            sim_neigh_flush(netdev);
        }
    }
}

const struct sim_stack_ops sim_stack_ops = {.input = stack_input,
                                            .carrier = stack_carrier};
