/* RDMA devices of one host: discovery, protection domains (PDs) and GID look-up. Converts the errno
 * of the I/O interface to Weft errors. */
#ifndef WEFT_RDMA_RDMA_H
#define WEFT_RDMA_RDMA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "io/env.h"
#include "io/verbs.h"

/* One used slot of a GID table, and the prefix length of the address behind it. */
struct rdma_gid {
    union ibv_gid gid;
    enum ibv_gid_type type;
    uint32_t index;
    uint32_t ifindex;   /* of its netdev: the port's, or one on top of it; 0 if unknown */
    uint8_t prefix_len; /* of the netdev address that equals the GID; 0 if none does */
};

/* One port of one device, with the facts that choices and diagnoses need. */
struct rdma_port {
    struct io_device *device; /* Not owned. */
    uint32_t device_index;    /* into env->devices */
    uint8_t port;             /* from 1 */
    char name[40];    /* the device's name; "name/2" for the second port of a device */
    uint32_t ifindex; /* its netdev; 0 if none */
    char netdev[32];
    uint64_t rate_bps; /* the netdev's speed; 0 without a netdev */
    uint32_t netdev_mtu;
    uint32_t active_mtu;   /* bytes: 256..4096 */
    bool is_active;        /* IBV_PORT_ACTIVE, and the device is not lost */
    struct rdma_gid *gids; /* Owned [n_gids], in table order, without empty slots */
    uint32_t n_gids;
    /* Time of the last refresh that missed a GID with an address behind it; 0 if none did. */
    weft_ns gid_lost_ns;
};

struct rdma_path;

struct rdma {
    struct io_env *env;           /* Not owned. */
    struct io_device_attr *attrs; /* Owned [env->n_devices] */
    struct rdma_port *ports;      /* Owned [n_ports], in device then port order */
    uint32_t n_ports;
    struct ibv_pd **pds; /* Owned [env->n_devices]; NULL until rdma_progress has set it */
    struct io_op *pd_ops;      /* Owned [env->n_devices] */
    bool *is_lost;             /* Owned [env->n_devices]; rdma_lose_device */
    struct rdma_mr_cache *mrs; /* Owned; rdma/mr.h */
    struct rdma_path *paths;   /* Owned [n_paths]; rdma/path_mtu.h */
    uint32_t n_paths;
    weft_ns settled_ns;   /* when a set-up last read the ports again; 0 if never */
    struct io_task *task; /* Not owned. */
    bool is_ready;
};

/* Creates the RDMA state of a host without devices; env->n_devices must be 0. */
struct rdma *rdma_open_none(struct io_env *env, struct io_task *task);
/* Discovers devices and ports, and starts allocating one PD per device. `task` is woken until
 * rdma_progress returns WEFT_OK. Fails with WEFT_ERR_ENVIRONMENT if the host has no RDMA device. */
weft_status rdma_open(struct io_env *env, struct io_task *task, struct rdma **out,
                      struct weft_error *error) WEFT_MUST_CHECK;
/* Returns WEFT_AGAIN until every device that is not lost has its PD. Fails with WEFT_ERR_SYSTEM:
 * with errno 19 (ENODEV) if all devices are lost, or with the errno of alloc_pd. */
weft_status rdma_progress(struct rdma *rdma, struct weft_error *error) WEFT_MUST_CHECK;
/* Reads ports and GIDs again, except those of lost devices. Call it after the async events
 * GID_CHANGE and PORT_*. */
weft_status rdma_refresh(struct rdma *rdma, struct weft_error *error) WEFT_MUST_CHECK;
/* Marks a device as lost for good (DEVICE_FATAL). Its ports become inactive, rdma_refresh does not
 * query them any more, and rdma_progress does not wait for its PD. Owners must still release their
 * objects on it. */
void rdma_lose_device(struct rdma *rdma, uint32_t device_index);
/* Frees everything and abandons verbs in progress. NULL is ignored. */
void rdma_close(struct rdma *rdma);

/* Finds the slot of `port` that holds this GID and type *now*. Queries the device, because slots
 * move. Returns 0 and the index, ENODATA if there is none, or the errno of query_port. */
int rdma_find_gid(struct rdma *rdma, const struct rdma_port *port,
                  const union ibv_gid *gid, enum ibv_gid_type type, uint32_t *out_index);

/* Returns true if the slot holds another GID or type *now*. Returns false if it is empty. */
bool rdma_gid_is_anothers(const struct rdma_port *port, uint32_t index,
                          const union ibv_gid *gid, enum ibv_gid_type type);

/* Returns the entry of this GID and type as of the last refresh, or NULL. */
const struct rdma_gid *rdma_port_gid(const struct rdma_port *port,
                                     const union ibv_gid *gid, enum ibv_gid_type type);

/* Returns true if the netdev is the port's own, or a VLAN or bond that has one of its GIDs. A bond
 * has those of the port that is in use. */
bool rdma_port_has_netdev(const struct rdma_port *port, const struct io_netdev *netdev);

/* Returns the index of the first device on the same card. PCI paths of devices on one card differ
 * only in the function digit. A device without a PCI path is a card of its own. NCCL merges the
 * ports of one card (ncclIbMakeVDevice, NCCL_NET_MERGE_LEVEL=PORT). */
uint32_t rdma_nic(const struct rdma *rdma, uint32_t device_index);

/* Starts a destroy verb and ignores its result. For objects whose owner is being freed and can no
 * longer handle an error. A verb that fails at once with EAGAIN, EINTR or ENOMEM is tried once
 * more. */
void rdma_forget_op(struct io_device *device, const struct io_op *filled);

/* Convert between enum ibv_mtu and bytes (256 to 4096). Return 0 for any other value. */
uint32_t rdma_mtu_bytes(enum ibv_mtu mtu);
enum ibv_mtu rdma_mtu_enum(uint32_t bytes);

/* Formats a GID as an IP address, such as "192.168.101.1". Returns `out`. */
char *rdma_gid_format(const union ibv_gid *gid, char *out, size_t out_bytes);
/* Returns "IB", "RoCE v1" or "RoCE v2", or "?" if unknown. */
const char *rdma_gid_type_name(enum ibv_gid_type type);

#endif
