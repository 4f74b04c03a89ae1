#include "base/check.h"
#include "diag/diag.h"

#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/suite_testing.h"
#include "base/text.h"
#include "diag/diag_testing.h"

/* ---- every case, in both orders of hosts ---- */

/* Adds a second process of the machine of `host`, which describes the same ports. */
static void add_twin(struct scene *s, const struct diag_host *host)
{
    struct diag_host *twin = &s->input.hosts[s->input.n_hosts++];

    twin->memlock_bytes = host->memlock_bytes;
    twin->gid_index = host->gid_index;
    twin->forwards_ip = host->forwards_ip;
    weft_format(twin->name, sizeof(twin->name), "%s/1", host->name);
    weft_format(twin->policy, sizeof(twin->policy), "%s", host->policy);
    twin->n_ports = host->n_ports;
    twin->ports = weft_calloc(host->n_ports + 1, sizeof(*twin->ports));
    memcpy(twin->ports, host->ports, host->n_ports * sizeof(*twin->ports));
}

static void check_case(int i, bool is_mirrored, bool has_twins)
{
    struct scene s;
    struct diag_findings findings;
    char where[256];

    scene_write_case(i, is_mirrored, &s);
    if (has_twins) {
        add_twin(&s, s.a);
        add_twin(&s, s.b);
    }
    diag(&s.input, &findings);
    ck_assert_msg(findings.n == 1, "case %d: %u findings, the first %s", i, findings.n,
                  findings.n > 0 ? findings.items[0].entry->code : "none");
    ck_assert_str_eq(findings.items[0].entry->code, scene_cases[i].code);
    diag_where(&findings.items[0], where, sizeof(where));
    ck_assert_str_eq(where, scene_cases[i].where);
    ck_assert_int_eq(findings.items[0].severity, findings.items[0].entry->severity);
    ck_assert_uint_gt(findings.items[0].n_evidence, 0);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}

START_TEST(each_case_has_its_code)
{
    check_case(_i, false, false);
    check_case(_i, true, false);
}
END_TEST

START_TEST(each_case_has_its_code_where_machines_have_two_processes)
{
    check_case(_i, false, true);
    check_case(_i, true, true);
}
END_TEST

/* ---- taking evidence away ---- */

/* Makes piece `*k` of a port's evidence unknown and returns true. If the port has fewer pieces,
 * subtracts their number from `*k` and returns false. */
static bool forget_of_port(struct diag_port *port, unsigned *k)
{
    if ((*k)-- == 0) {
        port->is_up = DIAG_UNKNOWN;
        return true;
    }
    if ((*k)-- == 0) {
        port->netdev_mtu = IO_UNKNOWN;
        return true;
    }
    if ((*k)-- == 0) {
        port->has_gids = false;
        port->n_gids = 0;
        return true;
    }
    for (int i = 0; i < DIAG_N_COUNTERS; i++) {
        if ((*k)-- == 0) {
            port->counters[i] = IO_UNKNOWN;
            return true;
        }
    }
    int64_t *const numbers[] = {&port->device, &port->rp_filter, &port->arp_ignore,
                                &port->n_addresses};
    for (size_t i = 0; i < WEFT_LENGTH(numbers); i++) {
        if ((*k)-- == 0) {
            *numbers[i] = IO_UNKNOWN;
            return true;
        }
    }
    if ((*k)-- == 0) {
        port->is_software = DIAG_UNKNOWN;
        return true;
    }
    if ((*k)-- == 0) {
        port->is_bonded = DIAG_UNKNOWN;
        return true;
    }
    if ((*k)-- == 0) {
        port->master[0] = '\0';
        return true;
    }
    for (uint32_t i = 0; i < port->n_gids; i++) {
        if ((*k)-- == 0) {
            port->gids[i].index = IO_UNKNOWN;
            return true;
        }
        if ((*k)-- == 0) {
            port->gids[i].vlan_id = IO_UNKNOWN;
            return true;
        }
        if ((*k)-- == 0) {
            port->gids[i].prefix_len = IO_UNKNOWN;
            return true;
        }
        if ((*k)-- == 0) {
            port->gids[i].type = 0;
            return true;
        }
    }
    return false;
}

static bool forget_of_error(struct diag_error *error, unsigned *k)
{
    struct weft_error *e = &error->error;

    for (unsigned i = 0; i < e->n_values; i++) {
        if ((*k)-- == 0) {
            e->values[i] = e->values[--e->n_values];
            return true;
        }
    }
    if ((*k)-- == 0) {
        e->sys_errno = 0;
        return true;
    }
    if ((*k)-- == 0) {
        e->wc_status = 0;
        return true;
    }
    if ((*k)-- == 0) {
        error->peer[0] = '\0';
        return true;
    }
    if ((*k)-- == 0) {
        error->source = DIAG_MAYBE_OWN;
        return true;
    }
    return false;
}

static bool forget(struct diag_input *input, unsigned k)
{
    for (uint32_t h = 0; h < input->n_hosts; h++) {
        struct diag_host *host = &input->hosts[h];

        if (k-- == 0) {
            host->memlock_bytes = IO_UNKNOWN;
            return true;
        }
        if (k-- == 0) {
            host->policy[0] = '\0';
            return true;
        }
        if (k-- == 0) {
            host->gid_index = IO_UNKNOWN;
            return true;
        }
        if (k-- == 0) {
            host->merges_nics = DIAG_UNKNOWN;
            return true;
        }
        if (k-- == 0) {
            host->forwards_ip = DIAG_UNKNOWN;
            return true;
        }
        if (k-- == 0) {
            host->has_uses = false;
            host->n_uses = 0;
            return true;
        }
        if (k-- == 0) {
            host->has_events = false;
            host->n_events = 0;
            return true;
        }
        if (k-- == 0) {
            host->was_observed = false;
            host->n_ports = 0;
            host->n_errors = 0;
            host->has_events = false;
            host->n_events = 0;
            return true;
        }
        if (k-- == 0) {
            host->was_observed = false;
            return true;
        }
        if (k-- == 0) {
            host->management_down = DIAG_UNKNOWN;
            return true;
        }
        if (k-- == 0) {
            host->n_ports = 0;
            return true;
        }
        for (uint32_t i = 0; i < host->n_ports; i++) {
            if (forget_of_port(&host->ports[i], &k)) {
                return true;
            }
        }
        for (uint32_t i = 0; i < host->n_errors; i++) {
            if (forget_of_error(&host->errors[i], &k)) {
                return true;
            }
        }
    }
    return false;
}

/* Makes piece `first` of the evidence unknown, and then piece `second` unless it is UINT32_MAX.
 * Checks that no error with another cause is found. Returns false if a piece does not exist. */
static bool check_forgetting(int i, unsigned first, unsigned second)
{
    struct scene s;
    struct diag_findings findings;
    bool did_forget;

    scene_write_case(i, false, &s);
    did_forget = forget(&s.input, first);
    if (second != UINT32_MAX) {
        did_forget = forget(&s.input, second) && did_forget;
    }
    diag(&s.input, &findings);
    for (uint32_t f = 0; f < findings.n; f++) {
        const char *code = findings.items[f].entry->code;

        ck_assert_msg(findings.items[f].severity != DIAG_ERROR ||
                          strcmp(code, scene_cases[i].code) == 0 ||
                          strcmp(code, "undetermined") == 0,
                      "case %d without evidence %u, %u: %s instead of %s", i, first,
                      second, code, scene_cases[i].code);
    }
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
    return did_forget;
}

START_TEST(missing_evidence_never_names_another_cause)
{
    unsigned n = 0;

    while (check_forgetting(_i, n, UINT32_MAX)) {
        n++;
    }
    ck_assert_uint_gt(n, 20);
    for (unsigned a = 0; a < n; a++) {
        /* Tests each pair in one order only, and only every eighth pair, to save time. */
        for (unsigned b = a + a % 8; b < n; b += 8) {
            check_forgetting(_i, a, b);
        }
    }
}
END_TEST

START_TEST(undetermined_names_what_is_possible)
{
    struct scene s;
    struct diag_findings findings;

    scene_set(&s);
    scene_loses_packets(&s);
    scene_aim(&s, "p0", "192.168.101.1", "192.168.101.2");
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "undetermined");
    /* All counters are unknown, so each cause that they could show is possible. */
    ck_assert_uint_eq(findings.items[0].n_candidates, 3);
    ck_assert_str_eq(findings.items[0].candidates[0]->code, "link.pause_storm");
    ck_assert_str_eq(findings.items[0].candidates[1]->code, "link.corrupting");
    ck_assert_str_eq(findings.items[0].candidates[2]->code, "link.one_way");
    diag_findings_fini(&findings);
    s.b->was_observed = false;
    s.b->n_ports = 0;
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.items[0].n_candidates, 3);
    ck_assert_str_eq(findings.items[0].candidates[0]->code, "peer.dead");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Pauses are common. If frames were lost, the loss is the cause, unless pauses are longer than
 * those of flow control. */
