#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/landing.h"
#include "sim/packet.h"
#include "sim/rc_impl.h"

void rc_init(struct sim_qp *qp)
{
    sim_event_init(&qp->sq.doorbell, rc_doorbell);
    sim_event_init(&qp->sq.retry, rc_retry_timeout);
    sim_event_init(&qp->sq.rnr, rc_rnr_timeout);
    sim_event_init_ranked(qp->nic->engine, &qp->rq.due, SIM_RANK_DUE, rc_reply_due);
    qp->sq.deadline = SIM_NEVER;
    qp->serial = ++qp->nic->next_serial & SIM_SERIAL_MASK;
}

static void forget_resources(struct sim_qp *qp)
{
    free(qp->rq.resources);
    free(qp->rq.pending);
    free(qp->rq.behind);
    qp->rq.behind = NULL;
    qp->rq.n_behind = 0;
    qp->rq.behind_cap = 0;
    qp->rq.resources = NULL;
    qp->rq.pending = NULL;
    qp->rq.n_resources = 0;
    qp->rq.n_pending = 0;
}

void rc_fini(struct sim_qp *qp)
{
    if (qp->nic->pieces != NULL) {
        sim_land_all(qp->nic);
    }
    if (qp->nic->profile->cqes_purged) {
        sim_cq_purge(qp->send_cq, qp->serial);
        sim_cq_purge(qp->recv_cq, qp->serial);
    }
    rc_own_frames(qp);
    rc_stop_timers(qp);
    sim_cancel(qp->nic->engine, &qp->rq.due);
    forget_resources(qp);
}

void sim_qp_release_gid(struct sim_qp *qp)
{
    if (qp->holds_gid) {
        qp->holds_gid = false;
        sim_stack_gid_release(qp->nic->stack, qp->port->port,
                              qp->attr.ah_attr.grh.sgid_index);
    }
}

void rc_reset(struct sim_qp *qp)
{
    struct rc_requester *sq = &qp->sq;
    struct rc_responder *rq = &qp->rq;
    sim_qp_release_gid(qp); /* before `attr`, which has its slot, is cleared */
    rc_fini(qp);
    sq->free = sq->una = sq->send = sq->post = sq->started = 0;
    sq->packet = sq->since_ack_req = sq->n_outstanding = sq->checked = 0;
    sq->is_faulted = false;
    sq->went_back = false;
    rq->free = rq->head = rq->post = 0;
    rq->message = RC_NO_MESSAGE;
    rq->sent_nak = false;
    rq->comm_est = false;
    memset(&rq->reply, 0, sizeof(rq->reply));
    qp->flush_is_due = false;
    qp->serial = ++qp->nic->next_serial & SIM_SERIAL_MASK;
    memset(&qp->attr, 0, sizeof(qp->attr));
    sq->timeout_ps = 0;
    sq->retry_cnt = sq->rnr_retry = 0;
}

void rc_start_responder(struct sim_qp *qp)
{
    struct rc_responder *rq = &qp->rq;
    rq->epsn = qp->attr.rq_psn;
    rq->msn = 0;
    forget_resources(qp);
    rq->n_resources = qp->attr.max_dest_rd_atomic;
    rq->next_resource = 0;
    if (rq->n_resources > 0) {
        rq->resources = weft_calloc(rq->n_resources, sizeof(*rq->resources));
        rq->pending = weft_calloc(rq->n_resources, sizeof(*rq->pending));
    }
}

void rc_resize_resources(struct sim_qp *qp)
{
    struct rc_responder *rq = &qp->rq;
    struct rc_resource *old = rq->resources;
    uint32_t n_old = rq->n_resources;
    uint32_t n = qp->attr.max_dest_rd_atomic;
    uint32_t first = rq->next_resource; /* the oldest */
    if (n == n_old || (n < n_old && rq->n_pending > 0)) {
        return; /* responses in progress stay; remembering more does no harm */
    }
    rq->resources = weft_calloc(n + 1u, sizeof(*rq->resources));
    free(rq->pending);
    rq->pending = weft_calloc(n + 1u, sizeof(*rq->pending));
    rq->n_resources = n;
    rq->next_resource = 0;
    rq->n_pending = 0;
    for (uint32_t i = n < n_old ? n_old - n : 0; i < n_old; i++) {
        struct rc_resource *kept = &old[(first + i) % n_old];
        if (kept->is_known) {
            rq->resources[rq->next_resource] = *kept;
            if (kept->is_pending) {
                rq->pending[rq->n_pending++] = rq->next_resource;
            }
            rq->next_resource = (rq->next_resource + 1) % n;
        }
    }
    free(old);
}

void rc_start_requester(struct sim_qp *qp)
{
    struct rc_requester *sq = &qp->sq;
    sq->post_psn = sq->next_psn = sq->max_psn = sq->una_psn = qp->attr.sq_psn;
    /* Send WRs that a device without state checks accepted before RTS get their PSNs
     * now. */
    for (uint32_t i = sq->una; i != sq->post; i++) {
        struct sim_wqe *wqe = &sq->wqes[i & sq->mask];
        wqe->first_psn = sq->post_psn;
        wqe->n_psn = wqe->length == 0 ? 1 : (wqe->length - 1) / qp->mtu_bytes + 1;
        sq->post_psn = (sq->post_psn + wqe->n_psn) & RC_PSN_MASK;
    }
    rc_arm_doorbell(qp);
    rc_kick(qp);
}

