/* Tests of the rendezvous after a job: members that are missing do not hold up the others. */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "boot/job_testing.h"
#include "boot/private.h"
#include "io/oob.h"

#define RANKS JOB_RANKS

/* Opens a job whose members may miss. */
static void miss_open(struct job *job)
{
    job_open(job, 80, NULL);
    job->config.may_miss = true;
}

/* Gathers n_bytes times 16 * round + r + 1. */
static void gather(struct job *job, uint32_t r, uint8_t round, size_t n_bytes,
                   bool to_first)
{
    uint8_t mine[64];

    memset(mine, 16 * round + (int)r + 1, sizeof(mine));
    job->status[r] = WEFT_AGAIN;
    if (to_first) {
        boot_gather_to_first(job->boots[r], mine, n_bytes);
    } else {
        boot_gather(job->boots[r], mine, n_bytes);
    }
}

static void check_at(const struct job *job, uint32_t r, uint8_t round, size_t n_bytes,
                     uint32_t absent)
{
    const uint8_t *result = boot_result(job->boots[r]);

    ck_assert_int_eq(job->status[r], WEFT_OK);
    for (size_t i = 0; i < RANKS * n_bytes; i++) {
        uint32_t of = (uint32_t)(i / n_bytes);

        ck_assert_uint_eq(result[i], of == absent ? 0 : 16u * round + of + 1);
    }
}

START_TEST(who_does_not_come_is_absent_and_the_rest_go_on)
{
    struct job job;
    weft_ns since;

    miss_open(&job);
    since = bed_now(&job.bed);
    for (uint32_t r = 0; r < 2; r++) {
        job_open_rank(&job, r);
        gather(&job, r, 1, 4, false);
    }
    ck_assert(bed_run(&job.bed, 61 * BED_S, job_is_settled));
    ck_assert_int_ge(bed_now(&job.bed) - since, 60 * BED_S);
    check_at(&job, 0, 1, 4, 2);
    check_at(&job, 1, 1, 4, 2);
    ck_assert(boot_is_absent(job.boots[0], 2));
    ck_assert(!boot_is_absent(job.boots[0], 1));
    gather(&job, 0, 2, 9, true);
    gather(&job, 1, 2, 9, true);
    ck_assert(bed_run(&job.bed, BED_S, job_is_settled)); /* without another timeout */
    check_at(&job, 0, 2, 9, 2);
    ck_assert_int_eq(job.status[1], WEFT_OK);
    job_close(&job);
}
END_TEST

enum leaving { STREAM_ENDS, GIVES_UP, IS_LATE, N_LEAVINGS };

START_TEST(who_goes_between_rounds_is_absent_from_then_on)
{
    struct job job;

    miss_open(&job);
    for (uint32_t r = 0; r < RANKS; r++) {
        job_open_rank(&job, r);
        gather(&job, r, 1, 4, false);
    }
    ck_assert(bed_run(&job.bed, 10 * BED_S, job_is_settled));
    for (uint32_t r = 0; r < RANKS; r++) {
        check_at(&job, r, 1, 4, UINT32_MAX);
    }
    if (_i == STREAM_ENDS) {
        job.bed.hosts[2].env->oob->close(job.boots[2]->client->stream.link.stream, true);
        job.boots[2]->client->stream.link.stream = NULL;
        job.boots[2]->client->state = BOOT_DIAL_IDLE;
        job_close_rank(&job, 2);
    } else if (_i == GIVES_UP) {
        boot_abort(job.boots[2], "enough");
        job_close_rank(&job, 2);
    }
    gather(&job, 0, 2, 4, false);
    gather(&job, 1, 2, 4, false);
    ck_assert(bed_run(&job.bed, _i == IS_LATE ? 31 * BED_S : BED_S, job_is_settled));
    check_at(&job, 0, 2, 4, 2);
    check_at(&job, 1, 2, 4, 2);
    ck_assert(boot_is_absent(job.boots[0], 2));
    job_close(&job);
}
END_TEST

START_TEST(who_is_known_to_be_dead_is_not_waited_for)
{
    struct job job;

    miss_open(&job);
    for (uint32_t r = 0; r < 2; r++) {
        job_open_rank(&job, r);
        gather(&job, r, 1, 4, false);
    }
    boot_ended(job.boots[0], 2);
    ck_assert(bed_run(&job.bed, 2 * BED_S, job_is_settled));
    check_at(&job, 0, 1, 4, 2);
    check_at(&job, 1, 1, 4, 2);
    job_close(&job);
}
END_TEST

