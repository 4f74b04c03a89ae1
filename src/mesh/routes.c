/* Routes of all pairs together.
 *
 * Hops are the lanes of an overlay in which every host is a rank, so that what lanes share (a
 * switch's port, a PCIe root) is counted once. Pairs without a choice are placed first. Then
 * each of the others takes the shortest route that is least busy at its turn, and is moved to
 * another of the same length as long as that leaves the busiest resource on it less busy. Only
 * then are pairs divided over disjoint routes, if that makes them faster, because a divided
 * pair costs relays more memory. */
#include "mesh/routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "mesh/delay.h"
#include "mesh/overlay.h"

#define WHOLE 65536u /* all of a pair's data */
#define PASSES 16
#define NO_LANE UINT32_MAX

__extension__ typedef unsigned __int128 u128;

/* A candidate route of one pair. */
struct way {
    uint32_t *lanes; /* Owned [n_lanes], from the first hop to the last */
    uint32_t n_lanes;
    uint32_t share;
};

struct ways {
    struct way ways[MESH_ROUTES_MAX];
    uint32_t n;
};

/* How busy a route is: first its busiest resource, then the sum over its lanes. */
struct busyness {
    uint64_t worst, sum;
};

struct router {
    struct mesh_overlay overlay; /* Owned; every host is a rank */
    const bool *may_relay;       /* or NULL */
    const struct mesh_pair *pairs;
    size_t n_pairs;
    struct ways *ways; /* Owned [n_pairs] */
    /* Owned [n_resources]: parts of WHOLE, weighted by lanes' parts / MESH_WHOLE */
    uint64_t *load;
    uint32_t *hops; /* Owned [n_hosts]: from `from` */
    uint32_t from;  /* source of hops, n_ways and order; UINT32_MAX if not computed */
    /* Owned [n_hosts]: number of shortest routes from `from`: 1, or 2 for more */
    uint8_t *n_ways;
    uint32_t *order; /* Owned [n_hosts]: hosts as reached from `from` */
    uint32_t n_order;
    uint32_t *came_by;         /* Owned [n_hosts]: lane by which the best route arrives */
    struct busyness *busyness; /* Owned [n_hosts] */
};

/* ---- load ---- */

/* Returns the load of `resource` plus `parts`, divided by its rate in Mbit/s, with 20 fraction
 * bits. A million whole pairs on a 1 Mbit/s cable do not overflow. */
static uint64_t busy_with(const struct router *router, uint32_t resource, uint64_t parts)
{
    uint64_t rate = router->overlay.resource_bps[resource];
    u128 busy = (u128)(router->load[resource] + parts) * 1000000 << 20;
    busy = rate == 0 ? UINT64_MAX >> 16 : busy / rate;
    return busy > UINT64_MAX >> 16 ? UINT64_MAX >> 16 : (uint64_t)busy;
}

static uint64_t part_of(const struct mesh_use *use, uint32_t share)
{
    return (uint64_t)use->part * share / MESH_WHOLE;
}

static struct busyness lane_busyness(const struct router *router, uint32_t lane,
                                     uint32_t share)
{
    const struct mesh_lane *at = &router->overlay.lanes[lane];
    struct busyness busyness = {0, 0};
    for (uint32_t i = 0; i < at->n_uses; i++) {
        const struct mesh_use *use = &router->overlay.uses[at->first_use + i];
        uint64_t busy = busy_with(router, use->resource, part_of(use, share));
        busyness.worst = busy > busyness.worst ? busy : busyness.worst;
    }
    busyness.sum = busyness.worst;
    return busyness;
}

static struct busyness add_busyness(struct busyness a, struct busyness b)
{
    uint64_t sum = a.sum > UINT64_MAX - b.sum ? UINT64_MAX : a.sum + b.sum;
    return (struct busyness){a.worst > b.worst ? a.worst : b.worst, sum};
}

static bool is_less(struct busyness a, struct busyness b)
{
    return a.worst != b.worst ? a.worst < b.worst : a.sum < b.sum;
}

