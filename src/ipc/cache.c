#include "ipc/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

void ipc_cache_init(struct ipc_cache *cache, const struct ipc_cache_config *config)
{
    weft_check(config->n_max > 0 && config->n_bytes_max > 0);
    memset(cache, 0, sizeof(*cache));
    cache->config = *config;
    TAILQ_INIT(&cache->mappings);
}

static void drop(struct ipc_cache *cache, struct ipc_mapping *mapping)
{
    struct io_gpu *gpu = cache->config.gpu;

    weft_check(mapping->n_users == 0);
    TAILQ_REMOVE(&cache->mappings, mapping, link);
    cache->n--;
    cache->n_bytes -= mapping->memory.n_bytes;
    gpu->sharing->unimport(gpu, mapping->at);
    free(mapping);
}

/* Prevents further use. Current users keep the mapping. */
static void make_stale(struct ipc_cache *cache, struct ipc_mapping *mapping)
{
    if (!mapping->is_stale) {
        mapping->is_stale = true;
        cache->n_stale++;
    }
    if (mapping->n_users == 0) {
        drop(cache, mapping);
    }
}

void ipc_cache_fini(struct ipc_cache *cache)
{
    while (!TAILQ_EMPTY(&cache->mappings)) {
        drop(cache, TAILQ_FIRST(&cache->mappings));
    }
}

/* ---- lookup ---- */

static bool is_of(const struct ipc_mapping *mapping, const uint8_t *owner)
{
    return memcmp(mapping->owner, owner, IPC_NONCE_BYTES) == 0;
}

static bool overlaps(const struct io_gpu_export *a, const struct io_gpu_export *b)
{
    return a->base < b->base + b->n_bytes && b->base < a->base + a->n_bytes;
}

/* Compares buffer id and handle, too, because addresses are reused. */
static bool is_same(const struct io_gpu_export *a, const struct io_gpu_export *b)
{
    return a->base == b->base && a->n_bytes == b->n_bytes && a->kind == b->kind &&
           a->buffer_id == b->buffer_id &&
           memcmp(&a->handle, &b->handle, sizeof(a->handle)) == 0;
}

/* Returns the mapping, or NULL. Makes others that overlap its addresses stale, because the owner
 * has replaced them. */
static struct ipc_mapping *find(struct ipc_cache *cache, const uint8_t *owner,
                                const struct io_gpu_export *memory)
{
    struct ipc_mapping *found = NULL, *next;

    for (struct ipc_mapping *at = TAILQ_FIRST(&cache->mappings); at != NULL; at = next) {
        next = TAILQ_NEXT(at, link);
        if (at->is_stale || !is_of(at, owner)) {
            continue;
        }
        if (is_same(&at->memory, memory)) {
            found = at;
        } else if (overlaps(&at->memory, memory)) {
            make_stale(cache, at);
        }
    }
    return found;
}

static bool evict_oldest(struct ipc_cache *cache)
{
    struct ipc_mapping *at = TAILQ_LAST(&cache->mappings, ipc_mappings);

    for (; at != NULL; at = TAILQ_PREV(at, ipc_mappings, link)) {
        if (at->n_users == 0) {
            cache->n_evicted++;
            drop(cache, at);
            return true;
        }
    }
    return false;
}

static bool make_room(struct ipc_cache *cache, uint64_t n_bytes)
{
    const struct ipc_cache_config *config = &cache->config;

    if (n_bytes > config->n_bytes_max) {
        return false;
    }
    while (cache->n >= config->n_max || cache->n_bytes > config->n_bytes_max - n_bytes) {
        if (!evict_oldest(cache)) {
            return false;
        }
    }
    return true;
}

/* ---- failed imports ---- */

static int refused_lately(const struct ipc_cache *cache, const uint8_t *owner,
                          uint64_t buffer_id, weft_ns now)
{
    for (uint32_t i = 0; i < IPC_REFUSALS_MAX; i++) {
        const struct ipc_refusal *refusal = &cache->refusals[i];

        if (refusal->sys_errno != 0 && refusal->buffer_id == buffer_id &&
            now < refusal->until_ns &&
            memcmp(refusal->owner, owner, IPC_NONCE_BYTES) == 0) {
            return refusal->sys_errno;
        }
    }
    return 0;
}

