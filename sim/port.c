#include "sim/port.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/link.h"
#include "sim/stack.h"
#include "sim/train.h"

void sim_packet_free(struct sim_packet *packet)
{
    if (packet != NULL) {
        free(packet->payload);
        free(packet);
    }
}

const char *sim_frame_kind_name(enum sim_frame_kind kind)
{
    switch (kind) {
    case SIM_FRAME_ROCE:
        return "roce";
    case SIM_FRAME_NEIGH:
        return "neighbour";
    case SIM_FRAME_TCP:
        return "tcp";
    case SIM_FRAME_UDP:
        return "udp";
    case SIM_FRAME_PAUSE:
        return "pause";
    }
    return "?";
}

enum { ETHERNET_OVERHEAD_BYTES = 14 + 4 + SIM_PREAMBLE_AND_GAP_BYTES };

struct sim_port *sim_port_create(struct sim_engine *engine,
                                 const struct sim_port_config *config)
{
    struct sim_port *port = weft_arena_calloc(&engine->arena, sizeof(*port));
    port->engine = engine;
    port->host = weft_strdup(config->host);
    port->name = weft_strdup(config->name);
    port->mac = config->mac;
    port->mtu_bytes = config->mtu_bytes;
    port->root_bps = config->rate_bps;
    port->root = config->root;
    sim_link_init(&port->out, port);
    sim_link_init(&port->loop, port);
    port->loop.to = port;
    port->has_loop_rate = config->loop_bps > 0;
    if (port->has_loop_rate) {
        port->loop.rate = sim_rate_of(config->loop_bps);
    }
    sim_port_init_transmitter(port);
    return port;
}

/* Leaves the far end of a cable without one. */
static void uncable(struct sim_port *port)
{
    struct sim_port *peer = port->out.to;
    if (port->network != NULL) {
        sim_network_leave(port->network, port);
    }
    if (peer != NULL) {
        sim_link_lose_all(&peer->out);
        peer->out.to = NULL;
        sim_link_set_transit(&peer->out, peer->out.delay_ps, 0);
        sim_link_set_rate(&peer->out, 0, NULL);
        sim_port_check_carrier(peer);
    }
}

void sim_port_destroy(struct sim_port *port)
{
    if (port == NULL) {
        return;
    }
    uncable(port);
    if (port->root != NULL) {
        sim_root_forget(port->root, port);
    }
    sim_cancel(port->engine, &port->transmit);
    sim_link_fini(&port->out);
    sim_link_fini(&port->loop);
    sim_queue_fini(&port->waiting);
    while (port->paths != NULL) {
        struct sim_path *path = port->paths;
        port->paths = path->next;
        free(path);
    }
    free(port->matches);
    free(port->host);
    free(port->name);
    weft_arena_free(&port->engine->arena, port, sizeof(*port));
}

static void connect_direction(const struct sim_cable_config *config,
                              struct sim_port *from, struct sim_port *to)
{
    char stream[160];
    weft_check(from->out.cable_bps == 0);
    weft_format(stream, sizeof(stream), "cable:%s:%s:%s", config->name, from->host,
                from->name);
    weft_rng_init(&from->out.rng, sim_seed(from->engine), stream);
    sim_link_configure(&from->out, config, to);
}

void sim_cable_connect(struct sim_engine *engine, const struct sim_cable_config *config,
                       struct sim_port *a, struct sim_port *b)
{
    weft_check(a->engine == engine && b->engine == engine && a != b);
    weft_check(config->rate_bps > 0);
    connect_direction(config, a, b);
    connect_direction(config, b, a);
    a->was_up = sim_port_is_up(a);
    b->was_up = sim_port_is_up(b);
    sim_port_review(a);
    sim_port_review(b);
}

void sim_port_attach(struct sim_port *port, struct sim_nic *nic, struct sim_stack *stack)
{
    port->nic = nic;
    port->stack = stack;
    port->rx_overhead_ps = nic == NULL ? 0 : sim_nic_rx_overhead(nic);
    sim_link_set_transit(&port->loop, port->loop.delay_ps, port->rx_overhead_ps);
    if (port->out.to != NULL) {
        sim_link_set_transit(&port->out.to->out, port->out.to->out.delay_ps,
                             port->rx_overhead_ps);
    }
    sim_port_review(port);
}

