/* Declares what the files of a transfer share: xfer.c, send.c, receive.c and progress.c. */
#ifndef WEFT_XFER_PRIVATE_H
#define WEFT_XFER_PRIVATE_H

#include "xfer/wire.h"
#include "xfer/xfer.h"

/* Bits of the wr_id of a send work request: kind 63..56, QP 55..48, part 43..40 (data only), index
 * of the request 39..32, number on the QP 31..0. An error completion has no other valid description
 * of what failed. Receives carry CONN_WR_RECV. */
enum xfer_wr_kind {
    XFER_WR_DATA = 1, /* a piece of a part, except the last */
    XFER_WR_LAST,     /* the last piece of a part, with the immediate */
    XFER_WR_CTS,
    XFER_WR_FLUSH,
    XFER_WR_NOTICE,
    XFER_WR_BEAT,
    XFER_WR_RAIL,     /* an immediate of kind XFER_IMM_RAIL */
    XFER_WR_HANDOVER, /* an immediate of kind XFER_IMM_HANDOVER */
    XFER_WR_MARK      /* follows the last work request of a queue that is drained */
};

/* Offset in the window of the bytes of flushes, which follow the ring of clear-to-send entries. A
 * flush of host memory READs them from the peer's window onto the same place of this end's. A flush
 * of GPU memory WRITEs bytes of that memory there, in the peer's window. */
#define XFER_FLUSH_OFFSET XFER_RING_BYTES
#define XFER_FLUSH_BYTES 8

enum xfer_request_kind { XFER_FREE, XFER_SEND, XFER_RECV, XFER_FLUSH };

/* One buffer of a group, on the receiver. */
struct xfer_buffer {
    uint64_t size;    /* bytes posted */
    uint64_t n_bytes; /* bytes of the parts that have arrived */
    uint32_t parts;   /* bit q: a part arrived on QP q */
    uint32_t n_in;    /* number of parts that have arrived */
    uint32_t n_parts; /* number of parts of the message; 0 until the first has arrived */
    bool is_done;
};

enum xfer_part_state {
    XFER_PART_WAITING, /* not posted, or in part; waits for space in its send queue */
    XFER_PART_POSTED,  /* waits for the completion of its last piece */
    XFER_PART_LOST, /* on a dropped rail; waits until all are settled, then for queue space */
    XFER_PART_DONE /* received by the peer */
};

/* Bytes [begin, end) of a message, which one QP carries. */
struct xfer_part_send {
    uint32_t begin, end;
    uint32_t sequence; /* sequence number of its immediate, once that is posted */
    uint16_t n_pieces; /* number of pieces posted */
    uint8_t qp;
    uint8_t state; /* enum xfer_part_state */
};

