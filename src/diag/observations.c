/* Converts observations and findings to JSON. */
#include "diag/observations.h"

#include <string.h>

#include "base/text.h"

static void put_int(json_t *object, const char *key, int64_t number)
{
    if (number != IO_UNKNOWN) {
        json_object_set_new(object, key, json_integer(number));
    }
}

/* Omits text that is not UTF-8, because a peer's name arrives over the network. */
static void put_text(json_t *object, const char *key, const char *text)
{
    json_t *value = text[0] != '\0' ? json_string(text) : NULL;

    if (value != NULL) {
        json_object_set_new(object, key, value);
    }
}

static void put_known(json_t *object, const char *key, enum diag_known value)
{
    if (value != DIAG_UNKNOWN) {
        json_object_set_new(object, key, json_boolean(value == DIAG_YES));
    }
}

static json_t *encode_gid(const struct diag_gid *gid)
{
    json_t *object = json_object();
    char text[IO_IP_TEXT_BYTES];

    put_text(object, "gid", io_ip_format(&gid->ip, text, sizeof(text)));
    if (gid->type != 0) {
        put_text(object, "type", gid->type == 2 ? "RoCE v2" : "RoCE v1");
    }
    put_int(object, "prefix_len", gid->prefix_len);
    put_int(object, "index", gid->index);
    put_int(object, "vlan_id", gid->vlan_id);
    return object;
}

static json_t *encode_counters(const struct diag_port *port)
{
    json_t *object = json_object();

    for (int i = 0; i < DIAG_N_COUNTERS; i++) {
        put_int(object, diag_counter_name((enum diag_counter)i), port->counters[i]);
    }
    return object;
}

static void put_gids(json_t *object, const struct diag_port *port)
{
    json_t *gids = json_array();

    for (uint32_t j = 0; j < port->n_gids; j++) {
        json_array_append_new(gids, encode_gid(&port->gids[j]));
    }
    json_object_set_new(object, "gids", gids);
}

static json_t *encode_ports(const struct diag_port *ports, uint32_t n)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < n; i++) {
        const struct diag_port *port = &ports[i];
        json_t *object = json_object();

        put_text(object, "name", port->name);
        if (port->is_up != DIAG_UNKNOWN) {
            put_text(object, "state", port->is_up == DIAG_YES ? "up" : "down");
        }
        put_int(object, "netdev_mtu", port->netdev_mtu);
        put_int(object, "active_mtu", port->active_mtu);
        put_int(object, "rate_bps", port->rate_bps);
        put_int(object, "device", port->device);
        put_known(object, "opened", port->is_opened);
        put_known(object, "software", port->is_software);
        put_int(object, "rp_filter", port->rp_filter);
        put_int(object, "arp_ignore", port->arp_ignore);
        put_known(object, "bonded", port->is_bonded);
        put_text(object, "master", port->master);
        put_int(object, "addresses", port->n_addresses);
        put_int(object, "pcie_lanes", port->pcie_lanes);
        put_int(object, "pcie_lanes_max", port->pcie_lanes_max);
        put_int(object, "pcie_mts", port->pcie_mts);
        put_int(object, "pcie_mts_max", port->pcie_mts_max);
        if (port->has_gids) {
            put_known(object, "gids_cut", port->gids_cut);
            put_gids(object, port);
        }
        json_object_set_new(object, "counters", encode_counters(port));
        json_array_append_new(array, object);
    }
    return array;
}

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

static json_t *encode_evidence(const struct diag_finding *finding)
{
    json_t *object = json_object();

    for (uint32_t i = 0; i < finding->n_evidence; i++) {
        const struct diag_value *value = &finding->evidence[i];

        put_value(object, value->name, value->kind, value->number, value->text);
    }
    return object;
}

static json_t *encode_error(const struct diag_error *failure)
{
    const struct weft_error *error = &failure->error;
    json_t *object = json_object();
    char phase[WEFT_PHASE_TEXT_BYTES];

    put_text(object, "status", weft_status_name(error->status));
    put_text(object, "phase", weft_error_phase_text(error, phase));
    put_text(object, "object", error->object);
    put_text(object, "message", error->message);
    if (error->sys_errno != 0) {
        put_int(object, "errno", error->sys_errno);
    }
    if (error->wc_status != 0) {
        put_int(object, "wc_status", error->wc_status);
    }
    put_text(object, "peer", failure->peer);
    put_int(object, "at_ns", failure->at_ns);
    put_known(object, "hearsay",
              failure->source == DIAG_MAYBE_OWN ? DIAG_UNKNOWN
              : failure->source == DIAG_HEARSAY ? DIAG_YES
                                                : DIAG_NO);
    json_object_set_new(object, "values", encode_values(error));
    return object;
}

