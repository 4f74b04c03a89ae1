/* Control verbs of the I/O interface as requests of a simulated NIC, for any driver of its
 * engine. */
#ifndef WEFT_BACKENDS_SIM_REQUEST_H
#define WEFT_BACKENDS_SIM_REQUEST_H

#include "io/verbs.h"
#include "sim/nic.h"

/* Fills the attributes from the profile; `ibv` is left to the caller. */
void sim_device_attr(const struct sim_nic *nic, struct io_device_attr *out);
/* Fills an all-zero `*request` from `op`, except for the wakers of the request and of a CQ, the
 * user, and is_gpu. Returns EINVAL if `op` is not a verb. */
int sim_request_of(const struct io_op *op, struct sim_request *request);
/* Copies the error and the objects of a completed request to `op`. */
void sim_request_result(const struct sim_request *request, struct io_op *op);
/* Sets all counters of a port to IO_UNKNOWN. */
void sim_counters_unknown(struct io_port_counters *out);
/* Fills what the transport of a NIC with one port counted. Leaves packets on the wire, frames,
 * drops and pauses, which are counted elsewhere. */
void sim_counters_of_transport(const struct sim_nic_counters *nic,
                               struct io_port_counters *out);

#endif
