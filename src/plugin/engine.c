#include "plugin/engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "plugin/engine_private.h"
#include "plugin/finding.h"
#include "rdma/timers.h"
#include "xfer/wire.h"

#define SECOND INT64_C(1000000000)

void engine_config_default(struct engine_config *config)
{
    *config = (struct engine_config){
        .flow = {.relay_buffers = 8,
                 .may_fail_over = true,
                 .hysteresis_ns = SECOND / 50,
                 .failover_ns = 30 * SECOND},
        .close_ns = 5 * SECOND,
        .relays = true,
        .route_ns = 30 * SECOND,
        .announce_port = ENGINE_ANNOUNCE_PORT,
    };
    conn_config_default(&config->conn);
    config->conn.word = finding_word;
    /* A handle comes from a process that listens, so a peer that does not listen now is gone. */
    config->conn.patience_ns = 60 * SECOND;
    /* Jobs start on busy CPUs, so replies can be late. */
    config->conn.probe_ns = SECOND;
    config->conn.probe_tries = 5;
}

void engine_config_stretch(struct engine_config *config, uint32_t patience)
{
    config->flow.failover_ns = timer_limit(config->flow.failover_ns, patience);
    config->close_ns = timer_limit(config->close_ns, patience);
    config->route_ns = timer_limit(config->route_ns, patience);
    conn_config_stretch(&config->conn, patience);
}

void engine_config_outlast_retries(struct engine_config *config)
{
    weft_ns detect =
        TIMER_BEAT_NS + TIMER_QP_NS(config->conn.timeout, config->conn.retry_cnt);
    weft_ns needed = detect + timer_limit(TIMER_RECOVERY_OF(0, TIMER_SET_UP_STALL_NS, 0),
                                          config->conn.patience);

    if (config->flow.failover_ns < needed) {
        config->flow.failover_ns = needed;
    }
}

/* ---- start ---- */

static weft_status open_relay(struct engine *engine)
{
    const struct relay_config config = {.conn = engine->config.conn,
                                        .memory_max = engine->config.relay_bytes,
                                        .task_kind = ENGINE_TASK_ONWARDS,
                                        .handle_of = engine_mesh_handle_of,
                                        .names_all = true,
                                        .context = engine};

    return engine->config.relays ? relay_open(engine->rdma, &config, &engine->relay_task,
                                              &engine->relay, &engine->error)
                                 : WEFT_OK;
}

static void get_ready(struct engine *engine)
{
    weft_status status = rdma_progress(engine->rdma, &engine->error);

    if (status == WEFT_OK) {
        status = engine_ports_exclude(engine);
    }
    if (status == WEFT_OK) {
        status = conn_listen(engine->rdma, &engine->config.conn, ENGINE_TASK_LISTENER,
                             ENGINE_TASK_ACCEPTED, engine->handle, &engine->listener,
                             &engine->error);
    }
    if (status == WEFT_OK) {
        status = open_relay(engine);
    }
    if (status == WEFT_OK) {
        engine_mesh_open(engine, engine->handle);
        status = engine_handle_trim(engine->handle, &engine->error);
    }
    if (status == WEFT_OK) {
        engine_ports_describe(engine);
    }
    if (status != WEFT_AGAIN) {
        atomic_store(&engine->progress, status == WEFT_OK ? ENGINE_READY : ENGINE_BROKEN);
        engine->config.done(engine->config.context);
    }
}

weft_status engine_create(const struct engine_config *config, struct engine **out,
                          struct weft_error *error)
{
    struct engine *engine = weft_calloc(1, sizeof(*engine));
    weft_status status;

    engine->config = *config;
    engine->idle_look_ns = engine->route_at_ns = WEFT_NEVER;
    engine->env = config->world->ops->host_env(config->world, config->host, 0);
    pthread_mutex_init(&engine->lock, NULL);
    io_task_init(&engine->task, engine->env->loop, engine->env->host, ENGINE_TASK_MAIN);
    io_task_init(&engine->async_task, engine->env->loop, engine->env->host,
                 ENGINE_TASK_ASYNC);
    io_task_init(&engine->relay_task, engine->env->loop, engine->env->host,
                 ENGINE_TASK_RELAY);
    engine_mesh_init(engine);
    for (uint32_t i = 0; i < engine->env->n_devices; i++) {
        engine->env->devices[i]->async_task = &engine->async_task;
    }
    status = rdma_open(engine->env, &engine->task, &engine->rdma, error);
    if (status < 0) {
        engine_destroy(engine);
        return status;
    }
    io_task_wake(&engine->task);
    *out = engine;
    return WEFT_OK;
}

