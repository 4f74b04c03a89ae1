#include "sim/neighbour.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/link.h"
#include "sim/stack_impl.h"

/* locktime: later replies with another MAC are ignored */
#define SIM_NEIGH_LOCK_PS ((weft_ps)1000000000000)

struct waiting {
    struct waiting *next;
    struct sim_packet *packet;
};

struct sim_neighbour {
    struct sim_netdev *netdev;
    struct sim_neighbour *next;        /* in the table */
    struct sim_neighbour *bucket_next; /* in the bucket */
    struct sim_ip ip;
    enum sim_neigh_state state;
    uint64_t mac;
    weft_ps confirmed_at;
    weft_ps updated_at;
    unsigned n_probes;
    struct sim_event timer;
    struct sim_resolve *resolves; /* Not owned; in the order of the requests */
    struct waiting *queue_first;  /* Owned */
    struct waiting *queue_last;
    unsigned n_queued;
};

static void sim_neigh_ask(struct sim_neighbour *entry);

#define SECOND_PS ((weft_ps)1000000000000)

#define RETRANS_PS SECOND_PS           /* retrans_time_ms */
#define N_PROBES 3                     /* mcast_solicit, ucast_solicit */
#define REACHABLE_PS (30 * SECOND_PS)  /* base_reachable_time_ms, not randomised */
#define DELAY_PROBE_PS (5 * SECOND_PS) /* delay_first_probe_time */
#define RESOLVE_TIMEOUT_PS SECOND_PS   /* 1000 ms of rdma_resolve_ip in core/addr.c */
#define QUEUE_PACKETS_MAX 101          /* unres_qlen; the oldest is dropped beyond that */

static struct sim_engine *engine_of(const struct sim_netdev *netdev)
{
    return netdev->stack->engine;
}

static unsigned bucket_of(const struct sim_ip *ip)
{
    uint32_t hash = 2166136261u;
    for (int i = 0; i < 16; i++) {
        hash = (hash ^ ip->bytes[i]) * 16777619u;
    }
    return (hash ^ hash >> 16) % SIM_NEIGH_BUCKETS;
}

static struct sim_neighbour *sim_neigh_find(const struct sim_netdev *netdev,
                                            const struct sim_ip *ip)
{
    struct sim_neighbour *entry = netdev->neighbours.buckets[bucket_of(ip)];
    while (entry != NULL && !sim_ip_equal(&entry->ip, ip)) {
        entry = entry->bucket_next;
    }
    return entry;
}

/* Returns true if the entry's MAC can be used. */
static bool sim_neigh_is_valid(enum sim_neigh_state state)
{
    return state == SIM_NEIGH_REACHABLE || state == SIM_NEIGH_STALE ||
           state == SIM_NEIGH_DELAY || state == SIM_NEIGH_PROBE;
}

static const char *state_name(enum sim_neigh_state state)
{
    static const char *const names[] = {"none",  "incomplete", "reachable", "stale",
                                        "delay", "probe",      "failed"};
    return names[state];
}

static void enter(struct sim_neighbour *entry, enum sim_neigh_state state)
{
    if (entry->state == state) {
        return;
    }
    entry->state = state;
    struct sim_engine *engine = engine_of(entry->netdev);
    struct weft_trace *trace = sim_trace(engine);
    bool is_story = state == SIM_NEIGH_INCOMPLETE || state == SIM_NEIGH_REACHABLE ||
                    state == SIM_NEIGH_STALE || state == SIM_NEIGH_FAILED;
    if (!is_story || !weft_trace_on(trace, WEFT_TRACE_STORY)) {
        return;
    }
    char ip[SIM_IP_TEXT_BYTES];
    weft_trace_begin(trace, sim_now_ns(engine), entry->netdev->stack->host,
                     entry->netdev->name, "neigh");
    weft_trace_text(trace, "ip", sim_ip_format(&entry->ip, ip));
    weft_trace_text(trace, "state", state_name(state));
    if (sim_neigh_is_valid(state)) {
        char mac[16];
        weft_format(mac, sizeof mac, "%012llx", (unsigned long long)entry->mac);
        weft_trace_text(trace, "mac", mac);
    }
    weft_trace_end(trace);
}

static void send_probe(struct sim_neighbour *entry)
{
    entry->n_probes++;
    sim_schedule(engine_of(entry->netdev), &entry->timer,
                 sim_now(engine_of(entry->netdev)) + RETRANS_PS);
    sim_neigh_ask(entry);
}

/* ---- the entry ---- */

static void finish_resolve(struct sim_resolve *resolve, uint64_t mac)
{
    struct sim_neighbour *entry = resolve->entry;
    sim_cancel(engine_of(entry->netdev), &resolve->timeout);
    resolve->entry = NULL;
    resolve->next = NULL;
    resolve->error = 0;
    resolve->destination_mac = mac;
    sim_wake(&resolve->done);
}

