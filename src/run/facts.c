#include "run/facts.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "host/observe.h"
#include "nccl/policies.h"
#include "rdma/policy.h"
#include "run/record.h"

static enum diag_known forwards_ip(const struct io_hostinfo *info)
{
    if (info->ip_forward == IO_UNKNOWN) {
        return DIAG_UNKNOWN;
    }
    return info->ip_forward != 0 ? DIAG_YES : DIAG_NO;
}

static enum diag_known is_management_down(const struct io_hostinfo *info)
{
    enum diag_known answer = info->netdevs_errno != 0 ? DIAG_UNKNOWN : DIAG_NO;

    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        if (info->netdevs[i].is_management) {
            answer = info->netdevs[i].is_up ? DIAG_NO : DIAG_YES;
        }
    }
    return answer;
}

/* Policies of NCCL merge NICs unless a setting forbids it. */
static enum diag_known merges_nics(struct io_env *env, enum weft_policy policy)
{
    return weft_policy_is_nccl(policy) &&
                   nccl_merges(env->ops->setting(env, "NCCL_IB_MERGE_NICS"),
                               env->ops->setting(env, "NCCL_NET_MERGE_LEVEL"))
               ? DIAG_YES
               : DIAG_NO;
}

void run_facts_policy(struct io_env *env, enum weft_policy policy, struct diag_host *out)
{
    bool splits_nics;
    struct rdma_gid_rule rule;

    conn_choice_settings(env, policy, &rule, &splits_nics);
    weft_format(out->policy, sizeof(out->policy), "%s", weft_policy_name(policy));
    out->gid_index = rule.index < 0 ? DIAG_NO_GID_INDEX : rule.index;
    out->subnet_len = rule.subnet_len;
    out->merges_nics = merges_nics(env, policy);
}

/* Records which ports NCCL_IB_HCA leaves to a program of `policy`. */
static void add_list(struct io_env *env, enum weft_policy policy, struct diag_host *out)
{
    const char *list = env->ops->setting(env, "NCCL_IB_HCA");

    if (weft_policy_is_nccl(policy) && list != NULL) {
        weft_format(out->hca_list, sizeof(out->hca_list), "%s", list);
    }
    for (uint32_t i = 0; i < out->n_ports; i++) {
        struct diag_port *port = &out->ports[i];
        char device[DIAG_NAME_BYTES];
        long number = 1;

        weft_format(device, sizeof(device), "%s", port->name);
        if (strchr(device, '/') != NULL) {
            number = strtol(strchr(device, '/') + 1, NULL, 10);
            *strchr(device, '/') = '\0';
        }
        port->is_opened =
            rdma_opens(policy, list, device, (uint8_t)number) ? DIAG_YES : DIAG_NO;
    }
}

void run_facts_before(struct rdma *rdma, struct diag_host *out)
{
    enum { PORTS_MAX = 64 };
    struct io_env *env = rdma->env;
    const struct io_hostinfo *info = env->ops->hostinfo(env);
    struct rdma_port_facts *facts = weft_calloc(PORTS_MAX, sizeof(*facts));

    weft_format(out->name, sizeof(out->name), "%s", env->name);
    out->was_observed = true;
    out->gid_index = IO_UNKNOWN;
    out->subnet_len = DIAG_SUBNET_LEN;
    out->memlock_bytes = info->memlock_bytes;
    out->forwards_ip = forwards_ip(info);
    out->management_down = is_management_down(info);
    out->n_ports = conn_local_facts(rdma, facts, PORTS_MAX);
    out->ports = observe_ports(facts, out->n_ports);
    observe_devices(env, out->ports, out->n_ports);
    add_list(env, WEFT_POLICY_NCCL_2_25, out); /* all versions of NCCL read it alike */
    free(facts);
}

static void add_left_out(const struct host *host, struct diag_host *out)
{
    out->left_out = weft_calloc(host->n_left_out + 1, sizeof(*out->left_out));
    for (uint32_t i = 0; i < host->n_left_out; i++) {
        const struct host_left_out *from = &host->left_out[i];
        struct diag_error *error = &out->left_out[out->n_left_out++];

        error->error = from->why;
        error->at_ns = IO_UNKNOWN;
        error->source = from->why.phase == WEFT_PHASE_PEER ? DIAG_HEARSAY : DIAG_OWN;
        weft_format(error->peer, sizeof(error->peer), "%s", host->peers[from->peer].name);
    }
}

static void add_waits(const struct host *host, struct diag_host *out)
{
    out->waits = weft_calloc(host->n_waits + 1, sizeof(*out->waits));
    out->n_waits = host->n_waits;
    for (uint32_t i = 0; i < host->n_waits; i++) {
        struct diag_wait *wait = &out->waits[i];

        *wait =
            (struct diag_wait){.what = host->waits[i].what, .waited_ns = host->waited_ns};
        weft_format(wait->peer, sizeof(wait->peer), "%u", host->waits[i].member);
    }
}

