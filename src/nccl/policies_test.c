/* Tests of the policies of other programs, including their mistakes. */
#include <check.h>
#include <string.h>

#include "base/suite_testing.h"
#include "nccl/policies.h"
#include "rdma/policy_testing.h"

/* Channel 0 uses device 0 of both ends: titanic p0 (cabled to iceberg) and carpathia p0 (cabled to
 * titanic). No cable joins them, and neither end checks that. */
START_TEST(nccl_2_25_pairs_by_channel_and_asks_nobody)
{
    struct rdma_port_facts local[2], remote[2];
    make_host(TITANIC, local);
    make_host(CARPATHIA, remote);
    remote[1].active_mtu = 1024;
    struct choice choice = choose(WEFT_POLICY_NCCL_2_25, local, 2, remote, 2, 0, true);
    ck_assert_uint_eq(choice.n, 1);
    expect_rail(&choice, 0, 0, 0, 3, 3, 4096);
    choice = choose(WEFT_POLICY_NCCL_2_25, local, 2, remote, 2, 1, true);
    expect_rail(&choice, 0, 1, 1, 3, 3, 1024);
    choice = choose(WEFT_POLICY_NCCL_2_25, local, 2, remote, 1, 3, false);
    expect_rail(&choice, 0, 1, 0, 3, 3, 4096);
    /* A port that is down is no device, so that the others move up. */
    local[0].is_active = false;
    choice = choose(WEFT_POLICY_NCCL_2_25, local, 2, remote, 2, 0, true);
    expect_rail(&choice, 0, 1, 0, 3, 3, 4096);
    local[1].is_active = false;
    choice = choose(WEFT_POLICY_NCCL_2_25, local, 2, remote, 2, 0, true);
    ck_assert_int_eq(choice.status, WEFT_ERR_ROUTE);
}
END_TEST

/* Two ports of one NIC, cabled to different peers, become one device. QP 0 and QP 1 use one each,
 * so that one of them always uses the wrong cable. */
START_TEST(nccl_2_25_merges_the_ports_of_a_nic)
{
    struct rdma_port_facts local[2], remote[2];
    make_host(TITANIC, local);
    make_host(ICEBERG, remote);
    local[1].device = 0;
    struct choice choice = choose(WEFT_POLICY_NCCL_2_25, local, 2, remote, 2, 1, true);
    ck_assert_uint_eq(choice.n, 2);
    expect_rail(&choice, 0, 0, 1, 3, 3, 4096);
    expect_rail(&choice, 1, 1, 1, 3, 3, 4096);
    /* Up to four of the five ports of a NIC are merged. */
    struct rdma_port_facts five[5];
    for (int i = 0; i < 5; i++) {
        five[i] = mlx5_port("p", 0, "10.0.0.1/24");
    }
    choice = choose(WEFT_POLICY_NCCL_2_25, five, 5, remote, 1, 0, true);
    ck_assert_uint_eq(choice.n, 4);
    choice = choose(WEFT_POLICY_NCCL_2_25, five, 5, remote, 1, 1, true);
    ck_assert_uint_eq(choice.n, 1);
    ck_assert_uint_eq(choice.rails[0].local_port, 4);
}
END_TEST

/* Each end's own choice counts, whatever the channel, and of a card only the chosen ports. An end
 * that chose none uses the channel. */
START_TEST(nccl_2_25_takes_what_either_end_chose)
{
    struct rdma_port_facts local[2], remote[2];
    make_host(TITANIC, local);
    make_host(ICEBERG, remote);
    local[1].is_chosen = true;
    struct choice choice = choose(WEFT_POLICY_NCCL_2_25, local, 2, remote, 2, 0, true);
    ck_assert_uint_eq(choice.n, 1);
    expect_rail(&choice, 0, 1, 0, 3, 3, 4096);
    remote[0].is_chosen = true;
    choice = choose(WEFT_POLICY_NCCL_2_25, local, 2, remote, 2, 1, false);
    expect_rail(&choice, 0, 1, 0, 3, 3, 4096);
    local[1].device = 0; /* one card, not merged */
    choice = choose(WEFT_POLICY_NCCL_2_25, local, 2, remote, 2, 1, true);
    ck_assert_uint_eq(choice.n, 1);
    expect_rail(&choice, 0, 1, 0, 3, 3, 4096);
    local[0].is_chosen = true; /* merged */
    choice = choose(WEFT_POLICY_NCCL_2_25, local, 2, remote, 2, 1, true);
    ck_assert_uint_eq(choice.n, 2);
    expect_rail(&choice, 0, 0, 0, 3, 3, 4096);
    expect_rail(&choice, 1, 1, 0, 3, 3, 4096);
    /* The subnet-aware policy begins with that choice, and moves: titanic p0 faces iceberg p1. */
    local[1].device = 1;
    local[0].is_chosen = false;
    remote[0].is_chosen = false;
    remote[1].is_chosen = true;
    choice = choose(WEFT_POLICY_NCCL_2_30_SUBNET_AWARE, local, 2, remote, 2, 0, true);
    ck_assert_uint_eq(choice.n, 1);
    expect_rail(&choice, 0, 0, 1, 3, 3, 4096);
}
END_TEST

