/* Plans an all_to_all that needs connections between neighbours only. The data of each rank goes
 * down a tree of shortest routes from that rank. A rank keeps its own block, and forwards the
 * others from SCRATCH. */
#include <stdlib.h>

#include "base/check.h"
#include "coll/plan_private.h"

/* Distance in slices at which a message is listed behind the one that it depends on. */
#define SPREAD 2

struct forward {
    struct coll_draft *draft;
    uint32_t n, rank;
    uint64_t share;    /* elements of a block */
    uint64_t slice;    /* elements of a slice of a block */
    uint32_t n_slices; /* slices of a block */
    uint32_t n_group;  /* blocks in a message, at most; 1 if n_slices > 1 */
    uint32_t source;   /* root of the current tree */
    uint32_t *parent;  /* Owned [n]: COLL_NO_STEP at the source, and if unreachable */
    uint32_t *depth;   /* Owned [n]: hops from the source */
    uint32_t *order;   /* Owned [n]: ranks in the order in which they are found */
    /* Owned [n]: next hop from this rank to the destination; the rank itself for its own block;
     * COLL_NO_STEP if this rank is not on the route */
    uint32_t *toward;
    uint32_t *children; /* Owned [n] */
    uint32_t n_children;
};

/* Consecutive destinations [first, first + n) of one source and slice, all in one group. */
struct piece {
    uint32_t first, n;
    uint32_t slice;
};

bool coll_forward_uses(const struct mesh_lane *lane)
{
    return lane->n_hops <= COLL_RELAYS_MAX + 1;
}

static void find(struct forward *forward, uint32_t rank, uint32_t parent,
                 uint32_t *n_found)
{
    if (rank != forward->source && forward->parent[rank] == COLL_NO_STEP) {
        forward->parent[rank] = parent;
        forward->depth[rank] = forward->depth[parent] + 1;
        forward->order[(*n_found)++] = rank;
    }
}

/* Finds the tree of the source: first the other ranks of its host, then others in order of
 * distance. Every other source looks at the lanes backwards, so that equal routes are shared. */
static uint32_t find_tree(struct forward *forward)
{
    const struct mesh_overlay *overlay = &forward->draft->mesh->overlay;
    uint32_t n_found = 1, source = forward->source;

    for (uint32_t r = 0; r < forward->n; r++) {
        forward->parent[r] = COLL_NO_STEP;
        forward->toward[r] = COLL_NO_STEP;
    }
    forward->order[0] = source;
    forward->depth[source] = 0;
    for (uint32_t r = 0; r < forward->n; r++) {
        if (overlay->hosts[r] == overlay->hosts[source]) {
            find(forward, r, source, &n_found);
        }
    }
    for (uint32_t i = 0; i < n_found; i++) {
        uint32_t at = forward->order[i], first = overlay->first[at];
        uint32_t n = overlay->first[at + 1] - first;

        for (uint32_t k = 0; k < n; k++) {
            uint32_t index = first + (source % 2 == 0 ? k : n - 1 - k);

            if (coll_forward_uses(&overlay->lanes[index])) {
                find(forward, overlay->lanes[index].to, at, &n_found);
            }
        }
    }
    return n_found;
}

/* Finds which destinations are reached through this rank, and over which of its children. */
static void find_ways(struct forward *forward, uint32_t n_found)
{
    forward->n_children = 0;
    for (uint32_t i = 0; i < n_found; i++) {
        uint32_t at = forward->order[i], parent = forward->parent[at];

        if (at == forward->rank) {
            forward->toward[at] = at;
        } else if (parent == forward->rank) {
            forward->toward[at] = at;
            forward->children[forward->n_children++] = at;
        } else if (parent != COLL_NO_STEP) {
            forward->toward[at] = forward->toward[parent];
        }
    }
}

/* Returns the key of the messages of one piece's group and slice over the `hop`-th hop. */
static struct coll_key key_of(const struct forward *forward, const struct piece *piece,
                              uint32_t hop)
{
    uint32_t n_groups = (forward->n + forward->n_group - 1) / forward->n_group;
    uint32_t group = piece->first / forward->n_group;
    uint32_t own = forward->source / forward->n_group;
    uint64_t turn =
        (group + n_groups - own) % n_groups; /* each source begins at itself */

    return (struct coll_key){.time = turn * forward->n_slices + piece->slice +
                                     (uint64_t)SPREAD * hop,
                             .flow = forward->source * n_groups + group};
}

/* Returns true if the destination is beyond `next`, or is it. */
static bool is_beyond(const struct forward *forward, uint32_t to, uint32_t next)
{
    return next == forward->rank ? forward->toward[to] != COLL_NO_STEP
                                 : forward->toward[to] == next;
}

/* Finds the next piece in [first, end) that goes to `next`, which can be this rank. The block of
 * `next` itself is a piece of its own. Both ends of a lane find the same pieces. */
static bool next_piece(const struct forward *forward, uint32_t next, uint32_t first,
                       uint32_t end, struct piece *out)
{
    while (first < end && !is_beyond(forward, first, next)) {
        first++;
    }
    out->first = first;
    out->n = 0;
    while (first < end && is_beyond(forward, first, next) &&
           (first != next || out->n == 0)) {
        out->n++;
        if (first++ == next) {
            break;
        }
    }
    return out->n > 0;
}

/* Returns the elements of a piece's message. */
static uint64_t count_of(const struct forward *forward, const struct piece *piece)
{
    uint64_t left = forward->share - piece->slice * forward->slice;

    return forward->n_slices == 1  ? piece->n * forward->share
           : left < forward->slice ? left
                                   : forward->slice;
}

