/* The physical bound of a collective, from topology and job alone.
 *
 * Capacity. A directed cable of rate R carries at most R x P / W payload bits a second,
 * where P is the path MTU and W what a full packet occupies on the wire
 * (mesh_packet_overhead + P). Packets with more headers or less payload only carry less.
 * Capacities are rounded up and times down, so that the result stays a bound.
 *
 * Two arguments bound the time T from below; n ranks, S is nccl-tests' size column.
 *
 * Work: whatever the plan, W bytes must cross cables, and all directed cables together
 * carry at most sum(C): T >= W / sum(C). all_reduce      2(n-1) S   every byte position:
 * n-1 transfers until one host can know the sum, n-1 more until all do (one-way gossip
 * takes 2n-2) reduce_scatter  (n-1) S    n shares of S/n, each summed over n hosts by n-1
 * transfers all_gather      (n-1) S    n shares of S/n, each told to n-1 hosts broadcast,
 * reduce  (n-1) S all_to_all      S/n x sum of hops over ordered pairs: pieces cannot be
 * combined send_recv       S x sum of hops from rank i to rank i+1 (mod n)
 *
 * Cuts: for every division of the hosts into A and B with ranks on both sides, what must
 * go from A to B crosses the cables from A to B: T >= D(A,B) / C(A,B). With a and b ranks
 * on A, B: all_reduce      S          B's result depends on all of A's S bytes
 *   reduce_scatter  b S/n      the shares of B's ranks, with A's part summed in
 *   all_gather      a S/n      the shares of A's ranks
 *   broadcast       S if the root is in A;  reduce: S if the root is in B
 *   all_to_all      a b S/n
 *   send_recv       S x the number of i with rank i in A and rank i+1 in B
 * The root is not told, so the bound is the least over all roots.
 *
 * With up to EXACT_HOSTS hosts every cut is tried. Beyond, the cuts are those around
 * single hosts and the least cuts between rank 0 and every other rank, both ways: for
 * all_reduce that is still exact (every cut has rank 0 on one side and some rank on the
 * other); for the others it stays a bound.
 *
 * A barrier moves no data: its bound is the longest of the shortest delays between two
 * ranks. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "mesh/flow.h"
#include "mesh/mesh.h"

#define EXACT_HOSTS 12
/* The least overhead of any driver (rxe): the largest path MTU that the cable may get. */
#define LEAST_MTU_OVERHEAD 80
#define SIZE_MAX_BYTES ((uint64_t)1 << 56)
#define PS_PER_S UINT64_C(1000000000000)

__extension__ typedef unsigned __int128 u128;

struct limit {
    const struct mesh_graph *graph;
    const uint32_t *ranks; /* [n] host of each rank */
    uint32_t n;
    enum mesh_collective collective;
    uint64_t size_bytes;
    struct mesh_arc *arcs; /* Owned [n_edges], capacities in payload bit/s */
    bool *is_a;            /* Owned [n_hosts]: the cut being looked at */
    u128 *worst;           /* Owned [n]: per root; others use [0] */
};

static bool is_rooted(enum mesh_collective collective)
{
    return collective == MESH_BROADCAST || collective == MESH_REDUCE;
}

static uint64_t capacity_of(const struct mesh_edge *edge)
{
    uint32_t mtu = mesh_path_mtu(edge->mtu_bytes, LEAST_MTU_OVERHEAD);
    if (mtu == 0) {
        return 0;
    }
    uint32_t wire = mtu + mesh_packet_overhead(edge->is_ipv6);
    return (uint64_t)(((u128)edge->rate_bps * mtu + wire - 1) / wire);
}

/* Picoseconds for `parts`/n of `count` x size over `capacity` bit/s, rounded down. */
static u128 time_of(const struct limit *limit, uint64_t count, bool is_share,
                    uint64_t capacity)
{
    weft_check(capacity > 0);
    u128 bits = (u128)limit->size_bytes * 8 * count;
    u128 divisor = (u128)capacity * (is_share ? limit->n : 1);
    /* bits < 2^59 x count; whole seconds first keeps the product within 128 bits. */
    return bits / divisor * PS_PER_S + bits % divisor * PS_PER_S / divisor;
}

static void raise(u128 *worst, u128 value)
{
    *worst = value > *worst ? value : *worst;
}

