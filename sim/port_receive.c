/* Handles what arrives at a port. */
#include <string.h>

#include "base/text.h"
#include "sim/link.h"
#include "sim/stack.h"
#include "sim/train.h"

enum { ETHERNET_OVERHEAD_BYTES = 14 + 4 + 20 };

struct sim_packet *sim_packet_copy(const struct sim_packet *packet)
{
    struct sim_packet *copy = weft_alloc(sizeof(*copy));
    *copy = *packet;
    copy->payload = NULL;
    if (packet->n_payload > 0) {
        copy->payload = weft_alloc(packet->n_payload);
        memcpy(copy->payload, packet->payload, packet->n_payload);
    }
    return copy;
}

void sim_port_deliver_packet(struct sim_port *to, struct sim_packet *packet)
{
    bool fits = packet->ip_bytes <= to->mtu_bytes;
    sim_port_tap_packet(to, false, packet, fits ? NULL : "mtu");
    to->dropped.rx_oversize += fits ? 0 : 1;
    if (!fits || to->stack == NULL || !sim_port_is_up(to)) {
        sim_packet_free(packet);
        return;
    }
    sim_stack_input(to->stack, to, packet);
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
        sim_switch_packet(to->bridge, to, packet);
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

void sim_port_receive_packet(struct sim_link *link, struct sim_packet *packet)
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
        sim_nic_input(port->nic, port, frame);
    }
}

void sim_port_receive_frame(struct sim_port *port, struct sim_frame *frame)
{
    if (port->bridge != NULL) {
        sim_switch_frame(port->bridge, port, frame);
    } else if (is_strangers(port, frame->path->destination_mac)) {
        return;
    } else if (port->root != NULL) {
        sim_root_receive_frame(port->root, port, frame);
    } else {
        sim_port_deliver_frame(port, frame);
    }
}
