/* Control verbs. Each has an operation of its own on the backend, because the objects differ. */
#include <errno.h>
#include <stdlib.h>

#include "backends/fault/private.h"

/* A verb in progress; outer->backend[0] while it is RUNNING. */
struct fault_call {
    struct io_op inner;
    struct io_op *outer;         /* Not owned */
    struct fault_device *device; /* Not owned */
    struct fault_timer timer;    /* start of a delayed verb */
    bool is_held;                /* not yet submitted to the backend */
    struct fault_call *next;
};

static struct fault_device *device_of(struct io_device *io)
{
    return weft_container_of(io, struct fault_device, io);
}

static struct fault_qp *qp_of(struct ibv_qp *qp)
{
    return weft_container_of(qp, struct fault_qp, base);
}

static struct fault_cq *cq_of(struct ibv_cq *cq)
{
    return weft_container_of(cq, struct fault_cq, base);
}

/* ---- translation between our objects and the backend's ---- */

static void make_inner(struct fault_call *call)
{
    const struct io_op *outer = call->outer;
    struct io_op *inner = &call->inner;

    *inner = (struct io_op){.kind = outer->kind, .task = outer->task};
    inner->arg = outer->arg;
    switch (outer->kind) {
    case IO_OP_DESTROY_CQ:
        inner->arg.destroy_cq = cq_of(outer->arg.destroy_cq)->inner;
        break;
    case IO_OP_CREATE_QP:
        inner->arg.create_qp.init.send_cq =
            cq_of(outer->arg.create_qp.init.send_cq)->inner;
        inner->arg.create_qp.init.recv_cq =
            cq_of(outer->arg.create_qp.init.recv_cq)->inner;
        break;
    case IO_OP_MODIFY_QP:
        inner->arg.modify_qp.qp = qp_of(outer->arg.modify_qp.qp)->inner;
        break;
    case IO_OP_DESTROY_QP:
        inner->arg.destroy_qp = qp_of(outer->arg.destroy_qp)->inner;
        break;
    case IO_OP_NONE:
    case IO_OP_ALLOC_PD:
    case IO_OP_DEALLOC_PD:
    case IO_OP_REG_MR:
    case IO_OP_DEREG_MR:
    case IO_OP_CREATE_CQ:
        break;
    }
}

static void add_qp(struct fault_call *call)
{
    struct fault_device *device = call->device;
    struct ibv_qp *inner = call->inner.out.qp;
    struct fault_qp *qp = weft_calloc(1, sizeof(*qp));

    qp->base.qp_num = inner->qp_num;
    qp->base.qp_type = inner->qp_type;
    qp->base.state = inner->state;
    qp->inner = inner;
    qp->device = device;
    qp->next = device->qps;
    device->qps = qp;
    call->outer->out.qp = &qp->base;
    call->outer->arg.create_qp.init.cap = call->inner.arg.create_qp.init.cap;
}

static void add_cq(struct fault_call *call)
{
    struct fault_device *device = call->device;
    struct ibv_cq *inner = call->inner.out.cq;
    struct fault_cq *cq = weft_calloc(1, sizeof(*cq));

    cq->base.cqe = inner->cqe;
    cq->inner = inner;
    cq->device = device;
    fault_gate_init(&cq->gate, device->env, call->outer->arg.create_cq.task);
    cq->next = device->cqs;
    device->cqs = cq;
    call->outer->out.cq = &cq->base;
}

static void forget_qp(struct fault_qp *qp)
{
    struct fault_qp **at = &qp->device->qps;

    while (*at != qp) {
        at = &(*at)->next;
    }
    *at = qp->next;
    qp->device->inner->ops->abandon(qp->device->inner, &qp->to_error);
    free(qp);
}

static void forget_cq(struct fault_cq *cq)
{
    struct fault_cq **at = &cq->device->cqs;

    while (*at != cq) {
        at = &(*at)->next;
    }
    *at = cq->next;
    fault_gate_fini(&cq->gate);
    free(cq);
}

