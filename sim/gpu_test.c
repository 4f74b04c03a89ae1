#include <check.h>

#include "base/suite_testing.h"
#include "sim/gpu.h"

static int n_done;

static void on_done(void *context)
{
    *(int *)context = ++n_done;
}

START_TEST(work_takes_its_time_and_ends_in_order)
{
    struct sim_engine *engine = sim_engine_create(1, NULL);
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

    ck_assert_int_eq(sum[0], 0); /* has no effect before its time */
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

/* Two copies over one link are served in turn; each continues over its own link. A copy
 * in the other direction, and one within the memory, do not wait. */
START_TEST(copies_share_the_links_that_they_pass)
{
    struct sim_engine *engine = sim_engine_create(1, NULL);
    const struct sim_gpu_config config = {.launch_ps = 1000, .bytes_per_us = 1000};
    struct sim_gpu *gpus[2] = {sim_gpu_create(engine, &config),
                               sim_gpu_create(engine, &config)};
    /* 1, 1 and 4 bytes a nanosecond */
    struct sim_gpu_link links[3] = {{1000, 0}, {1000, 0}, {4000, 0}};
    const uint32_t there[2] = {0, 2}, elsewhere[1] = {0}, back[1] = {1};
    char from[100] = "x", to[4][100];
    int ended[4] = {0};
    struct sim_gpu_work works[4] = {
        {.links = links, .way = there, .n_way = 2, .count = 100},
        {.links = links, .way = elsewhere, .n_way = 1, .count = 50},
        {.links = links, .way = back, .n_way = 1, .count = 100},
        {.count = 10},
    };
    n_done = 0;
    for (int i = 0; i < 4; i++) {
        works[i].out = to[i];
        works[i].a = from;
        works[i].done = (struct sim_waker){on_done, &ended[i]};
        sim_gpu_start(gpus[i == 1], &works[i]);
    }
    while (sim_step(engine, SIM_NEVER)) {
    }
    ck_assert_int_eq(works[3].end, 1000 + 10000);
    ck_assert_int_eq(works[0].end, 1000 + 100000); /* the wider link is faster */
    ck_assert_int_eq(works[2].end, 1000 + 100000);
    ck_assert_int_eq(works[1].end, 1000 + 100000 + 50000); /* behind the first */
    ck_assert_int_eq(ended[3], 1);
    ck_assert_int_eq(ended[1], 4);
    ck_assert_int_eq(links[2].free_at, 1000 + 25000);

    /* A copy in progress never arrives if its owner dies. */
    sim_gpu_start(gpus[0], &works[0]);
    sim_gpu_start(gpus[0], &works[2]);
    sim_gpu_reset(gpus[0]);
    ck_assert_int_eq(sim_next(engine), SIM_NEVER);
    ck_assert(!works[0].is_done && !works[2].is_done);
    sim_gpu_destroy(gpus[0]);
    sim_gpu_destroy(gpus[1]);
    sim_engine_destroy(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim/gpu");
    TCase *tcase = tcase_create("gpu");
    tcase_add_test(tcase, work_takes_its_time_and_ends_in_order);
    tcase_add_test(tcase, copies_share_the_links_that_they_pass);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
