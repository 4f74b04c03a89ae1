/* Tests of a rendezvous: ranks join, gather, and report members that are missing, died or gave
 * up. */
#include "boot/boot.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/sim_world.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "boot/job_testing.h"
#include "boot/private.h"
#include "io/oob.h"

#define RANKS JOB_RANKS

static void open_all(struct job *job)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        job_open_rank(job, r);
    }
}

static void gather(struct job *job, uint32_t r, uint8_t round, size_t n_bytes)
{
    uint8_t *mine = weft_alloc(n_bytes + 1);

    memset(mine, (int)(16 * round + r), n_bytes);
    job->status[r] = WEFT_AGAIN;
    boot_gather(job->boots[r], mine, n_bytes);
    free(mine);
}

static void check_result(const struct job *job, uint32_t r, uint8_t round, size_t n_bytes)
{
    const uint8_t *result = boot_result(job->boots[r]);

    ck_assert_int_eq(job->status[r], WEFT_OK);
    for (size_t i = 0; i < RANKS * n_bytes; i++) {
        ck_assert_uint_eq(result[i], 16u * round + i / n_bytes);
    }
}

static void round_of_all(struct job *job, uint8_t round, size_t n_bytes)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        gather(job, r, round, n_bytes);
    }
    ck_assert(bed_run(&job->bed, 10 * BED_S, job_is_settled));
    for (uint32_t r = 0; r < RANKS; r++) {
        check_result(job, r, round, n_bytes);
    }
}

START_TEST(ranks_gather_blobs_of_any_size)
{
    static const size_t sizes[] = {1, 0, 128, 4000, 4017, 65536, 0, 17};
    struct job job;

    job_open(&job, 60, NULL);
    open_all(&job);
    for (uint8_t i = 0; i < WEFT_LENGTH(sizes); i++) {
        round_of_all(&job, i, sizes[i]);
    }
    job_close(&job);
}
END_TEST

START_TEST(splitting_the_streams_changes_nothing)
{
    static const char *const chunks[] = {"1",  "2",  "3",  "7", "11",
                                         "12", "13", "59", "61"};
    struct job job;

    job_open(&job, 61, chunks[_i]);
    open_all(&job);
    round_of_all(&job, 1, 100);
    round_of_all(&job, 2, 0);
    job_close(&job);
}
END_TEST

/* Rank 0 joins last, rank 2 gathers early, and a fast rank is a round ahead of a slow one. */
START_TEST(the_order_of_coming_does_not_matter)
{
    struct job job;

    job_open(&job, 62, NULL);
    job_open_rank(&job, 2);
    gather(&job, 2, 1, 8);
    bed_run(&job.bed, 10 * BED_S, NULL);
    job_open_rank(&job, 1);
    gather(&job, 1, 1, 8);
    bed_run(&job.bed, 10 * BED_S, NULL);
    job_open_rank(&job, 0);
    bed_run(&job.bed, 5 * BED_S, NULL);
    gather(&job, 0, 1, 8);
    ck_assert(bed_run(&job.bed, BED_S, job_is_settled));
    for (uint32_t r = 0; r < RANKS; r++) {
        check_result(&job, r, 1, 8);
    }
    gather(&job, 1, 2, 12);
    gather(&job, 2, 2, 12);
    bed_run(&job.bed, BED_S, NULL);
    gather(&job, 0, 2, 12);
    ck_assert(bed_run(&job.bed, BED_S, job_is_settled));
    for (uint32_t r = 0; r < RANKS; r++) {
        check_result(&job, r, 2, 12);
    }
    job_close(&job);
}
END_TEST

static int64_t rank_of(const struct job *job, uint32_t r)
{
    const struct weft_value *value = weft_error_value(&job->errors[r], WEFT_VALUE_RANK);

    ck_assert_msg(value != NULL, "rank %u: %s", r, job->errors[r].message);
    return value->number;
}

START_TEST(who_does_not_come_is_named_to_all)
{
    struct job job;
    weft_ns since;

    job_open(&job, 63, NULL);
    since = bed_now(&job.bed);
    job_open_rank(&job, 0);
    job_open_rank(&job, 2);
    gather(&job, 0, 1, 8);
    gather(&job, 2, 1, 8);
    bed_run(&job.bed, BED_S, NULL);
    for (uint32_t member = 0; member < 3; member++) {
        ck_assert(boot_awaits(job.boots[0], member) == (member == 1));
        ck_assert(boot_awaits(job.boots[2], member) == (member == 0));
    }
    ck_assert(bed_run(&job.bed, 100 * BED_S, job_is_settled));
    bed_run(&job.bed, BED_S, NULL);
    ck_assert_int_le(bed_now(&job.bed) - since, 62 * BED_S);
    ck_assert_int_eq(job.status[0], WEFT_ERR_TIMEOUT);
    ck_assert_int_eq(rank_of(&job, 0), 1);
    ck_assert_str_eq(weft_error_value(&job.errors[0], WEFT_VALUE_MISSING)->text, "1");
    ck_assert_int_eq(job.status[2], WEFT_ERR_CLOSED);
    ck_assert_int_eq(rank_of(&job, 2), 1);
    ck_assert_ptr_nonnull(strstr(job.errors[2].message, "did not come"));
    job_close(&job);
}
END_TEST

