/* One end of a connection: requests queued by any thread, and the flow with which the engine's
 * thread moves them. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "plugin/engine_private.h"
#include "plugin/finding.h"

/* Removes `request`, which follows `before` (NULL if it is the first). */
static void take_out(struct engine_queue *queue, struct engine_request *before,
                     const struct engine_request *request)
{
    if (before == NULL) {
        queue->first = request->next;
    } else {
        before->next = request->next;
    }
    if (queue->last == request) {
        queue->last = before;
    }
}

struct engine_comm *engine_comm_create(struct engine *engine, bool is_sender,
                                       uint32_t from, uint32_t to)
{
    struct engine_comm *comm = weft_calloc(1, sizeof(*comm));

    comm->engine = engine;
    comm->is_sender = is_sender;
    comm->from = from;
    comm->to = to;
    comm->traffic_class = engine->config.conn.traffic_class;
    pthread_mutex_init(&comm->lock, NULL);
    for (uint32_t i = ENGINE_REQUESTS; i-- > 0;) {
        comm->requests[i].comm = comm;
        comm->requests[i].next = comm->free;
        comm->free = &comm->requests[i];
    }
    return comm;
}

void engine_comm_destroy(struct engine_comm *comm)
{
    struct engine_memory *memory;

    flow_destroy(comm->flow);
    while ((memory = comm->forgotten) != NULL) {
        comm->forgotten = memory->next;
        free(memory);
    }
    pthread_mutex_destroy(&comm->lock);
    free(comm);
}

/* ---- any thread ---- */

void engine_comm_kick(struct engine_comm *comm)
{
    struct engine *engine = comm->engine;
    struct engine_comm *first;

    if (atomic_exchange(&comm->is_kicked, true)) {
        return;
    }
    first = atomic_load(&engine->kicked);
    do {
        comm->next_kicked = first;
    } while (!atomic_compare_exchange_weak(&engine->kicked, &first, comm));
    if (first == NULL) {
        engine->config.wake(engine->config.context);
    }
}

void engine_comm_error(struct engine_comm *comm, struct weft_error *out)
{
    pthread_mutex_lock(&comm->lock);
    *out = comm->error;
    pthread_mutex_unlock(&comm->lock);
}

bool engine_comm_is_sender(const struct engine_comm *comm)
{
    return comm->is_sender;
}

struct engine_comm *engine_request_comm(const struct engine_request *request)
{
    return request->comm;
}

/* ---- the engine's thread ---- */

static bool uses(const struct engine_queue *queue, const struct xfer_memory *memory)
{
    for (const struct engine_request *request = queue->first; request != NULL;
         request = request->next) {
        for (uint32_t i = 0; i < request->n || i < 1; i++) {
            if (request->memories[i] == memory) {
                return true;
            }
        }
    }
    return false;
}

bool engine_comm_uses(struct engine_comm *comm, const struct xfer_memory *memory)
{
    bool any = uses(&comm->waiting, memory) || uses(&comm->moving, memory);

    pthread_mutex_lock(&comm->lock);
    any = any || uses(&comm->incoming, memory);
    pthread_mutex_unlock(&comm->lock);
    return any;
}

static void set_state(struct engine_comm *comm, enum engine_comm_state state)
{
    atomic_store_explicit(&comm->state, (int)state, memory_order_release);
}

void engine_comm_fail(struct engine_comm *comm, const struct weft_error *why)
{
    struct engine *engine = comm->engine;
    struct weft_error error = *why;
    /* A peer that ends while no request is open is the normal end of a job. */
    bool is_end = why->status == WEFT_ERR_CLOSED && comm->moving.first == NULL &&
                  comm->waiting.first == NULL;
    char text[400];

    if (atomic_load(&comm->state) >= ENGINE_COMM_FAILED) {
        return;
    }
    finding_name(engine->rdma, &error);
    finding_format(&error, text, sizeof(text));
    weft_log(engine->env->log, is_end ? WEFT_LOG_DEBUG : WEFT_LOG_WARN,
             "connection %08x to %08x: %s", comm->from, comm->to, text);
    pthread_mutex_lock(&comm->lock);
    comm->error = error;
    pthread_mutex_unlock(&comm->lock);
    set_state(comm, ENGINE_COMM_FAILED);
    pthread_mutex_lock(&engine->lock);
    engine->counters.n_failed += !is_end;
    pthread_mutex_unlock(&engine->lock);
}

