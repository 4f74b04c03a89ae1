/* Reads recorded observations from JSON, which is not trusted. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "diag/observations.h"

#define HOSTS_MAX 4096
#define CABLES_MAX 65536
#define LIST_MAX 4096

/* The position of the decoder, for messages, and its first error. */
struct cursor {
    char path[160];
    weft_status status;
    struct weft_error *error;
};

static void bad(struct cursor *at, const char *key, const char *what)
{
    if (at->status == WEFT_OK) {
        at->status = weft_fail(at->error, WEFT_ERR_INPUT, WEFT_PHASE_OBSERVATIONS,
                               "%s%s: %s", at->path, key, what);
    }
}

static int64_t get_int(struct cursor *at, const json_t *object, const char *key,
                       int64_t absent)
{
    const json_t *value = json_object_get(object, key);

    if (value == NULL) {
        return absent;
    }
    if (!json_is_integer(value)) {
        bad(at, key, "must be an integer");
        return absent;
    }
    return json_integer_value(value);
}

/* Returns a number from 0 to `most`, or IO_UNKNOWN if that is written, or `absent`. */
static int get_small(struct cursor *at, const json_t *object, const char *key, int most,
                     int absent)
{
    int64_t value = get_int(at, object, key, absent);

    if (value != IO_UNKNOWN && (value < 0 || value > most)) {
        bad(at, key, "is out of range");
        return absent;
    }
    return (int)value;
}

static void get_text(struct cursor *at, const json_t *object, const char *key, char *out,
                     size_t out_bytes)
{
    const json_t *value = json_object_get(object, key);

    out[0] = '\0';
    if (value == NULL) {
        return;
    }
    if (!json_is_string(value) || strlen(json_string_value(value)) >= out_bytes) {
        bad(at, key, "must be a text that is not too long");
        return;
    }
    weft_format(out, out_bytes, "%s", json_string_value(value));
}

static bool get_bool(struct cursor *at, const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    if (value != NULL && !json_is_boolean(value)) {
        bad(at, key, "must be true or false");
    }
    return json_is_true(value);
}

/* Returns UNKNOWN if the key is absent. */
static enum diag_known get_known(struct cursor *at, const json_t *object, const char *key)
{
    if (json_object_get(object, key) == NULL) {
        return DIAG_UNKNOWN;
    }
    return get_bool(at, object, key) ? DIAG_YES : DIAG_NO;
}

/* Returns the list `key`; NULL if it is absent, invalid or longer than `max`. */
static const json_t *get_list(struct cursor *at, const json_t *object, const char *key,
                              size_t max, uint32_t *out_n)
{
    const json_t *list = json_object_get(object, key);

    *out_n = 0;
    if (list == NULL) {
        return NULL;
    }
    if (!json_is_array(list) || json_array_size(list) > max) {
        bad(at, key, "must be a list that is not too long");
        return NULL;
    }
    *out_n = (uint32_t)json_array_size(list);
    return list;
}

/* Returns element `i` and appends it to the path; leave() undoes that. NULL if it is not an
 * object. */
static const json_t *go_into(struct cursor *at, const json_t *list, const char *key,
                             uint32_t i, size_t *out_mark)
{
    const json_t *item = json_array_get(list, i);

    *out_mark = strlen(at->path);
    weft_format(at->path + *out_mark, sizeof(at->path) - *out_mark, "%s[%u].", key, i);
    if (!json_is_object(item)) {
        bad(at, "", "must be an object");
        return NULL;
    }
    return item;
}

static void leave(struct cursor *at, size_t mark)
{
    at->path[mark] = '\0';
}

static void decode_gid(struct cursor *at, const json_t *object, struct diag_gid *out)
{
    char text[IO_IP_TEXT_BYTES];
    char type[16];

    get_text(at, object, "gid", text, sizeof(text));
    if (!io_ip_parse(text, &out->ip)) {
        bad(at, "gid", "must be an IP address");
    }
    get_text(at, object, "type", type, sizeof(type));
    out->type = strcmp(type, "RoCE v2") == 0 ? 2 : strcmp(type, "RoCE v1") == 0 ? 1 : 0;
    out->prefix_len =
        get_small(at, object, "prefix_len", io_ip_is_v4(&out->ip) ? 32 : 128, IO_UNKNOWN);
    out->index = get_small(at, object, "index", INT_MAX, IO_UNKNOWN);
    out->vlan_id = get_small(at, object, "vlan_id", 4095, IO_UNKNOWN);
}

