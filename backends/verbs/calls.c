/* Control verbs. They can block in the kernel for seconds (modify to RTR resolves the neighbour
 * for up to one; hns frees MRs for up to 4.5), which the loop must not, so workers.c executes
 * them. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "backends/verbs/device.h"
#include "base/check.h"
#include "base/text.h"

/* ---- on the loop's thread ---- */

static void remember(struct verbs_device *device, enum io_op_kind kind, void *pointer)
{
    struct verbs_object *object = weft_calloc(1, sizeof *object);
    *object =
        (struct verbs_object){.next = device->objects, .kind = kind, .pointer = pointer};
    device->objects = object;
}

static void forget(struct verbs_device *device, const void *pointer)
{
    struct verbs_object **at = &device->objects;
    while (*at != NULL && (*at)->pointer != pointer) {
        at = &(*at)->next;
    }
    weft_check(*at != NULL); /* fails if it is destroyed twice, or not from here */
    struct verbs_object *object = *at;
    *at = object->next;
    device->n_in_error -= object->is_in_error;
    free(object);
}

static struct verbs_object *object_of(const struct verbs_device *device,
                                      const void *pointer)
{
    struct verbs_object *object = device->objects;
    while (object != NULL && object->pointer != pointer) {
        object = object->next;
    }
    return object;
}

static void account_state(struct verbs_device *device, const struct io_op *work)
{
    struct verbs_object *object = object_of(device, work->arg.modify_qp.qp);
    if (object != NULL && (work->arg.modify_qp.mask & IBV_QP_STATE) != 0) {
        device->n_in_error -= object->is_in_error;
        object->is_in_error = work->arg.modify_qp.attr.qp_state == IBV_QPS_ERR;
        device->n_in_error += object->is_in_error;
    }
}

/* Updates the list of objects after a verb that succeeded. */
static void account(struct verbs_device *device, const struct io_op *work)
{
    switch (work->kind) {
    case IO_OP_ALLOC_PD:
        remember(device, work->kind, work->out.pd);
        return;
    case IO_OP_REG_MR:
        remember(device, work->kind, work->out.mr);
        return;
    case IO_OP_CREATE_CQ:
        remember(device, work->kind, work->out.cq);
        return;
    case IO_OP_CREATE_QP:
        remember(device, work->kind, work->out.qp);
        return;
    case IO_OP_DEALLOC_PD:
        forget(device, work->arg.dealloc_pd);
        return;
    case IO_OP_DEREG_MR:
        forget(device, work->arg.dereg_mr);
        return;
    case IO_OP_DESTROY_CQ:
        forget(device, work->arg.destroy_cq);
        return;
    case IO_OP_DESTROY_QP:
        forget(device, work->arg.destroy_qp);
        return;
    case IO_OP_MODIFY_QP:
        account_state(device, work);
        return;
    case IO_OP_NONE:
        return;
    }
}

static void forget_cq(struct verbs_device *device, struct verbs_cq *cq)
{
    struct verbs_cq **at = &device->cqs;
    while (*at != cq) {
        at = &(*at)->next;
    }
    *at = cq->next;
    device->n_armed -= cq->is_armed;
    free(cq);
}

/* Returns the verb that undoes an abandoned creation; kind NONE if there is nothing to undo. */
static struct io_op undo_of(const struct io_op *work)
{
    struct io_op undo = {.kind = IO_OP_NONE};
    if (work->error == 0 && work->kind == IO_OP_ALLOC_PD) {
        undo = (struct io_op){.kind = IO_OP_DEALLOC_PD, .arg.dealloc_pd = work->out.pd};
    } else if (work->error == 0 && work->kind == IO_OP_REG_MR) {
        undo = (struct io_op){.kind = IO_OP_DEREG_MR, .arg.dereg_mr = work->out.mr};
    } else if (work->error == 0 && work->kind == IO_OP_CREATE_CQ) {
        undo = (struct io_op){.kind = IO_OP_DESTROY_CQ, .arg.destroy_cq = work->out.cq};
    } else if (work->error == 0 && work->kind == IO_OP_CREATE_QP) {
        undo = (struct io_op){.kind = IO_OP_DESTROY_QP, .arg.destroy_qp = work->out.qp};
    }
    return undo;
}

static void settle_cq(struct verbs_call *call)
{
    bool is_gone = (call->work.kind == IO_OP_CREATE_CQ && call->work.error != 0) ||
                   (call->work.kind == IO_OP_DESTROY_CQ && call->work.error == 0);
    if (is_gone) {
        forget_cq(call->device, call->cq);
        call->cq = NULL;
    }
}

