#include "run/forecast.h"

#include <stdlib.h>
#include <string.h>

#include "backends/registry.h"
#include "base/check.h"
#include "base/text.h"
#include "diag/preflight.h"
#include "run/asks.h"
#include "run/choices.h"

/* Maximum number of ranks whose pairs are examined. */
#define RANKS_MAX 64

struct forecast {
    const struct run_choices *choices;
    /* The hosts with the predicted errors; everything else is shared with the real input. */
    struct diag_input input;
};

/* One end of a rail, as its own side chooses it. */
struct end {
    uint32_t host; /* in the world */
    const struct rdma_port_facts *port;
    uint32_t gid; /* index into port->gids[] */
};

static struct end end_of(const struct forecast *forecast, uint32_t rank,
                         const struct rdma_rail *rail)
{
    const struct run_choices *choices = forecast->choices;

    return (struct end){choices->hosts[rank], &choices->facts[rank][rail->local_port],
                        rail->local_gid};
}

static struct io_ip ip_of(const struct end *end)
{
    return rdma_gid_ip(&end->port->gids[end->gid].gid);
}

static bool has_gid(const struct end *end)
{
    return end->gid < end->port->n_gids;
}

static const struct world_host *spec_of(const struct forecast *forecast,
                                        const struct end *end)
{
    return &forecast->choices->plan->spec.hosts[end->host];
}

/* Returns the port's index in the world; n_ports if it is not there. */
static uint32_t port_of(const struct forecast *forecast, const struct end *end)
{
    return world_port_index(spec_of(forecast, end), end->port->name);
}

/* Returns true if the cable of `end` leads to the host of `other`, to any of its ports or, with
 * `is_port`, to that port. */
static bool leads_to(const struct forecast *forecast, const struct end *end,
                     const struct end *other, bool is_port)
{
    uint32_t port = port_of(forecast, end), other_port = port_of(forecast, other);

    if (port == spec_of(forecast, end)->n_ports) {
        return false;
    }
    for (uint32_t i = 0; i < spec_of(forecast, other)->n_ports; i++) {
        if ((!is_port || i == other_port) &&
            run_is_wired(&forecast->choices->plan->spec, end->host, port, other->host,
                         i)) {
            return true;
        }
    }
    return false;
}

/* Returns the static route of the local end's host to the remote address; NULL if there is none. */
static const struct world_route *route_of(const struct forecast *forecast,
                                          const struct end *local,
                                          const struct end *remote)
{
    const struct world_host *host = spec_of(forecast, local);
    struct io_ip peer = ip_of(remote);

    for (uint32_t i = 0; i < host->n_routes; i++) {
        const struct io_prefix *to = &host->routes[i].to;

        if (io_ip_is_v4(&to->ip) == io_ip_is_v4(&peer) &&
            io_ip_same_subnet(&to->ip, &peer, to->prefix_len)) {
            return &host->routes[i];
        }
    }
    return NULL;
}

static void add_end(struct weft_error *error, const struct end *end, bool is_local)
{
    struct io_ip ip = ip_of(end);
    char text[IO_IP_TEXT_BYTES];

    weft_error_text(error, is_local ? WEFT_VALUE_LOCAL_PORT : WEFT_VALUE_REMOTE_PORT,
                    end->port->name);
    weft_error_text(error, is_local ? WEFT_VALUE_LOCAL_GID : WEFT_VALUE_REMOTE_GID,
                    io_ip_format(&ip, text, sizeof(text)));
    weft_error_text(
        error, is_local ? WEFT_VALUE_LOCAL_GID_TYPE : WEFT_VALUE_REMOTE_GID_TYPE,
        rdma_gid_type_name((enum ibv_gid_type)end->port->gids[end->gid].type));
}

/* Returns true if the route's gateway is a host that does not forward IP. */
static bool is_dead_end(const struct forecast *forecast, const struct world_route *route)
{
    for (uint32_t i = 0; i < forecast->input.n_hosts; i++) {
        const struct diag_host *host = &forecast->input.hosts[i];

        for (uint32_t k = 0; k < host->n_ports; k++) {
            for (uint32_t g = 0; g < host->ports[k].n_gids; g++) {
                if (io_ip_equal(&host->ports[k].gids[g].ip, &route->via)) {
                    return host->forwards_ip == DIAG_NO;
                }
            }
        }
    }
    return false;
}

