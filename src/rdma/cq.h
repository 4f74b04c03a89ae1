/* One completion queue shared by queue pairs: who a completion belongs to, and when it
 * is safe to sleep. */
#ifndef WEFT_RDMA_CQ_H
#define WEFT_RDMA_CQ_H

#include "rdma/rdma.h"

#define RDMA_CQ_BATCH 16

/* A queue pair of this CQ and what its owner calls it. */
struct rdma_cq_route {
    uint32_t qpn;
    uint32_t index;
};

/* In place, owned by the user, at a stable address until closed. Fields are for
 * reading. */
struct rdma_cq {
    struct rdma *rdma; /* Not owned. */
    uint32_t device_index;
    struct ibv_cq *cq; /* NULL until rdma_cq_progress returned WEFT_OK */
    struct io_op op;
    struct rdma_cq_route *routes; /* Owned [n_routes], by rising qpn */
    uint32_t n_routes, cap_routes;
    struct ibv_wc batch[RDMA_CQ_BATCH]; /* polled, not yet handed out: [at, n) */
    int n_batch, at_batch;
    bool is_armed;     /* a completion will wake the task */
    uint64_t n_strays; /* completions of queue pairs without a route: dropped */
};

/* Polls like io_device_ops.poll_cq, without the completions that mean nothing: those with
 * GENERAL_ERR on devices where it is harmless. Less than `n_max`: the CQ was empty. */
int rdma_poll(const struct rdma *rdma, uint32_t device_index, struct ibv_cq *cq,
              int n_max, struct ibv_wc *wc, int *out_n);

/* Starts making a CQ of at least `cqe` entries (lowered to the device's most) on a
 * device; `task` is woken when it is made, and by completions after rdma_cq_next
 * returned AGAIN. */
weft_status rdma_cq_open(struct rdma_cq *cq, struct rdma *rdma, uint32_t device_index,
                         uint32_t cqe, struct io_task *task,
                         struct weft_error *error) WEFT_MUST_CHECK;
/* AGAIN until it exists. ENOMEM and others keep their errno, phase "create_cq". */
weft_status rdma_cq_progress(struct rdma_cq *cq,
                             struct weft_error *error) WEFT_MUST_CHECK;
/* Destroys it from any state, without waiting; its queue pairs must be gone. */
void rdma_cq_close(struct rdma_cq *cq);

/* Completions of `qpn` are handed out with `index`. A number is routed once at a time. */
void rdma_cq_route(struct rdma_cq *cq, uint32_t qpn, uint32_t index);
/* Later completions of `qpn` are strays: numbers are reused. */
void rdma_cq_unroute(struct rdma_cq *cq, uint32_t qpn);

/* Hands out the next completion and its queue pair's index. AGAIN: there is none and
 * the CQ is armed, so that sleeping is safe: poll until empty, arm, poll again
 * (ibv_req_notify_cq(3)). An error: the CQ overran (EIO), phase "poll_cq". */
weft_status rdma_cq_next(struct rdma_cq *cq, struct ibv_wc *out, uint32_t *out_index,
                         struct weft_error *error) WEFT_MUST_CHECK;

#endif
