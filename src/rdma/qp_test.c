#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/suite_testing.h"
#include "rdma/qp.h"
#include "rdma/rdma_testing.h"

static struct fake_host host;
static struct fake_device *device;
static struct rdma *rdma;
static struct rdma_qp qp;
static struct weft_error error;
static struct ibv_cq cq;

/* titanic's p0 as mlx5 lists it: defaults at 0 and 1, 10.0.0.1/24 as v1 at 2 and v2 at 3. */
static void setup(void)
{
    fake_host_init(&host);
    device = fake_device_add(&host, "p0", 1);
    fake_slot_set(device, 1, 0, "fe80::1", IBV_GID_TYPE_ROCE_V1);
    fake_slot_set(device, 1, 1, "fe80::1", IBV_GID_TYPE_ROCE_V2);
    fake_address_add(device, 1, "10.0.0.1/24");
    rdma = fake_open(&host);
    host.verbs.n = 0;
    weft_error_clear(&error);
    struct rdma_qp_config config = {
        .port = &rdma->ports[0],
        .gid = fake_gid_of("10.0.0.1"),
        .gid_type = IBV_GID_TYPE_ROCE_V2,
        .cq = &cq,
        .max_send_wr = 5000,
        .max_recv_wr = 10,
        .max_inline_bytes = 128,
        .max_rd_atomic = 4,
        .psn = 0xabcdef,
        .timeout = 14,
        .retry_cnt = 7,
        .rnr_retry = 6,
        .min_rnr_timer = 12,
    };
    rdma_qp_init(&qp, rdma, &config, NULL);
}

static void teardown(void)
{
    rdma_close(rdma);
    ck_assert_int_eq(host.n_live, 0);
    ck_assert_uint_eq(host.n_running, 0);
    fake_host_fini(&host);
}

static const struct rdma_qp_remote iceberg = {
    .qpn = 0x12345,
    .psn = 0x123456,
    .gid_type = IBV_GID_TYPE_ROCE_V2,
    .path_mtu = 4096,
    .max_rd_atomic = 1,
};

static void connect_qp(void)
{
    struct rdma_qp_remote remote = iceberg;
    remote.gid = fake_gid_of("10.0.0.2");
    rdma_qp_connect(&qp, &remote);
}

static void expect(weft_status status, enum rdma_qp_state state)
{
    ck_assert_int_eq(rdma_qp_progress(&qp, &error), status);
    ck_assert_int_eq((int)qp.state, (int)state);
}

/* Brings the QP up to RTS. */
static void bring_up(void)
{
    expect(WEFT_OK, RDMA_QP_INIT);
    connect_qp();
    expect(WEFT_OK, RDMA_QP_RTS);
}

static void shut_down(void)
{
    rdma_qp_close(&qp);
    expect(WEFT_OK, RDMA_QP_GONE);
}

static const char *text_value(enum weft_value_name name)
{
    const struct weft_value *value = weft_error_value(&error, name);
    ck_assert_msg(value != NULL, "no text %s", weft_value_name(name));
    return value->text;
}

static int64_t int_value(enum weft_value_name name)
{
    const struct weft_value *value = weft_error_value(&error, name);
    ck_assert_msg(value != NULL, "no number %s", weft_value_name(name));
    return value->number;
}

