/* Polling of completion queues, the same for all devices. */
#ifndef WEFT_RDMA_CQ_H
#define WEFT_RDMA_CQ_H

#include "io/verbs.h"
#include "rdma/rdma.h"

/* Polls like io_device_ops.poll_cq, but drops completions with GENERAL_ERR on devices where that
 * status is harmless (io_device_attr). Fewer than `n_max` completions mean that the CQ was empty.
 * On an error, wc[0..*out_n) contains those that were polled before it. */
int rdma_poll(const struct rdma *rdma, uint32_t device_index, struct ibv_cq *cq,
              int n_max, struct ibv_wc *wc, int *out_n);

#endif
