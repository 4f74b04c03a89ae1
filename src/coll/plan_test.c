/* Plans are proven for every number of ranks, size and algorithm; a broken one is not. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "coll/coll.h"

#define RANKS 9

static const struct coll_cost_input cost = {.rate_bps = UINT64_C(100000000000),
                                            .delay_ps = 1000000,
                                            .path_mtu = 4096,
                                            .neighbours = {true, false}};

static struct coll_job job_of(enum coll_kind kind, enum coll_algorithm algorithm,
                              uint64_t count, bool in_place)
{
    return (struct coll_job){.kind = kind,
                             .algorithm = algorithm,
                             .dtype = WEFT_FLOAT32,
                             .op = WEFT_SUM,
                             .count = count,
                             .in_place = in_place};
}

static void make_all(const struct coll_job *job, uint32_t n, struct coll_plan *plans)
{
    for (uint32_t rank = 0; rank < n; rank++) {
        ck_assert_int_eq(coll_plan_make(job, rank, n, &cost, &plans[rank], NULL),
                         WEFT_OK);
    }
}

static void fini_all(uint32_t n, struct coll_plan *plans)
{
    for (uint32_t rank = 0; rank < n; rank++) {
        coll_plan_fini(&plans[rank]);
    }
}

static const uint64_t counts[] = {
    0, 1, 2, 3, 5, 7, 8, 9, 17, 4095, 4096, 4097, 32768, 36865, 100003, 262144, 1048583};

START_TEST(every_plan_is_proven)
{
    static const enum coll_algorithm algorithms[] = {COLL_AUTO, COLL_RING, COLL_RINGS,
                                                     COLL_DIRECT};
    struct coll_plan plans[RANKS];
    uint32_t n = (uint32_t)_i;

    for (size_t c = 0; c < WEFT_LENGTH(counts); c++) {
        for (size_t a = 0; a < 2 * WEFT_LENGTH(algorithms); a++) {
            struct coll_job job =
                job_of(COLL_ALL_REDUCE, algorithms[a / 2], counts[c], a % 2 == 1);
            struct weft_error error = {0};

            make_all(&job, n, plans);
            ck_assert_msg(coll_plan_check(&job, plans, &error) == WEFT_OK,
                          "n %u count %llu %s: %s", n, (unsigned long long)counts[c],
                          coll_algorithm_name(algorithms[a / 2]), error.message);
            ck_assert_int_ne(plans[0].algorithm, COLL_AUTO);
            fini_all(n, plans);
        }
        struct coll_job job = job_of(COLL_SEND_RECV, COLL_AUTO, counts[c], false);

        make_all(&job, n, plans);
        ck_assert_int_eq(coll_plan_check(&job, plans, NULL), WEFT_OK);
        fini_all(n, plans);
    }
}
END_TEST

/* Every way of breaking one step of one rank's plan; all must be noticed. */
enum breakage {
    DROP_WAIT,
    SHIFT,
    SHORTEN,
    WRONG_PEER,
    FROM_INPUT,
    SWAP_KIND,
    REMOVE,
    WAIT_FOR_LATER,
    N_BREAKAGES
};

/* False: this step cannot be broken this way, or its plan would still be right. */
static bool breaks(const struct coll_job *job, struct coll_plan *plan, uint32_t i,
                   int how)
{
    struct coll_step *step = &plan->steps[i];
    bool has_wait = step->after[0] != COLL_NO_STEP;

    switch ((enum breakage)how) {
    case DROP_WAIT:
        step->after[0] = COLL_NO_STEP;
        return has_wait;
    case SHIFT:
        step->offset += step->offset + step->count < job->count ? 1 : (uint64_t)-1;
        return true;
    case SHORTEN:
        step->count--;
        return true;
    case WRONG_PEER:
        step->peer = (step->peer + 1) % plan->n_ranks;
        return true;
    case FROM_INPUT:
        if (step->kind == COLL_RECV || step->from == COLL_INPUT || job->in_place) {
            return false;
        }
        step->from = COLL_INPUT;
        return true;
    case SWAP_KIND:
        if (step->kind == COLL_SEND) {
            return false;
        }
        step->kind = step->kind == COLL_RECV ? COLL_RECV_REDUCE : COLL_RECV;
        return true;
    case REMOVE:
        for (uint32_t k = i; k + 1 < plan->n_steps; k++) {
            plan->steps[k] = plan->steps[k + 1];
            for (int w = 0; w < 2; w++) {
                uint32_t *after = &plan->steps[k].after[w];

                if (*after == i) {
                    *after = COLL_NO_STEP;
                } else if (*after != COLL_NO_STEP && *after > i) {
                    (*after)--;
                }
            }
        }
        plan->n_steps--;
        return true;
    case WAIT_FOR_LATER:
        step->after[1] = i + 1;
        return true;
    case N_BREAKAGES:
        break;
    }
    return false;
}

