#include "run/programs.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "backends/registry.h"
#include "base/check.h"
#include "base/text.h"
#include "base/units.h"
#include "run/private.h"
#include "run/program_plan.h"

#define BACKEND "rxe"
#define OUTPUT_BYTES_MAX ((size_t)1 << 20) /* kept of each program */
#define EVENT_LINE_BYTES_MAX 400

/* One program of one job. */
struct program {
    uint32_t job;
    struct weft_text command; /* for people */
    bool has_begun, has_ended;
    weft_ns began_ns, ended_ns;
    enum world_program_end end;
    int code;
    struct weft_text output; /* lines of both streams, as they came */
    uint64_t n_left_out;     /* bytes */
};

struct programs {
    struct run run;
    struct program_plan *plans;  /* Owned [n_jobs] */
    struct world_program *items; /* Owned [n]; words are the plans' */
    struct program *programs;    /* Owned [n] */
    uint32_t n;
    weft_ns *began_ns;  /* Owned [n_jobs] */
    weft_ns *limits_ns; /* Owned [n_jobs] */
    bool *came;         /* Owned [n_faults] */
    int *problems;      /* Owned [n_faults]: an errno */
};

static const char *host_of(const struct programs *programs, uint32_t index)
{
    return programs->run.plan->spec.hosts[programs->items[index].host].name;
}

/* ---- before it begins ---- */

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

/* The plans of all jobs [n_jobs]; NULL after a line in `why`, with its place. */
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

/* Of `sh -c TEXT` the text, else all words. */
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

    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        programs->n += programs->plans[i].n;
    }
    programs->items = weft_calloc((size_t)programs->n + 1, sizeof(*programs->items));
    programs->programs =
        weft_calloc((size_t)programs->n + 1, sizeof(*programs->programs));
    programs->began_ns = weft_calloc(scenario->n_jobs, sizeof(*programs->began_ns));
    programs->limits_ns = weft_calloc(scenario->n_jobs, sizeof(*programs->limits_ns));
    programs->came = weft_calloc((size_t)scenario->n_faults + 1, sizeof(bool));
    programs->problems = weft_calloc((size_t)scenario->n_faults + 1, sizeof(int));
    programs->n = 0;
    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        programs->began_ns[i] = WEFT_NEVER;
        programs->limits_ns[i] = scenario->jobs[i].exec->within_ns;
        for (uint32_t j = 0; j < programs->plans[i].n; j++) {
            uint32_t index = programs->n++;

            programs->items[index] = programs->plans[i].items[j];
            programs->items[index].job = i;
            programs->programs[index].job = i;
            weft_text_add(&programs->programs[index].output, "%s", "");
            add_command(programs->items[index].argv, &programs->programs[index].command);
        }
    }
}

static void fini(struct programs *programs)
{
    for (uint32_t i = 0; i < programs->n; i++) {
        weft_text_fini(&programs->programs[i].output);
        weft_text_fini(&programs->programs[i].command);
    }
    free_plans(programs->plans, programs->run.scenario->n_jobs);
    free(programs->items);
    free(programs->programs);
    free(programs->began_ns);
    free(programs->limits_ns);
    free(programs->came);
    free(programs->problems);
    run_fini(&programs->run);
}

/* ---- while it runs ---- */

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

    programs->programs[program].has_begun = true;
    programs->programs[program].began_ns = now;
    weft_trace_begin(trace, now, host_of(programs, program), "exec", "begins");
    weft_trace_int(trace, "job", programs->programs[program].job);
    weft_trace_text(trace, "command", programs->programs[program].command.bytes);
    weft_trace_end(trace);
}

/* Makes a line text that goes on: no NUL, and UTF-8 or ASCII. */
static void clean(char *line, size_t n)
{
    json_t *text = json_stringn(line, n);

    for (size_t i = 0; i < n; i++) {
        bool is_foreign = text == NULL && (unsigned char)line[i] >= 0x80;

        line[i] = is_foreign || line[i] == '\0' ? '?' : line[i];
    }
    json_decref(text);
}

