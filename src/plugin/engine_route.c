/* Routes to a handle: over a common cable if there is one, with a route over relays that stands in
 * for it, otherwise over hosts that relay. The mesh is known from beacons: two hosts are neighbours
 * if each receives the other's. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "conn/codec.h"
#include "plugin/engine_private.h"

#define LANES_MASK 3u /* bits of a number: number of lanes - 1 */
/* Bit of a number: all lanes are over relays. If clear, the first is direct and others stand in. */
#define RELAYED 4u

/* How long beacons of a process that has just started may be incomplete. A connection to a
 * neighbour waits for them, because the route that stands in for the cable is chosen when it
 * begins. Beacons are answered within milliseconds, and the first are repeated after 100 ms. */
#define SETTLE_NS (INT64_C(250) * 1000 * 1000)

/* ---- the mesh as a graph ---- */

struct map {
    const struct beacon
        *speakers[MESH_PROCESSES_MAX + 1]; /* one per host, sorted by host_id */
    bool may_relay[MESH_PROCESSES_MAX + 1];
    struct mesh_graph graph;
};

static int by_host(const void *a, const void *b)
{
    const struct beacon *const *first = a, *const *second = b;

    return memcmp((*first)->host_id, (*second)->host_id, sizeof((*first)->host_id));
}

static void add_host(const struct engine *engine, struct map *map,
                     const struct beacon *beacon)
{
    for (uint32_t i = 0; i < map->graph.n_hosts; i++) {
        if (by_host(&map->speakers[i], &beacon) == 0) {
            return;
        }
    }
    map->speakers[map->graph.n_hosts++] = engine_mesh_speaker(engine, beacon->host_id);
}

static uint32_t host_of(const struct map *map, const struct beacon *beacon)
{
    uint32_t i = 0;

    while (by_host(&map->speakers[i], &beacon) != 0) {
        i++;
    }
    return i;
}

/* Returns the index by which `beacon` names a process; BEACON_NEIGHBOURS_MAX if it does not
 * receive that process's beacons. */
static uint32_t name_of(const struct beacon *beacon, uint64_t process)
{
    for (uint32_t i = 0; i < beacon->n_neighbours; i++) {
        if (beacon->neighbours[i] == process) {
            return i;
        }
    }
    return BEACON_NEIGHBOURS_MAX;
}

static bool hears(const struct beacon *beacon, const struct beacon *other)
{
    return name_of(beacon, other->process) != BEACON_NEIGHBOURS_MAX;
}

static void make_map(const struct engine *engine, struct map *map)
{
    uint32_t n;

    add_host(engine, map, &engine->mesh.self);
    for (uint32_t i = 0; i < engine->mesh.n_processes; i++) {
        add_host(engine, map, &engine->mesh.processes[i].beacon);
    }
    n = map->graph.n_nodes = map->graph.n_hosts;
    qsort(map->speakers, n, sizeof(map->speakers[0]), by_host);
    map->graph.edges = weft_calloc((size_t)n * n, sizeof(*map->graph.edges));
    for (uint32_t a = 0; a < n; a++) {
        map->may_relay[a] = (map->speakers[a]->flags & BEACON_MAY_RELAY) != 0;
        for (uint32_t b = 0; b < n; b++) {
            if (a == b || !hears(map->speakers[a], map->speakers[b]) ||
                !hears(map->speakers[b], map->speakers[a])) {
                continue;
            }
            map->graph.edges[map->graph.n_edges] =
                (struct mesh_edge){.from = a,
                                   .to = b,
                                   .cable = a < b ? a * n + b : b * n + a,
                                   .rate_bps = UINT64_C(100000000000),
                                   .mtu_bytes = 1500,
                                   .from_root = MESH_NO_ROOT,
                                   .to_root = MESH_NO_ROOT};
            map->graph.n_edges++;
        }
    }
}

/* ---- lanes ---- */

static void share_equally(struct flow_config *out)
{
    for (uint32_t i = 0; i < out->n_lanes; i++) {
        out->lanes[i].share = FLOW_SHARE_WHOLE / out->n_lanes;
    }
    out->lanes[0].share += FLOW_SHARE_WHOLE % out->n_lanes;
}

/* Adds a lane over the relays of `route`. Returns false if it cannot be used. via[0] is the low
 * 16 bits of the first relay's process; each further entry is the place of the next process in
 * the beacon of the relay before it, up to the target. */
static bool add_lane(const struct engine *engine, const struct map *map,
                     const struct mesh_route *route, const struct beacon *target,
                     struct flow_config *out, uint32_t *via)
{
    const struct beacon *relay;
    uint32_t lane = out->n_lanes;

