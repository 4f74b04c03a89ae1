/* Tests the formats of docs/wire.md, "Messages" and "Flows". */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "xfer/wire.h"

static const struct xfer_cts sample = {
    .address = UINT64_C(0x0102030405060708),
    .size = 0x1000,
    .rkeys = {0xaabbccdd, 2, 3, 4},
    .tag = 0x11223344,
    .group = 69,
    .slot = 5,
    .index = 1,
    .n = 3,
    .hint = {
        .message = 0x98765, .fragment = 0x2345, .whole = 0x3ffffff0, .index = 2, .n = 6}};

START_TEST(an_entry_is_these_bytes)
{
    static const uint8_t want[XFER_CTS_BYTES] = {
        1,    2,    3,    4,    5,    6,    7,    8,
        0,    0,    0,    0,    0,    0,    0x10, 0, /* address, size */
        0xaa, 0xbb, 0xcc, 0xdd, 0,    0,    0,    2,
        0,    0,    0,    3,    0,    0,    0,    4, /* keys */
        0x11, 0x22, 0x33, 0x44, 0,    0,    0,    69,
        5,    1,    3,    0x98, 0x76, 0x58, 0xd1, 0x56, /* tag, group ... */
        0,    0,    0,    0,    0,    0,    0,    0,
        0x3f, 0xff, 0xff, 0xf0, 'W',  'C',  'T',  'S'};
    uint8_t bytes[XFER_CTS_BYTES];
    struct xfer_cts back;

    xfer_cts_encode(&sample, bytes);
    ck_assert_mem_eq(bytes, want, sizeof(want));
    ck_assert(xfer_cts_decode(bytes, &back));
    ck_assert_uint_eq(back.address, sample.address);
    ck_assert_uint_eq(back.size, sample.size);
    ck_assert_mem_eq(back.rkeys, sample.rkeys, sizeof(back.rkeys));
    ck_assert_uint_eq(back.tag, sample.tag);
    ck_assert_uint_eq(back.group, sample.group);
    ck_assert_uint_eq(back.slot, sample.slot);
    ck_assert_uint_eq(back.index, sample.index);
    ck_assert_uint_eq(back.n, sample.n);
    ck_assert_uint_eq(back.hint.message, sample.hint.message);
    ck_assert_uint_eq(back.hint.fragment, sample.hint.fragment);
    ck_assert_uint_eq(back.hint.whole, sample.hint.whole);
    ck_assert_uint_eq(back.hint.index, sample.hint.index);
    ck_assert_uint_eq(back.hint.n, sample.hint.n);
}
END_TEST

START_TEST(what_is_no_entry_is_refused)
{
    static const struct {
        size_t at;
        uint8_t value;
    } rows[] = {{40, 32},   {41, 3}, {42, 0}, {42, 9},    {8, 1},  {12, 0x41},
                {47, 0x38}, {48, 1}, {55, 1}, {56, 0x40}, {60, 0}, {63, 0}};
    struct xfer_cts back;

    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        uint8_t bytes[XFER_CTS_BYTES];

        xfer_cts_encode(&sample, bytes);
        bytes[rows[i].at] = rows[i].value;
        ck_assert_msg(!xfer_cts_decode(bytes, &back), "row %zu was taken", i);
    }
}
END_TEST

