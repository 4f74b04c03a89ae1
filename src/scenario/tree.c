#include "scenario/tree.h"

#include <string.h>
#include <yaml.h>

#include "base/check.h"
#include "base/text.h"
#include "scenario/arena.h"

#define ANCHORS_MAX 256

struct anchor {
    const char *name;
    struct tree_node *node;
};

/* A list or map whose end has not been read yet. */
struct open_node {
    struct tree_node *node;
    struct tree_node *key; /* map only: key without a value so far, or NULL */
    uint32_t cap;
};

struct reading {
    struct loader *loader;
    uint32_t set;
    yaml_parser_t parser;
    struct tree_node *root;
    struct open_node open[TREE_DEPTH_MAX];
    unsigned n_open;
    struct anchor anchors[ANCHORS_MAX];
    unsigned n_anchors;
    unsigned n_documents;
};

static struct scenario_mark mark_of(const struct reading *reading, yaml_mark_t mark)
{
    return (struct scenario_mark){(uint32_t)mark.line + 1, (uint32_t)mark.column + 1,
                                  reading->set};
}

/* Computes the place of a bad byte, for which libyaml reports only an offset. */
static struct scenario_mark mark_at_offset(const struct reading *reading,
                                           const char *text, size_t n_bytes,
                                           size_t offset)
{
    struct scenario_mark mark = {1, 1, reading->set};
    for (size_t i = 0; i < offset && i < n_bytes; i++) {
        if (text[i] == '\n') {
            mark.line++;
            mark.column = 1;
        } else if (((unsigned char)text[i] & 0xc0) != 0x80) {
            mark.column++;
        }
    }
    return mark;
}

static bool complain_of_syntax(struct reading *reading, const char *text, size_t n_bytes)
{
    const yaml_parser_t *parser = &reading->parser;
    weft_check(parser->error != YAML_MEMORY_ERROR);
    if (parser->error == YAML_READER_ERROR) {
        return complain(reading->loader,
                        mark_at_offset(reading, text, n_bytes, parser->problem_offset),
                        "not YAML: %s", parser->problem);
    }
    bool has_context = parser->context != NULL;
    return complain(reading->loader, mark_of(reading, parser->problem_mark),
                    "not YAML: %s%s%s", has_context ? parser->context : "",
                    has_context ? ": " : "", parser->problem);
}

static bool is_open(const struct reading *reading, const struct tree_node *node)
{
    for (unsigned i = 0; i < reading->n_open; i++) {
        if (reading->open[i].node == node) {
            return true;
        }
    }
    return false;
}

static void grow(struct reading *reading, struct open_node *open)
{
    struct tree_node *node = open->node;
    if (node->n == open->cap) {
        uint32_t cap = open->cap == 0 ? 8 : 2 * open->cap;
        struct scenario_arena *arena = reading->loader->arena;
        if (node->kind == TREE_LIST) {
            node->items =
                arena_grow(arena, node->items, node->n, cap, sizeof(node->items[0]));
        } else {
            node->pairs =
                arena_grow(arena, node->pairs, node->n, cap, sizeof(node->pairs[0]));
        }
        open->cap = cap;
    }
}

static bool is_merge(const struct tree_node *key)
{
    return strcmp(key->text, "<<") == 0 && !key->is_quoted;
}

static bool complain_of_depth(struct reading *reading, struct scenario_mark mark)
{
    return complain(reading->loader, mark, "nested deeper than %u levels",
                    TREE_DEPTH_MAX);
}

/* Adds a complete node, seen at `mark`, to its parent. */
static bool place(struct reading *reading, struct tree_node *node,
                  struct scenario_mark mark)
{
    if (reading->n_open == 0) {
        reading->root = node;
        return true;
    }
    struct open_node *open = &reading->open[reading->n_open - 1];
    struct tree_node *parent = open->node;
    if (parent->n_nodes > TREE_NODES_MAX - node->n_nodes) {
        return complain(reading->loader, mark, "too large: more than %u values",
                        TREE_NODES_MAX);
    }
    if (reading->n_open + node->n_levels > TREE_DEPTH_MAX) {
        return complain_of_depth(reading, mark);
    }
    parent->n_nodes += node->n_nodes;
    if (parent->n_levels < node->n_levels + 1) {
        parent->n_levels = node->n_levels + 1;
    }
    if (parent->kind == TREE_LIST) {
        grow(reading, open);
        parent->items[parent->n++] = node;
    } else if (open->key != NULL) {
        if (!is_merge(open->key)) {
            grow(reading, open);
            parent->pairs[parent->n++] = (struct tree_pair){open->key, node};
        }
        open->key = NULL;
    } else if (node->kind != TREE_SCALAR) {
        return complain(reading->loader, mark, "a key must be text, not a %s",
                        node->kind == TREE_LIST ? "list" : "map");
    } else {
        open->key = node;
        if (is_merge(node)) {
            complain(reading->loader, mark, "merge keys ('<<') are not supported");
        }
    }
    return true;
}

static bool note_anchor(struct reading *reading, const yaml_char_t *name,
                        struct tree_node *node)
{
    if (name == NULL) {
        return true;
    }
    if (reading->n_anchors == ANCHORS_MAX) {
        return complain(reading->loader, node->mark, "more than %u anchors", ANCHORS_MAX);
    }
    reading->anchors[reading->n_anchors++] =
        (struct anchor){arena_strdup(reading->loader->arena, (const char *)name), node};
    return true;
}

