#include "sim/port_bytes.h"

#include "base/check.h"
#include "sim/link.h"
#include "sim/nic_objects.h"
#include "sim/stack.h"

enum { VLAN_ID_MASK = 0xfff };

/* Returns why the station does not accept a packet; SIM_PACKET_OK if it does. */
static enum sim_packet_reject refuse(const struct sim_port *port,
                                     const struct sim_roce *roce)
{
    if (roce->destination_mac != port->mac && !sim_mac_is_group(roce->destination_mac)) {
        return SIM_PACKET_MAC;
    }
    uint16_t vlan_id = roce->has_vlan ? roce->vlan_tci & VLAN_ID_MASK : 0;
    if (vlan_id != 0 &&
        (port->stack == NULL || !sim_stack_has_vlan(port->stack, port, vlan_id))) {
        return SIM_PACKET_VLAN;
    }
    if (!sim_pkeys_match(roce->pkey, SIM_PKEY_DEFAULT)) {
        return SIM_PACKET_PKEY;
    }
    return SIM_PACKET_OK;
}

static void trace_refusal(const struct sim_port *port, enum sim_packet_reject reject,
                          size_t n_bytes)
{
    struct weft_trace *trace = sim_trace(port->engine);
    if (weft_trace_on(trace, WEFT_TRACE_STORY)) {
        weft_trace_event(trace, sim_now_ns(port->engine), port->host, port->name, "drop",
                         "why=%s frame_bytes=%zu", sim_packet_reject_name(reject),
                         n_bytes);
    }
}

enum sim_packet_reject sim_port_put_bytes(struct sim_port *port, const uint8_t *bytes,
                                          size_t n_bytes)
{
    struct sim_roce roce;
    struct sim_path path;
    struct sim_frame frame;
    enum sim_packet_reject found = sim_roce_decode(bytes, n_bytes, &roce, NULL);
    bool is_corrupt = found == SIM_PACKET_ICRC;
    if (found == SIM_PACKET_OK || is_corrupt) {
        enum sim_packet_reject refused = refuse(port, &roce);
        found = refused != SIM_PACKET_OK ? refused : found;
    }
    if (found != SIM_PACKET_OK && found != SIM_PACKET_ICRC) {
        trace_refusal(port, found, n_bytes);
        return found;
    }
    /* A switch or root would keep frames longer than `path` is valid. */
    weft_check(port->bridge == NULL && port->root == NULL);
    sim_frame_of_roce(&roce, &path, &frame);
    /* Copied only by the QP that accepts the packet, because anyone can send from any
     * number of addresses. */
    path.is_passing = true;
    frame.path =
        is_corrupt ? &path : sim_nic_heard_path(port->nic, frame.dest_qpn, &path);
    frame.at = sim_now(port->engine);
    frame.flags |= is_corrupt ? SIM_FRAME_CORRUPT : 0;
    /* The caller may reuse its bytes when this returns. */
    sim_frame_own(port->engine, &frame);
    sim_port_receive_frame(port, &frame);
    sim_frame_release(port->engine, &frame);
    return found;
}
