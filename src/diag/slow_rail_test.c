#include <check.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "diag/diag.h"
#include "diag/diag_testing.h"

/* titanic:p0 and iceberg:p1 face each other. Titanic moved 13 of 100 Gbit/s over them. */
static struct scene scene;
static struct diag_use *use;
static struct diag_port *p0, *p1;

static void use_rail(struct diag_host *host, const char *peer, const char *local,
                     const char *remote)
{
    struct diag_use *out = &host->uses[host->n_uses++];

    *out = (struct diag_use){.timed_bytes = 32 << 20, .best_bps = 13000000000};
    out->rtt_ns = 10000;
    weft_format(out->peer, sizeof(out->peer), "%s", peer);
    weft_format(out->local_port, sizeof(out->local_port), "%s", local);
    weft_format(out->remote_port, sizeof(out->remote_port), "%s", remote);
}

static void setup(void)
{
    scene_set(&scene);
    scene.a->n_errors = 0;
    scene.a->has_uses = scene.b->has_uses = true;
    scene.a->has_events = scene.b->has_events = true;
    use_rail(scene.a, "iceberg", "p0", "p1");
    use = &scene.a->uses[0];
    p0 = &scene.a->ports[0];
    p1 = &scene.b->ports[1];
    for (int i = 0; i < 2; i++) {
        struct diag_port *port = i == 0 ? p0 : p1;

        port->rate_bps = 100000000000;
        port->is_software = DIAG_NO;
        for (int k = 0; k < DIAG_N_COUNTERS; k++) {
            port->counters[k] = 0;
        }
    }
}

static void teardown(void)
{
    diag_input_fini(&scene.input);
}

static uint32_t n_found(void)
{
    struct diag_findings findings;
    uint32_t n = 0;

    diag(&scene.input, &findings);
    for (uint32_t i = 0; i < findings.n; i++) {
        char where[200];

        if (findings.items[i].entry->id == DIAG_LINK_SLOW) {
            diag_where(&findings.items[i], where, sizeof(where));
            ck_assert_str_eq(where, "titanic:p0 -> iceberg");
            ck_assert(findings.items[i].severity == DIAG_WARNING);
            ck_assert_str_eq(findings.items[i].evidence[2].name, "moved_bps");
            ck_assert_int_eq(findings.items[i].evidence[2].number, use->best_bps);
            n++;
        }
    }
    diag_findings_fini(&findings);
    return n;
}

static void as_it_is(void)
{
}

static void both_ways(void)
{
    use_rail(scene.b, "titanic", "p1", "p0");
}

static void just_slow_enough(void)
{
    use->best_bps = 24999999999;
}

static void port_says_so_itself(void)
{
    struct diag_cable *cable = weft_calloc(1, sizeof(*cable));

    *cable = (struct diag_cable){"iceberg", "p1", "titanic", "p0", 100000000000};
    scene.input.cables = cable;
    scene.input.n_cables = 1;
    p0->rate_bps = p1->rate_bps = 13000000000;
}

/* The file gives no rate, and the ports have 25 Gbit/s. */
static void ports_of_25gbps(void)
{
    struct diag_cable *cable = weft_calloc(1, sizeof(*cable));

    *cable = (struct diag_cable){"titanic", "p0", "iceberg", "p1", 0};
    scene.input.cables = cable;
    scene.input.n_cables = 1;
    p0->rate_bps = p1->rate_bps = 25000000000;
    use->best_bps = 6000000000;
}

static void three_windows(void)
{
    use->timed_bytes = 12 << 20;
}

static void counters_unknown(void)
{
    p0->counters[DIAG_RETRANSMITS] = p0->counters[DIAG_RX_PAUSES] = IO_UNKNOWN;
}

static void (*const slow[])(void) = {
    as_it_is,         both_ways,       just_slow_enough, port_says_so_itself,
    counters_unknown, ports_of_25gbps, three_windows};

START_TEST(a_busy_rail_below_a_quarter_is_slow)
{
    slow[_i]();
    ck_assert_uint_eq(n_found(), 1);
}
END_TEST

static void a_quarter(void)
{
    use->best_bps = 25000000000;
}

static void not_timed(void)
{
    use->timed_bytes = 0;
    use->best_bps = IO_UNKNOWN;
}

static void one_window(void)
{
    use->timed_bytes = 4 << 20;
}

static void healthy_ports_of_25gbps(void)
{
    ports_of_25gbps();
    use->best_bps = 24000000000;
}

