#include "rdma/mr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/check.h"
#include "base/text.h"
#include "io/verbs.h"

/* Ranges are rounded to 4 KiB. Host pages are multiples of it, so that no page is registered that
 * the range does not touch, whatever the kernel's page size. */
#define PAGE_BYTES ((uintptr_t)4096)

enum entry_state { ENTRY_REGISTERING, ENTRY_READY, ENTRY_FAILED };

struct rdma_mr_entry {
    TAILQ_ENTRY(rdma_mr_entry) link; /* in the cache's list */
    enum entry_state state;
    uint32_t device_index;
    uintptr_t start, end; /* whole pages unless is_dmabuf; end is exclusive */
    int access;
    struct ibv_mr *mr; /* NULL until READY */
    struct io_op op;
    uint32_t n_users;
    bool is_stale; /* never shared: invalidated, or a dma-buf's */
    bool is_dmabuf;
    int fd;
    uint64_t offset;
    int failure; /* errno if FAILED */
};

struct rdma_mr_cache {
    struct rdma *rdma;                                  /* Not owned. */
    TAILQ_HEAD(rdma_mr_entries, rdma_mr_entry) entries; /* Owned; last used first */
    uint32_t n_idle;
    struct rdma_mr_stats stats;
};

struct rdma_mr_cache *rdma_mr_cache_create(struct rdma *rdma)
{
    struct rdma_mr_cache *cache = weft_calloc(1, sizeof(*cache));
    cache->rdma = rdma;
    TAILQ_INIT(&cache->entries);
    return cache;
}

/* Deregisters or abandons the registration, without waiting, and frees the entry. */
static void drop(struct rdma_mr_cache *cache, struct rdma_mr_entry *entry)
{
    struct io_device *device = cache->rdma->env->devices[entry->device_index];
    if (entry->op.state == IO_OP_RUNNING) {
        device->ops->abandon(device, &entry->op);
    } else if (entry->op.state == IO_OP_DONE && entry->op.error == 0) {
        struct io_op dereg = {.kind = IO_OP_DEREG_MR};
        dereg.arg.dereg_mr = entry->op.out.mr;
        rdma_forget_op(device, &dereg);
        cache->stats.n_deregistered++;
    }
    TAILQ_REMOVE(&cache->entries, entry, link);
    free(entry);
}

void rdma_mr_cache_destroy(struct rdma_mr_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    while (!TAILQ_EMPTY(&cache->entries)) {
        drop(cache, TAILQ_FIRST(&cache->entries));
    }
    free(cache);
}

/* Returns an entry that `wanted` can share, or NULL. A registration in progress is shared only by
 * users of the same task, because no other task is woken. */
static struct rdma_mr_entry *find(const struct rdma_mr_cache *cache,
                                  const struct rdma_mr_entry *wanted,
                                  const struct io_task *task)
{
    struct rdma_mr_entry *e = TAILQ_FIRST(&cache->entries);
    for (; e != NULL; e = TAILQ_NEXT(e, link)) {
        bool usable = e->state == ENTRY_READY ||
                      (e->state == ENTRY_REGISTERING && e->op.task == task);
        if (usable && !e->is_stale && e->device_index == wanted->device_index &&
            e->access == wanted->access && e->start <= wanted->start &&
            e->end >= wanted->end) {
            return e;
        }
    }
    return NULL;
}

/* Deregisters the least recently used unreferenced entries beyond RDMA_MR_IDLE_MAX. */
static void trim(struct rdma_mr_cache *cache)
{
    struct rdma_mr_entry *entry = TAILQ_LAST(&cache->entries, rdma_mr_entries);
    while (entry != NULL && cache->n_idle > RDMA_MR_IDLE_MAX) {
        struct rdma_mr_entry *before = TAILQ_PREV(entry, rdma_mr_entries, link);
        if (entry->n_users == 0) {
            cache->n_idle--;
            drop(cache, entry);
        }
        entry = before;
    }
}

