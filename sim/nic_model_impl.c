/* Objects, doorbell records and steps, which the models of all drivers use. */
#include "sim/nic_model_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

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
