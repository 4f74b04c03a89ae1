/* Definitions shared by backends/soft/host*.c only. */
#ifndef WEFT_BACKENDS_SOFT_HOST_PRIVATE_H
#define WEFT_BACKENDS_SOFT_HOST_PRIVATE_H

#include "backends/soft/device.h"
#include "backends/soft/follow.h"
#include "backends/soft/host.h"
#include "backends/soft/loopback.h"
#include "backends/soft/raw.h"
#include "sim/profile.h"
#include "sim/stack.h"

struct soft_host_port {
    struct sim_port *sim; /* Owned */
    struct soft_udp *udp; /* Owned; NULL on the raw wire */
    struct soft_raw *raw; /* Owned; or NULL */
    uint32_t ifindex;     /* as the host numbers it */
    uint32_t sim_ifindex;
};

struct soft_host {
    struct linux_env *linux_env;    /* Owned */
    struct soft_loopback *loopback; /* Owned; NULL without aliases */
    const struct world_spec *spec;  /* Not owned */
    const struct world_host *self;  /* Not owned */
    uint32_t index;                 /* in the spec */
    uint32_t process;               /* of the host */
    struct soft_follow *follow;     /* Owned; NULL with aliases */
    struct soft_engine *engine;     /* Owned */
    struct sim_stack *stack;        /* Owned */
    struct soft_host_port *ports;   /* Owned [self->n_ports] */
    struct sim_nic **nics;          /* Owned [n_devices], with elements */
    struct soft_device *devices;    /* Owned [n_devices] */
    struct io_device **io;          /* Owned [n_devices] */
    uint32_t n_devices;
    struct io_gpu *gpu; /* Owned */
    int64_t pinned_limit;
    struct sim_profile profile;
};

/* Creates port `index` and opens its wire. MAC, MTU and carrier are the netdev's. */
weft_status soft_host_build_port(struct soft_host *host, uint32_t index,
                                 struct weft_error *error);
/* Starts following the carriers and addresses of the ports' netdevs. Must be called inside the
 * namespace. */
weft_status soft_host_follow(struct soft_host *host, struct weft_error *error);

#endif
