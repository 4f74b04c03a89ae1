/* Rings and trees within a host and from it to the network, as NCCL's search finds them for
 * its channels. */
#ifndef WEFT_NCCL_GRAPHS_H
#define WEFT_NCCL_GRAPHS_H

#include "base/text.h"
#include "nccl/paths.h"

/* Values as in NCCL. */
enum topo_pattern {
    TOPO_BALANCED_TREE = 1, /* the NIC's traffic is divided between two GPUs */
    TOPO_TREE = 3,          /* the NIC's traffic is on one GPU */
    TOPO_RING = 4
};

struct topo_graph {
    int id; /* 0 ring, 1 tree */
    enum topo_pattern pattern;
    /* 0: a channel ends at the NIC where it began; 2: at that of the next channel; 1: at any */
    int cross_nic;
    int n_channels, min_channels, max_channels;
    float bw_intra, bw_inter, latency_inter;    /* GB/s of a channel; us */
    enum topo_path_type type_intra, type_inter; /* farthest types in use */
    bool same_channels;
    bool is_fallback; /* the search found nothing: simple order, little bandwidth */
    int n_hops;
    /* Ranks by channel, [n_channels][GPUs of the system]; NET ids by channel, [n_channels][2]. */
    int ranks[TOPO_CHANNELS_MAX * TOPO_NODES_MAX];
    uint64_t nets[TOPO_CHANNELS_MAX * 2];
};

/* Search for the ring, or for the tree with as many channels as `ring` has. Paths must have
 * been computed. The ring must be first, because the tree's search starts from the free
 * bandwidth that the ring's left (NCCL's rounding does not undo all of it). `*out` is large;
 * allocate it on the heap. */
weft_status topo_graph_ring(const struct topo_view *view, struct topo_graph *out,
                            struct weft_error *error);
weft_status topo_graph_tree(const struct topo_view *view, const struct topo_graph *ring,
                            struct topo_graph *out, struct weft_error *error);

/* Appends "INFO Pattern 4, ..." and a line for each channel, as NCCL logs them. */
void topo_dump_graph(const struct topo_system *system, const struct topo_graph *graph,
                     const char *prefix, struct weft_text *out);

#endif
