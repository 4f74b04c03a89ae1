#include "rdma/qp.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define PSN_MASK 0xffffffu

const char *rdma_qp_state_name(enum rdma_qp_state state)
{
    static const char *const names[] = {
        [RDMA_QP_NEW] = "new",
        [RDMA_QP_CREATING] = "create",
        [RDMA_QP_TO_RESET] = "to_reset",
        [RDMA_QP_TO_INIT] = "to_init",
        [RDMA_QP_INIT] = "init",
        [RDMA_QP_TO_RTR] = "to_rtr",
        [RDMA_QP_TO_RTS] = "to_rts",
        [RDMA_QP_RTS] = "rts",
        [RDMA_QP_TO_ERR] = "to_err",
        [RDMA_QP_ERR] = "err",
        [RDMA_QP_DESTROYING] = "destroy",
        [RDMA_QP_GONE] = "gone",
        [RDMA_QP_FAILED] = "failed",
    };
    return (size_t)state < WEFT_LENGTH(names) ? names[state] : "?";
}

/* Returns true if `next` may follow `from`. */
static bool may_follow(enum rdma_qp_state from, enum rdma_qp_state next)
{
    switch (next) {
    case RDMA_QP_NEW:
        return false;
    case RDMA_QP_CREATING:
        return from == RDMA_QP_NEW;
    case RDMA_QP_TO_RESET:
        return from == RDMA_QP_TO_RTR;
    case RDMA_QP_TO_INIT:
        return from == RDMA_QP_CREATING || from == RDMA_QP_TO_RESET;
    case RDMA_QP_INIT:
        return from == RDMA_QP_TO_INIT;
    case RDMA_QP_TO_RTR:
        return from == RDMA_QP_INIT;
    case RDMA_QP_TO_RTS:
        return from == RDMA_QP_TO_RTR;
    case RDMA_QP_RTS:
        return from == RDMA_QP_TO_RTS;
    case RDMA_QP_TO_ERR:
        /* RESET to ERR is illegal for RC, so that a QP in RESET enters INIT first. */
        return from == RDMA_QP_INIT || from == RDMA_QP_TO_RTR || from == RDMA_QP_TO_RTS ||
               from == RDMA_QP_RTS;
    case RDMA_QP_ERR:
        return from == RDMA_QP_TO_ERR;
    case RDMA_QP_DESTROYING:
        return from != RDMA_QP_NEW && from != RDMA_QP_DESTROYING && from != RDMA_QP_GONE;
    case RDMA_QP_GONE:
        return from == RDMA_QP_DESTROYING || from == RDMA_QP_NEW ||
               from == RDMA_QP_CREATING || from == RDMA_QP_FAILED;
    case RDMA_QP_FAILED:
        return from != RDMA_QP_NEW && from != RDMA_QP_GONE;
    default:
        return false;
    }
}

static struct io_device *device_of(const struct rdma_qp *qp)
{
    return qp->config.port->device;
}

static void tell(const struct rdma_qp *qp)
{
    struct weft_trace *trace = qp->rdma->env->trace;
    if (!weft_trace_on(trace, WEFT_TRACE_STORY)) {
        return;
    }
    char object[64];
    if (qp->qpn != 0) {
        weft_format(object, sizeof(object), "qp:%s:%u", qp->config.port->name, qp->qpn);
    } else {
        weft_format(object, sizeof(object), "qp:%s", qp->config.port->name);
    }
    weft_trace_begin(trace, io_log_now(qp->rdma->env), qp->rdma->env->name, object,
                     rdma_qp_state_name(qp->state));
    if (qp->state == RDMA_QP_TO_RTR) {
        char gid[IO_IP_TEXT_BYTES];
        weft_trace_int(trace, "remote_qpn", qp->remote.qpn);
        weft_trace_int(trace, "path_mtu", qp->remote.path_mtu);
        weft_trace_text(trace, "remote_gid",
                        rdma_gid_format(&qp->remote.gid, gid, sizeof(gid)));
    } else if (qp->state == RDMA_QP_TO_RTS || qp->state == RDMA_QP_TO_RESET) {
        weft_trace_int(trace, "sgid_index", qp->sgid_index);
    } else if (qp->state == RDMA_QP_FAILED) {
        weft_trace_int(trace, "errno", qp->failure);
    }
    weft_trace_end(trace);
}

