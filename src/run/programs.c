#include "run/programs.h"

#include <stdlib.h>
#include <string.h>

#include "backends/registry.h"
#include "base/check.h"
#include "base/text.h"
#include "diag/observations.h"
#include "run/private.h"
#include "run/program_causes.h"
#include "run/program_look.h"
#include "run/program_plan.h"
#include "run/program_verdict.h"

#define BACKEND "rxe"
/* maximum kept of each program's output */
#define OUTPUT_BYTES_MAX ((size_t)1 << 20)
#define OUTPUT_HEAD_BYTES (OUTPUT_BYTES_MAX / 2) /* part of it kept from the beginning */
#define EVENT_LINE_BYTES_MAX 400

/* One program of one job. */
struct program {
    uint32_t job;
    struct weft_text command; /* Owned; for messages and documents */
    uint64_t n_left_out;      /* bytes of its output that were not kept */
};

struct programs {
    struct run run;
    struct program_plan *plans;  /* Owned [n_jobs] */
    struct world_program *items; /* Owned [n]; the words belong to `plans` */
    struct program *programs;    /* Owned [n] */
    struct program_facts *facts; /* Owned [n] */
    uint32_t n;                  /* programs of a job are adjacent, jobs in order */
    weft_ns *began_ns;           /* Owned [n_jobs]; WEFT_NEVER if the job did not begin */
    weft_ns *limits_ns;          /* Owned [n_jobs] */
    bool *came;                  /* Owned [n_faults] */
    /* Owned [n_faults]; true while the fault keeps its port down. */
    bool *keeps_down;
    int *problems; /* Owned [n_faults]; first errno of the fault, or 0 */
    /* Facts of the hosts when the job began and after it was over. Owned [n_hosts]. */
    struct program_look *before, *after;
    struct program_cut *cuts; /* Owned [n_cuts] */
    uint32_t n_cuts;
};

static const char *host_of(const struct programs *programs, uint32_t index)
{
    return programs->run.plan->spec.hosts[programs->items[index].host].name;
}

/* ---- planning ---- */

static bool plan_job(const struct scenario_world *world, const struct scenario_job *job,
                     struct program_plan *out, struct weft_text *why)
{
    const struct scenario_exec *exec = job->exec;
    struct program_group *groups = weft_calloc(exec->n_commands, sizeof(*groups));
    char **hosts = weft_calloc(exec->n_commands, sizeof(*hosts));
    bool ok;

    for (uint32_t i = 0; i < exec->n_commands; i++) {
        const struct scenario_command *command = &exec->commands[i];
        bool is_rest = command->host == SCENARIO_OTHERS;

        if (!is_rest) {
            hosts[i] = (char *)(uintptr_t)world->spec.hosts[command->host].name;
        }
        groups[i] = (struct program_group){
            .hosts = &hosts[i],
            .n_hosts = is_rest ? 0 : 1,
            .words = (char *const *)(uintptr_t)command->words,
            .n_words = command->n_words,
        };
    }
    ok = program_plan_groups(world, backend_program_device, groups, exec->n_commands, out,
                             why);
    free(groups);
    free(hosts);
    return ok;
}

/* Returns the plans of all jobs [n_jobs]. On error appends a line with its place in the file to
 * `why` and returns NULL. */
static struct program_plan *plan_jobs(const struct scenario *scenario,
                                      const struct scenario_world *world,
                                      struct weft_text *why)
{
    struct program_plan *plans =
        weft_calloc((size_t)scenario->n_jobs + 1, sizeof(*plans));
    struct weft_text reason = {NULL, 0, 0};
    char where[256];

    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        const struct scenario_job *job = &scenario->jobs[i];

        if (plan_job(world, job, &plans[i], &reason)) {
            continue;
        }
        weft_text_add(why, "%sexec: %s",
                      scenario_where(scenario, job->mark, where, sizeof(where)),
                      reason.bytes);
        weft_text_fini(&reason);
        while (i > 0) {
            program_plan_fini(&plans[--i]);
        }
        free(plans);
        return NULL;
    }
    return plans;
}

static void free_plans(struct program_plan *plans, uint32_t n_jobs)
{
    for (uint32_t i = 0; plans != NULL && i < n_jobs; i++) {
        program_plan_fini(&plans[i]);
    }
    free(plans);
}

