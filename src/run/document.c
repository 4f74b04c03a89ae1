#include <string.h>

#include "base/text.h"
#include "base/version.h"
#include "diag/observations.h"
#include "nccl/policies.h"
#include "run/asks.h"
#include "run/private.h"

static json_t *text_or_null(const char *text)
{
    json_t *value = text != NULL && text[0] != '\0' ? json_string(text) : NULL;

    return value != NULL ? value : json_null();
}

static json_t *number_or_null(int64_t number, bool is_known)
{
    return is_known ? json_integer(number) : json_null();
}

static const char *host_name(const struct run *run, uint32_t member)
{
    return run->plan->spec.hosts[run->member_hosts[member]].name;
}

static void put(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

/* Returns the symptom as users of the program that the policy models would see it; null if it is
 * the same. */
static json_t *as_met(const struct run *run, const struct host *host)
{
    const struct world_host *of = NULL;
    struct nccl_met_settings settings;
    char text[256];

    for (uint32_t i = 0; i < run->plan->spec.n_hosts && of == NULL; i++) {
        if (strcmp(run->plan->spec.hosts[i].name, host->env->name) == 0) {
            of = &run->plan->spec.hosts[i];
        }
    }
    settings = (struct nccl_met_settings){
        .timeout = run_host_setting(of, "NCCL_IB_TIMEOUT"),
        .retry_cnt = run_host_setting(of, "NCCL_IB_RETRY_CNT"),
        .step_retry_cnt = run_host_setting(of, "NCCL_IB_MQP_RETRY_CNT"),
        .step_retry_ms = run_host_setting(of, "NCCL_IB_MQP_RETRY_SLEEP_MSEC"),
        .fast_fail = run_host_setting(of, "NCCL_MESH_FAST_FAIL"),
    };
    return nccl_as_met(run->policy, &settings, &host->error, text, sizeof(text))
               ? json_string(text)
               : json_null();
}

static json_t *symptom(const struct run *run)
{
    const struct host *host = run_first_failure(run);
    const struct weft_value *of_peer;
    char phase[WEFT_PHASE_TEXT_BYTES];
    char text[256];

    if (host == NULL) {
        return json_null();
    }
    of_peer = weft_error_value(&host->error, WEFT_VALUE_PEER_ERRNO);
    weft_error_format(&host->error, text, sizeof(text));
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:s, s:o}", "phase",
        weft_error_phase_text(&host->error, phase), "errno",
        number_or_null(host->error.sys_errno, host->error.sys_errno != 0), "peer_errno",
        number_or_null(of_peer != NULL ? of_peer->number : 0, of_peer != NULL),
        "wc_status", number_or_null(host->error.wc_status, host->error.wc_status != 0),
        "text", text, "as_met", as_met(run, host));
}

static const char *gid_type_name(enum ibv_gid_type type)
{
    return type == IBV_GID_TYPE_ROCE_V2   ? "RoCE v2"
           : type == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1"
                                          : "IB";
}

static void put_rail(json_t *object, const struct host_connection *c)
{
    bool is_net = c->transport == WEFT_TRANSPORT_NET;
    char local[IO_IP_TEXT_BYTES];
    char remote[IO_IP_TEXT_BYTES];

    rdma_gid_format(&c->local_gid, local, sizeof(local));
    rdma_gid_format(&c->remote_gid, remote, sizeof(remote));
    put(object, "local_port", text_or_null(c->local_port));
    put(object, "remote_port", text_or_null(c->remote_port));
    put(object, "local_gid", text_or_null(is_net ? local : NULL));
    put(object, "remote_gid", text_or_null(is_net ? remote : NULL));
    put(object, "gid_type", text_or_null(is_net ? gid_type_name(c->gid_type) : NULL));
    put(object, "path_mtu", number_or_null(c->path_mtu, is_net));
    put(object, "qps", number_or_null(c->n_qps, is_net));
    put(object, "channels", number_or_null(c->n_channels, !is_net));
}

static json_t *connection(const struct run *run, uint32_t from,
                          const struct host_connection *c)
{
    json_t *object = json_object();
    json_t *via = json_array();

    for (uint32_t i = 0; i < c->n_via; i++) {
        json_array_append_new(via, json_string(host_name(run, c->via[i])));
    }
    put(object, "from", json_integer(from));
    put(object, "to", json_integer(c->to));
    put(object, "from_host", json_string(host_name(run, from)));
    put(object, "to_host", json_string(host_name(run, c->to)));
    put(object, "transport", json_string(weft_transport_name(c->transport)));
    put(object, "reason", json_string(c->why));
    put(object, "rail", json_integer(c->rail));
    put_rail(object, c);
    put(object, "via", via);
    put(object, "setup_ns",
        number_or_null(c->setup_ns, c->transport == WEFT_TRANSPORT_NET));
    return object;
}

static json_t *connections(const struct run *run)
{
    json_t *array = json_array();

    for (uint32_t rank = 0; rank < run->n_ranks; rank++) {
        const struct host *host = run->hosts[rank];

        for (uint32_t i = 0; i < host->n_connections; i++) {
            json_array_append_new(array, connection(run, rank, &host->connections[i]));
        }
    }
    return array;
}

