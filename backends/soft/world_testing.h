/* A world whose hosts are all in this process, on loopback addresses, each with its own engine
 * and thread. For tests and benchmarks. */
#ifndef WEFT_BACKENDS_SOFT_WORLD_TESTING_H
#define WEFT_BACKENDS_SOFT_WORLD_TESTING_H

#include "backends/soft/host.h"

extern const struct world_ops soft_testing_ops;

struct soft_host *soft_testing_host(struct world *world, uint32_t host);
struct linux_loop *soft_testing_loop(struct world *world);

#endif
