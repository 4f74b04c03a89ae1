/* The processes that have a NIC open, and their async events. */
#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/nic_objects.h"

enum { ASYNC_RING_MIN = 8 };

static void notify_async(struct sim_event *event)
{
    struct sim_nic_user *user = weft_container_of(event, struct sim_nic_user, notify);
    sim_wake(&user->waker);
}

uint32_t sim_nic_open(struct sim_nic *nic, int64_t *memlock_bytes)
{
    struct sim_nic_user *user = weft_calloc(1, sizeof(*user));
    user->nic = nic;
    user->memlock_bytes = memlock_bytes;
    sim_event_init(&user->notify, notify_async);
    nic->users =
        weft_realloc(nic->users, (nic->n_users + 1) * sizeof(struct sim_nic_user *));
    nic->users[nic->n_users] = user;
    return nic->n_users++;
}

void sim_nic_close_all(struct sim_nic *nic)
{
    for (uint32_t i = 0; i < nic->n_users; i++) {
        free(nic->users[i]->async);
        free(nic->users[i]);
    }
    free(nic->users);
    nic->users = NULL;
    nic->n_users = 0;
}

void sim_nic_forget_all_events(struct sim_nic *nic)
{
    for (uint32_t i = 0; i < nic->n_users; i++) {
        nic->users[i]->n = 0;
        sim_cancel(nic->engine, &nic->users[i]->notify);
    }
}

static void push(struct sim_nic_user *user, const struct ibv_async_event *event)
{
    struct sim_engine *engine = user->nic->engine;
    if (user->n == user->cap) {
        uint32_t cap = user->cap == 0 ? ASYNC_RING_MIN : user->cap * 2;
        struct ibv_async_event *ring = weft_alloc(cap * sizeof(*ring));
        for (uint32_t i = 0; i < user->n; i++) {
            ring[i] = user->async[(user->head + i) & (user->cap - 1)];
        }
        free(user->async);
        user->async = ring;
        user->cap = cap;
        user->head = 0;
    }
    user->async[(user->head + user->n) & (user->cap - 1)] = *event;
    user->n++;
    sim_schedule(engine, &user->notify, sim_now(engine));
}

void sim_nic_raise_qp(struct sim_qp *qp, enum ibv_event_type type)
{
    struct ibv_async_event event = {.event_type = type, .element.qp = &qp->ibv};
    sim_qp_trace(qp, "async", "event=%s", sim_event_name(type));
    push(qp->pd->user, &event);
}

void sim_nic_raise_cq(struct sim_cq *cq, enum ibv_event_type type)
{
    struct ibv_async_event event = {.event_type = type, .element.cq = &cq->ibv};
    push(cq->user, &event);
}

void sim_nic_raise_srq(struct sim_srq *srq, enum ibv_event_type type)
{
    struct sim_nic *nic = srq->nic;
    struct ibv_async_event event = {.event_type = type, .element.srq = &srq->ibv};
    weft_trace_event(sim_trace(nic->engine), sim_now_ns(nic->engine), nic->host,
                     nic->name, "async", "event=%s", sim_event_name(type));
    push(srq->pd->user, &event);
}

void sim_nic_raise_port(struct sim_nic *nic, uint8_t port, enum ibv_event_type type)
{
    struct ibv_async_event event = {.event_type = type, .element.port_num = port};
    for (uint32_t i = 0; i < nic->n_users; i++) {
        push(nic->users[i], &event);
    }
}

static const void *object_of(const struct ibv_async_event *event)
{
    switch ((int)event->event_type) {
    case IBV_EVENT_CQ_ERR:
        return event->element.cq;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_GID_CHANGE:
        return NULL;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return event->element.srq;
    default:
        return event->element.qp;
    }
}

/* Returns the count of unacknowledged events of the object that `event` is about, or
 * NULL. */
static uint32_t *unacked_of(const struct ibv_async_event *event)
{
    switch ((int)event->event_type) {
    case IBV_EVENT_CQ_ERR:
        return &sim_cq_of(event->element.cq)->n_unacked;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_GID_CHANGE:
        return NULL;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return &sim_srq_of(event->element.srq)->n_unacked;
    default:
        return &sim_qp_of(event->element.qp)->n_unacked;
    }
}

void sim_nic_forget_events(struct sim_nic_user *user, const void *object)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < user->n; i++) {
        uint32_t mask = user->cap - 1;
        struct ibv_async_event event = user->async[(user->head + i) & mask];
        if (object_of(&event) != object) {
            user->async[(user->head + kept) & mask] = event;
            kept++;
        }
    }
    user->n = kept;
}

int sim_nic_get_async_event(struct sim_nic *nic, uint32_t number,
                            struct ibv_async_event *out)
{
    struct sim_nic_user *user = nic->users[number];
    if (user->n == 0) {
        return EAGAIN;
    }
    *out = user->async[user->head];
    user->head = (user->head + 1) & (user->cap - 1);
    user->n--;
    uint32_t *n_unacked = unacked_of(out);
    if (n_unacked != NULL) {
        (*n_unacked)++;
    }
    return 0;
}

const void *sim_nic_acknowledge(const struct ibv_async_event *event)
{
    uint32_t *n_unacked = unacked_of(event);
    if (n_unacked == NULL) {
        return NULL;
    }
    weft_check(*n_unacked > 0);
    (*n_unacked)--;
    return *n_unacked == 0 ? object_of(event) : NULL;
}

void sim_nic_async_waker(struct sim_nic *nic, uint32_t number, struct sim_waker waker)
{
    nic->users[number]->waker = waker;
}
