#include "scenario/scenario_testing.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void dump_prefix(const struct io_prefix *prefix, struct weft_text *out)
{
    char text[IO_IP_TEXT_BYTES];
    weft_text_add(out, " %s/%u", io_ip_format(&prefix->ip, text, sizeof(text)),
                  prefix->prefix_len);
}

static void dump_settings(const char *what, const struct world_setting *settings,
                          uint32_t n, struct weft_text *out)
{
    for (uint32_t i = 0; i < n; i++) {
        weft_text_add(out, "  %s %s='%s'\n", what, settings[i].name, settings[i].value);
    }
}

static void dump_host(const struct world_host *host, struct weft_text *out)
{
    char text[IO_IP_TEXT_BYTES];
    weft_text_add(out, "host %s profile=%s gpus=%u management=%s start=%" PRId64 "\n",
                  host->name, weft_profile_name(host->profile), host->n_gpus,
                  io_ip_format(&host->management_ip, text, sizeof(text)), host->start_ns);
    weft_text_add(
        out, "  sysctl %d %d %d %d %d %d %d forward=%d memlock=%" PRId64 "\n",
        host->sysctl.rp_filter, host->sysctl.arp_ignore, host->sysctl.arp_announce,
        host->sysctl.ip_forward, host->sysctl.accept_local, host->sysctl.arp_filter,
        host->sysctl.promote_secondaries, host->forward_accept, host->memlock_bytes);
    if (!io_ip_is_zero(&host->known_ip)) {
        weft_text_add(out, "  known_as %s\n",
                      io_ip_format(&host->known_ip, text, sizeof(text)));
    }
    for (uint32_t i = 0; i < host->n_input_drop; i++) {
        weft_text_add(out, "  drop %s\n", host->input_drop[i]);
    }
    for (uint32_t i = 0; i < host->n_routes; i++) {
        weft_text_add(out, "  route");
        dump_prefix(&host->routes[i].to, out);
        weft_text_add(out, " via %s\n",
                      io_ip_format(&host->routes[i].via, text, sizeof(text)));
    }
    dump_settings("override", host->overrides, host->n_overrides, out);
    dump_settings("env", host->settings, host->n_settings, out);
    for (uint32_t i = 0; i < host->n_pcie_roots; i++) {
        weft_text_add(out, "  root%u %" PRIu64 "\n", i, host->pcie_root_bps[i]);
    }
    for (uint32_t i = 0; i < host->n_bonds; i++) {
        const struct world_bond *bond = &host->bonds[i];
        weft_text_add(out, "  bond %s", bond->name);
        for (uint32_t k = 0; k < bond->n_ports; k++) {
            weft_text_add(out, " port%u", bond->ports[k]);
        }
        for (uint32_t k = 0; k < bond->n_addresses; k++) {
            dump_prefix(&bond->addresses[k], out);
        }
        weft_text_add(out, "\n");
    }
    for (uint32_t i = 0; i < host->n_ports; i++) {
        const struct world_port *port = &host->ports[i];
        weft_text_add(out, "  port %s device=%u.%u root%u rate=%" PRIu64 " mtu=%u",
                      port->name, port->device, port->port, port->pcie_root,
                      port->rate_bps, port->mtu_bytes);
        for (uint32_t k = 0; k < port->n_addresses; k++) {
            char peer[IO_IP_TEXT_BYTES];
            dump_prefix(&port->addresses[k], out);
            if (!io_ip_is_zero(&port->peers[k])) {
                weft_text_add(out, " peer=%s",
                              io_ip_format(&port->peers[k], peer, sizeof(peer)));
            }
        }
        if (port->vlan_id != 0) {
            weft_text_add(out, " vlan=%u of %u", port->vlan_id, port->n_vlan_addresses);
        }
        weft_text_add(out, "\n");
    }
}

static void dump_cable(const struct world_cable *cable, struct weft_text *out)
{
    const struct world_impairment *im = &cable->impairment;
    weft_text_add(out, "cable");
    for (unsigned i = 0; i < 2; i++) {
        const struct world_end *end = &cable->ends[i];
        weft_text_add(out, " %s%u.%u", end->is_switch ? "switch" : "host", end->node,
                      end->port);
    }
    weft_text_add(out,
                  " rate=%" PRIu64 " delay_ps=%" PRId64 " limit=%u queue=%" PRIu64
                  " pause=%d up=%d loss=%u,%u,%u,%u,%u\n",
                  cable->rate_bps, cable->delay_ps, cable->path_limit_bytes,
                  cable->queue_bytes, cable->pause, cable->up, im->loss_ppb,
                  im->corrupt_ppb, im->duplicate_ppb, im->reorder_ppb, im->ecn_ppb);
}

