/* Tests the plugin's engine over simulated NICs: the calls that NCCL makes, and failures that it
 * must survive. */
#include "plugin/engine.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "plugin/engine_private.h"
#include "plugin/engine_testing.h"

#define SECOND INT64_C(1000000000)
#define SLOT_BYTES 70000u
#define SLOTS 16u

static struct harness harness;

/* ---- random legal calls ---- */

/* Both ends of a connection. The receiver posts groups. The sender knows their number of
 * messages and tags, as it would from NCCL. */
struct line {
    struct engine_comm *out, *in;
    struct engine_memory *out_memory, *in_memory;
    uint8_t *sent, *received; /* SLOTS x SLOT_BYTES */
    struct {
        struct engine_request *request;
        uint32_t n; /* 0 if no group is in progress */
        size_t sizes[ENGINE_GROUP_MAX];
        struct engine_request *sends[ENGINE_GROUP_MAX];
        bool is_sent[ENGINE_GROUP_MAX], is_done[ENGINE_GROUP_MAX];
    } groups[SLOTS];
    uint32_t n_posted, n_received; /* numbers of groups */
};

static void open_line(struct line *line, uint32_t from, uint32_t to)
{
    struct weft_error error = {0};

    memset(line, 0, sizeof(*line));
    harness_connect(&harness, from, to, &line->out, &line->in);
    line->sent = weft_calloc(SLOTS, SLOT_BYTES);
    line->received = weft_calloc(SLOTS, SLOT_BYTES);
    ck_assert_int_eq(harness_register(line->out, line->sent, SLOTS * SLOT_BYTES,
                                      &line->out_memory, &error),
                     WEFT_OK);
    ck_assert_int_eq(harness_register(line->in, line->received, SLOTS * SLOT_BYTES,
                                      &line->in_memory, &error),
                     WEFT_OK);
}

static void close_line(struct line *line)
{
    engine_deregister(line->out, line->out_memory);
    engine_deregister(line->in, line->in_memory);
    engine_close(line->out);
    engine_close(line->in);
    free(line->sent);
    free(line->received);
}

static size_t share(uint32_t n)
{
    return SLOT_BYTES / n;
}

static void post_group(struct line *line, struct weft_rng *rng)
{
    uint32_t slot = line->n_posted % SLOTS;
    uint32_t n = weft_rng_below(rng, 3) == 0 ? 1 + (uint32_t)weft_rng_below(rng, 8) : 1;
    void *data[ENGINE_GROUP_MAX];
    size_t posted[ENGINE_GROUP_MAX];
    uint32_t tags[ENGINE_GROUP_MAX];
    struct engine_memory *memories[ENGINE_GROUP_MAX];

    if (line->groups[slot].n != 0) {
        return;
    }
    memset(&line->groups[slot], 0, sizeof(line->groups[slot]));
    for (uint32_t i = 0; i < n; i++) {
        data[i] = line->received + slot * SLOT_BYTES + i * share(n);
        line->groups[slot].sizes[i] = (size_t)weft_rng_below(rng, share(n) + 1);
        posted[i] =
            line->groups[slot].sizes[i] +
            (size_t)weft_rng_below(rng, share(n) - line->groups[slot].sizes[i] + 1);
        tags[i] = 7 + i;
        memories[i] = line->in_memory;
        memset(data[i], 0xee, share(n));
    }
    if (engine_irecv(line->in, n, data, posted, tags, memories,
                     &line->groups[slot].request) == WEFT_OK) {
        line->groups[slot].n = n;
        line->n_posted++;
    }
}

static uint8_t byte_of(uint32_t group, uint32_t i, size_t at)
{
    return (uint8_t)(group * 131 + i * 17 + at * 7 + (at >> 8));
}