static void remember(struct ipc_cache *cache, const uint8_t *owner, uint64_t buffer_id,
                     weft_ns now, int sys_errno)
{
    struct ipc_refusal *refusal =
        &cache->refusals[cache->n_refusals++ % IPC_REFUSALS_MAX];

    memcpy(refusal->owner, owner, IPC_NONCE_BYTES);
    refusal->buffer_id = buffer_id;
    refusal->until_ns = now + cache->config.negative_ns;
    refusal->sys_errno = sys_errno;
}

/* Imports memory. If memory, descriptors or address space are short, or the memory is already
 * open under another handle, closes all idle mappings and tries once more. */
static int open_memory(struct ipc_cache *cache, const struct io_gpu_export *memory,
                       void **out)
{
    struct io_gpu *gpu = cache->config.gpu;
    int sys_errno = gpu->sharing->import_memory(gpu, memory, out);
    bool any = false;

    if (sys_errno != ENOMEM && sys_errno != EMFILE && sys_errno != EALREADY) {
        return sys_errno;
    }
    while (evict_oldest(cache)) {
        any = true;
    }
    return any ? gpu->sharing->import_memory(gpu, memory, out) : sys_errno;
}

/* ---- interface ---- */

int ipc_cache_acquire(struct ipc_cache *cache, const uint8_t owner[IPC_NONCE_BYTES],
                      const struct io_gpu_export *memory, uint64_t generation,
                      weft_ns now, struct ipc_mapping **out)
{
    struct ipc_mapping *mapping = find(cache, owner, memory);
    int sys_errno = 0;
    void *at;

    if (mapping != NULL) {
        cache->n_hits++;
        TAILQ_REMOVE(&cache->mappings, mapping, link);
    } else {
        sys_errno = refused_lately(cache, owner, memory->buffer_id, now);
        if (sys_errno == 0 && !make_room(cache, memory->n_bytes)) {
            return ENOSPC; /* not remembered, because room can become free at any time */
        }
        if (sys_errno == 0) {
            sys_errno = open_memory(cache, memory, &at);
            if (sys_errno != 0) {
                remember(cache, owner, memory->buffer_id, now, sys_errno);
            }
        }
        if (sys_errno != 0) {
            cache->n_refused++;
            return sys_errno;
        }
        mapping = weft_calloc(1, sizeof(*mapping));
        memcpy(mapping->owner, owner, IPC_NONCE_BYTES);
        mapping->memory = *memory;
        mapping->at = at;
        cache->n++;
        cache->n_bytes += memory->n_bytes;
        cache->n_opened++;
    }
    mapping->generation = generation;
    mapping->n_users++;
    TAILQ_INSERT_HEAD(&cache->mappings, mapping, link);
    *out = mapping;
    return 0;
}

void ipc_cache_release(struct ipc_cache *cache, struct ipc_mapping *mapping)
{
    weft_check(mapping->n_users > 0);
    mapping->n_users--;
    if (mapping->n_users == 0 && mapping->is_stale) {
        drop(cache, mapping);
    }
}

bool ipc_cache_invalidate(struct ipc_cache *cache, const uint8_t owner[IPC_NONCE_BYTES],
                          uint64_t buffer_id, uint64_t generation)
{
    struct ipc_mapping *next;

    for (struct ipc_mapping *at = TAILQ_FIRST(&cache->mappings); at != NULL; at = next) {
        next = TAILQ_NEXT(at, link);
        if (at->memory.buffer_id == buffer_id && at->generation <= generation &&
            is_of(at, owner)) {
            make_stale(cache, at);
        }
    }
    return !ipc_cache_has(cache, owner, buffer_id);
}

bool ipc_cache_has(const struct ipc_cache *cache, const uint8_t owner[IPC_NONCE_BYTES],
                   uint64_t buffer_id)
{
    const struct ipc_mapping *at = TAILQ_FIRST(&cache->mappings);

    for (; at != NULL; at = TAILQ_NEXT(at, link)) {
        if (at->memory.buffer_id == buffer_id && is_of(at, owner)) {
            return true;
        }
    }
    return false;
}

void ipc_cache_forget(struct ipc_cache *cache, const uint8_t owner[IPC_NONCE_BYTES])
{
    struct ipc_mapping *next;

    for (struct ipc_mapping *at = TAILQ_FIRST(&cache->mappings); at != NULL; at = next) {
        next = TAILQ_NEXT(at, link);
        if (is_of(at, owner)) {
            make_stale(cache, at);
        }
    }
}
