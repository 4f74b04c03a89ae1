#include "base/wire.h"

#include <check.h>
#include <string.h>

#include "base/suite_testing.h"

static const uint8_t all[] = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
                              0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10,
                              0x11, 0x12, 'w',  'e',  'f',  't'};

static void write_all(struct wire_writer *writer)
{
    wire_put_u8(writer, 0x01);
    wire_put_u16(writer, 0x0203);
    wire_put_u24(writer, 0xff040506); /* the top byte does not fit and is not sent */
    wire_put_u32(writer, 0x0708090a);
    wire_put_u64(writer, UINT64_C(0x0b0c0d0e0f101112));
    wire_put_bytes(writer, "weft", 4);
    wire_put_bytes(writer, NULL, 0);
}

START_TEST(written_in_network_order_and_read_back)
{
    uint8_t bytes[sizeof(all)];
    char text[4];
    struct wire_writer writer = wire_writer_init(bytes, sizeof(bytes));
    struct wire_reader reader;

    write_all(&writer);
    ck_assert(!writer.bad);
    ck_assert_uint_eq(wire_written(&writer, bytes), sizeof(all));
    ck_assert_mem_eq(bytes, all, sizeof(all));

    reader = wire_reader_init(bytes, sizeof(bytes));
    ck_assert_uint_eq(wire_get_u8(&reader), 0x01);
    ck_assert_uint_eq(wire_get_u16(&reader), 0x0203);
    ck_assert_uint_eq(wire_get_u24(&reader), 0x040506);
    ck_assert_uint_eq(wire_get_u32(&reader), 0x0708090a);
    ck_assert_uint_eq(wire_get_u64(&reader), UINT64_C(0x0b0c0d0e0f101112));
    wire_get_bytes(&reader, text, 4);
    wire_get_bytes(&reader, NULL, 0);
    ck_assert_mem_eq(text, "weft", 4);
    ck_assert_uint_eq(wire_left(&reader), 0);
    ck_assert(!reader.bad);
}
END_TEST

START_TEST(nothing_is_written_past_the_end)
{
    uint8_t bytes[sizeof(all) + 1];

    for (size_t room = 0; room < sizeof(all); room++) {
        struct wire_writer writer = wire_writer_init(bytes, room);

        memset(bytes, 0xee, sizeof(bytes));
        write_all(&writer);
        ck_assert(writer.bad);
        ck_assert_uint_le(wire_written(&writer, bytes), room);
        for (size_t i = room; i < sizeof(bytes); i++) {
            ck_assert_uint_eq(bytes[i], 0xee);
        }
        wire_put_bytes(&writer, NULL, 0);
        wire_put_u8(&writer, 1);
        ck_assert(writer.bad);
    }
}
END_TEST

START_TEST(after_an_overrun_everything_reads_as_zero)
{
    struct wire_reader reader = wire_reader_init(all, 5);
    uint8_t rest[3] = {9, 9, 9};

    ck_assert_uint_eq(wire_get_u32(&reader), 0x01020304);
    ck_assert_uint_eq(wire_get_u16(&reader), 0);
    ck_assert(reader.bad);
    /* One byte is left, but the message is already known to be short. */
    ck_assert_uint_eq(wire_get_u8(&reader), 0);
    wire_get_bytes(&reader, rest, sizeof(rest));
    ck_assert_uint_eq((unsigned)(rest[0] + rest[1] + rest[2]), 0);

    reader = wire_reader_init(NULL, 0);
    ck_assert_uint_eq(wire_left(&reader), 0);
    ck_assert_uint_eq(wire_get_u64(&reader), 0);
    ck_assert(reader.bad);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/wire");
    TCase *tcase = tcase_create("wire");

    tcase_add_test(tcase, written_in_network_order_and_read_back);
    tcase_add_test(tcase, nothing_is_written_past_the_end);
    tcase_add_test(tcase, after_an_overrun_everything_reads_as_zero);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
