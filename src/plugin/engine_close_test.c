/* Tests ends that close as soon as their own requests are done, or as soon as they have their
 * comm. The close is placed after every event of a simulated mesh, and the other end must
 * succeed. */
#include "plugin/engine.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "plugin/engine_testing.h"

#define SECOND INT64_C(1000000000)
#define MS INT64_C(1000000)

static struct harness harness;

/* ---- meshes ---- */

enum mesh { ONE_CABLE, TWO_CABLES, ONE_RELAY, TWO_RELAYS, TWO_ROUTES, N_MESHES };

static uint32_t open_mesh(enum mesh mesh)
{
    static const struct harness_cable line[] = {{0, 1}, {1, 2}, {2, 3}};
    static const struct harness_cable ring[] = {{0, 1}, {1, 2}, {2, 3}, {3, 0}};
    uint32_t peer = 1;

    if (mesh <= TWO_CABLES) {
        harness_open(&harness, 2, mesh == ONE_CABLE ? 1 : 2);
        return peer;
    }
    peer = mesh == TWO_RELAYS ? 3 : 2;
    if (mesh == TWO_ROUTES) {
        harness_open_cables(&harness, 4, ring, 4, NULL);
    } else {
        harness_open_cables(&harness, peer + 1, line, peer, NULL);
    }
    harness_run(&harness, 3 * SECOND); /* waits for beacons */
    return peer;
}

static void close_mesh(void)
{
    harness_expect_idle(&harness);
    harness_close(&harness);
}

/* ---- one message or group ---- */

enum end { SENDER, RECEIVER };

struct message {
    struct engine_comm *comms[2]; /* indexed by enum end; NULL if closed */
    struct engine_memory *memories[2];
    uint8_t *bytes[2];
    size_t size;
    uint32_t n; /* number of messages in the group */
    struct engine_request *sends[ENGINE_GROUP_MAX], *receive;
    uint32_t n_sent; /* number of sends that are done */
    bool is_received;
};

static void open_message(struct message *message, uint32_t to, size_t size, uint32_t n)
{
    struct weft_error error = {0};
    struct weft_rng rng;

    *message = (struct message){.size = size, .n = n};
    harness_connect(&harness, 0, to, &message->comms[SENDER], &message->comms[RECEIVER]);
    for (int end = 0; end < 2; end++) {
        message->bytes[end] = weft_calloc(n, size + 1);
        ck_assert_int_eq(harness_register(message->comms[end], message->bytes[end],
                                          n * (size + 1), &message->memories[end],
                                          &error),
                         WEFT_OK);
    }
    weft_rng_init(&rng, size, "message");
    weft_rng_bytes(&rng, message->bytes[SENDER], n * (size + 1));
}

static void post(struct message *message)
{
    void *data[ENGINE_GROUP_MAX];
    size_t sizes[ENGINE_GROUP_MAX];
    uint32_t tags[ENGINE_GROUP_MAX];
    struct engine_memory *memories[ENGINE_GROUP_MAX];

    for (uint32_t i = 0; i < message->n; i++) {
        data[i] = message->bytes[RECEIVER] + i * (message->size + 1);
        sizes[i] = message->size;
        tags[i] = 5 + i;
        memories[i] = message->memories[RECEIVER];
    }
    ck_assert_int_eq(engine_irecv(message->comms[RECEIVER], message->n, data, sizes, tags,
                                  memories, &message->receive),
                     WEFT_OK);
    for (uint32_t i = message->n; i-- > 0;) {
        ck_assert_int_eq(engine_isend(message->comms[SENDER],
                                      message->bytes[SENDER] + i * (message->size + 1),
                                      message->size, tags[i], message->memories[SENDER],
                                      &message->sends[i]),
                         WEFT_OK);
    }
}

/* Tests all open requests of one end. */
static weft_status look(struct message *message, enum end end)
{
    size_t sizes[ENGINE_GROUP_MAX];
    weft_status status = WEFT_OK;
    uint32_t n = 0;

    if (end == RECEIVER) {
        status =
            message->is_received ? WEFT_OK : engine_test(message->receive, sizes, &n);
        message->is_received = status == WEFT_OK;
        for (uint32_t i = 0; i < n; i++) {
            ck_assert_uint_eq(sizes[i], message->size);
        }
        return status;
    }
    for (uint32_t i = 0; i < message->n; i++) {
        weft_status one = message->sends[i] == NULL
                              ? WEFT_OK
                              : engine_test(message->sends[i], sizes, &n);

        if (one == WEFT_OK) {
            message->sends[i] = NULL;
        }
        status = status == WEFT_OK || one < 0 ? one : status;
    }
    return status;
}

