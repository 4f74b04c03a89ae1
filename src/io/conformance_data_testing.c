/* Tests of io/verbs.h: two hosts transfer data. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "io/conformance_testing.h"
#include "io/gpu.h"
#include "io/verbs.h"

#define N_BYTES 20000   /* several packets, not a multiple of the MTU */
#define IMM 0xcafe1234u /* delivered unchanged */

static struct end {
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint32_t rkey;
    uint8_t *memory; /* [N_BYTES] */
} ends[2];

static const struct io_device_ops *ops[2]; /* a world can have two kinds of devices */

static void connect_with(uint8_t timeout)
{
    for (int i = 0; i < 2; i++) {
        struct io_gpu *gpu = now_testing.env[i]->gpu;
        void *memory;
        ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_HOST, N_BYTES, &memory), 0);
        ends[i].memory = memory;
        ends[i].pd = conformance_pd(i);
        ends[i].cq = conformance_cq(i, 64);
        ends[i].qp = conformance_qp(i, ends[i].pd, ends[i].cq);
        ends[i].mr = conformance_mr(i, ends[i].pd, memory, N_BYTES);
        ends[i].rkey = ends[i].mr->rkey;
    }
    for (int i = 0; i < 2; i++) {
        ops[i] = now_testing.env[i]->devices[0]->ops;
    }
    for (int i = 0; i < 2; i++) {
        struct io_ip peer = io_ip_v4(10, 77, 0, (uint8_t)(2 - i));
        ck_assert_int_eq(conformance_to_init(i, ends[i].qp), 0);
        ck_assert_int_eq(conformance_to_rtr(i, ends[i].qp, ends[1 - i].qp->qp_num, peer),
                         0);
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(conformance_to_rts(i, ends[i].qp, timeout), 0);
    }
    for (int i = 0; i < N_BYTES; i++) {
        ends[LEFT].memory[i] = (uint8_t)(i * 13 >> 3);
    }
}

static void connect_qps(void)
{
    connect_with(CONFORMANCE_PATIENT);
}

static void post_recv(int host, uint64_t wr_id, size_t n_bytes)
{
    struct ibv_sge sge = {.addr = (uintptr_t)ends[host].memory,
                          .length = (uint32_t)n_bytes,
                          .lkey = ends[host].mr->lkey};
    struct ibv_recv_wr wr = {
        .wr_id = wr_id, .sg_list = &sge, .num_sge = n_bytes > 0 ? 1 : 0};
    struct ibv_recv_wr *bad = NULL;
    ck_assert_int_eq(ops[host]->post_recv(ends[host].qp, &wr, &bad), 0);
}

static void post_send(uint64_t wr_id, enum ibv_wr_opcode opcode, size_t n_bytes)
{
    struct ibv_sge sge = {.addr = (uintptr_t)ends[LEFT].memory,
                          .length = (uint32_t)n_bytes,
                          .lkey = ends[LEFT].mr->lkey};
    struct ibv_send_wr wr = {.wr_id = wr_id,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED,
                             .imm_data = IMM};
    wr.wr.rdma.remote_addr = (uintptr_t)ends[RIGHT].memory;
    wr.wr.rdma.rkey = ends[RIGHT].rkey;
    struct ibv_send_wr *bad = NULL;
    ck_assert_int_eq(ops[LEFT]->post_send(ends[LEFT].qp, &wr, &bad), 0);
}

static struct ibv_wc completion(int host)
{
    struct ibv_wc wc;
    int n = 0;
    WAIT_FOR(ops[host]->poll_cq(ends[host].cq, 1, &wc, &n) == 0 && n == 1);
    return wc;
}

static void expect_completion(int host, uint64_t wr_id, enum ibv_wc_opcode opcode)
{
    struct ibv_wc wc = completion(host);
    ck_assert_msg(wc.status == IBV_WC_SUCCESS, "%s", io_wc_status_name((int)wc.status));
    ck_assert_uint_eq(wc.wr_id, wr_id);
    ck_assert_int_eq(wc.opcode, opcode);
    ck_assert_uint_eq(wc.qp_num, ends[host].qp->qp_num);
    if (opcode == IBV_WC_RECV || opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        ck_assert_uint_eq(wc.byte_len, N_BYTES);
    }
    if (opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        ck_assert(wc.wc_flags & IBV_WC_WITH_IMM);
        ck_assert_uint_eq(wc.imm_data, IMM);
    }
}

static bool is_empty(int host)
{
    struct ibv_wc wc;
    int n = -1;
    ck_assert_int_eq(ops[host]->poll_cq(ends[host].cq, 1, &wc, &n), 0);
    return n == 0;
}

START_TEST(a_write_with_immediate)
{
    connect_qps();
    ck_assert(is_empty(LEFT) && is_empty(RIGHT));
    post_recv(RIGHT, 100, 0);
    post_send(7, IBV_WR_RDMA_WRITE_WITH_IMM, N_BYTES);
    expect_completion(RIGHT, 100, IBV_WC_RECV_RDMA_WITH_IMM);
    ck_assert_mem_eq(ends[RIGHT].memory, ends[LEFT].memory, N_BYTES);
    expect_completion(LEFT, 7, IBV_WC_RDMA_WRITE);
    ck_assert(is_empty(LEFT) && is_empty(RIGHT));
}
END_TEST

