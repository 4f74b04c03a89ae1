/* The threads of a device over a scripted libibverbs: verbs that stall, and their order. */
#define _GNU_SOURCE
#include <check.h>
#include <errno.h>
#include <string.h>

#include "backends/verbs/bed_testing.h"
#include "backends/verbs/device.h"
#include "backends/verbs/fake_testing.h"
#include "base/check.h"
#include "base/suite_testing.h"

#define S ((weft_ns)1000000000)

static struct verbs_bed *const bed = &verbs_bed;

static void setup(void)
{
    static const struct io_netdev netdev = {.ifindex = 5, .name = "v_ab"};
    static const struct io_hostinfo info = {
        .netdevs = (struct io_netdev *)(uintptr_t)&netdev, .n_netdevs = 1};
    struct weft_error error = {.status = WEFT_OK};

    fake_reset();
    fake.n_devices = 1;
    fake.devices[0] = (struct fake_device){.name = "rxe_ab",
                                           .guid = 0x000000fffe000001,
                                           .max_msg_bytes = 1u << 31,
                                           .max_inline_bytes = 512};
    verbs_bed_setup();
    ck_assert_int_eq(verbs_bed_open(&info, "/nowhere", &error), WEFT_OK);
}

/* Two queue pairs whose neighbours do not respond do not delay other verbs of the device. */
START_TEST(a_modify_that_stalls_holds_no_other_verb)
{
    struct ibv_pd *pd = verbs_bed_pd();
    struct ibv_cq *cq = verbs_bed_cq();
    struct ibv_qp *qps[2];
    struct io_op rtr[2];
    for (size_t i = 0; i < WEFT_LENGTH(qps); i++) {
        struct io_op op = verbs_bed_qp_op(pd, cq);
        ck_assert_int_eq(verbs_bed_run(&op), 0);
        qps[i] = op.out.qp;
    }
    fake_stall();
    for (size_t i = 0; i < WEFT_LENGTH(qps); i++) {
        rtr[i] =
            (struct io_op){.kind = IO_OP_MODIFY_QP, .task = &bed->tasks[VERBS_BED_OPS]};
        rtr[i].arg.modify_qp.qp = qps[i];
        rtr[i].arg.modify_qp.mask = IBV_QP_STATE;
        ck_assert_int_eq(verbs_submit(&bed->device->io, &rtr[i]), 0);
    }
    static char bytes[64];
    struct io_op mr = {.kind = IO_OP_REG_MR};
    mr.arg.reg_mr.pd = pd;
    mr.arg.reg_mr.addr = bytes;
    mr.arg.reg_mr.length = sizeof bytes;
    ck_assert_int_eq(verbs_bed_run(&mr), 0);
    struct io_op gone = {.kind = IO_OP_DEREG_MR, .arg.dereg_mr = mr.out.mr};
    ck_assert_int_eq(verbs_bed_run(&gone), 0);
    for (size_t i = 0; i < WEFT_LENGTH(qps); i++) {
        ck_assert_int_eq(verbs_poll(&bed->device->io, &rtr[i]), EINPROGRESS);
    }
    fake_go_on();
    ck_assert_int_eq(verbs_bed_finish(&rtr[0]), 0);
    ck_assert_int_eq(verbs_bed_finish(&rtr[1]), 0);
    verbs_bed_unmake(qps[0], NULL, NULL);
    verbs_bed_unmake(qps[1], cq, pd);
}
END_TEST