static void close_end(struct message *message, enum end end)
{
    engine_deregister(message->comms[end], message->memories[end]);
    engine_close_now(message->comms[end]);
    message->comms[end] = NULL;
}

static void check_bytes(const struct message *message)
{
    for (uint32_t i = 0; i < message->n; i++) {
        size_t at = i * (message->size + 1);

        ck_assert_mem_eq(message->bytes[RECEIVER] + at, message->bytes[SENDER] + at,
                         message->size);
    }
}

static weft_status wait_for(struct message *message, enum end end, weft_ns for_ns)
{
    weft_ns until = harness_now(&harness) + for_ns;
    weft_status status = look(message, end);

    while (status == WEFT_AGAIN && harness_step(&harness, until)) {
        status = look(message, end);
    }
    return status;
}

static void free_message(struct message *message)
{
    for (int end = 0; end < 2; end++) {
        if (message->comms[end] != NULL) {
            close_end(message, (enum end)end);
        }
        free(message->bytes[end]);
    }
}

/* One end closes after `n_events`. If its requests were done, those of the other end must
 * complete. Otherwise a sender's may fail, and a receiver's may stay open. Returns true if all
 * requests were done before the close. */
static bool close_after(uint32_t to, size_t size, uint32_t n, enum end first,
                        uint32_t n_events, bool is_killed)
{
    enum end other = first == SENDER ? RECEIVER : SENDER;
    struct message message;
    bool is_promised, is_over;
    weft_status status;

    open_message(&message, to, size, n);
    post(&message);
    for (uint32_t i = 0; i < n_events; i++) {
        harness_step(&harness, harness_now(&harness) + SECOND);
    }
    is_promised = look(&message, first) == WEFT_OK;
    is_over = is_promised && look(&message, other) == WEFT_OK;
    close_end(&message, first);
    if (is_killed) {
        harness_kill(&harness, first == SENDER ? 0 : to);
    }
    status = wait_for(&message, other, is_promised ? 5 * SECOND : 200 * MS);
    if (is_promised) {
        ck_assert_msg(status == WEFT_OK,
                      "%zu bytes, %u messages, the %s closes after %u events: %s", size,
                      n, first == SENDER ? "sender" : "receiver", n_events,
                      weft_status_name(status));
        check_bytes(&message);
    } else if (other == RECEIVER) {
        ck_assert_int_ge(status, 0);
    }
    close_end(&message, other);
    free_message(&message);
    if (is_killed) {
        harness_restart(&harness, first == SENDER ? 0 : to);
    }
    return is_over;
}

/* Tries every event up to the last that matters; with long messages only some of them, and those
 * before the last. */
static void sweep(uint32_t to, size_t size, uint32_t n, bool is_killed)
{
    for (int first = 0; first < 2; first++) {
        uint32_t n_events = 0, step = 1;

        while (!close_after(to, size, n, (enum end)first, n_events, is_killed)) {
            step = n_events > 200 ? 1 + n_events / 16 : 1;
            n_events += step;
        }
        /* Go back over the skipped events, to where not all was done. */
        for (uint32_t i = 1; step > 1 && i < 60 && i < n_events; i++) {
            if (suite_takes(i)) {
                close_after(to, size, n, (enum end)first, n_events - i * (step / 40 + 1),
                            is_killed);
            }
        }
    }
}

/* The process of the other end is descheduled after `n_events`, and runs again when the first
 * has closed, so that it finds completions and CLOSE at the same time. Returns true if the first
 * end was done before. */
static bool close_while_held(uint32_t to, size_t size, uint32_t n, enum end first,
                             uint32_t n_events)
{
    enum end other = first == SENDER ? RECEIVER : SENDER;
    uint32_t host = other == SENDER ? 0 : to;
    struct message message;
    bool is_promised, is_early;
    weft_status status;

    open_message(&message, to, size, n);
    post(&message);
    for (uint32_t i = 0; i < n_events; i++) {
        harness_step(&harness, harness_now(&harness) + SECOND);
    }
    is_early = look(&message, first) == WEFT_OK;
    harness_hold(&harness, host);
    is_promised = wait_for(&message, first, 2 * MS) == WEFT_OK;
    close_end(&message, first);
    harness_run(&harness, MS);
    harness_release(&harness, host);
    status = wait_for(&message, other, is_promised ? 5 * SECOND : 200 * MS);
    if (is_promised) {
        ck_assert_msg(status == WEFT_OK, "%zu bytes, the %s closes, held after %u: %s",
                      size, first == SENDER ? "sender" : "receiver", n_events,
                      weft_status_name(status));
        check_bytes(&message);
    } else if (other == RECEIVER) {
        ck_assert_int_ge(status, 0);
    }
    free_message(&message);
    return is_early;
}

