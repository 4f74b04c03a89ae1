#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/stack_impl.h"
#include "sim/stack_testing.h"

#define MS ((weft_ns)1000000)
#define SECOND (1000 * MS)

static struct net net;

static void start(void)
{
    net_init(&net);
    net_add_host(&net, NULL);
    net_add_host(&net, NULL);
    net_cable(&net, 0, "10.0.0.1/24", 1, "10.0.0.2/24");
}

static void stop(void)
{
    net_fini(&net);
}

static int n_gid_changes;

static void on_gids(void *context, struct sim_port *port)
{
    ck_assert_ptr_eq(port, net.hosts[0].ports[0]);
    ck_assert_ptr_eq(context, &n_gid_changes);
    n_gid_changes++;
}

START_TEST(addresses_routes_and_gids_go_together)
{
    struct sim_stack *stack = net.hosts[0].stack;
    struct sim_port *port = net.hosts[0].ports[0];
    struct sim_prefix more = net_prefix("10.9.0.1/16");
    struct sim_gid gid;
    struct sim_hop hop;
    struct sim_ip far = net_ip("10.9.200.1");
    union ibv_gid more_gid = net_gid("10.9.0.1");

    n_gid_changes = 0;
    sim_stack_watch_gids(stack, port, on_gids, &n_gid_changes);
    ck_assert_uint_eq(sim_stack_ifindex(stack, port, 0), 2);
    ck_assert_uint_eq(sim_stack_gid_length(stack, port), 16);
    ck_assert_int_eq(sim_route_lookup(stack, &far, NULL, &hop), ENETUNREACH);
    ck_assert_int_eq(sim_stack_add_address(stack, 2, &more), 0);
    ck_assert_int_eq(sim_stack_add_address(stack, 2, &more), EEXIST);
    ck_assert_int_eq(sim_stack_add_address(stack, 77, &more), ENODEV);
    ck_assert_int_eq(n_gid_changes, 2); /* v1 and v2 */
    ck_assert_int_eq(sim_route_lookup(stack, &far, NULL, &hop), 0);
    ck_assert_int_eq(sim_stack_gid(stack, port, 5, &gid), 0);
    ck_assert_mem_eq(gid.gid.raw, more_gid.raw, 16);
    ck_assert_int_eq(gid.type, IBV_GID_TYPE_ROCE_V2);
    ck_assert(gid.valid && gid.ifindex == 2);
    ck_assert(sim_stack_owns_gid(stack, port, &more_gid, 0));
    struct sim_netdev_info info = sim_stack_netdev(stack, 0);
    ck_assert_uint_eq(info.n_addresses, 2);
    ck_assert_uint_eq(info.addresses[1].prefix_len, 16);
    ck_assert_str_eq(info.name, "p0");
    ck_assert(info.is_up && !info.is_management);
    ck_assert_uint_eq(info.speed_bps, 100000000000);

    ck_assert_int_eq(sim_stack_del_address(stack, 2, &more.ip), 0);
    ck_assert_int_eq(sim_stack_del_address(stack, 2, &more.ip), EADDRNOTAVAIL);
    ck_assert_int_eq(sim_stack_del_address(stack, 77, &more.ip), EADDRNOTAVAIL);
    ck_assert_int_eq(n_gid_changes, 4);
    ck_assert_int_eq(sim_route_lookup(stack, &far, NULL, &hop), ENETUNREACH);
    ck_assert_int_eq(sim_stack_gid(stack, port, 5, &gid), ENODATA);
    ck_assert(!sim_stack_owns_gid(stack, port, &more_gid, 0));
}
END_TEST

