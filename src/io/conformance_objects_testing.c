/* Tests of io/verbs.h: attributes, objects and the operations that create and modify them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "io/conformance_testing.h"
#include "io/gpu.h"
#include "io/oob.h"
#include "io/verbs.h"

#define PSN 0x123456

static struct io_device *device(int host)
{
    return now_testing.env[host]->devices[0];
}

int conformance_op(int host, struct io_op *op)
{
    op->task = &now_testing.task[host][TASK_OP];
    int error = device(host)->ops->submit(device(host), op);
    if (error != 0) {
        ck_assert_int_eq(op->state, IO_OP_IDLE);
        return error;
    }
    WAIT_FOR((error = device(host)->ops->poll(device(host), op)) != EINPROGRESS);
    ck_assert_int_eq(op->state, IO_OP_DONE);
    ck_assert_int_eq(op->error, error);
    return error;
}

struct ibv_pd *conformance_pd(int host)
{
    struct io_op op = {.kind = IO_OP_ALLOC_PD};
    ck_assert_int_eq(conformance_op(host, &op), 0);
    return op.out.pd;
}

struct ibv_cq *conformance_cq(int host, int cqe)
{
    struct io_op op = {.kind = IO_OP_CREATE_CQ};
    op.arg.create_cq.cqe = cqe;
    op.arg.create_cq.task = &now_testing.task[host][TASK_CQ];
    ck_assert_int_eq(conformance_op(host, &op), 0);
    ck_assert_int_ge(op.out.cq->cqe, cqe);
    return op.out.cq;
}

struct ibv_mr *conformance_mr(int host, struct ibv_pd *pd, void *at, size_t n_bytes)
{
    struct io_op op = {.kind = IO_OP_REG_MR};
    op.arg.reg_mr.pd = pd;
    op.arg.reg_mr.addr = at;
    op.arg.reg_mr.length = n_bytes;
    op.arg.reg_mr.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    ck_assert_int_eq(conformance_op(host, &op), 0);
    ck_assert_ptr_eq(op.out.mr->addr, at);
    ck_assert_uint_eq(op.out.mr->length, n_bytes);
    return op.out.mr;
}

static struct ibv_qp_init_attr qp_init(struct ibv_cq *cq)
{
    return (struct ibv_qp_init_attr){.send_cq = cq,
                                     .recv_cq = cq,
                                     .cap = {.max_send_wr = 16,
                                             .max_recv_wr = 16,
                                             .max_send_sge = 1,
                                             .max_recv_sge = 1},
                                     .qp_type = IBV_QPT_RC};
}

struct ibv_qp *conformance_qp(int host, struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct io_op op = {.kind = IO_OP_CREATE_QP};
    op.arg.create_qp.pd = pd;
    op.arg.create_qp.init = qp_init(cq);
    ck_assert_int_eq(conformance_op(host, &op), 0);
    ck_assert_uint_ge(op.arg.create_qp.init.cap.max_send_wr, 16); /* granted caps */
    ck_assert_int_eq(op.out.qp->qp_type, IBV_QPT_RC);
    return op.out.qp;
}

static int modify(int host, struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    struct io_op op = {.kind = IO_OP_MODIFY_QP};
    op.arg.modify_qp.qp = qp;
    op.arg.modify_qp.attr = *attr;
    op.arg.modify_qp.mask = mask;
    return conformance_op(host, &op);
}

