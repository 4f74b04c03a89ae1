/* Times without loss, to the picosecond, against formulas that can be computed by hand
 * (docs/nic-model.md). Header sizes are typed from the standards; no table of the engine
 * is read. */
#include <check.h>

#include "base/suite_testing.h"
#include "sim/rc_testing.h"

enum {
    ETHERNET = 8 + 14 + 4 + 12, /* preamble, MAC header, FCS, gap (IEEE 802.3) */
    IPV4 = 20,
    IPV6 = 40,
    UDP = 8,
    BTH = 12,
    ICRC = 4,
    RETH = 16,
    IMMEDIATE = 4,
    AETH = 4,
    ATOMIC_ETH = 28,
    ATOMIC_ACK_ETH = 8
};

static struct rc_pair pair;

/* The times of the profile, and the cable of the pair. */
struct times {
    weft_ps tx, rx, cqe, answer, delay;
    uint64_t bps;
    bool is_ipv6;
};

static struct times times;

static void setup_with(struct rc_options options, uint64_t bps)
{
    rc_pair_init(&pair, &options);
    times = (struct times){.tx = 300000,
                           .rx = 200000,
                           .cqe = 150000,
                           .answer = 100000,
                           .delay = 1000000,
                           .bps = bps,
                           .is_ipv6 = options.is_ipv6};
    if (bps != 100000000000u) {
        sim_port_set_rate(pair.ends[0].port, bps);
    }
}

static void teardown(void)
{
    rc_pair_fini(&pair);
}

/* Returns the time of one frame on the wire, rounded up to a picosecond. */
static weft_ps frame(unsigned extension, uint32_t payload)
{
    uint64_t bytes = ETHERNET + (unsigned)(times.is_ipv6 ? IPV6 : IPV4) + UDP + BTH +
                     extension + (payload + 3u) / 4 * 4 + ICRC;
    return (weft_ps)((bytes * 8 * 1000000000000u + times.bps - 1) / times.bps);
}

/* Returns the time of a message in packets of `mtu` bytes: `first` is the size of the
 * extension headers of its first packet, `last` that of its last, `all` that of each. */
static weft_ps message(uint32_t bytes, uint32_t mtu, unsigned first, unsigned last,
                       unsigned all)
{
    weft_ps time = 0;
    uint32_t n = bytes == 0 ? 1 : (bytes - 1) / mtu + 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t payload = i + 1 < n ? mtu : bytes - i * mtu;
        unsigned extension = all;
        extension += i == 0 ? first : 0;
        extension += i + 1 == n ? last : 0;
        time += frame(extension, payload);
    }
    return time;
}

/* Returns the time of the responses of a READ, with an AETH in the first and the last, or
 * in the only one. */
static weft_ps responses(uint32_t bytes, uint32_t mtu)
{
    return bytes <= mtu ? frame(AETH, bytes) : message(bytes, mtu, AETH, AETH, 0);
}

/* Returns the time from the last bit of a frame to its execution by the other NIC. */
static weft_ps way(void)
{
    return times.delay + times.rx;
}

static weft_ps acknowledgement(void)
{
    return times.answer + frame(AETH, 0) + way();
}

struct operation {
    enum ibv_wr_opcode opcode;
    /* size of the extension headers of the request's first and last packet */
    unsigned first, last;
    bool is_received; /* completes a receive */
};

static const struct operation operations[] = {
    {IBV_WR_SEND, 0, 0, true},
    {IBV_WR_SEND_WITH_IMM, 0, IMMEDIATE, true},
    {IBV_WR_RDMA_WRITE, RETH, 0, false},
    {IBV_WR_RDMA_WRITE_WITH_IMM, RETH, IMMEDIATE, true},
};
enum { N_OPERATIONS = sizeof(operations) / sizeof(operations[0]) };

static const uint32_t sizes[] = {0,    1,    4,    255,   256,   257,
                                 1024, 4096, 4097, 65535, 65536, 500000};
enum { N_SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static const struct {
    struct rc_options options;
    uint64_t bps;
    uint32_t mtu;
} worlds[] = {
    {{.path_mtu = IBV_MTU_4096}, 100000000000u, 4096},
    {{.path_mtu = IBV_MTU_1024}, 100000000000u, 1024},
    {{.path_mtu = IBV_MTU_256}, 100000000000u, 256},
    {{.path_mtu = IBV_MTU_4096, .is_ipv6 = true}, 100000000000u, 4096},
    {{.path_mtu = IBV_MTU_4096}, 200000000000u, 4096},
    /* not a whole number of ps per byte */
    {{.path_mtu = IBV_MTU_2048}, 7000000000u, 2048},
    {{.path_mtu = IBV_MTU_512, .is_ipv6 = true}, 3333333333u, 512},
};
enum { N_WORLDS = sizeof(worlds) / sizeof(worlds[0]) };

static weft_ps wait_until(unsigned end, weft_ps start)
{
    ck_assert_int_eq(rc_wait(&pair, end).status, IBV_WC_SUCCESS);
    return sim_now(pair.engine) - start;
}

START_TEST(a_message_takes_its_bytes_and_one_way_and_its_acknowledgement_another)
{
    uint32_t mtu = worlds[_i].mtu;
    setup_with(worlds[_i].options, worlds[_i].bps);
    for (unsigned i = 0; i < N_OPERATIONS * N_SIZES; i++) {
        const struct operation *op = &operations[i / N_SIZES];
        uint32_t bytes = sizes[i % N_SIZES];
        weft_ps there = times.tx + message(bytes, mtu, op->first, op->last, 0) + way();
        if (op->is_received) {
            ck_assert_int_eq(rc_post_recv(&pair, 1, 0, 0, 524288), 0);
        }
        weft_ps start = sim_now(pair.engine);
        ck_assert_int_eq(rc_post(&pair, 0, op->opcode, i, 0, bytes, 524288), 0);
        if (op->is_received) {
            ck_assert_int_eq(wait_until(1, start), there + times.cqe);
        }
        ck_assert_int_eq(wait_until(0, start), there + acknowledgement() + times.cqe);
        rc_run(&pair, RC_PS_PER_MS);
    }
    teardown();
}
END_TEST

START_TEST(a_read_takes_a_request_and_its_bytes)
{
    uint32_t mtu = worlds[_i].mtu;
    setup_with(worlds[_i].options, worlds[_i].bps);
    for (unsigned i = 0; i < N_SIZES; i++) {
        weft_ps start = sim_now(pair.engine);
        ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_READ, i, 0, sizes[i], 524288), 0);
        ck_assert_int_eq(wait_until(0, start),
                         times.tx + frame(RETH, 0) + way() + times.answer +
                             responses(sizes[i], mtu) + way() + times.cqe);
        rc_run(&pair, RC_PS_PER_MS);
    }
    teardown();
}
END_TEST

