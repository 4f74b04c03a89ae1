#include "run/record.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "conn/journal.h"
#include "diag/fields.h"
#include "diag/observations.h"
#include "io/addr.h"
#include "run/facts.h"

#define LIST_MAX (1u << 20)

/* ---- fields ---- */

static const struct field host_fields[] = {
    FIELD(U32, struct host, "row", row),
    FIELD_ENUM(struct host, "state", state, HOST_DEAD),
    FIELD_ENUM(struct host, "failed_in", failed_in, HOST_DEAD),
    FIELD(BOOL, struct host, "events_cut", are_events_cut),
    FIELD(INT, struct host, "jobs_started_ns", jobs_started_ns),
    FIELD(INT, struct host, "jobs_ended_ns", jobs_ended_ns),
};

static const struct field row_fields[] = {
    FIELD(BOOL, struct host_row_result, "done", is_done),
    FIELD_ENUM(struct host_row_result, "algorithm", algorithm, WEFT_N_ALGORITHMS - 1),
    FIELD(U64, struct host_row_result, "wrong", n_wrong),
    FIELD(U64, struct host_row_result, "first_wrong", first_wrong),
};

static const struct field connection_fields[] = {
    FIELD(U32, struct host_connection, "to", to),
    FIELD(U32, struct host_connection, "rail", rail),
    FIELD_TEXT(struct host_connection, "local_port", local_port),
    FIELD_TEXT(struct host_connection, "remote_port", remote_port),
    FIELD(IP, struct host_connection, "local_gid", local_gid),
    FIELD(IP, struct host_connection, "remote_gid", remote_gid),
    FIELD_ENUM(struct host_connection, "gid_type", gid_type, INT_MAX),
    FIELD(U32, struct host_connection, "path_mtu", path_mtu),
    FIELD(U32, struct host_connection, "vanished_mtu", vanished_mtu),
    FIELD(U32, struct host_connection, "qps", n_qps),
    FIELD(INT, struct host_connection, "setup_ns", setup_ns),
    FIELD_ENUM(struct host_connection, "transport", transport, WEFT_N_TRANSPORTS - 1),
    FIELD_TEXT(struct host_connection, "why", why),
    FIELD(U32, struct host_connection, "channels", n_channels),
    FIELD(U64, struct host_connection, "timed_bytes", pace.n_bytes),
    FIELD(U64, struct host_connection, "best_bps", pace.best_bps),
    FIELD(INT, struct host_connection, "rtt_ns", rtt_ns),
};

static const struct field queue_fields[] = {
    FIELD_TEXT(struct conn_journal_entry, "peer", peer),
    FIELD(BOOL, struct conn_journal_entry, "connector", is_connector),
    FIELD(U32, struct conn_journal_entry, "epoch", epoch),
    FIELD(U32, struct conn_journal_entry, "rail", rail),
    FIELD(U32, struct conn_journal_entry, "qp", qp),
    FIELD(BOOL, struct conn_journal_entry, "send", is_send),
    FIELD(U64, struct conn_journal_entry, "n", n),
    FIELD_TEXT(struct conn_journal_entry, "digest", digest),
};

/* A list, because there are many. */
static const struct field completion_row[] = {
    FIELD(U8, struct conn_completion, "status", status),
    FIELD(U8, struct conn_completion, "opcode", opcode),
    FIELD(BOOL, struct conn_completion, "has_imm", has_imm),
    FIELD(U32, struct conn_completion, "imm", imm),
    FIELD(U32, struct conn_completion, "n_bytes", n_bytes),
};

static const struct field event_fields[] = {
    FIELD_ENUM(struct host_event, "type", type, INT_MAX),
    FIELD(U32, struct host_event, "device", device),
    FIELD(U8, struct host_event, "port", port),
    FIELD_TEXT(struct host_event, "name", name),
    FIELD(INT, struct host_event, "at_ns", at_ns),
};

static const struct field flow_row[] = {
    FIELD(U32, struct host, "failovers", flows.failovers),
    FIELD(U32, struct host, "returns", flows.returns),
    FIELD(U32, struct host, "lanes_peak", relayed.lanes_peak),
    FIELD(U32, struct host, "refused", relayed.refused),
    FIELD(U64, struct host, "bytes", relayed.bytes),
    FIELD(U64, struct host, "memory_peak", relayed.memory_peak),
};

/* ---- encoding ---- */

