#include <check.h>
#include <string.h>

#include "base/suite_testing.h"
#include "mesh/overlay.h"

#define G UINT64_C(1000000000)
#define US 1000000

struct mesh {
    struct mesh_graph graph;
    struct mesh_edge edges[64];
    struct mesh_root roots[8];
    struct mesh_overlay overlay;
};

static void make(struct mesh *mesh, uint32_t n_hosts, uint32_t n_switches)
{
    memset(mesh, 0, sizeof(*mesh));
    mesh->graph = (struct mesh_graph){.n_hosts = n_hosts,
                                      .n_nodes = n_hosts + n_switches,
                                      .edges = mesh->edges,
                                      .roots = mesh->roots};
}

/* Adds both directions of a cable. Returns the first edge. */
static struct mesh_edge *cable(struct mesh *mesh, uint32_t a, uint32_t b, uint64_t rate)
{
    struct mesh_edge edge = {.from = a,
                             .to = b,
                             .rate_bps = rate,
                             .delay_ps = US,
                             .mtu_bytes = 9000,
                             .from_root = MESH_NO_ROOT,
                             .to_root = MESH_NO_ROOT};
    size_t n = mesh->graph.n_edges;
    ck_assert_uint_lt(n + 1, 64);
    mesh->edges[n] = edge;
    edge.from = b;
    edge.to = a;
    mesh->edges[n + 1] = edge;
    mesh->graph.n_edges += 2;
    return &mesh->edges[n];
}

static void lay(struct mesh *mesh, const uint32_t *hosts, uint32_t n)
{
    mesh_overlay_make(&mesh->graph, hosts, n, &mesh->overlay);
}

static const struct mesh_lane *lane(const struct mesh *mesh, uint32_t from, uint32_t to)
{
    const struct mesh_lane *lane = mesh_overlay_lane(&mesh->overlay, from, to);
    ck_assert_ptr_nonnull(lane);
    ck_assert_uint_eq(lane->from, from);
    ck_assert_uint_eq(lane->to, to);
    return lane;
}

/* Data is divided into whole parts of 2^24, so that up to a millionth of the rate is lost. */
static void about(uint64_t rate, uint64_t expected)
{
    ck_assert_uint_le(rate, expected);
    ck_assert_uint_ge(rate, expected - expected / 1000000);
}

START_TEST(cables_between_ranks_add_up)
{
    struct mesh mesh;
    make(&mesh, 3, 0);
    cable(&mesh, 0, 1, 100 * G);
    cable(&mesh, 1, 0, 50 * G)->delay_ps = 3 * US;
    cable(&mesh, 1, 2, 200 * G);
    lay(&mesh, (uint32_t[]){0, 1, 2}, 3);
    ck_assert_uint_eq(mesh.overlay.n_lanes, 4);
    ck_assert(!mesh.overlay.is_shared);
    ck_assert_uint_eq(mesh.overlay.path_mtu, 4096);
    about(lane(&mesh, 0, 1)->rate_bps, 150 * G);
    ck_assert_uint_eq(lane(&mesh, 0, 1)->n_hops, 1);
    ck_assert_int_eq(lane(&mesh, 0, 1)->delay_ps, US);
    ck_assert_uint_eq(lane(&mesh, 2, 1)->rate_bps, 200 * G);
    ck_assert_ptr_null(mesh_overlay_lane(&mesh.overlay, 0, 2));
    mesh_overlay_fini(&mesh.overlay);
}
END_TEST

START_TEST(a_pcie_root_limits_the_ports_behind_it_together)
{
    struct mesh mesh;
    make(&mesh, 3, 0);
    mesh.roots[0] = (struct mesh_root){0, 100 * G};
    mesh.graph.n_roots = 1;
    cable(&mesh, 0, 1, 100 * G)->from_root = 0;
    cable(&mesh, 0, 1, 100 * G)->from_root = 0;
    cable(&mesh, 0, 2, 100 * G)->from_root = 0;
    for (size_t e = 1; e < 6; e += 2) {
        mesh.edges[e].to_root = 0;
    }
    lay(&mesh, (uint32_t[]){0, 1, 2}, 3);
    ck_assert_uint_eq(lane(&mesh, 0, 1)->rate_bps, 100 * G);
    ck_assert_uint_eq(lane(&mesh, 1, 0)->rate_bps, 100 * G);
    ck_assert_uint_eq(lane(&mesh, 0, 2)->rate_bps, 100 * G);
    /* Both lanes out of host 0 pass the root outwards. */
    ck_assert(mesh.overlay.is_shared);
    mesh_overlay_fini(&mesh.overlay);
}
END_TEST

