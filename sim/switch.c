#include "sim/switch.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/link.h"

enum { RING_MIN = 16, MTU_BYTES = 65535 };

/* A frame or packet in an egress queue. */
struct waiting {
    struct sim_packet *packet; /* Owned; NULL if it is `frame` */
    struct sim_frame frame;
};

struct way {
    struct sim_port *port; /* Owned. */
    struct waiting *ring;  /* Owned array of [cap], a power of two. */
    uint32_t head, n, cap;
    uint64_t bytes;
    /* number of egress queues that keep the sender at this port paused */
    uint32_t n_pausers;
    /* Owned array of [n_ports]: true for senders that this egress queue paused */
    bool *has_paused;
};

struct learnt {
    uint64_t mac;
    uint32_t port;
};

struct sim_switch {
    struct sim_engine *engine;
    char *name;       /* Owned. */
    struct way *ways; /* Owned array of [n_ports]. */
    uint32_t n_ports;
    struct learnt *table; /* Owned array of [n_learnt], sorted by MAC. */
    uint32_t n_learnt;
};

/* ---- addresses ---- */

/* Returns the index of the first entry that is not before `mac`. */
static uint32_t find(const struct sim_switch *bridge, uint64_t mac)
{
    uint32_t low = 0;
    uint32_t high = bridge->n_learnt;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (bridge->table[middle].mac < mac) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void learn(struct sim_switch *bridge, uint64_t mac, uint32_t port)
{
    uint32_t at = find(bridge, mac);
    if (sim_mac_is_group(mac)) {
        return;
    }
    if (at == bridge->n_learnt || bridge->table[at].mac != mac) {
        bridge->table =
            weft_realloc(bridge->table, (bridge->n_learnt + 1) * sizeof(*bridge->table));
        memmove(&bridge->table[at + 1], &bridge->table[at],
                (bridge->n_learnt - at) * sizeof(*bridge->table));
        bridge->n_learnt++;
    }
    bridge->table[at] = (struct learnt){.mac = mac, .port = port};
}

static void forget(struct sim_switch *bridge, uint32_t port)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < bridge->n_learnt; i++) {
        if (bridge->table[i].port != port) {
            bridge->table[kept++] = bridge->table[i];
        }
    }
    bridge->n_learnt = kept;
}

/* Returns the port of an address, or UINT32_MAX to flood. */
static uint32_t way_to(const struct sim_switch *bridge, uint64_t mac)
{
    uint32_t at = find(bridge, mac);
    bool is_known = at < bridge->n_learnt && bridge->table[at].mac == mac;
    return is_known ? bridge->table[at].port : UINT32_MAX;
}

static uint32_t index_of(const struct sim_switch *bridge, const struct sim_port *port)
{
    uint32_t index = port->bridge_index;
    weft_check(index < bridge->n_ports && bridge->ways[index].port == port);
    return index;
}

/* ---- pausing the senders ---- */

static void pause_sender(struct sim_switch *bridge, uint32_t out, uint32_t in)
{
    if (!bridge->ways[out].has_paused[in]) {
        bridge->ways[out].has_paused[in] = true;
        if (bridge->ways[in].n_pausers++ == 0) {
            sim_port_send_pause(bridge->ways[in].port, true);
        }
    }
}

static void resume_senders(struct sim_switch *bridge, uint32_t out)
{
    for (uint32_t in = 0; in < bridge->n_ports; in++) {
        if (bridge->ways[out].has_paused[in]) {
            bridge->ways[out].has_paused[in] = false;
            if (--bridge->ways[in].n_pausers == 0) {
                sim_port_send_pause(bridge->ways[in].port, false);
            }
        }
    }
}

/* ---- the queues ---- */

static uint32_t wire_bytes_of(const struct waiting *waiting)
{
    return waiting->packet != NULL ? waiting->packet->wire_bytes
                                   : waiting->frame.wire_bytes;
}