START_TEST(a_pause_storm_is_found_only_where_nothing_is_lost)
{
    static const struct {
        const char *paused_end;
        bool loses;
        void (*write)(struct scene *scene);
        const char *code;
    } rows[] = {{"near", true, scene_one_way, "link.one_way"},
                {"far", true, scene_one_way, "link.one_way"},
                {"near", true, scene_lossy, "link.lossy"},
                {"far", true, scene_lossy, "link.lossy"},
                {"near", false, scene_paused, "link.pause_storm"},
                {"far", false, scene_paused, "link.pause_storm"},
                {"long", true, scene_lossy, "link.pause_storm"},
                {"of a probe", true, scene_one_way, "link.pause_storm"},
                {"of a transfer", true, scene_one_way, "link.one_way"}};
    bool is_near = strcmp(rows[_i].paused_end, "near") == 0;
    struct scene s;
    struct diag_findings findings;
    struct diag_port *paused;

    scene_set(&s);
    if (rows[_i].loses) {
        scene_loses_packets(&s);
    }
    rows[_i].write(&s);
    paused = is_near ? &s.a->ports[0] : &s.b->ports[1];
    paused->counters[DIAG_RX_PAUSES] = 1000;
    if (strcmp(rows[_i].paused_end, "long") == 0) {
        paused->counters[DIAG_RX_PAUSES] = 2;
        paused->counters[DIAG_RX_PAUSE_NS] = INT64_C(3000000000);
    } else if (strncmp(rows[_i].paused_end, "of ", 3) == 0) {
        paused->counters[DIAG_RX_PAUSES] = 1;
        paused->counters[DIAG_RX_PAUSE_NS] = INT64_C(300000000);
    }
    if (strcmp(rows[_i].paused_end, "of a probe") == 0) {
        s.failure->error.phase = WEFT_PHASE_PROBE;
        weft_error_int(&s.failure->error, WEFT_VALUE_SMALL_PASSED, 0);
    }
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, rows[_i].code);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* rxe counts no damaged packets. If most of the lost ones did not reach the other netdev, none was
 * damaged. The netdev counts other frames, too: here 10. */
START_TEST(what_never_arrived_was_not_damaged)
{
    static const struct {
        int64_t near,
            far; /* frames of the netdevs: at titanic, and at iceberg, which lost 100 */
        const char *code;
    } rows[] = {{510, 910, "link.one_way"},        {510, 949, "link.one_way"},
                {510, 950, "undetermined"},        {510, 1010, "undetermined"},
                {IO_UNKNOWN, 910, "undetermined"}, {510, IO_UNKNOWN, "undetermined"}};

    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        struct scene s;
        struct diag_findings findings;

        scene_set(&s);
        scene_one_way(&s);
        s.a->ports[0].counters[DIAG_ICRC_ERRORS] = IO_UNKNOWN;
        s.b->ports[1].counters[DIAG_ICRC_ERRORS] = IO_UNKNOWN;
        s.a->ports[0].counters[DIAG_RX_FRAMES] = rows[i].near;
        s.b->ports[1].counters[DIAG_RX_FRAMES] = rows[i].far;
        diag(&s.input, &findings);
        ck_assert_uint_eq(findings.n, 1);
        ck_assert_str_eq(findings.items[0].entry->code, rows[i].code);
        diag_findings_fini(&findings);
        diag_input_fini(&s.input);
    }
}
END_TEST

/* Frames from titanic are lost, and with them its ARP replies. The host of iceberg, a software
 * device, then drops packets that the device has counted as sent. Titanic received requests again,
 * and none after a gap. */
START_TEST(what_a_host_did_not_send_was_not_lost)
{
    static const struct {
        enum diag_known is_software;
        int64_t near_again, near_after_gap, far_again, far_retransmits;
        const char *code;
    } rows[] = {{DIAG_YES, 1, 0, 0, 1, "link.one_way"},
                {DIAG_NO, 1, 0, 0, 1, "link.lossy"},
                {DIAG_UNKNOWN, 1, 0, 0, 1, "link.lossy"},
                {DIAG_YES, 0, 0, 0, 1, "link.lossy"},
                {DIAG_YES, IO_UNKNOWN, 0, 0, 1, "link.lossy"},
                {DIAG_YES, 1, 1, 0, 1, "link.lossy"},
                {DIAG_YES, 1, IO_UNKNOWN, 0, 1, "link.lossy"},
                {DIAG_YES, 1, 0, 1, 1, "link.lossy"},
                {DIAG_YES, 1, 0, IO_UNKNOWN, 1, "link.lossy"},
                {DIAG_YES, 1, 0, 0, 0, "link.lossy"},
                {DIAG_YES, 1, 0, 0, IO_UNKNOWN, "link.lossy"}};

    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        struct scene s;
        struct diag_findings findings;
        int64_t *near, *far;

        scene_set(&s);
        scene_lossy(&s);
        near = s.a->ports[0].counters;
        far = s.b->ports[1].counters;
        s.b->ports[1].is_software = rows[i].is_software;
        near[DIAG_RX_DUPLICATES] = rows[i].near_again;
        near[DIAG_OUT_OF_SEQUENCE] = rows[i].near_after_gap;
        far[DIAG_RX_DUPLICATES] = rows[i].far_again;
        far[DIAG_RETRANSMITS] = rows[i].far_retransmits;
        diag(&s.input, &findings);
        ck_assert_uint_eq(findings.n, 1);
        ck_assert_str_eq(findings.items[0].entry->code, rows[i].code);
        diag_findings_fini(&findings);
        diag_input_fini(&s.input);
    }
}
END_TEST

/* Frames from titanic are lost. Iceberg sends nothing if it hears nothing and has nothing of its
 * own to send, and all that it sent before arrived. The other direction can be dead, too. */
START_TEST(a_direction_that_was_not_used_proves_nothing)
{
    static const struct {
        int64_t retransmits; /* of iceberg */
        uint32_t n_candidates;
        const char *code;
    } rows[] = {
        {0, 2, "undetermined"}, {1, 0, "link.one_way"}, {IO_UNKNOWN, 0, "link.one_way"}};

    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        struct scene s;
        struct diag_findings findings;

        scene_set(&s);
        scene_one_way(&s);
        s.a->ports[0].counters[DIAG_RETRANSMITS] = 7;
        s.b->ports[1].counters[DIAG_RETRANSMITS] = rows[i].retransmits;
        diag(&s.input, &findings);
        ck_assert_uint_eq(findings.n, 1);
        ck_assert_str_eq(findings.items[0].entry->code, rows[i].code);
        ck_assert_uint_eq(findings.items[0].n_candidates, rows[i].n_candidates);
        diag_findings_fini(&findings);
        diag_input_fini(&s.input);
    }
}
END_TEST

/* A host describes at most eight GIDs of its table (DIAG_TOLD_GIDS_MAX). If it omits some, or
 * describes eight and does not say whether it omits some, the selected slot might be among those. A
 * table that was cut can be described by fewer than eight, because GIDs without an address are
 * omitted first. */
START_TEST(a_slot_is_empty_only_if_the_whole_table_is_known)
{
    static const struct {
        uint32_t length;
        enum diag_known is_cut;
        bool is_at_peer;
        const char *code;
    } rows[] = {{1, DIAG_UNKNOWN, false, "gid.fixed_index"},
                {1, DIAG_UNKNOWN, true, "gid.fixed_index"},
                {7, DIAG_UNKNOWN, false, "gid.fixed_index"},
                {7, DIAG_UNKNOWN, true, "gid.fixed_index"},
                {8, DIAG_UNKNOWN, false, "undetermined"},
                {8, DIAG_UNKNOWN, true, "undetermined"},
                {1, DIAG_YES, false, "undetermined"},
                {1, DIAG_YES, true, "undetermined"},
                {7, DIAG_YES, false, "undetermined"},
                {7, DIAG_YES, true, "undetermined"},
                {8, DIAG_YES, false, "undetermined"},
                {8, DIAG_YES, true, "undetermined"},
                {1, DIAG_NO, false, "gid.fixed_index"},
                {1, DIAG_NO, true, "gid.fixed_index"},
                {8, DIAG_NO, false, "gid.fixed_index"},
                {8, DIAG_NO, true, "gid.fixed_index"}};
    struct scene s;
    struct diag_findings findings;
    struct diag_port *port;
    uint32_t length = rows[_i].length;

    scene_set(&s);
    scene_fixed_index(&s);
    port = &s.a->ports[0];
    if (rows[_i].is_at_peer) {
        s.a->gid_index = DIAG_NO_GID_INDEX;
        s.b->gid_index = 3;
        port = &s.b->ports[1];
    }
    for (uint32_t i = port->n_gids; i < length; i++) {
        port->gids[i] = port->gids[0];
        port->gids[i].index = 10 + (int)i;
        port->gids[i].ip.bytes[15] = (uint8_t)(100 + i);
    }
    port->n_gids = length;
    port->gids_cut = rows[_i].is_cut;
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, rows[_i].code);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Fills the tables of all ports up to eight GIDs with addresses that no other port has. */
static void fill_tables(struct diag_input *input, enum diag_known are_cut)
{
    for (uint32_t h = 0; h < input->n_hosts; h++) {
        for (uint32_t p = 0; p < input->hosts[h].n_ports; p++) {
            struct diag_port *port = &input->hosts[h].ports[p];

            port->gids_cut = are_cut;
            for (uint32_t i = port->n_gids; i < DIAG_TOLD_GIDS_MAX; i++) {
                port->gids[i] = port->gids[0];
                port->gids[i].index = 10 + (int)i;
                port->gids[i].ip.bytes[13] = (uint8_t)(h + 1);
                port->gids[i].ip.bytes[14] = (uint8_t)(16 * p + i);
            }
            port->n_gids = DIAG_TOLD_GIDS_MAX;
        }
    }
}

/* What a description of eight GIDs does not contain is absent only if the table has no more. */
START_TEST(what_a_cut_table_lacks_is_not_absent)
{
    static const struct {
        const char *scene; /* the case with this code */
        enum diag_known are_cut;
        const char *code;
    } rows[] = {{"gid.missing", DIAG_NO, "gid.missing"},
                {"gid.missing", DIAG_YES, "undetermined"},
                {"addr.changed", DIAG_NO, "addr.changed"},
                {"addr.changed", DIAG_YES, "undetermined"},
                {"route.no_facing_port", DIAG_NO, "route.no_facing_port"},
                {"route.no_facing_port", DIAG_YES, "undetermined"},
                {"route.wrong_nic", DIAG_NO, "route.wrong_nic"},
                {"route.wrong_nic", DIAG_YES, "undetermined"}};
    struct diag_findings findings;
    struct scene s;
    int i = 0;

    while (strcmp(scene_cases[i].code, rows[_i].scene) != 0) {
        i++;
    }
    scene_write_case(i, false, &s);
    fill_tables(&s.input, rows[_i].are_cut);
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, rows[_i].code);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