static void decode_counters(struct cursor *at, const json_t *object,
                            struct diag_port *out)
{
    for (int i = 0; i < DIAG_N_COUNTERS; i++) {
        const char *name = diag_counter_name((enum diag_counter)i);

        out->counters[i] = get_int(at, object, name, IO_UNKNOWN);
    }
}

static void decode_port(struct cursor *at, const json_t *object, struct diag_port *out)
{
    char state[8];
    uint32_t n;
    const json_t *gids = get_list(at, object, "gids", DIAG_GIDS_MAX, &n);

    diag_port_init(out);
    get_text(at, object, "name", out->name, sizeof(out->name));
    get_text(at, object, "state", state, sizeof(state));
    out->is_up = strcmp(state, "up") == 0     ? DIAG_YES
                 : strcmp(state, "down") == 0 ? DIAG_NO
                                              : DIAG_UNKNOWN;
    out->netdev_mtu = get_int(at, object, "netdev_mtu", IO_UNKNOWN);
    out->active_mtu = get_int(at, object, "active_mtu", IO_UNKNOWN);
    out->rate_bps = get_int(at, object, "rate_bps", IO_UNKNOWN);
    out->device = get_int(at, object, "device", IO_UNKNOWN);
    out->is_opened = get_known(at, object, "opened");
    out->is_software = get_known(at, object, "software");
    out->rp_filter = get_int(at, object, "rp_filter", IO_UNKNOWN);
    out->arp_ignore = get_int(at, object, "arp_ignore", IO_UNKNOWN);
    out->is_bonded = get_known(at, object, "bonded");
    get_text(at, object, "master", out->master, sizeof(out->master));
    out->n_addresses = get_int(at, object, "addresses", IO_UNKNOWN);
    out->pcie_lanes = get_int(at, object, "pcie_lanes", IO_UNKNOWN);
    out->pcie_lanes_max = get_int(at, object, "pcie_lanes_max", IO_UNKNOWN);
    out->pcie_mts = get_int(at, object, "pcie_mts", IO_UNKNOWN);
    out->pcie_mts_max = get_int(at, object, "pcie_mts_max", IO_UNKNOWN);
    decode_counters(at, json_object_get(object, "counters"), out);
    out->gids_cut = get_known(at, object, "gids_cut");
    out->has_gids = gids != NULL;
    for (uint32_t i = 0; i < n; i++) {
        size_t mark;
        const json_t *item = go_into(at, gids, "gids", i, &mark);

        if (item != NULL) {
            decode_gid(at, item, &out->gids[out->n_gids++]);
        }
        leave(at, mark);
    }
}

static struct diag_port *decode_ports(struct cursor *at, const json_t *object,
                                      uint32_t *out_n)
{
    const json_t *list = get_list(at, object, "ports", LIST_MAX, out_n);
    struct diag_port *ports = weft_calloc(*out_n + 1, sizeof(*ports));

    for (uint32_t i = 0; i < *out_n; i++) {
        size_t mark;
        const json_t *item = go_into(at, list, "ports", i, &mark);

        if (item != NULL) {
            decode_port(at, item, &ports[i]);
        }
        leave(at, mark);
    }
    return ports;
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

static void decode_error(struct cursor *at, const json_t *object, struct diag_error *out)
{
    struct weft_error *error = &out->error;
    char status[32];
    char phase[WEFT_PHASE_TEXT_BYTES];
    enum diag_known hearsay;
    json_t *values = json_object_get(object, "values");
    const char *name;
    json_t *value;

    get_text(at, object, "status", status, sizeof(status));
    error->status = status_by_name(status);
    get_text(at, object, "phase", phase, sizeof(phase));
    weft_error_set_phase(error, phase);
    get_text(at, object, "object", error->object, sizeof(error->object));
    get_text(at, object, "message", error->message, sizeof(error->message));
    error->sys_errno = get_small(at, object, "errno", INT_MAX, 0);
    error->wc_status = get_small(at, object, "wc_status", INT_MAX, 0);
    get_text(at, object, "peer", out->peer, sizeof(out->peer));
    out->at_ns = get_int(at, object, "at_ns", IO_UNKNOWN);
    hearsay = get_known(at, object, "hearsay");
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
            bad(at, "values", "must be integers and texts");
        }
    }
}

