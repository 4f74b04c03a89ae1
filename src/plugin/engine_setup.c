/* Set-up of listeners and connections, called from any thread. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "plugin/engine_private.h"
#include "plugin/finding.h"

/* Returns a random number for one end of a flow: not 0, and not that of a listener of this
 * process. */
static uint32_t new_number(struct engine *engine)
{
    uint32_t number = 0;

    while (number == 0) {
        engine->env->ops->random(engine->env, &number, sizeof(number));
        for (struct engine_listen *other = engine->listens; other != NULL;
             other = other->next) {
            number = other->id == number ? 0 : number;
        }
    }
    return number;
}

weft_status engine_listen(struct engine *engine, uint8_t handle[CONN_HANDLE_BYTES],
                          struct engine_listen **out, struct weft_error *error)
{
    struct engine_listen *listen = weft_calloc(1, sizeof(*listen));

    (void)error;
    listen->engine = engine;
    pthread_mutex_lock(&engine->lock);
    listen->id = new_number(engine);
    listen->next = engine->listens;
    engine->listens = listen;
    engine->counters.n_listens++;
    memcpy(handle, engine->handle, CONN_HANDLE_BYTES);
    pthread_mutex_unlock(&engine->lock);
    engine_handle_number(handle, listen->id);
    *out = listen;
    return WEFT_OK;
}

/* Returns the progress of a comm that is being set up. */
static weft_status look_at(struct engine_comm *comm, struct weft_error *error)
{
    int state = atomic_load_explicit(&comm->state, memory_order_acquire);

    if (state == ENGINE_COMM_UP) {
        return WEFT_OK;
    }
    if (state != ENGINE_COMM_FAILED) {
        return WEFT_AGAIN;
    }
    engine_comm_error(comm, error);
    return error->status;
}

weft_status engine_accept(struct engine_listen *listen, struct engine_comm **out,
                          struct weft_error *error)
{
    struct engine *engine = listen->engine;
    weft_status status = WEFT_AGAIN;
    struct engine_comm *comm;

    *out = NULL;
    pthread_mutex_lock(&engine->lock);
    comm = listen->comm;
    if (comm != NULL) {
        status = look_at(comm, error);
        listen->comm = status == WEFT_AGAIN ? comm : NULL;
    }
    engine->counters.n_accepted += status == WEFT_OK;
    pthread_mutex_unlock(&engine->lock);
    if (status == WEFT_OK) {
        *out = comm;
    } else if (status < 0) {
        engine_close(comm);
    }
    return status;
}

void engine_close_listen(struct engine_listen *listen)
{
    struct engine *engine = listen->engine;
    struct engine_listen **at = &engine->listens;
    struct engine_comm *comm;

    pthread_mutex_lock(&engine->lock);
    while (*at != listen) {
        at = &(*at)->next;
    }
    *at = listen->next;
    engine->counters.n_listens--;
    comm = listen->comm;
    pthread_mutex_unlock(&engine->lock);
    if (comm != NULL) {
        engine_close(comm);
    }
    free(listen);
}

void engine_close(struct engine_comm *comm)
{
    struct engine *engine = comm->engine;

    pthread_mutex_lock(&engine->lock);
    comm->next_closing = engine->closing;
    engine->closing = comm;
    pthread_mutex_unlock(&engine->lock);
    engine->config.wake(engine->config.context);
}

static struct engine_comm *find_pending(struct engine *engine, const uint8_t *handle)
{
    struct engine_comm *comm = engine->pending;

    while (comm != NULL && memcmp(comm->handle, handle, CONN_HANDLE_BYTES) != 0) {
        comm = comm->next_pending;
    }
    return comm;
}

static void forget_pending(struct engine *engine, const struct engine_comm *comm)
{
    struct engine_comm **at = &engine->pending;

    while (*at != comm) {
        at = &(*at)->next_pending;
    }
    *at = comm->next_pending;
}

