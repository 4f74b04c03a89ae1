#include "scenario/names.h"

#include <string.h>

#include "base/check.h"
#include "io/verbs.h"

const char *const names_of_boots[SCENARIO_N_BOOTS] = {"auto", "rendezvous", "neighbours",
                                                      "static"};

const char *const names_of_payloads[SCENARIO_N_PAYLOADS] = {"moved", "timing"};

const char *const names_of_policies[SCENARIO_N_POLICIES] = {"weft",
                                                            "nccl-2.25",
                                                            "nccl-2.30-subnet-aware",
                                                            "mesh-plugin-2026-01",
                                                            "mooncake-2026-06",
                                                            "nccl-2.29-port-recovery"};

const char *const names_of_jobs[SCENARIO_N_JOB_KINDS] = {
    "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
    "all_to_all", "send_recv",      "barrier",    "exec"};

const char *const names_of_algorithms[SCENARIO_N_ALGORITHMS] = {
    "auto",    "ring", "rings", "direct", "exchange", "doubling",
    "halving", "tree", "trees", "chain",  "forward"};

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

const char *scenario_policy_name(enum scenario_policy policy)
{
    weft_check(policy < SCENARIO_N_POLICIES);
    return names_of_policies[policy];
}

bool scenario_policy_parse(const char *name, enum scenario_policy *out)
{
    for (unsigned i = 0; i < SCENARIO_N_POLICIES; i++) {
        if (strcmp(names_of_policies[i], name) == 0) {
            *out = (enum scenario_policy)i;
            return true;
        }
    }
    return false;
}

const char *scenario_job_kind_name(enum scenario_job_kind kind)
{
    weft_check(kind < SCENARIO_N_JOB_KINDS);
    return names_of_jobs[kind];
}

const char *scenario_algorithm_name(enum scenario_algorithm algorithm)
{
    weft_check(algorithm < SCENARIO_N_ALGORITHMS);
    return names_of_algorithms[algorithm];
}
