/* Inside of neighbour resolution: neighbour.c (entries and their users) and neighbour_wire.c
 * (what is sent and answered). */
#ifndef WEFT_SIM_NEIGHBOUR_IMPL_H
#define WEFT_SIM_NEIGHBOUR_IMPL_H

#include "sim/stack_impl.h"

#define SIM_NEIGH_LOCK_PS ((weft_ps)1000000000000) /* locktime: the first answer wins */

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
    struct sim_resolve *resolves; /* Not owned; in the order of asking */
    struct waiting *queue_first;  /* Owned */
    struct waiting *queue_last;
    unsigned n_queued;
};

struct sim_neighbour *sim_neigh_find(const struct sim_netdev *netdev,
                                     const struct sim_ip *ip);
/* Finds or makes. */
struct sim_neighbour *sim_neigh_get(struct sim_netdev *netdev, const struct sim_ip *ip);
/* REACHABLE, STALE, DELAY or PROBE: its MAC can be used. */
bool sim_neigh_is_valid(enum sim_neigh_state state);
/* The neighbour has `mac`: from an answer (REACHABLE) or from its own question (STALE). */
void sim_neigh_learn(struct sim_neighbour *entry, uint64_t mac,
                     enum sim_neigh_state state);
/* Asks for the entry's MAC once: everybody, or in PROBE the known one. */
void sim_neigh_ask(struct sim_neighbour *entry);

#endif
