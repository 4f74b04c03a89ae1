#include "rdma/cq.h"

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

int rdma_poll(const struct rdma *rdma, uint32_t device_index, struct ibv_cq *cq,
              int n_max, struct ibv_wc *wc, int *out_n)
{
    const struct io_device_ops *ops = rdma->env->devices[device_index]->ops;
    int n = 0;
    int n_more = 0;
    bool is_whole;

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
        n += kept;
    } while (!is_whole);
    *out_n = n;
    return 0;
}
