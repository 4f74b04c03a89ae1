#include "sim/neighbour.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/neighbour_impl.h"

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

struct sim_neighbour *sim_neigh_find(const struct sim_netdev *netdev,
                                     const struct sim_ip *ip)
{
    struct sim_neighbour *entry = netdev->neighbours.buckets[bucket_of(ip)];
    while (entry != NULL && !sim_ip_equal(&entry->ip, ip)) {
        entry = entry->bucket_next;
    }
    return entry;
}

bool sim_neigh_is_valid(enum sim_neigh_state state)
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
    /* Resolutions for RDMA devices continue to wait, because rdma_addr checks again when
     * its second has passed. */
    enter(entry, SIM_NEIGH_FAILED);
    struct sim_packet *packet;
    while ((packet = take_queued(entry)) != NULL) {
        if (packet->kind == SIM_FRAME_TCP) {
            sim_tcp_unreachable(entry->netdev->stack->tcp, packet, EHOSTUNREACH);
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

struct sim_neighbour *sim_neigh_get(struct sim_netdev *netdev, const struct sim_ip *ip)
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

void sim_neigh_learn(struct sim_neighbour *entry, uint64_t mac,
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