/* Drafts the sends of the destinations of `held`, which are in INPUT at the source (`partial` is
 * COLL_NO_STEP) and in SCRATCH elsewhere, where `received` made them. */
static void draft_sends(struct forward *forward, const struct piece *held,
                        uint32_t received, uint32_t partial)
{
    struct coll_key key = key_of(forward, held, forward->depth[forward->rank]);
    uint32_t sent = COLL_NO_STEP;

    for (uint32_t i = 0; i < forward->n_children; i++) {
        uint32_t child = forward->children[i], at = held->first;
        struct piece piece = {.slice = held->slice};

        while (next_piece(forward, child, at, held->first + held->n, &piece)) {
            struct coll_step step = {.kind = COLL_SEND,
                                     .peer = child,
                                     .from = COLL_INPUT,
                                     .from_at = piece.first * forward->share +
                                                piece.slice * forward->slice,
                                     .count = count_of(forward, &piece),
                                     .after = {received, COLL_NO_STEP}};
            uint32_t send;

            if (partial != COLL_NO_STEP) {
                step.from = COLL_SCRATCH;
                step.from_at = (piece.first - held->first) * forward->share;
            }
            send = coll_draft_add(forward->draft, key, &step, partial);
            if (partial != COLL_NO_STEP) {
                sent = coll_draft_join(forward->draft, key, sent, send, partial);
            }
            at = piece.first + piece.n;
        }
    }
}

/* Drafts what this rank receives of destinations [first, end), and forwards. */
static void draft_receives(struct forward *forward, uint32_t first, uint32_t end,
                           uint32_t slice)
{
    struct piece piece = {.slice = slice};

    while (next_piece(forward, forward->rank, first, end, &piece)) {
        bool is_own = piece.first == forward->rank;
        struct coll_step step = {.kind = COLL_RECV,
                                 .peer = forward->parent[forward->rank],
                                 .to = is_own ? COLL_OUTPUT : COLL_SCRATCH,
                                 .to_at = is_own ? forward->source * forward->share +
                                                       slice * forward->slice
                                                 : 0,
                                 .count = count_of(forward, &piece),
                                 .after = {COLL_NO_STEP, COLL_NO_STEP}};
        uint32_t partial = is_own ? COLL_NO_STEP : forward->draft->n_partials++;
        uint32_t received = coll_draft_add(
            forward->draft, key_of(forward, &piece, forward->depth[forward->rank] - 1),
            &step, partial);

        if (!is_own) {
            draft_sends(forward, &piece, received, partial);
        }
        first = piece.first + piece.n;
    }
}

static void draft_copy(struct forward *forward)
{
    forward->source = forward->rank;
    for (uint32_t k = 0; k < forward->n_slices; k++) {
        struct piece piece = {.first = forward->rank, .n = 1, .slice = k};
        uint64_t at = forward->rank * forward->share + k * forward->slice;
        struct coll_step step = {.kind = COLL_COPY,
                                 .peer = forward->rank,
                                 .from = COLL_INPUT,
                                 .from_at = at,
                                 .to = COLL_OUTPUT,
                                 .to_at = at,
                                 .count = count_of(forward, &piece),
                                 .after = {COLL_NO_STEP, COLL_NO_STEP}};

        coll_draft_add(forward->draft, key_of(forward, &piece, 0), &step, COLL_NO_STEP);
    }
}

static void draft_source(struct forward *forward)
{
    for (uint32_t first = 0; first < forward->n; first += forward->n_group) {
        uint32_t end = first + forward->n_group;

        end = end < forward->n ? end : forward->n;
        for (uint32_t k = 0; k < forward->n_slices; k++) {
            struct piece group = {.first = first, .n = end - first, .slice = k};

            if (forward->source == forward->rank) {
                draft_sends(forward, &group, COLL_NO_STEP, COLL_NO_STEP);
            } else {
                draft_receives(forward, first, end, k);
            }
        }
    }
}

void coll_draft_forward(struct coll_draft *draft)
{
    uint32_t n = draft->plan->n_ranks;
    uint64_t most = draft->slice_bytes / weft_dtype_bytes(draft->job->dtype);
    struct forward forward = {.draft = draft,
                              .n = n,
                              .rank = draft->plan->rank,
                              .share = draft->job->count / n};
    uint64_t n_blocks;

    if (forward.share == 0) {
        return;
    }
    forward.slice = coll_slice_count(draft, forward.share);
    forward.n_slices = (uint32_t)((forward.share + forward.slice - 1) / forward.slice);
    n_blocks = most / forward.share;
    forward.n_group = n_blocks == 0 ? 1 : n_blocks < n ? (uint32_t)n_blocks : n;
    forward.parent = weft_calloc(n, sizeof(*forward.parent));
    forward.depth = weft_calloc(n, sizeof(*forward.depth));
    forward.order = weft_calloc(n, sizeof(*forward.order));
    forward.toward = weft_calloc(n, sizeof(*forward.toward));
    forward.children = weft_calloc(n, sizeof(*forward.children));
    draft_copy(&forward);
    for (uint32_t source = 0; source < n; source++) {
        forward.source = source;
        find_ways(&forward, find_tree(&forward));
        draft_source(&forward);
    }
    free(forward.parent);
    free(forward.depth);
    free(forward.order);
    free(forward.toward);
    free(forward.children);
}
