#include "conn/frame.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "io/oob.h"

void frame_init(struct frame_link *link, struct io_env *env, struct io_stream *stream,
                enum auth_label self, uint8_t *rx, size_t rx_cap, uint8_t *tx,
                size_t tx_cap)
{
    *link = (struct frame_link){
        .env = env,
        .stream = stream,
        .rx = rx,
        .rx_cap = rx_cap,
        .tx = tx,
        .tx_cap = tx_cap,
        .self = self,
    };
}

void frame_move(struct frame_link *link, uint8_t *rx, size_t rx_cap, uint8_t *tx,
                size_t tx_cap)
{
    size_t queued = frame_queued(link);

    weft_check(link->rx_n == 0 || link->rx_whole);
    weft_check(queued <= tx_cap);
    memcpy(tx, link->tx + link->tx_sent, queued);
    link->rx = rx;
    link->rx_cap = rx_cap;
    link->rx_n = 0;
    link->rx_whole = false;
    link->tx = tx;
    link->tx_cap = tx_cap;
    link->tx_n = queued;
    link->tx_sent = 0;
}

void frame_seal(struct frame_link *link, const uint8_t session[AUTH_KEY_BYTES])
{
    memcpy(link->session, session, AUTH_KEY_BYTES);
    link->sealed = true;
}

static weft_status broken(int error_number, struct weft_error *error)
{
    weft_status status;

    if (error_number == 0) {
        return weft_fail(error, WEFT_ERR_CLOSED, WEFT_PHASE_STREAM,
                         "the peer closed the stream");
    }
    status = weft_fail(error, WEFT_ERR_CLOSED, WEFT_PHASE_STREAM,
                       "the stream to the peer broke");
    if (error != NULL && error->status == WEFT_ERR_CLOSED && error->sys_errno == 0) {
        error->sys_errno = error_number;
    }
    return status;
}

bool frame_is_unanswered(const struct weft_error *why)
{
    switch (why->sys_errno) {
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case ENETRESET:
        return true;
    default:
        return false;
    }
}

bool frame_failed_here(const struct weft_error *why)
{
    switch (why->sys_errno) {
    case 0:
    case ECONNRESET:
    case ECONNREFUSED:
    case ECONNABORTED:
    case EPIPE:
        return false;
    default:
        return !frame_is_unanswered(why);
    }
}

/* Reads until rx holds `want` bytes. */
static weft_status fill(struct frame_link *link, size_t want, struct weft_error *error)
{
    while (link->rx_n < want) {
        size_t n = 0;
        int result = link->env->oob->recv(link->stream, link->rx + link->rx_n,
                                          want - link->rx_n, &n);

        if (result == EAGAIN) {
            return WEFT_AGAIN;
        }
        if (result != 0 || n == 0) {
            return broken(result, error);
        }
        link->rx_n += n;
    }
    return WEFT_OK;
}

/* Checks the seal and removes it from the frame. */
static weft_status unseal(struct frame_link *link, struct frame *frame,
                          struct weft_error *error)
{
    enum auth_label peer = link->self == AUTH_LISTENER ? AUTH_CONNECTOR : AUTH_LISTENER;
    uint8_t seal[AUTH_MAC_BYTES];

    if (frame->n_bytes < AUTH_MAC_BYTES) {
        return codec_bad_field(error, codec_type_phase(frame->type), "length",
                               (int64_t)frame->n_bytes, "no room for its seal");
    }
    frame->n_bytes -= AUTH_MAC_BYTES;
    auth_seal(link->session, peer, link->rx_sequence, frame->bytes,
              CODEC_HEADER_BYTES + frame->n_bytes, seal);
    if (!auth_equal(seal, frame->body + frame->n_bytes)) {
        return weft_fail(error, WEFT_ERR_AUTH, codec_type_phase(frame->type),
                         "message %u of the session has a wrong seal", link->rx_sequence);
    }
    link->rx_sequence++;
    return WEFT_OK;
}

weft_status frame_receive(struct frame_link *link, struct frame *out,
                          struct weft_error *error)
{
    struct codec_header header;
    struct weft_error broke = {0};
    weft_status filled, status;

