/* Signals that end a command. Each case runs in a child. */
#define _GNU_SOURCE
#include "backends/lab/signals.h"

#include <check.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/suite_testing.h"

enum { NOT_SEEN = 10, LIVED_ON };

/* Catches signals, raises `number`, and releases. Returns the child's wait status. */
static int child_that_gets(int number, void (*disposition)(int))
{
    int wait_status = 0;
    pid_t child = fork();

    if (child == 0) {
        struct lab_signals signals;

        signal(number, disposition);
        lab_signals_catch(&signals);
        if (lab_signals_came(&signals)) {
            _exit(EXIT_FAILURE); /* none was raised yet */
        }
        raise(number);
        if (lab_signals_came(&signals) != (disposition != SIG_IGN) ||
            signals.number != (disposition != SIG_IGN ? number : 0)) {
            _exit(NOT_SEEN);
        }
        lab_signals_release(&signals);
        _exit(LIVED_ON);
    }
    ck_assert_int_eq(waitpid(child, &wait_status, 0), child);
    return wait_status;
}

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};

START_TEST(a_signal_is_kept_until_it_may_act)
{
    int wait_status = child_that_gets(ending[_i], SIG_DFL);

    ck_assert(WIFSIGNALED(wait_status));
    ck_assert_int_eq(WTERMSIG(wait_status), ending[_i]);
}
END_TEST

/* As with nohup and a shell's background jobs: an ignored signal has no effect. */
START_TEST(what_is_ignored_stays_ignored)
{
    int wait_status = child_that_gets(ending[_i], SIG_IGN);

    ck_assert(WIFEXITED(wait_status));
    ck_assert_int_eq(WEXITSTATUS(wait_status), LIVED_ON);
}
END_TEST

START_TEST(without_a_signal_the_mask_is_as_it_was)
{
    struct lab_signals signals;
    sigset_t before;
    sigset_t during;
    sigset_t after;

    sigprocmask(SIG_BLOCK, NULL, &before);
    lab_signals_catch(&signals);
    sigprocmask(SIG_BLOCK, NULL, &during);
    lab_signals_release(&signals);
    sigprocmask(SIG_BLOCK, NULL, &after);
    for (size_t i = 0; i < WEFT_LENGTH(ending); i++) {
        ck_assert_int_eq(sigismember(&before, ending[i]), 0);
        ck_assert_int_eq(sigismember(&during, ending[i]), 1);
        ck_assert_int_eq(sigismember(&after, ending[i]), 0);
        ck_assert_int_eq(sigismember(&signals.old_mask, ending[i]), 0);
    }
    ck_assert_int_eq(signals.number, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backends/lab/signals");
    TCase *tcase = tcase_create("signals");

    for (size_t i = 0; i < WEFT_LENGTH(ending); i++) {
        signal(ending[i], SIG_DFL); /* the starter of the tests may ignore them */
    }
    tcase_add_loop_test(tcase, a_signal_is_kept_until_it_may_act, 0, 3);
    tcase_add_loop_test(tcase, what_is_ignored_stays_ignored, 0, 3);
    tcase_add_test(tcase, without_a_signal_the_mask_is_as_it_was);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