/* Returns true if the port's device is software. The kernel routes its packets like any others. */
static bool is_software(const struct forecast *forecast, const struct end *end)
{
    const struct diag_host *host = &forecast->input.hosts[end->host];

    for (uint32_t i = 0; i < host->n_ports; i++) {
        if (strcmp(host->ports[i].name, end->port->name) == 0) {
            return host->ports[i].is_software == DIAG_YES;
        }
    }
    return false;
}

/* The first step at which a connection fails. */
enum step { NONE, RTR, PROBE };

/* Returns true if the host of `end` answers for its address at its other ports, too. */
static bool answers_everywhere(const struct forecast *forecast, const struct end *end)
{
    struct io_ip ip = ip_of(end);
    int arp_ignore = spec_of(forecast, end)->sysctl.arp_ignore;

    return io_ip_is_v4(&ip) && arp_ignore != 1 && arp_ignore != 2 && arp_ignore < 8;
}

/* Predicts the set-up of a queue pair between software devices, of which one has a cable to the
 * other's host. If that cable leads to another port there, the host may answer for the address, but
 * the device of that port has no such queue pair. */
static enum step fails_between_kernels(const struct forecast *forecast,
                                       const struct end *local, const struct end *remote)
{
    if (leads_to(forecast, local, remote, true)) {
        return NONE;
    }
    return answers_everywhere(forecast, remote) ? PROBE : RTR;
}

/* Predicts the set-up of a queue pair from `local` to `remote`. NONE if it works, or if that is not
 * known. */
static enum step fails_at(const struct forecast *forecast, const struct end *local,
                          const struct end *remote)
{
    struct io_ip ip = ip_of(local), peer = ip_of(remote);
    unsigned len = local->port->gids[local->gid].prefix_len;
    uint8_t type = local->port->gids[local->gid].type;
    const struct world_route *route = route_of(forecast, local, remote);
    bool is_soft = is_software(forecast, local) || is_software(forecast, remote);
    bool is_of_other_family = io_ip_is_v4(&ip) != io_ip_is_v4(&peer);
    bool is_of_other_subnet = len > 0 && !io_ip_same_subnet(&ip, &peer, len);
    /* An fe80:: address is of one cable only. */
    bool is_link_local = !io_ip_is_v4(&ip) && io_ip_is_link_local(&ip) &&
                         !io_ip_is_v4(&peer) && io_ip_is_link_local(&peer);

    if (is_soft && leads_to(forecast, local, remote, false)) {
        return fails_between_kernels(forecast, local, remote);
    }
    if (is_of_other_family) {
        return RTR;
    }
    if (is_link_local) {
        /* A GID of RoCE v1 contains the MAC address, so that nothing is resolved. */
        return leads_to(forecast, local, remote, true) ? NONE
               : type == IBV_GID_TYPE_ROCE_V1          ? PROBE
                                                       : RTR;
    }
    if (is_of_other_subnet && route == NULL) {
        return RTR;
    }
    if (is_of_other_subnet && is_dead_end(forecast, route)) {
        return PROBE;
    }
    return type != remote->port->gids[remote->gid].type ? PROBE : NONE;
}

/* Fills `error` if the set-up of a queue pair from `local` to `remote` fails at `step`. It then
 * cannot be connected, or nothing that it sends arrives. Returns false otherwise. */
static bool fails(const struct forecast *forecast, enum step step,
                  const struct end *local, const struct end *remote, uint32_t n_rails,
                  struct weft_error *error)
{
    if (fails_at(forecast, local, remote) != step) {
        return false;
    }
    if (step == RTR) {
        weft_fail(error, WEFT_ERR_SYSTEM, WEFT_PHASE_RTR, "would fail");
        weft_error_int(error, WEFT_VALUE_GID_WAS_READ, 1);
    } else {
        weft_fail(error, WEFT_ERR_TIMEOUT, WEFT_PHASE_PROBE, "nothing would pass");
    }
    add_end(error, local, true);
    add_end(error, remote, false);
    weft_error_int(error, WEFT_VALUE_RAILS, n_rails);
    return true;
}

