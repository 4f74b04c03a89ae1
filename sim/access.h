/* Access to memory by keys: what a key allows, and the bytes that lists of SGEs name. */
#ifndef WEFT_SIM_ACCESS_H
#define WEFT_SIM_ACCESS_H

#include "sim/nic_objects.h"

/* Returns the region of `key`, or NULL. */
static inline const struct sim_mr *sim_mr_find(const struct sim_nic *nic, uint32_t key)
{
    uint32_t index = key >> 8;
    if (index >= nic->n_mr_slots) {
        return NULL;
    }
    const struct sim_mr *mr = nic->mrs[index].mr;
    return mr != NULL && mr->ibv.lkey == key ? mr : NULL;
}

/* Returns true if `key` allows `access` (all of its bits) to [addr, addr + length) under
 * `pd`. */
bool sim_mr_allows(const struct sim_nic *nic, const struct sim_pd *pd, uint32_t key,
                   uint64_t addr, uint64_t length, uint32_t access);
/* Checks the same for length > 0, and caches the result in `*grant`, which must be used
 * for that PD and access only. */
bool sim_mr_grant(const struct sim_nic *nic, const struct sim_pd *pd, uint32_t key,
                  uint64_t addr, uint64_t length, uint32_t access,
                  struct sim_grant *grant);
static inline bool sim_mr_granted(const struct sim_nic *nic,
                                  const struct sim_grant *grant, uint32_t key,
                                  uint64_t addr, uint64_t length)
{
    return grant->key == key && grant->generation == nic->mr_generation &&
           length <= grant->n_bytes && addr - grant->from <= grant->n_bytes - length;
}
bool sim_sges_allowed(const struct sim_nic *nic, const struct sim_pd *pd,
                      const struct ibv_sge *sges, uint32_t n_sge, uint32_t access);
/* Copy `n_bytes` into or out of the list, starting at byte `offset` of it. Phantom memory
 * reads as 0. */
void sim_sges_scatter(const struct sim_phantom *phantom, const struct ibv_sge *sges,
                      uint32_t n_sge, uint64_t offset, const uint8_t *bytes,
                      size_t n_bytes);
void sim_sges_gather(const struct sim_phantom *phantom, const struct ibv_sge *sges,
                     uint32_t n_sge, uint64_t offset, uint8_t *bytes, size_t n_bytes);
/* Returns the address of [offset, offset + n_bytes) if it lies in one SGE, or NULL. */
const uint8_t *sim_sges_piece(const struct ibv_sge *sges, uint32_t n_sge, uint64_t offset,
                              size_t n_bytes);
uint64_t sim_sges_bytes(const struct ibv_sge *sges, uint32_t n_sge);

#endif
