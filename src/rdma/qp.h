/* State machine of one RC queue pair (QP): create, INIT, RTR once the peer is known, RTS, then ERR
 * and destruction. No function blocks. */
#ifndef WEFT_RDMA_QP_H
#define WEFT_RDMA_QP_H

#include "io/verbs.h"
#include "rdma/rdma.h"

enum rdma_qp_state {
    RDMA_QP_NEW,      /* initialized; waits for rdma_qp_progress */
    RDMA_QP_CREATING, /* waits for create_qp */
    /* Leaves RTR because its GID slot holds another GID. Waits for modify_qp to RESET. */
    RDMA_QP_TO_RESET,
    RDMA_QP_TO_INIT,    /* waits for modify_qp to INIT */
    RDMA_QP_INIT,       /* receives may be posted; waits for rdma_qp_connect */
    RDMA_QP_TO_RTR,     /* waits for modify_qp to RTR, which resolves the neighbour */
    RDMA_QP_TO_RTS,     /* waits for modify_qp to RTS */
    RDMA_QP_RTS,        /* connected; waits for rdma_qp_to_error or rdma_qp_close */
    RDMA_QP_TO_ERR,     /* waits for modify_qp to ERR */
    RDMA_QP_ERR,        /* flushing, completions still arrive; waits for rdma_qp_close */
    RDMA_QP_DESTROYING, /* waits for destroy_qp */
    RDMA_QP_GONE,       /* destroyed, abandoned or never created; final */
    RDMA_QP_FAILED      /* a verb failed; waits for rdma_qp_close */
};

struct rdma_qp_config {
    const struct rdma_port *port; /* Not owned; valid until the QP is GONE */
    union ibv_gid gid;            /* local GID; its slot is looked up by value and type */
    enum ibv_gid_type gid_type;
    /* Do not look the GID up, but use slot kept_index, whatever it holds now. */
    bool keeps_index;
    uint32_t kept_index;
    struct ibv_cq *cq; /* for both queues; Not owned */
    /* Requested values, lowered to what the device supports. */
    uint32_t max_send_wr, max_recv_wr, max_inline_bytes;
    bool max_inline_is_raw; /* do not lower max_inline_bytes */
    uint8_t max_rd_atomic;  /* for both directions, before negotiation */
    uint32_t psn;      /* 24 bits, random: PSN of the first packet that this end sends */
    uint8_t timeout;   /* ACK timeout 4.096 us * 2^timeout; 0 if infinite */
    uint8_t retry_cnt; /* lowered to io_device_attr.retry_cnt_max */
    bool retry_cnt_is_raw; /* do not lower it, as programs that do not know that limit */
    uint8_t rnr_retry;
    uint8_t min_rnr_timer;
    uint8_t traffic_class;
};

/* Values received from the peer, and those agreed on with it. */
struct rdma_qp_remote {
    uint32_t qpn; /* 24 bits */
    uint32_t psn; /* 24 bits: PSN of the first packet that the peer sends */
    union ibv_gid gid;
    enum ibv_gid_type gid_type;
    uint32_t path_mtu;     /* bytes */
    uint8_t max_rd_atomic; /* the lesser of both ends */
};

struct rdma_qp {
    enum rdma_qp_state state;
    struct rdma *rdma; /* Not owned. */
    struct rdma_qp_config config;
    struct rdma_qp_remote remote; /* valid from TO_RTR on */
    struct ibv_qp *qp;            /* NULL until it is created, and once it is GONE */
    uint32_t qpn; /* QP number, kept after destruction; 0 if it was never created */
    struct ibv_qp_cap cap; /* granted by the device */
    bool has_sgid_index;
    uint32_t sgid_index;   /* GID slot used for RTR; valid if has_sgid_index */
    uint32_t n_reselected; /* times that the GID had moved and was looked up again */
    bool is_again;         /* returning to RTR after a RESET, with the same remote */
    /* True after a RESET, which drops all posted receives. The owner clears it when it posts them
     * again. */
    bool has_lost_receives;
    bool wants_error, wants_close; /* requested; done between two verbs */
    int failure;                   /* errno that led to FAILED */
    struct io_op op;
    struct io_task *task; /* Not owned. */
    char label[48];       /* "titanic:p0 qp 17" for errors */
};

/* Returns the state's name in the event log, such as "to_rtr": static text. */
const char *rdma_qp_state_name(enum rdma_qp_state state);

/* Initializes a QP in place. No verb starts before the first rdma_qp_progress. `task` is woken when
 * a verb completes. */
void rdma_qp_init(struct rdma_qp *qp, struct rdma *rdma,
                  const struct rdma_qp_config *config, struct io_task *task);
/* Sets the peer. The state must be INIT. The next rdma_qp_progress starts the step to RTR. */
void rdma_qp_connect(struct rdma_qp *qp, const struct rdma_qp_remote *remote);
/* Does the next steps. Returns WEFT_OK in INIT (no peer yet), RTS, ERR or GONE, and WEFT_AGAIN
 * while a verb is in progress. If a verb fails, enters FAILED and returns an error with its errno
 * and phase: "create", "init", "rtr", "rts", "err" or "destroy". Its values are those known of both
 * ends: local_port, local_gid, local_gid_type, local_prefix_len, local_qpn, sgid_index, remote_gid,
 * remote_gid_type, remote_qpn, path_mtu. Later calls fail in phase "qp" with the same errno.
 *
 * A GID that moves during the step to RTR is looked up once more. This happens after ENODATA if its
 * slot was empty, and after a RESET if its slot held another GID. */
weft_status rdma_qp_progress(struct rdma_qp *qp,
                             struct weft_error *error) WEFT_MUST_CHECK;
/* Makes the QP enter ERR, so that its work requests flush. A QP before INIT enters that first.
 * No-op in NEW, TO_ERR, ERR, DESTROYING, GONE and FAILED. */
void rdma_qp_to_error(struct rdma_qp *qp);
/* Makes the QP be destroyed, from any state. Call rdma_qp_progress until GONE, or
 * rdma_qp_abandon. */
void rdma_qp_close(struct rdma_qp *qp);
/* Enters GONE at once, from any state. The backend completes the verb in progress and destroys the
 * QP in the background. */
void rdma_qp_abandon(struct rdma_qp *qp);

#endif
