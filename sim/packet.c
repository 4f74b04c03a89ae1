#include "sim/packet.h"

#include <string.h>

#include "base/check.h"
#include "base/wire.h"
#include "sim/icrc.h"

enum {
    ETHERTYPE_IPV4 = 0x0800,
    ETHERTYPE_IPV6 = 0x86dd,
    ETHERTYPE_ROCE_V1 = 0x8915,
    ROCE_UDP_PORT = 4791,
    ETHERNET_BYTES = 14,
    UDP_BYTES = 8,
    BTH_BYTES = 12,
    ICRC_BYTES = 4,
    GRH_NEXT_HEADER = 0x1b
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

static void put_gid(struct wire_writer *writer, const union ibv_gid *gid)
{
    wire_put_bytes(writer, gid->raw, sizeof(gid->raw));
}

static uint16_t ipv4_checksum(const uint8_t *header, size_t n_bytes)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < n_bytes; i += 2) {
        sum += (uint32_t)header[i] << 8 | header[i + 1];
    }
    while (sum >> 16 != 0) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)~sum;
}

static void put_ipv4(struct wire_writer *writer, const struct sim_path *path,
                     uint8_t tclass, uint32_t ip_bytes)
{
    uint8_t *header = writer->at;
    wire_put_u8(writer, 0x45);
    wire_put_u8(writer, tclass);
    wire_put_u16(writer, (uint16_t)ip_bytes);
    wire_put_u16(writer, 0);      /* identification */
    wire_put_u16(writer, 0x4000); /* do not fragment */
    wire_put_u8(writer, path->hop_limit);
    wire_put_u8(writer, 17); /* UDP */
    wire_put_u16(writer, 0);
    wire_put_bytes(writer, path->source_gid.raw + 12, 4);
    wire_put_bytes(writer, path->destination_gid.raw + 12, 4);
    if (!writer->bad) {
        uint16_t sum = ipv4_checksum(header, 20);
        header[10] = (uint8_t)(sum >> 8);
        header[11] = (uint8_t)sum;
    }
}

/* The IPv6 header, which a GRH shares but for its next header. */
static void put_ipv6(struct wire_writer *writer, const struct sim_path *path,
                     uint8_t tclass, uint32_t ip_bytes)
{
    wire_put_u32(writer,
                 6u << 28 | (uint32_t)tclass << 20 | (path->flow_label & 0xfffff));
    wire_put_u16(writer, (uint16_t)(ip_bytes - 40));
    wire_put_u8(writer, path->is_v1 ? GRH_NEXT_HEADER : 17);
    wire_put_u8(writer, path->hop_limit);
    put_gid(writer, &path->source_gid);
    put_gid(writer, &path->destination_gid);
}

static void put_mac(struct wire_writer *writer, uint64_t mac)
{
    wire_put_u24(writer, (uint32_t)(mac >> 24) & 0xffffff);
    wire_put_u24(writer, (uint32_t)mac & 0xffffff);
}

static void put_headers(struct wire_writer *writer, const struct sim_frame *frame,
                        uint32_t ip_bytes)
{
    const struct sim_path *path = frame->path;
    uint8_t tclass = path->traffic_class;
    if ((frame->flags & SIM_FRAME_ECN_CE) != 0) {
        tclass |= 3;
    }
    put_mac(writer, path->destination_mac);
    put_mac(writer, path->source_mac);
    if (path->is_v1) {
        wire_put_u16(writer, ETHERTYPE_ROCE_V1);
        put_ipv6(writer, path, tclass, ip_bytes);
        return;
    }
    uint32_t ip_header_bytes = path->is_ipv4 ? 20 : 40;
    wire_put_u16(writer, path->is_ipv4 ? ETHERTYPE_IPV4 : ETHERTYPE_IPV6);
    if (path->is_ipv4) {
        put_ipv4(writer, path, tclass, ip_bytes);
    } else {
        put_ipv6(writer, path, tclass, ip_bytes);
    }
    wire_put_u16(writer, frame->sport);
    wire_put_u16(writer, ROCE_UDP_PORT);
    wire_put_u16(writer, (uint16_t)(ip_bytes - ip_header_bytes));
    wire_put_u16(writer, 0); /* no checksum: the ICRC is stronger */
}

static void put_bth(struct wire_writer *writer, const struct sim_frame *frame)
{
    bool solicited = (frame->flags & SIM_FRAME_SOLICITED) != 0;
    bool mig = (frame->flags & SIM_FRAME_MIG_REQ) != 0;
    bool ack = (frame->flags & SIM_FRAME_ACK_REQ) != 0;
    unsigned pad = (0u - frame->n_payload) & 3;
    wire_put_u8(writer, frame->opcode);
    wire_put_u8(writer,
                (uint8_t)((solicited ? 0x80u : 0) | (mig ? 0x40u : 0) | pad << 4));
    wire_put_u16(writer, 0xffff); /* the default P_Key */
    wire_put_u8(writer, 0);
    wire_put_u24(writer, frame->dest_qpn);
    wire_put_u32(writer, (ack ? 1u << 31 : 0) | (frame->psn & RC_PSN_MASK));
}

static void put_extension(struct wire_writer *writer, const struct sim_frame *frame,
                          unsigned flags)
{
    if ((flags & RC_HAS_RETH) != 0) {
        wire_put_u64(writer, frame->va);
        wire_put_u32(writer, frame->rkey);
        wire_put_u32(writer, frame->dma_bytes);
    }
    if ((flags & RC_HAS_ATOMIC) != 0) {
        wire_put_u64(writer, frame->va);
        wire_put_u32(writer, frame->rkey);
        wire_put_u64(writer, frame->swap_add);
        wire_put_u64(writer, frame->compare);
    }
    if ((flags & RC_HAS_AETH) != 0) {
        wire_put_u8(writer, frame->syndrome);
        wire_put_u24(writer, frame->msn);
    }
    if (frame->opcode == RC_ATOMIC_ACK) {
        wire_put_u64(writer, frame->va);
    }
    if ((flags & RC_HAS_IMM) != 0) {
        wire_put_u32(writer, frame->imm);
    }
}

size_t sim_packet_encode(const struct sim_frame *frame, uint8_t *out, size_t out_bytes)
{
    const struct rc_opcode_info *info = rc_opcode_info(frame->opcode);
    uint32_t ip_bytes =
        sim_frame_ip_bytes(frame->path, info->ext_bytes, frame->n_payload);
    struct wire_writer writer = wire_writer_init(out, out_bytes);
    put_headers(&writer, frame, ip_bytes);
    put_bth(&writer, frame);
    put_extension(&writer, frame, info->flags);
    if (frame->n_payload > 0) {
        wire_put_bytes(&writer, frame->payload, frame->n_payload);
    }
    for (uint32_t n = frame->n_payload; (n & 3) != 0; n++) {
        wire_put_u8(&writer, 0);
    }
    if (writer.bad) {
        return 0;
    }
    size_t n = wire_written(&writer, out);
    weft_check(n == ETHERNET_BYTES + ip_bytes - ICRC_BYTES);
    uint32_t icrc =
        sim_icrc(out + ETHERNET_BYTES, n - ETHERNET_BYTES, frame->path->is_v1);
    if ((frame->flags & SIM_FRAME_CORRUPT) != 0) {
        out[n - 1] ^= 1;
    }
    for (unsigned shift = 0; shift < 32; shift += 8) {
        wire_put_u8(&writer, (uint8_t)(icrc >> shift));
    }
    return writer.bad ? 0 : wire_written(&writer, out);
}
