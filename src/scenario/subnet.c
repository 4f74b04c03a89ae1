#include <string.h>

#include "base/text.h"
#include "scenario/topology.h"

static unsigned family_bits(const struct io_ip *ip)
{
    return io_ip_is_v4(ip) ? 32 : 128;
}

/* Returns the number of bits of the 16-byte form that the prefix covers. */
static unsigned prefix_bits(const struct io_prefix *prefix)
{
    return 128 - family_bits(&prefix->ip) + prefix->prefix_len;
}

struct io_prefix subnet_network(const struct io_prefix *prefix)
{
    struct io_prefix out = *prefix;
    unsigned n_bits = prefix_bits(prefix);
    for (unsigned i = 0; i < 16; i++) {
        unsigned n_kept = n_bits > 8 * i ? n_bits - 8 * i : 0;
        if (n_kept < 8) {
            out.ip.bytes[i] &= (uint8_t)(0xff00u >> n_kept);
        }
    }
    return out;
}

/* Returns the number of host addresses, saturating. */
static uint64_t capacity(const struct io_prefix *subnet)
{
    unsigned n_bits = family_bits(&subnet->ip) - subnet->prefix_len;
    if (n_bits <= 1) {
        return UINT64_C(1) << n_bits; /* point-to-point: RFC 3021, RFC 6164 */
    }
    if (n_bits >= 63) {
        return UINT64_MAX;
    }
    /* Excludes the network (or subnet-router anycast) address and IPv4's broadcast address. */
    return (UINT64_C(1) << n_bits) - (io_ip_is_v4(&subnet->ip) ? 2 : 1);
}

bool subnet_host(const struct io_prefix *subnet, uint64_t n, struct io_prefix *out)
{
    unsigned n_bits = family_bits(&subnet->ip) - subnet->prefix_len;
    if (n == 0 || n > capacity(subnet)) {
        return false;
    }
    uint64_t carry = n_bits <= 1 ? n - 1 : n;
    *out = *subnet;
    for (unsigned i = 16; i > 0 && carry > 0; i--) {
        uint64_t sum = out->ip.bytes[i - 1] + (carry & 0xff);
        out->ip.bytes[i - 1] = (uint8_t)sum;
        carry = (carry >> 8) + (sum >> 8);
    }
    return true;
}

bool subnet_contains(const struct io_prefix *subnet, const struct io_prefix *inner)
{
    if (io_ip_is_v4(&subnet->ip) != io_ip_is_v4(&inner->ip) ||
        inner->prefix_len < subnet->prefix_len) {
        return false;
    }
    struct io_prefix wide = {inner->ip, subnet->prefix_len};
    struct io_prefix a = subnet_network(subnet), b = subnet_network(&wide);
    return memcmp(a.ip.bytes, b.ip.bytes, sizeof(a.ip.bytes)) == 0;
}

char *subnet_format(const struct io_prefix *prefix, char *out)
{
    char ip[IO_IP_TEXT_BYTES];
    weft_format(out, IO_IP_TEXT_BYTES, "%s/%u", io_ip_format(&prefix->ip, ip, sizeof(ip)),
                prefix->prefix_len);
    return out;
}

/* Returns true for unicast addresses that are not local to a machine. Excludes 0/8, 127/8,
 * 224/3; ::, ::1, ff00::/8. */
static bool is_unicast(const struct io_ip *ip)
{
    if (io_ip_is_v4(ip)) {
        uint8_t first = ip->bytes[12];
        return first != 0 && first != 127 && first < 224;
    }
    static const uint8_t loopback[16] = {[15] = 1};
    return ip->bytes[0] != 0xff && !io_ip_is_zero(ip) &&
           memcmp(ip->bytes, loopback, sizeof(loopback)) != 0;
}

static bool read_prefix(struct loader *loader, const struct tree_node *node,
                        const char *name, const char *what, struct io_prefix *out)
{
    const char *text;
    struct io_prefix prefix;
    if (node->kind != TREE_SCALAR || tree_scalar_kind(node) != TREE_TEXT) {
        return complain_type(loader, node, name, what);
    }
    text = node->text;
    if (!io_prefix_parse(text, &prefix) || prefix.prefix_len > family_bits(&prefix.ip)) {
        return complain_type(loader, node, name, what);
    }
    if (!is_unicast(&prefix.ip)) {
        return complain(loader, node->mark, "%s: %s is no address for a host", name,
                        text);
    }
    *out = prefix;
    return true;
}

bool subnet_read(struct loader *loader, const struct tree_node *node, const char *name,
                 struct io_prefix *out)
{
    char network_text[IO_IP_TEXT_BYTES];
    struct io_prefix prefix;
    if (!read_prefix(loader, node, name, "a network such as 192.168.1.0/24", &prefix)) {
        return false;
    }
    struct io_prefix network = subnet_network(&prefix);
    if (!io_ip_equal(&network.ip, &prefix.ip)) {
        return complain(loader, node->mark,
                        "%s: expected a network, got the address %s; did you mean %s?",
                        name, node->text, subnet_format(&network, network_text));
    }
    if (capacity(&network) < 2) {
        return complain(loader, node->mark, "%s: %s has no room for two hosts", name,
                        node->text);
    }
    *out = network;
    return true;
}

#define ADDRESS_WHAT "an address with its prefix, such as 10.1.0.1/30"

bool address_read(struct loader *loader, const struct tree_node *node, const char *name,
                  struct io_prefix *out)
{
    struct io_prefix prefix, last;
    if (!read_prefix(loader, node, name, ADDRESS_WHAT, &prefix)) {
        return false;
    }
    struct io_prefix network = subnet_network(&prefix);
    bool has_reserved = family_bits(&prefix.ip) - prefix.prefix_len > 1;
    if (has_reserved && io_ip_equal(&network.ip, &prefix.ip)) {
        return complain(loader, node->mark, "%s: %s is the address of the network itself",
                        name, node->text);
    }
    if (has_reserved && io_ip_is_v4(&prefix.ip) &&
        (!subnet_host(&network, capacity(&network), &last) ||
         io_ip_compare(&prefix.ip, &last.ip) > 0)) {
        return complain(loader, node->mark,
                        "%s: %s is the broadcast address of its network", name,
                        node->text);
    }
    *out = prefix;
    return true;
}

bool address_read_peer(struct loader *loader, const struct tree_node *node,
                       const char *name, struct io_prefix *out, struct io_ip *out_peer)
{
    static const char word[] = " peer ";
    const char *at = node->kind == TREE_SCALAR ? strstr(node->text, word) : NULL;
    char own[IO_IP_TEXT_BYTES];
    struct tree_node peer = *node;
    struct io_prefix prefix;
    struct io_ip ip;

    *out_peer = (struct io_ip){{0}};
    if (at == NULL) {
        return address_read(loader, node, name, out);
    }
    weft_format(own, sizeof(own), "%.*s", (int)(at - node->text), node->text);
    peer.text = at + strlen(word);
    if (!address_read(loader, &peer, name, &prefix)) {
        return false;
    }
    if (!io_ip_parse(own, &ip) || io_ip_is_v4(&ip) != io_ip_is_v4(&prefix.ip) ||
        !is_unicast(&ip)) {
        return complain_type(loader, node, name,
                             "an address, peer, and the peer's address with its prefix");
    }
    *out_peer = prefix.ip;
    *out = (struct io_prefix){ip, prefix.prefix_len};
    return true;
}
