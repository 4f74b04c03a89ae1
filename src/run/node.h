/* One member of a run whose members are processes of their own: a rank, or the relay of a host
 * without a rank. */
#ifndef WEFT_RUN_NODE_H
#define WEFT_RUN_NODE_H

#include <jansson.h>

#include "run/run.h"

/* Makes a world of one host, index 0 of its loop: this process, as the `process`th of host
 * `host` of `spec`. */
typedef weft_status (*run_node_world)(const struct world_spec *spec, uint32_t host,
                                      uint32_t process, struct world **out,
                                      struct weft_error *error);

struct run_node_options {
    /* The host, as in the scenario; "titanic/1" is the second rank of a host. */
    const char *name;
    bool is_relay; /* it has no rank */
    /* Rank 0 gathers everybody's record and judges (over cables the first that lives does); else
     * whoever started the members does. */
    bool collects;
    const char
        *replay; /* the command line that replays this, for the document; or NULL */
    run_node_world world;
    bool has_rendezvous;
    struct io_endpoint rendezvous; /* else where the scenario's rank 0 serves it */
    weft_ns patience_ns;           /* for ranks that have not started yet; 0: default */
    bool has_policy;
    enum rdma_policy policy; /* overrides the file's */
    bool has_seed;
    uint64_t seed;         /* overrides the file's */
    const uint8_t *secret; /* run_options.secret */
    struct weft_log *log;
    weft_trace_sink
        events; /* receives this rank's part of the story; NULL: none is told */
    void *events_context;
};

/* What came of it. The JSON is the caller's. */
struct run_node_outcome {
    json_t *record;   /* of this member; NULL until the host is known */
    bool has_verdict; /* of all that still met, by the first of them */
    enum run_result verdict;
    json_t *document; /* the judge's, of the whole run: as run_scenario's; else NULL */
    json_t *observations; /* likewise */
};
void run_node_outcome_fini(struct run_node_outcome *outcome);

/* Runs the member `name` to its end. `out->record` (never NULL once the host is known) is what
 * run_record_decode reads, of a failed rank as well.
 * WEFT_ERR_INPUT: no such host, or it is not what is_relay says. Otherwise
 * WEFT_OK if the member came to its end in order, else its error. */
weft_status run_node(const struct scenario *scenario,
                     const struct run_node_options *options, struct run_node_outcome *out,
                     struct weft_error *error);

#endif
