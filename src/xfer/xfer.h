/* Messages over a proven connection, the way NCCL's net plugins move them: the
 * receiver posts buffers and writes clear-to-send entries into the sender's window;
 * the sender writes the data straight into the posted buffer, striped over the QPs,
 * and the last piece on each QP carries an immediate. Sizes come from completions.
 * Nothing is allocated after open.
 *
 * Wire: docs/wire.md. The connector sends, the acceptor receives. */
#ifndef WEFT_XFER_XFER_H
#define WEFT_XFER_XFER_H

#include "base/error.h"
#include "conn/conn.h"
#include "xfer/wire.h"

#define XFER_SLOTS 32    /* receives in flight per connection */
#define XFER_MULTI_MAX 8 /* buffers of one grouped receive */
#define XFER_REQUESTS_MAX (XFER_SLOTS * XFER_MULTI_MAX)
#define XFER_DEVICES_MAX 256              /* of one host */
#define XFER_SIZE_MAX (UINT64_C(1) << 30) /* of one message */
/* What conn_config.window_bytes must be at least: the CTS ring. */
#define XFER_WINDOW_BYTES (XFER_SLOTS * XFER_MULTI_MAX * 64)

struct xfer;
struct xfer_request;

/* Takes over a connection that is UP (its CQs, QPs, window); the connection stays the
 * caller's to close, after xfer_close. */
weft_status xfer_open(struct conn *conn, struct xfer **out,
                      struct weft_error *error) WEFT_MUST_CHECK;
/* Forgets all requests. NULL is ignored. */
void xfer_close(struct xfer *xfer);

/* A hold on memory on devices of the host, those of the connection at least. Owned by the
 * caller. */
struct xfer_memory {
    struct rdma_mr mrs[XFER_DEVICES_MAX]; /* by index of the device; some hold nothing */
    uint32_t n;                           /* 0: holds nothing */
    uint8_t *addr;
    size_t length;
    bool is_gpu; /* only devices touch it; xfer_iflush makes it visible there */
};
/* Starts registering; progress until WEFT_OK before use. */
weft_status xfer_register(struct xfer *xfer, void *addr, size_t length,
                          struct xfer_memory *out,
                          struct weft_error *error) WEFT_MUST_CHECK;
weft_status xfer_register_progress(struct xfer *xfer, struct xfer_memory *memory,
                                   struct weft_error *error) WEFT_MUST_CHECK;
void xfer_deregister(struct xfer *xfer, struct xfer_memory *memory);

/* [addr, +length) is about to be freed: its registrations go with their last user. */
void xfer_invalidate(struct xfer *xfer, const void *addr, size_t length);

/* Starts sending [data, +n_bytes), 0 <= n_bytes <= 1 GiB, inside `memory`, to the
 * receive that was posted with `tag`. AGAIN: no matching clear-to-send yet, or all
 * requests are in use: call again when the connection's task was woken. Receives are
 * matched in order, within a group by tag. A message longer than the posted buffer is
 * cut to it, as NCCL's net_ib does. */
weft_status xfer_isend(struct xfer *xfer, const void *data, size_t n_bytes, uint32_t tag,
                       const struct xfer_memory *memory,
                       struct xfer_request **out) WEFT_MUST_CHECK;
/* Posts n (1..XFER_MULTI_MAX) buffers as one group: done when all n messages are in.
 * AGAIN: all slots are in use. `memories[i]` covers data[i] (NULL for size 0). */
weft_status xfer_irecv(struct xfer *xfer, uint32_t n, void *const *data,
                       const size_t *sizes, const uint32_t *tags,
                       const struct xfer_memory *const *memories,
                       struct xfer_request **out) WEFT_MUST_CHECK;
/* As xfer_irecv; the sender gets hints[i] with buffer i. */
weft_status xfer_irecv_hinted(struct xfer *xfer, uint32_t n, void *const *data,
                              const size_t *sizes, const uint32_t *tags,
                              const struct xfer_memory *const *memories,
                              const struct xfer_hint *hints,
                              struct xfer_request **out) WEFT_MUST_CHECK;
/* Posted buffers that have no message yet, oldest first: `cursor` starts at zero and may be
 * kept, to see only what is new. NULL: no more now. */
struct xfer_cursor {
    uint32_t group, index;
};
const struct xfer_cts *xfer_next_grant(const struct xfer *xfer,
                                       struct xfer_cursor *cursor);
/* As xfer_isend, into the buffer of a grant that was found so, whatever its tag. Groups that
 * are skipped stay open. */
