#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/suite_testing.h"
#include "mesh/ring.h"

struct mesh {
    struct mesh_graph graph;
    struct mesh_edge edges[256];
    uint32_t ranks[64];
    uint32_t order[64];
};

static void make(struct mesh *mesh, uint32_t n_hosts)
{
    memset(mesh, 0, sizeof(*mesh));
    mesh->graph.n_hosts = n_hosts;
    mesh->graph.edges = mesh->edges;
    for (uint32_t i = 0; i < n_hosts; i++) {
        mesh->ranks[i] = i;
    }
}

static void cable(struct mesh *mesh, uint32_t a, uint32_t b)
{
    ck_assert_uint_lt(mesh->graph.n_edges + 1, 256);
    mesh->edges[mesh->graph.n_edges++] = (struct mesh_edge){.from = a, .to = b};
    mesh->edges[mesh->graph.n_edges++] = (struct mesh_edge){.from = b, .to = a};
}

static void expect(struct mesh *mesh, const uint32_t *ranks, uint32_t n,
                   uint32_t n_missing, uint64_t hops, const char *order)
{
    struct mesh_ring ring = mesh_ring_order(&mesh->graph, ranks, n, mesh->order);
    char text[256] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%u", i > 0 ? " " : "",
                               mesh->order[i]);
    }
    ck_assert_str_eq(text, order);
    ck_assert_uint_eq(ring.n_missing, n_missing);
    ck_assert_uint_eq(ring.hops, hops);
}

START_TEST(a_good_order_is_left_alone)
{
    struct mesh mesh;
    make(&mesh, 4);
    cable(&mesh, 0, 3);
    cable(&mesh, 3, 2);
    cable(&mesh, 2, 1);
    cable(&mesh, 1, 0);
    expect(&mesh, mesh.ranks, 4, 0, 4, "0 1 2 3");
    /* The same ring in the opposite direction is as good. */
    uint32_t backwards[] = {0, 3, 2, 1};
    expect(&mesh, backwards, 4, 0, 4, "0 1 2 3");
}
END_TEST

/* Cabled 0-2-1-3-0 but ranked 0 1 2 3: two pairs of neighbours would need relays. */
START_TEST(a_bad_order_is_mended)
{
    struct mesh mesh;
    make(&mesh, 4);
    cable(&mesh, 0, 2);
    cable(&mesh, 2, 1);
    cable(&mesh, 1, 3);
    cable(&mesh, 3, 0);
    struct mesh_ring given = mesh_ring_of(&mesh.graph, mesh.ranks, 4);
    ck_assert_uint_eq(given.n_missing, 2);
    ck_assert_uint_eq(given.hops, 6);
    expect(&mesh, mesh.ranks, 4, 0, 4, "0 2 1 3");
    /* Indices into the ranks, not hosts. */
    uint32_t ranks[] = {3, 0, 1, 2};
    expect(&mesh, ranks, 4, 0, 4, "0 1 3 2");
}
END_TEST

/* A line contains no ring: one hop is relayed, and no order is better than out and back. */
START_TEST(a_line_costs_its_way_back)
{
    struct mesh mesh;
    make(&mesh, 4);
    cable(&mesh, 0, 1);
    cable(&mesh, 1, 2);
    cable(&mesh, 2, 3);
    expect(&mesh, mesh.ranks, 4, 1, 6, "0 1 2 3");
    uint32_t mixed[] = {1, 3, 0, 2};
    ck_assert_uint_eq(mesh_ring_of(&mesh.graph, mixed, 4).hops, 8);
    /* Host order 1 0 3 2: one long relayed hop instead of the two short ones of 1 0 2 3. */
    expect(&mesh, mixed, 4, 1, 6, "0 2 1 3");
}
END_TEST

START_TEST(small_and_broken_meshes)
{
    struct mesh mesh;
    make(&mesh, 3);
    cable(&mesh, 0, 1);
    expect(&mesh, mesh.ranks, 1, 0, 0, "0");
    expect(&mesh, mesh.ranks, 2, 0, 2, "0 1");
    expect(&mesh, mesh.ranks, 3, 2, UINT64_MAX, "0 1 2");
}
END_TEST

/* Twenty hosts on a ring, even ones ranked first: the greedy order follows the cables. */
START_TEST(many_hosts_are_ordered_greedily)
{
    struct mesh mesh;
    make(&mesh, 20);
    uint32_t ranks[20];
    for (uint32_t i = 0; i < 20; i++) {
        cable(&mesh, i, (i + 1) % 20);
        ranks[i] = i < 10 ? 2 * i : 2 * (i - 10) + 1;
    }
    ck_assert_uint_eq(mesh_ring_of(&mesh.graph, ranks, 20).n_missing, 19);
    expect(&mesh, ranks, 20, 0, 20, "0 10 1 11 2 12 3 13 4 14 5 15 6 16 7 17 8 18 9 19");
    /* A good order of many ranks is kept. */
    expect(&mesh, mesh.ranks, 20, 0, 20,
           "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mesh/ring");
    TCase *tests = tcase_create("ring");
    tcase_add_test(tests, a_good_order_is_left_alone);
    tcase_add_test(tests, a_bad_order_is_mended);
    tcase_add_test(tests, a_line_costs_its_way_back);
    tcase_add_test(tests, small_and_broken_meshes);
    tcase_add_test(tests, many_hosts_are_ordered_greedily);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
