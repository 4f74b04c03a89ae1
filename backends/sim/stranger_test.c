/* Clients outside the job that connect to a host's listeners. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "backends/sim/bed_testing.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "io/oob.h"

#define MS ((weft_ns)1000000)
#define TEXT "GET / HTTP/1.0\r\n\r\n"

static struct bed bed;
static struct io_env *env;
static struct io_task task;
static struct io_listener *listener;

/* h1 connects to h0, which has one port towards h1 and one that is not connected. */
static void start(void)
{
    struct io_endpoint at = {.port = 0}, real;

    sim_bed_init(&bed);
    sim_bed_host(&bed);
    sim_bed_host(&bed);
    sim_bed_port(&bed, 0, "10.0.0.1/24", 0);
    sim_bed_port(&bed, 0, "10.0.9.1/24", 0);
    sim_bed_port(&bed, 1, "10.0.0.2/24", 0);
    sim_bed_cable(&bed, (struct world_end){.node = 0}, (struct world_end){.node = 1});
    sim_bed_create(&bed);
    env = backend_sim.host_env(bed.world, 0, 0);
    io_task_init(&task, env->loop, env->host, 0);
    at.ip = bed.addresses[0][0][0].ip;
    ck_assert_int_eq(env->oob->listen(env, &at, 16, &task, &listener, &real), 0);
}

static void stop(void)
{
    env->oob->close_listener(listener);
    io_task_fini(&task);
    sim_bed_fini(&bed);
}

static void pass(weft_ns ns)
{
    sim_bed_run(&bed, io_now(env) + ns, NULL, NULL);
}

static void come(const char *send, uint32_t n, weft_ns for_ns, int expected)
{
    const struct world_fault fault = {.kind = WORLD_FAULT_STRANGER,
                                      .from = 1,
                                      .send = send,
                                      .n_calls = n,
                                      .for_ns = for_ns};

    ck_assert_int_eq(backend_sim.inject(bed.world, &fault), expected);
    pass(MS);
}

static struct io_stream *take(void)
{
    struct io_stream *stream;

    ck_assert_int_eq(env->oob->accept(listener, &task, &stream), 0);
    return stream;
}

START_TEST(it_says_its_text_and_stays)
{
    char heard[64] = "";
    size_t n = 0;

    come(TEXT, 0, 0, 0);
    struct io_stream *stream = take();
    ck_assert_int_eq(env->oob->recv(stream, heard, sizeof(heard) - 1, &n), 0);
    ck_assert_str_eq(heard, TEXT);
    pass(1000 * MS);
    ck_assert_int_eq(env->oob->recv(stream, heard, sizeof(heard), &n), EAGAIN);
    /* It reads what it gets, and closes when the other end does. */
    ck_assert_int_eq(env->oob->send(stream, "404", 3, &n), 0);
    env->oob->close(stream, false);
    pass(MS);
    ck_assert(sim_bed_told(&bed, "h1 tcp close"));
    ck_assert(!sim_bed_told(&bed, "h1 tcp reset"));
    ck_assert_int_eq(env->oob->accept(listener, &task, &stream), EAGAIN);
}
END_TEST

START_TEST(several_that_say_nothing_go_when_their_time_is_over)
{
    struct io_stream *streams[3];
    char byte;
    size_t n = 0;

    come(NULL, 3, 10 * MS, 0);
    for (int i = 0; i < 3; i++) {
        streams[i] = take();
        ck_assert_int_eq(env->oob->recv(streams[i], &byte, 1, &n), EAGAIN);
    }
    pass(8 * MS);
    ck_assert_int_eq(env->oob->recv(streams[0], &byte, 1, &n), EAGAIN);
    pass(2 * MS);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(env->oob->recv(streams[i], &byte, 1, &n), 0);
        ck_assert_uint_eq(n, 0);
        env->oob->close(streams[i], false);
    }
}
END_TEST

/* It is not affected by the death of a process on its host. */
START_TEST(the_death_of_a_process_beside_it_is_not_its_own)
{
    const struct world_fault fault = {
        .kind = WORLD_FAULT_KILL, .host = 1, .has_process = true};
    char byte;
    size_t n = 0;

    come(NULL, 1, 0, 0);
    struct io_stream *stream = take();
    ck_assert_int_eq(backend_sim.inject(bed.world, &fault), 0);
    pass(MS);
    ck_assert_int_eq(env->oob->recv(stream, &byte, 1, &n), EAGAIN);
    env->oob->close(stream, true);
}
END_TEST

START_TEST(where_nobody_listens_and_where_nobody_lives)
{
    const struct world_fault fault = {.kind = WORLD_FAULT_KILL, .host = 1};
    struct io_endpoint at = {.ip = bed.addresses[0][1][0].ip}, real;

    env->oob->close_listener(listener);
    come(TEXT, 1, 0, ECONNREFUSED);
    ck_assert_int_eq(env->oob->listen(env, &at, 16, &task, &listener, &real), 0);
    come(TEXT, 1, 0, ECONNREFUSED); /* not reachable from h1 */
    ck_assert_int_eq(backend_sim.inject(bed.world, &fault), 0);
    come(TEXT, 1, 0, EHOSTDOWN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backends/sim/stranger");
    TCase *tcase = tcase_create("strangers");

    tcase_add_checked_fixture(tcase, start, stop);
    tcase_add_test(tcase, it_says_its_text_and_stays);
    tcase_add_test(tcase, several_that_say_nothing_go_when_their_time_is_over);
    tcase_add_test(tcase, the_death_of_a_process_beside_it_is_not_its_own);
    tcase_add_test(tcase, where_nobody_listens_and_where_nobody_lives);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
