#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/landing.h"
#include "sim/rc_impl.h"
#include "sim/rc_ready.h"
#include "sim/train.h"

/* Reduces or rounds the capabilities to what the device grants. Returns 0 or an errno. */
static int grant_caps(struct sim_nic *nic, struct ibv_qp_cap *cap)
{
    const struct sim_profile *profile = nic->profile;
    if (cap->max_send_sge > SIM_SGES_MAX || cap->max_recv_sge > SIM_SGES_MAX) {
        return EINVAL; /* limit of the simulator, whatever the profile allows */
    }
    if (cap->max_send_wr > profile->max_qp_wr || cap->max_recv_wr > profile->max_qp_wr ||
        cap->max_send_sge > profile->max_sge || cap->max_recv_sge > profile->max_sge) {
        return EINVAL;
    }
    if (cap->max_send_wr == 0 && profile->empty_sq_refused) {
        nic->counters.empty_sqs_refused++;
        return EINVAL;
    }
    if (cap->max_inline_data > profile->max_inline_bytes) {
        if (!profile->inline_lowered) {
            return EINVAL;
        }
        nic->counters.inlines_lowered++;
        cap->max_inline_data = profile->max_inline_bytes;
    }
    if (profile->recv_sge_rounded && cap->max_recv_wr > 0) {
        uint32_t reserved = profile->recv_sge_reserved;
        uint32_t asked = cap->max_recv_sge > 0 ? cap->max_recv_sge : 1;
        cap->max_recv_sge = sim_round_up_pow2(asked + reserved) - reserved;
    }
    uint32_t *depths[2] = {&cap->max_send_wr, &cap->max_recv_wr};
    for (unsigned i = 0; i < 2; i++) {
        if (*depths[i] == 0) {
            continue;
        }
        if (*depths[i] < profile->min_wr) {
            *depths[i] = profile->min_wr;
        }
        if (profile->wr_rounded_to_pow2) {
            *depths[i] = sim_round_up_pow2(*depths[i]);
        }
    }
    return 0;
}

static int check_create(const struct sim_nic *nic, const struct ibv_qp_init_attr *init)
{
    if (init->qp_type != IBV_QPT_RC) {
        return EOPNOTSUPP;
    }
    if (init->send_cq == NULL || init->recv_cq == NULL) {
        return EINVAL;
    }
    return nic->n_qps >= nic->profile->max_qp ? ENOMEM : 0;
}

static void make_queues(struct sim_qp *qp, const struct ibv_qp_cap *cap)
{
    struct rc_requester *sq = &qp->sq;
    struct rc_responder *rq = &qp->rq;
    sq->depth = cap->max_send_wr;
    sq->mask = sim_round_up_pow2(sq->depth) - 1;
    sq->max_sge = cap->max_send_sge;
    sq->max_inline = cap->max_inline_data;
    struct weft_arena *arena = &qp->nic->engine->arena;
    size_t n = sq->mask + 1u;
    sq->wqes = weft_arena_calloc(arena, n * sizeof(*sq->wqes));
    sq->sges = weft_arena_calloc(arena, n * sq->max_sge * sizeof(*sq->sges));
    /* No zeroes needed, because a post writes the slot before a packet reads it. */
    sq->operands = weft_alloc(n * sizeof(*sq->operands));
    sq->inline_bytes = weft_alloc(n * sq->max_inline + 1);
    rq->depth = cap->max_recv_wr; /* 0 with an SRQ: room for the one taken from it */
    rq->mask = sim_round_up_pow2(rq->depth) - 1;
    rq->max_sge = qp->srq != NULL ? qp->srq->max_sge : cap->max_recv_sge;
    n = rq->mask + 1u;
    rq->wqes = weft_arena_calloc(arena, n * sizeof(*rq->wqes));
    rq->sges = weft_arena_calloc(arena, n * rq->max_sge * sizeof(*rq->sges));
}

