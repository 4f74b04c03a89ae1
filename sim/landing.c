/* Bytes on their way into memory. PCIe may bring the pieces of a WRITE in any order where the
 * device does not promise otherwise (ibv_query_qp_data_in_order(3)) or the region asks for no
 * order (IBV_ACCESS_RELAXED_ORDERING, ibv_reg_mr(3)), and what is written to a GPU is seen
 * there later than its completion on the CPU. What is promised:
 * - a receive completion comes after all that its QP wrote to host memory before;
 * - a READ or atomic through the NIC sees, and flushes, everything written through it; so does
 *   what the NIC sends from there;
 * - of two writes to the same place the later one lands later. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/landing_impl.h"
#include "sim/nic_impl.h"

enum { LINE_BYTES = 64, PIECES_MAX = 8 };

/* In flight; bytes follow. */
struct sim_piece {
    struct sim_piece *next;
    const struct sim_qp *qp;
    uint8_t *to;
    weft_ps due;
    bool is_gpu;
    uint32_t n_bytes;
    uint8_t bytes[];
};

static void put(struct sim_nic *nic, struct sim_piece **at)
{
    struct sim_piece *piece = *at;
    *at = piece->next;
    sim_move(nic->phantom, piece->to, piece->bytes, piece->n_bytes);
    free(piece);
}

static void arm(struct sim_nic *nic)
{
    weft_ps first = SIM_NEVER;
    for (const struct sim_piece *at = nic->pieces; at != NULL; at = at->next) {
        first = at->due < first ? at->due : first;
    }
    sim_cancel(nic->engine, &nic->landing);
    if (first != SIM_NEVER) {
        sim_schedule(nic->engine, &nic->landing, first);
    }
}

void sim_landing_due(struct sim_event *event)
{
    struct sim_nic *nic = weft_container_of(event, struct sim_nic, landing);
    weft_ps now = sim_now(nic->engine);
    for (struct sim_piece **at = &nic->pieces; *at != NULL;) {
        if ((*at)->due <= now) {
            put(nic, at);
        } else {
            at = &(*at)->next;
        }
    }
    arm(nic);
}

static bool overlaps(const struct sim_piece *piece, const uint8_t *to, uint64_t n_bytes)
{
    return (uintptr_t)piece->to < (uintptr_t)to + n_bytes &&
           (uintptr_t)to < (uintptr_t)piece->to + piece->n_bytes;
}

void sim_land_range(struct sim_nic *nic, const void *from, uint64_t n_bytes)
{
    for (struct sim_piece **at = &nic->pieces; *at != NULL;) {
        if (overlaps(*at, from, n_bytes)) {
            put(nic, at);
        } else {
            at = &(*at)->next;
        }
    }
}

void sim_land_qp(struct sim_qp *qp)
{
    for (struct sim_piece **at = &qp->nic->pieces; *at != NULL;) {
        if ((*at)->qp == qp && !(*at)->is_gpu) {
            put(qp->nic, at);
        } else {
            at = &(*at)->next;
        }
    }
}

void sim_land_sources(struct sim_nic *nic, const struct ibv_sge *sges, uint32_t n_sge)
{
    for (uint32_t i = 0; i < n_sge; i++) {
        const struct sim_mr *mr = sim_mr_find(nic, sges[i].lkey);
        for (struct sim_piece **at = &nic->pieces; *at != NULL;) {
            if (mr != NULL && (*at)->is_gpu == mr->sees_late) {
                put(nic, at);
            } else {
                at = &(*at)->next;
            }
        }
    }
}

void sim_land_all(struct sim_nic *nic)
{
    while (nic->pieces != NULL) {
        put(nic, &nic->pieces);
    }
    sim_cancel(nic->engine, &nic->landing);
}

void sim_nic_fence_gpu(struct sim_nic *nic)
{
    sim_land_all(nic);
}

static bool is_in_order(const struct sim_mr *mr)
{
    return mr->nic->profile->writes_in_order && !mr->is_relaxed;
}

static void take_off(struct sim_qp *qp, uint8_t *to, const uint8_t *bytes,
                     uint32_t n_bytes, const struct sim_mr *mr)
{
    struct sim_nic *nic = qp->nic;
    const struct sim_profile *profile = nic->profile;
    struct sim_piece *piece = weft_alloc(sizeof(*piece) + n_bytes);
    weft_ps delay = mr->sees_late ? profile->gpu_visibility_ps : 0;
    if (!is_in_order(mr) && profile->write_spread_ps > 0) {
        delay += (weft_ps)weft_rng_below(&nic->landing_rng,
                                         (uint64_t)profile->write_spread_ps);
    }
    *piece = (struct sim_piece){.qp = qp,
                                .to = to,
                                .due = sim_now(nic->engine) + delay,
                                .is_gpu = mr->sees_late,
                                .n_bytes = n_bytes};
    memcpy(piece->bytes, bytes, n_bytes);
    struct sim_piece **end = &nic->pieces;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    piece->next = NULL;
    *end = piece;
}

void sim_land(struct sim_qp *qp, uint32_t rkey, uint64_t va, const uint8_t *bytes,
              uint32_t n_bytes)
{
    struct sim_nic *nic = qp->nic;
    const struct sim_mr *mr = sim_mr_find(nic, rkey);
    uint8_t *to = (uint8_t *)(uintptr_t)(va + mr->shift);
    sim_land_range(nic, to, n_bytes);
    if ((is_in_order(mr) && !mr->sees_late) || sim_is_phantom(nic->phantom, to)) {
        sim_move(nic->phantom, to, bytes, n_bytes);
        return;
    }
    uint32_t piece = (n_bytes / PIECES_MAX + LINE_BYTES) & ~(uint32_t)(LINE_BYTES - 1);
    for (uint32_t at = 0; at < n_bytes; at += piece) {
        uint32_t n = n_bytes - at < piece ? n_bytes - at : piece;
        take_off(qp, to + at, bytes + at, n, mr);
    }
    arm(nic);
}
