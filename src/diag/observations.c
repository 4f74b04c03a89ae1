/* Converts observations and findings to JSON, and observations, which are not trusted, back. */
#include "diag/observations.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "diag/fields.h"

#define HOSTS_MAX 4096
#define CABLES_MAX 65536
#define LIST_MAX 4096

/* ---- fields ---- */

static const struct field gid_fields[] = {
    FIELD(IP, struct diag_gid, "gid", ip),
    FIELD(ROCE, struct diag_gid, "type", type),
    FIELD_SMALL(struct diag_gid, "prefix_len", prefix_len, 128, IO_UNKNOWN),
    FIELD_SMALL(struct diag_gid, "index", index, INT_MAX, IO_UNKNOWN),
    FIELD_SMALL(struct diag_gid, "vlan_id", vlan_id, 4095, IO_UNKNOWN),
};

static const struct field port_fields[] = {
    FIELD_TEXT(struct diag_port, "name", name),
    FIELD(STATE, struct diag_port, "state", is_up),
    FIELD(INT, struct diag_port, "netdev_mtu", netdev_mtu),
    FIELD(INT, struct diag_port, "active_mtu", active_mtu),
    FIELD(INT, struct diag_port, "rate_bps", rate_bps),
    FIELD(INT, struct diag_port, "device", device),
    FIELD(KNOWN, struct diag_port, "opened", is_opened),
    FIELD(KNOWN, struct diag_port, "software", is_software),
    FIELD(INT, struct diag_port, "rp_filter", rp_filter),
    FIELD(INT, struct diag_port, "arp_ignore", arp_ignore),
    FIELD(KNOWN, struct diag_port, "bonded", is_bonded),
    FIELD_TEXT(struct diag_port, "master", master),
    FIELD(INT, struct diag_port, "addresses", n_addresses),
    FIELD(INT, struct diag_port, "pcie_lanes", pcie_lanes),
    FIELD(INT, struct diag_port, "pcie_lanes_max", pcie_lanes_max),
    FIELD(INT, struct diag_port, "pcie_mts", pcie_mts),
    FIELD(INT, struct diag_port, "pcie_mts_max", pcie_mts_max),
    FIELD(KNOWN, struct diag_port, "gids_cut", gids_cut),
};

static const struct field use_fields[] = {
    FIELD_TEXT(struct diag_use, "peer", peer),
    FIELD_TEXT(struct diag_use, "local_port", local_port),
    FIELD_TEXT(struct diag_use, "remote_port", remote_port),
    FIELD_TEXT(struct diag_use, "local_gid", local_gid),
    FIELD_TEXT(struct diag_use, "remote_gid", remote_gid),
    FIELD(INT, struct diag_use, "path_mtu", path_mtu),
    FIELD(INT, struct diag_use, "vanished_mtu", vanished_mtu),
    FIELD(INT, struct diag_use, "timed_bytes", timed_bytes),
    FIELD(INT, struct diag_use, "best_bps", best_bps),
    FIELD(INT, struct diag_use, "rtt_ns", rtt_ns),
};

static const struct field wait_fields[] = {
    FIELD_TEXT(struct diag_wait, "peer", peer),
    FIELD(INT, struct diag_wait, "waited_ns", waited_ns),
};

static const struct field event_fields[] = {
    FIELD_TEXT(struct diag_event, "type", type),
    FIELD_TEXT(struct diag_event, "port", port),
    FIELD_TEXT(struct diag_event, "device", device),
    FIELD(INT, struct diag_event, "at_ns", at_ns),
};

static const struct field error_fields[] = {
    FIELD_TEXT(struct diag_error, "object", error.object),
    FIELD_TEXT(struct diag_error, "message", error.message),
    FIELD_SMALL(struct diag_error, "errno", error.sys_errno, INT_MAX, 0),
    FIELD_SMALL(struct diag_error, "wc_status", error.wc_status, INT_MAX, 0),
    FIELD_TEXT(struct diag_error, "peer", peer),
    FIELD(INT, struct diag_error, "at_ns", at_ns),
};

