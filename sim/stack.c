#include "sim/stack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
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

void sim_stack_kill(struct sim_stack *stack)
{
    stack->is_dead = true;
    sim_tcp_stop(stack->tcp);
    for (uint32_t i = 0; i < stack->n_netdevs; i++) {
        sim_neigh_stop(stack->netdevs[i]);
    }
}

/* ---- netdevs ---- */

static struct sim_netdev *add_netdev(struct sim_stack *stack, struct sim_port *port)
{
    struct sim_netdev *netdev = weft_calloc(1, sizeof *netdev);
    netdev->stack = stack;
    netdev->port = port;
    netdev->ifindex = FIRST_IFINDEX + stack->n_netdevs;
    netdev->mac = sim_port_mac(port);
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
    struct sim_netdev *netdev = add_netdev(stack, port);
    sim_gid_table_init(&netdev->gids, gids->n_slots, gids->has_roce_v1, netdev->ifindex,
                       netdev->mac);
    return netdev->ifindex;
}

uint32_t sim_stack_add_management(struct sim_stack *stack, struct sim_port *port)
{
    struct sim_netdev *netdev = add_netdev(stack, port);
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
    for (uint32_t i = 0; i < stack->n_netdevs; i++) {
        if (stack->netdevs[i]->port == port) {
            return stack->netdevs[i];
        }
    }
    return NULL;
}

uint32_t sim_stack_n_netdevs(const struct sim_stack *stack)
{
    return stack->n_netdevs;
}

struct sim_netdev_info sim_stack_netdev(const struct sim_stack *stack, uint32_t index)
{
    const struct sim_netdev *netdev = stack->netdevs[index];
    return (struct sim_netdev_info){.ifindex = netdev->ifindex,
                                    .name = sim_port_name(netdev->port),
                                    .mac = netdev->mac,
                                    .mtu_bytes = sim_port_mtu(netdev->port),
                                    .speed_bps = sim_port_rate(netdev->port),
                                    .is_up = sim_port_is_up(netdev->port),
                                    .is_management = netdev->is_management,
                                    .addresses = netdev->addresses,
                                    .n_addresses = netdev->n_addresses};
}

uint32_t sim_stack_ifindex(const struct sim_stack *stack, const struct sim_port *port)
{
    const struct sim_netdev *netdev = sim_stack_netdev_of(stack, port);
    return netdev == NULL ? 0 : netdev->ifindex;
}

/* ---- addresses ---- */

static struct sim_prefix *find_address(const struct sim_netdev *netdev,
                                       const struct sim_ip *ip)
{
    for (uint32_t i = 0; i < netdev->n_addresses; i++) {
        if (sim_ip_equal(&netdev->addresses[i].ip, ip)) {
            return &netdev->addresses[i];
        }
    }
    return NULL;
}

static void tell_gids(struct sim_netdev *netdev)
{
    if (netdev->gids_changed != NULL) {
        netdev->gids_changed(netdev->gids_context, netdev->port);
    }
}

static int add_gid(struct sim_netdev *netdev, const struct sim_ip *ip)
{
    if (netdev->gids.n_slots == 0) {
        return 0;
    }
    uint32_t n_changed;
    int error = sim_gid_table_add(&netdev->gids, ip, netdev->ifindex, &n_changed);
    if (n_changed > 0) {
        tell_gids(netdev);
    }
    return error;
}

int sim_stack_add_address(struct sim_stack *stack, uint32_t ifindex,
                          const struct sim_prefix *address)
{
    struct sim_netdev *netdev = sim_stack_find(stack, ifindex);
    if (netdev == NULL) {
        return ENODEV;
    }
    if (find_address(netdev, &address->ip) != NULL) {
        return EEXIST;
    }
    netdev->addresses = weft_realloc(netdev->addresses, (netdev->n_addresses + 1) *
                                                            sizeof *netdev->addresses);
    netdev->addresses[netdev->n_addresses++] = *address;
    sim_route_add(stack, &(struct sim_route){
                             .to = *address, .netdev = netdev, .is_connected = true});
    /* The netdev's own link-local address has its default GID already. */
    int error = add_gid(netdev, &address->ip);
    return error == EEXIST ? 0 : error;
}

