#include <check.h>
#include <errno.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "diag/diag.h"
#include "diag/diag_testing.h"

static struct scene scene;
static struct diag_findings findings;
static struct diag_port *p0, *p1; /* titanic:p0 and iceberg:p1, which face each other */

static void setup(void)
{
    scene_set(&scene);
    scene.a->n_errors = 0;
    scene.a->has_uses = scene.b->has_uses = true;
    scene.a->has_events = scene.b->has_events = true;
    scene.a->n_uses = 1;
    scene.a->uses[0] = (struct diag_use){.peer = "iceberg",
                                         .local_port = "p0",
                                         .remote_port = "p1",
                                         .local_gid = "192.168.101.1",
                                         .remote_gid = "192.168.101.2",
                                         .path_mtu = 4096};
    p0 = &scene.a->ports[0];
    p1 = &scene.b->ports[1];
    for (int i = 0; i < DIAG_N_COUNTERS; i++) {
        p0->counters[i] = p1->counters[i] = i == DIAG_RX_FRAMES ? IO_UNKNOWN : 0;
    }
    p0->counters[DIAG_TX_PACKETS] = 1000;
    p1->counters[DIAG_RX_PACKETS] = 990;
    p1->counters[DIAG_TX_PACKETS] = 1100;
    p0->counters[DIAG_RX_PACKETS] = 1080;
    p0->counters[DIAG_RETRANSMITS] = 12;
}

static void teardown(void)
{
    diag_findings_fini(&findings);
    diag_input_fini(&scene.input);
}

/* Checks that the only finding is a warning with this code at titanic:p0, or that there is none if
 * `code` is NULL. */
static void check_code(const char *code)
{
    diag_findings_fini(&findings);
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, code != NULL ? 1 : 0);
    if (code != NULL) {
        ck_assert_str_eq(findings.items[0].entry->code, code);
        ck_assert_int_eq(findings.items[0].severity, DIAG_WARNING);
        ck_assert(findings.items[0].is_survived);
        ck_assert_str_eq(findings.items[0].host, "titanic");
        ck_assert_str_eq(findings.items[0].port, "p0");
        ck_assert_str_eq(findings.items[0].peer, "iceberg");
    }
}

static void lose_carrier(struct diag_host *host, const char *port)
{
    struct diag_event *event = &host->events[host->n_events++];

    *event = (struct diag_event){.type = "port_error"};
    weft_format(event->port, sizeof(event->port), "%s", port);
}

START_TEST(frames_that_were_repeated_are_a_warning)
{
    check_code("link.lossy");
    p0->counters[DIAG_RX_PACKETS] = 1100;
    check_code(NULL); /* 10 one way and none the other can be chance */
    p1->counters[DIAG_RX_PACKETS] = 980;
    check_code("link.one_way");
    p0->counters[DIAG_RX_PACKETS] = 1099;
    check_code("link.lossy");
    p0->counters[DIAG_RX_PACKETS] = 1100;
    p1->counters[DIAG_RX_PACKETS] = 997; /* 3 one way, which can be chance or in flight */
    check_code(NULL);
    p1->counters[DIAG_RX_PACKETS] = 990;
    p0->counters[DIAG_RETRANSMITS] = 0; /* no packet was retransmitted */
    check_code(NULL);
}
END_TEST

START_TEST(damage_and_carrier_explain_what_was_lost)
{
    p1->counters[DIAG_ICRC_ERRORS] = 9;
    check_code("link.corrupting");
    lose_carrier(scene.a, "p0");
    check_code("link.down");
    lose_carrier(scene.b, "p1");
    lose_carrier(scene.b, "p1");
    check_code("link.flapping");
}
END_TEST

static void hold(struct diag_port *port, int64_t ns, int64_t n_timeouts)
{
    port->counters[DIAG_RX_PAUSES] = 1;
    port->counters[DIAG_RX_PAUSE_NS] = ns;
    port->counters[DIAG_TIMEOUTS] = n_timeouts;
}

/* The end that sent the pause frames is named, or the first one if both were held. */
START_TEST(pauses_that_stopped_a_cable_are_a_warning_at_the_end_that_sent_them)
{
    p1->counters[DIAG_RX_PACKETS] = 1000;
    p0->counters[DIAG_RX_PACKETS] = 1100;
    hold(p1, 50000000, 1);
    check_code("link.pause_storm");
    hold(p0, 50000000, 1);
    check_code("link.pause_storm");
    hold(p1, 0, 0);
    diag_findings_fini(&findings);
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "link.pause_storm");
    ck_assert_str_eq(findings.items[0].host, "iceberg");
    ck_assert_str_eq(findings.items[0].port, "p1");
}
END_TEST

START_TEST(pauses_of_flow_control_are_none)
{
    p1->counters[DIAG_RX_PACKETS] = 1000;
    p0->counters[DIAG_RX_PACKETS] = 1100;
    hold(p1, 49999999, 1); /* too short for a timer */
    check_code(NULL);
    hold(p1, 60000000000, 0); /* the sum of many short ones */
    check_code(NULL);
    hold(p1, IO_UNKNOWN, 1);
    check_code(NULL);
    hold(p1, 60000000000, 1);
    p1->counters[DIAG_RX_PACKETS] = 990; /* frames were lost, too */
    p0->counters[DIAG_RX_PACKETS] = 1080;
    check_code("link.lossy");
    p1->counters[DIAG_RX_PACKETS] = 1000;
    p0->counters[DIAG_RX_PACKETS] = 1100;
    lose_carrier(scene.a, "p0");
    check_code("link.down");
}
END_TEST

