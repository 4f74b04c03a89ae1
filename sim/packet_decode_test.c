/* The decoder against frames made by other software: the golden frames, and frames
 * between the kernel's soft-RoCE and an independent endpoint. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/capture_testing.h"
#include "sim/icrc.h"
#include "sim/packet_testing.h"

enum { ETHERNET = 14, ICRC = 4 };

static void check_same_bytes(const struct sim_roce *roce, const uint8_t *frame, size_t n)
{
    uint8_t out[SIM_PACKET_BYTES_MAX];
    ck_assert_uint_eq(sim_roce_encode(roce, out, sizeof(out)), n);
    ck_assert_mem_eq(out, frame, n);
}

/* Reads one of the golden frames, by its index in the capture. */
static size_t golden(unsigned index, uint8_t *out)
{
    static struct capture capture;
    const uint8_t *frame = NULL;
    size_t n = 0;
    capture_open(&capture, "sim/testdata/roce.pcap");
    for (unsigned i = 0; i <= index; i++) {
        frame = capture_next(&capture, &n);
        ck_assert_ptr_nonnull(frame);
    }
    memcpy(out, frame, n);
    return n;
}

START_TEST(golden_frames_say_what_they_were_made_of)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    struct sim_roce roce;
    size_t used = 0;
    size_t n = golden(1, bytes);
    ck_assert_int_eq(sim_roce_decode(bytes, n, &roce, &used), SIM_PACKET_OK);
    ck_assert_uint_eq(used, n);
    ck_assert_uint_eq(roce.destination_mac, 0x020000000001);
    ck_assert_uint_eq(roce.source_mac, 0x020000000002);
    ck_assert(!roce.has_vlan);
    ck_assert_int_eq(roce.layer, SIM_ROCE_IPV4);
    ck_assert_uint_eq(roce.source_gid.raw[11], 0xff);
    ck_assert_uint_eq(roce.source_gid.raw[12], 10);
    ck_assert_uint_eq(roce.source_gid.raw[15], 1);
    ck_assert_uint_eq(roce.destination_gid.raw[15], 2);
    ck_assert_uint_eq(roce.traffic_class, 2);
    ck_assert_uint_eq(roce.hop_limit, 64);
    ck_assert_uint_eq(roce.ipv4_id, 0);
    ck_assert(roce.dont_fragment);
    ck_assert_uint_eq(roce.sport, 0xc3a8);
    ck_assert_uint_eq(roce.udp_checksum, 0);
    ck_assert_uint_eq(roce.opcode, RC_WRITE_ONLY_IMM);
    ck_assert(!roce.solicited && roce.mig_req && roce.ack_req);
    ck_assert(!roce.fecn && !roce.becn);
    ck_assert_uint_eq(roce.pkey, 0xffff);
    ck_assert_uint_eq(roce.dest_qpn, 0x34);
    ck_assert_uint_eq(roce.psn, 0x101);
    ck_assert_uint_eq(roce.va, 0x7f0000001000);
    ck_assert_uint_eq(roce.rkey, 0x1234);
    ck_assert_uint_eq(roce.dma_bytes, 5);
    ck_assert_uint_eq(roce.imm, 0xdeadbeef);
    ck_assert_uint_eq(roce.n_payload, 5);
    ck_assert_mem_eq(roce.payload, "hello", 5);
    ck_assert_uint_eq(roce.icrc, 0xc7cf35b7);
    n = golden(7, bytes);
    ck_assert_int_eq(sim_roce_decode(bytes, n, &roce, NULL), SIM_PACKET_OK);
    ck_assert_int_eq(roce.layer, SIM_ROCE_IPV6);
    ck_assert_uint_eq(roce.flow_label, 0x12345);
    ck_assert_uint_eq(roce.source_gid.raw[0], 0xfe);
}
END_TEST

START_TEST(golden_frames_encode_to_themselves)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    struct sim_roce roce;
    size_t n = golden((unsigned)_i, bytes);
    ck_assert_int_eq(sim_roce_decode(bytes, n, &roce, NULL), SIM_PACKET_OK);
    check_same_bytes(&roce, bytes, n);
}
END_TEST

/* 532 frames between Linux's rxe and an endpoint that is not part of this project. Each
 * must be accepted, and encode to the same bytes. */