START_TEST(gids_drift_without_their_addresses)
{
    struct sim_stack *stack = net.hosts[0].stack;
    struct sim_port *port = net.hosts[0].ports[0];
    struct sim_ip ip = net_ip("10.0.0.1");
    struct sim_gid gid;
    sim_stack_gid_hold(stack, port, 3);
    ck_assert_int_eq(sim_stack_del_gid(stack, 2, &ip), 0);
    ck_assert_int_eq(sim_stack_del_gid(stack, 2, &ip), EADDRNOTAVAIL);
    ck_assert_int_eq(sim_stack_del_gid(stack, 9, &ip), EADDRNOTAVAIL);
    ck_assert_int_eq(sim_stack_gid(stack, port, 3, &gid), ENODATA);
    ck_assert_int_eq(sim_stack_add_gid(stack, 2, &ip), 0);
    ck_assert_int_eq(sim_stack_add_gid(stack, 2, &ip), EEXIST);
    ck_assert_int_eq(sim_stack_add_gid(stack, 9, &ip), ENODEV);
    ck_assert_int_eq(sim_stack_gid(stack, port, 3, &gid), ENODATA); /* still in use */
    ck_assert_int_eq(sim_stack_gid(stack, port, 4, &gid), 0);       /* slot 3 became 4 */
    sim_stack_gid_release(stack, port, 3);
    /* A port that this host's stack does not have. */
    struct sim_port *foreign = net_port(&net, 0);
    ck_assert_int_eq(sim_stack_gid(stack, foreign, 0, &gid), EINVAL);
    ck_assert_uint_eq(sim_stack_gid_length(stack, foreign), 0);
    ck_assert_uint_eq(sim_stack_ifindex(stack, foreign, 0), 0);
    sim_stack_gid_hold(stack, foreign, 0);
    sim_stack_gid_release(stack, foreign, 0);
}
END_TEST

START_TEST(a_full_gid_table_does_not_hinder_addresses)
{
    struct sim_stack *stack = net.hosts[0].stack;
    struct sim_prefix prefix = net_prefix("10.1.0.1/24");
    for (uint8_t i = 0; i < 7; i++) { /* 16 slots: 2 default, 2 for each address */
        prefix.ip.bytes[14] = i;
        ck_assert_int_eq(sim_stack_add_address(stack, 2, &prefix), i < 6 ? 0 : ENOSPC);
    }
    ck_assert_uint_eq(sim_stack_netdev(stack, 0).n_addresses, 8);
}
END_TEST