START_TEST(a_life_in_full)
{
    bring_up();
    ck_assert_uint_eq(qp.sgid_index, 3);
    ck_assert_uint_eq(qp.n_reselected, 0);
    ck_assert_uint_eq(qp.cap.max_send_wr, 1024);
    ck_assert_uint_eq(qp.cap.max_recv_wr, 10);
    ck_assert_uint_eq(qp.cap.max_inline_data, 64);
    ck_assert_str_eq(qp.label, "titanic:p0 qp 17");
    rdma_qp_to_error(&qp);
    expect(WEFT_OK, RDMA_QP_ERR);
    rdma_qp_to_error(&qp);
    expect(WEFT_OK, RDMA_QP_ERR);
    shut_down();
    rdma_qp_close(&qp);
    rdma_qp_to_error(&qp);
    expect(WEFT_OK, RDMA_QP_GONE);
    rdma_qp_abandon(&qp);
    /* Masks: ibv_modify_qp(3)'s table for RC. STATE 1, ACCESS_FLAGS 8, PKEY_INDEX 0x10,
     * PORT 0x20, AV 0x80, PATH_MTU 0x100, TIMEOUT 0x200, RETRY_CNT 0x400, RNR_RETRY 0x800,
     * RQ_PSN 0x1000, MAX_QP_RD 0x2000, MIN_RNR 0x8000, SQ_PSN 0x10000, MAX_DEST_RD 0x20000,
     * DEST_QPN 0x100000. */
    ck_assert_str_eq(host.verbs.bytes,
                     "create_qp \n"
                     "modify_qp INIT port=1 access=7 mask=39\n"
                     "modify_qp RTR mtu=4096 qpn=74565 psn=1193046 rd=1 rnr=12 sgid=3 "
                     "dgid=10.0.0.2 mask=129181\n"
                     "modify_qp RTS psn=11259375 timeout=14 retry=7 rnr=6 rd=1 "
                     "mask=12e01\n"
                     "modify_qp ERR mask=1\n"
                     "destroy_qp \n");
    ck_assert_str_eq(host.story.bytes,
                     "0 titanic qp:p0 create\n"
                     "0 titanic qp:p0:17 to_init\n"
                     "0 titanic qp:p0:17 init\n"
                     "0 titanic qp:p0:17 to_rtr remote_qpn=74565 path_mtu=4096 "
                     "remote_gid=10.0.0.2\n"
                     "0 titanic qp:p0:17 to_rts sgid_index=3\n"
                     "0 titanic qp:p0:17 rts\n"
                     "0 titanic qp:p0:17 to_err\n"
                     "0 titanic qp:p0:17 err\n"
                     "0 titanic qp:p0:17 destroy\n"
                     "0 titanic qp:p0:17 gone\n");
}
END_TEST

START_TEST(slow_verbs_are_waited_for)
{
    fake_rule_add(&host, IO_OP_CREATE_QP, 1, 0, false, 2);
    fake_rule_add(&host, IO_OP_MODIFY_QP, 2, 0, false, 3);
    expect(WEFT_AGAIN, RDMA_QP_CREATING);
    expect(WEFT_AGAIN, RDMA_QP_CREATING);
    expect(WEFT_OK, RDMA_QP_INIT);
    connect_qp();
    for (int i = 0; i < 3; i++) {
        expect(WEFT_AGAIN, RDMA_QP_TO_RTR);
    }
    expect(WEFT_OK, RDMA_QP_RTS);
    shut_down();
}
END_TEST

/* retry_cnt is lowered on a device on which 7 is infinite (rxe). */
START_TEST(retry_cnt_stays_finite)
{
    rdma->attrs[0].retry_cnt_max = 6;
    bring_up();
    ck_assert_ptr_nonnull(strstr(host.verbs.bytes, "retry=6"));
    shut_down();
}
END_TEST

static const struct {
    enum io_op_kind kind;
    uint32_t nth;
    bool refused;
    const char *phase;
} failures[] = {
    {IO_OP_CREATE_QP, 1, false, "create"}, {IO_OP_CREATE_QP, 1, true, "create"},
    {IO_OP_MODIFY_QP, 1, false, "init"},   {IO_OP_MODIFY_QP, 1, true, "init"},
    {IO_OP_MODIFY_QP, 2, false, "rtr"},    {IO_OP_MODIFY_QP, 2, true, "rtr"},
    {IO_OP_MODIFY_QP, 3, false, "rts"},    {IO_OP_MODIFY_QP, 3, true, "rts"},
    {IO_OP_MODIFY_QP, 4, false, "err"},    {IO_OP_DESTROY_QP, 1, false, "destroy"},
};

