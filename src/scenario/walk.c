#include "scenario/walk.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

static const struct walk_key *find_key(const struct walk_table *table, const char *name,
                                       unsigned *out_index)
{
    for (unsigned i = 0; i < table->n_keys; i++) {
        if (strcmp(table->keys[i].name, name) == 0) {
            *out_index = i;
            return &table->keys[i];
        }
    }
    return NULL;
}

/* A word that is often written for a key, or a key that is often written in another table. */
struct key_word {
    const char *word;
    const char *key;
    const char *home; /* what the key's table is called */
};

static const struct key_word key_words[] = {
    {"nodes", "nodes", "topology"},
    {"hosts", "nodes", "topology"},
    {"machines", "nodes", "topology"},
    {"servers", "nodes", "topology"},
    {"switches", "switches", "topology"},
    {"links", "links", "topology"},
    {"cables", "links", "topology"},
    {"edges", "links", "topology"},
    {"management", "management", "topology"},
    {"defaults", "defaults", "topology"},
    {"mesh", "topology", "a scenario"},
    {"network", "topology", "a scenario"},
    {"jobs", "jobs", "a scenario"},
    {"job", "jobs", "a scenario"},
    {"tests", "jobs", "a scenario"},
    {"faults", "faults", "a scenario"},
    {"fault", "faults", "a scenario"},
    {"events", "faults", "a scenario"},
    {"expect", "expect", "a scenario"},
    {"assert", "expect", "a scenario"},
    {"policy", "policy", "a scenario"},
    {"seed", "seed", "a scenario"},
    {"ends", "endpoints", "a link"},
    {"between", "endpoints", "a link"},
    {"hosts", "endpoints", "a link"},
    {"nodes", "endpoints", "a link"},
    {"network", "subnet", "a link"},
    {"prefix", "subnet", "a link"},
    {"bandwidth", "rate", "a link"},
    {"speed", "rate", "a link"},
    {"latency", "delay", "a link"},
    {"nics", "ports", "a node"},
    {"interfaces", "ports", "a node"},
    {"devices", "ports", "a node"},
    {"when", "at", "a fault"},
    {"time", "at", "a fault"},
    {"duration", "for", "a fault"},
    {"type", "kind", "a fault"},
    {"target", "on", "a fault"},
};

/* Returns the key that a word stands for, in this table if it has one, or else in the topology or
 * at the top level; NULL if there is none. */
static const struct key_word *find_word(const struct walk_table *table, const char *word)
{
    const struct key_word *elsewhere = NULL;

    for (size_t i = 0; i < WEFT_LENGTH(key_words); i++) {
        const struct key_word *entry = &key_words[i];
        if (strcmp(entry->word, word) != 0) {
            continue;
        }
        if (strcmp(entry->home, table->what) == 0) {
            return entry;
        }
        if (elsewhere == NULL && (strcmp(entry->home, "topology") == 0 ||
                                  strcmp(entry->home, "a scenario") == 0)) {
            elsewhere = entry;
        }
    }
    return elsewhere;
}

/* Stores what may be written instead, which begins with "; ", or "". */
static void describe_remedy(const struct walk_table *table, const char *word, char *out,
                            size_t out_bytes)
{
    const struct key_word *known = find_word(table, word);
    const char *names[WALK_KEYS_MAX];

    for (unsigned i = 0; i < table->n_keys; i++) {
        names[i] = table->keys[i].name;
    }
    if (known == NULL) {
        diagnose_hint(word, names, table->n_keys, out, out_bytes);
    } else if (strcmp(known->home, table->what) == 0) {
        weft_format(out, out_bytes, "; it is called '%s'", known->key);
    } else {
        const char *place = strcmp(known->home, "topology") == 0 ? "under 'topology'"
                                                                 : "at the top level";
        if (strcmp(known->key, word) == 0) {
            weft_format(out, out_bytes, "; it belongs %s", place);
        } else {
            weft_format(out, out_bytes, "; write '%s' %s", known->key, place);
        }
    }
}

static void complain_unknown(struct loader *loader, const struct tree_node *key,
                             const struct walk_table *table)
{
    char quoted[DIAGNOSE_QUOTE_BYTES], remedy[96];

    describe_remedy(table, key->text, remedy, sizeof(remedy));
    complain(loader, key->mark, "unknown key '%s' in %s%s",
             diagnose_quote(key->text, quoted), table->what, remedy);
}

