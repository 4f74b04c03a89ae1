/* HiSilicon hns (Linux 6.12 drivers/infiniband/hw/hns and its user library). Commands use
 * a mailbox; a queue pair's context is written with its first change of state. */
#include "sim/nic_model_impl.h"

enum {
    MAILBOX_BYTES = 4096,
    POST_MB = 0x8504, /* hns_roce_hw_v2.h, HNS_ROCE_OPC_POST_MB */
    DOORBELL_BYTES = 4,
    SQ_WQE_BYTES = 64,
    SGE_BYTES = 16,
    SGES_IN_WQE = 2,
    BA_ENTRIES = MODEL_PAGE_BYTES / 8 /* addresses per page of addresses */
};

static bool is_hip08(const struct nic_model *model)
{
    return model->profile->cqe_bytes == 32;
}

static void mailbox(struct nic_account *out, const char *command, const char *opcode,
                    uint32_t context_bytes, const char *note)
{
    char within[24];
    model_took(out, within, sizeof(within));
    model_step(out, "device", "mailbox", note,
               "command=%s op=%s post=0x%x buffer=%u context=%u within_ns=%s", command,
               opcode, POST_MB, MAILBOX_BYTES, context_bytes, within);
}

/* Appends the step of a multi-hop translation: pages of addresses refer to the pages of a
 * buffer. */
static void region(struct nic_account *out, const char *name, unsigned hops,
                   uint64_t bytes)
{
    uint32_t pages = model_pages(bytes);
    uint32_t tables = hops == 0 ? 0 : (pages + BA_ENTRIES - 1) / BA_ENTRIES;
    model_step(out, "driver", "MTR", NULL,
               "region=%s hops=%u bytes=%llu pages=%u address_pages=%u", name, hops,
               (unsigned long long)bytes, pages, tables + (hops > 1 ? 1 : 0));
}

static void alloc_pd(const struct nic_model *model, const struct nic_verb *verb,
                     struct nic_account *out)
{
    model_step(out, "driver", "PDN", "a number, and no word to the device",
               "pdn=%u range=0..%u bits=24", verb->number, model->profile->max_pd - 1);
}

static void create_cq(struct nic_model *model, const struct nic_verb *verb,
                      struct nic_account *out)
{
    struct model_object *cq = model_add(model, MODEL_CQ, verb);
    uint32_t *loads = model->cqs_in_bank;
    uint32_t bytes = verb->cqe * model->profile->cqe_bytes;
    cq->pages = model_pages(bytes);
    model_step(out, "library", "buffer", "pow2(max(asked, 64))",
               "asked=%u entries=%u cqe_bytes=%u bytes=%u pages=%u", verb->asked_cqe,
               verb->cqe, model->profile->cqe_bytes, bytes, cq->pages);
    cq->list = MODEL_DB_CQ;
    cq->doorbells[0] = model_take_doorbell(model, out, verb->user, MODEL_DB_CQ,
                                           DOORBELL_BYTES, "doorbell record");
    region(out, "cqe", 1, bytes);
    model_step(out, "driver", "CQN", "id<<2|bank, least loaded of 4",
               "cqn=%u id=%u bank=%u loads=%u,%u,%u,%u", verb->number, verb->number >> 2,
               verb->number & 3, loads[0], loads[1], loads[2], loads[3]);
    loads[verb->number & 3]++;
    model_step(out, "driver", "CQC", "by mailbox",
               "state=VALID arm=NO_ARMED shift=%u ceqn=0 cqn=%u cqe_bytes=%u hop=1 db=on",
               model_log2(verb->cqe), verb->number, model->profile->cqe_bytes);
    mailbox(out, "CREATE_CQC", "0x16", 64, NULL);
}

/* Returns the number of entries of the ring for SGEs beyond those in a WQE, and for
 * inline data. */
