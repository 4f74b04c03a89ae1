/* The life of one RC queue pair, step by step and never waiting: create -> INIT -> (the
 * peer is known) -> RTR -> RTS, and down to ERR and away. */
#ifndef WEFT_RDMA_QP_H
#define WEFT_RDMA_QP_H

#include "rdma/rdma.h"

enum rdma_qp_state {
    RDMA_QP_NEW, /* nothing exists */
    RDMA_QP_CREATING,
    RDMA_QP_TO_RESET, /* from RTR: it has another's GID, and begins again */
    RDMA_QP_TO_INIT,
    RDMA_QP_INIT, /* may be told its peer; receives may be posted */
    RDMA_QP_TO_RTR,
    RDMA_QP_TO_RTS,
    RDMA_QP_RTS, /* up */
    RDMA_QP_TO_ERR,
    RDMA_QP_ERR, /* flushing; completions still come */
    RDMA_QP_DESTROYING,
    RDMA_QP_GONE,
    RDMA_QP_FAILED /* a step failed; only close is left */
};

struct rdma_qp_config {
    const struct rdma_port *port; /* Not owned; outlives the QP */
    union ibv_gid gid;            /* local GID, found by value and type at every use */
    enum ibv_gid_type gid_type;
    bool keeps_index; /* ... unless its slot is kept from before, whatever is there now */
    uint32_t kept_index;
    struct ibv_cq *cq;                                   /* for both queues; Not owned */
    uint32_t max_send_wr, max_recv_wr, max_inline_bytes; /* wishes; lowered to the caps */
    bool max_inline_is_raw; /* the device is asked for more than it can, too */
    uint8_t max_rd_atomic;  /* both ways, before negotiation */
    uint32_t psn;           /* 24 bits, random: the first this end sends */
    uint8_t timeout;        /* 4.096 us * 2^timeout; 0: never */
    uint8_t retry_cnt;      /* lowered to io_device_attr.retry_cnt_max... */
    bool retry_cnt_is_raw; /* ...unless this is set, as programs do that do not know it */
    uint8_t rnr_retry;
    uint8_t min_rnr_timer;
    uint8_t traffic_class;
};

/* What the other end told. */
struct rdma_qp_remote {
    uint32_t qpn; /* 24 bits */
    uint32_t psn; /* 24 bits: the first the peer sends */
    union ibv_gid gid;
    enum ibv_gid_type gid_type;
    uint32_t path_mtu;     /* bytes: already the lesser of both ends */
    uint8_t max_rd_atomic; /* already the lesser of both ends */
};

struct rdma_qp {
    enum rdma_qp_state state;
    struct rdma *rdma; /* Not owned. */
    struct rdma_qp_config config;
    struct rdma_qp_remote remote; /* valid from TO_RTR on */
    struct ibv_qp *qp;            /* NULL before CREATING ended and after GONE */
    uint32_t qpn;                 /* its number, kept when it is gone; 0: never made */
    struct ibv_qp_cap cap;        /* what the device granted */
    bool has_sgid_index;
    uint32_t sgid_index;   /* as used at RTR */
    uint32_t n_reselected; /* times the GID had moved and was found again */
    bool is_again;         /* on its way to RTR once more, with the same remote */
    /* A reset took the receives that were posted; cleared by whoever posts them again. */
    bool has_lost_receives;
    bool wants_error, wants_close; /* asked for; done between two verbs */
    int failure;                   /* errno that led to FAILED */
    struct io_op op;
    struct io_task *task; /* Not owned. */
    char label[48];       /* "titanic:p0 qp 17" for errors */
};

/* "to_rtr": as in the story. Static text. */
const char *rdma_qp_state_name(enum rdma_qp_state state);

/* Starts a QP in place; nothing is done before the first rdma_qp_progress. */
void rdma_qp_init(struct rdma_qp *qp, struct rdma *rdma,
                  const struct rdma_qp_config *config, struct io_task *task);
/* Tells the peer; state must be INIT. */
void rdma_qp_connect(struct rdma_qp *qp, const struct rdma_qp_remote *remote);
/* Does the next step. WEFT_OK: at rest in INIT (no peer yet), RTS, ERR or GONE; AGAIN: a
 * verb is under way; an error: FAILED, with phase "create", "init", "rtr", "rts", errno
 * and both ends' values (local_port, local_gid, local_gid_type, sgid_index, remote_gid,
 * remote_qpn, path_mtu). A GID that moved while RTR was under way is looked up once more: after
 * ENODATA, for its slot was empty, or by way of RESET, for another GID was in it. */
weft_status rdma_qp_progress(struct rdma_qp *qp,
                             struct weft_error *error) WEFT_MUST_CHECK;
/* Moves a living QP to ERR so that its work requests flush. No-op in NEW, ERR, GONE,
 * FAILED. */
void rdma_qp_to_error(struct rdma_qp *qp);
/* Destroys from any state; progress until GONE, or call rdma_qp_abandon. */
void rdma_qp_close(struct rdma_qp *qp);
/* Gives everything up at once, without waiting: the backend finishes behind the scenes.
 */
void rdma_qp_abandon(struct rdma_qp *qp);

#endif
