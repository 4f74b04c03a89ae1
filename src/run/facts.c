#include "run/facts.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "run/record.h"

_Static_assert(IBV_GID_TYPE_ROCE_V1 == 1 && IBV_GID_TYPE_ROCE_V2 == 2,
               "diag counts RoCE versions as verbs does");
_Static_assert(RDMA_FACTS_GIDS_MAX <= DIAG_GIDS_MAX, "all facts are observed");

void run_facts_port(const struct rdma_port_facts *facts, struct diag_port *out)
{
    diag_port_init(out);
    weft_format(out->name, sizeof(out->name), "%s", facts->name);
    out->is_up = facts->is_active ? DIAG_YES : DIAG_NO;
    out->netdev_mtu = facts->netdev_mtu;
    out->active_mtu = facts->active_mtu;
    out->rate_bps = (int64_t)facts->rate_bps;
    out->device = facts->device;
    out->has_gids = true;
    for (uint32_t i = 0; i < facts->n_gids; i++) {
        struct diag_gid *gid = &out->gids[out->n_gids++];

        memcpy(gid->ip.bytes, facts->gids[i].gid.raw, sizeof(gid->ip.bytes));
        gid->type = facts->gids[i].type;
        gid->prefix_len = facts->gids[i].prefix_len;
        gid->index = (int)facts->gids[i].index;
        gid->vlan_id = IO_UNKNOWN;
    }
}

/* The netdev of this host with the address that a GID is; NULL: none, or more than one. */
static const struct io_netdev *netdev_with(const struct io_hostinfo *info,
                                           const struct io_ip *ip)
{
    const struct io_netdev *found = NULL;

    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        for (uint32_t k = 0; k < info->netdevs[i].n_addresses; k++) {
            if (!io_ip_equal(&info->netdevs[i].addresses[k].ip, ip)) {
                continue;
            }
            if (found != NULL) {
                return NULL;
            }
            found = &info->netdevs[i];
        }
    }
    return found;
}

static void add_netdevs(const struct io_hostinfo *info, struct diag_port *out)
{
    for (uint32_t i = 0; i < out->n_gids; i++) {
        struct diag_gid *gid = &out->gids[i];
        const struct io_netdev *netdev =
            gid->prefix_len > 0 ? netdev_with(info, &gid->ip) : NULL;

        if (netdev != NULL) {
            gid->vlan_id = netdev->vlan_id;
        }
    }
}

static void copy_counters(const struct io_port_counters *from, struct diag_port *out)
{
    const int64_t all[DIAG_N_COUNTERS] = {
        [DIAG_TX_PACKETS] = from->tx_packets,
        [DIAG_RX_PACKETS] = from->rx_packets,
        [DIAG_RETRANSMITS] = from->retransmits,
        [DIAG_TIMEOUTS] = from->timeouts,
        [DIAG_OUT_OF_SEQUENCE] = from->out_of_sequence,
        [DIAG_RNR_NAKS_SENT] = from->rnr_naks_sent,
        [DIAG_ICRC_ERRORS] = from->icrc_errors,
        [DIAG_RX_UNCLAIMED] = from->rx_unclaimed,
        [DIAG_RX_FILTERED_SOURCE] = from->rx_filtered_source,
        [DIAG_RX_FILTERED_PORT] = from->rx_filtered_port,
        [DIAG_RX_OVERSIZE] = from->rx_oversize,
        [DIAG_TX_QUEUE_DROPS] = from->tx_queue_drops,
        [DIAG_RX_PAUSES] = from->rx_pauses,
    };

    memcpy(out->counters, all, sizeof(all));
}

/* What the device of a port and its netdev tell beyond the facts that peers are told. */
static void add_device(const struct io_hostinfo *info, struct io_device *device,
                       uint8_t port, struct diag_port *out)
{
    struct io_device_attr attr;
    struct io_port_counters counters;
    uint32_t ifindex = 0;
    const struct io_netdev *netdev;

    if (device->ops->query_device(device, &attr) == 0 && attr.profile != NULL &&
        strcmp(attr.profile, "unknown") != 0) {
        out->is_software = strcmp(attr.profile, "rxe") == 0 ? DIAG_YES : DIAG_NO;
    }
    if (device->ops->port_counters != NULL &&
        device->ops->port_counters(device, port, &counters) == 0) {
        copy_counters(&counters, out);
    }
    netdev = device->ops->port_netdev(device, port, &ifindex) == 0
                 ? io_hostinfo_netdev(info, ifindex)
                 : NULL;
    if (netdev != NULL) {
        out->rp_filter = netdev->rp_filter;
        out->arp_ignore = netdev->arp_ignore;
    }
}

static void add_devices(const struct io_env *env, const struct io_hostinfo *info,
                        struct diag_host *out)
{
    char name[DIAG_NAME_BYTES];

    for (uint32_t i = 0; i < env->n_devices; i++) {
        struct io_device *device = env->devices[i];

        for (uint8_t port = 1; port <= device->n_ports; port++) {
            weft_format(name, sizeof(name), port == 1 ? "%s" : "%s/%u", device->name,
                        port);
            for (uint32_t k = 0; k < out->n_ports; k++) {
                if (strcmp(out->ports[k].name, name) == 0) {
                    add_device(info, device, port, &out->ports[k]);
                }
            }
        }
    }
}

/* Which setting fixes the index of the GID, of those that the policy reads. */
static int64_t gid_index(const struct host *host)
{
    bool splits_nics;
    int index;

    conn_choice_settings(host->env, host->config.conn.policy, &index, &splits_nics);
    return index < 0 ? DIAG_NO_GID_INDEX : index;
}

/* NCCL's policies do, unless a setting forbids it. */
static enum diag_known merges_nics(const struct host *host)
{
    enum rdma_policy policy = host->config.conn.policy;
    struct io_env *env = host->env;
    bool is_nccl =
        policy == RDMA_POLICY_NCCL_2_25 || policy == RDMA_POLICY_NCCL_2_30_SUBNET_AWARE;

    return is_nccl && rdma_nccl_merges(env->ops->setting(env, "NCCL_IB_MERGE_NICS"),
                                       env->ops->setting(env, "NCCL_NET_MERGE_LEVEL"))
               ? DIAG_YES
               : DIAG_NO;
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
    out->memlock_bytes = info->memlock_bytes;
    out->n_ports = conn_local_facts(rdma, facts, PORTS_MAX);
    out->ports = weft_calloc(out->n_ports + 1, sizeof(*out->ports));
    for (uint32_t i = 0; i < out->n_ports; i++) {
        run_facts_port(&facts[i], &out->ports[i]);
        add_netdevs(info, &out->ports[i]);
    }
    add_devices(env, info, out);
    free(facts);
}

void run_facts(const struct host *host, struct diag_host *out)
{
    const struct io_hostinfo *info = host->env->ops->hostinfo(host->env);

    weft_format(out->name, sizeof(out->name), "%s", host->env->name);
    weft_format(out->policy, sizeof(out->policy), "%s",
                rdma_policy_name(host->config.conn.policy));
    out->gid_index = gid_index(host);
    out->merges_nics = merges_nics(host);
    out->memlock_bytes = info->memlock_bytes;
    out->ports = weft_calloc(host->n_ports + 1, sizeof(*out->ports));
    out->n_ports = host->n_ports;
    for (uint32_t i = 0; i < host->n_ports; i++) {
        run_facts_port(&host->ports[i], &out->ports[i]);
        add_netdevs(info, &out->ports[i]);
    }
    add_devices(host->env, info, out);
}
