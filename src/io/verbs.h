/* RDMA as one host is given it: verbs-shaped operations over the types of libibverbs.
 *
 * Errors: every operation returns 0 or a positive errno, never -1, and gives objects
 * through out-parameters; src/rdma turns errno into weft errors once.
 *
 * Objects are libibverbs' own structs (ibv_pd, ibv_mr, ibv_cq, ibv_qp), of which users
 * read only the documented fields: mr->lkey, mr->rkey, mr->addr, mr->length, cq->cqe,
 * qp->qp_num, qp->qp_type. They belong to the backend between create and destroy.
 *
 * Threads: a device and all its objects are used from one thread at a time. */
#ifndef WEFT_IO_VERBS_H
#define WEFT_IO_VERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "io/addr.h"
#include "io/loop.h"

/* What ibv_query_device tells, and the facts that it does not. */
struct io_device_attr {
    struct ibv_device_attr ibv; /* ibv_query_device(3) */
    uint32_t max_inline_bytes;  /* the most create_qp grants; 0: no inline */
    uint32_t max_msg_bytes;     /* longest message: ibv_port_attr.max_msg_sz */
    uint8_t retry_cnt_max;      /* largest retry_cnt that is finite: 7, on rxe 6 */
    /* Software that waits for a processor answers nobody meanwhile: its peers, and it, too, are
     * to be more patient than with a NIC. Never where time is simulated. */
    bool may_stall;
    /* bytes of a WRITE land in order (ibv_query_qp_data_in_order) */
    bool writes_in_order;
    bool has_dmabuf; /* ibv_reg_dmabuf_mr works */
    /* GPU memory can be registered by its address, nvidia_peermem(7). */
    bool has_peer_memory;
    bool flush_on_poll; /* flush completions appear only while polling (hns HIP08) */
    /* a completion with GENERAL_ERR says nothing about its WR, and the QP lives (hns) */
    bool general_err_is_harmless;
    const char *profile; /* "mlx5", "rxe", "hns-hip08", ...; "unknown" if not told */
};

/* One slot of the GID table, with ibv_query_gid_ex(3)'s facts. */
struct io_gid_entry {
    union ibv_gid gid;
    enum ibv_gid_type type; /* IBV_GID_TYPE_ROCE_V1 or _V2 */
    uint32_t index;
    uint32_t ifindex; /* the netdev that owns it; 0: none */
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

enum io_op_state { IO_OP_IDLE, IO_OP_RUNNING, IO_OP_DONE };

/* A verb that may stall for seconds on real hardware (modify to RTR resolves the
 * neighbour). Owned by the caller, at a stable address from submit until poll says it
 * is done or abandon was called. Fill `kind` and the member of `arg` for it, zero the
 * rest, submit, and poll when `task` is woken. Pointers in `arg` need to live only
 * until submit returns. */
struct io_op {
    enum io_op_kind kind;
    enum io_op_state state; /* the backend's from submit on */
    int error;              /* positive errno or 0, once DONE */
    struct io_task *task;   /* woken when it is done; Not owned; may be NULL */
    union {
        struct ibv_pd *dealloc_pd;
        struct {
            struct ibv_pd *pd;
            void *addr;
            size_t length;
            int access; /* IBV_ACCESS_* */
            /* Memory of a GPU behind a descriptor, from `dmabuf_offset` on, known to work
             * requests by `addr`, which nobody here touches: ibv_reg_dmabuf_mr(3). Where
             * !has_dmabuf: EOPNOTSUPP. */
            bool is_dmabuf;
            int dmabuf_fd;
            uint64_t dmabuf_offset;
        } reg_mr;
        struct ibv_mr *dereg_mr;
        struct {
            int cqe;
            /* woken by completions of this CQ while it is armed, until its destruction is
             * asked for, whatever comes of that */
            struct io_task *task;
        } create_cq;
        struct ibv_cq *destroy_cq;
        struct {
            struct ibv_pd *pd;
            /* granted caps are read back into it when done */
            struct ibv_qp_init_attr init;
        } create_qp;
        struct {
            struct ibv_qp *qp;
            struct ibv_qp_attr attr;
            int mask; /* IBV_QP_* */
        } modify_qp;
        struct ibv_qp *destroy_qp;
    } arg;
    union { /* the object made; valid when DONE with error 0; the caller's to destroy */
        struct ibv_pd *pd;
        struct ibv_mr *mr;
        struct ibv_cq *cq;
        struct ibv_qp *qp;
    } out;
    void *backend[4]; /* private to the backend while RUNNING */
};

/* An async event of ibv_get_async_event(3). Delivered once; taking it acknowledges it. */
struct io_async_event {
    enum ibv_event_type type;
    struct ibv_qp *qp; /* for QP events, else NULL */
    struct ibv_cq *cq; /* for CQ_ERR, else NULL */
    uint8_t port;      /* for port and GID events, else 0 */
};

/* What a port has counted since it was made: RoCE packets only, unless said otherwise. A
 * counter that the device does not have is IO_UNKNOWN (io/hostinfo.h). */
struct io_port_counters {
    /* On the wire, whatever came of them; a device behind the IP stack counts as received what
     * that let in. */
    int64_t tx_packets, rx_packets;
    int64_t retransmits;        /* packets sent again */
    int64_t timeouts;           /* of waiting for an acknowledgement */
    int64_t out_of_sequence;    /* packets that came after a gap */
    int64_t rnr_naks_sent;      /* "receiver not ready" */
    int64_t icrc_errors;        /* arrived damaged */
    int64_t rx_unclaimed;       /* belonged to no queue pair that could take them */
    int64_t rx_filtered_source; /* the IP stack's reverse path filter refused them ... */
    int64_t rx_filtered_port;   /* ... or its firewall: devices made of software only */
    int64_t rx_oversize;        /* longer than the netdev's MTU: dropped */
    int64_t tx_queue_drops;     /* frames of any kind that found their queue full */
    int64_t rx_pauses;          /* times that the other end stopped this one */
};

struct io_device;

struct io_device_ops {
    /* Immediate, from cached or kernel state. */
    int (*query_device)(struct io_device *device, struct io_device_attr *out);
    /* `port` counts from 1. EINVAL if there is no such port. */
    int (*query_port)(struct io_device *device, uint8_t port, struct ibv_port_attr *out);
    /* ENODATA for an empty slot, EINVAL beyond gid_tbl_len. */
    int (*query_gid)(struct io_device *device, uint8_t port, uint32_t index,
                     struct io_gid_entry *out);
    /* The netdev behind a port: its ifindex in hostinfo; 0 if none. */
    int (*port_netdev)(struct io_device *device, uint8_t port, uint32_t *out_ifindex);
    /* Where several ports share a counter, it is unknown. May be NULL: none is known. */
    int (*port_counters)(struct io_device *device, uint8_t port,
                         struct io_port_counters *out);