START_TEST(every_verb_may_fail)
{
    static const int errnos[] = {EINVAL, ENOMEM, ETIMEDOUT, ENETUNREACH};
    int sys_errno = errnos[_i % 4];
    size_t which = (size_t)_i / 4;
    fake_rule_add(&host, failures[which].kind, failures[which].nth, sys_errno,
                  failures[which].refused, 1);
    weft_status status = WEFT_AGAIN;
    for (int i = 0; i < 20 && status >= WEFT_OK && qp.state != RDMA_QP_GONE; i++) {
        status = rdma_qp_progress(&qp, &error);
        if (status != WEFT_OK) {
            continue;
        }
        if (qp.state == RDMA_QP_INIT) {
            connect_qp();
        } else if (qp.state == RDMA_QP_RTS) {
            rdma_qp_to_error(&qp);
        } else if (qp.state == RDMA_QP_ERR) {
            rdma_qp_close(&qp);
        }
    }
    ck_assert_int_eq(status, WEFT_ERR_SYSTEM);
    ck_assert_int_eq((int)qp.state, RDMA_QP_FAILED);
    ck_assert_str_eq(weft_phase_name(error.phase), failures[which].phase);
    ck_assert_int_eq(error.sys_errno, sys_errno);
    /* It stays FAILED, and returns the same errno. */
    struct weft_error again;
    weft_error_clear(&again);
    ck_assert_int_eq(rdma_qp_progress(&qp, &again), WEFT_ERR_SYSTEM);
    ck_assert_int_eq(again.sys_errno, sys_errno);
    rdma_qp_to_error(&qp);
    shut_down();
}
END_TEST

/* Checks the values with which the diagnosis of a failed connection begins. */
START_TEST(rtr_timeout_tells_both_ends)
{
    fake_rule_add(&host, IO_OP_MODIFY_QP, 2, ETIMEDOUT, false, 0);
    expect(WEFT_OK, RDMA_QP_INIT);
    connect_qp();
    expect(WEFT_ERR_SYSTEM, RDMA_QP_FAILED);
    ck_assert_str_eq(weft_phase_name(error.phase), "rtr");
    ck_assert_str_eq(error.object, "titanic:p0 qp 17");
    ck_assert_str_eq(error.message, "modify_qp");
    ck_assert_int_eq(error.sys_errno, ETIMEDOUT);
    ck_assert_str_eq(text_value(WEFT_VALUE_LOCAL_PORT), "p0");
    ck_assert_str_eq(text_value(WEFT_VALUE_LOCAL_GID), "10.0.0.1");
    ck_assert_str_eq(text_value(WEFT_VALUE_LOCAL_GID_TYPE), "RoCE v2");
    ck_assert_int_eq(int_value(WEFT_VALUE_LOCAL_PREFIX_LEN), 24);
    ck_assert_int_eq(int_value(WEFT_VALUE_LOCAL_QPN), 17);
    ck_assert_int_eq(int_value(WEFT_VALUE_SGID_INDEX), 3);
    ck_assert_str_eq(text_value(WEFT_VALUE_REMOTE_GID), "10.0.0.2");
    ck_assert_str_eq(text_value(WEFT_VALUE_REMOTE_GID_TYPE), "RoCE v2");
    ck_assert_int_eq(int_value(WEFT_VALUE_REMOTE_QPN), 0x12345);
    ck_assert_int_eq(int_value(WEFT_VALUE_PATH_MTU), 4096);
    ck_assert_ptr_nonnull(strstr(host.story.bytes, "qp:p0:17 failed errno=110\n"));
    shut_down();
}
END_TEST

/* The table changed after it was read. The slot is found by value, not by index. */
START_TEST(a_moved_gid_is_found_by_value)
{
    fake_slot_set(device, 1, 3, "10.0.0.9", IBV_GID_TYPE_ROCE_V2);
    fake_slot_set(device, 1, 4, "10.0.0.1", IBV_GID_TYPE_ROCE_V1);
    fake_slot_set(device, 1, 6, "10.0.0.1", IBV_GID_TYPE_ROCE_V2);
    bring_up();
    ck_assert_uint_eq(qp.sgid_index, 6);
    ck_assert_uint_eq(qp.n_reselected, 0);
    shut_down();
}
END_TEST

