/* Inside the NIC: queue pairs and the reliable connection. */
#ifndef WEFT_SIM_RC_IMPL_H
#define WEFT_SIM_RC_IMPL_H

#include "sim/cq_impl.h"
#include "sim/nic_impl.h"

/* Queue pairs: states (sim/qp.c, sim/qp_modify.c). */
int sim_qp_check_address(struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask);
int sim_qp_check_transition(const struct sim_qp *qp, const struct ibv_qp_attr *attr,
                            int mask);
/* What set_ece asked for is accepted as far as the device has it. */
void sim_qp_accept_ece(struct sim_qp *qp);
/* The source GID's slot is free for others again; no-op if it is not held. */
void sim_qp_release_gid(struct sim_qp *qp);
void sim_qp_apply(struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask,
                  uint64_t destination_mac);
enum ibv_qp_state sim_qp_target(const struct sim_qp *qp, const struct ibv_qp_attr *attr,
                                int mask);
/* To ERR. `status` is the cause for the oldest send WR; SUCCESS: none of the sends' own.
 * `keeps_reply`: a NAK that brought it here is still to be sent. */
void rc_enter_error(struct sim_qp *qp, enum ibv_wc_status status, bool keeps_reply);
/* Changes the state and writes the story line; nothing else. */
void rc_set_state(struct sim_qp *qp, enum ibv_qp_state state);
/* Completes everything in both queues with WR_FLUSH_ERR. */
void rc_flush(struct sim_qp *qp);
/* To RESET: both sides forget everything. */
void rc_reset(struct sim_qp *qp);
void rc_init(struct sim_qp *qp);
void rc_fini(struct sim_qp *qp);
/* The states' own preparations. */
void rc_start_responder(struct sim_qp *qp);
void rc_start_requester(struct sim_qp *qp);
/* max_dest_rd_atomic changed: the newest of what is remembered stays. */
void rc_resize_resources(struct sim_qp *qp);

/* Sending. Puts the QP among those that its port asks for frames, if it has some. */
void rc_kick(struct sim_qp *qp);
bool rc_build_request(struct sim_qp *qp, struct sim_frame *out);
/* The same of `wqe`, the WR at `send`, whatever it is. */
bool rc_build_any(struct sim_qp *qp, struct sim_frame *out, struct sim_wqe *wqe);
bool rc_build_reply(struct sim_qp *qp, struct sim_frame *out);
/* For an event that is running, and does nothing after: sends the message at `send`, if it is of
 * one packet, where what would come next is that the transmitter takes it. What is behind it is
 * still to be kicked. False: nothing was done. */
bool rc_request_at_once(struct sim_qp *qp);
/* Requester. */
void rc_handle_response(struct sim_qp *qp, const struct sim_frame *frame);
/* The same, whatever it is. */
void rc_handle_any_response(struct sim_qp *qp, const struct sim_frame *frame);
/* Sends again from `psn`; `why` for the story. */
void rc_go_back(struct sim_qp *qp, uint32_t psn, const char *why);
/* Uses up a retry and goes back, or fails with RETRY_EXC. */
void rc_retry(struct sim_qp *qp, uint32_t psn, const char *why);
void rc_retry_timeout(struct sim_event *event);
void rc_rnr_timeout(struct sim_event *event);
void rc_doorbell(struct sim_event *event);
/* (Re)starts the timer of the oldest unacknowledged packet, or stops it. */
void rc_set_deadline(struct sim_qp *qp);
/* The head of the queue waits until the NIC has read it. */
void rc_arm_doorbell(struct sim_qp *qp);
/* Completes the oldest WR. */
void rc_complete_send(struct sim_qp *qp, enum ibv_wc_status status);
/* If the WR that failed locally is the oldest, its failure becomes the QP's. */
void rc_settle_fault(struct sim_qp *qp);
void rc_check_drained(struct sim_qp *qp);
weft_ps rc_rnr_time(unsigned code);

/* Responder. */
void rc_handle_request(struct sim_qp *qp, const struct sim_frame *frame);
/* The same, whatever it is. */
void rc_handle_any_request(struct sim_qp *qp, const struct sim_frame *frame);
/* A receive WR that the NIC knows of. */
bool rc_has_receive(struct sim_qp *qp);
void rc_complete_recv(struct sim_qp *qp, enum ibv_wc_status status,
                      enum ibv_wc_opcode opcode, uint32_t bytes,
                      const struct sim_frame *frame);
void rc_acknowledge(struct sim_qp *qp, uint8_t syndrome, uint32_t psn, bool is_fatal);
/* NAK with the QP going to ERR; `status` completes the receive in progress, SUCCESS: none. */
void rc_refuse(struct sim_qp *qp, uint8_t syndrome, enum ibv_wc_status status);
void rc_reply_due(struct sim_event *event);
/* Behind the reply that waits already. */
void rc_queue_reply(struct rc_responder *rq, const struct rc_reply *reply);
/* Takes the place of the reply that waits. What leaves next may be another then, with a time of
 * its own. */
void rc_replace_reply(struct sim_qp *qp, const struct rc_reply *reply);
/* Drops an RNR NAK that still waits behind READ responses, because the request that it refuses
 * has come again and finds a receive WR. No-op if none waits. */
void rc_withdraw_rnr_nak(struct sim_qp *qp);
/* A reply may leave at `at`: now, or when the event comes. */
void rc_arm_reply(struct sim_qp *qp, weft_ps at);
/* READs and atomics. */
void rc_start_read(struct sim_qp *qp, const struct sim_frame *frame);
void rc_execute_atomic(struct sim_qp *qp, const struct sim_frame *frame);
void rc_repeat_resource(struct sim_qp *qp, const struct sim_frame *frame);

#endif