static weft_status fail(struct rdma_mr_cache *cache, const struct rdma_mr_entry *entry,
                        int failure, struct weft_error *error)
{
    struct io_env *env = cache->rdma->env;
    weft_status status =
        weft_fail_errno(error, failure, WEFT_PHASE_REGISTER, "reg_mr of %llu bytes",
                        (unsigned long long)(entry->end - entry->start));
    weft_error_object(error, "%s:%s", env->name, env->devices[entry->device_index]->name);
    weft_error_int(error, WEFT_VALUE_BYTES, (int64_t)(entry->end - entry->start));
    weft_error_int(error, WEFT_VALUE_ACCESS, entry->access);
    weft_error_int(error, WEFT_VALUE_MEMLOCK_BYTES,
                   env->ops->hostinfo(env)->memlock_bytes);
    return status;
}

static weft_status start(struct rdma_mr_cache *cache, const struct rdma_mr_entry *wanted,
                         struct io_task *task, struct rdma_mr_entry **out,
                         struct weft_error *error)
{
    struct rdma *rdma = cache->rdma;
    struct io_device *device = rdma->env->devices[wanted->device_index];
    if (rdma->is_lost[wanted->device_index]) {
        return fail(cache, wanted, EIO, error);
    }
    struct rdma_mr_entry *entry = weft_alloc(sizeof(*entry));
    *entry = *wanted;
    entry->op.kind = IO_OP_REG_MR;
    entry->op.task = task;
    entry->op.arg.reg_mr.pd = rdma->pds[wanted->device_index];
    entry->op.arg.reg_mr.addr = (void *)wanted->start; /* NOLINT: an address it is */
    entry->op.arg.reg_mr.length = wanted->end - wanted->start;
    entry->op.arg.reg_mr.access = wanted->access;
    entry->op.arg.reg_mr.is_dmabuf = wanted->is_dmabuf;
    entry->op.arg.reg_mr.dmabuf_fd = wanted->fd;
    entry->op.arg.reg_mr.dmabuf_offset = wanted->offset;
    int failure = device->ops->submit(device, &entry->op);
    if (failure != 0) {
        weft_status status = fail(cache, entry, failure, error);
        free(entry);
        return status;
    }
    TAILQ_INSERT_HEAD(&cache->entries, entry, link);
    cache->stats.n_registered++;
    *out = entry;
    return WEFT_OK;
}

weft_status rdma_mr_get(struct rdma_mr_cache *cache, uint32_t device_index, void *addr,
                        size_t length, int access, struct io_task *task,
                        struct rdma_mr *out, struct weft_error *error)
{
    memset(out, 0, sizeof(*out));
    weft_check(device_index < cache->rdma->env->n_devices);
    weft_check(cache->rdma->pds[device_index] != NULL ||
               cache->rdma->is_lost[device_index]);
    uintptr_t start_at = (uintptr_t)addr;
    if (length == 0 || start_at > UINTPTR_MAX - PAGE_BYTES ||
        length > UINTPTR_MAX - PAGE_BYTES - start_at) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_REGISTER,
                         "a range of %llu bytes", (unsigned long long)length);
    }
    struct rdma_mr_entry wanted = {
        .state = ENTRY_REGISTERING,
        .device_index = device_index,
        .start = start_at & ~(PAGE_BYTES - 1),
        .end = (start_at + length + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1),
        .access = access,
    };
    /* Remote write and atomics need local write (ibv_reg_mr(3)). */
    if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0) {
        wanted.access |= IBV_ACCESS_LOCAL_WRITE;
    }
    struct rdma_mr_entry *entry = find(cache, &wanted, task);
    if (entry != NULL) {
        cache->stats.n_hits++;
        TAILQ_REMOVE(&cache->entries, entry, link);
        TAILQ_INSERT_HEAD(&cache->entries, entry, link);
        if (entry->n_users == 0) {
            cache->n_idle--;
        }
    } else {
        weft_status status = start(cache, &wanted, task, &entry, error);
        if (status != WEFT_OK) {
            return status;
        }
    }
    entry->n_users++;
    out->entry = entry;
    return WEFT_OK;
}

