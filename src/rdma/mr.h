/* Registered memory: a cache of MRs per device, by page range, counted. */
#ifndef WEFT_RDMA_MR_H
#define WEFT_RDMA_MR_H

#include "rdma/rdma.h"

struct rdma_mr_entry;

/* One user's hold on registered memory, on one device. In place, owned by the user. */
struct rdma_mr {
    struct rdma_mr_entry *entry; /* NULL: holds nothing */
    uint32_t lkey, rkey;         /* valid once rdma_mr_progress returned WEFT_OK */
};

/* Limits: entries without a user are kept for reuse up to these, least recently used go.
 */
#define RDMA_MR_IDLE_MAX 256

struct rdma_mr_cache *rdma_mr_cache_create(struct rdma *rdma);
/* Deregisters everything, abandoning what is under way; users must be gone. */
void rdma_mr_cache_destroy(struct rdma_mr_cache *cache);

/* Takes a hold on [addr, addr+length) for `access` (IBV_ACCESS_*; REMOTE_WRITE implies
 * LOCAL_WRITE) on device `device_index`: a covering entry with the same access is shared,
 * else registration starts (pages rounded outwards) and wakes `task`. */
weft_status rdma_mr_get(struct rdma_mr_cache *cache, uint32_t device_index, void *addr,
                        size_t length, int access, struct io_task *task,
                        struct rdma_mr *out, struct weft_error *error) WEFT_MUST_CHECK;
/* A hold of one's own on memory of a GPU: `length` bytes of the dma-buf `fd` from `offset` on,
 * which work requests call `addr`; never shared, and gone with the hold. The descriptor is the
 * caller's, and is needed until this is registered. WEFT_ERR_UNSUPPORTED: the device cannot. */
weft_status rdma_mr_get_dmabuf(struct rdma_mr_cache *cache, uint32_t device_index,
                               void *addr, size_t length, int access, int fd,
                               uint64_t offset, struct io_task *task, struct rdma_mr *out,
                               struct weft_error *error) WEFT_MUST_CHECK;
/* AGAIN while registering. ENOMEM keeps its errno: the memlock limit. */
weft_status rdma_mr_progress(struct rdma_mr_cache *cache, struct rdma_mr *mr,
                             struct weft_error *error) WEFT_MUST_CHECK;
/* Lets go; the entry stays for reuse. */
void rdma_mr_put(struct rdma_mr_cache *cache, struct rdma_mr *mr);
/* The memory is about to be freed: idle entries that touch it are deregistered now, used
 * ones when their last user lets go; neither is found again. */
void rdma_mr_invalidate(struct rdma_mr_cache *cache, const void *addr, size_t length);

struct rdma_mr_stats {
    uint64_t n_registered;   /* registrations started */
    uint64_t n_hits;         /* answered by a covering entry */
    uint64_t n_deregistered; /* of entries that were ready */
    uint32_t n_idle;         /* entries without a user now */
};
void rdma_mr_cache_stats(const struct rdma_mr_cache *cache, struct rdma_mr_stats *out);

#endif
