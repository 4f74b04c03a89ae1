#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"
#include "scenario/arena.h"
#include "scenario/sections.h"

enum {
    KEY_RESULT,
    KEY_INVARIANTS,
    KEY_SYMPTOM,
    KEY_FINDINGS,
    KEY_DATA,
    KEY_BANDWIDTH,
    KEY_TIME,
    KEY_COUNTERS,
    KEY_CONNECTIONS
};
static const struct walk_key expect_keys[] = {
    [KEY_RESULT] = {.name = "result"},
    [KEY_INVARIANTS] = {.name = "invariants"},
    [KEY_SYMPTOM] = {.name = "symptom"},
    [KEY_FINDINGS] = {.name = "findings"},
    [KEY_DATA] = {.name = "data"},
    [KEY_BANDWIDTH] = {.name = "bus_bandwidth"},
    [KEY_TIME] = {.name = "time"},
    [KEY_COUNTERS] = {.name = "counters"},
    [KEY_CONNECTIONS] = {.name = "connections"},
};
static const struct walk_table expect_table = {"expect", expect_keys,
                                               WEFT_LENGTH(expect_keys)};

/* The last ibv_wc_status is IBV_WC_TM_RNDV_INCOMPLETE (23); 0 is success. */
#define WC_STATUS_MAX 23

enum { KEY_ERRNO, KEY_WC_STATUS };
static const struct walk_key symptom_keys[] = {
    [KEY_ERRNO] = {.name = "errno",
                   .type = WALK_INT,
                   .offset = offsetof(struct scenario_expect, sys_errno),
                   .min = 1,
                   .max = 4095},
    [KEY_WC_STATUS] = {.name = "wc_status",
                       .type = WALK_INT,
                       .offset = offsetof(struct scenario_expect, wc_status),
                       .min = 1,
                       .max = WC_STATUS_MAX},
};
static const struct walk_table symptom_table = {"symptom", symptom_keys,
                                                WEFT_LENGTH(symptom_keys)};

enum { KEY_AT_LEAST, KEY_JOB, KEY_BYTES };
static const struct walk_key bandwidth_keys[] = {
    [KEY_AT_LEAST] = {.name = "at_least"},
    [KEY_JOB] = {.name = "job"},
    [KEY_BYTES] = {.name = "bytes",
                   .type = WALK_SIZE,
                   .offset = offsetof(struct scenario_bandwidth, bytes),
                   .max = WALK_SIZE_MAX},
};
static const struct walk_table bandwidth_table = {"bus_bandwidth", bandwidth_keys,
                                                  WEFT_LENGTH(bandwidth_keys)};

enum { KEY_TIME_AT_MOST, KEY_TIME_AT_LEAST };
static const struct walk_key time_keys[] = {
    [KEY_TIME_AT_MOST] = {.name = "at_most",
                          .type = WALK_TIME,
                          .offset = offsetof(struct scenario_expect, at_most_ns)},
    [KEY_TIME_AT_LEAST] = {.name = "at_least",
                           .type = WALK_TIME,
                           .offset = offsetof(struct scenario_expect, at_least_ns)},
};
static const struct walk_table time_table = {"time", time_keys, WEFT_LENGTH(time_keys)};

enum { KEY_FROM, KEY_TO, KEY_PORT, KEY_VIA, KEY_TRANSPORT, KEY_REASON };
static const struct walk_key connection_keys[] = {
    [KEY_FROM] = {.name = "from"},           [KEY_TO] = {.name = "to"},
    [KEY_PORT] = {.name = "port"},           [KEY_VIA] = {.name = "via"},
    [KEY_TRANSPORT] = {.name = "transport"}, [KEY_REASON] = {.name = "reason"},
};
static const struct walk_table connection_table = {"a connection", connection_keys,
                                                   WEFT_LENGTH(connection_keys)};

#define LIST_MAX 65536u

