#include "sim/nic_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/nic_objects.h"
#include "sim/numbers.h"
#include "sim/profile.h"

#define MODEL_PAGE_BYTES 4096u
#define SGE_BYTES 16

enum model_kind { MODEL_CQ, MODEL_MR, MODEL_QP, MODEL_SRQ };
enum model_doorbells { MODEL_DB_QP, MODEL_DB_CQ, MODEL_DB_SRQ, MODEL_N_DB };

/* An object, and what is released with it. */
struct model_object {
    enum model_kind kind;
    uint32_t number, user;
    enum model_doorbells list;
    uint32_t doorbells[2]; /* slots in `list` of its user, or SIM_NO_NUMBER */
    uint32_t pages;        /* pages of its buffers, or of the region */
};

/* The doorbell records of one process: for each list a bitmap of slots, page by page. */
struct model_process {
    struct sim_numbers doorbells[MODEL_N_DB];
};

struct nic_model {
    const struct sim_profile *profile;
    struct model_process *processes; /* Owned [n_processes] */
    uint32_t n_processes;
    struct model_object *objects; /* Owned [n_objects] */
    uint32_t n_objects, cap_objects;
    uint32_t cqs_in_bank[8];
};

struct nic_model *nic_model_create(const struct sim_profile *profile)
{
    struct nic_model *model = weft_calloc(1, sizeof(*model));
    model->profile = profile;
    return model;
}

void nic_model_destroy(struct nic_model *model)
{
    if (model == NULL) {
        return;
    }
    for (uint32_t i = 0; i < model->n_processes; i++) {
        for (unsigned list = 0; list < MODEL_N_DB; list++) {
            sim_numbers_fini(&model->processes[i].doorbells[list]);
        }
    }
    free(model->processes);
    free(model->objects);
    free(model);
}

/* ---- objects, doorbell records and steps ---- */

/* Appends a step. `note` is static text or NULL. */
static void model_step(struct nic_account *out, const char *who, const char *what,
                       const char *note, const char *format, ...) WEFT_PRINTF(5, 6);
static void model_step(struct nic_account *out, const char *who, const char *what,
                       const char *note, const char *format, ...)
{
    va_list args;
    weft_check(out->n_steps < NIC_STEPS_MAX);
    struct nic_step *step = &out->steps[out->n_steps++];
    step->who = who;
    step->what = what;
    step->note = note;
    va_start(args, format);
    (void)vsnprintf(step->facts, sizeof(step->facts), format, args);
    va_end(args);
}

/* Formats the duration of the verb in ns, or "unwaited" if the caller did not wait. */
static void model_took(const struct nic_account *account, char *out, size_t out_bytes)
{
    if (account->is_forgotten) {
        weft_format(out, out_bytes, "unwaited");
    } else {
        weft_format(out, out_bytes, "%lld",
                    (long long)((account->ended - account->began) / 1000));
    }
}

static struct model_process *model_process(struct nic_model *model, uint32_t user)
{
    if (user >= model->n_processes) {
        model->processes =
            weft_realloc(model->processes, (user + 1) * sizeof(*model->processes));
        memset(model->processes + model->n_processes, 0,
               (user + 1 - model->n_processes) * sizeof(*model->processes));
        model->n_processes = user + 1;
    }
    return &model->processes[user];
}

static struct model_object *model_add(struct nic_model *model, enum model_kind kind,
                                      const struct nic_verb *verb)
{
    if (model->n_objects == model->cap_objects) {
        model->cap_objects = model->cap_objects == 0 ? 16 : 2 * model->cap_objects;
        model->objects =
            weft_realloc(model->objects, model->cap_objects * sizeof(*model->objects));
    }
    struct model_object *object = &model->objects[model->n_objects++];
    *object = (struct model_object){.kind = kind,
                                    .number = verb->number,
                                    .user = verb->user,
                                    .doorbells = {SIM_NO_NUMBER, SIM_NO_NUMBER}};
    return object;
}

/* Returns NULL if the object was created before the model watched. */
static struct model_object *model_find(struct nic_model *model, enum model_kind kind,
                                       uint32_t number)
{
    for (uint32_t i = 0; i < model->n_objects; i++) {
        if (model->objects[i].kind == kind && model->objects[i].number == number) {
            return &model->objects[i];
        }
    }
    return NULL;
}

