/* Where the bytes that keys address really are, and when those that were written are there
 * (sim/landing.c). */
#ifndef WEFT_SIM_LANDING_IMPL_H
#define WEFT_SIM_LANDING_IMPL_H

#include "sim/nic_impl.h"

/* The list with the places where its bytes really are, in `scratch` if these differ. */
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

/* Where the byte is that a key, known to allow it, addresses by `va`. */
static inline void *sim_mr_at(const struct sim_nic *nic, uint32_t key, uint64_t va)
{
    uint64_t shift = nic->n_odd_mrs == 0 ? 0 : sim_mr_find(nic, key)->shift;
    return (void *)(uintptr_t)(va + shift);
}

/* True if bytes of WRITEs may be elsewhere or land later; else they are moved at once. */
static inline bool sim_lands_late(const struct sim_nic *nic)
{
    return nic->n_odd_mrs > 0 || !nic->profile->writes_in_order;
}
/* The bytes of a WRITE that `rkey` allows are on their way. */
void sim_land(struct sim_qp *qp, uint32_t rkey, uint64_t va, const uint8_t *bytes,
              uint32_t n_bytes);
/* What must be there now: of host memory that `qp` wrote; in a range; all. */
void sim_land_qp(struct sim_qp *qp);
/* Detaches from `qp`, which is freed, what it wrote. */
void sim_land_without(struct sim_qp *qp);
void sim_land_range(struct sim_nic *nic, const void *from, uint64_t n_bytes);
/* The NIC reads what it sends, behind all that it wrote to the same side: a GPU or the host. */
void sim_land_sources(struct sim_nic *nic, const struct ibv_sge *sges, uint32_t n_sge);
void sim_land_all(struct sim_nic *nic);
void sim_landing_due(struct sim_event *event);

#endif