/* Programs that keep an earlier slot look nothing up, neither before the verb nor after it. */
START_TEST(a_kept_slot_is_used_whatever_is_there)
{
    fake_slot_set(device, 1, 3, "10.0.9.9", IBV_GID_TYPE_ROCE_V2);
    fake_slot_set(device, 1, 5, "10.0.0.1", IBV_GID_TYPE_ROCE_V2);
    qp.config.keeps_index = true;
    qp.config.kept_index = 3;
    if (_i == 1) {
        fake_rule_add(&host, IO_OP_MODIFY_QP, 2, ENODATA, false, 0);
    }
    expect(WEFT_OK, RDMA_QP_INIT);
    connect_qp();
    expect(_i == 1 ? WEFT_ERR_SYSTEM : WEFT_OK, _i == 1 ? RDMA_QP_FAILED : RDMA_QP_RTS);
    ck_assert_uint_eq(qp.sgid_index, 3);
    ck_assert_uint_eq(qp.n_reselected, 0);
    shut_down();
}
END_TEST

/* The GID moves between look-up and verb. The first ENODATA is retried, a second one is not. */
START_TEST(enodata_at_rtr_is_tried_once_more)
{
    fake_rule_add(&host, IO_OP_MODIFY_QP, 2, ENODATA, false, 1);
    expect(WEFT_OK, RDMA_QP_INIT);
    connect_qp();
    expect(WEFT_AGAIN, RDMA_QP_TO_RTR);
    fake_slot_set(device, 1, 3, NULL, IBV_GID_TYPE_ROCE_V2);
    fake_slot_set(device, 1, 5, "10.0.0.1", IBV_GID_TYPE_ROCE_V2);
    expect(WEFT_OK, RDMA_QP_RTS);
    ck_assert_uint_eq(qp.n_reselected, 1);
    ck_assert_uint_eq(qp.sgid_index, 5);
    shut_down();
}
END_TEST

/* Another address has the slot when the verb uses it, and the verb succeeds. */
START_TEST(a_slot_that_another_takes_under_rtr_is_noticed)
{
    bool is_taken_again = _i == 1;

    fake_rule_add(&host, IO_OP_MODIFY_QP, 2, 0, false, 1);
    fake_rule_add(&host, IO_OP_MODIFY_QP, 5, 0, false, 1);
    expect(WEFT_OK, RDMA_QP_INIT);
    connect_qp();
    expect(WEFT_AGAIN, RDMA_QP_TO_RTR);
    fake_slot_set(device, 1, 3, "10.0.9.9", IBV_GID_TYPE_ROCE_V2);
    fake_slot_set(device, 1, 5, "10.0.0.1", IBV_GID_TYPE_ROCE_V2);
    host.verbs.n = 0;
    expect(WEFT_AGAIN, RDMA_QP_TO_RTR);
    ck_assert(qp.has_lost_receives);
    ck_assert_uint_eq(qp.n_reselected, 1);
    if (is_taken_again) {
        fake_slot_set(device, 1, 5, "10.0.9.8", IBV_GID_TYPE_ROCE_V2);
        expect(WEFT_ERR_SYSTEM, RDMA_QP_FAILED);
        ck_assert_str_eq(weft_phase_name(error.phase), "rtr");
        ck_assert_int_eq(error.sys_errno, ENODATA);
        ck_assert_int_eq(int_value(WEFT_VALUE_SGID_INDEX), 5);
    } else {
        expect(WEFT_OK, RDMA_QP_RTS);
        ck_assert_ptr_nonnull(strstr(host.story.bytes, " to_reset sgid_index=3\n"));
        ck_assert_ptr_nonnull(strstr(host.story.bytes, " to_rts sgid_index=5\n"));
        ck_assert_ptr_nonnull(strstr(host.verbs.bytes, "modify_qp RESET mask=1\n"
                                                       "modify_qp INIT "));
        ck_assert_ptr_nonnull(strstr(host.verbs.bytes, " sgid=5 "));
    }
    shut_down();
}
END_TEST