static void read_symptom(struct loader *loader, const struct tree_node *node,
                         struct scenario_expect *expect)
{
    struct walk_seen seen;
    expect->symptom_mark = node->mark;
    if (!walk_map(loader, node, &symptom_table, &seen, expect)) {
        return;
    }
    expect->has_errno = seen.at[KEY_ERRNO] != NULL;
    expect->has_wc_status = seen.at[KEY_WC_STATUS] != NULL;
    if (expect->has_errno == expect->has_wc_status) {
        complain(loader, node->mark, "symptom: expected either 'errno' or 'wc_status'");
    }
    if (!expect->must_fail) {
        complain(loader, node->mark, "symptom: allowed only with 'result: fail'");
    }
}

/* Returns true for area.cause, each a word of lower case letters, digits and underscores. */
static bool is_code(const char *text)
{
    size_t n = strcspn(text, ".");
    char area[64];
    if (text[n] != '.' || n >= sizeof(area)) {
        return false;
    }
    memcpy(area, text, n);
    area[n] = '\0';
    return is_name(area, 63, true, "_") && is_name(text + n + 1, 63, true, "_");
}

static void read_findings(struct loader *loader, const struct tree_node *node,
                          struct scenario_expect *expect)
{
    if (!read_list(loader, node, "findings", 0, 1024)) {
        return;
    }
    expect->has_findings = true;
    expect->findings = arena_calloc(loader->arena, node->n, sizeof(expect->findings[0]));
    for (uint32_t i = 0; i < node->n; i++) {
        const struct tree_node *item = node->items[i];
        if (item->kind != TREE_SCALAR || tree_scalar_kind(item) != TREE_TEXT ||
            (!is_code(item->text) && strcmp(item->text, "undetermined") != 0)) {
            complain_type(
                loader, item, "findings",
                "a code area.cause, such as link.mtu_mismatch, or undetermined");
        } else {
            expect->findings[expect->n_findings++] =
                (struct scenario_code){item->text, item->mark};
        }
    }
}

#define BANDWIDTH_WHAT                                                                   \
    "a share of the limit, such as '0.95 of limit', or a rate such as 10 GBps"

static bool read_at_least(struct loader *loader, const struct tree_node *node,
                          struct scenario_bandwidth *out)
{
    char head[40];
    const char *text = node->kind == TREE_SCALAR ? node->text : "";
    size_t n = strcspn(text, " ");
    const char *rest = text + n + strspn(text + n, " ");
    if (n >= sizeof(head)) {
        return complain_type(loader, node, "at_least", BANDWIDTH_WHAT);
    }
    memcpy(head, text, n);
    head[n] = '\0';
    if (strcmp(rest, "of limit") == 0 && weft_parse_share_ppb(head, &out->at_least_ppb)) {
        out->is_share = true;
        return true;
    }
    /* Join the number and its unit, which a blank can separate. */
    if (*rest != '\0' && strchr(rest, ' ') == NULL && n + strlen(rest) < sizeof(head)) {
        weft_format(head + n, sizeof(head) - n, "%s", rest);
    } else if (*rest != '\0') {
        head[0] = '\0';
    }
    return weft_parse_bandwidth(head, &out->at_least_bytes_per_s) ||
           complain_type(loader, node, "at_least", BANDWIDTH_WHAT);
}

static void check_bytes(struct loader *loader, const struct tree_node *node,
                        const struct scenario_bandwidth *bandwidth)
{
    const struct scenario *s = loader->scenario;
    for (uint32_t i = 0; i < s->n_jobs; i++) {
        for (uint32_t k = 0; k < s->jobs[i].n_bytes; k++) {
            bool is_meant = !bandwidth->has_job || bandwidth->job == i;
            if (is_meant && s->jobs[i].bytes[k] == bandwidth->bytes) {
                return;
            }
        }
    }
    complain(loader, node->mark, "bytes: no such size is run");
}

