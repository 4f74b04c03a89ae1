/* What is said of a check whose processes end in the middle of saying it. */
#define _GNU_SOURCE
#include <check.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/suite_testing.h"
#include "plugin/check_private.h"

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

/* A thread begins to write why, and another one ends the process. */
static void body_that_ends_amid(struct check *check)
{
    atomic_store(&check->shared->verdict, VERDICT_BEGUN);
    _exit(1);
}

/* The same, by a process that the watcher has to end. */
static void body_that_hangs_amid(struct check *check)
{
    atomic_store(&check->shared->verdict, VERDICT_BEGUN);
    check_begin(check, 0, CALL_TEST);
    for (;;) {
        pause();
    }
}

static const struct {
    void (*body)(struct check *check);
    const char *clause; /* NULL: kept */
} rows[] = {
    {body_that_keeps_all, NULL},
    {body_that_breaks, "message.lost"},
    {body_that_ends_amid, "no.crash"},
    {body_that_hangs_amid, "call.blocks"},
};

START_TEST(something_is_said_of_every_end)
{
    options.patience_ms = 20;
    ck_assert_int_eq(check_watch(&watched, rows[_i].body), rows[_i].clause == NULL);
    ck_assert_str_eq(shared->clause, rows[_i].clause == NULL ? "" : rows[_i].clause);
    if (rows[_i].clause != NULL) {
        ck_assert_ptr_nonnull(plugin_clause_find(shared->clause));
        ck_assert_str_ne(shared->detail, "");
        ck_assert_str_eq(shared->part, "load");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("check_watch");
    TCase *tcase = tcase_create("watch");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, something_is_said_of_every_end, 0,
                        sizeof(rows) / sizeof(rows[0]));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
