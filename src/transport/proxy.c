#include "transport/proxy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define CONTROL_BYTES 4096u /* steps in the segment begin at this offset, on a page */

_Static_assert(sizeof(struct steps_control) <= CONTROL_BYTES, "control words fit");

/* Result of a request that cannot be answered yet. Not EAGAIN, because a GPU or shared memory can
 * fail with EAGAIN, and a request that has failed must not be served again. */
#define NOT_YET (-1)

struct proxy_connection {
    bool is_used;
    enum proxy_state state;
    enum weft_transport kind;
    bool is_sender, is_owner;
    uint32_t peer, channel, step_bytes;
    struct io_shm *segment; /* Owned: control words, and for SHM the steps */
    char name[IO_SHM_NAME_BYTES];
    void *steps; /* P2P: Owned if is_owner, allocated on the GPU; else imported */
    struct io_gpu_export exported;
    bool is_attached; /* the peer has attached */
    int sys_errno;    /* errno that made it fall back to SHM; 0 if it did not */
};

struct proxy_registration {
    bool is_used;
    uint64_t address;
    struct io_gpu_export exported;
};

struct proxy {
    struct io_env *env; /* Not owned. */
    uint32_t rank;
    /* Owned [n_connections]; index i has number i + 1 */
    struct proxy_connection *connections;
    uint32_t n_connections;
    /* Owned [n_registrations]; numbered like connections */
    struct proxy_registration *registrations;
    uint32_t n_registrations;
};

static void enter(struct proxy *proxy, struct proxy_connection *connection,
                  enum proxy_state next)
{
    static const char *const names[] = {"uninitialized", "initialized",
                                        "shared_initialized", "setup_done", "connected"};
    struct io_env *env = proxy->env;
    char object[32];

    weft_check(next == connection->state + 1 || next == PROXY_UNINITIALIZED);
    weft_format(object, sizeof(object), "proxy%u", proxy->rank);
    weft_trace_event(env->trace, io_now(env), env->name, object, "state",
                     "connection=%u transport=%s peer=%u from=%s to=%s",
                     (unsigned)(connection - proxy->connections) + 1,
                     weft_transport_name(connection->kind), connection->peer,
                     names[connection->state], names[next]);
    connection->state = next;
}

struct proxy *proxy_create(struct io_env *env, uint32_t rank)
{
    struct proxy *proxy = weft_calloc(1, sizeof(*proxy));

    proxy->env = env;
    proxy->rank = rank;
    return proxy;
}

static struct proxy_connection *find(const struct proxy *proxy, uint32_t connection)
{
    if (connection == 0 || connection > proxy->n_connections ||
        !proxy->connections[connection - 1].is_used) {
        return NULL;
    }
    return &proxy->connections[connection - 1];
}

/* ---- memory of connections ---- */

static size_t segment_bytes(const struct proxy_connection *connection)
{
    size_t steps = (size_t)STEPS_N * connection->step_bytes;

    return CONTROL_BYTES + (connection->kind == WEFT_TRANSPORT_SHM ? steps : 0);
}

static size_t steps_bytes(const struct proxy_connection *connection)
{
    return (size_t)STEPS_N * connection->step_bytes;
}

static void give_memory_back(struct proxy *proxy, struct proxy_connection *connection)
{
    struct io_gpu *gpu = proxy->env->gpu;

    if (connection->exported.n_bytes > 0) {
        gpu->sharing->unexport(gpu, &connection->exported);
    }
    if (connection->steps != NULL && connection->is_owner) {
        gpu->ops->free(gpu, connection->steps);
    } else if (connection->steps != NULL) {
        gpu->sharing->unimport(gpu, connection->steps);
    }
    if (connection->segment != NULL) {
        proxy->env->shm->close(connection->segment);
    }
    connection->exported = (struct io_gpu_export){0};
    connection->steps = NULL;
    connection->segment = NULL;
}

static void release(struct proxy *proxy, struct proxy_connection *connection)
{
    give_memory_back(proxy, connection);
    if (connection->state != PROXY_UNINITIALIZED) {
        enter(proxy, connection, PROXY_UNINITIALIZED);
    }
    *connection = (struct proxy_connection){0};
}

