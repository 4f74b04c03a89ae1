#include <check.h>
#include <string.h>

#include "base/rng.h"
#include "base/suite_testing.h"
#include "mesh/packing_testing.h"

static void cable(struct packing_mesh *mesh, uint32_t a, uint32_t b)
{
    packing_mesh_cable(mesh, a, b, PACKING_RATE);
}

/* ---- meshes ---- */

static void make_twin_triangle(struct packing_mesh *mesh)
{
    packing_mesh_triangle(mesh);
    cable(mesh, 0, 1);
    cable(mesh, 1, 2);
    cable(mesh, 2, 0);
}

static void make_ring(struct packing_mesh *mesh, uint32_t n)
{
    packing_mesh_make(mesh, n, 0);
    for (uint32_t i = 0; i < n; i++) {
        cable(mesh, i, (i + 1) % n);
    }
}

static void make_ring_of_4(struct packing_mesh *mesh)
{
    make_ring(mesh, 4);
}

static void make_ring_of_256(struct packing_mesh *mesh)
{
    make_ring(mesh, 256);
}

static void make_line_of_3(struct packing_mesh *mesh)
{
    packing_mesh_make(mesh, 3, 0);
    cable(mesh, 0, 1);
    cable(mesh, 1, 2);
}

static void make_star_of_5(struct packing_mesh *mesh)
{
    packing_mesh_make(mesh, 5, 0);
    for (uint32_t leaf = 1; leaf < 5; leaf++) {
        cable(mesh, 0, leaf);
    }
}

static void make_grid_2x4(struct packing_mesh *mesh)
{
    packing_mesh_make(mesh, 8, 0);
    for (uint32_t x = 0; x < 4; x++) {
        cable(mesh, x, x + 4);
        if (x < 3) {
            cable(mesh, x, x + 1);
            cable(mesh, x + 4, x + 5);
        }
    }
}

static void make_full_mesh_of_16(struct packing_mesh *mesh)
{
    packing_mesh_make(mesh, 16, 0);
    for (uint32_t a = 0; a < 16; a++) {
        for (uint32_t b = a + 1; b < 16; b++) {
            cable(mesh, a, b);
        }
    }
}

static void make_two_triangles(struct packing_mesh *mesh)
{
    packing_mesh_make(mesh, 6, 0);
    for (uint32_t side = 0; side < 6; side += 3) {
        cable(mesh, side, side + 1);
        cable(mesh, side + 1, side + 2);
        cable(mesh, side + 2, side);
    }
    cable(mesh, 2, 3);
}

/* Makes three groups of three hosts. All hosts of a group are joined, and one cable joins
 * every two groups. */
static void make_dragonfly_of_9(struct packing_mesh *mesh)
{
    packing_mesh_make(mesh, 9, 0);
    for (uint32_t group = 0; group < 9; group += 3) {
        cable(mesh, group, group + 1);
        cable(mesh, group + 1, group + 2);
        cable(mesh, group + 2, group);
    }
    cable(mesh, 0, 3);
    cable(mesh, 4, 6);
    cable(mesh, 7, 1);
}

static void make_torus(struct packing_mesh *mesh, uint32_t width, uint32_t height)
{
    packing_mesh_make(mesh, width * height, 0);
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            cable(mesh, y * width + x, y * width + (x + 1) % width);
            cable(mesh, y * width + x, (y + 1) % height * width + x);
        }
    }
}

static void make_torus_8x8(struct packing_mesh *mesh)
{
    make_torus(mesh, 8, 8);
}

/* ---- checks that are independent of the packers ---- */

static uint64_t used[PACKING_EDGES_MAX]; /* parts over every edge */

/* Adds `share` to all cables from rank a's host to rank b's, by rate. Returns false if there
 * are none. */
static bool carry(const struct packing_mesh *mesh, uint32_t a, uint32_t b, uint64_t share)
{
    uint64_t total = 0;
    for (size_t e = 0; e < mesh->graph.n_edges; e++) {
        const struct mesh_edge *edge = &mesh->edges[e];
        total += edge->from == mesh->ranks[a] && edge->to == mesh->ranks[b]
                     ? edge->rate_bps / 1000000
                     : 0;
    }
    for (size_t e = 0; e < mesh->graph.n_edges && total > 0; e++) {
        const struct mesh_edge *edge = &mesh->edges[e];
        if (edge->from == mesh->ranks[a] && edge->to == mesh->ranks[b]) {
            used[e] += share * (edge->rate_bps / 1000000) * 1024 / total;
        }
    }
    return total > 0;
}