int sim_stack_del_address(struct sim_stack *stack, uint32_t ifindex,
                          const struct sim_ip *ip)
{
    struct sim_netdev *netdev = sim_stack_find(stack, ifindex);
    struct sim_prefix *address = netdev == NULL ? NULL : find_address(netdev, ip);
    if (address == NULL) {
        return EADDRNOTAVAIL;
    }
    sim_route_del_connected(stack, netdev, address);
    size_t n_after = (size_t)(netdev->addresses + netdev->n_addresses - (address + 1));
    memmove(address, address + 1, n_after * sizeof *address);
    netdev->n_addresses--;
    (void)sim_stack_del_gid(stack, ifindex, ip);
    return 0;
}

int sim_stack_del_gid(struct sim_stack *stack, uint32_t ifindex, const struct sim_ip *ip)
{
    struct sim_netdev *netdev = sim_stack_find(stack, ifindex);
    if (netdev == NULL || sim_gid_table_del(&netdev->gids, ip, ifindex) == 0) {
        return EADDRNOTAVAIL;
    }
    tell_gids(netdev);
    return 0;
}

int sim_stack_add_gid(struct sim_stack *stack, uint32_t ifindex, const struct sim_ip *ip)
{
    struct sim_netdev *netdev = sim_stack_find(stack, ifindex);
    return netdev == NULL ? ENODEV : add_gid(netdev, ip);
}

bool sim_netdev_owns(const struct sim_netdev *netdev, const struct sim_ip *ip)
{
    return sim_ip_equal(&netdev->link_local, ip) || find_address(netdev, ip) != NULL;
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
    const struct sim_prefix *first = NULL;
    for (uint32_t i = 0; i < netdev->n_addresses; i++) {
        const struct sim_prefix *own = &netdev->addresses[i];
        if (sim_ip_in_prefix(to, &own->ip, own->prefix_len)) {
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

/* ---- the GID table, as the NIC sees it ---- */

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
                            .valid = true};
    return 0;
}

uint32_t sim_stack_gid_length(const struct sim_stack *stack, const struct sim_port *port)
{
    const struct sim_netdev *netdev = sim_stack_netdev_of(stack, port);
    return netdev == NULL ? 0 : netdev->gids.n_slots;
}

bool sim_stack_owns_gid(const struct sim_stack *stack, const struct sim_port *port,
                        const union ibv_gid *gid)
{
    const struct sim_netdev *netdev = sim_stack_netdev_of(stack, port);
    struct sim_ip ip = sim_ip_of_gid(gid);
    return netdev != NULL && sim_gid_table_has(&netdev->gids, &ip);
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
    if (slot->type == IBV_GID_TYPE_ROCE_V1 && sim_ip_is_link_local_v6(&to)) {
        resolve->destination_mac = sim_mac_of_ip(&to);
        return 0;
    }
    if (sim_netdev_owns(netdev, &to)) {
        resolve->destination_mac = netdev->mac;
        return 0;
    }
    struct sim_hop hop;
    error = sim_route_lookup(stack, &to, netdev, &hop);
    return error != 0 ? error : sim_neigh_resolve(netdev, &hop.next, resolve);
}

void sim_stack_resolve_cancel(struct sim_stack *stack, struct sim_resolve *resolve)
{
    (void)stack;
    sim_neigh_cancel(resolve);
}

/* ---- from the ports ---- */

void sim_stack_input(struct sim_stack *stack, struct sim_port *port,
                     struct sim_packet *packet)
{
    struct sim_netdev *netdev = sim_stack_netdev_of(stack, port);
    weft_check(netdev != NULL);
    if (stack->is_dead) {
        sim_packet_free(packet);
    } else if (packet->kind == SIM_FRAME_NEIGH) {
        sim_neigh_input(netdev, packet);
    } else if (packet->kind == SIM_FRAME_UDP) {
        sim_udp_input(netdev, packet);
    } else {
        sim_stack_tcp_input(netdev, packet);
    }
}

void sim_stack_carrier(struct sim_stack *stack, struct sim_port *port, bool is_up)
{
    struct sim_netdev *netdev = sim_stack_netdev_of(stack, port);
    weft_check(netdev != NULL);
    if (!is_up) {
        sim_neigh_flush(netdev);
    }
}