static void enter(struct rdma_qp *qp, enum rdma_qp_state next)
{
    weft_check(may_follow(qp->state, next));
    weft_check(qp->op.state != IO_OP_RUNNING);
    memset(&qp->op, 0, sizeof(qp->op));
    qp->state = next;
    tell(qp);
}

void rdma_qp_init(struct rdma_qp *qp, struct rdma *rdma,
                  const struct rdma_qp_config *config, struct io_task *task)
{
    memset(qp, 0, sizeof(*qp));
    qp->state = RDMA_QP_NEW;
    qp->rdma = rdma;
    qp->config = *config;
    qp->task = task;
    weft_format(qp->label, sizeof(qp->label), "%s:%s qp", rdma->env->name,
                config->port->name);
}

void rdma_qp_connect(struct rdma_qp *qp, const struct rdma_qp_remote *remote)
{
    weft_check(qp->state == RDMA_QP_INIT);
    qp->remote = *remote;
    qp->n_reselected = 0;
    enter(qp, RDMA_QP_TO_RTR);
}

void rdma_qp_to_error(struct rdma_qp *qp)
{
    switch (qp->state) {
    case RDMA_QP_CREATING:
    case RDMA_QP_TO_RESET:
    case RDMA_QP_TO_INIT:
    case RDMA_QP_INIT:
    case RDMA_QP_TO_RTR:
    case RDMA_QP_TO_RTS:
    case RDMA_QP_RTS:
        qp->wants_error = true;
        break;
    case RDMA_QP_NEW:
    case RDMA_QP_TO_ERR:
    case RDMA_QP_ERR:
    case RDMA_QP_DESTROYING:
    case RDMA_QP_GONE:
    case RDMA_QP_FAILED:
        break;
    }
}

void rdma_qp_close(struct rdma_qp *qp)
{
    if (qp->state != RDMA_QP_DESTROYING && qp->state != RDMA_QP_GONE) {
        qp->wants_close = true;
    }
}

