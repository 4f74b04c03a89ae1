/* Tests relays that end and are started again: connections continue over the new process or over
 * another route, or fail within the failover timeout. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/suite_testing.h"
#include "plugin/engine_testing.h"

#define SECOND INT64_C(1000000000)
#define N_BYTES (UINT32_C(4) << 20)

static struct harness harness;
static const struct harness_cable line[] = {{0, 1}, {1, 2}};
static const struct harness_cable ring[] = {{0, 1}, {1, 2}, {2, 3}, {3, 0}};

/* As in the plugin; the harness sets less. */
static void patient(uint32_t host, struct world_host *world_host,
                    struct engine_config *config)
{
    (void)host;
    (void)world_host;
    config->flow.failover_ns = 30 * SECOND;
}

struct pair {
    struct engine_comm *out, *in;
    struct engine_memory *memories[2];
    struct engine_request *send, *receive;
    uint8_t *sent, *received;
};

static void open_pair(struct pair *pair, uint32_t from, uint32_t to)
{
    struct weft_error error = {0};

    memset(pair, 0, sizeof(*pair));
    pair->sent = malloc(N_BYTES);
    pair->received = malloc(N_BYTES);
    harness_connect(&harness, from, to, &pair->out, &pair->in);
    ck_assert_int_eq(
        harness_register(pair->out, pair->sent, N_BYTES, &pair->memories[0], &error),
        WEFT_OK);
    ck_assert_int_eq(
        harness_register(pair->in, pair->received, N_BYTES, &pair->memories[1], &error),
        WEFT_OK);
}

static void close_pair(struct pair *pair)
{
    engine_deregister(pair->out, pair->memories[0]);
    engine_deregister(pair->in, pair->memories[1]);
    engine_close(pair->out);
    engine_close(pair->in);
    harness_run(&harness, 10 * SECOND);
    free(pair->sent);
    free(pair->received);
}

static void begin(struct pair *pair, uint32_t number)
{
    size_t n_bytes = N_BYTES;
    const uint32_t tag = 5;
    void *data = pair->received;

    for (uint32_t i = 0; i < N_BYTES; i++) {
        pair->sent[i] = (uint8_t)(i * 2654435761u >> 13 ^ number);
    }
    memset(pair->received, 0xee, N_BYTES);
    ck_assert_int_eq(engine_irecv(pair->in, 1, &data, &n_bytes, &tag, &pair->memories[1],
                                  &pair->receive),
                     WEFT_OK);
    ck_assert_int_eq(
        engine_isend(pair->out, pair->sent, N_BYTES, tag, pair->memories[0], &pair->send),
        WEFT_OK);
}

static void finish(struct pair *pair)
{
    weft_ns until = harness_now(&harness) + 60 * SECOND;
    size_t sizes[ENGINE_GROUP_MAX];
    uint32_t n;

    while (pair->send != NULL || pair->receive != NULL) {
        if (pair->send != NULL && engine_test(pair->send, sizes, &n) == WEFT_OK) {
            pair->send = NULL;
        }
        if (pair->receive != NULL && engine_test(pair->receive, sizes, &n) == WEFT_OK) {
            pair->receive = NULL;
        }
        ck_assert_msg(harness_step(&harness, until), "a message does not arrive");
    }
    ck_assert_int_eq(memcmp(pair->sent, pair->received, N_BYTES), 0);
}

static struct engine_counters counters_of(uint32_t host)
{
    struct engine_counters counters;

    engine_counters(harness.engines[host], &counters);
    return counters;
}

/* Ends the relay's process after it has forwarded a part of a message. */
static void kill_amid(struct pair *pair, uint32_t relay, uint32_t number)
{
    uint64_t before = counters_of(relay).bytes_passed;
    weft_ns until = harness_now(&harness) + 30 * SECOND;

    begin(pair, number);
    while (counters_of(relay).bytes_passed < before + N_BYTES / 8) {
        ck_assert(harness_step(&harness, until));
    }
    harness_kill(&harness, relay);
}

