#include "sim/packet_testing.h"

#include <string.h>

static bool same_addresses(const struct sim_roce *a, const struct sim_roce *b)
{
    return a->destination_mac == b->destination_mac && a->source_mac == b->source_mac &&
           a->has_vlan == b->has_vlan && a->vlan_tci == b->vlan_tci &&
           a->layer == b->layer && a->flow_label == b->flow_label &&
           a->traffic_class == b->traffic_class && a->hop_limit == b->hop_limit &&
           a->ipv4_id == b->ipv4_id && a->dont_fragment == b->dont_fragment &&
           a->sport == b->sport && a->udp_checksum == b->udp_checksum &&
           memcmp(&a->source_gid, &b->source_gid, sizeof(a->source_gid)) == 0 &&
           memcmp(&a->destination_gid, &b->destination_gid, sizeof(a->source_gid)) == 0;
}

static bool same_bth(const struct sim_roce *a, const struct sim_roce *b)
{
    return a->opcode == b->opcode && a->solicited == b->solicited &&
           a->mig_req == b->mig_req && a->ack_req == b->ack_req && a->fecn == b->fecn &&
           a->becn == b->becn && a->reserved6 == b->reserved6 &&
           a->reserved7 == b->reserved7 && a->pkey == b->pkey &&
           a->dest_qpn == b->dest_qpn && a->psn == b->psn;
}

static bool same_extension(const struct sim_roce *a, const struct sim_roce *b)
{
    return a->va == b->va && a->rkey == b->rkey && a->dma_bytes == b->dma_bytes &&
           a->swap_add == b->swap_add && a->compare == b->compare && a->msn == b->msn &&
           a->syndrome == b->syndrome && a->imm == b->imm &&
           a->invalidate_key == b->invalidate_key && a->flush == b->flush;
}

bool sim_roce_equal(const struct sim_roce *a, const struct sim_roce *b)
{
    return same_addresses(a, b) && same_bth(a, b) && same_extension(a, b) &&
           a->n_payload == b->n_payload && memcmp(a->pad, b->pad, sizeof(a->pad)) == 0 &&
           (a->n_payload == 0 || memcmp(a->payload, b->payload, a->n_payload) == 0);
}

static bool flip(struct weft_rng *rng)
{
    return weft_rng_below(rng, 2) == 1;
}

static void random_addresses(struct weft_rng *rng, struct sim_roce *out)
{
    bool is_ipv4 = out->layer == SIM_ROCE_IPV4;
    uint64_t bits = weft_rng_next(rng);
    out->destination_mac = weft_rng_next(rng) >> 16;
    out->source_mac = weft_rng_next(rng) >> 16;
    out->vlan_tci = out->has_vlan ? (uint16_t)bits : 0;
    out->traffic_class = (uint8_t)(bits >> 16);
    out->hop_limit = (uint8_t)(bits >> 24);
    out->sport = out->layer == SIM_ROCE_V1 ? 0 : (uint16_t)(bits >> 32);
    if (is_ipv4) {
        out->ipv4_id = (uint16_t)(bits >> 48);
        out->dont_fragment = flip(rng);
    } else {
        out->flow_label = (uint32_t)(bits >> 44);
    }
    weft_rng_bytes(rng, out->source_gid.raw, sizeof(out->source_gid.raw));
    weft_rng_bytes(rng, out->destination_gid.raw, sizeof(out->destination_gid.raw));
    if (is_ipv4) {
        static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
        memcpy(out->source_gid.raw, mapped, sizeof(mapped));
        memcpy(out->destination_gid.raw, mapped, sizeof(mapped));
    }
}

static void random_bth(struct weft_rng *rng, struct sim_roce *out)
{
    uint64_t bits = weft_rng_next(rng);
    out->solicited = flip(rng);
    out->mig_req = flip(rng);
    out->ack_req = flip(rng);
    out->fecn = flip(rng);
    out->becn = flip(rng);
    out->reserved6 = bits & 0x3f;
    out->reserved7 = bits >> 6 & 0x7f;
    out->pkey = (uint16_t)(bits >> 16);
    out->dest_qpn = (uint32_t)(bits >> 40);
    out->psn = (uint32_t)weft_rng_below(rng, RC_PSN_MASK + 1);
}

static void random_extension(struct weft_rng *rng, struct sim_roce *out, unsigned flags)
{
    if ((flags & (RC_HAS_RETH | RC_HAS_ATOMIC)) != 0 || out->opcode == RC_ATOMIC_ACK) {
        out->va = weft_rng_next(rng);
    }
    if ((flags & (RC_HAS_RETH | RC_HAS_ATOMIC)) != 0) {
        out->rkey = (uint32_t)weft_rng_next(rng);
    }
    if ((flags & RC_HAS_RETH) != 0) {
        out->dma_bytes = (uint32_t)weft_rng_next(rng);
    }
    if ((flags & RC_HAS_ATOMIC) != 0) {
        out->swap_add = weft_rng_next(rng);
        out->compare = weft_rng_next(rng);
    }
    if ((flags & RC_HAS_AETH) != 0) {
        out->syndrome = (uint8_t)weft_rng_next(rng);
        out->msn = (uint32_t)weft_rng_below(rng, RC_PSN_MASK + 1);
    }
    out->imm = (flags & RC_HAS_IMM) != 0 ? (uint32_t)weft_rng_next(rng) : 0;
    out->invalidate_key = (flags & RC_HAS_IETH) != 0 ? (uint32_t)weft_rng_next(rng) : 0;
    out->flush = (flags & RC_HAS_FETH) != 0 ? (uint32_t)weft_rng_next(rng) : 0;
}

void sim_roce_random(struct weft_rng *rng, uint8_t opcode, enum sim_roce_layer layer,
                     bool has_vlan, uint8_t *payload, struct sim_roce *out)
{
    unsigned flags = rc_opcode_info(opcode)->flags;
    memset(out, 0, sizeof(*out));
    out->layer = layer;
    out->has_vlan = has_vlan;
    out->opcode = opcode;
    random_addresses(rng, out);
    random_bth(rng, out);
    random_extension(rng, out, flags);
    weft_rng_bytes(rng, payload, SIM_PACKET_PAYLOAD_MAX);
    if (opcode == RC_CNP) {
        out->n_payload = 16; /* reserved bytes */
    } else if (opcode == RC_ATOMIC_WRITE) {
        out->n_payload = 8;
    } else if ((flags & RC_HAS_PAYLOAD) != 0) {
        out->n_payload = (uint32_t)weft_rng_below(rng, SIM_PACKET_PAYLOAD_MAX + 1);
    }
    weft_rng_bytes(rng, out->pad, (0u - out->n_payload) & 3);
    out->payload = out->n_payload > 0 ? payload : NULL;
}