/* The end is named whose port has another address of the same network now. */
START_TEST(an_address_that_was_replaced_is_a_warning_at_its_end)
{
    struct io_ip *near = &p0->gids[0].ip, *far = &p1->gids[0].ip;

    ck_assert(io_ip_parse("192.168.101.77", near));
    check_code("addr.changed");
    p0->has_gids = false;
    check_code(NULL);
    p0->has_gids = true;
    ck_assert(io_ip_parse("192.168.101.1", near));
    ck_assert(io_ip_parse("192.168.101.78", far));
    diag_findings_fini(&findings);
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "addr.changed");
    ck_assert_str_eq(findings.items[0].host, "iceberg");
    ck_assert_str_eq(findings.items[0].evidence[3].name, "former_gid");
    ck_assert_str_eq(findings.items[0].evidence[3].text, "192.168.101.2");
}
END_TEST

/* A host records a limited number of events. */
START_TEST(what_is_recorded_suffices_for_a_cable_that_flaps)
{
    p0->counters[DIAG_RETRANSMITS] = 0;
    scene.a->has_events = scene.b->has_events = false;
    lose_carrier(scene.a, "p0");
    check_code(NULL);
    lose_carrier(scene.a, "p0");
    check_code("link.flapping");
}
END_TEST

/* Behind a switch only the end that is cut off loses its carrier. */
START_TEST(a_carrier_that_one_end_lost_is_told_there)
{
    lose_carrier(scene.b, "p1");
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "link.down");
    ck_assert_str_eq(findings.items[0].host, "iceberg");
    ck_assert_str_eq(findings.items[0].port, "p1");
    ck_assert_str_eq(findings.items[0].peer, "titanic");
}
END_TEST

/* Up to four frames can be in flight between the readings of the two ends. */
START_TEST(frames_in_flight_are_not_lost)
{
    p0->counters[DIAG_RX_PACKETS] = p1->counters[DIAG_TX_PACKETS] - 4;
    p1->counters[DIAG_RX_PACKETS] = p0->counters[DIAG_TX_PACKETS] - 4;
    check_code(NULL);
    p1->counters[DIAG_RX_PACKETS]--;
    check_code("link.lossy");
    p1->counters[DIAG_RX_PACKETS]++;
    p1->counters[DIAG_ICRC_ERRORS] = 4;
    check_code(NULL);
    p1->counters[DIAG_ICRC_ERRORS] = 5;
    check_code("link.corrupting");
}
END_TEST

/* The netdevs also carry 30 frames of other protocols each way, which could as well be damaged
 * packets. The frames that the other netdev sent decide: 10 packets were lost each way. */
static void check_what_vanished(void)
{
    static const struct {
        int64_t sent,
            dropped; /* frames of titanic's netdev, of which iceberg's received 1020 */
        const char *code;
    } rows[] = {
        {1030, 0, "link.lossy"},  {1020, 10, "link.lossy"},
        {1026, 0, "link.lossy"},  {1025, 0, NULL},
        {1040, 0, "link.lossy"},  {1041, 0, NULL}, /* counters of different age */
        {1000, 0, NULL},          {IO_UNKNOWN, 10, NULL},
        {1030, IO_UNKNOWN, NULL},
    };

    p1->counters[DIAG_RX_FRAMES] = 1020;
    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        p0->counters[DIAG_TX_FRAMES] = rows[i].sent;
        p0->counters[DIAG_TX_QUEUE_DROPS] = rows[i].dropped;
        check_code(rows[i].code);
    }
}

/* rxe counts neither damaged nor too long packets. The frames that the netdevs received show that
 * the lost ones did not arrive, and their MTU that none is too long. */
START_TEST(what_rxe_does_not_count_is_told_by_its_netdev)
{
    struct diag_port *const ports[] = {p0, p1};
    int64_t *const mtus[] = {&p0->netdev_mtu, &p1->netdev_mtu};

    for (size_t i = 0; i < WEFT_LENGTH(ports); i++) {
        ports[i]->counters[DIAG_ICRC_ERRORS] = IO_UNKNOWN;
        ports[i]->counters[DIAG_RX_OVERSIZE] = IO_UNKNOWN;
        ports[i]->counters[DIAG_RX_FRAMES] = ports[i]->counters[DIAG_RX_PACKETS] + 4;
    }
    check_code("link.lossy");
    p1->counters[DIAG_RX_FRAMES] =
        p1->counters[DIAG_RX_PACKETS] + 5; /* half of the lost */
    check_code(NULL);
    p1->counters[DIAG_RX_FRAMES] = IO_UNKNOWN;
    check_code(NULL);
    check_what_vanished();
    p0->counters[DIAG_RX_PACKETS] = 1100;
    p1->counters[DIAG_RX_PACKETS] = 980;
    p0->counters[DIAG_RX_FRAMES] = 1105;
    p1->counters[DIAG_RX_FRAMES] = 985;
    check_code("link.one_way");
    *mtus[0] = *mtus[1] = 4096 + 80;
    check_code("link.one_way");
    for (size_t i = 0; i < WEFT_LENGTH(mtus); i++) {
        *mtus[i] = IO_UNKNOWN;
        check_code(NULL);
        *mtus[i] = 4096 + 80;
    }
    *mtus[0] = *mtus[1] = 4096 + 79;
    check_code(NULL);
    *mtus[0] = *mtus[1] = 9000;
    scene.a->uses[0].path_mtu = IO_UNKNOWN;
    check_code(NULL);
}
END_TEST

/* One end that counts retransmitted packets is sufficient. */
START_TEST(retransmits_of_one_end_may_be_unknown)
{
    p0->counters[DIAG_RETRANSMITS] = 1;
    p1->counters[DIAG_RETRANSMITS] = IO_UNKNOWN;
    check_code("link.lossy");
    p0->counters[DIAG_RETRANSMITS] = IO_UNKNOWN;
    check_code(NULL);
}
END_TEST

