/* Sends and handles the messages of a connection whose ends have authenticated each other. */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "conn/private.h"

static weft_status out_of_order(struct conn *conn, enum codec_type type)
{
    weft_status status = weft_fail(&conn->error, WEFT_ERR_PROTOCOL,
                                   codec_type_phase(type), "a %s message in state %s",
                                   codec_type_name(type), conn_state_name(conn->state));

    weft_error_text(&conn->error, WEFT_VALUE_FIELD, "type");
    return status;
}

/* Removes the rail from a phase such as "rtr.1" and sets stuck_rail to it. */
static void take_rail(struct conn *conn, struct codec_abort *abort)
{
    const char *digit = abort->phase + 4;

    if (strncmp(abort->phase, "rtr.", 4) == 0 && digit[0] >= '0' && digit[0] <= '9' &&
        digit[1] == '\0' && (uint32_t)(digit[0] - '0') < conn->n_rails) {
        conn->stuck_rail = (uint32_t)(digit[0] - '0');
        abort->phase[3] = '\0';
    }
}

/* Fails with the contents of the peer's ABORT, such as "iceberg failed in rtr: no neighbour (errno
 * 110 Connection timed out)". */
static weft_status peer_failed(struct conn *conn, const struct frame *frame)
{
    const char *name = conn->peer.host[0] != '\0' ? conn->peer.host : "the peer";
    struct weft_error *error = &conn->error, theirs = {0};
    struct codec_abort abort;
    char text[160];
    weft_status status = codec_decode_abort(frame->body, frame->n_bytes, &abort, error);

    if (status != WEFT_OK) {
        return status;
    }
    conn->private->peer_gave_up = true;
    take_rail(conn, &abort);
    weft_fail(&theirs, abort.status, WEFT_PHASE_UNKNOWN, "%s",
              abort.reason[0] != '\0' ? abort.reason : weft_status_name(abort.status));
    weft_error_set_phase(&theirs, abort.phase);
    theirs.sys_errno = (int)abort.sys_errno;
    theirs.wc_status = (int)abort.wc_status;
    weft_error_format(&theirs, text, sizeof(text));
    status =
        weft_fail(error, WEFT_ERR_CLOSED, WEFT_PHASE_PEER, "%s failed in %s", name, text);
    weft_error_text(error, WEFT_VALUE_PEER_PHASE, abort.phase);
    weft_error_text(error, WEFT_VALUE_PEER_STATUS, weft_status_name(abort.status));
    if (abort.reason[0] != '\0') {
        weft_error_text(error, WEFT_VALUE_PEER_REASON, abort.reason);
    }
    if (abort.sys_errno != 0) {
        weft_error_int(error, WEFT_VALUE_PEER_ERRNO, abort.sys_errno);
    }
    if (abort.wc_status != 0) {
        weft_error_int(error, WEFT_VALUE_PEER_WC_STATUS, abort.wc_status);
    }
    if (conn->state == CONN_PROBE && weft_phase_find(abort.phase) == WEFT_PHASE_PROBE) {
        conn_probe_heard(conn, abort.status == WEFT_ERR_TIMEOUT ||
                                   abort.wc_status == IBV_WC_RETRY_EXC_ERR);
    } else if (conn->state == CONN_CONNECT_QPS &&
               weft_phase_find(abort.phase) == WEFT_PHASE_RTR) {
        conn_qps_heard(conn);
    }
    return status;
}

/* Returns true if the peer may send `type` now: every type but BUSY at most once, in order, and not
 * before this end has sent the message that it answers. */
static bool is_expected(const struct conn *conn, enum codec_type type)
{
    enum conn_state state = conn->state;

    if (conn_got(conn, type)) {
        return false;
    }
    switch (type) {
    case CODEC_FACTS:
        return conn->is_connector && state == CONN_AUTH;
    case CODEC_META:
        return state == CONN_META;
    case CODEC_READY:
        /* The acceptor's META and READY can arrive in one segment. */
        return conn_got(conn, CODEC_META) &&
               (state == CONN_CONNECT_QPS || state == CONN_READY ||
                (state == CONN_META && conn->is_connector));
    case CODEC_PROBED:
        return conn_got(conn, CODEC_READY) &&
               (state == CONN_READY || state == CONN_PROBE);
    case CODEC_BUSY:
        return conn_got(conn, CODEC_FACTS) && !conn_got(conn, CODEC_PROBED);
    case CODEC_HELLO:
    case CODEC_CHALLENGE:
    case CODEC_AUTH:
    case CODEC_CLOSE:
    case CODEC_ABORT:
    case CODEC_JOIN:
    case CODEC_BLOB:
    case CODEC_BYE:
    case CODEC_GIVE_UP:
    case CODEC_MEMBER:
    case CODEC_LINKS:
    case CODEC_PIECE:
    case CODEC_ALIVE:
    case CODEC_CALL:
    case CODEC_ANSWER:
    case CODEC_IPC:
        break;
    }
    return false;
}