bool run_programs_check(const struct scenario *scenario, struct weft_text *why,
                        enum run_result *out)
{
    struct scenario_world *world = NULL;
    struct program_plan *plans = NULL;
    struct weft_error error;
    char text[512];
    bool ok;

    if (!scenario_has_programs(scenario)) {
        return true;
    }
    weft_error_clear(&error);
    *out = RUN_ERROR;
    ok = scenario_to_world(scenario, &world) == WEFT_OK;
    if (ok) {
        plans = plan_jobs(scenario, world, why);
        ok = plans != NULL;
    } else {
        weft_text_add(why, "the scenario has no world");
    }
    if (ok && backend_programs_can(&world->spec, true, &error) != WEFT_OK) {
        weft_error_format(&error, text, sizeof(text));
        weft_text_add(why, "%s: %s", scenario->file, text);
        *out = RUN_ENVIRONMENT;
        ok = false;
    }
    free_plans(plans, scenario->n_jobs);
    scenario_world_free(world);
    return ok;
}

/* Appends the words of a command. For `sh -c TEXT`, which is how a command given as one text runs,
 * appends only TEXT. */
static void add_command(char *const *argv, struct weft_text *out)
{
    bool is_text = strcmp(argv[0], "sh") == 0 && argv[1] != NULL &&
                   strcmp(argv[1], "-c") == 0 && argv[2] != NULL && argv[3] == NULL;

    for (size_t i = is_text ? 2 : 0; argv[i] != NULL; i++) {
        weft_text_add(out, "%s%s", out->n > 0 ? " " : "", argv[i]);
    }
}

static void list_programs(struct programs *programs)
{
    const struct scenario *scenario = programs->run.scenario;
    uint32_t n_hosts = programs->run.plan->spec.n_hosts;

    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        programs->n += programs->plans[i].n;
    }
    programs->items = weft_calloc((size_t)programs->n + 1, sizeof(*programs->items));
    programs->programs =
        weft_calloc((size_t)programs->n + 1, sizeof(*programs->programs));
    programs->facts = weft_calloc((size_t)programs->n + 1, sizeof(*programs->facts));
    programs->began_ns = weft_calloc(scenario->n_jobs, sizeof(*programs->began_ns));
    programs->limits_ns = weft_calloc(scenario->n_jobs, sizeof(*programs->limits_ns));
    programs->came = weft_calloc((size_t)scenario->n_faults + 1, sizeof(bool));
    programs->keeps_down =
        weft_calloc((size_t)programs->run.plan->spec.n_faults + 1, sizeof(bool));
    programs->problems = weft_calloc((size_t)scenario->n_faults + 1, sizeof(int));
    programs->before = weft_calloc((size_t)n_hosts + 1, sizeof(*programs->before));
    programs->after = weft_calloc((size_t)n_hosts + 1, sizeof(*programs->after));
    programs->cuts = weft_calloc((size_t)programs->run.plan->spec.n_faults + 1,
                                 sizeof(*programs->cuts));
    programs->n = 0;
    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        programs->began_ns[i] = WEFT_NEVER;
        programs->limits_ns[i] = scenario->jobs[i].exec->within_ns;
        for (uint32_t j = 0; j < programs->plans[i].n; j++) {
            uint32_t index = programs->n++;

            programs->items[index] = programs->plans[i].items[j];
            programs->items[index].job = i;
            programs->programs[index].job = i;
            programs->facts[index].host = programs->items[index].host;
            programs->facts[index].id = index;
            programs->facts[index].host_name = host_of(programs, index);
            weft_text_add(&programs->facts[index].output, "%s", "");
            add_command(programs->items[index].argv, &programs->programs[index].command);
        }
    }
}

static void fini(struct programs *programs)
{
    for (uint32_t i = 0; i < programs->n; i++) {
        weft_text_fini(&programs->facts[i].output);
        weft_text_fini(&programs->programs[i].command);
    }
    for (uint32_t i = 0; programs->after != NULL && i < programs->run.plan->spec.n_hosts;
         i++) {
        program_look_fini(&programs->before[i]);
        program_look_fini(&programs->after[i]);
    }
    free(programs->before);
    free(programs->after);
    free(programs->cuts);
    free_plans(programs->plans, programs->run.scenario->n_jobs);
    free(programs->items);
    free(programs->programs);
    free(programs->facts);
    free(programs->began_ns);
    free(programs->limits_ns);
    free(programs->came);
    free(programs->keeps_down);
    free(programs->problems);
    run_fini(&programs->run);
}