START_TEST(a_send)
{
    connect_qps();
    post_recv(RIGHT, 100, N_BYTES);
    post_send(7, IBV_WR_SEND, N_BYTES);
    expect_completion(RIGHT, 100, IBV_WC_RECV);
    ck_assert_mem_eq(ends[RIGHT].memory, ends[LEFT].memory, N_BYTES);
    expect_completion(LEFT, 7, IBV_WC_SEND);
}
END_TEST

START_TEST(a_write_and_a_read_back)
{
    static uint8_t before[N_BYTES];
    connect_qps();
    memcpy(before, ends[LEFT].memory, N_BYTES);
    post_send(1, IBV_WR_RDMA_WRITE, N_BYTES);
    expect_completion(LEFT, 1, IBV_WC_RDMA_WRITE);
    memset(ends[LEFT].memory, 0, N_BYTES);
    post_send(2, IBV_WR_RDMA_READ, N_BYTES);
    expect_completion(LEFT, 2, IBV_WC_RDMA_READ);
    ck_assert_mem_eq(ends[LEFT].memory, before, N_BYTES);
    ck_assert(is_empty(RIGHT)); /* no completion there */
}
END_TEST

static bool has_atomics(void)
{
    struct io_device *device = now_testing.env[LEFT]->devices[0];
    struct io_device_attr attr;
    ck_assert_int_eq(device->ops->query_device(device, &attr), 0);
    return attr.ibv.atomic_cap != IBV_ATOMIC_NONE;
}

/* Executes an atomic on the 64-bit word at offset 8 of the right end, and returns its old value,
 * which is written to the start of the left end's memory. */
static uint64_t atomic(enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)ends[LEFT].memory, .length = 8, .lkey = ends[LEFT].mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 9,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad = NULL;
    uint64_t old;
    wr.wr.atomic.remote_addr = (uintptr_t)ends[RIGHT].memory + 8;
    wr.wr.atomic.compare_add = compare_add;
    wr.wr.atomic.swap = swap;
    wr.wr.atomic.rkey = ends[RIGHT].rkey;
    if (!has_atomics()) {
        ck_assert_int_eq(ops[LEFT]->post_send(ends[LEFT].qp, &wr, &bad), EINVAL);
        return 0;
    }
    ck_assert_int_eq(ops[LEFT]->post_send(ends[LEFT].qp, &wr, &bad), 0);
    expect_completion(LEFT, 9,
                      opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? IBV_WC_COMP_SWAP
                                                          : IBV_WC_FETCH_ADD);
    memcpy(&old, ends[LEFT].memory, sizeof(old));
    return old;
}

START_TEST(atomics_tell_the_old_value)
{
    const uint64_t first = 0x0102030405060708;
    uint64_t now;
    connect_qps();
    memset(ends[RIGHT].memory, 0, 24);
    memcpy(ends[RIGHT].memory + 8, &first, sizeof(first));
    if (!has_atomics()) {
        ck_assert_uint_eq(atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0), 0);
        ck_assert(is_empty(LEFT) && is_empty(RIGHT));
        return;
    }
    ck_assert_uint_eq(atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0), first);
    ck_assert_uint_eq(atomic(IBV_WR_ATOMIC_CMP_AND_SWP, first, 7),
                      first + 2); /* not equal: no swap */
    ck_assert_uint_eq(atomic(IBV_WR_ATOMIC_CMP_AND_SWP, first + 2, 7), first + 2);
    ck_assert_uint_eq(atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, UINT64_MAX, 0), 7);
    memcpy(&now, ends[RIGHT].memory + 8, sizeof(now));
    ck_assert_uint_eq(now, 6);
    memcpy(&now, ends[RIGHT].memory + 16, sizeof(now));
    ck_assert_uint_eq(now, 0);
    ck_assert(is_empty(RIGHT));
}
END_TEST

START_TEST(work_completes_in_the_order_posted)
{
    connect_qps();
    for (uint64_t i = 0; i < 8; i++) {
        post_recv(RIGHT, 100 + i, 0);
    }
    for (uint64_t i = 0; i < 8; i++) {
        post_send(i, IBV_WR_RDMA_WRITE_WITH_IMM, N_BYTES);
    }
    for (uint64_t i = 0; i < 8; i++) {
        expect_completion(LEFT, i, IBV_WC_RDMA_WRITE);
        expect_completion(RIGHT, 100 + i, IBV_WC_RECV_RDMA_WITH_IMM);
    }
}
END_TEST