static const struct field host_fields[] = {
    FIELD_TEXT(struct diag_host, "name", name),
    FIELD(BOOL, struct diag_host, "observed", was_observed),
    FIELD(FLAG, struct diag_host, "vanished", has_vanished),
    FIELD(FLAG, struct diag_host, "hung", has_hung),
    FIELD_TEXT(struct diag_host, "state", state),
    FIELD(INT, struct diag_host, "memlock_bytes", memlock_bytes),
    FIELD_TEXT(struct diag_host, "policy", policy),
    FIELD(INT, struct diag_host, "gid_index", gid_index),
    FIELD_INT_OR(struct diag_host, "subnet_len", subnet_len, DIAG_SUBNET_LEN),
    FIELD_TEXT(struct diag_host, "hca_list", hca_list),
    FIELD(KNOWN, struct diag_host, "merges_nics", merges_nics),
    FIELD(KNOWN, struct diag_host, "forwards_ip", forwards_ip),
    FIELD(KNOWN, struct diag_host, "management_down", management_down),
};

static const struct field cable_fields[] = {
    FIELD_TEXT(struct diag_cable, "from", from),
    FIELD_TEXT(struct diag_cable, "from_port", from_port),
    FIELD_TEXT(struct diag_cable, "to", to),
    FIELD_TEXT(struct diag_cable, "to_port", to_port),
    FIELD_INT_OR(struct diag_cable, "rate_bps", rate_bps, 0),
};

/* ---- ports ---- */

static json_t *encode_counters(const struct diag_port *port)
{
    json_t *object = json_object();

    for (int i = 0; i < DIAG_N_COUNTERS; i++) {
        field_put_int(object, diag_counter_name((enum diag_counter)i), port->counters[i]);
    }
    return object;
}

static void put_gids(json_t *object, const struct diag_port *port)
{
    json_t *gids = json_array();

    for (uint32_t j = 0; j < port->n_gids; j++) {
        json_t *gid = json_object();

        fields_put(gid, FIELDS(gid_fields), &port->gids[j]);
        json_array_append_new(gids, gid);
    }
    json_object_set_new(object, "gids", gids);
}

static json_t *encode_ports(const struct diag_port *ports, uint32_t n)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < n; i++) {
        json_t *object = json_object();

        fields_put(object, FIELDS(port_fields), &ports[i]);
        if (ports[i].has_gids) {
            put_gids(object, &ports[i]);
        }
        json_object_set_new(object, "counters", encode_counters(&ports[i]));
        json_array_append_new(array, object);
    }
    return array;
}

static void decode_gid(struct field_cursor *at, const json_t *object,
                       struct diag_gid *out)
{
    fields_get(at, object, FIELDS(gid_fields), out);
    if (io_ip_is_v4(&out->ip) && out->prefix_len > 32) {
        field_bad(at, "prefix_len", "is out of range");
        out->prefix_len = IO_UNKNOWN;
    }
}

static void decode_counters(struct field_cursor *at, const json_t *object,
                            struct diag_port *out)
{
    for (int i = 0; i < DIAG_N_COUNTERS; i++) {
        const char *name = diag_counter_name((enum diag_counter)i);

        out->counters[i] = field_get_int(at, object, name, IO_UNKNOWN);
    }
}

static void decode_port(struct field_cursor *at, const json_t *object,
                        struct diag_port *out)
{
    uint32_t n;
    const json_t *gids = field_get_list(at, object, "gids", DIAG_GIDS_MAX, &n);

    fields_get(at, object, FIELDS(port_fields), out);
    decode_counters(at, json_object_get(object, "counters"), out);
    out->has_gids = gids != NULL;
    for (uint32_t i = 0; i < n; i++) {
        size_t mark;
        const json_t *item = field_enter(at, gids, "gids", i, &mark);

        if (item != NULL) {
            decode_gid(at, item, &out->gids[out->n_gids++]);
        }
        field_leave(at, mark);
    }
}

static struct diag_port *decode_ports(struct field_cursor *at, const json_t *object,
                                      uint32_t *out_n)
{
    const json_t *list = field_get_list(at, object, "ports", LIST_MAX, out_n);
    struct diag_port *ports = weft_calloc(*out_n + 1, sizeof(*ports));

    for (uint32_t i = 0; i < *out_n; i++) {
        size_t mark;
        const json_t *item = field_enter(at, list, "ports", i, &mark);

        if (item != NULL) {
            decode_port(at, item, &ports[i]);
        }
        field_leave(at, mark);
    }
    return ports;
}

