/* Lays message patterns over the lanes of the mesh and sums what each lane carries. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "coll/plan_draft.h"
#include "coll/shapes.h"

#define WHOLE 65536u

__extension__ typedef unsigned __int128 wide;

struct laying {
    const struct mesh_overlay *overlay;
    uint64_t *share;   /* Owned [n_lanes]: in 1/65536 of the data */
    uint64_t *wanted;  /* Owned [n]: amount from the current source to each rank */
    uint64_t *reduced; /* Owned [n]: amount that each rank reduces */
    uint64_t *relayed; /* Owned [n]: amount that the rank's host relays */
    /* Owned [n]: amount that the rank's GPU copies within its memory for short and long
     * messages */
    uint64_t *stepped, *direct;
    uint32_t *head;     /* Owned [n]: first rank of its host */
    uint32_t *distance; /* Owned [n]: in lanes */
    uint32_t *cables;   /* Owned [n]: in cables */
    bool is_relayed;    /* some lane passes through hosts without a rank */
    uint32_t *order;    /* Owned [n]: ranks as found by explore() */
    weft_ps *delay;     /* Owned [n] */
    struct coll_shape shape;
};

static void find_heads(struct laying *laying)
{
    const uint32_t *hosts = laying->overlay->hosts;
    uint32_t n = laying->overlay->n_ranks, n_hosts = 0;
    uint32_t *head_of;

    for (uint32_t r = 0; r < n; r++) {
        n_hosts = hosts[r] >= n_hosts ? hosts[r] + 1 : n_hosts;
    }
    head_of = weft_calloc((size_t)n_hosts + 1, sizeof(*head_of));
    for (uint32_t r = n; r-- > 0;) {
        head_of[hosts[r]] = r;
    }
    for (uint32_t r = 0; r < n; r++) {
        laying->head[r] = head_of[hosts[r]];
    }
    free(head_of);
}

static void laying_open(struct laying *laying, const struct mesh_overlay *overlay)
{
    uint32_t n = overlay->n_ranks;

    *laying = (struct laying){.overlay = overlay, .shape = {.exists = true}};
    laying->share = weft_calloc(overlay->n_lanes + 1, sizeof(*laying->share));
    laying->wanted = weft_calloc(n, sizeof(*laying->wanted));
    laying->reduced = weft_calloc(n, sizeof(*laying->reduced));
    laying->relayed = weft_calloc(n, sizeof(*laying->relayed));
    laying->stepped = weft_calloc(n, sizeof(*laying->stepped));
    laying->direct = weft_calloc(n, sizeof(*laying->direct));
    laying->head = weft_calloc(n, sizeof(*laying->head));
    laying->distance = weft_calloc(n, sizeof(*laying->distance));
    laying->cables = weft_calloc(n, sizeof(*laying->cables));
    laying->order = weft_calloc(n, sizeof(*laying->order));
    laying->delay = weft_calloc(n, sizeof(*laying->delay));
    for (size_t i = 0; i < overlay->n_lanes; i++) {
        laying->is_relayed |= overlay->lanes[i].n_hops > 1;
    }
    find_heads(laying);
}

static void busier(struct coll_load *load, uint64_t share, uint64_t rate_bps,
                   bool is_inside)
{
    if (load->rate_bps == 0 ||
        (wide)share * load->rate_bps > (wide)load->share * rate_bps) {
        *load = (struct coll_load){share, rate_bps, is_inside};
    }
}

/* Returns the load of the lane or resource that needs the most time. */
static struct coll_load busiest(const struct laying *laying)
{
    const struct mesh_overlay *overlay = laying->overlay;
    uint64_t *passes = weft_calloc((size_t)overlay->n_resources + 1, sizeof(*passes));
    struct coll_load load = {0};

