/* Scratch folders of killed guests: which of them a sweep removes. */
#define _GNU_SOURCE
#include "backends/rxe/scratch.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/rxe/guest.h"
#include "base/suite_testing.h"
#include "base/text.h"

static char parent[] = "/tmp/weft-scratch-test.XXXXXX";

static void setup(void)
{
    memset(parent + strlen(parent) - 6, 'X', 6);
    ck_assert_ptr_nonnull(mkdtemp(parent));
    ck_assert_int_eq(setenv("TMPDIR", parent, 1), 0);
}

static void tear_down(void)
{
    scratch_remove(parent);
}

static bool is_there(const char *path)
{
    struct stat status;

    return lstat(path, &status) == 0;
}

/* Makes a folder like an owner with this process number. */
static void leave(int owner, bool has_lock, char out[SCRATCH_PATH_BYTES])
{
    weft_format(out, SCRATCH_PATH_BYTES, "%s/%s%d.abcdef", parent, SCRATCH_PREFIX, owner);
    ck_assert_int_eq(mkdir(out, 0700), 0);
    ck_assert(!has_lock || scratch_write(out, "lock", "", 0));
}

/* Returns the number of a process that has ended. */
static int dead_process(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    return pid;
}

START_TEST(an_empty_folder_of_a_dead_process_goes)
{
    char scratch[SCRATCH_PATH_BYTES];

    leave(dead_process(), false, scratch);
    ck_assert_uint_eq(rxe_guest_cleanup(NULL), 1);
    ck_assert(!is_there(scratch));
    ck_assert_uint_eq(rxe_guest_cleanup(NULL), 0);
}
END_TEST

START_TEST(a_folder_whose_number_another_process_has_goes)
{
    char scratch[SCRATCH_PATH_BYTES];

    leave((int)getpid(), true, scratch);
    ck_assert_uint_eq(rxe_guest_cleanup(NULL), 1);
    ck_assert(!is_there(scratch));
}
END_TEST

START_TEST(a_folder_in_use_stays)
{
    char scratch[SCRATCH_PATH_BYTES];
    char fresh[SCRATCH_PATH_BYTES];
    int lock;

    ck_assert(scratch_make(scratch, &lock));
    leave((int)getpid(), false, fresh);
    ck_assert_uint_eq(rxe_guest_cleanup(NULL), 0);
    ck_assert(is_there(scratch) && is_there(fresh));
    close(lock);
    ck_assert_uint_eq(rxe_guest_cleanup(NULL), 1);
    ck_assert(!is_there(scratch) && is_there(fresh));
}
END_TEST

/* The owner is killed while it holds the lock. */
START_TEST(what_a_killed_owner_left_goes)
{
    char ready;
    int pipe_fds[2];
    pid_t pid;

    ck_assert_int_eq(pipe(pipe_fds), 0);
    pid = fork();
    if (pid == 0) {
        char scratch[SCRATCH_PATH_BYTES];
        int lock;

        (void)(scratch_make(scratch, &lock) && write(pipe_fds[1], "", 1) == 1);
        pause();
    }
    ck_assert_int_eq(read(pipe_fds[0], &ready, 1), 1);
    ck_assert_uint_eq(rxe_guest_cleanup(NULL), 0);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_uint_eq(rxe_guest_cleanup(NULL), 1);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rxe/scratch");
    TCase *all = tcase_create("left over");

    tcase_add_checked_fixture(all, setup, tear_down);
    tcase_add_test(all, an_empty_folder_of_a_dead_process_goes);
    tcase_add_test(all, a_folder_whose_number_another_process_has_goes);
    tcase_add_test(all, a_folder_in_use_stays);
    tcase_add_test(all, what_a_killed_owner_left_goes);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
