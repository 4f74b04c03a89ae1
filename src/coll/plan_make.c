/* Composes collectives of flows. */
#include <stdlib.h>

#include "base/check.h"
#include "coll/plan_draft.h"

/* Distance in slices at which a message is listed behind the one it depends on, so that its
 * lane can carry others meanwhile. Measured: along trees 1 is best, and more only delays the
 * first results; between all pairs, sums of all ranks take longer. */
#define SPREAD_BLOCKS 4

struct maker {
    struct coll_draft *draft;
    uint32_t n, rank;
    struct coll_child *up_room, *down_room; /* Owned [n] */
};

/* Part of a range of elements. */
struct part {
    uint64_t at, count;
};

static struct part part_of(uint64_t count, uint32_t share_before, uint32_t share)
{
    uint64_t begin = count / 65536 * share_before + count % 65536 * share_before / 65536;
    uint32_t until = share_before + share;
    uint64_t end = count / 65536 * until + count % 65536 * until / 65536;

    return (struct part){begin, end - begin};
}

/* Returns block `i` of `count` elements cut into n; the first ones are longer by one element. */
static struct part block_of(uint64_t count, uint32_t i, uint32_t n)
{
    uint64_t longer = count % n;

    return (struct part){count / n * i + (longer < i ? longer : i),
                         count / n + (i < longer)};
}

/* The part of a job's data that one structure carries, as a flow per root: `count` elements at
 * `at` of the whole (all_reduce, broadcast, reduce) or of every rank's block. The structure is
 * a ring, a tree, a binomial tree or (if none is set) a star. */
struct carried {
    struct part part;
    const struct coll_ring *ring;       /* NULL if none */
    const struct coll_hanging *hanging; /* NULL if none */
    bool is_binomial;
};

static void view_of(const struct maker *maker, const struct carried *carried,
                    uint32_t root, bool is_down, struct coll_view *out)
{
    struct coll_child *room = is_down ? maker->down_room : maker->up_room;

    if (carried->ring != NULL && is_down) {
        coll_view_ring_out(carried->ring, maker->rank, root, room, out);
    } else if (carried->ring != NULL) {
        coll_view_ring_in(carried->ring, maker->rank, root, room, out);
    } else if (carried->hanging != NULL) {
        coll_view_hanging(carried->hanging, root, room, out);
    } else if (carried->is_binomial) {
        coll_view_binomial(maker->n, maker->rank, root, room, out);
    } else {
        coll_view_star(maker->n, maker->rank, root, room, out);
    }
}

static void add_flow(struct maker *maker, const struct carried *carried, uint32_t root,
                     struct coll_flow flow)
{
    enum weft_collective kind = maker->draft->job->kind;
    struct coll_view up, down;

    if (coll_reduces(kind)) {
        view_of(maker, carried, root, false, &up);
        flow.up = &up;
        flow.keeps_output = kind != WEFT_ALL_REDUCE;
    }
    if (kind == WEFT_ALL_REDUCE || !coll_reduces(kind)) {
        view_of(maker, carried, root, true, &down);
        flow.down = &down;
    }
    coll_draft_flow(maker->draft, &flow);
}

/* Adds a flow for every rank's block. In rings all flows progress at once, each rank at
 * another one, so they are listed block after block. */
static void add_blocks(struct maker *maker, const struct carried *carried)
{
    const struct coll_job *job = maker->draft->job;
    uint64_t share = job->count / maker->n;

    for (uint32_t root = 0; root < maker->n; root++) {
        struct part block = block_of(carried->part.count, root, maker->n);
        struct coll_flow flow = {.spread = SPREAD_BLOCKS};
        uint64_t longest = carried->part.count;

        if (job->kind == WEFT_ALL_REDUCE) {
            flow.input_at = carried->part.at + block.at;
            flow.output_at = flow.input_at;
            flow.count = block.count;
            longest = block_of(carried->part.count, 0, maker->n).count;
        } else {
            bool is_gather = job->kind == WEFT_ALL_GATHER;

            flow.input_at = carried->part.at + (is_gather ? 0 : root * share);
            flow.output_at = carried->part.at + (is_gather ? root * share : 0);
            flow.count = carried->part.count;
        }
        if (carried->ring != NULL && longest > 0) {
            uint64_t slice = coll_slice_count(maker->draft, longest);

            flow.spread = (uint32_t)((longest + slice - 1) / slice);
        }
        add_flow(maker, carried, root, flow);
    }
}

static void add_whole(struct maker *maker, const struct carried *carried, uint32_t root)
{
    add_flow(maker, carried, root,
             (struct coll_flow){.input_at = carried->part.at,
                                .output_at = carried->part.at,
                                .count = carried->part.count,
                                .spread = 1});
}

/* Returns the number of elements that all structures of a packing carry together. */
static uint64_t carried_count(const struct maker *maker)
{
    const struct coll_job *job = maker->draft->job;
    bool is_dealt = job->kind == WEFT_REDUCE_SCATTER || job->kind == WEFT_ALL_GATHER;

    return is_dealt ? job->count / maker->n : job->count;
}

