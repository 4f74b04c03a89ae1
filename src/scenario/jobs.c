#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "scenario/arena.h"
#include "scenario/names.h"
#include "scenario/sections.h"

#define JOBS_MAX 4096u
#define SIZES_MAX 4096u
#define JOB_BYTES_MAX (UINT64_C(64) << 30)

enum {
    KEY_BYTES,
    KEY_DTYPE,
    KEY_OP,
    KEY_ROOT,
    KEY_REPEAT,
    KEY_ALGORITHM,
    KEY_IN_PLACE,
    N_KEYS
};

#define FIELD(member) .offset = offsetof(struct scenario_job, member)
static const struct walk_key job_keys[N_KEYS] = {
    [KEY_BYTES] = {.name = "bytes"},
    [KEY_DTYPE] = {.name = "dtype"},
    [KEY_OP] = {.name = "op"},
    [KEY_ROOT] = {.name = "root"},
    [KEY_REPEAT] =
        {.name = "repeat", .type = WALK_U32, FIELD(repeat), .min = 1, .max = 1000000},
    [KEY_ALGORITHM] = {.name = "algorithm",
                       .type = WALK_CHOICE,
                       FIELD(algorithm),
                       .choices = weft_algorithm_names,
                       .n_choices = WEFT_N_ALGORITHMS},
    [KEY_IN_PLACE] = {.name = "in_place", .type = WALK_BOOL, FIELD(in_place)},
};
static const struct walk_table job_table = {"a job", job_keys, N_KEYS};

/* The kinds of jobs: the collectives, and exec. */
#define N_JOBS (WEFT_N_COLLECTIVES + 1)

#define HAS(key) (1u << (key))
#define ANY (HAS(KEY_BYTES) | HAS(KEY_DTYPE) | HAS(KEY_REPEAT) | HAS(KEY_ALGORITHM))

/* Keys that each kind of job accepts. */
static const unsigned keys_of_jobs[WEFT_N_COLLECTIVES] = {
    [WEFT_ALL_REDUCE] = ANY | HAS(KEY_OP) | HAS(KEY_IN_PLACE),
    [WEFT_REDUCE_SCATTER] = ANY | HAS(KEY_OP) | HAS(KEY_IN_PLACE),
    [WEFT_ALL_GATHER] = ANY | HAS(KEY_IN_PLACE),
    [WEFT_BROADCAST] = ANY | HAS(KEY_ROOT) | HAS(KEY_IN_PLACE),
    [WEFT_REDUCE] = ANY | HAS(KEY_OP) | HAS(KEY_ROOT) | HAS(KEY_IN_PLACE),
    [WEFT_ALL_TO_ALL] = ANY,
    [WEFT_SEND_RECV] = ANY,
    [WEFT_BARRIER] = HAS(KEY_REPEAT),
};

static void read_bytes(struct loader *loader, const struct tree_node *node,
                       struct scenario_job *job)
{
    if (node->kind != TREE_LIST) {
        job->bytes = arena_calloc(loader->arena, 1, sizeof(job->bytes[0]));
        job->n_bytes = 1;
        read_size(loader, node, "bytes", 0, JOB_BYTES_MAX, &job->bytes[0]);
        return;
    }
    if (!read_list(loader, node, "bytes", 1, SIZES_MAX)) {
        return;
    }
    job->bytes = arena_calloc(loader->arena, node->n, sizeof(job->bytes[0]));
    job->n_bytes = node->n;
    for (uint32_t i = 0; i < node->n; i++) {
        read_size(loader, node->items[i], "bytes", 0, JOB_BYTES_MAX, &job->bytes[i]);
    }
}

static void read_dtype(struct loader *loader, const struct tree_node *node,
                       struct scenario_job *job)
{
    const char *names[WEFT_N_DTYPES];
    unsigned choice;
    for (unsigned i = 0; i < WEFT_N_DTYPES; i++) {
        names[i] = weft_dtype_name((enum weft_dtype)i);
    }
    if (read_choice(loader, node, "dtype", names, WEFT_N_DTYPES, &choice)) {
        job->dtype = (enum weft_dtype)choice;
    }
}

static void read_op(struct loader *loader, const struct tree_node *node,
                    struct scenario_job *job)
{
    const char *names[WEFT_N_REDOPS];
    unsigned choice;
    for (unsigned i = 0; i < WEFT_N_REDOPS; i++) {
        names[i] = weft_redop_name((enum weft_redop)i);
    }
    if (read_choice(loader, node, "op", names, WEFT_N_REDOPS, &choice)) {
        job->op = (enum weft_redop)choice;
    }
}

static void read_root(struct loader *loader, const struct tree_node *node,
                      struct scenario_job *job)
{
    uint32_t n_ranks = loader->scenario->n_ranks;
    uint32_t root;
    if (read_u32(loader, node, "root", 0, UINT32_MAX, &root)) {
        if (root >= n_ranks && n_ranks > 0) {
            complain(loader, node->mark, "root: there is no rank %u, ranks are 0..%u",
                     root, n_ranks - 1);
        }
        job->root = root;
    }
}

static void refuse_algorithm(struct loader *loader, const struct tree_node *node,
                             const struct scenario_job *job)
{
    struct weft_text list = {0};
    if (weft_collective_has(job->kind, job->algorithm)) {
        return;
    }
    for (unsigned i = 0; i < WEFT_N_ALGORITHMS; i++) {
        if (weft_collective_has(job->kind, (enum weft_algorithm)i)) {
            weft_text_add(&list, " %s", weft_algorithm_names[i]);
        }
    }
    complain(loader, node->mark, "algorithm: %s has no '%s', only%s",
             weft_collective_name(job->kind), weft_algorithm_names[job->algorithm],
             list.bytes);
    weft_text_fini(&list);
}

