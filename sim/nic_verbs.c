/* Control verbs: their duration, reports to a watcher, and what they do. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/nic_model.h"
#include "sim/nic_objects.h"
#include "sim/rc_impl.h"

/* ---- faults ---- */

void sim_nic_fault_verb(struct sim_nic *nic, int verb, uint32_t nth, int error,
                        weft_ps by)
{
    struct sim_verb_fault *fault = weft_alloc(sizeof(*fault));
    *fault = (struct sim_verb_fault){verb, nth, error, by, nic->faults};
    nic->faults = fault;
}

int sim_nic_take_fault(struct sim_nic *nic, int verb, weft_ps *by)
{
    int error = 0;
    struct sim_verb_fault **link = &nic->faults;
    while (*link != NULL) {
        struct sim_verb_fault *fault = *link;
        if (fault->verb != verb || --fault->nth > 0) {
            link = &fault->next;
            continue;
        }
        error = fault->error;
        *by += fault->by;
        *link = fault->next;
        free(fault);
    }
    return error;
}

/* ---- durations, and what prolongs them ---- */

/* Returns the profile's latency of the verb, without stalls and queues. */
static weft_ps verb_latency(const struct sim_nic *nic, const struct sim_request *request)
{
    const struct sim_profile *profile = nic->profile;
    switch (request->verb) {
    case SIM_VERB_ALLOC_PD:
        return profile->alloc_pd_ps;
    case SIM_VERB_DEALLOC_PD:
        return profile->dealloc_pd_ps;
    case SIM_VERB_REG_MR: {
        /* A length beyond any memory will be refused, so it must not take time first. */
        uint64_t pages = request->arg.reg_mr.length / SIM_PAGE_BYTES;
        pages = pages < 1u << 31 ? pages : 0;
        return profile->reg_mr_ps + (weft_ps)pages * profile->reg_mr_page_ps;
    }
    case SIM_VERB_DEREG_MR:
        return profile->dereg_mr_ps;
    case SIM_VERB_CREATE_CQ:
        return profile->create_cq_ps;
    case SIM_VERB_DESTROY_CQ:
        return profile->destroy_cq_ps;
    case SIM_VERB_CREATE_QP:
        return profile->create_qp_ps;
    case SIM_VERB_MODIFY_QP:
        return profile->modify_qp_ps;
    case SIM_VERB_DESTROY_QP:
        return profile->destroy_qp_ps;
    case SIM_VERB_CREATE_SRQ: /* has a context and a buffer, like a CQ */
        return profile->create_cq_ps;
    case SIM_VERB_MODIFY_SRQ:
        return profile->modify_qp_ps;
    case SIM_VERB_DESTROY_SRQ:
        return profile->destroy_cq_ps;
    case SIM_N_VERBS:
        break;
    }
    weft_check(!"known verb");
    return 0;
}

/* Returns true for verbs that free an object. */
static bool is_undoing(enum sim_verb verb)
{
    return verb == SIM_VERB_DEALLOC_PD || verb == SIM_VERB_DEREG_MR ||
           verb == SIM_VERB_DESTROY_CQ || verb == SIM_VERB_DESTROY_QP ||
           verb == SIM_VERB_DESTROY_SRQ;
}

/* Returns true if the verb is a command to the device, and not only a change of host
 * memory. */
static bool is_command(const struct sim_nic *nic, enum sim_verb verb)
{
    bool is_local = verb == SIM_VERB_ALLOC_PD || verb == SIM_VERB_DEALLOC_PD ||
                    verb == SIM_VERB_CREATE_QP;
    return !(nic->profile->create_qp_is_local && is_local);
}

/* Returns the delay by which a command stalls. Sets `*error` to EBUSY if the driver gives
 * up. */
static weft_ps stall(struct sim_nic *nic, enum sim_verb verb, int *error)
{
    const struct sim_profile *profile = nic->profile;
    weft_ps limit = profile->mailbox_limit_ps;
    if (profile->mailbox_stall_nth == 0 || !is_command(nic, verb) ||
        ++nic->n_commands % profile->mailbox_stall_nth != 0) {
        return 0;
    }
    nic->counters.mailbox_stalls++;
    if (limit == 0 || profile->mailbox_stall_ps < limit) {
        return profile->mailbox_stall_ps;
    }
    /* Verbs that destroy continue without the device (hns_roce_hw_v2.c logs it). */
    *error = is_undoing(verb) ? 0 : EBUSY;
    return limit;
}

/* Returns the duration of a verb that starts now. Sets `*error` to the errno of a stalled
 * command that is given up, or to 0. */
static weft_ps verb_time(struct sim_nic *nic, const struct sim_request *request,
                         int *error)
{
    weft_ps now = sim_now(nic->engine);
    weft_ps time = verb_latency(nic, request);
    *error = 0;
    time += stall(nic, request->verb, error);
    if (request->verb == SIM_VERB_DEREG_MR && nic->profile->dereg_is_serialised) {
        if (nic->dereg_free_at > now) {
            nic->counters.deregs_queued++;
            time += nic->dereg_free_at - now;
        }
        nic->dereg_free_at = now + time;
    }
    return time;
}

/* ---- reports to a watcher, when a verb ends ---- */

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

/* Records that a verb begins; `waited` is the part of its time beyond the profile's
 * latency. */
static void watch_begin(struct sim_nic *nic, struct sim_request *request, weft_ps waited)
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

/* Records the states of a QP that the verb is about to change. */
static void watch_states(struct sim_request *request)
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

/* Reports a verb that ends, or that the program forgot, to the watcher. */
static void watch_end(struct sim_nic *nic, struct sim_request *request, int error,
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

/* ---- verbs ---- */

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
    watch_end(request->nic, request, error, false);
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
    watch_states(request);
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
    watch_states(request);
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
    request->awaits_acks = error == EINPROGRESS && is_undoing(request->verb);
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

/* Resumes the verb that destroys `object`, because its last event was acknowledged. */
static void acknowledged(struct sim_nic *nic, const void *object)
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

void sim_nic_ack_cq_events(struct ibv_cq *ibv_cq, uint32_t n)
{
    struct sim_cq *cq = sim_cq_of(ibv_cq);
    weft_check(n <= cq->n_unacked);
    cq->n_unacked -= n;
    if (n > 0 && cq->n_unacked == 0) {
        acknowledged(cq->nic, cq);
    }
}

void sim_nic_ack_async_event(struct sim_nic *nic, const struct ibv_async_event *event)
{
    const void *object = sim_nic_acknowledge(event);
    if (object != NULL) {
        acknowledged(nic, object);
    }
}

int sim_nic_async_event(struct sim_nic *nic, uint32_t number, struct ibv_async_event *out)
{
    int error = sim_nic_get_async_event(nic, number, out);
    if (error == 0) {
        sim_nic_ack_async_event(nic, out);
    }
    return error;
}

int sim_nic_submit(struct sim_nic *nic, struct sim_request *request)
{
    int stalled = 0;
    weft_ps time = verb_time(nic, request, &stalled);
    int failed = sim_nic_take_fault(nic, (int)request->verb, &time);
    request->error = failed != 0 ? failed : stalled;
    watch_begin(nic, request, time - verb_latency(nic, request));
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
    } else if (is_undoing(request->verb)) {
        const void *object = NULL;
        uint32_t *n_unacked = unacked_of(request, &object);
        if (n_unacked != NULL) {
            *n_unacked = 0; /* no user is left to acknowledge them */
        }
        watch_end(nic, request, run(nic, request), true);
    }
    sim_watch_drop(request);
}
