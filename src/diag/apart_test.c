/* Tests findings about cables that carry nothing, if the input contains the ports that they join.
 * Their ends have addresses of different subnets (apart.c), or an end has no carrier, address or
 * GID (dark.c). */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/suite_testing.h"
#include "base/text.h"
#include "diag/diag_testing.h"

static struct scene scene;
static struct diag_findings findings;
static struct diag_port *near, *far; /* titanic:p1 and iceberg:p0 */

static void add_cable(const char *from_port, const char *to_port)
{
    struct diag_cable *cable = &scene.input.cables[scene.input.n_cables++];

    *cable = (struct diag_cable){.from = "titanic", .to = "iceberg"};
    weft_format(cable->from_port, sizeof(cable->from_port), "%s", from_port);
    weft_format(cable->to_port, sizeof(cable->to_port), "%s", to_port);
}

/* One cable carries the job. The ends of another have different subnets: 192.168.102.0/24 at
 * titanic:p1, and 192.168.100.0/24 at iceberg:p0. */
static void setup(void)
{
    scene_set(&scene);
    scene.a->n_errors = 0;
    scene.a->has_uses = scene.b->has_uses = true;
    scene.a->n_uses = 1;
    scene.a->uses[0] = (struct diag_use){
        .peer = "iceberg", .local_port = "p0", .remote_port = "p1", .path_mtu = 4096};
    scene.input.cables = weft_calloc(4, sizeof(*scene.input.cables));
    add_cable("p0", "p1");
    add_cable("p1", "p0");
    near = &scene.a->ports[1];
    far = &scene.b->ports[0];
}

static void teardown(void)
{
    diag_findings_fini(&findings);
    diag_input_fini(&scene.input);
}

static uint32_t count(void)
{
    diag_findings_fini(&findings);
    diag(&scene.input, &findings);
    return findings.n;
}

static const struct diag_value *value_of(uint32_t i, const char *name)
{
    static const struct diag_value none = {.number = IO_UNKNOWN};
    const struct diag_finding *finding = &findings.items[i];

    for (uint32_t k = 0; k < finding->n_evidence; k++) {
        if (strcmp(finding->evidence[k].name, name) == 0) {
            return &finding->evidence[k];
        }
    }
    return &none;
}

static const char *evidence(uint32_t i, const char *name)
{
    return value_of(i, name)->text;
}

static int64_t number(uint32_t i, const char *name)
{
    return value_of(i, name)->number;
}

static void check(uint32_t i, const char *code, enum diag_severity severity,
                  const char *want)
{
    char where[3 * DIAG_NAME_BYTES];

    diag_where(&findings.items[i], where, sizeof(where));
    ck_assert_str_eq(findings.items[i].entry->code, code);
    ck_assert_int_eq(findings.items[i].severity, severity);
    ck_assert_str_eq(where, want);
}

START_TEST(both_ends_are_warned_of_where_a_job_went_on)
{
    ck_assert_uint_eq(count(), 2);
    check(0, "addr.no_facing_port", DIAG_WARNING, "titanic:p1 -> iceberg");
    ck_assert(findings.items[0].is_survived);
    ck_assert_str_eq(evidence(0, "address"), "192.168.102.2/24");
    ck_assert_str_eq(evidence(0, "cable_leads_to"), "iceberg:p0");
    ck_assert_str_eq(evidence(0, "address_there"), "192.168.100.1/24");
    check(1, "addr.no_facing_port", DIAG_WARNING, "iceberg:p0 -> titanic");
}
END_TEST

/* Only the addresses of one end changed. Loop 2: those of both did; 3: whether the other's did is
 * not known. */
START_TEST(the_end_that_was_renumbered_is_warned_of_alone)
{
    static const uint32_t n_findings[] = {1, 1, 2, 2};
    static const struct diag_event near_change = {.type = "gid_change", .port = "p1"},
                                   far_change = {.type = "gid_change", .port = "p0"};

    scene.a->has_events = true;
    scene.b->has_events = _i != 3;
    if (_i != 1) {
        scene.a->events[scene.a->n_events++] = near_change;
    }
    if (_i == 1 || _i == 2) {
        scene.b->events[scene.b->n_events++] = far_change;
    }
    ck_assert_uint_eq(count(), n_findings[_i]);
    check(0, "addr.no_facing_port", DIAG_WARNING,
          _i == 1 ? "iceberg:p0 -> titanic" : "titanic:p1 -> iceberg");
}
END_TEST