/* ---- running ---- */

static void take_job(void *context, uint32_t job, weft_ns now)
{
    struct programs *programs = context;

    programs->began_ns[job] = now;
    programs->run.ended_ns = now;
}

static void take_start(void *context, uint32_t program, weft_ns now)
{
    struct programs *programs = context;
    struct weft_trace *trace = &programs->run.story.trace;

    programs->facts[program].has_begun = true;
    programs->facts[program].began_ns = now;
    weft_trace_begin(trace, now, host_of(programs, program), "exec", "begins");
    weft_trace_int(trace, "job", programs->programs[program].job);
    weft_trace_text(trace, "command", programs->programs[program].command.bytes);
    weft_trace_end(trace);
}

/* Replaces NULs and, unless the line is UTF-8, bytes above 0x7f, so that the line can be logged as
 * text. */
static void clean(char *line, size_t n)
{
    json_t *text = json_stringn(line, n);

    for (size_t i = 0; i < n; i++) {
        bool is_foreign = text == NULL && (unsigned char)line[i] >= 0x80;

        line[i] = is_foreign || line[i] == '\0' ? '?' : line[i];
    }
    json_decref(text);
}

static void take_line(void *context, uint32_t index, int stream, weft_ns now,
                      const char *line, size_t n)
{
    struct programs *programs = context;
    struct weft_text *output = &programs->facts[index].output;
    struct weft_trace *trace = &programs->run.story.trace;
    size_t from;
    char event[EVENT_LINE_BYTES_MAX + 1];

    programs->programs[index].n_left_out +=
        program_output_shorten(output, n + 1, OUTPUT_HEAD_BYTES, OUTPUT_BYTES_MAX);
    from = output->n;
    if (from + n + 1 > OUTPUT_BYTES_MAX) {
        programs->programs[index].n_left_out += n + 1;
        return;
    }
    weft_text_add_bytes(output, line, n);
    clean(output->bytes + from, n);
    weft_format(event, sizeof(event), "%.*s",
                (int)weft_text_cut(output->bytes + from, n, EVENT_LINE_BYTES_MAX),
                output->bytes + from);
    weft_text_add_bytes(output, "\n", 1);
    weft_trace_begin(trace, now, host_of(programs, index), "exec",
                     stream == 0 ? "stdout" : "stderr");
    weft_trace_text(trace, "line", event);
    weft_trace_end(trace);
}

static const char *const end_names[] = {
    [WORLD_PROGRAM_EXITED] = "exited",
    [WORLD_PROGRAM_SIGNAL] = "signal",
    [WORLD_PROGRAM_KILLED] = "killed",
    [WORLD_PROGRAM_LATE] = "hangs",
};

static void take_end(void *context, uint32_t index, enum world_program_end end, int code,
                     weft_ns now)
{
    struct programs *programs = context;
    struct program_facts *facts = &programs->facts[index];

    facts->has_ended = true;
    facts->end = end;
    facts->code = code;
    facts->ended_ns = now;
    programs->run.ended_ns = now;
    weft_trace_event(&programs->run.story.trace, now, host_of(programs, index), "exec",
                     facts->has_begun ? "ends" : "not_started", "how=%s code=%d",
                     end_names[end], code);
}

static void take_fault(void *context, uint32_t index, bool undo, weft_ns now, int problem)
{
    struct programs *programs = context;
    const struct world_spec *spec = &programs->run.plan->spec;
    const struct world_fault *fault = &spec->faults[index];
    const struct world_host *host = &spec->hosts[fault->host];

    if (fault->kind == WORLD_FAULT_STOP && problem == 0) {
        program_stop(programs->facts, programs->n, fault->host, undo, now);
    }
    if (fault->kind == WORLD_FAULT_KILL && problem == 0) {
        program_kill(programs->facts, programs->n, fault->host, now);
    }
    if (fault->has_port && problem == 0) {
        program_cuts_follow(spec, index, undo, now, programs->keeps_down, programs->cuts,
                            &programs->n_cuts);
    }
    programs->came[index] = true;
    programs->problems[index] =
        programs->problems[index] == 0 ? problem : programs->problems[index];
    weft_trace_event(&programs->run.story.trace, now, host->name,
                     world_fault_place(host, fault), undo ? "fault_ends" : "fault",
                     "kind=%s errno=%d", world_fault_name(fault->kind), problem);
}

