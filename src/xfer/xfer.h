/* Moves messages over a connection that is UP, as NCCL's net plugins do. The receiver posts buffers
 * and writes clear-to-send entries into the sender's window. The sender writes the data directly
 * into the posted buffer, striped over the QPs, and the last piece on each QP carries an immediate.
 * The receiver computes the size of a message from its completions. After xfer_open() only
 * xfer_register() allocates memory.
 *
 * The connector sends, and the acceptor receives. Wire format: docs/wire.md, "Messages". */
#ifndef WEFT_XFER_XFER_H
#define WEFT_XFER_XFER_H

#include "base/error.h"
#include "conn/conn.h"
#include "xfer/wire.h"

#define XFER_SLOTS 32    /* maximum number of open groups per connection */
#define XFER_MULTI_MAX 8 /* maximum number of buffers of a grouped receive */
#define XFER_REQUESTS_MAX (XFER_SLOTS * XFER_MULTI_MAX)
#define XFER_DEVICES_MAX 256              /* maximum number of devices of a host */
#define XFER_SIZE_MAX (UINT64_C(1) << 30) /* maximum size of a message, 1 GiB */
#define XFER_RING_BYTES (XFER_SLOTS * XFER_MULTI_MAX * XFER_CTS_BYTES)
/* Minimum of conn_config.window_bytes. The window holds the ring of clear-to-send entries, and
 * behind it the bytes of flushes. */
#define XFER_WINDOW_BYTES (XFER_RING_BYTES + 64)

struct xfer;
struct xfer_request;

/* Takes over the CQs, QPs and window of a connection that is UP. Fails with WEFT_ERR_LIMIT if the
 * window or a queue is too small. The caller still owns the connection, and closes it after
 * xfer_close(). */
weft_status xfer_open(struct conn *conn, struct xfer **out,
                      struct weft_error *error) WEFT_MUST_CHECK;
/* Frees the transfer and all its requests. Ignores NULL. */
void xfer_close(struct xfer *xfer);

/* Memory that is registered with devices of this host, at least with those of a connection. Owned
 * by the caller. */
struct xfer_memory {
    struct rdma_mr mrs[XFER_DEVICES_MAX]; /* by device index; entry is NULL if unused */
    uint32_t n; /* 1 + the highest device index in use; 0 if nothing is registered */
    uint8_t *addr;
    size_t length;
    bool is_gpu; /* GPU memory, which xfer_iflush() flushes by a read of the NIC */
};
/* Starts to register memory with the devices of the connection. The memory can be used once
 * xfer_register_progress() has returned WEFT_OK. */
weft_status xfer_register(struct xfer *xfer, void *addr, size_t length,
                          struct xfer_memory *out,
                          struct weft_error *error) WEFT_MUST_CHECK;
weft_status xfer_register_progress(struct xfer *xfer, struct xfer_memory *memory,
                                   struct weft_error *error) WEFT_MUST_CHECK;
void xfer_deregister(struct xfer *xfer, struct xfer_memory *memory);

/* Posts n (1 to XFER_MULTI_MAX) buffers as one group, which is done when all n messages have
 * arrived. memories[i] covers data[i]; NULL for size 0. hints[i] is sent to the sender with
 * buffer i; `hints` may be NULL. Returns WEFT_AGAIN while slots, receives or
 * queue space are used up, or while a dropped rail is being settled. Fails with WEFT_ERR_LIMIT if a
 * buffer exceeds XFER_SIZE_MAX. */
weft_status xfer_irecv(struct xfer *xfer, uint32_t n, void *const *data,
                       const size_t *sizes, const uint32_t *tags,
                       const struct xfer_memory *const *memories,
                       const struct xfer_hint *hints,
                       struct xfer_request **out) WEFT_MUST_CHECK;
/* A position among the buffers that the receiver has posted. Zero is the first. */
struct xfer_cursor {
    uint32_t group, index;
};
/* Sender: returns the next posted buffer from `cursor` on that has no message yet, oldest first,
 * and moves the cursor behind it. Returns NULL if there is none now. A cursor that is kept finds
 * only buffers that were posted since. */
const struct xfer_cts *xfer_next_grant(const struct xfer *xfer,
                                       struct xfer_cursor *cursor);
/* Sender: starts to send [data, +n_bytes), which lies inside `memory`, into the buffer of a grant
 * that xfer_next_grant() returned. Groups that are skipped stay open. A message that is longer than
 * the buffer is truncated to it, as by NCCL's net_ib. Returns WEFT_AGAIN if all requests are in
 * use; the caller tries again when the connection's task was woken. Fails with WEFT_ERR_LIMIT if
 * n_bytes exceeds XFER_SIZE_MAX or xfer_n_bytes_max() of the connection. */
weft_status xfer_isend(struct xfer *xfer, const struct xfer_cts *grant, const void *data,
                       size_t n_bytes, const struct xfer_memory *memory,
                       struct xfer_request **out) WEFT_MUST_CHECK;
/* Receiver: sends the sender a number of 30 bits, once no earlier notice is under way. A newer
 * number replaces one that was not sent yet. */