static void read_bandwidth(struct loader *loader, const struct tree_node *node,
                           struct scenario_bandwidth *out)
{
    const struct scenario *s = loader->scenario;
    struct walk_seen seen;
    out->mark = node->mark;
    if (!walk_map(loader, node, &bandwidth_table, &seen, out)) {
        return;
    }
    if (seen.at[KEY_AT_LEAST] == NULL) {
        complain(loader, node->mark, "bus_bandwidth: 'at_least' is missing");
    } else {
        read_at_least(loader, seen.at[KEY_AT_LEAST], out);
    }
    const struct tree_node *job = seen.at[KEY_JOB];
    if (job != NULL && read_u32(loader, job, "job", 0, UINT32_MAX, &out->job)) {
        out->has_job = true;
        if (out->job >= s->n_jobs) {
            complain(loader, job->mark, "job: there is no job %u, the file has %u",
                     out->job, s->n_jobs);
            return;
        }
    }
    out->has_bytes = seen.at[KEY_BYTES] != NULL;
    if (out->has_bytes) {
        check_bytes(loader, seen.at[KEY_BYTES], out);
    }
}

static void read_bandwidths(struct loader *loader, const struct tree_node *node,
                            struct scenario_expect *expect)
{
    bool is_list = node->kind == TREE_LIST;
    uint32_t n = is_list ? node->n : 1;
    if (is_list && !read_list(loader, node, "bus_bandwidth", 1, 1024)) {
        return;
    }
    expect->bandwidths = arena_calloc(loader->arena, n, sizeof(expect->bandwidths[0]));
    expect->n_bandwidths = n;
    for (uint32_t i = 0; i < n; i++) {
        read_bandwidth(loader, is_list ? node->items[i] : node, &expect->bandwidths[i]);
    }
}

static bool read_rank(struct loader *loader, const struct tree_node *map,
                      const struct tree_node *node, const char *name, uint32_t *out)
{
    const struct scenario *s = loader->scenario;
    if (node == NULL) {
        return complain(loader, map->mark, "a connection: '%s' is missing", name);
    }
    if (!read_u32(loader, node, name, 0, UINT32_MAX, out)) {
        return false;
    }
    if (*out >= s->n_ranks) {
        return complain(loader, node->mark, "%s: there is no rank %u, there are %u ranks",
                        name, *out, s->n_ranks);
    }
    return true;
}

static void read_via(const struct topology *topology, const struct tree_node *node,
                     struct scenario_connection *out)
{
    struct loader *loader = topology->loader;
    if (!read_list(loader, node, "via", 0, 64)) {
        return;
    }
    out->has_via = true;
    out->via = arena_calloc(loader->arena, node->n, sizeof(out->via[0]));
    for (uint32_t i = 0; i < node->n; i++) {
        topology_find_host(topology, node->items[i], "via", &out->via[i]);
    }
    out->n_via = node->n;
}

static void read_connection(const struct topology *topology, const struct tree_node *node,
                            struct scenario_connection *out)
{
    struct loader *loader = topology->loader;
    const struct scenario *s = loader->scenario;
    struct walk_seen seen;
    out->mark = node->mark;
    if (!walk_keys(loader, node, &connection_table, &seen)) {
        return;
    }
    bool has_from = read_rank(loader, node, seen.at[KEY_FROM], "from", &out->from);
    bool has_to = read_rank(loader, node, seen.at[KEY_TO], "to", &out->to);
    if (has_from && has_to && out->from == out->to) {
        complain(loader, node->mark, "a connection: from rank %u to itself", out->from);
    }
    if (has_from && seen.at[KEY_PORT] != NULL) {
        out->has_port = topology_find_port(topology, seen.at[KEY_PORT], "port",
                                           s->ranks[out->from].host, &out->port);
    }
    if (seen.at[KEY_VIA] != NULL) {
        read_via(topology, seen.at[KEY_VIA], out);
    }
    if (seen.at[KEY_TRANSPORT] != NULL) {
        unsigned index;

        out->has_transport =
            read_choice(loader, seen.at[KEY_TRANSPORT], "transport", weft_transport_names,
                        WEFT_LENGTH(weft_transport_names), &index);
        out->transport = (enum weft_transport)index;
    }
    if (seen.at[KEY_REASON] != NULL) {
        read_text(loader, seen.at[KEY_REASON], "reason", &out->reason);
    }
}