    for (size_t i = 0; i < overlay->n_lanes; i++) {
        const struct mesh_lane *lane = &overlay->lanes[i];

        busier(&load, laying->share[i], lane->rate_bps, lane->n_hops == 0);
        for (uint32_t k = lane->first_use; k < lane->first_use + lane->n_uses; k++) {
            passes[overlay->uses[k].resource] +=
                (uint64_t)((wide)laying->share[i] * overlay->uses[k].part / MESH_WHOLE);
        }
    }
    for (uint32_t i = 0; i < overlay->n_resources; i++) {
        if (overlay->resource_bps[i] > 0) {
            busier(&load, passes[i], overlay->resource_bps[i],
                   i >= overlay->first_inside);
        }
    }
    free(passes);
    return load;
}

static uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static struct coll_shape laying_close(struct laying *laying, uint32_t n_hops)
{
    struct coll_shape *shape = &laying->shape;
    uint64_t relayed = 0;

    shape->n_hops = n_hops;
    shape->load = busiest(laying);
    for (uint32_t r = 0; r < laying->overlay->n_ranks; r++) {
        relayed = greater(relayed, laying->relayed[r]);
        shape->fan = greater(shape->fan, laying->reduced[r]);
        shape->stepped.within = greater(shape->stepped.within, laying->stepped[r]);
        shape->direct.within = greater(shape->direct.within, laying->direct[r]);
    }
    shape->n_relayed =
        relayed / WHOLE < UINT32_MAX ? (uint32_t)(relayed / WHOLE) : UINT32_MAX;
    free(laying->share);
    free(laying->wanted);
    free(laying->reduced);
    free(laying->relayed);
    free(laying->stepped);
    free(laying->direct);
    free(laying->head);
    free(laying->distance);
    free(laying->cables);
    free(laying->order);
    free(laying->delay);
    return *shape;
}

static size_t lane_index(const struct mesh_overlay *overlay, uint32_t from, uint32_t to)
{
    const struct mesh_lane *lane = mesh_overlay_lane(overlay, from, to);

    return lane == NULL ? SIZE_MAX : (size_t)(lane - overlay->lanes);
}

static uint64_t lesser_rate(uint64_t a_bps, uint64_t b_bps)
{
    return a_bps == 0 || (b_bps > 0 && b_bps < a_bps) ? b_bps : a_bps;
}

/* Adds a message within a host. It costs nothing if the inside is unknown. */
static void carry_inside(struct laying *laying, uint32_t from, uint32_t to,
                         uint64_t share)
{
    size_t at = lane_index(laying->overlay, from, to);
    struct coll_shape *shape = &laying->shape;
    const struct mesh_lane *lane;
    bool is_direct;

    if (at == SIZE_MAX || laying->overlay->lanes[at].slice_bps == 0) {
        return;
    }
    lane = &laying->overlay->lanes[at];
    is_direct = lane->direct_bps > 0;
    laying->share[at] += share;
    if (lane->copier != UINT32_MAX) {
        laying->stepped[lane->copier] += share;
        laying->direct[lane->copier] += is_direct ? 0 : share;
    }
    shape->pair = greater(shape->pair, laying->share[at]);
    shape->stepped.rate_bps = lesser_rate(shape->stepped.rate_bps, lane->slice_bps);
    shape->direct.rate_bps = lesser_rate(shape->direct.rate_bps,
                                         is_direct ? lane->direct_bps : lane->slice_bps);
    shape->bell_ps = lane->delay_ps > shape->bell_ps ? lane->delay_ps : shape->bell_ps;
}

/* Takes note of a hop between the first ranks of two hosts. */
static void saw_hop(struct laying *laying, uint32_t from, uint32_t to, weft_ps delay_ps,
                    uint32_t n_relays, uint32_t n_cables)
{
    struct coll_shape *shape = &laying->shape;

    shape->delay_ps = delay_ps > shape->delay_ps ? delay_ps : shape->delay_ps;
    shape->n_relays = n_relays > shape->n_relays ? n_relays : shape->n_relays;
    if (n_cables > shape->n_cables) {
        shape->n_cables = n_cables;
        shape->far[0] = from;
        shape->far[1] = to;
    }
}

