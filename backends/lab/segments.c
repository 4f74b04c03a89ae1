#include "backends/lab/segments.h"

#include <string.h>

enum {
    ETHERNET_BYTES = 14,
    IPV6_BYTES = 40,
    UDP_BYTES = 8,
    UDP = 17, /* as the IP protocol */
    TYPE_IPV4 = 0x0800,
    TYPE_IPV6 = 0x86dd
};

static uint32_t get_u16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static void put_u16(uint8_t *at, size_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

/* Adds `n` bytes to a sum that sum_end() completes (RFC 1071). */
static uint32_t sum_add(uint32_t sum, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sum += i % 2 == 0 ? (uint32_t)bytes[i] << 8 : bytes[i];
    }
    return sum;
}

static uint32_t sum_end(uint32_t sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    return ~((sum & 0xffff) + (sum >> 16)) & 0xffff;
}

/* Returns the size of the IP header if the frame carries a whole UDP datagram, else 0. */
static size_t ip_bytes_of(const uint8_t *frame, size_t n_bytes)
{
    const uint8_t *ip = frame + ETHERNET_BYTES;
    size_t n = IPV6_BYTES;

    if (n_bytes < ETHERNET_BYTES + 20 + UDP_BYTES) {
        return 0;
    }
    if (get_u16(frame + 12) == TYPE_IPV4 && ip[9] == UDP) {
        n = (ip[0] & 0xfu) * 4;
        n = n < 20 ? n_bytes : n;
    } else if (get_u16(frame + 12) != TYPE_IPV6 || ip[6] != UDP) {
        return 0;
    }
    return n_bytes < ETHERNET_BYTES + n + UDP_BYTES ? 0 : n;
}

bool lab_segments_init(struct lab_segments *out, const uint8_t *frame, size_t n_bytes,
                       size_t segment_bytes)
{
    size_t n_ip = ip_bytes_of(frame, n_bytes);

    *out = (struct lab_segments){.frame = frame,
                                 .n_headers = ETHERNET_BYTES + n_ip + UDP_BYTES,
                                 .n_bytes = n_bytes,
                                 .at = ETHERNET_BYTES + n_ip + UDP_BYTES,
                                 .bytes = segment_bytes};
    return n_ip != 0 && segment_bytes != 0;
}

/* Sets the lengths and checksums of a frame with a UDP datagram of `n_udp` bytes. */
static void complete(uint8_t *frame, size_t n_headers, size_t n_udp)
{
    uint8_t *ip = frame + ETHERNET_BYTES;
    uint8_t *udp = frame + n_headers - UDP_BYTES;
    bool is_ipv4 = get_u16(frame + 12) == TYPE_IPV4;
    uint32_t sum = UDP + (uint32_t)n_udp;

    if (is_ipv4) {
        put_u16(ip + 2, (size_t)(udp - ip) + n_udp);
        put_u16(ip + 10, 0);
        put_u16(ip + 10, sum_end(sum_add(0, ip, (size_t)(udp - ip))));
        sum = sum_add(sum, ip + 12, 8);
    } else {
        put_u16(ip + 4, n_udp);
        sum = sum_add(sum, ip + 8, 32);
    }
    put_u16(udp + 4, n_udp);
    put_u16(udp + 6, 0);
    sum = sum_end(sum_add(sum, udp, n_udp));
    put_u16(udp + 6, sum == 0 ? 0xffff : sum); /* 0 is none (RFC 768) */
}

size_t lab_segments_next(struct lab_segments *segments, uint8_t *out)
{
    size_t n = segments->n_bytes - segments->at;

    if (n == 0) {
        return 0;
    }
    n = n < segments->bytes ? n : segments->bytes;
    memcpy(out, segments->frame, segments->n_headers);
    memcpy(out + segments->n_headers, segments->frame + segments->at, n);
    complete(out, segments->n_headers, n + UDP_BYTES);
    segments->at += n;
    return segments->n_headers + n;
}