static void model_remove(struct nic_model *model, struct model_object *object)
{
    struct model_process *process = model_process(model, object->user);
    for (unsigned i = 0; i < 2; i++) {
        if (object->doorbells[i] != SIM_NO_NUMBER) {
            sim_number_give(&process->doorbells[object->list], object->doorbells[i]);
        }
    }
    *object = model->objects[--model->n_objects];
}

static uint32_t model_log2(uint32_t pow2)
{
    uint32_t log2 = 0;
    while (pow2 >> log2 > 1) {
        log2++;
    }
    return log2;
}

static uint32_t model_pages(uint64_t bytes)
{
    return (uint32_t)((bytes + MODEL_PAGE_BYTES - 1) / MODEL_PAGE_BYTES);
}

/* Returns the number of pages that [addr, addr + length) touches. */
static uint64_t model_touched(uint64_t addr, uint64_t length)
{
    uint64_t end = (addr + length + MODEL_PAGE_BYTES - 1) / MODEL_PAGE_BYTES;
    return end - addr / MODEL_PAGE_BYTES;
}

/* Takes a slot of `bytes` bytes from the user's list, and appends a step called `what`.
 * Returns the slot. */
static uint32_t model_take_doorbell(struct nic_model *model, struct nic_account *out,
                                    uint32_t user, enum model_doorbells list,
                                    uint32_t bytes, const char *what)
{
    uint32_t per_page = MODEL_PAGE_BYTES / bytes;
    uint32_t slot =
        sim_number_take(&model_process(model, user)->doorbells[list], 0, SIM_NO_NUMBER);
    model_step(out, "library", what, slot % per_page == 0 ? "a new page, pinned" : NULL,
               "page=%u slot=%u offset=0x%x bytes=%u slots_per_page=%u", slot / per_page,
               slot % per_page, slot % per_page * bytes, bytes, per_page);
    return slot;
}

