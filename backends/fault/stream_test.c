/* Faults of streams and of memory: short, late, lost and failed calls. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "backends/fault/bed_testing.h"
#include "base/suite_testing.h"
#include "io/oob.h"

#define PORT 4000

static struct io_listener *listener;
static struct io_stream *streams[2];

static void open_streams(void)
{
    const struct io_oob_ops *oob = ends[0]->oob;
    struct io_endpoint at = {.ip = mesh.machines[1].management_ip, .port = PORT}, real;

    ck_assert_int_eq(ends[1]->oob->listen(ends[1], &at, 4, &tasks[1], &listener, &real),
                     0);
    ck_assert_int_eq(oob->connect(ends[0], NULL, &at, &tasks[0], &streams[0]), 0);
    ck_assert(is_woken(&tasks[1], SECOND));
    ck_assert_int_eq(ends[1]->oob->accept(listener, &tasks[1], &streams[1]), 0);
}

static void close_streams(void)
{
    ends[0]->oob->close(streams[0], true);
    ends[1]->oob->close(streams[1], true);
    ends[1]->oob->close_listener(listener);
}

START_TEST(streams_are_cut_into_bytes)
{
    struct world_fault fault = fault_of(WORLD_FAULT_CALL_SHORT, WORLD_CALL_SEND);
    char got[8] = "";
    size_t n = 0, n_got = 0;

    open_world();
    open_streams();
    fault.size_bytes = 1;
    fault.n_calls = 2;
    inject(&fault);
    fault.host = 1;
    fault.call = WORLD_CALL_RECV;
    fault.n_calls = UINT32_MAX;
    inject(&fault);
    ck_assert_int_eq(ends[0]->oob->send(streams[0], "abcd", 4, &n), 0);
    ck_assert_uint_eq(n, 1);
    ck_assert_int_eq(ends[0]->oob->send(streams[0], "bcd", 3, &n), 0);
    ck_assert_uint_eq(n, 1);
    ck_assert_int_eq(ends[0]->oob->send(streams[0], "cd", 2, &n), 0);
    ck_assert_uint_eq(n, 2);
    (void)is_woken(NULL, 10 * MS);
    while (ends[1]->oob->recv(streams[1], got + n_got, sizeof(got) - n_got, &n) == 0) {
        ck_assert_uint_eq(n, 1);
        n_got += n;
    }
    ck_assert_str_eq(got, "abcd");
    close_streams();
    close_world();
}
END_TEST

START_TEST(what_is_heard_late_wakes_who_waits)
{
    struct world_fault fault = fault_of(WORLD_FAULT_CALL_SLOW, WORLD_CALL_RECV);
    weft_ns since;
    char got[8];
    size_t n = 0;

    open_world();
    open_streams();
    fault.host = 1;
    fault.by_ns = SECOND;
    inject(&fault);
    ck_assert_int_eq(ends[0]->oob->send(streams[0], "abcd", 4, &n), 0);
    ck_assert(is_woken(&tasks[1], SECOND));
    since = world->ops->now(world);
    ck_assert_int_eq(ends[1]->oob->recv(streams[1], got, sizeof(got), &n), EAGAIN);
    ck_assert_int_eq(ends[1]->oob->recv(streams[1], got, sizeof(got), &n), EAGAIN);
    ck_assert(is_woken(&tasks[1], 2 * SECOND));
    ck_assert_int_eq(world->ops->now(world) - since, SECOND);
    ck_assert_int_eq(ends[1]->oob->recv(streams[1], got, sizeof(got), &n), 0);
    ck_assert_uint_eq(n, 4);
    close_streams();
    close_world();
}
END_TEST

START_TEST(who_is_lost_falls_silent)
{
    struct world_fault fault = fault_of(WORLD_FAULT_CALL_LOST, WORLD_CALL_SEND);
    char got[8];
    size_t n = 0;

    open_world();
    open_streams();
    fault.nth = 2;
    inject(&fault);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(ends[0]->oob->send(streams[0], "abcd", 4, &n), 0);
        ck_assert_uint_eq(n, 4);
    }
    ck_assert(is_woken(&tasks[1], SECOND));
    ck_assert(!is_woken(&tasks[1], SECOND));
    ck_assert_int_eq(ends[1]->oob->recv(streams[1], got, sizeof(got), &n), 0);
    ck_assert_uint_eq(n, 4);
    ck_assert_int_eq(ends[1]->oob->recv(streams[1], got, sizeof(got), &n), EAGAIN);
    close_streams();
    close_world();
}
END_TEST

START_TEST(memory_may_not_be_there)
{
    struct world_fault fault = fault_of(WORLD_FAULT_CALL_ERROR, WORLD_CALL_ALLOC);
    struct io_gpu *gpu;
    void *memory = NULL;

    open_world();
    gpu = ends[0]->gpu;
    inject(&fault);
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_HOST, 64, &memory), ENOMEM);
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_HOST, 64, &memory), 0);
    gpu->ops->free(gpu, memory);
    close_world();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fault streams");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, streams_are_cut_into_bytes);
    tcase_add_test(tcase, what_is_heard_late_wakes_who_waits);
    tcase_add_test(tcase, who_is_lost_falls_silent);
    tcase_add_test(tcase, memory_may_not_be_there);
    return suite_run(suite);
}
