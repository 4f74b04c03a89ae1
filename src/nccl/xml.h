/* A small XML document as a tree, with the limits of NCCL's own parser. */
#ifndef WEFT_NCCL_XML_H
#define WEFT_NCCL_XML_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

/* NCCL's limits (its xml.h). NCCL truncates values at 255 bytes; here they are rejected. */
enum {
    XML_ATTRIBUTES_MAX = 16,
    XML_SUBS_MAX = 128,
    XML_TEXT_MAX = 255,
    XML_DEPTH_MAX = 32,
    XML_NODES_MAX = 65536
};

struct xml_attribute {
    char *key, *value; /* Owned */
};

struct xml_node {
    char *name; /* Owned */
    uint32_t line, column;
    struct xml_attribute *attributes; /* Owned [n_attributes] */
    uint32_t n_attributes;
    struct xml_node **subs; /* Owned [n_subs], including the nodes */
    uint32_t n_subs, cap_subs;
    struct xml_node *parent;
};

/* Parses a document. Returns the root, which the caller frees with xml_free, or NULL with
 * `error` (WEFT_ERR_INPUT, "line:column: what") if it is no XML or exceeds a limit. */
struct xml_node *xml_parse(const char *text, size_t n_bytes, struct weft_error *error);
void xml_free(struct xml_node *node);

/* ---- making documents ---- */

struct xml_node *xml_new(const char *name);
/* Appends the attribute, or changes its value. */
void xml_set(struct xml_node *node, const char *key, const char *value);
void xml_set_format(struct xml_node *node, const char *key, const char *format, ...)
    WEFT_PRINTF(3, 4);
void xml_unset(struct xml_node *node, const char *key);
/* Inserts `sub`, which has no parent, before the `at`th element of `parent`, or at the end for
 * UINT32_MAX. The parent then owns it. */
void xml_insert(struct xml_node *parent, struct xml_node *sub, uint32_t at);
/* Removes and frees the `at`th element. */
void xml_remove(struct xml_node *parent, uint32_t at);
/* Returns a copy of the node and everything below, with their places. The caller frees it with
 * xml_free. */
struct xml_node *xml_copy(const struct xml_node *node);
/* Returns the number of elements, including the node itself. */
uint32_t xml_count(const struct xml_node *node);
/* Appends the document as NCCL writes it: one element per line, indented by two blanks per
 * level. */
void xml_print(const struct xml_node *node, struct weft_text *out);

/* Returns the value of an attribute, or NULL. */
const char *xml_get(const struct xml_node *node, const char *key);
/* Returns the first child element of that name, or NULL. */
struct xml_node *xml_sub(const struct xml_node *node, const char *name);
/* Fills `error` with a complaint about `node`. Returns WEFT_ERR_INPUT. */
weft_status xml_complain(const struct xml_node *node, struct weft_error *error,
                         const char *format, ...) WEFT_PRINTF(3, 4);

#endif
