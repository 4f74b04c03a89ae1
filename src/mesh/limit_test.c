#include <check.h>
#include <string.h>

#include "base/rng.h"
#include "base/suite_testing.h"
#include "mesh/flow.h"
#include "mesh/mesh.h"

/* At 41.78 Gbit/s a cable with 4178 byte times per 4096 bytes carries exactly 40.96 Gbit/s of
 * payload: 5 120 000 bytes take U = 1 ms = 10^9 ps. All figures below are computed by hand, in
 * units of U, from the number of cables and cuts. */
#define RATE UINT64_C(41780000000)
#define SIZE 5120000
#define U INT64_C(1000000000)
#define DELAY 1000000 /* 1 us */

struct mesh {
    struct mesh_graph graph;
    struct mesh_edge edges[512];
    uint32_t ranks[64];
    uint32_t n_ranks;
};

static void one_way(struct mesh *mesh, uint32_t from, uint32_t to, uint64_t rate)
{
    ck_assert_uint_lt(mesh->graph.n_edges, 512);
    mesh->edges[mesh->graph.n_edges++] = (struct mesh_edge){
        .from = from, .to = to, .rate_bps = rate, .delay_ps = DELAY, .mtu_bytes = 9000};
}

static void cable(struct mesh *mesh, uint32_t a, uint32_t b)
{
    one_way(mesh, a, b, RATE);
    one_way(mesh, b, a, RATE);
}

/* Makes `n_hosts` hosts, each with a rank. */
static void make(struct mesh *mesh, uint32_t n_hosts)
{
    memset(mesh, 0, sizeof(*mesh));
    mesh->graph.n_hosts = n_hosts;
    mesh->graph.edges = mesh->edges;
    mesh->n_ranks = n_hosts;
    for (uint32_t i = 0; i < n_hosts; i++) {
        mesh->ranks[i] = i;
    }
}

static void make_pair(struct mesh *mesh)
{
    make(mesh, 2);
    cable(mesh, 0, 1);
}

static void make_line(struct mesh *mesh, uint32_t n)
{
    make(mesh, n);
    for (uint32_t i = 0; i + 1 < n; i++) {
        cable(mesh, i, i + 1);
    }
}

static void make_ring(struct mesh *mesh, uint32_t n)
{
    make_line(mesh, n);
    cable(mesh, n - 1, 0);
}

static void make_triangle(struct mesh *mesh)
{
    make_ring(mesh, 3);
}

static void make_line_of_3(struct mesh *mesh)
{
    make_line(mesh, 3);
}

static void make_ring_of_4(struct mesh *mesh)
{
    make_ring(mesh, 4);
}

/* Makes a hub without a rank and three leaves. */
static void make_star(struct mesh *mesh)
{
    make(mesh, 4);
    for (uint32_t leaf = 1; leaf <= 3; leaf++) {
        cable(mesh, 0, leaf);
        mesh->ranks[leaf - 1] = leaf;
    }
    mesh->n_ranks = 3;
}

static void make_twin_triangle(struct mesh *mesh)
{
    make_triangle(mesh);
    cable(mesh, 0, 1);
    cable(mesh, 1, 2);
    cable(mesh, 2, 0);
}

static void make_star_of_5(struct mesh *mesh)
{
    make(mesh, 5);
    for (uint32_t leaf = 1; leaf <= 4; leaf++) {
        cable(mesh, 0, leaf);
    }
}

static void make_grid_2x4(struct mesh *mesh)
{
    make(mesh, 8);
    for (uint32_t x = 0; x < 4; x++) {
        cable(mesh, x, x + 4);
        if (x < 3) {
            cable(mesh, x, x + 1);
            cable(mesh, x + 4, x + 5);
        }
    }
}

static void make_full_mesh_of_16(struct mesh *mesh)
{
    make(mesh, 16);
    for (uint32_t a = 0; a < 16; a++) {
        for (uint32_t b = a + 1; b < 16; b++) {
            cable(mesh, a, b);
        }
    }
}

static void make_two_ranks_a_host(struct mesh *mesh)
{
    make_pair(mesh);
    memcpy(mesh->ranks, (uint32_t[]){0, 0, 1, 1}, 4 * sizeof(uint32_t));
    mesh->n_ranks = 4;
}

static void make_switch_of_4(struct mesh *mesh)
{
    make(mesh, 4);
    mesh->graph.n_nodes = 5;
    for (uint32_t host = 0; host < 4; host++) {
        cable(mesh, host, 4);
    }
}

