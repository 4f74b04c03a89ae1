#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/link.h"
#include "sim/memory.h"
#include "sim/pool.h"
#include "sim/train.h"

enum { ETHERNET_OVERHEAD_BYTES = 14 + 4 + 20, PAUSE_FRAME_BYTES = 64 };

static bool has_frames(const struct sim_port *port)
{
    if (port->bridge != NULL) {
        return port->bridge_ops->has_frames(port->bridge, port);
    }
    return port->nic != NULL && port->engine->nic_ops->has_frames(port->nic, port);
}

/* Schedules the next transmission for when the port is free: at once if nothing was
 * sent. */
static void schedule(struct sim_port *port)
{
    weft_ps now = sim_now(port->engine);
    sim_schedule(port->engine, &port->transmit,
                 now > port->free_at ? now : port->free_at);
}

void sim_port_kick(struct sim_port *port)
{
    sim_train_cut(port);
    if (!sim_is_scheduled(&port->transmit)) {
        schedule(port);
    }
}

void sim_port_trace_drop(struct sim_port *port, const struct sim_frame *frame,
                         const char *why)
{
    struct weft_trace *trace = sim_trace(port->engine);
    if (weft_trace_on(trace, WEFT_TRACE_STORY)) {
        weft_trace_event(trace, sim_now_ns(port->engine), port->host, port->name, "drop",
                         "why=%s opcode=%s qpn=%u psn=%u bytes=%u", why,
                         rc_opcode_info(frame->opcode)->name, frame->dest_qpn, frame->psn,
                         frame->n_payload);
    }
}

/* Counts a frame or packet as dropped if the port has no carrier. Returns true if so. */
static bool is_lost_in_darkness(struct sim_port *port)
{
    if (port->was_up) {
        return false;
    }
    port->out.stats.drops++;
    return true;
}

static void occupy(struct sim_port *port, struct sim_link *link, uint32_t wire_bytes)
{
    bool is_plain_loop = link == &port->loop && !port->has_loop_rate;
    const struct sim_rate *rate = is_plain_loop ? &port->out.rate : &link->rate;
    weft_ps time = sim_port_has_outside(port) ? 0 : sim_rate_time(rate, wire_bytes);
    port->free_at = sim_now(port->engine) + time;
    link->stats.packets++;
    link->stats.bytes += wire_bytes;
    link->stats.busy_ps += time;
    if (port->root != NULL) {
        sim_root_occupy(port->root, wire_bytes);
    }
}

void sim_port_trace_frame(struct sim_port *port, const struct sim_frame *frame)
{
    weft_trace_event(sim_trace(port->engine), sim_now_ns(port->engine), port->host,
                     port->name, "frame", "opcode=%s qpn=%u psn=%u bytes=%u",
                     rc_opcode_info(frame->opcode)->name, frame->dest_qpn, frame->psn,
                     frame->n_payload);
}

static void drop_frame(struct sim_port *port, struct sim_frame *frame, const char *why)
{
    port->out.stats.drops++;
    sim_port_trace_drop(port, frame, why);
    sim_port_tap_frame(port, true, frame, why);
    sim_frame_release(port->engine, frame);
}

/* Flips a bit of `frame`: in a way that makes its ICRC wrong, or if `unseen`, in its
 * payload (if it has one), with a recomputed ICRC. Does not change the sender's
 * memory. */
static void flip_bit(struct sim_port *port, struct sim_frame *frame, bool unseen)
{
    bool is_phantom = sim_is_phantom(sim_engine_phantom(port->engine), frame->payload);
    if (!unseen) {
        frame->flags |= SIM_FRAME_CORRUPT;
    } else if (frame->n_payload > 0 && !is_phantom) {
        uint8_t *block = sim_pool_get(sim_engine_pool(port->engine));
        memcpy(block, frame->payload, frame->n_payload);
        /* not lost in the rounding of a sum of floats */
        block[frame->n_payload / 2] ^= 0x40;
        sim_frame_release(port->engine, frame);
        frame->payload = block;
        frame->flags |= SIM_FRAME_OWNED;
        frame->flags &= (uint8_t)~SIM_FRAME_HASHED; /* the change is intended */
        weft_trace_event(sim_trace(port->engine), sim_now_ns(port->engine), port->host,
                         port->name, "flip", "opcode=%s qpn=%u psn=%u byte=%u",
                         rc_opcode_info(frame->opcode)->name, frame->dest_qpn, frame->psn,
                         frame->n_payload / 2);
    }
}