/* ---- errors ---- */

static void put_value(json_t *object, const char *name, enum weft_kind kind,
                      int64_t number, const char *text)
{
    json_t *value = kind == WEFT_KIND_INT ? json_integer(number) : json_string(text);

    json_object_set_new(object, name, value != NULL ? value : json_string("?"));
}

static json_t *encode_values(const struct weft_error *error)
{
    json_t *object = json_object();

    for (uint32_t i = 0; i < error->n_values; i++) {
        const struct weft_value *value = &error->values[i];

        put_value(object, weft_value_name(value->name), weft_value_kind(value->name),
                  value->number, value->text);
    }
    return object;
}

json_t *diag_error_encode(const struct diag_error *failure)
{
    json_t *object = json_object();
    char phase[WEFT_PHASE_TEXT_BYTES];

    field_put_text(object, "status", weft_status_name(failure->error.status));
    field_put_text(object, "phase", weft_error_phase_text(&failure->error, phase));
    fields_put(object, FIELDS(error_fields), failure);
    field_put_known(object, "hearsay",
                    failure->source == DIAG_MAYBE_OWN ? DIAG_UNKNOWN
                    : failure->source == DIAG_HEARSAY ? DIAG_YES
                                                      : DIAG_NO);
    json_object_set_new(object, "values", encode_values(&failure->error));
    return object;
}

static json_t *encode_errors(const struct diag_error *errors, uint32_t n)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < n; i++) {
        json_array_append_new(array, diag_error_encode(&errors[i]));
    }
    return array;
}

static weft_status status_by_name(const char *name)
{
    for (int status = WEFT_OK; status >= WEFT_ERR_ENVIRONMENT; status--) {
        if (strcmp(weft_status_name((weft_status)status), name) == 0) {
            return (weft_status)status;
        }
    }
    return WEFT_ERR_PROTOCOL;
}

static void decode_error(struct field_cursor *at, const json_t *object,
                         struct diag_error *out)
{
    struct weft_error *error = &out->error;
    char status[32];
    char phase[WEFT_PHASE_TEXT_BYTES];
    enum diag_known hearsay;
    json_t *values = json_object_get(object, "values");
    const char *name;
    json_t *value;

    field_get_text(at, object, "status", status, sizeof(status));
    error->status = status_by_name(status);
    field_get_text(at, object, "phase", phase, sizeof(phase));
    weft_error_set_phase(error, phase);
    fields_get(at, object, FIELDS(error_fields), out);
    hearsay = field_get_known(at, object, "hearsay");
    out->source = hearsay == DIAG_NO    ? DIAG_OWN
                  : hearsay == DIAG_YES ? DIAG_HEARSAY
                                        : DIAG_MAYBE_OWN;
    json_object_foreach(values, name, value)
    {
        if (json_is_integer(value)) {
            weft_error_int(error, weft_value_find(name), json_integer_value(value));
        } else if (json_is_string(value)) {
            weft_error_text(error, weft_value_find(name), json_string_value(value));
        } else {
            field_bad(at, "values", "must be integers and texts");
        }
    }
}

weft_status diag_error_decode(const json_t *object, struct diag_error *out,
                              struct weft_error *error)
{
    struct field_cursor at = {.status = WEFT_OK, .error = error};

    *out = (struct diag_error){.at_ns = IO_UNKNOWN};
    if (!json_is_object(object)) {
        field_bad(&at, "", "must be an object");
        return at.status;
    }
    decode_error(&at, object, out);
    return at.status;
}

/* Returns the list `key` of errors. */
static struct diag_error *decode_errors(struct field_cursor *at, const json_t *object,
                                        const char *key, uint32_t *out_n)
{
    const json_t *list = field_get_list(at, object, key, LIST_MAX, out_n);
    struct diag_error *errors = weft_calloc(*out_n + 1, sizeof(*errors));
    size_t mark;

    for (uint32_t i = 0; i < *out_n; i++) {
        decode_error(at, field_enter(at, list, key, i, &mark), &errors[i]);
        field_leave(at, mark);
    }
    return errors;
}

/* ---- hosts ---- */

