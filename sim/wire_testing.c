#include "sim/wire_testing.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/nic_objects.h"

static void hear(void *context, weft_ns at, const struct sim_port *port, bool is_outgoing,
                 const uint8_t *bytes, size_t n_bytes, const char *comment)
{
    struct wire *wire = context;
    (void)at;
    (void)port;
    (void)comment;
    if (is_outgoing) {
        return;
    }
    if (wire->n_heard == wire->cap) {
        wire->cap = wire->cap == 0 ? 64 : 2 * wire->cap;
        wire->heard = weft_realloc(wire->heard, wire->cap * sizeof(*wire->heard));
    }
    struct wire_frame *frame = weft_calloc(1, sizeof(*frame));
    ck_assert_uint_le(n_bytes, sizeof(frame->bytes));
    memcpy(frame->bytes, bytes, n_bytes);
    frame->n_bytes = n_bytes;
    frame->at = sim_now(wire->pair.engine);
    size_t used = 0;
    ck_assert_int_eq(sim_roce_decode(frame->bytes, n_bytes, &frame->roce, &used),
                     SIM_PACKET_OK);
    ck_assert_uint_eq(used, n_bytes);
    wire->heard[wire->n_heard++] = frame;
}

void wire_init(struct wire *wire, const struct rc_options *options)
{
    struct rc_options chosen = {0};
    memset(wire, 0, sizeof(*wire));
    if (options != NULL) {
        chosen = *options;
    }
    chosen.profile = chosen.profile == NULL ? "rxe" : chosen.profile;
    chosen.mtu_bytes = chosen.mtu_bytes == 0 ? 1500 : chosen.mtu_bytes;
    chosen.path_mtu = chosen.path_mtu == 0 ? IBV_MTU_1024 : chosen.path_mtu;
    if (chosen.sq_psn[0] == 0 && chosen.sq_psn[1] == 0) {
        chosen.sq_psn[0] = WIRE_SQ_PSN;
        chosen.sq_psn[1] = WIRE_RQ_PSN;
    }
    chosen.is_unconnected = true;
    rc_pair_init(&wire->pair, &chosen);
    struct rc_end *far = &wire->pair.ends[1];
    sim_port_attach(far->port, NULL, far->stack);
    rc_connect(&wire->pair, 0, wire->pair.ends[0].qp, WIRE_QPN);
    rc_fill(&wire->pair);
    rc_clear_story(&wire->pair);
    sim_port_tap(far->port, hear, wire);
}

void wire_fini(struct wire *wire)
{
    sim_port_tap(wire->pair.ends[1].port, NULL, NULL);
    for (unsigned i = 0; i < wire->n_heard; i++) {
        free(wire->heard[i]);
    }
    free(wire->heard);
    rc_pair_fini(&wire->pair);
}

void wire_run(struct wire *wire, weft_ps time)
{
    rc_run(&wire->pair, time);
}

const struct wire_frame *wire_next(struct wire *wire)
{
    return wire->n_read < wire->n_heard ? wire->heard[wire->n_read++] : NULL;
}

const struct wire_frame *wire_expect(struct wire *wire, uint8_t opcode, uint32_t psn)
{
    const struct wire_frame *frame = wire_next(wire);
    ck_assert_msg(frame != NULL, "silence instead of %s psn %x",
                  rc_opcode_info(opcode)->name, psn);
    ck_assert_msg(frame->roce.opcode == opcode && frame->roce.psn == psn,
                  "%s psn %x instead of %s psn %x",
                  rc_opcode_info(frame->roce.opcode)->name, frame->roce.psn,
                  rc_opcode_info(opcode)->name, psn);
    return frame;
}

const struct wire_frame *wire_expect_ack(struct wire *wire, uint8_t syndrome,
                                         uint32_t psn)
{
    const struct wire_frame *frame = wire_expect(wire, RC_ACK, psn);
    ck_assert_uint_eq(frame->roce.syndrome, syndrome);
    return frame;
}

void wire_expect_silence(struct wire *wire)
{
    const struct wire_frame *frame = wire_next(wire);
    ck_assert_msg(frame == NULL, "%s psn %x instead of silence",
                  rc_opcode_info(frame->roce.opcode)->name, frame->roce.psn);
}

struct sim_roce wire_packet(const struct wire *wire, uint8_t opcode, uint32_t psn)
{
    struct sim_roce packet;
    const struct sim_path *path = sim_qp_of(wire->pair.ends[0].qp)->path;
    memset(&packet, 0, sizeof(packet));
    packet.destination_mac = path->source_mac;
    packet.source_mac = path->destination_mac;
    packet.layer = path->is_ipv4 ? SIM_ROCE_IPV4 : SIM_ROCE_IPV6;
    packet.source_gid = path->destination_gid;
    packet.destination_gid = path->source_gid;
    packet.hop_limit = 64;
    packet.dont_fragment = path->is_ipv4;
    packet.sport = 0xc000;
    packet.opcode = opcode;
    packet.pkey = SIM_PKEY_DEFAULT;
    packet.dest_qpn = wire->pair.ends[0].qp->qp_num;
    packet.psn = psn & RC_PSN_MASK;
    return packet;
}

