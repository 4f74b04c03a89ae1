#include "diag/observations.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "diag/diag_testing.h"

static char *diagnose(const struct diag_input *input)
{
    struct diag_findings findings;
    json_t *array;
    char *text;

    diag(input, &findings);
    array = diag_findings_encode(&findings);
    text = json_dumps(array, JSON_INDENT(1));
    json_decref(array);
    diag_findings_fini(&findings);
    return text;
}

START_TEST(a_written_observation_gives_the_same_findings)
{
    struct scene s;
    struct diag_input read;
    struct weft_error error = {0};
    json_t *document;
    char *before;
    char *after;

    scene_write_case(_i, false, &s);
    s.a->n_described = 1;
    weft_format(s.a->described[0].peer, sizeof(s.a->described[0].peer), "iceberg");
    s.a->described[0].ports = weft_calloc(1, sizeof(struct diag_port));
    s.a->described[0].ports[0] = s.a->ports[0];
    s.a->described[0].n_ports = 1;
    s.b->ports[1].gids_cut = DIAG_YES;
    s.a->subnet_len = s.b->subnet_len = 29;
    scene_wait(s.a, WEFT_WAIT_CONNECTION, "iceberg");
    scene_wait(s.b, WEFT_WAIT_RECEIVE, "titanic");
    document = diag_observations_encode(&s.input);
    ck_assert_int_eq(diag_observations_decode(document, &read, &error), WEFT_OK);
    before = diagnose(&s.input);
    after = diagnose(&read);
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
    json_decref(document);
    diag_input_fini(&read);
    diag_input_fini(&s.input);
}
END_TEST

/* One host with every member of the format, and a different value for each; ' stands for ". */
static const char every_member[] =
    "{'schema_version': 1, 'hosts': [{'name': 'a', 'observed': true, 'vanished': true, "
    "'hung': true, 'state': 'jobs', 'memlock_bytes': 1, 'policy': 'nccl-2.25', "
    "'gid_index': 2, 'subnet_len': 29, 'hca_list': 'mlx5', 'merges_nics': true, "
    "'forwards_ip': false, 'management_down': true, "
    "'ports': [{'name': 'p0', 'state': 'down', 'netdev_mtu': 3, "
    "'active_mtu': 4, 'rate_bps': 5, 'device': 6, 'opened': true, 'software': false, "
    "'rp_filter': 7, 'arp_ignore': 8, 'bonded': true, 'master': 'bond0', 'addresses': 9, "
    "'pcie_lanes': 10, 'pcie_lanes_max': 11, 'pcie_mts': 12, 'pcie_mts_max': 13, "
    "'gids_cut': true, 'gids': [{'gid': '10.0.0.1', 'type': 'RoCE v1', "
    "'prefix_len': 14, 'index': 15, 'vlan_id': 16}], 'counters': {'timeouts': 17}}], "
    "'errors': [{'status': 'timeout', 'phase': 'data', 'object': 'qp', "
    "'message': 'late', 'errno': 18, 'wc_status': 19, 'peer': 'b', 'at_ns': 20, "
    "'hearsay': true, 'values': {'local_port': 'p0', 'qp': 21}}], 'left_out': "
    "[{'status': 'route', 'phase': 'route', 'at_ns': 22, 'hearsay': false, 'values': "
    "{}}], 'waits': [{'for': 'receive', 'peer': 'c', 'waited_ns': 23}], 'events': "
    "[{'type': 'port_error', 'port': 'p0', 'device': 'mlx5_0', 'at_ns': 24}], 'uses': "
    "[{'peer': 'd', 'local_port': 'p1', 'remote_port': 'p2', 'local_gid': '10.0.0.2', "
    "'remote_gid': '10.0.0.3', 'path_mtu': 25, 'vanished_mtu': 26, 'timed_bytes': 27, "
    "'best_bps': 28, 'rtt_ns': 29}], 'told': [{'peer': 'e', 'ports': [{'name': 'p3', "
    "'counters': {}}]}]}], 'cables': [{'from': 'a', 'from_port': 'p0', 'to': 'b', "
    "'to_port': 'p1', 'rate_bps': 30}]}";

