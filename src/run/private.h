/* What the files of run/ share: one run, from the scenario to its document. */
#ifndef WEFT_RUN_PRIVATE_H
#define WEFT_RUN_PRIVATE_H

#include <sodium.h>

#include "diag/diag.h"
#include "host/host.h"
#include "mesh/mesh.h"
#include "run/graph.h"
#include "run/insides.h"
#include "run/node.h"
#include "run/run.h"
#include "run/wire.h"

/* ---- story.c: the event story and its hash ---- */

struct run_story {
    struct weft_trace trace;
    crypto_hash_sha256_state hash;
    weft_trace_sink sink; /* the caller's; may be NULL */
    void *context;
    struct story_parts *parts; /* Owned; while what is told is gathered */
};

void run_story_init(struct run_story *story, const struct run_options *options);
/* The run is over: tearing the world down is not part of the story. */
void run_story_end(struct run_story *story);
/* 64 hex digits and a NUL. */
void run_story_hash(const struct run_story *story, char out[65]);

/* ---- gathered.c: a story that several processes tell ---- */

/* From now on everything told is kept, until run_story_tell_gathered. Nothing if nobody
 * listens. */
void run_story_gather(struct run_story *story);
/* Whole lines of process `teller` (from 1; 0 is this process), whose clock is `ahead_ns` ahead of
 * this one's; a last one without its newline is left out, and so are lines without a time. */
void run_story_add(struct run_story *story, uint32_t teller, weft_ns ahead_ns,
                   const char *lines, size_t n_bytes);
/* Tells all that was kept in the order of time, then of tellers, then as each told it; times
 * are counted from `origin_ns`. */
void run_story_tell_gathered(struct run_story *story, weft_ns origin_ns);

/* ---- rows.c: what is run ---- */

/* One row over all ranks. */
struct run_outcome {
    bool is_done;
    enum coll_algorithm algorithm;
    weft_ns time_ns;  /* median of `repeat` */
    uint64_t n_wrong; /* over all ranks */
};

/* Whom a member may dial. */
struct run_neighbours {
    struct boot_neighbour *items; /* Owned [n], as are their endpoints */
    uint32_t n;
};

struct run {
    const struct scenario *scenario;
    const struct run_options *options;
    enum rdma_policy policy;
    uint64_t seed;
    struct scenario_world *plan; /* Owned */
    struct world *world;         /* Owned */
    struct run_story story;
    struct mesh_graph graph;
    struct coll_mesh mesh;
    struct run_insides insides; /* Owned; the world's hosts refer to it */
    /* Members of the job: the ranks, then a process that only relays for every host
     * without a rank. Owned [n_members]: the host of each, and which process of it. */
    uint32_t *member_hosts;
    uint32_t *member_processes;
    uint32_t n_ranks, n_members;
    struct run_neighbours *neighbours; /* Owned [n_members]; NULL: nobody is told any */
    struct host_row *rows;             /* Owned [n_rows] */
    weft_ps *limits_ps;                /* Owned [n_rows] */
    struct run_outcome *outcomes;      /* Owned [n_rows] */
    uint32_t n_rows;
    struct host **hosts;         /* Owned [n_members] */
    bool are_records;            /* they ran in processes of their own: run/record.h */
    struct oracle_memo *answers; /* Owned; for the hosts */
    struct host_map map;         /* what all members know of the mesh */
    weft_ns origin_ns;           /* of the world's clock, when the world was there */
    weft_ns ended_ns;
    struct scenario came; /* its faults are Owned; see run_as_it_came */
    weft_status loop_status;
    struct weft_error loop_error;
    struct diag_input observations;
    struct diag_findings findings;
    struct run_wire *wire; /* Owned; NULL unless `expect` judges the wire */
    bool is_connected;     /* by the file, once its faults are over: run/outlook.h */
    bool has_failed;       /* before `expect` is asked */
    json_t *expectations;  /* Owned */
    bool as_expected;
};

/* Every element of every job, with its watchdog; the graph must be there. */
void run_rows_make(struct run *run);
/* What plans may know of the mesh; the rows must be there. */
void run_mesh_make(struct run *run);
/* Refuses a row whose ranks are farther apart than a connection reaches (WEFT_ERR_INPUT). */
weft_status run_rows_check(const struct run *run, struct weft_error *error);
/* What the rows took, once the hosts are over. */
void run_rows_evaluate(struct run *run);
/* The bus bandwidth in bytes per second of a row that took `time_ps`; 0 for no time. */
double run_bus_bandwidth(const struct run *run, const struct host_row *row,
                         weft_ps time_ps);

/* ---- run.c ---- */

/* Every wait of a host has a deadline; this one is for what they forgot. */
#define RUN_LIMIT_NS (4 * 3600 * INT64_C(1000000000))
/* For so long the rendezvous may be out of reach of a host on a network: routes that come with the
 * network are there by then. */
