/* Building the frames of a queue pair: inline, for each is one of millions. */
#ifndef WEFT_SIM_RC_FRAME_H
#define WEFT_SIM_RC_FRAME_H

#include "sim/nic_impl.h"

/* Hashes the payload for sim_nic_check_payloads. */
void rc_frame_hash(const struct sim_nic *nic, struct sim_frame *frame);

/* Never 0, which says that there is none. */
static inline uint16_t rc_next_ipv4_id(struct sim_nic_port *port)
{
    port->ipv4_id = (uint16_t)(port->ipv4_id == UINT16_MAX ? 1 : port->ipv4_id + 1);
    return port->ipv4_id;
}

/* What all frames of a QP have in common. */
static inline void rc_frame_init(const struct sim_qp *qp, struct sim_frame *frame,
                                 uint8_t opcode, uint32_t psn)
{
    frame->payload = NULL;
    frame->path = qp->path;
    frame->psn = psn & RC_PSN_MASK;
    frame->dest_qpn = qp->dest_qpn;
    frame->source_qpn = qp->ibv.qp_num;
    frame->n_payload = 0;
    frame->n_before = 0;
    frame->stride = 0;
    frame->is_agreed = false;
    frame->sport = qp->sport;
    frame->ipv4_id = qp->nic->profile.ipv4_id_rises ? rc_next_ipv4_id(qp->port) : 0;
    frame->opcode = opcode;
    frame->flags = qp->nic->profile.mig_req ? SIM_FRAME_MIG_REQ : 0;
}

/* Fixes sizes once payload and opcode are known. */
static inline void rc_frame_finish(struct sim_qp *qp, struct sim_frame *frame)
{
    unsigned ext = rc_opcode_info(frame->opcode)->ext_bytes;
    uint32_t ip_bytes = sim_frame_ip_bytes(frame->path, ext, frame->n_payload);
    frame->wire_bytes = (uint16_t)(ip_bytes + 14 + 4 + SIM_PREAMBLE_AND_GAP_BYTES +
                                   frame->path->tag_bytes);
    if (qp->nic->checks_payload) {
        rc_frame_hash(qp->nic, frame);
    }
}

#endif
