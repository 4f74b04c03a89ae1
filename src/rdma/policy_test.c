#include <check.h>
#include <limits.h>

#include "base/suite_testing.h"
#include "nccl/policies.h"
#include "rdma/policy_testing.h"
#include "rdma/policy_weft.h"

/* ---- names ---- */

/* ---- one port on its own: the slot of the table ---- */

struct gid_case {
    const char *what;
    struct {
        uint32_t index;
        const char *prefix;
        int type;
    } table[6];
    int gid_index;
    /* slot that each policy uses; -1 if none */
    int weft, nccl, plugin;
};

static const struct gid_case gid_cases[] = {
    /* The usual mlx5 table. The plugin uses the v1 slot, because it ignores the type. */
    {"mlx5",
     {{0, "fe80::1/0", V1},
      {1, "fe80::1/0", V2},
      {2, "10.0.0.1/24", V1},
      {3, "10.0.0.1/24", V2}},
     -1,
     3,
     3,
     2},
    /* rxe has v2 only: the default GID, then the address. */
    {"rxe", {{0, "fe80::1/0", V2}, {1, "10.0.0.1/24", V2}}, -1, 1, 1, 1},
    /* The address was removed and added again, so that slot 3 is empty. */
    {"hole at 3",
     {{0, "fe80::1/0", V1},
      {1, "fe80::1/0", V2},
      {2, "10.0.0.1/24", V1},
      {4, "10.0.0.1/24", V2}},
     -1,
     4,
     4,
     2},
    {"v1 only", {{0, "fe80::1/0", V1}, {1, "10.0.0.1/24", V1}}, -1, -1, 1, 1},
    /* Without IPv4, net_ib's scan stays at slot 0. The plugin falls back to index 3, which is
     * empty. */
    {"defaults only", {{0, "fe80::1/0", V1}, {1, "fe80::1/0", V2}}, -1, -1, 0, -1},
    /* net_ib wants AF_INET, so that a unique local IPv6 address does not count. */
    {"ipv6 only",
     {{0, "fe80::1/0", V1},
      {1, "fe80::1/0", V2},
      {2, "fd00::1/64", V1},
      {3, "fd00::1/64", V2}},
     -1,
     3,
     0,
     3},
    {"fe80 with an address behind it",
     {{0, "fe80::1/64", V1}, {1, "fe80::1/64", V2}},
     -1,
     1,
     0,
     -1},
    /* net_ib uses NCCL_IB_GID_INDEX whatever the slot holds, and weft ignores it. The plugin uses
     * its own index only if there is no IPv4 GID. */
    {"index set to 2",
     {{0, "fe80::1/0", V1},
      {1, "fe80::1/0", V2},
      {2, "10.0.0.1/24", V1},
      {3, "10.0.0.1/24", V2}},
     2,
     3,
     2,
     2},
    {"index set to 1, no ipv4",
     {{0, "fe80::1/0", V1}, {1, "fe80::1/0", V2}},
     1,
     -1,
     1,
     1},
    {"index set to an empty slot",
     {{0, "fe80::1/0", V1}, {2, "10.0.0.1/24", V1}, {3, "10.0.0.1/24", V2}},
     7,
     3,
     -1,
     2},
    /* With two addresses, the first v2 GID is used. */
    {"two addresses",
     {{0, "fe80::1/0", V1},
      {1, "fe80::1/0", V2},
      {2, "10.0.0.1/24", V1},
      {3, "10.0.0.1/24", V2},
      {4, "10.9.0.1/24", V1},
      {5, "10.9.0.1/24", V2}},
     -1,
     3,
     3,
     2},
    /* The low slots cannot be read in a container, so that the table begins at 4. */
    {"container", {{4, "10.0.0.1/24", V1}, {5, "10.0.0.1/24", V2}}, -1, 5, 5, 4},
    /* v2 is listed before v1. The family decides first, and v1 does not replace v2. */
    {"v2 first",
     {{0, "fe80::1/0", V2}, {1, "10.0.0.1/24", V2}, {2, "10.0.0.1/24", V1}},
     -1,
     1,
     1,
     1},
    {"empty table", {{0, NULL, 0}}, -1, -1, -1, -1},
    /* The plugin prefers its interface's address to any other IPv4 address. */
    {"another netdev's address first",
     {{0, "fe80::1/0", V2}, {1, "10.9.0.1/0", V2}, {2, "10.0.0.1/24", V2}},
     -1,
     2,
     1,
     2},
};

