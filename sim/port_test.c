/* Ports, cables and networks, observed through their taps. */
#include "sim/port.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/icrc.h"
#include "sim/link.h"
#include "sim/rc_testing.h"

enum { SEEN_MAX = 64 };

struct seen {
    weft_ns at;
    bool is_outgoing;
    size_t n_bytes;
    uint8_t first_byte;
    const char *comment;
};

/* Three ports without NICs and stacks. */
struct wires {
    struct sim_engine *engine;
    struct weft_trace trace;
    struct weft_text story;
    struct sim_port *ports[3];
    struct seen seen[3][SEEN_MAX];
    unsigned n_seen[3];
};

static struct wires wires;

static void add_line(void *context, const char *line, size_t n_bytes)
{
    weft_text_add_bytes(context, line, n_bytes);
}

static void tap(void *context, weft_ns at, const struct sim_port *port, bool is_outgoing,
                const uint8_t *bytes, size_t n_bytes, const char *comment)
{
    unsigned i = (unsigned)(sim_port_mac(port) - 1);
    ck_assert_ptr_eq(context, &wires);
    ck_assert_uint_lt(wires.n_seen[i], SEEN_MAX);
    wires.seen[i][wires.n_seen[i]++] =
        (struct seen){at, is_outgoing, n_bytes, n_bytes > 0 ? bytes[0] : 0, comment};
}

static size_t encode(const struct sim_packet *packet, uint8_t *out, size_t out_bytes)
{
    ck_assert_uint_ge(out_bytes, packet->n_payload);
    memcpy(out, packet->payload, packet->n_payload);
    return packet->n_payload;
}

static void setup(void)
{
    static const char *const hosts[3] = {"a", "b", "c"};
    memset(&wires, 0, sizeof(wires));
    weft_trace_init(&wires.trace, WEFT_TRACE_STORY, add_line, &wires.story);
    wires.engine = sim_engine_create(3, &wires.trace);
    for (unsigned i = 0; i < 3; i++) {
        struct sim_port_config config = {
            .host = hosts[i], .name = "p0", .mac = i + 1, .mtu_bytes = 1500};
        wires.ports[i] = sim_port_create(wires.engine, &config);
        sim_port_tap(wires.ports[i], tap, &wires);
        sim_port_set_encoder(wires.ports[i], encode);
    }
}

static void teardown(void)
{
    for (unsigned i = 0; i < 3; i++) {
        sim_port_destroy(wires.ports[i]);
    }
    sim_port_destroy(NULL);
    sim_engine_destroy(wires.engine);
    sim_engine_destroy(NULL);
    weft_text_fini(&wires.story);
}

static struct sim_cable_config cable(void)
{
    return (struct sim_cable_config){
        .name = "a-b", .rate_bps = 10000000000u, .delay_ps = 2000000, .up = true};
}

static void connect_ports(const struct sim_cable_config *config)
{
    sim_cable_connect(wires.engine, config, wires.ports[0], wires.ports[1]);
}

static void send(unsigned from, uint64_t to_mac, uint32_t ip_bytes, uint8_t mark)
{
    struct sim_packet *packet = calloc(1, sizeof(*packet));
    packet->kind = mark % 2 == 0 ? SIM_FRAME_TCP : SIM_FRAME_NEIGH;
    packet->source_mac = from + 1;
    packet->destination_mac = to_mac;
    packet->ip_bytes = ip_bytes;
    packet->wire_bytes = ip_bytes + 18;
    packet->payload = malloc(1);
    packet->n_payload = 1;
    memset(packet->payload, mark, 1);
    sim_port_send(wires.ports[from], packet);
}

static void run(void)
{
    while (sim_step(wires.engine, SIM_NEVER)) {
    }
}

static bool told(const char *text)
{
    return wires.story.bytes != NULL && strstr(wires.story.bytes, text) != NULL;
}

START_TEST(a_packet_takes_its_time)
{
    struct sim_cable_config config = cable();
    connect_ports(&config);
    send(0, 2, 1462, 7); /* 1500 B with preamble and gap: 1.2 us at 10 Gb/s */
    send(0, 2, 1462, 8);
    run();
    ck_assert_uint_eq(wires.n_seen[0], 2);
    ck_assert_uint_eq(wires.n_seen[1], 2);
    ck_assert_int_eq(wires.seen[0][0].at, 0);
    ck_assert(wires.seen[0][0].is_outgoing);
    ck_assert_int_eq(wires.seen[0][1].at, 1200);
    ck_assert_int_eq(wires.seen[1][0].at, 3200);
    ck_assert(!wires.seen[1][0].is_outgoing);
    ck_assert_uint_eq(wires.seen[1][0].first_byte, 7);
    ck_assert_int_eq(wires.seen[1][1].at, 4400);
    struct sim_direction_stats stats = sim_port_sent(wires.ports[0]);
    ck_assert_uint_eq(stats.packets, 2);
    ck_assert_uint_eq(stats.bytes, 3000);
    ck_assert_int_eq(stats.busy_ps, 2400000);
}
END_TEST

