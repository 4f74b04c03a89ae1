/* Prepares a run without its world: members, rows, and the configuration of each host. Frees it. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "run/job_key.h"
#include "run/private.h"
#include "run/record.h"

/* Longest time in which others may work; longer ones are no limit. */
#define WORK_MAX_NS (RUN_LIMIT_NS * 1000)

_Static_assert(SCENARIO_PATIENCE_MAX == TIMER_PATIENCE_MAX, "one range of patience");

void run_init(struct run *run, const struct scenario *scenario,
              const struct run_options *options)
{
    *run = (struct run){.scenario = scenario, .options = options};
    run->seed = options->has_seed ? options->seed : scenario->seed;
    run->policy = options->has_policy ? options->policy : scenario->policy;
    run_story_init(&run->story, options);
}

/* Makes the members: ranks in order, then one process for each host without a rank. */
static void place_members(struct run *run)
{
    const struct scenario_world *plan = run->plan;
    uint32_t n_hosts = plan->spec.n_hosts;
    bool *has_rank = weft_calloc(n_hosts + 1, sizeof(*has_rank));
    size_t n_max = (size_t)plan->n_ranks + n_hosts + 1;

    run->n_ranks = plan->n_ranks;
    run->member_hosts = weft_calloc(n_max, sizeof(*run->member_hosts));
    run->member_processes = weft_calloc(n_max, sizeof(*run->member_processes));
    for (uint32_t rank = 0; rank < plan->n_ranks; rank++) {
        run->member_hosts[rank] = plan->ranks[rank].host;
        run->member_processes[rank] = plan->ranks[rank].local_rank;
        has_rank[plan->ranks[rank].host] = true;
    }
    run->n_members = run->n_ranks;
    for (uint32_t host = 0; host < n_hosts; host++) {
        if (!has_rank[host]) {
            run->member_hosts[run->n_members++] = host;
        }
    }
    run->hosts = weft_calloc(run->n_members + 1, sizeof(struct host *));
    free(has_rank);
}

weft_status run_plan(struct run *run, struct weft_error *error)
{
    weft_status status;

    if (scenario_has_programs(run->scenario)) {
        return weft_fail(error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_EXEC,
                         "its jobs are programs, which only weft run runs");
    }
    if (run->scenario->n_ranks == 0) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_SCENARIO,
                         "no host has a rank");
    }
    status = scenario_to_world(run->scenario, &run->plan);
    if (status != WEFT_OK) {
        return weft_fail(error, status, WEFT_PHASE_SCENARIO,
                         "cannot build the fabric that it describes: %s",
                         weft_status_name(status));
    }
    run->plan->spec.seed = run->seed;
    run->plan->spec.is_timing_only = run_is_timing(run);
    run->plan->spec.rare_ppb = run->scenario->rare_ppb;
    run->plan->spec.no_trains = run->options->no_trains;
    run->plan->spec.trace = &run->story.trace;
    run->plan->spec.log = run->options->log;
    run_insides_make(run->plan, &run->insides);
    place_members(run);
    status = run_boot_check(run, error);
    if (status != WEFT_OK) {
        return status;
    }
    run_boot_make(run);
    run_graph(&run->plan->spec, &run->graph);
    run->map = (struct host_map){.graph = &run->graph, .member_hosts = run->member_hosts};
    run_rows_make(run);
    run_mesh_make(run);
    return run_rows_check(run, error);
}

/* Returns how long the others may work after this member's last row. A rank can be a row ahead of
 * the next one. A member without a rank has no rows, so it waits for all of them. */
static weft_ns work_of_others(const struct run *run, uint32_t member)
{
    weft_ns longest = 0, all = 0;

    for (uint32_t i = 0; i < run->n_rows; i++) {
        weft_ns limit = run->rows[i].limit_ns;

        longest = limit > longest ? limit : longest;
        all = limit < WORK_MAX_NS - all ? all + limit : WORK_MAX_NS;
    }
    return member >= run->n_ranks ? all : longest < WORK_MAX_NS ? longest : WORK_MAX_NS;
}

void run_configure_member(const struct run *run, uint32_t member,
                          struct host_config *config)
{
    config->rank = member;
    config->n_rows = member < run->n_ranks ? run->n_rows : 0;
    config->work_ns = work_of_others(run, member);
    run_boot_configure(run, member, &config->boot);
    run_choose_nic(run, member, &config->conn);
}

void run_configure(const struct run *run, struct host_config *config)
{
    host_config_default(config);
    config->n_ranks = run->n_ranks;
    config->n_members = run->n_members;
    config->map = &run->map;
    config->rows = run->rows;
    config->n_rows = run->n_rows;
    config->seed = run->seed;
    config->answers = run->answers;
    config->is_timing_only = run_is_timing(run);
    config->conn.policy = run->policy;
    /* NCCL tries longer, and its policies keep its times. */
    config->boot.hopeless_ns = run->policy == WEFT_POLICY_WEFT ? RUN_HOPELESS_NS : 0;
    config->boot.ignored_ns = run->policy == WEFT_POLICY_WEFT ? config->boot.step_ns : 0;
    host_config_stretch(config, run->scenario->patience);
    config->conn.over_management = run->policy != WEFT_POLICY_WEFT;
    config->conn.window_bytes = XFER_WINDOW_BYTES;
    run_job_key(run->seed, run->options->secret, config->boot.job_key);
    config->conn.has_secret = true;
    memcpy(config->conn.secret, config->boot.job_key, sizeof(config->conn.secret));
    config->mesh = &run->mesh;
}

bool run_stops_for_good(const struct run *run, uint32_t host)
{
    const struct world_spec *spec = &run->plan->spec;

    for (uint32_t i = 0; i < spec->n_faults; i++) {
        const struct world_fault *fault = &spec->faults[i];

        if (fault->kind == WORLD_FAULT_STOP && fault->for_ns == 0 &&
            fault->host == host) {
            return true;
        }
    }
    return false;
}

bool run_reports_ends(const struct run *run)
{
    return run->policy == WEFT_POLICY_WEFT && run->world->ops->report_ended != NULL;
}

void run_fini(struct run *run)
{
    for (uint32_t i = 0; i < run->n_members; i++) {
        if (run->are_records) {
            run_record_free(run->hosts[i]);
        } else {
            host_destroy(run->hosts[i]);
        }
    }
    if (run->world != NULL) {
        run->world->ops->destroy(run->world);
    }
    free(run->came.faults);
    free(run->hosts);
    if (run->answers != NULL) {
        oracle_memo_fini(run->answers);
    }
    free(run->answers);
    run_insides_fini(&run->insides);
    coll_mesh_fini(&run->mesh);
    run_boot_fini(run);
    free(run->member_hosts);
    free(run->member_processes);
    free(run->rows);
    free(run->limits_ps);
    free(run->outcomes);
    mesh_graph_fini(&run->graph);
    diag_findings_fini(&run->findings);
    diag_input_fini(&run->observations);
    json_decref(run->expectations);
    run_wire_free(run->wire);
    scenario_world_free(run->plan);
}
