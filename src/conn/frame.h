/* Sends and receives frames over a byte stream. A frame is a header and a body, followed by a seal
 * once the session has a key. No function blocks or reads past the current frame. */
#ifndef WEFT_CONN_FRAME_H
#define WEFT_CONN_FRAME_H

#include "conn/auth.h"
#include "conn/codec.h"
#include "io/env.h"

/* One end of a stream of frames, with buffers that its owner provides. */
struct frame_link {
    struct io_env *env;       /* Not owned. */
    struct io_stream *stream; /* Owned; NULL if closed */
    uint8_t *rx;              /* Not owned [rx_cap]: one frame, header included */
    size_t rx_cap, rx_n;
    bool rx_whole; /* rx holds a frame that was returned; the next receive drops it */
    uint8_t *tx;   /* Not owned [tx_cap]: frames not yet sent */
    size_t tx_cap, tx_n, tx_sent;
    bool sealed;          /* every following frame, sent or received, has a seal */
    enum auth_label self; /* AUTH_LISTENER or AUTH_CONNECTOR */
    uint8_t session[AUTH_KEY_BYTES];
    uint32_t tx_sequence, rx_sequence;
};

struct frame {
    enum codec_type type;
    const uint8_t *body; /* without the seal; valid until the next receive */
    size_t n_bytes;
    const uint8_t *bytes; /* the whole frame, for proofs */
    size_t whole_bytes;
};

void frame_init(struct frame_link *link, struct io_env *env, struct io_stream *stream,
                enum auth_label self, uint8_t *rx, size_t rx_cap, uint8_t *tx,
                size_t tx_cap);
/* Replaces the buffers. Copies the bytes that are still to be sent and drops the frame that was
 * returned last. No frame may be partly received. */
void frame_move(struct frame_link *link, uint8_t *rx, size_t rx_cap, uint8_t *tx,
                size_t tx_cap);
/* Requires a seal under `session` on every following frame in both directions. */
void frame_seal(struct frame_link *link, const uint8_t session[AUTH_KEY_BYTES]);

/* Receives the next frame. Returns WEFT_AGAIN until it is complete. Fails with WEFT_ERR_PROTOCOL or
 * WEFT_ERR_UNSUPPORTED (bad header), WEFT_ERR_AUTH (bad seal), or WEFT_ERR_CLOSED (end of stream,
 * or a broken stream with its errno; phase "stream"). */
weft_status frame_receive(struct frame_link *link, struct frame *out,
                          struct weft_error *error) WEFT_MUST_CHECK;
/* Queues a frame. Returns false if the stream is closed, or if there is no room because the peer
 * does not read. */
bool frame_send(struct frame_link *link, enum codec_type type, const uint8_t *body,
                size_t n_bytes);
/* Returns the last `whole_bytes` bytes of tx, which are the frame that was queued last. They are
 * valid until the next frame_send() or frame_move(). */
const uint8_t *frame_last_sent(const struct frame_link *link, size_t whole_bytes);
/* Returns true if the stream ended because the other machine did not answer. The kernel reports
 * ETIMEDOUT, or the reason why its packets did not arrive if it knows it: EHOSTUNREACH where no
 * neighbour answers. */
bool frame_is_unanswered(const struct weft_error *why);
/* Returns true if a call on the stream failed because of this host: its errno reports neither the
 * peer nor the route to it. */
bool frame_failed_here(const struct weft_error *why);
/* Sends the queued frames. Returns WEFT_AGAIN while the stream accepts no more. Fails with
 * WEFT_ERR_CLOSED as frame_receive() does. */
weft_status frame_flush(struct frame_link *link,
                        struct weft_error *error) WEFT_MUST_CHECK;
/* Returns true if a frame with a body of `n_bytes` can be queued. */
bool frame_has_room(const struct frame_link *link, size_t n_bytes);
/* Returns the number of queued bytes that the stream has not accepted yet. */
size_t frame_queued(const struct frame_link *link);
/* Closes the stream and overwrites the session key. Without `reset`, bytes sent so far still
 * arrive. Up to 64 KiB are then read and dropped first, because unread bytes would turn the close
 * into a reset. */
void frame_close(struct frame_link *link, bool reset);
/* Sends the queued frames, closes the stream and returns true. Returns false while the stream
 * accepts no more. Closes it at once if it is broken. */
bool frame_finish(struct frame_link *link);

#endif
