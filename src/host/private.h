/* What the files of host/ share. */
#ifndef WEFT_HOST_PRIVATE_H
#define WEFT_HOST_PRIVATE_H

#include "host/host.h"

/* ---- states.c ---- */

bool host_state_follows(enum host_state from, enum host_state to);
/* For the whole state; WEFT_NEVER: none. */
weft_ns host_state_limit(const struct host *host, enum host_state state);

/* ---- blob.c: what a rank tells all others in the rendezvous ---- */

#define HOST_PORTS_MAX WEFT_LENGTH(((struct host *)NULL)->ports)
#define HOST_RELAY_BUFFERS_MAX 64
#define HOST_BLOB_VERSION 1
/* The same on all ranks: unused room is zero. */
#define HOST_GID_BYTES (16 + 1 + 1 + 4)
#define HOST_PORT_BYTES                                                                  \
    (40 + 4 + 1 + 4 + 4 + 8 + 1 + RDMA_FACTS_GIDS_MAX * HOST_GID_BYTES)
#define HOST_BLOB_SHORT_BYTES (4 + 64 + 16 + CONN_HANDLE_BYTES + 1)
#define HOST_BLOB_BYTES (HOST_BLOB_SHORT_BYTES + 16 * HOST_PORT_BYTES)

/* What each member tells: HOST_BLOB_BYTES, or in large jobs, where everybody would hold as
 * much of everybody, HOST_BLOB_SHORT_BYTES, without its ports. */
size_t host_blob_bytes(uint32_t n_members);
/* Writes name, host_id, handle and ports of `peer`, into one of the two sizes. */
void host_blob_encode(const struct host_peer *peer, uint8_t *out, size_t n_bytes);
/* Fills the same fields; peer->ports is allocated. WEFT_ERR_PROTOCOL: no blob of ours. */
weft_status host_blob_decode(const uint8_t *bytes, size_t n_bytes, struct host_peer *peer,
                             struct weft_error *error) WEFT_MUST_CHECK;

/* ---- lanes.c: over which ways the data of a pair goes ---- */

/* The member that relays for its host: the first that lives there. */
uint32_t host_owner(const struct host *host, uint32_t member);
/* Whether no member can be on another host: then no device need be there. */
bool host_is_alone(const struct host *host);
/* Fills the lanes of the flow between two ranks: both ends find the same. */
void host_lanes(struct host *host, uint32_t from, uint32_t to, struct flow_config *out);

/* flow_config.lane_failed: leaves out the hop of a route that failed, for a while. */
void host_lane_failed(void *user, const uint16_t *via, uint32_t n_via,
                      const struct weft_error *why);
/* flow_config.reroute: the best route over relays without the hops that failed lately, or the first
 * route of all if none is left. */
weft_status host_reroute(void *user, uint32_t lane, uint8_t handle[CONN_HANDLE_BYTES],
                         uint32_t *via, uint32_t *out_n_via);

/* ---- connect.c: the flows of a rank, and its relay ---- */

/* Starts a flow to and from every peer that the rows need, and the relay. */
weft_status host_connect_all(struct host *host) WEFT_MUST_CHECK;
/* Serves the listener and takes what it accepted. */
weft_status host_accept(struct host *host) WEFT_MUST_CHECK;
/* The task of `conn` was woken: moves on whatever owns it. An error is in host->error. */
weft_status host_connection_progress(struct host *host,
                                     struct conn *conn) WEFT_MUST_CHECK;
/* The peer failed first, and said so: it closed, or came with a new epoch. */
bool host_is_hearsay(const struct weft_error *error);
/* Returns the member that host->error of a flow with `member` concerns: the next hop, where that is
 * not the flow's end. */
uint32_t host_concerned(const struct host *host, uint32_t member);
/* Returns the member with which data cannot move now, and puts the error into host->error. Flows
 * with rank `first` (or HOST_NOBODY) come before others. HOST_NOBODY: none. */
uint32_t host_trouble(struct host *host, uint32_t first);
/* What this host's relay met itself tells more than what others gave up because of it: takes the
 * place of hearsay in host->error. */
void host_relay_trouble(struct host *host);
/* Appends to what the host made, for the report. */
struct host_connection *host_note(struct host *host, const struct host_connection *of);
/* An async event of a device: ports and devices that come and go are the flows' business. */
void host_device_event(struct host *host, uint32_t device,
                       const struct io_async_event *event);
