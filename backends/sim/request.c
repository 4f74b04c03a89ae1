#include "backends/sim/request.h"

#include <errno.h>

#include "io/hostinfo.h"

void sim_device_attr(const struct sim_nic *nic, struct io_device_attr *out)
{
    const struct sim_profile *profile = sim_nic_profile(nic);
    *out = (struct io_device_attr){
        .max_inline_bytes = profile->max_inline_bytes,
        .max_msg_bytes = profile->max_msg_bytes,
        .retry_cnt_max = profile->retry_cnt_7_is_endless ? 6 : 7,
        .writes_in_order = profile->writes_in_order,
        .has_dmabuf = profile->has_dmabuf,
        .flush_on_poll = profile->flush_on_poll,
        .general_err_is_harmless = profile->general_err_is_harmless,
        .profile = weft_profile_name(profile->id)};
}

int sim_request_of(const struct io_op *op, struct sim_request *request)
{
    switch (op->kind) {
    case IO_OP_NONE:
        return EINVAL;
    case IO_OP_ALLOC_PD:
        request->verb = SIM_VERB_ALLOC_PD;
        return 0;
    case IO_OP_DEALLOC_PD:
        request->verb = SIM_VERB_DEALLOC_PD;
        request->arg.pd = op->arg.dealloc_pd;
        return 0;
    case IO_OP_REG_MR:
        request->verb = SIM_VERB_REG_MR;
        request->arg.reg_mr.pd = op->arg.reg_mr.pd;
        request->arg.reg_mr.addr = op->arg.reg_mr.addr;
        request->arg.reg_mr.length = op->arg.reg_mr.length;
        request->arg.reg_mr.access = op->arg.reg_mr.access;
        if (op->arg.reg_mr.is_dmabuf) {
            request->arg.reg_mr.is_dmabuf = true;
            request->arg.reg_mr.iova = (uintptr_t)op->arg.reg_mr.addr;
            request->arg.reg_mr.dmabuf_fd = op->arg.reg_mr.dmabuf_fd;
            request->arg.reg_mr.dmabuf_offset = op->arg.reg_mr.dmabuf_offset;
        }
        return 0;
    case IO_OP_DEREG_MR:
        request->verb = SIM_VERB_DEREG_MR;
        request->arg.mr = op->arg.dereg_mr;
        return 0;
    case IO_OP_CREATE_CQ:
        request->verb = SIM_VERB_CREATE_CQ;
        request->arg.create_cq.cqe = op->arg.create_cq.cqe;
        return 0;
    case IO_OP_DESTROY_CQ:
        request->verb = SIM_VERB_DESTROY_CQ;
        request->arg.cq = op->arg.destroy_cq;
        return 0;
    case IO_OP_CREATE_QP:
        request->verb = SIM_VERB_CREATE_QP;
        request->arg.create_qp.pd = op->arg.create_qp.pd;
        request->arg.create_qp.init = op->arg.create_qp.init;
        return 0;
    case IO_OP_MODIFY_QP:
        request->verb = SIM_VERB_MODIFY_QP;
        request->arg.modify_qp.qp = op->arg.modify_qp.qp;
        request->arg.modify_qp.attr = op->arg.modify_qp.attr;
        request->arg.modify_qp.mask = op->arg.modify_qp.mask;
        return 0;
    case IO_OP_DESTROY_QP:
        request->verb = SIM_VERB_DESTROY_QP;
        request->arg.qp = op->arg.destroy_qp;
        return 0;
    }
    return EINVAL;
}

void sim_counters_unknown(struct io_port_counters *out)
{
    *out = (struct io_port_counters){
        IO_UNKNOWN, IO_UNKNOWN, IO_UNKNOWN, IO_UNKNOWN, IO_UNKNOWN, IO_UNKNOWN,
        IO_UNKNOWN, IO_UNKNOWN, IO_UNKNOWN, IO_UNKNOWN, IO_UNKNOWN, IO_UNKNOWN,
        IO_UNKNOWN, IO_UNKNOWN, IO_UNKNOWN, IO_UNKNOWN, IO_UNKNOWN};
}

void sim_counters_of_transport(const struct sim_nic_counters *nic,
                               struct io_port_counters *out)
{
    out->retransmits = (int64_t)nic->retransmits;
    out->timeouts = (int64_t)nic->timeouts;
    out->out_of_sequence = (int64_t)nic->out_of_sequence;
    out->rx_duplicates = (int64_t)nic->duplicates;
    out->rnr_naks_sent = (int64_t)nic->rnr_naks_sent;
    out->icrc_errors = (int64_t)nic->icrc_errors;
    out->rx_unclaimed = (int64_t)nic->dropped_unknown_qp;
}

void sim_request_result(const struct sim_request *request, struct io_op *op)
{
    op->error = request->error;
    if (request->error != 0) {
        return;
    }
    if (op->kind == IO_OP_ALLOC_PD) {
        op->out.pd = request->out.pd;
    } else if (op->kind == IO_OP_REG_MR) {
        op->out.mr = request->out.mr;
    } else if (op->kind == IO_OP_CREATE_CQ) {
        op->out.cq = request->out.cq;
    } else if (op->kind == IO_OP_CREATE_QP) {
        op->out.qp = request->out.qp;
        op->arg.create_qp.init = request->arg.create_qp.init;
    }
}
