/* Defines the internals of a flow, which its source files share. */
#ifndef WEFT_XFER_FLOW_PRIVATE_H
#define WEFT_XFER_FLOW_PRIVATE_H

#include "rdma/timers.h"
#include "xfer/flow.h"
#include "xfer/suspects.h"
#include "xfer/wire.h"

#define FLOW_MESSAGES 256u /* maximum number of messages that are open at a time */
#define FLOW_RECEIVES XFER_SLOTS
#define FLOW_FLUSHES 32u
/* maximum number of pieces that the receiver has posted at a time */
#define FLOW_PIECES (FLOW_LANES_MAX * XFER_SLOTS)

enum flow_lane_state {
    /* unconnected; waits until the sender needs it (a lane without a share) or connects it */
    FLOW_LANE_IDLE,
    FLOW_LANE_CONNECTING, /* waits until `conn` is up */
    FLOW_LANE_UP,         /* `xfer` moves messages */
    FLOW_LANE_STOPPING,   /* failed or ended; waits until its queues have flushed */
    FLOW_LANE_DOWN        /* stopped; waits for `next`, or (sender) until retry_ns */
};

/* A part of a request that a lane moves. On the sender, it is one transfer to one clear-to-send. On
 * the receiver, it is one posted group: either several whole messages of one request, or one or
 * more fragments of one message. */
struct flow_piece {
    struct flow_piece *next; /* in the lane's list, in order, or in flow->free_pieces */
    struct flow_request *request;
    struct xfer_request *xfer;
    uint32_t n_bytes; /* sender: size of the clear-to-send */
    /* receiver: bit i is set if buffer i of the request is part of it */
    uint32_t buffers;
    /* receiver: first fragment of each of these buffers, and maximum number of fragments */
    uint32_t fragment, n_fragments;
};

/* One route of a flow, its present connection, and the one that replaces that. */
struct flow_lane {
    enum flow_lane_state state;
    uint8_t index;
    uint32_t share, n_via;
    uint16_t via[FLOW_VIA_MAX];
    uint8_t handle[CONN_HANDLE_BYTES];
    uint32_t epoch;    /* epoch of `conn`; 0 if there was no connection yet */
    struct conn *conn; /* Owned; kept after it failed, because its task carries a timer */
    /* Owned, or NULL: replaces `conn` once that has stopped. The sender connected it in state UP,
     * or the receiver accepted it. */
    struct conn *next;
    uint32_t next_epoch; /* epoch of `next`, or of the last connection that was `next` */
    bool next_is_answered; /* receiver: `next` has its answer, while `conn` goes on */
    bool must_return;      /* sender: a trial has shown that there can be more rails */
    bool is_leaving;  /* `next` is up, and the sender starts nothing more on `conn` */
    weft_ns leave_ns; /* deadline for the handover while is_leaving */
    /* Owned, receiver, or NULL: a connection that was handed over. The sender ends it, or this end
     * does at past_ns. */
    struct conn *past;
    weft_ns past_ns;
    struct xfer *xfer; /* Owned, or NULL if `conn` is not up */
    /* Both are true once a connection has been up. flow_came_up() sets the second one, so that it
     * can recognise the first connection. */
    bool was_up, conn_was_up;
    /* its last connection ended deliberately, for one with more rails */
    bool is_returning;
    weft_ns up_ns;    /* when it came up last */
    weft_ns stop_ns;  /* deadline for completions in FLOW_LANE_STOPPING */
    weft_ns retry_ns; /* sender: when the next connection is attempted */
    uint32_t tries;   /* failures since it was last up for TIMER_STEADY_NS */
    /* Owned, or NULL: the last attempt's failure, if both ends' reports showed that it had no ports
     * to use. Either no ports of the ends face each other, or one of those that do is down. Another
     * attempt fails, too, until a port or an address changes. */
    struct weft_error *no_way;
    /* Since when its attempts fail for a reason that waiting does not remove, as far as this end
     * knows. Either an address that faces the peer is missing although no port is down, or a verb
     * was refused. 0 if the last attempt did not fail for such a reason. A lane that came up and
     * failed at once does not count as an attempt that succeeded. */
    weft_ns hopeless_ns;
    /* When the last failed attempt began. Attempts that only show that an end left ports out do not
     * count. */
    weft_ns asked_ns;
    /* Sender: when the last attempt began of which nothing could have kept the lane from coming up
     * but an outage longer than a flow has to survive; 0 if there was none (flow_outage.c). */
    weft_ns over_ns;
    /* Sender of a relayed lane: route, and start, of the first such attempt of this round, in which
     * each route is tried; 0 if there was none. */
    uint16_t round_via[FLOW_VIA_MAX];
    uint32_t n_round_via;
    weft_ns round_ns;
    /* Sender of a relayed lane: route of the first of the attempts in succession that failed
     * because a relay has lost every device to the next member. n_gone_via is 0 if the last attempt
     * failed for another reason. */
    uint16_t gone_via[FLOW_VIA_MAX];
    uint32_t n_gone_via;
    bool is_gone; /* these attempts have tried every route, and the first one again */
    /* Owned, or NULL: its first failure since it was up last. A failure that this end observed
     * replaces one that the peer reported. A failure of a cable replaces the lack of one. Dropped
     * if it is that of a port which is up again. */
    struct weft_error *why;
    uint64_t dealt;          /* receiver: bytes posted since any lane came up last */
    struct xfer_cursor seen; /* sender: position behind the grants that were read */
    uint32_t heard;          /* sender: last notice on this connection, if has_heard */
    bool has_heard;
    /* sender: a grant was skipped because a queue or pool was full */
    bool has_passed_over;
    struct flow_piece *pieces, *last_piece; /* pieces in progress, in order */
};