START_TEST(soft_roce_frames_encode_to_themselves)
{
    static struct capture capture;
    unsigned n_frames = 0;
    unsigned n_others = 0;
    unsigned opcodes[256] = {0};
    unsigned n_ids = 0;
    size_t n = 0;
    capture_open(&capture, "sim/testdata/rxe-interop.pcap");
    for (const uint8_t *frame; (frame = capture_next(&capture, &n)) != NULL;) {
        struct sim_roce roce;
        size_t used = 0;
        enum sim_packet_reject reject = sim_roce_decode(frame, n, &roce, &used);
        if (reject == SIM_PACKET_NOT_ROCE) {
            n_others++; /* ARP and ICMPv6 */
            continue;
        }
        n_frames++;
        ck_assert_msg(reject == SIM_PACKET_OK, "frame %u: %s", n_frames,
                      sim_packet_reject_name(reject));
        ck_assert_uint_eq(used, n);
        check_same_bytes(&roce, frame, n);
        opcodes[roce.opcode]++;
        n_ids += roce.ipv4_id != 0;
    }
    ck_assert_uint_eq(n_frames, 532);
    ck_assert_uint_eq(n_others, 5);
    ck_assert_uint_gt(n_ids, 100); /* the ICRC covers the IPv4 id */
    static const uint8_t must[] = {
        RC_SEND_FIRST, RC_SEND_LAST,  RC_SEND_ONLY,    RC_WRITE_FIRST, RC_WRITE_MIDDLE,
        RC_WRITE_LAST, RC_WRITE_ONLY, RC_READ_REQUEST, RC_READ_FIRST,  RC_READ_MIDDLE,
        RC_READ_LAST,  RC_READ_ONLY,  RC_ACK,          RC_ATOMIC_ACK,  RC_FETCH_ADD,
    };
    ck_assert_uint_gt(opcodes[RC_CNP], 0);
    for (size_t i = 0; i < WEFT_LENGTH(must); i++) {
        ck_assert_msg(opcodes[must[i]] > 0, "no %s", rc_opcode_info(must[i])->name);
    }
}
END_TEST

/* ---- rejects ---- */

struct damage {
    const char *name;
    unsigned frame; /* index of a golden frame */
    unsigned at;
    uint8_t bits;
    enum sim_packet_reject reject;
    bool sums_again; /* the IPv4 checksum and the ICRC are corrected */
};

enum { IP = ETHERNET, UDP4 = IP + 20, BTH4 = UDP4 + 8, BTH6 = IP + 48 };

static const struct damage damages[] = {
    {"another EtherType", 0, 13, 0x06, SIM_PACKET_NOT_ROCE, false},
    {"IPv4 by its EtherType, IPv6 by itself", 0, IP, 0x20, SIM_PACKET_IP_VERSION, false},
    {"IPv6 by its EtherType, IPv4 by itself", 7, IP, 0x20, SIM_PACKET_IP_VERSION, false},
    {"IPv4 options", 0, IP, 0x03, SIM_PACKET_IP_OPTIONS, true},
    {"an IPv4 header of four words", 0, IP, 0x01, SIM_PACKET_LENGTH, true},
    {"a wrong IPv4 checksum", 0, IP + 10, 0x01, SIM_PACKET_IP_CHECKSUM, false},
    {"an IPv4 address changed alone", 0, IP + 15, 0x01, SIM_PACKET_IP_CHECKSUM, false},
    {"more fragments", 0, IP + 6, 0x20, SIM_PACKET_FRAGMENT, true},
    {"a fragment's offset", 0, IP + 7, 0x01, SIM_PACKET_FRAGMENT, true},
    {"the evil bit", 0, IP + 6, 0x80, SIM_PACKET_FRAGMENT, true},
    {"TCP", 0, IP + 9, 17 ^ 6, SIM_PACKET_NOT_ROCE, true},
    {"an IPv6 extension header", 7, IP + 6, 17, SIM_PACKET_NOT_ROCE, false},
    {"an IP length beyond the frame", 0, IP + 3, 0x40, SIM_PACKET_LENGTH, true},
    {"an IPv6 length beyond the frame", 7, IP + 5, 0x40, SIM_PACKET_LENGTH, false},
    {"an IP length of less than UDP", 0, IP + 3, 0x34 ^ 24, SIM_PACKET_RUNT, true},
    {"another UDP port", 0, UDP4 + 3, 0x01, SIM_PACKET_NOT_ROCE, true},
    {"another UDP length", 0, UDP4 + 5, 0x04, SIM_PACKET_LENGTH, true},
    {"a wrong UDP checksum", 0, UDP4 + 7, 0x01, SIM_PACKET_UDP_CHECKSUM, true},
    {"another transport version", 0, BTH4 + 1, 0x01, SIM_PACKET_TVER, true},
    {"an opcode of UC", 0, BTH4, 0x20, SIM_PACKET_OPCODE, true},
    {"a reserved opcode of RC", 0, BTH4, 0x15 ^ 0x04, SIM_PACKET_OPCODE, true},
    {"ACK with a payload", 0, BTH4, 0x11 ^ 0x04, SIM_PACKET_LENGTH, true},
    {"CNP of another size", 0, BTH4, 0x81 ^ 0x04, SIM_PACKET_LENGTH, true},
    {"ATOMIC_WRITE of another size", 1, BTH4, 0x1d ^ 0x0b, SIM_PACKET_LENGTH, true},
    {"pad where nothing is", 4, BTH4 + 1, 0x10, SIM_PACKET_LENGTH, true},
    {"a bit of the payload", 0, BTH4 + 12, 0x01, SIM_PACKET_ICRC, false},
    {"a bit of the PSN", 0, BTH4 + 11, 0x01, SIM_PACKET_ICRC, false},
    {"a bit of the ICRC", 0, BTH4 + 20, 0x01, SIM_PACKET_ICRC, false},
    {"the IPv4 id", 0, IP + 5, 0x01, SIM_PACKET_ICRC, false},
    {"a bit of an IPv6 payload", 7, BTH6 + 12, 0x01, SIM_PACKET_ICRC, false},
};