START_TEST(before_a_job_it_is_an_error)
{
    scene.a->has_uses = scene.b->has_uses = false;
    scene.a->n_uses = 0;
    ck_assert_uint_eq(count(), 2);
    check(0, "addr.no_facing_port", DIAG_ERROR, "titanic:p1 -> iceberg");
    check(1, "addr.no_facing_port", DIAG_ERROR, "iceberg:p0 -> titanic");
    ck_assert(!findings.items[0].is_survived);
}
END_TEST

/* Titanic:p1 has an address in the other cable's subnet, so titanic:p1 is at fault, not
 * iceberg:p0. */
START_TEST(an_end_that_faces_another_port_than_its_cable_leads_to_is_at_fault)
{
    scene.a->has_uses = scene.b->has_uses = false;
    scene.a->n_uses = 0;
    scene_set_address(near, "192.168.101.7/24");
    ck_assert_uint_eq(count(), 1);
    check(0, "neigh.no_answer", DIAG_ERROR, "titanic:p1 -> iceberg");
    ck_assert_str_eq(evidence(0, "remote_port"), "p1");
    ck_assert_str_eq(evidence(0, "cable_leads_to"), "iceberg:p0");
}
END_TEST

START_TEST(swapped_cables_are_wrong_at_each_end)
{
    scene.a->has_uses = scene.b->has_uses = false;
    scene.a->n_uses = 0;
    scene_set_address(near, "192.168.100.7/24");
    ck_assert_uint_eq(count(), 0);
    scene.input.n_cables = 0;
    add_cable("p0", "p0");
    add_cable("p1", "p1");
    ck_assert_uint_eq(count(), 4);
    check(0, "neigh.no_answer", DIAG_ERROR, "titanic:p0 -> iceberg");
    check(1, "neigh.no_answer", DIAG_ERROR, "iceberg:p0 -> titanic");
    check(2, "neigh.no_answer", DIAG_ERROR, "titanic:p1 -> iceberg");
    check(3, "neigh.no_answer", DIAG_ERROR, "iceberg:p1 -> titanic");
}
END_TEST

/* Checks that the only finding is a warning with this code that names `port`. */
static void check_dark(const char *code, const struct diag_port *port)
{
    ck_assert_uint_eq(count(), 1);
    ck_assert_str_eq(findings.items[0].entry->code, code);
    ck_assert_str_eq(findings.items[0].port, port->name);
    ck_assert(findings.items[0].is_survived);
    ck_assert_int_eq(findings.items[0].severity, DIAG_WARNING);
}

static void check_nothing_at(struct diag_port *port)
{
    const struct diag_port kept = *port;

    port->is_up = DIAG_NO;
    check_dark("link.down", port);
    port->is_up = DIAG_UNKNOWN;
    ck_assert_uint_eq(count(), 0);
    *port = kept;
    port->n_gids = 0;
    check_dark("gid.missing", port);
    port->n_addresses = 0;
    check_dark("addr.missing", port);
    port->n_addresses = IO_UNKNOWN;
    ck_assert_uint_eq(count(), 0);
    *port = kept;
    port->gids[0].prefix_len = IO_UNKNOWN;
    ck_assert_uint_eq(count(), 0);
    *port = kept;
    port->has_gids = false;
    ck_assert_uint_eq(count(), 0);
    *port = kept;
    port->is_opened = DIAG_NO;
    ck_assert_uint_eq(count(), 0);
    *port = kept;
    scene_set_address(port, "169.254.1.1/16");
    ck_assert_uint_eq(count(), 0);
    *port = kept;
}

/* Events of the host whose port is down. The event of a lost device can lack its type or device, or
 * be missing. */
static const struct {
    bool has_events;
    const char *type, *device; /* NULL if there is no event */
    const char *code;          /* expected finding; NULL if none */
} events[] = {
    {true, NULL, NULL, "link.down"},
    {true, "device_fatal", "p1", "device.failed"},
    {true, "device_fatal", "", NULL},
    {true, "", "p1", NULL},
    {true, "", "", NULL},
    {false, NULL, NULL, NULL},
};

START_TEST(a_port_of_a_device_that_may_be_gone_is_no_dark_cable)
{
    near->is_up = DIAG_NO;
    far->is_up = DIAG_YES;
    scene.a->has_events = events[_i].has_events;
    if (events[_i].type != NULL) {
        scene.a->n_events = 1;
        weft_format(scene.a->events[0].type, sizeof(scene.a->events[0].type), "%s",
                    events[_i].type);
        weft_format(scene.a->events[0].device, DIAG_NAME_BYTES, "%s", events[_i].device);
    }
    ck_assert_uint_eq(count(), events[_i].code != NULL ? 1 : 0);
    if (events[_i].code != NULL) {
        ck_assert_str_eq(findings.items[0].entry->code, events[_i].code);
    }
}
END_TEST

