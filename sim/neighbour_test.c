#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/stack_impl.h"
#include "sim/stack_testing.h"

#define MS ((weft_ns)1000000)
#define SECOND (1000 * MS)
#define GID_V1 2 /* of the first IPv4 address */
#define GID_V2 3

static struct net net;

/* The first side of a triangle: h0 10.0.0.1 -- 10.0.0.2 h1. */
static void start_with(const struct sim_stack_config *config)
{
    net_init(&net);
    net_add_host(&net, config);
    net_add_host(&net, config);
    net_cable(&net, 0, "10.0.0.1/24", 1, "10.0.0.2/24");
}

static void start(void)
{
    start_with(NULL);
}

static void stop(void)
{
    net_fini(&net);
}

static void start_sysctl(struct sim_sysctl sysctl)
{
    stop();
    start_with(&(struct sim_stack_config){.sysctl = sysctl});
}

static struct sim_resolve resolve;
static int n_done;

static int ask(uint32_t host, uint32_t port, uint32_t sgid_index, const char *ip)
{
    union ibv_gid gid = net_gid(ip);
    resolve = (struct sim_resolve){.done = net_count(&n_done)};
    return sim_stack_resolve(net.hosts[host].stack, net.hosts[host].ports[port],
                             sgid_index, &gid, &resolve);
}

/* Resolves an address and waits for the result. Stores how long it took. */
static int ask_and_wait(uint32_t host, uint32_t port, const char *ip, weft_ns *out_took)
{
    weft_ns start_ns = sim_now_ns(net.engine);
    n_done = 0;
    int error = ask(host, port, GID_V2, ip);
    if (error != EINPROGRESS) {
        *out_took = 0;
        return error;
    }
    while (n_done == 0 && sim_step(net.engine, SIM_NEVER - 1)) {
    }
    ck_assert_int_eq(n_done, 1);
    *out_took = sim_now_ns(net.engine) - start_ns;
    return resolve.error;
}

static enum sim_neigh_state state_of(uint32_t host, uint32_t netdev, const char *ip)
{
    struct sim_ip address = net_ip(ip);
    return sim_neigh_state(net.hosts[host].stack->netdevs[netdev], &address);
}

START_TEST(a_neighbour_answers)
{
    weft_ns took;
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.2", &took), 0);
    ck_assert_uint_eq(resolve.destination_mac, 0x020000000101);
    ck_assert_int_gt(took, 2000); /* there and back */
    ck_assert_int_lt(took, 3000);
    ck_assert_int_eq(state_of(0, 0, "10.0.0.2"), SIM_NEIGH_REACHABLE);
    /* learnt from the request */
    ck_assert_int_eq(state_of(1, 0, "10.0.0.1"), SIM_NEIGH_STALE);
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.2", &took), 0);
    ck_assert_int_eq(took, 0);
    ck_assert_int_eq(ask_and_wait(1, 0, "10.0.0.1", &took), 0); /* a stale MAC is used */
    ck_assert_int_eq(took, 0);
    net_run(&net, 100 * SECOND);
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.2", &took), 0);
    ck_assert_int_eq(took, 0);
    ck_assert_int_eq(state_of(0, 0, "10.0.0.2"), SIM_NEIGH_STALE);
}
END_TEST

START_TEST(nobody_answers_and_every_asker_waits_its_second)
{
    weft_ns took;
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.9", &took), ETIMEDOUT);
    ck_assert_int_eq(took, SECOND);
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.9", &took), ETIMEDOUT);
    net_run(&net, 2 * SECOND + SECOND * 9 / 10);
    ck_assert_int_eq(state_of(0, 0, "10.0.0.9"), SIM_NEIGH_INCOMPLETE);
    net_run(&net, 3 * SECOND);
    ck_assert_int_eq(state_of(0, 0, "10.0.0.9"), SIM_NEIGH_FAILED);
    /* A missing neighbour is probed again, and errno is the same. */
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.9", &took), ETIMEDOUT);
    ck_assert_int_eq(took, SECOND);
    /* A resolution that starts just before the entry fails continues to wait, and its
     * last check probes again. */
    net_run(&net, 5 * SECOND + SECOND * 9 / 10);
    ck_assert_int_eq(state_of(0, 0, "10.0.0.9"), SIM_NEIGH_INCOMPLETE);
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.9", &took), ETIMEDOUT);
    ck_assert_int_eq(took, SECOND);
    ck_assert_int_eq(state_of(0, 0, "10.0.0.9"), SIM_NEIGH_INCOMPLETE);
    net_run(&net, 20 * SECOND);
    ck_assert_int_eq(state_of(0, 0, "10.0.0.9"), SIM_NEIGH_FAILED);
}
END_TEST

