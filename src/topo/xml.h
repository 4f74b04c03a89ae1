/* A small XML document as a tree, within the limits of NCCL's own parser. */
#ifndef WEFT_TOPO_XML_H
#define WEFT_TOPO_XML_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* xml.h of NCCL: values are cut at 255 bytes there, here they are refused. */
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
    struct xml_node **subs; /* Owned [n_subs], and they */
    uint32_t n_subs, cap_subs;
    struct xml_node *parent;
};

/* The root, the caller's; NULL with `error` (WEFT_ERR_INPUT, "line:column: what") if it is no
 * XML or beyond a limit. */
struct xml_node *xml_parse(const char *text, size_t n_bytes, struct weft_error *error);
void xml_free(struct xml_node *node);

/* The value of an attribute, or NULL. */
const char *xml_get(const struct xml_node *node, const char *key);
/* The first element of that name below, or NULL. */
const struct xml_node *xml_sub(const struct xml_node *node, const char *name);
/* Fills `error` with a complaint about `node`. Returns WEFT_ERR_INPUT. */
weft_status xml_complain(const struct xml_node *node, struct weft_error *error,
                         const char *format, ...) WEFT_PRINTF(3, 4);

#endif
