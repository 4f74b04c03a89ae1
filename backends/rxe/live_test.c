/* Doors between a guest that stays and its machine: a process stands for the guest. */
#define _GNU_SOURCE
#include "backends/rxe/live.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/rxe/scratch.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"

#define MS INT64_C(1000000)

static char folder[] = "/tmp/weft-live-test.XXXXXX";
static struct rxe_guest_options options;
static struct world_lab_hooks hooks;
static struct world_lab *lab;
static struct rxe_guest_tender tender;
static bool is_up;
static char ends[128]; /* "ID CODE, " of each */

static void up(void *context, struct world_lab *which, const char *where)
{
    (void)context;
    ck_assert_ptr_eq(which, lab);
    ck_assert_str_eq(where, folder);
    ck_assert(!is_up);
    is_up = true;
}

static size_t wants(void *context, struct pollfd *fds, size_t n_max)
{
    (void)context;
    (void)fds;
    (void)n_max;
    return 0;
}

static bool look(void *context, const struct pollfd *fds, size_t n)
{
    (void)context;
    (void)fds;
    (void)n;
    return true;
}

static void ended(void *context, uint32_t id, int code)
{
    size_t n = strlen(ends);

    (void)context;
    weft_format(ends + n, sizeof(ends) - n, "%u %d, ", id, code);
}

static void begin(bool is_virtual)
{
    struct weft_error error = {0};

    options = (struct rxe_guest_options){.is_virtual = is_virtual};
    hooks =
        (struct world_lab_hooks){.up = up, .wants = wants, .look = look, .ended = ended};
    lab = rxe_live_create(&options, &hooks);
    tender = rxe_live_tender(lab);
    ck_assert_int_eq(tender.begin(tender.context, folder, &error), WEFT_OK);
}

static void setup(void)
{
    memset(folder + strlen(folder) - 6, 'X', 6);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    is_up = false;
    ends[0] = '\0';
}

static void tear_down(void)
{
    rxe_live_destroy(lab);
    scratch_remove(folder);
}

static weft_ns clock_now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 * MS + time.tv_nsec;
}

/* As the guest: says it, and goes through the door. */
static void pass(unsigned door, const char *said)
{
    char name[32];
    char path[SCRATCH_PATH_BYTES];
    int fd;

    weft_format(name, sizeof(name), "said.%u", door);
    if (!scratch_write(folder, name, said, strlen(said))) {
        _exit(1);
    }
    weft_format(name, sizeof(name), "door.%u", door);
    scratch_path(folder, name, path);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        _exit(2);
    }
    close(fd);
}

/* A guest that goes through a door with each of `said` [n], and ends. */
static pid_t guest(const char *const *said, unsigned n)
{
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        for (unsigned i = 0; i < n; i++) {
            pass(i, said[i]);
        }
        _exit(0);
    }
    return pid;
}

/* The same of one door more. */
static pid_t next_guest(unsigned door, const char *said)
{
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        pass(door, said);
        _exit(0);
    }
    return pid;
}

static char state_of(pid_t pid)
{
    char place[32];
    char *text;
    char state;
    size_t n;

    weft_format(place, sizeof(place), "/proc/%d", (int)pid);
    text = scratch_read(place, "stat", &n);
    ck_assert_ptr_nonnull(text);
    state = strrchr(text, ')')[2];
    free(text);
    return state;
}

static void tend(pid_t pid)
{
    ck_assert(tender.tend(tender.context, pid, NULL, 0));
}

static void tend_until_stopped(pid_t pid)
{
    while (state_of(pid) != 'T') {
        ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
        tend(pid);
    }
}

static void tend_until_over(pid_t pid)
{
    int wait_status;

    while (waitpid(pid, &wait_status, WNOHANG) == 0) {
        tend(pid);
    }
    ck_assert_int_eq(wait_status, 0);
}

/* What the guest finds behind a door: its words, a blank after each. */
static void assert_asked(unsigned door, const char *expected)
{
    char name[32];
    char *text;
    size_t n;

    weft_format(name, sizeof(name), "ask.%u", door);
    text = scratch_read(folder, name, &n);
    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < n; i++) {
        text[i] = text[i] == '\0' ? ' ' : text[i];
    }
    ck_assert_str_eq(text, expected);
    free(text);
}