START_TEST(the_wrong_cable_of_a_triangle)
{
    /* h0 has a second cable, to h2. On the first cable, h2's address is covered by no
     * route of that netdev, so Linux treats it as on link, and no host answers. */
    weft_ns took;
    net_add_host(&net, NULL);
    net_cable(&net, 0, "10.0.2.1/24", 2, "10.0.2.3/24");
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.2.3", &took), ETIMEDOUT);
    ck_assert_int_eq(took, SECOND);
    ck_assert_int_eq(ask_and_wait(0, 1, "10.0.2.3", &took), 0);
    ck_assert_uint_eq(resolve.destination_mac, 0x020000000201);
}
END_TEST

START_TEST(arp_flux_and_its_cure)
{
    /* Both cables of a twin pair are in one subnet: any interface replies for any
     * address. */
    weft_ns took;
    net_cable(&net, 0, "10.0.0.3/24", 1, "10.0.0.4/24");
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.4", &took), 0);
    ck_assert_uint_eq(resolve.destination_mac, 0x020000000101); /* of the wrong port */
    start_sysctl((struct sim_sysctl){.arp_ignore = 1});
    net_cable(&net, 0, "10.0.0.3/24", 1, "10.0.0.4/24");
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.4", &took), ETIMEDOUT);
    ck_assert_int_eq(ask_and_wait(0, 1, "10.0.0.4", &took), 0);
    ck_assert_uint_eq(resolve.destination_mac, 0x020000000102);
    start_sysctl((struct sim_sysctl){.arp_ignore = 8});
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.2", &took), ETIMEDOUT);
}
END_TEST

START_TEST(arp_ignore_2_wants_the_same_subnet)
{
    weft_ns took;
    start_sysctl((struct sim_sysctl){.arp_ignore = 2});
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.2", &took), 0);
    net_cable(&net, 0, "172.16.1.1/24", 1, "172.16.2.2/24");
    ck_assert_int_eq(ask_and_wait(0, 1, "172.16.2.2", &took), ETIMEDOUT);
}
END_TEST

START_TEST(rp_filter_leaves_strange_questions_unanswered)
{
    weft_ns took;
    start_sysctl((struct sim_sysctl){.rp_filter = 1});
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.2", &took), 0);
    /* h1 has no route back to 172.16.1.1, or one through another netdev. */
    net_cable(&net, 0, "172.16.1.1/24", 1, "172.16.2.2/24");
    ck_assert_int_eq(ask_and_wait(0, 1, "172.16.2.2", &took), ETIMEDOUT);
    struct sim_prefix back = net_prefix("172.16.1.0/24");
    ck_assert_int_eq(sim_stack_add_route(net.hosts[1].stack, &back, 2, NULL), 0);
    net_run(&net, 10 * SECOND);
    (void)ask_and_wait(0, 1, "172.16.2.2", &took);
    ck_assert_int_eq(ask_and_wait(0, 1, "172.16.2.2", &took), ETIMEDOUT);
    /* Loose mode accepts any route. */
    start_sysctl((struct sim_sysctl){.rp_filter = 2});
    net_cable(&net, 0, "172.16.1.1/24", 1, "172.16.2.2/24");
    ck_assert_int_eq(sim_stack_add_route(net.hosts[1].stack, &back, 2, NULL), 0);
    ck_assert_int_eq(ask_and_wait(0, 1, "172.16.2.2", &took), 0);
}
END_TEST

