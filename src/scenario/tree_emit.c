#include <string.h>
#include <yaml.h>

#include "base/check.h"
#include "scenario/tree.h"

static int append(void *context, unsigned char *bytes, size_t n_bytes)
{
    weft_text_add_bytes(context, (const char *)bytes, n_bytes);
    return 1;
}

static void put(yaml_emitter_t *emitter, yaml_event_t *event)
{
    /* yaml_emitter_emit takes ownership of the event's memory, also when it fails. It fails
     * only if memory is exhausted. */
    weft_check(yaml_emitter_emit(emitter, event) == 1);
}

static void put_scalar(yaml_emitter_t *emitter, const struct tree_node *node)
{
    yaml_event_t event;
    yaml_scalar_style_t style =
        node->is_quoted ? YAML_DOUBLE_QUOTED_SCALAR_STYLE : YAML_ANY_SCALAR_STYLE;

    weft_check(
        yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)node->text,
                                     (int)strlen(node->text), true, true, style) == 1);
    put(emitter, &event);
}

/* Returns true if a node contains no map; it then fits on a line. */
static bool is_short(const struct tree_node *node)
{
    for (uint32_t i = 0; i < node->n; i++) {
        const struct tree_node *inner =
            node->kind == TREE_LIST ? node->items[i] : node->pairs[i].value;

        if (inner->kind == TREE_MAP) {
            return false;
        }
    }
    return true;
}

static void put_node(yaml_emitter_t *emitter, const struct tree_node *node, bool is_root);

static void put_list(yaml_emitter_t *emitter, const struct tree_node *node)
{
    yaml_event_t event;

    weft_check(
        yaml_sequence_start_event_initialize(
            &event, NULL, NULL, true,
            is_short(node) ? YAML_FLOW_SEQUENCE_STYLE : YAML_BLOCK_SEQUENCE_STYLE) == 1);
    put(emitter, &event);
    for (uint32_t i = 0; i < node->n; i++) {
        put_node(emitter, node->items[i], false);
    }
    weft_check(yaml_sequence_end_event_initialize(&event) == 1);
    put(emitter, &event);
}

static void put_map(yaml_emitter_t *emitter, const struct tree_node *node, bool is_root)
{
    yaml_event_t event;
    bool is_flow = !is_root && is_short(node);

    weft_check(yaml_mapping_start_event_initialize(
                   &event, NULL, NULL, true,
                   is_flow ? YAML_FLOW_MAPPING_STYLE : YAML_BLOCK_MAPPING_STYLE) == 1);
    put(emitter, &event);
    for (uint32_t i = 0; i < node->n; i++) {
        put_node(emitter, node->pairs[i].key, false);
        put_node(emitter, node->pairs[i].value, false);
    }
    weft_check(yaml_mapping_end_event_initialize(&event) == 1);
    put(emitter, &event);
}

/* Recursion depth is bounded: a document has at most TREE_DEPTH_MAX levels, and the value of each
 * --set has as many below its path. */
static void put_node(yaml_emitter_t *emitter, const struct tree_node *node, bool is_root)
{
    switch (node->kind) {
    case TREE_SCALAR:
        put_scalar(emitter, node);
        break;
    case TREE_LIST:
        put_list(emitter, node);
        break;
    case TREE_MAP:
        put_map(emitter, node, is_root);
        break;
    }
}

void tree_emit(const struct tree_node *root, struct weft_text *out)
{
    yaml_emitter_t emitter;
    yaml_event_t event;

    weft_check(yaml_emitter_initialize(&emitter) == 1);
    yaml_emitter_set_output(&emitter, append, out);
    yaml_emitter_set_unicode(&emitter, 1);
    yaml_emitter_set_width(&emitter, 100);
    weft_check(yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) == 1);
    put(&emitter, &event);
    weft_check(yaml_document_start_event_initialize(&event, NULL, NULL, NULL, true) == 1);
    put(&emitter, &event);
    put_node(&emitter, root, true);
    weft_check(yaml_document_end_event_initialize(&event, true) == 1);
    put(&emitter, &event);
    weft_check(yaml_stream_end_event_initialize(&event) == 1);
    put(&emitter, &event);
    yaml_emitter_delete(&emitter);
    if (out->bytes[out->n - 1] != '\n') {
        weft_text_add(out, "\n");
    }
}
