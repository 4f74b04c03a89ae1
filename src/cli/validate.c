/* weft validate: checks everything about a file that can be checked without running it. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/paths.h"
#include "run/programs.h"
#include "topo/topo.h"

static json_t *validated(const char *path, const struct scenario *scenario)
{
    const char *key = NULL;
    bool can_run = scenario != NULL && !scenario_not_implemented(scenario, &key);

    return json_pack("{s:s, s:b, s:b, s:s?}", "file", path, "valid", scenario != NULL,
                     "can_run", can_run, "not_implemented", key);
}

static bool is_topology(const char *path)
{
    size_t n = strlen(path);

    return n > 4 && strcmp(path + n - 4, ".xml") == 0;
}

/* Returns false after a message. */
static bool validate_topology(const struct cli_options *options, const char *path)
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
        fprintf(stderr, "%s: cannot read: %s\n", path, strerror(sys_errno));
    } else if (topo_complete(&text, NULL, &stub, &error) != WEFT_OK ||
               topo_load(text.n > 0 ? text.bytes : "", text.n, topo_rules_find("2.25"),
                         &system, &error) != WEFT_OK) {
        fprintf(stderr, "%s:%s\n", path, error.message);
    } else if (system->n[TOPO_GPU] == 0) {
        fprintf(stderr, "%s: no GPU has a rank\n", path);
    } else {
        is_good = true;
        paths_stub_text(&stub, said, sizeof(said));
        if (!options->quiet && options->json == NULL) {
            printf("%s: ok%s%s\n", path, stub.is_stub ? ", " : "",
                   stub.is_stub ? said : "");
        }
    }
    topo_free(system);
    weft_text_fini(&text);
    return is_good;
}

/* Loads a file and checks the commands of its programs. Returns NULL after a message. */
static struct scenario *load(const struct cli_options *options, const char *path)
{
    struct scenario *scenario = cli_load(options, path);
    struct weft_text why = {NULL, 0, 0};
    enum run_result result;

    if (scenario != NULL && !run_programs_check(scenario, &why, &result)) {
        fprintf(stderr, "%s\n", why.bytes);
        weft_text_fini(&why);
        if (result == RUN_ERROR) {
            scenario_free(scenario);
            scenario = NULL;
        }
    }
    return scenario;
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
        const char *path = options->operands[i];
        struct scenario *scenario = NULL;

        if (is_topology(path)) {
            bool is_good = validate_topology(options, path);

            json_array_append_new(files, json_pack("{s:s, s:b, s:b, s:n}", "file", path,
                                                   "valid", is_good, "can_run", false,
                                                   "not_implemented"));
            code = is_good ? code : CLI_USAGE;
            continue;
        }
        scenario = load(options, path);

        json_array_append_new(files, validated(path, scenario));
        if (scenario == NULL) {
            code = CLI_USAGE;
        } else if (!options->quiet && options->json == NULL) {
            const char *key = "";
            bool can_run = !scenario_not_implemented(scenario, &key);

            printf("%s: ok%s%s\n", path,
                   can_run ? "" : ", but not implemented yet: ", key);
        }
        scenario_free(scenario);
    }
    if (options->json != NULL && options->n_operands > 0) {
        json_t *whole = json_pack("{s:i, s:O}", "schema_version", 1, "files", files);
        char *text = json_dumps(whole, JSON_INDENT(2));

        code = cli_write_file(options->json, text, strlen(text)) ? code : CLI_USAGE;
        free(text);
        json_decref(whole);
    }
    json_decref(files);
    return code;
}
