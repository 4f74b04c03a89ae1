#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "io/addr.h"
#include "io/hostinfo.h"
#include "io/verbs.h"

/* An address, its canonical form (RFC 5952), and its first and last two bytes. */
static const struct {
    const char *text, *canonical;
    uint8_t first[2], last[2];
} good[] = {
    {"10.0.0.1", "10.0.0.1", {0, 0}, {0, 1}},
    {"255.255.255.255", "255.255.255.255", {0, 0}, {255, 255}},
    {"0.0.0.0", "0.0.0.0", {0, 0}, {0, 0}},
    {"::ffff:192.168.1.2", "192.168.1.2", {0, 0}, {1, 2}},
    {"::", "::", {0, 0}, {0, 0}},
    {"::1", "::1", {0, 0}, {0, 1}},
    {"fe80::1", "fe80::1", {0xfe, 0x80}, {0, 1}},
    {"1::", "1::", {0, 1}, {0, 0}},
    {"FE80:0:0:0:0:0:0:Ab", "fe80::ab", {0xfe, 0x80}, {0, 0xab}},
    {"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1", {0x20, 0x01}, {0, 1}},
    {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1", {0x20, 0x01}, {0, 1}},
    {"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8", {0, 1}, {0, 8}},
    {"1:0:0:2:0:0:0:3", "1:0:0:2::3", {0, 1}, {0, 3}},
    {"64:ff9b::192.0.2.33", "64:ff9b::c000:221", {0, 0x64}, {2, 33}},
};

START_TEST(addresses_are_read_and_written_canonically)
{
    struct io_ip ip;
    char text[IO_IP_TEXT_BYTES];
    ck_assert_msg(io_ip_parse(good[_i].text, &ip), "%s", good[_i].text);
    ck_assert_mem_eq(ip.bytes, good[_i].first, 2);
    ck_assert_mem_eq(ip.bytes + 14, good[_i].last, 2);
    ck_assert_str_eq(io_ip_format(&ip, text, sizeof text), good[_i].canonical);
    struct io_ip again;
    ck_assert(io_ip_parse(text, &again));
    ck_assert(io_ip_equal(&ip, &again));
}
END_TEST

static const char *const bad[] = {
    "",
    "10.0.0",
    "10.0.0.256",
    "10.0.0.1.2",
    "10.0.0.01",
    "10.0.0.",
    "1000.0.0.1",
    "a.0.0.1",
    " 10.0.0.1",
    "10.0.0.1 ",
    ":",
    ":1::",
    "1:2:3",
    "1::2::3",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7::8:9",
    "12345::",
    "g::1",
    "1:2:3:4:5:6:7:",
    "::1%2",
    "fe80::1/64",
    "1:2:3:4:5:6:7::8",
    "::1.2.3",
    "1.2.3.4::",
};

START_TEST(what_is_no_address_changes_nothing)
{
    struct io_ip ip;
    memset(&ip, 0x5a, sizeof ip);
    ck_assert_msg(!io_ip_parse(bad[_i], &ip), "%s", bad[_i]);
    for (size_t i = 0; i < sizeof ip.bytes; i++) {
        ck_assert_uint_eq(ip.bytes[i], 0x5a);
    }
}
END_TEST

START_TEST(prefixes_need_a_length_that_fits)
{
    struct io_prefix prefix = {.prefix_len = 77};
    static const char *const no[] = {"10.0.0.1",    "10.0.0.1/",    "10.0.0.1/33",
                                     "10.0.0.1/-1", "10.0.0.1/2x",  "fe80::/129",
                                     "/24",         "10.0.0.1/0024"};
    for (size_t i = 0; i < WEFT_LENGTH(no); i++) {
        ck_assert_msg(!io_prefix_parse(no[i], &prefix), "%s", no[i]);
        ck_assert_uint_eq(prefix.prefix_len, 77);
    }
    ck_assert(io_prefix_parse("192.168.101.2/30", &prefix));
    ck_assert_uint_eq(prefix.prefix_len, 30);
    struct io_ip expected = io_ip_v4(192, 168, 101, 2);
    ck_assert(io_ip_equal(&prefix.ip, &expected));
    ck_assert(io_prefix_parse("fe80::5/128", &prefix));
    ck_assert_uint_eq(prefix.prefix_len, 128);
    ck_assert(io_prefix_parse("0.0.0.0/0", &prefix));
    ck_assert_uint_eq(prefix.prefix_len, 0);
}
END_TEST

static bool same(const char *a, const char *b, unsigned prefix_len)
{
    struct io_ip left, right;
    ck_assert(io_ip_parse(a, &left) && io_ip_parse(b, &right));
    bool answer = io_ip_same_subnet(&left, &right, prefix_len);
    ck_assert(io_ip_same_subnet(&right, &left, prefix_len) == answer);
    return answer;
}

START_TEST(subnets_are_compared_within_the_family)
{
    ck_assert(same("192.168.1.1", "192.168.1.254", 24));
    ck_assert(!same("192.168.1.1", "192.168.2.1", 24));
    ck_assert(same("192.168.1.1", "192.168.1.2", 30));
    ck_assert(!same("192.168.1.3", "192.168.1.4", 30));
    ck_assert(same("10.0.0.0", "10.0.0.1", 31));
    ck_assert(!same("10.0.0.1", "10.0.0.2", 32));
    ck_assert(same("10.0.0.1", "172.16.0.1", 0));
    ck_assert(same("fe80::1", "fe80::2", 64));
    ck_assert(!same("fe80::1", "fe80:0:0:1::1", 64));
    ck_assert(same("fd00::", "fd7f::", 9));
    ck_assert(!same("fd00::", "fd80::", 9));
    ck_assert(same("fd00::1", "fd00::1", 200)); /* clamped */
    ck_assert(!same("10.0.0.1", "::1", 0));
}
END_TEST

static struct io_ip ip_of(const char *text)
{
    struct io_ip ip;
    ck_assert(io_ip_parse(text, &ip));
    return ip;
}

START_TEST(kinds_of_addresses)
{
    static const struct {
        const char *text;
        bool v4, link_local, zero;
    } table[] = {
        {"10.0.0.1", true, false, false},    {"169.254.3.4", true, true, false},
        {"169.253.0.1", true, false, false}, {"0.0.0.0", true, false, true},
        {"::", false, false, true},          {"fe80::1", false, true, false},
        {"febf::1", false, true, false},     {"fec0::1", false, false, false},
        {"::1", false, false, false},
    };
    for (size_t i = 0; i < WEFT_LENGTH(table); i++) {
        struct io_ip ip = ip_of(table[i].text);
        ck_assert_msg(io_ip_is_v4(&ip) == table[i].v4, "%s", table[i].text);
        ck_assert_msg(io_ip_is_link_local(&ip) == table[i].link_local, "%s",
                      table[i].text);
        ck_assert_msg(io_ip_is_zero(&ip) == table[i].zero, "%s", table[i].text);
    }
    struct io_ip low = ip_of("10.0.0.1"), high = ip_of("10.0.0.2");
    ck_assert_int_lt(io_ip_compare(&low, &high), 0);
    ck_assert_int_gt(io_ip_compare(&high, &low), 0);
    ck_assert(!io_ip_equal(&low, &high));
}
END_TEST

START_TEST(netdevs_are_found_by_ifindex)
{
    struct io_netdev netdevs[] = {{.ifindex = 2}, {.ifindex = 5}};
    struct io_hostinfo info = {.netdevs = netdevs, .n_netdevs = 2};
    ck_assert_ptr_eq(io_hostinfo_netdev(&info, 5), &netdevs[1]);
    ck_assert_ptr_null(io_hostinfo_netdev(&info, 3));
}
END_TEST

START_TEST(names_are_the_manuals)
{
    static const char *const kinds[] = {
        "none",       "alloc_pd",  "dealloc_pd", "reg_mr",     "dereg_mr", "create_cq",
        "destroy_cq", "create_qp", "modify_qp",  "destroy_qp", "?"};
    for (int i = 0; i < (int)WEFT_LENGTH(kinds); i++) {
        ck_assert_str_eq(io_op_kind_name((enum io_op_kind)i), kinds[i]);
    }
    static const char *const states[] = {"RESET", "INIT", "RTR", "RTS",
                                         "SQD",   "SQE",  "ERR", "?"};
    for (int i = 0; i < (int)WEFT_LENGTH(states); i++) {
        ck_assert_str_eq(io_qp_state_name((enum ibv_qp_state)i), states[i]);
    }
    ck_assert_str_eq(io_wc_status_name(IBV_WC_SUCCESS), "SUCCESS");
    ck_assert_str_eq(io_wc_status_name(IBV_WC_WR_FLUSH_ERR), "WR_FLUSH_ERR");
    ck_assert_str_eq(io_wc_status_name(IBV_WC_REM_ACCESS_ERR), "REM_ACCESS_ERR");
    ck_assert_str_eq(io_wc_status_name(IBV_WC_RETRY_EXC_ERR), "RETRY_EXC_ERR");
    ck_assert_str_eq(io_wc_status_name(IBV_WC_RNR_RETRY_EXC_ERR), "RNR_RETRY_EXC_ERR");
    ck_assert_str_eq(io_wc_status_name(IBV_WC_GENERAL_ERR), "GENERAL_ERR");
    ck_assert_str_eq(io_wc_status_name(IBV_WC_TM_RNDV_INCOMPLETE), "TM_RNDV_INCOMPLETE");
    ck_assert_str_eq(io_wc_status_name(-1), "?");
    ck_assert_str_eq(io_wc_opcode_name(IBV_WC_SEND), "SEND");
    ck_assert_str_eq(io_wc_opcode_name(IBV_WC_RDMA_READ), "RDMA_READ");
    ck_assert_str_eq(io_wc_opcode_name(IBV_WC_RECV_RDMA_WITH_IMM), "RECV_RDMA_WITH_IMM");
    ck_assert_str_eq(io_wc_opcode_name(77), "?");
    ck_assert_str_eq(io_wr_opcode_name(IBV_WR_RDMA_WRITE_WITH_IMM),
                     "RDMA_WRITE_WITH_IMM");
    ck_assert_str_eq(io_wr_opcode_name(IBV_WR_SEND), "SEND");
    ck_assert_str_eq(io_wr_opcode_name(77), "?");
    ck_assert_str_eq(io_wc_status_name(24), "?");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("io/addr");
    TCase *tcase = tcase_create("addr");
    tcase_add_loop_test(tcase, addresses_are_read_and_written_canonically, 0,
                        (int)WEFT_LENGTH(good));
    tcase_add_loop_test(tcase, what_is_no_address_changes_nothing, 0,
                        (int)WEFT_LENGTH(bad));
    tcase_add_test(tcase, prefixes_need_a_length_that_fits);
    tcase_add_test(tcase, subnets_are_compared_within_the_family);
    tcase_add_test(tcase, kinds_of_addresses);
    tcase_add_test(tcase, netdevs_are_found_by_ifindex);
    tcase_add_test(tcase, names_are_the_manuals);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
