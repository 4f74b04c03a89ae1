/* Plans of every kind and algorithm are proven on thousands of random meshes. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "coll/mesh_testing.h"
#include "coll/plan_check_testing.h"
#include "coll/plan_draft.h"

#define RANKS_MAX 12
#define MESHES SWEEP(2000)
#define SHARDS 20

/* Makes a tree through all ranks, and any other cables, some twice. */
static void random_mesh(struct weft_rng *rng, uint32_t n, struct coll_mesh *out)
{
    struct coll_cable cables[RANKS_MAX + 3 * RANKS_MAX];
    uint32_t n_cables = 0, n_more = (uint32_t)weft_rng_below(rng, 3 * RANKS_MAX);

    for (uint32_t r = 1; r < n; r++) {
        cables[n_cables++] = (struct coll_cable){(uint32_t)weft_rng_below(rng, r), r};
    }
    for (uint32_t i = 0; i < n_more && n > 1; i++) {
        uint32_t a = (uint32_t)weft_rng_below(rng, n);
        uint32_t b = (uint32_t)weft_rng_below(rng, n - 1);

        cables[n_cables++] = (struct coll_cable){a, b < a ? b : b + 1};
    }
    coll_mesh_of_cables(n, cables, n_cables, UINT64_C(100000000000), 1000000, out);
}

static uint64_t random_count(struct weft_rng *rng)
{
    static const uint64_t scales[] = {4, 64, 5000, 100000};

    return weft_rng_below(rng, scales[weft_rng_below(rng, 4)]);
}

/* Checks that both ends of every pair agree on whether one sends to the other. */
static void check_peers(const struct coll_plan *plans, uint32_t n)
{
    static bool sends[RANKS_MAX][RANKS_MAX], receives[RANKS_MAX][RANKS_MAX];

    for (uint32_t a = 0; a < n; a++) {
        for (uint32_t b = 0; b < n; b++) {
            sends[a][b] = receives[a][b] = false;
        }
        coll_plan_peers(&plans[a], sends[a], receives[a]);
    }
    for (uint32_t a = 0; a < n; a++) {
        for (uint32_t b = 0; b < n; b++) {
            ck_assert_int_eq(sends[a][b], receives[b][a]);
        }
    }
}

static void prove(const struct coll_job *job, const struct coll_mesh *mesh, int at)
{
    struct coll_plan plans[RANKS_MAX];
    struct weft_error error = {0};
    weft_status status;

    for (uint32_t r = 0; r < mesh->n_ranks; r++) {
        status = coll_plan_make(job, r, mesh, &plans[r], &error);
        ck_assert_msg(status == WEFT_OK, "mesh %d: %s", at, error.message);
        ck_assert_int_eq(plans[r].algorithm, plans[0].algorithm);
        ck_assert_int_ne(plans[r].algorithm, WEFT_ALGORITHM_AUTO);
        ck_assert_uint_le(plans[r].slice_count * weft_dtype_bytes(job->dtype),
                          COLL_SLICE_BYTES_MAX);
    }
    status = coll_plan_check(job, plans, &error);
    ck_assert_msg(status == WEFT_OK,
                  "mesh %d, %s %s on %u ranks, count %llu, root %u, in place %d: %s", at,
                  weft_collective_name(job->kind), weft_algorithm_name(job->algorithm),
                  mesh->n_ranks, (unsigned long long)job->count, job->root, job->in_place,
                  error.message);
    check_peers(plans, mesh->n_ranks);
    for (uint32_t r = 0; r < mesh->n_ranks; r++) {
        coll_plan_fini(&plans[r]);
    }
}

