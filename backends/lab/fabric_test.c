/* Builds fabrics in plain namespaces, without RDMA devices, on any kernel with veth. */
#define _GNU_SOURCE
#include "backends/lab/fabric.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <linux/if.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/rxe/backend.h"
#include "base/check.h"
#include "base/suite_testing.h"

/* ---- two hosts, one cable, one port without a cable ---- */

static struct io_prefix addresses[2][2];
static struct world_port ports[2][2];
static struct world_host hosts[2];
static struct world_cable cable;
static struct world_spec spec;

static void make_spec(void)
{
    static const char *const texts[2][2] = {{"192.168.101.1/24", "10.1.0.1/30"},
                                            {"192.168.101.2/24", "10.1.0.2/30"}};

    memset(hosts, 0, sizeof(hosts));
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            bool ok = io_prefix_parse(texts[i][j], &addresses[i][j]);

            weft_check(ok);
        }
        ports[i][0] = (struct world_port){.name = "p0",
                                          .port = 1,
                                          .mtu_bytes = 9000,
                                          .addresses = addresses[i],
                                          .n_addresses = 2};
        ports[i][1] = (struct world_port){.name = "c0.1", .port = 1, .mtu_bytes = 1500};
        hosts[i] =
            (struct world_host){.name = i == 0 ? "titanic" : "iceberg",
                                .ports = ports[i],
                                .n_ports = i == 0 ? 2 : 1,
                                .forward_accept = true,
                                .memlock_bytes = INT64_MAX,
                                .management_ip = io_ip_v4(10, 0, 0, (uint8_t)(i + 1))};
    }
    hosts[1].sysctl.arp_ignore = 1;
    cable = (struct world_cable){.ends = {{.node = 0}, {.node = 1}},
                                 .rate_bps = 100000000000,
                                 .delay_ps = 1000000,
                                 .up = true};
    spec = (struct world_spec){.hosts = hosts,
                               .n_hosts = 2,
                               .cables = &cable,
                               .n_cables = 1,
                               .management = {.exists = true, .prefix_len = 24}};
}

/* Returns true if this user and this kernel can have namespaces and veth. */
static bool can_build(void)
{
    struct lab_fabric fabric;
    struct weft_error error = {0};

    make_spec();
    if (lab_fabric_create(&spec, LAB_NAMESPACES, LAB_NO_DEVICES, &fabric, &error) !=
        WEFT_OK) {
        printf("SKIP rxe fabric: %s; enable with: run as root\n", error.message);
        return false;
    }
    lab_fabric_destroy(&fabric);
    return true;
}

static int count_namespaces(void)
{
    DIR *folder = opendir(LAB_NETNS_DIR);
    struct dirent *entry;
    char prefix[32];
    int n = 0;

    snprintf(prefix, sizeof(prefix), "%s%d-", LAB_NAME_PREFIX, (int)getpid());
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        n += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return n;
}

/* Reads a setting in /proc of a host's namespace. */
static int setting_in(const struct lab_fabric *fabric, uint32_t host, const char *path)
{
    FILE *file;
    int value = -1;

    ck_assert_int_eq(lab_place_enter(&fabric->hosts[host].place), 0);
    file = fopen(path, "r");
    lab_fabric_go_home(fabric);
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%d", &value), 1);
    fclose(file);
    return value;
}

/* ---- tests ---- */

START_TEST(a_fabric_comes_and_goes)
{
    struct lab_fabric fabric;
    struct weft_error error = {0};

    make_spec();
    ck_assert_int_eq(
        lab_fabric_create(&spec, LAB_NAMESPACES, LAB_NO_DEVICES, &fabric, &error),
        WEFT_OK);
    ck_assert_int_eq(count_namespaces(), 3); /* two hosts, and one for the bridge */
    ck_assert_uint_ne(netlink_ifindex(fabric.hosts[0].place.route_fd, "p0"), 0);
    ck_assert_uint_ne(netlink_ifindex(fabric.hosts[0].place.route_fd, "c0.1"), 0);
    ck_assert_uint_ne(netlink_ifindex(fabric.hosts[1].place.route_fd, "p0"), 0);
    ck_assert_uint_eq(netlink_ifindex(fabric.hosts[1].place.route_fd, "c0.1"), 0);
    ck_assert_uint_ne(netlink_ifindex(fabric.hosts[1].place.route_fd, "mgmt0"), 0);
    ck_assert_int_eq(setting_in(&fabric, 1, "/proc/sys/net/ipv4/conf/default/arp_ignore"),
                     1);
    ck_assert_int_eq(setting_in(&fabric, 0, "/proc/sys/net/ipv4/conf/default/arp_ignore"),
                     0);
    lab_fabric_destroy(&fabric);
    ck_assert_int_eq(count_namespaces(), 0);
}
END_TEST