static int slot_of(const struct rdma_port_facts *port, uint32_t gid)
{
    return gid == UINT32_MAX ? -1 : (int)port->gids[gid].index;
}

START_TEST(each_policy_takes_its_slot)
{
    const struct gid_case *c = &gid_cases[_i];
    struct rdma_port_facts port = make_port("p0", 0);
    for (int i = 0; i < 6 && c->table[i].prefix != NULL; i++) {
        add_gid(&port, c->table[i].index, c->table[i].prefix, c->table[i].type);
    }
    struct rdma_gid_rule rule = RDMA_GID_RULE_NONE;
    rule.index = c->gid_index;
    int weft = slot_of(&port, rdma_weft_gid(&port));
    int nccl = slot_of(&port, nccl_gid(&port, &rule));
    int plugin = slot_of(&port, mesh_plugin_gid(&port, rule.index));
    ck_assert_msg(weft == c->weft, "%s: weft took %d", c->what, weft);
    ck_assert_msg(nccl == c->nccl, "%s: nccl took %d", c->what, nccl);
    ck_assert_msg(plugin == c->plugin, "%s: plugin took %d", c->what, plugin);
}
END_TEST

/* One case of NCCL's scan: its settings, and the results for an mlx5 table and an rxe table. Each
 * table has fe80, two IPv4 addresses and one IPv6 address, in the order of the kernel. */
struct scan_case {
    const char *family, *range, *version;
    int mlx5, rxe; /* the slot; -1 if it is empty */
};

static const struct scan_case scan_cases[] = {
    {NULL, NULL, NULL, 3, 1},
    {"", "", "", 3, 1},
    {"AF_INET", NULL, NULL, 3, 1},
    {"AF_INET6", NULL, NULL, 7, 3},
    {"inet6", NULL, NULL, 3, 1}, /* not a family, so AF_INET */
    {NULL, NULL, "1", 2, 1},     /* rxe has no v1, so the first IPv4 GID stays */
    {NULL, NULL, "2", 3, 1},
    {NULL, NULL, "0x1", 2, 1},
    {NULL, NULL, "3", 2, 1}, /* the first of the family, which is never replaced */
    {NULL, NULL, "two", 2, 1},
    {"AF_INET6", NULL, "1", 6, 0},
    {"AF_INET6", NULL, "3", 0, 0},
    {NULL, "10.9.0.0/16", NULL, 5, 2},
    {NULL, "10.9.0.0/16", "1", 4, 2},
    {NULL, "10.8.0.0/13", NULL, 5, 2},
    {NULL, "10.0.0.1/32", NULL, 3, 1},
    {NULL, "172.16.0.0/12", NULL, 0, 0}, /* no GID is in it */
    {NULL, "10.9.0.0", NULL, 3, 1},      /* no mask, so no range */
    {NULL, "10.9.0.0/33", NULL, 3, 1},
    {NULL, "10.9.0.0/0", NULL, 3, 1},
    {NULL, "10.9.0.0/", NULL, 3, 1},
    {NULL, "10.9.0.0/x", NULL, 3, 1},
    {NULL, "10.9.0.0/-1", NULL, 0, 0},
    {NULL, "fd00::/64", NULL, 3, 1}, /* of the other family, so ignored */
    {NULL, "ten/8", NULL, 3, 1},
    {"AF_INET6", "10.9.0.0/16", NULL, 7, 3},
    {"AF_INET6", "fd00::/64", NULL, 7, 3},
    {"AF_INET6", "fd00::/129", NULL, 7, 3},
    {"AF_INET6", "fd00:1::/32", NULL, 0, 0},
};

