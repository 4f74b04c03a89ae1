/* Tests handles and listeners of the plugin's engine, over simulated NICs. */
#include <check.h>
#include <string.h>

#include "base/rng.h"
#include "base/suite_testing.h"
#include "conn/codec.h"
#include "plugin/engine.h"
#include "plugin/engine_private.h"
#include "plugin/engine_testing.h"

#define SECOND INT64_C(1000000000)

static struct harness harness;

START_TEST(a_handle_that_is_none_is_refused)
{
    struct engine_listen *listen;
    struct engine_comm *comm;
    struct weft_error error = {0};
    struct weft_rng rng;
    uint8_t handle[CONN_HANDLE_BYTES], bad[CONN_HANDLE_BYTES];
    uint32_t n_refused = 0;

    weft_rng_init(&rng, 5, "handles");
    harness_open(&harness, 2, 1);
    ck_assert_int_eq(engine_listen(harness.engines[1], handle, &listen, &error), WEFT_OK);
    for (uint32_t i = 0; i < 300; i++) {
        weft_status status = WEFT_AGAIN;

        memcpy(bad, handle, sizeof(bad));
        if (i % 3 == 0) {
            weft_rng_bytes(&rng, bad, sizeof(bad));
        } else {
            bad[weft_rng_below(&rng, 24)] ^= (uint8_t)(1 + weft_rng_below(&rng, 255));
        }
        for (uint32_t tries = 0; tries < 20 && status == WEFT_AGAIN; tries++) {
            memset(&error, 0, sizeof(error));
            status = engine_connect(harness.engines[0], bad, &comm, &error);
            (void)harness_step(&harness, harness_now(&harness) + 1000000);
        }
        ck_assert_int_ne(status, WEFT_OK);
        ck_assert(status == WEFT_AGAIN || error.message[0] != '\0');
        n_refused += status != WEFT_AGAIN;
    }
    ck_assert_uint_gt(n_refused, 100);
    engine_close_listen(listen);
    harness_close(&harness);
}
END_TEST

static uint32_t n_looks;
static const struct io_env_ops *real_ops;

static const struct io_hostinfo *count_looks(struct io_env *env)
{
    n_looks++;
    return real_ops->hostinfo(env);
}

/* The plugin's handle has 8 bytes less than conn's for addresses. */
START_TEST(a_handle_keeps_the_addresses_of_all_cables)
{
    static const struct {
        const char *name, *first;
        uint32_t n_endpoints,
            n_varied; /* bytes of the address in which endpoints differ */
        uint32_t n_kept;
    } rows[] = {
        {"three IPv6", "fd00::1", 3, 1, 3},
        {"four IPv6", "fd00::1", 4, 1, 4},
        {"five IPv6", "fd00::1", 5, 1, 5},
        {"five IPv6 that differ in ten bytes", "fdaa:aaaa:aaaa:aaaa:aaaa:aaaa:aaaa:aaaa",
         5, 10, 5},
        {"five IPv6 that differ in eleven bytes",
         "fdaa:aaaa:aaaa:aaaa:aaaa:aaaa:aaaa:aaaa", 5, 11, 4},
        {"nine IPv4", "10.0.0.1", 9, 1, 9},
        {"ten IPv4", "10.0.0.1", 10, 1, 10},
        {"fourteen IPv4", "10.0.0.1", 14, 1, 14},
    };
    struct codec_handle handle = {.epoch = 3, .n_endpoints = rows[_i].n_endpoints}, out;
    uint8_t bytes[CONN_HANDLE_BYTES], plain[CONN_HANDLE_BYTES];
    struct weft_error error = {0};
    uint32_t number;

    for (uint32_t i = 0; i < handle.n_endpoints; i++) {
        struct io_prefix *prefix = &handle.endpoints[i].prefix;

        ck_assert(io_ip_parse(rows[_i].first, &prefix->ip));
        for (uint32_t b = 0; b < rows[_i].n_varied; b++) {
            prefix->ip.bytes[b == 0 ? 14 : b] ^= (uint8_t)(16 * i);
        }
        prefix->prefix_len = 24;
        handle.endpoints[i].port = 40000;
    }
    handle.is_compact = codec_handle_bytes(&handle) > CONN_HANDLE_BYTES;
    ck_assert(codec_encode_handle(&handle, bytes));
    ck_assert_int_eq(engine_handle_trim(bytes, &error), WEFT_OK);
    engine_handle_number(bytes, 77);
    ck_assert_int_eq(engine_handle_split(bytes, plain, &number, &error), WEFT_OK);
    ck_assert_uint_eq(number, 77);
    ck_assert_int_eq(codec_decode_handle(plain, &out, &error), WEFT_OK);
    ck_assert_uint_eq(out.n_endpoints, rows[_i].n_kept);
    ck_assert_mem_eq(out.endpoints, handle.endpoints,
                     out.n_endpoints * sizeof(out.endpoints[0]));
}
END_TEST

