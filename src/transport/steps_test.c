/* Tests two ends of a ring of steps: every order in which they can be woken, and each end when
 * the other writes invalid values. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "transport/steps.h"

#define STEP 4096u
#define MESSAGES 4
#define BYTES_MAX (11u * STEP)

/* A GPU whose copies complete at the poll after `n_late` others. */
struct slow_gpu {
    struct io_gpu io;
    unsigned n_late;
};

static int slow_start(struct io_gpu *gpu, struct io_gpu_op *op)
{
    op->done = false;
    op->backend[0] = NULL;
    (void)gpu;
    return 0;
}

static int slow_poll(struct io_gpu *gpu, struct io_gpu_op *op)
{
    const struct slow_gpu *slow = weft_container_of(gpu, struct slow_gpu, io);
    uintptr_t n = (uintptr_t)op->backend[0];

    if (n < slow->n_late) {
        op->backend[0] = (void *)(n + 1);
        return EINPROGRESS;
    }
    if (!op->done) {
        memcpy(op->out, op->a, op->count);
        op->done = true;
    }
    return 0;
}

static const struct io_gpu_ops slow_ops = {.start = slow_start, .poll = slow_poll};

static struct slow_gpu gpu;
static struct steps_control control;
static uint8_t memory[STEPS_N * STEP];
static struct steps ends[2]; /* sender, receiver */
static const size_t sizes[MESSAGES] = {0, 1, BYTES_MAX, STEP};
static uint8_t sent[MESSAGES][BYTES_MAX], got[MESSAGES][BYTES_MAX];
static const uint8_t zeroes[BYTES_MAX];

static void setup(void)
{
    gpu = (struct slow_gpu){.io = {.ops = &slow_ops}};
    memset(&control, 0, sizeof(control));
    memset(memory, 0, sizeof(memory));
    memset(got, 0, sizeof(got));
    for (int m = 0; m < MESSAGES; m++) {
        for (size_t i = 0; i < BYTES_MAX; i++) {
            sent[m][i] = (uint8_t)(i * 7 + i / 251 + (size_t)m * 31);
        }
    }
    for (int i = 0; i < 2; i++) {
        struct steps_config config = {.gpu = &gpu.io,
                                      .control = &control,
                                      .memory = memory,
                                      .step_bytes = STEP,
                                      .peer = i == 0 ? 1 : 0,
                                      .is_sender = i == 0};

        steps_init(&ends[i], &config);
    }
}

static struct steps_request *requests[2][MESSAGES];
static int n_posted[2], n_ended[2];

/* Does what a rank does when it runs: posts what it can, and tests its requests in order. */
static void look_at(int who)
{
    struct steps *end = &ends[who];
    size_t n_bytes = SIZE_MAX;

    while (n_posted[who] < MESSAGES &&
           steps_post(end, who == 0 ? sent[n_posted[0]] : got[n_posted[1]],
                      who == 0 ? sizes[n_posted[0]] : BYTES_MAX,
                      &requests[who][n_posted[who]]) == WEFT_OK) {
        n_posted[who]++;
    }
    steps_progress(end);
    while (n_ended[who] < n_posted[who] &&
           steps_test(end, requests[who][n_ended[who]], &n_bytes) == WEFT_OK) {
        ck_assert_uint_eq(n_bytes, sizes[n_ended[who]]);
        n_ended[who]++;
    }
}

/* Runs each end only after it was woken: by its start, by a bell, or by a copy in progress. The
 * bits of `choices` select the end to run while both are awake. Fails if both sleep before all
 * messages are done. */
static void run(unsigned choices, unsigned n_late)
{
    bool awake[2] = {true, true};

    setup();
    gpu.n_late = n_late;
    memset(n_posted, 0, sizeof(n_posted));
    memset(n_ended, 0, sizeof(n_ended));
    while (n_ended[0] < MESSAGES || n_ended[1] < MESSAGES) {
        int who = awake[0] && awake[1] ? (int)(choices & 1) : awake[1];

        ck_assert_msg(awake[0] || awake[1], "both sleep: %d and %d of %d messages, %#x",
                      n_ended[0], n_ended[1], MESSAGES, choices);
        choices >>= awake[0] && awake[1];
        look_at(who);
        awake[who] = steps_is_copying(&ends[who]);
        if (ends[who].must_ring) {
            ends[who].must_ring = false;
            awake[1 - who] = true;
        }
    }
    for (int m = 0; m < MESSAGES; m++) {
        ck_assert_mem_eq(got[m], sent[m], sizes[m]);
        ck_assert_mem_eq(got[m] + sizes[m], zeroes, BYTES_MAX - sizes[m]);
    }
    ck_assert_uint_eq(ends[1].n_messages, MESSAGES);
    ck_assert_uint_eq(ends[1].n_bytes, ends[0].n_bytes);
}

