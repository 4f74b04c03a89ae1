/* The engine, its thread and its user. */
#include "backends/soft/engine.h"

#include <check.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/suite_testing.h"

static void never(struct sim_event *event)
{
    (void)event;
    ck_abort_msg("an hour is over");
}

static bool is_nudged(const struct soft_engine *engine)
{
    struct pollfd fd = {.fd = engine->event_fd, .events = POLLIN};

    return poll(&fd, 1, 0) == 1;
}

/* The thread has planned to sleep forever, but does not sleep yet. Then a call of the user
 * schedules an event in an hour, and another call follows. The nudge must still be pending for
 * the thread. */
START_TEST(a_nudge_is_for_the_thread)
{
    struct linux_loop *loop;
    struct soft_engine *engine;
    struct sim_event event;
    struct weft_error error = {0};

    ck_assert_int_eq(linux_loop_create(1, &loop, &error), WEFT_OK);
    ck_assert_int_eq(soft_engine_create(loop, 1, NULL, &engine, &error), WEFT_OK);
    engine->sleeps_until = SIM_NEVER;
    ck_assert(!is_nudged(engine));

    soft_enter(engine);
    sim_event_init(&event, never);
    sim_schedule(engine->sim, &event, sim_now(engine->sim) + INT64_C(3600000000000000));
    soft_leave(engine);
    ck_assert(is_nudged(engine));
    ck_assert_int_eq(engine->sleeps_until, event.at);

    soft_enter(engine);
    soft_leave(engine);
    ck_assert(is_nudged(engine));
    sim_cancel(engine->sim, &event);
    soft_engine_destroy(engine);
    linux_loop_destroy(loop);
}
END_TEST

#define KS_PS INT64_C(1000000000000000) /* 1000 s: no test stalls this long */

/* A timer like a queue pair's: without a reply, it restarts. */
static struct sim_engine *timed;
static uint32_t n_ran_out;

static void run_out(struct sim_event *event)
{
    n_ran_out++;
    sim_schedule(timed, event, sim_now(timed) + KS_PS);
}

/* The process is descheduled for 8 times the timer's period. The timer expires once, and again
 * only after a full period, not 8 times for replies that could not be read. */
START_TEST(time_in_which_it_stood_still_is_none)
{
    struct linux_loop *loop;
    struct soft_engine *engine;
    struct sim_event event;
    struct weft_error error = {0};
    weft_ps before;

    ck_assert_int_eq(linux_loop_create(1, &loop, &error), WEFT_OK);
    ck_assert_int_eq(soft_engine_create(loop, 1, NULL, &engine, &error), WEFT_OK);
    n_ran_out = 0;
    timed = engine->sim;
    sim_event_init(&event, run_out);
    sim_schedule(timed, &event, KS_PS);
    for (uint32_t i = 1; i <= 3; i++) {
        engine->origin_ns -= 8 * KS_PS / 1000;
        soft_enter(engine);
        soft_leave(engine);
        ck_assert_uint_eq(n_ran_out, i);
        ck_assert_int_ge(sim_now(timed), (weft_ps)i * KS_PS);
        ck_assert_int_eq(event.at, ((weft_ps)i + 1) * KS_PS);
    }
    /* Half the timer's period is not a stall; the clock goes on. */
    before = sim_now(timed);
    engine->origin_ns -= KS_PS / 2000;
    soft_enter(engine);
    soft_leave(engine);
    ck_assert_int_ge(sim_now(timed), before + KS_PS / 2);
    ck_assert_uint_eq(n_ran_out, 3);
    sim_cancel(timed, &event);
    soft_engine_destroy(engine);
    linux_loop_destroy(loop);
}
END_TEST

struct seen_wire {
    struct soft_wire wire;
    struct sim_engine *sim;
    weft_ps at;
    bool is_last; /* of the frames that are pending */
};

static bool see(struct soft_wire *wire)
{
    struct seen_wire *seen = weft_container_of(wire, struct seen_wire, wire);
    uint64_t n;

    ck_assert_int_eq(read(wire->fd, &n, sizeof(n)), sizeof(n));
    seen->at = sim_now(seen->sim);
    return seen->is_last;
}

/* A frame that arrives after a quiet time is handled at the current time, and timers that it
 * starts count from then. An overdue timer expires after the last frame that is pending, because
 * any of them can be what it waits for. */