/* A number of frames is not negative. */
START_TEST(a_counter_below_zero_is_unknown)
{
    p0->counters[DIAG_RETRANSMITS] = 1;
    check_code("link.lossy");
    p1->counters[DIAG_RX_PACKETS] = -1000;
    check_code(NULL);
    p1->counters[DIAG_RX_PACKETS] = INT64_MIN;
    check_code(NULL);
}
END_TEST

/* Events of queue pairs, such as COMM_EST (4), name no port and do not concern carriers. */
START_TEST(events_of_queue_pairs_hide_no_loss_of_carrier)
{
    scene.a->events[scene.a->n_events++] = (struct diag_event){.type = "event_4"};
    check_code("link.lossy");
    lose_carrier(scene.a, "p0");
    check_code("link.down");
}
END_TEST

START_TEST(where_something_failed_only_that_is_told)
{
    struct diag_error *error = &scene.b->errors[scene.b->n_errors++];

    weft_fail(&error->error, WEFT_ERR_DATA, WEFT_PHASE_VERIFY, "wrong");
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "data.wrong");
}
END_TEST

/* No warning is given if a value is unknown that could show another cause of the missing frames. */
START_TEST(nothing_is_told_where_something_is_not_known)
{
    int64_t *const numbers[] = {
        &scene.a->uses[0].vanished_mtu, &p0->counters[DIAG_TX_PACKETS],
        &p1->counters[DIAG_RX_PACKETS], &p0->counters[DIAG_ICRC_ERRORS],
        &p1->counters[DIAG_ICRC_ERRORS]};
    bool *const flags[] = {&scene.a->has_events, &scene.b->has_events,
                           &scene.b->was_observed, &p0->has_gids, &p1->has_gids};

    for (size_t i = 0; i < WEFT_LENGTH(numbers); i++) {
        int64_t kept = *numbers[i];

        *numbers[i] = IO_UNKNOWN;
        check_code(NULL);
        *numbers[i] = kept;
    }
    for (size_t i = 0; i < WEFT_LENGTH(flags); i++) {
        *flags[i] = false;
        check_code(NULL);
        *flags[i] = true;
    }
    lose_carrier(scene.a, "");
    check_code(NULL);
    scene.a->n_events = 0;
    scene.a->uses[0].vanished_mtu =
        4096; /* full-size probes were lost: another finding */
    diag_findings_fini(&findings);
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "link.black_hole");
    ck_assert_int_eq(findings.items[0].severity, DIAG_WARNING);
}
END_TEST

/* The rail from iceberg was left out because frames to iceberg are lost, whatever their size. Some
 * were probes of titanic's rail. */
START_TEST(lost_probes_of_a_lossy_cable_are_no_black_hole)
{
    struct diag_error *why = &scene.b->left_out[scene.b->n_left_out++];

    p0->counters[DIAG_RX_PACKETS] = 1100;
    p1->counters[DIAG_RX_PACKETS] = 900;
    scene.a->uses[0].vanished_mtu = 4096;
    scene.a->uses[0].path_mtu = 2048;
    weft_format(why->peer, sizeof(why->peer), "titanic");
    weft_fail(&why->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_PROBE, "no answer");
    weft_error_text(&why->error, WEFT_VALUE_LOCAL_PORT, "p1");
    weft_error_text(&why->error, WEFT_VALUE_REMOTE_PORT, "p0");
    weft_error_text(&why->error, WEFT_VALUE_LOCAL_GID, "192.168.101.2");
    weft_error_text(&why->error, WEFT_VALUE_LOCAL_GID_TYPE, "RoCE v2");
    weft_error_text(&why->error, WEFT_VALUE_REMOTE_GID, "192.168.101.1");
    weft_error_text(&why->error, WEFT_VALUE_REMOTE_GID_TYPE, "RoCE v2");
    weft_error_int(&why->error, WEFT_VALUE_PATH_MTU, 4096);
    weft_error_int(&why->error, WEFT_VALUE_SMALL_PASSED, 0);
    weft_error_int(&why->error, WEFT_VALUE_STOOD_IN_RELAYS, 1);
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "link.one_way");
    ck_assert_str_eq(findings.items[0].host, "iceberg");
}
END_TEST

/* Sets the PCIe link of a port: number of lanes and millions of transfers per second, at present
 * and at most. */
static void put_slot(struct diag_port *port, int64_t lanes, int64_t lanes_max,
                     int64_t mts, int64_t mts_max)
{
    port->rate_bps = 100000000000;
    port->pcie_lanes = lanes;
    port->pcie_lanes_max = lanes_max;
    port->pcie_mts = mts;
    port->pcie_mts_max = mts_max;
}

static uint32_t count_findings(void)
{
    diag_findings_fini(&findings);
    diag(&scene.input, &findings);
    return findings.n;
}

START_TEST(a_slot_is_narrow_by_what_it_could_and_should)
{
    struct diag_port *other = &scene.a->ports[1];

    scene.a->n_uses = 0;
    p0->counters[DIAG_RETRANSMITS] = 0;
    put_slot(p0, 4, 4, 32000, 32000);
    put_slot(other, 8, 8, 16000, 16000);
    ck_assert_uint_eq(count_findings(), 0);
    put_slot(p0, 2, 4, 32000, 32000);
    put_slot(other, 8, 16, 8000, 16000);
    ck_assert_uint_eq(count_findings(), 1);
    ck_assert_str_eq(findings.items[0].entry->code, "host.pcie_narrow");
    ck_assert_int_eq(findings.items[0].severity, DIAG_WARNING);
    ck_assert_str_eq(findings.items[0].host, "titanic");
    ck_assert_str_eq(findings.items[0].port, "p0");
    ck_assert_str_eq(findings.items[0].evidence[0].text, "p0 p1");
    ck_assert_str_eq(findings.items[0].evidence[5].name, "pcie_rate_bps");
    ck_assert_int_eq(findings.items[0].evidence[5].number, 63015384615);
    put_slot(other, 16, 16, 5000, 5000); /* 64 Gbit/s, which is its maximum */
    put_slot(p0, 4, 16, 32000, 32000);   /* 126 Gbit/s, which exceeds the port's rate */
    ck_assert_uint_eq(count_findings(), 0);
    put_slot(p0, 16, 16, 5000, 8000); /* 64 Gbit/s, because 8 of 10 bits are data */
    ck_assert_uint_eq(count_findings(), 1);
    ck_assert_int_eq(findings.items[0].evidence[5].number, 64000000000);
}
END_TEST

