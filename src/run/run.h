/* Runs a scenario: builds a world on a backend, runs its jobs on hosts, injects its
 * faults, verifies the data, diagnoses failures and judges `expect`. The result is one
 * JSON document, from which everything else (tables, HTML, JUnit) is rendered. */
#ifndef WEFT_RUN_RUN_H
#define WEFT_RUN_RUN_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/log.h"
#include "base/trace.h"
#include "io/world.h"
#include "scenario/scenario.h"

struct run_progress {
    uint32_t job, n_jobs; /* row that rank 0 runs, and number of rows */
    uint64_t bytes_done,
        bytes_total; /* bytes of the whole run, by nccl-tests' size column */
    weft_ns now;     /* world time */
};

struct run_options {
    const struct world_ops *backend; /* never NULL */
    bool has_policy;
    enum weft_policy policy; /* overrides the scenario's */
    bool has_seed;
    uint64_t seed; /* overrides the scenario's */
    /* STORY by default; the hash always covers STORY lines only. */
    enum weft_trace_level trace_level;
    bool no_trains;         /* world_spec.no_trains */
    bool watches_programs;  /* world_programs.is_watched */
    bool no_story;          /* no event is logged or hashed; trace_hash is null */
    weft_trace_sink events; /* receives the event log; NULL: only the hash is computed */
    void *events_context;
    void (*tap)(void *context, const struct world_frame *frame); /* capture, or NULL */
    void *tap_context;
    /* Called for each verb of one port's NIC, or NULL. nic_host and nic_port are indices in the
     * scenario. */
    void (*nic)(void *context, const struct world_nic_verb *verb);
    void *nic_context;
    uint32_t nic_host, nic_port;
    void (*progress)(void *context, const struct run_progress *progress); /* or NULL */
    void *progress_context;
    /* "HOST:PORT" of rank 0 for processes on other machines; NULL: the name of its host. */
    const char *rendezvous;
    struct weft_log *log; /* or NULL */
    /* [32], for processes that are started one by one; NULL: any process that knows the seed may
     * join. */
    const uint8_t *secret;
    const char *replay; /* command line for the document that repeats this run */
};

/* Verdict of a run; the CLI maps it to exit statuses. */
enum run_result { RUN_PASS, RUN_FAIL, RUN_ERROR, RUN_ENVIRONMENT, RUN_TIMEOUT };

/* Runs `scenario`. `*out_document` (the caller's reference) is the `--json` document of
 * docs/io.md's contract: schema_version, weft, scenario, backend, policy, seed, trace_hash, result,
 * symptom, connections, jobs, links, findings, expectations, counters, warnings; absent values are
 * null, never missing keys. `*out_observations` (may be NULL) is the input of `weft diagnose`.
 * Returns RUN_PASS if all expectations were met, including an expected failure. RUN_ERROR and
 * RUN_ENVIRONMENT fill `error`; the document may then be NULL. */
enum run_result run_scenario(const struct scenario *scenario,
                             const struct run_options *options, json_t **out_document,
                             json_t **out_observations, struct weft_error *error);

#endif
