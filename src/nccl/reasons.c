/* Explains the choices of other programs: each rule that led to one, with its source. */
#include <string.h>

#include "base/text.h"
#include "nccl/policies.h"

#define STOCK_RAILS 4 /* maximum of a merged device */

struct reasons {
    const struct rdma_choice_input *input;
    const struct rdma_rail *rails;
    uint32_t n_rails;
    const struct rdma_port_facts *local, *remote; /* ports of the first rail */
    struct rdma_reason *out;
    uint32_t n;
};

static char *add(struct reasons *r, const char *what, const char *source)
{
    return rdma_reason_add(r->out, &r->n, what, source);
}

/* ---- NCCL ---- */

static void explain_nccl_gid(struct reasons *r)
{
    const struct rdma_rail *rail = r->rails;
    char *text = add(
        r, "gid", "NCCL src/transport/net_ib.cc: ncclIbGetGidIndex, ncclUpdateGidIndex");
    const struct rdma_gid_rule *rule = &r->input->gid;
    const char *family = rule->wants_ipv6 ? "IPv6" : "IPv4";

    if (rule->index >= 0) {
        weft_format(text, sizeof(r->out->text),
                    "NCCL_IB_GID_INDEX=%d, whatever is there%s", rule->index,
                    nccl_gid(r->local, rule) == UINT32_MAX ? ": on this port nothing"
                                                           : "");
        return;
    }
    if (rail->local_gid >= r->local->n_gids) {
        weft_format(text, sizeof(r->out->text), "the table is empty");
        return;
    }
    if (nccl_looks_for(rule, &r->local->gids[rail->local_gid].gid)) {
        weft_format(text, sizeof(r->out->text),
                    "slot %u: a scan from slot 0 on prefers %s%s, then RoCE v%lld",
                    r->local->gids[rail->local_gid].index, family,
                    rule->range_len != 0 ? " in NCCL_IB_ADDR_RANGE" : "",
                    (long long)rule->roce_version);
    } else {
        weft_format(text, sizeof(r->out->text),
                    "slot %u: no %s GID of RoCE v%lld was found%s "
                    "(NCCL_IB_ADDR_FAMILY), so that the scan ends where it began",
                    r->local->gids[rail->local_gid].index, family,
                    (long long)rule->roce_version,
                    rule->range_len != 0 ? " in NCCL_IB_ADDR_RANGE" : "");
    }
}

static bool is_merged(const struct reasons *r)
{
    for (uint32_t i = 0; i < r->n_rails; i++) {
        if (r->rails[i].local_port != r->rails[0].local_port) {
            return true;
        }
    }
    return false;
}

static void explain_nccl_device(struct reasons *r)
{
    bool is_chosen = false;
    char *text = add(r, "device",
                     "NCCL src/graph/search.cc, src/transport/net.cc: netDev; net_ib.cc: "
                     "NCCL_NET_MERGE_LEVEL");

    for (uint32_t p = 0; p < r->input->n_local; p++) {
        is_chosen = is_chosen || r->input->local[p].is_chosen;
    }
    weft_format(text, sizeof(r->out->text),
                "%s%s; the peer is not asked what it can reach",
                is_chosen ? "what NCCL finds nearest inside this host"
                          : "NIC of the channel's number modulo NICs",
                r->input->splits_nics ? ", every port a NIC"
                : is_merged(r)        ? ", the ports of one card merged"
                                      : "");
}

/* Returns true if all rails share a subnet as 2.30.7 compares it. */
static bool all_match(const struct reasons *r)
{
    for (uint32_t i = 0; i < r->n_rails; i++) {
        const struct rdma_port_facts *a = &r->input->local[r->rails[i].local_port];
        const struct rdma_port_facts *b = &r->input->remote[r->rails[i].remote_port];
        if (r->rails[i].local_gid >= a->n_gids || r->rails[i].remote_gid >= b->n_gids) {
            return false;
        }
        if (!nccl_same_subnet(&r->input->gid, &a->gids[r->rails[i].local_gid].gid,
                              &b->gids[r->rails[i].remote_gid].gid)) {
            return false;
        }
    }
    return true;
}

/* Returns the prefix length by which the addresses of this end are compared. */
static unsigned subnet_len(const struct reasons *r)
{
    uint32_t gid = r->rails[0].local_gid;
    struct io_ip ip;

    if (gid >= r->local->n_gids) {
        return r->input->gid.subnet_len;
    }
    ip = rdma_gid_ip(&r->local->gids[gid].gid);
    return io_ip_is_v4(&ip) ? r->input->gid.subnet_len : 64;
}

static void explain_subnets(struct reasons *r)
{
    struct rdma_rail stock[STOCK_RAILS];
    uint32_t n = nccl_choose(r->input, false, stock, STOCK_RAILS);
    bool is_kept = n > 0 && stock[0].local_port == r->rails[0].local_port;
    const char *by = r->input->is_connector ? "the listener's first two GIDs"
                                            : "the GIDs of the connector's device";

    char *text = add(r, "device",
                     "NCCL 2.30.7 src/transport/net_ib/connect.cc: "
                     "NCCL_IB_SUBNET_AWARE_ROUTING, NCCL_IB_SUBNET_PREFIX_LEN");

    weft_format(text, sizeof(r->out->text),
                is_kept && all_match(r) ? "kept: all its ports are in a /%u of %s"
                : is_kept
                    ? "kept: no device has all its ports in a /%u of %s"
                    : "left for the first device whose ports are all in a /%u of %s",
                subnet_len(r), by);
}

