/* Facts that a host records about itself when it is over: its ports and their counters at that
 * time, and the kernel's settings. */
#ifndef WEFT_RUN_FACTS_H
#define WEFT_RUN_FACTS_H

#include "diag/diag.h"
#include "host/host.h"
#include "io/world.h"

/* Fills `out` (zeroed) with name, policy, limits, settings, ports, the peers that were left out,
 * those waited for and the ports of all peers; errors and events stay empty. The peer of a wait,
 * and of ports, is the number of a member, because a process cannot name members before the
 * rendezvous. The caller frees it with diag_host_fini(). */
void run_facts(const struct host *host, struct diag_host *out);
/* Fills `out` (zeroed) for a host on which nothing has run, from its devices alone. */
void run_facts_before(struct rdma *rdma, struct diag_host *out);
/* Sets the policy of `out`, and what the settings of its host say about the choices of that
 * policy. */
void run_facts_policy(struct io_env *env, enum weft_policy policy, struct diag_host *out);
/* Adds the cables of a mesh to `out`, which must have none, ordered by hosts and ports. */
void run_facts_cables(const struct world_spec *spec, bool is_simulated,
                      struct diag_input *out);

#endif
