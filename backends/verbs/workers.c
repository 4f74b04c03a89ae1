/* The threads of a device for control verbs. There are several, so that a verb that blocks in the
 * kernel does not delay the others. Users wait for a verb before they submit one that needs its
 * result, but not for abandoned verbs, so their order is kept here. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "backends/verbs/device.h"
#include "base/check.h"

/* Maximum number of slow verbs at a time, in total and of one kind, so that a thread is left for
 * quick verbs, and slow ends of connections do not delay the start of others. */
#define SLOW_MAX (VERBS_WORKERS - 1)
#define SLOW_OF_A_KIND_MAX 2

/* ---- on a worker: the verb ---- */

/* Returns 0, or the errno of a function that returned no object. */
static int made(const void *object)
{
    if (object != NULL) {
        return 0;
    }
    return errno != 0 ? errno : EIO;
}

/* Access flags in the optional range need ibv_reg_mr_iova2, which drops those that the kernel
 * does not know. <infiniband/verbs.h> has a macro ibv_reg_mr for this. */
static struct ibv_mr *reg_mr(const struct verbs_library *library, struct io_op *work)
{
    void *addr = work->arg.reg_mr.addr;
    size_t length = work->arg.reg_mr.length;
    int access = work->arg.reg_mr.access;
    if (work->arg.reg_mr.is_dmabuf) {
        if (library->reg_dmabuf_mr == NULL) {
            errno = EOPNOTSUPP;
            return NULL;
        }
        return library->reg_dmabuf_mr(work->arg.reg_mr.pd, work->arg.reg_mr.dmabuf_offset,
                                      length, (uintptr_t)addr, work->arg.reg_mr.dmabuf_fd,
                                      access & ~IBV_ACCESS_OPTIONAL_RANGE);
    }
    if ((access & IBV_ACCESS_OPTIONAL_RANGE) != 0 && library->reg_mr_iova2 != NULL) {
        return library->reg_mr_iova2(work->arg.reg_mr.pd, addr, length, (uintptr_t)addr,
                                     (unsigned)access);
    }
    return library->reg_mr(work->arg.reg_mr.pd, addr, length,
                           access & ~IBV_ACCESS_OPTIONAL_RANGE);
}

/* Executes the verb on a worker. Returns an errno. */
static int execute(struct verbs_call *call)
{
    struct verbs_device *device = call->device;
    const struct verbs_library *library = device->library;
    struct io_op *work = &call->work;
    errno = 0;
    switch (work->kind) {
    case IO_OP_NONE:
        return EINVAL;
    case IO_OP_ALLOC_PD:
        work->out.pd = library->alloc_pd(device->context);
        return made(work->out.pd);
    case IO_OP_DEALLOC_PD:
        return verbs_result(library->dealloc_pd(work->arg.dealloc_pd));
    case IO_OP_REG_MR:
        work->out.mr = reg_mr(library, work);
        return made(work->out.mr);
    case IO_OP_DEREG_MR:
        return verbs_result(library->dereg_mr(work->arg.dereg_mr));
    case IO_OP_CREATE_CQ:
        work->out.cq = library->create_cq(device->context, work->arg.create_cq.cqe,
                                          call->cq, device->channel, 0);
        return made(work->out.cq);
    case IO_OP_DESTROY_CQ:
        return verbs_result(library->destroy_cq(work->arg.destroy_cq));
    case IO_OP_CREATE_QP:
        work->out.qp =
            library->create_qp(work->arg.create_qp.pd, &work->arg.create_qp.init);
        return made(work->out.qp);
    case IO_OP_MODIFY_QP:
        return verbs_result(library->modify_qp(
            work->arg.modify_qp.qp, &work->arg.modify_qp.attr, work->arg.modify_qp.mask));
    case IO_OP_DESTROY_QP:
        return verbs_result(library->destroy_qp(work->arg.destroy_qp));
    }
    return EINVAL;
}

/* ---- which call may run ---- */

static bool may_stall(enum io_op_kind kind)
{
    return kind == IO_OP_MODIFY_QP || kind == IO_OP_DESTROY_QP || kind == IO_OP_DEREG_MR;
}

/* Returns the existing object that a verb changes or destroys; NULL if there is none. */
static const void *object_of(const struct io_op *work)
{
    switch (work->kind) {
    case IO_OP_MODIFY_QP:
        return work->arg.modify_qp.qp;
    case IO_OP_DESTROY_QP:
        return work->arg.destroy_qp;
    case IO_OP_DEREG_MR:
        return work->arg.dereg_mr;
    case IO_OP_DESTROY_CQ:
        return work->arg.destroy_cq;
    case IO_OP_DEALLOC_PD:
        return work->arg.dealloc_pd;
    case IO_OP_NONE:
    case IO_OP_ALLOC_PD:
    case IO_OP_REG_MR:
    case IO_OP_CREATE_CQ:
    case IO_OP_CREATE_QP:
        break;
    }
    return NULL;
}

/* Returns true if `later` must not start before `earlier` is finished. Only the caller knows the
 * users of CQs and PDs, so their destruction waits for all earlier calls. */
static bool depends(const struct verbs_call *later, const struct verbs_call *earlier)
{
    const void *object = object_of(&later->work);
    enum io_op_kind kind = later->work.kind;

    return kind == IO_OP_DESTROY_CQ || kind == IO_OP_DEALLOC_PD ||
           (object != NULL && object == object_of(&earlier->work));
}

