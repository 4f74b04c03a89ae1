/* Runs one member of a run whose members are separate processes: a rank, or the relay of a host
 * without a rank. */
#ifndef WEFT_RUN_NODE_H
#define WEFT_RUN_NODE_H

#include <jansson.h>

#include "run/run.h"

/* Creates a world with one host, this process (index 0 of its loop), which is process number
 * `process` of host `host` of `spec`. */
typedef weft_status (*run_node_world)(const struct world_spec *spec, uint32_t host,
                                      uint32_t process, struct world **out,
                                      struct weft_error *error);

struct run_node_options {
    /* Name of the member: a host of the scenario, or "titanic/1" for the second rank of a host. */
    const char *name;
    bool is_relay; /* true for a member without a rank */
    /* true: the members meet after the run, and rank 0 (without a rendezvous the first member that
     * is left) collects all records and judges. false: the launcher does that. */
    bool collects;
    const char *replay; /* command line for the document that repeats this run, or NULL */
    run_node_world world;
    bool has_rendezvous;
    struct io_endpoint rendezvous; /* default: the address of rank 0 in the scenario */
    weft_ns patience_ns;           /* how long ranks may take to start; 0: default */
    bool has_policy;
    enum weft_policy policy; /* overrides the scenario's */
    bool has_seed;
    uint64_t seed;         /* overrides the scenario's */
    const uint8_t *secret; /* run_options.secret */
    struct weft_log *log;
    weft_trace_sink events; /* receives the member's event log, or NULL */
    void *events_context;
    bool (*is_asked)(void); /* as in host_loop; both may be NULL */
    void (*report)(const char *text);
};

/* Result of one member. The caller owns the JSON values. */
struct run_node_outcome {
    json_t *record;   /* the member's record; NULL until the host is known */
    bool has_verdict; /* true if the members that met have received the judge's verdict */
    enum run_result verdict;
    /* Document of the whole run, as run_scenario's; set only in the process that judged. */
    json_t *document;
    json_t *observations; /* as run_scenario's; set only in the process that judged */
};
void run_node_outcome_fini(struct run_node_outcome *outcome);

/* Runs the member `name` until it ends. `out->record`, which is set once the host is known and also
 * if the member failed, is the input of run_record_decode(). Returns WEFT_OK if the member
 * completed, otherwise its error. Fails with WEFT_ERR_INPUT if there is no such host, or if
 * is_relay does not match it. */
weft_status run_node(const struct scenario *scenario,
                     const struct run_node_options *options, struct run_node_outcome *out,
                     struct weft_error *error);

#endif
