/* One host (or one of its processes) whose NICs are simulated and whose wire is real: Linux
 * below, host memory as GPU, an engine on a thread of its own.
 *
 * Ports are those of the scenario's host. In a network namespace each is over the netdev of its
 * name, or over that which WEFT_DEVICES names ("p0=eth1,p1=eth2"); among aliases
 * (soft/loopback.h) over nothing.
 *
 * The device profile is the host's, but for its times, which are the machine's own, and for what
 * a wire that loses frames when it is full makes wise: a small window, one ACK every 16. What
 * the scenario overrides stays as it says.
 *
 * Settings that it reads: WEFT_DEVICES, WEFT_MANAGEMENT (the netdev that reaches every host);
 * WEFT_SOFT_BLOCK, the second byte of the run's loopback addresses: aliases; WEFT_PROCESS,
 * this process's number within its host; WEFT_SOFT_WIRE, "udp" (plain UDP, the default),
 * "udp-foreign" (the same, to peers that are not of this backend) or "raw" (packet sockets, needs
 * CAP_NET_RAW; one process a host); WEFT_CAPTURED, set: every frame is a packet of its
 * own on the wire. */
#ifndef WEFT_BACKENDS_SOFT_HOST_H
#define WEFT_BACKENDS_SOFT_HOST_H

#include "backends/linux/env.h"
#include "backends/soft/udp.h"
#include "sim/nic.h"

struct soft_host;

struct soft_host_config {
    struct linux_env_config env; /* `aliases` and `management` are ours to fill */
    const struct world_spec *spec;
    uint32_t host; /* of the spec; outlives the host */
};

/* WEFT_ERR_UNSUPPORTED: something of the scenario's host; WEFT_ERR_INPUT: its profile, or a
 * setting; WEFT_ERR_ENVIRONMENT: no such netdev, no address to bind. `loop` outlives it. */
weft_status soft_host_create(struct linux_loop *loop,
                             const struct soft_host_config *config,
                             struct soft_host **out, struct weft_error *error);
/* The thread ends first; peers see silence. NULL is ignored. */
void soft_host_destroy(struct soft_host *host);

struct io_env *soft_host_env(struct soft_host *host);
/* The cable of a port goes or comes back. */
void soft_host_set_carrier(struct soft_host *host, uint32_t port, bool is_up);
/* What a port's wire and NIC have counted so far. */
void soft_host_counters(struct soft_host *host, uint32_t port,
                        struct soft_udp_counters *out_wire,
                        struct sim_nic_counters *out_nic);
/* Bytes and packets that the port sent, with headers, preamble and gap. */
struct sim_direction_stats soft_host_sent(struct soft_host *host, uint32_t port);

/* WEFT_ERR_UNSUPPORTED names the first thing in `spec` that such hosts cannot have. */
weft_status soft_host_can_express(const struct world_spec *spec,
                                  struct weft_error *error);

#endif
