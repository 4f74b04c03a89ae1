/* Functions of the individual policies; private to rdma/policy*.c. rdma_*_choose returns the number
 * of rails that it wrote (at most `cap`). rdma_*_gid returns an index into port->gids, or
 * UINT32_MAX. */
#ifndef WEFT_RDMA_POLICIES_H
#define WEFT_RDMA_POLICIES_H

#include "rdma/policy.h"

/* Returns true if the facts are of port 1 of a device. Names of further ports contain their number:
 * "mlx5_0/2" (rdma.c). */
static inline bool rdma_is_port_one(const struct rdma_port_facts *port)
{
    return strchr(port->name, '/') == NULL;
}

uint32_t rdma_weft_gid(const struct rdma_port_facts *port);
uint32_t rdma_weft_choose(const struct rdma_choice_input *input, struct rdma_rail *out,
                          uint32_t cap);
/* Finds the first pair of ports that would face each other if both were active. May be called only
 * if no active pair does. Returns false if there is no such pair. */
bool rdma_weft_inactive(const struct rdma_choice_input *input, struct rdma_rail *out);

uint32_t rdma_nccl_gid(const struct rdma_port_facts *port,
                       const struct rdma_gid_rule *rule);
/* Returns true if the addresses are in one subnet as subnet-aware NCCL compares them. */
bool rdma_nccl_same_subnet(const struct rdma_gid_rule *rule, const union ibv_gid *a,
                           const union ibv_gid *b);
/* Returns true if the scan looks for this GID: it is of the wanted family, in the range, and
 * neither zero nor in fe80::/16. */
bool rdma_nccl_looks_for(const struct rdma_gid_rule *rule, const union ibv_gid *gid);
/* Reads all settings of NCCL but the index into `rule`. */
void rdma_nccl_scan(const struct rdma_gid_settings *settings, struct rdma_gid_rule *rule);
uint32_t rdma_nccl_choose(const struct rdma_choice_input *input, bool subnet_aware,
                          struct rdma_rail *out, uint32_t cap);

extern const struct rdma_recovery rdma_nccl_recovery;

uint32_t rdma_plugin_qpn(uint32_t qpn);
void rdma_plugin_patience(const char *fast_fail, struct rdma_patience *patience);
uint32_t rdma_plugin_gid(const struct rdma_port_facts *port, int gid_index);
/* Returns the first NIC that the plugin uses, whose MTU is in the handle, or NULL. */
const struct rdma_port_facts *rdma_plugin_first(const struct rdma_port_facts *ports,
                                                uint32_t n_ports);
/* Finds the ports that the connector selects, as indices into the facts of each end. `*out_is_fast`
 * is true if they were found by the first of its two searches, among fast ports. Returns false if
 * there are none. */
bool rdma_plugin_pair(const struct rdma_choice_input *input, uint32_t *out_connector,
                      uint32_t *out_listener, bool *out_is_fast);
uint32_t rdma_plugin_choose(const struct rdma_choice_input *input, struct rdma_rail *out,
                            uint32_t cap);

/* Returns true if `gid` is in 10/8, 172.16/12 or 100.64/10, which Mooncake assumes to be overlay
 * networks. */
bool rdma_mooncake_takes_for_overlay(const union ibv_gid *gid);
void rdma_mooncake_patience(struct rdma_patience *patience);
uint32_t rdma_mooncake_gid(const struct rdma_port_facts *port, int gid_index);
uint32_t rdma_mooncake_choose(const struct rdma_choice_input *input,
                              struct rdma_rail *out, uint32_t cap);

#endif