/* A lost device leaves the far end its carrier. If neither end has one, the cable is down, even if
 * events are unknown. */
START_TEST(a_cable_without_carrier_at_both_ends_is_dark_whatever_is_missing)
{
    near->is_up = far->is_up = DIAG_NO;
    scene.a->has_events = scene.b->has_events = false;
    check_dark("link.down", near);
}
END_TEST

static const struct {
    const char *near, *code;
} unusable[] = {
    {"192.168.100.130/25", "addr.prefix_mismatch"}, /* far's subnet contains it */
    {"192.168.100.1/24", "addr.duplicate"},         /* far's own address */
};

/* The other cable carries the job, at half the rate. */
START_TEST(addresses_that_make_a_cable_useless_are_named)
{
    scene_set_address(near, unusable[_i].near);
    ck_assert_uint_eq(count(), 1);
    check(0, unusable[_i].code, DIAG_WARNING, "titanic:p1 -> iceberg");
    ck_assert_str_eq(evidence(0, "remote_port"), "p0");
    ck_assert_str_eq(evidence(0, "address_there"), "192.168.100.1/24");
    weft_format(scene.a->uses[0].local_port, DIAG_NAME_BYTES, "p1");
    ck_assert_uint_eq(count(), 0);
}
END_TEST

START_TEST(what_has_another_cause_or_is_not_known_is_not_named)
{
    check_nothing_at(near);
    check_nothing_at(far);
    weft_format(scene.a->uses[0].local_port, DIAG_NAME_BYTES, "p1");
    ck_assert_uint_eq(count(), 0);
    weft_format(scene.a->uses[0].local_port, DIAG_NAME_BYTES, "p0");
    /* If the cable is not in the input, the ports may lead to other hosts. */
    scene.input.n_cables = 1;
    ck_assert_uint_eq(count(), 0);
    add_cable("p1", "p7");
    ck_assert_uint_eq(count(), 0);
    weft_format(scene.input.cables[1].to, DIAG_NAME_BYTES, "switch");
    ck_assert_uint_eq(count(), 0);
    /* A host whose ports are unknown may face either end. */
    weft_format(scene.input.cables[1].to, DIAG_NAME_BYTES, "iceberg");
    weft_format(scene.input.cables[1].to_port, DIAG_NAME_BYTES, "p0");
    ck_assert_uint_eq(count(), 2);
    scene_add_host(&scene, "carpathia");
    ck_assert_uint_eq(count(), 0);
}
END_TEST

/* A program that compares no subnets uses the cable, with the addresses of its ends or with
 * others. */
START_TEST(a_cable_that_is_used_despite_its_addresses_is_named)
{
    struct diag_use *use = &scene.a->uses[0];

    weft_format(use->local_port, DIAG_NAME_BYTES, "p1");
    weft_format(use->remote_port, DIAG_NAME_BYTES, "p0");
    weft_format(use->local_gid, sizeof(use->local_gid), "192.168.102.2");
    weft_format(use->remote_gid, sizeof(use->remote_gid), "192.168.100.1");
    ck_assert_uint_eq(count(), 2);
    check(0, "addr.no_facing_port", DIAG_WARNING, "titanic:p1 -> iceberg");
    check(1, "addr.no_facing_port", DIAG_WARNING, "iceberg:p0 -> titanic");
    scene_set_address(near, "192.168.100.130/25"); /* far's subnet contains it */
    ck_assert_uint_eq(count(), 1);
    check(0, "addr.prefix_mismatch", DIAG_WARNING, "titanic:p1 -> iceberg");
    scene_set_address(near, "192.168.100.130/24");
    weft_format(use->local_gid, sizeof(use->local_gid), "192.168.100.130");
    ck_assert_uint_eq(count(), 0);
    scene_set_address(near, "192.168.102.2/24");
    weft_format(use->local_gid, sizeof(use->local_gid), "192.168.102.2");
    weft_format(use->remote_gid, sizeof(use->remote_gid), "fe80::1");
    ck_assert_uint_eq(count(), 0);
}
END_TEST

