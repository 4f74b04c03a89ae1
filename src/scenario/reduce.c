#include "scenario/reduce.h"

#include <string.h>

#include "base/check.h"
#include "base/units.h"
#include "scenario/arena.h"
#include "scenario/sections.h"
#include "scenario/tree.h"

/* Counts reductions down to the requested one. Nodes are copied before a change, because
 * aliases can share them. */
struct reducing {
    struct scenario_arena *arena;
    uint32_t left;          /* reductions to skip */
    struct tree_node *root; /* the result; NULL before */
};

static struct tree_node *copy_of(struct reducing *reducing, const struct tree_node *node)
{
    struct scenario_arena *arena = reducing->arena;
    struct tree_node *copy = arena_dup(arena, node, 1, sizeof(*node));

    if (node->kind == TREE_LIST) {
        copy->items = arena_dup(arena, node->items, node->n, sizeof(node->items[0]));
    } else if (node->kind == TREE_MAP) {
        copy->pairs =
            arena_grow(arena, node->pairs, node->n, node->n + 1, sizeof(node->pairs[0]));
    }
    return copy;
}

/* Returns a copy of the list or map without its `index`th element. */
static struct tree_node *without(struct reducing *reducing, const struct tree_node *node,
                                 uint32_t index)
{
    struct tree_node *copy = copy_of(reducing, node);
    uint32_t n_after = node->n - index - 1;

    if (node->kind == TREE_LIST) {
        memmove(&copy->items[index], &copy->items[index + 1],
                n_after * sizeof(copy->items[0]));
    } else {
        memmove(&copy->pairs[index], &copy->pairs[index + 1],
                n_after * sizeof(copy->pairs[0]));
    }
    copy->n--;
    return copy;
}

/* Returns a copy of the map with `key` set to `value`, or removed if `value` is NULL. */
static struct tree_node *with(struct reducing *reducing, const struct tree_node *map,
                              const char *key, struct tree_node *value)
{
    struct tree_node *copy, *name;

    for (uint32_t i = 0; i < map->n; i++) {
        if (strcmp(map->pairs[i].key->text, key) != 0) {
            continue;
        }
        if (value == NULL) {
            return without(reducing, map, i);
        }
        copy = copy_of(reducing, map);
        copy->pairs[i].value = value;
        return copy;
    }
    copy = copy_of(reducing, map);
    name = arena_calloc(reducing->arena, 1, sizeof(*name));
    name->text = key;
    copy->pairs[copy->n++] = (struct tree_pair){name, value};
    return copy;
}

static struct tree_node *number(struct reducing *reducing, uint64_t value)
{
    struct tree_node *node = arena_calloc(reducing->arena, 1, sizeof(*node));
    char text[24];

    weft_format(text, sizeof(text), "%llu", (unsigned long long)value);
    node->text = arena_strdup(reducing->arena, text);
    return node;
}

/* Returns true once, for the requested reduction. */
static bool is_it(struct reducing *reducing)
{
    return reducing->left-- == 0;
}

static bool is_list(const struct tree_node *node)
{
    return node != NULL && node->kind == TREE_LIST;
}

/* Removes one element of the list `key`, which keeps at least `n_least`. */
static bool reduce_list(struct reducing *reducing, const struct tree_node *root,
                        const char *key, uint32_t n_least)
{
    const struct tree_node *list = tree_get(root, key);

    for (uint32_t i = 0; is_list(list) && list->n > n_least && i < list->n; i++) {
        if (is_it(reducing)) {
            struct tree_node *rest = without(reducing, list, i);

            reducing->root = with(reducing, root, key, rest->n > 0 ? rest : NULL);
            return true;
        }
    }
    return false;
}

/* Returns true if `end` is "host:port" or the host itself. */
static bool is_at(const char *end, const char *host)
{
    size_t n = strlen(host);

    return strncmp(end, host, n) == 0 && (end[n] == ':' || end[n] == '\0');
}

static bool touches(const struct tree_node *link, const char *host)
{
    const struct tree_node *ends = tree_get(link, "endpoints");

    for (uint32_t i = 0; is_list(ends) && i < ends->n; i++) {
        if (ends->items[i]->kind == TREE_SCALAR && is_at(ends->items[i]->text, host)) {
            return true;
        }
    }
    return false;
}

/* Returns `list` without the elements that name `host`: cables by an end, ranks by name. */
static struct tree_node *without_host(struct reducing *reducing, struct tree_node *list,
                                      const char *host)
{
    for (uint32_t i = list->n; i > 0; i--) {
        const struct tree_node *item = list->items[i - 1];

        if (item->kind == TREE_SCALAR ? is_at(item->text, host) : touches(item, host)) {
            list = without(reducing, list, i - 1);
        }
    }
    return list;
}