START_TEST(a_rendezvous_that_is_not_there_is_rank_0s)
{
    struct job job;
    job_open(&job, 64, NULL);
    job_open_rank(&job, 1);
    gather(&job, 1, 1, 8);
    ck_assert(bed_run(&job.bed, 100 * BED_S, job_is_settled));
    ck_assert_int_eq(job.status[1], WEFT_ERR_TIMEOUT);
    ck_assert_int_eq(rank_of(&job, 1), 0);
    ck_assert_str_eq(weft_error_value(&job.errors[1], WEFT_VALUE_MISSING)->text, "0");
    ck_assert_int_eq(job.errors[1].sys_errno, ECONNREFUSED);
    job_close(&job);
}
END_TEST

/* Rank 1 comes long before rank 0, whose patience begins later. */
START_TEST(a_rank_that_came_first_hears_who_is_missing)
{
    struct job job;

    job_open(&job, 63, NULL);
    job_open_rank(&job, 1);
    gather(&job, 1, 1, 8);
    bed_run(&job.bed, 50 * BED_S, NULL);
    job_open_rank(&job, 0);
    gather(&job, 0, 1, 8);
    ck_assert(bed_run(&job.bed, 100 * BED_S, job_is_settled));
    ck_assert_int_eq(job.status[0], WEFT_ERR_TIMEOUT);
    bed_run(&job.bed, BED_S, NULL);
    ck_assert_int_eq(job.status[1], WEFT_ERR_CLOSED);
    ck_assert_int_eq(rank_of(&job, 1), 2);
    job_close(&job);
}
END_TEST

/* The errno of attempts before rank 0 came says nothing about why it does not answer. */
START_TEST(a_rank_0_that_does_not_answer_has_no_errno)
{
    struct world_fault stop = {.kind = WORLD_FAULT_STOP, .for_ns = 1000 * BED_S};
    struct job job;

    job_open(&job, 63, NULL);
    job_open_rank(&job, 1);
    bed_run(&job.bed, BED_S, NULL);
    job_open_rank(&job, 0);
    bed_run(&job.bed, 2 * BED_S, NULL);
    ck_assert_int_eq(job.bed.world->ops->inject(job.bed.world, &stop), 0);
    job.status[0] = WEFT_OK;
    gather(&job, 1, 1, 8);
    ck_assert(bed_run(&job.bed, 100 * BED_S, job_is_settled));
    ck_assert_int_eq(job.status[1], WEFT_ERR_TIMEOUT);
    ck_assert_int_eq(rank_of(&job, 1), 0);
    ck_assert_ptr_nonnull(strstr(job.errors[1].message, "does not answer"));
    ck_assert_int_eq(job.errors[1].sys_errno, 0);
    job_close(&job);
}
END_TEST

/* Results of connections to rank 0, and the time in seconds after which its rank gives up: 1 if no
 * connection can succeed, 30 if rank 0's machine does not answer, and 60, the patience, if rank 0
 * can still appear. */
static const struct unreached {
    const char *address;
    bool is_elsewhere, listens, has_limits;
    int sys_errno, at_least_s, at_most_s;
} unreached[] = {
    {"10.99.0.1", true, false, true, ENETUNREACH, 1, 2},
    {"10.99.0.1", true, false, false, ENETUNREACH, 60, 61},
    {"127.0.0.1", true, false, true, ECONNREFUSED, 1, 2},
    {"127.0.0.1", true, false, false, ECONNREFUSED, 60, 61},
    /* Rank 0 is on the same host. */
    {"127.0.0.1", false, false, true, ECONNREFUSED, 60, 61},
    {"10.0.0.1", true, false, true, ECONNREFUSED, 60, 61},
    /* Accepted, but no challenge comes. */
    {"10.0.0.1", true, true, true, ETIMEDOUT, 30, 36},
    {"10.0.0.1", true, true, false, ETIMEDOUT, 60, 66},
    /* There is no such machine; some attempts fail with errno 113. */
    {"10.0.0.77", true, false, true, ETIMEDOUT, 60, 64},
};

START_TEST(a_rendezvous_out_of_reach_is_given_up)
{
    const struct unreached *row = &unreached[_i];
    struct io_listener *listener = NULL;
    struct io_task task;
    struct job job;
    struct io_endpoint at;
    weft_ns since, took;

    job_open(&job, 66, NULL);
    ck_assert(io_ip_parse(row->address, &job.config.rendezvous.ip));
    job.config.first_is_elsewhere = row->is_elsewhere;
    job.config.hopeless_ns = row->has_limits ? BED_S : 0;
    job.config.ignored_ns = row->has_limits ? 30 * BED_S : 0;
    if (row->listens) {
        struct io_env *env = job.bed.hosts[0].env;

        io_task_init(&task, env->loop, env->host, BED_KIND_TEST);
        ck_assert_int_eq(
            env->oob->listen(env, &job.config.rendezvous, 8, &task, &listener, &at), 0);
    }
    since = bed_now(&job.bed);
    job_open_rank(&job, 1);
    gather(&job, 1, 1, 8);
    ck_assert(bed_run(&job.bed, 100 * BED_S, job_is_settled));
    took = bed_now(&job.bed) - since;
    ck_assert_int_eq(job.status[1], WEFT_ERR_TIMEOUT);
    ck_assert_int_eq(job.errors[1].sys_errno, row->sys_errno);
    ck_assert_int_ge(took, row->at_least_s * BED_S);
    ck_assert_int_le(took, row->at_most_s * BED_S);
    if (listener != NULL) {
        job.bed.hosts[0].env->oob->close_listener(listener);
    }
    job_close(&job);
}
END_TEST

