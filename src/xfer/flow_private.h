/* The inside of a flow, shared by its files. */
#ifndef WEFT_XFER_FLOW_PRIVATE_H
#define WEFT_XFER_FLOW_PRIVATE_H

#include "rdma/timers.h"
#include "xfer/flow.h"
#include "xfer/suspects.h"
#include "xfer/wire.h"

#define FLOW_MESSAGES 256u /* numbers that may be open at a time */
#define FLOW_RECEIVES XFER_SLOTS
#define FLOW_FLUSHES 32u
#define FLOW_PIECES (FLOW_LANES_MAX * XFER_SLOTS) /* posted by the receiver at a time */

enum flow_lane_state {
    FLOW_LANE_IDLE,       /* nothing: not asked for yet, or an alternate */
    FLOW_LANE_CONNECTING, /* `conn` is being set up */
    FLOW_LANE_UP,         /* `xfer` moves messages */
    FLOW_LANE_STOPPING,   /* over: queues flush, what completed is counted */
    FLOW_LANE_DOWN        /* over; sender: until retry_ns */
};

/* A part of a message that a lane moves. Sender: one transfer to one clear-to-send. Receiver:
 * one posted group: several whole messages of one request, or one fragment or more of one. */
struct flow_piece {
    struct flow_piece *next; /* in its lane, in order, or in flow->free_pieces */
    struct flow_request *request;
    struct xfer_request *xfer;
    uint32_t n_bytes; /* sender: of the clear-to-send */
    uint32_t buffers; /* receiver: bit i: buffer i of the request, and of each ... */
    uint32_t fragment, n_fragments; /* ... these, as far as it has them */
};

struct flow_lane {
    enum flow_lane_state state;
    uint8_t index;
    uint32_t share, n_via;
    uint16_t via[FLOW_VIA_MAX];
    uint8_t handle[CONN_HANDLE_BYTES];
    uint32_t epoch;    /* of `conn`; 0: there was none yet */
    struct conn *conn; /* Owned; kept when it failed, for its task's deadline */
    /* Owned: it takes the place of `conn` once that has stopped; receiver: accepted. */
    struct conn *next;
    uint32_t next_epoch; /* of `next`, or of the last one */
    bool next_is_answered;
    bool must_return; /* sender: more rails are there than `conn` has */
    bool is_leaving;  /* `next` is up: nothing more begins on `conn` */
    weft_ns leave_ns; /* limit for what is under way then */
    /* Owned, receiver: handed over. The sender closes it when it has the acknowledgement, or this
     * end at past_ns. */
    struct conn *past;
    weft_ns past_ns;
    struct xfer *xfer;        /* Owned */
    bool was_up, conn_was_up; /* ever; since it was asked for */
    bool is_returning;        /* it ended deliberately */
    bool is_rerouted;         /* it was told a way, and has not been up since */
    weft_ns up_ns;            /* when it came up last */
    weft_ns stop_ns;          /* limit of STOPPING */
    weft_ns retry_ns;         /* when DOWN ends */
    uint32_t tries;           /* failures without a steady stretch between them */
    /* Owned, or NULL: its last attempt found, from what both ends reported, that no ports of theirs
     * face each other, or that one of those that do is down. Trying again changes nothing before a
     * port or an address does. */
    struct weft_error *no_way;
    /* Since when its attempts end at what no time mends, as far as this end knows (an address that
     * faces the peer is missing although no port is down, or a verb was refused); 0: the last one
     * did not. */
    weft_ns hopeless_ns;
    weft_ns asked_ns; /* when the last attempt that failed began */
    /* Owned, or NULL: how it failed first since it was up last, in this end's own words if it has
     * any, and of a cable rather than for want of one. Not of a port that is up again. */
    struct weft_error *why;
    uint64_t dealt;          /* receiver: bytes posted in this distribution */
    struct xfer_cursor seen; /* sender: grants looked at */
    bool
        has_passed_over; /* sender: some could not be used though they had their message */
    struct flow_piece *pieces, *last_piece; /* under way */
};

enum flow_request_kind { FLOW_FREE, FLOW_SEND, FLOW_RECV, FLOW_FLUSH };

struct flow_buffer { /* one of a grouped receive */
    uint8_t *data;
    uint64_t size;
    const struct xfer_memory *memory;
    uint32_t tag;
    uint32_t n_fragments, n_posted; /* fragments */
    uint32_t n_moving;              /* pieces posted and not in */
    uint64_t n_bytes;               /* arrived */
    bool is_done;
};