/* Makes the engine's thread look at connectors without a route at `at`. */
static void wait_for_route(struct engine *engine, weft_ns at)
{
    engine->route_at_ns = at < engine->route_at_ns ? at : engine->route_at_ns;
    io_task_wake_by(&engine->mesh.task, at);
}

/* Chooses the route of a connector. Returns WEFT_AGAIN while no route is known and route_ns has
 * not passed. After that tries a direct connection, whose error reports the addresses of both
 * ends. */
static weft_status choose_way(struct engine_comm *comm, struct flow_config *config,
                              uint32_t via[FLOW_LANES_MAX][FLOW_VIA_MAX],
                              struct weft_error *error)
{
    struct engine *engine = comm->engine;
    uint8_t handle[CONN_HANDLE_BYTES];
    weft_ns now = io_now(engine->env), again;
    uint32_t number;
    weft_status status = engine_handle_split(comm->handle, handle, &number, error);

    if (status != WEFT_OK) {
        return status;
    }
    if (comm->route_by_ns == 0) {
        comm->route_by_ns = now + engine->config.route_ns;
    }
    if (engine_route(engine, handle, config, via, &again) == WEFT_AGAIN) {
        if (now < comm->route_by_ns) {
            wait_for_route(engine, again < comm->route_by_ns ? again : comm->route_by_ns);
            return WEFT_AGAIN;
        }
        weft_log(
            engine->env->log, WEFT_LOG_WARN,
            "connection %08x to %08x: no cable in common, and no host that relays is "
            "known to lead there",
            comm->from, comm->to);
    }
    comm->from = engine_route_number(comm->from, config);
    comm->from ^= comm->from == comm->to ? UINT32_C(8) : 0;
    engine_route_note(comm, config);
    comm->has_stand_in = config->lanes[0].n_via == 0 && config->n_lanes > 1;
    if (config->lanes[0].n_via > 0) {
        pthread_mutex_lock(&engine->lock);
        engine->counters.n_relayed++;
        pthread_mutex_unlock(&engine->lock);
        weft_log(engine->env->log, WEFT_LOG_DEBUG,
                 "connection %08x to %08x: %u lanes over relays, %u hops", comm->from,
                 comm->to, config->n_lanes, config->lanes[0].n_via);
    } else {
        weft_log(engine->env->log, WEFT_LOG_DEBUG,
                 "connection %08x to %08x: direct, %s over relays stands in for it",
                 comm->from, comm->to, config->n_lanes > 1 ? "a lane" : "no lane");
    }
    return WEFT_OK;
}

void engine_comm_open(struct engine_comm *comm)
{
    struct engine *engine = comm->engine;
    struct flow_config config = engine->config.flow;
    uint32_t via[FLOW_LANES_MAX][FLOW_VIA_MAX] = {{0}};
    struct weft_error error = {0};
    weft_status status = WEFT_OK;

    config.to = comm->to;
    config.is_sender = comm->is_sender;
    config.conn = engine->config.conn;
    config.conn.traffic_class = comm->traffic_class;
    config.task_kind = ENGINE_TASK_FLOW;
    config.user = comm;
    config.reroute = engine_reroute;
    if (comm->is_sender) {
        status = choose_way(comm, &config, via, &error);
    } else {
        engine_route_of_number(comm->from, &config, via);
    }
    config.from = comm->from;
    if (status == WEFT_OK) {
        status = flow_open(engine->rdma, &config, &engine->task, &comm->flow, &error);
    }
    if (status == WEFT_OK) {
        set_state(comm, ENGINE_COMM_CONNECTING);
    } else if (status < 0) {
        engine_comm_fail(comm, &error);
    }
}

/* Reports a connection whose data go over relays because no cable to the peer works, and its
 * return to the cables. */
