/* The policies one by one; private to rdma/policy*.c. Each returns how many rails it
 * wrote (at most `cap`), or the index of a GID in port->gids. */
#ifndef WEFT_RDMA_POLICIES_H
#define WEFT_RDMA_POLICIES_H

#include "rdma/policy.h"

uint32_t rdma_weft_gid(const struct rdma_port_facts *port);
uint32_t rdma_weft_choose(const struct rdma_choice_input *input, struct rdma_rail *out,
                          uint32_t cap);
/* The first pair of ports that would face each other if both were active, where none does. */
bool rdma_weft_inactive(const struct rdma_choice_input *input, struct rdma_rail *out);

uint32_t rdma_nccl_gid(const struct rdma_port_facts *port,
                       const struct rdma_gid_rule *rule);
/* Reads NCCL_IB_ADDR_FAMILY, NCCL_IB_ADDR_RANGE and NCCL_IB_ROCE_VERSION_NUM into `rule`. */
void rdma_nccl_scan(const struct rdma_gid_settings *settings, struct rdma_gid_rule *rule);
uint32_t rdma_nccl_choose(const struct rdma_choice_input *input, bool subnet_aware,
                          struct rdma_rail *out, uint32_t cap);

extern const struct rdma_recovery rdma_nccl_recovery;

uint32_t rdma_plugin_qpn(uint32_t qpn);
void rdma_plugin_patience(const char *fast_fail, struct rdma_patience *patience);
uint32_t rdma_plugin_gid(const struct rdma_port_facts *port, int gid_index);
/* The listener's port and the connector's that the connector finds, indices into their facts.
 * *out_is_fast: the first of its two searches did, among fast ports. False: none. */
bool rdma_plugin_pair(const struct rdma_choice_input *input, uint32_t *out_connector,
                      uint32_t *out_listener, bool *out_is_fast);
uint32_t rdma_plugin_choose(const struct rdma_choice_input *input, struct rdma_rail *out,
                            uint32_t cap);

/* 10/8, 172.16/12 or 100.64/10, which Mooncake takes for overlay networks. */
bool rdma_mooncake_takes_for_overlay(const union ibv_gid *gid);
void rdma_mooncake_patience(struct rdma_patience *patience);
uint32_t rdma_mooncake_gid(const struct rdma_port_facts *port, int gid_index);
uint32_t rdma_mooncake_choose(const struct rdma_choice_input *input,
                              struct rdma_rail *out, uint32_t cap);

#endif
