#include "sim/neighbour.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/stack_impl.h"

#define SECOND_PS ((weft_ps)1000000000000)

#define RETRANS_PS SECOND_PS           /* retrans_time_ms */
#define N_PROBES 3                     /* mcast_solicit, ucast_solicit */
#define REACHABLE_PS (30 * SECOND_PS)  /* base_reachable_time_ms, not randomised */
#define DELAY_PROBE_PS (5 * SECOND_PS) /* delay_first_probe_time */
#define LOCK_PS SECOND_PS              /* locktime: the first of many answers wins */
#define RESOLVE_TIMEOUT_PS SECOND_PS   /* rdma_resolve_ip's 1000 ms in core/addr.c */
#define QUEUE_PACKETS_MAX 101          /* unres_qlen; then the oldest is dropped */

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
    struct sim_resolve *resolves; /* Not owned; in the order of asking */
    struct waiting *queue_first;  /* Owned */
    struct waiting *queue_last;
    unsigned n_queued;
};

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

static struct sim_neighbour *find(const struct sim_netdev *netdev,
                                  const struct sim_ip *ip)
{
    struct sim_neighbour *entry = netdev->neighbours.buckets[bucket_of(ip)];
    while (entry != NULL && !sim_ip_equal(&entry->ip, ip)) {
        entry = entry->bucket_next;
    }
    return entry;
}

static bool is_valid(enum sim_neigh_state state)
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
                     sim_port_name(entry->netdev->port), "neigh");
    weft_trace_text(trace, "ip", sim_ip_format(&entry->ip, ip));
    weft_trace_text(trace, "state", state_name(state));
    if (is_valid(state)) {
        char mac[16];
        weft_format(mac, sizeof mac, "%012llx", (unsigned long long)entry->mac);
        weft_trace_text(trace, "mac", mac);
    }
    weft_trace_end(trace);
}

/* ---- probes and answers ---- */

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

static void send_probe(struct sim_neighbour *entry)
{
    struct sim_neigh_packet body = {.target = entry->ip,
                                    .sender_mac = entry->netdev->mac};
    bool to_one = entry->state == SIM_NEIGH_PROBE;

    entry->n_probes++;
    sim_schedule(engine_of(entry->netdev), &entry->timer,
                 sim_now(engine_of(entry->netdev)) + RETRANS_PS);
    if (probe_source(entry, &body.sender)) {
        send_packet(entry->netdev, to_one ? entry->mac : SIM_MAC_BROADCAST, &body);
    }
}

/* ---- the entry ---- */

static void finish_resolve(struct sim_resolve *resolve, int error, uint64_t mac)
{
    struct sim_neighbour *entry = resolve->entry;
    sim_cancel(engine_of(entry->netdev), &resolve->timeout);
    resolve->entry = NULL;
    resolve->next = NULL;
    resolve->error = error;
    resolve->destination_mac = mac;
    sim_wake(&resolve->done);
}

