#include <stdlib.h>

#include "base/text.h"
#include "sim/link.h"
#include "sim/memory.h"
#include "sim/packet.h"
#include "sim/pool.h"
#include "sim/stack.h"
#include "sim/train.h"

/* The directions that a fault selects, relative to the port: at most two. */
struct directions {
    struct sim_link *links[2];
    unsigned n;
};

static struct directions select_links(struct sim_port *port, bool outwards, bool inwards)
{
    struct directions chosen = {.n = 0};
    if (outwards) {
        chosen.links[chosen.n++] = &port->out;
    }
    if (inwards && port->out.to != NULL) {
        chosen.links[chosen.n++] = &port->out.to->out;
    }
    return chosen;
}

void sim_port_check_carrier(struct sim_port *port)
{
    bool is_up = sim_port_is_up(port);
    if (is_up == port->was_up) {
        return;
    }
    port->was_up = is_up;
    if (port->is_paused) {
        port->is_paused = false; /* the port that paused it is gone */
        sim_port_note_hold(port);
        sim_port_kick(port);
    }
    sim_port_review(port);
    uint32_t n_lost = is_up ? 0 : sim_link_lose_all(&port->out);
    port->out.drop_was_told = false;
    weft_trace_event(sim_trace(port->engine), sim_now_ns(port->engine), port->host,
                     port->name, is_up ? "port_up" : "port_down", "in_flight_lost=%u",
                     n_lost);
    if (port->bridge != NULL && !is_up) {
        sim_switch_carrier_lost(port->bridge, port);
    }
    if (port->nic != NULL) {
        sim_nic_carrier(port->nic, port, is_up);
    }
    if (port->stack != NULL) {
        sim_stack_carrier(port->stack, port, is_up);
    }
}

void sim_port_set_down(struct sim_port *port, bool outwards, bool inwards, bool down)
{
    sim_train_settle(port);
    struct sim_port *peer = port->out.to;
    struct directions chosen = select_links(port, outwards, inwards);
    for (unsigned i = 0; i < chosen.n; i++) {
        chosen.links[i]->is_taken_down = down;
    }
    if (inwards && port->network != NULL) {
        port->inwards_down = down;
    }
    sim_port_check_carrier(port);
    if (peer != NULL) {
        sim_port_check_carrier(peer);
    }
}

static void set_paused(struct sim_port *port, bool paused)
{
    port->is_paused_by_fault = paused;
    port->dropped.rx_pauses += paused ? 1 : 0;
    sim_port_note_hold(port);
    sim_port_review(port);
    if (!paused) {
        sim_port_kick(port);
    }
}

void sim_port_set_paused(struct sim_port *port, bool outwards, bool inwards, bool paused)
{
    sim_train_settle(port);
    if (outwards) {
        set_paused(port, paused);
    }
    if (inwards && port->out.to != NULL) {
        set_paused(port->out.to, paused);
    }
}

void sim_port_set_mtu(struct sim_port *port, uint32_t mtu_bytes)
{
    sim_train_settle(port);
    port->mtu_bytes = mtu_bytes;
    sim_port_review(port);
}

void sim_port_set_impairment(struct sim_port *port, bool outwards, bool inwards,
                             const struct sim_impairment *impairment)
{
    sim_train_settle(port);
    struct directions chosen = select_links(port, outwards, inwards);
    for (unsigned i = 0; i < chosen.n; i++) {
        sim_link_set_impairment(chosen.links[i], impairment);
        sim_port_review(chosen.links[i]->from);
    }
}

void sim_port_set_delay(struct sim_port *port, bool outwards, bool inwards,
                        weft_ps delay_ps, weft_ps jitter_ps)
{
    sim_train_settle(port);
    struct directions chosen = select_links(port, outwards, inwards);
    for (unsigned i = 0; i < chosen.n; i++) {
        sim_link_set_transit(chosen.links[i], delay_ps, chosen.links[i]->rx_overhead_ps);
        chosen.links[i]->jitter_ps = jitter_ps;
        sim_port_review(chosen.links[i]->from);
    }
}

void sim_port_set_rate(struct sim_port *port, uint64_t rate_bps)
{
    sim_train_settle(port);
    struct sim_port *peer = port->out.to;
    sim_link_set_rate(&port->out, rate_bps, peer);
    if (peer != NULL) {
        sim_link_set_rate(&peer->out, rate_bps, port);
    }
}

void sim_port_set_path_limit(struct sim_port *port, uint32_t path_limit_bytes)
{
    sim_train_settle(port);
    struct directions chosen = select_links(port, true, true);
    for (unsigned i = 0; i < chosen.n; i++) {
        chosen.links[i]->path_limit_bytes = path_limit_bytes;
        sim_port_review(chosen.links[i]->from);
    }
}

void sim_port_add_match(struct sim_port *port, const struct sim_match *match)
{
    /* The port that sends the packet. */
    struct sim_port *from = match->is_inward ? port->out.to : port;
    if (from == NULL) {
        return;
    }
    sim_train_settle(from);
    size_t n = from->n_matches + 1u;
    from->matches = weft_realloc(from->matches, n * sizeof(*from->matches));
    from->matches[from->n_matches] = (struct sim_match_state){.match = *match};
    from->n_matches++;
    sim_port_review(from);
}

void sim_port_tap(struct sim_port *port, sim_tap tap, void *context)
{
    sim_train_settle(port);
    port->tap = tap;
    port->tap_context = context;
    sim_port_review(port);
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