    if (link->stream == NULL) {
        return broken(0, error);
    }
    if (link->rx_whole) {
        link->rx_whole = false;
        link->rx_n = 0;
    }
    /* Report a wrong first byte rather than the end of the stream, because it shows that the peer
     * does not speak the protocol. */
    filled = fill(link, CODEC_HEADER_BYTES, &broke);
    status = codec_decode_header(
        link->rx, link->rx_n < CODEC_HEADER_BYTES ? link->rx_n : CODEC_HEADER_BYTES,
        (uint32_t)(link->rx_cap - CODEC_HEADER_BYTES), &header, error);
    if (status != WEFT_OK && status != WEFT_AGAIN) {
        return status;
    }
    if (filled != WEFT_OK) {
        if (filled != WEFT_AGAIN && error != NULL && error->status == WEFT_OK) {
            *error = broke;
        }
        return filled;
    }
    weft_check(status == WEFT_OK);
    status = fill(link, CODEC_HEADER_BYTES + header.n_bytes, error);
    if (status != WEFT_OK) {
        return status;
    }
    link->rx_whole = true;
    *out = (struct frame){
        .type = header.type,
        .body = link->rx + CODEC_HEADER_BYTES,
        .n_bytes = header.n_bytes,
        .bytes = link->rx,
        .whole_bytes = link->rx_n,
    };
    return link->sealed ? unseal(link, out, error) : WEFT_OK;
}

bool frame_has_room(const struct frame_link *link, size_t n_bytes)
{
    return link->tx_cap - frame_queued(link) >=
           CODEC_HEADER_BYTES + n_bytes + (link->sealed ? AUTH_MAC_BYTES : 0);
}

bool frame_send(struct frame_link *link, enum codec_type type, const uint8_t *body,
                size_t n_bytes)
{
    size_t seal_bytes = link->sealed ? AUTH_MAC_BYTES : 0;
    struct codec_header header = {.type = type,
                                  .n_bytes = (uint32_t)(n_bytes + seal_bytes)};
    uint8_t *at;

    if (link->stream == NULL || !frame_has_room(link, n_bytes)) {
        return false;
    }
    memmove(link->tx, link->tx + link->tx_sent, frame_queued(link));
    link->tx_n -= link->tx_sent;
    link->tx_sent = 0;
    at = link->tx + link->tx_n;
    codec_encode_header(&header, at);
    if (n_bytes > 0) {
        memcpy(at + CODEC_HEADER_BYTES, body, n_bytes);
    }
    if (link->sealed) {
        auth_seal(link->session, link->self, link->tx_sequence++, at,
                  CODEC_HEADER_BYTES + n_bytes, at + CODEC_HEADER_BYTES + n_bytes);
    }
    link->tx_n += CODEC_HEADER_BYTES + n_bytes + seal_bytes;
    return true;
}

const uint8_t *frame_last_sent(const struct frame_link *link, size_t whole_bytes)
{
    weft_check(whole_bytes <= link->tx_n);
    return link->tx + link->tx_n - whole_bytes;
}

weft_status frame_flush(struct frame_link *link, struct weft_error *error)
{
    while (frame_queued(link) > 0) {
        size_t n = 0;
        int result;

        if (link->stream == NULL) {
            return broken(0, error);
        }
        result = link->env->oob->send(link->stream, link->tx + link->tx_sent,
                                      frame_queued(link), &n);
        if (result == EAGAIN) {
            return WEFT_AGAIN;
        }
        if (result != 0) {
            return broken(result, error);
        }
        link->tx_sent += n;
    }
    return WEFT_OK;
}

size_t frame_queued(const struct frame_link *link)
{
    return link->tx_n - link->tx_sent;
}

void frame_close(struct frame_link *link, bool reset)
{
    uint8_t dropped[1024];
    size_t n = 1;

    auth_forget(link->session, sizeof(link->session));
    if (link->stream == NULL) {
        return;
    }
    for (int i = 0; !reset && i < 64 && n > 0; i++) {
        n = 0;
        if (link->env->oob->recv(link->stream, dropped, sizeof(dropped), &n) != 0) {
            break;
        }
    }
    link->env->oob->close(link->stream, reset);
    link->stream = NULL;
}

bool frame_finish(struct frame_link *link)
{
    if (link->stream != NULL && frame_flush(link, NULL) == WEFT_AGAIN) {
        return false;
    }
    frame_close(link, false);
    return true;
}
