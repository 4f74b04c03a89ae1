#include "report/evidence.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "report/columns.h"
#include "report/json_read.h"
#include "report/paragraph.h"

#define ITEM_BYTES 192

/* Which ends report a value. */
enum side {
    SIDE_ONE,   /* one end, or neither in particular */
    SIDE_ALIKE, /* both ends, equal */
    SIDE_APART, /* both ends, different */
    SIDE_NONE   /* printed elsewhere, or unknown at both ends */
};

/* Returns "unknown" if the value is neither a number nor a text. */
static const char *value_text(const json_t *value, char *out, size_t out_bytes)
{
    if (json_is_integer(value)) {
        weft_format(out, out_bytes, "%lld", (long long)json_integer_value(value));
        return out;
    }
    return json_is_string(value) ? json_string_value(value) : "unknown";
}

/* Returns the other end's value for a key, such as "remote_mtu" for "local_mtu"; NULL if there is
 * none. */
static const json_t *counterpart(const json_t *evidence, const char *key)
{
    char other[64];

    if (strncmp(key, "local_", 6) == 0) {
        weft_format(other, sizeof(other), "remote_%s", key + 6);
    } else if (strncmp(key, "remote_", 7) == 0) {
        weft_format(other, sizeof(other), "local_%s", key + 7);
    } else {
        return NULL;
    }
    return json_object_get(evidence, other);
}

/* Returns true for values that are not printed on their own. Facing ports are in the drawing,
 * candidates have lines of their own, and a remote value is printed with its local counterpart. */
static bool is_elsewhere(const char *key, const json_t *other)
{
    return strstr(key, "_facing_port") != NULL || strncmp(key, "candidate_", 10) == 0 ||
           strncmp(key, "to_decide_", 10) == 0 || strncmp(key, "question_", 9) == 0 ||
           (other != NULL && strncmp(key, "remote_", 7) == 0);
}

static enum side side_of(const json_t *finding, const char *key, const json_t *value)
{
    bool is_open = strcmp(json_read_text(finding, "code", ""), "undetermined") == 0;
    const json_t *other = counterpart(json_object_get(finding, "evidence"), key);
    char here[32], there[32];
    const char *mine = value_text(value, here, sizeof(here));
    const char *theirs = value_text(other, there, sizeof(there));

    if (is_elsewhere(key, other)) {
        return SIDE_NONE;
    }
    if (other == NULL) {
        return SIDE_ONE;
    }
    if (strcmp(mine, theirs) != 0) {
        return SIDE_APART;
    }
    return strcmp(mine, "unknown") == 0 && !is_open ? SIDE_NONE : SIDE_ALIKE;
}

/* Appends all values of one side, as in "errno 110, phase rtr". */
static void add_items(const json_t *finding, enum side side, const char *label,
                      struct weft_text *out)
{
    const json_t *evidence = json_object_get(finding, "evidence");
    struct paragraph paragraph = {0};
    char item[ITEM_BYTES];
    char number[32];
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)evidence, key, value)
    {
        if (side_of(finding, key, value) == side) {
            if (paragraph.out == NULL) {
                paragraph_begin(&paragraph, label, out);
            }
            weft_format(item, sizeof(item), "%s %s", side == SIDE_ALIKE ? key + 6 : key,
                        value_text(value, number, sizeof(number)));
            paragraph_item(&paragraph, item);
        }
    }
    if (paragraph.out != NULL) {
        paragraph_end(&paragraph);
    }
}

/* Appends a row for each value on which the ends differ. */
static void add_rows(const json_t *finding, struct weft_text *out)
{
    const json_t *evidence = json_object_get(finding, "evidence");
    const json_t *where = json_object_get(finding, "where");
    const char *heads[] = {"", json_read_text(where, "host", "this end"),
                           json_read_text(where, "peer", "the other end")};
    struct columns columns;
    bool is_empty = true;
    char number[32];
    const char *key;
    json_t *value;

    columns_init(&columns, heads, 3);
    json_object_foreach((json_t *)(uintptr_t)evidence, key, value)
    {
        if (side_of(finding, key, value) == SIDE_APART) {
            is_empty = false;
            columns_row(&columns);
            columns_cell(&columns, "%s", key + 6);
            columns_cell(&columns, "%s", value_text(value, number, sizeof(number)));
            columns_cell(&columns, "%s",
                         value_text(counterpart(evidence, key), number, sizeof(number)));
        }
    }
    if (!is_empty) {
        columns_print(&columns, "         ", out);
    }
    columns_fini(&columns);
}

static void add_question(const char *question, struct weft_text *out)
{
    struct paragraph paragraph;

    if (question[0] != '\0') {
        paragraph_begin(&paragraph, "         ", out);
        paragraph_words(&paragraph, question);
        paragraph_end(&paragraph);
    }
}

void report_candidates(const json_t *finding, struct weft_text *out)
{
    const json_t *evidence = json_object_get(finding, "evidence");

    for (int i = 1;; i++) {
        char candidate[24], decide[24], question[24];

        weft_format(candidate, sizeof(candidate), "candidate_%d", i);
        weft_format(decide, sizeof(decide), "to_decide_%d", i);
        weft_format(question, sizeof(question), "question_%d", i);
        if (json_object_get(evidence, decide) == NULL) {
            return;
        }
        weft_text_add(out, "  maybe  %-24s to decide: %s\n",
                      json_read_text(evidence, candidate, "another cause"),
                      json_read_text(evidence, decide, "?"));
        add_question(json_read_text(evidence, question, ""), out);
    }
}

bool report_is_survived(const json_t *finding)
{
    return json_object_get(json_object_get(finding, "evidence"), "survived") != NULL;
}

void report_evidence(const json_t *finding, struct weft_text *out)
{
    add_items(finding, SIDE_ONE, "  seen   ", out);
    add_items(finding, SIDE_ALIKE, "  both   ", out);
    add_rows(finding, out);
    report_candidates(finding, out);
}