/* ---- causes ---- */

/* Returns the index of a job's first program. */
static uint32_t first_of(const struct programs *programs, uint32_t job)
{
    uint32_t first = 0;

    for (uint32_t i = 0; i < job; i++) {
        first += programs->plans[i].n;
    }
    return first;
}

static bool has_failed(const struct programs *programs, uint32_t job)
{
    return program_causes_any(&programs->facts[first_of(programs, job)],
                              programs->plans[job].n);
}

/* Returns true if the facts after the job are needed: to diagnose it, or as the start of the next
 * job. */
static bool take_over(void *context, uint32_t job)
{
    const struct programs *programs = context;

    return has_failed(programs, job) || job + 1 < programs->run.scenario->n_jobs;
}

static void look(void *context, uint32_t host, struct weft_text *out)
{
    const struct programs *programs = context;
    const struct world_spec *spec = &programs->run.plan->spec;

    if (host == WORLD_PROGRAM_OUTSIDE) {
        program_look_outside(spec, backend_program_device, out);
    } else {
        program_look_make(&spec->hosts[host], programs->run.options->log, out);
    }
}

static bool is_same(const struct diag_finding *a, const struct diag_finding *b)
{
    return a->entry == b->entry && a->entry->id != DIAG_UNDETERMINED &&
           strcmp(a->host, b->host) == 0 && strcmp(a->port, b->port) == 0 &&
           strcmp(a->peer, b->peer) == 0;
}

/* Adds findings, but one that several jobs share only once. Undetermined findings may have
 * different causes, so all are kept. */
static void add_findings(struct diag_findings *all, const struct diag_findings *more)
{
    for (uint32_t i = 0; i < more->n; i++) {
        bool is_said = false;

        for (uint32_t k = 0; k < all->n; k++) {
            is_said = is_said || is_same(&all->items[k], &more->items[i]);
        }
        if (!is_said) {
            all->items = weft_realloc(all->items, (all->n + 1) * sizeof(*all->items));
            all->items[all->n++] = more->items[i];
        }
    }
}

static void diagnose(struct programs *programs, uint32_t job)
{
    uint32_t first = first_of(programs, job);
    const char **commands = weft_calloc((size_t)programs->n + 1, sizeof(*commands));
    const struct program_causes causes = {.spec = &programs->run.plan->spec,
                                          .device = backend_program_device,
                                          .facts = &programs->facts[first],
                                          .commands = commands,
                                          .n = programs->plans[job].n,
                                          .before = programs->before,
                                          .after = programs->after,
                                          .cuts = programs->cuts,
                                          .n_cuts = programs->n_cuts};
    struct diag_input input = {.hosts = NULL};
    struct diag_findings findings = {NULL, 0};

    for (uint32_t i = 0; i < causes.n; i++) {
        commands[i] = programs->programs[first + i].command.bytes;
    }
    program_causes_observe(&causes, &input);
    diag(&input, &findings);
    add_findings(&programs->run.findings, &findings);
    diag_sort(&programs->run.findings);
    diag_findings_fini(&findings);
    diag_input_fini(&input);
    free(commands);
}

/* Makes the facts after a job those before the next. */
static void go_on_from(struct programs *programs)
{
    for (uint32_t i = 0; i < programs->run.plan->spec.n_hosts; i++) {
        program_look_fini(&programs->before[i]);
        programs->before[i] = programs->after[i];
        programs->after[i] = (struct program_look){.is_seen = false};
    }
}

static void take_look(void *context, uint32_t job, uint32_t host, const char *bytes,
                      size_t n)
{
    struct programs *programs = context;
    const struct world_spec *spec = &programs->run.plan->spec;
    bool is_before = job == WORLD_PROGRAM_BEFORE;
    struct program_look *looks = is_before ? programs->before : programs->after;

    if (host != WORLD_PROGRAM_OUTSIDE) {
        program_look_fini(&looks[host]);
        program_look_decode(spec, host, backend_program_device, bytes, n, &looks[host]);
        return;
    }
    program_look_count(spec, bytes, n, looks);
    if (!is_before) {
        if (has_failed(programs, job)) {
            diagnose(programs, job);
        }
        go_on_from(programs);
    }
}