START_TEST(who_is_late_is_named_to_all)
{
    struct job job;
    weft_ns since;

    job_open(&job, 65, NULL);
    open_all(&job);
    round_of_all(&job, 1, 4);
    since = bed_now(&job.bed);
    gather(&job, 0, 2, 4);
    gather(&job, 1, 2, 4);
    ck_assert(!bed_run(&job.bed, 29 * BED_S, job_is_settled));
    bed_run(&job.bed, 5 * BED_S, NULL);
    ck_assert_int_le(bed_now(&job.bed) - since, 35 * BED_S);
    ck_assert_int_eq(job.status[0], WEFT_ERR_TIMEOUT);
    ck_assert_int_eq(rank_of(&job, 0), 2);
    ck_assert_int_eq(job.status[1], WEFT_ERR_CLOSED);
    ck_assert_int_eq(rank_of(&job, 1), 2);
    ck_assert_int_eq(boot_progress(job.boots[0], NULL), WEFT_ERR_TIMEOUT);
    job_close(&job);
}
END_TEST

/* At a barrier two ranks wait for the third, which may work for 50 s more. */
static const struct worker_case {
    const char *name;
    int64_t limit_s;
    bool has_ended; /* its launcher reports that after 10 s */
    bool comes;
    bool is_relay;      /* the third has no rank, and no work */
    weft_status status; /* of rank 0 */
    weft_status others;
} worker_cases[] = {
    {"it comes then", 50 + 30, false, true, false, WEFT_OK, WEFT_OK},
    {"it never comes", 50 + 30, false, false, false, WEFT_ERR_TIMEOUT, WEFT_ERR_CLOSED},
    {"a relay never comes", 30, false, false, true, WEFT_ERR_TIMEOUT, WEFT_ERR_CLOSED},
    {"a relay comes then", 30, false, true, true, WEFT_OK, WEFT_OK},
    /* Its stream would report that at once, so it is cut off. */
    {"it has ended", 10 + 1, true, false, false, WEFT_ERR_CLOSED, WEFT_ERR_CLOSED},
};

START_TEST(who_works_is_waited_for)
{
    const struct worker_case *given = &worker_cases[_i];
    struct job job;
    weft_ns since;
    int64_t limit_s = given->limit_s;

    job_open(&job, 67, NULL);
    job.config.n_ranks = given->is_relay ? 2 : 3;
    job.config.n_members = 3;
    open_all(&job);
    round_of_all(&job, 1, 4);
    since = bed_now(&job.bed);
    for (uint32_t r = 0; r < 2; r++) {
        job.status[r] = WEFT_AGAIN;
        boot_gather_last(job.boots[r], NULL, 0, 50 * BED_S);
    }
    bed_run(&job.bed, 10 * BED_S, NULL);
    for (uint32_t r = 0; given->has_ended && r < 2; r++) {
        boot_ended(job.boots[r], 2);
    }
    bed_run(&job.bed, (limit_s - 11) * BED_S, NULL);
    ck_assert_int_eq(job.status[0], WEFT_AGAIN);
    ck_assert_int_eq(job.status[1], WEFT_AGAIN);
    if (given->comes) {
        job.status[2] = WEFT_AGAIN;
        boot_gather_last(job.boots[2], NULL, 0, 0);
    }
    ck_assert(bed_run(&job.bed, 5 * BED_S, job_is_settled));
    ck_assert_int_le(bed_now(&job.bed) - since, (limit_s + 1) * BED_S);
    ck_assert_msg(job.status[0] == given->status, "%s", given->name);
    ck_assert_int_eq(job.status[1], given->others);
    if (!given->comes) {
        ck_assert_int_eq(rank_of(&job, 1), 2);
    }
    job_close(&job);
}
END_TEST

/* When a rank gives up, each of the others gets one GIVE_UP. */
START_TEST(who_gives_up_is_reported_once)
{
    struct job job;
    uint32_t n_sent;

    job_open(&job, 66, NULL);
    open_all(&job);
    round_of_all(&job, 1, 4);
    gather(&job, 0, 2, 4);
    gather(&job, 1, 2, 4);
    n_sent = job.boots[0]->server->ranks[1].stream->link.tx_sequence;
    boot_abort(job.boots[2], "out of luck");
    job.status[2] = WEFT_ERR_CLOSED;
    ck_assert(bed_run(&job.bed, BED_S, job_is_settled));
    ck_assert_int_eq(rank_of(&job, 0), 2);
    ck_assert_int_eq(rank_of(&job, 1), 2);
    ck_assert_str_eq(job.errors[1].message, "rank 2: out of luck");
    ck_assert_uint_eq(job.boots[0]->server->ranks[1].stream->link.tx_sequence,
                      n_sent + 1);
    job_close(&job);
}
END_TEST

