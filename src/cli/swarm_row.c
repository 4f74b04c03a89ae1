#include <string.h>

#include "backends/registry.h"
#include "base/version.h"
#include "cli/swarm.h"
#include "report/evidence.h"
#include "report/json_read.h"
#include "run/run.h"

enum { GUEST_GRACE_MS = 10000 };

static void put(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

static void put_head(json_t *row, const struct cli_options *options, const char *path,
                     const struct scenario *scenario, uint64_t seed)
{
    struct weft_text text = {NULL, 0, 0};
    const char *policy =
        options->policy != NULL ? options->policy : weft_policy_name(scenario->policy);

    put(row, "schema_version", json_integer(1));
    put(row, "weft", json_string(weft_version));
    put(row, "file", json_string(path));
    put(row, "scenario", json_string(scenario->name));
    put(row, "backend", json_string(options->backend));
    put(row, "policy", json_string(policy));
    weft_text_add(&text, "%llu", (unsigned long long)seed);
    put(row, "seed", json_string(text.bytes));
    text.n = 0;
    cli_replay(options, path, seed, &text);
    put(row, "replay", json_string(text.bytes));
    weft_text_fini(&text);
}

/* Returns the document's symptom without its text, which contains numbers that differ between
 * runs. */
static json_t *symptom_of(const json_t *symptom)
{
    return json_is_object(symptom)
               ? json_pack("{s:O, s:O, s:O}", "phase", json_object_get(symptom, "phase"),
                           "errno", json_object_get(symptom, "errno"), "wc_status",
                           json_object_get(symptom, "wc_status"))
               : json_null();
}

/* Adds the result, why there is none or the unmet expectations, and the codes of the findings. */
static void put_outcome(json_t *row, const json_t *document)
{
    const json_t *error = json_object_get(document, "error");
    json_t *failed = json_array();
    json_t *findings = json_array();
    json_t *item;
    size_t i;

    if (json_is_string(error)) {
        json_array_append_new(
            failed, json_pack("{s:s, s:O}", "expect", "the run ends", "got", error));
    }
    json_array_foreach(json_object_get(document, "expectations"), i, item)
    {
        if (!json_is_true(json_object_get(item, "ok"))) {
            json_array_append_new(failed, json_pack("{s:O, s:O}", "expect",
                                                    json_object_get(item, "expect"),
                                                    "got", json_object_get(item, "got")));
        }
    }
    json_array_foreach(json_object_get(document, "findings"), i, item)
    {
        /* Findings that a run survived are normal in a swarm with faults. */
        if (!report_is_survived(item)) {
            json_array_append(findings, json_object_get(item, "code"));
        }
    }
    put(row, "result", json_incref(json_object_get(document, "result")));
    put(row, "trace_hash", json_incref(json_object_get(document, "trace_hash")));
    put(row, "sim_time_ns", json_incref(json_object_get(document, "sim_time_ns")));
    put(row, "counters", json_incref(json_object_get(document, "counters")));
    put(row, "failed", failed);
    put(row, "findings", findings);
    put(row, "symptom", symptom_of(json_object_get(document, "symptom")));
    put(row, "connected", json_incref(json_object_get(document, "connected")));
}

static void put_nothing(json_t *row, const char *result, const char *how)
{
    put(row, "result", json_string(result));
    put(row, "trace_hash", json_null());
    put(row, "sim_time_ns", json_null());
    put(row, "counters", json_null());
    put(row, "failed",
        json_pack("[{s:s, s:o}]", "expect", "the run ends", "got", cli_json_text(how)));
    put(row, "findings", json_array());
    put(row, "symptom", json_null());
    put(row, "connected", json_null());
}

static json_t *run_here(const struct swarm_run *run, struct weft_text *how)
{
    const char *policy = run->options->policy;
    struct run_options options = {.backend = backend_find("sim"),
                                  .has_seed = true,
                                  .seed = run->seed,
                                  .trace_level = WEFT_TRACE_STORY,
                                  .no_story = run->no_story};
    struct weft_error error;
    json_t *document = NULL;
    char text[512];

    if (policy != NULL) {
        options.has_policy = weft_policy_parse(policy, &options.policy);
    }
    weft_error_clear(&error);
    run_scenario(run->scenario, &options, &document, NULL, &error);
    if (document == NULL) {
        weft_error_format(&error, text, sizeof(text));
        weft_text_add(how, "%s", text);
    }
    return document;
}

json_t *swarm_row(const struct swarm_run *run)
{
    struct weft_text how = {NULL, 0, 0};
    const char *result = "error";
    json_t *row = json_object();
    json_t *document = strcmp(run->options->backend, "sim") == 0
                           ? run_here(run, &how)
                           : swarm_guest_document(run, &result, &how);

    put_head(row, run->options, run->path, run->scenario, run->seed);
    if (document != NULL) {
        put_outcome(row, document);
    } else {
        put_nothing(row, result, how.n > 0 ? how.bytes : "it said nothing");
    }
    json_decref(document);
    weft_text_fini(&how);
    return row;
}

json_t *swarm_row_of_crash(const struct cli_options *options, const char *path,
                           const struct scenario *scenario, uint64_t seed,
                           const char *result, const char *how)
{
    json_t *row = json_object();

    put_head(row, options, path, scenario, seed);
    put_nothing(row, result, how);
    return row;
}

/* Appends the symptom, the findings and whether the hosts could reach each other. Runs that differ
 * in any of these failed from different causes. */
static void sign_cause(const json_t *row, struct weft_text *out)
{
    const json_t *symptom = json_object_get(row, "symptom");
    const json_t *connected = json_object_get(row, "connected");
    json_t *code;
    size_t i;

    if (json_is_object(symptom)) {
        weft_text_add(out, "; in %s errno %lld status %lld",
                      json_read_text(symptom, "phase", ""),
                      (long long)json_read_int(symptom, "errno", 0),
                      (long long)json_read_int(symptom, "wc_status", 0));
    }
    json_array_foreach(json_object_get(row, "findings"), i, code)
    {
        weft_text_add(out, "; %s", json_string_value(code));
    }
    if (json_is_boolean(connected)) { /* null for programs */
        weft_text_add(out, json_is_true(connected) ? "; connected" : "; cut");
    }
}

/* Appends an expectation, without the number of its job, because a smaller file has fewer jobs. */
static void sign_expectation(const char *expect, struct weft_text *out)
{
    static const char job[] = "job ";
    size_t n = sizeof(job) - 1;

    if (strncmp(expect, job, n) == 0) {
        weft_text_add(out, "; job%s", expect + n + strspn(expect + n, "0123456789"));
    } else {
        weft_text_add(out, "; %s", expect);
    }
}

void swarm_signature(const json_t *row, struct weft_text *out)
{
    const char *result = json_read_text(row, "result", "");
    bool is_told = json_is_integer(json_object_get(row, "sim_time_ns"));
    json_t *item;
    size_t i;

    weft_text_add(out, "%s", "");
    if (strcmp(result, "pass") == 0) {
        return;
    }
    weft_text_add(out, "%s", result);
    json_array_foreach(json_object_get(row, "failed"), i, item)
    {
        /* `got` differs between runs, except for how a process ended. */
        sign_expectation(json_read_text(item, is_told ? "expect" : "got", ""), out);
    }
    if (is_told) {
        sign_cause(row, out);
    }
}

int swarm_code(const json_t *row)
{
    const char *result = json_read_text(row, "result", "");

    return strcmp(result, "pass") == 0      ? CLI_OK
           : strcmp(result, "error") == 0   ? CLI_USAGE
           : strcmp(result, "timeout") == 0 ? CLI_TIMEOUT
                                            : CLI_FAILED;
}

int swarm_patience_ms(const struct cli_options *options, int patience_ms)
{
    bool is_guest = strcmp(options->backend, "sim") != 0;

    return is_guest ? patience_ms + GUEST_GRACE_MS : patience_ms;
}