static void device_took_its_port_down(struct scene *s)
{
    scene_port_event(s);
    s->a->events[s->a->n_events++] =
        (struct diag_event){.type = "device_fatal", .device = "p0"};
}

/* If later events of a host are missing, earlier ones still show what happened, but nothing shows
 * what did not. */
START_TEST(events_may_be_missing)
{
    static const struct {
        void (*write)(struct scene *s);
        const char *code, *if_missing;
    } rows[] = {{scene_flaps, "link.flapping", "link.flapping"},
                {scene_port_event, "link.down", "undetermined"},
                {device_took_its_port_down, "device.failed", "device.failed"},
                {scene_two_bonds, "neigh.no_answer", "undetermined"}};

    for (int is_missing = 0; is_missing <= 1; is_missing++) {
        struct diag_findings findings;
        struct scene s;

        scene_set(&s);
        rows[_i].write(&s);
        s.a->has_events = s.b->has_events = is_missing == 0;
        diag(&s.input, &findings);
        ck_assert_uint_eq(findings.n, 1);
        ck_assert_str_eq(findings.items[0].entry->code,
                         is_missing ? rows[_i].if_missing : rows[_i].code);
        diag_findings_fini(&findings);
        diag_input_fini(&s.input);
    }
}
END_TEST

/* The evidence `fixed_slot` shows the GID in the slot that the settings select. */
START_TEST(what_is_in_the_fixed_slot_is_shown)
{
    static const struct {
        void (*make)(struct scene *s);
        const char *slot;
    } rows[] = {{scene_fixed_index, "empty"},
                {scene_foreign_slot, "192.168.101.77"},
                {scene_foreign_slot_there, "192.168.101.77"}};
    const struct diag_value *slot = NULL;
    struct diag_findings findings;
    struct scene s;

    scene_set(&s);
    rows[_i].make(&s);
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    for (uint32_t i = 0; i < findings.items[0].n_evidence; i++) {
        const struct diag_value *value = &findings.items[0].evidence[i];

        slot = strcmp(value->name, "fixed_slot") == 0 ? value : slot;
    }
    ck_assert_ptr_nonnull(slot);
    ck_assert_str_eq(slot->text, rows[_i].slot);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* ---- several hosts ---- */

/* Titanic refuses iceberg's connection. The refusal is a consequence if titanic had failed before
 * it. */
START_TEST(who_finds_a_failed_host_gone_met_a_consequence)
{
    for (int is_earlier = 0; is_earlier < 2; is_earlier++) {
        struct scene s;
        struct diag_findings findings;
        struct diag_error *refusal;

        scene_set(&s);
        scene_down_here(&s);
        s.failure->at_ns = 1000;
        refusal = &s.b->errors[s.b->n_errors++];
        *refusal = (struct diag_error){.at_ns = is_earlier ? 999 : 1001};
        weft_format(refusal->peer, sizeof(refusal->peer), "titanic");
        weft_fail_errno(&refusal->error, ECONNREFUSED, WEFT_PHASE_BOOT,
                        "cannot be reached");
        weft_error_text(&refusal->error, WEFT_VALUE_RENDEZVOUS, "10.0.0.1");
        diag(&s.input, &findings);
        ck_assert_uint_eq(findings.n, is_earlier ? 2 : 1);
        ck_assert_str_eq(findings.items[0].entry->code, "link.down");
        if (is_earlier) { /* a failure of its own, because titanic had not failed yet */
            ck_assert_str_eq(findings.items[1].entry->code, "conn.refused");
        }
        diag_findings_fini(&findings);
        diag_input_fini(&s.input);
    }
}
END_TEST

/* Titanic sends data to carpathia over iceberg, which closes the stream. If carpathia failed first,
 * that is a consequence. */
START_TEST(who_hears_from_a_relay_that_the_end_left_met_a_consequence)
{
    static const struct {
        const char *end_failed;
        weft_ns at_ns; /* titanic failed at 1000 */
        uint32_t n_findings;
    } rows[] = {{"first", 999, 1}, {"later", 1001, 2}};
    struct scene s;
    struct diag_findings findings;
    struct diag_host *end;

    scene_set(&s);
    end = &s.input.hosts[s.input.n_hosts++];
    end->was_observed = true;
    end->memlock_bytes = end->gid_index = IO_UNKNOWN;
    weft_format(end->name, sizeof(end->name), "carpathia");
    end->errors = weft_calloc(1, sizeof(*end->errors));
    end->n_errors = 1;
    end->errors[0].at_ns = rows[_i].at_ns;
    weft_fail_errno(&end->errors[0].error, EINVAL, WEFT_PHASE_STREAM, "the stream broke");
    s.failure->at_ns = 1000;
    s.failure->error = (struct weft_error){0};
    weft_fail(&s.failure->error, WEFT_ERR_CLOSED, WEFT_PHASE_STREAM,
              "the peer closed the stream");
    weft_error_text(&s.failure->error, WEFT_VALUE_PEER, "iceberg");
    weft_format(s.failure->peer, sizeof(s.failure->peer), "carpathia");
    diag(&s.input, &findings);
    ck_assert_msg(findings.n == rows[_i].n_findings, "carpathia failed %s: %u findings",
                  rows[_i].end_failed, findings.n);
    ck_assert_str_eq(findings.items[findings.n - 1].host, "carpathia");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Titanic only waited for iceberg, which failed before or after titanic. */
START_TEST(who_only_waited_for_a_failed_host_met_a_consequence)
{
    static const struct {
        weft_ns at_ns; /* titanic failed at 1000 */
        const char *code, *host;
    } rows[] = {{999, "undetermined", "iceberg"}, {1001, "conn.timeout", "titanic"}};
    struct scene s;
    struct diag_findings findings;

    scene_set(&s);
    s.b->errors[s.b->n_errors++] = (struct diag_error){.at_ns = rows[_i].at_ns};
    weft_fail_errno(&s.b->errors[0].error, EINVAL, WEFT_PHASE_STREAM, "the stream broke");
    s.failure->at_ns = 1000;
    s.failure->error = (struct weft_error){0};
    weft_fail(&s.failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_CONNECT, "not done");
    weft_error_text(&s.failure->error, WEFT_VALUE_WAITS_FOR, "1");
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, rows[_i].code);
    ck_assert_str_eq(findings.items[0].host, rows[_i].host);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

START_TEST(both_ends_of_one_cause_are_one_finding)
{
    struct scene s;
    struct diag_findings findings;

    scene_set(&s);
    scene_down_here(&s);
    s.b->errors[s.b->n_errors++] = *s.failure;
    weft_format(s.b->errors[0].peer, sizeof(s.b->errors[0].peer), "titanic");
    weft_format(s.b->errors[0].error.values[0].text, 64, "p1");
    weft_format(s.b->errors[0].error.values[1].text, 64, "192.168.101.2");
    weft_format(s.b->errors[0].error.values[3].text, 64, "192.168.101.1");
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "link.down");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* WR_FLUSH_ERR (5) and LOC_QP_OP_ERR (2) can be caused by the device's own port. LOC_PROT_ERR (4)
 * cannot. */
START_TEST(a_device_that_gives_up_asks_for_its_own_port)
{
    static const struct {
        int wc_status;
        const char *down, *up;
    } cases[] = {{5, "link.down", "undetermined"},
                 {2, "link.down", "undetermined"},
                 {4, "undetermined", "undetermined"}};

    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        for (int is_down = 0; is_down <= 1; is_down++) {
            struct scene s;
            struct diag_findings findings;

            scene_set(&s);
            if (is_down) {
                scene_down_here(&s);
            }
            s.failure->error.wc_status = cases[i].wc_status;
            diag(&s.input, &findings);
            ck_assert_uint_eq(findings.n, 1);
            ck_assert_str_eq(findings.items[0].entry->code,
                             is_down ? cases[i].down : cases[i].up);
            diag_findings_fini(&findings);
            diag_input_fini(&s.input);
        }
    }
}
END_TEST

/* Subnets in one /24 are apart to a program that compares them at their own length. */
START_TEST(a_collision_needs_the_length_that_is_set)
{
    static const struct {
        int subnet_len;
        const char *code;
    } rows[] = {{24, "route.prefix_collision"}, {32, "route.listener_blind"}};
    struct scene s;
    struct diag_findings findings;

    scene_set(&s);
    scene_coarse(&s);
    s.a->subnet_len = rows[_i].subnet_len;
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, rows[_i].code);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Memory cannot be registered. Only a limit that is too low for most jobs is surely the cause. */
START_TEST(a_high_limit_of_locked_memory_is_not_surely_reached)
{
    static const struct {
        int64_t limit;
        const char *code;
    } rows[] = {{65536, "host.memlock"},
                {(INT64_C(1) << 30) - 1, "host.memlock"},
                {INT64_C(1) << 30, "undetermined"},
                {INT64_C(1) << 40, "undetermined"},
                {INT64_MAX, "host.kernel_memory"},
                {IO_UNKNOWN, "undetermined"}};
    struct scene s;
    struct diag_findings findings;

    scene_set(&s);
    scene_kernel_memory(&s);
    s.a->memlock_bytes = rows[_i].limit;
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, rows[_i].code);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* A packet of 4096 bytes has 60 bytes of headers behind IPv4, and 80 behind IPv6. */
START_TEST(headers_count_for_the_mtu)
{
    static const struct {
        const char *address, *other;
        int prefix_len;
        int64_t mtu;
        bool fits;
    } rows[] = {{"192.168.101.1", "192.168.101.2", 24, 4156, true},
                {"192.168.101.1", "192.168.101.2", 24, 4155, false},
                {"fd00::1", "fd00::2", 64, 4176, true},
                {"fd00::1", "fd00::2", 64, 4175, false}};
    struct scene s;
    struct diag_findings findings;
    char text[64];

    scene_set(&s);
    weft_format(text, sizeof(text), "%s/%d", rows[_i].address, rows[_i].prefix_len);
    scene_set_address(&s.a->ports[0], text);
    weft_format(text, sizeof(text), "%s/%d", rows[_i].other, rows[_i].prefix_len);
    scene_set_address(&s.b->ports[1], text);
    s.b->ports[1].netdev_mtu = rows[_i].mtu;
    scene_loses_packets(&s);
    scene_aim(&s, "p0", rows[_i].address, rows[_i].other);
    weft_error_int(&s.failure->error, WEFT_VALUE_PATH_MTU, 4096);
    diag(&s.input, &findings);
    ck_assert_uint_ge(findings.n, 1);
    ck_assert_int_eq(strcmp(findings.items[0].entry->code, "link.mtu_mismatch") == 0,
                     !rows[_i].fits);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Linux ignores requests with arp_ignore 8 only; 4 to 7 and greater values are like 0. */
START_TEST(only_one_value_of_arp_ignore_answers_nothing)
{
    static const struct {
        int64_t arp_ignore;
        bool is_cause;
    } rows[] = {{7, false}, {8, true}, {9, false}};
    struct scene s;
    struct diag_findings findings;

    scene_set(&s);
    scene_arp_ignored(&s);
    s.b->ports[1].arp_ignore = rows[_i].arp_ignore;
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_int_eq(strcmp(findings.items[0].entry->code, "neigh.arp_ignored") == 0,
                     rows[_i].is_cause);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* "No route to host" of a TCP connection is an answer from below: either a firewall's, or that of
 * this host's kernel, whose neighbour did not answer. */
START_TEST(an_unreachable_host_is_not_silence)
{
    struct scene s;
    struct diag_findings findings;
    bool has_refused = false, has_neighbour = false;

    scene_set(&s);
    scene_hears_of_it(&s);
    weft_fail_errno(&s.failure->error, EHOSTUNREACH, WEFT_PHASE_TCP, "connect");
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "undetermined");
    for (uint32_t i = 0; i < findings.items[0].n_candidates; i++) {
        const char *code = findings.items[0].candidates[i]->code;

        ck_assert_str_ne(code, "conn.timeout");
        has_refused = has_refused || strcmp(code, "conn.refused") == 0;
        has_neighbour = has_neighbour || strcmp(code, "neigh.no_answer") == 0;
    }
    ck_assert(has_refused && has_neighbour);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

static void check_operation(enum weft_phase phase, int sys_errno, const char *code)
{
    struct scene s;
    struct diag_findings findings;

    scene_set(&s);
    s.a->memlock_bytes = 65536;
    weft_fail_errno(&s.failure->error, sys_errno, phase, "it failed");
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, code);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}

/* An operation of a device failed with errno EIO, whatever it was for. ENOMEM of one that posts or
 * polls work requests is no limit of pinned memory. */
START_TEST(every_operation_of_a_device_can_find_it_failed)
{
    static const struct {
        enum weft_phase phase;
        const char *if_no_memory;
    } rows[] = {
        {WEFT_PHASE_CREATE, "host.memlock"},    {WEFT_PHASE_REGISTER, "host.memlock"},
        {WEFT_PHASE_CREATE_CQ, "host.memlock"}, {WEFT_PHASE_QP, "host.memlock"},
        {WEFT_PHASE_MEMORY, "undetermined"},    {WEFT_PHASE_DATA, "undetermined"},
        {WEFT_PHASE_PROBE, "undetermined"},     {WEFT_PHASE_FLUSH, "undetermined"},
        {WEFT_PHASE_POLL_CQ, "undetermined"}};

    check_operation(rows[_i].phase, EIO, "device.failed");
    check_operation(rows[_i].phase, ENOMEM, rows[_i].if_no_memory);
}
END_TEST

/* A closed stream is the end of the peer's process only if nothing else closed it. */
START_TEST(what_is_closed_is_not_always_a_stream)
{
    static const struct {
        enum weft_phase phase;
        bool has_ended, is_dead;
    } rows[] = {{WEFT_PHASE_STREAM, false, true},
                {WEFT_PHASE_BOOT, true, true},
                {WEFT_PHASE_BOOT, false, false}, /* the member left */
                {WEFT_PHASE_PORT, false, false}};
    struct scene s;
    struct diag_findings findings;
    struct diag_error *closed;

    scene_set(&s);
    s.b->was_observed = false;
    s.b->n_ports = 0;
    scene_loses_packets(&s);
    scene_aim(&s, "p0", "192.168.101.1", "192.168.101.2");
    closed = &s.a->errors[s.a->n_errors++];
    *closed = (struct diag_error){.peer = "iceberg", .source = DIAG_OWN};
    weft_fail(&closed->error, WEFT_ERR_CLOSED, rows[_i].phase, "it is closed");
    if (rows[_i].has_ended) {
        weft_error_int(&closed->error, WEFT_VALUE_STREAM_ENDED, 1);
    }
    diag(&s.input, &findings);
    ck_assert_int_eq(strcmp(findings.items[0].entry->code, "peer.dead") == 0,
                     rows[_i].is_dead);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* RTR fails with an unknown errno. If the program has read its GID (`gid_was_read`), the two GIDs
 * can show the cause. */
START_TEST(an_rtr_without_an_errno_is_judged_by_both_gids)
{
    static const struct {
        bool was_read;
        const char *local, *remote; /* NULL if unknown */
        const char *found;
    } cases[] = {
        {true, "192.168.101.1", "192.168.100.1", "route.wrong_nic"},
        {true, "192.168.101.1", "fe80::1", "gid.link_local"},
        {true, "fe80::1", "192.168.101.2", "gid.link_local"},
        {true, "192.168.101.1", NULL, "undetermined"},
        {true, NULL, "192.168.101.2", "undetermined"},
        {false, "192.168.101.1", "192.168.100.1", "undetermined"},
        {false, "192.168.101.1", "fe80::1", "undetermined"},
    };

    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        struct scene s;
        struct diag_findings findings;
        struct weft_error *error;

        scene_set(&s);
        error = &s.failure->error;
        weft_fail(error, WEFT_ERR_SYSTEM, WEFT_PHASE_RTR, "the program says so");
        weft_error_text(error, WEFT_VALUE_LOCAL_PORT, "p0");
        weft_error_text(error, WEFT_VALUE_REMOTE_PORT,
                        cases[i].remote == NULL ? "p1" : "p0");
        if (cases[i].was_read) {
            weft_error_int(error, WEFT_VALUE_GID_WAS_READ, 1);
        }
        if (cases[i].local != NULL) {
            weft_error_text(error, WEFT_VALUE_LOCAL_GID, cases[i].local);
        }
        if (cases[i].remote != NULL) {
            weft_error_text(error, WEFT_VALUE_REMOTE_GID, cases[i].remote);
        }
        diag(&s.input, &findings);
        ck_assert_uint_eq(findings.n, 1);
        ck_assert_msg(strcmp(findings.items[0].entry->code, cases[i].found) == 0,
                      "%zu: %s", i, findings.items[0].entry->code);
        for (uint32_t k = 0; k < findings.items[0].n_evidence; k++) {
            ck_assert_str_ne(findings.items[0].evidence[k].name, "gid_was_read");
        }
        diag_findings_fini(&findings);
        diag_input_fini(&s.input);
    }
}
END_TEST

/* A device flushes its work requests. Only a software device does that because a full-size packet
 * exceeds the MTU of its own netdev. No device does it because of the peer's netdev. */
START_TEST(a_device_gives_up_what_its_own_netdev_does_not_take)
{
    static const struct {
        enum diag_known is_software;
        int64_t near, far, path_mtu;
        const char *found;
    } cases[] = {
        {DIAG_YES, 1500, 9000, 4096, "link.mtu_mismatch"},
        {DIAG_YES, 1500, 9000, 1024, "undetermined"},
        {DIAG_YES, 9000, 1500, 4096, "undetermined"},
        {DIAG_YES, 1500, 1500, 4096, "undetermined"},
        {DIAG_YES, 1500, IO_UNKNOWN, 4096, "undetermined"},
        {DIAG_NO, 1500, 9000, 4096, "undetermined"},
        {DIAG_UNKNOWN, 1500, 9000, 4096, "undetermined"},
    };

    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        for (int is_port = 0; is_port <= 1; is_port++) {
            struct scene s;
            struct diag_findings findings;

            scene_set(&s);
            scene_down_here(&s);
            s.a->ports[0].is_up = DIAG_YES;
            s.a->ports[0].is_software = cases[i].is_software;
            s.a->ports[0].netdev_mtu = cases[i].near;
            s.b->ports[1].netdev_mtu = cases[i].far;
            s.failure->error.wc_status = is_port ? 0 : 5;
            if (is_port) { /* the device reported that its port went down */
                s.failure->error.status = WEFT_ERR_CLOSED;
                s.failure->error.phase = WEFT_PHASE_PORT;
            }
            for (uint32_t k = 0; k < s.failure->error.n_values; k++) {
                struct weft_value *value = &s.failure->error.values[k];

                if (value->name == WEFT_VALUE_PATH_MTU) {
                    value->number = cases[i].path_mtu;
                }
            }
            diag(&s.input, &findings);
            ck_assert_uint_ge(findings.n, 1);
            ck_assert_msg(strcmp(findings.items[0].entry->code,
                                 is_port ? "undetermined" : cases[i].found) == 0,
                          "%zu %d: %s", i, is_port, findings.items[0].entry->code);
            diag_findings_fini(&findings);
            diag_input_fini(&s.input);
        }
    }
}
END_TEST

START_TEST(hearsay_counts_only_when_nobody_knows_better)
{
    struct scene s;
    struct diag_findings findings;
    struct diag_error *heard;

    scene_set(&s);
    scene_down_here(&s);
    heard = &s.b->errors[s.b->n_errors++];
    weft_fail(&heard->error, WEFT_ERR_CLOSED, WEFT_PHASE_PEER, "peer failed in data");
    weft_format(heard->peer, sizeof(heard->peer), "titanic");
    heard->source = DIAG_HEARSAY;
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "link.down");
    diag_findings_fini(&findings);
    s.a->n_errors = 0;
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "undetermined");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Titanic and iceberg waited for each other's process. If a third host reported nothing, the
 * findings name that host as the peer. */