/* Lowers `cables` of the ranks that explore() found until each is the least: fewer cables can
 * mean more lanes, because a lane through hosts without a rank has several cables. */
static void count_cables(struct laying *laying, uint32_t n_found)
{
    const struct mesh_overlay *overlay = laying->overlay;
    bool is_changed = laying->is_relayed;

    while (is_changed) {
        is_changed = false;
        for (uint32_t i = 0; i < n_found; i++) {
            uint32_t at = laying->order[i];

            for (uint32_t k = overlay->first[at]; k < overlay->first[at + 1]; k++) {
                const struct mesh_lane *lane = &overlay->lanes[k];
                uint32_t n = laying->cables[at] + lane->n_hops;

                if (lane->n_hops > 0 && n < laying->cables[lane->to]) {
                    laying->cables[lane->to] = n;
                    is_changed = true;
                }
            }
        }
    }
}

/* Returns the sum, or a quarter of the greatest number, which a lane's delay does not exceed. */
static weft_ps add_delays(weft_ps a, weft_ps b)
{
    return a + b < INT64_MAX / 4 ? a + b : INT64_MAX / 4;
}

/* Explores the first ranks of hosts by distance from `source`. Returns how many can be
 * reached. */
static uint32_t explore(struct laying *laying, uint32_t source)
{
    const struct mesh_overlay *overlay = laying->overlay;
    uint32_t n_found = 1;

    memset(laying->distance, 0xff, overlay->n_ranks * sizeof(*laying->distance));
    laying->distance[source] = 0;
    laying->cables[source] = 0;
    laying->delay[source] = 0;
    laying->order[0] = source;
    for (uint32_t i = 0; i < n_found; i++) {
        uint32_t at = laying->order[i];

        for (uint32_t k = overlay->first[at]; k < overlay->first[at + 1]; k++) {
            uint32_t to = overlay->lanes[k].to;

            if (overlay->lanes[k].n_hops > 0 && laying->distance[to] == UINT32_MAX) {
                laying->distance[to] = laying->distance[at] + 1;
                laying->cables[to] = laying->cables[at] + overlay->lanes[k].n_hops;
                laying->delay[to] =
                    add_delays(laying->delay[at], overlay->lanes[k].delay_ps);
                laying->order[n_found++] = to;
            }
        }
    }
    count_cables(laying, n_found);
    return n_found;
}

/* Adds what stays in the host of `source`. Moves the rest to the first ranks of the other
 * hosts, which the cables belong to. */
static void leave_host(struct laying *laying, uint32_t source)
{
    for (uint32_t r = 0; r < laying->overlay->n_ranks; r++) {
        uint64_t amount = laying->wanted[r];

        if (laying->head[r] == laying->head[source]) {
            laying->wanted[r] = 0;
            if (amount > 0) {
                carry_inside(laying, source, r, amount);
            }
        } else if (laying->head[r] != r) {
            laying->wanted[r] = 0;
            laying->wanted[laying->head[r]] += amount;
        }
    }
}

/* Carries `wanted` [n] from `source` along shortest routes, divided evenly if there are
 * several. Clears it. */
