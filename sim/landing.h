/* Maps keys and addresses to memory, and determines when written bytes become visible
 * there. */
#ifndef WEFT_SIM_LANDING_H
#define WEFT_SIM_LANDING_H

#include "sim/access.h"
#include "sim/nic_objects.h"

/* Returns the list with addresses in memory, in `scratch`. */
const struct ibv_sge *sim_sges_place(const struct sim_nic *nic,
                                     const struct ibv_sge *sges, uint32_t n_sge,
                                     struct ibv_sge scratch[SIM_SGES_MAX]);
static inline const struct ibv_sge *sim_sges_placed(const struct sim_nic *nic,
                                                    const struct ibv_sge *sges,
                                                    uint32_t n_sge,
                                                    struct ibv_sge scratch[SIM_SGES_MAX])
{
    return nic->n_odd_mrs == 0 ? sges : sim_sges_place(nic, sges, n_sge, scratch);
}

/* Returns the memory that `va` addresses by `key`. The key must exist and allow the
 * access. */
static inline void *sim_mr_at(const struct sim_nic *nic, uint32_t key, uint64_t va)
{
    uint64_t shift = nic->n_odd_mrs == 0 ? 0 : sim_mr_find(nic, key)->shift;
    return (void *)(uintptr_t)(va + shift);
}

/* Returns true if the bytes of WRITEs may have to be mapped or may land later. If false
 * they are copied at once. */
static inline bool sim_lands_late(const struct sim_nic *nic)
{
    return nic->n_odd_mrs > 0 || !nic->profile->writes_in_order;
}
/* Starts the landing of the bytes of a WRITE that `rkey` allows. */
void sim_land(struct sim_qp *qp, uint32_t rkey, uint64_t va, const uint8_t *bytes,
              uint32_t n_bytes);
/* Land at once all that `qp` wrote to host memory (sim_land_qp), everything in a range,
 * or everything. */
void sim_land_qp(struct sim_qp *qp);
/* Detaches the pieces that `qp` wrote, because it is being freed. */
void sim_land_without(struct sim_qp *qp);
void sim_land_range(struct sim_nic *nic, const void *from, uint64_t n_bytes);
/* Copies `n_bytes` into the list, starting at byte `offset` of it, at once. What was
 * written to its memory before lands first. */
void sim_land_list(struct sim_nic *nic, const struct ibv_sge *sges, uint32_t n_sge,
                   uint64_t offset, const uint8_t *bytes, size_t n_bytes);
/* Lands what the NIC wrote to the same side (host or GPU) as each source, because the
 * NIC's reads are ordered behind its writes. */
void sim_land_sources(struct sim_nic *nic, const struct ibv_sge *sges, uint32_t n_sge);
void sim_land_all(struct sim_nic *nic);
void sim_landing_due(struct sim_event *event);

#endif
