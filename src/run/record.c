#include "run/record.h"

#include <string.h>

#include "base/text.h"
#include "diag/observations.h"
#include "run/facts.h"

static json_t *gid_text(const union ibv_gid *gid)
{
    struct io_ip ip;
    char text[IO_IP_TEXT_BYTES];

    memcpy(ip.bytes, gid->raw, sizeof(ip.bytes));
    return json_string(io_ip_format(&ip, text, sizeof(text)));
}

/* Returns "?" for a name that is not UTF-8, because names come from peers. */
static json_t *text_of(const char *text)
{
    json_t *value = json_string(text);

    return value != NULL ? value : json_string("?");
}

/* The peer is the number of a member. */
static json_t *encode_error(const struct host *host)
{
    struct diag_error failure = {.error = host->error,
                                 .at_ns = host->error_ns,
                                 .source =
                                     host->error_is_hearsay ? DIAG_HEARSAY : DIAG_OWN};

    if (host->error_peer != HOST_NOBODY) {
        weft_format(failure.peer, sizeof(failure.peer), "%u", host->error_peer);
    }
    return diag_error_encode(&failure);
}

static json_t *encode_rows(const struct host *host)
{
    json_t *array = json_array();

    for (uint32_t row = 0; row < host->config.n_rows; row++) {
        const struct host_row_result *result = &host->results[row];
        json_t *finished = json_array();

        for (uint32_t i = 0;
             result->finished_ns != NULL && i <= host->config.rows[row].repeat; i++) {
            json_array_append_new(finished, json_integer(result->finished_ns[i]));
        }
        json_array_append_new(
            array, json_pack("{s:b, s:i, s:o, s:I, s:I}", "done", result->is_done,
                             "algorithm", (int)result->algorithm, "finished_ns", finished,
                             "wrong", (json_int_t)result->n_wrong, "first_wrong",
                             (json_int_t)result->first_wrong));
    }
    return array;
}

static json_t *encode_connections(const struct host *host)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < host->n_connections; i++) {
        const struct host_connection *c = &host->connections[i];
        json_t *via = json_array();

        for (uint32_t k = 0; k < c->n_via; k++) {
            json_array_append_new(via, json_integer(c->via[k]));
        }
        json_array_append_new(
            array,
            json_pack("{s:I, s:o, s:I, s:o, s:o, s:o, s:o, s:i, s:I, s:I, s:I, s:I, s:i, "
                      "s:s, s:I, s:I, s:I, s:I}",
                      "to", (json_int_t)c->to, "via", via, "rail", (json_int_t)c->rail,
                      "local_port", text_of(c->local_port), "remote_port",
                      text_of(c->remote_port), "local_gid", gid_text(&c->local_gid),
                      "remote_gid", gid_text(&c->remote_gid), "gid_type",
                      (int)c->gid_type, "path_mtu", (json_int_t)c->path_mtu,
                      "vanished_mtu", (json_int_t)c->vanished_mtu, "qps",
                      (json_int_t)c->n_qps, "setup_ns", (json_int_t)c->setup_ns,
                      "transport", (int)c->transport, "why", c->why, "channels",
                      (json_int_t)c->n_channels, "timed_bytes",
                      (json_int_t)c->pace.n_bytes, "best_bps",
                      (json_int_t)c->pace.best_bps, "rtt_ns", (json_int_t)c->rtt_ns));
    }
    return array;
}

static json_t *encode_completion(const struct conn_completion *completion)
{
    return json_pack("[i, i, b, I, I]", completion->status, completion->opcode,
                     completion->has_imm, (json_int_t)completion->imm,
                     (json_int_t)completion->n_bytes);
}

static json_t *encode_completions(const struct host *host)
{
    json_t *array = json_array();

    for (size_t i = 0; i < host->journal.n; i++) {
        const struct conn_journal_entry *entry = &host->journal.entries[i];
        json_t *first = json_array();

        for (uint32_t k = 0; k < entry->n && k < CONN_JOURNAL_FIRST; k++) {
            json_array_append_new(first, encode_completion(&entry->first[k]));
        }
        json_array_append_new(
            array,
            json_pack("{s:o, s:b, s:I, s:I, s:I, s:b, s:I, s:s, s:o}", "peer",
                      text_of(entry->peer), "connector", entry->is_connector, "epoch",
                      (json_int_t)entry->epoch, "rail", (json_int_t)entry->rail, "qp",
                      (json_int_t)entry->qp, "send", entry->is_send, "n",
                      (json_int_t)entry->n, "digest", entry->digest, "first", first));
    }
    return array;
}

static json_t *encode_events(const struct host *host)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < host->n_events; i++) {
        const struct host_event *event = &host->events[i];

        json_array_append_new(
            array, json_pack("{s:i, s:i, s:i, s:o, s:I}", "type", (int)event->type,
                             "device", (int)event->device, "port", event->port, "name",
                             text_of(event->name), "at_ns", (json_int_t)event->at_ns));
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

/* In the order that decode_flows() expects. */
static json_t *encode_flows(const struct host *host)
{
    return json_pack("[I, I, I, I, I, I]", (json_int_t)host->flows.failovers,
                     (json_int_t)host->flows.returns,
                     (json_int_t)host->relayed.lanes_peak,
                     (json_int_t)host->relayed.refused, (json_int_t)host->relayed.bytes,
                     (json_int_t)host->relayed.memory_peak);
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
    return json_pack("{s:i, s:s, s:I, s:I, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
                     "s:o, s:b, s:I, s:I}",
                     "schema", RUN_RECORD_SCHEMA, "host", host->env->name, "rank",
                     (json_int_t)host->config.rank, "row", (json_int_t)host->row, "state",
                     (int)host->state, "failed_in", (int)host->failed_in, "facts",
                     encode_facts(host), "error", encode_error(host), "rows",
                     encode_rows(host), "connections", encode_connections(host),
                     "completions", encode_completions(host), "events",
                     encode_events(host), "flows", encode_flows(host), "left_out",
                     encode_left_out(host), "events_cut", host->are_events_cut,
                     "jobs_started_ns", (json_int_t)host->jobs_started_ns,
                     "jobs_ended_ns", (json_int_t)host->jobs_ended_ns);
}
