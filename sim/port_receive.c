/* Handles what arrives at a port. */
#include "base/check.h"
#include "base/text.h"
#include "sim/link.h"
#include "sim/train.h"

enum { ETHERNET_OVERHEAD_BYTES = 14 + 4 + 20 };

void sim_port_deliver_packet(struct sim_port *to, struct sim_packet *packet)
{
    bool fits = packet->ip_bytes <= to->mtu_bytes;
    sim_port_tap_packet(to, false, packet, fits ? NULL : "mtu");
    to->dropped.rx_oversize += fits ? 0 : 1;
    if (!fits || to->stack == NULL || !sim_port_is_up(to)) {
        sim_packet_free(packet);
        return;
    }
    to->stack_ops->input(to->stack, to, packet);
}

/* Returns true if the frame is for another station. A switch that does not know an
 * address floods, and NICs drop frames that are not for them. */
static bool is_strangers(const struct sim_port *port, uint64_t destination_mac)
{
    const struct sim_port *peer = port->out.to;
    return destination_mac != port->mac && peer != NULL && peer->bridge != NULL;
}

/* Passes `packet` to the stack of `to`, or drops it. */
static void deliver(struct sim_port *to, struct sim_packet *packet)
{
    uint64_t mac = packet->destination_mac;
    if (to->bridge != NULL) {
        to->bridge_ops->packet(to->bridge, to, packet);
    } else if (!sim_mac_is_group(mac) && is_strangers(to, mac)) {
        sim_packet_free(packet);
    } else if (to->root != NULL) {
        sim_root_receive_packet(to->root, to, packet);
    } else {
        sim_port_deliver_packet(to, packet);
    }
}

/* Passes `packet` to its receivers on the management network. */
static void distribute(const struct sim_port *from, struct sim_packet *packet)
{
    if (!sim_mac_is_group(packet->destination_mac)) {
        struct sim_port *to = sim_network_find(from->network, packet->destination_mac);
        if (to == NULL) {
            sim_packet_free(packet);
            return;
        }
        deliver(to, packet);
        return;
    }
    for (size_t i = 0; i < sim_network_size(from->network); i++) {
        struct sim_port *to = sim_network_port(from->network, i);
        if (to != from) {
            deliver(to, sim_packet_copy(packet));
        }
    }
    sim_packet_free(packet);
}

static void take_pause(struct sim_port *port, struct sim_packet *packet)
{
    sim_train_cut(port);
    port->is_paused = packet->is_pause;
    port->dropped.rx_pauses += packet->is_pause ? 1 : 0;
    sim_port_note_hold(port);
    sim_port_review(port);
    if (!port->is_paused) {
        sim_port_kick(port);
    }
    sim_packet_free(packet);
}

static void receive_packet(struct sim_link *link, struct sim_packet *packet)
{
    if (link->to == NULL && link->from->network == NULL) {
        sim_packet_free(packet);
    } else if (link->to == NULL) {
        distribute(link->from, packet);
    } else if (packet->kind == SIM_FRAME_PAUSE) {
        take_pause(link->to, packet);
    } else {
        deliver(link->to, packet);
    }
}

/* Returns true if the frame without its VLAN tag exceeds the MTU. */
static bool is_above_mtu(const struct sim_port *port, const struct sim_frame *frame)
{
    uint32_t tag_bytes = frame->path->tag_bytes;
    return frame->wire_bytes - ETHERNET_OVERHEAD_BYTES - tag_bytes > port->mtu_bytes;
}

void sim_port_deliver_frame(struct sim_port *port, struct sim_frame *frame)
{
    if ((uint32_t)(frame->wire_bytes - ETHERNET_OVERHEAD_BYTES) > port->mtu_bytes &&
        is_above_mtu(port, frame)) {
        port->dropped.rx_oversize++;
        port->dropped.rx_oversize_frames++;
        sim_port_trace_drop(port, frame, "mtu");
        sim_port_tap_frame(port, false, frame, "mtu");
        return;
    }
    if (port->tap != NULL) {
        bool is_corrupt = (frame->flags & SIM_FRAME_CORRUPT) != 0;
        sim_port_tap_frame(port, false, frame, is_corrupt ? "corrupt" : NULL);
    }
    if (port->nic != NULL) {
        port->engine->nic_ops->input(port->nic, port, frame);
    }
}

void sim_port_receive_frame(struct sim_port *port, struct sim_frame *frame)
{
    if (port->bridge != NULL) {
        port->bridge_ops->frame(port->bridge, port, frame);
    } else if (is_strangers(port, frame->path->destination_mac)) {
        return;
    } else if (port->root != NULL) {
        sim_root_receive_frame(port->root, port, frame);
    } else {
        sim_port_deliver_frame(port, frame);
    }
}

/* ---- the end of a direction ---- */

/* Passes on `frame`, which was in the ring of `link`, and releases it. */
static void hand_over(struct sim_link *link, struct sim_frame *frame)
{
    struct sim_port *to = link->to;
    if (to == NULL) {
        to = sim_network_find(link->from->network, frame->path->destination_mac);
    }
    if (to != NULL) {
        sim_port_receive_frame(to, frame);
    }
    sim_frame_release(link->from->engine, frame);
}

/* Handles the last frame of a train, or a frame with trains behind it. Copies it, because
 * its execution can settle those, which replaces the ring. */
static WEFT_APART void train_arrives(struct sim_link *link,
                                     const struct sim_frame *in_ring)
{
    struct sim_frame frame = *in_ring;
    if (frame.n_before > 0) {
        sim_train_arrives(link, &frame);
        frame.n_before = 0;
    }
    hand_over(link, &frame);
    if (link->n_unasked > 0) {
        sim_train_ask(link);
    }
}

/* The frame is executed in place in the ring. No frame is put meanwhile, because what a
 * receiver sends has an event of its own. */
void sim_port_frame_arrives(struct sim_event *event)
{
    struct sim_link *link = weft_container_of(event, struct sim_link, arrival);
    struct sim_frame *frame = &link->ring[link->head];
    link->head = (link->head + 1) & (link->cap - 1);
    link->n--;
    if (link->n > 0) {
        sim_schedule(link->from->engine, event, link->ring[link->head].at);
    }
    struct sim_port *to = link->to;
    if (link->n_trains > 0) {
        train_arrives(link, frame);
    } else if (to != NULL && frame->wire_bytes <= to->plain_bytes) {
        to->engine->nic_ops->input(to->nic, to, frame);
        sim_frame_release(link->from->engine, frame);
    } else {
        hand_over(link, frame);
    }
}

void sim_port_packet_arrives(struct sim_event *event)
{
    struct sim_link *link = weft_container_of(event, struct sim_link, flight_arrival);
    struct sim_packet *packet = sim_queue_pop(&link->flight);
    if (link->flight.n > 0) {
        sim_schedule(link->from->engine, event, link->flight.ring[link->flight.head].at);
    }
    receive_packet(link, packet);
}