/* The table gives the slot to no other GID while the queue pair uses it. */
START_TEST(a_slot_that_empties_under_rtr_is_its_own)
{
    fake_rule_add(&host, IO_OP_MODIFY_QP, 2, 0, false, 1);
    expect(WEFT_OK, RDMA_QP_INIT);
    connect_qp();
    expect(WEFT_AGAIN, RDMA_QP_TO_RTR);
    fake_slot_set(device, 1, 3, NULL, IBV_GID_TYPE_ROCE_V2);
    expect(WEFT_OK, RDMA_QP_RTS);
    ck_assert_uint_eq(qp.n_reselected, 0);
    shut_down();
}
END_TEST

START_TEST(enodata_twice_fails)
{
    fake_rule_add(&host, IO_OP_MODIFY_QP, 2, ENODATA, false, 0);
    fake_rule_add(&host, IO_OP_MODIFY_QP, 3, ENODATA, true, 0);
    expect(WEFT_OK, RDMA_QP_INIT);
    connect_qp();
    expect(WEFT_ERR_SYSTEM, RDMA_QP_FAILED);
    ck_assert_str_eq(weft_phase_name(error.phase), "rtr");
    ck_assert_int_eq(error.sys_errno, ENODATA);
    ck_assert_int_eq(int_value(WEFT_VALUE_SGID_INDEX), 3);
    shut_down();
}
END_TEST

START_TEST(a_gid_that_left_the_table_fails_before_the_verb)
{
    expect(WEFT_OK, RDMA_QP_INIT);
    connect_qp();
    fake_slot_set(device, 1, 3, NULL, IBV_GID_TYPE_ROCE_V2);
    expect(WEFT_ERR_SYSTEM, RDMA_QP_FAILED);
    ck_assert_str_eq(weft_phase_name(error.phase), "rtr");
    ck_assert_int_eq(error.sys_errno, ENODATA);
    ck_assert_str_eq(error.message, "the local GID is not in the port's table");
    ck_assert_ptr_null(weft_error_value(&error, WEFT_VALUE_SGID_INDEX));
    ck_assert_uint_eq(host.n_ops[IO_OP_MODIFY_QP], 1);
    shut_down();
}
END_TEST

/* RESET to ERR is illegal, so that the request waits for INIT. */
START_TEST(an_early_wish_for_err_goes_through_init)
{
    fake_rule_add(&host, IO_OP_CREATE_QP, 1, 0, false, 1);
    rdma_qp_to_error(&qp);
    expect(WEFT_AGAIN, RDMA_QP_CREATING);
    rdma_qp_to_error(&qp);
    expect(WEFT_OK, RDMA_QP_ERR);
    shut_down();
    ck_assert_str_eq(host.verbs.bytes, "create_qp \n"
                                       "modify_qp INIT port=1 access=7 mask=39\n"
                                       "modify_qp ERR mask=1\n"
                                       "destroy_qp \n");
}
END_TEST

