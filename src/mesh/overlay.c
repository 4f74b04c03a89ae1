#include "mesh/overlay.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "mesh/delay.h"
#include "mesh/index.h"

/* Bytes that a RoCE packet with a RETH adds to its payload at IP level: IP 20 or 40, UDP 8, BTH
 * 12, RETH 16, ICRC 4. rdma_rxe subtracts 80 for either (rxe.c, rxe_set_mtu). */
#define OVERHEAD_V4 60
#define OVERHEAD_V6 80

#define NO_RANK UINT32_MAX

__extension__ typedef unsigned __int128 u128;

struct maker {
    const struct mesh_graph *graph;
    struct mesh_index index;
    struct mesh_overlay *overlay;
    uint32_t *rank_of; /* Owned [n_nodes]: first rank of the host, or NO_RANK */
    uint32_t *hops;    /* Owned [n_nodes]: hops from the host being explored */
    size_t *came_by;   /* Owned [n_nodes]: edge by which the node was reached */
    uint32_t *queue;   /* Owned [n_nodes] */
    uint32_t *n_users; /* Owned [n_resources] */
    size_t cap_lanes, cap_uses;
};

/* ---- lists that grow ---- */

static struct mesh_lane *add_lane(struct maker *maker, uint32_t from, uint32_t to)
{
    struct mesh_overlay *overlay = maker->overlay;
    if (overlay->n_lanes == maker->cap_lanes) {
        maker->cap_lanes = maker->cap_lanes * 2 + 64;
        overlay->lanes =
            weft_realloc(overlay->lanes, maker->cap_lanes * sizeof(*overlay->lanes));
    }
    struct mesh_lane *lane = &overlay->lanes[overlay->n_lanes++];
    weft_check(overlay->n_uses < UINT32_MAX);
    *lane = (struct mesh_lane){.from = from,
                               .to = to,
                               .rate_bps = MESH_MEMORY_BPS,
                               .first_use = (uint32_t)overlay->n_uses};
    return lane;
}

static void add_use(struct maker *maker, struct mesh_lane *lane, uint32_t resource,
                    uint32_t part)
{
    struct mesh_overlay *overlay = maker->overlay;
    for (uint32_t i = 0; i < lane->n_uses; i++) {
        if (overlay->uses[lane->first_use + i].resource == resource) {
            overlay->uses[lane->first_use + i].part += part;
            return;
        }
    }
    if (overlay->n_uses == maker->cap_uses) {
        maker->cap_uses = maker->cap_uses * 2 + 64;
        overlay->uses =
            weft_realloc(overlay->uses, maker->cap_uses * sizeof(*overlay->uses));
    }
    overlay->uses[overlay->n_uses++] = (struct mesh_use){resource, part};
    lane->n_uses++;
    overlay->is_shared |= ++maker->n_users[resource] > 1;
}

/* ---- one lane ---- */

static void use_edge(struct maker *maker, struct mesh_lane *lane, size_t e, uint32_t part)
{
    const struct mesh_graph *graph = maker->graph;
    const struct mesh_edge *edge = &graph->edges[e];
    uint32_t roots = (uint32_t)graph->n_edges;
    add_use(maker, lane, (uint32_t)e, part);
    if (edge->from_root < graph->n_roots) {
        add_use(maker, lane, roots + edge->from_root, part);
    }
    if (edge->to_root < graph->n_roots) {
        add_use(maker, lane, roots + graph->n_roots + edge->to_root, part);
    }
}

/* Returns how many of `part` parts belong to the first `seen` of `total`. */
static uint32_t part_until(uint64_t seen, uint64_t total, uint32_t part)
{
    return (uint32_t)((u128)seen * part / total);
}

/* Returns the sum of the rates of the edges from `from` to `to`. */
static uint64_t hop_rate(const struct maker *maker, uint32_t from, uint32_t to)
{
    const struct mesh_index *index = &maker->index;
    uint64_t total = 0;
    for (size_t i = index->first[from]; i < index->first[from + 1]; i++) {
        const struct mesh_edge *edge = &maker->graph->edges[index->out[i]];
        total += edge->to == to ? edge->rate_bps : 0;
    }
    return total;
}