/* Without waiting in between, an object is destroyed only after the verbs that use it. */
START_TEST(order_is_kept_where_it_matters)
{
    struct ibv_pd *pd = verbs_bed_pd();
    struct ibv_cq *cq = verbs_bed_cq();
    struct io_op op = verbs_bed_qp_op(pd, cq);
    ck_assert_int_eq(verbs_bed_run(&op), 0);
    int n_before = fake_n_live();
    struct io_op ops[4] = {{.kind = IO_OP_MODIFY_QP, .task = &bed->tasks[VERBS_BED_OPS]},
                           {.kind = IO_OP_DESTROY_QP,
                            .task = &bed->tasks[VERBS_BED_OPS],
                            .arg.destroy_qp = op.out.qp},
                           {.kind = IO_OP_DESTROY_CQ,
                            .task = &bed->tasks[VERBS_BED_OPS],
                            .arg.destroy_cq = cq},
                           {.kind = IO_OP_DEALLOC_PD,
                            .task = &bed->tasks[VERBS_BED_OPS],
                            .arg.dealloc_pd = pd}};
    ops[0].arg.modify_qp.qp = op.out.qp;
    ops[0].arg.modify_qp.mask = IBV_QP_STATE;
    fake_stall();
    for (size_t i = 0; i < WEFT_LENGTH(ops); i++) {
        ck_assert_int_eq(verbs_submit(&bed->device->io, &ops[i]), 0);
    }
    ck_assert_ptr_ne(verbs_bed_pd(), NULL); /* quick verbs overtake them */
    ck_assert_int_eq(fake_n_live(), n_before + 1);
    for (size_t i = 0; i < WEFT_LENGTH(ops); i++) {
        ck_assert_int_eq(verbs_poll(&bed->device->io, &ops[i]), EINPROGRESS);
    }
    fake_go_on();
    for (size_t i = WEFT_LENGTH(ops); i-- > 0;) {
        ck_assert_int_eq(verbs_bed_finish(&ops[i]), 0);
        for (size_t j = 0; j < i; j++) { /* the last one ends after all others */
            ck_assert_int_eq(verbs_poll(&bed->device->io, &ops[j]), 0);
        }
    }
    ck_assert_int_eq(fake_n_live(), n_before - 2);
}
END_TEST

static void move(struct ibv_qp *qp, enum ibv_qp_state state)
{
    struct io_op op = {.kind = IO_OP_MODIFY_QP};
    op.arg.modify_qp.qp = qp;
    op.arg.modify_qp.attr.qp_state = state;
    op.arg.modify_qp.mask = IBV_QP_STATE;
    ck_assert_int_eq(verbs_bed_run(&op), 0);
}

/* The kernel of soft-RoCE looks for receives when a queue pair is moved to ERR, but not when one
 * is posted later. */
START_TEST(a_receive_posted_in_error_is_flushed_too)
{
    struct ibv_pd *pd = verbs_bed_pd();
    struct ibv_cq *cq = verbs_bed_cq();
    struct ibv_qp *qps[2];
    struct ibv_recv_wr receive = {.wr_id = 1}, *bad = NULL;
    for (size_t i = 0; i < WEFT_LENGTH(qps); i++) {
        struct io_op op = verbs_bed_qp_op(pd, cq);
        ck_assert_int_eq(verbs_bed_run(&op), 0);
        qps[i] = op.out.qp;
    }
    move(qps[0], IBV_QPS_ERR);
    move(qps[1], IBV_QPS_INIT);
    ck_assert_uint_eq(fake.n_to_error, 1);
    /* A rejected receive, and one of a working queue pair, have no effect. */
    ck_assert_int_eq(bed->device->io.ops->post_recv(qps[0], &receive, &bad), EINVAL);
    fake.takes_receives = true;
    ck_assert_int_eq(bed->device->io.ops->post_recv(qps[1], &receive, &bad), 0);
    ck_assert_uint_eq(bed->device->n_calls, 0);
    for (unsigned n = 2; n <= 3; n++) {
        fake_stall();
        ck_assert_int_eq(bed->device->io.ops->post_recv(qps[0], &receive, &bad), 0);
        fake_go_on();
        while (bed->device->n_calls > 0) {
            verbs_bed_step(S);
        }
        ck_assert_uint_eq(fake.n_to_error, n);
    }
    /* The flush ends with its queue pair. */
    ck_assert_int_eq(bed->device->io.ops->post_recv(qps[0], &receive, &bad), 0);
    verbs_bed_unmake(qps[0], NULL, NULL);
    ck_assert_uint_eq(fake.n_to_error, 4);
    ck_assert_uint_eq(bed->device->n_in_error, 0);
    verbs_bed_unmake(qps[1], cq, pd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verbs workers");
    TCase *tcase = tcase_create("workers");

    tcase_add_checked_fixture(tcase, setup, verbs_bed_teardown);
    tcase_add_test(tcase, a_modify_that_stalls_holds_no_other_verb);
    tcase_add_test(tcase, order_is_kept_where_it_matters);
    tcase_add_test(tcase, a_receive_posted_in_error_is_flushed_too);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
