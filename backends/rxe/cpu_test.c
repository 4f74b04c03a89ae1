/* Keeps guests on processors of their own while there are enough idle ones. */
#define _GNU_SOURCE
#include "backends/rxe/cpu.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/suite_testing.h"
#include "base/text.h"

#define S ((weft_ns)1000000000)

enum { GUESTS = 3 };

static char kind[32]; /* unique, even if two instances of this test run */

/* A process and its child, which wait until they are killed. */
struct guest {
    pid_t pid, child;
    struct rxe_cpu cpu;
};

static int n_allowed(pid_t pid)
{
    cpu_set_t allowed;

    ck_assert_int_eq(sched_getaffinity(pid, sizeof(allowed), &allowed), 0);
    return CPU_COUNT(&allowed);
}

static void start(struct guest *guest)
{
    int up[2];

    ck_assert_int_eq(pipe(up), 0);
    guest->pid = fork();
    if (guest->pid == 0) {
        pid_t child = fork();

        if (child > 0 && write(up[1], &child, sizeof(child)) != sizeof(child)) {
            _exit(EXIT_FAILURE);
        }
        for (;;) {
            pause();
        }
    }
    ck_assert_int_eq(read(up[0], &guest->child, sizeof(guest->child)),
                     sizeof(guest->child));
    close(up[0]);
    close(up[1]);
    rxe_cpu_begin(&guest->cpu, guest->pid, kind);
}

static void end(struct guest *guest)
{
    kill(guest->child, SIGKILL);
    kill(guest->pid, SIGKILL);
    ck_assert_int_eq(waitpid(guest->pid, NULL, 0), guest->pid);
    rxe_cpu_end(&guest->cpu);
    ck_assert_int_eq(guest->cpu.cpu, -1);
}

/* Checks the affinity of both processes. */
static void is_kept_on(const struct guest *guest, int cpu)
{
    const pid_t pids[2] = {guest->pid, guest->child};

    ck_assert_int_eq(guest->cpu.cpu, cpu);
    for (int i = 0; i < 2; i++) {
        cpu_set_t allowed;

        ck_assert_int_eq(sched_getaffinity(pids[i], sizeof(allowed), &allowed), 0);
        ck_assert_int_eq(CPU_COUNT(&allowed), cpu < 0 ? 2 : 1);
        ck_assert(cpu < 0 || CPU_ISSET((size_t)cpu, &allowed));
    }
}

