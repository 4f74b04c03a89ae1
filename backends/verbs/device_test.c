/* One device over a scripted libibverbs: facts, slow verbs, abandoned verbs, events. */
#define _GNU_SOURCE
#include "backends/verbs/device.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/verbs/bed_testing.h"
#include "backends/verbs/fake_testing.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"

#define S ((weft_ns)1000000000)

static struct verbs_bed *const bed = &verbs_bed;

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

static void open_it(void)
{
    struct weft_error error = {.status = WEFT_OK};
    ck_assert_msg(verbs_bed_open(&info, "/nowhere", &error) == WEFT_OK, "%s",
                  error.message);
}

static void setup(void)
{
    describe();
    verbs_bed_setup();
}

/* ---- facts ---- */

START_TEST(soft_roce_tells_its_quirks)
{
    struct io_device_attr attr;
    uint32_t ifindex;
    open_it();
    ck_assert_int_eq(bed->device->io.ops->query_device(&bed->device->io, &attr), 0);
    ck_assert_str_eq(attr.profile, "rxe");
    ck_assert_uint_eq(attr.retry_cnt_max, 6);
    ck_assert(attr.may_stall);
    ck_assert_uint_eq(attr.max_msg_bytes, 8u << 20);
    ck_assert_uint_eq(attr.max_inline_bytes, 512);
    ck_assert(attr.writes_in_order && !attr.has_dmabuf && !attr.flush_on_poll);
    ck_assert_str_eq(bed->device->io.name, "rxe_ab");
    ck_assert_str_eq(bed->device->io.pci_path, "");
    ck_assert_uint_eq(bed->device->io.guid, 0x000000fffe000001);
    ck_assert_int_eq(bed->device->io.ops->port_netdev(&bed->device->io, 1, &ifindex), 0);
    ck_assert_uint_eq(ifindex, 5);
    ck_assert_int_eq(bed->device->io.ops->port_netdev(&bed->device->io, 0, &ifindex),
                     EINVAL);
    ck_assert_int_eq(bed->device->io.ops->port_netdev(&bed->device->io, 2, &ifindex),
                     EINVAL);
}
END_TEST

/* A loop over ports counts them in 8 bits. */
START_TEST(a_device_has_fewer_ports_than_eight_bits_can_count)
{
    static const uint8_t reported[] = {1, 2, 254, 255};
    struct ibv_port_attr attr;
    struct io_device *device;
    uint8_t n = reported[_i] == 255 ? 254 : reported[_i];
    fake.devices[0].n_ports = reported[_i];
    open_it();
    device = &bed->device->io;
    ck_assert_uint_eq(device->n_ports, n);
    ck_assert_int_eq(device->ops->query_port(device, n, &attr), 0);
    ck_assert_int_eq(device->ops->query_port(device, (uint8_t)(n + 1), &attr), EINVAL);
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
    ck_assert_int_eq(bed->device->io.ops->query_device(&bed->device->io, &attr), 0);
    ck_assert_str_eq(attr.profile, "hns-hip08");
    ck_assert(attr.flush_on_poll && attr.has_dmabuf);
    ck_assert_uint_eq(attr.retry_cnt_max, 7);
    ck_assert(!attr.may_stall);
    ck_assert_uint_eq(attr.max_msg_bytes, 1u << 31);
    ck_assert_uint_eq(attr.max_inline_bytes, 32);
}
END_TEST