static struct diag_host *host_of(const struct forecast *forecast, uint32_t rank)
{
    uint32_t host = forecast->choices->hosts[rank];

    weft_check(host < forecast->input.n_hosts);
    return &forecast->input.hosts[host];
}

static void add_error(const struct forecast *forecast, uint32_t rank, uint32_t peer,
                      const struct weft_error *error)
{
    struct diag_host *host = host_of(forecast, rank);
    struct diag_error *added;

    host->errors =
        weft_realloc(host->errors, (host->n_errors + 1) * sizeof(*host->errors));
    added = &host->errors[host->n_errors++];
    *added = (struct diag_error){.error = *error, .source = DIAG_OWN};
    weft_format(added->peer, sizeof(added->peer), "%s", host_of(forecast, peer)->name);
}

/* Adds the pair's first error at `step`. Returns false if there is none. */
static bool examine_step(const struct forecast *forecast, enum step step,
                         const struct run_choice *choice)
{
    uint32_t n = choice->connector.n_rails < choice->acceptor.n_rails
                     ? choice->connector.n_rails
                     : choice->acceptor.n_rails;
    struct weft_error error;

    weft_error_clear(&error);
    for (uint32_t i = 0; i < n; i++) {
        struct end here = end_of(forecast, choice->from, &choice->connector.rails[i]);
        struct end there = end_of(forecast, choice->to, &choice->acceptor.rails[i]);

        if (!has_gid(&here) || !has_gid(&there)) {
            continue;
        }
        if (fails(forecast, step, &here, &there, n, &error)) {
            add_error(forecast, choice->from, choice->to, &error);
            return true;
        }
        if (fails(forecast, step, &there, &here, n, &error)) {
            add_error(forecast, choice->to, choice->from, &error);
            return true;
        }
    }
    return false;
}

/* Adds the first error of the pair: every rail must be connected, at both ends, before probes are
 * sent. */
static void examine(const struct forecast *forecast, const struct run_choice *choice)
{
    if (!examine_step(forecast, RTR, choice)) {
        (void)examine_step(forecast, PROBE, choice);
    }
}

static bool share_a_cable(const struct world_spec *spec, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < spec->hosts[a].n_ports; i++) {
        for (uint32_t k = 0; k < spec->hosts[b].n_ports; k++) {
            if (run_is_wired(spec, a, i, b, k)) {
                return true;
            }
        }
    }
    return false;
}

/* Returns true if the two ranks share a cable or are the only ones. A job need not connect
 * others. */
static bool is_expected(const struct run_choices *choices,
                        const struct run_choice *choice)
{
    return choices->n_ranks == 2 ||
           share_a_cable(&choices->plan->spec, choices->hosts[choice->from],
                         choices->hosts[choice->to]);
}

/* ---- policy weft ---- */

/* Returns true if any rank uses the port. */
static bool is_used(const struct run_choices *choices, const char *host, const char *port)
{
    for (uint32_t i = 0; i < choices->n; i++) {
        const struct run_choice *choice = &choices->items[i];
        uint32_t from = choices->hosts[choice->from], to = choices->hosts[choice->to];
        const struct world_host *hosts = choices->plan->spec.hosts;

        for (uint32_t k = 0; k < choice->connector.n_rails; k++) {
            const struct rdma_rail *rail = &choice->connector.rails[k];

            if ((strcmp(hosts[from].name, host) == 0 &&
                 strcmp(choices->facts[choice->from][rail->local_port].name, port) ==
                     0) ||
                (strcmp(hosts[to].name, host) == 0 &&
                 strcmp(choices->facts[choice->to][rail->remote_port].name, port) == 0)) {
                return true;
            }
        }
    }
    return false;
}

