/* Sockets of labs, in a folder of this test's own. */
#define _GNU_SOURCE
#include "backends/rxe/live_socket.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/rxe/scratch.h"
#include "base/check.h"
#include "base/suite_testing.h"

#define BACKLOG 2

static char folder[] = "/tmp/weft-socket-test.XXXXXX";
static int listen_fd;

static void setup(void)
{
    memset(folder + strlen(folder) - 6, 'X', 6);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(live_listen(folder, "lab", BACKLOG, &listen_fd), 0);
}

static void tear_down(void)
{
    if (listen_fd >= 0) {
        close(listen_fd);
    }
    scratch_remove(folder);
}

START_TEST(who_connects_knows_who_listens)
{
    char byte = 0;
    int fd, other;

    ck_assert_int_eq(live_connect(folder, "lab", &fd), 0);
    ck_assert_int_eq(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    ck_assert_int_eq(live_peer(fd), getpid());
    other = live_accept(listen_fd);
    ck_assert_int_ge(other, 0);
    ck_assert_int_eq(live_send(other, "x", 1), 1);
    ck_assert_int_eq(read(fd, &byte, 1), 1);
    ck_assert_int_eq(byte, 'x');
    ck_assert_int_eq(read(other, &byte, 1), -1);
    ck_assert_int_eq(errno, EAGAIN);
    close(fd);
    ck_assert_int_eq(live_send(other, "x", 1), -1); /* and no signal */
    ck_assert_int_eq(errno, EPIPE);
    close(other);
}
END_TEST

/* A client does not wait for a daemon that is stopped. */
START_TEST(a_full_backlog_is_an_answer)
{
    int fds[BACKLOG + 2];
    int n = 0;
    int problem = 0;

    while (problem == 0 && n < (int)WEFT_LENGTH(fds)) {
        problem = live_connect(folder, "lab", &fds[n]);
        n += problem == 0;
    }
    ck_assert_int_eq(problem, EAGAIN);
    while (n > 0) {
        close(fds[--n]);
    }
}
END_TEST

START_TEST(one_that_nobody_listens_at_refuses_and_its_name_is_taken_again)
{
    char long_name[200];
    int fd;

    close(listen_fd);
    ck_assert_int_eq(live_connect(folder, "lab", &fd), ECONNREFUSED);
    ck_assert_int_eq(fd, -1);
    ck_assert_int_eq(live_connect(folder, "other", &fd), ENOENT);
    ck_assert_int_eq(live_listen(folder, "lab", BACKLOG, &listen_fd), 0);
    ck_assert_int_eq(live_connect(folder, "lab", &fd), 0);
    close(fd);
    memset(long_name, 'x', sizeof(long_name));
    long_name[sizeof(long_name) - 1] = '\0';
    ck_assert_int_eq(live_connect(folder, long_name, &fd), ENAMETOOLONG);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rxe/live_socket");
    TCase *all = tcase_create("sockets");

    tcase_add_checked_fixture(all, setup, tear_down);
    tcase_add_test(all, who_connects_knows_who_listens);
    tcase_add_test(all, a_full_backlog_is_an_answer);
    tcase_add_test(all, one_that_nobody_listens_at_refuses_and_its_name_is_taken_again);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
