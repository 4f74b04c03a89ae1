/* A key that dies in the middle of a message: from then on not a byte lands. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sim/rc_testing.h"

enum { N_BYTES = 64 * 4096 };

static struct rc_pair pair;

/* Deregisters what is written to when about half has landed; the memory stays as it is. */
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
    ck_assert_uint_eq(then[N_BYTES - 4097], 0); /* there was more to come */
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_REM_ACCESS_ERR);
    ck_assert_mem_eq(there, then, N_BYTES);
    free(then);
    rc_pair_fini(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rc_key");
    TCase *key = tcase_create("key");
    tcase_add_test(key, nothing_lands_after_its_key);
    suite_add_tcase(suite, key);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
