#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "scenario/tree.h"

static bool is_one_of(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(text, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

static size_t span(const char *text, const char *accept)
{
    return strspn(text, accept);
}

#define DIGITS "0123456789_"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_int(const char *text)
{
    if (strncmp(text, "0x", 2) == 0) {
        size_t n = span(text + 2, DIGITS "abcdefABCDEF");
        return n > 0 && text[2 + n] == '\0';
    }
    if (!is_digit(text[0])) {
        return false;
    }
    size_t n = span(text, DIGITS);
    while (text[n] == ':' && text[n + 1] >= '0' && text[n + 1] <= '9') {
        n += 1 + span(text + n + 1, DIGITS); /* base 60, such as 1:30 */
    }
    return text[n] == '\0';
}

static bool is_float(const char *text)
{
    static const char *const words[] = {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"};
    if (is_one_of(text, words, WEFT_LENGTH(words))) {
        return true;
    }
    size_t n_whole = is_digit(text[0]) ? span(text, DIGITS) : 0;
    const char *p = text + n_whole;
    if (*p != '.') {
        return false;
    }
    if (n_whole == 0 && !is_digit(p[1])) {
        return false;
    }
    size_t n_part = span(p + 1, DIGITS);
    p += 1 + n_part;
    if (*p == 'e' || *p == 'E') {
        p += 1 + (p[1] == '+' || p[1] == '-');
        if (!is_digit(*p)) {
            return false;
        }
        p += span(p, DIGITS);
    }
    return *p == '\0';
}

enum tree_scalar tree_scalar_kind(const struct tree_node *node)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    static const char *const bools[] = {"true", "True", "TRUE", "false", "False", "FALSE",
                                        "yes",  "Yes",  "YES",  "no",    "No",    "NO",
                                        "on",   "On",   "ON",   "off",   "Off",   "OFF"};
    weft_check(node->kind == TREE_SCALAR);
    const char *text = node->text;
    if (node->is_quoted) {
        return TREE_TEXT;
    }
    if (is_one_of(text, nulls, WEFT_LENGTH(nulls))) {
        return TREE_NULL;
    }
    if (is_one_of(text, bools, WEFT_LENGTH(bools))) {
        return TREE_BOOL;
    }
    if (text[0] == '-' || text[0] == '+') {
        text++;
    }
    if (is_int(text)) {
        return TREE_INT;
    }
    return is_float(text) ? TREE_FLOAT : TREE_TEXT;
}

char *tree_describe(const struct tree_node *node, char *out)
{
    char quoted[DIAGNOSE_QUOTE_BYTES];
    if (node->kind != TREE_SCALAR) {
        weft_format(out, TREE_DESCRIBE_BYTES, "%s",
                    node->kind == TREE_LIST ? "a list" : "a map");
        return out;
    }
    diagnose_quote(node->text, quoted);
    switch (tree_scalar_kind(node)) {
    case TREE_NULL:
        weft_format(out, TREE_DESCRIBE_BYTES, "nothing");
        break;
    case TREE_BOOL:
    case TREE_INT:
    case TREE_FLOAT:
        weft_format(out, TREE_DESCRIBE_BYTES, "%s", quoted);
        break;
    case TREE_TEXT:
        weft_format(out, TREE_DESCRIBE_BYTES, "'%s'", quoted);
        break;
    }
    return out;
}
