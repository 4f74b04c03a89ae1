/* Loss in both directions of a cable: every message completes exactly once, at the
 * goodput that docs/nic-model.md derives for go-back-N. A number as argument multiplies
 * the amount sent and selects another seed. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/suite_testing.h"
#include "sim/nic_objects.h"
#include "sim/rc_testing.h"

enum { SLOTS = 8, RECEIVES = 60, POLLED = 16, HALF = RC_MEMORY_BYTES / 2 };

static struct rc_pair pair;
static uint32_t times = 1; /* multiplies the amount sent */

static void teardown(void)
{
    rc_pair_fini(&pair);
}

static void setup_with(const struct rc_options *options, uint32_t loss_ppb)
{
    struct sim_impairment impairment = {.loss_ppb = loss_ppb};
    rc_pair_init(&pair, options);
    pair.trace.level = WEFT_TRACE_OFF; /* no event log of millions of packets */
    sim_port_set_impairment(pair.ends[0].port, true, true, &impairment);
}

/* Aborts the test unless `holds`. Check writes to a pipe for every assertion that passes,
 * which is too slow for checks of every message. */
static void require(bool holds, const char *what, uint32_t message)
{
    if (!holds) {
        ck_abort_msg("%s, message %u", what, message);
    }
}

/* Messages from end 0 to end 1, at most `n_slots` of them in progress. Message i carries
 * i in its first and last 8 bytes and as its immediate. */
struct stream {
    uint32_t n_messages, bytes, n_slots;
    uint32_t n_posted, n_sent, n_received, n_receives;
};

static size_t slot_of(uint32_t message, uint32_t bytes)
{
    return (size_t)(message % SLOTS) * bytes;
}

static void post_more(struct stream *stream)
{
    while (stream->n_receives < stream->n_received + RECEIVES) {
        require(rc_post_recv(&pair, 1, stream->n_receives++, 0, 0) == 0, "post", 0);
    }
    while (stream->n_posted < stream->n_messages &&
           stream->n_posted < stream->n_sent + stream->n_slots) {
        uint64_t stamp = stream->n_posted;
        size_t slot = slot_of(stream->n_posted, stream->bytes);
        uint8_t *bytes = pair.ends[0].memory + slot;
        memcpy(bytes, &stamp, sizeof(stamp));
        stamp = ~stamp;
        memcpy(bytes + stream->bytes - sizeof(stamp), &stamp, sizeof(stamp));
        require(rc_post(&pair, 0, IBV_WR_RDMA_WRITE_WITH_IMM, stream->n_posted, slot,
                        stream->bytes, HALF + slot) == 0,
                "post", stream->n_posted);
        stream->n_posted++;
    }
}

static int poll(unsigned end, struct ibv_wc *wc)
{
    int n = 0;
    require(sim_nic_poll_cq(pair.ends[end].cq, POLLED, wc, &n) == 0, "poll", end);
    return n;
}

/* Checks that completions arrive in order, once each, with the bytes of their message. */
static void take_completions(struct stream *stream)
{
    struct ibv_wc wc[POLLED];
    int n;
    while ((n = poll(1, wc)) > 0) {
        for (int i = 0; i < n; i++) {
            uint64_t first, last;
            uint32_t message = stream->n_received++;
            const uint8_t *bytes =
                pair.ends[1].memory + HALF + slot_of(message, stream->bytes);
            memcpy(&first, bytes, sizeof(first));
            memcpy(&last, bytes + stream->bytes - sizeof(last), sizeof(last));
            require(wc[i].status == IBV_WC_SUCCESS, "not received", message);
            require(wc[i].imm_data == message, "out of order", message);
            require(wc[i].byte_len == stream->bytes, "another length", message);
            require(first == message && last == ~(uint64_t)message, "other bytes",
                    message);
        }
    }
    while ((n = poll(0, wc)) > 0) {
        for (int i = 0; i < n; i++) {
            require(wc[i].status == IBV_WC_SUCCESS, "not sent", stream->n_sent);
            require(wc[i].wr_id == stream->n_sent, "sent out of order", stream->n_sent);
            stream->n_sent++;
        }
    }
}

/* Sends all messages. Returns the time from the first post to the last completion. */
static weft_ps send_all(uint32_t n_messages, uint32_t bytes, uint32_t n_slots)
{
    struct stream stream = {.n_messages = n_messages, .bytes = bytes, .n_slots = n_slots};
    weft_ps start = sim_now(pair.engine);
    weft_ps end = start;
    int wakes = -1;
    while (stream.n_sent < n_messages || stream.n_received < n_messages) {
        if (wakes != pair.ends[0].n_wakes + pair.ends[1].n_wakes) {
            wakes = pair.ends[0].n_wakes + pair.ends[1].n_wakes;
            take_completions(&stream);
            post_more(&stream);
            end = sim_now(pair.engine);
            (void)sim_nic_req_notify(pair.ends[0].cq, false);
            (void)sim_nic_req_notify(pair.ends[1].cq, false);
            take_completions(&stream); /* those that arrived before the CQs were armed */
            continue;
        }
        require(sim_step(pair.engine, start + 10000 * RC_PS_PER_S), "stuck",
                stream.n_received);
    }
    /* No completion arrives twice. */
    rc_run(&pair, RC_PS_PER_S);
    struct ibv_wc wc;
    ck_assert_int_eq(rc_poll(&pair, 0, &wc, 1), 0);
    ck_assert_int_eq(rc_poll(&pair, 1, &wc, 1), 0);
    return end - start;
}