START_TEST(a_slot_of_which_something_is_unknown_or_absurd_is_not_told_of)
{
    int64_t *const numbers[] = {&p0->rate_bps, &p0->pcie_lanes, &p0->pcie_lanes_max,
                                &p0->pcie_mts, &p0->pcie_mts_max};
    static const int64_t absurd[] = {IO_UNKNOWN, 0, INT64_MIN, INT64_MAX};

    scene.a->n_uses = 0;
    p0->counters[DIAG_RETRANSMITS] = 0;
    put_slot(p0, 2, 4, 32000, 32000);
    ck_assert_uint_eq(count_findings(), 1);
    for (size_t i = 0; i < WEFT_LENGTH(numbers); i++) {
        for (size_t k = 0; k < WEFT_LENGTH(absurd); k++) {
            int64_t kept = *numbers[i];

            *numbers[i] = absurd[k];
            ck_assert_uint_eq(count_findings(), i == 0 && absurd[k] == INT64_MAX);
            *numbers[i] = kept;
        }
    }
}
END_TEST

/* A device_fatal event is reported at its host, with the device's name. An event without a type or
 * a device is not reported. */
START_TEST(a_device_that_is_gone_is_told)
{
    struct diag_event *event = &scene.a->events[scene.a->n_events++];
    const struct diag_finding *finding = NULL;

    *event = (struct diag_event){.type = "device_fatal", .device = "p1"};
    p0->counters[DIAG_RETRANSMITS] = 0;
    ck_assert_uint_eq(count_findings(), 1);
    finding = &findings.items[0];
    ck_assert_str_eq(finding->entry->code, "device.failed");
    ck_assert_int_eq(finding->severity, DIAG_WARNING);
    ck_assert(finding->is_survived);
    ck_assert_str_eq(finding->host, "titanic");
    ck_assert_str_eq(finding->peer, "");
    ck_assert_str_eq(finding->evidence[0].name, "survived");
    ck_assert_str_eq(finding->evidence[1].name, "device");
    ck_assert_str_eq(finding->evidence[1].text, "p1");
    ck_assert_str_eq(finding->evidence[2].text, "device_fatal");
    /* A second device of the host is named beside the first. */
    scene.a->events[scene.a->n_events++] =
        (struct diag_event){.type = "device_fatal", .device = "p0"};
    ck_assert_uint_eq(count_findings(), 1);
    ck_assert_str_eq(findings.items[0].evidence[1].text, "p1 p0");
    /* One that reports twice is named once. */
    scene.a->events[scene.a->n_events++] = *event;
    ck_assert_uint_eq(count_findings(), 1);
    ck_assert_str_eq(findings.items[0].evidence[1].text, "p1 p0");
    scene.a->n_events--;
    /* One without a name adds nothing. */
    scene.a->events[1].device[0] = '\0';
    ck_assert_uint_eq(count_findings(), 1);
    ck_assert_str_eq(findings.items[0].evidence[1].text, "p1");
    scene.a->n_events--;
    event->device[0] = '\0';
    ck_assert_uint_eq(count_findings(), 0);
    *event = (struct diag_event){.device = "p1"};
    ck_assert_uint_eq(count_findings(), 0);
    *event = (struct diag_event){.type = "comm_est", .device = "p1"};
    ck_assert_uint_eq(count_findings(), 0);
}
END_TEST

/* A rail to iceberg was left out because RTR failed with ENOMEM, and the job succeeded. */
START_TEST(a_rail_that_was_left_out_is_told_with_its_cause)
{
    struct diag_error *why = &scene.a->left_out[0];
    const struct diag_value *because;

    scene.a->n_uses = 0;
    p0->counters[DIAG_RETRANSMITS] = 0;
    weft_fail_errno(&why->error, ENOMEM, WEFT_PHASE_RTR, "no memory");
    weft_format(why->peer, sizeof(why->peer), "iceberg");
    scene.a->memlock_bytes = INT64_MAX;
    ck_assert_uint_eq(count_findings(), 0);
    scene.a->n_left_out = 1;
    ck_assert_uint_eq(count_findings(), 1);
    ck_assert_str_eq(findings.items[0].entry->code, "link.left_out");
    ck_assert_int_eq(findings.items[0].severity, DIAG_WARNING);
    ck_assert(findings.items[0].is_survived);
    ck_assert_str_eq(findings.items[0].host, "titanic");
    ck_assert_str_eq(findings.items[0].peer, "iceberg");
    because = &findings.items[0].evidence[findings.items[0].n_evidence - 1];
    ck_assert_str_eq(because->name, "because");
    ck_assert_str_eq(because->text, "host.kernel_memory");
    ck_assert_str_eq(because[-1].name, "survived");
    ck_assert_int_eq(because[-1].number, 1);
    /* If a host failed, only the failure is reported. */
    weft_fail(&scene.b->errors[scene.b->n_errors++].error, WEFT_ERR_DATA,
              WEFT_PHASE_VERIFY, "wrong");
    ck_assert_uint_eq(count_findings(), 1);
    ck_assert_str_eq(findings.items[0].entry->code, "data.wrong");
}
END_TEST