static json_t *load_every_member(void)
{
    char text[sizeof(every_member)];
    json_t *document;

    memcpy(text, every_member, sizeof(text));
    for (char *at = text; *at != '\0'; at++) {
        *at = *at == '\'' ? '"' : *at;
    }
    document = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(document);
    return document;
}

static void check_every_port(const struct diag_port *port)
{
    ck_assert_str_eq(port->name, "p0");
    ck_assert_int_eq(port->is_up, DIAG_NO);
    ck_assert_int_eq(port->netdev_mtu, 3);
    ck_assert_int_eq(port->active_mtu, 4);
    ck_assert_int_eq(port->rate_bps, 5);
    ck_assert_int_eq(port->device, 6);
    ck_assert_int_eq(port->is_opened, DIAG_YES);
    ck_assert_int_eq(port->is_software, DIAG_NO);
    ck_assert_int_eq(port->rp_filter, 7);
    ck_assert_int_eq(port->arp_ignore, 8);
    ck_assert_int_eq(port->is_bonded, DIAG_YES);
    ck_assert_str_eq(port->master, "bond0");
    ck_assert_int_eq(port->n_addresses, 9);
    ck_assert_int_eq(port->pcie_lanes, 10);
    ck_assert_int_eq(port->pcie_lanes_max, 11);
    ck_assert_int_eq(port->pcie_mts, 12);
    ck_assert_int_eq(port->pcie_mts_max, 13);
    ck_assert_int_eq(port->gids_cut, DIAG_YES);
    ck_assert(port->has_gids);
    ck_assert_uint_eq(port->n_gids, 1);
    ck_assert(io_ip_is_v4(&port->gids[0].ip));
    ck_assert_int_eq(port->gids[0].type, 1);
    ck_assert_int_eq(port->gids[0].prefix_len, 14);
    ck_assert_int_eq(port->gids[0].index, 15);
    ck_assert_int_eq(port->gids[0].vlan_id, 16);
    ck_assert_int_eq(port->counters[DIAG_TIMEOUTS], 17);
    ck_assert_int_eq(port->counters[DIAG_RETRANSMITS], IO_UNKNOWN);
}

static void check_every_list(const struct diag_host *host)
{
    const struct diag_error *error = &host->errors[0];
    const struct diag_use *use = &host->uses[0];

    ck_assert_int_eq(error->error.status, WEFT_ERR_TIMEOUT);
    ck_assert_int_eq(error->error.phase, WEFT_PHASE_DATA);
    ck_assert_str_eq(error->error.object, "qp");
    ck_assert_str_eq(error->error.message, "late");
    ck_assert_int_eq(error->error.sys_errno, 18);
    ck_assert_int_eq(error->error.wc_status, 19);
    ck_assert_str_eq(error->peer, "b");
    ck_assert_int_eq(error->at_ns, 20);
    ck_assert_int_eq(error->source, DIAG_HEARSAY);
    ck_assert_int_eq(host->left_out[0].at_ns, 22);
    ck_assert_int_eq(host->left_out[0].source, DIAG_OWN);
    ck_assert_int_eq(host->waits[0].what, WEFT_WAIT_RECEIVE);
    ck_assert_str_eq(host->waits[0].peer, "c");
    ck_assert_int_eq(host->waits[0].waited_ns, 23);
    ck_assert_str_eq(host->events[0].type, "port_error");
    ck_assert_str_eq(host->events[0].port, "p0");
    ck_assert_str_eq(host->events[0].device, "mlx5_0");
    ck_assert_int_eq(host->events[0].at_ns, 24);
    ck_assert_str_eq(use->peer, "d");
    ck_assert_str_eq(use->local_port, "p1");
    ck_assert_str_eq(use->remote_port, "p2");
    ck_assert_str_eq(use->local_gid, "10.0.0.2");
    ck_assert_str_eq(use->remote_gid, "10.0.0.3");
    ck_assert_int_eq(use->path_mtu, 25);
    ck_assert_int_eq(use->vanished_mtu, 26);
    ck_assert_int_eq(use->timed_bytes, 27);
    ck_assert_int_eq(use->best_bps, 28);
    ck_assert_int_eq(use->rtt_ns, 29);
    ck_assert_str_eq(host->described[0].peer, "e");
    ck_assert_str_eq(host->described[0].ports[0].name, "p3");
    ck_assert_int_eq(host->described[0].ports[0].netdev_mtu, IO_UNKNOWN);
    ck_assert_int_eq(host->described[0].ports[0].is_up, DIAG_UNKNOWN);
}