/* Three hosts on a switch; two of them also share a cable. */
START_TEST(a_switch_joins_all_that_are_on_it)
{
    struct mesh mesh;
    make(&mesh, 3, 1);
    cable(&mesh, 0, 3, 100 * G);
    cable(&mesh, 1, 3, 40 * G);
    cable(&mesh, 2, 3, 100 * G);
    cable(&mesh, 0, 2, 25 * G);
    lay(&mesh, (uint32_t[]){0, 1, 2}, 3);
    ck_assert_uint_eq(mesh.overlay.n_lanes, 6);
    ck_assert_uint_eq(lane(&mesh, 0, 1)->rate_bps, 40 * G);
    ck_assert_uint_eq(lane(&mesh, 0, 1)->n_hops, 1);
    ck_assert_int_eq(lane(&mesh, 0, 1)->delay_ps, 2 * US);
    about(lane(&mesh, 0, 2)->rate_bps, 125 * G);
    ck_assert_int_eq(lane(&mesh, 0, 2)->delay_ps, US);
    ck_assert(mesh.overlay.is_shared);
    mesh_overlay_fini(&mesh.overlay);
}
END_TEST

/* 0 - 1 - 2 - 3 with ranks on 0, 2 and 3 only. */
START_TEST(a_host_without_a_rank_relays)
{
    struct mesh mesh;
    make(&mesh, 4, 0);
    cable(&mesh, 0, 1, 100 * G);
    cable(&mesh, 1, 2, 50 * G);
    cable(&mesh, 2, 3, 100 * G);
    lay(&mesh, (uint32_t[]){0, 2, 3}, 3);
    ck_assert_uint_eq(mesh.overlay.n_lanes, 4);
    ck_assert_uint_eq(lane(&mesh, 0, 1)->rate_bps, 50 * G);
    ck_assert_uint_eq(lane(&mesh, 0, 1)->n_hops, 2);
    ck_assert_int_eq(lane(&mesh, 0, 1)->delay_ps, 2 * US);
    ck_assert_uint_eq(lane(&mesh, 1, 2)->n_hops, 1);
    /* Rank 1 is between them, so there is no lane past it. */
    ck_assert_ptr_null(mesh_overlay_lane(&mesh.overlay, 0, 2));
    mesh_overlay_fini(&mesh.overlay);
}
END_TEST

START_TEST(ranks_of_a_host_hang_on_the_first)
{
    struct mesh mesh;
    make(&mesh, 2, 0);
    cable(&mesh, 0, 1, 100 * G);
    lay(&mesh, (uint32_t[]){0, 0, 0, 1, 1}, 5);
    /* 0-1, 0-2 and 3-4 in memory, and 0-3 by cable, in both directions. */
    ck_assert_uint_eq(mesh.overlay.n_lanes, 8);
    ck_assert_uint_eq(lane(&mesh, 0, 2)->rate_bps, MESH_MEMORY_BPS);
    ck_assert_uint_eq(lane(&mesh, 2, 0)->n_hops, 0);
    ck_assert_uint_eq(lane(&mesh, 0, 2)->n_uses, 0);
    ck_assert_uint_eq(lane(&mesh, 0, 3)->rate_bps, 100 * G);
    ck_assert_ptr_null(mesh_overlay_lane(&mesh.overlay, 1, 2));
    ck_assert_ptr_null(mesh_overlay_lane(&mesh.overlay, 2, 3));
    mesh_overlay_fini(&mesh.overlay);
    /* One rank and no cables give no lanes. */
    make(&mesh, 1, 0);
    lay(&mesh, (uint32_t[]){0}, 1);
    ck_assert_uint_eq(mesh.overlay.n_lanes, 0);
    ck_assert_uint_eq(mesh.overlay.path_mtu, 0);
    mesh_overlay_fini(&mesh.overlay);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mesh/overlay");
    TCase *tests = tcase_create("overlay");
    tcase_add_test(tests, cables_between_ranks_add_up);
    tcase_add_test(tests, a_pcie_root_limits_the_ports_behind_it_together);
    tcase_add_test(tests, a_switch_joins_all_that_are_on_it);
    tcase_add_test(tests, a_host_without_a_rank_relays);
    tcase_add_test(tests, ranks_of_a_host_hang_on_the_first);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
