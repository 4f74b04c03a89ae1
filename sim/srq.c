/* Shared receive queues (rxe_srq.c, ibv_create_srq(3)). A receive WR leaves the queue
 * when a message starts to use it, which frees its place. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/access.h"
#include "sim/nic_objects.h"

int sim_srq_create(struct sim_pd *pd, struct ibv_srq_init_attr *init,
                   struct sim_srq **out)
{
    struct sim_nic *nic = pd->nic;
    const struct sim_profile *profile = nic->profile;
    if (profile->max_srq_wr == 0) {
        return EOPNOTSUPP;
    }
    if (init->attr.max_wr == 0 || init->attr.max_wr > profile->max_srq_wr ||
        init->attr.max_sge > profile->max_srq_sge) {
        return EINVAL;
    }
    struct sim_srq *srq = weft_calloc(1, sizeof(*srq));
    srq->nic = nic;
    srq->pd = pd;
    srq->mask = sim_round_up_pow2(init->attr.max_wr) - 1;
    srq->depth = profile->wr_rounded_to_pow2 && srq->mask < profile->max_srq_wr
                     ? srq->mask + 1
                     : init->attr.max_wr;
    srq->max_sge = init->attr.max_sge;
    srq->wqes = weft_calloc(srq->mask + 1u, sizeof(*srq->wqes));
    srq->sges =
        weft_calloc((srq->mask + 1u) * (size_t)srq->max_sge + 1, sizeof(*srq->sges));
    srq->ibv.srq_context = init->srq_context;
    srq->ibv.pd = &pd->ibv;
    srq->link = &nic->srqs;
    srq->next = nic->srqs;
    if (nic->srqs != NULL) {
        nic->srqs->link = &srq->next;
    }
    nic->srqs = srq;
    pd->n_children++;
    init->attr.max_wr = srq->depth;
    *out = srq;
    return 0;
}

void sim_srq_free(struct sim_srq *srq)
{
    sim_nic_forget_events(srq->pd->user, srq);
    *srq->link = srq->next;
    if (srq->next != NULL) {
        srq->next->link = srq->link;
    }
    srq->pd->n_children--;
    free(srq->wqes);
    free(srq->sges);
    free(srq);
}

int sim_srq_destroy(struct sim_srq *srq)
{
    if (srq->n_qps > 0) {
        return EBUSY;
    }
    if (srq->n_unacked > 0) {
        return EINPROGRESS;
    }
    sim_srq_free(srq);
    return 0;
}

/* Raises the limit event once; the limit must then be set again (ibv_modify_srq(3)). */
static void check_limit(struct sim_srq *srq)
{
    if (srq->post - srq->head < srq->limit) {
        srq->limit = 0;
        sim_nic_raise_srq(srq, IBV_EVENT_SRQ_LIMIT_REACHED);
    }
}

/* Moves the posted WRs to a queue of another length. */
static void resize(struct sim_srq *srq, uint32_t depth)
{
    struct sim_srq old = *srq;
    srq->depth = depth;
    srq->mask = sim_round_up_pow2(depth) - 1;
    srq->wqes = weft_calloc(srq->mask + 1u, sizeof(*srq->wqes));
    srq->sges =
        weft_calloc((srq->mask + 1u) * (size_t)srq->max_sge + 1, sizeof(*srq->sges));
    for (uint32_t i = srq->head; i != srq->post; i++) {
        size_t to = (size_t)(i & srq->mask) * srq->max_sge;
        size_t from = (size_t)(i & old.mask) * old.max_sge;
        srq->wqes[i & srq->mask] = old.wqes[i & old.mask];
        memcpy(&srq->sges[to], &old.sges[from], srq->max_sge * sizeof(*srq->sges));
    }
    free(old.wqes);
    free(old.sges);
}

int sim_srq_modify(struct sim_srq *srq, const struct ibv_srq_attr *attr, int mask)
{
    const struct sim_profile *profile = srq->nic->profile;
    bool resizes = (mask & IBV_SRQ_MAX_WR) != 0;
    uint32_t depth = resizes ? attr->max_wr : srq->depth;
    bool is_able = (profile->device_cap_flags & IBV_DEVICE_SRQ_RESIZE) != 0;
    if (resizes && (!is_able || depth == 0 || depth > profile->max_srq_wr ||
                    depth < srq->limit || depth < srq->post - srq->head)) {
        return EINVAL;
    }
    if ((mask & IBV_SRQ_LIMIT) != 0 && attr->srq_limit > depth) {
        return EINVAL;
    }
    if (resizes) {
        resize(srq, depth);
    }
    if ((mask & IBV_SRQ_LIMIT) != 0) {
        srq->limit = attr->srq_limit;
        if (profile->dialect != SIM_DIALECT_RXE) {
            check_limit(srq); /* rxe checks when a receive WR is taken */
        }
    }
    return 0;
}

int sim_nic_query_srq(struct ibv_srq *ibv_srq, struct ibv_srq_attr *out)
{
    const struct sim_srq *srq = sim_srq_of(ibv_srq);
    *out = (struct ibv_srq_attr){
        .max_wr = srq->depth, .max_sge = srq->max_sge, .srq_limit = srq->limit};
    return 0;
}

static int post_one(struct sim_srq *srq, const struct ibv_recv_wr *wr)
{
    uint32_t slot = srq->post & srq->mask;
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > srq->max_sge) {
        return EINVAL;
    }
    if (srq->post - srq->head >= srq->depth) {
        return ENOMEM;
    }
    uint32_t n_sge = (uint32_t)wr->num_sge;
    srq->wqes[slot] = (struct sim_recv_wqe){
        .wr_id = wr->wr_id,
        .capacity = sim_sges_bytes(wr->sg_list, n_sge),
        .n_sge = n_sge,
    };
    if (n_sge > 0) {
        memcpy(&srq->sges[(size_t)slot * srq->max_sge], wr->sg_list,
               n_sge * sizeof(*wr->sg_list));
    }
    srq->post++;
    return 0;
}

int sim_nic_post_srq_recv(struct ibv_srq *ibv_srq, struct ibv_recv_wr *wr,
                          struct ibv_recv_wr **bad)
{
    struct sim_srq *srq = sim_srq_of(ibv_srq);
    int error = 0;
    for (; wr != NULL && error == 0; wr = wr->next) {
        error = post_one(srq, wr);
        if (error != 0) {
            *bad = wr;
        }
    }
    return error;
}

bool sim_srq_take(struct sim_qp *qp)
{
    struct sim_srq *srq = qp->srq;
    struct rc_responder *rq = &qp->rq;
    if (srq->head == srq->post) {
        return false;
    }
    uint32_t slot = srq->head & srq->mask;
    uint32_t in_hand = rq->post & rq->mask;
    rq->wqes[in_hand] = srq->wqes[slot];
    memcpy(&rq->sges[(size_t)in_hand * rq->max_sge],
           &srq->sges[(size_t)slot * srq->max_sge], srq->max_sge * sizeof(*srq->sges));
    rq->post++;
    srq->head++;
    check_limit(srq);
    return true;
}