/* A rank is killed, sends BYE, or gives up; the others report which rank and why. */
START_TEST(who_goes_is_named_to_all)
{
    uint32_t gone = (uint32_t)_i % RANKS;
    int way = _i / RANKS;
    struct job job;
    weft_ns since;

    job_open(&job, 66, NULL);
    open_all(&job);
    round_of_all(&job, 1, 4);
    for (uint32_t r = 0; r < RANKS; r++) {
        if (r != gone) {
            gather(&job, r, 2, 4);
        }
    }
    since = bed_now(&job.bed);
    if (way == 0) {
        struct world_fault fault = {.kind = WORLD_FAULT_KILL, .host = gone};

        ck_assert_int_eq(job.bed.world->ops->inject(job.bed.world, &fault), 0);
        job.status[gone] = WEFT_OK;
    } else if (way == 1) {
        job_close_rank(&job, gone);
    } else {
        boot_abort(job.boots[gone], "out of luck");
        ck_assert_int_eq(boot_progress(job.boots[gone], &job.errors[gone]),
                         WEFT_ERR_CLOSED);
        ck_assert_int_eq(rank_of(&job, gone), gone);
        job.status[gone] = WEFT_ERR_CLOSED;
    }
    ck_assert(bed_run(&job.bed, 100 * BED_S, job_is_settled));
    ck_assert_int_le(bed_now(&job.bed) - since, 61 * BED_S);
    for (uint32_t r = 0; r < RANKS; r++) {
        if (r != gone) {
            ck_assert_int_lt(job.status[r], 0);
            ck_assert_int_eq(rank_of(&job, r), gone);
        }
        if (r != gone && way == 2) {
            ck_assert_str_eq(weft_error_value(&job.errors[r], WEFT_VALUE_REASON)->text,
                             "out of luck");
        }
    }
    job_close(&job);
}
END_TEST

/* When a process dies its host closes its streams, without BYE. */
START_TEST(a_stream_that_ends_is_a_death_and_known_at_once)
{
    uint32_t gone = (uint32_t)_i;
    struct job job;
    weft_ns since;

    job_open(&job, 73, NULL);
    open_all(&job);
    round_of_all(&job, 1, 4);
    for (uint32_t r = 0; r < RANKS; r++) {
        if (r != gone) {
            gather(&job, r, 2, 4);
        }
    }
    since = bed_now(&job.bed);
    if (gone == 0) {
        for (uint32_t r = 1; r < RANKS; r++) {
            frame_close(&job.boots[0]->server->ranks[r].stream->link, true);
        }
    } else {
        frame_close(&job.boots[gone]->client->stream.link, true);
    }
    job.status[gone] = WEFT_ERR_CLOSED;
    ck_assert(bed_run(&job.bed, BED_S, job_is_settled));
    ck_assert_int_lt(bed_now(&job.bed) - since, 10 * BED_MS);
    for (uint32_t r = 0; r < RANKS; r++) {
        if (r != gone) {
            ck_assert_int_eq(job.status[r], WEFT_ERR_CLOSED);
            ck_assert_int_eq(rank_of(&job, r), gone);
        }
    }
    job_close(&job);
}
END_TEST

static const struct io_oob_ops *real_oob;
static const struct io_stream *full; /* its buffer is full */

static int send_unless_full(struct io_stream *stream, const void *bytes, size_t n_bytes,
                            size_t *out_n)
{
    return stream == full ? EAGAIN : real_oob->send(stream, bytes, n_bytes, out_n);
}

/* A rank that has no room to send BYE ends as soon as it has the last result, while rank 0 still
 * sends it to others. The round does not fail; a following one fails because of a death. */
START_TEST(a_stream_that_ends_after_the_result_is_no_failure_of_the_round)
{
    struct job job;
    struct io_oob_ops oob;

    job_open(&job, 74, NULL);
    open_all(&job);
    round_of_all(&job, 1, 4);
    real_oob = job.boots[0]->env->oob;
    oob = *real_oob;
    oob.send = send_unless_full;
    job.boots[0]->env->oob = &oob;
    full = job.boots[0]->server->ranks[2].stream->link.stream;
    for (uint32_t r = 0; r < RANKS; r++) {
        gather(&job, r, 2, 4);
    }
    bed_run(&job.bed, BED_MS, NULL);
    ck_assert_int_eq(job.status[1], WEFT_OK);
    ck_assert_int_eq(job.status[0], WEFT_AGAIN);
    frame_close(&job.boots[1]->client->stream.link, true);
    bed_run(&job.bed, BED_MS, NULL);
    ck_assert_int_eq(job.status[0], WEFT_AGAIN);
    full = NULL;
    io_task_wake(boot_task(job.boots[0]));
    bed_run(&job.bed, BED_MS, NULL);
    ck_assert_int_eq(job.status[0], WEFT_OK);
    ck_assert_int_eq(job.status[2], WEFT_OK);
    job.status[1] = WEFT_ERR_CLOSED;
    gather(&job, 0, 3, 4);
    gather(&job, 2, 3, 4);
    ck_assert(bed_run(&job.bed, BED_S, job_is_settled));
    ck_assert_int_eq(job.status[0], WEFT_ERR_CLOSED);
    ck_assert_int_eq(rank_of(&job, 0), 1);
    job.boots[0]->env->oob = real_oob;
    job_close(&job);
}
END_TEST

/* Takes the management interface of one host away, or that of each host (RANKS). */
static void set_away(struct job *job, uint32_t r, bool is_away)
{
    struct sim_world *world = weft_container_of(job->bed.world, struct sim_world, world);

    for (uint32_t i = 0; i < RANKS; i++) {
        if (r == RANKS || i == r) {
            sim_port_set_down(world->hosts[i].management, true, true, is_away);
        }
    }
}

/* An absence of TIMER_ABSENCE_NS ends no job whose members have joined, whichever round it holds up
 * and whichever hosts are away. */
