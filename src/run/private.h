/* Shared by the files of run/: one run, from its scenario to its document. */
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

/* ---- story.c: the event log and its hash ---- */

struct run_story {
    struct weft_trace trace;
    crypto_hash_sha256_state hash;
    weft_trace_sink sink; /* the caller's; may be NULL */
    void *context;
    /* Owned; non-NULL while lines are kept (run_story_gather). */
    struct story_parts *parts;
};

void run_story_init(struct run_story *story, const struct run_options *options);
/* Ends the log and its hash, so that they exclude the destruction of the world. */
void run_story_end(struct run_story *story);
/* Writes 64 hex digits and a NUL. */
void run_story_hash(const struct run_story *story, char out[65]);

/* ---- gathered.c: an event log of several processes ---- */

/* Keeps all lines from now on until run_story_end_gather(). Does nothing without a sink. */
void run_story_gather(struct run_story *story);
/* Adds the lines of a process (from 1; 0 is this process), whose clock is `ahead_ns` ahead
 * of this one's. Drops an incomplete last line, and lines without a time. */
void run_story_add(struct run_story *story, uint32_t process, weft_ns ahead_ns,
                   const char *lines, size_t n_bytes);
/* Passes all kept lines to the sink, ordered by time, then process, then position. Times count from
 * `origin_ns`. */
void run_story_end_gather(struct run_story *story, weft_ns origin_ns);

/* ---- rows.c: the rows of the jobs ---- */

/* Result of one row over all ranks. */
struct run_outcome {
    bool is_done;
    enum weft_algorithm algorithm;
    weft_ns time_ns;  /* median of the row's `repeat` iterations; 0 if not done */
    uint64_t n_wrong; /* elements, summed over all ranks */
};

/* The members that one member may connect to during boot. */
struct run_neighbours {
    struct boot_neighbour *items; /* Owned [n], with their endpoints */
    uint32_t n;
};

struct run {
    const struct scenario *scenario;
    const struct run_options *options;
    enum weft_policy policy;
    uint64_t seed;
    struct scenario_world *plan; /* Owned */
    struct world *world;         /* Owned */
    struct run_story story;
    struct mesh_graph graph;
    struct coll_mesh mesh;
    struct run_insides insides; /* Owned; the world's hosts refer to it */
    /* Members of the job: the ranks, then one relay process for each host without a rank. Owned
     * [n_members]: host of each member, and its process number there. */
    uint32_t *member_hosts;
    uint32_t *member_processes;
    uint32_t n_ranks, n_members;
    /* Owned [n_members]; NULL unless the boot mode is BOOT_STATIC. */
    struct run_neighbours *neighbours;
    struct host_row *rows;        /* Owned [n_rows] */
    weft_ps *limits_ps;           /* Owned [n_rows] */
    struct run_outcome *outcomes; /* Owned [n_rows] */
    uint32_t n_rows;
    struct host **hosts; /* Owned [n_members] */
    /* true: `hosts` are decoded records of other processes (run/record.h). */
    bool are_records;
    struct oracle_memo *answers; /* Owned; shared by the hosts */
    struct host_map map;         /* the mesh as all members know it */
    weft_ns origin_ns;           /* the world's clock right after its creation */
    weft_ns ended_ns;
    /* Scenario whose faults have the times at which they began; faults are Owned, NULL if none
     * waited for a moment (run_as_it_came). */
    struct scenario came;
    weft_status loop_status;
    struct weft_error loop_error;
    struct diag_input observations;
    struct diag_findings findings;
    struct run_wire *wire; /* Owned; NULL unless `expect` judges the wire */
    /* True if the file's bounded faults leave the ranks connected (run/outlook.h). */
    bool is_connected;
    bool has_failed;      /* a member failed or data was wrong, whatever `expect` says */
    json_t *expectations; /* Owned */
    bool as_expected;
    /* run_scenario(), for invariants that compare this run with another one */
    enum run_result (*run_other)(const struct scenario *scenario,
                                 const struct run_options *options, json_t **out_document,
                                 json_t **out_observations, struct weft_error *error);
};

/* Makes a row with its watchdog for every element of every job. Needs run->graph. */
void run_rows_make(struct run *run);
/* Computes what plans may know of the mesh. Needs the rows. */
void run_mesh_make(struct run *run);
/* Fails with WEFT_ERR_INPUT if a row connects ranks that are too many cables apart. */
weft_status run_rows_check(const struct run *run, struct weft_error *error);
/* Fills run->outcomes after the hosts are over. */
void run_rows_evaluate(struct run *run);
/* Returns the bus bandwidth in bytes per second of a row that took `time_ps`; 0 if `time_ps` is not
 * positive. */
double run_bus_bandwidth(const struct run *run, const struct host_row *row,
                         weft_ps time_ps);

/* ---- prepare.c ---- */

/* Backstop for a whole run. Every wait of a host has a shorter deadline of its own. */
#define RUN_LIMIT_NS (4 * 3600 * INT64_C(1000000000))
/* Maximum time for which a host on a network may find the rendezvous unreachable; routes of that
 * network exist by then. */
#define RUN_HOPELESS_NS INT64_C(1000000000)

