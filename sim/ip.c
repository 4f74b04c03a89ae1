#include "sim/ip.h"

#include <string.h>

#include "base/text.h"

static const uint8_t v4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool sim_ip_is_v4(const struct sim_ip *ip)
{
    return memcmp(ip->bytes, v4_prefix, sizeof v4_prefix) == 0;
}

bool sim_ip_is_zero(const struct sim_ip *ip)
{
    static const uint8_t zero[16];
    if (sim_ip_is_v4(ip)) {
        return memcmp(ip->bytes + 12, zero, 4) == 0;
    }
    return memcmp(ip->bytes, zero, sizeof zero) == 0;
}

bool sim_ip_is_link_local_v6(const struct sim_ip *ip)
{
    static const uint8_t prefix[8] = {0xfe, 0x80};
    return memcmp(ip->bytes, prefix, sizeof prefix) == 0;
}

bool sim_ip_is_loopback(const struct sim_ip *ip)
{
    static const uint8_t one[16] = {[15] = 1};
    return sim_ip_is_v4(ip) ? ip->bytes[12] == 127
                            : memcmp(ip->bytes, one, sizeof one) == 0;
}

bool sim_ip_is_multicast(const struct sim_ip *ip)
{
    return sim_ip_is_v4(ip) ? ip->bytes[12] >> 4 == 0xe : ip->bytes[0] == 0xff;
}

bool sim_ip_is_last(const struct sim_ip *ip, unsigned prefix_len)
{
    for (unsigned bit = prefix_len + 96; bit < 128; bit++) {
        if ((ip->bytes[bit / 8] >> (7 - bit % 8) & 1) == 0) {
            return false;
        }
    }
    return true;
}

bool sim_ip_equal(const struct sim_ip *a, const struct sim_ip *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

bool sim_ip_in_prefix(const struct sim_ip *ip, const struct sim_ip *net,
                      unsigned prefix_len)
{
    bool is_v4 = sim_ip_is_v4(net);
    if (is_v4 != sim_ip_is_v4(ip)) {
        return false;
    }
    unsigned n_bits = prefix_len + (is_v4 ? 96 : 0);
    unsigned n_bytes = n_bits / 8;
    unsigned left = n_bits % 8;
    if (memcmp(ip->bytes, net->bytes, n_bytes) != 0) {
        return false;
    }
    return left == 0 || (ip->bytes[n_bytes] ^ net->bytes[n_bytes]) >> (8 - left) == 0;
}

char *sim_ip_format(const struct sim_ip *ip, char out[SIM_IP_TEXT_BYTES])
{
    const uint8_t *b = ip->bytes;
    if (sim_ip_is_v4(ip)) {
        weft_format(out, SIM_IP_TEXT_BYTES, "%u.%u.%u.%u", b[12], b[13], b[14], b[15]);
        return out;
    }
    size_t n = 0;
    for (int i = 0; i < 16; i += 2) {
        weft_format(out + n, SIM_IP_TEXT_BYTES - n, "%s%x", i == 0 ? "" : ":",
                    (unsigned)b[i] << 8 | b[i + 1]);
        n = strlen(out);
    }
    return out;
}

struct sim_ip sim_ip_v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
    struct sim_ip ip;
    memcpy(ip.bytes, v4_prefix, sizeof v4_prefix);
    ip.bytes[12] = a;
    ip.bytes[13] = b;
    ip.bytes[14] = c;
    ip.bytes[15] = d;
    return ip;
}

struct sim_ip sim_ip_of_gid(const union ibv_gid *gid)
{
    struct sim_ip ip;
    memcpy(ip.bytes, gid->raw, sizeof ip.bytes);
    return ip;
}

union ibv_gid sim_gid_of_ip(const struct sim_ip *ip)
{
    union ibv_gid gid;
    memcpy(gid.raw, ip->bytes, sizeof gid.raw);
    return gid;
}

struct sim_ip sim_ip_of_mac(uint64_t mac)
{
    struct sim_ip ip = {{0xfe, 0x80}};
    ip.bytes[8] = (uint8_t)((mac >> 40) ^ 2);
    ip.bytes[9] = (uint8_t)(mac >> 32);
    ip.bytes[10] = (uint8_t)(mac >> 24);
    ip.bytes[11] = 0xff;
    ip.bytes[12] = 0xfe;
    ip.bytes[13] = (uint8_t)(mac >> 16);
    ip.bytes[14] = (uint8_t)(mac >> 8);
    ip.bytes[15] = (uint8_t)mac;
    return ip;
}

uint64_t sim_mac_of_ip(const struct sim_ip *ip)
{
    static const uint8_t order[6] = {8, 9, 10, 13, 14, 15};
    uint64_t mac = 0;
    for (int i = 0; i < 6; i++) {
        mac = mac << 8 | ip->bytes[order[i]];
    }
    return mac ^ (uint64_t)2 << 40;
}

uint64_t sim_mac_of_group(const struct sim_ip *ip)
{
    const uint8_t *b = ip->bytes + 12;
    uint64_t low =
        (uint64_t)b[0] << 24 | (uint64_t)b[1] << 16 | (uint64_t)b[2] << 8 | b[3];
    return sim_ip_is_v4(ip) ? 0x01005e000000u | (low & 0x7fffff) : 0x333300000000u | low;
}
