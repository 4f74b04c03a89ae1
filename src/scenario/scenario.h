/* A scenario file as plain data, as docs/scenario.md describes it: every default and override
 * is applied, every name is resolved to an index, and everything is validated. The only errors
 * left are those that a backend or a run finds; for these, each item has the place at which it
 * was written. */
#ifndef WEFT_SCENARIO_SCENARIO_H
#define WEFT_SCENARIO_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/collective.h"
#include "base/policy.h"
#include "base/profile.h"
#include "base/reduce.h"
#include "base/status.h"
#include "base/text.h"
#include "base/transport.h"
#include "io/addr.h"
#include "io/world.h"

/* The place at which a value was written. `set` is 0 for the file and n for the n-th --set
 * (from 1), whose line and column are meaningless. Lines and columns count from 1, columns in
 * characters; line 0 means that the value is a default. */
struct scenario_mark {
    uint32_t line;
    uint32_t column;
    uint32_t set;
};

/* One error of a file. */
struct scenario_diagnostic {
    struct scenario_mark mark;
    char *text; /* "triangle.yaml:12:5: unknown key 'linkz'; did you mean 'links'?" */
};

/* Errors of a file in order of place, at most SCENARIO_DIAGNOSTICS_MAX. */
#define SCENARIO_DIAGNOSTICS_MAX 50
struct scenario_diagnostics {
    struct scenario_diagnostic *items; /* Owned; [n] */
    size_t n;
    size_t n_left_out; /* found beyond the maximum */
};

void scenario_diagnostics_fini(struct scenario_diagnostics *diag);

/* Keys of a port in addition to its struct world_port. The ports of `ports:` come
 * first, then those of `cages:`, by PCIe root and then by cage: c0.0 c1.0 c0.1 c1.1, the order in
 * which the kernel finds the functions. */
struct scenario_port {
    int32_t link; /* index into scenario.links; -1 without a cable */
    uint32_t end; /* which end of that link, 0 or 1 */
    struct scenario_mark mark;
};

/* Keys of a host in addition to its struct world_host. */
struct scenario_node {
    struct scenario_port *ports; /* [n_ports] */
    const char *gpu_topology;    /* path of an NCCL topology XML as written, or NULL */
    struct scenario_mark gpu_mark;
    struct scenario_mark mark;
};

/* Keys of a cable in addition to its struct world_cable. */
struct scenario_link {
    const char *name;  /* "titanic:p0-iceberg:p1" */
    bool is_cage_rail; /* one of the two rails of a cable between cages */
    struct scenario_mark mark;
};

struct scenario_management {
    bool exists;
    struct io_prefix subnet;
    uint64_t rate_bps;
    weft_ns delay_ns;
    struct scenario_mark mark;
};

/* Rank i is the local_rank'th rank of the host. */
struct scenario_rank {
    uint32_t host;
    uint32_t local_rank;
};

/* A command of one host. */
struct scenario_command {
    uint32_t host;      /* SCENARIO_OTHERS for every host that no other command names */
    const char *text;   /* as written */
    const char **words; /* [n_words]; sh -c TEXT if the command is text */
    uint32_t n_words;
    struct scenario_mark mark;
};
#define SCENARIO_OTHERS UINT32_MAX

/* The actual or expected end of a program. */
enum scenario_end_kind {
    /* exit status as in a shell: the program's own, or 128 + signal */
    SCENARIO_END_STATUS,
    SCENARIO_END_ANY,
    SCENARIO_END_KILLED, /* killed by a fault */
    SCENARIO_END_HANGS   /* still running when its time was over, and then ended */
};

/* Expected end of a program; `host` is SCENARIO_OTHERS for all. */
struct scenario_end_status {
    uint32_t host;
    enum scenario_end_kind kind;
    int status; /* only for SCENARIO_END_STATUS */
    struct scenario_mark mark;
};

struct scenario_output {
    uint32_t host;
    const char *pattern; /* a POSIX extended regular expression, matched per line */
    struct scenario_mark mark;
};

/* A job of programs. Commands start one second apart, in the order of the file. */
struct scenario_exec {
    struct scenario_command *commands; /* [n_commands], at least one */
    uint32_t n_commands;
    /* [n_statuses]; a program without one must exit with 0 or be killed by a fault */
    struct scenario_end_status *statuses;
    uint32_t n_statuses;
    struct scenario_output *outputs; /* [n_outputs] */
    uint32_t n_outputs;
    bool has_within;
    /* time from the start of the first command; programs still running then are killed */
    weft_ns within_ns;
};
#define SCENARIO_PATIENCE_MAX 1000
#define SCENARIO_WITHIN_NS (600 * INT64_C(1000000000)) /* default of within_ns */

/* One job. Runs `repeat` times per element of `bytes`, in order. */
struct scenario_job {
    bool is_exec;              /* runs other programs than Weft; one row in total */
    enum weft_collective kind; /* only if not is_exec */
    /* [n_bytes]; nccl-tests' size column, as written; a single 0 for a barrier */
    uint64_t *bytes;
    uint32_t n_bytes;
    enum weft_dtype dtype;
    enum weft_redop op;
    uint32_t root;   /* rank */
    uint32_t repeat; /* at least 1 */
    enum weft_algorithm algorithm;
    bool in_place;
    /* only if is_exec; `bytes` is then a single 0 */
    const struct scenario_exec *exec;
    struct scenario_mark mark;
};

