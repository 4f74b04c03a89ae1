#include <errno.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/rc_impl.h"

enum { CQ_RING_MIN = 4 };

/* Wakes the user, because the entry for which the CQ was armed has become visible. */
static void notify(struct sim_event *event)
{
    struct sim_cq *cq = weft_container_of(event, struct sim_cq, notify);
    cq->is_armed = false;
    cq->n_unacked += cq->acks_events ? 1 : 0;
    sim_wake(&cq->waker);
}

/* Takes the lowest free number of the least loaded bank (hns_roce_cq.c, alloc_cqn). */
static uint32_t take_number(struct sim_nic *nic)
{
    uint32_t n_banks = nic->profile->cqn_banks;
    uint32_t bank = 0;
    for (uint32_t i = 1; i < n_banks; i++) {
        bank = nic->cqns[i].n < nic->cqns[bank].n ? i : bank;
    }
    uint32_t limit = (nic->profile->max_cq - 1) / n_banks + 1;
    uint32_t first = nic->profile->first_number;
    return sim_number_take(&nic->cqns[bank], first, first + limit) * n_banks + bank;
}

int sim_cq_create(struct sim_nic_user *user, int cqe, const struct sim_waker *waker,
                  struct sim_cq **out)
{
    struct sim_nic *nic = user->nic;
    const struct sim_profile *profile = nic->profile;
    if (cqe <= 0 || (uint32_t)cqe > profile->max_cqe) {
        return EINVAL;
    }
    if (nic->n_cqs >= profile->max_cq) {
        return ENOMEM;
    }
    uint32_t depth = (uint32_t)cqe;
    depth = depth < profile->min_cqe ? profile->min_cqe : depth;
    if (profile->cqe_rounded_to_pow2) {
        depth = sim_round_up_pow2(depth + profile->cqe_reserved) - profile->cqe_reserved;
        depth = depth > profile->max_cqe ? profile->max_cqe : depth;
    }
    struct sim_cq *cq = weft_arena_calloc(&nic->engine->arena, sizeof(*cq));
    cq->nic = nic;
    cq->user = user;
    cq->depth = depth;
    cq->ibv.cqe = (int)depth;
    cq->number = take_number(nic);
    cq->ibv.handle = cq->number;
    cq->waker = *waker;
    sim_event_init(&cq->notify, notify);
    cq->link = &nic->cqs;
    cq->next = nic->cqs;
    if (nic->cqs != NULL) {
        nic->cqs->link = &cq->next;
    }
    nic->cqs = cq;
    nic->n_cqs++;
    *out = cq;
    return 0;
}

void sim_cq_free(struct sim_cq *cq)
{
    sim_cancel(cq->nic->engine, &cq->notify);
    sim_nic_forget_events(cq->user, cq);
    *cq->link = cq->next;
    if (cq->next != NULL) {
        cq->next->link = cq->link;
    }
    cq->nic->n_cqs--;
    uint32_t n_banks = cq->nic->profile->cqn_banks;
    sim_number_give(&cq->nic->cqns[cq->number % n_banks], cq->number / n_banks);
    struct weft_arena *arena = &cq->nic->engine->arena;
    weft_arena_free(arena, cq->ring, cq->cap * sizeof(*cq->ring));
    weft_arena_free(arena, cq, sizeof(*cq));
}

int sim_cq_destroy(struct sim_cq *cq)
{
    if (cq->n_qps > 0) {
        return EBUSY;
    }
    if (cq->n_unacked > 0) {
        return EINPROGRESS;
    }
    sim_cq_free(cq);
    return 0;
}

static void grow(struct sim_cq *cq)
{
    uint32_t cap = cq->cap == 0 ? CQ_RING_MIN : cq->cap * 2;
    struct weft_arena *arena = &cq->nic->engine->arena;
    struct sim_cqe *ring = weft_arena_calloc(arena, cap * sizeof(*ring));
    for (uint32_t i = 0; i < cq->n; i++) {
        ring[i] = cq->ring[(cq->head + i) & (cq->cap - 1)];
    }
    weft_arena_free(arena, cq->ring, cq->cap * sizeof(*ring));
    cq->ring = ring;
    cq->cap = cap;
    cq->head = 0;
}

/* Loses the entry, and reports that: CQ_ERR, and every QP of the CQ enters ERR (IBA
 * 11.6.3). */
