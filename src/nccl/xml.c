#include "nccl/xml.h"

#include <expat.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "nccl/topo.h"

/* Error text for documents of hwloc. */
#define XML_HWLOC                                                                        \
    "hwloc's XML (lstopo), not NCCL's topology, which NCCL_TOPO_DUMP_FILE writes"

struct parsing {
    XML_Parser parser;
    struct xml_node *root, *open;
    uint32_t depth, n_nodes;
    struct weft_error *error;
    bool has_failed;
};

weft_status xml_complain(const struct xml_node *node, struct weft_error *error,
                         const char *format, ...)
{
    char text[128];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_TOPOLOGY, "%u:%u: %s", node->line,
                     node->column, text);
}

static void fail(struct parsing *parsing, const char *what, const char *detail)
{
    if (!parsing->has_failed) {
        parsing->has_failed = true;
        weft_fail(parsing->error, WEFT_ERR_INPUT, WEFT_PHASE_TOPOLOGY,
                  "%llu:%llu: %s%s%.40s",
                  (unsigned long long)XML_GetCurrentLineNumber(parsing->parser),
                  (unsigned long long)XML_GetCurrentColumnNumber(parsing->parser) + 1,
                  what, detail != NULL ? ": " : "", detail != NULL ? detail : "");
        XML_StopParser(parsing->parser, XML_FALSE);
    }
}

static bool add_attributes(struct parsing *parsing, struct xml_node *node,
                           const XML_Char **attributes)
{
    uint32_t n = 0;

    while (attributes[2 * n] != NULL) {
        n++;
    }
    if (n > XML_ATTRIBUTES_MAX) {
        fail(parsing, "more than 16 attributes", node->name);
        return false;
    }
    node->attributes = weft_calloc(n + 1, sizeof(*node->attributes));
    for (uint32_t i = 0; i < n; i++) {
        const char *key = attributes[2 * i];
        const char *value = attributes[2 * i + 1];

        if (strlen(key) > XML_TEXT_MAX || strlen(value) > XML_TEXT_MAX) {
            fail(parsing, "longer than 255 bytes", key);
            return false;
        }
        node->attributes[node->n_attributes++] =
            (struct xml_attribute){weft_strdup(key), weft_strdup(value)};
    }
    return true;
}

static bool add_to_parent(struct parsing *parsing, struct xml_node *node)
{
    struct xml_node *parent = parsing->open;

    node->parent = parent;
    if (parent == NULL) {
        parsing->root = node;
        return true;
    }
    if (parent->n_subs == parent->cap_subs) {
        parent->cap_subs = parent->cap_subs == 0 ? 4 : 2 * parent->cap_subs;
        parent->subs =
            weft_realloc(parent->subs, parent->cap_subs * sizeof(*parent->subs));
    }
    parent->subs[parent->n_subs++] = node;
    if (parent->n_subs > XML_SUBS_MAX) {
        fail(parsing, "more than 128 elements", parent->name);
        return false;
    }
    return true;
}

static void on_start(void *context, const XML_Char *name, const XML_Char **attributes)
{
    struct parsing *parsing = context;
    struct xml_node *node;

    if (parsing->has_failed) {
        return;
    }
    if (strlen(name) > XML_TEXT_MAX) {
        fail(parsing, "longer than 255 bytes", name);
        return;
    }
    if (parsing->depth == XML_DEPTH_MAX || parsing->n_nodes == XML_NODES_MAX) {
        fail(parsing, "too deep, or too many elements", name);
        return;
    }
    node = weft_calloc(1, sizeof(*node));
    node->name = weft_strdup(name);
    node->line = (uint32_t)XML_GetCurrentLineNumber(parsing->parser);
    node->column = (uint32_t)XML_GetCurrentColumnNumber(parsing->parser) + 1;
    if (!add_to_parent(parsing, node)) {
        return;
    }
    if (node->parent == NULL && strcmp(name, "topology") == 0) {
        fail(parsing, XML_HWLOC, NULL); /* before its size exceeds a limit of NCCL's */
        return;
    }
    parsing->open = node;
    parsing->depth++;
    parsing->n_nodes++;
    add_attributes(parsing, node, attributes);
}

