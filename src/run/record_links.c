#include "run/record_private.h"

#include <stdlib.h>

#include "conn/journal.h"
#include "io/addr.h"

bool record_gid(const char *text, union ibv_gid *out)
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

void record_connections(struct record_decoder *decoder, json_t *from)
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

void record_completions(struct record_decoder *decoder, json_t *from)
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
