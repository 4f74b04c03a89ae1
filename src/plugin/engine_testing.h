/* Engines of several hosts over one simulated fabric, in one thread: behaves like the plugin in
 * several processes, but step by step. */
#ifndef WEFT_PLUGIN_ENGINE_TESTING_H
#define WEFT_PLUGIN_ENGINE_TESTING_H

#include "plugin/engine.h"

#define HARNESS_HOSTS 4
#define HARNESS_PORTS 4
#define HARNESS_CABLES 6
#define HARNESS_HELD 256

struct harness {
    struct world *world;
    struct io_loop *loop;
    struct engine *engines[HARNESS_HOSTS];
    struct engine_config configs[HARNESS_HOSTS];
    uint32_t n_hosts;
    /* objects on the NICs while nothing was connected */
    uint32_t idle_objects[HARNESS_HOSTS];
    struct world_spec spec;
    struct world_host hosts[HARNESS_HOSTS];
    struct world_port ports[HARNESS_HOSTS][HARNESS_PORTS];
    struct io_prefix addresses[HARNESS_HOSTS][HARNESS_PORTS];
    struct world_cable cables[HARNESS_CABLES];
    uint64_t root_bps;
    uint32_t held; /* bit h: host h's engine does not run; its tasks are kept */
    struct io_task *kept[HARNESS_HELD];
    uint32_t n_kept;
};

/* A change to hosts and engines before the next harness starts. Applies to one harness only. */
typedef void harness_change(uint32_t host, struct world_host *world_host,
                            struct engine_config *config);
void harness_with(harness_change *change);

struct harness_cable {
    uint32_t a, b; /* hosts */
};
/* Opens hosts joined by cables, each its own subnet, without a management network. Hosts marked
 * in `relays_only` [n_hosts] (NULL: none) are dedicated relays. */
void harness_open_cables(struct harness *harness, uint32_t n_hosts,
                         const struct harness_cable *cables, uint32_t n_cables,
                         const bool *relays_only);
/* Opens hosts with `n_rails` cables between each pair, each its own subnet, and a management
 * network. Returns when all engines are ready. HARNESS_CABLES and HARNESS_PORTS must suffice. */
void harness_open(struct harness *harness, uint32_t n_hosts, uint32_t n_rails);
/* Ends the process of a host without closing anything. */
void harness_kill(struct harness *harness, uint32_t host);
/* Starts the process of a killed host again. */
void harness_restart(struct harness *harness, uint32_t host);
/* Stops running a host's engine, while its NICs and streams continue. Objects of the host must
 * not be destroyed meanwhile. */
void harness_hold(struct harness *harness, uint32_t host);
void harness_release(struct harness *harness, uint32_t host);
/* Runs all ready tasks; if there was none, lets time pass, up to `until`. Returns false at
 * `until`. */
bool harness_step(struct harness *harness, weft_ns until);
void harness_run(struct harness *harness, weft_ns for_ns);
weft_ns harness_now(const struct harness *harness);
/* Connects one host to another, and returns both ends. */
void harness_connect(struct harness *harness, uint32_t from, uint32_t to,
                     struct engine_comm **out_send, struct engine_comm **out_receive);
/* Calls engine_register() for host memory. */
weft_status harness_register(struct engine_comm *comm, void *addr, size_t length,
                             struct engine_memory **out, struct weft_error *error);
/* Returns the number of protection domains, CQs and QPs on the host's NICs. */
uint32_t harness_objects(const struct harness *harness, uint32_t host);
/* Waits until no objects of closed comms are left on any NIC. All comms must be closed. */
void harness_expect_idle(struct harness *harness);
void harness_close(struct harness *harness);

#endif
