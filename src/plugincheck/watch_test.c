/* Tests the verdict on a check whose processes end while they write it, or cannot start. */
#define _GNU_SOURCE
#include <check.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/suite_testing.h"
#include "plugincheck/private.h"

#define FOR_EVER_MS 1000000000 /* exceeds Check's own limit for a test */

static struct plugin_check_options options;
static struct check_shared *shared;
static struct check watched;

static void set_up(void)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    plugin_check_options_default(&options);
    watched = (struct check){
        .options = &options, .shared = shared, .part = "load", .n_ranks = 2};
}

static void tear_down(void)
{
    munmap(shared, sizeof(*shared));
}

static void body_that_keeps_all(struct check *check)
{
    (void)check;
}

static void body_that_breaks(struct check *check)
{
    check_broken(check, "message.lost", "what was seen");
}

/* One thread begins to write its verdict, and another one ends the process. */
static void body_that_ends_amid(struct check *check)
{
    atomic_store(&check->shared->verdict, VERDICT_BEGUN);
    _exit(1);
}

/* Hangs after it began to write its verdict, so that the watcher must kill it. */
static void body_that_hangs_amid(struct check *check)
{
    (void)check;
    for (;;) {
        pause();
    }
}

/* Does what that process would have done before it hangs. Called before the fork, because the
 * timeout can expire before the process has run at all. */
static void before_it_hangs_amid(void)
{
    atomic_store(&shared->verdict, VERDICT_BEGUN);
    check_begin(&watched, 0, CALL_TEST);
}

static const struct {
    void (*body)(struct check *check);
    void (*before)(void); /* NULL if the body ends by itself */
    const char *clause;   /* NULL if no clause is broken */
} rows[] = {
    {body_that_keeps_all, NULL, NULL},
    {body_that_breaks, NULL, "message.lost"},
    {body_that_ends_amid, NULL, "no.crash"},
    {body_that_hangs_amid, before_it_hangs_amid, "call.blocks"},
};

START_TEST(something_is_said_of_every_end)
{
    options.patience_ms = FOR_EVER_MS;
    if (rows[_i].before != NULL) {
        options.patience_ms = 20;
        rows[_i].before();
    }
    ck_assert_int_eq(check_watch(&watched, rows[_i].body), rows[_i].clause == NULL);
    ck_assert_str_eq(shared->clause, rows[_i].clause == NULL ? "" : rows[_i].clause);
    if (rows[_i].clause != NULL) {
        ck_assert_ptr_nonnull(plugin_clause_find(shared->clause));
        ck_assert_str_ne(shared->detail, "");
        ck_assert_str_eq(shared->part, "load");
    }
}
END_TEST

/* A program that ignores SIGCHLD passes that on to `weft plugin-check`. */
START_TEST(a_crash_is_seen_if_the_parent_ignores_sigchld)
{
    void (*before)(int signal_number) = signal(SIGCHLD, SIG_IGN);

    options.patience_ms = FOR_EVER_MS;
    ck_assert(!check_watch(&watched, body_that_ends_amid));
    ck_assert_str_eq(shared->clause, "no.crash");
    ck_assert_ptr_nonnull(strstr(shared->detail, "exit code 1"));
    ck_assert(signal(SIGCHLD, before) == SIG_IGN);
}
END_TEST

/* Leaves this process neither another process nor another thread. */
static void lose_means(void)
{
    static const struct rlimit none = {0, 0};

    if (setrlimit(RLIMIT_NPROC, &none) != 0 || (geteuid() == 0 && setuid(65534) != 0)) {
        _exit(2);
    }
}

static void body_without_processes(struct check *check)
{
    lose_means();
    check_ranks_as_processes(check);
}

static void body_without_threads(struct check *check)
{
    lose_means();
    check_ranks_as_threads(check);
}

static void body_without_namespaces(struct check *check)
{
    check_enter(check, 1);
}

static const struct {
    void (*body)(struct check *check);
    const char *detail; /* how it begins */
} lacking[] = {
    {body_without_processes, "cannot start a process: "},
    {body_without_threads, "cannot start a thread: "},
    {body_without_namespaces, "rank 1 cannot enter /nowhere: "},
};

