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
    struct diag_input
        input; /* hosts with the predicted errors; shares all else with the real one */
};

/* One end of a rail, as its own side chooses it. */
struct end {
    const struct rdma_port_facts *port;
    uint32_t gid; /* index into port->gids[] */
};

static struct end end_of(const struct forecast *forecast, uint32_t rank,
                         const struct rdma_rail *rail)
{
    return (struct end){&forecast->choices->facts[rank][rail->local_port],
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

/* Fills `error` if a queue pair from `local` to `remote` cannot be connected, or if nothing that it
 * sends arrives. Returns false otherwise. */
static bool fails(const struct end *local, const struct end *remote, uint32_t n_rails,
                  struct weft_error *error)
{
    struct io_ip ip = ip_of(local), peer = ip_of(remote);
    unsigned len = local->port->gids[local->gid].prefix_len;
    bool is_of_other_family = io_ip_is_v4(&ip) != io_ip_is_v4(&peer);
    bool is_of_other_subnet = len > 0 && !io_ip_same_subnet(&ip, &peer, len);

    if (is_of_other_family || is_of_other_subnet) {
        weft_fail(error, WEFT_ERR_SYSTEM, WEFT_PHASE_RTR, "would fail");
        weft_error_int(error, WEFT_VALUE_GID_WAS_READ, 1);
    } else if (local->port->gids[local->gid].type !=
               remote->port->gids[remote->gid].type) {
        weft_fail(error, WEFT_ERR_TIMEOUT, WEFT_PHASE_PROBE, "nothing would pass");
    } else {
        return false;
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

/* Returns true if the port's device is software. The kernel routes its packets like any others, so
 * that an address of another port can be in reach. */
static bool is_software(const struct forecast *forecast, uint32_t rank,
                        const struct end *end)
{
    const struct diag_host *host = host_of(forecast, rank);

    for (uint32_t i = 0; i < host->n_ports; i++) {
        if (strcmp(host->ports[i].name, end->port->name) == 0) {
            return host->ports[i].is_software == DIAG_YES;
        }
    }
    return false;
}

/* Adds the first error of the pair: every rail must be connected, at both ends. */
static void examine(const struct forecast *forecast, const struct run_choice *choice)
{
    uint32_t n = choice->connector.n_rails < choice->acceptor.n_rails
                     ? choice->connector.n_rails
                     : choice->acceptor.n_rails;
    struct weft_error error;

    weft_error_clear(&error);
    for (uint32_t i = 0; i < n; i++) {
        struct end here = end_of(forecast, choice->from, &choice->connector.rails[i]);
        struct end there = end_of(forecast, choice->to, &choice->acceptor.rails[i]);

        if (!has_gid(&here) || !has_gid(&there) ||
            is_software(forecast, choice->from, &here) ||
            is_software(forecast, choice->to, &there)) {
            return;
        }
        if (fails(&here, &there, n, &error)) {
            add_error(forecast, choice->from, choice->to, &error);
            return;
        }
        if (fails(&there, &here, n, &error)) {
            add_error(forecast, choice->to, choice->from, &error);
            return;
        }
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

/* Copies the hosts, without what they own: only the errors are this one's own. */
static void copy_hosts(const struct diag_input *from, struct diag_input *out)
{
    *out = *from;
    out->hosts = weft_calloc((size_t)from->n_hosts + 1, sizeof(*out->hosts));
    for (uint32_t i = 0; i < from->n_hosts; i++) {
        out->hosts[i] = from->hosts[i];
        out->hosts[i].errors = NULL;
        out->hosts[i].n_errors = 0;
        out->hosts[i].has_events = true; /* none has happened */
    }
}

void run_forecast(const struct scenario *scenario, const struct diag_input *input,
                  struct diag_findings *out)
{
    struct run_options options = {.backend = backend_find("sim")};
    struct scenario calm = *scenario;
    struct run_choices choices;
    struct forecast forecast = {.choices = &choices};
    struct weft_error error;

    if (scenario->policy == WEFT_POLICY_WEFT || scenario->n_ranks > RANKS_MAX) {
        return;
    }
    calm.n_faults = 0;
    copy_hosts(input, &forecast.input);
    if (run_choices_make(&calm, &options, &choices, &error) == WEFT_OK) {
        for (uint32_t i = 0; i < choices.n; i++) {
            const struct run_choice *choice = &choices.items[i];

            if (choice->error.status == WEFT_OK &&
                share_a_cable(&choices.plan->spec, choices.hosts[choice->from],
                              choices.hosts[choice->to])) {
                examine(&forecast, choice);
            }
        }
        diag_preflight_errors(&forecast.input, out);
    }
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        free(forecast.input.hosts[i].errors);
    }
    free(forecast.input.hosts);
    run_choices_fini(&choices);
}