#define RUN_HOPELESS_NS INT64_C(1000000000)
/* After an end, the next must come within this: more than any single deadline of a rank that lost
 * its peer. Whoever is later than that hangs. Ranks that do not hear of one that ended have the
 * patience for the rendezvous on top. */
#define RUN_HANG_NS (90 * INT64_C(1000000000))

/* Only time passes: nothing can be compared. */
static inline bool run_is_timing(const struct run *run)
{
    return run->scenario->payload == SCENARIO_PAYLOAD_TIMING;
}

void run_init(struct run *run, const struct scenario *scenario,
              const struct run_options *options);
/* Ranks, graph and rows: all that can be known before there is a world. */
weft_status run_plan(struct run *run, struct weft_error *error) WEFT_MUST_CHECK;
/* Returns true if ranks hear of one that failed or died before it came. NCCL's do not, and its
 * policies keep their times. */
bool run_tells_ends(const struct run *run);
/* What all members are told; `start_ns` is the caller's to fill. */
void run_configure(const struct run *run, struct host_config *config);
/* What one of them is told beside. */
void run_configure_member(const struct run *run, uint32_t member,
                          struct host_config *config);
/* Gives back what is there, the world included. */
void run_fini(struct run *run);
/* What the hosts did, diagnosed and judged; then the verdict. */
void run_evaluate(struct run *run);
enum run_result run_result_of(const struct run *run, struct weft_error *error);

/* ---- collect.c ---- */

/* After `member` (this process, in run->world) came to `status`: rank 0 gets everybody's record,
 * and judges the run; all get its verdict. `host_error` tells who is known to be dead.
 * WEFT_OK: `outcome` is filled. */
weft_status run_collect(struct run *run, uint32_t member, const json_t *record,
                        const struct weft_error *host_error,
                        const struct host_config *config,
                        struct run_node_outcome *outcome,
                        struct weft_error *error) WEFT_MUST_CHECK;

/* ---- boot.c ---- */

#define RUN_RENDEZVOUS_PORT 29500 /* torchrun's and others' habit */

enum boot_mode run_boot_mode(const struct run *run);
/* Whether members can meet at all. */
weft_status run_boot_check(const struct run *run,
                           struct weft_error *error) WEFT_MUST_CHECK;
void run_boot_make(struct run *run);
void run_boot_fini(struct run *run);
/* Everything but keys and times. */
void run_boot_configure(const struct run *run, uint32_t member,
                        struct boot_config *config);

/* ---- choose.c ---- */

/* Under policies of NCCL: the ports that its choice of a device gives this rank. */
void run_choose_nic(const struct run *run, uint32_t member, struct conn_config *conn);

/* ---- gather.c ---- */

/* Runs every rank in a process of its own; then run->hosts hold what they recorded. */
weft_status run_gather(struct run *run, struct weft_error *error) WEFT_MUST_CHECK;

/* ---- observe.c ---- */

void run_observe(const struct run *run, struct diag_input *out);
/* The failure that a user would have seen first; NULL if there was none. */
const struct host *run_first_failure(const struct run *run);

/* ---- expect.c ---- */

/* Adds one line to what was expected, and takes over `got`. */
void run_say(struct run *run, bool ok, struct weft_text *got, const char *format, ...)
    WEFT_PRINTF(4, 5);
/* Fills run->expectations and run->as_expected. */
void run_judge(struct run *run);
/* Adds the line about run->findings. */
void run_judge_findings(struct run *run);

/* ---- invariants.c ---- */

/* Once the hosts are over: lets what they gave back go. Does nothing unless `expect` asks for
 * invariants. */
void run_settle(struct run *run);
/* Whether this run's frames are judged, and whether some may be sent without carrier. */
bool run_has_wire(const struct run *run);
bool run_may_be_dark(const struct run *run);
/* Adds a line for each invariant that `expect` asks for. */
void run_judge_invariants(struct run *run);

/* ---- came.c: faults at moments of the job ---- */

/* Once the run is over, while its world is there: notes when such faults came. */
void run_note_came(struct run *run);
/* The scenario with each of its faults at the time at which it came, without those that did not;
 * the run's own where no fault waits for a moment, or nobody knows. */
const struct scenario *run_as_it_came(const struct run *run);
/* Adds a warning for each fault of the file whose moment did not come. */
void run_warn_of_faults(const struct run *run, json_t *warnings);

/* ---- document.c ---- */

json_t *run_document(const struct run *run);
/* What every document begins with, up to `replay`. */
json_t *run_document_head(const struct run *run);
/* What was counted, by name; the caller's reference. */
json_t *run_counters(const struct run *run);

#endif