START_TEST(immediates_are_these_bits)
{
    struct xfer_imm cts = {.kind = XFER_IMM_CTS, .slot = 5, .n = 3, .group = 69};
    struct xfer_imm data = {.kind = XFER_IMM_DATA,
                            .slot = 31,
                            .index = 7,
                            .n_parts = 16,
                            .n_full = 255,
                            .sequence = 1023};
    struct xfer_imm back;

    ck_assert_uint_eq(xfer_imm_encode(&cts), 0x80000000u | 5u << 25 | 2u << 22 | 69);
    ck_assert_uint_eq(xfer_imm_encode(&data), 0x7fffffff);
    back = xfer_imm_decode(0x80000000u | 5u << 25 | 2u << 22 | 69);
    ck_assert_int_eq(back.kind, XFER_IMM_CTS);
    ck_assert_uint_eq(back.slot, 5);
    ck_assert_uint_eq(back.n, 3);
    ck_assert_uint_eq(back.group, 69);
    back = xfer_imm_decode(1u << 30 | 2u << 25 | 1u << 22 | 3u << 18 | 9u << 10 | 700);
    ck_assert_int_eq(back.kind, XFER_IMM_DATA);
    ck_assert_uint_eq(back.slot, 2);
    ck_assert_uint_eq(back.index, 1);
    ck_assert_uint_eq(back.n_parts, 4);
    ck_assert_uint_eq(back.n_full, 9);
    ck_assert_uint_eq(back.sequence, 700);
    ck_assert_int_eq(xfer_imm_decode(0).kind, XFER_IMM_NONE);
    back = xfer_imm_decode(0xc0000000u | 0x2abcdef0u);
    ck_assert_int_eq(back.kind, XFER_IMM_NOTICE);
    ck_assert_uint_eq(back.number, 0x2abcdef0);
    ck_assert_uint_eq(xfer_imm_encode(&back), 0xeabcdef0);
    /* Numbers wrap at the width of their fields. */
    cts.group = XFER_IMM_GROUP_MASK + 2;
    ck_assert_uint_eq(xfer_imm_decode(xfer_imm_encode(&cts)).group, 1);
    data.sequence = 1024 + 3;
    ck_assert_uint_eq(xfer_imm_decode(xfer_imm_encode(&data)).sequence, 3);
    /* The packet has the most significant byte first. */
    uint32_t ordered = xfer_network_order(0x01020304);
    ck_assert_mem_eq(&ordered, "\x01\x02\x03\x04", 4);
}
END_TEST

/* In RAIL and HANDOVER immediates, a value with a bit set that must be 0 is not an immediate. */
START_TEST(immediates_of_rails_are_these_bits)
{
    struct xfer_imm rail = {.kind = XFER_IMM_RAIL, .qp = 11, .sequence = 1023};
    struct xfer_imm handover = {.kind = XFER_IMM_HANDOVER};
    struct xfer_imm back = xfer_imm_decode(0x1b0003ff);

    ck_assert_uint_eq(xfer_imm_encode(&rail), 0x1b0003ff);
    ck_assert_int_eq(back.kind, XFER_IMM_RAIL);
    ck_assert_uint_eq(back.qp, 11);
    ck_assert_uint_eq(back.sequence, 1023);
    rail.sequence = 1024 + 5; /* wraps to 5 */
    ck_assert_uint_eq(xfer_imm_encode(&rail), 0x1b000005);
    ck_assert_uint_eq(xfer_imm_encode(&handover), 0x20000000);
    ck_assert_int_eq(xfer_imm_decode(0x20000000).kind, XFER_IMM_HANDOVER);
    for (uint32_t bit = 0; bit < 28; bit++) {
        ck_assert_int_eq(xfer_imm_decode(0x20000000 | 1u << bit).kind, XFER_IMM_NONE);
        ck_assert_int_eq(xfer_imm_decode(0x10000000 | 1u << bit).kind,
                         bit < 10 || bit > 23 ? XFER_IMM_RAIL : XFER_IMM_NONE);
    }
    ck_assert_int_eq(xfer_imm_decode(0x30000000).kind, XFER_IMM_NONE);
}
END_TEST

static const struct flow_purpose far = {.kind = FLOW_FORWARD,
                                        .lane = 2,
                                        .from = 0x01020304,
                                        .to = 7,
                                        .epoch = 9,
                                        .share = 65536,
                                        .fragment_bytes = 131072,
                                        .relay_buffers = 8,
                                        .n_hops = 2,
                                        .hops = {5, 0x1234}};

START_TEST(a_purpose_is_these_bytes)
{
    static const uint8_t want[CONN_PURPOSE_BYTES] = {
        'W', 'F', 'L', 'O', 2, 2, 2, 2, 1, 2, 3, 4, 0, 0, 0, 7,    0,
        0,   0,   9,   0,   1, 0, 0, 0, 2, 0, 0, 0, 8, 0, 5, 0x12, 0x34};
    uint8_t bytes[CONN_PURPOSE_BYTES];
    struct flow_purpose back;

    flow_purpose_encode(&far, bytes);
    ck_assert_mem_eq(bytes, want, sizeof(want));
    ck_assert(flow_purpose_decode(bytes, &back));
    ck_assert_mem_eq(&back, &far, sizeof(far));
}
END_TEST