/* The cable never came up, and relays carried its data. The finding is the cause of the unresolved
 * neighbour. Its evidence includes the number of relays. */
START_TEST(a_cable_that_a_relay_stands_in_for_is_told_with_its_cost)
{
    struct diag_error *why = &scene.a->left_out[0];
    const struct diag_finding *finding;
    int64_t n_relays = 0;

    scene.a->n_uses = 0;
    p0->counters[DIAG_RETRANSMITS] = 0;
    p0->is_up = DIAG_NO;
    weft_fail(&why->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_CONNECT_QPS,
              "no connection came up");
    weft_error_text(&why->error, WEFT_VALUE_LOCAL_PORT, "p0");
    weft_error_text(&why->error, WEFT_VALUE_LOCAL_GID, "192.168.101.1");
    weft_error_text(&why->error, WEFT_VALUE_LOCAL_GID_TYPE, "RoCE v2");
    weft_error_text(&why->error, WEFT_VALUE_REMOTE_PORT, "p0");
    weft_error_text(&why->error, WEFT_VALUE_REMOTE_GID, "192.168.101.2");
    weft_error_text(&why->error, WEFT_VALUE_REMOTE_GID_TYPE, "RoCE v2");
    weft_error_int(&why->error, WEFT_VALUE_STOOD_IN_RELAYS, 2);
    weft_format(why->peer, sizeof(why->peer), "iceberg");
    scene.a->n_left_out = 1;
    ck_assert_uint_eq(count_findings(), 1);
    finding = &findings.items[0];
    ck_assert_str_eq(finding->entry->code, "link.down");
    ck_assert_int_eq(finding->severity, DIAG_WARNING);
    ck_assert(finding->is_survived);
    ck_assert_str_eq(finding->port, "p0");
    for (uint32_t i = 0; i < finding->n_evidence; i++) {
        const struct diag_value *value = &finding->evidence[i];

        n_relays = strcmp(value->name, "stood_in_relays") == 0 ? value->number : n_relays;
    }
    ck_assert_int_eq(n_relays, 2);
}
END_TEST

/* If no evidence shows that the cable is at fault, the finding is link.left_out with its cause. The
 * process at the other end is not the cause, because it carried the job. */
START_TEST(a_cable_that_a_relay_stands_in_for_blames_no_process)
{
    static const struct {
        weft_status status;
        enum weft_phase phase;
        int sys_errno;
        const char *because;
    } cases[] = {{WEFT_ERR_TIMEOUT, WEFT_PHASE_TCP, 0, "undetermined"},
                 {WEFT_ERR_TIMEOUT, WEFT_PHASE_READY, 0, "undetermined"},
                 {WEFT_ERR_SYSTEM, WEFT_PHASE_TCP, ECONNREFUSED, "undetermined"},
                 {WEFT_ERR_AUTH, WEFT_PHASE_AUTH, 0, "conn.auth_failed"},
                 {WEFT_ERR_SYSTEM, WEFT_PHASE_TCP, EMFILE, "host.fd_limit"},
                 {WEFT_ERR_SYSTEM, WEFT_PHASE_RTR, ENOMEM, "host.kernel_memory"}};
    struct diag_error *why = &scene.a->left_out[0];
    const struct diag_value *because;

    scene.a->n_uses = 0;
    p0->counters[DIAG_RETRANSMITS] = 0;
    p1->counters[DIAG_RX_PACKETS] = p0->counters[DIAG_TX_PACKETS];
    p0->counters[DIAG_RX_PACKETS] = p1->counters[DIAG_TX_PACKETS];
    scene.a->memlock_bytes = INT64_MAX;
    if (cases[_i].sys_errno != 0) {
        weft_fail_errno(&why->error, cases[_i].sys_errno, cases[_i].phase, "refused");
    } else {
        weft_fail(&why->error, cases[_i].status, cases[_i].phase, "none came up");
    }
    weft_error_int(&why->error, WEFT_VALUE_STOOD_IN_RELAYS, 1);
    weft_format(why->peer, sizeof(why->peer), "iceberg");
    scene.a->n_left_out = 1;
    ck_assert_uint_eq(count_findings(), 1);
    ck_assert_str_eq(findings.items[0].entry->code, "link.left_out");
    ck_assert_int_eq(findings.items[0].severity, DIAG_WARNING);
    ck_assert(findings.items[0].is_survived);
    because = &findings.items[0].evidence[findings.items[0].n_evidence - 1];
    ck_assert_str_eq(because->name, "because");
    ck_assert_str_eq(because->text, cases[_i].because);
}
END_TEST

/* A rail never got a TCP connection, because its cable loses its carrier again and again. Both
 * hosts took part in the job, so neither was late. */