/* Divides `part` of the lane's data by rate over the edges from `from` to `to`, of which there
 * must be one. Returns the least of their delays. */
static weft_ps use_hop(struct maker *maker, struct mesh_lane *lane, uint32_t from,
                       uint32_t to, uint32_t part)
{
    const struct mesh_index *index = &maker->index;
    uint64_t total = hop_rate(maker, from, to);
    uint64_t seen = 0;
    weft_ps delay = INT64_MAX;
    for (size_t i = index->first[from]; i < index->first[from + 1]; i++) {
        const struct mesh_edge *edge = &maker->graph->edges[index->out[i]];
        if (edge->to == to && edge->rate_bps > 0) {
            uint32_t before = part_until(seen, total, part);
            seen += edge->rate_bps;
            use_edge(maker, lane, index->out[i], part_until(seen, total, part) - before);
            delay = edge->delay_ps < delay ? edge->delay_ps : delay;
        }
    }
    return delay;
}

/* Sets the lane's rate from the resource that is full first if no other lane is busy. */
static void rate_lane(struct maker *maker, struct mesh_lane *lane)
{
    const struct mesh_overlay *overlay = maker->overlay;
    for (uint32_t i = 0; i < lane->n_uses; i++) {
        const struct mesh_use *use = &overlay->uses[lane->first_use + i];
        uint64_t rate = overlay->resource_bps[use->resource];
        if (use->part > 0) {
            rate = (uint64_t)((u128)rate * MESH_WHOLE / use->part);
            lane->rate_bps = rate < lane->rate_bps ? rate : lane->rate_bps;
        }
    }
}

/* ---- the lanes of a host ---- */

/* Returns the rate from `from` to `to` through `via`, which is a switch or `to` itself. */
static uint64_t rail_rate(const struct maker *maker, uint32_t from, uint32_t via,
                          uint32_t to)
{
    if (via != to && via < maker->graph->n_hosts) {
        return 0;
    }
    uint64_t there = hop_rate(maker, from, via);
    uint64_t on = via == to ? there : hop_rate(maker, via, to);
    return there < on ? there : on;
}

/* Returns true if no earlier edge of `from` leads to the same neighbour, so that each
 * neighbour counts once. */
static bool is_first(const struct maker *maker, uint32_t from, size_t at)
{
    const struct mesh_index *index = &maker->index;
    uint32_t via = maker->graph->edges[index->out[at]].to;
    for (size_t i = index->first[from]; i < at; i++) {
        if (maker->graph->edges[index->out[i]].to == via) {
            return false;
        }
    }
    return true;
}

/* Adds a lane over all that both hosts share: their cables and every switch that both are on.
 * Returns false if they share nothing. */
static bool lay_rails(struct maker *maker, uint32_t from, uint32_t to)
{
    const struct mesh_index *index = &maker->index;
    uint64_t total = 0;
    for (size_t i = index->first[from]; i < index->first[from + 1]; i++) {
        uint32_t via = maker->graph->edges[index->out[i]].to;
        total += is_first(maker, from, i) ? rail_rate(maker, from, via, to) : 0;
    }
    if (total == 0) {
        return false;
    }
    struct mesh_lane *lane = add_lane(maker, maker->rank_of[from], maker->rank_of[to]);
    uint64_t seen = 0;
    lane->n_hops = 1;
    lane->delay_ps = INT64_MAX;
    for (size_t i = index->first[from]; i < index->first[from + 1]; i++) {
        uint32_t via = maker->graph->edges[index->out[i]].to;
        uint64_t rate = is_first(maker, from, i) ? rail_rate(maker, from, via, to) : 0;
        if (rate == 0) {
            continue;
        }
        uint32_t part = part_until(seen + rate, total, MESH_WHOLE) -
                        part_until(seen, total, MESH_WHOLE);
        weft_ps delay = use_hop(maker, lane, from, via, part);
        if (via != to) {
            delay = mesh_add_delays(delay, use_hop(maker, lane, via, to, part));
        }
        lane->delay_ps = delay < lane->delay_ps ? delay : lane->delay_ps;
        seen += rate;
    }
    rate_lane(maker, lane);
    return true;
}