START_TEST(what_is_no_purpose_is_refused)
{
    static const struct {
        size_t at;
        uint8_t value;
    } rows[] = {
        {0, 'X'}, {4, 1},  {5, 0},  {5, 4},  {5, 1},  {5, 3},  {7, 13}, {7, 1},
        {19, 0},  {20, 1}, {23, 1}, {24, 1}, {25, 0}, {29, 0}, {34, 1}, {63, 1},
    };
    struct flow_purpose back;

    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        uint8_t bytes[CONN_PURPOSE_BYTES];

        flow_purpose_encode(&far, bytes);
        bytes[rows[i].at] = rows[i].value;
        ck_assert_msg(!flow_purpose_decode(bytes, &back), "row %zu was taken", i);
    }
}
END_TEST

START_TEST(an_answer_is_these_bytes)
{
    static const uint8_t want[CONN_PURPOSE_BYTES] = {'W', 'F', 'L', 'A',  0,    0,
                                                     0,   3,   0,   0x0a, 0xbc, 0xde};
    struct flow_answer answer = {.epoch = 3, .base = 0xabcde}, back;
    uint8_t bytes[CONN_PURPOSE_BYTES];

    flow_answer_encode(&answer, bytes);
    ck_assert_mem_eq(bytes, want, sizeof(want));
    ck_assert(flow_answer_decode(bytes, &back));
    ck_assert_uint_eq(back.epoch, 3);
    ck_assert_uint_eq(back.base, 0xabcde);
    bytes[9] = 0x10; /* a base of 21 bits */
    ck_assert(!flow_answer_decode(bytes, &back));
    bytes[9] = 0;
    bytes[12] = 1;
    ck_assert(!flow_answer_decode(bytes, &back));
}
END_TEST

/* Returns true if the parts cover the message without gaps and none is empty, unless the message
 * is. All but the last must be multiples of XFER_PART_ALIGN, and the last piece of each at most
 * max_msg. */
static bool is_covered(uint64_t n_bytes, uint32_t n_qps, uint32_t max_msg)
{
    uint32_t n_parts = xfer_n_parts(n_bytes, n_qps);
    uint64_t at = 0;
    bool ok =
        n_parts >= 1 && n_parts <= n_qps && (n_bytes > XFER_STRIPE_BYTES || n_parts == 1);

    for (uint32_t i = 0; i < n_parts && ok; i++) {
        uint64_t begin, end, last;
        uint32_t n_pieces;

        xfer_part(n_bytes, n_qps, i, &begin, &end);
        n_pieces = xfer_n_pieces(end - begin, max_msg);
        last = end - begin - (uint64_t)(n_pieces - 1) * max_msg;
        ok = begin == at && (end > begin || n_bytes == 0) &&
             (i + 1 == n_parts || (end - begin) % XFER_PART_ALIGN == 0) &&
             last <= max_msg && (last > 0 || n_bytes == 0);
        at = end;
    }
    return ok && at == n_bytes;
}

static void check_stripes(uint64_t n_bytes, uint32_t n_qps, uint32_t max_msg)
{
    if (!is_covered(n_bytes, n_qps, max_msg)) {
        ck_abort_msg("%llu bytes on %u QPs in pieces of %u", (unsigned long long)n_bytes,
                     n_qps, max_msg);
    }
}

/* With rails of 100 and 25 Gbit/s, the first carries four fifths, whatever the first QP is. */
START_TEST(stripes_are_as_rails_are_fast)
{
    static const uint32_t weights[4] = {100000, 25000, 100000, 25000};

    for (uint64_t n_bytes = 32769; n_bytes < 5000000; n_bytes = n_bytes * 3 / 2 + 1) {
        for (uint32_t first = 0; first < 4; first++) {
            uint64_t at = 0, fast = 0;

            for (uint32_t part = 0; part < 4; part++) {
                uint64_t begin, end;

                xfer_weighted_part(n_bytes, weights, 4, first, part, &begin, &end);
                ck_assert_uint_eq(begin, at);
                ck_assert_uint_ge(end, begin);
                ck_assert(part == 3 || end % XFER_PART_ALIGN == 0 || end == n_bytes);
                fast += (first + part) % 2 == 0 ? end - begin : 0;
                at = end;
            }
            ck_assert_uint_eq(at, n_bytes);
            ck_assert_uint_ge(fast + 2 * XFER_PART_ALIGN, n_bytes * 4 / 5);
            ck_assert_uint_le(fast, n_bytes * 4 / 5 + 2 * XFER_PART_ALIGN);
        }
    }
}
END_TEST

