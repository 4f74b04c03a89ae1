/* weft show --nic: prints what each verb did inside one NIC during a run of the scenario. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/registry.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/cli.h"
#include "run/run.h"

#define KINDS_MAX 64
#define INDENT 31
#define WIDTH 120

/* Maximum number of names in a message. */
#define CHOICES_MAX 32

struct nic_view {
    const struct cli_options *options;
    struct weft_text text;
    json_t *verbs;
    char kinds[KINDS_MAX][80]; /* kinds of verbs already shown in full */
    unsigned n_kinds;
    char last[80]; /* kind of the unfinished line, or "" */
};

/* Writes what verbs that do the same to different objects have in common, such as "modify_qp RESET
 * to INIT". */
static void kind_of(const struct world_nic_verb *verb, char *out, size_t out_bytes)
{
    weft_format(out, out_bytes, "%s%s%s%s", verb->verb,
                verb->change[0] != '\0' ? " " : "", verb->change,
                verb->error == 0 ? "" : ", refused");
}

static bool is_told(struct nic_view *view, const char *kind)
{
    for (unsigned i = 0; i < view->n_kinds; i++) {
        if (strcmp(view->kinds[i], kind) == 0) {
            return true;
        }
    }
    if (view->n_kinds < KINDS_MAX) {
        weft_format(view->kinds[view->n_kinds++], sizeof(view->kinds[0]), "%s", kind);
    }
    return false;
}

static void close_line(struct nic_view *view)
{
    if (view->last[0] != '\0') {
        weft_text_add(&view->text, "\n");
        view->last[0] = '\0';
    }
}

/* Appends facts, wrapped with the indentation of the first. Returns the column. */
static size_t add_facts(struct weft_text *out, const char *facts)
{
    size_t column = INDENT;

    while (*facts != '\0') {
        size_t n = strcspn(facts, " ");

        if (column > INDENT && column + 1 + n > WIDTH) {
            weft_text_add(out, "\n%*s", INDENT, "");
            column = INDENT;
        }
        weft_text_add(out, "%s%.*s", column > INDENT ? " " : "", (int)n, facts);
        column += n + (column > INDENT);
        facts += n + strspn(facts + n, " ");
    }
    return column;
}

static void tell_steps(struct nic_view *view, const struct world_nic_verb *verb)
{
    const struct report_style *style = &view->options->style;

    for (unsigned i = 0; i < verb->n_steps; i++) {
        const struct world_nic_step *step = &verb->steps[i];
        size_t column;

        weft_text_add(&view->text, "    %-8s%-19s", step->who, step->what);
        column = add_facts(&view->text, step->facts);
        if (step->note != NULL && column + strlen(step->note) + 4 > WIDTH) {
            weft_text_add(&view->text, "\n%*s", INDENT - 2, "");
        }
        if (step->note != NULL) {
            weft_text_add(&view->text, "  %s(%s)%s", style->dim, step->note, style->off);
        }
        weft_text_add(&view->text, "\n");
    }
}

/* Prints a verb. One of a kind already shown in full is only named, on one line with others of its
 * kind. */
static void tell_text(struct nic_view *view, const struct world_nic_verb *verb)
{
    const struct report_style *style = &view->options->style;
    const char *number = strchr(verb->object, ' ');
    char kind[80];
    char took[32];
    bool is_brief;

    kind_of(verb, kind, sizeof(kind));
    is_brief = is_told(view, kind) && !view->options->verbose;
    if (is_brief && strcmp(view->last, kind) == 0 && number != NULL) {
        weft_text_add(&view->text, "%s", number);
        return;
    }
    close_line(view);
    weft_format_time(verb->ended_ns - verb->began_ns, took, sizeof(took));
    weft_text_add(&view->text, "%11.3fus %9s  %s%s%s  %s", (double)verb->began_ns / 1e3,
                  verb->is_forgotten ? "unwaited" : took, style->bold, kind, style->off,
                  verb->object);
    if (is_brief) {
        memcpy(view->last, kind, sizeof(kind));
    } else {
        weft_text_add(&view->text, "\n");
        tell_steps(view, verb);
    }
}

/* Converts "cqn=6 bank=2" to an object with decimal numbers as integers and all else as text. */
static json_t *facts_of(const char *facts)
{
    json_t *object = json_object();

    while (*facts != '\0') {
        char name[64];
        char value[256];
        size_t n_name = strcspn(facts, "=");
        size_t n = strcspn(facts, " ");
        char *end = NULL;

        if (n_name >= n || n_name >= sizeof(name) || n - n_name > sizeof(value)) {
            break;
        }
        weft_format(name, sizeof(name), "%.*s", (int)n_name, facts);
        weft_format(value, sizeof(value), "%.*s", (int)(n - n_name - 1),
                    facts + n_name + 1);
        long long number = strtoll(value, &end, 10);
        json_object_set_new(object, name,
                            end != value && *end == '\0' ? json_integer(number)
                                                         : json_string(value));
        facts += n + strspn(facts + n, " ");
    }
    return object;
}

static json_t *steps_of(const struct world_nic_verb *verb)
{
    json_t *steps = json_array();

    for (unsigned i = 0; i < verb->n_steps; i++) {
        const struct world_nic_step *step = &verb->steps[i];

        json_array_append_new(steps,
                              json_pack("{s:s, s:s, s:o, s:s?}", "who", step->who, "what",
                                        step->what, "facts", facts_of(step->facts),
                                        "note", step->note));
    }
    return steps;
}