START_TEST(nccl_2_25_goes_on_without_a_usable_gid)
{
    struct rdma_port_facts local = make_port("p0", 0);
    struct rdma_port_facts remote = mlx5_port("p0", 0, "10.0.0.2/24");
    struct choice choice = choose(WEFT_POLICY_NCCL_2_25, &local, 1, &remote, 1, 0, true);
    expect_rail(&choice, 0, 0, 0, 0, 3, 4096);
}
END_TEST

/* Carpathia's channel 0 listens on p0 (.102). Titanic's default p0 (.101) does not match, but p1
 * (.102) does. */
START_TEST(nccl_2_30_moves_the_connector_to_the_listeners_subnet)
{
    struct rdma_port_facts local[2], remote[2];
    make_host(TITANIC, local);
    make_host(CARPATHIA, remote);
    enum weft_policy policy = WEFT_POLICY_NCCL_2_30_SUBNET_AWARE;
    struct choice choice = choose(policy, local, 2, remote, 2, 0, true);
    ck_assert_uint_eq(choice.n, 1);
    expect_rail(&choice, 0, 1, 0, 3, 3, 4096);
    /* The acceptor chooses the same pair from its side. */
    choice = choose(policy, remote, 2, local, 2, 0, false);
    expect_rail(&choice, 0, 0, 1, 3, 3, 4096);
    /* Channel 1 listens on p1 (.103), which no port of titanic matches. Titanic keeps p1 (.102),
     * and the acceptor moves to the port that matches it. */
    choice = choose(policy, local, 2, remote, 2, 1, true);
    expect_rail(&choice, 0, 1, 0, 3, 3, 4096);
}
END_TEST

/* Still wrong upstream: with /30 subnets of one /24 all ports match, although the cables join p0
 * with p1 and p1 with p0. */
START_TEST(nccl_2_30_takes_a_global_24_for_a_cable)
{
    struct rdma_port_facts local[] = {mlx5_port("p0", 0, "10.0.0.1/30"),
                                      mlx5_port("p1", 1, "10.0.0.5/30")};
    struct rdma_port_facts remote[] = {mlx5_port("p0", 0, "10.0.0.6/30"),
                                       mlx5_port("p1", 1, "10.0.0.2/30")};
    struct choice choice =
        choose(WEFT_POLICY_NCCL_2_30_SUBNET_AWARE, local, 2, remote, 2, 0, true);
    expect_rail(&choice, 0, 0, 0, 3, 3, 4096);
    ck_assert_uint_eq(
        choose(WEFT_POLICY_WEFT, local, 2, remote, 2, 0, true).rails[0].remote_port, 1);
}
END_TEST

/* A NIC matches only if all its ports do. Merged ports on two cables never match, and both ends
 * keep the default. */