static void read_connections(const struct topology *topology,
                             const struct tree_node *node, struct scenario_expect *expect)
{
    struct loader *loader = topology->loader;
    if (!read_list(loader, node, "connections", 0, LIST_MAX)) {
        return;
    }
    expect->connections =
        arena_calloc(loader->arena, node->n, sizeof(expect->connections[0]));
    expect->n_connections = node->n;
    for (uint32_t i = 0; i < node->n; i++) {
        read_connection(topology, node->items[i], &expect->connections[i]);
    }
}

static void read_time_bound(struct loader *loader, const struct tree_node *node,
                            struct scenario_expect *expect)
{
    struct walk_seen seen;
    expect->time_mark = node->mark;
    if (walk_map(loader, node, &time_table, &seen, expect)) {
        expect->has_time_at_most = seen.at[KEY_TIME_AT_MOST] != NULL;
        expect->has_time_at_least = seen.at[KEY_TIME_AT_LEAST] != NULL;
        if (!expect->has_time_at_most && !expect->has_time_at_least) {
            complain(loader, node->mark, "time: expected 'at_most' or 'at_least'");
        }
        if (expect->has_time_at_most && expect->at_least_ns > expect->at_most_ns) {
            complain(loader, node->mark, "time: 'at_least' is above 'at_most'");
        }
    }
}

enum { KEY_COUNTER_AT_LEAST, KEY_COUNTER_AT_MOST };
static const struct walk_key counter_keys[] = {
    [KEY_COUNTER_AT_LEAST] = {.name = "at_least"},
    [KEY_COUNTER_AT_MOST] = {.name = "at_most"},
};
static const struct walk_table counter_table = {"a counter", counter_keys,
                                                WEFT_LENGTH(counter_keys)};

static void read_counter(struct loader *loader, const struct tree_pair *pair,
                         struct scenario_counter *out)
{
    struct walk_seen seen;
    *out = (struct scenario_counter){
        .name = pair->key->text, .at_most = UINT64_MAX, .mark = pair->key->mark};
    if (!is_name(out->name, 63, true, "_")) {
        complain(loader, out->mark,
                 "counters: bad name; write lower case letters, digits and _");
    }
    if (!walk_keys(loader, pair->value, &counter_table, &seen)) {
        return;
    }
    const struct tree_node *least = seen.at[KEY_COUNTER_AT_LEAST];
    const struct tree_node *most = seen.at[KEY_COUNTER_AT_MOST];
    if (least == NULL && most == NULL) {
        complain(loader, pair->value->mark,
                 "a counter: expected 'at_most' or 'at_least'");
    }
    if (least != NULL) {
        read_u64(loader, least, "at_least", 0, INT64_MAX, &out->at_least);
    }
    if (most != NULL) {
        read_u64(loader, most, "at_most", 0, INT64_MAX, &out->at_most);
    }
    if (out->at_least > out->at_most) {
        complain(loader, pair->value->mark, "a counter: 'at_least' is above 'at_most'");
    }
}

static void read_counters(struct loader *loader, const struct tree_node *node,
                          struct scenario_expect *expect)
{
    if (!read_map(loader, node, "counters")) {
        return;
    }
    walk_duplicates(loader, node, "counters");
    expect->counters = arena_calloc(loader->arena, node->n, sizeof(expect->counters[0]));
    expect->n_counters = node->n;
    for (uint32_t i = 0; i < node->n; i++) {
        read_counter(loader, &node->pairs[i], &expect->counters[i]);
    }
}