/* Records the ports of each peer as the peer described them. */
static void add_described(const struct host *host, struct diag_host *out)
{
    uint32_t n = host->has_peers ? host->config.n_members : 0;

    out->described = weft_calloc((size_t)n + 1, sizeof(*out->described));
    for (uint32_t rank = 0; rank < n; rank++) {
        const struct host_peer *peer = &host->peers[rank];
        struct diag_described *described;

        if (rank == host->config.rank || peer->n_ports == 0) {
            continue;
        }
        described = &out->described[out->n_described++];
        weft_format(described->peer, sizeof(described->peer), "%u", rank);
        described->n_ports = peer->n_ports;
        described->ports = observe_ports(peer->ports, peer->n_ports);
    }
}

void run_facts(const struct host *host, struct diag_host *out)
{
    const struct io_hostinfo *info = host->env->ops->hostinfo(host->env);

    weft_format(out->name, sizeof(out->name), "%s", host->env->name);
    run_facts_policy(host->env, host->config.conn.policy, out);
    out->memlock_bytes = info->memlock_bytes;
    out->forwards_ip = forwards_ip(info);
    out->management_down = is_management_down(info);
    out->n_ports = host->n_ports;
    out->ports = observe_ports(host->ports, host->n_ports);
    observe_devices(host->env, out->ports, out->n_ports);
    add_list(host->env, host->config.conn.policy, out);
    add_left_out(host, out);
    add_waits(host, out);
    add_described(host, out);
}

/* Writes the host's name of port `index`. A further port of a device has the device's name and its
 * number. */
static void name_port(const struct world_host *host, uint32_t index,
                      char out[DIAG_NAME_BYTES])
{
    const struct world_port *port = &host->ports[index];

    weft_format(out, DIAG_NAME_BYTES, "%s", port->name);
    for (uint32_t i = 0; port->port > 1 && i < host->n_ports; i++) {
        if (host->ports[i].device == port->device && host->ports[i].port == 1) {
            weft_format(out, DIAG_NAME_BYTES, "%s/%u", host->ports[i].name, port->port);
            return;
        }
    }
}

static void name_end(const struct world_spec *spec, const struct world_end *end,
                     char node[DIAG_NAME_BYTES], char port[DIAG_NAME_BYTES])
{
    if (end->is_switch) {
        weft_format(node, DIAG_NAME_BYTES, "%s", spec->switches[end->node].name);
        weft_format(port, DIAG_NAME_BYTES, "%u", end->port);
    } else {
        weft_format(node, DIAG_NAME_BYTES, "%s", spec->hosts[end->node].name);
        name_port(&spec->hosts[end->node], end->port, port);
    }
}

/* Orders hosts before switches. */
static int compare_ends(const struct world_end *a, const struct world_end *b)
{
    if (a->is_switch != b->is_switch) {
        return a->is_switch ? 1 : -1;
    }
    return a->node != b->node ? (a->node < b->node ? -1 : 1) : 0;
}

struct sorted_cable {
    struct world_end ends[2];
    uint64_t rate_bps; /* 0 if the file gives none */
};

static int compare_cables(const void *left, const void *right)
{
    const struct sorted_cable *of_left = left, *of_right = right;
    const struct world_end *a = of_left->ends, *b = of_right->ends;

    for (int i = 0; i < 2; i++) {
        if (compare_ends(&a[i], &b[i]) != 0) {
            return compare_ends(&a[i], &b[i]);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (a[i].port != b[i].port) {
            return a[i].port < b[i].port ? -1 : 1;
        }
    }
    return 0;
}

void run_facts_cables(const struct world_spec *spec, bool is_simulated,
                      struct diag_input *out)
{
    struct sorted_cable *sorted = weft_calloc(spec->n_cables + 1, sizeof(*sorted));

    for (uint32_t i = 0; i < spec->n_cables; i++) {
        const struct world_end *given = spec->cables[i].ends;
        int first = compare_ends(&given[0], &given[1]) > 0;

        sorted[i].ends[0] = given[first];
        sorted[i].ends[1] = given[1 - first];
        sorted[i].rate_bps = spec->cables[i].is_rate_assumed && !is_simulated
                                 ? 0
                                 : spec->cables[i].rate_bps;
    }
    qsort(sorted, spec->n_cables, sizeof(*sorted), compare_cables);
    out->cables = weft_calloc(spec->n_cables + 1, sizeof(*out->cables));
    for (uint32_t i = 0; i < spec->n_cables; i++) {
        struct diag_cable *cable = &out->cables[out->n_cables++];

        name_end(spec, &sorted[i].ends[0], cable->from, cable->from_port);
        name_end(spec, &sorted[i].ends[1], cable->to, cable->to_port);
        cable->rate_bps = (int64_t)sorted[i].rate_bps;
    }
    free(sorted);
}
