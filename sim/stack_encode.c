/* Encodes ARP (RFC 826), neighbour discovery (RFC 4861), TCP (RFC 9293) and UDP (RFC 768)
 * for captures. */
#include <string.h>

#include "base/wire.h"
#include "sim/stack_impl.h"

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_ARP 0x0806
#define ETHERTYPE_IPV6 0x86dd
#define ETHERTYPE_VLAN 0x8100
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_ICMPV6 58
#define TCP_DONT_FRAGMENT 0x4000

static void put_mac(struct wire_writer *writer, uint64_t mac)
{
    wire_put_u16(writer, (uint16_t)(mac >> 32));
    wire_put_u32(writer, (uint32_t)mac);
}

static void put_ethernet(struct wire_writer *writer, const struct sim_packet *packet,
                         uint16_t ethertype)
{
    put_mac(writer, packet->destination_mac);
    put_mac(writer, packet->source_mac);
    if (packet->vlan_id != 0) {
        wire_put_u16(writer, ETHERTYPE_VLAN);
        wire_put_u16(writer, packet->vlan_id);
    }
    wire_put_u16(writer, ethertype);
}

/* Adds to the running sum of the Internet checksum (RFC 1071). */
static uint32_t add_words(uint32_t sum, const uint8_t *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++) {
        sum += (i & 1) == 0 ? (uint32_t)bytes[i] << 8 : bytes[i];
    }
    return sum;
}

static uint16_t finish_sum(uint32_t sum)
{
    while (sum >> 16 != 0) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)~sum;
}

static void put_ip(struct wire_writer *writer, const struct sim_ip *from,
                   const struct sim_ip *to, uint8_t protocol, uint8_t hop_limit,
                   size_t n_payload)
{
    if (!sim_ip_is_v4(to)) {
        wire_put_u32(writer, 0x60000000);
        wire_put_u16(writer, (uint16_t)n_payload);
        wire_put_u8(writer, protocol);
        wire_put_u8(writer, hop_limit);
        wire_put_bytes(writer, from->bytes, 16);
        wire_put_bytes(writer, to->bytes, 16);
        return;
    }
    uint8_t header[20];
    struct wire_writer at = wire_writer_init(header, sizeof header);
    wire_put_u16(&at, 0x4500);
    wire_put_u16(&at, (uint16_t)(n_payload + sizeof header));
    wire_put_u16(&at, 0);
    wire_put_u16(&at, TCP_DONT_FRAGMENT);
    wire_put_u8(&at, hop_limit);
    wire_put_u8(&at, protocol);
    wire_put_u16(&at, 0);
    wire_put_bytes(&at, from->bytes + 12, 4);
    wire_put_bytes(&at, to->bytes + 12, 4);
    uint16_t sum = finish_sum(add_words(0, header, sizeof header));
    header[10] = (uint8_t)(sum >> 8);
    header[11] = (uint8_t)sum;
    wire_put_bytes(writer, header, sizeof header);
}

/* Computes the checksum of the pseudo header and `bytes`, whose checksum field must be 0,
 * and stores it in that field. */
static void put_checksum(uint8_t *bytes, size_t n_bytes, size_t field,
                         const struct sim_ip *from, const struct sim_ip *to,
                         uint8_t protocol)
{
    size_t skip = sim_ip_is_v4(to) ? 12 : 0;
    uint32_t sum = add_words(0, from->bytes + skip, 16 - skip);
    sum = add_words(sum, to->bytes + skip, 16 - skip);
    sum += (uint32_t)n_bytes + protocol;
    uint16_t checksum = finish_sum(add_words(sum, bytes, n_bytes));
    bytes[field] = (uint8_t)(checksum >> 8);
    bytes[field + 1] = (uint8_t)checksum;
}

static void put_arp(struct wire_writer *writer, const struct sim_neigh_packet *body)
{
    wire_put_u16(writer, 1);
    wire_put_u16(writer, ETHERTYPE_IPV4);
    wire_put_u8(writer, 6);
    wire_put_u8(writer, 4);
    wire_put_u16(writer, body->is_reply ? 2 : 1);
    put_mac(writer, body->sender_mac);
    wire_put_bytes(writer, body->sender.bytes + 12, 4);
    put_mac(writer, body->target_mac);
    wire_put_bytes(writer, body->target.bytes + 12, 4);
    static const uint8_t padding[18];
    wire_put_bytes(writer, padding, sizeof padding);
}