START_TEST(nobody_sleeps_for_ever_in_any_order)
{
    for (unsigned choices = 0; choices < 1u << 10; choices++) {
        run(choices, choices % 3);
    }
}
END_TEST

static struct steps_request *post(int who, void *data, size_t n_bytes)
{
    struct steps_request *request;

    ck_assert_int_eq(steps_post(&ends[who], data, n_bytes, &request), WEFT_OK);
    return request;
}

START_TEST(a_sender_without_a_free_step_waits)
{
    struct steps_request *request;

    setup();
    for (unsigned i = 0; i < STEPS_N; i++) {
        request = post(0, sent[0], 1);
        ck_assert_int_eq(steps_test(&ends[0], request, NULL), WEFT_OK);
    }
    request = post(0, sent[0], 1);
    ck_assert_int_eq(steps_test(&ends[0], request, NULL), WEFT_AGAIN);
    ck_assert(!ends[0].must_ring);
    /* The receiver takes one, sees that the sender sleeps, and must ring. */
    ck_assert_int_eq(steps_test(&ends[1], post(1, got[0], 1), NULL), WEFT_OK);
    ck_assert(ends[1].must_ring);
    steps_progress(&ends[0]);
    ck_assert_int_eq(steps_test(&ends[0], request, NULL), WEFT_OK);
}
END_TEST

START_TEST(requests_are_bounded)
{
    struct steps_request *request;

    setup();
    for (unsigned i = 0; i < STEPS_REQUESTS; i++) {
        post(1, got[0], 1);
    }
    ck_assert_int_eq(steps_post(&ends[1], got[0], 1, &request), WEFT_AGAIN);
}
END_TEST

static void assert_failed(int who, const char *message)
{
    struct steps_request *request;

    steps_progress(&ends[who]);
    ck_assert_int_eq(ends[who].error.status, WEFT_ERR_PROTOCOL);
    ck_assert_str_eq(ends[who].error.message, message);
    ck_assert_int_eq(steps_post(&ends[who], got[0], 1, &request), WEFT_ERR_PROTOCOL);
}

START_TEST(nonsense_of_the_other_end_is_an_error)
{
    setup();
    doorbell_publish(&control.head, 1); /* a step that was never filled */
    assert_failed(0, "rank 1: its counter of steps jumped to 1");

    setup();
    doorbell_publish(&control.tail, STEPS_N + 1);
    assert_failed(1, "rank 0: its counter of steps jumped to 9");

    setup();
    post(1, got[0], BYTES_MAX);
    atomic_store(&control.pieces[0], (uint64_t)(STEP + 1) << 2 | 1);
    doorbell_publish(&control.tail, 1);
    assert_failed(1, "rank 0: a step cannot hold 4097");

    setup();
    post(1, got[0], 16);
    atomic_store(&control.pieces[0], 17 << 2 | 1);
    doorbell_publish(&control.tail, 1);
    assert_failed(1,
                  "rank 0: its message is longer than what was posted, by a piece of 17");

    setup();
    post(1, got[0], 1);
    atomic_store(&control.pieces[0], 1 << 2 | 1);
    doorbell_publish(&control.tail, 1);
    steps_progress(&ends[1]);
    doorbell_publish(&control.tail, 0);
    assert_failed(1, "rank 0: its counter of steps jumped to 0");
}
END_TEST

START_TEST(what_is_open_fails_with_the_ring)
{
    struct weft_error error = {0};
    struct steps_request *open, *done;
    uint64_t looks;

    setup();
    ck_assert_int_eq(steps_test(&ends[0], post(0, sent[1], 1), NULL), WEFT_OK);
    done = post(1, got[1], 1);
    open = post(1, got[2], 1);
    looks = ends[1].n_looks;
    weft_fail(&error, WEFT_ERR_CLOSED, WEFT_PHASE_INSIDE, "rank 0 died");
    steps_fail(&ends[1], &error);
    ck_assert_uint_ne(ends[1].n_looks, looks);
    ck_assert_int_eq(steps_test(&ends[1], done, NULL), WEFT_OK); /* it had arrived */
    ck_assert_int_eq(steps_test(&ends[1], open, NULL), WEFT_ERR_CLOSED);
    ck_assert_str_eq(ends[1].error.message, "rank 0 died");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport/steps");
    TCase *tests = tcase_create("steps");

    tcase_add_test(tests, nobody_sleeps_for_ever_in_any_order);
    tcase_add_test(tests, a_sender_without_a_free_step_waits);
    tcase_add_test(tests, requests_are_bounded);
    tcase_add_test(tests, nonsense_of_the_other_end_is_an_error);
    tcase_add_test(tests, what_is_open_fails_with_the_ring);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