/* Makes three full meshes of 4, joined in a ring by one cable each. */
static void make_ring_of_cliques(struct mesh *mesh)
{
    make(mesh, 12);
    for (uint32_t side = 0; side < 12; side += 4) {
        for (uint32_t a = side; a < side + 4; a++) {
            for (uint32_t b = a + 1; b < side + 4; b++) {
                cable(mesh, a, b);
            }
        }
        cable(mesh, side + 1, (side + 4) % 12);
    }
}

static weft_ps limit(const struct mesh *mesh, enum weft_collective collective,
                     uint64_t size)
{
    return mesh_limit_ps(&mesh->graph, mesh->ranks, mesh->n_ranks, collective, size);
}

static const struct {
    const char *name;
    void (*make)(struct mesh *mesh);
    weft_ps all_reduce, reduce_scatter, all_gather, broadcast, reduce, all_to_all,
        send_recv;
    weft_ps barrier;
} meshes[] = {
    /* 6 directed cables, cuts of 2. all_reduce: 2 x 2 / 6; shares: 2 / 6 and 2/3 / 2; rooted:
     * 1 / 2; all_to_all: 6 pieces of 1/3 over 6; send_recv: 3 / 6 and 1 / 2. */
    {"triangle", make_triangle, 2 * U / 3, U / 3, U / 3, U / 2, U / 2, U / 3, U / 2,
     DELAY},
    /* 2 directed cables, cuts of 1. */
    {"pair", make_pair, U, U / 2, U / 2, U, U, U / 2, U, DELAY},
    /* 4 directed cables, cuts of 1 around an end: two thirds must cross it; all_to_all: 8 hops
     * of 1/3 over 4; send_recv: 4 hops over 4. */
    {"line of 3", make_line_of_3, U, 2 * U / 3, 2 * U / 3, U, U, 2 * U / 3, U, 2 * DELAY},
    /* 8 directed cables, cuts of 2. all_reduce: 2 x 3 / 8; shares: 3 / 8; all_to_all: 16 hops
     * of 1/4 over 8, and 4 pieces of 1/4 through a cut of 2. */
    {"ring of 4", make_ring_of_4, 3 * U / 4, 3 * U / 8, 3 * U / 8, U / 2, U / 2, U / 2,
     U / 2, 2 * DELAY},
    /* The triangle with every cable twice. */
    {"twin triangle", make_twin_triangle, U / 3, U / 6, U / 6, U / 4, U / 4, U / 6, U / 4,
     DELAY},
    /* 8 directed cables, a rank on the hub too. A leaf's cable must carry 4 shares of 1/5;
     * all_to_all: 8 pieces go one hop and 12 two, 32/5 over 8, and 4 of 1/5 over a leaf's;
     * send_recv: 1 + 2 + 2 + 2 + 1 hops over 8. */
    {"star of 5", make_star_of_5, U, 4 * U / 5, 4 * U / 5, U, U, 4 * U / 5, U, 2 * DELAY},
    /* 20 directed cables. all_reduce: 2 x 7 / 20; shares: 7 of 1/8 over a corner's two;
     * rooted: a corner's two; all_to_all: 4 x 4 pieces of 1/8 over the two in the middle;
     * send_recv: 1 to 2 and 5 to 6 over the two in the middle. */
    {"grid 2x4", make_grid_2x4, 7 * U / 10, 7 * U / 16, 7 * U / 16, U / 2, U / 2, U, U,
     4 * DELAY},
    /* 240 directed cables. all_reduce: 2 x 15 / 240; shares: 15 / 240; rooted: 1 / 15;
     * all_to_all: 240 pieces of 1/16 over 240; send_recv: 16 / 240. */
    {"full mesh of 16", make_full_mesh_of_16, U / 8, U / 16, U / 16, U / 15, U / 15,
     U / 16, U / 15, DELAY},
    /* Two hosts: 2 of 4 shares cross, 2 x 2 pieces of 1/4, and rank 1 to 2 or 3 to 0. */
    {"two ranks a host", make_two_ranks_a_host, U, U / 2, U / 2, U, U, U, U, DELAY},
    /* Hosts receive over 4 cables, and the switch reduces nothing. all_reduce: 2 x 3 / 4;
     * shares: 3 / 4; rooted: one host's cable; all_to_all: 12 pieces of 1/4 over 4; send_recv:
     * 4 / 4. */
    {"switch of 4", make_switch_of_4, 3 * U / 2, 3 * U / 4, 3 * U / 4, U, U, 3 * U / 4, U,
     2 * DELAY},
    /* Three parts with three cables between them: all_reduce 2 x 2 / 6, more than 2 x 11
     * over all 42 and than 1 / 2 over the two around a part. Shares: 8 of 12 out of a part
     * over two; rooted: two; all_to_all: 4 x 8 pieces of 1/12 over two; send_recv: 1 of 2.
     * barrier: from 2 over 1 and 4 to 6. */
    {"ring of cliques", make_ring_of_cliques, 2 * U / 3, U / 3, U / 3, U / 2, U / 2,
     4 * U / 3, U / 2, 3 * DELAY},
    /* 6 directed cables; every leaf has one cable, which all that it sends or receives must
     * cross. */
    {"star", make_star, U, 2 * U / 3, 2 * U / 3, U, U, 2 * U / 3, U, 2 * DELAY},
};