START_TEST(what_comes_comes_now)
{
    bool is_due = _i > 0;
    bool is_last = _i == 2;
    struct linux_loop *loop;
    struct soft_engine *engine;
    struct sim_event event;
    struct seen_wire seen = {.wire = {.fd = eventfd(1, EFD_CLOEXEC), .receive = see},
                             .is_last = is_last};
    struct weft_error error = {0};

    ck_assert_int_eq(linux_loop_create(1, &loop, &error), WEFT_OK);
    ck_assert_int_eq(soft_engine_create(loop, 1, NULL, &engine, &error), WEFT_OK);
    ck_assert_int_eq(soft_engine_add_wire(engine, &seen.wire), 0);
    seen.sim = timed = engine->sim;
    n_ran_out = 0;
    sim_event_init(&event, run_out);
    sim_schedule(timed, &event, 2 * KS_PS);
    engine->origin_ns -= (is_due ? 8 : 1) * KS_PS / 1000;
    soft_enter(engine);
    soft_leave(engine);
    ck_assert_uint_eq(n_ran_out, is_last);
    if (is_due) {
        ck_assert_int_eq(seen.at, 2 * KS_PS - 1);
    } else {
        ck_assert_int_ge(seen.at, KS_PS);
    }
    soft_enter(engine);
    soft_leave(engine);
    ck_assert_uint_eq(n_ran_out, is_due);
    sim_cancel(timed, &event);
    soft_engine_destroy(engine);
    close(seen.wire.fd);
    linux_loop_destroy(loop);
}
END_TEST

/* With a frame pending and a timer overdue, soft_enter_only() updates the clock and handles
 * neither. */
START_TEST(what_has_come_may_wait)
{
    struct linux_loop *loop;
    struct soft_engine *engine;
    struct sim_event event;
    struct seen_wire seen = {.wire = {.fd = eventfd(1, EFD_CLOEXEC), .receive = see},
                             .at = SIM_NEVER};
    struct weft_error error = {0};

    ck_assert_int_eq(linux_loop_create(1, &loop, &error), WEFT_OK);
    ck_assert_int_eq(soft_engine_create(loop, 1, NULL, &engine, &error), WEFT_OK);
    ck_assert_int_eq(soft_engine_add_wire(engine, &seen.wire), 0);
    seen.sim = timed = engine->sim;
    n_ran_out = 0;
    sim_event_init(&event, run_out);
    sim_schedule(timed, &event, 2 * KS_PS);
    for (uint32_t i = 1; i <= 2; i++) {
        engine->origin_ns -= KS_PS / 1000;
        soft_enter_only(engine);
        ck_assert_int_ge(sim_now(timed), i == 1 ? KS_PS : 2 * KS_PS - 1);
        soft_leave(engine);
        ck_assert_uint_eq(n_ran_out, 0);
        ck_assert_int_eq(seen.at, SIM_NEVER);
    }
    soft_enter(engine);
    soft_leave(engine);
    ck_assert_int_ge(seen.at, 2 * KS_PS - 1);
    sim_cancel(timed, &event);
    soft_engine_destroy(engine);
    close(seen.wire.fd);
    linux_loop_destroy(loop);
}
END_TEST

/* Without a thread and without due events, the frames of a call are sent before it returns. */
START_TEST(what_a_call_sends_leaves_before_it_returns)
{
    struct linux_loop *loop;
    struct soft_engine *engine;
    struct weft_error error = {0};
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n_name = sizeof name;
    struct soft_target target = {.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0),
                                 .n_name = sizeof name};
    struct pollfd fd = {.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0),
                        .events = POLLIN};
    char bytes[16];

    ck_assert_int_eq(linux_loop_create(1, &loop, &error), WEFT_OK);
    ck_assert_int_eq(soft_engine_create(loop, 1, NULL, &engine, &error), WEFT_OK);
    ck_assert_int_eq(bind(fd.fd, (struct sockaddr *)(void *)&name, sizeof name), 0);
    ck_assert_int_eq(getsockname(fd.fd, (struct sockaddr *)(void *)&name, &n_name), 0);
    memcpy(target.name, &name, sizeof name);
    soft_enter(engine);
    uint8_t *slot = soft_batch_slot(engine->batch);
    memcpy(slot, "frame", 5);
    soft_batch_put(engine->batch, &target, slot, 5);
    soft_leave(engine);
    ck_assert_int_eq(poll(&fd, 1, 10000), 1);
    ck_assert_int_eq(recv(fd.fd, bytes, sizeof bytes, 0), 5);
    ck_assert_mem_eq(bytes, "frame", 5);
    soft_engine_destroy(engine);
    linux_loop_destroy(loop);
    close(fd.fd);
    close(target.fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("soft, engine");
    TCase *tcase = tcase_create("engine");

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, a_nudge_is_for_the_thread);
    tcase_add_test(tcase, time_in_which_it_stood_still_is_none);
    tcase_add_loop_test(tcase, what_comes_comes_now, 0, 3);
    tcase_add_test(tcase, what_has_come_may_wait);
    tcase_add_test(tcase, what_a_call_sends_leaves_before_it_returns);
    return suite_run(suite);
}
