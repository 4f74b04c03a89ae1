/* Workloads on the bare RC engine: without handshake or scenario, but with armed RC timers. */
#ifndef WEFT_BACKENDS_SIM_BENCH_H
#define WEFT_BACKENDS_SIM_BENCH_H

#include <stdbool.h>
#include <stdint.h>

/* Result of a benchmark. Times of this machine are in seconds, those of the simulated world in
 * nanoseconds and picoseconds. */
struct bench_result {
    double cpu_s, wall_s;
    uint64_t peak_rss_bytes; /* of this process */
    uint64_t packets;        /* data packets, without ACKs */
    uint64_t events;
    uint64_t sim_time_ns, sim_time_ps; /* the same time, rounded down and exact */
    uint64_t limit_ns;                 /* lower bound for any protocol on this wire */
};

/* BENCH_BY_REFERENCE: frames carry addresses only, so no bytes are copied. BENCH_MOVED: real
 * numbers are moved and reduced, and the sums are checked. */
enum bench_payload {
    BENCH_BY_REFERENCE,
    BENCH_MOVED,
    BENCH_MOVED_ANY_ORDER /* as BENCH_MOVED, but the pieces of a WRITE land in any order
                           * within 20 us */
};

/* BENCH_PACKETS: packets are handled one by one, each with an ACK. BENCH_TRAINS: packets form
 * trains, and an ACK is sent where the profile requests one: for every 64th packet and the last
 * packet of a message. */
enum bench_trains { BENCH_PACKETS, BENCH_TRAINS };

struct bench {
    const char *name; /* "sim:w1" */
    const char *description;
    /* Returns false if the benchmark could not run, or its result was wrong. */
    bool (*run)(const struct bench *bench, struct bench_result *out);
    uint32_t n_nodes; /* in the ring; 2: one cable, one direction */
    uint32_t n_steps; /* messages that each node sends */
    uint64_t message_bytes;
    enum bench_payload payload;
    enum bench_trains trains;
};

/* Runs n_nodes in a ring of cables with 100 Gbit/s and 1000 ns each, path MTU 4096, and NICs
 * without processing time. Every node sends n_steps messages to its right neighbour; step k + 1
 * starts when step k has arrived from the left. With two nodes only the first one sends, message
 * after message. BENCH_MOVED is a ring all-reduce, so n_steps is 2 * (n_nodes - 1). */
bool sim_bench_ring(const struct bench *bench, struct bench_result *out);

/* Runs the same workload on the bare event core (bench_bare.c). This is what the ring would cost
 * if a NIC only checked PSNs, kept a window and sent ACKs. */
bool sim_bench_bare(const struct bench *bench, struct bench_result *out);

#endif
