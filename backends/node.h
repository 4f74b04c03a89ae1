/* A world of one host: this process, on whatever RDMA devices it has, or with
 * `is_soft`, or WEFT_NIC=soft among the host's settings or in the environment, on simulated
 * ones (backends/soft). What `weft node` runs on, whoever started it: backends/rxe, mpirun or a
 * user. */
#ifndef WEFT_BACKENDS_NODE_H
#define WEFT_BACKENDS_NODE_H

#include "io/world.h"

/* A GPU in the place of host memory. */
struct node_gpu {
    struct io_gpu *gpu;
    int wake_fd; /* readable when `progress` has something to do; or -1 */
    void (*progress)(struct io_gpu *gpu);
    void (*close)(struct io_gpu *gpu);
};
/* Opens the GPU that the settings of `env` ask for; out->gpu NULL: host memory will do. */
typedef weft_status (*node_gpu_open)(struct io_env *env, struct node_gpu *out,
                                     struct weft_error *error);

/* This process as the `process`th of host `host` of `spec` (unless WEFT_PROCESS in the environment
 * says otherwise), index 0 of its loop; its clock is the machine's monotonic one. `open_gpu` NULL:
 * host memory.
 * WEFT_ERR_ENVIRONMENT: no libibverbs, no device, not those it was given; or of the GPU. */
weft_status node_world_create(const struct world_spec *spec, uint32_t host,
                              uint32_t process, bool is_soft, node_gpu_open open_gpu,
                              struct world **out, struct weft_error *error);
/* This process on its machine as it is, before anybody knows which NICs it will have: without
 * devices. */
weft_status node_world_bare(struct weft_log *log, struct world **out,
                            struct weft_error *error);
/* For postings from other threads; the world's. */
struct linux_loop;
struct linux_loop *node_world_loop(struct world *world);

#endif