/* ---- verdicts ---- */

static void judge_job(struct programs *programs, uint32_t job, uint32_t first, uint32_t n)
{
    struct program_verdicts verdicts;

    program_verdicts_make(programs->run.scenario->jobs[job].exec, &programs->facts[first],
                          n, programs->began_ns[job], &verdicts);
    for (uint32_t i = 0; i < verdicts.n; i++) {
        struct program_verdict *verdict = &verdicts.items[i];
        bool is_of_all = verdict->program == PROGRAM_ALL;

        run_say(&programs->run, verdict->ok, &verdict->got, "job %u%s%s: %s", job,
                is_of_all ? "" : ", ",
                is_of_all ? "" : host_of(programs, first + verdict->program),
                verdict->expected.bytes);
    }
    program_verdicts_fini(&verdicts);
}

static void judge(struct programs *programs)
{
    programs->run.expectations = json_array();
    programs->run.as_expected = true;
    for (uint32_t job = 0; job < programs->run.scenario->n_jobs; job++) {
        judge_job(programs, job, first_of(programs, job), programs->plans[job].n);
    }
    if (programs->run.scenario->expect.has_findings) {
        run_judge_findings(&programs->run);
    }
}

/* ---- the document ---- */

static json_t *text_of(const struct weft_text *text)
{
    return json_stringn(text->bytes, text->n);
}

static json_t *time_or_null(weft_ns time, bool is_known)
{
    return is_known ? json_integer(time) : json_null();
}

static json_t *program_of(const struct programs *programs, uint32_t index)
{
    const struct program *program = &programs->programs[index];
    const struct program_facts *facts = &programs->facts[index];
    enum program_how how = program_how(facts);
    bool has_status = how != PROGRAM_NOT_BEGUN && how != PROGRAM_HANGS;
    bool is_signal = how == PROGRAM_SIGNALLED || how == PROGRAM_KILLED;

    return json_pack(
        "{s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:I}", "host", host_of(programs, index),
        "command", text_of(&program->command), "ended",
        facts->has_ended && facts->has_begun ? end_names[facts->end] : "not started",
        "status", has_status ? json_integer(program_status(facts)) : json_null(),
        "signal", is_signal ? json_integer(facts->code) : json_null(), "began_ns",
        time_or_null(facts->began_ns, facts->has_begun), "ended_ns",
        time_or_null(facts->ended_ns, facts->has_ended), "output",
        text_of(&facts->output), "output_left_out", (json_int_t)program->n_left_out);
}

static json_t *job_of(const struct programs *programs, uint32_t job)
{
    static const char *const absent[] = {
        "algorithm", "size_bytes",  "count",       "dtype",      "op",       "root",
        "time_ns",   "alg_bw_gBps", "bus_bw_gBps", "limit_gBps", "limit_ns", "nwrong"};
    json_t *object = json_pack("{s:s, s:I}", "job", "exec", "index", (json_int_t)job);
    json_t *list = json_array();
    weft_ns last = programs->began_ns[job];

    for (size_t i = 0; i < WEFT_LENGTH(absent); i++) {
        json_object_set_new(object, absent[i], json_null());
    }
    for (uint32_t i = 0; i < programs->n; i++) {
        if (programs->programs[i].job == job) {
            json_array_append_new(list, program_of(programs, i));
            last =
                programs->facts[i].ended_ns > last ? programs->facts[i].ended_ns : last;
        }
    }
    if (programs->began_ns[job] != WEFT_NEVER) {
        json_object_set_new(object, "time_ns",
                            json_integer(last - programs->began_ns[job]));
    }
    json_object_set_new(object, "programs", list);
    return object;
}

static json_t *warnings_of(const struct programs *programs)
{
    const struct scenario *scenario = programs->run.scenario;
    json_t *array = json_array();
    uint32_t last = 0;

    for (uint32_t i = 0; i < scenario->n_faults; i++) {
        const struct scenario_fault *fault = &scenario->faults[i];
        char moment[SCENARIO_MOMENT_BYTES], text[SCENARIO_MOMENT_BYTES + 160];

        if (fault->number == last || (programs->came[i] && programs->problems[i] == 0)) {
            continue;
        }
        last = fault->number;
        scenario_moment_text(scenario, &fault->spec, moment, sizeof(moment));
        if (!programs->came[i]) {
            weft_format(text, sizeof(text),
                        "fault %u %s never came: the programs were over before",
                        fault->number, moment);
        } else {
            weft_format(text, sizeof(text), "fault %u %s had no effect: %s",
                        fault->number, moment, strerror(programs->problems[i]));
        }
        json_array_append_new(array, json_string(text));
    }
    return array;
}