START_TEST(an_atomic_takes_two_small_frames)
{
    setup_with(worlds[_i].options, worlds[_i].bps);
    for (int i = 0; i < 2; i++) {
        enum ibv_wr_opcode opcode =
            i == 0 ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
        weft_ps start = sim_now(pair.engine);
        ck_assert_int_eq(rc_post(&pair, 0, opcode, 1, 0, 8, 524288), 0);
        ck_assert_int_eq(wait_until(0, start),
                         times.tx + frame(ATOMIC_ETH, 0) + way() + times.answer +
                             frame(AETH + ATOMIC_ACK_ETH, 0) + way() + times.cqe);
        rc_run(&pair, RC_PS_PER_MS);
    }
    teardown();
}
END_TEST

static weft_ps received_after(struct rc_options options)
{
    setup_with(options, 100000000000u);
    ck_assert_int_eq(rc_post_recv(&pair, 1, 0, 0, 0), 0);
    weft_ps start = sim_now(pair.engine);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 262144, 524288),
                     0);
    weft_ps time = wait_until(1, start);
    teardown();
    return time;
}

/* The time of a transfer between NICs without overheads, as the benchmarks use them, and
 * the overheads that mlx5 adds: 300 ns from the doorbell to the first bit, 200 ns from
 * the last bit to its execution, 150 ns until the completion can be polled. */
START_TEST(a_nic_adds_its_overheads_and_nothing_else)
{
    struct rc_options ideal = {.overrides = {{"tx_overhead", "0ns"},
                                             {"rx_overhead", "0ns"},
                                             {"cqe_overhead", "0ns"}}};
    weft_ps wire = (64 * (4096 + 82) + RETH + IMMEDIATE) * 80 + 1000000;
    ck_assert_int_eq(received_after(ideal), wire);
    ck_assert_int_eq(received_after((struct rc_options){0}),
                     wire + 300000 + 200000 + 150000);
}
END_TEST

START_TEST(messages_follow_each_other_without_a_gap)
{
    const uint32_t bytes = 30000;
    setup_with((struct rc_options){.path_mtu = IBV_MTU_4096}, 100000000000u);
    weft_ps start = sim_now(pair.engine);
    for (uint64_t i = 0; i < 20; i++) {
        ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, i, 0, bytes, 524288), 0);
    }
    for (int i = 1; i <= 20; i++) {
        ck_assert_int_eq(wait_until(0, start), times.tx +
                                                   i * message(bytes, 4096, RETH, 0, 0) +
                                                   way() + acknowledgement() + times.cqe);
    }
    teardown();
}
END_TEST

/* Acknowledgements of the other direction are sent between the packets: one for every 64
 * of the peer's packets, except the one for its last. */
START_TEST(both_directions_at_once_pay_for_each_others_acknowledgements)
{
    const uint32_t packets[] = {16, 64, 65, 127};
    for (int i = 0; i < 4; i++) {
        uint32_t bytes = packets[i] * 4096;
        int n_between = packets[i] > 64 ? 1 : 0;
        setup_with((struct rc_options){.path_mtu = IBV_MTU_4096}, 100000000000u);
        weft_ps start = sim_now(pair.engine);
        for (unsigned end = 0; end < 2; end++) {
            ck_assert_int_eq(rc_post(&pair, end, IBV_WR_RDMA_WRITE, 1, 0, bytes, 524288),
                             0);
        }
        weft_ps sent = times.tx + message(bytes, 4096, RETH, 0, 0);
        /* The acknowledgement in between is due this long after the 64th packet. It
         * delays data only if there is enough left by then. */
        weft_ps due =
            times.tx + message(64 * 4096, 4096, RETH, 0, 0) + way() + times.answer;
        if (n_between > 0 && due < sent) {
            sent += frame(AETH, 0);
        }
        for (unsigned end = 0; end < 2; end++) {
            ck_assert_int_eq(wait_until(end, start),
                             sent + way() + acknowledgement() + times.cqe);
        }
        teardown();
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("closed form");
    TCase *tcase = tcase_create("times");
    tcase_add_loop_test(
        tcase, a_message_takes_its_bytes_and_one_way_and_its_acknowledgement_another, 0,
        N_WORLDS);
    tcase_add_loop_test(tcase, a_read_takes_a_request_and_its_bytes, 0, N_WORLDS);
    tcase_add_loop_test(tcase, an_atomic_takes_two_small_frames, 0, N_WORLDS);
    tcase_add_test(tcase, a_nic_adds_its_overheads_and_nothing_else);
    tcase_add_test(tcase, messages_follow_each_other_without_a_gap);
    tcase_add_test(tcase, both_directions_at_once_pay_for_each_others_acknowledgements);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