static void take(void *context, const struct world_nic_verb *verb)
{
    struct nic_view *view = context;

    tell_text(view, verb);
    json_array_append_new(
        view->verbs,
        json_pack("{s:s, s:s, s:o, s:I, s:I, s:b, s:i, s:o}", "verb", verb->verb,
                  "object", verb->object, "change",
                  verb->change[0] == '\0' ? json_null() : json_string(verb->change),
                  "began_ns", (json_int_t)verb->began_ns, "ended_ns",
                  (json_int_t)verb->ended_ns, "waited_for", !verb->is_forgotten, "errno",
                  verb->error, "steps", steps_of(verb)));
}

/* Prints the ports of a host, or the hosts if `host` is NULL, after a name that is neither. */
static void print_choices(const struct scenario *scenario, const struct world_host *host)
{
    uint32_t n = host != NULL ? host->n_ports : scenario->n_hosts;
    uint32_t n_shown = n < CHOICES_MAX ? n : CHOICES_MAX;

    fprintf(stderr, host != NULL ? "; its ports: " : "; the hosts: ");
    for (uint32_t i = 0; i < n_shown; i++) {
        fprintf(stderr, "%s%s", i > 0 ? ", " : "",
                host != NULL ? host->ports[i].name : scenario->hosts[i].name);
    }
    fprintf(stderr, "%s\n", n == 0 ? "none" : n > n_shown ? ", ..." : "");
}

/* Converts HOST:PORT to indices. Returns false after a message. */
static bool find_port(const struct scenario *scenario, const char *where, uint32_t *host,
                      uint32_t *port)
{
    size_t n = strcspn(where, ":");

    for (*host = 0; *host < scenario->n_hosts; (*host)++) {
        const struct world_host *found = &scenario->hosts[*host];

        if (strlen(found->name) != n || strncmp(found->name, where, n) != 0) {
            continue;
        }
        if (where[n] == ':') {
            *port = world_port_index(found, where + n + 1);
            if (*port < found->n_ports) {
                return true;
            }
            fprintf(stderr, "weft show: --nic: host %s has no port '%s'", found->name,
                    where + n + 1);
        } else {
            fprintf(stderr, "weft show: --nic: '%s' is a host; write HOST:PORT", where);
        }
        print_choices(scenario, found);
        return false;
    }
    fprintf(stderr, "weft show: --nic: the scenario has no host '%.*s'", (int)n, where);
    print_choices(scenario, NULL);
    return false;
}

static bool print(const struct cli_options *options, const struct scenario *scenario,
                  struct nic_view *view, const json_t *run, uint32_t host)
{
    const char *profile = weft_profile_name(scenario->hosts[host].profile);
    const char *result = json_string_value(json_object_get(run, "result"));
    struct weft_text out = {NULL, 0, 0};
    bool ok;

    close_line(view);
    if (options->json != NULL) {
        json_t *document =
            json_pack("{s:i, s:s, s:s, s:s, s:s?, s:O}", "schema_version", 1, "scenario",
                      scenario->name, "nic", options->nic, "profile", profile, "result",
                      result, "verbs", view->verbs);
        char *dump = json_dumps(document, JSON_INDENT(2));

        weft_text_add(&out, "%s\n", dump);
        free(dump);
        json_decref(document);
    } else {
        weft_text_add(&out,
                      "%s%s%s  %s: a device of profile %s; the run's result: %s\n\n"
                      "           at      took  verb\n%s",
                      options->style.bold, options->nic, options->style.off,
                      scenario->name, profile, result != NULL ? result : "none",
                      view->text.bytes != NULL ? view->text.bytes : "");
    }
    ok = cli_write_file(options->json != NULL ? options->json : "-", out.bytes, out.n);
    weft_text_fini(&out);
    return ok;
}

int cli_show_nic(const struct cli_options *options, const struct scenario *scenario)
{
    struct nic_view view = {.options = options};
    struct run_options run = {.has_seed = options->has_seed,
                              .seed = options->seed,
                              .nic = take,
                              .nic_context = &view};
    struct weft_error error;
    json_t *document = NULL;
    enum run_result result;
    int code = CLI_OK;

    run.backend = backend_find(options->backend);
    if (run.backend == NULL || run.backend->watch_nic == NULL) {
        fprintf(stderr, "weft show: --nic: backend %s cannot look into a NIC; sim can\n",
                options->backend);
        return run.backend != NULL ? CLI_ENVIRONMENT : CLI_USAGE;
    }
    if (options->policy != NULL) {
        run.has_policy = weft_policy_parse(options->policy, &run.policy);
    }
    if (!find_port(scenario, options->nic, &run.nic_host, &run.nic_port)) {
        return CLI_USAGE;
    }
    view.verbs = json_array();
    result = run_scenario(scenario, &run, &document, NULL, &error);
    if (document == NULL) {
        char text[256];

        weft_error_format(&error, text, sizeof(text));
        fprintf(stderr, "weft show: %s\n", text);
        code = result == RUN_ENVIRONMENT ? CLI_ENVIRONMENT : CLI_USAGE;
    } else if (!print(options, scenario, &view, document, run.nic_host)) {
        code = CLI_USAGE;
    }
    json_decref(document);
    json_decref(view.verbs);
    weft_text_fini(&view.text);
    return code;
}
