/* Rings and trees inside a host, and from it to the network: what NCCL's search finds for its
 * channels. */
#ifndef WEFT_TOPO_GRAPHS_H
#define WEFT_TOPO_GRAPHS_H

#include "base/text.h"
#include "topo/paths.h"

/* As NCCL numbers them. */
enum topo_pattern {
    TOPO_BALANCED_TREE = 1, /* the NIC's traffic on two GPUs */
    TOPO_TREE = 3,          /* on one GPU */
    TOPO_RING = 4
};

struct topo_graph {
    int id; /* 0: ring, 1: tree */
    enum topo_pattern pattern;
    int cross_nic; /* 0: a channel ends at the NIC where it began; 2: at that of the next one */
    int n_channels, min_channels, max_channels;
    float bw_intra, bw_inter, latency_inter;    /* GB/s of a channel, us */
    enum topo_path_type type_intra, type_inter; /* the farthest that is used */
    bool same_channels;
    bool is_fallback; /* nothing was found: any order, hardly any bandwidth */
    int n_hops;
    /* Ranks by channel, [n_channels][GPUs of the system]; NET ids by channel, [n_channels][2]. */
    int ranks[TOPO_CHANNELS_MAX * TOPO_NODES_MAX];
    uint64_t nets[TOPO_CHANNELS_MAX * 2];
};

/* The ring, or the tree with as many channels as `ring` has. Paths have been computed; free
 * bandwidth of links is as an earlier search left it (NCCL's rounding does not undo all), so the
 * ring comes first. `*out` is large: on the heap. */
weft_status topo_graph_ring(const struct topo_view *view, struct topo_graph *out,
                            struct weft_error *error);
weft_status topo_graph_tree(const struct topo_view *view, const struct topo_graph *ring,
                            struct topo_graph *out, struct weft_error *error);

/* "INFO Pattern 4, ..." and a line for each channel, as NCCL logs them. */
void topo_dump_graph(const struct topo_system *system, const struct topo_graph *graph,
                     const char *prefix, struct weft_text *out);

#endif
