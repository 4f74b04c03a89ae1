/* Sorts frames that packet(7) sockets deliver out of order. */
#include "backends/lab/frame_order.h"

#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"

enum { A, B };

/* Puts a frame with `text` as its bytes. */
static void put(struct frame_order *order, weft_ns at_ns, uint32_t host, bool is_outgoing,
                const char *text)
{
    char bytes[32];
    size_t n = strlen(text);

    memcpy(bytes, text, n);
    frame_order_put(order, &(struct world_frame){.at_ns = at_ns,
                                                 .host = host,
                                                 .is_outgoing = is_outgoing,
                                                 .bytes = (const uint8_t *)bytes,
                                                 .n_bytes = n});
    /* frame_order must have copied the bytes. */
    memset(bytes, '?', sizeof(bytes));
}

/* Takes the frames stamped at most `until`, separated by spaces. */
static const char *taken(struct frame_order *order, weft_ns until)
{
    static char all[256];
    const struct world_frame *frame;
    size_t n = 0;

    while ((frame = frame_order_oldest(order, until)) != NULL) {
        ck_assert_uint_lt(n + frame->n_bytes + 1, sizeof(all));
        memcpy(all + n, frame->bytes, frame->n_bytes);
        n += frame->n_bytes;
        all[n++] = ' ';
        frame_order_drop(order);
    }
    all[n] = '\0';
    return all;
}

/* B's program reads its own socket before the capture's socket has the frame, and replies from
 * another CPU, so the reply is queued first. */
START_TEST(an_answer_never_comes_before_its_question)
{
    struct frame_order order;

    frame_order_init(&order);
    put(&order, 100, A, true, "ask");
    put(&order, 130, B, true, "answer");
    put(&order, 110, B, false, "asked");
    put(&order, 140, A, false, "answered");
    ck_assert_str_eq(taken(&order, 1000), "ask asked answer answered ");
    frame_order_fini(&order);
}
END_TEST

START_TEST(what_is_too_young_waits_for_who_is_late)
{
    struct frame_order order;

    frame_order_init(&order);
    put(&order, 10, A, true, "one");
    put(&order, 30, A, true, "three");
    ck_assert_str_eq(taken(&order, 9), "");
    ck_assert_str_eq(taken(&order, 10), "one ");
    put(&order, 20, B, false, "two");
    ck_assert_str_eq(taken(&order, 30), "two three ");
    ck_assert_str_eq(taken(&order, INT64_MAX), "");
    frame_order_fini(&order);
}
END_TEST

/* A clock has a resolution, and a veth is fast. */
START_TEST(at_the_same_nanosecond_it_leaves_before_it_arrives)
{
    struct frame_order order;

    frame_order_init(&order);
    put(&order, 50, B, false, "in1");
    put(&order, 50, A, true, "out1");
    put(&order, 50, A, true, "out2");
    put(&order, 50, B, false, "in2");
    put(&order, 49, B, true, "before");
    ck_assert_str_eq(taken(&order, 50), "before out1 out2 in1 in2 ");
    frame_order_fini(&order);
}
END_TEST

START_TEST(what_nobody_takes_is_freed)
{
    struct frame_order order;

    frame_order_init(&order);
    put(&order, 2, A, true, "left");
    put(&order, 1, A, false, "behind");
    frame_order_fini(&order);
    ck_assert_ptr_null(frame_order_oldest(&order, INT64_MAX));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("frame_order");
    TCase *tcase = tcase_create("frame_order");

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, an_answer_never_comes_before_its_question);
    tcase_add_test(tcase, what_is_too_young_waits_for_who_is_late);
    tcase_add_test(tcase, at_the_same_nanosecond_it_leaves_before_it_arrives);
    tcase_add_test(tcase, what_nobody_takes_is_freed);
    return suite_run(suite);
}
