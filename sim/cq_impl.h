/* Inside the NIC: completions. */
#ifndef WEFT_SIM_CQ_IMPL_H
#define WEFT_SIM_CQ_IMPL_H

#include "sim/nic_impl.h"

void sim_cq_push(struct sim_cq *cq, const struct sim_cqe *cqe);
/* Completions of that QP that nobody polled go. */
void sim_cq_purge(struct sim_cq *cq, uint32_t qp_serial);
/* A successful send completion; profiles may put one with GENERAL_ERR before it. */
void sim_cq_push_sent(struct sim_cq *cq, const struct sim_cqe *cqe);

/* Where the next entry goes, to be written there and given to sim_cq_put; NULL where it takes
 * more than that: sim_cq_push. */
static inline struct sim_cqe *sim_cq_slot(struct sim_cq *cq)
{
    if (cq->n == 0) {
        cq->head = 0; /* a CQ that is polled keeps to its first entries, and them warm */
    }
    return cq->n == cq->cap || cq->n == cq->depth || cq->is_overrun
               ? NULL
               : &cq->ring[(cq->head + cq->n) & (cq->cap - 1)];
}

/* The entry in its slot becomes visible in its time. */
static inline void sim_cq_put(struct sim_cq *cq, struct sim_cqe *slot)
{
    struct sim_engine *engine = cq->nic->engine;
    bool wakes = cq->is_armed && (!cq->armed_solicited || slot->is_solicited);
    slot->visible_at = sim_now(engine) + cq->nic->profile->cqe_overhead_ps;
    cq->n++;
    if (wakes && !sim_is_scheduled(&cq->notify)) {
        sim_schedule(engine, &cq->notify, slot->visible_at);
    }
}

#endif
