#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"
#include "scenario/walk.h"

#define RATE_WHAT "a rate with its unit (bps, Kbps, Mbps, Gbps), such as 100Gbps"
#define SIZE_WHAT "a size such as 1MiB (B, KiB, MiB, GiB, KB, MB, GB; bare: bytes)"
#define TIME_WHAT "a time with its unit (ns, us, ms, s), such as 500us"
#define SHARE_WHAT "a share, such as 0.1% or 0.001"

bool complain_type(struct loader *loader, const struct tree_node *node, const char *name,
                   const char *what)
{
    char got[TREE_DESCRIBE_BYTES];
    return complain(loader, node->mark, "%s: expected %s, got %s", name, what,
                    tree_describe(node, got));
}

/* Parses a decimal number without sign or leading zero, because other forms are ambiguous. */
static bool parse_u64(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    if (text[0] == '\0' || (text[0] == '0' && text[1] != '\0')) {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') {
            return false;
        }
        uint64_t digit = (uint64_t)(*text - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

static bool is_number(const struct tree_node *node)
{
    return node->kind == TREE_SCALAR && tree_scalar_kind(node) == TREE_INT;
}

/* Returns true for a quantity: text with a unit, or a bare number that YAML also reads as
 * `number`. */
static bool is_quantity(const struct tree_node *node, enum tree_scalar number)
{
    if (node->kind != TREE_SCALAR) {
        return false;
    }
    enum tree_scalar kind = tree_scalar_kind(node);
    if (kind != TREE_TEXT || !node->is_quoted) {
        return kind == TREE_TEXT || kind == number;
    }
    return strpbrk(node->text, "bBs%") != NULL;
}

bool read_u64(struct loader *loader, const struct tree_node *node, const char *name,
              uint64_t min, uint64_t max, uint64_t *out)
{
    uint64_t value;
    if (!is_number(node) || !parse_u64(node->text, &value)) {
        return complain_type(loader, node, name, "a whole number");
    }
    if (value < min || value > max) {
        return complain(loader, node->mark,
                        "%s: %" PRIu64 " is not in %" PRIu64 "..%" PRIu64, name, value,
                        min, max);
    }
    *out = value;
    return true;
}

bool read_u32(struct loader *loader, const struct tree_node *node, const char *name,
              uint32_t min, uint32_t max, uint32_t *out)
{
    uint64_t value = 0;
    if (!read_u64(loader, node, name, min, max, &value)) {
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

bool read_bool(struct loader *loader, const struct tree_node *node, const char *name,
               bool *out)
{
    if (node->kind != TREE_SCALAR || tree_scalar_kind(node) != TREE_BOOL) {
        return complain_type(loader, node, name, "true or false");
    }
    char first = node->text[0], second = node->text[1];
    bool is_on = (first == 'o' || first == 'O') && (second == 'n' || second == 'N');
    *out = is_on || first == 't' || first == 'T' || first == 'y' || first == 'Y';
    return true;
}

bool read_rate(struct loader *loader, const struct tree_node *node, const char *name,
               uint64_t *out)
{
    uint64_t value;
    if (!is_quantity(node, TREE_TEXT) || !weft_parse_rate_bps(node->text, &value)) {
        return complain_type(loader, node, name, RATE_WHAT);
    }
    if (value == 0 || value > WALK_RATE_MAX) {
        return complain(loader, node->mark, "%s: %s is not in 1bps..100Tbps", name,
                        node->text);
    }
    *out = value;
    return true;
}

/* Complains about a size, and suggests the one with the right capitals if only these are
 * wrong. */
static bool complain_size(struct loader *loader, const struct tree_node *node,
                          const char *name)
{
    static const char *const units[] = {"B",  "KiB", "MiB", "GiB", "TiB",
                                        "KB", "MB",  "GB",  "TB"};
    char got[TREE_DESCRIBE_BYTES];
    size_t n = node->kind == TREE_SCALAR ? strspn(node->text, "0123456789.") : 0;

    for (size_t i = 0; n > 0 && n < 20 && i < WEFT_LENGTH(units); i++) {
        const char *unit = node->text + n;
        size_t k = 0;

        while (unit[k] != '\0' && units[i][k] != '\0' &&
               (unit[k] | 0x20) == (units[i][k] | 0x20)) {
            k++;
        }
        if (unit[k] == '\0' && units[i][k] == '\0' && strcmp(unit, units[i]) != 0) {
            return complain(loader, node->mark,
                            "%s: expected " SIZE_WHAT ", got %s; did you mean '%.*s%s'?",
                            name, tree_describe(node, got), (int)n, node->text, units[i]);
        }
    }
    return complain_type(loader, node, name, SIZE_WHAT);
}

bool read_size(struct loader *loader, const struct tree_node *node, const char *name,
               uint64_t min, uint64_t max, uint64_t *out)
{
    uint64_t value;
    if (!is_quantity(node, TREE_INT) || !weft_parse_size_bytes(node->text, &value)) {
        return complain_size(loader, node, name);
    }
    if (value < min || value > max) {
        char low[32], high[32];
        weft_format_size(min, low, sizeof(low));
        weft_format_size(max, high, sizeof(high));
        return complain(loader, node->mark, "%s: %s is not in %s..%s", name, node->text,
                        low, high);
    }
    *out = value;
    return true;
}

bool read_time(struct loader *loader, const struct tree_node *node, const char *name,
               weft_ns *out)
{
    weft_ns value;
    if (!is_quantity(node, TREE_TEXT) || !weft_parse_time_ns(node->text, &value)) {
        return complain_type(loader, node, name, TIME_WHAT);
    }
    if (value > WALK_TIME_MAX) {
        return complain(loader, node->mark, "%s: %s is more than 1000000s", name,
                        node->text);
    }
    *out = value;
    return true;
}

bool read_share(struct loader *loader, const struct tree_node *node, const char *name,
                uint32_t *out)
{
    uint32_t value;
    if (!is_quantity(node, TREE_FLOAT) || !weft_parse_share_ppb(node->text, &value)) {
        return complain_type(loader, node, name, SHARE_WHAT);
    }
    *out = value;
    return true;
}

bool read_text(struct loader *loader, const struct tree_node *node, const char *name,
               const char **out)
{
    if (node->kind != TREE_SCALAR || tree_scalar_kind(node) != TREE_TEXT) {
        return complain_type(loader, node, name, "text");
    }
    *out = node->text;
    return true;
}

bool read_scalar(struct loader *loader, const struct tree_node *node, const char *name,
                 const char **out)
{
    if (node->kind != TREE_SCALAR || tree_scalar_kind(node) == TREE_NULL) {
        return complain_type(loader, node, name, "a value (\"\" for an empty one)");
    }
    *out = node->text;
    return true;
}

bool read_choice(struct loader *loader, const struct tree_node *node, const char *name,
                 const char *const *choices, unsigned n_choices, unsigned *out)
{
    struct weft_text what = {0};
    char got[TREE_DESCRIBE_BYTES];
    char hint[64] = "";
    if (node->kind == TREE_SCALAR) {
        for (unsigned i = 0; i < n_choices; i++) {
            if (strcmp(node->text, choices[i]) == 0) {
                *out = i;
                return true;
            }
        }
    }
    for (unsigned i = 0; i < n_choices; i++) {
        weft_text_add(&what, "%s%s",
                      i == 0               ? ""
                      : i + 1 == n_choices ? " or "
                                           : ", ",
                      choices[i]);
    }
    if (node->kind == TREE_SCALAR) {
        diagnose_hint(node->text, choices, n_choices, hint, sizeof(hint));
    }
    complain(loader, node->mark, "%s: expected %s, got %s%s", name, what.bytes,
             tree_describe(node, got), hint);
    weft_text_fini(&what);
    return false;
}

bool read_list(struct loader *loader, const struct tree_node *node, const char *name,
               uint32_t n_min, uint32_t n_max)
{
    if (node->kind != TREE_LIST) {
        return complain_type(loader, node, name, "a list");
    }
    if (node->n < n_min || node->n > n_max) {
        if (n_min == n_max) {
            return complain(loader, node->mark, "%s: expected %u element%s, got %u", name,
                            n_min, n_min == 1 ? "" : "s", node->n);
        }
        return complain(loader, node->mark, "%s: expected %u..%u elements, got %u", name,
                        n_min, n_max, node->n);
    }
    return true;
}

bool read_map(struct loader *loader, const struct tree_node *node, const char *name)
{
    return node->kind == TREE_MAP || complain_type(loader, node, name, "a map");
}

bool is_name(const char *text, size_t n_max, bool is_lower, const char *others)
{
    size_t n = strlen(text);
    if (n == 0 || n > n_max) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (!is_lower && c >= 'A' && c <= 'Z');
        bool is_digit = c >= '0' && c <= '9';
        if (!is_letter && !is_digit && (i == 0 || strchr(others, c) == NULL)) {
            return false;
        }
    }
    return true;
}