static uint32_t ext_sges(const struct nic_model *model, const struct ibv_qp_cap *cap)
{
    uint32_t sges = cap->max_send_sge;
    if (!is_hip08(model) && cap->max_inline_data > SGES_IN_WQE * SGE_BYTES) {
        uint32_t for_inline = (cap->max_inline_data + SGE_BYTES - 1) / SGE_BYTES;
        sges = sges > for_inline ? sges : for_inline;
    }
    if (sges <= SGES_IN_WQE) {
        return 0;
    }
    uint32_t n = model_pow2(cap->max_send_wr * (sges - SGES_IN_WQE));
    uint32_t page = MODEL_PAGE_BYTES / SGE_BYTES;
    return n > page ? n : page;
}

static void create_qp(struct nic_model *model, const struct nic_verb *verb,
                      struct nic_account *out)
{
    struct model_object *qp = model_add(model, MODEL_QP, verb);
    const struct ibv_qp_cap *cap = &verb->granted;
    uint32_t gs =
        cap->max_recv_wr > 0 ? cap->max_recv_sge + model->profile->recv_sge_reserved : 0;
    uint64_t sq = (uint64_t)cap->max_send_wr * SQ_WQE_BYTES;
    uint64_t ext = (uint64_t)ext_sges(model, cap) * SGE_BYTES;
    uint64_t rq = (uint64_t)cap->max_recv_wr * gs * SGE_BYTES;
    qp->pages = model_pages(sq) + model_pages(ext) + model_pages(rq);
    model_step(out, "library", "queues", "pow2(max(asked, 64))",
               "sq_asked=%u sq=%u rq_asked=%u rq=%u inline_asked=%u inline=%u",
               verb->asked.max_send_wr, cap->max_send_wr, verb->asked.max_recv_wr,
               cap->max_recv_wr, verb->asked.max_inline_data, cap->max_inline_data);
    model_step(out, "library", "buffer", "SQ, ext-SGE ring, RQ, each from a page on",
               "sq_wqe=%u ext_sges=%llu rq_wqe=%u pages=%u", SQ_WQE_BYTES,
               (unsigned long long)(ext / SGE_BYTES), gs * SGE_BYTES, qp->pages);
    qp->doorbells[0] = model_take_doorbell(model, out, verb->user, MODEL_DB_QP,
                                           DOORBELL_BYTES, "SQ doorbell record");
    if (cap->max_recv_wr > 0) {
        qp->doorbells[1] = model_take_doorbell(model, out, verb->user, MODEL_DB_QP,
                                               DOORBELL_BYTES, "RQ doorbell record");
    }
    region(out, "sq", 2, sq);
    if (ext > 0) {
        region(out, "ext_sge", 1, ext);
    }
    if (rq > 0) {
        region(out, "rq", 2, rq);
    }
    model_step(out, "driver", "QPN", "id<<3|bank, one of two tied to the CQ's",
               "qpn=%u id=%u bank=%u send_cqn=%u cq_bank=%u", verb->number,
               verb->number >> 3, verb->number & 7, verb->send_cqn, verb->send_cqn & 3);
    model_step(out, "driver", "QPC", "not written yet: RESET to INIT does", "bytes=0");
}

struct transition {
    enum ibv_qp_state from, to;
    const char *command, *opcode;
    const char *fields; /* in addition to those of the mask */
};

static const struct transition transitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, "RST2INIT_QPC", "0x19",
     "pdn,send_cqn,recv_cqn,sq_shift,rq_shift,db_records,sges"},
    {IBV_QPS_INIT, IBV_QPS_RTR, "INIT2RTR_QPC", "0x1a",
     "rq_mtr,dmac,smac_index,sport,dgid,sgid_index,dqpn,resources"},
    {IBV_QPS_RTR, IBV_QPS_RTS, "RTR2RTS_QPC", "0x1b", "sq_mtr,ext_sge_mtr,first_psn"},
    {IBV_QPS_RTS, IBV_QPS_RTS, "RTS2RTS_QPC", "0x1c", "none"},
};

