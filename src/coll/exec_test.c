/* Collectives end to end on the simulated fabric: every byte against the oracle. */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "coll/ranks_testing.h"

static void do_job(const struct coll_job *job, uint32_t iterations)
{
    struct weft_error error = {0};
    weft_status status;

    ranks_start(job, job->count + 3, iterations);
    status = ranks_run(10 * FABRIC_S, &error);
    ck_assert_msg(status == WEFT_OK, "%s %s count %llu in_place %d: %s: %s",
                  weft_status_name(status), weft_algorithm_name(job->algorithm),
                  (unsigned long long)job->count, job->in_place,
                  weft_phase_name(error.phase), error.message);
    if (!job->in_place || iterations == 1) {
        ranks_verify(job, job->count + 3);
    }
    ranks_fini_plans();
}

static const enum weft_algorithm algorithms[] = {
    WEFT_ALGORITHM_RING, WEFT_ALGORITHM_RINGS, WEFT_ALGORITHM_DIRECT};

static bool has_in_place(enum weft_collective kind)
{
    return kind != WEFT_ALL_TO_ALL && kind != WEFT_SEND_RECV;
}

/* Runs every algorithm of the kind, in place and out of place, once and repeated. */
static void do_all_algorithms(struct coll_job job, uint32_t iterations)
{
    for (int a = 0; a < WEFT_N_ALGORITHMS; a++) {
        job.algorithm = (enum weft_algorithm)a;
        if (!weft_collective_has(job.kind, job.algorithm)) {
            continue;
        }
        job.in_place = false;
        do_job(&job, iterations);
        job.in_place = has_in_place(job.kind);
        if (job.in_place) {
            do_job(&job, 1);
            do_job(&job, 2); /* must only end; its result is not verified */
        }
    }
}

START_TEST(every_kind_size_and_algorithm_is_exact)
{
    static const uint64_t counts[] = {0, 1, 2, 3, 5, 31, 1024, 4099, 100003, 700001};
    uint32_t n = 1 + (uint32_t)_i / WEFT_N_COLLECTIVES;

    ranks_open(&(struct fabric_config){.n_hosts = n}, 4u << 20);
    for (size_t c = 0; c < WEFT_LENGTH(counts); c++) {
        struct coll_job job = {.kind = (enum weft_collective)(_i % WEFT_N_COLLECTIVES),
                               .dtype = WEFT_FLOAT32,
                               .op = WEFT_SUM,
                               .root = (uint32_t)c % n,
                               .count = counts[c]};

        do_all_algorithms(job, 1 + (uint32_t)c % 3);
    }
    ranks_close();
}
END_TEST

/* Every type with every op, for each kind that reduces, on 3 and on 4 ranks. */
START_TEST(every_type_and_op_is_exact)
{
    static const enum weft_collective kinds[] = {WEFT_ALL_REDUCE, WEFT_REDUCE_SCATTER,
                                                 WEFT_REDUCE};

    ranks_open(&(struct fabric_config){.n_hosts = 3 + (uint32_t)_i % 2}, 1u << 20);
    for (int dtype = 0; dtype < WEFT_N_DTYPES; dtype++) {
        for (int op = 0; op < WEFT_N_REDOPS; op++) {
            struct coll_job job = {.kind = kinds[_i / 2],
                                   .dtype = (enum weft_dtype)dtype,
                                   .op = (enum weft_redop)op,
                                   .count = 1013};

            for (int a = 0; a < WEFT_N_ALGORITHMS; a++) {
                job.algorithm = (enum weft_algorithm)a;
                job.in_place = (dtype + op + a) % 2 == 1;
                if (weft_collective_has(job.kind, job.algorithm)) {
                    do_job(&job, 1);
                }
            }
        }
    }
    ranks_close();
}
END_TEST

/* One executor runs jobs of all kinds in turn and reuses the memory that it keeps. */
START_TEST(one_job_after_another)
{
    static const uint64_t counts[] = {10, 300000, 500, 1000000, 1};

    ranks_open(&(struct fabric_config){.n_hosts = 4}, 4u << 20);
    for (size_t c = 0; c < WEFT_LENGTH(counts); c++) {
        for (int kind = 0; kind < WEFT_N_COLLECTIVES; kind++) {
            struct coll_job job = {.kind = (enum weft_collective)kind,
                                   .dtype = WEFT_INT32,
                                   .op = WEFT_AVG,
                                   .root = 3,
                                   .count = counts[c],
                                   .in_place = c % 2 == 1 &&
                                               has_in_place((enum weft_collective)kind)};

            do_job(&job, 2 - job.in_place);
        }
    }
    ranks_close();
}
END_TEST

