/* One member of a job: a rank, or a process without a rank that relays for its host. It consists of
 * an environment and all the machines that run on it, from discovery to an orderly end; the event
 * loop is host/loop.c.
 *
 *   DISCOVER   devices, ports, GIDs (rdma_open)
 *   LISTEN     a listener and its handle (conn_listen)
 *   BOOT       rendezvous: the handles, names and ports of all members (boot_gather)
 *   SETUP      if some host has several ranks: the inside of hosts (transport/inside.h)
 *   CONNECT    a flow to every rank that the plans of its rows send to, and one from every rank
 *              that they receive from
 *   BARRIER    no rank starts its jobs before all are connected
 *   JOBS       each row: fill, plan, run, verify
 *   CLOSE      wait for all; close connections in order, then the devices
 *   DONE, or FAILED: connections and devices closed; on failure the others were informed
 *
 * From CONNECT on, the first member of a host also forwards what others send through it, in any
 * state. Every wait has a deadline. A host never blocks. */
#ifndef WEFT_HOST_HOST_H
#define WEFT_HOST_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/wait.h"
#include "boot/boot.h"
#include "coll/cost.h"
#include "coll/oracle.h"
#include "conn/conn.h"
#include "conn/journal.h"
#include "io/env.h"
#include "rdma/rdma.h"
#include "transport/inside.h"
#include "xfer/flow.h"
#include "xfer/relay.h"

#define HOST_VIA_MAX FLOW_VIA_MAX /* maximum number of relays on one route */

/* Tags of a host's tasks, for host_dispatch. */
enum host_task_kind {
    HOST_TASK_MAIN = 1, /* watchdog, device set-up, GPU operations */
    HOST_TASK_BOOT,
    HOST_TASK_LISTENER,
    HOST_TASK_ACCEPTED, /* a connection opened by another member */
    HOST_TASK_FLOW,     /* a connection of a flow, opened here */
    HOST_TASK_RELAY,    /* a connection opened by the relay to its next hop */
    HOST_TASK_INSIDE,   /* a stream to or from another process of this host */
    HOST_TASK_ASYNC     /* async events of the devices */
};

/* One row of the result table: one size of one job. */
struct host_row {
    uint32_t job;         /* index into the scenario's jobs */
    struct coll_job coll; /* count is the number of whole elements in the size column */
    uint64_t size_bytes;  /* as run: rounded down to whole elements */
    uint32_t repeat;      /* timed iterations, at least 1 */
    weft_ns limit_ns;     /* limit of the watchdog for the whole row */
};

/* Results of one row on one rank. */
struct host_row_result {
    bool is_done;
    enum weft_algorithm algorithm;
    /* Owned [repeat + 1]: ends of the iterations, beginning with the warm-up */
    weft_ns *finished_ns;
    uint64_t n_wrong;     /* elements that differ in the verified iteration */
    uint64_t first_wrong; /* index of the first, if n_wrong > 0 */
};

/* A rail of a connection that this rank opened, or the connectors to a rank of its host, kept for
 * the report. */
struct host_connection {
    uint32_t to;                /* rank */
    uint32_t rail;              /* number of the rail, over all lanes of the flow */
    uint32_t via[HOST_VIA_MAX]; /* members that relay, in order */
    uint32_t n_via;
    char local_port[40], remote_port[40];
    union ibv_gid local_gid, remote_gid;
    enum ibv_gid_type gid_type;
    uint32_t path_mtu;     /* bytes */
    uint32_t vanished_mtu; /* a larger path MTU whose packets were lost before; or 0 */
    uint32_t n_qps;        /* on this rail */
    struct xfer_pace pace; /* of what was sent over it */
    weft_ns rtt_ns;        /* of a probe */
    /* For p2p and shm, of the fields above only `to` is set. */
    enum weft_transport transport;
    uint32_t n_channels;           /* for p2p and shm */
    char why[TRANSPORT_WHY_BYTES]; /* why this transport was chosen */
    weft_ns setup_ns;
};

/* Context of flow_config.reroute and flow_config.lane_failed. */
struct host_route {
    struct host *host; /* Not owned */
    uint32_t to;       /* rank */
};

/* A member as described by itself in the rendezvous. */
struct host_peer {
    char name[64];
    uint8_t host_id[16];
    uint8_t handle[CONN_HANDLE_BYTES];
    /* Owned [n_ports]; none in large jobs, which do not exchange them */
    struct rdma_port_facts *ports;
    uint32_t n_ports;
    struct host_route route;             /* context of both flows */
    struct flow *send, *receive;         /* Owned; NULL if the rows need none */
    struct transport_connector to, from; /* used by the jobs, over these flows */
    bool send_up, receive_up;            /* have been up */
};

/* The reason why a flow works without one of its ports. */
struct host_left_out {
    struct weft_error why;
    uint32_t peer; /* rank */
};

/* A description of the mesh that every member has from the start, from a scenario or a file. */
struct host_map {
    const struct mesh_graph
        *graph; /* Not owned. NULL if every pair of hosts is to be connected directly */
    const uint32_t *member_hosts; /* Not owned [n_members]: node of the graph */
};

struct host_event {
    enum ibv_event_type type;
    uint32_t device; /* index into env->devices */
    uint8_t port;    /* from 1, or 0 */
    char name[40];   /* name of the port, or of the device if the event has no port */
    weft_ns at_ns;
};
#define HOST_EVENTS_MAX 64

/* A member that this one waited for. */
struct host_wait {
    enum weft_wait_for what;
    uint32_t member;
};
#define HOST_WAITS_MAX 64

#define HOST_NO_MEMBER UINT32_MAX