/* Sets the names of all kinds of jobs; exec is the last. */
static void job_kinds(const char *out[N_JOBS])
{
    for (unsigned i = 0; i < WEFT_N_COLLECTIVES; i++) {
        out[i] = weft_collective_names[i];
    }
    out[WEFT_N_COLLECTIVES] = "exec";
}

const char *scenario_job_name(const struct scenario_job *job)
{
    return job->is_exec ? "exec" : weft_collective_name(job->kind);
}

static void refuse_keys(struct loader *loader, const struct tree_node *node,
                        enum weft_collective kind)
{
    for (uint32_t i = 0; i < node->n; i++) {
        const struct tree_node *key = node->pairs[i].key;
        for (unsigned k = 0; k < N_KEYS; k++) {
            if (strcmp(job_keys[k].name, key->text) == 0 &&
                (keys_of_jobs[kind] & HAS(k)) == 0) {
                complain(loader, key->mark, "%s takes no '%s'",
                         weft_collective_name(kind), key->text);
            }
        }
    }
}

static void read_body(struct loader *loader, const struct tree_node *node,
                      struct scenario_job *job)
{
    struct walk_seen seen;
    bool is_barrier = job->kind == WEFT_BARRIER;
    if (is_barrier) {
        job->bytes = arena_calloc(loader->arena, 1, sizeof(job->bytes[0]));
        job->n_bytes = 1;
        if (node->kind == TREE_SCALAR && tree_scalar_kind(node) == TREE_NULL) {
            return;
        }
    }
    if (!walk_map(loader, node, &job_table, &seen, job)) {
        return;
    }
    refuse_keys(loader, node, job->kind);
    if (seen.at[KEY_BYTES] != NULL && !is_barrier) {
        read_bytes(loader, seen.at[KEY_BYTES], job);
    } else if (!is_barrier) {
        complain(loader, job->mark, "%s: 'bytes' is missing",
                 weft_collective_name(job->kind));
    }
    if (seen.at[KEY_ALGORITHM] != NULL) {
        refuse_algorithm(loader, seen.at[KEY_ALGORITHM], job);
    }
    if (seen.at[KEY_DTYPE] != NULL) {
        read_dtype(loader, seen.at[KEY_DTYPE], job);
    }
    if (seen.at[KEY_OP] != NULL) {
        read_op(loader, seen.at[KEY_OP], job);
    }
    if (seen.at[KEY_ROOT] != NULL) {
        read_root(loader, seen.at[KEY_ROOT], job);
    }
}

/* Programs have a single row, like a barrier. */
static void read_exec(const struct topology *topology, const struct tree_node *node,
                      struct scenario_job *job)
{
    struct loader *loader = topology->loader;

    job->bytes = arena_calloc(loader->arena, 1, sizeof(job->bytes[0]));
    job->n_bytes = 1;
    job->exec = programs_read(topology, node, job->mark);
}

static void read_job(const struct topology *topology, const struct tree_node *node,
                     struct scenario_job *job)
{
    struct loader *loader = topology->loader;
    char quoted[DIAGNOSE_QUOTE_BYTES], hint[96];
    *job = (struct scenario_job){
        .dtype = WEFT_FLOAT32, .op = WEFT_SUM, .repeat = 1, .mark = node->mark};
    if (!read_map(loader, node, "a job")) {
        return;
    }
    if (node->n != 1) {
        complain(
            loader, node->mark,
            "a job must have exactly one key, its kind (such as all_reduce), got %u; "
            "start a new list item for each job",
            node->n);
        return;
    }
    const struct tree_node *key = node->pairs[0].key;
    const char *kinds[N_JOBS];

    job_kinds(kinds);
    for (unsigned i = 0; i < N_JOBS; i++) {
        if (strcmp(key->text, kinds[i]) == 0) {
            job->mark = key->mark;
            job->is_exec = i == WEFT_N_COLLECTIVES;
            if (job->is_exec) {
                read_exec(topology, node->pairs[0].value, job);
            } else {
                job->kind = (enum weft_collective)i;
                read_body(loader, node->pairs[0].value, job);
            }
            return;
        }
    }
    complain(loader, key->mark, "unknown job '%s'%s", diagnose_quote(key->text, quoted),
             diagnose_hint(key->text, kinds, N_JOBS, hint, sizeof(hint)));
}

/* Rejects a mix of both sorts of jobs: Weft's processes run collectives on any backend, but
 * programs run on one only. */
static void refuse_mixture(struct loader *loader)
{
    const struct scenario *s = loader->scenario;

    for (uint32_t i = 1; i < s->n_jobs; i++) {
        if (s->jobs[i].is_exec != s->jobs[0].is_exec) {
            complain(
                loader, s->jobs[i].mark,
                "%s: a scenario has either programs (exec) or collectives, and job 0 "
                "is %s; write two files",
                scenario_job_name(&s->jobs[i]), scenario_job_name(&s->jobs[0]));
            return;
        }
    }
}

bool scenario_has_programs(const struct scenario *scenario)
{
    return scenario->n_jobs > 0 && scenario->jobs[0].is_exec;
}

void jobs_read(const struct topology *topology, const struct tree_node *node)
{
    struct loader *loader = topology->loader;
    struct scenario *s = loader->scenario;
    if (node == NULL || !read_list(loader, node, "jobs", 0, JOBS_MAX)) {
        return;
    }
    s->jobs = arena_calloc(loader->arena, node->n, sizeof(s->jobs[0]));
    s->n_jobs = node->n;
    for (uint32_t i = 0; i < node->n; i++) {
        read_job(topology, node->items[i], &s->jobs[i]);
    }
    refuse_mixture(loader);
}