/* Frees the object that its user has destroyed. */
static void forget_destroyed(const struct io_op *outer)
{
    if (outer->kind == IO_OP_DESTROY_QP) {
        forget_qp(qp_of(outer->arg.destroy_qp));
    } else if (outer->kind == IO_OP_DESTROY_CQ) {
        forget_cq(cq_of(outer->arg.destroy_cq));
    }
}

static bool is_husk(const struct io_op *outer)
{
    return (outer->kind == IO_OP_DESTROY_QP &&
            qp_of(outer->arg.destroy_qp)->inner == NULL) ||
           (outer->kind == IO_OP_DESTROY_CQ &&
            cq_of(outer->arg.destroy_cq)->inner == NULL);
}

/* Makes a destroy verb fail: destroys the backend's queue, but keeps the user's object. */
static void make_husk(struct fault_device *device, const struct io_op *outer)
{
    struct io_device *inner = device->inner;
    struct io_op op = {.kind = outer->kind};

    if (is_husk(outer)) {
        return;
    }
    if (outer->kind == IO_OP_DESTROY_QP) {
        struct fault_qp *qp = qp_of(outer->arg.destroy_qp);

        op.arg.destroy_qp = qp->inner;
        inner->ops->abandon(inner, &qp->to_error);
        qp->inner = NULL;
    } else if (outer->kind == IO_OP_DESTROY_CQ) {
        struct fault_cq *cq = cq_of(outer->arg.destroy_cq);

        op.arg.destroy_cq = cq->inner;
        fault_gate_fini(&cq->gate);
        cq->inner = NULL;
    } else {
        return;
    }
    if (inner->ops->submit(inner, &op) == 0) {
        inner->ops->abandon(inner, &op);
    }
}

/* ---- progress of a call ---- */

static void forget(struct fault_call *call)
{
    struct fault_call **at = &call->device->calls;

    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    fault_timer_stop(call->device->env->world, &call->timer);
    call->outer->backend[0] = NULL;
    free(call);
}

/* Completes the user's operation: with the backend's result, or with an injected `error`. */
static void finish(struct fault_call *call, int error)
{
    struct io_op *outer = call->outer;

    outer->state = IO_OP_DONE;
    outer->error = error;
    if (error == 0) {
        outer->out = call->inner.out;
        if (outer->kind == IO_OP_CREATE_QP) {
            add_qp(call);
        } else if (outer->kind == IO_OP_CREATE_CQ) {
            add_cq(call);
        }
        forget_destroyed(outer);
    }
    forget(call);
}

static void start(struct fault_call *call)
{
    struct io_device *inner = call->device->inner;
    int error;

    call->is_held = false;
    make_inner(call);
    error = inner->ops->submit(inner, &call->inner);
    if (error != 0 || call->inner.state == IO_OP_DONE) {
        finish(call, error != 0 ? error : call->inner.error);
    }
}

static void start_late(struct fault_timer *timer)
{
    struct fault_call *call = weft_container_of(timer, struct fault_call, timer);
    struct io_task *task = call->outer->task;

    start(call);
    io_task_wake(task); /* the operation may still be in progress */
}

static bool is_destroying(enum io_op_kind kind)
{
    return kind == IO_OP_DEALLOC_PD || kind == IO_OP_DEREG_MR ||
           kind == IO_OP_DESTROY_CQ || kind == IO_OP_DESTROY_QP;
}