/* The peer is the number of a member. */
static json_t *encode_error(const struct host *host)
{
    struct diag_error failure = {.error = host->error,
                                 .at_ns = host->error_ns,
                                 .source =
                                     host->error_is_hearsay ? DIAG_HEARSAY : DIAG_OWN};

    if (host->error_peer != HOST_NO_MEMBER) {
        weft_format(failure.peer, sizeof(failure.peer), "%u", host->error_peer);
    }
    return diag_error_encode(&failure);
}

static json_t *encode_rows(const struct host *host)
{
    json_t *array = json_array();

    for (uint32_t row = 0; row < host->config.n_rows; row++) {
        const struct host_row_result *result = &host->results[row];
        json_t *object = json_object(), *finished = json_array();

        for (uint32_t i = 0;
             result->finished_ns != NULL && i <= host->config.rows[row].repeat; i++) {
            json_array_append_new(finished, json_integer(result->finished_ns[i]));
        }
        fields_put_all(object, FIELDS(row_fields), result);
        json_object_set_new(object, "finished_ns", finished);
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *encode_connections(const struct host *host)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < host->n_connections; i++) {
        const struct host_connection *c = &host->connections[i];
        json_t *object = json_object(), *via = json_array();

        for (uint32_t k = 0; k < c->n_via; k++) {
            json_array_append_new(via, json_integer(c->via[k]));
        }
        fields_put_all(object, FIELDS(connection_fields), c);
        json_object_set_new(object, "via", via);
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *encode_completions(const struct host *host)
{
    json_t *array = json_array();

    for (size_t i = 0; i < host->journal.n; i++) {
        const struct conn_journal_entry *entry = &host->journal.entries[i];
        json_t *object = json_object(), *first = json_array();

        for (uint32_t k = 0; k < entry->n && k < CONN_JOURNAL_FIRST; k++) {
            json_array_append_new(
                first, fields_encode_row(FIELDS(completion_row), &entry->first[k]));
        }
        fields_put_all(object, FIELDS(queue_fields), entry);
        json_object_set_new(object, "first", first);
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *encode_events(const struct host *host)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < host->n_events; i++) {
        json_t *object = json_object();

        fields_put_all(object, FIELDS(event_fields), &host->events[i]);
        json_array_append_new(array, object);
    }
    return array;
}

/* Only the members; the reasons are in the facts. */
static json_t *encode_left_out(const struct host *host)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < host->n_left_out; i++) {
        json_array_append_new(array, json_integer(host->left_out[i].peer));
    }
    return array;
}

static json_t *encode_facts(const struct host *host)
{
    const struct diag_host *recorded = run_record_facts(host);
    struct diag_host facts = {.name = ""};
    json_t *object;

    if (recorded != NULL) {
        return diag_host_encode(recorded);
    }
    run_facts(host, &facts);
    object = diag_host_encode(&facts);
    diag_host_fini(&facts);
    return object;
}

json_t *run_record_encode(const struct host *host)
{
    json_t *record = json_pack("{s:i, s:s, s:I}", "schema", RUN_RECORD_SCHEMA, "host",
                               host->env->name, "rank", (json_int_t)host->config.rank);

    fields_put_all(record, FIELDS(host_fields), host);
    json_object_set_new(record, "facts", encode_facts(host));
    json_object_set_new(record, "error", encode_error(host));
    json_object_set_new(record, "rows", encode_rows(host));
    json_object_set_new(record, "connections", encode_connections(host));
    json_object_set_new(record, "completions", encode_completions(host));
    json_object_set_new(record, "events", encode_events(host));
    json_object_set_new(record, "flows", fields_encode_row(FIELDS(flow_row), host));
    json_object_set_new(record, "left_out", encode_left_out(host));
    return record;
}

/* ---- decoding ---- */

/* The environment of a host that ran in another process: its name and its facts. */
struct record_env {
    struct io_env base;
    struct io_hostinfo info;
    struct diag_host facts; /* Owned, until taken */
    bool has_facts;         /* decoded from a record */
};

struct record_decoder {
    struct host *host;
    weft_ns origin_ns;
    struct field_cursor at;
    struct weft_error first; /* what the cursor found */
};

/* Converts a time of the host's clock. Any number may arrive; 0 is never. */
static weft_ns moment(const struct record_decoder *decoder, weft_ns at)
{
    return at == 0 ? 0 : (weft_ns)((uint64_t)at - (uint64_t)decoder->origin_ns);
}

