/* The loop in real time. Time limits are generous and do not assert speed. */
#define _GNU_SOURCE
#include "backends/linux/loop.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/suite_testing.h"

#define S ((weft_ns)1000000000)
#define N_POSTINGS 20000

static struct linux_loop *loop;
static struct io_task task;
static int fds[2];

static void setup(void)
{
    struct weft_error error = {.status = WEFT_OK};
    ck_assert_int_eq(linux_loop_create(1, &loop, &error), WEFT_OK);
    io_task_init(&task, linux_loop_io(loop), 0, 0);
    ck_assert_int_eq(pipe(fds), 0);
}

static void teardown(void)
{
    io_task_fini(&task);
    linux_loop_destroy(loop);
    linux_loop_destroy(NULL);
    close(fds[0]);
    close(fds[1]);
}

static void wake(void *context)
{
    io_task_wake(context);
}

static bool was_woken(void)
{
    return io_loop_pop(linux_loop_io(loop)) == &task;
}

static weft_ns cpu_time(void)
{
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (weft_ns)at.tv_sec * S + at.tv_nsec;
}

START_TEST(a_descriptor_wakes_on_its_edge_only)
{
    struct linux_watch *watch;
    ck_assert_int_eq(linux_loop_watch(loop, fds[0], wake, &task, &watch), 0);
    ck_assert_int_eq(linux_loop_step(loop, linux_loop_now(loop)), WEFT_AGAIN);
    ck_assert_int_eq(write(fds[1], "x", 1), 1);
    ck_assert_int_eq(linux_loop_step(loop, WEFT_NEVER), WEFT_OK);
    ck_assert(was_woken());
    /* Not read, but there is no new edge. */
    ck_assert_int_eq(linux_loop_step(loop, linux_loop_now(loop) + S / 50), WEFT_AGAIN);
    /* A new owner gets an event. */
    linux_loop_rearm(watch);
    ck_assert_int_eq(linux_loop_step(loop, WEFT_NEVER), WEFT_OK);
    ck_assert(was_woken());
    linux_loop_unwatch(watch);
    linux_loop_unwatch(NULL);
    ck_assert_int_eq(write(fds[1], "x", 1), 1);
    ck_assert_int_eq(linux_loop_step(loop, linux_loop_now(loop)), WEFT_AGAIN);
}
END_TEST

START_TEST(a_bad_descriptor_is_refused)
{
    struct linux_watch *watch;
    ck_assert_int_ne(linux_loop_watch(loop, -1, wake, &task, &watch), 0);
}
END_TEST

static struct linux_watch *pair[2];

static void unwatch_both(void *context)
{
    (void)context;
    linux_loop_unwatch(pair[0]);
    linux_loop_unwatch(pair[1]);
    pair[0] = NULL;
    pair[1] = NULL;
    io_task_wake(&task);
}

START_TEST(unwatching_what_is_in_the_same_batch)
{
    int more[2];
    ck_assert_int_eq(pipe(more), 0);
    ck_assert_int_eq(linux_loop_watch(loop, fds[0], unwatch_both, NULL, &pair[0]), 0);
    ck_assert_int_eq(linux_loop_watch(loop, more[0], unwatch_both, NULL, &pair[1]), 0);
    ck_assert_int_eq(write(fds[1], "x", 1), 1);
    ck_assert_int_eq(write(more[1], "x", 1), 1);
    ck_assert_int_eq(linux_loop_step(loop, WEFT_NEVER), WEFT_OK);
    ck_assert(was_woken());
    ck_assert_ptr_null(pair[0]);
    close(more[0]);
    close(more[1]);
}
END_TEST

START_TEST(sleeping_costs_nothing)
{
    weft_ns cpu = cpu_time(), start = linux_loop_now(loop);
    ck_assert_int_eq(linux_loop_step(loop, start + S / 2), WEFT_AGAIN);
    ck_assert_int_ge(linux_loop_now(loop), start + S / 2);
    ck_assert_int_lt(cpu_time() - cpu, S / 4);
}
END_TEST

