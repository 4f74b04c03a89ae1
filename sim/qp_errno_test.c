/* modify_qp against sim/rules/modify_errno.csv: what each mistake returns, how long that
 * takes, which of two mistakes is reported, and that nothing changed. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/rc_testing.h"
#include "sim/rules_testing.h"

struct call {
    struct ibv_qp_attr attr;
    int mask;
};

static struct rc_pair pair;

static void port_2_of_1(struct call *call)
{
    call->attr.port_num = 2;
}
static void port_0(struct call *call)
{
    call->attr.port_num = 0;
}
static void av_port_2(struct call *call)
{
    call->attr.ah_attr.port_num = 2;
}
static void av_port_0(struct call *call)
{
    call->attr.ah_attr.port_num = 0;
}
static void av_and_port_differ(struct call *call)
{
    call->attr.ah_attr.port_num = 2;
    call->attr.port_num = 1;
    call->mask |= IBV_QP_PORT;
}
static void alt_path(struct call *call)
{
    call->attr.alt_ah_attr = call->attr.ah_attr;
    call->attr.alt_port_num = 1;
    call->mask |= IBV_QP_ALT_PATH;
}
static void alt_ports_differ(struct call *call)
{
    alt_path(call);
    call->attr.alt_port_num = 2;
}
static void state_9(struct call *call)
{
    call->attr.qp_state = (enum ibv_qp_state)9;
}
static void claim(struct call *call, int state)
{
    call->attr.cur_qp_state = (enum ibv_qp_state)state;
    call->mask |= IBV_QP_CUR_STATE;
}
static void claim_9(struct call *call)
{
    claim(call, 9);
}
static void claim_init(struct call *call)
{
    claim(call, IBV_QPS_INIT);
}
static void claim_sqd(struct call *call)
{
    claim(call, IBV_QPS_SQD);
}
/* Goes from INIT directly to RTS, by a false claim of RTS. */
static void rts_by_claim(struct call *call)
{
    call->attr.qp_state = IBV_QPS_RTS;
    call->mask = IBV_QP_STATE;
    claim(call, IBV_QPS_RTS);
}
static void qkey_privileged(struct call *call)
{
    call->attr.qkey = 0x80000001u;
    call->mask |= IBV_QP_QKEY;
}
static void no_grh(struct call *call)
{
    call->attr.ah_attr.is_global = 0;
}
static void gid_empty(struct call *call)
{
    call->attr.ah_attr.grh.sgid_index = 9;
}
static void gid_last_of_table(struct call *call)
{
    call->attr.ah_attr.grh.sgid_index = 255;
}
static void gid_beyond_table(struct call *call)
{
    call->attr.ah_attr.grh.sgid_index = 16;
}
static void peer_silent(struct call *call)
{
    call->attr.ah_attr.grh.dgid.raw[15] = 77;
}
static void peer_of_other_family(struct call *call)
{
    static const uint8_t elsewhere[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1};
    memcpy(call->attr.ah_attr.grh.dgid.raw, elsewhere, sizeof(elsewhere));
}
static void peer_unrouted(struct call *call)
{
    peer_of_other_family(call);
    call->attr.ah_attr.grh.sgid_index = 1; /* fe80:: of v2 */
}
/* Another QP failed to resolve that address three seconds ago. */
static void peer_failed_before(struct call *call)
{
    struct ibv_qp_attr init = rc_init_attr(&pair);
    struct ibv_qp *other = rc_make_qp(&pair, 0);
    peer_silent(call);
    ck_assert_int_eq(rc_modify(&pair, 0, other, &init, rc_init_mask), 0);
    ck_assert_int_eq(rc_modify(&pair, 0, other, &call->attr, rc_rtr_mask), ETIMEDOUT);
    rc_run(&pair, 3 * RC_PS_PER_S);
}
static void rq_psn_33_bits(struct call *call)
{
    call->attr.rq_psn = 0xff000001u;
}
static void sq_psn_33_bits(struct call *call)
{
    call->attr.sq_psn = 0xff000001u;
}
static void mask_short(struct call *call)
{
    call->mask &= ~IBV_QP_DEST_QPN;
}
static void mask_long(struct call *call)
{
    call->mask |= IBV_QP_TIMEOUT;
}
static void no_state(struct call *call)
{
    call->mask &= ~IBV_QP_STATE;
}
static void path_mtu_6(struct call *call)
{
    call->attr.path_mtu = (enum ibv_mtu)6;
}
static void path_mtu_0(struct call *call)
{
    call->attr.path_mtu = (enum ibv_mtu)0;
}
static void path_mtu_above_active(struct call *call)
{
    (void)call;
    sim_port_set_mtu(pair.ends[0].port, 1500);
}
static void max_rd_atomic_17(struct call *call)
{
    call->attr.max_rd_atomic = 17;
}
static void max_rd_atomic_129(struct call *call)
{
    call->attr.max_rd_atomic = 129;
}
static void max_dest_rd_atomic_17(struct call *call)
{
    call->attr.max_dest_rd_atomic = 17;
}
static void pkey_index_1(struct call *call)
{
    call->attr.pkey_index = 1;
}
static void timeout_32(struct call *call)
{
    call->attr.timeout = 32;
}
static void timeout_21(struct call *call)
{
    call->attr.timeout = 21;
}
static void min_rnr_timer_32(struct call *call)
{
    call->attr.min_rnr_timer = 32;
}
static void retry_cnt_8(struct call *call)
{
    call->attr.retry_cnt = 8;
}
static void rnr_retry_8(struct call *call)
{
    call->attr.rnr_retry = 8;
}
static void rate_limit(struct call *call)
{
    call->mask |= IBV_QP_RATE_LIMIT;
}

