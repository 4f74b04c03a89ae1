/* NCCL_IB_HCA: which RDMA devices and ports are to be used, in NCCL's own syntax. */
#ifndef WEFT_PLUGIN_HCA_H
#define WEFT_PLUGIN_HCA_H

#include <stdbool.h>
#include <stdint.h>

/* Whether `list` takes this port. "mlx5_0,mlx5_1:2": names that begin like one of these, any port
 * or that one; "=mlx5_1": that name only; "^mlx5_0" and "^=mlx5_1": all but these. */
bool hca_takes(const char *list, const char *device, uint32_t port);

#endif