/* The completions of one queue, as its host polled them. */
static json_t *sequence(const char *host, const struct conn_journal_entry *entry)
{
    json_t *first = json_array();

    for (uint32_t i = 0; i < entry->n && i < CONN_JOURNAL_FIRST; i++) {
        char text[64];

        json_array_append_new(first, json_string(conn_completion_format(
                                         &entry->first[i], text, sizeof(text))));
    }
    return json_pack(
        "{s:s, s:o, s:s, s:I, s:I, s:I, s:s, s:I, s:s, s:o}", "host", host, "peer",
        text_or_null(entry->peer), "role", entry->is_connector ? "connector" : "acceptor",
        "epoch", (json_int_t)entry->epoch, "rail", (json_int_t)entry->rail, "qp",
        (json_int_t)entry->qp, "queue", entry->is_send ? "send" : "receive", "count",
        (json_int_t)entry->n, "digest", entry->digest, "first", first);
}

/* Omits killed hosts, because a killed process cannot report its completions. */
static json_t *completions(const struct run *run)
{
    json_t *array = json_array();

    for (uint32_t rank = 0; rank < run->n_members; rank++) {
        const struct host *host = run->hosts[rank];

        for (size_t i = 0; i < host->journal.n && host->state != HOST_DEAD; i++) {
            json_array_append_new(
                array, sequence(host_name(run, rank), &host->journal.entries[i]));
        }
    }
    return array;
}

/* ---- rows ---- */

static bool reduces(enum weft_collective kind)
{
    return kind == WEFT_ALL_REDUCE || kind == WEFT_REDUCE_SCATTER || kind == WEFT_REDUCE;
}

static bool has_root(enum weft_collective kind)
{
    return kind == WEFT_BROADCAST || kind == WEFT_REDUCE;
}

static void put_rates(const struct run *run, uint32_t index, json_t *object)
{
    const struct host_row *row = &run->rows[index];
    const struct run_outcome *outcome = &run->outcomes[index];
    weft_ps limit = run->limits_ps[index];
    bool is_timed = outcome->is_done && outcome->time_ns > 0;

    put(object, "time_ns", number_or_null(outcome->time_ns, outcome->is_done));
    put(object, "alg_bw_gBps",
        is_timed ? json_real((double)row->size_bytes / (double)outcome->time_ns)
                 : json_null());
    put(object, "bus_bw_gBps",
        is_timed ? json_real(run_bus_bandwidth(run, row, outcome->time_ns * 1000) / 1e9)
                 : json_null());
    put(object, "limit_gBps",
        limit > 0 ? json_real(run_bus_bandwidth(run, row, limit) / 1e9) : json_null());
    put(object, "limit_ns", number_or_null(limit / 1000, limit > 0));
    put(object, "nwrong",
        number_or_null((int64_t)outcome->n_wrong,
                       outcome->is_done && !run_is_timing(run)));
}

static json_t *job(const struct run *run, uint32_t index)
{
    const struct host_row *row = &run->rows[index];
    const struct run_outcome *outcome = &run->outcomes[index];
    json_t *object = json_object();

    put(object, "job", json_string(weft_collective_name(row->coll.kind)));
    put(object, "index", json_integer(row->job));
    put(object, "algorithm",
        outcome->is_done ? json_string(weft_algorithm_name(outcome->algorithm))
                         : json_null());
    put(object, "size_bytes", json_integer((json_int_t)row->size_bytes));
    put(object, "count", json_integer((json_int_t)row->coll.count));
    put(object, "dtype", json_string(weft_dtype_name(row->coll.dtype)));
    put(object, "op",
        reduces(row->coll.kind) ? json_string(weft_redop_name(row->coll.op))
                                : json_null());
    put(object, "root", number_or_null(row->coll.root, has_root(row->coll.kind)));
    put_rates(run, index, object);
    return object;
}

static json_t *jobs(const struct run *run)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < run->n_rows; i++) {
        json_array_append_new(array, job(run, i));
    }
    return array;
}

/* ---- links ---- */

/* Returns the time from when the first rank entered its jobs until the last left them; 0 if no rank
 * entered. */
static weft_ns jobs_span(const struct run *run)
{
    weft_ns first = WEFT_NEVER;
    weft_ns last = 0;

    for (uint32_t rank = 0; rank < run->n_ranks; rank++) {
        const struct host *host = run->hosts[rank];
        weft_ns ended = host->jobs_ended_ns != 0 ? host->jobs_ended_ns : run->ended_ns;

        if (host->jobs_started_ns != 0) {
            first = host->jobs_started_ns < first ? host->jobs_started_ns : first;
            last = ended > last ? ended : last;
        }
    }
    return last > first ? last - first : 0;
}