enum flow_request_kind { FLOW_FREE, FLOW_SEND, FLOW_RECV, FLOW_FLUSH };

struct flow_buffer { /* one buffer of a grouped receive */
    uint8_t *data;
    uint64_t size;
    const struct xfer_memory *memory;
    uint32_t tag;
    /* fragments, and how many have been requested in order */
    uint32_t n_fragments, n_posted;
    uint32_t n_moving; /* pieces that were posted and have not arrived */
    uint64_t n_bytes;  /* bytes that have arrived */
    bool is_done;
};

struct flow_request {
    enum flow_request_kind kind;
    bool is_done;
    /* number of the message, or of the first message of the group; modulo 2^20 */
    uint32_t number;
    struct flow_request *next; /* in flow->free, flow->open (in order) or flow->flushes */
    union {
        struct {
            const uint8_t *data;
            uint64_t n_bytes; /* size, cut to the receiver's buffer */
            uint64_t whole;   /* size of the receiver's buffer */
            /* size of the clear-to-sends whose transfers are complete */
            uint64_t n_acked;
            const struct xfer_memory *memory;
            uint32_t n_moving; /* pieces in progress */
            bool has_ack;      /* a transfer is complete, maybe of no bytes */
            /* only the receiver knows whether the message has arrived */
            bool needs_notice;
            bool is_noticed; /* the receiver has reported that it has the message */
        } send;
        struct {
            uint32_t n, n_missing;
            struct flow_buffer *buffers; /* [XFER_MULTI_MAX] */
        } recv;
        struct {
            const struct xfer_memory *memory;
            const void *data;
            size_t n_bytes;
            struct xfer_request *xfer[FLOW_LANES_MAX];
            uint32_t wanted; /* bit l is set if the flush on lane l must be started */
            uint32_t lanes;  /* bit l is set if the flush on lane l is in progress */
            bool must_start; /* start it on all lanes that are up, once there is one */
        } flush;
    } as;
};

/* State of a message number at the sender. */
enum flow_message_state {
    FLOW_UNKNOWN, /* waits for a clear-to-send */
    FLOW_OPEN,    /* has a clear-to-send; waits for a send with its tag */
    FLOW_MATCHED  /* has its send */
};

struct flow_message {
    enum flow_message_state state;
    uint32_t number;
    uint32_t tag, whole; /* tag and size of the receiver's buffer */
    uint8_t index, n;    /* position in its group, and size of the group */
    /* its send; NULL before FLOW_MATCHED and once it is done */
    struct flow_request *request;
};

/* Receiver: fragments of a piece whose lane failed, which must be requested again. */
struct flow_lost {
    struct flow_request *request;
    uint32_t buffer, fragment, n_fragments;
};

/* A flow. The members that every message uses come first. With hundreds of ranks in one program,
 * cache misses are most of the cost of a message. */
struct flow {
    struct rdma *rdma;
    uint64_t n_looks;   /* result of flow_n_looks() */
    bool has_all_asked; /* receiver: every part of all open requests has been requested */
    struct io_task *task; /* Not owned. */
    bool is_closing;

    struct flow_request *requests; /* Owned [n_requests] */
    uint32_t n_requests;
    struct flow_request *free;
    struct flow_request *open, *open_last; /* sends or receives in progress, in order */
    struct flow_request *flushes;
    struct flow_buffer *buffers; /* Owned [n_requests * XFER_MULTI_MAX]; receiver */
    struct flow_piece *pieces;   /* Owned [n_pieces] */
    uint32_t n_pieces;
    struct flow_piece *free_pieces;

