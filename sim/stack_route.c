/* Routes, and TCP packets that leave, enter, pass or stay in the host. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/stack_impl.h"

/* Delay of packets from the host to itself, roughly that of a softirq; chosen. */
#define LOOPBACK_PS ((weft_ps)5000000)
#define ROCE_UDP_PORT 4791

struct sim_looped {
    struct sim_looped *next;
    weft_ps arrival;
    struct sim_packet *packet;
};

void sim_route_add(struct sim_stack *stack, const struct sim_route *route)
{
    stack->routes =
        weft_realloc(stack->routes, (stack->n_routes + 1) * sizeof *stack->routes);
    stack->routes[stack->n_routes++] = *route;
}

void sim_route_del_connected(struct sim_stack *stack, const struct sim_netdev *netdev,
                             const struct sim_prefix *address)
{
    for (uint32_t i = 0; i < stack->n_routes; i++) {
        struct sim_route *route = &stack->routes[i];
        if (route->is_connected && route->netdev == netdev &&
            route->to.prefix_len == address->prefix_len &&
            sim_ip_equal(&route->to.ip, &address->ip)) {
            memmove(route, route + 1, (stack->n_routes - i - 1) * sizeof *route);
            stack->n_routes--;
            return;
        }
    }
}

int sim_stack_add_route(struct sim_stack *stack, const struct sim_prefix *to,
                        uint32_t ifindex, const struct sim_ip *gateway)
{
    struct sim_route route = {.to = *to, .netdev = sim_stack_find(stack, ifindex)};
    if (route.netdev == NULL) {
        return ENODEV;
    }
    if (gateway != NULL) {
        route.has_gateway = true;
        route.gateway = *gateway;
    }
    sim_route_add(stack, &route);
    return 0;
}

int sim_stack_add_route_via(struct sim_stack *stack, const struct sim_prefix *to,
                            const struct sim_ip *gateway)
{
    struct sim_hop hop;
    int error = sim_route_lookup(stack, gateway, NULL, &hop);
    return error != 0 ? error
                      : sim_stack_add_route(stack, to, hop.netdev->ifindex, gateway);
}

int sim_route_lookup(const struct sim_stack *stack, const struct sim_ip *to,
                     struct sim_netdev *oif, struct sim_hop *out)
{
    const struct sim_route *best = NULL;
    for (uint32_t i = 0; i < stack->n_routes; i++) {
        const struct sim_route *route = &stack->routes[i];
        bool fits = (oif == NULL || route->netdev == oif) &&
                    sim_ip_in_prefix(to, &route->to.ip, route->to.prefix_len);
        if (fits && (best == NULL || route->to.prefix_len > best->to.prefix_len)) {
            best = route;
        }
    }
    if (best != NULL) {
        out->netdev = best->netdev;
        out->next = best->has_gateway ? best->gateway : *to;
        return 0;
    }
    bool is_on_link = oif != NULL && (sim_ip_is_v4(to) || sim_ip_is_link_local_v6(to));
    if (is_on_link) {
        out->netdev = oif;
        out->next = *to;
        return 0;
    }
    return ENETUNREACH;
}

bool sim_source_is_valid(const struct sim_netdev *netdev, const struct sim_ip *source)
{
    const struct sim_stack *stack = netdev->stack;
    if (!sim_ip_is_v4(source)) {
        return true; /* IPv6 has no rp_filter */
    }
    if (sim_stack_owner(stack, source) != NULL) {
        return stack->sysctl.accept_local != 0;
    }
    struct sim_hop hop;
    if (stack->sysctl.rp_filter == 0) {
        return true;
    }
    if (sim_route_lookup(stack, source, NULL, &hop) != 0) {
        return false;
    }
    return stack->sysctl.rp_filter == 2 || hop.netdev == netdev;
}

uint32_t sim_frame_bytes(uint32_t ip_bytes)
{
    uint32_t n_bytes = ip_bytes + SIM_ETHERNET_BYTES;
    return n_bytes < SIM_FRAME_BYTES_MIN ? SIM_FRAME_BYTES_MIN : n_bytes;
}

/* ---- to itself ---- */

static struct sim_packet *take_looped(struct sim_stack *stack)
{
    struct sim_looped *looped = stack->looped_first;
    struct sim_packet *packet = looped->packet;
    stack->looped_first = looped->next;
    if (stack->looped_first == NULL) {
        stack->looped_last = NULL;
    }
    free(looped);
    return packet;
}

