/* Queries about peer access and PXN. Private to nccl/. */
#ifndef WEFT_NCCL_QUERY_H
#define WEFT_NCCL_QUERY_H

#include "nccl/paths.h"

/* Does the same as topo_check_p2p for two GPUs of this host. */
weft_status topo_check_gpus(const struct topo_view *view, const struct topo_node *from,
                            const struct topo_node *to, struct topo_p2p *out,
                            struct weft_error *error);
/* Returns true if the ranks share a host and /dev/shm, so that peer access or shared memory is
 * possible. */
bool topo_share_memory(const struct topo_comm *comm, int a, int b);
/* Returns the GB/s of the widest network that a GPU reaches without passing a CPU. */
float topo_net_speed(const struct topo_system *system, const struct topo_node *gpu);

/* Returns true if settings or the net plugin exclude PXN. */
bool topo_pxn_is_off(const struct topo_view *view);
/* Returns how far a GPU may be from the NIC that it serves for other GPUs. */
enum topo_path_type topo_pxn_reach(const struct topo_view *view);

#endif
