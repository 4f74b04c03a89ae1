#include "io/addr.h"

#include <string.h>

#include "base/text.h"

static const uint8_t v4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool io_ip_is_v4(const struct io_ip *ip)
{
    return memcmp(ip->bytes, v4_prefix, sizeof v4_prefix) == 0;
}

bool io_ip_is_link_local(const struct io_ip *ip)
{
    if (io_ip_is_v4(ip)) {
        return ip->bytes[12] == 169 && ip->bytes[13] == 254;
    }
    return ip->bytes[0] == 0xfe && (ip->bytes[1] & 0xc0) == 0x80;
}

bool io_ip_is_zero(const struct io_ip *ip)
{
    static const uint8_t zero[16];
    if (io_ip_is_v4(ip)) {
        return memcmp(ip->bytes + 12, zero, 4) == 0;
    }
    return memcmp(ip->bytes, zero, sizeof zero) == 0;
}

bool io_ip_equal(const struct io_ip *a, const struct io_ip *b)
{
    return io_ip_compare(a, b) == 0;
}

int io_ip_compare(const struct io_ip *a, const struct io_ip *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

bool io_ip_same_subnet(const struct io_ip *a, const struct io_ip *b, unsigned prefix_len)
{
    bool is_v4 = io_ip_is_v4(a);
    if (is_v4 != io_ip_is_v4(b)) {
        return false;
    }
    unsigned n_bits = prefix_len + (is_v4 ? 96 : 0);
    if (n_bits > 128) {
        n_bits = 128;
    }
    unsigned n_bytes = n_bits / 8;
    if (memcmp(a->bytes, b->bytes, n_bytes) != 0) {
        return false;
    }
    unsigned left = n_bits % 8;
    return left == 0 || (a->bytes[n_bytes] ^ b->bytes[n_bytes]) >> (8 - left) == 0;
}

/* Returns the first group of the longest run of at least two zero groups, the first of equals (RFC
 * 5952, 4.2); -1 if there is none. */
static int longest_zero_run(const unsigned *groups, int *out_n)
{
    int best = -1;
    *out_n = 1;
    for (int i = 0; i < 8; i++) {
        int n = 0;
        while (i + n < 8 && groups[i + n] == 0) {
            n++;
        }
        if (n > *out_n) {
            best = i;
            *out_n = n;
        }
        i += n;
    }
    return best;
}

char *io_ip_format(const struct io_ip *ip, char *out, size_t out_bytes)
{
    const uint8_t *b = ip->bytes;
    if (io_ip_is_v4(ip)) {
        weft_format(out, out_bytes, "%u.%u.%u.%u", b[12], b[13], b[14], b[15]);
        return out;
    }
    unsigned groups[8];
    for (int i = 0; i < 8; i++) {
        groups[i] = (unsigned)b[2 * i] << 8 | b[2 * i + 1];
    }
    int n_zero;
    int zero = longest_zero_run(groups, &n_zero);
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < 8; i++) {
        if (i == zero) {
            weft_format(out + n, out_bytes - n, "::");
            i += n_zero - 1;
        } else {
            bool after_gap = i == 0 || out[n - 1] == ':';
            weft_format(out + n, out_bytes - n, "%s%x", after_gap ? "" : ":", groups[i]);
        }
        n = strlen(out);
    }
    return out;
}

static bool parse_number(const char **at, unsigned base, unsigned max,
                         unsigned n_digits_max, unsigned *out)
{
    static const char digits[] = "0123456789abcdef";
    unsigned value = 0;
    unsigned n = 0;
    for (; **at != '\0'; (*at)++, n++) {
        char c = **at;
        if (c >= 'A' && c <= 'F') {
            c = (char)(c - 'A' + 'a');
        }
        const char *digit = strchr(digits, c);
        if (digit == NULL || (unsigned)(digit - digits) >= base) {
            break;
        }
        if (n == n_digits_max) {
            return false;
        }
        value = value * base + (unsigned)(digit - digits);
    }
    *out = value;
    return n > 0 && value <= max;
}

