/* Which bytes profile rxe accepts and sends, row by row as a user-space endpoint observed
 * the kernel's (Linux 7.2.13). */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/icrc.h"
#include "sim/wire_testing.h"

enum { RQ = WIRE_RQ_PSN, SQ = WIRE_SQ_PSN, IP = 14, UDP = IP + 20, BTH = UDP + 8 };

static struct wire wire;

static void set_up(void)
{
    wire_init(&wire, NULL);
}

static void tear_down(void)
{
    wire_fini(&wire);
}

static struct sim_roce write_of(uint32_t psn, const char *eight)
{
    struct sim_roce packet = wire_packet(&wire, RC_WRITE_ONLY, psn);
    packet.va = (uintptr_t)wire.pair.ends[0].memory;
    packet.rkey = wire.pair.ends[0].mr->rkey;
    packet.dma_bytes = 8;
    packet.payload = (const uint8_t *)eight;
    packet.n_payload = 8;
    packet.ack_req = true;
    return packet;
}

static void put(const uint8_t *bytes, size_t n)
{
    (void)sim_port_put_bytes(wire.pair.ends[0].port, bytes, n);
    wire_run(&wire, 20 * RC_PS_PER_US);
}

/* Expects that the packet is executed and acknowledged. */
static void expect_taken(const uint8_t *bytes, size_t n, uint32_t psn)
{
    memset(wire.pair.ends[0].memory, 0, 8);
    put(bytes, n);
    (void)wire_expect_ack(&wire, 0x1f, psn);
    ck_assert_mem_eq(wire.pair.ends[0].memory, "accepted", 8);
}

static void expect_taken_packet(const struct sim_roce *packet)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    size_t n = sim_roce_encode(packet, bytes, sizeof(bytes));
    expect_taken(bytes, n, packet->psn);
}

/* Expects that the packet has no effect, and that the QP continues to work. */
static void expect_dropped(const uint8_t *bytes, size_t n)
{
    memset(wire.pair.ends[0].memory, 0, 8);
    put(bytes, n);
    wire_expect_silence(&wire);
    ck_assert_uint_eq(wire.pair.ends[0].memory[0], 0);
    ck_assert_int_eq(wire_qp_state(&wire), IBV_QPS_RTS);
    struct sim_roce good = write_of(RQ, "accepted");
    expect_taken_packet(&good);
}

/* "IPv4 id / DF: no requirement"; "UDP source port: any, may change per packet of one QP";
 * "TTL 0,1,2,64,255 / TOS 0,2,3(CE),0x68,0xff (no CNP came back for CE)". */
START_TEST(ip_and_udp_may_say_what_they_like)
{
    static const struct {
        uint16_t id;
        bool dont_fragment;
        uint16_t sport;
        uint8_t ttl, tos;
    } rows[] = {
        {0, true, 0, 0, 0},          {0, false, 1, 1, 2},
        {0x1234, true, 1023, 2, 3},  {0xbeef, false, 4791, 64, 0x68},
        {1, true, 32768, 255, 0xff}, {2, true, 49151, 64, 0},
        {3, true, 49152, 64, 0},     {4, true, 65535, 64, 0},
    };
    for (unsigned i = 0; i < WEFT_LENGTH(rows); i++) {
        struct sim_roce packet = write_of(RQ + i, "accepted");
        packet.ipv4_id = rows[i].id;
        packet.dont_fragment = rows[i].dont_fragment;
        packet.sport = rows[i].sport;
        packet.hop_limit = rows[i].ttl;
        packet.traffic_class = rows[i].tos;
        expect_taken_packet(&packet);
    }
    wire_expect_silence(&wire);
}
END_TEST

/* "MigReq 0 and 1"; "FECN, BECN, resv6 and resv7 bits set; SE on WRITE; P_Key 0xffff and
 * 0x7fff". */
START_TEST(bth_bits_of_no_meaning_are_ignored)
{
    for (unsigned i = 0; i < 7; i++) {
        struct sim_roce packet = write_of(RQ + i, "accepted");
        packet.mig_req = i == 0;
        packet.fecn = i == 1;
        packet.becn = i == 2;
        packet.reserved6 = i == 3 ? 0x3f : 0;
        packet.reserved7 = i == 4 ? 0x7f : 0;
        packet.solicited = i == 5;
        packet.pkey = i == 6 ? 0x7fff : 0xffff;
        expect_taken_packet(&packet);
    }
}
END_TEST

static void put_udp_checksum(uint8_t *bytes, size_t n, uint16_t error)
{
    uint32_t sum = 17 + (uint32_t)(n - UDP);
    bytes[UDP + 6] = bytes[UDP + 7] = 0;
    for (size_t i = IP + 12; i < n; i += 2) {
        sum += (uint32_t)(bytes[i] << 8 | bytes[i + 1]);
    }
    while (sum >> 16 != 0) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum = (~sum & 0xffff) ^ error;
    bytes[UDP + 6] = (uint8_t)(sum >> 8);
    bytes[UDP + 7] = (uint8_t)sum;
}

