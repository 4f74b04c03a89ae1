/* weft run: runs scenarios and writes documents, event logs and captures. */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backends/registry.h"
#include "base/check.h"
#include "base/observe.h"
#include "base/units.h"
#include "base/version.h"
#include "cli/cli.h"
#include "cli/failed.h"
#include "cli/kept.h"
#include "cli/progress.h"
#include "report/draw.h"
#include "report/html.h"
#include "report/json_read.h"
#include "report/junit.h"
#include "report/pcapng.h"
#include "report/perfetto.h"
#include "report/tables.h"
#include "run/programs.h"
#include "run/run.h"

/* State of one `weft run` for all of its files. */
struct session {
    struct cli_options *options;
    const struct world_ops *backend;
    /* Stdout is free for text: neither a document nor events nor a capture go there. */
    bool has_stdout;
    FILE *events;  /* or NULL */
    FILE *pcap;    /* or NULL */
    json_t *runs;  /* documents so far */
    json_t *cases; /* the same with `seconds`, for JUnit */
    json_t *observations;
    struct weft_text story; /* event log, kept for --trace and --html */
    int guest_folder;       /* folder of results of this guest, or -1 */
    /* Output files as they would be written now, if the process ends before the last run. */
    struct weft_text done[N_KEPT_OUTPUTS], rest[N_KEPT_OUTPUTS];
};

/* Returns true if the event log is kept in memory, because an output at the end needs it. */
static bool wants_story(const struct cli_options *options)
{
    return options->trace != NULL || options->html != NULL;
}

static void take_event(void *context, const char *line, size_t n)
{
    struct session *session = context;

    if (session->events != NULL) {
        fwrite(line, 1, n, session->events);
    }
    if (wants_story(session->options)) {
        weft_text_add_bytes(&session->story, line, n);
    }
}

static void print_head(const struct session *session, const struct scenario *scenario)
{
    const struct report_style *style = &session->options->style;
    struct weft_text text = {NULL, 0, 0};

    weft_text_add(&text, "%s%s%s  %s\n\n", style->bold, scenario->name, style->off,
                  scenario->description);
    draw_mesh(scenario, &text);
    if (session->has_stdout && !session->options->quiet) {
        cli_print(text.bytes, text.n);
    }
    weft_text_fini(&text);
}

/* Prints the result of a file. Without a run there are no tables; stderr has the reason. */
static void print_outcome(const struct session *session, json_t *document, bool is_good)
{
    struct weft_text text = {NULL, 0, 0};
    bool for_people =
        session->has_stdout && json_is_string(json_object_get(document, "seed"));

    if (session->options->ndjson) {
        char *line = json_dumps(document, JSON_COMPACT);

        weft_text_add(&text, "%s\n", line);
        free(line);
    } else if (for_people && session->options->quiet && !is_good) {
        report_failures(document, &session->options->style, &text);
    } else if (for_people && !session->options->quiet) {
        report_run(document, session->options->verbose, &session->options->style, &text);
    }
    if (text.n > 0) {
        cli_print(text.bytes, text.n);
    }
    weft_text_fini(&text);
}

int cli_verdict(enum run_result result)
{
    switch (result) {
    case RUN_PASS:
        return CLI_OK;
    case RUN_FAIL:
        return CLI_FAILED;
    case RUN_ENVIRONMENT:
        return CLI_ENVIRONMENT;
    case RUN_TIMEOUT:
        return CLI_TIMEOUT;
    case RUN_ERROR:
    default:
        return CLI_USAGE;
    }
}

/* Runs the scenario, with a capture if one is requested. */
static enum run_result run_captured(struct session *session,
                                    const struct scenario *scenario,
                                    const struct run_options *run, json_t **out_document,
                                    json_t **out_observations, struct weft_error *error)
{
    struct run_options captured = *run;
    struct scenario_world *world = NULL;
    struct pcapng pcapng;
    enum run_result result;

    if (session->pcap == NULL) {
        return run_scenario(scenario, run, out_document, out_observations, error);
    }
    if (scenario_to_world(scenario, &world) != WEFT_OK) {
        weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_CAPTURE, "the scenario has no world");
        return RUN_ERROR;
    }
    weft_observe_begin();
    pcapng_open(&pcapng, session->pcap, &world->spec);
    weft_observe_end();
    captured.tap = pcapng_frame;
    captured.tap_context = &pcapng;
    result = run_scenario(scenario, &captured, out_document, out_observations, error);
    if (!pcapng_close(&pcapng)) {
        fprintf(stderr, "weft: %s: the capture is incomplete\n", session->options->pcap);
        result = result == RUN_PASS ? RUN_ERROR : result;
    }
    scenario_world_free(world);
    return result;
}