START_TEST(a_second_address_of_the_same_is_refused_by_the_kernel)
{
    struct lab_fabric fabric;
    struct weft_error error = {0};

    make_spec();
    addresses[0][1] = addresses[0][0];
    ck_assert_int_eq(
        lab_fabric_create(&spec, LAB_NAMESPACES, LAB_NO_DEVICES, &fabric, &error),
        WEFT_ERR_SYSTEM);
    ck_assert_int_eq(error.sys_errno, EEXIST);
    ck_assert_str_eq(weft_phase_name(error.phase), "port");
    ck_assert_int_eq(count_namespaces(), 0); /* a failure removes what was built */
}
END_TEST

START_TEST(faults_of_links_come_and_go)
{
    struct world_fault fault = {.kind = WORLD_FAULT_DOWN, .has_port = true};
    struct lab_fabric fabric;
    struct weft_error error = {0};

    make_spec();
    ck_assert_int_eq(
        lab_fabric_create(&spec, LAB_NAMESPACES, LAB_NO_DEVICES, &fabric, &error),
        WEFT_OK);
    ck_assert_int_eq(lab_fault_apply(&fabric, &fault, false), 0);
    ck_assert_int_eq(lab_fault_apply(&fabric, &fault, true), 0);
    fault.kind = WORLD_FAULT_MTU;
    fault.size_bytes = 1500;
    ck_assert_int_eq(lab_fault_apply(&fabric, &fault, false), 0);
    fault.kind = WORLD_FAULT_ADDR_DEL;
    fault.address = addresses[0][1];
    ck_assert_int_eq(lab_fault_apply(&fabric, &fault, false), 0);
    ck_assert_int_eq(lab_fault_apply(&fabric, &fault, false), EADDRNOTAVAIL);
    ck_assert_int_eq(lab_fault_apply(&fabric, &fault, true), 0);
    fault.kind = WORLD_FAULT_ECN;
    ck_assert_int_eq(lab_fault_apply(&fabric, &fault, false), EOPNOTSUPP);
    lab_fabric_destroy(&fabric);
}
END_TEST

/* Returns true if the first port of a host has a carrier (netdevice(7): IFF_LOWER_UP). */
static bool has_carrier(const struct lab_fabric *fabric, uint32_t host)
{
    struct ifinfomsg link = {0};
    _Alignas(8) uint8_t answer[16384];
    struct netlink_request request;
    int fd = fabric->hosts[host].place.route_fd;
    uint32_t seq;
    size_t n = 0;

    netlink_begin(&request, RTM_GETLINK, 0, &link, sizeof(link));
    netlink_put_text(&request, IFLA_IFNAME, "p0");
    ck_assert_int_eq(netlink_send(fd, &request, &seq), 0);
    ck_assert_int_eq(netlink_receive(fd, seq, answer, sizeof(answer), &n), 0);
    ck_assert_uint_ge(n, NLMSG_SPACE(sizeof(link)));
    memcpy(&link, answer + NLMSG_HDRLEN, sizeof(link));
    return (link.ifi_flags & IFF_LOWER_UP) != 0;
}