/* Formats the names of the attributes in a mask: "pkey_index,port". */
static void model_mask_names(int mask, char *out, size_t out_bytes)
{
    static const struct {
        int bit;
        const char *name;
    } names[] = {
        {IBV_QP_CUR_STATE, "cur_state"},
        {IBV_QP_EN_SQD_ASYNC_NOTIFY, "sqd_notify"},
        {IBV_QP_ACCESS_FLAGS, "access"},
        {IBV_QP_PKEY_INDEX, "pkey_index"},
        {IBV_QP_PORT, "port"},
        {IBV_QP_AV, "av"},
        {IBV_QP_PATH_MTU, "path_mtu"},
        {IBV_QP_TIMEOUT, "timeout"},
        {IBV_QP_RETRY_CNT, "retry_cnt"},
        {IBV_QP_RNR_RETRY, "rnr_retry"},
        {IBV_QP_RQ_PSN, "rq_psn"},
        {IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic"},
        {IBV_QP_MIN_RNR_TIMER, "min_rnr_timer"},
        {IBV_QP_SQ_PSN, "sq_psn"},
        {IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic"},
        {IBV_QP_DEST_QPN, "dest_qpn"},
    };
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < WEFT_LENGTH(names); i++) {
        if ((mask & names[i].bit) != 0 && n < out_bytes) {
            weft_format(out + n, out_bytes - n, "%s%s", n > 0 ? "," : "", names[i].name);
            n += strlen(out + n);
        }
    }
}

/* ---- hns ---- */

/* HiSilicon hns (Linux 6.12 drivers/infiniband/hw/hns and its user library). Commands use
 * a mailbox; a queue pair's context is written with its first change of state. */

enum {
    HNS_MAILBOX_BYTES = 4096,
    HNS_POST_MB = 0x8504, /* hns_roce_hw_v2.h, HNS_ROCE_OPC_POST_MB */
    HNS_DOORBELL_BYTES = 4,
    HNS_SQ_WQE_BYTES = 64,
    HNS_SGES_IN_WQE = 2,
    HNS_BA_ENTRIES = MODEL_PAGE_BYTES / 8 /* addresses per page of addresses */
};

static bool is_hip08(const struct nic_model *model)
{
    return model->profile->cqe_bytes == 32;
}

static void hns_mailbox(struct nic_account *out, const char *command, const char *opcode,
                        uint32_t context_bytes, const char *note)
{
    char within[24];
    model_took(out, within, sizeof(within));
    model_step(out, "device", "mailbox", note,
               "command=%s op=%s post=0x%x buffer=%u context=%u within_ns=%s", command,
               opcode, HNS_POST_MB, HNS_MAILBOX_BYTES, context_bytes, within);
}

/* Appends the step of a multi-hop translation: pages of addresses refer to the pages of a
 * buffer. */
static void hns_region(struct nic_account *out, const char *name, unsigned hops,
                       uint64_t bytes)
{
    uint32_t pages = model_pages(bytes);
    uint32_t tables = hops == 0 ? 0 : (pages + HNS_BA_ENTRIES - 1) / HNS_BA_ENTRIES;
    model_step(out, "driver", "MTR", NULL,
               "region=%s hops=%u bytes=%llu pages=%u address_pages=%u", name, hops,
               (unsigned long long)bytes, pages, tables + (hops > 1 ? 1 : 0));
}

static void hns_alloc_pd(const struct nic_model *model, const struct nic_verb *verb,
                         struct nic_account *out)
{
    model_step(out, "driver", "PDN", "a number, and no word to the device",
               "pdn=%u range=0..%u bits=24", verb->number, model->profile->max_pd - 1);
}

static void hns_create_cq(struct nic_model *model, const struct nic_verb *verb,
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
                                           HNS_DOORBELL_BYTES, "doorbell record");
    hns_region(out, "cqe", 1, bytes);
    model_step(out, "driver", "CQN", "id<<2|bank, least loaded of 4",
               "cqn=%u id=%u bank=%u loads=%u,%u,%u,%u", verb->number, verb->number >> 2,
               verb->number & 3, loads[0], loads[1], loads[2], loads[3]);
    loads[verb->number & 3]++;
    model_step(out, "driver", "CQC", "by mailbox",
               "state=VALID arm=NO_ARMED shift=%u ceqn=0 cqn=%u cqe_bytes=%u hop=1 db=on",
               model_log2(verb->cqe), verb->number, model->profile->cqe_bytes);
    hns_mailbox(out, "CREATE_CQC", "0x16", 64, NULL);
}

/* Returns the number of entries of the ring for SGEs beyond those in a WQE, and for
 * inline data. */
static uint32_t hns_ext_sges(const struct nic_model *model, const struct ibv_qp_cap *cap)
{
    uint32_t sges = cap->max_send_sge;
    if (!is_hip08(model) && cap->max_inline_data > HNS_SGES_IN_WQE * SGE_BYTES) {
        uint32_t for_inline = (cap->max_inline_data + SGE_BYTES - 1) / SGE_BYTES;
        sges = sges > for_inline ? sges : for_inline;
    }
    if (sges <= HNS_SGES_IN_WQE) {
        return 0;
    }
    uint32_t n = sim_round_up_pow2(cap->max_send_wr * (sges - HNS_SGES_IN_WQE));
    uint32_t page = MODEL_PAGE_BYTES / SGE_BYTES;
    return n > page ? n : page;
}

