/* ARP and neighbour discovery: requests and replies. */
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/link.h"
#include "sim/neighbour_impl.h"

static void send_packet(struct sim_netdev *netdev, uint64_t destination_mac,
                        const struct sim_neigh_packet *body)
{
    /* ARP: 28 bytes, padded to the minimum frame. Discovery: IPv6, 24 bytes and one
     * option. */
    bool is_v4 = sim_ip_is_v4(&body->target);
    struct sim_packet *packet = weft_calloc(1, sizeof *packet);
    packet->kind = SIM_FRAME_NEIGH;
    packet->destination_mac = destination_mac;
    packet->ip_bytes = is_v4 ? 0 : 72;
    packet->wire_bytes = sim_frame_bytes(is_v4 ? 28 : 72);
    packet->n_payload = sizeof *body;
    packet->payload = weft_alloc(sizeof *body);
    memcpy(packet->payload, body, sizeof *body);
    sim_netdev_send(netdev, packet);
}

/* Returns true if both addresses are in one subnet of the netdev (inet_addr_onlink). */
static bool is_on_link(const struct sim_netdev *netdev, const struct sim_ip *target,
                       const struct sim_ip *source)
{
    for (uint32_t i = 0; i < netdev->n_addresses; i++) {
        const struct sim_address *own = &netdev->addresses[i];
        if (sim_address_covers(own, target) && sim_address_covers(own, source)) {
            return true;
        }
    }
    return false;
}

/* Returns the source address of a packet: a TCP segment, or RoCE that the host forwards. */
static struct sim_ip source_of(const struct sim_packet *packet)
{
    const struct sim_tcp_segment *segment = packet->payload;
    const struct sim_forwarded *forwarded = packet->payload;
    return packet->kind == SIM_FRAME_ROCE ? sim_ip_of_gid(&forwarded->path.source_gid)
                                          : segment->source.ip;
}

/* Returns true if a probe may use the source address of the first queued packet.
 * arp_announce 0 permits any address of the host, 1 one that shares a subnet of the
 * interface with the target, 2 none. Discovery permits only the interface's own
 * (ndisc_solicit). */
static bool queued_source(const struct sim_neighbour *entry, struct sim_ip *out)
{
    const struct sim_netdev *netdev = entry->netdev;
    if (entry->queue_first == NULL) {
        return false;
    }
    int announce = netdev->stack->sysctl.arp_announce;
    *out = source_of(entry->queue_first->packet);
    if (!sim_ip_is_v4(&entry->ip)) {
        return sim_netdev_owns(netdev, out);
    }
    return sim_stack_owner(netdev->stack, out) != NULL &&
           (announce == 0 || (announce == 1 && is_on_link(netdev, &entry->ip, out)));
}

/* Selects the sender address of a probe: the source of a queued packet if permitted;
 * otherwise the interface's best, which for discovery is its link-local address
 * (ndisc_send_ns). Returns false if there is none. */
static bool probe_source(const struct sim_neighbour *entry, struct sim_ip *out)
{
    const struct sim_netdev *netdev = entry->netdev;
    if (queued_source(entry, out)) {
        return true;
    }
    if (!sim_ip_is_v4(&entry->ip)) {
        *out = netdev->link_local;
        return true;
    }
    if (sim_netdev_select(netdev, &entry->ip, out)) {
        return true;
    }
    /* inet_select_addr continues with the other interfaces. */
    for (uint32_t i = 0; i < netdev->stack->n_netdevs; i++) {
        if (sim_netdev_select(netdev->stack->netdevs[i], &entry->ip, out)) {
            return true;
        }
    }
    return false;
}

/* Returns the group MAC of hosts that may have `ip`: broadcast, or of ff02::1:ff00:0/104
 * with its last 24 bits (RFC 4291, 2.7.1). */
static uint64_t group_of(const struct sim_ip *ip)
{
    struct sim_ip group = {{0xff, 2, [11] = 1, [12] = 0xff}};
    memcpy(group.bytes + 13, ip->bytes + 13, 3);
    return sim_ip_is_v4(ip) ? SIM_MAC_BROADCAST : sim_mac_of_group(&group);
}

void sim_neigh_ask(struct sim_neighbour *entry)
{
    struct sim_neigh_packet body = {.target = entry->ip,
                                    .sender_mac = entry->netdev->mac};
    bool to_one = entry->state == SIM_NEIGH_PROBE;
    if (probe_source(entry, &body.sender)) {
        send_packet(entry->netdev, to_one ? entry->mac : group_of(&entry->ip), &body);
    }
}

/* Returns true if arp_ignore forbids a reply. 1 ignores requests for addresses that are
 * not the interface's own, 2 also those from outside its subnet, 8 all. 0 replies for any
 * address of the host on any interface (ARP flux), and so do 4 to 7, which are reserved,
 * and 3, which is about addresses of host scope. An address counts as the interface's
 * only if it lies in the subnet of its peer (inet_confirm_addr). */