START_TEST(nccl_2_30_needs_all_ports_of_a_nic_to_match)
{
    struct rdma_port_facts local[] = {mlx5_port("p0", 0, "10.0.0.1/24"),
                                      mlx5_port("p1", 1, "10.0.1.1/24"),
                                      mlx5_port("p2", 1, "10.0.2.1/24")};
    struct rdma_port_facts remote[] = {mlx5_port("p0", 0, "10.0.1.2/24"),
                                       mlx5_port("p1", 1, "10.0.9.2/24")};
    enum weft_policy policy = WEFT_POLICY_NCCL_2_30_SUBNET_AWARE;
    struct choice choice = choose(policy, local, 3, remote, 2, 0, true);
    ck_assert_uint_eq(choice.n, 1);
    expect_rail(&choice, 0, 0, 0, 3, 3, 4096);
    /* With p2 down, NIC 1 is p1 alone, and matches. */
    local[2].is_active = false;
    choice = choose(policy, local, 3, remote, 2, 0, true);
    expect_rail(&choice, 0, 1, 0, 3, 3, 4096);
    /* A NIC without any GID matches nothing. */
    struct rdma_port_facts bare = make_port("p0", 0);
    choice = choose(policy, &bare, 1, remote, 2, 0, true);
    expect_rail(&choice, 0, 0, 0, 0, 3, 4096);
}
END_TEST

START_TEST(nccl_2_30_compares_ipv6_at_64)
{
    struct rdma_port_facts local[2], remote;
    local[0] = make_port("p0", 0);
    local[1] = make_port("p1", 1);
    remote = make_port("p0", 0);
    add_gid(&local[0], 0, "fd00:0:0:1::1/64", V2);
    add_gid(&local[1], 0, "fd00:0:0:2::1/64", V2);
    add_gid(&remote, 0, "fd00:0:0:2::2/64", V2);
    struct choice choice =
        choose(WEFT_POLICY_NCCL_2_30_SUBNET_AWARE, local, 2, &remote, 1, 0, true);
    expect_rail(&choice, 0, 1, 0, 0, 0, 4096);
}
END_TEST

START_TEST(the_plugin_matches_subnets_and_takes_v1)
{
    struct rdma_port_facts local[2], remote[2];
    make_host(TITANIC, local);
    make_host(CARPATHIA, remote);
    local[1].active_mtu = 2048;
    remote[0].active_mtu = 1024;
    enum weft_policy policy = WEFT_POLICY_MESH_PLUGIN_2026_01;
    struct choice choice = choose(policy, local, 2, remote, 2, 0, true);
    ck_assert_uint_eq(choice.n, 1);
    expect_rail(&choice, 0, 1, 0, 2, 2, 1024);
    /* The acceptor uses its own MTU. */
    choice = choose(policy, remote, 2, local, 2, 0, false);
    expect_rail(&choice, 0, 0, 1, 2, 2, 1024);
    /* The connector uses the MTU of the first NIC in the handle, not of the one that it connects
     * to. */
    make_host(TITANIC, remote);
    make_host(CARPATHIA, local);
    remote[0].active_mtu = 512;
    choice = choose(policy, local, 2, remote, 2, 0, true);
    expect_rail(&choice, 0, 0, 1, 2, 2, 512);
    choice = choose(policy, remote, 2, local, 2, 0, false);
    expect_rail(&choice, 0, 1, 0, 2, 2, 4096);
}
END_TEST

/* Its NICs are port 1 of every device with an IPv4 address. Others are neither in the handle nor
 * used. */
START_TEST(the_plugin_uses_port_one_with_an_address)
{
    enum weft_policy policy = WEFT_POLICY_MESH_PLUGIN_2026_01;
    struct rdma_port_facts local[] = {mlx5_port("mlx5_0", 0, "10.0.0.1/24"),
                                      mlx5_port("mlx5_0/2", 0, "10.0.1.1/24")};
    struct rdma_port_facts remote[] = {mlx5_port("p0", 0, NULL),
                                       mlx5_port("p1", 1, "10.0.0.2/24")};
    struct choice choice;

    /* The first NIC in the handle is p1. */
    remote[0].active_mtu = 512;
    remote[1].active_mtu = 2048;
    choice = choose(policy, local, 2, remote, 2, 0, true);
    expect_rail(&choice, 0, 0, 1, 2, 2, 2048);
    remote[1] = mlx5_port("p1", 1, "10.0.1.2/24");
    ck_assert_int_eq(choose(policy, local, 2, remote, 2, 0, true).status, WEFT_ERR_ROUTE);
    ck_assert_int_eq(choose(policy, remote, 2, local, 2, 0, true).status, WEFT_ERR_ROUTE);
}
END_TEST

