#include <check.h>

#include "base/suite_testing.h"
#include "run/graph.h"

#define G UINT64_C(1000000000)

/* Two hosts with a cable, where one PCIe root has a rate; both hosts on a switch; and a cable that
 * is down. */
START_TEST(cables_switches_and_roots_become_a_graph)
{
    struct io_prefix v4 = {io_ip_v4(10, 0, 0, 1), 24};
    struct world_port ports[2][3] = {
        {{.name = "p0", .pcie_root = 0, .rate_bps = 100 * G, .mtu_bytes = 9000},
         {.name = "p1", .pcie_root = 1, .rate_bps = 100 * G, .mtu_bytes = 9000},
         {.name = "p2", .pcie_root = 1, .rate_bps = 100 * G, .mtu_bytes = 9000}},
        {{.name = "p0", .rate_bps = 40 * G, .mtu_bytes = 1500},
         {.name = "p1", .rate_bps = 100 * G, .mtu_bytes = 9000},
         {.name = "p2", .rate_bps = 100 * G, .mtu_bytes = 9000}},
    };
    for (uint32_t p = 0; p < 3; p++) {
        ports[0][p].addresses = &v4;
        ports[0][p].n_addresses = 1;
    }
    ports[1][0].addresses = &v4;
    ports[1][0].n_addresses = 1;
    uint64_t roots[2] = {0, 50 * G};
    struct world_host hosts[2] = {
        {.ports = ports[0], .n_ports = 3, .pcie_root_bps = roots, .n_pcie_roots = 2},
        {.ports = ports[1], .n_ports = 3},
    };
    struct world_switch sw = {.name = "sw0", .n_ports = 4};
    struct world_cable cables[4] = {
        {.ends = {{false, 0, 0}, {false, 1, 0}},
         .rate_bps = 100 * G,
         .delay_ps = 7,
         .up = true},
        {.ends = {{false, 0, 1}, {true, 0, 3}}, .rate_bps = 100 * G, .up = true},
        {.ends = {{true, 0, 1}, {false, 1, 1}}, .rate_bps = 25 * G, .up = true},
        {.ends = {{false, 0, 2}, {false, 1, 2}}, .rate_bps = 100 * G, .up = false},
    };
    struct world_spec spec = {.hosts = hosts,
                              .n_hosts = 2,
                              .switches = &sw,
                              .n_switches = 1,
                              .cables = cables,
                              .n_cables = 4};
    static const struct mesh_edge edges[6] = {
        {0, 1, 0, 0, 0, 40 * G, 7, 1500, false, MESH_NO_ROOT, MESH_NO_ROOT},
        {1, 0, 0, 0, 0, 40 * G, 7, 1500, false, MESH_NO_ROOT, MESH_NO_ROOT},
        {0, 2, 1, 3, 1, 50 * G, 0, 9000, false, 1, MESH_NO_ROOT},
        {2, 0, 3, 1, 1, 50 * G, 0, 9000, false, MESH_NO_ROOT, 1},
        {2, 1, 1, 1, 2, 25 * G, 0, 9000, true, MESH_NO_ROOT, MESH_NO_ROOT},
        {1, 2, 1, 1, 2, 25 * G, 0, 9000, true, MESH_NO_ROOT, MESH_NO_ROOT},
    };
    struct mesh_graph graph;
    run_graph(&spec, &graph);
    ck_assert_uint_eq(graph.n_hosts, 2);
    ck_assert_uint_eq(graph.n_nodes, 3);
    ck_assert_uint_eq(graph.n_roots, 2);
    ck_assert_uint_eq(graph.roots[1].host, 0);
    ck_assert_uint_eq(graph.roots[1].rate_bps, 50 * G);
    ck_assert_uint_eq(graph.n_edges, 6);
    for (size_t e = 0; e < 6; e++) {
        const struct mesh_edge *edge = &graph.edges[e];
        ck_assert_uint_eq(edge->from, edges[e].from);
        ck_assert_uint_eq(edge->to, edges[e].to);
        ck_assert_uint_eq(edge->from_port, edges[e].from_port);
        ck_assert_uint_eq(edge->to_port, edges[e].to_port);
        ck_assert_uint_eq(edge->cable, edges[e].cable);
        ck_assert_uint_eq(edge->rate_bps, edges[e].rate_bps);
        ck_assert_int_eq(edge->delay_ps, edges[e].delay_ps);
        ck_assert_uint_eq(edge->mtu_bytes, edges[e].mtu_bytes);
        ck_assert(edge->is_ipv6 == edges[e].is_ipv6);
        ck_assert_uint_eq(edge->from_root, edges[e].from_root);
        ck_assert_uint_eq(edge->to_root, edges[e].to_root);
    }
    mesh_graph_fini(&graph);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run/graph");
    TCase *tests = tcase_create("graph");
    tcase_add_test(tests, cables_switches_and_roots_become_a_graph);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