static void put_ipv4_checksum(uint8_t *ip)
{
    uint32_t sum = 0;
    ip[10] = ip[11] = 0;
    for (unsigned i = 0; i < 20; i += 2) {
        sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16));
    ip[10] = (uint8_t)(sum >> 8);
    ip[11] = (uint8_t)sum;
}

static void put_icrc(uint8_t *bytes, size_t n)
{
    uint32_t icrc = sim_icrc(bytes + ETHERNET, n - ETHERNET - ICRC, false);
    for (unsigned i = 0; i < ICRC; i++) {
        bytes[n - ICRC + i] = (uint8_t)(icrc >> (8 * i));
    }
}

START_TEST(each_damage_has_its_reason)
{
    const struct damage *damage = &damages[_i];
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    struct sim_roce roce;
    size_t n = golden(damage->frame, bytes);
    bytes[damage->at] ^= damage->bits;
    if (damage->sums_again) {
        put_ipv4_checksum(bytes + IP);
        put_icrc(bytes, n);
    } else if (damage->at == IP + 5) {
        put_ipv4_checksum(bytes + IP); /* but not the ICRC */
    }
    enum sim_packet_reject reject = sim_roce_decode(bytes, n, &roce, NULL);
    ck_assert_msg(reject == damage->reject, "%s: %s", damage->name,
                  sim_packet_reject_name(reject));
}
END_TEST

/* A truncated frame is never accepted, and nothing beyond its end is read. */
START_TEST(every_shorter_frame_is_refused)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    struct sim_roce roce;
    size_t n = golden((unsigned)_i, bytes);
    for (size_t short_of = 0; short_of < n; short_of++) {
        uint8_t *exact = malloc(short_of > 0 ? short_of : 1);
        ck_assert_ptr_nonnull(exact);
        memcpy(exact, bytes, short_of);
        enum sim_packet_reject reject = sim_roce_decode(exact, short_of, &roce, NULL);
        bool is_header = short_of < (bytes[12] == 0x86 ? IP + 40u : IP + 20u);
        ck_assert_int_eq(reject, is_header ? SIM_PACKET_RUNT : SIM_PACKET_LENGTH);
        free(exact);
    }
}
END_TEST

/* Short frames are padded to 60 B on real Ethernet, so lengths come from the IP
 * header. */
START_TEST(what_follows_the_ip_packet_is_ignored)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    struct sim_roce roce;
    size_t used = 0;
    size_t n = golden((unsigned)_i, bytes);
    memset(bytes + n, 0xa5, 60);
    for (size_t more = 0; more <= 60; more++) {
        ck_assert_int_eq(sim_roce_decode(bytes, n + more, &roce, &used), SIM_PACKET_OK);
        ck_assert_uint_eq(used, n);
        check_same_bytes(&roce, bytes, n);
    }
}
END_TEST

START_TEST(an_empty_packet_has_no_pad)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    struct sim_roce roce;
    size_t n = golden(0, bytes);
    ck_assert_int_eq(sim_roce_decode(bytes, n, &roce, NULL), SIM_PACKET_OK);
    roce.n_payload = 0;
    n = sim_roce_encode(&roce, bytes, sizeof(bytes));
    ck_assert_int_eq(sim_roce_decode(bytes, n, &roce, NULL), SIM_PACKET_OK);
    bytes[BTH4 + 1] |= 1 << 4;
    put_icrc(bytes, n);
    ck_assert_int_eq(sim_roce_decode(bytes, n, &roce, NULL), SIM_PACKET_LENGTH);
}
END_TEST

