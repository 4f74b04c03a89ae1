#include "sim/profile.h"

#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"

START_TEST(profiles_are_found_by_name)
{
    for (int i = 0; i < WEFT_N_PROFILES; i++) {
        enum weft_profile id = (enum weft_profile)i;
        const struct sim_profile *profile = sim_profile_find(weft_profile_name(id));
        ck_assert_ptr_eq(profile, sim_profile(id));
        ck_assert_int_eq((int)profile->id, i);
        /* Minimums that all users rely on. */
        ck_assert_uint_ge(profile->gid_tbl_len, 2);
        ck_assert_uint_ge(profile->max_sge, 1);
        ck_assert_uint_gt(profile->window_packets, 0);
        ck_assert_uint_lt(profile->window_packets, 1u << 22);
        ck_assert_uint_gt(profile->ack_req_packets, 0);
        ck_assert_uint_le(profile->ack_req_packets, profile->window_packets);
    }
    ck_assert_ptr_null(sim_profile_find("mlx4"));
}
END_TEST

START_TEST(quirks_are_those_of_the_drivers)
{
    ck_assert_uint_eq(sim_profile_find("rxe")->mtu_overhead_bytes, 80);
    ck_assert_uint_eq(sim_profile_find("mlx5")->mtu_overhead_bytes, 96);
    ck_assert(sim_profile_find("rxe")->retry_cnt_7_is_endless);
    ck_assert(!sim_profile_find("mlx5")->retry_cnt_7_is_endless);
    ck_assert(sim_profile_find("hns-hip08")->flush_on_poll);
    ck_assert_uint_eq(sim_profile_find("hns-hip08")->min_rnr_timer_forced, 1);
    ck_assert(!sim_profile_find("hns-hip09")->has_sqd);
    ck_assert(!sim_profile_find("rxe")->has_roce_v1);
    ck_assert_uint_eq(sim_profile_find("minimal")->max_sge, 1);
}
END_TEST

static struct sim_profile changed(const char *field, const char *value)
{
    struct sim_profile profile = *sim_profile_find("mlx5");
    ck_assert_msg(sim_profile_override(&profile, field, value), "%s: %s", field, value);
    return profile;
}

START_TEST(fields_take_values_in_their_units)
{
    ck_assert_uint_eq(changed("max_qp", "12").max_qp, 12);
    ck_assert_uint_eq(changed("vendor_id", "0x19e5").vendor_id, 0x19e5);
    ck_assert_uint_eq(changed("max_inline", "0").max_inline_bytes, 0);
    ck_assert_uint_eq(changed("max_inline_bytes", "1KiB").max_inline_bytes, 1024);
    ck_assert_uint_eq(changed("max_mr_size", "4GiB").max_mr_size, 1ull << 32);
    ck_assert_int_eq(changed("create_qp", "40us").create_qp_ps, 40000000);
    ck_assert_int_eq(changed("tx_overhead_ps", "1ns").tx_overhead_ps, 1000);
    ck_assert(!changed("has_sqd", "false").has_sqd);
    ck_assert(changed("flush_on_poll", "true").flush_on_poll);
    ck_assert_int_eq(changed("dialect", "rxe").dialect, SIM_DIALECT_RXE);
    ck_assert_int_eq(changed("dialect", "ibta").dialect, SIM_DIALECT_IBTA);
    ck_assert_int_eq(changed("qpn_reuse", "cyclic").qpn_reuse, SIM_QPN_CYCLIC);
    ck_assert_int_eq(changed("qpn_reuse", "immediate").qpn_reuse, SIM_QPN_IMMEDIATE);
    ck_assert_uint_eq(changed("foreign_gids", "12").foreign_gids, 12);
    ck_assert_uint_eq(changed("first_qpn", "0x12300").first_qpn, 0x12300);
    ck_assert_uint_eq(changed("max_qp_rd_atom", "128").max_qp_rd_atom, 128);
    ck_assert_uint_eq(changed("max_qp_init_rd_atom", "128").max_qp_init_rd_atom, 128);
    ck_assert_uint_eq(changed("timeout_max", "31").timeout_max, 31);
}
END_TEST

START_TEST(what_does_not_suit_changes_nothing)
{
    static const char *const bad[][2] = {
        {"no_such", "1"},
        {"max_q", "1"},
        {"max_qp", ""},
        {"max_qp", "-1"},
        {"max_qp", "12x"},
        {"max_qp", "4294967296"},
        {"max_qp", "0x"},
        {"max_inline", "8GiB"},
        {"has_sqd", "maybe"},
        {"create_qp", "40"},
        {"create_qp", "-1us"},
        {"create_qp", "9223372036s"},
        {"dialect", "latin"},
        {"qpn_reuse", "never"},
        {"max_mr_size", "much"},
        {"max_mr_size", "99999999999999999999"},
        {"name", "x"},
        {"first_qpn", "0xf00000"},
        {"foreign_gids", "249"},
        {"max_qp_rd_atom", "129"},
        {"max_qp_init_rd_atom", "129"},
        {"timeout_max", "32"},
        {"max_qp_rd_atom", "4294967295"},
        {"timeout_max", "4294967295"},
    };
    struct sim_profile profile = *sim_profile_find("mlx5");
    struct sim_profile before = profile;
    for (size_t i = 0; i < WEFT_LENGTH(bad); i++) {
        ck_assert_msg(!sim_profile_override(&profile, bad[i][0], bad[i][1]), "%s: %s",
                      bad[i][0], bad[i][1]);
        ck_assert_mem_eq(&profile, &before, sizeof(profile));
    }
}
END_TEST

START_TEST(every_field_is_listed_once)
{
    unsigned n = 0;
    while (sim_profile_field(n) != NULL) {
        for (unsigned i = 0; i < n; i++) {
            ck_assert_str_ne(sim_profile_field(i), sim_profile_field(n));
        }
        n++;
    }
    ck_assert_uint_gt(n, 60);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("profile");
    TCase *all = tcase_create("all");
    tcase_add_test(all, profiles_are_found_by_name);
    tcase_add_test(all, quirks_are_those_of_the_drivers);
    tcase_add_test(all, fields_take_values_in_their_units);
    tcase_add_test(all, what_does_not_suit_changes_nothing);
    tcase_add_test(all, every_field_is_listed_once);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
