/* The inside of xfer, shared by its files. */
#ifndef WEFT_XFER_PRIVATE_H
#define WEFT_XFER_PRIVATE_H

#include "xfer/wire.h"
#include "xfer/xfer.h"

/* wr_id: kind in bits 63..56, QP in 55..48, request in 47..32, number of the work request on
 * its QP in 31..0. An error completion has no other valid description of what failed. Receives
 * carry CONN_WR_RECV. */
enum xfer_wr_kind {
    XFER_WR_DATA = 1, /* a piece of a part */
    XFER_WR_LAST,     /* the last piece, with the immediate */
    XFER_WR_CTS,
    XFER_WR_FLUSH,
    XFER_WR_NOTICE,
    XFER_WR_BEAT,
    XFER_WR_MARK /* behind the last of a queue that flushes */
};

enum xfer_request_kind { XFER_FREE, XFER_SEND, XFER_RECV, XFER_FLUSH };

struct xfer_buffer {  /* one buffer of a group, on the receiver */
    uint64_t size;    /* posted */
    uint64_t n_bytes; /* arrived, in finished parts */
    uint32_t parts;   /* bit q: QP q's part is in */
    uint32_t n_parts; /* 0 until the first part is in */
    bool is_done;
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
            uint32_t n_parts, first_qp;
            uint32_t part;      /* being posted */
            uint32_t piece;     /* next of that part */
            uint32_t n_pending; /* parts without a completion yet */
        } send;
        struct {
            uint32_t slot, n, n_missing;
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
    uint32_t sequence;      /* data immediates sent (sender) or taken (receiver) */
};

struct xfer {
    /* What every message touches comes first: with hundreds of ranks in a program, lines of cache
     * are what a message costs. */
    struct conn *conn;    /* Not owned. */
    uint32_t rq_depth;    /* receives kept posted per QP */
    uint32_t rq_batch;    /* replenished when so many are missing */
    uint32_t n_open_max;  /* groups open at a time, of the acceptor */
    uint64_t n_bytes_max; /* of a message: what 255 full pieces a part can carry */
    uint32_t weights[CONN_QPS_MAX]; /* Mb/s of each QP's rail */
    bool is_weighted;               /* they differ */
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
/* Posts receives until rq_depth are up, on QPs that miss at least `n_missing_min`. */
weft_status xfer_replenish(struct xfer *xfer, uint32_t n_missing_min);

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
/* Receiver: sends a notice that waits, if none is on its way. */
weft_status xfer_pump_notice(struct xfer *xfer);
/* Receiver: a part's last piece came, of `n_bytes`. */
weft_status xfer_take_data(struct xfer *xfer, uint32_t q, const struct xfer_imm *imm,
                           uint32_t n_bytes);

#endif