/* Returns true if the listener has not confirmed with FACTS that it authenticated this end. */
static bool is_before_facts(const struct conn *conn)
{
    return conn->is_connector && conn->state == CONN_AUTH && !conn_got(conn, CODEC_FACTS);
}

static bool may_ask_again(const struct conn *conn, const struct frame *frame)
{
    return is_before_facts(conn) && prove_may_ask_again(frame);
}

/* Fails because the peer closed the connection. If the peer sent PROBED before, the failure waits
 * until the owner has seen the connection UP, because the peer's set-up succeeded. */
static weft_status end_by_peer(struct conn *conn)
{
    bool is_set_up = conn_got(conn, CODEC_PROBED);

    if (is_set_up && !conn->private->was_shown_up) {
        return WEFT_OK;
    }
    return weft_fail(&conn->error, WEFT_ERR_CLOSED, WEFT_PHASE_PEER,
                     "the peer closed the connection");
}

static weft_status take_close(struct conn *conn, const struct frame *frame)
{
    if (frame->n_bytes == CONN_PURPOSE_BYTES) {
        memcpy(conn->peer_final, frame->body, CONN_PURPOSE_BYTES);
    } else if (frame->n_bytes != 0) {
        return codec_bad_field(&conn->error, WEFT_PHASE_CLOSE, "length",
                               (int64_t)frame->n_bytes, "0 or 64");
    }
    conn->private->peer_gave_up = true;
    conn->peer_closed = true;
    return end_by_peer(conn);
}

static weft_status take(struct conn *conn, const struct frame *frame)
{
    struct conn_private *private = conn->private;
    struct codec_facts facts;
    weft_status status;

    if (may_ask_again(conn, frame)) {
        return conn_turned_away(conn, 0);
    }
    if (frame->type == CODEC_ABORT) {
        return peer_failed(conn, frame);
    }
    if (frame->type == CODEC_CLOSE) {
        return take_close(conn, frame);
    }
    if (!is_expected(conn, frame->type)) {
        return out_of_order(conn, frame->type);
    }
    if (frame->type == CODEC_FACTS) {
        auth_forget(private->dial.key, sizeof(private->dial.key));
        status = codec_decode_facts(frame->body, frame->n_bytes, &facts, &conn->error);
        if (status == WEFT_OK) {
            status = conn_take_facts(conn, &facts);
        }
    } else if (frame->type == CODEC_META) {
        status = codec_decode_meta(frame->body, frame->n_bytes, &private->theirs,
                                   &conn->error);
    } else {
        status = codec_decode_empty(frame->type, frame->n_bytes, &conn->error);
    }
    if (frame->type != CODEC_BUSY) { /* the only message that can be sent repeatedly */
        private->got |= UINT64_C(1) << frame->type;
    }
    return status;
}

/* Returns true if the stream broke because this end lacks memory. The connection must then fail
 * here, because a peer that is UP treats a broken stream as the exit of this process. */
static bool is_own_want(int error_number)
{
    return error_number == ENOMEM || error_number == ENOBUFS;
}

/* Returns the maximum time that the peer's probes can take: all tries of both sizes. */
static weft_ns probes_ns(const struct conn *conn)
{
    weft_ns longest = 0;

    for (uint32_t r = 0; r < conn->n_rails; r++) {
        weft_ns ns = conn_probe_ns(conn, r);

        longest = ns > longest ? ns : longest;
    }
    return 2 * longest * (weft_ns)conn->config.probe_tries;
}

/* Handles the end of the stream. In PROBE the connection goes on without it, because both ends'
 * queue pairs are in RTS. It then waits until the peer's probes must be over, because its first
 * data must not reach a peer that still probes. */
