/* A YAML document as a tree with the place of every node. One document without tags and merge
 * keys, bounded in size and in depth; an alias is the node that it names. */
#ifndef WEFT_SCENARIO_TREE_H
#define WEFT_SCENARIO_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "scenario/diagnose.h"

#define TREE_DEPTH_MAX 24      /* each alias counts with all its levels */
#define TREE_NODES_MAX 500000u /* each alias counts with its whole contents */
#define TREE_FILE_BYTES_MAX ((size_t)16 << 20)

enum tree_kind { TREE_SCALAR, TREE_LIST, TREE_MAP };

struct tree_node;

struct tree_pair {
    struct tree_node *key; /* always a scalar */
    struct tree_node *value;
};

struct tree_node {
    enum tree_kind kind;
    struct scenario_mark mark;
    const char *text;         /* scalar only; without NUL bytes */
    bool is_quoted;           /* scalar only: never a number, true or null */
    uint32_t n;               /* elements or pairs */
    struct tree_node **items; /* list only; [n] */
    struct tree_pair *pairs;  /* map only; [n] */
    uint32_t n_nodes;         /* number of nodes, including itself */
    unsigned n_levels; /* lists and maps in each other, including itself; as read */
};

/* Kind of a plain scalar by YAML 1.1's core rules. */
enum tree_scalar { TREE_NULL, TREE_BOOL, TREE_INT, TREE_FLOAT, TREE_TEXT };
enum tree_scalar tree_scalar_kind(const struct tree_node *node);

/* Parses a document. Returns NULL after a complaint. `set` is the number of the --set that the
 * text is the value of, or 0 for the file. Returns NULL for an empty text, and complains if it
 * is the file. The result belongs to the loader's arena. */
struct tree_node *tree_parse(struct loader *loader, const void *text, size_t n_bytes,
                             uint32_t set);

/* Returns the value of `key`, or NULL. `map` may be NULL or not a map. */
struct tree_node *tree_get(const struct tree_node *map, const char *key);

/* Appends `root` as YAML. Parsing it gives the same tree, except for marks. */
void tree_emit(const struct tree_node *root, struct weft_text *out);

/* Writes "a list", "a map", "nothing", "'abc'" or "200". Returns `out`. */
#define TREE_DESCRIBE_BYTES (DIAGNOSE_QUOTE_BYTES + 16)
char *tree_describe(const struct tree_node *node, char *out);

#endif