/* Without a match its connect fails at once, and neither end chooses a rail. */
START_TEST(the_plugin_gives_up_without_a_match)
{
    struct rdma_port_facts local[] = {mlx5_port("p0", 0, "10.0.0.1/24"),
                                      mlx5_port("p1", 1, "10.0.1.1/24")};
    struct rdma_port_facts remote[] = {mlx5_port("p0", 0, NULL),
                                       mlx5_port("p1", 1, "10.0.7.2/24")};
    enum weft_policy policy = WEFT_POLICY_MESH_PLUGIN_2026_01;
    struct choice choice = choose(policy, local, 2, remote, 2, 0, true);
    ck_assert_int_eq(choice.status, WEFT_ERR_ROUTE);
    ck_assert_str_eq(weft_phase_name(choice.error.phase), "route");
    ck_assert_int_eq(choose(policy, remote, 2, local, 2, 0, false).status,
                     WEFT_ERR_ROUTE);
    /* The wider netmask of the connector alone decides. */
    local[1] = mlx5_port("p1", 1, "10.0.1.1/16");
    choice = choose(policy, local, 2, remote, 2, 0, true);
    expect_rail(&choice, 0, 1, 1, 2, 2, 4096);
    ck_assert_int_eq(choose(policy, local, 0, remote, 2, 0, true).status, WEFT_ERR_ROUTE);
}
END_TEST

/* Its first search is among fast ports of the connector, whatever the order of the listener's
 * addresses. */
START_TEST(the_plugin_looks_at_fast_ports_first)
{
    static const struct {
        double gbps; /* of p0 */
        bool is_active;
        uint32_t port;
    } rows[] = {{100, true, 0},  {50, true, 0}, {40, true, 0},
                {37.5, true, 1}, {10, true, 1}, {100, false, 1}};
    enum weft_policy policy = WEFT_POLICY_MESH_PLUGIN_2026_01;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rdma_port_facts local[] = {mlx5_port("p0", 0, "10.0.0.1/24"),
                                          mlx5_port("p1", 1, "10.0.1.1/24")};
        struct rdma_port_facts remote[] = {mlx5_port("p0", 0, "10.0.0.2/24"),
                                           mlx5_port("p1", 1, "10.0.1.2/24")};
        struct choice choice;

        local[0].rate_bps = (uint64_t)(rows[i].gbps * 1e9);
        local[0].is_active = rows[i].is_active;
        choice = choose(policy, local, 2, remote, 2, 0, true);
        expect_rail(&choice, 0, rows[i].port, rows[i].port, 2, 2, 4096);
        choice = choose(policy, remote, 2, local, 2, 0, false);
        expect_rail(&choice, 0, rows[i].port, rows[i].port, 2, 2, 4096);
        /* It is used if there is no fast port. */
        choice = choose(policy, local, 1, remote, 2, 0, true);
        expect_rail(&choice, 0, 0, 0, 2, 2, 4096);
    }
}
END_TEST

START_TEST(the_plugin_tells_16_bits_of_a_number)
{
    ck_assert_uint_eq(rdma_sent_qpn(WEFT_POLICY_MESH_PLUGIN_2026_01, 0x12347), 0x2347);
    ck_assert_uint_eq(rdma_sent_qpn(WEFT_POLICY_MESH_PLUGIN_2026_01, 0xffff), 0xffff);
    ck_assert_uint_eq(rdma_sent_qpn(WEFT_POLICY_NCCL_2_25, 0x12347), 0x12347);
    ck_assert_uint_eq(rdma_sent_qpn(WEFT_POLICY_WEFT, 0xffffff), 0xffffff);
}
END_TEST

START_TEST(the_plugin_hears_one_client_at_a_time)
{
    for (int i = 0; i < WEFT_N_POLICIES; i++) {
        ck_assert_int_eq(rdma_hears_one_client((enum weft_policy)i),
                         i == WEFT_POLICY_MESH_PLUGIN_2026_01);
    }
}
END_TEST

