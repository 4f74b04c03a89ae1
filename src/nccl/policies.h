/* Policies of other programs, each imitated as it is, with its mistakes: NCCL's net_ib, the mesh
 * plugin of January 2026 (nccl-mesh-plugin) and Mooncake. rdma_choose() calls them.
 *
 * X_choose returns the number of rails that it wrote (at most `cap`). X_gid returns an index into
 * port->gids, or UINT32_MAX. */
#ifndef WEFT_NCCL_POLICIES_H
#define WEFT_NCCL_POLICIES_H

#include "base/error.h"
#include "rdma/choice.h"

/* Returns true if the facts are of port 1 of a device. Names of further ports contain their number:
 * "mlx5_0/2" (rdma.c). */
static inline bool nccl_is_port_one(const struct rdma_port_facts *port)
{
    return strchr(port->name, '/') == NULL;
}

/* ---- NCCL (net_ib.c) ---- */

/* Reads a parameter as NCCL's param.cc does, where `text` is NULL if it is not set. An empty
 * setting counts as not set, any base is accepted, what follows the number is ignored, and text
 * that is no number is 0. Returns `otherwise` if it is not set or does not fit into 64 bits. */
int64_t nccl_number(const char *text, int64_t otherwise);

/* Returns true if NCCL merges the ports of a NIC into one device, by NCCL_IB_MERGE_NICS and
 * NCCL_NET_MERGE_LEVEL (NULL if not set). */
bool nccl_merges(const char *merge_nics, const char *merge_level);

/* Returns true if NCCL opens this port of `device`, by NCCL_IB_HCA (NULL if not set), a list such
 * as "mlx5_0:1,mlx5_2". An entry is the beginning of a device name and, after ':', a port. With '='
 * before the list it is the whole name. With '^' before that, the listed ports are excluded. A list
 * without a name contains all ports, so "," opens all and "^" none (net_ib.cc ncclIbInitDevices,
 * socket.cc parseStringList and matchIfList). */
bool nccl_opens(const char *ib_hca, const char *device, uint8_t port);
uint32_t nccl_gid(const struct rdma_port_facts *port, const struct rdma_gid_rule *rule);
/* Returns true if the addresses are in one subnet as subnet-aware NCCL compares them. */
bool nccl_same_subnet(const struct rdma_gid_rule *rule, const union ibv_gid *a,
                      const union ibv_gid *b);
/* Returns true if the scan looks for this GID: it is of the wanted family, in the range, and
 * neither zero nor in fe80::/16. */
bool nccl_looks_for(const struct rdma_gid_rule *rule, const union ibv_gid *gid);
/* Reads all settings of NCCL but the index into `rule`. */
void nccl_scan(const struct rdma_gid_settings *settings, struct rdma_gid_rule *rule);
uint32_t nccl_choose(const struct rdma_choice_input *input, bool subnet_aware,
                     struct rdma_rail *out, uint32_t cap);

extern const struct rdma_recovery nccl_recovery;

/* ---- the mesh plugin (mesh_plugin.c) ---- */

uint32_t mesh_plugin_qpn(uint32_t qpn);
void mesh_plugin_patience(const char *fast_fail, struct rdma_patience *patience);
uint32_t mesh_plugin_gid(const struct rdma_port_facts *port, int gid_index);
/* Returns the first NIC that the plugin uses, whose MTU is in the handle, or NULL. */
const struct rdma_port_facts *mesh_plugin_first(const struct rdma_port_facts *ports,
                                                uint32_t n_ports);
/* Finds the ports that the connector selects, as indices into the facts of each end. `*out_is_fast`
 * is true if they were found by the first of its two searches, among fast ports. Returns false if
 * there are none. */
bool mesh_plugin_pair(const struct rdma_choice_input *input, uint32_t *out_connector,
                      uint32_t *out_listener, bool *out_is_fast);
uint32_t mesh_plugin_choose(const struct rdma_choice_input *input, struct rdma_rail *out,
                            uint32_t cap);

/* ---- Mooncake (mooncake.c) ---- */

/* Returns true if `gid` is in 10/8, 172.16/12 or 100.64/10, which Mooncake assumes to be overlay
 * networks. */
bool mooncake_takes_for_overlay(const union ibv_gid *gid);
void mooncake_patience(struct rdma_patience *patience);
uint32_t mooncake_gid(const struct rdma_port_facts *port, int gid_index);
uint32_t mooncake_choose(const struct rdma_choice_input *input, struct rdma_rail *out,
                         uint32_t cap);

/* ---- all of them ---- */

/* Settings that limit how long a program retries; NULL if not set. */
struct nccl_met_settings {
    const char *timeout, *retry_cnt; /* NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT */
    /* NCCL_IB_MQP_RETRY_CNT, NCCL_IB_MQP_RETRY_SLEEP_MSEC */
    const char *step_retry_cnt, *step_retry_ms;
    const char *fast_fail; /* NCCL_MESH_FAST_FAIL */
};
/* Writes how `error`, which ended a job of Weft, shows itself to users of the policy's program. The
 * first data can hang, because the program sends no probe, or the step to RTR, because the program
 * retries it. Returns false if the program fails as Weft does. */
bool nccl_as_met(enum weft_policy policy, const struct nccl_met_settings *settings,
                 const struct weft_error *error, char *out, size_t cap);

/* Explains `rails`, as rdma_reasons() does, for every policy but Weft's. */
uint32_t nccl_reasons(const struct rdma_choice_input *input,
                      const struct rdma_rail *rails, uint32_t n_rails,
                      struct rdma_reason out[RDMA_REASONS_MAX]);

#endif