static void decode_event(struct cursor *at, const json_t *object, struct diag_event *out)
{
    get_text(at, object, "type", out->type, sizeof(out->type));
    get_text(at, object, "port", out->port, sizeof(out->port));
    get_text(at, object, "device", out->device, sizeof(out->device));
    out->at_ns = get_int(at, object, "at_ns", IO_UNKNOWN);
}

static void decode_waits(struct cursor *at, const json_t *object, struct diag_host *out)
{
    uint32_t n;
    const json_t *waits = get_list(at, object, "waits", LIST_MAX, &n);
    size_t mark;

    out->waits = weft_calloc(n + 1, sizeof(*out->waits));
    for (uint32_t i = 0; i < n; i++) {
        const json_t *item = go_into(at, waits, "waits", i, &mark);
        struct diag_wait *wait = &out->waits[out->n_waits];
        char name[32];

        get_text(at, item, "for", name, sizeof(name));
        get_text(at, item, "peer", wait->peer, sizeof(wait->peer));
        wait->waited_ns = get_int(at, item, "waited_ns", IO_UNKNOWN);
        /* An unknown one, or one without a peer, leads to no host. */
        out->n_waits += weft_wait_find(name, &wait->what) && wait->peer[0] != '\0';
        leave(at, mark);
    }
}

static void decode_uses(struct cursor *at, const json_t *object, struct diag_host *out)
{
    const json_t *uses = get_list(at, object, "uses", LIST_MAX, &out->n_uses);
    size_t mark;

    out->has_uses = uses != NULL;
    out->uses = weft_calloc(out->n_uses + 1, sizeof(*out->uses));
    for (uint32_t i = 0; i < out->n_uses; i++) {
        const json_t *item = go_into(at, uses, "uses", i, &mark);
        struct diag_use *use = &out->uses[i];

        get_text(at, item, "peer", use->peer, sizeof(use->peer));
        get_text(at, item, "local_port", use->local_port, sizeof(use->local_port));
        get_text(at, item, "remote_port", use->remote_port, sizeof(use->remote_port));
        get_text(at, item, "local_gid", use->local_gid, sizeof(use->local_gid));
        get_text(at, item, "remote_gid", use->remote_gid, sizeof(use->remote_gid));
        use->path_mtu = get_int(at, item, "path_mtu", IO_UNKNOWN);
        use->vanished_mtu = get_int(at, item, "vanished_mtu", IO_UNKNOWN);
        use->timed_bytes = get_int(at, item, "timed_bytes", IO_UNKNOWN);
        use->best_bps = get_int(at, item, "best_bps", IO_UNKNOWN);
        use->rtt_ns = get_int(at, item, "rtt_ns", IO_UNKNOWN);
        leave(at, mark);
    }
}

static void decode_host(struct cursor *at, const json_t *object, struct diag_host *out)
{
    uint32_t n_told;
    const json_t *errors = get_list(at, object, "errors", LIST_MAX, &out->n_errors);
    const json_t *left_out = get_list(at, object, "left_out", LIST_MAX, &out->n_left_out);
    const json_t *events = get_list(at, object, "events", LIST_MAX, &out->n_events);
    const json_t *told = get_list(at, object, "told", LIST_MAX, &n_told);
    size_t mark;

    get_text(at, object, "name", out->name, sizeof(out->name));
    out->was_observed = get_bool(at, object, "observed");
    out->has_vanished = get_bool(at, object, "vanished");
    out->has_hung = get_bool(at, object, "hung");
    get_text(at, object, "state", out->state, sizeof(out->state));
    out->memlock_bytes = get_int(at, object, "memlock_bytes", IO_UNKNOWN);
    get_text(at, object, "policy", out->policy, sizeof(out->policy));
    out->gid_index = get_int(at, object, "gid_index", IO_UNKNOWN);
    out->subnet_len = get_int(at, object, "subnet_len", DIAG_SUBNET_LEN);
    get_text(at, object, "hca_list", out->hca_list, sizeof(out->hca_list));
    out->merges_nics = get_known(at, object, "merges_nics");
    out->forwards_ip = get_known(at, object, "forwards_ip");
    decode_uses(at, object, out);
    decode_waits(at, object, out);
    out->ports = decode_ports(at, object, &out->n_ports);
    out->errors = weft_calloc(out->n_errors + 1, sizeof(*out->errors));
    for (uint32_t i = 0; i < out->n_errors; i++) {
        decode_error(at, go_into(at, errors, "errors", i, &mark), &out->errors[i]);
        leave(at, mark);
    }
    out->left_out = weft_calloc(out->n_left_out + 1, sizeof(*out->left_out));
    for (uint32_t i = 0; i < out->n_left_out; i++) {
        decode_error(at, go_into(at, left_out, "left_out", i, &mark), &out->left_out[i]);
        leave(at, mark);
    }
    out->has_events = !get_bool(at, object, "events_cut") && events != NULL;
    out->events = weft_calloc(out->n_events + 1, sizeof(*out->events));
    for (uint32_t i = 0; i < out->n_events; i++) {
        decode_event(at, go_into(at, events, "events", i, &mark), &out->events[i]);
        leave(at, mark);
    }
    out->told = weft_calloc(n_told + 1, sizeof(*out->told));
    for (uint32_t i = 0; i < n_told; i++) {
        const json_t *item = go_into(at, told, "told", i, &mark);

        get_text(at, item, "peer", out->told[i].peer, sizeof(out->told[i].peer));
        out->told[i].ports = decode_ports(at, item, &out->told[i].n_ports);
        out->n_told = i + 1;
        leave(at, mark);
    }
}

