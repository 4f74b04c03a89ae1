/* Builds the frames of a queue pair. Inline, because it runs for every frame. */
#ifndef WEFT_SIM_RC_FRAME_H
#define WEFT_SIM_RC_FRAME_H

#include <string.h>

#include "sim/nic_objects.h"

/* Stores a hash of the payload for sim_nic_check_payloads(). */
static inline void rc_frame_hash(const struct sim_nic *nic, struct sim_frame *frame)
{
    if (!sim_is_phantom(nic->phantom, frame->payload)) {
        frame->hash = sim_frame_hash(frame);
        frame->flags |= SIM_FRAME_HASHED;
    }
}

/* Returns the next IPv4 id. Never 0, which means that there is none. */
static inline uint16_t rc_next_ipv4_id(struct sim_nic_port *port)
{
    port->ipv4_id = (uint16_t)(port->ipv4_id == UINT16_MAX ? 1 : port->ipv4_id + 1);
    return port->ipv4_id;
}

/* Sets the fields that all frames of a QP have in common. */
static inline void rc_frame_init(const struct sim_qp *qp, struct sim_frame *frame,
                                 uint8_t opcode, uint32_t psn)
{
    memcpy(frame, &qp->model, SIM_FRAME_COMMON_BYTES);
    frame->psn = psn & RC_PSN_MASK;
    frame->opcode = opcode;
    if (qp->nic->profile->ipv4_id_rises) {
        frame->ipv4_id = rc_next_ipv4_id(qp->port);
    }
}

/* Returns true if the next packet must request an acknowledgement, because it is the last
 * of its message or `ack_req_packets` packets have gone without. */
static inline bool rc_takes_ack_req(struct sim_qp *qp, bool is_last)
{
    struct rc_requester *sq = &qp->sq;
    sq->since_ack_req++;
    if (is_last || sq->since_ack_req >= qp->nic->profile->ack_req_packets) {
        sq->since_ack_req = 0;
        return true;
    }
    return false;
}

/* Sets the sizes. Call when payload and opcode are known. */
static inline void rc_frame_finish(struct sim_qp *qp, struct sim_frame *frame)
{
    unsigned ext = rc_opcode_infos[frame->opcode].ext_bytes;
    frame->wire_bytes =
        (uint16_t)(qp->overhead_bytes + ext + ((frame->n_payload + 3u) & ~3u));
    if (qp->nic->checks_payload) {
        rc_frame_hash(qp->nic, frame);
    }
}

#endif
