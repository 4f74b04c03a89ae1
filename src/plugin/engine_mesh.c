/* Discovery: every process sends beacons on every cable, and the relay of a host forwards those
 * of others, once each. The number of processes and the order of their starts need not be known. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "conn/codec.h"
#include "plugin/engine_private.h"

#define SECOND INT64_C(1000000000)
#define EAGER_FOR_NS (2 * SECOND)
#define EAGER_NS (SECOND / 10)
#define PERIOD_NS SECOND
#define SOON_NS (SECOND / 50) /* delay after a change of the mesh */
#define DEAF_NS (4 * SECOND)  /* a silent neighbour is dropped after this */
#define FORGET_NS (6 * SECOND)
#define HEARD_MAX 64 /* maximum number of datagrams received at once */
/* Maximum number of looks that leave datagrams unread before processes are dropped nevertheless;
 * more than the queue of a socket holds. */
#define UNREAD_MAX 32

/* ---- start and end ---- */

static void add_port(struct engine_mesh *mesh, uint32_t ifindex)
{
    for (uint32_t i = 0; i < mesh->n_ports; i++) {
        if (mesh->ports[i].ifindex == ifindex) {
            return;
        }
    }
    if (mesh->n_ports < MESH_PORTS_MAX) {
        mesh->ports[mesh->n_ports++] = (struct mesh_port){.ifindex = ifindex};
    }
}

void engine_mesh_init(struct engine *engine)
{
    struct io_env *env = engine->env;

    io_task_init(&engine->mesh.task, env->loop, env->host, ENGINE_TASK_MESH);
}

/* Sets the name, with characters that a beacon cannot carry replaced. */
static void set_name(struct beacon *self, const char *name)
{
    size_t n = strnlen(name, sizeof(self->name) - 1);

    for (size_t i = 0; i < n; i++) {
        self->name[i] = name[i] > ' ' && name[i] <= '~' ? name[i] : '?';
    }
}

void engine_mesh_open(struct engine *engine, const uint8_t handle[CONN_HANDLE_BYTES])
{
    struct engine_mesh *mesh = &engine->mesh;
    const struct conn_config *conn = &engine->config.conn;
    struct io_env *env = engine->env;
    const struct io_hostinfo *info = env->ops->hostinfo(env);
    struct beacon *self = &mesh->self;

    beacon_key(conn->has_secret ? conn->secret : NULL, mesh->key);
    mesh->processes = weft_calloc(MESH_PROCESSES_MAX, sizeof(*mesh->processes));
    for (uint32_t i = 0; i < engine->rdma->n_ports; i++) {
        const struct rdma_port *port = &engine->rdma->ports[i];

        if (port->ifindex != 0 && !conn_excludes(conn, port->device_index, port->port)) {
            add_port(mesh, io_hostinfo_top(info, port->ifindex));
        }
    }
    add_port(mesh, 0);
    while (self->process == 0) {
        env->ops->random(env, &self->process, sizeof(self->process));
    }
    self->sender = self->process;
    self->started_ns = (uint64_t)io_now(env);
    self->flags = (engine->config.relays ? BEACON_MAY_RELAY : 0) |
                  (engine->config.is_dedicated ? BEACON_DEDICATED : 0);
    set_name(self, env->name);
    memcpy(self->host_id, io_host_id(env), sizeof(self->host_id));
    memcpy(self->handle, handle, sizeof(self->handle));
    mesh->opened_ns = mesh->announce_at_ns = io_now(env);
    mesh->announced_ns = mesh->opened_ns - SECOND;
    io_task_wake(&mesh->task);
}

void engine_mesh_fini(struct engine *engine)
{
    struct engine_mesh *mesh = &engine->mesh;

    for (uint32_t i = 0; i < mesh->n_ports; i++) {
        engine->env->oob->close_announcer(mesh->ports[i].announcer);
    }
    auth_forget(mesh->key, sizeof(mesh->key));
    free(mesh->processes);
    io_task_fini(&mesh->task);
}

/* ---- lookup ---- */

static bool is_host(const struct beacon *beacon, const uint8_t host_id[16])
{
    return memcmp(beacon->host_id, host_id, sizeof(beacon->host_id)) == 0;
}