START_TEST(nccl_scans_as_its_settings_say)
{
    const struct scan_case *c = &scan_cases[_i];
    struct rdma_gid_settings settings = {
        .family = c->family, .range = c->range, .roce_version = c->version};
    struct rdma_gid_rule rule = rdma_gid_rule(WEFT_POLICY_NCCL_2_25, &settings);
    struct rdma_gid_rule weft = rdma_gid_rule(WEFT_POLICY_WEFT, &settings);
    struct rdma_port_facts mlx5 = make_port("p0", 0), rxe = make_port("p0", 0);
    const char *addresses[] = {"fe80::1/0", "10.0.0.1/24", "10.9.0.1/24", "fd00::1/64"};
    for (uint32_t i = 0; i < 8; i++) {
        add_gid(&mlx5, i, addresses[i / 2], i % 2 == 0 ? V1 : V2);
    }
    for (uint32_t i = 0; i < 4; i++) {
        add_gid(&rxe, i, addresses[i], V2);
    }
    int taken = slot_of(&mlx5, nccl_gid(&mlx5, &rule));
    ck_assert_int_eq(taken, c->mlx5);
    taken = slot_of(&rxe, nccl_gid(&rxe, &rule));
    ck_assert_int_eq(taken, c->rxe);
    ck_assert_int_eq(weft.index, -1);
    ck_assert_int_eq(slot_of(&mlx5, rdma_weft_gid(&mlx5)), 3);
    /* An empty slot reads as zeros, which count as IPv6. It replaces slot 0 if that is IPv4. */
    struct rdma_port_facts v4 = make_port("p0", 0);
    add_gid(&v4, 0, "10.0.0.1/24", V2);
    taken = slot_of(&v4, nccl_gid(&v4, &rule));
    ck_assert_int_eq(taken, rule.wants_ipv6 && rule.range_len == 0 ? -1 : 0);
}
END_TEST