static json_t *encode_uses(const struct diag_host *host)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < host->n_uses; i++) {
        json_t *use = json_object();

        put_text(use, "peer", host->uses[i].peer);
        put_text(use, "local_port", host->uses[i].local_port);
        put_text(use, "remote_port", host->uses[i].remote_port);
        put_text(use, "local_gid", host->uses[i].local_gid);
        put_text(use, "remote_gid", host->uses[i].remote_gid);
        put_int(use, "path_mtu", host->uses[i].path_mtu);
        put_int(use, "vanished_mtu", host->uses[i].vanished_mtu);
        put_int(use, "timed_bytes", host->uses[i].timed_bytes);
        put_int(use, "best_bps", host->uses[i].best_bps);
        put_int(use, "rtt_ns", host->uses[i].rtt_ns);
        json_array_append_new(array, use);
    }
    return array;
}

static json_t *encode_waits(const struct diag_host *host)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < host->n_waits; i++) {
        json_t *wait = json_object();

        put_text(wait, "for", weft_wait_name(host->waits[i].what));
        put_text(wait, "peer", host->waits[i].peer);
        put_int(wait, "waited_ns", host->waits[i].waited_ns);
        json_array_append_new(array, wait);
    }
    return array;
}

static json_t *encode_events(const struct diag_host *host)
{
    json_t *events = json_array();

    for (uint32_t i = 0; i < host->n_events; i++) {
        json_t *event = json_object();

        put_text(event, "type", host->events[i].type);
        put_text(event, "port", host->events[i].port);
        put_text(event, "device", host->events[i].device);
        put_int(event, "at_ns", host->events[i].at_ns);
        json_array_append_new(events, event);
    }
    return events;
}

json_t *diag_host_encode(const struct diag_host *host)
{
    json_t *object = json_object();
    json_t *errors = json_array();
    json_t *told = json_array();

    put_text(object, "name", host->name);
    json_object_set_new(object, "observed", json_boolean(host->was_observed));
    if (host->has_vanished) {
        json_object_set_new(object, "vanished", json_true());
    }
    if (host->has_hung) {
        json_object_set_new(object, "hung", json_true());
    }
    put_text(object, "state", host->state);
    put_int(object, "memlock_bytes", host->memlock_bytes);
    put_text(object, "policy", host->policy);
    put_int(object, "gid_index", host->gid_index);
    if (host->subnet_len != DIAG_SUBNET_LEN) {
        put_int(object, "subnet_len", host->subnet_len);
    }
    put_text(object, "hca_list", host->hca_list);
    put_known(object, "merges_nics", host->merges_nics);
    put_known(object, "forwards_ip", host->forwards_ip);
    json_object_set_new(object, "ports", encode_ports(host->ports, host->n_ports));
    for (uint32_t i = 0; i < host->n_errors; i++) {
        json_array_append_new(errors, encode_error(&host->errors[i]));
    }
    json_object_set_new(object, "errors", errors);
    if (host->n_left_out > 0) {
        json_t *left_out = json_array();

        for (uint32_t i = 0; i < host->n_left_out; i++) {
            json_array_append_new(left_out, encode_error(&host->left_out[i]));
        }
        json_object_set_new(object, "left_out", left_out);
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
    for (uint32_t i = 0; i < host->n_told; i++) {
        json_t *one = json_object();

        put_text(one, "peer", host->told[i].peer);
        json_object_set_new(one, "ports",
                            encode_ports(host->told[i].ports, host->told[i].n_ports));
        json_array_append_new(told, one);
    }
    json_object_set_new(object, "told", told);
    return object;
}

static json_t *encode_cables(const struct diag_input *input)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < input->n_cables; i++) {
        const struct diag_cable *cable = &input->cables[i];
        json_t *object = json_object();

        put_text(object, "from", cable->from);
        put_text(object, "from_port", cable->from_port);
        put_text(object, "to", cable->to);
        put_text(object, "to_port", cable->to_port);
        if (cable->rate_bps > 0) {
            put_int(object, "rate_bps", cable->rate_bps);
        }
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
        put_text(evidence, key, entry->code);
        weft_format(key, sizeof(key), "question_%u", i + 1);
        put_text(evidence, key, question.bytes);
        weft_format(key, sizeof(key), "to_decide_%u", i + 1);
        put_text(evidence, key, entry->decide);
        weft_text_fini(&question);
    }
    if (finding->entry->id == DIAG_UNDETERMINED && finding->n_candidates == 0) {
        put_text(evidence, "question_1",
                 "what the ports, addresses and settings of both ends are");
        put_text(evidence, "to_decide_1", finding->entry->decide);
    }
}

static json_t *encode_behind(const struct diag_finding *finding)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < finding->n_behind && i < DIAG_BEHIND_MAX; i++) {
        const struct diag_behind *behind = &finding->behind[i];
        json_t *object = json_object();

        put_text(object, "host", behind->host);
        put_text(object, "for", weft_wait_name(behind->what));
        put_text(object, "peer", behind->peer);
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