static json_t *encode_uses(const struct diag_host *host)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < host->n_uses; i++) {
        json_t *use = json_object();

        fields_put(use, FIELDS(use_fields), &host->uses[i]);
        json_array_append_new(array, use);
    }
    return array;
}

static json_t *encode_waits(const struct diag_host *host)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < host->n_waits; i++) {
        json_t *wait = json_object();

        field_put_text(wait, "for", weft_wait_name(host->waits[i].what));
        fields_put(wait, FIELDS(wait_fields), &host->waits[i]);
        json_array_append_new(array, wait);
    }
    return array;
}

static json_t *encode_events(const struct diag_host *host)
{
    json_t *events = json_array();

    for (uint32_t i = 0; i < host->n_events; i++) {
        json_t *event = json_object();

        fields_put(event, FIELDS(event_fields), &host->events[i]);
        json_array_append_new(events, event);
    }
    return events;
}

static json_t *encode_described(const struct diag_host *host)
{
    json_t *described = json_array();

    for (uint32_t i = 0; i < host->n_described; i++) {
        json_t *one = json_object();

        field_put_text(one, "peer", host->described[i].peer);
        json_object_set_new(
            one, "ports",
            encode_ports(host->described[i].ports, host->described[i].n_ports));
        json_array_append_new(described, one);
    }
    return described;
}

json_t *diag_host_encode(const struct diag_host *host)
{
    json_t *object = json_object();

    fields_put(object, FIELDS(host_fields), host);
    json_object_set_new(object, "ports", encode_ports(host->ports, host->n_ports));
    json_object_set_new(object, "errors", encode_errors(host->errors, host->n_errors));
    if (host->n_left_out > 0) {
        json_object_set_new(object, "left_out",
                            encode_errors(host->left_out, host->n_left_out));
    }
    if (host->n_waits > 0) {
        json_object_set_new(object, "waits", encode_waits(host));
    }
    if (!host->has_events && host->n_events > 0) {
        json_object_set_new(object, "events_cut", json_true());
    }
    if (host->has_events || host->n_events > 0) {
        json_object_set_new(object, "events", encode_events(host));
    }
    if (host->has_uses) {
        json_object_set_new(object, "uses", encode_uses(host));
    }
    json_object_set_new(object, "told", encode_described(host));
    return object;
}

static void decode_waits(struct field_cursor *at, const json_t *object,
                         struct diag_host *out)
{
    uint32_t n;
    const json_t *waits = field_get_list(at, object, "waits", LIST_MAX, &n);
    size_t mark;

    out->waits = weft_calloc(n + 1, sizeof(*out->waits));
    for (uint32_t i = 0; i < n; i++) {
        const json_t *item = field_enter(at, waits, "waits", i, &mark);
        struct diag_wait *wait = &out->waits[out->n_waits];
        char name[32];

        field_get_text(at, item, "for", name, sizeof(name));
        fields_get(at, item, FIELDS(wait_fields), wait);
        /* An unknown one, or one without a peer, leads to no host. */
        out->n_waits += weft_wait_find(name, &wait->what) && wait->peer[0] != '\0';
        field_leave(at, mark);
    }
}

static void decode_uses(struct field_cursor *at, const json_t *object,
                        struct diag_host *out)
{
    const json_t *uses = field_get_list(at, object, "uses", LIST_MAX, &out->n_uses);
    size_t mark;

    out->has_uses = uses != NULL;
    out->uses = weft_calloc(out->n_uses + 1, sizeof(*out->uses));
    for (uint32_t i = 0; i < out->n_uses; i++) {
        fields_get(at, field_enter(at, uses, "uses", i, &mark), FIELDS(use_fields),
                   &out->uses[i]);
        field_leave(at, mark);
    }
}

static void decode_events(struct field_cursor *at, const json_t *object,
                          struct diag_host *out)
{
    const json_t *events = field_get_list(at, object, "events", LIST_MAX, &out->n_events);
    size_t mark;

    out->has_events = !field_get_bool(at, object, "events_cut") && events != NULL;
    out->events = weft_calloc(out->n_events + 1, sizeof(*out->events));
    for (uint32_t i = 0; i < out->n_events; i++) {
        fields_get(at, field_enter(at, events, "events", i, &mark), FIELDS(event_fields),
                   &out->events[i]);
        field_leave(at, mark);
    }
}

