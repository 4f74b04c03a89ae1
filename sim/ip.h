/* IP addresses of the simulated hosts: 16 bytes, IPv4 as ::ffff:a.b.c.d, as in a RoCE
 * GID. */
#ifndef WEFT_SIM_IP_H
#define WEFT_SIM_IP_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_ip {
    uint8_t bytes[16];
};

/* An address and the length of its prefix within its family: 0 to 32, or 0 to 128. */
struct sim_prefix {
    struct sim_ip ip;
    uint8_t prefix_len;
};

/* A TCP endpoint; `ifindex` is 0 for any interface. */
struct sim_endpoint {
    struct sim_ip ip;
    uint16_t port;
    uint32_t ifindex;
};

#define SIM_IP_TEXT_BYTES 40

bool sim_ip_is_v4(const struct sim_ip *ip);
bool sim_ip_is_zero(const struct sim_ip *ip); /* :: or 0.0.0.0 */
/* Returns true for fe80::/64, whose addresses are valid on one interface only. */
bool sim_ip_is_link_local_v6(const struct sim_ip *ip);
/* Returns true for 127.0.0.0/8 and ::1, which mean the local host on every host. */
bool sim_ip_is_loopback(const struct sim_ip *ip);
bool sim_ip_is_multicast(const struct sim_ip *ip); /* 224.0.0.0/4, ff00::/8 */
/* Returns true if all bits of an IPv4 address behind the prefix are ones: its directed
 * broadcast. */
bool sim_ip_is_last(const struct sim_ip *ip, unsigned prefix_len);
bool sim_ip_equal(const struct sim_ip *a, const struct sim_ip *b);
/* Returns true if both are of one family and equal in the first `prefix_len` bits. */
bool sim_ip_in_prefix(const struct sim_ip *ip, const struct sim_ip *net,
                      unsigned prefix_len);
/* Formats `ip` as 10.0.0.1, or as fe80:0:0:0:0:0:0:1 without shortening. Returns
 * `out`. */
char *sim_ip_format(const struct sim_ip *ip, char out[SIM_IP_TEXT_BYTES]);
struct sim_ip sim_ip_v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d);
struct sim_ip sim_ip_of_gid(const union ibv_gid *gid);
union ibv_gid sim_gid_of_ip(const struct sim_ip *ip);
/* Returns the default GID: fe80:: with the EUI-64 of `mac` (RFC 4291, appendix A). */
struct sim_ip sim_ip_of_mac(uint64_t mac);
/* Returns the MAC inside an address made by sim_ip_of_mac() (rdma_get_ll_mac). */
uint64_t sim_mac_of_ip(const struct sim_ip *ip);
/* Returns the group MAC of a multicast address: 01:00:5e and 23 bits (RFC 1112), or 33:33
 * and 32 bits (RFC 2464). */
uint64_t sim_mac_of_group(const struct sim_ip *ip);

#endif
