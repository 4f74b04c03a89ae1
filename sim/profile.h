/* The properties of one kind of RDMA device: capabilities, quirks and times.
 *
 * Profiles are constant data, one file each in sim/profiles/. A scenario copies one and
 * can override fields by name. Sources stand beside each number there; "chosen" marks a
 * number for which no public source was found. */
#ifndef WEFT_SIM_PROFILE_H
#define WEFT_SIM_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/profile.h"
#include "base/status.h"

/* Completion statuses and NAK codes for faults that providers report differently. */
enum sim_dialect {
    /* IBA spec, mlx5, hns: a SEND that is too long is LOC_LEN and NAK 0x61 */
    SIM_DIALECT_IBTA,
    SIM_DIALECT_RXE /* Linux rxe_resp.c: LOC_QP_OP and NAK 0x63; bad send lkey LOC_QP_OP */
};

enum sim_qpn_reuse {
    SIM_QPN_IMMEDIATE, /* the lowest free number; stale packets can reach a new QP */
    SIM_QPN_CYCLIC     /* counts up and wraps, as hns_roce_qp.c does in each bank */
};

/* The driver model that `weft show --nic` uses. */
enum sim_objects {
    SIM_OBJECTS_NONE, /* an invented device, which has no driver */
    SIM_OBJECTS_MLX5,
    SIM_OBJECTS_HNS,
    SIM_OBJECTS_RXE
};

struct sim_profile {
    enum weft_profile id;
    enum sim_objects objects;

    /* ibv_query_device(3). */
    uint32_t vendor_id;           /* IEEE OUI */
    uint32_t vendor_part_id;      /* PCI device id */
    uint32_t hw_ver;              /* revision */
    uint64_t max_mr_size;         /* bytes */
    uint64_t page_size_cap;       /* bit mask of page sizes */
    uint32_t max_qp;              /* QPs per device */
    uint32_t max_qp_wr;           /* work requests per queue */
    uint32_t device_cap_flags;    /* IBV_DEVICE_* */
    uint32_t max_sge;             /* SGEs per WR */
    uint32_t max_sge_rd;          /* SGEs per READ */
    uint32_t max_cq;              /* CQs per device */
    uint32_t max_cqe;             /* entries per CQ */
    uint32_t max_mr;              /* MRs per device */
    uint32_t max_pd;              /* PDs per device */
    uint32_t max_qp_rd_atom;      /* incoming READs and atomics per QP */
    uint32_t max_qp_init_rd_atom; /* outgoing READs and atomics per QP */
    uint32_t max_res_rd_atom;     /* per device */
    uint32_t atomic_cap;          /* enum ibv_atomic_cap */
    uint32_t max_srq_wr;          /* receive WRs per SRQ; 0 if SRQs are not supported */
    uint32_t max_srq_sge;         /* SGEs per receive WR of an SRQ */
    uint32_t max_pkeys;           /* P_Key table length */
    uint32_t local_ca_ack_delay;  /* 4.096 us * 2^n */

    /* Ports, GIDs, paths. */
    uint32_t gid_tbl_len; /* slots of a port's GID table */
    bool has_roce_v1;     /* each address gets a v1 slot before its v2 slot */
    /* number of leading slots of a port's table that belong to other network namespaces,
     * as in a container; they cannot be read (EINVAL) */
    uint32_t foreign_gids;
    bool in_ip_stack; /* packets pass the host's IP stack first: rp_filter, firewall */
    /* the table is made when all addresses exist, IPv4 before IPv6; if false, addresses
     * are added one by one */
    bool gids_by_scan;
    /* active_mtu is the largest IB MTU that is at most the netdev's MTU minus this */
    uint32_t mtu_overhead_bytes;
    uint32_t max_mtu_bytes; /* largest path MTU: 4096 */
    uint32_t max_msg_bytes; /* longest message (ibv_port_attr.max_msg_sz) */

    /* Queues. */
    uint32_t max_inline_bytes; /* maximum that create_qp grants */
    bool inline_lowered;       /* a larger request is reduced instead of refused (hns) */
    bool empty_sq_refused;     /* create_qp with max_send_wr 0 fails with EINVAL (hns) */
    bool wr_rounded_to_pow2;   /* granted queue depths are powers of two */
    uint32_t min_wr;           /* minimum granted depth of a queue */
    bool cqe_rounded_to_pow2;  /* granted CQ depths are powers of two */
    uint32_t min_cqe;          /* minimum granted CQ depth */
    /* entries of a rounded CQ that the device keeps for itself (mlx5 cq.c) */
    uint32_t cqe_reserved;
    uint32_t cqe_bytes; /* size of one entry in the CQ's buffer */
    /* reserved SGEs of each receive WR; granted are a power of two minus these
     * (hns_roce_qp.c). With recv_sge_rounded false as many as requested are granted. */
    uint32_t recv_sge_reserved;
    bool recv_sge_rounded;