START_TEST(an_end_that_is_descheduled_meanwhile_too)
{
    static const size_t sizes[] = {0, 8, 8192, 65536};
    uint32_t to = open_mesh((enum mesh)_i);

    for (size_t i = 0; i < WEFT_LENGTH(sizes); i++) {
        for (int first = 0; first < 2; first++) {
            uint32_t n_events = 0;

            while (!close_while_held(to, sizes[i], 1 + (uint32_t)i % 2, (enum end)first,
                                     n_events)) {
                n_events += n_events > 100 ? 5 : 1;
            }
        }
    }
    close_mesh();
}
END_TEST

START_TEST(what_was_done_at_one_end_is_done_at_the_other)
{
    static const size_t sizes[] = {0, 1, 8, 8192, 65536};
    uint32_t to = open_mesh((enum mesh)_i);

    for (size_t i = 0; i < WEFT_LENGTH(sizes); i++) {
        sweep(to, sizes[i], 1, false);
    }
    sweep(to, 300, 3, false);
    close_mesh();
}
END_TEST

START_TEST(long_messages_too)
{
    uint32_t to = open_mesh((enum mesh)_i);

    sweep(to, 1 << 20, 1, false);
    sweep(to, 131072, 2, false);
    close_mesh();
}
END_TEST

/* ---- lanes that fail at that moment ---- */

/* One of two cables goes down after `n_events`, and the receiver closes when it is done. The
 * sender's lane can have failed, so that it connects again to a closed end. */
static bool close_as_a_cable_fails(size_t size, uint32_t n_events)
{
    struct world_fault fault = {
        .kind = WORLD_FAULT_DOWN, .host = 0, .port = 0, .has_port = true};
    struct message message;
    bool is_over;

    open_message(&message, 1, size, 1);
    post(&message);
    for (uint32_t i = 0; i < n_events; i++) {
        harness_step(&harness, harness_now(&harness) + SECOND);
    }
    is_over = look(&message, RECEIVER) == WEFT_OK && look(&message, SENDER) == WEFT_OK;
    harness.world->ops->inject(harness.world, &fault);
    ck_assert_int_eq(wait_for(&message, RECEIVER, 5 * SECOND), WEFT_OK);
    close_end(&message, RECEIVER);
    ck_assert_msg(wait_for(&message, SENDER, 5 * SECOND) == WEFT_OK,
                  "%zu bytes, the cable fails after %u events", size, n_events);
    check_bytes(&message);
    free_message(&message);
    fault.kind = WORLD_FAULT_UP;
    harness.world->ops->inject(harness.world, &fault);
    harness_run(&harness, 100 * MS);
    return is_over;
}

START_TEST(a_cable_may_fail_as_the_receiver_closes)
{
    static const size_t sizes[] = {0, 8192, 65536};
    uint32_t n_events = 0;

    open_mesh(TWO_CABLES);
    while (!close_as_a_cable_fails(sizes[_i], n_events)) {
        n_events++;
    }
    close_mesh();
}
END_TEST

/* ---- receives that are done out of order ---- */

#define N_ORDERED 4

struct ordered {
    struct engine_comm *out, *in;
    struct engine_memory *out_memory, *in_memory;
    uint8_t *sent, *received;
    struct engine_request *sends[N_ORDERED], *receives[N_ORDERED];
    bool is_sent[N_ORDERED], is_received[N_ORDERED];
};

static const size_t ordered_sizes[N_ORDERED] = {1 << 20, 1, 40000, 0};