static void discard(struct sim_switch *bridge, struct waiting *waiting)
{
    if (waiting->packet != NULL) {
        sim_packet_free(waiting->packet);
    } else {
        sim_frame_release(bridge->engine, &waiting->frame);
    }
}

static void grow(struct way *way)
{
    uint32_t cap = way->cap == 0 ? RING_MIN : way->cap * 2;
    struct waiting *ring = weft_alloc(cap * sizeof(*ring));
    for (uint32_t i = 0; i < way->n; i++) {
        ring[i] = way->ring[(way->head + i) & (way->cap - 1)];
    }
    free(way->ring);
    way->ring = ring;
    way->cap = cap;
    way->head = 0;
}

static struct waiting take(struct way *way)
{
    struct waiting first = way->ring[way->head];
    way->head = (way->head + 1) & (way->cap - 1);
    way->n--;
    way->bytes -= wire_bytes_of(&first);
    return first;
}

static void drop(struct sim_switch *bridge, struct way *way, struct waiting *waiting)
{
    struct sim_port *port = way->port;
    port->out.stats.drops++;
    if (waiting->packet == NULL) {
        sim_port_trace_drop(port, &waiting->frame, "queue_full");
    } else {
        weft_trace_event(sim_trace(bridge->engine), sim_now_ns(bridge->engine),
                         port->host, port->name, "drop", "why=%s kind=%s bytes=%u",
                         "queue_full", sim_frame_kind_name(waiting->packet->kind),
                         waiting->packet->wire_bytes);
    }
    discard(bridge, waiting);
}

/* Queues `waiting` and takes it over. Above its limit a queue accepts only frames from a
 * sender that can be paused; there is room for those in flight until the pause takes
 * effect. */
static void enqueue(struct sim_switch *bridge, uint32_t in, uint32_t out,
                    struct waiting *waiting)
{
    struct way *way = &bridge->ways[out];
    uint64_t limit = way->port->out.queue_bytes;
    bool is_over = limit != 0 && way->bytes + wire_bytes_of(waiting) > limit;
    if (!sim_port_is_up(way->port)) {
        way->port->out.stats.drops++;
        discard(bridge, waiting);
        return;
    }
    if (is_over && !bridge->ways[in].port->out.pauses) {
        drop(bridge, way, waiting);
        return;
    }
    if (is_over) {
        pause_sender(bridge, out, in);
    }
    if (way->n == way->cap) {
        grow(way);
    }
    way->ring[(way->head + way->n) & (way->cap - 1)] = *waiting;
    way->n++;
    way->bytes += wire_bytes_of(waiting);
    sim_port_kick(way->port);
}

static struct waiting copy_of(struct sim_switch *bridge, const struct waiting *waiting)
{
    struct waiting copy = *waiting;
    if (copy.packet != NULL) {
        copy.packet = sim_packet_copy(copy.packet);
    } else {
        copy.frame.flags &= (uint8_t)~SIM_FRAME_OWNED;
        sim_frame_own(bridge->engine, &copy.frame);
    }
    return copy;
}

/* Forwards `waiting` and takes it over. */
static void forward(struct sim_switch *bridge, uint32_t in, uint64_t source,
                    uint64_t destination, struct waiting *waiting)
{
    learn(bridge, source, in);
    uint32_t out =
        sim_mac_is_group(destination) ? UINT32_MAX : way_to(bridge, destination);
    if (out == in) {
        discard(bridge, waiting); /* the destination is on the port where it arrived */
        return;
    }
    if (out != UINT32_MAX) {
        enqueue(bridge, in, out, waiting);
        return;
    }
    for (uint32_t i = 0; i < bridge->n_ports; i++) {
        if (i != in && sim_port_is_up(bridge->ways[i].port)) {
            struct waiting copy = copy_of(bridge, waiting);
            enqueue(bridge, in, i, &copy);
        }
    }
    discard(bridge, waiting);
}

/* ---- for ports ---- */