START_TEST(a_relay_that_is_started_again_goes_on)
{
    static const bool relays_only[] = {false, true, false};
    struct pair old, new;

    harness_with(patient);
    harness_open_cables(&harness, 3, line, 2, relays_only);
    open_pair(&old, 0, 2);
    for (uint32_t times = 0; times < 3; times++) {
        kill_amid(&old, 1, times);
        harness_run(&harness, times * SECOND);
        harness_restart(&harness, 1);
        finish(&old);
        begin(&old, 10 + times);
        finish(&old);
        ck_assert_uint_gt(counters_of(1).bytes_passed, N_BYTES);
    }
    open_pair(&new, 2, 0);
    begin(&new, 20);
    finish(&new);
    close_pair(&old);
    close_pair(&new);
    harness_close(&harness);
}
END_TEST

/* The old process's beacons are still valid when a connection is opened. It takes longer, but
 * succeeds. */
START_TEST(a_connection_is_made_while_its_relay_comes_back)
{
    struct pair pair;

    harness_with(patient);
    harness_open_cables(&harness, 3, line, 2, NULL);
    harness_run(&harness, 3 * SECOND);
    harness_kill(&harness, 1);
    harness_restart(&harness, 1);
    open_pair(&pair, 0, 2);
    begin(&pair, 1);
    finish(&pair);
    close_pair(&pair);
    harness_close(&harness);
}
END_TEST

/* A connection that continued over the other route uses this one again when it is back. */
START_TEST(a_second_way_is_taken_again)
{
    struct pair pair, late;

    harness_with(patient);
    harness_open_cables(&harness, 4, ring, 4, NULL);
    harness_run(&harness, 3 * SECOND);
    open_pair(&pair, 0, 2);
    kill_amid(&pair, 1, 1);
    finish(&pair);
    open_pair(&late, 0, 2); /* one of the two relays is not running */
    begin(&late, 2);
    finish(&late);
    harness_restart(&harness, 1);
    harness_run(&harness, 10 * SECOND);
    for (uint32_t i = 3; i < 6; i++) {
        begin(&pair, i);
        finish(&pair);
    }
    ck_assert_uint_gt(counters_of(1).bytes_passed, N_BYTES);
    close_pair(&pair);
    close_pair(&late);
    harness_close(&harness);
}
END_TEST

/* The only route stays away. Both ends fail after the failover timeout. */
START_TEST(a_relay_that_stays_away_is_told)
{
    struct pair pair;
    struct weft_error error;
    size_t sizes[ENGINE_GROUP_MAX];
    uint32_t n;
    weft_ns killed;

    harness_with(patient);
    harness_open_cables(&harness, 3, line, 2, NULL);
    open_pair(&pair, 0, 2);
    kill_amid(&pair, 1, 1);
    killed = harness_now(&harness);
    harness_run(&harness, 40 * SECOND);
    ck_assert_int_lt(engine_test(pair.send, sizes, &n), 0);
    ck_assert_int_lt(engine_test(pair.receive, sizes, &n), 0);
    engine_comm_error(pair.out, &error);
    ck_assert_int_ne(error.status, WEFT_OK);
    ck_assert_ptr_nonnull(weft_error_value(&error, WEFT_VALUE_FAILOVER_NS));
    ck_assert_int_ge(harness_now(&harness) - killed, 30 * SECOND);
    close_pair(&pair);
    harness_close(&harness);
}
END_TEST

/* NCCL_IB_TIMEOUT=22 is 17 s per try. */
START_TEST(a_flow_outlasts_the_retries_of_its_queue_pairs)
{
    struct engine_config config;

    engine_config_default(&config);
    engine_config_outlast_retries(&config);
    ck_assert_int_eq(config.flow.failover_ns, 30 * SECOND);
    config.conn.timeout = 22;
    config.conn.retry_cnt = 7;
    engine_config_outlast_retries(&config);
    ck_assert_int_ge(config.flow.failover_ns, 140 * SECOND);
    ck_assert_int_le(config.flow.failover_ns, 160 * SECOND);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_rejoin");
    TCase *tcase = tcase_create("rejoin");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_relay_that_is_started_again_goes_on);
    tcase_add_test(tcase, a_connection_is_made_while_its_relay_comes_back);
    tcase_add_test(tcase, a_second_way_is_taken_again);
    tcase_add_test(tcase, a_relay_that_stays_away_is_told);
    tcase_add_test(tcase, a_flow_outlasts_the_retries_of_its_queue_pairs);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