/* Returns true if nothing but the cable affects frames between the NICs at its ends. */
static bool is_plain(const struct sim_port *port)
{
    const struct sim_link *link = &port->out;
    const struct sim_port *peer = link->to;
    bool is_between_nics = port->nic != NULL && port->bridge == NULL && peer != NULL &&
                           peer->bridge == NULL && port->root == NULL;
    return is_between_nics && port->was_up && !port->is_paused &&
           !port->is_paused_by_fault && port->tap == NULL && port->n_matches == 0 &&
           !link->is_impaired && link->path_limit_bytes == 0 && link->jitter_ps == 0;
}

void sim_port_review(struct sim_port *port)
{
    port->plain_bytes = is_plain(port) ? port->mtu_bytes + ETHERNET_OVERHEAD_BYTES : 0;
}

const char *sim_port_name(const struct sim_port *port)
{
    return port->name;
}

const char *sim_port_host(const struct sim_port *port)
{
    return port->host;
}

uint64_t sim_port_mac(const struct sim_port *port)
{
    return port->mac;
}

uint32_t sim_port_mtu(const struct sim_port *port)
{
    return port->mtu_bytes;
}

uint64_t sim_port_rate(const struct sim_port *port)
{
    return port->out.cable_bps;
}

void sim_port_note_hold(struct sim_port *port)
{
    bool is_held = port->is_paused || port->is_paused_by_fault;
    if (is_held && !port->was_held) {
        port->held_since = sim_now(port->engine);
    } else if (!is_held && port->was_held) {
        port->dropped.rx_pause_ps += sim_now(port->engine) - port->held_since;
    }
    port->was_held = is_held;
}

struct sim_port_drops sim_port_dropped(const struct sim_port *port)
{
    struct sim_port_drops drops = port->dropped;
    if (port->was_held) {
        drops.rx_pause_ps += sim_now(port->engine) - port->held_since;
    }
    return drops;
}

struct sim_direction_stats sim_port_sent(struct sim_port *port)
{
    sim_train_settle(port);
    return port->out.stats;
}

uint64_t sim_port_looped(struct sim_port *port)
{
    return port->loop.stats.packets;
}

uint64_t sim_port_in_flight(struct sim_port *port)
{
    sim_train_settle(port);
    return port->out.n + port->loop.n;
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

bool sim_path_is_same(const struct sim_path *a, const struct sim_path *b)
{
    return a->source_mac == b->source_mac && a->destination_mac == b->destination_mac &&
           memcmp(&a->source_gid, &b->source_gid, sizeof(a->source_gid)) == 0 &&
           memcmp(&a->destination_gid, &b->destination_gid, sizeof(a->source_gid)) == 0 &&
           a->flow_label == b->flow_label && a->traffic_class == b->traffic_class &&
           a->hop_limit == b->hop_limit && a->is_v1 == b->is_v1 &&
           a->tag_bytes == b->tag_bytes && a->vlan_tci == b->vlan_tci;
}

const struct sim_path *sim_port_path(struct sim_port *port, const struct sim_path *path)
{
    for (const struct sim_path *known = port->paths; known != NULL; known = known->next) {
        if (sim_path_is_same(known, path)) {
            return known;
        }
    }
    struct sim_path *added = weft_alloc(sizeof(*added));
    *added = *path;
    added->next = port->paths;
    port->paths = added;
    return added;
}

typedef bool (*frame_filter)(const struct sim_frame *frame, const void *context);

static void own_matching(struct sim_link *link, frame_filter matches, const void *context)
{
    for (uint32_t i = 0; i < link->n; i++) {
        struct sim_frame *frame = &link->ring[(link->head + i) & (link->cap - 1)];
        if (matches(frame, context)) {
            sim_frame_own(link->from->engine, frame);
        }
    }
}

static bool is_of_qp(const struct sim_frame *frame, const void *context)
{
    return frame->source_qpn == *(const uint32_t *)context;
}

void sim_port_own_qp(struct sim_port *port, uint32_t source_qpn)
{
    sim_train_settle(port);
    own_matching(&port->out, is_of_qp, &source_qpn);
    own_matching(&port->loop, is_of_qp, &source_qpn);
}

struct range {
    uintptr_t start, end;
};

static bool is_in_range(const struct sim_frame *frame, const void *context)
{
    const struct range *range = context;
    uintptr_t at = (uintptr_t)frame->payload;
    return at < range->end && at + frame->n_payload > range->start;
}

void sim_port_own_range(struct sim_port *port, const void *addr, size_t length)
{
    struct range range = {(uintptr_t)addr, (uintptr_t)addr + length};
    sim_train_settle(port);
    own_matching(&port->out, is_in_range, &range);
    own_matching(&port->loop, is_in_range, &range);
}
