/* An invented device with minimal capabilities, to detect hidden assumptions. */
#include <infiniband/verbs.h>

#include "sim/profiles/profiles.h"

const struct sim_profile sim_profile_minimal = {
    .id = WEFT_PROFILE_MINIMAL,
    .objects = SIM_OBJECTS_NONE,

    .vendor_id = 0,            /* none */
    .vendor_part_id = 0,       /* none */
    .hw_ver = 0,               /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .max_mr_size = UINT64_MAX, /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .page_size_cap = 0xfffffffffffff000u,
    .max_qp = 64,                                  /* minimal on purpose */
    .max_qp_wr = 16,                               /* minimal on purpose */
    .device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN, /* minimal on purpose */
    .max_sge = 1,                                  /* minimal on purpose */
    .max_sge_rd = 1,                               /* minimal on purpose */
    .max_cq = 64,                                  /* minimal on purpose */
    .max_cqe = 64,                                 /* minimal on purpose */
    .max_mr = 64,                                  /* minimal on purpose */
    .max_pd = 16,                                  /* minimal on purpose */
    .max_qp_rd_atom = 1,                           /* minimal on purpose */
    .max_qp_init_rd_atom = 1,                      /* minimal on purpose */
    .max_res_rd_atom = 64,                         /* minimal on purpose */
    .atomic_cap = IBV_ATOMIC_NONE,                 /* minimal on purpose */
    .max_srq_wr = 0,                               /* minimal on purpose */
    .max_srq_sge = 0,                              /* minimal on purpose */
    .max_pkeys = 1,                                /* minimal on purpose */
    .local_ca_ack_delay = 16, /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */

    .gid_tbl_len = 2,          /* minimal on purpose */
    .has_roce_v1 = false,      /* minimal on purpose */
    .foreign_gids = 0,         /* chosen: only where a scenario asks */
    .mtu_overhead_bytes = 96,  /* ib_addr.h, iboe_get_mtu */
    .max_mtu_bytes = 4096,     /* ib_addr.h */
    .max_msg_bytes = 1u << 30, /* chosen */

    .max_inline_bytes = 0,        /* minimal on purpose */
    .inline_lowered = false,      /* mlx5 qp.c: refused */
    .empty_sq_refused = false,    /* mlx5 qp.c */
    .wr_rounded_to_pow2 = false,  /* minimal on purpose */
    .min_wr = 1,                  /* chosen */
    .cqe_rounded_to_pow2 = false, /* minimal on purpose */
    .min_cqe = 1,                 /* chosen */
    .cqe_reserved = 0,            /* chosen */
    .cqe_bytes = 64,              /* chosen */
    .recv_sge_reserved = 0,       /* chosen */
    .recv_sge_rounded = false,    /* minimal on purpose */

    .dialect = SIM_DIALECT_IBTA,      /* IBA 11.6 */
    .qpn_reuse = SIM_QPN_IMMEDIATE,   /* chosen: the harder case */
    .qpn_banks = 1,                   /* chosen */
    .cqn_banks = 1,                   /* chosen */
    .first_qpn = 0,                   /* chosen: only where a scenario asks */
    .first_number = 0,                /* chosen */
    .retry_cnt_7_is_endless = false,  /* IBA 9.9.2.1.1 */
    .has_sqd = false,                 /* minimal on purpose */
    .post_check_strict = true,        /* chosen: mlx5 does not check, IBA C10-97 does */
    .flush_on_poll = false,           /* hardware flushes */
    .min_rnr_timer_forced = 0,        /* chosen */
    .timeout_max = 31,                /* 5 bits */
    .timeout_beyond_ignored = false,  /* chosen */
    .cur_state_checked = false,       /* mlx5 trusts the claim */
    .mig_req = true,                  /* ConnectX captures */
    .sport_is_symmetric = true,       /* mlx5 qp.c */
    .raises_access_events = true,     /* IBA 11.6.3.2 */
    .writes_in_order = false,         /* minimal on purpose */
    .has_dmabuf = false,              /* minimal on purpose */
    .cqes_purged = false,             /* IBA 10.3.1.1: they remain */
    .has_ece = false,                 /* minimal on purpose */
    .ece_options = 0,                 /* none */
    .rd_atomic_rounded = false,       /* minimal on purpose */
    .rd_atomic_zero_kept = false,     /* only hns does (hns_roce_hw_v2.c) */
    .gid_checked_per_packet = false,  /* cache.c keeps entries in use */
    .window_packets = 16384,          /* chosen: hardware has 2^23 */
    .ack_req_packets = 64,            /* chosen: IBA leaves it open */
    .path_mtu_needs_active = false,   /* only hns does (hns_roce_hw_v2.c) */
    .ipv4_id_rises = false,           /* DF is set: RFC 6864 */
    .acks_are_single = false,         /* IBA 9.7.5.1.1 */
    .nak_waits_for_ack = false,       /* chosen */
    .ghost_ack_completes = false,     /* IBA 9.7.6.1 */
    .read_gap_waits = false,          /* IBA 9.7.5.2.7: implied NAK */
    .read_tail_is_middle = false,     /* IBA 9.7.5.1.2: FIRST or ONLY */
    .excess_reads_served = false,     /* IBA 9.7.4.1.2 */
    .general_err_nth = 0,             /* chosen: only where a scenario asks */
    .general_err_is_harmless = false, /* mlx5_ib: an unknown syndrome is fatal */

    /* chosen: with the next two, ib_write_lat of ConnectX-5 less the wire */
    .tx_overhead_ps = 300 * SIM_NS,
    .rx_overhead_ps = 200 * SIM_NS,  /* chosen */
    .cqe_overhead_ps = 150 * SIM_NS, /* chosen */
    .ack_delay_ps = 100 * SIM_NS,    /* chosen */
    .write_spread_ps = 1 * SIM_US,   /* chosen */
    .gpu_visibility_ps = 0,          /* chosen: off */

    .alloc_pd_ps = 5 * SIM_US,     /* chosen */
    .dealloc_pd_ps = 5 * SIM_US,   /* chosen */
    .reg_mr_ps = 40 * SIM_US,      /* chosen */
    .reg_mr_page_ps = 50 * SIM_NS, /* chosen */
    .dereg_mr_ps = 30 * SIM_US,    /* chosen */
    .create_cq_ps = 30 * SIM_US,   /* chosen */
    .destroy_cq_ps = 20 * SIM_US,  /* chosen */
    .create_qp_ps = 60 * SIM_US,   /* chosen */
    .modify_qp_ps = 30 * SIM_US,   /* chosen */
    .destroy_qp_ps = 40 * SIM_US,  /* chosen */
    .dereg_is_serialised = false,  /* chosen */
    .create_qp_is_local = false,   /* chosen: alloc_pd and create_qp are commands */
    .mailbox_stall_nth = 0,        /* chosen: only where a scenario asks */
    .mailbox_stall_ps = 0,         /* chosen */
    .mailbox_limit_ps = 0,         /* chosen */
};
