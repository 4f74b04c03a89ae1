/* A host on a netdev in a network namespace: addresses that come and go, reports that the kernel
 * lost, and frames that are not for this netdev. The linker's --wrap puts the functions called
 * __wrap_ in the place of those that they are named after. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/linux/netns_testing.h"
#include "backends/soft/device.h"
#include "backends/soft/follow.h"
#include "backends/soft/host.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "sim/packet.h"

#ifndef IPV6_FREEBIND
#define IPV6_FREEBIND 78 /* linux/in6.h, since 4.15 */
#endif

enum { ROCE_PORT = 4791, N_SLOTS = 16, VLAN = 5 };

#define LIMIT_NS INT64_C(20000000000)

static struct io_prefix addresses[2];
static struct world_port port;
static struct world_host described;
static struct world_spec spec;
static struct world_setting settings[1];

static int here, there, home; /* namespaces */
static struct linux_loop *loop;
static struct soft_host *host; /* NULL if it could not be created */
static struct io_device *device;

/* ---- fixture ---- */

/* The netdev has only the first of the host's two addresses yet. */
static void describe(void)
{
    addresses[0] = (struct io_prefix){.ip = io_ip_v4(10, 77, 0, 1), .prefix_len = 24};
    addresses[1] = (struct io_prefix){.ip = {{0xfd, [15] = 1}}, .prefix_len = 64};
    port = (struct world_port){.name = "p0",
                               .port = 1,
                               .rate_bps = 100000000000,
                               .mtu_bytes = 1500,
                               .addresses = addresses,
                               .n_addresses = 2};
    described =
        (struct world_host){.name = "left",
                            .profile = WEFT_PROFILE_HNS_HIP08, /* of N_SLOTS GIDs */
                            .ports = &port,
                            .n_ports = 1,
                            .memlock_bytes = INT64_MAX};
    spec = (struct world_spec){.seed = 1, .hosts = &described, .n_hosts = 1};
}

static weft_status create_host(const char *wire, struct weft_error *error)
{
    settings[0] = (struct world_setting){"WEFT_SOFT_WIRE", wire};
    const struct soft_host_config config = {.env = {.name = "left",
                                                    .netns_fd = -1,
                                                    .only_given_settings = true,
                                                    .settings = settings,
                                                    .n_settings = 1},
                                            .spec = &spec};
    return soft_host_create(loop, &config, &host, error);
}

static void open_host(const char *wire)
{
    struct weft_error error = {.status = WEFT_OK};
    ck_assert_msg(create_host(wire, &error) == WEFT_OK, "%s", error.message);
    device = soft_host_env(host)->devices[0];
}

static void setup(void)
{
    struct weft_error error = {.status = WEFT_OK};
    describe();
    home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    here = netns_testing_create();
    there = netns_testing_create();
    netns_testing_veth(here, "p0", there, "p0", 1500);
    netns_testing_address(here, "p0", "10.77.0.1/24");
    ck_assert_int_eq(setns(here, CLONE_NEWNET), 0);
    ck_assert_int_eq(linux_loop_create(1, &loop, &error), WEFT_OK);
}

static void teardown(void)
{
    soft_host_destroy(host);
    host = NULL;
    linux_loop_destroy(loop);
    ck_assert_int_eq(setns(home, CLONE_NEWNET), 0);
    close(here);
    close(there);
    close(home);
}

/* Waits until `is_so(of)`, which the engine's thread brings about. */
static bool eventually(bool (*is_so)(const char *of), const char *of)
{
    weft_ns limit = linux_loop_now(loop) + LIMIT_NS;
    while (!is_so(of)) {
        if (linux_loop_now(loop) > limit) {
            return false;
        }
        (void)poll(NULL, 0, 1);
    }
    return true;
}

/* Returns true if a socket has the RoCE port at this address, even if the address does not
 * exist. */
static bool is_bound(const char *address)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(ROCE_PORT)};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(ROCE_PORT)};
    bool is_v4 = inet_pton(AF_INET, address, &v4.sin_addr) == 1;
    const int one = 1;
    int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert(is_v4 || inet_pton(AF_INET6, address, &v6.sin6_addr) == 1);
    ck_assert_int_eq(setsockopt(fd, is_v4 ? IPPROTO_IP : IPPROTO_IPV6,
                                is_v4 ? IP_FREEBIND : IPV6_FREEBIND, &one, sizeof one),
                     0);
    int result = is_v4 ? bind(fd, (struct sockaddr *)(void *)&v4, sizeof v4)
                       : bind(fd, (struct sockaddr *)(void *)&v6, sizeof v6);
    ck_assert(result == 0 || errno == EADDRINUSE);
    close(fd);
    return result != 0;
}