/* No rank leaves a barrier before the last has entered it. */
START_TEST(a_barrier_holds_all)
{
    struct coll_job job = {.kind = WEFT_BARRIER, .dtype = WEFT_FLOAT32};
    static const enum weft_algorithm kinds[] = {
        WEFT_ALGORITHM_DIRECT, WEFT_ALGORITHM_DOUBLING, WEFT_ALGORITHM_TREE};
    struct weft_error error = {0};
    weft_ns late;

    job.algorithm = kinds[_i];
    ranks_open(&(struct fabric_config){.n_hosts = 5}, 4096);
    ranks_start(&job, 1, 1);
    ranks[3].is_late = true;
    ck_assert_int_eq(ranks_run(FABRIC_MS, &error), WEFT_ERR_TIMEOUT);
    for (uint32_t r = 0; r < n_ranks; r++) {
        ck_assert(!ranks[r].is_done);
    }
    ranks[3].is_late = false;
    grid.fabric.woken = UINT32_MAX;
    late = fabric_now(&grid.fabric);
    ck_assert_int_eq(ranks_run(FABRIC_MS, &error), WEFT_OK);
    for (uint32_t r = 0; r < n_ranks; r++) {
        ck_assert_int_ge(coll_exec_finished_ns(ranks[r].exec, 0), late);
    }
    ranks_fini_plans();
    ranks_close();
}
END_TEST

/* In place, an iteration ends only when its sends are done, so not before the cable has
 * carried the data. Out of place, the root's output is complete at once. */
START_TEST(an_iteration_in_place_lasts_until_its_sends_are_done)
{
    static const enum weft_algorithm by[] = {WEFT_ALGORITHM_DIRECT, WEFT_ALGORITHM_CHAIN};
    struct coll_job job = {.kind = WEFT_BROADCAST,
                           .algorithm = by[_i % 2],
                           .dtype = WEFT_INT32,
                           .op = WEFT_SUM,
                           .count = 262144,
                           .in_place = _i < 2};
    const weft_ns wire_ns = 83886; /* 1 MiB at 100 Gbit/s */
    struct weft_error error = {0};
    weft_ns since;

    ranks_open(&(struct fabric_config){.n_hosts = 2}, 4u << 20);
    ranks_start(&job, 5, 3);
    since = fabric_now(&grid.fabric);
    ck_assert_int_eq(ranks_run(FABRIC_S, &error), WEFT_OK);
    for (uint32_t i = 0; i < 3; i++) {
        weft_ns at = coll_exec_finished_ns(ranks[0].exec, i);

        if (job.in_place) {
            ck_assert_int_ge(at - since, wire_ns);
            since = at;
        } else if (i == 0) {
            ck_assert_int_lt(at - since, wire_ns);
        }
    }
    ranks_fini_plans();
    ranks_close();
}
END_TEST

/* Loss, duplicates and reordering cost time but change no byte. */
START_TEST(a_bad_cable_changes_no_byte)
{
    struct coll_job job = {
        .kind = WEFT_ALL_REDUCE, .dtype = WEFT_INT32, .op = WEFT_SUM, .count = 300007};

    ranks_open(&(struct fabric_config){.n_hosts = 3,
                                       .seed = (uint64_t)_i,
                                       .impairment = {.loss_ppb = 1000000,
                                                      .duplicate_ppb = 500000,
                                                      .reorder_ppb = 500000}},
               4u << 20);
    for (size_t a = 0; a < WEFT_LENGTH(algorithms); a++) {
        job.algorithm = algorithms[a];
        do_job(&job, 3);
    }
    ranks_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coll/exec");
    TCase *tcase = tcase_create("data");

    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, an_iteration_in_place_lasts_until_its_sends_are_done, 0,
                        4);
    suite_add_sweep(tcase, every_kind_size_and_algorithm_is_exact, 0,
                    5 * WEFT_N_COLLECTIVES);
    tcase_add_loop_test(tcase, every_type_and_op_is_exact, 0, 6);
    tcase_add_test(tcase, one_job_after_another);
    tcase_add_loop_test(tcase, a_barrier_holds_all, 0, 3);
    tcase_add_loop_test(tcase, a_bad_cable_changes_no_byte, 0, 4);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
