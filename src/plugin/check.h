/* Drives a net plugin as NCCL does and names the clause of the contract that it breaks: one
 * process per version of the interface, in which the shared object is opened; ranks that are
 * pairs of threads of it, then ranks that are processes. docs/plugin.md, "plugin-check". */
#ifndef WEFT_PLUGIN_CHECK_H
#define WEFT_PLUGIN_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PLUGIN_CHECK_VERSION_MIN 8
#define PLUGIN_CHECK_VERSION_MAX 12
#define PLUGIN_CHECK_RANKS_MAX 4

/* One thing that NCCL relies on. */
struct plugin_clause {
    const char *id;     /* "connect.blocks" */
    const char *text;   /* what a plugin must do */
    const char *source; /* why: who in NCCL relies on it */
};
/* All, by id; NULL past the last. */
const struct plugin_clause *plugin_clause_at(unsigned index);
const struct plugin_clause *plugin_clause_find(const char *id);

struct plugin_check_options {
    const char *path;  /* of the shared object; dlopen(3)'s rules */
    uint32_t versions; /* bit v: version v, if it has it; 0: all that it has */
    /* Rank i is a process with this version of the interface, by turns; nothing else is done then.
     * [n_mixed]; n_mixed 0: every version by itself. */
    unsigned mixed[PLUGIN_CHECK_RANKS_MAX];
    uint32_t n_mixed;
    uint32_t n_ranks;     /* 2..PLUGIN_CHECK_RANKS_MAX */
    uint32_t n_messages;  /* per connection and communicator */
    uint32_t n_sequences; /* of random calls, with each version */
    uint64_t seed;
    /* Rank i lives in the network namespace of this file, as under /proc/PID/ns/net; then ranks are
     * processes only. [n_ranks], or all NULL: where the caller is. */
    const char *namespaces[PLUGIN_CHECK_RANKS_MAX];
    const char *backend; /* "sim": all in one process; NULL: as the environment says */
    int patience_ms;     /* longest call, and longest time in which nothing moves */
    FILE *progress;      /* a line per part; NULL: none */
};
void plugin_check_options_default(struct plugin_check_options *options);

struct plugin_check_result {
    bool is_broken;
    bool is_missing;    /* it could not be opened, or has no version to be checked */
    int first_init;     /* status with which the first init failed, or 0 */
    const char *clause; /* id of what it broke first */
    unsigned version;   /* with which interface, or 0 */
    char part[16];      /* "load", "threads", "processes", "random" */
    char detail[400];   /* what was seen */
    uint32_t versions;  /* bit v: passed */
    uint64_t n_messages, n_calls; /* delivered and compared; made */
};
/* True: every version asked for keeps the contract. */
bool plugin_check(const struct plugin_check_options *options,
                  struct plugin_check_result *out);

#endif