START_TEST(the_management_network_may_be_away)
{
    uint32_t away = (uint32_t)_i % (RANKS + 1);
    struct job job;

    job_open(&job, 76, NULL);
    open_all(&job);
    round_of_all(&job, 1, 4);
    bed_run(&job.bed, BED_S, NULL);
    set_away(&job, away, true);
    for (uint32_t r = 0; r < RANKS; r++) {
        gather(&job, r, 2, 4000);
    }
    ck_assert(!bed_run(&job.bed, TIMER_ABSENCE_NS, job_is_settled));
    set_away(&job, away, false);
    ck_assert(bed_run(&job.bed, TIMER_GATHER_NS - TIMER_ABSENCE_NS, job_is_settled));
    for (uint32_t r = 0; r < RANKS; r++) {
        check_result(&job, r, 2, 4000);
    }
    round_of_all(&job, 3, 4);
    job_close(&job);
}
END_TEST

static const struct io_stream *failing; /* calls on it fail at this host */
static int failing_errno;

static int send_unless_failing(struct io_stream *stream, const void *bytes,
                               size_t n_bytes, size_t *out_n)
{
    return stream == failing ? failing_errno
                             : real_oob->send(stream, bytes, n_bytes, out_n);
}

/* An error counts as the peer's death only if the peer caused it. A stream that timed out shows
 * only that its machine is cut off, even if the kernel knows why nothing answered. The first half
 * of the loop fails in the first call, the second one in the next, when bytes wait to be sent. */
START_TEST(a_call_that_fails_here_is_no_death_of_the_peer)
{
    static const struct {
        int sys_errno;
        weft_status status;
    } rows[] = {{EIO, WEFT_ERR_SYSTEM},           {EINVAL, WEFT_ERR_SYSTEM},
                {ENOMEM, WEFT_ERR_SYSTEM},        {EPIPE, WEFT_ERR_CLOSED},
                {ECONNRESET, WEFT_ERR_CLOSED},    {ETIMEDOUT, WEFT_ERR_TIMEOUT},
                {EHOSTUNREACH, WEFT_ERR_TIMEOUT}, {ENETUNREACH, WEFT_ERR_TIMEOUT}};
    int n_rows = (int)WEFT_LENGTH(rows);
    int sys_errno = rows[_i % n_rows].sys_errno;
    weft_status status = rows[_i % n_rows].status;
    bool is_here = status == WEFT_ERR_SYSTEM;
    struct job job;
    struct io_oob_ops oob;

    job_open(&job, 75, NULL);
    open_all(&job);
    round_of_all(&job, 1, 4);
    real_oob = job.boots[0]->env->oob;
    oob = *real_oob;
    oob.send = send_unless_failing;
    job.boots[0]->env->oob = &oob;
    failing = job.boots[0]->server->ranks[2].stream->link.stream;
    failing_errno = _i < n_rows ? sys_errno : EAGAIN;
    for (uint32_t r = 0; r < RANKS; r++) {
        gather(&job, r, 2, 4);
    }
    if (_i >= n_rows) {
        bed_run(&job.bed, BED_MS, NULL);
        ck_assert_int_eq(job.status[0], WEFT_AGAIN);
        failing_errno = sys_errno;
        io_task_wake(boot_task(job.boots[0]));
    }
    bed_run(&job.bed, BED_S, job_is_settled);
    ck_assert_int_eq(job.status[0], status);
    ck_assert_int_eq(job.errors[0].sys_errno, status == WEFT_ERR_CLOSED    ? 0
                                              : status == WEFT_ERR_TIMEOUT ? ETIMEDOUT
                                                                           : sys_errno);
    ck_assert_int_eq(rank_of(&job, 0), 2);
    ck_assert_int_eq(weft_error_value(&job.errors[0], WEFT_VALUE_STREAM_ENDED) != NULL,
                     status == WEFT_ERR_CLOSED);
    ck_assert_int_eq(job.status[1], WEFT_ERR_CLOSED);
    ck_assert_int_eq(rank_of(&job, 1), is_here ? 0 : 2);
    job.boots[0]->env->oob = real_oob;
    job_close(&job);
}
END_TEST

START_TEST(leaving_when_all_is_done_is_no_failure)
{
    struct job job;

    job_open(&job, 67, NULL);
    open_all(&job);
    round_of_all(&job, 1, 4);
    job_close_rank(&job, 1);
    bed_run(&job.bed, BED_S, NULL);
    ck_assert_int_eq(job.status[0], WEFT_OK);
    job_close_rank(&job, 0);
    bed_run(&job.bed, BED_S, NULL);
    ck_assert_int_ge(job.status[2], 0);
    job_close(&job);
}
END_TEST

START_TEST(another_job_key_does_not_get_in)
{
    struct job job;

    job_open(&job, 68, NULL);
    job_open_rank(&job, 0);
    job_open_rank(&job, 1);
    job.config.job_key[0] ^= 1;
    job_open_rank(&job, 2);
    bed_run(&job.bed, BED_S, NULL);
    ck_assert_int_eq(job.status[2], WEFT_ERR_AUTH);
    ck_assert_int_eq(rank_of(&job, 2), 0);
    ck_assert_int_eq(job.status[0], WEFT_AGAIN);
    job_close_rank(&job, 2);
    job.config.job_key[0] ^= 1;
    job_open_rank(&job, 2);
    round_of_all(&job, 1, 4);
    job_close(&job);
}
END_TEST