int conformance_to_init(int host, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
                                                  IBV_ACCESS_REMOTE_READ |
                                                  IBV_ACCESS_REMOTE_ATOMIC};
    return modify(host, qp, &attr,
                  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* Returns the index of the RoCE v2 GID of the host's IPv4 address on the cable. */
static uint32_t gid_index(int host)
{
    struct ibv_port_attr port;
    struct io_ip ip = io_ip_v4(10, 77, 0, (uint8_t)(host + 1));
    ck_assert_int_eq(device(host)->ops->query_port(device(host), 1, &port), 0);
    for (uint32_t i = 0; i < (uint32_t)port.gid_tbl_len; i++) {
        struct io_gid_entry entry;
        if (device(host)->ops->query_gid(device(host), 1, i, &entry) == 0 &&
            entry.type == IBV_GID_TYPE_ROCE_V2 &&
            memcmp(entry.gid.raw, ip.bytes, 16) == 0) {
            return i;
        }
    }
    ck_abort_msg("no RoCE v2 GID of 10.77.0.%d", host + 1);
    return 0;
}

int conformance_to_rtr(int host, struct ibv_qp *qp, uint32_t peer_qpn, struct io_ip peer)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = peer_qpn,
                               .rq_psn = PSN,
                               .max_dest_rd_atomic = 1,
                               .min_rnr_timer = 12};
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.sgid_index = (uint8_t)gid_index(host);
    attr.ah_attr.grh.hop_limit = 64;
    memcpy(attr.ah_attr.grh.dgid.raw, peer.bytes, 16);
    return modify(host, qp, &attr,
                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int conformance_to_rts(int host, struct ibv_qp *qp, uint8_t timeout)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .timeout = timeout,
                               .retry_cnt = 6,
                               .rnr_retry = 7,
                               .sq_psn = PSN,
                               .max_rd_atomic = 1};
    return modify(host, qp, &attr,
                  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

START_TEST(devices_tell_facts)
{
    for (int host = 0; host < 2; host++) {
        struct io_device *dev = device(host);
        struct io_device_attr attr;
        struct ibv_port_attr port;
        uint32_t ifindex;
        ck_assert_uint_eq(now_testing.env[host]->n_devices, 1);
        ck_assert_uint_eq(dev->n_ports, 1);
        ck_assert_int_eq(dev->ops->query_device(dev, &attr), 0);
        ck_assert_int_gt(attr.ibv.max_qp, 0);
        ck_assert_uint_gt(attr.max_msg_bytes, 0);
        ck_assert(attr.retry_cnt_max == 6 || attr.retry_cnt_max == 7);
        ck_assert_ptr_nonnull(attr.profile);
        ck_assert_int_eq(dev->ops->query_port(dev, 1, &port), 0);
        ck_assert_int_eq(port.state, IBV_PORT_ACTIVE);
        ck_assert_int_eq(port.active_mtu, IBV_MTU_4096);
        ck_assert_int_eq(dev->ops->query_port(dev, 0, &port), EINVAL);
        ck_assert_int_eq(dev->ops->query_port(dev, 2, &port), EINVAL);
        ck_assert_int_eq(dev->ops->port_netdev(dev, 1, &ifindex), 0);
        ck_assert_int_eq(dev->ops->port_netdev(dev, 2, &ifindex), EINVAL);
        const struct io_netdev *netdev = io_hostinfo_netdev(
            now_testing.env[host]->ops->hostinfo(now_testing.env[host]), ifindex);
        ck_assert_ptr_nonnull(netdev);
        ck_assert(!netdev->is_management);
        struct io_gid_entry entry;
        ck_assert_int_eq(dev->ops->query_gid(dev, 1, gid_index(host), &entry), 0);
        ck_assert_uint_eq(entry.ifindex, ifindex);
        ck_assert_uint_eq(entry.index, gid_index(host));
        uint32_t n = (uint32_t)port.gid_tbl_len;
        ck_assert_int_eq(dev->ops->query_gid(dev, 1, n - 1, &entry), ENODATA);
        ck_assert_int_eq(dev->ops->query_gid(dev, 1, n, &entry), EINVAL);
    }
    ck_assert_uint_ne(device(LEFT)->guid, device(RIGHT)->guid);
}
END_TEST

START_TEST(objects_are_made_used_and_unmade)
{
    void *memory;
    struct io_gpu *gpu = now_testing.env[LEFT]->gpu;
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_HOST, 8192, &memory), 0);
    struct ibv_pd *pd = conformance_pd(LEFT);
    struct ibv_cq *cq = conformance_cq(LEFT, 10);
    struct ibv_mr *mr = conformance_mr(LEFT, pd, memory, 8192);
    struct ibv_qp *qp = conformance_qp(LEFT, pd, cq);
    ck_assert_uint_ge(now_testing.n_woken[LEFT][TASK_OP], 1);

    struct io_op op = {.kind = IO_OP_DEALLOC_PD, .arg.dealloc_pd = pd};
    ck_assert_int_eq(conformance_op(LEFT, &op), EBUSY);
    op = (struct io_op){.kind = IO_OP_DESTROY_CQ, .arg.destroy_cq = cq};
    ck_assert_int_eq(conformance_op(LEFT, &op), EBUSY);
    op = (struct io_op){.kind = IO_OP_DESTROY_QP, .arg.destroy_qp = qp};
    ck_assert_int_eq(conformance_op(LEFT, &op), 0);
    op = (struct io_op){.kind = IO_OP_DESTROY_CQ, .arg.destroy_cq = cq};
    ck_assert_int_eq(conformance_op(LEFT, &op), 0);
    op = (struct io_op){.kind = IO_OP_DEREG_MR, .arg.dereg_mr = mr};
    ck_assert_int_eq(conformance_op(LEFT, &op), 0);
    op = (struct io_op){.kind = IO_OP_DEALLOC_PD, .arg.dealloc_pd = pd};
    ck_assert_int_eq(conformance_op(LEFT, &op), 0);
    op = (struct io_op){.kind = IO_OP_NONE};
    ck_assert_int_ne(device(LEFT)->ops->submit(device(LEFT), &op), 0);
    gpu->ops->free(gpu, memory);
}
END_TEST