static void put_discovery(struct wire_writer *writer, const struct sim_neigh_packet *body)
{
    uint8_t icmp[32];
    struct wire_writer at = wire_writer_init(icmp, sizeof icmp);
    /* A solicitation is about `target`, an advertisement about `sender`. */
    const struct sim_ip *subject = body->is_reply ? &body->sender : &body->target;
    struct sim_ip to = body->target;
    bool is_solicited = !sim_ip_equal(&body->sender, &body->target);
    if (body->is_reply && !is_solicited) { /* all nodes */
        to = (struct sim_ip){{0xff, 2, [15] = 1}};
    }
    if (!body->is_reply) { /* the solicited-node address (RFC 4291, 2.7.1) */
        to = (struct sim_ip){{0xff, 2, [11] = 1, [12] = 0xff}};
        memcpy(to.bytes + 13, body->target.bytes + 13, 3);
    }
    wire_put_u8(&at, body->is_reply ? 136 : 135);
    wire_put_u8(&at, 0);
    wire_put_u16(&at, 0);
    wire_put_u32(&at, !body->is_reply ? 0
                      : is_solicited  ? 0x60000000 /* solicited, override */
                                      : 0x20000000);
    wire_put_bytes(&at, subject->bytes, 16);
    wire_put_u8(&at, body->is_reply ? 2 : 1); /* link-layer address option */
    wire_put_u8(&at, 1);
    put_mac(&at, body->sender_mac);
    put_checksum(icmp, sizeof icmp, 2, &body->sender, &to, PROTOCOL_ICMPV6);
    put_ip(writer, &body->sender, &to, PROTOCOL_ICMPV6, 255, sizeof icmp);
    wire_put_bytes(writer, icmp, sizeof icmp);
}

static void put_tcp(struct wire_writer *writer, const struct sim_tcp_segment *segment)
{
    /* There is no window scaling, so the field is at most 65535. */
    uint32_t window = segment->window_bytes < 0xffff ? segment->window_bytes : 0xffff;
    size_t n_bytes = 20 + (size_t)segment->n_bytes;
    put_ip(writer, &segment->source.ip, &segment->destination.ip, PROTOCOL_TCP,
           segment->hop_limit, n_bytes);
    uint8_t *tcp = writer->at;
    wire_put_u16(writer, segment->source.port);
    wire_put_u16(writer, segment->destination.port);
    wire_put_u32(writer, segment->seq);
    wire_put_u32(writer, segment->ack);
    wire_put_u16(writer, (uint16_t)(5 << 12 | segment->flags));
    wire_put_u16(writer, (uint16_t)window);
    wire_put_u32(writer, 0);
    wire_put_bytes(writer, segment->bytes, segment->n_bytes);
    if (!writer->bad) {
        put_checksum(tcp, n_bytes, 16, &segment->source.ip, &segment->destination.ip,
                     PROTOCOL_TCP);
    }
}

/* Only announcements, with hop limit 1, because they do not leave the link. */
static void put_udp(struct wire_writer *writer, const struct sim_datagram *datagram)
{
    size_t n_bytes = 8 + (size_t)datagram->n_bytes;
    put_ip(writer, &datagram->source.ip, &datagram->destination.ip, PROTOCOL_UDP, 1,
           n_bytes);
    uint8_t *udp = writer->at;
    wire_put_u16(writer, datagram->source.port);
    wire_put_u16(writer, datagram->destination.port);
    wire_put_u16(writer, (uint16_t)n_bytes);
    wire_put_u16(writer, 0);
    wire_put_bytes(writer, datagram->bytes, datagram->n_bytes);
    if (!writer->bad) {
        put_checksum(udp, n_bytes, 6, &datagram->source.ip, &datagram->destination.ip,
                     PROTOCOL_UDP);
    }
}

size_t sim_stack_encode(const struct sim_packet *packet, uint8_t *out, size_t out_bytes)
{
    struct wire_writer writer = wire_writer_init(out, out_bytes);
    if (packet->kind == SIM_FRAME_TCP) {
        const struct sim_tcp_segment *segment = packet->payload;
        bool is_v4 = sim_ip_is_v4(&segment->destination.ip);
        put_ethernet(&writer, packet, is_v4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
        put_tcp(&writer, segment);
    } else if (packet->kind == SIM_FRAME_UDP) {
        const struct sim_datagram *datagram = packet->payload;
        bool is_v4 = sim_ip_is_v4(&datagram->destination.ip);
        put_ethernet(&writer, packet, is_v4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
        put_udp(&writer, datagram);
    } else {
        const struct sim_neigh_packet *body = packet->payload;
        bool is_v4 = sim_ip_is_v4(&body->target);
        put_ethernet(&writer, packet, is_v4 ? ETHERTYPE_ARP : ETHERTYPE_IPV6);
        if (is_v4) {
            put_arp(&writer, body);
        } else {
            put_discovery(&writer, body);
        }
    }
    return writer.bad ? 0 : wire_written(&writer, out);
}