/* ---- results, including files that were not run ---- */

static double wall_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Returns the document of a file that was not run: all members, and the reason. */
static json_t *document_without_run(const struct session *session, const char *path,
                                    const char *replay, const char *error)
{
    static const char *const lists[] = {"connections", "completions",  "jobs",    "links",
                                        "findings",    "expectations", "warnings"};
    static const char *const absent[] = {"scenario",    "seed",    "trace_hash",
                                         "sim_time_ns", "symptom", "connected"};
    const struct cli_options *options = session->options;
    json_t *document =
        json_pack("{s:i, s:s, s:o, s:s, s:s?, s:s, s:o, s:o, s:{}}", "schema_version", 1,
                  "weft", weft_version, "file", cli_json_text(path), "backend",
                  options->backend, "policy", options->policy, "result", "error", "error",
                  cli_json_text(error), "replay", cli_json_text(replay), "counters");

    for (size_t i = 0; i < WEFT_LENGTH(lists); i++) {
        json_object_set_new(document, lists[i], json_array());
    }
    for (size_t i = 0; i < WEFT_LENGTH(absent); i++) {
        json_object_set_new(document, absent[i], json_null());
    }
    return document;
}

/* Appends a document of the --json output. With a single file it is not in a list. */
static void add_run_json(const struct session *session, const json_t *document,
                         bool is_first, struct weft_text *out)
{
    char *text = json_dumps(document, JSON_INDENT(2));

    weft_text_add(out, "%s%s", is_first || session->options->n_operands == 1 ? "" : ",\n",
                  text);
    free(text);
}

static void add_run_line(const json_t *document, struct weft_text *out)
{
    char *text = json_dumps(document, JSON_COMPACT);

    weft_text_add(out, "%s\n", text);
    free(text);
}

/* Keeps the result of a file for all documents. Takes the references: `document`, and `timed`,
 * which is the same with `seconds`. */
static void add_result(struct session *session, json_t *document, json_t *timed)
{
    bool is_first = json_array_size(session->runs) == 0;

    kept_hold();
    json_array_append_new(session->runs, document);
    json_array_append_new(session->cases, timed);
    if (session->options->json != NULL) {
        add_run_json(session, document, is_first, &session->done[KEPT_JSON]);
    }
    if (session->options->junit != NULL) {
        report_junit_suite(timed, &session->done[KEPT_JUNIT]);
    }
    kept_release();
}

/* In a guest, gives a result to the process that started it, because the guest may be killed before
 * it writes its documents. */
static void give_result(const struct session *session, const json_t *timed)
{
    struct weft_text line = {NULL, 0, 0};

    if (session->guest_folder < 0) {
        return;
    }
    add_run_line(timed, &line);
    if (!backend_guest_keep(session->guest_folder, line.bytes, line.n)) {
        fprintf(stderr, "weft: a result would be lost if this guest were killed: %s\n",
                strerror(errno));
    }
    weft_text_fini(&line);
}

/* Prints and keeps the result of a file. Takes the reference. `error`: why the run ended, or
 * NULL. */
static void take_result(struct session *session, json_t *document, const char *path,
                        const char *error, double seconds, bool is_good)
{
    json_t *timed;

    json_object_set_new(document, "file", cli_json_text(path));
    json_object_set_new(document, "error",
                        error != NULL ? cli_json_text(error) : json_null());
    timed = json_copy(document);
    json_object_set_new(timed, "seconds", json_real(seconds));
    give_result(session, timed);
    print_outcome(session, document, is_good);
    add_result(session, document, timed);
}

/* Renders what is written if the process ends now: the files from `first` on have no result, the
 * first of them because of `why`, the others because of `others`. */
