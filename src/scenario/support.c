/* What the grammar has and no backend of this build can run yet. To be emptied. */

#include <stdio.h>

#include "base/check.h"
#include "base/text.h"
#include "scenario/arena.h"
#include "scenario/names.h"
#include "scenario/scenario.h"

static const bool has_job[SCENARIO_N_JOB_KINDS] = {
    [SCENARIO_ALL_REDUCE] = true,
    [SCENARIO_SEND_RECV] = true,
};

static const bool has_algorithm[SCENARIO_N_ALGORITHMS] = {
    [SCENARIO_ALGORITHM_AUTO] = true,
    [SCENARIO_ALGORITHM_RING] = true,
    [SCENARIO_ALGORITHM_RINGS] = true,
    [SCENARIO_ALGORITHM_DIRECT] = true,
};

static const bool has_reduction_dtype[WEFT_N_DTYPES] = {
    [WEFT_INT32] = true,
    [WEFT_FLOAT32] = true,
};

static const char *const missing_faults[WORLD_N_FAULTS] = {
    [WORLD_FAULT_RESTART] = "restart",
    [WORLD_FAULT_CLOCK] = "clock",
};

static bool say(const struct scenario *scenario, const char **out_key,
                const char *section, uint32_t index, const char *key)
{
    char text[128];
    weft_format(text, sizeof(text), "%s.%u.%s", section, index, key);
    *out_key = arena_strdup(scenario->arena, text);
    return true;
}

static bool is_host_unsupported(const struct scenario *s, const char **out_key)
{
    for (uint32_t i = 0; i < s->n_hosts; i++) {
        const struct scenario_host *host = &s->hosts[i];
        const char *key = host->gpu_topology != NULL ? "gpu"
                          : host->n_ranks == 0       ? "ranks: 0"
                          : host->n_ranks > 1        ? "ranks"
                                                     : NULL;
        if (key != NULL) {
            char text[160];
            weft_format(text, sizeof(text), "topology.nodes.%s.%s", host->name, key);
            *out_key = arena_strdup(s->arena, text);
            return true;
        }
    }
    return false;
}

static bool is_job_unsupported(const struct scenario *s, uint32_t i, const char **out_key)
{
    const struct scenario_job *job = &s->jobs[i];
    char key[96];
    const char *kind = names_of_jobs[job->kind], *what = NULL, *value = NULL;
    if (!has_job[job->kind]) {
        return say(s, out_key, "jobs", i, kind);
    }
    if (!has_algorithm[job->algorithm]) {
        what = "algorithm";
        value = names_of_algorithms[job->algorithm];
    } else if (job->kind == SCENARIO_ALL_REDUCE && job->op != WEFT_SUM) {
        what = "op";
        value = weft_redop_name(job->op);
    } else if (job->kind == SCENARIO_ALL_REDUCE && !has_reduction_dtype[job->dtype]) {
        what = "dtype";
        value = weft_dtype_name(job->dtype);
    }
    if (what == NULL) {
        return false;
    }
    weft_format(key, sizeof(key), "%s.%s: %s", kind, what, value);
    return say(s, out_key, "jobs", i, key);
}

bool scenario_not_implemented(const struct scenario *scenario, const char **out_key)
{
    if (!scenario->management.exists) {
        *out_key = "topology.management: none";
        return true;
    }
    if (is_host_unsupported(scenario, out_key)) {
        return true;
    }
    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        if (is_job_unsupported(scenario, i, out_key)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < scenario->n_faults; i++) {
        const char *kind = missing_faults[scenario->faults[i].spec.kind];
        if (kind != NULL) {
            return say(scenario, out_key, "faults", i, kind);
        }
    }
    return false;
}