static void hns_create_qp(struct nic_model *model, const struct nic_verb *verb,
                          struct nic_account *out)
{
    struct model_object *qp = model_add(model, MODEL_QP, verb);
    const struct ibv_qp_cap *cap = &verb->granted;
    uint32_t gs =
        cap->max_recv_wr > 0 ? cap->max_recv_sge + model->profile->recv_sge_reserved : 0;
    uint64_t sq = (uint64_t)cap->max_send_wr * HNS_SQ_WQE_BYTES;
    uint64_t ext = (uint64_t)hns_ext_sges(model, cap) * SGE_BYTES;
    uint64_t rq = (uint64_t)cap->max_recv_wr * gs * SGE_BYTES;
    qp->pages = model_pages(sq) + model_pages(ext) + model_pages(rq);
    model_step(out, "library", "queues", "pow2(max(asked, 64))",
               "sq_asked=%u sq=%u rq_asked=%u rq=%u inline_asked=%u inline=%u",
               verb->asked.max_send_wr, cap->max_send_wr, verb->asked.max_recv_wr,
               cap->max_recv_wr, verb->asked.max_inline_data, cap->max_inline_data);
    model_step(out, "library", "buffer", "SQ, ext-SGE ring, RQ, each from a page on",
               "sq_wqe=%u ext_sges=%llu rq_wqe=%u pages=%u", HNS_SQ_WQE_BYTES,
               (unsigned long long)(ext / SGE_BYTES), gs * SGE_BYTES, qp->pages);
    qp->doorbells[0] = model_take_doorbell(model, out, verb->user, MODEL_DB_QP,
                                           HNS_DOORBELL_BYTES, "SQ doorbell record");
    if (cap->max_recv_wr > 0) {
        qp->doorbells[1] = model_take_doorbell(model, out, verb->user, MODEL_DB_QP,
                                               HNS_DOORBELL_BYTES, "RQ doorbell record");
    }
    hns_region(out, "sq", 2, sq);
    if (ext > 0) {
        hns_region(out, "ext_sge", 1, ext);
    }
    if (rq > 0) {
        hns_region(out, "rq", 2, rq);
    }
    model_step(out, "driver", "QPN", "id<<3|bank, one of two tied to the CQ's",
               "qpn=%u id=%u bank=%u send_cqn=%u cq_bank=%u", verb->number,
               verb->number >> 3, verb->number & 7, verb->send_cqn, verb->send_cqn & 3);
    model_step(out, "driver", "QPC", "not written yet: RESET to INIT does", "bytes=0");
}

struct hns_transition {
    enum ibv_qp_state from, to;
    const char *command, *opcode;
    const char *fields; /* in addition to those of the mask */
};

static const struct hns_transition hns_transitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, "RST2INIT_QPC", "0x19",
     "pdn,send_cqn,recv_cqn,sq_shift,rq_shift,db_records,sges"},
    {IBV_QPS_INIT, IBV_QPS_RTR, "INIT2RTR_QPC", "0x1a",
     "rq_mtr,dmac,smac_index,sport,dgid,sgid_index,dqpn,resources"},
    {IBV_QPS_RTR, IBV_QPS_RTS, "RTR2RTS_QPC", "0x1b", "sq_mtr,ext_sge_mtr,first_psn"},
    {IBV_QPS_RTS, IBV_QPS_RTS, "RTS2RTS_QPC", "0x1c", "none"},
};

