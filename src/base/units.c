#include "base/units.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

struct unit {
    const char *name;
    uint64_t factor; /* multiple of the smallest unit */
};

/* Larger units first, because the larger unit is selected if two texts have equal length. */
static const struct unit rate_units[] = {{"Tbps", 1000000000000u},
                                         {"Gbps", 1000000000u},
                                         {"Mbps", 1000000u},
                                         {"Kbps", 1000u},
                                         {"bps", 1}};
static const struct unit size_units[] = {
    {"TiB", UINT64_C(1) << 40}, {"TB", 1000000000000u}, {"GiB", UINT64_C(1) << 30},
    {"GB", 1000000000u},        {"MiB", 1u << 20},      {"MB", 1000000u},
    {"KiB", 1u << 10},          {"KB", 1000u},          {"B", 1},
};
static const struct unit time_units[] = {
    {"s", 1000000000u}, {"ms", 1000000u}, {"us", 1000u}, {"ns", 1}};
static const struct unit bandwidth_units[] = {
    {"GBps", 1000000000u}, {"MBps", 1000000u}, {"KBps", 1000u}};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A decimal number as its digits in the text, without rounding. */
struct decimal {
    const char *whole; /* [n_whole] digits, at least one */
    size_t n_whole;
    const char *fraction; /* [n_fraction] digits; none without a point */
    size_t n_fraction;
    bool has_point;
    const char *rest;
};

static bool scan_decimal(const char *text, struct decimal *out)
{
    *out = (struct decimal){.whole = text};
    while (is_digit(*text)) {
        text++;
    }
    out->n_whole = (size_t)(text - out->whole);
    out->fraction = text;
    if (*text == '.') {
        out->has_point = true;
        out->fraction = ++text;
        while (is_digit(*text)) {
            text++;
        }
        out->n_fraction = (size_t)(text - out->fraction);
    }
    out->rest = text;
    return out->n_whole > 0 && (!out->has_point || out->n_fraction > 0);
}

/* Sets *out = decimal * factor exactly. Returns false, and sets nothing, if the product overflows
 * or is not an integer. */
static bool scale(const struct decimal *decimal, uint64_t factor, uint64_t *out)
{
    uint64_t whole = 0, part = 0;

    for (size_t i = 0; i < decimal->n_whole; i++) {
        if (__builtin_mul_overflow(whole, 10u, &whole) ||
            __builtin_add_overflow(whole, (uint64_t)(decimal->whole[i] - '0'), &whole)) {
            return false;
        }
    }
    /* Start at the last digit. Each step must divide by ten without a remainder, because the digits
     * further left only add multiples of ten. factor <= 2^40, so `part` cannot overflow. */
    for (size_t i = decimal->n_fraction; i > 0; i--) {
        part += (uint64_t)(decimal->fraction[i - 1] - '0') * factor;
        if (part % 10 != 0) {
            return false;
        }
        part /= 10;
    }
    if (__builtin_mul_overflow(whole, factor, &whole) ||
        __builtin_add_overflow(whole, part, &whole)) {
        return false;
    }
    *out = whole;
    return true;
}

static bool apply_unit(const struct decimal *decimal, const struct unit *units,
                       size_t n_units, uint64_t *out)
{
    for (size_t i = 0; i < n_units; i++) {
        if (strcmp(decimal->rest, units[i].name) == 0) {
            return scale(decimal, units[i].factor, out);
        }
    }
    return false;
}

static bool parse(const char *text, const struct unit *units, size_t n_units,
                  uint64_t *out)
{
    struct decimal decimal;

    return scan_decimal(text, &decimal) && apply_unit(&decimal, units, n_units, out);
}

bool weft_parse_rate_bps(const char *text, uint64_t *out)
{
    return parse(text, rate_units, WEFT_LENGTH(rate_units), out);
}

bool weft_parse_size_bytes(const char *text, uint64_t *out)
{
    static const struct unit bare = {"", 1};
    struct decimal decimal;

    if (scan_decimal(text, &decimal) && *decimal.rest == '\0') {
        return !decimal.has_point && parse(text, &bare, 1, out);
    }
    return parse(text, size_units, WEFT_LENGTH(size_units), out);
}

bool weft_parse_time_ns(const char *text, weft_ns *out)
{
    uint64_t value;

    /* WEFT_NEVER is reserved. */
    if (!parse(text, time_units, WEFT_LENGTH(time_units), &value) ||
        value >= (uint64_t)WEFT_NEVER) {
        return false;
    }
    *out = (weft_ns)value;
    return true;
}

bool weft_parse_share_ppb(const char *text, uint32_t *out)
{
    struct decimal decimal;
    uint64_t value;
    bool is_percent;

    if (!scan_decimal(text, &decimal)) {
        return false;
    }
    is_percent = strcmp(decimal.rest, "%") == 0;
    if (!is_percent && (*decimal.rest != '\0' || !decimal.has_point)) {
        return false;
    }
    if (!scale(&decimal, is_percent ? 10000000u : 1000000000u, &value) ||
        value > 1000000000u) {
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

bool weft_parse_bandwidth(const char *text, uint64_t *out_bytes_per_s)
{
    struct decimal decimal;

    if (!scan_decimal(text, &decimal)) {
        return false;
    }
    decimal.rest += *decimal.rest == ' ';
    return apply_unit(&decimal, bandwidth_units, WEFT_LENGTH(bandwidth_units),
                      out_bytes_per_s);
}

/* Writes value / unit without rounding ("1.5us"). The fraction is finite because every factor is a
 * power of ten or of two; it has at most 40 digits (TiB). */
static void format_in(uint64_t value, const struct unit *unit, char *out,
                      size_t out_bytes)
{
    char fraction[48];
    size_t n = 0;
    uint64_t left = value % unit->factor;

    while (left != 0 && n + 1 < sizeof(fraction)) {
        left *= 10;
        fraction[n++] = (char)('0' + left / unit->factor);
        left %= unit->factor;
    }
    fraction[n] = '\0';
    weft_format(out, out_bytes, "%llu%s%s%s", (unsigned long long)(value / unit->factor),
                n > 0 ? "." : "", fraction, unit->name);
}

static void format_shortest(uint64_t value, const struct unit *units, size_t n_units,
                            char *out, size_t out_bytes)
{
    char best[96], candidate[96];

    format_in(value, &units[n_units - 1], best, sizeof(best));
    for (size_t i = n_units - 1; i > 0; i--) {
        if (value < units[i - 1].factor) {
            continue;
        }
        format_in(value, &units[i - 1], candidate, sizeof(candidate));
        if (strlen(candidate) <= strlen(best)) {
            memcpy(best, candidate, sizeof(best));
        }
    }
    weft_format(out, out_bytes, "%s", best);
}

void weft_format_rate(uint64_t rate_bps, char *out, size_t out_bytes)
{
    format_shortest(rate_bps, rate_units, WEFT_LENGTH(rate_units), out, out_bytes);
}

void weft_format_size(uint64_t size_bytes, char *out, size_t out_bytes)
{
    format_shortest(size_bytes, size_units, WEFT_LENGTH(size_units), out, out_bytes);
}

void weft_format_time(weft_ns time_ns, char *out, size_t out_bytes)
{
    if (time_ns == WEFT_NEVER) {
        weft_format(out, out_bytes, "never");
        return;
    }
    if (time_ns < 0 && out_bytes > 1) {
        *out++ = '-';
        out_bytes--;
    }
    format_shortest(time_ns < 0 ? 0 - (uint64_t)time_ns : (uint64_t)time_ns, time_units,
                    WEFT_LENGTH(time_units), out, out_bytes);
}