/* A table serves both directions, so that only names show that it is right. */
START_TEST(each_member_has_its_name)
{
    json_t *document = load_every_member();
    struct diag_input input;
    struct weft_error error = {0};
    const struct diag_host *host;
    json_t *again;

    ck_assert_int_eq(diag_observations_decode(document, &input, &error), WEFT_OK);
    host = &input.hosts[0];
    ck_assert_str_eq(host->name, "a");
    ck_assert(host->was_observed && host->has_vanished && host->has_hung);
    ck_assert_str_eq(host->state, "jobs");
    ck_assert_int_eq(host->memlock_bytes, 1);
    ck_assert_str_eq(host->policy, "nccl-2.25");
    ck_assert_int_eq(host->gid_index, 2);
    ck_assert_int_eq(host->subnet_len, 29);
    ck_assert_str_eq(host->hca_list, "mlx5");
    ck_assert_int_eq(host->merges_nics, DIAG_YES);
    ck_assert_int_eq(host->forwards_ip, DIAG_NO);
    ck_assert_int_eq(host->management_down, DIAG_YES);
    check_every_port(&host->ports[0]);
    check_every_list(host);
    ck_assert_str_eq(input.cables[0].to, "b");
    ck_assert_str_eq(input.cables[0].to_port, "p1");
    ck_assert_int_eq(input.cables[0].rate_bps, 30);
    again = diag_observations_encode(&input);
    ck_assert(json_equal(document, again));
    json_decref(again);
    json_decref(document);
    diag_input_fini(&input);
}
END_TEST

static void check_questions(const struct diag_findings *findings)
{
    json_t *array = diag_findings_encode(findings);
    json_t *evidence = json_object_get(json_array_get(array, 0), "evidence");
    uint32_t n = findings->items[0].n_candidates;

    ck_assert_str_eq(findings->items[0].entry->code, "undetermined");
    for (uint32_t i = 1; i <= (n > 0 ? n : 1); i++) {
        char key[24];

        weft_format(key, sizeof(key), "question_%u", i);
        ck_assert_ptr_nonnull(json_string_value(json_object_get(evidence, key)));
        weft_format(key, sizeof(key), "to_decide_%u", i);
        ck_assert_ptr_nonnull(json_string_value(json_object_get(evidence, key)));
    }
    json_decref(array);
}

/* An undetermined finding states the question that decides each candidate, or one question if it
 * has no candidates. */
START_TEST(what_is_undetermined_says_which_question_decides)
{
    struct diag_findings findings;
    struct scene s;

    for (int i = 0; i < n_scene_cases; i++) {
        if (strcmp(scene_cases[i].code, "undetermined") == 0) {
            scene_write_case(i, false, &s);
            diag(&s.input, &findings);
            ck_assert_uint_gt(findings.items[0].n_candidates, 0);
            check_questions(&findings);
            diag_findings_fini(&findings);
            diag_input_fini(&s.input);
        }
    }
    scene_set(&s);
    weft_fail(&s.failure->error, WEFT_ERR_SYSTEM, WEFT_PHASE_UNKNOWN, "it failed");
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.items[0].n_candidates, 0);
    check_questions(&findings);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