static void relayed_beside_it(void)
{
    use_rail(scene.b, "titanic", "p1", "p0");
    scene.b->uses[0].timed_bytes = IO_UNKNOWN;
}

static void shared_port(void)
{
    use_rail(scene.a, "iceberg", "p0", "p1");
}

static void shared_card(void)
{
    scene.a->ports[1].device = p0->device = 5;
    use_rail(scene.a, "britannic", "p1", "p0");
}

/* A rail without large parts takes its share, too. */
static void shared_with_short_messages(void)
{
    shared_card();
    scene.a->uses[1].timed_bytes = 0;
}

static void shared_by_a_twin(void)
{
    struct diag_host *twin = &scene.input.hosts[scene.input.n_hosts++];

    *twin = (struct diag_host){.was_observed = true, .has_uses = true};
    weft_format(twin->name, sizeof(twin->name), "titanic/1");
    twin->uses = weft_calloc(1, sizeof(*twin->uses));
    twin->ports = weft_calloc(2, sizeof(*twin->ports));
    twin->ports[twin->n_ports++] = *p0;
    use_rail(twin, "iceberg", "p0", "p1");
}

/* A process of the machine uses the other port of the card. It numbers the devices otherwise. */
static void card_shared_by_a_twin(void)
{
    struct diag_host *twin;

    shared_by_a_twin();
    twin = &scene.input.hosts[scene.input.n_hosts - 1];
    scene.a->ports[1].device = p0->device = 5;
    twin->ports[twin->n_ports++] = scene.a->ports[1];
    twin->ports[0].device = twin->ports[1].device = 9;
    weft_format(twin->uses[0].local_port, DIAG_NAME_BYTES, "p1");
    weft_format(twin->uses[0].peer, DIAG_NAME_BYTES, "britannic");
}

static void far_away(void)
{
    use->rtt_ns = 21000;
}

static void rtt_unknown(void)
{
    use->rtt_ns = IO_UNKNOWN;
}

static void slower_cable(void)
{
    p1->rate_bps = 50000000000;
}

static void narrow_slot(void)
{
    p1->pcie_lanes = p1->pcie_lanes_max = 2;
    p1->pcie_mts = p1->pcie_mts_max = 16000;
}

static void lost_frames(void)
{
    p1->counters[DIAG_RETRANSMITS] = 1;
}

static void repeats_unknown(void)
{
    p1->counters[DIAG_RETRANSMITS] = p1->counters[DIAG_TIMEOUTS] = IO_UNKNOWN;
}

static void paused(void)
{
    p0->counters[DIAG_RX_PAUSES] = 1;
}

static void software(void)
{
    p1->is_software = DIAG_YES;
}

static void software_unknown(void)
{
    p0->is_software = DIAG_UNKNOWN;
}

static void lost_carrier(void)
{
    struct diag_event *event = &scene.b->events[scene.b->n_events++];

    *event = (struct diag_event){.at_ns = 5};
    weft_format(event->type, sizeof(event->type), "port_error");
    weft_format(event->port, sizeof(event->port), "p1");
}

static void switched(void)
{
    scene_set_address(&scene.b->ports[0], "192.168.101.3/24");
}

static void failed(void)
{
    weft_fail(&scene.a->errors[0].error, WEFT_ERR_TIMEOUT, WEFT_PHASE_JOBS, "it failed");
    scene.a->n_errors = 1;
}

static void (*const innocent[])(void) = {one_window,
                                         healthy_ports_of_25gbps,
                                         shared_with_short_messages,
                                         a_quarter,
                                         not_timed,
                                         relayed_beside_it,
                                         shared_port,
                                         shared_card,
                                         shared_by_a_twin,
                                         card_shared_by_a_twin,
                                         far_away,
                                         rtt_unknown,
                                         slower_cable,
                                         narrow_slot,
                                         lost_frames,
                                         repeats_unknown,
                                         paused,
                                         software,
                                         software_unknown,
                                         lost_carrier,
                                         switched,
                                         failed};

START_TEST(a_rail_that_something_else_slows_down_is_not)
{
    innocent[_i]();
    ck_assert_uint_eq(n_found(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("diag/slow_rail");
    TCase *tests = tcase_create("slow_rail");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, a_busy_rail_below_a_quarter_is_slow, 0,
                        (int)WEFT_LENGTH(slow));
    tcase_add_loop_test(tests, a_rail_that_something_else_slows_down_is_not, 0,
                        (int)WEFT_LENGTH(innocent));
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
