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
    uint64_t sim_time_ns, sim_time_ps; /* the same, rounded down and exact */
    uint64_t limit_ns;                 /* what no protocol on this wire can beat */
};

/* By reference: frames carry addresses, and no byte is there to be copied. Moved: the ring
 * reduces real numbers, and the sums are checked by whoever knows what was put in. */
enum bench_payload {
    BENCH_BY_REFERENCE,
    BENCH_MOVED,
    BENCH_MOVED_ANY_ORDER /* the pieces of a WRITE land in any order within 20 us */
};

/* Every packet by itself, and an ACK for each. Or packet trains, and an ACK where the profile
 * asks for one: of every 64 packets, and of the last of a message. */
enum bench_trains { BENCH_PACKETS, BENCH_TRAINS };

struct bench {
    const char *name; /* "sim:w1" */
    const char *description;
    /* False if it could not run, or its result was wrong. */
    bool (*run)(const struct bench *bench, struct bench_result *out);
    uint32_t n_nodes; /* around the ring; 2: one cable, one direction */
    uint32_t n_steps; /* messages that each node sends */
    uint64_t message_bytes;
    enum bench_payload payload;
    enum bench_trains trains;
};

/* n_nodes around a ring, 100 Gb/s and 1000 ns a cable, path MTU 4096, NICs that spend no time
 * of their own. Every node sends n_steps messages to its
 * right; step k + 1 starts when step k arrived from the left. With two nodes only the first
 * sends, and one message follows the other. BENCH_MOVED: a ring all-reduce, so n_steps is
 * 2 * (n_nodes - 1). */
bool sim_bench_ring(const struct bench *bench, struct bench_result *out);

/* The same workload on the bare event core (backends/sim/bench_bare.c): what the ring would
 * cost if a NIC did nothing but check PSNs, keep a window and answer. */
bool sim_bench_bare(const struct bench *bench, struct bench_result *out);

#endif
