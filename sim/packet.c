#include "sim/packet.h"

#include <string.h>

#include "base/check.h"
#include "base/wire.h"
#include "sim/icrc.h"
#include "sim/packet_impl.h"

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
