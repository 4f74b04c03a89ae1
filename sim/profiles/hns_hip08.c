/* HiSilicon HIP08 (Linux 6.12 drivers/infiniband/hw/hns). Firmware may report other
 * capabilities per board; these are the driver's own defaults. */
#include <infiniband/verbs.h>

#include "sim/profiles/profiles.h"

const struct sim_profile sim_profile_hns_hip08 = {
    .id = WEFT_PROFILE_HNS_HIP08,
    .objects = SIM_OBJECTS_HNS,

    .vendor_id = 0x19e5,         /* Huawei */
    .vendor_part_id = 0xa222,    /* hns_roce_hw_v2.c, pci table */
    .hw_ver = 0x21,              /* PCI revision of HIP08 */
    .max_mr_size = UINT64_MAX,   /* hns_roce_main.c */
    .page_size_cap = 0xffff000u, /* hns_roce_main.c */
    .max_qp = 4096,              /* hns_roce_hw_v2.h */
    .max_qp_wr = 32768,          /* hns_roce_hw_v2.h */
    /* hns_roce_main.c */
    .device_cap_flags = IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_RC_RNR_NAK_GEN,
    .max_sge = 64,                 /* hns_roce_hw_v2.h */
    .max_sge_rd = 64,              /* hns_roce_hw_v2.h */
    .max_cq = 1048576,             /* hns_roce_hw_v2.h */
    .max_cqe = 4194304,            /* hns_roce_hw_v2.h */
    .max_mr = 1048576,             /* hns_roce_hw_v2.h */
    .max_pd = 2097152,             /* hns_roce_hw_v2.h */
    .max_qp_rd_atom = 128,         /* hns_roce_hw_v2.h */
    .max_qp_init_rd_atom = 128,    /* hns_roce_hw_v2.h */
    .max_res_rd_atom = 0,          /* not set by the driver */
    .atomic_cap = IBV_ATOMIC_NONE, /* without the capability bit */
    .max_srq_wr = 32768,           /* hns_roce_hw_v2.h */
    .max_srq_sge = 64,             /* hns_roce_hw_v2.h */
    .max_pkeys = 1,                /* hns_roce_main.c */
    .local_ca_ack_delay = 0,       /* hns_roce_hw_v2.h */

    .gid_tbl_len = 16,         /* hns_roce_hw_v2.c: shared by functions */
    .has_roce_v1 = true,       /* HNS_ROCE_CAP_FLAG_ROCE_V1_V2 */
    .foreign_gids = 0,         /* chosen: only where a scenario asks */
    .mtu_overhead_bytes = 96,  /* ib_addr.h, iboe_get_mtu */
    .max_mtu_bytes = 4096,     /* ib_addr.h */
    .max_msg_bytes = 1u << 31, /* hns_roce_main.c */

    .max_inline_bytes = 32,      /* HNS_ROCE_V2_MAX_SQ_INLINE */
    .inline_lowered = true,      /* rdma-core hns */
    .empty_sq_refused = true,    /* hns_roce_qp.c */
    .wr_rounded_to_pow2 = true,  /* hns_roce_qp.c */
    .min_wr = 64,                /* HNS_ROCE_MIN_WQE_NUM */
    .cqe_rounded_to_pow2 = true, /* hns_roce_cq.c */
    .min_cqe = 64,               /* hns_roce_cq.c */
    .cqe_reserved = 0,           /* hns_roce_cq.c */
    .cqe_bytes = 32,             /* HNS_ROCE_V2_CQE_SIZE */
    .recv_sge_reserved = 1,      /* hns_roce_qp.c */
    .recv_sge_rounded = true,    /* hns_roce_qp.c */

    .dialect = SIM_DIALECT_IBTA,     /* IBA 11.6 */
    .qpn_reuse = SIM_QPN_CYCLIC,     /* hns_roce_qp.c: in each bank */
    .qpn_banks = 8,                  /* hns_roce_qp.c: HNS_ROCE_QP_BANK_NUM */
    .cqn_banks = 4,                  /* hns_roce_cq.c: HNS_ROCE_CQ_BANK_NUM */
    .first_qpn = 0,                  /* chosen: only where a scenario asks */
    .first_number = 0,               /* chosen */
    .retry_cnt_7_is_endless = false, /* IBA 9.9.2.1.1 */
    .has_sqd = false,                /* hns_roce_hw_v2.c */
    .post_check_strict = true,       /* rdma-core hns */
    .flush_on_poll = true,           /* hns_roce_qp.c, flush_cqe; rdma-core polls */
    .min_rnr_timer_forced = 1,       /* hns_roce_hw_v2.c */
    .timeout_max = 20,               /* hns_roce_hw_v2.c */
    .timeout_beyond_ignored = true,  /* hns_roce_hw_v2.c */
    .cur_state_checked = true,       /* hns_roce_qp.c */
    .mig_req = true,                 /* chosen */
    .sport_is_symmetric = true,      /* hns_roce_hw_v2.c */
    .raises_access_events = true,    /* IBA 11.6.3.2 */
    .writes_in_order = true,         /* chosen: out-of-order writes are off */
    .has_dmabuf = false,             /* Linux 6.12 */
    .cqes_purged = true,             /* rdma-core hns, hns_roce_v2_cq_clean */
    .has_ece = false,                /* Linux 6.12 */
    .ece_options = 0,                /* none */
    .rd_atomic_rounded = true,       /* hns_roce_hw_v2.c: log2 in 3 bits */
    .rd_atomic_zero_kept = true,     /* hns_roce_hw_v2.c */
    .gid_checked_per_packet = false, /* cache.c keeps entries in use */
    .window_packets = 16384,         /* chosen: hardware has 2^23 */
    .ack_req_packets = 64,           /* chosen: IBA leaves it open */
    .path_mtu_needs_active = true,   /* hns_roce_hw_v2.c */
    .ipv4_id_rises = false,          /* DF is set: RFC 6864 */
    .acks_are_single = false,        /* IBA 9.7.5.1.1 */
    .nak_waits_for_ack = false,      /* chosen */
    .ghost_ack_completes = false,    /* IBA 9.7.6.1 */
    .read_gap_waits = false,         /* IBA 9.7.5.2.7: implied NAK */
    .read_tail_is_middle = false,    /* IBA 9.7.5.1.2: FIRST or ONLY */
    .excess_reads_served = false,    /* IBA 9.7.4.1.2 */
    .general_err_nth = 0,            /* chosen: only where a scenario asks */
    .general_err_is_harmless = true, /* hns_roce_hw_v2.c: ignored */

    .tx_overhead_ps = 400 * SIM_NS,  /* chosen */
    .rx_overhead_ps = 250 * SIM_NS,  /* chosen */
    .cqe_overhead_ps = 200 * SIM_NS, /* chosen */
    .ack_delay_ps = 150 * SIM_NS,    /* chosen */
    .write_spread_ps = 1 * SIM_US,   /* chosen */
    .gpu_visibility_ps = 0,          /* chosen: off */

    .alloc_pd_ps = 5 * SIM_US,     /* chosen */
    .dealloc_pd_ps = 5 * SIM_US,   /* chosen */
    .reg_mr_ps = 40 * SIM_US,      /* chosen */
    .reg_mr_page_ps = 50 * SIM_NS, /* chosen */
    /* chosen: the loopback WRITEs of free_mr_send_cmd_to_hw */
    .dereg_mr_ps = 400 * SIM_US,
    .create_cq_ps = 30 * SIM_US,    /* chosen */
    .destroy_cq_ps = 20 * SIM_US,   /* chosen */
    .create_qp_ps = 100 * SIM_US,   /* chosen: buffers are pinned */
    .modify_qp_ps = 60 * SIM_US,    /* chosen: mailbox */
    .destroy_qp_ps = 80 * SIM_US,   /* chosen: mailbox */
    .dereg_is_serialised = true,    /* free_mr_mutex */
    .create_qp_is_local = true,     /* hns_roce_qp.c: the context is written later */
    .mailbox_stall_nth = 0,         /* chosen: only where a scenario asks */
    .mailbox_stall_ps = 0,          /* chosen */
    .mailbox_limit_ps = 10 * SIM_S, /* hns_roce_cmd.h */
};