/* p0.5 on both hosts, and p0.6 on the first only. */
START_TEST(a_vlan_is_a_netdev_on_the_ports_table)
{
    struct sim_stack *stack = net.hosts[0].stack;
    struct sim_port *port = net.hosts[0].ports[0];
    struct sim_prefix own = net_prefix("10.5.0.1/24"), far = net_prefix("10.5.0.2/24");
    union ibv_gid far_gid = net_gid("10.5.0.2"), own_gid = net_gid("10.5.0.1");
    struct sim_gid gid;
    ck_assert_uint_eq(sim_stack_add_vlan(stack, 2, 5), 3);
    ck_assert_uint_eq(sim_stack_add_vlan(stack, 2, 5), 0);    /* exists already */
    ck_assert_uint_eq(sim_stack_add_vlan(stack, 3, 6), 0);    /* on a VLAN */
    ck_assert_uint_eq(sim_stack_add_vlan(stack, 2, 4095), 0); /* reserved */
    ck_assert_uint_eq(sim_stack_add_vlan(stack, 2, 0), 0);
    ck_assert_uint_eq(sim_stack_add_vlan(net.hosts[1].stack, 2, 5), 3);
    ck_assert_str_eq(sim_stack_netdev(stack, 1).name, "p0.5");
    ck_assert_uint_eq(sim_stack_netdev(stack, 1).mac, sim_port_mac(port));
    ck_assert_uint_eq(sim_stack_ifindex(stack, port, 5), 3);
    ck_assert_uint_eq(sim_stack_ifindex(stack, port, 7), 0);

    /* The link-local address exists from the start. Its GID equals the default one, but
     * belongs to another netdev. */
    ck_assert_int_eq(sim_stack_gid(stack, port, 5, &gid), 0);
    ck_assert_uint_eq(gid.ifindex, 3);
    ck_assert_uint_eq(gid.vlan_id, 5);
    ck_assert_int_eq(sim_stack_add_address(stack, 3, &own), 0);
    ck_assert_int_eq(sim_stack_add_address(net.hosts[1].stack, 3, &far), 0);
    ck_assert_int_eq(sim_stack_gid(stack, port, 7, &gid), 0);
    ck_assert_mem_eq(gid.gid.raw, own_gid.raw, 16);
    ck_assert(sim_stack_owns_gid(stack, port, &own_gid, 5));
    ck_assert(!sim_stack_owns_gid(stack, port, &own_gid, 0));
    ck_assert(!sim_stack_owns_gid(stack, port, &own_gid, 7));

    /* Requests and replies are tagged; hosts that are not on the VLAN do not answer. */
    int n_done = 0;
    struct sim_resolve resolve = {.done = net_count(&n_done)};
    ck_assert_int_eq(sim_stack_resolve(stack, port, 7, &far_gid, &resolve), EINPROGRESS);
    net_run(&net, 1000000);
    ck_assert_int_eq(n_done, 1);
    ck_assert_int_eq(resolve.error, 0);
    ck_assert_uint_eq(resolve.destination_mac, sim_port_mac(net.hosts[1].ports[0]));
    union ibv_gid untagged = net_gid("10.0.0.2");
    resolve = (struct sim_resolve){.done = net_count(&n_done)};
    ck_assert_uint_eq(sim_stack_add_vlan(stack, 2, 6), 4);
    struct sim_prefix lonely = net_prefix("10.6.0.1/24");
    ck_assert_int_eq(sim_stack_add_address(stack, 4, &lonely), 0);
    ck_assert_int_eq(sim_stack_resolve(stack, port, 11, &untagged, &resolve),
                     EINPROGRESS);
    net_run(&net, 3000000000);
    ck_assert_int_eq(resolve.error, ETIMEDOUT); /* no host is on VLAN 6 */

    /* The scan for a new device visits the port's netdev before its VLANs. */
    ck_assert_int_eq(sim_stack_scan_gids(stack, port), 0);
    ck_assert_int_eq(sim_stack_gid(stack, port, 3, &gid), 0);
    ck_assert_uint_eq(gid.ifindex, 2);
    ck_assert_int_eq(sim_stack_gid(stack, port, 5, &gid), 0);
    ck_assert_uint_eq(gid.ifindex, 3);
    ck_assert_mem_eq(gid.gid.raw, own_gid.raw, 16); /* IPv4 comes first here, too */
}
END_TEST

START_TEST(the_longest_prefix_then_the_first_added_wins)
{
    struct sim_stack *stack = net.hosts[0].stack;
    struct sim_hop hop;
    net_cable(&net, 0, "10.0.0.3/24", 1, "10.0.0.4/24"); /* twin cables in one subnet */
    struct sim_ip peer = net_ip("10.0.0.4");
    ck_assert_int_eq(sim_route_lookup(stack, &peer, NULL, &hop), 0);
    /* the first, whichever port has the address */
    ck_assert_uint_eq(hop.netdev->ifindex, 2);
    struct sim_prefix host_route = net_prefix("10.0.0.4/32");
    ck_assert_int_eq(sim_stack_add_route(stack, &host_route, 3, NULL), 0);
    ck_assert_int_eq(sim_route_lookup(stack, &peer, NULL, &hop), 0);
    ck_assert_uint_eq(hop.netdev->ifindex, 3);
    ck_assert_int_eq(sim_route_lookup(stack, &peer, sim_stack_find(stack, 2), &hop), 0);
    ck_assert_uint_eq(hop.netdev->ifindex, 2);
    struct sim_ip global_v6 = net_ip("fd00::1"), link_local = net_ip("fe80::1");
    struct sim_netdev *netdev = sim_stack_find(stack, 2);
    ck_assert_int_eq(sim_route_lookup(stack, &global_v6, netdev, &hop), ENETUNREACH);
    ck_assert_int_eq(sim_route_lookup(stack, &link_local, netdev, &hop), 0);
    ck_assert_int_eq(sim_route_lookup(stack, &link_local, NULL, &hop), ENETUNREACH);
}
END_TEST

