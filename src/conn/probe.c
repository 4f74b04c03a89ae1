/* Probes that small and full-size frames cross every queue pair in both directions.
 *
 * A probe is a WRITE of random bytes into the peer's probe area and a READ that fetches them. Each
 * queue pair probes with a few bytes first, then with as many as the path MTU. RC executes both in
 * order, so the READ returns what was written. The full-size WRITE proves that large frames reach
 * the peer, the READ that they come back. If only small probes pass, the path MTU is too large; if
 * none pass, the path is dead. The peer probes at the same time, which proves its send state. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "conn/private.h"
#include "rdma/cq.h"
#include "rdma/path_mtu.h"

#define WR_WRITE UINT64_C(0x70726f6265000000)
#define WR_READ UINT64_C(0x70726f6265000100)
#define WR_KIND(id) ((id) & ~UINT64_C(0xff))
#define WR_QP(id) ((uint32_t)((id)&UINT64_C(0xff)))

enum slot { SLOT_TARGET, SLOT_SOURCE, SLOT_LANDING };

static uint8_t *slot(const struct conn *conn, enum slot kind, uint32_t qp)
{
    return conn->private->probe + ((size_t)kind * conn->n_qps + qp) * CONN_PROBE_BYTES;
}

static uint32_t stage_bytes(const struct conn *conn, uint32_t qp)
{
    return conn->private->probes[qp].stage == CONN_PROBE_SMALL_SENT
               ? CONN_PROBE_SMALL
               : conn->rails[qp % conn->n_rails].path_mtu;
}

static void add_probe_values(struct conn *conn, uint32_t qp)
{
    const struct conn_probe_qp *probe = &conn->private->probes[qp];

    weft_error_object(&conn->error, "%s", conn->qps[qp].label);
    weft_error_int(&conn->error, WEFT_VALUE_PROBE_BYTES, stage_bytes(conn, qp));
    weft_error_int(&conn->error, WEFT_VALUE_SMALL_PASSED,
                   probe->stage == CONN_PROBE_FULL_SENT);
    conn_add_values(conn, qp % conn->n_rails);
}

/* ---- MTU black holes ---- */

/* Returns true if small probes passed and full-size ones did not, on every queue pair of the rail.
 * The loss of a single packet does not have that effect. */
static bool is_black_hole(const struct conn *conn, uint32_t rail)
{
    for (uint32_t i = rail; i < conn->n_qps; i += conn->n_rails) {
        if (conn->private->probes[i].stage != CONN_PROBE_FULL_SENT) {
            return false;
        }
    }
    return true;
}

static void trace_verdict(const struct conn *conn, const struct conn_rail *rail,
                          enum rdma_path_verdict verdict, uint32_t next)
{
    struct io_env *env = conn_env(conn);
    char object[48];

    if (!weft_trace_on(env->trace, WEFT_TRACE_STORY)) {
        return;
    }
    weft_format(object, sizeof(object), "path:%s", rail->port->name);
    if (verdict == RDMA_PATH_AGAIN) {
        weft_trace_event(env->trace, io_log_now(env), env->name, object, "mtu_suspected",
                         "peer=%s late=%u pause_ns=%lld", conn->peer.host, rail->path_mtu,
                         (long long)RDMA_PATH_PAUSE_NS);
    } else {
        weft_trace_event(env->trace, io_log_now(env), env->name, object, "mtu_lowered",
                         "peer=%s vanished=%u next=%u", conn->peer.host, rail->path_mtu,
                         next);
    }
}

/* Returns when the last full-size probe of the rail was sent. */
static weft_ns full_since(const struct conn *conn, uint32_t rail)
{
    weft_ns latest = 0;

    for (uint32_t i = rail; i < conn->n_qps; i += conn->n_rails) {
        weft_ns started_ns = conn->private->probes[i].started_ns;

        latest = started_ns > latest ? started_ns : latest;
    }
    return latest;
}

