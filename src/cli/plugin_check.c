/* `weft plugin-check SO...` and `weft plugin-check --list`. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "plugincheck/check.h"
#include "scenario/diagnose.h"

#define NUMBER_MAX 1000000
#define UVERBS_MAX 256 /* maximum number of devices searched for */

static int list_clauses(void)
{
    struct weft_text text = {0};
    const struct plugin_clause *clause;

    for (unsigned i = 0; (clause = plugin_clause_at(i)) != NULL; i++) {
        weft_text_add(&text, "%-22s %s\n%-22s %s\n", clause->id, clause->text, "",
                      clause->source);
    }
    if (!cli_print(text.bytes, text.n)) {
        weft_text_fini(&text);
        return CLI_FAILED;
    }
    weft_text_fini(&text);
    return CLI_OK;
}

static void add_versions(struct weft_text *text, uint32_t versions)
{
    const char *between = "";

    for (unsigned v = PLUGIN_CHECK_VERSION_MIN; v <= PLUGIN_CHECK_VERSION_MAX; v++) {
        if ((versions & 1u << v) != 0) {
            weft_text_add(text, "%sv%u", between, v);
            between = " ";
        }
    }
}

static void tell(const char *path, const struct plugin_check_result *result,
                 struct weft_text *text)
{
    const struct plugin_clause *clause;

    if (!result->is_broken) {
        weft_text_add(text, "%s: keeps the contract: ", path);
        add_versions(text, result->versions);
        weft_text_add(text, ", %llu messages, %llu calls\n",
                      (unsigned long long)result->n_messages,
                      (unsigned long long)result->n_calls);
        return;
    }
    clause = plugin_clause_find(result->clause);
    weft_text_add(text, "%s: breaks %s", path, result->clause);
    if (result->version != 0) {
        weft_text_add(text, " (v%u, %s)", result->version, result->part);
    }
    weft_text_add(text, "\n  seen      %s\n  required  %s\n  source    %s\n",
                  result->detail, clause->text, clause->source);
}

/* `is_undecided`: the plugin could not be judged, because there was no device or because this
 * machine lacked a process, a thread or memory for the check. */
static json_t *to_json(const char *path, const struct plugin_check_result *result,
                       bool is_undecided)
{
    json_t *versions = json_array();

    for (unsigned v = PLUGIN_CHECK_VERSION_MIN; v <= PLUGIN_CHECK_VERSION_MAX; v++) {
        if ((result->versions & 1u << v) != 0) {
            json_array_append_new(versions, json_integer((json_int_t)v));
        }
    }
    return json_pack(
        "{s:s, s:s, s:o, s:s?, s:s?, s:s?, s:i, s:I, s:I}", "plugin", path, "result",
        is_undecided        ? "error"
        : result->is_broken ? "fail"
                            : "pass",
        "versions", versions, "clause", result->clause, "part",
        result->part[0] != '\0' ? result->part : NULL, "detail",
        result->part[0] != '\0' ? result->detail : NULL, "version", (int)result->version,
        "messages", (json_int_t)result->n_messages, "calls", (json_int_t)result->n_calls);
}

static bool print_all(const struct cli_options *options, json_t *results,
                      const struct weft_text *text)
{
    bool ok = true;

    if (options->json != NULL) {
        json_t *document =
            json_pack("{s:i, s:O}", "schema_version", 1, "results", results);
        char *bytes = json_dumps(document, JSON_INDENT(2));

        ok = cli_write_file(options->json, bytes, strlen(bytes));
        free(bytes);
        json_decref(document);
    }
    if (options->json == NULL || strcmp(options->json, "-") != 0) {
        ok = cli_print(text->bytes, text->n) && ok;
    }
    return ok;
}

/* Parses a number. Leaves `*out` unchanged if `text` is NULL. Returns false after a message. */
static bool take_number(const char *text, const char *flag, long least, uint32_t *out)
{
    char quoted[DIAGNOSE_QUOTE_BYTES];
    char *end = NULL;
    long n = text == NULL ? 0 : strtol(text, &end, 10);

    if (text == NULL) {
        return true;
    }
    if (end == text || *end != '\0' || n < least || n > NUMBER_MAX) {
        fprintf(stderr, "weft plugin-check: --%s: expected %ld to %d, got '%s'\n", flag,
                least, NUMBER_MAX, diagnose_quote(text, quoted));
        return false;
    }
    *out = (uint32_t)n;
    return true;
}

/* Parses "11", or "8,12" for ranks that alternate between versions. Returns false if it is
 * neither. */
static bool take_versions(const char *text, uint32_t *out_versions,
                          struct plugin_check_options *check)
{
    *out_versions = 0;
    check->n_mixed = 0;
    while (text != NULL) {
        char *end = NULL;
        long version = strtol(text, &end, 10);

        if (end == text || (*end != '\0' && *end != ',') ||
            version < PLUGIN_CHECK_VERSION_MIN || version > PLUGIN_CHECK_VERSION_MAX ||
            check->n_mixed == PLUGIN_CHECK_RANKS_MAX) {
            return false;
        }
        *out_versions |= 1u << version;
        check->mixed[check->n_mixed++] = (unsigned)version;
        text = *end == ',' ? end + 1 : NULL;
    }
    check->n_mixed = check->n_mixed > 1 ? check->n_mixed : 0;
    return true;
}

/* Returns false after a message. */
static bool check_usage(const struct cli_options *options, uint32_t *out_versions,
                        struct plugin_check_options *check)
{
    char quoted[DIAGNOSE_QUOTE_BYTES];