/* Settings that fix a slot, by policy. */
START_TEST(each_program_reads_its_own_index)
{
    static const struct {
        const char *nccl, *mooncake, *mesh;
        int slots[WEFT_N_POLICIES];
    } rows[] = {
        {NULL, NULL, NULL, {-1, -1, -1, -1, -1, -1}},
        {"1", NULL, NULL, {-1, 1, 1, -1, 1, 1}},
        {"1", "2", "4", {-1, 1, 1, 4, 2, 1}},
        {"", "", "", {-1, -1, -1, 0, 0, -1}},
        {"auto", "0x3", "0x3", {-1, 0, 0, 0, 0, 0}},
        {"0x3", "256", "-1", {-1, 3, 3, -1, -1, 3}},
        /* NCCL uses a number that no table has, and not what it cannot read. */
        {"300", "300", "300", {-1, 300, 300, -1, -1, 300}},
        {"-1", NULL, NULL, {-1, -1, -1, -1, -1, -1}},
        {"5 # slot", NULL, NULL, {-1, 5, 5, -1, 5, 5}},
        {"99999999999", NULL, NULL, {-1, INT_MAX, INT_MAX, -1, -1, INT_MAX}},
        {"99999999999999999999", NULL, NULL, {-1, -1, -1, -1, -1, -1}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rdma_gid_settings settings = {.index = rows[i].nccl,
                                             .mooncake_index = rows[i].mooncake,
                                             .mesh_index = rows[i].mesh};
        for (int p = 0; p < WEFT_N_POLICIES; p++) {
            ck_assert_int_eq(rdma_gid_rule((enum weft_policy)p, &settings).index,
                             rows[i].slots[p]);
        }
    }
}
END_TEST

/* ---- pairs ---- */

START_TEST(weft_finds_the_cable_between_any_two_of_the_triangle)
{
    static const struct {
        int local, remote;
        uint32_t l, r;
    } cables[] = {{TITANIC, ICEBERG, 0, 1},   {ICEBERG, TITANIC, 1, 0},
                  {TITANIC, CARPATHIA, 1, 0}, {CARPATHIA, TITANIC, 0, 1},
                  {ICEBERG, CARPATHIA, 0, 1}, {CARPATHIA, ICEBERG, 1, 0}};
    struct rdma_port_facts local[2], remote[2];
    make_host(cables[_i].local, local);
    make_host(cables[_i].remote, remote);
    remote[cables[_i].r].active_mtu = 1024;
    struct choice choice = choose(WEFT_POLICY_WEFT, local, 2, remote, 2, 0, true);
    ck_assert_uint_eq(choice.n, 1);
    expect_rail(&choice, 0, cables[_i].l, cables[_i].r, 3, 3, 1024);
}
END_TEST

START_TEST(weft_names_both_ends_addresses_when_there_is_no_cable)
{
    struct rdma_port_facts local[] = {mlx5_port("p0", 0, "10.0.0.1/24"),
                                      mlx5_port("p1", 1, "10.0.1.1/24")};
    struct rdma_port_facts remote[] = {mlx5_port("p0", 0, "10.0.2.2/30"),
                                       mlx5_port("p1", 1, NULL)};
    struct choice choice = choose(WEFT_POLICY_WEFT, local, 2, remote, 2, 0, true);
    ck_assert_int_eq(choice.status, WEFT_ERR_ROUTE);
    ck_assert_uint_eq(choice.n, 0);
    ck_assert_str_eq(weft_phase_name(choice.error.phase), "route");
    ck_assert_str_eq(weft_error_value(&choice.error, WEFT_VALUE_LOCAL_ADDRESSES)->text,
                     "10.0.0.1/24 10.0.1.1/24");
    ck_assert_str_eq(weft_error_value(&choice.error, WEFT_VALUE_REMOTE_ADDRESSES)->text,
                     "10.0.2.2/30");
    choice = choose(WEFT_POLICY_WEFT, local, 0, remote, 2, 0, true);
    ck_assert_str_eq(weft_error_value(&choice.error, WEFT_VALUE_LOCAL_ADDRESSES)->text,
                     "none");
}
END_TEST

/* The ports have /30 subnets of one /24. A global /24 would make all of them neighbours. */
START_TEST(weft_goes_by_the_interfaces_own_prefixes)
{
    struct rdma_port_facts local[] = {mlx5_port("p0", 0, "10.0.0.1/30"),
                                      mlx5_port("p1", 1, "10.0.0.5/30")};
    struct rdma_port_facts remote[] = {mlx5_port("p0", 0, "10.0.0.6/30"),
                                       mlx5_port("p1", 1, "10.0.0.9/30")};
    struct choice choice = choose(WEFT_POLICY_WEFT, local, 2, remote, 2, 0, true);
    ck_assert_uint_eq(choice.n, 1);
    expect_rail(&choice, 0, 1, 0, 3, 3, 4096);
    /* One end has a wider prefix, which matches, but the peer's does not. */
    struct rdma_port_facts wide[] = {mlx5_port("p0", 0, "10.0.0.1/16")};
    struct rdma_port_facts narrow[] = {mlx5_port("p0", 0, "10.0.9.2/30")};
    choice = choose(WEFT_POLICY_WEFT, wide, 1, narrow, 1, 0, true);
    ck_assert_int_eq(choice.status, WEFT_ERR_ROUTE);
    /* The peer's prefix is unknown, so that the local one decides. */
    narrow[0].gids[3].prefix_len = 0;
    choice = choose(WEFT_POLICY_WEFT, wide, 1, narrow, 1, 0, true);
    ck_assert_uint_eq(choice.n, 1);
}
END_TEST

START_TEST(weft_takes_both_twins_and_each_port_once)
{
    struct rdma_port_facts local[] = {mlx5_port("c0.0", 0, "192.168.0.1/24"),
                                      mlx5_port("c0.1", 1, "192.168.1.1/24")};
    struct rdma_port_facts remote[] = {mlx5_port("c1.0", 0, "192.168.0.2/24"),
                                       mlx5_port("c1.1", 1, "192.168.1.2/24")};
    /* The second rail is faster at both ends, so that it comes first. */
    local[1].rate_bps *= 2;
    remote[1].rate_bps *= 2;
    struct choice choice = choose(WEFT_POLICY_WEFT, local, 2, remote, 2, 0, true);
    ck_assert_uint_eq(choice.n, 2);
    expect_rail(&choice, 0, 1, 1, 3, 3, 4096);
    expect_rail(&choice, 1, 0, 0, 3, 3, 4096);

    /* All four ports are in one subnet, which makes two rails, not four. */
    struct rdma_port_facts flat_local[] = {mlx5_port("c0.0", 0, "10.0.0.1/24"),
                                           mlx5_port("c0.1", 1, "10.0.0.2/24")};
    struct rdma_port_facts flat_remote[] = {mlx5_port("c1.0", 0, "10.0.0.3/24"),
                                            mlx5_port("c1.1", 1, "10.0.0.4/24")};
    choice = choose(WEFT_POLICY_WEFT, flat_local, 2, flat_remote, 2, 0, true);
    ck_assert_uint_eq(choice.n, 2);
    expect_rail(&choice, 0, 0, 0, 3, 3, 4096);
    expect_rail(&choice, 1, 1, 1, 3, 3, 4096);

    /* At equal rates the larger path MTU comes first. */
    flat_local[0].active_mtu = 1024;
    choice = choose(WEFT_POLICY_WEFT, flat_local, 2, flat_remote, 2, 0, true);
    expect_rail(&choice, 0, 1, 0, 3, 3, 4096);
    expect_rail(&choice, 1, 0, 1, 3, 3, 1024);

    struct rdma_rail one;
    uint32_t n = 0;
    struct rdma_choice_input input = {.policy = WEFT_POLICY_WEFT,
                                      .local = flat_local,
                                      .n_local = 2,
                                      .remote = flat_remote,
                                      .n_remote = 2,
                                      .gid = RDMA_GID_RULE_NONE};
    ck_assert_int_eq(rdma_choose(&input, &one, 1, &n, NULL), WEFT_OK);
    ck_assert_uint_eq(n, 1);
}
END_TEST

START_TEST(weft_leaves_dead_ports_and_v1_alone)
{
    struct rdma_port_facts local[2], remote[2];
    make_host(TITANIC, local);
    make_host(ICEBERG, remote);
    local[0].is_active = false;
    ck_assert_int_eq(choose(WEFT_POLICY_WEFT, local, 2, remote, 2, 0, true).status,
                     WEFT_ERR_ROUTE);
    local[0].is_active = true;
    remote[1].is_active = false;
    ck_assert_int_eq(choose(WEFT_POLICY_WEFT, local, 2, remote, 2, 0, true).status,
                     WEFT_ERR_ROUTE);
    remote[1].is_active = true;
    local[0].gids[3].type = V1;
    ck_assert_int_eq(choose(WEFT_POLICY_WEFT, local, 2, remote, 2, 0, true).status,
                     WEFT_ERR_ROUTE);
}
END_TEST

START_TEST(weft_prefers_ipv4_and_uses_link_local_only_without_a_choice)
{
    struct rdma_port_facts local = make_port("p0", 0);
    struct rdma_port_facts remote = make_port("p0", 0);
    add_gid(&local, 0, "fe80::1/64", V2);
    add_gid(&local, 1, "fd00::1/64", V2);
    add_gid(&remote, 0, "fe80::2/64", V2);
    add_gid(&remote, 1, "fd00::2/64", V2);
    struct choice choice = choose(WEFT_POLICY_WEFT, &local, 1, &remote, 1, 0, true);
    expect_rail(&choice, 0, 0, 0, 1, 1, 4096);
    add_gid(&local, 2, "10.0.0.1/31", V2);
    add_gid(&remote, 2, "10.0.0.0/31", V2);
    choice = choose(WEFT_POLICY_WEFT, &local, 1, &remote, 1, 0, true);
    expect_rail(&choice, 0, 0, 0, 2, 2, 4096);
    /* Only fe80 is left, with one port at each end, so that only one cable is possible. */
    local.n_gids = 1;
    remote.n_gids = 1;
    choice = choose(WEFT_POLICY_WEFT, &local, 1, &remote, 1, 0, true);
    expect_rail(&choice, 0, 0, 0, 0, 0, 4096);
    /* With a second port, two cables are possible. */
    struct rdma_port_facts two[] = {local, local};
    ck_assert_int_eq(choose(WEFT_POLICY_WEFT, two, 2, &remote, 1, 0, true).status,
                     WEFT_ERR_ROUTE);
    two[1].is_active = false;
    ck_assert_int_eq(choose(WEFT_POLICY_WEFT, two, 2, &remote, 1, 0, true).status,
                     WEFT_OK);
    /* This end's own address at the peer is a copied configuration, not a neighbour. */
    ck_assert_int_eq(choose(WEFT_POLICY_WEFT, &local, 1, &local, 1, 0, true).status,
                     WEFT_ERR_ROUTE);
}
END_TEST

/* A triangle whose direct cable was pulled: the only active port of each end leads to the third
 * host. The addresses of the ports that are down show it, and those of the active ones do if a
 * port that is down has lost its own. */
START_TEST(weft_takes_no_link_local_route_to_another_host)
{
    struct rdma_port_facts local[] = {make_port("p0", 0), make_port("p1", 1)};
    struct rdma_port_facts remote[] = {make_port("p0", 0), make_port("p1", 1)};

    for (uint32_t i = 0; i < 2; i++) {
        add_gid(&local[i], 0, i == 0 ? "fe80::1/64" : "fe80::2/64", V2);
        add_gid(&remote[i], 0, i == 0 ? "fe80::3/64" : "fe80::4/64", V2);
    }
    local[0].is_active = remote[0].is_active = false;
    /* Without addresses, one active port at each end is on one cable. */
    ck_assert_int_eq(choose(WEFT_POLICY_WEFT, local, 2, remote, 2, 0, true).status,
                     WEFT_OK);
    add_gid(&local[0], 1, "10.0.1.1/24", V2);
    add_gid(&remote[0], 1, "10.0.1.2/24", V2);
    ck_assert_int_eq(choose(WEFT_POLICY_WEFT, local, 2, remote, 2, 0, true).status,
                     WEFT_ERR_ROUTE);
    add_gid(&local[1], 1, "169.254.1.1/16", V2);
    add_gid(&remote[1], 1, "169.254.2.2/16", V2);
    ck_assert_int_eq(choose(WEFT_POLICY_WEFT, local, 2, remote, 2, 0, true).status,
                     WEFT_ERR_ROUTE);
    for (uint32_t i = 0; i < 2; i++) {
        local[i].n_gids = remote[i].n_gids = 1;
    }
    add_gid(&local[1], 1, "10.0.2.1/24", V2);
    ck_assert_int_eq(choose(WEFT_POLICY_WEFT, local, 2, remote, 2, 0, true).status,
                     WEFT_OK);
    add_gid(&remote[1], 1, "10.0.3.1/24", V2);
    ck_assert_int_eq(choose(WEFT_POLICY_WEFT, local, 2, remote, 2, 0, true).status,
                     WEFT_ERR_ROUTE);
}
END_TEST

/* 169.254/16 on every port identifies no cable, and is not used while other addresses match. Alone
 * it is a subnet like any other. */
START_TEST(weft_asks_169_254_only_when_nothing_else_answers)
{
    struct rdma_port_facts local[] = {make_port("p0", 0), make_port("p1", 1)};
    struct rdma_port_facts remote[] = {make_port("p0", 0), make_port("p1", 1)};
    add_gid(&local[0], 0, "169.254.1.1/16", V2);
    add_gid(&local[1], 0, "169.254.1.2/16", V2);
    add_gid(&remote[0], 0, "169.254.2.1/16", V2);
    add_gid(&remote[1], 0, "169.254.2.2/16", V2);
    struct choice choice = choose(WEFT_POLICY_WEFT, local, 2, remote, 2, 0, true);
    ck_assert_uint_eq(choice.n, 2);
    add_gid(&local[0], 1, "10.0.0.1/24", V2);
    add_gid(&remote[1], 1, "10.0.0.2/24", V2);
    choice = choose(WEFT_POLICY_WEFT, local, 2, remote, 2, 0, true);
    ck_assert_uint_eq(choice.n, 1);
    expect_rail(&choice, 0, 0, 1, 1, 1, 4096);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdma/policy");
    TCase *gids = tcase_create("gids");
    tcase_add_loop_test(gids, each_policy_takes_its_slot, 0,
                        (int)(sizeof(gid_cases) / sizeof(gid_cases[0])));
    tcase_add_loop_test(gids, nccl_scans_as_its_settings_say, 0,
                        (int)(sizeof(scan_cases) / sizeof(scan_cases[0])));
    tcase_add_test(gids, each_program_reads_its_own_index);
    suite_add_tcase(suite, gids);
    TCase *weft = tcase_create("weft");
    tcase_add_loop_test(weft, weft_finds_the_cable_between_any_two_of_the_triangle, 0, 6);
    tcase_add_test(weft, weft_names_both_ends_addresses_when_there_is_no_cable);
    tcase_add_test(weft, weft_goes_by_the_interfaces_own_prefixes);
    tcase_add_test(weft, weft_takes_both_twins_and_each_port_once);
    tcase_add_test(weft, weft_leaves_dead_ports_and_v1_alone);
    tcase_add_test(weft, weft_prefers_ipv4_and_uses_link_local_only_without_a_choice);
    tcase_add_test(weft, weft_takes_no_link_local_route_to_another_host);
    tcase_add_test(weft, weft_asks_169_254_only_when_nothing_else_answers);
    suite_add_tcase(suite, weft);
    return suite_run(suite);
}
