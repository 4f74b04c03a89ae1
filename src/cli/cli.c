/* Shared by the verbs of the command: output, exit codes, loading of scenarios. */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "diag/catalogue.h"
#include "run/inside.h"
#include "scenario/diagnose.h"

#define JSON_BYTES_MAX ((size_t)1 << 30)

int cli_worse(int a, int b)
{
    static const int order[] = {CLI_INTERRUPTED, CLI_USAGE, CLI_ENVIRONMENT, CLI_TIMEOUT,
                                CLI_FAILED,      CLI_OK,    CLI_SKIPPED};

    for (size_t i = 0; i < WEFT_LENGTH(order); i++) {
        if (a == order[i] || b == order[i]) {
            return order[i];
        }
    }
    return a;
}

static bool stdout_is_reported;

/* Says once why stdout lost what was printed. */
static void report_stdout(int error)
{
    if (!stdout_is_reported) {
        fprintf(stderr, "weft: stdout: %s\n", strerror(error));
    }
    stdout_is_reported = true;
}

bool cli_write_file(const char *path, const char *bytes, size_t n)
{
    bool is_stdout = strcmp(path, "-") == 0;
    FILE *file = is_stdout ? stdout : fopen(path, "wb");
    bool ok;

    if (file == NULL) {
        fprintf(stderr, "weft: %s: %s\n", path, strerror(errno));
        return false;
    }
    ok = n == 0 || fwrite(bytes, 1, n, file) == n;
    ok = (is_stdout ? fflush(file) : fclose(file)) == 0 && ok;
    if (!ok && is_stdout) {
        report_stdout(errno);
    } else if (!ok) {
        fprintf(stderr, "weft: %s: %s\n", path, strerror(errno));
    }
    return ok;
}

/* Returns why an earlier write to stdout failed, which stdio has forgotten: one more byte of an
 * output that is cut short anyway meets the same, or EIO is all that is known. */
static int stdout_errno(void)
{
    return write(STDOUT_FILENO, "\n", 1) < 0 ? errno : EIO;
}

int cli_with_stdout(int status)
{
    bool is_lost = ferror(stdout) != 0;

    if (fflush(stdout) != 0) {
        report_stdout(errno);
        is_lost = true;
    } else if (is_lost) {
        report_stdout(stdout_errno());
    }
    return is_lost ? cli_worse(status, CLI_USAGE) : status;
}

bool cli_print(const char *bytes, size_t n)
{
    return cli_write_file("-", bytes, n);
}

bool cli_write_json(const char *path, const json_t *document)
{
    char *text = json_dumps(document, JSON_INDENT(2));
    bool ok = text != NULL && cli_write_file(path, text, strlen(text));

    if (ok && strcmp(path, "-") == 0) {
        ok = cli_print("\n", 1);
    }
    free(text);
    return ok;
}

json_t *cli_read_json(const char *path)
{
    struct weft_text text = {NULL, 0, 0};
    json_error_t syntax;
    json_t *document = NULL;
    int sys_errno = weft_text_add_file(&text, path, JSON_BYTES_MAX);

    if (sys_errno != 0) {
        fprintf(stderr, "%s: cannot read: %s\n", path, strerror(sys_errno));
    } else if (text.n > JSON_BYTES_MAX) {
        fprintf(stderr, "%s: too large: more than 1 GiB\n", path);
    } else if (text.n == 0) {
        fprintf(stderr, "%s:1:1: the file is empty\n", path);
    } else {
        document = json_loadb(text.bytes, text.n, JSON_REJECT_DUPLICATES, &syntax);
        if (document == NULL) {
            fprintf(stderr, "%s:%d:%d: not JSON: %s\n", path, syntax.line, syntax.column,
                    syntax.text);
        }
    }
    weft_text_fini(&text);
    return document;
}

json_t *cli_json_text(const char *text)
{
    json_t *whole = json_string(text);
    struct weft_text ascii = {NULL, 0, 0};

    if (whole != NULL) {
        return whole;
    }
    for (; *text != '\0'; text++) {
        weft_text_add_bytes(&ascii, (unsigned char)*text < 0x80 ? text : "?", 1);
    }
    whole = json_string(ascii.bytes);
    weft_text_fini(&ascii);
    return whole;
}

struct scenario *cli_load(const struct cli_options *options, const char *path)
{
    struct weft_text text = {NULL, 0, 0};
    struct scenario *scenario = cli_load_keep(options, path, &text);

    weft_text_fini(&text);
    return scenario;
}

char *cli_code_hint(const char *code, char *out, size_t out_bytes)
{
    const char *codes[DIAG_N_CODES];

    for (int i = 0; i < DIAG_N_CODES; i++) {
        codes[i] = diag_entry((enum diag_code)i)->code;
    }
    return diagnose_hint(code, codes, DIAG_N_CODES, out, out_bytes);
}

