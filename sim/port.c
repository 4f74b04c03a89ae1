#include "sim/port.h"

#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/link.h"
#include "sim/memory.h"
#include "sim/packet.h"
#include "sim/pool.h"
#include "sim/train.h"

enum { ETHERNET_OVERHEAD_BYTES = 14 + 4 + SIM_PREAMBLE_AND_GAP_BYTES };

void sim_port_set_users(struct sim_port *port, struct sim_nic *nic,
                        weft_ps rx_overhead_ps, struct sim_stack *stack,
                        const struct sim_stack_ops *stack_ops)
{
    port->nic = nic;
    port->stack = stack;
    port->stack_ops = stack_ops;
    port->rx_overhead_ps = rx_overhead_ps;
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

void sim_port_set_encoder(struct sim_port *port, sim_packet_encoder encode)
{
    port->encode = encode;
}

void sim_port_tap_frame(struct sim_port *port, bool is_outgoing,
                        const struct sim_frame *frame, const char *comment)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    if (port->tap == NULL) {
        return;
    }
    static const uint8_t nothing[SIM_POOL_BLOCK_BYTES];
    struct sim_frame shown = *frame;
    if (is_outgoing) {
        /* A tap at the sender sees what was sent, because the bit flips later. */
        shown.flags &= (uint8_t)~SIM_FRAME_CORRUPT;
    }
    if (sim_is_phantom(sim_engine_phantom(port->engine), frame->payload)) {
        shown.payload = nothing;
    }
    size_t n = sim_packet_encode(&shown, bytes, sizeof(bytes));
    port->tap(port->tap_context, sim_now_ns(port->engine), port, is_outgoing, bytes, n,
              comment);
}

void sim_port_tap_packet(struct sim_port *port, bool is_outgoing,
                         const struct sim_packet *packet, const char *comment)
{
    uint8_t bytes[65536];
    if (port->tap == NULL || port->encode == NULL) {
        return;
    }
    size_t n = port->encode(packet, bytes, sizeof(bytes));
    port->tap(port->tap_context, sim_now_ns(port->engine), port, is_outgoing, bytes, n,
              comment);
}