/* Returns the load by its definition, from the cables alone, rounded down slightly. */
static uint64_t worst_use(const struct packing_mesh *mesh)
{
    uint64_t worst = 0;
    for (size_t e = 0; e < mesh->graph.n_edges; e++) {
        uint64_t load = used[e] * 1024 / (mesh->edges[e].rate_bps / 1000000);
        worst = load > worst ? load : worst;
    }
    return worst;
}

static void check_load(const struct packing_mesh *mesh)
{
    uint64_t load = worst_use(mesh);
    ck_assert_uint_ge(mesh->packing.load + 1, load);
    ck_assert_uint_le(mesh->packing.load, load + load / 500 + 2);
}

static void check_rings(const struct packing_mesh *mesh)
{
    const struct mesh_packing *packing = &mesh->packing;
    uint32_t shares = 0;
    uint32_t n_missing = 0;
    memset(used, 0, sizeof(used));
    ck_assert_uint_ge(packing->n_rings, 1);
    ck_assert_uint_le(packing->n_rings, MESH_PACKING_MAX);
    for (uint32_t i = 0; i < packing->n_rings; i++) {
        const struct mesh_packed_ring *ring = &packing->rings[i];
        uint32_t missing = 0;
        uint32_t rank = 0;
        for (uint32_t step = 0; step < mesh->n_ranks; step++) {
            uint32_t next = ring->next[rank];
            ck_assert_uint_lt(next, mesh->n_ranks);
            ck_assert_msg(next != 0 || step + 1 == mesh->n_ranks, "closes too early");
            if (mesh->ranks[rank] != mesh->ranks[next]) {
                missing += !carry(mesh, rank, next, ring->share);
            }
            rank = next;
        }
        ck_assert_uint_eq(rank, 0);
        ck_assert_uint_eq(ring->n_missing, missing);
        n_missing += missing;
        shares += ring->share;
    }
    ck_assert_uint_eq(shares, 65536);
    if (n_missing == 0) {
        check_load(mesh);
    }
}

enum way { BOTH, DOWN, UP };

static void check_trees(const struct packing_mesh *mesh, enum way way)
{
    const struct mesh_packing *packing = &mesh->packing;
    uint32_t shares = 0;
    memset(used, 0, sizeof(used));
    ck_assert_uint_ge(packing->n_trees, 1);
    ck_assert_uint_le(packing->n_trees, MESH_PACKING_MAX);
    for (uint32_t i = 0; i < packing->n_trees; i++) {
        const struct mesh_packed_tree *tree = &packing->trees[i];
        uint32_t deepest = 0;
        ck_assert_uint_eq(tree->parent[tree->root], MESH_NO_PARENT);
        for (uint32_t r = 0; r < mesh->n_ranks; r++) {
            uint32_t depth = 0;
            uint32_t at = r;
            for (; at != tree->root; at = tree->parent[at]) {
                ck_assert_uint_lt(at, mesh->n_ranks);
                ck_assert_uint_le(++depth, mesh->n_ranks);
            }
            deepest = depth > deepest ? depth : deepest;
            uint32_t parent = tree->parent[r];
            if (r == tree->root || mesh->ranks[r] == mesh->ranks[parent]) {
                continue;
            }
            ck_assert(way == DOWN || carry(mesh, r, parent, tree->share));
            ck_assert(way == UP || carry(mesh, parent, r, tree->share));
        }
        ck_assert_uint_eq(tree->depth, deepest);
        shares += tree->share;
    }
    ck_assert_uint_eq(shares, 65536);
    check_load(mesh);
}

static uint64_t rings(struct packing_mesh *mesh)
{
    mesh_pack_rings(&mesh->overlay, &mesh->packing);
    check_rings(mesh);
    uint64_t load = mesh->packing.load;
    mesh_packing_fini(&mesh->packing);
    return load;
}

static uint64_t trees(struct packing_mesh *mesh)
{
    mesh_pack_trees(&mesh->overlay, &mesh->packing);
    check_trees(mesh, BOTH);
    uint64_t load = mesh->packing.load;
    mesh_packing_fini(&mesh->packing);
    return load;
}