static void finish_resolves(struct sim_neighbour *entry, int error)
{
    while (entry->resolves != NULL) {
        struct sim_resolve *resolve = entry->resolves;
        entry->resolves = resolve->next;
        finish_resolve(resolve, error, error == 0 ? entry->mac : 0);
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
    packet->source_mac = entry->netdev->mac;
    packet->destination_mac = entry->mac;
    sim_port_send(entry->netdev->port, packet);
}

static void fail(struct sim_neighbour *entry)
{
    enter(entry, SIM_NEIGH_FAILED);
    finish_resolves(entry, EHOSTUNREACH);
    struct sim_packet *packet;
    while ((packet = take_queued(entry)) != NULL) {
        sim_tcp_unreachable(entry->netdev->stack->tcp, packet, EHOSTUNREACH);
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

static struct sim_neighbour *get(struct sim_netdev *netdev, const struct sim_ip *ip)
{
    struct sim_neighbour *entry = find(netdev, ip);
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

/* Starts asking, unless that is under way or the answer is known. */
static void start_probing(struct sim_neighbour *entry)
{
    if (entry->state == SIM_NEIGH_NONE || entry->state == SIM_NEIGH_FAILED) {
        entry->n_probes = 0;
        enter(entry, SIM_NEIGH_INCOMPLETE);
        send_probe(entry);
    }
}

/* REACHABLE turns STALE by age, which nothing but a look at it can notice. */
static void age(struct sim_neighbour *entry)
{
    weft_ps now = sim_now(engine_of(entry->netdev));
    if (entry->state == SIM_NEIGH_REACHABLE && now - entry->confirmed_at > REACHABLE_PS) {
        enter(entry, SIM_NEIGH_STALE);
    }
}

static void learn(struct sim_neighbour *entry, uint64_t mac, enum sim_neigh_state state)
{
    struct sim_engine *engine = engine_of(entry->netdev);
    bool is_known = is_valid(entry->state) && entry->mac == mac;

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
    finish_resolves(entry, 0);
    struct sim_packet *packet;
    while ((packet = take_queued(entry)) != NULL) {
        transmit(entry, packet);
    }
}

/* ---- users ---- */

static void on_resolve_timeout(struct sim_event *event)
{
    struct sim_resolve *resolve = weft_container_of(event, struct sim_resolve, timeout);
    sim_neigh_cancel(resolve);
    resolve->error = ETIMEDOUT;
    sim_wake(&resolve->done);
}

int sim_neigh_resolve(struct sim_netdev *netdev, const struct sim_ip *ip,
                      struct sim_resolve *resolve)
{
    struct sim_neighbour *entry = get(netdev, ip);
    bool had_failed = entry->state == SIM_NEIGH_FAILED;

    age(entry);
    if (is_valid(entry->state)) {
        resolve->destination_mac = entry->mac;
        return 0;
    }
    start_probing(entry);
    if (had_failed) {
        return EHOSTUNREACH;
    }
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
    struct sim_neighbour *entry = get(netdev, ip);
    age(entry);
    if (entry->state == SIM_NEIGH_STALE) {
        enter(entry, SIM_NEIGH_DELAY);
        sim_schedule(engine_of(netdev), &entry->timer,
                     sim_now(engine_of(netdev)) + DELAY_PROBE_PS);
    }
    if (is_valid(entry->state)) {
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
    struct sim_neighbour *entry = find(netdev, ip);
    if (entry == NULL || !is_valid(entry->state)) {
        return;
    }
    sim_cancel(engine_of(netdev), &entry->timer);
    entry->confirmed_at = sim_now(engine_of(netdev));
    enter(entry, SIM_NEIGH_REACHABLE);
}

/* ---- the wire ---- */

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
    learn(get(netdev, &body->sender), body->sender_mac, SIM_NEIGH_STALE);
    struct sim_neigh_packet reply = {.is_reply = true,
                                     .sender = body->target,
                                     .sender_mac = netdev->mac,
                                     .target = body->sender,
                                     .target_mac = body->sender_mac};
    send_packet(netdev, body->sender_mac, &reply);
}

static void on_reply(struct sim_netdev *netdev, const struct sim_neigh_packet *body)
{
    struct sim_neighbour *entry = find(netdev, &body->sender);
    if (entry == NULL) {
        return;
    }
    weft_ps now = sim_now(engine_of(netdev));
    bool differs = is_valid(entry->state) && entry->mac != body->sender_mac;
    if (differs && now - entry->updated_at < LOCK_PS) {
        return;
    }
    learn(entry, body->sender_mac, SIM_NEIGH_REACHABLE);
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

void sim_neigh_flush(struct sim_netdev *netdev)
{
    struct sim_neighbour *entry = netdev->neighbours.first;
    for (; entry != NULL; entry = entry->next) {
        if (is_valid(entry->state) || entry->state == SIM_NEIGH_FAILED) {
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
    const struct sim_neighbour *entry = find(netdev, ip);
    return entry == NULL ? SIM_NEIGH_NONE : entry->state;
}
