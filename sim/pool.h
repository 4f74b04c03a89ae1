/* Payload blocks of frames that cannot refer to the sender's memory: READ responses,
 * gathered and retransmitted packets, and whatever outlives its work request. Blocks are
 * reused, never returned before the engine ends. */
#ifndef WEFT_SIM_POOL_H
#define WEFT_SIM_POOL_H

#include <stddef.h>
#include <stdint.h>

#define SIM_POOL_BLOCK_BYTES 4096 /* the largest path MTU */

struct sim_pool {
    struct sim_pool_slab *slabs; /* Owned. */
    union sim_pool_block *free;  /* inside slabs */
};

/* A block of SIM_POOL_BLOCK_BYTES; aborts when out of memory. */
uint8_t *sim_pool_get(struct sim_pool *pool);
/* Gives back what sim_pool_get gave. */
void sim_pool_put(struct sim_pool *pool, const uint8_t *block);
void sim_pool_fini(struct sim_pool *pool);

struct sim_engine;
struct sim_pool *sim_engine_pool(struct sim_engine *engine);

#endif