START_TEST(a_right_udp_checksum_is_taken_and_kept)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    struct sim_roce roce;
    size_t n = golden(0, bytes);
    uint32_t sum = 17 + (uint32_t)(n - UDP4);
    for (size_t i = IP + 12; i < n; i += 2) {
        sum += (uint32_t)(bytes[i] << 8 | bytes[i + 1]);
    }
    while (sum >> 16 != 0) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    bytes[UDP4 + 6] = (uint8_t)(~sum >> 8);
    bytes[UDP4 + 7] = (uint8_t)~sum;
    ck_assert_int_eq(sim_roce_decode(bytes, n, &roce, NULL), SIM_PACKET_OK);
    ck_assert_uint_eq(roce.udp_checksum, ~sum & 0xffff);
    check_same_bytes(&roce, bytes, n);
}
END_TEST

/* ---- all opcodes on all layers ---- */

static void check_round(const struct sim_roce *roce)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    struct sim_roce out;
    size_t used = 0;
    size_t n = sim_roce_encode(roce, bytes, sizeof(bytes));
    ck_assert_uint_gt(n, 0);
    enum sim_packet_reject reject = sim_roce_decode(bytes, n, &out, &used);
    ck_assert_msg(reject == SIM_PACKET_OK, "%s: %s", rc_opcode_info(roce->opcode)->name,
                  sim_packet_reject_name(reject));
    ck_assert_uint_eq(used, n);
    ck_assert(sim_roce_equal(roce, &out));
}

START_TEST(every_opcode_comes_back_whole)
{
    unsigned opcode = (unsigned)_i == RC_N_OPCODES ? (unsigned)RC_CNP : (unsigned)_i;
    static uint8_t payload[SIM_PACKET_PAYLOAD_MAX];
    struct sim_roce roce;
    struct weft_rng rng;
    weft_rng_init(&rng, 7, "packets");
    if (opcode != RC_CNP && rc_opcode_info(opcode)->flags == 0) {
        return;
    }
    for (unsigned round = 0; round < 60; round++) {
        sim_roce_random(&rng, (uint8_t)opcode, (enum sim_roce_layer)(round % 3),
                        (round / 3) % 2 != 0, payload, &roce);
        check_round(&roce);
    }
}
END_TEST

/* The simulator's record survives the wire, except for fields that the wire does not
 * carry. */
START_TEST(records_survive_the_wire)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    uint8_t again[SIM_PACKET_BYTES_MAX];
    struct sim_roce roce;
    struct sim_path path;
    struct sim_frame frame;
    size_t n = golden((unsigned)_i, bytes);
    ck_assert_int_eq(sim_roce_decode(bytes, n, &roce, NULL), SIM_PACKET_OK);
    sim_frame_of_roce(&roce, &path, &frame);
    ck_assert_uint_eq(sim_packet_encode(&frame, again, sizeof(again)), n);
    ck_assert_mem_eq(again, bytes, n);
    ck_assert_uint_eq(frame.wire_bytes, n + 4 + 20);
    ck_assert_uint_eq(path.header_bytes, roce.layer == SIM_ROCE_IPV4 ? 28 : 48);
}
END_TEST

START_TEST(partitions_need_one_full_member)
{
    ck_assert(sim_pkeys_match(0xffff, 0xffff));
    ck_assert(sim_pkeys_match(0x7fff, 0xffff));
    ck_assert(sim_pkeys_match(0xffff, 0x7fff));
    ck_assert(!sim_pkeys_match(0x7fff, 0x7fff));
    ck_assert(!sim_pkeys_match(0x8001, 0xffff));
}
END_TEST

START_TEST(every_reason_has_a_name)
{
    for (int i = 0; i < SIM_PACKET_N_REJECTS; i++) {
        ck_assert_ptr_nonnull(sim_packet_reject_name((enum sim_packet_reject)i));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("packet_decode");
    TCase *tcase = tcase_create("decode");
    tcase_add_test(tcase, golden_frames_say_what_they_were_made_of);
    tcase_add_loop_test(tcase, golden_frames_encode_to_themselves, 0, 8);
    tcase_add_test(tcase, soft_roce_frames_encode_to_themselves);
    tcase_add_loop_test(tcase, each_damage_has_its_reason, 0, (int)WEFT_LENGTH(damages));
    tcase_add_loop_test(tcase, every_shorter_frame_is_refused, 0, 8);
    tcase_add_loop_test(tcase, what_follows_the_ip_packet_is_ignored, 0, 8);
    tcase_add_test(tcase, an_empty_packet_has_no_pad);
    tcase_add_test(tcase, a_right_udp_checksum_is_taken_and_kept);
    tcase_add_loop_test(tcase, every_opcode_comes_back_whole, 0, RC_N_OPCODES + 1);
    tcase_add_loop_test(tcase, records_survive_the_wire, 0, 8);
    tcase_add_test(tcase, partitions_need_one_full_member);
    tcase_add_test(tcase, every_reason_has_a_name);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