START_TEST(ones_own_address_comes_from_outside_only_if_accepted)
{
    /* A cable between two ports of one host. */
    weft_ns took;
    net_cable(&net, 0, "10.5.0.1/24", 0, "10.5.0.2/24");
    ck_assert_int_eq(ask_and_wait(0, 1, "10.5.0.2", &took), ETIMEDOUT);
    start_sysctl((struct sim_sysctl){.accept_local = 1});
    net_cable(&net, 0, "10.5.0.1/24", 0, "10.5.0.2/24");
    ck_assert_int_eq(ask_and_wait(0, 1, "10.5.0.2", &took), 0);
    ck_assert_uint_eq(resolve.destination_mac, 0x020000000003);
    /* the netdev's own address: loopback */
    ck_assert_int_eq(ask(0, 1, GID_V2, "10.5.0.1"), 0);
    ck_assert_uint_eq(resolve.destination_mac, 0x020000000002);
}
END_TEST

START_TEST(a_gateway_is_asked_instead)
{
    weft_ns took;
    struct sim_prefix far = net_prefix("172.16.0.0/16");
    struct sim_ip gateway = net_ip("10.0.0.2");
    ck_assert_int_eq(sim_stack_add_route(net.hosts[0].stack, &far, 2, &gateway), 0);
    ck_assert_int_eq(sim_stack_add_route(net.hosts[0].stack, &far, 99, &gateway), ENODEV);
    ck_assert_int_eq(ask_and_wait(0, 0, "172.16.5.5", &took), 0);
    ck_assert_uint_eq(resolve.destination_mac, 0x020000000101);
    ck_assert_int_eq(state_of(0, 0, "172.16.5.5"), SIM_NEIGH_NONE);
    ck_assert_int_eq(state_of(0, 0, "10.0.0.2"), SIM_NEIGH_REACHABLE);
}
END_TEST

START_TEST(ipv6_and_link_local)
{
    /* There is no route from an IPv4 GID to an IPv6 address, nor from a GID without a
     * route. */
    ck_assert_int_eq(ask(0, 0, GID_V2, "fd00::9"), EINVAL);
    ck_assert_int_eq(ask(0, 0, 1, "10.0.0.2"), EINVAL);
    ck_assert_int_eq(ask(0, 0, 1, "fd00::9"), ENETUNREACH);
    struct sim_prefix a = net_prefix("fd00::1/64"), b = net_prefix("fd00::2/64");
    ck_assert_int_eq(sim_stack_add_address(net.hosts[0].stack, 2, &a), 0);
    ck_assert_int_eq(sim_stack_add_address(net.hosts[1].stack, 2, &b), 0);
    ck_assert_int_eq(ask(0, 0, 5, "fd00::2"), EINPROGRESS);
    net_run(&net, MS);
    ck_assert_int_eq(resolve.error, 0);
    ck_assert_uint_eq(resolve.destination_mac, 0x020000000101);
    /* The request came from the link-local address, so h1 knows only that one. */
    ck_assert_int_eq(state_of(1, 0, "fd00::1"), SIM_NEIGH_NONE);
    struct sim_ip asker = net.hosts[0].stack->netdevs[0]->link_local;
    ck_assert_int_eq(sim_neigh_state(net.hosts[1].stack->netdevs[0], &asker),
                     SIM_NEIGH_STALE);

    /* For default GIDs, v2 uses discovery, v1 the MAC inside the address. */
    struct sim_ip peer = sim_ip_of_mac(0x020000000101);
    union ibv_gid gid = sim_gid_of_ip(&peer);
    resolve = (struct sim_resolve){.done = net_count(&n_done)};
    struct sim_stack *stack = net.hosts[0].stack;
    ck_assert_int_eq(sim_stack_resolve(stack, net.hosts[0].ports[0], 0, &gid, &resolve),
                     0);
    ck_assert_uint_eq(resolve.destination_mac, 0x020000000101);
    ck_assert_int_eq(sim_stack_resolve(stack, net.hosts[0].ports[0], 1, &gid, &resolve),
                     EINPROGRESS);
    net_run(&net, sim_now_ns(net.engine) + MS);
    ck_assert_int_eq(resolve.error, 0);
    ck_assert_uint_eq(resolve.destination_mac, 0x020000000101);
    /* A neighbour with a different address is not found. */
    peer = sim_ip_of_mac(0x020000000777);
    gid = sim_gid_of_ip(&peer);
    ck_assert_int_eq(sim_stack_resolve(stack, net.hosts[0].ports[0], 1, &gid, &resolve),
                     EINPROGRESS);
    net_run(&net, sim_now_ns(net.engine) + 2 * SECOND);
    ck_assert_int_eq(resolve.error, ETIMEDOUT);
}
END_TEST

