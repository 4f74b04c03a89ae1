/* Collectives on the simulated fabric are as fast as the cables allow. */
#include <check.h>
#include <stdio.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "coll/plan_check_testing.h"
#include "coll/ranks_testing.h"

/* 256 MiB on three hosts: each sends 4/3 of it over two cables. 4096 of the 4178 byte times of
 * a packet (IPv4, with preamble and gap) are payload, so that the bound is 2/3 x 256 MiB x
 * 4178 / 4096 x 80 ps. */
START_TEST(large_all_reduce_fills_the_cables)
{
    struct coll_job job = {.kind = WEFT_ALL_REDUCE,
                           .dtype = WEFT_FLOAT32,
                           .op = WEFT_SUM,
                           .count = 64u << 20,
                           .algorithm = WEFT_ALGORITHM_AUTO};
    struct weft_error error = {0};
    weft_ns bound_ns = (weft_ns)((UINT64_C(256) << 20) * 2 / 3 / 4096 * 4178 * 80 / 1000);
    weft_ns started, took;

    ranks_open(&(struct fabric_config){.n_hosts = 3}, 256u << 20);
    ranks_start(&job, 1, 2);
    started = fabric_now(&grid.fabric);
    ck_assert_int_eq(ranks_run(10 * FABRIC_S, &error), WEFT_OK);
    ranks_verify(&job, 1);
    took = ranks_finished(1) - ranks_finished(0);
    printf("256 MiB on the triangle: %lld ns, then %lld ns; bound %lld ns: %lld%%\n",
           (long long)(ranks_finished(0) - started), (long long)took, (long long)bound_ns,
           (long long)(bound_ns * 100 / took));
    ck_assert_int_ge(bound_ns * 100, took * 96);
    ranks_fini_plans();
    ranks_close();
}
END_TEST

/* From the second iteration on no rank waits for a clear-to-send. */
START_TEST(small_all_reduce_takes_one_message_time)
{
    struct coll_job job = {.kind = WEFT_ALL_REDUCE,
                           .dtype = WEFT_FLOAT32,
                           .op = WEFT_SUM,
                           .count = 2,
                           .algorithm = WEFT_ALGORITHM_AUTO};
    struct weft_error error = {0};
    weft_ns worst = 0;

    ranks_open(&(struct fabric_config){.n_hosts = (uint32_t)_i}, 4096);
    ranks_start(&job, 1, 40);
    ck_assert_int_eq(ranks[0].plan.algorithm, WEFT_ALGORITHM_DIRECT);
    ck_assert_int_eq(ranks_run(10 * FABRIC_S, &error), WEFT_OK);
    for (uint32_t i = 1; i < 40; i++) {
        weft_ns took = ranks_finished(i) - ranks_finished(i - 1);

        worst = took > worst ? took : worst;
    }
    printf("8 bytes on %d hosts: first %lld ns, worst of the others %lld ns\n", _i,
           (long long)(ranks_finished(0)), (long long)worst);
    ranks_verify(&job, 1);
    ck_assert_int_lt(worst, 3300);
    ranks_fini_plans();
    ranks_close();
}
END_TEST

/* ---- meshes, against their physical bound ---- */

static const struct shape {
    const char *name;
    uint32_t n_ranks, n_cables;
    struct coll_cable cables[10];
    /* Percentages of the bound: all_reduce, reduce_scatter, all_gather, broadcast, reduce,
     * all_to_all (0 if not run, because it needs relays). */
    int at_least[6];
} shapes[] = {
    {"triangle", 3, 3, {{0, 1}, {1, 2}, {2, 0}}, {96, 96, 96, 90, 90, 96}},
    {"ring of 4", 4, 4, {{0, 1}, {1, 2}, {2, 3}, {3, 0}}, {95, 95, 95, 90, 90, 0}},
    {"line of 3", 3, 2, {{0, 1}, {1, 2}}, {92, 92, 92, 90, 90, 0}},
    {"star of 5", 5, 4, {{0, 1}, {0, 2}, {0, 3}, {0, 4}}, {92, 92, 92, 90, 90, 0}},
    {"full mesh of 5",
     5,
     10,
     {{0, 1}, {0, 2}, {0, 3}, {0, 4}, {1, 2}, {1, 3}, {1, 4}, {2, 3}, {2, 4}, {3, 4}},
     {93, 93, 93, 85, 85, 93}},
};
#define SIZE_BYTES (64u << 20)

