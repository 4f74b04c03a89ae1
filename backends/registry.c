#include "backends/registry.h"

#include <stddef.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "backends/sim/bench.h"
#include "base/check.h"

static const struct backend backends[] = {
    {"sim", "a whole fabric in one process, in virtual time", &backend_sim},
    {"soft", "the simulated NIC engine on a real wire, in real time", NULL},
    {"rxe", "the kernel's soft-RoCE in network namespaces", NULL},
    {"verbs", "real RoCE v2 NICs through libibverbs", NULL},
};

const struct backend *backend_at(unsigned index)
{
    return index < WEFT_LENGTH(backends) ? &backends[index] : NULL;
}

static const struct backend *find(const char *name)
{
    for (size_t i = 0; i < WEFT_LENGTH(backends); i++) {
        if (strcmp(backends[i].name, name) == 0) {
            return &backends[i];
        }
    }
    return NULL;
}

const struct world_ops *backend_find(const char *name)
{
    const struct backend *backend = find(name);
    return backend == NULL ? NULL : backend->ops;
}

bool backend_is_known(const char *name)
{
    return find(name) != NULL;
}

/* The workloads of peers' published figures: sizes and counts are theirs. */
static const struct bench benches[] = {
    {"sim:w1", "1 GiB over one cable", sim_bench_ring, 2, 1, 1u << 30},
    {"sim:w2", "ring all-reduce of 256 MiB on a triangle, one direction", sim_bench_ring,
     3, 4, 89478486},
    {"sim:w3-64", "64 nodes, 126 steps of 4 KiB around a ring", sim_bench_ring, 64, 126,
     4096},
    {"sim:w3-256", "256 nodes, 510 steps of 4 KiB", sim_bench_ring, 256, 510, 4096},
    {"sim:w3-1024", "1024 nodes, 2046 steps of 4 KiB", sim_bench_ring, 1024, 2046, 4096},
    {"sim:w3b-64", "64 nodes, 126 steps of 1 MiB", sim_bench_ring, 64, 126, 1u << 20},
    {"sim:w3b-1024", "1024 nodes, 200 steps of 64 KiB", sim_bench_ring, 1024, 200, 65536},
};

const struct bench *bench_at(unsigned index)
{
    return index < WEFT_LENGTH(benches) ? &benches[index] : NULL;
}