/* Sends one message of the oldest group that has one left, starting at a random one. */
static void send_some(struct line *line, struct weft_rng *rng)
{
    uint32_t first = (uint32_t)weft_rng_below(rng, ENGINE_GROUP_MAX);

    for (uint32_t k = 0; k < (line->n_posted - line->n_received) * ENGINE_GROUP_MAX;
         k++) {
        uint32_t g = line->n_received + k / ENGINE_GROUP_MAX;
        uint32_t i = (first + k) % ENGINE_GROUP_MAX, slot = g % SLOTS;
        uint8_t *data;

        if (i >= line->groups[slot].n || line->groups[slot].is_sent[i]) {
            continue;
        }
        data = line->sent + slot * SLOT_BYTES + i * share(line->groups[slot].n);
        for (size_t at = 0; at < line->groups[slot].sizes[i]; at++) {
            data[at] = byte_of(g, i, at);
        }
        if (engine_isend(line->out, data, line->groups[slot].sizes[i], 7 + i,
                         line->out_memory, &line->groups[slot].sends[i]) == WEFT_OK) {
            line->groups[slot].is_sent[i] = true;
        }
        return;
    }
}

static void test_sends(struct line *line, uint32_t slot)
{
    size_t sizes[ENGINE_GROUP_MAX];
    uint32_t n;

    for (uint32_t i = 0; i < line->groups[slot].n; i++) {
        if (!line->groups[slot].is_sent[i] || line->groups[slot].is_done[i] ||
            engine_test(line->groups[slot].sends[i], sizes, &n) != WEFT_OK) {
            continue;
        }
        ck_assert_uint_eq(n, 1);
        ck_assert_uint_eq(sizes[0], line->groups[slot].sizes[i]);
        line->groups[slot].is_done[i] = true;
    }
}

static size_t first_wrong(const uint8_t *data, uint32_t group, uint32_t i, size_t n)
{
    size_t at = 0;

    while (at < n && data[at] == byte_of(group, i, at)) {
        at++;
    }
    return at;
}

static void test_receive(struct line *line, uint32_t slot)
{
    size_t sizes[ENGINE_GROUP_MAX];
    uint32_t n;

    if (line->groups[slot].request == NULL ||
        engine_test(line->groups[slot].request, sizes, &n) != WEFT_OK) {
        return;
    }
    line->groups[slot].request = NULL;
    ck_assert_uint_eq(n, line->groups[slot].n);
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *data = line->received + slot * SLOT_BYTES + i * share(n);

        ck_assert_uint_eq(sizes[i], line->groups[slot].sizes[i]);
        ck_assert_uint_eq(first_wrong(data, line->n_received, i, sizes[i]), sizes[i]);
    }
}

static void test_some(struct line *line)
{
    uint32_t slot = line->n_received % SLOTS;
    bool all = line->n_received < line->n_posted;

    if (!all) {
        return;
    }
    test_sends(line, slot);
    test_receive(line, slot);
    for (uint32_t i = 0; i < line->groups[slot].n; i++) {
        all = all && line->groups[slot].is_done[i];
    }
    if (all && line->groups[slot].request == NULL) {
        line->groups[slot].n = 0;
        line->n_received++;
    }
}

static void finish(struct line *line, struct weft_rng *rng)
{
    weft_ns until = harness_now(&harness) + 60 * SECOND;

    while (line->n_received < line->n_posted) {
        send_some(line, rng);
        test_some(line);
        ck_assert_msg(harness_step(&harness, until) || harness_now(&harness) < until,
                      "a message does not arrive");
    }
}

/* Makes one random call, or lets some time pass. */
static void call_something(struct line *lines, uint32_t n_lines, struct weft_rng *rng)
{
    struct line *line = &lines[weft_rng_below(rng, n_lines)];

    switch (weft_rng_below(rng, 4)) {
    case 0:
        post_group(line, rng);
        break;
    case 1:
        send_some(line, rng);
        break;
    case 2:
        test_some(line);
        break;
    default:
        (void)harness_step(&harness, harness_now(&harness) + 20000);
        break;
    }
}

