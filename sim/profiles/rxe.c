/* Soft-RoCE, Linux 6.12 (drivers/infiniband/sw/rxe); its packets as observed on Linux
 * 7.2.13. */
#include <infiniband/verbs.h>

#include "sim/profiles/profiles.h"

const struct sim_profile sim_profile_rxe = {
    .id = WEFT_PROFILE_RXE,
    .objects = SIM_OBJECTS_RXE,

    .vendor_id = 0xffffff,        /* rxe_param.h */
    .vendor_part_id = 0,          /* rxe_param.h */
    .hw_ver = 0,                  /* rxe_param.h */
    .max_mr_size = UINT64_MAX,    /* rxe_param.h */
    .page_size_cap = 0xfffff000u, /* rxe_param.h */
    .max_qp = 1048560,            /* rxe_param.h */
    .max_qp_wr = 1048576,         /* rxe_param.h */
    /* rxe_param.h */
    .device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
                        IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_CHANGE_PHY_PORT |
                        IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
                        IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_MEM_WINDOW |
                        IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_UD_AV_PORT_ENFORCE |
                        IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_MGT_EXTENSIONS,
    .max_sge = 32,                /* rxe_param.h */
    .max_sge_rd = 32,             /* rxe_param.h */
    .max_cq = 1048576,            /* rxe_param.h */
    .max_cqe = 32767,             /* rxe_param.h */
    .max_mr = 524287,             /* rxe_param.h */
    .max_pd = 1048576,            /* rxe_param.h */
    .max_qp_rd_atom = 128,        /* rxe_param.h */
    .max_qp_init_rd_atom = 128,   /* rxe_param.h */
    .max_res_rd_atom = 258048,    /* rxe_param.h */
    .atomic_cap = IBV_ATOMIC_HCA, /* rxe_param.h */
    .max_srq_wr = 1048576,        /* rxe_param.h */
    .max_srq_sge = 27,            /* rxe_param.h */
    .max_pkeys = 64,              /* rxe_param.h */
    .local_ca_ack_delay = 15,     /* rxe_param.h */

    .gid_tbl_len = 1024,       /* rxe_param.h */
    .has_roce_v1 = false,      /* v2 only */
    .foreign_gids = 0,         /* chosen: only where a scenario asks */
    .in_ip_stack = true,       /* rxe_net.c: a UDP tunnel socket */
    .gids_by_scan = true,      /* rdma link add takes a netdev that has its addresses */
    .mtu_overhead_bytes = 80,  /* rxe.c, rxe_set_mtu */
    .max_mtu_bytes = 4096,     /* ib_addr.h */
    .max_msg_bytes = 1u << 31, /* rxe_param.h */

    .max_inline_bytes = 512,      /* rxe_param.h: 32 SGEs of 16 B */
    .inline_lowered = false,      /* rxe_qp.c: refused */
    .empty_sq_refused = false,    /* chosen: not refused */
    .wr_rounded_to_pow2 = false,  /* chosen */
    .min_wr = 1,                  /* chosen */
    .cqe_rounded_to_pow2 = false, /* rxe_cq.c */
    .min_cqe = 1,                 /* chosen */
    .cqe_reserved = 0,            /* rxe_cq.c */
    .cqe_bytes = 64,              /* 48 B rounded up */
    .recv_sge_reserved = 0,       /* chosen */
    .recv_sge_rounded = false,    /* rxe_qp.c: as requested */

    .dialect = SIM_DIALECT_RXE,       /* rxe_resp.c */
    .qpn_reuse = SIM_QPN_CYCLIC,      /* rxe_pool.c */
    .qpn_banks = 1,                   /* rxe_pool.c */
    .cqn_banks = 1,                   /* rxe_pool.c */
    .first_qpn = 0,                   /* chosen: only where a scenario asks */
    .first_number = 1,                /* rxe_param.h, from memory */
    .retry_cnt_7_is_endless = true,   /* rxe_comp.c */
    .has_sqd = true,                  /* rxe_qp.c */
    .post_check_strict = true,        /* rxe_verbs.c */
    .flush_on_poll = false,           /* the driver flushes */
    .min_rnr_timer_forced = 0,        /* chosen */
    .timeout_max = 31,                /* 5 bits */
    .timeout_beyond_ignored = false,  /* chosen */
    .cur_state_checked = false,       /* chosen: not checked */
    .mig_req = false,                 /* rxe_hdr.h */
    .sport_is_symmetric = true,       /* rxe_verbs.c: rdma_get_udp_sport */
    .raises_access_events = false,    /* rxe_resp.c */
    .writes_in_order = true,          /* chosen: out-of-order writes are off */
    .has_dmabuf = false,              /* Linux 6.12 */
    .cqes_purged = false,             /* rxe_qp.c: they remain */
    .has_ece = false,                 /* Linux 6.12 */
    .ece_options = 0,                 /* none */
    .rd_atomic_rounded = true,        /* rxe_qp.c */
    .rd_atomic_zero_kept = false,     /* only hns does (hns_roce_hw_v2.c) */
    .gid_checked_per_packet = true,   /* rxe_recv.c */
    .window_packets = 129,            /* seen on 7.2.13: RXE_MAX_UNACKED_PSNS + 1 */
    .ack_req_packets = 66,            /* seen on 7.2.13: RXE_MAX_PKT_PER_ACK + 2 */
    .path_mtu_needs_active = false,   /* only hns does (hns_roce_hw_v2.c) */
    .ipv4_id_rises = true,            /* seen on 7.2.13: ip_select_ident */
    .acks_are_single = true,          /* seen on 7.2.13; rxe_resp.c */
    .nak_waits_for_ack = true,        /* seen on 7.2.13; rxe_comp.c, started_retry */
    .ghost_ack_completes = true,      /* seen on 7.2.13; rxe_comp.c, check_psn */
    .read_gap_waits = true,           /* seen on 7.2.13; rxe_comp.c, check_psn */
    .read_tail_is_middle = true,      /* seen on 7.2.13; rxe_resp.c, duplicate_request */
    .excess_reads_served = true,      /* seen on 7.2.13 */
    .general_err_nth = 0,             /* chosen: only where a scenario asks */
    .general_err_is_harmless = false, /* rxe has no such status */

    .tx_overhead_ps = 4 * SIM_US,  /* chosen: a kernel work item */
    .rx_overhead_ps = 4 * SIM_US,  /* chosen */
    .cqe_overhead_ps = 1 * SIM_US, /* chosen */
    .ack_delay_ps = 1 * SIM_US,    /* chosen */
    .write_spread_ps = 1 * SIM_US, /* chosen */
    .gpu_visibility_ps = 0,        /* chosen: off */

    .alloc_pd_ps = 5 * SIM_US,     /* chosen */
    .dealloc_pd_ps = 5 * SIM_US,   /* chosen */
    .reg_mr_ps = 15 * SIM_US,      /* chosen */
    .reg_mr_page_ps = 50 * SIM_NS, /* chosen */
    .dereg_mr_ps = 10 * SIM_US,    /* chosen */
    .create_cq_ps = 10 * SIM_US,   /* chosen */
    .destroy_cq_ps = 10 * SIM_US,  /* chosen */
    .create_qp_ps = 20 * SIM_US,   /* chosen */
    .modify_qp_ps = 10 * SIM_US,   /* chosen */
    .destroy_qp_ps = 20 * SIM_US,  /* chosen */
    .dereg_is_serialised = false,  /* chosen */
    .create_qp_is_local = true,    /* there is no device */
    .mailbox_stall_nth = 0,        /* chosen: only where a scenario asks */
    .mailbox_stall_ps = 0,         /* chosen */
    .mailbox_limit_ps = 0,         /* chosen */
};