START_TEST(a_rank_that_is_wrong_about_the_job_does_not_get_in)
{
    struct job job;

    job_open(&job, 69, NULL);
    job_open_rank(&job, 0);
    job_open_rank(&job, 1);
    if (_i == 0) {
        job.config.n_ranks = 4; /* another job with the same key */
    }
    job.config.rank = 1; /* a rank that has joined already */
    job.status[2] = WEFT_AGAIN;
    ck_assert_int_eq(
        boot_open(job.bed.hosts[2].env, &job.config, BED_KIND_TEST, &job.boots[2], NULL),
        WEFT_OK);
    bed_run(&job.bed, BED_S, NULL);
    ck_assert_int_lt(job.status[2], 0);
    job_close_rank(&job, 2);
    job.config.n_ranks = RANKS;
    job_open_rank(&job, 2);
    round_of_all(&job, 1, 4);
    job_close(&job);
}
END_TEST

START_TEST(blobs_of_different_sizes_are_told)
{
    struct job job;

    job_open(&job, 70, NULL);
    open_all(&job);
    gather(&job, 0, 1, _i == 0 ? 8 : 4);
    gather(&job, 1, 1, _i == 0 ? 4 : 8);
    gather(&job, 2, 1, _i == 0 ? 8 : 8);
    ck_assert(bed_run(&job.bed, 100 * BED_S, job_is_settled));
    for (uint32_t r = 0; r < RANKS; r++) {
        ck_assert_int_lt(job.status[r], 0);
    }
    ck_assert_int_eq(job.status[0], WEFT_ERR_PROTOCOL);
    job_close(&job);
}
END_TEST

static struct job *job_of_slow;

/* Rank 2 is never dispatched. */
static void on_task_of_others(struct bed *bed, struct io_task *task)
{
    struct job *job = job_of_slow;

    (void)bed;
    if (task->host < 2 && task == boot_task(job->boots[task->host])) {
        weft_error_clear(&job->errors[task->host]);
        job->status[task->host] =
            boot_progress(job->boots[task->host], &job->errors[task->host]);
    }
}

/* Rank 2 contributes and then reads nothing. Rank 0 reports rank 2, not itself. */
START_TEST(who_does_not_take_the_result_is_named)
{
    const size_t n_bytes = 65536; /* the result exceeds a stream's buffer */
    struct job job;

    job_open(&job, 71, NULL);
    open_all(&job);
    for (uint32_t r = 0; r < RANKS; r++) {
        gather(&job, r, 1, n_bytes);
    }
    while (!job.boots[0]->server->handing_out) {
        bed_run(&job.bed, 10000, NULL);
    }
    job_of_slow = &job;
    job.bed.on_task = on_task_of_others;
    bed_run(&job.bed, 25 * BED_S, NULL);
    check_result(&job, 1, 1, n_bytes);
    bed_run(&job.bed, 6 * BED_S, NULL);
    ck_assert_int_eq(job.status[0], WEFT_ERR_TIMEOUT);
    ck_assert_str_eq(weft_error_value(&job.errors[0], WEFT_VALUE_MISSING)->text, "2");
    for (uint32_t r = 0; r < 2; r++) {
        ck_assert_int_eq(rank_of(&job, r), 2);
    }
    job_close(&job);
}
END_TEST

/* Rank 1 has its result and is a round ahead while rank 0 still sends the result to rank 2. */
START_TEST(a_fast_rank_goes_on_while_a_slow_one_reads)
{
    const size_t n_bytes = 65536; /* the result exceeds a stream's buffer */
    struct job job;

    job_open(&job, 71, NULL);
    open_all(&job);
    round_of_all(&job, 0, 8);
    gather(&job, 0, 1, n_bytes);
    gather(&job, 1, 1, n_bytes);
    gather(&job, 2, 1, n_bytes);
    void (*on_task)(struct bed *, struct io_task *) = job.bed.on_task;
    while (job.boots[2]->client->sent < n_bytes) {
        bed_run(&job.bed, 10000, NULL);
    }
    job_of_slow = &job;
    job.bed.on_task = on_task_of_others;
    bed_run(&job.bed, BED_S, NULL);
    ck_assert_int_eq(job.status[0], WEFT_AGAIN);
    check_result(&job, 1, 1, n_bytes);
    gather(&job, 1, 2, 12);
    bed_run(&job.bed, BED_S, NULL);
    ck_assert_int_eq(job.status[0], WEFT_AGAIN);
    ck_assert_int_eq(job.status[1], WEFT_AGAIN);
    job.bed.on_task = on_task;
    io_task_wake(boot_task(job.boots[2]));
    bed_run(&job.bed, BED_S, NULL);
    check_result(&job, 0, 1, n_bytes);
    check_result(&job, 2, 1, n_bytes);
    gather(&job, 0, 2, 12);
    gather(&job, 2, 2, 12);
    ck_assert(bed_run(&job.bed, BED_S, job_is_settled));
    for (uint32_t r = 0; r < RANKS; r++) {
        check_result(&job, r, 2, 12);
    }
    job_close(&job);
}
END_TEST

