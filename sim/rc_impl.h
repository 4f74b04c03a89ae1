/* Queue pairs and the reliable connection, internal to the NIC. */
#ifndef WEFT_SIM_RC_IMPL_H
#define WEFT_SIM_RC_IMPL_H

#include "sim/nic_objects.h"

/* Queue pairs: states (sim/qp.c, sim/qp_modify.c, sim/rc_complete.c). */
int sim_qp_check_address(struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask);
int sim_qp_check_transition(const struct sim_qp *qp, const struct ibv_qp_attr *attr,
                            int mask);
/* Accepts the options that set_ece requested, as far as the device has them. */
void sim_qp_accept_ece(struct sim_qp *qp);
/* Releases the source GID's slot; does nothing if it is not held. */
void sim_qp_release_gid(struct sim_qp *qp);
/* Ends what ties the QP to its port, if it has one, before it is bound to another:
 * frames that wait there, payloads on the wire, the verified path. */
void sim_qp_leave_port(struct sim_qp *qp);
void sim_qp_apply(struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask,
                  uint64_t destination_mac);
enum ibv_qp_state sim_qp_target(const struct sim_qp *qp, const struct ibv_qp_attr *attr,
                                int mask);
/* Moves the QP to ERR. `status` completes the oldest send WR; SUCCESS if no send WR is
 * the cause. `keeps_reply` keeps a NAK that caused the error and is still to be sent. */
void rc_enter_error(struct sim_qp *qp, enum ibv_wc_status status, bool keeps_reply);
/* Changes the state and logs it; does nothing else. */
void rc_set_state(struct sim_qp *qp, enum ibv_qp_state state);
/* Moves the QP to ERR, because one of its CQs overran (struct sim_nic). */
void rc_cq_overran(struct sim_qp *qp);
/* Completes everything in both queues with WR_FLUSH_ERR. */
void rc_flush(struct sim_qp *qp);
/* Copies the payloads that are on the wire of the QP's port, if it has one, because the
 * user gets the memory back. */
void rc_own_frames(struct sim_qp *qp);
void rc_stop_timers(struct sim_qp *qp);
/* Clears both sides for RESET, and releases the source GID's slot. */
void rc_reset(struct sim_qp *qp);
void rc_init(struct sim_qp *qp);
void rc_fini(struct sim_qp *qp);
/* Prepare the QP for RTR and for RTS. */
void rc_start_responder(struct sim_qp *qp);
void rc_start_requester(struct sim_qp *qp);
/* Adapts the list of resources to a new max_dest_rd_atomic; keeps the newest. */
void rc_resize_resources(struct sim_qp *qp);

/* For ports, through sim_nic_ops (sim/qp.c). */
bool sim_nic_has_frames(struct sim_nic *nic, const struct sim_port *port);
struct sim_frame *sim_nic_pull(struct sim_nic *nic, struct sim_port *port,
                               bool *has_more);

