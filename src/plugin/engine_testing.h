/* Engines of several hosts over one simulated fabric, in one thread: what the plugin does in
 * several processes, step by step. */
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
    uint32_t idle_objects[HARNESS_HOSTS]; /* of the NICs, when nothing was connected */
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

/* What the next harness changes in its hosts and engines before they start; gone with it. */
typedef void harness_change(uint32_t host, struct world_host *world_host,
                            struct engine_config *config);
void harness_with(harness_change *change);

struct harness_cable {
    uint32_t a, b; /* hosts */
};
/* Cables, each a subnet of its own, and no management network. Hosts of `relays_only` [n_hosts]
 * (NULL: none) are relays that do nothing else. */
void harness_open_cables(struct harness *harness, uint32_t n_hosts,
                         const struct harness_cable *cables, uint32_t n_cables,
                         const bool *relays_only);
/* Every pair has `n_rails` cables (not more than fit), each a subnet of its own, and a
 * management network; ends when all engines are ready. */
void harness_open(struct harness *harness, uint32_t n_hosts, uint32_t n_rails);
/* The process of a host ends without a word ... */
void harness_kill(struct harness *harness, uint32_t host);
/* ... and is started again. */
void harness_restart(struct harness *harness, uint32_t host);
/* Deschedules a host's engine: its NICs and streams go on. Destroys nothing of it meanwhile. */
void harness_hold(struct harness *harness, uint32_t host);
void harness_release(struct harness *harness, uint32_t host);
/* Lets every ready task run and, if none was, time pass, up to `until`; false there. */
bool harness_step(struct harness *harness, weft_ns until);
void harness_run(struct harness *harness, weft_ns for_ns);
weft_ns harness_now(const struct harness *harness);
/* A connection from one host to another, both ends. */
void harness_connect(struct harness *harness, uint32_t from, uint32_t to,
                     struct engine_comm **out_send, struct engine_comm **out_receive);
/* engine_register of memory of the host. */
weft_status harness_register(struct engine_comm *comm, void *addr, size_t length,
                             struct engine_memory **out, struct weft_error *error);
/* Protection domains, CQs and QPs that exist on the host's NICs. */
uint32_t harness_objects(const struct harness *harness, uint32_t host);
/* All comms are closed: waits until nothing of them is left on any NIC. */
void harness_expect_idle(struct harness *harness);
void harness_close(struct harness *harness);

#endif
