/* Makes, changes and writes XML trees. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "nccl/xml.h"

struct xml_node *xml_new(const char *name)
{
    struct xml_node *node = weft_calloc(1, sizeof(*node));

    node->name = weft_strdup(name);
    return node;
}

static struct xml_attribute *find(struct xml_node *node, const char *key)
{
    for (uint32_t i = 0; i < node->n_attributes; i++) {
        if (strcmp(node->attributes[i].key, key) == 0) {
            return &node->attributes[i];
        }
    }
    return NULL;
}

void xml_set(struct xml_node *node, const char *key, const char *value)
{
    struct xml_attribute *attribute = find(node, key);

    if (attribute == NULL) {
        node->attributes = weft_realloc(node->attributes, (node->n_attributes + 1) *
                                                              sizeof(*node->attributes));
        attribute = &node->attributes[node->n_attributes++];
        attribute->key = weft_strdup(key);
    } else {
        free(attribute->value);
    }
    attribute->value = weft_strdup(value);
}

void xml_set_format(struct xml_node *node, const char *key, const char *format, ...)
{
    char text[XML_TEXT_MAX + 1];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    xml_set(node, key, text);
}

void xml_unset(struct xml_node *node, const char *key)
{
    struct xml_attribute *attribute = find(node, key);

    if (attribute != NULL) {
        size_t at = (size_t)(attribute - node->attributes);

        free(attribute->key);
        free(attribute->value);
        memmove(attribute, attribute + 1,
                (node->n_attributes - at - 1) * sizeof(*attribute));
        node->n_attributes--;
    }
}

void xml_insert(struct xml_node *parent, struct xml_node *sub, uint32_t at)
{
    at = at < parent->n_subs ? at : parent->n_subs;
    if (parent->n_subs == parent->cap_subs) {
        parent->cap_subs = parent->cap_subs == 0 ? 4 : 2 * parent->cap_subs;
        parent->subs =
            weft_realloc(parent->subs, parent->cap_subs * sizeof(*parent->subs));
    }
    memmove(&parent->subs[at + 1], &parent->subs[at],
            (parent->n_subs - at) * sizeof(*parent->subs));
    parent->subs[at] = sub;
    parent->n_subs++;
    sub->parent = parent;
}

void xml_remove(struct xml_node *parent, uint32_t at)
{
    weft_check(at < parent->n_subs);
    xml_free(parent->subs[at]);
    memmove(&parent->subs[at], &parent->subs[at + 1],
            (parent->n_subs - at - 1) * sizeof(*parent->subs));
    parent->n_subs--;
}

struct xml_node *xml_copy(const struct xml_node *node)
{
    struct xml_node *copy = xml_new(node->name);

    copy->line = node->line;
    copy->column = node->column;
    for (uint32_t i = 0; i < node->n_attributes; i++) {
        xml_set(copy, node->attributes[i].key, node->attributes[i].value);
    }
    for (uint32_t i = 0; i < node->n_subs; i++) {
        xml_insert(copy, xml_copy(node->subs[i]), UINT32_MAX);
    }
    return copy;
}

uint32_t xml_count(const struct xml_node *node)
{
    uint32_t n = 1;

    for (uint32_t i = 0; i < node->n_subs; i++) {
        n += xml_count(node->subs[i]);
    }
    return n;
}

static void print_value(const char *value, struct weft_text *out)
{
    for (; *value != '\0'; value++) {
        const char *entity = *value == '&'   ? "&amp;"
                             : *value == '<' ? "&lt;"
                             : *value == '"' ? "&quot;"
                                             : NULL;

        if (entity != NULL) {
            weft_text_add(out, "%s", entity);
        } else {
            weft_text_add_bytes(out, value, 1);
        }
    }
}

static void print_at(const struct xml_node *node, int indent, struct weft_text *out)
{
    weft_text_add(out, "%*s<%s", indent, "", node->name);
    for (uint32_t i = 0; i < node->n_attributes; i++) {
        weft_text_add(out, " %s=\"", node->attributes[i].key);
        print_value(node->attributes[i].value, out);
        weft_text_add(out, "\"");
    }
    weft_text_add(out, node->n_subs == 0 ? "/>\n" : ">\n");
    for (uint32_t i = 0; i < node->n_subs; i++) {
        print_at(node->subs[i], indent + 2, out);
    }
    if (node->n_subs > 0) {
        weft_text_add(out, "%*s</%s>\n", indent, "", node->name);
    }
}

void xml_print(const struct xml_node *node, struct weft_text *out)
{
    print_at(node, 0, out);
}