static void refuse_tag(struct reading *reading, const yaml_char_t *tag, yaml_mark_t at)
{
    if (tag != NULL) {
        char quoted[DIAGNOSE_QUOTE_BYTES];
        complain(reading->loader, mark_of(reading, at), "tags are not supported: '%s'",
                 diagnose_quote((const char *)tag, quoted));
    }
}

static struct tree_node *new_node(struct reading *reading, enum tree_kind kind,
                                  yaml_mark_t at)
{
    struct tree_node *node = arena_calloc(reading->loader->arena, 1, sizeof(*node));
    node->kind = kind;
    node->mark = mark_of(reading, at);
    node->n_nodes = 1;
    node->n_levels = kind == TREE_SCALAR ? 0 : 1;
    return node;
}

static bool take_alias(struct reading *reading, const yaml_event_t *event)
{
    const char *name = (const char *)event->data.alias.anchor;
    struct scenario_mark mark = mark_of(reading, event->start_mark);
    char quoted[DIAGNOSE_QUOTE_BYTES];
    for (unsigned i = reading->n_anchors; i > 0; i--) {
        struct anchor *anchor = &reading->anchors[i - 1];
        if (strcmp(anchor->name, name) == 0) {
            if (is_open(reading, anchor->node)) {
                return complain(reading->loader, mark, "alias '*%s' contains itself",
                                diagnose_quote(name, quoted));
            }
            return place(reading, anchor->node, mark);
        }
    }
    return complain(reading->loader, mark, "alias '*%s' has no anchor before it",
                    diagnose_quote(name, quoted));
}

static bool take_scalar(struct reading *reading, const yaml_event_t *event)
{
    struct tree_node *node = new_node(reading, TREE_SCALAR, event->start_mark);
    size_t n_bytes = event->data.scalar.length;
    const char *text = (const char *)event->data.scalar.value;
    refuse_tag(reading, event->data.scalar.tag, event->start_mark);
    node->is_quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    node->text = arena_copy(reading->loader->arena, text, n_bytes);
    if (memchr(text, '\0', n_bytes) != NULL) {
        return complain(reading->loader, node->mark, "text must not contain NUL bytes");
    }
    return note_anchor(reading, event->data.scalar.anchor, node) &&
           place(reading, node, node->mark);
}

static bool take_start(struct reading *reading, enum tree_kind kind,
                       const yaml_event_t *event)
{
    bool is_list = kind == TREE_LIST;
    const yaml_char_t *anchor =
        is_list ? event->data.sequence_start.anchor : event->data.mapping_start.anchor;
    struct tree_node *node = new_node(reading, kind, event->start_mark);
    refuse_tag(reading,
               is_list ? event->data.sequence_start.tag : event->data.mapping_start.tag,
               event->start_mark);
    if (reading->n_open == TREE_DEPTH_MAX) {
        return complain_of_depth(reading, node->mark);
    }
    reading->open[reading->n_open++] = (struct open_node){.node = node};
    return note_anchor(reading, anchor, node);
}

static bool take_end(struct reading *reading)
{
    weft_check(reading->n_open > 0);
    struct tree_node *node = reading->open[--reading->n_open].node;
    return place(reading, node, node->mark);
}

static bool take(struct reading *reading, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return take_alias(reading, event);
    case YAML_SCALAR_EVENT:
        return take_scalar(reading, event);
    case YAML_SEQUENCE_START_EVENT:
        return take_start(reading, TREE_LIST, event);
    case YAML_MAPPING_START_EVENT:
        return take_start(reading, TREE_MAP, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return take_end(reading);
    case YAML_DOCUMENT_START_EVENT:
        if (reading->n_documents++ > 0) {
            return complain(reading->loader, mark_of(reading, event->start_mark),
                            "a second document starts here; a scenario is one document");
        }
        return true;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return true;
    }
    return true;
}

struct tree_node *tree_parse(struct loader *loader, const void *text, size_t n_bytes,
                             uint32_t set)
{
    struct reading reading = {.loader = loader, .set = set};
    const struct scenario_mark start = {1, 1, set};
    bool is_done = false;
    bool is_fine = yaml_parser_initialize(&reading.parser) == 1;
    weft_check(is_fine);
    if (n_bytes > TREE_FILE_BYTES_MAX) {
        is_fine = complain(loader, start, "too large: more than %zu bytes",
                           TREE_FILE_BYTES_MAX);
    }
    yaml_parser_set_input_string(&reading.parser, text, n_bytes);
    while (is_fine && !is_done) {
        yaml_event_t event;
        if (yaml_parser_parse(&reading.parser, &event) == 0) {
            is_fine = complain_of_syntax(&reading, text, n_bytes);
            break;
        }
        is_done = event.type == YAML_STREAM_END_EVENT;
        is_fine = take(&reading, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&reading.parser);
    if (is_fine && reading.root == NULL && set == 0) {
        complain(loader, start, "the file is empty");
    }
    return is_fine ? reading.root : NULL;
}

struct tree_node *tree_get(const struct tree_node *map, const char *key)
{
    if (map == NULL || map->kind != TREE_MAP) {
        return NULL;
    }
    for (uint32_t i = 0; i < map->n; i++) {
        if (strcmp(map->pairs[i].key->text, key) == 0) {
            return map->pairs[i].value;
        }
    }
    return NULL;
}
