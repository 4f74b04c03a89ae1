/* Facts of ports and settings, by which policies choose rails. */
#include <string.h>

#include "base/text.h"
#include "conn/private.h"
#include "nccl/policies.h"
#include "rdma/policy.h"

/* Copies up to RDMA_FACTS_GIDS_MAX GIDs in table order. If the table has more, leaves out those
 * without an address. */
static void gid_facts(const struct rdma_port *port, struct rdma_port_facts *out)
{
    out->is_cut = port->n_gids > RDMA_FACTS_GIDS_MAX;
    for (uint32_t i = 0; i < port->n_gids && out->n_gids < RDMA_FACTS_GIDS_MAX; i++) {
        const struct rdma_gid *gid = &port->gids[i];

        if (out->is_cut && gid->prefix_len == 0) {
            continue;
        }
        out->gids[out->n_gids].gid = gid->gid;
        out->gids[out->n_gids].type = (uint8_t)gid->type;
        out->gids[out->n_gids].prefix_len = gid->prefix_len;
        out->gids[out->n_gids].index = gid->index;
        out->n_gids++;
    }
}

void conn_port_facts(const struct rdma *rdma, uint32_t i, struct rdma_port_facts *out)
{
    const struct rdma_port *port = &rdma->ports[i];

    memset(out, 0, sizeof(*out));
    weft_format(out->name, sizeof(out->name), "%s", port->name);
    out->device = rdma_nic(rdma, port->device_index) & 0xff;
    /* A port that reports no MTU cannot carry data. */
    out->is_active = port->is_active && port->active_mtu != 0;
    out->may_stall = rdma->attrs[port->device_index].may_stall;
    out->active_mtu = port->active_mtu != 0 ? port->active_mtu : 256;
    out->netdev_mtu = port->netdev_mtu;
    out->rate_bps = port->rate_bps;
    gid_facts(port, out);
}

uint32_t conn_local_facts(const struct rdma *rdma, struct rdma_port_facts *out,
                          uint32_t cap)
{
    uint32_t n = rdma->n_ports < cap ? rdma->n_ports : cap;

    for (uint32_t i = 0; i < n; i++) {
        conn_port_facts(rdma, i, &out[i]);
    }
    return n;
}

uint32_t conn_find_gid(const struct rdma_port_facts *port, const union ibv_gid *gid,
                       uint8_t type)
{
    for (uint32_t i = 0; i < port->n_gids; i++) {
        if (port->gids[i].type == type &&
            memcmp(port->gids[i].gid.raw, gid->raw, sizeof(gid->raw)) == 0) {
            return i;
        }
    }
    return UINT32_MAX;
}

/* ---- choice ---- */

void conn_choice_settings(struct io_env *env, enum weft_policy policy,
                          struct rdma_gid_rule *out_gid, bool *out_splits_nics)
{
    bool reads = policy != WEFT_POLICY_WEFT;
    struct rdma_gid_settings settings = {
        .index = env->ops->setting(env, "NCCL_IB_GID_INDEX"),
        .family = env->ops->setting(env, "NCCL_IB_ADDR_FAMILY"),
        .range = env->ops->setting(env, "NCCL_IB_ADDR_RANGE"),
        .roce_version = env->ops->setting(env, "NCCL_IB_ROCE_VERSION_NUM"),
        .subnet_len = env->ops->setting(env, "NCCL_IB_SUBNET_PREFIX_LEN"),
        .mooncake_index = env->ops->setting(env, "MC_GID_INDEX"),
        .mesh_index = env->ops->setting(env, "NCCL_MESH_GID_INDEX"),
    };

    *out_gid = rdma_gid_rule(policy, &settings);
    *out_splits_nics =
        reads && !nccl_merges(env->ops->setting(env, "NCCL_IB_MERGE_NICS"),
                              env->ops->setting(env, "NCCL_NET_MERGE_LEVEL"));
}

bool conn_opens(struct io_env *env, enum weft_policy policy, const struct rdma_port *port)
{
    return rdma_opens(policy, env->ops->setting(env, "NCCL_IB_HCA"), port->device->name,
                      port->port);
}

static bool is_same_host(const struct conn *conn)
{
    struct io_env *env = conn_env(conn);

    return memcmp(conn->peer.host_id, io_host_id(env), sizeof(conn->peer.host_id)) == 0;
}

struct rdma_choice_input conn_choice_input(const struct conn *conn)
{
    struct rdma_choice_input input = {
        .policy = conn->config.policy,
        .local = conn->private->local,
        .n_local = conn->private->n_local,
        .remote = conn->peer.ports,
        .n_remote = conn->peer.n_ports,
        .channel = conn->config.channel,
        .is_connector = conn->is_connector,
        .is_same_host = is_same_host(conn),
    };

    /* Assume that the peer has the same settings. */
    conn_choice_settings(conn_env(conn), input.policy, &input.gid, &input.splits_nics);
    return input;
}
