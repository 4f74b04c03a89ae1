/* The decoder. It is strict, and for any bytes returns either a packet or the reason why
 * they are none. */
#include <string.h>

#include "base/check.h"
#include "base/wire.h"
#include "sim/icrc.h"
#include "sim/packet.h"
#include "sim/packet_impl.h"

const char *sim_packet_reject_name(enum sim_packet_reject reject)
{
    static const char *const names[SIM_PACKET_N_REJECTS] = {
        [SIM_PACKET_OK] = "ok",
        [SIM_PACKET_RUNT] = "runt",
        [SIM_PACKET_NOT_ROCE] = "not_roce",
        [SIM_PACKET_IP_VERSION] = "ip_version",
        [SIM_PACKET_IP_OPTIONS] = "ip_options",
        [SIM_PACKET_IP_CHECKSUM] = "ip_checksum",
        [SIM_PACKET_FRAGMENT] = "fragment",
        [SIM_PACKET_LENGTH] = "length",
        [SIM_PACKET_UDP_CHECKSUM] = "udp_checksum",
        [SIM_PACKET_TVER] = "tver",
        [SIM_PACKET_OPCODE] = "opcode",
        [SIM_PACKET_ICRC] = "icrc",
        [SIM_PACKET_MAC] = "mac",
        [SIM_PACKET_VLAN] = "vlan",
        [SIM_PACKET_PKEY] = "pkey",
    };
    return names[reject];
}

static uint64_t get_mac(struct wire_reader *reader)
{
    uint64_t upper = wire_get_u24(reader);
    return upper << 24 | wire_get_u24(reader);
}

static enum sim_packet_reject get_ethernet(struct wire_reader *reader,
                                           struct sim_roce *out)
{
    out->destination_mac = get_mac(reader);
    out->source_mac = get_mac(reader);
    uint16_t type = wire_get_u16(reader);
    if (type == ETHERTYPE_VLAN) {
        out->has_vlan = true;
        out->vlan_tci = wire_get_u16(reader);
        type = wire_get_u16(reader);
    }
    if (reader->bad) {
        return SIM_PACKET_RUNT;
    }
    switch (type) {
    case ETHERTYPE_IPV4:
        out->layer = SIM_ROCE_IPV4;
        return SIM_PACKET_OK;
    case ETHERTYPE_IPV6:
        out->layer = SIM_ROCE_IPV6;
        return SIM_PACKET_OK;
    case ETHERTYPE_ROCE_V1:
        out->layer = SIM_ROCE_V1;
        return SIM_PACKET_OK;
    default:
        return SIM_PACKET_NOT_ROCE;
    }
}

static void get_mapped(struct wire_reader *reader, union ibv_gid *out)
{
    memset(out->raw, 0, sizeof(out->raw));
    out->raw[10] = 0xff;
    out->raw[11] = 0xff;
    wire_get_bytes(reader, out->raw + 12, 4);
}

static enum sim_packet_reject get_ipv4(struct wire_reader *reader, struct sim_roce *out,
                                       uint32_t *ip_bytes)
{
    const uint8_t *header = reader->at;
    uint8_t version = wire_get_u8(reader);
    out->traffic_class = wire_get_u8(reader);
    *ip_bytes = wire_get_u16(reader);
    out->ipv4_id = wire_get_u16(reader);
    uint16_t fragment = wire_get_u16(reader);
    out->dont_fragment = (fragment & IPV4_DONT_FRAGMENT) != 0;
    out->hop_limit = wire_get_u8(reader);
    uint8_t protocol = wire_get_u8(reader);
    (void)wire_get_u16(reader); /* checksum; verified below with the whole header */
    get_mapped(reader, &out->source_gid);
    get_mapped(reader, &out->destination_gid);
    if (reader->bad) {
        return SIM_PACKET_RUNT;
    }
    if (version >> 4 != 4) {
        return SIM_PACKET_IP_VERSION;
    }
    if (version != 0x45) {
        return (version & 0xf) > 5 ? SIM_PACKET_IP_OPTIONS : SIM_PACKET_LENGTH;
    }
    uint16_t sum = sim_ones_sum(sim_ones_sum(0, header, 10), header + 12, 8);
    if ((header[10] << 8 | header[11]) != (uint16_t)~sum) {
        return SIM_PACKET_IP_CHECKSUM;
    }
    if ((fragment & ~IPV4_DONT_FRAGMENT) != 0) {
        return SIM_PACKET_FRAGMENT;
    }
    return protocol == PROTOCOL_UDP ? SIM_PACKET_OK : SIM_PACKET_NOT_ROCE;
}