weft_status xfer_isend_to(struct xfer *xfer, const struct xfer_cts *grant,
                          const void *data, size_t n_bytes,
                          const struct xfer_memory *memory,
                          struct xfer_request **out) WEFT_MUST_CHECK;
/* Receiver: tells the sender a number of 30 bits, soon; a newer one takes the place of one that
 * was not sent yet. */
weft_status xfer_notify(struct xfer *xfer, uint32_t number) WEFT_MUST_CHECK;
/* Sender: the last number that came; false: none did. */
bool xfer_notice(const struct xfer *xfer, uint32_t *out);
/* WEFT_OK: done, the request is gone, out_sizes (NULL or [n], 1 for sends) holds the
 * bytes of each message. AGAIN: not yet. An error: the connection failed. */
weft_status xfer_test(struct xfer *xfer, struct xfer_request *request,
                      size_t *out_sizes) WEFT_MUST_CHECK;
/* Requests that are done and for which xfer_test did not say so yet. */
uint32_t xfer_n_done(const struct xfer *xfer);
/* Which buffers of a grouped receive have their messages (bit i: buffer i), and of those the
 * sizes: for a group that will not be completed. */
uint32_t xfer_arrived(const struct xfer_request *request, size_t *out_sizes);
/* Polls completions and moves everything on. Call when the connection's task was
 * woken; arms the CQs before it returns. WEFT_OK or an error (the connection is dead;
 * xfer_error). */
weft_status xfer_progress(struct xfer *xfer) WEFT_MUST_CHECK;
const struct weft_error *xfer_error(const struct xfer *xfer);
/* Makes received bytes visible where they lie (GPU memory behind a NIC without the
 * guarantee): the NIC reads from there, behind what it wrote, and sends that to the peer's
 * window; where `memory` is not a GPU's a READ through the connection. *out NULL: nothing to
 * do. */
weft_status xfer_iflush(struct xfer *xfer, const void *data, size_t n_bytes,
                        const struct xfer_memory *memory,
                        struct xfer_request **out) WEFT_MUST_CHECK;

/* Asks every queue pair that completed nothing since the last beat for a sign of life: a WRITE
 * of no bytes, which fails if the peer's queue pair is gone. */
weft_status xfer_beat(struct xfer *xfer) WEFT_MUST_CHECK;
/* Returns a rail on which nothing completed for longer than a queue pair needs to give up, as beats
 * show, or NULL; and why in `out`. A port that is held by pause frames transmits nothing, so that
 * no timer of the NIC runs. */
const struct conn_rail *xfer_stalled(struct xfer *xfer, struct weft_error *out);
/* Does the same for every queue pair, at once. Called when a port went down, so that a sender with
 * nothing to send learns as soon as its peer does that the queue pairs did not survive. */
void xfer_beat_now(struct xfer *xfer);
/* Goes on without rail `rail` of the connection, whose port is down: both ends stop its queue
 * pairs, agree on what came, and send what was lost over the other rails. The peer takes part by
 * itself. For policy weft. WEFT_ERR_LIMIT: it cannot, because no other rail is left or receives
 * are few. */
weft_status xfer_drop_rail(struct xfer *xfer, uint32_t rail) WEFT_MUST_CHECK;
/* Returns the rails that are out of use, bit r for rail r, by this end's decision or the peer's. */
uint32_t xfer_dropped(const struct xfer *xfer);
/* False while it is not known at this end what was lost on a dropped rail. */
bool xfer_is_settled(const struct xfer *xfer);
/* Sender, with no request under way: announces that it uses this connection no more, because
 * another takes its place. WEFT_OK: the receiver's NIC has the announcement. AGAIN: call again
 * later. */
weft_status xfer_hand_over(struct xfer *xfer) WEFT_MUST_CHECK;
/* Receiver: whether the sender has announced so. */
bool xfer_is_handed_over(const struct xfer *xfer);

/* After the queue pairs were told to go to ERR (conn_refuse, or a connection that failed by
 * itself): takes what completed before, until the queues are empty or `deadline_ns` is past.
 * AGAIN: wait for the connection's task. WEFT_OK: nothing moves any more; requests that
 * completed are done, the others never will be. */
weft_status xfer_drain(struct xfer *xfer, weft_ns deadline_ns) WEFT_MUST_CHECK;

struct xfer_counters {
    uint64_t messages_sent, bytes_sent, messages_received, bytes_received, cts_sent;
};
void xfer_counters(const struct xfer *xfer, struct xfer_counters *out);

#endif
