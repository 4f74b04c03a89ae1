/* A cache of imported memory of other processes. Opening it costs 90 us or more, so a mapping
 * stays open until its room is needed. The least recently used mapping that is not in use is
 * closed first. */
#ifndef WEFT_IPC_CACHE_H
#define WEFT_IPC_CACHE_H

#include <sys/queue.h>

#include "ipc/message.h"

struct ipc_cache_config {
    struct io_gpu *gpu;   /* Not owned. */
    uint32_t n_max;       /* maximum number of open mappings; > 0 */
    uint64_t n_bytes_max; /* maximum size of all mappings; > 0 */
    weft_ns negative_ns;  /* delay before a failed import is tried again */
};

/* Memory imported from another process. Fields are read-only for users. */
struct ipc_mapping {
    TAILQ_ENTRY(ipc_mapping) link;
    uint8_t owner[IPC_NONCE_BYTES];
    struct io_gpu_export memory;
    uint64_t generation; /* generation of the last offer of this memory */
    void *at;            /* address in this process */
    uint32_t n_users;
    bool is_stale; /* replaced or invalidated; not handed out again */
};

struct ipc_refusal {
    uint8_t owner[IPC_NONCE_BYTES];
    /* A failed import, kept for negative_ns. */
    uint64_t buffer_id;
    weft_ns until_ns;
    int sys_errno;
};

#define IPC_REFUSALS_MAX 64u

/* Fields are read-only for users. */
struct ipc_cache {
    struct ipc_cache_config config;
    TAILQ_HEAD(ipc_mappings, ipc_mapping) mappings; /* Owned; last used first */
    uint32_t n;
    uint64_t n_bytes;
    struct ipc_refusal refusals[IPC_REFUSALS_MAX]; /* a ring buffer */
    uint32_t n_refusals;
    uint64_t n_hits, n_opened, n_evicted, n_stale, n_refused;
};

/* Initializes an empty cache. config->gpu must outlive it. */
void ipc_cache_init(struct ipc_cache *cache, const struct ipc_cache_config *config);
/* Closes all mappings. None may be in use. */
void ipc_cache_fini(struct ipc_cache *cache);

/* Returns in *out a mapping of `memory` of the process `owner`, opening it if needed, and adds a
 * user; the caller releases it with ipc_cache_release(). Returns 0; ENOSPC if there is no room,
 * because the limits are reached and no idle mapping is left to close; or the errno of
 * import_memory(), from now or from less than negative_ns ago. */
int ipc_cache_acquire(struct ipc_cache *cache, const uint8_t owner[IPC_NONCE_BYTES],
                      const struct io_gpu_export *memory, uint64_t generation,
                      weft_ns now, struct ipc_mapping **out);
/* Removes a user. A stale mapping is closed with its last user. */
void ipc_cache_release(struct ipc_cache *cache, struct ipc_mapping *mapping);
/* Makes mappings of a buffer stale, if last offered with at most `generation`, because the owner
 * takes the buffer back. Returns true if no mapping of it is open any more. Otherwise it is
 * closed when its last user releases it. */
bool ipc_cache_invalidate(struct ipc_cache *cache, const uint8_t owner[IPC_NONCE_BYTES],
                          uint64_t buffer_id, uint64_t generation);
/* Returns true if a mapping of that buffer is still open. */
bool ipc_cache_has(const struct ipc_cache *cache, const uint8_t owner[IPC_NONCE_BYTES],
                   uint64_t buffer_id);
/* Makes all mappings of a process stale, because it has ended: closes those without users. */
void ipc_cache_forget(struct ipc_cache *cache, const uint8_t owner[IPC_NONCE_BYTES]);

#endif
