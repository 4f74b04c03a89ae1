/* Tests the place of findings: which end they name, and which ports would have been right. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "diag/diag_testing.h"

static const char *text_of(const struct diag_finding *finding, const char *name)
{
    for (uint32_t i = 0; i < finding->n_evidence; i++) {
        if (strcmp(finding->evidence[i].name, name) == 0) {
            return finding->evidence[i].text;
        }
    }
    return "";
}

static void judge(const char *code, struct scene *s, struct diag_findings *out)
{
    for (int i = 0; i < n_scene_cases; i++) {
        if (strcmp(scene_cases[i].code, code) == 0) {
            scene_write_case(i, false, s);
            diag(&s->input, out);
            ck_assert_uint_eq(out->n, 1);
            ck_assert_str_eq(out->items[0].entry->code, code);
            return;
        }
    }
    ck_abort_msg("no case of %s", code);
}

START_TEST(who_drops_is_named)
{
    static const char *const codes[] = {"host.firewall_roce", "host.rp_filter"};
    struct diag_findings findings;
    struct scene s;

    judge(codes[_i], &s, &findings);
    ck_assert_str_eq(text_of(&findings.items[0], "dropped_at"), "iceberg");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

START_TEST(the_right_ports_are_named_beside_the_wrong_ones)
{
    struct diag_findings findings;
    struct scene s;

    judge("route.wrong_nic", &s, &findings);
    ck_assert_str_eq(text_of(&findings.items[0], "local_facing_port"), "p0");
    ck_assert_str_eq(text_of(&findings.items[0], "remote_facing_port"), "p1");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Iceberg cannot reach titanic, where the firewall is and which only waits. The finding must have
 * the place of iceberg's failure, although titanic's comes first in the input. */
START_TEST(a_filter_is_at_the_host_that_was_called)
{
    struct diag_findings findings;
    struct diag_error *call;
    struct scene s;
    char where[64];

    scene_set(&s);
    weft_fail(&s.failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT, "it did not come");
    weft_error_text(&s.failure->error, WEFT_VALUE_RENDEZVOUS, "10.0.0.1");
    s.failure->source = DIAG_HEARSAY;
    call = &s.b->errors[s.b->n_errors++];
    *call = (struct diag_error){.source = DIAG_HEARSAY};
    weft_format(call->peer, sizeof(call->peer), "titanic");
    weft_fail_errno(&call->error, ETIMEDOUT, WEFT_PHASE_BOOT, "cannot be reached");
    weft_error_text(&call->error, WEFT_VALUE_RENDEZVOUS, "10.0.0.1");
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "conn.filtered");
    diag_where(&findings.items[0], where, sizeof(where));
    ck_assert_str_eq(where, "iceberg -> titanic");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* A failure says that an end has no address if none of its usable ports has one. The evidence must
 * not say this if another port of that end has an address. */
START_TEST(evidence_denies_no_address_that_a_port_has)
{
    struct diag_findings findings;
    struct scene s;

    scene_set(&s);
    scene_bare_route(&s); /* iceberg:p0 has an address */
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "addr.missing");
    ck_assert_str_eq(text_of(&findings.items[0], "local_addresses"), "");
    ck_assert_str_eq(text_of(&findings.items[0], "local_port"), "p1");
    diag_findings_fini(&findings);
    s.b->ports[0].n_gids = 0;
    s.b->ports[0].n_addresses = 0;
    diag(&s.input, &findings);
    ck_assert_str_eq(text_of(&findings.items[0], "local_addresses"), "none");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* The program used both ends of titanic's first cable, which are in different subnets. Without the
 * cables of the mesh it would be unknown which of iceberg's ports is the right one. */