/* Addresses with one peer and prefixes of other lengths: each takes its own route with it. */
START_TEST(an_address_takes_its_own_route_with_it)
{
    static const char *const peers[] = {"10.1.0.9/24", "10.1.0.9/32", "10.1.0.9/8",
                                        "10.1.0.9/30"};
    static const char *const own[] = {"10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"};
    struct sim_stack *stack = net.hosts[0].stack;
    struct sim_ip gone = net_ip(own[_i]);
    uint32_t n_before = stack->n_routes, n = n_before;
    for (size_t i = 0; i < WEFT_LENGTH(peers); i++) {
        struct sim_ip ip = net_ip(own[i]);
        struct sim_prefix peer = net_prefix(peers[i]);
        ck_assert_int_eq(sim_stack_add_peer_address(stack, 2, &ip, &peer), 0);
    }
    ck_assert_int_eq(sim_stack_del_address(stack, 2, &gone), 0);
    ck_assert_uint_eq(stack->n_routes, n_before + WEFT_LENGTH(peers) - 1);
    for (int i = 0; i < (int)WEFT_LENGTH(peers); i++) {
        if (i != _i) {
            ck_assert_uint_eq(stack->routes[n].to.prefix_len,
                              net_prefix(peers[i]).prefix_len);
            n++;
        }
    }
}
END_TEST

/* Connects from h0 to h2 through h1, to which both have a route. */
static struct sim_stream *dial_through(const struct sim_stack_config *middle,
                                       struct sim_listener **out_listener)
{
    stop();
    net_init(&net);
    net_add_host(&net, NULL);
    net_add_host(&net, middle);
    net_add_host(&net, NULL);
    net_cable(&net, 0, "10.0.1.1/24", 1, "10.0.1.2/24");
    net_cable(&net, 1, "10.0.2.2/24", 2, "10.0.2.3/24");
    struct sim_prefix there = net_prefix("10.0.2.0/24"), back = net_prefix("10.0.1.0/24");
    struct sim_ip near = net_ip("10.0.1.2"), far = net_ip("10.0.2.2");
    ck_assert_int_eq(sim_stack_add_route(net.hosts[0].stack, &there, 2, &near), 0);
    ck_assert_int_eq(sim_stack_add_route(net.hosts[2].stack, &back, 2, &far), 0);
    struct sim_endpoint at = net_endpoint("10.0.2.3", 5000), real;
    struct sim_waker none = {0};
    struct sim_stream *stream;
    ck_assert_int_eq(
        sim_tcp_listen(net.hosts[2].stack, &at, 1, none, out_listener, &real), 0);
    ck_assert_int_eq(sim_tcp_connect(net.hosts[0].stack, NULL, &at, none, &stream), 0);
    net_run(&net, 25 * SECOND);
    return stream;
}

START_TEST(a_host_between_forwards_if_it_may)
{
    struct sim_listener *listener;
    struct sim_stack_config config = {.sysctl = {.ip_forward = 1},
                                      .forward_accept = true};
    struct sim_stream *client = dial_through(&config, &listener), *server;
    struct sim_waker none = {0};
    size_t n;
    char bytes[8] = {0};
    ck_assert_int_eq(sim_tcp_connected(client), 0);
    ck_assert_int_eq(sim_tcp_accept(listener, none, &server), 0);
    ck_assert_int_eq(sim_tcp_send(client, "hop", 3, &n), 0);
    net_run(&net, 26 * SECOND);
    ck_assert_int_eq(sim_tcp_recv(server, bytes, sizeof bytes, &n), 0);
    ck_assert_str_eq(bytes, "hop");

    config.forward_accept = false;
    ck_assert_int_eq(sim_tcp_connected(dial_through(&config, &listener)), ETIMEDOUT);
    config = (struct sim_stack_config){.forward_accept = true};
    ck_assert_int_eq(sim_tcp_connected(dial_through(&config, &listener)), ETIMEDOUT);
}
END_TEST