START_TEST(nccl_takes_what_the_list_of_hcas_names)
{
    static const struct {
        const char *list, *device;
        uint8_t port;
        bool opens;
    } cases[] = {
        {NULL, "mlx5_0", 1, true},
        {"", "mlx5_0", 1, true},
        {"^", "mlx5_0", 1, false},
        {"=", "mlx5_0", 1, true},
        {"mlx5_0", "mlx5_0", 1, true},
        {"mlx5_0", "mlx5_1", 1, false},
        {"mlx5_1", "mlx5_10", 1, true},
        {"=mlx5_1", "mlx5_10", 1, false},
        {"=mlx5_1", "mlx5_1", 1, true},
        {"mlx5", "mlx5_7", 2, true},
        {"mlx5_0:2", "mlx5_0", 1, false},
        {"mlx5_0:2", "mlx5_0", 2, true},
        {"a,b:2,c", "b", 2, true},
        {"a,b:2,c", "b", 1, false},
        {"^a,b", "b", 1, false},
        {"^a,b", "c", 1, true},
        {"^=a", "ab", 1, true},
        {"^=a", "a", 1, false},
        {",,b", "b", 1, true},
        {"^b:1", "b", 2, true},
        {"^b:2,c", "b", 2, false},
        {"=b:2,=c", "c", 1, false}, /* one '=' applies to all names */
        {"=b:2,=c", "b", 2, true},
        {"B", "b", 1, false},
        /* A list without a name contains everything. */
        {",", "b", 1, true},
        {"=,", "b", 1, true},
        {":1", "b", 2, true},
        {"^,", "b", 1, false},
        {"^=", "b", 1, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_msg(nccl_opens(cases[i].list, cases[i].device, cases[i].port) ==
                          cases[i].opens,
                      "%s: %s:%u", cases[i].list, cases[i].device, cases[i].port);
    }
}
END_TEST

/* NCCL_IB_MERGE_NICS is a number, of which only 0 forbids it. */
START_TEST(nccl_merges_nics_unless_a_setting_forbids_it)
{
    static const struct {
        const char *merge_nics, *merge_level;
        bool merges;
    } cases[] = {
        {NULL, NULL, true},   {"", NULL, true},    {"1", NULL, true},
        {"-1", NULL, true},   {"0", NULL, false},  {"00", NULL, false},
        {"0x0", NULL, false}, {"no", NULL, false}, {"0 # split", NULL, false},
        {NULL, "PORT", true}, {NULL, "SYS", true}, {NULL, "LOC", false},
        {"1", "LOC", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_msg(nccl_merges(cases[i].merge_nics, cases[i].merge_level) ==
                          cases[i].merges,
                      "%s %s", cases[i].merge_nics, cases[i].merge_level);
    }
}
END_TEST

/* NCCL_IB_SUBNET_PREFIX_LEN keeps cables apart whose subnets are in one /24. It does not count for
 * IPv6. */
START_TEST(nccl_2_30_compares_at_the_length_that_is_set)
{
    static const struct {
        const char *length;
        uint32_t port; /* of this end */
    } rows[] = {{NULL, 0}, {"", 0},   {"24", 0},  {"30", 1}, {"0x1e", 1},
                {"33", 0}, {"-1", 0}, {"abc", 0}, {"29", 0}};
    struct rdma_port_facts local[] = {mlx5_port("p0", 0, "10.0.0.1/30"),
                                      mlx5_port("p1", 1, "10.0.0.5/30")};
    struct rdma_port_facts remote[] = {mlx5_port("p0", 0, "10.0.0.6/30")};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rdma_gid_settings settings = {.subnet_len = rows[i].length};
        struct rdma_reason reasons[RDMA_REASONS_MAX];
        struct rdma_rail rail;
        uint32_t n;
        struct rdma_choice_input input = {
            .policy = WEFT_POLICY_NCCL_2_30_SUBNET_AWARE,
            .local = local,
            .n_local = 2,
            .remote = remote,
            .n_remote = 1,
            .is_connector = true,
            .gid = rdma_gid_rule(WEFT_POLICY_NCCL_2_30_SUBNET_AWARE, &settings)};

        ck_assert_int_eq(rdma_choose(&input, &rail, 1, &n, NULL), WEFT_OK);
        ck_assert_msg(rail.local_port == rows[i].port, "%s", rows[i].length);
        ck_assert_uint_gt(rdma_reasons(&input, &rail, 1, reasons), 1);
        if (rows[i].port == 1) {
            ck_assert_str_eq(reasons[1].text,
                             "left for the first device whose ports are all in a /30 of "
                             "the listener's first two GIDs");
        }
    }
}
END_TEST

/* Returns the reason for the GID of `local`, to which NCCL leads a connection. */
static const char *reason_of_gid(const struct rdma_port_facts *local,
                                 const struct rdma_gid_settings *settings, bool is_aware,
                                 const char *what, char text[192])
{
    enum weft_policy policy =
        is_aware ? WEFT_POLICY_NCCL_2_30_SUBNET_AWARE : WEFT_POLICY_NCCL_2_25;
    struct rdma_choice_input input = {.policy = policy,
                                      .local = local,
                                      .n_local = 1,
                                      .remote = local,
                                      .n_remote = 1,
                                      .gid = rdma_gid_rule(policy, settings)};
    struct rdma_reason reasons[RDMA_REASONS_MAX];
    struct rdma_rail rail;
    uint32_t n;

    ck_assert_int_eq(rdma_choose(&input, &rail, 1, &n, NULL), WEFT_OK);
    n = rdma_reasons(&input, &rail, 1, reasons);
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(reasons[i].what, what) == 0) {
            memcpy(text, reasons[i].text, 192); /* the last one of its kind */
        }
    }
    return text;
}

