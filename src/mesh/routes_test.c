#include <check.h>
#include <string.h>

#include "base/rng.h"
#include "base/suite_testing.h"
#include "mesh/routes.h"

#define RATE UINT64_C(100000000000)
#define HOSTS_MAX 20

struct mesh {
    struct mesh_graph graph;
    struct mesh_edge edges[256];
    struct mesh_pair pairs[HOSTS_MAX * HOSTS_MAX];
    size_t n_pairs;
    struct mesh_routes routes;
};

static void make(struct mesh *mesh, uint32_t n_hosts, uint32_t n_switches)
{
    memset(mesh, 0, sizeof(*mesh));
    mesh->graph = (struct mesh_graph){
        .n_hosts = n_hosts, .n_nodes = n_hosts + n_switches, .edges = mesh->edges};
}

static void cable(struct mesh *mesh, uint32_t a, uint32_t b)
{
    for (int way = 0; way < 2; way++) {
        ck_assert_uint_lt(mesh->graph.n_edges, 256);
        mesh->edges[mesh->graph.n_edges++] = (struct mesh_edge){.from = way ? b : a,
                                                                .to = way ? a : b,
                                                                .rate_bps = RATE,
                                                                .delay_ps = 1000000,
                                                                .mtu_bytes = 9000,
                                                                .from_root = MESH_NO_ROOT,
                                                                .to_root = MESH_NO_ROOT};
    }
}

static void make_ring(struct mesh *mesh, uint32_t n)
{
    make(mesh, n, 0);
    for (uint32_t i = 0; i < n; i++) {
        cable(mesh, i, (i + 1) % n);
    }
}

static void ask(struct mesh *mesh, uint32_t from, uint32_t to)
{
    mesh->pairs[mesh->n_pairs++] = (struct mesh_pair){.from = from, .to = to};
}

static void ask_all(struct mesh *mesh)
{
    for (uint32_t a = 0; a < mesh->graph.n_hosts; a++) {
        for (uint32_t b = 0; b < mesh->graph.n_hosts; b++) {
            if (a != b) {
                ask(mesh, a, b);
            }
        }
    }
}

static bool has_cable(const struct mesh *mesh, uint32_t a, uint32_t b)
{
    for (size_t e = 0; e < mesh->graph.n_edges; e++) {
        if (mesh->edges[e].from == a && mesh->edges[e].to == b) {
            return true;
        }
    }
    return false;
}

/* Sums what all routes together put on cables, in units of a pair's data: the maximum and the
 * total. Checks that every route follows cables and passes no host twice, and that no two
 * routes of a pair share a hop. */
static void add_up(const struct mesh *mesh, double *out_most, double *out_sum)
{
    static double on[HOSTS_MAX][HOSTS_MAX];
    memset(on, 0, sizeof(on));
    *out_most = 0;
    *out_sum = 0;
    ck_assert_uint_eq(mesh->routes.n_pairs, mesh->n_pairs);
    for (size_t i = 0; i < mesh->n_pairs; i++) {
        const struct mesh_pair *pair = &mesh->routes.pairs[i];
        uint32_t shares = 0;
        bool hops[HOSTS_MAX][HOSTS_MAX] = {{false}};
        ck_assert_uint_eq(pair->from, mesh->pairs[i].from);
        ck_assert_uint_eq(pair->to, mesh->pairs[i].to);
        for (uint32_t k = 0; k < pair->n_routes; k++) {
            const struct mesh_route *route = &pair->routes[k];
            bool seen[HOSTS_MAX] = {false};
            uint32_t at = pair->from;
            shares += route->share;
            for (uint32_t j = 0; j <= route->n_via; j++) {
                uint32_t next = j < route->n_via ? route->via[j] : pair->to;
                ck_assert(has_cable(mesh, at, next));
                ck_assert(!seen[next] && next != pair->from && !hops[at][next]);
                seen[next] = true;
                hops[at][next] = true;
                on[at][next] += route->share / 65536.0;
                *out_sum += route->share / 65536.0;
                *out_most = on[at][next] > *out_most ? on[at][next] : *out_most;
                at = next;
            }
        }
        ck_assert_uint_eq(shares, pair->n_routes > 0 ? 65536 : 0);
    }
}