/* Rank 1 sends its blob of 8 bytes in pieces that do not follow each other. */
START_TEST(a_piece_out_of_order_is_refused)
{
    static const struct {
        uint32_t offsets[2];
        uint32_t n_bytes; /* length of each piece */
        bool fits;
    } rows[] = {{{0, 4}, 4, true},  {{4, 0}, 4, false}, {{0, 0}, 4, false},
                {{4, 4}, 4, false}, {{0, 3}, 4, false}, {{0, 5}, 3, false}};
    static const uint8_t bytes[8] = {17, 17, 17, 17, 17, 17, 17, 17};
    struct job job;

    job_open(&job, 72, NULL);
    open_all(&job);
    round_of_all(&job, 0, 8);
    gather(&job, 0, 1, 8);
    gather(&job, 2, 1, 8);
    bed_run(&job.bed, BED_S, NULL);
    for (int i = 0; i < 2; i++) {
        struct message_blob blob = {.round = 2,
                                    .each = 8,
                                    .offset = rows[_i].offsets[i],
                                    .n_bytes = rows[_i].n_bytes,
                                    .bytes = bytes};
        struct frame_link *link = &job.boots[1]->client->stream.link;
        uint8_t body[CODEC_BODY_MAX];

        ck_assert(frame_send(link, CODEC_BLOB, body, message_encode_blob(&blob, body)));
        ck_assert_int_eq(frame_flush(link, NULL), WEFT_OK);
    }
    bed_run(&job.bed, BED_S, NULL);
    ck_assert_int_eq(job.status[0], rows[_i].fits ? WEFT_OK : WEFT_ERR_PROTOCOL);
    if (rows[_i].fits) {
        check_result(&job, 0, 1, 8);
    } else {
        ck_assert_int_eq(rank_of(&job, 0), 1);
        ck_assert_str_eq(weft_error_value(&job.errors[0], WEFT_VALUE_FIELD)->text,
                         "round");
    }
    job_close(&job);
}
END_TEST

START_TEST(strangers_do_not_disturb)
{
    struct job job;
    struct io_stream *streams[100];
    struct io_task task;
    struct io_env *env;
    job_open(&job, 71, NULL);
    job_open_rank(&job, 0);
    env = job.bed.hosts[1].env;
    io_task_init(&task, job.bed.loop, 1, BED_KIND_TEST);
    for (size_t i = 0; i < WEFT_LENGTH(streams); i++) {
        size_t n;

        ck_assert_int_eq(
            env->oob->connect(env, NULL, &job.config.rendezvous, &task, &streams[i]), 0);
        bed_run(&job.bed, BED_MS, NULL);
        if (i % 2 == 0 && env->oob->connected(streams[i]) == 0) {
            (void)env->oob->send(streams[i], "GET /", 5, &n);
        }
    }
    job_open_rank(&job, 1);
    job_open_rank(&job, 2);
    round_of_all(&job, 1, 4);
    bed_run(&job.bed, 10 * BED_S, NULL);
    round_of_all(&job, 2, 4);
    for (size_t i = 0; i < WEFT_LENGTH(streams); i++) {
        env->oob->close(streams[i], true);
    }
    io_task_fini(&task);
    job_close(&job);
}
END_TEST

enum { CROWD = 1000, CROWD_PER_MS = 20 };

/* Streams of unauthenticated clients, all from one host; the oldest is closed for a new one. */
struct crowd {
    struct job *job;
    struct io_task task;
    struct io_stream *streams[CROWD];
    bool has_spoken[CROWD];
    bool says_hello; /* once connected; otherwise it stays silent */
    uint32_t n_ever;
    void (*on_task)(struct bed *bed, struct io_task *task); /* on_task of the job */
};

static struct crowd crowd;

static void crowd_leave(uint32_t place)
{
    if (crowd.streams[place] != NULL) {
        crowd.job->bed.hosts[0].env->oob->close(crowd.streams[place], true);
    }
    crowd.streams[place] = NULL;
    crowd.has_spoken[place] = false;
}

/* A HELLO, made without the key. */
static void crowd_speak(uint32_t place)
{
    static const uint8_t header[] = {'W', 'E', 'F', 'T', 0, 3, 0, 1, 0, 0, 0, 48};
    const struct io_oob_ops *oob = crowd.job->bed.hosts[0].env->oob;
    uint8_t hello[sizeof(header) + 48] = {0};
    size_t n;

    memcpy(hello, header, sizeof(header));
    memset(hello + sizeof(header), (int)place + 1, 24);
    hello[sizeof(header) + 27] = 1; /* attempt */
    if (crowd.streams[place] != NULL && !crowd.has_spoken[place] &&
        oob->connected(crowd.streams[place]) == 0) {
        crowd.has_spoken[place] = true;
        (void)oob->send(crowd.streams[place], hello, sizeof(hello), &n);
    }
}

static void crowd_on_task(struct bed *bed, struct io_task *task)
{
    for (uint32_t i = 0; task == &crowd.task && crowd.says_hello && i < CROWD; i++) {
        crowd_speak(i);
    }
    crowd.on_task(bed, task);
}

static void crowd_open(struct job *job, uint32_t host, bool says_hello)
{
    crowd =
        (struct crowd){.job = job, .says_hello = says_hello, .on_task = job->bed.on_task};
    job->bed.on_task = crowd_on_task;
    io_task_init(&crowd.task, job->bed.loop, host, BED_KIND_TEST);
}

/* Lets a millisecond pass, in which more clients connect. */
static void crowd_go_on(void)
{
    struct io_env *env = crowd.job->bed.hosts[crowd.task.host].env;

    for (uint32_t i = 0; i < CROWD_PER_MS; i++) {
        uint32_t place = crowd.n_ever++ % CROWD;

        crowd_leave(place);
        ck_assert_int_eq(env->oob->connect(env, NULL, &crowd.job->config.rendezvous,
                                           &crowd.task, &crowd.streams[place]),
                         0);
    }
    bed_run(&crowd.job->bed, BED_MS, NULL);
}

static void crowd_close(void)
{
    for (uint32_t i = 0; i < CROWD; i++) {
        crowd_leave(i);
    }
    io_task_fini(&crowd.task);
}

/* In a round trip of 20 ms, 400 clients connect from rank 1's own host: ten times as many as the
 * listener has slots. */
