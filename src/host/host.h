/* One member of a job: a rank, or a process without a rank that relays for its host. An
 * environment and all the machines that run on it, from discovery to an orderly end, and the
 * only event loop of the program (host/loop.h).
 *
 *   DISCOVER   devices, ports, GIDs (rdma_open)
 *   LISTEN     a listener and its handle (conn_listen)
 *   BOOT       rendezvous; everybody's handle, name and ports (boot_gather)
 *   SETUP      if some host has several ranks: what is inside hosts (transport/inside.h)
 *   CONNECT    a flow to every rank that the plans of its rows send to, one from every rank
 *              that they receive from
 *   BARRIER    nobody starts before everybody is connected
 *   JOBS       each row: fill, plan, run, verify
 *   CLOSE      wait for all, connections closed in order, everything given back
 *   DONE, or FAILED: everything given back, the others told
 *
 * From CONNECT on, the first member of a host also forwards what others send through it,
 * whatever its own state. Every wait has a deadline. A host never blocks. */
#ifndef WEFT_HOST_HOST_H
#define WEFT_HOST_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
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

#define HOST_VIA_MAX FLOW_VIA_MAX /* relays on one way */

/* The tags of a rank's tasks; host_dispatch switches on them. */
enum host_task_kind {
    HOST_TASK_MAIN = 1, /* watchdog, device set-up, GPU operations */
    HOST_TASK_BOOT,
    HOST_TASK_LISTENER,
    HOST_TASK_ACCEPTED, /* a connection that another member made */
    HOST_TASK_FLOW,     /* a connection of a flow that sends from here */
    HOST_TASK_RELAY,    /* a connection that a relay made to its next hop */
    HOST_TASK_INSIDE,   /* a stream to or from another process of this host */
    HOST_TASK_ASYNC     /* async events of the devices */
};

/* One row of the result table: one size of one job. */
struct host_row {
    uint32_t job;         /* index into the scenario's jobs */
    struct coll_job coll; /* count: whole elements of the size column */
    uint64_t size_bytes;  /* as run, rounded down to whole elements */
    uint32_t repeat;      /* timed iterations, at least 1 */
    weft_ns limit_ns;     /* watchdog for the whole row: generous */
};

/* What a rank measured of a row. */
struct host_row_result {
    bool is_done;
    enum coll_algorithm algorithm;
    weft_ns *finished_ns; /* Owned [repeat + 1]: the warm-up's end first */
    uint64_t n_wrong;     /* elements of the verified iteration that differ */
    uint64_t first_wrong; /* index of the first, if n_wrong > 0 */
};

/* A rail of a connection that this rank made, or a connector inside its host, kept for the
 * report. */
struct host_connection {
    uint32_t to;                /* rank */
    uint32_t rail;              /* counted over the lanes of the flow */
    uint32_t via[HOST_VIA_MAX]; /* members that relay, in order */
    uint32_t n_via;
    char local_port[40], remote_port[40];
    union ibv_gid local_gid, remote_gid;
    enum ibv_gid_type gid_type;
    uint32_t path_mtu;             /* bytes */
    uint32_t vanished_mtu;         /* tried before, and its packets vanished; or 0 */
    uint32_t n_qps;                /* on this rail */
    enum transport_kind transport; /* of p2p and shm: none of the above, but `to` */
    uint32_t n_channels;           /* of p2p and shm */
    char why[TRANSPORT_WHY_BYTES]; /* ... this one, and no other */
    weft_ns setup_ns;
};

/* What host_reroute needs to know of a flow. */
struct host_route {
    struct host *host; /* Not owned */
    uint32_t to;       /* rank */
};

/* A member as it described itself in the rendezvous. */
struct host_peer {
    char name[64];
    uint8_t host_id[16];
    uint8_t handle[CONN_HANDLE_BYTES];
    struct rdma_port_facts *ports; /* Owned [n_ports]; in large jobs nobody tells them */
    uint32_t n_ports;
    struct host_route route;             /* of both flows */
    struct flow *send, *receive;         /* Owned; NULL: the rows need none */
    struct transport_connector to, from; /* in the jobs, over these flows */
    bool send_up, receive_up;            /* were so once */
};

/* Why a port was left out of a flow that worked without it. */
struct host_left_out {
    struct weft_error why;
    uint32_t peer; /* rank */
};

/* What every member knows of the mesh beforehand: a description of it, as a scenario or a
 * file of the cluster gives it. */
