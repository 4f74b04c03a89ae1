/* Plans are proven for every number of ranks, size and algorithm; broken ones are rejected. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "coll/mesh_testing.h"
#include "coll/plan_check_testing.h"
#include "coll/plan_draft.h"

#define RANKS 9

#define RATE UINT64_C(100000000000)
#define DELAY_PS 1000000

static struct coll_job job_of(enum weft_collective kind, enum weft_algorithm algorithm,
                              uint64_t count, bool in_place)
{
    return (struct coll_job){.kind = kind,
                             .algorithm = algorithm,
                             .dtype = WEFT_FLOAT32,
                             .op = WEFT_SUM,
                             .count = count,
                             .in_place = in_place};
}

static void make_all(const struct coll_job *job, const struct coll_mesh *mesh,
                     struct coll_plan *plans)
{
    for (uint32_t rank = 0; rank < mesh->n_ranks; rank++) {
        ck_assert_int_eq(coll_plan_make(job, rank, mesh, &plans[rank], NULL), WEFT_OK);
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
    struct coll_plan plans[RANKS];
    struct coll_mesh mesh;
    uint32_t n = (uint32_t)_i;

    coll_mesh_full(n, RATE, DELAY_PS, &mesh);
    for (size_t c = 0; c < 2 * WEFT_LENGTH(counts); c++) {
        for (int a = 0; a < WEFT_N_COLLECTIVES * WEFT_N_ALGORITHMS; a++) {
            struct coll_job job = job_of((enum weft_collective)(a / WEFT_N_ALGORITHMS),
                                         (enum weft_algorithm)(a % WEFT_N_ALGORITHMS),
                                         counts[c / 2], c % 2 == 1);
            struct weft_error error = {0};

            if (!weft_collective_has(job.kind, job.algorithm) ||
                (job.in_place &&
                 (job.kind == WEFT_ALL_TO_ALL || job.kind == WEFT_SEND_RECV))) {
                continue;
            }
            job.root = (uint32_t)c % n;
            make_all(&job, &mesh, plans);
            ck_assert_msg(coll_plan_check(&job, plans, &error) == WEFT_OK,
                          "%s, n %u count %llu %s: %s", weft_collective_name(job.kind), n,
                          (unsigned long long)job.count,
                          weft_algorithm_name(job.algorithm), error.message);
            ck_assert_int_ne(plans[0].algorithm, WEFT_ALGORITHM_AUTO);
            fini_all(n, plans);
        }
    }
    coll_mesh_fini(&mesh);
}
END_TEST

/* A message is cut into as few slices as the limit permits, so that none is tiny. */
START_TEST(slices_are_as_few_as_the_limit_allows)
{
    static const uint64_t limits[] = {1, 4, 8, 12, 100, 4096};
    struct coll_job job = job_of(WEFT_ALL_REDUCE, WEFT_ALGORITHM_DIRECT, 0, false);

    for (size_t i = 0; i < WEFT_LENGTH(limits); i++) {
        struct coll_draft draft = {.job = &job, .slice_bytes = limits[i]};
        uint64_t most = limits[i] < 4 ? 1 : limits[i] / 4;

        ck_assert_uint_eq(coll_slice_count(&draft, 0), 1);
        for (uint64_t count = 1; count < 3000; count++) {
            uint64_t slice = coll_slice_count(&draft, count);

            ck_assert(slice >= 1 && slice <= most);
            ck_assert_uint_eq((count + slice - 1) / slice, (count + most - 1) / most);
        }
    }
}
END_TEST

/* Modifications that break one step of one rank's plan. Each must be detected. */
enum breakage {
    DROP_WAIT,
    DROP_OTHER_WAIT,
    SHIFT_SOURCE,
    SHIFT_TARGET,
    SHORTEN,
    WRONG_PEER,
    OTHER_SOURCE,
    OTHER_TARGET,
    SWAP_KIND,
    DIVIDE,
    REMOVE,
    WAIT_FOR_LATER,
    N_BREAKAGES
};

static bool reads(const struct coll_step *step)
{
    return step->kind == COLL_SEND || step->kind == COLL_RECV_REDUCE ||
           step->kind == COLL_COPY;
}

static bool writes(const struct coll_step *step)
{
    return step->kind != COLL_SEND && step->kind != COLL_JOIN;
}

static void remove_step(struct coll_plan *plan, uint32_t i)
{
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
}

