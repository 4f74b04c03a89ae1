/* Definitions shared by the files of the engine. */
#ifndef WEFT_PLUGIN_ENGINE_PRIVATE_H
#define WEFT_PLUGIN_ENGINE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "plugin/beacon.h"
#include "plugin/engine.h"
#include "rdma/rdma.h"
#include "xfer/relay.h"
#include "xfer/wire.h"

enum engine_task_kind {
    ENGINE_TASK_MAIN = 1, /* calls, kicked comms, registrations, devices */
    ENGINE_TASK_LISTENER,
    ENGINE_TASK_ACCEPTED,
    ENGINE_TASK_FLOW,
    ENGINE_TASK_ASYNC,
    ENGINE_TASK_MESH,   /* beacons */
    ENGINE_TASK_RELAY,  /* registrations of the relay's buffers */
    ENGINE_TASK_ONWARDS /* the relay's connections to the next host */
};

enum engine_request_state {
    ENGINE_FREE,
    ENGINE_OPEN, /* queued in the comm, or in progress */
    ENGINE_DONE
};

struct engine_request {
    _Atomic int state; /* enum engine_request_state; only the engine sets DONE */
    struct engine_comm *comm;
    struct engine_request *next; /* in one of the comm's lists */
    bool is_flush;
    uint32_t n; /* number of buffers; 0 for a flush, which returns no sizes */
    void *data[ENGINE_GROUP_MAX];
    size_t sizes[ENGINE_GROUP_MAX]; /* posted or sent; once DONE, sizes of the messages */
    uint32_t tags[ENGINE_GROUP_MAX];
    const struct xfer_memory *memories[ENGINE_GROUP_MAX];
    struct flow_request *flow; /* valid while in progress */
};

struct engine_queue { /* Requests in order. */
    struct engine_request *first, *last;
};

enum engine_comm_state {
    ENGINE_COMM_NEW,        /* its flow is not open; for a connector, waits for a route */
    ENGINE_COMM_CONNECTING, /* its flow is open, but not up */
    ENGINE_COMM_UP,         /* moves messages */
    ENGINE_COMM_FAILED,     /* `error` is valid */
    ENGINE_COMM_CLOSING     /* closed by its user */
};

struct engine_comm {
    struct engine *engine;
    bool is_sender;
    uint32_t from, to; /* flow numbers of the two ends */
    uint8_t traffic_class;
    _Atomic int state; /* enum engine_comm_state; set only by the engine's thread */
    /* The peer closed in order. No request is started any more, and open ones never complete.
     * Set once, by the engine's thread. */
    _Atomic bool peer_closed;
    struct engine_comm *next; /* in the engine's list, used only by its thread */
    /* The comm has work and is in the engine's list of kicked comms. */
    _Atomic bool is_kicked;
    struct engine_comm *next_kicked;
    /* Protected by the lock. */
    pthread_mutex_t lock;
    struct engine_queue incoming;
    struct engine_request *free;
    struct weft_error error; /* valid if FAILED */
    struct engine_request requests[ENGINE_REQUESTS];
    /* Used only by the engine's thread. */
    struct flow *flow; /* Owned */
    struct engine_queue waiting, moving;
    struct engine_memory *forgotten; /* Owned; deregistered while requests used it */
    bool is_closing;
    bool has_stand_in; /* connectors: a lane over relays stands in for the cables */
    bool stands_in;    /* it does now, which was reported */
    weft_ns close_by_ns;
    weft_ns route_by_ns; /* connectors: deadline for finding a route; 0 if not started */
    uint8_t handle[CONN_HANDLE_BYTES]; /* connectors: as NCCL passed it */
    /* connectors: [n_relays] hosts at which the lanes begin; zeros for a direct lane */
    uint8_t relays[FLOW_LANES_MAX][16];
    uint32_t n_relays;
    struct engine_comm *next_pending; /* in engine->pending */
    char peer[80]; /* the peer's host, or "a host behind RELAY"; "" until it is known */
    /* state and counters when they were last seen to change, and when that was */
    uint64_t seen;
    weft_ns changed_ns; /* 0 if not looked at yet */
    uint32_t
        n_idle; /* looks since engine_connect() asked last; protected by the engine's lock */
    struct engine_comm *next_closing; /* in engine->closing */
};

struct engine_listen {
    struct engine *engine;
    struct engine_listen *next;
    uint32_t id;
    struct engine_comm *comm; /* arrived, and not returned by engine_accept() yet */
};

enum engine_call_kind { ENGINE_CALL_REGISTER, ENGINE_CALL_DEREGISTER, ENGINE_CALL_CLOSE };

struct engine_memory {
    struct xfer_memory memory;
    const struct engine_comm *comm; /* that it is registered for; Not owned */
    struct engine_memory *next;     /* in comm->forgotten */
};

/* A call that waits for the engine's thread. */
struct engine_call {
    enum engine_call_kind kind;
    struct engine_comm *comm;
    struct engine_memory *memory;
    struct engine_region region;
    bool is_started;
    bool is_kept; /* DEREGISTER: the comm now owns `memory` */
    _Atomic int is_done;
    weft_status status;
    struct weft_error error;
    struct engine_call *next;
};

