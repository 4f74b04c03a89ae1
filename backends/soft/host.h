/* One host (or one of its processes) with simulated NICs on a real wire: Linux for the rest, host
 * memory as GPU, and an engine with its own thread.
 *
 * Its ports are those of the scenario's host. In a network namespace each uses the netdev of its
 * name, or the one in WEFT_DEVICES ("p0=eth1,p1=eth2"); with aliases (soft/loopback.h) it uses
 * none.
 *
 * The device profile is the host's, with two changes: times are the machine's own, and because
 * the wire loses frames when it is full, the window is small and every 16th packet requests an
 * ACK. Overrides of the scenario take precedence.
 *
 * Settings: WEFT_DEVICES; WEFT_MANAGEMENT (the netdev that reaches every host); WEFT_SOFT_BLOCK,
 * the second byte of the run's loopback addresses, enables aliases; WEFT_PROCESS, this process's
 * number within its host; WEFT_SOFT_WIRE, "udp" (plain UDP, the default), "udp-foreign" (plain
 * UDP, to peers that are not of this backend) or "raw" (packet sockets, needs CAP_NET_RAW; one
 * process per host); WEFT_CAPTURED, if set, sends each frame as a separate packet. */
#ifndef WEFT_BACKENDS_SOFT_HOST_H
#define WEFT_BACKENDS_SOFT_HOST_H

#include "backends/linux/env.h"
#include "backends/soft/udp.h"
#include "sim/nic.h"

struct soft_host;

struct soft_host_config {
    /* `aliases` and `management` are set by soft_host_create(). */
    struct linux_env_config env;
    const struct world_spec *spec;
    uint32_t host; /* host of the spec, which must outlive the soft_host */
};

/* Creates the host. `loop` must outlive it. Fails with WEFT_ERR_UNSUPPORTED if the scenario's
 * host cannot be expressed, WEFT_ERR_INPUT for an invalid profile or setting,
 * WEFT_ERR_ENVIRONMENT if a netdev is missing or no address can be bound. */
weft_status soft_host_create(struct linux_loop *loop,
                             const struct soft_host_config *config,
                             struct soft_host **out, struct weft_error *error);
/* Ends the thread and frees the host; peers get no more replies. Ignores NULL. */
void soft_host_destroy(struct soft_host *host);

struct io_env *soft_host_env(struct soft_host *host);
/* Sets the carrier of a port. */
void soft_host_set_carrier(struct soft_host *host, uint32_t port, bool is_up);
/* Returns the counters of a port's wire and of its NIC. */
void soft_host_counters(struct soft_host *host, uint32_t port,
                        struct soft_udp_counters *out_wire,
                        struct sim_nic_counters *out_nic);
/* Returns bytes and packets sent by the port, including headers, preamble and gap. */
struct sim_direction_stats soft_host_sent(struct soft_host *host, uint32_t port);

/* Fails with WEFT_ERR_UNSUPPORTED, naming the first thing in `spec` that such hosts cannot
 * have. */
weft_status soft_host_can_express(const struct world_spec *spec,
                                  struct weft_error *error);

#endif
