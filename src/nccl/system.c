#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "nccl/search.h"

enum { FIRST_CHUNK_HOPS = 1 << 10, CHUNK_HOPS_MAX = 1 << 16 };

/* Storage of hops, in chunks that double in size up to a limit, because a large system has
 * millions. */
struct topo_hops {
    struct topo_hops *next;
    uint32_t n, cap;
    struct topo_link *hops[];
};

struct topo_node *topo_find(const struct topo_system *system, enum topo_type type,
                            uint64_t id)
{
    for (uint32_t i = 0; i < system->n[type]; i++) {
        if (system->nodes[type][i]->id == id) {
            return system->nodes[type][i];
        }
    }
    return NULL;
}

struct topo_node *topo_add(struct topo_system *system, enum topo_type type, uint64_t id)
{
    struct topo_node *node;

    if (system->n[type] == TOPO_NODES_MAX) {
        return NULL;
    }
    node = weft_calloc(1, sizeof(*node));
    node->type = type;
    node->id = id;
    node->index = system->n[type];
    if (type == TOPO_GPU) {
        node->u.gpu = (struct topo_gpu){.dev = TOPO_UNDEFINED, .rank = TOPO_UNDEFINED};
    } else if (type == TOPO_CPU) {
        node->u.cpu = (struct topo_cpu){TOPO_UNDEFINED, TOPO_UNDEFINED, TOPO_UNDEFINED};
    }
    if (system->nodes[type] == NULL) {
        system->nodes[type] = weft_calloc(TOPO_NODES_MAX, sizeof(*system->nodes[type]));
    }
    system->nodes[type][system->n[type]++] = node;
    return node;
}

static void free_node(struct topo_node *node)
{
    for (int type = 0; type < TOPO_N_TYPES; type++) {
        free(node->paths[type]);
    }
    free(node->links);
    free(node);
}

static void unlink_from(struct topo_node *node, const struct topo_node *gone)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < node->n_links; i++) {
        if (node->links[i].to != gone) {
            node->links[n++] = node->links[i];
        }
    }
    node->n_links = n;
}

void topo_remove(struct topo_system *system, struct topo_node *node)
{
    struct topo_node **of_type = system->nodes[node->type];
    uint32_t n_after = system->n[node->type] - node->index - 1;

    for (int type = 0; type < TOPO_N_TYPES; type++) {
        for (uint32_t i = 0; i < system->n[type]; i++) {
            unlink_from(system->nodes[type][i], node);
        }
    }
    memmove(&of_type[node->index], &of_type[node->index + 1], n_after * sizeof(*of_type));
    system->n[node->type]--;
    for (uint32_t i = node->index; i < system->n[node->type]; i++) {
        of_type[i]->index = i;
    }
    free_node(node);
}

/* Returns the link, made if needed, or NULL if there is no room. */
static struct topo_link *link_of(struct topo_node *from, struct topo_node *to,
                                 enum topo_link_type type)
{
    for (uint32_t i = 0; i < from->n_links; i++) {
        if (from->links[i].to == to && from->links[i].type == type) {
            return &from->links[i];
        }
    }
    if (from->n_links == TOPO_LINKS_MAX) {
        return NULL;
    }
    if (from->n_links == from->cap_links) {
        from->cap_links = from->cap_links == 0 ? 8 : 2 * from->cap_links;
        from->links = weft_realloc(from->links, from->cap_links * sizeof(*from->links));
    }
    from->links[from->n_links] = (struct topo_link){.type = type, .to = to};
    return &from->links[from->n_links++];
}

bool topo_connect(struct topo_node *from, struct topo_node *to, enum topo_link_type type,
                  float bw)
{
    struct topo_link *link = link_of(from, to, type);
    struct topo_link moved;

    if (link == NULL) {
        return false;
    }
    link->bw += bw;
    moved = *link;
    while (link > from->links && link[-1].bw < moved.bw) {
        *link = link[-1];
        link--;
    }
    *link = moved;
    return true;
}

bool topo_connect_both(struct topo_node *a, struct topo_node *b, enum topo_link_type type,
                       float bw)
{
    return topo_connect(a, b, type, bw) && topo_connect(b, a, type, bw);
}

struct topo_link *topo_reverse(const struct topo_node *from, const struct topo_link *link)
{
    struct topo_node *to = link->to;

    for (uint32_t i = 0; i < to->n_links; i++) {
        if (to->links[i].to == from && to->links[i].type == link->type) {
            return &to->links[i];
        }
    }
    return NULL;
}

void topo_forget_paths(struct topo_system *system)
{
    for (int type = 0; type < TOPO_N_TYPES; type++) {
        for (uint32_t i = 0; i < system->n[type]; i++) {
            for (int to = 0; to < TOPO_N_TYPES; to++) {
                free(system->nodes[type][i]->paths[to]);
                system->nodes[type][i]->paths[to] = NULL;
            }
        }
    }
    while (system->hops != NULL) {
        struct topo_hops *next = system->hops->next;

        free(system->hops);
        system->hops = next;
    }
}

struct topo_link **topo_hops(struct topo_system *system, uint32_t n)
{
    struct topo_hops *chunk = system->hops;

    weft_check(n <= FIRST_CHUNK_HOPS);
    if (chunk == NULL || chunk->n + n > chunk->cap) {
        uint32_t cap = chunk == NULL                 ? FIRST_CHUNK_HOPS
                       : chunk->cap < CHUNK_HOPS_MAX ? 2 * chunk->cap
                                                     : CHUNK_HOPS_MAX;

        chunk = weft_alloc(sizeof(*chunk) + cap * sizeof(chunk->hops[0]));
        chunk->next = system->hops;
        chunk->n = 0;
        chunk->cap = cap;
        system->hops = chunk;
    }
    chunk->n += n;
    return &chunk->hops[chunk->n - n];
}

void topo_free(struct topo_system *system)
{
    if (system == NULL) {
        return;
    }
    topo_forget_paths(system);
    for (int type = 0; type < TOPO_N_TYPES; type++) {
        for (uint32_t i = 0; i < system->n[type]; i++) {
            free_node(system->nodes[type][i]);
        }
        free(system->nodes[type]);
    }
    free(system->host_hashes);
    free(system);
}
