#include <check.h>
#include <stdlib.h>

#include "sim/gpu.h"

static int n_done;

static void on_done(void *context)
{
    *(int *)context = ++n_done;
}

START_TEST(work_takes_its_time_and_ends_in_order)
{
    struct sim_engine *engine = sim_engine_create(1, NULL, NULL);
    struct sim_gpu *gpu = sim_gpu_create(
        engine, &(struct sim_gpu_config){.launch_ps = 1000, .bytes_per_us = 1000});
    int a[2] = {1, 2}, b[2] = {10, 20}, sum[2] = {0}, copy[2] = {0};
    int first = 0, second = 0, third = 0;
    struct sim_gpu_work reduce = {.is_reduce = true,
                                  .out = sum,
                                  .a = a,
                                  .b = b,
                                  .count = 2,
                                  .dtype = WEFT_INT32,
                                  .redop = WEFT_SUM,
                                  .done = {on_done, &first}};
    struct sim_gpu_work move = {
        .out = copy, .a = sum, .count = sizeof copy, .done = {on_done, &second}};
    struct sim_gpu_work nothing = {.done = {on_done, &third}};
    sim_gpu_start(gpu, &reduce);
    sim_gpu_start(gpu, &move);
    sim_gpu_start(gpu, &nothing);

    ck_assert_int_eq(sum[0], 0); /* nothing happens before its time */
    ck_assert(sim_step(engine, SIM_NEVER));
    ck_assert_int_eq(sim_now(engine), 1000 + 8000); /* 8 bytes at 1 byte/ns */
    ck_assert(reduce.is_done && !move.is_done);
    ck_assert_int_eq(sum[1], 22);
    ck_assert_int_eq(copy[1], 0);
    ck_assert(sim_step(engine, SIM_NEVER));
    ck_assert_int_eq(sim_now(engine), 2 * 9000);
    ck_assert_int_eq(copy[0], 11);
    ck_assert(sim_step(engine, SIM_NEVER));
    ck_assert_int_eq(sim_now(engine), 2 * 9000 + 1000);
    ck_assert_int_eq(first, 1);
    ck_assert_int_eq(second, 2);
    ck_assert_int_eq(third, 3);

    sim_gpu_start(gpu, &move);
    sim_gpu_reset(gpu);
    ck_assert_int_eq(sim_next(engine), SIM_NEVER);
    ck_assert(!move.is_done);
    sim_gpu_destroy(gpu);
    sim_gpu_destroy(NULL);
    sim_engine_destroy(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim/gpu");
    TCase *tcase = tcase_create("gpu");
    tcase_add_test(tcase, work_takes_its_time_and_ends_in_order);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
