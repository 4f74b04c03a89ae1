/* A device's threads over a scripted libibverbs: verbs that stall, and their order. */
#define _GNU_SOURCE
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/verbs/device.h"
#include "backends/verbs/fake_testing.h"
#include "base/check.h"

#define S ((weft_ns)1000000000)

static struct linux_loop *loop;
static struct verbs_device *device;
static struct io_task task;

static void setup(void)
{
    static const struct io_netdev netdev = {.ifindex = 5, .name = "v_ab"};
    static const struct io_hostinfo info = {
        .netdevs = (struct io_netdev *)(uintptr_t)&netdev, .n_netdevs = 1};
    struct weft_error error = {.status = WEFT_OK};
    int n;

    fake_reset();
    fake.n_devices = 1;
    fake.devices[0] = (struct fake_device){.name = "rxe_ab",
                                           .guid = 0x000000fffe000001,
                                           .max_msg_bytes = 1u << 31,
                                           .max_inline_bytes = 512};
    ck_assert_int_eq(linux_loop_create(1, &loop, &error), WEFT_OK);
    io_task_init(&task, linux_loop_io(loop), 0, 0);
    struct verbs_device_config config = {
        .loop = loop, .info = &info, .sysfs = "/nowhere"};
    struct ibv_device **list = fake.library.get_device_list(&n);
    ck_assert_int_eq(verbs_device_open(&fake.library, list[0], &config, &device, &error),
                     WEFT_OK);
    fake.library.free_device_list(list);
}

static void teardown(void)
{
    verbs_device_close(device);
    io_task_fini(&task);
    linux_loop_destroy(loop);
    ck_assert_int_eq(fake_n_live(), 0);
}

static void step(weft_ns for_ns)
{
    (void)linux_loop_step(loop, linux_loop_now(loop) + for_ns);
    while (io_loop_pop(linux_loop_io(loop)) != NULL) {
        continue;
    }
}

static int finish(struct io_op *op)
{
    int error;
    weft_ns limit = linux_loop_now(loop) + 60 * S;
    while ((error = verbs_poll(&device->io, op)) == EINPROGRESS) {
        ck_assert_int_lt(linux_loop_now(loop), limit);
        step(S);
    }
    ck_assert_int_eq(op->state, IO_OP_DONE);
    ck_assert_int_eq(op->error, error);
    return error;
}

static int run(struct io_op *op)
{
    op->task = &task;
    ck_assert_int_eq(verbs_submit(&device->io, op), 0);
    return finish(op);
}

static struct ibv_pd *make_pd(void)
{
    struct io_op op = {.kind = IO_OP_ALLOC_PD};
    ck_assert_int_eq(run(&op), 0);
    return op.out.pd;
}

static struct ibv_cq *make_cq(void)
{
    struct io_op op = {.kind = IO_OP_CREATE_CQ};
    op.arg.create_cq.cqe = 10;
    op.arg.create_cq.task = &task;
    ck_assert_int_eq(run(&op), 0);
    return op.out.cq;
}

static struct io_op qp_op(struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct io_op op = {.kind = IO_OP_CREATE_QP};
    op.arg.create_qp.pd = pd;
    op.arg.create_qp.init = (struct ibv_qp_init_attr){
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap.max_send_wr = 16};
    return op;
}

static void unmake(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_pd *pd)
{
    struct io_op op = {.kind = IO_OP_DESTROY_QP, .arg.destroy_qp = qp};
    ck_assert(qp == NULL || run(&op) == 0);
    op = (struct io_op){.kind = IO_OP_DESTROY_CQ, .arg.destroy_cq = cq};
    ck_assert(cq == NULL || run(&op) == 0);
    op = (struct io_op){.kind = IO_OP_DEALLOC_PD, .arg.dealloc_pd = pd};
    ck_assert(pd == NULL || run(&op) == 0);
}

/* Two queue pairs whose neighbours do not answer: everything else of the device goes on. */
START_TEST(a_modify_that_stalls_holds_no_other_verb)
{
    struct ibv_pd *pd = make_pd();
    struct ibv_cq *cq = make_cq();
    struct ibv_qp *qps[2];
    struct io_op rtr[2];
    for (size_t i = 0; i < WEFT_LENGTH(qps); i++) {
        struct io_op op = qp_op(pd, cq);
        ck_assert_int_eq(run(&op), 0);
        qps[i] = op.out.qp;
    }
    fake_stall();
    for (size_t i = 0; i < WEFT_LENGTH(qps); i++) {
        rtr[i] = (struct io_op){.kind = IO_OP_MODIFY_QP, .task = &task};
        rtr[i].arg.modify_qp.qp = qps[i];
        rtr[i].arg.modify_qp.mask = IBV_QP_STATE;
        ck_assert_int_eq(verbs_submit(&device->io, &rtr[i]), 0);
    }
    static char bytes[64];
    struct io_op mr = {.kind = IO_OP_REG_MR};
    mr.arg.reg_mr.pd = pd;
    mr.arg.reg_mr.addr = bytes;
    mr.arg.reg_mr.length = sizeof bytes;
    ck_assert_int_eq(run(&mr), 0);
    struct io_op gone = {.kind = IO_OP_DEREG_MR, .arg.dereg_mr = mr.out.mr};
    ck_assert_int_eq(run(&gone), 0);
    for (size_t i = 0; i < WEFT_LENGTH(qps); i++) {
        ck_assert_int_eq(verbs_poll(&device->io, &rtr[i]), EINPROGRESS);
    }
    fake_go_on();
    ck_assert_int_eq(finish(&rtr[0]), 0);
    ck_assert_int_eq(finish(&rtr[1]), 0);
    unmake(qps[0], NULL, NULL);
    unmake(qps[1], cq, pd);
}
END_TEST