void engine_destroy(struct engine *engine)
{
    struct engine_comm *comm;
    struct engine_listen *listen;

    if (engine == NULL) {
        return;
    }
    while ((comm = engine->opening) != NULL) {
        engine->opening = comm->next;
        engine_comm_destroy(comm);
    }
    while ((comm = engine->comms) != NULL) {
        engine->comms = comm->next;
        engine_comm_destroy(comm);
    }
    while ((listen = engine->listens) != NULL) {
        engine->listens = listen->next;
        free(listen);
    }
    for (uint32_t k = 0; k < ENGINE_ANSWERED_MAX; k++) {
        conn_destroy(engine->answered[k]);
    }
    relay_destroy(engine->relay);
    conn_listener_close(engine->listener);
    engine_mesh_fini(engine);
    rdma_close(engine->rdma);
    for (uint32_t i = 0; i < engine->env->n_devices; i++) {
        engine->env->devices[i]->async_task = NULL;
    }
    io_task_fini(&engine->task);
    io_task_fini(&engine->async_task);
    io_task_fini(&engine->relay_task);
    pthread_mutex_destroy(&engine->lock);
    free(engine->ports);
    free(engine);
}

struct io_task *engine_task(struct engine *engine)
{
    return &engine->task;
}

const _Atomic int *engine_progress(const struct engine *engine)
{
    return &engine->progress;
}

const struct weft_error *engine_error(const struct engine *engine)
{
    return &engine->error;
}

void engine_counters(struct engine *engine, struct engine_counters *out)
{
    pthread_mutex_lock(&engine->lock);
    *out = engine->counters;
    pthread_mutex_unlock(&engine->lock);
    out->n_passing = atomic_load_explicit(&engine->n_passing, memory_order_relaxed);
    out->bytes_passed = atomic_load_explicit(&engine->bytes_passed, memory_order_relaxed);
}

/* ---- the engine's thread ---- */

static void take_opening(struct engine *engine)
{
    struct engine_comm *comm, *next;

    pthread_mutex_lock(&engine->lock);
    comm = engine->opening;
    engine->opening = NULL;
    for (next = comm; next != NULL; next = next->next) {
        engine->counters.n_comms++;
    }
    pthread_mutex_unlock(&engine->lock);
    for (; comm != NULL; comm = next) {
        next = comm->next;
        comm->next = engine->comms;
        engine->comms = comm;
        engine_comm_open(comm);
    }
}

static void remove_comm(struct engine *engine, struct engine_comm *comm)
{
    struct engine_comm **at = &engine->comms;

    while (*at != comm) {
        at = &(*at)->next;
    }
    *at = comm->next;
    pthread_mutex_lock(&engine->lock);
    engine->counters.n_comms--;
    pthread_mutex_unlock(&engine->lock);
    engine_comm_destroy(comm);
}

/* Advances a comm and removes it when it is done. Skips a kicked comm, which is progressed soon
 * anyway, and must stay until it has left the list. */
static void progress_comm(struct engine *engine, struct engine_comm *comm)
{
    if (atomic_load(&comm->is_kicked)) {
        return;
    }
    if (!engine_comm_progress(comm)) {
        remove_comm(engine, comm);
    }
}

static void take_kicked(struct engine *engine)
{
    struct engine_comm *comm = atomic_exchange(&engine->kicked, NULL), *next;

    for (; comm != NULL; comm = next) {
        next = comm->next_kicked;
        atomic_store(&comm->is_kicked, false);
        progress_comm(engine, comm);
    }
}

/* Takes closed comms, which no other thread uses any more. */
static void take_closing(struct engine *engine)
{
    struct engine_comm *comm, *next;

    pthread_mutex_lock(&engine->lock);
    comm = engine->closing;
    engine->closing = NULL;
    pthread_mutex_unlock(&engine->lock);
    for (; comm != NULL; comm = next) {
        next = comm->next_closing;
        comm->is_closing = true;
        progress_comm(engine, comm);
    }
}

/* Progresses closing ends that have reached their deadline, and sets the deadline of the next, or
 * `first` if that is earlier. */
static void look_at_late(struct engine *engine, weft_ns first)
{
    struct engine_comm *comm = engine->comms, *next;
    weft_ns now = io_now(engine->env), limit;

    for (; comm != NULL; comm = next) {
        next = comm->next;
        limit = atomic_load(&comm->state) == ENGINE_COMM_CLOSING ? comm->close_by_ns
                                                                 : WEFT_NEVER;
        if (limit <= now) {
            progress_comm(engine, comm);
        } else if (limit < first) {
            first = limit;
        }
    }
    io_task_deadline(&engine->task, first);
}

