/* Fixture: a small simulated mesh with a rank on each host, built without a scenario file. */
#ifndef WEFT_HOST_HOST_TESTING_H
#define WEFT_HOST_HOST_TESTING_H

#include "base/text.h"
#include "host/loop.h"

#define MESH_HOSTS_MAX 3

/* Hosts a, b, c. With three hosts every pair has a cable: a:p0-b:p1, b:p0-c:p1, c:p0-a:p1; with
 * two, a:p0-b:p1. Cable i (from 1) has the subnet 10.i.0.0/24, 100 Gb/s and a delay of 1 us. */
struct mesh_test {
    struct io_prefix addresses[MESH_HOSTS_MAX][2];
    struct world_port ports[MESH_HOSTS_MAX][2];
    struct world_host machines[MESH_HOSTS_MAX];
    struct world_cable cables[MESH_HOSTS_MAX];
    struct world_fault faults[4];
    struct world_spec spec;
    struct weft_trace trace;
    /* Events of ranks and jobs, and of flows that wait for a port, without their times. */
    struct weft_text story;
    /* If set, wraps the world: receives it and returns the one that the hosts use. */
    struct world *(*wrap)(struct world *world, const struct world_spec *spec);
    struct world *world;
    uint32_t n_processes;               /* of each host, each a member; 1 */
    struct host *hosts[MESH_HOSTS_MAX]; /* by process */
    struct host_row rows[4];
    struct coll_mesh coll_mesh; /* every pair has a cable of 100 Gb/s */
    /* For mesh_test_start, which sets rank and start, and n_rows of members without a rank. */
    struct host_config config;
    bool reports_ends; /* copied to host_loop.reports_ends */
};

/* Sets all fields, which a test can change before mesh_test_start. One row: 64 KiB of float32,
 * summed. */
void mesh_test_init(struct mesh_test *test, uint32_t n_hosts);
/* Adds a second cable between two hosts: b:p0-a:p1. */
void mesh_test_twin(struct mesh_test *test);
struct world_fault *mesh_test_fault(struct mesh_test *test, weft_ns at_ns,
                                    enum world_fault_kind kind, uint32_t host);
/* Creates the world and the hosts. */
void mesh_test_start(struct mesh_test *test);
/* Runs until all hosts are over, or until the limit. */
weft_status mesh_test_run(struct mesh_test *test, weft_ns limit_ns,
                          struct weft_error *error);
/* Writes the hosts' states to `out`, such as "done failed done", and returns it. */
const char *mesh_test_states(struct mesh_test *test, char *out, size_t out_bytes);
void mesh_test_fini(struct mesh_test *test);

#endif