static const char *const invariants[SCENARIO_N_INVARIANTS] = {
    [SCENARIO_INVARIANT_DATA] = "data",
    [SCENARIO_INVARIANT_ENDS] = "ends",
    [SCENARIO_INVARIANT_RECOVERY] = "recovery",
    [SCENARIO_INVARIANT_TIME] = "time",
    [SCENARIO_INVARIANT_EXPLAINED] = "explained",
    [SCENARIO_INVARIANT_COUNTERS] = "counters",
    [SCENARIO_INVARIANT_OBJECTS] = "objects",
    [SCENARIO_INVARIANT_ECONOMY] = "economy",
    [SCENARIO_INVARIANT_VERBS] = "verbs",
    [SCENARIO_INVARIANT_WIRE] = "wire",
    [SCENARIO_INVARIANT_TRAINS] = "trains",
};

const char *scenario_invariant_name(enum scenario_invariant invariant)
{
    weft_check(invariant < SCENARIO_N_INVARIANTS);
    return invariants[invariant];
}

/* Reads `all`, or a list of names. */
static void read_invariants(struct loader *loader, const struct tree_node *node,
                            struct scenario_expect *expect)
{
    if (node->kind == TREE_SCALAR && node->text != NULL &&
        strcmp(node->text, "all") == 0) {
        expect->invariants = (1u << SCENARIO_N_INVARIANTS) - 1;
        return;
    }
    if (!read_list(loader, node, "invariants", 1, SCENARIO_N_INVARIANTS)) {
        return;
    }
    for (uint32_t i = 0; i < node->n; i++) {
        unsigned choice;

        if (read_choice(loader, node->items[i], "invariants", invariants,
                        SCENARIO_N_INVARIANTS, &choice)) {
            expect->invariants |= 1u << choice;
        }
    }
}

static void refuse_of_programs(struct loader *loader, const struct tree_node *node)
{
    complain(
        loader, node->mark,
        "expect: for programs only `findings` may stand here; the rest is in their job: "
        "exec: {HOST: COMMAND, expect: {status, output, within}}");
}

void expect_read(const struct topology *topology, const struct tree_node *node)
{
    static const char *const results[] = {"pass", "fail", "any"}, *const data[] = {
                                                                      "exact"};
    struct loader *loader = topology->loader;
    struct scenario_expect *expect = &loader->scenario->expect;
    struct walk_seen seen;
    unsigned choice;
    if (node == NULL || !walk_keys(loader, node, &expect_table, &seen)) {
        return;
    }
    expect->mark = node->mark;
    if (scenario_has_programs(loader->scenario)) {
        if (seen.at[KEY_FINDINGS] == NULL || node->n != 1) {
            refuse_of_programs(loader, node);
        } else {
            read_findings(loader, seen.at[KEY_FINDINGS], expect);
        }
        return;
    }
    if (seen.at[KEY_RESULT] != NULL &&
        read_choice(loader, seen.at[KEY_RESULT], "result", results, 3, &choice)) {
        expect->must_fail = choice == 1;
        expect->may_fail = choice == 2;
    }
    if (seen.at[KEY_INVARIANTS] != NULL) {
        read_invariants(loader, seen.at[KEY_INVARIANTS], expect);
    }
    if (seen.at[KEY_SYMPTOM] != NULL) {
        read_symptom(loader, seen.at[KEY_SYMPTOM], expect);
    }
    if (seen.at[KEY_FINDINGS] != NULL) {
        read_findings(loader, seen.at[KEY_FINDINGS], expect);
    }
    if (seen.at[KEY_DATA] != NULL) {
        expect->has_data =
            read_choice(loader, seen.at[KEY_DATA], "data", data, 1, &choice);
    }
    if (seen.at[KEY_BANDWIDTH] != NULL) {
        read_bandwidths(loader, seen.at[KEY_BANDWIDTH], expect);
    }
    if (seen.at[KEY_TIME] != NULL) {
        read_time_bound(loader, seen.at[KEY_TIME], expect);
    }
    if (seen.at[KEY_COUNTERS] != NULL) {
        read_counters(loader, seen.at[KEY_COUNTERS], expect);
    }
    if (seen.at[KEY_CONNECTIONS] != NULL) {
        read_connections(topology, seen.at[KEY_CONNECTIONS], expect);
    }
}