static void finish_resolves(struct sim_neighbour *entry)
{
    while (entry->resolves != NULL) {
        struct sim_resolve *resolve = entry->resolves;
        entry->resolves = resolve->next;
        finish_resolve(resolve, entry->mac);
    }
}

static struct sim_packet *take_queued(struct sim_neighbour *entry)
{
    struct waiting *waiting = entry->queue_first;
    if (waiting == NULL) {
        return NULL;
    }
    struct sim_packet *packet = waiting->packet;
    entry->queue_first = waiting->next;
    if (entry->queue_first == NULL) {
        entry->queue_last = NULL;
    }
    entry->n_queued--;
    free(waiting);
    return packet;
}

static void transmit(struct sim_neighbour *entry, struct sim_packet *packet)
{
    packet->destination_mac = entry->mac;
    sim_netdev_send(entry->netdev, packet);
}

static void fail(struct sim_neighbour *entry)
{
    const struct sim_stack *stack = entry->netdev->stack;
    /* Resolutions for RDMA devices continue to wait, because rdma_addr checks again when
     * its second has passed. */
    enter(entry, SIM_NEIGH_FAILED);
    struct sim_packet *packet;
    while ((packet = take_queued(entry)) != NULL) {
        if (packet->kind == SIM_FRAME_TCP) {
            stack->tcp_ops->unreachable(stack->tcp, packet, EHOSTUNREACH);
        }
        sim_packet_free(packet);
    }
}

static void on_timer(struct sim_event *event)
{
    struct sim_neighbour *entry = weft_container_of(event, struct sim_neighbour, timer);
    if (entry->state == SIM_NEIGH_DELAY) {
        entry->n_probes = 0;
        enter(entry, SIM_NEIGH_PROBE);
    } else if (entry->n_probes >= N_PROBES) {
        fail(entry);
        return;
    }
    send_probe(entry);
}

/* Returns the entry of `ip`; creates it if there is none. */
static struct sim_neighbour *sim_neigh_get(struct sim_netdev *netdev,
                                           const struct sim_ip *ip)
{
    struct sim_neighbour *entry = sim_neigh_find(netdev, ip);
    if (entry != NULL) {
        return entry;
    }
    struct sim_neigh_table *table = &netdev->neighbours;
    entry = weft_calloc(1, sizeof *entry);
    entry->netdev = netdev;
    entry->ip = *ip;
    sim_event_init(&entry->timer, on_timer);
    entry->bucket_next = table->buckets[bucket_of(ip)];
    table->buckets[bucket_of(ip)] = entry;
    if (table->last == NULL) {
        table->first = entry;
    } else {
        table->last->next = entry;
    }
    table->last = entry;
    return entry;
}

/* Starts probing, unless the entry is being resolved or is valid. */
static void start_probing(struct sim_neighbour *entry)
{
    if (entry->state == SIM_NEIGH_NONE || entry->state == SIM_NEIGH_FAILED) {
        entry->n_probes = 0;
        enter(entry, SIM_NEIGH_INCOMPLETE);
        send_probe(entry);
    }
}

/* Turns a REACHABLE entry STALE by age. No timer does, so users of the entry call this
 * first. */
static void age(struct sim_neighbour *entry)
{
    weft_ps now = sim_now(engine_of(entry->netdev));
    if (entry->state == SIM_NEIGH_REACHABLE && now - entry->confirmed_at > REACHABLE_PS) {
        enter(entry, SIM_NEIGH_STALE);
    }
}

/* Sets the entry's MAC, from a reply (REACHABLE) or from a request of the neighbour
 * (STALE). */
static void sim_neigh_learn(struct sim_neighbour *entry, uint64_t mac,
                            enum sim_neigh_state state)
{
    struct sim_engine *engine = engine_of(entry->netdev);
    bool is_known = sim_neigh_is_valid(entry->state) && entry->mac == mac;

    age(entry);
    if (state == SIM_NEIGH_STALE && is_known) {
        return;
    }
    if (entry->state != SIM_NEIGH_STALE || state != SIM_NEIGH_STALE) {
        sim_cancel(engine, &entry->timer);
    }
    if (!is_known) {
        entry->updated_at = sim_now(engine);
    }
    entry->mac = mac;
    entry->confirmed_at = sim_now(engine);
    enter(entry, state);
    finish_resolves(entry);
    struct sim_packet *packet;
    while ((packet = take_queued(entry)) != NULL) {
        transmit(entry, packet);
    }
}

/* ---- users ---- */

static void on_resolve_timeout(struct sim_event *event)
{
    struct sim_resolve *resolve = weft_container_of(event, struct sim_resolve, timeout);
    struct sim_neighbour *entry = resolve->entry;
    sim_neigh_cancel(resolve);
    start_probing(entry); /* the last check sends another probe */
    resolve->error = ETIMEDOUT;
    sim_wake(&resolve->done);
}