static void forget(struct proxy *proxy, struct proxy_registration *registration)
{
    struct io_gpu *gpu = proxy->env->gpu;

    gpu->sharing->unexport(gpu, &registration->exported);
    *registration = (struct proxy_registration){0};
}

void proxy_destroy(struct proxy *proxy)
{
    if (proxy == NULL) {
        return;
    }
    for (uint32_t i = 0; i < proxy->n_connections; i++) {
        if (proxy->connections[i].is_used) {
            release(proxy, &proxy->connections[i]);
        }
    }
    for (uint32_t i = 0; i < proxy->n_registrations; i++) {
        if (proxy->registrations[i].is_used) {
            forget(proxy, &proxy->registrations[i]);
        }
    }
    free(proxy->connections);
    free(proxy->registrations);
    free(proxy);
}

/* ---- requests of the proxy's own rank ---- */

static int init(struct proxy *proxy, const struct proxy_call *call,
                struct proxy_answer *out)
{
    struct proxy_connection *connection;
    uint32_t at = 0;

    if (call->kind != WEFT_TRANSPORT_P2P && call->kind != WEFT_TRANSPORT_SHM) {
        return EOPNOTSUPP; /* a flow needs no connection here */
    }
    while (at < proxy->n_connections && proxy->connections[at].is_used) {
        at++;
    }
    if (at == PROXY_CONNECTIONS_MAX) {
        return ENOSPC;
    }
    if (at == proxy->n_connections) {
        proxy->n_connections++;
        proxy->connections = weft_realloc(
            proxy->connections, proxy->n_connections * sizeof(*proxy->connections));
    }
    connection = &proxy->connections[at];
    *connection = (struct proxy_connection){.is_used = true,
                                            .kind = call->kind,
                                            .is_sender = call->is_sender,
                                            .is_owner = call->is_owner,
                                            .peer = call->peer,
                                            .channel = call->channel};
    out->connection = at + 1;
    enter(proxy, connection, PROXY_INITIALIZED);
    return 0;
}

static int shared_init(struct proxy *proxy, struct proxy_connection *connection,
                       const struct proxy_call *call)
{
    const struct io_shm_ops *shm = proxy->env->shm;
    int sys_errno = 0;

    if (connection->state != PROXY_INITIALIZED) {
        return EINVAL;
    }
    if (shm == NULL) {
        return EOPNOTSUPP;
    }
    connection->step_bytes = call->step_bytes;
    if (connection->is_owner) {
        sys_errno = shm->create(proxy->env, segment_bytes(connection), connection->name,
                                &connection->segment);
    }
    if (sys_errno == 0) {
        enter(proxy, connection, PROXY_SHARED_INITIALIZED);
    }
    return sys_errno;
}

/* Exports the allocation that starts at `memory`; zeroes `*out` on error. */
static int export_whole(struct io_gpu *gpu, const void *memory, struct io_gpu_export *out)
{
    struct io_gpu_identity identity;
    int sys_errno = gpu->sharing->identify(gpu, &identity);

    if (sys_errno == 0) {
        sys_errno = gpu->sharing->export_memory(gpu, memory, identity.kinds, out);
    }
    if (sys_errno != 0) {
        *out = (struct io_gpu_export){0};
    }
    return sys_errno;
}

static int setup(struct proxy *proxy, struct proxy_connection *connection)
{
    struct io_gpu *gpu = proxy->env->gpu;
    int sys_errno = 0;

    if (connection->state != PROXY_SHARED_INITIALIZED) {
        return EINVAL;
    }
    if (connection->kind == WEFT_TRANSPORT_P2P && gpu->sharing == NULL) {
        return EOPNOTSUPP;
    }
    if (connection->kind == WEFT_TRANSPORT_P2P && connection->is_owner) {
        sys_errno = gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, steps_bytes(connection),
                                    &connection->steps);
        if (sys_errno == 0) {
            sys_errno = export_whole(gpu, connection->steps, &connection->exported);
        }
    }
    if (sys_errno == 0) {
        enter(proxy, connection, PROXY_SETUP_DONE);
    }
    return sys_errno;
}