struct flow_request {
    enum flow_request_kind kind;
    bool is_done;
    uint32_t number; /* of its message, or the first of its group; modulo 2^20 */
    struct flow_request *next; /* in flow->free or in the list of open ones, in order */
    union {
        struct {
            const uint8_t *data;
            uint64_t n_bytes; /* as cut to the buffer */
            uint64_t whole;   /* the buffer */
            uint64_t
                n_acked; /* bytes of clear-to-sends that were answered and confirmed */
            const struct xfer_memory *memory;
            uint32_t n_moving;
            bool has_ack;
            bool needs_notice; /* only the receiver knows whether it is in */
            bool is_noticed;
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
            uint32_t wanted; /* bit l: a READ on lane l is to be started ... */
            uint32_t lanes;  /* ... is under way */
            bool must_start; /* on every lane that is up, once one is */
        } flush;
    } as;
};

/* Sender: what is known of a message number. */
enum flow_message_state { FLOW_UNKNOWN, FLOW_OPEN, FLOW_MATCHED };

struct flow_message {
    enum flow_message_state state;
    uint32_t number;
    uint32_t tag, whole;
    uint8_t index, n;             /* in its group */
    struct flow_request *request; /* MATCHED, until it is done */
};

struct flow_lost { /* receiver: a piece whose lane failed */
    struct flow_request *request;
    uint32_t buffer, fragment, n_fragments;
};

/* What every message touches comes first: with hundreds of ranks in a program, lines of cache are
 * what a message costs. */
struct flow {
    struct rdma *rdma;
    uint64_t n_looks;     /* of flow_n_looks */
    bool has_all_asked;   /* receiver: all that is open was asked for */
    struct io_task *task; /* Not owned. */
    bool is_closing;

    struct flow_request *requests; /* Owned [n_requests] */
    uint32_t n_requests;
    struct flow_request *free;
    struct flow_request *open, *open_last; /* sends or receives under way, in order */
    struct flow_request *flushes;
    struct flow_buffer *buffers; /* Owned; the receiver's */
    struct flow_piece *pieces;   /* Owned [n_pieces] */
    uint32_t n_pieces;
    struct flow_piece *free_pieces;

    struct flow_message *messages; /* Owned [FLOW_MESSAGES]; sender */
    uint32_t next_number; /* sender: of the oldest that is not matched; receiver: next */
    uint32_t base;        /* all before are complete; modulo 2^20 */
    uint32_t told;        /* receiver: `base` as last told to the sender */
    bool must_tell;       /* ... even if it is the same */
    bool has_late_port;   /* receiver: would have more rails, if set-up was now */
    bool must_tell_late;  /* ... and the sender was not told */
    uint32_t n_receives;  /* receiver: not given back yet */
    uint32_t n_lost;
    struct flow_config config; /* its via pointers are not used */
    struct flow_lane lanes[FLOW_LANES_MAX];
    struct conn *closing[2 * FLOW_LANES_MAX]; /* Owned: past ones */
    struct flow_lost lost[FLOW_PIECES];       /* receiver, in order */

    weft_ns opened_ns;
    bool was_up;         /* some lane, ever */
    weft_ns first_up_ns; /* when the first lane came up; valid if was_up */
    bool may_stall;      /* some lane has software at an end, as far as is known */
    struct suspects suspects;
    /* Owned, or NULL: why the first port was left out before a lane was ever up, or one whose
     * attempts to come back are used up; and which. */
    struct weft_error *left_out;
    struct suspect left_out_port;
    struct conn_kept kept; /* the first rails, for policies that keep them */
    struct conn *trial;    /* Owned */
    weft_ns trial_ns;      /* when the next trial starts, or WEFT_NEVER */
    uint32_t n_trials;     /* that failed one after the other */
    /* Of those that take turns in one: what the first were stuck at. */
    struct suspect spared[CONN_RAILS_MAX];
    uint32_t n_spared;
    uint32_t n_rails_best; /* that the direct lane ever had, or was to have */
    uint32_t n_flaps;      /* ports that went down within a minute of each other */
    uint32_t n_stalls;     /* lanes that stood still since data was last moved */
    weft_ns beat_ns;       /* when quiet lanes are asked for a sign of life */
    weft_ns without_ns;    /* since when no lane is up; 0: one is */
    weft_ns port_up_ns;    /* when a port of this host came up last; 0: none did */
    weft_ns still_ns;      /* when an end was last seen to stand still since then; or 0 */
    struct flow_loops *loops; /* Owned, or NULL: for flushes when the peer has closed */
    bool peer_closed; /* the peer's end is closed; lanes stop, then `error` says so */
    struct flow_final final;               /* of the peer */
    uint8_t own_final[CONN_PURPOSE_BYTES]; /* of this end, once it is closing */
    struct weft_error error;
    struct weft_error first_failure; /* that left no lane: what a giving-up is about */
    struct weft_error last_failure;  /* of a lane since: what was tried */
    struct weft_error
        hopeless_failure; /* the first of those that hopeless_ns counts from */
    struct flow_counters counters;
};