static const struct {
    enum weft_collective kind;
    enum weft_collective collective;
} measured[] = {
    {WEFT_ALL_REDUCE, WEFT_ALL_REDUCE}, {WEFT_REDUCE_SCATTER, WEFT_REDUCE_SCATTER},
    {WEFT_ALL_GATHER, WEFT_ALL_GATHER}, {WEFT_BROADCAST, WEFT_BROADCAST},
    {WEFT_REDUCE, WEFT_REDUCE},         {WEFT_ALL_TO_ALL, WEFT_ALL_TO_ALL},
};

/* The fabric has a cable for every pair; plans may use only those of the mesh. */
static void check_peers(const struct shape *shape)
{
    for (uint32_t r = 0; r < n_ranks; r++) {
        bool sends[FABRIC_HOSTS_MAX] = {false}, receives[FABRIC_HOSTS_MAX] = {false};

        coll_plan_peers(&ranks[r].plan, sends, receives);
        for (uint32_t i = 0; i < shape->n_cables; i++) {
            const struct coll_cable *cable = &shape->cables[i];
            uint32_t peer = cable->a == r ? cable->b : cable->a;

            if (cable->a == r || cable->b == r) {
                sends[peer] = receives[peer] = false;
            }
        }
        for (uint32_t peer = 0; peer < n_ranks; peer++) {
            ck_assert(!sends[peer] && !receives[peer]);
        }
    }
}

static void measure(const struct shape *shape, size_t k, const struct mesh_graph *graph)
{
    static const uint32_t hosts[5] = {0, 1, 2, 3, 4};
    struct coll_job job = {.kind = measured[k].kind,
                           .dtype = WEFT_FLOAT32,
                           .op = WEFT_SUM,
                           .count = SIZE_BYTES / 4};
    weft_ps bound =
        mesh_limit_ps(graph, hosts, shape->n_ranks, measured[k].collective, SIZE_BYTES);
    struct weft_error error = {0};
    weft_ns took;

    ranks_start(&job, 1, 2);
    check_peers(shape);
    ck_assert_int_eq(ranks_run(10 * FABRIC_S, &error), WEFT_OK);
    ranks_verify(&job, 1);
    took = ranks_finished(1) - ranks_finished(0);
    printf("%s: %s by %s, slices of %llu: %lld%% of the bound\n", shape->name,
           weft_collective_name(job.kind), weft_algorithm_name(ranks[0].plan.algorithm),
           (unsigned long long)ranks[0].plan.slice_count * 4,
           (long long)(bound / 10 / took));
    ck_assert_int_ge(bound / 10 / took, shape->at_least[k]);
    ranks_fini_plans();
}

START_TEST(meshes_are_as_fast_as_they_can_be)
{
    const struct shape *shape = &shapes[_i];
    struct mesh_graph graph;

    coll_graph_of_cables(shape->n_ranks, shape->cables, shape->n_cables,
                         UINT64_C(100000000000), 1000000, &graph);
    ranks_open_over(shape->cables, shape->n_cables,
                    &(struct fabric_config){.n_hosts = shape->n_ranks}, SIZE_BYTES);
    for (size_t k = 0; k < WEFT_LENGTH(measured); k++) {
        if (shape->at_least[k] > 0) {
            measure(shape, k, &graph);
        }
    }
    ranks_close();
    mesh_graph_fini(&graph);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coll/speed");
    TCase *tcase = tcase_create("speed");

    tcase_set_timeout(tcase, 300);
    suite_add_sweep(tcase, large_all_reduce_fills_the_cables, 3, 4);
    tcase_add_loop_test(tcase, small_all_reduce_takes_one_message_time, 2, 4);
    suite_add_sweep(tcase, meshes_are_as_fast_as_they_can_be, 0,
                    (int)WEFT_LENGTH(shapes));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
