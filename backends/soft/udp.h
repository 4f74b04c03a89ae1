/* The plain-UDP wire: RoCE v2 frames as datagrams of ordinary sockets. There is one for each GID
 * of a port, bound to the GID's address (or its alias) and the RoCE port. No privilege is needed.
 *
 * Header fields that a socket does not show have values known to both ends: the IPv4 id is 0 and
 * DF is set, as Linux sends them from unconnected sockets that do not fragment, so the ICRC
 * matches. With UDP_SEGMENT the kernel increments ids; only this backend accepts such frames.
 *
 * Processes of one host have the same addresses. Process i uses UDP port SOFT_UDP_PORT + i, and
 * the upper four bits of a QPN are the process's number. */
#ifndef WEFT_BACKENDS_SOFT_UDP_H
#define WEFT_BACKENDS_SOFT_UDP_H

#include "backends/linux/aliases.h"
#include "backends/soft/engine.h"
#include "sim/port.h"
#include "sim/stack.h"

#define SOFT_UDP_PORT 4791
#define SOFT_PROCESS_SHIFT 20 /* of a process's number in a QPN */
#define SOFT_PROCESSES_MAX 16

struct soft_raw;
struct soft_udp;

struct soft_udp_config {
    struct soft_engine *engine;          /* not started; must outlive this */
    struct sim_port *port;               /* Not owned */
    const struct sim_stack *stack;       /* Not owned; contains the port's GIDs */
    const struct linux_aliases *aliases; /* Not owned; NULL: no aliases */
    /* Not owned; sends neighbour requests; NULL: answer them here. */
    struct soft_raw *neighbours;
    uint32_t ifindex;  /* as the host numbers it */
    uint32_t process;  /* of the host, below SOFT_PROCESSES_MAX */
    uint64_t rate_bps; /* rate that the port reports */
    bool is_up;
    /* Send each frame as a separate packet, for captures, foreign peers, and cables that lose,
     * damage, duplicate or reorder frames. */
    bool no_segments;
    /* Peers are not of this backend. Their ICRC covers IPv4 ids, which a socket does not show, so
     * it cannot be checked. */
    bool icrc_is_unseen;
    struct weft_log *log;
};

/* Opens the sockets in the calling thread's namespace and connects the port to them. Leaves out
 * addresses that cannot be bound, with a warning. Fails with WEFT_ERR_ENVIRONMENT if none can, or
 * if another process has the UDP port. */
weft_status soft_udp_create(const struct soft_udp_config *config, struct soft_udp **out,
                            struct weft_error *error);
/* Opens sockets for GIDs of the port that have none, as far as their addresses can be bound, and
 * closes those of GIDs that it no longer has. Must be called under the engine's lock. */
void soft_udp_follow_gids(struct soft_udp *udp);
/* Frees the wire. The engine's thread must have ended. Ignores NULL. */
void soft_udp_destroy(struct soft_udp *udp);

struct soft_udp_counters {
    uint64_t rx_datagrams, rx_frames, rx_refused, tx_frames, tx_dropped;
    uint64_t tx_refused; /* part of tx_frames: the kernel did not send them */
    /* Datagrams that the kernel dropped at the sockets: no room, or a wrong checksum. */
    uint64_t rx_socket_drops;
    uint32_t rx_buffer_bytes; /* of the smallest socket */
};
/* Must be called under the engine's lock, as it asks the sockets. */
void soft_udp_counters(const struct soft_udp *udp, struct soft_udp_counters *out);

#endif
