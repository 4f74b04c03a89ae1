#include "sim/icrc.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/check.h"
#include "sim/crc32_table.h"

enum {
    IPV4_BYTES = 20,
    IPV6_BYTES = 40,
    UDP_BYTES = 8,
    BTH_BYTES = 12,
    HEAD_BYTES_MAX = IPV6_BYTES + UDP_BYTES + BTH_BYTES
};

/* Processes eight bytes at a time, each with the table of its position. */
static uint32_t crc_by_tables(uint32_t crc, const uint8_t *bytes, size_t n_bytes)
{
    const uint32_t(*const table)[256] = sim_crc32_table;
    for (; n_bytes >= 8; bytes += 8, n_bytes -= 8) {
        uint32_t low = crc ^ ((uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 |
                              (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24);
        crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^
              table[5][low >> 16 & 0xff] ^ table[4][low >> 24] ^ table[3][bytes[4]] ^
              table[2][bytes[5]] ^ table[1][bytes[6]] ^ table[0][bytes[7]];
    }
    for (; n_bytes > 0; bytes++, n_bytes--) {
        crc = crc >> 8 ^ table[0][(crc ^ *bytes) & 0xff];
    }
    return crc;
}

#if defined(__x86_64__)
/* Folds by carry-less multiplication (V. Gopal et al., "Fast CRC Computation for Generic
 * Polynomials Using PCLMULQDQ Instruction", Intel 2009): 64 bytes are folded into the
 * next 64 as products with x^n mod P, until 16 are left, whose remainder is computed with
 * the tables. The constants are x^(n+32) mod P and x^(n-32) mod P for n = 512 and 128,
 * reflected, times x. */
__attribute__((target("pclmul,sse4.1"))) static __m128i fold(__m128i x, __m128i by,
                                                             __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(x, by, 0x00);
    __m128i high = _mm_clmulepi64_si128(x, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

static inline __m128i load(const uint8_t *bytes)
{
    return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

/* `n_bytes` must be at least 64. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t
crc_by_folding(uint32_t crc, const uint8_t *bytes, size_t n_bytes)
{
    const __m128i by_512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
    const __m128i by_128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    uint8_t rest[16];
    __m128i x[4];
    for (int i = 0; i < 4; i++) {
        x[i] = load(bytes + 16 * i);
    }
    x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)crc));
    bytes += 64;
    n_bytes -= 64;
    for (; n_bytes >= 64; bytes += 64, n_bytes -= 64) {
        for (int i = 0; i < 4; i++) {
            x[i] = fold(x[i], by_512, load(bytes + 16 * i));
        }
    }
    for (int i = 1; i < 4; i++) {
        x[0] = fold(x[0], by_128, x[i]);
    }
    for (; n_bytes >= 16; bytes += 16, n_bytes -= 16) {
        x[0] = fold(x[0], by_128, load(bytes));
    }
    _mm_storeu_si128((__m128i *)(void *)rest, x[0]);
    return crc_by_tables(crc_by_tables(0, rest, sizeof(rest)), bytes, n_bytes);
}
#endif

uint32_t sim_crc32(uint32_t crc, const uint8_t *bytes, size_t n_bytes)
{
#if defined(__x86_64__)
    if (n_bytes >= 64 && __builtin_cpu_supports("pclmul")) {
        return ~crc_by_folding(~crc, bytes, n_bytes);
    }
#endif
    return ~crc_by_tables(~crc, bytes, n_bytes);
}

/* Sets the bits that can change in transit to ones. Returns the length of the IP
 * header. */
static size_t mask_ip(uint8_t *head)
{
    if (head[0] >> 4 == 4) {
        head[1] = 0xff;             /* TOS */
        head[8] = 0xff;             /* TTL */
        memset(head + 10, 0xff, 2); /* checksum */
        return IPV4_BYTES;
    }
    head[0] |= 0x0f; /* traffic class and flow label, 28 bits */
    memset(head + 1, 0xff, 3);
    head[7] = 0xff; /* hop limit */
    return IPV6_BYTES;
}

uint32_t sim_icrc(const uint8_t *ip, size_t n_bytes, bool is_v1)
{
    uint8_t head[HEAD_BYTES_MAX];
    uint8_t lrh[8];
    size_t ip_bytes = ip[0] >> 4 == 4 ? IPV4_BYTES : IPV6_BYTES;
    size_t n_head = ip_bytes + (is_v1 ? 0 : UDP_BYTES) + BTH_BYTES;
    weft_check(n_bytes >= n_head);
    memcpy(head, ip, n_head);
    size_t at = mask_ip(head);
    if (!is_v1) {
        memset(head + at + 6, 0xff, 2); /* UDP checksum */
        at += UDP_BYTES;
    }
    head[at + 4] = 0xff;            /* FECN, BECN and six reserved bits */
    memset(lrh, 0xff, sizeof(lrh)); /* LRH, masked, which a RoCE packet does not have */
    uint32_t crc = sim_crc32(0, lrh, sizeof(lrh));
    crc = sim_crc32(crc, head, n_head);
    return sim_crc32(crc, ip + n_head, n_bytes - n_head);
}
