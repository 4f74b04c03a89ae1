/* The inside of xfer, shared by its files. */
#ifndef WEFT_XFER_PRIVATE_H
#define WEFT_XFER_PRIVATE_H

#include "xfer/wire.h"
#include "xfer/xfer.h"

/* wr_id: kind in bits 63..56, QP in 55..48, of data the part in 43..40, request in 39..32, number
 * of the work request on its QP in 31..0. An error completion has no other valid description of
 * what failed. Receives carry CONN_WR_RECV. */
enum xfer_wr_kind {
    XFER_WR_DATA = 1, /* a piece of a part */
    XFER_WR_LAST,     /* the last piece, with the immediate */
    XFER_WR_CTS,
    XFER_WR_FLUSH,
    XFER_WR_NOTICE,
    XFER_WR_BEAT,
    XFER_WR_RAIL,     /* an immediate of the kind RAIL */
    XFER_WR_HANDOVER, /* one of the kind HANDOVER */
    XFER_WR_MARK      /* behind the last of a queue that flushes */
};

/* Eight bytes that are zero in every clear-to-send entry, at both ends: reading the peer's onto
 * this end's changes nothing, and needs no memory of its own. */
#define XFER_FLUSH_OFFSET 48
#define XFER_FLUSH_BYTES 8

enum xfer_request_kind { XFER_FREE, XFER_SEND, XFER_RECV, XFER_FLUSH };

struct xfer_buffer {  /* one buffer of a group, on the receiver */
    uint64_t size;    /* posted */
    uint64_t n_bytes; /* arrived, in finished parts */
    uint32_t parts;   /* bit q: a part came on QP q */
    uint32_t n_in;    /* parts that are in */
    uint32_t n_parts; /* 0 until the first part is in */
    bool is_done;
};

enum xfer_part_state {
    XFER_PART_WAITING, /* for space in its queue */
    XFER_PART_POSTED,  /* for its completion */
    XFER_PART_LOST,    /* for the peer to stop its QP, then for another */
    XFER_PART_DONE
};

/* [begin, end) of a message, on one QP. */
struct xfer_part_send {
    uint32_t begin, end;
    uint32_t sequence; /* of its immediate, once posted */
    uint16_t n_pieces; /* posted */
    uint8_t qp;
    uint8_t state; /* enum xfer_part_state */
};

struct xfer_request {
    enum xfer_request_kind kind;
    uint16_t index; /* into xfer->requests */
    bool is_done;
    union {
        struct {
            struct xfer_request *next; /* in xfer->unposted */
            const uint8_t *data;
            uint64_t n_bytes; /* as cut to the posted buffer */
            struct xfer_cts cts;
            uint32_t lkeys[CONN_RAILS_MAX];
            uint32_t n_parts;
            uint32_t part;      /* being posted */
            uint32_t n_pending; /* parts without a completion yet */
            struct xfer_part_send parts[CONN_QPS_MAX];
        } send;
        struct {
            uint32_t slot, n, n_missing;
            uint32_t group;
            struct xfer_buffer buffers[XFER_MULTI_MAX];
        } recv;
        struct {
            uint32_t n_pending;
        } flush;
    } as;
};

/* A group of clear-to-sends that has arrived, on the sender. */
struct xfer_group {
    uint32_t n, n_matched;
    uint32_t matched; /* bit i: buffer i has its message */
    struct xfer_cts entries[XFER_MULTI_MAX];
};

/* Own accounts of one QP's queues. */
struct xfer_lane {
    uint32_t n_posted,
        n_retired; /* send work requests, modulo 2^32: never more apart than
                                   * sq_depth */
    uint32_t sq_depth;
    uint32_t n_unsignalled; /* since the last signalled one */
    uint32_t rq_posted;     /* receives that may still be consumed */
    uint32_t beat_retired;  /* n_retired at the last beat */
    bool has_beat;          /* one is under way */
    weft_ns
        quiet_ns; /* since when nothing completed of what is posted; 0: something did */
    uint32_t sequence; /* data immediates sent (sender) or taken (receiver) */
};

/* Rails that went out of use while the connection goes on: rail.c. */
struct xfer_rails {
    uint32_t dropped;   /* bit r: rail r is out of use */
    uint32_t unsettled; /* of these, rails whose losses are not known yet */
    uint32_t stopped;   /* QPs that have stopped at this end: bit q ... */
    uint32_t to_tell;   /* ... of which the peer is still to be notified */
    uint32_t heard;     /* QPs that have stopped at the peer, and what it had taken: */
    uint16_t taken[CONN_QPS_MAX];
    uint32_t n_lost;   /* sender: parts to be sent again */
    uint32_t next_cts; /* receiver: group of the next clear-to-send, again or first */
    /* Receiver: QPs that parts may come on besides their own, and for buffers up to which group. */
    uint32_t extra, extra_group;
    uint32_t n_extra; /* such buffers that are not complete */
};

struct xfer {
    /* What every message touches comes first: with hundreds of ranks in a program, lines of cache
     * are what a message costs. */
    struct conn *conn;          /* Not owned. */
    uint32_t rq_depth;          /* receives kept posted per QP */
    uint32_t rq_batch;          /* replenished when so many are missing */
    uint32_t n_open_max;        /* groups open at a time, of the acceptor */
    uint64_t n_bytes_max;       /* of a message: what 255 full pieces a part can carry */
    uint32_t n_live;            /* QPs in use */
    uint8_t live[CONN_QPS_MAX]; /* these, ascending */
    uint32_t weights[CONN_QPS_MAX]; /* Mb/s of the rail of each of these */
    bool is_weighted;               /* they differ */
    uint32_t control;               /* the QP of clear-to-sends and notices */
    uint32_t n_free;                /* requests */
    uint32_t n_done;                /* as xfer_n_done */

