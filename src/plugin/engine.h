/* The plugin's inside, without NCCL's types: one engine a process, which owns the devices, one
 * listener and all ends of connections, and is run by one thread (or, in tests, by whoever
 * steps a simulated world). Everybody else only leaves work at a comm and reads results.
 *
 *   any thread                       the engine's thread
 *   isend, irecv         ──queue──▶  flow_isend, flow_irecv (xfer/flow.h)
 *   test                 ◀──state──  flow_test
 *   connect, accept      ◀──state──  flow_open, conn_accept
 *   register, close      ──call──▶   flow_register, flow_close
 *
 * Locks: the engine's, for set-up only; each comm's own, for its queue. Nothing is allocated by
 * isend, irecv and test. docs/plugin.md. */
#ifndef WEFT_PLUGIN_ENGINE_H
#define WEFT_PLUGIN_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "conn/conn.h"
#include "io/world.h"
#include "xfer/flow.h"

#define ENGINE_GROUP_MAX XFER_MULTI_MAX
#define ENGINE_REQUESTS (XFER_SLOTS * XFER_MULTI_MAX) /* of one comm */

#define ENGINE_ANNOUNCE_PORT 22343

struct engine;
struct engine_listen;  /* waits for one connection */
struct engine_comm;    /* one end of a connection */
struct engine_memory;  /* registered for one comm */
struct engine_request; /* of one comm */

struct engine_config {
    struct world *world; /* Not owned; its host 0 unless told */
    uint32_t host;
    const char *hca; /* ports to be used, as rdma_nccl_opens has it; NULL: all */
    bool names_host; /* in its ports' names: there are others in this process */
    struct conn_config conn;
    bool class_is_fixed; /* conn.traffic_class, whatever a connection asks for */
    struct flow_config
        flow;         /* what is the same for all: buffers, failover and their times */
    weft_ns close_ns; /* how long an orderly end may take: 5 s */
    /* The way to a host without a cable in common: docs/plugin.md, "Relays". */
    bool relays;            /* forwards for others; true */
    bool is_dedicated;      /* does nothing else (weft relayd) */
    uint64_t relay_bytes;   /* of its buffers; 256 MiB */
    weft_ns route_ns;       /* how long a way may stay unknown: 30 s */
    uint16_t announce_port; /* UDP; ENGINE_ANNOUNCE_PORT */
    /* From any thread: the engine's thread is to look, engine_look. */
    void (*wake)(void *context);
    /* Waits until *is_done is not 0; the engine's thread sets it before it calls `done`. */
    void (*wait)(void *context, const _Atomic int *is_done);
    void (*done)(void *context);
    void *context;
};
/* Everything but world, host and functions. */
void engine_config_default(struct engine_config *config);
/* Makes flows wait without a lane until the other end's queue pairs can have given up, whatever ACK
 * timeout and retries the configuration has: one end hears of a port, the other only of retries. */
void engine_config_outlast_retries(struct engine_config *config);

/* ---- the engine's thread ---- */

/* Discovers devices and listens; ready later (engine_progress). */
weft_status engine_create(const struct engine_config *config, struct engine **out,
                          struct weft_error *error) WEFT_MUST_CHECK;
/* Does what is ready: tasks of the world's loop that are this engine's. */
void engine_dispatch(struct engine *engine, struct io_task *task);
/* The task that `wake` has to wake. */
struct io_task *engine_task(struct engine *engine);
enum engine_progress { ENGINE_STARTING, ENGINE_READY, ENGINE_BROKEN };
/* To be waited for, from any thread. */
const _Atomic int *engine_progress(const struct engine *engine);
/* Why it is BROKEN. */
const struct weft_error *engine_error(const struct engine *engine);
/* At once; comms that are left go. NULL is ignored. */
void engine_destroy(struct engine *engine);

/* ---- any thread ---- */

struct engine_port {
    char name[64], pci_path[128];
    uint64_t guid; /* its own */
    uint32_t speed_mbps, port;
};
/* Of the devices as they were when the engine got ready; ports are numbered from 0. */
uint32_t engine_n_ports(const struct engine *engine);
const struct engine_port *engine_port(const struct engine *engine, uint32_t port);

/* Fills a handle that is good for one connection and holds no state. */
weft_status engine_listen(struct engine *engine, uint8_t handle[CONN_HANDLE_BYTES],
                          struct engine_listen **out,
                          struct weft_error *error) WEFT_MUST_CHECK;