START_TEST(every_collective_on_a_mesh)
{
    struct mesh mesh;
    meshes[_i].make(&mesh);
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, SIZE), meshes[_i].all_reduce);
    ck_assert_int_eq(limit(&mesh, WEFT_REDUCE_SCATTER, SIZE), meshes[_i].reduce_scatter);
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_GATHER, SIZE), meshes[_i].all_gather);
    ck_assert_int_eq(limit(&mesh, WEFT_BROADCAST, SIZE), meshes[_i].broadcast);
    ck_assert_int_eq(limit(&mesh, WEFT_REDUCE, SIZE), meshes[_i].reduce);
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_TO_ALL, SIZE), meshes[_i].all_to_all);
    ck_assert_int_eq(limit(&mesh, WEFT_SEND_RECV, SIZE), meshes[_i].send_recv);
    ck_assert_int_eq(limit(&mesh, WEFT_BARRIER, 0), meshes[_i].barrier);
}
END_TEST

/* 256 MiB on the triangle at 100 Gbit/s: 4 S x 8 / (6 x 98 037 338 440 bit/s), that is a bus
 * bandwidth of 24.509 GB/s. */
START_TEST(the_triangle_at_100_gbps)
{
    struct mesh mesh;
    make_triangle(&mesh);
    for (size_t e = 0; e < mesh.graph.n_edges; e++) {
        mesh.edges[e].rate_bps = UINT64_C(100000000000);
    }
    weft_ps time = limit(&mesh, WEFT_ALL_REDUCE, UINT64_C(256) << 20);
    ck_assert_int_eq(time, INT64_C(14603168426));
    int64_t bus_bytes_per_s =
        (INT64_C(256) << 20) * 4 / 3 * INT64_C(1000000000) / (time / 1000);
    ck_assert_int_eq(bus_bytes_per_s / 1000000, 24509);
    /* IPv6: 4198 byte times a packet. Ethernet MTU 1500: path MTU 1024, 1106 byte times. */
    for (size_t e = 0; e < mesh.graph.n_edges; e++) {
        mesh.edges[e].is_ipv6 = true;
    }
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, UINT64_C(256) << 20),
                     INT64_C(14673073493));
    for (size_t e = 0; e < mesh.graph.n_edges; e++) {
        mesh.edges[e].is_ipv6 = false;
        mesh.edges[e].mtu_bytes = 1500;
    }
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, UINT64_C(256) << 20),
                     INT64_C(15463000746));
}
END_TEST

/* A cable of rate 1 in one direction and 1/2 in the other. Rooted collectives get the bound of
 * the better root. */
START_TEST(directions_count_apart)
{
    struct mesh mesh;
    make(&mesh, 2);
    one_way(&mesh, 0, 1, RATE);
    one_way(&mesh, 1, 0, RATE / 2);
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, SIZE), 2 * U);
    ck_assert_int_eq(limit(&mesh, WEFT_BROADCAST, SIZE), U);
    ck_assert_int_eq(limit(&mesh, WEFT_REDUCE, SIZE), U);
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_GATHER, SIZE), U);
    ck_assert_int_eq(limit(&mesh, WEFT_SEND_RECV, SIZE), 2 * U);
}
END_TEST

/* Twin cables between two hosts. First both ports of host 0 are behind one PCIe root with the
 * rate of one cable, then each is behind its own root. */