static void switch_frame(struct sim_switch *bridge, struct sim_port *port,
                         struct sim_frame *frame)
{
    /* It outlives its place in the ring of the cable, and possibly its work request. */
    sim_frame_own(bridge->engine, frame);
    struct waiting waiting = {.frame = *frame};
    frame->flags &= (uint8_t)~SIM_FRAME_OWNED;
    forward(bridge, index_of(bridge, port), frame->path->source_mac,
            frame->path->destination_mac, &waiting);
}

static void switch_packet(struct sim_switch *bridge, struct sim_port *port,
                          struct sim_packet *packet)
{
    struct waiting waiting = {.packet = packet};
    forward(bridge, index_of(bridge, port), packet->source_mac, packet->destination_mac,
            &waiting);
}

static bool switch_has_frames(const struct sim_switch *bridge,
                              const struct sim_port *port)
{
    return bridge->ways[index_of(bridge, port)].n > 0;
}

static bool switch_pull(struct sim_switch *bridge, const struct sim_port *port,
                        struct sim_frame *out_frame, struct sim_packet **out_packet)
{
    uint32_t index = index_of(bridge, port);
    struct way *way = &bridge->ways[index];
    if (way->n == 0) {
        return false;
    }
    struct waiting first = take(way);
    *out_frame = first.frame;
    *out_packet = first.packet;
    if (way->bytes <= port->out.queue_bytes / 2) {
        resume_senders(bridge, index);
    }
    return true;
}

static void switch_carrier_lost(struct sim_switch *bridge, const struct sim_port *port)
{
    uint32_t index = index_of(bridge, port);
    struct way *way = &bridge->ways[index];
    while (way->n > 0) {
        struct waiting first = take(way);
        way->port->out.stats.drops++;
        discard(bridge, &first);
    }
    resume_senders(bridge, index);
    for (uint32_t out = 0; out < bridge->n_ports; out++) {
        if (bridge->ways[out].has_paused[index]) {
            bridge->ways[out].has_paused[index] = false;
            way->n_pausers--;
        }
    }
    forget(bridge, index);
}

static const struct sim_switch_ops switch_ops = {
    .has_frames = switch_has_frames,
    .pull = switch_pull,
    .frame = switch_frame,
    .packet = switch_packet,
    .carrier_lost = switch_carrier_lost,
};

/* ---- life ---- */

struct sim_switch *sim_switch_create(struct sim_engine *engine, const char *name,
                                     uint32_t n_ports)
{
    struct sim_switch *bridge = weft_calloc(1, sizeof(*bridge));
    bridge->engine = engine;
    bridge->name = weft_strdup(name);
    bridge->n_ports = n_ports;
    bridge->ways = weft_calloc(n_ports + 1, sizeof(*bridge->ways));
    for (uint32_t i = 0; i < n_ports; i++) {
        char number[16];
        weft_format(number, sizeof(number), "%u", i);
        struct sim_port_config config = {
            .host = bridge->name, .name = number, .mtu_bytes = MTU_BYTES};
        bridge->ways[i].port = sim_port_create(engine, &config);
        bridge->ways[i].port->bridge = bridge;
        bridge->ways[i].port->bridge_ops = &switch_ops;
        bridge->ways[i].port->bridge_index = i;
        bridge->ways[i].has_paused = weft_calloc(n_ports, sizeof(bool));
    }
    return bridge;
}

void sim_switch_destroy(struct sim_switch *bridge)
{
    if (bridge == NULL) {
        return;
    }
    for (uint32_t i = 0; i < bridge->n_ports; i++) {
        sim_port_destroy(bridge->ways[i].port);
    }
    for (uint32_t i = 0; i < bridge->n_ports; i++) {
        struct way *way = &bridge->ways[i];
        while (way->n > 0) {
            struct waiting first = take(way);
            discard(bridge, &first);
        }
        free(way->ring);
        free(way->has_paused);
    }
    free(bridge->ways);
    free(bridge->table);
    free(bridge->name);
    free(bridge);
}

struct sim_port *sim_switch_port(const struct sim_switch *bridge, uint32_t index)
{
    weft_check(index < bridge->n_ports);
    return bridge->ways[index].port;
}
