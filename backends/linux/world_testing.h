/* Common part of test worlds that run on the machine's own loop. */
#ifndef WEFT_BACKENDS_LINUX_WORLD_TESTING_H
#define WEFT_BACKENDS_LINUX_WORLD_TESTING_H

#include "backends/linux/loop.h"
#include "io/world.h"

/* First member of such a world. */
struct loop_world {
    struct world world;
    struct linux_loop *loop; /* Owned by the world */
};

static inline struct loop_world *loop_world_of(const struct world *world)
{
    return (struct loop_world *)(uintptr_t)((uintptr_t)world -
                                            offsetof(struct loop_world, world));
}

struct io_loop *loop_world_loop(struct world *world);
weft_ns loop_world_now(struct world *world);
weft_status loop_world_step(struct world *world, weft_ns until);
/* Returns true for every host. */
bool loop_world_host_alive(const struct world *world, uint32_t host);
/* Returns false, because there are no counters. */
bool loop_world_counter(const struct world *world, uint32_t index, const char **out_name,
                        uint64_t *out_value);

/* All of them, for the initialiser of a world's operations. */
#define LOOP_WORLD_OPS                                                                   \
    .loop = loop_world_loop, .now = loop_world_now, .step = loop_world_step,             \
    .host_alive = loop_world_host_alive, .counter = loop_world_counter

/* Connects two namespaces by two cables: the first ports ("p0") and the management network
 * ("mgmt") of two hosts, with their addresses. */
void loop_world_lay_cables(const struct world_spec *spec, const int netns[2]);

#endif