static void write_qpc(const struct nic_model *model, const struct nic_verb *verb,
                      struct nic_account *out)
{
    static const struct transition to_error = {IBV_QPS_RTS, IBV_QPS_ERR, "2ERR_QPC",
                                               "0x1e", "none"};
    static const struct transition to_reset = {IBV_QPS_RTS, IBV_QPS_RESET, "2RST_QPC",
                                               "0x21", "none"};
    const struct transition *found = NULL;
    uint32_t bytes = is_hip08(model) ? 256 : 512;
    char names[120];
    for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
        if (transitions[i].from == verb->from && transitions[i].to == verb->to) {
            found = &transitions[i];
        }
    }
    found = verb->to == IBV_QPS_ERR     ? &to_error
            : verb->to == IBV_QPS_RESET ? &to_reset
                                        : found;
    model_mask_names(verb->mask, names, sizeof(names));
    model_step(out, "driver", "QPC", "written where a mask bit is 0",
               "bytes=%u mask_bytes=%u asked=%s fields=state%s%s", bytes, bytes,
               names[0] != '\0' ? names : "none",
               found == NULL || found->fields[0] == 'n' ? "" : ",",
               found == NULL || found->fields[0] == 'n' ? "" : found->fields);
    mailbox(out, found != NULL ? found->command : "none",
            found != NULL ? found->opcode : "none", 2 * bytes, NULL);
}

static void modify_qp(const struct nic_model *model, const struct nic_verb *verb,
                      struct nic_account *out)
{
    const struct sim_profile *profile = model->profile;
    uint32_t forced = profile->min_rnr_timer_forced;
    if ((verb->mask & IBV_QP_MIN_RNR_TIMER) != 0 && forced != 0) {
        model_step(out, "driver", "min_rnr_timer", "HIP08 writes 10 us whatever is asked",
                   "asked=%u written=%u", verb->attr.min_rnr_timer, forced);
    }
    if ((verb->mask & IBV_QP_TIMEOUT) != 0 && verb->attr.timeout > profile->timeout_max) {
        model_step(out, "driver", "timeout", "logged, not written, success",
                   "asked=%u most=%u", verb->attr.timeout, profile->timeout_max);
    }
    if (verb->to == IBV_QPS_ERR && profile->flush_on_poll) {
        model_step(out, "driver", "flush",
                   "the device cannot: producer indices from the doorbell records",
                   "qpn=%u", verb->number);
    }
    write_qpc(model, verb, out);
}

static void reg_mr(struct nic_model *model, const struct nic_verb *verb,
                   struct nic_account *out)
{
    struct model_object *mr = model_add(model, MODEL_MR, verb);
    uint64_t pages = model_touched(verb->addr, verb->length);
    mr->pages = (uint32_t)pages;
    region(out, "pbl", 2, pages * MODEL_PAGE_BYTES);
    model_step(out, "driver", "MPT", "24 + 8 bits",
               "asked_bytes=%llu index=%u lkey=0x%x rkey=0x%x pdn=%u access=0x%x",
               (unsigned long long)verb->length, verb->number >> 8, verb->number,
               verb->number, verb->pdn, (unsigned)verb->access);
    mailbox(out, "CREATE_MPT", "?", 64, "op unknown here");
}

static void dereg_mr(struct nic_model *model, const struct nic_verb *verb,
                     struct nic_account *out)
{
    struct model_object *mr = model_find(model, MODEL_MR, verb->number);
    mailbox(out, "DESTROY_MPT", "?", 0, "op unknown here");
    if (model->profile->dereg_is_serialised) {
        model_step(out, "device", "loopback",
                   "a WRITE on each reserved QP, under one mutex", "qps=8 limit_ms=4500");
    }
    model_step(out, "driver", "pages", "unlocked", "pages=%u",
               mr != NULL ? mr->pages : 0);
    if (mr != NULL) {
        model_remove(model, mr);
    }
}