/* Sends a frame on a link with impairments, matches or a path limit. */
static void send_impaired(struct sim_port *port, struct sim_link *link,
                          struct sim_frame *frame)
{
    struct sim_fate fate = sim_link_fate(link, frame);
    if (fate.why != NULL) {
        drop_frame(port, frame, fate.why);
        return;
    }
    /* A tap at this port sees what was sent; the rest happens later. */
    const char *held = fate.extra > 0 ? "delayed" : NULL;
    sim_port_tap_frame(port, true, frame, fate.is_corrupt ? "corrupt" : held);
    if (fate.is_marked) {
        frame->flags |= SIM_FRAME_ECN_CE;
    }
    if (fate.is_corrupt) {
        flip_bit(port, frame, fate.is_unseen);
    }
    /* A delayed frame can arrive after its work request was retired. */
    if (fate.extra > 0) {
        sim_frame_own(port->engine, frame);
    }
    struct sim_frame copy = *frame;
    sim_link_put_frame(link, frame, port->free_at, fate.extra);
    if (fate.is_duplicate) {
        link->stats.frame_duplicates++;
        copy.flags &= (uint8_t)~SIM_FRAME_OWNED;
        sim_frame_own(port->engine, &copy);
        sim_port_tap_frame(port, true, &copy, "duplicate");
        sim_link_put_frame(link, &copy, port->free_at, fate.extra);
    }
}

/* Returns true if the frame without its VLAN tag exceeds the MTU. */
static bool is_above_mtu(const struct sim_port *port, const struct sim_frame *frame)
{
    uint32_t tag_bytes = frame->path->tag_bytes;
    return frame->wire_bytes - ETHERNET_OVERHEAD_BYTES - tag_bytes > port->mtu_bytes;
}

static void send_frame(struct sim_port *port, struct sim_frame *frame)
{
    bool is_loop = frame->is_loop && port->bridge == NULL && !port->outside.takes_own;
    struct sim_link *link = is_loop ? &port->loop : &port->out;
    occupy(port, link, frame->wire_bytes);
    sim_port_trace_sent(port, frame);
    if (is_loop) {
        sim_port_tap_frame(port, true, frame, NULL);
        sim_link_put_frame(link, frame, port->free_at, 0);
        return;
    }
    if (is_lost_in_darkness(port)) {
        if (!link->drop_was_logged) {
            link->drop_was_logged = true;
            sim_port_trace_drop(port, frame, "no_carrier");
        }
        sim_frame_release(port->engine, frame);
        return;
    }
    if ((uint32_t)(frame->wire_bytes - ETHERNET_OVERHEAD_BYTES) > port->mtu_bytes &&
        is_above_mtu(port, frame)) {
        drop_frame(port, frame, "mtu");
        return;
    }
    if (link->is_impaired || port->n_matches > 0 || link->path_limit_bytes != 0) {
        send_impaired(port, link, frame);
        return;
    }
    if (port->tap != NULL) {
        sim_port_tap_frame(port, true, frame, NULL);
    }
    if (sim_port_has_outside(port)) {
        port->outside.frame(port->outside.context, frame);
        sim_frame_release(port->engine, frame);
        return;
    }
    sim_link_put_frame(link, frame, port->free_at, 0);
}

/* Sends a RoCE packet that the host stack forwards as a frame of this port. */
static void send_forwarded(struct sim_port *port, struct sim_packet *packet)
{
    struct sim_forwarded *forwarded = packet->payload;
    struct sim_path path = forwarded->path;
    struct sim_frame frame = forwarded->frame;
    path.source_mac = packet->source_mac;
    path.destination_mac = packet->destination_mac;
    path.vlan_tci = packet->vlan_id;
    path.tag_bytes = packet->vlan_id != 0 ? 4 : 0;
    frame.path = sim_port_path(port, &path);
    frame.wire_bytes = (uint16_t)(packet->wire_bytes + SIM_PREAMBLE_AND_GAP_BYTES);
    frame.flags &= (uint8_t)~SIM_FRAME_OWNED;
    if (!sim_is_phantom(sim_engine_phantom(port->engine), frame.payload)) {
        frame.payload = forwarded->payload;
        sim_frame_own(port->engine, &frame);
    }
    sim_packet_free(packet);
    send_frame(port, &frame);
}

static void send_packet(struct sim_port *port, struct sim_packet *packet)
{
    struct sim_link *link = &port->out;
    bool duplicate = false;
    if (packet->kind == SIM_FRAME_ROCE) {
        send_forwarded(port, packet);
        return;
    }
    occupy(port, link, packet->wire_bytes + SIM_PREAMBLE_AND_GAP_BYTES);
    if (is_lost_in_darkness(port)) {
        link->stats.packet_drops++;
        sim_packet_free(packet);
        return;
    }
    if (sim_port_has_outside(port)) {
        port->outside.packet(port->outside.context, packet);
        return;
    }
    const char *why = sim_link_impair_packet(link, packet, &duplicate);
    sim_port_tap_packet(port, true, packet, why);
    if (why != NULL) {
        link->stats.drops++;
        link->stats.packet_drops++;
        weft_trace_event(sim_trace(port->engine), sim_now_ns(port->engine), port->host,
                         port->name, "drop", "why=%s kind=%s bytes=%u", why,
                         sim_frame_kind_name(packet->kind), packet->wire_bytes);
        sim_packet_free(packet);
        return;
    }
    if (duplicate) {
        sim_port_tap_packet(port, true, packet, "duplicate");
        sim_link_put_packet(link, sim_packet_copy(packet), port->free_at);
    }
    sim_link_put_packet(link, packet, port->free_at);
}