/* Returns its key in the file, "all_reduce" or "exec". */
const char *scenario_job_name(const struct scenario_job *job);

/* One fault with names resolved. An addr_change becomes an addr_del and an addr_add. */
struct scenario_fault {
    struct world_fault spec;
    /* number in the file's list, from 1; several faults can have the same */
    uint32_t number;
    struct scenario_mark mark;
};

struct scenario_code {
    const char *code; /* "link.mtu_mismatch" */
    struct scenario_mark mark;
};

/* A lower bound on the bus bandwidth of one size of one job. */
struct scenario_bandwidth {
    bool has_job; /* false for every job */
    uint32_t job;
    bool has_bytes; /* false for the largest size of the job */
    uint64_t bytes;
    bool is_share;         /* share of the physical limit; otherwise absolute */
    uint32_t at_least_ppb; /* parts per 10^9 of the limit */
    uint64_t at_least_bytes_per_s;
    struct scenario_mark mark;
};

/* An expected connection: rank `from` sends to rank `to`. */
struct scenario_connection {
    uint32_t from, to; /* ranks */
    bool has_port;
    uint32_t port; /* through this port of the host of `from` */
    bool has_via;
    uint32_t *via; /* through exactly these hosts; [n_via]; 0 if direct */
    uint32_t n_via;
    bool has_transport;
    enum weft_transport transport;
    const char *reason; /* part of the reason for the transport; NULL for any */
    struct scenario_mark mark;
};

/* Bounds on a counter of the run's result document. */
struct scenario_counter {
    const char *name; /* "retransmits" */
    uint64_t at_least, at_most;
    struct scenario_mark mark;
};

/* A condition that every run must meet, whatever its result. It is judged from the run's
 * counters and independently of the code under test (run/invariants.c). A set is an OR of bits
 * 1 << enumerator. */
enum scenario_invariant {
    SCENARIO_INVARIANT_DATA,      /* every byte of a finished row equals the oracle's */
    SCENARIO_INVARIANT_ENDS,      /* each request ends once; no run hangs */
    SCENARIO_INVARIANT_RECOVERY,  /* no job ends because of a recoverable fault */
    SCENARIO_INVARIANT_TIME,      /* recovery ends within a bound after the last fault */
    SCENARIO_INVARIANT_EXPLAINED, /* a failure has a finding that names what was broken */
    /* all that was sent has arrived, was dropped or is in flight */
    SCENARIO_INVARIANT_COUNTERS,
    SCENARIO_INVARIANT_OBJECTS, /* no object exists after close */
    SCENARIO_INVARIANT_ECONOMY, /* no more retransmissions than the losses require */
    /* random NIC operations give the results of a model (run/drill.h) */
    SCENARIO_INVARIANT_VERBS,
    SCENARIO_INVARIANT_WIRE, /* frames are in the order that IBA chapter 9 requires */
    /* the result without packet trains is the same; only without WIRE */
    SCENARIO_INVARIANT_TRAINS,
    SCENARIO_N_INVARIANTS
};
const char *scenario_invariant_name(enum scenario_invariant invariant); /* "data" */

struct scenario_expect {
    bool must_fail;
    bool may_fail;       /* `result: any` */
    uint32_t invariants; /* to be judged; 0 if none */
    bool has_errno;
    int sys_errno;
    bool has_wc_status;
    int wc_status;
    struct scenario_mark symptom_mark;
    /* The set of findings must be exactly this. Without `findings:` it must be empty if the
     * run must pass; otherwise any findings are allowed. */
    bool has_findings;
    struct scenario_code *findings; /* [n_findings] */
    uint32_t n_findings;
    bool has_data; /* `data: exact` was written (it is the default) */
    struct scenario_bandwidth *bandwidths; /* [n_bandwidths] */
    uint32_t n_bandwidths;
    bool has_time_at_most, has_time_at_least;
    weft_ns at_most_ns, at_least_ns; /* bounds of the whole run */
    struct scenario_mark time_mark;
    struct scenario_counter *counters; /* [n_counters] */
    uint32_t n_counters;
    struct scenario_connection *connections; /* [n_connections] */
    uint32_t n_connections;
    struct scenario_mark mark;
};

/* The means by which the members of a job find each other. */
enum scenario_boot {
    /* rendezvous, or neighbours if there is no management network */
    SCENARIO_BOOT_AUTO,
    SCENARIO_BOOT_RENDEZVOUS, /* rank 0 listens on the management network */
    SCENARIO_BOOT_NEIGHBOURS, /* announcements on every cable, and flooding */
    SCENARIO_BOOT_STATIC,     /* flooding to the neighbours in this file */
    SCENARIO_N_BOOTS
};