/* Opens connectors that wait for a route, if the mesh has changed or route_at_ns has passed. */
static void open_routed(struct engine *engine)
{
    if (engine->mesh.n_changes == engine->routed_changes &&
        io_now(engine->env) < engine->route_at_ns) {
        io_task_wake_by(&engine->mesh.task, engine->route_at_ns);
        return;
    }
    engine->routed_changes = engine->mesh.n_changes;
    engine->route_at_ns = WEFT_NEVER;
    for (struct engine_comm *comm = engine->comms; comm != NULL; comm = comm->next) {
        if (comm->flow == NULL && comm->is_sender &&
            atomic_load(&comm->state) == ENGINE_COMM_NEW) {
            engine_comm_open(comm);
        }
    }
}

/* ---- closed ends ---- */

/* Answers a sender that connects again to a closed end, by sending the final state. Returns
 * false if there was no such end, or too many are being answered. */
static bool answer_ended(struct engine *engine, const struct flow_purpose *purpose,
                         struct conn *conn)
{
    weft_ns now = io_now(engine->env);

    for (uint32_t i = 0; i < ENGINE_ENDED_MAX; i++) {
        const struct engine_ended *ended = &engine->ended[i];

        if (ended->from != purpose->from || ended->to != purpose->to ||
            ended->until_ns <= now) {
            continue;
        }
        for (uint32_t k = 0; k < ENGINE_ANSWERED_MAX; k++) {
            if (engine->answered[k] == NULL) {
                engine->answered[k] = conn;
                conn_close_with(conn, ended->final);
                return true;
            }
        }
    }
    return false;
}

/* Progresses `conn` if it was answered by answer_ended(). Returns false if it was not. */
static bool progress_answered(struct engine *engine, struct conn *conn)
{
    for (uint32_t k = 0; k < ENGINE_ANSWERED_MAX; k++) {
        if (engine->answered[k] == conn) {
            if (conn_progress(conn) != WEFT_AGAIN) {
                conn_destroy(conn);
                engine->answered[k] = NULL;
            }
            return true;
        }
    }
    return false;
}

/* Returns the comm to which a connection belongs by its purpose, creating it if a listener waits
 * for it. NULL if there is none. */
static struct engine_comm *receiver_for(struct engine *engine,
                                        const struct flow_purpose *purpose)
{
    struct engine_comm *comm = engine->comms;
    struct engine_listen *listen;

    while (comm != NULL &&
           (comm->is_sender || comm->to != purpose->to || comm->from != purpose->from)) {
        comm = comm->next;
    }
    if (comm != NULL) {
        return comm;
    }
    pthread_mutex_lock(&engine->lock);
    for (listen = engine->listens; listen != NULL && listen->id != purpose->to;) {
        listen = listen->next;
    }
    if (listen != NULL && listen->comm == NULL) {
        comm = engine_comm_create(engine, false, purpose->from, purpose->to);
        comm->next = engine->comms;
        engine->comms = comm;
        engine->counters.n_comms++;
        listen->comm = comm;
    }
    pthread_mutex_unlock(&engine->lock);
    if (comm != NULL) {
        engine_comm_open(comm);
    }
    return comm;
}

static void progress_relay(struct engine *engine, const struct conn *conn)
{
    struct relay_counters passed;

    if (conn != NULL) {
        relay_conn_progress(engine->relay, conn);
    } else {
        relay_progress(engine->relay);
    }
    relay_counters(engine->relay, &passed);
    atomic_store_explicit(&engine->n_passing, passed.lanes, memory_order_relaxed);
    atomic_store_explicit(&engine->bytes_passed, passed.bytes, memory_order_relaxed);
}

/* Returns why a connection is refused that belongs to `comm` (NULL: none) by its purpose. */
static const char *why_refused(const struct flow_purpose *purpose,
                               const struct engine_comm *comm)
{
    if (comm != NULL) {
        return "its connection has ended here, or a newer attempt has come";
    }
    return purpose->kind == FLOW_FORWARD ? "this process does not relay"
                                         : "it is for no listener of this process";
}

static void refuse(struct engine *engine, struct conn *conn, const char *reason)
{
    struct weft_error why = {0};

    pthread_mutex_lock(&engine->lock);
    engine->counters.n_refused++;
    pthread_mutex_unlock(&engine->lock);
    weft_log(engine->env->log, WEFT_LOG_WARN, "a connection from %s is refused: %s",
             conn->peer.host, reason);
    weft_fail(&why, WEFT_ERR_PROTOCOL, WEFT_PHASE_PURPOSE, "%s", reason);
    conn_refuse(conn, &why);
    conn_destroy(conn);
}

