/* A scenario file as plain data: what docs/scenario.md describes, with every default and
 * override applied, every name resolved to an index, and everything validated. Nothing in
 * here can be wrong any more but what only a backend or a run can know; for those, each
 * item carries the place it was written at. */
#ifndef WEFT_SCENARIO_SCENARIO_H
#define WEFT_SCENARIO_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reduce.h"
#include "base/status.h"
#include "base/text.h"
#include "io/addr.h"
#include "io/world.h"

/* Where something was written. `set` is 0 for the file, n for the n-th --set (from 1),
 * whose line and column then mean nothing. Lines and columns count from 1, columns in
 * characters; line 0: nowhere, the value is a default. */
struct scenario_mark {
    uint32_t line;
    uint32_t column;
    uint32_t set;
};

/* One thing that is wrong with a file. */
struct scenario_diagnostic {
    struct scenario_mark mark;
    char *text; /* "triangle.yaml:12:5: unknown key 'linkz'; did you mean 'links'?" */
};

/* What is wrong with a file, in order of place; at most SCENARIO_DIAGNOSTICS_MAX. */
#define SCENARIO_DIAGNOSTICS_MAX 50
struct scenario_diagnostics {
    struct scenario_diagnostic *items; /* Owned; [n] */
    size_t n;
    size_t n_left_out; /* found beyond the maximum */
};

void scenario_diagnostics_fini(struct scenario_diagnostics *diag);

enum scenario_policy {
    SCENARIO_POLICY_WEFT,
    SCENARIO_POLICY_NCCL_2_25,
    SCENARIO_POLICY_NCCL_2_30_SUBNET_AWARE,
    SCENARIO_POLICY_MESH_PLUGIN_2026_01,
    SCENARIO_POLICY_MOONCAKE_2026_06,
    SCENARIO_POLICY_NCCL_2_29_PORT_RECOVERY,
    SCENARIO_N_POLICIES
};

/* "nccl-2.25" as in files and on the command line. */
const char *scenario_policy_name(enum scenario_policy policy);
bool scenario_policy_parse(const char *name, enum scenario_policy *out);

struct scenario_setting {
    const char *name;
    const char *value; /* the scalar as written */
    struct scenario_mark mark;
};

/* A port of a host. Ports of `ports:` come first, then those of `cages:`, by PCIe root
 * and then by cage: c0.0 c1.0 c0.1 c1.1, the order in which the kernel finds the
 * functions. */
struct scenario_port {
    const char *name;
    uint32_t device; /* index of its RDMA device on the host */
    uint8_t port;    /* port of that device, from 1 */
    uint32_t pcie_root;
    bool is_cage;       /* a function of a cage */
    int32_t link;       /* index into scenario.links; -1: no cable */
    uint32_t end;       /* which end of that link, 0 or 1 */
    uint64_t rate_bps;  /* the link's; without one the default */
    uint32_t mtu_bytes; /* of the netdev */
    /* In the order they were added: the link's first, then those of `addresses:`. */
    struct io_prefix *addresses; /* [n_addresses] */
    struct io_ip *peers;         /* [n_addresses]; zero: none */
    uint32_t n_addresses;
    uint32_t n_vlan_addresses; /* the first so many, of the link, are on its VLAN */
    uint16_t vlan_id;          /* 0: none */
    struct scenario_mark mark;
};

/* See struct world_bond. */
struct scenario_bond {
    const char *name;
    uint32_t *ports; /* [n_ports] */
    uint32_t n_ports;
    struct io_prefix *addresses; /* [n_addresses] */
    uint32_t n_addresses;
};