static weft_status lost(struct conn *conn, const struct weft_error *why)
{
    struct conn_private *private = conn->private;

    if (is_before_facts(conn)) {
        return conn_turned_away(conn, why->sys_errno);
    }
    if (conn->state == CONN_PROBE && !is_own_want(why->sys_errno)) {
        frame_close(&private->link, true);
        private->is_alone = true;
        private->alone_ns = io_now(conn_env(conn)) + probes_ns(conn);
        return WEFT_OK;
    }
    if (conn->error.status == WEFT_OK) {
        conn->error = *why;
    }
    return conn->error.status;
}

/* Handles the status of a receive or a flush; WEFT_AGAIN counts as WEFT_OK. */
static weft_status judge(struct conn *conn, weft_status status,
                         const struct weft_error *why)
{
    if (status == WEFT_ERR_CLOSED) {
        return lost(conn, why);
    }
    if (status < 0 && conn->error.status == WEFT_OK) {
        conn->error = *why;
    }
    return status < 0 ? status : WEFT_OK;
}

weft_status conn_listen_to_peer(struct conn *conn)
{
    struct frame_link *link = &conn->private->link;
    struct weft_error why = {0};
    struct frame frame = {.n_bytes = 0};
    weft_status status;

    if (conn->peer_closed) {
        return end_by_peer(conn);
    }
    if (!link->sealed || link->stream == NULL) {
        return WEFT_OK;
    }
    do {
        status = frame_receive(link, &frame, &why);
        if (status == WEFT_OK) {
            conn->private->heard_ns = io_now(conn_env(conn));
            status = take(conn, &frame);
            if (status != WEFT_OK) {
                return status;
            }
        }
    } while (status == WEFT_OK && link->stream != NULL && /* NULL: dials again */
             !conn->peer_closed);
    if (status == WEFT_ERR_PROTOCOL && may_ask_again(conn, &frame)) {
        return conn_turned_away(conn, 0);
    }
    return judge(conn, status, &why);
}

weft_status conn_talk_to_peer(struct conn *conn)
{
    struct frame_link *link = &conn->private->link;
    struct weft_error why = {0};

    if (!link->sealed || link->stream == NULL) {
        return WEFT_OK;
    }
    return judge(conn, frame_flush(link, &why), &why);
}

/* ---- silence during set-up ---- */

/* Returns true if BUSY may be sent: the peer accepts it from FACTS to PROBED. */
static bool may_be_busy(const struct conn *conn)
{
    return conn->private->link.stream != NULL && conn_got(conn, CODEC_FACTS) &&
           conn->state > CONN_AUTH && conn->state < CONN_UP &&
           !conn->private->probed_sent;
}

/* Returns true if the peer must send BUSY or another message within config.silence_ns. */
static bool is_watched(const struct conn *conn)
{
    const struct conn_private *private = conn->private;

    return conn->config.silence_ns != 0 && private->heard_ns != 0 &&
           private->link.stream != NULL && conn->state < CONN_UP &&
           !conn_got(conn, CODEC_PROBED);
}

weft_ns conn_watch_ns(const struct conn *conn)
{
    const struct conn_private *private = conn->private;
    weft_ns busy = may_be_busy(conn) ? private->busy_ns : WEFT_NEVER;
    weft_ns silent =
        is_watched(conn) ? private->heard_ns + conn->config.silence_ns : WEFT_NEVER;

    return busy < silent ? busy : silent;
}

weft_status conn_watch(struct conn *conn)
{
    struct conn_private *private = conn->private;
    weft_ns now = io_now(conn_env(conn));
    weft_status status;

    if (is_watched(conn) &&
        (private->is_cut_off || now >= private->heard_ns + conn->config.silence_ns)) {
        weft_ns silent =
            private->is_cut_off ? now - private->heard_ns : conn->config.silence_ns;

        status = weft_fail(
            &conn->error, WEFT_ERR_TIMEOUT, conn_state_phase(conn->state),
            "nothing came from the peer for %lld ms%s", (long long)(silent / TIMER_MS),
            private->is_cut_off ? ", and the stream's address is gone" : "");
        weft_error_int(&conn->error, WEFT_VALUE_SILENT_NS, silent);
        return status;
    }
    if (!may_be_busy(conn) || now < private->busy_ns) {
        return WEFT_OK;
    }
    private->busy_ns = now + TIMER_BUSY_NS;
    status = conn_send(conn, CODEC_BUSY, NULL, 0);
    return status == WEFT_OK ? conn_talk_to_peer(conn) : status;
}
