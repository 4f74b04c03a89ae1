/* The core of the plugin, without NCCL's types. There is one engine per process, which owns the
 * devices, one listener and all ends of connections. One thread runs it (in tests, the code that
 * steps a simulated world). Other threads only queue work for a comm and read results.
 *
 *   any thread                       the engine's thread
 *   isend, irecv         ──queue──▶  flow_isend, flow_irecv (xfer/flow.h)
 *   test                 ◀──state──  flow_test
 *   connect, accept      ◀──state──  flow_open, conn_accept
 *   register, close      ──call──▶   flow_register, flow_close
 *
 * Locks: the engine's, for set-up only; one per comm, for its queue. isend, irecv and test do
 * not allocate. docs/plugin-design.md. */
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
#define ENGINE_REQUESTS (XFER_SLOTS * XFER_MULTI_MAX) /* per comm */

#define ENGINE_ANNOUNCE_PORT 22343

struct engine;
struct engine_listen;  /* waits for one connection */
struct engine_comm;    /* one end of a connection */
struct engine_memory;  /* registered for one comm */
struct engine_request; /* a send, receive or flush of one comm */

struct engine_config {
    struct world *world; /* Not owned */
    uint32_t host;       /* index of the host in `world` that the engine runs on */
    const char *hca;     /* ports to use, by the rules of nccl_opens(); NULL: all */
    bool names_host;     /* prefix port names with the host, as in a simulated mesh */
    struct conn_config conn;
    /* use conn.traffic_class even if a connection asks for another */
    bool class_is_fixed;
    struct flow_config flow; /* common to all flows: buffers, failover and its times */
    weft_ns close_ns;        /* limit for an orderly close (default 5 s) */
    /* Routes to hosts without a common cable: docs/plugin-design.md, "Routes and beacons". */
    bool relays;            /* forward for others (default true) */
    bool is_dedicated;      /* only forward (weft relayd) */
    uint64_t relay_bytes;   /* maximum size of the relay's buffers; 0 means 256 MiB */
    weft_ns route_ns;       /* limit for finding a route (default 30 s) */
    uint16_t announce_port; /* UDP (default ENGINE_ANNOUNCE_PORT) */
    /* Makes the engine's thread run its main task (engine_task). Called from any thread. */
    void (*wake)(void *context);
    /* Waits until *is_done is not 0. The engine's thread sets it before it calls `done`. */
    void (*wait)(void *context, const _Atomic int *is_done);
    void (*done)(void *context);
    void *context;
};
/* Sets the defaults. The caller sets world, host, the functions and their context. */
void engine_config_default(struct engine_config *config);
/* Multiplies the limits of `config` by `patience` (rdma/timers.h). Call it once. */
void engine_config_stretch(struct engine_config *config, uint32_t patience);
/* Raises flow.failover_ns, the time that a flow waits without a lane, if needed: it must cover
 * the time in which the peer's queue pairs give up with the configured ACK timeout and retries,
 * because one end can see a port go down while the other end only sees its retries fail. */
void engine_config_outlast_retries(struct engine_config *config);

/* ---- the engine's thread ---- */

/* Starts to discover devices. The engine listens once it is ready (engine_progress). On failure
 * *out is unchanged. The caller frees it with engine_destroy(). */
weft_status engine_create(const struct engine_config *config, struct engine **out,
                          struct weft_error *error) WEFT_MUST_CHECK;
/* Runs a task of the world's loop that belongs to this engine. */
void engine_dispatch(struct engine *engine, struct io_task *task);
/* Returns the task that `wake` must wake. */
struct io_task *engine_task(struct engine *engine);
/* STARTING: waits for devices; READY: listens; BROKEN: engine_error() has the reason. */
enum engine_progress { ENGINE_STARTING, ENGINE_READY, ENGINE_BROKEN };
/* Returns the address of an enum engine_progress, which any thread may read or wait for. */
const _Atomic int *engine_progress(const struct engine *engine);
/* Returns why the engine is BROKEN. */
const struct weft_error *engine_error(const struct engine *engine);
/* Frees the engine and its comms at once, without closing them. NULL is ignored. */
void engine_destroy(struct engine *engine);

/* ---- any thread ---- */

struct engine_port {
    char name[64], pci_path[128];
    uint64_t guid; /* of the port itself, not of the adapter */
    uint32_t speed_mbps, port;
};
/* Returns the number of ports, fixed when the engine became ready. engine_port() takes an index
 * from 0, and returns NULL past the last. */
uint32_t engine_n_ports(const struct engine *engine);
const struct engine_port *engine_port(const struct engine *engine, uint32_t port);

/* Writes a handle that is valid for one connection, from any process. The caller closes *out
 * with engine_close_listen(). */
weft_status engine_listen(struct engine *engine, uint8_t handle[CONN_HANDLE_BYTES],
                          struct engine_listen **out,
                          struct weft_error *error) WEFT_MUST_CHECK;
/* Returns WEFT_OK once, with the comm in *out, which the caller closes with engine_close().
 * Returns WEFT_AGAIN until a connection is up, or an error if it failed; the listener then
 * accepts another. */