const struct beacon *engine_mesh_find(const struct engine *engine,
                                      const uint8_t handle[CONN_HANDLE_BYTES])
{
    struct codec_handle wanted, other;
    struct weft_error ignored = {0};

    if (codec_decode_handle(handle, &wanted, &ignored) != WEFT_OK) {
        return NULL;
    }
    for (uint32_t i = 0; i < engine->mesh.n_processes; i++) {
        const struct beacon *beacon = &engine->mesh.processes[i].beacon;

        if (is_host(beacon, wanted.host_id) &&
            codec_decode_handle(beacon->handle, &other, &ignored) == WEFT_OK &&
            memcmp(other.cookie, wanted.cookie, sizeof(other.cookie)) == 0) {
            return beacon;
        }
    }
    return NULL;
}

/* The order by which every process selects the same relay of a host: dedicated relays (weft
 * relayd), then processes that may relay, then the others; within each class, the earliest
 * start. */
static bool is_before(const struct beacon *a, const struct beacon *b)
{
    if (a->flags != b->flags) {
        return a->flags > b->flags;
    }
    return a->started_ns != b->started_ns ? a->started_ns < b->started_ns
                                          : a->process < b->process;
}

const struct beacon *engine_mesh_speaker(const struct engine *engine,
                                         const uint8_t host_id[16])
{
    const struct engine_mesh *mesh = &engine->mesh;
    const struct beacon *best = is_host(&mesh->self, host_id) ? &mesh->self : NULL;

    for (uint32_t i = 0; i < mesh->n_processes; i++) {
        const struct beacon *beacon = &mesh->processes[i].beacon;

        if (is_host(beacon, host_id) && (best == NULL || is_before(beacon, best))) {
            best = beacon;
        }
    }
    return best;
}

const uint8_t *engine_mesh_handle_of(void *context, uint32_t place)
{
    const struct engine *engine = context;
    const struct engine_mesh *mesh = &engine->mesh;

    for (uint32_t i = 0; i < mesh->n_processes && place < mesh->self.n_neighbours; i++) {
        if (mesh->processes[i].beacon.process == mesh->self.neighbours[place]) {
            return mesh->processes[i].beacon.handle;
        }
    }
    return NULL;
}

/* ---- neighbours ---- */

static void changed(struct engine_mesh *mesh)
{
    weft_ns soon = mesh->announced_ns + SOON_NS;

    mesh->n_changes++;
    mesh->announce_at_ns = soon < mesh->announce_at_ns ? soon : mesh->announce_at_ns;
}

static uint64_t *place_of(struct beacon *self, uint64_t process)
{
    for (uint32_t i = 0; i < self->n_neighbours; i++) {
        if (self->neighbours[i] == process) {
            return &self->neighbours[i];
        }
    }
    return NULL;
}

static void add_neighbour(struct engine_mesh *mesh, uint64_t process)
{
    uint64_t *place = place_of(&mesh->self, process);

    if (place != NULL) {
        return;
    }
    place = place_of(&mesh->self, 0);
    if (place == NULL && mesh->self.n_neighbours < BEACON_NEIGHBOURS_MAX) {
        place = &mesh->self.neighbours[mesh->self.n_neighbours++];
    }
    if (place != NULL) {
        *place = process;
        changed(mesh);
    }
}

static void remove_neighbour(struct engine_mesh *mesh, uint64_t process)
{
    uint64_t *place = place_of(&mesh->self, process);

    if (place != NULL) {
        *place = 0;
        changed(mesh);
    }
}

/* Returns true if the beacon is no newer than the last one of a process that was forgotten. Anyone
 * on the cable can replay it, and it names a process that has probably ended. */
static bool is_of_gone(const struct engine_mesh *mesh, const struct beacon *beacon)
{
    for (uint32_t i = 0; i < mesh->n_gone && i < MESH_PROCESSES_MAX; i++) {
        const struct mesh_gone *gone = &mesh->gone[i];

        if (gone->process == beacon->process && beacon->sequence <= gone->sequence) {
            return true;
        }
    }
    return false;
}

