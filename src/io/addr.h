/* IP addresses in a common form: 16 bytes, IPv4 as ::ffff:a.b.c.d, which is also its RoCE GID. */
#ifndef WEFT_IO_ADDR_H
#define WEFT_IO_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct io_ip {
    uint8_t bytes[16];
};

/* An address on an interface. prefix_len is that of the address's own family: 0..32 for IPv4,
 * 0..128 for IPv6. */
struct io_prefix {
    struct io_ip ip;
    uint8_t prefix_len;
};

/* A TCP endpoint. `ifindex` scopes link-local addresses and binds to an interface; 0 for any
 * interface. */
struct io_endpoint {
    struct io_ip ip;
    uint16_t port;
    uint32_t ifindex;
};

#define IO_IP_TEXT_BYTES 48 /* enough for any address, with "/128" */

bool io_ip_is_v4(const struct io_ip *ip);
bool io_ip_is_link_local(const struct io_ip *ip); /* fe80::/10 or 169.254/16 */
bool io_ip_is_zero(const struct io_ip *ip);       /* :: or 0.0.0.0 */
bool io_ip_equal(const struct io_ip *a, const struct io_ip *b);
/* Compares like memcmp, for sorting and tie-breaks. */
int io_ip_compare(const struct io_ip *a, const struct io_ip *b);
/* Returns true if both have the same family and are equal in the first prefix_len bits of that
 * family's address. */
bool io_ip_same_subnet(const struct io_ip *a, const struct io_ip *b, unsigned prefix_len);
/* Writes "10.0.0.1" or "fe80::1" (RFC 5952); `out` must hold at least IO_IP_TEXT_BYTES. Returns
 * `out`. */
char *io_ip_format(const struct io_ip *ip, char *out, size_t out_bytes);
/* Parses "10.0.0.1" or "fe80::1", not host names. On failure it returns false and leaves `*out`
 * unchanged. */
bool io_ip_parse(const char *text, struct io_ip *out);
/* Parses "10.0.0.1/24". Returns false, with `*out` unchanged, also if the prefix is missing or too
 * long. */
bool io_prefix_parse(const char *text, struct io_prefix *out);
struct io_ip io_ip_v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d);

#endif
