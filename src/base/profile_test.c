#include "base/profile.h"

#include <check.h>

#include "base/suite_testing.h"

START_TEST(names_are_those_of_scenario_files)
{
    const char *names[WEFT_N_PROFILES] = {"mlx5", "hns-hip08",  "hns-hip09",
                                          "rxe",  "synth2port", "minimal"};
    for (int i = 0; i < WEFT_N_PROFILES; i++) {
        enum weft_profile profile = (enum weft_profile)i;
        ck_assert_str_eq(weft_profile_name(profile), names[i]);
        ck_assert_uint_eq(weft_profile_ports(profile),
                          profile == WEFT_PROFILE_SYNTH2PORT ? 2 : 1);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/profile");
    TCase *tcase = tcase_create("profile");

    tcase_add_test(tcase, names_are_those_of_scenario_files);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