static void note_stand_in(struct engine_comm *comm)
{
    bool is_direct = flow_lane_conn(comm->flow, 0) != NULL, is_relayed = false;

    for (uint32_t i = 1; i < flow_n_lanes(comm->flow); i++) {
        is_relayed = is_relayed || flow_lane_conn(comm->flow, i) != NULL;
    }
    if (!is_direct && is_relayed && !comm->stands_in) {
        const struct weft_error *why = flow_left_out(comm->flow);
        char text[400] = "";

        comm->stands_in = true;
        if (why != NULL) {
            struct weft_error error = *why;

            finding_name(comm->engine->rdma, &error);
            finding_format(&error, text, sizeof(text));
        }
        weft_log(
            comm->engine->env->log, WEFT_LOG_WARN,
            "connection %08x to %08x: no cable to the peer works, so its data go over "
            "relays%s%s",
            comm->from, comm->to, why != NULL ? ": " : "", text);
    } else if (is_direct && comm->stands_in) {
        comm->stands_in = false;
        weft_log(comm->engine->env->log, WEFT_LOG_WARN,
                 "connection %08x to %08x: its data go over its cables again", comm->from,
                 comm->to);
    }
}

static weft_status start(struct flow *flow, struct engine_request *request)
{
    if (request->is_flush) {
        return flow_iflush(flow, request->data[0], request->sizes[0],
                           request->memories[0], &request->flow);
    }
    return flow_is_sender(flow)
               ? flow_isend(flow, request->data[0], request->sizes[0], request->tags[0],
                            request->memories[0], &request->flow)
               : flow_irecv(flow, request->n, request->data, request->sizes,
                            request->tags, request->memories, &request->flow);
}

/* Returns true if a request before `request` must be started first: receives are in order, and
 * sends with one tag are in order. Sends with other tags can belong to the same grouped receive. */
static bool is_behind(const struct engine_queue *queue,
                      const struct engine_request *request)
{
    for (const struct engine_request *other = queue->first; other != request;
         other = other->next) {
        if (other->is_flush || request->is_flush) {
            continue; /* flushed data has arrived, so a flush waits for nothing */
        }
        if (!request->comm->is_sender || other->tags[0] == request->tags[0]) {
            return true;
        }
    }
    return false;
}

static void complete(struct engine_request *request)
{
    atomic_store_explicit(&request->state, ENGINE_DONE, memory_order_release);
}

static bool start_waiting(struct engine_comm *comm, weft_status *out_status)
{
    struct engine_request *before = NULL, *request = comm->waiting.first, *next;
    bool any = false;

    for (; request != NULL && *out_status == WEFT_OK; request = next) {
        weft_status status =
            is_behind(&comm->waiting, request) ? WEFT_AGAIN : start(comm->flow, request);

        next = request->next;
        if (status == WEFT_AGAIN) {
            before = request;
            continue;
        }
        if (status < 0) {
            *out_status = status;
            break;
        }
        any = true;
        take_out(&comm->waiting, before, request);
        engine_queue_push(&comm->moving, request);
    }
    return any;
}

static bool finish_moving(struct engine_comm *comm, weft_status *out_status)
{
    struct engine_request *before = NULL, *request = comm->moving.first, *next;
    bool any = false;

    for (; request != NULL; request = next) {
        weft_status status = flow_test(comm->flow, request->flow, request->sizes);

        next = request->next;
        if (status == WEFT_OK) {
            take_out(&comm->moving, before, request);
            complete(request);
            any = true;
            continue;
        }
        before = request;
        if (status < 0) {
            *out_status = status;
        }
    }
    return any;
}

static void take_incoming(struct engine_comm *comm)
{
    struct engine_request *request, *next;

    pthread_mutex_lock(&comm->lock);
    request = comm->incoming.first;
    comm->incoming = (struct engine_queue){0};
    pthread_mutex_unlock(&comm->lock);
    for (; request != NULL; request = next) {
        next = request->next;
        engine_queue_push(&comm->waiting, request);
    }
}

void engine_note_ended(struct engine *engine, const struct engine_comm *comm)
{
    struct engine_ended *ended = &engine->ended[engine->n_ended % ENGINE_ENDED_MAX];

    if (comm->is_sender) {
        return;
    }
    engine->n_ended++;
    ended->from = comm->from;
    ended->to = comm->to;
    ended->until_ns = io_now(engine->env) + engine->config.flow.failover_ns;
    memcpy(ended->final, flow_final_state(comm->flow), sizeof(ended->final));
}

