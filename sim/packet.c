#include "sim/packet.h"

#include <string.h>

#include "base/check.h"
#include "base/wire.h"
#include "sim/icrc.h"

enum {
    ETHERTYPE_IPV4 = 0x0800,
    ETHERTYPE_VLAN = 0x8100,
    ETHERTYPE_IPV6 = 0x86dd,
    ETHERTYPE_ROCE_V1 = 0x8915,
    PROTOCOL_UDP = 17,
    NEXT_HEADER_BTH = 0x1b, /* of a GRH */
    ROCE_UDP_PORT = 4791,
    IPV4_DONT_FRAGMENT = 0x4000
};

enum {
    ETHERNET_BYTES = 14,
    VLAN_BYTES = 4,
    IPV4_BYTES = 20,
    IPV6_BYTES = 40,
    UDP_BYTES = 8,
    BTH_BYTES = 12,
    ICRC_BYTES = 4,
    CNP_RESERVED_BYTES = 16,
    FCS_PREAMBLE_GAP_BYTES = 4 + 8 + 12
};

/* Bits of bytes 1, 4 and 8 of the BTH. */
enum {
    BTH_SOLICITED = 0x80,
    BTH_MIG_REQ = 0x40,
    BTH_FECN = 0x80,
    BTH_BECN = 0x40,
    BTH_ACK_REQ = 0x80
};

uint16_t sim_udp_sport(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn)
{
    uint32_t label = flow_label & 0xfffff;
    if (label == 0) {
        uint64_t v = (uint64_t)local_qpn * remote_qpn;
        v ^= v >> 20;
        v ^= v >> 40;
        label = v & 0xfffff;
    }
    return (uint16_t)(((label & 0x3fff) ^ ((label & 0xfc000) >> 14)) | 0xc000);
}

uint16_t sim_udp_sport_rxe(uint32_t own_qpn)
{
    const uint32_t golden_ratio_32 = 0x61c88647; /* Linux hash.h */
    return (uint16_t)(0xc000 + (own_qpn * golden_ratio_32 >> (32 - 14)));
}

bool sim_pkeys_match(uint16_t a, uint16_t b)
{
    return ((a ^ b) & 0x7fff) == 0 && ((a | b) & 0x8000) != 0;
}

uint16_t sim_ones_sum(uint32_t sum, const uint8_t *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++) {
        sum += i % 2 == 0 ? (uint32_t)bytes[i] << 8 : bytes[i];
    }
    while (sum >> 16 != 0) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)sum;
}

static void put_gid(struct wire_writer *writer, const union ibv_gid *gid)
{
    wire_put_bytes(writer, gid->raw, sizeof(gid->raw));
}

static void put_ipv4(struct wire_writer *writer, const struct sim_roce *roce,
                     uint32_t ip_bytes)
{
    uint8_t *header = writer->at;
    wire_put_u8(writer, 0x45);
    wire_put_u8(writer, roce->traffic_class);
    wire_put_u16(writer, (uint16_t)ip_bytes);
    wire_put_u16(writer, roce->ipv4_id);
    wire_put_u16(writer, roce->dont_fragment ? IPV4_DONT_FRAGMENT : 0);
    wire_put_u8(writer, roce->hop_limit);
    wire_put_u8(writer, PROTOCOL_UDP);
    wire_put_u16(writer, 0);
    wire_put_bytes(writer, roce->source_gid.raw + 12, 4);
    wire_put_bytes(writer, roce->destination_gid.raw + 12, 4);
    if (!writer->bad) {
        uint16_t sum = (uint16_t)~sim_ones_sum(0, header, IPV4_BYTES);
        header[10] = (uint8_t)(sum >> 8);
        header[11] = (uint8_t)sum;
    }
}

