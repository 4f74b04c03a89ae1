/* A world of one host, this process, on all RDMA devices that it has. With `is_soft`, or
 * WEFT_NIC=soft in the host's settings or in the environment, its devices are simulated
 * (backends/soft). `weft node` runs on it, started by backends/rxe, mpirun or a user. */
#ifndef WEFT_BACKENDS_NODE_H
#define WEFT_BACKENDS_NODE_H

#include "io/world.h"

/* A GPU that replaces host memory. */
struct node_gpu {
    struct io_gpu *gpu;
    int wake_fd; /* readable when `progress` has work; -1 if none */
    void (*progress)(struct io_gpu *gpu);
    void (*close)(struct io_gpu *gpu);
};
/* Opens the GPU that the settings of `env` select; sets out->gpu to NULL for host memory. */
typedef weft_status (*node_gpu_open)(struct io_env *env, struct node_gpu *out,
                                     struct weft_error *error);

/* Creates the world of process `process` of host `host` of `spec` (WEFT_PROCESS in the
 * environment overrides `process`). The host has index 0 in the loop; the clock is
 * CLOCK_MONOTONIC. `open_gpu` NULL: host memory. `spec` must outlive the world. Fails with
 * WEFT_ERR_ENVIRONMENT if libibverbs or the devices are missing, or with the error of the GPU. */
weft_status node_world_create(const struct world_spec *spec, uint32_t host,
                              uint32_t process, bool is_soft, node_gpu_open open_gpu,
                              struct world **out, struct weft_error *error);
/* Creates a world of this process on its machine, without devices, for use before its NICs are
 * known. */
weft_status node_world_bare(struct weft_log *log, struct world **out,
                            struct weft_error *error);
/* Returns the world's loop, for postings from other threads. */
struct linux_loop;
struct linux_loop *node_world_loop(struct world *world);

#endif
