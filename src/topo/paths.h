/* Paths between the nodes of a host: which way data goes, how wide it is, and of what type; and
 * what NCCL asks of them. */
#ifndef WEFT_TOPO_PATHS_H
#define WEFT_TOPO_PATHS_H

#include "topo/settings.h"

/* From a node to a base (GPU, NVS, CPU or NET), or NULL where none was computed. */
const struct topo_path *topo_path(const struct topo_node *from,
                                  const struct topo_node *to);

/* Computes the paths of every node to every GPU, NVS, CPU and NET: the widest of the shortest,
 * then what NCCL changes: GPUs without peer access go through the CPU, GPUs that can reach each
 * other neither directly nor by shared memory are apart, a NIC is reached over a GPU near it, and
 * without GPUDirect through the CPU. WEFT_ERR_INPUT where NCCL gives up, or would not end. */
weft_status topo_compute_paths(const struct topo_view *view, struct weft_error *error);

/* Takes out GPUs that the GPU of the communicator's own rank does not reach inside the host, and
 * (2.25) the NETs if all ranks are here. Paths must be computed anew afterwards. */
weft_status topo_trim(const struct topo_view *view, struct weft_error *error);

/* Whether channels leave this host (`inter` in NCCL's search): 2.25 counts the NETs that
 * topo_trim left. */
bool topo_is_inter(const struct topo_system *system);

/* ---- what NCCL asks ---- */

/* The GPU of a rank, or NULL: it is on another machine. */
struct topo_node *topo_gpu_of(const struct topo_system *system, int rank);

/* The CPU that the fewest links lead to; NULL: none does. */
struct topo_node *topo_local_cpu(const struct topo_system *system,
                                 const struct topo_node *gpu);

struct topo_p2p {
    bool is_on;            /* the path is near enough, and nothing forbids it */
    bool reads;            /* the receiver reads, instead of the sender writing */
    int intermediate_rank; /* whose GPU is on the way, or -1 */
};

/* Peer access from rank `a` to rank `b` (ncclTopoCheckP2p). Fails where NCCL does: `a` has no
 * GPU here, or NVLink is there and NVML says no. */
weft_status topo_check_p2p(const struct topo_view *view, int a, int b,
                           struct topo_p2p *out, struct weft_error *error);
/* The farthest path between GPUs over which they have peer access. */
enum topo_path_type topo_p2p_level(const struct topo_view *view);
/* Whether the network between two ranks of this host is wider than what is inside. */
bool topo_check_net(const struct topo_view *view, int a, int b);
/* Whether these transports would connect them; `view->comm` is not NULL. */
weft_status topo_p2p_can_connect(const struct topo_view *view, int a, int b, bool *out,
                                 struct weft_error *error);
bool topo_shm_can_connect(const struct topo_view *view, int a, int b);

/* Whether the NIC reaches the memory of the GPU by itself; `read`: to send from it. */
weft_status topo_check_gdr(const struct topo_view *view, const struct topo_node *gpu,
                           const struct topo_node *net, bool read, bool *out,
                           struct weft_error *error);
/* The rank whose GPU takes data to `net` (PXN), or the GPU's own. */
weft_status topo_intermediate_rank(const struct topo_node *gpu,
                                   const struct topo_node *net, int *out,
                                   struct weft_error *error);
/* Whether data that the NIC wrote must be flushed before the GPU may look. `net` may be NULL:
 * any. */
bool topo_need_flush(const struct topo_view *view, const struct topo_node *gpu,
                     const struct topo_node *net);

/* The nodes of a type that `of` reaches best: by bandwidth, then by type. `out` has room for
 * TOPO_NODES_MAX; returns how many. */
uint32_t topo_locals(const struct topo_system *system, const struct topo_node *of,
                     enum topo_type type, struct topo_node **out);
/* How many of its local NETs it takes to fill the GPU's own link to the CPU. */
uint32_t topo_net_count_by_bw(const struct topo_system *system,
                              const struct topo_node *gpu);
/* The NET that a channel of a GPU uses; NULL: there are none. */
struct topo_node *topo_local_net(const struct topo_system *system,
                                 const struct topo_node *gpu, uint32_t channel);
/* The GPU that first uses `net`; NULL: none does. */
struct topo_node *topo_local_gpu(const struct topo_system *system,
                                 const struct topo_node *net);

/* The NET through which `rank` sends to `peer` on a channel, and the rank that does it. */
struct topo_net_choice {
    const struct topo_node *net;
    int proxy_rank;
};
weft_status topo_net_for(const struct topo_view *view, int rank, uint32_t channel,
                         int peer, struct topo_net_choice *out, struct weft_error *error);

/* The nearest and farthest path of any GPU to a node of `type`, itself not counted. */
enum topo_path_type topo_min_path(const struct topo_system *system, enum topo_type type);
enum topo_path_type topo_max_path(const struct topo_system *system, enum topo_type type);

/* GB/s of the widest path of a channel, and of all links of a GPU (ncclTopoSearchInit). */
void topo_bandwidths(const struct topo_system *system, float *out_max, float *out_total);

/* Channels for point-to-point, in all and of each pair, when collectives use `n_channels`. */
void topo_p2p_channels(const struct topo_view *view, uint32_t n_channels,
                       uint32_t *out_channels, uint32_t *out_per_peer);

#endif