/* ---- other threads ---- */

struct note {
    struct linux_posting posting;
    unsigned number;
};

static unsigned n_run;

static void count(void *context)
{
    const struct note *note = context;
    ck_assert_uint_eq(note->number, n_run);
    n_run++;
    io_task_wake(&task);
}

static void *post_many(void *context)
{
    struct note *notes = context;
    for (unsigned i = 0; i < N_POSTINGS; i++) {
        notes[i].number = i;
        notes[i].posting = (struct linux_posting){.run = count, .context = &notes[i]};
        linux_loop_post(loop, &notes[i].posting);
    }
    return NULL;
}

START_TEST(postings_of_another_thread_run_here_in_order)
{
    static struct note notes[N_POSTINGS];
    pthread_t thread;
    n_run = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, post_many, notes), 0);
    while (n_run < N_POSTINGS) {
        ck_assert_int_eq(linux_loop_step(loop, WEFT_NEVER), WEFT_OK);
        ck_assert(was_woken());
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(linux_loop_step(loop, linux_loop_now(loop)), WEFT_AGAIN);
}
END_TEST

static atomic_uint n_left; /* incremented before each ring */
static unsigned n_found;

static void look(void *context)
{
    (void)context;
    n_found = atomic_load(&n_left);
    io_task_wake(&task);
}

static void *ring_often(void *context)
{
    (void)context;
    for (unsigned i = 0; i < N_POSTINGS; i++) {
        atomic_fetch_add(&n_left, 1);
        linux_loop_ring(loop);
    }
    return NULL;
}

/* The value before the last ring is seen, however rings and looks interleave. */
START_TEST(a_bell_is_heard_whoever_rings)
{
    pthread_t threads[2];
    atomic_store(&n_left, 0);
    n_found = 0;
    linux_loop_hang_bell(loop, look, NULL);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ring_often, NULL), 0);
    }
    while (n_found < 2 * N_POSTINGS) {
        ck_assert_int_eq(linux_loop_step(loop, WEFT_NEVER), WEFT_OK);
        (void)was_woken(); /* no wake-up for a ring that an earlier look has covered */
    }
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
}
END_TEST

START_TEST(a_loop_may_end_before_what_was_posted_to_it)
{
    static struct note note;
    note.posting = (struct linux_posting){.run = count, .context = &note};
    n_run = 0;
    linux_loop_post(loop, &note.posting);
    /* teardown() destroys the loop */
}
END_TEST

START_TEST(busy_tasks_do_not_starve_descriptors)
{
    struct linux_watch *watch;
    struct io_task busy;
    bool seen = false;
    io_task_init(&busy, linux_loop_io(loop), 0, 1);
    ck_assert_int_eq(linux_loop_watch(loop, fds[0], wake, &task, &watch), 0);
    ck_assert_int_eq(write(fds[1], "x", 1), 1);
    for (int i = 0; i < 3; i++) {
        io_task_wake(&busy);
        ck_assert_int_eq(linux_loop_step(loop, WEFT_NEVER), WEFT_OK);
        struct io_task *next;
        while ((next = io_loop_pop(linux_loop_io(loop))) != NULL) {
            seen = seen || next == &task;
        }
    }
    ck_assert(seen);
    linux_loop_unwatch(watch);
    io_task_fini(&busy);
}
END_TEST

/* ---- sources ---- */

/* A mailbox with `n` letters; `n_on_arming` more arrive while it is armed. */
struct mailbox {
    struct linux_source source;
    unsigned n, n_on_arming, n_looks, n_arms;
    bool is_armed;
};

static bool look_into(void *context)
{
    struct mailbox *box = context;
    box->n_looks++;
    if (box->n == 0) {
        return false;
    }
    box->n--;
    io_task_wake(&task);
    return true;
}

static bool arm_box(void *context)
{
    struct mailbox *box = context;
    box->n_arms++;
    box->is_armed = true;
    box->n += box->n_on_arming;
    box->n_on_arming = 0;
    return look_into(box);
}

