#include "conn/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "conn/private.h"
#include "io/oob.h"
#include "rdma/path_mtu.h"

/* Minimum time after which TCP retransmits a lost segment (Linux TCP_RTO_MIN). */
#define REPEAT_NS (200 * TIMER_MS)

void conn_config_default(struct conn_config *config)
{
    *config = (struct conn_config){
        .policy = WEFT_POLICY_WEFT,
        .qps_per_rail = 2,
        .send_wr_max = 512,
        .recv_wr_max = 256,
        .window_bytes = 16448, /* XFER_WINDOW_BYTES */
        .retry_cnt = TIMER_ACK_RETRIES,
        .authenticate_ns = TIMER_AUTHENTICATE_NS,
        .total_ns = TIMER_TOTAL_NS,
        .patience_ns = TIMER_JOIN_NS,
        .probe_ns = TIMER_PROBE_NS,
        .probe_tries = TIMER_PROBE_TRIES,
        .patience = 1,
        .pending_max = 64,
    };
}

void conn_config_stretch(struct conn_config *config, uint32_t patience)
{
    weft_ns *limits[] = {&config->authenticate_ns, &config->total_ns, &config->silence_ns,
                         &config->patience_ns, &config->probe_ns};

    for (size_t i = 0; i < WEFT_LENGTH(limits); i++) {
        *limits[i] = timer_limit(*limits[i], patience);
    }
    config->patience = patience;
}

/* ---- steps of both ends ---- */

static weft_status step_auth(struct conn *conn)
{
    weft_status status;

    if (!conn_got(conn, CODEC_FACTS)) {
        return WEFT_AGAIN;
    }
    if (!conn->is_connector) {
        conn_enter(conn, CONN_META);
        return WEFT_OK;
    }
    status = conn_choose_rails(conn);
    if (status == WEFT_OK) {
        conn_enter(conn, CONN_QPS);
    }
    return status;
}

static weft_status step_qps(struct conn *conn)
{
    struct conn_private *private = conn->private;
    uint8_t body[CODEC_BODY_MAX];
    weft_status status = conn_make_qps(conn);

    if (status != WEFT_OK) {
        return status;
    }
    conn_fill_meta(conn, &private->mine);
    status = conn_send(conn, CODEC_META, body, codec_encode_meta(&private->mine, body));
    if (status == WEFT_OK) {
        conn_enter(conn, conn->is_connector ? CONN_META : CONN_CONNECT_QPS);
    }
    return status;
}

static weft_status step_meta(struct conn *conn)
{
    weft_status status;

    if (!conn_got(conn, CODEC_META) ||
        (!conn->is_connector && conn->peer.wants_answer && !conn->private->has_answer)) {
        return WEFT_AGAIN;
    }
    status = conn->is_connector ? conn_check_answer(conn) : conn_choose_rails(conn);
    if (status == WEFT_OK) {
        conn_enter(conn, conn->is_connector ? CONN_CONNECT_QPS : CONN_QPS);
    }
    return status;
}

static weft_status step_connect_qps(struct conn *conn)
{
    weft_status status = conn_connect_qps(conn);

    if (status == WEFT_OK) {
        status = conn_send(conn, CODEC_READY, NULL, 0);
    }
    if (status == WEFT_OK) {
        conn_enter(conn, CONN_READY);
    }
    return status;
}

static weft_status step_ready(struct conn *conn)
{
    if (!conn_got(conn, CODEC_READY)) {
        return WEFT_AGAIN;
    }
    conn_enter(conn, CONN_PROBE);
    return WEFT_OK;
}

static weft_status step_probe(struct conn *conn)
{
    struct conn_private *private = conn->private;
    weft_status status = conn_probe(conn);

    if (status != WEFT_OK) {
        return status;
    }
    if (!private->probed_sent) {
        private->probed_sent = true;
        status = conn_send(conn, CODEC_PROBED, NULL, 0);
        if (status != WEFT_OK) {
            return status;
        }
    }
    if (!conn_got(conn, CODEC_PROBED) &&
        (!private->is_alone || io_now(conn_env(conn)) < private->alone_ns)) {
        return WEFT_AGAIN;
    }
    conn->up_ns = io_now(conn_env(conn));
    private->was_up = true;
    for (uint32_t i = 0; i < conn->n_rails; i++) {
        rdma_path_prove(conn->rdma, conn->rails[i].port, conn_peer_id(conn),
                        conn->rails[i].path_mtu);
    }
    conn_release_probe(conn);
    conn_enter(conn, CONN_UP);
    return WEFT_OK;
}

