/* Inputs to the path computation besides the machine: NCCL's settings and the communicator. */
#ifndef WEFT_NCCL_SETTINGS_H
#define WEFT_NCCL_SETTINGS_H

#include "nccl/topo.h"

struct topo_settings {
    bool has_p2p_level, has_gdr_level;
    enum topo_path_type p2p_level; /* NCCL_P2P_DISABLE, NCCL_P2P_LEVEL */
    enum topo_path_type gdr_level; /* NCCL_NET_GDR_LEVEL */
    bool nvb_disable;              /* NCCL_NVB_DISABLE */
    bool pxn_disable;              /* NCCL_PXN_DISABLE */
    bool pxn_c2c;                  /* NCCL_PXN_C2C; 2.28 */
    bool gdr_c2c;                  /* NCCL_NET_GDR_C2C; 2.28 */
    bool shm_disable;              /* NCCL_SHM_DISABLE */
    bool net_disable_intra;        /* NCCL_NET_DISABLE_INTRA */
    bool force_flush;              /* NCCL_NET_FORCE_FLUSH */
    int ignore_disabled_p2p;       /* NCCL_IGNORE_DISABLED_P2P */
    /* NCCL_NET_GDR_READ; -2 for the default rule */
    int gdr_read;
    int cross_nic;     /* NCCL_CROSS_NIC */
    int p2p_pxn_level; /* NCCL_P2P_PXN_LEVEL */
    /* NCCL_NCHANNELS_PER_NET_PEER; -1 if not set */
    int channels_per_net_peer;
    int min_p2p_channels, max_p2p_channels; /* NCCL_MIN_, NCCL_MAX_P2P_NCHANNELS */
};

/* Reads the settings. `get` returns the text of a setting ("NCCL_P2P_LEVEL") or NULL. As in
 * NCCL, empty text and numbers out of range mean the default, and other text that is no number
 * means 0. */
void topo_settings_read(const struct topo_rules *rules,
                        const char *(*get)(void *context, const char *name),
                        void *context, struct topo_settings *out);

/* Facts that a rank announces about itself. */
struct topo_peer {
    uint64_t host_hash;
    uint64_t shm_dev; /* st_dev of its /dev/shm */
    int nvml_dev;
};

/* The communicator. Ranks of other machines are peers too. */
struct topo_comm {
    uint32_t rank, n_ranks;
    const struct topo_peer *peers; /* [n_ranks] */
    bool is_net_v4;                /* the plugin has interface v4, without PXN */
    bool forces_flush;             /* the plugin requires a flush */
};

/* The machine's other facts. */
struct topo_machine {
    /* Pairs of GPUs, by number, between which NVML denies peer access. */
    const int (*p2p_off)[2]; /* [n_p2p_off] */
    uint32_t n_p2p_off;
};

/* A decision of the path computation. */
enum topo_event_kind {
    TOPO_PATHS_FOUND, /* the search has set all paths */
    TOPO_NO_P2P,      /* no peer access: from GPU to GPU through the CPU `middle` */
    TOPO_APART,       /* two GPUs with neither peer access nor shared memory */
    TOPO_BY_C2C,      /* a coherent link leads to the NIC's CPU */
    TOPO_BY_PXN,      /* to a NET through the GPU `middle` */
    TOPO_GDR,         /* GPUDirect; `is_on` if `distance` is at most `level` */
    TOPO_NO_GDR       /* no GPUDirect: between GPU and NET through the CPU `middle` */
};

struct topo_event {
    enum topo_event_kind kind;
    const struct topo_node *from, *to, *middle;
    enum topo_path_type distance, level;
    bool is_on, reads;
};

/* Context of all queries. Without `comm` (NULL) hosts, shared memory and transports are not
 * checked. */
struct topo_view {
    struct topo_system *system;
    const struct topo_settings *settings;
    const struct topo_comm *comm;
    const struct topo_machine *machine;
    /* Called after each decision; may be NULL */
    void (*tell)(void *context, const struct topo_event *event);
    void *tell_context;
};

static inline void topo_tell(const struct topo_view *view, struct topo_event event)
{
    if (view->tell != NULL) {
        view->tell(view->tell_context, &event);
    }
}

#endif