static bool same_gid(const union ibv_gid *a, const union ibv_gid *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

/* Returns true if the packet comes from the peer's address to the QP's own
 * (rxe_recv.c). */
static WEFT_APART bool is_from_peer(struct sim_qp *qp, const struct sim_frame *frame,
                                    const struct sim_port *port)
{
    const struct sim_path *in = frame->path;
    const struct sim_path *out = qp->path;
    if (qp->verified == in) {
        return true;
    }
    if (out == NULL || in->is_v1 != out->is_v1 || qp->port->port != port ||
        !same_gid(&in->source_gid, &out->destination_gid) ||
        !same_gid(&in->destination_gid, &out->source_gid) ||
        sim_path_vlan(in) != sim_path_vlan(out) ||
        !sim_stack_owns_gid(qp->nic->stack, port, &in->destination_gid,
                            sim_path_vlan(in))) {
        return false;
    }
    if (qp->nic->profile->in_ip_stack && in->source_mac != sim_port_mac(port) &&
        !sim_stack_admits_roce(qp->nic->stack, port, &in->source_gid,
                               sim_path_vlan(in))) {
        bool is_barred = sim_stack_bars_roce(qp->nic->stack);
        qp->nic->counters.filtered_port += is_barred ? 1 : 0;
        qp->nic->counters.filtered_source += is_barred ? 0 : 1;
        return false;
    }
    if (!qp->nic->profile->gid_checked_per_packet && in->is_passing) {
        qp->heard = *in;
        qp->heard.is_passing = false;
        qp->verified = &qp->heard;
    } else if (!qp->nic->profile->gid_checked_per_packet) {
        qp->verified = in;
    }
    return true;
}

const struct sim_path *sim_nic_heard_path(const struct sim_nic *nic, uint32_t dest_qpn,
                                          const struct sim_path *path)
{
    const struct sim_qp *qp = nic == NULL ? NULL : sim_nic_qp(nic, dest_qpn);
    bool is_heard =
        qp != NULL && qp->verified == &qp->heard && sim_path_is_same(&qp->heard, path);
    return is_heard ? &qp->heard : path;
}

static void check_payload(struct sim_nic *nic, const struct sim_frame *frame)
{
    if ((frame->flags & SIM_FRAME_HASHED) != 0 && sim_frame_hash(frame) != frame->hash) {
        nic->n_payload_changes++;
        weft_trace_event(sim_trace(nic->engine), sim_now_ns(nic->engine), nic->host,
                         nic->name, "payload_changed", "qpn=%u psn=%u", frame->dest_qpn,
                         frame->psn);
    }
}

static void drop(struct sim_nic *nic, struct sim_port *port,
                 const struct sim_frame *frame, const char *why)
{
    nic->counters.dropped_unknown_qp++;
    sim_port_trace_drop(port, frame, why);
}

static bool is_receiving(const struct sim_qp *qp)
{
    return qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_RTR ||
           qp->state == IBV_QPS_SQD;
}

/* Handles a packet in all cases. */
static WEFT_APART void input_any(struct sim_nic *nic, struct sim_port *port,
                                 const struct sim_frame *frame)
{
    unsigned flags = rc_opcode_info(frame->opcode)->flags;
    if (sim_stack_forward_roce(nic->stack, port, frame)) {
        return; /* routers do not check the ICRC */
    }
    nic->counters.ecn_marks += (frame->flags & SIM_FRAME_ECN_CE) != 0;
    if ((frame->flags & SIM_FRAME_CORRUPT) != 0) {
        nic->counters.icrc_errors++;
        sim_port_trace_drop(port, frame, "icrc");
        return;
    }
    struct sim_qp *qp = sim_nic_qp(nic, frame->dest_qpn);
    if (qp == NULL || (flags & RC_IS_SPOKEN) == 0) {
        if (qp != NULL && frame->opcode == RC_CNP) {
            nic->counters.cnps++; /* no rate is reduced */
        } else {
            drop(nic, port, frame, qp == NULL ? "unknown_qp" : "opcode");
        }
        return;
    }
    if (!is_receiving(qp)) {
        drop(nic, port, frame, "qp_state");
        return;
    }
    if (!is_from_peer(qp, frame, port)) {
        drop(nic, port, frame, "address");
        return;
    }
    check_payload(nic, frame);
    if ((flags & RC_IS_REQUEST) != 0) {
        rc_handle_request(qp, frame);
    } else if (qp->state != IBV_QPS_RTR) {
        rc_handle_response(qp, frame);
    }
}

void sim_nic_input(struct sim_nic *nic, struct sim_port *port, struct sim_frame *frame)
{
    const unsigned marks = SIM_FRAME_CORRUPT | SIM_FRAME_ECN_CE | SIM_FRAME_HASHED;
    unsigned flags = rc_opcode_info(frame->opcode)->flags;
    struct sim_qp *qp = sim_nic_qp(nic, frame->dest_qpn);
    nic->rx_packets++;
    /* If the path is `verified`, it was checked with an earlier packet. */
    if (qp == NULL || qp->verified != frame->path || (frame->flags & marks) != 0 ||
        !is_receiving(qp)) {
        input_any(nic, port, frame);
    } else if ((flags & RC_IS_REQUEST) != 0) {
        rc_handle_request(qp, frame);
    } else if ((flags & RC_IS_RESPONSE) != 0 && qp->state != IBV_QPS_RTR) {
        rc_handle_response(qp, frame);
    } else {
        input_any(nic, port, frame);
    }
}