static void forget(struct engine *engine)
{
    struct engine_mesh *mesh = &engine->mesh;
    weft_ns now = io_now(engine->env);
    weft_ns deaf_ns = timer_limit(DEAF_NS, engine->config.conn.patience);
    weft_ns forget_ns = timer_limit(FORGET_NS, engine->config.conn.patience);
    uint32_t n = 0;

    for (uint32_t i = 0; i < mesh->n_processes; i++) {
        struct mesh_process *process = &mesh->processes[i];

        if (process->direct_ns != WEFT_NEVER && now - process->direct_ns >= deaf_ns) {
            process->direct_ns = WEFT_NEVER;
            remove_neighbour(mesh, process->beacon.process);
        }
        if (now - process->heard_ns >= forget_ns) {
            weft_log(engine->env->log, WEFT_LOG_DEBUG, "process %016llx of %s is gone",
                     (unsigned long long)process->beacon.process, process->beacon.name);
            remove_neighbour(mesh, process->beacon.process);
            mesh->gone[mesh->n_gone++ % MESH_PROCESSES_MAX] =
                (struct mesh_gone){process->beacon.process, process->beacon.sequence};
            changed(mesh);
            continue;
        }
        if (n != i) {
            mesh->processes[n] = *process;
        }
        n++;
    }
    mesh->n_processes = n;
}

/* ---- receiving ---- */

static struct mesh_process *process_of(struct engine *engine, const struct beacon *beacon)
{
    struct engine_mesh *mesh = &engine->mesh;
    struct mesh_process *process;

    for (uint32_t i = 0; i < mesh->n_processes; i++) {
        if (mesh->processes[i].beacon.process == beacon->process) {
            return &mesh->processes[i];
        }
    }
    if (mesh->n_processes == MESH_PROCESSES_MAX || is_of_gone(mesh, beacon)) {
        return NULL;
    }
    weft_log(engine->env->log, WEFT_LOG_DEBUG, "process %016llx of %s is there",
             (unsigned long long)beacon->process, beacon->name);
    process = &mesh->processes[mesh->n_processes++];
    *process =
        (struct mesh_process){.first_ns = io_now(engine->env), .direct_ns = WEFT_NEVER};
    changed(mesh);
    return process;
}

static bool is_same_mesh(const struct beacon *a, const struct beacon *b)
{
    return a->n_neighbours == b->n_neighbours &&
           memcmp(a->neighbours, b->neighbours, sizeof(a->neighbours)) == 0;
}

static void take(struct engine *engine, const struct mesh_port *port,
                 const struct beacon *beacon)
{
    struct engine_mesh *mesh = &engine->mesh;
    bool is_local = is_host(beacon, mesh->self.host_id);
    struct mesh_process *process;

    if (beacon->process == mesh->self.process || beacon->sender == mesh->self.process) {
        return;
    }
    process = process_of(engine, beacon);
    if (process == NULL) {
        return;
    }
    if (beacon->sequence < process->beacon.sequence) {
        return; /* late, or replayed */
    }
    /* A relay can be faster than the process itself, so the beacon need not be new here. */
    if (beacon->sender == beacon->process && port->ifindex != 0 && !is_local &&
        beacon->sequence > process->direct_sequence) {
        process->direct_sequence = beacon->sequence;
        process->direct_ns = io_now(engine->env);
        add_neighbour(mesh, beacon->process);
    }
    if (beacon->sequence == process->beacon.sequence) {
        return;
    }
    if (process->beacon.sequence != 0 && !is_same_mesh(&process->beacon, beacon)) {
        mesh->n_changes++;
    }
    process->beacon = *beacon;
    process->heard_ns = io_now(engine->env);
    process->must_forward = !is_local;
}

static void log_once(struct engine *engine, bool *is_logged, const char *what)
{
    if (!*is_logged) {
        *is_logged = true;
        weft_log(engine->env->log, WEFT_LOG_WARN, "beacons of %s are heard, and ignored",
                 what);
    }
}

/* Receives beacons. Returns false if some are left, which are read later so that other tasks can
 * run. */