START_TEST(ports_of_a_root_share_it)
{
    struct mesh mesh;
    struct mesh_root roots[2] = {{0, RATE}, {0, RATE}};
    make_pair(&mesh);
    cable(&mesh, 0, 1);
    mesh.graph.roots = roots;
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, SIZE), U / 2);
    for (size_t e = 0; e < 4; e++) {
        mesh.edges[e].from_root = e % 2 == 0 ? 0 : MESH_NO_ROOT;
        mesh.edges[e].to_root = e % 2 == 0 ? MESH_NO_ROOT : 0;
    }
    mesh.graph.n_roots = 2;
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, SIZE), U);
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_GATHER, SIZE), U / 2);
    ck_assert_int_eq(limit(&mesh, WEFT_SEND_RECV, SIZE), U);
    mesh.edges[2].from_root = 1;
    mesh.edges[3].to_root = 1;
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, SIZE), U / 2);
    ck_assert_int_eq(limit(&mesh, WEFT_SEND_RECV, SIZE), U / 2);
}
END_TEST

/* A line of 14 whose second host has both ports behind one root: relayed data passes it
 * inwards and outwards, which do not share its rate. The mesh is large enough for the flow
 * network to be used. */
START_TEST(a_relay_passes_its_root_once_each_way)
{
    struct mesh mesh;
    struct mesh_root root = {1, RATE};
    make_line(&mesh, 14);
    mesh.graph.roots = &root;
    for (size_t e = 0; e < mesh.graph.n_edges; e++) {
        mesh.edges[e].from_root = mesh.edges[e].from == 1 ? 0 : MESH_NO_ROOT;
        mesh.edges[e].to_root = mesh.edges[e].to == 1 ? 0 : MESH_NO_ROOT;
    }
    mesh.graph.n_roots = 1;
    ck_assert_int_eq(limit(&mesh, WEFT_BROADCAST, SIZE), U);
    root.rate_bps = RATE / 2;
    ck_assert_int_eq(limit(&mesh, WEFT_BROADCAST, SIZE), 2 * U);
}
END_TEST

/* All ranks are on one host, so nothing has to cross a cable. */
START_TEST(a_host_alone_is_free)
{
    struct mesh mesh;
    make_pair(&mesh);
    mesh.ranks[1] = 0;
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, SIZE), 1);
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_TO_ALL, SIZE), 1);
    ck_assert_int_eq(limit(&mesh, WEFT_BARRIER, 0), 1);
}
END_TEST

START_TEST(no_way_no_limit)
{
    struct mesh mesh;
    make(&mesh, 3);
    cable(&mesh, 0, 1);
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, SIZE), 0);
    ck_assert_int_eq(limit(&mesh, WEFT_BARRIER, 0), 0);
    /* The unconnected host has no rank, so it does not matter. */
    mesh.n_ranks = 2;
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, SIZE), U);
    mesh.n_ranks = 1;
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, SIZE), 0);
    /* One direction only. */
    make(&mesh, 2);
    one_way(&mesh, 0, 1, RATE);
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, SIZE), 0);
    /* The MTU is too small for any packet. */
    make_pair(&mesh);
    mesh.edges[0].mtu_bytes = 300;
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, SIZE), 0);
    /* More nodes than are solved exactly. */
    make_line(&mesh, 20);
    mesh.graph.n_edges -= 2;
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, SIZE), 0);
    make_line(&mesh, 20);
    mesh.edges[20].rate_bps = 0;
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, SIZE), 0);
}
END_TEST

START_TEST(extremes_stay_in_range)
{
    struct mesh mesh;
    make_pair(&mesh);
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, 0), 1);
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, 1), 195);
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, UINT64_MAX), INT64_MAX);
    mesh.edges[0].rate_bps = UINT64_MAX / 4;
    mesh.edges[1].rate_bps = UINT64_MAX / 4;
    ck_assert_int_gt(limit(&mesh, WEFT_ALL_TO_ALL, UINT64_MAX), 0);
}
END_TEST

/* Makes two cliques of seven joined by one cable, which only a cut in the middle detects. */
static void make_dumbbell(struct mesh *mesh)
{
    make(mesh, 14);
    for (uint32_t side = 0; side < 14; side += 7) {
        for (uint32_t a = side; a < side + 7; a++) {
            for (uint32_t b = a + 1; b < side + 7; b++) {
                cable(mesh, a, b);
            }
        }
    }
    cable(mesh, 3, 10);
}