static bool is_free(const char *address)
{
    return !is_bound(address);
}

/* ---- addresses ---- */

static void delete_address(const char *netdev, const char *text)
{
    struct nl_sock *sock = nl_socket_alloc();
    struct rtnl_addr *address = rtnl_addr_alloc();
    struct nl_addr *local = NULL;
    ck_assert_int_eq(nl_connect(sock, NETLINK_ROUTE), 0);
    ck_assert_int_eq(nl_addr_parse(text, AF_UNSPEC, &local), 0);
    rtnl_addr_set_ifindex(address, (int)if_nametoindex(netdev));
    ck_assert_int_eq(rtnl_addr_set_local(address, local), 0);
    ck_assert_int_eq(rtnl_addr_delete(sock, address, 0), 0);
    nl_addr_put(local);
    rtnl_addr_put(address);
    nl_socket_free(sock);
}

/* The host has the GID from the start, but the kernel does not have the address, as during
 * duplicate address detection. */
START_TEST(an_address_has_a_socket_as_soon_as_it_can)
{
    open_host("udp");
    ck_assert(is_bound("10.77.0.1"));
    ck_assert(is_free("fd00::1"));
    netns_testing_address(here, "p0", "fd00::1/64");
    ck_assert(eventually(is_bound, "fd00::1"));
    delete_address("p0", "fd00::1/64");
    ck_assert(eventually(is_free, "fd00::1"));
    netns_testing_address(here, "p0", "fd00::1/64");
    ck_assert(eventually(is_bound, "fd00::1"));
    ck_assert(is_bound("10.77.0.1"));
}
END_TEST

START_TEST(addresses_that_go_leave_room_for_others)
{
    open_host("udp");
    for (unsigned i = 1; i <= 2 * N_SLOTS; i++) {
        char text[32], address[32];
        weft_format(address, sizeof address, "10.78.0.%u", i);
        weft_format(text, sizeof text, "%s/24", address);
        netns_testing_address(here, "p0", text);
        ck_assert_msg(eventually(is_bound, address), "%s", address);
        delete_address("p0", text);
        ck_assert_msg(eventually(is_free, address), "%s", address);
    }
}
END_TEST

static bool appears_before_reports; /* the second address */

int __real_soft_follow_create(struct soft_engine *engine,
                              const struct soft_follow_ops *ops, void *context,
                              struct soft_follow **out);
int __wrap_soft_follow_create(struct soft_engine *engine,
                              const struct soft_follow_ops *ops, void *context,
                              struct soft_follow **out);

int __wrap_soft_follow_create(struct soft_engine *engine,
                              const struct soft_follow_ops *ops, void *context,
                              struct soft_follow **out)
{
    if (appears_before_reports) {
        netns_testing_address(here, "p0", "fd00::1/64");
    }
    return __real_soft_follow_create(engine, ops, context, out);
}

START_TEST(an_address_that_appears_before_reports_begin_has_a_socket)
{
    appears_before_reports = true;
    open_host("udp");
    appears_before_reports = false;
    ck_assert(is_bound("fd00::1"));
}
END_TEST

/* ---- lost reports ---- */

/* Sets the receive buffers of the sockets that receive reports. */
static void set_report_room(int n_bytes)
{
    unsigned n = 0;
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_nl name = {.nl_family = AF_UNSPEC};
        socklen_t n_name = sizeof name;
        if (getsockname(fd, (struct sockaddr *)(void *)&name, &n_name) == 0 &&
            name.nl_family == AF_NETLINK && name.nl_groups != 0) {
            ck_assert_int_eq(
                setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &n_bytes, sizeof n_bytes), 0);
            n++;
        }
    }
    ck_assert_uint_gt(n, 0);
}

static struct soft_engine *engine_of_host(void)
{
    return weft_container_of(device, struct soft_device, io)->engine;
}

/* Makes the kernel lose all reports until end_loss(). The engine's thread waits meanwhile. */
static void begin_loss(void)
{
    soft_look(engine_of_host());
    set_report_room(1);
    for (unsigned i = 1; i <= 50; i++) {
        char text[32];
        weft_format(text, sizeof text, "10.99.0.%u/32", i);
        netns_testing_address(here, "lo", text);
    }
}

static void end_loss(void)
{
    set_report_room(1 << 20);
    soft_looked(engine_of_host());
}