void rdma_qp_abandon(struct rdma_qp *qp)
{
    if (qp->state == RDMA_QP_GONE) {
        return;
    }
    struct io_device *device = device_of(qp);
    bool destroying = qp->state == RDMA_QP_DESTROYING && qp->op.state != IO_OP_IDLE;
    if (qp->op.state == IO_OP_RUNNING) {
        device->ops->abandon(device, &qp->op);
    } else if (qp->state == RDMA_QP_CREATING && qp->op.state == IO_OP_DONE &&
               qp->op.error == 0) {
        qp->qp = qp->op.out.qp; /* created, but not polled yet */
    }
    if (qp->qp != NULL && !destroying) {
        struct io_op destroy = {.kind = IO_OP_DESTROY_QP};
        destroy.arg.destroy_qp = qp->qp;
        rdma_forget_op(device, &destroy);
    }
    memset(&qp->op, 0, sizeof(qp->op));
    qp->qp = NULL;
    qp->state = RDMA_QP_GONE;
    tell(qp);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static int fill_create(struct rdma_qp *qp)
{
    const struct io_device_attr *attr = &qp->rdma->attrs[qp->config.port->device_index];
    uint32_t max_wr = attr->ibv.max_qp_wr > 0 ? (uint32_t)attr->ibv.max_qp_wr : 1;
    struct ibv_qp_init_attr *init = &qp->op.arg.create_qp.init;
    qp->op.arg.create_qp.pd = qp->rdma->pds[qp->config.port->device_index];
    init->qp_type = IBV_QPT_RC;
    init->send_cq = qp->config.cq;
    init->recv_cq = qp->config.cq;
    init->cap.max_send_wr = least(qp->config.max_send_wr, max_wr);
    init->cap.max_recv_wr = least(qp->config.max_recv_wr, max_wr);
    init->cap.max_send_sge = 1;
    init->cap.max_recv_sge = 1;
    init->cap.max_inline_data =
        qp->config.max_inline_is_raw
            ? qp->config.max_inline_bytes
            : least(qp->config.max_inline_bytes, attr->max_inline_bytes);
    return 0;
}

static int fill_init(struct rdma_qp *qp)
{
    struct ibv_qp_attr *attr = &qp->op.arg.modify_qp.attr;
    attr->qp_state = IBV_QPS_INIT;
    attr->pkey_index = 0;
    attr->port_num = qp->config.port->port;
    attr->qp_access_flags =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    qp->op.arg.modify_qp.mask =
        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    return 0;
}

/* Prepares the step from INIT to RTR (ibv_modify_qp(3)). The hop limit matters only to routed v2
 * packets, and the kernel replaces it by the route's. */
static int fill_rtr(struct rdma_qp *qp)
{
    const struct rdma_port *port = qp->config.port;
    int failure = qp->config.keeps_index
                      ? 0
                      : rdma_find_gid(qp->rdma, port, &qp->config.gid,
                                      qp->config.gid_type, &qp->sgid_index);
    if (qp->config.keeps_index) {
        qp->sgid_index = qp->config.kept_index;
    }
    if (failure != 0) {
        return failure;
    }
    qp->has_sgid_index = true;
    struct ibv_qp_attr *attr = &qp->op.arg.modify_qp.attr;
    attr->qp_state = IBV_QPS_RTR;
    attr->path_mtu = rdma_mtu_enum(qp->remote.path_mtu);
    attr->dest_qp_num = qp->remote.qpn & PSN_MASK;
    attr->rq_psn = qp->remote.psn & PSN_MASK;
    attr->max_dest_rd_atomic = qp->remote.max_rd_atomic;
    attr->min_rnr_timer = qp->config.min_rnr_timer;
    attr->ah_attr.is_global = 1;
    attr->ah_attr.port_num = port->port;
    attr->ah_attr.grh.dgid = qp->remote.gid;
    attr->ah_attr.grh.sgid_index = (uint8_t)qp->sgid_index;
    attr->ah_attr.grh.hop_limit = 255;
    attr->ah_attr.grh.traffic_class = qp->config.traffic_class;
    qp->op.arg.modify_qp.mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return 0;
}

static int fill_rts(struct rdma_qp *qp)
{
    const struct io_device_attr *device = &qp->rdma->attrs[qp->config.port->device_index];
    struct ibv_qp_attr *attr = &qp->op.arg.modify_qp.attr;
    attr->qp_state = IBV_QPS_RTS;
    attr->timeout = qp->config.timeout;
    attr->retry_cnt = qp->config.retry_cnt_is_raw
                          ? qp->config.retry_cnt
                          : (uint8_t)least(qp->config.retry_cnt, device->retry_cnt_max);
    attr->rnr_retry = qp->config.rnr_retry;
    attr->sq_psn = qp->config.psn & PSN_MASK;
    attr->max_rd_atomic = qp->remote.max_rd_atomic;
    qp->op.arg.modify_qp.mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                IBV_QP_MAX_QP_RD_ATOMIC;
    return 0;
}

static int fill_reset(struct rdma_qp *qp)
{
    qp->op.arg.modify_qp.attr.qp_state = IBV_QPS_RESET;
    qp->op.arg.modify_qp.mask = IBV_QP_STATE;
    return 0;
}

static int fill_err(struct rdma_qp *qp)
{
    qp->op.arg.modify_qp.attr.qp_state = IBV_QPS_ERR;
    qp->op.arg.modify_qp.mask = IBV_QP_STATE;
    return 0;
}

static int fill_destroy(struct rdma_qp *qp)
{
    qp->op.arg.destroy_qp = qp->qp;
    return 0;
}

/* The states with a verb. `fill` prepares the verb. If it returns an errno, the verb is not
 * started. */
struct step {
    enum rdma_qp_state next;
    enum io_op_kind verb;
    enum weft_phase phase;
    int (*fill)(struct rdma_qp *qp);
};

static const struct step steps[] = {
    [RDMA_QP_CREATING] = {RDMA_QP_TO_INIT, IO_OP_CREATE_QP, WEFT_PHASE_CREATE,
                          fill_create},
    [RDMA_QP_TO_RESET] = {RDMA_QP_TO_INIT, IO_OP_MODIFY_QP, WEFT_PHASE_INIT, fill_reset},
    [RDMA_QP_TO_INIT] = {RDMA_QP_INIT, IO_OP_MODIFY_QP, WEFT_PHASE_INIT, fill_init},
    [RDMA_QP_TO_RTR] = {RDMA_QP_TO_RTS, IO_OP_MODIFY_QP, WEFT_PHASE_RTR, fill_rtr},
    [RDMA_QP_TO_RTS] = {RDMA_QP_RTS, IO_OP_MODIFY_QP, WEFT_PHASE_RTS, fill_rts},
    [RDMA_QP_TO_ERR] = {RDMA_QP_ERR, IO_OP_MODIFY_QP, WEFT_PHASE_ERR, fill_err},
    [RDMA_QP_DESTROYING] = {RDMA_QP_GONE, IO_OP_DESTROY_QP, WEFT_PHASE_DESTROY,
                            fill_destroy},
};

/* Returns NULL for a state without a verb. */
static const struct step *step_of(enum rdma_qp_state state)
{
    bool is_moving = (size_t)state < WEFT_LENGTH(steps) && steps[state].fill != NULL;
    return is_moving ? &steps[state] : NULL;
}

/* Adds what this end knows about both ends and a diagnosis may need. */
static void add_values(const struct rdma_qp *qp, struct weft_error *error)
{
    char gid[IO_IP_TEXT_BYTES];
    const struct rdma_qp_config *config = &qp->config;
    weft_error_text(error, WEFT_VALUE_LOCAL_PORT, config->port->name);
    weft_error_text(error, WEFT_VALUE_LOCAL_GID,
                    rdma_gid_format(&config->gid, gid, sizeof(gid)));
    weft_error_text(error, WEFT_VALUE_LOCAL_GID_TYPE,
                    rdma_gid_type_name(config->gid_type));
    const struct rdma_gid *known =
        rdma_port_gid(config->port, &config->gid, config->gid_type);
    weft_error_int(error, WEFT_VALUE_LOCAL_PREFIX_LEN,
                   known != NULL ? known->prefix_len : 0);
    if (qp->qpn != 0) {
        weft_error_int(error, WEFT_VALUE_LOCAL_QPN, qp->qpn);
    }
    if (qp->has_sgid_index) {
        weft_error_int(error, WEFT_VALUE_SGID_INDEX, qp->sgid_index);
    }
    if (qp->remote.path_mtu != 0) {
        weft_error_text(error, WEFT_VALUE_REMOTE_GID,
                        rdma_gid_format(&qp->remote.gid, gid, sizeof(gid)));
        weft_error_text(error, WEFT_VALUE_REMOTE_GID_TYPE,
                        rdma_gid_type_name(qp->remote.gid_type));
        weft_error_int(error, WEFT_VALUE_REMOTE_QPN, qp->remote.qpn);
        weft_error_int(error, WEFT_VALUE_PATH_MTU, qp->remote.path_mtu);
    }
}

static weft_status fail(struct rdma_qp *qp, int failure, struct weft_error *error)
{
    const struct step *step = step_of(qp->state);
    weft_status status =
        qp->op.kind == IO_OP_NONE
            ? weft_fail_errno(error, failure, step->phase, "%s",
                              failure == ENODATA ? "the local GID is not in the port's "
                                                   "table"
                                                 : "the port's GID table")
            : weft_fail_errno(error, failure, step->phase, "%s",
                              io_op_kind_name(step->verb));
    weft_error_object(error, "%s", qp->label);
    add_values(qp, error);
    qp->failure = failure;
    /* One attempt for each rdma_qp_close, so that a destroy verb that fails is not retried
     * forever. */
    qp->wants_close = false;
    enter(qp, RDMA_QP_FAILED);
    return status;
}

/* Takes the result of a verb that succeeded, and enters the next state. */
static void take(struct rdma_qp *qp)
{
    if (qp->state == RDMA_QP_CREATING) {
        qp->qp = qp->op.out.qp;
        qp->cap = qp->op.arg.create_qp.init.cap;
        qp->qpn = qp->qp->qp_num;
        weft_format(qp->label, sizeof(qp->label), "%s:%s qp %u", qp->rdma->env->name,
                    qp->config.port->name, qp->qpn);
    } else if (qp->state == RDMA_QP_DESTROYING) {
        qp->qp = NULL;
    }
    enter(qp, step_of(qp->state)->next);
}

/* Starts the state's verb, or polls it. Returns 0, EINPROGRESS or another errno. */
static int drive(struct rdma_qp *qp)
{
    struct io_device *device = device_of(qp);
    if (qp->op.state == IO_OP_IDLE) {
        const struct step *step = step_of(qp->state);
        memset(&qp->op, 0, sizeof(qp->op));
        qp->op.task = qp->task;
        if (step->verb == IO_OP_MODIFY_QP) {
            qp->op.arg.modify_qp.qp = qp->qp;
        }
        int failure = step->fill(qp);
        if (failure != 0) {
            return failure;
        }
        qp->op.kind = step->verb;
        failure = device->ops->submit(device, &qp->op);
        if (failure != 0) {
            return failure;
        }
    }
    return device->ops->poll(device, &qp->op);
}

/* Repeats the step to RTR once after ENODATA, because the slot moved between the look-up and the
 * verb. Returns false if the failure is final. */
static bool reselect(struct rdma_qp *qp, int failure)
{
    if (qp->state != RDMA_QP_TO_RTR || failure != ENODATA || qp->n_reselected > 0 ||
        qp->op.kind == IO_OP_NONE || qp->config.keeps_index) {
        return false;
    }
    qp->n_reselected++;
    memset(&qp->op, 0, sizeof(qp->op));
    return true;
}

/* Returns true if RTR succeeded, but its slot holds another GID, which the QP then uses. The GID
 * moved before the verb, because a slot that a QP uses gets no other GID (Linux core/cache.c,
 * pending delete). An empty slot still belongs to the QP. */
static bool has_anothers_gid(const struct rdma_qp *qp)
{
    return qp->state == RDMA_QP_TO_RTR && !qp->config.keeps_index &&
           rdma_gid_is_anothers(qp->config.port, qp->sgid_index, &qp->config.gid,
                                qp->config.gid_type);
}

static weft_status move(struct rdma_qp *qp, struct weft_error *error)
{
    int failure = drive(qp);
    if (failure == EINPROGRESS) {
        return WEFT_AGAIN;
    }
    if (failure == 0 && has_anothers_gid(qp)) {
        if (qp->n_reselected > 0) {
            return fail(qp, ENODATA, error);
        }
        qp->n_reselected++;
        qp->is_again = true;
        qp->has_lost_receives = true;
        enter(qp, RDMA_QP_TO_RESET);
        return WEFT_OK;
    }
    if (failure == 0) {
        take(qp);
        return WEFT_OK;
    }
    return reselect(qp, failure) ? WEFT_OK : fail(qp, failure, error);
}

/* Enters the state that a request to close or to fail leads to. Called only between two verbs. */
static bool divert(struct rdma_qp *qp)
{
    if (qp->wants_close && qp->state != RDMA_QP_DESTROYING && qp->state != RDMA_QP_GONE) {
        enter(qp, qp->qp != NULL ? RDMA_QP_DESTROYING : RDMA_QP_GONE);
        return true;
    }
    if (qp->wants_error && may_follow(qp->state, RDMA_QP_TO_ERR)) {
        qp->wants_error = false;
        enter(qp, RDMA_QP_TO_ERR);
        return true;
    }
    return false;
}

weft_status rdma_qp_progress(struct rdma_qp *qp, struct weft_error *error)
{
    for (;;) {
        if (qp->op.state == IO_OP_IDLE && divert(qp)) {
            continue;
        }
        if (step_of(qp->state) != NULL) {
            weft_status status = move(qp, error);
            if (status != WEFT_OK) {
                return status;
            }
        } else if (qp->state == RDMA_QP_NEW) {
            enter(qp, RDMA_QP_CREATING);
        } else if (qp->state == RDMA_QP_INIT && qp->is_again) {
            qp->is_again = false;
            enter(qp, RDMA_QP_TO_RTR);
        } else if (qp->state == RDMA_QP_FAILED) {
            weft_status status = weft_fail_errno(error, qp->failure, WEFT_PHASE_QP,
                                                 "the queue pair had failed before");
            weft_error_object(error, "%s", qp->label);
            return status;
        } else {
            return WEFT_OK;
        }
    }
}
