#include "base/wire.h"

#include <string.h>

struct wire_writer wire_writer_init(void *out, size_t n_bytes)
{
    uint8_t *at = out;

    return (struct wire_writer){.at = at, .end = n_bytes == 0 ? at : at + n_bytes};
}

/* Writes the low `n_bytes` of `value`, most significant byte first. */
static void put_uint(struct wire_writer *writer, uint64_t value, unsigned n_bytes)
{
    if (writer->bad || (size_t)(writer->end - writer->at) < n_bytes) {
        writer->bad = true;
        return;
    }
    for (unsigned i = n_bytes; i > 0; i--) {
        *writer->at++ = (uint8_t)(value >> (8 * (i - 1)));
    }
}

void wire_put_u8(struct wire_writer *writer, uint8_t value)
{
    put_uint(writer, value, 1);
}

void wire_put_u16(struct wire_writer *writer, uint16_t value)
{
    put_uint(writer, value, 2);
}

void wire_put_u24(struct wire_writer *writer, uint32_t value)
{
    put_uint(writer, value, 3);
}

void wire_put_u32(struct wire_writer *writer, uint32_t value)
{
    put_uint(writer, value, 4);
}

void wire_put_u64(struct wire_writer *writer, uint64_t value)
{
    put_uint(writer, value, 8);
}

void wire_put_bytes(struct wire_writer *writer, const void *bytes, size_t n_bytes)
{
    if (writer->bad || (size_t)(writer->end - writer->at) < n_bytes) {
        writer->bad = true;
        return;
    }
    if (n_bytes > 0) {
        memcpy(writer->at, bytes, n_bytes);
        writer->at += n_bytes;
    }
}

size_t wire_written(const struct wire_writer *writer, const void *start)
{
    return (size_t)(writer->at - (const uint8_t *)start);
}

struct wire_reader wire_reader_init(const void *bytes, size_t n_bytes)
{
    const uint8_t *at = bytes;

    return (struct wire_reader){.at = at, .end = n_bytes == 0 ? at : at + n_bytes};
}

static uint64_t get_uint(struct wire_reader *reader, unsigned n_bytes)
{
    uint64_t value = 0;

    if (reader->bad || wire_left(reader) < n_bytes) {
        reader->bad = true;
        return 0;
    }
    for (unsigned i = 0; i < n_bytes; i++) {
        value = value << 8 | *reader->at++;
    }
    return value;
}

uint8_t wire_get_u8(struct wire_reader *reader)
{
    return (uint8_t)get_uint(reader, 1);
}

uint16_t wire_get_u16(struct wire_reader *reader)
{
    return (uint16_t)get_uint(reader, 2);
}

uint32_t wire_get_u24(struct wire_reader *reader)
{
    return (uint32_t)get_uint(reader, 3);
}

uint32_t wire_get_u32(struct wire_reader *reader)
{
    return (uint32_t)get_uint(reader, 4);
}

uint64_t wire_get_u64(struct wire_reader *reader)
{
    return get_uint(reader, 8);
}

void wire_get_bytes(struct wire_reader *reader, void *out, size_t n_bytes)
{
    if (n_bytes == 0) {
        return;
    }
    if (reader->bad || wire_left(reader) < n_bytes) {
        reader->bad = true;
        memset(out, 0, n_bytes);
        return;
    }
    memcpy(out, reader->at, n_bytes);
    reader->at += n_bytes;
}

size_t wire_left(const struct wire_reader *reader)
{
    return (size_t)(reader->end - reader->at);
}