static bool send_from_bridge(struct sim_port *port)
{
    struct sim_frame frame;
    struct sim_packet *packet = NULL;
    if (!port->bridge_ops->pull(port->bridge, port, &frame, &packet)) {
        return false;
    }
    if (packet != NULL) {
        send_packet(port, packet);
    } else {
        send_frame(port, &frame);
    }
    return true;
}

/* Returns true if there is more to send. */
static inline bool send_from_nic(struct sim_port *port)
{
    bool has_more;
    struct sim_frame *frame = port->engine->nic_ops->pull(port->nic, port, &has_more);
    if (frame == NULL) {
        return false;
    }
    bool may_follow = sim_engine_allows_trains(port->engine);
    port->host_turn = true;
    if (may_follow && sim_train_send(port, frame)) {
        return has_more;
    }
    if (frame->wire_bytes <= port->plain_bytes && !frame->is_loop) {
        sim_port_send_plain(port, frame);
    } else {
        send_frame(port, frame);
    }
    if (may_follow) {
        sim_train_follow(port);
    }
    return has_more;
}

void sim_port_transmit(struct sim_port *port)
{
    if (port->is_paused || port->is_paused_by_fault) {
        return; /* kicked when it may continue */
    }
    bool packet_first = port->waiting.n > 0 && (port->host_turn || !has_frames(port));
    if (port->bridge != NULL) {
        if (!send_from_bridge(port)) {
            return;
        }
    } else if (packet_first) {
        port->host_turn = false;
        send_packet(port, sim_queue_pop(&port->waiting));
    } else if (port->nic != NULL) {
        (void)send_from_nic(port);
    }
    if (port->waiting.n > 0 || has_frames(port)) {
        schedule(port);
    }
}

/* Runs when the last bit has left, or when there is something to send. */
static void on_transmit(struct sim_event *event)
{
    struct sim_port *port = weft_container_of(event, struct sim_port, transmit);
    port->in_train = false;
    if (port->plain_bytes > 0 && port->waiting.n == 0) {
        if (send_from_nic(port) || port->waiting.n > 0) {
            schedule(port);
        }
    } else if (port->root == NULL || sim_root_may_send(port->root, port)) {
        sim_port_transmit(port);
    }
}

void sim_port_send_pause(struct sim_port *port, bool is_pause)
{
    struct sim_packet *packet = weft_calloc(1, sizeof(*packet));
    weft_ps now = sim_now(port->engine);
    weft_ps start = now > port->free_at ? now : port->free_at;
    packet->kind = SIM_FRAME_PAUSE;
    packet->is_pause = is_pause;
    packet->wire_bytes = PAUSE_FRAME_BYTES;
    if (!sim_port_is_up(port)) {
        sim_packet_free(packet);
        return;
    }
    weft_trace_event(sim_trace(port->engine), sim_now_ns(port->engine), port->host,
                     port->name, is_pause ? "pause" : "resume", NULL);
    sim_link_put_packet(
        &port->out, packet,
        start + sim_rate_time(&port->out.rate,
                              PAUSE_FRAME_BYTES + SIM_PREAMBLE_AND_GAP_BYTES));
}

void sim_port_init_transmitter(struct sim_port *port)
{
    sim_event_init_ranked(port->engine, &port->transmit, SIM_RANK_WIRE, on_transmit);
}

void sim_port_send(struct sim_port *port, struct sim_packet *packet)
{
    const struct sim_link *link = &port->out;
    const char *why = NULL;
    if (!sim_port_is_up(port)) {
        why = "no_carrier";
    } else if (packet->ip_bytes > port->mtu_bytes) {
        why = "mtu";
    } else if (link->queue_bytes != 0 && !link->pauses &&
               port->waiting.bytes + packet->wire_bytes > link->queue_bytes) {
        why = "queue_full";
    }
    if (why != NULL) {
        port->out.stats.drops++;
        port->out.stats.packet_drops++;
        port->dropped.tx_queue_full += strcmp(why, "queue_full") == 0 ? 1 : 0;
        weft_trace_event(sim_trace(port->engine), sim_now_ns(port->engine), port->host,
                         port->name, "drop", "why=%s kind=%s bytes=%u", why,
                         sim_frame_kind_name(packet->kind), packet->wire_bytes);
        sim_packet_free(packet);
        return;
    }
    sim_queue_push(&port->waiting, 0, packet);
    sim_port_kick(port);
}