/* What the check itself lacks is no verdict on the plugin. */
START_TEST(nothing_is_said_of_a_plugin_that_was_not_judged)
{
    options.patience_ms = FOR_EVER_MS;
    options.namespaces[1] = "/nowhere";
    ck_assert(!check_watch(&watched, lacking[_i].body));
    ck_assert_int_eq(atomic_load(&shared->verdict), VERDICT_WRITTEN);
    ck_assert_str_eq(shared->clause, "");
    ck_assert_msg(
        strncmp(shared->detail, lacking[_i].detail, strlen(lacking[_i].detail)) == 0,
        "%s", shared->detail);
    ck_assert_str_ne(shared->detail, lacking[_i].detail);
}
END_TEST

/* Likewise if the check cannot even begin. */
START_TEST(no_plugin_is_judged_without_a_process)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        struct plugin_check_result result;

        lose_means();
        options.path = "/nowhere.so";
        _exit(!plugin_check(&options, &result) && result.is_undecided &&
                      !result.is_broken && !result.is_missing && result.clause == NULL &&
                      strncmp(result.detail, "cannot start a process", 22) == 0
                  ? 0
                  : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* Each look counts once, however late it comes. 20 ms are 4 looks for a call, 8 for a
 * standstill. */
START_TEST(patience_is_counted_in_looks)
{
    struct check_ages ages = {0};

    options.patience_ms = 20;
    check_moved(&watched);
    check_look(&watched, &ages);
    check_begin(&watched, 3, CALL_ACCEPT);
    for (int i = 0; i < 4; i++) {
        check_look(&watched, &ages);
        ck_assert(!check_is_over(&watched, &ages));
    }
    check_end(&watched, 3);
    check_begin(&watched, 3, CALL_ACCEPT); /* another call, which has its own time */
    for (int i = 0; i < 4; i++) {
        check_look(&watched, &ages);
        if (i == 1) {
            check_moved(&watched); /* in another thread */
        }
        ck_assert(!check_is_over(&watched, &ages));
    }
    check_look(&watched, &ages);
    ck_assert(check_is_over(&watched, &ages));
    ck_assert_str_eq(shared->clause, "accept.blocks");
}
END_TEST

/* Row: what the thread does between the last look and the verdict. */
START_TEST(the_call_that_was_looked_at_is_named)
{
    struct check_ages ages = {0};

    options.patience_ms = 20;
    check_moved(&watched);
    check_begin(&watched, 2, CALL_CONNECT);
    for (int i = 0; i < 5; i++) {
        check_look(&watched, &ages);
    }
    if (_i > 0) {
        check_end(&watched, 2);
    }
    if (_i > 1) {
        check_begin(&watched, 2, CALL_TEST);
    }
    ck_assert(check_is_over(&watched, &ages));
    ck_assert_str_eq(shared->clause, "connect.blocks");
    ck_assert_str_eq(shared->detail, "connect did not return within 20 ms");
}
END_TEST

/* Row: irecv gave no request long ago (0) or recently (1). */
START_TEST(a_standstill_is_told_by_what_came_before)
{
    struct check_ages ages = {0};

    options.patience_ms = 20;
    check_moved(&watched);
    atomic_store(&shared->starved_ns, 1);
    for (int i = 0; i < 8; i++) {
        check_look(&watched, &ages);
        if (_i == 1 && i == 5) {
            atomic_store(&shared->starved_ns, 2);
        }
        ck_assert(!check_is_over(&watched, &ages));
    }
    check_look(&watched, &ages);
    ck_assert(check_is_over(&watched, &ages));
    ck_assert_str_eq(shared->clause, _i == 1 ? "requests.recycled" : "message.lost");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("check_watch");
    TCase *tcase = tcase_create("watch");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, something_is_said_of_every_end, 0,
                        sizeof(rows) / sizeof(rows[0]));
    tcase_add_loop_test(tcase, nothing_is_said_of_a_plugin_that_was_not_judged, 0,
                        sizeof(lacking) / sizeof(lacking[0]));
    tcase_add_test(tcase, no_plugin_is_judged_without_a_process);
    tcase_add_test(tcase, a_crash_is_seen_if_the_parent_ignores_sigchld);
    tcase_add_test(tcase, patience_is_counted_in_looks);
    tcase_add_loop_test(tcase, the_call_that_was_looked_at_is_named, 0, 3);
    tcase_add_loop_test(tcase, a_standstill_is_told_by_what_came_before, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
