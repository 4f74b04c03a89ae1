/* Announcements on simulated cables: which hosts receive them, which are lost, and their
 * bytes. */
#include "sim/udp.h"

#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/wire.h"
#include "sim/stack_testing.h"

#define MS ((weft_ns)1000000)
#define PORT 22341

static struct sim_announcer *open_one(struct net *net, uint32_t host, int *counter)
{
    struct sim_announcer *out = NULL;

    ck_assert_int_eq(
        sim_udp_open(net->hosts[host].stack, 2, PORT, net_count(counter), &out), 0);
    return out;
}

static void pair(struct net *net, const struct sim_stack_config *right,
                 const char *address_left, const char *address_right)
{
    net_init(net);
    net_add_host(net, NULL);
    net_add_host(net, right);
    net_cable(net, 0, address_left, 1, address_right);
}

static int n_waiting(struct sim_announcer *announcer)
{
    struct sim_endpoint from;
    uint8_t bytes[SIM_DATAGRAM_MAX];
    size_t n_bytes;
    int n = 0;

    while (sim_udp_hear(announcer, bytes, sizeof bytes, &n_bytes, &from) == 0) {
        n++;
    }
    return n;
}

START_TEST(both_families_come_and_a_queue_is_finite)
{
    struct net net;
    int left = 0, right = 0;

    pair(&net, NULL, "10.0.0.1/24", "10.0.0.2/24");
    struct sim_announcer *a = open_one(&net, 0, &left), *b = open_one(&net, 1, &right);
    ck_assert_int_eq(sim_udp_announce(a, "here", 4), 0);
    net_run(&net, MS);
    ck_assert_int_eq(right, 2);
    ck_assert_int_eq(n_waiting(b), 2);
    ck_assert_int_eq(left, 0);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(sim_udp_announce(a, "here", 4), 0);
    }
    net_run(&net, 2 * MS);
    ck_assert_int_eq(n_waiting(b), 64);
    sim_udp_close(a);
    net_fini(&net); /* with b open */
}
END_TEST

START_TEST(without_addresses_link_local_ones_speak)
{
    struct net net;
    int left = 0, right = 0;
    struct sim_endpoint from;
    char bytes[8];
    size_t n;

    pair(&net, NULL, NULL, NULL);
    struct sim_announcer *a = open_one(&net, 0, &left), *b = open_one(&net, 1, &right);
    ck_assert_int_eq(sim_udp_announce(a, "here", 4), 0);
    net_run(&net, MS);
    ck_assert_int_eq(sim_udp_hear(b, bytes, sizeof bytes, &n, &from), 0);
    ck_assert(sim_ip_is_link_local_v6(&from.ip));
    ck_assert_uint_eq(from.ifindex, 2);
    ck_assert_int_eq(sim_udp_hear(b, bytes, sizeof bytes, &n, &from), EAGAIN);
    net_fini(&net);
}
END_TEST

/* rp_filter applies to site-local groups (ip_mc_validate_source); IPv6 has none. */
START_TEST(a_strict_host_does_not_hear_foreign_subnets)
{
    struct sim_stack_config strict = {.host = "h1", .sysctl.rp_filter = 1};
    struct net net;
    int left = 0, right = 0;

    pair(&net, &strict, "10.9.0.1/24", "10.0.0.2/24");
    struct sim_announcer *a = open_one(&net, 0, &left), *b = open_one(&net, 1, &right);
    ck_assert_int_eq(sim_udp_announce(a, "here", 4), 0);
    net_run(&net, MS);
    ck_assert_int_eq(n_waiting(b), 1);
    net_fini(&net);
}
END_TEST

START_TEST(a_dark_or_dead_host_says_so)
{
    struct net net;
    int left = 0;

    pair(&net, NULL, "10.0.0.1/24", "10.0.0.2/24");
    struct sim_announcer *a = open_one(&net, 0, &left), *none;
    sim_port_set_down(net.hosts[0].ports[0], true, true, true);
    ck_assert_int_eq(sim_udp_announce(a, "here", 4), ENETDOWN);
    sim_port_set_down(net.hosts[0].ports[0], true, true, false);
    ck_assert_int_eq(sim_udp_announce(a, "here", 4), 0);
    sim_stack_kill(net.hosts[0].stack);
    ck_assert_int_eq(sim_udp_announce(a, "here", 4), ENETDOWN);
    ck_assert_int_eq(sim_udp_open(net.hosts[0].stack, 7, PORT, net_count(&left), &none),
                     ENODEV);
    net_fini(&net);
}
END_TEST