static struct busyness way_busyness(const struct router *router, const struct way *way,
                                    uint32_t share)
{
    struct busyness total = {0, 0};
    for (uint32_t i = 0; i < way->n_lanes; i++) {
        total = add_busyness(total, lane_busyness(router, way->lanes[i], share));
    }
    return total;
}

static void load_way(struct router *router, const struct way *way, uint32_t share,
                     bool on)
{
    for (uint32_t i = 0; i < way->n_lanes; i++) {
        const struct mesh_lane *lane = &router->overlay.lanes[way->lanes[i]];
        for (uint32_t k = 0; k < lane->n_uses; k++) {
            const struct mesh_use *use = &router->overlay.uses[lane->first_use + k];
            uint64_t parts = part_of(use, share);
            router->load[use->resource] += on ? parts : 0 - parts;
        }
    }
}

/* ---- the best of the shortest routes ---- */

static void find_hops(struct router *router, uint32_t from)
{
    const struct mesh_overlay *overlay = &router->overlay;
    if (router->from == from) {
        return;
    }
    router->from = from;
    for (uint32_t h = 0; h < overlay->n_ranks; h++) {
        router->hops[h] = UINT32_MAX;
    }
    router->hops[from] = 0;
    router->n_ways[from] = 1;
    router->order[0] = from;
    router->n_order = 1;
    for (uint32_t at = 0; at < router->n_order; at++) {
        uint32_t v = router->order[at];
        if (v != from && router->may_relay != NULL && !router->may_relay[v]) {
            continue;
        }
        for (uint32_t i = overlay->first[v]; i < overlay->first[v + 1]; i++) {
            uint32_t to = overlay->lanes[i].to;
            if (overlay->lanes[i].rate_bps == 0) {
                continue;
            }
            if (router->hops[to] == UINT32_MAX) {
                router->hops[to] = router->hops[v] + 1;
                router->n_ways[to] = router->n_ways[v];
                router->order[router->n_order++] = to;
            } else if (router->hops[to] == router->hops[v] + 1) {
                router->n_ways[to] = 2;
            }
        }
    }
}

static bool is_on(const struct ways *ways, uint32_t lane)
{
    for (uint32_t i = 0; i < ways->n; i++) {
        for (uint32_t k = 0; k < ways->ways[i].n_lanes; k++) {
            if (ways->ways[i].lanes[k] == lane) {
                return true;
            }
        }
    }
    return false;
}

/* Extends the best route to `v` by each of its lanes that leads one hop further. */
static void look_on(struct router *router, uint32_t v, const struct ways *avoid,
                    uint32_t share)
{
    const struct mesh_overlay *overlay = &router->overlay;
    for (uint32_t i = overlay->first[v]; i < overlay->first[v + 1]; i++) {
        uint32_t to = overlay->lanes[i].to;
        if (router->hops[to] != router->hops[v] + 1 || overlay->lanes[i].rate_bps == 0 ||
            (avoid != NULL && is_on(avoid, i))) {
            continue;
        }
        struct busyness busyness =
            add_busyness(router->busyness[v], lane_busyness(router, i, share));
        if (router->came_by[to] == NO_LANE || is_less(busyness, router->busyness[to])) {
            router->came_by[to] = i;
            router->busyness[to] = busyness;
        }
    }
}

/* Finds the least busy of the shortest routes with `share` on it, without the lanes of `avoid`
 * (or NULL). Returns false if there is none; otherwise the caller frees out->lanes. */
