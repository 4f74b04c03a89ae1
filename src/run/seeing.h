/* Computes what NCCL 2.25 would know of its host in one rank of a scenario. */
#ifndef WEFT_RUN_SEEING_H
#define WEFT_RUN_SEEING_H

#include "nccl/graphs.h"
#include "run/inside.h"

struct run_seeing {
    struct run_inside inside;
    struct topo_net_ports *nets; /* Owned [n_nets] */
    uint32_t n_nets;
    struct topo_settings settings;
    struct topo_peer *peers; /* Owned [n_ranks] */
    struct topo_comm comm;
    struct topo_system *system; /* Owned */
    struct topo_view view;
    struct topo_graph *ring; /* Owned */
};

/* Computes paths, removes what the rank cannot reach and searches rings. The caller calls
 * run_unsee() in either case. `as_net_ib` models the ports as NCCL's net_ib has them: only those
 * that the host's NCCL_IB_HCA selects, with those of one card merged unless the host's settings
 * forbid it. Otherwise each port is a NET of its own. */
weft_status run_see(const struct scenario_world *world, uint32_t rank, bool as_net_ib,
                    struct run_seeing *out, struct weft_error *error) WEFT_MUST_CHECK;
void run_unsee(struct run_seeing *seeing);

#endif
