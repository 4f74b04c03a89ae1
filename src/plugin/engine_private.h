/* What the files of the engine share. */
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
    ENGINE_TASK_RELAY,  /* registrations of its buffers */
    ENGINE_TASK_ONWARDS /* its connections to the next host */
};

enum engine_request_state {
    ENGINE_FREE,
    ENGINE_OPEN, /* waits in the comm's queue, or moves */
    ENGINE_DONE
};

struct engine_request {
    _Atomic int state; /* enum engine_request_state; DONE is the engine's to set */
    struct engine_comm *comm;
    struct engine_request *next; /* in one of the comm's lists */
    bool is_flush;
    uint32_t n; /* buffers; a flush tells no sizes: 0 */
    void *data[ENGINE_GROUP_MAX];
    size_t sizes[ENGINE_GROUP_MAX]; /* posted or sent; when DONE: of the messages */
    uint32_t tags[ENGINE_GROUP_MAX];
    const struct xfer_memory *memories[ENGINE_GROUP_MAX];
    struct flow_request *flow; /* moves */
};

struct engine_queue { /* of requests, in order */
    struct engine_request *first, *last;
};

enum engine_comm_state {
    ENGINE_COMM_NEW, /* its flow is not open yet; perhaps no way is known */
    ENGINE_COMM_CONNECTING,
    ENGINE_COMM_UP,
    ENGINE_COMM_FAILED,
    ENGINE_COMM_CLOSING /* its user has forgotten it */
};

struct engine_comm {
    struct engine *engine;
    bool is_sender;
    uint32_t from, to; /* of its flow */
    uint8_t traffic_class;
    _Atomic int
        state; /* enum engine_comm_state; the engine's thread's to set but CLOSING */
    /* The peer has closed in order: nothing is started any more, and what is open and not done
     * stays so. Set by the engine's thread, once. */
    _Atomic bool peer_closed;
    struct engine_comm *next; /* in the engine's list; its thread's */
    /* Work is left here: the comm is in the engine's list of kicked ones. */
    _Atomic bool is_kicked;
    struct engine_comm *next_kicked;
    /* Under the lock. */
    pthread_mutex_t lock;
    struct engine_queue incoming;
    struct engine_request *free;
    struct weft_error error; /* when FAILED */
    struct engine_request requests[ENGINE_REQUESTS];
    /* The engine's thread's. */
    struct flow *flow; /* Owned */
    struct engine_queue waiting, moving;
    struct engine_memory *forgotten; /* Owned; deregistered with requests open */
    bool is_closing;
    weft_ns close_by_ns;
    weft_ns route_by_ns; /* connectors: until when a way may be unknown; 0: not asked */
    uint8_t handle[CONN_HANDLE_BYTES]; /* connectors: as NCCL gave it */
    uint8_t relays[FLOW_LANES_MAX]
                  [16]; /* [n_relays] connectors: hosts its lanes begin at */
    uint32_t n_relays;
    struct engine_comm *next_pending; /* in engine->pending */
    struct engine_comm *next_closing; /* in engine->closing */
};

struct engine_listen {
    struct engine *engine;
    struct engine_listen *next;
    uint32_t id;
    struct engine_comm *comm; /* that came; not yet taken */
};

enum engine_call_kind { ENGINE_CALL_REGISTER, ENGINE_CALL_DEREGISTER, ENGINE_CALL_CLOSE };

struct engine_memory {
    struct xfer_memory memory;
    const struct engine_comm *comm; /* whose it is; Not owned */
    struct engine_memory *next;     /* in comm->forgotten */
};

/* What somebody waits for the engine to do. */
struct engine_call {
    enum engine_call_kind kind;
    struct engine_comm *comm;
    struct engine_memory *memory;
    struct engine_region region;
    bool is_started;
    bool is_kept; /* DEREGISTER: the comm has the memory's object now */
    _Atomic int is_done;
    weft_status status;
    struct weft_error error;
    struct engine_call *next;
};

#define MESH_PORTS_MAX 32u
#define MESH_PROCESSES_MAX 128u

struct mesh_port { /* a netdev with RDMA ports, or, ifindex 0, this host */
    uint32_t ifindex;
    struct io_announcer *announcer; /* Owned; NULL: not yet */
};

struct mesh_process { /* another one */
    struct beacon beacon;
    weft_ns heard_ns;   /* last, however far it came */
    weft_ns direct_ns;  /* from itself, over a cable; WEFT_NEVER: not at all */
    bool is_to_be_told; /* on the cables, as this host's relay */
};

/* What this process knows of others, and tells. */
struct engine_mesh {
    struct io_task task;
    uint8_t key[AUTH_KEY_BYTES];
    struct beacon self;
    struct mesh_port ports[MESH_PORTS_MAX];
    uint32_t n_ports;
    struct mesh_process
        *processes; /* Owned [MESH_PROCESSES_MAX]; in the order they came */
    uint32_t n_processes;
    weft_ns opened_ns, announced_ns, announce_at_ns;
    uint32_t n_changes; /* of who is there and who hears whom */
    bool told_versions, told_jobs;
};

