/* Collectives end to end on the simulated fabric: every byte against the oracle. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "coll/ranks_testing.h"

static void do_job(const struct coll_job *job, uint32_t iterations)
{
    struct weft_error error = {0};
    weft_status status;

    ranks_start(job, job->count + 3, iterations);
    status = ranks_run(10 * FABRIC_S, &error);
    ck_assert_msg(status == WEFT_OK, "%s %s count %llu in_place %d: %s: %s",
                  weft_status_name(status), coll_algorithm_name(job->algorithm),
                  (unsigned long long)job->count, job->in_place, error.phase,
                  error.message);
    if (!job->in_place || iterations == 1) {
        ranks_verify(job, job->count + 3);
    }
    ranks_fini_plans();
}

static const enum coll_algorithm algorithms[] = {COLL_AUTO, COLL_RING, COLL_RINGS,
                                                 COLL_DIRECT};

START_TEST(every_size_and_algorithm_is_exact)
{
    static const uint64_t counts[] = {0, 1, 2, 3, 5, 7, 31, 1024, 4099, 100003, 700001};

    ranks_open(&(struct fabric_config){.n_hosts = (uint32_t)_i}, 4u << 20);
    for (size_t c = 0; c < WEFT_LENGTH(counts); c++) {
        struct coll_job job = {.kind = COLL_ALL_REDUCE,
                               .dtype = WEFT_FLOAT32,
                               .op = WEFT_SUM,
                               .count = counts[c]};

        for (size_t a = 0; a < WEFT_LENGTH(algorithms); a++) {
            job.algorithm = algorithms[a];
            job.in_place = false;
            do_job(&job, 1 + (uint32_t)c % 3);
            job.in_place = true;
            do_job(&job, 1);
            do_job(&job, 2); /* ends */
        }
        job = (struct coll_job){.kind = COLL_SEND_RECV,
                                .dtype = WEFT_INT32,
                                .op = WEFT_SUM,
                                .count = counts[c]};
        do_job(&job, 1 + (uint32_t)c % 3);
    }
    ranks_close();
}
END_TEST

START_TEST(every_type_and_op_is_exact)
{
    ranks_open(&(struct fabric_config){.n_hosts = 3}, 1u << 20);
    for (int dtype = 0; dtype < WEFT_N_DTYPES; dtype++) {
        for (int op = 0; op < WEFT_N_REDOPS; op++) {
            for (size_t a = 1; a < WEFT_LENGTH(algorithms); a++) {
                struct coll_job job = {.kind = COLL_ALL_REDUCE,
                                       .algorithm = algorithms[a],
                                       .dtype = (enum weft_dtype)dtype,
                                       .op = (enum weft_redop)op,
                                       .count = 1013,
                                       .in_place = (dtype + op) % 2 == 1};

                do_job(&job, 1);
            }
        }
    }
    ranks_close();
}
END_TEST

/* Loss, duplicates and reordering cost time, not bytes. */
START_TEST(a_bad_cable_changes_no_byte)
{
    struct coll_job job = {
        .kind = COLL_ALL_REDUCE, .dtype = WEFT_INT32, .op = WEFT_SUM, .count = 300007};

    ranks_open(&(struct fabric_config){.n_hosts = 3,
                                       .seed = (uint64_t)_i,
                                       .impairment = {.loss_ppb = 1000000,
                                                      .duplicate_ppb = 500000,
                                                      .reorder_ppb = 500000}},
               4u << 20);
    for (size_t a = 1; a < WEFT_LENGTH(algorithms); a++) {
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
    SRunner *runner;
    int n_failed;

    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, every_size_and_algorithm_is_exact, 1, 6);
    tcase_add_test(tcase, every_type_and_op_is_exact);
    tcase_add_loop_test(tcase, a_bad_cable_changes_no_byte, 0, 4);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
