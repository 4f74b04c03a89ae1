/* ARP and neighbour discovery: questions and answers. */
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/neighbour_impl.h"

static void send_packet(struct sim_netdev *netdev, uint64_t destination_mac,
                        const struct sim_neigh_packet *body)
{
    /* ARP: 28 bytes, padded to the least frame; discovery: IPv6, 24 bytes and one option.
     */
    bool is_v4 = sim_ip_is_v4(&body->target);
    struct sim_packet *packet = weft_calloc(1, sizeof *packet);
    packet->kind = SIM_FRAME_NEIGH;
    packet->source_mac = netdev->mac;
    packet->destination_mac = destination_mac;
    packet->ip_bytes = is_v4 ? 0 : 72;
    packet->wire_bytes = sim_frame_bytes(is_v4 ? 28 : 72);
    packet->n_payload = sizeof *body;
    packet->payload = weft_alloc(sizeof *body);
    memcpy(packet->payload, body, sizeof *body);
    sim_port_send(netdev->port, packet);
}

/* The sender address of a probe: what is waiting wants to speak as, if arp_announce lets
 * it (level 0: any; 1: only if the target is in its subnet; 2: never), else the
 * interface's best. */
static bool probe_source(const struct sim_neighbour *entry, struct sim_ip *out)
{
    const struct sim_netdev *netdev = entry->netdev;
    if (entry->queue_first != NULL) {
        int announce = sim_ip_is_v4(&entry->ip) ? netdev->stack->sysctl.arp_announce : 1;
        const struct sim_tcp_segment *segment = entry->queue_first->packet->payload;
        bool is_ours = sim_stack_owner(netdev->stack, &segment->source.ip) != NULL;
        bool is_near = false;
        for (uint32_t i = 0; i < netdev->n_addresses; i++) {
            const struct sim_prefix *own = &netdev->addresses[i];
            is_near =
                is_near || (sim_ip_equal(&own->ip, &segment->source.ip) &&
                            sim_ip_in_prefix(&entry->ip, &own->ip, own->prefix_len));
        }
        if (is_ours && (announce == 0 || (announce == 1 && is_near))) {
            *out = segment->source.ip;
            return true;
        }
    }
    if (sim_netdev_select(netdev, &entry->ip, out)) {
        return true;
    }
    /* inet_select_addr goes on to the other interfaces. */
    for (uint32_t i = 0; i < netdev->stack->n_netdevs; i++) {
        if (sim_netdev_select(netdev->stack->netdevs[i], &entry->ip, out)) {
            return true;
        }
    }
    return false;
}

void sim_neigh_ask(struct sim_neighbour *entry)
{
    struct sim_neigh_packet body = {.target = entry->ip,
                                    .sender_mac = entry->netdev->mac};
    bool to_one = entry->state == SIM_NEIGH_PROBE;
    if (probe_source(entry, &body.sender)) {
        send_packet(entry->netdev, to_one ? entry->mac : SIM_MAC_BROADCAST, &body);
    }
}

/* arp_ignore: 0 answers for any address of the host on any interface (ARP flux), 1 only
 * for the interface's own, 2 besides only to its subnet, 8 never. Discovery: only its
 * own. */
static bool answers(const struct sim_netdev *netdev, const struct sim_neigh_packet *body)
{
    int ignore = netdev->stack->sysctl.arp_ignore;
    if (!sim_ip_is_v4(&body->target)) {
        return sim_netdev_owns(netdev, &body->target);
    }
    if (sim_stack_owner(netdev->stack, &body->target) == NULL || ignore >= 8) {
        return false;
    }
    if (!sim_ip_is_zero(&body->sender) && !sim_source_is_valid(netdev, &body->sender)) {
        return false;
    }
    if (ignore == 0) {
        return true;
    }
    for (uint32_t i = 0; i < netdev->n_addresses; i++) {
        const struct sim_prefix *own = &netdev->addresses[i];
        if (sim_ip_equal(&own->ip, &body->target)) {
            return ignore == 1 ||
                   sim_ip_in_prefix(&body->sender, &own->ip, own->prefix_len);
        }
    }
    return false;
}

static void on_request(struct sim_netdev *netdev, const struct sim_neigh_packet *body)
{
    if (!answers(netdev, body)) {
        return;
    }
    sim_neigh_learn(sim_neigh_get(netdev, &body->sender), body->sender_mac,
                    SIM_NEIGH_STALE);
    struct sim_neigh_packet reply = {.is_reply = true,
                                     .sender = body->target,
                                     .sender_mac = netdev->mac,
                                     .target = body->sender,
                                     .target_mac = body->sender_mac};
    send_packet(netdev, body->sender_mac, &reply);
}

static void on_reply(struct sim_netdev *netdev, const struct sim_neigh_packet *body)
{
    struct sim_neighbour *entry = sim_neigh_find(netdev, &body->sender);
    if (entry == NULL) {
        return;
    }
    weft_ps now = sim_now(netdev->stack->engine);
    bool differs = sim_neigh_is_valid(entry->state) && entry->mac != body->sender_mac;
    if (differs && now - entry->updated_at < SIM_NEIGH_LOCK_PS) {
        return;
    }
    sim_neigh_learn(entry, body->sender_mac, SIM_NEIGH_REACHABLE);
}

void sim_neigh_input(struct sim_netdev *netdev, struct sim_packet *packet)
{
    struct sim_neigh_packet body;
    weft_check(packet->n_payload == sizeof body);
    memcpy(&body, packet->payload, sizeof body);
    if (body.is_reply) {
        on_reply(netdev, &body);
    } else {
        on_request(netdev, &body);
    }
    sim_packet_free(packet);
}
