#include <check.h>

#include "base/suite_testing.h"
#include "io/loop.h"

#define N_HOSTS 130 /* three words of the bitmaps */

static struct io_loop loop;

static void start(void)
{
    io_loop_init(&loop, N_HOSTS);
}

static void stop(void)
{
    io_loop_fini(&loop);
}

START_TEST(lowest_host_first_then_order_of_waking)
{
    struct io_task tasks[5];
    static const uint32_t hosts[5] = {129, 3, 64, 3, 0};
    for (int i = 0; i < 5; i++) {
        io_task_init(&tasks[i], &loop, hosts[i], i);
        io_task_wake(&tasks[i]);
    }
    io_task_wake(&tasks[1]); /* a second wake has no effect */
    io_task_wake(NULL);

    ck_assert_uint_eq(loop.n_ready, 4);
    static const int order[5] = {4, 1, 3, 2, 0};
    for (int i = 0; i < 5; i++) {
        struct io_task *task = io_loop_pop(&loop);
        ck_assert_ptr_eq(task, &tasks[order[i]]);
        ck_assert_int_eq(task->kind, order[i]);
        ck_assert(!task->queued);
    }
    ck_assert_ptr_null(io_loop_pop(&loop));
    ck_assert_uint_eq(loop.n_ready, 0);
}
END_TEST

START_TEST(woken_while_running_comes_again)
{
    struct io_task task;
    io_task_init(&task, &loop, 7, 0);
    io_task_wake(&task);
    ck_assert_ptr_eq(io_loop_pop(&loop), &task);
    io_task_wake(&task);
    ck_assert_ptr_eq(io_loop_pop(&loop), &task);
    ck_assert_ptr_null(io_loop_pop(&loop));
}
END_TEST

START_TEST(deadlines_wake_once_and_in_order)
{
    struct io_task early, late, removed;
    io_task_init(&early, &loop, 1, 0);
    io_task_init(&late, &loop, 0, 0);
    io_task_init(&removed, &loop, 2, 0);
    ck_assert_int_eq(io_loop_next_deadline(&loop), WEFT_NEVER);

    io_task_deadline(&late, 50);
    io_task_deadline(&early, 90);
    io_task_deadline(&early, 10); /* the last call counts */
    io_task_deadline(&removed, 5);
    io_task_deadline(&removed, WEFT_NEVER);
    io_task_deadline(&removed, WEFT_NEVER);
    ck_assert_int_eq(io_loop_next_deadline(&loop), 10);

    io_loop_expire(&loop, 9);
    ck_assert_ptr_null(io_loop_pop(&loop));
    io_loop_expire(&loop, 10);
    ck_assert_ptr_eq(io_loop_pop(&loop), &early);
    ck_assert_ptr_null(io_loop_pop(&loop));
    ck_assert_int_eq(io_loop_next_deadline(&loop), 50);

    io_task_deadline(&early, 50); /* after `late` at the same time */
    io_loop_expire(&loop, 1000);
    /* The lower host comes first nevertheless. */
    ck_assert_ptr_eq(io_loop_pop(&loop), &late);
    ck_assert_ptr_eq(io_loop_pop(&loop), &early);
    ck_assert_int_eq(io_loop_next_deadline(&loop), WEFT_NEVER);
}
END_TEST

START_TEST(fini_takes_a_task_out_of_everything)
{
    struct io_task tasks[3];
    for (int i = 0; i < 3; i++) {
        io_task_init(&tasks[i], &loop, 5, i);
        io_task_wake(&tasks[i]);
        io_task_deadline(&tasks[i], 100 + i);
    }
    io_task_fini(&tasks[1]);
    io_task_fini(&tasks[2]); /* the last of the list */
    io_task_fini(&tasks[2]); /* harmless */
    struct io_task another;
    io_task_init(&another, &loop, 5, 9);
    io_task_wake(&another);

    ck_assert_int_eq(io_loop_next_deadline(&loop), 100);
    ck_assert_ptr_eq(io_loop_pop(&loop), &tasks[0]);
    ck_assert_ptr_eq(io_loop_pop(&loop), &another);
    ck_assert_ptr_null(io_loop_pop(&loop));
    io_task_fini(&tasks[0]); /* popped, but its deadline is still in the loop */
    ck_assert_int_eq(io_loop_next_deadline(&loop), WEFT_NEVER);
}
END_TEST

START_TEST(paused_hosts_keep_their_tasks)
{
    struct io_task stopped, other, later;
    io_task_init(&stopped, &loop, 2, 0);
    io_task_init(&later, &loop, 2, 0);
    io_task_init(&other, &loop, 3, 0);
    io_task_wake(&stopped);
    io_loop_pause(&loop, 2, true);
    io_task_wake(&other);
    io_task_deadline(&later, 1);
    io_loop_expire(&loop, 1);

    ck_assert_uint_eq(loop.n_ready, 1);
    ck_assert_ptr_eq(io_loop_pop(&loop), &other);
    ck_assert_ptr_null(io_loop_pop(&loop));
    io_loop_pause(&loop, 2, false);
    ck_assert_ptr_eq(io_loop_pop(&loop), &stopped);
    ck_assert_ptr_eq(io_loop_pop(&loop), &later);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("io/loop");
    TCase *tcase = tcase_create("loop");
    tcase_add_checked_fixture(tcase, start, stop);
    tcase_add_test(tcase, lowest_host_first_then_order_of_waking);
    tcase_add_test(tcase, woken_while_running_comes_again);
    tcase_add_test(tcase, deadlines_wake_once_and_in_order);
    tcase_add_test(tcase, fini_takes_a_task_out_of_everything);
    tcase_add_test(tcase, paused_hosts_keep_their_tasks);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