/* Any thread may connect, but only the engine's thread may read the host's facts. */
START_TEST(who_connects_does_not_look_at_the_machine)
{
    struct io_env_ops counting;
    struct io_env *env;
    struct engine_comm *comm;
    struct weft_error error = {0};
    uint8_t none[CONN_HANDLE_BYTES] = {0};

    harness_open(&harness, 2, 1);
    env = harness.world->ops->host_env(harness.world, 0, 0);
    real_ops = env->ops;
    counting = *real_ops;
    counting.hostinfo = count_looks;
    env->ops = &counting;
    ck_assert_int_lt(engine_connect(harness.engines[0], none, &comm, &error), 0);
    ck_assert_uint_eq(n_looks, 0);
    env->ops = real_ops;
    harness_close(&harness);
}
END_TEST

/* On a real host one call of hostinfo() costs some ten system calls for each interface. A host
 * with containers has many interfaces, and a communicator has a connection for each channel and
 * peer. */
START_TEST(a_connection_looks_at_the_machine_seldom)
{
    struct io_env_ops counting;
    struct engine_comm *out, *in;
    struct io_env *env;

    harness_open(&harness, 2, 2);
    env = harness.world->ops->host_env(harness.world, (uint32_t)_i, 0);
    real_ops = env->ops;
    counting = *real_ops;
    counting.hostinfo = count_looks;
    env->ops = &counting;
    n_looks = 0;
    harness_connect(&harness, 0, 1, &out, &in);
    ck_assert_uint_le(n_looks, _i == 0 ? 4 : 0);
    env->ops = real_ops;
    engine_close(out);
    engine_close(in);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* A client whose listener was closed is refused. */
START_TEST(a_listener_that_is_gone_takes_nobody)
{
    struct engine_listen *listen;
    struct engine_comm *comm = NULL;
    struct weft_error error = {0};
    struct engine_counters counters;
    uint8_t handle[CONN_HANDLE_BYTES];
    weft_status status = WEFT_AGAIN;
    weft_ns until;

    harness_open(&harness, 2, 1);
    ck_assert_int_eq(engine_listen(harness.engines[1], handle, &listen, &error), WEFT_OK);
    engine_close_listen(listen);
    until = harness_now(&harness) + 120 * SECOND;
    while (status == WEFT_AGAIN) {
        status = engine_connect(harness.engines[0], handle, &comm, &error);
        ck_assert(status != WEFT_AGAIN || harness_step(&harness, until));
    }
    ck_assert_int_lt(status, 0);
    ck_assert_ptr_null(comm);
    engine_counters(harness.engines[1], &counters);
    ck_assert_uint_ge(counters.n_refused, 1);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* NCCL gives up a connection without a word, for example after ncclCommAbort. Whether it is up or
 * has failed, it is closed once connect has not been called for it for 10 minutes. */
START_TEST(a_connection_that_is_not_asked_for_is_closed)
{
    struct engine_listen *listen;
    struct engine_comm *comm = NULL;
    struct weft_error error = {0};
    struct engine_counters counters;
    uint8_t handle[CONN_HANDLE_BYTES];

    harness_open(&harness, 2, 1);
    ck_assert_int_eq(engine_listen(harness.engines[1], handle, &listen, &error), WEFT_OK);
    ck_assert_int_eq(engine_connect(harness.engines[0], handle, &comm, &error),
                     WEFT_AGAIN);
    if (_i == 1) {
        harness_hold(&harness, 1);
    }
    harness_run(&harness, 9 * 60 * SECOND);
    engine_counters(harness.engines[0], &counters);
    ck_assert_uint_eq(counters.n_comms, 1);
    harness_run(&harness, 2 * 60 * SECOND);
    engine_counters(harness.engines[0], &counters);
    ck_assert_uint_eq(counters.n_comms, 0);
    harness_release(&harness, 1);
    engine_close_listen(listen);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

START_TEST(ports_tell_the_truth)
{
    harness_open(&harness, 3, 2);
    ck_assert_uint_eq(engine_n_ports(harness.engines[0]), 4);
    for (uint32_t i = 0; i < 4; i++) {
        const struct engine_port *port = engine_port(harness.engines[0], i);

        ck_assert_uint_eq(port->speed_mbps, 100000);
        for (uint32_t j = 0; j < i; j++) {
            ck_assert_str_ne(port->name, engine_port(harness.engines[0], j)->name);
            ck_assert(port->guid != engine_port(harness.engines[0], j)->guid);
        }
    }
    ck_assert_ptr_null(engine_port(harness.engines[0], 4));
    harness_close(&harness);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("plugin/engine_setup");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_handle_that_is_none_is_refused);
    tcase_add_loop_test(tcase, a_handle_keeps_the_addresses_of_all_cables, 0, 8);
    tcase_add_test(tcase, who_connects_does_not_look_at_the_machine);
    tcase_add_loop_test(tcase, a_connection_looks_at_the_machine_seldom, 0, 2);
    tcase_add_test(tcase, a_listener_that_is_gone_takes_nobody);
    tcase_add_loop_test(tcase, a_connection_that_is_not_asked_for_is_closed, 0, 2);
    tcase_add_test(tcase, ports_tell_the_truth);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
