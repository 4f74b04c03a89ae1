/* Tests of members that ended before they joined, as reported by the launcher: the others do not
 * wait for them. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "boot/job_testing.h"
#include "boot/mesh_testing.h"
#include "boot/private.h"
#include "conn/conn_testing.h"

#define RANKS JOB_RANKS
#define PATIENCE_S 60

static void come(struct job *job, uint32_t r)
{
    const uint32_t mine = r;

    job_open_rank(job, r);
    boot_gather(job->boots[r], &mine, sizeof(mine));
}

static void check_blame(const struct job *job, uint32_t r, uint32_t at_fault)
{
    const struct weft_value *rank = weft_error_value(&job->errors[r], WEFT_VALUE_RANK);

    ck_assert_int_eq(job->status[r], WEFT_ERR_CLOSED);
    ck_assert_ptr_nonnull(rank);
    ck_assert_int_eq(rank->number, at_fault);
    ck_assert_ptr_nonnull(strstr(job->errors[r].message, "ended before it came"));
    /* A rank that has it from the launcher says so, and adds the errno of its last connection to
     * rank 0. */
    if (at_fault == 0 || r == 0) {
        const struct weft_value *ended =
            weft_error_value(&job->errors[r], WEFT_VALUE_ENDED);

        ck_assert_ptr_nonnull(ended);
        ck_assert_int_eq(ended->number, 1);
        ck_assert_int_eq(job->errors[r].sys_errno, r == 0 ? 0 : ECONNREFUSED);
    }
}

/* Rank 0 serves the rendezvous and reports the missing rank. If rank 0 is missing, each other rank
 * reports it. */
START_TEST(who_ended_before_it_came_is_given_up_within_two_seconds)
{
    uint32_t gone = (uint32_t)_i;
    struct job job;
    weft_ns told;

    job_open(&job, 5, NULL);
    for (uint32_t r = 0; r < RANKS; r++) {
        if (r != gone) {
            come(&job, r);
        }
    }
    ck_assert(!bed_run(&job.bed, 5 * BED_S, job_is_settled));
    told = bed_now(&job.bed);
    for (uint32_t r = 0; r < RANKS; r++) {
        if (r != gone) {
            boot_ended(job.boots[r], gone);
        }
    }
    /* Its JOIN could still arrive. */
    ck_assert(!bed_run(&job.bed, BED_S / 2, job_is_settled));
    ck_assert(bed_run(&job.bed, PATIENCE_S * BED_S, job_is_settled));
    ck_assert_int_le(bed_now(&job.bed) - told, 2 * BED_S);
    for (uint32_t r = 0; r < RANKS; r++) {
        if (r != gone) {
            check_blame(&job, r, gone);
        }
    }
    job_close(&job);
}
END_TEST

/* Exit reports about a joined member, about this process and about an invalid number are
 * ignored. */
START_TEST(who_has_come_is_waited_for)
{
    struct job job;

    job_open(&job, 5, NULL);
    come(&job, 0);
    come(&job, 1);
    bed_run(&job.bed, BED_S, NULL);
    boot_ended(job.boots[0], 1);
    boot_ended(job.boots[1], 2); /* only rank 0 acts on it */
    for (uint32_t r = 0; r < 2; r++) {
        boot_ended(job.boots[r], r);
        boot_ended(job.boots[r], RANKS);
    }
    ck_assert(!bed_run(&job.bed, 10 * BED_S, job_is_settled));
    come(&job, 2);
    ck_assert(bed_run(&job.bed, 10 * BED_S, job_is_settled));
    for (uint32_t r = 0; r < RANKS; r++) {
        ck_assert_int_eq(job.status[r], WEFT_OK);
        for (uint32_t of = 0; of < RANKS; of++) {
            ck_assert_uint_eq(boot_result(job.boots[r])[4 * of], of);
        }
    }
    job_close(&job);
}
END_TEST

static void gather_all(struct job *job, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++) {
        const uint32_t mine = r;

        boot_gather(job->boots[r], &mine, sizeof(mine));
    }
}

/* Rank 0 reports nothing: its process does not go on, or rank 2 is cut off from it. After 1.5 s
 * rank 1 gives up a round that needs rank 2, also if it begins the round later. Loop: seconds from
 * the report to the round, negative if the round is first. */