/* The length [at most n] of whole characters of `line`, that an event has room for. */
static size_t room_for(const char *line, size_t n)
{
    size_t cut = n < EVENT_LINE_BYTES_MAX ? n : EVENT_LINE_BYTES_MAX;

    while (cut < n && cut > 0 && ((unsigned char)line[cut] & 0xc0) == 0x80) {
        cut--;
    }
    return cut;
}

static void take_line(void *context, uint32_t index, int stream, weft_ns now,
                      const char *line, size_t n)
{
    struct programs *programs = context;
    struct program *program = &programs->programs[index];
    struct weft_trace *trace = &programs->run.story.trace;
    size_t from = program->output.n;
    char event[EVENT_LINE_BYTES_MAX + 1];

    if (from + n + 1 > OUTPUT_BYTES_MAX) {
        program->n_left_out += n + 1;
        return;
    }
    weft_text_add_bytes(&program->output, line, n);
    clean(program->output.bytes + from, n);
    weft_format(event, sizeof(event), "%.*s",
                (int)room_for(program->output.bytes + from, n),
                program->output.bytes + from);
    weft_text_add_bytes(&program->output, "\n", 1);
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
    struct program *program = &programs->programs[index];

    program->has_ended = true;
    program->end = end;
    program->code = code;
    program->ended_ns = now;
    programs->run.ended_ns = now;
    weft_trace_event(&programs->run.story.trace, now, host_of(programs, index), "exec",
                     program->has_begun ? "ends" : "not_started", "how=%s code=%d",
                     end_names[end], code);
}

static void take_fault(void *context, uint32_t index, bool undo, weft_ns now, int problem)
{
    struct programs *programs = context;
    const struct world_spec *spec = &programs->run.plan->spec;
    const struct world_fault *fault = &spec->faults[index];
    const struct world_host *host = &spec->hosts[fault->host];

    programs->came[index] = true;
    programs->problems[index] =
        programs->problems[index] == 0 ? problem : programs->problems[index];
    weft_trace_event(&programs->run.story.trace, now, host->name,
                     fault->has_port ? host->ports[fault->port].name : "host",
                     undo ? "fault_ends" : "fault", "kind=%s errno=%d",
                     world_fault_name(fault->kind), problem);
}

/* ---- what came of it ---- */

/* As shells have it. */
static int status_of(const struct program *program)
{
    bool is_signal =
        program->end == WORLD_PROGRAM_SIGNAL || program->end == WORLD_PROGRAM_KILLED;

    return is_signal ? 128 + program->code : program->code;
}

/* The last line [*out_n] that the program wrote. */
static const char *last_line(const struct program *program, int *out_n)
{
    const char *bytes = program->output.bytes;
    size_t end = program->output.n;
    size_t from;

    end -= end > 0 ? 1 : 0;
    for (from = end; from > 0 && bytes[from - 1] != '\n'; from--) {
        continue;
    }
    *out_n = end - from < 120 ? (int)(end - from) : 120;
    return bytes + from;
}

static void add_last_line(const struct program *program, struct weft_text *out)
{
    int n;
    const char *line = last_line(program, &n);

    if (program->output.n > 0) {
        weft_text_add(out, ", its last line is '%.*s'", n, line);
    } else {
        weft_text_add(out, ", it wrote nothing");
    }
}

static void add_end(const struct program *program, struct weft_text *out)
{
    char time[32];

    weft_format_time(program->ended_ns - program->began_ns, time, sizeof(time));
    if (!program->has_begun) {
        weft_text_add(out, "it was not started");
    } else if (!program->has_ended) {
        weft_text_add(out, "it did not end");
    } else if (program->end == WORLD_PROGRAM_KILLED) {
        weft_text_add(out, "killed by a fault after %s", time);
    } else if (program->end == WORLD_PROGRAM_LATE) {
        weft_text_add(out, "hangs: it still ran after %s, and was ended", time);
    } else if (program->end == WORLD_PROGRAM_SIGNAL) {
        weft_text_add(out, "signal %d", program->code);
    } else {
        weft_text_add(out, "status %d", program->code);
    }
}

