/* modify_qp against sim/rules/transitions.csv: every pair of states with each single
 * attribute missing or added, and with random masks. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "sim/rc_testing.h"
#include "sim/rules_testing.h"

enum { N_STATES = IBV_QPS_ERR + 1, N_DRAWN = 60 };

static const char *const profiles[] = {"mlx5", "rxe", "hns-hip08", "synth2port"};
static const int standard_bits = (IBV_QP_DEST_QPN << 1) - 1;

static struct rules rules;
static struct rc_pair pair;
static bool has_sqd;

static void start(const char *profile)
{
    rules_read(&rules, "transitions");
    rc_pair_init(&pair, &(struct rc_options){.profile = profile, .is_unconnected = true});
    has_sqd = strncmp(profile, "hns", 3) != 0; /* hns_roce_hw_v2.c: no SQD */
}

static void finish(void)
{
    rc_pair_fini(&pair);
    rules_fini(&rules);
}

static int row_of(enum ibv_qp_state from, enum ibv_qp_state to)
{
    for (unsigned i = 0; i < rules.n_rows; i++) {
        if (rules_state(rules_cell(&rules, i, "from")) == from &&
            rules_state(rules_cell(&rules, i, "to")) == to) {
            return (int)i;
        }
    }
    return -1;
}

/* Returns the errno that the table gives for a QP in `from` (or that claims to be) and
 * this mask. */
static int expected_of(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
    enum ibv_qp_state target = (mask & IBV_QP_STATE) != 0 ? to : from;
    int row = row_of(from, target);
    if (row < 0 || (!has_sqd && target == IBV_QPS_SQD)) {
        return EINVAL;
    }
    int required = rules_mask(rules_cell(&rules, (unsigned)row, "required"));
    int optional = rules_mask(rules_cell(&rules, (unsigned)row, "optional"));
    bool is_enough = (mask & required) == required;
    bool is_allowed = (mask & ~(required | optional | IBV_QP_STATE)) == 0;
    bool has_apm = (mask & IBV_QP_ALT_PATH) != 0; /* only on InfiniBand */
    return is_enough && is_allowed && !has_apm ? 0 : EINVAL;
}

/* Makes one call on `*qp`, which is in `from`. Replaces the QP if its state can have
 * changed. */
static void try(struct ibv_qp **qp, enum ibv_qp_state from, enum ibv_qp_state to,
                int mask)
{
    struct ibv_qp_attr attr = rc_all_attrs(&pair, 0, to);
    struct ibv_qp_attr before;
    struct ibv_qp_attr after;
    attr.cur_qp_state = from;
    mask |= from == IBV_QPS_SQE ? IBV_QP_CUR_STATE : 0;
    int expected = expected_of(from, to, mask);
    ck_assert_int_eq(sim_nic_query_qp(*qp, &before), 0);
    int error = rc_modify(&pair, 0, *qp, &attr, mask);
    ck_assert_int_eq(sim_nic_query_qp(*qp, &after), 0);
    ck_assert_msg(error == expected, "%s: %d -> %d mask %#x: %d instead of %d",
                  weft_profile_name(pair.profile.id), from, to, (unsigned)mask, error,
                  expected);
    if (expected != 0) {
        ck_assert_mem_eq(&before, &after, sizeof(before));
        return;
    }
    enum ibv_qp_state target = (mask & IBV_QP_STATE) != 0 ? to : from;
    ck_assert_int_eq(after.qp_state, target);
    rc_destroy_qp(&pair, 0, *qp);
    *qp = rc_make_qp_in(&pair, 0, from);
}

static void try_pair(enum ibv_qp_state from, enum ibv_qp_state to, struct weft_rng *rng)
{
    struct ibv_qp *qp = rc_make_qp_in(&pair, 0, from);
    int row = row_of(from, to);
    int enough = IBV_QP_STATE;
    if (row >= 0) {
        enough |= rules_mask(rules_cell(&rules, (unsigned)row, "required"));
    }
    try(&qp, from, to, enough);
    for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
        try(&qp, from, to, enough ^ bit); /* one attribute missing, or one added */
    }
    for (unsigned i = 0; i < N_DRAWN; i++) {
        int drawn = (int)weft_rng_next(rng) & (int)weft_rng_next(rng) & standard_bits;
        try(&qp, from, to, enough | drawn);
        try(&qp, from, to, drawn | IBV_QP_STATE);
    }
    rc_destroy_qp(&pair, 0, qp);
}

START_TEST(only_what_the_table_allows)
{
    enum ibv_qp_state from = (enum ibv_qp_state)(_i % N_STATES);
    const char *profile = profiles[_i / N_STATES];
    struct weft_rng rng;
    start(profile);
    weft_rng_init(&rng, 1, "masks");
    for (int to = 0; to < N_STATES && (has_sqd || from != IBV_QPS_SQD); to++) {
        if (to == IBV_QPS_SQE) {
            /* No call moves a QP there. */
            struct ibv_qp *qp = rc_make_qp_in(&pair, 0, from);
            try(&qp, from, IBV_QPS_SQE, IBV_QP_STATE);
            rc_destroy_qp(&pair, 0, qp);
            continue;
        }
        try_pair(from, (enum ibv_qp_state)to, &rng);
    }
    finish();
}
END_TEST

/* Checks the file itself: each pair of states has one row. */
START_TEST(each_pair_has_one_row)
{
    rules_read(&rules, "transitions");
    for (unsigned i = 0; i < rules.n_rows; i++) {
        enum ibv_qp_state from = rules_state(rules_cell(&rules, i, "from"));
        enum ibv_qp_state to = rules_state(rules_cell(&rules, i, "to"));
        ck_assert_int_eq(row_of(from, to), (int)i);
    }
    ck_assert_int_eq(row_of(IBV_QPS_RESET, IBV_QPS_ERR), -1);
    ck_assert_int_eq(row_of(IBV_QPS_RTR, IBV_QPS_RTR), -1);
    rules_fini(&rules);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("qp_transition");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_loop_test(all, only_what_the_table_allows, 0,
                        N_STATES * (int)WEFT_LENGTH(profiles));
    tcase_add_test(all, each_pair_has_one_row);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