START_TEST(an_end_that_rank_0_does_not_report_ends_a_round)
{
    bool is_first = _i < 0;
    uint32_t later_s = is_first ? 0 : (uint32_t)_i;
    struct job job;
    weft_ns told;

    job_open(&job, 5, NULL);
    for (uint32_t r = 0; r < RANKS; r++) {
        come(&job, r);
    }
    ck_assert(bed_run(&job.bed, BED_S, job_is_settled));
    if (is_first) {
        boot_gather_after(job.boots[1], NULL, 0, 300 * BED_S);
        bed_run(&job.bed, BED_S, NULL);
    }
    told = bed_now(&job.bed);
    boot_ended(job.boots[1], 2);
    bed_run(&job.bed, later_s * BED_S, NULL);
    ck_assert_int_ge(job.status[1], 0);
    if (!is_first) {
        boot_gather(job.boots[1], NULL, 0);
    }
    ck_assert(bed_run(&job.bed, 60 * BED_S, job_is_settled));
    ck_assert_int_eq(bed_now(&job.bed) - told,
                     later_s > 1 ? later_s * BED_S : 1500 * BED_S / 1000);
    ck_assert_int_eq(job.status[1], WEFT_ERR_CLOSED);
    ck_assert_int_eq(weft_error_value(&job.errors[1], WEFT_VALUE_RANK)->number, 2);
    ck_assert_int_eq(weft_error_value(&job.errors[1], WEFT_VALUE_ENDED)->number, 1);
    ck_assert_ptr_nonnull(strstr(job.errors[1].message, "rank 0 does not report why"));
    job_close(&job);
}
END_TEST

/* What rank 0 reports within that time counts. */
START_TEST(an_end_that_rank_0_reports_is_its_word)
{
    struct job job;

    job_open(&job, 5, NULL);
    for (uint32_t r = 0; r < RANKS; r++) {
        come(&job, r);
    }
    ck_assert(bed_run(&job.bed, BED_S, job_is_settled));
    gather_all(&job, 2);
    boot_ended(job.boots[1], 2);
    bed_run(&job.bed, BED_S, NULL);
    ck_assert_int_eq(job.status[1], WEFT_AGAIN);
    boot_abort(job.boots[2], "its memory is full");
    ck_assert(bed_run(&job.bed, BED_S / 4, job_is_settled));
    for (uint32_t r = 0; r < 2; r++) {
        ck_assert_ptr_nonnull(strstr(job.errors[r].message, "its memory is full"));
    }
    job_close(&job);
}
END_TEST

/* Further exits, and reports of the same exit, do not postpone the first one's limit. Loop: the
 * interval in tenths of a second. */
START_TEST(later_ends_do_not_postpone_the_first)
{
    weft_ns told, interval = _i * BED_S / 10;
    struct job job;

    job_open(&job, 5, NULL);
    come(&job, 0);
    told = bed_now(&job.bed);
    boot_ended(job.boots[0], 2);
    bed_run(&job.bed, interval, NULL);
    boot_ended(job.boots[0], 1);
    boot_ended(job.boots[0], 2);
    ck_assert(bed_run(&job.bed, 2 * BED_S, job_is_settled));
    ck_assert_int_eq(bed_now(&job.bed) - told, BOOT_ENDED_NS);
    check_blame(&job, 0, interval == 0 ? 1 : 2);
    job_close(&job);
}
END_TEST

/* Each member that ended has its own second, also if the others go on without it. */
START_TEST(each_end_has_its_own_limit)
{
    static const struct town_cable star[] = {
        {.a = 0, .b = 1}, {.a = 0, .b = 2}, {.a = 0, .b = 3}};
    const struct town_config config = {.n_hosts = 4, .n_cables = 3, .cables = star};
    struct town town;

    town_open(&town, &config);
    town.members[0].config.may_miss = true;
    town_member_open(&town, 0);
    town_gather(&town, 0, 1, 8);
    for (uint32_t tenths = 0; tenths < 20; tenths++) {
        if (tenths % 4 == 0 && tenths < 12) { /* 3 first, at 0, 400 and 800 ms */
            boot_ended(town.members[0].boot, 3 - tenths / 4);
        }
        town_run(&town, 99 * TOWN_MS, NULL);
        for (uint32_t m = 1; m < 4; m++) {
            ck_assert_int_eq(boot_is_absent(town.members[0].boot, m),
                             tenths >= 10 + 4 * (3 - m));
        }
        town_run(&town, TOWN_MS, NULL);
    }
    ck_assert_int_eq(town.members[0].status, WEFT_OK);
    town_close(&town);
}
END_TEST

