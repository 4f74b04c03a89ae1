/* Tests of Mooncake's choices (June 2026) for hand-written ports. */
#include <check.h>

#include "base/suite_testing.h"
#include "nccl/policies.h"
#include "rdma/policy_testing.h"

#define MOONCAKE WEFT_POLICY_MOONCAKE_2026_06

/* Returns the GID chosen if slots 0 to 3 hold fe80:: (v1, v2) and `prefix` (v1, v2). */
static uint32_t taken(const char *prefix)
{
    struct rdma_port_facts port = mlx5_port("p0", 0, prefix);

    return mooncake_gid(&port, -1);
}

START_TEST(private_addresses_lose_to_the_lowest_slot)
{
    static const struct {
        const char *prefix;
        uint32_t slot;
    } cases[] = {
        {NULL, 1},
        {"10.0.0.1/24", 1},
        {"10.255.255.254/24", 1},
        {"11.0.0.1/24", 3},
        {"9.255.255.254/24", 3},
        {"172.15.255.1/24", 3},
        {"172.16.0.1/24", 1},
        {"172.31.255.1/24", 1},
        {"172.32.0.1/24", 3},
        {"100.63.255.1/24", 3},
        {"100.64.0.1/24", 1},
        {"100.127.255.1/24", 1},
        {"100.128.0.1/24", 3},
        {"192.168.0.1/24", 3},
        {"169.254.0.1/16", 3}, /* neither fe80:: nor in its list */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_msg(taken(cases[i].prefix) == cases[i].slot, "%s",
                      cases[i].prefix == NULL ? "no address" : cases[i].prefix);
    }
}
END_TEST

START_TEST(a_class_comes_before_a_slot)
{
    struct rdma_port_facts port = make_port("p0", 0);

    ck_assert_uint_eq(mooncake_gid(&port, -1), UINT32_MAX);
    add_gid(&port, 0, "192.168.0.1/24", V1);
    ck_assert_uint_eq(mooncake_gid(&port, -1), 0);
    add_gid(&port, 2, "10.0.0.1/24", V2);
    ck_assert_uint_eq(mooncake_gid(&port, -1), 1);
    /* Its slot is lower, although it is later in the facts. */
    add_gid(&port, 1, "fe80::1/64", V2);
    ck_assert_uint_eq(mooncake_gid(&port, -1), 2);
    add_gid(&port, 5, "fd00::1/64", V2);
    ck_assert_uint_eq(mooncake_gid(&port, -1), 3);
    /* A fixed index is used as it is, even if its slot is empty. */
    ck_assert_uint_eq(mooncake_gid(&port, 0), 0);
    ck_assert_uint_eq(mooncake_gid(&port, 2), 1);
    ck_assert_uint_eq(mooncake_gid(&port, 4), UINT32_MAX);
}
END_TEST

START_TEST(an_empty_slot_is_nothing)
{
    struct rdma_port_facts port = make_port("p0", 0);

    add_gid(&port, 0, "::/0", V2);
    ck_assert_uint_eq(mooncake_gid(&port, -1), UINT32_MAX);
}
END_TEST

START_TEST(either_end_takes_its_nics_in_turn)
{
    struct rdma_port_facts local[] = {mlx5_port("p0", 0, "10.0.0.1/24"),
                                      mlx5_port("p1", 1, "192.168.1.1/24")};
    struct rdma_port_facts remote[] = {mlx5_port("p0", 0, "192.168.1.2/24"),
                                       mlx5_port("p1", 1, "10.0.0.2/24"),
                                       mlx5_port("p2", 2, "10.0.2.2/24")};
    struct choice choice;

    remote[0].active_mtu = 1024;
    choice = choose(MOONCAKE, local, 2, remote, 3, 0, true);
    ck_assert_uint_eq(choice.n, 1);
    /* Its own MTU, regardless of the other's. */
    expect_rail(&choice, 0, 0, 0, 1, 3, 4096);
    choice = choose(MOONCAKE, remote, 3, local, 2, 0, false);
    expect_rail(&choice, 0, 0, 0, 3, 1, 1024);
    choice = choose(MOONCAKE, local, 2, remote, 3, 5, true);
    expect_rail(&choice, 0, 1, 2, 3, 1, 4096);
    /* A NIC is left out if it is down or has no GID. */
    local[0].is_active = false;
    choice = choose(MOONCAKE, local, 2, remote, 3, 0, true);
    expect_rail(&choice, 0, 1, 0, 3, 3, 4096);
    local[1].n_gids = 0;
    ck_assert_int_eq(choose(MOONCAKE, local, 2, remote, 3, 0, true).status,
                     WEFT_ERR_ROUTE);
}
END_TEST

/* It opens port 1 of every device, so that both functions of one card are NICs, and never another
 * port of a device. */
START_TEST(a_nic_is_port_one_of_a_device)
{
    struct rdma_port_facts local[] = {mlx5_port("rocep1s0f0", 0, "192.168.0.1/24"),
                                      mlx5_port("rocep1s0f1", 0, "192.168.1.1/24")};
    struct rdma_port_facts remote[] = {mlx5_port("mlx5_0", 0, "192.168.0.2/24"),
                                       mlx5_port("mlx5_0/2", 0, "192.168.1.2/24")};
    struct choice choice = choose(MOONCAKE, local, 2, remote, 2, 1, true);

    expect_rail(&choice, 0, 1, 0, 3, 3, 4096);
    /* Port 2 does not take the place of port 1. */
    remote[0].is_active = false;
    ck_assert_int_eq(choose(MOONCAKE, local, 2, remote, 2, 0, true).status,
                     WEFT_ERR_ROUTE);
}
END_TEST

START_TEST(its_patience_is_written_in_its_source)
{
    struct rdma_patience patience = {.timeout = 18, .retry_cnt = 3, .rnr_retry = 1};

    rdma_lower_patience(MOONCAKE, "1", &patience);
    ck_assert_uint_eq(patience.timeout, 14);
    ck_assert_uint_eq(patience.retry_cnt, 7);
    ck_assert_uint_eq(patience.rnr_retry, 7);
    ck_assert_uint_eq(rdma_sent_qpn(MOONCAKE, 0x12347), 0x12347);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nccl/mooncake");
    TCase *all = tcase_create("all");

    tcase_add_test(all, private_addresses_lose_to_the_lowest_slot);
    tcase_add_test(all, a_class_comes_before_a_slot);
    tcase_add_test(all, an_empty_slot_is_nothing);
    tcase_add_test(all, either_end_takes_its_nics_in_turn);
    tcase_add_test(all, a_nic_is_port_one_of_a_device);
    tcase_add_test(all, its_patience_is_written_in_its_source);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