static void keep_rest(struct session *session, int first, const char *why,
                      const char *others)
{
    const struct cli_options *options = session->options;
    bool is_list = options->n_operands > 1;
    struct weft_text *rest = session->rest;

    kept_hold();
    for (int i = 0; i < N_KEPT_OUTPUTS; i++) {
        rest[i].n = 0;
        weft_text_add_bytes(&rest[i], "", 0);
    }
    for (int i = first; i < options->n_operands; i++) {
        struct weft_text replay = {NULL, 0, 0};
        json_t *document, *timed;

        cli_replay_unread(options, options->operands[i], &replay);
        document = document_without_run(session, options->operands[i], replay.bytes,
                                        i == first ? why : others);
        timed = json_copy(document);
        if (options->json != NULL) {
            add_run_json(session, document, i == 0, &rest[KEPT_JSON]);
        }
        if (options->junit != NULL) {
            json_object_set_new(timed, "seconds", json_real(0));
            report_junit_suite(timed, &rest[KEPT_JUNIT]);
        }
        if (options->ndjson) {
            add_run_line(document, &rest[KEPT_NDJSON]);
        }
        json_decref(timed);
        json_decref(document);
        weft_text_fini(&replay);
    }
    weft_text_add(&rest[KEPT_JSON], is_list ? "]}\n" : "\n");
    report_junit_tail(&rest[KEPT_JUNIT]);
    kept_set(KEPT_JSON, options->json, &session->done[KEPT_JSON], &rest[KEPT_JSON]);
    kept_set(KEPT_JUNIT, options->junit, &session->done[KEPT_JUNIT], &rest[KEPT_JUNIT]);
    kept_set(KEPT_NDJSON, options->ndjson ? "-" : NULL, &session->done[KEPT_NDJSON],
             &rest[KEPT_NDJSON]);
    kept_release();
}

/* Keeps no document for stdout any more, because it begins there, and must not begin twice. */
static void forget_stdout(const struct session *session)
{
    const char *json = session->options->json;

    if (json != NULL && strcmp(json, "-") == 0) {
        kept_set(KEPT_JSON, NULL, NULL, NULL);
    }
}

/* Keeps the results that a guest gave before it was ended, a line each. Those whose line of
 * --ndjson was not passed on are written again. */
static void take_results_of_guest(struct session *session,
                                  const struct rxe_guest_end *end)
{
    const char *events = session->options->events;
    /* Otherwise most lines are events; a document is rather written twice than lost. */
    bool are_documents = events == NULL || strcmp(events, "-") != 0;
    uint64_t n_passed_on = are_documents ? end->n_lines : 0;
    const char *at = end->results, *next;

    for (; (next = strchr(at, '\n')) != NULL; at = next + 1) {
        json_t *timed = json_loadb(at, (size_t)(next - at), 0, NULL);
        json_t *document = json_copy(timed);

        if (timed == NULL) {
            return;
        }
        json_object_del(document, "seconds");
        if (session->options->ndjson && json_array_size(session->runs) >= n_passed_on) {
            add_run_line(document, &session->done[KEPT_NDJSON]);
        }
        add_result(session, document, timed);
    }
}

/* Keeps what is written if a guest, which has all outputs of its own, has ended. If that was before
 * its run was over, the files have the results that it gave, and the others have none. */
static void keep_of_guest(void *context, const struct rxe_guest_end *end)
{
    static const char why[] = "the guest was ended before this run was over";
    struct session *session = context;
    size_t n_results;

    if (end->is_whole) {
        kept_end();
        return;
    }
    kept_hold();
    take_results_of_guest(session, end);
    n_results = json_array_size(session->runs);
    keep_rest(session, (int)n_results, why, "not begun");
    if (n_results == (size_t)session->options->n_operands && end->n_lines > 0) {
        forget_stdout(session); /* as far as it was passed on */
    }
    kept_release();
}

/* Keeps the result of a file that was not run. */
static void take_no_result(struct session *session, const char *path, const char *error)
{
    struct weft_text replay = {NULL, 0, 0};
    json_t *document;

    cli_replay_unread(session->options, path, &replay);
    document = document_without_run(session, path, replay.bytes, error);
    take_result(session, document, path, error, 0, false);
    weft_text_fini(&replay);
}