static bool hear(struct engine *engine, struct mesh_port *port)
{
    struct engine_mesh *mesh = &engine->mesh;
    uint8_t bytes[IO_ANNOUNCEMENT_MAX];
    struct io_endpoint from;
    size_t n_bytes;

    for (int n = 0; port->announcer != NULL; n++) {
        struct beacon beacon;
        weft_status status;

        if (n == HEARD_MAX) {
            io_task_wake(&mesh->task);
            return false;
        }
        if (engine->env->oob->hear(port->announcer, bytes, sizeof(bytes), &n_bytes,
                                   &from) != 0) {
            return true;
        }
        status = beacon_decode(bytes, n_bytes, mesh->key, &beacon);
        if (status == WEFT_OK) {
            take(engine, port, &beacon);
        } else if (status == WEFT_ERR_UNSUPPORTED) {
            log_once(engine, &mesh->logged_versions, "another version of this plugin");
        } else if (status == WEFT_ERR_AUTH) {
            log_once(engine, &mesh->logged_jobs, "another NCCL_MESH_SECRET");
        }
    }
    return true;
}

/* ---- sending ---- */

static void announce(struct engine *engine, struct mesh_port *port,
                     const struct beacon *beacon)
{
    struct engine_mesh *mesh = &engine->mesh;
    const struct io_oob_ops *oob = engine->env->oob;
    uint8_t bytes[IO_ANNOUNCEMENT_MAX];
    int error;

    if (port->announcer == NULL &&
        oob->open_announcer(engine->env, port->ifindex, engine->config.announce_port,
                            &mesh->task, &port->announcer) != 0) {
        port->announcer = NULL;
        return; /* retried with the next beacon, because the interface may appear */
    }
    error =
        oob->announce(port->announcer, bytes, beacon_encode(beacon, mesh->key, bytes));
    if (error == ENODEV || error == ENXIO) {
        oob->close_announcer(port->announcer);
        port->announcer = NULL;
    }
}

static void announce_own(struct engine *engine)
{
    struct engine_mesh *mesh = &engine->mesh;
    weft_ns now = io_now(engine->env);

    mesh->announced_ns = now;
    mesh->announce_at_ns =
        now + (now - mesh->opened_ns < EAGER_FOR_NS ? EAGER_NS : PERIOD_NS);
    mesh->self.sequence++;
    for (uint32_t i = 0; i < mesh->n_ports; i++) {
        announce(engine, &mesh->ports[i], &mesh->self);
    }
}

/* Forwards new beacons of other hosts, if this process relays for its host. */
static void forward_others(struct engine *engine)
{
    struct engine_mesh *mesh = &engine->mesh;
    bool speaks = (mesh->self.flags & BEACON_MAY_RELAY) != 0 &&
                  engine_mesh_speaker(engine, mesh->self.host_id) == &mesh->self;

    for (uint32_t i = 0; i < mesh->n_processes; i++) {
        struct mesh_process *process = &mesh->processes[i];

        if (process->must_forward && speaks) {
            process->beacon.sender = mesh->self.process;
            for (uint32_t p = 0; p < mesh->n_ports; p++) {
                if (mesh->ports[p].ifindex != 0) {
                    announce(engine, &mesh->ports[p], &process->beacon);
                }
            }
        }
        process->must_forward = false;
    }
}

bool engine_mesh_progress(struct engine *engine)
{
    struct engine_mesh *mesh = &engine->mesh;
    bool all_heard = true;
    bool is_due;

    if (mesh->processes == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < mesh->n_ports; i++) {
        all_heard = hear(engine, &mesh->ports[i]) && all_heard;
    }
    /* After this process has stood still, the beacons of that time are in the queues. */
    mesh->n_unread = all_heard ? 0 : mesh->n_unread + 1;
    if (all_heard || mesh->n_unread > UNREAD_MAX) {
        forget(engine);
    }
    forward_others(engine);
    is_due = io_now(engine->env) >= mesh->announce_at_ns;
    if (is_due) {
        announce_own(engine);
    }
    io_task_deadline(&mesh->task, mesh->announce_at_ns);
    return is_due;
}