weft_status engine_accept(struct engine_listen *listen, struct engine_comm **out,
                          struct weft_error *error) WEFT_MUST_CHECK;
/* Frees the listener. Also closes a connection that engine_accept() has not returned. */
void engine_close_listen(struct engine_listen *listen);
/* Starts a connection on the first call with this handle. Each call returns its progress:
 * WEFT_AGAIN, WEFT_OK once with the comm in *out, or an error, after which the handle is
 * forgotten. `traffic_class` is used for packets of this end; ENGINE_CLASS_USUAL selects that of
 * the configuration. */
#define ENGINE_CLASS_USUAL (-1)
weft_status engine_connect_as(struct engine *engine,
                              const uint8_t handle[CONN_HANDLE_BYTES], int traffic_class,
                              struct engine_comm **out,
                              struct weft_error *error) WEFT_MUST_CHECK;
weft_status engine_connect(struct engine *engine, const uint8_t handle[CONN_HANDLE_BYTES],
                           struct engine_comm **out,
                           struct weft_error *error) WEFT_MUST_CHECK;
/* Closes the comm, which must not be used any more. Open requests are dropped. Returns at once. */
void engine_close(struct engine_comm *comm);
/* Like engine_close(), but returns only after everything that the peer needs to end in order was
 * passed to the kernel; this process may then exit. Waits for the engine's thread. */
void engine_close_now(struct engine_comm *comm);

/* The kind of memory, which decides how devices register it. */
enum engine_place {
    ENGINE_PLACE_HOST,
    ENGINE_PLACE_GPU,   /* GPU memory, by its address, which the kernel recognizes */
    ENGINE_PLACE_DMABUF /* GPU memory, by a descriptor */
};
struct engine_region {
    enum engine_place place;
    void *addr; /* address as used in requests; not dereferenced for a GPU */
    size_t length;
    int fd; /* DMABUF: descriptor, and offset of the region in it */
    uint64_t offset;
};
/* Returns true if all devices can register memory of this kind. Those whose ports are all left out
 * (engine_config.hca) do not count. */
bool engine_takes(const struct engine *engine, enum engine_place place);
/* Register and deregister memory for one comm. Both wait for the engine's thread and hold no
 * lock. Fails with WEFT_ERR_UNSUPPORTED if engine_takes() is false. */
weft_status engine_register(struct engine_comm *comm, const struct engine_region *region,
                            struct engine_memory **out,
                            struct weft_error *error) WEFT_MUST_CHECK;
void engine_deregister(struct engine_comm *comm, struct engine_memory *memory);

/* Returns WEFT_OK with the request in *out, or WEFT_AGAIN if no request is free or the peer has
 * closed. Fails with WEFT_ERR_INPUT, without effect, if the data is not within the registered
 * memory. Any other error means that the connection failed. */
weft_status engine_isend(struct engine_comm *comm, const void *data, size_t n_bytes,
                         uint32_t tag, const struct engine_memory *memory,
                         struct engine_request **out) WEFT_MUST_CHECK;
/* Posts a receive of `n` messages, 1 to ENGINE_GROUP_MAX, each into the buffer with its tag.
 * Returns as engine_isend() does. */
weft_status engine_irecv(struct engine_comm *comm, uint32_t n, void *const *data,
                         const size_t *sizes, const uint32_t *tags,
                         struct engine_memory *const *memories,
                         struct engine_request **out) WEFT_MUST_CHECK;
/* Makes data that was received into GPU memory visible to the GPU. *out is NULL if nothing has
 * to be done, as for host memory. */
weft_status engine_iflush(struct engine_comm *comm, const void *data, size_t n_bytes,
                          const struct engine_memory *memory,
                          struct engine_request **out) WEFT_MUST_CHECK;
/* Returns WEFT_OK once the request is complete; it is then freed, and `sizes` [*out_n], with
 * room for ENGINE_GROUP_MAX, has the sizes of its messages in bytes. Returns WEFT_AGAIN before
 * that. */
weft_status engine_test(struct engine_request *request, size_t *sizes,
                        uint32_t *out_n) WEFT_MUST_CHECK;
/* Copies the reason why the comm failed, for a log. */
void engine_comm_error(struct engine_comm *comm, struct weft_error *out);
bool engine_comm_is_sender(const struct engine_comm *comm);
struct engine_comm *engine_request_comm(const struct engine_request *request);

struct engine_counters {
    uint32_t n_comms, n_listens; /* number at present */
    uint64_t n_connected, n_accepted, n_failed, n_refused;
    uint64_t n_relayed; /* connections of this process over relays */
    uint32_t n_passing; /* lanes of other processes that it forwards at present */
    uint64_t bytes_passed;
};
/* Callable from any thread. */
void engine_counters(struct engine *engine, struct engine_counters *out);
/* Appends the state as text, to debug a job that hangs: ports, ends of connections, and what
 * each request waits for. Only in the engine's thread. */
struct weft_text;
void engine_dump(struct engine *engine, struct weft_text *out);

#endif