START_TEST(two_that_waited_were_kept_apart_by_a_third)
{
    static const struct {
        bool third_reported;
        uint32_t n_findings;
        const char *peer;
    } rows[] = {{true, 1, "iceberg"}, {false, 2, "carpathia"}};
    struct scene s;
    struct diag_findings findings;
    struct diag_error *waited;
    struct diag_host *third;

    scene_set(&s);
    third = &s.input.hosts[s.input.n_hosts++];
    third->was_observed = rows[_i].third_reported;
    third->memlock_bytes = third->gid_index = IO_UNKNOWN;
    weft_format(third->name, sizeof(third->name), "carpathia");
    weft_fail(&s.failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT,
              "rank 1 was never heard of");
    waited = &s.b->errors[s.b->n_errors++];
    weft_fail(&waited->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT,
              "rank 0 was never heard of");
    weft_format(waited->peer, sizeof(waited->peer), "titanic");
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, rows[_i].n_findings);
    ck_assert_str_eq(findings.items[0].host, "titanic");
    ck_assert_str_eq(findings.items[0].peer, rows[_i].peer);
    ck_assert_str_eq(findings.items[0].entry->code, "undetermined");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Iceberg timed out waiting for titanic, which is not permitted to use its device. Titanic's
 * failure (DIAG_MAYBE_OWN) takes precedence over iceberg's (DIAG_HEARSAY). */
