/* Tests the state of an engine as text, which reports what each request waits for. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/suite_testing.h"
#include "base/text.h"
#include "plugin/engine.h"
#include "plugin/engine_private.h"
#include "plugin/engine_testing.h"

#define SECOND INT64_C(1000000000)

static struct harness harness;

static char *dump_of(uint32_t host)
{
    struct weft_text text = {0};

    engine_dump(harness.engines[host], &text);
    return text.bytes;
}

static void expect(uint32_t host, const char *wanted)
{
    char *text = dump_of(host);

    ck_assert_msg(strstr(text, wanted) != NULL, "%s\nis not in\n%s", wanted, text);
    free(text);
}

static void expect_not(uint32_t host, const char *unwanted)
{
    char *text = dump_of(host);

    ck_assert_msg(strstr(text, unwanted) == NULL, "%s\nis in\n%s", unwanted, text);
    free(text);
}

START_TEST(ports_and_listens_are_there)
{
    struct engine_listen *listen;
    struct weft_error error = {0};
    uint8_t handle[CONN_HANDLE_BYTES];

    harness_open(&harness, 2, 1);
    expect(0, "0 comms, 0 listens; connected 0, accepted 0, failed 0, refused 0\n");
    expect(0, "has a link");
    ck_assert_int_eq(engine_listen(harness.engines[0], handle, &listen, &error), WEFT_OK);
    expect(0, ": no connection yet\n");
    engine_close_listen(listen);
    harness_close(&harness);
}
END_TEST

/* A send without a receive, then one with a receive, then a receive without a send: the usual
 * reasons for a hang. */