/* Out of place, an all-gather lands where nothing was sent from at k = 0: that wait guards the
 * in-place form only. */
static bool is_harmless(const struct coll_job *job, const struct coll_plan *plan,
                        uint32_t i, int how)
{
    const struct coll_step *step = &plan->steps[i];

    if (how != DROP_WAIT || job->in_place || step->kind != COLL_RECV ||
        step->after[0] == COLL_NO_STEP) {
        return false;
    }
    return plan->steps[step->after[0]].from == COLL_INPUT;
}

START_TEST(every_broken_plan_is_refused)
{
    static const enum coll_algorithm algorithms[] = {COLL_RING, COLL_RINGS, COLL_DIRECT};
    struct coll_job job =
        job_of(COLL_ALL_REDUCE, algorithms[_i % 3], 30011, _i / 3 % 2 == 1);
    int how = _i / 6;
    struct coll_plan plans[4];
    uint32_t n_broken = 0;

    for (uint32_t i = 0;; i++) {
        bool is_broken;

        make_all(&job, 4, plans);
        if (i >= plans[1].n_steps) {
            fini_all(4, plans);
            break;
        }
        is_broken = !is_harmless(&job, &plans[1], i, how) &&
                    plans[1].steps[i].count > 0 && breaks(&job, &plans[1], i, how);
        if (is_broken) {
            struct weft_error error = {0};

            n_broken++;
            ck_assert_msg(coll_plan_check(&job, plans, &error) == WEFT_ERR_PROTOCOL,
                          "algorithm %d in_place %d, breakage %d of step %u passed",
                          (int)job.algorithm, job.in_place, how, i);
            ck_assert_str_eq(error.phase, "plan");
        }
        fini_all(4, plans);
    }
    if (how != FROM_INPUT || (!job.in_place && job.algorithm != COLL_DIRECT)) {
        ck_assert_uint_gt(n_broken, 0);
    }
}
END_TEST

START_TEST(what_has_no_plan_says_so)
{
    struct coll_job job = job_of(COLL_ALL_GATHER, COLL_AUTO, 8, false);
    struct weft_error error = {0};
    struct coll_plan plan;

    ck_assert_int_eq(coll_plan_make(&job, 0, 2, &cost, &plan, &error),
                     WEFT_ERR_UNSUPPORTED);
    ck_assert_str_eq(error.message, "all_gather has no plan yet");
    plan.n_ranks = 2;
    ck_assert_int_eq(coll_plan_check(&job, &plan, NULL), WEFT_ERR_UNSUPPORTED);
    error = (struct weft_error){0};
    job = job_of(COLL_SEND_RECV, COLL_AUTO, 8, true);
    ck_assert_int_eq(coll_plan_make(&job, 0, 2, &cost, &plan, &error), WEFT_ERR_INPUT);
}
END_TEST

