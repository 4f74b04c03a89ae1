/* Golden frames, made by an encoder that shares no code with this project. tshark decodes
 * them. */
#include "sim/packet.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/icrc.h"

enum { ACKED = SIM_FRAME_ACK_REQ | SIM_FRAME_MIG_REQ };

struct golden {
    const char *name;
    bool is_ipv6;
    struct sim_frame frame;
    const char *hex;
};

static const struct golden goldens[] = {
    {"send_only",
     false,
     {.opcode = RC_SEND_ONLY,
      .psn = 0x100,
      .dest_qpn = 0x34,
      .flags = ACKED,
      .payload = (const uint8_t *)"\0\1\2\3\4\5\6\7",
      .n_payload = 8},
     "02000000000102000000000208004502003400004000401126b50a0000010a000002c3a8"
     "12b7002000000440ffff00000034800001000001020304050607067d71da"},
    {"write_only_imm",
     false,
     {.opcode = RC_WRITE_ONLY_IMM,
      .psn = 0x101,
      .dest_qpn = 0x34,
      .flags = ACKED,
      .va = 0x7f0000001000,
      .rkey = 0x1234,
      .dma_bytes = 5,
      .imm = 0xdeadbeef,
      .payload = (const uint8_t *)"hello",
      .n_payload = 5},
     "02000000000102000000000208004502004800004000401126a10a0000010a000002c3a8"
     "12b7003400000b70ffff000000348000010100007f00000010000000123400000005dead"
     "beef68656c6c6f000000b735cfc7"},
    {"read_request",
     false,
     {.opcode = RC_READ_REQUEST,
      .psn = 0x102,
      .dest_qpn = 0x34,
      .flags = ACKED,
      .va = 0x7f0000002000,
      .rkey = 0x1234,
      .dma_bytes = 4096},
     "02000000000102000000000208004502003c00004000401126ad0a0000010a000002c3a8"
     "12b7002800000c40ffff000000348000010200007f00000020000000123400001000683c"
     "e89e"},
    {"fetch_add",
     false,
     {.opcode = RC_FETCH_ADD,
      .psn = 0x103,
      .dest_qpn = 0x34,
      .flags = ACKED,
      .va = 0x7f0000003000,
      .rkey = 0x1234,
      .swap_add = 1},
     "02000000000102000000000208004502004800004000401126a10a0000010a000002c3a8"
     "12b7003400001440ffff000000348000010300007f000000300000001234000000000000"
     "0001000000000000000079bc9cc3"},
    {"ack",
     false,
     {.opcode = RC_ACK,
      .psn = 0x103,
      .dest_qpn = 0x12,
      .flags = SIM_FRAME_MIG_REQ,
      .syndrome = RC_SYNDROME_ACK,
      .msn = 4},
     "02000000000102000000000208004502003000004000401126b90a0000010a000002c3a8"
     "12b7001c00001140ffff00000012000001031f00000423c2686e"},
    {"nak_sequence",
     false,
     {.opcode = RC_ACK,
      .psn = 0x104,
      .dest_qpn = 0x12,
      .flags = SIM_FRAME_MIG_REQ,
      .syndrome = RC_SYNDROME_SEQUENCE,
      .msn = 4},
     "02000000000102000000000208004502003000004000401126b90a0000010a000002c3a8"
     "12b7001c00001140ffff000000120000010460000004f9ae14ef"},
    {"rnr",
     false,
     {.opcode = RC_ACK,
      .psn = 0x104,
      .dest_qpn = 0x12,
      .flags = SIM_FRAME_MIG_REQ,
      .syndrome = RC_SYNDROME_RNR | 12,
      .msn = 4},
     "02000000000102000000000208004502003000004000401126b90a0000010a000002c3a8"
     "12b7001c00001140ffff00000012000001042c0000047c49d63e"},
    {"send_only_ipv6",
     true,
     {.opcode = RC_SEND_ONLY,
      .psn = 0x105,
      .dest_qpn = 0x34,
      .flags = ACKED,
      .payload = (const uint8_t *)"ABCDEFGH",
      .n_payload = 8},
     "02000000000102000000000286dd6021234500201140fe80000000000000000000000000"
     "0001fe800000000000000000000000000002c3a812b7002000000440ffff000000348000"
     "010541424344454647485e7554a9"},
};

static struct sim_path make_path(bool is_ipv6)
{
    struct sim_path path = {
        .source_mac = 0x020000000002,
        .destination_mac = 0x020000000001,
        .traffic_class = 2,
        .hop_limit = 64,
        .is_ipv4 = !is_ipv6,
        .header_bytes = is_ipv6 ? 48 : 28,
    };
    const uint8_t v4[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 0};
    const uint8_t v6[] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    memcpy(path.source_gid.raw, is_ipv6 ? v6 : v4, 16);
    memcpy(path.destination_gid.raw, is_ipv6 ? v6 : v4, 16);
    path.source_gid.raw[15] = 1;
    path.destination_gid.raw[15] = 2;
    path.flow_label = is_ipv6 ? 0x12345 : 0;
    return path;
}

static size_t encode(const struct golden *golden, uint8_t *out, size_t out_bytes)
{
    struct sim_path path = make_path(golden->is_ipv6);
    struct sim_frame frame = golden->frame;
    frame.path = &path;
    frame.sport = sim_udp_sport(0, 0x12, 0x34);
    return sim_packet_encode(&frame, out, out_bytes);
}