    if (route->n_via == 0 || route->n_via + 1 > FLOW_VIA_MAX) {
        return false;
    }
    relay = map->speakers[route->via[0]];
    if (!conn_faces(engine->rdma, &engine->config.conn, relay->handle)) {
        return false;
    }
    memcpy(out->lanes[lane].handle, relay->handle, CONN_HANDLE_BYTES);
    via[0] = (uint32_t)relay->process & UINT16_MAX;
    for (uint32_t i = 0; i < route->n_via; i++) {
        const struct beacon *next =
            i + 1 < route->n_via ? map->speakers[route->via[i + 1]] : target;

        via[i + 1] = name_of(map->speakers[route->via[i]], next->process);
        if (via[i + 1] == BEACON_NEIGHBOURS_MAX) {
            return false;
        }
    }
    out->lanes[lane].via = via;
    out->lanes[lane].n_via = route->n_via + 1;
    out->n_lanes++;
    return true;
}

static void remove_cables_between(struct mesh_graph *graph, const struct mesh_pair *pair)
{
    size_t n = 0;

    for (size_t i = 0; i < graph->n_edges; i++) {
        const struct mesh_edge *edge = &graph->edges[i];

        if (!(edge->from == pair->from && edge->to == pair->to) &&
            !(edge->from == pair->to && edge->to == pair->from)) {
            graph->edges[n++] = *edge;
        }
    }
    graph->n_edges = n;
}

/* Appends lanes over relays, at most `n_max`. Ignores cables between the two hosts. */
static void add_relays(const struct engine *engine, const struct beacon *target,
                       uint32_t n_max, struct flow_config *out,
                       uint32_t via[FLOW_LANES_MAX][FLOW_VIA_MAX])
{
    struct map *map = weft_calloc(1, sizeof(*map));
    const struct beacon *self = &engine->mesh.self;
    struct mesh_routes routes;
    struct mesh_pair pair;

    make_map(engine, map);
    pair = (struct mesh_pair){.from = host_of(map, self), .to = host_of(map, target)};
    if (pair.from != pair.to) {
        remove_cables_between(&map->graph, &pair);
        mesh_routes_make(&map->graph, map->may_relay, &pair, 1, &routes);
        for (uint32_t i = 0; i < routes.pairs[0].n_routes && n_max > 0; i++) {
            n_max -= add_lane(engine, map, &routes.pairs[0].routes[i], target, out,
                              via[out->n_lanes]);
        }
        mesh_routes_fini(&routes);
    }
    free(map->graph.edges);
    free(map);
}

static void go_direct(const uint8_t handle[CONN_HANDLE_BYTES], struct flow_config *out)
{
    out->n_lanes = 1;
    out->lanes[0].n_via = 0;
    out->lanes[0].share = FLOW_SHARE_WHOLE;
    memcpy(out->lanes[0].handle, handle, CONN_HANDLE_BYTES);
}

/* Returns until when a route that stands in for a cable to the process of `target` might become
 * known: its beacon is missing, or that of a third host which may relay is new, so that it need not
 * name both ends yet. Returns 0 if none can. */
static weft_ns settles_at(const struct engine *engine, const struct beacon *target)
{
    const struct engine_mesh *mesh = &engine->mesh;
    const struct beacon *self = &mesh->self;
    weft_ns now = io_now(engine->env), at = 0;

    if (target == NULL) {
        at = mesh->opened_ns + SETTLE_NS;
        return at > now ? at : 0;
    }
    for (uint32_t i = 0; i < mesh->n_processes && by_host(&self, &target) != 0; i++) {
        const struct beacon *third = &mesh->processes[i].beacon;
        weft_ns until = mesh->processes[i].first_ns + SETTLE_NS;

        if (by_host(&third, &target) != 0 && by_host(&third, &self) != 0 &&
            (third->flags & BEACON_MAY_RELAY) != 0 && until > now && until > at) {
            at = until;
        }
    }
    return at;
}

/* Does what engine_route() does, with up to `n_stand_in` lanes beside a direct one. */
static weft_status find_route(struct engine *engine,
                              const uint8_t handle[CONN_HANDLE_BYTES],
                              uint32_t n_stand_in, struct flow_config *out,
                              uint32_t via[FLOW_LANES_MAX][FLOW_VIA_MAX],
                              weft_ns *out_again_ns)
{
    const struct beacon *target;
    weft_ns settled;

    *out_again_ns = WEFT_NEVER;
    go_direct(handle, out);
    target = engine_mesh_find(engine, handle);
    if (conn_faces(engine->rdma, &engine->config.conn, handle)) {
        if (target != NULL) {
            add_relays(engine, target, n_stand_in, out, via);
        }
        settled = out->n_lanes == 1 ? settles_at(engine, target) : 0;
        *out_again_ns = settled;
        return settled > 0 ? WEFT_AGAIN : WEFT_OK;
    }
    if (target == NULL) {
        return WEFT_AGAIN;
    }
    out->n_lanes = 0;
    add_relays(engine, target, FLOW_LANES_MAX, out, via);
    if (out->n_lanes > 0) {
        share_equally(out);
        return WEFT_OK;
    }
    go_direct(handle, out);
    return WEFT_AGAIN;
}