#define MISTAKE(name)                                                                    \
    {                                                                                    \
#name, name                                                                      \
    }

static const struct {
    const char *name;
    void (*make)(struct call *call);
} mistakes[] = {
    MISTAKE(port_2_of_1),
    MISTAKE(port_0),
    {"av_port_2_of_1", av_port_2},
    {"av_port_not_bound", av_port_2},
    MISTAKE(av_port_0),
    MISTAKE(av_and_port_differ),
    MISTAKE(alt_path),
    MISTAKE(alt_ports_differ),
    MISTAKE(state_9),
    MISTAKE(claim_9),
    MISTAKE(claim_init),
    MISTAKE(claim_sqd),
    MISTAKE(rts_by_claim),
    MISTAKE(qkey_privileged),
    MISTAKE(no_grh),
    MISTAKE(gid_empty),
    MISTAKE(gid_last_of_table),
    MISTAKE(gid_beyond_table),
    MISTAKE(peer_silent),
    MISTAKE(peer_of_other_family),
    MISTAKE(peer_unrouted),
    MISTAKE(peer_failed_before),
    MISTAKE(rq_psn_33_bits),
    MISTAKE(sq_psn_33_bits),
    MISTAKE(mask_short),
    MISTAKE(mask_long),
    MISTAKE(no_state),
    MISTAKE(path_mtu_6),
    MISTAKE(path_mtu_0),
    MISTAKE(path_mtu_above_active),
    MISTAKE(max_rd_atomic_17),
    MISTAKE(max_rd_atomic_129),
    MISTAKE(max_dest_rd_atomic_17),
    MISTAKE(pkey_index_1),
    MISTAKE(timeout_32),
    MISTAKE(timeout_21),
    MISTAKE(min_rnr_timer_32),
    MISTAKE(retry_cnt_8),
    MISTAKE(rnr_retry_8),
    MISTAKE(rate_limit),
};

static void make_mistake(const char *name, struct call *call)
{
    for (size_t i = 0; i < WEFT_LENGTH(mistakes); i++) {
        if (strcmp(mistakes[i].name, name) == 0) {
            mistakes[i].make(call);
            return;
        }
    }
    ck_assert_msg(strcmp(name, "-") == 0, "how to make the mistake %s?", name);
}