/* Returns the member whose number the text is, or HOST_NO_MEMBER. */
static uint32_t member_of(const struct record_decoder *decoder, const char *text)
{
    char *end;
    unsigned long member = strtoul(text, &end, 10);
    bool is_number = text[0] >= '0' && text[0] <= '9' && *end == '\0';

    return is_number && member < decoder->host->config.n_members ? (uint32_t)member
                                                                 : HOST_NO_MEMBER;
}

static void decode_error(struct record_decoder *decoder, const json_t *from)
{
    struct host *host = decoder->host;
    struct diag_error failure;
    struct weft_error error = {0};

    if (diag_error_decode(from, &failure, &error) != WEFT_OK) {
        field_bad(&decoder->at, "error", error.message);
        return;
    }
    host->error = failure.error;
    host->error_peer = member_of(decoder, failure.peer);
    host->error_is_hearsay = failure.source == DIAG_HEARSAY;
    host->error_ns = failure.at_ns == IO_UNKNOWN ? 0 : moment(decoder, failure.at_ns);
}

static void decode_row(struct record_decoder *decoder, const json_t *from, uint32_t row)
{
    struct host_row_result *result = &decoder->host->results[row];
    uint32_t n = decoder->host->config.rows[row].repeat + 1, n_finished;
    const json_t *finished =
        field_get_list(&decoder->at, from, "finished_ns", n, &n_finished);

    fields_get(&decoder->at, from, FIELDS(row_fields), result);
    result->finished_ns = weft_calloc(n, sizeof(*result->finished_ns));
    if (n_finished != n && (result->is_done || n_finished != 0)) {
        field_bad(&decoder->at, "finished_ns", "must have a time for each run, or none");
    }
    for (uint32_t i = 0; i < n_finished; i++) {
        result->finished_ns[i] =
            moment(decoder, json_integer_value(json_array_get(finished, i)));
    }
}

static void decode_rows(struct record_decoder *decoder, const json_t *record)
{
    struct field_cursor *at = &decoder->at;
    uint32_t n;
    const json_t *rows =
        field_get_list(at, record, "rows", decoder->host->config.n_rows, &n);
    size_t mark;

    if (n != decoder->host->config.n_rows) {
        field_bad(at, "rows", "must be as many as the run has");
        return;
    }
    for (uint32_t row = 0; row < n; row++) {
        decode_row(decoder, field_enter(at, rows, "rows", row, &mark), row);
        field_leave(at, mark);
    }
}

static void decode_events(struct record_decoder *decoder, const json_t *record)
{
    struct host *host = decoder->host;
    struct field_cursor *at = &decoder->at;
    size_t mark;
    const json_t *events =
        field_get_list(at, record, "events", HOST_EVENTS_MAX, &host->n_events);

    for (uint32_t i = 0; i < host->n_events; i++) {
        struct host_event *event = &host->events[i];

        fields_get(at, field_enter(at, events, "events", i, &mark), FIELDS(event_fields),
                   event);
        event->at_ns = moment(decoder, event->at_ns);
        field_leave(at, mark);
    }
}

static void decode_left_out(struct record_decoder *decoder, const json_t *record)
{
    struct host *host = decoder->host;
    const json_t *list =
        field_get_list(&decoder->at, record, "left_out", LIST_MAX, &host->n_left_out);

    host->left_out = weft_calloc((size_t)host->n_left_out + 1, sizeof(*host->left_out));
    for (uint32_t i = 0; i < host->n_left_out; i++) {
        const json_t *peer = json_array_get(list, i);

        if (!json_is_integer(peer)) {
            field_bad(&decoder->at, "left_out", "must be numbers of members");
            return;
        }
        host->left_out[i].peer = (uint32_t)json_integer_value(peer);
    }
}

/* Reads whom the host waited for from its facts, which name members by their numbers. */
static void take_waits(struct record_decoder *decoder, const struct diag_host *facts)
{
    struct host *host = decoder->host;

    host->waits = weft_calloc((size_t)facts->n_waits + 1, sizeof(*host->waits));
    for (uint32_t i = 0; i < facts->n_waits; i++) {
        uint32_t member = member_of(decoder, facts->waits[i].peer);

        if (member == HOST_NO_MEMBER) {
            field_bad(&decoder->at, "waits", "must name members");
            return;
        }
        host->waits[host->n_waits++] = (struct host_wait){facts->waits[i].what, member};
        host->waited_ns = facts->waits[i].waited_ns;
    }
}

