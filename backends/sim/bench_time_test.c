/* The workloads that are compared with other simulators take exactly, to the picosecond, the time
 * computed by hand (docs/nic-model.md). */
#include <check.h>

#include "backends/sim/bench.h"
#include "base/suite_testing.h"

/* Bytes per packet. IEEE 802.3: preamble 8, MAC header 14, FCS 4, gap 12. RoCE v2 over IPv4: IP
 * 20, UDP 8, BTH 12, ICRC 4. A WRITE with immediate data has a RETH of 16 in its first packet and
 * 4 bytes in its last. */
enum { AROUND = 8 + 14 + 4 + 12 + 20 + 8 + 12 + 4, RETH = 16, IMMEDIATE = 4, MTU = 4096 };
enum { PS_PER_BYTE = 80, DELAY_PS = 1000000 }; /* 100 Gbit/s, 1000 ns */

static uint64_t message_ps(uint64_t bytes)
{
    uint64_t n_packets = (bytes + MTU - 1) / MTU;
    uint64_t padded = (bytes + 3) / 4 * 4; /* only the last packet can need padding */
    return (padded + n_packets * AROUND + RETH + IMMEDIATE) * PS_PER_BYTE;
}

/* One message of 1 GiB over a cable: 262,144 packets and one delay. */
START_TEST(w1_is_its_bytes_and_one_delay)
{
    struct bench bench = {.n_nodes = 2, .n_steps = 1, .message_bytes = 1073741824};
    struct bench_result result;
    ck_assert(sim_bench_ring(&bench, &result));
    ck_assert_uint_eq(result.packets, 262144);
    ck_assert_uint_eq(result.sim_time_ps, message_ps(1073741824) + DELAY_PS);
    ck_assert_uint_eq(result.sim_time_ps, 87620012160);
}
END_TEST

/* A ring all-reduce of 256 MiB over a triangle: 4 steps of a third each. */
START_TEST(w2_is_four_steps)
{
    struct bench bench = {.n_nodes = 3, .n_steps = 4, .message_bytes = 89478486};
    struct bench_result result;
    ck_assert(sim_bench_ring(&bench, &result));
    ck_assert_uint_eq(result.packets, 262152);
    ck_assert_uint_eq(result.sim_time_ps, 4 * (message_ps(89478486) + DELAY_PS));
}
END_TEST

/* Steps of one packet, dominated by the delay. */
START_TEST(w3_is_its_steps)
{
    struct bench bench = {.n_nodes = 64, .n_steps = 126, .message_bytes = 4096};
    struct bench_result result;
    ck_assert(sim_bench_ring(&bench, &result));
    ck_assert_uint_eq(result.packets, 8064);
    ck_assert_uint_eq(result.sim_time_ps, 126 * (message_ps(4096) + DELAY_PS));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench time");
    TCase *tcase = tcase_create("time");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, w1_is_its_bytes_and_one_delay);
    tcase_add_test(tcase, w2_is_four_steps);
    tcase_add_test(tcase, w3_is_its_steps);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