static void route(struct mesh *mesh)
{
    mesh_routes_make(&mesh->graph, NULL, mesh->pairs, mesh->n_pairs, &mesh->routes);
}

static const struct mesh_route *only(const struct mesh *mesh, size_t pair)
{
    ck_assert_uint_eq(mesh->routes.pairs[pair].n_routes, 1);
    return &mesh->routes.pairs[pair].routes[0];
}

/* All rails that two hosts share are one route. */
START_TEST(neighbours_go_straight)
{
    struct mesh mesh;
    make_ring(&mesh, 3);
    cable(&mesh, 0, 1);
    ask(&mesh, 0, 1);
    ask(&mesh, 1, 2);
    route(&mesh);
    ck_assert_uint_eq(only(&mesh, 0)->n_via, 0);
    ck_assert_uint_eq(only(&mesh, 0)->rate_bps, 2 * RATE);
    ck_assert_uint_eq(only(&mesh, 0)->share, 65536);
    ck_assert_uint_eq(only(&mesh, 1)->rate_bps, RATE);
    ck_assert_int_eq(only(&mesh, 1)->delay_ps, 1000000);
    mesh_routes_fini(&mesh.routes);
}
END_TEST

/* On a ring of n (even) hosts, each host sends n^2/4 hops over two cables, so that n^2/8 on
 * each is the minimum. */
START_TEST(all_pairs_of_a_ring_balance)
{
    static struct mesh mesh;
    double most, sum;
    uint32_t n = 4 * (uint32_t)_i;
    make_ring(&mesh, n);
    ask_all(&mesh);
    route(&mesh);
    add_up(&mesh, &most, &sum);
    ck_assert_double_eq_tol(sum, n * n * n / 4.0, 0.001);
    ck_assert_double_eq_tol(most, n * n / 8.0, 0.001);
    mesh_routes_fini(&mesh.routes);
}
END_TEST

/* A lone pair uses both routes around the ring; a pair that is not alone keeps to one of them. */
START_TEST(a_pair_is_divided_where_there_is_room)
{
    struct mesh mesh;
    make_ring(&mesh, 4);
    ask(&mesh, 0, 2);
    route(&mesh);
    const struct mesh_pair *pair = &mesh.routes.pairs[0];
    ck_assert_uint_eq(pair->n_routes, 2);
    ck_assert_uint_eq(pair->routes[0].n_via, 1);
    ck_assert_uint_eq(pair->routes[0].via[0], 1);
    ck_assert_uint_eq(pair->routes[1].via[0], 3);
    ck_assert_uint_eq(pair->routes[0].share, 32768);
    ck_assert_uint_eq(pair->routes[1].share, 32768);
    ck_assert_int_eq(pair->routes[1].delay_ps, 2000000);
    mesh_routes_fini(&mesh.routes);
    /* 0 to 1 and 1 to 2 already use one of the routes. */
    ask(&mesh, 0, 1);
    ask(&mesh, 1, 2);
    route(&mesh);
    ck_assert_uint_eq(only(&mesh, 0)->via[0], 3);
    mesh_routes_fini(&mesh.routes);
}
END_TEST

START_TEST(only_those_relay_who_may)
{
    struct mesh mesh;
    make_ring(&mesh, 4);
    ask(&mesh, 0, 2);
    ask(&mesh, 1, 3);
    bool may_relay[4] = {false, false, true, true};
    mesh_routes_make(&mesh.graph, may_relay, mesh.pairs, 2, &mesh.routes);
    ck_assert_uint_eq(only(&mesh, 0)->via[0], 3);
    ck_assert_uint_eq(only(&mesh, 1)->via[0], 2);
    mesh_routes_fini(&mesh.routes);
    memset(may_relay, 0, sizeof(may_relay));
    mesh_routes_make(&mesh.graph, may_relay, mesh.pairs, 2, &mesh.routes);
    ck_assert_uint_eq(mesh.routes.pairs[0].n_routes, 0);
    ck_assert_uint_eq(mesh.routes.pairs[1].n_routes, 0);
    mesh_routes_fini(&mesh.routes);
}
END_TEST

