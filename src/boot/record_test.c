/* Tests that announcements, greetings, records and pieces have the bytes of docs/wire.md, and that
 * others are rejected. */
#include "boot/record.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "boot/boot.h"

static struct record_identity identity_of(uint8_t seed)
{
    struct record_identity out = {.started_ns = 0x0102030405060708u + seed,
                                  .nonce = 0x1112131415161718u + seed};

    for (uint8_t i = 0; i < 16; i++) {
        out.host_id[i] = (uint8_t)(seed + i);
    }
    return out;
}

static struct record_self self_of(uint32_t member)
{
    return (struct record_self){
        .member = member, .n_ranks = 4, .n_members = 6, .identity = identity_of(9)};
}

static struct record_announcement announcement(void)
{
    return (struct record_announcement){.self = self_of(5), .port = 3, .control = 7001};
}

static const uint8_t key[AUTH_KEY_BYTES] = {1, 2, 3};

static bool same_identity(const struct record_identity *a,
                          const struct record_identity *b)
{
    return memcmp(a->host_id, b->host_id, 16) == 0 && a->started_ns == b->started_ns &&
           a->nonce == b->nonce;
}

START_TEST(an_announcement_is_these_bytes)
{
    static const uint8_t head[56] = {
        'W',  'E',  'F',  'A',  0,    1,    3,    0,    /* magic, version, port, 0 */
        0,    0,    0,    5,    0,    0,    0,    4,    /* member, ranks */
        0,    0,    0,    6,    9,    10,   11,   12,   /* members, host id */
        13,   14,   15,   16,   17,   18,   19,   20,   /* ... */
        21,   22,   23,   24,   0x01, 0x02, 0x03, 0x04, /* ..., started */
        0x05, 0x06, 0x07, 0x11, 0x11, 0x12, 0x13, 0x14, /* ..., nonce */
        0x15, 0x16, 0x17, 0x21, 0x1b, 0x59, 0,    0,    /* ..., control, 0 */
    };
    struct record_announcement in = announcement(), out;
    uint8_t bytes[RECORD_ANNOUNCEMENT_BYTES];

    record_encode_announcement(&in, key, bytes);
    ck_assert_mem_eq(bytes, head, sizeof(head));
    ck_assert_int_eq(record_decode_announcement(bytes, sizeof(bytes), &out, NULL),
                     WEFT_OK);
    ck_assert_uint_eq(out.self.member, 5);
    ck_assert_uint_eq(out.self.n_ranks, 4);
    ck_assert_uint_eq(out.self.n_members, 6);
    ck_assert(same_identity(&out.self.identity, &in.self.identity));
    ck_assert_uint_eq(out.port, 3);
    ck_assert_uint_eq(out.control, 7001);
}
END_TEST

