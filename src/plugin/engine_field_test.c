/* Tests bugs of a plugin used in the field (docs/plugin-design.md, "What other plugins got
 * wrong") that no other test would detect in this one. */
#include "plugin/engine.h"

#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "plugin/engine_testing.h"

#define SECOND INT64_C(1000000000)
#define BYTES 4096u
#define MANY 40u
#define OPEN 4u

static struct harness harness;

/* One end of a connection and its memory. */
struct end {
    struct engine_comm *comm;
    struct engine_memory *memory;
    uint8_t data[BYTES];
};

static void register_end(struct end *end)
{
    struct weft_error error = {0};

    ck_assert_int_eq(harness_register(end->comm, end->data, BYTES, &end->memory, &error),
                     WEFT_OK);
}

static void close_end(struct end *end)
{
    engine_deregister(end->comm, end->memory);
    engine_close(end->comm);
}

static void open_ends(struct end *out, struct end *in)
{
    harness_connect(&harness, 0, 1, &out->comm, &in->comm);
    register_end(out);
    register_end(in);
}

static struct engine_request *receive(struct end *in, uint32_t tag)
{
    struct engine_request *request = NULL;
    const size_t size = BYTES;
    void *data = in->data;

    ck_assert_int_eq(engine_irecv(in->comm, 1, &data, &size, &tag, &in->memory, &request),
                     WEFT_OK);
    return request;
}

static struct engine_request *send(struct end *out, uint32_t tag)
{
    struct engine_request *request = NULL;

    ck_assert_int_eq(
        engine_isend(out->comm, out->data, BYTES, tag, out->memory, &request), WEFT_OK);
    return request;
}

static weft_status test(struct engine_request *request)
{
    size_t sizes[ENGINE_GROUP_MAX];
    uint32_t n;

    return engine_test(request, sizes, &n);
}

/* Sends a message with this value over the connection. */
static void carry(struct end *out, struct end *in, uint8_t value)
{
    struct engine_request *received = receive(in, 1), *sent;

    memset(out->data, value, BYTES);
    sent = send(out, 1);
    harness_run(&harness, SECOND / 100);
    ck_assert_int_eq(test(sent), WEFT_OK);
    ck_assert_int_eq(test(received), WEFT_OK);
    ck_assert_int_eq(memcmp(in->data, out->data, BYTES), 0);
}

