/* Control verbs of the waist as requests of a simulated NIC, whatever drives its engine. */
#ifndef WEFT_BACKENDS_SIM_REQUEST_H
#define WEFT_BACKENDS_SIM_REQUEST_H

#include "io/verbs.h"
#include "sim/nic.h"

/* What the profile says; `ibv` stays the caller's to fill. */
void sim_device_attr(const struct sim_nic *nic, struct io_device_attr *out);
/* All of an all-zero `*request` but who is told (the wakers of the request and of a CQ), whose it
 * is, and whether memory is a GPU's. EINVAL: no verb. */
int sim_request_of(const struct io_op *op, struct sim_request *request);
/* A request that is done: its error, and what it made, are `op`'s. */
void sim_request_result(const struct sim_request *request, struct io_op *op);

#endif
