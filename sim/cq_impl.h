/* Completions, internal to the NIC. */
#ifndef WEFT_SIM_CQ_IMPL_H
#define WEFT_SIM_CQ_IMPL_H

#include "sim/nic_impl.h"

void sim_cq_push(struct sim_cq *cq, const struct sim_cqe *cqe);
/* Removes the unpolled completions of that QP. */
void sim_cq_purge(struct sim_cq *cq, uint32_t qp_serial);
/* Pushes a successful send completion, and before it one with GENERAL_ERR if the profile
 * asks for that. */
void sim_cq_push_sent(struct sim_cq *cq, const struct sim_cqe *cqe);

/* Returns the slot of the next entry, to be filled and passed to sim_cq_put(). NULL if
 * that does not suffice, because the ring must grow or the CQ overruns; sim_cq_push()
 * handles both. */
static inline struct sim_cqe *sim_cq_slot(struct sim_cq *cq)
{
    if (cq->n == 0) {
        /* A CQ that is polled reuses its first entries, which stay in the cache. */
        cq->head = 0;
    }
    return cq->n == cq->cap || cq->n == cq->depth || cq->is_overrun
               ? NULL
               : &cq->ring[(cq->head + cq->n) & (cq->cap - 1)];
}

/* Adds the entry in `slot`, which becomes visible after the profile's overhead. */
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
