/* nccl-mesh-plugin as of January 2026 (commit 679a394). */
#include "rdma/policies.h"

#include <stdlib.h>

#define HANDLE_ADDRS_MAX 6  /* addresses that its 128-byte handle carries */
#define SCANNED_GIDS 16     /* slots of the GID table that it looks at */
#define DEFAULT_GID_INDEX 3 /* NCCL_MESH_GID_INDEX */

/* struct mesh_handle and what answers it have `uint16_t qp_num`; numbers are of 24 bits
 * (IBA 9.2.4), and a NIC that has made 65536 queue pairs since it started hands out longer ones.
 * The sender then addresses a queue pair that does not exist. */
uint32_t rdma_plugin_qpn(uint32_t qpn)
{
    return (uint16_t)qpn;
}

/* mesh_connect_qp: `fast_fail ? 14 : 18`, `fast_fail ? 3 : 7` twice; the setting is read with
 * atoi. The patient values are those of policy weft or higher. */
void rdma_plugin_patience(const char *fast_fail, struct rdma_patience *patience)
{
    if (fast_fail != NULL && strtol(fast_fail, NULL, 10) != 0) {
        *patience = (struct rdma_patience){.timeout = 14, .retry_cnt = 3, .rnr_retry = 3};
    }
}

/* The first GID of the interface's IPv4 address, whatever its RoCE version: on mlx5 that
 * is the v1 slot. The configured index counts only where there is none. */
uint32_t rdma_plugin_gid(const struct rdma_port_facts *port, int gid_index)
{
    uint32_t index = gid_index >= 0 ? (uint32_t)gid_index : DEFAULT_GID_INDEX;
    uint32_t configured = UINT32_MAX;
    for (uint32_t i = 0; i < port->n_gids; i++) {
        struct io_ip ip = rdma_gid_ip(&port->gids[i].gid);
        if (port->gids[i].index < SCANNED_GIDS && io_ip_is_v4(&ip)) {
            return i;
        }
        if (port->gids[i].index == index) {
            configured = i;
        }
    }
    return configured;
}

static uint32_t gid_or_first(const struct rdma_port_facts *port, int gid_index)
{
    uint32_t gid = rdma_plugin_gid(port, gid_index);
    return gid == UINT32_MAX ? 0 : gid;
}

/* The IPv4 address of a port: one a netdev. */
static bool address_of(const struct rdma_port_facts *port, struct io_ip *out_ip,
                       uint8_t *out_len)
{
    for (uint32_t i = 0; i < port->n_gids; i++) {
        *out_ip = rdma_gid_ip(&port->gids[i].gid);
        *out_len = port->gids[i].prefix_len;
        if (io_ip_is_v4(out_ip)) {
            return true;
        }
    }
    return false;
}

/* The listener's addresses in order, for each the first local NIC whose own netmask puts
 * it into its subnet. The listener's address is known without its netmask. */
static bool find_pair(const struct rdma_port_facts *connector, uint32_t n_connector,
                      const struct rdma_port_facts *listener, uint32_t n_listener,
                      uint32_t *out_connector, uint32_t *out_listener)
{
    uint32_t n_addrs = 0;
    for (uint32_t r = 0; r < n_listener && n_addrs < HANDLE_ADDRS_MAX; r++) {
        struct io_ip theirs, ours;
        uint8_t their_len, our_len;
        if (!address_of(&listener[r], &theirs, &their_len)) {
            continue;
        }
        n_addrs++;
        for (uint32_t l = 0; l < n_connector; l++) {
            if (address_of(&connector[l], &ours, &our_len) &&
                io_ip_same_subnet(&ours, &theirs, our_len)) {
                *out_connector = l;
                *out_listener = r;
                return true;
            }
        }
    }
    return false;
}

/* One QP on one pair; without a match, NIC 0 of both ends, as an nic_idx out of range
 * becomes 0. The acceptor takes its own active MTU, the connector the lesser of its own
 * and that of the *first* NIC in the handle, so that the two ends may differ. */
uint32_t rdma_plugin_choose(const struct rdma_choice_input *input, struct rdma_rail *out,
                            uint32_t cap)
{
    if (cap == 0 || input->n_local == 0 || input->n_remote == 0) {
        return 0;
    }
    uint32_t local = 0;
    uint32_t remote = 0;
    if (input->is_connector) {
        (void)find_pair(input->local, input->n_local, input->remote, input->n_remote,
                        &local, &remote);
    } else {
        (void)find_pair(input->remote, input->n_remote, input->local, input->n_local,
                        &remote, &local);
    }
    uint32_t mtu = input->local[local].active_mtu;
    if (input->is_connector && input->remote[0].active_mtu < mtu) {
        mtu = input->remote[0].active_mtu;
    }
    *out = (struct rdma_rail){
        .local_port = local,
        .remote_port = remote,
        .local_gid = gid_or_first(&input->local[local], input->gid_index),
        .remote_gid = gid_or_first(&input->remote[remote], input->gid_index),
        .path_mtu = mtu,
    };
    return 1;
}