/* Moves a new QP to the state in which `step` begins, and fills in a call that would
 * succeed. */
static struct ibv_qp *prepare(const char *step, struct call *call)
{
    static const char *const steps[] = {"INIT",    "RTR", "RTS",
                                        "RTS_RTS", "SQD", "SQD_SQD"};
    struct ibv_qp *qp = rc_make_qp(&pair, 0);
    const struct call calls[] = {
        {rc_init_attr(&pair), rc_init_mask},
        {rc_rtr_attr(&pair, 0, pair.ends[1].qp->qp_num), rc_rtr_mask},
        {rc_rts_attr(&pair, 0), rc_rts_mask},
        {{.qp_state = IBV_QPS_RTS}, IBV_QP_STATE},
        {{.qp_state = IBV_QPS_SQD}, IBV_QP_STATE},
        {{.qp_state = IBV_QPS_SQD}, IBV_QP_STATE | IBV_QP_AV},
    };
    for (size_t i = 0; i < WEFT_LENGTH(steps); i++) {
        *call = calls[i];
        if (strcmp(steps[i], "SQD_SQD") == 0) {
            call->attr.ah_attr = calls[1].attr.ah_attr;
        }
        if (strcmp(steps[i], step) == 0) {
            return qp;
        }
        ck_assert_int_eq(rc_modify(&pair, 0, qp, &call->attr, call->mask), 0);
    }
    ck_abort_msg("what step is %s?", step);
    return NULL;
}

START_TEST(each_mistake_has_its_errno_and_changes_nothing)
{
    struct rules rules;
    struct call call;
    struct ibv_qp_attr before;
    struct ibv_qp_attr after;
    unsigned row = (unsigned)_i;
    rules_read(&rules, "modify_errno");
    const char *first = rules_cell(&rules, row, "first");
    const char *second = rules_cell(&rules, row, "second");
    int expected = rules_errno(rules_cell(&rules, row, "errno"));
    weft_ps ms = rules_number(rules_cell(&rules, row, "ms"));
    rc_pair_init(&pair,
                 &(struct rc_options){.profile = rules_cell(&rules, row, "profile"),
                                      .is_unconnected = true});
    struct ibv_qp *qp = prepare(rules_cell(&rules, row, "step"), &call);
    make_mistake(first, &call);
    make_mistake(second, &call);
    ck_assert_int_eq(sim_nic_query_qp(qp, &before), 0);
    weft_ps start = sim_now(pair.engine);
    int error = rc_modify(&pair, 0, qp, &call.attr, call.mask);
    weft_ps spent = sim_now(pair.engine) - start;
    ck_assert_msg(error == expected, "%s, %s: %d instead of %d", first, second, error,
                  expected);
    ck_assert_int_ge(spent, ms * RC_PS_PER_MS);
    ck_assert_int_lt(spent, (ms + 1) * RC_PS_PER_MS);
    ck_assert_int_eq(sim_nic_query_qp(qp, &after), 0);
    if (expected != 0) {
        ck_assert_mem_eq(&before, &after, sizeof(before));
    }
    ck_assert_uint_le(after.rq_psn, 0xffffff);
    ck_assert_uint_le(after.sq_psn, 0xffffff);
    rc_pair_fini(&pair);
    rules_fini(&rules);
}
END_TEST

/* Checks that all twelve rows of the order are present. */
START_TEST(no_row_is_missing)
{
    struct rules rules;
    unsigned seen = 0;
    rules_read(&rules, "modify_errno");
    for (unsigned i = 0; i < rules.n_rows; i++) {
        seen |= 1u << rules_number(rules_cell(&rules, i, "row"));
    }
    ck_assert_uint_eq(seen, 0x1ffe);
    rules_fini(&rules);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("qp_errno");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, each_mistake_has_its_errno_and_changes_nothing, 0,
                        rules_count("modify_errno"));
    tcase_add_test(all, no_row_is_missing);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