static void free_queues(struct sim_qp *qp)
{
    struct rc_requester *sq = &qp->sq;
    struct rc_responder *rq = &qp->rq;
    struct weft_arena *arena = &qp->nic->engine->arena;
    size_t n = sq->mask + 1u;
    weft_arena_free(arena, sq->wqes, n * sizeof(*sq->wqes));
    weft_arena_free(arena, sq->sges, n * sq->max_sge * sizeof(*sq->sges));
    free(sq->operands);
    free(sq->inline_bytes);
    n = rq->mask + 1u;
    weft_arena_free(arena, rq->wqes, n * sizeof(*rq->wqes));
    weft_arena_free(arena, rq->sges, n * rq->max_sge * sizeof(*rq->sges));
}

static void fill_ibv(struct sim_qp *qp, struct ibv_pd *pd,
                     const struct ibv_qp_init_attr *init, uint32_t slot)
{
    qp->ibv.qp_context = init->qp_context;
    qp->ibv.pd = pd;
    qp->ibv.send_cq = init->send_cq;
    qp->ibv.recv_cq = init->recv_cq;
    qp->ibv.srq = init->srq;
    qp->ibv.handle = slot;
    qp->ibv.qp_num = qp->nic->qpn_base + slot;
    qp->model.source_qpn = qp->ibv.qp_num;
    qp->ibv.state = IBV_QPS_RESET;
    qp->ibv.qp_type = IBV_QPT_RC;
}

int sim_qp_create(struct sim_pd *pd, struct ibv_qp_init_attr *init, struct sim_qp **out)
{
    struct sim_nic *nic = pd->nic;
    struct ibv_qp_cap cap = init->cap;
    int error = check_create(nic, init);
    if (init->srq != NULL) {
        /* ignored with an SRQ (ibv_create_qp(3)) */
        cap.max_recv_wr = cap.max_recv_sge = 0;
    }
    error = error != 0 ? error : grant_caps(nic, &cap);
    if (error != 0) {
        return error;
    }
    uint32_t slot = sim_qp_take_slot(nic, sim_cq_of(init->send_cq));
    if (slot == SIM_NO_NUMBER) {
        return ENOMEM; /* the bank is full */
    }
    struct sim_qp *qp = weft_arena_calloc(&nic->engine->arena, sizeof(*qp));
    qp->nic = nic;
    qp->pd = pd;
    qp->send_cq = sim_cq_of(init->send_cq);
    qp->recv_cq = sim_cq_of(init->recv_cq);
    qp->srq = init->srq != NULL ? sim_srq_of(init->srq) : NULL;
    qp->sq_sig_all = init->sq_sig_all != 0;
    qp->state = IBV_QPS_RESET;
    fill_ibv(qp, &pd->ibv, init, slot);
    weft_format(qp->name, sizeof(qp->name), "%s/qp%u", nic->name, qp->ibv.qp_num);
    make_queues(qp, &cap);
    init->cap = cap;
    qp->ece_accepted = nic->profile->ece_options;
    rc_init(qp);
    nic->qps[slot] = qp;
    nic->n_qps++;
    pd->n_children++;
    if (qp->srq != NULL) {
        qp->srq->n_qps++;
    }
    qp->send_cq->n_qps++;
    qp->recv_cq->n_qps++;
    sim_qp_trace(qp, "create", "send_wr=%u recv_wr=%u", cap.max_send_wr, cap.max_recv_wr);
    *out = qp;
    return 0;
}

static void leave_ready_list(struct sim_qp *qp)
{
    if (!qp->is_ready) {
        return;
    }
    struct sim_qp **link = &qp->port->ready;
    while (*link != qp) {
        link = &(*link)->next_ready;
    }
    *link = qp->next_ready;
    if (qp->next_ready == NULL) {
        qp->port->ready_tail = link;
    }
    qp->is_ready = false;
}

void sim_qp_leave_port(struct sim_qp *qp)
{
    leave_ready_list(qp);
    rc_own_frames(qp);
    qp->verified = NULL;
}

