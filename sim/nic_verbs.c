#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "sim/nic_verbs_impl.h"
#include "sim/rc_impl.h"

static void unlink_request(struct sim_nic *nic, struct sim_request *request)
{
    struct sim_request **link = &nic->requests;
    while (*link != request) {
        weft_check(*link != NULL);
        link = &(*link)->next;
    }
    *link = request->next;
    if (request->verb == SIM_VERB_MODIFY_QP) {
        sim_qp_of(request->arg.modify_qp.qp)->n_verbs--;
    }
}

static void finish(struct sim_request *request, int error)
{
    unlink_request(request->nic, request);
    sim_watch_end(request->nic, request, error, false);
    request->error = error;
    request->is_done = true;
    sim_wake(&request->done);
}

/* Changes the QP. Runs after address resolution, if there was one. */
static int finish_modify(struct sim_request *request)
{
    struct sim_qp *qp = sim_qp_of(request->arg.modify_qp.qp);
    const struct ibv_qp_attr *attr = &request->arg.modify_qp.attr;
    int mask = request->arg.modify_qp.mask;
    sim_watch_states(request);
    int error = sim_qp_check_transition(qp, attr, mask);
    if (error == 0) {
        sim_qp_apply(qp, attr, mask, request->resolve.destination_mac);
    }
    return error;
}

static void resolved(void *context)
{
    struct sim_request *request = context;
    int error = request->resolve.error;
    finish(request, error != 0 ? error : finish_modify(request));
}

/* Checks addresses, resolves the neighbour and changes the QP. Returns EINPROGRESS while
 * resolving. */
static int run_modify(struct sim_request *request)
{
    struct sim_qp *qp = sim_qp_of(request->arg.modify_qp.qp);
    const struct ibv_qp_attr *attr = &request->arg.modify_qp.attr;
    int mask = request->arg.modify_qp.mask;
    int error = sim_qp_check_address(qp, attr, mask);
    if (error != 0) {
        return error;
    }
    if ((mask & IBV_QP_AV) != 0) {
        const struct ibv_ah_attr *ah = &attr->ah_attr;
        struct sim_port *port = qp->nic->ports[ah->port_num - 1].port;
        request->resolve.done = (struct sim_waker){resolved, request};
        error = sim_stack_resolve(qp->nic->stack, port, ah->grh.sgid_index, &ah->grh.dgid,
                                  &request->resolve);
        if (error != 0) {
            return error;
        }
    }
    return finish_modify(request);
}

static int make_object(struct sim_nic *nic, struct sim_request *request)
{
    struct sim_nic_user *user = nic->users[request->user];
    struct sim_pd *pd = NULL;
    struct sim_mr *mr = NULL;
    struct sim_cq *cq = NULL;
    struct sim_qp *qp = NULL;
    struct sim_srq *srq = NULL;
    int error = EINVAL;
    if (request->verb == SIM_VERB_ALLOC_PD) {
        error = sim_pd_alloc(user, &pd);
        request->out.pd = error == 0 ? &pd->ibv : NULL;
    } else if (request->verb == SIM_VERB_REG_MR) {
        error = sim_mr_reg(sim_pd_of(request->arg.reg_mr.pd), &request->arg.reg_mr, &mr);
        request->out.mr = error == 0 ? &mr->ibv : NULL;
    } else if (request->verb == SIM_VERB_CREATE_CQ) {
        error = sim_cq_create(user, request->arg.create_cq.cqe,
                              &request->arg.create_cq.waker, &cq);
        request->out.cq = error == 0 ? &cq->ibv : NULL;
        if (error == 0) {
            cq->acks_events = request->arg.create_cq.acks_events;
        }
    } else if (request->verb == SIM_VERB_CREATE_QP) {
        error = sim_qp_create(sim_pd_of(request->arg.create_qp.pd),
                              &request->arg.create_qp.init, &qp);
        request->out.qp = error == 0 ? &qp->ibv : NULL;
    } else if (request->verb == SIM_VERB_CREATE_SRQ) {
        error = sim_srq_create(sim_pd_of(request->arg.create_srq.pd),
                               &request->arg.create_srq.init, &srq);
        request->out.srq = error == 0 ? &srq->ibv : NULL;
    }
    return error;
}