static char *const words[] = {(char *)(uintptr_t) "ls", (char *)(uintptr_t) "-l", NULL};
static char *const variables[] = {(char *)(uintptr_t) "PATH=/bin",
                                  (char *)(uintptr_t) "SHLVL=3", NULL};

static void start(uint32_t expected_id)
{
    const struct world_lab_program program = {.host = 2,
                                              .delay_ns = 9000 * MS,
                                              .cwd = "/tmp",
                                              .argv = words,
                                              .variables = variables,
                                              .input = "hello",
                                              .n_input = 5};
    uint32_t id;

    ck_assert_int_eq(rxe_live_start(lab, &program, &id), 0);
    ck_assert_uint_eq(id, expected_id);
}

/* However often it is looked after, until there is something to do. */
START_TEST(a_guest_where_nothing_runs_stands_still)
{
    static const char *const said[] = {"1000000000 0\n"};
    char *text;
    size_t n;
    pid_t pid;

    begin(true);
    pid = guest(said, 1);
    ck_assert(!tender.is_idle(tender.context));
    tend_until_stopped(pid);
    ck_assert(tender.is_idle(tender.context));
    ck_assert(is_up);
    ck_assert_int_eq(rxe_live_now(lab), 1000 * MS);
    start(0);
    rxe_live_signal(lab, 7, SIGUSR1);
    rxe_live_hang_up(lab, 8);
    ck_assert_int_eq(state_of(pid), 'T');
    tend_until_over(pid);
    ck_assert(!tender.is_idle(tender.context));
    assert_asked(
        0, "exec 0 2 9000000000 /tmp 0 2 ls -l 1 PATH=/bin signal 1 7 10 hangup 8 ");
    text = scratch_read(folder, "in.0", &n);
    ck_assert_str_eq(text, "hello");
    free(text);
    ck_assert(!scratch_has(folder, "out.0"));
    rxe_live_forget(lab, 0);
    ck_assert_ptr_null(scratch_read(folder, "out.0", &n));
}
END_TEST

START_TEST(in_real_time_it_does_not_and_variables_are_all_there)
{
    static const char *const said[] = {"5 0\n", "6 0\n"};
    pid_t pid;

    begin(false);
    pid = guest(said, 2);
    tend_until_over(pid);
    ck_assert(is_up);
    assert_asked(1, "");
    start(0);
    pid = next_guest(2, "7 0\n");
    tend_until_over(pid);
    assert_asked(2, "exec 0 2 9000000000 /tmp 0 2 ls -l 2 PATH=/bin SHLVL=3 ");
}
END_TEST

/* Nothing that was asked for is asked for a second time. */
START_TEST(ends_are_heard_once)
{
    static const char *const said[] = {"10 0\n", "20 2\n", "30 1\n1 137\n",
                                       "40 0\n0 3\n"};
    pid_t pid;

    begin(true);
    start(0);
    start(1);
    pid = guest(said, WEFT_LENGTH(said));
    tend_until_stopped(pid);
    ck_assert_str_eq(ends, "1 137, 0 3, ");
    start(2);
    tend_until_over(pid);
    assert_asked(3, "exec 2 2 9000000000 /tmp 0 2 ls -l 1 PATH=/bin ");
    ck_assert_uint_eq(rxe_live_look(lab), 3);
}
END_TEST

/* A lower bound: what a busy machine does is later still. */
START_TEST(the_clock_is_not_ahead_of_the_machines)
{
    static const char *const said[] = {"1000000000 0\n", "1000000000 1\n",
                                       "1040000000 1\n", "1080000000 1\n"};
    weft_ns begun;
    pid_t pid;

    begin(true);
    pid = guest(said, WEFT_LENGTH(said));
    tend_until_stopped(pid);
    start(0);
    begun = clock_now();
    tend_until_over(pid);
    ck_assert_int_ge(clock_now() - begun, 80 * MS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rxe/live");
    TCase *all = tcase_create("doors");

    tcase_add_checked_fixture(all, setup, tear_down);
    tcase_add_test(all, a_guest_where_nothing_runs_stands_still);
    tcase_add_test(all, in_real_time_it_does_not_and_variables_are_all_there);
    tcase_add_test(all, ends_are_heard_once);
    tcase_add_test(all, the_clock_is_not_ahead_of_the_machines);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
