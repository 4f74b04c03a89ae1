/* RDMA devices of a host: operations in the shape of verbs, on the types of libibverbs.
 *
 * Errors: every operation returns 0 or a positive errno, never -1, and returns objects through
 * out-parameters; src/rdma translates errno to weft errors.
 *
 * Objects are libibverbs' own structs (ibv_pd, ibv_mr, ibv_cq, ibv_qp), of which users read only
 * the documented fields: mr->lkey, mr->rkey, mr->addr, mr->length, cq->cqe, qp->qp_num,
 * qp->qp_type. The backend owns them from create to destroy.
 *
 * Threads: a device and all its objects are used by one thread at a time. */
#ifndef WEFT_IO_VERBS_H
#define WEFT_IO_VERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "io/addr.h"
#include "io/loop.h"

/* Attributes of ibv_query_device, and facts that it does not report. */
struct io_device_attr {
    struct ibv_device_attr ibv; /* ibv_query_device(3) */
    /* Maximum that create_qp grants; 0 if inline is not supported. */
    uint32_t max_inline_bytes;
    uint32_t max_msg_bytes; /* maximum message size: ibv_port_attr.max_msg_sz */
    uint8_t retry_cnt_max;  /* largest finite retry_cnt: 7, on rxe 6 */
    /* True if the device is software (rxe, soft) and cannot respond while its thread is
     * descheduled; both ends of its connections then use longer timeouts. Always false in simulated
     * time. */
    bool may_stall;
    /* bytes of a WRITE land in order (ibv_query_qp_data_in_order) */
    bool writes_in_order;
    bool has_dmabuf; /* ibv_reg_dmabuf_mr works */
    /* GPU memory can be registered by its address (nvidia_peermem). */
    bool has_peer_memory;
    bool flush_on_poll; /* flush completions appear only while polling (hns HIP08) */
    /* GENERAL_ERR says nothing about the WR, and the QP stays usable (hns) */
    bool general_err_is_harmless;
    const char *profile; /* "mlx5", "rxe", "hns-hip08", ...; "unknown" if unknown */
};

/* One slot of the GID table, with the facts of ibv_query_gid_ex(3). */
struct io_gid_entry {
    union ibv_gid gid;
    enum ibv_gid_type type; /* IBV_GID_TYPE_ROCE_V1 or _V2 */
    uint32_t index;
    uint32_t ifindex; /* netdev that owns it; 0 if none */
};

enum io_op_kind {
    IO_OP_NONE,
    IO_OP_ALLOC_PD,
    IO_OP_DEALLOC_PD,
    IO_OP_REG_MR,
    IO_OP_DEREG_MR,
    IO_OP_CREATE_CQ,
    IO_OP_DESTROY_CQ,
    IO_OP_CREATE_QP,
    IO_OP_MODIFY_QP,
    IO_OP_DESTROY_QP
};

enum io_op_state {
    IO_OP_IDLE,    /* not submitted, rejected or abandoned */
    IO_OP_RUNNING, /* submitted; waiting for the device */
    IO_OP_DONE     /* completed; `error` is valid */
};

/* A verb that can block for seconds on real hardware (modify to RTR resolves the neighbour). Owned
 * by the caller, at a stable address from submit until poll reports that it is done or abandon is
 * called. Set `kind` and its member of `arg`, zero the rest, submit, and poll when `task` is woken.
 * Pointers in `arg` must be valid only until submit returns. */
struct io_op {
    enum io_op_kind kind;
    enum io_op_state state; /* set by the backend from submit on */
    int error;              /* positive errno or 0, once DONE */
    struct io_task *task;   /* woken when it is done; Not owned; may be NULL */
    union {
        struct ibv_pd *dealloc_pd;
        struct {
            struct ibv_pd *pd;
            void *addr;
            size_t length;
            int access; /* IBV_ACCESS_* */
            /* GPU memory behind a dma-buf, from `dmabuf_offset` on. Work requests name it by
             * `addr`, which the CPU does not access (ibv_reg_dmabuf_mr(3)). EOPNOTSUPP without
             * has_dmabuf. */
            bool is_dmabuf;
            int dmabuf_fd;
            uint64_t dmabuf_offset;
        } reg_mr;
        struct ibv_mr *dereg_mr;
        struct {
            int cqe;
            /* Woken by completions of this CQ while it is armed, until its destruction is
             * submitted, even if that fails. */
            struct io_task *task;
        } create_cq;
        struct ibv_cq *destroy_cq;
        struct {
            struct ibv_pd *pd;
            /* The granted caps are written back into it when done. */
            struct ibv_qp_init_attr init;
        } create_qp;
        struct {
            struct ibv_qp *qp;
            struct ibv_qp_attr attr;
            int mask; /* IBV_QP_* */
        } modify_qp;
        struct ibv_qp *destroy_qp;
    } arg;
    union { /* the created object, valid when DONE with error 0; the caller destroys it */
        struct ibv_pd *pd;
        struct ibv_mr *mr;
        struct ibv_cq *cq;
        struct ibv_qp *qp;
    } out;
    void *backend[4]; /* private to the backend while RUNNING */
};

