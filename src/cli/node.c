/* weft node, relayd, guest, cleanup: runs whose hosts are separate processes. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/registry.h"
#include "base/observe.h"
#include "cli/cli.h"
#include "cli/member.h"
#include "cli/site.h"
#include "plugin/relayd.h"
#include "report/draw.h"
#include "report/junit.h"
#include "report/tables.h"
#include "run/node.h"

/* ---- node ---- */

static int exit_code(weft_status status)
{
    if (status == WEFT_OK) {
        return CLI_OK;
    }
    if (status == WEFT_ERR_INPUT) {
        return CLI_USAGE;
    }
    if (status == WEFT_ERR_ENVIRONMENT || status == WEFT_ERR_UNSUPPORTED) {
        return CLI_ENVIRONMENT;
    }
    return status == WEFT_ERR_TIMEOUT ? CLI_TIMEOUT : CLI_FAILED;
}

/* Writes the record in one write, so that a reader never sees half a record of a running
 * process. */
static bool write_record(const char *path, json_t *record)
{
    char *text = json_dumps(record, JSON_COMPACT);
    bool ok = text != NULL && cli_write_file(path, text, strlen(text));

    free(text);
    return ok;
}

/* The event log of this process. It has no buffer, so that it is complete up to the moment at which
 * the host is killed, and allocates nothing, so that the host's memory is the same without it. */
struct event_log {
    int fd; /* Owned unless it is standard output; -1: none */
    bool is_whole;
};

static bool open_events(const char *path, struct event_log *out)
{
    *out = (struct event_log){.fd = -1, .is_whole = true};
    if (path == NULL) {
        return true;
    }
    weft_observe_begin();
    out->fd = strcmp(path, "-") == 0
                  ? STDOUT_FILENO
                  : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    weft_observe_end();
    if (out->fd < 0) {
        fprintf(stderr, "weft node: %s: %s\n", path, strerror(errno));
    }
    return out->fd >= 0;
}

static void write_event(void *context, const char *line, size_t n_bytes)
{
    struct event_log *log = context;

    while (n_bytes > 0 && log->is_whole) {
        ssize_t n = write(log->fd, line, n_bytes);

        log->is_whole = n >= 0 || errno == EINTR;
        line += n > 0 ? n : 0;
        n_bytes -= n > 0 ? (size_t)n : 0;
    }
}

static bool close_events(const char *path, struct event_log *log)
{
    weft_observe_begin();
    if (log->fd >= 0 && log->fd != STDOUT_FILENO && close(log->fd) != 0) {
        log->is_whole = false;
    }
    weft_observe_end();
    if (!log->is_whole) {
        fprintf(stderr, "weft node: %s: the event story is incomplete\n", path);
    }
    return log->is_whole;
}

/* Prints the common result as `weft run` does. Called in the process that judged. */
static bool show_outcome(struct cli_options *options, const json_t *document,
                         const json_t *observations, bool is_good)
{
    json_t *runs = json_pack("[O]", document);
    struct weft_text text = {NULL, 0, 0};
    bool ok = options->json == NULL || cli_write_json(options->json, document);

    if (options->observations != NULL) {
        ok = cli_write_json(options->observations, observations) && ok;
    }
    if (options->junit != NULL) {
        report_junit(runs, &text);
        ok = cli_write_file(options->junit, text.bytes, text.n) && ok;
        weft_text_fini(&text);
    }
    if (cli_has_stdout(options)) {
        if (!options->quiet) {
            report_run(document, options->verbose, &options->style, &text);
        } else if (!is_good) {
            report_failures(document, &options->style, &text);
        }
        weft_text_add_bytes(&text, "", 0);
        ok = cli_print(text.bytes, text.n) && ok;
        weft_text_fini(&text);
    }
    json_decref(runs);
    return ok;
}

static int exit_of(struct cli_options *options, weft_status status,
                   const struct run_node_outcome *outcome)
{
    int code = outcome->has_verdict ? cli_verdict(outcome->verdict) : exit_code(status);

    if (outcome->record != NULL && options->result != NULL &&
        !write_record(options->result, outcome->record)) {
        code = cli_worse(code, CLI_USAGE);
    }
    if (outcome->document != NULL &&
        !show_outcome(options, outcome->document, outcome->observations,
                      code == CLI_OK)) {
        code = cli_worse(code, CLI_USAGE);
    }
    return code;
}

/* ---- SIGUSR1 ---- */

static volatile sig_atomic_t is_report_wanted;