/* Performs the verb. */
static int run(struct sim_nic *nic, struct sim_request *request)
{
    sim_watch_states(request);
    switch (request->verb) {
    case SIM_VERB_ALLOC_PD:
    case SIM_VERB_REG_MR:
    case SIM_VERB_CREATE_CQ:
    case SIM_VERB_CREATE_QP:
    case SIM_VERB_CREATE_SRQ:
        return make_object(nic, request);
    case SIM_VERB_DEALLOC_PD:
        return sim_pd_dealloc(sim_pd_of(request->arg.pd));
    case SIM_VERB_DEREG_MR:
        return sim_mr_dereg(sim_mr_of(request->arg.mr));
    case SIM_VERB_DESTROY_CQ:
        return sim_cq_destroy(sim_cq_of(request->arg.cq));
    case SIM_VERB_MODIFY_QP:
        return run_modify(request);
    case SIM_VERB_DESTROY_QP:
        return sim_qp_destroy(sim_qp_of(request->arg.qp));
    case SIM_VERB_MODIFY_SRQ:
        return sim_srq_modify(sim_srq_of(request->arg.modify_srq.srq),
                              &request->arg.modify_srq.attr,
                              request->arg.modify_srq.mask);
    case SIM_VERB_DESTROY_SRQ:
        return sim_srq_destroy(sim_srq_of(request->arg.srq));
    case SIM_N_VERBS:
        break;
    }
    return EINVAL;
}

/* Performs a verb that is due. EINPROGRESS of a verb that destroys means that events are
 * unacknowledged. */
static void go_on(struct sim_request *request)
{
    int error = request->error != 0 ? request->error : run(request->nic, request);
    request->awaits_acks = error == EINPROGRESS && sim_verb_is_undoing(request->verb);
    if (error != EINPROGRESS) {
        finish(request, error);
    }
}

static void fire(struct sim_event *event)
{
    go_on(weft_container_of(event, struct sim_request, event));
}

/* Returns the unacknowledged-event count of the object that `request` destroys, and the
 * object; NULL for other verbs. */
static uint32_t *unacked_of(const struct sim_request *request, const void **object)
{
    switch ((int)request->verb) {
    case SIM_VERB_DESTROY_QP:
        *object = request->arg.qp;
        return &sim_qp_of(request->arg.qp)->n_unacked;
    case SIM_VERB_DESTROY_CQ:
        *object = request->arg.cq;
        return &sim_cq_of(request->arg.cq)->n_unacked;
    case SIM_VERB_DESTROY_SRQ:
        *object = request->arg.srq;
        return &sim_srq_of(request->arg.srq)->n_unacked;
    default:
        *object = NULL;
        return NULL;
    }
}

void sim_nic_acknowledged(struct sim_nic *nic, const void *object)
{
    for (struct sim_request *at = nic->requests; at != NULL; at = at->next) {
        const void *waits_for = NULL;
        (void)unacked_of(at, &waits_for);
        if (at->awaits_acks && waits_for == object) {
            go_on(at);
            return;
        }
    }
}

int sim_nic_submit(struct sim_nic *nic, struct sim_request *request)
{
    int stalled = 0;
    weft_ps time = sim_nic_verb_time(nic, request, &stalled);
    int failed = sim_nic_take_fault(nic, (int)request->verb, &time);
    request->error = failed != 0 ? failed : stalled;
    sim_watch_begin(nic, request, time - sim_nic_verb_latency(nic, request));
    request->is_done = false;
    request->awaits_acks = false;
    request->nic = nic;
    memset(&request->resolve, 0, sizeof(request->resolve));
    memset(&request->out, 0, sizeof(request->out));
    request->next = nic->requests;
    nic->requests = request;
    if (request->verb == SIM_VERB_MODIFY_QP) {
        sim_qp_of(request->arg.modify_qp.qp)->n_verbs++;
    }
    sim_event_init(&request->event, fire);
    sim_schedule(nic->engine, &request->event, sim_now(nic->engine) + time);
    return 0;
}

void sim_nic_cancel(struct sim_nic *nic, struct sim_request *request)
{
    if (request->is_done || request->nic != nic) {
        return;
    }
    sim_cancel(nic->engine, &request->event);
    unlink_request(nic, request);
    request->nic = NULL;
    if (request->resolve.done.wake != NULL) {
        sim_stack_resolve_cancel(nic->stack, &request->resolve);
    } else if (sim_verb_is_undoing(request->verb)) {
        const void *object = NULL;
        uint32_t *n_unacked = unacked_of(request, &object);
        if (n_unacked != NULL) {
            *n_unacked = 0; /* no user is left to acknowledge them */
        }
        sim_watch_end(nic, request, run(nic, request), true);
    }
    sim_watch_drop(request);
}
