/* The waist's verbs over a simulated NIC that runs in real time. */
#ifndef WEFT_BACKENDS_SOFT_DEVICE_H
#define WEFT_BACKENDS_SOFT_DEVICE_H

#include "backends/soft/engine.h"
#include "io/verbs.h"
#include "sim/nic.h"

struct soft_call;
struct soft_cq;

struct soft_device {
    struct io_device io;
    struct soft_engine *engine; /* Not owned */
    struct sim_nic *nic;        /* Not owned */
    /* The netdevs of its ports: as the host knows them, and as the simulated stack does. */
    uint32_t ifindexes[2], sim_ifindexes[2];
    struct soft_call *calls; /* Owned; under way, newest first */
    struct soft_cq *cqs;     /* Owned; who to wake */
    struct soft_wake async;
};

/* `io.n_ports`, names and interfaces are the caller's to fill. */
void soft_device_init(struct soft_device *device, struct soft_engine *engine,
                      struct sim_nic *nic);
/* The engine has stopped. What is under way ends with EIO, waking nobody. */
void soft_device_fini(struct soft_device *device);

#endif
