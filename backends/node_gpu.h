/* Selects the GPU of a process by its settings (or the environment):
 *
 *   WEFT_GPU          "host": host memory (default). "cuda": an NVIDIA GPU; the first process of
 *                     the host uses the first visible GPU, the next process the next one, and so
 *                     on, cyclically. "cuda:1", "cuda:GPU-8f2c...": this GPU, by ordinal or UUID
 *                     (or a unique prefix); in a list ("cuda:2,0") each process has its own entry
 *   WEFT_GPU_KERNELS  file with the kernels (nvcc's cubin, fatbin or PTX) to use instead of the
 *                     built-in ones */
#ifndef WEFT_BACKENDS_NODE_GPU_H
#define WEFT_BACKENDS_NODE_GPU_H

#include "backends/node.h"

/* Opens the selected GPU. Fails with WEFT_ERR_INPUT if WEFT_GPU is invalid, and with
 * WEFT_ERR_ENVIRONMENT if the driver, the device or kernels are missing; never falls back to host
 * memory. */
weft_status node_gpu_choose(struct io_env *env, struct node_gpu *out,
                            struct weft_error *error);

#endif