/* Returns true for WRs that wait for a response with data. */
static inline bool rc_is_read_or_atomic(const struct sim_wqe *wqe)
{
    return wqe->opcode == IBV_WR_RDMA_READ || wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
           wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* Sending. rc_kick() adds the QP to the list of its port if it has frames to send. */
void rc_kick(struct sim_qp *qp);
bool rc_build_request(struct sim_qp *qp, struct sim_frame *out);
/* Builds the next frame of `wqe`, the WR at `send`, in all cases. */
bool rc_build_any(struct sim_qp *qp, struct sim_frame *out, struct sim_wqe *wqe);
bool rc_build_reply(struct sim_qp *qp, struct sim_frame *out);
/* Sends the message at `send` at once, if it is a single packet and the transmitter would
 * take it as the next event. The caller must kick the QP if more is queued. Returns false
 * if nothing was done. Only for the event that is running, which must do nothing
 * afterwards. */
bool rc_request_at_once(struct sim_qp *qp);
/* Requester. */
void rc_handle_response(struct sim_qp *qp, const struct sim_frame *frame);
/* Does the work of rc_handle_response() in all cases. */
void rc_handle_any_response(struct sim_qp *qp, const struct sim_frame *frame);
/* Retransmits from `psn`; `why` is for the event log, NULL if nothing is
 * retransmitted. */
void rc_go_back(struct sim_qp *qp, uint32_t psn, const char *why);
/* Uses up a retry and goes back to `psn`, or fails the QP with RETRY_EXC. */
void rc_retry(struct sim_qp *qp, uint32_t psn, const char *why);
void rc_retry_timeout(struct sim_event *event);
void rc_rnr_timeout(struct sim_event *event);
void rc_doorbell(struct sim_event *event);
/* Starts the timer of the oldest unacknowledged packet again, or stops it. */
void rc_set_deadline(struct sim_qp *qp);
/* Wakes the QP when the NIC has read the WR at `send`. */
void rc_arm_doorbell(struct sim_qp *qp);
/* Completes the oldest WR. */
void rc_complete_send(struct sim_qp *qp, enum ibv_wc_status status);
/* Fails the QP if the WR that failed locally is the oldest. */
void rc_settle_fault(struct sim_qp *qp);
void rc_check_drained(struct sim_qp *qp);
weft_ps rc_rnr_time(unsigned code);

/* Responder. */
void rc_handle_request(struct sim_qp *qp, const struct sim_frame *frame);
/* Does the work of rc_handle_request() in all cases. */
void rc_handle_any_request(struct sim_qp *qp, const struct sim_frame *frame);
/* Returns true if there is a receive WR that the NIC has read; takes one from the SRQ if
 * there is one. */
bool rc_has_receive(struct sim_qp *qp);
void rc_complete_recv(struct sim_qp *qp, enum ibv_wc_status status,
                      enum ibv_wc_opcode opcode, uint32_t bytes,
                      const struct sim_frame *frame);
void rc_acknowledge(struct sim_qp *qp, uint8_t syndrome, uint32_t psn, bool is_fatal);
/* Sends a NAK and moves the QP to ERR. `status` completes the receive in progress;
 * SUCCESS if there is none. */
void rc_refuse(struct sim_qp *qp, uint8_t syndrome, enum ibv_wc_status status);
void rc_reply_due(struct sim_event *event);
/* Queues a reply behind the one that is waiting. */
void rc_queue_reply(struct rc_responder *rq, const struct rc_reply *reply);
/* Replaces the waiting reply. Another reply may then be the next to leave, at its own
 * time. */
void rc_replace_reply(struct sim_qp *qp, const struct rc_reply *reply);
/* Drops an RNR NAK that is still waiting behind READ responses, because the request that
 * it refuses was received again and now finds a receive WR. Does nothing if none is
 * waiting. */
void rc_withdraw_rnr_nak(struct sim_qp *qp);
/* Makes the QP send a reply at `at`: now, or when the event fires. */
void rc_arm_reply(struct sim_qp *qp, weft_ps at);
/* READs and atomics. */
void rc_start_read(struct sim_qp *qp, const struct sim_frame *frame);
void rc_execute_atomic(struct sim_qp *qp, const struct sim_frame *frame);
void rc_repeat_resource(struct sim_qp *qp, const struct sim_frame *frame);

/* Completions (sim/cq.c). */
void sim_cq_push(struct sim_cq *cq, const struct sim_cqe *cqe);
/* Removes the unpolled completions of that QP. */
void sim_cq_purge(struct sim_cq *cq, uint32_t qp_serial);
/* Pushes a successful send completion, and before it one with GENERAL_ERR if the profile
 * asks for that. */
void sim_cq_push_sent(struct sim_cq *cq, const struct sim_cqe *cqe);

/* Returns the slot of the next entry, to be filled and passed to sim_cq_put(). NULL if
 * that does not suffice, because the ring must grow or the CQ overruns; sim_cq_push()
 * handles both. */
static inline struct sim_cqe *sim_cq_slot(struct sim_cq *cq)
{
    if (cq->n == 0) {
        /* A CQ that is polled reuses its first entries, which stay in the cache. */
        cq->head = 0;
    }
    return cq->n == cq->cap || cq->n == cq->depth || cq->is_overrun
               ? NULL
               : &cq->ring[(cq->head + cq->n) & (cq->cap - 1)];
}

/* Adds the entry in `slot`, which becomes visible after the profile's overhead. */
static inline void sim_cq_put(struct sim_cq *cq, struct sim_cqe *slot)
{
    struct sim_engine *engine = cq->nic->engine;
    bool wakes = cq->is_armed && (!cq->armed_solicited || slot->is_solicited);
    slot->visible_at = sim_now(engine) + cq->nic->profile->cqe_overhead_ps;
    cq->n++;
    if (wakes && !sim_is_scheduled(&cq->notify)) {
        sim_schedule(engine, &cq->notify, slot->visible_at);
    }
}

#endif