/* Returns true if the choice has a rail over a cable. */
static bool has_wired_rail(const struct run_choices *choices,
                           const struct run_choice *choice)
{
    const struct forecast forecast = {.choices = choices};
    uint32_t n = choice->error.status == WEFT_OK ? choice->connector.n_rails : 0;

    for (uint32_t i = 0; i < n; i++) {
        struct rdma_rail turned = {.local_port = choice->connector.rails[i].remote_port};
        struct end near = end_of(&forecast, choice->from, &choice->connector.rails[i]);
        struct end far = end_of(&forecast, choice->to, &turned);

        if (leads_to(&forecast, &near, &far, true)) {
            return true;
        }
    }
    return false;
}

/* Returns true if a host without a rank may have to relay, because two ranks have no rail over a
 * cable. Its connections are in no choice. */
static bool may_need_relay(const struct run_choices *choices)
{
    bool any = false, all = true;

    for (uint32_t h = 0; h < choices->plan->spec.n_hosts; h++) {
        bool has_rank = false;

        for (uint32_t rank = 0; rank < choices->n_ranks; rank++) {
            has_rank = has_rank || choices->hosts[rank] == h;
        }
        all = all && has_rank;
    }
    for (uint32_t i = 0; i < choices->n; i++) {
        any = any || !has_wired_rail(choices, &choices->items[i]);
    }
    return any && !all;
}

/* Returns the other port of a finding about two ports of a host; NULL if it has none. */
static const char *other_port(const struct diag_finding *finding)
{
    for (uint32_t i = 0; i < finding->n_evidence; i++) {
        if (strcmp(finding->evidence[i].name, "other_port") == 0) {
            return finding->evidence[i].text;
        }
    }
    return NULL;
}

/* Makes warnings of the errors about two ports of a host in one subnet if no rank uses either port,
 * because policy weft has taken others. */
static void soften(const struct run_choices *choices, struct diag_findings *out)
{
    for (uint32_t i = 0; i < out->n && !may_need_relay(choices); i++) {
        struct diag_finding *finding = &out->items[i];
        const char *other = other_port(finding);

        if ((finding->entry->id == DIAG_ROUTE_LINK_LOCAL ||
             finding->entry->id == DIAG_ROUTE_GID_COLLISION) &&
            finding->severity == DIAG_ERROR && other != NULL &&
            !is_used(choices, finding->host, finding->port) &&
            !is_used(choices, finding->host, other)) {
            finding->severity = DIAG_WARNING;
        }
    }
    diag_sort(out);
}

/* ---- all of it ---- */

/* Copies the hosts. Only their errors belong to the copy. */
static void copy_hosts(const struct diag_input *from, struct diag_input *out)
{
    *out = *from;
    out->hosts = weft_calloc((size_t)from->n_hosts + 1, sizeof(*out->hosts));
    for (uint32_t i = 0; i < from->n_hosts; i++) {
        out->hosts[i] = from->hosts[i];
        out->hosts[i].errors = NULL;
        out->hosts[i].n_errors = 0;
        out->hosts[i].has_events = true; /* no event happened, because nothing has run */
    }
}

/* Adds the causes of the failures that the policy's choices lead to. */
static void predict(const struct run_choices *choices, const struct diag_input *input,
                    struct diag_findings *out)
{
    struct forecast forecast = {.choices = choices};

    copy_hosts(input, &forecast.input);
    for (uint32_t i = 0; i < choices->n; i++) {
        const struct run_choice *choice = &choices->items[i];

        if (choice->error.status == WEFT_OK && is_expected(choices, choice)) {
            examine(&forecast, choice);
        }
    }
    diag_preflight_errors(&forecast.input, out);
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        free(forecast.input.hosts[i].errors);
    }
    free(forecast.input.hosts);
}

void run_forecast(const struct scenario *scenario, const struct diag_input *input,
                  struct diag_findings *out)
{
    struct run_options options = {.backend = backend_find("sim")};
    struct scenario calm = *scenario;
    struct run_choices choices;
    struct weft_error error;

    if (scenario->n_ranks > RANKS_MAX) {
        return;
    }
    calm.n_faults = 0;
    if (run_choices_make(&calm, &options, &choices, &error) == WEFT_OK) {
        if (scenario->policy == WEFT_POLICY_WEFT) {
            soften(&choices, out);
        } else {
            predict(&choices, input, out);
        }
    }
    run_choices_fini(&choices);
}