static void open_ordered(struct ordered *all, uint32_t to)
{
    struct weft_error error = {0};
    size_t at = 0;

    *all = (struct ordered){.sent = weft_calloc(2, 1 << 20)};
    all->received = weft_calloc(2, 1 << 20);
    harness_connect(&harness, 0, to, &all->out, &all->in);
    ck_assert_int_eq(
        harness_register(all->out, all->sent, 2 << 20, &all->out_memory, &error),
        WEFT_OK);
    ck_assert_int_eq(
        harness_register(all->in, all->received, 2 << 20, &all->in_memory, &error),
        WEFT_OK);
    for (uint32_t i = 0; i < N_ORDERED; i++) {
        void *data = all->received + at;

        ck_assert_int_eq(engine_irecv(all->in, 1, &data, &ordered_sizes[i],
                                      &(uint32_t){9}, &all->in_memory, &all->receives[i]),
                         WEFT_OK);
        ck_assert_int_eq(engine_isend(all->out, all->sent + at, ordered_sizes[i], 9,
                                      all->out_memory, &all->sends[i]),
                         WEFT_OK);
        at += ordered_sizes[i];
    }
}

static void look_at_all(struct engine_request **requests, bool *is_done)
{
    size_t sizes[ENGINE_GROUP_MAX];
    uint32_t n;

    for (uint32_t i = 0; i < N_ORDERED; i++) {
        is_done[i] = is_done[i] || engine_test(requests[i], sizes, &n) == WEFT_OK;
    }
}

/* The receiver closes after `n_events`. Returns the number of receives that were done. Sets
 * `out_any` if one was done before an earlier one. */
static uint32_t close_ordered(uint32_t to, uint32_t n_events, bool *out_any)
{
    struct ordered all;
    uint32_t n_done = 0;

    open_ordered(&all, to);
    for (uint32_t i = 0; i < n_events; i++) {
        harness_step(&harness, harness_now(&harness) + SECOND);
    }
    look_at_all(all.receives, all.is_received);
    engine_deregister(all.in, all.in_memory);
    engine_close_now(all.in);
    harness_run(&harness, 100 * MS);
    look_at_all(all.sends, all.is_sent);
    for (uint32_t i = 0; i < N_ORDERED; i++) {
        ck_assert_msg(all.is_sent[i] || !all.is_received[i],
                      "send %u is not done after %u events", i, n_events);
        *out_any = *out_any || (i > 0 && all.is_received[i] && !all.is_received[i - 1]);
        n_done += all.is_received[i];
    }
    engine_deregister(all.out, all.out_memory);
    engine_close_now(all.out);
    free(all.sent);
    free(all.received);
    return n_done;
}

START_TEST(receives_may_be_done_out_of_order)
{
    static const enum mesh meshes[] = {TWO_CABLES, TWO_ROUTES};
    uint32_t to = open_mesh(meshes[_i]), n_events = 0;
    bool any = false;

    while (close_ordered(to, n_events, &any) < N_ORDERED) {
        n_events += 7;
    }
    ck_assert(any);
    close_mesh();
}
END_TEST

/* Like the sweep above, but the process of the closing end exits as soon as close returns. */
START_TEST(a_process_may_exit_when_close_returns)
{
    static const size_t sizes[] = {0, 8192};
    uint32_t to = open_mesh((enum mesh)_i);

    for (size_t i = 0; i < WEFT_LENGTH(sizes); i++) {
        sweep(to, sizes[i], 1, true);
    }
    harness_close(&harness);
}
END_TEST

/* ---- set-up ---- */

struct set_up {
    struct engine_listen *listen;
    uint8_t handle[CONN_HANDLE_BYTES];
    struct engine_comm *comms[2];
};

static void ask(struct set_up *set_up, enum end end)
{
    struct weft_error error = {0};
    weft_status status;

    if (set_up->comms[end] != NULL) {
        return;
    }
    status = end == SENDER ? engine_connect(harness.engines[0], set_up->handle,
                                            &set_up->comms[end], &error)
                           : engine_accept(set_up->listen, &set_up->comms[end], &error);
    ck_assert_msg(status >= 0, "%s: %s in %s", end == SENDER ? "connect" : "accept",
                  error.message, weft_phase_name(error.phase));
}

/* Checks that neither a send nor a receive of an end without a peer completes or fails. */
static void check_alone(struct engine_comm *comm, enum end end)
{
    size_t sizes[ENGINE_GROUP_MAX], none = 0;
    struct engine_request *request = NULL;
    const uint32_t tag = 3;
    void *data = NULL;
    struct engine_memory *memory = NULL;
    weft_ns until = harness_now(&harness) + SECOND;
    uint32_t n;
    weft_status status =
        end == SENDER ? engine_isend(comm, NULL, 0, tag, NULL, &request)
                      : engine_irecv(comm, 1, &data, &none, &tag, &memory, &request);

    while (status >= 0 && harness_step(&harness, until)) {
        status = request == NULL ? WEFT_AGAIN : engine_test(request, sizes, &n);
    }
    ck_assert_int_eq(status, WEFT_AGAIN);
}

