/* Reads YAML maps by table. Reports unknown and duplicate keys, and values of the wrong type
 * or out of range. On error a reader returns false and leaves `*out` unchanged. */
#ifndef WEFT_SCENARIO_WALK_H
#define WEFT_SCENARIO_WALK_H

#include "scenario/tree.h"

enum walk_type {
    WALK_NODE,    /* noted in `seen` only; read by other code */
    WALK_BOOL,    /* bool */
    WALK_INT,     /* int, min..max */
    WALK_U32,     /* uint32_t, min..max */
    WALK_U64,     /* uint64_t, min..max */
    WALK_RATE,    /* uint64_t in bit/s, min..max */
    WALK_SIZE,    /* uint64_t in bytes, min..max */
    WALK_SIZE32,  /* uint32_t in bytes, min..max */
    WALK_TIME,    /* weft_ns, min..max */
    WALK_TIME_PS, /* weft_ps, as a number of whole nanoseconds */
    WALK_SHARE,   /* uint32_t in parts per 10^9 */
    WALK_CHOICE   /* int: index into choices */
};

struct walk_key {
    const char *name;
    enum walk_type type;
    size_t offset; /* offset in the structure to fill */
    uint64_t min, max;
    const char *const *choices; /* WALK_CHOICE only; [n_choices] */
    unsigned n_choices;
};

#define WALK_KEYS_MAX 32

struct walk_table {
    const char *what;            /* "a link" */
    const struct walk_key *keys; /* [n_keys] */
    unsigned n_keys;
};

/* The values of a map, by index in the table; NULL if the key is absent. */
struct walk_seen {
    const struct tree_node *at[WALK_KEYS_MAX];
};

/* Checks that `node` is a map with keys of `table` and notes their values. Returns false if it
 * is not a map; complains about bad keys and skips them. */
bool walk_keys(struct loader *loader, const struct tree_node *node,
               const struct walk_table *table, struct walk_seen *seen);
/* Reads the noted values of the typed keys into `target`. */
void walk_values(struct loader *loader, const struct walk_table *table,
                 const struct walk_seen *seen, void *target);
/* Does both. */
bool walk_map(struct loader *loader, const struct tree_node *node,
              const struct walk_table *table, struct walk_seen *seen, void *target);

/* Complains about every key that equals an earlier one. For maps whose keys are names. */
void walk_duplicates(struct loader *loader, const struct tree_node *map,
                     const char *what);

/* Limits that no reasonable file reaches. */
#define WALK_RATE_MAX UINT64_C(100000000000000) /* 100 Tbps */
#define WALK_TIME_MAX INT64_C(1000000000000000) /* about 11 days */
#define WALK_SIZE_MAX (UINT64_C(1) << 40)       /* 1 TiB */

bool read_u64(struct loader *loader, const struct tree_node *node, const char *name,
              uint64_t min, uint64_t max, uint64_t *out);
bool read_u32(struct loader *loader, const struct tree_node *node, const char *name,
              uint32_t min, uint32_t max, uint32_t *out);
bool read_bool(struct loader *loader, const struct tree_node *node, const char *name,
               bool *out);
bool read_rate(struct loader *loader, const struct tree_node *node, const char *name,
               uint64_t *out);
bool read_size(struct loader *loader, const struct tree_node *node, const char *name,
               uint64_t min, uint64_t max, uint64_t *out);
bool read_time(struct loader *loader, const struct tree_node *node, const char *name,
               weft_ns *out);
bool read_share(struct loader *loader, const struct tree_node *node, const char *name,
                uint32_t *out);
/* Reads text that YAML does not interpret as a number, true or null. */
bool read_text(struct loader *loader, const struct tree_node *node, const char *name,
               const char **out);
/* Reads any scalar except null, as written. */
bool read_scalar(struct loader *loader, const struct tree_node *node, const char *name,
                 const char **out);
bool read_choice(struct loader *loader, const struct tree_node *node, const char *name,
                 const char *const *choices, unsigned n_choices, unsigned *out);
bool read_list(struct loader *loader, const struct tree_node *node, const char *name,
               uint32_t n_min, uint32_t n_max);
bool read_map(struct loader *loader, const struct tree_node *node, const char *name);

/* Returns true if `text` has 1 to n_max bytes, all of them letters (lower case only if
 * `is_lower`), digits or, except the first, in `others`. */
bool is_name(const char *text, size_t n_max, bool is_lower, const char *others);

/* Complains "NAME: expected WHAT, got VALUE". Returns false. */
bool complain_type(struct loader *loader, const struct tree_node *node, const char *name,
                   const char *what);

#endif
