/* Segments in /dev/shm: two mappings, no space, and a creator that dies. */
#define _GNU_SOURCE
#include "backends/linux/shm.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/linux/env.h"
#include "base/suite_testing.h"
#include "base/text.h"

#define N ((size_t)3 * 4096 + 100)

static struct linux_loop *loop;
static struct linux_env *linux_env;
static struct io_env *env;

static void setup(void)
{
    struct linux_env_config config = {.name = "titanic", .netns_fd = -1};
    struct weft_error error = {.status = WEFT_OK};

    ck_assert_int_eq(linux_loop_create(1, &loop, &error), WEFT_OK);
    ck_assert_int_eq(linux_env_create(loop, &config, &linux_env, &error), WEFT_OK);
    env = linux_env_io(linux_env);
}

static void teardown(void)
{
    linux_env_destroy(linux_env);
    linux_loop_destroy(loop);
}

static bool exists(const char *name)
{
    char path[80];

    weft_format(path, sizeof path, "/dev/shm/%s", name);
    return access(path, F_OK) == 0;
}

static struct io_shm *create(char name[IO_SHM_NAME_BYTES])
{
    struct io_shm *segment = NULL;

    ck_assert_int_eq(env->shm->create(env, N, name, &segment), 0);
    ck_assert_uint_eq(segment->n_bytes, N);
    return segment;
}

START_TEST(two_mappings_are_one_memory)
{
    char name[IO_SHM_NAME_BYTES];
    struct io_shm *a = create(name), *b = NULL;
    uint8_t *mine = a->memory, *theirs;

    for (size_t i = 0; i < N; i++) {
        ck_assert_uint_eq(mine[i], 0);
    }
    ck_assert_int_eq(env->shm->attach(env, name, N, &b), 0);
    theirs = b->memory;
    ck_assert_ptr_ne(mine, theirs);
    mine[N - 1] = 7;
    ck_assert_uint_eq(theirs[N - 1], 7);
    ck_assert(exists(name));
    env->shm->unlink(a);
    ck_assert(!exists(name));
    env->shm->unlink(a); /* a second unlink has no effect */
    env->shm->close(a);
    theirs[N - 1] = 8; /* still valid for its other user */
    env->shm->close(b);
    env->shm->close(NULL);
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
    char name[IO_SHM_NAME_BYTES], other[IO_SHM_NAME_BYTES];
    struct io_shm *a = create(name), *b = NULL;

    ck_assert_int_eq(env->shm->create(env, 0, other, &b), EINVAL);
    ck_assert_int_eq(env->shm->attach(env, name, N + 1, &b), EINVAL);
    ck_assert_int_eq(env->shm->attach(env, "../etc/passwd", N, &b), EINVAL);
    ck_assert_int_eq(env->shm->attach(env, "weft-", N, &b), EINVAL);
    weft_format(other, sizeof other, "%s", name);
    other[5] = other[5] == '0' ? '1' : '0';
    ck_assert_int_eq(env->shm->attach(env, other, N, &b), ENOENT);
    env->shm->close(a); /* also removes the name */
    ck_assert(!exists(name));
    ck_assert_int_eq(env->shm->attach(env, name, N, &b), ENOENT);
}
END_TEST

static uint64_t secret[2];

static void tell_secret(struct io_env *io, void *out, size_t n_bytes)
{
    (void)io;
    ck_assert_uint_eq(n_bytes, sizeof secret);
    memcpy(out, secret, n_bytes);
}

START_TEST(no_room_is_an_error_and_leaves_nothing)
{
    char name[IO_SHM_NAME_BYTES] = "", wanted[IO_SHM_NAME_BYTES];
    struct io_shm *segment = NULL;
    struct io_env_ops known = *env->ops;

    env->ops->random(env, secret, sizeof secret);
    known.random = tell_secret;
    env->ops = &known;
    weft_format(wanted, sizeof wanted, "weft-%016llx%016llx",
                (unsigned long long)secret[0], (unsigned long long)secret[1]);
    ck_assert_int_eq(env->shm->create(env, (size_t)1 << 50, name, &segment), ENOSPC);
    ck_assert_ptr_null(segment);
    ck_assert_str_eq(name, "");
    ck_assert(!exists(wanted));
    segment = create(name);
    ck_assert_str_eq(name, wanted); /* so that was the name */
    env->shm->close(segment);
}
END_TEST

START_TEST(the_fact_is_the_device)
{
    ck_assert_uint_ne(linux_shm_dev(), 0);
    ck_assert_uint_eq(env->ops->hostinfo(env)->shm_dev, linux_shm_dev());
}
END_TEST

/* Starts a process that creates a segment, sends its name and waits to be killed. */
static pid_t start_victim(char name[IO_SHM_NAME_BYTES])
{
    int fds[2];
    pid_t pid;

    ck_assert_int_eq(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        char own[IO_SHM_NAME_BYTES] = "";
        struct io_shm *segment;

        if (env->shm->create(env, N, own, &segment) != 0 ||
            write(fds[1], own, sizeof own) != sizeof own) {
            _exit(1);
        }
        for (;;) {
            pause();
        }
    }
    ck_assert_int_eq(read(fds[0], name, IO_SHM_NAME_BYTES), IO_SHM_NAME_BYTES);
    close(fds[0]);
    close(fds[1]);
    return pid;
}

/* Other processes may sweep as well, and leave segments, while this test runs. */
START_TEST(what_the_dead_left_is_swept_and_the_living_keep_theirs)
{
    char theirs[IO_SHM_NAME_BYTES], mine[IO_SHM_NAME_BYTES], name[IO_SHM_NAME_BYTES];
    struct io_shm *own = create(mine), *seen = NULL, *next;
    pid_t victim = start_victim(theirs);

    linux_shm_sweep(NULL);
    ck_assert(exists(theirs) && exists(mine)); /* both creators are running */
    ck_assert_int_eq(env->shm->attach(env, theirs, N, &seen), 0);
    ck_assert_int_eq(kill(victim, SIGKILL), 0);
    ck_assert_int_eq(waitpid(victim, NULL, 0), victim);
    linux_shm_sweep(NULL);
    ck_assert(!exists(theirs));
    ck_assert(exists(mine));
    memset(seen->memory, 1, N); /* an attached segment stays valid */
    next = create(name);
    env->shm->close(next);
    env->shm->close(seen);
    env->shm->close(own);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backends/linux/shm");
    TCase *tests = tcase_create("shm");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, two_mappings_are_one_memory);
    tcase_add_test(tests, what_does_not_fit_is_refused);
    tcase_add_test(tests, no_room_is_an_error_and_leaves_nothing);
    tcase_add_test(tests, the_fact_is_the_device);
    tcase_add_test(tests, what_the_dead_left_is_swept_and_the_living_keep_theirs);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