START_TEST(a_flapping_cable_that_a_relay_stands_in_for)
{
    static const struct {
        uint32_t n_lost;
        const char *code, *port, *candidate;
        int64_t sent, received; /* by queue pairs */
        const char *address;    /* of titanic:p0, if it was replaced */
        enum weft_phase phase;
        bool is_dark;
    } cases[] = {
        {2, "link.flapping", "p0", "", 100, 100, NULL, WEFT_PHASE_TCP, false},
        {1, "link.left_out", "", "link.down", 100, 100, NULL, WEFT_PHASE_TCP, false},
        {0, "link.left_out", "", "conn.filtered", 100, 100, NULL, WEFT_PHASE_TCP, false},
        {0, "link.lossy", "p0", "", 100, 80, NULL, WEFT_PHASE_TCP, false},
        {0, "link.left_out", "", "link.corrupting", 0, 0, NULL, WEFT_PHASE_TCP, false},
        {0, "route.no_facing_port", "", "", 0, 0, "192.168.7.1/24", WEFT_PHASE_TCP,
         false},
        {0, "route.no_facing_port", "", "", 0, 0, "192.168.7.1/24", WEFT_PHASE_META,
         false},
        {1, "link.down", "p0", "", 100, 100, NULL, WEFT_PHASE_TCP, true}};
    struct diag_error *errors[] = {&scene.a->left_out[0], &scene.b->left_out[0]};
    const struct diag_finding *finding;

    scene.a->n_uses = 0;
    for (size_t i = 0; i < WEFT_LENGTH(errors); i++) {
        weft_fail(&errors[i]->error, WEFT_ERR_TIMEOUT, cases[_i].phase, "none came up");
        weft_error_int(&errors[i]->error, WEFT_VALUE_STOOD_IN_RELAYS, 1);
        weft_format(errors[i]->peer, sizeof(errors[i]->peer), "%s",
                    i == 0 ? "iceberg" : "titanic");
    }
    if (cases[_i].phase == WEFT_PHASE_META) {
        weft_error_text(&errors[1]->error, WEFT_VALUE_LOCAL_PORT, "p1");
        weft_error_text(&errors[1]->error, WEFT_VALUE_LOCAL_GID, "192.168.101.2");
        weft_error_text(&errors[1]->error, WEFT_VALUE_REMOTE_GID, "192.168.101.1");
    }
    scene.a->n_left_out = scene.b->n_left_out = 1;
    for (uint32_t i = 0; i < cases[_i].n_lost; i++) {
        lose_carrier(scene.a, "p0");
    }
    if (cases[_i].address != NULL) {
        scene_set_address(p0, cases[_i].address);
    }
    p0->is_up = cases[_i].is_dark ? DIAG_NO : DIAG_YES;
    p0->counters[DIAG_TX_PACKETS] = p1->counters[DIAG_TX_PACKETS] = cases[_i].sent;
    p0->counters[DIAG_RX_PACKETS] = p1->counters[DIAG_RX_PACKETS] = cases[_i].received;
    ck_assert_uint_eq(count_findings(), 1);
    finding = &findings.items[0];
    ck_assert_str_eq(finding->entry->code, cases[_i].code);
    ck_assert_str_eq(finding->host, "titanic");
    ck_assert_str_eq(finding->peer, "iceberg");
    ck_assert_str_eq(finding->port, cases[_i].port);
    ck_assert_str_eq(finding->n_candidates > 0 ? finding->candidates[0]->code : "",
                     cases[_i].candidate);
}
END_TEST

/* No cable joins ports of the two hosts in one subnet, and their data went over a third host. The
 * finding is the cause, by the rules for failures, not link.left_out. */
START_TEST(a_pair_without_a_way_of_its_own_is_told_by_the_cause)
{
    struct diag_error *why = &scene.a->left_out[0];

    scene.a->n_uses = 0;
    p0->counters[DIAG_RETRANSMITS] = 0;
    scene_set_address(p0, "192.168.7.1/24");
    weft_fail(&why->error, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE,
              "no local port shares a subnet");
    weft_format(why->peer, sizeof(why->peer), "iceberg");
    scene.a->n_left_out = 1;
    ck_assert_uint_eq(count_findings(), 1);
    ck_assert_str_eq(findings.items[0].entry->code, "route.no_facing_port");
    ck_assert_int_eq(findings.items[0].severity, DIAG_WARNING);
    ck_assert(findings.items[0].is_survived);
    /* The cause can be at one end only. */
    p0->n_gids = 0;
    p0->n_addresses = 0;
    ck_assert_uint_eq(count_findings(), 1);
    ck_assert_str_eq(findings.items[0].entry->code, "addr.missing");
    ck_assert_int_eq(findings.items[0].severity, DIAG_WARNING);
    /* The netdev can have an address whose GID is missing. */
    p0->n_addresses = 1;
    ck_assert_uint_eq(count_findings(), 1);
    ck_assert_str_eq(findings.items[0].entry->code, "gid.missing");
    p0->n_addresses = IO_UNKNOWN;
    ck_assert_uint_eq(count_findings(), 1);
    ck_assert_str_eq(findings.items[0].entry->code, "undetermined");
}
END_TEST

/* Adds host carpathia with a port in the subnet of p0 and p1, as behind one switch. */
static struct diag_port *add_third(void)
{
    struct diag_host *third = &scene.input.hosts[scene.input.n_hosts++];

    *third = (struct diag_host){
        .name = "carpathia", .was_observed = true, .has_events = true, .has_uses = true};
    third->ports = weft_calloc(2, sizeof(*third->ports));
    third->n_ports = 1;
    third->ports[0] = *p0;
    scene_set_address(&third->ports[0], "192.168.101.3/24");
    return &third->ports[0];
}

static void set_counters(struct diag_port *port, int64_t sent, int64_t received,
                         int64_t out_of_sequence)
{
    port->counters[DIAG_TX_PACKETS] = sent;
    port->counters[DIAG_RX_PACKETS] = received;
    port->counters[DIAG_OUT_OF_SEQUENCE] = out_of_sequence;
}

