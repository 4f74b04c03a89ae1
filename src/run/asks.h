/* What NCCL 2.25 would ask of each NIC: its own choice of a device at either end of every
 * connection between hosts, made without a look at where cables lead. */
#ifndef WEFT_RUN_ASKS_H
#define WEFT_RUN_ASKS_H

#include "scenario/scenario.h"
#include "topo/describe.h"

/* A NET as one end of a connection uses it. */
struct run_nic {
    int dev;                            /* NCCL's number of it */
    uint32_t ports[TOPO_NET_PORTS_MAX]; /* of the host: several if NICs are merged */
    uint32_t n_ports;
    int proxy_rank; /* whose process moves the data: another's by PXN */
};

struct run_ask {
    bool is_ring; /* of the ring of a channel; else point to point */
    uint32_t channel;
    uint32_t from, to; /* ranks, on different hosts */
    struct run_nic send, receive;
};

struct run_asks {
    struct run_ask *asks; /* Owned [n]: rings by channel, then pairs */
    uint32_t n;
    int n_channels; /* of the ring, before NCCL doubles them */
    int cross_nic;  /* 0: a channel uses one NIC both ways */
};

/* Of all ranks, `as_net_ib` or as a plugin is asked (run_see). WEFT_ERR_INPUT where NCCL gives up;
 * run_asks_fini in any case. */
weft_status run_asks_make(const struct scenario_world *world, bool as_net_ib,
                          struct run_asks *out, struct weft_error *error);
void run_asks_fini(struct run_asks *asks);

/* Of one rank alone: the NIC of its channel 0, in a ring or for pairs. */
weft_status run_asks_of_rank(const struct scenario_world *world, uint32_t rank,
                             bool as_net_ib, bool is_ring, struct run_nic *out,
                             struct weft_error *error);

/* What the scenario sets in the environment of a host, or NULL; also for no host. */
const char *run_host_setting(const struct world_host *host, const char *name);
/* Whether net_ib of this host merges ports of a card: NCCL_IB_MERGE_NICS and
 * NCCL_NET_MERGE_LEVEL of its environment. */
bool run_host_merges(const struct world_host *host);

/* Where the cable of a port leads; false: it has none. */
bool run_far_end(const struct world_spec *spec, uint32_t host, uint32_t port,
                 struct world_end *out);
/* Whether two ports are ends of one cable, or of switches that are connected. */
bool run_is_wired(const struct world_spec *spec, uint32_t host, uint32_t port,
                  uint32_t peer, uint32_t peer_port);

#endif