/* Breaks step `i`. Returns false if the step cannot be broken in this manner. */
static bool breaks(const struct coll_job *job, struct coll_plan *plan, uint32_t i,
                   int how)
{
    struct coll_step *step = &plan->steps[i];
    int wait = how == DROP_OTHER_WAIT;
    bool has_wait = step->after[wait] != COLL_NO_STEP;

    switch ((enum breakage)how) {
    case DROP_WAIT:
    case DROP_OTHER_WAIT:
        step->after[wait] = COLL_NO_STEP;
        return has_wait;
    case SHIFT_SOURCE:
        step->from_at += step->from_at == 0 ? 1 : (uint64_t)-1;
        return reads(step) && step->count > 0;
    case SHIFT_TARGET:
        step->to_at += step->to_at == 0 ? 1 : (uint64_t)-1;
        return writes(step) && step->count > 0;
    case SHORTEN:
        step->count--;
        return step->kind != COLL_JOIN && step->count < UINT64_MAX;
    case WRONG_PEER:
        step->peer = (step->peer + 1) % plan->n_ranks;
        return true;
    case OTHER_SOURCE:
        step->from = step->from == COLL_INPUT ? COLL_OUTPUT : COLL_INPUT;
        return reads(step) && step->count > 0 && !job->in_place;
    case OTHER_TARGET:
        step->to = step->to == COLL_OUTPUT ? COLL_SCRATCH : COLL_OUTPUT;
        return writes(step) && step->count > 0;
    case SWAP_KIND:
        if (step->kind == COLL_SEND) {
            return false;
        }
        step->kind = step->kind == COLL_RECV ? COLL_RECV_REDUCE : COLL_RECV;
        return step->peer != plan->rank && step->count > 0;
    case DIVIDE:
        step->divides = !step->divides;
        return step->kind == COLL_RECV_REDUCE;
    case REMOVE:
        remove_step(plan, i);
        return true;
    case WAIT_FOR_LATER:
        step->after[1] = i + 1;
        return true;
    case N_BREAKAGES:
        break;
    }
    return false;
}

static const struct {
    enum weft_collective kind;
    enum weft_algorithm algorithm;
} breakable[] = {
    {WEFT_ALL_REDUCE, WEFT_ALGORITHM_RING},
    {WEFT_ALL_REDUCE, WEFT_ALGORITHM_RINGS},
    {WEFT_ALL_REDUCE, WEFT_ALGORITHM_DIRECT},
    {WEFT_ALL_REDUCE, WEFT_ALGORITHM_EXCHANGE},
    {WEFT_ALL_REDUCE, WEFT_ALGORITHM_DOUBLING},
    {WEFT_ALL_REDUCE, WEFT_ALGORITHM_HALVING},
    {WEFT_ALL_REDUCE, WEFT_ALGORITHM_TREES},
    {WEFT_ALL_REDUCE, WEFT_ALGORITHM_CHAIN},
    {WEFT_REDUCE_SCATTER, WEFT_ALGORITHM_RING},
    {WEFT_REDUCE_SCATTER, WEFT_ALGORITHM_TREE},
    {WEFT_REDUCE_SCATTER, WEFT_ALGORITHM_DIRECT},
    {WEFT_REDUCE_SCATTER, WEFT_ALGORITHM_HALVING},
    {WEFT_ALL_GATHER, WEFT_ALGORITHM_RINGS},
    {WEFT_ALL_GATHER, WEFT_ALGORITHM_TREES},
    {WEFT_ALL_GATHER, WEFT_ALGORITHM_DOUBLING},
    {WEFT_BROADCAST, WEFT_ALGORITHM_CHAIN},
    {WEFT_BROADCAST, WEFT_ALGORITHM_TREE},
    {WEFT_REDUCE, WEFT_ALGORITHM_CHAIN},
    {WEFT_REDUCE, WEFT_ALGORITHM_HALVING},
    {WEFT_ALL_TO_ALL, WEFT_ALGORITHM_DIRECT},
    {WEFT_SEND_RECV, WEFT_ALGORITHM_DIRECT},
    {WEFT_BARRIER, WEFT_ALGORITHM_DIRECT},
    {WEFT_BARRIER, WEFT_ALGORITHM_DOUBLING},
    {WEFT_BARRIER, WEFT_ALGORITHM_TREE},
};
#define N_BREAKABLE WEFT_LENGTH(breakable)