START_TEST(nccl_says_what_its_scan_found)
{
    static const struct rdma_gid_settings none = {0}, v6 = {.family = "AF_INET6"},
                                          far = {.range = "172.16.0.0/12"};
    struct rdma_port_facts self_assigned = mlx5_port("p0", 0, "169.254.1.1/16"),
                           usual = make_port("p0", 0), unique = make_port("p0", 0);
    char text[192];

    add_gid(&usual, 0, "10.0.0.1/24", V2);
    add_gid(&unique, 0, "fd00::1/64", V2);
    ck_assert_str_eq(reason_of_gid(&self_assigned, &none, false, "gid", text),
                     "slot 3: a scan from slot 0 on prefers IPv4, then RoCE v2");
    ck_assert_ptr_nonnull(strstr(reason_of_gid(&self_assigned, &v6, false, "gid", text),
                                 "slot 0: no IPv6 GID of RoCE v2 was found"));
    /* Slot 0 is used although it is not in the range. */
    ck_assert_ptr_nonnull(
        strstr(reason_of_gid(&usual, &far, false, "gid", text),
               "slot 0: no IPv4 GID of RoCE v2 was found in NCCL_IB_ADDR_RANGE"));
    /* IPv6 addresses are compared at /64. */
    ck_assert_ptr_nonnull(
        strstr(reason_of_gid(&unique, &v6, true, "device", text), " in a /64 of "));
    ck_assert_ptr_nonnull(
        strstr(reason_of_gid(&usual, &none, true, "device", text), " in a /24 of "));
}
END_TEST

/* Without a usable port at one end, no subnet is to blame. */
START_TEST(a_program_that_ignores_subnets_lacks_a_port)
{
    struct rdma_port_facts local = mlx5_port("p0", 0, "10.0.0.1/24");

    for (int p = 0; p < WEFT_N_POLICIES; p++) {
        bool needs_subnet = p == WEFT_POLICY_WEFT || p == WEFT_POLICY_MESH_PLUGIN_2026_01;
        struct choice choice = choose((enum weft_policy)p, &local, 1, &local, 0, 0, true);

        ck_assert_int_eq(choice.status, WEFT_ERR_ROUTE);
        ck_assert_int_eq(strstr(choice.error.message, "subnet") != NULL, needs_subnet);
    }
}
END_TEST

START_TEST(only_nccl_reads_the_list_of_hcas)
{
    static const bool opens[WEFT_N_POLICIES] = {[WEFT_POLICY_WEFT] = true,
                                                [WEFT_POLICY_MESH_PLUGIN_2026_01] = true,
                                                [WEFT_POLICY_MOONCAKE_2026_06] = true};

    for (int i = 0; i < WEFT_N_POLICIES; i++) {
        enum weft_policy policy = (enum weft_policy)i;

        ck_assert_int_eq(rdma_opens(policy, "mlx5_0", "mlx5_1", 1), opens[i]);
        ck_assert_int_eq(rdma_opens(policy, "mlx5_0", "mlx5_0", 1), true);
        ck_assert_int_eq(rdma_opens(policy, NULL, "mlx5_1", 1), true);
    }
}
END_TEST