/* Writes an IPv6 header, or a GRH, which differs only in the next header. */
static void put_ipv6(struct wire_writer *writer, const struct sim_roce *roce,
                     uint32_t ip_bytes)
{
    bool is_v1 = roce->layer == SIM_ROCE_V1;
    wire_put_u32(writer, 6u << 28 | (uint32_t)roce->traffic_class << 20 |
                             (roce->flow_label & 0xfffff));
    wire_put_u16(writer, (uint16_t)(ip_bytes - IPV6_BYTES));
    wire_put_u8(writer, is_v1 ? NEXT_HEADER_BTH : PROTOCOL_UDP);
    wire_put_u8(writer, roce->hop_limit);
    put_gid(writer, &roce->source_gid);
    put_gid(writer, &roce->destination_gid);
}

static void put_mac(struct wire_writer *writer, uint64_t mac)
{
    wire_put_u24(writer, (uint32_t)(mac >> 24) & 0xffffff);
    wire_put_u24(writer, (uint32_t)mac & 0xffffff);
}

static void put_ethernet(struct wire_writer *writer, const struct sim_roce *roce)
{
    static const uint16_t types[] = {
        [SIM_ROCE_IPV4] = ETHERTYPE_IPV4,
        [SIM_ROCE_IPV6] = ETHERTYPE_IPV6,
        [SIM_ROCE_V1] = ETHERTYPE_ROCE_V1,
    };
    put_mac(writer, roce->destination_mac);
    put_mac(writer, roce->source_mac);
    if (roce->has_vlan) {
        wire_put_u16(writer, ETHERTYPE_VLAN);
        wire_put_u16(writer, roce->vlan_tci);
    }
    wire_put_u16(writer, types[roce->layer]);
}

static void put_bth(struct wire_writer *writer, const struct sim_roce *roce)
{
    unsigned pad = (0u - roce->n_payload) & 3;
    wire_put_u8(writer, roce->opcode);
    wire_put_u8(writer, (uint8_t)((roce->solicited ? BTH_SOLICITED : 0u) |
                                  (roce->mig_req ? BTH_MIG_REQ : 0u) | pad << 4));
    wire_put_u16(writer, roce->pkey);
    wire_put_u8(writer,
                (uint8_t)((roce->fecn ? BTH_FECN : 0u) | (roce->becn ? BTH_BECN : 0u) |
                          (roce->reserved6 & 0x3fu)));
    wire_put_u24(writer, roce->dest_qpn & RC_PSN_MASK);
    wire_put_u8(writer, (uint8_t)((roce->ack_req ? BTH_ACK_REQ : 0u) |
                                  (roce->reserved7 & 0x7fu)));
    wire_put_u24(writer, roce->psn & RC_PSN_MASK);
}

static void put_extension(struct wire_writer *writer, const struct sim_roce *roce,
                          unsigned flags)
{
    if ((flags & RC_HAS_FETH) != 0) {
        wire_put_u32(writer, roce->flush);
    }
    if ((flags & RC_HAS_RETH) != 0) {
        wire_put_u64(writer, roce->va);
        wire_put_u32(writer, roce->rkey);
        wire_put_u32(writer, roce->dma_bytes);
    }
    if ((flags & RC_HAS_ATOMIC) != 0) {
        wire_put_u64(writer, roce->va);
        wire_put_u32(writer, roce->rkey);
        wire_put_u64(writer, roce->swap_add);
        wire_put_u64(writer, roce->compare);
    }
    if ((flags & RC_HAS_AETH) != 0) {
        wire_put_u8(writer, roce->syndrome);
        wire_put_u24(writer, roce->msn & RC_PSN_MASK);
    }
    if (roce->opcode == RC_ATOMIC_ACK) {
        wire_put_u64(writer, roce->va);
    }
    if ((flags & RC_HAS_IMM) != 0) {
        wire_put_u32(writer, roce->imm);
    }
    if ((flags & RC_HAS_IETH) != 0) {
        wire_put_u32(writer, roce->invalidate_key);
    }
}