void wire_say(struct wire *wire, const struct sim_roce *packet)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    size_t n = sim_roce_encode(packet, bytes, sizeof(bytes));
    ck_assert_uint_gt(n, 0);
    ck_assert_int_eq(sim_port_put_bytes(wire->pair.ends[0].port, bytes, n),
                     SIM_PACKET_OK);
    wire_run(wire, 20 * RC_PS_PER_US);
}

void wire_ack(struct wire *wire, uint8_t syndrome, uint32_t psn)
{
    struct sim_roce packet = wire_packet(wire, RC_ACK, psn);
    packet.syndrome = syndrome;
    packet.msn = psn & 0xff;
    wire_say(wire, &packet);
}

static uint8_t write_opcode(bool is_first, bool is_last)
{
    if (is_first) {
        return is_last ? RC_WRITE_ONLY : RC_WRITE_FIRST;
    }
    return is_last ? RC_WRITE_LAST : RC_WRITE_MIDDLE;
}

void wire_write(struct wire *wire, uint32_t psn, size_t offset, uint32_t n_bytes,
                uint8_t fill)
{
    uint8_t payload[WIRE_MTU];
    uint32_t n_packets = n_bytes == 0 ? 1 : (n_bytes - 1) / WIRE_MTU + 1;
    memset(payload, fill, sizeof(payload));
    for (uint32_t i = 0; i < n_packets; i++) {
        bool is_last = i + 1 == n_packets;
        struct sim_roce packet =
            wire_packet(wire, write_opcode(i == 0, is_last), psn + i);
        packet.n_payload = is_last ? n_bytes - i * WIRE_MTU : WIRE_MTU;
        packet.payload = payload;
        packet.ack_req = is_last;
        if (i == 0) {
            packet.va = (uintptr_t)wire->pair.ends[0].memory + offset;
            packet.rkey = wire->pair.ends[0].mr->rkey;
            packet.dma_bytes = n_bytes;
        }
        wire_say(wire, &packet);
    }
}

void wire_read(struct wire *wire, uint32_t psn, size_t offset, uint32_t n_bytes)
{
    struct sim_roce packet = wire_packet(wire, RC_READ_REQUEST, psn);
    packet.va = (uintptr_t)wire->pair.ends[0].memory + offset;
    packet.rkey = wire->pair.ends[0].mr->rkey;
    packet.dma_bytes = n_bytes;
    packet.ack_req = true;
    wire_say(wire, &packet);
}

void wire_send(struct wire *wire, uint32_t psn, uint32_t n_bytes, uint8_t fill)
{
    uint8_t payload[WIRE_MTU];
    struct sim_roce packet = wire_packet(wire, RC_SEND_ONLY, psn);
    memset(payload, fill, sizeof(payload));
    packet.payload = payload;
    packet.n_payload = n_bytes;
    packet.ack_req = true;
    wire_say(wire, &packet);
}

void wire_post(struct wire *wire, enum ibv_wr_opcode opcode, uint64_t wr_id,
               uint32_t n_bytes)
{
    struct rc_end *end = &wire->pair.ends[0];
    struct ibv_sge sge = {(uintptr_t)end->memory, n_bytes, end->mr->lkey};
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr = {
        .wr_id = wr_id,
        .sg_list = &sge,
        .num_sge = n_bytes > 0 ? 1 : 0,
        .opcode = opcode,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = WIRE_VA, .rkey = WIRE_RKEY},
    };
    ck_assert_int_eq(sim_nic_post_send(end->qp, &wr, &bad), 0);
}

void wire_expect_done(struct wire *wire, uint64_t wr_id, enum ibv_wc_status status)
{
    struct ibv_wc wc;
    ck_assert_int_eq(rc_poll(&wire->pair, 0, &wc, 1), 1);
    ck_assert_uint_eq(wc.wr_id, wr_id);
    ck_assert_msg(wc.status == status, "wr %u: %s instead of %s", (unsigned)wr_id,
                  sim_wc_status_name(wc.status), sim_wc_status_name(status));
}

void wire_expect_all_done(struct wire *wire, unsigned first, unsigned last,
                          enum ibv_wc_status status)
{
    for (unsigned i = first; i <= last; i++) {
        wire_expect_done(wire, i, status);
    }
    wire_expect_none_done(wire);
}

void wire_expect_none_done(struct wire *wire)
{
    struct ibv_wc wc;
    ck_assert_int_eq(rc_poll(&wire->pair, 0, &wc, 1), 0);
}

enum ibv_qp_state wire_qp_state(const struct wire *wire)
{
    return sim_qp_of(wire->pair.ends[0].qp)->state;
}
