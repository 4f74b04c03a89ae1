/* Routes. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/stack_impl.h"

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
