/* One device over a scripted libibverbs: facts, slow verbs, undoing, events. */
#define _GNU_SOURCE
#include "backends/verbs/device.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/verbs/fake_testing.h"
#include "base/check.h"
#include "base/text.h"

#define S ((weft_ns)1000000000)

static struct linux_loop *loop;
static struct verbs_device *device;
static struct io_task task, cq_task, async_task;
static unsigned n_woken[3];

static struct io_prefix address;
static struct io_netdev netdev;
static struct io_hostinfo info;

/* An RDMA device on netdev 5, 02:00:00:00:00:01, 10.0.0.1. */
static void describe(void)
{
    fake_reset();
    address = (struct io_prefix){.ip = io_ip_v4(10, 0, 0, 1), .prefix_len = 24};
    netdev = (struct io_netdev){.ifindex = 5,
                                .name = "v_ab",
                                .mac = {2, 0, 0, 0, 0, 1},
                                .addresses = &address,
                                .n_addresses = 1};
    info = (struct io_hostinfo){.netdevs = &netdev, .n_netdevs = 1};
    fake.n_devices = 1;
    struct fake_device *self = &fake.devices[0];
    *self = (struct fake_device){.name = "rxe_ab",
                                 .guid = 0x000000fffe000001,
                                 .vendor_id = 0xffffff,
                                 .max_msg_bytes = 1u << 31,
                                 .max_inline_bytes = 512};
    self->gids[0] = (struct ibv_gid_entry){
        .gid.raw = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1},
        .gid_type = IBV_GID_TYPE_ROCE_V2,
        .ndev_ifindex = 5};
    self->gids[2] =
        (struct ibv_gid_entry){.gid_type = IBV_GID_TYPE_ROCE_V2, .ndev_ifindex = 5};
    memcpy(self->gids[2].gid.raw, address.ip.bytes, 16);
}

static weft_status open_with(const char *sysfs, struct weft_error *error)
{
    int n;
    struct verbs_device_config config = {.loop = loop, .info = &info, .sysfs = sysfs};
    struct ibv_device **list = fake.library.get_device_list(&n);
    weft_status status =
        verbs_device_open(&fake.library, list[0], &config, &device, error);
    fake.library.free_device_list(list);
    return status;
}

static void open_it(void)
{
    struct weft_error error = {.status = WEFT_OK};
    ck_assert_msg(open_with("/nowhere", &error) == WEFT_OK, "%s", error.message);
}

static void setup(void)
{
    struct weft_error error = {.status = WEFT_OK};
    describe();
    device = NULL;
    memset(n_woken, 0, sizeof n_woken);
    ck_assert_int_eq(linux_loop_create(1, &loop, &error), WEFT_OK);
    io_task_init(&task, linux_loop_io(loop), 0, 0);
    io_task_init(&cq_task, linux_loop_io(loop), 0, 1);
    io_task_init(&async_task, linux_loop_io(loop), 0, 2);
}

static void teardown(void)
{
    verbs_device_close(device);
    io_task_fini(&task);
    io_task_fini(&cq_task);
    io_task_fini(&async_task);
    linux_loop_destroy(loop);
    ck_assert_int_eq(fake_n_live(), 0);
}