START_TEST(a_link_is_never_faster_than_its_rate)
{
    struct sim_cable_config config = cable();
    config.rate_bps = 7000000000u; /* 8000/7 ps per byte: not a whole number */
    connect_ports(&config);
    ck_assert_int_eq(sim_rate_time(&wires.ports[0]->out.rate, 1), 1143);
    ck_assert_int_eq(sim_rate_time(&wires.ports[0]->out.rate, 7), 8000);
    ck_assert_uint_eq(sim_port_rate(wires.ports[0]), 7000000000u);
    sim_port_set_rate(wires.ports[0], 8000000000u);
    ck_assert_int_eq(sim_rate_time(&wires.ports[1]->out.rate, 7), 7000);
    /* The PCIe root of either end limits both directions. */
    wires.ports[1]->root_bps = 1000000000u;
    sim_port_set_rate(wires.ports[0], 8000000000u);
    ck_assert_int_eq(sim_rate_time(&wires.ports[0]->out.rate, 1), 8000);
    ck_assert_int_eq(sim_rate_time(&wires.ports[1]->out.rate, 1), 8000);
    ck_assert_uint_eq(sim_port_rate(wires.ports[0]), 8000000000u);
}
END_TEST

START_TEST(what_cannot_leave_is_dropped_with_its_reason)
{
    struct sim_cable_config config = cable();
    send(0, 2, 100, 1); /* no cable */
    ck_assert(told("a p0 drop why=no_carrier kind=neighbour"));
    config.queue_bytes = 2000;
    config.path_limit_bytes = 1000;
    connect_ports(&config);
    ck_assert(sim_port_is_up(wires.ports[0]));
    send(0, 2, 1501, 2);
    ck_assert(told("drop why=mtu kind=tcp"));
    send(0, 2, 1001, 1);
    send(0, 2, 900, 2);
    send(0, 2, 900, 4);
    ck_assert(told("drop why=queue_full"));
    run();
    ck_assert(told("drop why=path_limit"));
    ck_assert_uint_eq(wires.n_seen[1], 1);
    ck_assert_uint_eq(wires.seen[1][0].first_byte, 2);
    ck_assert_str_eq(wires.seen[0][0].comment, "path_limit");
    ck_assert_uint_eq(sim_port_sent(wires.ports[0]).drops, 4);
}
END_TEST

START_TEST(pause_holds_what_a_queue_has_no_room_for)
{
    struct sim_cable_config config = cable();
    config.queue_bytes = 300;
    config.pause = true;
    connect_ports(&config);
    sim_port_attach(wires.ports[1], NULL, NULL);
    for (int i = 0; i < 20; i++) {
        send(0, 2, 100, 1);
    }
    run();
    ck_assert(!told("queue_full"));
    ck_assert_uint_eq(sim_port_sent(wires.ports[0]).packets, 20);
    ck_assert_uint_eq(sim_port_sent(wires.ports[0]).drops, 0);
}
END_TEST

START_TEST(a_smaller_mtu_there_swallows)
{
    struct sim_cable_config config = cable();
    connect_ports(&config);
    sim_port_set_mtu(wires.ports[1], 1000);
    ck_assert_uint_eq(sim_port_mtu(wires.ports[1]), 1000);
    send(0, 2, 1001, 1);
    run();
    ck_assert_str_eq(wires.seen[1][0].comment, "mtu");
}
END_TEST

START_TEST(misfortune_comes_to_packets_too)
{
    struct sim_cable_config config = cable();
    config.impairment.loss_ppb = 1000000000;
    connect_ports(&config);
    send(0, 2, 100, 1);
    run();
    ck_assert_str_eq(wires.seen[0][0].comment, "loss");
    struct sim_impairment corrupt = {.corrupt_ppb = 1000000000};
    sim_port_set_impairment(wires.ports[1], false, true, &corrupt);
    send(0, 2, 100, 1);
    run();
    ck_assert_str_eq(wires.seen[0][1].comment, "corrupt");
    struct sim_impairment twice = {.duplicate_ppb = 1000000000};
    sim_port_set_impairment(wires.ports[0], true, true, &twice);
    send(0, 2, 100, 3);
    run();
    ck_assert_uint_eq(wires.n_seen[1], 2);
    ck_assert_uint_eq(wires.seen[1][1].first_byte, 3);
}
END_TEST