static bool is_state(const char *name)
{
    struct ibv_port_attr attr;
    ck_assert_int_eq(device->ops->query_port(device, 1, &attr), 0);
    return (attr.state == IBV_PORT_ACTIVE) == (strcmp(name, "up") == 0);
}

START_TEST(what_was_lost_is_listed_again)
{
    open_host("udp");
    ck_assert(eventually(is_state, "up"));
    netns_testing_address(here, "p0", "10.77.0.2/24");
    netns_testing_address(here, "p0", "10.77.0.3/24");
    ck_assert(eventually(is_bound, "10.77.0.3"));
    begin_loss();
    delete_address("p0", "10.77.0.3/24");
    netns_testing_address(here, "p0", "10.77.0.4/24");
    netns_testing_up(here, "p0", false);
    end_loss();
    ck_assert(eventually(is_bound, "10.77.0.4"));
    ck_assert(eventually(is_free, "10.77.0.3"));
    ck_assert(eventually(is_state, "down"));
    ck_assert(is_bound("10.77.0.1"));
    ck_assert(is_bound("10.77.0.2"));
}
END_TEST

static void delete_link(const char *name)
{
    struct nl_sock *sock = nl_socket_alloc();
    struct rtnl_link *link = rtnl_link_alloc();
    ck_assert_int_eq(nl_connect(sock, NETLINK_ROUTE), 0);
    rtnl_link_set_name(link, name);
    ck_assert_int_eq(rtnl_link_delete(sock, link), 0);
    rtnl_link_put(link);
    nl_socket_free(sock);
}

START_TEST(a_netdev_whose_removal_was_lost_is_down)
{
    open_host("udp");
    ck_assert(eventually(is_state, "up"));
    begin_loss();
    delete_link("p0");
    end_loss();
    ck_assert(eventually(is_state, "down"));
}
END_TEST

/* True if the next list of addresses is to lack 10.77.0.2, as one can that was interrupted. */
static _Atomic bool interrupts;

ssize_t __real_recv(int fd, void *bytes, size_t n_bytes, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t n_bytes, int flags);

static bool is_listed_address(const struct nlmsghdr *message, const uint8_t ip[4])
{
    return message->nlmsg_type == RTM_NEWADDR &&
           (message->nlmsg_flags & NLM_F_MULTI) != 0 &&
           memmem(message, message->nlmsg_len, ip, 4) != NULL;
}

/* The kernel marks what follows in the list (net/netlink.h, nl_dump_check_consistent). */
ssize_t __wrap_recv(int fd, void *bytes, size_t n_bytes, int flags)
{
    static const uint8_t lost[4] = {10, 77, 0, 2};
    static bool is_interrupted;
    ssize_t got = __real_recv(fd, bytes, n_bytes, flags);
    unsigned n = got > 0 && interrupts ? (unsigned)got : 0;
    for (struct nlmsghdr *at = bytes; NLMSG_OK(at, n); at = NLMSG_NEXT(at, n)) {
        if (is_listed_address(at, lost)) {
            at->nlmsg_type = NLMSG_NOOP;
            is_interrupted = true;
        }
        if (is_interrupted) {
            at->nlmsg_flags |= NLM_F_DUMP_INTR;
        }
        if (is_interrupted && at->nlmsg_type == NLMSG_DONE) {
            is_interrupted = false;
            interrupts = false;
        }
    }
    return got;
}

static bool is_list_over(const char *of)
{
    (void)of;
    return !interrupts;
}

START_TEST(what_an_interrupted_list_lacks_is_not_removed)
{
    open_host("udp");
    netns_testing_address(here, "p0", "10.77.0.2/24");
    ck_assert(eventually(is_bound, "10.77.0.2"));
    begin_loss();
    interrupts = true;
    end_loss();
    ck_assert(eventually(is_list_over, NULL));
    soft_look(engine_of_host()); /* once its thread has handled the list's end */
    soft_looked(engine_of_host());
    ck_assert(is_bound("10.77.0.2"));
}
END_TEST

/* ---- others' reports and frames ---- */

START_TEST(a_netdev_that_leaves_a_bridge_stays_up)
{
    struct io_async_event event;
    open_host("udp");
    netns_testing_bridge(here, "br0", "p0");
    delete_link("br0");
    netns_testing_address(here, "p0", "10.77.0.2/24");
    ck_assert(eventually(is_bound, "10.77.0.2")); /* earlier reports are handled */
    while (device->ops->async_event(device, &event) == 0) {
        ck_assert_int_ne(event.type, IBV_EVENT_PORT_ERR);
    }
    ck_assert(is_state("up"));
}
END_TEST