START_TEST(frames_that_a_switch_dropped_are_a_warning_at_the_port_that_missed_them)
{
    struct diag_port *p = add_third();
    struct diag_port *const ports[] = {p0, p1, p};
    static const enum diag_counter explaining[] = {DIAG_ICRC_ERRORS, DIAG_RX_OVERSIZE};

    set_counters(p0, 1000, 990, 3);
    set_counters(p1, 1000, 996, 1);
    set_counters(p, 1000, 980, 9);
    ck_assert_uint_eq(count_findings(), 1);
    ck_assert_str_eq(findings.items[0].entry->code, "link.lossy");
    ck_assert_int_eq(findings.items[0].severity, DIAG_WARNING);
    ck_assert(findings.items[0].is_survived);
    ck_assert_str_eq(findings.items[0].host, "carpathia");
    ck_assert_str_eq(findings.items[0].port, "p0");
    /* 12 frames of three ports can be in flight while the counters are read. */
    p->counters[DIAG_RX_PACKETS] = 1002;
    ck_assert_uint_eq(count_findings(), 0);
    p->counters[DIAG_RX_PACKETS] = 980;
    for (size_t i = 0; i < WEFT_LENGTH(ports); i++) {
        const struct diag_port kept = *ports[i];

        for (size_t k = 0; k < WEFT_LENGTH(explaining); k++) {
            ports[i]->counters[explaining[k]] = 20;
            ck_assert_uint_eq(count_findings(), i < 2 && k == 0 ? 1 : 0);
            ck_assert(findings.n == 0 ||
                      strcmp(findings.items[0].entry->code, "link.corrupting") == 0);
            *ports[i] = kept;
        }
        ports[i]->counters[DIAG_RX_PACKETS] = IO_UNKNOWN;
        ck_assert_uint_eq(count_findings(), 0);
        *ports[i] = kept;
        ports[i]->has_gids = false;
        ck_assert_uint_eq(count_findings(), 0);
        *ports[i] = kept;
    }
}
END_TEST

/* The sums of such counters exceed 64 bits, so that their difference means nothing. */
START_TEST(counters_without_a_sum_are_unknown)
{
    struct diag_port *p = add_third();

    set_counters(p0, INT64_MAX, 10, 0);
    set_counters(p1, INT64_MAX, 10, 0);
    set_counters(p, 1000, 10, 9);
    ck_assert_uint_eq(count_findings(), 0);
    set_counters(p0, 1000, 990, 3);
    set_counters(p1, 1000, 996, 1);
    set_counters(p, 1000, -5, 9);
    ck_assert_uint_eq(count_findings(), 0);
}
END_TEST

/* A host can have a port in each of two switches that drop frames. */
START_TEST(each_switch_that_dropped_frames_is_told)
{
    struct diag_port *p = add_third(), *q = &scene.input.hosts[2].ports[1];
    struct diag_port *a = &scene.a->ports[1], *b = &scene.b->ports[0];

    scene.input.hosts[2].n_ports = 2;
    *q = *p;
    weft_format(q->name, sizeof(q->name), "p1");
    memcpy(a->counters, p0->counters, sizeof(a->counters));
    memcpy(b->counters, p0->counters, sizeof(b->counters));
    scene_set_address(b, "192.168.102.9/24");
    scene_set_address(q, "192.168.102.3/24");
    set_counters(p0, 1000, 990, 3);
    set_counters(p1, 1000, 996, 1);
    set_counters(p, 1000, 980, 9);
    set_counters(a, 1000, 990, 3);
    set_counters(b, 1000, 996, 1);
    set_counters(q, 1000, 980, 9);
    ck_assert_uint_eq(count_findings(), 2);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_str_eq(findings.items[i].entry->code, "link.lossy");
        ck_assert_str_eq(findings.items[i].host, "carpathia");
        ck_assert_str_eq(findings.items[i].port, i == 0 ? "p0" : "p1");
    }
}
END_TEST

static enum diag_code code_of_recovery(void)
{
    ck_assert_uint_eq(count_findings(), 1);
    ck_assert_int_eq(findings.items[0].severity, DIAG_WARNING);
    ck_assert(findings.items[0].is_survived);
    return findings.items[0].entry->id;
}

/* The rail of p0 and p1 did not recover, because the GID of either end is in another slot than
 * before. The finding is the cause, even if that is `undetermined`, not link.left_out. */
START_TEST(a_rail_that_did_not_come_back_is_told_by_the_slots_of_both_ends)
{
    struct diag_error *why = &scene.a->left_out[0];
    struct weft_error *error = &why->error;
    struct diag_gid *near = &p0->gids[0], *far = &p1->gids[0];

    scene.a->n_uses = 0;
    p0->counters[DIAG_RETRANSMITS] = 0;
    near->index = 3;
    far->index = 3;
    weft_fail(error, WEFT_ERR_TIMEOUT, WEFT_PHASE_RECOVERY,
              "p0 is given up after 5 attempts");
    weft_error_text(error, WEFT_VALUE_LOCAL_PORT, "p0");
    weft_error_text(error, WEFT_VALUE_LOCAL_GID, "192.168.101.1");
    weft_error_text(error, WEFT_VALUE_LOCAL_GID_TYPE, "RoCE v2");
    weft_error_int(error, WEFT_VALUE_LOCAL_KEPT_INDEX, 3);
    weft_error_text(error, WEFT_VALUE_REMOTE_PORT, "p1");
    weft_error_text(error, WEFT_VALUE_REMOTE_GID, "192.168.101.2");
    weft_error_text(error, WEFT_VALUE_REMOTE_GID_TYPE, "RoCE v2");
    weft_error_int(error, WEFT_VALUE_REMOTE_KEPT_INDEX, 3);
    weft_error_int(error, WEFT_VALUE_ATTEMPTS, 5);
    weft_format(why->peer, sizeof(why->peer), "iceberg");
    scene.a->n_left_out = 1;

    ck_assert_int_eq(code_of_recovery(),
                     DIAG_UNDETERMINED); /* both slots are unchanged */
    near->index = 5;
    ck_assert_int_eq(code_of_recovery(), DIAG_GID_STALE_INDEX);
    near->index = 3;
    far->index = 5;
    ck_assert_int_eq(code_of_recovery(), DIAG_GID_STALE_INDEX);
    far->type = 1; /* the same address, but RoCE v1 */
    ck_assert_int_eq(code_of_recovery(), DIAG_UNDETERMINED);
    far->type = 2;
    far->index = IO_UNKNOWN;
    ck_assert_int_eq(code_of_recovery(), DIAG_UNDETERMINED);
    near->index = 5; /* one end is sufficient */
    ck_assert_int_eq(code_of_recovery(), DIAG_GID_STALE_INDEX);
    error->phase = WEFT_PHASE_NONE;
    ck_assert_int_eq(code_of_recovery(), DIAG_UNDETERMINED);
    error->phase = WEFT_PHASE_RECOVERY;
    scene_set_address(p0, "192.168.7.1/24");
    far->index = 3;
    ck_assert_int_eq(code_of_recovery(), DIAG_GID_MISSING);
}
END_TEST

