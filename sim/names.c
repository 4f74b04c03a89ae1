/* Names of states and of what completions say, and the trace lines of queue pairs. */
#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "base/trace.h"
#include "sim/nic_objects.h"

static const char *pick(const char *const *names, size_t n, unsigned index)
{
    return index < n && names[index] != NULL ? names[index] : "?";
}

const char *sim_qp_state_name(enum ibv_qp_state state)
{
    static const char *const names[] = {"RESET", "INIT", "RTR", "RTS",
                                        "SQD",   "SQE",  "ERR"};
    return pick(names, WEFT_LENGTH(names), (unsigned)state);
}

const char *sim_wc_status_name(enum ibv_wc_status status)
{
    static const char *const names[] = {
        "SUCCESS",           "LOC_LEN_ERR",
        "LOC_QP_OP_ERR",     "LOC_EEC_OP_ERR",
        "LOC_PROT_ERR",      "WR_FLUSH_ERR",
        "MW_BIND_ERR",       "BAD_RESP_ERR",
        "LOC_ACCESS_ERR",    "REM_INV_REQ_ERR",
        "REM_ACCESS_ERR",    "REM_OP_ERR",
        "RETRY_EXC_ERR",     "RNR_RETRY_EXC_ERR",
        "LOC_RDD_VIOL_ERR",  "REM_INV_RD_REQ_ERR",
        "REM_ABORT_ERR",     "INV_EECN_ERR",
        "INV_EEC_STATE_ERR", "FATAL_ERR",
        "RESP_TIMEOUT_ERR",  "GENERAL_ERR",
    };
    return pick(names, WEFT_LENGTH(names), (unsigned)status);
}

const char *sim_wr_opcode_name(enum ibv_wr_opcode opcode)
{
    static const char *const names[] = {
        [IBV_WR_RDMA_WRITE] = "RDMA_WRITE",
        [IBV_WR_RDMA_WRITE_WITH_IMM] = "RDMA_WRITE_WITH_IMM",
        [IBV_WR_SEND] = "SEND",
        [IBV_WR_SEND_WITH_IMM] = "SEND_WITH_IMM",
        [IBV_WR_RDMA_READ] = "RDMA_READ",
        [IBV_WR_ATOMIC_CMP_AND_SWP] = "ATOMIC_CMP_AND_SWP",
        [IBV_WR_ATOMIC_FETCH_AND_ADD] = "ATOMIC_FETCH_AND_ADD",
    };
    return pick(names, WEFT_LENGTH(names), (unsigned)opcode);
}

const char *sim_event_name(enum ibv_event_type type)
{
    static const char *const names[] = {
        [IBV_EVENT_CQ_ERR] = "CQ_ERR",
        [IBV_EVENT_QP_FATAL] = "QP_FATAL",
        [IBV_EVENT_QP_REQ_ERR] = "QP_REQ_ERR",
        [IBV_EVENT_QP_ACCESS_ERR] = "QP_ACCESS_ERR",
        [IBV_EVENT_COMM_EST] = "COMM_EST",
        [IBV_EVENT_SQ_DRAINED] = "SQ_DRAINED",
        [IBV_EVENT_QP_LAST_WQE_REACHED] = "QP_LAST_WQE_REACHED",
        [IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ_LIMIT_REACHED",
        [IBV_EVENT_PORT_ACTIVE] = "PORT_ACTIVE",
        [IBV_EVENT_PORT_ERR] = "PORT_ERR",
        [IBV_EVENT_GID_CHANGE] = "GID_CHANGE",
    };
    return pick(names, WEFT_LENGTH(names), (unsigned)type);
}

void sim_qp_trace(const struct sim_qp *qp, const char *event, const char *format, ...)
{
    char tail[256];
    va_list args;
    if (!sim_qp_traced(qp)) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(tail, sizeof(tail), format, args);
    va_end(args);
    weft_trace_event(sim_trace(qp->nic->engine), sim_now_ns(qp->nic->engine),
                     qp->nic->host, qp->name, event, "%s", tail);
}
