/* weft run: scenarios in, documents, stories and captures out. */
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
#include "base/units.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "report/draw.h"
#include "report/html.h"
#include "report/json_read.h"
#include "report/junit.h"
#include "report/pcapng.h"
#include "report/perfetto.h"
#include "report/tables.h"
#include "run/run.h"

/* What one `weft run` keeps over its files. */
struct session {
    struct cli_options *options;
    const struct world_ops *backend;
    bool to_stdout; /* tables for people go to stdout */
    FILE *events;   /* or NULL */
    FILE *pcap;     /* or NULL */
    json_t *runs;   /* documents so far */
    json_t *observations;
    struct weft_text story; /* kept for --trace and --html */
};

/* Kept in memory, for what is made of it at the end. */
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
    if (session->to_stdout) {
        cli_print(text.bytes, text.n);
    }
    weft_text_fini(&text);
}

static void print_outcome(const struct session *session, json_t *document)
{
    struct weft_text text = {NULL, 0, 0};

    if (session->options->ndjson) {
        char *line = json_dumps(document, JSON_COMPACT);

        weft_text_add(&text, "%s\n", line);
        free(line);
    } else if (session->to_stdout) {
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

/* Runs with the capture's file open, when there is one. */
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
        weft_fail(error, WEFT_ERR_INPUT, "capture", "the scenario has no world");
        return RUN_ERROR;
    }
    pcapng_open(&pcapng, session->pcap, &world->spec);
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
    int code;

    cli_replay(options, path, options->has_seed ? options->seed : scenario->seed,
               &replay);
    run.replay = replay.bytes;
    if (options->policy != NULL) {
        run.has_policy = rdma_policy_parse(options->policy, &run.policy);
    }
    weft_error_clear(&error);
    print_head(session, scenario);
    result = run_captured(session, scenario, &run, &document, &observations, &error);
    progress_line_end(&progress);
    code = cli_verdict(result);
    if (document != NULL) {
        print_outcome(session, document);
        json_array_append_new(session->runs, document);
    }
    if (observations != NULL) {
        json_array_append_new(session->observations, observations);
    }
    if (error.status != WEFT_OK && document == NULL) {
        char text[512];

        weft_error_format(&error, text, sizeof(text));
        fprintf(stderr, "weft: %s: %s\n", path, text);
    }
    if (code != CLI_OK) {
        fprintf(stderr, "replay: %s\n", replay.bytes);
    }
    weft_text_fini(&replay);
    return code;
}

static int run_file(struct session *session, const char *path)
{
    struct scenario *scenario = cli_load(session->options, path);
    const char *key = NULL;
    int code;

    if (scenario == NULL) {
        return CLI_USAGE;
    }
    if (scenario_not_implemented(scenario, &key)) {
        fprintf(stderr, "weft: %s: not implemented yet: %s\n", path, key);
        scenario_free(scenario);
        return CLI_ENVIRONMENT;
    }
    code = run_loaded(session, path, scenario);
    scenario_free(scenario);
    return code;
}

/* One run: the document; several: {"schema_version":1,"runs":[...]}. */
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
        ok = write_rendered(options->junit, session->runs, &session->story,
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
    *out = strcmp(path, "-") == 0 ? stdout : fopen(path, "wb");
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

int cli_run(struct cli_options *options)
{
    struct session session = {.options = options};
    int code = CLI_OK;

    if (options->n_operands == 0) {
        fprintf(stderr, "usage: weft run FILE... [flags]\n");
        return CLI_USAGE;
    }
    if (!find_backend(&session)) {
        return CLI_USAGE;
    }
    if (backend_runs_elsewhere(options->backend, &code)) {
        return code;
    }
    if (options->pcap != NULL && options->n_operands > 1) {
        fprintf(stderr, "weft run: --pcap takes one scenario at a time\n");
        return CLI_USAGE;
    }
    if (!open_output(options->events, &session.events) ||
        !open_output(options->pcap, &session.pcap)) {
        close_output(options->events, session.events);
        return CLI_USAGE;
    }
    cli_end_when_interrupted();
    session.to_stdout = !options->quiet && !options->ndjson && session.events != stdout &&
                        session.pcap != stdout &&
                        (options->json == NULL || strcmp(options->json, "-") != 0);
    session.runs = json_array();
    session.observations = json_array();
    for (int i = 0; i < options->n_operands; i++) {
        code = cli_worse(run_file(&session, options->operands[i]), code);
    }
    code = write_all(&session) ? code : cli_worse(CLI_USAGE, code);
    code =
        close_output(options->events, session.events) ? code : cli_worse(CLI_USAGE, code);
    if (session.pcap != NULL && session.pcap != stdout) {
        fclose(session.pcap);
    }
    json_decref(session.runs);
    json_decref(session.observations);
    weft_text_fini(&session.story);
    return code;
}