/* What is said of the program's host, else of all; NULL: nothing. */
static const struct scenario_end_status *wanted(const struct scenario_exec *exec,
                                                uint32_t host)
{
    const struct scenario_end_status *found = NULL;

    for (uint32_t i = 0; i < exec->n_statuses; i++) {
        if (exec->statuses[i].host == host ||
            (found == NULL && exec->statuses[i].host == SCENARIO_OTHERS)) {
            found = &exec->statuses[i];
        }
    }
    return found;
}

static bool is_late(const struct program *program)
{
    return !program->has_ended || program->end == WORLD_PROGRAM_LATE;
}

static bool ended_so(const struct program *program,
                     const struct scenario_end_status *want)
{
    bool is_killed = program->has_ended && program->end == WORLD_PROGRAM_KILLED;

    if (want == NULL) {
        return is_killed || (!is_late(program) && status_of(program) == 0);
    }
    switch (want->kind) {
    case SCENARIO_END_ANY:
        return program->has_begun;
    case SCENARIO_END_KILLED:
        return is_killed;
    case SCENARIO_END_HANGS:
        return program->has_begun && is_late(program);
    case SCENARIO_END_STATUS:
    default:
        return !is_late(program) && status_of(program) == want->status;
    }
}

static void add_wanted(const struct scenario_end_status *want, struct weft_text *out)
{
    if (want == NULL || want->kind == SCENARIO_END_STATUS) {
        weft_text_add(out, "status %d", want != NULL ? want->status : 0);
    } else {
        weft_text_add(out, "%s",
                      want->kind == SCENARIO_END_ANY      ? "any end"
                      : want->kind == SCENARIO_END_KILLED ? "killed by a fault"
                                                          : "hangs");
    }
}

static void judge_status(struct programs *programs, uint32_t index)
{
    const struct program *program = &programs->programs[index];
    const struct scenario_exec *exec = programs->run.scenario->jobs[program->job].exec;
    const struct scenario_end_status *want = wanted(exec, programs->items[index].host);
    struct weft_text got = {NULL, 0, 0};
    struct weft_text expected = {NULL, 0, 0};
    bool ok = ended_so(program, want);

    if (ok && want != NULL && want->kind == SCENARIO_END_ANY) {
        weft_text_add(&got, "any end: ");
    }
    add_end(program, &got);
    if (!ok && program->has_begun) {
        add_last_line(program, &got);
    }
    add_wanted(want, &expected);
    run_say(&programs->run, ok, &got, "job %u, %s: %s", program->job,
            host_of(programs, index), expected.bytes);
    weft_text_fini(&expected);
}

static bool matches(const char *pattern, const char *text)
{
    regex_t compiled;
    bool is = false;

    if (regcomp(&compiled, pattern, REG_EXTENDED | REG_NEWLINE | REG_NOSUB) == 0) {
        is = regexec(&compiled, text, 0, NULL, 0) == 0;
        regfree(&compiled);
    }
    return is;
}

static void judge_output(struct programs *programs, uint32_t index)
{
    const struct program *program = &programs->programs[index];
    const struct scenario_exec *exec = programs->run.scenario->jobs[program->job].exec;

    for (uint32_t i = 0; i < exec->n_outputs; i++) {
        const struct scenario_output *output = &exec->outputs[i];
        struct weft_text got = {NULL, 0, 0};
        bool ok;

        if (output->host != SCENARIO_OTHERS &&
            output->host != programs->items[index].host) {
            continue;
        }
        ok = matches(output->pattern, program->output.bytes);
        if (ok) {
            weft_text_add(&got, "output %s", output->pattern);
        } else {
            weft_text_add(&got, "no such line");
            add_last_line(program, &got);
        }
        run_say(&programs->run, ok, &got, "job %u, %s: output %s", program->job,
                host_of(programs, index), output->pattern);
    }
}