static void hns_write_qpc(const struct nic_model *model, const struct nic_verb *verb,
                          struct nic_account *out)
{
    static const struct hns_transition to_error = {IBV_QPS_RTS, IBV_QPS_ERR, "2ERR_QPC",
                                                   "0x1e", "none"};
    static const struct hns_transition to_reset = {IBV_QPS_RTS, IBV_QPS_RESET, "2RST_QPC",
                                                   "0x21", "none"};
    const struct hns_transition *found = NULL;
    uint32_t bytes = is_hip08(model) ? 256 : 512;
    char names[120];
    for (size_t i = 0; i < sizeof(hns_transitions) / sizeof(hns_transitions[0]); i++) {
        if (hns_transitions[i].from == verb->from && hns_transitions[i].to == verb->to) {
            found = &hns_transitions[i];
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
    hns_mailbox(out, found != NULL ? found->command : "none",
                found != NULL ? found->opcode : "none", 2 * bytes, NULL);
}

static void hns_modify_qp(const struct nic_model *model, const struct nic_verb *verb,
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
    hns_write_qpc(model, verb, out);
}

static void hns_reg_mr(struct nic_model *model, const struct nic_verb *verb,
                       struct nic_account *out)
{
    struct model_object *mr = model_add(model, MODEL_MR, verb);
    uint64_t pages = model_touched(verb->addr, verb->length);
    mr->pages = (uint32_t)pages;
    hns_region(out, "pbl", 2, pages * MODEL_PAGE_BYTES);
    model_step(out, "driver", "MPT", "24 + 8 bits",
               "asked_bytes=%llu index=%u lkey=0x%x rkey=0x%x pdn=%u access=0x%x",
               (unsigned long long)verb->length, verb->number >> 8, verb->number,
               verb->number, verb->pdn, (unsigned)verb->access);
    hns_mailbox(out, "CREATE_MPT", "?", 64, "op unknown here");
}

static void hns_dereg_mr(struct nic_model *model, const struct nic_verb *verb,
                         struct nic_account *out)
{
    struct model_object *mr = model_find(model, MODEL_MR, verb->number);
    hns_mailbox(out, "DESTROY_MPT", "?", 0, "op unknown here");
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
static void hns_release(struct nic_model *model, struct model_object *object,
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

static void hns_destroy_cq(struct nic_model *model, const struct nic_verb *verb,
                           struct nic_account *out)
{
    struct model_object *cq = model_find(model, MODEL_CQ, verb->number);
    if (cq != NULL) {
        model->cqs_in_bank[verb->number & 3]--;
    }
    hns_mailbox(out, "DESTROY_CQC", "?", 0, "op unknown here");
    hns_release(model, cq, out);
}

static void hns_create_srq(struct nic_model *model, const struct nic_verb *verb,
                           struct nic_account *out)
{
    struct model_object *srq = model_add(model, MODEL_SRQ, verb);
    const struct ibv_qp_cap *cap = &verb->granted;
    uint64_t bytes = (uint64_t)sim_round_up_pow2(cap->max_recv_wr) *
                     sim_round_up_pow2(cap->max_recv_sge) * SGE_BYTES;
    srq->pages = model_pages(bytes);
    model_step(out, "library", "buffer", NULL, "asked=%u entries=%u bytes=%llu pages=%u",
               verb->asked.max_recv_wr, cap->max_recv_wr, (unsigned long long)bytes,
               srq->pages);
    srq->list = MODEL_DB_SRQ;
    srq->doorbells[0] = model_take_doorbell(model, out, verb->user, MODEL_DB_SRQ,
                                            HNS_DOORBELL_BYTES, "doorbell record");
    hns_mailbox(out, "CREATE_SRQ", "?", 64, "op unknown here");
}

static void hns_destroy_qp(struct nic_model *model, const struct nic_verb *verb,
                           struct nic_account *out)
{
    struct model_object *qp = model_find(model, MODEL_QP, verb->number);
    if (verb->from != IBV_QPS_RESET) {
        struct nic_verb reset = *verb;
        reset.mask = IBV_QP_STATE;
        reset.to = IBV_QPS_RESET;
        hns_write_qpc(model, &reset, out);
    }
    hns_release(model, qp, out);
}

static void model_hns(struct nic_model *model, const struct nic_verb *verb,
                      struct nic_account *out)
{
    switch (verb->verb) {
    case SIM_VERB_ALLOC_PD:
        hns_alloc_pd(model, verb, out);
        break;
    case SIM_VERB_DEALLOC_PD:
        model_step(out, "driver", "PDN", "free again", "pdn=%u", verb->number);
        break;
    case SIM_VERB_REG_MR:
        hns_reg_mr(model, verb, out);
        break;
    case SIM_VERB_DEREG_MR:
        hns_dereg_mr(model, verb, out);
        break;
    case SIM_VERB_CREATE_CQ:
        hns_create_cq(model, verb, out);
        break;
    case SIM_VERB_DESTROY_CQ:
        hns_destroy_cq(model, verb, out);
        break;
    case SIM_VERB_CREATE_QP:
        hns_create_qp(model, verb, out);
        break;
    case SIM_VERB_MODIFY_QP:
        hns_modify_qp(model, verb, out);
        break;
    case SIM_VERB_DESTROY_QP:
        hns_destroy_qp(model, verb, out);
        break;
    case SIM_VERB_CREATE_SRQ:
        hns_create_srq(model, verb, out);
        break;
    case SIM_VERB_MODIFY_SRQ:
        hns_mailbox(out, "MODIFY_SRQ", "?", 64, "op unknown here");
        break;
    case SIM_VERB_DESTROY_SRQ:
        hns_mailbox(out, "DESTROY_SRQ", "?", 0, "op unknown here");
        hns_release(model, model_find(model, MODEL_SRQ, verb->number), out);
        break;
    case SIM_N_VERBS:
        break;
    }
}

/* ---- mlx5 ---- */

/* mlx5: every object is created by a command to the device, and a queue pair has its
 * context from the start. Op codes and sizes are from memory of mlx5_ifc.h and the user
 * library. */

enum {
    MLX5_DOORBELL_BYTES = 64, /* a record of 8 bytes, on a cache line of its own */
    MLX5_SEND_BB_BYTES = 64
};

static void mlx5_command(struct nic_account *out, const char *name, unsigned opcode)
{
    char within[24];
    model_took(out, within, sizeof(within));
    model_step(out, "device", "command", "op code from memory of mlx5_ifc.h",
               "name=%s op=0x%x within_ns=%s", name, opcode, within);
}

static void mlx5_create_cq(struct nic_model *model, const struct nic_verb *verb,
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
                                           MLX5_DOORBELL_BYTES, "doorbell record");
    mlx5_command(out, "CREATE_CQ", 0x400);
    model_step(out, "device", "CQN", NULL, "cqn=%u", verb->number);
}

static void mlx5_create_qp(struct nic_model *model, const struct nic_verb *verb,
                           struct nic_account *out)
{
    struct model_object *qp = model_add(model, MODEL_QP, verb);
    const struct ibv_qp_cap *cap = &verb->granted;
    uint32_t stride = sim_round_up_pow2(SGE_BYTES * (cap->max_recv_sge + 0u));
    model_step(out, "library", "queues", "basic blocks; the RQ lies first",
               "sq=%u rq=%u send_bb=%u rq_stride=%u inline=%u", cap->max_send_wr,
               cap->max_recv_wr, MLX5_SEND_BB_BYTES, stride, cap->max_inline_data);
    qp->doorbells[0] = model_take_doorbell(model, out, verb->user, MODEL_DB_QP,
                                           MLX5_DOORBELL_BYTES, "doorbell record");
    model_step(out, "driver", "QPC", "whole, in the command that makes it",
               "pdn=%u send_cqn=%u recv_cqn=%u state=RESET", verb->pdn, verb->send_cqn,
               verb->recv_cqn);
    mlx5_command(out, "CREATE_QP", 0x500);
    model_step(out, "device", "QPN", NULL, "qpn=%u", verb->number);
}

static void mlx5_modify_qp(const struct nic_verb *verb, struct nic_account *out)
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
        mlx5_command(out, is_error ? "2ERR_QP" : "2RST_QP", is_error ? 0x507 : 0x50a);
        return;
    }
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (steps[i].from == verb->from && steps[i].to == verb->to) {
            mlx5_command(out, steps[i].name, steps[i].opcode);
        }
    }
}