static int run_loaded(struct session *session, const char *path,
                      struct scenario *scenario)
{
    struct cli_options *options = session->options;
    struct weft_text replay = {NULL, 0, 0};
    struct progress_line progress = progress_line_start(!options->quiet);
    struct run_options run = {
        .backend = session->backend,
        .has_seed = options->has_seed,
        .seed = options->seed,
        .trace_level = options->events_packet ? WEFT_TRACE_PACKET : WEFT_TRACE_STORY,
        .no_trains = options->no_trains,
        .watches_programs = failed_is_watched(options),
        .events = wants_story(options) || session->events != NULL ? take_event : NULL,
        .events_context = session,
        .progress = progress_line_update,
        .progress_context = &progress,
        .rendezvous = options->rendezvous,
        .log = &options->log};
    struct weft_error error;
    json_t *document = NULL;
    json_t *observations = NULL;
    enum run_result result;
    double began = wall_seconds();
    char text[512];
    int code;

    cli_replay(options, path, options->has_seed ? options->seed : scenario->seed,
               &replay);
    run.replay = replay.bytes;
    if (options->policy != NULL) {
        run.has_policy = weft_policy_parse(options->policy, &run.policy);
    }
    weft_error_clear(&error);
    print_head(session, scenario);
    result = run_captured(session, scenario, &run, &document, &observations, &error);
    progress_line_end(&progress);
    code = cli_verdict(result);
    weft_error_format(&error, text, sizeof(text));
    if (document == NULL) {
        fprintf(stderr, "weft: %s: %s\n", path, text);
        document = document_without_run(session, path, replay.bytes, text);
        json_object_set_new(document, "scenario", json_string(scenario->name));
    }
    take_result(session, document, path, error.status != WEFT_OK ? text : NULL,
                wall_seconds() - began, code == CLI_OK);
    if (observations != NULL) {
        json_array_append_new(session->observations, observations);
    }
    if (code != CLI_OK) {
        fprintf(stderr, "replay: %s\n", replay.bytes);
    }
    weft_text_fini(&replay);
    return code;
}

static int run_file(struct session *session, const char *path)
{
    struct weft_text why = {NULL, 0, 0};
    struct scenario *scenario = cli_load_why(session->options, path, &why);
    const char *key = NULL;
    int code = CLI_USAGE;

    if (scenario != NULL && !scenario_not_implemented(scenario, &key)) {
        code = run_loaded(session, path, scenario);
    } else if (scenario != NULL) {
        code = CLI_ENVIRONMENT;
        weft_text_add(&why, "not implemented yet: %s", key);
        fprintf(stderr, "weft: %s: %s\n", path, why.bytes);
        take_no_result(session, path, why.bytes);
    } else {
        take_no_result(session, path, why.bytes);
    }
    weft_text_fini(&why);
    scenario_free(scenario);
    return code;
}

/* Writes the document of a single run, or {"schema_version":1,"runs":[...]} for several. */
static bool write_documents(const struct session *session, json_t *list, const char *path,
                            const char *member)
{
    json_t *whole = NULL;
    bool ok;

    if (json_array_size(list) == 1 && session->options->n_operands == 1) {
        whole = json_incref(json_array_get(list, 0));
    } else {
        whole = json_pack("{s:i, s:O}", "schema_version", 1, member, list);
    }
    ok = cli_write_json(path, whole);
    json_decref(whole);
    return ok;
}

static bool write_rendered(const char *path, const json_t *runs,
                           const struct weft_text *story,
                           void (*render)(const json_t *, const struct weft_text *,
                                          struct weft_text *))
{
    struct weft_text text = {NULL, 0, 0};
    bool ok;

    render(runs, story, &text);
    ok = cli_write_file(path, text.bytes, text.n);
    weft_text_fini(&text);
    return ok;
}

static void render_junit(const json_t *runs, const struct weft_text *story,
                         struct weft_text *out)
{
    (void)story;
    report_junit(runs, out);
}

