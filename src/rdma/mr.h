/* Caches memory regions (MRs) by device, page range and access, and counts references to them. */
#ifndef WEFT_RDMA_MR_H
#define WEFT_RDMA_MR_H

#include "rdma/rdma.h"

struct rdma_mr_entry;

/* One reference to registered memory on one device. The user owns the struct. */
struct rdma_mr {
    struct rdma_mr_entry *entry; /* NULL if it refers to no memory */
    uint32_t lkey, rkey;         /* valid once rdma_mr_progress has returned WEFT_OK */
};

/* Maximum number of unreferenced entries kept for reuse. Beyond it the least recently used ones are
 * deregistered. */
#define RDMA_MR_IDLE_MAX 256

struct rdma_mr_cache *rdma_mr_cache_create(struct rdma *rdma);
/* Deregisters all entries, without waiting, and abandons registrations in progress. All references
 * must have been released. NULL is ignored. */
void rdma_mr_cache_destroy(struct rdma_mr_cache *cache);

/* Takes a reference to [addr, addr+length) for `access` on device `device_index`. `access` is
 * IBV_ACCESS_*; REMOTE_WRITE and REMOTE_ATOMIC imply LOCAL_WRITE. Shares an entry with the same
 * access that covers the range. If there is none, starts a registration, rounded outwards to pages
 * of 4 KiB, which wakes `task`. Fails with WEFT_ERR_INPUT if the range is empty or wraps, and with
 * errno EIO if a registration is needed and the device is lost. */
weft_status rdma_mr_get(struct rdma_mr_cache *cache, uint32_t device_index, void *addr,
                        size_t length, int access, struct io_task *task,
                        struct rdma_mr *out, struct weft_error *error) WEFT_MUST_CHECK;
/* Registers GPU memory for this reference alone: `length` bytes of the dma-buf `fd` from `offset`
 * on, which work requests address by `addr`. The entry is never shared, and is deregistered with
 * the reference. REMOTE_WRITE implies LOCAL_WRITE. The caller owns `fd`, and keeps it open until
 * rdma_mr_progress has returned WEFT_OK. Fails with WEFT_ERR_UNSUPPORTED if the device cannot
 * register dma-bufs. */
weft_status rdma_mr_get_dmabuf(struct rdma_mr_cache *cache, uint32_t device_index,
                               void *addr, size_t length, int access, int fd,
                               uint64_t offset, struct io_task *task, struct rdma_mr *out,
                               struct weft_error *error) WEFT_MUST_CHECK;
/* Returns WEFT_AGAIN while the memory is being registered, then sets the keys. Fails in phase
 * "register" with the errno of the verb: ENOMEM if the memlock limit is too low. */
weft_status rdma_mr_progress(struct rdma_mr_cache *cache, struct rdma_mr *mr,
                             struct weft_error *error) WEFT_MUST_CHECK;
/* Releases the reference; does nothing if `mr` refers to no memory. A registered entry stays in the
 * cache for reuse, unless it was invalidated or is a dma-buf's. */
void rdma_mr_put(struct rdma_mr_cache *cache, struct rdma_mr *mr);
/* Must be called before the memory is freed. Entries that overlap it are never shared again.
 * Unreferenced ones are deregistered at once, others when their last reference is released. */
void rdma_mr_invalidate(struct rdma_mr_cache *cache, const void *addr, size_t length);

struct rdma_mr_stats {
    uint64_t n_registered;   /* registrations started */
    uint64_t n_hits;         /* references that share an existing entry */
    uint64_t n_deregistered; /* completed registrations that were deregistered */
    uint32_t n_idle;         /* entries without a reference now */
};
void rdma_mr_cache_stats(const struct rdma_mr_cache *cache, struct rdma_mr_stats *out);

#endif