START_TEST(who_may_have_met_it_is_asked_before_who_heard_of_it)
{
    struct scene s;
    struct diag_findings findings;
    struct diag_error *waited;

    scene_set(&s);
    scene_forbidden(&s);
    s.failure->source = DIAG_MAYBE_OWN;
    s.failure->at_ns = 5000;
    waited = &s.b->errors[s.b->n_errors++];
    weft_fail(&waited->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT, "rank 0 did not come");
    weft_error_text(&waited->error, WEFT_VALUE_RENDEZVOUS, "10.0.0.1");
    weft_format(waited->peer, sizeof(waited->peer), "titanic");
    waited->at_ns = 900000005000;
    waited->source = DIAG_HEARSAY;
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "host.permission");
    ck_assert_str_eq(findings.items[0].host, "titanic");
    diag_findings_fini(&findings);
    waited->source = DIAG_OWN; /* takes precedence over DIAG_MAYBE_OWN */
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "conn.timeout");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* The relay iceberg gave up because its peer titanic reported a failed verb. That report decides,
 * not the failure that the relay caused. */
START_TEST(what_a_relay_gave_up_for_decides)
{
    struct scene s;
    struct diag_findings findings;
    struct diag_error *heard;

    scene_set(&s);
    weft_fail(&s.failure->error, WEFT_ERR_ROUTE, WEFT_PHASE_RELAY,
              "a relay gives up: lost");
    weft_format(s.failure->peer, sizeof(s.failure->peer), "carpathia");
    heard = &s.b->errors[s.b->n_errors++];
    weft_fail(&heard->error, WEFT_ERR_CLOSED, WEFT_PHASE_PEER,
              "peer failed in create: errno 5");
    weft_error_text(&heard->error, WEFT_VALUE_PEER_PHASE, "create");
    weft_error_text(&heard->error, WEFT_VALUE_PEER_STATUS, "system");
    weft_error_int(&heard->error, WEFT_VALUE_PEER_ERRNO, EIO);
    weft_format(heard->peer, sizeof(heard->peer), "titanic");
    heard->source = DIAG_HEARSAY;
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "device.failed");
    ck_assert_str_eq(findings.items[0].host, "titanic");
    diag_findings_fini(&findings);
    s.b->n_errors = 0; /* without the report, the cause is unknown */
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "undetermined");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Titanic gave up an attempt after the relay iceberg had reported that its own failed. */
START_TEST(who_waited_after_a_relay_gave_up_met_a_consequence)
{
    struct scene s;
    struct diag_findings findings;
    struct diag_error *own;

    scene_set(&s);
    scene_down_here(&s);
    s.failure->error.status = WEFT_ERR_TIMEOUT;
    s.failure->error.phase = WEFT_PHASE_PROBE;
    s.failure->error.wc_status = 0;
    weft_error_text(&s.failure->error, WEFT_VALUE_LAST_PHASE, _i == 0 ? "relay" : "tcp");
    own = &s.b->errors[s.b->n_errors++];
    weft_fail_errno(&own->error, EPERM, WEFT_PHASE_CREATE, "cannot create a queue pair");
    weft_format(own->peer, sizeof(own->peer), "carpathia");
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, _i == 0 ? 1 : 2);
    ck_assert_str_eq(findings.items[_i].entry->code, "host.permission");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Titanic's attempt to set up a connection was not answered, by iceberg, which may create no queue
 * pair for another host. */
START_TEST(who_waited_for_a_host_with_trouble_met_a_consequence)
{
    struct scene s;
    struct diag_findings findings;
    struct diag_error *own;

    scene_set(&s);
    scene_hears_nothing(&s);
    own = &s.b->errors[s.b->n_errors++];
    weft_fail_errno(&own->error, EPERM, WEFT_PHASE_CREATE, "cannot create a queue pair");
    weft_format(own->peer, sizeof(own->peer), "carpathia");
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "host.permission");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* The launcher saw baltic's process end. Iceberg, for which titanic's data was, failed before
 * titanic noticed that. */
START_TEST(the_stream_to_a_vanished_process_was_not_left)
{
    struct scene s;
    struct diag_findings findings;

    scene_set(&s);
    scene_add_host(&s, "baltic");
    s.input.hosts[2].was_observed = false;
    s.input.hosts[2].has_vanished = true;
    s.failure = &s.a->errors[0];
    weft_fail_errno(&s.failure->error, ECONNRESET, WEFT_PHASE_STREAM, "the stream broke");
    s.failure->error.status = WEFT_ERR_CLOSED;
    s.failure->at_ns = 6000;
    weft_error_text(&s.failure->error, WEFT_VALUE_PEER, "baltic");
    scene_hears_of_it(&s);
    s.b->errors[0].at_ns = 5000;
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "peer.dead");
    ck_assert_str_eq(findings.items[0].peer, "baltic");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* The launcher saw a process end. No host needed it any more, or (_i is 1) titanic failed. */
START_TEST(who_vanished_unnoticed_is_named)
{
    struct scene s;
    struct diag_findings findings;

    scene_set(&s);
    s.b->was_observed = false;
    s.b->has_vanished = true;
    if (_i == 0) {
        s.a->n_errors = 0;
    } else {
        scene_forbidden(&s);
    }
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code,
                     _i == 0 ? "peer.dead" : "host.permission");
    ck_assert_str_eq(findings.items[0].peer, _i == 0 ? "iceberg" : "");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

static void add_cable(struct scene *s, const char *from, const char *from_port,
                      const char *to, const char *to_port)
{
    struct diag_cable *cable = &s->input.cables[s->input.n_cables++];

    weft_format(cable->from, sizeof(cable->from), "%s", from);
    weft_format(cable->from_port, sizeof(cable->from_port), "%s", from_port);
    weft_format(cable->to, sizeof(cable->to), "%s", to);
    weft_format(cable->to_port, sizeof(cable->to_port), "%s", to_port);
}

/* Titanic waits for baltic, which is behind carpathia and iceberg. Iceberg's port to carpathia is
 * down. */