/* Rank 2 is found to be dead after more than a step; rank 1, which has joined, has a step from
 * then. */
START_TEST(who_is_here_has_its_time_after_a_death)
{
    struct job job;

    miss_open(&job);
    for (uint32_t r = 0; r < 2; r++) {
        job_open_rank(&job, r);
    }
    gather(&job, 0, 1, 4, false);
    bed_run(&job.bed, 40 * BED_S, NULL);
    boot_ended(job.boots[0], 2);
    bed_run(&job.bed, 5 * BED_S, NULL);
    ck_assert(boot_is_absent(job.boots[0], 2));
    ck_assert(!boot_is_absent(job.boots[0], 1));
    gather(&job, 1, 1, 4, false);
    ck_assert(bed_run(&job.bed, BED_S, job_is_settled));
    check_at(&job, 0, 1, 4, 2);
    check_at(&job, 1, 1, 4, 2);
    job_close(&job);
}
END_TEST

/* Rank 1 finishes first, and connects while the job's own rendezvous is still held. */
START_TEST(coming_too_early_is_no_failure)
{
    struct job job;

    miss_open(&job);
    job.config.may_miss = false;
    for (uint32_t r = 0; r < RANKS; r++) {
        job_open_rank(&job, r);
        gather(&job, r, 1, 4, false);
    }
    ck_assert(bed_run(&job.bed, 10 * BED_S, job_is_settled));
    job.config.may_miss = true;
    job_close_rank(&job, 1);
    job_open_rank(&job, 1);
    gather(&job, 1, 2, 8, false);
    ck_assert(!bed_run(&job.bed, 3 * BED_S, job_is_settled));
    for (uint32_t r = 0; r < RANKS; r += 2) {
        job_close_rank(&job, r);
        job_open_rank(&job, r);
        gather(&job, r, 2, 8, false);
    }
    ck_assert(bed_run(&job.bed, 10 * BED_S, job_is_settled));
    for (uint32_t r = 0; r < RANKS; r++) {
        check_at(&job, r, 2, 8, UINT32_MAX);
    }
    job_close(&job);
}
END_TEST

START_TEST(where_nobody_listens_any_more_nobody_waits)
{
    struct job job;

    miss_open(&job);
    job_open_rank(&job, 1);
    gather(&job, 1, 1, 4, false);
    ck_assert(!bed_run(&job.bed, 2 * BED_S, job_is_settled));
    ck_assert(bed_run(&job.bed, 3 * BED_S, job_is_settled));
    ck_assert_int_eq(job.status[1], WEFT_ERR_TIMEOUT);
    job_close(&job);
}
END_TEST

/* The rendezvous has another key. The reason is reported, not only that rank 0 is missing. */
START_TEST(the_reason_of_a_failed_attempt_is_kept)
{
    struct job job;

    miss_open(&job);
    job_open_rank(&job, 0);
    gather(&job, 0, 1, 4, false);
    job.config.job_key[0] ^= 1;
    job_open_rank(&job, 1);
    gather(&job, 1, 1, 4, false);
    ck_assert(bed_run(&job.bed, 65 * BED_S, job_is_settled));
    ck_assert_int_eq(job.status[1], WEFT_ERR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(job.errors[1].message, "cannot be reached"));
    ck_assert_ptr_nonnull(strstr(job.errors[1].message, "does not know the key"));
    job_close(&job);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("boot, may miss");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, who_does_not_come_is_absent_and_the_rest_go_on);
    tcase_add_loop_test(tcase, who_goes_between_rounds_is_absent_from_then_on, 0,
                        N_LEAVINGS);
    tcase_add_test(tcase, who_is_known_to_be_dead_is_not_waited_for);
    tcase_add_test(tcase, who_is_here_has_its_time_after_a_death);
    tcase_add_test(tcase, coming_too_early_is_no_failure);
    tcase_add_test(tcase, the_reason_of_a_failed_attempt_is_kept);
    tcase_add_test(tcase, where_nobody_listens_any_more_nobody_waits);
    return suite_run(suite);
}