static void carry(struct laying *laying, uint32_t source)
{
    const struct mesh_overlay *overlay = laying->overlay;
    uint32_t n_found = explore(laying, laying->head[source]);

    leave_host(laying, source);

    for (uint32_t r = 0; r < overlay->n_ranks; r++) {
        if (laying->wanted[r] > 0 && laying->distance[r] == UINT32_MAX) {
            laying->shape.exists = false;
        } else if (laying->wanted[r] > 0) {
            saw_hop(laying, laying->head[source], r, laying->delay[r],
                    laying->distance[r] - 1, laying->cables[r]);
            laying->shape.pair = greater(laying->shape.pair, laying->wanted[r]);
            laying->shape.crosses = true;
        }
    }
    for (uint32_t i = n_found; i-- > 1;) {
        uint32_t at = laying->order[i], n_ways = 0;
        uint64_t amount = laying->wanted[at];

        for (int pass = 0; pass < 2 && amount > 0; pass++) {
            for (uint32_t k = overlay->first[at]; k < overlay->first[at + 1]; k++) {
                uint32_t before = overlay->lanes[k].to;
                size_t lane;

                if (laying->distance[before] + 1 != laying->distance[at]) {
                    continue;
                }
                lane = lane_index(overlay, before, at);
                if (lane == SIZE_MAX || overlay->lanes[lane].n_hops == 0) {
                    continue;
                }
                if (pass == 0) {
                    n_ways++;
                } else {
                    laying->share[lane] += (amount + n_ways - 1) / n_ways;
                    laying->wanted[before] += (amount + n_ways - 1) / n_ways;
                    laying->relayed[before] +=
                        before == laying->order[0] ? 0 : (amount + n_ways - 1) / n_ways;
                }
            }
        }
    }
    memset(laying->wanted, 0, overlay->n_ranks * sizeof(*laying->wanted));
}

static void carry_to(struct laying *laying, uint32_t from, uint32_t to, uint64_t share)
{
    size_t lane;
    uint32_t n_hops;

    if (laying->head[from] == laying->head[to]) {
        carry_inside(laying, from, to, share);
        return;
    }
    from = laying->head[from];
    to = laying->head[to];
    lane = lane_index(laying->overlay, from, to);
    if (lane == SIZE_MAX) {
        laying->wanted[to] = share;
        carry(laying, from);
        return;
    }
    laying->share[lane] += share;
    laying->shape.pair = greater(laying->shape.pair, laying->share[lane]);
    laying->shape.crosses = true;
    n_hops = laying->overlay->lanes[lane].n_hops;
    if (n_hops > 1) {
        (void)explore(laying, from);
    }
    saw_hop(laying, from, to, laying->overlay->lanes[lane].delay_ps,
            n_hops > 1 ? n_hops - 1 : 0, n_hops > 1 ? laying->cables[to] : n_hops);
}

/* ---- patterns ---- */

struct coll_shape coll_shape_rings(const struct coll_mesh *mesh, bool all)
{
    const struct mesh_packing *packing = &mesh->rings;
    struct laying laying;

    if (packing->n_rings == 0) {
        return (struct coll_shape){0};
    }
    laying_open(&laying, &mesh->overlay);
    for (uint32_t i = 0; i < (all ? packing->n_rings : 1); i++) {
        for (uint32_t r = 0; r < mesh->n_ranks; r++) {
            carry_to(&laying, r, packing->rings[i].next[r],
                     all ? packing->rings[i].share : WHOLE);
        }
    }
    return laying_close(&laying, mesh->n_ranks - 1);
}

/* Lays all data up or down a tree. Returns its depth. */
static uint32_t lay_tree(struct laying *laying, const uint32_t *parent, uint64_t share,
                         int directions)
{
    uint32_t deepest = 0;

    for (uint32_t r = 0; r < laying->overlay->n_ranks; r++) {
        uint32_t depth = mesh_tree_depth(parent, r);

        deepest = depth > deepest ? depth : deepest;
        if (depth > 0 && (directions & COLL_UP) != 0) {
            carry_to(laying, r, parent[r], share);
            laying->reduced[parent[r]] += share;
        }
        if (depth > 0 && (directions & COLL_DOWN) != 0) {
            carry_to(laying, parent[r], r, share);
        }
    }
    return deepest;
}