static json_t *link_direction(const struct run *run, uint32_t index, int from)
{
    const struct world_spec *spec = &run->plan->spec;
    struct world_cable_stats stats = {0};
    weft_ns span = jobs_span(run);
    char name[160] = "";

    run->world->ops->cable_stats(run->world, index, &stats);
    for (int i = 0; i < 2; i++) {
        const struct world_end *end = &spec->cables[index].ends[i == 0 ? from : 1 - from];
        size_t n = strlen(name);

        if (end->is_switch) {
            weft_format(name + n, sizeof(name) - n, "%s%s:%u", i == 0 ? "" : "->",
                        spec->switches[end->node].name, end->port);
        } else {
            weft_format(name + n, sizeof(name) - n, "%s%s:%s", i == 0 ? "" : "->",
                        spec->hosts[end->node].name,
                        spec->hosts[end->node].ports[end->port].name);
        }
    }
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:o}", "link", name, "bytes", (json_int_t)stats.bytes[from],
        "packets", (json_int_t)stats.packets[from], "drops",
        (json_int_t)stats.drops[from], "utilisation",
        span > 0 ? json_real((double)stats.busy_ps[from] / 1000.0 / (double)span)
                 : json_null());
}

static json_t *links(const struct run *run)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < run->plan->spec.n_cables; i++) {
        json_array_append_new(array, link_direction(run, i, 0));
        json_array_append_new(array, link_direction(run, i, 1));
    }
    return array;
}

/* Adds counters of failovers and relays that are not zero. */
static void count_flows(const struct run *run, json_t *object)
{
    uint64_t failovers = 0;
    uint64_t returns = 0;

    for (uint32_t i = 0; i < run->n_members; i++) {
        const struct host *host = run->hosts[i];
        char name[96];

        failovers += host->flows.failovers;
        returns += host->flows.returns;
        if (host->relayed.lanes_peak == 0 && host->relayed.refused == 0) {
            continue;
        }
        weft_format(name, sizeof(name), "relayed_bytes.%s", host_name(run, i));
        put(object, name, json_integer((json_int_t)host->relayed.bytes));
        weft_format(name, sizeof(name), "relay_lanes.%s", host_name(run, i));
        put(object, name, json_integer(host->relayed.lanes_peak));
        weft_format(name, sizeof(name), "relay_memory_peak.%s", host_name(run, i));
        put(object, name, json_integer((json_int_t)host->relayed.memory_peak));
    }
    if (failovers + returns > 0) {
        put(object, "failovers", json_integer((json_int_t)failovers));
        put(object, "failover_returns", json_integer((json_int_t)returns));
    }
}

json_t *run_counters(const struct run *run)
{
    json_t *object = json_object();
    const char *name;
    uint64_t value;

    count_flows(run, object);
    for (uint32_t i = 0; run->world->ops->counter(run->world, i, &name, &value); i++) {
        put(object, name, json_integer((json_int_t)value));
    }
    return object;
}

static json_t *warnings(const struct run *run)
{
    json_t *array = json_array();

    if (run_is_timing(run)) {
        json_array_append_new(
            array, json_string("payload: timing: no payload was moved, and no result "
                               "compared"));
    }
    if (run->options->has_policy && run->policy != run->scenario->policy) {
        char text[160];

        weft_format(text, sizeof(text), "`expect` was written for policy %s, this is %s",
                    weft_policy_name(run->scenario->policy),
                    weft_policy_name(run->policy));
        json_array_append_new(array, json_string(text));
    }
    run_warn_of_faults(run, array);
    return array;
}

json_t *run_document_head(const struct run *run)
{
    json_t *object = json_object();
    char seed[24];
    char hash[65];
    bool is_error = run->loop_status < 0 && run->loop_status != WEFT_ERR_TIMEOUT;

    weft_format(seed, sizeof(seed), "%llu", (unsigned long long)run->seed);
    run_story_hash(&run->story, hash);
    put(object, "schema_version", json_integer(1));
    put(object, "weft", json_string(weft_version));
    put(object, "scenario", json_string(run->scenario->name));
    put(object, "backend", json_string(run->options->backend->name));
    put(object, "policy", json_string(weft_policy_name(run->policy)));
    put(object, "seed", json_string(seed));
    /* Hosts in separate processes have no common event log. */
    put(object, "trace_hash",
        text_or_null(run->are_records || run->options->no_story ? NULL : hash));
    put(object, "result",
        json_string(is_error           ? "error"
                    : run->as_expected ? "pass"
                                       : "fail"));
    put(object, "sim_time_ns", json_integer(run->ended_ns));
    put(object, "replay", text_or_null(run->options->replay));
    return object;
}

json_t *run_document(const struct run *run)
{
    json_t *object = run_document_head(run);

    put(object, "symptom", symptom(run));
    put(object, "connections", connections(run));
    put(object, "completions", completions(run));
    put(object, "jobs", jobs(run));
    put(object, "links", links(run));
    put(object, "findings", diag_findings_encode(&run->findings));
    put(object, "expectations", json_incref(run->expectations));
    put(object, "counters", run_counters(run));
    put(object, "connected", json_boolean(run->is_connected));
    put(object, "warnings", warnings(run));
    return object;
}