#define MESH_PORTS_MAX 32u
#define MESH_PROCESSES_MAX 128u

struct mesh_port { /* A netdev with RDMA ports, or this host if ifindex is 0. */
    uint32_t ifindex;
    struct io_announcer *announcer; /* Owned; NULL if not open yet */
};

struct mesh_process { /* Another process. */
    struct beacon beacon;
    weft_ns first_ns;  /* first beacon */
    weft_ns heard_ns;  /* last new beacon, on any path */
    weft_ns direct_ns; /* last beacon from itself over a cable; WEFT_NEVER if none */
    uint32_t direct_sequence; /* of that beacon; 0 if none */
    bool must_forward;        /* must be forwarded on the cables by this host's relay */
};

struct mesh_gone { /* A process that was forgotten. */
    uint64_t process;
    uint32_t sequence; /* of its last beacon, which may be replayed */
};

/* The other processes that this one knows, and its own beacon. */
struct engine_mesh {
    struct io_task task;
    uint8_t key[AUTH_KEY_BYTES];
    struct beacon self;
    struct mesh_port ports[MESH_PORTS_MAX];
    uint32_t n_ports;
    /* Owned [MESH_PROCESSES_MAX]; in order of discovery */
    struct mesh_process *processes;
    uint32_t n_processes;
    struct mesh_gone gone[MESH_PROCESSES_MAX];
    uint32_t n_gone; /* total number; selects the next entry */
    weft_ns opened_ns, announced_ns, announce_at_ns;
    uint32_t n_changes; /* changes of the processes or of their neighbours */
    uint32_t n_unread;  /* looks in succession that left beacons unread */
    bool logged_versions, logged_jobs;
};

/* A receiving end that was closed. Its sender can have lost its lanes at that moment, and then
 * connects again to learn the final state. */
struct engine_ended {
    uint32_t from, to;
    weft_ns until_ns; /* kept until then; 0 if unused */
    uint8_t final[CONN_PURPOSE_BYTES];
};
#define ENGINE_ENDED_MAX 256u
#define ENGINE_ANSWERED_MAX 32u

struct engine {
    struct engine_config config;
    struct io_env *env; /* Not owned */
    struct io_task task, async_task;
    struct rdma *rdma;              /* Owned */
    struct conn_listener *listener; /* Owned */
    struct engine_mesh mesh;
    struct io_task relay_task;
    struct relay *relay; /* Owned; NULL if this process does not forward */
    _Atomic uint32_t n_passing;
    _Atomic uint64_t bytes_passed;
    _Atomic int progress;    /* enum engine_progress */
    struct weft_error error; /* valid if BROKEN */
    /* handle of the listener, with room for a number */
    uint8_t handle[CONN_HANDLE_BYTES];
    struct engine_port *ports; /* Owned [n_ports] */
    uint32_t n_ports;
    struct engine_comm *comms; /* Owned; all */
    struct engine_call *calls; /* in progress; owned by their callers */
    struct engine_ended ended[ENGINE_ENDED_MAX];
    uint32_t n_ended; /* total number; selects the next entry */
    /* when connectors without a route are looked at, and mesh.n_changes at the last time */
    weft_ns route_at_ns;
    uint32_t routed_changes;
    /* Owned: closing connections that were answered with a final state */
    struct conn *answered[ENGINE_ANSWERED_MAX];
    _Atomic(struct engine_comm *) kicked;
    /* Protected by the lock. */
    pthread_mutex_t lock;
    struct engine_listen *listens;
    struct engine_comm *pending; /* connectors not returned by engine_connect_as() yet */
    weft_ns idle_look_ns;        /* next look at `pending`; WEFT_NEVER if it was empty */
    struct engine_comm *opening; /* comms that the thread has not seen yet */
    struct engine_comm *closing; /* comms that their users have closed */
    struct engine_call *new_calls;
    struct engine_counters counters;
};

/* ---- engine_ports.c ---- */
/* Excludes the ports that the user does not want from connections and beacons. Fails if none is
 * left. */
weft_status engine_ports_exclude(struct engine *engine) WEFT_MUST_CHECK;
void engine_ports_describe(struct engine *engine);

/* ---- engine_comm.c ---- */
struct engine_comm *engine_comm_create(struct engine *engine, bool is_sender,
                                       uint32_t from, uint32_t to);
void engine_comm_destroy(struct engine_comm *comm);
/* Opens its flow; a connector needs a route for that. */
void engine_comm_open(struct engine_comm *comm);
/* Makes progress without blocking. Returns false if the comm must be removed. */
bool engine_comm_progress(struct engine_comm *comm);
void engine_comm_fail(struct engine_comm *comm, const struct weft_error *why);
/* Closes an end whose user has closed it. Sends the peer everything that it needs to end in
 * order, and returns before queue pairs and streams have ended; engine_comm_progress()
 * continues. */
