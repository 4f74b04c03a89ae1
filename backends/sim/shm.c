/* Shared memory of a simulated host: one block for all its processes, which run in this program.
 * gpu.c accounts for the time of copies into it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/sim_world.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/shm.h"

#define PAGE_BYTES 4096

struct sim_shm_block {
    struct sim_shm_block *next;
    void *base; /* Owned */
    void *memory;
    size_t n_bytes;
    uint32_t n_users; /* number of attachments */
    uint64_t dev;     /* shm_dev of the processes that see the name */
    char name[IO_SHM_NAME_BYTES];
    bool is_named;
    uint32_t near; /* process that created it, which decides its NUMA node */
};

/* One process's attachment to a block. */
struct sim_shm {
    struct io_shm io;
    struct sim_process *process;
    struct sim_shm_block *block;
    bool is_creator;
    struct sim_shm *next; /* in the process's list */
};

static struct sim_shm *shm_of(struct io_shm *segment)
{
    return weft_container_of(segment, struct sim_shm, io);
}

static struct io_shm *attach(struct sim_process *process, struct sim_shm_block *block,
                             bool is_creator)
{
    struct sim_shm *shm = weft_calloc(1, sizeof *shm);
    *shm = (struct sim_shm){.io = {block->memory, block->n_bytes},
                            .process = process,
                            .block = block,
                            .is_creator = is_creator,
                            .next = process->segments};
    process->segments = shm;
    block->n_users++;
    return &shm->io;
}

static int shm_create(struct io_env *env, size_t n_bytes,
                      char out_name[IO_SHM_NAME_BYTES], struct io_shm **out)
{
    struct sim_process *process = sim_process_of(env);
    struct sim_shm_block *block;
    uint64_t secret[2];
    if (n_bytes == 0) {
        return EINVAL;
    }
    block = weft_calloc(1, sizeof *block);
    block->n_bytes = (n_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    block->base = calloc(1, block->n_bytes + PAGE_BYTES - 1);
    if (block->base == NULL) {
        weft_out_of_memory(block->n_bytes);
    }
    uintptr_t past = (uintptr_t)block->base % PAGE_BYTES;
    block->memory = (char *)block->base + (past == 0 ? 0 : PAGE_BYTES - past);
    block->n_bytes = n_bytes;
    block->dev = process->info.shm_dev;
    block->is_named = true;
    block->near = process->index;
    env->ops->random(env, secret, sizeof secret);
    weft_format(block->name, sizeof block->name, "weft-%016llx%016llx",
                (unsigned long long)secret[0], (unsigned long long)secret[1]);
    weft_format(out_name, IO_SHM_NAME_BYTES, "%s", block->name);
    block->next = process->host->blocks;
    process->host->blocks = block;
    *out = attach(process, block, true);
    return 0;
}

static int shm_attach(struct io_env *env, const char *name, size_t n_bytes,
                      struct io_shm **out)
{
    struct sim_process *process = sim_process_of(env);
    for (struct sim_shm_block *block = process->host->blocks; block != NULL;
         block = block->next) {
        if (block->is_named && block->dev == process->info.shm_dev &&
            strcmp(block->name, name) == 0) {
            if (block->n_bytes != n_bytes) {
                return EINVAL;
            }
            *out = attach(process, block, false);
            return 0;
        }
    }
    return ENOENT;
}

static void shm_unlink(struct io_shm *segment)
{
    struct sim_shm *shm = shm_of(segment);
    if (shm->is_creator) {
        shm->block->is_named = false;
    }
}

static void drop_block(struct sim_host *host, struct sim_shm_block *block)
{
    struct sim_shm_block **at = &host->blocks;
    if (--block->n_users > 0) {
        return;
    }
    while (*at != block) {
        at = &(*at)->next;
    }
    *at = block->next;
    free(block->base);
    free(block);
}

static void shm_close(struct io_shm *segment)
{
    if (segment == NULL) {
        return;
    }
    struct sim_shm *shm = shm_of(segment);
    struct sim_shm **at = &shm->process->segments;
    shm_unlink(segment);
    while (*at != shm) {
        at = &(*at)->next;
    }
    *at = shm->next;
    drop_block(shm->process->host, shm->block);
    free(shm);
}

const struct io_shm_ops sim_shm_ops = {
    .create = shm_create,
    .attach = shm_attach,
    .unlink = shm_unlink,
    .close = shm_close,
};

bool sim_shm_has(const struct sim_process *process, const void *memory,
                 uint32_t *out_near)
{
    for (const struct sim_shm *at = process->segments; at != NULL; at = at->next) {
        if ((uintptr_t)memory - (uintptr_t)at->io.memory < at->io.n_bytes) {
            *out_near = at->block->near;
            return true;
        }
    }
    return false;
}

void sim_shm_stop(struct sim_process *process)
{
    for (struct sim_shm *at = process->segments; at != NULL; at = at->next) {
        shm_unlink(&at->io);
    }
}

void sim_shm_fini(struct sim_process *process)
{
    while (process->segments != NULL) {
        shm_close(&process->segments->io);
    }
}
