/* Switches and pause. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "backends/sim/bed_testing.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "io/verbs.h"

#define MS ((weft_ns)1000000)

static struct bed bed;
static struct bed_end ends[4];

static struct world_end host_end(uint32_t host)
{
    return (struct world_end){.node = host};
}

static struct world_end switch_end(uint32_t bridge, uint32_t port)
{
    return (struct world_end){.is_switch = true, .node = bridge, .port = port};
}

/* Describes hosts 10.0.0.1 ... with one port each. */
static void describe(uint32_t n_hosts)
{
    static const char *const addresses[] = {"10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24",
                                            "10.0.0.4/24"};
    sim_bed_init(&bed);
    memset(ends, 0, sizeof ends);
    for (uint32_t i = 0; i < n_hosts; i++) {
        sim_bed_host(&bed);
        sim_bed_port(&bed, i, addresses[i], 0);
    }
}

/* Also connects each to port i of "sw0". */
static void describe_star(uint32_t n_hosts)
{
    describe(n_hosts);
    bed.switches[0] = (struct world_switch){.name = "sw0", .n_ports = 4};
    bed.spec.n_switches = 1;
    for (uint32_t i = 0; i < n_hosts; i++) {
        sim_bed_cable(&bed, host_end(i), switch_end(0, i));
    }
}

static void stop(void)
{
    for (size_t i = 0; i < WEFT_LENGTH(ends); i++) {
        if (ends[i].env != NULL) {
            sim_bed_close(&ends[i]);
        }
    }
    sim_bed_fini(&bed);
}

static void connect_ends(uint32_t a, uint32_t host_a, uint32_t b, uint32_t host_b)
{
    sim_bed_open(&bed, &ends[a], host_a, 0, 0);
    sim_bed_open(&bed, &ends[b], host_b, 0, 0);
    ck_assert_int_eq(sim_bed_connect(&ends[a], &ends[b]), 0);
}

static weft_ns now(void)
{
    return backend_sim.now(bed.world);
}

static struct world_cable_stats stats_of(uint32_t cable)
{
    struct world_cable_stats stats;
    backend_sim.cable_stats(bed.world, cable, &stats);
    return stats;
}

static uint64_t counter(const char *name)
{
    const char *at;
    uint64_t value = 0;
    for (uint32_t i = 0; backend_sim.counter(bed.world, i, &at, &value); i++) {
        if (strcmp(at, name) == 0) {
            return value;
        }
    }
    ck_abort_msg("no counter %s", name);
}

static weft_ns held_ns_of(const struct bed_end *end)
{
    struct io_port_counters counters;
    ck_assert_int_eq(end->device->ops->port_counters(end->device, 1, &counters), 0);
    return counters.rx_pause_ns;
}

/* ---- forwarding ---- */

START_TEST(frames_reach_whom_they_are_for)
{
    describe_star(3);
    sim_bed_create(&bed);
    connect_ends(0, 0, 1, 1);
    struct world_cable_stats before = stats_of(2);
    ck_assert_uint_gt(before.packets[1], 0); /* ARP requests are broadcast */
    memset(ends[0].memory, 0x33, BED_BYTES);
    sim_bed_write(&ends[0], &ends[1], BED_BYTES, 4);
    (void)sim_bed_wait(&ends[0], 4);
    ck_assert_mem_eq(ends[0].memory, ends[1].memory, BED_BYTES);
    ck_assert_uint_eq(stats_of(2).packets[1], before.packets[1]);
    ck_assert_uint_ge(stats_of(1).packets[1], 4 * 256);
    /* h2 is connected as well, and communicates with both. */
    connect_ends(2, 2, 3, 1);
    memset(ends[2].memory, 0x44, BED_BYTES);
    sim_bed_write(&ends[2], &ends[3], BED_BYTES, 1);
    (void)sim_bed_wait(&ends[2], 1);
    ck_assert_mem_eq(ends[2].memory, ends[3].memory, BED_BYTES);
    ck_assert_uint_eq(counter("retransmits"), 0);
}
END_TEST

/* Returns the time of one WRITE of one packet and its ACK. */
static weft_ns time_of_one(void)
{
    connect_ends(0, 0, 1, 1);
    weft_ns begin = now();
    sim_bed_write(&ends[0], &ends[1], 4096, 1);
    return sim_bed_wait(&ends[0], 1) - begin;
}

