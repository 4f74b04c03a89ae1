/* weft validate: everything that can be known of a file without running it. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static json_t *validated(const char *path, const struct scenario *scenario)
{
    const char *key = NULL;
    bool can_run = scenario != NULL && !scenario_not_implemented(scenario, &key);

    return json_pack("{s:s, s:b, s:b, s:s?}", "file", path, "valid", scenario != NULL,
                     "can_run", can_run, "not_implemented", key);
}

int cli_validate(struct cli_options *options)
{
    json_t *files = json_array();
    int code = CLI_OK;

    if (options->n_operands == 0) {
        fprintf(stderr, "usage: weft validate FILE... [flags]\n");
        code = CLI_USAGE;
    }
    for (int i = 0; i < options->n_operands; i++) {
        const char *path = options->operands[i];
        struct scenario *scenario = cli_load(options, path);

        json_array_append_new(files, validated(path, scenario));
        if (scenario == NULL) {
            code = CLI_USAGE;
        } else if (!options->quiet && options->json == NULL) {
            const char *key = NULL;

            printf("%s: ok%s%s\n", path,
                   scenario_not_implemented(scenario, &key)
                       ? ", but not implemented yet: "
                       : "",
                   key != NULL ? key : "");
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