struct coll_shape coll_shape_trees(const struct coll_mesh *mesh,
                                   const struct mesh_packing *packing, bool all,
                                   int directions)
{
    struct laying laying;
    uint32_t deepest = 0;

    if (packing->n_trees == 0) {
        return (struct coll_shape){0};
    }
    laying_open(&laying, &mesh->overlay);
    for (uint32_t i = 0; i < (all ? packing->n_trees : 1); i++) {
        uint32_t depth = lay_tree(&laying, packing->trees[i].parent,
                                  all ? packing->trees[i].share : WHOLE, directions);

        deepest = depth > deepest ? depth : deepest;
    }
    return laying_close(&laying, deepest);
}

/* Lays one block for each rank up (or down) the tree rooted at it: an edge between a and b
 * ranks carries b blocks from a's side (or a). */
static void lay_blocks(struct laying *laying, const uint32_t *parent, uint64_t share,
                       bool is_up)
{
    uint32_t n = laying->overlay->n_ranks;
    uint64_t *below = weft_calloc(n, sizeof(*below));

    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t at = r; at != MESH_NO_PARENT; at = parent[at]) {
            below[at]++;
        }
    }
    for (uint32_t r = 0; r < n; r++) {
        if (parent[r] != MESH_NO_PARENT) {
            uint64_t out = is_up ? n - below[r] : below[r];

            carry_to(laying, r, parent[r], share * out / n);
            carry_to(laying, parent[r], r, share * (n - out) / n);
            laying->reduced[parent[r]] += is_up ? share * out / n : 0;
            laying->reduced[r] += is_up ? share * (n - out) / n : 0;
        }
    }
    free(below);
}

struct coll_shape coll_shape_blocks(const struct coll_mesh *mesh, bool all, bool is_up)
{
    const struct mesh_packing *packing = &mesh->trees;
    struct laying laying;
    uint32_t deepest = 0;

    if (packing->n_trees == 0) {
        return (struct coll_shape){0};
    }
    laying_open(&laying, &mesh->overlay);
    for (uint32_t i = 0; i < (all ? packing->n_trees : 1); i++) {
        const struct mesh_packed_tree *tree = &packing->trees[i];

        lay_blocks(&laying, tree->parent, all ? tree->share : WHOLE, is_up);
        deepest = tree->depth > deepest ? tree->depth : deepest;
    }
    return laying_close(&laying, 2 * deepest);
}

struct coll_shape coll_shape_path(const struct coll_mesh *mesh)
{
    uint32_t *parent = weft_calloc(mesh->n_ranks, sizeof(*parent)), root, depth;
    struct laying laying;

    laying_open(&laying, &mesh->overlay);
    coll_path_parents(&mesh->rings.rings[0], mesh->n_ranks, parent, &root);
    depth = lay_tree(&laying, parent, WHOLE, COLL_UP | COLL_DOWN);
    free(parent);
    return laying_close(&laying, depth);
}

/* The hop into the root (or out of it) is left out. */
struct coll_shape coll_shape_chain(const struct coll_mesh *mesh, uint32_t root,
                                   bool is_out)
{
    const uint32_t *next = mesh->rings.rings[0].next;
    struct laying laying;

    laying_open(&laying, &mesh->overlay);
    for (uint32_t r = 0; r < mesh->n_ranks; r++) {
        if ((is_out ? next[r] : r) != root) {
            carry_to(&laying, r, next[r], WHOLE);
            laying.reduced[next[r]] += WHOLE;
        }
    }
    return laying_close(&laying, mesh->n_ranks - 1);
}

static uint32_t n_rounds(uint32_t n)
{
    uint32_t rounds = 0;

    while ((UINT64_C(1) << rounds) < n) {
        rounds++;
    }
    return rounds;
}

struct coll_shape coll_shape_pairs(const struct coll_mesh *mesh, bool only_next)
{
    uint32_t n = mesh->n_ranks;
    struct laying laying;