static bool write_all(struct session *session)
{
    const struct cli_options *options = session->options;
    bool ok = true;

    if (options->json != NULL) {
        ok = write_documents(session, session->runs, options->json, "runs") && ok;
    }
    if (options->observations != NULL) {
        ok = write_documents(session, session->observations, options->observations,
                             "observations") &&
             ok;
    }
    if (options->junit != NULL) {
        ok = write_rendered(options->junit, session->cases, &session->story,
                            render_junit) &&
             ok;
    }
    if (options->html != NULL) {
        ok = write_rendered(options->html, session->runs, &session->story, report_html) &&
             ok;
    }
    if (options->trace != NULL) {
        ok = write_rendered(options->trace, session->runs, &session->story,
                            report_perfetto) &&
             ok;
    }
    return ok;
}

static bool open_output(const char *path, FILE **out)
{
    if (path == NULL) {
        return true;
    }
    weft_observe_begin();
    *out = strcmp(path, "-") == 0 ? stdout : fopen(path, "wb");
    weft_observe_end();
    if (*out == NULL) {
        fprintf(stderr, "weft: %s: %s\n", path, strerror(errno));
    }
    return *out != NULL;
}

static bool close_output(const char *path, FILE *file)
{
    if (file == NULL) {
        return true;
    }
    if (ferror(file) || (file == stdout ? fflush(file) : fclose(file)) != 0) {
        fprintf(stderr, "weft: %s: %s\n", path, strerror(errno));
        return false;
    }
    return true;
}

static bool find_backend(struct session *session)
{
    const char *name = session->options->backend;

    session->backend = backend_find(name);
    if (session->backend == NULL) {
        fprintf(stderr, "weft run: --backend: no such backend: %s\n", name);
    }
    return session->backend != NULL;
}

/* Runs all files and writes all results. */
static int run_all(struct session *session)
{
    const struct cli_options *options = session->options;
    int code = CLI_OK;

    for (int i = 0; i < options->n_operands; i++) {
        keep_rest(session, i, "the process was ended before this run was over",
                  "not begun");
        code = cli_worse(run_file(session, options->operands[i]), code);
    }
    kept_hold();
    keep_rest(session, options->n_operands, "", "");
    forget_stdout(session);
    kept_release();
    return write_all(session) ? code : cli_worse(CLI_USAGE, code);
}

static void session_begin(struct session *session)
{
    session->runs = json_array();
    session->cases = json_array();
    session->observations = json_array();
    for (int i = 0; i < N_KEPT_OUTPUTS; i++) {
        weft_text_add_bytes(&session->done[i], "", 0);
    }
    if (session->options->n_operands > 1) {
        weft_text_add(&session->done[KEPT_JSON], "{\"schema_version\": 1, \"runs\": [");
    }
    report_junit_head(&session->done[KEPT_JUNIT]);
    kept_begin();
}

static void session_fini(struct session *session)
{
    json_decref(session->runs);
    json_decref(session->cases);
    json_decref(session->observations);
    weft_text_fini(&session->story);
    for (int i = 0; i < N_KEPT_OUTPUTS; i++) {
        weft_text_fini(&session->done[i]);
        weft_text_fini(&session->rest[i]);
    }
}

/* Facts about the files that are needed before a guest starts. */
struct outline {
    /* Seed of the first file; 0 if it cannot be loaded, which its run reports. */
    uint64_t seed;
    bool has_programs;
    int code;             /* exit status for errors in the commands of programs */
    struct weft_text why; /* Owned; the first of these errors */
};

static void look_at(const struct cli_options *options, const char *path, bool is_first,
                    struct outline *outline)
{
    struct scenario_diagnostics diagnostics;
    struct weft_text text = {NULL, 0, 0};
    struct weft_text why = {NULL, 0, 0};
    struct scenario *scenario = NULL;
    enum run_result result;

    if (scenario_load_file(path, options->sets, options->n_sets, &text, &scenario,
                           &diagnostics) == WEFT_OK) {
        outline->seed = is_first ? scenario->seed : outline->seed;
        outline->has_programs = outline->has_programs || scenario_has_programs(scenario);
        if (!run_programs_check(scenario, &why, &result)) {
            fprintf(stderr, "weft: %s\n", why.bytes);
            outline->code = cli_worse(cli_verdict(result), outline->code);
            if (outline->why.n == 0) {
                weft_text_add(&outline->why, "%s", why.bytes);
            }
        }
    }
    scenario_diagnostics_fini(&diagnostics);
    scenario_free(scenario);
    weft_text_fini(&text);
    weft_text_fini(&why);
}

