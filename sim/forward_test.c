/* Forwards RoCE v2 packets through a host that has none of their addresses. */
#include <check.h>
#include <string.h>

#include "base/suite_testing.h"
#include "sim/link.h"
#include "sim/stack_testing.h"

#define SECOND ((weft_ps)1000000000000)

static struct net net;
static const char payload[] = "diagonals of a ring";

/* h0 -- h1 -- h2: h0's packet to h2 arrives at h1. */
struct way {
    const char *nets[2][2]; /* addresses of the two cables' ends */
    struct sim_stack_config middle;
    uint8_t hop_limit;
    bool has_no_route;  /* h1 has no address on the second cable */
    const char *source; /* NULL: h0's address */
};

static const struct way plain = {
    .nets = {{"10.0.1.1/24", "10.0.1.2/24"}, {"10.0.2.2/24", "10.0.2.3/24"}},
    .middle = {.sysctl = {.ip_forward = 1}, .forward_accept = true},
    .hop_limit = 64};

static union ibv_gid gid_of(const char *text)
{
    struct sim_ip ip = net_prefix(text).ip;
    return sim_gid_of_ip(&ip);
}

static uint8_t arrived[256];
static size_t n_arrived;
static union ibv_gid asker; /* whose request for h2's MAC came first */

static bool is_unknown(const union ibv_gid *gid)
{
    static const union ibv_gid none;
    return memcmp(gid, &none, sizeof none) == 0;
}

/* Keeps the sender of an ARP request or a neighbour solicitation. */
static void note_request(const uint8_t *bytes)
{
    bool is_arp = bytes[12] == 0x08 && bytes[13] == 0x06 && bytes[21] == 1;
    bool is_solicitation =
        bytes[12] == 0x86 && bytes[14 + 6] == 58 && bytes[14 + 40] == 135;
    if (is_unknown(&asker) && is_arp) {
        memset(asker.raw + 10, 0xff, 2);
        memcpy(asker.raw + 12, bytes + 14 + 14, 4);
    } else if (is_unknown(&asker) && is_solicitation) {
        memcpy(asker.raw, bytes + 14 + 8, 16);
    }
}

static void on_tap(void *context, weft_ps at, const struct sim_port *port,
                   bool is_outgoing, const uint8_t *bytes, size_t n_bytes,
                   const char *comment)
{
    (void)context;
    (void)at;
    (void)port;
    (void)comment;
    bool is_udp = bytes[14 + 9] == 17 || bytes[14 + 6] == 17; /* IPv4, IPv6 */
    if (!is_outgoing) {
        note_request(bytes);
    }
    if (!is_outgoing && bytes[13] != 0x06 && is_udp) {
        n_arrived = n_bytes < sizeof arrived ? n_bytes : sizeof arrived;
        memcpy(arrived, bytes, n_arrived);
    }
}

/* Returns the result of sim_stack_forward_roce(). What h2 receives is in `arrived`. */
static bool send_through(const struct way *way)
{
    bool is_ipv4 = strchr(way->nets[0][0], '.') != NULL;
    net_init(&net);
    net_add_host(&net, NULL);
    net_add_host(&net, &way->middle);
    net_add_host(&net, NULL);
    net_cable(&net, 0, way->nets[0][0], 1, way->nets[0][1]);
    net_cable(&net, 1, way->has_no_route ? NULL : way->nets[1][0], 2, way->nets[1][1]);
    struct sim_port *in = net.hosts[1].ports[0], *last = net.hosts[2].ports[0];
    const char *source = way->source == NULL ? way->nets[0][0] : way->source;
    struct sim_path path = {.source_gid = gid_of(source),
                            .destination_gid = gid_of(way->nets[1][1]),
                            .source_mac = sim_port_mac(net.hosts[0].ports[0]),
                            .destination_mac = sim_port_mac(in),
                            .hop_limit = way->hop_limit,
                            .is_ipv4 = is_ipv4,
                            .header_bytes = is_ipv4 ? 28 : 48};
    struct sim_frame frame = {.path = &path,
                              .opcode = RC_SEND_ONLY,
                              .payload = (const uint8_t *)payload,
                              .n_payload = sizeof payload};
    frame.wire_bytes =
        (uint16_t)(sim_frame_ip_bytes(&path, 0, frame.n_payload) + 14 + 4 + 20);
    n_arrived = 0;
    memset(&asker, 0, sizeof asker);
    sim_port_tap(last, on_tap, NULL);
    bool is_taken = sim_stack_forward_roce(net.hosts[1].stack, in, &frame);
    memset(&path, 0, sizeof path); /* must have been copied */
    net_run(&net, 5 * SECOND);
    return is_taken;
}

