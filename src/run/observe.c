#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "mesh/ring.h"
#include "run/facts.h"
#include "run/private.h"
#include "run/record.h"

static const char *event_name(enum ibv_event_type type, char *other, size_t other_bytes)
{
    if (type == IBV_EVENT_PORT_ERR) {
        return "port_error";
    }
    if (type == IBV_EVENT_PORT_ACTIVE) {
        return "port_active";
    }
    if (type == IBV_EVENT_GID_CHANGE) {
        return "gid_change";
    }
    if (type == IBV_EVENT_DEVICE_FATAL) {
        return "device_fatal";
    }
    weft_format(other, other_bytes, "event_%d", (int)type);
    return other;
}

static void observe_events(const struct host *host, struct diag_host *out)
{
    out->has_events = !host->are_events_cut;
    out->events = weft_calloc(host->n_events + 1, sizeof(*out->events));
    for (uint32_t i = 0; i < host->n_events; i++) {
        const struct host_event *event = &host->events[i];
        struct diag_event *to = &out->events[out->n_events++];
        char other[32];

        weft_format(to->type, sizeof(to->type), "%s",
                    event_name(event->type, other, sizeof(other)));
        if (event->port != 0) {
            weft_format(to->port, sizeof(to->port), "%s", event->name);
        } else {
            weft_format(to->device, sizeof(to->device), "%s", event->name);
        }
        to->at_ns = event->at_ns;
    }
}

/* Writes a member's name as weft node has it: "titanic", or "titanic/1" for a host's second rank;
 * "" if there is no such member. */
static void name_member(const struct run *run, uint32_t member, char out[DIAG_NAME_BYTES])
{
    out[0] = '\0';
    if (member < run->n_members) {
        const char *host = run->plan->spec.hosts[run->member_hosts[member]].name;
        uint32_t process = run->member_processes[member];

        weft_format(out, DIAG_NAME_BYTES, process == 0 ? "%s" : "%s/%u", host, process);
    }
}

static void observe_wrong_rows(const struct run *run, const struct host *host,
                               struct diag_host *out)
{
    for (uint32_t row = 0; row < host->config.n_rows; row++) {
        const struct host_row_result *result = &host->results[row];
        struct diag_error *error;

        if (result->n_wrong == 0) {
            continue;
        }
        error = &out->errors[out->n_errors++];
        weft_fail(&error->error, WEFT_ERR_DATA, WEFT_PHASE_VERIFY,
                  "%llu elements differ from the oracle's",
                  (unsigned long long)result->n_wrong);
        weft_error_int(&error->error, WEFT_VALUE_JOB, run->rows[row].job);
        weft_error_int(&error->error, WEFT_VALUE_BYTES,
                       (int64_t)run->rows[row].size_bytes);
        weft_error_int(&error->error, WEFT_VALUE_WRONG, (int64_t)result->n_wrong);
        weft_error_int(&error->error, WEFT_VALUE_FIRST, (int64_t)result->first_wrong);
        error->at_ns = result->finished_ns[run->rows[row].repeat];
    }
}

static void observe_uses(const struct run *run, const struct host *host,
                         struct diag_host *out)
{
    out->has_uses = true;
    out->uses = weft_calloc(host->n_connections + 1, sizeof(*out->uses));
    for (uint32_t i = 0; i < host->n_connections; i++) {
        const struct host_connection *from = &host->connections[i];
        struct diag_use *use = &out->uses[out->n_uses];
        uint32_t next = from->n_via > 0 ? from->via[0] : from->to;

        if (from->transport != WEFT_TRANSPORT_NET) {
            continue; /* uses no port */
        }
        out->n_uses++;

        name_member(run, next, use->peer);
        weft_format(use->local_port, sizeof(use->local_port), "%s", from->local_port);
        weft_format(use->remote_port, sizeof(use->remote_port), "%s", from->remote_port);
        rdma_gid_format(&from->local_gid, use->local_gid, sizeof(use->local_gid));
        rdma_gid_format(&from->remote_gid, use->remote_gid, sizeof(use->remote_gid));
        use->path_mtu = from->path_mtu;
        use->vanished_mtu = from->vanished_mtu;
        use->timed_bytes = from->n_via > 0 ? IO_UNKNOWN : (int64_t)from->pace.n_bytes;
        use->best_bps =
            from->pace.n_bytes > 0 ? (int64_t)from->pace.best_bps : IO_UNKNOWN;
        use->rtt_ns = from->rtt_ns > 0 ? from->rtt_ns : IO_UNKNOWN;
    }
}

/* Names the peers of rails that were left out as other observations do. Facts have the names of
 * their processes' environments. */
static void name_left_out(const struct run *run, const struct host *host,
                          struct diag_host *out)
{
    for (uint32_t i = 0; i < host->n_left_out && i < out->n_left_out; i++) {
        name_member(run, host->left_out[i].peer, out->left_out[i].peer);
    }
}

/* Facts have the numbers of the members whose ports they describe. */
static void name_described(const struct run *run, struct diag_host *out)
{
    for (uint32_t i = 0; i < out->n_described; i++) {
        unsigned long member = strtoul(out->described[i].peer, NULL, 10);

        name_member(run, member < run->n_members ? (uint32_t)member : HOST_NO_MEMBER,
                    out->described[i].peer);
    }
}