START_TEST(every_plan_on_random_meshes_is_proven)
{
    for (int at = _i; at < MESHES; at += SHARDS) {
        struct coll_mesh mesh;
        struct weft_rng rng;
        uint32_t n = 2 + (uint32_t)at / SHARDS % (RANKS_MAX - 1);

        weft_rng_init(&rng, (uint64_t)at, "mesh");
        random_mesh(&rng, n, &mesh);
        for (int kind = 0; kind < WEFT_N_COLLECTIVES; kind++) {
            for (int algorithm = 0; algorithm < WEFT_N_ALGORITHMS; algorithm++) {
                struct coll_job job = {
                    .kind = (enum weft_collective)kind,
                    .algorithm = (enum weft_algorithm)algorithm,
                    .dtype = WEFT_FLOAT32,
                    .op = weft_rng_below(&rng, 2) == 0 ? WEFT_SUM : WEFT_AVG,
                    .count = random_count(&rng),
                    .root = (uint32_t)weft_rng_below(&rng, n),
                    .in_place = kind != WEFT_ALL_TO_ALL && kind != WEFT_SEND_RECV &&
                                weft_rng_below(&rng, 2) == 0};

                if (weft_collective_has(job.kind, job.algorithm)) {
                    prove(&job, &mesh, at);
                }
            }
        }
        coll_mesh_fini(&mesh);
    }
}
END_TEST

/* A rank's plan on a large ring contains only its own steps, so that 256 ranks can be planned
 * and the whole be proven. */
START_TEST(a_ring_of_256_is_planned_and_proven)
{
    static struct coll_plan plans[256];
    struct coll_job job = {.kind = WEFT_ALL_REDUCE,
                           .dtype = WEFT_FLOAT32,
                           .op = WEFT_SUM,
                           .count = 16u << 20};
    struct coll_mesh mesh;
    struct weft_error error = {0};

    coll_mesh_ring(256, UINT64_C(100000000000), 1000000, &mesh);
    for (uint32_t r = 0; r < 256; r++) {
        ck_assert_int_eq(coll_plan_make(&job, r, &mesh, &plans[r], &error), WEFT_OK);
    }
    printf("ring of 256, 64 MiB: %s, %u steps a rank\n",
           weft_algorithm_name(plans[0].algorithm), plans[0].n_steps);
    ck_assert_int_eq(plans[0].algorithm, WEFT_ALGORITHM_RINGS);
    ck_assert_uint_lt(plans[0].n_steps, 2 * 2 * 2 * 255 * 16 + 1);
    ck_assert_int_eq(coll_plan_check(&job, plans, &error), WEFT_OK);
    for (uint32_t r = 0; r < 256; r++) {
        bool sends[256] = {false}, receives[256] = {false};
        uint32_t n_peers = 0;

        coll_plan_peers(&plans[r], sends, receives);
        for (uint32_t p = 0; p < 256; p++) {
            n_peers += sends[p] + receives[p];
        }
        ck_assert_uint_eq(n_peers, 4);
        coll_plan_fini(&plans[r]);
    }
    coll_mesh_fini(&mesh);
}
END_TEST

/* Makes a mesh whose ranks are too far apart for connections, or whose pairs are too many for
 * relays: a ring, a torus of 8 x 8, a circulant, or two rings joined by a cable. */
static void large_mesh(int which, struct coll_mesh *out)
{
    static const uint32_t sizes[] = {30, 64, 40, 36};
    struct coll_cable cables[128];
    uint32_t n = sizes[which], n_cables = 0, in_ring = which == 3 ? n / 2 : n;

    for (uint32_t r = 0; r < n; r++) {
        uint32_t first = r / in_ring * in_ring;

        if (which == 1) {
            cables[n_cables++] = (struct coll_cable){r, r / 8 * 8 + (r + 1) % 8};
            cables[n_cables++] = (struct coll_cable){r, (r + 8) % n};
            continue;
        }
        cables[n_cables++] = (struct coll_cable){r, first + (r + 1 - first) % in_ring};
        if (which == 2) {
            cables[n_cables++] = (struct coll_cable){r, (r + 2) % n};
        }
    }
    if (which == 3) {
        cables[n_cables++] = (struct coll_cable){0, in_ring};
    }
    coll_mesh_of_cables(n, cables, n_cables, UINT64_C(100000000000), 1000000, out);
}

/* A rank exchanges messages with its neighbours only, and holds a small part of what it forwards.
 * Blocks are shorter than a slice, as long, or longer; or there are none. */