/* A cable has one state, whichever end a fault names, as on the simulated one. */
START_TEST(either_end_takes_a_cable_up)
{
    const struct {
        bool starts_up, is_ended; /* is_ended: by the end of the `down`, not by an `up` */
        uint32_t down, up;        /* the ends that the faults name */
    } cases[] = {{true, false, 0, 0}, {true, false, 0, 1},  {true, false, 1, 0},
                 {true, true, 1, 1},  {false, false, 0, 0}, {false, false, 0, 1}};

    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        struct world_fault down = {
            .kind = WORLD_FAULT_DOWN, .has_port = true, .host = cases[i].down};
        struct world_fault up = {
            .kind = WORLD_FAULT_UP, .has_port = true, .host = cases[i].up};
        struct lab_fabric fabric;
        struct weft_error error = {0};

        make_spec();
        cable.up = cases[i].starts_up;
        ck_assert_int_eq(
            lab_fabric_create(&spec, LAB_NAMESPACES, LAB_NO_DEVICES, &fabric, &error),
            WEFT_OK);
        ck_assert_int_eq(has_carrier(&fabric, 0), cases[i].starts_up);
        ck_assert_int_eq(lab_fault_apply(&fabric, &down, false), 0);
        ck_assert(!has_carrier(&fabric, 0) && !has_carrier(&fabric, 1));
        ck_assert_int_eq(
            lab_fault_apply(&fabric, cases[i].is_ended ? &down : &up, cases[i].is_ended),
            0);
        ck_assert(has_carrier(&fabric, 0) && has_carrier(&fabric, 1));
        lab_fabric_destroy(&fabric);
    }
}
END_TEST

START_TEST(a_kernel_without_netem_or_rdma_says_so)
{
    const struct netlink_impairment slow = {.delay_ns = 10000000};
    struct lab_fabric fabric;
    struct weft_error error = {0};
    int rdma_fd = -1;
    int result;

    make_spec();
    ck_assert_int_eq(
        lab_fabric_create(&spec, LAB_NAMESPACES, LAB_NO_DEVICES, &fabric, &error),
        WEFT_OK);
    result = netlink_set_netem(fabric.hosts[0].place.route_fd, "p0", &slow);
    ck_assert(result == 0 || result == ENOENT || result == EOPNOTSUPP);
    result = netlink_open(NETLINK_RDMA, &rdma_fd);
    ck_assert(result == 0 || result == EPROTONOSUPPORT);
    if (result == 0) {
        ck_assert_int_eq(netlink_delete_rdma(rdma_fd, "weft-no-such"), ENODEV);
        close(rdma_fd);
    }
    lab_fabric_destroy(&fabric);
}
END_TEST

START_TEST(cleanup_leaves_the_living_alone)
{
    struct lab_fabric fabric;
    struct weft_error error = {0};

    make_spec();
    ck_assert_int_eq(
        lab_fabric_create(&spec, LAB_NAMESPACES, LAB_NO_DEVICES, &fabric, &error),
        WEFT_OK);
    lab_cleanup(NULL);
    ck_assert_int_eq(count_namespaces(), 3);
    lab_fabric_destroy(&fabric);
}
END_TEST

START_TEST(what_cannot_be_expressed_is_named)
{
    static const struct io_prefix ipv6 = {.ip.bytes = {0xfd, [15] = 1}, .prefix_len = 64};
    struct world_fault fault = {.kind = WORLD_FAULT_GID_DELETE};
    struct weft_error error = {0};

    make_spec();
    ck_assert_int_eq(rxe_can_express(&spec, &error), WEFT_OK);
    spec.faults = &fault;
    spec.n_faults = 1;
    ck_assert_int_eq(rxe_can_express(&spec, &error), WEFT_ERR_UNSUPPORTED);
    ck_assert_str_eq(error.message, "backend rxe has no fault: gid_delete");
    make_spec();
    cable.path_limit_bytes = 1500;
    weft_error_clear(&error);
    ck_assert_int_eq(rxe_can_express(&spec, &error), WEFT_ERR_UNSUPPORTED);
    ck_assert_str_eq(error.message, "backend rxe has no path_limit: titanic");
    make_spec();
    ports[0][0].addresses = &ipv6;
    ports[0][0].n_addresses = 1;
    fault = (struct world_fault){
        .kind = WORLD_FAULT_MTU, .has_port = true, .size_bytes = 1280};
    spec.faults = &fault;
    spec.n_faults = 1;
    weft_error_clear(&error);
    ck_assert_int_eq(rxe_can_express(&spec, &error), WEFT_OK);
    fault.size_bytes = 1279;
    ck_assert_int_eq(rxe_can_express(&spec, &error), WEFT_ERR_UNSUPPORTED);
    ck_assert_str_eq(error.message, "backend rxe has no IPv6 with an MTU below 1280: p0");
    spec.n_faults = 0;
    ports[0][0].mtu_bytes = 1279;
    weft_error_clear(&error);
    ck_assert_int_eq(rxe_can_express(&spec, &error), WEFT_ERR_UNSUPPORTED);
    ck_assert_str_eq(error.message, "backend rxe has no IPv6 with an MTU below 1280: p0");
    make_spec();
    ports[0][0].vlan_id = 5;
    weft_error_clear(&error);
    ck_assert_int_eq(rxe_can_express(&spec, &error), WEFT_ERR_UNSUPPORTED);
    ck_assert_str_eq(error.message, "backend rxe has no VLAN: p0");
}
END_TEST

