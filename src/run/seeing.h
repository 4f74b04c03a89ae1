/* What NCCL 2.25 would know of its host, as one rank of a scenario sees it. */
#ifndef WEFT_RUN_SEEING_H
#define WEFT_RUN_SEEING_H

#include "run/inside.h"
#include "topo/graphs.h"

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

/* Paths are computed, what is out of reach is gone, rings were searched. run_unsee in any case.
 * `as_net_ib`: ports as NCCL's own net_ib has them, those that NCCL_IB_HCA of the host takes and
 * those of a card as one, unless the host's settings forbid that; else every port by itself. */
weft_status run_see(const struct scenario_world *world, uint32_t rank, bool as_net_ib,
                    struct run_seeing *out, struct weft_error *error) WEFT_MUST_CHECK;
void run_unsee(struct run_seeing *seeing);

#endif