/* Records for each rail that is an MTU black hole which path MTU the next attempt must use. Adds
 * the result to conn->error for conn_path_is_judged(). */
static void judge_paths(struct conn *conn)
{
    for (uint32_t r = 0; conn->config.policy == WEFT_POLICY_WEFT && r < conn->n_rails;
         r++) {
        const struct conn_rail *rail = &conn->rails[r];
        enum rdma_path_verdict verdict = RDMA_PATH_OTHER;
        uint32_t next = 0;

        if (is_black_hole(conn, r)) {
            verdict = rdma_path_lost(conn->rdma, rail->port, conn_peer_id(conn),
                                     rail->path_mtu, full_since(conn, r), &next);
        }
        if (verdict == RDMA_PATH_AGAIN) {
            weft_error_int(&conn->error, WEFT_VALUE_SUSPECTED_MTU, rail->path_mtu);
        } else if (verdict == RDMA_PATH_LOWERED) {
            weft_error_int(&conn->error, WEFT_VALUE_LOWERED_MTU, next);
        }
        if (verdict != RDMA_PATH_OTHER) {
            trace_verdict(conn, rail, verdict, next);
        }
    }
}

bool conn_path_is_judged(const struct weft_error *why)
{
    return weft_error_value(why, WEFT_VALUE_SUSPECTED_MTU) != NULL ||
           weft_error_value(why, WEFT_VALUE_LOWERED_MTU) != NULL;
}

void conn_probe_heard(struct conn *conn, bool is_unanswered)
{
    for (uint32_t i = 0; i < conn->n_qps && conn->stuck_rail == UINT32_MAX; i++) {
        if (conn->private->probes[i].stage != CONN_PROBE_PASSED) {
            conn->stuck_rail = i % conn->n_rails;
        }
    }
    if (!is_unanswered) {
        return;
    }
    if (conn->stuck_rail < conn->n_rails && is_black_hole(conn, conn->stuck_rail)) {
        weft_error_int(&conn->error, WEFT_VALUE_SMALL_PASSED, 1);
    }
    judge_paths(conn);
}

/* ---- probing ---- */

/* Posts the WRITE and the READ of the current stage. */
static weft_status post(struct conn *conn, uint32_t qp)
{
    struct conn_private *private = conn->private;
    struct io_env *env = conn_env(conn);
    uint32_t r = qp % conn->n_rails, n_bytes = stage_bytes(conn, qp);
    const struct codec_rail *remote = &private->theirs.rails[r];
    struct io_device *device = conn->rails[r].port->device;
    struct ibv_sge sge[2] = {
        {.addr = (uint64_t)(uintptr_t)slot(conn, SLOT_SOURCE, qp),
         .length = n_bytes,
         .lkey = private->rails[r].local.lkey},
        {.addr = (uint64_t)(uintptr_t)slot(conn, SLOT_LANDING, qp),
         .length = n_bytes,
         .lkey = private->rails[r].local.lkey},
    };
    struct ibv_send_wr wr[2] = {
        {.wr_id = WR_WRITE | qp, .next = &wr[1], .opcode = IBV_WR_RDMA_WRITE},
        {.wr_id = WR_READ | qp, .opcode = IBV_WR_RDMA_READ},
    };
    struct ibv_send_wr *bad = NULL;
    int result;

    env->ops->random(env, slot(conn, SLOT_SOURCE, qp), n_bytes);
    memset(slot(conn, SLOT_LANDING, qp), 0, n_bytes);
    for (size_t i = 0; i < 2; i++) {
        wr[i].sg_list = &sge[i];
        wr[i].num_sge = 1;
        wr[i].send_flags = IBV_SEND_SIGNALED;
        wr[i].wr.rdma.remote_addr = remote->probe_addr + (uint64_t)qp * CONN_PROBE_BYTES;
        wr[i].wr.rdma.rkey = remote->probe_rkey;
    }
    private->probes[qp].started_ns = io_now(env);
    private->probes[qp].try_ns = io_now(env);
    private->probes[qp].tries = 0;
    result = device->ops->post_send(conn->qps[qp].qp, wr, &bad);
    if (result != 0) {
        weft_fail_errno(&conn->error, result, WEFT_PHASE_PROBE, "post_send");
        add_probe_values(conn, qp);
        return WEFT_ERR_SYSTEM;
    }
    return WEFT_OK;
}