/* Adds a complaint for each finding that is expected and that Weft does not know; true if there is
 * one. The loader cannot ask, because it stands below the catalogue. */
static bool expects_unknown(const struct cli_options *options, const char *path,
                            const struct scenario *scenario, struct weft_text *wrong)
{
    const struct scenario_expect *expect = &scenario->expect;
    bool any = false;

    for (uint32_t i = 0; i < expect->n_findings; i++) {
        const char *code = expect->findings[i].code;
        char quoted[DIAGNOSE_QUOTE_BYTES];
        char place[256];
        char hint[64];

        if (diag_entry_by_code(code) != NULL) {
            continue;
        }
        diagnose_place(path, options->sets, options->n_sets, expect->findings[i].mark,
                       place, sizeof(place));
        weft_text_add(
            wrong, "%sfindings: unknown finding '%s'%s (weft explain lists them)\n",
            place, diagnose_quote(code, quoted), cli_code_hint(code, hint, sizeof(hint)));
        any = true;
    }
    return any;
}

/* Adds what is wrong with it to `wrong`; NULL after an error. */
static struct scenario *checked(const struct cli_options *options, const char *path,
                                weft_status status, struct scenario *scenario,
                                struct scenario_diagnostics *diagnostics,
                                struct weft_text *wrong)
{
    for (size_t i = 0; i < diagnostics->n; i++) {
        weft_text_add(wrong, "%s\n", diagnostics->items[i].text);
    }
    if (diagnostics->n_left_out > 0) {
        weft_text_add(wrong, "%s: and %zu more\n", path, diagnostics->n_left_out);
    }
    scenario_diagnostics_fini(diagnostics);
    if (scenario != NULL && (!run_check_documents(scenario, wrong) ||
                             expects_unknown(options, path, scenario, wrong))) {
        scenario_free(scenario);
        scenario = NULL;
    }
    return status == WEFT_OK ? scenario : NULL;
}

struct scenario *cli_load_why(const struct cli_options *options, const char *path,
                              struct weft_text *why)
{
    struct scenario_diagnostics diagnostics;
    struct scenario *scenario = NULL;
    struct weft_text text = {NULL, 0, 0};
    weft_status status = scenario_load_file(path, options->sets, options->n_sets, &text,
                                            &scenario, &diagnostics);

    weft_text_add_bytes(why, "", 0);
    scenario = checked(options, path, status, scenario, &diagnostics, why);
    fprintf(stderr, "%s", why->bytes);
    if (why->n > 0 && why->bytes[why->n - 1] == '\n') {
        why->bytes[--why->n] = '\0';
    }
    weft_text_fini(&text);
    return scenario;
}

/* Prints what is wrong with it; NULL after an error. */
static struct scenario *loaded(const struct cli_options *options, const char *path,
                               weft_status status, struct scenario *scenario,
                               struct scenario_diagnostics *diagnostics)
{
    struct weft_text wrong = {NULL, 0, 0};

    scenario = checked(options, path, status, scenario, diagnostics, &wrong);
    fprintf(stderr, "%s", wrong.n > 0 ? wrong.bytes : "");
    weft_text_fini(&wrong);
    return scenario;
}

struct scenario *cli_load_keep(const struct cli_options *options, const char *path,
                               struct weft_text *text)
{
    struct scenario_diagnostics diagnostics;
    struct scenario *scenario = NULL;
    weft_status status = scenario_load_file(path, options->sets, options->n_sets, text,
                                            &scenario, &diagnostics);

    return loaded(options, path, status, scenario, &diagnostics);
}

struct scenario *cli_load_bytes(const struct cli_options *options, const char *name,
                                const char *bytes, size_t n_bytes)
{
    struct scenario_diagnostics diagnostics;
    struct scenario *scenario = NULL;
    weft_status status = scenario_load_text(name, bytes, n_bytes, options->sets,
                                            options->n_sets, &scenario, &diagnostics);

    return loaded(options, name, status, scenario, &diagnostics);
}

/* Adds text that is not UTF-8 as one word of a shell, in ASCII, because documents contain the line,
 * and JSON contains UTF-8 only (dollar-single-quotes, POSIX.1-2024, 2.2.4). */
static void add_escaped(struct weft_text *out, const char *word)
{
    weft_text_add(out, "$'");
    for (; *word != '\0'; word++) {
        unsigned char byte = (unsigned char)*word;

        if (byte < ' ' || byte >= 0x7f || byte == '\'' || byte == '\\') {
            weft_text_add(out, "\\%03o", byte);
        } else {
            weft_text_add_bytes(out, word, 1);
        }
    }
    weft_text_add(out, "'");
}