struct frames {
    uint8_t bytes[4][256];
    size_t n_bytes[4];
    uint32_t n;
};

static void on_frame(void *context, weft_ns at, const struct sim_port *port,
                     bool is_outgoing, const uint8_t *bytes, size_t n_bytes,
                     const char *comment)
{
    struct frames *frames = context;

    (void)at;
    (void)port;
    (void)comment;
    ck_assert(is_outgoing);
    ck_assert_uint_lt(frames->n, 4);
    memcpy(frames->bytes[frames->n], bytes, n_bytes);
    frames->n_bytes[frames->n++] = n_bytes;
}

/* Returns the RFC 1071 sum, which is 0xffff over everything including the checksum. */
static uint32_t sum(const uint8_t *bytes, size_t n_bytes, uint32_t from)
{
    for (size_t i = 0; i < n_bytes; i++) {
        from += (uint32_t)bytes[i] << (i % 2 == 0 ? 8 : 0);
    }
    return (from & 0xffff) + (from >> 16);
}

START_TEST(the_bytes_are_udp_to_the_groups)
{
    static const uint8_t v6_head[] = {0x33, 0x33, 0, 0, 0x57, 0x45};
    static const uint8_t v4_head[] = {0x01, 0, 0x5e, 0x7f, 0x57, 0x45};
    static const uint8_t v6_group[16] = {0xff, 0x12, [14] = 0x57, [15] = 0x45};
    static const uint8_t v4_group[] = {239, 255, 87, 69};
    static const uint8_t udp[] = {0x57, 0x45, 0x57, 0x45, 0, 12};
    struct frames frames = {.n = 0};
    struct net net;
    int left = 0;

    pair(&net, NULL, "10.0.0.1/24", "10.0.0.2/24");
    struct sim_announcer *a = open_one(&net, 0, &left);
    sim_port_tap(net.hosts[0].ports[0], on_frame, &frames);
    ck_assert_int_eq(sim_udp_announce(a, "here", 4), 0);
    net_run(&net, MS);
    ck_assert_uint_eq(frames.n, 2);

    const uint8_t *v6 = frames.bytes[0], *v4 = frames.bytes[1];
    ck_assert_uint_eq(frames.n_bytes[0], 14 + 40 + 12);
    ck_assert_mem_eq(v6, v6_head, 6);
    ck_assert_mem_eq(v6 + 12, "\x86\xdd", 2);
    ck_assert_uint_eq(v6[14 + 6], 17); /* UDP */
    ck_assert_uint_eq(v6[14 + 7], 1);  /* hop limit */
    ck_assert_mem_eq(v6 + 14 + 24, v6_group, 16);
    ck_assert_mem_eq(v6 + 54, udp, 6);
    ck_assert_mem_eq(v6 + 62, "here", 4);
    ck_assert_uint_eq(sum(v6 + 22, 32 + 12, 17 + 12), 0xffff);

    ck_assert_mem_eq(v4, v4_head, 6);
    ck_assert_mem_eq(v4 + 12, "\x08\x00", 2);
    ck_assert_uint_eq(v4[14 + 8], 1);
    ck_assert_uint_eq(v4[14 + 9], 17);
    ck_assert_mem_eq(v4 + 14 + 16, v4_group, 4);
    ck_assert_mem_eq(v4 + 34, udp, 6);
    ck_assert_mem_eq(v4 + 42, "here", 4);
    ck_assert_uint_eq(sum(v4 + 14, 20, 0), 0xffff);
    ck_assert_uint_eq(sum(v4 + 26, 8 + 12, 17 + 12), 0xffff);
    net_fini(&net);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("udp");
    TCase *tcase = tcase_create("all");
    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, both_families_come_and_a_queue_is_finite);
    tcase_add_test(tcase, without_addresses_link_local_ones_speak);
    tcase_add_test(tcase, a_strict_host_does_not_hear_foreign_subnets);
    tcase_add_test(tcase, a_dark_or_dead_host_says_so);
    tcase_add_test(tcase, the_bytes_are_udp_to_the_groups);
    return suite_run(suite);
}