START_TEST(frame_is_golden)
{
    const struct golden *golden = &goldens[_i];
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    char hex[2 * SIM_PACKET_BYTES_MAX + 1];
    size_t n = encode(golden, bytes, sizeof(bytes));
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    }
    ck_assert_msg(strcmp(hex, golden->hex) == 0, "%s:\n%s\n%s", golden->name, hex,
                  golden->hex);
    /* Every buffer that is too small is refused, and none is overrun. */
    for (size_t room = 0; room < n; room++) {
        ck_assert_uint_eq(encode(golden, bytes, room), 0);
    }
}
END_TEST

/* Fields that routers can change are not covered by the ICRC; all others are. */
START_TEST(icrc_ignores_what_routers_change)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    static const size_t free_v4[] = {1, 8, 10, 11, 26, 27, 32};
    size_t n = encode(&goldens[0], bytes, sizeof(bytes)) - 14 - 4;
    uint32_t icrc = sim_icrc(bytes + 14, n, false);
    for (size_t i = 1; i < n; i++) {
        bool is_free = false;
        for (size_t k = 0; k < WEFT_LENGTH(free_v4); k++) {
            is_free = is_free || free_v4[k] == i;
        }
        bytes[14 + i] ^= 0x10;
        ck_assert_msg((sim_icrc(bytes + 14, n, false) == icrc) == is_free, "byte %zu", i);
        bytes[14 + i] ^= 0x10;
    }
}
END_TEST

START_TEST(roce_v1_has_a_grh_and_no_udp)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    struct sim_path path = make_path(true);
    path.is_v1 = true;
    path.header_bytes = 40;
    struct sim_frame frame = goldens[0].frame;
    frame.path = &path;
    frame.flags |= SIM_FRAME_ECN_CE;
    size_t n = sim_packet_encode(&frame, bytes, sizeof(bytes));
    ck_assert_uint_eq(n, 14 + 40 + 12 + 8 + 4);
    ck_assert_int_eq(bytes[12] << 8 | bytes[13], 0x8915);
    ck_assert_uint_eq(bytes[14 + 6], 0x1b);
    ck_assert_int_eq(bytes[14] << 8 | bytes[15], 0x6031); /* CE in the traffic class */
    ck_assert_uint_eq(bytes[14 + 40], RC_SEND_ONLY);
}
END_TEST

START_TEST(a_corrupt_frame_has_a_wrong_icrc)
{
    uint8_t good[SIM_PACKET_BYTES_MAX];
    uint8_t bad[SIM_PACKET_BYTES_MAX];
    struct golden golden = goldens[0];
    size_t n = encode(&golden, good, sizeof(good));
    golden.frame.flags |= SIM_FRAME_CORRUPT;
    ck_assert_uint_eq(encode(&golden, bad, sizeof(bad)), n);
    ck_assert_mem_eq(good + n - 4, bad + n - 4, 4);
    ck_assert_uint_ne(sim_icrc(bad + 14, n - 18, false),
                      sim_icrc(good + 14, n - 18, false));
}
END_TEST

START_TEST(source_port_follows_label_or_qpns)
{
    ck_assert_uint_eq(sim_udp_sport(0, 0x12, 0x34), 0xc3a8);
    ck_assert_uint_eq(sim_udp_sport(0, 0x34, 0x12), 0xc3a8);
    ck_assert_uint_eq(sim_udp_sport(0xfc001, 0x12, 0x34), 0xc03e);
    ck_assert_uint_ne(sim_udp_sport_rxe(17), sim_udp_sport_rxe(18));
    ck_assert_uint_ge(sim_udp_sport_rxe(0xffffff), 0xc000);
}
END_TEST

START_TEST(crc32_is_zlibs)
{
    /* The check value of CRC-32/ISO-HDLC, in one piece and in two. */
    ck_assert_uint_eq(sim_crc32(0, (const uint8_t *)"123456789", 9), 0xcbf43926);
    uint32_t half = sim_crc32(0, (const uint8_t *)"1234", 4);
    ck_assert_uint_eq(sim_crc32(half, (const uint8_t *)"56789", 5), 0xcbf43926);
}
END_TEST

START_TEST(unknown_opcodes_are_nothing)
{
    ck_assert_uint_eq(rc_opcode_info(RC_CNP)->flags, 0);
    ck_assert_uint_eq(rc_opcode_info(RC_N_OPCODES)->flags, 0);
    ck_assert_str_eq(rc_opcode_info(255)->name, "?");
    ck_assert_int_lt(rc_psn_diff(0xffffff, 0), 0);
    ck_assert_int_eq(rc_psn_diff(0, 0xffffff), 1);
    ck_assert_int_eq(rc_psn_diff(0x800000, 0), -0x800000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("packet");
    TCase *frames = tcase_create("frames");
    tcase_add_loop_test(frames, frame_is_golden, 0, (int)WEFT_LENGTH(goldens));
    tcase_add_test(frames, icrc_ignores_what_routers_change);
    tcase_add_test(frames, roce_v1_has_a_grh_and_no_udp);
    tcase_add_test(frames, a_corrupt_frame_has_a_wrong_icrc);
    tcase_add_test(frames, source_port_follows_label_or_qpns);
    tcase_add_test(frames, crc32_is_zlibs);
    tcase_add_test(frames, unknown_opcodes_are_nothing);
    suite_add_tcase(suite, frames);
    return suite_run(suite);
}