/* Removes one host with its cables and ranks. */
static bool reduce_hosts(struct reducing *reducing, const struct tree_node *root)
{
    const struct tree_node *topology = tree_get(root, "topology");
    const struct tree_node *nodes = tree_get(topology, "nodes");

    for (uint32_t i = 0; nodes != NULL && nodes->kind == TREE_MAP && i < nodes->n; i++) {
        struct tree_node *links = tree_get(topology, "links");
        struct tree_node *ranks = tree_get(root, "ranks");
        const char *host = nodes->pairs[i].key->text;
        struct tree_node *rest;

        if (!is_it(reducing)) {
            continue;
        }
        rest = with(reducing, topology, "nodes", without(reducing, nodes, i));
        if (is_list(links)) {
            rest = with(reducing, rest, "links", without_host(reducing, links, host));
        }
        reducing->root = with(reducing, root, "topology", rest);
        if (is_list(ranks)) {
            reducing->root = with(reducing, reducing->root, "ranks",
                                  without_host(reducing, ranks, host));
        }
        return true;
    }
    return false;
}

static bool reduce_links(struct reducing *reducing, const struct tree_node *root)
{
    const struct tree_node *topology = tree_get(root, "topology");

    if (topology == NULL || !reduce_list(reducing, topology, "links", 0)) {
        return false;
    }
    reducing->root = with(reducing, root, "topology", reducing->root);
    return true;
}

/* Replaces the body of the `index`th job, which is a map of one key. */
static bool replace_job(struct reducing *reducing, const struct tree_node *root,
                        uint32_t index, struct tree_node *body)
{
    struct tree_node *jobs = copy_of(reducing, tree_get(root, "jobs"));

    jobs->items[index] = copy_of(reducing, jobs->items[index]);
    jobs->items[index]->pairs[0].value = body;
    reducing->root = with(reducing, root, "jobs", jobs);
    return true;
}

/* Returns the map of a job's settings, or NULL. */
static const struct tree_node *body_of(const struct tree_node *job)
{
    bool is_job = job->kind == TREE_MAP && job->n == 1;

    return is_job && job->pairs[0].value->kind == TREE_MAP ? job->pairs[0].value : NULL;
}

/* Returns the number of rows of the first `n_jobs` jobs. */
static uint64_t count_rows(const struct tree_node *jobs, uint32_t n_jobs)
{
    uint64_t n = 0;

    for (uint32_t i = 0; is_list(jobs) && i < n_jobs; i++) {
        const struct tree_node *bytes = tree_get(body_of(jobs->items[i]), "bytes");

        n += is_list(bytes) ? bytes->n : 1;
    }
    return n;
}

/* Returns the fault with `at: row N` changed so that it names the same row after the `n_gone`
 * rows behind the first `n_before` of `n_rows` are removed. If its row is removed, it names
 * the one that takes its place, or the last. */
static struct tree_node *moved_fault(struct reducing *reducing, struct tree_node *fault,
                                     uint64_t n_before, uint64_t n_gone, uint64_t n_rows)
{
    const struct tree_node *at = tree_get(fault, "at");
    struct tree_node *moved;
    const char *rest;
    char text[64];
    uint64_t row;

    if (at == NULL || at->kind != TREE_SCALAR ||
        !fault_moment_row(at->text, &row, &rest) || row <= n_before) {
        return fault;
    }
    row = row > n_before + n_gone ? row - n_gone : n_before + 1;
    row = row < n_rows - n_gone ? row : n_rows - n_gone;
    moved = arena_calloc(reducing->arena, 1, sizeof(*moved));
    weft_format(text, sizeof(text), "row %llu%.40s", (unsigned long long)row, rest);
    moved->text = arena_strdup(reducing->arena, text);
    return with(reducing, fault, "at", moved);
}

/* Adjusts the faults of the reduced tree so that they name the same rows. `jobs` is the list
 * before the reduction. */
static void drop_rows(struct reducing *reducing, const struct tree_node *jobs,
                      uint64_t n_before, uint64_t n_gone)
{
    const struct tree_node *faults = tree_get(reducing->root, "faults");
    uint64_t n_rows = count_rows(jobs, jobs->n);
    struct tree_node *copy;

    if (!is_list(faults)) {
        return;
    }
    copy = copy_of(reducing, faults);
    for (uint32_t i = 0; i < copy->n; i++) {
        copy->items[i] = moved_fault(reducing, copy->items[i], n_before, n_gone, n_rows);
    }
    reducing->root = with(reducing, reducing->root, "faults", copy);
}

static bool reduce_jobs(struct reducing *reducing, const struct tree_node *root)
{
    const struct tree_node *jobs = tree_get(root, "jobs");

    for (uint32_t i = 0; is_list(jobs) && jobs->n > 1 && i < jobs->n; i++) {
        if (is_it(reducing)) {
            uint64_t n_before = count_rows(jobs, i);

            reducing->root = with(reducing, root, "jobs", without(reducing, jobs, i));
            drop_rows(reducing, jobs, n_before, count_rows(jobs, i + 1) - n_before);
            return true;
        }
    }
    return false;
}