static weft_status step(struct conn *conn)
{
    switch (conn->state) {
    case CONN_NEW:
    case CONN_TCP:
        return conn_step_tcp(conn);
    case CONN_HELLO:
        return conn_step_hello(conn);
    case CONN_CHALLENGE:
        return conn_step_challenge(conn);
    case CONN_AUTH:
        return step_auth(conn);
    case CONN_QPS:
        return step_qps(conn);
    case CONN_META:
        return step_meta(conn);
    case CONN_CONNECT_QPS:
        return step_connect_qps(conn);
    case CONN_READY:
        return step_ready(conn);
    case CONN_PROBE:
        return step_probe(conn);
    case CONN_CLOSING:
        return conn_step_closing(conn);
    case CONN_UP:
    case CONN_CLOSED:
    case CONN_FAILED:
        break;
    }
    return WEFT_AGAIN;
}

/* ---- failing ---- */

/* Queues an ABORT with the reason, unless the stream is closed or the peer gave up first. A peer
 * that has not authenticated itself gets no text. */
static void send_abort(struct conn *conn)
{
    struct frame_link *link = &conn->private->link;
    struct codec_abort abort = {
        .status = conn->error.status,
        .sys_errno = (uint32_t)conn->error.sys_errno,
        .wc_status = (uint32_t)conn->error.wc_status,
    };
    uint8_t body[CODEC_BODY_MAX];
    char phase[WEFT_PHASE_TEXT_BYTES];

    if (link->stream == NULL || conn->private->peer_gave_up) {
        return;
    }
    weft_format(abort.phase, sizeof(abort.phase), "%s",
                weft_error_phase_text(&conn->error, phase));
    if (link->sealed) {
        weft_format(abort.reason, sizeof(abort.reason), "%s", conn->error.message);
    }
    if (conn->error.phase == WEFT_PHASE_RTR && conn->n_rails > 1 &&
        conn->stuck_rail < conn->n_rails) {
        /* The peer cannot know the rail if its own end of that rail is connected. */
        weft_format(abort.phase, sizeof(abort.phase), "rtr.%u", conn->stuck_rail);
    }
    if (conn_has_stale_mtu(conn, &conn->error)) {
        /* The peer cannot know that the next attempt agrees on a lower path MTU. */
        weft_format(abort.phase, sizeof(abort.phase), "port");
    } else if (conn_lacks_address(&conn->error)) {
        weft_format(abort.phase, sizeof(abort.phase), "route");
    }
    (void)frame_send(link, CODEC_ABORT, body, codec_encode_abort(&abort, body));
}

/* Sends the queued messages and closes the stream. A witness keeps it open until the peer's process
 * closes it or sends something. Until then the peer counts as stalled if only its kernel
 * acknowledges. */
static void say_last_words(struct conn *conn)
{
    struct conn_private *private = conn->private;
    struct frame_link *link = &private->link;
    uint8_t dropped[256];
    size_t n = 0;

    if (private->is_witness && frame_flush(link, NULL) >= 0 &&
        conn_env(conn)->oob->recv(link->stream, dropped, sizeof(dropped), &n) == EAGAIN) {
        return;
    }
    private->is_witness = false;
    (void)frame_finish(link);
}

weft_status conn_fail(struct conn *conn)
{
    struct conn_private *private = conn->private;
    weft_ns silent_ns = io_now(conn_env(conn)) - private->heard_ns;

    weft_check(conn->error.status < 0);
    weft_error_object(&conn->error, "%s conn %016llx", conn_env(conn)->name,
                      (unsigned long long)conn->id);
    if (conn->peer.host[0] != '\0') {
        weft_error_text(&conn->error, WEFT_VALUE_PEER, conn->peer.host);
    }
    if (conn->n_rails > 0) {
        conn_add_values(conn, conn->stuck_rail < conn->n_rails ? conn->stuck_rail : 0);
    }
    if (conn->error.phase != WEFT_PHASE_STREAM) {
        conn_note_still(conn);
    } else if (!private->was_up && private->heard_ns != 0 && silent_ns >= REPEAT_NS) {
        weft_error_int(&conn->error, WEFT_VALUE_SILENT_NS, silent_ns);
    }
    send_abort(conn);
    private->is_witness = private->was_up && conn_may_stall(conn) &&
                          !private->peer_gave_up && private->link.stream != NULL;
    private->heard_ns = io_now(conn_env(conn));
    private->look_ns = WEFT_NEVER;
    conn_enter(conn, CONN_FAILED);
    io_task_deadline(&conn->task, WEFT_NEVER);
    say_last_words(conn);
    if (private->was_up) {
        /* The owner still polls the CQs, so the work requests flush here and conn_close frees
         * everything. */
        for (uint32_t i = 0; i < private->n_qps_made; i++) {
            struct weft_error ignored = {0};

            rdma_qp_to_error(&conn->qps[i]);
            if (rdma_qp_progress(&conn->qps[i], &ignored) < 0) {
                continue; /* it failed before */
            }
        }
    } else {
        conn_release(conn);
    }
    return conn->error.status;
}

