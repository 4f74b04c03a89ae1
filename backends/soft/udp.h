/* The plain-UDP wire: RoCE v2 frames as datagrams of ordinary sockets, one for each GID of a
 * port, bound to the GID's own address (or its alias) and the RoCE port. No privilege is needed.
 *
 * What a socket does not show is as both ends know it: the IPv4 id is 0 and DF is set, which is
 * what Linux sends from unconnected sockets that do not fragment, so the ICRC fits. With
 * UDP_SEGMENT the kernel counts ids up; only ends of this backend take such frames.
 *
 * Processes of one host have the same addresses: the second listens on the next UDP port, and
 * the upper four bits of a QPN say which process it is. */
#ifndef WEFT_BACKENDS_SOFT_UDP_H
#define WEFT_BACKENDS_SOFT_UDP_H

#include "backends/linux/aliases.h"
#include "backends/soft/engine.h"
#include "sim/port.h"
#include "sim/stack.h"

#define SOFT_UDP_PORT 4791
#define SOFT_PROCESS_SHIFT 20 /* of a QPN */
#define SOFT_PROCESSES_MAX 16

struct soft_raw;
struct soft_udp;

struct soft_udp_config {
    struct soft_engine *engine;          /* not started; outlives it */
    struct sim_port *port;               /* Not owned */
    const struct sim_stack *stack;       /* Not owned; its GIDs are all there */
    const struct linux_aliases *aliases; /* Not owned; NULL: addresses are the kernel's */
    struct soft_raw *neighbours; /* Not owned; who asks for neighbours, or NULL: nobody */
    uint32_t ifindex;            /* as the host knows it */
    uint32_t process;            /* of the host, below SOFT_PROCESSES_MAX */
    uint64_t rate_bps;           /* that the port tells */
    bool is_up;
    /* Every frame is a packet of its own: for captures, and for others. */
    bool no_segments;
    /* Peers are not of this backend: their IPv4 ids, which a socket does not show, are under
     * their ICRC, so that nobody can check it here. */
    bool icrc_is_unseen;
    struct weft_log *log;
};

/* Opens the sockets in the calling thread's namespace and connects the port to them. An address
 * that cannot be bound is left out, with a warning; WEFT_ERR_ENVIRONMENT if none can. */
weft_status soft_udp_create(const struct soft_udp_config *config, struct soft_udp **out,
                            struct weft_error *error);
/* The port has GIDs that it had not: sockets for them. Under the engine's lock. */
void soft_udp_open_gids(struct soft_udp *udp);
/* After the engine's thread. NULL is ignored. */
void soft_udp_destroy(struct soft_udp *udp);

struct soft_udp_counters {
    uint64_t rx_datagrams, rx_frames, rx_refused, tx_frames, tx_dropped;
    uint32_t rx_buffer_bytes; /* of the smallest socket */
};
void soft_udp_counters(const struct soft_udp *udp, struct soft_udp_counters *out);

#endif
