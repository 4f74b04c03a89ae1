/* The plain-UDP wire of one port, on loopback addresses of this machine: datagrams that it sends,
 * refuses to send, and receives. */
#define _GNU_SOURCE
#include "backends/soft/udp.h"

#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/link.h"
#include "sim/packet.h"
#include "sim/stack_config.h"

enum { PROCESS = 3, PEER_QPN = PROCESS << SOFT_PROCESS_SHIFT | 77, HEADERS = 14 + 28 };

static struct linux_loop *loop;
static struct soft_engine *engine;
static struct sim_stack *stack;
static struct sim_port *port;
static struct soft_udp *udp;
static uint8_t net[2]; /* of the addresses 127.net.net.x, other for each process */
static int peer_fd;

/* ---- fixture ---- */

static struct sim_ip ip_at(uint8_t last)
{
    return sim_ip_v4(127, net[0], net[1], last);
}

static weft_status create(uint32_t process, struct soft_udp **out,
                          struct weft_error *error)
{
    const struct soft_udp_config config = {.engine = engine,
                                           .port = port,
                                           .stack = stack,
                                           .process = process,
                                           .rate_bps = 1000000000,
                                           .is_up = true};
    return soft_udp_create(&config, out, error);
}

static void setup(void)
{
    const struct sim_stack_config host = {.host = "a"};
    const struct sim_port_config netdev = {
        .host = "a", .name = "p0", .mac = 0x020000000001, .mtu_bytes = 4200};
    const struct sim_gid_config gids = {.n_slots = 16};
    struct weft_error error = {.status = WEFT_OK};
    net[0] = (uint8_t)(1 + getpid() % 15); /* soft/loopback.h uses 16 and more */
    net[1] = (uint8_t)(getpid() / 15);
    ck_assert_int_eq(linux_loop_create(1, &loop, &error), WEFT_OK);
    ck_assert_int_eq(soft_engine_create(loop, 1, NULL, &engine, &error), WEFT_OK);
    stack = sim_stack_create(engine->sim, &host);
    port = sim_port_create(engine->sim, &netdev);
    uint32_t ifindex = sim_stack_add_port(stack, port, &gids);
    const struct sim_prefix address = {.ip = ip_at(1), .prefix_len = 24};
    ck_assert_int_eq(sim_stack_add_address(stack, ifindex, &address), 0);
    ck_assert_msg(create(PROCESS, &udp, &error) == WEFT_OK, "%s", error.message);
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_port = htons(SOFT_UDP_PORT + PROCESS)};
    const struct sim_ip peer = ip_at(2);
    memcpy(&name.sin_addr, &peer.bytes[12], 4);
    peer_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(peer_fd, (struct sockaddr *)(void *)&name, sizeof name), 0);
}

static void teardown(void)
{
    close(peer_fd);
    sim_port_destroy(port);
    soft_udp_destroy(udp);
    sim_stack_destroy(stack);
    soft_engine_destroy(engine);
    linux_loop_destroy(loop);
}

static struct soft_udp_counters counters(void)
{
    struct soft_udp_counters out;
    soft_udp_counters(udp, &out);
    return out;
}

static struct sim_path path_to_peer(void)
{
    const struct sim_ip from = ip_at(1);
    const struct sim_ip to = ip_at(2);
    return (struct sim_path){.source_gid = sim_gid_of_ip(&from),
                             .destination_gid = sim_gid_of_ip(&to),
                             .hop_limit = 64,
                             .is_ipv4 = true,
                             .header_bytes = 28};
}

static struct sim_frame frame_on(const struct sim_path *path)
{
    static const uint8_t payload[8] = "payload";
    return (struct sim_frame){.path = sim_port_path(port, path),
                              .opcode = RC_SEND_ONLY,
                              .psn = 0x123456,
                              .dest_qpn = PEER_QPN,
                              .payload = payload,
                              .n_payload = sizeof payload};
}

static void send_frame(const struct sim_frame *frame)
{
    soft_enter(engine);
    port->outside.frame(port->outside.context, frame);
    soft_leave(engine);
}

/* ---- tests ---- */

/* The datagram is what follows the headers of the frame that the kernel completes: those with IPv4
 * id 0, over which its ICRC is computed. */