START_TEST(gids_come_with_type_and_netdev)
{
    struct io_gid_entry entry;
    open_it();
    ck_assert_int_eq(bed->device->io.ops->query_gid(&bed->device->io, 1, 2, &entry), 0);
    ck_assert_mem_eq(entry.gid.raw, address.ip.bytes, 16);
    ck_assert_int_eq(entry.type, IBV_GID_TYPE_ROCE_V2);
    ck_assert_uint_eq(entry.ifindex, 5);
    ck_assert_uint_eq(entry.index, 2);
    ck_assert_int_eq(bed->device->io.ops->query_gid(&bed->device->io, 1, 1, &entry),
                     ENODATA);
    ck_assert_int_eq(
        bed->device->io.ops->query_gid(&bed->device->io, 1, FAKE_GIDS, &entry), EINVAL);
    ck_assert_int_eq(bed->device->io.ops->query_gid(&bed->device->io, 2, 0, &entry),
                     EINVAL);
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
    ck_assert_int_eq(verbs_bed_open(&info, root, &error), WEFT_OK);
    ck_assert_int_eq(bed->device->io.ops->query_gid(&bed->device->io, 1, 0, &entry), 0);
    ck_assert_int_eq(entry.type, IBV_GID_TYPE_ROCE_V1);
    ck_assert_int_eq(bed->device->io.ops->query_gid(&bed->device->io, 1, 1, &entry), 0);
    ck_assert_int_eq(entry.type, IBV_GID_TYPE_ROCE_V2);
    ck_assert_mem_eq(entry.gid.raw, address.ip.bytes, 16);
    ck_assert_int_eq(bed->device->io.ops->query_gid(&bed->device->io, 1, 2, &entry),
                     ENODATA);
    ck_assert_int_eq(bed->device->io.ops->query_gid(&bed->device->io, 1, 3, &entry),
                     ENODATA);
    ck_assert(verbs_device_is_ours(bed->device)); /* by its parent's name and GUID */
    weft_format(command, sizeof command, "rm -r %s", root);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(a_device_of_another_namespace_is_not_ours)
{
    /* The ifindex and the address match ours by chance; the MAC does not. */
    fake.devices[0].gids[0].gid.raw[15] = 9;
    open_it();
    ck_assert(!verbs_device_is_ours(bed->device));
    verbs_device_close(bed->device);
    /* Without a default GID the address decides. */
    memset(&fake.devices[0].gids[0], 0, sizeof fake.devices[0].gids[0]);
    open_it();
    ck_assert(verbs_device_is_ours(bed->device));
    verbs_device_close(bed->device);
    /* An ifindex that does not exist here does not match. */
    fake.devices[0].gids[2].ndev_ifindex = 6;
    open_it();
    ck_assert(!verbs_device_is_ours(bed->device));
}
END_TEST

START_TEST(a_device_that_cannot_be_opened_says_why)
{
    struct weft_error error = {.status = WEFT_OK};
    fake.devices[0].cannot_open = true;
    ck_assert_int_eq(verbs_bed_open(&info, "/nowhere", &error), WEFT_ERR_SYSTEM);
    ck_assert_int_eq(error.sys_errno, EPERM);
    ck_assert_str_eq(error.object, "rxe_ab");
}
END_TEST

/* ---- verbs ---- */

START_TEST(objects_come_and_go)
{
    char memory[64];
    open_it();
    struct ibv_pd *pd = verbs_bed_pd();
    struct ibv_cq *cq = verbs_bed_cq();
    struct io_op op = verbs_bed_qp_op(pd, cq);
    ck_assert_int_eq(verbs_bed_run(&op), 0);
    ck_assert_uint_eq(op.arg.create_qp.init.cap.max_send_wr, 64); /* as granted */
    struct ibv_qp *qp = op.out.qp;
    op = (struct io_op){.kind = IO_OP_REG_MR};
    op.arg.reg_mr.pd = pd;
    op.arg.reg_mr.addr = memory;
    op.arg.reg_mr.length = sizeof memory;
    op.arg.reg_mr.access = IBV_ACCESS_LOCAL_WRITE;
    ck_assert_int_eq(verbs_bed_run(&op), 0);
    ck_assert(!fake.used_iova2);
    ck_assert_ptr_eq(op.out.mr->addr, memory);
    struct io_op dereg = {.kind = IO_OP_DEREG_MR, .arg.dereg_mr = op.out.mr};
    ck_assert_int_eq(verbs_bed_run(&dereg), 0);
    op.arg.reg_mr.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
    ck_assert_int_eq(verbs_bed_run(&op), 0);
    ck_assert(fake.used_iova2);
    dereg.arg.dereg_mr = op.out.mr;
    ck_assert_int_eq(verbs_bed_run(&dereg), 0);
    ck_assert_uint_ge(bed->n_woken[0], 1);
    verbs_bed_unmake(qp, cq, pd);
    op = (struct io_op){.kind = IO_OP_NONE};
    ck_assert_int_eq(verbs_submit(&bed->device->io, &op), EINVAL);
}
END_TEST

START_TEST(errors_are_positive_errnos_whatever_the_provider_says)
{
    open_it();
    struct ibv_pd *pd = verbs_bed_pd();
    struct ibv_cq *cq = verbs_bed_cq();
    struct io_op op = verbs_bed_qp_op(pd, cq);
    fake.create_qp_errno = ENOMEM;
    ck_assert_int_eq(verbs_bed_run(&op), ENOMEM);
    fake.create_qp_errno = 0;
    ck_assert_int_eq(verbs_bed_run(&op), 0);
    struct ibv_qp *qp = op.out.qp;
    static const int results[][2] = {
        {ETIMEDOUT, ETIMEDOUT}, {-ETIMEDOUT, ETIMEDOUT}, {-1, EINVAL}, {0, 0}};
    for (size_t i = 0; i < WEFT_LENGTH(results); i++) {
        fake.modify_qp_result = results[i][0];
        op = (struct io_op){.kind = IO_OP_MODIFY_QP};
        op.arg.modify_qp.qp = qp;
        op.arg.modify_qp.mask = IBV_QP_STATE;
        ck_assert_int_eq(verbs_bed_run(&op), results[i][1]);
    }
    struct ibv_send_wr send = {.wr_id = 1}, *bad_send = NULL;
    struct ibv_recv_wr receive = {.wr_id = 1}, *bad_receive = NULL;
    ck_assert_int_eq(bed->device->io.ops->post_send(qp, &send, &bad_send), ENOMEM);
    ck_assert_ptr_eq(bad_send, &send);
    ck_assert_int_eq(bed->device->io.ops->post_recv(qp, &receive, &bad_receive), EINVAL);
    verbs_bed_unmake(qp, cq, pd);
}
END_TEST

START_TEST(a_slow_verb_stops_nobody_else)
{
    open_it();
    struct ibv_pd *pd = verbs_bed_pd();
    struct ibv_cq *cq = verbs_bed_cq();
    struct io_op op = verbs_bed_qp_op(pd, cq);
    op.task = &bed->tasks[VERBS_BED_OPS];
    bed->n_woken[0] = 0;
    fake_stall();
    ck_assert_int_eq(verbs_submit(&bed->device->io, &op), 0);
    io_task_deadline(&bed->tasks[VERBS_BED_ASYNC], linux_loop_now(bed->loop) + S / 100);
    while (bed->n_woken[2] == 0) {
        verbs_bed_step(S);
    }
    ck_assert_int_eq(verbs_poll(&bed->device->io, &op), EINPROGRESS);
    ck_assert_uint_eq(bed->n_woken[0], 0);
    fake_go_on();
    ck_assert_int_eq(verbs_bed_finish(&op), 0);
    verbs_bed_step(0);
    ck_assert_uint_eq(bed->n_woken[0], 1);
    verbs_bed_unmake(op.out.qp, cq, pd);
}
END_TEST

START_TEST(what_is_abandoned_is_undone)
{
    open_it();
    struct ibv_pd *pd = verbs_bed_pd();
    struct ibv_cq *cq = verbs_bed_cq();
    int n_before = fake_n_live();
    struct io_op op = verbs_bed_qp_op(pd, cq);
    op.task = &bed->tasks[VERBS_BED_OPS];
    fake_stall();
    ck_assert_int_eq(verbs_submit(&bed->device->io, &op), 0);
    struct io_op more[3] = {
        {.kind = IO_OP_ALLOC_PD}, {.kind = IO_OP_CREATE_CQ}, {.kind = IO_OP_REG_MR}};
    more[1].arg.create_cq.task = &bed->tasks[VERBS_BED_CQ];
    more[2].arg.reg_mr.pd = pd;
    for (size_t i = 0; i < WEFT_LENGTH(more); i++) {
        ck_assert_int_eq(verbs_submit(&bed->device->io, &more[i]), 0);
        verbs_abandon(&bed->device->io, &more[i]);
    }
    verbs_abandon(&bed->device->io, &op);
    ck_assert_int_eq(op.state, IO_OP_IDLE);
    verbs_abandon(&bed->device->io, &op); /* no effect */
    memset(&op, 0x5a, sizeof op);         /* the caller owns it again */
    bed->n_woken[0] = 0;
    fake_go_on();
    weft_ns limit = linux_loop_now(bed->loop) + 60 * S;
    while (bed->device->n_calls > 0) {
        ck_assert_int_lt(linux_loop_now(bed->loop), limit);
        verbs_bed_step(S / 100);
    }
    ck_assert_int_eq(fake_n_live(), n_before);
    ck_assert_uint_eq(bed->n_woken[0], 0);
    verbs_bed_unmake(NULL, cq, pd);
}
END_TEST

START_TEST(closing_waits_for_what_is_under_way)
{
    open_it();
    struct io_op ops[2] = {{.kind = IO_OP_ALLOC_PD}, {.kind = IO_OP_ALLOC_PD}};
    ck_assert_int_eq(verbs_submit(&bed->device->io, &ops[0]), 0);
    verbs_abandon(&bed->device->io, &ops[0]);
    ck_assert_int_eq(verbs_submit(&bed->device->io, &ops[1]), 0);
    verbs_abandon(&bed->device->io, &ops[1]);
    struct io_op qp =
        verbs_bed_qp_op(verbs_bed_pd(), verbs_bed_cq()); /* closing also destroys these */
    ck_assert_int_eq(verbs_bed_run(&qp), 0);
    verbs_device_close(bed->device);
    bed->device = NULL;
    ck_assert_int_eq(fake_n_live(), 0);
}
END_TEST

/* ---- events ---- */

START_TEST(an_armed_cq_wakes_its_task_once)
{
    open_it();
    struct ibv_cq *cq = verbs_bed_cq();
    struct ibv_wc wc;
    int n;
    fake_complete(cq); /* not armed */
    verbs_bed_step(0);
    ck_assert_uint_eq(bed->n_woken[1], 0);
    ck_assert_int_eq(bed->device->io.ops->poll_cq(cq, 1, &wc, &n), 0);
    ck_assert(n == 1 && wc.wr_id == 77);
    ck_assert_int_eq(bed->device->io.ops->poll_cq(cq, 1, &wc, &n), 0);
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(bed->device->io.ops->req_notify(cq, 0), 0);
    fake_complete(cq);
    fake_complete(cq);
    verbs_bed_step(60 * S);
    ck_assert_uint_eq(bed->n_woken[1], 1);
    verbs_bed_step(0);
    ck_assert_uint_eq(bed->n_woken[1], 1);
    /* A CQ's task is not woken once its destruction was requested, even if that fails, because
     * the task may no longer exist. */
    struct io_op op = {.kind = IO_OP_DESTROY_CQ, .arg.destroy_cq = cq};
    fake.destroy_cq_result = EBUSY;
    ck_assert_int_eq(verbs_bed_run(&op), EBUSY);
    ck_assert_int_eq(bed->device->io.ops->req_notify(cq, 0), 0);
    fake_complete(cq);
    verbs_bed_step(S / 10);
    ck_assert_uint_eq(bed->n_woken[1], 1);
    fake.destroy_cq_result = 0;
    verbs_bed_unmake(NULL, cq, NULL);
}
END_TEST

START_TEST(async_events_name_their_object)
{
    struct io_async_event event;
    struct ibv_qp qp;
    open_it();
    bed->device->io.async_task = &bed->tasks[VERBS_BED_ASYNC];
    ck_assert_int_eq(bed->device->io.ops->async_event(&bed->device->io, &event), EAGAIN);
    fake_async(bed->device->context, IBV_EVENT_PORT_ERR, NULL);
    fake_async(bed->device->context, IBV_EVENT_QP_ACCESS_ERR, &qp);
    fake_async(bed->device->context, IBV_EVENT_CQ_ERR, &qp);
    fake_async(bed->device->context, IBV_EVENT_DEVICE_FATAL, NULL);
    verbs_bed_step(60 * S);
    ck_assert_uint_eq(bed->n_woken[2], 1);
    ck_assert_int_eq(bed->device->io.ops->async_event(&bed->device->io, &event), 0);
    ck_assert(event.type == IBV_EVENT_PORT_ERR && event.port == 1 && event.qp == NULL);
    ck_assert_int_eq(bed->device->io.ops->async_event(&bed->device->io, &event), 0);
    ck_assert(event.type == IBV_EVENT_QP_ACCESS_ERR && event.qp == &qp);
    ck_assert_int_eq(bed->device->io.ops->async_event(&bed->device->io, &event), 0);
    ck_assert(event.type == IBV_EVENT_CQ_ERR && event.cq != NULL && event.qp == NULL);
    ck_assert_int_eq(bed->device->io.ops->async_event(&bed->device->io, &event), 0);
    ck_assert(event.type == IBV_EVENT_DEVICE_FATAL && event.port == 0);
    ck_assert_int_eq(bed->device->io.ops->async_event(&bed->device->io, &event), EAGAIN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verbs device");
    TCase *tcase = tcase_create("device");
    tcase_add_checked_fixture(tcase, setup, verbs_bed_teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, soft_roce_tells_its_quirks);
    tcase_add_loop_test(tcase, a_device_has_fewer_ports_than_eight_bits_can_count, 0, 4);
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
    return suite_run(suite);
}
