/* Disjoint spanning trees by matroid partition (Edmonds 1965; the augmenting search of Roskind
 * and Tarjan, Math. Oper. Res. 10, 1985, without their data structures): copies of edges are
 * inserted into k forests one by one. A copy that closes a cycle in every forest can still be
 * inserted if it pushes another copy out of that cycle into another forest. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "mesh/pack.h"

struct partition {
    const struct pack *pack;
    uint32_t k;
    uint32_t n_copies;
    uint32_t *edge_of;   /* Owned [n_copies] */
    uint32_t *forest_of; /* Owned [n_copies]: PACK_NONE if in none */
    uint32_t *label;     /* Owned [n_copies]: copy that pushes it out */
    bool *is_labelled;   /* Owned [n_copies] */
    uint32_t *queue;     /* Owned [n_copies] */
    /* Owned [n]: copy by which a search through a forest reached the vertex */
    uint32_t *up;
    uint32_t *vertices; /* Owned [n] */
    uint32_t *first_at; /* Owned [k * n]: first half-copy at a vertex of a forest */
    uint32_t *next_at;  /* Owned [2 * n_copies]: next half-copy at the same vertex */
    uint64_t budget;
};

/* Adds a copy to a forest, which is kept as lists of half-copies at every vertex: 2c at its
 * edge's a, 2c + 1 at b. */
static void link_copy(struct partition *p, uint32_t copy, uint32_t forest)
{
    const struct pack_edge *edge = &p->pack->edges[p->edge_of[copy]];
    uint32_t ends[2] = {edge->a, edge->b};
    p->forest_of[copy] = forest;
    for (uint32_t end = 0; end < 2; end++) {
        uint32_t *first = &p->first_at[forest * p->pack->n + ends[end]];
        p->next_at[2 * copy + end] = *first;
        *first = 2 * copy + end;
    }
}

static void unlink_copy(struct partition *p, uint32_t copy)
{
    const struct pack_edge *edge = &p->pack->edges[p->edge_of[copy]];
    uint32_t ends[2] = {edge->a, edge->b};
    for (uint32_t end = 0; end < 2; end++) {
        uint32_t *at = &p->first_at[p->forest_of[copy] * p->pack->n + ends[end]];
        while (*at != 2 * copy + end) {
            at = &p->next_at[*at];
        }
        *at = p->next_at[2 * copy + end];
    }
    p->forest_of[copy] = PACK_NONE;
}

/* Finds the path from `a` to `b` in a forest; up[] leads from b back to a. Returns false if
 * there is none. */
static bool find_path(struct partition *p, uint32_t forest, uint32_t a, uint32_t b)
{
    uint32_t n = p->pack->n;
    uint32_t n_queued = 1;
    for (uint32_t v = 0; v < n; v++) {
        p->up[v] = PACK_NONE;
    }
    p->vertices[0] = a;
    for (uint32_t at = 0; at < n_queued && p->up[b] == PACK_NONE; at++) {
        uint32_t v = p->vertices[at];
        for (uint32_t half = p->first_at[forest * n + v]; half != PACK_NONE;
             half = p->next_at[half]) {
            uint32_t to = pack_other(&p->pack->edges[p->edge_of[half / 2]], v);
            if (to != a && p->up[to] == PACK_NONE) {
                p->up[to] = half / 2;
                p->vertices[n_queued++] = to;
            }
        }
    }
    uint64_t cost = n + n_queued;
    p->budget = p->budget > cost ? p->budget - cost : 0;
    return p->up[b] != PACK_NONE;
}

/* Moves the labelled chain up by one: `copy` into `forest`, the copy that pushed it out into
 * the forest that it leaves, and so on. */
static void augment(struct partition *p, uint32_t copy, uint32_t forest)
{
    while (true) {
        uint32_t left = p->forest_of[copy];
        uint32_t pusher = p->label[copy];
        if (left != PACK_NONE) {
            unlink_copy(p, copy);
        }
        link_copy(p, copy, forest);
        if (left == PACK_NONE) {
            return;
        }
        forest = left;
        copy = pusher;
    }
}

/* Inserts one more copy. Returns false if the copies already inserted do not permit it, or the
 * budget is exhausted. */
static bool insert(struct partition *p, uint32_t copy)
{
    uint32_t n_queued = 1;
    memset(p->is_labelled, 0, p->n_copies * sizeof(*p->is_labelled));
    p->queue[0] = copy;
    p->is_labelled[copy] = true;
    for (uint32_t at = 0; at < n_queued && p->budget > 0; at++) {
        uint32_t now = p->queue[at];
        const struct pack_edge *edge = &p->pack->edges[p->edge_of[now]];
        for (uint32_t forest = 0; forest < p->k; forest++) {
            if (forest == p->forest_of[now]) {
                continue;
            }
            if (!find_path(p, forest, edge->a, edge->b)) {
                augment(p, now, forest);
                return true;
            }
            for (uint32_t v = edge->b; v != edge->a;) {
                uint32_t on = p->up[v];
                if (!p->is_labelled[on]) {
                    p->is_labelled[on] = true;
                    p->label[on] = now;
                    p->queue[n_queued++] = on;
                }
                v = pack_other(&p->pack->edges[p->edge_of[on]], v);
            }
        }
    }
    return false;
}

/* ---- the centre ---- */

struct tree {
    const struct pack *pack;
    uint32_t *first; /* Owned [n] */
    uint32_t *next;  /* Owned [2 (n - 1)]: half-edges, 2i at a, 2i+1 at b */
    const uint32_t *edges;
    uint32_t *order; /* Owned [n]: vertices as reached */
};