static void decode_rank_order(struct cursor *at, const json_t *object,
                              struct diag_rank_order *out)
{
    if (object == NULL) {
        return;
    }
    int64_t missing = get_int(at, object, "missing", 0);
    int64_t better = get_int(at, object, "better_missing", 0);

    out->is_known = json_object_get(object, "missing") != NULL &&
                    json_object_get(object, "better_missing") != NULL;
    if (!json_is_object(object) || missing < 0 || missing > UINT32_MAX || better < 0 ||
        better > UINT32_MAX) {
        bad(at, "rank_order", "must say how many neighbours share no cable");
        return;
    }
    out->missing = (uint32_t)missing;
    out->better_missing = (uint32_t)better;
    get_text(at, object, "better_order", out->better_order, sizeof(out->better_order));
}

static void decode_cables(struct cursor *at, const json_t *document,
                          struct diag_input *out)
{
    uint32_t n;
    const json_t *cables = get_list(at, document, "cables", CABLES_MAX, &n);

    out->cables = weft_calloc(n + 1, sizeof(*out->cables));
    for (uint32_t i = 0; i < n; i++) {
        struct diag_cable *cable = &out->cables[out->n_cables++];
        size_t mark;
        const json_t *item = go_into(at, cables, "cables", i, &mark);

        get_text(at, item, "from", cable->from, sizeof(cable->from));
        get_text(at, item, "from_port", cable->from_port, sizeof(cable->from_port));
        get_text(at, item, "to", cable->to, sizeof(cable->to));
        get_text(at, item, "to_port", cable->to_port, sizeof(cable->to_port));
        cable->rate_bps = get_int(at, item, "rate_bps", 0);
        leave(at, mark);
    }
}

weft_status diag_observations_decode(const json_t *document, struct diag_input *out,
                                     struct weft_error *error)
{
    struct cursor at = {.status = WEFT_OK, .error = error};
    uint32_t n;
    const json_t *hosts = get_list(&at, document, "hosts", HOSTS_MAX, &n);

    *out = (struct diag_input){.hosts = NULL};
    if (get_int(&at, document, "schema_version", 0) != 1) {
        bad(&at, "schema_version", "must be 1");
        return at.status;
    }
    if (hosts == NULL) {
        bad(&at, "hosts", "must be a list");
        return at.status;
    }
    out->hosts = weft_calloc(n + 1, sizeof(*out->hosts));
    for (uint32_t i = 0; i < n; i++) {
        size_t mark;
        const json_t *item = go_into(&at, hosts, "hosts", i, &mark);

        decode_host(&at, item, &out->hosts[i]);
        out->n_hosts = i + 1;
        leave(&at, mark);
    }
    decode_rank_order(&at, json_object_get(document, "rank_order"), &out->rank_order);
    decode_cables(&at, document, out);
    return at.status;
}

weft_status diag_host_decode(const json_t *object, struct diag_host *out,
                             struct weft_error *error)
{
    struct cursor at = {.status = WEFT_OK, .error = error};

    *out = (struct diag_host){.name = ""};
    decode_host(&at, object, out);
    return at.status;
}