static void decode_described(struct field_cursor *at, const json_t *object,
                             struct diag_host *out)
{
    uint32_t n;
    const json_t *described = field_get_list(at, object, "told", LIST_MAX, &n);
    size_t mark;

    out->described = weft_calloc(n + 1, sizeof(*out->described));
    for (uint32_t i = 0; i < n; i++) {
        const json_t *item = field_enter(at, described, "told", i, &mark);

        field_get_text(at, item, "peer", out->described[i].peer,
                       sizeof(out->described[i].peer));
        out->described[i].ports = decode_ports(at, item, &out->described[i].n_ports);
        out->n_described = i + 1;
        field_leave(at, mark);
    }
}

static void decode_host(struct field_cursor *at, const json_t *object,
                        struct diag_host *out)
{
    fields_get(at, object, FIELDS(host_fields), out);
    decode_uses(at, object, out);
    decode_waits(at, object, out);
    out->ports = decode_ports(at, object, &out->n_ports);
    out->errors = decode_errors(at, object, "errors", &out->n_errors);
    out->left_out = decode_errors(at, object, "left_out", &out->n_left_out);
    decode_events(at, object, out);
    decode_described(at, object, out);
}

weft_status diag_host_decode(const json_t *object, struct diag_host *out,
                             struct weft_error *error)
{
    struct field_cursor at = {.status = WEFT_OK, .error = error};

    *out = (struct diag_host){.name = ""};
    decode_host(&at, object, out);
    return at.status;
}

/* ---- the document ---- */

static json_t *encode_cables(const struct diag_input *input)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < input->n_cables; i++) {
        json_t *object = json_object();

        fields_put(object, FIELDS(cable_fields), &input->cables[i]);
        json_array_append_new(array, object);
    }
    return array;
}

json_t *diag_observations_encode(const struct diag_input *input)
{
    json_t *document = json_object();
    json_t *hosts = json_array();

    json_object_set_new(document, "schema_version", json_integer(1));
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        json_array_append_new(hosts, diag_host_encode(&input->hosts[i]));
    }
    json_object_set_new(document, "hosts", hosts);
    if (input->rank_order.is_known) {
        json_object_set_new(document, "rank_order",
                            json_pack("{s:i, s:i, s:s}", "missing",
                                      (int)input->rank_order.missing, "better_missing",
                                      (int)input->rank_order.better_missing,
                                      "better_order", input->rank_order.better_order));
    }
    if (input->n_cables > 0) {
        json_object_set_new(document, "cables", encode_cables(input));
    }
    return document;
}

static void decode_rank_order(struct field_cursor *at, const json_t *object,
                              struct diag_rank_order *out)
{
    if (object == NULL) {
        return;
    }
    int64_t missing = field_get_int(at, object, "missing", 0);
    int64_t better = field_get_int(at, object, "better_missing", 0);

    out->is_known = json_object_get(object, "missing") != NULL &&
                    json_object_get(object, "better_missing") != NULL;
    if (!json_is_object(object) || missing < 0 || missing > UINT32_MAX || better < 0 ||
        better > UINT32_MAX) {
        field_bad(at, "rank_order", "must say how many neighbours share no cable");
        return;
    }
    out->missing = (uint32_t)missing;
    out->better_missing = (uint32_t)better;
    field_get_text(at, object, "better_order", out->better_order,
                   sizeof(out->better_order));
}

static void decode_cables(struct field_cursor *at, const json_t *document,
                          struct diag_input *out)
{
    const json_t *cables =
        field_get_list(at, document, "cables", CABLES_MAX, &out->n_cables);
    size_t mark;

    out->cables = weft_calloc(out->n_cables + 1, sizeof(*out->cables));
    for (uint32_t i = 0; i < out->n_cables; i++) {
        fields_get(at, field_enter(at, cables, "cables", i, &mark), FIELDS(cable_fields),
                   &out->cables[i]);
        field_leave(at, mark);
    }
}

weft_status diag_observations_decode(const json_t *document, struct diag_input *out,
                                     struct weft_error *error)
{
    struct field_cursor at = {.status = WEFT_OK, .error = error};
    uint32_t n;
    const json_t *hosts = field_get_list(&at, document, "hosts", HOSTS_MAX, &n);