static void overrun(struct sim_cq *cq)
{
    struct sim_nic *nic = cq->nic;
    if (cq->is_overrun) {
        return;
    }
    cq->is_overrun = true;
    weft_trace_event(sim_trace(nic->engine), sim_now_ns(nic->engine), nic->host,
                     nic->name, "cq_overrun", "cqe=%d", cq->ibv.cqe);
    sim_nic_raise_cq(cq, IBV_EVENT_CQ_ERR);
    for (uint32_t i = 0; i < nic->n_qp_slots; i++) {
        struct sim_qp *qp = nic->qps[i];
        if (qp != NULL && (qp->send_cq == cq || qp->recv_cq == cq) &&
            qp->state != IBV_QPS_RESET) {
            nic->cq_overran(qp);
        }
    }
    if (cq->is_armed) {
        sim_schedule(nic->engine, &cq->notify, sim_now(nic->engine));
    }
}

/* Overwrites the fields that are undefined in an error completion, all but wr_id, status,
 * vendor_err and qp_num (ibv_poll_cq(3)), so that users that read them get an invalid
 * opcode and a size that is too large. */
static void spoil(struct ibv_wc *wc)
{
    wc->opcode = (enum ibv_wc_opcode)0x55;
    wc->byte_len = 0x55555555;
    wc->src_qp = 0x555555;
    wc->wc_flags = 0;
}

void sim_cq_purge(struct sim_cq *cq, uint32_t qp_serial)
{
    uint32_t mask = cq->cap - 1;
    uint32_t n = 0;
    for (uint32_t i = 0; i < cq->n; i++) {
        const struct sim_cqe *cqe = &cq->ring[(cq->head + i) & mask];
        if (cqe->qp_serial != qp_serial) {
            cq->ring[(cq->head + n) & mask] = *cqe;
            n++;
        }
    }
    cq->n = n;
}

void sim_cq_push(struct sim_cq *cq, const struct sim_cqe *cqe)
{
    if (cq->is_overrun || cq->n == cq->depth) {
        overrun(cq);
        return;
    }
    if (cq->n == cq->cap) {
        grow(cq);
    }
    struct sim_cqe *slot = sim_cq_slot(cq);
    *slot = *cqe;
    if (cqe->wc.status != IBV_WC_SUCCESS) {
        spoil(&slot->wc);
    }
    sim_cq_put(cq, slot);
}

void sim_cq_push_sent(struct sim_cq *cq, const struct sim_cqe *cqe)
{
    struct sim_nic *nic = cq->nic;
    uint32_t nth = nic->profile->general_err_nth;
    if (nth != 0 && ++nic->n_send_cqes % nth == 0 && cq->n + 1 < cq->depth) {
        struct sim_cqe odd = *cqe;
        odd.wc = (struct ibv_wc){.wr_id = cqe->wc.wr_id,
                                 .status = IBV_WC_GENERAL_ERR,
                                 .vendor_err = 0x23,
                                 .qp_num = cqe->wc.qp_num};
        odd.n_retired = cqe->n_retired - 1; /* the WR's own entry frees its slot */
        odd.is_solicited = true;
        nic->counters.general_errs++;
        sim_cq_push(cq, &odd);
    }
    sim_cq_push(cq, cqe);
}

int sim_nic_req_notify(struct ibv_cq *ibv_cq, bool solicited_only)
{
    struct sim_cq *cq = sim_cq_of(ibv_cq);
    struct sim_engine *engine = cq->nic->engine;
    weft_ps now = sim_now(engine);
    if (sim_is_scheduled(&cq->notify) && cq->notify.at <= now) {
        /* It belongs to an entry that is visible, and must not use up the new arming. */
        sim_cancel(engine, &cq->notify);
        notify(&cq->notify);
    }
    /* Arming for all completions includes solicited ones; arming for solicited ones does
     * not undo that (ibv_req_notify_cq(3)). */
    cq->armed_solicited = solicited_only && (!cq->is_armed || cq->armed_solicited);
    cq->is_armed = true;
    for (uint32_t i = 0; i < cq->n; i++) {
        const struct sim_cqe *cqe = &cq->ring[(cq->head + i) & (cq->cap - 1)];
        bool wakes = !cq->armed_solicited || cqe->is_solicited;
        if (cqe->visible_at > now && wakes) {
            sim_schedule(engine, &cq->notify, cqe->visible_at);
            break;
        }
    }
    return 0;
}

void sim_nic_mute_cq(struct ibv_cq *ibv_cq)
{
    sim_cq_of(ibv_cq)->waker = (struct sim_waker){NULL, NULL};
}
