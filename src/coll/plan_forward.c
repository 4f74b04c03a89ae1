/* Plans an all_to_all that needs connections between neighbours only. The data of each rank goes
 * down a tree of shortest routes from that rank. A rank keeps its own block, and forwards the
 * others from SCRATCH. */
#include <stdlib.h>

#include "base/check.h"
#include "coll/plan_draft.h"

/* Distance in messages at which a message is listed behind the one that it depends on: of whole
 * blocks, and of slices, of which a rank would hold too many. */
#define SPREAD 4
#define SPREAD_OF_SLICES 2

struct forward {
    struct coll_draft *draft;
    uint32_t n, rank;
    uint64_t share;    /* elements of a block */
    uint64_t slice;    /* elements of a slice of a block */
    uint32_t n_slices; /* slices of a block */
    uint32_t n_group;  /* blocks in a message, at most; 1 if n_slices > 1 */
    uint32_t source;   /* root of the current tree */
    uint32_t *parent;  /* Owned [n]: COLL_NO_STEP at the source, and if unreachable */
    const struct mesh_lane **lane; /* Owned [n]: lane from the parent; NULL if none */
    uint32_t *depth;               /* Owned [n]: hops from the source */
    uint32_t *order;  /* Owned [n]: ranks in the order in which they are found */
    uint32_t *place;  /* Owned [n]: place of a rank; those beyond it follow it */
    uint32_t *at;     /* Owned [n]: rank at a place */
    uint32_t *branch; /* Owned [n]: first place of the source's child before the rank */
    uint64_t *load;   /* Owned [n_lanes]: blocks of all trees so far that pass a lane */
    uint64_t *time;   /* Owned [n_lanes]: time of a block, about 2 on the fastest lane */
    uint32_t *beyond; /* Owned [n]: blocks that come to a rank in the current tree */
    uint32_t *chosen; /* Owned [n]: those of them that had several routes */
    uint32_t *children; /* Owned [n] */
    uint32_t n_children;
};

/* A message: the blocks, or one slice, of the destinations at places [first, first + n) of the tree
 * of one source. */
struct piece {
    uint32_t branch; /* first place beyond the source's child */
    uint32_t first, n;
    uint32_t slice;
};

bool coll_forward_uses(const struct mesh_lane *lane)
{
    return lane->n_hops <= COLL_RELAYS_MAX + 1;
}

static void find(struct forward *forward, uint32_t rank, uint32_t parent,
                 const struct mesh_lane *lane, uint32_t *n_found)
{
    if (rank != forward->source && forward->parent[rank] == COLL_NO_STEP) {
        forward->parent[rank] = parent;
        forward->lane[rank] = lane;
        forward->depth[rank] = forward->depth[parent] + 1;
        forward->order[(*n_found)++] = rank;
    }
}

/* Returns the lane from `parent` to `rank`, if a shortest route to the rank passes it; or NULL. */
static const struct mesh_lane *lane_to(const struct forward *forward, uint32_t parent,
                                       uint32_t rank)
{
    bool is_reached =
        parent == forward->source || forward->parent[parent] != COLL_NO_STEP;
    const struct mesh_lane *lane =
        is_reached && forward->depth[parent] + 1 == forward->depth[rank]
            ? mesh_overlay_lane(&forward->draft->mesh->overlay, parent, rank)
            : NULL;

    return lane != NULL && coll_forward_uses(lane) ? lane : NULL;
}

/* Adds `n` blocks to the lanes from the source to the rank. Returns how busy these lanes are: the
 * sum of the squares of their times, so that one busy lane counts more than two half as busy. */
static uint64_t load_route(struct forward *forward, uint32_t rank, uint32_t n)
{
    const struct mesh_overlay *overlay = &forward->draft->mesh->overlay;
    uint64_t busy = 0;

    for (; rank != forward->source; rank = forward->parent[rank]) {
        const struct mesh_lane *lane = forward->lane[rank];

        if (lane != NULL) {
            size_t index = (size_t)(lane - overlay->lanes);
            uint64_t time = (forward->load[index] += n) * forward->time[index];

            busy += time * time;
        }
    }
    return busy;
}

/* Chooses the parent of a rank: of all shortest routes, the one whose lanes are the least busy with
 * all trees so far. */