static void on_end(void *context, const XML_Char *name)
{
    struct parsing *parsing = context;

    (void)name;
    if (!parsing->has_failed) {
        parsing->open = parsing->open->parent;
        parsing->depth--;
    }
}

/* Rejected because entities can expand a short document into a long one, and NCCL has none. */
static void on_doctype(void *context, const XML_Char *name, const XML_Char *system_id,
                       const XML_Char *public_id, int has_subset)
{
    (void)system_id;
    (void)public_id;
    (void)has_subset;
    fail(context,
         strcmp(name, "topology") == 0 ? XML_HWLOC : "a document type is not supported",
         NULL);
}

/* Returns true if the first line with text begins with at least three whole numbers: counts of
 * nodes, switches and links. */
static bool is_of_a_simulator(const char *text, size_t n_bytes)
{
    size_t at = 0;
    int n_numbers = 0;

    while (at < n_bytes && strchr(" \t\r\n", text[at]) != NULL && text[at] != '\0') {
        at++;
    }
    while (at < n_bytes && text[at] >= '0' && text[at] <= '9') {
        while (at < n_bytes && text[at] >= '0' && text[at] <= '9') {
            at++;
        }
        if (at < n_bytes && text[at] != ' ' && text[at] != '\t' && text[at] != '\r' &&
            text[at] != '\n') {
            break;
        }
        n_numbers++;
        while (at < n_bytes && (text[at] == ' ' || text[at] == '\t')) {
            at++;
        }
    }
    return n_numbers >= 3;
}

struct xml_node *xml_parse(const char *text, size_t n_bytes, struct weft_error *error)
{
    struct parsing parsing = {.error = error};

    if (n_bytes > TOPO_FILE_BYTES_MAX) {
        weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_TOPOLOGY, "1:1: longer than 16 MiB");
        return NULL;
    }
    if (is_of_a_simulator(text, n_bytes)) {
        weft_fail(
            error, WEFT_ERR_INPUT, WEFT_PHASE_TOPOLOGY,
            "1:1: a topology of SimAI or ns-3 (counts, then a link a line), not NCCL's "
            "XML: it has hosts and cables, and Weft takes those from a scenario");
        return NULL;
    }
    parsing.parser = XML_ParserCreate(NULL);
    weft_check(parsing.parser != NULL);
    XML_SetUserData(parsing.parser, &parsing);
    XML_SetElementHandler(parsing.parser, on_start, on_end);
    XML_SetStartDoctypeDeclHandler(parsing.parser, on_doctype);
    if (XML_Parse(parsing.parser, text, (int)n_bytes, 1) != XML_STATUS_OK) {
        fail(&parsing, "not XML", XML_ErrorString(XML_GetErrorCode(parsing.parser)));
    }
    XML_ParserFree(parsing.parser);
    if (parsing.has_failed) {
        xml_free(parsing.root);
        return NULL;
    }
    return parsing.root;
}

void xml_free(struct xml_node *node)
{
    if (node == NULL) {
        return;
    }
    for (uint32_t i = 0; i < node->n_subs; i++) {
        xml_free(node->subs[i]);
    }
    for (uint32_t i = 0; i < node->n_attributes; i++) {
        free(node->attributes[i].key);
        free(node->attributes[i].value);
    }
    free(node->subs);
    free(node->attributes);
    free(node->name);
    free(node);
}

const char *xml_get(const struct xml_node *node, const char *key)
{
    for (uint32_t i = 0; i < node->n_attributes; i++) {
        if (strcmp(node->attributes[i].key, key) == 0) {
            return node->attributes[i].value;
        }
    }
    return NULL;
}

struct xml_node *xml_sub(const struct xml_node *node, const char *name)
{
    for (uint32_t i = 0; i < node->n_subs; i++) {
        if (strcmp(node->subs[i]->name, name) == 0) {
            return node->subs[i];
        }
    }
    return NULL;
}