static void add_box(struct mailbox *box)
{
    box->source =
        (struct linux_source){.look = look_into, .arm = arm_box, .context = box};
    linux_loop_add(loop, &box->source);
}

START_TEST(a_source_is_asked_to_tell_only_before_sleeping)
{
    struct mailbox box = {.n = 2};
    struct linux_watch *watch;
    add_box(&box);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(linux_loop_step(loop, WEFT_NEVER), WEFT_OK);
        ck_assert(was_woken());
    }
    /* Empty: a step that does not wait does not arm it. */
    ck_assert_int_eq(linux_loop_step(loop, linux_loop_now(loop)), WEFT_AGAIN);
    ck_assert_uint_eq(box.n_arms, 0);
    /* Armed without letters: the step sleeps until a descriptor is ready. */
    ck_assert_int_eq(linux_loop_watch(loop, fds[0], wake, &task, &watch), 0);
    ck_assert_int_eq(write(fds[1], "x", 1), 1);
    ck_assert_int_eq(linux_loop_step(loop, WEFT_NEVER), WEFT_OK);
    ck_assert(was_woken());
    ck_assert_uint_eq(box.n_arms, 1);
    /* A letter that arrives during arming prevents sleeping. */
    box.n_on_arming = 1;
    ck_assert_int_eq(linux_loop_step(loop, WEFT_NEVER), WEFT_OK);
    ck_assert(was_woken());
    ck_assert_uint_eq(box.n_arms, 2);
    ck_assert_uint_eq(box.n, 0);
    linux_loop_unwatch(watch);
    linux_loop_remove(loop, &box.source);
    linux_loop_remove(loop, &box.source);
    unsigned n_looks = box.n_looks;
    ck_assert_int_eq(linux_loop_step(loop, linux_loop_now(loop)), WEFT_AGAIN);
    ck_assert_uint_eq(box.n_looks, n_looks);
}
END_TEST

START_TEST(a_busy_source_starves_neither_descriptors_nor_other_sources)
{
    struct mailbox busy = {.n = 100}, other = {.n = 0};
    struct linux_watch *watch;
    struct io_task of_descriptor;
    int n_steps = 0;
    io_task_init(&of_descriptor, linux_loop_io(loop), 0, 1);
    add_box(&other);
    add_box(&busy);
    ck_assert_int_eq(linux_loop_watch(loop, fds[0], wake, &of_descriptor, &watch), 0);
    ck_assert_int_eq(write(fds[1], "x", 1), 1);
    for (bool seen = false; !seen; n_steps++) {
        struct io_task *next;
        ck_assert_int_lt(n_steps, 20);
        ck_assert_int_eq(linux_loop_step(loop, WEFT_NEVER), WEFT_OK);
        while ((next = io_loop_pop(linux_loop_io(loop))) != NULL) {
            seen = seen || next == &of_descriptor;
        }
    }
    ck_assert_uint_eq(other.n_looks, busy.n_looks);
    linux_loop_remove(loop, &other.source);
    linux_loop_remove(loop, &busy.source);
    linux_loop_unwatch(watch);
    io_task_fini(&of_descriptor);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("linux loop");
    TCase *tcase = tcase_create("loop");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_descriptor_wakes_on_its_edge_only);
    tcase_add_test(tcase, a_bad_descriptor_is_refused);
    tcase_add_test(tcase, unwatching_what_is_in_the_same_batch);
    tcase_add_test(tcase, sleeping_costs_nothing);
    tcase_add_test(tcase, postings_of_another_thread_run_here_in_order);
    tcase_add_test(tcase, a_loop_may_end_before_what_was_posted_to_it);
    tcase_add_test(tcase, a_bell_is_heard_whoever_rings);
    tcase_add_test(tcase, busy_tasks_do_not_starve_descriptors);
    tcase_add_test(tcase, a_source_is_asked_to_tell_only_before_sleeping);
    tcase_add_test(tcase, a_busy_source_starves_neither_descriptors_nor_other_sources);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