START_TEST(rp_filter_drops_what_comes_the_wrong_way)
{
    /* Twin cables in one subnet. The stream is bound to the second; h1's route back is
     * the first. */
    struct sim_endpoint from = net_endpoint("10.0.0.3", 0),
                        to = net_endpoint("10.0.0.4", 1);
    struct sim_waker none = {0};
    struct sim_stream *stream;
    for (int rp_filter = 0; rp_filter < 2; rp_filter++) {
        stop();
        struct sim_stack_config config = {.sysctl = {.rp_filter = rp_filter}};
        net_init(&net);
        net_add_host(&net, NULL);
        net_add_host(&net, &config);
        net_cable(&net, 0, "10.0.0.1/24", 1, "10.0.0.2/24");
        net_cable(&net, 0, "10.0.0.3/24", 1, "10.0.0.4/24");
        from.ifindex = 3;
        ck_assert_int_eq(sim_tcp_connect(net.hosts[0].stack, &from, &to, none, &stream),
                         0);
        net_run(&net, 30 * SECOND);
        /* Without the filter h1 refuses; with it not even the ARP request is answered. */
        ck_assert_int_eq(sim_tcp_connected(stream),
                         rp_filter == 0 ? ECONNREFUSED : EHOSTUNREACH);
    }
}
END_TEST

static uint8_t captured[8][1600];
static size_t n_captured[8];
static int n_frames;

static void on_tap(void *context, weft_ns at, const struct sim_port *port,
                   bool is_outgoing, const uint8_t *bytes, size_t n_bytes,
                   const char *comment)
{
    (void)context;
    (void)at;
    (void)port;
    (void)is_outgoing;
    (void)comment;
    if (n_frames < 8) {
        memcpy(captured[n_frames], bytes, n_bytes);
        n_captured[n_frames++] = n_bytes;
    }
}

/* Returns the RFC 1071 sum over big-endian words, implemented differently on purpose;
 * 0xffff if correct. */
static unsigned sum16(const uint8_t *bytes, size_t n_bytes, unsigned long start_sum)
{
    unsigned long sum = start_sum;
    for (; n_bytes > 1; n_bytes -= 2, bytes += 2) {
        sum += bytes[0] * 256ul + bytes[1];
    }
    if (n_bytes == 1) {
        sum += bytes[0] * 256ul;
    }
    return (unsigned)(sum % 0xffff == 0 && sum != 0 ? 0xffff : sum % 0xffff);
}

START_TEST(captures_show_real_arp_and_tcp)
{
    struct sim_endpoint to = net_endpoint("10.0.0.2", 9);
    struct sim_waker none = {0};
    struct sim_stream *stream;
    n_frames = 0;
    sim_port_tap(net.hosts[0].ports[0], on_tap, NULL);
    ck_assert_int_eq(sim_tcp_connect(net.hosts[0].stack, NULL, &to, none, &stream), 0);
    net_run(&net, MS);
    ck_assert_int_eq(n_frames, 4); /* ARP request, reply, SYN, RST */
    static const uint8_t request[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2,  0, 0, 0, 0,
                                      1,    8,    6,    0,    1,    8,    0,  6, 4, 0, 1,
                                      2,    0,    0,    0,    0,    1,    10, 0, 0, 1, 0,
                                      0,    0,    0,    0,    0,    10,   0,  0, 2};
    ck_assert_uint_eq(n_captured[0], 60);
    ck_assert_mem_eq(captured[0], request, sizeof request);
    ck_assert_uint_eq(captured[1][21], 2); /* reply */
    ck_assert_uint_eq(captured[1][27], 1); /* h1's MAC ends in 01:01 */
    const uint8_t *syn = captured[2];
    ck_assert_uint_eq(n_captured[2], 14 + 20 + 20);
    ck_assert_uint_eq(syn[12] << 8 | syn[13], 0x0800);
    ck_assert_uint_eq(sum16(syn + 14, 20, 0), 0xffff);
    ck_assert_uint_eq(syn[14 + 9], 6);
    ck_assert_uint_eq(sum16(syn + 34, 20, sum16(syn + 26, 8, 6 + 20)), 0xffff);
    ck_assert_uint_eq(syn[34 + 13], 2); /* SYN */
    ck_assert_uint_eq(syn[36] << 8 | syn[37], 9);
    ck_assert_uint_eq(captured[3][34 + 13], 0x14); /* RST, ACK */
}
END_TEST