START_TEST(cables_are_read_as_they_were_written)
{
    const struct diag_cable cable = {"titanic", "p1", "iceberg", "p0", 100000000000};
    struct scene s;
    struct diag_input read;
    struct weft_error error = {0};
    json_t *document;

    scene_set(&s);
    s.input.cables = weft_calloc(1, sizeof(cable));
    s.input.cables[0] = cable;
    s.input.n_cables = 1;
    document = diag_observations_encode(&s.input);
    ck_assert_int_eq(diag_observations_decode(document, &read, &error), WEFT_OK);
    ck_assert_uint_eq(read.n_cables, 1);
    ck_assert_mem_eq(&read.cables[0], &cable, sizeof(cable));
    diag_input_fini(&read);
    json_object_set_new(document, "cables", json_string("p1"));
    ck_assert_int_ne(diag_observations_decode(document, &read, &error), WEFT_OK);
    json_decref(document);
    diag_input_fini(&read);
    diag_input_fini(&s.input);
}
END_TEST

START_TEST(what_a_rail_moved_is_read_as_it_was_written)
{
    static const int64_t bytes[] = {0, 33554432, IO_UNKNOWN};

    for (size_t i = 0; i < WEFT_LENGTH(bytes); i++) {
        struct scene s;
        struct diag_input read;
        struct weft_error error = {0};
        json_t *document;

        scene_set(&s);
        s.a->has_uses = true;
        s.a->uses[s.a->n_uses++] = (struct diag_use){
            .timed_bytes = bytes[i], .best_bps = 13000000000, .rtt_ns = 10000};
        document = diag_observations_encode(&s.input);
        ck_assert_int_eq(diag_observations_decode(document, &read, &error), WEFT_OK);
        ck_assert_int_eq(read.hosts[0].uses[0].timed_bytes, bytes[i]);
        ck_assert_int_eq(read.hosts[0].uses[0].best_bps, 13000000000);
        ck_assert_int_eq(read.hosts[0].uses[0].rtt_ns, 10000);
        json_decref(document);
        diag_input_fini(&read);
        diag_input_fini(&s.input);
    }
}
END_TEST

/* Each source of a failure is preserved, including DIAG_MAYBE_OWN (unknown). */
START_TEST(whether_a_failure_is_hearsay_has_three_values)
{
    static const enum diag_source sources[] = {DIAG_OWN, DIAG_MAYBE_OWN, DIAG_HEARSAY};

    for (size_t i = 0; i < WEFT_LENGTH(sources); i++) {
        struct scene s;
        struct diag_input read;
        struct weft_error error = {0};
        json_t *document;

        scene_set(&s);
        scene_forbidden(&s);
        s.failure->source = sources[i];
        document = diag_observations_encode(&s.input);
        ck_assert_int_eq(diag_observations_decode(document, &read, &error), WEFT_OK);
        ck_assert_uint_eq(read.hosts[0].n_errors, 1);
        ck_assert_int_eq(read.hosts[0].errors[0].source, sources[i]);
        json_decref(document);
        diag_input_fini(&read);
        diag_input_fini(&s.input);
    }
}
END_TEST

/* A better rank order is reported only if both numbers are known. The order itself can be
 * unknown. */
START_TEST(half_a_rank_order_says_nothing)
{
    static const struct {
        const char *lost;
        bool is_better;
    } cases[] = {{"better_order", true},
                 {"missing", false},
                 {"better_missing", false},
                 {"", true}};

    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        struct diag_input read;
        struct diag_findings findings;
        struct weft_error error = {0};
        json_t *document = json_pack("{s:i, s:[], s:{s:i, s:i, s:s}}", "schema_version",
                                     1, "hosts", "rank_order", "missing", 2,
                                     "better_missing", 1, "better_order", "0 2 1 3");

        json_object_del(json_object_get(document, "rank_order"), cases[i].lost);
        ck_assert_int_eq(diag_observations_decode(document, &read, &error), WEFT_OK);
        diag(&read, &findings);
        ck_assert_uint_eq(findings.n, cases[i].is_better ? 1 : 0);
        ck_assert(findings.n == 0 ||
                  strcmp(findings.items[0].entry->code, "mesh.rank_order") == 0);
        diag_findings_fini(&findings);
        diag_input_fini(&read);
        json_decref(document);
    }
}
END_TEST