/* Adds a text as one word of a shell. */
static void add_quoted(struct weft_text *out, const char *word)
{
    json_t *text = json_string(word);

    if (text == NULL) {
        add_escaped(out, word);
        return;
    }
    json_decref(text);
    weft_text_add(out, "'");
    for (; *word != '\0'; word++) {
        if (*word == '\'') {
            weft_text_add(out, "'\\''");
        } else {
            weft_text_add_bytes(out, word, 1);
        }
    }
    weft_text_add(out, "'");
}

/* Appends the replay line. `seed` is NULL for the file's seed. */
static void add_replay(const struct cli_options *options, const char *path,
                       const uint64_t *seed, struct weft_text *out)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789/._-+=:,@%";

    weft_text_add(out, "weft run ");
    if (path[strspn(path, plain)] == '\0') {
        weft_text_add(out, "%s", path);
    } else {
        add_quoted(out, path);
    }
    weft_text_add(out, " --backend %s", options->backend);
    if (seed != NULL) {
        weft_text_add(out, " --seed %llu", (unsigned long long)*seed);
    }
    if (options->clock != NULL) {
        weft_text_add(out, " --clock %s", options->clock);
    }
    if (options->policy != NULL) {
        weft_text_add(out, " --policy %s", options->policy);
    }
    for (size_t i = 0; i < options->n_sets; i++) {
        weft_text_add(out, " --set ");
        add_quoted(out, options->sets[i].text);
    }
}

void cli_replay(const struct cli_options *options, const char *path, uint64_t seed,
                struct weft_text *out)
{
    add_replay(options, path, &seed, out);
}

void cli_replay_unread(const struct cli_options *options, const char *path,
                       struct weft_text *out)
{
    add_replay(options, path, options->has_seed ? &options->seed : NULL, out);
}

static void interrupted(int signal_number)
{
    (void)signal_number;
    _exit(CLI_INTERRUPTED);
}

void cli_end_when_interrupted(void)
{
    if (signal(SIGINT, interrupted) == SIG_IGN) {
        signal(SIGINT, SIG_IGN); /* as a shell has it in the background */
    }
}

#define N_OUTPUTS 10

/* A flag that writes a file; path NULL if it was not given. */
struct output {
    const char *flag, *path;
};

static void outputs_of(const struct cli_options *options, struct output out[N_OUTPUTS])
{
    const struct output all[N_OUTPUTS] = {
        {"json", options->json},     {"ndjson", options->ndjson ? "-" : NULL},
        {"junit", options->junit},   {"html", options->html},
        {"pcap", options->pcap},     {"trace", options->trace},
        {"events", options->events}, {"observations", options->observations},
        {"save", options->save},     {"result", options->result},
    };

    memcpy(out, all, sizeof(all));
}

bool cli_has_stdout(const struct cli_options *options)
{
    struct output outputs[N_OUTPUTS];

    outputs_of(options, outputs);
    for (size_t i = 0; i < N_OUTPUTS; i++) {
        if (outputs[i].path != NULL && strcmp(outputs[i].path, "-") == 0) {
            return false;
        }
    }
    return true;
}

/* Returns true if both flags may write to one path: to a device, or a member's event log and record
 * to stdout, where the launcher separates them (lab/process.c). */
static bool may_share(const struct output *first, const struct output *second)
{
    if (strcmp(first->path, "-") == 0) {
        return strcmp(first->flag, "events") == 0 && strcmp(second->flag, "result") == 0;
    }
    return strncmp(first->path, "/dev/", 5) == 0;
}

bool cli_check_outputs(const char *verb, const struct cli_options *options)
{
    struct output outputs[N_OUTPUTS];
    char quoted[DIAGNOSE_QUOTE_BYTES];

    outputs_of(options, outputs);
    for (size_t i = 0; i < N_OUTPUTS; i++) {
        const char *path = outputs[i].path;

        if (path != NULL && path[0] == '\0') {
            fprintf(stderr, "weft %s: --%s: the name of the file is empty\n", verb,
                    outputs[i].flag);
            return false;
        }
        for (size_t k = 0; path != NULL && k < i; k++) {
            if (outputs[k].path != NULL && strcmp(path, outputs[k].path) == 0 &&
                !may_share(&outputs[k], &outputs[i])) {
                fprintf(stderr, "weft %s: --%s and --%s both write to %s\n", verb,
                        outputs[k].flag, outputs[i].flag,
                        strcmp(path, "-") == 0 ? "stdout" : diagnose_quote(path, quoted));
                return false;
            }
        }
    }
    return true;
}
