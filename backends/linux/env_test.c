/* Notices about ended members, received through a pipe. */
#define _GNU_SOURCE
#include "backends/linux/env.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "backends/linux/aliases.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "io/machine.h"

static struct linux_loop *loop;
static struct linux_env *env;
static struct io_task task;
static int fds[2];

static struct io_env *start(const char *notices)
{
    struct world_setting setting = {.name = "WEFT_NOTICES", .value = notices};
    struct linux_env_config config = {.name = "titanic",
                                      .netns_fd = -1,
                                      .only_given_settings = true,
                                      .settings = &setting,
                                      .n_settings = notices != NULL ? 1 : 0};
    struct weft_error error = {.status = WEFT_OK};

    linux_env_destroy(env);
    ck_assert_int_eq(linux_env_create(loop, &config, &env, &error), WEFT_OK);
    linux_env_io(env)->ended_task = &task;
    return linux_env_io(env);
}

static void setup(void)
{
    struct weft_error error = {.status = WEFT_OK};

    env = NULL;
    ck_assert_int_eq(linux_loop_create(1, &loop, &error), WEFT_OK);
    io_task_init(&task, linux_loop_io(loop), 0, 0);
    ck_assert_int_eq(pipe(fds), 0);
}

static void teardown(void)
{
    linux_env_destroy(env);
    io_task_fini(&task);
    linux_loop_destroy(loop);
    close(fds[0]);
    close(fds[1]);
}

static void say(const char *text)
{
    ck_assert_int_eq(write(fds[1], text, strlen(text)), (ssize_t)strlen(text));
}

/* Handles pending input. Returns true if the task was woken. */
static bool look(void)
{
    weft_status status = linux_loop_step(loop, linux_loop_now(loop));

    return io_loop_pop(linux_loop_io(loop)) == &task && status == WEFT_OK;
}

START_TEST(ends_are_told_in_order_and_once)
{
    char number[12];
    uint32_t member = 0;
    struct io_env *io;

    weft_format(number, sizeof number, "%d", fds[0]);
    io = start(number);
    ck_assert(!io_next_ended(io, &member) && !look());
    say("2\n17");
    ck_assert(look() && io_next_ended(io, &member));
    ck_assert_uint_eq(member, 2);
    ck_assert(!io_next_ended(io, &member)); /* the number may continue */
    say("0\n0\n");
    ck_assert(look() && io_next_ended(io, &member));
    ck_assert_uint_eq(member, 170);
    ck_assert(io_next_ended(io, &member));
    ck_assert_uint_eq(member, 0);
    ck_assert(!io_next_ended(io, &member) && !look());
    io->ended_task = NULL; /* no task to wake; notices are kept */
    say("5\n");
    ck_assert(!look() && io_next_ended(io, &member));
    ck_assert_uint_eq(member, 5);
}
END_TEST

/* As from a terminal, which is standard input of a process on another machine (WEFT_NOTICES=0). */
START_TEST(a_line_that_is_no_number_is_no_member)
{
    char number[12];
    uint32_t member = 0;
    struct io_env *io;

    weft_format(number, sizeof number, "%d", fds[0]);
    io = start(number);
    say("\n\nx\n-1\n1 2\n4294967296\n99999999999999999999999\n");
    ck_assert(!look() && !io_next_ended(io, &member));
    say("4294967295\n7\n");
    ck_assert(look() && io_next_ended(io, &member));
    ck_assert_uint_eq(member, UINT32_MAX);
    ck_assert(io_next_ended(io, &member));
    ck_assert_uint_eq(member, 7);
}
END_TEST

START_TEST(the_pipe_is_left_as_it_was_found)
{
    char number[12];
    uint32_t member;

    weft_format(number, sizeof number, "%d", fds[0]);
    start(number);
    linux_env_destroy(env);
    env = NULL;
    ck_assert_int_ge(fcntl(fds[0], F_GETFD), 0);
    say("3\n");
    ck_assert(look() == false);
    ck_assert(start(number) != NULL && look() &&
              io_next_ended(linux_env_io(env), &member));
}
END_TEST

/* The starter may be on another machine, and nothing else would end this process: SIGTERM. */
START_TEST(whoever_is_left_by_who_started_it_ends)
{
    char number[12];

    weft_format(number, sizeof number, "%d", fds[0]);
    start(number);
    say("3\n");
    ck_assert(look());
    close(fds[1]);
    look();
}
END_TEST

START_TEST(without_a_pipe_nobody_tells)
{
    static const char *const texts[] = {NULL,          "",    "none", "3x", "-1",
                                        "99999999999", "4000"};
    uint32_t member;

    for (size_t i = 0; i < WEFT_LENGTH(texts); i++) {
        ck_assert(!io_next_ended(start(texts[i]), &member));
    }
}
END_TEST

START_TEST(what_is_inside_is_as_given_or_this_machines)
{
    const struct io_machine given = {.arch = "ppc64le"};
    struct linux_env_config config = {
        .name = "titanic", .netns_fd = -1, .machine = &given};
    struct weft_error error = {.status = WEFT_OK};
    struct io_env *io = start(NULL);
    const struct io_machine *own = io->ops->hostinfo(io)->machine;

    ck_assert_ptr_nonnull(own);
    ck_assert_str_ne(own->arch, "");
    ck_assert_ptr_eq(io->ops->hostinfo(io)->machine, own);
    linux_env_destroy(env);
    ck_assert_int_eq(linux_env_create(loop, &config, &env, &error), WEFT_OK);
    io = linux_env_io(env);
    ck_assert_ptr_eq(io->ops->hostinfo(io)->machine, &given);
    /* Also with aliases instead of the kernel's addresses. */
    static struct io_hostinfo info = {.memlock_bytes = 7};
    const struct linux_aliases aliases = {.info = &info};
    config.aliases = &aliases;
    linux_env_destroy(env);
    ck_assert_int_eq(linux_env_create(loop, &config, &env, &error), WEFT_OK);
    io = linux_env_io(env);
    ck_assert_ptr_eq(io->ops->hostinfo(io)->machine, &given);
    ck_assert_int_eq(io->ops->hostinfo(io)->memlock_bytes, 7);
    linux_env_destroy(env);
    env = NULL;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("linux env");
    TCase *tcase = tcase_create("notices");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, ends_are_told_in_order_and_once);
    tcase_add_test(tcase, a_line_that_is_no_number_is_no_member);
    tcase_add_test(tcase, the_pipe_is_left_as_it_was_found);
    tcase_add_test_raise_signal(tcase, whoever_is_left_by_who_started_it_ends, SIGTERM);
    tcase_add_test(tcase, without_a_pipe_nobody_tells);
    tcase_add_test(tcase, what_is_inside_is_as_given_or_this_machines);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
