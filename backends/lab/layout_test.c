/* Two hosts in one namespace: packets to an address of this kernel still cross the cable. In a
 * namespace of the test's own, without RDMA devices. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/lab/fabric.h"
#include "base/check.h"
#include "base/suite_testing.h"

#define TITANIC "192.168.101.1"
#define ICEBERG "192.168.101.2"

static struct io_prefix addresses[2];
static struct world_port ports[2];
static struct world_host hosts[2];
static struct world_cable cable;
static struct world_spec spec;
static struct lab_fabric fabric;

static void build(void)
{
    struct weft_error error = {0};

    for (int i = 0; i < 2; i++) {
        bool ok = io_prefix_parse(i == 0 ? TITANIC "/24" : ICEBERG "/24", &addresses[i]);

        weft_check(ok);
        ports[i] = (struct world_port){.name = "p0",
                                       .port = 1,
                                       .mtu_bytes = 1500,
                                       .addresses = &addresses[i],
                                       .n_addresses = 1};
        hosts[i] =
            (struct world_host){.name = i == 0 ? "titanic" : "iceberg",
                                .ports = &ports[i],
                                .n_ports = 1,
                                .forward_accept = true,
                                .memlock_bytes = INT64_MAX,
                                .management_ip = io_ip_v4(10, 0, 0, (uint8_t)(i + 1))};
    }
    cable = (struct world_cable){
        .ends = {{.node = 0}, {.node = 1}}, .rate_bps = 100000000000, .up = true};
    spec = (struct world_spec){.hosts = hosts,
                               .n_hosts = 2,
                               .cables = &cable,
                               .n_cables = 1,
                               .management = {.exists = true, .prefix_len = 24}};
    ck_assert_int_eq(
        lab_fabric_create(&spec, LAB_ONE_NAMESPACE, LAB_NO_DEVICES, &fabric, &error),
        WEFT_OK);
}

static uint64_t sent_by(uint32_t host, const char *netdev)
{
    struct netlink_counters counters;

    ck_assert_int_eq(
        netlink_counters(fabric.hosts[host].place.route_fd, netdev, &counters), 0);
    return counters.tx_packets;
}

/* Makes a TCP connection to `to`, bound to `from` unless that is NULL. Returns 0 or an errno. */
static int call(const char *from, const char *to)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n = sizeof(at);
    int server = socket(AF_INET, SOCK_STREAM, 0);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    int error = 0;

    ck_assert_int_eq(inet_pton(AF_INET, to, &at.sin_addr), 1);
    if (bind(server, (struct sockaddr *)&at, n) != 0 || listen(server, 1) != 0 ||
        getsockname(server, (struct sockaddr *)&at, &n) != 0) {
        error = errno;
    }
    if (error == 0 && from != NULL) {
        struct sockaddr_in own = {.sin_family = AF_INET};

        ck_assert_int_eq(inet_pton(AF_INET, from, &own.sin_addr), 1);
        error = bind(client, (struct sockaddr *)&own, n) == 0 ? 0 : errno;
    }
    if (error == 0 && connect(client, (struct sockaddr *)&at, n) != 0) {
        error = errno;
    }
    close(client);
    close(server);
    return error;
}

static void rules(char *out, size_t n_bytes)
{
    FILE *pipe = popen("ip rule; ip -6 rule", "r");
    size_t n;

    ck_assert_ptr_nonnull(pipe);
    n = fread(out, 1, n_bytes - 1, pipe);
    out[n] = '\0';
    pclose(pipe);
}

START_TEST(what_is_sent_to_another_host_crosses_the_cable)
{
    const char *const titanic = fabric.hosts[0].ports[0].netdev;
    const char *const iceberg = fabric.hosts[1].ports[0].netdev;
    uint64_t before[2] = {sent_by(0, titanic), sent_by(1, iceberg)};

    /* SYN, ACK and FIN in one direction, SYN-ACK and more in the other, with and without a source
     * address. */
    ck_assert_int_eq(call(TITANIC, ICEBERG), 0);
    ck_assert_uint_ge(sent_by(0, titanic), before[0] + 2);
    ck_assert_uint_ge(sent_by(1, iceberg), before[1] + 1);
    before[0] = sent_by(0, titanic);
    ck_assert_int_eq(call(NULL, ICEBERG), 0);
    ck_assert_uint_ge(sent_by(0, titanic), before[0] + 2);
}
END_TEST

START_TEST(the_management_network_is_crossed_too)
{
    uint64_t before = sent_by(1, fabric.hosts[1].management);

    ck_assert_int_eq(call(NULL, "10.0.0.1"), 0);
    ck_assert_uint_ge(sent_by(1, fabric.hosts[1].management), before + 2);
}
END_TEST

START_TEST(a_port_that_is_down_reaches_nobody_until_it_is_up)
{
    const struct world_fault down = {.kind = WORLD_FAULT_DOWN, .has_port = true};

    ck_assert_int_eq(lab_fault_apply(&fabric, &down, false), 0);
    ck_assert_int_ne(call(TITANIC, ICEBERG), 0);
    ck_assert_int_eq(lab_fault_apply(&fabric, &down, true), 0);
    ck_assert_int_eq(call(TITANIC, ICEBERG), 0);
}
END_TEST

START_TEST(an_address_comes_and_goes_with_its_rules)
{
    struct world_fault fault = {
        .kind = WORLD_FAULT_ADDR_ADD, .has_port = true, .host = 1};
    char before[4096];
    char after[4096];
    bool ok = io_prefix_parse("192.168.101.9/24", &fault.address);

    ck_assert(ok);
    rules(before, sizeof(before));
    ck_assert_int_eq(lab_fault_apply(&fabric, &fault, false), 0);
    ck_assert_int_eq(call(TITANIC, "192.168.101.9"), 0);
    ck_assert_int_eq(lab_fault_apply(&fabric, &fault, true), 0);
    rules(after, sizeof(after));
    ck_assert_str_eq(before, after);
}
END_TEST

static void tear_down(void)
{
    lab_fabric_destroy(&fabric);
}

START_TEST(nothing_remains)
{
    char before[4096];
    char after[4096];

    rules(before, sizeof(before));
    build();
    lab_fabric_destroy(&fabric);
    rules(after, sizeof(after));
    ck_assert_str_eq(before, after);
}
END_TEST

static bool can_build(void)
{
    /* In its own namespace the test cannot damage this machine's routing. */
    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0) {
        printf("SKIP rxe layout: needs a network namespace; enable with: run as root\n");
        return false;
    }
    return true;
}

int main(void)
{
    Suite *suite = suite_create("backends/lab/layout");
    TCase *built = tcase_create("one namespace");
    TCase *bare = tcase_create("before and after");

    if (can_build()) {
        tcase_add_checked_fixture(built, build, tear_down);
        tcase_set_timeout(built, 60);
        tcase_add_test(built, what_is_sent_to_another_host_crosses_the_cable);
        tcase_add_test(built, the_management_network_is_crossed_too);
        tcase_add_test(built, a_port_that_is_down_reaches_nobody_until_it_is_up);
        tcase_add_test(built, an_address_comes_and_goes_with_its_rules);
        suite_add_tcase(suite, built);
        tcase_set_timeout(bare, 60);
        tcase_add_test(bare, nothing_remains);
        suite_add_tcase(suite, bare);
    }
    return suite_run(suite);
}