static void step(weft_ns for_ns)
{
    struct io_task *woken;
    (void)linux_loop_step(loop, linux_loop_now(loop) + for_ns);
    while ((woken = io_loop_pop(linux_loop_io(loop))) != NULL) {
        n_woken[woken->kind]++;
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
    op.arg.create_cq.task = &cq_task;
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

/* ---- facts ---- */

START_TEST(soft_roce_tells_its_quirks)
{
    struct io_device_attr attr;
    uint32_t ifindex;
    open_it();
    ck_assert_int_eq(device->io.ops->query_device(&device->io, &attr), 0);
    ck_assert_str_eq(attr.profile, "rxe");
    ck_assert_uint_eq(attr.retry_cnt_max, 6);
    ck_assert_uint_eq(attr.max_msg_bytes, 8u << 20);
    ck_assert_uint_eq(attr.max_inline_bytes, 512);
    ck_assert(attr.writes_in_order && !attr.has_dmabuf && !attr.flush_on_poll);
    ck_assert_str_eq(device->io.name, "rxe_ab");
    ck_assert_str_eq(device->io.pci_path, "");
    ck_assert_uint_eq(device->io.guid, 0x000000fffe000001);
    ck_assert_int_eq(device->io.ops->port_netdev(&device->io, 1, &ifindex), 0);
    ck_assert_uint_eq(ifindex, 5);
    ck_assert_int_eq(device->io.ops->port_netdev(&device->io, 0, &ifindex), EINVAL);
    ck_assert_int_eq(device->io.ops->port_netdev(&device->io, 2, &ifindex), EINVAL);
}
END_TEST

START_TEST(hns_lowers_inline_and_flushes_on_poll)
{
    struct io_device_attr attr;
    fake.devices[0].vendor_id = 0x19e5;
    fake.devices[0].hw_ver = 0x21;
    fake.devices[0].max_inline_bytes = 32;
    fake.devices[0].lowers_inline = true;
    fake.has_dmabuf = true;
    open_it();
    ck_assert_int_eq(device->io.ops->query_device(&device->io, &attr), 0);
    ck_assert_str_eq(attr.profile, "hns-hip08");
    ck_assert(attr.flush_on_poll && attr.has_dmabuf);
    ck_assert_uint_eq(attr.retry_cnt_max, 7);
    ck_assert_uint_eq(attr.max_msg_bytes, 1u << 31);
    ck_assert_uint_eq(attr.max_inline_bytes, 32);
}
END_TEST

START_TEST(gids_come_with_type_and_netdev)
{
    struct io_gid_entry entry;
    open_it();
    ck_assert_int_eq(device->io.ops->query_gid(&device->io, 1, 2, &entry), 0);
    ck_assert_mem_eq(entry.gid.raw, address.ip.bytes, 16);
    ck_assert_int_eq(entry.type, IBV_GID_TYPE_ROCE_V2);
    ck_assert_uint_eq(entry.ifindex, 5);
    ck_assert_uint_eq(entry.index, 2);
    ck_assert_int_eq(device->io.ops->query_gid(&device->io, 1, 1, &entry), ENODATA);
    ck_assert_int_eq(device->io.ops->query_gid(&device->io, 1, FAKE_GIDS, &entry),
                     EINVAL);
    ck_assert_int_eq(device->io.ops->query_gid(&device->io, 2, 0, &entry), EINVAL);
}
END_TEST

START_TEST(an_old_library_is_helped_by_sysfs)
{
    char root[] = "/tmp/weft-sysfs-XXXXXX", command[80];
    struct weft_error error = {.status = WEFT_OK};
    struct io_gid_entry entry;
    ck_assert_ptr_nonnull(mkdtemp(root));
    fake_put_file(root, "class/infiniband/rxe_ab/parent", "v_ab\n");
    fake_put_file(root, "class/infiniband/rxe_ab/ports/1/gids/0",
                  "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
    fake_put_file(root, "class/infiniband/rxe_ab/ports/1/gid_attrs/types/0",
                  "IB/RoCE v1\n");
    fake_put_file(root, "class/infiniband/rxe_ab/ports/1/gids/1",
                  "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
    fake_put_file(root, "class/infiniband/rxe_ab/ports/1/gid_attrs/types/1", "RoCE v2\n");
    fake_put_file(root, "class/infiniband/rxe_ab/ports/1/gids/2",
                  "0000:0000:0000:0000:0000:0000:0000:0000\n");
    fake.library.query_gid_ex = NULL;
    ck_assert_int_eq(open_with(root, &error), WEFT_OK);
    ck_assert_int_eq(device->io.ops->query_gid(&device->io, 1, 0, &entry), 0);
    ck_assert_int_eq(entry.type, IBV_GID_TYPE_ROCE_V1);
    ck_assert_int_eq(device->io.ops->query_gid(&device->io, 1, 1, &entry), 0);
    ck_assert_int_eq(entry.type, IBV_GID_TYPE_ROCE_V2);
    ck_assert_mem_eq(entry.gid.raw, address.ip.bytes, 16);
    ck_assert_int_eq(device->io.ops->query_gid(&device->io, 1, 2, &entry), ENODATA);
    ck_assert_int_eq(device->io.ops->query_gid(&device->io, 1, 3, &entry), ENODATA);
    ck_assert(verbs_device_is_ours(device)); /* its parent's name and GUID */
    weft_format(command, sizeof command, "rm -r %s", root);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(a_device_of_another_namespace_is_not_ours)
{
    /* The ifindex is one of ours by chance, and so is the address; the MAC is not. */
    fake.devices[0].gids[0].gid.raw[15] = 9;
    open_it();
    ck_assert(!verbs_device_is_ours(device));
    verbs_device_close(device);
    /* Without a default GID the address decides ... */
    memset(&fake.devices[0].gids[0], 0, sizeof fake.devices[0].gids[0]);
    open_it();
    ck_assert(verbs_device_is_ours(device));
    verbs_device_close(device);
    /* ... and an ifindex that nobody here has is nobody's. */
    fake.devices[0].gids[2].ndev_ifindex = 6;
    open_it();
    ck_assert(!verbs_device_is_ours(device));
}
END_TEST

START_TEST(a_device_that_cannot_be_opened_says_why)
{
    struct weft_error error = {.status = WEFT_OK};
    fake.devices[0].cannot_open = true;
    ck_assert_int_eq(open_with("/nowhere", &error), WEFT_ERR_SYSTEM);
    ck_assert_int_eq(error.sys_errno, EPERM);
    ck_assert_str_eq(error.object, "rxe_ab");
}
END_TEST

/* ---- verbs ---- */

START_TEST(objects_come_and_go)
{
    char memory[64];
    open_it();
    struct ibv_pd *pd = make_pd();
    struct ibv_cq *cq = make_cq();
    struct io_op op = qp_op(pd, cq);
    ck_assert_int_eq(run(&op), 0);
    ck_assert_uint_eq(op.arg.create_qp.init.cap.max_send_wr, 64); /* as granted */
    struct ibv_qp *qp = op.out.qp;
    op = (struct io_op){.kind = IO_OP_REG_MR};
    op.arg.reg_mr.pd = pd;
    op.arg.reg_mr.addr = memory;
    op.arg.reg_mr.length = sizeof memory;
    op.arg.reg_mr.access = IBV_ACCESS_LOCAL_WRITE;
    ck_assert_int_eq(run(&op), 0);
    ck_assert(!fake.used_iova2);
    ck_assert_ptr_eq(op.out.mr->addr, memory);
    struct io_op dereg = {.kind = IO_OP_DEREG_MR, .arg.dereg_mr = op.out.mr};
    ck_assert_int_eq(run(&dereg), 0);
    op.arg.reg_mr.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
    ck_assert_int_eq(run(&op), 0);
    ck_assert(fake.used_iova2);
    dereg.arg.dereg_mr = op.out.mr;
    ck_assert_int_eq(run(&dereg), 0);
    ck_assert_uint_ge(n_woken[0], 1);
    unmake(qp, cq, pd);
    op = (struct io_op){.kind = IO_OP_NONE};
    ck_assert_int_eq(verbs_submit(&device->io, &op), EINVAL);
}
END_TEST

START_TEST(errors_are_positive_errnos_whatever_the_provider_says)
{
    open_it();
    struct ibv_pd *pd = make_pd();
    struct ibv_cq *cq = make_cq();
    struct io_op op = qp_op(pd, cq);
    fake.create_qp_errno = ENOMEM;
    ck_assert_int_eq(run(&op), ENOMEM);
    fake.create_qp_errno = 0;
    ck_assert_int_eq(run(&op), 0);
    struct ibv_qp *qp = op.out.qp;
    static const int results[][2] = {
        {ETIMEDOUT, ETIMEDOUT}, {-ETIMEDOUT, ETIMEDOUT}, {-1, EINVAL}, {0, 0}};
    for (size_t i = 0; i < WEFT_LENGTH(results); i++) {
        fake.modify_qp_result = results[i][0];
        op = (struct io_op){.kind = IO_OP_MODIFY_QP};
        op.arg.modify_qp.qp = qp;
        op.arg.modify_qp.mask = IBV_QP_STATE;
        ck_assert_int_eq(run(&op), results[i][1]);
    }
    struct ibv_send_wr send = {.wr_id = 1}, *bad_send = NULL;
    struct ibv_recv_wr receive = {.wr_id = 1}, *bad_receive = NULL;
    ck_assert_int_eq(device->io.ops->post_send(qp, &send, &bad_send), ENOMEM);
    ck_assert_ptr_eq(bad_send, &send);
    ck_assert_int_eq(device->io.ops->post_recv(qp, &receive, &bad_receive), EINVAL);
    unmake(qp, cq, pd);
}
END_TEST

START_TEST(a_slow_verb_stops_nobody_else)
{
    open_it();
    struct ibv_pd *pd = make_pd();
    struct ibv_cq *cq = make_cq();
    struct io_op op = qp_op(pd, cq);
    op.task = &task;
    n_woken[0] = 0;
    fake_stall();
    ck_assert_int_eq(verbs_submit(&device->io, &op), 0);
    io_task_deadline(&async_task, linux_loop_now(loop) + S / 100);
    while (n_woken[2] == 0) {
        step(S);
    }
    ck_assert_int_eq(verbs_poll(&device->io, &op), EINPROGRESS);
    ck_assert_uint_eq(n_woken[0], 0);
    fake_go_on();
    ck_assert_int_eq(finish(&op), 0);
    step(0);
    ck_assert_uint_eq(n_woken[0], 1);
    unmake(op.out.qp, cq, pd);
}
END_TEST

START_TEST(what_is_abandoned_is_undone)
{
    open_it();
    struct ibv_pd *pd = make_pd();
    struct ibv_cq *cq = make_cq();
    int n_before = fake_n_live();
    struct io_op op = qp_op(pd, cq);
    op.task = &task;
    fake_stall();
    ck_assert_int_eq(verbs_submit(&device->io, &op), 0);
    struct io_op more[3] = {
        {.kind = IO_OP_ALLOC_PD}, {.kind = IO_OP_CREATE_CQ}, {.kind = IO_OP_REG_MR}};
    more[1].arg.create_cq.task = &cq_task;
    more[2].arg.reg_mr.pd = pd;
    for (size_t i = 0; i < WEFT_LENGTH(more); i++) {
        ck_assert_int_eq(verbs_submit(&device->io, &more[i]), 0);
        verbs_abandon(&device->io, &more[i]);
    }
    verbs_abandon(&device->io, &op);
    ck_assert_int_eq(op.state, IO_OP_IDLE);
    verbs_abandon(&device->io, &op); /* no-op */
    memset(&op, 0x5a, sizeof op);    /* ours again */
    n_woken[0] = 0;
    fake_go_on();
    weft_ns limit = linux_loop_now(loop) + 60 * S;
    while (device->n_calls > 0) {
        ck_assert_int_lt(linux_loop_now(loop), limit);
        step(S / 100);
    }
    ck_assert_int_eq(fake_n_live(), n_before);
    ck_assert_uint_eq(n_woken[0], 0);
    unmake(NULL, cq, pd);
}
END_TEST

START_TEST(closing_waits_for_what_is_under_way)
{
    open_it();
    struct io_op ops[2] = {{.kind = IO_OP_ALLOC_PD}, {.kind = IO_OP_ALLOC_PD}};
    ck_assert_int_eq(verbs_submit(&device->io, &ops[0]), 0);
    verbs_abandon(&device->io, &ops[0]);
    ck_assert_int_eq(verbs_submit(&device->io, &ops[1]), 0);
    verbs_abandon(&device->io, &ops[1]);
    struct io_op qp = qp_op(make_pd(), make_cq()); /* and destroys what is left */
    ck_assert_int_eq(run(&qp), 0);
    verbs_device_close(device);
    device = NULL;
    ck_assert_int_eq(fake_n_live(), 0);
}
END_TEST

/* ---- events ---- */

START_TEST(an_armed_cq_wakes_its_task_once)
{
    open_it();
    struct ibv_cq *cq = make_cq();
    struct ibv_wc wc;
    int n;
    fake_complete(cq); /* not armed */
    step(0);
    ck_assert_uint_eq(n_woken[1], 0);
    ck_assert_int_eq(device->io.ops->poll_cq(cq, 1, &wc, &n), 0);
    ck_assert(n == 1 && wc.wr_id == 77);
    ck_assert_int_eq(device->io.ops->poll_cq(cq, 1, &wc, &n), 0);
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(device->io.ops->req_notify(cq, 0), 0);
    fake_complete(cq);
    fake_complete(cq);
    step(60 * S);
    ck_assert_uint_eq(n_woken[1], 1);
    step(0);
    ck_assert_uint_eq(n_woken[1], 1);
    /* Once its destruction is asked for, its task is left alone; if that fails, no more. */
    struct io_op op = {.kind = IO_OP_DESTROY_CQ, .arg.destroy_cq = cq};
    fake.destroy_cq_result = EBUSY;
    ck_assert_int_eq(run(&op), EBUSY);
    ck_assert_int_eq(device->io.ops->req_notify(cq, 0), 0);
    fake_complete(cq);
    step(60 * S);
    ck_assert_uint_eq(n_woken[1], 2);
    fake.destroy_cq_result = 0;
    unmake(NULL, cq, NULL);
}
END_TEST

START_TEST(async_events_name_their_object)
{
    struct io_async_event event;
    struct ibv_qp qp;
    open_it();
    device->io.async_task = &async_task;
    ck_assert_int_eq(device->io.ops->async_event(&device->io, &event), EAGAIN);
    fake_async(device->context, IBV_EVENT_PORT_ERR, NULL);
    fake_async(device->context, IBV_EVENT_QP_ACCESS_ERR, &qp);
    fake_async(device->context, IBV_EVENT_CQ_ERR, &qp);
    fake_async(device->context, IBV_EVENT_DEVICE_FATAL, NULL);
    step(60 * S);
    ck_assert_uint_eq(n_woken[2], 1);
    ck_assert_int_eq(device->io.ops->async_event(&device->io, &event), 0);
    ck_assert(event.type == IBV_EVENT_PORT_ERR && event.port == 1 && event.qp == NULL);
    ck_assert_int_eq(device->io.ops->async_event(&device->io, &event), 0);
    ck_assert(event.type == IBV_EVENT_QP_ACCESS_ERR && event.qp == &qp);
    ck_assert_int_eq(device->io.ops->async_event(&device->io, &event), 0);
    ck_assert(event.type == IBV_EVENT_CQ_ERR && event.cq != NULL && event.qp == NULL);
    ck_assert_int_eq(device->io.ops->async_event(&device->io, &event), 0);
    ck_assert(event.type == IBV_EVENT_DEVICE_FATAL && event.port == 0);
    ck_assert_int_eq(device->io.ops->async_event(&device->io, &event), EAGAIN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verbs device");
    TCase *tcase = tcase_create("device");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, soft_roce_tells_its_quirks);
    tcase_add_test(tcase, hns_lowers_inline_and_flushes_on_poll);
    tcase_add_test(tcase, gids_come_with_type_and_netdev);
    tcase_add_test(tcase, an_old_library_is_helped_by_sysfs);
    tcase_add_test(tcase, a_device_of_another_namespace_is_not_ours);
    tcase_add_test(tcase, a_device_that_cannot_be_opened_says_why);
    tcase_add_test(tcase, objects_come_and_go);
    tcase_add_test(tcase, errors_are_positive_errnos_whatever_the_provider_says);
    tcase_add_test(tcase, a_slow_verb_stops_nobody_else);
    tcase_add_test(tcase, what_is_abandoned_is_undone);
    tcase_add_test(tcase, closing_waits_for_what_is_under_way);
    tcase_add_test(tcase, an_armed_cq_wakes_its_task_once);
    tcase_add_test(tcase, async_events_name_their_object);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
