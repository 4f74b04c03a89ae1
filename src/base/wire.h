/* Bounded byte codecs in network byte order. Reader and writer remember the first overrun in `bad`,
 * so that a whole message is read or written without checks and checked once at the end. */
#ifndef WEFT_BASE_WIRE_H
#define WEFT_BASE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a number in network byte order; `bytes` must hold 4. */
static inline uint32_t wire_load_u32(const void *bytes)
{
    const uint8_t *at = (const uint8_t *)bytes;
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline void wire_store_u32(void *out, uint32_t value)
{
    uint8_t *at = (uint8_t *)out;
    at[0] = (uint8_t)(value >> 24);
    at[1] = (uint8_t)(value >> 16);
    at[2] = (uint8_t)(value >> 8);
    at[3] = (uint8_t)value;
}

struct wire_writer {
    uint8_t *at; /* Not owned. */
    uint8_t *end;
    bool bad; /* an overrun occurred; nothing was written past `end` */
};

struct wire_reader {
    const uint8_t *at; /* Not owned. */
    const uint8_t *end;
    bool bad; /* an overrun occurred; all values read since then are 0 */
};

struct wire_writer wire_writer_init(void *out, size_t n_bytes);
void wire_put_u8(struct wire_writer *writer, uint8_t value);
void wire_put_u16(struct wire_writer *writer, uint16_t value);
void wire_put_u24(struct wire_writer *writer, uint32_t value);
void wire_put_u32(struct wire_writer *writer, uint32_t value);
void wire_put_u64(struct wire_writer *writer, uint64_t value);
void wire_put_bytes(struct wire_writer *writer, const void *bytes, size_t n_bytes);
/* Returns the number of bytes written since `start`. */
size_t wire_written(const struct wire_writer *writer, const void *start);

struct wire_reader wire_reader_init(const void *bytes, size_t n_bytes);
uint8_t wire_get_u8(struct wire_reader *reader);
uint16_t wire_get_u16(struct wire_reader *reader);
uint32_t wire_get_u24(struct wire_reader *reader);
uint32_t wire_get_u32(struct wire_reader *reader);
uint64_t wire_get_u64(struct wire_reader *reader);
void wire_get_bytes(struct wire_reader *reader, void *out, size_t n_bytes);
size_t wire_left(const struct wire_reader *reader);

#endif
