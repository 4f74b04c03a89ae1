/* Shared by the files of control verbs: their duration, and reports to the watcher. */
#ifndef WEFT_SIM_NIC_VERBS_IMPL_H
#define WEFT_SIM_NIC_VERBS_IMPL_H

#include "sim/nic_impl.h"
#include "sim/nic_model.h"

/* Returns the duration of a verb that starts now. Sets `*error` to the errno of a stalled
 * command that is given up, or to 0. */
weft_ps sim_nic_verb_time(struct sim_nic *nic, const struct sim_request *request,
                          int *error);
/* Returns the profile's latency of the verb, without stalls and queues. */
weft_ps sim_nic_verb_latency(const struct sim_nic *nic,
                             const struct sim_request *request);
/* Report to the watcher that a verb begins (`waited` is the part of its time beyond the
 * profile's latency), is about to change its QP, or ends; or drop the record of a
 * cancelled verb. */
void sim_watch_begin(struct sim_nic *nic, struct sim_request *request, weft_ps waited);
void sim_watch_states(struct sim_request *request);
void sim_watch_end(struct sim_nic *nic, struct sim_request *request, int error,
                   bool is_forgotten);
void sim_watch_drop(struct sim_request *request);
/* Returns true for verbs that free an object. */
bool sim_verb_is_undoing(enum sim_verb verb);

#endif
