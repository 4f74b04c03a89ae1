/* Which GPU a process works on, by its settings (or the environment):
 *
 *   WEFT_GPU          "host": host memory, the default. "cuda": an NVIDIA GPU, the first of those
 *                     that this process sees for the host's first process, the next for its second,
 *                     and round again. "cuda:1", "cuda:GPU-8f2c...": that one, by ordinal or by
 *                     UUID (or how it begins); of a list ("cuda:2,0") each process has its own
 *   WEFT_GPU_KERNELS  a file with the kernels (nvcc's cubin, fatbin or PTX), instead of those that
 *                     were built in
 */
#ifndef WEFT_BACKENDS_NODE_GPU_H
#define WEFT_BACKENDS_NODE_GPU_H

#include "backends/node.h"

/* WEFT_ERR_INPUT: WEFT_GPU makes no sense. WEFT_ERR_ENVIRONMENT: no driver, an old one, no such
 * device, no kernels: never host memory instead. */
weft_status node_gpu_choose(struct io_env *env, struct node_gpu *out,
                            struct weft_error *error);

#endif