START_TEST(large_meshes)
{
    struct mesh mesh;
    make_ring(&mesh, 16);
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, SIZE), 2 * 15 * U / 32);
    ck_assert_int_eq(limit(&mesh, WEFT_BROADCAST, SIZE), U / 2);
    make_line(&mesh, 16);
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, SIZE), U);
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_GATHER, SIZE), 15 * U / 16);
    ck_assert_int_eq(limit(&mesh, WEFT_BARRIER, 0), 15 * DELAY);
    make_dumbbell(&mesh);
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_REDUCE, SIZE), U);
    ck_assert_int_eq(limit(&mesh, WEFT_REDUCE, SIZE), U);
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_GATHER, SIZE), U / 2);
    ck_assert_int_eq(limit(&mesh, WEFT_REDUCE_SCATTER, SIZE), U / 2);
    /* 7 x 7 pieces of 1/14 through the one cable. */
    ck_assert_int_eq(limit(&mesh, WEFT_ALL_TO_ALL, SIZE), 7 * U / 2);
}
END_TEST

/* ---- the least cut ---- */

static uint64_t cut_capacity(const struct mesh_arc *arcs, size_t n, uint32_t set)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        if ((set >> arcs[i].from & 1) != 0 && (set >> arcs[i].to & 1) == 0) {
            sum += arcs[i].capacity;
        }
    }
    return sum;
}

/* Random graphs of 7 hosts against all 2^5 cuts. */
START_TEST(the_least_cut_is_least)
{
    struct weft_rng rng;
    weft_rng_init(&rng, (uint64_t)_i, "graph");
    struct mesh_arc arcs[24];
    size_t n = weft_rng_below(&rng, 24) + 1;
    for (size_t i = 0; i < n; i++) {
        arcs[i] = (struct mesh_arc){.from = (uint32_t)weft_rng_below(&rng, 7),
                                    .to = (uint32_t)weft_rng_below(&rng, 7),
                                    .capacity = weft_rng_below(&rng, 10)};
    }
    uint32_t source = 2;
    uint32_t sink = 5;
    uint64_t least = UINT64_MAX;
    for (uint32_t set = 0; set < 1 << 7; set++) {
        if ((set >> source & 1) != 0 && (set >> sink & 1) == 0) {
            uint64_t capacity = cut_capacity(arcs, n, set);
            least = capacity < least ? capacity : least;
        }
    }
    bool side[7];
    ck_assert_uint_eq(mesh_least_cut(7, arcs, n, source, sink, side), least);
    ck_assert(side[source] && !side[sink]);
    uint32_t set = 0;
    for (uint32_t h = 0; h < 7; h++) {
        set |= side[h] ? 1u << h : 0;
    }
    ck_assert_uint_eq(cut_capacity(arcs, n, set), least);
}
END_TEST

/* The shortest path 0-1-2-7 blocks both of the paths that fit together, 0-1-5-6-7 and
 * 0-3-4-2-7, so that flow over 1-2 must be taken back. */
START_TEST(flow_is_taken_back)
{
    static const struct mesh_arc arcs[] = {{0, 1, 1}, {1, 2, 1}, {2, 7, 1},
                                           {0, 3, 1}, {3, 4, 1}, {4, 2, 1},
                                           {1, 5, 1}, {5, 6, 1}, {6, 7, 1}};
    bool side[8];
    ck_assert_uint_eq(mesh_least_cut(8, arcs, 9, 0, 7, side), 2);
    /* Without the path around there is only one. */
    ck_assert_uint_eq(mesh_least_cut(8, arcs, 8, 0, 7, side), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mesh/limit");
    TCase *tests = tcase_create("limit");
    tcase_add_loop_test(tests, every_collective_on_a_mesh, 0,
                        (int)(sizeof(meshes) / sizeof(meshes[0])));
    tcase_add_test(tests, the_triangle_at_100_gbps);
    tcase_add_test(tests, directions_count_apart);
    tcase_add_test(tests, ports_of_a_root_share_it);
    tcase_add_test(tests, a_relay_passes_its_root_once_each_way);
    tcase_add_test(tests, a_host_alone_is_free);
    tcase_add_test(tests, no_way_no_limit);
    tcase_add_test(tests, extremes_stay_in_range);
    tcase_add_test(tests, large_meshes);
    tcase_add_loop_test(tests, the_least_cut_is_least, 0, 200);
    tcase_add_test(tests, flow_is_taken_back);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