/* Releases doorbell records and pages. */
static void release(struct nic_model *model, struct model_object *object,
                    struct nic_account *out)
{
    if (object == NULL) {
        return;
    }
    bool has_second = object->doorbells[1] != SIM_NO_NUMBER;
    model_step(out, "driver", "buffer", "unlocked; slots and number are free again",
               "pages=%u doorbell_records=%u", object->pages, has_second ? 2 : 1);
    model_remove(model, object);
}

static void destroy_cq(struct nic_model *model, const struct nic_verb *verb,
                       struct nic_account *out)
{
    struct model_object *cq = model_find(model, MODEL_CQ, verb->number);
    if (cq != NULL) {
        model->cqs_in_bank[verb->number & 3]--;
    }
    mailbox(out, "DESTROY_CQC", "?", 0, "op unknown here");
    release(model, cq, out);
}

static void create_srq(struct nic_model *model, const struct nic_verb *verb,
                       struct nic_account *out)
{
    struct model_object *srq = model_add(model, MODEL_SRQ, verb);
    const struct ibv_qp_cap *cap = &verb->granted;
    uint64_t bytes = (uint64_t)model_pow2(cap->max_recv_wr) *
                     model_pow2(cap->max_recv_sge) * SGE_BYTES;
    srq->pages = model_pages(bytes);
    model_step(out, "library", "buffer", NULL, "asked=%u entries=%u bytes=%llu pages=%u",
               verb->asked.max_recv_wr, cap->max_recv_wr, (unsigned long long)bytes,
               srq->pages);
    srq->list = MODEL_DB_SRQ;
    srq->doorbells[0] = model_take_doorbell(model, out, verb->user, MODEL_DB_SRQ,
                                            DOORBELL_BYTES, "doorbell record");
    mailbox(out, "CREATE_SRQ", "?", 64, "op unknown here");
}

static void destroy_qp(struct nic_model *model, const struct nic_verb *verb,
                       struct nic_account *out)
{
    struct model_object *qp = model_find(model, MODEL_QP, verb->number);
    if (verb->from != IBV_QPS_RESET) {
        struct nic_verb reset = *verb;
        reset.mask = IBV_QP_STATE;
        reset.to = IBV_QPS_RESET;
        write_qpc(model, &reset, out);
    }
    release(model, qp, out);
}

void model_hns(struct nic_model *model, const struct nic_verb *verb,
               struct nic_account *out)
{
    switch (verb->verb) {
    case SIM_VERB_ALLOC_PD:
        alloc_pd(model, verb, out);
        break;
    case SIM_VERB_DEALLOC_PD:
        model_step(out, "driver", "PDN", "free again", "pdn=%u", verb->number);
        break;
    case SIM_VERB_REG_MR:
        reg_mr(model, verb, out);
        break;
    case SIM_VERB_DEREG_MR:
        dereg_mr(model, verb, out);
        break;
    case SIM_VERB_CREATE_CQ:
        create_cq(model, verb, out);
        break;
    case SIM_VERB_DESTROY_CQ:
        destroy_cq(model, verb, out);
        break;
    case SIM_VERB_CREATE_QP:
        create_qp(model, verb, out);
        break;
    case SIM_VERB_MODIFY_QP:
        modify_qp(model, verb, out);
        break;
    case SIM_VERB_DESTROY_QP:
        destroy_qp(model, verb, out);
        break;
    case SIM_VERB_CREATE_SRQ:
        create_srq(model, verb, out);
        break;
    case SIM_VERB_MODIFY_SRQ:
        mailbox(out, "MODIFY_SRQ", "?", 64, "op unknown here");
        break;
    case SIM_VERB_DESTROY_SRQ:
        mailbox(out, "DESTROY_SRQ", "?", 0, "op unknown here");
        release(model, model_find(model, MODEL_SRQ, verb->number), out);
        break;
    case SIM_N_VERBS:
        break;
    }
}