START_TEST(a_misnumbered_cable_is_no_wrong_port)
{
    static const char *const codes[] = {"addr.no_facing_port", "route.merged_nic"};
    struct diag_findings findings;
    struct scene s;

    scene_set(&s);
    scene_merged(&s);
    scene_set_address(&s.b->ports[1], "192.168.102.9/24");
    s.input.cables = weft_calloc(1, sizeof(*s.input.cables));
    s.input.cables[0] = (struct diag_cable){.from = "iceberg", .to = "titanic"};
    weft_format(s.input.cables[0].from_port, DIAG_NAME_BYTES, "p0");
    weft_format(s.input.cables[0].to_port, DIAG_NAME_BYTES, _i == 0 ? "p0" : "p1");
    s.input.n_cables = 1;
    diag(&s.input, &findings);
    ck_assert_uint_ge(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, codes[_i]);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* fe80::/64 is on every port, but a cable joins only two. */
START_TEST(link_local_gids_are_no_cause_on_one_cable)
{
    static const char *const codes[] = {"neigh.no_answer", "gid.link_local"};
    struct diag_findings findings;
    struct scene s;

    scene_set(&s);
    weft_fail_errno(&s.failure->error, ETIMEDOUT, WEFT_PHASE_RTR, "modify_qp");
    scene_aim(&s, "p0", "fe80::1", "fe80::2");
    weft_error_text(&s.failure->error, WEFT_VALUE_REMOTE_PORT, "p0");
    s.a->ports[0].gids[s.a->ports[0].n_gids++] =
        (struct diag_gid){.type = 2, .vlan_id = 0};
    (void)io_ip_parse("fe80::1", &s.a->ports[0].gids[1].ip);
    s.b->ports[0].gids[s.b->ports[0].n_gids++] =
        (struct diag_gid){.type = 2, .vlan_id = 0};
    (void)io_ip_parse("fe80::2", &s.b->ports[0].gids[1].ip);
    s.input.cables = weft_calloc(1, sizeof(*s.input.cables));
    s.input.cables[0] = (struct diag_cable){.from = "iceberg", .to = "titanic"};
    weft_format(s.input.cables[0].from_port, DIAG_NAME_BYTES, "p0");
    weft_format(s.input.cables[0].to_port, DIAG_NAME_BYTES, _i == 0 ? "p0" : "p1");
    s.input.n_cables = 1;
    diag(&s.input, &findings);
    ck_assert_str_eq(findings.items[0].entry->code, codes[_i]);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Titanic called iceberg in vain, and iceberg's own stream to titanic came up and fell silent. A
 * filter of TCP ports does not explain that, unless the stream never came up. */
START_TEST(a_stream_that_fell_silent_was_not_filtered)
{
    static const enum weft_phase phases[] = {WEFT_PHASE_HELLO, WEFT_PHASE_CHALLENGE,
                                             WEFT_PHASE_AUTH, WEFT_PHASE_TCP};
    struct diag_error *silence;
    struct diag_findings findings;
    bool is_filtered = false;
    struct scene s;

    scene_set(&s);
    silence = &s.b->errors[s.b->n_errors++];
    weft_fail_errno(&s.failure->error, ETIMEDOUT, WEFT_PHASE_TCP, "no answer");
    weft_fail(&silence->error, WEFT_ERR_TIMEOUT, phases[_i], "nothing came");
    weft_format(silence->peer, sizeof(silence->peer), "titanic");
    diag(&s.input, &findings);
    for (uint32_t i = 0; i < findings.n; i++) {
        is_filtered |= findings.items[i].entry->id == DIAG_CONN_FILTERED;
    }
    ck_assert_int_eq(is_filtered, phases[_i] == WEFT_PHASE_TCP);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* A program that refuses a port without a carrier (errno 100) has sent nothing. */
START_TEST(a_port_that_a_program_finds_down_is_named)
{
    struct diag_findings findings;
    struct scene s;

    scene_set(&s);
    if (_i == 1) {
        scene_down_here(&s);
    }
    weft_fail_errno(&s.failure->error, ENETDOWN, WEFT_PHASE_INIT, "it is down");
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code,
                     _i == 1 ? "link.down" : "undetermined");
    ck_assert_str_eq(findings.items[0].host, "titanic");
    ck_assert_str_eq(findings.items[0].port, _i == 1 ? "p0" : "");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

int main(void)
{
    TCase *cases = tcase_create("place");
    Suite *suite = suite_create("diag/place");

    tcase_add_loop_test(cases, who_drops_is_named, 0, 2);
    tcase_add_test(cases, the_right_ports_are_named_beside_the_wrong_ones);
    tcase_add_test(cases, evidence_denies_no_address_that_a_port_has);
    tcase_add_test(cases, a_filter_is_at_the_host_that_was_called);
    tcase_add_loop_test(cases, a_stream_that_fell_silent_was_not_filtered, 0, 4);
    tcase_add_loop_test(cases, a_misnumbered_cable_is_no_wrong_port, 0, 2);
    tcase_add_loop_test(cases, link_local_gids_are_no_cause_on_one_cable, 0, 2);
    tcase_add_loop_test(cases, a_port_that_a_program_finds_down_is_named, 0, 2);
    suite_add_tcase(suite, cases);
    return suite_run(suite);
}