START_TEST(a_plan_reads_like_this)
{
    struct coll_job job = job_of(COLL_ALL_REDUCE, COLL_RING, 3, false);
    struct coll_plan plan;
    struct weft_text text = {0};

    ck_assert_int_eq(coll_plan_make(&job, 0, 3, &cost, &plan, NULL), WEFT_OK);
    coll_plan_print(&plan, &text);
    ck_assert_str_eq(text.bytes, "rank 0 of 3, ring, 8 steps\n"
                                 "   0 send to 1 input [0, +1)\n"
                                 "   1 recv_reduce from 2 input [2, +1)\n"
                                 "   2 send to 1 output [2, +1) after 1\n"
                                 "   3 recv_reduce from 2 input [1, +1)\n"
                                 "   4 send to 1 output [1, +1) after 3\n"
                                 "   5 recv from 2 [0, +1) after 0\n"
                                 "   6 send to 1 output [0, +1) after 5\n"
                                 "   7 recv from 2 [2, +1) after 2\n");
    weft_text_fini(&text);
    coll_plan_fini(&plan);

    job = job_of(COLL_ALL_REDUCE, COLL_DIRECT, 3, true);
    ck_assert_int_eq(coll_plan_make(&job, 3, 4, &cost, &plan, NULL), WEFT_OK);
    coll_plan_print(&plan, &text);
    ck_assert_str_eq(text.bytes, "rank 3 of 4, direct, 8 steps\n"
                                 "   0 send to 0 input [0, +3)\n"
                                 "   1 send to 1 input [0, +3)\n"
                                 "   2 join [0, +0) after 0, 1\n"
                                 "   3 send to 2 input [0, +3)\n"
                                 "   4 join [0, +0) after 2, 3\n"
                                 "   5 recv_reduce from 2 input [0, +3) after 4\n"
                                 "   6 recv_reduce from 1 output [0, +3) after 5\n"
                                 "   7 recv_reduce from 0 output [0, +3) after 6\n");
    weft_text_fini(&text);
    coll_plan_fini(&plan);

    job = job_of(COLL_ALL_REDUCE, COLL_AUTO, 3, false);
    ck_assert_int_eq(coll_plan_make(&job, 0, 1, &cost, &plan, NULL), WEFT_OK);
    coll_plan_print(&plan, &text);
    ck_assert_str_eq(text.bytes, "rank 0 of 1, direct, 1 steps\n   0 copy [0, +3)\n");
    weft_text_fini(&text);
    coll_plan_fini(&plan);
}
END_TEST

/* Opposite rings fill both directions of every cable; slices are never larger than staging. */
START_TEST(large_plans_load_every_direction_alike)
{
    struct coll_job job = job_of(COLL_ALL_REDUCE, COLL_AUTO, 64u << 20, false);
    struct coll_plan plan;
    uint64_t sent[3] = {0};

    ck_assert_int_eq(coll_plan_make(&job, 1, 3, &cost, &plan, NULL), WEFT_OK);
    ck_assert_int_eq(plan.algorithm, COLL_RINGS);
    ck_assert_uint_eq(plan.slice_count, (512u << 10) / 4);
    for (uint32_t i = 0; i < plan.n_steps; i++) {
        if (plan.steps[i].kind == COLL_SEND) {
            sent[plan.steps[i].peer] += plan.steps[i].count;
        }
    }
    ck_assert_uint_eq(sent[1], 0);
    /* 2(n - 1)/n of half the elements each way, chunks differing by one element. */
    ck_assert_uint_le(sent[0] - (64u << 20) * 2 / 3, 4);
    ck_assert_uint_le(sent[2] - (64u << 20) * 2 / 3, 4);
    coll_plan_fini(&plan);
}
END_TEST

START_TEST(two_rings_on_one_cable_are_one)
{
    struct coll_job job = job_of(COLL_ALL_REDUCE, COLL_RINGS, 1000, false);
    struct coll_plan plan;

    ck_assert_int_eq(coll_plan_make(&job, 1, 2, &cost, &plan, NULL), WEFT_OK);
    ck_assert_int_eq(plan.algorithm, COLL_RING);
    coll_plan_fini(&plan);
}
END_TEST

