/* Tests which signals can ask for the state, and what is said of the others. */
#define _GNU_SOURCE
#include "plugin/dump.h"

#include <check.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "plugin/process.h"

static void wake(void *context)
{
    (void)context;
}

static void handler(int signal_number)
{
    (void)signal_number;
}

static void handler_with_more(int signal_number, siginfo_t *info, void *context)
{
    (void)signal_number, (void)info, (void)context;
}

static void is_default(int signal_number)
{
    (void)signal_number;
}

static void is_ignored(int signal_number)
{
    signal(signal_number, SIG_IGN);
}

static void has_handler(int signal_number)
{
    signal(signal_number, handler);
}

static void has_handler_with_more(int signal_number)
{
    struct sigaction action = {.sa_sigaction = handler_with_more, .sa_flags = SA_SIGINFO};

    ck_assert_int_eq(sigaction(signal_number, &action, NULL), 0);
}

/* Threads get a larger stack than there are addresses. */
static void lacks_threads(int signal_number)
{
    pthread_attr_t attributes;

    (void)signal_number;
    pthread_attr_init(&attributes);
    ck_assert_int_eq(pthread_attr_setstacksize(&attributes, (size_t)1 << 50), 0);
    ck_assert_int_eq(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
}

static const struct {
    int signal_number;
    void (*before)(int signal_number);
    const char *why; /* part of what is said; NULL if nothing */
} rows[] = {
    {0, is_default, NULL},
    {SIGUSR1, is_default, NULL},
    {SIGUSR2, is_ignored, NULL},
    {64, is_default, NULL},
    {SIGUSR1, has_handler, "this program has a handler"},
    {SIGUSR2, has_handler_with_more, "this program has a handler"},
    {SIGKILL, is_default, "no program can handle it"},
    {SIGSTOP, is_default, "no program can handle it"},
    {32, is_default, "no program can handle it"}, /* reserved by libc */
    {33, is_default, "no program can handle it"},
    {65, is_default, "no program can handle it"},
    {SIGUSR1, lacks_threads, "refused a thread"},
};

START_TEST(what_is_said_of_a_signal_is_why)
{
    int signal_number = rows[_i].signal_number;
    struct sigaction before = {0}, after = {0};
    pthread_attr_t threads;
    const char *why;

    pthread_getattr_default_np(&threads);
    rows[_i].before(signal_number);
    (void)sigaction(signal_number, NULL, &before);
    why = dump_start("/dev/null", signal_number, wake, NULL);
    (void)sigaction(signal_number, NULL, &after);
    ck_assert_int_eq(pthread_setattr_default_np(&threads), 0);
    pthread_attr_destroy(&threads);
    signal(signal_number, SIG_DFL);
    if (rows[_i].why == NULL) {
        ck_assert_msg(why == NULL, "signal %d: %s", signal_number, why);
        return;
    }
    ck_assert_msg(why != NULL && strstr(why, rows[_i].why) != NULL, "signal %d: %s",
                  signal_number, why == NULL ? "nothing" : why);
    ck_assert_ptr_nonnull(strstr(why, ": "));         /* what to do */
    ck_assert(before.sa_handler == after.sa_handler); /* the signal is as it was */
}
END_TEST

static char logged[600]; /* the last line */
static sem_t woken;

static void log_line(int level, unsigned long subsystems, const char *file, int line,
                     const char *format, ...) WEFT_PRINTF(5, 6);

static void log_line(int level, unsigned long subsystems, const char *file, int line,
                     const char *format, ...)
{
    va_list arguments;

    (void)level, (void)subsystems, (void)file, (void)line;
    va_start(arguments, format);
    vsnprintf(logged, sizeof(logged), format, arguments);
    va_end(arguments);
}

static void wake_test(void *context)
{
    (void)context;
    sem_post(&woken);
}

static const struct {
    const char *target, *line;
} files[] = {{"/dev/null", "state written to "}, {"/dev/full", "cannot write "}};

/* Buffered text is written when the file is closed, which can fail on a full disk. */
START_TEST(a_full_disk_is_said)
{
    char folder[] = "/tmp/weft-dump-XXXXXX", path[64], file[96];

    ck_assert_ptr_nonnull(mkdtemp(folder));
    weft_format(path, sizeof(path), "%s/state", folder);
    weft_format(file, sizeof(file), "%s.%d", path, (int)getpid());
    ck_assert_int_eq(symlink(files[_i].target, file), 0);
    /* Sets the log; the start fails. */
    ck_assert_int_eq(setenv("NCCL_MESH_SECRET", "none", 1), 0);
    ck_assert_int_ne(process_start(log_line), ABI_SUCCESS);
    ck_assert_int_eq(unsetenv("NCCL_MESH_SECRET"), 0);
    ck_assert_int_eq(sem_init(&woken, 0, 0), 0);
    ck_assert_ptr_null(dump_start(path, SIGUSR1, wake_test, NULL));
    ck_assert_int_eq(raise(SIGUSR1), 0);
    while (sem_wait(&woken) != 0) {
    }
    dump_look(NULL, 0);
    ck_assert_msg(strstr(logged, files[_i].line) != NULL, "%s", logged);
    signal(SIGUSR1, SIG_DFL);
    unlink(file);
    rmdir(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugin/dump");
    TCase *tcase = tcase_create("dump");

    tcase_add_loop_test(tcase, what_is_said_of_a_signal_is_why, 0, WEFT_LENGTH(rows));
    tcase_add_loop_test(tcase, a_full_disk_is_said, 0, WEFT_LENGTH(files));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
