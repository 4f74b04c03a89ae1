/* The order of events against a linear search, with few and with many events. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/suite_testing.h"
#include "sim/pending.h"

struct item {
    struct sim_event event;
    weft_ps at;
    uint64_t order; /* order of scheduling, or the rank, which comes before that */
    bool is_pending;
};

/* The oracle: finds the least (time, order) among all items. */
static struct item *least(struct item *items, int n)
{
    struct item *best = NULL;

    for (int i = 0; i < n; i++) {
        if (items[i].is_pending &&
            (best == NULL || items[i].at < best->at ||
             (items[i].at == best->at && items[i].order < best->order))) {
            best = &items[i];
        }
    }
    return best;
}

static void schedule(struct sim_pending *pending, struct item *item, weft_ps at,
                     uint64_t order)
{
    item->at = at;
    item->order =
        item->event.rank != SIM_NO_RANK ? item->event.rank : UINT64_C(1000000) + order;
    item->is_pending = true;
    sim_pending_set(pending, &item->event, at);
}

/* Returns a delay as in a busy fabric: many ties, cables, timers, and the distant
 * future. */
static weft_ps some_delay(struct weft_rng *rng)
{
    static const weft_ps delays[] = {0, 0, 334240, 334240, 1000000, 1334240, 5, 2048};
    uint64_t which = weft_rng_below(rng, 12);

    if (which < 8) {
        return delays[which];
    }
    if (which < 10) {
        return (weft_ps)weft_rng_below(rng, 70000000);
    }
    return (weft_ps)weft_rng_below(rng, which == 10 ? 200000000 : 70000000000);
}

static struct sim_event *take(struct sim_pending *pending)
{
    struct sim_event *event = sim_pending_peek(pending);

    if (event != NULL) {
        sim_pending_take(pending, event);
        ck_assert(!sim_is_scheduled(event));
    }
    return event;
}

static void compare_with_oracle(int n_items, uint64_t seed)
{
    struct item *items = calloc((size_t)n_items, sizeof(*items));
    struct sim_pending pending;
    struct weft_rng rng;
    weft_ps now = 0;
    uint64_t order = 0;

    weft_rng_init(&rng, seed, "pending");
    sim_pending_init(&pending);
    for (int i = 0; i < n_items; i++) {
        sim_event_init(&items[i].event, NULL);
        /* Every other item has a rank; later items have lower ranks. */
        items[i].event.rank = i % 2 == 0 ? SIM_NO_RANK : (uint32_t)(n_items - i);
    }
    for (int step = 0; step < 20000; step++) {
        struct item *item = &items[weft_rng_below(&rng, (uint64_t)n_items)];
        uint64_t what = weft_rng_below(&rng, 10);

        if (what < 5) {
            schedule(&pending, item, now + some_delay(&rng), order++);
        } else if (what < 6) {
            sim_pending_remove(&pending, &item->event);
            item->is_pending = false;
        } else {
            struct item *expected = least(items, n_items);
            struct sim_event *peeked = sim_pending_peek(&pending);
            struct sim_event *taken = take(&pending);

            ck_assert_ptr_eq(peeked, expected == NULL ? NULL : &expected->event);
            ck_assert_ptr_eq(taken, peeked);
            if (expected != NULL) {
                ck_assert_int_ge(expected->at, now);
                now = expected->at;
                expected->is_pending = false;
            }
        }
    }
    sim_pending_fini(&pending);
    free(items);
}

START_TEST(few_events_come_in_order_of_time_rank_and_scheduling)
{
    compare_with_oracle(8, (uint64_t)_i);
}
END_TEST

START_TEST(many_events_come_in_order_of_time_rank_and_scheduling)
{
    compare_with_oracle(300, (uint64_t)_i);
}
END_TEST

START_TEST(an_empty_set_has_no_next_event)
{
    struct sim_pending pending;

    sim_pending_init(&pending);
    ck_assert_ptr_null(sim_pending_peek(&pending));
    ck_assert_ptr_null(take(&pending));
    sim_pending_fini(&pending);
}
END_TEST

START_TEST(idle_timers_do_not_hold_the_wheel_back)
{
    enum { N = 200 };
    static struct item items[N + 1];
    struct sim_pending pending;

    sim_pending_init(&pending);
    for (int i = 0; i <= N; i++) {
        sim_event_init(&items[i].event, NULL);
        schedule(&pending, &items[i], 2000 + i, (uint64_t)i);
    }
    ck_assert_ptr_nonnull(pending.slots);
    for (int i = 0; i <= N; i++) {
        schedule(&pending, &items[i], 1000000000000 + i, (uint64_t)(N + 1 + i));
    }
    ck_assert_ptr_eq(sim_pending_peek(&pending), &items[0].event);
    schedule(&pending, &items[N], 3000000, N + 1);
    ck_assert_uint_eq(pending.n_slotted, 1);
    ck_assert_ptr_eq(take(&pending), &items[N].event);
    for (int i = 0; i < N; i++) {
        ck_assert_ptr_eq(take(&pending), &items[i].event);
    }
    ck_assert_ptr_null(take(&pending));
    sim_pending_fini(&pending);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pending");
    TCase *cases = tcase_create("pending");

    tcase_add_loop_test(cases, few_events_come_in_order_of_time_rank_and_scheduling, 0,
                        10);
    tcase_add_loop_test(cases, many_events_come_in_order_of_time_rank_and_scheduling, 0,
                        10);
    tcase_add_test(cases, an_empty_set_has_no_next_event);
    tcase_add_test(cases, idle_timers_do_not_hold_the_wheel_back);
    suite_add_tcase(suite, cases);
    return suite_run(suite);
}