void engine_comm_close(struct engine_comm *comm);
/* Remembers the final state of a receiving end that is closed. */
void engine_note_ended(struct engine *engine, const struct engine_comm *comm);
/* Returns true if an open request uses `memory`. */
bool engine_comm_uses(struct engine_comm *comm, const struct xfer_memory *memory);
/* Makes the engine's thread look at the comm. Callable from any thread. */
void engine_comm_kick(struct engine_comm *comm);
static inline void engine_queue_push(struct engine_queue *queue,
                                     struct engine_request *request)
{
    request->next = NULL;
    if (queue->first == NULL) {
        queue->first = request;
    } else {
        queue->last->next = request;
    }
    queue->last = request;
}

/* ---- engine_waits.c ---- */
/* Notes which comms have not changed since the last look. */
void engine_waits_look(struct engine *engine);
/* Appends for whom the comms wait, for what, how long already, and the last known reason, in a line
 * for each peer and kind. */
void engine_waits_describe(struct engine *engine, struct weft_text *out);
/* Remembers the name of the peer's host, once it is known. */
void engine_note_peer(struct engine_comm *comm);

/* ---- engine_setup.c ---- */
/* Closes connectors that NCCL has abandoned. Returns when to call it again unless a connector is
 * added; WEFT_NEVER if none is pending. */
weft_ns engine_pending_look(struct engine *engine);

/* ---- engine_memory.c ---- */
/* Advances the calls that other threads wait for. */
void engine_calls_progress(struct engine *engine);

/* ---- engine_mesh.c: beacons, and the processes that sent them ---- */
void engine_mesh_init(struct engine *engine);
/* Starts sending beacons that announce `handle`. */
void engine_mesh_open(struct engine *engine, const uint8_t handle[CONN_HANDLE_BYTES]);
void engine_mesh_fini(struct engine *engine);
/* Receives beacons, drops silent processes, and sends beacons. Returns true if the engine's own
 * beacon was due, which is once a second. */
bool engine_mesh_progress(struct engine *engine);
/* Returns the beacon of the process that made the handle; NULL if none was received. */
const struct beacon *engine_mesh_find(const struct engine *engine,
                                      const uint8_t handle[CONN_HANDLE_BYTES]);
/* Returns the beacon of the process that relays for the host, or of its first process in that
 * order if none relays. NULL if no process of the host is known. */
const struct beacon *engine_mesh_speaker(const struct engine *engine,
                                         const uint8_t host_id[16]);
/* Returns the handle of the process at index `place` of this process's beacon, for relay_config;
 * NULL if unknown. */
const uint8_t *engine_mesh_handle_of(void *context, uint32_t place);

/* ---- engine_route.c: routes to a handle ---- */
/* Sets the lanes. If a subnet is shared: a direct one, and one over relays that stands in for it
 * if there is a route. Otherwise: over relays. They point into `via`. Returns WEFT_AGAIN, with a
 * direct lane, if no route is known yet; it can then return something else when the mesh changes,
 * and at *out_again_ns. */
weft_status engine_route(struct engine *engine, const uint8_t handle[CONN_HANDLE_BYTES],
                         struct flow_config *out,
                         uint32_t via[FLOW_LANES_MAX][FLOW_VIA_MAX],
                         weft_ns *out_again_ns) WEFT_MUST_CHECK;
/* Remembers the hosts at which the lanes of a connector begin. */
void engine_route_note(struct engine_comm *comm, const struct flow_config *lanes);
/* Implements flow_config.reroute; `user` is the comm. Chooses the same host's relay, or else one
 * that no other lane uses. Returns WEFT_AGAIN if there is none. */
weft_status engine_reroute(void *user, uint32_t lane, uint8_t handle[CONN_HANDLE_BYTES],
                           uint32_t *via, uint32_t *out_n_via) WEFT_MUST_CHECK;
/* Encodes what the receiver must know of the sender's lanes in the sender's number. */
uint32_t engine_route_number(uint32_t random, const struct flow_config *lanes);
void engine_route_of_number(uint32_t number, struct flow_config *out,
                            uint32_t via[FLOW_LANES_MAX][FLOW_VIA_MAX]);

/* ---- engine_handle.c ---- */
#define ENGINE_HANDLE_ROOM 8u /* at the end of a handle, for the number of a listen */
/* Makes room in a handle of conn's: by its compact form, then by removing its last addresses. */
weft_status engine_handle_trim(uint8_t handle[CONN_HANDLE_BYTES],
                               struct weft_error *error) WEFT_MUST_CHECK;
void engine_handle_number(uint8_t handle[CONN_HANDLE_BYTES], uint32_t number);
/* Removes the number from the handle. Fails with WEFT_ERR_INPUT if there is none, and with
 * WEFT_ERR_UNSUPPORTED if it was made by another version of this plugin. */
weft_status engine_handle_split(const uint8_t handle[CONN_HANDLE_BYTES],
                                uint8_t out[CONN_HANDLE_BYTES], uint32_t *out_number,
                                struct weft_error *error) WEFT_MUST_CHECK;

#endif
