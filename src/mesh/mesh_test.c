#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/suite_testing.h"
#include "mesh/mesh.h"

/* ---- facing addresses ---- */

static struct mesh_address address(uint32_t port, const char *text)
{
    struct mesh_address address = {.port = port};
    ck_assert_msg(io_prefix_parse(text, &address.prefix), "%s", text);
    return address;
}

static size_t find(const struct mesh_address *local, size_t n_local,
                   const struct mesh_address *remote, size_t n_remote,
                   struct mesh_facing out[8])
{
    return mesh_find_facing(local, n_local, remote, n_remote, false, out, 8);
}

struct facing_case {
    const char *what, *local, *remote;
    bool faces;
};

static const struct facing_case facing_cases[] = {
    {"one /24", "10.0.0.1/24", "10.0.0.2/24", true},
    {"two /24", "10.0.0.1/24", "10.0.1.2/24", false},
    {"two /30 of one /24", "10.0.0.1/30", "10.0.0.5/30", false},
    {"one /30", "10.0.0.1/30", "10.0.0.2/30", true},
    {"/31", "10.0.0.0/31", "10.0.0.1/31", true},
    {"/31 next door", "10.0.0.1/31", "10.0.0.2/31", false},
    {"ours is wider", "10.0.0.1/16", "10.0.9.2/24", false},
    {"ours is narrower", "10.0.0.1/30", "10.0.0.9/16", false},
    {"both wide enough", "10.0.0.1/16", "10.0.0.2/24", true},
    {"theirs unknown", "10.0.0.1/16", "10.0.9.2/0", true},
    {"ours unknown", "10.0.0.1/0", "10.0.0.2/24", false},
    {"our own address", "10.0.0.1/24", "10.0.0.1/24", false},
    {"ipv6 /64", "fd00::1/64", "fd00::2/64", true},
    {"ipv6 /127", "fd00::/127", "fd00::1/127", true},
    {"ipv6 next /64", "fd00:0:0:1::1/64", "fd00:0:0:2::1/64", false},
    {"two families", "10.0.0.1/24", "fd00::2/64", false},
    {"link-local", "fe80::1/64", "fe80::2/64", false},
    {"169.254 is set on purpose", "169.254.1.1/16", "169.254.7.2/16", true},
};

START_TEST(two_addresses_face_or_not)
{
    const struct facing_case *c = &facing_cases[_i];
    struct mesh_address local = address(0, c->local);
    struct mesh_address remote = address(0, c->remote);
    struct mesh_facing out[8];
    ck_assert_msg(find(&local, 1, &remote, 1, out) == (c->faces ? 1 : 0), "%s", c->what);
}
END_TEST

START_TEST(link_local_pairs_on_request)
{
    struct mesh_address local = address(0, "fe80::1/64");
    struct mesh_address remote = address(0, "fe80::2/64");
    struct mesh_facing out;
    ck_assert_uint_eq(mesh_find_facing(&local, 1, &remote, 1, true, &out, 1), 1);
}
END_TEST

/* A pair of ports counts once, by IPv4 if possible, in any order of the addresses. */
START_TEST(a_pair_of_ports_appears_once)
{
    struct mesh_address local[] = {address(0, "fd00::1/64"), address(0, "10.0.0.1/24"),
                                   address(0, "10.5.0.1/24"), address(1, "10.1.0.1/24"),
                                   address(2, "fd02::1/64")};
    struct mesh_address remote[] = {address(7, "fd02::2/64"), address(8, "fd00::2/64"),
                                    address(8, "10.5.0.2/24"), address(8, "10.0.0.2/24"),
                                    address(9, "10.9.0.2/24")};
    struct mesh_facing out[8];
    ck_assert_uint_eq(find(local, 5, remote, 5, out), 2);
    ck_assert_uint_eq(out[0].local, 1);
    ck_assert_uint_eq(out[0].remote, 3);
    ck_assert_uint_eq(out[1].local, 4);
    ck_assert_uint_eq(out[1].remote, 0);
}
END_TEST

/* Four ports in one subnet are four pairs. The count is returned even if they do not fit. */
START_TEST(what_does_not_fit_is_counted)
{
    struct mesh_address local[] = {address(0, "10.0.0.1/24"), address(1, "10.0.0.2/24")};
    struct mesh_address remote[] = {address(0, "10.0.0.3/24"), address(1, "10.0.0.4/24")};
    struct mesh_facing out[3] = {{9, 9}, {9, 9}, {9, 9}};
    ck_assert_uint_eq(mesh_find_facing(local, 2, remote, 2, false, out, 3), 4);
    ck_assert_uint_eq(out[2].local, 1);
    ck_assert_uint_eq(out[2].remote, 0);
    ck_assert_uint_eq(mesh_find_facing(local, 2, remote, 2, false, NULL, 0), 4);
    ck_assert_uint_eq(mesh_find_facing(local, 2, remote, 0, false, NULL, 0), 0);
    ck_assert_uint_eq(mesh_find_facing(local, 0, remote, 2, false, NULL, 0), 0);
}
END_TEST

/* ---- distances ---- */