static void choose_parent(struct forward *forward, uint32_t rank)
{
    const struct mesh_overlay *overlay = &forward->draft->mesh->overlay;
    uint32_t best = forward->parent[rank], first = overlay->first[rank];
    uint32_t n = overlay->first[rank + 1] - first, n_found = 0;
    const struct mesh_lane *best_lane = forward->lane[rank];
    uint64_t least = UINT64_MAX;

    for (uint32_t k = 0; k < n && n_found < 2; k++) {
        n_found += lane_to(forward, overlay->lanes[first + k].to, rank) != NULL;
    }
    for (uint32_t k = 0; k < n && n_found > 1; k++) {
        uint32_t parent =
            overlay->lanes[first + (forward->source % 2 == 0 ? k : n - 1 - k)].to;
        const struct mesh_lane *lane = lane_to(forward, parent, rank);
        uint64_t busy;

        if (lane == NULL) {
            continue;
        }
        forward->parent[rank] = parent;
        forward->lane[rank] = lane;
        busy = load_route(forward, rank, 0);
        if (busy < least) {
            best = parent;
            best_lane = lane;
            least = busy;
        }
    }
    forward->parent[rank] = best;
    forward->lane[rank] = best_lane;
    if (n_found > 1) { /* counts for the next choice in this tree */
        load_route(forward, rank, 1);
        forward->chosen[rank] = 1;
    }
}

/* Divides the blocks evenly between the shortest routes. A tree of the first routes that are found
 * would send most of them over the first lane. */
static void balance(struct forward *forward, uint32_t n_found)
{
    const struct mesh_overlay *overlay = &forward->draft->mesh->overlay;

    for (uint32_t i = 0; i < n_found; i++) {
        forward->beyond[forward->order[i]] = 1;
        forward->chosen[forward->order[i]] = 0;
    }
    for (uint32_t i = 1; i < n_found; i++) {
        if (overlay->hosts[forward->order[i]] != overlay->hosts[forward->source]) {
            choose_parent(forward, forward->order[i]);
        }
    }
    for (uint32_t i = n_found; i-- > 1;) {
        uint32_t rank = forward->order[i], parent = forward->parent[rank];
        const struct mesh_lane *lane = forward->lane[rank];

        if (lane != NULL) {
            forward->load[lane - overlay->lanes] +=
                forward->beyond[rank] - forward->chosen[rank];
        }
        forward->beyond[parent] += forward->beyond[rank];
        forward->chosen[parent] += forward->chosen[rank];
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
    }
    forward->order[0] = source;
    forward->depth[source] = 0;
    for (uint32_t r = 0; r < forward->n; r++) {
        if (overlay->hosts[r] == overlay->hosts[source]) {
            find(forward, r, source, mesh_overlay_lane(overlay, source, r), &n_found);
        }
    }
    for (uint32_t i = 0; i < n_found; i++) {
        uint32_t at = forward->order[i], first = overlay->first[at];
        uint32_t n = overlay->first[at + 1] - first;

        for (uint32_t k = 0; k < n; k++) {
            const struct mesh_lane *lane =
                &overlay->lanes[first + (source % 2 == 0 ? k : n - 1 - k)];

            if (coll_forward_uses(lane)) {
                find(forward, lane->to, at, lane, &n_found);
            }
        }
    }
    balance(forward, n_found);
    return n_found;
}

/* Numbers the ranks of the tree so that those beyond any rank follow it, and finds the children of
 * this rank. */
static void find_places(struct forward *forward, uint32_t n_found)
{
    uint32_t *next = weft_calloc(forward->n, sizeof(*next));

    forward->n_children = 0;
    forward->place[forward->source] = 0;
    next[forward->source] = 1;
    for (uint32_t i = 0; i < n_found; i++) {
        uint32_t rank = forward->order[i], parent = forward->parent[rank];

        if (i > 0) {
            forward->place[rank] = next[parent];
            next[parent] += forward->beyond[rank];
            next[rank] = forward->place[rank] + 1;
            forward->branch[rank] = parent == forward->source ? forward->place[rank]
                                                              : forward->branch[parent];
        }
        forward->at[forward->place[rank]] = rank;
        if (parent == forward->rank) {
            forward->children[forward->n_children++] = rank;
        }
    }
    free(next);
}

/* Returns the key of the messages of a piece of the branch over the `hop`-th hop. */
static struct coll_key key_of(const struct forward *forward, const struct piece *piece,
                              uint32_t hop)
{
    uint64_t turn = (piece->first - piece->branch) / forward->n_group;
    uint32_t spread = forward->n_slices > 1 ? SPREAD_OF_SLICES : SPREAD;

    return (struct coll_key){.time = turn * forward->n_slices + piece->slice +
                                     (uint64_t)spread * hop,
                             .flow = forward->source};
}

