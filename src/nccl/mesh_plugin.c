/* Policy of nccl-mesh-plugin as of January 2026 (commit 679a394). */
#include "nccl/policies.h"

#include <stdlib.h>
#include <string.h>

#define HANDLE_ADDRS_MAX 6  /* addresses in its 128-byte handle */
#define SCANNED_GIDS 16     /* slots of the GID table that it scans */
#define DEFAULT_GID_INDEX 3 /* default of NCCL_MESH_GID_INDEX */
/* Rates up to half way between 25 and 50 Gbit/s are slow (mesh_classify_nic_lane). */
#define SLOW_MAX_BPS UINT64_C(37500000000)

/* Returns the QP number that the plugin sends. struct mesh_handle and its answers have `uint16_t
 * qp_num`, but QP numbers have 24 bits (IBA 9.2.4). A NIC that has created 65536 queue pairs since
 * it started assigns longer ones. The sender then addresses a queue pair that does not exist. */
uint32_t mesh_plugin_qpn(uint32_t qpn)
{
    return (uint16_t)qpn;
}

/* Follows mesh_connect_qp, which has `fast_fail ? 14 : 18` once and `fast_fail ? 3 : 7` twice, and
 * reads the setting with atoi. Without it `patience` is kept, because the plugin's values are those
 * of policy weft or higher. */
void mesh_plugin_patience(const char *fast_fail, struct rdma_patience *patience)
{
    if (fast_fail != NULL && strtol(fast_fail, NULL, 10) != 0) {
        *patience = (struct rdma_patience){.timeout = 14, .retry_cnt = 3, .rnr_retry = 3};
    }
}

/* Returns the GID with the address that the plugin uses for a port, as an index into gids[], or
 * UINT32_MAX. The plugin uses the netdev's first IPv4 address (mesh_get_interface_ip). Here it is
 * the first IPv4 GID in the table with an address behind it. */
static uint32_t address_of(const struct rdma_port_facts *port)
{
    for (uint32_t i = 0; i < port->n_gids; i++) {
        struct io_ip ip = rdma_gid_ip(&port->gids[i].gid);

        if (port->gids[i].prefix_len > 0 && io_ip_is_v4(&ip)) {
            return i;
        }
    }
    return UINT32_MAX;
}

/* Returns the address of a port that the plugin uses, which is port 1 of a device
 * (mesh_init_nics). */
static uint32_t nic_address(const struct rdma_port_facts *port)
{
    return nccl_is_port_one(port) ? address_of(port) : UINT32_MAX;
}

const struct rdma_port_facts *mesh_plugin_first(const struct rdma_port_facts *ports,
                                                uint32_t n_ports)
{
    for (uint32_t p = 0; p < n_ports; p++) {
        if (nic_address(&ports[p]) != UINT32_MAX) {
            return &ports[p];
        }
    }
    return NULL;
}

/* Returns the first of the scanned slots with the interface's address, whatever its RoCE version,
 * which on mlx5 is the v1 slot (mesh_find_ipv4_gid_index). Otherwise returns the first with any
 * IPv4 address. The configured index is used only if there is none. */
uint32_t mesh_plugin_gid(const struct rdma_port_facts *port, int gid_index)
{
    uint32_t index = gid_index >= 0 ? (uint32_t)gid_index : DEFAULT_GID_INDEX;
    uint32_t address = address_of(port), any = UINT32_MAX, configured = UINT32_MAX;

    for (uint32_t i = 0; i < port->n_gids; i++) {
        struct io_ip ip = rdma_gid_ip(&port->gids[i].gid);

        if (port->gids[i].index < SCANNED_GIDS && io_ip_is_v4(&ip)) {
            if (address != UINT32_MAX &&
                memcmp(&port->gids[i].gid, &port->gids[address].gid,
                       sizeof(port->gids[i].gid)) == 0) {
                return i;
            }
            any = any == UINT32_MAX ? i : any;
        }
        if (port->gids[i].index == index) {
            configured = i;
        }
    }
    return any != UINT32_MAX ? any : configured;
}

