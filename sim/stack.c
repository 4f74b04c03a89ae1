#include "sim/stack.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/link.h"
#include "sim/stack_impl.h"

static const struct sim_tcp_ops tcp_ops = {
    .input = sim_tcp_input,
    .unreachable = sim_tcp_unreachable,
};

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
    stack->tcp_ops = &tcp_ops;
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

uint32_t sim_stack_add_port(struct sim_stack *stack, struct sim_port *port,
                            const struct sim_gid_config *gids)
{
    struct sim_netdev *netdev = sim_stack_new_netdev(stack, port);
    sim_gid_table_init(&netdev->gids, gids->n_slots, gids->has_roce_v1, gids->n_foreign,
                       netdev->ifindex, netdev->mac);
    return netdev->ifindex;
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

uint32_t sim_stack_add_management(struct sim_stack *stack, struct sim_port *port)
{
    struct sim_netdev *netdev = sim_stack_new_netdev(stack, port);
    netdev->is_management = true;
    return netdev->ifindex;
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