/* Finds the first piece in the places [first, end) of a branch. Both ends of a lane find the same
 * pieces. */
static bool next_piece(const struct forward *forward, uint32_t first, uint32_t end,
                       struct piece *piece)
{
    uint32_t turn = (first - piece->branch) / forward->n_group;
    uint32_t stop = piece->branch + (turn + 1) * forward->n_group;

    piece->first = first;
    piece->n = (stop < end ? stop : end) - first;
    return first < end;
}

/* Returns the elements of a piece's message. */
static uint64_t count_of(const struct forward *forward, const struct piece *piece)
{
    uint64_t left = forward->share - piece->slice * forward->slice;

    return forward->n_slices == 1  ? piece->n * forward->share
           : left < forward->slice ? left
                                   : forward->slice;
}

/* Returns the number of places from `first` on, before `end`, whose blocks follow each other in the
 * input. */
static uint32_t run_of(const struct forward *forward, uint32_t first, uint32_t end)
{
    uint32_t n = 1;

    while (first + n < end && forward->at[first + n] == forward->at[first] + n) {
        n++;
    }
    return n;
}

/* Drafts a send of the source. Blocks that do not follow each other in the input are first copied
 * into one message. */
static void draft_first_send(struct forward *forward, uint32_t child,
                             const struct piece *piece)
{
    struct coll_key key = key_of(forward, piece, 0);
    uint32_t end = piece->first + piece->n, partial = COLL_NO_STEP;
    struct coll_step step = {.kind = COLL_SEND,
                             .peer = child,
                             .from = COLL_INPUT,
                             .from_at = forward->at[piece->first] * forward->share +
                                        piece->slice * forward->slice,
                             .count = count_of(forward, piece),
                             .after = {COLL_NO_STEP, COLL_NO_STEP}};

    if (run_of(forward, piece->first, end) < piece->n) {
        uint32_t copied = COLL_NO_STEP, n;

        partial = forward->draft->n_partials++;
        for (uint32_t i = piece->first; i < end; i += n) {
            struct coll_step copy = {.kind = COLL_COPY,
                                     .peer = forward->rank,
                                     .from = COLL_INPUT,
                                     .from_at = forward->at[i] * forward->share,
                                     .to = COLL_SCRATCH,
                                     .to_at = (i - piece->first) * forward->share,
                                     .after = {copied, COLL_NO_STEP}};

            n = run_of(forward, i, end);
            copy.count = n * forward->share;
            copied = coll_draft_add(forward->draft, key, &copy, partial);
        }
        step.from = COLL_SCRATCH;
        step.from_at = 0;
        step.after[0] = copied;
    }
    coll_draft_add(forward->draft, key, &step, partial);
}

/* Drafts what is done with a message in SCRATCH, where `received` made it: this rank's own block,
 * which is the first if it is among them, is copied, and the others are sent on. */
static void draft_use(struct forward *forward, const struct piece *held,
                      uint32_t received, uint32_t partial)
{
    struct coll_key key = key_of(forward, held, forward->depth[forward->rank]);
    struct coll_step step = {.kind = COLL_COPY,
                             .peer = forward->rank,
                             .from = COLL_SCRATCH,
                             .to = COLL_OUTPUT,
                             .to_at = forward->source * forward->share,
                             .count = forward->share,
                             .after = {received, COLL_NO_STEP}};
    uint32_t used = COLL_NO_STEP;

    if (held->first == forward->place[forward->rank]) {
        used = coll_draft_add(forward->draft, key, &step, partial);
    }
    step.kind = COLL_SEND;
    step.to = COLL_INPUT;
    step.to_at = 0;
    for (uint32_t i = 0; i < forward->n_children; i++) {
        uint32_t child = forward->children[i], first = forward->place[child];
        uint32_t end = first + forward->beyond[child], stop = held->first + held->n;
        struct piece piece = *held;

        piece.first = first > held->first ? first : held->first;
        end = end < stop ? end : stop;
        if (piece.first < end) {
            uint32_t sent;

            piece.n = end - piece.first;
            step.peer = child;
            step.from_at = (piece.first - held->first) * forward->share;
            step.count = count_of(forward, &piece);
            sent = coll_draft_add(forward->draft, key, &step, partial);
            used = coll_draft_join(forward->draft, key, used, sent, partial);
        }
    }
}

