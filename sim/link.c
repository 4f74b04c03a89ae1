#include "sim/link.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

enum { RING_MIN = 2, QUEUE_MIN = 16 };

/* The rate of a port without a cable, which spends time on its frames, too. */
static const uint64_t uncabled_bps = 100000000000u;

void sim_queue_push(struct sim_packet_queue *queue, weft_ps at, struct sim_packet *packet)
{
    if (queue->n == queue->cap) {
        uint32_t cap = queue->cap == 0 ? QUEUE_MIN : queue->cap * 2;
        struct sim_queued_packet *ring = weft_alloc(cap * sizeof(*ring));
        for (uint32_t i = 0; i < queue->n; i++) {
            ring[i] = queue->ring[(queue->head + i) & (queue->cap - 1)];
        }
        free(queue->ring);
        queue->ring = ring;
        queue->cap = cap;
        queue->head = 0;
    }
    struct sim_queued_packet *slot =
        &queue->ring[(queue->head + queue->n) & (queue->cap - 1)];
    slot->at = at;
    slot->packet = packet;
    queue->n++;
    queue->bytes += packet->wire_bytes;
}

struct sim_packet *sim_queue_pop(struct sim_packet_queue *queue)
{
    weft_check(queue->n > 0);
    struct sim_packet *packet = queue->ring[queue->head].packet;
    queue->head = (queue->head + 1) & (queue->cap - 1);
    queue->n--;
    queue->bytes -= packet->wire_bytes;
    return packet;
}

void sim_queue_fini(struct sim_packet_queue *queue)
{
    while (queue->n > 0) {
        sim_packet_free(sim_queue_pop(queue));
    }
    free(queue->ring);
    queue->ring = NULL;
    queue->cap = 0;
}

void sim_link_init(struct sim_link *link, struct sim_port *from,
                   void (*frame_arrives)(struct sim_event *event),
                   void (*packet_arrives)(struct sim_event *event))
{
    memset(link, 0, sizeof(*link));
    link->from = from;
    sim_event_init_ranked(from->engine, &link->arrival, SIM_RANK_WIRE, frame_arrives);
    sim_event_init(&link->flight_arrival, packet_arrives);
    sim_link_set_rate(link, 0, NULL);
}

void sim_link_fini(struct sim_link *link)
{
    sim_link_lose_all(link);
    sim_queue_fini(&link->flight);
    sim_link_set_ring(link, NULL, 0);
}

void sim_link_set_rate(struct sim_link *link, uint64_t cable_bps,
                       const struct sim_port *to)
{
    uint64_t rate = cable_bps == 0 ? uncabled_bps : cable_bps;
    if (link->from->root_bps != 0 && link->from->root_bps < rate) {
        rate = link->from->root_bps;
    }
    if (to != NULL && to->root_bps != 0 && to->root_bps < rate) {
        rate = to->root_bps;
    }
    link->cable_bps = cable_bps;
    link->rate = sim_rate_of(rate);
}

bool sim_port_is_up(const struct sim_port *port)
{
    const struct sim_port *peer = port->out.to;
    if (sim_port_has_outside(port)) {
        return port->outside.is_up && !port->out.is_taken_down;
    }
    if (peer == NULL && port->network == NULL) {
        return false;
    }
    bool inwards_down = peer == NULL ? port->inwards_down : peer->out.is_taken_down;
    return !port->out.is_taken_down && !inwards_down;
}

void sim_link_set_impairment(struct sim_link *link,
                             const struct sim_impairment *impairment)
{
    link->impairment = *impairment;
    link->is_impaired =
        (impairment->loss_ppb | impairment->corrupt_ppb | impairment->duplicate_ppb |
         impairment->reorder_ppb | impairment->ecn_ppb) != 0;
}

void sim_link_configure(struct sim_link *link, const struct sim_cable_config *config,
                        struct sim_port *to)
{
    link->to = to;
    sim_link_set_transit(link, config->delay_ps, to == NULL ? 0 : to->rx_overhead_ps);
    link->path_limit_bytes = config->path_limit_bytes;
    link->queue_bytes = config->queue_bytes;
    link->pauses = config->pause;
    link->is_taken_down = !config->up;
    sim_link_set_impairment(link, &config->impairment);
    sim_link_set_rate(link, config->rate_bps, to);
}