int sim_neigh_resolve(struct sim_netdev *netdev, const struct sim_ip *ip,
                      struct sim_resolve *resolve)
{
    struct sim_neighbour *entry = sim_neigh_get(netdev, ip);

    age(entry);
    if (sim_neigh_is_valid(entry->state)) {
        resolve->destination_mac = entry->mac;
        return 0;
    }
    start_probing(entry);
    resolve->entry = entry;
    resolve->next = NULL;
    struct sim_resolve **end = &entry->resolves;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = resolve;
    sim_event_init(&resolve->timeout, on_resolve_timeout);
    sim_schedule(engine_of(netdev), &resolve->timeout,
                 sim_now(engine_of(netdev)) + RESOLVE_TIMEOUT_PS);
    return EINPROGRESS;
}

void sim_neigh_cancel(struct sim_resolve *resolve)
{
    struct sim_neighbour *entry = resolve->entry;
    if (entry == NULL) {
        return;
    }
    sim_cancel(engine_of(entry->netdev), &resolve->timeout);
    struct sim_resolve **at = &entry->resolves;
    while (*at != resolve) {
        weft_check(*at != NULL);
        at = &(*at)->next;
    }
    *at = resolve->next;
    resolve->next = NULL;
    resolve->entry = NULL;
}

void sim_neigh_send(struct sim_netdev *netdev, const struct sim_ip *ip,
                    struct sim_packet *packet)
{
    struct sim_neighbour *entry = sim_neigh_get(netdev, ip);
    age(entry);
    if (entry->state == SIM_NEIGH_STALE) {
        enter(entry, SIM_NEIGH_DELAY);
        sim_schedule(engine_of(netdev), &entry->timer,
                     sim_now(engine_of(netdev)) + DELAY_PROBE_PS);
    }
    if (sim_neigh_is_valid(entry->state)) {
        transmit(entry, packet);
        return;
    }
    if (entry->n_queued == QUEUE_PACKETS_MAX) {
        sim_packet_free(take_queued(entry));
    }
    struct waiting *waiting = weft_calloc(1, sizeof *waiting);
    waiting->packet = packet;
    if (entry->queue_last == NULL) {
        entry->queue_first = waiting;
    } else {
        entry->queue_last->next = waiting;
    }
    entry->queue_last = waiting;
    entry->n_queued++;
    start_probing(entry);
}

void sim_neigh_confirm(struct sim_netdev *netdev, const struct sim_ip *ip)
{
    struct sim_neighbour *entry = sim_neigh_find(netdev, ip);
    if (entry == NULL || !sim_neigh_is_valid(entry->state)) {
        return;
    }
    sim_cancel(engine_of(netdev), &entry->timer);
    entry->confirmed_at = sim_now(engine_of(netdev));
    enter(entry, SIM_NEIGH_REACHABLE);
}

void sim_neigh_flush(struct sim_netdev *netdev)
{
    struct sim_neighbour *entry = netdev->neighbours.first;
    for (; entry != NULL; entry = entry->next) {
        if (sim_neigh_is_valid(entry->state) || entry->state == SIM_NEIGH_FAILED) {
            sim_cancel(engine_of(netdev), &entry->timer);
            entry->state = SIM_NEIGH_NONE;
        }
    }
}

void sim_neigh_stop(struct sim_netdev *netdev)
{
    struct sim_neighbour *entry = netdev->neighbours.first;
    for (; entry != NULL; entry = entry->next) {
        sim_cancel(engine_of(netdev), &entry->timer);
        while (entry->resolves != NULL) {
            sim_neigh_cancel(entry->resolves);
        }
        struct sim_packet *packet;
        while ((packet = take_queued(entry)) != NULL) {
            sim_packet_free(packet);
        }
    }
}

void sim_neigh_fini(struct sim_netdev *netdev)
{
    sim_neigh_stop(netdev);
    struct sim_neighbour *entry = netdev->neighbours.first;
    while (entry != NULL) {
        struct sim_neighbour *next = entry->next;
        free(entry);
        entry = next;
    }
    netdev->neighbours = (struct sim_neigh_table){0};
}

enum sim_neigh_state sim_neigh_state(const struct sim_netdev *netdev,
                                     const struct sim_ip *ip)
{
    const struct sim_neighbour *entry = sim_neigh_find(netdev, ip);
    return entry == NULL ? SIM_NEIGH_NONE : entry->state;
}

/* ---- ARP and neighbour discovery: requests and replies ---- */

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

/* Sends one request for the entry's MAC, to all hosts, or in PROBE to the known MAC. */
static void sim_neigh_ask(struct sim_neighbour *entry)
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
