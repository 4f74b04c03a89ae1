/* What one kind of RDMA device is like: capabilities, quirks, and how long it takes.
 *
 * Profiles are constant data, one file each in sim/profiles/. A scenario copies one and may
 * override any field by its name. Sources are given beside each number there; "chosen" marks
 * a number of ours where no public source was found. */
#ifndef WEFT_SIM_PROFILE_H
#define WEFT_SIM_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Which completion status and NAK answer the faults on which providers differ. */
enum sim_dialect {
    SIM_DIALECT_IBTA, /* IBA spec, mlx5, hns: too long a SEND is LOC_LEN and NAK 0x61 */
    SIM_DIALECT_RXE /* Linux rxe_resp.c: LOC_QP_OP and NAK 0x63; bad send lkey LOC_QP_OP */
};

enum sim_qpn_reuse {
    SIM_QPN_IMMEDIATE, /* the lowest free number: stale packets may meet a new QP */
    SIM_QPN_CYCLIC     /* a cursor that wraps, as hns_roce_qp.c does per bank */
};

/* Whose objects `weft show --nic` tells of. */
enum sim_objects {
    SIM_OBJECTS_NONE, /* a device of ours: there is no driver to tell of */
    SIM_OBJECTS_MLX5,
    SIM_OBJECTS_HNS,
    SIM_OBJECTS_RXE
};

struct sim_profile {
    const char *name; /* "mlx5" */
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
    uint32_t max_res_rd_atom;     /* in all */
    uint32_t atomic_cap;          /* enum ibv_atomic_cap */
    uint32_t max_srq_wr;          /* of a shared receive queue; 0: there are none */
    uint32_t max_srq_sge;         /* of each of them */
    uint32_t max_pkeys;           /* P_Key table length */
    uint32_t local_ca_ack_delay;  /* 4.096 us * 2^n */

    /* Ports, GIDs, paths. */
    uint32_t n_ports;     /* ports of one device */
    uint32_t gid_tbl_len; /* slots of a port's GID table */
    bool has_roce_v1;     /* each address gets a v1 slot before its v2 slot */
    /* the first slots of a port's table are of other network namespaces, as in a container: they
     * cannot be read (EINVAL), and this host's own come after them */
    uint32_t foreign_gids;
    bool in_ip_stack;  /* packets come in through the host's: rp_filter, firewall */
    bool gids_by_scan; /* made when the addresses are there: IPv4 before IPv6; else the
                        * addresses come one by one to the device */
    /* active_mtu is the largest IB MTU <= netdev MTU - this */
    uint32_t mtu_overhead_bytes;
    uint32_t max_mtu_bytes; /* largest path MTU: 4096 */
    uint32_t max_msg_bytes; /* longest message (ibv_port_attr.max_msg_sz) */

    /* Queues. */
    uint32_t max_inline_bytes; /* most that create_qp grants */
    bool inline_lowered;       /* asking more is granted less, not refused (hns) */
    bool empty_sq_refused;     /* max_send_wr 0 at create_qp: EINVAL (hns) */
    bool wr_rounded_to_pow2;   /* granted queue depths are powers of two */
    uint32_t min_wr;           /* least granted depth of a queue */
    bool cqe_rounded_to_pow2;  /* granted CQ depths are powers of two */
    uint32_t min_cqe;          /* least granted CQ depth */
    uint32_t cqe_reserved;     /* of a rounded CQ the device keeps so many (mlx5 cq.c) */
    uint32_t cqe_bytes;        /* of one entry in the CQ's buffer */
    /* of each receive WR, granted are a power of two less these (hns_roce_qp.c); 0 with
     * recv_sge_rounded false: as asked */
    uint32_t recv_sge_reserved;
    bool recv_sge_rounded;