static void explain_nccl(struct reasons *r, bool subnet_aware)
{
    explain_nccl_device(r);
    if (subnet_aware) {
        explain_subnets(r);
    }
    weft_format(add(r, "port", "NCCL src/transport/net_ib.cc: ncclIbCreateQp's devIndex"),
                sizeof(r->out->text),
                "queue pair q by port q modulo ports of each device");
    explain_nccl_gid(r);
    weft_format(add(r, "path_mtu", "NCCL src/transport/net_ib.cc: ncclIbRtrQp"),
                sizeof(r->out->text), "the lesser of both active MTUs (%u, %u)",
                r->local->active_mtu, r->remote->active_mtu);
}

static void explain_recovery(struct reasons *r)
{
    weft_format(
        add(r, "recovery", "NCCL 2.29 src/transport/net_ib/p2p_resiliency_recovery.cc"),
        sizeof(r->out->text),
        "a port that failed is tried %u times, by slot %u as now, whatever is there "
        "by then; the others carry all",
        nccl_recovery.attempts_max,
        r->rails[0].local_gid < r->local->n_gids
            ? r->local->gids[r->rails[0].local_gid].index
            : 0);
}

/* ---- the mesh plugin ---- */

static void explain_plugin(struct reasons *r)
{
    static const char source[] = "nccl-mesh-plugin 679a394 src/mesh_plugin.c";
    const struct rdma_port_facts *connector =
        r->input->is_connector ? r->local : r->remote;
    const struct rdma_port_facts *listener =
        r->input->is_connector ? r->remote : r->local;
    char a[RDMA_GID_TEXT_BYTES], b[RDMA_GID_TEXT_BYTES];
    uint32_t ours, theirs;
    bool is_fast;

    (void)mesh_plugin_pair(r->input, &ours, &theirs, &is_fast);
    weft_format(add(r, "device", source), sizeof(r->out->text),
                "the first of the listener's six addresses that a %sNIC of the connector "
                "has in its netmask: %s by %s",
                is_fast ? "fast " : "",
                rdma_gid_text(listener, mesh_plugin_gid(listener, -1), b),
                rdma_gid_text(connector, mesh_plugin_gid(connector, -1), a));
    weft_format(add(r, "gid", source), sizeof(r->out->text),
                "the first GID of 16 slots with the interface's address, else with any "
                "IPv4 one, whatever its RoCE version; else NCCL_MESH_GID_INDEX");
    weft_format(
        add(r, "path_mtu", source), sizeof(r->out->text),
        r->input->is_connector
            ? "the lesser of its own active MTU (%u) and that of the first NIC in the "
              "handle (%u)"
            : "its own active MTU (%u), whatever the other end takes",
        r->local->active_mtu,
        mesh_plugin_first(r->input->remote, r->input->n_remote)->active_mtu);
}

/* ---- Mooncake ---- */

static void explain_mooncake(struct reasons *r)
{
    static const char choice[] = "Mooncake 30f01bdb src/topology.cpp: selectDevice";
    static const char probe[] = "Mooncake 30f01bdb include/transport/rdma_transport/"
                                "rdma_gid_probe.h: classifyAutoGidCandidate";
    static const char context[] =
        "Mooncake 30f01bdb src/transport/rdma_transport/rdma_context.cpp";
    const struct rdma_rail *rail = r->rails;
    struct io_ip ip = rdma_gid_ip(&r->local->gids[rail->local_gid].gid);
    uint32_t slot = r->local->gids[rail->local_gid].index;

    weft_format(
        add(r, "device", choice), sizeof(r->out->text),
        "each NIC in turn, at either end by itself: the peer is not asked what it "
        "can reach");
    if (r->input->gid.index >= 0) {
        weft_format(add(r, "gid", context), sizeof(r->out->text),
                    "slot %u: MC_GID_INDEX or NCCL_IB_GID_INDEX", slot);
    } else if (io_ip_is_v4(&ip) || !io_ip_is_link_local(&ip)) {
        weft_format(add(r, "gid", probe), sizeof(r->out->text),
                    "slot %u: RoCE v2, neither fe80:: nor private IPv4 first; then the "
                    "lowest slot",
                    slot);
    } else {
        weft_format(
            add(r, "gid", probe), sizeof(r->out->text),
            "slot %u: 10/8, 172.16/12 and 100.64/10 count as overlay networks, as "
            "little as fe80::, and the lowest slot wins",
            slot);
    }
    weft_format(add(r, "path_mtu", context), sizeof(r->out->text),
                "its own active MTU (%u), whatever the other end takes",
                r->local->active_mtu);
}

uint32_t nccl_reasons(const struct rdma_choice_input *input,
                      const struct rdma_rail *rails, uint32_t n_rails,
                      struct rdma_reason out[RDMA_REASONS_MAX])
{
    struct reasons r = {.input = input, .rails = rails, .n_rails = n_rails, .out = out};

    if (n_rails == 0) {
        return 0;
    }
    r.local = &input->local[rails[0].local_port];
    r.remote = &input->remote[rails[0].remote_port];
    switch (input->policy) {
    case WEFT_POLICY_NCCL_2_25:
        explain_nccl(&r, false);
        break;
    case WEFT_POLICY_NCCL_2_30_SUBNET_AWARE:
        explain_nccl(&r, true);
        break;
    case WEFT_POLICY_NCCL_2_29_PORT_RECOVERY:
        explain_nccl(&r, false);
        explain_recovery(&r);
        break;
    case WEFT_POLICY_MESH_PLUGIN_2026_01:
        explain_plugin(&r);
        break;
    case WEFT_POLICY_MOONCAKE_2026_06:
        explain_mooncake(&r);
        break;
    case WEFT_POLICY_WEFT:
    case WEFT_N_POLICIES:
        break;
    }
    return r.n;
}
