/* Flows over direct connections: messages of all sizes, in groups, both ways. */
#include <check.h>
#include <stdlib.h>

#include "base/check.h"
#include "xfer/grid_testing.h"

static struct grid grid;
static const struct fabric_cable pair[] = {{0, 1}};
static const struct fabric_cable twins[] = {{0, 1}, {0, 1}};

static void open_pair(bool is_twin)
{
    grid_open(&grid, &(struct fabric_config){.n_hosts = 2,
                                             .cables = is_twin ? twins : pair,
                                             .n_cables = is_twin ? 2 : 1});
}

static size_t mixed(uint32_t number)
{
    static const size_t sizes[] = {0, 1, 7, 4096, 32768, 32769, 131072, 131073, 400000};

    return sizes[number % WEFT_LENGTH(sizes)];
}

START_TEST(messages_of_all_sizes_come_in_order)
{
    struct flow_counters counters;

    open_pair(_i == 1);
    grid_route(&grid, 0, 1, 0, NULL, 0);
    grid_route(&grid, 1, 0, 0, NULL, 0);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    for (uint32_t i = 0; i < 2; i++) {
        grid_send(&grid, i,
                  &(struct grid_traffic){
                      .n_messages = 200, .size_of = mixed, .max_bytes = 400000});
    }
    ck_assert(grid_run(&grid, FABRIC_S));
    flow_counters(grid.flows[0].out, &counters);
    ck_assert_uint_eq(counters.xfer.messages_sent, 200);
    ck_assert_uint_eq(counters.epochs, 1);
    ck_assert_uint_eq(counters.failovers, 0);
    grid_close(&grid);
}
END_TEST

START_TEST(groups_are_matched_by_tag)
{
    open_pair(true);
    grid_route(&grid, 0, 1, 0, NULL, 0);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_send(
        &grid, 0,
        &(struct grid_traffic){
            .n_messages = 720, .n_group = 8, .size_of = mixed, .max_bytes = 400000});
    ck_assert(grid_run(&grid, FABRIC_S));
    grid_close(&grid);
}
END_TEST

/* Message numbers have 20 bits. */
START_TEST(numbers_wrap)
{
    open_pair(false);
    grid_route(&grid, 0, 1, 0, NULL, 0);
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
    grid_send(&grid, 0,
              &(struct grid_traffic){.n_messages = (1 << 20) + 4000, .n_group = 8});
    ck_assert(grid_run(&grid, 100 * FABRIC_S));
    grid_close(&grid);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("xfer/flow");
    SRunner *runner;
    int n_failed;

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, messages_of_all_sizes_come_in_order, 0, 2);
    tcase_add_test(tcase, groups_are_matched_by_tag);
    tcase_add_test(tcase, numbers_wrap);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