/* A switch forwards a frame only when it is complete. A WRITE_ONLY of 4096 bytes is 4194 bytes on
 * the wire (82, and a RETH of 16), its ACK 86 (82, and an AETH of 4). */
START_TEST(a_switch_stores_and_forwards)
{
    describe(2);
    sim_bed_cable(&bed, host_end(0), host_end(1));
    sim_bed_create(&bed);
    weft_ns direct = time_of_one();
    stop();
    describe_star(2);
    sim_bed_create(&bed);
    weft_ns switched = time_of_one();
    weft_ns delays = 2 * 1000, serialisation = (4194 + 86) * 8 / 100;
    ck_assert_int_ge(switched - direct, delays + serialisation - 1);
    ck_assert_int_le(switched - direct, delays + serialisation + 1);
}
END_TEST

START_TEST(switches_may_be_chained)
{
    describe(2);
    bed.switches[0] = (struct world_switch){.name = "sw0", .n_ports = 3};
    bed.switches[1] = (struct world_switch){.name = "sw1", .n_ports = 3};
    bed.spec.n_switches = 2;
    sim_bed_cable(&bed, host_end(0), switch_end(0, 0));
    sim_bed_cable(&bed, switch_end(0, 1), switch_end(1, 2));
    sim_bed_cable(&bed, switch_end(1, 0), host_end(1));
    sim_bed_create(&bed);
    connect_ends(0, 0, 1, 1);
    sim_bed_write(&ends[0], &ends[1], BED_BYTES, 2);
    (void)sim_bed_wait(&ends[0], 2);
    ck_assert_uint_ge(stats_of(1).packets[0], 2 * 256);
}
END_TEST

START_TEST(a_loop_of_switches_is_refused)
{
    struct weft_error error = {.status = WEFT_OK};
    describe(1);
    bed.switches[0] = (struct world_switch){.name = "sw0", .n_ports = 3};
    bed.switches[1] = (struct world_switch){.name = "sw1", .n_ports = 3};
    bed.spec.n_switches = 2;
    sim_bed_cable(&bed, switch_end(0, 1), switch_end(1, 1));
    sim_bed_cable(&bed, switch_end(0, 2), switch_end(1, 2));
    ck_assert_int_eq(backend_sim.create(&bed.spec, &bed.world, &error),
                     WEFT_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(error.message, "spanning tree") != NULL, "%s", error.message);
    ck_assert_ptr_null(bed.world);
}
END_TEST

/* A cable that goes down clears what the switch has learnt. What h0 retransmits meanwhile also
 * reaches h2, which ignores it. */
START_TEST(what_is_forgotten_is_flooded_and_ignored)
{
    describe_star(3);
    sim_bed_create(&bed);
    connect_ends(0, 0, 1, 1);
    struct world_cable_stats before = stats_of(2);
    struct world_fault down = {
        .kind = WORLD_FAULT_DOWN, .host = 1, .has_port = true, .for_ns = 100 * MS};
    sim_bed_write(&ends[0], &ends[1], BED_BYTES, 1);
    sim_bed_run(&bed, now() + MS / 100, NULL, NULL);
    ck_assert_int_eq(backend_sim.inject(bed.world, &down), 0);
    (void)sim_bed_wait(&ends[0], 1);
    ck_assert_mem_eq(ends[0].memory, ends[1].memory, BED_BYTES);
    ck_assert_uint_gt(counter("timeouts"), 0);
    ck_assert_uint_gt(stats_of(2).packets[1], before.packets[1]);
    ck_assert_uint_eq(counter("dropped_unknown_qp"), 0);
}
END_TEST

/* ---- queues and pause ---- */

/* h0 and h1 write to h2 at once, twice the rate of its cable. */
static weft_ns overload(void)
{
    sim_bed_create(&bed);
    connect_ends(0, 0, 2, 2);
    connect_ends(1, 1, 3, 2);
    weft_ns begin = now();
    for (int i = 0; i < 2; i++) {
        memset(ends[i].memory, 0x11 * (i + 1), BED_BYTES);
        sim_bed_write(&ends[i], &ends[i + 2], BED_BYTES, 32);
    }
    (void)sim_bed_wait(&ends[0], 32);
    (void)sim_bed_wait(&ends[1], 32);
    ck_assert_mem_eq(ends[0].memory, ends[2].memory, BED_BYTES);
    ck_assert_mem_eq(ends[1].memory, ends[3].memory, BED_BYTES);
    return now() - begin;
}

