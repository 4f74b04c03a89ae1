/* Payload blocks of frames that cannot refer to the sender's memory: READ responses,
 * gathered and retransmitted packets, and payloads that outlive their work request.
 * Blocks are reused, and freed only with the engine. */
#ifndef WEFT_SIM_POOL_H
#define WEFT_SIM_POOL_H

#include <stddef.h>
#include <stdint.h>

#define SIM_POOL_BLOCK_BYTES 4096 /* largest path MTU */

struct sim_pool {
    struct sim_pool_slab *slabs; /* Owned. */
    union sim_pool_block *free;  /* inside slabs */
};

/* Returns a block of SIM_POOL_BLOCK_BYTES. Aborts when out of memory. */
uint8_t *sim_pool_get(struct sim_pool *pool);
/* Returns a block to the pool. */
void sim_pool_put(struct sim_pool *pool, const uint8_t *block);
void sim_pool_fini(struct sim_pool *pool);

struct sim_engine;
struct sim_pool *sim_engine_pool(struct sim_engine *engine);

#endif
