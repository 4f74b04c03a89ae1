/* weft bench: measures the simulator's speed and prints results that can be compared. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/registry.h"
#include "base/text.h"
#include "cli/cli.h"
#include "report/columns.h"

static const struct bench *find_bench(const char *name)
{
    const struct bench *bench;

    for (unsigned i = 0; (bench = bench_at(i)) != NULL; i++) {
        if (strcmp(bench->name, name) == 0) {
            return bench;
        }
    }
    return NULL;
}

static int list_benches(const struct cli_options *options)
{
    json_t *list = json_array();
    const struct bench *bench;
    int code = CLI_OK;

    for (unsigned i = 0; (bench = bench_at(i)) != NULL; i++) {
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", bench->name,
                                              "description", bench->description));
        if (options->json == NULL) {
            printf("%-18s %s\n", bench->name, bench->description);
        }
    }
    if (options->json != NULL) {
        json_t *whole = json_pack("{s:i, s:O}", "schema_version", 1, "benchmarks", list);
        char *text = json_dumps(whole, JSON_INDENT(2));

        code = cli_write_file(options->json, text, strlen(text)) ? CLI_OK : CLI_USAGE;
        free(text);
        json_decref(whole);
    }
    json_decref(list);
    return code;
}

static json_t *encode(const struct bench *bench, const struct bench_result *result)
{
    return json_pack("{s:s, s:f, s:f, s:I, s:I, s:I, s:I, s:I}", "name", bench->name,
                     "cpu_s", result->cpu_s, "wall_s", result->wall_s, "peak_rss_bytes",
                     (json_int_t)result->peak_rss_bytes, "packets",
                     (json_int_t)result->packets, "events", (json_int_t)result->events,
                     "sim_time_ns", (json_int_t)result->sim_time_ns, "limit_ns",
                     (json_int_t)result->limit_ns);
}

static void add_row(struct columns *columns, const struct bench *bench,
                    const struct bench_result *result)
{
    columns_row(columns);
    columns_cell(columns, "%s", bench->name);
    columns_cell(columns, "%.4f", result->cpu_s);
    columns_cell(columns, "%.4f", result->wall_s);
    columns_cell(columns, "%.1f", (double)result->peak_rss_bytes / 1048576);
    columns_cell(columns, "%llu", (unsigned long long)result->packets);
    columns_cell(columns, "%.2f", (double)result->packets / result->cpu_s / 1e6);
    columns_cell(columns, "%.2f", (double)result->events / result->cpu_s / 1e6);
    columns_cell(columns, "%.3f", (double)result->sim_time_ns / 1e3);
    columns_cell(columns, "%.3f", (double)result->limit_ns / 1e3);
}

int cli_bench(struct cli_options *options)
{
    static const char *const heads[] = {"benchmark", "cpu s",   "wall s",
                                        "peak MiB",  "packets", "Mpkt/cpu-s",
                                        "Mev/cpu-s", "sim us",  "limit us"};
    json_t *results = json_array();
    struct weft_text text = {NULL, 0, 0};
    struct columns columns;
    int code = CLI_OK;

    if (options->list && options->n_operands > 0) {
        fprintf(stderr, "usage: weft bench --list | NAME...\n");
        json_decref(results);
        return CLI_USAGE;
    }
    if (options->list || options->n_operands == 0) {
        json_decref(results);
        return list_benches(options);
    }
    columns_init(&columns, heads, 9);
    for (unsigned i = 1; i < 9; i++) {
        columns_right(&columns, i);
    }
    for (int i = 0; i < options->n_operands; i++) {
        const struct bench *bench = find_bench(options->operands[i]);
        struct bench_result result;

        if (bench == NULL) {
            fprintf(stderr, "weft bench: no such benchmark: %s (weft bench --list)\n",
                    options->operands[i]);
            code = cli_worse(code, CLI_USAGE);
        } else if (!bench->run(bench, &result)) {
            fprintf(stderr, "weft bench: %s failed\n", bench->name);
            code = cli_worse(code, CLI_FAILED);
        } else {
            json_array_append_new(results, encode(bench, &result));
            add_row(&columns, bench, &result);
        }
    }
    if (options->json != NULL) {
        json_t *whole = json_pack("{s:i, s:O}", "schema_version", 1, "results", results);
        char *dump = json_dumps(whole, JSON_INDENT(2));

        weft_text_add(&text, "%s\n", dump);
        free(dump);
        json_decref(whole);
    } else if (json_array_size(results) > 0) {
        columns_print(&columns, "", &text);
    }
    if (text.n > 0 && !cli_write_file(options->json != NULL ? options->json : "-",
                                      text.bytes, text.n)) {
        code = CLI_USAGE;
    }
    weft_text_fini(&text);
    columns_fini(&columns);
    json_decref(results);
    return code;
}