START_TEST(good_cables_get_no_qdisc_and_bad_ones_their_own)
{
    struct netlink_impairment got;

    make_spec();
    lab_base_impairment(&cable, 9000, false, &got);
    ck_assert_int_eq(got.delay_ns, 0);
    ck_assert_uint_eq(got.rate_bps, 0);
    cable.delay_ps = 10000000000; /* 10 ms */
    cable.rate_bps = 1000000000;
    cable.impairment.loss_ppb = 10000000;
    cable.queue_bytes = 1 << 20;
    lab_base_impairment(&cable, 9000, false, &got);
    ck_assert_int_eq(got.delay_ns, 10000000);
    ck_assert_uint_eq(got.rate_bps, 1000000000);
    ck_assert_uint_eq(got.random.loss_ppb, 10000000);
    ck_assert_uint_eq(got.queue_packets, 117);
}
END_TEST

START_TEST(cables_are_exact_where_time_is_virtual)
{
    struct netlink_impairment got;

    make_spec();
    lab_base_impairment(&cable, 9000, true, &got);
    ck_assert_int_eq(got.delay_ns, 1000);
    ck_assert_uint_eq(got.rate_bps, 100000000000);
}
END_TEST

/* Sends a request for the loopback interface and does not wait for its answer. */
static void ask_and_go(int fd, uint16_t flags)
{
    struct netlink_request request;
    uint32_t seq;

    netlink_begin(&request, RTM_GETLINK, flags,
                  &(struct ifinfomsg){.ifi_family = AF_UNSPEC}, sizeof(struct ifinfomsg));
    netlink_put_text(&request, IFLA_IFNAME, "lo");
    ck_assert_int_eq(netlink_send(fd, &request, &seq), 0);
}

/* As after a request whose answer did not come within 10 s. */
START_TEST(a_late_answer_is_not_that_of_the_next_request)
{
    struct netlink_counters counters;
    int fd;

    ck_assert_int_eq(netlink_open(NETLINK_ROUTE, &fd), 0);
    ask_and_go(fd, 0);
    ck_assert_uint_eq(netlink_ifindex(fd, "weft-no-such"), 0);
    ask_and_go(fd, NLM_F_ACK);
    ck_assert_int_ne(netlink_delete_link(fd, "weft-no-such"), 0);
    ask_and_go(fd, NLM_F_ACK);
    ck_assert_int_eq(netlink_counters(fd, "weft-no-such", &counters), ENODEV);
    ck_assert_uint_ne(netlink_ifindex(fd, "lo"), 0);
    close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backends/lab/fabric");
    TCase *pure = tcase_create("plans");
    TCase *built = tcase_create("namespaces");

    tcase_add_test(pure, what_cannot_be_expressed_is_named);
    tcase_add_test(pure, good_cables_get_no_qdisc_and_bad_ones_their_own);
    tcase_add_test(pure, cables_are_exact_where_time_is_virtual);
    tcase_add_test(pure, a_late_answer_is_not_that_of_the_next_request);
    suite_add_tcase(suite, pure);
    if (can_build()) {
        tcase_set_timeout(built, 60);
        tcase_add_test(built, a_fabric_comes_and_goes);
        tcase_add_test(built, a_second_address_of_the_same_is_refused_by_the_kernel);
        tcase_add_test(built, faults_of_links_come_and_go);
        tcase_add_test(built, either_end_takes_a_cable_up);
        tcase_add_test(built, a_kernel_without_netem_or_rdma_says_so);
        tcase_add_test(built, cleanup_leaves_the_living_alone);
        suite_add_tcase(suite, built);
    }
    return suite_run(suite);
}
