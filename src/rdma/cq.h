/* One completion queue shared by several queue pairs. Finds the queue pair of each completion, and
 * arms the CQ before its user may sleep. */
#ifndef WEFT_RDMA_CQ_H
#define WEFT_RDMA_CQ_H

#include "rdma/rdma.h"

#define RDMA_CQ_BATCH 16

/* One queue pair of a CQ: its number, and the index by which its owner knows it. */
struct rdma_cq_route {
    uint32_t qpn;
    uint32_t index;
};

/* One CQ. The user owns it, keeps it at a stable address until rdma_cq_close, and only reads its
 * fields. */
struct rdma_cq {
    struct rdma *rdma; /* Not owned. */
    uint32_t device_index;
    struct ibv_cq *cq; /* NULL until rdma_cq_progress has returned WEFT_OK */
    struct io_op op;
    struct rdma_cq_route *routes; /* Owned [n_routes], sorted by qpn */
    uint32_t n_routes, cap_routes;
    /* Polled, not yet returned: [at_batch, n_batch). */
    struct ibv_wc batch[RDMA_CQ_BATCH];
    int n_batch, at_batch;
    bool is_armed;     /* the next completion wakes the task */
    uint64_t n_strays; /* completions dropped because their queue pair has no route */
};

/* Polls like io_device_ops.poll_cq, but drops completions with GENERAL_ERR on devices where that
 * status is harmless (io_device_attr). Fewer than `n_max` completions mean that the CQ was empty.
 * On an error, wc[0..*out_n) contains those that were polled before it. */
int rdma_poll(const struct rdma *rdma, uint32_t device_index, struct ibv_cq *cq,
              int n_max, struct ibv_wc *wc, int *out_n);

/* Starts creating a CQ on a device, of at least `cqe` entries or of the device's maximum if that is
 * smaller. `task` is woken once the CQ exists, and by completions after rdma_cq_next has returned
 * WEFT_AGAIN. */
weft_status rdma_cq_open(struct rdma_cq *cq, struct rdma *rdma, uint32_t device_index,
                         uint32_t cqe, struct io_task *task,
                         struct weft_error *error) WEFT_MUST_CHECK;
/* Returns WEFT_AGAIN until the CQ exists. Fails in phase "create_cq" with the errno of the verb. */
weft_status rdma_cq_progress(struct rdma_cq *cq,
                             struct weft_error *error) WEFT_MUST_CHECK;
/* Destroys the CQ in any state, without waiting. Its queue pairs must be destroyed first. Does
 * nothing if `cq` is all zero. */
void rdma_cq_close(struct rdma_cq *cq);

/* Makes rdma_cq_next return the completions of `qpn` with `index`. `qpn` must not have a route. */
void rdma_cq_route(struct rdma_cq *cq, uint32_t qpn, uint32_t index);
/* Removes the route of `qpn`, if it has one. Its later completions are strays, because devices
 * reuse QP numbers. */
void rdma_cq_unroute(struct rdma_cq *cq, uint32_t qpn);

/* Takes the next completion and its queue pair's index. Returns WEFT_AGAIN if the CQ is empty and
 * armed. The user may then sleep, because the CQ was polled again after it was armed
 * (ibv_req_notify_cq(3)). Fails in phase "poll_cq": with errno EIO if the CQ overran, or with the
 * errno of arming. */
weft_status rdma_cq_next(struct rdma_cq *cq, struct ibv_wc *out, uint32_t *out_index,
                         struct weft_error *error) WEFT_MUST_CHECK;

#endif