/* Adds a lane along came_by, backwards from its end. */
static void lay_relayed(struct maker *maker, uint32_t from, uint32_t to)
{
    struct mesh_lane *lane = add_lane(maker, maker->rank_of[from], maker->rank_of[to]);
    lane->n_hops = maker->hops[to];
    for (uint32_t node = to; node != from;) {
        uint32_t before = maker->graph->edges[maker->came_by[node]].from;
        lane->delay_ps = mesh_add_delays(lane->delay_ps,
                                         use_hop(maker, lane, before, node, MESH_WHOLE));
        node = before;
    }
    rate_lane(maker, lane);
}

/* Explores breadth first from host `from` through nodes without a rank, counting hops. A
 * switch is as far as the host before it. Returns the number of nodes found, in `queue`. */
static uint32_t explore(struct maker *maker, uint32_t from)
{
    const struct mesh_index *index = &maker->index;
    uint32_t n_hosts = maker->graph->n_hosts;
    uint32_t n_queued = 1;
    maker->queue[0] = from;
    maker->hops[from] = 0;
    for (uint32_t at = 0; at < n_queued; at++) {
        uint32_t v = maker->queue[at];
        if (v != from && maker->rank_of[v] != NO_RANK) {
            continue;
        }
        for (size_t i = index->first[v]; i < index->first[v + 1]; i++) {
            const struct mesh_edge *edge = &maker->graph->edges[index->out[i]];
            if (maker->hops[edge->to] == UINT32_MAX && edge->rate_bps > 0) {
                maker->hops[edge->to] = maker->hops[v] + (edge->to < n_hosts ? 1 : 0);
                maker->came_by[edge->to] = index->out[i];
                maker->queue[n_queued++] = edge->to;
            }
        }
    }
    return n_queued;
}

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

static void lay_lanes(struct maker *maker, uint32_t from)
{
    uint32_t n_found = explore(maker, from);
    uint32_t *ranks = weft_alloc(((size_t)n_found + 1) * sizeof(*ranks));
    uint32_t n_ranks = 0;
    for (uint32_t i = 1; i < n_found; i++) {
        if (maker->rank_of[maker->queue[i]] != NO_RANK) {
            ranks[n_ranks++] = maker->rank_of[maker->queue[i]];
        }
    }
    qsort(ranks, n_ranks, sizeof(*ranks), compare_u32);
    for (uint32_t i = 0; i < n_ranks; i++) {
        uint32_t to = maker->overlay->hosts[ranks[i]];
        if (!lay_rails(maker, from, to)) {
            lay_relayed(maker, from, to);
        }
    }
    for (uint32_t i = 0; i < n_found; i++) {
        maker->hops[maker->queue[i]] = UINT32_MAX;
    }
    free(ranks);
}

/* ---- all of them ---- */

/* Adds the lanes between the ranks of one host: a star around the first of them. */
static void lay_memory(struct maker *maker, uint32_t rank)
{
    const struct mesh_overlay *overlay = maker->overlay;
    uint32_t head = maker->rank_of[overlay->hosts[rank]];
    if (rank != head) {
        (void)add_lane(maker, rank, head);
        return;
    }
    for (uint32_t r = rank + 1; r < overlay->n_ranks; r++) {
        if (overlay->hosts[r] == overlay->hosts[rank]) {
            (void)add_lane(maker, rank, r);
        }
    }
}

static int compare_lanes(const void *a, const void *b)
{
    const struct mesh_lane *x = a;
    const struct mesh_lane *y = b;
    return x->from != y->from ? compare_u32(&x->from, &y->from)
                              : compare_u32(&x->to, &y->to);
}

static void find_widths(const struct mesh_graph *graph, struct mesh_overlay *out)
{
    for (size_t e = 0; e < graph->n_edges; e++) {
        const struct mesh_edge *edge = &graph->edges[e];
        uint32_t mtu =
            mesh_path_mtu(edge->mtu_bytes, edge->is_ipv6 ? OVERHEAD_V6 : OVERHEAD_V4);
        out->path_mtu = e == 0 || mtu < out->path_mtu ? mtu : out->path_mtu;
        out->is_ipv6 |= edge->is_ipv6;
        out->resource_bps[e] = edge->rate_bps;
    }
    for (uint32_t r = 0; r < graph->n_roots; r++) {
        out->resource_bps[graph->n_edges + r] = graph->roots[r].rate_bps;
        out->resource_bps[graph->n_edges + graph->n_roots + r] = graph->roots[r].rate_bps;
    }
}