static void check_arrived(size_t hop_limit_at, uint8_t hop_limit)
{
    uint64_t macs[2] = {0, 0};
    for (size_t i = 0; i < 12; i++) {
        macs[i / 6] = macs[i / 6] << 8 | arrived[i];
    }
    ck_assert_uint_gt(n_arrived, sizeof payload);
    ck_assert_uint_eq(macs[0], sim_port_mac(net.hosts[2].ports[0]));
    ck_assert_uint_eq(macs[1], sim_port_mac(net.hosts[1].ports[1]));
    ck_assert_uint_eq(arrived[hop_limit_at], hop_limit);
    /* Only the ICRC follows the payload. */
    ck_assert_mem_eq(arrived + n_arrived - 4 - sizeof payload, payload, sizeof payload);
    net_fini(&net);
}

static void check_dropped(const struct way *way, const char *why)
{
    ck_assert(send_through(way));
    ck_assert_uint_eq(n_arrived, 0);
    ck_assert_msg(strstr(net.story.bytes, why) != NULL, "%s", why);
    net_fini(&net);
}

START_TEST(it_goes_on_with_one_hop_less)
{
    struct way way = plain;
    ck_assert(send_through(&way));
    check_arrived(14 + 8, 63);
    way = (struct way){
        .nets = {{"fd00:1::1/64", "fd00:1::2/64"}, {"fd00:2::2/64", "fd00:2::3/64"}},
        .middle = plain.middle,
        .hop_limit = 2};
    ck_assert(send_through(&way));
    check_arrived(14 + 7, 1);
}
END_TEST

START_TEST(what_stops_it)
{
    struct way way = plain;
    way.middle.forward_accept = false;
    check_dropped(&way, "why=forward_policy");
    way = plain;
    way.hop_limit = 1;
    check_dropped(&way, "why=hop_limit");
    way = plain;
    way.has_no_route = true;
    check_dropped(&way, "why=no_route");
    /* Without forwarding the NIC gets the packet, and has no such queue pair. */
    way = plain;
    way.middle.sysctl.ip_forward = 0;
    ck_assert(!send_through(&way));
    ck_assert_uint_eq(n_arrived, 0);
    net_fini(&net);
}
END_TEST

START_TEST(what_is_for_an_address_of_the_host_is_its_own)
{
    struct way way = plain;
    way.nets[1][1] = "10.0.1.2/32"; /* h2 uses the address that h1 has */
    ck_assert(!send_through(&way));
    net_fini(&net);
}
END_TEST

/* The source of what waits for the MAC is the sender of the request for it, if it is an address
 * of the host that arp_announce permits: of the interface, if for discovery. */
START_TEST(a_request_is_sent_by_what_waits_for_it)
{
    static const struct {
        const char *source;
        int arp_announce;
        const char *asker;
    } rows[] = {
        {NULL, 0, "10.0.2.2/24"},
        {"10.0.1.2/24", 0, "10.0.1.2/24"},
        {"10.0.1.2/24", 1, "10.0.2.2/24"},
        {"10.0.1.2/24", 2, "10.0.2.2/24"},
        {"fd00:2::2/64", 0, "fd00:2::2/64"},
    };
    struct way way = plain;
    if (strchr(rows[_i].asker, ':') != NULL) {
        way.nets[0][0] = "fd00:1::1/64";
        way.nets[0][1] = "fd00:1::2/64";
        way.nets[1][0] = "fd00:2::2/64";
        way.nets[1][1] = "fd00:2::3/64";
    }
    way.source = rows[_i].source;
    way.middle.sysctl.accept_local = 1;
    way.middle.sysctl.arp_announce = rows[_i].arp_announce;
    ck_assert(send_through(&way));
    ck_assert_uint_gt(n_arrived, 0);
    union ibv_gid wanted = gid_of(rows[_i].asker);
    ck_assert_mem_eq(asker.raw, wanted.raw, 16);
    net_fini(&net);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim/forward");
    TCase *tests = tcase_create("forward");
    tcase_add_test(tests, it_goes_on_with_one_hop_less);
    tcase_add_test(tests, what_stops_it);
    tcase_add_loop_test(tests, a_request_is_sent_by_what_waits_for_it, 0, 5);
    tcase_add_test(tests, what_is_for_an_address_of_the_host_is_its_own);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