START_TEST(without_a_rendezvous_it_is_the_same)
{
    static const struct town_cable line[] = {{.a = 0, .b = 1}, {.a = 1, .b = 2}};
    const struct town_config config = {.n_hosts = 3, .n_cables = 2, .cables = line};
    struct town town;
    weft_ns told;

    town_open(&town, &config);
    town_member_open(&town, 0);
    town_member_open(&town, 1);
    town_gather(&town, 0, 1, 8);
    town_gather(&town, 1, 1, 8);
    town_run(&town, 5 * TOWN_S, NULL);
    boot_ended(town.members[1].boot, 0); /* a neighbour that has joined */
    town_run(&town, 3 * TOWN_S, NULL);
    ck_assert_int_eq(town.members[1].status, WEFT_AGAIN);
    told = town_now(&town);
    boot_ended(town.members[0].boot, 2);
    ck_assert(town_run(&town, 60 * TOWN_S, town_all_done));
    ck_assert_int_le(town_now(&town) - told, 2 * TOWN_S);
    for (uint32_t i = 0; i < 2; i++) { /* 0 reported it to 1 */
        ck_assert_int_eq(town.members[i].status, WEFT_ERR_CLOSED);
        ck_assert_int_eq(town_rank_at_fault(&town, i), 2);
        ck_assert_ptr_nonnull(
            strstr(town.members[i].error.message, "ended before it came"));
    }
    town_close(&town);
}
END_TEST

static bool has_failed(const struct town *town)
{
    return town->members[1].status < 0;
}

/* The end of a member that is cut off is not reported over a stream. It matters only if another
 * round follows: a member can leave after the last one. */
START_TEST(who_is_cut_off_and_ended_is_given_up_between_rounds)
{
    static const struct town_cable cable = {.a = 0, .b = 1};
    const struct town_config config = {.n_hosts = 2, .n_cables = 1, .cables = &cable};
    bool another = _i == 1;
    struct town town;

    town_open(&town, &config);
    town_open_all(&town);
    town_round(&town, 1, 8);
    if (another) {
        boot_expect_all(town.members[1].boot);
    }
    boot_ended(town.members[1].boot, 0);
    town_run(&town, 5 * TOWN_S, NULL);
    ck_assert_int_eq(town.members[1].status, WEFT_OK); /* its stream is still there */
    town_inject(&town, WORLD_FAULT_DOWN, 0);
    ck_assert_int_eq(town_run(&town, 6 * TOWN_S, has_failed), another);
    if (another) {
        ck_assert_int_eq(town.members[1].status, WEFT_ERR_CLOSED);
        ck_assert_int_eq(town_rank_at_fault(&town, 1), 0);
        ck_assert_ptr_nonnull(
            strstr(town.members[1].error.message, "no control stream leads to it"));
    }
    town_close(&town);
}
END_TEST

/* In the last round a member is waited for that may still work for 50 s. It is not waited for
 * so long once it has ended, of which no stream reports anything. */
START_TEST(who_is_cut_off_and_ended_does_not_work_any_more)
{
    static const struct town_cable cable = {.a = 0, .b = 1};
    const struct town_config config = {.n_hosts = 2, .n_cables = 1, .cables = &cable};
    struct town town;
    struct town_member *member = &town.members[1];

    town_open(&town, &config);
    town_open_all(&town);
    town_round(&town, 1, 8);
    boot_gather_last(member->boot, NULL, 0, 50 * TOWN_S);
    member->status = WEFT_AGAIN;
    town_inject(&town, WORLD_FAULT_DOWN, 0);
    town_run(&town, 10 * TOWN_S, NULL);
    boot_ended(member->boot, 0);
    ck_assert(!town_run(&town, 19 * TOWN_S, has_failed));
    ck_assert(town_run(&town, 3 * TOWN_S, has_failed));
    ck_assert_int_eq(town_rank_at_fault(&town, 1), 0);
    town_close(&town);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("boot: who ended");
    TCase *tcase = tcase_create("ended");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, who_ended_before_it_came_is_given_up_within_two_seconds, 0,
                        RANKS);
    tcase_add_test(tcase, who_has_come_is_waited_for);
    tcase_add_loop_test(tcase, an_end_that_rank_0_does_not_report_ends_a_round, -1, 4);
    tcase_add_test(tcase, an_end_that_rank_0_reports_is_its_word);
    tcase_add_loop_test(tcase, later_ends_do_not_postpone_the_first, 0, 10);
    tcase_add_test(tcase, each_end_has_its_own_limit);
    tcase_add_test(tcase, without_a_rendezvous_it_is_the_same);
    tcase_add_loop_test(tcase, who_is_cut_off_and_ended_is_given_up_between_rounds, 0, 2);
    tcase_add_test(tcase, who_is_cut_off_and_ended_does_not_work_any_more);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
