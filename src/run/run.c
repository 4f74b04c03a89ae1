#include "run/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/registry.h"
#include "base/check.h"
#include "base/text.h"
#include "diag/observations.h"
#include "host/loop.h"
#include "run/outlook.h"
#include "run/private.h"
#include "run/programs.h"

/* ---- set-up ---- */

/* Passes a frame on with its time counted from the start of the run. */
static void take_frame(void *context, const struct world_frame *frame)
{
    const struct run *run = context;
    struct world_frame shifted = *frame;

    shifted.at_ns -= run->origin_ns;
    if (run->options->tap != NULL) {
        run->options->tap(run->options->tap_context, &shifted);
    }
    if (run->wire != NULL) {
        run_wire_take(run->wire, &shifted);
    }
}

static weft_status start_capture(struct run *run, struct weft_error *error)
{
    const char *name = run->options->backend->name;
    int problem = run->world->ops->tap(run->world, take_frame, run);

    if (problem == EOPNOTSUPP) {
        return weft_fail(error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_CAPTURE,
                         "backend %s cannot capture frames", name);
    }
    return problem == 0 ? WEFT_OK
                        : weft_fail_errno(error, problem, WEFT_PHASE_CAPTURE,
                                          "backend %s cannot capture frames here", name);
}

/* Passes a verb on with its times counted from the start of the run. */
static void take_nic_verb(void *context, const struct world_nic_verb *verb)
{
    const struct run *run = context;
    struct world_nic_verb shifted = *verb;

    shifted.began_ns -= run->origin_ns;
    shifted.ended_ns -= run->origin_ns;
    run->options->nic(run->options->nic_context, &shifted);
}

static weft_status start_watch(struct run *run, struct weft_error *error)
{
    const struct run_options *options = run->options;
    const struct world_ops *ops = run->world->ops;
    int problem = EOPNOTSUPP;

    if (ops->watch_nic != NULL) {
        problem = ops->watch_nic(run->world, options->nic_host, options->nic_port,
                                 take_nic_verb, run);
    }
    return problem == 0
               ? WEFT_OK
               : weft_fail(error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_WATCH,
                           "backend %s cannot look into a NIC", options->backend->name);
}

static weft_status create_world(struct run *run, struct weft_error *error)
{
    const struct run_options *options = run->options;
    weft_status status =
        backend_create(options->backend, &run->plan->spec, &run->world, error);

    if (status != WEFT_OK) {
        return status;
    }
    run->origin_ns = run->world->ops->now(run->world);
    if (options->nic != NULL) {
        status = start_watch(run, error);
    }
    if (run_has_wire(run)) {
        run->wire = run_wire_create(&run->plan->spec, run_may_be_dark(run));
    }
    return status != WEFT_OK || (options->tap == NULL && run->wire == NULL)
               ? status
               : start_capture(run, error);
}

/* Returns the hosts by their index in the world's loop, [*out_n]; NULL for a process without a
 * member. Sets how long the remaining hosts may run before they count as hung. */
static struct host **create_hosts(struct run *run, uint32_t *out_n, weft_ns *out_hang_ns)
{
    const struct world_spec *spec = &run->plan->spec;
    struct host **by_process;
    struct host_config config;
    weft_ns work_ns = 0;

    *out_n = 0;
    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        *out_n += world_host_processes(&spec->hosts[i]);
    }
    by_process = weft_calloc((size_t)*out_n + 1, sizeof(struct host *));
    run_configure(run, &config);
    for (uint32_t i = 0; i < run->n_members; i++) {
        struct io_env *env = run->world->ops->host_env(run->world, run->member_hosts[i],
                                                       run->member_processes[i]);

        run_configure_member(run, i, &config);
        work_ns = config.work_ns > work_ns ? config.work_ns : work_ns;
        config.start_ns = spec->hosts[run->member_hosts[i]].start_ns;
        run->hosts[i] = host_create(env, &config);
        by_process[env->host] = run->hosts[i];
    }
    /* The limit exceeds every deadline of a rank that lost its peer. Ranks that do not learn of the
     * end may wait for the rendezvous in addition. */
    *out_hang_ns = (run_reports_ends(run) ? 0 : config.boot.patience_ns + work_ns) +
                   timer_limit(TIMER_HANG_NS, run->scenario->patience);
    return by_process;
}

/* ---- running ---- */