static void want_report(int signal_number)
{
    (void)signal_number;
    is_report_wanted = 1;
}

static bool is_asked(void)
{
    bool is_wanted = is_report_wanted != 0;

    is_report_wanted = 0;
    return is_wanted;
}

static void report(const char *text)
{
    fputs(text, stderr);
}

static void listen_for_reports(void)
{
    const struct sigaction action = {.sa_handler = want_report};

    sigaction(SIGUSR1, &action, NULL);
}

/* ---- a member ---- */

static int run_one(struct cli_options *options, const struct scenario *scenario,
                   const struct cli_member *member)
{
    struct weft_log log = options->log;
    struct weft_text replay = {NULL, 0, 0};
    struct run_node_options node = {.name = member->name,
                                    .is_relay = member->is_relay,
                                    .collects = options->result == NULL,
                                    .world = member->is_soft ? backend_soft_node_world
                                                             : backend_node_world,
                                    .has_rendezvous = member->has_rendezvous,
                                    .rendezvous = member->rendezvous,
                                    .patience_ns = options->patience_s * 1000000000,
                                    .has_seed = options->has_seed,
                                    .seed = options->seed,
                                    .secret = member->has_secret ? member->secret : NULL,
                                    .log = &log,
                                    .is_asked = is_asked,
                                    .report = report};
    struct run_node_outcome outcome;
    struct weft_error error;
    struct event_log events;
    weft_status status;
    char text[512];
    bool told;
    int code;

    if (options->policy != NULL) {
        node.has_policy = weft_policy_parse(options->policy, &node.policy);
    }
    if (!open_events(options->events, &events)) {
        return CLI_USAGE;
    }
    cli_replay(options, scenario->file,
               options->has_seed ? options->seed : scenario->seed, &replay);
    node.replay = replay.bytes;
    node.events = events.fd < 0 ? NULL : write_event;
    node.events_context = &events;
    weft_error_clear(&error);
    status = run_node(scenario, &node, &outcome, &error);
    if (status != WEFT_OK) {
        weft_error_format(&error, text, sizeof(text));
        fprintf(stderr, "weft: %s: %s\n", member->name, text);
    }
    told = close_events(options->events, &events);
    code = exit_of(options, status, &outcome);
    code = told ? code : cli_worse(code, CLI_USAGE);
    run_node_outcome_fini(&outcome);
    weft_text_fini(&replay);
    return code;
}

/* Reads a scenario from standard input until its end or a line "...". Reads no further, because
 * what follows is for other readers. */
static struct scenario *read_scenario(struct cli_options *options)
{
    struct weft_text text = {NULL, 0, 0};
    struct scenario *scenario;
    size_t line = 0; /* start of the current line */
    char byte;

    while (read(STDIN_FILENO, &byte, 1) == 1) {
        weft_text_add_bytes(&text, &byte, 1);
        if (byte != '\n') {
            continue;
        }
        if (text.n - line == 4 && memcmp(text.bytes + line, "...\n", 4) == 0) {
            text.n = line;
            break;
        }
        line = text.n;
    }
    scenario = cli_load_bytes(options, "-", text.bytes, text.n);
    weft_text_fini(&text);
    return scenario;
}

static struct scenario *load_scenario(struct cli_options *options)
{
    return strcmp(options->scenario, "-") == 0 ? read_scenario(options)
                                               : cli_load(options, options->scenario);
}

/* Generates a scenario from the facts of all ranks and draws it. Returns NULL and sets *out_code on
 * error. */
static struct scenario *find_site(struct cli_options *options,
                                  const struct cli_member *member, int *out_code)
{
    const char *file = options->save != NULL ? options->save : "site.yaml";
    struct weft_text text = {NULL, 0, 0};
    struct scenario *scenario = NULL;
    weft_status status = cli_site_find(options, member, &text);
    bool tells = status == WEFT_OK && member->rank == 0;

    if (tells && options->save != NULL &&
        !cli_write_file(options->save, text.bytes, text.n)) {
        status = WEFT_ERR_INPUT;
    }
    *out_code = exit_code(status);
    if (status == WEFT_OK) {
        scenario = cli_load_bytes(options, file, text.bytes, text.n);
        *out_code = CLI_USAGE;
    }
    weft_text_fini(&text);
    if (scenario != NULL && tells && !options->quiet && options->json == NULL &&
        cli_has_stdout(options)) {
        draw_mesh(scenario, &text);
        cli_print(text.bytes, text.n);
        weft_text_fini(&text);
    }
    return scenario;
}

