/* Ports that share a PCIe root, compared with ports that do not. */
#include <check.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "backends/sim/bed_testing.h"
#include "base/check.h"
#include "base/suite_testing.h"

#define N_WRITES 32

static struct bed bed;
static struct bed_end ends[2][2]; /* [host][port] */

/* Builds two hosts with two cables of 100 Gbit/s, like the two functions of a cage. The ports of
 * a host with `shared` are behind one root; those of others have one each. */
static void build_with(bool shared_0, bool shared_1, uint64_t root_bps)
{
    static const char *const addresses[2][2] = {{"10.0.0.1/24", "10.0.1.1/24"},
                                                {"10.0.0.2/24", "10.0.1.2/24"}};
    sim_bed_init(&bed);
    for (uint32_t host = 0; host < 2; host++) {
        bool shared = host == 0 ? shared_0 : shared_1;
        sim_bed_host(&bed);
        for (uint32_t port = 0; port < 2; port++) {
            bed.roots[host][port] = root_bps;
            sim_bed_port(&bed, host, addresses[host][port], shared ? 0 : port);
        }
    }
    for (uint32_t port = 0; port < 2; port++) {
        sim_bed_cable(&bed, (struct world_end){.node = 0, .port = port},
                      (struct world_end){.node = 1, .port = port});
    }
    sim_bed_create(&bed);
    for (uint32_t port = 0; port < 2; port++) {
        sim_bed_open(&bed, &ends[0][port], 0, 0, port);
        sim_bed_open(&bed, &ends[1][port], 1, 0, port);
        ck_assert_int_eq(sim_bed_connect(&ends[0][port], &ends[1][port]), 0);
    }
}

static void build(bool shared_0, bool shared_1)
{
    build_with(shared_0, shared_1, 128 * BED_GBPS);
}

static void stop(void)
{
    for (int i = 0; i < 4; i++) {
        sim_bed_close(&ends[i / 2][i % 2]);
    }
    sim_bed_fini(&bed);
}

/* Wire bytes of N_WRITES WRITEs of 1 MiB. */
static const uint64_t wire_bytes = N_WRITES * (256 * UINT64_C(4178) + 16);

static weft_ns wire_ns(uint64_t n_bytes, uint64_t bps)
{
    return (weft_ns)(n_bytes * 8 * 1000000000 / bps);
}

/* h0 writes over one port, or over both at once. Returns when each was done. */
static void write_over(uint32_t n_ports, weft_ns out[2])
{
    weft_ns begin = backend_sim.now(bed.world);
    for (uint32_t port = 0; port < n_ports; port++) {
        memset(ends[0][port].memory, (int)port + 1, BED_BYTES);
        sim_bed_write(&ends[0][port], &ends[1][port], BED_BYTES, N_WRITES);
    }
    for (uint32_t port = 0; port < n_ports; port++) {
        out[port] = sim_bed_wait(&ends[0][port], N_WRITES) - begin;
        ck_assert_mem_eq(ends[0][port].memory, ends[1][port].memory, BED_BYTES);
    }
}

static void expect_about(weft_ns time, weft_ns least)
{
    ck_assert_msg(time >= least && time < least + least / 50, "%lld of %lld ns",
                  (long long)time, (long long)least);
}

START_TEST(ports_with_a_root_each_have_their_cables_rate)
{
    weft_ns times[2];
    build(false, false);
    write_over(2, times);
    expect_about(times[0], wire_ns(wire_bytes, 100 * BED_GBPS));
    expect_about(times[1], wire_ns(wire_bytes, 100 * BED_GBPS));
}
END_TEST

/* The sender's ports share a root, the receiver's, or both. */
START_TEST(ports_of_one_root_share_its_rate)
{
    weft_ns times[2];
    build((_i & 1) != 0, (_i & 2) != 0);
    write_over(2, times);
    expect_about(times[1], wire_ns(2 * wire_bytes, 128 * BED_GBPS));
    /* Fair: both are done at almost the same time. */
    ck_assert_int_lt(times[1] - times[0], times[1] / 50);
}
END_TEST

/* A root as fast as its ports becomes free exactly when the port that had it requests it again;
 * the other port has requested it before. */
START_TEST(nobody_starves)
{
    weft_ns times[2];
    build_with(true, false, 100 * BED_GBPS);
    write_over(2, times);
    expect_about(times[1], wire_ns(2 * wire_bytes, 100 * BED_GBPS));
    ck_assert_int_lt(times[1] - times[0], times[1] / 50);
}
END_TEST

START_TEST(one_port_alone_has_the_rate_of_its_cable)
{
    weft_ns own[2], shared[2];
    build(false, false);
    write_over(1, own);
    stop();
    build(true, true);
    write_over(1, shared);
    ck_assert_int_eq(own[0], shared[0]);
}
END_TEST

/* Outgoing traffic does not slow incoming traffic. */
START_TEST(directions_of_a_root_are_independent)
{
    weft_ns begin;
    build(true, true);
    begin = backend_sim.now(bed.world);
    sim_bed_write(&ends[0][0], &ends[1][0], BED_BYTES, N_WRITES);
    sim_bed_write(&ends[1][1], &ends[0][1], BED_BYTES, N_WRITES);
    (void)sim_bed_wait(&ends[0][0], N_WRITES);
    weft_ns time = sim_bed_wait(&ends[1][1], N_WRITES) - begin;
    expect_about(time, wire_ns(wire_bytes, 100 * BED_GBPS));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backends/sim/root");
    TCase *roots = tcase_create("roots");
    tcase_add_checked_fixture(roots, NULL, stop);
    tcase_add_test(roots, ports_with_a_root_each_have_their_cables_rate);
    tcase_add_loop_test(roots, ports_of_one_root_share_its_rate, 1, 4);
    tcase_add_test(roots, nobody_starves);
    tcase_add_test(roots, one_port_alone_has_the_rate_of_its_cable);
    tcase_add_test(roots, directions_of_a_root_are_independent);
    suite_add_tcase(suite, roots);
    return suite_run(suite);
}