    if (!take_versions(options->netversion, out_versions, check)) {
        fprintf(stderr,
                "weft plugin-check: --netversion: expected %d to %d, or up to %d of them "
                "with commas, got '%s'\n",
                PLUGIN_CHECK_VERSION_MIN, PLUGIN_CHECK_VERSION_MAX,
                PLUGIN_CHECK_RANKS_MAX, diagnose_quote(options->netversion, quoted));
        return false;
    }
    if (check->n_mixed > 0 && options->backend != NULL &&
        strcmp(options->backend, "sim") == 0) {
        fprintf(stderr, "weft plugin-check: --netversion: ranks of several versions are "
                        "processes, and --backend sim is in one\n");
        return false;
    }
    if (!take_number(options->messages, "messages", 1, &check->n_messages) ||
        !take_number(options->sequences, "sequences", 0, &check->n_sequences)) {
        return false;
    }
    if (options->netns.n == 1 || options->netns.n > PLUGIN_CHECK_RANKS_MAX) {
        fprintf(stderr,
                "weft plugin-check: --netns: expected 2 to %d of them, one a rank, got "
                "%zu\n",
                PLUGIN_CHECK_RANKS_MAX, options->netns.n);
        return false;
    }
    if (options->backend != NULL && strcmp(options->backend, "rxe") == 0) {
        fprintf(stderr, "weft plugin-check: --backend: soft-RoCE's devices are verbs\n");
        return false;
    }
    if (options->n_operands == 0) {
        fprintf(stderr, "usage: weft plugin-check [flags] SO... (weft plugin-check "
                        "--help)\n");
        return false;
    }
    return true;
}

/* Returns true if this process can open an RDMA device. Each has a file uverbsN. */
static bool machine_has_device(void)
{
    char path[64];

    for (int i = 0; i < UVERBS_MAX; i++) {
        weft_format(path, sizeof(path), "/dev/infiniband/uverbs%d", i);
        if (access(path, R_OK | W_OK) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns true, with a message, if the plugin could only fail, because it needs a NIC and there is
 * none. */
static bool lacks_device(const struct cli_options *options, const char *path,
                         const struct plugin_check_result *result)
{
    const char *backend =
        options->backend != NULL ? options->backend : getenv("NCCL_MESH_BACKEND");
    bool needs_none = getenv("NCCL_MESH_LOOPBACK") != NULL ||
                      (backend != NULL &&
                       (strcmp(backend, "sim") == 0 || strcmp(backend, "soft") == 0));

    if (needs_none || result->first_init == 0 || machine_has_device()) {
        return false;
    }
    fprintf(
        stderr,
        "weft plugin-check: %s: init failed with %d, and this process can open no RDMA "
        "device (/dev/infiniband/uverbs*), so that the plugin cannot be judged; load "
        "the driver or pass the devices into the container; Weft's plugin needs none if "
        "you type: weft plugin-check --backend sim %s\n",
        path, result->first_init, path);
    return true;
}

/* Returns true, with a message, if the plugin was not judged because this machine lacks what the
 * check needs. */
static bool is_undecided(const struct cli_options *options, const char *path,
                         const struct plugin_check_result *result)
{
    if (!result->is_undecided) {
        return result->is_broken && lacks_device(options, path, result);
    }
    fprintf(
        stderr,
        "weft plugin-check: %s: not judged in part %s, because the check itself failed: "
        "%s; give it what it lacks (threads and processes: ulimit -u; network "
        "namespaces: CAP_SYS_ADMIN) and run it again\n",
        path, result->part, result->detail);
    return true;
}

int cli_plugin_check(struct cli_options *options)
{
    struct weft_text text = {0};
    json_t *results;
    struct plugin_check_options check;
    uint32_t versions;
    int code = CLI_OK;

    if (options->list && options->n_operands > 0) {
        fprintf(stderr, "usage: weft plugin-check --list\n");
        return CLI_USAGE;
    }
    if (options->list) {
        return cli_refuse_given(options, "json", "not with --list") ? CLI_USAGE
                                                                    : list_clauses();
    }
    plugin_check_options_default(&check);
    if (!check_usage(options, &versions, &check)) {
        return CLI_USAGE;
    }
    results = json_array();
    for (int i = 0; i < options->n_operands; i++) {
        struct plugin_check_result result;

        check.path = options->operands[i];
        check.backend = options->backend;
        check.seed = options->has_seed ? options->seed : check.seed;
        check.progress = options->quiet ? NULL : stderr;
        for (size_t n = 0; n < options->netns.n; n++) {
            check.namespaces[n] = options->netns.values[n];
            check.n_ranks = (uint32_t)options->netns.n;
        }
        if (options->patience_s > 0) {
            check.patience_ms = (int)(options->patience_s * 1000);
        }
        check.versions = versions;
        if (!plugin_check(&check, &result) &&
            is_undecided(options, check.path, &result)) {
            code = cli_worse(code, CLI_ENVIRONMENT);
            json_array_append_new(results, to_json(check.path, &result, true));
            continue;
        }
        if (result.is_missing && strchr(check.path, '/') == NULL &&
            access(check.path, F_OK) == 0) {
            fprintf(stderr,
                    "weft plugin-check: %s: a name without / is looked up in the library "
                    "path, as NCCL does; type ./%s for the file in this folder\n",
                    check.path, check.path);
        }
        if (result.is_broken) {
            code = cli_worse(code, result.is_missing ? CLI_USAGE : CLI_FAILED);
        }
        tell(check.path, &result, &text);
        json_array_append_new(results, to_json(check.path, &result, false));
    }
    if (!print_all(options, results, &text)) {
        code = cli_worse(code, CLI_FAILED);
    }
    json_decref(results);
    weft_text_fini(&text);
    return code;
}