/* Returns true if everything ran in a guest, or cannot run as requested. *code is the exit
 * status. */
static bool runs_elsewhere(struct session *session, int *code)
{
    static const char no_guest[] = "the guest that this run needs cannot be started";
    struct cli_options *options = session->options;
    const struct backend *backend = backend_named(options->backend);
    struct outline outline = {.code = CLI_OK};
    struct backend_guest guest = {.time_limit_s = options->time_limit_s,
                                  .context = session,
                                  .ended = keep_of_guest};

    if (options->clock != NULL && strstr(backend->clocks, options->clock) == NULL) {
        fprintf(stderr,
                "weft run: --clock %s: backend %s keeps %s time only; rxe and soft "
                "have both\n",
                options->clock, options->backend, backend->clocks);
        *code = CLI_USAGE;
        return true;
    }
    if (options->clock == NULL && strcmp(backend->clocks, "virtual real") == 0) {
        /* Stored in the replay command, which must not depend on the kernel. */
        options->clock = backend_default_clock(backend);
    }
    /* Not in a guest, so that a run does not depend on how its seed was given. */
    if (strstr(backend->clocks, "real") != NULL && !backend_is_in_guest()) {
        for (int i = 0; i < options->n_operands; i++) {
            look_at(options, options->operands[i], i == 0, &outline);
        }
    }
    if (outline.code != CLI_OK) {
        keep_rest(session, 0, outline.why.bytes, outline.why.bytes);
        weft_text_fini(&outline.why);
        *code = outline.code;
        return true;
    }
    guest.clock = options->clock;
    guest.seed = options->has_seed ? options->seed : outline.seed;
    keep_rest(session, 0, no_guest, no_guest);
    if (outline.has_programs && strcmp(options->backend, "rxe") == 0
            ? backend_programs_elsewhere(&guest, code)
            : backend_runs_elsewhere(options->backend, &guest, code)) {
        return true;
    }
    kept_end();
    if (options->time_limit_s != 0 && !backend_is_in_guest()) {
        fprintf(stderr,
                "weft run: --time-limit: this run is in no guest, which is what it "
                "kills: use --backend rxe, or soft with --clock virtual\n");
        *code = CLI_USAGE;
        return true;
    }
    return false;
}

/* Runs all files in this process. */
static int run_here(struct session *session)
{
    struct cli_options *options = session->options;
    int code;

    if (options->pcap != NULL && options->n_operands > 1) {
        fprintf(stderr, "weft run: --pcap takes one scenario at a time\n");
        return CLI_USAGE;
    }
    if (!open_output(options->events, &session->events) ||
        !open_output(options->pcap, &session->pcap)) {
        close_output(options->events, session->events);
        return CLI_USAGE;
    }
    session->has_stdout = cli_has_stdout(options);
    code = run_all(session);
    code = close_output(options->events, session->events) ? code
                                                          : cli_worse(CLI_USAGE, code);
    if (session->pcap != NULL && session->pcap != stdout) {
        fclose(session->pcap);
    }
    return code;
}

int cli_run(struct cli_options *options)
{
    struct session session = {.options = options, .guest_folder = -1};
    int code = CLI_OK;

    if (options->n_operands == 0) {
        fprintf(stderr, "usage: weft run [flags] FILE... (weft run --help)\n");
        return CLI_USAGE;
    }
    if (!find_backend(&session) ||
        (strcmp(options->backend, "verbs") != 0 &&
         cli_refuse_given(options, "rendezvous", "only with --backend verbs"))) {
        return CLI_USAGE;
    }
    session_begin(&session);
    if (runs_elsewhere(&session, &code)) {
        kept_write(); /* nothing, if the run was in a guest and is over */
    } else {
        session.guest_folder = backend_guest_folder();
        code = run_here(&session);
    }
    kept_end();
    session_fini(&session);
    return code;
}
