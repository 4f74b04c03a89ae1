/* What decides on paths besides the machine: NCCL's settings, and who else takes part. */
#ifndef WEFT_TOPO_SETTINGS_H
#define WEFT_TOPO_SETTINGS_H

#include "topo/topo.h"

struct topo_settings {
    bool has_p2p_level, has_gdr_level;
    enum topo_path_type p2p_level;          /* NCCL_P2P_DISABLE, NCCL_P2P_LEVEL */
    enum topo_path_type gdr_level;          /* NCCL_NET_GDR_LEVEL */
    bool nvb_disable;                       /* NCCL_NVB_DISABLE */
    bool pxn_disable;                       /* NCCL_PXN_DISABLE */
    bool pxn_c2c;                           /* NCCL_PXN_C2C; 2.28 */
    bool gdr_c2c;                           /* NCCL_NET_GDR_C2C; 2.28 */
    bool shm_disable;                       /* NCCL_SHM_DISABLE */
    bool net_disable_intra;                 /* NCCL_NET_DISABLE_INTRA */
    bool force_flush;                       /* NCCL_NET_FORCE_FLUSH */
    int ignore_disabled_p2p;                /* NCCL_IGNORE_DISABLED_P2P */
    int gdr_read;                           /* NCCL_NET_GDR_READ; -2: the default rule */
    int cross_nic;                          /* NCCL_CROSS_NIC */
    int p2p_pxn_level;                      /* NCCL_P2P_PXN_LEVEL */
    int channels_per_net_peer;              /* NCCL_NCHANNELS_PER_NET_PEER; -1 */
    int min_p2p_channels, max_p2p_channels; /* NCCL_MIN_, NCCL_MAX_P2P_NCHANNELS */
};

/* `get` gives the text of a setting ("NCCL_P2P_LEVEL") or NULL. Text that is no number means
 * the default, as in NCCL. */
void topo_settings_read(const struct topo_rules *rules,
                        const char *(*get)(void *context, const char *name),
                        void *context, struct topo_settings *out);

/* One rank, as it tells the others of itself. */
struct topo_peer {
    uint64_t host_hash;
    uint64_t shm_dev; /* st_dev of its /dev/shm */
    int nvml_dev;
};

/* The communicator. Ranks of other machines are peers too. */
struct topo_comm {
    uint32_t rank, n_ranks;
    const struct topo_peer *peers; /* [n_ranks] */
    bool is_net_v4;                /* of the plugin: no PXN */
    bool forces_flush;             /* so does the plugin */
};

/* The machine's other facts. */
struct topo_machine {
    /* Pairs of GPUs, by number, between which NVML says that there is no peer access. */
    const int (*p2p_off)[2]; /* [n_p2p_off] */
    uint32_t n_p2p_off;
};

/* What is decided while paths are computed. */
enum topo_event_kind {
    TOPO_PATHS_FOUND, /* all are as the search left them */
    TOPO_NO_P2P,      /* from GPU to GPU through the CPU `middle` */
    TOPO_APART,       /* neither peer access nor shared memory between them */
    TOPO_BY_C2C,      /* a coherent link leads to the CPU of the NIC */
    TOPO_BY_PXN,      /* to a NET over the GPU `middle` */
    TOPO_GDR,   /* GPUDirect: `is_on`, because `distance` is at most `level` or not */
    TOPO_NO_GDR /* between GPU and NET through the CPU `middle` */
};

struct topo_event {
    enum topo_event_kind kind;
    const struct topo_node *from, *to, *middle;
    enum topo_path_type distance, level;
    bool is_on, reads;
};

/* All that functions of topo/ ask; `comm` may be NULL: no checks of hosts, shared memory and
 * transports. */
struct topo_view {
    struct topo_system *system;
    const struct topo_settings *settings;
    const struct topo_comm *comm;
    const struct topo_machine *machine;
    /* Told of each decision, once it has been made; may be NULL */
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
