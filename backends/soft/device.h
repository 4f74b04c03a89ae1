/* The verbs of the I/O interface over a simulated NIC that runs in real time. */
#ifndef WEFT_BACKENDS_SOFT_DEVICE_H
#define WEFT_BACKENDS_SOFT_DEVICE_H

#include "backends/soft/engine.h"
#include "backends/soft/udp.h"
#include "io/verbs.h"
#include "sim/nic.h"

struct soft_call;
struct soft_cq;

struct soft_device {
    struct io_device io;
    struct soft_engine *engine; /* Not owned */
    struct sim_nic *nic;        /* Not owned */
    /* Netdevs of its ports: as the host numbers them, and as the simulated stack does. */
    uint32_t ifindexes[2], sim_ifindexes[2];
    const struct soft_udp *wires[2]; /* Not owned; NULL on the raw wire */
    bool is_shared; /* other processes of the host send and receive at the same ports */
    struct soft_call *calls; /* Owned; in progress, newest first */
    struct soft_cq *cqs;     /* Owned; tasks to wake for CQs */
    struct soft_wake async;
};

/* Initialises the device, except `io.n_ports`, names and interfaces, which are left to the
 * caller. */
void soft_device_init(struct soft_device *device, struct soft_engine *engine,
                      struct sim_nic *nic);
/* Ends everything in progress with EIO, without waking tasks. The engine must have stopped. */
void soft_device_fini(struct soft_device *device);

#endif