START_TEST(a_cable_that_separates_two_hosts_is_named)
{
    static const struct {
        const char *what;
        const char *baltic_at; /* the host whose p1 has baltic's cable */
        enum diag_known is_up; /* iceberg:p0 */
        const char *rendezvous;
        bool is_from_baltic;            /* baltic reports the failure, not titanic */
        const char *host, *port, *peer; /* of the finding; NULL if it is no link.down */
    } rows[] = {
        {"the port is down", "iceberg", DIAG_NO, "none", false, "carpathia", "p1",
         "iceberg"},
        {"baltic is at titanic's other cable", "titanic", DIAG_NO, "none", false, NULL,
         NULL, NULL},
        {"the rendezvous is on no cable", "iceberg", DIAG_NO, "10.0.0.1", false, NULL,
         NULL, NULL},
        {"nothing is down", "iceberg", DIAG_YES, "none", false, NULL, NULL, NULL},
        {"baltic waits for titanic", "iceberg", DIAG_NO, "none", true, "iceberg", "p0",
         "carpathia"},
    };
    struct scene s;
    struct diag_findings findings;
    bool is_named = rows[_i].host != NULL;

    scene_set(&s);
    scene_add_host(&s, "carpathia");
    scene_add_host(&s, "baltic");
    s.input.cables = weft_calloc(4, sizeof(*s.input.cables));
    add_cable(&s, "titanic", "p0", "carpathia", "p0");
    add_cable(&s, "iceberg", "p0", "carpathia", "p1");
    add_cable(&s, rows[_i].baltic_at, "p1", "baltic", "p0");
    s.b->ports[0].is_up = rows[_i].is_up;
    s.failure = &s.a->errors[0];
    if (rows[_i].is_from_baltic) {
        s.a->n_errors = 0;
        s.failure = &s.input.hosts[3].errors[s.input.hosts[3].n_errors++];
    }
    weft_fail(&s.failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT, "is cut off");
    weft_error_text(&s.failure->error, WEFT_VALUE_RENDEZVOUS, rows[_i].rendezvous);
    weft_format(s.failure->peer, sizeof(s.failure->peer),
                rows[_i].is_from_baltic ? "titanic" : "baltic");
    diag(&s.input, &findings);
    ck_assert_msg(findings.n == 1, "%s: %u findings", rows[_i].what, findings.n);
    ck_assert_int_eq(strcmp(findings.items[0].entry->code, "link.down") == 0, is_named);
    if (is_named) {
        ck_assert_str_eq(findings.items[0].host, rows[_i].host);
        ck_assert_str_eq(findings.items[0].port, rows[_i].port);
        ck_assert_str_eq(findings.items[0].peer, rows[_i].peer);
    }
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Members met over cables: titanic at iceberg:p1, and carpathia at iceberg:p0. Iceberg and titanic
 * report that they missed carpathia. Loop 0: carpathia did not report; 1: it missed iceberg. */
START_TEST(a_member_that_nobody_heard_of_is_missed_by_its_neighbours)
{
    static const char *const candidates[] = {"peer.dead peer.late neigh.arp_ignored",
                                             "link.corrupting link.one_way link.lossy"};
    struct scene s;
    struct diag_findings findings;
    struct weft_text got = {0};

    scene_set(&s);
    scene_add_host(&s, "carpathia");
    if (_i == 0) {
        s.input.hosts[2].was_observed = false;
    } else {
        s.input.hosts[2].n_ports = 1;
        s.input.hosts[2].ports[0] = s.a->ports[0];
        scene_set_address(&s.input.hosts[2].ports[0], "192.168.100.3/24");
    }
    s.input.cables = weft_calloc(4, sizeof(*s.input.cables));
    add_cable(&s, "titanic", "p0", "iceberg", "p1");
    add_cable(&s, "iceberg", "p0", "carpathia", "p0");
    for (uint32_t i = 0; i < (_i == 0 ? 2 : 3); i++) {
        struct diag_error *error = &s.input.hosts[i].errors[0];

        s.input.hosts[i].n_errors = 1;
        weft_fail(&error->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT, "was never heard of");
        weft_format(error->peer, DIAG_NAME_BYTES, i == 2 ? "iceberg" : "carpathia");
        if (i != 0) { /* titanic was notified */
            weft_error_text(&error->error, WEFT_VALUE_RENDEZVOUS, "none");
        }
    }
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].host, "iceberg");
    ck_assert_str_eq(findings.items[0].peer, "carpathia");
    ck_assert_str_eq(findings.items[0].entry->code, "undetermined");
    for (uint32_t i = 0; i < findings.items[0].n_candidates; i++) {
        weft_text_add(&got, "%s%s", i > 0 ? " " : "",
                      findings.items[0].candidates[i]->code);
    }
    ck_assert_str_eq(got.bytes, candidates[_i]);
    weft_text_fini(&got);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Loop 1: iceberg's device did not fail, but titanic's. */
START_TEST(a_device_that_failed_refuses_no_access)
{
    struct scene s;
    struct diag_findings findings;
    struct diag_host *host;
    struct diag_error *error;

    scene_set(&s);
    weft_fail_completion(&s.failure->error, 10, WEFT_PHASE_DATA, "failed");
    host = _i == 0 ? s.b : s.a;
    error = &host->errors[host->n_errors++];
    weft_fail_errno(&error->error, EIO, WEFT_PHASE_DEVICE, "p1 is gone");
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, _i == 0 ? 1 : 2);
    ck_assert_str_eq(findings.items[findings.n - 1].entry->code, "device.failed");
    ck_assert_str_eq(findings.items[findings.n - 1].host, host->name);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Records of two running hosts that wait for each other. */
static const struct {
    const char *what;
    const char *code, *first, *third; /* candidates, or NULL */
    int tcp_errno;                    /* of titanic's calls; 0: no data came */
    int n_ways;
    int peer_errno;    /* of iceberg's calls; 0 if it made none */
    uint32_t n_frames; /* that their rail has carried */
    uint32_t n_lost;   /* of titanic's, in addition */
    int64_t pause_ns;  /* how long the peer's pauses stopped the rail */
    bool peer_waits, peer_failed;
    bool
        peer_meets; /* iceberg is in the rendezvous over the cables, and waits for a third */
    bool peer_was_told; /* by titanic, why that failed */
} silences[] = {
    {.what = "no data came",
     .code = "undetermined",
     .first = "link.corrupting",
     .third = "link.lossy",
     .peer_waits = true},
    {.what = "their rail has carried packets",
     .code = "conn.timeout",
     .n_frames = 100,
     .peer_waits = true},
    {.what = "iceberg waits for no host", .code = "conn.timeout"},
    {.what = "no answer over the only way, the cable",
     .code = "undetermined",
     .first = "link.corrupting",
     .third = "link.lossy",
     .tcp_errno = ETIMEDOUT,
     .n_ways = 1,
     .peer_waits = true},
    {.what = "no answer over the only way, which loses frames",
     .code = "link.one_way",
     .tcp_errno = ETIMEDOUT,
     .n_ways = 1,
     .n_frames = 100,
     .n_lost = 80,
     .peer_waits = true},
    {.what = "no answer over two ways",
     .code = "conn.filtered",
     .tcp_errno = ETIMEDOUT,
     .n_ways = 2,
     .peer_waits = true},
    {.what = "iceberg has waited until it failed",
     .code = "undetermined",
     .tcp_errno = ETIMEDOUT,
     .n_ways = 1,
     .peer_failed = true},
    {.what = "iceberg's calls were not answered either",
     .code = "undetermined",
     .tcp_errno = EHOSTUNREACH,
     .n_ways = 1,
     .peer_errno = ETIMEDOUT,
     .peer_waits = true},
    {.what = "iceberg meets the others over the cables",
     .code = "undetermined",
     .first = "link.corrupting",
     .third = "link.lossy",
     .peer_meets = true},
    {.what = "iceberg was told why titanic failed",
     .code = "undetermined",
     .first = "link.corrupting",
     .third = "link.lossy",
     .peer_was_told = true,
     .peer_waits = true},
    {.what = "a pause stopped the rail",
     .code = "link.pause_storm",
     .pause_ns = 3000000000,
     .peer_waits = true},
};

