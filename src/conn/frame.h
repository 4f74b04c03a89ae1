/* Frames over a byte stream: a header, a body, and once the session has a key, a seal. Never
 * waits and never reads past the frame it is in. Shared with boot/. */
#ifndef WEFT_CONN_FRAME_H
#define WEFT_CONN_FRAME_H

#include "conn/auth.h"
#include "conn/codec.h"
#include "io/env.h"

/* One end of a stream of frames. In place; the buffers are the owner's. */
struct frame_link {
    struct io_env *env;       /* Not owned. */
    struct io_stream *stream; /* Owned; NULL: closed */
    uint8_t *rx;              /* Not owned [rx_cap]: one frame, header included */
    size_t rx_cap, rx_n;
    bool rx_whole; /* rx holds a frame that was handed out */
    uint8_t *tx;   /* Not owned [tx_cap]: frames not yet sent */
    size_t tx_cap, tx_n, tx_sent;
    bool sealed;          /* every frame from now on carries a seal */
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
/* Moves on to larger buffers, between two frames, with what is still to be sent. */
void frame_move(struct frame_link *link, uint8_t *rx, size_t rx_cap, uint8_t *tx,
                size_t tx_cap);
/* From the next frame on, both ways. */
void frame_seal(struct frame_link *link, const uint8_t session[AUTH_KEY_BYTES]);

/* The next frame. AGAIN: it is not all there. WEFT_ERR_PROTOCOL, WEFT_ERR_AUTH (a bad seal),
 * WEFT_ERR_CLOSED (end of stream, or the errno that broke it; phase "stream"). */
weft_status frame_receive(struct frame_link *link, struct frame *out,
                          struct weft_error *error) WEFT_MUST_CHECK;
/* Queues a frame; false if there is no room: the peer does not read. */
bool frame_send(struct frame_link *link, enum codec_type type, const uint8_t *body,
                size_t n_bytes);
/* Copies the last queued frame's bytes for a proof: the frame is still at the end of tx. */
const uint8_t *frame_last_sent(const struct frame_link *link, size_t whole_bytes);
/* Returns true if a call on the stream failed for a reason that lies at this host: its errno comes
 * neither from the peer nor from the way to it. */
bool frame_failed_here(const struct weft_error *why);
/* Sends what is queued. AGAIN: the stream takes no more now. */
weft_status frame_flush(struct frame_link *link,
                        struct weft_error *error) WEFT_MUST_CHECK;
/* Room for `n_bytes` more of body? */
bool frame_has_room(const struct frame_link *link, size_t n_bytes);
/* Bytes queued and not yet taken by the stream. */
size_t frame_queued(const struct frame_link *link);
/* Closes the stream and forgets the key. Without `reset` what was sent still arrives: bytes
 * that were never read would turn the close into a reset, so some are read and dropped. */
void frame_close(struct frame_link *link, bool reset);
/* Closes the stream once what is queued is sent, and returns true; false while it has no room. */
bool frame_finish(struct frame_link *link);

#endif
