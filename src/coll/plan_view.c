#include "coll/plan_view.h"

#include <stdlib.h>

#include "base/check.h"

void coll_ring_make(const struct mesh_packed_ring *ring, uint32_t n,
                    struct coll_ring *out)
{
    uint32_t rank = 0;

    *out = (struct coll_ring){.n = n,
                              .order = weft_calloc(n, sizeof(*out->order)),
                              .position = weft_calloc(n, sizeof(*out->position))};
    for (uint32_t i = 0; i < n; i++) {
        weft_check(rank < n && (rank != 0 || i == 0));
        out->order[i] = rank;
        out->position[rank] = i;
        rank = ring->next[rank];
    }
    weft_check(rank == 0);
}

void coll_ring_fini(struct coll_ring *ring)
{
    free(ring->order);
    free(ring->position);
    *ring = (struct coll_ring){0};
}

/* ---- trees rooted anywhere ---- */

struct adjacency {
    uint32_t n;
    uint32_t *first; /* Owned [n + 1] */
    uint32_t *other; /* Owned [2 (n - 1)] */
};

static void adjacency_make(const uint32_t *parent, uint32_t n, struct adjacency *out)
{
    uint32_t *fill;

    out->n = n;
    out->first = weft_calloc((size_t)n + 2, sizeof(*out->first));
    out->other = weft_calloc(2 * (size_t)n, sizeof(*out->other));
    for (uint32_t r = 0; r < n; r++) {
        if (parent[r] != MESH_NO_PARENT) {
            weft_check(parent[r] < n);
            out->first[r + 2]++;
            out->first[parent[r] + 2]++;
        }
    }
    for (uint32_t r = 0; r < n; r++) {
        out->first[r + 2] += out->first[r + 1];
    }
    /* moves to the end of each list, which is the beginning of the next */
    fill = out->first + 1;
    for (uint32_t r = 0; r < n; r++) {
        if (parent[r] != MESH_NO_PARENT) {
            out->other[fill[r]++] = parent[r];
            out->other[fill[parent[r]]++] = r;
        }
    }
}

static void adjacency_fini(struct adjacency *tree)
{
    free(tree->first);
    free(tree->other);
}

/* Writes distances from `from` and, unless `toward` is NULL, the neighbour of `from` on the
 * path to each rank. Returns the farthest rank. */
static uint32_t walk(const struct adjacency *tree, uint32_t from, uint32_t *distance,
                     uint32_t *toward, uint32_t *queue)
{
    uint32_t n_queued = 1;

    for (uint32_t r = 0; r < tree->n; r++) {
        distance[r] = UINT32_MAX;
    }
    distance[from] = 0;
    queue[0] = from;
    for (uint32_t i = 0; i < n_queued; i++) {
        uint32_t at = queue[i];

        for (uint32_t k = tree->first[at]; k < tree->first[at + 1]; k++) {
            uint32_t next = tree->other[k];

            if (distance[next] == UINT32_MAX) {
                distance[next] = distance[at] + 1;
                if (toward != NULL) {
                    toward[next] = at == from ? next : toward[at];
                }
                queue[n_queued++] = next;
            }
        }
    }
    weft_check(n_queued == tree->n);
    return queue[n_queued - 1];
}

void coll_hanging_make(const uint32_t *parent, uint32_t n, uint32_t rank,
                       struct coll_hanging *out)
{
    struct adjacency tree;
    uint32_t *queue = weft_calloc(n, sizeof(*queue));
    uint32_t *other = weft_calloc(n, sizeof(*other));
    uint32_t end;

    adjacency_make(parent, n, &tree);
    *out = (struct coll_hanging){.rank = rank, .n = n};
    out->toward = weft_calloc(n, sizeof(*out->toward));
    out->distance = weft_calloc(n, sizeof(*out->distance));
    out->eccentricity = weft_calloc(n, sizeof(*out->eccentricity));
    out->n_neighbours = tree.first[rank + 1] - tree.first[rank];
    out->neighbours = weft_calloc((size_t)out->n_neighbours + 1, sizeof(*out->toward));
    for (uint32_t i = 0; i < out->n_neighbours; i++) {
        out->neighbours[i] = tree.other[tree.first[rank] + i];
    }
    /* The farthest rank is always an end of a longest path. */
    end = walk(&tree, rank, out->distance, out->toward, queue);
    end = walk(&tree, end, out->eccentricity, NULL, queue);
    walk(&tree, end, other, NULL, queue);
    for (uint32_t r = 0; r < n; r++) {
        out->eccentricity[r] =
            other[r] > out->eccentricity[r] ? other[r] : out->eccentricity[r];
    }
    adjacency_fini(&tree);
    free(queue);
    free(other);
}

