#include <check.h>
#include <string.h>

#include "base/suite_testing.h"
#include "mesh/packing_testing.h"

static void cable(struct packing_mesh *mesh, uint32_t a, uint32_t b)
{
    packing_mesh_cable(mesh, a, b, PACKING_RATE);
}

/* Packs rings and checks that each contains every rank once, and the ranks of a host one after
 * another. Returns the load. */
static uint64_t rings(struct packing_mesh *mesh)
{
    mesh_pack_rings(&mesh->overlay, &mesh->packing);
    for (uint32_t i = 0; i < mesh->packing.n_rings; i++) {
        const uint32_t *next = mesh->packing.rings[i].next;
        uint32_t n_changes = 0;
        uint32_t rank = 0;
        for (uint32_t step = 1; step <= mesh->n_ranks; step++) {
            n_changes += mesh->ranks[rank] != mesh->ranks[next[rank]];
            rank = next[rank];
            ck_assert_uint_eq(rank == 0, step == mesh->n_ranks);
        }
        ck_assert_uint_eq(mesh->packing.rings[i].n_missing, 0);
        ck_assert(n_changes == 0 || n_changes == mesh->graph.n_hosts);
    }
    uint64_t load = mesh->packing.load;
    mesh_packing_fini(&mesh->packing);
    return load;
}

/* Checks that every rank hangs below the root and that the depth is right. Returns the load. */
static uint64_t check_trees(struct packing_mesh *mesh)
{
    ck_assert_uint_gt(mesh->packing.n_trees, 0);
    for (uint32_t i = 0; i < mesh->packing.n_trees; i++) {
        const struct mesh_packed_tree *tree = &mesh->packing.trees[i];
        uint32_t deepest = 0;
        for (uint32_t r = 0; r < mesh->n_ranks; r++) {
            uint32_t depth = 0;
            for (uint32_t at = r; at != tree->root; at = tree->parent[at]) {
                ck_assert_uint_le(++depth, mesh->n_ranks);
            }
            deepest = depth > deepest ? depth : deepest;
        }
        ck_assert_uint_eq(tree->depth, deepest);
        ck_assert_uint_eq(tree->parent[tree->root], MESH_NO_PARENT);
    }
    uint64_t load = mesh->packing.load;
    mesh_packing_fini(&mesh->packing);
    return load;
}

static uint64_t trees(struct packing_mesh *mesh)
{
    mesh_pack_trees(&mesh->overlay, &mesh->packing);
    return check_trees(mesh);
}

static uint64_t branches(struct packing_mesh *mesh, uint32_t root, bool towards_root)
{
    mesh_pack_arborescences(&mesh->overlay, root, towards_root, &mesh->packing);
    for (uint32_t i = 0; i < mesh->packing.n_trees; i++) {
        ck_assert_uint_eq(mesh->packing.trees[i].root, root);
    }
    return check_trees(mesh);
}

/* ---- several ranks a host, switches, PCIe roots ---- */

START_TEST(ranks_of_a_host_hang_together)
{
    static struct packing_mesh mesh;
    packing_mesh_triangle(&mesh);
    memcpy(mesh.ranks, (uint32_t[]){1, 0, 1, 2, 0}, 5 * sizeof(uint32_t));
    mesh.n_ranks = 5;
    packing_mesh_open(&mesh);
    ck_assert_uint_eq(rings(&mesh), 32768);
    ck_assert_uint_le(trees(&mesh), 43691);
    for (uint32_t root = 0; root < 5; root++) {
        ck_assert_uint_eq(branches(&mesh, root, root % 2 == 0), 32768);
    }
    mesh_overlay_fini(&mesh.overlay);
    /* With all ranks on one host no data passes a cable. */
    memset(mesh.ranks, 0, sizeof(mesh.ranks));
    packing_mesh_open(&mesh);
    ck_assert_uint_eq(rings(&mesh), 0);
    ck_assert_uint_eq(trees(&mesh), 0);
    ck_assert_uint_eq(branches(&mesh, 3, false), 0);
    mesh_overlay_fini(&mesh.overlay);
}
END_TEST