/* A line of four hosts, and one unconnected host. */
START_TEST(distances_are_hops)
{
    struct mesh_edge edges[] = {{.from = 2, .to = 3}, {.from = 3, .to = 2},
                                {.from = 1, .to = 2}, {.from = 2, .to = 1},
                                {.from = 0, .to = 1}, {.from = 1, .to = 0}};
    struct mesh_graph graph = {.n_hosts = 5, .edges = edges, .n_edges = 6};
    ck_assert_uint_eq(mesh_distance(&graph, 0, 0), 0);
    ck_assert_uint_eq(mesh_distance(&graph, 0, 1), 1);
    ck_assert_uint_eq(mesh_distance(&graph, 0, 3), 3);
    ck_assert_uint_eq(mesh_distance(&graph, 3, 0), 3);
    ck_assert_uint_eq(mesh_distance(&graph, 0, 4), UINT32_MAX);
    uint32_t hops[5];
    mesh_distances(&graph, 1, hops);
    ck_assert_uint_eq(hops[0], 1);
    ck_assert_uint_eq(hops[3], 2);
    ck_assert_uint_eq(hops[4], UINT32_MAX);
}
END_TEST

START_TEST(a_graph_gives_its_edges_back)
{
    struct mesh_graph graph = {
        .n_hosts = 2, .edges = calloc(2, sizeof(struct mesh_edge)), .n_edges = 2};
    mesh_graph_fini(&graph);
    ck_assert_ptr_null(graph.edges);
    ck_assert_uint_eq(graph.n_edges, 0);
}
END_TEST

/* ---- bytes ---- */

START_TEST(path_mtus_at_their_edges)
{
    static const struct {
        uint32_t ip_mtu, overhead, expected;
    } cases[] = {
        /* mlx5, hns: 96. rxe: 80. */
        {1500, 96, 1024}, {9000, 96, 4096}, {4191, 96, 2048}, {4192, 96, 4096},
        {4175, 80, 2048}, {4176, 80, 4096}, {351, 96, 0},     {352, 96, 256},
        {95, 96, 0},      {0, 96, 0},       {256, 0, 256},    {UINT32_MAX, 96, 4096},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_uint_eq(mesh_path_mtu(cases[i].ip_mtu, cases[i].overhead),
                          cases[i].expected);
    }
}
END_TEST

START_TEST(bytes_on_the_wire)
{
    /* A full packet at path MTU 4096 takes 4178. */
    ck_assert_uint_eq(mesh_packet_overhead(false), 82);
    ck_assert_uint_eq(mesh_packet_overhead(true), 102);
    /* One message of one packet: 4096 + 82 + RETH 16. */
    ck_assert_uint_eq(mesh_wire_bytes(4096, 4096, 4096, false), 4194);
    ck_assert_uint_eq(mesh_wire_bytes(4096, 4096, 4096, true), 4214);
    /* 1 MiB in one message: 256 packets, one RETH. */
    ck_assert_uint_eq(mesh_wire_bytes(1 << 20, 1 << 20, 4096, false), 256 * 4178 + 16);
    /* 10000 in messages of 4096 at MTU 1024: 4 + 4 + 2 packets, 3 RETH. */
    ck_assert_uint_eq(mesh_wire_bytes(10000, 4096, 1024, false), 10000 + 10 * 82 + 48);
    /* 8 bytes; 5 bytes padded to 8; an empty message is one packet too. */
    ck_assert_uint_eq(mesh_wire_bytes(8, 1 << 20, 4096, false), 8 + 82 + 16);
    ck_assert_uint_eq(mesh_wire_bytes(5, 1 << 20, 4096, false), 8 + 82 + 16);
    ck_assert_uint_eq(mesh_wire_bytes(0, 1 << 20, 4096, false), 82 + 16);
    /* Three messages of 5 and one of 2: 3 x 8 + 4. */
    ck_assert_uint_eq(mesh_wire_bytes(17, 5, 4096, false), 28 + 4 * 98);
}
END_TEST

START_TEST(bus_factors_are_nccl_tests)
{
    static const struct {
        enum weft_collective collective;
        uint32_t numerator, denominator;
    } cases[] = {
        {WEFT_ALL_REDUCE, 6, 4}, {WEFT_REDUCE_SCATTER, 3, 4}, {WEFT_ALL_GATHER, 3, 4},
        {WEFT_ALL_TO_ALL, 3, 4}, {WEFT_BROADCAST, 1, 1},      {WEFT_REDUCE, 1, 1},
        {WEFT_SEND_RECV, 1, 1},  {WEFT_BARRIER, 1, 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t numerator, denominator;
        mesh_bus_factor(cases[i].collective, 4, &numerator, &denominator);
        ck_assert_uint_eq(numerator, cases[i].numerator);
        ck_assert_uint_eq(denominator, cases[i].denominator);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mesh/mesh");
    TCase *tests = tcase_create("mesh");
    tcase_add_loop_test(tests, two_addresses_face_or_not, 0,
                        (int)(sizeof(facing_cases) / sizeof(facing_cases[0])));
    tcase_add_test(tests, link_local_pairs_on_request);
    tcase_add_test(tests, a_pair_of_ports_appears_once);
    tcase_add_test(tests, what_does_not_fit_is_counted);
    tcase_add_test(tests, distances_are_hops);
    tcase_add_test(tests, a_graph_gives_its_edges_back);
    tcase_add_test(tests, path_mtus_at_their_edges);
    tcase_add_test(tests, bytes_on_the_wire);
    tcase_add_test(tests, bus_factors_are_nccl_tests);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
