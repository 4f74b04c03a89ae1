#include "backends/registry.h"

#include <stddef.h>
#include <string.h>

#include "backends/sim/backend.h"
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