/* Wire time of 64 WRITEs of 1 MiB over one cable. */
static const weft_ns least_ns = (weft_ns)(64 * (256 * UINT64_C(4178) + 16) * 8 / 100);

START_TEST(a_full_queue_drops)
{
    describe_star(3);
    bed.cables[2].queue_bytes = 64 << 10;
    (void)overload();
    ck_assert_uint_gt(stats_of(2).drops[1], 0);
    ck_assert_uint_gt(counter("retransmits"), 0);
    ck_assert(sim_bed_told(&bed, "why=queue_full"));
    ck_assert(!sim_bed_told(&bed, "pause"));
}
END_TEST

START_TEST(a_full_queue_pauses_those_who_can_be_paused)
{
    describe_star(3);
    bed.cables[2].queue_bytes = 64 << 10;
    bed.cables[0].pause = bed.cables[1].pause = true;
    weft_ns time = overload();
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(stats_of(i).drops[0], 0);
        ck_assert_uint_eq(stats_of(i).drops[1], 0);
    }
    ck_assert_uint_eq(counter("retransmits"), 0);
    ck_assert(sim_bed_told(&bed, " sw0 0 pause"));
    ck_assert(sim_bed_told(&bed, " sw0 1 resume"));
    ck_assert_int_ge(time, least_ns);
    ck_assert_int_lt(time, least_ns + least_ns / 20); /* the cable is never idle */
}
END_TEST

START_TEST(an_endless_queue_neither_drops_nor_pauses)
{
    describe_star(3);
    bed.cables[0].pause = bed.cables[1].pause = true;
    weft_ns time = overload();
    ck_assert_uint_eq(stats_of(2).drops[1], 0);
    ck_assert(!sim_bed_told(&bed, "pause"));
    ck_assert_int_ge(time, least_ns);
    ck_assert_int_lt(time, least_ns + least_ns / 20);
}
END_TEST

/* A pause ends when the carrier is lost, at either end, because the port that requested it is
 * gone or has lost its queue. 0: a sender's cable, 1: the receiver's. */
START_TEST(a_cable_that_goes_takes_its_pause_along)
{
    struct world_fault down = {.kind = WORLD_FAULT_DOWN,
                               .for_ns = MS,
                               .host = _i == 0 ? 0 : 2,
                               .has_port = true};
    describe_star(3);
    bed.cables[2].queue_bytes = 64 << 10;
    bed.cables[0].pause = bed.cables[1].pause = true;
    sim_bed_create(&bed);
    connect_ends(0, 0, 2, 2);
    connect_ends(1, 1, 3, 2);
    for (int i = 0; i < 2; i++) {
        sim_bed_write(&ends[i], &ends[i + 2], BED_BYTES, 32);
    }
    while (!sim_bed_told(&bed, " sw0 0 pause")) {
        sim_bed_run(&bed, now() + 100, NULL, NULL);
    }
    sim_bed_run(&bed, now() + 1500, NULL, NULL); /* the pause has reached h0 */
    ck_assert(!sim_bed_told(&bed, " sw0 0 resume"));
    ck_assert_int_eq(backend_sim.inject(bed.world, &down), 0);
    (void)sim_bed_wait(&ends[0], 32);
    (void)sim_bed_wait(&ends[1], 32);
    ck_assert_uint_gt(counter("retransmits"), 0);
}
END_TEST

/* The sender at the far switch is paused through the cable between the switches. */
START_TEST(pause_goes_from_switch_to_switch)
{
    describe(3);
    bed.switches[0] = (struct world_switch){.name = "sw0", .n_ports = 3};
    bed.switches[1] = (struct world_switch){.name = "sw1", .n_ports = 3};
    bed.spec.n_switches = 2;
    sim_bed_cable(&bed, host_end(0), switch_end(0, 0));
    sim_bed_cable(&bed, host_end(1), switch_end(1, 0));
    sim_bed_cable(&bed, switch_end(1, 1), host_end(2));
    sim_bed_cable(&bed, switch_end(0, 1), switch_end(1, 2));
    for (int i = 0; i < 4; i++) {
        bed.cables[i].queue_bytes = 64 << 10;
        bed.cables[i].pause = true;
    }
    (void)overload();
    ck_assert(sim_bed_told(&bed, " sw1 2 pause")); /* sw1 pauses sw0 */
    ck_assert(sim_bed_told(&bed, " sw0 0 pause")); /* sw0 pauses h0 */
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(stats_of(i).drops[0] + stats_of(i).drops[1], 0);
    }
}
END_TEST