void sim_qp_free(struct sim_qp *qp)
{
    struct sim_nic *nic = qp->nic;
    if (qp->port != NULL) {
        sim_train_settle(qp->port->port);
    }
    leave_ready_list(qp);
    sim_qp_release_gid(qp);
    sim_land_without(qp);
    rc_fini(qp);
    sim_nic_forget_events(qp->pd->user, qp);
    sim_qp_give_slot(nic, qp->ibv.handle);
    nic->n_qps--;
    qp->pd->n_children--;
    if (qp->srq != NULL) {
        qp->srq->n_qps--;
    }
    qp->send_cq->n_qps--;
    qp->recv_cq->n_qps--;
    free_queues(qp);
    weft_arena_free(&nic->engine->arena, qp, sizeof(*qp));
}

int sim_qp_destroy(struct sim_qp *qp)
{
    if (qp->n_verbs > 0) {
        return EBUSY; /* a modify by another caller is in progress */
    }
    if (qp->n_unacked > 0) {
        /* The device destroys it at once; the library waits for its user. */
        rc_reset(qp);
        rc_set_state(qp, IBV_QPS_RESET);
        return EINPROGRESS;
    }
    sim_qp_trace(qp, "destroy", "state=%s", sim_qp_state_name(qp->state));
    sim_qp_free(qp);
    return 0;
}

int sim_nic_query_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *out)
{
    const struct sim_qp *qp = sim_qp_of(ibv_qp);
    if (qp->port != NULL) {
        sim_train_settle(qp->port->port);
    }
    *out = qp->attr;
    out->qp_state = qp->state;
    out->cur_qp_state = qp->state;
    out->qp_access_flags = qp->access;
    out->sq_psn = qp->sq.next_psn;
    out->rq_psn = qp->rq.epsn;
    out->cap.max_send_wr = qp->sq.depth;
    out->cap.max_recv_wr = qp->rq.depth;
    out->cap.max_send_sge = qp->sq.max_sge;
    out->cap.max_recv_sge = qp->srq != NULL ? 0 : qp->rq.max_sge;
    out->cap.max_inline_data = qp->sq.max_inline;
    return 0;
}

static struct sim_nic_port *nic_port(struct sim_nic *nic, const struct sim_port *port)
{
    return nic->ports[0].port == port ? &nic->ports[0] : &nic->ports[1];
}

bool sim_nic_has_frames(struct sim_nic *nic, const struct sim_port *port)
{
    return nic_port(nic, port)->ready != NULL;
}

/* Builds one frame of the QP, if it has one; replies and requests take turns. Returns
 * false if it has none. */
static bool build(struct sim_qp *qp, struct sim_frame *out)
{
    bool reply = rc_reply_is_ready(qp);
    if (!reply && !rc_request_is_ready(qp)) {
        return false;
    }
    if (reply && (qp->reply_turn || !rc_request_is_ready(qp))) {
        qp->reply_turn = false;
        return rc_build_reply(qp, out);
    }
    qp->reply_turn = true;
    return rc_build_request(qp, out);
}

struct sim_frame *sim_nic_pull(struct sim_nic *nic, struct sim_port *port, bool *has_more)
{
    struct sim_nic_port *own = nic_port(nic, port);
    while (own->ready != NULL) {
        struct sim_qp *qp = own->ready;
        struct sim_frame *out = sim_link_slot(&port->out);
        own->ready = qp->next_ready;
        if (own->ready == NULL) {
            own->ready_tail = &own->ready;
        }
        qp->is_ready = false;
        bool is_built = build(qp, out);
        if (!qp->is_ready && rc_has_frames(qp)) {
            rc_append_ready(own, qp);
        }
        if (is_built) {
            nic->tx_packets++;
            *has_more = own->ready != NULL;
            return out;
        }
    }
    *has_more = false;
    return NULL;
}
