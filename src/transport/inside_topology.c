/* The topology of the host as NCCL computes it: the system with the ranks of this host and the
 * paths, without GPUs that this rank cannot reach inside. */
#include <stdlib.h>

#include "base/check.h"
#include "nccl/describe.h"
#include "transport/inside_private.h"

static weft_status load(struct inside *inside, const struct io_machine *machine,
                        struct weft_error *error)
{
    int *ranks = weft_calloc((size_t)inside->n_locals + 1, sizeof(*ranks));
    struct topo_inside described = {
        .machine = machine,
        .host_hash = inside->peers[inside->config.rank].host_hash,
        .ranks = ranks,
        .n_ranks = inside->n_locals,
        .merges_nics = inside->config.merges_nics,
    };
    weft_status status;

    for (uint32_t i = 0; i < inside->n_locals; i++) {
        ranks[i] = (int)inside->locals[i];
    }
    status = topo_of_host(&described, topo_rules_find("2.25"), &inside->system, error);
    free(ranks);
    return status;
}

/* In NCCL's order (initTransportsRank): compute paths, remove unreachable GPUs, compute paths
 * again. */
static weft_status find_paths(struct inside *inside, struct weft_error *error)
{
    weft_status status = topo_compute_paths(&inside->view, error);

    if (status == WEFT_OK) {
        status = topo_trim(&inside->view, error);
    }
    return status == WEFT_OK ? topo_compute_paths(&inside->view, error) : status;
}

void inside_find_topology(struct inside *inside)
{
    struct io_env *env = inside->env;
    const struct io_machine *machine = env->ops->hostinfo(env)->machine;
    struct weft_error why = {0};
    char text[256];
    weft_status status;

    if (machine == NULL || inside->n_locals < 2) {
        return;
    }
    status = load(inside, machine, &why);
    if (status == WEFT_OK) {
        inside->view.system = inside->system;
        status = find_paths(inside, &why);
    }
    if (status != WEFT_OK) { /* mostly because host memory replaces the GPUs */
        inside->view.system = NULL;
        weft_error_format(&why, text, sizeof(text));
        weft_log(env->log, WEFT_LOG_INFO, "%s: what is inside is not known: %s",
                 env->name, text);
    }
}