struct host_map {
    const struct mesh_graph
        *graph;                   /* Not owned. NULL: every pair is taken to be direct */
    const uint32_t *member_hosts; /* Not owned [n_members]: node of the graph */
};

struct host_event {
    enum ibv_event_type type;
    uint32_t device; /* index into env->devices */
    uint8_t port;    /* from 1, or 0 */
    char name[40];   /* of the port; of the device if it is about none */
    weft_ns at_ns;
};
#define HOST_EVENTS_MAX 64
#define HOST_NOBODY UINT32_MAX

enum host_state {
    HOST_NEW,
    HOST_DISCOVER,
    HOST_LISTEN,
    HOST_BOOT,
    HOST_SETUP,
    HOST_CONNECT,
    HOST_BARRIER,
    HOST_JOBS,
    HOST_CLOSE,
    HOST_DONE,
    HOST_FAILED,
    HOST_DEAD /* its process was killed: nothing was given back, nobody was told */
};
const char *host_state_name(enum host_state state); /* "jobs" */

struct host_config {
    /* Members n_ranks..n_members-1 have no rank: they only relay, and have no rows. */
    uint32_t rank, n_ranks, n_members;
    const struct host_map *map;  /* Not owned; NULL as one without a graph */
    const struct host_row *rows; /* [n_rows]; outlive the host */
    uint32_t n_rows;
    uint64_t seed;               /* of the data */
    struct oracle_memo *answers; /* Not owned; of all ranks of this program; NULL: none */
    bool
        is_timing_only; /* memory holds nothing: inputs are not filled, results not judged */
    struct conn_config conn;
    /* Only what is the same for all: buffers, failover and their times. */
    struct flow_config flow;
    struct relay_config relay;    /* likewise: limits */
    const struct coll_mesh *mesh; /* Not owned. Of n_ranks ranks */
    struct boot_config boot;      /* rank and n_ranks are filled in */
    weft_ns start_ns;             /* when the process starts */
    weft_ns discover_ns;          /* limit for discovery: 30 s */
    weft_ns connect_ns;           /* limit for all connections together */
    weft_ns close_ns;             /* limit for the orderly end: 30 s */
};
/* Defaults of everything but rank, rows, rendezvous and keys. */
void host_config_default(struct host_config *config);

struct host_private;

/* Fields are for reading. */
struct host {
    struct io_task task;
    struct io_env *env; /* Not owned. */
    struct host_config config;
    enum host_state state;
    struct rdma *rdma; /* Owned, as all below; NULL outside their time */
    struct boot *boot;
    struct conn_listener *listener;
    struct relay *relay;     /* of the first member of a host */
    struct inside *inside;   /* where some host has several ranks */
    struct host_peer *peers; /* [n_members]; own entry: name, handle and ports only */
    bool has_peers;          /* the rendezvous told */
    struct host_row_result *results;     /* [n_rows] */
    uint32_t row;                        /* being run; n_rows when all are done */
    struct host_connection *connections; /* [n_connections] */
    uint32_t n_connections;
    struct host_left_out *left_out; /* [n_left_out], one a flow at most */
    uint32_t n_left_out;
    struct flow_counters flows;    /* of all flows that are gone, summed */
    struct relay_counters relayed; /* of the relay, once it is gone */
    /* what the queues of its connections completed */
    struct conn_journal journal;
    struct rdma_port_facts ports[16]; /* own, as discovered; last re-read at failure */
    uint32_t n_ports;
    struct host_event events[HOST_EVENTS_MAX];
    uint32_t n_events;
    enum host_state failed_in;
    struct weft_error error; /* when FAILED */
    uint32_t error_peer;     /* rank it happened with, or HOST_NOBODY */
    bool error_is_hearsay;   /* a peer gave up first and said so: not the cause */
    weft_ns error_ns;
    bool has_hung; /* DEAD because it did nothing any more, long after another was over */
    weft_ns jobs_started_ns, jobs_ended_ns;
    struct host_private *private;
};

/* Makes a member on `env`; nothing happens before host_start. Aborts when out of memory. */
struct host *host_create(struct io_env *env, const struct host_config *config);
void host_start(struct host *host);
/* One of the host's tasks was popped from the loop. */
void host_dispatch(struct host *host, struct io_task *task);
/* Its process was killed: forgets everything without a word. */
void host_kill(struct host *host);
/* The same, of one that does nothing any more. */
void host_kill_hanging(struct host *host);
/* DONE, FAILED or DEAD. */
bool host_is_over(const struct host *host);
/* Gives back what is left, in any state. NULL is ignored. */
void host_destroy(struct host *host);

#endif
