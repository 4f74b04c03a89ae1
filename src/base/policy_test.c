#include "base/policy.h"

#include <check.h>
#include <string.h>

#include "base/suite_testing.h"

START_TEST(names_are_those_of_scenario_files)
{
    const char *names[] = {"weft",
                           "nccl-2.25",
                           "nccl-2.30-subnet-aware",
                           "mesh-plugin-2026-01",
                           "mooncake-2026-06",
                           "nccl-2.29-port-recovery"};
    for (int i = 0; i < WEFT_N_POLICIES; i++) {
        enum weft_policy policy;
        ck_assert_str_eq(weft_policy_name((enum weft_policy)i), names[i]);
        ck_assert(weft_policy_parse(names[i], &policy));
        ck_assert_int_eq((int)policy, i);
        ck_assert_int_eq(weft_policy_is_nccl(policy), strncmp(names[i], "nccl-", 5) == 0);
    }
    enum weft_policy policy = WEFT_POLICY_NCCL_2_25;
    ck_assert(!weft_policy_parse("nccl", &policy));
    ck_assert_int_eq((int)policy, WEFT_POLICY_NCCL_2_25);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/policy");
    TCase *tcase = tcase_create("policy");

    tcase_add_test(tcase, names_are_those_of_scenario_files);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