/* Checks that the ports of peers are those of members. */
static void check_described(struct record_decoder *decoder, const struct diag_host *facts)
{
    for (uint32_t i = 0; i < facts->n_described; i++) {
        if (member_of(decoder, facts->described[i].peer) == HOST_NO_MEMBER) {
            field_bad(&decoder->at, "told", "must be ports of members");
        }
    }
}

/* Decodes the members that the connection passes. */
static void decode_via(struct record_decoder *decoder, const json_t *from,
                       struct host_connection *out)
{
    const json_t *via =
        field_get_list(&decoder->at, from, "via", HOST_VIA_MAX, &out->n_via);

    for (uint32_t i = 0; i < out->n_via; i++) {
        json_int_t member = json_integer_value(json_array_get(via, i));

        if (member < 0 || member >= decoder->host->config.n_members) {
            field_bad(&decoder->at, "via", "must be numbers of members");
            member = 0;
        }
        out->via[i] = (uint32_t)member;
    }
}

static void decode_connections(struct record_decoder *decoder, const json_t *record)
{
    struct host *host = decoder->host;
    struct field_cursor *at = &decoder->at;
    size_t mark;
    const json_t *list =
        field_get_list(at, record, "connections", LIST_MAX, &host->n_connections);

    host->connections =
        weft_calloc((size_t)host->n_connections + 1, sizeof(*host->connections));
    for (uint32_t i = 0; i < host->n_connections; i++) {
        struct host_connection *out = &host->connections[i];
        const json_t *from = field_enter(at, list, "connections", i, &mark);

        fields_get(at, from, FIELDS(connection_fields), out);
        decode_via(decoder, from, out);
        if (out->to >= host->config.n_ranks) {
            field_bad(at, "to", "must be a rank");
        }
        field_leave(at, mark);
    }
}

/* A queue without completions has no entry. One with more than CONN_JOURNAL_FIRST has the first. */
static void decode_queue(struct record_decoder *decoder, const json_t *from,
                         struct conn_journal_entry *out)
{
    struct field_cursor *at = &decoder->at;
    uint32_t n;
    const json_t *first = field_get_list(at, from, "first", CONN_JOURNAL_FIRST, &n);

    fields_get(at, from, FIELDS(queue_fields), out);
    if (out->n < 1 || n != (out->n < CONN_JOURNAL_FIRST ? out->n : CONN_JOURNAL_FIRST)) {
        field_bad(at, "first", "must be the first of n completions");
    }
    for (uint32_t k = 0; k < n; k++) {
        fields_decode_row(at, json_array_get(first, k), FIELDS(completion_row),
                          &out->first[k]);
    }
}

static void decode_completions(struct record_decoder *decoder, const json_t *record)
{
    struct conn_journal *journal = &decoder->host->journal;
    struct field_cursor *at = &decoder->at;
    uint32_t n;
    size_t mark;
    const json_t *list = field_get_list(at, record, "completions", LIST_MAX, &n);

    journal->entries = weft_calloc((size_t)n + 1, sizeof(*journal->entries));
    for (uint32_t i = 0; i < n; i++) {
        decode_queue(decoder, field_enter(at, list, "completions", i, &mark),
                     &journal->entries[i]);
        field_leave(at, mark);
    }
    journal->n = n;
}

static void decode_facts(struct record_decoder *decoder, const json_t *facts)
{
    struct record_env *env =
        weft_container_of(decoder->host->env, struct record_env, base);
    struct weft_error error = {0};

    if (!json_is_object(facts)) {
        field_bad(&decoder->at, "facts", "must be an object");
    } else if (diag_host_decode(facts, &env->facts, &error) != WEFT_OK) {
        field_bad(&decoder->at, "facts", error.message);
    }
    env->has_facts = true;
    env->info.memlock_bytes = env->facts.memlock_bytes;
    take_waits(decoder, &env->facts);
    check_described(decoder, &env->facts);
}

