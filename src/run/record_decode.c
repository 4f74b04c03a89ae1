#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "conn/journal.h"
#include "diag/observations.h"
#include "io/addr.h"
#include "run/record.h"

/* The environment of a host that ran in another process: its name and its facts. */
struct record_env {
    struct io_env base;
    struct io_hostinfo info;
    struct diag_host facts; /* Owned, until taken */
    bool has_facts;         /* decoded from a record */
};

/* Decoding state. json_unpack() checks types; the decoders check values. */
struct record_decoder {
    struct host *host;
    weft_ns origin_ns;
    const char *problem; /* first error, or NULL */
};

static void record_bad(struct record_decoder *decoder, const char *problem)
{
    decoder->problem = decoder->problem != NULL ? decoder->problem : problem;
}

static void record_text(char *out, size_t n_bytes, const char *text)
{
    weft_format(out, n_bytes, "%s", text);
}

static weft_ns moment(const struct record_decoder *decoder, json_int_t at)
{
    return at == 0 ? 0 : at - decoder->origin_ns;
}

/* Returns the member whose number the text is, or HOST_NOBODY. */
static uint32_t member_of(const struct record_decoder *decoder, const char *text)
{
    char *end;
    unsigned long member = strtoul(text, &end, 10);
    bool is_number = text[0] >= '0' && text[0] <= '9' && *end == '\0';

    return is_number && member < decoder->host->config.n_members ? (uint32_t)member
                                                                 : HOST_NOBODY;
}

static void decode_error(struct record_decoder *decoder, const json_t *from)
{
    struct host *host = decoder->host;
    struct diag_error failure;
    struct weft_error ignored = {0};

    if (diag_error_decode(from, &failure, &ignored) != WEFT_OK) {
        record_bad(decoder, "error");
        return;
    }
    host->error = failure.error;
    host->error_peer = member_of(decoder, failure.peer);
    host->error_is_hearsay = failure.source == DIAG_HEARSAY;
    host->error_ns = failure.at_ns == IO_UNKNOWN ? 0 : moment(decoder, failure.at_ns);
}

static void decode_row(struct record_decoder *decoder, json_t *from, uint32_t row)
{
    struct host_row_result *result = &decoder->host->results[row];
    uint32_t n = decoder->host->config.rows[row].repeat + 1;
    json_t *finished;
    json_int_t wrong;
    json_int_t first;
    int algorithm;
    int done;

    result->finished_ns = weft_calloc(n, sizeof(*result->finished_ns));
    if (json_unpack(from, "{s:b, s:i, s:o, s:I, s:I}", "done", &done, "algorithm",
                    &algorithm, "finished_ns", &finished, "wrong", &wrong, "first_wrong",
                    &first) != 0 ||
        (json_array_size(finished) != n && (done || json_array_size(finished) != 0))) {
        record_bad(decoder, "row");
        return;
    }
    result->is_done = done != 0;
    result->algorithm = (enum weft_algorithm)algorithm;
    result->n_wrong = (uint64_t)wrong;
    result->first_wrong = (uint64_t)first;
    for (size_t i = 0; i < json_array_size(finished); i++) {
        result->finished_ns[i] =
            moment(decoder, json_integer_value(json_array_get(finished, i)));
    }
}

static void decode_rows(struct record_decoder *decoder, json_t *from)
{
    if (json_array_size(from) != decoder->host->config.n_rows) {
        record_bad(decoder, "rows");
        return;
    }
    for (uint32_t row = 0; row < decoder->host->config.n_rows; row++) {
        decode_row(decoder, json_array_get(from, row), row);
    }
}

static void decode_events(struct record_decoder *decoder, json_t *from)
{
    struct host *host = decoder->host;

    for (size_t i = 0; i < json_array_size(from) && i < HOST_EVENTS_MAX; i++) {
        struct host_event *to;
        const char *name;
        json_int_t at;
        int type;
        int device;
        int port;

        if (json_unpack(json_array_get(from, i), "{s:i, s:i, s:i, s:s, s:I}", "type",
                        &type, "device", &device, "port", &port, "name", &name, "at_ns",
                        &at) != 0) {
            record_bad(decoder, "event");
            return;
        }
        to = &host->events[host->n_events++];
        *to = (struct host_event){.type = (enum ibv_event_type)type,
                                  .device = (uint32_t)device,
                                  .port = (uint8_t)port,
                                  .at_ns = moment(decoder, at)};
        record_text(to->name, sizeof(to->name), name);
    }
}

static void decode_left_out(struct record_decoder *decoder, json_t *from)
{
    struct host *host = decoder->host;

    host->left_out = weft_calloc(json_array_size(from) + 1, sizeof(*host->left_out));
    for (size_t i = 0; i < json_array_size(from); i++) {
        const json_t *peer = json_array_get(from, i);

        if (!json_is_integer(peer)) {
            record_bad(decoder, "left_out");
            return;
        }
        host->left_out[host->n_left_out++].peer = (uint32_t)json_integer_value(peer);
    }
}

