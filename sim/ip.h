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

/* prefix_len counts within the address's family: 0..32 or 0..128. */
struct sim_prefix {
    struct sim_ip ip;
    uint8_t prefix_len;
};

/* A TCP endpoint; `ifindex` 0: any interface. */
struct sim_endpoint {
    struct sim_ip ip;
    uint16_t port;
    uint32_t ifindex;
};

#define SIM_IP_TEXT_BYTES 40

bool sim_ip_is_v4(const struct sim_ip *ip);
bool sim_ip_is_zero(const struct sim_ip *ip); /* :: or 0.0.0.0 */
/* fe80::/64, whose addresses mean something on one interface only. */
bool sim_ip_is_link_local_v6(const struct sim_ip *ip);
/* 127.0.0.0/8 and ::1: this host, on every host. */
bool sim_ip_is_loopback(const struct sim_ip *ip);
bool sim_ip_is_multicast(const struct sim_ip *ip); /* 224.0.0.0/4, ff00::/8 */
/* All bits behind the prefix are ones: its directed broadcast (IPv4). */
bool sim_ip_is_last(const struct sim_ip *ip, unsigned prefix_len);
bool sim_ip_equal(const struct sim_ip *a, const struct sim_ip *b);
/* Same family, and equal in the first prefix_len bits of it. */
bool sim_ip_in_prefix(const struct sim_ip *ip, const struct sim_ip *net,
                      unsigned prefix_len);
/* 10.0.0.1, or fe80:0:0:0:0:0:0:1 without shortening. `out` gets SIM_IP_TEXT_BYTES. */
char *sim_ip_format(const struct sim_ip *ip, char out[SIM_IP_TEXT_BYTES]);
struct sim_ip sim_ip_v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d);
struct sim_ip sim_ip_of_gid(const union ibv_gid *gid);
union ibv_gid sim_gid_of_ip(const struct sim_ip *ip);
/* fe80:: with the EUI-64 of `mac` (RFC 4291, appendix A): the default GID. */
struct sim_ip sim_ip_of_mac(uint64_t mac);
/* The MAC inside such an address (rdma_get_ll_mac). */
uint64_t sim_mac_of_ip(const struct sim_ip *ip);
/* The group address of a multicast one: 01:00:5e and 23 bits (RFC 1112), 33:33 and 32 bits
 * (RFC 2464). */
uint64_t sim_mac_of_group(const struct sim_ip *ip);

#endif