/* A paused port sends nothing and loses nothing. The other direction is not affected. */
START_TEST(a_paused_port_waits)
{
    describe(2);
    sim_bed_cable(&bed, host_end(0), host_end(1));
    sim_bed_create(&bed);
    connect_ends(0, 0, 1, 1);
    struct world_fault pause = {.kind = WORLD_FAULT_PAUSE,
                                .has_port = true,
                                .direction = WORLD_OUTWARDS,
                                .for_ns = MS};
    uint64_t sent = stats_of(0).packets[0];
    weft_ns begin = now();
    ck_assert_int_eq(backend_sim.inject(bed.world, &pause), 0);
    sim_bed_write(&ends[0], &ends[1], BED_BYTES, 1);
    sim_bed_write(&ends[1], &ends[0], BED_BYTES, 1);
    sim_bed_run(&bed, begin + MS / 2, NULL, NULL);
    ck_assert_uint_eq(stats_of(0).packets[0], sent);
    ck_assert_uint_ge(stats_of(0).packets[1], 256);
    ck_assert_int_eq(held_ns_of(&ends[0]), MS / 2);
    weft_ns time = sim_bed_wait(&ends[0], 1) - begin;
    (void)sim_bed_wait(&ends[1], 1);
    ck_assert_int_gt(time, MS);
    ck_assert_int_lt(time, MS + MS / 5);
    ck_assert_uint_eq(stats_of(0).drops[0], 0);
    ck_assert_uint_eq(counter("retransmits"), 0);
    /* WORLD_INWARDS pauses the other end. */
    pause.direction = WORLD_INWARDS;
    uint64_t other = stats_of(0).packets[1];
    ck_assert_int_eq(backend_sim.inject(bed.world, &pause), 0);
    sim_bed_write(&ends[1], &ends[0], BED_BYTES, 1);
    sim_bed_run(&bed, now() + MS / 2, NULL, NULL);
    ck_assert_uint_eq(stats_of(0).packets[1], other);
    (void)sim_bed_wait(&ends[1], 1);
    ck_assert_int_eq(held_ns_of(&ends[0]), MS);
    ck_assert_int_eq(held_ns_of(&ends[1]), MS);
}
END_TEST

START_TEST(the_same_seed_tells_the_same_story)
{
    char *first = NULL;
    for (int i = 0; i < 2; i++) {
        describe_star(3);
        bed.cables[2].queue_bytes = 64 << 10;
        bed.cables[1].impairment.loss_ppb = 1000000;
        (void)overload();
        if (i == 0) {
            first = weft_strdup(bed.story.bytes);
            stop();
        }
    }
    ck_assert_str_eq(first, bed.story.bytes);
    free(first);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backends/sim/switch");
    TCase *switches = tcase_create("switches");
    tcase_add_checked_fixture(switches, NULL, stop);
    tcase_add_test(switches, frames_reach_whom_they_are_for);
    tcase_add_test(switches, a_switch_stores_and_forwards);
    tcase_add_test(switches, switches_may_be_chained);
    tcase_add_test(switches, a_loop_of_switches_is_refused);
    tcase_add_test(switches, what_is_forgotten_is_flooded_and_ignored);
    suite_add_tcase(suite, switches);
    TCase *queues = tcase_create("queues");
    tcase_add_checked_fixture(queues, NULL, stop);
    tcase_add_test(queues, a_full_queue_drops);
    tcase_add_test(queues, a_full_queue_pauses_those_who_can_be_paused);
    tcase_add_test(queues, an_endless_queue_neither_drops_nor_pauses);
    tcase_add_loop_test(queues, a_cable_that_goes_takes_its_pause_along, 0, 2);
    tcase_add_test(queues, pause_goes_from_switch_to_switch);
    tcase_add_test(queues, a_paused_port_waits);
    tcase_add_test(queues, the_same_seed_tells_the_same_story);
    suite_add_tcase(suite, queues);
    return suite_run(suite);
}