START_TEST(slots_decide_who_may_ask)
{
    ck_assert_int_eq(ask(0, 0, 5, "10.0.0.2"), ENODATA);
    ck_assert_int_eq(ask(0, 0, 16, "10.0.0.2"), EINVAL);
    struct sim_port *foreign = net_port(&net, 0);
    union ibv_gid gid = net_gid("10.0.0.2");
    ck_assert_int_eq(sim_stack_resolve(net.hosts[0].stack, foreign, 3, &gid, &resolve),
                     ENODEV);
    ck_assert_int_eq(ask(0, 0, GID_V1, "10.0.0.2"), EINPROGRESS);
    sim_stack_resolve_cancel(net.hosts[0].stack, &resolve);
    sim_stack_resolve_cancel(net.hosts[0].stack, &resolve);
}
END_TEST

START_TEST(cancelled_questions_are_not_answered)
{
    struct sim_resolve other = {.done = {0}};
    union ibv_gid gid = net_gid("10.0.0.9");
    n_done = 0;
    ck_assert_int_eq(ask(0, 0, GID_V2, "10.0.0.9"), EINPROGRESS);
    ck_assert_int_eq(sim_stack_resolve(net.hosts[0].stack, net.hosts[0].ports[0], GID_V2,
                                       &gid, &other),
                     EINPROGRESS);
    sim_stack_resolve_cancel(net.hosts[0].stack, &other);
    sim_stack_resolve_cancel(net.hosts[0].stack, &resolve);
    net_run(&net, 5 * SECOND);
    ck_assert_int_eq(n_done, 0);
    /* Nor do those of a killed host complete. */
    ck_assert_int_eq(ask(0, 0, GID_V2, "10.0.0.8"), EINPROGRESS);
    sim_stack_kill(net.hosts[0].stack);
    net_run(&net, 10 * SECOND);
    ck_assert_int_eq(n_done, 0);
    /* A killed host does not answer. */
    weft_ns took;
    ck_assert_int_eq(ask_and_wait(1, 0, "10.0.0.1", &took), ETIMEDOUT);
}
END_TEST

START_TEST(loss_is_repaired_within_the_second)
{
    /* Requests are lost until the cable is repaired. The next request is too late for the
     * first resolution, but not for the second. */
    weft_ns took;
    struct sim_impairment all = {.loss_ppb = 1000000000}, none = {0};
    sim_port_set_impairment(net.hosts[0].ports[0], true, false, &all);
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.2", &took), ETIMEDOUT);
    sim_port_set_impairment(net.hosts[0].ports[0], true, false, &none);
    net_run(&net, SECOND + SECOND / 10); /* the third request is sent at 2 s */
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.2", &took), 0);
    ck_assert_int_gt(took, SECOND * 9 / 10);
    ck_assert_int_lt(took, SECOND);
}
END_TEST

START_TEST(an_unplugged_cable_forgets_and_times_out)
{
    weft_ns took;
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.2", &took), 0);
    sim_port_set_down(net.hosts[0].ports[0], true, true, true);
    ck_assert_int_eq(state_of(0, 0, "10.0.0.2"), SIM_NEIGH_NONE);
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.2", &took), ETIMEDOUT);
    ck_assert_int_eq(took, SECOND);
    sim_port_set_down(net.hosts[0].ports[0], true, true, false);
    net_run(&net, 10 * SECOND);
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.2", &took), 0);
}
END_TEST