weft_status engine_route(struct engine *engine, const uint8_t handle[CONN_HANDLE_BYTES],
                         struct flow_config *out,
                         uint32_t via[FLOW_LANES_MAX][FLOW_VIA_MAX],
                         weft_ns *out_again_ns)
{
    return find_route(engine, handle, 1, out, via, out_again_ns);
}

/* ---- rerouting ---- */

static void host_of_handle(const uint8_t handle[CONN_HANDLE_BYTES], uint8_t out[16])
{
    struct codec_handle parts;
    struct weft_error ignored = {0};

    memset(out, 0, 16);
    if (codec_decode_handle(handle, &parts, &ignored) == WEFT_OK) {
        memcpy(out, parts.host_id, 16);
    }
}

void engine_route_note(struct engine_comm *comm, const struct flow_config *lanes)
{
    comm->n_relays = lanes->n_lanes;
    for (uint32_t i = 0; i < comm->n_relays; i++) {
        memset(comm->relays[i], 0, sizeof(comm->relays[i]));
        if (lanes->lanes[i].n_via > 0) {
            host_of_handle(lanes->lanes[i].handle, comm->relays[i]);
        }
    }
}

/* Returns true if a lane may begin at `host`, because no other lane begins there. */
static bool is_free_for(const struct engine_comm *comm, uint32_t lane,
                        const uint8_t host[16])
{
    for (uint32_t i = 0; i < comm->n_relays; i++) {
        if (i != lane && memcmp(comm->relays[i], host, 16) == 0) {
            return false;
        }
    }
    return true;
}

weft_status engine_reroute(void *user, uint32_t lane, uint8_t handle[CONN_HANDLE_BYTES],
                           uint32_t *via, uint32_t *out_n_via)
{
    struct engine_comm *comm = user;
    struct flow_config ways = {0};
    uint32_t vias[FLOW_LANES_MAX][FLOW_VIA_MAX] = {{0}};
    uint8_t target[CONN_HANDLE_BYTES], host[16];
    struct weft_error ignored = {0};
    uint32_t number, chosen = UINT32_MAX;
    weft_ns ignored_ns;

    if (engine_handle_split(comm->handle, target, &number, &ignored) != WEFT_OK ||
        find_route(comm->engine, target, FLOW_LANES_MAX - 1, &ways, vias, &ignored_ns) !=
            WEFT_OK) {
        return WEFT_AGAIN;
    }
    for (uint32_t i = 0; i < ways.n_lanes; i++) {
        if (ways.lanes[i].n_via == 0) {
            continue;
        }
        host_of_handle(ways.lanes[i].handle, host);
        if (memcmp(host, comm->relays[lane], sizeof(host)) == 0 ||
            (chosen == UINT32_MAX && is_free_for(comm, lane, host))) {
            chosen = i;
        }
    }
    if (chosen == UINT32_MAX) {
        return WEFT_AGAIN;
    }
    host_of_handle(ways.lanes[chosen].handle, comm->relays[lane]);
    memcpy(handle, ways.lanes[chosen].handle, CONN_HANDLE_BYTES);
    *out_n_via = ways.lanes[chosen].n_via;
    memcpy(via, vias[chosen], *out_n_via * sizeof(*via));
    return WEFT_OK;
}

/* ---- what the receiver must know ---- */

uint32_t engine_route_number(uint32_t random, const struct flow_config *lanes)
{
    return (random & ~(LANES_MASK | RELAYED)) | (lanes->n_lanes - 1) |
           (lanes->lanes[0].n_via > 0 ? RELAYED : 0);
}

void engine_route_of_number(uint32_t number, struct flow_config *out,
                            uint32_t via[FLOW_LANES_MAX][FLOW_VIA_MAX])
{
    bool is_relayed = (number & RELAYED) != 0;

    out->n_lanes = (number & LANES_MASK) + 1;
    if (is_relayed) {
        share_equally(out);
    } else {
        out->lanes[0].share = FLOW_SHARE_WHOLE;
    }
    for (uint32_t i = 0; i < out->n_lanes; i++) {
        out->lanes[i].via = via[i];
        out->lanes[i].n_via = is_relayed || i > 0 ? 1 : 0;
    }
}

_Static_assert(FLOW_LANES_MAX == LANES_MASK + 1, "one number holds the lanes");