    struct flow_message *messages; /* Owned [FLOW_MESSAGES]; sender */
    /* sender: number of the oldest message that is not matched; receiver: number of the next one */
    uint32_t next_number;
    uint32_t
        base; /* receiver: all messages before this number are complete; modulo 2^20 */
    uint32_t noticed;    /* receiver: `base` in the last notice */
    bool must_notify;    /* receiver: send a notice even if `base` has not changed */
    bool has_late_port;  /* receiver: a set-up now would give more rails */
    bool must_tell_late; /* receiver: has_late_port has not been reported to the sender */
    /* receiver: receives and flushes that flow_test() has not completed yet */
    uint32_t n_receives, n_flushes;
    uint32_t n_lost;
    struct flow_config config; /* its via pointers are NULL */
    struct flow_lane lanes[FLOW_LANES_MAX];
    struct conn *closing[2 * FLOW_LANES_MAX]; /* Owned, or NULL: connections that close */
    struct flow_lost lost[FLOW_PIECES]; /* receiver: [n_lost], in order of messages */

    weft_ns opened_ns;
    bool was_up;         /* a lane has been up */
    weft_ns first_up_ns; /* when the first lane came up; valid if was_up */
    bool may_stall;      /* a lane's rails had software at an end, so far */
    struct suspects suspects;
    /* Owned, or NULL: why left_out_port was left out. It is the first port that was suspected
     * before a lane was up, or later one whose attempts to recover are used up. */
    struct weft_error *left_out;
    struct suspect left_out_port;
    struct conn_kept kept; /* rails of the first lane, for policies that keep them */
    struct conn *trial;    /* Owned, or NULL */
    weft_ns trial_ns;      /* when the next trial starts, or WEFT_NEVER */
    uint32_t n_trials;     /* trials that failed in succession */
    /* Ports that failed in the current round of trials; its remaining trials exclude them. */
    struct suspect spared[CONN_RAILS_MAX];
    uint32_t n_spared;
    /* most rails that the direct lane had, agreed on, or can have */
    uint32_t n_rails_best;
    uint32_t n_flaps;  /* ports that went down within TIMER_FLAPS_NS of the one before */
    uint32_t n_stalls; /* stalled lanes since the last message was moved */
    uint32_t
        n_refusals;  /* lanes on which this end refused a message, since one was moved */
    bool has_moved;  /* a part of a message was moved */
    weft_ns beat_ns; /* when quiet lanes are probed next */
    weft_ns without_ns; /* since when a failure has left no lane up; 0 if none has */
    /* since when the cable of the failure that set without_ns had been silent; 0: unknown */
    weft_ns silent_ns;
    /* when a port of this host came up last, or a GID_CHANGE event came; 0 if never */
    weft_ns port_up_ns;
    /* when an end was last seen to stall since without_ns; 0 if never */
    weft_ns still_ns;
    struct flow_loops *loops; /* Owned, or NULL: for flushes after the peer has closed */
    /* the peer has closed; `error` is set once all lanes have stopped */
    bool peer_closed;
    struct flow_final final; /* final state of the peer */
    /* final state of this end, once it is closing */
    uint8_t own_final[CONN_PURPOSE_BYTES];
    struct weft_error error; /* why the flow has ended; status WEFT_OK if not */
    /* what left no lane up; the error of a flow that gives up */
    struct weft_error first_failure;
    struct weft_error last_failure; /* last failure of a lane or of a replacement */
    /* the first failure that set a lane's hopeless_ns */
    struct weft_error hopeless_failure;
    struct flow_counters counters;
};

/* ---- flow_state.c ---- */
/* Returns a free request, or NULL. */
struct flow_request *flow_request_take(struct flow *flow, enum flow_request_kind kind);
void flow_request_give(struct flow *flow, struct flow_request *request);
/* Returns a free piece, appended to the lane's list, or NULL. */
struct flow_piece *flow_piece_take(struct flow *flow, struct flow_lane *lane);
/* Frees `piece`, which follows `before` in its lane's list. `before` is NULL if it is the first. */
void flow_piece_give(struct flow *flow, struct flow_lane *lane, struct flow_piece *before,
                     struct flow_piece *piece);
