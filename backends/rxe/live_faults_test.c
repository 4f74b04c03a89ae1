/* Faults that a user asks for: when they end, and in which order. */
#include "backends/rxe/live_faults.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"

static char story[256];  /* "+PORT" and "-PORT" of what was made and ended */
static uint32_t refused; /* the port at which nothing can be made, or ended */
static struct live_faults faults;

static int apply(void *context, const struct world_fault *fault, bool undo)
{
    size_t n = strlen(story);

    ck_assert_ptr_eq(context, &faults);
    weft_format(story + n, sizeof(story) - n, "%c%u ", undo ? '-' : '+', fault->port);
    return fault->port == refused ? ENODEV : 0;
}

static void setup(void)
{
    story[0] = '\0';
    refused = UINT32_MAX;
    faults = (struct live_faults){.apply = apply, .context = &faults};
}

static void tear_down(void)
{
    live_faults_fini(&faults);
}

static int add(uint32_t port, weft_ns for_ns, weft_ns now)
{
    const struct world_fault fault = {.port = port, .for_ns = for_ns};

    return live_faults_add(&faults, &fault, now);
}

START_TEST(they_end_in_the_order_of_their_ends)
{
    ck_assert_int_eq(live_faults_due(&faults, 0), WEFT_NEVER);
    ck_assert_int_eq(add(0, 0, 100), 0);
    ck_assert_int_eq(add(1, 300, 100), 0);
    ck_assert_int_eq(add(2, 100, 150), 0);
    ck_assert_int_eq(add(3, 100, 150), 0);
    ck_assert_int_eq(live_faults_due(&faults, 249), 250);
    ck_assert_str_eq(story, "+0 +1 +2 +3 ");
    ck_assert_int_eq(live_faults_due(&faults, 250), 400);
    ck_assert_int_eq(live_faults_due(&faults, 1000), WEFT_NEVER);
    ck_assert_str_eq(story, "+0 +1 +2 +3 -2 -3 -1 ");
}
END_TEST

START_TEST(all_that_is_there_is_cleared_the_last_first)
{
    ck_assert_int_eq(add(0, 0, 0), 0);
    ck_assert_int_eq(add(1, 5, 0), 0);
    ck_assert_int_eq(add(2, 0, 0), 0);
    refused = 1;
    ck_assert_int_eq(live_faults_clear(&faults), ENODEV);
    ck_assert_str_eq(story, "+0 +1 +2 -2 -1 -0 ");
    ck_assert_int_eq(live_faults_clear(&faults), 0);
    ck_assert_int_eq(live_faults_due(&faults, 100), WEFT_NEVER);
}
END_TEST

START_TEST(what_could_not_be_made_does_not_end)
{
    refused = 4;
    ck_assert_int_eq(add(4, 10, 0), ENODEV);
    ck_assert_int_eq(live_faults_due(&faults, 100), WEFT_NEVER);
    ck_assert_int_eq(live_faults_clear(&faults), 0);
    ck_assert_str_eq(story, "+4 ");
}
END_TEST

START_TEST(a_word_carries_all_of_it)
{
    struct world_fault fault, read;
    char word[LIVE_FAULT_WORD_BYTES];

    memset(&fault, 0, sizeof(fault));
    fault.kind = WORLD_FAULT_LOSS;
    fault.share_ppb = 0x12345678;
    fault.for_ns = -1;
    live_fault_write(&fault, word);
    ck_assert_uint_eq(strlen(word), sizeof(word) - 1);
    ck_assert(live_fault_read(word, &read));
    ck_assert_mem_eq(&read, &fault, sizeof(fault));
    word[10] = 'g';
    ck_assert(!live_fault_read(word, &read));
    ck_assert(!live_fault_read("00", &read));
    ck_assert(!live_fault_read("", &read));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rxe/live_faults");
    TCase *all = tcase_create("faults");

    tcase_add_checked_fixture(all, setup, tear_down);
    tcase_add_test(all, they_end_in_the_order_of_their_ends);
    tcase_add_test(all, all_that_is_there_is_cleared_the_last_first);
    tcase_add_test(all, what_could_not_be_made_does_not_end);
    tcase_add_test(all, a_word_carries_all_of_it);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
