/* The engine between its thread and the user. */
#include "backends/soft/engine.h"

#include <check.h>
#include <poll.h>

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

/* The thread has made its plan, to sleep for ever, and is not asleep yet. Then the user has
 * something that is to happen in an hour, and comes again: the thread must still hear of it. */
START_TEST(a_nudge_is_for_the_thread)
{
    struct linux_loop *loop;
    struct soft_engine *engine;
    struct sim_event event;
    struct weft_error error = {0};

    ck_assert_int_eq(linux_loop_create(1, &loop, &error), WEFT_OK);
    ck_assert_int_eq(soft_engine_create(loop, 1, NULL, NULL, &engine, &error), WEFT_OK);
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

int main(void)
{
    Suite *suite = suite_create("soft, engine");
    TCase *tcase = tcase_create("engine");

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, a_nudge_is_for_the_thread);
    return suite_run(suite);
}
