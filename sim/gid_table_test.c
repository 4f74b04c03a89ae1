#include <check.h>
#include <errno.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/gid_table.h"
#include "sim/stack_testing.h"

#define MAC 0x020000000001ull
#define IFINDEX 7

static struct sim_gid_table table;

static void start(void)
{
    sim_gid_table_init(&table, 8, true, 0, IFINDEX, MAC);
}

static void stop(void)
{
    sim_gid_table_fini(&table);
}

static int add(const char *text)
{
    struct sim_ip ip = net_ip(text);
    uint32_t n;
    return sim_gid_table_add(&table, &ip, IFINDEX, &n);
}

static uint32_t del(const char *text)
{
    struct sim_ip ip = net_ip(text);
    return sim_gid_table_del(&table, &ip, IFINDEX);
}

/* Returns the contents of a slot: "ADDRESS/v1", or "-" if it is empty. */
static const char *slot(uint32_t index)
{
    static char text[64];
    char ip[SIM_IP_TEXT_BYTES];
    const struct sim_gid_slot *found;
    int error = sim_gid_table_get(&table, index, &found);
    if (error != 0) {
        return error == ENODATA ? "-" : "beyond";
    }
    ck_assert_uint_eq(found->ifindex, IFINDEX);
    weft_format(text, sizeof text, "%s/v%d", sim_ip_format(&found->ip, ip),
                found->type == IBV_GID_TYPE_ROCE_V1 ? 1 : 2);
    return text;
}

START_TEST(a_container_finds_its_own_behind_those_of_others)
{
    stop();
    sim_gid_table_init(&table, 8, true, 4, IFINDEX, MAC);
    ck_assert_int_eq(add("10.0.0.1"), 0);
    ck_assert_str_eq(slot(0), "beyond");
    ck_assert_str_eq(slot(3), "beyond");
    ck_assert_str_eq(slot(4), "fe80:0:0:0:0:ff:fe00:1/v1");
    ck_assert_str_eq(slot(7), "10.0.0.1/v2");
    ck_assert_int_eq(add("10.0.0.2"), ENOSPC);
    ck_assert_uint_eq(del("10.0.0.1"), 2);
    ck_assert_uint_eq(sim_gid_table_drop(&table, IFINDEX, true), 2);
    ck_assert_uint_eq(sim_gid_table_set_default(&table, IFINDEX, MAC), 2);
    ck_assert_str_eq(slot(5), "fe80:0:0:0:0:ff:fe00:1/v2");
    ck_assert_str_eq(slot(0), "beyond");
}
END_TEST

START_TEST(first_ipv4_is_index_3_on_mlx5)
{
    ck_assert_int_eq(add("10.0.0.1"), 0);
    ck_assert_str_eq(slot(0), "fe80:0:0:0:0:ff:fe00:1/v1");
    ck_assert_str_eq(slot(1), "fe80:0:0:0:0:ff:fe00:1/v2");
    ck_assert_str_eq(slot(2), "10.0.0.1/v1");
    ck_assert_str_eq(slot(3), "10.0.0.1/v2");
    ck_assert_str_eq(slot(4), "-");
    ck_assert_str_eq(slot(8), "beyond");
    struct sim_ip ip = net_ip("10.0.0.1"), other = net_ip("10.0.0.2");
    ck_assert(sim_gid_table_has(&table, &ip, IFINDEX));
    ck_assert(!sim_gid_table_has(&table, &other, IFINDEX));
}
END_TEST

START_TEST(first_ipv4_is_index_1_on_rxe)
{
    stop();
    sim_gid_table_init(&table, 8, false, 0, IFINDEX, MAC);
    ck_assert_int_eq(add("10.0.0.1"), 0);
    ck_assert_str_eq(slot(0), "fe80:0:0:0:0:ff:fe00:1/v2");
    ck_assert_str_eq(slot(1), "10.0.0.1/v2");
    ck_assert_str_eq(slot(2), "-");
}
END_TEST

START_TEST(holes_are_refilled_so_that_indices_drift)
{
    ck_assert_int_eq(add("10.0.0.1"), 0);
    ck_assert_int_eq(add("10.0.0.2"), 0);
    ck_assert_uint_eq(del("10.0.0.1"), 2);
    ck_assert_str_eq(slot(2), "-");
    ck_assert_str_eq(slot(5), "10.0.0.2/v2");
    ck_assert_uint_eq(del("10.0.0.1"), 0);
    ck_assert_int_eq(add("10.0.0.3"), 0);
    ck_assert_str_eq(slot(2), "10.0.0.3/v1");
    ck_assert_str_eq(slot(3), "10.0.0.3/v2");
}
END_TEST

START_TEST(slots_in_use_are_not_refilled)
{
    ck_assert_int_eq(add("10.0.0.1"), 0);
    sim_gid_table_hold(&table, 3);
    sim_gid_table_hold(&table, 3);
    sim_gid_table_hold(&table, 6);  /* empty: ignored */
    sim_gid_table_hold(&table, 99); /* beyond the table: ignored */
    ck_assert_uint_eq(del("10.0.0.1"), 2);
    ck_assert_str_eq(slot(3), "-");
    /* added again, in other slots, because slot 3 is pending */
    ck_assert_int_eq(add("10.0.0.1"), 0);
    ck_assert_str_eq(slot(2), "10.0.0.1/v1");
    ck_assert_str_eq(slot(3), "-");
    ck_assert_str_eq(slot(4), "10.0.0.1/v2");

    sim_gid_table_release(&table, 3);
    ck_assert_int_eq(add("10.0.0.2"), 0);
    ck_assert_str_eq(slot(3), "-"); /* one user left */
    sim_gid_table_release(&table, 3);
    sim_gid_table_release(&table, 3); /* released too often: ignored */
    sim_gid_table_release(&table, 99);
    ck_assert_uint_eq(del("10.0.0.2"), 2);
    ck_assert_int_eq(add("10.0.0.3"), 0);
    ck_assert_str_eq(slot(3), "10.0.0.3/v1");
}
END_TEST

START_TEST(full_and_duplicate)
{
    ck_assert_int_eq(add("10.0.0.1"), 0);
    ck_assert_int_eq(add("10.0.0.1"), EEXIST);
    ck_assert_int_eq(add("10.0.0.2"), 0);
    ck_assert_int_eq(add("10.0.0.3"), 0);
    ck_assert_int_eq(add("10.0.0.4"), ENOSPC);
    struct sim_ip link_local = sim_ip_of_mac(MAC);
    uint32_t n;
    ck_assert_int_eq(sim_gid_table_add(&table, &link_local, IFINDEX, &n), EEXIST);
    ck_assert_uint_eq(n, 0);
    ck_assert_uint_eq(sim_gid_table_del(&table, &link_local, IFINDEX), 0);
    ck_assert_str_eq(slot(1), "fe80:0:0:0:0:ff:fe00:1/v2");
    ck_assert_uint_eq(sim_mac_of_ip(&link_local), MAC);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim/gid_table");
    TCase *tcase = tcase_create("gid_table");
    tcase_add_checked_fixture(tcase, start, stop);
    tcase_add_test(tcase, first_ipv4_is_index_3_on_mlx5);
    tcase_add_test(tcase, a_container_finds_its_own_behind_those_of_others);
    tcase_add_test(tcase, first_ipv4_is_index_1_on_rxe);
    tcase_add_test(tcase, holes_are_refilled_so_that_indices_drift);
    tcase_add_test(tcase, slots_in_use_are_not_refilled);
    tcase_add_test(tcase, full_and_duplicate);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
