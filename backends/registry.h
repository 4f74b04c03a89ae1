/* The only place that names all backends. */
#ifndef WEFT_BACKENDS_REGISTRY_H
#define WEFT_BACKENDS_REGISTRY_H

#include <stdbool.h>

#include "backends/sim/bench.h"
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

/* The `index`th benchmark, or NULL past the last. */
const struct bench *bench_at(unsigned index);

#endif