START_TEST(what_is_abandoned_leaves_nothing)
{
    struct io_device *dev = device(LEFT);
    struct ibv_pd *pd = conformance_pd(LEFT);
    struct ibv_cq *cq = conformance_cq(LEFT, 10);
    struct io_op op = {.kind = IO_OP_CREATE_QP};
    op.arg.create_qp.pd = pd;
    op.arg.create_qp.init = qp_init(cq);
    ck_assert_int_eq(dev->ops->submit(dev, &op), 0);
    dev->ops->abandon(dev, &op);
    memset(&op, 0x5a, sizeof op); /* can be reused */
    struct io_op idle = {.kind = IO_OP_ALLOC_PD};
    dev->ops->abandon(dev, &idle);
    /* The abandoned QP is destroyed in the background; then its PD can be freed. */
    int error = EBUSY;
    for (int i = 0; error == EBUSY; i++) {
        op = (struct io_op){.kind = IO_OP_DEALLOC_PD, .arg.dealloc_pd = pd};
        error = conformance_op(LEFT, &op);
        ck_assert_int_lt(i, 1000);
    }
    ck_assert_int_eq(error, 0);
}
END_TEST

START_TEST(a_qp_keeps_to_its_states)
{
    struct ibv_pd *pd = conformance_pd(LEFT);
    struct ibv_cq *cq = conformance_cq(LEFT, 10);
    struct ibv_qp *qp = conformance_qp(LEFT, pd, cq);
    struct io_ip right = io_ip_v4(10, 77, 0, 2);
    ck_assert_int_eq(conformance_to_rts(LEFT, qp, CONFORMANCE_PATIENT), EINVAL);
    ck_assert_int_eq(conformance_to_rtr(LEFT, qp, 17, right), EINVAL);
    ck_assert_int_eq(conformance_to_init(LEFT, qp), 0);
    ck_assert_int_eq(conformance_to_rts(LEFT, qp, CONFORMANCE_PATIENT), EINVAL);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    ck_assert_int_eq(modify(LEFT, qp, &attr, IBV_QP_STATE),
                     EINVAL); /* attributes missing */
    ck_assert_int_eq(conformance_to_rtr(LEFT, qp, 17, right), 0);
    ck_assert_int_eq(conformance_to_rts(LEFT, qp, CONFORMANCE_PATIENT), 0);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_ERR};
    ck_assert_int_eq(modify(LEFT, qp, &attr, IBV_QP_STATE), 0);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET};
    ck_assert_int_eq(modify(LEFT, qp, &attr, IBV_QP_STATE), 0);
    ck_assert_int_eq(conformance_to_init(LEFT, qp), 0);
}
END_TEST

