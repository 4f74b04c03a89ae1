/* Weft's own policy. Private to rdma/. */
#ifndef WEFT_RDMA_POLICY_WEFT_H
#define WEFT_RDMA_POLICY_WEFT_H

#include "rdma/choice.h"

/* Returns the first v2 GID with an address behind it, link-local ones last: an index into gids[],
 * or UINT32_MAX. */
uint32_t rdma_weft_gid(const struct rdma_port_facts *port);
uint32_t rdma_weft_choose(const struct rdma_choice_input *input, struct rdma_rail *out,
                          uint32_t cap);
/* Finds the first pair of ports that would face each other if both were active. May be called only
 * if no active pair does. Returns false if there is no such pair. */
bool rdma_weft_inactive(const struct rdma_choice_input *input, struct rdma_rail *out);
/* Explains `rails`, as rdma_reasons() does. */
uint32_t rdma_weft_reasons(const struct rdma_choice_input *input,
                           const struct rdma_rail *rails, uint32_t n_rails,
                           struct rdma_reason out[RDMA_REASONS_MAX]);

#endif