bool host_all_connected(const struct host *host);
/* Returns true if a flow to or from `rank` is not up yet. */
bool host_connects_to(const struct host *host, uint32_t rank);
/* Starts closing all flows in order. */
void host_close_all(struct host *host);
/* WEFT_OK: all are closed and gone. AGAIN: wait. */
weft_status host_closing_progress(struct host *host) WEFT_MUST_CHECK;
/* At once, from any state. */
void host_drop_all(struct host *host);

/* ---- inside.c: what is inside this rank's host, and others' ---- */

/* Nothing is opened where every host has one rank. */
weft_status host_inside_open(struct host *host) WEFT_MUST_CHECK;
/* Starts the next all-gather, if there is one. */
weft_status host_inside_round(struct host *host) WEFT_MUST_CHECK;
/* Takes its result, and starts the next. */
weft_status host_inside_take(struct host *host) WEFT_MUST_CHECK;
/* There was no other. */
bool host_inside_is_told(const struct host *host);
/* `task`: of the stream that was woken. */
weft_status host_inside_progress(struct host *host, struct io_task *task) WEFT_MUST_CHECK;
/* Whether data to or from a rank goes over the network. */
bool host_inside_leaves(const struct host *host, uint32_t rank, bool is_sender);
bool host_inside_is_up(const struct host *host);
/* Why data to a rank takes the transport that it does. */
void host_inside_why(const struct host *host, uint32_t rank,
                     char out[TRANSPORT_WHY_BYTES]);
/* Ends streams at once; tells why if the host failed. Memory stays to the end. */
void host_inside_stop(struct host *host);

/* ---- events.c ---- */

/* Takes what the devices have to say: into host->events, and to the flows. An error: no device is
 * left, and host->error says so. */
weft_status host_take_events(struct host *host);
/* Members that ended, as whoever started them says: kept until there is a boot to tell. */
void host_hear_of_ends(struct host *host);

/* ---- jobs.c: the rows of the table ---- */

/* Which ranks the plans of all rows send to and receive from: [n_ranks] each, false before.
 */
weft_status host_jobs_peers(struct host *host, bool *sends_to,
                            bool *receives_from) WEFT_MUST_CHECK;

/* The same by channels, as bits. */
weft_status host_jobs_channels(struct host *host, uint32_t *send_channels,
                               uint32_t *receive_channels) WEFT_MUST_CHECK;

struct host_jobs {
    struct coll_links links; /* arrays Owned */
    struct coll_exec *exec;  /* Owned */
    struct coll_plan plan;
    bool has_plan;
    void *input, *output; /* Owned GPU memory, for the largest row; kept to the end: a
                           * NIC may read it until its world stops */
    void *shadow;         /* Owned; where the CPU fills and checks, if not in place */
    size_t input_bytes, output_bytes; /* of the row */
    size_t allocated_input, allocated_output;
    bool is_registered, is_in_place; /* as registered */
    uint32_t run, n_runs;            /* of the executor, within the row */
    uint32_t iterations;             /* of this run */
    uint32_t iterations_done;        /* of the row's timed runs, the warm-up included */
    bool is_running;
};

weft_status host_jobs_open(struct host *host) WEFT_MUST_CHECK;
/* WEFT_OK: all rows are done. */
weft_status host_jobs_progress(struct host *host) WEFT_MUST_CHECK;
/* Ends execution while the connections are still there. Memory is kept: a NIC may use
 * it until the world stops. */
void host_jobs_close(struct host *host);
/* Frees the memory as well. */
void host_jobs_fini(struct host *host);

#define HOST_FAILED_HOPS 32

struct host_private {
    struct io_task async;
    struct host_failed_hop {
        uint32_t a, b; /* hosts, as nodes of the graph */
        weft_ns until_ns;
    } failed_hops[HOST_FAILED_HOPS]; /* oldest overwritten */
    uint32_t n_failed_hops;          /* ever */
    struct mesh_routes routes;       /* of all pairs, in meshes small enough */
    bool has_routes;
    uint32_t via[FLOW_LANES_MAX][HOST_VIA_MAX]; /* of the flow being configured */
    uint32_t *flows; /* Owned [n_flows]: members with a flow, in order of connecting */
    uint32_t n_flows;
    struct host_jobs jobs;
    weft_ns watchdog_ns;
    weft_ns listen_ns; /* when it was first tried to listen; 0: it was not yet */
    bool is_closing;   /* in CLOSE: everybody is done, connections are going */
    bool is_told;      /* in SETUP: no all-gather is left */
};

/* Sets the watchdog of what is under way. */
void host_watchdog(struct host *host, weft_ns at);

#endif