struct scenario_host {
    const char *name;
    struct scenario_port *ports; /* [n_ports] */
    uint32_t n_ports;
    struct scenario_bond *bonds; /* [n_bonds] */
    uint32_t n_bonds;
    uint32_t n_gpus;
    const char *gpu_topology; /* path of an NCCL topology XML as written, or NULL */
    bool has_no_peer_access;  /* no GPU reaches another one's memory */
    struct scenario_mark gpu_mark;
    const char
        *gpu_path; /* relative to this file's directory; as scenario_read_topologies */
    const char *gpu_document; /* [n_gpu_document] fills them; NULL until then */
    size_t n_gpu_document;
    uint32_t n_ranks; /* 0: only relays */
    const char *profile;
    struct scenario_setting *overrides; /* of the profile; [n_overrides] */
    uint32_t n_overrides;
    uint64_t *pcie_root_bps; /* [n_pcie_roots]; 0: the profile's */
    uint32_t n_pcie_roots;
    struct world_sysctl sysctl;
    struct world_route *routes; /* [n_routes] */
    uint32_t n_routes;
    bool forward_accept;
    const char **input_drop; /* [n_input_drop] */
    uint32_t n_input_drop;
    int64_t memlock_bytes;        /* INT64_MAX: unlimited */
    bool has_private_shm;         /* each process has a /dev/shm of its own */
    struct scenario_setting *env; /* [n_env] */
    uint32_t n_env;
    weft_ns start_ns;
    struct io_ip known_ip; /* zero: by its management address */
    struct scenario_mark mark;
};

struct scenario_switch {
    const char *name;
    uint32_t n_ports;
    struct scenario_mark mark;
};

struct scenario_end {
    bool is_switch;
    uint32_t node; /* index into hosts or switches */
    uint32_t port; /* index into the host's ports, or the switch's port from 0 */
    struct scenario_mark mark;
};

/* One cable, or one of the two rails of a cable between cages. */
struct scenario_link {
    const char *name; /* "titanic:p0-iceberg:p1" */
    struct scenario_end ends[2];
    bool is_cage_rail;
    uint64_t rate_bps;
    weft_ns delay_ns;          /* one way */
    uint32_t path_limit_bytes; /* 0: none */
    uint64_t queue_bytes;      /* 0: unlimited */
    bool pause;
    bool up;
    struct world_impairment impairment;
    struct scenario_mark mark;
};

struct scenario_management {
    bool exists;
    struct io_prefix subnet;
    uint64_t rate_bps;
    weft_ns delay_ns;
    struct scenario_mark mark;
};

/* Rank i is the local_rank'th rank of a host. */
struct scenario_rank {
    uint32_t host;
    uint32_t local_rank;
};

enum scenario_job_kind {
    SCENARIO_ALL_REDUCE,
    SCENARIO_REDUCE_SCATTER,
    SCENARIO_ALL_GATHER,
    SCENARIO_BROADCAST,
    SCENARIO_REDUCE,
    SCENARIO_ALL_TO_ALL,
    SCENARIO_SEND_RECV,
    SCENARIO_BARRIER,
    SCENARIO_EXEC, /* programs that are not ours: a row of its own */
    SCENARIO_N_JOB_KINDS
};

const char *scenario_job_kind_name(enum scenario_job_kind kind); /* "all_reduce" */

enum scenario_algorithm {
    SCENARIO_ALGORITHM_AUTO,
    SCENARIO_ALGORITHM_RING,     /* one ring */
    SCENARIO_ALGORITHM_RINGS,    /* all rings that the mesh has room for */
    SCENARIO_ALGORITHM_DIRECT,   /* everyone to everyone who needs it, at once */
    SCENARIO_ALGORITHM_EXCHANGE, /* direct reduce_scatter, then direct all_gather */
    SCENARIO_ALGORITHM_DOUBLING, /* distances 1, 2, 4 ... */
    SCENARIO_ALGORITHM_HALVING,
    SCENARIO_ALGORITHM_TREE,  /* one tree */
    SCENARIO_ALGORITHM_TREES, /* all trees that the mesh has room for */
    SCENARIO_ALGORITHM_CHAIN,
    SCENARIO_N_ALGORITHMS
};