/* Returns the number of bytes from the IP header (or GRH) to the ICRC inclusive. */
static uint32_t ip_bytes_of(const struct sim_roce *roce,
                            const struct rc_opcode_info *info)
{
    static const uint8_t header_bytes[] = {
        [SIM_ROCE_IPV4] = IPV4_BYTES + UDP_BYTES,
        [SIM_ROCE_IPV6] = IPV6_BYTES + UDP_BYTES,
        [SIM_ROCE_V1] = IPV6_BYTES,
    };
    uint32_t n_headers = header_bytes[roce->layer] + (uint32_t)BTH_BYTES;
    return n_headers + info->ext_bytes + ((roce->n_payload + 3u) & ~3u) + ICRC_BYTES;
}

static void put_headers(struct wire_writer *writer, const struct sim_roce *roce,
                        const struct rc_opcode_info *info)
{
    uint32_t ip_bytes = ip_bytes_of(roce, info);
    uint32_t ip_header_bytes = roce->layer == SIM_ROCE_IPV4 ? IPV4_BYTES : IPV6_BYTES;
    put_ethernet(writer, roce);
    if (roce->layer == SIM_ROCE_IPV4) {
        put_ipv4(writer, roce, ip_bytes);
    } else {
        put_ipv6(writer, roce, ip_bytes);
    }
    if (roce->layer != SIM_ROCE_V1) {
        wire_put_u16(writer, roce->sport);
        wire_put_u16(writer, ROCE_UDP_PORT);
        wire_put_u16(writer, (uint16_t)(ip_bytes - ip_header_bytes));
        wire_put_u16(writer, roce->udp_checksum);
    }
    put_bth(writer, roce);
    put_extension(writer, roce, info->flags);
}

size_t sim_roce_encode(const struct sim_roce *roce, uint8_t *out, size_t out_bytes)
{
    const struct rc_opcode_info *info = rc_opcode_info(roce->opcode);
    size_t ethernet_bytes = ETHERNET_BYTES + (roce->has_vlan ? VLAN_BYTES : 0);
    struct wire_writer writer = wire_writer_init(out, out_bytes);
    if (roce->n_payload > SIM_PACKET_BYTES_MAX) {
        return 0;
    }
    put_headers(&writer, roce, info);
    if (roce->n_payload > 0) {
        wire_put_bytes(&writer, roce->payload, roce->n_payload);
    }
    wire_put_bytes(&writer, roce->pad, (0u - roce->n_payload) & 3);
    if (writer.bad) {
        return 0;
    }
    size_t n = wire_written(&writer, out);
    weft_check(n == ethernet_bytes + ip_bytes_of(roce, info) - ICRC_BYTES);
    uint32_t icrc =
        sim_icrc(out + ethernet_bytes, n - ethernet_bytes, roce->layer == SIM_ROCE_V1);
    for (unsigned shift = 0; shift < 32; shift += 8) {
        wire_put_u8(&writer, (uint8_t)(icrc >> shift));
    }
    return writer.bad ? 0 : wire_written(&writer, out);
}

/* ---- records ---- */

static enum sim_roce_layer layer_of(const struct sim_path *path)
{
    if (path->is_v1) {
        return SIM_ROCE_V1;
    }
    return path->is_ipv4 ? SIM_ROCE_IPV4 : SIM_ROCE_IPV6;
}

