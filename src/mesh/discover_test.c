#include <check.h>
#include <string.h>

#include "base/suite_testing.h"
#include "base/text.h"
#include "mesh/discover.h"

#define G UINT64_C(1000000000)

struct member {
    struct mesh_member_port ports[4];
    struct io_prefix addresses[4][3];
    uint32_t n_ports;
    uint8_t id;
};

struct mesh {
    struct member members[6];
    struct mesh_member list[6];
    uint32_t n;
    uint32_t hosts[6];
    struct mesh_graph graph;
};

/* Adds a port with one address to a member. */
static struct mesh_member_port *port(struct mesh *mesh, uint32_t member, uint8_t id,
                                     const char *address)
{
    struct member *at = &mesh->members[member];
    struct mesh_member_port *port = &at->ports[at->n_ports];
    struct io_prefix *prefixes = at->addresses[at->n_ports++];
    at->id = id;
    mesh->n = member + 1 > mesh->n ? member + 1 : mesh->n;
    ck_assert(io_prefix_parse(address, &prefixes[0]));
    *port = (struct mesh_member_port){.addresses = prefixes,
                                      .n_addresses = 1,
                                      .rate_bps = 100 * G,
                                      .mtu_bytes = 9000,
                                      .is_active = true};
    return port;
}

static void discover(struct mesh *mesh)
{
    for (uint32_t i = 0; i < mesh->n; i++) {
        struct mesh_member *member = &mesh->list[i];
        memset(member, 0, sizeof(*member));
        member->host_id[15] = mesh->members[i].id;
        member->ports = mesh->members[i].ports;
        member->n_ports = mesh->members[i].n_ports;
    }
    mesh_discover(mesh->list, mesh->n, &mesh->graph, mesh->hosts);
}

/* Compares the cables in order, each as "0.1-2.0 100". */
static void expect(const struct mesh *mesh, const char *edges)
{
    struct weft_text text = {NULL, 0, 0};
    weft_text_add(&text, "%s", "");
    for (size_t e = 0; e < mesh->graph.n_edges; e += 2) {
        const struct mesh_edge *edge = &mesh->graph.edges[e];
        const struct mesh_edge *back = edge + 1;
        weft_text_add(&text, "%u.%u-%u.%u %u\n", edge->from, edge->from_port, edge->to,
                      edge->to_port, (unsigned)(edge->rate_bps / G));
        ck_assert_uint_eq(edge->from, back->to);
        ck_assert_uint_eq(edge->to_port, back->from_port);
        ck_assert_uint_eq(edge->cable, e / 2);
        ck_assert_uint_eq(back->cable, e / 2);
    }
    ck_assert_str_eq(text.bytes, edges);
    weft_text_fini(&text);
}

/* A triangle with one subnet per cable, and a second member on the first host. */
START_TEST(a_triangle_tells_itself)
{
    static struct mesh mesh;
    memset(&mesh, 0, sizeof(mesh));
    port(&mesh, 0, 7, "192.168.101.1/24");
    port(&mesh, 0, 7, "192.168.102.1/24")->rate_bps = 40 * G;
    port(&mesh, 1, 9, "192.168.103.1/24");
    port(&mesh, 1, 9, "192.168.101.2/24")->mtu_bytes = 1500;
    port(&mesh, 2, 7, "192.168.101.1/24");
    port(&mesh, 2, 7, "192.168.102.1/24");
    port(&mesh, 3, 8, "192.168.102.2/24");
    port(&mesh, 3, 8, "192.168.103.2/24");
    discover(&mesh);
    ck_assert_uint_eq(mesh.graph.n_hosts, 3);
    ck_assert_uint_eq(mesh.graph.n_nodes, 3);
    ck_assert_uint_eq(mesh.hosts[0], 0);
    ck_assert_uint_eq(mesh.hosts[1], 1);
    ck_assert_uint_eq(mesh.hosts[2], 0);
    ck_assert_uint_eq(mesh.hosts[3], 2);
    expect(&mesh, "0.0-1.1 100\n0.1-2.0 40\n1.0-2.1 100\n");
    ck_assert_uint_eq(mesh.graph.edges[0].mtu_bytes, 1500);
    ck_assert(!mesh.graph.edges[0].is_ipv6);
    mesh_graph_fini(&mesh.graph);
}
END_TEST

/* Three ports in one subnet are a switch; a cable next to it stays a cable. */
START_TEST(a_shared_subnet_is_a_switch)
{
    static struct mesh mesh;
    memset(&mesh, 0, sizeof(mesh));
    port(&mesh, 0, 1, "10.0.0.1/24");
    port(&mesh, 0, 1, "fd00::1/64");
    port(&mesh, 1, 2, "10.0.0.2/24")->rate_bps = 25 * G;
    port(&mesh, 2, 3, "fd00::2/64");
    port(&mesh, 2, 3, "10.0.0.3/24");
    discover(&mesh);
    ck_assert_uint_eq(mesh.graph.n_hosts, 3);
    ck_assert_uint_eq(mesh.graph.n_nodes, 4);
    expect(&mesh, "0.0-3.0 100\n1.0-3.1 25\n0.1-2.0 100\n2.1-3.2 100\n");
    ck_assert(mesh.graph.edges[4].is_ipv6);
    ck_assert_uint_eq(mesh_distance(&mesh.graph, 0, 1), 1);
    mesh_graph_fini(&mesh.graph);
}
END_TEST

