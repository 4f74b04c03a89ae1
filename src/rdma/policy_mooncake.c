/* Mooncake's transfer engine as of June 2026 (commit 30f01bdb), before the change that puts private
 * addresses before link-local ones (kvcache-ai/Mooncake#2741). Paths are below
 * mooncake-transfer-engine. */
#include "rdma/policies.h"

#define NICS_MAX 32

/* include/transport/rdma_transport/rdma_gid_probe.h: classifyAutoGidCandidate, best first. The
 * classes of GIDs without a network interface are left out: facts do not tell of interfaces. */
enum gid_class { CLASS_ROUTABLE, CLASS_DEGRADED, CLASS_OTHER, CLASS_NONE };

struct nic {
    uint32_t port, gid; /* index into the facts, and into the port's gids[] */
};

/* rdma_context.cpp: isOverlayIPv4. */
bool rdma_mooncake_takes_for_overlay(const union ibv_gid *gid)
{
    struct io_ip ip = rdma_gid_ip(gid);
    const uint8_t *v4 = ip.bytes + 12;

    return io_ip_is_v4(&ip) && (v4[0] == 10 || (v4[0] == 172 && (v4[1] & 0xf0) == 16) ||
                                (v4[0] == 100 && (v4[1] & 0xc0) == 64));
}

/* A GID of RoCE v2 is worth less if it is fe80::/10 or of an overlay network; any other that is
 * not zero is for where there is none (rankAutoGidCandidates). */
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
    return rdma_mooncake_takes_for_overlay(gid) ||
                   (!io_ip_is_v4(&ip) && io_ip_is_link_local(&ip))
               ? CLASS_DEGRADED
               : CLASS_ROUTABLE;
}

/* The best class, and in it the lowest slot, which on mlx5 is that of fe80::. A fixed index is
 * taken as it is. */
uint32_t rdma_mooncake_gid(const struct rdma_port_facts *port, int gid_index)
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

/* openRdmaDevice: port 1 (MC_IB_PORT) of every device, if it is active and has a GID; without one
 * the device is left out. */
static uint32_t list_nics(const struct rdma_port_facts *ports, uint32_t n_ports,
                          int gid_index, struct nic out[NICS_MAX])
{
    uint32_t n = 0;

    for (uint32_t p = 0; p < n_ports && n < NICS_MAX; p++) {
        bool is_first = p == 0 || ports[p - 1].device != ports[p].device;
        uint32_t gid = rdma_mooncake_gid(&ports[p], gid_index);

        if (is_first && ports[p].is_active && gid != UINT32_MAX) {
            out[n++] = (struct nic){.port = p, .gid = gid};
        }
    }
    return n;
}

/* src/topology.cpp: selectDevice, at either end by itself: each in turn (MC_PATH_ROUNDROBIN, and
 * without it every trial after the first, which is random). One queue pair per pair of NICs.
 * rdma_endpoint.cpp, doSetupConnection: each end its own active MTU. */
uint32_t rdma_mooncake_choose(const struct rdma_choice_input *input,
                              struct rdma_rail *out, uint32_t cap)
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

/* rdma_endpoint.cpp: kTimeout, kRetryCount, and rnr_retry 7. */
void rdma_mooncake_patience(struct rdma_patience *patience)
{
    *patience = (struct rdma_patience){.timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
}
