/* Predicts the NICs that NCCL 2.25 selects for each connection between hosts. Each end selects a
 * device by its own topology, without regard to where cables lead. */
#ifndef WEFT_RUN_ASKS_H
#define WEFT_RUN_ASKS_H

#include "nccl/describe.h"
#include "scenario/scenario.h"

/* A NET as used by one end of a connection. */
struct run_nic {
    int dev; /* NCCL's number of the NET */
    /* Port indices of the host; several if NICs are merged. */
    uint32_t ports[TOPO_NET_PORTS_MAX];
    uint32_t n_ports;
    int proxy_rank; /* rank whose process moves the data; another rank's with PXN */
};

struct run_ask {
    bool is_ring; /* true: for a channel's ring; false: point to point */
    uint32_t channel;
    uint32_t from, to; /* ranks on different hosts */
    struct run_nic send, receive;
};

struct run_asks {
    struct run_ask *asks; /* Owned [n]: rings by channel, then pairs */
    uint32_t n;
    int n_channels; /* channels of the ring, before NCCL doubles them */
    int cross_nic;  /* 0 if a channel uses one NIC in both directions */
};

/* Predicts the connections of all ranks. `as_net_ib` is that of run_see(). Fails with
 * WEFT_ERR_INPUT where NCCL gives up. The caller calls run_asks_fini() in either case. */
weft_status run_asks_make(const struct scenario_world *world, bool as_net_ib,
                          struct run_asks *out, struct weft_error *error);
void run_asks_fini(struct run_asks *asks);

/* Predicts the NIC that `rank` uses on channel 0, of the ring or for point-to-point transfers. */
weft_status run_asks_of_rank(const struct scenario_world *world, uint32_t rank,
                             bool as_net_ib, bool is_ring, struct run_nic *out,
                             struct weft_error *error);

/* Returns the value that the scenario sets in the environment of `host`, or NULL. `host` may be
 * NULL. */
const char *run_host_setting(const struct world_host *host, const char *name);
/* Returns true if net_ib on this host merges the ports of a card (NCCL_IB_MERGE_NICS and
 * NCCL_NET_MERGE_LEVEL of the host's environment). */
bool run_host_merges(const struct world_host *host);

/* Finds the other end of the port's cable. Returns false if the port has no cable. */
bool run_far_end(const struct world_spec *spec, uint32_t host, uint32_t port,
                 struct world_end *out);
/* Returns true if a cable connects the two ports, directly or through connected switches. */
bool run_is_wired(const struct world_spec *spec, uint32_t host, uint32_t port,
                  uint32_t peer, uint32_t peer_port);

#endif