static void along_rings(struct maker *maker, bool all)
{
    const struct mesh_packing *packing = &maker->draft->mesh->rings;
    uint64_t count = carried_count(maker);
    uint32_t before = 0;

    for (uint32_t i = 0; i < (all ? packing->n_rings : 1); i++) {
        uint32_t share = all ? packing->rings[i].share : 65536;
        struct coll_ring ring;
        struct carried carried = {.part = part_of(count, before, share), .ring = &ring};

        before += share;
        maker->draft->channel = packing->rings[i].channel;
        coll_ring_make(&packing->rings[i], maker->n, &ring);
        add_blocks(maker, &carried);
        coll_ring_fini(&ring);
    }
}

static void along_trees(struct maker *maker, const struct mesh_packing *packing, bool all,
                        uint32_t root)
{
    enum weft_collective kind = maker->draft->job->kind;
    uint64_t count = carried_count(maker);
    uint32_t before = 0, n_trees = all ? packing->n_trees : 1;

    for (uint32_t i = 0; i < n_trees; i++) {
        const struct mesh_packed_tree *tree = &packing->trees[i];
        uint32_t share = all ? tree->share : 65536;
        struct coll_hanging hanging;
        struct carried carried = {.part = part_of(count, before, share),
                                  .hanging = &hanging};

        before += share;
        maker->draft->channel = tree->channel;
        coll_hanging_make(tree->parent, maker->n, maker->rank, &hanging);
        if (kind == WEFT_REDUCE_SCATTER || kind == WEFT_ALL_GATHER) {
            add_blocks(maker, &carried);
        } else {
            add_whole(maker, &carried, root == COLL_NO_STEP ? tree->root : root);
        }
        coll_hanging_fini(&hanging);
    }
}

static void along_rooted_trees(struct maker *maker, bool all)
{
    const struct coll_job *job = maker->draft->job;
    const struct coll_mesh *mesh = maker->draft->mesh;
    const struct coll_rooted *rooted = coll_mesh_rooted(mesh, job->root);

    if (job->kind != WEFT_BROADCAST && job->kind != WEFT_REDUCE) {
        along_trees(maker, &mesh->trees, all, COLL_NO_STEP);
    } else if (rooted == NULL) {
        along_trees(maker, &mesh->trees, all, job->root);
    } else {
        along_trees(maker, job->kind == WEFT_BROADCAST ? &rooted->out : &rooted->in, all,
                    job->root);
    }
}

static void along_chain(struct maker *maker)
{
    const struct coll_job *job = maker->draft->job;
    const struct mesh_packed_ring *packed = &maker->draft->mesh->rings.rings[0];
    struct carried carried = {.part = {0, job->count}};
    uint32_t *parent, root;
    struct coll_hanging hanging;
    struct coll_ring ring;

    if (job->kind != WEFT_ALL_REDUCE) {
        coll_ring_make(packed, maker->n, &ring);
        carried.ring = &ring;
        add_whole(maker, &carried, job->root);
        coll_ring_fini(&ring);
        return;
    }
    parent = weft_calloc(maker->n, sizeof(*parent));
    coll_path_parents(packed, maker->n, parent, &root);
    coll_hanging_make(parent, maker->n, maker->rank, &hanging);
    carried.hanging = &hanging;
    add_whole(maker, &carried, root);
    coll_hanging_fini(&hanging);
    free(parent);
}

static void along_pairs(struct maker *maker, bool is_binomial)
{
    const struct coll_job *job = maker->draft->job;
    struct carried carried = {.part = {0, carried_count(maker)},
                              .is_binomial = is_binomial};

    if (job->kind == WEFT_BROADCAST || job->kind == WEFT_REDUCE) {
        add_whole(maker, &carried, job->root);
    } else {
        add_blocks(maker, &carried);
    }
}

void coll_draft_flows(struct coll_draft *draft, enum weft_algorithm algorithm)
{
    uint32_t n = draft->plan->n_ranks;
    struct maker maker = {.draft = draft,
                          .n = n,
                          .rank = draft->plan->rank,
                          .up_room = weft_calloc(n, sizeof(*maker.up_room)),
                          .down_room = weft_calloc(n, sizeof(*maker.down_room))};

    switch (algorithm) {
    case WEFT_ALGORITHM_RING:
    case WEFT_ALGORITHM_RINGS:
        along_rings(&maker, algorithm == WEFT_ALGORITHM_RINGS);
        break;
    case WEFT_ALGORITHM_TREE:
    case WEFT_ALGORITHM_TREES:
        along_rooted_trees(&maker, algorithm == WEFT_ALGORITHM_TREES);
        break;
    case WEFT_ALGORITHM_CHAIN:
        along_chain(&maker);
        break;
    case WEFT_ALGORITHM_DIRECT:
    case WEFT_ALGORITHM_EXCHANGE:
        along_pairs(&maker, false);
        break;
    case WEFT_ALGORITHM_DOUBLING:
    case WEFT_ALGORITHM_HALVING:
        along_pairs(&maker, true);
        break;
    case WEFT_ALGORITHM_AUTO:
    case WEFT_ALGORITHM_FORWARD:
        weft_check(false); /* no algorithm of flows */
        break;
    }
    free(maker.up_room);
    free(maker.down_room);
}