void conn_answer(struct conn *conn, const uint8_t answer[CONN_PURPOSE_BYTES])
{
    weft_check(!conn->is_connector && !conn->private->has_answer);
    conn->private->has_answer = true;
    memcpy(conn->answer, answer, sizeof(conn->answer));
    io_task_wake(&conn->task);
}

void conn_refuse(struct conn *conn, const struct weft_error *why)
{
    if (conn->state == CONN_FAILED || conn->state == CONN_CLOSING ||
        conn->state == CONN_CLOSED) {
        return;
    }
    conn->error = *why;
    conn_fail(conn);
}

/* Returns the next deadline, at which the task must be woken if nothing else wakes it. */
static weft_ns next_look(const struct conn *conn)
{
    const struct conn_private *private = conn->private;
    weft_ns at = private->deadline_ns;
    weft_ns other = WEFT_NEVER;

    if (conn->state <= CONN_CHALLENGE) {
        other = conn_dial_deadline(conn);
    } else if (conn->state == CONN_PROBE) {
        other = conn_probe_deadline(conn);
        if (private->is_alone && private->alone_ns < other) {
            other = private->alone_ns;
        }
    } else if (conn->state == CONN_CLOSING) {
        at = private->close_ns;
    }
    at = other < at ? other : at;
    other = conn_watch_ns(conn);
    return other < at ? other : at;
}

weft_status conn_progress(struct conn *conn)
{
    struct conn_private *private = conn->private;
    weft_status status = WEFT_OK;

    if (conn->state < CONN_UP && private->look_ns != 0 &&
        io_now(conn_env(conn)) - private->look_ns > TIMER_MARGIN_NS) {
        private->still_ns = io_now(conn_env(conn)); /* this process was descheduled */
    }
    if (conn->state == CONN_FAILED) {
        /* The peer would take a stream that ends without ABORT for a process that exited. */
        say_last_words(conn);
        return conn->error.status;
    }
    while (status == WEFT_OK && conn->state != CONN_CLOSED) {
        status = conn->state == CONN_CLOSING ? WEFT_OK : conn_listen_to_peer(conn);
        if (status == WEFT_OK && conn->state == CONN_UP) {
            status = conn_talk_to_peer(conn);
            break;
        }
        if (status == WEFT_OK) {
            status = step(conn);
        }
    }
    if (status == WEFT_AGAIN && conn->state != CONN_CLOSING) {
        status = conn_talk_to_peer(conn);
        if (status == WEFT_OK && io_now(conn_env(conn)) >= private->deadline_ns) {
            int64_t limit_ms = conn->config.total_ns / 1000000;
            bool is_whole = limit_ms % 1000 == 0;

            status =
                weft_fail(&conn->error, WEFT_ERR_TIMEOUT, conn_state_phase(conn->state),
                          "set-up not finished %lld %s after HELLO was sent",
                          (long long)(is_whole ? limit_ms / 1000 : limit_ms),
                          is_whole ? "s" : "ms");
            weft_error_int(&conn->error, WEFT_VALUE_LIMIT_NS, conn->config.total_ns);
        }
        if (status == WEFT_OK) {
            status = conn_watch(conn);
        }
        if (status == WEFT_OK) {
            status = WEFT_AGAIN;
        }
    }
    if (status < 0) {
        return conn_fail(conn);
    }
    if (conn->state == CONN_UP && !private->was_shown_up) {
        private->was_shown_up = true;
        if (conn->peer_closed) {
            /* Nothing else wakes the task, because its stream has ended. */
            io_task_wake(&conn->task);
        }
    }
    private->look_ns = status == WEFT_AGAIN ? next_look(conn) : WEFT_NEVER;
    io_task_deadline(&conn->task, private->look_ns);
    return status;
}

void conn_destroy(struct conn *conn)
{
    if (conn == NULL) {
        return;
    }
    frame_close(&conn->private->link,
                conn->state != CONN_CLOSED && !conn->private->is_witness);
    conn_release(conn);
    conn_journal_leave(conn);
    io_task_fini(&conn->task);
    auth_forget(&conn->private->dial, sizeof(conn->private->dial));
    auth_forget(conn->config.secret, sizeof(conn->config.secret));
    free(conn->private);
    free(conn);
}
