/* Workloads on the bare RC engine: no handshake, no scenario, RC timers armed. */
#ifndef WEFT_BACKENDS_SIM_BENCH_H
#define WEFT_BACKENDS_SIM_BENCH_H

#include "backends/registry.h"

/* n_nodes around a ring, 100 Gb/s and 1000 ns a cable, path MTU 4096. Every node sends n_steps
 * messages to its right; step k + 1 starts when step k arrived from the left. With two nodes
 * only the first sends. */
bool sim_bench_ring(const struct bench *bench, struct bench_result *out);

#endif