void flow_open_append(struct flow *flow, struct flow_request *request);
void flow_open_remove(struct flow *flow, struct flow_request *request);
/* Returns a - b for message numbers, which wrap at 2^20; from -2^19 to 2^19 - 1. */
static inline int32_t flow_distance(uint32_t a, uint32_t b)
{
    return (int32_t)((a - b) << (32 - XFER_MESSAGE_BITS)) >> (32 - XFER_MESSAGE_BITS);
}
/* Returns true if the receiver must report completions on this lane by notices. An ACK of the next
 * NIC does not show there that the receiver has the data. On the first connection of a direct lane
 * it does, unless another lane has been up. The receiver reports from the moment that the other
 * lane connects, so that it does not wait longer than the sender believes. */
static inline bool flow_is_noticed(const struct flow *flow, const struct flow_lane *lane)
{
    bool is_noticed = lane->n_via > 0 || lane->epoch > 1;

    for (uint32_t i = 0; i < flow->config.n_lanes && !is_noticed; i++) {
        const struct flow_lane *other = &flow->lanes[i];

        is_noticed =
            other != lane && (flow->config.is_sender ? other->was_up : other->epoch > 0);
    }
    return is_noticed;
}
/* Bit of a notice beside the base: the receiver has a port that no rail uses, but one could. */
#define FLOW_NOTICE_LATE (UINT32_C(1) << XFER_MESSAGE_BITS)
/* Adds the counters of an xfer that is about to be closed. */
void flow_counters_keep(struct flow *flow, const struct xfer *xfer);
/* Ends the flow with `why` and the ranks of both ends, unless it has ended. Returns its status. */
weft_status flow_give_up(struct flow *flow, const struct weft_error *why);
bool flow_any_up(const struct flow *flow);
/* Returns `first`, doubled `times` times, but at most `most`. */
weft_ns flow_doubled(weft_ns first, uint32_t times, weft_ns most);

/* ---- flow_rails.c ---- */
/* Suspects a port of this host because of a failure that names it. */
void flow_leave_out(struct flow *flow, const struct rdma_port *port,
                    const struct weft_error *why);
/* Records why a port is left out, for flow_left_out(). */
void flow_note_left_out(struct flow *flow, const struct rdma_port *port,
                        const struct weft_error *why);
/* Returns the direct lane that is up with fewer rails than n_rails_best, or NULL. */
struct flow_lane *flow_lesser_lane(struct flow *flow);
/* Returns when the next trial is due if a lane or a trial fails now, or WEFT_NEVER if the policy
 * permits no more. */
weft_ns flow_trial_at(const struct flow *flow);
/* Finds ports for rails that the lane's set-up could not have, but that a set-up now could. The
 * sender makes them candidates for a trial; the receiver reports them to the sender. */
void flow_expect_rails(struct flow *flow, const struct flow_lane *lane);
/* Sender: handles the receiver's notice that it has such a port. */
void flow_hear_late(struct flow *flow, const struct flow_lane *lane);

/* ---- flow_lane.c ---- */
/* Makes progress with the connections of all lanes, and with data on them. */
weft_status flow_lanes_progress(struct flow *flow) WEFT_MUST_CHECK;
/* Connects the lanes that a sender starts with. */
weft_status flow_lanes_open(struct flow *flow) WEFT_MUST_CHECK;
/* Fails a lane that is UP or CONNECTING: its queues flush, and `why` is sent to the peer. The flow
 * ends unless may_fail_over. */
void flow_lane_fail(struct flow *flow, struct flow_lane *lane,
                    const struct weft_error *why);
/* Closes a connection and keeps it until it is closed. NULL is ignored. */
void flow_retire(struct flow *flow, struct conn *conn);
/* Does what flow_retire() does, and sends this end's final state to the peer. */
void flow_retire_with(struct flow *flow, struct conn *conn,
                      const uint8_t final[CONN_PURPOSE_BYTES]);
/* Aborts `next`, which the flow does not use, and sets it to NULL. */
void flow_retire_next(struct flow *flow, struct flow_lane *lane);
/* Encodes the purpose of a connection of the lane. */
void flow_fill_purpose(const struct flow *flow, const struct flow_lane *lane,
                       enum flow_purpose_kind kind, uint32_t epoch,
                       uint8_t out[CONN_PURPOSE_BYTES]);
/* Sender: connects the lane's next epoch. Returns WEFT_AGAIN if there is no route now, and sets
 * retry_ns. */
weft_status flow_start_lane(struct flow *flow, struct flow_lane *lane) WEFT_MUST_CHECK;
/* Stops a rail of a direct lane; the lane goes on without it until another connection replaces the
 * present one. Returns false if the lane has to fail. */
bool flow_drop_rail(struct flow *flow, struct flow_lane *lane,
                    const struct conn_rail *rail);
