/* Policy of Mooncake's transfer engine as of June 2026 (commit 30f01bdb), before the change that
 * prefers private addresses to link-local ones (kvcache-ai/Mooncake#2741). Paths are below
 * mooncake-transfer-engine. */
#include "nccl/policies.h"

#define NICS_MAX 32

/* Classes of GIDs, best first (include/transport/rdma_transport/rdma_gid_probe.h,
 * classifyAutoGidCandidate). The classes of GIDs without a network interface are omitted, because
 * facts do not contain interfaces. */
enum gid_class { CLASS_ROUTABLE, CLASS_DEGRADED, CLASS_OTHER, CLASS_NONE };

struct nic {
    uint32_t port, gid; /* index into the facts, and into the port's gids[] */
};

/* Follows isOverlayIPv4 of rdma_context.cpp. */
bool mooncake_takes_for_overlay(const union ibv_gid *gid)
{
    struct io_ip ip = rdma_gid_ip(gid);
    const uint8_t *v4 = ip.bytes + 12;

    return io_ip_is_v4(&ip) && (v4[0] == 10 || (v4[0] == 172 && (v4[1] & 0xf0) == 16) ||
                                (v4[0] == 100 && (v4[1] & 0xc0) == 64));
}

/* Returns the class of a GID (rankAutoGidCandidates). A RoCE v2 GID is degraded if it is in
 * fe80::/10 or in an overlay network. A GID of another type is used only if there is no v2 GID. A
 * GID that is zero is never used. */
static enum gid_class class_of(const struct rdma_port_facts *port, uint32_t i)
{
    const union ibv_gid *gid = &port->gids[i].gid;
    struct io_ip ip = rdma_gid_ip(gid);

    if (io_ip_is_zero(&ip)) {
        return CLASS_NONE;
    }
    if (port->gids[i].type != IBV_GID_TYPE_ROCE_V2) {
        return CLASS_OTHER;
    }
    return mooncake_takes_for_overlay(gid) ||
                   (!io_ip_is_v4(&ip) && io_ip_is_link_local(&ip))
               ? CLASS_DEGRADED
               : CLASS_ROUTABLE;
}

/* Returns the GID in the lowest slot of the best class, which on mlx5 can be that of fe80::. A
 * fixed index is used as it is. */
uint32_t mooncake_gid(const struct rdma_port_facts *port, int gid_index)
{
    enum gid_class best = CLASS_NONE;
    uint32_t taken = UINT32_MAX;

    for (uint32_t i = 0; i < port->n_gids; i++) {
        enum gid_class class = class_of(port, i);

        if (gid_index >= 0) {
            taken = port->gids[i].index == (uint32_t)gid_index ? i : taken;
        } else if (class < best || (class == best && class != CLASS_NONE &&
                                    port->gids[i].index < port->gids[taken].index)) {
            best = class;
            taken = i;
        }
    }
    return taken;
}

/* Lists port 1 (MC_IB_PORT) of every device, if it is active and has a GID, as openRdmaDevice
 * does. The devices of one card are different NICs. */
static uint32_t list_nics(const struct rdma_port_facts *ports, uint32_t n_ports,
                          int gid_index, struct nic out[NICS_MAX])
{
    uint32_t n = 0;

    for (uint32_t p = 0; p < n_ports && n < NICS_MAX; p++) {
        uint32_t gid = mooncake_gid(&ports[p], gid_index);

        if (nccl_is_port_one(&ports[p]) && ports[p].is_active && gid != UINT32_MAX) {
            out[n++] = (struct nic){.port = p, .gid = gid};
        }
    }
    return n;
}

/* Selects a NIC at each end, regardless of the other (src/topology.cpp, selectDevice). Each NIC is
 * used in turn, as with MC_PATH_ROUNDROBIN. Without that setting the first trial is random, and
 * only later ones go round. A pair of NICs has one queue pair. Each end uses its own active MTU
 * (rdma_endpoint.cpp, doSetupConnection). */
uint32_t mooncake_choose(const struct rdma_choice_input *input, struct rdma_rail *out,
                         uint32_t cap)
{
    struct nic ours[NICS_MAX], theirs[NICS_MAX];
    uint32_t n_ours = list_nics(input->local, input->n_local, input->gid.index, ours);
    uint32_t n_theirs =
        list_nics(input->remote, input->n_remote, input->gid.index, theirs);

    if (cap == 0 || n_ours == 0 || n_theirs == 0) {
        return 0;
    }
    const struct nic *local = &ours[input->channel % n_ours];
    const struct nic *remote = &theirs[input->channel % n_theirs];
    *out = (struct rdma_rail){
        .local_port = local->port,
        .remote_port = remote->port,
        .local_gid = local->gid,
        .remote_gid = remote->gid,
        .path_mtu = input->local[local->port].active_mtu,
    };
    return 1;
}

/* Uses kTimeout and kRetryCount of rdma_endpoint.cpp, and its rnr_retry 7. */
void mooncake_patience(struct rdma_patience *patience)
{
    *patience = (struct rdma_patience){.timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
}
