/* Lower bound of the time of a collective, from topology and job alone. docs/mesh.md has the
 * derivations in full.
 *
 * Capacity. A directed cable of rate R carries at most R x P / W payload bits per second,
 * where P is the path MTU and W what a full packet occupies on the wire
 * (mesh_packet_overhead + P). Packets with more headers or less payload only carry less.
 * Ports behind one PCIe root carry no more than the root does, in each direction. Capacities
 * are rounded up and times down, so that the result stays a bound. Data within a host is free.
 *
 * Three arguments bound the time T from below, for n ranks on h hosts; S is nccl-tests' size
 * column. A transfer leads from one host to the next, over a cable or a switch; switches
 * neither reduce nor multicast.
 *
 * Work: every plan needs transfers of W bytes in total, and all hosts together send (and
 * receive) at most sum(C), so T >= W / sum(C). W is:
 *   all_reduce      2(h-1) S   every byte position: h-1 transfers until one host can know
 *                              the sum, h-1 more until all do (one-way gossip takes 2h-2)
 *   reduce_scatter  (h-1) S    n shares of S/n, each summed over h hosts by h-1 transfers
 *   all_gather      (h-1) S    n shares of S/n, each sent to h-1 hosts
 *   broadcast, reduce  (h-1) S
 *   all_to_all      S/n x sum of hops over ordered pairs: pieces cannot be combined
 *   send_recv       S x sum of hops from rank i to rank i+1 (mod n)
 *
 * Parts: for the first five, Work also holds if the hosts are divided into k parts and each
 * part counts as one host, with the cables between parts as sum(C). Divisions are made by
 * joining, one by one, the two parts with the most capacity between them.
 *
 * Cuts: for every division of the nodes into A and B with ranks on both sides, the demand
 * D(A,B) must cross the cables from A to B, so T >= D(A,B) / C(A,B). With a and b ranks on
 * A, B, D(A,B) is:
 *   all_reduce      S          B's result depends on all of A's S bytes
 *   reduce_scatter  b S/n      the shares of B's ranks, with A's part summed in
 *   all_gather      a S/n      the shares of A's ranks
 *   broadcast       S if the root is in A;  reduce: S if the root is in B
 *   all_to_all      a b S/n
 *   send_recv       S x the number of i with rank i in A and rank i+1 in B
 * The root is not an argument, so the bound is the least over all roots.
 *
 * With up to EXACT_NODES nodes every cut is tried. Beyond, the cuts are those around single
 * hosts and the least cuts between rank 0 and other ranks, both ways. For all_reduce that is
 * still exact if every rank is tried (up to FLOWS_MAX ranks, fewer with many edges), because
 * every cut has rank 0 on one side and some rank on the other; for the others it stays a
 * bound.
 *
 * A barrier moves no data: its bound is the longest of the shortest delays between two
 * ranks. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "mesh/delay.h"
#include "mesh/index.h"
#include "mesh/network.h"

#define EXACT_NODES 12
#define PARTS_NODES 64
/* Maximum number of edges to scan for least cuts; with more, they are computed for some ranks
 * only. */
#define FLOW_EDGES_MAX 20000000
#define FLOWS_MAX 256
#define SIZE_MAX_BYTES ((uint64_t)1 << 56)
#define PS_PER_S UINT64_C(1000000000000)

__extension__ typedef unsigned __int128 u128;

struct limit {
    const struct mesh_graph *graph;
    struct mesh_network network; /* Owned */
    struct mesh_index index;     /* Owned */
    const uint32_t *ranks;       /* [n]: host of each rank */
    uint32_t n;
    uint32_t *n_on;   /* Owned [n_nodes]: number of ranks */
    uint32_t n_hosts; /* hosts with ranks */
    enum weft_collective collective;
    uint64_t size_bytes;
    bool *is_a;  /* Owned [n_nodes]: side A of the cut under consideration */
    u128 *worst; /* Owned [n]: bound per root; without a root, [0] only */
};

static bool is_rooted(enum weft_collective collective)
{
    return collective == WEFT_BROADCAST || collective == WEFT_REDUCE;
}

/* Returns the picoseconds that `count` times the size, divided by n if `is_share`, take at
 * `capacity` bit/s, rounded down. */
