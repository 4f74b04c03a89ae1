/* An invented device with two ports, otherwise like mlx5. */
#include <infiniband/verbs.h>

#include "sim/profiles/profiles.h"

const struct sim_profile sim_profile_synth2port = {
    .id = WEFT_PROFILE_SYNTH2PORT,
    .objects = SIM_OBJECTS_NONE,

    .vendor_id = 0,            /* none */
    .vendor_part_id = 0,       /* none */
    .hw_ver = 0,               /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .max_mr_size = UINT64_MAX, /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .page_size_cap = 0xfffffffffffff000u,
    .max_qp = 262144,   /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .max_qp_wr = 32768, /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
                        IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_CHANGE_PHY_PORT |
                        IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
                        IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_MEM_WINDOW |
                        IBV_DEVICE_XRC | IBV_DEVICE_MEM_MGT_EXTENSIONS,
    .max_sge = 30,                /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .max_sge_rd = 30,             /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .max_cq = 16777216,           /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .max_cqe = 4194303,           /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .max_mr = 16777216,           /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .max_pd = 16777216,           /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .max_qp_rd_atom = 16,         /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .max_qp_init_rd_atom = 16,    /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .max_res_rd_atom = 4194304,   /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .atomic_cap = IBV_ATOMIC_HCA, /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .max_srq_wr = 32767,          /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .max_srq_sge = 31,            /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .max_pkeys = 128,             /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */
    .local_ca_ack_delay = 16,     /* ibv_devinfo -v of ConnectX-5 (ompi PR 6137) */

    .gid_tbl_len = 256,        /* chosen */
    .has_roce_v1 = true,       /* default slots of mlx5, v1 before v2 */
    .foreign_gids = 0,         /* chosen: only where a scenario asks */
    .mtu_overhead_bytes = 96,  /* ib_addr.h, iboe_get_mtu */
    .max_mtu_bytes = 4096,     /* ib_addr.h */
    .max_msg_bytes = 1u << 30, /* chosen */

    .max_inline_bytes = 220,     /* room in a 512 B WQE; chosen */
    .inline_lowered = false,     /* mlx5 qp.c: refused */
    .empty_sq_refused = false,   /* mlx5 qp.c */
    .wr_rounded_to_pow2 = true,  /* mlx5 qp.c */
    .min_wr = 1,                 /* chosen */
    .cqe_rounded_to_pow2 = true, /* mlx5 cq.c */
    .min_cqe = 1,                /* chosen */
    .cqe_reserved = 1,           /* mlx5 cq.c, from memory */
    .cqe_bytes = 64,             /* mlx5 cq.c */
    .recv_sge_reserved = 0,      /* chosen */
    .recv_sge_rounded = false,   /* mlx5 qp.c: as requested */

    .dialect = SIM_DIALECT_IBTA,      /* IBA 11.6 */
    .qpn_reuse = SIM_QPN_IMMEDIATE,   /* chosen: the harder case */
    .qpn_banks = 1,                   /* chosen */
    .cqn_banks = 1,                   /* chosen */
    .first_qpn = 0,                   /* chosen: only where a scenario asks */
    .first_number = 0,                /* chosen */
    .retry_cnt_7_is_endless = false,  /* IBA 9.9.2.1.1 */
    .has_sqd = true,                  /* mlx5 qp.c */
    .post_check_strict = true,        /* chosen: mlx5 does not check, IBA C10-97 does */
    .flush_on_poll = false,           /* hardware flushes */
    .min_rnr_timer_forced = 0,        /* chosen */
    .timeout_max = 31,                /* 5 bits */
    .timeout_beyond_ignored = false,  /* chosen */
    .cur_state_checked = false,       /* mlx5 trusts the claim */
    .mig_req = true,                  /* ConnectX captures */
    .sport_is_symmetric = true,       /* mlx5 qp.c */
    .raises_access_events = true,     /* IBA 11.6.3.2 */
    .writes_in_order = true,          /* chosen: out-of-order writes are off */
    .has_dmabuf = true,               /* mlx5 mr.c */
    .cqes_purged = true,              /* rdma-core mlx5 cq.c */
    .has_ece = true,                  /* rdma-core mlx5 qp.c */
    .ece_options = 0x3fu,             /* chosen: opaque */
    .rd_atomic_rounded = false,       /* chosen */
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