/* ---- the model: docs/nic-model.md ---- */

/* IEEE 802.3 and RoCE v2 over IPv4: preamble and gap, MAC header, FCS; IP, UDP, BTH, ICRC. */
enum {
    AROUND_BYTES = 8 + 12 + 14 + 4 + 20 + 8 + 12 + 4,
    AETH = 4,
    RETH = 16,
    IMMEDIATE = 4
};

enum { MODEL_PACKETS = 16, MODEL_TIMEOUT = 3 };

/* At 100 Gbit/s, with the parts of profile mlx5 that the model includes. */
enum { PS_PER_BYTE = 80, DELAY_PS = 1000000, RX_PS = 200000, ACK_DELAY_PS = 100000 };

/* Mean time of a packet on the wire: only the first of a message has a RETH, only the
 * last the immediate. */
static double slot_ps(void)
{
    return (AROUND_BYTES + 4096 + (RETH + IMMEDIATE) / (double)MODEL_PACKETS) *
           PS_PER_BYTE;
}

/* Time from the first bit of a packet until its acknowledgement has been executed. */
static double round_ps(void)
{
    return slot_ps() + DELAY_PS + RX_PS + ACK_DELAY_PS +
           (AROUND_BYTES + AETH) * PS_PER_BYTE + DELAY_PS + RX_PS;
}

/* Slots lost to a gap that a NAK closes: from the lost packet to its retransmission. */
static double slots_of_nak(void)
{
    return ceil((slot_ps() + round_ps()) / slot_ps());
}

static double slots_of_timer(void)
{
    return (4096000.0 * (1 << MODEL_TIMEOUT)) / slot_ps() + 0.5;
}

/* Slots used per delivered packet. */
static double slots_per_packet(double loss)
{
    double since_ack = (1 + MODEL_PACKETS) / 2.0;
    double by_lost_nak = slots_of_timer() + round_ps() / slot_ps() - since_ack;
    double gap = (1 - loss) * slots_of_nak() + loss + loss * by_lost_nak +
                 loss / (1 - loss) * slots_of_timer();
    return 1 + loss * gap;
}

/* Standard deviation of that over `n` packets. The number of gaps and the number of gaps
 * that the timer closes are Poisson-distributed. */
static double deviation(double loss, double n)
{
    double by_nak = slots_of_nak(), by_timer = slots_of_timer();
    double gaps = n * loss * by_nak * by_nak;
    double timeouts = n * 2 * loss * loss * by_timer * by_timer;
    return sqrt(gaps + timeouts) / n;
}

static const struct {
    uint32_t loss_ppb, n_messages;
} goodputs[] = {{100000, 10000}, {1000000, 20000}, {10000000, 60000}};

START_TEST(goodput_is_that_of_the_model)
{
    const struct rc_options options = {.timeout = MODEL_TIMEOUT, .seed = 10 + times};
    uint32_t n = goodputs[_i].n_messages * times;
    double loss = goodputs[_i].loss_ppb / 1e9;
    double n_packets = (double)n * MODEL_PACKETS;
    setup_with(&options, goodputs[_i].loss_ppb);
    for (unsigned end = 0; end < 2; end++) {
        sim_nic_check_payloads(pair.ends[end].nic, false); /* the messages show changes */
    }
    double measured =
        (double)send_all(n, MODEL_PACKETS * 4096, SLOTS) / slot_ps() / n_packets;
    double off = fabs(measured - slots_per_packet(loss));
    ck_assert_double_lt(off / slots_per_packet(loss), 0.01);
    ck_assert_double_lt(off, 4 * deviation(loss, n_packets));
    /* The bound is meaningful, because it is much finer than the value it bounds. */
    ck_assert_double_lt(4 * deviation(loss, n_packets), 0.01);
    /* Gaps open per packet sent the first time, including packets that are retransmitted
     * later. */
    double naks = (double)rc_counters(&pair, 1).naks_sent;
    ck_assert_double_lt(fabs(naks - n_packets * loss), 5 * sqrt(n_packets * loss));
    teardown();
}
END_TEST

/* ---- any loss ---- */

static const uint32_t sweep_ppb[] = {10000, 100000, 1000000, 10000000, 100000000};

