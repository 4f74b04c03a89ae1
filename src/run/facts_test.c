/* Tests what diagnosis learns about the cables of a mesh. */
#include <check.h>
#include <string.h>

#include "base/suite_testing.h"
#include "run/facts.h"
#include "scenario/scenario.h"

#define MESH                                                                             \
    "name: a\n"                                                                          \
    "topology:\n"                                                                        \
    "  nodes: {a: {ports: [p0]}, b: {ports: [p0]}}\n"                                    \
    "  links: [{endpoints: [\"a:p0\", \"b:p0\"], subnet: 192.168.1.0/24}]\n"

/* A real cable whose rate the file does not give has the rate of its ports, which need not be the
 * one that the simulator assumes. */
START_TEST(only_a_rate_that_the_file_gives_is_the_cables)
{
    static const struct {
        const char *set;
        bool is_simulated;
        int64_t rate_bps;
    } cases[] = {{"seed=3", false, 0},
                 {"seed=3", true, 100000000000},
                 {"topology.links.0.rate=25Gbps", false, 25000000000},
                 {"topology.links.0.rate=100Gbps", false, 100000000000},
                 {"topology.defaults.rate=40Gbps", true, 40000000000}};
    const struct scenario_set sets[] = {{cases[_i].set}};
    struct scenario_diagnostics diagnostics;
    struct diag_input input = {0};
    struct scenario_world *world;
    struct scenario *scenario;

    ck_assert_int_eq(
        scenario_load_text("x", MESH, strlen(MESH), sets, 1, &scenario, &diagnostics),
        WEFT_OK);
    scenario_diagnostics_fini(&diagnostics);
    ck_assert_int_eq(scenario_to_world(scenario, &world), WEFT_OK);
    run_facts_cables(&world->spec, cases[_i].is_simulated, &input);
    ck_assert_uint_eq(input.n_cables, 1);
    ck_assert_str_eq(input.cables[0].to, "b");
    ck_assert_int_eq(input.cables[0].rate_bps, cases[_i].rate_bps);
    diag_input_fini(&input);
    scenario_world_free(world);
    scenario_free(scenario);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run/facts");
    TCase *tests = tcase_create("facts");

    tcase_add_loop_test(tests, only_a_rate_that_the_file_gives_is_the_cables, 0, 5);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