static bool reduce_sizes(struct reducing *reducing, const struct tree_node *root)
{
    const struct tree_node *jobs = tree_get(root, "jobs");

    for (uint32_t i = 0; is_list(jobs) && i < jobs->n; i++) {
        const struct tree_node *body = body_of(jobs->items[i]);
        const struct tree_node *bytes = tree_get(body, "bytes");

        for (uint32_t k = 0; is_list(bytes) && bytes->n > 1 && k < bytes->n; k++) {
            if (is_it(reducing)) {
                struct tree_node *rest = without(reducing, bytes, k);

                replace_job(reducing, root, i, with(reducing, body, "bytes", rest));
                drop_rows(reducing, jobs, count_rows(jobs, i) + k, 1);
                return true;
            }
        }
    }
    return false;
}

static bool reduce_repeats(struct reducing *reducing, const struct tree_node *root)
{
    const struct tree_node *jobs = tree_get(root, "jobs");

    for (uint32_t i = 0; is_list(jobs) && i < jobs->n; i++) {
        const struct tree_node *body = body_of(jobs->items[i]);

        if (tree_get(body, "repeat") != NULL && is_it(reducing)) {
            return replace_job(reducing, root, i, with(reducing, body, "repeat", NULL));
        }
    }
    return false;
}

/* Returns half of a size, at least one byte; NULL if it cannot be halved or is not the
 * requested reduction. */
static struct tree_node *half(struct reducing *reducing, const struct tree_node *node)
{
    uint64_t bytes = 0;
    bool is_size = node->kind == TREE_SCALAR && weft_parse_size_bytes(node->text, &bytes);

    return is_size && bytes > 1 && is_it(reducing) ? number(reducing, bytes / 2) : NULL;
}

static bool halve_sizes(struct reducing *reducing, const struct tree_node *root)
{
    const struct tree_node *jobs = tree_get(root, "jobs");

    for (uint32_t i = 0; is_list(jobs) && i < jobs->n; i++) {
        const struct tree_node *body = body_of(jobs->items[i]);
        const struct tree_node *bytes = tree_get(body, "bytes");
        struct tree_node *less = NULL;

        if (bytes != NULL && bytes->kind == TREE_SCALAR) {
            less = half(reducing, bytes);
        } else if (is_list(bytes) && bytes->n == 1) {
            less = half(reducing, bytes->items[0]);
        }
        if (less != NULL) {
            return replace_job(reducing, root, i, with(reducing, body, "bytes", less));
        }
    }
    return false;
}

/* Returns NULL if the text is not a YAML map. */
static struct tree_node *parse(struct loader *loader, const char *text, size_t n_bytes)
{
    struct tree_node *root = tree_parse(loader, text, n_bytes, 0);
    bool is_map = loader->diag->n == 0 && root != NULL && root->kind == TREE_MAP;

    return is_map ? root : NULL;
}

bool scenario_reduce(const char *text, size_t n_bytes, uint32_t index,
                     struct weft_text *out)
{
    struct reducing reducing = {.arena = arena_create(), .left = index};
    struct scenario_diagnostics diagnostics = {0};
    struct loader loader = {.file = "", .arena = reducing.arena, .diag = &diagnostics};
    const struct tree_node *root = parse(&loader, text, n_bytes);
    bool is_reduced =
        root != NULL && (reduce_list(&reducing, root, "faults", 0) ||
                         reduce_hosts(&reducing, root) || reduce_links(&reducing, root) ||
                         reduce_jobs(&reducing, root) || reduce_sizes(&reducing, root) ||
                         reduce_repeats(&reducing, root) || halve_sizes(&reducing, root));

    if (is_reduced) {
        tree_emit(reducing.root, out);
    }
    scenario_diagnostics_fini(&diagnostics);
    arena_destroy(reducing.arena);
    return is_reduced;
}

bool scenario_flatten(const char *text, size_t n_bytes, const struct scenario_set *sets,
                      size_t n_sets, uint64_t seed, struct weft_text *out)
{
    struct reducing reducing = {.arena = arena_create()};
    struct scenario_diagnostics diagnostics = {0};
    struct loader loader = {.file = "",
                            .sets = sets,
                            .n_sets = n_sets,
                            .arena = reducing.arena,
                            .diag = &diagnostics};
    struct tree_node *root = parse(&loader, text, n_bytes);

    for (size_t i = 0; root != NULL && i < n_sets; i++) {
        root = set_apply(&loader, root, (uint32_t)i + 1);
    }
    if (root != NULL) {
        tree_emit(with(&reducing, root, "seed", number(&reducing, seed)), out);
    }
    scenario_diagnostics_fini(&diagnostics);
    arena_destroy(reducing.arena);
    return root != NULL;
}