/* D(A,B) in units of S, or of S/n when *is_share. */
static uint64_t demand_of(const struct limit *limit, uint32_t a, uint32_t b,
                          bool *is_share)
{
    *is_share = false;
    switch (limit->collective) {
    case MESH_ALL_REDUCE:
    case MESH_BROADCAST:
    case MESH_REDUCE:
        return 1;
    case MESH_REDUCE_SCATTER:
        *is_share = true;
        return b;
    case MESH_ALL_GATHER:
        *is_share = true;
        return a;
    case MESH_ALL_TO_ALL:
        *is_share = true;
        return (uint64_t)a * b;
    case MESH_SEND_RECV: {
        uint64_t n_crossing = 0;
        for (uint32_t i = 0; i < limit->n; i++) {
            uint32_t next = (i + 1) % limit->n;
            n_crossing +=
                limit->is_a[limit->ranks[i]] && !limit->is_a[limit->ranks[next]];
        }
        return n_crossing;
    }
    case MESH_BARRIER:
        break;
    }
    return 0;
}

/* Takes the cut in is_a into account; false if it separates ranks without any cable. */
static bool consider(struct limit *limit)
{
    uint32_t a = 0;
    for (uint32_t i = 0; i < limit->n; i++) {
        a += limit->is_a[limit->ranks[i]] ? 1 : 0;
    }
    if (a == 0 || a == limit->n) {
        return true;
    }
    uint64_t capacity = 0;
    for (size_t e = 0; e < limit->graph->n_edges; e++) {
        const struct mesh_arc *arc = &limit->arcs[e];
        if (limit->is_a[arc->from] && !limit->is_a[arc->to]) {
            capacity += arc->capacity;
        }
    }
    if (capacity == 0) {
        return false;
    }
    bool is_share;
    uint64_t demand = demand_of(limit, a, limit->n - a, &is_share);
    u128 time = time_of(limit, demand, is_share, capacity);
    if (!is_rooted(limit->collective)) {
        raise(&limit->worst[0], time);
        return true;
    }
    bool root_in_a = limit->collective == MESH_BROADCAST;
    for (uint32_t root = 0; root < limit->n; root++) {
        if (limit->is_a[limit->ranks[root]] == root_in_a) {
            raise(&limit->worst[root], time);
        }
    }
    return true;
}

static bool consider_all(struct limit *limit)
{
    uint32_t n_hosts = mesh_n_nodes(limit->graph);
    for (uint32_t set = 1; set + 1 < 1u << n_hosts; set++) {
        for (uint32_t h = 0; h < n_hosts; h++) {
            limit->is_a[h] = (set >> h & 1) != 0;
        }
        if (!consider(limit)) {
            return false;
        }
    }
    return true;
}

static bool consider_some(struct limit *limit)
{
    uint32_t n_hosts = mesh_n_nodes(limit->graph);
    for (uint32_t i = 0; i < limit->n; i++) {
        for (int outwards = 0; outwards < 2; outwards++) {
            for (uint32_t h = 0; h < n_hosts; h++) {
                limit->is_a[h] = (h == limit->ranks[i]) == (outwards != 0);
            }
            if (!consider(limit)) {
                return false;
            }
            if (i == 0) {
                continue;
            }
            uint32_t source = outwards != 0 ? limit->ranks[0] : limit->ranks[i];
            uint32_t sink = outwards != 0 ? limit->ranks[i] : limit->ranks[0];
            (void)mesh_least_cut(n_hosts, limit->arcs, limit->graph->n_edges, source,
                                 sink, limit->is_a);
            if (!consider(limit)) {
                return false;
            }
        }
    }
    return true;
}

/* The sum of hops that pieces travel: between all ordered pairs, or from each to the
 * next. */
static uint64_t sum_of_hops(const struct limit *limit, bool all_pairs)
{
    uint32_t *hops = weft_alloc(mesh_n_nodes(limit->graph) * sizeof(*hops));
    uint64_t sum = 0;
    for (uint32_t i = 0; i < limit->n; i++) {
        mesh_distances(limit->graph, limit->ranks[i], hops);
        for (uint32_t k = 0; k < limit->n; k++) {
            if (k != i && (all_pairs || k == (i + 1) % limit->n)) {
                sum += hops[limit->ranks[k]];
            }
        }
    }
    free(hops);
    return sum;
}

