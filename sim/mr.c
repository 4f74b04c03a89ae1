#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/dmabuf.h"
#include "sim/landing.h"
#include "sim/nic_objects.h"

enum {
    MR_SLOTS_MIN = 64,
    /* A key is reused, with another variant, only if more keys than this are free. */
    MR_RESTING_MIN = 64,
    NO_SLOT = 0
};

int sim_pd_alloc(struct sim_nic_user *user, struct sim_pd **out)
{
    struct sim_nic *nic = user->nic;
    if (nic->n_pds >= nic->profile->max_pd) {
        return ENOMEM;
    }
    struct sim_pd *pd = weft_calloc(1, sizeof(*pd));
    pd->nic = nic;
    pd->user = user;
    pd->ibv.handle = sim_number_take(&nic->pdns, nic->profile->first_number,
                                     nic->profile->first_number + nic->profile->max_pd);
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

/* Takes a slot. Slot 0 stays unused, so that no key is less than 256. */
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

/* Whole pages are pinned and counted (Linux umem.c). */
static int64_t pinned_bytes(uintptr_t addr, size_t length)
{
    uintptr_t first = addr / SIM_PAGE_BYTES;
    uintptr_t end = (addr + length + SIM_PAGE_BYTES - 1) / SIM_PAGE_BYTES;
    return (int64_t)((end - first) * SIM_PAGE_BYTES);
}

/* Checks access flags (ib_check_mr_access, ib_verbs.h) and the device's maximum
 * length. */
static int check_access(const struct sim_nic *nic, const struct sim_reg_mr *arg)
{
    const int remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    const int known = (IBV_ACCESS_HUGETLB << 1) - 1;
    if ((arg->access & remote) != 0 && (arg->access & IBV_ACCESS_LOCAL_WRITE) == 0) {
        return EINVAL;
    }
    if ((arg->access & ~(known | (int)IBV_ACCESS_OPTIONAL_RANGE)) != 0) {
        return EINVAL;
    }
    if ((arg->access & (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_ZERO_BASED)) != 0) {
        return EOPNOTSUPP; /* not supported by these devices */
    }
    return arg->length > nic->profile->max_mr_size ? EINVAL : 0;
}

/* Checks in the order of uverbs_std_types_mr.c. */
static int check_dmabuf(const struct sim_nic *nic, const struct sim_reg_mr *arg)
{
    if (!nic->profile->has_dmabuf) {
        return EOPNOTSUPP;
    }
    if (arg->dmabuf_offset % SIM_PAGE_BYTES != arg->iova % SIM_PAGE_BYTES) {
        return EINVAL;
    }
    int error = check_access(nic, arg);
    if (error != 0) {
        return error;
    }
    if (arg->length == 0 || arg->dmabuf_offset + arg->length < arg->length) {
        return EINVAL;
    }
    return 0;
}

static int check_memory(const struct sim_nic *nic, const struct sim_reg_mr *arg)
{
    uintptr_t addr = (uintptr_t)arg->addr;
    if (arg->has_iova && addr % SIM_PAGE_BYTES != arg->iova % SIM_PAGE_BYTES) {
        return EINVAL;
    }
    int error = check_access(nic, arg);
    if (error != 0) {
        return error;
    }
    if (addr + arg->length < addr) {
        return EINVAL;
    }
    if (arg->length == 0 && addr % SIM_PAGE_BYTES == 0) {
        return EINVAL; /* covers no page */
    }
    return addr < SIM_PAGE_BYTES ? EFAULT : 0; /* nothing is mapped there */
}

/* Copies or lands everything on the wire or on its way into the region, while the memory
 * exists. */
static void settle(struct sim_mr *mr)
{
    struct sim_nic *nic = mr->nic;
    for (uint8_t i = 0; i < nic->n_ports; i++) {
        sim_port_own_range(nic->ports[i].port, mr->ibv.addr, mr->ibv.length);
    }
    sim_land_range(nic, mr->ibv.addr, mr->ibv.length);
    nic->mr_generation++;
}

/* Invalidates a region whose memory was revoked. The key exists, but allows nothing. */
static void mr_revoke(struct sim_mr *mr)
{
    settle(mr);
    mr->is_revoked = true;
}

/* Pins the memory. Pages of a dmabuf are the exporter's; all others count against the
 * limit. */
static int pin(struct sim_mr *mr, const struct sim_reg_mr *arg)
{
    struct sim_nic_user *user = mr->pd->user;
    mr->ibv.length = arg->length;
    if (arg->is_dmabuf) {
        return sim_dmabuf_attach(user->dmabufs, arg->dmabuf_fd, arg->dmabuf_offset,
                                 arg->length, mr, mr_revoke);
    }
    mr->ibv.addr = arg->addr;
    int64_t pinned = pinned_bytes((uintptr_t)arg->addr, arg->length);
    if (user->memlock_bytes != NULL && pinned > *user->memlock_bytes) {
        return ENOMEM;
    }
    mr->pinned_bytes = pinned;
    if (user->memlock_bytes != NULL) {
        *user->memlock_bytes -= pinned;
    }
    return 0;
}

static bool is_odd(const struct sim_mr *mr)
{
    return mr->shift != 0 || mr->dmabuf != NULL || mr->sees_late || mr->is_relaxed;
}

int sim_mr_reg(struct sim_pd *pd, const struct sim_reg_mr *arg, struct sim_mr **out)
{
    struct sim_nic *nic = pd->nic;
    int error = arg->is_dmabuf ? check_dmabuf(nic, arg) : check_memory(nic, arg);
    if (error == 0 && nic->n_mrs >= nic->profile->max_mr) {
        error = ENOMEM;
    }
    if (error != 0) {
        return error;
    }
    struct sim_mr *mr = weft_calloc(1, sizeof(*mr));
    mr->nic = nic;
    mr->pd = pd;
    error = pin(mr, arg);
    if (error != 0) {
        free(mr);
        return error;
    }
    uint32_t slot = take_slot(nic);
    nic->mrs[slot].mr = mr;
    nic->n_mrs++;
    mr->access = (uint32_t)arg->access;
    mr->iova = arg->is_dmabuf || arg->has_iova ? arg->iova : (uintptr_t)arg->addr;
    mr->shift = (uintptr_t)mr->ibv.addr - mr->iova;
    mr->is_relaxed = (arg->access & (int)IBV_ACCESS_RELAXED_ORDERING) != 0;
    mr->sees_late =
        (arg->is_gpu || arg->is_dmabuf) && nic->profile->gpu_visibility_ps > 0;
    nic->n_odd_mrs += is_odd(mr) ? 1 : 0;
    mr->ibv.pd = &pd->ibv;
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
    settle(mr);
    nic->n_odd_mrs -= is_odd(mr) ? 1 : 0;
    give_slot_back(nic, mr->ibv.handle);
    nic->n_mrs--;
    mr->pd->n_children--;
    if (mr->dmabuf != NULL) {
        sim_dmabuf_detach(mr);
    }
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