static bool is_free(const struct verbs_workers *workers, const struct verbs_call *call)
{
    const struct verbs_call *at = workers->first;
    uint32_t n_slow = 0;
    uint32_t n_of_kind = 0;

    for (; at != call; at = at->next) {
        if (depends(call, at)) {
            return false;
        }
    }
    for (at = workers->first; at != NULL; at = at->next) {
        if (at->state == VERBS_RUNNING && may_stall(at->work.kind)) {
            n_slow++;
            n_of_kind += at->work.kind == call->work.kind;
        }
    }
    return !may_stall(call->work.kind) ||
           (n_slow < SLOW_MAX && n_of_kind < SLOW_OF_A_KIND_MAX);
}

static struct verbs_call *next_call(const struct verbs_workers *workers)
{
    for (struct verbs_call *at = workers->first; at != NULL; at = at->next) {
        if (at->state == VERBS_WAITING && is_free(workers, at)) {
            return at;
        }
    }
    return NULL;
}

/* ---- on a worker ---- */

/* A worker counts as idle when it starts, and while it looks for work. */
static void *work(void *context)
{
    struct verbs_device *device = context;
    struct verbs_workers *workers = &device->workers;

    pthread_mutex_lock(&workers->lock);
    while (!workers->is_stopping) {
        struct verbs_call *call = next_call(workers);

        if (call == NULL) {
            pthread_cond_wait(&workers->changed, &workers->lock);
            continue;
        }
        workers->n_idle--;
        call->state = VERBS_RUNNING;
        pthread_mutex_unlock(&workers->lock);
        call->work.error = execute(call);
        pthread_mutex_lock(&workers->lock);
        call->state = VERBS_POSTED;
        workers->n_idle++;
        workers->n_posted++;
        linux_loop_post(device->loop, &call->posting);
        pthread_cond_broadcast(&workers->changed);
    }
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

/* ---- on the loop's thread ---- */

static int start_thread(struct verbs_device *device)
{
    struct verbs_workers *workers = &device->workers;
    sigset_t all, before;
    int result;

    /* Signals are for the threads that handle them. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    result = pthread_create(&workers->threads[workers->n_threads], NULL, work, device);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    workers->n_threads += result == 0;
    return result;
}

int verbs_workers_start(struct verbs_device *device)
{
    struct verbs_workers *workers = &device->workers;
    int result;

    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->changed, NULL);
    workers->n_idle = 1;
    result = start_thread(device);
    if (result != 0) {
        pthread_mutex_destroy(&workers->lock);
        pthread_cond_destroy(&workers->changed);
    }
    return result;
}

static uint32_t n_waiting(const struct verbs_workers *workers)
{
    uint32_t n = 0;

    for (const struct verbs_call *at = workers->first; at != NULL; at = at->next) {
        n += at->state == VERBS_WAITING;
    }
    return n;
}

/* Wakes idle threads, because calls may be ready to run. Each idle thread takes one of the
 * waiting calls; each further call needs a new thread. Must be called with the lock held. */
static void wake(struct verbs_device *device)
{
    struct verbs_workers *workers = &device->workers;

    pthread_cond_broadcast(&workers->changed);
    while (workers->n_threads < VERBS_WORKERS && n_waiting(workers) > workers->n_idle) {
        if (start_thread(device) != 0) {
            return; /* the existing threads do the work */
        }
        workers->n_idle++; /* counts as idle until it looks for work */
    }
}

void verbs_workers_add(struct verbs_device *device, struct verbs_call *call)
{
    struct verbs_call **at = &device->workers.first;

    pthread_mutex_lock(&device->workers.lock);
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = call;
    wake(device);
    pthread_mutex_unlock(&device->workers.lock);
}

void verbs_workers_redo(struct verbs_device *device, struct verbs_call *call,
                        const struct io_op *work)
{
    pthread_mutex_lock(&device->workers.lock); /* other threads read the calls' work */
    weft_check(call->state == VERBS_POSTED);
    call->work = *work;
    call->state = VERBS_WAITING;
    device->workers.n_posted--;
    wake(device);
    pthread_mutex_unlock(&device->workers.lock);
}

void verbs_workers_remove(struct verbs_device *device, struct verbs_call *call)
{
    struct verbs_call **at = &device->workers.first;

    pthread_mutex_lock(&device->workers.lock);
    weft_check(call->state == VERBS_POSTED);
    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    device->workers.n_posted--;
    wake(device);
    pthread_mutex_unlock(&device->workers.lock);
}

void verbs_workers_stop(struct verbs_device *device)
{
    struct verbs_workers *workers = &device->workers;

    while (device->n_calls > 0) { /* finishing a call can start its undoing */
        pthread_mutex_lock(&workers->lock);
        while (workers->n_posted == 0) {
            pthread_cond_wait(&workers->changed, &workers->lock);
        }
        pthread_mutex_unlock(&workers->lock);
        (void)linux_loop_step(device->loop, 0);
    }
    pthread_mutex_lock(&workers->lock);
    workers->is_stopping = true;
    pthread_cond_broadcast(&workers->changed);
    pthread_mutex_unlock(&workers->lock);
    for (uint32_t i = 0; i < workers->n_threads; i++) {
        pthread_join(workers->threads[i], NULL);
    }
    pthread_mutex_destroy(&workers->lock);
    pthread_cond_destroy(&workers->changed);
}
