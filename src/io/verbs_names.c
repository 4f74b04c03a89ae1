#include "base/check.h"
#include "io/verbs.h"

const char *io_op_kind_name(enum io_op_kind kind)
{
    switch (kind) {
    case IO_OP_NONE:
        return "none";
    case IO_OP_ALLOC_PD:
        return "alloc_pd";
    case IO_OP_DEALLOC_PD:
        return "dealloc_pd";
    case IO_OP_REG_MR:
        return "reg_mr";
    case IO_OP_DEREG_MR:
        return "dereg_mr";
    case IO_OP_CREATE_CQ:
        return "create_cq";
    case IO_OP_DESTROY_CQ:
        return "destroy_cq";
    case IO_OP_CREATE_QP:
        return "create_qp";
    case IO_OP_MODIFY_QP:
        return "modify_qp";
    case IO_OP_DESTROY_QP:
        return "destroy_qp";
    }
    return "?";
}

const char *io_wc_status_name(int wc_status)
{
    /* enum ibv_wc_status, without IBV_WC_. */
    static const char *const names[] = {
        "SUCCESS",
        "LOC_LEN_ERR",
        "LOC_QP_OP_ERR",
        "LOC_EEC_OP_ERR",
        "LOC_PROT_ERR",
        "WR_FLUSH_ERR",
        "MW_BIND_ERR",
        "BAD_RESP_ERR",
        "LOC_ACCESS_ERR",
        "REM_INV_REQ_ERR",
        "REM_ACCESS_ERR",
        "REM_OP_ERR",
        "RETRY_EXC_ERR",
        "RNR_RETRY_EXC_ERR",
        "LOC_RDD_VIOL_ERR",
        "REM_INV_RD_REQ_ERR",
        "REM_ABORT_ERR",
        "INV_EECN_ERR",
        "INV_EEC_STATE_ERR",
        "FATAL_ERR",
        "RESP_TIMEOUT_ERR",
        "GENERAL_ERR",
        "TM_ERR",
        "TM_RNDV_INCOMPLETE",
    };
    if (wc_status < 0 || (size_t)wc_status >= WEFT_LENGTH(names)) {
        return "?";
    }
    return names[wc_status];
}

const char *io_wr_opcode_name(int wr_opcode)
{
    switch (wr_opcode) { /* enum ibv_wr_opcode, without IBV_WR_ */
    case IBV_WR_RDMA_WRITE:
        return "RDMA_WRITE";
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return "RDMA_WRITE_WITH_IMM";
    case IBV_WR_SEND:
        return "SEND";
    case IBV_WR_SEND_WITH_IMM:
        return "SEND_WITH_IMM";
    case IBV_WR_RDMA_READ:
        return "RDMA_READ";
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return "ATOMIC_CMP_AND_SWP";
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return "ATOMIC_FETCH_AND_ADD";
    default:
        return "?";
    }
}

const char *io_wc_opcode_name(int wc_opcode)
{
    switch (wc_opcode) { /* enum ibv_wc_opcode, without IBV_WC_ */
    case IBV_WC_SEND:
        return "SEND";
    case IBV_WC_RDMA_WRITE:
        return "RDMA_WRITE";
    case IBV_WC_RDMA_READ:
        return "RDMA_READ";
    case IBV_WC_COMP_SWAP:
        return "COMP_SWAP";
    case IBV_WC_FETCH_ADD:
        return "FETCH_ADD";
    case IBV_WC_RECV:
        return "RECV";
    case IBV_WC_RECV_RDMA_WITH_IMM:
        return "RECV_RDMA_WITH_IMM";
    default:
        return "?";
    }
}

const char *io_qp_state_name(enum ibv_qp_state state)
{
    switch (state) {
    case IBV_QPS_RESET:
        return "RESET";
    case IBV_QPS_INIT:
        return "INIT";
    case IBV_QPS_RTR:
        return "RTR";
    case IBV_QPS_RTS:
        return "RTS";
    case IBV_QPS_SQD:
        return "SQD";
    case IBV_QPS_SQE:
        return "SQE";
    case IBV_QPS_ERR:
        return "ERR";
    case IBV_QPS_UNKNOWN:
        break;
    }
    return "?";
}
