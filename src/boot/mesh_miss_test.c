/* Tests of the meeting after a job without a rendezvous: members that are missing do not hold up
 * the others. */
#include <check.h>

#include "backends/sim/backend.h"
#include "base/suite_testing.h"
#include "boot/mesh_testing.h"

static const struct town_cable triangle[] = {
    {.a = 0, .b = 1}, {.a = 1, .b = 2}, {.a = 0, .b = 2}};
static const struct town_cable line[] = {{.a = 0, .b = 1}, {.a = 1, .b = 2}};
static const struct town_cable tail[] = {
    {.a = 0, .b = 1}, {.a = 0, .b = 2}, {.a = 1, .b = 3}};
static const struct town_config triangle_of_3 = {
    .n_hosts = 3, .n_cables = 3, .cables = triangle};
static const struct town_config line_of_3 = {.n_hosts = 3, .n_cables = 2, .cables = line};
static const struct town_config tail_of_4 = {.n_hosts = 4, .n_cables = 3, .cables = tail};

static void miss_open(struct town *town, const struct town_config *config)
{
    town_open(town, config);
    for (uint32_t i = 0; i < town->n_members; i++) {
        town->members[i].config.may_miss = true;
    }
}

/* Checks the result of process `i` in a round of blobs of 4 bytes; `absent` is a bit set of
 * members. */
static void check_at(const struct town *town, uint32_t i, uint8_t round, uint32_t absent)
{
    const struct boot *boot = town->members[i].boot;
    const uint8_t *result = boot_result(boot);
    uint32_t first = 0;

    ck_assert_msg(town->members[i].status == WEFT_OK, "%s",
                  town->members[i].error.message);
    for (uint32_t m = 0; m < town->n_members; m++) {
        bool is_absent = (absent >> m & 1) != 0;

        ck_assert_int_eq(boot_is_absent(boot, m), is_absent);
        for (uint32_t k = 0; k < 4; k++) {
            ck_assert_uint_eq(result[4 * m + k], is_absent ? 0 : 16u * round + m);
        }
    }
    while ((absent >> first & 1) != 0) {
        first++;
    }
    ck_assert_uint_eq(boot_first(boot), first);
}

/* One of three members is dead, and the other two get each other's blobs. The lowest member decides
 * after its patience; the others decide only if the lowest is missing. */
START_TEST(who_does_not_come_is_absent_and_the_rest_go_on)
{
    uint32_t dead = (uint32_t)_i;
    weft_ns patience = dead == 0 ? 120 * TOWN_S : 60 * TOWN_S, since;
    struct town town;

    miss_open(&town, &triangle_of_3);
    since = town_now(&town);
    for (uint32_t i = 0; i < 3; i++) {
        if (i != dead) {
            town_member_open(&town, i);
            town_gather(&town, i, 1, 4);
        }
    }
    ck_assert(town_run(&town, patience + TOWN_S, town_all_done));
    ck_assert_int_ge(town_now(&town) - since, patience);
    for (uint8_t round = 1; round <= 2; round++) {
        for (uint32_t i = 0; i < 3; i++) {
            if (i != dead) {
                check_at(&town, i, round, 1u << dead);
                town_gather(&town, i, round + 1, 4);
            }
        }
        ck_assert(town_run(&town, TOWN_S, town_all_done)); /* without another timeout */
    }
    town_close(&town);
}
END_TEST

enum leaving { CLOSES, GIVES_UP, HOST_DIES, IS_LATE, N_LEAVINGS };

START_TEST(who_goes_between_rounds_is_absent_from_then_on)
{
    static const weft_ns within_ns[] = {[CLOSES] = TOWN_S,
                                        [GIVES_UP] = TOWN_S,
                                        [HOST_DIES] = 21 * TOWN_S,
                                        [IS_LATE] = 21 * TOWN_S};
    struct town town;

    miss_open(&town, &triangle_of_3);
    town_open_all(&town);
    town_round(&town, 1, 4);
    if (_i == CLOSES) {
        town_member_close(&town, 1);
    } else if (_i == GIVES_UP) {
        boot_abort(town.members[1].boot, "enough");
        town_member_close(&town, 1);
    } else if (_i == HOST_DIES) {
        const struct world_fault fault = {.kind = WORLD_FAULT_KILL, .host = 1};

        backend_sim.inject(town.world, &fault);
        town.members[1].status = WEFT_OK;
    }
    town_gather(&town, 0, 2, 4);
    town_gather(&town, 2, 2, 4);
    ck_assert(town_run(&town, within_ns[_i], town_all_done));
    check_at(&town, 0, 2, 1u << 1);
    check_at(&town, 2, 2, 1u << 1);
    town_close(&town);
}
END_TEST

