/* Paths between the nodes of a host: their hops, bandwidth and type; and the answers to NCCL's
 * queries about them. */
#ifndef WEFT_NCCL_PATHS_H
#define WEFT_NCCL_PATHS_H

#include "nccl/settings.h"

/* Returns the path from a node to a base (GPU, NVS, CPU or NET), or NULL if none was computed. */
const struct topo_path *topo_path(const struct topo_node *from,
                                  const struct topo_node *to);

/* Computes the paths of every node to every GPU, NVS, CPU and NET: the widest of the shortest,
 * then what NCCL changes. GPUs without peer access use a path through the CPU. GPUs that reach
 * each other neither directly nor by shared memory are apart. A NIC is reached through a GPU
 * near it, or without GPUDirect through the CPU. Fails with WEFT_ERR_INPUT where NCCL gives up
 * or would not terminate. */
weft_status topo_compute_paths(const struct topo_view *view, struct weft_error *error);

/* Removes the GPUs that the GPU of the communicator's own rank does not reach within the host
 * and, with 2.25 rules, the NETs if all ranks are here. Paths must be computed again
 * afterwards. Fails with WEFT_ERR_INPUT if there is no GPU. */
weft_status topo_trim(const struct topo_view *view, struct weft_error *error);

/* Returns true if channels leave this host (`inter` in NCCL's search). 2.25 counts the NETs
 * that topo_trim left. */
bool topo_is_inter(const struct topo_system *system);

/* ---- NCCL's queries ---- */

/* Returns the GPU of a rank, or NULL if it is on another machine. */
struct topo_node *topo_gpu_of(const struct topo_system *system, int rank);

/* Returns the CPU with the fewest hops from the GPU, or NULL if it reaches none. */
struct topo_node *topo_local_cpu(const struct topo_system *system,
                                 const struct topo_node *gpu);

struct topo_p2p {
    bool is_on;            /* the path is near enough and not disabled */
    bool reads;            /* the receiver reads; otherwise the sender writes */
    int intermediate_rank; /* rank of the GPU in the middle, or -1 */
};

/* Determines peer access from rank `a` to rank `b` (ncclTopoCheckP2p). Fails where NCCL does:
 * `a` has no GPU here, or NVML denies peer access over NVLink. */
weft_status topo_check_p2p(const struct topo_view *view, int a, int b,
                           struct topo_p2p *out, struct weft_error *error);
/* Returns the farthest type of path between GPUs that permits peer access. */
enum topo_path_type topo_p2p_level(const struct topo_view *view);
/* Returns true if the network between two ranks is wider than the path within the host, or one
 * of them has no GPU here. Always false with NCCL_NET_DISABLE_INTRA=1. */
bool topo_check_net(const struct topo_view *view, int a, int b);
/* Determine if these transports would connect two ranks; `view->comm` must not be NULL. */
weft_status topo_p2p_can_connect(const struct topo_view *view, int a, int b, bool *out,
                                 struct weft_error *error);
bool topo_shm_can_connect(const struct topo_view *view, int a, int b);

/* Determines if the NIC accesses the GPU's memory directly; `read`: to send from it. */
weft_status topo_check_gdr(const struct topo_view *view, const struct topo_node *gpu,
                           const struct topo_node *net, bool read, bool *out,
                           struct weft_error *error);
/* Sets `out` to the rank whose GPU forwards data to `net` (PXN), or to the GPU's own rank.
 * Fails if the path has no such GPU. */
weft_status topo_intermediate_rank(const struct topo_node *gpu,
                                   const struct topo_node *net, int *out,
                                   struct weft_error *error);
/* Returns true if data that the NIC wrote must be flushed before the GPU reads it. `net` may
 * be NULL if unknown. */
bool topo_need_flush(const struct topo_view *view, const struct topo_node *gpu,
                     const struct topo_node *net);

/* Writes the nodes of a type that `of` reaches best, by bandwidth, then by type. `out` must
 * have room for TOPO_NODES_MAX. Returns how many. */
uint32_t topo_locals(const struct topo_system *system, const struct topo_node *of,
                     enum topo_type type, struct topo_node **out);
/* Returns how many of its local NETs fill the GPU's own link to the CPU. */
uint32_t topo_net_count_by_bw(const struct topo_system *system,
                              const struct topo_node *gpu);
/* Returns the NET that a channel of a GPU uses, or NULL if there is none. */
struct topo_node *topo_local_net(const struct topo_system *system,
                                 const struct topo_node *gpu, uint32_t channel);
/* Returns the GPU that uses `net` in the lowest channel, or NULL if none does. */
struct topo_node *topo_local_gpu(const struct topo_system *system,
                                 const struct topo_node *net);

/* The NET through which a rank sends to a peer on a channel, and the rank that drives it. */
struct topo_net_choice {
    const struct topo_node *net;
    int proxy_rank;
};
/* Chooses the NET for `rank` to send to `peer`. Fails with WEFT_ERR_INPUT if there is none. */
weft_status topo_net_for(const struct topo_view *view, int rank, uint32_t channel,
                         int peer, struct topo_net_choice *out, struct weft_error *error);

/* Return the nearest and farthest type of path from any GPU to another node of `type`. */
enum topo_path_type topo_min_path(const struct topo_system *system, enum topo_type type);
enum topo_path_type topo_max_path(const struct topo_system *system, enum topo_type type);

/* Computes the GB/s of the widest path of a channel, and the greatest total of a GPU's links
 * (ncclTopoSearchInit). */
void topo_bandwidths(const struct topo_system *system, float *out_max, float *out_total);

/* Computes the number of point-to-point channels in total and of each pair if collectives use
 * `n_channels`. */
void topo_p2p_channels(const struct topo_view *view, uint32_t n_channels,
                       uint32_t *out_channels, uint32_t *out_per_peer);

#endif