static enum sim_packet_reject get_ipv6(struct wire_reader *reader, struct sim_roce *out,
                                       uint32_t *ip_bytes)
{
    uint32_t first = wire_get_u32(reader);
    *ip_bytes = IPV6_BYTES + wire_get_u16(reader);
    uint8_t next = wire_get_u8(reader);
    out->hop_limit = wire_get_u8(reader);
    wire_get_bytes(reader, out->source_gid.raw, 16);
    wire_get_bytes(reader, out->destination_gid.raw, 16);
    out->traffic_class = (uint8_t)(first >> 20);
    out->flow_label = first & 0xfffff;
    if (reader->bad) {
        return SIM_PACKET_RUNT;
    }
    if (first >> 28 != 6) {
        return SIM_PACKET_IP_VERSION;
    }
    uint8_t wanted = out->layer == SIM_ROCE_V1 ? NEXT_HEADER_BTH : PROTOCOL_UDP;
    return next == wanted ? SIM_PACKET_OK : SIM_PACKET_NOT_ROCE;
}

/* Verifies the checksum of a UDP datagram with its pseudo header (RFC 768, RFC 8200). */
static bool is_udp_sum_right(const struct sim_roce *roce, const uint8_t *udp,
                             size_t n_udp)
{
    size_t skip = roce->layer == SIM_ROCE_IPV4 ? 12 : 0;
    uint32_t sum = PROTOCOL_UDP + (uint32_t)n_udp;
    sum = sim_ones_sum(sum, roce->source_gid.raw + skip, 16 - skip);
    sum = sim_ones_sum(sum, roce->destination_gid.raw + skip, 16 - skip);
    return sim_ones_sum(sum, udp, n_udp) == 0xffff;
}

static enum sim_packet_reject get_udp(struct wire_reader *reader, struct sim_roce *out)
{
    const uint8_t *udp = reader->at;
    size_t n_udp = wire_left(reader);
    out->sport = wire_get_u16(reader);
    uint16_t dport = wire_get_u16(reader);
    uint16_t length = wire_get_u16(reader);
    out->udp_checksum = wire_get_u16(reader);
    if (reader->bad) {
        return SIM_PACKET_RUNT;
    }
    if (dport != ROCE_UDP_PORT) {
        return SIM_PACKET_NOT_ROCE;
    }
    if (length != n_udp) {
        return SIM_PACKET_LENGTH;
    }
    bool is_right = out->udp_checksum == 0 || is_udp_sum_right(out, udp, n_udp);
    return is_right ? SIM_PACKET_OK : SIM_PACKET_UDP_CHECKSUM;
}

static enum sim_packet_reject get_bth(struct wire_reader *reader, struct sim_roce *out,
                                      unsigned *pad)
{
    out->opcode = wire_get_u8(reader);
    uint8_t flags = wire_get_u8(reader);
    out->pkey = wire_get_u16(reader);
    uint8_t congestion = wire_get_u8(reader);
    out->dest_qpn = wire_get_u24(reader);
    uint8_t ack = wire_get_u8(reader);
    out->psn = wire_get_u24(reader);
    if (reader->bad) {
        return SIM_PACKET_RUNT;
    }
    out->solicited = (flags & BTH_SOLICITED) != 0;
    out->mig_req = (flags & BTH_MIG_REQ) != 0;
    *pad = flags >> 4 & 3;
    out->fecn = (congestion & BTH_FECN) != 0;
    out->becn = (congestion & BTH_BECN) != 0;
    out->reserved6 = congestion & 0x3f;
    out->ack_req = (ack & BTH_ACK_REQ) != 0;
    out->reserved7 = ack & 0x7f;
    if ((flags & 0xf) != 0) {
        return SIM_PACKET_TVER;
    }
    bool is_known = out->opcode == RC_CNP || rc_opcode_info(out->opcode)->flags != 0;
    return is_known ? SIM_PACKET_OK : SIM_PACKET_OPCODE;
}