static u128 time_of(const struct limit *limit, uint64_t count, bool is_share,
                    uint64_t capacity)
{
    weft_check(capacity > 0);
    u128 bits = (u128)limit->size_bytes * 8 * count;
    u128 divisor = (u128)capacity * (is_share ? limit->n : 1);
    /* bits < 2^59 x count. Dividing out whole seconds first keeps the product within 128 bits. */
    return bits / divisor * PS_PER_S + bits % divisor * PS_PER_S / divisor;
}

static void raise(u128 *worst, u128 value)
{
    *worst = value > *worst ? value : *worst;
}

/* ---- cuts ---- */

/* Returns D(A,B) in units of S, or of S/n if *is_share is set. */
static uint64_t demand_of(const struct limit *limit, uint32_t a, uint32_t b,
                          bool *is_share)
{
    *is_share = false;
    switch (limit->collective) {
    case WEFT_ALL_REDUCE:
    case WEFT_BROADCAST:
    case WEFT_REDUCE:
        return 1;
    case WEFT_REDUCE_SCATTER:
        *is_share = true;
        return b;
    case WEFT_ALL_GATHER:
        *is_share = true;
        return a;
    case WEFT_ALL_TO_ALL:
        *is_share = true;
        return (uint64_t)a * b;
    case WEFT_SEND_RECV: {
        uint64_t n_crossing = 0;
        for (uint32_t i = 0; i < limit->n; i++) {
            uint32_t next = (i + 1) % limit->n;
            n_crossing +=
                limit->is_a[limit->ranks[i]] && !limit->is_a[limit->ranks[next]];
        }
        return n_crossing;
    }
    case WEFT_BARRIER:
        break;
    }
    return 0;
}

/* Applies the bound of a cut with `a` ranks on side A. Returns false if the cut separates
 * ranks and has no capacity. */