static bool is_ignored(const struct sim_netdev *netdev,
                       const struct sim_neigh_packet *body)
{
    int ignore = netdev->stack->sysctl.arp_ignore;
    if (ignore != 1 && ignore != 2) {
        return ignore >= 8;
    }
    bool has_address = false, has_subnet = false;
    for (uint32_t i = 0; i < netdev->n_addresses; i++) {
        const struct sim_address *own = &netdev->addresses[i];
        has_address = has_address || sim_ip_equal(&own->ip, &body->target);
        has_subnet =
            has_subnet || (sim_address_covers(own, &body->target) &&
                           (ignore == 1 || sim_address_covers(own, &body->sender)));
    }
    return !has_address || !has_subnet;
}

/* Returns true if arp_filter forbids a reply, because packets from `target` to `sender`
 * leave through another interface. */
static bool is_filtered(const struct sim_netdev *netdev,
                        const struct sim_neigh_packet *body)
{
    struct sim_hop hop;
    return netdev->stack->sysctl.arp_filter != 0 &&
           (sim_route_lookup(netdev->stack, &body->sender, NULL, &hop) != 0 ||
            hop.netdev != netdev);
}

static void answer(struct sim_netdev *netdev, const struct sim_neigh_packet *body)
{
    sim_neigh_learn(sim_neigh_get(netdev, &body->sender), body->sender_mac,
                    SIM_NEIGH_STALE);
    struct sim_neigh_packet reply = {.is_reply = true,
                                     .sender = body->target,
                                     .sender_mac = netdev->mac,
                                     .target = body->sender,
                                     .target_mac = body->sender_mac};
    send_packet(netdev, body->sender_mac, &reply);
}

/* Updates an existing entry from a received packet; creates none (arp_accept 0). */
static void update(struct sim_netdev *netdev, const struct sim_neigh_packet *body,
                   bool asserts_reachable, bool overrides)
{
    struct sim_neighbour *entry = sim_neigh_find(netdev, &body->sender);
    if (entry == NULL) {
        return;
    }
    bool differs = sim_neigh_is_valid(entry->state) && entry->mac != body->sender_mac;
    if (!differs || overrides) {
        sim_neigh_learn(entry, body->sender_mac,
                        asserts_reachable ? SIM_NEIGH_REACHABLE : SIM_NEIGH_STALE);
    }
}

/* arp_process. `to_us` is false for broadcasts. */
static void on_arp(struct sim_netdev *netdev, const struct sim_neigh_packet *body,
                   bool to_us)
{
    const struct sim_stack *stack = netdev->stack;
    bool is_valid = sim_source_is_valid(netdev, &body->sender);
    if (!body->is_reply && is_valid && sim_stack_owner(stack, &body->target) != NULL) {
        if (!is_ignored(netdev, body) && !is_filtered(netdev, body)) {
            answer(netdev, body);
        }
        return;
    }
    const struct sim_neighbour *entry = sim_neigh_find(netdev, &body->sender);
    bool is_gratuitous = sim_ip_equal(&body->sender, &body->target);
    bool is_locked =
        entry != NULL && sim_now(stack->engine) - entry->updated_at < SIM_NEIGH_LOCK_PS;
    update(netdev, body, body->is_reply && to_us, is_gratuitous || !is_locked);
}

/* ndisc_recv_ns, ndisc_recv_na. An unsolicited advertisement is sent to all nodes. */
static void on_discovery(struct sim_netdev *netdev, const struct sim_neigh_packet *body,
                         bool to_us)
{
    if (body->is_reply) {
        update(netdev, body, to_us, true);
    } else if (sim_netdev_owns(netdev, &body->target)) {
        answer(netdev, body);
    }
}

void sim_neigh_announce(struct sim_netdev *netdev)
{
    struct sim_neigh_packet body = {.sender = netdev->link_local,
                                    .target = netdev->link_local,
                                    .sender_mac = netdev->mac,
                                    .is_reply = true};
    send_packet(netdev, SIM_MAC_ALL_NODES, &body);
    for (uint32_t i = 0; i < netdev->n_addresses; i++) {
        const struct sim_ip *ip = &netdev->addresses[i].ip;
        bool is_v4 = sim_ip_is_v4(ip);
        body.sender = body.target = *ip;
        body.is_reply = !is_v4;
        send_packet(netdev, is_v4 ? SIM_MAC_BROADCAST : SIM_MAC_ALL_NODES, &body);
    }
}

void sim_neigh_input(struct sim_netdev *netdev, struct sim_packet *packet)
{
    struct sim_neigh_packet body;
    weft_check(packet->n_payload == sizeof body);
    memcpy(&body, packet->payload, sizeof body);
    bool to_us = packet->destination_mac == netdev->mac;
    if (sim_ip_is_v4(&body.target)) {
        on_arp(netdev, &body, to_us);
    } else {
        on_discovery(netdev, &body, to_us);
    }
    sim_packet_free(packet);
}
