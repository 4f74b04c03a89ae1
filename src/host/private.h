/* Declarations shared by the files of host/. */
#ifndef WEFT_HOST_PRIVATE_H
#define WEFT_HOST_PRIVATE_H

#include "host/host.h"

/* ---- states.c ---- */

bool host_state_follows(enum host_state from, enum host_state to);
/* Discards host->error, so that it is not mixed with a later failure. For operations that may fail
 * in CLOSE, because all data has arrived. */
void host_forgive(struct host *host);
/* Returns the limit of the whole state; WEFT_NEVER if it has none. */
weft_ns host_state_limit(const struct host *host, enum host_state state);

/* ---- waits.c ---- */

/* Returns true if the member waited for a connection with `member` or for a message, as
 * host_note_waits() noted. */
bool host_waits_for(const struct host *host, uint32_t member);

/* ---- blob.c: the description of a member, gathered in the rendezvous ---- */

#define HOST_PORTS_MAX WEFT_LENGTH(((struct host *)NULL)->ports)
#define HOST_RELAY_BUFFERS_MAX 64
#define HOST_BLOB_VERSION 2
/* Blobs have the same size on all members; unused bytes are zero. */
#define HOST_GID_BYTES (16 + 1 + 1 + 4)
#define HOST_PORT_BYTES                                                                  \
    (40 + 4 + 1 + 4 + 4 + 8 + 1 + RDMA_FACTS_GIDS_MAX * HOST_GID_BYTES)
#define HOST_BLOB_SHORT_BYTES (4 + 64 + 16 + CONN_HANDLE_BYTES + 1)
#define HOST_BLOB_BYTES (HOST_BLOB_SHORT_BYTES + 16 * HOST_PORT_BYTES)

/* Returns the size of a member's blob: HOST_BLOB_BYTES, or in large jobs HOST_BLOB_SHORT_BYTES,
 * without its ports, because each member keeps the blobs of all. */
size_t host_blob_bytes(uint32_t n_members);
/* Writes name, host_id, handle and ports of `peer`; `n_bytes` is one of the two sizes. */
void host_blob_encode(const struct host_peer *peer, uint8_t *out, size_t n_bytes);
/* Fills the fields that host_blob_encode writes; allocates peer->ports, which the caller frees also
 * on failure. WEFT_ERR_PROTOCOL if the blob is invalid or has another version. */
weft_status host_blob_decode(const uint8_t *bytes, size_t n_bytes, struct host_peer *peer,
                             struct weft_error *error) WEFT_MUST_CHECK;

/* ---- lanes.c: the routes of flows ---- */

/* Returns the member that relays for the host of `member`: the first on that host. */
uint32_t host_owner(const struct host *host, uint32_t member);
/* Returns true if all members are known to be on this host, so that it needs no device. */
bool host_is_alone(const struct host *host);
/* Sets the lanes of the flow between two ranks. Both ends compute the same. */
void host_lanes(struct host *host, uint32_t from, uint32_t to, struct flow_config *out);

/* For flow_config.lane_failed: excludes the failed hop of a route for some time. */
void host_lane_failed(void *user, const uint16_t *via, uint32_t n_via,
                      const struct weft_error *why);
/* For flow_config.reroute: returns the best relayed route that avoids hops which failed recently,
 * or the lane's original route if there is none. */
weft_status host_reroute(void *user, uint32_t lane, uint8_t handle[CONN_HANDLE_BYTES],
                         uint32_t *via, uint32_t *out_n_via);

/* ---- connect.c: the flows of a rank, and its relay ---- */

/* Starts a flow to and from every peer that the rows need, and the relay. */
weft_status host_connect_all(struct host *host) WEFT_MUST_CHECK;
/* Advances the listener and assigns the connections that it accepted to flows and to the relay. */
weft_status host_accept(struct host *host) WEFT_MUST_CHECK;
/* Advances the owner of `conn`, whose task was woken. An error is in host->error. */
weft_status host_connection_progress(struct host *host,
                                     struct conn *conn) WEFT_MUST_CHECK;
/* Returns true if `error` only says that the peer failed first (phase "peer") or reconnected (phase
 * "epoch"), or that a relay's connection onwards did not come up: the cause is not here. */
bool host_is_hearsay(const struct weft_error *error);
/* Returns the member that host->error of a flow with `member` concerns: the next hop if the error
 * names one, otherwise `member`. */
uint32_t host_concerned(const struct host *host, uint32_t member);
/* Finds a flow that cannot move data now, trying those with rank `first` (or HOST_NO_MEMBER) before
 * others. Copies its error to host->error and returns the member concerned, or HOST_NO_MEMBER if
 * all flows work. */
uint32_t host_trouble(struct host *host, uint32_t first);
/* Replaces host->error with the failure that this host's relay recorded, if host->error is only a
 * report by a peer or a relay. */
void host_relay_trouble(struct host *host);
/* Appends a copy of `of` to host->connections, for the report. Valid until the next call. */
struct host_connection *host_note(struct host *host, const struct host_connection *of);
/* Handles an async event of a device: refreshes the ports, and passes the event to the flows and
 * the relay. */
void host_device_event(struct host *host, uint32_t device,
                       const struct io_async_event *event);