static void on_loopback(struct sim_event *event)
{
    struct sim_stack *stack = weft_container_of(event, struct sim_stack, loopback);
    struct sim_packet *packet = take_looped(stack);
    if (stack->looped_first != NULL) {
        sim_schedule(stack->engine, &stack->loopback, stack->looped_first->arrival);
    }
    if (!stack->is_dead) {
        sim_tcp_input(stack->tcp, NULL, packet);
    }
    sim_packet_free(packet);
}

void sim_stack_loopback_init(struct sim_stack *stack)
{
    sim_event_init(&stack->loopback, on_loopback);
}

void sim_stack_loopback_fini(struct sim_stack *stack)
{
    sim_cancel(stack->engine, &stack->loopback);
    while (stack->looped_first != NULL) {
        sim_packet_free(take_looped(stack));
    }
}

static void loop_back(struct sim_stack *stack, struct sim_packet *packet)
{
    struct sim_looped *looped = weft_calloc(1, sizeof *looped);
    looped->packet = packet;
    looped->arrival = sim_now(stack->engine) + LOOPBACK_PS;
    if (stack->looped_last == NULL) {
        stack->looped_first = looped;
        sim_schedule(stack->engine, &stack->loopback, looped->arrival);
    } else {
        stack->looped_last->next = looped;
    }
    stack->looped_last = looped;
}

/* ---- out, in, through ---- */

int sim_stack_output(struct sim_stack *stack, struct sim_netdev *oif,
                     struct sim_packet *packet)
{
    const struct sim_tcp_segment *segment = packet->payload;
    if (stack->is_dead) {
        sim_packet_free(packet);
        return 0;
    }
    struct sim_netdev *owner = sim_stack_owner(stack, &segment->destination.ip);
    bool is_loopback = sim_ip_is_loopback(&segment->destination.ip);
    if (is_loopback || (owner != NULL && (oif == NULL || owner == oif))) {
        loop_back(stack, packet);
        return 0;
    }
    struct sim_hop hop;
    int error = sim_route_lookup(stack, &segment->destination.ip, oif, &hop);
    if (error != 0) {
        sim_packet_free(packet);
        return error;
    }
    sim_neigh_send(hop.netdev, &hop.next, packet);
    return 0;
}

bool sim_stack_firewall_drops(const struct sim_stack *stack, bool is_udp, uint16_t port)
{
    for (uint32_t i = 0; i < stack->n_input_drop; i++) {
        const struct sim_port_range *range = &stack->input_drop[i];
        if (range->is_udp == is_udp && port >= range->low && port <= range->high) {
            return true;
        }
    }
    return false;
}

bool sim_stack_admits_roce(const struct sim_stack *stack, const struct sim_port *port,
                           const union ibv_gid *source, uint16_t vlan_id)
{
    const struct sim_netdev *netdev = sim_stack_vlan_of(stack, port, vlan_id);
    struct sim_ip from = sim_ip_of_gid(source);
    return netdev != NULL && sim_source_is_valid(netdev, &from) &&
           !sim_stack_bars_roce(stack);
}

bool sim_stack_bars_roce(const struct sim_stack *stack)
{
    return sim_stack_firewall_drops(stack, true, ROCE_UDP_PORT);
}

static void forward(struct sim_netdev *netdev, struct sim_packet *packet)
{
    struct sim_stack *stack = netdev->stack;
    struct sim_tcp_segment *segment = packet->payload;
    bool is_allowed = stack->sysctl.ip_forward != 0 && stack->forward_accept;
    struct sim_hop hop;
    if (!is_allowed || segment->hop_limit <= 1 ||
        sim_route_lookup(stack, &segment->destination.ip, NULL, &hop) != 0) {
        sim_packet_free(packet);
        return;
    }
    segment->hop_limit--;
    sim_neigh_send(hop.netdev, &hop.next, packet);
}

void sim_stack_tcp_input(struct sim_netdev *netdev, struct sim_packet *packet)
{
    struct sim_stack *stack = netdev->stack;
    const struct sim_tcp_segment *segment = packet->payload;
    if (packet->destination_mac != netdev->mac ||
        !sim_source_is_valid(netdev, &segment->source.ip)) {
        sim_packet_free(packet);
        return;
    }
    bool is_mine = sim_ip_is_link_local_v6(&segment->destination.ip)
                       ? sim_netdev_owns(netdev, &segment->destination.ip)
                       : sim_stack_owner(stack, &segment->destination.ip) != NULL;
    if (!is_mine) {
        forward(netdev, packet);
        return;
    }
    if (!sim_stack_firewall_drops(stack, false, segment->destination.port)) {
        sim_tcp_input(stack->tcp, netdev, packet);
    }
    sim_packet_free(packet);
}