/* ---- flow.c ---- */
struct flow_request *flow_request_take(struct flow *flow, enum flow_request_kind kind);
void flow_request_give(struct flow *flow, struct flow_request *request);
struct flow_piece *flow_piece_take(struct flow *flow, struct flow_lane *lane);
/* Takes `piece`, which follows `before` (NULL: the first), out of its lane. */
void flow_piece_give(struct flow *flow, struct flow_lane *lane, struct flow_piece *before,
                     struct flow_piece *piece);
void flow_open_append(struct flow *flow, struct flow_request *request);
void flow_open_remove(struct flow *flow, struct flow_request *request);
/* a - b of message numbers, from -2^19 on. */
static inline int32_t flow_distance(uint32_t a, uint32_t b)
{
    return (int32_t)((a - b) << (32 - XFER_MESSAGE_BITS)) >> (32 - XFER_MESSAGE_BITS);
}
/* Whether the receiver tells completions on this lane: where an ACK of the next NIC says too
 * little. */
static inline bool flow_is_noticed(const struct flow *flow, const struct flow_lane *lane)
{
    return lane->n_via > 0 || flow->config.n_lanes > 1 || lane->epoch > 1;
}
/* What a notice says beside the base: the receiver has a port that no rail uses, and could. */
#define FLOW_NOTICE_LATE (UINT32_C(1) << XFER_MESSAGE_BITS)
void flow_counters_keep(struct flow *flow, const struct xfer *xfer);
/* The flow cannot go on: names both ends in flow->error, unless it has one. */
weft_status flow_give_up(struct flow *flow, const struct weft_error *why);

/* ---- flow_lane.c ---- */
weft_status flow_lanes_progress(struct flow *flow) WEFT_MUST_CHECK;
/* Connects the lanes that a sender starts with. */
weft_status flow_lanes_open(struct flow *flow) WEFT_MUST_CHECK;
/* Ends the use of a lane's present connection, of which `next` takes the place. `is_at_rest`: both
 * ends have agreed that nothing moves on it; else its queues flush. */
void flow_lane_leave(struct flow *flow, struct flow_lane *lane, bool is_at_rest);
/* The lane cannot go on: its queues flush, the peer is told. */
void flow_lane_fail(struct flow *flow, struct flow_lane *lane,
                    const struct weft_error *why);
void flow_retire(struct flow *flow, struct conn *conn);
/* As flow_retire, and sends this end's final state to the peer. */
void flow_retire_with(struct flow *flow, struct conn *conn,
                      const uint8_t final[CONN_PURPOSE_BYTES]);
/* End `next` or `past`, which the flow does not use. */
void flow_retire_next(struct flow *flow, struct flow_lane *lane);
void flow_retire_past(struct flow *flow, struct flow_lane *lane);

/* Returns an epoch newer than all that the lane has had. */
uint32_t flow_next_epoch(const struct flow_lane *lane);
void flow_fill_purpose(const struct flow *flow, const struct flow_lane *lane,
                       enum flow_purpose_kind kind, uint32_t epoch,
                       uint8_t out[CONN_PURPOSE_BYTES]);
/* Sender: connects the lane's next epoch. */
weft_status flow_start_lane(struct flow *flow, struct flow_lane *lane) WEFT_MUST_CHECK;

/* ---- flow_failover.c ---- */
/* What the sender knows, for the configuration of its next connection. */
void flow_failover_config(const struct flow *flow, const struct flow_lane *lane,
                          struct conn_config *config);