/* Returns true if the run only simulates time, so that there are no results to compare. */
static inline bool run_is_timing(const struct run *run)
{
    return run->scenario->payload == SCENARIO_PAYLOAD_TIMING;
}

void run_init(struct run *run, const struct scenario *scenario,
              const struct run_options *options);
/* Prepares everything that needs no world: ranks, graph and rows. */
weft_status run_plan(struct run *run, struct weft_error *error) WEFT_MUST_CHECK;
/* Returns true if the members are notified of one that failed or exited before it joined. Policies
 * of NCCL are not, because NCCL's ranks are not. */
bool run_reports_ends(const struct run *run);
/* Returns true if a fault of the scenario stops the processes of that host for good. */
bool run_stops_for_good(const struct run *run, uint32_t host);
/* Sets what is common to all members; `start_ns` is left to the caller. */
void run_configure(const struct run *run, struct host_config *config);
/* Sets the fields of `config` that differ between members. */
void run_configure_member(const struct run *run, uint32_t member,
                          struct host_config *config);
/* Frees everything, including the world. */
void run_fini(struct run *run);

/* ---- run.c ---- */

/* Diagnoses and judges what the hosts did, and determines the verdict. */
void run_evaluate(struct run *run);
enum run_result run_result_of(const struct run *run, struct weft_error *error);

/* ---- collect.c ---- */

/* Runs the meeting after `member` (this process, in run->world) ended. The first member of the
 * meeting (rank 0 if it is left) receives all records and judges; all members receive its verdict.
 * `host_error` is the member's result; it can name a rank that is known to be dead. On WEFT_OK
 * `outcome` is filled. */
weft_status run_collect(struct run *run, uint32_t member, const json_t *record,
                        const struct weft_error *host_error,
                        const struct host_config *config,
                        struct run_node_outcome *outcome,
                        struct weft_error *error) WEFT_MUST_CHECK;

/* ---- boot.c ---- */

#define RUN_RENDEZVOUS_PORT 29500 /* as in torchrun */

enum boot_mode run_boot_mode(const struct run *run);
/* Fails with WEFT_ERR_UNSUPPORTED if the members have no way to find each other. */
weft_status run_boot_check(const struct run *run,
                           struct weft_error *error) WEFT_MUST_CHECK;
void run_boot_make(struct run *run);
void run_boot_fini(struct run *run);
/* Sets everything except keys and times. */
void run_boot_configure(const struct run *run, uint32_t member,
                        struct boot_config *config);

/* ---- choose.c ---- */

/* With a policy of NCCL, restricts `conn` to the ports of the NIC that NCCL would select for this
 * rank. */
void run_choose_nic(const struct run *run, uint32_t member, struct conn_config *conn);

/* ---- gather.c ---- */

/* Runs every member in a process of its own and decodes their records into run->hosts. */
weft_status run_gather(struct run *run, struct weft_error *error) WEFT_MUST_CHECK;

/* ---- observe.c ---- */

void run_observe(const struct run *run, struct diag_input *out);
/* Returns the host whose failure a user would see first, or NULL if none failed. */
const struct host *run_first_failure(const struct run *run);

/* ---- expect.c ---- */

/* Adds one judged expectation. Takes over `got`. */
void run_say(struct run *run, bool ok, struct weft_text *got, const char *format, ...)
    WEFT_PRINTF(4, 5);
/* Judges all of `expect` but its invariants. Fills run->expectations and run->as_expected. */
void run_judge(struct run *run);
/* Adds the line about run->findings. */
void run_judge_findings(struct run *run);

/* ---- invariants.c ---- */

/* Lets the world of a finished run go on until freed objects are gone and packets have arrived.
 * Does nothing unless `expect` has invariants. */
void run_settle(struct run *run);
/* Return true if this run's frames are judged, and if some may be sent without carrier. */
bool run_has_wire(const struct run *run);
bool run_may_be_dark(const struct run *run);
/* Adds a line for each invariant that `expect` contains. */
void run_judge_invariants(struct run *run);

/* ---- came.c: faults at moments of the job ---- */

/* Records when faults that wait for a moment began. Call after the run, before its world is
 * destroyed. */
void run_note_came(struct run *run);
/* Returns the scenario with each fault at the time at which it began, without those that did not
 * begin. Returns the run's own scenario if no fault waits for a moment or the backend does not
 * know. */
const struct scenario *run_as_it_came(const struct run *run);
/* Says in `out` why no part of the fault `number`, which begins at a time, met the jobs that began
 * at `jobs_ns` (0: never) in a run that ended at `ended_ns`. Returns false if some did, or if it
 * waits for a moment. */
bool run_fault_missed(const struct scenario *scenario, uint32_t number, weft_ns jobs_ns,
                      weft_ns ended_ns, char *out, size_t out_bytes);
/* Adds a warning for each fault of the file that never began, or was over before the job. */
void run_warn_of_faults(const struct run *run, json_t *warnings);

/* ---- document.c ---- */

json_t *run_document(const struct run *run);
/* Returns the first members of every document, up to `replay`. */
json_t *run_document_head(const struct run *run);
/* Returns all counters by name; a new reference. */
json_t *run_counters(const struct run *run);

#endif
