/* What the files of control verbs share: how long a verb takes, and who is told of it. */
#ifndef WEFT_SIM_NIC_VERBS_IMPL_H
#define WEFT_SIM_NIC_VERBS_IMPL_H

#include "sim/nic_impl.h"
#include "sim/nic_model.h"

/* How long a verb takes that starts now. `*error`: why it fails then, or 0. */
weft_ps sim_nic_verb_time(struct sim_nic *nic, const struct sim_request *request,
                          int *error);
/* The profile's time for it alone. */
weft_ps sim_nic_verb_latency(const struct sim_nic *nic,
                             const struct sim_request *request);
/* For the watcher: a verb begins, of which `waited` is not the profile's; is about to change
 * its QP; ends; is forgotten. */
void sim_watch_begin(struct sim_nic *nic, struct sim_request *request, weft_ps waited);
void sim_watch_states(struct sim_request *request);
void sim_watch_end(struct sim_nic *nic, struct sim_request *request, int error,
                   bool is_forgotten);
void sim_watch_drop(struct sim_request *request);
/* Verbs that free an object. */
bool sim_verb_is_undoing(enum sim_verb verb);

#endif