int fault_submit(struct io_device *io, struct io_op *op)
{
    struct fault_device *device = device_of(io);
    struct fault_env *env = device->env;
    struct fault_verdict verdict;
    struct fault_call *call;

    if (op->kind < IO_OP_ALLOC_PD || op->kind > IO_OP_DESTROY_QP) {
        return EINVAL;
    }
    fault_env_pass_tasks(env);
    verdict = fault_judge(env, device->index,
                          WORLD_CALL_ALLOC_PD + (op->kind - IO_OP_ALLOC_PD));
    if (device->is_gone && !is_destroying(op->kind)) {
        verdict.error = EIO;
    }
    call = weft_calloc(1, sizeof(*call));
    call->outer = op;
    call->device = device;
    call->next = device->calls;
    call->timer.due = (struct weft_heap_node)WEFT_HEAP_NODE_INIT;
    call->timer.fire = start_late;
    device->calls = call;
    op->state = IO_OP_RUNNING;
    op->error = 0;
    op->backend[0] = call;
    if (verdict.error != 0 || is_husk(op)) {
        if (verdict.error != 0) {
            make_husk(device, op);
        }
        finish(call, verdict.error);
        io_task_wake(op->task);
    } else if (verdict.by_ns > 0) {
        call->is_held = true;
        fault_timer_set(env->world, &call->timer, io_now(env->inner) + verdict.by_ns);
    } else {
        start(call);
    }
    return 0;
}

int fault_poll(struct io_device *io, struct io_op *op)
{
    struct fault_device *device = device_of(io);
    struct fault_call *call;

    fault_env_pass_tasks(device->env);
    if (op->state != IO_OP_RUNNING) {
        return op->error;
    }
    call = op->backend[0];
    if (call->is_held ||
        device->inner->ops->poll(device->inner, &call->inner) == EINPROGRESS) {
        return EINPROGRESS;
    }
    finish(call, call->inner.error);
    return op->error;
}

/* Destroys an object whose creation was abandoned. */
static void undo(const struct fault_call *call)
{
    const struct io_op *made = &call->inner;
    struct io_device *inner = call->device->inner;
    struct io_op op = {.kind = IO_OP_NONE};

    if (made->kind == IO_OP_ALLOC_PD) {
        op.kind = IO_OP_DEALLOC_PD;
        op.arg.dealloc_pd = made->out.pd;
    } else if (made->kind == IO_OP_REG_MR) {
        op.kind = IO_OP_DEREG_MR;
        op.arg.dereg_mr = made->out.mr;
    } else if (made->kind == IO_OP_CREATE_CQ) {
        op.kind = IO_OP_DESTROY_CQ;
        op.arg.destroy_cq = made->out.cq;
    } else if (made->kind == IO_OP_CREATE_QP) {
        op.kind = IO_OP_DESTROY_QP;
        op.arg.destroy_qp = made->out.qp;
    }
    if (op.kind != IO_OP_NONE && inner->ops->submit(inner, &op) == 0) {
        inner->ops->abandon(inner, &op);
    }
}

void fault_abandon(struct io_device *io, struct io_op *op)
{
    struct fault_device *device = device_of(io);
    struct fault_call *call = op->backend[0];

    fault_env_pass_tasks(device->env);
    if (op->state != IO_OP_RUNNING) {
        return;
    }
    call->inner.task = NULL;
    if (call->is_held && is_destroying(op->kind)) {
        make_inner(call);
        call->inner.task = NULL;
        if (device->inner->ops->submit(device->inner, &call->inner) != 0) {
            call->inner.state = IO_OP_IDLE;
        }
    }
    if (call->inner.state == IO_OP_RUNNING) {
        device->inner->ops->abandon(device->inner, &call->inner);
    } else if (call->inner.state == IO_OP_DONE && call->inner.error == 0) {
        undo(call);
    }
    forget_destroyed(op);
    forget(call);
    op->state = IO_OP_IDLE;
}

void fault_calls_stop(struct fault_device *device)
{
    while (device->calls != NULL) {
        struct fault_call *call = device->calls;

        call->inner.task = NULL;
        device->inner->ops->abandon(device->inner, &call->inner);
        call->outer->state = IO_OP_DONE;
        call->outer->error = EIO;
        forget(call);
    }
}
