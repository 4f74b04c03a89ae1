/* The proxy of a rank: owns the resources of its connectors inside the host and serves requests
 * for them, from its own rank and from peers. A state machine without streams (inside.h has
 * those): if a request cannot be answered yet, proxy_serve() returns WEFT_AGAIN, and the caller
 * retries it.
 *
 * Each end of a connection is registered at its own proxy. The owner's proxy has the memory:
 *
 *   owner   INIT  SHARED_INIT (control words)  SETUP (steps)        CONNECT until the other START
 *   other   INIT  SHARED_INIT                  SETUP   GET_FD at the owner's   CONNECT (attach)
 *                                                      START at the owner's: unlinks the name
 *
 * FALL_BACK turns a p2p connection into one of shm if GPU memory cannot be allocated or opened.
 * The proxy's own rank sends it instead of SETUP or after it. The peer sends it, if it could not
 * open the owner's memory, after GET_FD. */
#ifndef WEFT_TRANSPORT_PROXY_H
#define WEFT_TRANSPORT_PROXY_H

#include "io/env.h"
#include "transport/message.h"
#include "transport/steps.h"

#define PROXY_CONNECTIONS_MAX 4096u

/* The same states as in NCCL. */
enum proxy_state {
    PROXY_UNINITIALIZED,      /* waits for INIT */
    PROXY_INITIALIZED,        /* waits for SHARED_INIT */
    PROXY_SHARED_INITIALIZED, /* waits for SETUP or FALL_BACK */
    PROXY_SETUP_DONE, /* waits for CONNECT, and at the owner for the peer's START */
    PROXY_CONNECTED   /* in use until CLOSE */
};

struct proxy;

/* Creates a proxy, to be freed with proxy_destroy(). Aborts when out of memory. */
struct proxy *proxy_create(struct io_env *env, uint32_t rank);
/* Closes all connections and frees the proxy. NULL is ignored. */
void proxy_destroy(struct proxy *proxy);

/* Serves a request of rank `asker`. Returns WEFT_OK with the answer in `out`, whose sys_errno
 * can be 0, ENOENT (no such connection), EPERM (not allowed to this rank), EINVAL (wrong state),
 * ENOSPC (no room in /dev/shm or in a table), EOPNOTSUPP, or an errno of the I/O interface.
 * Returns WEFT_AGAIN if it cannot be answered yet. */
weft_status proxy_serve(struct proxy *proxy, uint32_t asker,
                        const struct proxy_call *call,
                        struct proxy_answer *out) WEFT_MUST_CHECK;

/* Returns the control words and steps of a connection in CONNECTED, owned by the proxy and valid
 * until the connection is closed. Returns false in any other state. */
bool proxy_region(const struct proxy *proxy, uint32_t connection,
                  struct steps_control **out_control, uint8_t **out_memory);
/* Returns the transport of an existing connection: SHM if p2p fell back. *out_errno is the errno
 * that made it fall back, or 0. */
enum weft_transport proxy_kind_of(const struct proxy *proxy, uint32_t connection,
                                  int *out_errno);
/* Returns UNINITIALIZED if there is no such connection. */
enum proxy_state proxy_state_of(const struct proxy *proxy, uint32_t connection);
uint32_t proxy_n_connections(const struct proxy *proxy);

#endif