/* Returns the first key that equals that of pair `i`, or NULL. */
static const struct tree_node *first_of(const struct tree_node *map, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++) {
        if (strcmp(map->pairs[k].key->text, map->pairs[i].key->text) == 0) {
            return map->pairs[k].key;
        }
    }
    return NULL;
}

bool walk_keys(struct loader *loader, const struct tree_node *node,
               const struct walk_table *table, struct walk_seen *seen)
{
    weft_check(table->n_keys <= WALK_KEYS_MAX);
    memset(seen, 0, sizeof(*seen));
    if (!read_map(loader, node, table->what)) {
        return false;
    }
    for (uint32_t i = 0; i < node->n; i++) {
        const struct tree_pair *pair = &node->pairs[i];
        unsigned index;
        if (find_key(table, pair->key->text, &index) == NULL) {
            complain_unknown(loader, pair->key, table);
        } else if (seen->at[index] != NULL) {
            const struct tree_node *first = first_of(node, i);
            complain(loader, pair->key->mark,
                     "duplicate key '%s' in %s; the first is at line %u", pair->key->text,
                     table->what, first->mark.line);
        } else {
            seen->at[index] = pair->value;
        }
    }
    return true;
}

static void read_value(struct loader *loader, const struct walk_key *key,
                       const struct tree_node *node, void *out)
{
    uint64_t number;
    uint32_t small;
    weft_ns time;
    unsigned choice;
    switch (key->type) {
    case WALK_NODE:
        break;
    case WALK_BOOL:
        read_bool(loader, node, key->name, out);
        break;
    case WALK_INT:
        if (read_u64(loader, node, key->name, key->min, key->max, &number)) {
            *(int *)out = (int)number;
        }
        break;
    case WALK_U32:
        if (read_u32(loader, node, key->name, (uint32_t)key->min, (uint32_t)key->max,
                     &small)) {
            *(uint32_t *)out = small;
        }
        break;
    case WALK_U64:
        read_u64(loader, node, key->name, key->min, key->max, out);
        break;
    case WALK_RATE:
        read_rate(loader, node, key->name, out);
        break;
    case WALK_SIZE:
        read_size(loader, node, key->name, key->min, key->max, out);
        break;
    case WALK_SIZE32:
        if (read_size(loader, node, key->name, key->min, key->max, &number)) {
            *(uint32_t *)out = (uint32_t)number;
        }
        break;
    case WALK_TIME:
        read_time(loader, node, key->name, out);
        break;
    case WALK_TIME_PS:
        if (read_time(loader, node, key->name, &time)) {
            *(weft_ps *)out = time * 1000;
        }
        break;
    case WALK_SHARE:
        read_share(loader, node, key->name, out);
        break;
    case WALK_CHOICE:
        if (read_choice(loader, node, key->name, key->choices, key->n_choices, &choice)) {
            *(int *)out = (int)choice;
        }
        break;
    }
}

void walk_values(struct loader *loader, const struct walk_table *table,
                 const struct walk_seen *seen, void *target)
{
    for (unsigned i = 0; i < table->n_keys; i++) {
        if (seen->at[i] != NULL) {
            read_value(loader, &table->keys[i], seen->at[i],
                       (char *)target + table->keys[i].offset);
        }
    }
}

bool walk_map(struct loader *loader, const struct tree_node *node,
              const struct walk_table *table, struct walk_seen *seen, void *target)
{
    if (!walk_keys(loader, node, table, seen)) {
        return false;
    }
    walk_values(loader, table, seen, target);
    return true;
}

static int compare_keys(const void *a, const void *b)
{
    const struct tree_pair *const *x = a, *const *y = b;
    int order = strcmp((*x)->key->text, (*y)->key->text);
    return order != 0 ? order : (*x > *y) - (*x < *y);
}

void walk_duplicates(struct loader *loader, const struct tree_node *map, const char *what)
{
    const struct tree_pair **pairs = weft_calloc(map->n + 1u, sizeof(const void *));
    for (uint32_t i = 0; i < map->n; i++) {
        pairs[i] = &map->pairs[i];
    }
    qsort(pairs, map->n, sizeof(const void *), compare_keys);
    for (uint32_t i = 1; i < map->n; i++) {
        const struct tree_node *key = pairs[i]->key, *before = pairs[i - 1]->key;
        char quoted[DIAGNOSE_QUOTE_BYTES];
        if (strcmp(key->text, before->text) == 0) {
            complain(loader, key->mark, "duplicate key '%s' in %s; one is at line %u",
                     diagnose_quote(key->text, quoted), what, before->mark.line);
        }
    }
    free(pairs);
}