START_TEST(an_armed_cq_wakes_once)
{
    connect_qps();
    unsigned *n_woken = &now_testing.n_woken[RIGHT][TASK_CQ];
    /* A completion does not wake the task if the CQ is not armed. */
    post_recv(RIGHT, 1, 0);
    post_send(1, IBV_WR_RDMA_WRITE_WITH_IMM, N_BYTES);
    expect_completion(LEFT, 1, IBV_WC_RDMA_WRITE);
    expect_completion(RIGHT, 1, IBV_WC_RECV_RDMA_WITH_IMM);
    ck_assert_uint_eq(*n_woken, 0);
    /* After arming, the next completion wakes the task; the one after it does not. */
    ck_assert_int_eq(ops[RIGHT]->req_notify(ends[RIGHT].cq, 0), 0);
    ck_assert(is_empty(RIGHT));
    post_recv(RIGHT, 2, 0);
    post_send(2, IBV_WR_RDMA_WRITE_WITH_IMM, N_BYTES);
    WAIT_FOR(*n_woken == 1);
    expect_completion(RIGHT, 2, IBV_WC_RECV_RDMA_WITH_IMM);
    expect_completion(LEFT, 2, IBV_WC_RDMA_WRITE);
    post_recv(RIGHT, 3, 0);
    post_send(3, IBV_WR_RDMA_WRITE_WITH_IMM, N_BYTES);
    expect_completion(LEFT, 3, IBV_WC_RDMA_WRITE);
    expect_completion(RIGHT, 3, IBV_WC_RECV_RDMA_WITH_IMM);
    ck_assert_uint_eq(*n_woken, 1);
}
END_TEST

START_TEST(a_receive_may_come_late)
{
    connect_qps();
    post_send(1, IBV_WR_SEND, N_BYTES);
    weft_ns later = io_now(now_testing.env[LEFT]) + 2000000;
    while (conformance_step(later)) {
    }
    /* Receiver not ready; retried indefinitely with rnr_retry 7. */
    ck_assert(is_empty(LEFT));
    post_recv(RIGHT, 1, N_BYTES);
    expect_completion(LEFT, 1, IBV_WC_SEND);
    expect_completion(RIGHT, 1, IBV_WC_RECV);
}
END_TEST

START_TEST(a_wrong_key_breaks_the_connection)
{
    connect_qps();
    struct ibv_sge sge = {
        .addr = (uintptr_t)ends[LEFT].memory, .length = 8, .lkey = ends[LEFT].mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 5,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED};
    wr.wr.rdma.remote_addr = (uintptr_t)ends[RIGHT].memory;
    wr.wr.rdma.rkey = ends[RIGHT].rkey ^ 0x5a5a;
    struct ibv_send_wr *bad = NULL;
    ck_assert_int_eq(ops[LEFT]->post_send(ends[LEFT].qp, &wr, &bad), 0);
    struct ibv_wc wc = completion(LEFT);
    ck_assert_uint_eq(wc.wr_id, 5);
    ck_assert_int_eq(wc.status, IBV_WC_REM_ACCESS_ERR);
    /* The QP is in ERR: what is posted now is flushed. */
    post_send(6, IBV_WR_RDMA_WRITE, 8);
    wc = completion(LEFT);
    ck_assert_uint_eq(wc.wr_id, 6);
    ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
}
END_TEST

START_TEST(a_dead_peer_is_noticed)
{
    connect_with(CONFORMANCE_QUICK);
    struct world_fault fault = {.kind = WORLD_FAULT_KILL, .host = RIGHT};
    int error = now_testing.world->ops->inject(now_testing.world, &fault);
    if (error == EOPNOTSUPP) {
        return;
    }
    post_send(1, IBV_WR_RDMA_WRITE, N_BYTES);
    struct ibv_wc wc = completion(LEFT);
    ck_assert_int_eq(wc.status, IBV_WC_RETRY_EXC_ERR);
}
END_TEST

START_TEST(cables_count_what_they_carried)
{
    struct world_cable_stats stats;
    connect_qps();
    post_send(1, IBV_WR_RDMA_WRITE, N_BYTES);
    expect_completion(LEFT, 1, IBV_WC_RDMA_WRITE);
    now_testing.world->ops->cable_stats(now_testing.world, 0, &stats);
    ck_assert_uint_gt(stats.bytes[0], N_BYTES);
    ck_assert_uint_ge(stats.packets[0], N_BYTES / 1024);
    ck_assert_uint_gt(stats.packets[1], 0);
    ck_assert_uint_lt(stats.bytes[1], N_BYTES);
}
END_TEST

TCase *conformance_data(void)
{
    TCase *tcase = tcase_create("data");
    tcase_add_test(tcase, a_write_with_immediate);
    tcase_add_test(tcase, a_send);
    tcase_add_test(tcase, a_write_and_a_read_back);
    tcase_add_test(tcase, atomics_tell_the_old_value);
    tcase_add_test(tcase, work_completes_in_the_order_posted);
    tcase_add_test(tcase, an_armed_cq_wakes_once);
    tcase_add_test(tcase, a_receive_may_come_late);
    tcase_add_test(tcase, a_wrong_key_breaks_the_connection);
    tcase_add_test(tcase, a_dead_peer_is_noticed);
    tcase_add_test(tcase, cables_count_what_they_carried);
    return tcase;
}