/* A verb in progress is not interrupted, and only the destroy verb follows it. */
START_TEST(close_during_any_verb_ends_in_gone)
{
    fake_rule_add(&host, IO_OP_CREATE_QP, 1, 0, false, 1);
    fake_rule_add(&host, IO_OP_MODIFY_QP, 1, 0, false, 1);
    fake_rule_add(&host, IO_OP_MODIFY_QP, 2, 0, false, 1);
    fake_rule_add(&host, IO_OP_MODIFY_QP, 3, 0, false, 1);
    fake_rule_add(&host, IO_OP_DESTROY_QP, 1, 0, false, 1);
    int n_again = 0;
    while (n_again < _i) {
        weft_status status = rdma_qp_progress(&qp, &error);
        n_again += status == WEFT_AGAIN ? 1 : 0;
        if (status == WEFT_OK && qp.state == RDMA_QP_INIT) {
            connect_qp();
        }
    }
    rdma_qp_close(&qp);
    weft_status status;
    do {
        status = rdma_qp_progress(&qp, &error);
    } while (status == WEFT_AGAIN);
    ck_assert_int_eq(status, WEFT_OK);
    ck_assert_int_eq((int)qp.state, RDMA_QP_GONE);
    ck_assert_uint_eq(host.n_ops[IO_OP_CREATE_QP], _i > 0 ? 1 : 0);
    ck_assert_uint_eq(host.n_ops[IO_OP_DESTROY_QP], _i > 0 ? 1 : 0);
    ck_assert_int_eq(host.n_live, 1); /* the PD */
}
END_TEST

/* Abandons a QP in any state, with a verb in progress or done but not polled. */
START_TEST(abandon_leaks_nothing)
{
    fake_rule_add(&host, IO_OP_CREATE_QP, 1, 0, false, 1);
    fake_rule_add(&host, IO_OP_MODIFY_QP, 1, 0, false, 1);
    fake_rule_add(&host, IO_OP_MODIFY_QP, 2, 0, false, 1);
    fake_rule_add(&host, IO_OP_MODIFY_QP, 3, 0, false, 1);
    fake_rule_add(&host, IO_OP_DESTROY_QP, 1, 0, false, 1);
    for (int step = 0; step < _i; step++) {
        weft_status status = rdma_qp_progress(&qp, &error);
        if (status == WEFT_OK && qp.state == RDMA_QP_INIT) {
            connect_qp();
        } else if (status == WEFT_OK && qp.state == RDMA_QP_RTS) {
            rdma_qp_close(&qp);
        }
    }
    if (_i == 1) {
        /* The backend may have created it before the QP polls. */
        ck_assert_int_eq(device->device.ops->poll(&device->device, &qp.op), 0);
    }
    rdma_qp_abandon(&qp);
    ck_assert_int_eq((int)qp.state, RDMA_QP_GONE);
    ck_assert_int_eq(host.n_live, 1);
    ck_assert_uint_eq(host.n_running, 0);
    rdma_qp_abandon(&qp);
    expect(WEFT_OK, RDMA_QP_GONE);
}
END_TEST

START_TEST(names_of_states)
{
    ck_assert_str_eq(rdma_qp_state_name(RDMA_QP_TO_RTR), "to_rtr");
    ck_assert_str_eq(rdma_qp_state_name((enum rdma_qp_state)99), "?");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdma/qp");
    TCase *tests = tcase_create("qp");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_life_in_full);
    tcase_add_test(tests, slow_verbs_are_waited_for);
    tcase_add_test(tests, retry_cnt_stays_finite);
    tcase_add_loop_test(tests, every_verb_may_fail, 0,
                        4 * (int)(sizeof(failures) / sizeof(failures[0])));
    tcase_add_test(tests, rtr_timeout_tells_both_ends);
    tcase_add_test(tests, a_moved_gid_is_found_by_value);
    tcase_add_loop_test(tests, a_kept_slot_is_used_whatever_is_there, 0, 2);
    tcase_add_test(tests, enodata_at_rtr_is_tried_once_more);
    tcase_add_loop_test(tests, a_slot_that_another_takes_under_rtr_is_noticed, 0, 2);
    tcase_add_test(tests, a_slot_that_empties_under_rtr_is_its_own);
    tcase_add_test(tests, enodata_twice_fails);
    tcase_add_test(tests, a_gid_that_left_the_table_fails_before_the_verb);
    tcase_add_test(tests, an_early_wish_for_err_goes_through_init);
    tcase_add_loop_test(tests, close_during_any_verb_ends_in_gone, 0, 5);
    tcase_add_loop_test(tests, abandon_leaks_nothing, 0, 9);
    tcase_add_test(tests, names_of_states);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
