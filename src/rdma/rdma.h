/* RDMA devices of one host: discovery, protection domains, CQs; where the waist's errno
 * becomes weft errors. */
#ifndef WEFT_RDMA_RDMA_H
#define WEFT_RDMA_RDMA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "io/env.h"

/* One usable slot of a GID table, with the address behind it. */
struct rdma_gid {
    union ibv_gid gid;
    enum ibv_gid_type type;
    uint32_t index;
    uint8_t prefix_len; /* of the netdev address that equals the GID; 0: none does */
};

/* One port of one device, with everything that choices and diagnoses need. */
struct rdma_port {
    struct io_device *device; /* Not owned. */
    uint32_t device_index;    /* into env->devices */
    uint8_t port;             /* from 1 */
    char name[40];    /* the device's name; "name/2" for the second port of a device */
    uint32_t ifindex; /* its netdev, or 0 */
    char netdev[32];
    uint64_t rate_bps; /* the netdev's speed */
    uint32_t netdev_mtu;
    uint32_t active_mtu;   /* bytes: 256..4096 */
    bool is_active;        /* IBV_PORT_ACTIVE */
    struct rdma_gid *gids; /* Owned [n_gids], in table order, empty slots left out */
    uint32_t n_gids;
    /* When a refresh last missed a GID that had an address behind it; 0 if none was missed. */
    weft_ns gid_lost_ns;
};

struct rdma_path;

struct rdma {
    struct io_env *env;           /* Not owned. */
    struct io_device_attr *attrs; /* Owned [env->n_devices] */
    struct rdma_port *ports;      /* Owned [n_ports], in device then port order */
    uint32_t n_ports;
    struct ibv_pd **pds;  /* Owned [env->n_devices]; NULL until rdma_progress made it */
    struct io_op *pd_ops; /* Owned [env->n_devices] */
    bool *is_lost;        /* Owned [env->n_devices]; rdma_lose_device */
    struct rdma_mr_cache *mrs; /* Owned; rdma/mr.h */
    struct rdma_path *paths;   /* Owned [n_paths]; rdma/path_mtu.h */
    uint32_t n_paths;
    weft_ns settled_ns;   /* when a set-up last read the ports again; 0: never */
    struct io_task *task; /* Not owned. */
    bool is_ready;
};

/* Of a host that has no RDMA device and needs none. */
struct rdma *rdma_open_none(struct io_env *env, struct io_task *task);
/* Discovers devices and ports and starts making one PD a device. `task` is woken until
 * rdma_progress returns WEFT_OK. WEFT_ERR_ENVIRONMENT: the host has no RDMA device. */
weft_status rdma_open(struct io_env *env, struct io_task *task, struct rdma **out,
                      struct weft_error *error) WEFT_MUST_CHECK;
/* AGAIN until every PD exists, but those of devices that were lost. WEFT_ERR_SYSTEM, errno 19 if
 * all were. */
weft_status rdma_progress(struct rdma *rdma, struct weft_error *error) WEFT_MUST_CHECK;
/* Re-reads ports and GIDs (after GID_CHANGE, PORT_*). */
weft_status rdma_refresh(struct rdma *rdma, struct weft_error *error) WEFT_MUST_CHECK;
/* The device is gone for good (DEVICE_FATAL): its ports are inactive from now on, it is asked
 * nothing any more, and what is not there yet is not waited for. What was made on it is its
 * owners' to give back. */
void rdma_lose_device(struct rdma *rdma, uint32_t device_index);
/* Gives everything back; what is still under way is abandoned. NULL is ignored. */
void rdma_close(struct rdma *rdma);

/* The slot of `port` that holds this GID and type *now*, re-read from the device: slots
 * move. Returns 0 and the index, or ENODATA. */
int rdma_find_gid(struct rdma *rdma, const struct rdma_port *port,
                  const union ibv_gid *gid, enum ibv_gid_type type, uint32_t *out_index);

/* Whether that slot holds another GID, or type, *now*. An empty one holds none. */
bool rdma_gid_is_anothers(const struct rdma_port *port, uint32_t index,
                          const union ibv_gid *gid, enum ibv_gid_type type);

/* What is known of this GID and type since the last refresh, or NULL. */
const struct rdma_gid *rdma_port_gid(const struct rdma_port *port,
                                     const union ibv_gid *gid, enum ibv_gid_type type);

/* The card that a device is a function of, as the index of its first device: PCI paths
 * that differ in the function digit only. A device without a PCI path is a card of its
 * own. NCCL merges the ports of one card (ncclIbMakeVDevice, NCCL_NET_MERGE_LEVEL=PORT).
 */
uint32_t rdma_nic(const struct rdma *rdma, uint32_t device_index);

/* Starts a verb whose outcome nobody waits for: the destruction of an object whose owner
 * goes away. One that is refused for a moment is tried once more; other refusals are lost. */
void rdma_forget_op(struct io_device *device, const struct io_op *filled);

/* enum ibv_mtu <-> bytes; 0 or 256..4096 only. */
uint32_t rdma_mtu_bytes(enum ibv_mtu mtu);
enum ibv_mtu rdma_mtu_enum(uint32_t bytes);

/* "192.168.101.1" or an IPv6 address: how GIDs are printed. */
char *rdma_gid_format(const union ibv_gid *gid, char *out, size_t out_bytes);
/* "IB", "RoCE v1", "RoCE v2" as sysfs prints them, or "?". */
const char *rdma_gid_type_name(enum ibv_gid_type type);

#endif
