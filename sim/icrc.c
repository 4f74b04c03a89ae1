#include "sim/icrc.h"

#include <string.h>

#include "base/check.h"

enum {
    IPV4_BYTES = 20,
    IPV6_BYTES = 40,
    UDP_BYTES = 8,
    BTH_BYTES = 12,
    HEAD_BYTES_MAX = IPV6_BYTES + UDP_BYTES + BTH_BYTES
};

/* Nibble table of the reflected polynomial 0xedb88320. */
static const uint32_t nibble_crc[16] = {
    0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
    0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
    0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
};

uint32_t sim_crc32(uint32_t crc, const uint8_t *bytes, size_t n_bytes)
{
    crc = ~crc;
    for (size_t i = 0; i < n_bytes; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ nibble_crc[crc & 0xf];
        crc = crc >> 4 ^ nibble_crc[crc & 0xf];
    }
    return ~crc;
}

/* Fills with ones what may change on the way. */
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
    memset(lrh, 0xff, sizeof(lrh)); /* the masked LRH that a RoCE packet does not have */
    uint32_t crc = sim_crc32(0, lrh, sizeof(lrh));
    crc = sim_crc32(crc, head, n_head);
    return sim_crc32(crc, ip + n_head, n_bytes - n_head);
}