/* Each process chooses its own ports, such as the NIC next to its GPU. */
START_TEST(a_cable_that_a_second_process_uses_is_used)
{
    struct diag_host *second = scene_add_host(&scene, "titanic/1");
    struct diag_use *use = &second->uses[0];

    second->n_ports = scene.a->n_ports;
    memcpy(second->ports, scene.a->ports, second->n_ports * sizeof(*second->ports));
    second->has_uses = true;
    second->n_uses = 1;
    *use = (struct diag_use){
        .peer = "iceberg", .local_port = "p1", .remote_port = "p0", .path_mtu = 4096};
    weft_format(use->local_gid, sizeof(use->local_gid), "192.168.102.2");
    weft_format(use->remote_gid, sizeof(use->remote_gid), "192.168.100.1");
    ck_assert_uint_eq(count(), 2);
    ck_assert_int_eq(number(0, "used"), 1);
    ck_assert_int_eq(number(1, "used"), 1);
    /* With link-local addresses the cable needs no subnet. */
    weft_format(use->local_gid, sizeof(use->local_gid), "fe80::2");
    weft_format(use->remote_gid, sizeof(use->remote_gid), "fe80::1");
    ck_assert_uint_eq(count(), 0);
}
END_TEST

START_TEST(a_failure_is_reported_alone)
{
    weft_fail(&scene.b->errors[scene.b->n_errors++].error, WEFT_ERR_DATA,
              WEFT_PHASE_VERIFY, "wrong");
    ck_assert_uint_eq(count(), 1);
    ck_assert_str_eq(findings.items[0].entry->code, "data.wrong");
}
END_TEST

/* The hosts have a single cable. The finding about the failure names its ends. */
START_TEST(hosts_without_facing_ports_are_named_with_the_ends_of_their_cable)
{
    scene.a->n_uses = 0;
    scene_set_address(&scene.a->ports[0], "10.1.1.1/24");
    scene.a->n_ports = scene.input.n_cables = 1;
    weft_fail(&scene.a->errors[0].error, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE,
              "no local port");
    weft_format(scene.a->errors[0].peer, DIAG_NAME_BYTES, "iceberg");
    scene.a->n_errors = 1;
    ck_assert_uint_eq(count(), 1);
    check(0, "route.no_facing_port", DIAG_ERROR, "titanic:p0 -> iceberg");
    ck_assert_str_eq(evidence(0, "remote_port"), "p1");
}
END_TEST

/* Before a run, the ends of one cable stand for all cables of two hosts without facing ports. */
START_TEST(hosts_without_facing_ports_are_named_once)
{
    scene.a->has_uses = scene.b->has_uses = false;
    scene.a->n_uses = 0;
    scene_set_address(&scene.a->ports[0], "10.1.1.1/24");
    ck_assert_uint_eq(count(), 2);
    check(0, "route.no_facing_port", DIAG_ERROR, "titanic:p0 -> iceberg");
    check(1, "route.no_facing_port", DIAG_ERROR, "iceberg:p1 -> titanic");
}
END_TEST

static const struct {
    const char *here, *there, *others, *want;
} families[] = {
    {"fd00::1/64", "192.168.1.2/24", "192.168.100.1/24", "titanic:p0 -> iceberg"},
    {"192.168.1.1/24", "fd00::2/64", "192.168.100.1/24", "iceberg:p1 -> titanic"},
    {"fd00::1/64", "192.168.1.2/24", "fd00:5::1/64", "iceberg:p1 -> titanic"},
    {"192.168.1.1/24", "fd00::2/64", "fd00:5::1/64", "titanic:p0 -> iceberg"},
};

/* Streams go over the cables too, without another network. Titanic:p0 shares a subnet with
 * iceberg:p1, but its cable leads to iceberg:p0. */
START_TEST(a_stream_over_swapped_cables_is_not_filtered)
{
    scene.input.n_cables = 0;
    add_cable("p0", "p0");
    weft_format(scene.a->policy, sizeof(scene.a->policy), "weft");
    weft_fail_errno(&scene.a->errors[0].error, ETIMEDOUT, WEFT_PHASE_TCP, "no answer");
    weft_format(scene.a->errors[0].peer, DIAG_NAME_BYTES, "iceberg");
    scene.a->n_errors = 1;
    scene_hears_of_it(&scene);
    ck_assert_uint_eq(count(), 1);
    check(0, "neigh.no_answer", DIAG_ERROR, "titanic:p0 -> iceberg");
    ck_assert_str_eq(evidence(0, "remote_port"), "p1");
    scene.input.n_cables = 0;
    ck_assert_uint_eq(count(), 1);
    check(0, "conn.filtered", DIAG_ERROR, "titanic -> iceberg");
}
END_TEST