bool host_all_connected(const struct host *host);
/* Returns true if a flow to or from `rank` is not up yet. */
bool host_connects_to(const struct host *host, uint32_t rank);
/* Starts closing all flows in order. */
void host_close_all(struct host *host);
/* Advances closing. Returns WEFT_OK once all connections are closed and destroyed, WEFT_AGAIN
 * before that. */
weft_status host_closing_progress(struct host *host) WEFT_MUST_CHECK;
/* Destroys all connections at once, from any state. */
void host_drop_all(struct host *host);

/* ---- inside.c: the inside of hosts ---- */

/* Opens host->inside, unless every host has only one rank. */
weft_status host_inside_open(struct host *host) WEFT_MUST_CHECK;
/* Starts the next all-gather of SETUP, if there is one. */
weft_status host_inside_round(struct host *host) WEFT_MUST_CHECK;
/* Processes the result of an all-gather and starts the next one. */
weft_status host_inside_take(struct host *host) WEFT_MUST_CHECK;
/* Returns true if no all-gather of SETUP is left. */
bool host_inside_is_gathered(const struct host *host);
/* Advances the connections inside the host. `task` is that of the woken stream; NULL for all. */
weft_status host_inside_progress(struct host *host, struct io_task *task) WEFT_MUST_CHECK;
/* Returns true if data to or from a rank goes over the network. */
bool host_inside_leaves(const struct host *host, uint32_t rank, bool is_sender);
bool host_inside_is_up(const struct host *host);
/* Writes the reason for the transport chosen for data to a rank. */
void host_inside_why(const struct host *host, uint32_t rank,
                     char out[TRANSPORT_WHY_BYTES]);
/* Closes the streams at once, with the reason if the host failed. Memory is kept. */
void host_inside_stop(struct host *host);

/* ---- events.c ---- */

/* Takes the pending events of all devices, into host->events and to the flows. Fails, with
 * host->error, if no device is left. */
weft_status host_take_events(struct host *host);
/* Passes members that ended, as reported by the launcher, to boot. They stay queued while there is
 * no boot. */
void host_hear_of_ends(struct host *host);

/* ---- jobs.c: the rows of the table ---- */

/* Sets to true the ranks that the plans of all rows send to and receive from: [n_ranks] each,
 * initially false. */
weft_status host_jobs_peers(struct host *host, bool *sends_to,
                            bool *receives_from) WEFT_MUST_CHECK;

/* Sets bits for the channels on which the plans of all rows send to and receive from each rank:
 * [n_ranks] each, initially 0. */
weft_status host_jobs_channels(struct host *host, uint32_t *send_channels,
                               uint32_t *receive_channels) WEFT_MUST_CHECK;

struct host_jobs {
    struct coll_links links; /* arrays Owned */
    struct coll_exec *exec;  /* Owned */
    struct coll_plan plan;
    bool has_plan;
    /* Owned GPU memory for the largest row, kept to the end because a NIC can read it until its
     * world stops. */
    void *input, *output;
    /* Owned; CPU memory for filling and checking; NULL if the CPU can access GPU memory, or for
     * timing only */
    void *shadow;
    size_t input_bytes, output_bytes; /* buffer sizes of the present row */
    size_t allocated_input, allocated_output;
    bool is_registered, is_in_place; /* state of the last registration */
    /* Present run of the executor within the row, and their number. */
    uint32_t run, n_runs;
    uint32_t iterations;      /* iterations of this run */
    uint32_t iterations_done; /* iterations recorded for the row, including the warm-up */
    bool is_running;
};

weft_status host_jobs_open(struct host *host) WEFT_MUST_CHECK;
/* Advances the rows. Returns WEFT_OK once all are done. */
weft_status host_jobs_progress(struct host *host) WEFT_MUST_CHECK;
/* Stops execution while the connections still exist. Keeps the memory, because a NIC can use it
 * until the world stops. */
void host_jobs_close(struct host *host);
/* Frees everything, including the memory. */
void host_jobs_fini(struct host *host);

#define HOST_FAILED_HOPS 32

struct host_private {
    struct io_task async;
    struct host_failed_hop {
        uint32_t a, b; /* hosts, as nodes of the graph */
        weft_ns until_ns;
    } failed_hops[HOST_FAILED_HOPS]; /* oldest overwritten */
    uint32_t n_failed_hops;          /* number of entries ever written */
    struct mesh_routes routes;       /* routes of all pairs, in small meshes */
    bool has_routes;
    uint32_t via[FLOW_LANES_MAX][HOST_VIA_MAX]; /* relays of the flow being configured */
    /* Owned [n_flows]: ranks with a flow or connector, in order of connecting */
    uint32_t *flows;
    uint32_t n_flows;
    struct host_jobs jobs;
    weft_ns watchdog_ns;
    weft_ns since_ns;  /* when the present state or row began */
    bool is_overdue;   /* the watchdog ended it */
    weft_ns listen_ns; /* time of the first attempt to listen; 0 if there was none */
    /* In CLOSE: all members are done, and connections are being closed. */
    bool is_closing;
    bool is_gathered; /* in SETUP: no all-gather is left */
};

/* Sets the watchdog to fire at `at`. */
static inline void host_watchdog(struct host *host, weft_ns at)
{
    host->private->watchdog_ns = at;
    host->private->since_ns = host->env->ops->now(host->env);
    io_task_deadline(&host->task, at);
}

#endif
