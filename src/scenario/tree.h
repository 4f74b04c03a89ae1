/* A YAML document as a tree that knows where everything was written. One document, no
 * tags, no merge keys, bounded in depth and size; aliases are the node they name. */
#ifndef WEFT_SCENARIO_TREE_H
#define WEFT_SCENARIO_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "scenario/diagnose.h"

#define TREE_DEPTH_MAX 24
#define TREE_NODES_MAX 500000u /* counted with every alias written out */
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
    const char *text;         /* of a scalar, without NULs */
    bool is_quoted;           /* of a scalar: never a number, true or null */
    uint32_t n;               /* elements or pairs */
    struct tree_node **items; /* of a list; [n] */
    struct tree_pair *pairs;  /* of a map; [n] */
    uint32_t n_nodes;         /* it and all below, saturating */
};

/* What a plain scalar is by YAML 1.1's core rules. */
enum tree_scalar { TREE_NULL, TREE_BOOL, TREE_INT, TREE_FLOAT, TREE_TEXT };
enum tree_scalar tree_scalar_kind(const struct tree_node *node);

/* NULL after a complaint. `mark_base.set` says which --set the text is the value of. An
 * empty text is an empty (null) scalar if `set` > 0, else a complaint. Lives in loader's
 * arena. */
struct tree_node *tree_parse(struct loader *loader, const void *text, size_t n_bytes,
                             uint32_t set);

/* The value of `key`, or NULL; `map` may be NULL or no map. */
struct tree_node *tree_get(const struct tree_node *map, const char *key);

/* Appends `root` as YAML; what is read back from it is the same tree, but for marks. */
void tree_emit(const struct tree_node *root, struct weft_text *out);

/* "a list", "a map", "nothing", "text 'abc'", "200". Returns `out`. */
#define TREE_DESCRIBE_BYTES (DIAGNOSE_QUOTE_BYTES + 16)
char *tree_describe(const struct tree_node *node, char *out);

#endif