static void dump_fault(const struct world_fault *fault, struct weft_text *out)
{
    weft_text_add(out, "fault kind=%d at=%" PRId64 " for=%" PRId64 " host%u",
                  (int)fault->kind, fault->at_ns, fault->for_ns, fault->host);
    if (fault->has_port) {
        weft_text_add(out, ".%u", fault->port);
    }
    if (fault->on_management) {
        weft_text_add(out, ".management");
    }
    if (fault->moment.kind != WORLD_MOMENT_START) {
        weft_text_add(out, " moment=%d row%u host%u %" PRIu64, (int)fault->moment.kind,
                      fault->moment.row, fault->moment.host, fault->moment.bytes);
        if (world_moment_is_of_programs(fault->moment.kind)) {
            weft_text_add(out, " port%u n%u", fault->moment.port, fault->moment.n);
        }
    }
    weft_text_add(out,
                  " direction=%d share=%u delay=%" PRId64 "~%" PRId64 " rate=%" PRIu64
                  " size=%u",
                  (int)fault->direction, fault->share_ppb, fault->delay_ns,
                  fault->jitter_ns, fault->rate_bps, fault->size_bytes);
    if (fault->icrc_is_good) {
        weft_text_add(out, " icrc=good");
    }
    if (fault->has_match) {
        weft_text_add(out, " match=%u,%u,%u", fault->match_qp, fault->match_psn,
                      fault->match_iteration);
    }
    if (fault->address.prefix_len > 0) {
        dump_prefix(&fault->address, out);
    }
    if (world_fault_is_of_calls(fault->kind)) {
        weft_text_add(out, " call=%s count=%u event=%d", world_call_name(fault->call),
                      fault->n_calls, fault->event);
    } else if (fault->call != WORLD_CALL_ANY) {
        weft_text_add(out, " verb=%s", world_call_name(fault->call));
    }
    weft_text_add(out, " nth=%u error=%d by=%" PRId64 " after=%" PRId64 "\n", fault->nth,
                  fault->error, fault->by_ns, fault->after_ns);
}

void dump_world(const struct scenario_world *world, struct weft_text *out)
{
    const struct world_spec *spec = &world->spec;
    weft_text_add(out,
                  "world seed=%" PRIu64 " management=%d/%u rate=%" PRIu64
                  " delay_ps=%" PRId64 "\n",
                  spec->seed, spec->management.exists, spec->management.prefix_len,
                  spec->management.rate_bps, spec->management.delay_ps);
    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        dump_host(&spec->hosts[i], out);
    }
    for (uint32_t i = 0; i < spec->n_switches; i++) {
        weft_text_add(out, "switch %s ports=%u\n", spec->switches[i].name,
                      spec->switches[i].n_ports);
    }
    for (uint32_t i = 0; i < spec->n_cables; i++) {
        dump_cable(&spec->cables[i], out);
    }
    for (uint32_t i = 0; i < spec->n_faults; i++) {
        dump_fault(&spec->faults[i], out);
    }
    for (uint32_t i = 0; i < world->n_ranks; i++) {
        weft_text_add(out, "rank %u host%u.%u\n", i, world->ranks[i].host,
                      world->ranks[i].local_rank);
    }
}

static void dump_expect(const struct scenario_expect *expect, struct weft_text *out)
{
    weft_text_add(out,
                  "expect fail=%d errno=%d wc_status=%d data=%d at_most=%" PRId64
                  " at_least=%" PRId64 "\n",
                  expect->must_fail, expect->has_errno ? expect->sys_errno : -1,
                  expect->has_wc_status ? expect->wc_status : -1, expect->has_data,
                  expect->has_time_at_most ? expect->at_most_ns : -1,
                  expect->has_time_at_least ? expect->at_least_ns : -1);
    for (uint32_t i = 0; i < expect->n_counters; i++) {
        weft_text_add(out, "  counter %s %" PRIu64 "..%" PRId64 "\n",
                      expect->counters[i].name, expect->counters[i].at_least,
                      (int64_t)expect->counters[i].at_most);
    }
    for (uint32_t i = 0; i < expect->n_findings; i++) {
        weft_text_add(out, "  finding %s\n", expect->findings[i].code);
    }
    for (uint32_t i = 0; i < expect->n_bandwidths; i++) {
        const struct scenario_bandwidth *b = &expect->bandwidths[i];
        weft_text_add(
            out, "  bandwidth job=%d bytes=%" PRId64 " share=%u absolute=%" PRIu64 "\n",
            b->has_job ? (int)b->job : -1, b->has_bytes ? (int64_t)b->bytes : -1,
            b->is_share ? b->at_least_ppb : 0, b->at_least_bytes_per_s);
    }
    for (uint32_t i = 0; i < expect->n_connections; i++) {
        const struct scenario_connection *c = &expect->connections[i];
        weft_text_add(out, "  connection %u>%u port=%d via=%d", c->from, c->to,
                      c->has_port ? (int)c->port : -1, c->has_via);
        for (uint32_t k = 0; k < c->n_via; k++) {
            weft_text_add(out, " host%u", c->via[k]);
        }
        if (c->has_transport || c->reason != NULL) {
            weft_text_add(out, " transport=%d reason='%s'",
                          c->has_transport ? (int)c->transport : -1,
                          c->reason != NULL ? c->reason : "");
        }
        weft_text_add(out, "\n");
    }
}