static int run_process(struct cli_options *options, bool is_relay)
{
    struct cli_member member;
    struct scenario *scenario;
    const char *key = NULL;
    int code = CLI_USAGE;

    if ((is_relay && options->scenario == NULL) || options->n_operands != 0) {
        fprintf(stderr, "usage: weft %s --scenario FILE [--name HOST] [flags]\n",
                is_relay ? "relayd" : "node");
        return CLI_USAGE;
    }
    if (options->save != NULL && options->scenario != NULL) {
        fprintf(stderr, "weft node: --save: only a run without --scenario makes one\n");
        return CLI_USAGE;
    }
    if (options->scenario != NULL &&
        cli_refuse_given(options, "netdevs", "only without --scenario")) {
        return CLI_USAGE;
    }
    if (!cli_member_find(options, is_relay, &member)) {
        return CLI_USAGE;
    }
    /* Ignored, so that writing to a closed connection fails instead of ending the process. */
    signal(SIGPIPE, SIG_IGN);
    listen_for_reports();
    scenario = options->scenario != NULL ? load_scenario(options)
                                         : find_site(options, &member, &code);
    if (scenario == NULL) {
        return code;
    }
    if (scenario_not_implemented(scenario, &key)) {
        fprintf(stderr, "weft: %s: not implemented yet: %s\n", scenario->file, key);
        code = CLI_ENVIRONMENT;
        scenario_free(scenario);
        return code;
    }
    code = CLI_USAGE;
    if (cli_member_place(&member, scenario)) {
        code = run_one(options, scenario, &member);
    }
    scenario_free(scenario);
    return code;
}

int cli_node(struct cli_options *options)
{
    return run_process(options, false);
}

/* ---- relayd without a scenario, for NCCL's plugin ---- */

static volatile sig_atomic_t is_signalled;

static void end(int signal_number)
{
    (void)signal_number;
    is_signalled = 1;
}

static bool is_over(void)
{
    return is_signalled != 0;
}

static const char *get_setting(const char *name)
{
    return getenv(name);
}

static void tell(const char *line)
{
    printf("%s\n", line);
    fflush(stdout);
}

static int relay_for_plugins(struct cli_options *options)
{
    struct weft_error error = {0};
    char text[512];

    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, end);
    signal(SIGTERM, end);
    if (plugin_relayd(get_setting, &options->log, is_over, tell, &error) == WEFT_OK) {
        return CLI_OK;
    }
    weft_error_format(&error, text, sizeof(text));
    fprintf(stderr, "weft relayd: %s\n", text);
    return error.status == WEFT_ERR_ENVIRONMENT ? CLI_ENVIRONMENT : CLI_FAILED;
}

int cli_relayd(struct cli_options *options)
{
    if (options->scenario == NULL && options->name == NULL && options->n_operands == 0) {
        return cli_refuse_given(options,
                                "backend events patience policy rendezvous result "
                                "secret seed set",
                                "only with --scenario; NCCL_MESH_... of the environment "
                                "are the settings of a relay for the plugin")
                   ? CLI_USAGE
                   : relay_for_plugins(options);
    }
    return run_process(options, true);
}

/* ---- guest ---- */

int cli_guest(struct cli_options *options)
{
    struct weft_error error;
    char text[512];
    int code = CLI_ENVIRONMENT;

    if (options->n_operands == 0) {
        fprintf(stderr, "usage: weft guest [flags] -- COMMAND...\n");
        return CLI_USAGE;
    }
    weft_error_clear(&error);
    if (backend_guest_run(options->operands, options->time_limit_s, options->clock,
                          options->has_seed ? options->seed : 1, &code,
                          &error) != WEFT_OK) {
        weft_error_format(&error, text, sizeof(text));
        fprintf(stderr, "weft guest: %s\n", text);
        return error.status == WEFT_ERR_TIMEOUT ? CLI_TIMEOUT : CLI_ENVIRONMENT;
    }
    return code;
}

/* ---- cleanup ---- */

int cli_cleanup(struct cli_options *options)
{
    unsigned n;

    if (options->n_operands > 0) {
        fprintf(stderr, "usage: weft cleanup [flags]\n");
        return CLI_USAGE;
    }
    n = backend_cleanup(&options->log);
    if (!options->quiet) {
        char text[64];
        int length = snprintf(text, sizeof(text), "%u removed\n", n);

        cli_print(text, (size_t)length);
    }
    return CLI_OK;
}