/* Bytes from which rings are chosen on three ranks. */
static uint64_t crossover(weft_ps delay_ps)
{
    struct coll_cost_input input = cost;
    uint64_t low = 8, high = UINT64_C(1) << 32;

    input.n_ranks = 3;
    input.delay_ps = delay_ps;
    ck_assert_int_eq(coll_choose(low, &input), COLL_DIRECT);
    ck_assert_int_eq(coll_choose(high, &input), COLL_RINGS);
    while (high - low > 1) {
        uint64_t middle = (low + high) / 2;

        if (coll_choose(middle, &input) == COLL_DIRECT) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return high;
}

START_TEST(longer_cables_favour_direct_exchange)
{
    uint64_t near = crossover(1000000), far = crossover(50000000);

    printf("rings from %llu bytes at 1 us, from %llu bytes at 50 us\n",
           (unsigned long long)near, (unsigned long long)far);
    ck_assert_uint_lt(near * 4, far);
    ck_assert_uint_gt(near, 16 << 10);
    ck_assert_uint_lt(near, 1 << 20);
}
END_TEST

/* 3 ranks at 100 Gb/s, MTU 4096: a full packet is 4178 bytes, 334 240 ps. Direct exchange of
 * 4096 bytes: that, 1 us of cable, 1 us of software and two reductions of 4096 bytes. */
START_TEST(costs_by_hand)
{
    struct coll_cost_input input = cost;

    input.n_ranks = 3;
    ck_assert_int_eq(coll_cost_ps(COLL_DIRECT, 4096, &input),
                     334240 + 1000000 + 1000000 + 2 * 5 * 4096);
    /* A ring of 3 x 4096: four steps and a tail of a message each, two reductions. */
    ck_assert_int_eq(coll_cost_ps(COLL_RING, 12288, &input),
                     5 * (334240 + 2000000) + 2 * 5 * 4096);
    ck_assert_int_eq(coll_cost_ps(COLL_RINGS, 24576, &input),
                     coll_cost_ps(COLL_RING, 12288, &input));
    input.n_ranks = 2;
    ck_assert_int_eq(coll_cost_ps(COLL_RINGS, 24576, &input),
                     coll_cost_ps(COLL_RING, 24576, &input));
    input.n_ranks = 1;
    ck_assert_int_eq(coll_cost_ps(COLL_RING, 24576, &input), 0);
    /* Without a cable for every pair there is no direct exchange. */
    input.n_ranks = 4;
    ck_assert_int_eq(coll_choose(8, &input), COLL_DIRECT);
    input.neighbours[0] = false;
    ck_assert_int_ne(coll_choose(8, &input), COLL_DIRECT);
}
END_TEST

START_TEST(names)
{
    ck_assert_str_eq(coll_kind_name(COLL_ALL_REDUCE), "all_reduce");
    ck_assert_str_eq(coll_kind_name(COLL_REDUCE_SCATTER), "reduce_scatter");
    ck_assert_str_eq(coll_kind_name(COLL_ALL_GATHER), "all_gather");
    ck_assert_str_eq(coll_kind_name(COLL_BROADCAST), "broadcast");
    ck_assert_str_eq(coll_kind_name(COLL_REDUCE), "reduce");
    ck_assert_str_eq(coll_kind_name(COLL_ALL_TO_ALL), "all_to_all");
    ck_assert_str_eq(coll_kind_name(COLL_SEND_RECV), "send_recv");
    ck_assert_str_eq(coll_kind_name(COLL_BARRIER), "barrier");
    ck_assert_str_eq(coll_algorithm_name(COLL_AUTO), "auto");
    ck_assert_str_eq(coll_algorithm_name(COLL_RINGS), "rings");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coll/plan");
    TCase *tcase = tcase_create("plan");
    SRunner *runner;
    int n_failed;

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, every_plan_is_proven, 1, RANKS + 1);
    tcase_add_loop_test(tcase, every_broken_plan_is_refused, 0, 6 * N_BREAKAGES);
    tcase_add_test(tcase, what_has_no_plan_says_so);
    tcase_add_test(tcase, a_plan_reads_like_this);
    tcase_add_test(tcase, large_plans_load_every_direction_alike);
    tcase_add_test(tcase, two_rings_on_one_cable_are_one);
    tcase_add_test(tcase, longer_cables_favour_direct_exchange);
    tcase_add_test(tcase, costs_by_hand);
    tcase_add_test(tcase, names);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