    /* Behaviour. */
    enum sim_dialect dialect;
    enum sim_qpn_reuse qpn_reuse;
    /* Numbers are id * banks + bank, of the least loaded bank; 1..8, a power of two. A QP
     * takes a bank of those tied to its send CQ's (hns_roce_qp.c). */
    uint32_t qpn_banks, cqn_banks;
    /* QPs are numbered from so many on, and a little more that is drawn for each device: NICs
     * that have been up for long hand out numbers of more than 16 bits */
    uint32_t first_qpn;
    uint32_t first_number;       /* of PDs, and of CQs in each bank */
    bool retry_cnt_7_is_endless; /* rxe_comp.c: decrements only if it is not 7 */
    bool has_sqd;                /* SQD exists; else modify to it is EINVAL (hns) */
    bool post_check_strict;      /* post_send before RTS and post_recv in RESET: EINVAL */
    bool flush_on_poll; /* flush CQEs come only after an error CQE is polled (HIP08) */
    /* used whatever modify_qp says; 0: the caller's (HIP08: 1) */
    uint32_t min_rnr_timer_forced;
    /* larger modify_qp timeouts are ignored (HIP08: 20) or refused */
    uint32_t timeout_max;
    bool timeout_beyond_ignored; /* larger timeouts: ignored with success, else EINVAL */
    bool cur_state_checked;    /* a CUR_STATE that is not the real state: EINVAL (hns) */
    bool mig_req;              /* BTH.MigReq of what it sends */
    bool sport_is_symmetric;   /* UDP source port of qpn * qpn; else of the own qpn */
    bool raises_access_events; /* QP_REQ_ERR and QP_ACCESS_ERR at the responder */
    bool writes_in_order;      /* ibv_query_qp_data_in_order */
    bool has_dmabuf;           /* ibv_reg_dmabuf_mr */
    bool cqes_purged;         /* at RESET and destroy unpolled completions of the QP go */
    bool has_ece;             /* ibv_query_ece */
    uint32_t ece_options;     /* those that the device can accept; opaque bits */
    bool rd_atomic_rounded;   /* max_(dest_)rd_atomic are kept as powers of two */
    bool rd_atomic_zero_kept; /* 0 of them leaves what was there (hns) */
    /* a deleted GID stops traffic at once (rxe_recv.c), else the QP keeps it, as
     * cache.c keeps entries in use */
    bool gid_checked_per_packet;
    uint32_t window_packets;    /* unacknowledged PSNs before the requester stops */
    uint32_t ack_req_packets;   /* AckReq at least every this many packets */
    bool path_mtu_needs_active; /* a path_mtu above active_mtu: EINVAL (hns) */
    bool ipv4_id_rises; /* each packet has the next IPv4 id (rxe); else all have 0 */

    /* Ways of soft-RoCE, as an endpoint on its wire saw them (Linux 7.2.13). */
    bool
        acks_are_single; /* one ACK for each AckReq and each duplicate, none for several */
    bool nak_waits_for_ack; /* of NAKs, only the first since the last ACK is heeded */
    bool
        ghost_ack_completes; /* an ACK beyond all that was sent completes what was sent */
    bool read_gap_waits; /* a gap in READ responses waits for the timer: no implied NAK */
    bool read_tail_is_middle; /* the rest of a READ asked again starts as MIDDLE */
    bool excess_reads_served; /* READs beyond max_dest_rd_atomic wait for their turn */
    /* before every nth signalled send completion comes one with GENERAL_ERR, which means
     * nothing: the QP lives and the WR completes (hns CQE status 0x23); 0: never */
    uint32_t general_err_nth;
    bool general_err_is_harmless; /* such a status is no reason to give up the QP */

    /* Time on the data path. */
    weft_ps tx_overhead_ps;  /* doorbell to the first bit of an idle send queue */
    weft_ps rx_overhead_ps;  /* last bit of a packet to its execution */
    weft_ps cqe_overhead_ps; /* execution or acknowledgement to a visible CQE */
    weft_ps ack_delay_ps;    /* execution of a packet to the first bit of its answer */
    /* without writes_in_order each piece of a WRITE lands up to so much later */
    weft_ps write_spread_ps;
    /* what is written to memory of a GPU is seen there so much later, unless the NIC reads or
     * the CPU fences before; 0: at once */
    weft_ps gpu_visibility_ps;

    /* Time of control verbs. */
    weft_ps alloc_pd_ps;
    weft_ps dealloc_pd_ps;
    weft_ps reg_mr_ps;      /* of the first page */
    weft_ps reg_mr_page_ps; /* of each page of 4 KiB */
    weft_ps dereg_mr_ps;
    weft_ps create_cq_ps;
    weft_ps destroy_cq_ps;
    weft_ps create_qp_ps;
    weft_ps modify_qp_ps; /* without address resolution */
    weft_ps destroy_qp_ps;
    bool dereg_is_serialised; /* one dereg_mr after another (hns free_mr_mutex) */
    /* alloc_pd and create_qp only change memory of the host; all other control verbs are
     * commands to the device (hns: a QP's context is written at RESET to INIT) */
    bool create_qp_is_local;
    /* every nth command takes so much longer (hns_roce_cmd.c: 35 ms of busy waiting, or an
     * event of up to 10 s); 0: none does */
    uint32_t mailbox_stall_nth;
    weft_ps mailbox_stall_ps;
    /* the driver gives a stalled command up: EBUSY; what undoes succeeds; 0: it waits */
    weft_ps mailbox_limit_ps;
};

/* The built-in profile `name`, or NULL: mlx5, hns-hip08, hns-hip09, rxe, synth2port,
 * minimal. */
const struct sim_profile *sim_profile_find(const char *name);
/* The `index`th built-in profile, or NULL past the last. */
const struct sim_profile *sim_profile_at(unsigned index);

/* Sets the field called `field` (times without their "_ps": `create_qp: 40us`; sizes without
 * "_bytes": `max_inline: 64`; the full names work too) from text in a scenario's units.
 * False, with nothing changed, if there is no such field or `value` does not suit it. */
bool sim_profile_override(struct sim_profile *profile, const char *field,
                          const char *value);
/* The name of the `index`th field that can be overridden, or NULL past the last. */
const char *sim_profile_field(unsigned index);

#endif