static void decode(struct record_decoder *decoder, const json_t *record)
{
    struct host *host = decoder->host;
    struct field_cursor *at = &decoder->at;

    if (field_get_int(at, record, "schema", 0) != RUN_RECORD_SCHEMA) {
        field_bad(at, "schema", "is not this version's");
        return;
    }
    if (field_get_int(at, record, "rank", -1) != host->config.rank) {
        field_bad(at, "rank", "is another's");
        return;
    }
    fields_get(at, record, FIELDS(host_fields), host);
    host->jobs_started_ns = moment(decoder, host->jobs_started_ns);
    host->jobs_ended_ns = moment(decoder, host->jobs_ended_ns);
    decode_facts(decoder, json_object_get(record, "facts"));
    decode_error(decoder, json_object_get(record, "error"));
    decode_rows(decoder, record);
    decode_connections(decoder, record);
    decode_events(decoder, record);
    decode_completions(decoder, record);
    fields_decode_row(at, json_object_get(record, "flows"), FIELDS(flow_row), host);
    decode_left_out(decoder, record);
}

/* ---- life ---- */

static const struct io_hostinfo *hostinfo_of(struct io_env *env)
{
    return &weft_container_of(env, struct record_env, base)->info;
}

static const char *setting_of(struct io_env *env, const char *name)
{
    (void)env;
    (void)name;
    return NULL; /* settings are part of the facts */
}

static const struct io_env_ops record_env_ops = {.hostinfo = hostinfo_of,
                                                 .setting = setting_of};

static struct record_env *record_env_of(const struct host *host)
{
    return host->env->ops == &record_env_ops
               ? weft_container_of(host->env, struct record_env, base)
               : NULL;
}

const struct diag_host *run_record_facts(const struct host *host)
{
    struct record_env *env = record_env_of(host);

    return env != NULL && env->has_facts ? &env->facts : NULL;
}

bool run_record_take_facts(const struct host *host, struct diag_host *out)
{
    struct record_env *env = record_env_of(host);

    if (env == NULL) {
        return false;
    }
    *out = env->facts;
    free(out->uses);
    free(out->errors);
    free(out->events);
    out->uses = NULL;
    out->errors = NULL;
    out->events = NULL;
    out->n_uses = out->n_errors = out->n_events = 0;
    weft_format(out->name, sizeof(out->name), "%s", host->env->name);
    env->facts = (struct diag_host){.name = ""};
    return true;
}

static struct host *create(const char *name, const struct host_config *config)
{
    struct host *host = weft_calloc(1, sizeof(*host));
    struct record_env *env = weft_calloc(1, sizeof(*env));

    env->base.ops = &record_env_ops;
    env->info.memlock_bytes = IO_UNKNOWN;
    weft_format(env->base.name, sizeof(env->base.name), "%s", name);
    host->env = &env->base;
    host->config = *config;
    host->error_peer = HOST_NO_MEMBER;
    host->peers = weft_calloc(config->n_members, sizeof(*host->peers));
    host->results = weft_calloc(config->n_rows + 1, sizeof(*host->results));
    return host;
}

/* Creates a host in HOST_DEAD, without results but with all arrays that readers expect. */
static struct host *create_dead(const char *name, const struct host_config *config)
{
    struct host *host = create(name, config);

    host->state = HOST_DEAD;
    for (uint32_t row = 0; row < config->n_rows; row++) {
        host->results[row].finished_ns =
            weft_calloc(config->rows[row].repeat + 1, sizeof(weft_ns));
    }
    return host;
}

struct host *run_record_decode(const json_t *record, const char *name,
                               const struct host_config *config, weft_ns origin_ns,
                               struct weft_error *error)
{
    struct record_decoder decoder = {.origin_ns = origin_ns};

    if (record == NULL) {
        return create_dead(name, config);
    }
    decoder.host = create(name, config);
    decoder.at = (struct field_cursor){
        .status = WEFT_OK, .error = &decoder.first, .needs_all = true};
    decode(&decoder, record);
    if (decoder.at.status == WEFT_OK) {
        return decoder.host;
    }
    weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_RECORD,
              "the record of %s is malformed: %s", name, decoder.first.message);
    run_record_free(decoder.host);
    return create_dead(name, config);
}

void run_record_free(struct host *host)
{
    if (host == NULL) {
        return;
    }
    for (uint32_t row = 0; row < host->config.n_rows; row++) {
        free(host->results[row].finished_ns);
    }
    free(host->results);
    free(host->connections);
    free(host->left_out);
    free(host->waits);
    conn_journal_fini(&host->journal);
    free(host->peers);
    diag_host_fini(&weft_container_of(host->env, struct record_env, base)->facts);
    free(weft_container_of(host->env, struct record_env, base));
    free(host);
}
