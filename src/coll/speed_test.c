/* Collectives on the simulated fabric are as fast as the cables allow. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "coll/ranks_testing.h"

/* 256 MiB on three hosts: each sends 4/3 of it over two cables, of whose bits 4096 in 4178 + 20
 * with preamble and gap are payload: no faster than 2/3 x 256 MiB x 4178 / 4096 x 80 ps. */
START_TEST(large_all_reduce_fills_the_cables)
{
    struct coll_job job = {.kind = COLL_ALL_REDUCE,
                           .dtype = WEFT_FLOAT32,
                           .op = WEFT_SUM,
                           .count = 64u << 20,
                           .algorithm = COLL_AUTO};
    struct weft_error error = {0};
    weft_ns bound_ns = (weft_ns)((UINT64_C(256) << 20) * 2 / 3 / 4096 * 4178 * 80 / 1000);
    weft_ns started, took;

    ranks_open(&(struct fabric_config){.n_hosts = 3}, 256u << 20);
    ranks_start(&job, 1, 2);
    started = fabric_now(&fabric);
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

/* From the second iteration on nobody waits for a clear-to-send. */
START_TEST(small_all_reduce_takes_one_message_time)
{
    struct coll_job job = {.kind = COLL_ALL_REDUCE,
                           .dtype = WEFT_FLOAT32,
                           .op = WEFT_SUM,
                           .count = 2,
                           .algorithm = COLL_AUTO};
    struct weft_error error = {0};
    weft_ns worst = 0;

    ranks_open(&(struct fabric_config){.n_hosts = (uint32_t)_i}, 4096);
    ranks_start(&job, 1, 40);
    ck_assert_int_eq(ranks[0].plan.algorithm, COLL_DIRECT);
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

int main(void)
{
    Suite *suite = suite_create("coll/speed");
    TCase *tcase = tcase_create("speed");
    SRunner *runner;
    int n_failed;

    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, large_all_reduce_fills_the_cables);
    tcase_add_loop_test(tcase, small_all_reduce_takes_one_message_time, 2, 4);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
