/* The only place that names all backends. */
#ifndef WEFT_BACKENDS_REGISTRY_H
#define WEFT_BACKENDS_REGISTRY_H

#include <stdbool.h>

#include "io/world.h"

/* A backend of the design; `ops` is NULL until it is built. */
struct backend {
    const char *name;        /* "sim" */
    const char *description; /* one line, for `weft list` and --help */
    const struct world_ops *ops;
};

/* The `index`th, or NULL past the last. */
const struct backend *backend_at(unsigned index);
/* The operations of `name`; NULL if there is no such backend, or not yet (backend_is_known). */
const struct world_ops *backend_find(const char *name);
/* Whether `name` is one of ours at all: "not implemented yet" differs from a typing error. */
bool backend_is_known(const char *name);

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

/* The `index`th benchmark, or NULL past the last. */
const struct bench *bench_at(unsigned index);

#endif