/* WEFT_OK: *out is the comm, once. AGAIN: nobody came yet. */
weft_status engine_accept(struct engine_listen *listen, struct engine_comm **out,
                          struct weft_error *error) WEFT_MUST_CHECK;
void engine_close_listen(struct engine_listen *listen);
/* Starts a connection at the first call with this handle, and tells at each what became of it:
 * WEFT_OK once, AGAIN, or why not, after which the handle is forgotten. `traffic_class`: of what it
 * sends; ENGINE_CLASS_USUAL: that of the configuration. */
#define ENGINE_CLASS_USUAL (-1)
weft_status engine_connect_as(struct engine *engine,
                              const uint8_t handle[CONN_HANDLE_BYTES], int traffic_class,
                              struct engine_comm **out,
                              struct weft_error *error) WEFT_MUST_CHECK;
/* The same, as usual. */
weft_status engine_connect(struct engine *engine, const uint8_t handle[CONN_HANDLE_BYTES],
                           struct engine_comm **out,
                           struct weft_error *error) WEFT_MUST_CHECK;
/* Requests that are open are gone; returns at once. */
void engine_close(struct engine_comm *comm);
/* As engine_close, but returns when all that the peer needs to end in order has been handed to the
 * kernel: this process may exit then. Waits for the engine's thread, as engine_register does. */
void engine_close_now(struct engine_comm *comm);

/* Where memory is, and so how devices learn of it. */
enum engine_place {
    ENGINE_PLACE_HOST,
    ENGINE_PLACE_GPU,   /* by its address: the kernel knows whose it is */
    ENGINE_PLACE_DMABUF /* a GPU's, by a descriptor */
};
struct engine_region {
    enum engine_place place;
    void *addr; /* as data is addressed; of a GPU: not touched here */
    size_t length;
    int fd; /* DMABUF: and where in it */
    uint64_t offset;
};
/* Whether all devices can register what is there. */
bool engine_takes(const struct engine *engine, enum engine_place place);
/* Wait for the engine's thread, without a lock. WEFT_ERR_UNSUPPORTED: !engine_takes. */
weft_status engine_register(struct engine_comm *comm, const struct engine_region *region,
                            struct engine_memory **out,
                            struct weft_error *error) WEFT_MUST_CHECK;
void engine_deregister(struct engine_comm *comm, struct engine_memory *memory);

/* WEFT_OK: *out is the request; AGAIN: all are in use. WEFT_ERR_INPUT: not in the memory that
 * was registered; nothing happened. Another error: the connection failed. */
weft_status engine_isend(struct engine_comm *comm, const void *data, size_t n_bytes,
                         uint32_t tag, const struct engine_memory *memory,
                         struct engine_request **out) WEFT_MUST_CHECK;
weft_status engine_irecv(struct engine_comm *comm, uint32_t n, void *const *data,
                         const size_t *sizes, const uint32_t *tags,
                         struct engine_memory *const *memories,
                         struct engine_request **out) WEFT_MUST_CHECK;
/* Makes what was received into memory of a GPU visible there; *out NULL: nothing to do, as in
 * memory of the host. */
weft_status engine_iflush(struct engine_comm *comm, const void *data, size_t n_bytes,
                          const struct engine_memory *memory,
                          struct engine_request **out) WEFT_MUST_CHECK;
/* WEFT_OK: done, the request is gone; `sizes` [*out_n] are of its messages. */
weft_status engine_test(struct engine_request *request, size_t *sizes,
                        uint32_t *out_n) WEFT_MUST_CHECK;
/* Why the comm of a failed operation failed, for a log. */
void engine_comm_error(struct engine_comm *comm, struct weft_error *out);
bool engine_comm_is_sender(const struct engine_comm *comm);
struct engine_comm *engine_request_comm(const struct engine_request *request);

struct engine_counters {
    uint32_t n_comms, n_listens; /* now */
    uint64_t n_connected, n_accepted, n_failed, n_refused;
    uint64_t n_relayed; /* connections of these over relays */
    uint32_t n_passing; /* lanes of others that this process forwards now */
    uint64_t bytes_passed;
};
void engine_counters(struct engine *engine, struct engine_counters *out);
/* All of it in lines of text, for a job that hangs: ports, ends of connections, and what each
 * request waits for. Appended; by the engine's thread only. */
struct weft_text;
void engine_dump(struct engine *engine, struct weft_text *out);

#endif