static const char *host_or_others(const struct scenario *scenario, uint32_t host)
{
    return host == SCENARIO_OTHERS ? "*" : scenario->hosts[host].name;
}

static void dump_exec(const struct scenario *scenario, const struct scenario_exec *exec,
                      struct weft_text *out)
{
    static const char *const kinds[] = {"status", "any", "killed", "hangs"};

    for (uint32_t i = 0; exec != NULL && i < exec->n_commands; i++) {
        const struct scenario_command *command = &exec->commands[i];
        weft_text_add(out, "  on %s:", host_or_others(scenario, command->host));
        for (uint32_t k = 0; k < command->n_words; k++) {
            weft_text_add(out, " [%s]", command->words[k]);
        }
        weft_text_add(out, "\n");
    }
    for (uint32_t i = 0; exec != NULL && i < exec->n_statuses; i++) {
        const struct scenario_end_status *end = &exec->statuses[i];
        weft_text_add(out, "  ends %s: %s %d\n", host_or_others(scenario, end->host),
                      kinds[end->kind], end->status);
    }
    for (uint32_t i = 0; exec != NULL && i < exec->n_outputs; i++) {
        weft_text_add(out, "  says %s: %s\n",
                      host_or_others(scenario, exec->outputs[i].host),
                      exec->outputs[i].pattern);
    }
    if (exec != NULL) {
        weft_text_add(out, "  within %" PRId64 "\n", exec->within_ns);
    }
}

void dump_scenario(const struct scenario *scenario, struct weft_text *out)
{
    weft_text_add(out, "scenario %s policy=%s '%s'\n", scenario->name,
                  weft_policy_name(scenario->policy), scenario->description);
    for (uint32_t i = 0; i < scenario->n_hosts; i++) {
        const struct world_host *host = &scenario->hosts[i];
        const struct scenario_node *node = &scenario->nodes[i];
        weft_text_add(out, "node %s ranks=%u gpu_topology=%s%s at %u:%u\n", host->name,
                      host->n_processes,
                      node->gpu_topology != NULL ? node->gpu_topology : "-",
                      host->has_no_peer_access ? " no_peer_access" : "", node->mark.line,
                      node->mark.column);
    }
    for (uint32_t i = 0; i < scenario->n_links; i++) {
        const struct scenario_link *link = &scenario->links[i];
        weft_text_add(out, "link %s cage=%d at %u:%u\n", link->name, link->is_cage_rail,
                      link->mark.line, link->mark.column);
    }
    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        const struct scenario_job *job = &scenario->jobs[i];
        weft_text_add(out, "job %s %s %s root=%u repeat=%u %s in_place=%d at %u:%u:",
                      scenario_job_name(job), weft_dtype_name(job->dtype),
                      weft_redop_name(job->op), job->root, job->repeat,
                      weft_algorithm_name(job->algorithm), job->in_place, job->mark.line,
                      job->mark.column);
        for (uint32_t k = 0; k < job->n_bytes; k++) {
            weft_text_add(out, " %" PRIu64, job->bytes[k]);
        }
        weft_text_add(out, "\n");
        dump_exec(scenario, job->exec, out);
    }
    dump_expect(&scenario->expect, out);
}

char *testing_read_file(const char *path, size_t *out_n_bytes)
{
    struct weft_text text = {0};
    char chunk[4096];
    size_t n;
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "run from the root of the repository: no %s", path);
    weft_text_add(&text, "%s", "");
    while ((n = fread(chunk, 1, sizeof(chunk), file)) > 0) {
        weft_text_add_bytes(&text, chunk, n);
    }
    fclose(file);
    *out_n_bytes = text.n;
    return text.bytes;
}