static bool weigh(struct limit *limit, uint32_t a, uint64_t capacity)
{
    if (a == 0 || a == limit->n) {
        return true;
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
    bool root_in_a = limit->collective == WEFT_BROADCAST;
    for (uint32_t root = 0; root < limit->n; root++) {
        if (limit->is_a[limit->ranks[root]] == root_in_a) {
            raise(&limit->worst[root], time);
        }
    }
    return true;
}

/* Applies the bound of the cut in is_a. */
static bool consider(struct limit *limit)
{
    uint32_t a = 0;
    for (uint32_t v = 0; v < limit->network.n_nodes; v++) {
        a += limit->is_a[v] ? limit->n_on[v] : 0;
    }
    return a == 0 || a == limit->n ||
           weigh(limit, a, mesh_network_cut(&limit->network, limit->is_a));
}

static bool consider_all(struct limit *limit)
{
    uint32_t n_nodes = limit->network.n_nodes;
    for (uint32_t set = 1; set + 1 < 1u << n_nodes; set++) {
        for (uint32_t v = 0; v < n_nodes; v++) {
            limit->is_a[v] = (set >> v & 1) != 0;
        }
        if (!consider(limit)) {
            return false;
        }
    }
    return true;
}

/* Considers the cut between one host and all others, outwards or inwards. */
static bool consider_host(struct limit *limit, uint32_t host, bool outwards)
{
    for (uint32_t v = 0; v < limit->network.n_nodes; v++) {
        limit->is_a[v] = (v == host) == outwards;
    }
    return consider(limit);
}

static bool consider_flow(struct limit *limit, uint32_t source, uint32_t sink)
{
    if (source == sink) {
        return true;
    }
    mesh_network_least_cut(&limit->network, source, sink, limit->is_a);
    return consider(limit);
}

static bool consider_some(struct limit *limit)
{
    uint64_t n_flows = FLOW_EDGES_MAX / (limit->graph->n_edges + 1);
    n_flows = n_flows > FLOWS_MAX ? FLOWS_MAX : n_flows;
    uint32_t every = (uint32_t)(limit->n / (n_flows + 1)) + 1;
    for (uint32_t i = 0; i < limit->n; i += every) {
        uint32_t first = limit->ranks[0];
        uint32_t host = limit->ranks[i];
        if (!consider_host(limit, host, true) || !consider_host(limit, host, false) ||
            !consider_flow(limit, first, host) || !consider_flow(limit, host, first)) {
            return false;
        }
    }
    return true;
}

/* Returns true if rank 0 reaches every other rank. Needed because with many nodes not every
 * cut is considered. */
static bool is_connected(const struct limit *limit)
{
    uint32_t *hops = weft_alloc(((size_t)limit->network.n_nodes + 1) * sizeof(*hops));
    bool is_whole = true;
    mesh_index_distances(&limit->index, limit->ranks[0], hops);
    for (uint32_t i = 0; i < limit->n; i++) {
        is_whole = is_whole && hops[limit->ranks[i]] != UINT32_MAX;
    }
    free(hops);
    return is_whole;
}

/* ---- work ---- */

/* Returns the sum of distances in hops over all ordered pairs of ranks, or from each rank to
 * the next. */
static uint64_t sum_of_hops(const struct limit *limit, bool all_pairs)
{
    uint32_t *hops = weft_alloc(((size_t)limit->network.n_nodes + 1) * sizeof(*hops));
    uint64_t sum = 0;
    for (uint32_t i = 0; i < limit->n; i++) {
        mesh_index_distances(&limit->index, limit->ranks[i], hops);
        for (uint32_t k = 0; all_pairs && k < limit->n; k++) {
            sum += hops[limit->ranks[k]];
        }
        sum += all_pairs ? 0 : hops[limit->ranks[(i + 1) % limit->n]];
    }
    free(hops);
    return sum;
}

/* Returns the number of transfers of S between k hosts; 0 if this argument does not apply to
 * the collective. */
static uint64_t transfers_of(const struct limit *limit, uint32_t k)
{
    switch (limit->collective) {
    case WEFT_ALL_REDUCE:
        return 2 * (uint64_t)(k - 1);
    case WEFT_REDUCE_SCATTER:
    case WEFT_ALL_GATHER:
    case WEFT_BROADCAST:
    case WEFT_REDUCE:
        return k - 1;
    case WEFT_ALL_TO_ALL:
    case WEFT_SEND_RECV:
    case WEFT_BARRIER:
        break;
    }
    return 0;
}

static u128 work_bound(struct limit *limit)
{
    uint64_t total = mesh_network_hosts(&limit->network);
    if (limit->collective == WEFT_ALL_TO_ALL) {
        return time_of(limit, sum_of_hops(limit, true), true, total);
    }
    if (limit->collective == WEFT_SEND_RECV) {
        return time_of(limit, sum_of_hops(limit, false), false, total);
    }
    return time_of(limit, transfers_of(limit, limit->n_hosts), false, total);
}

/* ---- parts ---- */

struct parts {
    uint32_t n;
    uint64_t *between; /* Owned [n x n]: capacity from one part to another */
    bool *is_gone;     /* Owned [n]: joined into another part */
    uint32_t *n_ranks; /* Owned [n]: ranks in each part */
};

/* Returns the capacity that two parts share with third ones. It distinguishes a clique from a
 * bridge. */
static uint64_t common(const struct parts *parts, uint32_t a, uint32_t b)
{
    uint64_t sum = 0;
    for (uint32_t v = 0; v < parts->n; v++) {
        uint64_t one = parts->between[a * parts->n + v];
        uint64_t two = parts->between[b * parts->n + v];
        sum += v != a && v != b && !parts->is_gone[v] ? (one < two ? one : two) : 0;
    }
    return sum;
}

/* Joins the two parts with the most capacity between them. Returns false if no two parts are
 * connected. */
static bool join(struct parts *parts)
{
    uint32_t best_a = 0;
    uint32_t best_b = 0;
    uint64_t most = 0;
    uint64_t most_common = 0;
    for (uint32_t a = 0; a < parts->n; a++) {
        for (uint32_t b = a + 1; b < parts->n; b++) {
            uint64_t sum =
                parts->between[a * parts->n + b] + parts->between[b * parts->n + a];
            if (parts->is_gone[a] || parts->is_gone[b] || sum == 0 || sum < most) {
                continue;
            }
            uint64_t shared = common(parts, a, b);
            if (sum > most || shared > most_common) {
                most = sum;
                most_common = shared;
                best_a = a;
                best_b = b;
            }
        }
    }
    if (most == 0) {
        return false;
    }
    for (uint32_t v = 0; v < parts->n; v++) {
        parts->between[best_a * parts->n + v] += parts->between[best_b * parts->n + v];
        parts->between[v * parts->n + best_a] += parts->between[v * parts->n + best_b];
    }
    parts->n_ranks[best_a] += parts->n_ranks[best_b];
    parts->is_gone[best_b] = true;
    return true;
}

static void weigh_parts(struct limit *limit, const struct parts *parts, u128 *worst)
{
    uint32_t k = 0;
    uint64_t capacity = 0;
    for (uint32_t a = 0; a < parts->n; a++) {
        k += !parts->is_gone[a] && parts->n_ranks[a] > 0 ? 1 : 0;
        for (uint32_t b = 0; b < parts->n && !parts->is_gone[a]; b++) {
            bool counts = b != a && !parts->is_gone[b];
            capacity += counts ? parts->between[a * parts->n + b] : 0;
        }
    }
    if (k > 1 && capacity > 0) {
        raise(worst, time_of(limit, transfers_of(limit, k), false, capacity));
    }
}

static u128 parts_bound(struct limit *limit)
{
    uint32_t n = limit->network.n_nodes;
    u128 worst = 0;
    if (n > PARTS_NODES || transfers_of(limit, 2) == 0) {
        return 0;
    }
    struct parts parts = {
        .n = n,
        .between = weft_calloc((size_t)n * n, sizeof(uint64_t)),
        .is_gone = weft_calloc(n, sizeof(bool)),
        .n_ranks = weft_calloc(n, sizeof(uint32_t)),
    };
    memcpy(parts.n_ranks, limit->n_on, n * sizeof(uint32_t));
    for (size_t e = 0; e < limit->graph->n_edges; e++) {
        const struct mesh_edge *edge = &limit->graph->edges[e];
        parts.between[edge->from * n + edge->to] += limit->network.edge_bps[e];
    }
    do {
        weigh_parts(limit, &parts, &worst);
    } while (join(&parts));
    free(parts.between);
    free(parts.is_gone);
    free(parts.n_ranks);
    return worst;
}

/* ---- the bound ---- */

static u128 bound(struct limit *limit)
{
    bool is_small = limit->network.n_nodes <= EXACT_NODES;
    if (!is_connected(limit) ||
        !(is_small ? consider_all(limit) : consider_some(limit))) {
        return 0;
    }
    if (limit->collective == WEFT_BARRIER) {
        raise(&limit->worst[0],
              (u128)mesh_longest_delay(&limit->index, limit->ranks, limit->n));
    }
    u128 least = limit->worst[0];
    for (uint32_t root = 1; root < limit->n && is_rooted(limit->collective); root++) {
        least = limit->worst[root] < least ? limit->worst[root] : least;
    }
    if (limit->n_hosts > 1 && limit->collective != WEFT_BARRIER) {
        raise(&least, work_bound(limit));
        raise(&least, parts_bound(limit));
    }
    /* 0 means "not connected", and no bit crosses a cable in less than a picosecond. */
    raise(&least, 1);
    return least;
}

weft_ps mesh_limit_ps(const struct mesh_graph *graph, const uint32_t *ranks,
                      uint32_t n_ranks, enum weft_collective collective,
                      uint64_t size_bytes)
{
    if (n_ranks < 2) {
        return 0;
    }
    size_t n_nodes = mesh_n_nodes(graph);
    struct limit limit = {
        .graph = graph,
        .ranks = ranks,
        .n = n_ranks,
        .n_on = weft_calloc(n_nodes + 1, sizeof(uint32_t)),
        .collective = collective,
        .size_bytes = size_bytes < SIZE_MAX_BYTES ? size_bytes : SIZE_MAX_BYTES,
        .is_a = weft_calloc(n_nodes + 1, sizeof(bool)),
        .worst = weft_calloc(n_ranks, sizeof(u128)),
    };
    for (uint32_t i = 0; i < n_ranks; i++) {
        weft_check(ranks[i] < graph->n_hosts);
        limit.n_hosts += limit.n_on[ranks[i]]++ == 0 ? 1 : 0;
    }
    mesh_network_init(&limit.network, graph);
    mesh_index_init(&limit.index, graph);
    u128 time = bound(&limit);
    mesh_network_fini(&limit.network);
    mesh_index_fini(&limit.index);
    free(limit.n_on);
    free(limit.is_a);
    free(limit.worst);
    return time > INT64_MAX ? INT64_MAX : (weft_ps)time;
}
