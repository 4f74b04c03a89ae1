#include "sim/root.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/link.h"

enum { RING_MIN = 16 };

/* A frame or packet on its way from a port into memory. */
struct arrival {
    weft_ps at;                /* when it has passed the root */
    struct sim_port *port;     /* NULL if the port was destroyed */
    struct sim_packet *packet; /* Owned; NULL if it is `frame` */
    struct sim_frame frame;
};

struct sim_root {
    struct sim_engine *engine;
    const struct sim_root_ops *ops; /* of its ports */
    struct sim_rate rate;

    weft_ps out_free_at;
    struct sim_port *first, *last; /* ports that wait for their turn */
    struct sim_event turn;

    weft_ps in_free_at;
    struct arrival *ring; /* Owned array of [cap], a power of two. */
    uint32_t head, n, cap;
    struct sim_event through;
};

/* ---- out of memory ---- */

static struct sim_port *take_first(struct sim_root *root)
{
    struct sim_port *port = root->first;
    root->first = port->next_waiting;
    if (root->first == NULL) {
        root->last = NULL;
    }
    port->next_waiting = NULL;
    port->is_waiting = false;
    return port;
}

/* Gives the next port its turn; a port without anything to send gives the turn to the
 * next. */
static void on_turn(struct sim_event *event)
{
    struct sim_root *root = weft_container_of(event, struct sim_root, turn);
    weft_ps now = sim_now(root->engine);
    while (root->first != NULL && root->out_free_at <= now) {
        root->ops->transmit(take_first(root));
    }
    if (root->first != NULL) {
        sim_schedule(root->engine, event, root->out_free_at);
    }
}

bool sim_root_may_send(struct sim_root *root, struct sim_port *port)
{
    if (root->first == NULL && root->out_free_at <= sim_now(root->engine)) {
        return true;
    }
    if (port->is_waiting) {
        return false;
    }
    port->is_waiting = true;
    if (root->last == NULL) {
        root->first = port;
    } else {
        root->last->next_waiting = port;
    }
    root->last = port;
    if (!sim_is_scheduled(&root->turn)) {
        sim_schedule(root->engine, &root->turn, root->out_free_at);
    }
    return false;
}

void sim_root_occupy(struct sim_root *root, uint32_t wire_bytes)
{
    root->out_free_at = sim_now(root->engine) + sim_rate_time(&root->rate, wire_bytes);
}

/* ---- into memory ---- */

static struct arrival take_arrival(struct sim_root *root)
{
    struct arrival arrival = root->ring[root->head];
    root->head = (root->head + 1) & (root->cap - 1);
    root->n--;
    return arrival;
}

static void discard(struct sim_root *root, struct arrival *arrival)
{
    if (arrival->packet != NULL) {
        sim_packet_free(arrival->packet);
    } else {
        sim_frame_release(root->engine, &arrival->frame);
    }
}

static void on_through(struct sim_event *event)
{
    struct sim_root *root = weft_container_of(event, struct sim_root, through);
    struct arrival arrival = take_arrival(root);
    if (root->n > 0) {
        sim_schedule(root->engine, event, root->ring[root->head].at);
    }
    if (arrival.port == NULL) {
        discard(root, &arrival);
    } else if (arrival.packet != NULL) {
        root->ops->deliver_packet(arrival.port, arrival.packet);
    } else {
        root->ops->deliver_frame(arrival.port, &arrival.frame);
        sim_frame_release(root->engine, &arrival.frame);
    }
}

/* Returns when bytes that arrive now have passed the root. They arrived during their
 * reception, so an idle root adds no time. */
static weft_ps pass(struct sim_root *root, uint32_t wire_bytes)
{
    weft_ps now = sim_now(root->engine);
    weft_ps at = root->in_free_at + sim_rate_time(&root->rate, wire_bytes);
    root->in_free_at = at < now ? now : at;
    return root->in_free_at;
}

static void push(struct sim_root *root, const struct arrival *arrival)
{
    if (root->n == root->cap) {
        uint32_t cap = root->cap == 0 ? RING_MIN : root->cap * 2;
        struct arrival *ring = weft_alloc(cap * sizeof(*ring));
        for (uint32_t i = 0; i < root->n; i++) {
            ring[i] = root->ring[(root->head + i) & (root->cap - 1)];
        }
        free(root->ring);
        root->ring = ring;
        root->cap = cap;
        root->head = 0;
    }
    root->ring[(root->head + root->n) & (root->cap - 1)] = *arrival;
    root->n++;
    if (root->n == 1) {
        sim_schedule(root->engine, &root->through, arrival->at);
    }
}

void sim_root_receive_frame(struct sim_root *root, struct sim_port *port,
                            struct sim_frame *frame)
{
    weft_ps at = pass(root, frame->wire_bytes);
    if (at == sim_now(root->engine) && root->n == 0) {
        root->ops->deliver_frame(port, frame);
        return;
    }
    /* It outlives its place in the ring of the cable, and possibly its work request. */
    sim_frame_own(root->engine, frame);
    push(root, &(struct arrival){.at = at, .port = port, .frame = *frame});
    frame->flags &= (uint8_t)~SIM_FRAME_OWNED;
}

void sim_root_receive_packet(struct sim_root *root, struct sim_port *port,
                             struct sim_packet *packet)
{
    weft_ps at = pass(root, packet->wire_bytes + SIM_PREAMBLE_AND_GAP_BYTES);
    if (at == sim_now(root->engine) && root->n == 0) {
        root->ops->deliver_packet(port, packet);
        return;
    }
    push(root, &(struct arrival){.at = at, .port = port, .packet = packet});
}

/* ---- life ---- */

struct sim_root *sim_root_create(struct sim_engine *engine, uint64_t rate_bps)
{
    struct sim_root *root = weft_calloc(1, sizeof(*root));
    weft_check(rate_bps > 0);
    root->engine = engine;
    root->rate = sim_rate_of(rate_bps);
    sim_event_init(&root->turn, on_turn);
    sim_event_init(&root->through, on_through);
    return root;
}

void sim_root_set_ops(struct sim_root *root, const struct sim_root_ops *ops)
{
    root->ops = ops;
}

void sim_root_forget(struct sim_root *root, struct sim_port *port)
{
    struct sim_port **at = &root->first;
    struct sim_port *last = NULL;
    while (*at != NULL) {
        if (*at == port) {
            *at = port->next_waiting;
        } else {
            last = *at;
            at = &(*at)->next_waiting;
        }
    }
    root->last = last;
    for (uint32_t i = 0; i < root->n; i++) {
        struct arrival *arrival = &root->ring[(root->head + i) & (root->cap - 1)];
        arrival->port = arrival->port == port ? NULL : arrival->port;
    }
}

void sim_root_destroy(struct sim_root *root)
{
    if (root == NULL) {
        return;
    }
    sim_cancel(root->engine, &root->turn);
    sim_cancel(root->engine, &root->through);
    while (root->n > 0) {
        struct arrival arrival = take_arrival(root);
        discard(root, &arrival);
    }
    free(root->ring);
    free(root);
}