/* "UDP checksum: 0, or correct"; "non-zero wrong: dropped". */
START_TEST(a_udp_checksum_is_right_or_not_there)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    struct sim_roce packet = write_of(RQ, "accepted");
    size_t n = sim_roce_encode(&packet, bytes, sizeof(bytes));
    put_udp_checksum(bytes, n, 1);
    expect_dropped(bytes, n);
    packet = write_of(RQ + 1, "accepted");
    n = sim_roce_encode(&packet, bytes, sizeof(bytes));
    put_udp_checksum(bytes, n, 0);
    expect_taken(bytes, n, RQ + 1);
}
END_TEST

enum wrong_icrc { ICRC_ONE_BIT, ICRC_UNMASKED, ICRC_BIG_ENDIAN, N_WRONG_ICRCS };

/* "ICRC: 1 bit wrong; unmasked; big endian: dropped." */
START_TEST(the_icrc_is_the_masked_one_and_little_endian)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    static const uint8_t ones[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    struct sim_roce packet = write_of(RQ, "rejected");
    size_t n = sim_roce_encode(&packet, bytes, sizeof(bytes));
    uint8_t *icrc = bytes + n - 4;
    uint32_t unmasked = sim_crc32(sim_crc32(0, ones, 8), bytes + IP, n - IP - 4);
    uint8_t swapped[4] = {icrc[3], icrc[2], icrc[1], icrc[0]};
    switch ((enum wrong_icrc)_i) {
    case ICRC_ONE_BIT:
        icrc[0] = (uint8_t)(icrc[0] ^ 1);
        break;
    case ICRC_UNMASKED:
        for (unsigned i = 0; i < 4; i++) {
            icrc[i] = (uint8_t)(unmasked >> (8 * i));
        }
        break;
    case ICRC_BIG_ENDIAN:
    case N_WRONG_ICRCS:
        memcpy(icrc, swapped, 4);
        break;
    }
    expect_dropped(bytes, n);
    ck_assert_uint_eq(rc_counters(&wire.pair, 0).icrc_errors, 1);
}
END_TEST

/* Bits that make a packet one for others. */
static const struct foreign_case {
    uint16_t pkey;
    uint8_t destination_mac, source_gid, destination_gid;
    uint16_t vlan_id; /* 0 if none */
} foreign_cases[] = {
    {.pkey = 0x8001 ^ SIM_PKEY_DEFAULT},
    {.destination_mac = 4},
    {.source_gid = 8},
    {.destination_gid = 8},
    {.vlan_id = 42},
};

/* "TVER 1; P_Key 0x8001"; "wrong destination MAC"; "wrong source IP": silently dropped. */
START_TEST(what_is_for_others_is_dropped)
{
    const struct foreign_case *given = &foreign_cases[_i];
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    struct sim_roce packet = write_of(RQ, "rejected");
    packet.pkey = (uint16_t)(packet.pkey ^ given->pkey);
    packet.destination_mac ^= given->destination_mac;
    packet.source_gid.raw[15] ^= given->source_gid;
    packet.destination_gid.raw[15] ^= given->destination_gid;
    packet.has_vlan = given->vlan_id != 0;
    packet.vlan_tci = given->vlan_id;
    size_t n = sim_roce_encode(&packet, bytes, sizeof(bytes));
    expect_dropped(bytes, n);
}
END_TEST

START_TEST(another_transport_version_is_dropped)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    struct sim_roce packet = write_of(RQ, "rejected");
    size_t n = sim_roce_encode(&packet, bytes, sizeof(bytes));
    bytes[BTH + 1] |= 1;
    uint32_t icrc = sim_icrc(bytes + IP, n - IP - 4, false);
    for (unsigned i = 0; i < 4; i++) {
        bytes[n - 4 + i] = (uint8_t)(icrc >> (8 * i));
    }
    expect_dropped(bytes, n);
    ck_assert(rc_told(&wire.pair, "why=tver"));
}
END_TEST

/* "IP options (ihl 6, ICRC over the options): dropped." */
START_TEST(ip_options_are_dropped)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    uint8_t longer[SIM_PACKET_BYTES_MAX] = {0};
    struct sim_roce packet = write_of(RQ, "rejected");
    size_t n = sim_roce_encode(&packet, bytes, sizeof(bytes));
    memcpy(longer, bytes, UDP);
    memset(longer + UDP, 1, 4); /* four no-operations */
    memcpy(longer + UDP + 4, bytes + UDP, n - UDP);
    longer[IP] = 0x46;
    longer[IP + 3] = (uint8_t)(longer[IP + 3] + 4);
    longer[IP + 10] = longer[IP + 11] = 0;
    uint32_t sum = 0;
    for (unsigned i = 0; i < 24; i += 2) {
        sum += (uint32_t)(longer[IP + i] << 8 | longer[IP + i + 1]);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16));
    longer[IP + 10] = (uint8_t)(sum >> 8);
    longer[IP + 11] = (uint8_t)sum;
    expect_dropped(longer, n + 4);
    ck_assert(rc_told(&wire.pair, "why=ip_options"));
}
END_TEST