START_TEST(twelve_thousand_random_legal_calls_keep_the_contract)
{
    struct line lines[6];
    struct weft_rng rng;
    uint32_t n = 0, n_groups = 0;

    weft_rng_init(&rng, (uint64_t)_i, "calls");
    harness_open(&harness, 3, (uint32_t)(1 + _i % 2));
    for (uint32_t from = 0; from < 3; from++) {
        for (uint32_t to = 0; to < 3; to++) {
            if (from != to) {
                open_line(&lines[n++], from, to);
            }
        }
    }
    for (uint32_t i = 0; i < 12000; i++) {
        call_something(lines, n, &rng);
    }
    for (uint32_t i = 0; i < n; i++) {
        finish(&lines[i], &rng);
        n_groups += lines[i].n_received;
        close_line(&lines[i]);
    }
    ck_assert_uint_gt(n_groups, 200);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* ci/bench-plugin runs this test to measure what a message costs NCCL's threads
 * (docs/benchmarks.md). */
START_TEST(small_messages_one_after_the_other)
{
    struct line line;
    const size_t posted = 64;
    const uint32_t tag = 7;

    harness_open(&harness, 2, 1);
    open_line(&line, 0, 1);
    for (uint32_t i = 0; i < 2000; i++) {
        struct engine_request *send, *receive;
        size_t sizes[ENGINE_GROUP_MAX];
        void *data = line.received;
        uint32_t n;

        ck_assert_int_eq(
            engine_irecv(line.in, 1, &data, &posted, &tag, &line.in_memory, &receive),
            WEFT_OK);
        ck_assert_int_eq(
            engine_isend(line.out, line.sent, 8, tag, line.out_memory, &send), WEFT_OK);
        harness_run(&harness, 100000);
        ck_assert_int_eq(engine_test(send, sizes, &n), WEFT_OK);
        ck_assert_int_eq(engine_test(receive, sizes, &n), WEFT_OK);
        ck_assert_uint_eq(sizes[0], 8);
    }
    close_line(&line);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* ---- cables ---- */

START_TEST(a_message_survives_a_cable_exactly_once)
{
    struct line line;
    struct weft_rng rng;
    const struct world_fault down = {
        .kind = WORLD_FAULT_DOWN, .host = 0, .has_port = true};

    weft_rng_init(&rng, 1, "cable");
    harness_open(&harness, 2, 2);
    open_line(&line, 0, 1);
    for (uint32_t i = 0; i < 4000; i++) {
        if (i == 2000) {
            ck_assert_int_eq(harness.world->ops->inject(harness.world, &down), 0);
        }
        call_something(&line, 1, &rng);
    }
    finish(&line, &rng);
    ck_assert_uint_gt(line.n_received, 40);
    close_line(&line);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

START_TEST(without_a_cable_the_error_is_told_and_others_go_on)
{
    struct line broken, whole;
    struct weft_rng rng;
    struct weft_error error;
    struct engine_request *request;
    const struct world_fault down = {
        .kind = WORLD_FAULT_DOWN, .host = 0, .has_port = true};
    weft_ns until;

    weft_rng_init(&rng, 1, "cable");
    harness_open(&harness, 3, 1);
    open_line(&broken, 0, 1);
    open_line(&whole, 0, 2);
    ck_assert_int_eq(harness.world->ops->inject(harness.world, &down), 0);
    post_group(&broken, &rng);
    until = harness_now(&harness) + 120 * SECOND;
    while (engine_isend(broken.out, broken.sent, 1, 7, broken.out_memory, &request) >=
           0) {
        for (uint32_t i = 0; i < 20; i++) {
            call_something(&whole, 1, &rng);
        }
        harness_run(&harness, SECOND / 10);
        ck_assert_int_lt(harness_now(&harness), until);
    }
    engine_comm_error(broken.out, &error);
    ck_assert_int_lt(error.status, 0);
    finish(&whole, &rng);
    ck_assert_uint_gt(whole.n_received, 10);
    close_line(&broken);
    close_line(&whole);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* ---- set-up ---- */

START_TEST(a_comm_goes_with_its_requests_open)
{
    struct line line, other;
    struct weft_rng rng;
    weft_ns until;

    weft_rng_init(&rng, 3, "abort");
    harness_open(&harness, 2, 1);
    open_line(&line, 0, 1);
    open_line(&other, 0, 1);
    for (uint32_t i = 0; i < 500; i++) {
        call_something(&line, 1, &rng);
    }
    post_group(&line, &rng);
    close_line(&line);
    for (uint32_t i = 0; i < 500; i++) {
        call_something(&other, 1, &rng);
    }
    finish(&other, &rng);
    close_line(&other);
    until = harness_now(&harness) + SECOND;
    while (harness_step(&harness, until)) {
    }
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* A request uses its memory from the post, even before the engine's thread has seen it, until it
 * is done. */
START_TEST(memory_is_in_use_while_a_request_names_it)
{
    struct line line;
    void *data;
    size_t sizes[ENGINE_GROUP_MAX] = {1000};
    uint32_t tag = 7, n;
    struct engine_request *receiving, *sending;
    weft_ns until;

    harness_open(&harness, 2, 1);
    open_line(&line, 0, 1);
    data = line.received;
    ck_assert(!engine_comm_uses(line.in, &line.in_memory->memory));
    ck_assert_int_eq(
        engine_irecv(line.in, 1, &data, sizes, &tag, &line.in_memory, &receiving),
        WEFT_OK);
    ck_assert(engine_comm_uses(line.in, &line.in_memory->memory));
    harness_run(&harness, SECOND / 1000);
    ck_assert(engine_comm_uses(line.in, &line.in_memory->memory));
    ck_assert(!engine_comm_uses(line.out, &line.out_memory->memory));
    ck_assert_int_eq(
        engine_isend(line.out, line.sent, 1000, 7, line.out_memory, &sending), WEFT_OK);
    ck_assert(engine_comm_uses(line.out, &line.out_memory->memory));
    until = harness_now(&harness) + SECOND;
    while (engine_test(receiving, sizes, &n) == WEFT_AGAIN) {
        ck_assert(harness_step(&harness, until));
    }
    while (engine_test(sending, sizes, &n) == WEFT_AGAIN) {
        ck_assert(harness_step(&harness, until));
    }
    ck_assert(!engine_comm_uses(line.in, &line.in_memory->memory));
    ck_assert(!engine_comm_uses(line.out, &line.out_memory->memory));
    close_line(&line);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* One end closes while the other has a receive open. The receive stays open, no request is
 * started any more, and nothing is leaked. */
START_TEST(a_receive_from_a_peer_that_closed_stays_open)
{
    struct line line;
    struct engine_request *request = NULL;
    struct weft_rng rng;
    size_t sizes[ENGINE_GROUP_MAX];
    uint32_t n;
    weft_ns until;

    weft_rng_init(&rng, 3, "abort");
    harness_open(&harness, 2, 1);
    open_line(&line, 0, 1);
    post_group(&line, &rng);
    request = line.groups[0].request;
    engine_deregister(line.out, line.out_memory);
    engine_close(line.out);
    until = harness_now(&harness) + 60 * SECOND;
    while (harness_step(&harness, until)) {
        ck_assert_int_eq(engine_test(request, sizes, &n), WEFT_AGAIN);
    }
    ck_assert_int_eq(engine_irecv(line.in, 1, &(void *){line.received}, &(size_t){8},
                                  &(uint32_t){1}, &line.in_memory, &request),
                     WEFT_AGAIN);
    ck_assert_ptr_null(request);
    engine_deregister(line.in, line.in_memory);
    engine_close(line.in);
    free(line.sent);
    free(line.received);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all"), *small = tcase_create("small");
    Suite *suite = suite_create("plugin/engine");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, twelve_thousand_random_legal_calls_keep_the_contract, 0,
                        20);
    tcase_add_test(tcase, a_message_survives_a_cable_exactly_once);
    tcase_add_test(tcase, without_a_cable_the_error_is_told_and_others_go_on);
    tcase_add_test(tcase, a_comm_goes_with_its_requests_open);
    tcase_add_test(tcase, memory_is_in_use_while_a_request_names_it);
    tcase_add_test(tcase, a_receive_from_a_peer_that_closed_stays_open);
    tcase_add_test(small, small_messages_one_after_the_other);
    suite_add_tcase(suite, tcase);
    suite_add_tcase(suite, small);
    return suite_run(suite);
}
