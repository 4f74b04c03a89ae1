/* Memory of other processes that this one has open: opening costs 90 us and more, so it stays open
 * until the room is needed. The least recently used goes first, and never one that is in use. */
#ifndef WEFT_IPC_CACHE_H
#define WEFT_IPC_CACHE_H

#include "ipc/message.h"

struct ipc_cache_config {
    struct io_gpu *gpu;   /* Not owned. */
    uint32_t n_max;       /* open at a time; > 0 */
    uint64_t n_bytes_max; /* of them all; > 0 */
    weft_ns negative_ns; /* for so long it is not tried again to open what could not be */
};

/* Fields are for reading. */
struct ipc_mapping {
    struct ipc_mapping *newer, *older; /* Not owned. */
    uint8_t owner[IPC_NONCE_BYTES];
    struct io_gpu_export memory;
    uint64_t generation; /* of the last offer that named it */
    void *at;            /* here */
    uint32_t n_users;
    bool
        is_stale; /* another is there now, or its owner takes it away: nobody gets it again */
};

struct ipc_refusal {
    uint8_t owner[IPC_NONCE_BYTES];
    uint64_t buffer_id;
    weft_ns until_ns;
    int sys_errno;
};

#define IPC_REFUSALS_MAX 64u

/* Fields are for reading. */
struct ipc_cache {
    struct ipc_cache_config config;
    struct ipc_mapping *newest, *oldest; /* Owned. */
    uint32_t n;
    uint64_t n_bytes;
    struct ipc_refusal refusals[IPC_REFUSALS_MAX]; /* a ring */
    uint32_t n_refusals;
    uint64_t n_hits, n_opened, n_evicted, n_stale, n_refused;
};

void ipc_cache_init(struct ipc_cache *cache, const struct ipc_cache_config *config);
/* Nothing may be in use. */
void ipc_cache_fini(struct ipc_cache *cache);

/* Memory of the process called `owner`, for one user more. ENOSPC: all that there is room for is
 * in use; else what import_memory said, now or less than negative_ns ago. */
int ipc_cache_acquire(struct ipc_cache *cache, const uint8_t owner[IPC_NONCE_BYTES],
                      const struct io_gpu_export *memory, uint64_t generation,
                      weft_ns now, struct ipc_mapping **out);
void ipc_cache_release(struct ipc_cache *cache, struct ipc_mapping *mapping);
/* The owner takes away what it offered up to `generation` of one buffer. Returns whether it is
 * closed; false: somebody uses it, and it is closed when nobody does. */
bool ipc_cache_invalidate(struct ipc_cache *cache, const uint8_t owner[IPC_NONCE_BYTES],
                          uint64_t buffer_id, uint64_t generation);
/* Whether a mapping of that buffer is still open. */
bool ipc_cache_has(const struct ipc_cache *cache, const uint8_t owner[IPC_NONCE_BYTES],
                   uint64_t buffer_id);
/* The process is gone: so is all of it that nobody uses. */
void ipc_cache_forget(struct ipc_cache *cache, const uint8_t owner[IPC_NONCE_BYTES]);

#endif
