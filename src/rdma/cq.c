#include "rdma/cq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

static struct io_device *device_of(const struct rdma_cq *cq)
{
    return cq->rdma->env->devices[cq->device_index];
}

static weft_status fail(const struct rdma_cq *cq, int failure, enum weft_phase phase,
                        struct weft_error *error)
{
    weft_status status = weft_fail_errno(error, failure, phase, "completion queue");
    weft_error_object(error, "%s:%s", cq->rdma->env->name, device_of(cq)->name);
    return status;
}

weft_status rdma_cq_open(struct rdma_cq *cq, struct rdma *rdma, uint32_t device_index,
                         uint32_t cqe, struct io_task *task, struct weft_error *error)
{
    weft_check(device_index < rdma->env->n_devices);
    memset(cq, 0, sizeof(*cq));
    cq->rdma = rdma;
    cq->device_index = device_index;
    int max_cqe = rdma->attrs[device_index].ibv.max_cqe;
    if (max_cqe > 0 && cqe > (uint32_t)max_cqe) {
        cqe = (uint32_t)max_cqe;
    }
    cq->op.kind = IO_OP_CREATE_CQ;
    cq->op.task = task;
    cq->op.arg.create_cq.cqe = (int)cqe;
    cq->op.arg.create_cq.task = task;
    int failure = device_of(cq)->ops->submit(device_of(cq), &cq->op);
    return failure == 0 ? WEFT_OK : fail(cq, failure, WEFT_PHASE_CREATE_CQ, error);
}

weft_status rdma_cq_progress(struct rdma_cq *cq, struct weft_error *error)
{
    if (cq->cq != NULL) {
        return WEFT_OK;
    }
    int failure = device_of(cq)->ops->poll(device_of(cq), &cq->op);
    if (failure == EINPROGRESS) {
        return WEFT_AGAIN;
    }
    if (failure != 0) {
        return fail(cq, failure, WEFT_PHASE_CREATE_CQ, error);
    }
    cq->cq = cq->op.out.cq;
    return WEFT_OK;
}

void rdma_cq_close(struct rdma_cq *cq)
{
    if (cq->rdma == NULL) {
        return;
    }
    if (cq->op.state == IO_OP_RUNNING) {
        device_of(cq)->ops->abandon(device_of(cq), &cq->op);
    } else if (cq->op.state == IO_OP_DONE && cq->op.error == 0) {
        struct io_op destroy = {.kind = IO_OP_DESTROY_CQ};
        destroy.arg.destroy_cq = cq->op.out.cq;
        rdma_forget_op(device_of(cq), &destroy);
    }
    free(cq->routes);
    memset(cq, 0, sizeof(*cq));
}

/* Returns the index of the first route whose number is not below `qpn`, or n_routes. */
static uint32_t lower_bound(const struct rdma_cq *cq, uint32_t qpn)
{
    uint32_t low = 0;
    uint32_t high = cq->n_routes;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (cq->routes[middle].qpn < qpn) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void rdma_cq_route(struct rdma_cq *cq, uint32_t qpn, uint32_t index)
{
    uint32_t at = lower_bound(cq, qpn);
    weft_check(at == cq->n_routes || cq->routes[at].qpn != qpn);
    if (cq->n_routes == cq->cap_routes) {
        cq->cap_routes = cq->cap_routes == 0 ? 8 : 2 * cq->cap_routes;
        cq->routes = weft_realloc(cq->routes, cq->cap_routes * sizeof(*cq->routes));
    }
    memmove(&cq->routes[at + 1], &cq->routes[at],
            (cq->n_routes - at) * sizeof(*cq->routes));
    cq->routes[at] = (struct rdma_cq_route){.qpn = qpn, .index = index};
    cq->n_routes++;
}

void rdma_cq_unroute(struct rdma_cq *cq, uint32_t qpn)
{
    uint32_t at = lower_bound(cq, qpn);
    if (at == cq->n_routes || cq->routes[at].qpn != qpn) {
        return;
    }
    cq->n_routes--;
    memmove(&cq->routes[at], &cq->routes[at + 1],
            (cq->n_routes - at) * sizeof(*cq->routes));
}

/* Removes completions with GENERAL_ERR, and keeps the order of the others. Returns their number. */
static int without_noise(struct ibv_wc *wc, int n)
{
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (wc[i].status != IBV_WC_GENERAL_ERR) {
            wc[kept++] = wc[i];
        }
    }
    return kept;
}

/* Polls as rdma_poll does. *out_has_dropped is true if completions were dropped. */
static int poll_all(const struct rdma *rdma, uint32_t device_index, struct ibv_cq *cq,
                    int n_max, struct ibv_wc *wc, int *out_n, bool *out_has_dropped)
{
    const struct io_device_ops *ops = rdma->env->devices[device_index]->ops;
    int n = 0;
    int n_more = 0;
    bool is_whole;

    *out_has_dropped = false;
    do {
        int failure = ops->poll_cq(cq, n_max - n, wc + n, &n_more);
        *out_n = n;
        if (failure != 0) {
            return failure;
        }
        int kept = n_more;
        if (rdma->attrs[device_index].general_err_is_harmless) {
            kept = without_noise(wc + n, n_more);
        }
        is_whole = kept == n_more;
        *out_has_dropped = *out_has_dropped || !is_whole;
        n += kept;
    } while (!is_whole);
    *out_n = n;
    return 0;
}

int rdma_poll(const struct rdma *rdma, uint32_t device_index, struct ibv_cq *cq,
              int n_max, struct ibv_wc *wc, int *out_n)
{
    bool has_dropped;

    return poll_all(rdma, device_index, cq, n_max, wc, out_n, &has_dropped);
}

/* Fills the batch. Returns WEFT_AGAIN if the CQ is empty and armed. */
static weft_status poll(struct rdma_cq *cq, struct weft_error *error)
{
    const struct io_device_ops *ops = device_of(cq)->ops;
    for (;;) {
        bool has_dropped;
        int failure;

        cq->at_batch = 0;
        cq->n_batch = 0;
        failure = poll_all(cq->rdma, cq->device_index, cq->cq, RDMA_CQ_BATCH, cq->batch,
                           &cq->n_batch, &has_dropped);
        if (failure != 0) {
            return fail(cq, failure, WEFT_PHASE_POLL_CQ, error);
        }
        if (cq->n_batch > 0 || has_dropped) {
            /* One of these completions may have used up the arming. */
            cq->is_armed = false;
        }
        if (cq->n_batch > 0) {
            return WEFT_OK;
        }
        if (cq->is_armed) {
            return WEFT_AGAIN;
        }
        failure = ops->req_notify(cq->cq, 0);
        if (failure != 0) {
            return fail(cq, failure, WEFT_PHASE_POLL_CQ, error);
        }
        cq->is_armed = true;
    }
}

weft_status rdma_cq_next(struct rdma_cq *cq, struct ibv_wc *out, uint32_t *out_index,
                         struct weft_error *error)
{
    weft_check(cq->cq != NULL);
    for (;;) {
        if (cq->at_batch == cq->n_batch) {
            weft_status status = poll(cq, error);
            if (status != WEFT_OK) {
                return status;
            }
        }
        const struct ibv_wc *wc = &cq->batch[cq->at_batch++];
        uint32_t at = lower_bound(cq, wc->qp_num);
        if (at < cq->n_routes && cq->routes[at].qpn == wc->qp_num) {
            *out = *wc;
            *out_index = cq->routes[at].index;
            return WEFT_OK;
        }
        cq->n_strays++;
    }
}