struct xfer_request {
    enum xfer_request_kind kind;
    uint16_t index; /* in xfer->requests */
    bool is_done;
    union {
        struct {
            struct xfer_request *next; /* in xfer->unposted */
            const uint8_t *data;
            uint64_t n_bytes; /* truncated to the posted buffer */
            struct xfer_cts cts;
            uint32_t lkeys[CONN_RAILS_MAX];
            uint32_t n_parts;
            uint32_t part;      /* the part that is posted next */
            uint32_t n_pending; /* number of parts that are not done */
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

/* A group of clear-to-send entries, on the sender. */
struct xfer_group {
    uint32_t n, n_matched;
    uint32_t matched; /* bit i: a message was started to buffer i */
    struct xfer_cts entries[XFER_MULTI_MAX];
};

/* Counters of the queues of one QP. */
struct xfer_lane {
    /* Send work requests that were posted and that are known to be complete, modulo 2^32. They
     * differ by at most sq_depth. */
    uint32_t n_posted, n_retired;
    uint32_t sq_depth;
    uint32_t n_unsignalled; /* send work requests since the last signalled one */
    uint32_t rq_posted;     /* receives that are posted and not consumed */
    uint32_t beat_retired;  /* n_retired at the last call of xfer_beat() */
    bool has_beat;          /* an empty WRITE of xfer_beat() is under way */
    /* First call of xfer_beat() since which nothing completed although something is posted; 0 if
     * something did or nothing is. */
    weft_ns quiet_ns;
    uint32_t sequence; /* data immediates sent (sender) or taken (receiver) */
};

/* Rails that were dropped while the connection goes on (progress.c). */
struct xfer_rails {
    uint32_t dropped;   /* bit r: rail r is out of use */
    uint32_t unsettled; /* bit r: it is not known yet what was lost on rail r */
    uint32_t stopped;   /* bit q: QP q has stopped at this end */
    uint32_t to_tell;   /* bit q: the peer must still be notified that QP q has stopped */
    uint32_t heard;     /* bit q: the peer has reported that QP q has stopped there */
    /* The count in the report about each of these QPs (sequence of struct xfer_imm). */
    uint16_t taken[CONN_QPS_MAX];
    uint32_t n_lost;   /* sender: number of parts to send again */
    uint32_t next_cts; /* receiver: group of the next clear-to-send, again or first */
    /* Receiver: number of parts of one message that can arrive on a QP in addition to its own, for
     * buffers of groups before extra_group. */
    uint32_t extra, extra_group;
    uint32_t n_extra; /* number of such buffers that are not complete */
};

/* The pace of a rail (pace.c). */
struct xfer_rail_pace {
    uint32_t n_under_way;  /* number of large parts under way */
    weft_ns since_ns;      /* when the present busy time was last added up */
    weft_ns busy_ns;       /* busy time of the present window */
    uint64_t window_bytes; /* bytes that arrived in the present window */
    struct xfer_pace out;
};

struct xfer {
    /* The fields that every message uses come first. In a process with hundreds of ranks, the cost
     * of a message is its number of cache lines. */
    struct conn *conn;    /* Not owned. */
    uint32_t rq_depth;    /* receives kept posted per QP */
    uint32_t rq_batch;    /* receives are posted when at least this number is missing */
    uint32_t n_open_max;  /* receiver: maximum number of open groups */
    uint64_t n_bytes_max; /* maximum size of a message on this connection */
    uint32_t n_live;      /* number of QPs in use */
    uint8_t live[CONN_QPS_MAX];     /* QPs in use, ascending */
    uint32_t weights[CONN_QPS_MAX]; /* rate of the rail of each QP in `live`, in Mbit/s */
    bool is_weighted;               /* the weights differ */
    uint32_t control;               /* receiver: QP of clear-to-sends and notices */
    uint32_t n_free;                /* number of free requests */
    uint32_t n_done;                /* requests that are done and not tested since */

    /* Sender. */
    uint32_t n_groups;   /* groups whose clear-to-send arrived; number of the next */
    uint32_t head_group; /* oldest group with unmatched buffers */
    uint32_t n_messages; /* messages started; selects the first QP of the next one */

    /* Receiver. */
    uint32_t next_group;
    uint32_t n_granted; /* number of buffers that are granted and not complete */

    uint32_t notice; /* number to send (receiver) or received last (sender) */
    bool has_notice; /* sender: `notice` has arrived; receiver: it is still to be sent */
    bool notice_on_its_way;
    bool is_draining;
    bool has_flushed; /* a flushed completion was polled, and none that shows the cause */
    struct xfer_request *unposted, *unposted_last; /* sender: in order */
    struct xfer_counters counters;
    struct xfer_lane lanes[CONN_QPS_MAX];

    uint16_t free_requests[XFER_REQUESTS_MAX];
    struct xfer_request requests[XFER_REQUESTS_MAX];
    struct xfer_group groups[XFER_SLOTS];   /* sender */
    struct xfer_request *slots[XFER_SLOTS]; /* receiver */
    uint32_t cts_wr[XFER_SLOTS]; /* 1 + number of the slot's last CTS on its QP, or 0 */

    uint32_t marked[CONN_QPS_MAX]; /* bit 0: send mark posted; bit 1: receive mark */
    uint32_t n_marks;              /* number of marks that have not completed */
    uint32_t flushed; /* bit q: a receive of queue pair q has flushed, or failed */

    struct xfer_rails rails;
    struct xfer_rail_pace paces[CONN_RAILS_MAX]; /* sender */
    bool is_handed_over; /* receiver: the sender no longer uses this connection */
    bool has_handed_over, handover_is_done; /* sender: posted; acknowledged */

