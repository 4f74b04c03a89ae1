/* Benchmarks do the work that they claim, in the time that the wire needs. */
#include <check.h>

#include "backends/sim/bench.h"
#include "base/suite_testing.h"

static struct bench_result run(struct bench bench)
{
    struct bench_result result;

    ck_assert(sim_bench_ring(&bench, &result));
    return result;
}

/* 40 packets and 1 byte, padded to 4. Each packet has 82 bytes of overhead, the message 20. */
START_TEST(one_cable_is_never_idle)
{
    struct bench_result once =
        run((struct bench){.n_nodes = 2, .n_steps = 1, .message_bytes = 40 * 4096 + 1});
    struct bench_result thrice =
        run((struct bench){.n_nodes = 2, .n_steps = 3, .message_bytes = 40 * 4096 + 1});

    ck_assert_uint_eq(once.packets, 41);
    ck_assert_uint_eq(once.limit_ns, (40 * 4096 + 4 + 41 * 82 + 20) * 8 / 100 + 1000);
    ck_assert_uint_eq(once.sim_time_ns, once.limit_ns);
    ck_assert_uint_eq(thrice.packets, 3 * 41);
    ck_assert_uint_eq(thrice.sim_time_ns, thrice.limit_ns);
}
END_TEST

START_TEST(a_step_follows_the_one_before)
{
    struct bench_result ring =
        run((struct bench){.n_nodes = 7, .n_steps = 12, .message_bytes = 8192});

    ck_assert_uint_eq(ring.packets, 7 * 12 * 2);
    ck_assert_uint_eq(ring.limit_ns, 12 * (8192 + 2 * 82 + 20) * 8 / 100 + 12 * 1000);
    ck_assert_uint_eq(ring.sim_time_ns, ring.limit_ns);
}
END_TEST

/* Moved payload needs the same packets at the same times as payload by reference. */
START_TEST(moved_bytes_are_reduced)
{
    struct bench bench = {.n_nodes = 5, .n_steps = 8, .message_bytes = 3 * 4096 + 10};
    struct bench_result referred = run(bench);

    bench.payload = BENCH_MOVED;
    struct bench_result moved = run(bench);
    ck_assert_uint_eq(moved.sim_time_ns, referred.sim_time_ns);
    ck_assert_uint_eq(moved.events, referred.events);
    ck_assert_uint_eq(moved.packets, 5 * 8 * 4);
}
END_TEST

/* The bare core sends the same packets, without RETH and immediate data. */
START_TEST(the_bare_core_does_the_same)
{
    struct bench bench = {.n_nodes = 7, .n_steps = 12, .message_bytes = 8192};
    struct bench_result bare;

    ck_assert(sim_bench_bare(&bench, &bare));
    ck_assert_uint_eq(bare.packets, 7 * 12 * 2);
    ck_assert_uint_eq(bare.sim_time_ns, 12 * (8192 + 2 * 82) * 8 / 100 + 12 * 1000);
    bench = (struct bench){.n_nodes = 2, .n_steps = 3, .message_bytes = 40 * 4096};
    ck_assert(sim_bench_bare(&bench, &bare));
    ck_assert_uint_eq(bare.sim_time_ns, bare.limit_ns);
    ck_assert_uint_eq(bare.events, 3 * 3 * 40);
}
END_TEST

/* A ring with too few steps leaves wrong sums, which the benchmark reports. */
START_TEST(wrong_sums_are_found)
{
    struct bench bench = {
        .n_nodes = 4, .n_steps = 5, .message_bytes = 4096, .payload = BENCH_MOVED};
    struct bench_result result;

    ck_assert(!sim_bench_ring(&bench, &result));
    bench.n_steps = 6;
    ck_assert(sim_bench_ring(&bench, &result));
}
END_TEST

/* 1 MiB in 256 packets: an ACK for each, or four ACKs and few other events. */
START_TEST(trains_take_the_same_time_in_fewer_events)
{
    struct bench bench = {.n_nodes = 5, .n_steps = 8, .message_bytes = 1 << 20};
    struct bench_result packets = run(bench);

    bench.trains = BENCH_TRAINS;
    struct bench_result trains = run(bench);
    ck_assert_uint_eq(trains.packets, packets.packets);
    ck_assert_uint_eq(trains.sim_time_ps, packets.sim_time_ps);
    ck_assert_uint_eq(trains.sim_time_ns, trains.limit_ns);
    ck_assert_uint_lt(trains.events * 40, packets.events);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backends/sim/bench");
    TCase *bench = tcase_create("bench");
    tcase_add_test(bench, one_cable_is_never_idle);
    tcase_add_test(bench, a_step_follows_the_one_before);
    tcase_add_test(bench, moved_bytes_are_reduced);
    tcase_add_test(bench, trains_take_the_same_time_in_fewer_events);
    tcase_add_test(bench, the_bare_core_does_the_same);
    tcase_add_test(bench, wrong_sums_are_found);
    suite_add_tcase(suite, bench);
    return suite_run(suite);
}