void sim_roce_of_frame(const struct sim_frame *frame, struct sim_roce *out)
{
    const struct sim_path *path = frame->path;
    bool is_marked = (frame->flags & SIM_FRAME_ECN_CE) != 0;
    *out = (struct sim_roce){
        .destination_mac = path->destination_mac,
        .source_mac = path->source_mac,
        .has_vlan = path->tag_bytes != 0,
        .vlan_tci = path->vlan_tci,
        .layer = layer_of(path),
        .source_gid = path->source_gid,
        .destination_gid = path->destination_gid,
        .flow_label = path->flow_label & 0xfffff,
        .traffic_class = (uint8_t)(path->traffic_class | (is_marked ? 3 : 0)),
        .hop_limit = path->hop_limit,
        .ipv4_id = path->is_ipv4 ? frame->ipv4_id : 0,
        .dont_fragment = true,
        .sport = frame->sport,
        .opcode = frame->opcode,
        .solicited = (frame->flags & SIM_FRAME_SOLICITED) != 0,
        .mig_req = (frame->flags & SIM_FRAME_MIG_REQ) != 0,
        .ack_req = (frame->flags & SIM_FRAME_ACK_REQ) != 0,
        .pkey = SIM_PKEY_DEFAULT,
        .dest_qpn = frame->dest_qpn,
        .psn = frame->psn & RC_PSN_MASK,
        .va = frame->va,
        .rkey = frame->rkey,
        .dma_bytes = frame->dma_bytes,
        .swap_add = frame->swap_add,
        .compare = frame->compare,
        .msn = frame->msn,
        .syndrome = frame->syndrome,
        .imm = frame->imm,
        .payload = frame->payload,
        .n_payload = frame->n_payload,
    };
}

void sim_frame_of_roce(const struct sim_roce *roce, struct sim_path *path,
                       struct sim_frame *frame)
{
    bool is_ipv4 = roce->layer == SIM_ROCE_IPV4;
    bool is_v1 = roce->layer == SIM_ROCE_V1;
    int header_bytes = (is_ipv4 ? IPV4_BYTES : IPV6_BYTES) + (is_v1 ? 0 : UDP_BYTES);
    unsigned ext_bytes = rc_opcode_info(roce->opcode)->ext_bytes;
    bool is_marked = (roce->traffic_class & 3) == 3;
    *path = (struct sim_path){
        .source_gid = roce->source_gid,
        .destination_gid = roce->destination_gid,
        .source_mac = roce->source_mac,
        .destination_mac = roce->destination_mac,
        .flow_label = is_ipv4 ? 0 : roce->flow_label,
        .traffic_class = roce->traffic_class,
        .hop_limit = roce->hop_limit,
        .is_v1 = is_v1,
        .is_ipv4 = is_ipv4,
        .header_bytes = (uint8_t)header_bytes,
        .tag_bytes = roce->has_vlan ? VLAN_BYTES : 0,
        .vlan_tci = roce->has_vlan ? roce->vlan_tci : 0,
    };
    *frame = (struct sim_frame){
        .payload = roce->payload,
        .path = path,
        .va = roce->va,
        .swap_add = roce->swap_add,
        .compare = roce->compare,
        .rkey = roce->rkey,
        .dma_bytes = roce->dma_bytes,
        .imm = roce->imm,
        .psn = roce->psn,
        .dest_qpn = roce->dest_qpn,
        .msn = roce->msn,
        .n_payload = roce->n_payload,
        .sport = roce->sport,
        .ipv4_id = roce->ipv4_id,
        .syndrome = roce->syndrome,
        .opcode = roce->opcode,
        .flags = (uint8_t)((roce->ack_req ? SIM_FRAME_ACK_REQ : 0) |
                           (roce->solicited ? SIM_FRAME_SOLICITED : 0) |
                           (roce->mig_req ? SIM_FRAME_MIG_REQ : 0) |
                           (is_marked ? SIM_FRAME_ECN_CE : 0)),
    };
    uint32_t ip_bytes = sim_frame_ip_bytes(path, ext_bytes, roce->n_payload);
    frame->wire_bytes =
        (uint16_t)(ip_bytes + ETHERNET_BYTES + path->tag_bytes + FCS_PREAMBLE_GAP_BYTES);
}

size_t sim_packet_encode(const struct sim_frame *frame, uint8_t *out, size_t out_bytes)
{
    struct sim_roce roce;
    sim_roce_of_frame(frame, &roce);
    size_t n = sim_roce_encode(&roce, out, out_bytes);
    if (n > 0 && (frame->flags & SIM_FRAME_CORRUPT) != 0) {
        out[n - ICRC_BYTES - 1] ^= 1;
    }
    return n;
}

/* ---- decoding: strict, so that any bytes are a packet or have a reason why not ---- */

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