/* A port that is down faces no other, link-local addresses prove nothing, and members without
 * an id share no host. */
START_TEST(what_is_not_known_is_not_joined)
{
    static struct mesh mesh;
    memset(&mesh, 0, sizeof(mesh));
    port(&mesh, 0, 0, "10.0.0.1/24");
    port(&mesh, 0, 0, "fe80::1/64");
    port(&mesh, 1, 0, "10.0.0.2/24")->is_active = false;
    port(&mesh, 1, 0, "fe80::2/64");
    discover(&mesh);
    ck_assert_uint_eq(mesh.graph.n_hosts, 2);
    expect(&mesh, "");
    mesh_graph_fini(&mesh.graph);
    mesh.n = 0;
    discover(&mesh);
    ck_assert_uint_eq(mesh.graph.n_hosts, 0);
    mesh_graph_fini(&mesh.graph);
}
END_TEST

/* Host 1 of the discovered mesh is host 0 of the description; edges that are not in it stay
 * unchanged. */
START_TEST(a_description_adds_what_cannot_be_seen)
{
    static struct mesh mesh;
    memset(&mesh, 0, sizeof(mesh));
    port(&mesh, 0, 1, "10.0.0.1/30");
    port(&mesh, 0, 1, "10.0.1.1/30");
    port(&mesh, 1, 2, "10.0.0.2/30");
    port(&mesh, 1, 2, "10.0.1.2/30");
    discover(&mesh);
    struct mesh_root root = {0, 50 * G};
    struct mesh_edge edges[2] = {
        {.from = 0,
         .to = 1,
         .rate_bps = 10 * G,
         .delay_ps = 5,
         .from_root = 0,
         .to_root = MESH_NO_ROOT},
        {.from = 1,
         .to = 0,
         .rate_bps = 10 * G,
         .delay_ps = 6,
         .from_root = MESH_NO_ROOT,
         .to_root = 0},
    };
    struct mesh_graph known = {
        .n_hosts = 2, .edges = edges, .n_edges = 2, .roots = &root, .n_roots = 1};
    uint32_t known_hosts[2] = {1, 0};
    mesh_adopt(&mesh.graph, &known, known_hosts);
    expect(&mesh, "0.0-1.0 10\n0.1-1.1 100\n");
    ck_assert_int_eq(mesh.graph.edges[0].delay_ps, 6);
    ck_assert_int_eq(mesh.graph.edges[1].delay_ps, 5);
    ck_assert_int_eq(mesh.graph.edges[2].delay_ps, 0);
    ck_assert_uint_eq(mesh.graph.edges[0].to_root, 0);
    ck_assert_uint_eq(mesh.graph.edges[2].to_root, MESH_NO_ROOT);
    ck_assert_uint_eq(mesh.graph.n_roots, 1);
    ck_assert_uint_eq(mesh.graph.roots[0].host, 1);
    mesh_graph_fini(&mesh.graph);
}
END_TEST

/* A cable to a host that the description lacks is in none of its edges, not even in those that
 * join the same port with a switch. */
START_TEST(an_unknown_host_is_no_switch)
{
    static struct mesh mesh;
    uint32_t known_hosts[3] = {0, 1, 2};

    known_hosts[_i] = UINT32_MAX;
    memset(&mesh, 0, sizeof(mesh));
    port(&mesh, 0, 1, "10.0.0.1/30");
    port(&mesh, 1, 2, "10.0.0.2/30");
    port(&mesh, 1, 2, "10.0.1.1/30");
    port(&mesh, 2, 3, "10.0.1.2/30");
    discover(&mesh);
    struct mesh_edge edges[6];
    for (uint32_t h = 0; h < 3; h++) {
        edges[2 * h] = (struct mesh_edge){.from = h,
                                          .to = 3,
                                          .to_port = h,
                                          .rate_bps = 10 * G,
                                          .from_root = MESH_NO_ROOT,
                                          .to_root = MESH_NO_ROOT};
        edges[2 * h + 1] = edges[2 * h];
        edges[2 * h + 1].from = 3;
        edges[2 * h + 1].from_port = h;
        edges[2 * h + 1].to = h;
        edges[2 * h + 1].to_port = 0;
    }
    struct mesh_graph known = {.n_hosts = 3, .n_nodes = 4, .edges = edges, .n_edges = 6};
    mesh_adopt(&mesh.graph, &known, known_hosts);
    expect(&mesh, "0.0-1.0 100\n1.1-2.0 100\n");
    for (size_t e = 0; e < mesh.graph.n_edges; e++) {
        ck_assert_uint_eq(mesh.graph.edges[e].rate_bps, 100 * G);
    }
    mesh_graph_fini(&mesh.graph);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mesh/discover");
    TCase *tests = tcase_create("discover");
    tcase_add_test(tests, a_triangle_tells_itself);
    tcase_add_test(tests, a_shared_subnet_is_a_switch);
    tcase_add_test(tests, what_is_not_known_is_not_joined);
    tcase_add_test(tests, a_description_adds_what_cannot_be_seen);
    tcase_add_loop_test(tests, an_unknown_host_is_no_switch, 0, 3);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