enum host_state {
    HOST_NEW,      /* not started; waiting for start_ns */
    HOST_DISCOVER, /* waiting for the devices */
    HOST_LISTEN,   /* waiting for an address to listen on */
    HOST_BOOT,     /* waiting for the descriptions of all members */
    HOST_SETUP,    /* waiting for all-gathers about the inside of hosts */
    HOST_CONNECT,  /* waiting until the own flows are up */
    HOST_BARRIER,  /* waiting until all members are connected */
    HOST_JOBS,     /* running the rows */
    HOST_CLOSE,    /* waiting for all members, then for connections to close */
    HOST_DONE,     /* ended in order; connections and devices closed */
    HOST_FAILED,   /* failed; connections and devices closed */
    HOST_DEAD      /* its process was killed; nothing was freed and no message sent */
};
const char *host_state_name(enum host_state state); /* "jobs" */

/* Returns the phase of a failure in `state`, WEFT_PHASE_NONE where a member cannot fail. */
enum weft_phase host_state_phase(enum host_state state);

struct host_config {
    /* Members n_ranks..n_members-1 have no rank and no rows; they only relay. */
    uint32_t rank, n_ranks, n_members;
    const struct host_map *map;  /* Not owned; NULL is like a map without a graph */
    const struct host_row *rows; /* [n_rows]; must outlive the host */
    uint32_t n_rows;
    uint64_t seed; /* seed of the data */
    /* Not owned; shared by all ranks of this program; may be NULL */
    struct oracle_memo *answers;
    /* Memory has no storage: inputs are not filled, results not verified. */
    bool is_timing_only;
    struct conn_config conn;
    /* Only fields that are equal for all flows: buffers, failover and their times. */
    struct flow_config flow;
    struct relay_config relay;    /* only limits */
    const struct coll_mesh *mesh; /* Not owned; of n_ranks ranks */
    struct boot_config boot;      /* host_create sets rank, n_ranks and n_members */
    weft_ns start_ns;             /* start time of the process */
    weft_ns discover_ns;          /* limit of discovery (default 30 s) */
    weft_ns connect_ns;           /* limit for setting up all connections */
    weft_ns
        work_ns; /* how long others may work after this member's last row (default 0) */
    weft_ns close_ns; /* limit of the orderly end (default 30 s) */
};
/* Sets defaults of all fields except rank, rows, rendezvous and keys. */
void host_config_default(struct host_config *config);
/* Multiplies the limits of `config` by `patience` (rdma/timers.h). Call it once. */
void host_config_stretch(struct host_config *config, uint32_t patience);

struct host_private;
struct weft_text;

/* The state of a member. Other modules only read the fields. */
struct host {
    struct io_task task;
    struct io_env *env; /* Not owned. */
    struct host_config config;
    enum host_state state;
    struct rdma *rdma; /* Owned, as are all below; NULL while it does not exist */
    struct boot *boot;
    struct conn_listener *listener;
    struct relay *relay;     /* on the first member of a host */
    struct inside *inside;   /* if some host has several ranks */
    struct host_peer *peers; /* [n_members]; own entry: name, handle and ports only */
    bool has_peers;          /* `peers` was received in the rendezvous */
    struct host_row_result *results;     /* [n_rows] */
    uint32_t row;                        /* row in progress; n_rows when all are done */
    struct host_connection *connections; /* [n_connections] */
    uint32_t n_connections;
    struct host_left_out *left_out; /* [n_left_out], at most one per flow */
    uint32_t n_left_out;
    struct flow_counters flows;    /* sum over all destroyed flows */
    struct relay_counters relayed; /* counters of the relay, once it is destroyed */
    /* Completions of its connections' queues. */
    struct conn_journal journal;
    struct rdma_port_facts ports[16]; /* own ports, as discovered; re-read on failure */
    uint32_t n_ports;
    struct host_event events[HOST_EVENTS_MAX];
    uint32_t n_events;
    bool are_events_cut; /* there were more */
    enum host_state failed_in;
    struct weft_error error; /* the failure, if FAILED */
    uint32_t error_peer;     /* rank concerned by the failure, or HOST_NO_MEMBER */
    bool error_is_hearsay;   /* the error only reports that a peer gave up first */
    weft_ns error_ns;
    /* Owned [n_waits]; when it failed, or when host_note_waits() was called; the first ones */
    struct host_wait *waits;
    uint32_t n_waits;
    weft_ns waited_ns; /* for them until then */
    /* DEAD because it made no progress for hang_ns after another host ended */
    bool has_hung;
    weft_ns jobs_started_ns, jobs_ended_ns;
    struct host_private *private;
};

/* Creates a member on `env`, which host_destroy frees. It does nothing before host_start. Aborts
 * when out of memory. */
struct host *host_create(struct io_env *env, const struct host_config *config);
void host_start(struct host *host);
/* Handles a task of the host that was popped from the loop. */
void host_dispatch(struct host *host, struct io_task *task);
/* Marks the host DEAD because its process was killed. Sends nothing and frees nothing. */
void host_kill(struct host *host);
/* Like host_kill, for a host that makes no progress any more. */
void host_kill_hanging(struct host *host);
/* Notes in host->waits for whom the member waits now. A member that fails does so itself. */
void host_note_waits(struct host *host);
/* Appends its state, for whom it waits now, how long already, and the last known reasons. */
void host_describe_waits(struct host *host, struct weft_text *out);
/* Returns true if the state is DONE, FAILED or DEAD. */
bool host_is_over(const struct host *host);
/* Frees all resources that are left, in any state, and the host. NULL is ignored. */
void host_destroy(struct host *host);

#endif