/* Four hosts on one switch: a ring passes every port once in each direction, and more than one
 * pair of rings is no better. A tree whose lanes all leave one host would pass its port three
 * times. */
START_TEST(a_switch_port_is_shared_by_lanes)
{
    static struct packing_mesh mesh;
    packing_mesh_make(&mesh, 4, 1);
    for (uint32_t host = 0; host < 4; host++) {
        cable(&mesh, host, 4);
    }
    packing_mesh_open(&mesh);
    mesh_pack_rings(&mesh.overlay, &mesh.packing);
    ck_assert_uint_eq(mesh.packing.load, 65536);
    ck_assert_uint_eq(mesh.packing.n_rings, 2);
    mesh_packing_fini(&mesh.packing);
    /* Every host receives and sends the same amount: 2 x 3 / 4. */
    mesh_pack_trees(&mesh.overlay, &mesh.packing);
    ck_assert_uint_ge(mesh.packing.load, 65536 * 3 / 2);
    ck_assert_uint_le(mesh.packing.load, 65536 * 2);
    mesh_packing_fini(&mesh.packing);
    /* In a chain each host receives and sends once. */
    mesh_pack_arborescences(&mesh.overlay, 0, false, &mesh.packing);
    ck_assert_uint_eq(mesh.packing.load, 65536);
    mesh_packing_fini(&mesh.packing);
    mesh_overlay_fini(&mesh.overlay);
}
END_TEST

/* Both ports of each host of a triangle are behind one root with one port's rate. Two rings
 * with half the data each still pass it only once in each direction. */
START_TEST(a_root_is_shared_by_lanes)
{
    static struct packing_mesh mesh;
    packing_mesh_triangle(&mesh);
    mesh.graph.n_roots = 3;
    for (uint32_t h = 0; h < 3; h++) {
        mesh.roots[h] = (struct mesh_root){h, PACKING_RATE};
    }
    for (size_t e = 0; e < mesh.graph.n_edges; e++) {
        mesh.edges[e].from_root = mesh.edges[e].from;
        mesh.edges[e].to_root = mesh.edges[e].to;
    }
    packing_mesh_open(&mesh);
    mesh_pack_rings(&mesh.overlay, &mesh.packing);
    ck_assert_uint_eq(mesh.packing.load, 65536);
    mesh_packing_fini(&mesh.packing);
    mesh_overlay_fini(&mesh.overlay);
}
END_TEST

/* A cable with 1/128 of the others' rate carries almost no part of the trees. */
START_TEST(slow_cables_get_little)
{
    static struct packing_mesh mesh;
    packing_mesh_triangle(&mesh);
    mesh.edges[0].rate_bps = mesh.edges[1].rate_bps = PACKING_RATE / 128;
    packing_mesh_open(&mesh);
    uint64_t load = trees(&mesh);
    ck_assert_uint_le(load, 65536);
    ck_assert_uint_ge(load, 65536 * 2 / 3);
    mesh_overlay_fini(&mesh.overlay);
    /* Ranks that are not connected get a ring that reports missing cables, and no trees. */
    packing_mesh_make(&mesh, 3, 0);
    cable(&mesh, 0, 1);
    packing_mesh_open(&mesh);
    mesh_pack_rings(&mesh.overlay, &mesh.packing);
    ck_assert_uint_eq(mesh.packing.rings[0].n_missing, 2);
    mesh_packing_fini(&mesh.packing);
    mesh_pack_trees(&mesh.overlay, &mesh.packing);
    ck_assert_uint_eq(mesh.packing.n_trees, 0);
    mesh_packing_fini(&mesh.packing);
    mesh_pack_arborescences(&mesh.overlay, 2, false, &mesh.packing);
    ck_assert_uint_eq(mesh.packing.n_trees, 0);
    mesh_packing_fini(&mesh.packing);
    mesh_overlay_fini(&mesh.overlay);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mesh/packing_shared");
    TCase *tests = tcase_create("packing");
    tcase_add_test(tests, ranks_of_a_host_hang_together);
    tcase_add_test(tests, a_switch_port_is_shared_by_lanes);
    tcase_add_test(tests, a_root_is_shared_by_lanes);
    tcase_add_test(tests, slow_cables_get_little);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