void engine_comm_close(struct engine_comm *comm)
{
    struct engine *engine = comm->engine;

    comm->is_closing = true;
    if (atomic_load(&comm->state) == ENGINE_COMM_CLOSING) {
        return;
    }
    set_state(comm, ENGINE_COMM_CLOSING);
    comm->close_by_ns = io_now(engine->env);
    if (comm->flow != NULL) {
        comm->close_by_ns += engine->config.close_ns;
        flow_close(comm->flow);
        engine_note_ended(engine, comm);
    }
}

/* Closes an end. Returns true once it is closed or its deadline has passed. */
static bool close_progress(struct engine_comm *comm)
{
    weft_ns now = io_now(comm->engine->env);

    engine_comm_close(comm);
    if (comm->flow == NULL || flow_is_closed(comm->flow) || now >= comm->close_by_ns) {
        return true;
    }
    return flow_progress(comm->flow) < 0 || flow_is_closed(comm->flow);
}

/* After the peer has closed: continues closing the connections, and flushes data that arrived. */
static void flush_after_close(struct engine_comm *comm)
{
    struct engine_request *before = NULL, *request = comm->waiting.first, *next;
    struct weft_error error = {0};
    weft_status status = flow_progress(comm->flow), flushed;

    for (; request != NULL; request = next) {
        next = request->next;
        if (!request->is_flush || start(comm->flow, request) != WEFT_OK) {
            before = request;
            continue;
        }
        take_out(&comm->waiting, before, request);
        engine_queue_push(&comm->moving, request);
    }
    flushed = flow_flush_after_close(comm->flow, &error);
    (void)finish_moving(comm, &status);
    if (flushed < 0) {
        engine_comm_fail(comm, &error);
    }
}

/* Ends a comm after the peer closed in order and the flow has ended. Requests that are done at
 * either end stay done. A send in progress fails, because the receiver asked for it and did not
 * wait. A receive, and a send for which no receive was posted, never completes, as with NCCL's
 * net_ib. */
static void end_by_peer(struct engine_comm *comm)
{
    uint32_t n_open = 0;

    if (comm->is_sender && comm->moving.first != NULL) {
        engine_comm_fail(comm, flow_error(comm->flow));
        return;
    }
    atomic_store(&comm->peer_closed, true);
    take_incoming(comm);
    flush_after_close(comm);
    for (const struct engine_request *request = comm->moving.first; request != NULL;
         request = request->next) {
        n_open++;
    }
    for (const struct engine_request *request = comm->waiting.first; request != NULL;
         request = request->next) {
        n_open++;
    }
    weft_log(comm->engine->env->log, n_open == 0 ? WEFT_LOG_DEBUG : WEFT_LOG_WARN,
             "connection %08x to %08x: the peer closed it; %u requests are open here and "
             "will not complete",
             comm->from, comm->to, n_open);
}

bool engine_comm_progress(struct engine_comm *comm)
{
    weft_status status = WEFT_OK;
    bool again = true;

    if (comm->is_closing) {
        return !close_progress(comm);
    }
    take_incoming(comm);
    if (comm->flow == NULL || atomic_load(&comm->state) == ENGINE_COMM_FAILED) {
        return true;
    }
    if (atomic_load(&comm->peer_closed)) {
        flush_after_close(comm);
        return true;
    }
    while (again && status == WEFT_OK) {
        bool started;

        status = flow_progress(comm->flow);
        again = finish_moving(comm, &status);
        started = status == WEFT_OK && start_waiting(comm, &status);
        again = again || started;
    }
    if (atomic_load(&comm->state) == ENGINE_COMM_CONNECTING && flow_is_up(comm->flow) &&
        (status == WEFT_OK || flow_peer_has_closed(comm->flow))) {
        set_state(comm, ENGINE_COMM_UP);
        engine_note_peer(comm);
    }
    if (comm->has_stand_in && status == WEFT_OK) {
        note_stand_in(comm);
    }
    if (status < 0 && flow_peer_has_closed(comm->flow)) {
        end_by_peer(comm);
    } else if (status < 0) {
        engine_comm_fail(comm, flow_error(comm->flow));
    }
    return true;
}
