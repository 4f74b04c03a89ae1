/* Phantom memory: an address range without storage, for timing-only runs. It is
 * registered, sent and reduced like other memory, but no bytes are copied into it or out
 * of it. */
#ifndef WEFT_SIM_MEMORY_H
#define WEFT_SIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct sim_phantom {
    uintptr_t start;
    size_t n_bytes; /* 0 if all memory is real */
};

static inline bool sim_is_phantom(const struct sim_phantom *phantom, const void *at)
{
    return (uintptr_t)at - phantom->start < phantom->n_bytes;
}

/* Calls memmove(), unless either end is phantom. */
static inline void sim_move(const struct sim_phantom *phantom, void *to, const void *from,
                            size_t n_bytes)
{
    if (!sim_is_phantom(phantom, to) && !sim_is_phantom(phantom, from)) {
        memmove(to, from, n_bytes);
    }
}

struct sim_engine;
/* Call before anything is built on the engine. */
void sim_engine_set_phantom(struct sim_engine *engine, const struct sim_phantom *phantom);
const struct sim_phantom *sim_engine_phantom(const struct sim_engine *engine);

#endif