    /* Sender. */
    uint32_t n_groups;   /* clear-to-sends arrived: the next one's number */
    uint32_t head_group; /* the oldest with unmatched buffers */
    uint32_t n_messages; /* turns the first QP of each message */

    /* Receiver. */
    uint32_t next_group;
    uint32_t n_granted; /* buffers granted and not complete */

    uint32_t notice; /* to be sent, or received last */
    bool has_notice; /* sender: `notice` came; receiver: it is still to be sent */
    bool notice_on_its_way;
    bool is_draining;
    bool has_flushed; /* a flush completion came, its cause not yet */
    struct xfer_request *unposted, *unposted_last; /* sender; in order */
    struct xfer_counters counters;
    struct xfer_lane lanes[CONN_QPS_MAX];

    uint16_t free_requests[XFER_REQUESTS_MAX];
    struct xfer_request requests[XFER_REQUESTS_MAX];
    struct xfer_group groups[XFER_SLOTS];   /* sender */
    struct xfer_request *slots[XFER_SLOTS]; /* receiver */
    uint32_t cts_wr[XFER_SLOTS]; /* 1 + number of the slot's last CTS work request */

    uint32_t marked[CONN_QPS_MAX]; /* bit 0: send mark posted, bit 1: receive mark */
    uint32_t n_marks;              /* that have not flushed yet */

    struct xfer_rails rails;
    bool is_handed_over; /* receiver: the sender has ended its use of this connection */
    bool has_handed_over, handover_is_done; /* sender: posted; acknowledged */

    struct weft_error error;
    struct ibv_wc flush_wc; /* the first flush ... */
    uint32_t flush_lane;    /* ... and its QP */
};

/* Space for work requests in QP q's send queue. */
uint32_t xfer_sq_free(const struct xfer *xfer, uint32_t q);
/* The next work request's wr_id on QP q; the caller posts it. `is_last` signals it, and so does
 * half a queue without a signal. */
uint64_t xfer_wr_id(struct xfer *xfer, uint32_t q, enum xfer_wr_kind kind,
                    uint32_t request, bool is_last, unsigned *out_flags);
/* Posts a chain; refusals are this connection's end. */
weft_status xfer_post(struct xfer *xfer, uint32_t q, struct ibv_send_wr *chain);
/* Posts an immediate without data, signalled. Its queue has space. */
weft_status xfer_post_imm(struct xfer *xfer, uint32_t q, enum xfer_wr_kind kind,
                          const struct xfer_imm *imm);
/* Posts receives until rq_depth are up, on QPs that miss at least `n_missing_min`. */
weft_status xfer_replenish(struct xfer *xfer, uint32_t n_missing_min);

/* Returns a free request, or NULL. The caller fills in the member of `as` that is its kind's, which
 * holds what the last request left: zeroing all of it would cost more than a short message. */
struct xfer_request *xfer_request_take(struct xfer *xfer, enum xfer_request_kind kind);
void xfer_request_give(struct xfer *xfer, struct xfer_request *request);

/* Fails with the values every data-path error carries. Returns the status. */
weft_status xfer_fail_protocol(struct xfer *xfer, uint32_t q, const char *format, ...)
    WEFT_PRINTF(3, 4);
weft_status xfer_fail_post(struct xfer *xfer, uint32_t q, int sys_errno,
                           const char *what);
weft_status xfer_fail_completion(struct xfer *xfer, uint32_t q, const struct ibv_wc *wc);

/* Sender: a CTS immediate came. Posts what waits for queue space. */
weft_status xfer_take_cts(struct xfer *xfer, uint32_t q, const struct xfer_imm *imm);
weft_status xfer_pump(struct xfer *xfer);
/* Notices and beats: when and how many is a matter of time. */
bool xfer_is_by_the_clock(const struct ibv_wc *wc);
/* Takes what completed; arms every CQ. */
weft_status xfer_poll_all(struct xfer *xfer);
weft_status xfer_arm_all(struct xfer *xfer);
/* Moves the queue pairs of the rails in `rails` on to ERR, and takes what completed before. AGAIN:
 * something is still under way. Errors of a queue are ignored: it says no more. */
weft_status xfer_drain_rails(struct xfer *xfer, uint32_t rails);
bool xfer_is_dropped(const struct xfer *xfer, uint32_t q);
/* Sender: whether clear-to-sends and notices may come on QP q. */
bool xfer_is_control(const struct xfer *xfer, uint32_t q);
/* Takes an immediate of the kind RAIL: the peer has stopped queue pair `imm->qp`. */
weft_status xfer_take_rail(struct xfer *xfer, uint32_t q, const struct xfer_imm *imm);
/* Moves on what dropped rails still need; called with every xfer_progress. */
weft_status xfer_rails_progress(struct xfer *xfer);
/* Sender: the receiver has part `part`. */
void xfer_part_done(struct xfer *xfer, struct xfer_request *request, uint32_t part);
/* Receiver: false while a dropped rail is not settled. */
bool xfer_may_grant(const struct xfer *xfer);
/* Receiver: sends the clear-to-send of a group in its slot, for the first time or again. */
weft_status xfer_send_cts(struct xfer *xfer, uint32_t group, uint32_t n);
/* Receiver: sends a notice that waits, if none is on its way. */
weft_status xfer_pump_notice(struct xfer *xfer);
/* Receiver: a part's last piece came, of `n_bytes`. */
weft_status xfer_take_data(struct xfer *xfer, uint32_t q, const struct xfer_imm *imm,
                           uint32_t n_bytes);

#endif