START_TEST(weft_and_port_recovery_fail_over_and_only_one_keeps_rails)
{
    for (int i = 0; i < WEFT_N_POLICIES; i++) {
        const struct rdma_recovery *recovery = rdma_recovery((enum weft_policy)i);
        bool is_recovery = i == WEFT_POLICY_NCCL_2_29_PORT_RECOVERY;

        ck_assert_int_eq(recovery->fails_over, is_recovery || i == WEFT_POLICY_WEFT);
        ck_assert_int_eq(recovery->keeps_rails, is_recovery);
        ck_assert_uint_eq(recovery->attempts_max, is_recovery ? 5 : 0);
        ck_assert_int_eq(recovery->start_ns, is_recovery ? 200000000 : 0);
        ck_assert_int_eq(recovery->step_ns, is_recovery ? 4000000000 : 0);
    }
}
END_TEST

START_TEST(the_plugin_loses_patience_if_told_so)
{
    const struct rdma_patience patient = {.timeout = 18, .retry_cnt = 7, .rnr_retry = 7};
    static const char *const no[] = {NULL, "", "0", "yes"};
    struct rdma_patience patience = patient;

    rdma_lower_patience(WEFT_POLICY_NCCL_2_25, "1", &patience);
    rdma_lower_patience(WEFT_POLICY_WEFT, "1", &patience);
    ck_assert_mem_eq(&patience, &patient, sizeof(patience));
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
        rdma_lower_patience(WEFT_POLICY_MESH_PLUGIN_2026_01, no[i], &patience);
        ck_assert_mem_eq(&patience, &patient, sizeof(patience));
    }
    rdma_lower_patience(WEFT_POLICY_MESH_PLUGIN_2026_01, "1", &patience);
    ck_assert_uint_eq(patience.timeout, 14);
    ck_assert_uint_eq(patience.retry_cnt, 3);
    ck_assert_uint_eq(patience.rnr_retry, 3);
}
END_TEST

static const struct {
    enum weft_policy policy;
    enum weft_phase phase;
    int sys_errno;
    struct nccl_met_settings settings;
    const char *after; /* in the text; NULL if there is no text */
} hangs[] = {
    {WEFT_POLICY_WEFT, WEFT_PHASE_PROBE, 0, {0}, NULL},
    {WEFT_POLICY_WEFT, WEFT_PHASE_RTR, 110, {0}, NULL},
    {WEFT_POLICY_NCCL_2_25,
     WEFT_PHASE_PROBE,
     0,
     {0},
     " after 34 s with completion status 12"},
    {WEFT_POLICY_NCCL_2_25, WEFT_PHASE_PROBE, 0, {.timeout = "14"}, " after 0.5 s "},
    {WEFT_POLICY_NCCL_2_25,
     WEFT_PHASE_PROBE,
     0,
     {.timeout = "0x12", .retry_cnt = "1"},
     " 2.1 s "},
    {WEFT_POLICY_NCCL_2_25,
     WEFT_PHASE_PROBE,
     0,
     {.timeout = "", .retry_cnt = ""},
     " 34 s "},
    {WEFT_POLICY_NCCL_2_25, WEFT_PHASE_PROBE, 0, {.timeout = "0"}, "for ever"},
    {WEFT_POLICY_NCCL_2_25,
     WEFT_PHASE_PROBE,
     0,
     {.timeout = "99999999999999999999"},
     " 34 s "},
    {WEFT_POLICY_NCCL_2_25,
     WEFT_PHASE_PROBE,
     0,
     {.timeout = "99", .retry_cnt = "99"},
     "70369 s"},
    {WEFT_POLICY_NCCL_2_30_SUBNET_AWARE,
     WEFT_PHASE_RTR,
     110,
     {0},
     " about 95 s with errno 110"},
    {WEFT_POLICY_NCCL_2_25,
     WEFT_PHASE_RTR,
     110,
     {.step_retry_cnt = "0"},
     " about 1.0 s "},
    {WEFT_POLICY_NCCL_2_25, WEFT_PHASE_RTR, 110, {.step_retry_ms = "0"}, " about 35 s "},
    {WEFT_POLICY_NCCL_2_25, WEFT_PHASE_RTR, 22, {0}, NULL},
    {WEFT_POLICY_NCCL_2_25, WEFT_PHASE_DATA, 110, {0}, NULL},
    {WEFT_POLICY_MESH_PLUGIN_2026_01, WEFT_PHASE_PROBE, 0, {0}, " after 8.6 s "},
    {WEFT_POLICY_MESH_PLUGIN_2026_01,
     WEFT_PHASE_PROBE,
     0,
     {.fast_fail = "1"},
     " after 0.3 s "},
    {WEFT_POLICY_MESH_PLUGIN_2026_01, WEFT_PHASE_RTR, 110, {0}, " about 5.2 s "},
    {WEFT_POLICY_MOONCAKE_2026_06, WEFT_PHASE_PROBE, 0, {0}, " after 0.5 s "},
    {WEFT_POLICY_MOONCAKE_2026_06, WEFT_PHASE_RTR, 110, {0}, NULL},
};

