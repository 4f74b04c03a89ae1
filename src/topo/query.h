/* Inside topo/: when data may go over another GPU to a NIC. */
#ifndef WEFT_TOPO_QUERY_H
#define WEFT_TOPO_QUERY_H

#include "topo/paths.h"

/* topo_check_p2p between GPUs of which both are here. */
weft_status topo_check_gpus(const struct topo_view *view, const struct topo_node *from,
                            const struct topo_node *to, struct topo_p2p *out,
                            struct weft_error *error);
/* Whether both ranks could have peer access or shared memory at all. */
bool topo_share_memory(const struct topo_comm *comm, int a, int b);
/* GB/s of the widest network that a GPU reaches without a CPU on the way. */
float topo_net_speed(const struct topo_system *system, const struct topo_node *gpu);

bool topo_pxn_is_off(const struct topo_view *view);
/* How far a GPU may be from the NIC that it serves for others. */
enum topo_path_type topo_pxn_reach(const struct topo_view *view);

#endif