static uint64_t branches(struct packing_mesh *mesh, uint32_t root, bool towards_root)
{
    mesh_pack_arborescences(&mesh->overlay, root, towards_root, &mesh->packing);
    check_trees(mesh, towards_root ? UP : DOWN);
    for (uint32_t i = 0; i < mesh->packing.n_trees; i++) {
        ck_assert_uint_eq(mesh->packing.trees[i].root, root);
    }
    uint64_t load = mesh->packing.load;
    mesh_packing_fini(&mesh->packing);
    return load;
}

/* ---- known best ---- */

static const struct {
    const char *name;
    void (*make)(struct packing_mesh *mesh);
    uint32_t rings, trees, branches; /* parts of 65536 over the busiest direction */
    uint32_t slack;                  /* percent */
} known[] = {
    /* Two opposite rings: half each. Three trees of two cables over three cables: 2/3.
     * Every host has two cables: half a broadcast over each. */
    {"triangle", packing_mesh_triangle, 32768, 43691, 32768, 0},
    {"twin triangle", make_twin_triangle, 16384, 21846, 16384, 0},
    /* Four trees, each without one cable: 3/4. */
    {"ring of 4", make_ring_of_4, 32768, 49152, 32768, 0},
    {"line of 3", make_line_of_3, 65536, 65536, 65536, 0},
    {"star of 5", make_star_of_5, 65536, 65536, 65536, 0},
    /* Corners have two cables: one pair of rings. 10 cables, 7 a tree: 7/10. */
    {"grid 2x4", make_grid_2x4, 32768, 45876, 32768, 5},
    /* Fifteen cables at a host: seven pairs of rings; 120 cables make eight trees of 15;
     * fifteen trees out of a root. */
    {"full mesh of 16", make_full_mesh_of_16, 65536 / 14 + 1, 8192, 65536 / 15 + 1, 0},
    /* The cable in between decides; there is no ring. */
    {"two triangles", make_two_triangles, 65536, 65536, 65536, 0},
    /* 12 cables, 8 a tree; between groups 3 cables, 2 a tree: 2/3 both. */
    {"dragonfly of 9", make_dragonfly_of_9, 32768, 43691, 32768, 0},
    /* Two pairs of rings; 128 cables, 63 a tree: two trees; four cables at the root. */
    {"torus 8x8", make_torus_8x8, 16384, 32768, 16384, 0},
    {"ring of 256", make_ring_of_256, 32768, 65536, 32768, 0},
};

static void about(uint64_t load, uint32_t best, uint32_t slack, const char *what)
{
    ck_assert_msg(load + 1 >= best, "%s: %lu is better than the best, %u", what,
                  (unsigned long)load, best);
    ck_assert_msg(load <= best + 1 + (uint64_t)best * slack / 100, "%s: %lu, best %u",
                  what, (unsigned long)load, best);
}

START_TEST(known_meshes_are_packed_best)
{
    static struct packing_mesh mesh;
    known[_i].make(&mesh);
    packing_mesh_open(&mesh);
    about(rings(&mesh), known[_i].rings, 0, known[_i].name);
    about(trees(&mesh), known[_i].trees, known[_i].slack, known[_i].name);
    about(branches(&mesh, 0, false), known[_i].branches, 0, known[_i].name);
    about(branches(&mesh, mesh.n_ranks - 1, true), known[_i].branches, 0, known[_i].name);
    mesh_overlay_fini(&mesh.overlay);
}
END_TEST

/* ---- bounds of every packing ---- */

static uint64_t rate_between(const struct packing_mesh *mesh, const uint32_t *part)
{
    uint64_t rate = 0;
    for (size_t e = 0; e < mesh->graph.n_edges; e += 2) {
        rate += part[mesh->edges[e].from] != part[mesh->edges[e].to]
                    ? mesh->edges[e].rate_bps / 1000000
                    : 0;
    }
    return rate;
}

/* Nash-Williams and Tutte: for every division of the hosts into p parts, each tree takes p - 1
 * cables between parts. Tries all divisions, by restricted growth strings. */