static const struct {
    const char *text, *message;
} malformed[] = {
    {"[]", "schema_version: must be 1"},
    {"{}", "schema_version: must be 1"},
    {"{\"schema_version\":2,\"hosts\":[]}", "schema_version: must be 1"},
    {"{\"schema_version\":1}", "hosts: must be a list"},
    {"{\"schema_version\":1,\"hosts\":[7]}", "hosts[0].: must be an object"},
    {"{\"schema_version\":1,\"hosts\":[{\"name\":7}]}",
     "hosts[0].name: must be a text that is not too long"},
    {"{\"schema_version\":1,\"hosts\":[{\"observed\":1}]}",
     "hosts[0].observed: must be true or false"},
    {"{\"schema_version\":1,\"hosts\":[{\"ports\":[{\"netdev_mtu\":\"9000\"}]}]}",
     "hosts[0].ports[0].netdev_mtu: must be an integer"},
    {"{\"schema_version\":1,\"hosts\":[{\"ports\":[{\"gids\":[{\"gid\":\"x\"}]}]}]}",
     "hosts[0].ports[0].gids[0].gid: must be an IP address"},
    {"{\"schema_version\":1,\"hosts\":[{\"ports\":[{\"gids\":[{\"gid\":\"10.0.0.1\","
     "\"prefix_len\":33}]}]}]}",
     "hosts[0].ports[0].gids[0].prefix_len: is out of range"},
    /* A number is compared before it is stored in fewer bits: 2^32 + 24, 2^32 + 3. */
    {"{\"schema_version\":1,\"hosts\":[{\"ports\":[{\"gids\":[{\"gid\":\"10.0.0.1\","
     "\"prefix_len\":4294967320}]}]}]}",
     "hosts[0].ports[0].gids[0].prefix_len: is out of range"},
    {"{\"schema_version\":1,\"hosts\":[{\"ports\":[{\"gids\":[{\"gid\":\"10.0.0.1\","
     "\"index\":4294967299}]}]}]}",
     "hosts[0].ports[0].gids[0].index: is out of range"},
    {"{\"schema_version\":1,\"hosts\":[{\"ports\":[{\"gids\":[{\"gid\":\"10.0.0.1\","
     "\"vlan_id\":4096}]}]}]}",
     "hosts[0].ports[0].gids[0].vlan_id: is out of range"},
    {"{\"schema_version\":1,\"hosts\":[{\"errors\":[{\"errno\":4294967406}]}]}",
     "hosts[0].errors[0].errno: is out of range"},
    {"{\"schema_version\":1,\"hosts\":[{\"errors\":[{\"wc_status\":4294967308}]}]}",
     "hosts[0].errors[0].wc_status: is out of range"},
    {"{\"schema_version\":1,\"hosts\":[{\"errors\":[{\"values\":{\"a\":[]}}]}]}",
     "hosts[0].errors[0].values: must be integers and texts"},
    {"{\"schema_version\":1,\"hosts\":[{\"told\":7}]}",
     "hosts[0].told: must be a list that is not too long"},
};

START_TEST(a_malformed_observation_says_where)
{
    struct diag_input input;
    struct weft_error error = {0};
    json_t *document = json_loads(malformed[_i].text, 0, NULL);

    ck_assert_ptr_nonnull(document);
    ck_assert_int_eq(diag_observations_decode(document, &input, &error), WEFT_ERR_INPUT);
    ck_assert_str_eq(error.message, malformed[_i].message);
    diag_input_fini(&input);
    json_decref(document);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("observations");
    TCase *tests = tcase_create("observations");

    tcase_add_loop_test(tests, a_written_observation_gives_the_same_findings, 0,
                        n_scene_cases);
    tcase_add_test(tests, each_member_has_its_name);
    tcase_add_test(tests, whether_a_failure_is_hearsay_has_three_values);
    tcase_add_test(tests, what_is_undetermined_says_which_question_decides);
    tcase_add_test(tests, cables_are_read_as_they_were_written);
    tcase_add_test(tests, what_a_rail_moved_is_read_as_it_was_written);
    tcase_add_test(tests, half_a_rank_order_says_nothing);
    tcase_add_loop_test(tests, a_malformed_observation_says_where, 0,
                        (int)(sizeof(malformed) / sizeof(malformed[0])));
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
