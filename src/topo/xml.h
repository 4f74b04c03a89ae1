/* A small XML document as a tree, within the limits of NCCL's own parser. */
#ifndef WEFT_TOPO_XML_H
#define WEFT_TOPO_XML_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

/* xml.h of NCCL: values are cut at 255 bytes there, here they are refused. */
enum {
    XML_ATTRIBUTES_MAX = 16,
    XML_SUBS_MAX = 128,
    XML_TEXT_MAX = 255,
    XML_DEPTH_MAX = 32,
    XML_NODES_MAX = 65536
};

/* What is said of hwloc's documents, by their type or by their root. */
#define XML_HWLOC                                                                        \
    "hwloc's XML (lstopo), not NCCL's topology, which NCCL_TOPO_DUMP_FILE writes"

struct xml_attribute {
    char *key, *value; /* Owned */
};

struct xml_node {
    char *name; /* Owned */
    uint32_t line, column;
    struct xml_attribute *attributes; /* Owned [n_attributes] */
    uint32_t n_attributes;
    struct xml_node **subs; /* Owned [n_subs], and they */
    uint32_t n_subs, cap_subs;
    struct xml_node *parent;
};

/* The root, the caller's; NULL with `error` (WEFT_ERR_INPUT, "line:column: what") if it is no
 * XML or beyond a limit. */
struct xml_node *xml_parse(const char *text, size_t n_bytes, struct weft_error *error);
void xml_free(struct xml_node *node);

/* ---- documents that are made ---- */

struct xml_node *xml_new(const char *name);
/* Appends the attribute, or changes it. */
void xml_set(struct xml_node *node, const char *key, const char *value);
void xml_set_format(struct xml_node *node, const char *key, const char *format, ...)
    WEFT_PRINTF(3, 4);
void xml_unset(struct xml_node *node, const char *key);
/* Puts `sub`, which has no parent, before the `at`th element of `parent`; UINT32_MAX: last. It
 * is the parent's from then on. */
void xml_insert(struct xml_node *parent, struct xml_node *sub, uint32_t at);
/* Takes the `at`th element out and frees it. */
void xml_remove(struct xml_node *parent, uint32_t at);
/* With all that is below, and places. The caller's. */
struct xml_node *xml_copy(const struct xml_node *node);
/* How many elements there are, itself included. */
uint32_t xml_count(const struct xml_node *node);
/* As NCCL writes it: an element a line, two blanks a level. */
void xml_print(const struct xml_node *node, struct weft_text *out);

/* The value of an attribute, or NULL. */
const char *xml_get(const struct xml_node *node, const char *key);
/* The first element of that name below, or NULL. */
const struct xml_node *xml_sub(const struct xml_node *node, const char *name);
/* Fills `error` with a complaint about `node`. Returns WEFT_ERR_INPUT. */
weft_status xml_complain(const struct xml_node *node, struct weft_error *error,
                         const char *format, ...) WEFT_PRINTF(3, 4);

#endif