static bool find_way(struct router *router, uint32_t from, uint32_t to,
                     const struct ways *avoid, uint32_t share, struct way *out)
{
    const struct mesh_overlay *overlay = &router->overlay;
    find_hops(router, from);
    if (router->hops[to] == UINT32_MAX) {
        return false;
    }
    for (uint32_t at = 0; at < router->n_order; at++) {
        router->came_by[router->order[at]] = NO_LANE;
    }
    router->busyness[from] = (struct busyness){0, 0};
    for (uint32_t at = 0; at < router->n_order; at++) {
        uint32_t v = router->order[at];
        if (router->hops[v] >= router->hops[to]) {
            break;
        }
        bool may = v == from || router->may_relay == NULL || router->may_relay[v];
        if (may && (v == from || router->came_by[v] != NO_LANE)) {
            look_on(router, v, avoid, share);
        }
    }
    if (router->came_by[to] == NO_LANE) {
        return false;
    }
    *out = (struct way){.n_lanes = router->hops[to], .share = share};
    out->lanes = weft_calloc(out->n_lanes, sizeof(*out->lanes));
    uint32_t v = to;
    for (uint32_t i = out->n_lanes; i-- > 0;) {
        out->lanes[i] = router->came_by[v];
        v = overlay->lanes[out->lanes[i]].from;
    }
    return true;
}

/* ---- choosing ---- */

/* Places the pairs that have a choice, or those that have none. */
static void place(struct router *router, bool with_choice)
{
    for (size_t i = 0; i < router->n_pairs; i++) {
        const struct mesh_pair *pair = &router->pairs[i];
        struct ways *ways = &router->ways[i];
        weft_check(pair->from != pair->to);
        weft_check(pair->from < router->overlay.n_ranks);
        weft_check(pair->to < router->overlay.n_ranks);
        find_hops(router, pair->from);
        if (router->hops[pair->to] != UINT32_MAX &&
            (router->n_ways[pair->to] > 1) != with_choice) {
            continue;
        }
        if (find_way(router, pair->from, pair->to, NULL, WHOLE, &ways->ways[0])) {
            ways->n = 1;
            load_way(router, &ways->ways[0], WHOLE, true);
        }
    }
}

/* Moves pair i to another route if that is less busy. Returns true if it did. */
static bool replace(struct router *router, size_t i)
{
    const struct mesh_pair *pair = &router->pairs[i];
    struct way *way = &router->ways[i].ways[0];
    struct way other;
    if (router->ways[i].n == 0 || way->n_lanes == 1) {
        return false;
    }
    load_way(router, way, WHOLE, false);
    struct busyness now = way_busyness(router, way, WHOLE);
    bool found = find_way(router, pair->from, pair->to, NULL, WHOLE, &other);
    weft_check(found);
    bool is_better = is_less(way_busyness(router, &other, WHOLE), now);
    if (is_better) {
        free(way->lanes);
        *way = other;
    } else {
        free(other.lanes);
    }
    load_way(router, way, WHOLE, true);
    return is_better;
}

/* Divides the pair evenly over one more route if that makes its busiest resource at least an
 * eighth less busy. Returns true if it did. */
static bool divide(struct router *router, size_t i)
{
    const struct mesh_pair *pair = &router->pairs[i];
    struct ways *ways = &router->ways[i];
    uint64_t before = 0;
    uint64_t after = 0;
    struct way *added = &ways->ways[ways->n];
    if (ways->n == 0 || ways->n == MESH_ROUTES_MAX || ways->ways[0].n_lanes == 1) {
        return false;
    }
    uint32_t share = WHOLE / (ways->n + 1);
    for (uint32_t k = 0; k < ways->n; k++) {
        uint64_t busy = way_busyness(router, &ways->ways[k], 0).worst;
        before = busy > before ? busy : before;
        load_way(router, &ways->ways[k], ways->ways[k].share, false);
    }
    bool found = find_way(router, pair->from, pair->to, ways, share, added);
    for (uint32_t k = 0; found && k <= ways->n; k++) {
        uint64_t busy = way_busyness(router, &ways->ways[k], share).worst;
        after = busy > after ? busy : after;
    }
    bool is_better = found && after <= before - before / 8;
    if (is_better) {
        ways->n++;
    } else if (found) {
        free(added->lanes);
    }
    for (uint32_t k = 0; k < ways->n; k++) {
        struct way *way = &ways->ways[k];
        if (is_better) {
            way->share = WHOLE * (k + 1) / ways->n - WHOLE * k / ways->n;
        }
        load_way(router, way, way->share, true);
    }
    return is_better;
}

