/* mlx5: every object is created by a command to the device, and a queue pair has its
 * context from the start. Op codes and sizes are from memory of mlx5_ifc.h and the user
 * library. */
#include "sim/nic_model_impl.h"

enum {
    DOORBELL_SLOT_BYTES = 64, /* a record of 8 bytes, on a cache line of its own */
    SEND_BB_BYTES = 64,
    SGE_BYTES = 16
};

static void command(struct nic_account *out, const char *name, unsigned opcode)
{
    char within[24];
    model_took(out, within, sizeof(within));
    model_step(out, "device", "command", "op code from memory of mlx5_ifc.h",
               "name=%s op=0x%x within_ns=%s", name, opcode, within);
}

static void create_cq(struct nic_model *model, const struct nic_verb *verb,
                      struct nic_account *out)
{
    struct model_object *cq = model_add(model, MODEL_CQ, verb);
    uint32_t bytes =
        (verb->cqe + model->profile->cqe_reserved) * model->profile->cqe_bytes;
    cq->pages = model_pages(bytes);
    model_step(out, "library", "buffer", NULL,
               "asked=%u entries=%u cqe_bytes=%u bytes=%u pages=%u", verb->asked_cqe,
               verb->cqe, model->profile->cqe_bytes, bytes, cq->pages);
    cq->doorbells[0] = model_take_doorbell(model, out, verb->user, MODEL_DB_QP,
                                           DOORBELL_SLOT_BYTES, "doorbell record");
    command(out, "CREATE_CQ", 0x400);
    model_step(out, "device", "CQN", NULL, "cqn=%u", verb->number);
}

static void create_qp(struct nic_model *model, const struct nic_verb *verb,
                      struct nic_account *out)
{
    struct model_object *qp = model_add(model, MODEL_QP, verb);
    const struct ibv_qp_cap *cap = &verb->granted;
    uint32_t stride = model_pow2(SGE_BYTES * (cap->max_recv_sge + 0u));
    model_step(out, "library", "queues", "basic blocks; the RQ lies first",
               "sq=%u rq=%u send_bb=%u rq_stride=%u inline=%u", cap->max_send_wr,
               cap->max_recv_wr, SEND_BB_BYTES, stride, cap->max_inline_data);
    qp->doorbells[0] = model_take_doorbell(model, out, verb->user, MODEL_DB_QP,
                                           DOORBELL_SLOT_BYTES, "doorbell record");
    model_step(out, "driver", "QPC", "whole, in the command that makes it",
               "pdn=%u send_cqn=%u recv_cqn=%u state=RESET", verb->pdn, verb->send_cqn,
               verb->recv_cqn);
    command(out, "CREATE_QP", 0x500);
    model_step(out, "device", "QPN", NULL, "qpn=%u", verb->number);
}

static void modify_qp(const struct nic_verb *verb, struct nic_account *out)
{
    static const struct {
        enum ibv_qp_state from, to;
        const char *name;
        unsigned opcode;
    } steps[] = {
        {IBV_QPS_RESET, IBV_QPS_INIT, "RST2INIT_QP", 0x502},
        {IBV_QPS_INIT, IBV_QPS_RTR, "INIT2RTR_QP", 0x503},
        {IBV_QPS_RTR, IBV_QPS_RTS, "RTR2RTS_QP", 0x504},
        {IBV_QPS_RTS, IBV_QPS_RTS, "RTS2RTS_QP", 0x505},
    };
    char names[120];
    model_mask_names(verb->mask, names, sizeof(names));
    model_step(out, "driver", "QPC", NULL, "fields=state%s%s",
               names[0] != '\0' ? "," : "", names);
    if (verb->to == IBV_QPS_ERR || verb->to == IBV_QPS_RESET) {
        bool is_error = verb->to == IBV_QPS_ERR;
        command(out, is_error ? "2ERR_QP" : "2RST_QP", is_error ? 0x507 : 0x50a);
        return;
    }
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (steps[i].from == verb->from && steps[i].to == verb->to) {
            command(out, steps[i].name, steps[i].opcode);
        }
    }
}

static void reg_mr(struct nic_model *model, const struct nic_verb *verb,
                   struct nic_account *out)
{
    struct model_object *mr = model_add(model, MODEL_MR, verb);
    uint64_t pages = model_touched(verb->addr, verb->length);
    mr->pages = (uint32_t)pages;
    model_step(out, "driver", "pages",
               verb->is_dmabuf ? "of the exporter, mapped" : "locked into memory",
               "bytes=%llu pages=%llu", (unsigned long long)verb->length,
               (unsigned long long)pages);
    model_step(out, "driver", "mkey", "24 + 8 bits",
               "index=%u lkey=0x%x rkey=0x%x pdn=%u translations=%llu", verb->number >> 8,
               verb->number, verb->number, verb->pdn, (unsigned long long)pages);
    command(out, "CREATE_MKEY", 0x200);
}

static void destroy(struct nic_model *model, enum model_kind kind,
                    const struct nic_verb *verb, struct nic_account *out)
{
    static const char *const names[] = {[MODEL_CQ] = "DESTROY_CQ",
                                        [MODEL_MR] = "DESTROY_MKEY",
                                        [MODEL_QP] = "DESTROY_QP"};
    static const unsigned opcodes[] = {
        [MODEL_CQ] = 0x401, [MODEL_MR] = 0x202, [MODEL_QP] = 0x501};
    struct model_object *object = model_find(model, kind, verb->number);
    command(out, names[kind], opcodes[kind]);
    if (object != NULL) {
        model_step(out, "driver", "pages", "unlocked", "pages=%u", object->pages);
        model_remove(model, object);
    }
}

void model_mlx5(struct nic_model *model, const struct nic_verb *verb,
                struct nic_account *out)
{
    switch (verb->verb) {
    case SIM_VERB_ALLOC_PD:
        command(out, "ALLOC_PD", 0x800);
        model_step(out, "device", "PDN", NULL, "pdn=%u", verb->number);
        break;
    case SIM_VERB_DEALLOC_PD:
        command(out, "DEALLOC_PD", 0x801);
        break;
    case SIM_VERB_REG_MR:
        reg_mr(model, verb, out);
        break;
    case SIM_VERB_CREATE_CQ:
        create_cq(model, verb, out);
        break;
    case SIM_VERB_CREATE_QP:
        create_qp(model, verb, out);
        break;
    case SIM_VERB_MODIFY_QP:
        modify_qp(verb, out);
        break;
    case SIM_VERB_DEREG_MR:
        destroy(model, MODEL_MR, verb, out);
        break;
    case SIM_VERB_DESTROY_CQ:
        destroy(model, MODEL_CQ, verb, out);
        break;
    case SIM_VERB_DESTROY_QP:
        destroy(model, MODEL_QP, verb, out);
        break;
    case SIM_VERB_CREATE_SRQ:
    case SIM_VERB_MODIFY_SRQ:
    case SIM_VERB_DESTROY_SRQ:
        model_step(out, "device", "command", "op code unknown here", "object=rmp");
        break;
    case SIM_N_VERBS:
        break;
    }
}