/* The two ends are not in one subnet, and only the addresses of one changed. */
START_TEST(the_end_that_was_renumbered_is_named)
{
    struct diag_host *host = _i == 0 ? scene.b : scene.a;
    struct diag_event *event = &host->events[host->n_events++];

    *event = (struct diag_event){.type = "gid_change"};
    weft_format(event->port, sizeof(event->port), "%s", _i == 0 ? "p1" : "p0");
    scene.a->n_uses = 0;
    scene_set_address(&scene.a->ports[0], "10.1.1.1/24");
    scene.a->n_ports = scene.input.n_cables = 1;
    weft_fail(&scene.a->errors[0].error, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE,
              "no local port");
    weft_format(scene.a->errors[0].peer, DIAG_NAME_BYTES, "iceberg");
    scene.a->n_errors = 1;
    ck_assert_uint_eq(count(), 1);
    check(0, "route.no_facing_port", DIAG_ERROR,
          _i == 0 ? "iceberg:p1 -> titanic" : "titanic:p0 -> iceberg");
}
END_TEST

/* The end that is not numbered as the rest of the mesh is at fault. */
START_TEST(the_end_of_the_rarer_family_is_named)
{
    scene.a->n_uses = 0;
    scene_set_address(&scene.a->ports[0], families[_i].here);
    scene_set_address(&scene.b->ports[1], families[_i].there);
    scene_set_address(&scene.b->ports[0], families[_i].others);
    scene.a->n_ports = scene.input.n_cables = 1;
    weft_fail(&scene.a->errors[0].error, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE,
              "no local port");
    weft_format(scene.a->errors[0].peer, DIAG_NAME_BYTES, "iceberg");
    scene.a->n_errors = 1;
    ck_assert_uint_eq(count(), 1);
    check(0, "route.no_facing_port", DIAG_ERROR, families[_i].want);
}
END_TEST

/* Their only cable has no carrier, and one end of it no address either. */
START_TEST(hosts_whose_cables_are_all_dark_are_not_misnumbered)
{
    scene.a->n_uses = 0;
    scene.a->ports[0].n_gids = 0;
    scene.a->ports[0].is_up = DIAG_NO;
    scene.input.n_cables = 1;
    weft_fail(&scene.b->errors[0].error, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE,
              "no local port");
    weft_format(scene.b->errors[0].peer, DIAG_NAME_BYTES, "titanic");
    scene.b->n_errors = 1;
    ck_assert_uint_eq(count(), 1);
    check(0, "link.down", DIAG_ERROR, "iceberg:p1 -> titanic");
    ck_assert_str_eq(evidence(0, "remote_port"), "p0");
    add_cable("p1", "p0"); /* has carrier, but addresses of different subnets */
    ck_assert_uint_eq(count(), 1);
    ck_assert_str_eq(findings.items[0].entry->code, "route.no_facing_port");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("apart");
    TCase *tests = tcase_create("apart");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, both_ends_are_warned_of_where_a_job_went_on);
    tcase_add_loop_test(tests, the_end_that_was_renumbered_is_warned_of_alone, 0, 4);
    tcase_add_test(tests, before_a_job_it_is_an_error);
    tcase_add_test(tests,
                   an_end_that_faces_another_port_than_its_cable_leads_to_is_at_fault);
    tcase_add_test(tests, swapped_cables_are_wrong_at_each_end);
    tcase_add_loop_test(tests, a_port_of_a_device_that_may_be_gone_is_no_dark_cable, 0,
                        (int)(sizeof(events) / sizeof(events[0])));
    tcase_add_test(tests,
                   a_cable_without_carrier_at_both_ends_is_dark_whatever_is_missing);
    tcase_add_loop_test(tests, addresses_that_make_a_cable_useless_are_named, 0,
                        (int)(sizeof(unusable) / sizeof(unusable[0])));
    tcase_add_test(tests, what_has_another_cause_or_is_not_known_is_not_named);
    tcase_add_test(tests, a_cable_that_is_used_despite_its_addresses_is_named);
    tcase_add_test(tests, a_cable_that_a_second_process_uses_is_used);
    tcase_add_test(tests, a_failure_is_reported_alone);
    tcase_add_test(tests,
                   hosts_without_facing_ports_are_named_with_the_ends_of_their_cable);
    tcase_add_test(tests, hosts_without_facing_ports_are_named_once);
    tcase_add_test(tests, a_stream_over_swapped_cables_is_not_filtered);
    tcase_add_loop_test(tests, the_end_that_was_renumbered_is_named, 0, 2);
    tcase_add_loop_test(tests, the_end_of_the_rarer_family_is_named, 0,
                        (int)(sizeof(families) / sizeof(families[0])));
    tcase_add_test(tests, hosts_whose_cables_are_all_dark_are_not_misnumbered);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
