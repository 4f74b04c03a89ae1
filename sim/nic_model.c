#include "sim/nic_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/nic_impl.h"
#include "sim/nic_model_impl.h"

void model_step(struct nic_account *out, const char *who, const char *what,
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

void model_took(const struct nic_account *account, char *out, size_t out_bytes)
{
    if (account->is_forgotten) {
        weft_format(out, out_bytes, "unwaited");
    } else {
        weft_format(out, out_bytes, "%lld",
                    (long long)((account->ended - account->began) / 1000));
    }
}

struct model_process *model_process(struct nic_model *model, uint32_t user)
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

struct model_object *model_add(struct nic_model *model, enum model_kind kind,
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

struct model_object *model_find(struct nic_model *model, enum model_kind kind,
                                uint32_t number)
{
    for (uint32_t i = 0; i < model->n_objects; i++) {
        if (model->objects[i].kind == kind && model->objects[i].number == number) {
            return &model->objects[i];
        }
    }
    return NULL;
}

void model_remove(struct nic_model *model, struct model_object *object)
{
    struct model_process *process = model_process(model, object->user);
    for (unsigned i = 0; i < 2; i++) {
        if (object->doorbells[i] != SIM_NO_NUMBER) {
            sim_number_give(&process->doorbells[object->list], object->doorbells[i]);
        }
    }
    *object = model->objects[--model->n_objects];
}

uint32_t model_pow2(uint32_t n)
{
    return sim_round_up_pow2(n);
}

uint32_t model_log2(uint32_t pow2)
{
    uint32_t log2 = 0;
    while (pow2 >> log2 > 1) {
        log2++;
    }
    return log2;
}

uint32_t model_pages(uint64_t bytes)
{
    return (uint32_t)((bytes + MODEL_PAGE_BYTES - 1) / MODEL_PAGE_BYTES);
}

uint64_t model_touched(uint64_t addr, uint64_t length)
{
    uint64_t end = (addr + length + MODEL_PAGE_BYTES - 1) / MODEL_PAGE_BYTES;
    return end - addr / MODEL_PAGE_BYTES;
}

uint32_t model_take_doorbell(struct nic_model *model, struct nic_account *out,
                             uint32_t user, enum model_doorbells list, uint32_t bytes,
                             const char *what)
{
    uint32_t per_page = MODEL_PAGE_BYTES / bytes;
    uint32_t slot =
        sim_number_take(&model_process(model, user)->doorbells[list], 0, SIM_NO_NUMBER);
    model_step(out, "library", what, slot % per_page == 0 ? "a new page, pinned" : NULL,
               "page=%u slot=%u offset=0x%x bytes=%u slots_per_page=%u", slot / per_page,
               slot % per_page, slot % per_page * bytes, bytes, per_page);
    return slot;
}

void model_mask_names(int mask, char *out, size_t out_bytes)
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
