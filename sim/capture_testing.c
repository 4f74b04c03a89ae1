#include "sim/capture_testing.h"

#include <check.h>
#include <stdio.h>

enum { PCAP_HEADER = 24, RECORD_HEADER = 16 };

void capture_open(struct capture *capture, const char *path)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s", path);
    capture->n = fread(capture->bytes, 1, sizeof(capture->bytes), file);
    capture->at = PCAP_HEADER;
    ck_assert_uint_lt(capture->n, sizeof(capture->bytes));
    ck_assert_uint_eq(capture->bytes[0], 0xd4); /* magic number in little endian */
    ck_assert_int_eq(fclose(file), 0);
}

static uint32_t word(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
           (uint32_t)at[3] << 24;
}

const uint8_t *capture_next(struct capture *capture, size_t *n_bytes)
{
    if (capture->at == capture->n) {
        return NULL;
    }
    ck_assert_uint_le(capture->at + RECORD_HEADER, capture->n);
    const uint8_t *header = capture->bytes + capture->at;
    *n_bytes = word(header + 8);
    ck_assert_uint_eq(word(header + 12), *n_bytes);
    capture->at += RECORD_HEADER + *n_bytes;
    ck_assert_uint_le(capture->at, capture->n);
    return header + RECORD_HEADER;
}