/* Hosts 0 and 1 on a switch, 2 behind 1. */
START_TEST(a_switch_is_no_hop)
{
    struct mesh mesh;
    make(&mesh, 3, 1);
    cable(&mesh, 0, 3);
    cable(&mesh, 1, 3);
    cable(&mesh, 1, 2);
    ask(&mesh, 0, 1);
    ask(&mesh, 0, 2);
    route(&mesh);
    ck_assert_uint_eq(only(&mesh, 0)->n_via, 0);
    ck_assert_int_eq(only(&mesh, 0)->delay_ps, 2000000);
    ck_assert_uint_eq(only(&mesh, 1)->n_via, 1);
    ck_assert_uint_eq(only(&mesh, 1)->via[0], 1);
    mesh_routes_fini(&mesh.routes);
}
END_TEST

/* Computes a distance independently of the code under test. */
static uint32_t distance(const struct mesh *mesh, uint32_t from, uint32_t to)
{
    uint32_t hops[HOSTS_MAX];
    memset(hops, 0xff, sizeof(hops));
    hops[from] = 0;
    for (uint32_t round = 0; round < HOSTS_MAX; round++) {
        for (size_t e = 0; e < mesh->graph.n_edges; e++) {
            const struct mesh_edge *edge = &mesh->edges[e];
            if (hops[edge->from] != UINT32_MAX && hops[edge->from] + 1 < hops[edge->to]) {
                hops[edge->to] = hops[edge->from] + 1;
            }
        }
    }
    return hops[to];
}

START_TEST(random_meshes_get_shortest_routes)
{
    static struct mesh mesh;
    static struct mesh_routes again;
    double most, sum;
    struct weft_rng rng;
    weft_rng_init(&rng, (uint64_t)_i, "routes");
    uint32_t n = 2 + (uint32_t)weft_rng_below(&rng, 11);
    make(&mesh, n, 0);
    for (uint32_t i = 0; i < 2 * n; i++) {
        uint32_t a = (uint32_t)weft_rng_below(&rng, n);
        uint32_t b = (uint32_t)weft_rng_below(&rng, n);
        if (a != b) {
            cable(&mesh, a, b);
        }
    }
    ask_all(&mesh);
    route(&mesh);
    add_up(&mesh, &most, &sum);
    mesh_routes_make(&mesh.graph, NULL, mesh.pairs, mesh.n_pairs, &again);
    for (size_t i = 0; i < mesh.n_pairs; i++) {
        const struct mesh_pair *pair = &mesh.routes.pairs[i];
        uint32_t hops = distance(&mesh, pair->from, pair->to);
        ck_assert_uint_eq(pair->n_routes == 0, hops == UINT32_MAX);
        ck_assert_uint_eq(pair->n_routes, again.pairs[i].n_routes);
        for (uint32_t k = 0; k < pair->n_routes; k++) {
            const struct mesh_route *route = &pair->routes[k];
            ck_assert_uint_eq(route->n_via + 1, hops);
            ck_assert_int_eq(route->delay_ps, 1000000 * (weft_ps)hops);
            ck_assert(memcmp(route->via, again.pairs[i].routes[k].via,
                             route->n_via * sizeof(*route->via)) == 0);
        }
    }
    mesh_routes_fini(&mesh.routes);
    mesh_routes_fini(&again);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mesh/routes");
    TCase *tests = tcase_create("routes");
    tcase_add_test(tests, neighbours_go_straight);
    tcase_add_loop_test(tests, all_pairs_of_a_ring_balance, 1, 4);
    tcase_add_test(tests, a_pair_is_divided_where_there_is_room);
    tcase_add_test(tests, only_those_relay_who_may);
    tcase_add_test(tests, a_switch_is_no_hop);
    tcase_add_loop_test(tests, random_meshes_get_shortest_routes, 0, 200);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