/* A member that gathers blobs of another size is absent, and its blob counts as zeros. */
START_TEST(who_gathers_another_size_is_absent)
{
    static const size_t sizes[] = {1, 3, 5, 4096};
    struct town town;

    miss_open(&town, &triangle_of_3);
    town_open_all(&town);
    town_round(&town, 1, 4);
    town_gather(&town, 1, 2, sizes[_i]);
    town_run(&town, TOWN_S, NULL);
    town_gather(&town, 0, 2, 4);
    town_gather(&town, 2, 2, 4);
    ck_assert(town_run(&town, 5 * TOWN_S, town_all_done));
    check_at(&town, 0, 2, 1u << 1);
    check_at(&town, 2, 2, 1u << 1);
    town_close(&town);
}
END_TEST

/* The middle of a line leaves. Each end is then alone, with only its own blob. */
START_TEST(who_is_cut_off_is_absent_to_the_other_side)
{
    struct town town;

    miss_open(&town, &line_of_3);
    town_open_all(&town);
    town_round(&town, 1, 4);
    town_member_close(&town, 1);
    town_gather(&town, 0, 2, 4);
    town_gather(&town, 2, 2, 4);
    ck_assert(town_run(&town, 41 * TOWN_S, town_all_done));
    check_at(&town, 0, 2, 1u << 1 | 1u << 2);
    check_at(&town, 2, 2, 1u << 0 | 1u << 1);
    town_close(&town);
}
END_TEST

START_TEST(who_is_known_to_be_dead_is_not_waited_for)
{
    struct town town;

    miss_open(&town, &triangle_of_3);
    for (uint32_t i = 1; i < 3; i++) {
        town_member_open(&town, i);
        town_gather(&town, i, 1, 4);
    }
    boot_ended(town.members[2].boot, 0);
    ck_assert(town_run(&town, 3 * TOWN_S, town_all_done));
    check_at(&town, 1, 1, 1u << 0);
    check_at(&town, 2, 1, 1u << 0);
    town_close(&town);
}
END_TEST

/* A member that comes too late is informed that the others went on, and fails; they do not
 * notice. */
START_TEST(who_comes_after_all_is_told)
{
    struct town town;

    miss_open(&town, &triangle_of_3);
    for (uint32_t i = 0; i < 2; i++) {
        town_member_open(&town, i);
        town_gather(&town, i, 1, 4);
    }
    ck_assert(town_run(&town, 61 * TOWN_S, town_all_done));
    town_member_open(&town, 2);
    town_gather(&town, 2, 1, 4);
    ck_assert(town_run(&town, 5 * TOWN_S, town_all_done));
    ck_assert_int_eq(town.members[2].status, WEFT_ERR_CLOSED);
    ck_assert_int_eq(town_rank_at_fault(&town, 2), 2);
    for (uint32_t i = 0; i < 2; i++) {
        town_gather(&town, i, 2, 4);
    }
    ck_assert(town_run(&town, TOWN_S, town_all_done));
    check_at(&town, 0, 2, 1u << 2);
    check_at(&town, 1, 2, 1u << 2);
    town_close(&town);
}
END_TEST

/* A member goes before it gives its blob, and is started again while the round waits for member 3,
 * which is no neighbour of the lowest and never gathers. Only these two are absent, and the limit
 * is that of a step. Loop 0: it closes; 1: it dies. */
START_TEST(who_is_absent_stays_so_when_started_again)
{
    struct town town;

    miss_open(&town, &tail_of_4);
    town_open_all(&town);
    town_gather(&town, 0, 1, 4);
    town_gather(&town, 1, 1, 4);
    town_run(&town, 2 * TOWN_S, NULL);
    if (_i == 1) {
        town.members[2].boot->error.status = WEFT_ERR_CLOSED; /* no BYE */
    }
    town_member_close(&town, 2);
    town_run(&town, 5 * TOWN_S, NULL);
    ck_assert(boot_is_absent(town.members[0].boot, 2));
    town_member_open(&town, 2);
    town_gather(&town, 2, 1, 4);
    ck_assert(town_run(&town, 30 * TOWN_S, town_all_done));
    check_at(&town, 0, 1, 1u << 2 | 1u << 3);
    check_at(&town, 1, 1, 1u << 2 | 1u << 3);
    for (uint32_t i = 2; i < 4; i++) {
        ck_assert_int_eq(town.members[i].status, WEFT_ERR_CLOSED);
        ck_assert_int_eq(town_rank_at_fault(&town, i), i);
    }
    town_close(&town);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("boot, the mesh may miss");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, who_does_not_come_is_absent_and_the_rest_go_on, 0, 3);
    tcase_add_loop_test(tcase, who_goes_between_rounds_is_absent_from_then_on, 0,
                        N_LEAVINGS);
    tcase_add_loop_test(tcase, who_gathers_another_size_is_absent, 0, 4);
    tcase_add_test(tcase, who_is_cut_off_is_absent_to_the_other_side);
    tcase_add_test(tcase, who_is_known_to_be_dead_is_not_waited_for);
    tcase_add_test(tcase, who_comes_after_all_is_told);
    tcase_add_loop_test(tcase, who_is_absent_stays_so_when_started_again, 0, 2);
    return suite_run(suite);
}