/* Parses four decimal bytes. Leading zeros are rejected, because some programs read them as octal.
 * Moves `*at` past them. */
static bool parse_dotted(const char **at, uint8_t out[4])
{
    for (int i = 0; i < 4; i++) {
        if (i > 0 && *(*at)++ != '.') {
            return false;
        }
        unsigned value;
        bool leading_zero = (*at)[0] == '0' && (*at)[1] >= '0' && (*at)[1] <= '9';
        if (leading_zero || !parse_number(at, 10, 255, 3, &value)) {
            return false;
        }
        out[i] = (uint8_t)value;
    }
    return true;
}

/* Parses groups up to the end of the text or a '/'; `*out_gap` is the position of "::", or -1. */
static bool parse_groups(const char **at, uint8_t bytes[16], int *out_n, int *out_gap)
{
    int n = 0;
    int gap = -1;
    if ((*at)[0] == ':') {
        if ((*at)[1] != ':') {
            return false;
        }
        gap = 0;
        *at += 2;
    }
    while (**at != '\0' && **at != '/') {
        const char *dotted = *at;
        if (n <= 12 && parse_dotted(&dotted, bytes + n)) {
            *at = dotted;
            n += 4;
            break;
        }
        unsigned group;
        if (n == 16 || !parse_number(at, 16, 0xffff, 4, &group)) {
            return false;
        }
        bytes[n++] = (uint8_t)(group >> 8);
        bytes[n++] = (uint8_t)group;
        if (**at == ':') {
            (*at)++;
            if (**at == ':') {
                if (gap >= 0) {
                    return false;
                }
                gap = n;
                (*at)++;
            } else if (**at == '\0' || **at == '/') {
                return false;
            }
        } else if (**at != '\0' && **at != '/') {
            return false;
        }
    }
    *out_n = n;
    *out_gap = gap;
    return true;
}

static bool parse_v6(const char **at, struct io_ip *out)
{
    uint8_t bytes[16] = {0};
    int n;
    int gap;
    if (!parse_groups(at, bytes, &n, &gap)) {
        return false;
    }
    bool complete = gap < 0 ? n == 16 : n <= 14;
    if (!complete) {
        return false;
    }
    memset(out->bytes, 0, sizeof out->bytes);
    if (gap < 0) {
        gap = n;
    }
    memcpy(out->bytes, bytes, (size_t)gap);
    memcpy(out->bytes + 16 - (n - gap), bytes + gap, (size_t)(n - gap));
    return true;
}

static bool parse_ip(const char **at, struct io_ip *out)
{
    const char *dotted = *at;
    uint8_t v4[4];
    if (strchr(*at, ':') != NULL) {
        return parse_v6(at, out);
    }
    if (!parse_dotted(&dotted, v4)) {
        return false;
    }
    *at = dotted;
    *out = io_ip_v4(v4[0], v4[1], v4[2], v4[3]);
    return true;
}

bool io_ip_parse(const char *text, struct io_ip *out)
{
    struct io_ip ip;
    if (!parse_ip(&text, &ip) || *text != '\0') {
        return false;
    }
    *out = ip;
    return true;
}

bool io_prefix_parse(const char *text, struct io_prefix *out)
{
    struct io_prefix prefix;
    if (!parse_ip(&text, &prefix.ip) || *text++ != '/') {
        return false;
    }
    unsigned len;
    unsigned max = io_ip_is_v4(&prefix.ip) ? 32 : 128;
    if (!parse_number(&text, 10, max, 3, &len) || *text != '\0') {
        return false;
    }
    prefix.prefix_len = (uint8_t)len;
    *out = prefix;
    return true;
}

struct io_ip io_ip_v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
    struct io_ip ip;
    memcpy(ip.bytes, v4_prefix, sizeof v4_prefix);
    ip.bytes[12] = a;
    ip.bytes[13] = b;
    ip.bytes[14] = c;
    ip.bytes[15] = d;
    return ip;
}