/* Breaks every step of one rank in turn; each must be detected. */
static void break_all(const struct coll_job *job, const struct coll_mesh *mesh, int how)
{
    struct coll_plan plans[4];

    for (uint32_t i = 0;; i++) {
        struct weft_error error = {0};
        bool is_broken;

        make_all(job, mesh, plans);
        if (i >= plans[1].n_steps) {
            fini_all(4, plans);
            return;
        }
        is_broken = breaks(job, &plans[1], i, how);
        if (is_broken) {
            ck_assert_msg(coll_plan_check(job, plans, &error) == WEFT_ERR_PROTOCOL,
                          "%s by %s, in place %d, breakage %d of step %u passed",
                          weft_collective_name(job->kind),
                          weft_algorithm_name(job->algorithm), job->in_place, how, i);
            ck_assert_str_eq(weft_phase_name(error.phase), "plan");
        }
        fini_all(4, plans);
    }
}

START_TEST(every_broken_plan_is_refused)
{
    struct coll_mesh mesh;

    coll_mesh_ring(4, RATE, DELAY_PS, &mesh);
    for (size_t k = 0; k < 2 * N_BREAKABLE; k++) {
        struct coll_job job =
            job_of(breakable[k / 2].kind, breakable[k / 2].algorithm, 30012, k % 2 == 1);

        if (job.in_place && (job.kind == WEFT_ALL_TO_ALL || job.kind == WEFT_SEND_RECV)) {
            continue;
        }
        job.op = WEFT_AVG;
        job.root = 1;
        break_all(&job, &mesh, _i);
    }
    coll_mesh_fini(&mesh);
}
END_TEST

START_TEST(what_has_no_plan_says_so)
{
    struct coll_job job = job_of(WEFT_ALL_GATHER, WEFT_ALGORITHM_CHAIN, 8, false);
    struct weft_error error = {0};
    struct coll_mesh mesh;
    struct coll_plan plan;

    coll_mesh_full(2, RATE, DELAY_PS, &mesh);
    ck_assert_int_eq(coll_plan_make(&job, 0, &mesh, &plan, &error), WEFT_ERR_INPUT);
    ck_assert_str_eq(error.message, "all_gather has no algorithm chain");
    error = (struct weft_error){0};
    job = job_of(WEFT_SEND_RECV, WEFT_ALGORITHM_AUTO, 8, true);
    ck_assert_int_eq(coll_plan_make(&job, 0, &mesh, &plan, &error), WEFT_ERR_INPUT);
    coll_mesh_fini(&mesh);
    /* Two pairs that are not connected have no tree. */
    coll_mesh_of_cables(4, (struct coll_cable[]){{0, 1}, {2, 3}}, 2, RATE, DELAY_PS,
                        &mesh);
    error = (struct weft_error){0};
    job = job_of(WEFT_ALL_REDUCE, WEFT_ALGORITHM_TREE, 8, false);
    ck_assert_int_eq(coll_plan_make(&job, 0, &mesh, &plan, &error), WEFT_ERR_ROUTE);
    ck_assert_str_eq(error.message,
                     "all_reduce by tree: the mesh does not join all ranks");
    coll_mesh_fini(&mesh);
}
END_TEST

static void check_print(const struct coll_job *job, uint32_t rank, uint32_t n,
                        const char *want)
{
    struct coll_mesh mesh;
    struct coll_plan plan;
    struct weft_text text = {0};

    coll_mesh_full(n, RATE, DELAY_PS, &mesh);
    ck_assert_int_eq(coll_plan_make(job, rank, &mesh, &plan, NULL), WEFT_OK);
    coll_plan_print(&plan, &text);
    ck_assert_str_eq(text.bytes, want);
    weft_text_fini(&text);
    coll_plan_fini(&plan);
    coll_mesh_fini(&mesh);
}