/* An async event (ibv_get_async_event(3)). It is delivered once; taking it acknowledges it. */
struct io_async_event {
    enum ibv_event_type type;
    struct ibv_qp *qp; /* NULL if not a QP event */
    struct ibv_cq *cq; /* NULL if not CQ_ERR */
    uint8_t port;      /* 0 if not a port or GID event */
};

/* Counters of one port since it was created: RoCE packets only, unless stated otherwise. A counter
 * that the device does not have is IO_UNKNOWN (io/hostinfo.h). */
struct io_port_counters {
    /* Packets on the wire, including those dropped later. A device behind the IP stack counts as
     * received only packets that the stack did not drop. */
    int64_t tx_packets, rx_packets;
    int64_t retransmits;        /* packets retransmitted */
    int64_t timeouts;           /* expired waits for an acknowledgement */
    int64_t out_of_sequence;    /* packets received after a gap */
    int64_t rnr_naks_sent;      /* "receiver not ready" */
    int64_t icrc_errors;        /* received with a wrong ICRC */
    int64_t rx_unclaimed;       /* received for no queue pair that could accept them */
    int64_t rx_filtered_source; /* dropped by the IP stack's reverse path filter */
    int64_t rx_filtered_port;   /* dropped by its firewall (software devices only) */
    int64_t rx_oversize;        /* dropped because longer than the netdev's MTU */
    /* Frames of any kind dropped at the port's own queue: because it was full, or by another rule
     * of a Linux qdisc. */
    int64_t tx_queue_drops;
    int64_t rx_pauses;     /* times that the link partner paused this port */
    int64_t rx_pause_ns;   /* time that these pauses kept the port from sending */
    int64_t rx_frames;     /* received by the netdev, of any protocol, damaged or not */
    int64_t rx_duplicates; /* requests received again */
    int64_t tx_frames; /* sent by the netdev, of any protocol, without tx_queue_drops */
};

struct io_device;

struct io_device_ops {
    /* Returns at once, from cached or kernel state. */
    int (*query_device)(struct io_device *device, struct io_device_attr *out);
    /* `port` is numbered from 1. EINVAL if there is no such port. */
    int (*query_port)(struct io_device *device, uint8_t port, struct ibv_port_attr *out);
    /* Returns ENODATA for an empty slot, EINVAL beyond gid_tbl_len. */
    int (*query_gid)(struct io_device *device, uint8_t port, uint32_t index,
                     struct io_gid_entry *out);
    /* Returns the ifindex (as in hostinfo) of the netdev behind a port; 0 if none. */
    int (*port_netdev)(struct io_device *device, uint8_t port, uint32_t *out_ifindex);
    /* A counter that several ports share is unknown. May be NULL if no counter is known. */
    int (*port_counters)(struct io_device *device, uint8_t port,
                         struct io_port_counters *out);

    /* Starts op->kind. Returns 0 if op is RUNNING or already DONE (with op->error), or an errno if
     * it was rejected at once and op is IDLE. */
    int (*submit)(struct io_device *device, struct io_op *op);
    /* Returns EINPROGRESS while RUNNING, otherwise op->error, and op is DONE. */
    int (*poll)(struct io_device *device, struct io_op *op);
    /* Abandons a RUNNING op: the backend completes it in the background and undoes it (a created
     * object is destroyed). `op` can be reused on return. Does nothing unless RUNNING. */
    void (*abandon)(struct io_device *device, struct io_op *op);

    /* The data path: ibv_post_send(3), ibv_post_recv(3), ibv_poll_cq(3). */
    int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
    int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
    /* Writes `*out_n` completions to wc[0..n). EIO if the CQ overran. */
    int (*poll_cq)(struct ibv_cq *cq, int n_max, struct ibv_wc *wc, int *out_n);
    /* Arms `cq`: the next completion wakes its task once. Poll again after arming, because a
     * completion that arrived before raises no event. */
    int (*req_notify)(struct ibv_cq *cq, int solicited_only);

    /* Takes the next event. Returns EAGAIN if there is none. The device's `async_task` is woken
     * when one arrives. */
    int (*async_event)(struct io_device *device, struct io_async_event *out);
};

/* Maximum number of ports of a device, so that a uint8_t can count past the last. */
#define IO_PORTS_MAX 254u

/* One RDMA device of one host. Owned by the environment, and valid as long as it. */
struct io_device {
    const struct io_device_ops *ops;
    char name[32];              /* "mlx5_0"; in a scenario the port's name, "p0" */
    char pci_path[64];          /* sysfs path of the PCI function, or "" */
    uint64_t guid;              /* node GUID in host byte order; distinct per function */
    uint8_t n_ports;            /* ports are 1..n_ports; at most IO_PORTS_MAX */
    struct io_task *async_task; /* set by the user; Not owned; may be NULL */
};

/* Return names as in the manual pages: static text, "?" for values out of range. */
const char *io_op_kind_name(enum io_op_kind kind);     /* "modify_qp" */
const char *io_wc_status_name(int wc_status);          /* "RETRY_EXC_ERR" */
const char *io_wr_opcode_name(int wr_opcode);          /* "RDMA_WRITE_WITH_IMM" */
const char *io_wc_opcode_name(int wc_opcode);          /* "RDMA_WRITE" */
const char *io_qp_state_name(enum ibv_qp_state state); /* "RTR" */

#endif