/* Drafts what this rank receives of a piece, and forwards. */
static void draft_receive(struct forward *forward, const struct piece *piece)
{
    bool is_own = piece->n == 1 && piece->first == forward->place[forward->rank];
    struct coll_step step = {.kind = COLL_RECV,
                             .peer = forward->parent[forward->rank],
                             .to = is_own ? COLL_OUTPUT : COLL_SCRATCH,
                             .to_at = is_own ? forward->source * forward->share +
                                                   piece->slice * forward->slice
                                             : 0,
                             .count = count_of(forward, piece),
                             .after = {COLL_NO_STEP, COLL_NO_STEP}};
    uint32_t partial = is_own ? COLL_NO_STEP : forward->draft->n_partials++;
    uint32_t received = coll_draft_add(
        forward->draft, key_of(forward, piece, forward->depth[forward->rank] - 1), &step,
        partial);

    if (!is_own) {
        draft_use(forward, piece, received, partial);
    }
}

static void draft_copy(struct forward *forward)
{
    forward->source = forward->rank;
    for (uint32_t k = 0; k < forward->n_slices; k++) {
        struct piece piece = {.n = 1, .slice = k};
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

/* Drafts the messages of a subtree, whose top is this rank or, at the source, its child. */
static void draft_subtree(struct forward *forward, uint32_t top)
{
    uint32_t first = forward->place[top], end = first + forward->beyond[top];
    struct piece piece = {.branch = forward->branch[top]};

    for (; next_piece(forward, first, end, &piece); first += piece.n) {
        for (uint32_t k = 0; k < forward->n_slices; k++) {
            piece.slice = k;
            if (forward->source == forward->rank) {
                draft_first_send(forward, top, &piece);
            } else {
                draft_receive(forward, &piece);
            }
        }
    }
}

static void draft_source(struct forward *forward)
{
    if (forward->source != forward->rank) {
        if (forward->parent[forward->rank] != COLL_NO_STEP) {
            draft_subtree(forward, forward->rank);
        }
        return;
    }
    for (uint32_t i = 0; i < forward->n_children; i++) {
        draft_subtree(forward, forward->children[i]);
    }
}

/* Sets the time of a block on each lane. */
static void find_times(struct forward *forward)
{
    const struct mesh_overlay *overlay = &forward->draft->mesh->overlay;
    uint64_t most_bps = 0;

    for (size_t i = 0; i < overlay->n_lanes; i++) {
        uint64_t rate_bps = overlay->lanes[i].rate_bps;

        most_bps = rate_bps > most_bps ? rate_bps : most_bps;
    }
    for (size_t i = 0; i < overlay->n_lanes; i++) {
        forward->time[i] = most_bps / (overlay->lanes[i].rate_bps + 1) + 1;
    }
}

static void make_arrays(struct forward *forward)
{
    size_t n_lanes = forward->draft->mesh->overlay.n_lanes;
    uint32_t n = forward->n;

    forward->parent = weft_calloc(n, sizeof(*forward->parent));
    forward->lane = weft_calloc(n, sizeof(const struct mesh_lane *));
    forward->depth = weft_calloc(n, sizeof(*forward->depth));
    forward->order = weft_calloc(n, sizeof(*forward->order));
    forward->place = weft_calloc(n, sizeof(*forward->place));
    forward->at = weft_calloc(n, sizeof(*forward->at));
    forward->branch = weft_calloc(n, sizeof(*forward->branch));
    forward->children = weft_calloc(n, sizeof(*forward->children));
    forward->load = weft_calloc(n_lanes + 1, sizeof(*forward->load));
    forward->time = weft_calloc(n_lanes + 1, sizeof(*forward->time));
    forward->beyond = weft_calloc(n, sizeof(*forward->beyond));
    forward->chosen = weft_calloc(n, sizeof(*forward->chosen));
}

static void free_arrays(struct forward *forward)
{
    free(forward->parent);
    free(forward->lane);
    free(forward->depth);
    free(forward->order);
    free(forward->place);
    free(forward->at);
    free(forward->branch);
    free(forward->children);
    free(forward->load);
    free(forward->time);
    free(forward->beyond);
    free(forward->chosen);
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
    make_arrays(&forward);
    find_times(&forward);
    draft_copy(&forward);
    for (uint32_t source = 0; source < n; source++) {
        forward.source = source;
        find_places(&forward, find_tree(&forward));
        draft_source(&forward);
    }
    free_arrays(&forward);
}