START_TEST(nobody_at_the_address)
{
    struct ibv_pd *pd = conformance_pd(LEFT);
    struct ibv_qp *qp = conformance_qp(LEFT, pd, conformance_cq(LEFT, 10));
    ck_assert_int_eq(conformance_to_init(LEFT, qp), 0);
    int error = conformance_to_rtr(LEFT, qp, 17, io_ip_v4(10, 77, 0, 99));
    ck_assert_msg(error == ETIMEDOUT || error == EHOSTUNREACH, "errno %d", error);
    /* A failed call changes nothing: the right address still works. */
    ck_assert_int_eq(conformance_to_rtr(LEFT, qp, 17, io_ip_v4(10, 77, 0, 2)), 0);
}
END_TEST

START_TEST(an_abandoned_resolution_ends_quietly)
{
    struct io_device *dev = device(LEFT);
    struct ibv_pd *pd = conformance_pd(LEFT);
    struct ibv_qp *qp = conformance_qp(LEFT, pd, conformance_cq(LEFT, 10));
    ck_assert_int_eq(conformance_to_init(LEFT, qp), 0);
    struct io_op op = {.kind = IO_OP_MODIFY_QP,
                       .task = &now_testing.task[LEFT][TASK_OTHER]};
    op.arg.modify_qp.qp = qp;
    op.arg.modify_qp.attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_ERR};
    op.arg.modify_qp.mask = IBV_QP_STATE;
    ck_assert_int_eq(dev->ops->submit(dev, &op), 0);
    dev->ops->abandon(dev, &op);
    weft_ns later = io_now(now_testing.env[LEFT]) + 5 * (weft_ns)1000000000;
    while (conformance_step(later)) {
    }
    ck_assert_uint_eq(now_testing.n_woken[LEFT][TASK_OTHER], 0);
    struct io_op destroy = {.kind = IO_OP_DESTROY_QP, .arg.destroy_qp = qp};
    ck_assert_int_eq(conformance_op(LEFT, &destroy), 0);
}
END_TEST

START_TEST(cables_that_go_down_raise_events)
{
    struct io_device *dev = device(LEFT);
    struct io_async_event event;
    dev->async_task = &now_testing.task[LEFT][TASK_OTHER];
    ck_assert_int_eq(dev->ops->async_event(dev, &event), EAGAIN);
    struct world_fault fault = {.kind = WORLD_FAULT_DOWN, .host = LEFT, .has_port = true};
    int error = now_testing.world->ops->inject(now_testing.world, &fault);
    if (error == EOPNOTSUPP) {
        return;
    }
    ck_assert_int_eq(error, 0);
    WAIT_FOR(now_testing.n_woken[LEFT][TASK_OTHER] > 0);
    ck_assert_int_eq(dev->ops->async_event(dev, &event), 0);
    ck_assert_int_eq(event.type, IBV_EVENT_PORT_ERR);
    ck_assert_uint_eq(event.port, 1);
    struct ibv_port_attr port;
    ck_assert_int_eq(dev->ops->query_port(dev, 1, &port), 0);
    ck_assert_int_ne(port.state, IBV_PORT_ACTIVE);
    fault.kind = WORLD_FAULT_UP;
    ck_assert_int_eq(now_testing.world->ops->inject(now_testing.world, &fault), 0);
    WAIT_FOR(dev->ops->async_event(dev, &event) == 0);
    ck_assert_int_eq(event.type, IBV_EVENT_PORT_ACTIVE);
}
END_TEST

TCase *conformance_objects(void)
{
    TCase *tcase = tcase_create("objects");
    tcase_add_test(tcase, devices_tell_facts);
    tcase_add_test(tcase, objects_are_made_used_and_unmade);
    tcase_add_test(tcase, what_is_abandoned_leaves_nothing);
    tcase_add_test(tcase, a_qp_keeps_to_its_states);
    tcase_add_test(tcase, nobody_at_the_address);
    tcase_add_test(tcase, an_abandoned_resolution_ends_quietly);
    tcase_add_test(tcase, cables_that_go_down_raise_events);
    return tcase;
}