START_TEST(a_frame_leaves_as_a_datagram_with_its_icrc)
{
    const struct sim_path path = path_to_peer();
    const struct sim_frame frame = frame_on(&path);
    struct pollfd ready = {.fd = peer_fd, .events = POLLIN};
    uint8_t expected[256], got[256];
    struct sim_roce roce;
    sim_roce_of_frame(&frame, &roce);
    roce.sport = SOFT_UDP_PORT + PROCESS;
    roce.ipv4_id = 0;
    size_t n = sim_roce_encode(&roce, expected, sizeof expected);
    ck_assert_int_eq(sim_roce_decode(expected, n, &roce, NULL), SIM_PACKET_OK);
    send_frame(&frame);
    ck_assert_int_eq(poll(&ready, 1, 10000), 1);
    ck_assert_int_eq(recv(peer_fd, got, sizeof got, 0), (ssize_t)(n - HEADERS));
    ck_assert_mem_eq(got, expected + HEADERS, n - HEADERS);
    ck_assert_uint_eq(counters().tx_frames, 1);
}
END_TEST

/* Frames that no socket of the port can send: RoCE v1, of a VLAN, and from an address that the port
 * does not have. */
START_TEST(a_frame_without_a_socket_is_dropped)
{
    const struct sim_ip other = ip_at(9);
    struct sim_path path = path_to_peer();
    path.is_v1 = _i == 0;
    path.tag_bytes = _i == 1 ? 4 : 0;
    if (_i == 2) {
        path.source_gid = sim_gid_of_ip(&other);
    }
    const struct sim_frame frame = frame_on(&path);
    send_frame(&frame);
    ck_assert_uint_eq(counters().tx_dropped, 1);
    ck_assert_uint_eq(counters().tx_frames, 0);
}
END_TEST

/* The kernel sends nothing from a loopback address to an address beyond. */
START_TEST(a_frame_that_the_kernel_refuses_is_counted)
{
    const struct sim_ip beyond = sim_ip_v4(192, 0, 2, 1);
    struct sim_path path = path_to_peer();
    path.destination_gid = sim_gid_of_ip(&beyond);
    const struct sim_frame frame = frame_on(&path);
    send_frame(&frame);
    ck_assert_uint_eq(counters().tx_frames, 1);
    ck_assert_uint_eq(counters().tx_refused, 1);
}
END_TEST

/* A second process of the host cannot have the same UDP port; it can have the next. */
START_TEST(a_udp_port_is_of_one_process)
{
    struct weft_error error = {.status = WEFT_OK};
    struct soft_udp *second = NULL;
    ck_assert_int_eq(create(PROCESS, &second, &error), WEFT_ERR_ENVIRONMENT);
    ck_assert_int_eq(error.sys_errno, EADDRINUSE);
    ck_assert_ptr_null(second);
    weft_error_clear(&error);
    ck_assert_int_eq(create(PROCESS + 1, &second, &error), WEFT_OK);
    soft_udp_destroy(second);
}
END_TEST

static void send_to_port(const void *bytes, size_t n)
{
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_port = htons(SOFT_UDP_PORT + PROCESS)};
    const struct sim_ip own = ip_at(1);
    memcpy(&name.sin_addr, &own.bytes[12], 4);
    ck_assert_int_eq(
        sendto(peer_fd, bytes, n, 0, (struct sockaddr *)(void *)&name, sizeof name),
        (ssize_t)n);
}

/* Nothing is read between: the engine of this test has no thread. */
START_TEST(a_datagram_that_finds_no_room_is_counted)
{
    static const uint8_t bytes[60000];
    uint64_t n_room = counters().rx_buffer_bytes / sizeof bytes;
    ck_assert_uint_eq(counters().rx_socket_drops, 0);
    for (uint64_t i = 0; i <= n_room; i++) {
        send_to_port(bytes, sizeof bytes);
    }
    ck_assert_uint_gt(counters().rx_socket_drops, 0);
    ck_assert_uint_le(counters().rx_socket_drops, n_room);
}
END_TEST

START_TEST(a_datagram_that_is_no_packet_is_counted)
{
    send_to_port("noise", 5);
    for (int i = 0; i < 10000 && counters().rx_datagrams == 0; i++) {
        soft_enter(engine);
        soft_leave(engine);
        (void)poll(NULL, 0, 1);
    }
    ck_assert_uint_eq(counters().rx_datagrams, 1);
    ck_assert_uint_eq(counters().rx_frames, 1);
    ck_assert_uint_eq(counters().rx_refused, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("soft udp");
    TCase *tcase = tcase_create("udp");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_frame_leaves_as_a_datagram_with_its_icrc);
    tcase_add_loop_test(tcase, a_frame_without_a_socket_is_dropped, 0, 3);
    tcase_add_test(tcase, a_frame_that_the_kernel_refuses_is_counted);
    tcase_add_test(tcase, a_udp_port_is_of_one_process);
    tcase_add_test(tcase, a_datagram_that_finds_no_room_is_counted);
    tcase_add_test(tcase, a_datagram_that_is_no_packet_is_counted);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