START_TEST(every_bit_of_an_announcement_is_sealed)
{
    uint8_t bytes[RECORD_ANNOUNCEMENT_BYTES], other[AUTH_KEY_BYTES] = {1, 2, 4};
    struct record_announcement in = announcement();

    record_encode_announcement(&in, key, bytes);
    ck_assert(record_announcement_is_ours(bytes, key));
    ck_assert(!record_announcement_is_ours(bytes, other));
    for (uint32_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ck_assert_msg(!record_announcement_is_ours(bytes, key), "bit %u", bit);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}
END_TEST

START_TEST(announcement_keys_differ_by_job_and_use)
{
    uint8_t job[32] = {0}, a[32], b[32], boot[32];

    record_announcement_key(job, a);
    auth_boot_key(job, boot);
    ck_assert_mem_ne(a, boot, 32);
    job[31] = 1;
    record_announcement_key(job, b);
    ck_assert_mem_ne(a, b, 32);
}
END_TEST

START_TEST(bad_announcements_are_refused)
{
    static const struct {
        uint8_t at, value;
        const char *field;
    } bad[] = {{0, 'w', "magic"},  {5, 2, "version"},  {7, 1, "control"},
               {55, 1, "control"}, {15, 0, "n_ranks"}, {15, 7, "n_ranks"},
               {11, 6, "member"},  {8, 1, "member"},   {19, 3, "n_ranks"}};
    struct record_announcement in = announcement(), out;
    uint8_t bytes[RECORD_ANNOUNCEMENT_BYTES + 1] = {0};

    for (size_t i = 0; i < WEFT_LENGTH(bad); i++) {
        struct weft_error error = {0};

        record_encode_announcement(&in, key, bytes);
        bytes[bad[i].at] = bad[i].value;
        ck_assert_int_eq(record_decode_announcement(bytes, 88, &out, &error),
                         strcmp(bad[i].field, "version") == 0 ? WEFT_ERR_UNSUPPORTED
                                                              : WEFT_ERR_PROTOCOL);
        ck_assert_str_eq(weft_error_value(&error, WEFT_VALUE_FIELD)->text, bad[i].field);
    }
    record_encode_announcement(&in, key, bytes);
    memset(bytes + 44, 0, 8); /* nonce */
    ck_assert_int_eq(record_decode_announcement(bytes, 88, &out, NULL),
                     WEFT_ERR_PROTOCOL);
    for (size_t n = 0; n <= 89; n++) {
        record_encode_announcement(&in, key, bytes);
        ck_assert_int_eq(record_decode_announcement(bytes, n, &out, NULL),
                         n == 88 ? WEFT_OK : WEFT_ERR_PROTOCOL);
    }
}
END_TEST

START_TEST(a_greeting_comes_back)
{
    struct record_greeting in = {.self = self_of(2), .port = 1, .peer_port = 255}, out;
    uint8_t body[CODEC_BODY_MAX + 1] = {0};
    size_t n_bytes = record_encode_greeting(&in, body);

    ck_assert_uint_eq(n_bytes, 46);
    for (size_t n = 0; n <= n_bytes + 1; n++) {
        ck_assert_int_eq(record_decode_greeting(body, n, &out, NULL),
                         n == n_bytes ? WEFT_OK : WEFT_ERR_PROTOCOL);
    }
    ck_assert_int_eq(record_decode_greeting(body, n_bytes, &out, NULL), WEFT_OK);
    ck_assert_uint_eq(out.self.member, 2);
    ck_assert_uint_eq(out.port, 1);
    ck_assert_uint_eq(out.peer_port, 255);
    ck_assert(same_identity(&out.self.identity, &in.self.identity));
    body[3] = 6;
    ck_assert_int_eq(record_decode_greeting(body, n_bytes, &out, NULL),
                     WEFT_ERR_PROTOCOL);
}
END_TEST

static struct record_links *links_of(uint32_t n_entries)
{
    struct record_links *links = calloc(1, sizeof(*links));

    links->member = 1;
    links->identity = identity_of(3);
    links->sequence = 77;
    links->n_entries = n_entries;
    for (uint32_t i = 0; i < n_entries; i++) {
        links->entries[i] = (struct record_entry){
            .member = 2 + i, .port = (uint8_t)i, .peer_port = 255, .flags = i % 2};
    }
    return links;
}

START_TEST(link_state_comes_back_and_fits_a_frame)
{
    static const uint32_t sizes[] = {0, 1, 7, RECORD_ENTRIES_MAX};
    struct record_links *in = links_of(sizes[_i]), out;
    uint8_t *body = calloc(1, CODEC_BODY_MAX + 1);
    size_t n_bytes = record_encode_links(in, body);

    ck_assert_uint_eq(n_bytes, 46 + 7 * sizes[_i]);
    ck_assert_uint_le(n_bytes, CODEC_BODY_MAX - CODEC_MAC_BYTES);
    for (size_t n = 0; n <= n_bytes + 1; n++) {
        ck_assert_int_eq(record_decode_links(body, n, 300, &out, NULL),
                         n == n_bytes ? WEFT_OK : WEFT_ERR_PROTOCOL);
    }
    ck_assert_int_eq(record_decode_links(body, n_bytes, 300, &out, NULL), WEFT_OK);
    ck_assert_uint_eq(out.member, 1);
    ck_assert_uint_eq(out.sequence, 77);
    ck_assert(same_identity(&out.identity, &in->identity));
    ck_assert_uint_eq(out.n_entries, sizes[_i]);
    for (uint32_t i = 0; i < out.n_entries; i++) {
        ck_assert_uint_eq(out.entries[i].member, 2 + i);
        ck_assert_uint_eq(out.entries[i].port, (uint8_t)i);
        ck_assert_uint_eq(out.entries[i].peer_port, 255);
        ck_assert_uint_eq(out.entries[i].flags, i % 2);
    }
    free(body);
    free(in);
}
END_TEST

START_TEST(bad_link_state_is_refused)
{
    static const struct {
        uint8_t at, value;
        const char *field;
    } bad[] = {{3, 8, "member"},  {43, 0, "sequence"},  {44, 1, "n_entries"},
               {45, 2, "length"}, {49, 8, "neighbour"}, {49, 1, "neighbour"},
               {52, 2, "flags"}};
    struct record_links *in = links_of(1), out;
    uint8_t body[CODEC_BODY_MAX];

    for (size_t i = 0; i < WEFT_LENGTH(bad); i++) {
        size_t n_bytes = record_encode_links(in, body);
        struct weft_error error = {0};

        body[bad[i].at] = bad[i].value;
        ck_assert_int_eq(record_decode_links(body, n_bytes, 8, &out, &error),
                         WEFT_ERR_PROTOCOL);
        ck_assert_str_eq(weft_error_value(&error, WEFT_VALUE_FIELD)->text, bad[i].field);
    }
    free(in);
}
END_TEST

START_TEST(pieces_come_back_and_fit_a_frame)
{
    static uint8_t bytes[RECORD_PIECE_MAX];
    static const uint32_t sizes[] = {1, 100, RECORD_PIECE_MAX};
    struct record_piece in = {.member = 3,
                              .nonce = 5,
                              .round = 9,
                              .each = 65536,
                              .offset = 65536 - sizes[_i],
                              .n_bytes = sizes[_i],
                              .bytes = bytes},
                        out;
    uint8_t *body = calloc(1, CODEC_BODY_MAX + 1);
    size_t n_bytes;

    memset(bytes, 0xa5, sizeof(bytes));
    n_bytes = record_encode_piece(&in, body);
    ck_assert_uint_eq(n_bytes, 28 + sizes[_i]);
    ck_assert_uint_le(n_bytes, CODEC_BODY_MAX - CODEC_MAC_BYTES);
    for (size_t n = 0; n <= n_bytes + 1; n++) {
        ck_assert_int_eq(record_decode_piece(body, n, 4, &out, NULL),
                         n == n_bytes ? WEFT_OK : WEFT_ERR_PROTOCOL);
    }
    ck_assert_int_eq(record_decode_piece(body, n_bytes, 4, &out, NULL), WEFT_OK);
    ck_assert_uint_eq(out.member, 3);
    ck_assert_uint_eq(out.nonce, 5);
    ck_assert_uint_eq(out.round, 9);
    ck_assert_uint_eq(out.each, 65536);
    ck_assert_uint_eq(out.offset, in.offset);
    ck_assert_uint_eq(out.n_bytes, in.n_bytes);
    ck_assert_mem_eq(out.bytes, bytes, out.n_bytes);
    ck_assert_int_eq(record_decode_piece(body, n_bytes, 3, &out, NULL),
                     WEFT_ERR_PROTOCOL);
    free(body);
}
END_TEST

START_TEST(bad_pieces_are_refused)
{
    static const uint8_t nothing[4];
    const struct record_piece good = {.member = 1,
                                      .nonce = 5,
                                      .round = 1,
                                      .each = 8,
                                      .offset = 4,
                                      .n_bytes = 4,
                                      .bytes = nothing};
    struct record_piece bad[5] = {good, good, good, good, good}, out;
    uint8_t body[CODEC_BODY_MAX];

    bad[0].round = 0;
    bad[1].each = BOOT_BLOB_MAX + 1;
    bad[2].offset = 5;
    bad[3].n_bytes = 0;
    bad[4].nonce = 0;
    ck_assert_int_eq(
        record_decode_piece(body, record_encode_piece(&good, body), 4, &out, NULL),
        WEFT_OK);
    for (size_t i = 0; i < WEFT_LENGTH(bad); i++) {
        size_t n_bytes = record_encode_piece(&bad[i], body);

        ck_assert_int_eq(record_decode_piece(body, n_bytes, 4, &out, NULL),
                         WEFT_ERR_PROTOCOL);
    }
    bad[2].offset = UINT32_MAX; /* the sum must not wrap */
    ck_assert_int_eq(
        record_decode_piece(body, record_encode_piece(&bad[2], body), 4, &out, NULL),
        WEFT_ERR_PROTOCOL);
}
END_TEST

START_TEST(alive_says_a_round)
{
    struct record_alive in = {.round = 0x01020304}, out;
    uint8_t body[CODEC_BODY_MAX];

    ck_assert_uint_eq(record_encode_alive(&in, body), 4);
    ck_assert_int_eq(record_decode_alive(body, 4, &out, NULL), WEFT_OK);
    ck_assert_uint_eq(out.round, 0x01020304);
    ck_assert_int_eq(record_decode_alive(body, 3, &out, NULL), WEFT_ERR_PROTOCOL);
    ck_assert_int_eq(record_decode_alive(body, 5, &out, NULL), WEFT_ERR_PROTOCOL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("record");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, an_announcement_is_these_bytes);
    tcase_add_test(tcase, every_bit_of_an_announcement_is_sealed);
    tcase_add_test(tcase, announcement_keys_differ_by_job_and_use);
    tcase_add_test(tcase, bad_announcements_are_refused);
    tcase_add_test(tcase, a_greeting_comes_back);
    tcase_add_loop_test(tcase, link_state_comes_back_and_fits_a_frame, 0, 4);
    tcase_add_test(tcase, bad_link_state_is_refused);
    tcase_add_loop_test(tcase, pieces_come_back_and_fit_a_frame, 0, 3);
    tcase_add_test(tcase, bad_pieces_are_refused);
    tcase_add_test(tcase, alive_says_a_round);
    return suite_run(suite);
}