START_TEST(one_direction_down_is_no_carrier_for_both)
{
    struct sim_cable_config config = cable();
    connect_ports(&config);
    send(0, 2, 100, 1);
    send(1, 1, 100, 1);
    ck_assert(sim_step(wires.engine, SIM_NEVER));
    ck_assert(sim_step(wires.engine, SIM_NEVER));
    sim_port_set_down(wires.ports[0], true, false, true);
    ck_assert(!sim_port_is_up(wires.ports[0]));
    ck_assert(!sim_port_is_up(wires.ports[1]));
    ck_assert(told("a p0 port_down in_flight_lost=1"));
    ck_assert(told("b p0 port_down in_flight_lost=1"));
    run();
    ck_assert_uint_eq(wires.n_seen[1], 1); /* only the packet that it sent */
    sim_port_set_down(wires.ports[0], true, false, false);
    sim_port_set_down(wires.ports[0], true, false, false);
    ck_assert(told("b p0 port_up"));
    ck_assert(sim_port_is_up(wires.ports[1]));
}
END_TEST

START_TEST(what_waits_when_the_cable_goes_is_lost)
{
    struct sim_cable_config config = cable();
    connect_ports(&config);
    for (unsigned i = 0; i < 40; i++) {
        send(0, 2, 1000, 2);
    }
    ck_assert(sim_step(wires.engine, SIM_NEVER));
    sim_port_set_down(wires.ports[1], false, true, true);
    run();
    ck_assert_uint_eq(wires.n_seen[1], 0);
    ck_assert_uint_eq(sim_port_sent(wires.ports[0]).drops, 40);
}
END_TEST

START_TEST(a_shrinking_delay_does_not_reorder)
{
    struct sim_cable_config config = cable();
    connect_ports(&config);
    send(0, 2, 100, 1);
    ck_assert(sim_step(wires.engine, SIM_NEVER));
    sim_port_set_delay(wires.ports[1], false, true, 0, 0);
    send(0, 2, 100, 2);
    run();
    ck_assert_uint_eq(wires.seen[1][0].first_byte, 1);
    ck_assert_uint_eq(wires.seen[1][1].first_byte, 2);
    ck_assert_int_eq(wires.seen[1][0].at, wires.seen[1][1].at);
}
END_TEST

START_TEST(a_network_reaches_who_is_meant)
{
    struct sim_cable_config config = cable();
    config.name = "management";
    sim_network_connect(wires.engine, &config, wires.ports, 3);
    ck_assert(sim_port_is_up(wires.ports[2]));
    send(0, 3, 100, 1);
    send(0, SIM_MAC_BROADCAST, 100, 2);
    send(0, 77, 100, 4);
    run();
    ck_assert_uint_eq(wires.n_seen[1], 1);
    ck_assert_uint_eq(wires.seen[1][0].first_byte, 2);
    ck_assert_uint_eq(wires.n_seen[2], 2);
    sim_port_set_down(wires.ports[2], true, true, true);
    ck_assert(!sim_port_is_up(wires.ports[2]));
    ck_assert(sim_port_is_up(wires.ports[0]));
    sim_port_set_path_limit(wires.ports[0], 50);
    send(0, 3, 100, 1);
    run();
    ck_assert_uint_eq(wires.n_seen[2], 2);
}
END_TEST

START_TEST(losing_the_far_port_is_losing_the_cable)
{
    struct sim_cable_config config = cable();
    connect_ports(&config);
    send(0, 2, 100, 1);
    ck_assert(sim_step(wires.engine, SIM_NEVER));
    sim_port_destroy(wires.ports[1]);
    wires.ports[1] = NULL;
    ck_assert(!sim_port_is_up(wires.ports[0]));
    ck_assert_uint_eq(sim_port_rate(wires.ports[0]), 0);
    run();
    ck_assert_str_eq(sim_port_name(wires.ports[0]), "p0");
    ck_assert_str_eq(sim_port_host(wires.ports[0]), "a");
}
END_TEST

/* RoCE frames in a capture. */
struct capture {
    unsigned n_out, n_in, n_dropped, n_corrupt, n_wrong_icrc;
    size_t longest;
};