/* "foreign source MAC, broadcast destination MAC, 4 trailing bytes after the IP packet,
 * 58-byte unpadded frame: accepted." */
START_TEST(ethernet_may_be_sloppy)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    struct sim_roce packet = write_of(RQ, "accepted");
    packet.source_mac = 0x02deadbeef00;
    expect_taken_packet(&packet);
    packet = write_of(RQ + 1, "accepted");
    packet.destination_mac = SIM_MAC_BROADCAST;
    expect_taken_packet(&packet);
    packet = write_of(RQ + 2, "accepted");
    size_t n = sim_roce_encode(&packet, bytes, sizeof(bytes));
    memset(bytes + n, 0xee, 4);
    expect_taken(bytes, n + 4, RQ + 2);
    packet = write_of(RQ + 3, "accepted");
    packet.has_vlan = true;
    packet.vlan_tci = 3 << 13; /* a priority, but no VLAN */
    expect_taken_packet(&packet);
    ck_assert_int_eq(rc_post_recv(&wire.pair, 0, 1, 0, 0), 0);
    packet = wire_packet(&wire, RC_SEND_ONLY, RQ + 4);
    packet.ack_req = true;
    ck_assert_uint_eq(sim_roce_encode(&packet, bytes, sizeof(bytes)), 58);
    put(bytes, 58);
    (void)wire_expect_ack(&wire, 0x1f, RQ + 4);
}
END_TEST

/* ---- what it sends ---- */

/* Checks the fields common to all packets from A. */
static void check_common(const struct sim_roce *roce, uint8_t tos)
{
    ck_assert_int_eq(roce->layer, SIM_ROCE_IPV4);
    ck_assert(roce->dont_fragment);
    ck_assert_uint_eq(roce->hop_limit, 64);
    ck_assert_uint_eq(roce->traffic_class, tos);
    ck_assert_uint_eq(roce->udp_checksum, 0);
    ck_assert_uint_eq(roce->sport,
                      sim_udp_sport(0, wire.pair.ends[0].qp->qp_num, WIRE_QPN));
    ck_assert(!roce->mig_req && !roce->solicited && !roce->fecn && !roce->becn);
    ck_assert_uint_eq(roce->reserved6, 0);
    ck_assert_uint_eq(roce->reserved7, 0);
    ck_assert_uint_eq(roce->pkey, 0xffff);
    ck_assert_uint_eq(roce->dest_qpn, WIRE_QPN);
}

/* "IPv4: id non-zero and rising by 1 per packet, also on retransmission; DF=1; UDP checksum
 * 0; MigReq 0; P_Key ffff; SE 0; BTH byte 4 = 0; pad = -len&3"; "same port for requests and for
 * ACKs/READ responses"; "Zero-length frames are 58 bytes". */
START_TEST(its_headers_are_those_of_the_kernel)
{
    wire_post(&wire, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 5);
    wire_post(&wire, IBV_WR_SEND, 2, 0);
    wire_run(&wire, 2 * ((weft_ps)4096000 << 14)); /* includes one retransmission */
    wire_read(&wire, RQ, 0, 3000);
    wire_write(&wire, RQ + 3, 0, 8, 1);
    uint16_t id = 0;
    unsigned n = 0;
    for (const struct wire_frame *frame; (frame = wire_next(&wire)) != NULL; n++) {
        check_common(&frame->roce, 0);
        id = id == 0 ? frame->roce.ipv4_id : id;
        ck_assert_uint_ne(id, 0);
        ck_assert_uint_eq(frame->roce.ipv4_id, id + n);
        bool is_response =
            (rc_opcode_info(frame->roce.opcode)->flags & RC_IS_RESPONSE) != 0;
        ck_assert(frame->roce.ack_req == !is_response);
        if (frame->roce.opcode == RC_WRITE_ONLY_IMM) {
            ck_assert_uint_eq(frame->bytes[BTH + 1], 3 << 4);
        } else if (frame->roce.opcode == RC_SEND_ONLY) {
            ck_assert_uint_eq(frame->n_bytes, 58);
        }
    }
    ck_assert_uint_ge(n, 2 + 2 + 3 + 1);
}
END_TEST

/* "ACK: syndrome 0x1f always, MSN starts at 1"; "READ response FIRST/LAST/ONLY carry AETH,
 * MIDDLE none". */