START_TEST(all_to_all_between_neighbours_is_proven)
{
    static const uint64_t shares[] = {0, 1, 7, 3000, 70000, 300000};
    static struct coll_plan plans[64];
    struct coll_job job = {.kind = WEFT_ALL_TO_ALL,
                           .algorithm = WEFT_ALGORITHM_FORWARD,
                           .dtype = WEFT_FLOAT32,
                           .op = WEFT_SUM};
    struct weft_error error = {0};
    struct coll_mesh mesh;

    large_mesh(_i, &mesh);
    for (size_t k = 0; k < WEFT_LENGTH(shares); k++) {
        uint64_t scratch = 0, slice = 0;

        job.count = shares[k] * mesh.n_ranks + k % 2;
        for (uint32_t r = 0; r < mesh.n_ranks; r++) {
            ck_assert_int_eq(coll_plan_make(&job, r, &mesh, &plans[r], &error), WEFT_OK);
            for (uint32_t i = 0; i < plans[r].n_steps; i++) {
                uint32_t peer = plans[r].steps[i].peer;

                if (peer != r && mesh_overlay_lane(&mesh.overlay, r, peer) == NULL) {
                    ck_abort_msg("rank %u: step %u has peer %u", r, i, peer);
                }
            }
            scratch = plans[r].scratch_count > scratch ? plans[r].scratch_count : scratch;
            slice = plans[r].slice_count > slice ? plans[r].slice_count : slice;
        }
        ck_assert_msg(coll_plan_check(&job, plans, &error) == WEFT_OK, "mesh %d: %s", _i,
                      error.message);
        ck_assert_uint_le(scratch, 100 * slice);
        for (uint32_t r = 0; r < mesh.n_ranks; r++) {
            coll_plan_fini(&plans[r]);
        }
    }
    coll_mesh_fini(&mesh);
}
END_TEST

/* On a torus of 8 x 8 every cable direction has the same share of the blocks, within a half, and
 * one message of each source whose tree passes it, however the ranks beyond it are numbered. */
START_TEST(all_to_all_between_neighbours_is_divided_evenly)
{
    struct coll_job job = {.kind = WEFT_ALL_TO_ALL,
                           .algorithm = WEFT_ALGORITHM_FORWARD,
                           .dtype = WEFT_FLOAT32,
                           .count = 64,
                           .op = WEFT_SUM};
    struct weft_error error = {0};
    uint64_t whole = 0, most = 0;
    uint32_t n_messages = 0, n_lanes = 64 * 4;
    struct coll_mesh mesh;

    large_mesh(1, &mesh);
    for (uint32_t r = 0; r < mesh.n_ranks; r++) {
        uint64_t load[64] = {0};
        struct coll_plan plan;

        ck_assert_int_eq(coll_plan_make(&job, r, &mesh, &plan, &error), WEFT_OK);
        for (uint32_t i = 0; i < plan.n_steps; i++) {
            if (plan.steps[i].kind == COLL_SEND) {
                load[plan.steps[i].peer] += plan.steps[i].count;
                n_messages++;
            }
        }
        for (uint32_t peer = 0; peer < mesh.n_ranks; peer++) {
            whole += load[peer];
            most = load[peer] > most ? load[peer] : most;
        }
        coll_plan_fini(&plan);
    }
    ck_assert_uint_eq(whole, 64 * 256); /* 64 sources, 256 hops to all others */
    ck_assert_uint_le(most * n_lanes * 2, whole * 3);
    ck_assert_uint_eq(n_messages, 64 * 63); /* an edge of a tree is a message */
    coll_mesh_fini(&mesh);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coll/plan_random");
    TCase *tcase = tcase_create("random");

    tcase_set_timeout(tcase, 300);
    suite_add_sweep(tcase, every_plan_on_random_meshes_is_proven, 0, SHARDS);
    suite_add_sweep(tcase, a_ring_of_256_is_planned_and_proven, 1, 2);
    tcase_add_loop_test(tcase, all_to_all_between_neighbours_is_proven, 0, 4);
    tcase_add_test(tcase, all_to_all_between_neighbours_is_divided_evenly);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