/* A connection is abandoned if no thread calls connect for it during up to this number of looks.
 * NCCL calls in a loop, and does not report when it gives up. Looks are counted, not time, because
 * a process that was stopped calls again when it continues. */
#define IDLE_LOOKS 60u
#define IDLE_LOOK_NS INT64_C(10000000000)

/* Moves abandoned connectors to the closing comms; needs the lock. */
static void close_idle(struct engine *engine)
{
    struct engine_comm **at = &engine->pending, *comm;

    while ((comm = *at) != NULL) {
        if (++comm->n_idle <= IDLE_LOOKS) {
            at = &comm->next_pending;
            continue;
        }
        *at = comm->next_pending;
        comm->next_closing = engine->closing;
        engine->closing = comm;
        weft_log(engine->env->log, WEFT_LOG_INFO,
                 "connection %08x to %08x is closed: connect has not been called for it "
                 "for 10 minutes",
                 comm->from, comm->to);
    }
}

weft_ns engine_pending_look(struct engine *engine)
{
    weft_ns now = io_now(engine->env), at;

    pthread_mutex_lock(&engine->lock);
    if (engine->pending == NULL) {
        engine->idle_look_ns = WEFT_NEVER;
    } else if (engine->idle_look_ns == WEFT_NEVER) {
        engine->idle_look_ns = now + IDLE_LOOK_NS;
    } else if (now >= engine->idle_look_ns) {
        engine->idle_look_ns = now + IDLE_LOOK_NS;
        close_idle(engine);
    }
    at = engine->idle_look_ns;
    pthread_mutex_unlock(&engine->lock);
    return at;
}

/* Creates a connector; needs the lock. */
static struct engine_comm *new_connector(struct engine *engine, const uint8_t *handle,
                                         uint32_t to, int traffic_class)
{
    uint32_t from = new_number(engine);
    struct engine_comm *comm =
        engine_comm_create(engine, true, from == to ? from ^ 1u : from, to);

    if (traffic_class != ENGINE_CLASS_USUAL && !engine->config.class_is_fixed) {
        comm->traffic_class = (uint8_t)traffic_class;
    }
    memcpy(comm->handle, handle, CONN_HANDLE_BYTES);
    comm->next_pending = engine->pending;
    engine->pending = comm;
    comm->next = engine->opening;
    engine->opening = comm;
    return comm;
}

weft_status engine_connect(struct engine *engine, const uint8_t handle[CONN_HANDLE_BYTES],
                           struct engine_comm **out, struct weft_error *error)
{
    return engine_connect_as(engine, handle, ENGINE_CLASS_USUAL, out, error);
}

weft_status engine_connect_as(struct engine *engine,
                              const uint8_t handle[CONN_HANDLE_BYTES], int traffic_class,
                              struct engine_comm **out, struct weft_error *error)
{
    weft_status status = WEFT_AGAIN;
    struct engine_comm *comm;
    uint8_t ignored[CONN_HANDLE_BYTES];
    uint32_t to;
    bool is_new = false;

    *out = NULL;
    status = engine_handle_split(handle, ignored, &to, error);
    if (status != WEFT_OK) {
        /* Without the ports, because only the engine's thread may read them. */
        finding_name(NULL, error);
        return status;
    }
    status = WEFT_AGAIN;
    pthread_mutex_lock(&engine->lock);
    comm = find_pending(engine, handle);
    if (comm == NULL) {
        comm = new_connector(engine, handle, to, traffic_class);
        is_new = true;
    } else {
        comm->n_idle = 0;
        status = look_at(comm, error);
        if (status != WEFT_AGAIN) {
            forget_pending(engine, comm);
        }
    }
    engine->counters.n_connected += status == WEFT_OK;
    pthread_mutex_unlock(&engine->lock);
    if (is_new) {
        engine->config.wake(engine->config.context);
    } else if (status == WEFT_OK) {
        *out = comm;
    } else if (status < 0) {
        engine_close(comm);
    }
    return status;
}