START_TEST(a_plan_reads_like_this)
{
    struct coll_job job = job_of(WEFT_ALL_REDUCE, WEFT_ALGORITHM_RING, 3, false);

    job.op = WEFT_AVG;
    check_print(&job, 0, 3,
                "rank 0 of 3, ring, 8 steps\n"
                "   0 recv_reduce from 2 input [1, +1) -> output [1, +1)\n"
                "   1 send to 1 input [2, +1)\n"
                "   2 recv_reduce from 2 input [0, +1) -> output [0, +1) / ranks\n"
                "   3 send to 1 output [1, +1) after 0\n"
                "   4 send to 1 output [0, +1) after 2\n"
                "   5 recv from 2 output [2, +1)\n"
                "   6 recv from 2 output [1, +1) after 3\n"
                "   7 send to 1 output [2, +1) after 5\n");
    job = job_of(WEFT_ALL_REDUCE, WEFT_ALGORITHM_DIRECT, 3, true);
    check_print(&job, 3, 4,
                "rank 3 of 4, direct, 8 steps\n"
                "   0 send to 0 input [0, +3)\n"
                "   1 send to 1 input [0, +3)\n"
                "   2 join after 0, 1\n"
                "   3 send to 2 input [0, +3)\n"
                "   4 join after 2, 3\n"
                "   5 recv_reduce from 2 input [0, +3) -> output [0, +3) after 4\n"
                "   6 recv_reduce from 1 output [0, +3) -> output [0, +3) after 5\n"
                "   7 recv_reduce from 0 output [0, +3) -> output [0, +3) after 6\n");
    job = job_of(WEFT_REDUCE_SCATTER, WEFT_ALGORITHM_RING, 6, false);
    check_print(&job, 0, 3,
                "rank 0 of 3, ring, 4 steps, scratch 2\n"
                "   0 recv_reduce from 2 input [2, +2) -> scratch [0, +2)\n"
                "   1 send to 1 input [4, +2)\n"
                "   2 recv_reduce from 2 input [0, +2) -> output [0, +2)\n"
                "   3 send to 1 scratch [0, +2) after 0\n");
    job = job_of(WEFT_BARRIER, WEFT_ALGORITHM_AUTO, 0, false);
    check_print(&job, 1, 2,
                "rank 1 of 2, direct, 2 steps\n"
                "   0 send to 0 input [0, +0)\n"
                "   1 recv from 0 output [0, +0)\n");
    job = job_of(WEFT_ALL_REDUCE, WEFT_ALGORITHM_AUTO, 3, false);
    check_print(&job, 0, 1,
                "rank 0 of 1, direct, 1 steps\n"
                "   0 copy input [0, +3) -> output [0, +3)\n");
}
END_TEST

START_TEST(large_plans_load_every_direction_alike)
{
    struct coll_job job = job_of(WEFT_ALL_REDUCE, WEFT_ALGORITHM_AUTO, 64u << 20, false);
    struct coll_mesh mesh;
    struct coll_plan plan;
    uint64_t sent[3] = {0};

    coll_mesh_full(3, RATE, DELAY_PS, &mesh);
    ck_assert_int_eq(coll_plan_make(&job, 1, &mesh, &plan, NULL), WEFT_OK);
    ck_assert_int_eq(plan.algorithm, WEFT_ALGORITHM_RINGS);
    ck_assert_uint_le(plan.slice_count, (512u << 10) / 4);
    for (uint32_t i = 0; i < plan.n_steps; i++) {
        if (plan.steps[i].kind == COLL_SEND) {
            sent[plan.steps[i].peer] += plan.steps[i].count;
        }
    }
    ck_assert_uint_eq(sent[1], 0);
    /* 2(n - 1)/n of half the elements in each direction; chunks differ by at most one element. */
    ck_assert_uint_le(sent[0] - (64u << 20) * 2 / 3, 4);
    ck_assert_uint_le(sent[2] - (64u << 20) * 2 / 3, 4);
    coll_plan_fini(&plan);
    coll_mesh_fini(&mesh);
}
END_TEST

START_TEST(names)
{
    ck_assert_str_eq(weft_collective_name(WEFT_ALL_REDUCE), "all_reduce");
    ck_assert_str_eq(weft_collective_name(WEFT_REDUCE_SCATTER), "reduce_scatter");
    ck_assert_str_eq(weft_collective_name(WEFT_ALL_GATHER), "all_gather");
    ck_assert_str_eq(weft_collective_name(WEFT_BROADCAST), "broadcast");
    ck_assert_str_eq(weft_collective_name(WEFT_REDUCE), "reduce");
    ck_assert_str_eq(weft_collective_name(WEFT_ALL_TO_ALL), "all_to_all");
    ck_assert_str_eq(weft_collective_name(WEFT_SEND_RECV), "send_recv");
    ck_assert_str_eq(weft_collective_name(WEFT_BARRIER), "barrier");
    ck_assert_str_eq(weft_algorithm_name(WEFT_ALGORITHM_AUTO), "auto");
    ck_assert_str_eq(weft_algorithm_name(WEFT_ALGORITHM_RINGS), "rings");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coll/plan");
    TCase *tcase = tcase_create("plan");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, every_plan_is_proven, 1, RANKS + 1);
    tcase_add_test(tcase, slices_are_as_few_as_the_limit_allows);
    tcase_add_loop_test(tcase, every_broken_plan_is_refused, 0, N_BREAKAGES);
    tcase_add_test(tcase, what_has_no_plan_says_so);
    tcase_add_test(tcase, a_plan_reads_like_this);
    tcase_add_test(tcase, large_plans_load_every_direction_alike);
    tcase_add_test(tcase, names);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