static void decode_flows(struct record_decoder *decoder, json_t *from)
{
    struct host *host = decoder->host;
    json_int_t n[6];

    if (json_unpack(from, "[I, I, I, I, I, I!]", &n[0], &n[1], &n[2], &n[3], &n[4],
                    &n[5]) != 0) {
        record_bad(decoder, "flows");
        return;
    }
    host->flows.failovers = (uint32_t)n[0];
    host->flows.returns = (uint32_t)n[1];
    host->relayed.lanes_peak = (uint32_t)n[2];
    host->relayed.refused = (uint32_t)n[3];
    host->relayed.bytes = (uint64_t)n[4];
    host->relayed.memory_peak = (uint64_t)n[5];
}

/* Reads whom the host waited for from its facts, which name members by their numbers. */
static void take_waits(struct record_decoder *decoder, const struct diag_host *facts)
{
    struct host *host = decoder->host;

    host->waits = weft_calloc((size_t)facts->n_waits + 1, sizeof(*host->waits));
    for (uint32_t i = 0; i < facts->n_waits; i++) {
        uint32_t member = member_of(decoder, facts->waits[i].peer);

        if (member == HOST_NOBODY) {
            record_bad(decoder, "waits");
            return;
        }
        host->waits[host->n_waits++] = (struct host_wait){facts->waits[i].what, member};
        host->waited_ns = facts->waits[i].waited_ns;
    }
}

/* Checks that the ports of peers are those of members. */
static void check_told(struct record_decoder *decoder, const struct diag_host *facts)
{
    for (uint32_t i = 0; i < facts->n_told; i++) {
        if (member_of(decoder, facts->told[i].peer) == HOST_NOBODY) {
            record_bad(decoder, "told");
        }
    }
}

/* ---- connections, with their paths and the completions of their queue pairs ---- */

static bool record_gid(const char *text, union ibv_gid *out)
{
    struct io_ip ip;

    if (!io_ip_parse(text, &ip)) {
        return false;
    }
    memcpy(out->raw, ip.bytes, sizeof(out->raw));
    return true;
}

/* Decodes the members that the connection passes. */
static bool decode_via(const struct host *host, const json_t *from,
                       struct host_connection *out)
{
    out->n_via = (uint32_t)json_array_size(from);
    if (!json_is_array(from) || out->n_via > HOST_VIA_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < out->n_via; i++) {
        json_int_t member = json_integer_value(json_array_get(from, i));

        if (member < 0 || member >= host->config.n_members) {
            return false;
        }
        out->via[i] = (uint32_t)member;
    }
    return true;
}

static void record_connections(struct record_decoder *decoder, json_t *from)
{
    struct host *host = decoder->host;
    size_t n = json_array_size(from);

    host->connections = weft_calloc(n + 1, sizeof(*host->connections));
    for (size_t i = 0; i < n; i++) {
        struct host_connection *out = &host->connections[i];
        const char *texts[5];
        json_int_t numbers[10];
        json_t *via;
        int type, transport;

        if (json_unpack(json_array_get(from, i),
                        "{s:I, s:o, s:I, s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:I, "
                        "s:i, s:s, s:I, s:I, s:I, s:I}",
                        "to", &numbers[0], "via", &via, "rail", &numbers[1], "local_port",
                        &texts[0], "remote_port", &texts[1], "local_gid", &texts[2],
                        "remote_gid", &texts[3], "gid_type", &type, "path_mtu",
                        &numbers[2], "vanished_mtu", &numbers[5], "qps", &numbers[3],
                        "setup_ns", &numbers[4], "transport", &transport, "why",
                        &texts[4], "channels", &numbers[6], "timed_bytes", &numbers[7],
                        "best_bps", &numbers[8], "rtt_ns", &numbers[9]) != 0 ||
            transport < 0 || transport >= WEFT_N_TRANSPORTS || numbers[0] < 0 ||
            numbers[0] >= host->config.n_ranks || !decode_via(host, via, out) ||
            !record_gid(texts[2], &out->local_gid) ||
            !record_gid(texts[3], &out->remote_gid)) {
            record_bad(decoder, "connection");
            return;
        }
        out->to = (uint32_t)numbers[0];
        out->rail = (uint32_t)numbers[1];
        record_text(out->local_port, sizeof(out->local_port), texts[0]);
        record_text(out->remote_port, sizeof(out->remote_port), texts[1]);
        out->gid_type = (enum ibv_gid_type)type;
        out->path_mtu = (uint32_t)numbers[2];
        out->vanished_mtu = (uint32_t)numbers[5];
        out->n_qps = (uint32_t)numbers[3];
        out->setup_ns = numbers[4];
        out->n_channels = (uint32_t)numbers[6];
        out->pace.n_bytes = (uint64_t)numbers[7];
        out->pace.best_bps = (uint64_t)numbers[8];
        out->rtt_ns = numbers[9];
        out->transport = (enum weft_transport)transport;
        record_text(out->why, sizeof(out->why), texts[4]);
        host->n_connections++;
    }
}