static u128 work_bound(const struct limit *limit)
{
    uint64_t total = 0;
    for (size_t e = 0; e < limit->graph->n_edges; e++) {
        total += limit->arcs[e].capacity;
    }
    uint64_t transfers = limit->n - 1;
    switch (limit->collective) {
    case MESH_ALL_REDUCE:
        return time_of(limit, 2 * transfers, false, total);
    case MESH_REDUCE_SCATTER:
    case MESH_ALL_GATHER:
    case MESH_BROADCAST:
    case MESH_REDUCE:
        return time_of(limit, transfers, false, total);
    case MESH_ALL_TO_ALL:
        return time_of(limit, sum_of_hops(limit, true), true, total);
    case MESH_SEND_RECV:
        return time_of(limit, sum_of_hops(limit, false), false, total);
    case MESH_BARRIER:
        break;
    }
    return 0;
}

/* Longest shortest delay between two ranks, plus nothing for bits: Bellman-Ford from
 * each. */
static u128 barrier_bound(const struct limit *limit)
{
    const struct mesh_graph *graph = limit->graph;
    weft_ps *delay = weft_alloc(mesh_n_nodes(graph) * sizeof(*delay));
    weft_ps longest = 0;
    for (uint32_t i = 0; i < limit->n; i++) {
        for (uint32_t h = 0; h < mesh_n_nodes(graph); h++) {
            delay[h] = h == limit->ranks[i] ? 0 : INT64_MAX;
        }
        bool changed = true;
        while (changed) {
            changed = false;
            for (size_t e = 0; e < graph->n_edges; e++) {
                const struct mesh_edge *edge = &graph->edges[e];
                if (delay[edge->from] != INT64_MAX &&
                    delay[edge->from] + edge->delay_ps < delay[edge->to]) {
                    delay[edge->to] = delay[edge->from] + edge->delay_ps;
                    changed = true;
                }
            }
        }
        for (uint32_t k = 0; k < limit->n; k++) {
            weft_ps to = delay[limit->ranks[k]];
            longest = to > longest ? to : longest;
        }
    }
    free(delay);
    return (u128)longest;
}

static u128 bound(struct limit *limit)
{
    const struct mesh_graph *graph = limit->graph;
    bool connected =
        mesh_n_nodes(graph) <= EXACT_HOSTS ? consider_all(limit) : consider_some(limit);
    if (!connected) {
        return 0;
    }
    if (limit->collective == MESH_BARRIER) {
        raise(&limit->worst[0], barrier_bound(limit));
    }
    u128 least = limit->worst[0];
    for (uint32_t root = 1; root < limit->n && is_rooted(limit->collective); root++) {
        least = limit->worst[root] < least ? limit->worst[root] : least;
    }
    raise(&least, work_bound(limit));
    /* 0 says "not connected"; no bit crosses a cable in less than a picosecond. */
    raise(&least, 1);
    return least;
}

weft_ps mesh_limit_ps(const struct mesh_graph *graph, const uint32_t *ranks,
                      uint32_t n_ranks, enum mesh_collective collective,
                      uint64_t size_bytes)
{
    if (n_ranks < 2) {
        return 0;
    }
    struct limit limit = {
        .graph = graph,
        .ranks = ranks,
        .n = n_ranks,
        .collective = collective,
        .size_bytes = size_bytes < SIZE_MAX_BYTES ? size_bytes : SIZE_MAX_BYTES,
        .arcs = weft_calloc(graph->n_edges + 1, sizeof(struct mesh_arc)),
        .is_a = weft_calloc(mesh_n_nodes(graph) + 1, sizeof(bool)),
        .worst = weft_calloc(n_ranks, sizeof(u128)),
    };
    for (size_t e = 0; e < graph->n_edges; e++) {
        const struct mesh_edge *edge = &graph->edges[e];
        weft_check(edge->from < mesh_n_nodes(graph) && edge->to < mesh_n_nodes(graph));
        limit.arcs[e] = (struct mesh_arc){
            .from = edge->from, .to = edge->to, .capacity = capacity_of(edge)};
    }
    u128 time = bound(&limit);
    free(limit.arcs);
    free(limit.is_a);
    free(limit.worst);
    return time > INT64_MAX ? INT64_MAX : (weft_ps)time;
}