/* Restricts this process, and its future children, to two processors. */
static void keep_two(int out[2])
{
    cpu_set_t allowed, two;
    int n = 0;

    CPU_ZERO(&two);
    ck_assert_int_eq(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    for (int i = 0; i < CPU_SETSIZE && n < 2; i++) {
        if (CPU_ISSET((size_t)i, &allowed)) {
            CPU_SET((size_t)i, &two);
            out[n++] = i;
        }
    }
    ck_assert_int_eq(sched_setaffinity(0, sizeof(two), &two), 0);
}

START_TEST(each_guest_has_a_processor_while_there_are_enough)
{
    struct guest guests[GUESTS];
    struct rxe_cpu gone;
    int two[2];

    if (n_allowed(0) < 2) {
        return;
    }
    keep_two(two);
    for (int i = 0; i < GUESTS; i++) {
        start(&guests[i]);
    }
    ck_assert(rxe_cpu_keep(&guests[0].cpu, two[1]));
    ck_assert(rxe_cpu_keep(&guests[1].cpu, two[1])); /* taken, so another one */
    ck_assert(!rxe_cpu_keep(&guests[2].cpu, two[0]));
    is_kept_on(&guests[0], two[1]);
    is_kept_on(&guests[1], two[0]);
    is_kept_on(&guests[2], -1);
    /* A processor that was released, or whose process has ended, can be used again. */
    rxe_cpu_free(&guests[0].cpu);
    is_kept_on(&guests[0], -1);
    ck_assert(rxe_cpu_keep(&guests[2].cpu, two[0]));
    is_kept_on(&guests[2], two[1]);
    end(&guests[1]);
    ck_assert(rxe_cpu_keep(&guests[0].cpu, two[1]));
    is_kept_on(&guests[0], two[0]);
    end(&guests[0]);
    end(&guests[2]);
    /* A process that has ended cannot be kept, and claims nothing. */
    rxe_cpu_begin(&gone, guests[0].pid, kind);
    ck_assert(!rxe_cpu_keep(&gone, two[0]));
    ck_assert_int_eq(gone.claim, -1);
    ck_assert_int_eq(n_allowed(0), 2);
}
END_TEST

START_TEST(where_there_is_but_one_nothing_is_looked_at)
{
    cpu_set_t one;
    struct rxe_cpu cpu;

    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
    rxe_cpu_begin(&cpu, getpid(), kind);
    rxe_cpu_look(&cpu, S);
    ck_assert(!cpu.has_begun);
    ck_assert_int_eq(cpu.cpu, -1);
}
END_TEST

/* proc(5): user nice system idle iowait irq ... */
START_TEST(idle_is_what_the_allowed_ones_were)
{
    const char *text = "cpu  1111 1 1 111111 1111 1 1 1 1 1\n"
                       "cpu0 9 9 9 1000 10 9 9 9 9 9\n"
                       "cpu1 9 9 9 200000 3000 9 9 9 9 9\n"
                       "cpu12 9 9 9 40000000 500000 9 9 9 9 9\n"
                       "intr 1 2 3 4 5 6 7 8\n"
                       "cpu2 9 9 9 7 7\n";
    cpu_set_t allowed;

    CPU_ZERO(&allowed);
    ck_assert_uint_eq(rxe_cpu_idle_ticks(text, &allowed), 0);
    CPU_SET(1, &allowed);
    ck_assert_uint_eq(rxe_cpu_idle_ticks(text, &allowed), 203000);
    CPU_SET(2, &allowed);
    CPU_SET(12, &allowed);
    ck_assert_uint_eq(rxe_cpu_idle_ticks(text, &allowed), 40703000);
    ck_assert_uint_eq(rxe_cpu_idle_ticks("", &allowed), 0);
}
END_TEST

START_TEST(a_processor_must_idle_for_it)
{
    ck_assert(!rxe_cpu_is_worth(false, 0, S));
    ck_assert(!rxe_cpu_is_worth(false, S * 2 / 5, S));
    ck_assert(rxe_cpu_is_worth(false, S * 3 / 5, S));
    ck_assert(rxe_cpu_is_worth(false, 7 * S, S));
    /* In between, the state does not change. */
    ck_assert(rxe_cpu_is_worth(true, S * 2 / 5, S));
    ck_assert(!rxe_cpu_is_worth(true, S / 5, S));
}
END_TEST

/* The test controls the clock; the idle ticks of the machine are at most those of the real
 * time. */
START_TEST(looking_keeps_or_frees)
{
    struct guest guest;
    int two[2];

    if (n_allowed(0) < 2) {
        return;
    }
    keep_two(two);
    start(&guest);
    rxe_cpu_look(&guest.cpu, 0);
    is_kept_on(&guest, -1);
    ck_assert(guest.cpu.has_begun);
    rxe_cpu_look(&guest.cpu, S / 100); /* too soon */
    ck_assert_int_eq(guest.cpu.looked_ns, 0);
    ck_assert(rxe_cpu_keep(&guest.cpu, two[0]));
    /* 1,000,000 s, almost without idle time. */
    rxe_cpu_look(&guest.cpu, 1000000 * S);
    is_kept_on(&guest, -1);
    /* 1 s, in which both processors appear idle. */
    guest.cpu.idle_ticks -= 2 * (uint64_t)sysconf(_SC_CLK_TCK);
    rxe_cpu_look(&guest.cpu, 1000001 * S);
    ck_assert_int_ge(guest.cpu.cpu, 0);
    is_kept_on(&guest, guest.cpu.cpu);
    end(&guest);
}
END_TEST

int main(void)
{
    weft_format(kind, sizeof kind, "weft-cpu-test-%d", (int)getpid());
    Suite *suite = suite_create("backends/rxe/cpu");
    TCase *tcase = tcase_create("cpu");

    tcase_add_test(tcase, each_guest_has_a_processor_while_there_are_enough);
    tcase_add_test(tcase, where_there_is_but_one_nothing_is_looked_at);
    tcase_add_test(tcase, idle_is_what_the_allowed_ones_were);
    tcase_add_test(tcase, a_processor_must_idle_for_it);
    tcase_add_test(tcase, looking_keeps_or_frees);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