START_TEST(it_says_what_each_request_waits_for)
{
    struct engine_comm *out, *in;
    struct engine_memory *out_memory, *in_memory;
    struct engine_request *send, *second, *receive;
    struct weft_error error = {0};
    static uint8_t data[4096], buffer[4096];
    void *buffers[1] = {buffer};
    size_t sizes[ENGINE_GROUP_MAX] = {sizeof(buffer)};
    uint32_t tags[1] = {5}, n = 0;

    harness_open(&harness, 2, 1);
    harness_connect(&harness, 0, 1, &out, &in);
    expect(0, "connected 1, accepted 0");
    expect(1, "connected 0, accepted 1");
    expect(0, ": up, 0 requests move, 0 wait to start");
    expect(0, "  lane 0 up, epoch 1, 0 pieces under way: ");
    ck_assert_int_eq(harness_register(out, data, sizeof(data), &out_memory, &error),
                     WEFT_OK);
    ck_assert_int_eq(harness_register(in, buffer, sizeof(buffer), &in_memory, &error),
                     WEFT_OK);

    ck_assert_int_eq(engine_isend(out, data, 1000, 5, out_memory, &send), WEFT_OK);
    harness_run(&harness, SECOND / 100);
    expect(0, "send 1000 B tag 5: not started; waits for the peer to post a receive with "
              "this tag\n");
    ck_assert_int_eq(engine_isend(out, data, 10, 5, out_memory, &second), WEFT_OK);
    harness_run(&harness, SECOND / 100);
    expect(0, "send 10 B tag 5: not started; waits for an earlier one with this tag\n");
    expect(0, " to receive: 1 comm, 0 s without progress\n");
    expect_not(1, "waits for ");
    harness_run(&harness, 13 * SECOND);
    expect(0, " to receive: 1 comm, 13 s without progress\n");
    expect(1, ": up, 0 requests move, 0 wait to start");

    ck_assert_int_eq(engine_irecv(in, 1, buffers, sizes, tags, &in_memory, &receive),
                     WEFT_OK);
    harness_run(&harness, SECOND / 100);
    ck_assert_int_eq(engine_test(send, sizes, &n), WEFT_OK);
    ck_assert_int_eq(engine_test(receive, sizes, &n), WEFT_OK);
    expect(0, "sent 1 messages 1000 B, received 0 messages 0 B, 1 epochs, 0 failovers");
    expect(1, "received 1 messages 1000 B");

    ck_assert_int_eq(engine_irecv(in, 1, buffers, sizes, tags, &in_memory, &receive),
                     WEFT_OK);
    harness_run(&harness, SECOND / 100);
    ck_assert_int_eq(engine_test(second, sizes, &n), WEFT_OK);
    ck_assert_int_eq(engine_test(receive, sizes, &n), WEFT_OK);
    ck_assert_int_eq(engine_irecv(in, 1, buffers, sizes, tags, &in_memory, &receive),
                     WEFT_OK);
    harness_run(&harness, SECOND / 100);
    expect(1, "receive 10 B tag 5: ");
    expect(1, "1 of 1 buffers missing, 0 B came; waits for the peer to send\n");
    expect(1, " to send: 1 comm, 0 s without progress\n");
    expect_not(0, "waits for ");

    engine_deregister(out, out_memory);
    engine_deregister(in, in_memory);
    engine_close(out);
    engine_close(in);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* A flush is described as one, with its size. The cable is down, so that it does not end. */
START_TEST(a_flush_is_no_receive)
{
    const struct world_fault down = {
        .kind = WORLD_FAULT_DOWN, .host = 0, .has_port = true};
    struct engine_comm *out, *in;
    struct engine_memory *memory;
    struct engine_request *flush;
    struct weft_error error = {0};
    static uint8_t data[4096];

    harness_open(&harness, 2, 1);
    harness_connect(&harness, 0, 1, &out, &in);
    ck_assert_int_eq(harness_register(in, data, sizeof(data), &memory, &error), WEFT_OK);
    memory->memory.is_gpu = true;
    ck_assert_int_eq(harness.world->ops->inject(harness.world, &down), 0);
    ck_assert_int_eq(engine_iflush(in, data, 1000, memory, &flush), WEFT_OK);
    harness_run(&harness, SECOND / 1000);
    expect(1, "  flush 1000 B: waits for reads to come back\n");
    engine_deregister(in, memory);
    engine_close(out);
    engine_close(in);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* A connection over a relay ends there for its receiver, to which nothing names the sender. */
START_TEST(a_relay_is_not_taken_for_the_peer)
{
    static const struct harness_cable line[] = {{0, 1}, {1, 2}};
    struct engine_comm *out, *in;
    char sends[100], receives[100];

    harness_open_cables(&harness, 3, line, 2, NULL);
    harness_connect(&harness, 0, 2, &out, &in);
    weft_format(sends, sizeof(sends), " sends to %s: up", harness.engines[2]->env->name);
    weft_format(receives, sizeof(receives), " receives from a host behind %s: up",
                harness.engines[1]->env->name);
    expect(0, sends);
    expect(2, receives);
    engine_close(out);
    engine_close(in);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* The cable is down: both ends name the peer, what it has to do, and why the connection does not go
 * on. */
START_TEST(a_wait_has_its_last_reason)
{
    const struct world_fault down = {
        .kind = WORLD_FAULT_DOWN, .host = 0, .has_port = true};
    struct engine_comm *out, *in;
    struct engine_memory *out_memory, *in_memory;
    struct engine_request *send, *receive;
    struct weft_error error = {0};
    static uint8_t data[4096], buffer[4096];
    void *at = buffer;
    const size_t size = sizeof(buffer);
    const uint32_t tag = 5;

    harness_open(&harness, 2, 1);
    harness_connect(&harness, 0, 1, &out, &in);
    ck_assert_int_eq(harness_register(out, data, sizeof(data), &out_memory, &error),
                     WEFT_OK);
    ck_assert_int_eq(harness_register(in, buffer, sizeof(buffer), &in_memory, &error),
                     WEFT_OK);
    ck_assert_int_eq(harness.world->ops->inject(harness.world, &down), 0);
    ck_assert_int_eq(engine_isend(out, data, 1000, 5, out_memory, &send), WEFT_OK);
    ck_assert_int_eq(engine_irecv(in, 1, &at, &size, &tag, &in_memory, &receive),
                     WEFT_OK);
    harness_run(&harness, 8 * SECOND / 10);
    expect(0,
           "waits for iceberg to receive: 1 comm, 0 s without progress; last reason: ");
    expect(0, "[link.down: weft explain link.down]\n");
    expect(
        1,
        "waits for titanic to send: 1 comm, 0 s without progress; last reason: data: ");
    engine_deregister(out, out_memory);
    engine_deregister(in, in_memory);
    engine_close(out);
    engine_close(in);
    harness_run(&harness, 5 * SECOND);
    harness_close(&harness);
}
END_TEST

/* A process ends without closing. That is the normal end of a job if no request is open, and a
 * failure otherwise, for which the state is written (dump_look). */
START_TEST(a_normal_end_is_no_failure)
{
    struct engine_comm *out, *in;
    struct engine_memory *memory;
    struct engine_request *receive;
    struct engine_counters counters;
    struct weft_error error = {0};
    static uint8_t data[4096];
    void *at = data;
    const size_t size = sizeof(data);
    const uint32_t tag = 5;

    harness_open(&harness, 2, 1);
    harness_connect(&harness, 0, 1, &out, &in);
    ck_assert_int_eq(harness_register(in, data, sizeof(data), &memory, &error), WEFT_OK);
    if (_i == 1) {
        ck_assert_int_eq(engine_irecv(in, 1, &at, &size, &tag, &memory, &receive),
                         WEFT_OK);
    }
    harness_run(&harness, SECOND / 100);
    harness_kill(&harness, 0);
    harness_run(&harness, 5 * SECOND);
    engine_comm_error(in, &error);
    ck_assert_int_lt(error.status, 0);
    engine_counters(harness.engines[1], &counters);
    ck_assert_uint_eq(counters.n_failed, (uint64_t)_i);
    engine_deregister(in, memory);
    engine_close(in);
    harness_run(&harness, SECOND);
    harness_close(&harness);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine dump");
    TCase *tcase = tcase_create("dump");

    tcase_add_test(tcase, ports_and_listens_are_there);
    tcase_add_test(tcase, it_says_what_each_request_waits_for);
    tcase_add_test(tcase, a_flush_is_no_receive);
    tcase_add_test(tcase, a_relay_is_not_taken_for_the_peer);
    tcase_add_test(tcase, a_wait_has_its_last_reason);
    tcase_add_loop_test(tcase, a_normal_end_is_no_failure, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
