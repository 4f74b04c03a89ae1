#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sim/nic_impl.h"

enum {
    MR_SLOTS_MIN = 64,
    /* So many keys rest before the first of them comes again, with another variant. */
    MR_RESTING_MIN = 64,
    NO_SLOT = 0
};

int sim_pd_alloc(struct sim_nic_user *user, struct sim_pd **out)
{
    struct sim_nic *nic = user->nic;
    if (nic->n_pds >= nic->profile.max_pd) {
        return ENOMEM;
    }
    struct sim_pd *pd = weft_calloc(1, sizeof(*pd));
    pd->nic = nic;
    pd->user = user;
    pd->ibv.handle = sim_number_take(&nic->pdns, nic->profile.first_number,
                                     nic->profile.first_number + nic->profile.max_pd);
    pd->link = &nic->pds;
    pd->next = nic->pds;
    if (nic->pds != NULL) {
        nic->pds->link = &pd->next;
    }
    nic->pds = pd;
    nic->n_pds++;
    *out = pd;
    return 0;
}

void sim_pd_free(struct sim_pd *pd)
{
    *pd->link = pd->next;
    if (pd->next != NULL) {
        pd->next->link = pd->link;
    }
    pd->nic->n_pds--;
    sim_number_give(&pd->nic->pdns, pd->ibv.handle);
    free(pd);
}

int sim_pd_dealloc(struct sim_pd *pd)
{
    if (pd->n_children > 0) {
        return EBUSY;
    }
    sim_pd_free(pd);
    return 0;
}

/* Slot 0 stays unused, so that no key is less than 256. */
static uint32_t take_slot(struct sim_nic *nic)
{
    if (nic->n_mr_free > MR_RESTING_MIN || nic->n_mr_slots >= 1u << 24) {
        uint32_t slot = nic->mr_free_first;
        nic->mr_free_first = nic->mrs[slot].next_free;
        nic->n_mr_free--;
        nic->mrs[slot].variant++;
        return slot;
    }
    if (nic->n_mr_slots == nic->mr_cap) {
        nic->mr_cap = nic->mr_cap == 0 ? MR_SLOTS_MIN : nic->mr_cap * 2;
        nic->mrs = weft_realloc(nic->mrs, nic->mr_cap * sizeof(*nic->mrs));
    }
    if (nic->n_mr_slots == 0) {
        nic->mrs[0] = (struct sim_mr_slot){.mr = NULL};
        nic->n_mr_slots = 1;
    }
    uint32_t slot = nic->n_mr_slots++;
    nic->mrs[slot] = (struct sim_mr_slot){
        .mr = NULL,
        .variant = (uint8_t)weft_rng_below(&nic->rng, 256),
    };
    return slot;
}

static void give_slot_back(struct sim_nic *nic, uint32_t slot)
{
    nic->mrs[slot].mr = NULL;
    nic->mrs[slot].next_free = NO_SLOT;
    if (nic->n_mr_free == 0) {
        nic->mr_free_first = slot;
    } else {
        nic->mrs[nic->mr_free_last].next_free = slot;
    }
    nic->mr_free_last = slot;
    nic->n_mr_free++;
}

/* Linux umem.c: whole pages are pinned and counted. */
static int64_t pinned_bytes(uintptr_t addr, size_t length)
{
    uintptr_t first = addr / SIM_PAGE_BYTES;
    uintptr_t end = (addr + length + SIM_PAGE_BYTES - 1) / SIM_PAGE_BYTES;
    return (int64_t)((end - first) * SIM_PAGE_BYTES);
}

static int check_reg(const struct sim_nic *nic, uintptr_t addr, size_t length, int access)
{
    bool is_remote = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
    if (is_remote && (access & IBV_ACCESS_LOCAL_WRITE) == 0) {
        return EINVAL;
    }
    if (addr + length < addr || length > nic->profile.max_mr_size) {
        return EINVAL;
    }
    if (length == 0 && addr % SIM_PAGE_BYTES == 0) {
        return EINVAL; /* no page at all */
    }
    if (addr < SIM_PAGE_BYTES) {
        return EFAULT; /* nothing is mapped there */
    }
    if (nic->n_mrs >= nic->profile.max_mr) {
        return ENOMEM;
    }
    return 0;
}

int sim_mr_reg(struct sim_pd *pd, void *addr, size_t length, int access,
               struct sim_mr **out)
{
    struct sim_nic *nic = pd->nic;
    int64_t *memlock_bytes = pd->user->memlock_bytes;
    int error = check_reg(nic, (uintptr_t)addr, length, access);
    if (error != 0) {
        return error;
    }
    int64_t pinned = pinned_bytes((uintptr_t)addr, length);
    if (memlock_bytes != NULL && pinned > *memlock_bytes) {
        return ENOMEM;
    }
    if (memlock_bytes != NULL) {
        *memlock_bytes -= pinned;
    }
    struct sim_mr *mr = weft_calloc(1, sizeof(*mr));
    uint32_t slot = take_slot(nic);
    nic->mrs[slot].mr = mr;
    nic->n_mrs++;
    mr->nic = nic;
    mr->pd = pd;
    mr->access = (uint32_t)access;
    mr->pinned_bytes = pinned;
    mr->ibv.pd = &pd->ibv;
    mr->ibv.addr = addr;
    mr->ibv.length = length;
    mr->ibv.handle = slot;
    mr->ibv.lkey = slot << 8 | nic->mrs[slot].variant;
    mr->ibv.rkey = mr->ibv.lkey;
    pd->n_children++;
    *out = mr;
    return 0;
}

void sim_mr_free(struct sim_mr *mr)
{
    struct sim_nic *nic = mr->nic;
    for (uint8_t i = 0; i < nic->n_ports; i++) {
        sim_port_own_range(nic->ports[i].port, mr->ibv.addr, mr->ibv.length);
    }
    give_slot_back(nic, mr->ibv.handle);
    nic->mr_generation++;
    nic->n_mrs--;
    mr->pd->n_children--;
    if (mr->pd->user->memlock_bytes != NULL) {
        *mr->pd->user->memlock_bytes += mr->pinned_bytes;
    }
    free(mr);
}

int sim_mr_dereg(struct sim_mr *mr)
{
    sim_mr_free(mr);
    return 0;
}

bool sim_mr_allows(const struct sim_nic *nic, const struct sim_pd *pd, uint32_t key,
                   uint64_t addr, uint64_t length, uint32_t access)
{
    const struct sim_mr *mr = sim_mr_find(nic, key);
    if (mr == NULL || mr->pd != pd || (mr->access & access) != access) {
        return false;
    }
    uint64_t start = (uintptr_t)mr->ibv.addr;
    uint64_t offset = addr - start;
    return addr >= start && offset <= mr->ibv.length && length <= mr->ibv.length - offset;
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

/* Walks the pieces of the list that hold [offset, offset + n_bytes). */
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