    laying_open(&laying, &mesh->overlay);
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t to = 0; to < n; to++) {
            bool is_wanted = only_next ? to == (r + 1) % n : to != r;

            laying.wanted[to] = is_wanted ? WHOLE : 0;
        }
        carry(&laying, r);
        laying.reduced[r] = (uint64_t)WHOLE * (n - 1);
    }
    return laying_close(&laying, 1);
}

/* Returns how many ranks WEFT_ALGORITHM_FORWARD reaches from rank 0, and by how many cables its
 * longest lane leads. */
static uint32_t reach(const struct mesh_overlay *overlay, uint32_t *out_cables)
{
    uint32_t *order = weft_calloc(overlay->n_ranks, sizeof(*order)), n_found = 1;
    bool *is_found = weft_calloc(overlay->n_ranks, sizeof(*is_found));

    is_found[0] = true;
    *out_cables = 0;
    for (uint32_t i = 0; i < n_found; i++) {
        uint32_t at = order[i];

        for (uint32_t k = overlay->first[at]; k < overlay->first[at + 1]; k++) {
            const struct mesh_lane *lane = &overlay->lanes[k];

            if (!coll_forward_uses(lane)) {
                continue;
            }
            *out_cables = lane->n_hops > *out_cables ? lane->n_hops : *out_cables;
            if (!is_found[lane->to]) {
                is_found[lane->to] = true;
                order[n_found++] = lane->to;
            }
        }
    }
    free(order);
    free(is_found);
    return n_found;
}

struct coll_shape coll_shape_forward(const struct coll_mesh *mesh)
{
    const struct mesh_overlay *overlay = &mesh->overlay;
    struct coll_shape shape = mesh->pairs;
    uint32_t n_cables;

    shape.exists = shape.exists && reach(overlay, &n_cables) == mesh->n_ranks;
    if (!shape.exists) {
        return shape;
    }
    shape.n_hops = mesh->pairs.n_relays + 1;
    shape.n_cables = n_cables;
    shape.n_relays = n_cables > 1 ? n_cables - 1 : 0;
    shape.n_relayed = 0;
    shape.pair = shape.load.share;
    shape.delay_ps = 0;
    for (size_t i = 0; i < overlay->n_lanes; i++) {
        if (coll_forward_uses(&overlay->lanes[i])) {
            shape.delay_ps = overlay->lanes[i].delay_ps > shape.delay_ps
                                 ? overlay->lanes[i].delay_ps
                                 : shape.delay_ps;
        }
    }
    return shape;
}

/* Rank r sends the blocks of min(d, n - d) ranks to rank r + d, for d = 1, 2, 4 ... */
struct coll_shape coll_shape_circulant(const struct coll_mesh *mesh)
{
    uint32_t n = mesh->n_ranks;
    struct laying laying;

    laying_open(&laying, &mesh->overlay);
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t far = 1; far < n; far *= 2) {
            uint32_t n_blocks = far < n - far ? far : n - far;

            laying.wanted[(r + far) % n] += (uint64_t)WHOLE * n_blocks / n;
        }
        carry(&laying, r);
        laying.reduced[r] = WHOLE;
    }
    return laying_close(&laying, n_rounds(n));
}

struct coll_shape coll_shape_butterfly(const struct coll_mesh *mesh)
{
    uint32_t n = mesh->n_ranks, whole = 1, n_levels = 0;
    struct laying laying;

    while (whole * 2 <= n) {
        whole *= 2;
        n_levels++;
    }
    laying_open(&laying, &mesh->overlay);
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t far = 1; far < whole && r < whole; far *= 2) {
            laying.wanted[r ^ far] = WHOLE;
        }
        if (r >= whole) {
            laying.wanted[r - whole] = WHOLE;
        } else if (r + whole < n) {
            laying.wanted[r + whole] = WHOLE;
        }
        carry(&laying, r);
        laying.reduced[r] = (uint64_t)WHOLE * (n_levels + 1);
    }
    return laying_close(&laying, n_levels + (whole < n ? 2 : 0));
}