enum scenario_payload {
    SCENARIO_PAYLOAD_MOVED,  /* data is moved, and every byte of every result compared */
    SCENARIO_PAYLOAD_TIMING, /* only time passes; no data is moved or compared */
    SCENARIO_N_PAYLOADS
};

/* One --set: "jobs.0.all_reduce.bytes=64KiB". */
struct scenario_set {
    const char *text;
};

struct scenario {
    const char *file; /* name as passed to the loader */
    const char *text; /* [n_text]: contents of the file, without the sets */
    size_t n_text;
    const struct scenario_set *sets; /* as passed to the loader; [n_sets] */
    size_t n_sets;
    const char *name;
    const char *description; /* "" if there is none */
    enum weft_policy policy;
    uint64_t seed;
    enum scenario_boot boot;
    enum scenario_payload payload;
    uint32_t rare_ppb; /* world_spec.rare_ppb */
    uint32_t patience; /* factor of all limits, 1 to SCENARIO_PATIENCE_MAX */
    struct scenario_management management;
    /* The topology, as a world has it. scenario_read_topologies adds the documents of hosts, and
     * n_processes is the number of ranks, 0 if the host only relays. */
    struct world_host *hosts;    /* [n_hosts], in file order */
    struct scenario_node *nodes; /* [n_hosts] */
    uint32_t n_hosts;
    struct world_switch *switches;      /* [n_switches] */
    struct scenario_mark *switch_marks; /* [n_switches] */
    uint32_t n_switches;
    struct world_cable *cables;  /* [n_links], in file order */
    struct scenario_link *links; /* [n_links] */
    uint32_t n_links;
    struct scenario_rank *ranks; /* [n_ranks] */
    uint32_t n_ranks;
    struct scenario_job *jobs; /* [n_jobs] */
    uint32_t n_jobs;
    struct scenario_fault *faults; /* [n_faults], in file order */
    uint32_t n_faults;
    struct scenario_expect expect;
    struct scenario_arena *arena; /* Owned: contains everything above */
};

/* Reads `path` into `*text` (initially empty; owned by the caller), applies `sets` in order
 * and checks everything. `text` keeps the contents, because a pipe can be read only once. On
 * success `diag` is empty and the caller frees `*out` with scenario_free. On failure returns
 * WEFT_ERR_INPUT, sets `*out` to NULL and reports as many errors as possible in `diag`. `diag`
 * is always initialised; the caller frees it with scenario_diagnostics_fini. */
weft_status scenario_load_file(const char *path, const struct scenario_set *sets,
                               size_t n_sets, struct weft_text *text,
                               struct scenario **out, struct scenario_diagnostics *diag);

/* Does the same for text in memory, without reading topology documents; `name` replaces the
 * path in messages. */
weft_status scenario_load_text(const char *name, const void *text, size_t n_bytes,
                               const struct scenario_set *sets, size_t n_sets,
                               struct scenario **out, struct scenario_diagnostics *diag);

/* Reads the topology documents that hosts name, as scenario_load_file does, without checking
 * their XML. Fails with WEFT_ERR_INPUT and a complaint in `diag`; the caller still owns the
 * scenario. */
weft_status scenario_read_topologies(struct scenario *scenario,
                                     struct scenario_diagnostics *diag);

/* Returns true if the jobs are other programs than Weft; all jobs of a scenario are of one
 * sort. */
bool scenario_has_programs(const struct scenario *scenario);
/* Returns the number of rows of the result table: one for each size of each job. */
uint64_t scenario_n_rows(const struct scenario *scenario);
/* Writes "at 3ms", "at jobs+1ms", "at row 3", "at titanic sent 10MiB", "at titanic:p0 rts" or "at
 * titanic:p0 packet 1000". Returns `out`. */
#define SCENARIO_MOMENT_BYTES 192
char *scenario_moment_text(const struct scenario *scenario,
                           const struct world_fault *fault, char *out, size_t out_bytes);

/* NULL is ignored. */
void scenario_free(struct scenario *scenario);

/* Writes the place "titanic.yaml:12:5: " or "--set PATH: ", for errors found after loading.
 * Returns `out`, always terminated. */
char *scenario_where(const struct scenario *scenario, struct scenario_mark mark,
                     char *out, size_t out_bytes);

/* The world of a scenario as backends need it. The caller sets spec.trace and spec.log, which are
 * NULL. The scenario must outlive it. */
struct scenario_world {
    struct world_spec spec;
    struct scenario_rank *ranks; /* [n_ranks] */
    uint32_t n_ranks;
    struct scenario_arena *arena; /* Owned. */
};

weft_status scenario_to_world(const struct scenario *scenario,
                              struct scenario_world **out);
/* Replaces the hosts of the world by copies of these [spec.n_hosts]. */
void scenario_world_hosts(struct scenario_world *world, const struct world_host *hosts);
void scenario_world_free(struct scenario_world *world);

/* Returns true, and a key owned by the scenario, if the scenario uses something that no
 * backend of this build implements yet: "faults.0.restart". */
bool scenario_not_implemented(const struct scenario *scenario, const char **out_key);

#endif