weft_status rdma_mr_get_dmabuf(struct rdma_mr_cache *cache, uint32_t device_index,
                               void *addr, size_t length, int access, int fd,
                               uint64_t offset, struct io_task *task, struct rdma_mr *out,
                               struct weft_error *error)
{
    struct io_device *device = cache->rdma->env->devices[device_index];
    struct rdma_mr_entry wanted = {.state = ENTRY_REGISTERING,
                                   .device_index = device_index,
                                   .start = (uintptr_t)addr,
                                   .end = (uintptr_t)addr + length,
                                   .access = access,
                                   .is_stale = true,
                                   .is_dmabuf = true,
                                   .fd = fd,
                                   .offset = offset};
    weft_status status;

    memset(out, 0, sizeof(*out));
    if (length == 0 || wanted.end < wanted.start) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_REGISTER,
                         "a range of %llu bytes", (unsigned long long)length);
    }
    if (!cache->rdma->attrs[device_index].has_dmabuf) {
        return weft_fail(error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_REGISTER,
                         "%s registers no dma-buf", device->name);
    }
    if ((access & IBV_ACCESS_REMOTE_WRITE) != 0) {
        wanted.access |= IBV_ACCESS_LOCAL_WRITE;
    }
    status = start(cache, &wanted, task, &out->entry, error);
    if (status == WEFT_OK) {
        out->entry->n_users = 1;
    }
    return status;
}

weft_status rdma_mr_progress(struct rdma_mr_cache *cache, struct rdma_mr *mr,
                             struct weft_error *error)
{
    struct rdma_mr_entry *entry = mr->entry;
    weft_check(entry != NULL);
    if (entry->state == ENTRY_REGISTERING) {
        struct io_device *device = cache->rdma->env->devices[entry->device_index];
        int failure = device->ops->poll(device, &entry->op);
        if (failure == EINPROGRESS) {
            return WEFT_AGAIN;
        }
        entry->failure = failure;
        entry->mr = failure == 0 ? entry->op.out.mr : NULL;
        entry->state = failure == 0 ? ENTRY_READY : ENTRY_FAILED;
    }
    if (entry->state == ENTRY_FAILED) {
        return fail(cache, entry, entry->failure, error);
    }
    mr->lkey = entry->mr->lkey;
    mr->rkey = entry->mr->rkey;
    return WEFT_OK;
}

void rdma_mr_put(struct rdma_mr_cache *cache, struct rdma_mr *mr)
{
    struct rdma_mr_entry *entry = mr->entry;
    memset(mr, 0, sizeof(*mr));
    if (entry == NULL) {
        return;
    }
    weft_check(entry->n_users > 0);
    entry->n_users--;
    if (entry->n_users > 0) {
        return;
    }
    if (entry->is_stale || entry->state != ENTRY_READY) {
        drop(cache, entry);
        return;
    }
    cache->n_idle++;
    trim(cache);
}

void rdma_mr_invalidate(struct rdma_mr_cache *cache, const void *addr, size_t length)
{
    uintptr_t start_at = (uintptr_t)addr;
    struct rdma_mr_entry *entry = TAILQ_FIRST(&cache->entries);
    while (entry != NULL) {
        struct rdma_mr_entry *next = TAILQ_NEXT(entry, link);
        bool touches = entry->start < start_at + length && start_at < entry->end;
        if (touches && entry->n_users == 0) {
            cache->n_idle--;
            drop(cache, entry);
        } else if (touches) {
            entry->is_stale = true;
        }
        entry = next;
    }
}

void rdma_mr_cache_stats(const struct rdma_mr_cache *cache, struct rdma_mr_stats *out)
{
    *out = cache->stats;
    out->n_idle = cache->n_idle;
}