static void finish(void *context)
{
    struct verbs_call *call = context;
    struct verbs_device *device = call->device;
    struct io_op *op = call->op;
    settle_cq(call);
    if (call->work.error == 0) {
        account(device, &call->work);
    }
    if (op == NULL) {
        struct io_op undo = undo_of(&call->work);
        if (undo.kind != IO_OP_NONE) {
            /* Run it before calls that depend on it, such as dealloc_pd. */
            verbs_workers_redo(device, call, &undo);
            return;
        }
    } else {
        op->error = call->work.error;
        op->out = call->work.out;
        if (op->kind == IO_OP_CREATE_QP && op->error == 0) {
            op->arg.create_qp.init = call->work.arg.create_qp.init;
        }
        op->state = IO_OP_DONE;
        op->backend[0] = NULL;
    }
    device->n_calls--;
    verbs_workers_remove(device, call);
    free(call);
    if (op != NULL) {
        io_task_wake(op->task);
    }
}

int verbs_submit(struct io_device *io, struct io_op *op)
{
    struct verbs_device *device = verbs_device_of(io);
    if (op->kind <= IO_OP_NONE || op->kind > IO_OP_DESTROY_QP) {
        return EINVAL;
    }
    struct verbs_call *call = weft_calloc(1, sizeof *call);
    *call = (struct verbs_call){.device = device, .op = op, .work = *op};
    call->posting = (struct linux_posting){.run = finish, .context = call};
    if (op->kind == IO_OP_CREATE_CQ) {
        call->cq = weft_calloc(1, sizeof *call->cq);
        call->cq->device = device;
        call->cq->task = op->arg.create_cq.task;
        call->cq->next = device->cqs;
        device->cqs = call->cq;
    } else if (op->kind == IO_OP_DESTROY_CQ) {
        call->cq = op->arg.destroy_cq->cq_context;
        call->cq->is_muted = true;
    }
    op->error = 0;
    op->state = IO_OP_RUNNING;
    op->backend[0] = call;
    device->n_calls++;
    verbs_workers_add(device, call);
    return 0;
}

/* Flushes receives that were posted to a QP in ERR. The provider of rdma_rxe does not notify the
 * kernel of posted receives; the kernel looks for them when a packet arrives, or when the queue
 * pair is moved to ERR. Moving it to ERR again, which is allowed from any state, flushes them. */
void verbs_flush_receives(struct verbs_device *device, struct ibv_qp *qp)
{
    if (device->n_in_error == 0 || !object_of(device, qp)->is_in_error) {
        return;
    }
    struct verbs_call *call = weft_calloc(1, sizeof *call);
    *call = (struct verbs_call){.device = device, .work.kind = IO_OP_MODIFY_QP};
    call->work.arg.modify_qp.qp = qp;
    call->work.arg.modify_qp.attr.qp_state = IBV_QPS_ERR;
    call->work.arg.modify_qp.mask = IBV_QP_STATE;
    call->posting = (struct linux_posting){.run = finish, .context = call};
    device->n_calls++;
    verbs_workers_add(device, call);
}

int verbs_poll(struct io_device *io, struct io_op *op)
{
    (void)io;
    return op->state == IO_OP_RUNNING ? EINPROGRESS : op->error;
}

void verbs_abandon(struct io_device *io, struct io_op *op)
{
    (void)io;
    if (op->state != IO_OP_RUNNING) {
        return;
    }
    struct verbs_call *call = op->backend[0];
    call->op = NULL;
    if (op->kind == IO_OP_CREATE_CQ) {
        call->cq->is_muted = true;
    }
    op->state = IO_OP_IDLE;
    op->backend[0] = NULL;
}

/* ---- closing ---- */

static int destroy_object(const struct verbs_library *library,
                          struct verbs_object *object)
{
    if (object->kind == IO_OP_CREATE_QP) {
        return library->destroy_qp(object->pointer);
    }
    if (object->kind == IO_OP_CREATE_CQ) {
        return library->destroy_cq(object->pointer);
    }
    return object->kind == IO_OP_REG_MR ? library->dereg_mr(object->pointer)
                                        : library->dealloc_pd(object->pointer);
}

void verbs_destroy_objects(struct verbs_device *device)
{
    /* Destroy users before the objects that they use. */
    static const enum io_op_kind order[] = {IO_OP_CREATE_QP, IO_OP_CREATE_CQ,
                                            IO_OP_REG_MR, IO_OP_ALLOC_PD};
    for (size_t i = 0; i < WEFT_LENGTH(order); i++) {
        for (struct verbs_object *at = device->objects; at != NULL; at = at->next) {
            if (at->kind == order[i] && destroy_object(device->library, at) != 0) {
                weft_log(device->log, WEFT_LOG_WARN, "%s: an object would not go",
                         device->kernel_name);
            }
        }
    }
    while (device->objects != NULL) {
        struct verbs_object *object = device->objects;
        device->objects = object->next;
        free(object);
    }
}