START_TEST(a_cable_that_has_carried_nothing_may_carry_nothing)
{
    struct scene s;
    struct diag_findings findings;
    struct diag_finding *found;

    scene_set(&s);
    scene_hears_of_it(&s);
    if (silences[_i].tcp_errno != 0) {
        weft_fail_errno(&s.failure->error, silences[_i].tcp_errno, WEFT_PHASE_TCP,
                        "no answer");
        weft_error_int(&s.failure->error, WEFT_VALUE_WAYS, silences[_i].n_ways);
    } else {
        weft_fail(&s.failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_META, "nothing came");
    }
    for (int k = 0; k < DIAG_N_COUNTERS; k++) {
        bool is_frames = k == DIAG_TX_PACKETS || k == DIAG_RX_PACKETS;

        s.a->ports[0].counters[k] = s.b->ports[1].counters[k] =
            is_frames ? silences[_i].n_frames : 0;
    }
    s.a->ports[0].counters[DIAG_TX_PACKETS] += silences[_i].n_lost;
    s.a->ports[0].counters[DIAG_RX_PAUSES] = silences[_i].pause_ns > 0;
    s.a->ports[0].counters[DIAG_RX_PAUSE_NS] = silences[_i].pause_ns;
    scene_wait(s.a, WEFT_WAIT_CONNECTION, "iceberg");
    if (silences[_i].peer_failed) {
        weft_error_clear(&s.b->errors[0].error);
        weft_fail(&s.b->errors[0].error, WEFT_ERR_TIMEOUT, WEFT_PHASE_META, "silence");
    }
    if (silences[_i].peer_errno != 0) {
        weft_error_clear(&s.b->errors[0].error);
        weft_fail_errno(&s.b->errors[0].error, silences[_i].peer_errno, WEFT_PHASE_TCP,
                        "no answer");
    }
    if (silences[_i].peer_meets || silences[_i].peer_was_told) {
        weft_error_clear(&s.b->errors[0].error);
        weft_fail(&s.b->errors[0].error, WEFT_ERR_CLOSED, WEFT_PHASE_BOOT, "rank 0");
    }
    if (silences[_i].peer_meets) {
        weft_error_text(&s.b->errors[0].error, WEFT_VALUE_RENDEZVOUS, "none");
        weft_error_int(&s.b->errors[0].error, WEFT_VALUE_ENDED, 1);
        scene_wait(s.b, WEFT_WAIT_ROUND, "carpathia");
    }
    if (silences[_i].peer_was_told) {
        weft_error_int(&s.b->errors[0].error, WEFT_VALUE_TOLD_BY, 0);
        s.failure->at_ns = 1000;
        s.b->errors[0].at_ns = 2000;
    }
    if (silences[_i].peer_waits) {
        scene_wait(s.b, WEFT_WAIT_CONNECTION, "titanic");
    }
    diag(&s.input, &findings);
    found = &findings.items[0];
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_msg(strcmp(found->entry->code, silences[_i].code) == 0, "%s: %s",
                  silences[_i].what, found->entry->code);
    if (silences[_i].first != NULL) {
        ck_assert_str_eq(found->candidates[0]->code, silences[_i].first);
        ck_assert_str_eq(found->candidates[2]->code, silences[_i].third);
    }
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Titanic has no route to the address on which all meet. A third host that never listened may have
 * failed because the address is not its own. */
START_TEST(a_host_that_never_listened_may_have_a_foreign_address)
{
    static const struct {
        const char *state;
        bool was_observed;
        int sys_errno;
        const char *code;
    } rows[] = {
        {"listen", true, 0, "undetermined"},    {"listen", true, EMFILE, "conn.no_route"},
        {"listen", false, 0, "conn.no_route"},  {"boot", true, 0, "conn.no_route"},
        {"discover", true, 0, "conn.no_route"}, {"", true, 0, "conn.no_route"}};
    struct scene s;
    struct diag_findings findings;
    struct diag_host *third;

    scene_set(&s);
    scene_no_route(&s);
    third = scene_add_host(&s, "carpathia");
    weft_format(third->state, sizeof(third->state), "%s", rows[_i].state);
    third->was_observed = rows[_i].was_observed;
    if (rows[_i].sys_errno != 0) {
        third->errors[0] = (struct diag_error){.source = DIAG_HEARSAY};
        weft_fail_errno(&third->errors[0].error, rows[_i].sys_errno, WEFT_PHASE_LISTEN,
                        "listen");
        third->n_errors = 1;
    }
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, rows[_i].code);
    if (_i == 0) {
        ck_assert_str_eq(findings.items[0].candidates[0]->code, "conn.foreign_address");
    }
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Announcements that one end does not hear may be lost, as what belongs to TCP. */
START_TEST(a_cable_that_loses_announcements_may_lose_all)
{
    struct scene s;
    struct diag_findings findings;

    scene_set(&s);
    scene_only_announced(&s, _i == 1);
    diag(&s.input, &findings);
    ck_assert_str_eq(findings.items[0].entry->code,
                     _i == 1 ? "conn.filtered" : "undetermined");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* The members meet over the cables. Titanic, rank 3, heard nothing of iceberg. Iceberg gave up
 * because of another member, but has titanic in its list of those that it missed. Loop 1: and a
 * pause stopped their rail; 2: it does not have titanic. */
START_TEST(a_neighbour_in_the_list_of_the_missing_was_not_heard_either)
{
    static const char *const codes[] = {"undetermined", "link.pause_storm",
                                        "conn.timeout"};
    struct scene s;
    struct diag_findings findings;
    struct weft_error *there;

    scene_set(&s);
    weft_fail(&s.failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT, "never heard of");
    weft_error_object(&s.failure->error, "rank 3 of 14");
    weft_error_text(&s.failure->error, WEFT_VALUE_RENDEZVOUS, "none");
    weft_error_text(&s.failure->error, WEFT_VALUE_MISSING, "1");
    s.b->n_errors = 1;
    there = &s.b->errors[0].error;
    weft_fail(there, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT, "never heard of");
    weft_error_object(there, "rank 1 of 14");
    weft_error_text(there, WEFT_VALUE_RENDEZVOUS, "none");
    weft_error_text(there, WEFT_VALUE_MISSING, _i == 2 ? "0,2,13" : "0,2,3,13");
    weft_format(s.b->errors[0].peer, sizeof(s.b->errors[0].peer), "carpathia");
    s.b->errors[0].source = DIAG_HEARSAY;
    for (int k = 0; k < DIAG_N_COUNTERS; k++) {
        s.a->ports[0].counters[k] = s.b->ports[1].counters[k] = 0;
    }
    if (_i == 1) {
        s.b->ports[1].counters[DIAG_RX_PAUSES] = 1;
        s.b->ports[1].counters[DIAG_RX_PAUSE_NS] = 3000000000;
    }
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, codes[_i]);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* A program on titanic could not call that on iceberg, and printed no errno. Loop 1: iceberg did
 * not report anything; 2: its process was killed. */
START_TEST(who_cannot_be_called_need_not_be_dead)
{
    static const char *const candidates[] = {"peer.dead", "peer.late", "conn.refused"};
    struct scene s;
    struct diag_findings findings;

    scene_set(&s);
    weft_format(s.a->policy, sizeof(s.a->policy), "programs");
    weft_fail(&s.failure->error, WEFT_ERR_SYSTEM, WEFT_PHASE_TCP, "it says so");
    s.b->was_observed = _i == 0;
    s.b->has_vanished = _i == 2;
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code,
                     _i == 2 ? "peer.dead" : "undetermined");
    ck_assert_uint_eq(findings.items[0].n_candidates, _i == 2 ? 0 : _i == 1 ? 3 : 2);
    for (uint32_t i = 0; i < findings.items[0].n_candidates; i++) {
        ck_assert_str_eq(findings.items[0].candidates[i]->code,
                         candidates[_i == 1 ? i : i + 1]);
    }
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Titanic knows iceberg by an address that iceberg:p1 had until another one of its network replaced
 * it. The stream at that address is silent before rails are chosen. Loop 1: it has it still. */
START_TEST(a_stream_at_a_replaced_address_is_silent)
{
    struct scene s;
    struct diag_findings findings;
    struct diag_described *described;

    scene_set(&s);
    scene_hears_of_it(&s);
    weft_fail(&s.failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_AUTH, "nothing came");
    described = s.a->described;
    s.a->n_described = 1;
    weft_format(described->peer, sizeof(described->peer), "iceberg");
    described->n_ports = 1;
    described->ports = weft_calloc(1, sizeof(*described->ports));
    *described->ports = s.b->ports[1];
    if (_i == 0) {
        for (uint32_t g = 0; g < described->ports->n_gids; g++) {
            if (described->ports->gids[g].prefix_len > 0) {
                described->ports->gids[g].ip = io_ip_v4(192, 168, 101, 77);
            }
        }
    }
    s.b->has_events = true;
    s.b->events[s.b->n_events] = (struct diag_event){.type = "gid_change"};
    weft_format(s.b->events[s.b->n_events].port, sizeof(s.b->events[0].port), "p1");
    s.b->n_events++;
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_int_eq(findings.items[0].entry->id == DIAG_ADDR_CHANGED, _i == 0);
    if (_i == 0) {
        ck_assert_str_eq(findings.items[0].host, "iceberg");
        ck_assert_str_eq(findings.items[0].port, "p1");
    }
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Four hosts in a line meet over the cables: titanic, iceberg, carpathia, baltic. Nothing passes
 * between the two in the middle. Each end gives up because of the first rank that it has not heard
 * of, whichever that is. */
START_TEST(who_is_beside_the_gap_is_named)
{
    static const char *const peers[] = {"baltic", "baltic", "titanic", "titanic"};
    static const char *const missing[] = {"2,3", "2,3", "0,1", "0,1"};
    struct scene s;
    struct diag_findings findings;

    scene_set(&s);
    s.a->n_errors = 0;
    scene_add_host(&s, "carpathia");
    scene_add_host(&s, "baltic");
    s.input.cables = weft_calloc(3, sizeof(*s.input.cables));
    add_cable(&s, "titanic", "p0", "iceberg", "p1");
    add_cable(&s, "iceberg", "p0", "carpathia", "p0");
    add_cable(&s, "carpathia", "p1", "baltic", "p0");
    for (uint32_t i = 0; i < 4; i++) {
        struct diag_host *host = &s.input.hosts[i];
        struct diag_error *error = &host->errors[host->n_errors++];

        *error = (struct diag_error){.source = DIAG_HEARSAY, .at_ns = 1000};
        weft_format(error->peer, sizeof(error->peer), "%s", peers[i]);
        weft_fail(&error->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT, "never heard of");
        weft_error_object(&error->error, "rank %u of 4", i);
        weft_error_text(&error->error, WEFT_VALUE_RENDEZVOUS, "none");
        weft_error_text(&error->error, WEFT_VALUE_MISSING, missing[i]);
    }
    diag(&s.input, &findings);
    ck_assert_uint_gt(findings.n, 0);
    for (uint32_t i = 0; i < findings.n; i++) {
        ck_assert_str_eq(findings.items[i].entry->code, "undetermined");
        ck_assert_str_eq(findings.items[i].host, i == 0 ? "iceberg" : "carpathia");
        ck_assert_str_eq(findings.items[i].peer, i == 0 ? "carpathia" : "iceberg");
    }
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* Titanic called iceberg in vain, which did not even find a third host as a neighbour, on its only
 * port. A filter of TCP ports does not explain that. Loop 1: iceberg has two ports. */
START_TEST(a_port_that_finds_no_neighbour_is_not_filtered)
{
    struct scene s;
    struct diag_findings findings;
    bool is_filtered = false;

    scene_set(&s);
    weft_fail_errno(&s.failure->error, ETIMEDOUT, WEFT_PHASE_TCP, "no answer");
    weft_fail_errno(&s.b->errors[s.b->n_errors++].error, EHOSTUNREACH, WEFT_PHASE_TCP,
                    "failed");
    weft_format(s.b->errors[0].peer, sizeof(s.b->errors[0].peer), "carpathia");
    s.b->n_ports = 1 + (uint32_t)_i;
    diag(&s.input, &findings);
    for (uint32_t i = 0; i < findings.n; i++) {
        is_filtered |= findings.items[i].entry->id == DIAG_CONN_FILTERED;
    }
    ck_assert_int_eq(is_filtered, _i == 1);
    s.b->n_ports = 2;
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* The members meet over the cables. Both hosts are behind a switch, and one port has no carrier.
 * The finding is headed by it, whichever host reports. Loop 2: both have carrier. */
START_TEST(a_port_without_carrier_behind_a_switch_separates_hosts)
{
    struct scene s;
    struct diag_findings findings;
    struct diag_error *failure;

    scene_set(&s);
    s.input.cables = weft_calloc(2, sizeof(*s.input.cables));
    add_cable(&s, "titanic", "p0", "sw", "0");
    add_cable(&s, "sw", "1", "iceberg", "p0");
    s.b->ports[0].is_up = _i == 2 ? DIAG_YES : DIAG_NO;
    s.a->n_errors = 0;
    failure = _i == 1 ? &s.b->errors[s.b->n_errors++] : &s.a->errors[s.a->n_errors++];
    *failure = (struct diag_error){.source = DIAG_HEARSAY, .at_ns = 1000};
    weft_fail(&failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT, "never heard of");
    weft_error_text(&failure->error, WEFT_VALUE_RENDEZVOUS, "none");
    weft_format(failure->peer, sizeof(failure->peer), _i == 1 ? "titanic" : "iceberg");
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_int_eq(strcmp(findings.items[0].entry->code, "link.down") == 0, _i < 2);
    if (_i < 2) {
        ck_assert_str_eq(findings.items[0].host, "iceberg");
        ck_assert_str_eq(findings.items[0].port, "p0");
        ck_assert_str_eq(findings.items[0].peer, "");
    }
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* The members meet over the cables of a triangle. Titanic could not connect to iceberg, which
 * missed carpathia as well: loop 0, its neighbour, so that nothing shows which end filters; loop 1,
 * not at all, so that titanic drops the replies. */
START_TEST(a_neighbour_that_was_missed_does_not_show_that_a_host_is_reached)
{
    struct scene s;
    struct diag_findings findings;
    struct diag_host *third;
    struct diag_error *awaits;

    scene_set(&s);
    awaits = &s.b->errors[s.b->n_errors++];
    s.input.cables = weft_calloc(3, sizeof(*s.input.cables));
    add_cable(&s, "titanic", "p0", "iceberg", "p1");
    add_cable(&s, "iceberg", "p0", "carpathia", "p0");
    third = scene_add_host(&s, "carpathia");
    s.failure = &s.a->errors[0];
    third->errors[third->n_errors] =
        (struct diag_error){.source = DIAG_HEARSAY, .at_ns = 1000};
    weft_fail(&third->errors[third->n_errors++].error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT,
              "cut off");
    weft_format(third->errors[0].peer, sizeof(third->errors[0].peer), "titanic");
    weft_fail_errno(&s.failure->error, ETIMEDOUT, WEFT_PHASE_BOOT, "cannot be reached");
    weft_error_text(&s.failure->error, WEFT_VALUE_RENDEZVOUS, "none");
    weft_error_int(&s.failure->error, WEFT_VALUE_HEARD, 1);
    s.failure->at_ns = 1000;
    *awaits = (struct diag_error){.source = DIAG_HEARSAY, .at_ns = 1000};
    weft_fail(&awaits->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT, "does not connect");
    weft_error_text(&awaits->error, WEFT_VALUE_RENDEZVOUS, "none");
    weft_error_int(&awaits->error, WEFT_VALUE_HEARD, 1);
    weft_format(awaits->peer, sizeof(awaits->peer), "titanic");
    scene_wait(s.b, WEFT_WAIT_ROUND, "titanic");
    if (_i == 0) {
        scene_wait(s.b, WEFT_WAIT_ROUND, "carpathia");
    }
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "conn.filtered");
    ck_assert_str_eq(findings.items[0].peer, _i == 0 ? "iceberg" : "titanic");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

START_TEST(different_mtus_that_work_are_a_warning)
{
    struct scene s;
    struct diag_findings findings;

    scene_set(&s);
    s.a->n_errors = 0;
    s.b->ports[1].netdev_mtu = 1500;
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "link.mtu_mismatch");
    ck_assert_int_eq(findings.items[0].severity, DIAG_WARNING);
    ck_assert_str_eq(findings.items[0].port, "p0");
    ck_assert_str_eq(findings.items[0].peer, "iceberg");
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

/* titanic:p0 shares a subnet with iceberg:p1, but its cable leads to iceberg:p0. */
START_TEST(mtus_are_those_of_the_ends_of_a_cable)
{
    uint32_t differs = (uint32_t)_i, n = 0;
    struct scene s;
    struct diag_findings findings;

    scene_set(&s);
    s.a->n_errors = 0;
    s.b->ports[differs].netdev_mtu = 1500;
    s.input.cables = weft_calloc(2, sizeof(*s.input.cables));
    add_cable(&s, "titanic", "p0", "iceberg", "p0");
    diag(&s.input, &findings);
    for (uint32_t i = 0; i < findings.n; i++) {
        if (strcmp(findings.items[i].entry->code, "link.mtu_mismatch") == 0) {
            ck_assert_str_eq(findings.items[i].port, "p0");
            n++;
        }
    }
    ck_assert_uint_eq(n, differs == 0 ? 1 : 0);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

START_TEST(nothing_wrong_finds_nothing)
{
    struct scene s;
    struct diag_findings findings;

    scene_set(&s);
    s.a->n_errors = 0;
    diag(&s.input, &findings);
    ck_assert_uint_eq(findings.n, 0);
    diag_findings_fini(&findings);
    diag_input_fini(&s.input);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("diag");
    TCase *tests = tcase_create("diag");

    tcase_add_loop_test(tests, each_case_has_its_code, 0, n_scene_cases);
    tcase_add_loop_test(tests, each_case_has_its_code_where_machines_have_two_processes,
                        0, n_scene_cases);
    tcase_add_loop_test(tests, missing_evidence_never_names_another_cause, 0,
                        n_scene_cases);
    tcase_add_test(tests, undetermined_names_what_is_possible);
    tcase_add_loop_test(tests, a_pause_storm_is_found_only_where_nothing_is_lost, 0, 9);
    tcase_add_test(tests, what_never_arrived_was_not_damaged);
    tcase_add_test(tests, what_a_host_did_not_send_was_not_lost);
    tcase_add_test(tests, a_direction_that_was_not_used_proves_nothing);
    tcase_add_loop_test(tests, a_slot_is_empty_only_if_the_whole_table_is_known, 0, 16);
    tcase_add_loop_test(tests, what_a_cut_table_lacks_is_not_absent, 0, 8);
    tcase_add_loop_test(tests, every_operation_of_a_device_can_find_it_failed, 0, 9);
    tcase_add_loop_test(tests, what_is_closed_is_not_always_a_stream, 0, 4);
    tcase_add_loop_test(tests, a_collision_needs_the_length_that_is_set, 0, 2);
    tcase_add_loop_test(tests, a_high_limit_of_locked_memory_is_not_surely_reached, 0, 6);
    tcase_add_loop_test(tests, headers_count_for_the_mtu, 0, 4);
    tcase_add_loop_test(tests, only_one_value_of_arp_ignore_answers_nothing, 0, 3);
    tcase_add_test(tests, an_unreachable_host_is_not_silence);
    tcase_add_loop_test(tests, events_may_be_missing, 0, 4);
    tcase_add_loop_test(tests, what_is_in_the_fixed_slot_is_shown, 0, 3);
    tcase_add_test(tests, who_finds_a_failed_host_gone_met_a_consequence);
    tcase_add_loop_test(tests, who_hears_from_a_relay_that_the_end_left_met_a_consequence,
                        0, 2);
    tcase_add_loop_test(tests, who_only_waited_for_a_failed_host_met_a_consequence, 0, 2);
    tcase_add_test(tests, both_ends_of_one_cause_are_one_finding);
    tcase_add_test(tests, an_rtr_without_an_errno_is_judged_by_both_gids);
    tcase_add_test(tests, a_device_gives_up_what_its_own_netdev_does_not_take);
    tcase_add_test(tests, a_device_that_gives_up_asks_for_its_own_port);
    tcase_add_test(tests, hearsay_counts_only_when_nobody_knows_better);
    tcase_add_test(tests, who_may_have_met_it_is_asked_before_who_heard_of_it);
    tcase_add_loop_test(tests, two_that_waited_were_kept_apart_by_a_third, 0, 2);
    tcase_add_test(tests, what_a_relay_gave_up_for_decides);
    tcase_add_loop_test(tests, who_waited_after_a_relay_gave_up_met_a_consequence, 0, 2);
    tcase_add_test(tests, who_waited_for_a_host_with_trouble_met_a_consequence);
    tcase_add_test(tests, the_stream_to_a_vanished_process_was_not_left);
    tcase_add_loop_test(tests, who_vanished_unnoticed_is_named, 0, 2);
    tcase_add_loop_test(tests, a_cable_that_separates_two_hosts_is_named, 0, 5);
    tcase_add_loop_test(tests, a_member_that_nobody_heard_of_is_missed_by_its_neighbours,
                        0, 2);
    tcase_add_loop_test(tests, a_device_that_failed_refuses_no_access, 0, 2);
    tcase_add_loop_test(tests, a_cable_that_has_carried_nothing_may_carry_nothing, 0,
                        (int)WEFT_LENGTH(silences));
    tcase_add_loop_test(tests, a_host_that_never_listened_may_have_a_foreign_address, 0,
                        6);
    tcase_add_loop_test(tests, a_cable_that_loses_announcements_may_lose_all, 0, 2);
    tcase_add_loop_test(
        tests, a_neighbour_in_the_list_of_the_missing_was_not_heard_either, 0, 3);
    tcase_add_loop_test(tests, who_cannot_be_called_need_not_be_dead, 0, 3);
    tcase_add_test(tests, who_is_beside_the_gap_is_named);
    tcase_add_loop_test(tests, a_stream_at_a_replaced_address_is_silent, 0, 2);
    tcase_add_loop_test(tests, a_port_that_finds_no_neighbour_is_not_filtered, 0, 2);
    tcase_add_loop_test(tests, a_port_without_carrier_behind_a_switch_separates_hosts, 0,
                        3);
    tcase_add_loop_test(
        tests, a_neighbour_that_was_missed_does_not_show_that_a_host_is_reached, 0, 2);
    tcase_add_test(tests, different_mtus_that_work_are_a_warning);
    tcase_add_loop_test(tests, mtus_are_those_of_the_ends_of_a_cable, 0, 2);
    tcase_add_test(tests, nothing_wrong_finds_nothing);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