/* Facts have the numbers of the members that were waited for. */
static void name_waits(const struct run *run, const struct host *host,
                       struct diag_host *out)
{
    for (uint32_t i = 0; i < host->n_waits && i < out->n_waits; i++) {
        name_member(run, host->waits[i].member, out->waits[i].peer);
    }
}

static void observe_host(const struct run *run, const struct host *host,
                         struct diag_host *out)
{
    if (host->state == HOST_DEAD) {
        name_member(run, host->config.rank, out->name);
        out->memlock_bytes = IO_UNKNOWN;
        out->gid_index = IO_UNKNOWN;
        /* This process, or a launcher, saw the process exit. Otherwise only its peers can report
         * it. */
        out->has_hung = host->has_hung;
        out->has_vanished =
            (run->are_records || run_reports_ends(run)) && !host->has_hung;
        return; /* a killed process reports nothing */
    }
    if (!run_record_take_facts(host, out)) {
        run_facts(host, out);
    }
    /* The name that its peers use. */
    name_member(run, host->config.rank, out->name);
    out->was_observed = true;
    name_left_out(run, host, out);
    name_waits(run, host, out);
    name_described(run, out);
    observe_uses(run, host, out);
    weft_format(
        out->state, sizeof(out->state), "%s",
        host_state_name(host->state == HOST_FAILED ? host->failed_in : host->state));
    out->errors = weft_calloc(run->n_rows + 1, sizeof(*out->errors));
    observe_wrong_rows(run, host, out);
    if (host->state == HOST_FAILED) {
        struct diag_error *error = &out->errors[out->n_errors++];

        error->error = host->error;
        error->at_ns = host->error_ns;
        error->source = host->error_is_hearsay ? DIAG_HEARSAY : DIAG_OWN;
        name_member(run, host->error_peer, error->peer);
    }
    observe_events(host, out);
}

/* Maximum number of ranks for which a better order is searched. */
#define ORDER_RANKS_MAX 256

/* Writes the order as numbers of the given ranks, as many as there is room for. */
static void number_order(const uint32_t *order, uint32_t n_ranks,
                         struct diag_rank_order *out)
{
    size_t n = 0;

    for (uint32_t i = 0; i < n_ranks; i++) {
        if (n + 16 > sizeof(out->better_order)) {
            weft_format(out->better_order + n, sizeof(out->better_order) - n, " ...");
            break;
        }
        weft_format(out->better_order + n, sizeof(out->better_order) - n, "%s%u",
                    i > 0 ? " " : "", order[i]);
        n += strlen(out->better_order + n);
    }
}

/* Writes the order as names of hosts, as a scenario's `ranks` has them, if there is room. */
static void name_order(const struct run *run, const uint32_t *order,
                       struct diag_rank_order *out)
{
    struct weft_text names = {NULL, 0, 0};

    for (uint32_t i = 0; i < run->n_ranks; i++) {
        weft_text_add(&names, "%s%s", i > 0 ? " " : "",
                      run->plan->spec.hosts[run->member_hosts[order[i]]].name);
    }
    if (names.n < sizeof(out->better_order)) {
        weft_format(out->better_order, sizeof(out->better_order), "%s", names.bytes);
    } else {
        number_order(order, run->n_ranks, out);
    }
    weft_text_fini(&names);
}

/* Policy weft places its rings on cables in any rank order; rings of other policies follow the
 * ranks. */
static void observe_order(const struct run *run, struct diag_rank_order *out)
{
    out->is_known = run->n_ranks < 3; /* all orders are the same ring */
    if (run->policy == WEFT_POLICY_WEFT || run->n_ranks < 3 ||
        run->n_ranks > ORDER_RANKS_MAX) {
        return;
    }
    uint32_t *order = weft_calloc(run->n_ranks, sizeof(*order));
    struct mesh_ring given = mesh_ring_of(&run->graph, run->member_hosts, run->n_ranks);
    struct mesh_ring better =
        mesh_ring_order(&run->graph, run->member_hosts, run->n_ranks, order);

    out->is_known = true;
    out->missing = given.n_missing;
    out->better_missing = better.n_missing;
    name_order(run, order, out);
    free(order);
}

void run_observe(const struct run *run, struct diag_input *out)
{
    out->hosts = weft_calloc(run->n_members + 1, sizeof(*out->hosts));
    out->n_hosts = run->n_members;
    observe_order(run, &out->rank_order);
    run_facts_cables(&run->plan->spec, !run->options->backend->is_unpaced, out);
    for (uint32_t i = 0; i < run->n_members; i++) {
        observe_host(run, run->hosts[i], &out->hosts[i]);
    }
}

static bool has_number(const struct host *host)
{
    return host->error.sys_errno != 0 || host->error.wc_status != 0;
}

/* Returns true if the failure of `a` ranks before that of `b`: own failures before those reported
 * by a peer, those with an errno or a completion status before those without, then by time. Ties
 * keep rank order. */
static bool is_before(const struct host *a, const struct host *b)
{
    if (a->error_is_hearsay != b->error_is_hearsay) {
        return b->error_is_hearsay;
    }
    if (has_number(a) != has_number(b)) {
        return has_number(a);
    }
    return a->error_ns < b->error_ns;
}

const struct host *run_first_failure(const struct run *run)
{
    const struct host *first = NULL;

    for (uint32_t i = 0; i < run->n_members; i++) {
        const struct host *host = run->hosts[i];

        if (host->state == HOST_FAILED && (first == NULL || is_before(host, first))) {
            first = host;
        }
    }
    return first;
}