weft_status xfer_notify(struct xfer *xfer, uint32_t number) WEFT_MUST_CHECK;
/* Sender: stores the number of the last notice that arrived. Returns false if none did. */
bool xfer_notice(const struct xfer *xfer, uint32_t *out);
/* Frees the request and returns WEFT_OK if it is done. Then stores the size of each message in
 * `out_sizes`, unless that is NULL: n for a receive, one for a send. Returns WEFT_AGAIN if the
 * request is not done, or the connection's error if it failed before. */
weft_status xfer_test(struct xfer *xfer, struct xfer_request *request,
                      size_t *out_sizes) WEFT_MUST_CHECK;
/* Returns the number of requests that are done and not tested since. */
uint32_t xfer_n_done(const struct xfer *xfer);
/* Returns the buffers of a grouped receive that have their messages (bit i for buffer i), and
 * stores the sizes of these. For a group that cannot be completed any more. */
uint32_t xfer_arrived(const struct xfer_request *request, size_t *out_sizes);
/* Polls completions, arms the CQs and does all that is possible now. Must be called when the
 * connection's task was woken. Returns WEFT_OK, or the error that ended the transfer, which
 * xfer_error() describes. */
weft_status xfer_progress(struct xfer *xfer) WEFT_MUST_CHECK;
const struct weft_error *xfer_error(const struct xfer *xfer);
/* Starts to make received data visible to its reader, because a NIC can report a completion before
 * its writes to GPU memory are visible there. If `memory` is GPU memory, each rail's NIC WRITEs up
 * to 8 bytes of it into the peer's window. It reads these behind its own earlier writes. Otherwise
 * each NIC READs 8 bytes of the peer's window. Sets *out to NULL if n_bytes is 0. Returns
 * WEFT_AGAIN if requests or queue space are used up, or if a rail was dropped. */
weft_status xfer_iflush(struct xfer *xfer, const void *data, size_t n_bytes,
                        const struct xfer_memory *memory,
                        struct xfer_request **out) WEFT_MUST_CHECK;

/* Posts an empty WRITE on every queue pair on which nothing completed since the last call, unless
 * one is under way there. The WRITE fails if the peer's queue pair no longer responds. */
weft_status xfer_beat(struct xfer *xfer) WEFT_MUST_CHECK;
/* Returns a rail on which nothing that is posted completed for TIMER_DETECT_STALL_NS, as measured
 * by xfer_beat(), and the reason in `out`. Returns NULL if there is none. Detects a port that is
 * held by pause frames: it transmits nothing, so that the NIC's own timers do not run. */
const struct conn_rail *xfer_stalled(struct xfer *xfer, struct weft_error *out);
/* Posts an empty WRITE on every queue pair, even if something completed on it just now. Called when
 * a port went down, so that a sender with nothing to send detects as soon as its peer does whether
 * queue pairs failed. */
void xfer_beat_now(struct xfer *xfer);
/* Goes on without rail `rail` of the connection, whose port is down. Both ends stop its queue
 * pairs, exchange what arrived, and send what was lost again over the other rails. The peer takes
 * part without a call of its owner. For policy weft. Fails with WEFT_ERR_LIMIT if no other rail is
 * left, or if a receiver has too few receives for the parts that are sent again. */
weft_status xfer_drop_rail(struct xfer *xfer, uint32_t rail) WEFT_MUST_CHECK;
/* Returns the rails that this end or the peer has dropped, bit r for rail r. */
uint32_t xfer_dropped(const struct xfer *xfer);
/* Returns true unless this end has yet to determine what was lost on a dropped rail. */
bool xfer_is_settled(const struct xfer *xfer);
/* Sender without requests under way: notifies the receiver that it no longer uses this connection,
 * because another one replaces it. Returns WEFT_OK once the receiver's NIC has acknowledged the
 * notification, and WEFT_AGAIN before that. */
weft_status xfer_hand_over(struct xfer *xfer) WEFT_MUST_CHECK;
/* Receiver: returns true if the notification of xfer_hand_over() has arrived. */
bool xfer_is_handed_over(const struct xfer *xfer);

/* Moves all queue pairs to ERR and takes what completed before that. For a connection that failed
 * or that conn_refuse() ended. Returns WEFT_AGAIN while a queue pair is not in ERR, or while
 * queues are not empty and `deadline_ns` is not reached. The caller then waits for the
 * connection's task. Once WEFT_OK is returned, nothing moves any more, and requests that are not
 * done never will be. */
weft_status xfer_drain(struct xfer *xfer, weft_ns deadline_ns) WEFT_MUST_CHECK;

/* Rate at which a rail moved large parts of messages while it was busy. */
struct xfer_pace {
    uint64_t n_bytes;  /* bytes of whole windows; 0 if nothing was measured */
    uint64_t best_bps; /* of the fastest window of XFER_PACE_WINDOW_BYTES */
};
/* Minimum size of a part that counts, and bytes of a window. */
#define XFER_PACE_PART_BYTES (UINT32_C(128) << 10)
#define XFER_PACE_WINDOW_BYTES (UINT64_C(4) << 20)
struct xfer_pace xfer_pace_of(const struct xfer *xfer, uint32_t rail);

struct xfer_counters {
    uint64_t messages_sent, bytes_sent, messages_received, bytes_received, cts_sent;
};
void xfer_counters(const struct xfer *xfer, struct xfer_counters *out);

#endif
