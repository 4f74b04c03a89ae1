/* Soft-RoCE: objects are entries of pools in the kernel, queues are kernel pages that the
 * process maps, and there is no device to command (Linux 6.12
 * drivers/infiniband/sw/rxe). */
#include "sim/nic_model_impl.h"

static void pool(struct nic_account *out, const char *name, uint32_t index)
{
    model_step(out, "driver", "pool", "an index; no device takes part",
               "pool=%s index=%u", name, index);
}

static void destroy(struct nic_model *model, enum model_kind kind,
                    const struct nic_verb *verb, struct nic_account *out)
{
    struct model_object *object = model_find(model, kind, verb->number);
    model_step(out, "driver", "pool", "freed when the last reference goes", "index=%u",
               kind == MODEL_MR ? verb->number >> 8 : verb->number);
    if (object != NULL) {
        model_remove(model, object);
    }
}

static void create_qp(struct nic_model *model, const struct nic_verb *verb,
                      struct nic_account *out)
{
    (void)model_add(model, MODEL_QP, verb);
    pool(out, "qp", verb->number);
    model_step(out, "driver", "queues", "kernel memory that the process maps",
               "sq=%u rq=%u inline=%u", verb->granted.max_send_wr,
               verb->granted.max_recv_wr, verb->granted.max_inline_data);
}

static void create_cq(struct nic_model *model, const struct nic_verb *verb,
                      struct nic_account *out)
{
    uint32_t entry = model->profile->cqe_bytes;
    (void)model_add(model, MODEL_CQ, verb);
    pool(out, "cq", verb->number);
    model_step(out, "driver", "queue", "kernel memory that the process maps",
               "asked=%u entries=%u cqe_bytes=%u", verb->asked_cqe, verb->cqe, entry);
}

static void reg_mr(struct nic_model *model, const struct nic_verb *verb,
                   struct nic_account *out)
{
    struct model_object *mr = model_add(model, MODEL_MR, verb);
    mr->pages = (uint32_t)model_touched(verb->addr, verb->length);
    pool(out, "mr", verb->number >> 8);
    model_step(out, "driver", "pages", "locked, and kept in a table of the kernel",
               "bytes=%llu pages=%u lkey=0x%x rkey=0x%x",
               (unsigned long long)verb->length, mr->pages, verb->number, verb->number);
}

void model_rxe(struct nic_model *model, const struct nic_verb *verb,
               struct nic_account *out)
{
    char names[120];
    switch (verb->verb) {
    case SIM_VERB_ALLOC_PD:
        pool(out, "pd", verb->number);
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
        model_mask_names(verb->mask, names, sizeof(names));
        model_step(out, "driver", "rxe_qp", "a struct in the kernel", "fields=state%s%s",
                   names[0] != '\0' ? "," : "", names);
        break;
    case SIM_VERB_DEALLOC_PD:
        model_step(out, "driver", "pool", "freed when the last reference goes",
                   "index=%u", verb->number);
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
        pool(out, "srq", verb->number);
        break;
    case SIM_VERB_DESTROY_SRQ:
        model_step(out, "driver", "pool", "freed when the last reference goes",
                   "index=%u", verb->number);
        break;
    case SIM_N_VERBS:
        break;
    }
}