static void mlx5_reg_mr(struct nic_model *model, const struct nic_verb *verb,
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
    mlx5_command(out, "CREATE_MKEY", 0x200);
}

static void mlx5_destroy(struct nic_model *model, enum model_kind kind,
                         const struct nic_verb *verb, struct nic_account *out)
{
    static const char *const names[] = {[MODEL_CQ] = "DESTROY_CQ",
                                        [MODEL_MR] = "DESTROY_MKEY",
                                        [MODEL_QP] = "DESTROY_QP"};
    static const unsigned opcodes[] = {
        [MODEL_CQ] = 0x401, [MODEL_MR] = 0x202, [MODEL_QP] = 0x501};
    struct model_object *object = model_find(model, kind, verb->number);
    mlx5_command(out, names[kind], opcodes[kind]);
    if (object != NULL) {
        model_step(out, "driver", "pages", "unlocked", "pages=%u", object->pages);
        model_remove(model, object);
    }
}

static void model_mlx5(struct nic_model *model, const struct nic_verb *verb,
                       struct nic_account *out)
{
    switch (verb->verb) {
    case SIM_VERB_ALLOC_PD:
        mlx5_command(out, "ALLOC_PD", 0x800);
        model_step(out, "device", "PDN", NULL, "pdn=%u", verb->number);
        break;
    case SIM_VERB_DEALLOC_PD:
        mlx5_command(out, "DEALLOC_PD", 0x801);
        break;
    case SIM_VERB_REG_MR:
        mlx5_reg_mr(model, verb, out);
        break;
    case SIM_VERB_CREATE_CQ:
        mlx5_create_cq(model, verb, out);
        break;
    case SIM_VERB_CREATE_QP:
        mlx5_create_qp(model, verb, out);
        break;
    case SIM_VERB_MODIFY_QP:
        mlx5_modify_qp(verb, out);
        break;
    case SIM_VERB_DEREG_MR:
        mlx5_destroy(model, MODEL_MR, verb, out);
        break;
    case SIM_VERB_DESTROY_CQ:
        mlx5_destroy(model, MODEL_CQ, verb, out);
        break;
    case SIM_VERB_DESTROY_QP:
        mlx5_destroy(model, MODEL_QP, verb, out);
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

/* ---- rxe ---- */

/* Soft-RoCE: objects are entries of pools in the kernel, queues are kernel pages that the
 * process maps, and there is no device to command (Linux 6.12
 * drivers/infiniband/sw/rxe). */

static void rxe_pool(struct nic_account *out, const char *name, uint32_t index)
{
    model_step(out, "driver", "pool", "an index; no device takes part",
               "pool=%s index=%u", name, index);
}

static void rxe_destroy(struct nic_model *model, enum model_kind kind,
                        const struct nic_verb *verb, struct nic_account *out)
{
    struct model_object *object = model_find(model, kind, verb->number);
    model_step(out, "driver", "pool", "freed when the last reference goes", "index=%u",
               kind == MODEL_MR ? verb->number >> 8 : verb->number);
    if (object != NULL) {
        model_remove(model, object);
    }
}

static void rxe_create_qp(struct nic_model *model, const struct nic_verb *verb,
                          struct nic_account *out)
{
    (void)model_add(model, MODEL_QP, verb);
    rxe_pool(out, "qp", verb->number);
    model_step(out, "driver", "queues", "kernel memory that the process maps",
               "sq=%u rq=%u inline=%u", verb->granted.max_send_wr,
               verb->granted.max_recv_wr, verb->granted.max_inline_data);
}

static void rxe_create_cq(struct nic_model *model, const struct nic_verb *verb,
                          struct nic_account *out)
{
    uint32_t entry = model->profile->cqe_bytes;
    (void)model_add(model, MODEL_CQ, verb);
    rxe_pool(out, "cq", verb->number);
    model_step(out, "driver", "queue", "kernel memory that the process maps",
               "asked=%u entries=%u cqe_bytes=%u", verb->asked_cqe, verb->cqe, entry);
}

static void rxe_reg_mr(struct nic_model *model, const struct nic_verb *verb,
                       struct nic_account *out)
{
    struct model_object *mr = model_add(model, MODEL_MR, verb);
    mr->pages = (uint32_t)model_touched(verb->addr, verb->length);
    rxe_pool(out, "mr", verb->number >> 8);
    model_step(out, "driver", "pages", "locked, and kept in a table of the kernel",
               "bytes=%llu pages=%u lkey=0x%x rkey=0x%x",
               (unsigned long long)verb->length, mr->pages, verb->number, verb->number);
}

static void model_rxe(struct nic_model *model, const struct nic_verb *verb,
                      struct nic_account *out)
{
    char names[120];
    switch (verb->verb) {
    case SIM_VERB_ALLOC_PD:
        rxe_pool(out, "pd", verb->number);
        break;
    case SIM_VERB_REG_MR:
        rxe_reg_mr(model, verb, out);
        break;
    case SIM_VERB_CREATE_CQ:
        rxe_create_cq(model, verb, out);
        break;
    case SIM_VERB_CREATE_QP:
        rxe_create_qp(model, verb, out);
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
        rxe_destroy(model, MODEL_MR, verb, out);
        break;
    case SIM_VERB_DESTROY_CQ:
        rxe_destroy(model, MODEL_CQ, verb, out);
        break;
    case SIM_VERB_DESTROY_QP:
        rxe_destroy(model, MODEL_QP, verb, out);
        break;
    case SIM_VERB_CREATE_SRQ:
    case SIM_VERB_MODIFY_SRQ:
        rxe_pool(out, "srq", verb->number);
        break;
    case SIM_VERB_DESTROY_SRQ:
        model_step(out, "driver", "pool", "freed when the last reference goes",
                   "index=%u", verb->number);
        break;
    case SIM_N_VERBS:
        break;
    }
}

/* ---- any driver ---- */

/* Sets the texts of the object and its change: "QP 96", "RESET to INIT". */
static void name_object(const struct nic_verb *verb, struct nic_account *out)
{
    static const char *const verbs[SIM_N_VERBS] = {
        [SIM_VERB_ALLOC_PD] = "alloc_pd",     [SIM_VERB_DEALLOC_PD] = "dealloc_pd",
        [SIM_VERB_REG_MR] = "reg_mr",         [SIM_VERB_DEREG_MR] = "dereg_mr",
        [SIM_VERB_CREATE_CQ] = "create_cq",   [SIM_VERB_DESTROY_CQ] = "destroy_cq",
        [SIM_VERB_CREATE_QP] = "create_qp",   [SIM_VERB_MODIFY_QP] = "modify_qp",
        [SIM_VERB_DESTROY_QP] = "destroy_qp", [SIM_VERB_CREATE_SRQ] = "create_srq",
        [SIM_VERB_MODIFY_SRQ] = "modify_srq", [SIM_VERB_DESTROY_SRQ] = "destroy_srq",
    };
    static const char *const kinds[SIM_N_VERBS] = {
        [SIM_VERB_ALLOC_PD] = "PD",    [SIM_VERB_DEALLOC_PD] = "PD",
        [SIM_VERB_REG_MR] = "MR",      [SIM_VERB_DEREG_MR] = "MR",
        [SIM_VERB_CREATE_CQ] = "CQ",   [SIM_VERB_DESTROY_CQ] = "CQ",
        [SIM_VERB_CREATE_QP] = "QP",   [SIM_VERB_MODIFY_QP] = "QP",
        [SIM_VERB_DESTROY_QP] = "QP",  [SIM_VERB_CREATE_SRQ] = "SRQ",
        [SIM_VERB_MODIFY_SRQ] = "SRQ", [SIM_VERB_DESTROY_SRQ] = "SRQ",
    };
    bool is_making = verb->verb == SIM_VERB_ALLOC_PD || verb->verb == SIM_VERB_REG_MR ||
                     verb->verb == SIM_VERB_CREATE_CQ ||
                     verb->verb == SIM_VERB_CREATE_QP ||
                     verb->verb == SIM_VERB_CREATE_SRQ;
    out->verb = verbs[verb->verb];
    if (is_making && verb->error != 0) {
        weft_format(out->object, sizeof(out->object), "%s", kinds[verb->verb]);
    } else if (verb->verb == SIM_VERB_MODIFY_QP) {
        weft_format(out->object, sizeof(out->object), "QP %u", verb->number);
        weft_format(out->change, sizeof(out->change), "%s to %s",
                    sim_qp_state_name(verb->from), sim_qp_state_name(verb->to));
    } else if (verb->verb == SIM_VERB_REG_MR || verb->verb == SIM_VERB_DEREG_MR) {
        weft_format(out->object, sizeof(out->object), "MR 0x%x", verb->number);
    } else {
        weft_format(out->object, sizeof(out->object), "%s %u", kinds[verb->verb],
                    verb->number);
    }
}

void nic_model_verb(struct nic_model *model, const struct nic_verb *verb,
                    struct nic_account *out)
{
    memset(out, 0, sizeof(*out));
    out->began = verb->began;
    out->ended = verb->ended;
    out->error = verb->error;
    out->is_forgotten = verb->is_forgotten;
    name_object(verb, out);
    if (verb->error != 0) {
        model_step(out, "driver", "refused", "nothing changed", "errno=%d", verb->error);
    } else if (model->profile->objects == SIM_OBJECTS_HNS) {
        model_hns(model, verb, out);
    } else if (model->profile->objects == SIM_OBJECTS_MLX5) {
        model_mlx5(model, verb, out);
    } else if (model->profile->objects == SIM_OBJECTS_RXE) {
        model_rxe(model, verb, out);
    }
    if (verb->waited > 0) {
        model_step(out, "device", "waited", "a stall, a queue or a fault", "ns=%lld",
                   (long long)(verb->waited / 1000));
    }
}