static void accept_all(struct engine *engine)
{
    struct conn *conn;

    conn_listener_progress(engine->listener);
    while ((conn = conn_accept(engine->listener)) != NULL) {
        struct flow_purpose purpose = {0};
        struct engine_comm *comm = NULL;

        if (!flow_purpose_decode(conn->peer.purpose, &purpose)) {
            refuse(engine, conn, "its purpose is not valid");
            continue;
        }
        if (purpose.kind != FLOW_FORWARD) {
            if (answer_ended(engine, &purpose, conn)) {
                continue;
            }
            comm = receiver_for(engine, &purpose);
        }
        if (comm != NULL && comm->flow != NULL && flow_accept(comm->flow, conn)) {
            progress_comm(engine, comm);
            continue;
        }
        if (engine->relay != NULL && relay_accept(engine->relay, conn)) {
            progress_relay(engine, conn);
            continue;
        }
        refuse(engine, conn, why_refused(&purpose, comm));
    }
}

static void progress_conn(struct engine *engine, struct conn *conn)
{
    const struct flow *flow = flow_of(conn);
    struct engine_comm *comm = flow == NULL ? NULL : flow_user(flow);

    if (comm != NULL) {
        progress_comm(engine, comm);
    } else if (progress_answered(engine, conn)) {
        return;
    } else if (engine->relay != NULL && relay_owns(engine->relay, conn)) {
        progress_relay(engine, conn);
    } else {
        accept_all(engine); /* not returned by conn_accept() yet */
    }
}

static void take_event(struct engine *engine, uint32_t device,
                       const struct io_async_event *event)
{
    const char *name = engine->env->devices[device]->name;
    bool is_up = event->type == IBV_EVENT_PORT_ACTIVE;
    bool is_lost = event->type == IBV_EVENT_DEVICE_FATAL;
    struct weft_error ignored = {0};

    if (is_lost) {
        weft_log(engine->env->log, WEFT_LOG_WARN, "%s is gone", name);
        rdma_lose_device(engine->rdma, device);
    } else if (is_up || event->type == IBV_EVENT_PORT_ERR) {
        weft_log(engine->env->log, WEFT_LOG_WARN, "%s port %d %s", name, event->port,
                 is_up ? "is up" : "went down");
    } else if (event->type != IBV_EVENT_GID_CHANGE) {
        return;
    }
    if (!is_lost && atomic_load(&engine->progress) == ENGINE_READY) {
        (void)(rdma_refresh(engine->rdma, &ignored) == WEFT_OK);
    }
    engine->route_at_ns = 0; /* other ports can face the peers now */
    io_task_wake(&engine->mesh.task);
    for (struct engine_comm *comm = engine->comms; comm != NULL; comm = comm->next) {
        if (comm->flow != NULL) {
            flow_device_event(comm->flow, device, event);
        }
    }
    if (engine->relay != NULL) {
        relay_device_event(engine->relay, device, event);
    }
}

static void take_events(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->env->n_devices; i++) {
        struct io_device *device = engine->env->devices[i];
        struct io_async_event event;
        struct io_async_event gids;
        bool has_gids = false;

        while (device->ops->async_event(device, &event) == 0) {
            if (event.type == IBV_EVENT_GID_CHANGE) {
                gids = event;
                has_gids = true;
            } else {
                take_event(engine, i, &event);
            }
        }
        /* Handled once, because each handling reads all tables again. */
        if (has_gids) {
            take_event(engine, i, &gids);
        }
    }
}

void engine_dispatch(struct engine *engine, struct io_task *task)
{
    weft_ns look_ns;

    switch (task->kind) {
    case ENGINE_TASK_MAIN:
        if (atomic_load(&engine->progress) == ENGINE_STARTING) {
            get_ready(engine);
        }
        take_opening(engine);
        take_kicked(engine);
        look_ns = engine_pending_look(engine);
        take_closing(engine);
        engine_calls_progress(engine);
        look_at_late(engine, look_ns);
        break;
    case ENGINE_TASK_LISTENER:
        accept_all(engine);
        break;
    case ENGINE_TASK_MESH:
        if (engine_mesh_progress(engine)) {
            engine_waits_look(engine);
        }
        open_routed(engine);
        break;
    case ENGINE_TASK_RELAY:
        progress_relay(engine, NULL);
        break;
    case ENGINE_TASK_ACCEPTED:
    case ENGINE_TASK_FLOW:
    case ENGINE_TASK_ONWARDS:
        progress_conn(engine, weft_container_of(task, struct conn, task));
        break;
    default:
        take_events(engine);
        break;
    }
}