START_TEST(its_answers_are_those_of_the_kernel)
{
    static const uint8_t opcodes[] = {RC_READ_FIRST, RC_READ_MIDDLE, RC_READ_LAST};
    static const uint32_t bytes[] = {4 + 1024, 1024, 4 + 952};
    wire_write(&wire, RQ, 0, 8, 1);
    ck_assert_uint_eq(wire_expect_ack(&wire, 0x1f, RQ)->roce.msn, 1);
    wire_write(&wire, RQ + 1, 0, 8, 1);
    ck_assert_uint_eq(wire_expect_ack(&wire, 0x1f, RQ + 1)->roce.msn, 2);
    wire_read(&wire, RQ + 2, 0, 3000);
    for (unsigned i = 0; i < 3; i++) {
        const struct wire_frame *frame = wire_expect(&wire, opcodes[i], RQ + 2 + i);
        ck_assert_uint_eq(frame->n_bytes, 14 + 28 + 12 + bytes[i] + 4);
        ck_assert_uint_eq(frame->roce.syndrome, i == 1 ? 0 : 0x1f);
    }
    wire_read(&wire, RQ + 5, 0, 8);
    (void)wire_expect(&wire, RC_READ_ONLY, RQ + 5);
}
END_TEST

/* "TOS = AH traffic_class exactly, ECN bits included (0x6a, 0x03, 0xff seen). TTL ignores AH
 * hop_limit: 0, 1, 7, 64, 255 all gave 64." */
START_TEST(tos_is_the_callers_and_ttl_is_not)
{
    static const uint8_t tos[] = {0x6a, 0x03, 0xff, 0, 0};
    static const uint8_t hop_limits[] = {0, 1, 7, 64, 255};
    struct ibv_qp *qp = wire.pair.ends[0].qp;
    struct ibv_qp_attr init = rc_init_attr(&wire.pair);
    struct ibv_qp_attr rtr = rc_rtr_attr(&wire.pair, 0, WIRE_QPN);
    struct ibv_qp_attr rts = rc_rts_attr(&wire.pair, 0);
    rtr.ah_attr.grh.traffic_class = tos[_i];
    rtr.ah_attr.grh.hop_limit = hop_limits[_i];
    ck_assert_int_eq(rc_to_state(&wire.pair, 0, qp, IBV_QPS_RESET), 0);
    ck_assert_int_eq(rc_modify(&wire.pair, 0, qp, &init, rc_init_mask), 0);
    ck_assert_int_eq(rc_modify(&wire.pair, 0, qp, &rtr, rc_rtr_mask), 0);
    ck_assert_int_eq(rc_modify(&wire.pair, 0, qp, &rts, rc_rts_mask), 0);
    wire_post(&wire, IBV_WR_RDMA_WRITE, 1, 8);
    wire_run(&wire, RC_PS_PER_MS);
    check_common(&wire_expect(&wire, RC_WRITE_ONLY, SQ)->roce, tos[_i]);
}
END_TEST

/* "Source port: qpn 0x11/0xabd -> 0xf68f, 0x12/0xabe -> 0xc15f. Symmetric in the two QPNs." */
START_TEST(source_ports_are_those_seen)
{
    ck_assert_uint_eq(sim_udp_sport(0, 0x11, 0xabd), 0xf68f);
    ck_assert_uint_eq(sim_udp_sport(0, 0xabd, 0x11), 0xf68f);
    ck_assert_uint_eq(sim_udp_sport(0, 0x12, 0xabe), 0xc15f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rxe_wire");
    TCase *rows = tcase_create("rows");
    tcase_add_checked_fixture(rows, set_up, tear_down);
    tcase_add_test(rows, ip_and_udp_may_say_what_they_like);
    tcase_add_test(rows, bth_bits_of_no_meaning_are_ignored);
    tcase_add_test(rows, a_udp_checksum_is_right_or_not_there);
    tcase_add_loop_test(rows, the_icrc_is_the_masked_one_and_little_endian, 0,
                        N_WRONG_ICRCS);
    tcase_add_loop_test(rows, what_is_for_others_is_dropped, 0,
                        WEFT_LENGTH(foreign_cases));
    tcase_add_test(rows, another_transport_version_is_dropped);
    tcase_add_test(rows, ip_options_are_dropped);
    tcase_add_test(rows, ethernet_may_be_sloppy);
    tcase_add_test(rows, its_headers_are_those_of_the_kernel);
    tcase_add_test(rows, its_answers_are_those_of_the_kernel);
    tcase_add_loop_test(rows, tos_is_the_callers_and_ttl_is_not, 0, 5);
    tcase_add_test(rows, source_ports_are_those_seen);
    suite_add_tcase(suite, rows);
    return suite_run(suite);
}