START_TEST(members_get_in_beside_a_flood_from_their_own_host)
{
    struct job job;
    uint32_t n_ms = 0;

    job_open_slow(&job, 72, NULL, INT64_C(10000000000));
    job_open_rank(&job, 0);
    crowd_open(&job, 1, _i == 1);
    for (uint32_t i = 0; i < 100; i++) {
        crowd_go_on();
    }
    job_open_rank(&job, 1);
    job_open_rank(&job, 2);
    for (uint32_t r = 0; r < RANKS; r++) {
        gather(&job, r, 1, 4);
    }
    while (!job_is_settled(&job.bed) && n_ms < 1000) {
        crowd_go_on();
        n_ms++;
    }
    ck_assert_uint_lt(n_ms, 400);
    for (uint32_t r = 0; r < RANKS; r++) {
        check_result(&job, r, 1, 4);
    }
    crowd_close();
    job_close(&job);
}
END_TEST

/* A slow client of another host keeps its slot, however many clients connect from one source. */
START_TEST(a_source_makes_room_for_its_own)
{
    struct job job;
    struct io_task task;
    struct io_stream *slow;
    struct io_env *env;
    uint8_t byte;
    size_t n;

    job_open(&job, 73, NULL);
    job_open_rank(&job, 0);
    env = job.bed.hosts[2].env;
    io_task_init(&task, job.bed.loop, 2, BED_KIND_TEST);
    ck_assert_int_eq(env->oob->connect(env, NULL, &job.config.rendezvous, &task, &slow),
                     0);
    crowd_open(&job, 1, _i == 1);
    for (uint32_t i = 0; i < 200; i++) {
        crowd_go_on();
        ck_assert_int_eq(env->oob->recv(slow, &byte, 1, &n), EAGAIN);
    }
    env->oob->close(slow, true);
    io_task_fini(&task);
    crowd_close();
    job_close(&job);
}
END_TEST

START_TEST(one_rank_is_a_job_and_a_bad_rank_is_none)
{
    struct job job;
    struct weft_error error = {0};

    job_open(&job, 72, NULL);
    job.config.n_ranks = 1;
    job_open_rank(&job, 0);
    gather(&job, 0, 3, 5);
    ck_assert(bed_run(&job.bed, BED_S, job_is_settled));
    ck_assert_mem_eq(boot_result(job.boots[0]), "\x30\x30\x30\x30\x30", 5);
    job.config.rank = 1;
    ck_assert_int_eq(job_try_open(&job, 1, &error), WEFT_ERR_INPUT);
    job.config.rank = 0;
    ck_assert_int_eq(job_try_open(&job, 1, &error),
                     WEFT_ERR_SYSTEM); /* not this host's address */
    ck_assert_int_eq(error.sys_errno, EADDRNOTAVAIL);
    boot_close(NULL);
    job_close(&job);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("boot");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, ranks_gather_blobs_of_any_size);
    tcase_add_loop_test(tcase, splitting_the_streams_changes_nothing, 0, 9);
    tcase_add_test(tcase, the_order_of_coming_does_not_matter);
    tcase_add_test(tcase, who_does_not_come_is_named_to_all);
    tcase_add_test(tcase, a_rendezvous_that_is_not_there_is_rank_0s);
    tcase_add_test(tcase, a_rank_that_came_first_hears_who_is_missing);
    tcase_add_test(tcase, a_rank_0_that_does_not_answer_has_no_errno);
    tcase_add_loop_test(tcase, a_rendezvous_out_of_reach_is_given_up, 0,
                        (int)WEFT_LENGTH(unreached));
    tcase_add_test(tcase, who_is_late_is_named_to_all);
    tcase_add_loop_test(tcase, who_works_is_waited_for, 0, WEFT_LENGTH(worker_cases));
    tcase_add_loop_test(tcase, who_goes_is_named_to_all, 0, 3 * RANKS);
    tcase_add_loop_test(tcase, a_stream_that_ends_is_a_death_and_known_at_once, 0, RANKS);
    tcase_add_test(tcase, a_stream_that_ends_after_the_result_is_no_failure_of_the_round);
    tcase_add_loop_test(tcase, the_management_network_may_be_away, 0, RANKS + 1);
    tcase_add_loop_test(tcase, a_call_that_fails_here_is_no_death_of_the_peer, 0, 16);
    tcase_add_test(tcase, leaving_when_all_is_done_is_no_failure);
    tcase_add_test(tcase, another_job_key_does_not_get_in);
    tcase_add_loop_test(tcase, a_rank_that_is_wrong_about_the_job_does_not_get_in, 0, 2);
    tcase_add_test(tcase, a_fast_rank_goes_on_while_a_slow_one_reads);
    tcase_add_test(tcase, who_gives_up_is_reported_once);
    tcase_add_test(tcase, who_does_not_take_the_result_is_named);
    tcase_add_loop_test(tcase, a_piece_out_of_order_is_refused, 0, 6);
    tcase_add_loop_test(tcase, blobs_of_different_sizes_are_told, 0, 2);
    tcase_add_test(tcase, strangers_do_not_disturb);
    tcase_add_loop_test(tcase, members_get_in_beside_a_flood_from_their_own_host, 0, 2);
    tcase_add_loop_test(tcase, a_source_makes_room_for_its_own, 0, 2);
    tcase_add_test(tcase, one_rank_is_a_job_and_a_bad_rank_is_none);
    return suite_run(suite);
}
