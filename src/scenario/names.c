#include "scenario/names.h"

#include <string.h>

#include "base/check.h"
#include "io/verbs.h"

const char *const names_of_boots[SCENARIO_N_BOOTS] = {"auto", "rendezvous", "neighbours",
                                                      "static"};

const char *const names_of_payloads[SCENARIO_N_PAYLOADS] = {"moved", "timing"};

const struct names_profile names_of_profiles[NAMES_N_PROFILES] = {
    {"mlx5", 1}, {"hns-hip08", 1},  {"hns-hip09", 1},
    {"rxe", 1},  {"synth2port", 2}, {"minimal", 1}};

const struct names_verb names_of_verbs[NAMES_N_VERBS] = {{"alloc_pd", IO_OP_ALLOC_PD},
                                                         {"dealloc_pd", IO_OP_DEALLOC_PD},
                                                         {"reg_mr", IO_OP_REG_MR},
                                                         {"dereg_mr", IO_OP_DEREG_MR},
                                                         {"create_cq", IO_OP_CREATE_CQ},
                                                         {"destroy_cq", IO_OP_DESTROY_CQ},
                                                         {"create_qp", IO_OP_CREATE_QP},
                                                         {"modify_qp", IO_OP_MODIFY_QP},
                                                         {"destroy_qp", IO_OP_DESTROY_QP},
                                                         {"post_send", -1},
                                                         {"post_recv", -2}};

const struct names_profile *names_profile_find(const char *name)
{
    for (size_t i = 0; i < NAMES_N_PROFILES; i++) {
        if (strcmp(names_of_profiles[i].name, name) == 0) {
            return &names_of_profiles[i];
        }
    }
    return NULL;
}