static json_t *document_of(const struct programs *programs)
{
    static const char *const lists[] = {"connections", "completions"};
    json_t *object = run_document_head(&programs->run);
    json_t *jobs = json_array();

    for (uint32_t i = 0; i < programs->run.scenario->n_jobs; i++) {
        json_array_append_new(jobs, job_of(programs, i));
    }
    json_object_set_new(object, "symptom", json_null());
    for (size_t i = 0; i < WEFT_LENGTH(lists); i++) {
        json_object_set_new(object, lists[i], json_array());
    }
    json_object_set_new(object, "jobs", jobs);
    json_object_set_new(object, "links", json_array());
    json_object_set_new(object, "findings",
                        diag_findings_encode(&programs->run.findings));
    json_object_set_new(object, "expectations", json_incref(programs->run.expectations));
    json_object_set_new(object, "counters", json_object());
    json_object_set_new(object, "connected", json_null());
    json_object_set_new(object, "warnings", warnings_of(programs));
    return object;
}

/* ---- all of it ---- */

static weft_status prepare(struct programs *programs, struct weft_error *error)
{
    struct run *run = &programs->run;
    struct weft_text why = {NULL, 0, 0};
    weft_status status = scenario_to_world(run->scenario, &run->plan);

    if (strcmp(run->options->backend->name, BACKEND) != 0) {
        return weft_fail(error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_EXEC,
                         "programs run over the kernel's soft-RoCE only, in a guest: use "
                         "--backend " BACKEND " (make rxe-guest builds it, once)");
    }
    if (status != WEFT_OK) {
        return weft_fail(error, status, WEFT_PHASE_SCENARIO, "cannot build its fabric");
    }
    run->plan->spec.seed = run->seed;
    run->plan->spec.log = run->options->log;
    status = backend_programs_can(&run->plan->spec, true, error);
    if (status != WEFT_OK) {
        return status;
    }
    programs->plans = plan_jobs(run->scenario, run->plan, &why);
    if (programs->plans == NULL) {
        status = weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_EXEC, "%s", why.bytes);
        weft_text_fini(&why);
        return status;
    }
    list_programs(programs);
    return WEFT_OK;
}

static weft_status execute(struct programs *programs, struct weft_error *error)
{
    const struct run *run = &programs->run;
    const struct world_program_watch watch = {.context = programs,
                                              .job_began = take_job,
                                              .began = take_start,
                                              .line = take_line,
                                              .ended = take_end,
                                              .fault = take_fault,
                                              .over = take_over,
                                              .look = look,
                                              .saw = take_look};
    const struct world_programs what = {.items = programs->items,
                                        .n = programs->n,
                                        .is_watched = run->options->watches_programs,
                                        .tap = run->options->tap,
                                        .tap_context = run->options->tap_context,
                                        .watch = &watch,
                                        .n_jobs = run->scenario->n_jobs,
                                        .limits_ns = programs->limits_ns};
    int code;

    return backend_programs_run(&run->plan->spec, &what, &code, error);
}

enum run_result run_programs(const struct scenario *scenario,
                             const struct run_options *options, json_t **out_document,
                             struct weft_error *error)
{
    struct programs programs = {.plans = NULL};
    enum run_result result;
    weft_status status;

    run_init(&programs.run, scenario, options);
    status = prepare(&programs, error);
    if (status == WEFT_OK) {
        status = execute(&programs, error);
    }
    run_story_end(&programs.run.story);
    if (status == WEFT_OK) {
        judge(&programs);
        *out_document = document_of(&programs);
        result = programs.run.as_expected ? RUN_PASS : RUN_FAIL;
    } else {
        result = status == WEFT_ERR_ENVIRONMENT || status == WEFT_ERR_UNSUPPORTED
                     ? RUN_ENVIRONMENT
                     : RUN_ERROR;
    }
    fini(&programs);
    return result;
}