    struct weft_error error;
    struct ibv_wc flush_wc; /* the first flushed completion, if has_flushed */
    uint32_t flush_lane;    /* QP of flush_wc */
};

/* Returns the number of work requests for which the send queue of QP q has space. */
uint32_t xfer_sq_free(const struct xfer *xfer, uint32_t q);
/* Counts the next send work request of QP q and returns its wr_id. The caller must post it with
 * `out_flags`. It is signalled if `is_last`, or if half a queue of work requests would otherwise be
 * unsignalled. */
uint64_t xfer_wr_id(struct xfer *xfer, uint32_t q, enum xfer_wr_kind kind,
                    uint32_t request, bool is_last, unsigned *out_flags);
/* Posts a chain. If the device refuses it, the transfer fails. */
weft_status xfer_post(struct xfer *xfer, uint32_t q, struct ibv_send_wr *chain);
/* Posts an immediate without data, signalled. The send queue must have space. */
weft_status xfer_post_imm(struct xfer *xfer, uint32_t q, enum xfer_wr_kind kind,
                          const struct xfer_imm *imm);
/* Posts receives up to rq_depth on each QP in use that lacks at least `n_missing_min`. */
weft_status xfer_replenish(struct xfer *xfer, uint32_t n_missing_min);

/* Returns a free request, or NULL. The caller must set all fields of the member of `as` that
 * belongs to `kind`, because they still have the values of an earlier request. Zeroing them here
 * would cost more than a short message. */
struct xfer_request *xfer_request_take(struct xfer *xfer, enum xfer_request_kind kind);
void xfer_request_give(struct xfer *xfer, struct xfer_request *request);

/* Records the error that ends the transfer, with both ends of QP q. Returns its status. */
weft_status xfer_fail_protocol(struct xfer *xfer, uint32_t q, const char *format, ...)
    WEFT_PRINTF(3, 4);
weft_status xfer_fail_post(struct xfer *xfer, uint32_t q, int sys_errno,
                           const char *what);
weft_status xfer_fail_completion(struct xfer *xfer, uint32_t q, const struct ibv_wc *wc);

/* Sender: handles an immediate of kind XFER_IMM_CTS. */
weft_status xfer_take_cts(struct xfer *xfer, uint32_t q, const struct xfer_imm *imm);
/* Sender: posts what fits of lost and unposted parts. */
weft_status xfer_pump(struct xfer *xfer);
/* Returns true if the rail of QP q was dropped. */
static inline bool xfer_is_dropped(const struct xfer *xfer, uint32_t q)
{
    return (xfer->rails.dropped >> q % xfer->conn->n_rails & 1) != 0;
}
/* Sender: returns true if clear-to-sends and notices can arrive on QP q. */
static inline bool xfer_is_control(const struct xfer *xfer, uint32_t q)
{
    return q == 0 || xfer->rails.dropped != 0;
}
/* Sender: records that the receiver has part `part`. */
void xfer_part_done(struct xfer *xfer, struct xfer_request *request, uint32_t part);
/* Sender: records that the first piece of a part is about to be posted. */
void xfer_pace_begin(struct xfer *xfer, const struct xfer_part_send *part);
/* Sender: records that the peer has the part. */
void xfer_pace_end(struct xfer *xfer, const struct xfer_part_send *part);
/* Receiver: returns false while a dropped rail is not settled, or while clear-to-sends that were
 * lost on it have yet to be sent again. */
static inline bool xfer_may_grant(const struct xfer *xfer)
{
    return xfer->rails.unsettled == 0 && xfer->rails.next_cts == xfer->next_group;
}
/* Receiver: sends the clear-to-send of a group in its slot, for the first time or again. */
weft_status xfer_send_cts(struct xfer *xfer, uint32_t group, uint32_t n);
/* Receiver: sends a notice that waits, unless one is under way or no notice may be sent now. */
weft_status xfer_pump_notice(struct xfer *xfer);
/* Receiver: handles the data immediate of a part whose last piece has `n_bytes`. */
weft_status xfer_take_data(struct xfer *xfer, uint32_t q, const struct xfer_imm *imm,
                           uint32_t n_bytes);

#endif