    *out = (struct diag_input){.hosts = NULL};
    if (field_get_int(&at, document, "schema_version", 0) != 1) {
        field_bad(&at, "schema_version", "must be 1");
        return at.status;
    }
    if (hosts == NULL) {
        field_bad(&at, "hosts", "must be a list");
        return at.status;
    }
    out->hosts = weft_calloc(n + 1, sizeof(*out->hosts));
    for (uint32_t i = 0; i < n; i++) {
        size_t mark;
        const json_t *item = field_enter(&at, hosts, "hosts", i, &mark);

        decode_host(&at, item, &out->hosts[i]);
        out->n_hosts = i + 1;
        field_leave(&at, mark);
    }
    decode_rank_order(&at, json_object_get(document, "rank_order"), &out->rank_order);
    decode_cables(&at, document, out);
    return at.status;
}

/* ---- findings ---- */

static json_t *encode_evidence(const struct diag_finding *finding)
{
    json_t *object = json_object();

    for (uint32_t i = 0; i < finding->n_evidence; i++) {
        const struct diag_value *value = &finding->evidence[i];

        put_value(object, value->name, value->kind, value->number, value->text);
    }
    return object;
}

/* Adds for each candidate its code, the question that decides it, and the command that answers the
 * question. Without candidates, the question is how both ends are configured. */
static void encode_candidates(const struct diag_finding *finding, json_t *evidence)
{
    for (uint32_t i = 0; i < finding->n_candidates; i++) {
        const struct diag_entry *entry = finding->candidates[i];
        struct weft_text question = {0};
        char key[24];

        weft_text_add(&question, "whether %s", entry->cause);
        weft_format(key, sizeof(key), "candidate_%u", i + 1);
        field_put_text(evidence, key, entry->code);
        weft_format(key, sizeof(key), "question_%u", i + 1);
        field_put_text(evidence, key, question.bytes);
        weft_format(key, sizeof(key), "to_decide_%u", i + 1);
        field_put_text(evidence, key, entry->decide);
        weft_text_fini(&question);
    }
    if (finding->entry->id == DIAG_UNDETERMINED && finding->n_candidates == 0) {
        field_put_text(evidence, "question_1",
                       "what the ports, addresses and settings of both ends are");
        field_put_text(evidence, "to_decide_1", finding->entry->decide);
    }
}

static json_t *encode_behind(const struct diag_finding *finding)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < finding->n_behind && i < DIAG_BEHIND_MAX; i++) {
        const struct diag_behind *behind = &finding->behind[i];
        json_t *object = json_object();

        field_put_text(object, "host", behind->host);
        field_put_text(object, "for", weft_wait_name(behind->what));
        field_put_text(object, "peer", behind->peer);
        json_array_append_new(array, object);
    }
    return array;
}

json_t *diag_findings_encode(const struct diag_findings *findings)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < findings->n; i++) {
        const struct diag_finding *finding = &findings->items[i];
        json_t *object = json_object();
        json_t *where = json_object();
        json_t *evidence = encode_evidence(finding);
        const char *const keys[] = {"host", "port", "peer"};
        const char *const values[] = {finding->host, finding->port, finding->peer};

        for (size_t j = 0; j < 3; j++) {
            json_t *text = values[j][0] != '\0' ? json_string(values[j]) : NULL;

            json_object_set_new(where, keys[j], text != NULL ? text : json_null());
        }
        encode_candidates(finding, evidence);
        json_object_set_new(object, "code", json_string(finding->entry->code));
        json_object_set_new(object, "severity",
                            json_string(diag_severity_name(finding->severity)));
        json_object_set_new(object, "where", where);
        json_object_set_new(object, "evidence", evidence);
        json_object_set_new(object, "cause", json_string(finding->entry->cause));
        json_object_set_new(object, "remedy", json_string(finding->entry->remedy));
        if (finding->n_behind > 0) {
            json_object_set_new(object, "behind", encode_behind(finding));
            json_object_set_new(object, "n_behind", json_integer(finding->n_behind));
        }
        json_array_append_new(array, object);
    }
    return array;
}