static void maker_init(struct maker *maker, const struct mesh_graph *graph,
                       struct mesh_overlay *overlay)
{
    uint32_t n_nodes = mesh_n_nodes(graph);
    *maker = (struct maker){
        .graph = graph,
        .overlay = overlay,
        .rank_of = weft_alloc(((size_t)n_nodes + 1) * sizeof(uint32_t)),
        .hops = weft_alloc(((size_t)n_nodes + 1) * sizeof(uint32_t)),
        .came_by = weft_calloc((size_t)n_nodes + 1, sizeof(size_t)),
        .queue = weft_calloc((size_t)n_nodes + 1, sizeof(uint32_t)),
        .n_users = weft_calloc((size_t)overlay->n_resources + 1, sizeof(uint32_t)),
    };
    for (uint32_t v = 0; v < n_nodes; v++) {
        maker->rank_of[v] = NO_RANK;
        maker->hops[v] = UINT32_MAX;
    }
    for (uint32_t r = overlay->n_ranks; r-- > 0;) {
        maker->rank_of[overlay->hosts[r]] = r;
    }
    mesh_index_init(&maker->index, graph);
}

static void maker_fini(struct maker *maker)
{
    mesh_index_fini(&maker->index);
    free(maker->rank_of);
    free(maker->hops);
    free(maker->came_by);
    free(maker->queue);
    free(maker->n_users);
}

void mesh_overlay_make(const struct mesh_graph *graph, const uint32_t *rank_hosts,
                       uint32_t n_ranks, struct mesh_overlay *out)
{
    weft_check(graph->n_edges < UINT32_MAX / 2);
    uint32_t n_resources = (uint32_t)graph->n_edges + 2 * graph->n_roots;
    *out = (struct mesh_overlay){
        .n_ranks = n_ranks,
        .n_resources = n_resources,
        .first_inside = n_resources,
        .first = weft_calloc((size_t)n_ranks + 1, sizeof(uint32_t)),
        .hosts = weft_calloc((size_t)n_ranks + 1, sizeof(uint32_t)),
        .resource_bps = weft_calloc((size_t)n_resources + 1, sizeof(uint64_t)),
    };
    for (uint32_t r = 0; r < n_ranks; r++) {
        weft_check(rank_hosts[r] < graph->n_hosts);
        out->hosts[r] = rank_hosts[r];
    }
    find_widths(graph, out);
    struct maker maker;
    maker_init(&maker, graph, out);
    for (uint32_t r = 0; r < n_ranks; r++) {
        lay_memory(&maker, r);
        if (maker.rank_of[rank_hosts[r]] == r) {
            lay_lanes(&maker, rank_hosts[r]);
        }
    }
    maker_fini(&maker);
    if (out->n_lanes > 0) {
        qsort(out->lanes, out->n_lanes, sizeof(*out->lanes), compare_lanes);
    }
    uint32_t at = 0;
    for (uint32_t r = 0; r < n_ranks; r++) {
        out->first[r] = at;
        while (at < out->n_lanes && out->lanes[at].from == r) {
            at++;
        }
    }
    out->first[n_ranks] = at;
}

void mesh_overlay_fini(struct mesh_overlay *overlay)
{
    free(overlay->lanes);
    free(overlay->first);
    free(overlay->hosts);
    free(overlay->resource_bps);
    free(overlay->uses);
    memset(overlay, 0, sizeof(*overlay));
}

const struct mesh_lane *mesh_overlay_lane(const struct mesh_overlay *overlay,
                                          uint32_t from, uint32_t to)
{
    weft_check(from < overlay->n_ranks && to < overlay->n_ranks);
    uint32_t low = overlay->first[from];
    uint32_t high = overlay->first[from + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (overlay->lanes[middle].to < to) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < overlay->first[from + 1] && overlay->lanes[low].to == to
               ? &overlay->lanes[low]
               : NULL;
}
