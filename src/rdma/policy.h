/* Chooses the local port, GID and path MTU for a connection to a peer, as different programs do:
 * Weft itself (policy_weft.c), or one that nccl/ imitates. All functions are pure functions of
 * facts about both ends. */
#ifndef WEFT_RDMA_POLICY_H
#define WEFT_RDMA_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "rdma/choice.h"

const struct rdma_recovery *rdma_recovery(enum weft_policy policy);

/* Makes the rule by which the policy's program selects a GID. Mooncake uses NCCL_IB_GID_INDEX only
 * if MC_GID_INDEX is not set. The mesh plugin uses only its own setting, and policy weft none. */
struct rdma_gid_rule rdma_gid_rule(enum weft_policy policy,
                                   const struct rdma_gid_settings *settings);

/* Chooses up to `cap` rails to the peer, best first. Fails with WEFT_ERR_ROUTE (phase "route") if
 * there is none, with both ends' addresses as values. Policy weft and mesh-plugin-2026-01 need a
 * common subnet. nccl-2.30-subnet-aware keeps its first choice if there is none, and the others
 * ignore subnets, as those programs do. They fail only if an end has no usable port. */
weft_status rdma_choose(const struct rdma_choice_input *input, struct rdma_rail *out,
                        uint32_t cap, uint32_t *out_n,
                        struct weft_error *error) WEFT_MUST_CHECK;

/* Returns the QP number that the policy's program sends to the peer for `qpn`. mesh-plugin-2026-01
 * sends only its lowest 16 bits. */
uint32_t rdma_sent_qpn(enum weft_policy policy, uint32_t qpn);

/* Returns true if the listener of the policy's program serves one client at a time
 * (mesh-plugin-2026-01). It reads the whole HELLO of a client before it looks at the next, without
 * a time limit. */
bool rdma_hears_one_client(enum weft_policy policy);

/* Replaces `patience` by the values of the policy's program. mesh-plugin-2026-01 has its own only
 * if `fast_fail` (NCCL_MESH_FAST_FAIL; NULL if not set) is a nonzero number, mooncake-2026-06
 * always. Other policies keep `patience`. */
void rdma_lower_patience(enum weft_policy policy, const char *fast_fail,
                         struct rdma_patience *patience);

/* Returns true if the policy's program opens the port: NCCL by
 * NCCL_IB_HCA (nccl_opens), the others always. */
bool rdma_opens(enum weft_policy policy, const char *ib_hca, const char *device,
                uint8_t port);

/* Explains why this end uses `rails`, the result of rdma_choose for `input`. Only the first rail is
 * explained. Returns the number of reasons. */
uint32_t rdma_reasons(const struct rdma_choice_input *input,
                      const struct rdma_rail *rails, uint32_t n_rails,
                      struct rdma_reason out[RDMA_REASONS_MAX]);

#endif