static const char *verdict(const struct conn *conn, uint32_t qp)
{
    return conn->private->probes[qp].stage == CONN_PROBE_SMALL_SENT
               ? "nothing passes"
               : "small frames pass, full ones do not";
}

/* Handles a completed READ: compares the data and goes on to the next stage. */
static weft_status passed(struct conn *conn, uint32_t qp)
{
    struct conn_probe_qp *probe = &conn->private->probes[qp];
    uint32_t n_bytes = stage_bytes(conn, qp);

    if (memcmp(slot(conn, SLOT_SOURCE, qp), slot(conn, SLOT_LANDING, qp), n_bytes) != 0) {
        weft_fail(&conn->error, WEFT_ERR_DATA, WEFT_PHASE_PROBE,
                  "%u bytes came back other than they were written", n_bytes);
        add_probe_values(conn, qp);
        return WEFT_ERR_DATA;
    }
    conn->probe_rtt_ns = io_now(conn_env(conn)) - probe->started_ns;
    if (probe->stage == CONN_PROBE_FULL_SENT) {
        probe->stage = CONN_PROBE_PASSED;
        return WEFT_OK;
    }
    probe->stage = CONN_PROBE_FULL_SENT;
    return post(conn, qp);
}

static weft_status take(struct conn *conn, const struct ibv_wc *wc)
{
    uint64_t kind = WR_KIND(wc->wr_id);
    uint32_t qp = WR_QP(wc->wr_id);

    if (wc->status != IBV_WC_SUCCESS) {
        uint32_t failed = 0;

        /* The wr_id of a flushed receive names no queue pair, so look for qp_num. */
        while (failed + 1 < conn->n_qps && conn->qps[failed].qp->qp_num != wc->qp_num) {
            failed++;
        }
        weft_fail_completion(&conn->error, (int)wc->status, WEFT_PHASE_PROBE, "%s",
                             verdict(conn, failed));
        add_probe_values(conn, failed);
        judge_paths(conn);
        return WEFT_ERR_COMPLETION;
    }
    if ((kind != WR_WRITE && kind != WR_READ) || qp >= conn->n_qps) {
        return weft_fail(&conn->error, WEFT_ERR_PROTOCOL, WEFT_PHASE_PROBE,
                         "the peer sends data before its probe is over");
    }
    return kind == WR_READ ? passed(conn, qp) : WEFT_OK;
}

/* Polls every CQ until it is empty. Only probes may complete. */
static weft_status poll(struct conn *conn)
{
    for (uint32_t i = 0; i < conn->n_rails; i++) {
        struct ibv_wc wc[16];
        int n = 1;

        while (n > 0) {
            int result = rdma_poll(conn->rdma, conn->rails[i].port->device_index,
                                   conn->rails[i].cq, 16, wc, &n);

            if (result != 0) {
                return weft_fail_errno(&conn->error, result, WEFT_PHASE_PROBE, "poll_cq");
            }
            for (int k = 0; k < n; k++) {
                weft_status status;

                conn_journal_note(conn, i, &wc[k]);
                status = take(conn, &wc[k]);
                if (status != WEFT_OK) {
                    return status;
                }
            }
        }
    }
    return WEFT_OK;
}

