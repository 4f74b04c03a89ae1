#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenario/arena.h"
#include "scenario/sections.h"

#define HINT_KEYS_MAX 256u

/* State of applying one --set. `path` is the rest of the dotted path at a node. */
struct setting {
    struct loader *loader;
    const struct tree_node *root; /* tree before the change */
    struct scenario_mark mark;
    struct tree_node *value;
};

/* Returns the index of the pair whose key is the longest prefix of `path` that ends at a dot
 * or at its end, because keys can contain dots (c0.1). Returns UINT32_MAX if there is none. */
static uint32_t find_pair(const struct tree_node *map, const char *path, size_t *out_n)
{
    uint32_t best = UINT32_MAX;
    *out_n = 0;
    for (uint32_t i = 0; i < map->n; i++) {
        const char *key = map->pairs[i].key->text;
        size_t n = strlen(key);
        bool is_head = strncmp(path, key, n) == 0 && (path[n] == '.' || path[n] == '\0');
        if (is_head && (best == UINT32_MAX || n > *out_n)) {
            best = i;
            *out_n = n;
        }
    }
    return best;
}

/* Returns a copy to change, because aliases can share nodes of a document. */
static struct tree_node *copy_of(struct loader *loader, const struct tree_node *node,
                                 uint32_t n_more)
{
    struct tree_node *copy = arena_dup(loader->arena, node, 1, sizeof(*node));
    if (node->kind == TREE_LIST) {
        copy->items =
            arena_dup(loader->arena, node->items, node->n, sizeof(node->items[0]));
    } else if (node->kind == TREE_MAP) {
        copy->pairs = arena_grow(loader->arena, node->pairs, node->n, node->n + n_more,
                                 sizeof(node->pairs[0]));
    }
    return copy;
}

static struct tree_node *set_in(struct setting *setting, struct tree_node *node,
                                const char *path);

static struct tree_node *set_in_list(struct setting *setting, struct tree_node *list,
                                     const char *path)
{
    char quoted[DIAGNOSE_QUOTE_BYTES];
    size_t n = strcspn(path, ".");
    bool is_index = n > 0 && n < 7 && strspn(path, "0123456789") == n;
    unsigned long index = is_index ? strtoul(path, NULL, 10) : list->n;
    if (!is_index || index >= list->n) {
        complain(setting->loader, setting->mark,
                 "no element '%s': the list has %u, counted from 0",
                 diagnose_quote(arena_copy(setting->loader->arena, path, n), quoted),
                 list->n);
        return NULL;
    }
    struct tree_node *value = list->items[index];
    value = path[n] == '\0' ? setting->value : set_in(setting, value, path + n + 1);
    if (value == NULL) {
        return NULL;
    }
    struct tree_node *copy = copy_of(setting->loader, list, 0);
    copy->items[index] = value;
    return copy;
}

/* Returns true for maps whose keys are names of the user, in which a new key is a typing
 * error. */
static bool has_own_names(const struct tree_node *root, const struct tree_node *map)
{
    const struct tree_node *topology = tree_get(root, "topology");
    return map == tree_get(topology, "nodes") || map == tree_get(topology, "switches");
}

/* Sets a path that begins with a key that `map` does not have. */
static struct tree_node *set_new(struct setting *setting, struct tree_node *map,
                                 const char *path)
{
    struct loader *loader = setting->loader;
    size_t n = strcspn(path, ".");
    char *key = arena_copy(loader->arena, path, n);
    const char *names[HINT_KEYS_MAX];
    char quoted[DIAGNOSE_QUOTE_BYTES], hint[128];
    uint32_t n_names = map->n < HINT_KEYS_MAX ? map->n : HINT_KEYS_MAX;
    if (n == 0 || has_own_names(setting->root, map)) {
        for (uint32_t i = 0; i < n_names; i++) {
            names[i] = map->pairs[i].key->text;
        }
        complain(loader, setting->mark, "no such path: there is no '%s'%s",
                 diagnose_quote(key, quoted),
                 diagnose_hint(key, names, n_names, hint, sizeof(hint)));
        return NULL;
    }
    struct tree_node *value = setting->value;
    if (path[n] != '\0') {
        struct tree_node *empty = arena_calloc(loader->arena, 1, sizeof(*empty));
        empty->kind = TREE_MAP;
        empty->mark = setting->mark;
        value = set_in(setting, empty, path + n + 1);
        if (value == NULL) {
            return NULL;
        }
    }
    struct tree_node *name = arena_calloc(loader->arena, 1, sizeof(*name));
    name->mark = setting->mark;
    name->text = key;
    struct tree_node *copy = copy_of(loader, map, 1);
    copy->pairs[copy->n++] = (struct tree_pair){name, value};
    return copy;
}

static struct tree_node *set_in_map(struct setting *setting, struct tree_node *map,
                                    const char *path)
{
    size_t n;
    uint32_t index = find_pair(map, path, &n);
    if (index == UINT32_MAX) {
        return set_new(setting, map, path);
    }
    struct tree_node *value = map->pairs[index].value;
    value = path[n] == '\0' ? setting->value : set_in(setting, value, path + n + 1);
    if (value == NULL) {
        return NULL;
    }
    struct tree_node *copy = copy_of(setting->loader, map, 0);
    copy->pairs[index].value = value;
    return copy;
}

/* Returns the node with `path` below it set, or NULL after a complaint. */
static struct tree_node *set_in(struct setting *setting, struct tree_node *node,
                                const char *path)
{
    char got[TREE_DESCRIBE_BYTES], quoted[DIAGNOSE_QUOTE_BYTES];
    switch (node->kind) {
    case TREE_LIST:
        return set_in_list(setting, node, path);
    case TREE_MAP:
        return set_in_map(setting, node, path);
    case TREE_SCALAR:
        break;
    }
    complain(setting->loader, setting->mark, "no such path: above '%s' is %s",
             diagnose_quote(path, quoted), tree_describe(node, got));
    return NULL;
}

struct tree_node *set_apply(struct loader *loader, struct tree_node *root, uint32_t set)
{
    const char *text = loader->sets[set - 1].text;
    const char *equals = strchr(text, '=');
    struct setting setting = {.loader = loader, .root = root, .mark = {1, 1, set}};
    if (equals == NULL || equals == text) {
        complain(loader, setting.mark, "expected PATH=VALUE");
        return NULL;
    }
    const char *path = arena_copy(loader->arena, text, (size_t)(equals - text));
    unsigned n_dots = 0;
    for (const char *p = path; *p != '\0'; p++) {
        n_dots += *p == '.';
    }
    if (n_dots >= TREE_DEPTH_MAX) {
        complain(loader, setting.mark, "the path is deeper than %u", TREE_DEPTH_MAX);
        return NULL;
    }
    size_t n_before = loader->diag->n;
    setting.value = tree_parse(loader, equals + 1, strlen(equals + 1), set);
    if (loader->diag->n > n_before) {
        return NULL;
    }
    if (setting.value == NULL) {
        setting.value = arena_calloc(loader->arena, 1, sizeof(*setting.value));
        setting.value->mark = setting.mark;
        setting.value->text = "";
        setting.value->n_nodes = 1;
    }
    return set_in(&setting, root, path);
}
