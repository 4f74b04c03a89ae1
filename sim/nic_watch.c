/* Reports every control verb to a watcher when it ends, in plain numbers. */
#include <stdlib.h>

#include "base/text.h"
#include "sim/nic_verbs_impl.h"
#include "sim/rc_impl.h"

void sim_nic_watch(struct sim_nic *nic,
                   void (*tell)(void *context, const struct nic_verb *verb),
                   void *context)
{
    nic->watch = tell;
    nic->watch_context = context;
}

static void fill_arguments(const struct sim_request *request, struct nic_verb *verb)
{
    switch (request->verb) {
    case SIM_VERB_DEALLOC_PD:
        verb->number = request->arg.pd->handle;
        break;
    case SIM_VERB_REG_MR:
        verb->pdn = request->arg.reg_mr.pd->handle;
        verb->is_dmabuf = request->arg.reg_mr.is_dmabuf;
        verb->addr = verb->is_dmabuf ? request->arg.reg_mr.dmabuf_offset
                                     : (uintptr_t)request->arg.reg_mr.addr;
        verb->length = request->arg.reg_mr.length;
        verb->access = request->arg.reg_mr.access;
        break;
    case SIM_VERB_DEREG_MR:
        verb->number = request->arg.mr->lkey;
        break;
    case SIM_VERB_CREATE_CQ:
        verb->asked_cqe = (uint32_t)request->arg.create_cq.cqe;
        break;
    case SIM_VERB_DESTROY_CQ:
        verb->number = sim_cq_of(request->arg.cq)->number;
        break;
    case SIM_VERB_CREATE_QP:
        verb->pdn = request->arg.create_qp.pd->handle;
        verb->asked = request->arg.create_qp.init.cap;
        break;
    case SIM_VERB_MODIFY_QP:
        verb->number = request->arg.modify_qp.qp->qp_num;
        verb->attr = request->arg.modify_qp.attr;
        verb->mask = request->arg.modify_qp.mask;
        break;
    case SIM_VERB_DESTROY_QP:
        verb->number = request->arg.qp->qp_num;
        break;
    case SIM_VERB_CREATE_SRQ:
        verb->pdn = request->arg.create_srq.pd->handle;
        verb->asked.max_recv_wr = request->arg.create_srq.init.attr.max_wr;
        break;
    case SIM_VERB_MODIFY_SRQ:
        verb->number = request->arg.modify_srq.srq->handle;
        break;
    case SIM_VERB_DESTROY_SRQ:
        verb->number = request->arg.srq->handle;
        break;
    case SIM_VERB_ALLOC_PD:
    case SIM_N_VERBS:
        break;
    }
}

void sim_watch_begin(struct sim_nic *nic, struct sim_request *request, weft_ps waited)
{
    request->told = NULL;
    if (nic->watch == NULL) {
        return;
    }
    struct nic_verb *verb = weft_calloc(1, sizeof(*verb));
    verb->verb = request->verb;
    verb->user = request->user;
    verb->began = sim_now(nic->engine);
    verb->waited = waited;
    fill_arguments(request, verb);
    request->told = verb;
}

void sim_watch_states(struct sim_request *request)
{
    struct nic_verb *verb = request->told;
    if (verb == NULL) {
        return;
    }
    if (request->verb == SIM_VERB_MODIFY_QP) {
        const struct sim_qp *qp = sim_qp_of(request->arg.modify_qp.qp);
        verb->from = qp->state;
        verb->to = sim_qp_target(qp, &verb->attr, verb->mask);
    } else if (request->verb == SIM_VERB_DESTROY_QP) {
        verb->from = sim_qp_of(request->arg.qp)->state;
    }
}

static void fill_results(const struct sim_request *request, struct nic_verb *verb)
{
    if (request->verb == SIM_VERB_ALLOC_PD) {
        verb->number = request->out.pd->handle;
    } else if (request->verb == SIM_VERB_REG_MR) {
        verb->number = request->out.mr->lkey;
    } else if (request->verb == SIM_VERB_CREATE_CQ) {
        verb->number = sim_cq_of(request->out.cq)->number;
        verb->cqe = (uint32_t)request->out.cq->cqe;
    } else if (request->verb == SIM_VERB_CREATE_QP) {
        const struct ibv_qp *qp = request->out.qp;
        verb->number = qp->qp_num;
        verb->granted = request->arg.create_qp.init.cap;
        verb->send_cqn = sim_cq_of(qp->send_cq)->number;
        verb->recv_cqn = sim_cq_of(qp->recv_cq)->number;
    } else if (request->verb == SIM_VERB_CREATE_SRQ) {
        verb->number = request->out.srq->handle;
        verb->granted.max_recv_wr = request->arg.create_srq.init.attr.max_wr;
        verb->granted.max_recv_sge = request->arg.create_srq.init.attr.max_sge;
    }
}

void sim_watch_end(struct sim_nic *nic, struct sim_request *request, int error,
                   bool is_forgotten)
{
    struct nic_verb *verb = request->told;
    if (verb == NULL) {
        return;
    }
    verb->ended = sim_now(nic->engine);
    verb->error = error;
    verb->is_forgotten = is_forgotten;
    if (error == 0) {
        fill_results(request, verb);
    }
    request->told = NULL;
    if (nic->watch != NULL) {
        nic->watch(nic->watch_context, verb);
    }
    free(verb);
}

void sim_watch_drop(struct sim_request *request)
{
    free(request->told);
    request->told = NULL;
}