/* Returns when the lane's replacement, or the connection that it replaced, is due if nothing wakes
 * a task. */
weft_ns flow_replace_at(const struct flow *flow, const struct flow_lane *lane);

/* ---- flow_failover.c ---- */
/* Sender: adds the suspected ports and the limits of an attempt to `config`, for the lane's next
 * connection. */
void flow_failover_config(const struct flow *flow, const struct flow_lane *lane,
                          struct conn_config *config);
/* Handles the failure of a lane, if may_fail_over. Ends the flow if the peer is gone, or if another
 * attempt is useless. */
void flow_failed(struct flow *flow, struct flow_lane *lane, const struct weft_error *why);
/* Handles that a lane came up. */
void flow_came_up(struct flow *flow, struct flow_lane *lane);
/* Returns true if an end is software, as far as this end knows. */
bool flow_may_stall(const struct flow *flow);
/* Records when an end of the lane was last seen to stall. A process that stalls does not answer,
 * but it has not exited. */
void flow_note_still(struct flow *flow, const struct flow_lane *lane);
/* Returns when a flow without a lane ends; WEFT_NEVER if no failure has left it without one. A
 * hopeless flow ends sooner, but not while an end stalls. */
weft_ns flow_end_of_patience(const struct flow *flow);
/* Ends a flow that was without a lane for too long. The error is the failure that left it without
 * one, or the one that waiting does not remove. Values describe the last attempt. */
weft_status flow_give_up_waiting(struct flow *flow);
/* Returns when the flow counts as up. Returns 0 if each lane with a share has been up. Once a lane
 * has been up, lanes that have no ports to come up over do not count. Otherwise returns the end of
 * the wait for the other lanes. Returns WEFT_NEVER if no lane has been up, or if the flow may not
 * fail over. */
weft_ns flow_first_lanes_end(const struct flow *flow);
/* Records, before a flow closes, why direct lanes with a share were never up, and how many relays
 * stood in for them. */
void flow_note_unconnected(struct flow *flow);

/* ---- flow_outage.c ---- */
/* Sender: handles a failure of a lane. `shows_suspicion`: it may only show that ports were left
 * out. */
void flow_outage_note(struct flow *flow, struct flow_lane *lane,
                      const struct weft_error *why, bool shows_suspicion);
/* Sender: handles that a relayed lane is about to connect over its route. */
void flow_outage_turn(struct flow_lane *lane);
/* Returns true if a flow without a lane cannot get one. Either it has been without one for longer
 * than any outage that it has to survive, as an attempt of every lane over every route has shown,
 * or relays have lost the devices of all routes. */
bool flow_outage_is_over(const struct flow *flow);

/* ---- flow_port.c ---- */
/* Handles a rail of the lane on which nothing completes although no queue pair fails: drops the
 * rail, fails the lane, or ends the flow. Does nothing if there is no such rail. */
void flow_leave_stalled(struct flow *flow, struct flow_lane *lane);

/* ---- flow_trial.c ---- */
void flow_trial_progress(struct flow *flow);

/* ---- flow_send.c ---- */
weft_status flow_send_progress(struct flow *flow, struct flow_lane *lane) WEFT_MUST_CHECK;
/* Handles that the lane's queues are empty. Transfers that completed count, and the receiver
 * requests the others again. */
void flow_send_stopped(struct flow *flow, struct flow_lane *lane);
/* Completes the sends before `base`, as the receiver reported it. */
void flow_send_base(struct flow *flow, uint32_t base);
/* Completes the sends that the receiver's final state contains, once every lane has stopped. */
void flow_send_final(struct flow *flow, const struct flow_final *final);

/* ---- flow_receive.c ---- */
weft_status flow_receive_progress(struct flow *flow,
                                  struct flow_lane *lane) WEFT_MUST_CHECK;
/* Handles that the lane's queues are empty: its unfinished pieces become lost. */
void flow_receive_stopped(struct flow *flow, struct flow_lane *lane);
/* Processes the messages that have arrived on a lane that is UP. */
void flow_receive_take(struct flow *flow, struct flow_lane *lane);
/* Fills in which messages this end has received. */
void flow_receive_final(const struct flow *flow, struct flow_final *out);
/* Requests data for the open receives, as far as there is room, and sends a notice that is due. */
void flow_post(struct flow *flow);
/* Makes progress with flushes. Restarts those whose lane has failed on the lanes that are up. */
void flow_flush_progress(struct flow *flow);

/* ---- flow_flush.c ---- */
/* Destroys the queue pairs of flushes that were started after the peer had closed. */
void flow_flush_end(struct flow *flow);

#endif