START_TEST(every_message_completes_exactly_once)
{
    const struct rc_options options = {.timeout = 5, .seed = 4 + times};
    setup_with(&options, sweep_ppb[_i]);
    (void)send_all(1200 * times, 16 * 4096, SLOTS);
    ck_assert(sweep_ppb[_i] < 100000 || rc_counters(&pair, 0).retransmits > 0);
    teardown();
}
END_TEST

START_TEST(twelve_thousand_small_messages_at_one_in_a_thousand)
{
    /* One message at a time, so that no later packet shows its loss. */
    bool is_chain = _i == 0;
    setup_with(NULL, 1000000);
    (void)send_all(12000, 4096, is_chain ? 1 : SLOTS);
    ck_assert_uint_gt(rc_counters(&pair, 0).retransmits, 0);
    ck_assert_uint_eq(rc_counters(&pair, 0).timeouts > 0, is_chain);
    ck_assert_uint_eq(rc_counters(&pair, 1).naks_sent > 0, !is_chain);
    teardown();
}
END_TEST

/* The last packet is lost, and then its retransmissions. */
START_TEST(the_very_last_packet_is_lost)
{
    const uint32_t n = 100, first_psn = 0;
    for (uint32_t n_lost = 1; n_lost <= 7; n_lost++) {
        setup_with(NULL, 0);
        for (uint32_t i = 0; i < n_lost; i++) {
            struct sim_match last = {.action = SIM_MATCH_DROP,
                                     .qp = 1,
                                     .psn = first_psn + n - 1,
                                     .iteration = i};
            sim_port_add_match(pair.ends[0].port, &last);
        }
        weft_ps time = send_all(n, 4096, SLOTS);
        ck_assert_uint_eq(rc_counters(&pair, 0).timeouts, n_lost);
        ck_assert_int_gt(time, n_lost * ((weft_ps)4096000 << 14));
        teardown();
    }
}
END_TEST

START_TEST(the_very_last_acknowledgement_is_lost)
{
    struct sim_impairment all = {.loss_ppb = 1000000000}, none = {0};
    struct ibv_wc wc;
    setup_with(NULL, 0);
    ck_assert_int_eq(rc_post_recv(&pair, 1, 1, 0, 0), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 4096, HALF), 0);
    sim_port_set_impairment(pair.ends[1].port, true, false, &all);
    ck_assert_int_eq(rc_wait(&pair, 1).status, IBV_WC_SUCCESS);
    ck_assert_int_eq(rc_poll(&pair, 0, &wc, 1), 0);
    rc_run(&pair, RC_PS_PER_MS);
    sim_port_set_impairment(pair.ends[1].port, true, false, &none);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    rc_run(&pair, RC_PS_PER_S);
    ck_assert_int_eq(rc_poll(&pair, 1, &wc, 1), 0);
    teardown();
}
END_TEST

START_TEST(a_cable_down_for_good_ends_in_a_typed_error)
{
    struct ibv_wc wc[32];
    setup_with(NULL, 0);
    for (uint64_t i = 0; i < 20; i++) {
        ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, i, 0, 16 * 4096, HALF), 0);
    }
    rc_run(&pair, 20 * RC_PS_PER_US);
    sim_port_set_down(pair.ends[0].port, true, true, true);
    rc_run(&pair, 100 * RC_PS_PER_S);
    int n_ok = 0, n = rc_poll(&pair, 0, wc, 32);
    ck_assert_int_eq(n, 20);
    while (wc[n_ok].status == IBV_WC_SUCCESS) {
        n_ok++;
    }
    ck_assert_int_gt(n_ok, 0);
    ck_assert_int_eq(wc[n_ok].status, IBV_WC_RETRY_EXC_ERR);
    ck_assert_uint_eq(wc[n_ok].wr_id, (uint64_t)n_ok);
    for (int i = n_ok + 1; i < n; i++) {
        ck_assert_int_eq(wc[i].status, IBV_WC_WR_FLUSH_ERR);
        ck_assert_uint_eq(wc[i].wr_id, (uint64_t)i);
    }
    /* Eight timeouts: after the last progress, and after seven retries. */
    ck_assert_uint_eq(rc_counters(&pair, 0).timeouts, 8);
    teardown();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 2) {
        times = (uint32_t)strtoul(argv[1], NULL, 10);
    }
    Suite *suite = suite_create("loss");
    TCase *model = tcase_create("model");
    TCase *once = tcase_create("once");
    tcase_set_timeout(model, 120 * times);
    tcase_set_timeout(once, 120 * times);
    tcase_add_loop_test(model, goodput_is_that_of_the_model, 0, 3);
    tcase_add_loop_test(once, every_message_completes_exactly_once, 0, 5);
    tcase_add_loop_test(once, twelve_thousand_small_messages_at_one_in_a_thousand, 0, 2);
    tcase_add_test(once, the_very_last_packet_is_lost);
    tcase_add_test(once, the_very_last_acknowledgement_is_lost);
    tcase_add_test(once, a_cable_down_for_good_ends_in_a_typed_error);
    suite_add_tcase(suite, model);
    suite_add_tcase(suite, once);
    return suite_run(suite);
}
