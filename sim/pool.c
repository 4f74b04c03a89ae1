#include "sim/pool.h"

#include <stdlib.h>

#include "base/text.h"

enum { BLOCKS_PER_SLAB = 64 };

union sim_pool_block {
    union sim_pool_block *next; /* while free */
    uint8_t bytes[SIM_POOL_BLOCK_BYTES];
};

struct sim_pool_slab {
    struct sim_pool_slab *next;
    union sim_pool_block blocks[BLOCKS_PER_SLAB];
};

static void grow(struct sim_pool *pool)
{
    struct sim_pool_slab *slab = weft_alloc(sizeof(*slab));
    slab->next = pool->slabs;
    pool->slabs = slab;
    for (size_t i = 0; i < BLOCKS_PER_SLAB; i++) {
        slab->blocks[i].next = pool->free;
        pool->free = &slab->blocks[i];
    }
}

uint8_t *sim_pool_get(struct sim_pool *pool)
{
    if (pool->free == NULL) {
        grow(pool);
    }
    union sim_pool_block *block = pool->free;
    pool->free = block->next;
    return block->bytes;
}

void sim_pool_put(struct sim_pool *pool, const uint8_t *block)
{
    union sim_pool_block *freed = (union sim_pool_block *)(uintptr_t)block;
    freed->next = pool->free;
    pool->free = freed;
}

void sim_pool_fini(struct sim_pool *pool)
{
    while (pool->slabs != NULL) {
        struct sim_pool_slab *slab = pool->slabs;
        pool->slabs = slab->next;
        free(slab);
    }
    pool->free = NULL;
}
