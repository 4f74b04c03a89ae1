/* A key that is invalidated in the middle of a message: no byte lands after that. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/suite_testing.h"
#include "sim/nic_objects.h"
#include "sim/rc_testing.h"

enum { N_BYTES = 64 * 4096 };

static struct rc_pair pair;

/* Deregisters the target of a WRITE when about half has landed; the memory must not
 * change any more. */
START_TEST(nothing_lands_after_its_key)
{
    struct rc_options options = {.path_mtu = IBV_MTU_4096,
                                 .overrides = {{"dereg_mr", "1us"}}};
    rc_pair_init(&pair, &options);
    uint8_t *there = pair.ends[1].memory;
    memset(pair.ends[0].memory, 7, N_BYTES);
    memset(there, 0, N_BYTES);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, N_BYTES, 0), 0);
    while (there[N_BYTES / 2] == 0) {
        ck_assert(sim_step(pair.engine, SIM_NEVER));
    }
    struct sim_request dereg = {.verb = SIM_VERB_DEREG_MR, .arg.mr = pair.ends[1].mr};
    ck_assert_int_eq(sim_nic_submit(pair.ends[1].nic, &dereg), 0);
    while (!dereg.is_done) {
        ck_assert(sim_step(pair.engine, SIM_NEVER));
    }
    pair.ends[1].mr = NULL;
    uint8_t *then = malloc(N_BYTES);
    memcpy(then, there, N_BYTES);
    ck_assert_uint_eq(then[N_BYTES - 4097], 0); /* the WRITE was not complete */
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_REM_ACCESS_ERR);
    ck_assert_mem_eq(there, then, N_BYTES);
    free(then);
    rc_pair_fini(&pair);
}
END_TEST

static enum ibv_wc_status write_64(uint32_t lkey, uint32_t rkey)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)pair.ends[0].memory, .length = 64, .lkey = lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)pair.ends[1].memory;
    wr.wr.rdma.rkey = rkey;
    ck_assert_int_eq(sim_nic_post_send(pair.ends[0].qp, &wr, &bad), 0);
    return rc_wait(&pair, 0).status;
}

/* Queue pairs cache what a key last allowed, at the sender (0) and at the receiver
 * (1). */
START_TEST(what_a_key_allowed_dies_with_it)
{
    struct rc_options options = {.path_mtu = IBV_MTU_4096};
    rc_pair_init(&pair, &options);
    uint32_t lkey = pair.ends[0].mr->lkey, rkey = pair.ends[1].mr->rkey;
    for (unsigned end = 0; end < 2; end++) {
        /* nothing is cached otherwise */
        sim_nic_check_payloads(pair.ends[end].nic, false);
    }
    memset(pair.ends[0].memory, 7, 64);
    ck_assert_int_eq(write_64(lkey, rkey), IBV_WC_SUCCESS);
    ck_assert_int_eq(write_64(lkey, rkey), IBV_WC_SUCCESS);
    struct sim_request dereg = {.verb = SIM_VERB_DEREG_MR, .arg.mr = pair.ends[_i].mr};
    ck_assert_int_eq(rc_verb(&pair, (unsigned)_i, &dereg), 0);
    pair.ends[_i].mr = NULL;
    memset(pair.ends[0].memory, 9, 64);
    ck_assert_int_eq(write_64(lkey, rkey),
                     _i == 0 ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_ACCESS_ERR);
    for (int i = 0; i < 64; i++) {
        ck_assert_uint_eq(pair.ends[1].memory[i], 7);
    }
    rc_pair_fini(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rc_key");
    TCase *key = tcase_create("key");
    tcase_add_test(key, nothing_lands_after_its_key);
    tcase_add_loop_test(key, what_a_key_allowed_dies_with_it, 0, 2);
    suite_add_tcase(suite, key);
    return suite_run(suite);
}
