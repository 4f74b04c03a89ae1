#include "sim/access.h"

#include <string.h>

#include "base/check.h"
#include "sim/landing.h"

bool sim_mr_allows(const struct sim_nic *nic, const struct sim_pd *pd, uint32_t key,
                   uint64_t addr, uint64_t length, uint32_t access)
{
    const struct sim_mr *mr = sim_mr_find(nic, key);
    if (mr == NULL || mr->pd != pd || (mr->access & access) != access || mr->is_revoked) {
        return false;
    }
    uint64_t offset = addr - mr->iova;
    return addr >= mr->iova && offset <= mr->ibv.length &&
           length <= mr->ibv.length - offset;
}

bool sim_mr_grant(const struct sim_nic *nic, const struct sim_pd *pd, uint32_t key,
                  uint64_t addr, uint64_t length, uint32_t access,
                  struct sim_grant *grant)
{
    if (!sim_mr_allows(nic, pd, key, addr, length, access)) {
        return false;
    }
    const struct sim_mr *mr = sim_mr_find(nic, key);
    *grant = (struct sim_grant){.from = mr->iova,
                                .n_bytes = mr->ibv.length,
                                .generation = nic->mr_generation,
                                .key = key};
    return true;
}

bool sim_sges_allowed(const struct sim_nic *nic, const struct sim_pd *pd,
                      const struct ibv_sge *sges, uint32_t n_sge, uint32_t access)
{
    for (uint32_t i = 0; i < n_sge; i++) {
        if (sges[i].length > 0 &&
            !sim_mr_allows(nic, pd, sges[i].lkey, sges[i].addr, sges[i].length, access)) {
            return false;
        }
    }
    return true;
}

const struct ibv_sge *sim_sges_place(const struct sim_nic *nic,
                                     const struct ibv_sge *sges, uint32_t n_sge,
                                     struct ibv_sge scratch[SIM_SGES_MAX])
{
    weft_check(n_sge <= SIM_SGES_MAX);
    for (uint32_t i = 0; i < n_sge; i++) {
        const struct sim_mr *mr = sim_mr_find(nic, sges[i].lkey);
        scratch[i] = sges[i];
        scratch[i].addr += mr != NULL ? mr->shift : 0;
    }
    return scratch;
}

uint64_t sim_sges_bytes(const struct ibv_sge *sges, uint32_t n_sge)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n_sge; i++) {
        bytes += sges[i].length;
    }
    return bytes;
}

const uint8_t *sim_sges_piece(const struct ibv_sge *sges, uint32_t n_sge, uint64_t offset,
                              size_t n_bytes)
{
    for (uint32_t i = 0; i < n_sge; i++) {
        if (offset < sges[i].length) {
            bool is_whole = n_bytes <= sges[i].length - offset;
            return is_whole ? (const uint8_t *)(uintptr_t)(sges[i].addr + offset) : NULL;
        }
        offset -= sges[i].length;
    }
    return NULL;
}

/* Copies to or from the SGEs that hold [offset, offset + n_bytes) of the list. */
static void copy_pieces(const struct sim_phantom *phantom, const struct ibv_sge *sges,
                        uint32_t n_sge, uint64_t offset, uint8_t *out, const uint8_t *in,
                        size_t n_bytes)
{
    size_t done = 0;
    for (uint32_t i = 0; i < n_sge && done < n_bytes; i++) {
        if (offset >= sges[i].length) {
            offset -= sges[i].length;
            continue;
        }
        size_t n = sges[i].length - (size_t)offset;
        n = n < n_bytes - done ? n : n_bytes - done;
        uint8_t *memory = (uint8_t *)(uintptr_t)(sges[i].addr + offset);
        if (in != NULL) {
            sim_move(phantom, memory, in + done, n);
        } else if (sim_is_phantom(phantom, memory)) {
            memset(out + done, 0, n);
        } else {
            memcpy(out + done, memory, n);
        }
        done += n;
        offset = 0;
    }
}

void sim_sges_scatter(const struct sim_phantom *phantom, const struct ibv_sge *sges,
                      uint32_t n_sge, uint64_t offset, const uint8_t *bytes,
                      size_t n_bytes)
{
    copy_pieces(phantom, sges, n_sge, offset, NULL, bytes, n_bytes);
}

void sim_sges_gather(const struct sim_phantom *phantom, const struct ibv_sge *sges,
                     uint32_t n_sge, uint64_t offset, uint8_t *bytes, size_t n_bytes)
{
    copy_pieces(phantom, sges, n_sge, offset, bytes, NULL, n_bytes);
}
