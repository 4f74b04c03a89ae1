#include "sim/nic_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/nic_model_impl.h"
#include "sim/nic_objects.h"

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