static bool decode_completion(json_t *from, struct conn_completion *out)
{
    int status;
    int opcode;
    int has_imm;
    json_int_t imm;
    json_int_t n_bytes;

    if (json_unpack(from, "[i, i, b, I, I]", &status, &opcode, &has_imm, &imm,
                    &n_bytes) != 0) {
        return false;
    }
    *out = (struct conn_completion){.status = (uint8_t)status,
                                    .opcode = (uint8_t)opcode,
                                    .has_imm = has_imm != 0,
                                    .imm = (uint32_t)imm,
                                    .n_bytes = (uint32_t)n_bytes};
    return true;
}

static bool decode_queue(json_t *from, struct conn_journal_entry *out)
{
    const char *texts[2];
    json_int_t numbers[4];
    int connector;
    int send;
    json_t *first;

    if (json_unpack(from, "{s:s, s:b, s:I, s:I, s:I, s:b, s:I, s:s, s:o}", "peer",
                    &texts[0], "connector", &connector, "epoch", &numbers[0], "rail",
                    &numbers[1], "qp", &numbers[2], "send", &send, "n", &numbers[3],
                    "digest", &texts[1], "first", &first) != 0 ||
        numbers[3] < 1 ||
        json_array_size(first) !=
            (size_t)(numbers[3] < CONN_JOURNAL_FIRST ? numbers[3] : CONN_JOURNAL_FIRST)) {
        return false;
    }
    *out = (struct conn_journal_entry){.is_connector = connector != 0,
                                       .epoch = (uint32_t)numbers[0],
                                       .rail = (uint32_t)numbers[1],
                                       .qp = (uint32_t)numbers[2],
                                       .is_send = send != 0,
                                       .n = (uint64_t)numbers[3]};
    record_text(out->peer, sizeof(out->peer), texts[0]);
    record_text(out->digest, sizeof(out->digest), texts[1]);
    for (size_t k = 0; k < json_array_size(first); k++) {
        if (!decode_completion(json_array_get(first, k), &out->first[k])) {
            return false;
        }
    }
    return true;
}

static void record_completions(struct record_decoder *decoder, json_t *from)
{
    struct conn_journal *journal = &decoder->host->journal;
    size_t n = json_array_size(from);

    journal->entries = weft_calloc(n + 1, sizeof(*journal->entries));
    for (journal->n = 0; journal->n < n; journal->n++) {
        if (!decode_queue(json_array_get(from, journal->n),
                          &journal->entries[journal->n])) {
            record_bad(decoder, "completions");
            return;
        }
    }
}

/* ---- the whole record ---- */

static void decode(struct record_decoder *decoder, json_t *record)
{
    struct host *host = decoder->host;
    struct record_env *env = weft_container_of(host->env, struct record_env, base);
    json_t *parts[7];
    json_int_t numbers[4];
    json_t *facts;
    struct weft_error ignored = {0};
    int schema;
    int state;
    int failed_in;
    int are_events_cut;

    if (json_unpack(record,
                    "{s:i, s:I, s:I, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
                    "s:b, s:I, s:I}",
                    "schema", &schema, "rank", &numbers[0], "row", &numbers[1], "state",
                    &state, "failed_in", &failed_in, "facts", &facts, "error", &parts[0],
                    "rows", &parts[1], "connections", &parts[2], "events", &parts[3],
                    "completions", &parts[4], "flows", &parts[5], "left_out", &parts[6],
                    "events_cut", &are_events_cut, "jobs_started_ns", &numbers[2],
                    "jobs_ended_ns", &numbers[3]) != 0 ||
        schema != RUN_RECORD_SCHEMA || numbers[0] != host->config.rank ||
        state < HOST_NEW || state > HOST_DEAD) {
        record_bad(decoder, "record");
        return;
    }
    for (size_t i = 1; i < WEFT_LENGTH(parts); i++) {
        if (!json_is_array(parts[i])) {
            record_bad(decoder, "a list");
            return;
        }
    }
    host->row = (uint32_t)numbers[1];
    host->state = (enum host_state)state;
    host->failed_in = (enum host_state)failed_in;
    host->are_events_cut = are_events_cut != 0;
    if (!json_is_object(facts) ||
        diag_host_decode(facts, &env->facts, &ignored) != WEFT_OK) {
        record_bad(decoder, "facts");
    }
    env->has_facts = true;
    env->info.memlock_bytes = env->facts.memlock_bytes;
    take_waits(decoder, &env->facts);
    check_told(decoder, &env->facts);
    host->jobs_started_ns = moment(decoder, numbers[2]);
    host->jobs_ended_ns = moment(decoder, numbers[3]);
    decode_error(decoder, parts[0]);
    decode_rows(decoder, parts[1]);
    record_connections(decoder, parts[2]);
    decode_events(decoder, parts[3]);
    record_completions(decoder, parts[4]);
    decode_flows(decoder, parts[5]);
    decode_left_out(decoder, parts[6]);
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
    record_text(env->base.name, sizeof(env->base.name), name);
    host->env = &env->base;
    host->config = *config;
    host->error_peer = HOST_NOBODY;
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
    decode(&decoder, (json_t *)(uintptr_t)record); /* json_unpack() takes no const */
    if (decoder.problem == NULL) {
        return decoder.host;
    }
    weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_RECORD, "%s of %s is malformed",
              decoder.problem, name);
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