const char *scenario_algorithm_name(enum scenario_algorithm algorithm); /* "ring" */

/* What runs on a host. */
struct scenario_command {
    uint32_t host;      /* SCENARIO_OTHERS: every host that no other command is for */
    const char *text;   /* as written */
    const char **words; /* [n_words]; a text is for the shell: sh -c TEXT */
    uint32_t n_words;
    struct scenario_mark mark;
};
#define SCENARIO_OTHERS UINT32_MAX

/* How a program ended, or must. */
enum scenario_end_kind {
    SCENARIO_END_STATUS, /* as a shell has it: its exit status, or 128 + its signal */
    SCENARIO_END_ANY,
    SCENARIO_END_KILLED, /* by a fault */
    SCENARIO_END_HANGS   /* it still ran when its time was over, and was ended */
};

/* `host` SCENARIO_OTHERS: all programs. */
struct scenario_end_status {
    uint32_t host;
    enum scenario_end_kind kind;
    int status; /* of SCENARIO_END_STATUS */
    struct scenario_mark mark;
};

struct scenario_output {
    uint32_t host;
    const char *pattern; /* a POSIX extended regular expression, by lines */
    struct scenario_mark mark;
};

/* Commands begin a second after one another, in the order of the file. */
struct scenario_exec {
    struct scenario_command *commands; /* [n_commands], at least one */
    uint32_t n_commands;
    /* [n_statuses]; a program of which none speaks must end with 0, or by a fault */
    struct scenario_end_status *statuses;
    uint32_t n_statuses;
    struct scenario_output *outputs; /* [n_outputs] */
    uint32_t n_outputs;
    bool has_within;
    weft_ns within_ns; /* from the first command's beginning; what still runs is ended */
};
#define SCENARIO_WITHIN_NS (600 * INT64_C(1000000000)) /* where nothing is said */

/* Runs once (repeat times) per element of `bytes`, in order. */
struct scenario_job {
    enum scenario_job_kind kind;
    /* [n_bytes]; nccl-tests' size column, as written; a barrier has one 0 */
    uint64_t *bytes;
    uint32_t n_bytes;
    enum weft_dtype dtype;
    enum weft_redop op;
    uint32_t root;   /* rank */
    uint32_t repeat; /* at least 1 */
    enum scenario_algorithm algorithm;
    bool in_place;
    const struct scenario_exec *exec; /* of SCENARIO_EXEC, which has one 0 of bytes */
    struct scenario_mark mark;
};

/* Names resolved; an addr_change is the addr_del and the addr_add that it means. */
struct scenario_fault {
    struct world_fault spec;
    uint32_t number; /* of the file's list, from 1: several faults may come of one */
    struct scenario_mark mark;
};

struct scenario_code {
    const char *code; /* "link.mtu_mismatch" */
    struct scenario_mark mark;
};

/* A bound on the bus bandwidth of one size of one job. */
struct scenario_bandwidth {
    bool has_job; /* false: every job */
    uint32_t job;
    bool has_bytes; /* false: the largest size of the job */
    uint64_t bytes;
    bool is_share;         /* of the physical limit; else absolute */
    uint32_t at_least_ppb; /* parts per 10^9 of the limit */
    uint64_t at_least_bytes_per_s;
    struct scenario_mark mark;
};

/* A connection that must exist: rank `from` sends to rank `to` ... */
/* What lies between two ranks; the order of NCCL. */
enum scenario_transport { SCENARIO_P2P, SCENARIO_SHM, SCENARIO_NET, SCENARIO_COLLNET };

struct scenario_connection {
    uint32_t from, to; /* ranks */
    bool has_port;
    uint32_t port; /* ... out of this port of from's host */
    bool has_via;
    uint32_t *via; /* ... over exactly these hosts; [n_via]; 0: directly */
    uint32_t n_via;
    bool has_transport;
    enum scenario_transport transport;
    const char *reason; /* part of why it is that one; NULL: any */
    struct scenario_mark mark;
};