/* A faster cable joins titanic:p1 and iceberg:p0, and carries nothing. */
START_TEST(a_slow_cable_beside_a_fast_one_is_told_of)
{
    struct diag_port *fast = &scene.a->ports[1], *other = &scene.b->ports[0];

    p0->counters[DIAG_RETRANSMITS] = 0;
    p0->rate_bps = p1->rate_bps = 10000000000;
    fast->rate_bps = other->rate_bps = 20000000000;
    ck_assert_uint_eq(count_findings(), 0); /* they do not face each other */
    scene_set_address(other, "192.168.102.9/24");
    ck_assert_uint_eq(count_findings(), 1);
    ck_assert_str_eq(findings.items[0].entry->code, "route.slow_lane");
    ck_assert_int_eq(findings.items[0].severity, DIAG_WARNING);
    ck_assert_str_eq(findings.items[0].host, "titanic");
    ck_assert_str_eq(findings.items[0].port, "p0");
    ck_assert_str_eq(findings.items[0].peer, "iceberg");
    lose_carrier(scene.b, other->name);
    ck_assert_uint_eq(count_findings(), 0); /* it might have been down during set-up */
    scene.b->n_events--;
    fast->rate_bps = 19999999999;
    ck_assert_uint_eq(count_findings(), 0); /* less than twice as fast */
    fast->rate_bps = 20000000000;
    other->is_up = DIAG_NO;
    ck_assert_uint_eq(count_findings(), 0);
    other->is_up = DIAG_YES;
    p1->rate_bps = IO_UNKNOWN;
    ck_assert_uint_eq(count_findings(), 0);
    p1->rate_bps = 10000000000;
    scene.a->uses[scene.a->n_uses] = scene.a->uses[0];
    weft_format(scene.a->uses[scene.a->n_uses].local_port, DIAG_NAME_BYTES, "p1");
    weft_format(scene.a->uses[scene.a->n_uses++].remote_port, DIAG_NAME_BYTES, "p0");
    ck_assert_uint_eq(count_findings(), 0); /* it carries data */
    scene.a->n_uses--;
    ck_assert_uint_eq(count_findings(), 1);
    weft_fail(&scene.b->errors[scene.b->n_errors++].error, WEFT_ERR_DATA,
              WEFT_PHASE_VERIFY, "wrong");
    ck_assert_uint_eq(count_findings(), 1); /* only the failure is reported */
    ck_assert_str_eq(findings.items[0].entry->code, "data.wrong");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("diag/survived");
    TCase *tests = tcase_create("survived");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, frames_that_were_repeated_are_a_warning);
    tcase_add_test(
        tests, frames_that_a_switch_dropped_are_a_warning_at_the_port_that_missed_them);
    tcase_add_test(tests, counters_without_a_sum_are_unknown);
    tcase_add_test(tests, each_switch_that_dropped_frames_is_told);
    tcase_add_test(tests, damage_and_carrier_explain_what_was_lost);
    tcase_add_test(tests,
                   pauses_that_stopped_a_cable_are_a_warning_at_the_end_that_sent_them);
    tcase_add_test(tests, pauses_of_flow_control_are_none);
    tcase_add_test(tests, an_address_that_was_replaced_is_a_warning_at_its_end);
    tcase_add_test(tests, what_is_recorded_suffices_for_a_cable_that_flaps);
    tcase_add_test(tests, a_carrier_that_one_end_lost_is_told_there);
    tcase_add_test(tests, frames_in_flight_are_not_lost);
    tcase_add_test(tests, what_rxe_does_not_count_is_told_by_its_netdev);
    tcase_add_test(tests, retransmits_of_one_end_may_be_unknown);
    tcase_add_test(tests, a_counter_below_zero_is_unknown);
    tcase_add_test(tests, events_of_queue_pairs_hide_no_loss_of_carrier);
    tcase_add_test(tests, where_something_failed_only_that_is_told);
    tcase_add_test(tests, nothing_is_told_where_something_is_not_known);
    tcase_add_test(tests, lost_probes_of_a_lossy_cable_are_no_black_hole);
    tcase_add_test(tests, a_slot_is_narrow_by_what_it_could_and_should);
    tcase_add_test(tests, a_slot_of_which_something_is_unknown_or_absurd_is_not_told_of);
    tcase_add_test(tests, a_device_that_is_gone_is_told);
    tcase_add_test(tests, a_rail_that_was_left_out_is_told_with_its_cause);
    tcase_add_test(tests, a_cable_that_a_relay_stands_in_for_is_told_with_its_cost);
    tcase_add_loop_test(tests, a_cable_that_a_relay_stands_in_for_blames_no_process, 0,
                        6);
    tcase_add_loop_test(tests, a_flapping_cable_that_a_relay_stands_in_for, 0, 8);
    tcase_add_test(tests, a_pair_without_a_way_of_its_own_is_told_by_the_cause);
    tcase_add_test(tests,
                   a_rail_that_did_not_come_back_is_told_by_the_slots_of_both_ends);
    tcase_add_test(tests, a_slow_cable_beside_a_fast_one_is_told_of);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