START_TEST(captures_show_real_discovery)
{
    struct sim_prefix a = net_prefix("fd00::1/64"), b = net_prefix("fd00::2/64");
    struct sim_endpoint to = net_endpoint("fd00::2", 9);
    struct sim_waker none = {0};
    struct sim_stream *stream;
    ck_assert_int_eq(sim_stack_add_address(net.hosts[0].stack, 2, &a), 0);
    ck_assert_int_eq(sim_stack_add_address(net.hosts[1].stack, 2, &b), 0);
    n_frames = 0;
    sim_port_tap(net.hosts[0].ports[0], on_tap, NULL);
    ck_assert_int_eq(sim_tcp_connect(net.hosts[0].stack, NULL, &to, none, &stream), 0);
    net_run(&net, MS);
    ck_assert_int_eq(sim_tcp_connected(stream), ECONNREFUSED);
    ck_assert_int_eq(n_frames, 4);
    for (int i = 0; i < 2; i++) {
        const uint8_t *ip = captured[i] + 14;
        ck_assert_uint_eq(n_captured[i], 14 + 40 + 32);
        ck_assert_uint_eq(ip[0] >> 4, 6);
        ck_assert_uint_eq(ip[6], 58);
        ck_assert_uint_eq(ip[40], i == 0 ? 135 : 136);
        ck_assert_uint_eq(sum16(ip + 40, 32, sum16(ip + 8, 32, 58 + 32)), 0xffff);
    }
    ck_assert_uint_eq(captured[0][14 + 24], 0xff); /* to the solicited-node address */
    const uint8_t *syn = captured[2] + 14;
    ck_assert_uint_eq(sum16(syn + 40, 20, sum16(syn + 8, 32, 6 + 20)), 0xffff);
    uint8_t small[10];
    struct sim_packet packet = {.kind = SIM_FRAME_NEIGH,
                                .payload = &(struct sim_neigh_packet){.target = a.ip}};
    ck_assert_uint_eq(sim_stack_encode(&packet, small, sizeof small), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim/stack");
    TCase *tcase = tcase_create("stack");
    tcase_add_checked_fixture(tcase, start, stop);
    tcase_add_test(tcase, addresses_routes_and_gids_go_together);
    tcase_add_test(tcase, gids_drift_without_their_addresses);
    tcase_add_test(tcase, a_full_gid_table_does_not_hinder_addresses);
    tcase_add_test(tcase, a_vlan_is_a_netdev_on_the_ports_table);
    tcase_add_test(tcase, the_longest_prefix_then_the_first_added_wins);
    tcase_add_loop_test(tcase, an_address_takes_its_own_route_with_it, 0, 4);
    tcase_add_test(tcase, a_host_between_forwards_if_it_may);
    tcase_add_test(tcase, rp_filter_drops_what_comes_the_wrong_way);
    tcase_add_test(tcase, captures_show_real_arp_and_tcp);
    tcase_add_test(tcase, captures_show_real_discovery);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
