/* Guests on processors of their own, while there are enough. */
#define _GNU_SOURCE
#include "backends/rxe/cpu.h"

#include <check.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"

/* Nobody else's. */
#define KIND "weft-cpu-test"

enum { GUESTS = 3 };

/* What a guest tells of itself. */
struct told {
    int cpu, n_allowed;
    bool has_claim;
};

struct guest {
    pid_t pid;
    int tells, ends;
};

static int n_allowed(void)
{
    cpu_set_t allowed;

    ck_assert_int_eq(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    return CPU_COUNT(&allowed);
}

/* A process that takes a processor and keeps it until it is told to end. */
static void start(struct guest *guest, struct told *told)
{
    int up[2], down[2];

    ck_assert_int_eq(pipe(up), 0);
    ck_assert_int_eq(pipe(down), 0);
    guest->pid = fork();
    if (guest->pid == 0) {
        struct told mine;
        char byte;
        int fd;

        close(down[1]);
        mine = (struct told){.cpu = rxe_cpu_take(KIND, &fd)};
        mine.n_allowed = n_allowed();
        mine.has_claim = fd >= 0;
        _exit(write(up[1], &mine, sizeof(mine)) == sizeof(mine) &&
                      read(down[0], &byte, 1) == 1
                  ? EXIT_SUCCESS
                  : EXIT_FAILURE);
    }
    close(up[1]);
    close(down[0]);
    guest->tells = up[0];
    guest->ends = down[1];
    ck_assert_int_eq(read(guest->tells, told, sizeof(*told)), sizeof(*told));
}

static void end(struct guest *guest)
{
    int wait_status;

    ck_assert_int_eq(write(guest->ends, "", 1), 1);
    close(guest->ends);
    close(guest->tells);
    ck_assert_int_eq(waitpid(guest->pid, &wait_status, 0), guest->pid);
    ck_assert(WIFEXITED(wait_status));
    ck_assert_int_eq(WEXITSTATUS(wait_status), EXIT_SUCCESS);
}

static void keep_two(void)
{
    cpu_set_t allowed, two;
    int n = 0;

    CPU_ZERO(&two);
    ck_assert_int_eq(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    for (size_t i = 0; i < CPU_SETSIZE && n < 2; i++) {
        if (CPU_ISSET(i, &allowed)) {
            CPU_SET(i, &two);
            n++;
        }
    }
    ck_assert_int_eq(sched_setaffinity(0, sizeof(two), &two), 0);
}

START_TEST(each_guest_has_a_processor_while_there_are_enough)
{
    struct guest guests[GUESTS];
    struct told told[GUESTS], next;

    if (n_allowed() < 2) {
        return;
    }
    keep_two();
    for (int i = 0; i < GUESTS; i++) {
        start(&guests[i], &told[i]);
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_ge(told[i].cpu, 0);
        ck_assert_int_eq(told[i].n_allowed, 1);
        ck_assert(told[i].has_claim);
    }
    ck_assert_int_ne(told[0].cpu, told[1].cpu);
    /* The third goes wherever there is room. */
    ck_assert_int_eq(told[2].cpu, -1);
    ck_assert_int_eq(told[2].n_allowed, 2);
    ck_assert(!told[2].has_claim);
    end(&guests[0]);
    start(&guests[0], &next);
    ck_assert_int_eq(next.cpu, told[0].cpu);
    for (int i = 0; i < GUESTS; i++) {
        end(&guests[i]);
    }
    ck_assert_int_eq(n_allowed(), 2);
}
END_TEST

START_TEST(nothing_changes_where_there_is_but_one)
{
    cpu_set_t one;
    int fd = 0;

    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
    ck_assert_int_eq(rxe_cpu_take(KIND, &fd), -1);
    ck_assert_int_eq(fd, -1);
    ck_assert_int_eq(n_allowed(), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backends/rxe/cpu");
    TCase *tcase = tcase_create("cpu");
    SRunner *runner;
    int n_failed;

    tcase_add_test(tcase, each_guest_has_a_processor_while_there_are_enough);
    tcase_add_test(tcase, nothing_changes_where_there_is_but_one);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
