/* weft validate: checks everything about a file that can be checked without running it. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/paths.h"
#include "nccl/topo.h"
#include "run/programs.h"

/* Returns the length of the place in front of a message about `path`: "FILE:LINE:COLUMN", "FILE" or
 * "--set PATH"; 0 if there is none. Line and column stay 0 if the place has none. */
static size_t parse_place(const char *text, const char *path, unsigned *line,
                          unsigned *column)
{
    size_t n = strlen(path);
    int n_numbers = 0;

    if (strncmp(text, "--set ", 6) == 0) {
        const char *end = strstr(text, ": ");

        return end != NULL ? (size_t)(end - text) : 0;
    }
    if (strncmp(text, path, n) != 0 || text[n] != ':') {
        return 0;
    }
    if (sscanf(text + n, ":%u:%u%n", line, column, &n_numbers) == 2 &&
        text[n + (size_t)n_numbers] == ':') {
        return n + (size_t)n_numbers;
    }
    *line = 0;
    return n;
}

/* Appends one message about `path` to `errors`. */
static void add_error(json_t *errors, const char *path, char *text)
{
    unsigned line = 0, column = 0;
    size_t n = parse_place(text, path, &line, &column);
    const char *message = n > 0 ? text + n + 1 + strspn(text + n + 1, " ") : text;
    json_t *said = cli_json_text(message);

    text[n] = '\0';
    json_array_append_new(
        errors,
        json_pack("{s:o, s:o, s:o, s:o}", "place", cli_json_text(n > 0 ? text : path),
                  "line", line > 0 ? json_integer(line) : json_null(), "column",
                  line > 0 ? json_integer(column) : json_null(), "message", said));
}

/* Returns the messages about `path`, one a line of `why`. */
static json_t *errors_of(const char *path, struct weft_text *why)
{
    json_t *errors = json_array();
    char *at = why->n > 0 ? why->bytes : NULL;

    while (at != NULL && *at != '\0') {
        char *end = strchr(at, '\n');

        if (end != NULL) {
            *end = '\0';
        }
        if (*at != '\0') {
            add_error(errors, path, at);
        }
        at = end != NULL ? end + 1 : NULL;
    }
    return errors;
}

static json_t *validated(const char *path, const struct scenario *scenario,
                         struct weft_text *why)
{
    const char *key = NULL;
    bool can_run = scenario != NULL && !scenario_not_implemented(scenario, &key);

    return json_pack("{s:o, s:b, s:b, s:s?, s:o}", "file", cli_json_text(path), "valid",
                     scenario != NULL, "can_run", can_run, "not_implemented", key,
                     "errors", errors_of(path, why));
}

static bool is_topology(const char *path)
{
    size_t n = strlen(path);

    return n > 4 && strcmp(path + n - 4, ".xml") == 0;
}

/* Returns false after a message, which is also appended to `*why`. */
static bool validate_topology(const struct cli_options *options, const char *path,
                              struct weft_text *why)
{
    struct weft_text text = {NULL, 0, 0};
    struct topo_system *system = NULL;
    struct topo_stub stub = {.is_stub = false};
    struct weft_error error;
    char said[400];
    int sys_errno = weft_text_add_file(&text, path, TOPO_FILE_BYTES_MAX);
    bool is_good = false;

    weft_error_clear(&error);
    if (sys_errno != 0) {
        weft_text_add(why, "%s: cannot read: %s", path, strerror(sys_errno));
    } else if (topo_complete(&text, NULL, &stub, &error) != WEFT_OK ||
               topo_load(text.n > 0 ? text.bytes : "", text.n, topo_rules_find("2.25"),
                         &system, &error) != WEFT_OK) {
        weft_text_add(why, "%s:%s", path, error.message);
    } else if (system->n[TOPO_GPU] == 0) {
        weft_text_add(why, "%s: no GPU has a rank", path);
    } else {
        is_good = true;
        paths_stub_text(&stub, said, sizeof(said));
        if (!options->quiet && options->json == NULL) {
            printf("%s: ok%s%s\n", path, stub.is_stub ? ", " : "",
                   stub.is_stub ? said : "");
        }
    }
    if (!is_good) {
        fprintf(stderr, "%s\n", why->bytes);
    }
    topo_free(system);
    weft_text_fini(&text);
    return is_good;
}

/* Loads a file and checks the commands of its programs. Returns NULL after messages, which are also
 * appended to `*why`, as are those about what cannot run here. */
static struct scenario *load(const struct cli_options *options, const char *path,
                             struct weft_text *why)
{
    struct scenario *scenario = cli_load_why(options, path, why);
    enum run_result result;

    if (scenario != NULL && !run_programs_check(scenario, why, &result)) {
        fprintf(stderr, "%s\n", why->bytes);
        if (result == RUN_ERROR) {
            scenario_free(scenario);
            scenario = NULL;
        }
    }
    return scenario;
}

/* Returns false after a message. Appends the file's entry to `files`. */
static bool validate(const struct cli_options *options, const char *path, json_t *files)
{
    bool is_quiet = options->quiet || options->json != NULL;
    struct weft_text why = {NULL, 0, 0};
    struct scenario *scenario = NULL;
    bool is_good;

    if (is_topology(path)) {
        is_good = validate_topology(options, path, &why);
        json_array_append_new(files, json_pack("{s:o, s:b, s:b, s:n, s:o}", "file",
                                               cli_json_text(path), "valid", is_good,
                                               "can_run", false, "not_implemented",
                                               "errors", errors_of(path, &why)));
    } else {
        scenario = load(options, path, &why);
        is_good = scenario != NULL;
        json_array_append_new(files, validated(path, scenario, &why));
    }
    if (scenario != NULL && !is_quiet) {
        const char *key = "";
        bool can_run = !scenario_not_implemented(scenario, &key);

        printf("%s: ok%s%s\n", path, can_run ? "" : ", but not implemented yet: ", key);
    }
    weft_text_fini(&why);
    scenario_free(scenario);
    return is_good;
}

int cli_validate(struct cli_options *options)
{
    json_t *files = json_array();
    int code = CLI_OK;

    if (options->n_operands == 0) {
        fprintf(stderr, "usage: weft validate [flags] FILE...\n");
        code = CLI_USAGE;
    }
    for (int i = 0; i < options->n_operands; i++) {
        if (!validate(options, options->operands[i], files)) {
            code = CLI_USAGE;
        }
    }
    if (options->json != NULL && options->n_operands > 0) {
        json_t *whole = json_pack("{s:i, s:O}", "schema_version", 1, "files", files);

        code = cli_write_json(options->json, whole) ? code : CLI_USAGE;
        json_decref(whole);
    }
    json_decref(files);
    return code;
}
