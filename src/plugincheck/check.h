/* plugin-check: drives a net plugin as NCCL does and names the clause of the contract that it
 * breaks. For each version of the interface, every part of the check opens the shared object in
 * a new process: ranks as pairs of threads of one process, ranks as processes, then random
 * calls. docs/plugin-reference.md, "plugin-check". */
#ifndef WEFT_PLUGINCHECK_CHECK_H
#define WEFT_PLUGINCHECK_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PLUGIN_CHECK_VERSION_MIN 8
#define PLUGIN_CHECK_VERSION_MAX 12
#define PLUGIN_CHECK_RANKS_MAX 4

/* A requirement that NCCL has. */
struct plugin_clause {
    const char *id;     /* such as "connect.blocks" */
    const char *text;   /* what the plugin must do */
    const char *source; /* the code in NCCL that requires it */
};
/* Returns the clauses in the order of their ids; NULL past the last. */
const struct plugin_clause *plugin_clause_at(unsigned index);
/* Returns NULL if there is no such clause. */
const struct plugin_clause *plugin_clause_find(const char *id);

struct plugin_check_options {
    const char *path;  /* path of the shared object, by the rules of dlopen(3) */
    uint32_t versions; /* bit v: check version v; 0: all that the object has */
    /* If n_mixed > 0, rank i is a process that uses version mixed[i % n_mixed]; then only the
     * parts "load" and "processes" run. Otherwise each version is checked alone. */
    unsigned mixed[PLUGIN_CHECK_RANKS_MAX];
    uint32_t n_mixed;
    uint32_t n_ranks;     /* 2 to PLUGIN_CHECK_RANKS_MAX */
    uint32_t n_messages;  /* per connection and communicator */
    uint32_t n_sequences; /* number of random sequences of calls for each version */
    uint64_t seed;
    /* [n_ranks] Rank i enters the network namespace of this file, such as /proc/PID/ns/net;
     * ranks are then only processes. All NULL: the caller's namespace. */
    const char *namespaces[PLUGIN_CHECK_RANKS_MAX];
    /* value for NCCL_MESH_BACKEND, which "sim" runs in one process; NULL: keep the environment's */
    const char *backend;
    int patience_ms; /* maximum time of a call; half the maximum time without progress */
    FILE *progress;  /* gets a line for each part; NULL: none */
};
/* Sets the defaults; `path` is NULL and `versions` is 0. */
void plugin_check_options_default(struct plugin_check_options *options);

struct plugin_check_result {
    bool is_broken;
    bool is_missing;    /* it cannot be opened, or has no version to check */
    bool is_undecided;  /* the check lacked something itself, named by `detail` */
    int first_init;     /* status of the first init if that failed; 0 otherwise */
    const char *clause; /* id of the first clause that it broke; NULL if none */
    unsigned version;   /* version at which the check ended early; 0 if at none */
    char part[16];      /* "load", "threads", "processes", "random" */
    char detail[400];   /* what was observed, or was lacking */
    uint32_t versions;  /* bit v: version v passed */
    uint64_t n_messages, n_calls; /* delivered and compared; made */
};
/* Returns true if every requested version keeps the contract. Starts processes and waits for
 * them. */
bool plugin_check(const struct plugin_check_options *options,
                  struct plugin_check_result *out);

#endif
