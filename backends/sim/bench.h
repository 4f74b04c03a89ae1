/* Workloads on the bare RC engine: no handshake, no scenario, RC timers armed. */
#ifndef WEFT_BACKENDS_SIM_BENCH_H
#define WEFT_BACKENDS_SIM_BENCH_H

#include <stdbool.h>
#include <stdint.h>

/* What a benchmark measured; times of this machine are in seconds, those of the simulated
 * world in nanoseconds. */
struct bench_result {
    double cpu_s, wall_s;
    uint64_t peak_rss_bytes; /* of the process */
    uint64_t packets;        /* data packets, ACKs not counted */
    uint64_t events;
    uint64_t sim_time_ns;
    uint64_t limit_ns; /* what no protocol on this wire can beat */
};

struct bench {
    const char *name; /* "sim:w1" */
    const char *description;
    /* False if it could not run. */
    bool (*run)(const struct bench *bench, struct bench_result *out);
    uint32_t n_nodes; /* around the ring; 2: one cable, one direction */
    uint32_t n_steps; /* messages that each node sends */
    uint64_t message_bytes;
};

/* n_nodes around a ring, 100 Gb/s and 1000 ns a cable, path MTU 4096. Every node sends
 * n_steps messages to its right; step k + 1 starts when step k arrived from the left. With
 * two nodes only the first sends. */
bool sim_bench_ring(const struct bench *bench, struct bench_result *out);

#endif