/* `first` calls connect or accept until it has its comm, and closes it `n_events` later. The
 * other end calls at every event, or (is_late) only after that close. Its process is descheduled
 * from event `held_at` until then. */
static void close_when_up(uint32_t to, enum end first, uint32_t n_events, bool is_late,
                          uint32_t held_at)
{
    enum end other = first == SENDER ? RECEIVER : SENDER;
    weft_ns until = harness_now(&harness) + 20 * SECOND;
    struct weft_error error = {0};
    struct set_up set_up = {.listen = NULL};
    uint32_t n_left = n_events, at = 0;
    weft_ns held_until = WEFT_NEVER;
    bool is_closed = false;

    ck_assert_int_eq(
        engine_listen(harness.engines[to], set_up.handle, &set_up.listen, &error),
        WEFT_OK);
    while (!is_closed || set_up.comms[other] == NULL) {
        if (!is_closed) {
            ask(&set_up, first);
        }
        /* A connection begins with connect. */
        if (!is_late || is_closed || (other == SENDER && set_up.comms[first] == NULL)) {
            ask(&set_up, other);
        }
        if (!is_closed && set_up.comms[first] != NULL && n_left-- == 0) {
            engine_close_now(set_up.comms[first]);
            is_closed = true;
        }
        if (at++ == held_at) {
            harness_hold(&harness, other == SENDER ? 0 : to);
            held_until = harness_now(&harness) + 20 * MS;
        }
        if (is_closed && held_until != WEFT_NEVER && held_until != 0) {
            harness_run(&harness, MS); /* everything that the first end sent arrives */
            held_until = 0;
        }
        if (harness_now(&harness) >= held_until) {
            harness_release(&harness, other == SENDER ? 0 : to);
            held_until = WEFT_NEVER;
        }
        ck_assert_msg(harness_step(&harness, until), "the other end has no comm");
    }
    check_alone(set_up.comms[other], other);
    engine_close(set_up.comms[other]);
    engine_close_listen(set_up.listen);
}

START_TEST(an_end_may_close_when_it_has_its_comm)
{
    uint32_t to = open_mesh((enum mesh)_i);

    for (int first = 0; first < 2; first++) {
        for (uint32_t n_events = 0; n_events < 80; n_events++) {
            close_when_up(to, (enum end)first, n_events, n_events % 2 == 0, UINT32_MAX);
        }
    }
    close_mesh();
}
END_TEST

START_TEST(also_while_the_other_end_is_descheduled)
{
    uint32_t to = open_mesh((enum mesh)_i);

    for (int first = 0; first < 2; first++) {
        for (uint32_t held_at = 0; held_at < 250; held_at++) {
            close_when_up(to, (enum end)first, 0, held_at % 2 == 0, held_at);
        }
    }
    close_mesh();
}
END_TEST

/* Counts cases over all tests, so that a sample contains some of most tests and of most meshes. */
static void add(Suite *suite, const char *name, const TTest *test, int n)
{
    static uint32_t n_cases;
    TCase *tcase = tcase_create(name);

    tcase_set_timeout(tcase, 240);
    for (int i = 0; i < n; i++) {
        if (suite_takes(n_cases++)) {
            tcase_add_loop_test(tcase, test, i, i + 1);
        }
    }
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    Suite *suite = suite_create("plugin/engine_close");

    add(suite, "messages", what_was_done_at_one_end_is_done_at_the_other, N_MESHES);
    add(suite, "long", long_messages_too, N_MESHES);
    add(suite, "held", an_end_that_is_descheduled_meanwhile_too, N_MESHES);
    add(suite, "exit", a_process_may_exit_when_close_returns, ONE_RELAY);
    add(suite, "cable", a_cable_may_fail_as_the_receiver_closes, 3);
    add(suite, "order", receives_may_be_done_out_of_order, 2);
    add(suite, "set-up", an_end_may_close_when_it_has_its_comm, N_MESHES);
    add(suite, "set-up-held", also_while_the_other_end_is_descheduled, N_MESHES);
    return suite_run(suite);
}