    /* Starts op->kind. 0: op is RUNNING or already DONE (with op->error). An errno:
     * refused at once, op is IDLE. */
    int (*submit)(struct io_device *device, struct io_op *op);
    /* EINPROGRESS while RUNNING; else op->error, and op is DONE. */
    int (*poll)(struct io_device *device, struct io_op *op);
    /* Gives up a RUNNING op: the backend finishes it behind the scenes and undoes it
     * (an object made is destroyed). `op` is free for reuse on return. No-op unless
     * RUNNING. */
    void (*abandon)(struct io_device *device, struct io_op *op);

    /* The data path: ibv_post_send(3), ibv_post_recv(3), ibv_poll_cq(3). */
    int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
    int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
    /* `*out_n` completions were written to wc[0..n). EIO: the CQ overran. */
    int (*poll_cq)(struct ibv_cq *cq, int n_max, struct ibv_wc *wc, int *out_n);
    /* Arms `cq`: the next completion wakes its task once. Poll again after arming. */
    int (*req_notify)(struct ibv_cq *cq, int solicited_only);

    /* EAGAIN if there is none. The device's `async_task` is woken when one comes. */
    int (*async_event)(struct io_device *device, struct io_async_event *out);
};

/* One RDMA device of one host. Belongs to the environment; lives as long as it. */
struct io_device {
    const struct io_device_ops *ops;
    char name[32];              /* "mlx5_0"; in a scenario the port's name, "p0" */
    char pci_path[64];          /* sysfs path of the function, or "" */
    uint64_t guid;              /* node GUID, host order; distinct per function */
    uint8_t n_ports;            /* ports are 1..n_ports */
    struct io_task *async_task; /* set by the user; Not owned; may be NULL */
};

/* Names as the manuals print them: static text, "?" for values out of range. */
const char *io_op_kind_name(enum io_op_kind kind);     /* "modify_qp" */
const char *io_wc_status_name(int wc_status);          /* "RETRY_EXC_ERR" */
const char *io_wr_opcode_name(int wr_opcode);          /* "RDMA_WRITE_WITH_IMM" */
const char *io_wc_opcode_name(int wc_opcode);          /* "RDMA_WRITE" */
const char *io_qp_state_name(enum ibv_qp_state state); /* "RTR" */

#endif
