/* Internal to neighbour resolution: neighbour.c (entries and their users) and
 * neighbour_wire.c (packets). */
#ifndef WEFT_SIM_NEIGHBOUR_IMPL_H
#define WEFT_SIM_NEIGHBOUR_IMPL_H

#include "sim/stack_impl.h"

/* locktime: later replies with another MAC are ignored */
#define SIM_NEIGH_LOCK_PS ((weft_ps)1000000000000)

struct waiting {
    struct waiting *next;
    struct sim_packet *packet;
};

struct sim_neighbour {
    struct sim_netdev *netdev;
    struct sim_neighbour *next;        /* in the table */
    struct sim_neighbour *bucket_next; /* in the bucket */
    struct sim_ip ip;
    enum sim_neigh_state state;
    uint64_t mac;
    weft_ps confirmed_at;
    weft_ps updated_at;
    unsigned n_probes;
    struct sim_event timer;
    struct sim_resolve *resolves; /* Not owned; in the order of the requests */
    struct waiting *queue_first;  /* Owned */
    struct waiting *queue_last;
    unsigned n_queued;
};

struct sim_neighbour *sim_neigh_find(const struct sim_netdev *netdev,
                                     const struct sim_ip *ip);
/* Returns the entry of `ip`; creates it if there is none. */
struct sim_neighbour *sim_neigh_get(struct sim_netdev *netdev, const struct sim_ip *ip);
/* Returns true if the entry's MAC can be used. */
bool sim_neigh_is_valid(enum sim_neigh_state state);
/* Sets the entry's MAC, from a reply (REACHABLE) or from a request of the neighbour
 * (STALE). */
void sim_neigh_learn(struct sim_neighbour *entry, uint64_t mac,
                     enum sim_neigh_state state);
/* Sends one request for the entry's MAC, to all hosts, or in PROBE to the known MAC. */
void sim_neigh_ask(struct sim_neighbour *entry);

#endif