/* Nobody waits in between: what takes an object away is executed after what uses it. */
START_TEST(order_is_kept_where_it_matters)
{
    struct ibv_pd *pd = make_pd();
    struct ibv_cq *cq = make_cq();
    struct io_op op = qp_op(pd, cq);
    ck_assert_int_eq(run(&op), 0);
    int n_before = fake_n_live();
    struct io_op ops[4] = {
        {.kind = IO_OP_MODIFY_QP, .task = &task},
        {.kind = IO_OP_DESTROY_QP, .task = &task, .arg.destroy_qp = op.out.qp},
        {.kind = IO_OP_DESTROY_CQ, .task = &task, .arg.destroy_cq = cq},
        {.kind = IO_OP_DEALLOC_PD, .task = &task, .arg.dealloc_pd = pd}};
    ops[0].arg.modify_qp.qp = op.out.qp;
    ops[0].arg.modify_qp.mask = IBV_QP_STATE;
    fake_stall();
    for (size_t i = 0; i < WEFT_LENGTH(ops); i++) {
        ck_assert_int_eq(verbs_submit(&device->io, &ops[i]), 0);
    }
    ck_assert_ptr_ne(make_pd(), NULL); /* quick ones overtake them */
    ck_assert_int_eq(fake_n_live(), n_before + 1);
    for (size_t i = 0; i < WEFT_LENGTH(ops); i++) {
        ck_assert_int_eq(verbs_poll(&device->io, &ops[i]), EINPROGRESS);
    }
    fake_go_on();
    for (size_t i = WEFT_LENGTH(ops); i-- > 0;) {
        ck_assert_int_eq(finish(&ops[i]), 0);
        for (size_t j = 0; j < i; j++) { /* the last one's end means all others' */
            ck_assert_int_eq(verbs_poll(&device->io, &ops[j]), 0);
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
    ck_assert_int_eq(run(&op), 0);
}

/* Soft-RoCE's kernel looks for receives when a queue pair is moved to ERR, and not when one is
 * posted after that. */
START_TEST(a_receive_posted_in_error_is_flushed_too)
{
    struct ibv_pd *pd = make_pd();
    struct ibv_cq *cq = make_cq();
    struct ibv_qp *qps[2];
    struct ibv_recv_wr receive = {.wr_id = 1}, *bad = NULL;
    for (size_t i = 0; i < WEFT_LENGTH(qps); i++) {
        struct io_op op = qp_op(pd, cq);
        ck_assert_int_eq(run(&op), 0);
        qps[i] = op.out.qp;
    }
    move(qps[0], IBV_QPS_ERR);
    move(qps[1], IBV_QPS_INIT);
    ck_assert_uint_eq(fake.n_to_error, 1);
    /* One that was refused, and one of a queue pair that works, change nothing. */
    ck_assert_int_eq(device->io.ops->post_recv(qps[0], &receive, &bad), EINVAL);
    fake.takes_receives = true;
    ck_assert_int_eq(device->io.ops->post_recv(qps[1], &receive, &bad), 0);
    ck_assert_uint_eq(device->n_calls, 0);
    for (unsigned n = 2; n <= 3; n++) {
        fake_stall();
        ck_assert_int_eq(device->io.ops->post_recv(qps[0], &receive, &bad), 0);
        fake_go_on();
        while (device->n_calls > 0) {
            step(S);
        }
        ck_assert_uint_eq(fake.n_to_error, n);
    }
    /* It does not outlive its queue pair. */
    ck_assert_int_eq(device->io.ops->post_recv(qps[0], &receive, &bad), 0);
    unmake(qps[0], NULL, NULL);
    ck_assert_uint_eq(fake.n_to_error, 4);
    ck_assert_uint_eq(device->n_in_error, 0);
    unmake(qps[1], cq, pd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verbs workers");
    TCase *tcase = tcase_create("workers");
    SRunner *runner;
    int n_failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_modify_that_stalls_holds_no_other_verb);
    tcase_add_test(tcase, order_is_kept_where_it_matters);
    tcase_add_test(tcase, a_receive_posted_in_error_is_flushed_too);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