static void choose(struct router *router)
{
    bool changed = true;
    place(router, false);
    place(router, true);
    for (uint32_t pass = 0; pass < PASSES && changed; pass++) {
        changed = false;
        for (size_t i = 0; i < router->n_pairs; i++) {
            changed |= replace(router, i);
        }
    }
    changed = true;
    for (uint32_t pass = 0; pass + 1 < MESH_ROUTES_MAX && changed; pass++) {
        changed = false;
        for (size_t i = 0; i < router->n_pairs; i++) {
            changed |= divide(router, i);
        }
    }
}

/* ---- all routes ---- */

static void write_route(const struct router *router, const struct way *way,
                        struct mesh_route *out)
{
    const struct mesh_overlay *overlay = &router->overlay;
    *out = (struct mesh_route){.n_via = way->n_lanes - 1,
                               .via = weft_calloc(way->n_lanes, sizeof(uint32_t)),
                               .rate_bps = UINT64_MAX,
                               .share = way->share};
    for (uint32_t i = 0; i < way->n_lanes; i++) {
        const struct mesh_lane *lane = &overlay->lanes[way->lanes[i]];
        out->rate_bps = lane->rate_bps < out->rate_bps ? lane->rate_bps : out->rate_bps;
        out->delay_ps = mesh_add_delays(out->delay_ps, lane->delay_ps);
        if (i + 1 < way->n_lanes) {
            out->via[i] = lane->to;
        }
    }
}

static void write_all(struct router *router, struct mesh_routes *out)
{
    out->n_pairs = router->n_pairs;
    out->pairs = weft_calloc(router->n_pairs + 1, sizeof(*out->pairs));
    for (size_t i = 0; i < router->n_pairs; i++) {
        struct mesh_pair *pair = &out->pairs[i];
        struct ways *ways = &router->ways[i];
        pair->from = router->pairs[i].from;
        pair->to = router->pairs[i].to;
        pair->n_routes = ways->n;
        for (uint32_t k = 0; k < ways->n; k++) {
            write_route(router, &ways->ways[k], &pair->routes[k]);
            free(ways->ways[k].lanes);
        }
    }
}

void mesh_routes_make(const struct mesh_graph *graph, const bool *may_relay,
                      const struct mesh_pair *pairs, size_t n_pairs,
                      struct mesh_routes *out)
{
    size_t n = (size_t)graph->n_hosts + 1;
    struct router router = {
        .may_relay = may_relay,
        .pairs = pairs,
        .n_pairs = n_pairs,
        .ways = weft_calloc(n_pairs + 1, sizeof(struct ways)),
        .hops = weft_calloc(n, sizeof(uint32_t)),
        .from = UINT32_MAX,
        .n_ways = weft_calloc(n, sizeof(uint8_t)),
        .order = weft_calloc(n, sizeof(uint32_t)),
        .came_by = weft_calloc(n, sizeof(uint32_t)),
        .busyness = weft_calloc(n, sizeof(struct busyness)),
    };
    uint32_t *hosts = weft_calloc(n, sizeof(*hosts));
    for (uint32_t h = 0; h < graph->n_hosts; h++) {
        hosts[h] = h;
    }
    mesh_overlay_make(graph, hosts, graph->n_hosts, &router.overlay);
    router.load = weft_calloc((size_t)router.overlay.n_resources + 1, sizeof(uint64_t));
    choose(&router);
    write_all(&router, out);
    mesh_overlay_fini(&router.overlay);
    free(hosts);
    free(router.ways);
    free(router.load);
    free(router.hops);
    free(router.n_ways);
    free(router.order);
    free(router.came_by);
    free(router.busyness);
}

void mesh_routes_fini(struct mesh_routes *routes)
{
    for (size_t i = 0; i < routes->n_pairs; i++) {
        for (uint32_t k = 0; k < routes->pairs[i].n_routes; k++) {
            free(routes->pairs[i].routes[k].via);
        }
    }
    free(routes->pairs);
    memset(routes, 0, sizeof(*routes));
}