static uint64_t best_trees(const struct packing_mesh *mesh)
{
    uint32_t n = mesh->graph.n_hosts;
    uint32_t part[16] = {0};
    uint64_t worst = 0;
    while (true) {
        uint32_t n_parts = 1;
        for (uint32_t v = 0; v < n; v++) {
            n_parts = part[v] + 1 > n_parts ? part[v] + 1 : n_parts;
        }
        if (n_parts > 1) {
            uint64_t load =
                ((UINT64_C(65536) << 20) * (n_parts - 1)) / rate_between(mesh, part);
            worst = load > worst ? load : worst;
        }
        uint32_t v = n - 1;
        for (; v > 0; v--) {
            uint32_t most = 0;
            for (uint32_t u = 0; u < v; u++) {
                most = part[u] > most ? part[u] : most;
            }
            if (part[v] <= most) {
                part[v]++;
                break;
            }
            part[v] = 0;
        }
        if (v == 0) {
            return worst;
        }
    }
}

/* Edmonds: for every set without the root, each tree takes one cable into it. */
static uint64_t best_branches(const struct packing_mesh *mesh, uint32_t root)
{
    uint32_t n = mesh->graph.n_hosts;
    uint64_t worst = 0;
    for (uint32_t set = 1; set < 1u << n; set++) {
        uint64_t rate = 0;
        for (size_t e = 0; e < mesh->graph.n_edges; e++) {
            const struct mesh_edge *edge = &mesh->edges[e];
            rate += (set >> edge->to & 1) != 0 && (set >> edge->from & 1) == 0
                        ? edge->rate_bps / 1000000
                        : 0;
        }
        if ((set >> root & 1) == 0) {
            uint64_t load = (UINT64_C(65536) << 20) / rate;
            worst = load > worst ? load : worst;
        }
    }
    return worst;
}

/* Makes a tree first, so that the mesh is connected, then adds some cables. */
static void make_random(struct packing_mesh *mesh, uint64_t seed)
{
    struct weft_rng rng;
    weft_rng_init(&rng, seed, "mesh");
    uint32_t n = 2 + (uint32_t)weft_rng_below(&rng, 11);
    bool is_mixed = weft_rng_below(&rng, 2) == 0;
    packing_mesh_make(mesh, n, 0);
    for (uint32_t v = 1; v < n; v++) {
        packing_mesh_cable(mesh, (uint32_t)weft_rng_below(&rng, v), v,
                           PACKING_RATE << (is_mixed ? weft_rng_below(&rng, 3) : 0));
    }
    uint32_t n_more = (uint32_t)weft_rng_below(&rng, n * 2);
    for (uint32_t i = 0; i < n_more; i++) {
        uint32_t a = (uint32_t)weft_rng_below(&rng, n);
        uint32_t b = (uint32_t)weft_rng_below(&rng, n);
        if (a != b) {
            packing_mesh_cable(mesh, a, b,
                               PACKING_RATE << (is_mixed ? weft_rng_below(&rng, 3) : 0));
        }
    }
}

START_TEST(random_meshes_are_packed_well)
{
    static struct packing_mesh mesh;
    for (uint64_t seed = (uint64_t)_i * 20; seed < (uint64_t)_i * 20 + 20; seed++) {
        make_random(&mesh, seed);
        packing_mesh_open(&mesh);
        (void)rings(&mesh);
        uint64_t found = trees(&mesh);
        if (mesh.n_ranks <= 8) {
            uint64_t best = best_trees(&mesh);
            ck_assert_msg(found <= best + best / 20 + 2 && found + 2 >= best,
                          "seed %lu: trees %lu, best %lu", (unsigned long)seed,
                          (unsigned long)found, (unsigned long)best);
        }
        uint32_t root = (uint32_t)(seed % mesh.n_ranks);
        found = branches(&mesh, root, seed % 3 == 0);
        uint64_t best = best_branches(&mesh, root);
        ck_assert_msg(found <= best + best / 20 + 2 && found + 2 >= best,
                      "seed %lu: branches %lu, best %lu", (unsigned long)seed,
                      (unsigned long)found, (unsigned long)best);
        mesh_overlay_fini(&mesh.overlay);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mesh/packing");
    TCase *tests = tcase_create("packing");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, known_meshes_are_packed_best, 0,
                        (int)(sizeof(known) / sizeof(known[0])));
    suite_add_sweep(tests, random_meshes_are_packed_well, 0, 20);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
