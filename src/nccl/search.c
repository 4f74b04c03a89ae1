/* Breadth-first search for paths from a base. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "nccl/paths.h"
#include "nccl/search.h"

struct search {
    struct topo_system *system;
    const struct topo_node *base;
    bool nvb_disable;
    struct topo_node **now,
        **next; /* [TOPO_N_TYPES * TOPO_NODES_MAX]: the current and the next level */
    uint32_t n_now, n_next;
};

const struct topo_path *topo_path(const struct topo_node *from,
                                  const struct topo_node *to)
{
    return from->paths[to->type] != NULL ? &from->paths[to->type][to->index] : NULL;
}

struct topo_path *topo_own_path(struct topo_system *system, struct topo_node *from,
                                const struct topo_node *to)
{
    if (from->paths[to->type] == NULL) {
        uint32_t n = system->n[to->type];

        from->paths[to->type] = weft_calloc(n, sizeof(struct topo_path));
        for (uint32_t i = 0; i < n; i++) {
            from->paths[to->type][i].type = TOPO_DIS;
        }
    }
    return &from->paths[to->type][to->index];
}

/* Returns true if data may pass the node: a GPU only from NVLink to NVLink, and only one GPU. */
static bool may_pass(const struct search *search, const struct topo_node *node,
                     const struct topo_path *path, const struct topo_link *link)
{
    if (node == search->base || node->type != TOPO_GPU) {
        return true;
    }
    return !search->nvb_disable && link->type == TOPO_LINK_NVL &&
           link->to->type == TOPO_GPU && path->n_hops <= 1;
}

static enum topo_path_type type_of_link(enum topo_link_type type)
{
    static const enum topo_path_type types[] = {
        [TOPO_LINK_LOC] = TOPO_LOC,
        [TOPO_LINK_NVL] = TOPO_NVL,
        [TOPO_LINK_C2C] = TOPO_C2C,
        [TOPO_LINK_PCI] = TOPO_PIX,
        [TOPO_LINK_SYS] = TOPO_SYS,
        [TOPO_LINK_NET] = TOPO_LOC /* only the path from NIC to GPU counts */};

    return types[type];
}

/* Returns the type of a path extended by one link. */
static enum topo_path_type step_type(const struct topo_node *node,
                                     const struct topo_path *path,
                                     const struct topo_link *link, uint32_t n_hops)
{
    const struct topo_node *to = link->to;
    enum topo_path_type type = type_of_link(link->type);

    if (node->type == TOPO_PCI && to->type == TOPO_PCI) {
        type = TOPO_PXB;
    }
    if (link->type == TOPO_LINK_PCI && (node->type == TOPO_CPU || to->type == TOPO_CPU)) {
        type = TOPO_PHB;
    }
    if (node->type == TOPO_GPU && path->type == TOPO_NVL && type == TOPO_NVL &&
        n_hops > 1) {
        type = TOPO_NVB;
    }
    return type > path->type ? type : path->type;
}

static void add_next(struct search *search, struct topo_node *node)
{
    for (uint32_t i = 0; i < search->n_next; i++) {
        if (search->next[i] == node) {
            return;
        }
    }
    search->next[search->n_next++] = node;
}

/* Extends a path over one link if the result is the first path there, or as short as the best
 * and wider. */
static weft_status step(struct search *search, struct topo_node *node,
                        const struct topo_link *link, struct weft_error *error)
{
    const struct topo_path *path = topo_path(node, search->base);
    struct topo_path *to = topo_own_path(search->system, link->to, search->base);
    float bw = path->bw < link->bw ? path->bw : link->bw;
    struct topo_link *reverse;
    struct topo_link **hops;

    if (!may_pass(search, node, path, link) ||
        !((to->bw == 0 || to->n_hops > path->n_hops) && to->bw < bw)) {
        return WEFT_OK;
    }
    reverse = topo_reverse(node, link);
    if (reverse == NULL && to->n_hops > 0) {
        reverse = to->hops[0]; /* NCCL keeps the step of an earlier path */
    }
    if (reverse == NULL) {
        char from_name[TOPO_NAME_BYTES], to_name[TOPO_NAME_BYTES];

        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_PATHS,
                         "there is a link from %s to %s, but none back",
                         topo_node_name(node, from_name),
                         topo_node_name(link->to, to_name));
    }
    hops = topo_hops(search->system, path->n_hops + 1);
    hops[0] = reverse;
    if (path->n_hops > 0) {
        memcpy(hops + 1, path->hops, path->n_hops * sizeof(*hops));
    }
    to->type = step_type(node, path, link, path->n_hops + 1);
    to->bw = bw;
    to->n_hops = path->n_hops + 1;
    to->hops = hops;
    add_next(search, link->to);
    return WEFT_OK;
}

static weft_status search_level(struct search *search, struct weft_error *error)
{
    search->n_next = 0;
    for (uint32_t i = 0; i < search->n_now; i++) {
        struct topo_node *node = search->now[i];

        for (uint32_t k = 0; k < node->n_links; k++) {
            weft_status status = step(search, node, &node->links[k], error);

            if (status != WEFT_OK) {
                return status;
            }
        }
    }
    return WEFT_OK;
}

weft_status topo_search_from(struct topo_system *system, struct topo_node *base,
                             bool nvb_disable, struct weft_error *error)
{
    size_t n_max = (size_t)TOPO_N_TYPES * TOPO_NODES_MAX;
    struct search search = {.system = system,
                            .base = base,
                            .nvb_disable = nvb_disable,
                            .now = weft_alloc(n_max * sizeof(struct topo_node *)),
                            .next = weft_alloc(n_max * sizeof(struct topo_node *))};
    struct topo_path *self = topo_own_path(system, base, base);
    weft_status status = WEFT_OK;

    *self = (struct topo_path){.type = TOPO_LOC, .bw = TOPO_LOC_BW};
    search.now[search.n_now++] = base;
    while (search.n_now > 0 && status == WEFT_OK) {
        struct topo_node **spare = search.now;

        status = search_level(&search, error);
        search.now = search.next;
        search.n_now = search.n_next;
        search.next = spare;
    }
    free(search.now);
    free(search.next);
    return status;
}