static void report_progress(void *context, weft_ns now)
{
    const struct run *run = context;
    const struct host *first = run->hosts[0];
    struct run_progress progress = {.job = first->row, .n_jobs = run->n_rows, .now = now};

    for (uint32_t i = 0; i < run->n_rows; i++) {
        progress.bytes_total += run->rows[i].size_bytes;
        progress.bytes_done += i < first->row ? run->rows[i].size_bytes : 0;
    }
    run->options->progress(run->options->progress_context, &progress);
}

static bool any_failed(const struct run *run)
{
    for (uint32_t i = 0; i < run->n_members; i++) {
        if (run->hosts[i]->state != HOST_DONE) {
            return true;
        }
    }
    for (uint32_t row = 0; row < run->n_rows; row++) {
        if (run->outcomes[row].n_wrong > 0) {
            return true;
        }
    }
    return false;
}

static bool is_stopped(void *context, const struct host *host)
{
    const struct run *run = context;
    const struct io_env *env = host->env;

    return run_stops_for_good(run, env->world_host) &&
           io_loop_is_paused(run->world->ops->loop(run->world), env->host);
}

/* Runs all hosts in this process. */
static void run_loop(struct run *run)
{
    struct host **by_process;
    struct host_loop loop = {
        .world = run->world,
        .limit_ns = RUN_LIMIT_NS,
        .reports_ends = run_reports_ends(run),
        .progress = run->options->progress != NULL ? report_progress : NULL,
        .is_stopped = is_stopped,
        .context = run,
    };

    run->answers = weft_calloc(1, sizeof(*run->answers));
    by_process = create_hosts(run, &loop.n_hosts, &loop.hang_ns);
    loop.hosts = by_process;
    run->loop_status = host_loop_run(&loop, &run->loop_error);
    run->ended_ns = run->world->ops->now(run->world);
    free(by_process);
}

void run_evaluate(struct run *run)
{
    struct run_outlook outlook;

    run_rows_evaluate(run);
    run->has_failed = any_failed(run);
    run_outlook_make(run_as_it_came(run), run->policy, &outlook);
    run->is_connected = outlook.is_connected;
    run_outlook_fini(&outlook);
    run_observe(run, &run->observations);
    diag(&run->observations, &run->findings);
    run_judge(run);
    run_judge_invariants(run);
}

enum run_result run_result_of(const struct run *run, struct weft_error *error)
{
    if (run->loop_status == WEFT_ERR_TIMEOUT) {
        *error = run->loop_error;
        return RUN_TIMEOUT;
    }
    if (run->loop_status < 0) {
        *error = run->loop_error;
        return RUN_ERROR;
    }
    return run->as_expected ? RUN_PASS : RUN_FAIL;
}

static enum run_result result_of_setup(weft_status status)
{
    return status == WEFT_ERR_ENVIRONMENT || status == WEFT_ERR_UNSUPPORTED
               ? RUN_ENVIRONMENT
               : RUN_ERROR;
}

enum run_result run_scenario(const struct scenario *scenario,
                             const struct run_options *options, json_t **out_document,
                             json_t **out_observations, struct weft_error *error)
{
    struct run run;
    enum run_result result;
    weft_status status;

    *out_document = NULL;
    if (out_observations != NULL) {
        *out_observations = NULL;
    }
    weft_error_clear(error);
    if (scenario_has_programs(scenario)) {
        return run_programs(scenario, options, out_document, error);
    }
    run_init(&run, scenario, options);
    run.run_other = run_scenario;
    status = run_plan(&run, error);
    if (status == WEFT_OK) {
        status = create_world(&run, error);
    }
    if (status != WEFT_OK) {
        run_fini(&run);
        return result_of_setup(status);
    }
    run.are_records = run.world->ops->launch != NULL;
    if (run.are_records) {
        run.loop_status = run_gather(&run, &run.loop_error);
        if (run.loop_status == WEFT_ERR_ENVIRONMENT) {
            *error = run.loop_error;
            run_story_end(&run.story);
            run_fini(&run);
            return RUN_ENVIRONMENT;
        }
    } else {
        run_loop(&run);
    }
    run_story_end(&run.story);
    run_note_came(&run);
    run_settle(&run);
    run_evaluate(&run);
    *out_document = run_document(&run);
    if (out_observations != NULL) {
        *out_observations = diag_observations_encode(&run.observations);
    }
    result = run_result_of(&run, error);
    run_fini(&run);
    return result;
}