static uint32_t gid_or_first(const struct rdma_port_facts *port, int gid_index)
{
    uint32_t gid = mesh_plugin_gid(port, gid_index);
    return gid == UINT32_MAX ? 0 : gid;
}

/* Returns true if the port is fast. A port without carrier has no speed
 * (/sys/class/net/NAME/speed). */
static bool runs_fast(const struct rdma_port_facts *port)
{
    return port->is_active && port->rate_bps > SLOW_MAX_BPS;
}

/* Takes the listener's addresses in order, and finds for each the first NIC of the connector whose
 * netmask puts it in that NIC's subnet. The connector does not know the listener's netmask. Returns
 * false if no address matches. */
static bool find_pair(const struct rdma_port_facts *connector, uint32_t n_connector,
                      const struct rdma_port_facts *listener, uint32_t n_listener,
                      bool is_fast, uint32_t *out_connector, uint32_t *out_listener)
{
    uint32_t n_addrs = 0;
    for (uint32_t r = 0; r < n_listener && n_addrs < HANDLE_ADDRS_MAX; r++) {
        uint32_t theirs = nic_address(&listener[r]);

        if (theirs == UINT32_MAX) {
            continue;
        }
        n_addrs++;
        for (uint32_t l = 0; l < n_connector; l++) {
            uint32_t ours = nic_address(&connector[l]);
            struct io_ip a, b = rdma_gid_ip(&listener[r].gids[theirs].gid);

            if (ours == UINT32_MAX || (is_fast && !runs_fast(&connector[l]))) {
                continue;
            }
            a = rdma_gid_ip(&connector[l].gids[ours].gid);
            if (io_ip_same_subnet(&a, &b, connector[l].gids[ours].prefix_len)) {
                *out_connector = l;
                *out_listener = r;
                return true;
            }
        }
    }
    return false;
}

/* Searches among fast NICs, and then among all (mesh_connect). */
bool mesh_plugin_pair(const struct rdma_choice_input *input, uint32_t *out_connector,
                      uint32_t *out_listener, bool *out_is_fast)
{
    bool is_ours = input->is_connector;
    const struct rdma_port_facts *connector = is_ours ? input->local : input->remote;
    const struct rdma_port_facts *listener = is_ours ? input->remote : input->local;
    uint32_t n_connector = is_ours ? input->n_local : input->n_remote;
    uint32_t n_listener = is_ours ? input->n_remote : input->n_local;

    *out_is_fast = find_pair(connector, n_connector, listener, n_listener, true,
                             out_connector, out_listener);
    return *out_is_fast || find_pair(connector, n_connector, listener, n_listener, false,
                                     out_connector, out_listener);
}

/* Chooses one rail. The acceptor uses its own active MTU. The connector uses the lesser of its own
 * and that of the listener's *first* NIC, which is the MTU in the handle, so that the ends can
 * differ. Without a match the plugin's connect fails ("No local NIC found on same subnet as any
 * peer address"). */
uint32_t mesh_plugin_choose(const struct rdma_choice_input *input, struct rdma_rail *out,
                            uint32_t cap)
{
    uint32_t connector, listener, local, remote, mtu;
    bool is_fast;

    if (cap == 0 || !mesh_plugin_pair(input, &connector, &listener, &is_fast)) {
        return 0;
    }
    local = input->is_connector ? connector : listener;
    remote = input->is_connector ? listener : connector;
    mtu = input->local[local].active_mtu;
    if (input->is_connector) {
        uint32_t told = mesh_plugin_first(input->remote, input->n_remote)->active_mtu;

        mtu = told < mtu ? told : mtu;
    }
    *out = (struct rdma_rail){
        .local_port = local,
        .remote_port = remote,
        .local_gid = gid_or_first(&input->local[local], input->gid.index),
        .remote_gid = gid_or_first(&input->remote[remote], input->gid.index),
        .path_mtu = mtu,
    };
    return 1;
}