/* Bounds on a counter of the run's document. */
struct scenario_counter {
    const char *name; /* "retransmits" */
    uint64_t at_least, at_most;
    struct scenario_mark mark;
};

/* What must hold of any run, whatever its result: judged from what the run counted and from
 * outside of the code that it judges (run/invariants.c). A set of bits 1 << enumerator. */
enum scenario_invariant {
    SCENARIO_INVARIANT_DATA,     /* no byte of a finished row differs from the oracle's */
    SCENARIO_INVARIANT_ENDS,     /* each request ends once; no hang */
    SCENARIO_INVARIANT_RECOVERY, /* what can be recovered from ends no job */
    SCENARIO_INVARIANT_TIME, /* recovery is over within a bound after the last fault */
    SCENARIO_INVARIANT_EXPLAINED, /* a failure has a finding that names what was broken */
    SCENARIO_INVARIANT_COUNTERS,  /* what was sent arrived, was dropped or is under way */
    SCENARIO_INVARIANT_OBJECTS,   /* no object is alive after close */
    SCENARIO_INVARIANT_ECONOMY,   /* retransmissions within what the losses demand */
    SCENARIO_INVARIANT_VERBS,  /* NICs do random work as a model has it (run/drill.h) */
    SCENARIO_INVARIANT_WIRE,   /* frames in the order that IBA chapter 9 demands */
    SCENARIO_INVARIANT_TRAINS, /* the same without packet trains; only without WIRE */
    SCENARIO_N_INVARIANTS
};
const char *scenario_invariant_name(enum scenario_invariant invariant); /* "data" */

struct scenario_expect {
    bool must_fail;
    bool may_fail;       /* `result: any` */
    uint32_t invariants; /* to be judged; 0: none */
    bool has_errno;
    int sys_errno;
    bool has_wc_status;
    int wc_status;
    struct scenario_mark symptom_mark;
    /* Exactly these, as a set. Without `findings:`, none if the run must pass, any if
     * not. */
    bool has_findings;
    struct scenario_code *findings; /* [n_findings] */
    uint32_t n_findings;
    bool has_data; /* `data: exact` was written (it is the default) */
    struct scenario_bandwidth *bandwidths; /* [n_bandwidths] */
    uint32_t n_bandwidths;
    bool has_time_at_most, has_time_at_least;
    weft_ns at_most_ns, at_least_ns; /* of the whole run */
    struct scenario_mark time_mark;
    struct scenario_counter *counters; /* [n_counters] */
    uint32_t n_counters;
    struct scenario_connection *connections; /* [n_connections] */
    uint32_t n_connections;
    struct scenario_mark mark;
};

/* How the members of a job learn of each other. */
enum scenario_boot {
    SCENARIO_BOOT_AUTO,       /* rendezvous, or neighbours without a management network */
    SCENARIO_BOOT_RENDEZVOUS, /* rank 0 serves, on the management network */
    SCENARIO_BOOT_NEIGHBOURS, /* announcements on every cable, and flooding */
    SCENARIO_BOOT_STATIC,     /* flooding to neighbours that this file names */
    SCENARIO_N_BOOTS
};

enum scenario_payload {
    SCENARIO_PAYLOAD_MOVED,  /* and every byte of every result compared */
    SCENARIO_PAYLOAD_TIMING, /* only time passes: nothing is moved, nothing compared */
    SCENARIO_N_PAYLOADS
};

/* One --set: "jobs.0.all_reduce.bytes=64KiB". */
struct scenario_set {
    const char *text;
};