/* A receiving end that was closed: its sender may have lost its lanes at that moment. */
struct engine_ended {
    uint32_t from, to;
    weft_ns until_ns; /* 0: none */
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
    struct relay *relay; /* Owned; NULL: this process does not */
    _Atomic uint32_t n_passing;
    _Atomic uint64_t bytes_passed;
    _Atomic int progress;              /* enum engine_progress */
    struct weft_error error;           /* when BROKEN */
    uint8_t handle[CONN_HANDLE_BYTES]; /* of the listener, with room for a number */
    struct engine_port *ports;         /* Owned [n_ports] */
    uint32_t n_ports;
    struct engine_comm *comms; /* Owned; all */
    struct engine_call *calls; /* under way; their callers' */
    struct engine_ended ended[ENGINE_ENDED_MAX];
    uint32_t n_ended; /* ever: the next one's place */
    struct conn
        *answered[ENGINE_ANSWERED_MAX]; /* Owned: with an end that is closed, closing */
    _Atomic(struct engine_comm *) kicked;
    /* Under the lock. */
    pthread_mutex_t lock;
    struct engine_listen *listens;
    struct engine_comm *pending; /* connectors that were not taken yet */
    struct engine_comm *opening; /* comms that the thread has not seen yet */
    struct engine_comm *closing; /* that their users have forgotten */
    struct engine_call *new_calls;
    struct engine_counters counters;
};

/* ---- engine_ports.c ---- */
/* Those that the user does not want: of no connection, and heard of by nobody. */
weft_status engine_ports_exclude(struct engine *engine) WEFT_MUST_CHECK;
void engine_ports_describe(struct engine *engine);

/* ---- engine_comm.c ---- */
struct engine_comm *engine_comm_create(struct engine *engine, bool is_sender,
                                       uint32_t from, uint32_t to);
void engine_comm_destroy(struct engine_comm *comm);
/* Opens its flow. */
void engine_comm_open(struct engine_comm *comm);
/* Does all that can be done now; false: it is gone. */
bool engine_comm_progress(struct engine_comm *comm);
void engine_comm_fail(struct engine_comm *comm, const struct weft_error *why);
/* Its user has forgotten it. Sends the peer all that it needs to end in order, and returns before
 * queue pairs and streams have ended; engine_comm_progress goes on. */
void engine_comm_close(struct engine_comm *comm);
/* Remembers what a receiving end had when it was closed. */
void engine_note_ended(struct engine *engine, const struct engine_comm *comm);
/* Whether a request that is open lies in `memory`. */
bool engine_comm_uses(struct engine_comm *comm, const struct xfer_memory *memory);
/* From any thread: it is to be looked at. */
void engine_comm_kick(struct engine_comm *comm);

/* ---- engine_request.c ---- */
void engine_queue_push(struct engine_queue *queue, struct engine_request *request);

/* ---- engine_memory.c ---- */
/* Goes on with what callers wait for. */
void engine_calls_progress(struct engine *engine);

/* ---- engine_mesh.c: beacons, and who is there ---- */
void engine_mesh_init(struct engine *engine);
/* Starts telling that `handle` is this process's. */
void engine_mesh_open(struct engine *engine, const uint8_t handle[CONN_HANDLE_BYTES]);
void engine_mesh_fini(struct engine *engine);
/* Hears, forgets, tells. */
void engine_mesh_progress(struct engine *engine);
/* The process of a handle of ours; NULL: not heard of. */
const struct beacon *engine_mesh_find(const struct engine *engine,
                                      const uint8_t handle[CONN_HANDLE_BYTES]);
/* Who forwards at the host, or, where nobody does, who is there; NULL: nobody is known. */
const struct beacon *engine_mesh_speaker(const struct engine *engine,
                                         const uint8_t host_id[16]);
/* The handle of a process by its place in this one's beacon, for relay_config. */
const uint8_t *engine_mesh_handle_of(void *context, uint32_t place);

/* ---- engine_route.c: which way to a handle ---- */
/* Fills in lanes: direct where a subnet is shared, else over relays. `via` is their storage.
 * AGAIN: no way is known yet. */
weft_status engine_route(struct engine *engine, const uint8_t handle[CONN_HANDLE_BYTES],
                         struct flow_config *out,
                         uint32_t via[FLOW_LANES_MAX][FLOW_VIA_MAX]) WEFT_MUST_CHECK;
/* Remembers at which hosts the lanes of a connector begin. */
void engine_route_note(struct engine_comm *comm, const struct flow_config *lanes);
/* flow_config.reroute; `user` is the comm. The same host's relay, or one that no other lane has. */
weft_status engine_reroute(void *user, uint32_t lane, uint8_t handle[CONN_HANDLE_BYTES],
                           uint32_t *via, uint32_t *out_n_via) WEFT_MUST_CHECK;
/* What the receiver has to know of the sender's lanes is in the sender's number. */
uint32_t engine_route_number(uint32_t random, const struct flow_config *lanes);
void engine_route_of_number(uint32_t number, struct flow_config *out,
                            uint32_t via[FLOW_LANES_MAX][FLOW_VIA_MAX]);

/* ---- engine_handle.c ---- */
#define ENGINE_HANDLE_ROOM 8u /* at the end, for what tells one listen from the others */
/* Makes room in a handle of conn's, by leaving out the last addresses. */
weft_status engine_handle_trim(uint8_t handle[CONN_HANDLE_BYTES],
                               struct weft_error *error) WEFT_MUST_CHECK;
void engine_handle_number(uint8_t handle[CONN_HANDLE_BYTES], uint32_t number);
/* Takes the number out again. WEFT_ERR_INPUT: there is none; WEFT_ERR_UNSUPPORTED: it is of
 * another version of this plugin. */
weft_status engine_handle_split(const uint8_t handle[CONN_HANDLE_BYTES],
                                uint8_t out[CONN_HANDLE_BYTES], uint32_t *out_number,
                                struct weft_error *error) WEFT_MUST_CHECK;

#endif