    /* Behaviour. */
    enum sim_dialect dialect;
    enum sim_qpn_reuse qpn_reuse;
    /* Numbers are id * banks + bank, of the least loaded bank; 1 to 8, a power of two. A
     * QP uses a bank that is tied to its send CQ's bank (hns_roce_qp.c). */
    uint32_t qpn_banks, cqn_banks;
    /* First QP number, plus a small random offset per device. NICs with a long uptime
     * hand out QP numbers above 65535. */
    uint32_t first_qpn;
    uint32_t first_number; /* first number of PDs, and of CQs in each bank */
    /* rxe_comp.c: the counter is decremented only if it is not 7 */
    bool retry_cnt_7_is_endless;
    /* SQD is supported; if not, modify to SQD fails with EINVAL (hns) */
    bool has_sqd;
    /* post_send before RTS and post_recv in RESET fail with EINVAL */
    bool post_check_strict;
    bool flush_on_poll; /* flush CQEs appear only after an error CQE was polled (HIP08) */
    /* replaces the value of modify_qp; 0 if it does not (HIP08: 1) */
    uint32_t min_rnr_timer_forced;
    /* largest accepted timeout of modify_qp (HIP08: 20) */
    uint32_t timeout_max;
    /* larger timeouts are ignored with success; if false, EINVAL */
    bool timeout_beyond_ignored;
    /* modify_qp with a wrong CUR_STATE fails with EINVAL (hns) */
    bool cur_state_checked;
    bool mig_req; /* BTH.MigReq of sent packets */
    /* UDP source port from both QPNs; if false, from the own QPN */
    bool sport_is_symmetric;
    bool raises_access_events; /* raises QP_REQ_ERR and QP_ACCESS_ERR at the responder */
    bool writes_in_order;      /* ibv_query_qp_data_in_order */
    bool has_dmabuf;           /* ibv_reg_dmabuf_mr */
    /* RESET and destroy remove unpolled completions of the QP */
    bool cqes_purged;
    bool has_ece;             /* ibv_query_ece */
    uint32_t ece_options;     /* options that the device can accept; opaque bits */
    bool rd_atomic_rounded;   /* max_(dest_)rd_atomic are rounded up to powers of two */
    bool rd_atomic_zero_kept; /* a value of 0 leaves them unchanged (hns) */
    /* a deleted GID stops traffic at once (rxe_recv.c); if false, the QP keeps it, as
     * cache.c keeps entries in use */
    bool gid_checked_per_packet;
    uint32_t window_packets;    /* maximum number of unacknowledged PSNs */
    uint32_t ack_req_packets;   /* maximum number of packets up to the next AckReq */
    bool path_mtu_needs_active; /* a path_mtu above active_mtu fails with EINVAL (hns) */
    bool ipv4_id_rises; /* each packet has the next IPv4 id (rxe); if false, all have 0 */

    /* Behaviour of soft-RoCE, as observed on the wire (Linux 7.2.13). */
    bool
        /* one ACK for each AckReq and each duplicate; ACKs are not coalesced */
        acks_are_single;
    bool nak_waits_for_ack; /* only the first NAK after an ACK is heeded */
    bool
        /* an ACK beyond all that was sent completes all that was sent */
        ghost_ack_completes;
    bool read_gap_waits; /* a gap in READ responses waits for the timer; no implied NAK */
    /* the rest of a READ that is requested again starts as MIDDLE */
    bool read_tail_is_middle;
    bool excess_reads_served; /* READs beyond max_dest_rd_atomic are queued */
    /* before every nth signalled send completion one with GENERAL_ERR is inserted, which
     * has no meaning: the QP continues and the WR completes (hns CQE status 0x23); 0 if
     * never */
    uint32_t general_err_nth;
    bool general_err_is_harmless; /* such a status is no reason to abandon the QP */

    /* Time on the data path. */
    weft_ps tx_overhead_ps;  /* doorbell to the first bit of an idle send queue */
    weft_ps rx_overhead_ps;  /* last bit of a packet to its execution */
    weft_ps cqe_overhead_ps; /* execution or acknowledgement to a visible CQE */
    weft_ps ack_delay_ps;    /* execution of a packet to the first bit of its reply */
    /* without writes_in_order, each piece of a WRITE lands up to this much later */
    weft_ps write_spread_ps;
    /* delay until a write to GPU memory is visible there, unless the NIC reads or the CPU
     * fences before; 0 if at once */
    weft_ps gpu_visibility_ps;

    /* Time of control verbs. */
    weft_ps alloc_pd_ps;
    weft_ps dealloc_pd_ps;
    weft_ps reg_mr_ps;      /* base time, without the pages */
    weft_ps reg_mr_page_ps; /* for each whole page of 4 KiB */
    weft_ps dereg_mr_ps;
    weft_ps create_cq_ps;
    weft_ps destroy_cq_ps;
    weft_ps create_qp_ps;
    weft_ps modify_qp_ps; /* without address resolution */
    weft_ps destroy_qp_ps;
    /* dereg_mr verbs run one after another (hns free_mr_mutex) */
    bool dereg_is_serialised;
    /* alloc_pd, dealloc_pd and create_qp only change host memory; all other control verbs
     * are commands to the device (hns: a QP's context is written at RESET to INIT) */
    bool create_qp_is_local;
    /* every nth command takes mailbox_stall_ps longer (hns_roce_cmd.c: 35 ms of busy
     * waiting, or an event of up to 10 s); 0 if none does */
    uint32_t mailbox_stall_nth;
    weft_ps mailbox_stall_ps;
    /* after this time the driver gives up a stalled command with EBUSY (verbs that
     * destroy succeed); 0 if it waits */
    weft_ps mailbox_limit_ps;
};

/* Returns the built-in profile. */
const struct sim_profile *sim_profile(enum weft_profile id);
/* Returns the built-in profile called `name`, or NULL. */
const struct sim_profile *sim_profile_find(const char *name);

/* Sets the field called `field` from text in a scenario's units. Times can be named
 * without "_ps" (`create_qp: 40us`), sizes without "_bytes" (`max_inline: 64`). Returns
 * false, with nothing changed, if there is no such field or `value` is invalid for it. */
bool sim_profile_override(struct sim_profile *profile, const char *field,
                          const char *value);
/* Returns the name of the `index`th field that can be overridden, or NULL past the
 * last. */
const char *sim_profile_field(unsigned index);

#endif