START_TEST(stripes_cover_the_message)
{
    struct weft_rng rng;

    weft_rng_init(&rng, 1, "stripes");
    for (uint32_t n_qps = 1; n_qps <= CONN_QPS_MAX; n_qps++) {
        for (uint64_t n = 0; n < 400; n++) {
            check_stripes(n, n_qps, 4096);
            check_stripes(XFER_STRIPE_BYTES - 200 + n, n_qps, 4096);
        }
        for (int i = 0; i < 1000; i++) {
            check_stripes(weft_rng_below(&rng, (1u << 30) + 1), n_qps,
                          4096u << weft_rng_below(&rng, 18));
        }
    }
    /* Computed by hand: 100000 bytes on 3 QPs are parts of 33408, 33408 and 33184 bytes. */
    uint64_t begin, end;
    xfer_part(100000, 3, 2, &begin, &end);
    ck_assert_uint_eq(begin, 66816);
    ck_assert_uint_eq(end, 100000);
    ck_assert_uint_eq(xfer_n_bytes_max(4096), 1u << 20);
}
END_TEST

START_TEST(a_final_state_is_these_bytes)
{
    static const uint8_t want[CONN_PURPOSE_BYTES] = {'W', 'F',  'L',  'F',  0, 0, 0,   0,
                                                     0,   0x0a, 0xbc, 0xde, 5, 0, 0x80};
    struct flow_final final = {.base = 0xabcde, .complete = {5, 0, 0x80}}, back;
    uint8_t bytes[CONN_PURPOSE_BYTES];

    flow_final_encode(&final, bytes);
    ck_assert_mem_eq(bytes, want, sizeof(want));
    ck_assert(flow_final_decode(bytes, &back));
    ck_assert(!back.is_sender);
    ck_assert_uint_eq(back.base, final.base);
    ck_assert_mem_eq(back.complete, final.complete, sizeof(final.complete));
    bytes[CONN_PURPOSE_BYTES - 1] = 1;
    ck_assert(!flow_final_decode(bytes, &back));
}
END_TEST

START_TEST(what_is_no_final_state_is_refused)
{
    static const struct {
        size_t at;
        uint8_t value;
    } rows[] = {{0, 'X'}, {3, 'A'}, {4, 1}, {7, 2}, {8, 1}, {9, 0x10}, {44, 1}, {63, 1}};
    struct flow_final sender = {.is_sender = true}, back;
    uint8_t bytes[CONN_PURPOSE_BYTES];

    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        flow_final_encode(&(struct flow_final){.base = 1}, bytes);
        bytes[rows[i].at] = rows[i].value;
        ck_assert_msg(!flow_final_decode(bytes, &back), "row %zu was taken", i);
    }
    flow_final_encode(&sender, bytes);
    ck_assert(flow_final_decode(bytes, &back) && back.is_sender);
    bytes[20] = 1; /* the final state of a sender lists no messages */
    ck_assert(!flow_final_decode(bytes, &back));
    memset(bytes, 0, sizeof(bytes));
    ck_assert(!flow_final_decode(bytes, &back));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xfer/wire");
    TCase *tcase = tcase_create("wire");

    tcase_add_test(tcase, an_entry_is_these_bytes);
    tcase_add_test(tcase, what_is_no_entry_is_refused);
    tcase_add_test(tcase, immediates_are_these_bits);
    tcase_add_test(tcase, immediates_of_rails_are_these_bits);
    tcase_add_test(tcase, a_purpose_is_these_bytes);
    tcase_add_test(tcase, what_is_no_purpose_is_refused);
    tcase_add_test(tcase, an_answer_is_these_bytes);
    tcase_add_test(tcase, stripes_are_as_rails_are_fast);
    tcase_add_test(tcase, stripes_cover_the_message);
    tcase_add_test(tcase, a_final_state_is_these_bytes);
    tcase_add_test(tcase, what_is_no_final_state_is_refused);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