static int attach(struct proxy *proxy, struct proxy_connection *connection,
                  const struct proxy_call *call)
{
    struct io_gpu *gpu = proxy->env->gpu;
    int sys_errno = proxy->env->shm->attach(
        proxy->env, call->name, segment_bytes(connection), &connection->segment);

    if (sys_errno == 0 && connection->kind == WEFT_TRANSPORT_P2P) {
        sys_errno =
            call->memory.n_bytes < steps_bytes(connection)
                ? EINVAL
                : gpu->sharing->import_memory(gpu, &call->memory, &connection->steps);
    }
    return sys_errno;
}

/* Returns NOT_YET until the peer has attached. */
static int connect(struct proxy *proxy, struct proxy_connection *connection,
                   const struct proxy_call *call)
{
    int sys_errno = 0;

    if (connection->state != PROXY_SETUP_DONE) {
        return EINVAL;
    }
    if (!connection->is_owner) {
        sys_errno = attach(proxy, connection, call);
    } else if (!connection->is_attached) {
        return NOT_YET;
    }
    if (sys_errno == 0) {
        enter(proxy, connection, PROXY_CONNECTED);
    }
    return sys_errno;
}

static int register_memory(struct proxy *proxy, const struct proxy_call *call,
                           struct proxy_answer *out)
{
    struct io_gpu *gpu = proxy->env->gpu;
    uint32_t at = 0;
    int sys_errno;

    if (gpu->sharing == NULL) {
        return EOPNOTSUPP;
    }
    while (at < proxy->n_registrations && proxy->registrations[at].is_used) {
        at++;
    }
    if (at == PROXY_CONNECTIONS_MAX) {
        return ENOSPC;
    }
    sys_errno = export_whole(gpu, (void *)(uintptr_t)call->address, &out->memory);
    if (sys_errno != 0) {
        return sys_errno;
    }
    if (at == proxy->n_registrations) {
        proxy->n_registrations++;
        proxy->registrations = weft_realloc(
            proxy->registrations, proxy->n_registrations * sizeof(*proxy->registrations));
    }
    proxy->registrations[at] =
        (struct proxy_registration){true, call->address, out->memory};
    out->connection = at + 1;
    return 0;
}

static int deregister(struct proxy *proxy, const struct proxy_call *call)
{
    uint32_t at = call->connection;

    if (at == 0 || at > proxy->n_registrations || !proxy->registrations[at - 1].is_used ||
        proxy->registrations[at - 1].address != call->address) {
        return ENOENT;
    }
    forget(proxy, &proxy->registrations[at - 1]);
    return 0;
}

/* ---- requests of the peer ---- */

/* Returns NOT_YET until SETUP is done. */
static int get_fd(const struct proxy_connection *connection, struct proxy_answer *out)
{
    if (!connection->is_owner) {
        return EINVAL;
    }
    if (connection->state < PROXY_SETUP_DONE) {
        return NOT_YET;
    }
    weft_format(out->name, sizeof(out->name), "%s", connection->name);
    out->memory = connection->exported;
    return 0;
}

/* Unlinks the segment's name, because only the peer needed it, and it has attached. */
static int start(struct proxy *proxy, struct proxy_connection *connection)
{
    if (!connection->is_owner || connection->state < PROXY_SETUP_DONE) {
        return EINVAL;
    }
    connection->is_attached = true;
    proxy->env->shm->unlink(connection->segment);
    return 0;
}

/* ---- requests of either ---- */

static int fall_back(struct proxy *proxy, struct proxy_connection *connection,
                     const struct proxy_call *call, bool is_own)
{
    const struct io_shm_ops *shm = proxy->env->shm;
    int sys_errno = 0;

    if (connection->kind != WEFT_TRANSPORT_P2P || connection->is_attached ||
        (connection->state != PROXY_SHARED_INITIALIZED &&
         connection->state != PROXY_SETUP_DONE) ||
        (!is_own && !connection->is_owner)) {
        return EINVAL;
    }
    give_memory_back(proxy, connection);
    connection->kind = WEFT_TRANSPORT_SHM;
    connection->sys_errno = call->sys_errno;
    connection->is_owner = is_own ? call->is_owner : true;
    if (connection->is_owner) {
        sys_errno = shm->create(proxy->env, segment_bytes(connection), connection->name,
                                &connection->segment);
    }
    if (sys_errno == 0 && connection->state == PROXY_SHARED_INITIALIZED) {
        enter(proxy, connection, PROXY_SETUP_DONE);
    }
    return sys_errno;
}