struct scenario {
    const char *file; /* as given to the loader */
    const char *text; /* [n_text]: what is in it, without the sets */
    size_t n_text;
    const struct scenario_set *sets; /* likewise; [n_sets] */
    size_t n_sets;
    const char *name;
    const char *description; /* "" if there is none */
    enum scenario_policy policy;
    uint64_t seed;
    enum scenario_boot boot;
    enum scenario_payload payload;
    uint32_t rare_ppb; /* world_spec.rare_ppb */
    struct scenario_management management;
    struct scenario_host *hosts; /* [n_hosts], in file order */
    uint32_t n_hosts;
    struct scenario_switch *switches; /* [n_switches] */
    uint32_t n_switches;
    struct scenario_link *links; /* [n_links], in file order */
    uint32_t n_links;
    struct scenario_rank *ranks; /* [n_ranks] */
    uint32_t n_ranks;
    struct scenario_job *jobs; /* [n_jobs] */
    uint32_t n_jobs;
    struct scenario_fault *faults; /* [n_faults], in file order */
    uint32_t n_faults;
    struct scenario_expect expect;
    struct scenario_arena *arena; /* Owned: everything above lives in it */
};

/* Reads `path` into `*text` (empty; the caller's), applies `sets` in order, checks
 * everything. `text` keeps the file as it was read, for one that can be read but once (a
 * pipe). On WEFT_OK `*out` is the caller's (scenario_free) and `diag` is empty.
 * WEFT_ERR_INPUT: `*out` is NULL and `diag` says what is wrong, all of it as far as it can
 * be told. `diag` is always initialised and the caller's. */
weft_status scenario_load_file(const char *path, const struct scenario_set *sets,
                               size_t n_sets, struct weft_text *text,
                               struct scenario **out, struct scenario_diagnostics *diag);

/* The same for text in memory; `name` stands for the file in messages. */
weft_status scenario_load_text(const char *name, const void *text, size_t n_bytes,
                               const struct scenario_set *sets, size_t n_sets,
                               struct scenario **out, struct scenario_diagnostics *diag);

/* Reads the topology documents that hosts name, as scenario_load_file does; their XML is not
 * looked at. WEFT_ERR_INPUT as above; the scenario stays the caller's. */
weft_status scenario_read_topologies(struct scenario *scenario,
                                     struct scenario_diagnostics *diag);

/* Whether the jobs are programs that are not ours; jobs are all of one sort. */
bool scenario_has_programs(const struct scenario *scenario);
/* The rows of all jobs, as the result table has them: one for each size. */
uint64_t scenario_n_rows(const struct scenario *scenario);
/* "at 3ms", "at jobs+1ms", "at row 3", "at titanic sent 10MiB". Returns `out`. */
#define SCENARIO_MOMENT_BYTES 144
char *scenario_moment_text(const struct scenario *scenario,
                           const struct world_fault *fault, char *out, size_t out_bytes);

/* NULL is ignored. */
void scenario_free(struct scenario *scenario);

/* "titanic.yaml:12:5: " + the message, or "--set PATH: " + it: for what is found out
 * later. Returns `out`, always terminated. */
char *scenario_where(const struct scenario *scenario, struct scenario_mark mark,
                     char *out, size_t out_bytes);

/* A world as the backends want it; owns all that `spec` points to. Does not need the
 * scenario any more. spec.trace and spec.log are NULL, for the caller to set. */
struct scenario_world {
    struct world_spec spec;
    struct scenario_rank *ranks; /* [n_ranks] */
    uint32_t n_ranks;
    struct scenario_arena *arena; /* Owned. */
};

weft_status scenario_to_world(const struct scenario *scenario,
                              struct scenario_world **out);
/* Replaces the hosts of the world by these [spec.n_hosts], which are copied. */
void scenario_world_hosts(struct scenario_world *world, const struct world_host *hosts);
void scenario_world_free(struct scenario_world *world);

/* True, and the key (static or owned by the scenario), if the scenario uses something
 * that no backend of this build can run yet: "topology.switches", "jobs.0.broadcast". */
bool scenario_not_implemented(const struct scenario *scenario, const char **out_key);

#endif