/* Those that are to hang have no part in it. */
static void judge_within(struct programs *programs, uint32_t job)
{
    const struct scenario_exec *exec = programs->run.scenario->jobs[job].exec;
    weft_ns last = 0;
    struct weft_text got = {NULL, 0, 0};
    struct weft_text late = {NULL, 0, 0};
    char limit[32];
    char time[32];

    if (!exec->has_within) {
        return;
    }
    for (uint32_t i = 0; i < programs->n; i++) {
        const struct program *program = &programs->programs[i];
        const struct scenario_end_status *want = wanted(exec, programs->items[i].host);

        if (program->job != job ||
            (want != NULL && want->kind == SCENARIO_END_HANGS && is_late(program))) {
            continue;
        }
        if (is_late(program)) {
            weft_text_add(&late, "%s%s", late.n > 0 ? ", " : "", host_of(programs, i));
        }
        last = program->ended_ns > last ? program->ended_ns : last;
    }
    weft_format_time(exec->within_ns, limit, sizeof(limit));
    weft_format_time(last - programs->began_ns[job], time, sizeof(time));
    if (late.n > 0) {
        weft_text_add(&got, "not over: %s", late.bytes);
    } else {
        weft_text_add(&got, "within %s: %s", limit, last > 0 ? time : "all are to hang");
    }
    run_say(&programs->run, late.n == 0, &got, "job %u: within %s", job, limit);
    weft_text_fini(&late);
}

static void judge(struct programs *programs)
{
    programs->run.expectations = json_array();
    programs->run.as_expected = true;
    for (uint32_t job = 0; job < programs->run.scenario->n_jobs; job++) {
        for (uint32_t i = 0; i < programs->n; i++) {
            if (programs->programs[i].job == job) {
                judge_status(programs, i);
                judge_output(programs, i);
            }
        }
        judge_within(programs, job);
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
    bool has_status = program->has_begun && !is_late(program);
    bool is_signal = has_status && status_of(program) != program->code;

    return json_pack(
        "{s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:I}", "host", host_of(programs, index),
        "command", text_of(&program->command), "ended",
        program->has_ended && program->has_begun ? end_names[program->end]
                                                 : "not started",
        "status", has_status ? json_integer(status_of(program)) : json_null(), "signal",
        is_signal ? json_integer(program->code) : json_null(), "began_ns",
        time_or_null(program->began_ns, program->has_begun), "ended_ns",
        time_or_null(program->ended_ns, program->has_ended), "output",
        text_of(&program->output), "output_left_out", (json_int_t)program->n_left_out);
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
            last = programs->programs[i].ended_ns > last ? programs->programs[i].ended_ns
                                                         : last;
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
    json_object_set_new(object, "findings", json_array());
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
        return weft_fail(error, WEFT_ERR_UNSUPPORTED, "exec",
                         "programs run over the kernel's soft-RoCE only, in a guest: use "
                         "--backend " BACKEND " (make rxe-guest builds it, once)");
    }
    if (status != WEFT_OK) {
        return weft_fail(error, status, "scenario", "cannot build its fabric");
    }
    run->plan->spec.seed = run->seed;
    run->plan->spec.log = run->options->log;
    status = backend_programs_can(&run->plan->spec, true, error);
    if (status != WEFT_OK) {
        return status;
    }
    programs->plans = plan_jobs(run->scenario, run->plan, &why);
    if (programs->plans == NULL) {
        status = weft_fail(error, WEFT_ERR_INPUT, "exec", "%s", why.bytes);
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
                                              .fault = take_fault};
    const struct world_programs what = {.items = programs->items,
                                        .n = programs->n,
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
