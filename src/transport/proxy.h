/* The proxy of a rank: what owns the resources of its connectors inside the host, and answers the
 * messages by which they are asked for, of its own rank and of the others'. A state machine
 * without streams (inside.h has those): a request that cannot be answered yet is AGAIN, and is
 * asked again until it can.
 *
 * A connection's two ends each have one at their own proxy. The owner's has the memory:
 *
 *   owner   INIT  SHARED_INIT (control words)  SETUP (steps)        CONNECT until the other START
 *   other   INIT  SHARED_INIT                  SETUP   GET_FD at the owner's   CONNECT (attach)
 *                                                      START at the owner's: the name can go
 *
 * FALL_BACK makes a p2p connection one of shm, where memory of the GPU cannot be had or opened: the
 * own rank asks it in the place of SETUP or after it, and the other end, which could not open the
 * owner's memory, in the place of GET_FD. */
#ifndef WEFT_TRANSPORT_PROXY_H
#define WEFT_TRANSPORT_PROXY_H

#include "io/env.h"
#include "transport/message.h"
#include "transport/steps.h"

#define PROXY_CONNECTIONS_MAX 4096u

/* As in NCCL, and what a request needs. */
enum proxy_state {
    PROXY_UNINITIALIZED,
    PROXY_INITIALIZED,
    PROXY_SHARED_INITIALIZED,
    PROXY_SETUP_DONE,
    PROXY_CONNECTED
};

struct proxy;

/* Aborts when out of memory. */
struct proxy *proxy_create(struct io_env *env, uint32_t rank);
/* Closes all connections. NULL is ignored. */
void proxy_destroy(struct proxy *proxy);

/* Answers a request of rank `asker`. WEFT_OK: `out` is the answer; its sys_errno tells ENOENT (no
 * such connection), EPERM (not the asker's to ask), EINVAL (not in this state), ENOSPC (no room
 * in /dev/shm or for one more), EOPNOTSUPP, or what the waist said. AGAIN: not yet. */
weft_status proxy_serve(struct proxy *proxy, uint32_t asker,
                        const struct proxy_call *call,
                        struct proxy_answer *out) WEFT_MUST_CHECK;

/* What a connection that is CONNECTED moves its messages through; false: it is not. */
bool proxy_region(const struct proxy *proxy, uint32_t connection,
                  struct steps_control **out_control, uint8_t **out_memory);
/* SHM where P2P fell back; *out_errno: what made it, or 0. The connection is there. */
enum transport_kind proxy_kind_of(const struct proxy *proxy, uint32_t connection,
                                  int *out_errno);
enum proxy_state proxy_state_of(const struct proxy *proxy, uint32_t connection);
uint32_t proxy_n_connections(const struct proxy *proxy);

#endif