START_TEST(a_stale_neighbour_that_is_used_gets_probed)
{
    weft_ns took;
    struct sim_endpoint to = net_endpoint("10.0.0.2", 1);
    struct sim_stream *stream;
    struct sim_waker none = {0};
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.2", &took), 0);
    net_run(&net, 40 * SECOND);
    sim_stack_kill(net.hosts[1].stack);
    ck_assert_int_eq(sim_tcp_connect(net.hosts[0].stack, NULL, &to, none, &stream), 0);
    ck_assert_int_eq(state_of(0, 0, "10.0.0.2"), SIM_NEIGH_DELAY);
    net_run(&net, 46 * SECOND);
    ck_assert_int_eq(state_of(0, 0, "10.0.0.2"), SIM_NEIGH_PROBE);
    net_run(&net, 49 * SECOND);
    ck_assert_int_eq(state_of(0, 0, "10.0.0.2"), SIM_NEIGH_FAILED);
    net_run(&net,
            61 * SECOND); /* the next SYN finds no neighbour: errno 113 before 110 */
    ck_assert_int_eq(sim_tcp_connected(stream), EHOSTUNREACH);
}
END_TEST

START_TEST(the_first_of_two_answers_holds_for_a_second)
{
    struct sim_netdev *netdev = net.hosts[0].stack->netdevs[0];
    struct sim_neigh_packet body = {.is_reply = true,
                                    .sender = net_ip("10.0.0.2"),
                                    .sender_mac = 0xbad,
                                    .target = net_ip("10.0.0.1")};
    weft_ns took;
    for (int i = 0; i < 2; i++) {
        struct sim_packet *packet = weft_calloc(1, sizeof *packet);
        packet->payload = weft_alloc(sizeof body);
        memcpy(packet->payload, &body, sizeof body);
        packet->n_payload = sizeof body;
        ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.2", &took), 0);
        sim_neigh_input(netdev, packet);
        ck_assert_int_eq(ask(0, 0, GID_V2, "10.0.0.2"), 0);
        ck_assert_uint_eq(resolve.destination_mac, i == 0 ? 0x020000000101 : 0xbad);
        net_run(&net, sim_now_ns(net.engine) + 2 * SECOND);
    }
    /* Unsolicited replies are ignored. */
    body.sender = net_ip("10.0.0.77");
    struct sim_packet *packet = weft_calloc(1, sizeof *packet);
    packet->payload = weft_alloc(sizeof body);
    memcpy(packet->payload, &body, sizeof body);
    packet->n_payload = sizeof body;
    sim_neigh_input(netdev, packet);
    ck_assert_int_eq(state_of(0, 0, "10.0.0.77"), SIM_NEIGH_NONE);
}
END_TEST

/* Passes a packet with `body`, sent to `mac`, to h0. */
static void hear(const struct sim_neigh_packet *body, uint64_t mac)
{
    struct sim_packet *packet = weft_calloc(1, sizeof *packet);
    packet->payload = weft_alloc(sizeof *body);
    memcpy(packet->payload, body, sizeof *body);
    packet->n_payload = sizeof *body;
    packet->destination_mac = mac;
    sim_neigh_input(net.hosts[0].stack->netdevs[0], packet);
}

static uint64_t mac_of(const char *ip)
{
    ck_assert_int_eq(ask(0, 0, GID_V2, ip), 0);
    return resolve.destination_mac;
}

START_TEST(who_tells_of_himself_is_believed_at_once)
{
    weft_ns took;
    struct sim_neigh_packet own = {
        .sender = net_ip("10.0.0.2"), .target = net_ip("10.0.0.2"), .sender_mac = 0xaaa};
    hear(&own, SIM_MAC_BROADCAST); /* there is no entry yet, and arp_accept is 0 */
    ck_assert_int_eq(state_of(0, 0, "10.0.0.2"), SIM_NEIGH_NONE);
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.2", &took), 0);
    hear(&own, SIM_MAC_BROADCAST);
    ck_assert_uint_eq(mac_of("10.0.0.2"), 0xaaa);
    ck_assert_int_eq(state_of(0, 0, "10.0.0.2"), SIM_NEIGH_STALE);
    own.is_reply = true;
    own.sender_mac = 0xbbb;
    hear(&own, 0x020000000001);
    ck_assert_uint_eq(mac_of("10.0.0.2"), 0xbbb);
    ck_assert_int_eq(state_of(0, 0, "10.0.0.2"), SIM_NEIGH_REACHABLE);
}
END_TEST