/* A lane of a flow that may fail over failed, or came up. */
void flow_failed(struct flow *flow, struct flow_lane *lane, const struct weft_error *why);
void flow_came_up(struct flow *flow, struct flow_lane *lane);
weft_status flow_failover_progress(struct flow *flow) WEFT_MUST_CHECK;
/* `first`, doubled so many times, `most` at most. */
weft_ns flow_doubled(weft_ns first, uint32_t times, weft_ns most);
bool flow_any_up(const struct flow *flow);
/* Returns when the flow counts as up: 0 if each lane with a share was up, else when the lanes that
 * never were have been waited for, or WEFT_NEVER if none was up. */
weft_ns flow_first_lanes_end(const struct flow *flow);
/* Takes down, before a flow closes, which of its lanes still wait for a connection that others did
 * not wait for. */
void flow_note_unconnected(struct flow *flow);
/* How long the flow may be without a lane. */
weft_ns flow_patience(const struct flow *flow);

/* ---- flow_replace.c ---- */
/* Goes on without a rail of a direct lane whose port is down, until another connection takes its
 * place. False: the lane has to fail. */
bool flow_drop_rail(struct flow *flow, struct flow_lane *lane,
                    const struct conn_rail *rail);
/* Moves on the connection that is to take the place of the present one. The lane is UP. */
void flow_replace_progress(struct flow *flow, struct flow_lane *lane);
/* Moves on a connection that was handed over. */
void flow_past_progress(struct flow *flow, struct flow_lane *lane);
/* When flow_replace_progress is due if nothing wakes a task. */
weft_ns flow_replace_at(const struct flow *flow, const struct flow_lane *lane);

/* ---- flow_port.c ---- */
/* Whether set-up failed for a port that is down, here or at the peer: it is worth another attempt
 * within flow_patience, and the story says so. */
bool flow_waits_for_port(const struct flow *flow, const struct flow_lane *lane,
                         const struct weft_error *why);
/* Suspects a port of this host for what a failure says of it. */
void flow_leave_out(struct flow *flow, const struct rdma_port *port,
                    const struct weft_error *why);
/* Goes on without a rail of the lane on which nothing moves although no queue pair fails. */
void flow_leave_stalled(struct flow *flow, struct flow_lane *lane);
/* Takes down why the port is left out while others carry the flow. */
void flow_note_left_out(struct flow *flow, const struct rdma_port *port,
                        const struct weft_error *why);

/* ---- flow_trial.c ---- */
/* The direct lane that is up with fewer rails than n_rails_best, or NULL. */
struct flow_lane *flow_lesser_lane(struct flow *flow);
void flow_trial_progress(struct flow *flow);
/* When the next trial is due, after a failure or a trial now; WEFT_NEVER: all are used up. */
weft_ns flow_trial_at(const struct flow *flow);
/* Rails that this lane's set-up had no port for, and that it could have now: on trial. The
 * receiver tells the sender. */
void flow_expect_rails(struct flow *flow, const struct flow_lane *lane);
/* The sender was told so. */
void flow_hear_late(struct flow *flow, const struct flow_lane *lane);

/* ---- flow_send.c ---- */
weft_status flow_send_progress(struct flow *flow, struct flow_lane *lane) WEFT_MUST_CHECK;
/* The lane's queues are empty: what it confirmed counts, the rest is to be asked for again. */
void flow_send_stopped(struct flow *flow, struct flow_lane *lane);
void flow_send_base(struct flow *flow, uint32_t base);
/* The receiver has closed and every lane has stopped: what it has is done. */
void flow_send_final(struct flow *flow, const struct flow_final *final);

/* ---- flow_receive.c ---- */
weft_status flow_receive_progress(struct flow *flow,
                                  struct flow_lane *lane) WEFT_MUST_CHECK;
void flow_receive_stopped(struct flow *flow, struct flow_lane *lane);
/* Takes what has arrived on a lane, if it can carry data. */
void flow_receive_take(struct flow *flow, struct flow_lane *lane);
/* Fills in what this end has received. */
void flow_receive_final(const struct flow *flow, struct flow_final *out);
/* Posts what is asked for and fits. */
weft_status flow_post(struct flow *flow) WEFT_MUST_CHECK;
/* Starts or restarts flushes on lanes that are up. */
void flow_flush_progress(struct flow *flow);

/* ---- flow_flush.c ---- */
/* Gives up what flushes needed when the peer had closed. */
void flow_flush_end(struct flow *flow);

#endif
