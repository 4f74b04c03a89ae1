/* Operations that need no key, operations that need permission, and local faults that
 * wait for their turn. */
#include <check.h>

#include "base/suite_testing.h"
#include "sim/rc_testing.h"

START_TEST(zero_bytes_need_no_key)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                                 IBV_WR_SEND};
    struct rc_pair pair;
    rc_pair_init(&pair, NULL);
    pair.ends[1].mr->rkey ^= 1; /* used by rc_post */
    ck_assert_int_eq(rc_post_recv(&pair, 1, 5, 0, 0), 0);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(rc_post(&pair, 0, opcodes[i], i, 0, 0, 0), 0);
        struct ibv_wc wc = rc_wait(&pair, 0);
        ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
        ck_assert_uint_eq(wc.wr_id, i);
    }
    struct ibv_wc received = rc_wait(&pair, 1);
    ck_assert_uint_eq(received.byte_len, 0);
    pair.ends[1].mr->rkey ^= 1;
    rc_pair_fini(&pair);
}
END_TEST

/* An earlier WR that is still unacknowledged completes before the one that failed
 * locally. */
START_TEST(a_local_fault_waits_for_its_turn)
{
    struct rc_pair pair;
    rc_pair_init(&pair, NULL);
    struct ibv_sge sge = {(uintptr_t)pair.ends[0].memory, 100, pair.ends[0].mr->lkey};
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr = {.wr_id = 1,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED};
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 0, 0, 50000, 0), 0);
    sge.lkey ^= 1;
    wr.wr.rdma.remote_addr = (uintptr_t)pair.ends[1].memory;
    wr.wr.rdma.rkey = pair.ends[1].mr->rkey;
    ck_assert_int_eq(sim_nic_post_send(pair.ends[0].qp, &wr, &bad), 0);
    struct ibv_wc first = rc_wait(&pair, 0);
    struct ibv_wc second = rc_wait(&pair, 0);
    ck_assert_uint_eq(first.wr_id, 0);
    ck_assert_int_eq(first.status, IBV_WC_SUCCESS);
    ck_assert_uint_eq(second.wr_id, 1);
    ck_assert_int_eq(second.status, IBV_WC_LOC_PROT_ERR);
    rc_pair_fini(&pair);
}
END_TEST

START_TEST(reads_without_leave_fail)
{
    struct rc_pair pair;
    struct rc_options options = {.max_rd_atomic = RC_NONE};
    rc_pair_init(&pair, &options);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_READ, 1, 0, 100, 0), 0);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_LOC_QP_OP_ERR);
    rc_pair_fini(&pair);
}
END_TEST

START_TEST(more_reads_than_the_peer_takes_are_invalid)
{
    struct rc_pair pair;
    struct rc_options options = {.max_dest_rd_atomic = 2, .max_rd_atomic = 8};
    rc_pair_init(&pair, &options);
    for (unsigned i = 0; i < 8; i++) {
        ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_READ, i, 0, 100000, 0), 0);
    }
    rc_run(&pair, RC_PS_PER_S);
    ck_assert(rc_told(&pair, "refuse syndrome=97"));
    ck_assert(rc_told(&pair, "status=REM_INV_REQ_ERR"));
    rc_pair_fini(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rc_leave");
    TCase *all = tcase_create("all");
    tcase_add_test(all, zero_bytes_need_no_key);
    tcase_add_test(all, a_local_fault_waits_for_its_turn);
    tcase_add_test(all, reads_without_leave_fail);
    tcase_add_test(all, more_reads_than_the_peer_takes_are_invalid);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
