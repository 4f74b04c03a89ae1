/* What the files of host/ share. */
#ifndef WEFT_HOST_PRIVATE_H
#define WEFT_HOST_PRIVATE_H

#include "host/host.h"

/* ---- blob.c: what a rank tells all others in the rendezvous ---- */

#define HOST_PORTS_MAX WEFT_LENGTH(((struct host_peer *)NULL)->ports)
#define HOST_BLOB_VERSION 1
/* The same on all ranks: unused room is zero. */
#define HOST_GID_BYTES (16 + 1 + 1 + 4)
#define HOST_PORT_BYTES                                                                  \
    (40 + 4 + 1 + 4 + 4 + 8 + 1 + RDMA_FACTS_GIDS_MAX * HOST_GID_BYTES)
#define HOST_BLOB_BYTES (4 + 64 + 16 + CONN_HANDLE_BYTES + 1 + 16 * HOST_PORT_BYTES)

/* Writes name, host_id, handle and ports of `peer`. */
void host_blob_encode(const struct host_peer *peer, uint8_t out[HOST_BLOB_BYTES]);
/* Fills the same fields. WEFT_ERR_PROTOCOL: no blob of ours. */
weft_status host_blob_decode(const uint8_t bytes[HOST_BLOB_BYTES], struct host_peer *peer,
                             struct weft_error *error) WEFT_MUST_CHECK;

/* ---- connect.c: the connections of a rank ---- */

/* The rank that `conn` leads to, or HOST_NOBODY. */
uint32_t host_rank_of(const struct host *host, const struct conn *conn);
/* Starts a connection to every peer. */
weft_status host_connect_all(struct host *host) WEFT_MUST_CHECK;
/* Serves the listener and takes what it accepted. */
weft_status host_accept(struct host *host) WEFT_MUST_CHECK;
/* Moves one connection on, whatever it is doing. An error is in host->error. */
weft_status host_connection_progress(struct host *host,
                                     struct conn *conn) WEFT_MUST_CHECK;
bool host_all_connected(const struct host *host);
/* Starts closing all connections in order. */
void host_close_all(struct host *host);
/* WEFT_OK: all are closed and gone. AGAIN: wait. */
weft_status host_closing_progress(struct host *host) WEFT_MUST_CHECK;
/* At once, from any state. */
void host_drop_all(struct host *host);

/* ---- jobs.c: the rows of the table ---- */

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

struct host_private {
    struct io_task async;
    struct host_jobs jobs;
    weft_ns watchdog_ns;
    bool is_closing; /* in CLOSE: everybody is done, connections are going */
};

/* Sets the watchdog of what is under way. */
void host_watchdog(struct host *host, weft_ns at);

#endif