uint32_t sim_link_lose_all(struct sim_link *link)
{
    struct sim_engine *engine = link->from->engine;
    uint32_t n_lost = link->n + link->flight.n;
    link->stats.packet_drops += link->flight.n;
    for (; link->n > 0; link->n--) {
        sim_frame_release(engine, &link->ring[link->head]);
        link->head = (link->head + 1) & (link->cap - 1);
    }
    while (link->flight.n > 0) {
        sim_packet_free(sim_queue_pop(&link->flight));
    }
    sim_cancel(engine, &link->arrival);
    sim_cancel(engine, &link->flight_arrival);
    link->stats.drops += n_lost;
    return n_lost;
}

struct sim_frame *sim_link_make_ring(struct sim_link *link, uint32_t cap)
{
    return weft_arena_calloc(&link->from->engine->arena, cap * sizeof(struct sim_frame));
}

void sim_link_set_ring(struct sim_link *link, struct sim_frame *ring, uint32_t cap)
{
    weft_arena_free(&link->from->engine->arena, link->ring,
                    link->cap * sizeof(*link->ring));
    link->ring = ring;
    link->cap = cap;
    link->head = 0;
}

void sim_link_grow(struct sim_link *link)
{
    uint32_t cap = link->cap == 0 ? RING_MIN : link->cap * 2;
    struct sim_frame *ring = sim_link_make_ring(link, cap);
    for (uint32_t i = 0; i < link->n; i++) {
        ring[i] = link->ring[(link->head + i) & (link->cap - 1)];
    }
    sim_link_set_ring(link, ring, cap);
}

/* Returns the time from the last bit sent to the last bit received. */
static weft_ps flight_time(struct sim_link *link)
{
    weft_ps time = link->delay_ps;
    if (link->jitter_ps > 0) {
        time += (weft_ps)weft_rng_below(&link->rng, (uint64_t)link->jitter_ps + 1);
    }
    return time;
}

/* Returns the time from the last bit received to execution. */
static weft_ps rx_overhead(const struct sim_link *link, const struct sim_frame *frame)
{
    const struct sim_network *network = link->from->network;
    if (link->to != NULL || network == NULL) {
        return link->rx_overhead_ps;
    }
    const struct sim_port *to = sim_network_find(network, frame->path->destination_mac);
    return to == NULL ? 0 : to->rx_overhead_ps;
}

/* Moves the frame behind the last one to its place in the order of arrival. Returns its
 * index. */
static uint32_t move_up(struct sim_link *link)
{
    uint32_t mask = link->cap - 1;
    uint32_t i = link->n;
    struct sim_frame frame = link->ring[(link->head + i) & mask];
    for (; i > 0 && link->ring[(link->head + i - 1) & mask].at > frame.at; i--) {
        link->ring[(link->head + i) & mask] = link->ring[(link->head + i - 1) & mask];
    }
    link->ring[(link->head + i) & mask] = frame;
    return i;
}

void sim_link_put_frame(struct sim_link *link, const struct sim_frame *frame,
                        weft_ps sent_at, weft_ps extra)
{
    struct sim_frame *slot = sim_link_slot(link);
    weft_ps at = sent_at + flight_time(link) + rx_overhead(link, frame);
    /* A cable whose delay is reduced does not reorder frames. */
    if (at < link->last_at) {
        at = link->last_at;
    }
    if (extra == 0) {
        link->last_at = at;
    }
    if (slot != frame) {
        *slot = *frame;
    }
    slot->at = at + extra;
    link->clear_at = slot->at > link->clear_at ? slot->at : link->clear_at;
    uint32_t last = (link->head + link->n - 1) & (link->cap - 1);
    uint32_t index = link->n;
    if (link->n > 0 && link->ring[last].at > slot->at) {
        index = move_up(link);
    }
    link->n++;
    if (index == 0) {
        sim_schedule(link->from->engine, &link->arrival, link->ring[link->head].at);
    }
}

void sim_link_put_packet(struct sim_link *link, struct sim_packet *packet,
                         weft_ps sent_at)
{
    weft_ps at = sent_at + flight_time(link);
    if (at < link->flight_last_at) {
        at = link->flight_last_at;
    }
    link->flight_last_at = at;
    sim_queue_push(&link->flight, at, packet);
    if (link->flight.n == 1) {
        sim_schedule(link->from->engine, &link->flight_arrival, at);
    }
}