/* Writes the parent of every vertex in a breadth-first search from `root`. Returns the vertex
 * reached last. */
static uint32_t sweep(struct tree *tree, uint32_t root, uint32_t *parents)
{
    uint32_t n = 1;
    parents[root] = PACK_NONE;
    tree->order[0] = root;
    for (uint32_t at = 0; at < n; at++) {
        uint32_t v = tree->order[at];
        for (uint32_t half = tree->first[v]; half != PACK_NONE; half = tree->next[half]) {
            uint32_t to = pack_other(&tree->pack->edges[tree->edges[half / 2]], v);
            if (to != parents[v]) {
                parents[to] = v;
                tree->order[n++] = to;
            }
        }
    }
    weft_check(n == tree->pack->n);
    return tree->order[n - 1];
}

/* Finds the middle of a longest path by two sweeps. */
void pack_centre(const struct pack *pack, const uint32_t *tree_edges, uint32_t *parents)
{
    struct tree tree = {
        .pack = pack,
        .first = weft_alloc(((size_t)pack->n + 1) * sizeof(uint32_t)),
        .next = weft_alloc((2 * (size_t)pack->n + 1) * sizeof(uint32_t)),
        .edges = tree_edges,
        .order = weft_alloc(((size_t)pack->n + 1) * sizeof(uint32_t)),
    };
    for (uint32_t v = 0; v < pack->n; v++) {
        tree.first[v] = PACK_NONE;
    }
    for (uint32_t i = 0; i + 1 < pack->n; i++) {
        const struct pack_edge *edge = &pack->edges[tree_edges[i]];
        tree.next[2 * i] = tree.first[edge->a];
        tree.first[edge->a] = 2 * i;
        tree.next[2 * i + 1] = tree.first[edge->b];
        tree.first[edge->b] = 2 * i + 1;
    }
    uint32_t one_end = sweep(&tree, 0, parents);
    uint32_t centre = sweep(&tree, one_end, parents);
    uint32_t length = 0;
    for (uint32_t v = centre; parents[v] != PACK_NONE; v = parents[v]) {
        length++;
    }
    for (uint32_t i = 0; i < length / 2; i++) {
        centre = parents[centre];
    }
    (void)sweep(&tree, centre, parents);
    free(tree.first);
    free(tree.next);
    free(tree.order);
}

/* ---- the whole packing ---- */

static void partition_init(struct partition *p, const struct pack *pack,
                           const uint32_t *copies, uint32_t k, uint64_t budget)
{
    uint32_t n_copies = 0;
    for (uint32_t e = 0; e < pack->n_edges; e++) {
        n_copies += copies[e];
    }
    *p = (struct partition){
        .pack = pack,
        .k = k,
        .n_copies = n_copies,
        .edge_of = weft_calloc((size_t)n_copies + 1, sizeof(uint32_t)),
        .forest_of = weft_calloc((size_t)n_copies + 1, sizeof(uint32_t)),
        .label = weft_calloc((size_t)n_copies + 1, sizeof(uint32_t)),
        .is_labelled = weft_calloc((size_t)n_copies + 1, sizeof(bool)),
        .queue = weft_calloc((size_t)n_copies + 1, sizeof(uint32_t)),
        .up = weft_calloc((size_t)pack->n + 1, sizeof(uint32_t)),
        .vertices = weft_calloc((size_t)pack->n + 1, sizeof(uint32_t)),
        .first_at = weft_calloc((size_t)k * pack->n + 1, sizeof(uint32_t)),
        .next_at = weft_calloc(2 * (size_t)n_copies + 1, sizeof(uint32_t)),
        .budget = budget,
    };
    for (size_t i = 0; i < (size_t)k * pack->n; i++) {
        p->first_at[i] = PACK_NONE;
    }
    /* One copy of every edge comes before the second of any, so that trees differ. */
    uint32_t n = 0;
    for (uint32_t round = 0; n < n_copies; round++) {
        for (uint32_t e = 0; e < pack->n_edges; e++) {
            if (copies[e] > round) {
                p->edge_of[n] = e;
                p->forest_of[n++] = PACK_NONE;
            }
        }
    }
}

static void partition_fini(struct partition *p)
{
    free(p->edge_of);
    free(p->forest_of);
    free(p->label);
    free(p->is_labelled);
    free(p->queue);
    free(p->up);
    free(p->vertices);
    free(p->first_at);
    free(p->next_at);
}

bool pack_union(const struct pack *pack, const uint32_t *copies, uint32_t k,
                uint64_t budget, uint32_t *out)
{
    struct partition p;
    partition_init(&p, pack, copies, k, budget);
    uint32_t n_in = 0;
    uint32_t n_wanted = k * (pack->n - 1);
    for (uint32_t copy = 0; copy < p.n_copies && n_in < n_wanted && p.budget > 0;
         copy++) {
        n_in += insert(&p, copy) ? 1 : 0;
    }
    if (n_in == n_wanted) {
        uint32_t *edges = weft_calloc((size_t)pack->n + 1, sizeof(*edges));
        for (uint32_t forest = 0; forest < k; forest++) {
            uint32_t n = 0;
            for (uint32_t copy = 0; copy < p.n_copies; copy++) {
                if (p.forest_of[copy] == forest) {
                    edges[n++] = p.edge_of[copy];
                }
            }
            pack_centre(pack, edges, out + (size_t)forest * pack->n);
        }
        free(edges);
    }
    partition_fini(&p);
    return n_in == n_wanted;
}