/* Falls back on request of the peer, and answers like GET_FD. */
static int fall_back_for(struct proxy *proxy, struct proxy_connection *connection,
                         const struct proxy_call *call, struct proxy_answer *out)
{
    int sys_errno = fall_back(proxy, connection, call, false);

    return sys_errno == 0 ? get_fd(connection, out) : sys_errno;
}

/* ---- dispatch ---- */

/* Returns true if `asker` may send this request: GET_FD and START come from the peer, FALL_BACK
 * from either end, all others from the proxy's own rank. */
static bool may_ask(const struct proxy *proxy, uint32_t asker, enum proxy_type type,
                    const struct proxy_connection *connection)
{
    if (type == PROXY_GET_FD || type == PROXY_START) {
        return connection != NULL && connection->peer == asker;
    }
    if (type == PROXY_FALL_BACK) {
        return connection != NULL && (connection->peer == asker || asker == proxy->rank);
    }
    return asker == proxy->rank;
}

static int serve(struct proxy *proxy, uint32_t asker, const struct proxy_call *call,
                 struct proxy_connection *connection, struct proxy_answer *out)
{
    switch (call->type) {
    case PROXY_INIT:
        return init(proxy, call, out);
    case PROXY_SHARED_INIT:
        return shared_init(proxy, connection, call);
    case PROXY_SETUP:
        return setup(proxy, connection);
    case PROXY_CONNECT:
        return connect(proxy, connection, call);
    case PROXY_GET_FD:
        return get_fd(connection, out);
    case PROXY_START:
        return start(proxy, connection);
    case PROXY_CLOSE:
        release(proxy, connection);
        return 0;
    case PROXY_FALL_BACK:
        return asker == proxy->rank ? fall_back(proxy, connection, call, true)
                                    : fall_back_for(proxy, connection, call, out);
    case PROXY_REGISTER:
        return register_memory(proxy, call, out);
    case PROXY_DEREGISTER:
        return deregister(proxy, call);
    case PROXY_ABORT:
    case PROXY_STOP:
    case PROXY_JOIN:
    case PROXY_BELL:
        break; /* handled by inside_stream.c */
    }
    return EOPNOTSUPP;
}

static bool is_of_connection(enum proxy_type type)
{
    return type != PROXY_INIT && type != PROXY_REGISTER && type != PROXY_DEREGISTER;
}

weft_status proxy_serve(struct proxy *proxy, uint32_t asker,
                        const struct proxy_call *call, struct proxy_answer *out)
{
    bool needs = is_of_connection(call->type);
    struct proxy_connection *connection = needs ? find(proxy, call->connection) : NULL;

    *out = (struct proxy_answer){.op = call->op};
    if (needs && connection == NULL) {
        out->sys_errno = ENOENT;
    } else if (!may_ask(proxy, asker, call->type, connection)) {
        out->sys_errno = EPERM;
    } else {
        out->sys_errno = serve(proxy, asker, call, connection, out);
    }
    return out->sys_errno == NOT_YET ? WEFT_AGAIN : WEFT_OK;
}

bool proxy_region(const struct proxy *proxy, uint32_t connection,
                  struct steps_control **out_control, uint8_t **out_memory)
{
    const struct proxy_connection *found = find(proxy, connection);

    if (found == NULL || found->state != PROXY_CONNECTED) {
        return false;
    }
    *out_control = found->segment->memory;
    *out_memory = found->kind == WEFT_TRANSPORT_SHM
                      ? (uint8_t *)found->segment->memory + CONTROL_BYTES
                      : found->steps;
    return true;
}

enum weft_transport proxy_kind_of(const struct proxy *proxy, uint32_t connection,
                                  int *out_errno)
{
    const struct proxy_connection *found = find(proxy, connection);

    weft_check(found != NULL);
    *out_errno = found->sys_errno;
    return found->kind;
}

enum proxy_state proxy_state_of(const struct proxy *proxy, uint32_t connection)
{
    const struct proxy_connection *found = find(proxy, connection);

    return found == NULL ? PROXY_UNINITIALIZED : found->state;
}

uint32_t proxy_n_connections(const struct proxy *proxy)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < proxy->n_connections; i++) {
        n += proxy->connections[i].is_used;
    }
    return n;
}