void coll_hanging_fini(struct coll_hanging *hanging)
{
    free(hanging->neighbours);
    free(hanging->toward);
    free(hanging->distance);
    free(hanging->eccentricity);
    *hanging = (struct coll_hanging){0};
}

void coll_view_hanging(const struct coll_hanging *hanging, uint32_t root,
                       struct coll_child *room, struct coll_view *out)
{
    bool is_root = hanging->rank == root;

    *out = (struct coll_view){.parent = is_root ? COLL_NO_STEP : hanging->toward[root],
                              .children = room,
                              .depth = hanging->distance[root],
                              .deepest = hanging->eccentricity[root]};
    for (uint32_t i = 0; i < hanging->n_neighbours; i++) {
        if (hanging->neighbours[i] != out->parent) {
            room[out->n_children++] =
                (struct coll_child){hanging->neighbours[i], out->depth + 1};
        }
    }
}

void coll_path_parents(const struct mesh_packed_ring *ring, uint32_t n, uint32_t *parent,
                       uint32_t *out_root)
{
    struct coll_ring path;

    coll_ring_make(ring, n, &path);
    *out_root = path.order[n / 2];
    for (uint32_t i = 0; i < n; i++) {
        parent[path.order[i]] = i < n / 2   ? path.order[i + 1]
                                : i > n / 2 ? path.order[i - 1]
                                            : MESH_NO_PARENT;
    }
    coll_ring_fini(&path);
}

/* ---- regular trees ---- */

static void view_path(const struct coll_ring *ring, uint32_t depth, uint32_t parent,
                      uint32_t child, struct coll_child *room, struct coll_view *out)
{
    *out = (struct coll_view){.parent = depth == 0 ? COLL_NO_STEP : parent,
                              .children = room,
                              .n_children = depth + 1 < ring->n,
                              .depth = depth,
                              .deepest = ring->n - 1};
    room[0] = (struct coll_child){child, depth + 1};
}

void coll_view_ring_in(const struct coll_ring *ring, uint32_t rank, uint32_t root,
                       struct coll_child *room, struct coll_view *out)
{
    uint32_t n = ring->n, at = ring->position[rank];

    view_path(ring, (ring->position[root] + n - at) % n, ring->order[(at + 1) % n],
              ring->order[(at + n - 1) % n], room, out);
}

void coll_view_ring_out(const struct coll_ring *ring, uint32_t rank, uint32_t root,
                        struct coll_child *room, struct coll_view *out)
{
    uint32_t n = ring->n, at = ring->position[rank];

    view_path(ring, (at + n - ring->position[root]) % n, ring->order[(at + n - 1) % n],
              ring->order[(at + 1) % n], room, out);
}

void coll_view_star(uint32_t n, uint32_t rank, uint32_t root, struct coll_child *room,
                    struct coll_view *out)
{
    *out = (struct coll_view){
        .parent = root, .children = room, .depth = 1, .deepest = n > 1 ? 1 : 0};
    if (rank == root) {
        out->parent = COLL_NO_STEP;
        out->depth = 0;
        for (uint32_t i = 1; i < n; i++) {
            room[out->n_children++] = (struct coll_child){(root + i) % n, 1};
        }
    }
}

static uint32_t n_bits(uint32_t x)
{
    uint32_t n = 0;

    while (x >> n != 0) {
        n++;
    }
    return n;
}

void coll_view_binomial(uint32_t n, uint32_t rank, uint32_t root, struct coll_child *room,
                        struct coll_view *out)
{
    uint32_t x = (rank + n - root) % n, depth = n_bits(x);

    *out = (struct coll_view){.parent = x == 0 ? COLL_NO_STEP
                                               : (root + x - (1u << (depth - 1))) % n,
                              .children = room,
                              .depth = depth,
                              .deepest = n_bits(n - 1)};
    for (uint32_t k = depth; (1u << k) < n - x; k++) {
        room[out->n_children++] =
            (struct coll_child){(uint32_t)((root + (uint64_t)x + (1u << k)) % n), k + 1};
    }
}
