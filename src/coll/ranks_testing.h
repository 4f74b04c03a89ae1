/* A rank with an executor on every host of a simulated fabric, driven together. */
#ifndef WEFT_COLL_RANKS_TESTING_H
#define WEFT_COLL_RANKS_TESTING_H

#include "coll/mesh_testing.h"
#include "coll/oracle.h"
#include "xfer/grid_testing.h"

struct rank {
    struct coll_exec *exec;
    struct transport_connector *send_to[FABRIC_HOSTS_MAX];
    struct transport_connector *receive_from[FABRIC_HOSTS_MAX];
    struct transport_connector links[2][FABRIC_HOSTS_MAX]; /* to, and from */
    struct coll_plan plan;
    uint8_t *input, *output;
    bool is_done;
    bool is_late; /* ranks_run leaves it alone */
};

/* Tests run in processes of their own: one set of ranks each. */
extern struct grid grid;
extern struct rank ranks[FABRIC_HOSTS_MAX];
extern uint32_t n_ranks;

/* Set before ranks_open, or NULL: gives a rank's host another GPU; lets that go on, and tells
 * whether it did; takes it away. */
extern struct ranks_gpus {
    void (*open)(struct io_env *env);
    bool (*step)(void);
    void (*close)(struct io_env *env);
} ranks_gpus;
extern uint32_t ranks_window; /* as coll_links.window; set before ranks_open */

/* A rank on every host, buffers of n_bytes; a single rank has the host next to it for
 * company. */
void ranks_open(const struct fabric_config *config, size_t n_bytes);
/* The same, with plans over these cables of rank to rank alone (1 us, 100 Gb/s). */
void ranks_open_over(const struct coll_cable *cables, uint32_t n_cables,
                     const struct fabric_config *config, size_t n_bytes);
void ranks_close(void);
/* Fills inputs, makes the plans and starts them. */
void ranks_start(const struct coll_job *job, uint64_t seed, uint32_t iterations);
/* Progresses the ranks whose host was woken; the first error ends it. */
weft_status ranks_run(weft_ns for_ns, struct weft_error *error);
/* Every byte of every output is the oracle's. */
void ranks_verify(const struct coll_job *job, uint64_t seed);
void ranks_fini_plans(void);
/* Time at which the last rank had iteration i. */
weft_ns ranks_finished(uint32_t iteration);

#endif