static void get_extension(struct wire_reader *reader, struct sim_roce *out,
                          unsigned flags)
{
    if ((flags & RC_HAS_FETH) != 0) {
        out->flush = wire_get_u32(reader);
    }
    if ((flags & RC_HAS_RETH) != 0) {
        out->va = wire_get_u64(reader);
        out->rkey = wire_get_u32(reader);
        out->dma_bytes = wire_get_u32(reader);
    }
    if ((flags & RC_HAS_ATOMIC) != 0) {
        out->va = wire_get_u64(reader);
        out->rkey = wire_get_u32(reader);
        out->swap_add = wire_get_u64(reader);
        out->compare = wire_get_u64(reader);
    }
    if ((flags & RC_HAS_AETH) != 0) {
        out->syndrome = wire_get_u8(reader);
        out->msn = wire_get_u24(reader);
    }
    if (out->opcode == RC_ATOMIC_ACK) {
        out->va = wire_get_u64(reader);
    }
    if ((flags & RC_HAS_IMM) != 0) {
        out->imm = wire_get_u32(reader);
    }
    if ((flags & RC_HAS_IETH) != 0) {
        out->invalidate_key = wire_get_u32(reader);
    }
}

/* Decodes everything between the BTH and the end: extension headers, payload, pad and
 * ICRC. */
static enum sim_packet_reject get_payload(struct wire_reader *reader,
                                          struct sim_roce *out, unsigned pad)
{
    const struct rc_opcode_info *info = rc_opcode_info(out->opcode);
    get_extension(reader, out, info->flags);
    if (reader->bad || wire_left(reader) < ICRC_BYTES) {
        return SIM_PACKET_RUNT;
    }
    size_t n = wire_left(reader) - ICRC_BYTES;
    if (n % 4 != 0 || n < pad || n > SIM_PACKET_PAYLOAD_MAX) {
        return SIM_PACKET_LENGTH;
    }
    out->n_payload = (uint32_t)n - pad;
    bool is_allowed = (info->flags & RC_HAS_PAYLOAD) != 0 || out->n_payload == 0;
    if (out->opcode == RC_CNP) {
        is_allowed = out->n_payload == CNP_RESERVED_BYTES;
    } else if (out->opcode == RC_ATOMIC_WRITE) {
        is_allowed = out->n_payload == 8;
    }
    if (!is_allowed) {
        return SIM_PACKET_LENGTH;
    }
    out->payload = out->n_payload > 0 ? reader->at : NULL;
    reader->at += out->n_payload;
    wire_get_bytes(reader, out->pad, pad);
    for (unsigned shift = 0; shift < 32; shift += 8) {
        out->icrc |= (uint32_t)wire_get_u8(reader) << shift;
    }
    return SIM_PACKET_OK;
}

static enum sim_packet_reject get_transport(struct wire_reader *reader,
                                            struct sim_roce *out)
{
    unsigned pad = 0;
    enum sim_packet_reject reject = SIM_PACKET_OK;
    if (out->layer != SIM_ROCE_V1) {
        reject = get_udp(reader, out);
    }
    if (reject == SIM_PACKET_OK) {
        reject = get_bth(reader, out, &pad);
    }
    return reject == SIM_PACKET_OK ? get_payload(reader, out, pad) : reject;
}

enum sim_packet_reject sim_roce_decode(const uint8_t *bytes, size_t n_bytes,
                                       struct sim_roce *out, size_t *used)
{
    struct wire_reader reader = wire_reader_init(bytes, n_bytes);
    uint32_t ip_bytes = 0;
    memset(out, 0, sizeof(*out));
    enum sim_packet_reject reject = get_ethernet(&reader, out);
    if (reject != SIM_PACKET_OK) {
        return reject;
    }
    const uint8_t *ip = reader.at;
    reject = out->layer == SIM_ROCE_IPV4 ? get_ipv4(&reader, out, &ip_bytes)
                                         : get_ipv6(&reader, out, &ip_bytes);
    if (reject != SIM_PACKET_OK) {
        return reject;
    }
    size_t n_header = (size_t)(reader.at - ip);
    if (ip_bytes < n_header || ip_bytes > n_header + wire_left(&reader)) {
        return SIM_PACKET_LENGTH;
    }
    /* The frame can be longer than its packet, because short ones are padded to 60 B. */
    reader.end = ip + ip_bytes;
    reject = get_transport(&reader, out);
    if (reject != SIM_PACKET_OK) {
        return reject;
    }
    if (used != NULL) {
        *used = (size_t)(ip - bytes) + ip_bytes;
    }
    uint32_t icrc = sim_icrc(ip, ip_bytes - ICRC_BYTES, out->layer == SIM_ROCE_V1);
    return icrc == out->icrc ? SIM_PACKET_OK : SIM_PACKET_ICRC;
}