static weft_status arm(struct conn *conn)
{
    for (uint32_t i = 0; i < conn->n_rails; i++) {
        struct io_device *device = conn->rails[i].port->device;
        int result = device->ops->req_notify(conn->rails[i].cq, 0);

        if (result != 0) {
            return weft_fail_errno(&conn->error, result, WEFT_PHASE_PROBE,
                                   "req_notify_cq");
        }
    }
    return WEFT_OK;
}

static bool all_passed(const struct conn *conn)
{
    for (uint32_t i = 0; i < conn->n_qps; i++) {
        if (conn->private->probes[i].stage != CONN_PROBE_PASSED) {
            return false;
        }
    }
    return true;
}

static weft_ns try_ends(const struct conn *conn, uint32_t qp)
{
    const struct conn_probe_qp *probe = &conn->private->probes[qp];

    return probe->try_ns + conn_probe_ns(conn, qp % conn->n_rails);
}

static void trace_try(const struct conn *conn, uint32_t qp)
{
    struct io_env *env = conn_env(conn);
    char object[40];

    if (weft_trace_on(env->trace, WEFT_TRACE_STORY)) {
        weft_format(object, sizeof(object), "qp:%u", conn->qps[qp].qp->qp_num);
        weft_trace_event(env->trace, io_log_now(env), env->name, object, "probe_late",
                         "try=%u bytes=%u", conn->private->probes[qp].tries,
                         stage_bytes(conn, qp));
    }
}

/* Counts expired tries. A try is a period in which the NIC can retransmit lost packets; no probe is
 * posted again. If this process was descheduled for several tries they count as one, because a
 * software NIC of this host can have been descheduled, too. */
static weft_status check_tries(struct conn *conn)
{
    weft_ns now = io_now(conn_env(conn));

    for (uint32_t i = 0; i < conn->n_qps; i++) {
        struct conn_probe_qp *probe = &conn->private->probes[i];

        if (probe->stage != CONN_PROBE_PASSED && now >= try_ends(conn, i)) {
            probe->tries++;
            probe->try_ns = now;
            trace_try(conn, i);
            if (probe->tries >= conn->config.probe_tries) {
                weft_fail(&conn->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_PROBE,
                          "%s: no answer to %u bytes in %u x %lld ms", verdict(conn, i),
                          stage_bytes(conn, i), probe->tries,
                          (long long)(conn_probe_ns(conn, i % conn->n_rails) / 1000000));
                add_probe_values(conn, i);
                judge_paths(conn);
                return WEFT_ERR_TIMEOUT;
            }
        }
    }
    return WEFT_OK;
}

weft_status conn_probe(struct conn *conn)
{
    weft_status status = WEFT_OK;

    if (all_passed(conn)) {
        return WEFT_OK; /* later completions belong to the owner */
    }
    for (uint32_t i = 0; i < conn->n_qps && status == WEFT_OK; i++) {
        if (conn->private->probes[i].stage == CONN_PROBE_IDLE) {
            conn->private->probes[i].stage = CONN_PROBE_SMALL_SENT;
            status = post(conn, i);
        }
    }
    if (status == WEFT_OK) {
        status = poll(conn);
    }
    if (status == WEFT_OK && !all_passed(conn)) {
        status = arm(conn);
        /* Poll again, because a completion that arrives during arming raises no event. */
        status = status == WEFT_OK ? poll(conn) : status;
    }
    if (status == WEFT_OK && !all_passed(conn)) {
        status = check_tries(conn);
    }
    if (status != WEFT_OK) {
        return status;
    }
    return all_passed(conn) ? WEFT_OK : WEFT_AGAIN;
}

weft_ns conn_probe_deadline(const struct conn *conn)
{
    weft_ns least = WEFT_NEVER;

    for (uint32_t i = 0; i < conn->n_qps; i++) {
        if (conn->private->probes[i].stage != CONN_PROBE_PASSED &&
            conn->private->probes[i].stage != CONN_PROBE_IDLE &&
            try_ends(conn, i) < least) {
            least = try_ends(conn, i);
        }
    }
    return least;
}
