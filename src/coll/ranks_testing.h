/* Fixture: a rank with an executor on every host of a simulated fabric, progressed together. */
#ifndef WEFT_COLL_RANKS_TESTING_H
#define WEFT_COLL_RANKS_TESTING_H

#include "coll/mesh_testing.h"
#include "coll/oracle.h"
#include "xfer/grid_testing.h"

struct rank {
    struct coll_exec *exec;
    struct transport_connector *send_to[FABRIC_HOSTS_MAX];
    struct transport_connector *receive_from[FABRIC_HOSTS_MAX];
    struct transport_connector links[2][FABRIC_HOSTS_MAX]; /* sends, receives */
    struct coll_plan plan;
    uint8_t *input, *output;
    bool is_done;
    bool is_late; /* ranks_run does not progress it */
};

/* Each test runs in its own process, so there is one set of ranks. */
extern struct grid grid;
extern struct rank ranks[FABRIC_HOSTS_MAX];
extern uint32_t n_ranks;

/* Hooks that replace the GPU of each rank's host, or NULL; set before ranks_open. `step` lets
 * the GPU work and returns true if it did. */
extern struct ranks_gpus {
    void (*open)(struct io_env *env);
    bool (*step)(void);
    void (*close)(struct io_env *env);
} ranks_gpus;
extern uint32_t ranks_window; /* as coll_links.window; set before ranks_open */

/* Opens a rank on every host with buffers of n_bytes. A single rank gets a second host as
 * neighbour. */
void ranks_open(const struct fabric_config *config, size_t n_bytes);
/* Does the same with plans over these cables between ranks only (1 us, 100 Gbit/s). */
void ranks_open_over(const struct coll_cable *cables, uint32_t n_cables,
                     const struct fabric_config *config, size_t n_bytes);
void ranks_close(void);
/* Fills inputs, makes the plans and starts them. */
void ranks_start(const struct coll_job *job, uint64_t seed, uint32_t iterations);
/* Progresses the ranks whose host was woken until all are done. Returns the first error, or
 * WEFT_ERR_TIMEOUT after `for_ns`. */
weft_status ranks_run(weft_ns for_ns, struct weft_error *error);
/* Checks every byte of every output against the oracle. */
void ranks_verify(const struct coll_job *job, uint64_t seed);
void ranks_fini_plans(void);
/* Returns the time at which the last rank completed iteration i. */
weft_ns ranks_finished(uint32_t iteration);

#endif