/* These programs send no probe, or retry the step to RTR. Weft does the opposite. */
START_TEST(programs_hang_where_weft_gives_up)
{
    for (size_t i = 0; i < sizeof(hangs) / sizeof(hangs[0]); i++) {
        struct weft_error error = {.status = WEFT_OK};
        char text[200] = "";
        bool says;

        if (hangs[i].sys_errno != 0) {
            weft_fail_errno(&error, hangs[i].sys_errno, hangs[i].phase, "modify_qp");
        } else {
            weft_fail(&error, WEFT_ERR_TIMEOUT, hangs[i].phase, "no answer");
        }
        says =
            nccl_as_met(hangs[i].policy, &hangs[i].settings, &error, text, sizeof(text));
        ck_assert_int_eq(says, hangs[i].after != NULL);
        ck_assert_msg(hangs[i].after == NULL || strstr(text, hangs[i].after) != NULL,
                      "%zu: %s", i, text);
    }
    /* A probe that returned wrong data is no hang. */
    struct weft_error error = {.status = WEFT_OK};
    char text[200];
    weft_fail(&error, WEFT_ERR_DATA, WEFT_PHASE_PROBE, "other bytes");
    ck_assert(!nccl_as_met(WEFT_POLICY_NCCL_2_25, &(struct nccl_met_settings){0}, &error,
                           text, sizeof(text)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nccl/policies");
    TCase *others = tcase_create("others");
    tcase_add_test(others, nccl_2_25_pairs_by_channel_and_asks_nobody);
    tcase_add_test(others, nccl_2_25_merges_the_ports_of_a_nic);
    tcase_add_test(others, nccl_2_25_takes_what_either_end_chose);
    tcase_add_test(others, nccl_2_25_goes_on_without_a_usable_gid);
    tcase_add_test(others, nccl_2_30_moves_the_connector_to_the_listeners_subnet);
    tcase_add_test(others, nccl_2_30_takes_a_global_24_for_a_cable);
    tcase_add_test(others, nccl_2_30_needs_all_ports_of_a_nic_to_match);
    tcase_add_test(others, nccl_2_30_compares_ipv6_at_64);
    tcase_add_test(others, the_plugin_matches_subnets_and_takes_v1);
    tcase_add_test(others, the_plugin_uses_port_one_with_an_address);
    tcase_add_test(others, nccl_merges_nics_unless_a_setting_forbids_it);
    tcase_add_test(others, nccl_2_30_compares_at_the_length_that_is_set);
    tcase_add_test(others, nccl_says_what_its_scan_found);
    tcase_add_test(others, a_program_that_ignores_subnets_lacks_a_port);
    tcase_add_test(others, the_plugin_gives_up_without_a_match);
    tcase_add_test(others, the_plugin_looks_at_fast_ports_first);
    tcase_add_test(others, the_plugin_tells_16_bits_of_a_number);
    tcase_add_test(others, weft_and_port_recovery_fail_over_and_only_one_keeps_rails);
    tcase_add_test(others, the_plugin_hears_one_client_at_a_time);
    tcase_add_test(others, the_plugin_loses_patience_if_told_so);
    tcase_add_test(others, programs_hang_where_weft_gives_up);
    tcase_add_test(others, nccl_takes_what_the_list_of_hcas_names);
    tcase_add_test(others, only_nccl_reads_the_list_of_hcas);
    suite_add_tcase(suite, others);
    return suite_run(suite);
}