static void capture(void *context, weft_ns at, const struct sim_port *port,
                    bool is_outgoing, const uint8_t *bytes, size_t n_bytes,
                    const char *comment)
{
    struct capture *seen = context;
    (void)at;
    (void)port;
    if (n_bytes < 14 + 20 + 8 + 12 + 4 || bytes[12] != 0x08 || bytes[23] != 17) {
        return;
    }
    uint32_t icrc = sim_icrc(bytes + 14, n_bytes - 18, false);
    const uint8_t *end = bytes + n_bytes - 4;
    uint32_t sent = (uint32_t)end[0] | (uint32_t)end[1] << 8 | (uint32_t)end[2] << 16 |
                    (uint32_t)end[3] << 24;
    seen->n_wrong_icrc += icrc != sent;
    seen->n_corrupt += comment != NULL && strcmp(comment, "corrupt") == 0;
    seen->n_dropped += comment != NULL && strcmp(comment, "match") == 0;
    seen->n_out += is_outgoing;
    seen->n_in += !is_outgoing;
    seen->longest = n_bytes > seen->longest ? n_bytes : seen->longest;
}

START_TEST(a_tap_sees_every_frame_as_bytes)
{
    struct rc_pair pair;
    struct capture seen = {0}, there = {0};
    rc_pair_init(&pair, NULL);
    struct sim_match drop = {.action = SIM_MATCH_DROP, .qp = 1, .psn = 1};
    struct sim_match corrupt = {.action = SIM_MATCH_CORRUPT, .qp = 1, .psn = 2};
    sim_port_add_match(pair.ends[0].port, &drop);
    sim_port_add_match(pair.ends[0].port, &corrupt);
    sim_port_tap(pair.ends[0].port, capture, &seen);
    sim_port_tap(pair.ends[1].port, capture, &there);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 5 * 4096, 0), 0);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_uint_eq(seen.n_out, 5 + 4);
    ck_assert_uint_eq(seen.n_in, 2); /* NAK, ACK */
    ck_assert_uint_eq(seen.n_dropped, 1);
    ck_assert_uint_eq(seen.n_corrupt, 1);
    /* The bit flips in transit: the sent frame is intact, the received one is not. */
    ck_assert_uint_eq(seen.n_wrong_icrc, 0);
    ck_assert_uint_eq(there.n_in, 9 - 1);
    ck_assert_uint_eq(there.n_wrong_icrc, 1);
    ck_assert_uint_eq(seen.longest, 14 + 20 + 8 + 12 + 16 + 4096 + 4);
    sim_port_tap(pair.ends[0].port, NULL, NULL);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 8, 0), 0);
    (void)rc_wait(&pair, 0);
    ck_assert_uint_eq(seen.n_out, 9);
    rc_pair_fini(&pair);
}
END_TEST

START_TEST(packet_level_tells_every_frame)
{
    struct rc_pair pair;
    rc_pair_init(&pair, &(struct rc_options){.level = WEFT_TRACE_PACKET});
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 5 * 4096, 0), 0);
    (void)rc_wait(&pair, 0);
    ck_assert_uint_eq(rc_times_told(&pair, "a p0 frame opcode=WRITE_"), 5);
    ck_assert_uint_eq(rc_times_told(&pair, "b p0 frame opcode=ACK"), 1);
    rc_pair_fini(&pair);
}
END_TEST

START_TEST(jitter_keeps_the_order)
{
    struct rc_pair pair;
    rc_pair_init(&pair, NULL);
    sim_port_set_delay(pair.ends[0].port, true, true, RC_PS_PER_US, 9 * RC_PS_PER_US);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 500000, 0), 0);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert(!rc_told(&pair, "nak_sequence"));
    rc_pair_fini(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("port");
    TCase *bare = tcase_create("bare");
    tcase_add_checked_fixture(bare, setup, teardown);
    tcase_add_test(bare, a_packet_takes_its_time);
    tcase_add_test(bare, a_link_is_never_faster_than_its_rate);
    tcase_add_test(bare, what_cannot_leave_is_dropped_with_its_reason);
    tcase_add_test(bare, pause_holds_what_a_queue_has_no_room_for);
    tcase_add_test(bare, a_smaller_mtu_there_swallows);
    tcase_add_test(bare, misfortune_comes_to_packets_too);
    tcase_add_test(bare, one_direction_down_is_no_carrier_for_both);
    tcase_add_test(bare, what_waits_when_the_cable_goes_is_lost);
    tcase_add_test(bare, a_shrinking_delay_does_not_reorder);
    tcase_add_test(bare, a_network_reaches_who_is_meant);
    tcase_add_test(bare, losing_the_far_port_is_losing_the_cable);
    suite_add_tcase(suite, bare);
    TCase *roce = tcase_create("roce");
    tcase_add_test(roce, a_tap_sees_every_frame_as_bytes);
    tcase_add_test(roce, packet_level_tells_every_frame);
    tcase_add_test(roce, jitter_keeps_the_order);
    suite_add_tcase(suite, roce);
    return suite_run(suite);
}