static struct sim_nic_counters nic_counters(void)
{
    struct soft_udp_counters wire;
    struct sim_nic_counters nic;
    soft_host_counters(host, 0, &wire, &nic);
    return nic;
}

static bool has_error(const char *of)
{
    (void)of;
    return nic_counters().icrc_errors > 0;
}

struct sending {
    uint8_t bytes[256];
    size_t n;
};

static void send_there(void *context)
{
    const struct sending *sending = context;
    struct sockaddr_ll name = {.sll_family = AF_PACKET,
                               .sll_ifindex = (int)if_nametoindex("p0"),
                               .sll_halen = 6};
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(sendto(fd, sending->bytes, sending->n, 0,
                            (struct sockaddr *)(void *)&name, sizeof name),
                     (ssize_t)sending->n);
    close(fd);
}

static uint64_t mac_of_port(void)
{
    struct io_env *env = soft_host_env(host);
    const struct io_hostinfo *info = env->ops->hostinfo(env);
    uint64_t mac = 0;
    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        for (int k = 0; k < 6 && strcmp(info->netdevs[i].name, port.name) == 0; k++) {
            mac = mac << 8 | info->netdevs[i].mac[k];
        }
    }
    ck_assert_uint_ne(mac, 0);
    return mac;
}

/* The kernel removes the tag before a packet socket receives the frame. */
START_TEST(a_frame_of_a_vlan_is_for_another_netdev)
{
    static const uint8_t payload[8];
    struct sending tagged, plain;
    open_host("raw");
    struct sim_roce packet = {.destination_mac = mac_of_port(),
                              .source_mac = 0x020000000001,
                              .has_vlan = true,
                              .vlan_tci = VLAN,
                              .hop_limit = 64,
                              .opcode = RC_SEND_ONLY,
                              .pkey = SIM_PKEY_DEFAULT,
                              .payload = payload,
                              .n_payload = sizeof payload};
    const struct io_ip from = io_ip_v4(10, 77, 0, 2);
    memcpy(packet.source_gid.raw, from.bytes, sizeof from.bytes);
    memcpy(packet.destination_gid.raw, addresses[0].ip.bytes, sizeof from.bytes);
    tagged.n = sim_roce_encode(&packet, tagged.bytes, sizeof tagged.bytes);
    packet.has_vlan = false;
    plain.n = sim_roce_encode(&packet, plain.bytes, sizeof plain.bytes);
    plain.bytes[plain.n - 1] ^= 1; /* a wrong ICRC, which is counted apart */
    netns_testing_in(there, send_there, &tagged);
    netns_testing_in(there, send_there, &plain);
    ck_assert(eventually(has_error, NULL));
    ck_assert_uint_eq(nic_counters().rx_packets, 1);
}
END_TEST

/* The upper four bits of a QPN are the process's number within its host. */
START_TEST(queue_pairs_are_not_numbered_beyond_their_process)
{
    struct world_setting first = {"first_qpn", _i == 0 ? "983040" : "983039"};
    struct weft_error error = {.status = WEFT_OK};
    described.overrides = &first;
    described.n_overrides = 1;
    ck_assert_int_eq(create_host("udp", &error),
                     _i == 0 ? WEFT_ERR_UNSUPPORTED : WEFT_OK);
    ck_assert_str_eq(error.message,
                     _i == 0 ? "backend soft has no first_qpn above 983039: left" : "");
}
END_TEST

int main(void)
{
    const char *why;
    if (!netns_testing_available(&why)) {
        printf("SKIP soft netdev: %s\n", why);
        return 77;
    }
    Suite *suite = suite_create("soft netdev");
    TCase *tcase = tcase_create("netdev");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, an_address_has_a_socket_as_soon_as_it_can);
    tcase_add_test(tcase, an_address_that_appears_before_reports_begin_has_a_socket);
    tcase_add_test(tcase, addresses_that_go_leave_room_for_others);
    tcase_add_test(tcase, what_was_lost_is_listed_again);
    tcase_add_test(tcase, a_netdev_whose_removal_was_lost_is_down);
    tcase_add_test(tcase, what_an_interrupted_list_lacks_is_not_removed);
    tcase_add_test(tcase, a_netdev_that_leaves_a_bridge_stays_up);
    tcase_add_test(tcase, a_frame_of_a_vlan_is_for_another_netdev);
    tcase_add_loop_test(tcase, queue_pairs_are_not_numbered_beyond_their_process, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
