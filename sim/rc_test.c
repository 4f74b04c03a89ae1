#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/rc_testing.h"

START_TEST(write_with_imm_moves_bytes_and_completes_both_ends)
{
    struct rc_pair pair;
    rc_pair_init(&pair, NULL);
    rc_fill(&pair);
    ck_assert_int_eq(rc_post_recv(&pair, 1, 7, 0, 0), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 42, 0, 10000, 5000), 0);
    struct ibv_wc sent = rc_wait(&pair, 0);
    struct ibv_wc received = rc_wait(&pair, 1);
    ck_assert_int_eq(sent.status, IBV_WC_SUCCESS);
    ck_assert_int_eq(sent.opcode, IBV_WC_RDMA_WRITE);
    ck_assert_uint_eq(sent.wr_id, 42);
    ck_assert_int_eq(received.status, IBV_WC_SUCCESS);
    ck_assert_int_eq(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    ck_assert_uint_eq(received.wr_id, 7);
    ck_assert_uint_eq(received.byte_len, 10000);
    ck_assert_uint_eq(received.imm_data, 42);
    ck_assert_mem_eq(pair.ends[0].memory, pair.ends[1].memory + 5000, 10000);
    printf("%s", pair.story.bytes);
    rc_pair_fini(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rc");
    TCase *basic = tcase_create("basic");
    tcase_add_test(basic, write_with_imm_moves_bytes_and_completes_both_ends);
    suite_add_tcase(suite, basic);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