START_TEST(a_question_to_another_is_believed_after_the_lock_time)
{
    weft_ns took;
    struct sim_neigh_packet other = {
        .sender = net_ip("10.0.0.2"), .target = net_ip("10.0.0.99"), .sender_mac = 0xaaa};
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.2", &took), 0);
    hear(&other, SIM_MAC_BROADCAST);
    ck_assert_uint_eq(mac_of("10.0.0.2"), 0x020000000101);
    net_run(&net, 2 * SECOND);
    hear(&other, SIM_MAC_BROADCAST);
    ck_assert_uint_eq(mac_of("10.0.0.2"), 0xaaa);
    ck_assert_int_eq(state_of(0, 0, "10.0.0.2"), SIM_NEIGH_STALE);
    /* A request to this host is answered, and its sender learnt at once. */
    other.target = net_ip("10.0.0.1");
    other.sender_mac = 0xbbb;
    hear(&other, SIM_MAC_BROADCAST);
    ck_assert_uint_eq(mac_of("10.0.0.2"), 0xbbb);
}
END_TEST

/* A host announces itself by ARP and discovery, as a bond does on failover, to hosts that
 * have an entry for it. */
START_TEST(announcements_reach_who_knows_him)
{
    struct sim_stack *stacks[] = {net.hosts[0].stack, net.hosts[1].stack};
    weft_ns took;
    struct sim_prefix a = net_prefix("fd00::1/64"), b = net_prefix("fd00::2/64");
    ck_assert_int_eq(sim_stack_add_address(stacks[0], 2, &a), 0);
    ck_assert_int_eq(sim_stack_add_address(stacks[1], 2, &b), 0);
    ck_assert_int_eq(ask_and_wait(0, 0, "10.0.0.2", &took), 0);
    ck_assert_int_eq(ask(0, 0, 5, "fd00::2"), EINPROGRESS);
    net_run(&net, MS);
    stacks[1]->netdevs[0]->mac = 0xccc;
    sim_neigh_announce(stacks[1]->netdevs[0]);
    net_run(&net, 2 * MS);
    ck_assert_uint_eq(mac_of("10.0.0.2"), 0xccc);
    ck_assert_int_eq(ask(0, 0, 5, "fd00::2"), 0);
    ck_assert_uint_eq(resolve.destination_mac, 0xccc);
    ck_assert_int_eq(state_of(0, 0, "10.0.0.2"), SIM_NEIGH_STALE);
    ck_assert_int_eq(state_of(0, 0, "fd00::2"), SIM_NEIGH_STALE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim/neighbour");
    TCase *tcase = tcase_create("neighbour");
    tcase_add_checked_fixture(tcase, start, stop);
    tcase_add_test(tcase, a_neighbour_answers);
    tcase_add_test(tcase, nobody_answers_and_every_asker_waits_its_second);
    tcase_add_test(tcase, the_wrong_cable_of_a_triangle);
    tcase_add_test(tcase, arp_flux_and_its_cure);
    tcase_add_test(tcase, arp_ignore_2_wants_the_same_subnet);
    tcase_add_test(tcase, rp_filter_leaves_strange_questions_unanswered);
    tcase_add_test(tcase, ones_own_address_comes_from_outside_only_if_accepted);
    tcase_add_test(tcase, a_gateway_is_asked_instead);
    tcase_add_test(tcase, ipv6_and_link_local);
    tcase_add_test(tcase, slots_decide_who_may_ask);
    tcase_add_test(tcase, cancelled_questions_are_not_answered);
    tcase_add_test(tcase, loss_is_repaired_within_the_second);
    tcase_add_test(tcase, an_unplugged_cable_forgets_and_times_out);
    tcase_add_test(tcase, a_stale_neighbour_that_is_used_gets_probed);
    tcase_add_test(tcase, the_first_of_two_answers_holds_for_a_second);
    tcase_add_test(tcase, who_tells_of_himself_is_believed_at_once);
    tcase_add_test(tcase, a_question_to_another_is_believed_after_the_lock_time);
    tcase_add_test(tcase, announcements_reach_who_knows_him);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
