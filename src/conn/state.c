/* The states of a connection, and what every phase uses: messages to the peer, and how long it has
 * been still. */
#include "base/check.h"
#include "base/text.h"
#include "conn/private.h"
#include "io/oob.h"
#include "rdma/timers.h"

static const char *const state_names[] = {
    [CONN_NEW] = "new",       [CONN_TCP] = "tcp",
    [CONN_HELLO] = "hello",   [CONN_CHALLENGE] = "challenge",
    [CONN_AUTH] = "auth",     [CONN_QPS] = "qps",
    [CONN_META] = "meta",     [CONN_CONNECT_QPS] = "connect_qps",
    [CONN_READY] = "ready",   [CONN_PROBE] = "probe",
    [CONN_UP] = "up",         [CONN_CLOSING] = "closing",
    [CONN_CLOSED] = "closed", [CONN_FAILED] = "failed",
};

const char *conn_state_name(enum conn_state state)
{
    return (size_t)state < WEFT_LENGTH(state_names) ? state_names[state] : "?";
}

enum weft_phase conn_state_phase(enum conn_state state)
{
    static const enum weft_phase phases[] = {
        [CONN_TCP] = WEFT_PHASE_TCP,
        [CONN_HELLO] = WEFT_PHASE_HELLO,
        [CONN_CHALLENGE] = WEFT_PHASE_CHALLENGE,
        [CONN_AUTH] = WEFT_PHASE_AUTH,
        [CONN_QPS] = WEFT_PHASE_QPS,
        [CONN_META] = WEFT_PHASE_META,
        [CONN_CONNECT_QPS] = WEFT_PHASE_CONNECT_QPS,
        [CONN_READY] = WEFT_PHASE_READY,
        [CONN_PROBE] = WEFT_PHASE_PROBE,
        [CONN_UP] = WEFT_PHASE_UP,
        [CONN_CLOSING] = WEFT_PHASE_CLOSING,
    };

    return (size_t)state < WEFT_LENGTH(phases) ? phases[state] : WEFT_PHASE_NONE;
}

#define FROM(state) (1u << (state))

/* Returns the states that may precede `next` at a connector or an acceptor. */
static uint32_t predecessors(enum conn_state next)
{
    switch (next) {
    case CONN_NEW:
        return 0;
    case CONN_TCP:
        return FROM(CONN_NEW) | FROM(CONN_TCP) | FROM(CONN_HELLO) | FROM(CONN_CHALLENGE) |
               FROM(CONN_AUTH);
    case CONN_HELLO:
        return FROM(CONN_TCP);
    case CONN_CHALLENGE:
        return FROM(CONN_HELLO);
    case CONN_AUTH:
        return FROM(CONN_CHALLENGE) | FROM(CONN_NEW);
    case CONN_QPS:
        return FROM(CONN_AUTH) | FROM(CONN_META);
    case CONN_META:
        return FROM(CONN_QPS) | FROM(CONN_AUTH);
    case CONN_CONNECT_QPS:
        return FROM(CONN_META) | FROM(CONN_QPS);
    case CONN_READY:
        return FROM(CONN_CONNECT_QPS);
    case CONN_PROBE:
        return FROM(CONN_READY);
    case CONN_UP:
        return FROM(CONN_PROBE);
    case CONN_CLOSING:
        return ~(FROM(CONN_CLOSING) | FROM(CONN_CLOSED));
    case CONN_CLOSED:
        return FROM(CONN_CLOSING);
    case CONN_FAILED:
        return ~(FROM(CONN_CLOSING) | FROM(CONN_CLOSED) | FROM(CONN_FAILED));
    }
    return 0;
}

void conn_enter(struct conn *conn, enum conn_state next)
{
    struct io_env *env = conn_env(conn);
    enum conn_state before = conn->state;

    weft_check((predecessors(next) & FROM(before)) != 0);
    conn->state = next;
    if (weft_trace_on(env->trace, WEFT_TRACE_STORY)) {
        char object[40], phase[WEFT_PHASE_TEXT_BYTES];

        weft_format(object, sizeof(object), "conn:%016llx:%s",
                    (unsigned long long)conn->id,
                    conn->is_connector ? "connector" : "acceptor");
        weft_trace_begin(env->trace, io_log_now(env), env->name, object,
                         conn_state_name(next));
        weft_trace_text(env->trace, "from", conn_state_name(before));
        if (next == CONN_FAILED) {
            weft_trace_text(env->trace, "status", weft_status_name(conn->error.status));
            weft_trace_text(env->trace, "phase",
                            weft_error_phase_text(&conn->error, phase));
        }
        weft_trace_end(env->trace);
    }
}

struct conn *conn_new(struct rdma *rdma, const struct conn_config *config, int task_kind,
                      bool is_connector)
{
    struct conn *conn = weft_calloc(1, sizeof(*conn));
    struct io_env *env = rdma->env;

    io_task_init(&conn->task, env->loop, env->host, task_kind);
    conn->private = weft_calloc(1, sizeof(*conn->private));
    conn->state = CONN_NEW;
    conn->is_connector = is_connector;
    conn->rdma = rdma;
    conn->config = *config;
    conn->started_ns = io_now(env);
    conn->private->deadline_ns = WEFT_NEVER;
    conn->stuck_rail = UINT32_MAX;
    return conn;
}

/* ---- the peer ---- */

weft_status conn_send(struct conn *conn, enum codec_type type, const uint8_t *body,
                      size_t n_bytes)
{
    struct frame_link *link = &conn->private->link;

    /* lost() decides what follows from the end of the stream. */
    if (link->stream == NULL || frame_send(link, type, body, n_bytes)) {
        return WEFT_OK;
    }
    return weft_fail(&conn->error, WEFT_ERR_LIMIT, codec_type_phase(type),
                     "the peer reads nothing: %zu bytes wait", frame_queued(link));
}

void conn_watch_peer(struct conn *conn)
{
    conn->private->heard_ns = io_now(conn_env(conn));
    conn->private->busy_ns = conn->private->heard_ns + TIMER_BUSY_NS;
}

/* Returns true if the peer's process sent nothing for TIMER_STILL_AFTER_NS although its kernel
 * acknowledged all that was sent to it. */
static bool is_peer_still(const struct conn *conn)
{
    const struct conn_private *private = conn->private;
    const struct frame_link *link = &private->link;
    size_t n_unacked = 1;

    return link->stream != NULL && private->heard_ns != 0 && conn->state > CONN_TCP &&
           io_now(conn_env(conn)) - private->heard_ns >= TIMER_STILL_AFTER_NS &&
           frame_queued(link) == 0 &&
           conn_env(conn)->oob->unacked(link->stream, &n_unacked) == 0 && n_unacked == 0;
}

weft_ns conn_still_ns(const struct conn *conn)
{
    bool is_waiting = conn->state < CONN_UP ||
                      (conn->state == CONN_FAILED && conn->private->is_witness);

    return is_waiting && is_peer_still(conn) ? io_now(conn_env(conn))
                                             : conn->private->still_ns;
}

weft_ns conn_heard_ns(const struct conn *conn)
{
    return conn->private->heard_ns;
}

void conn_note_still(struct conn *conn)
{
    conn->private->still_ns = conn_still_ns(conn);
}