/* All requests fail with the connection, not only the one that detected the failure. */
START_TEST(every_open_request_fails_with_its_connection)
{
    struct end out, in;
    struct engine_request *open[2 * OPEN];
    const struct world_fault down = {
        .kind = WORLD_FAULT_DOWN, .host = 0, .has_port = true};
    weft_ns until;

    harness_open(&harness, 2, 1);
    open_ends(&out, &in);
    for (uint32_t i = 0; i < OPEN; i++) {
        open[i] = receive(&in, i);
        open[OPEN + i] = send(&out, i);
    }
    ck_assert_int_eq(harness.world->ops->inject(harness.world, &down), 0);
    until = harness_now(&harness) + 120 * SECOND;
    for (uint32_t i = 2 * OPEN; i-- > 0;) {
        weft_status status = WEFT_AGAIN;

        while (status == WEFT_AGAIN) {
            ck_assert(harness_step(&harness, until));
            status = test(open[i]);
        }
        ck_assert_int_lt(status, 0);
    }
    close_end(&out);
    close_end(&in);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* Objects for a peer are created only when it connects. */
START_TEST(listening_makes_nothing_on_a_nic)
{
    struct engine_listen *listens[MANY];
    struct weft_error error = {0};
    uint8_t handle[CONN_HANDLE_BYTES];

    harness_open(&harness, 2, 2);
    for (uint32_t i = 0; i < MANY; i++) {
        ck_assert_int_eq(engine_listen(harness.engines[0], handle, &listens[i], &error),
                         WEFT_OK);
    }
    harness_run(&harness, SECOND);
    ck_assert_uint_eq(harness_objects(&harness, 0), harness.idle_objects[0]);
    for (uint32_t i = 0; i < MANY; i++) {
        engine_close_listen(listens[i]);
    }
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* Ranks load models while others wait, so no operation has a deadline. */
START_TEST(a_peer_may_be_late_by_an_hour)
{
    struct end out = {0}, in = {0};
    struct engine_listen *listen;
    struct engine_request *received;
    struct weft_error error = {0};
    uint8_t handle[CONN_HANDLE_BYTES];
    weft_ns until;

    harness_open(&harness, 2, 1);
    ck_assert_int_eq(engine_listen(harness.engines[1], handle, &listen, &error), WEFT_OK);
    until = harness_now(&harness) + 60 * SECOND;
    while (out.comm == NULL) {
        ck_assert(harness_step(&harness, until));
        ck_assert_int_ge(engine_connect(harness.engines[0], handle, &out.comm, &error),
                         0);
    }
    harness_run(&harness, 3600 * SECOND);
    ck_assert_int_eq(engine_accept(listen, &in.comm, &error), WEFT_OK);
    ck_assert_ptr_nonnull(in.comm);
    engine_close_listen(listen);
    register_end(&out);
    register_end(&in);
    received = receive(&in, 2);
    harness_run(&harness, 3600 * SECOND);
    ck_assert_int_eq(test(received), WEFT_AGAIN);
    (void)send(&out, 2);
    harness_run(&harness, SECOND / 100);
    ck_assert_int_eq(test(received), WEFT_OK);
    carry(&out, &in, 3);
    close_end(&out);
    close_end(&in);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* No end accepts before all have called connect. Each must reach the listen of its handle. */
START_TEST(many_that_come_at_once_all_get_in)
{
    static struct end outs[MANY], ins[MANY];
    static uint8_t handles[MANY][CONN_HANDLE_BYTES];
    struct engine_listen *listens[MANY];
    struct weft_error error = {0};
    uint32_t n_up = 0;
    weft_ns until;

    harness_open(&harness, 2, 1);
    memset(outs, 0, sizeof(outs));
    memset(ins, 0, sizeof(ins));
    for (uint32_t i = 0; i < MANY; i++) {
        ck_assert_int_eq(
            engine_listen(harness.engines[1], handles[i], &listens[i], &error), WEFT_OK);
    }
    until = harness_now(&harness) + 60 * SECOND;
    for (uint32_t i = 0; n_up < MANY; i = (i + 1) % MANY) {
        if (outs[i].comm == NULL) {
            ck_assert_int_ge(
                engine_connect(harness.engines[0], handles[i], &outs[i].comm, &error), 0);
            n_up += outs[i].comm != NULL;
            ck_assert(n_up == MANY || i < MANY - 1 || harness_step(&harness, until));
        } else {
            ck_assert(n_up == MANY || harness_step(&harness, until));
        }
    }
    for (uint32_t i = 0; i < MANY; i++) {
        while (ins[i].comm == NULL) {
            ck_assert_int_ge(engine_accept(listens[i], &ins[i].comm, &error), 0);
            ck_assert(ins[i].comm != NULL || harness_step(&harness, until));
        }
        engine_close_listen(listens[i]);
        register_end(&outs[i]);
        register_end(&ins[i]);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        carry(&outs[i], &ins[i], (uint8_t)(1 + i));
    }
    for (uint32_t i = 0; i < MANY; i++) {
        ck_assert_uint_eq(ins[i].data[0], 1 + i);
        close_end(&outs[i]);
        close_end(&ins[i]);
    }
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* One connection is closed, at either end first, and a new one is opened. The others are not
 * affected. */
START_TEST(connections_to_one_peer_are_each_their_own)
{
    static struct end out[4], in[4];

    harness_open(&harness, 2, 1);
    for (uint32_t i = 0; i < 3; i++) {
        open_ends(&out[i], &in[i]);
    }
    close_end(_i == 0 ? &in[1] : &out[1]);
    carry(&out[0], &in[0], 10);
    carry(&out[2], &in[2], 12);
    open_ends(&out[3], &in[3]);
    carry(&out[3], &in[3], 13);
    close_end(_i == 0 ? &out[1] : &in[1]);
    for (uint32_t i = 0; i < 4; i += i == 0 ? 2 : 1) {
        carry(&out[i], &in[i], (uint8_t)(20 + i));
        close_end(&out[i]);
        close_end(&in[i]);
    }
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

static void slow_second_port(uint32_t host, struct world_host *world_host,
                             struct engine_config *config)
{
    (void)world_host;
    (void)config;
    harness.ports[host][1].rate_bps = UINT64_C(25000000000);
    harness.cables[1].rate_bps = UINT64_C(25000000000);
}

START_TEST(each_port_has_its_own_speed)
{
    harness_with(slow_second_port);
    harness_open(&harness, 2, 2);
    for (uint32_t host = 0; host < 2; host++) {
        ck_assert_uint_eq(engine_port(harness.engines[host], 0)->speed_mbps, 100000);
        ck_assert_uint_eq(engine_port(harness.engines[host], 1)->speed_mbps, 25000);
    }
    harness_close(&harness);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("plugin/engine_field");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, every_open_request_fails_with_its_connection);
    tcase_add_test(tcase, listening_makes_nothing_on_a_nic);
    tcase_add_test(tcase, a_peer_may_be_late_by_an_hour);
    tcase_add_test(tcase, many_that_come_at_once_all_get_in);
    tcase_add_loop_test(tcase, connections_to_one_peer_are_each_their_own, 0, 2);
    tcase_add_test(tcase, each_port_has_its_own_speed);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
