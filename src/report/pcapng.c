#include "report/pcapng.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/version.h"

/* Block types and options of draft-ietf-opsawg-pcapng, sections 4.1 to 4.3. */
#define BLOCK_SECTION 0x0a0d0d0au
#define BLOCK_INTERFACE 1u
#define BLOCK_PACKET 6u
#define BYTE_ORDER_MAGIC 0x1a2b3c4du
#define LINKTYPE_ETHERNET 1u
#define OPTION_COMMENT 1u
#define OPTION_IF_NAME 2u
#define OPTION_IF_SPEED 8u
#define OPTION_IF_TSRESOL 9u
#define OPTION_SHB_USERAPPL 4u
#define OPTION_EPB_FLAGS 2u

/* A block under construction. Little endian on every machine, so that captures of the same run have
 * the same bytes everywhere. */
struct block {
    uint8_t *bytes;
    size_t n, cap;
};

static void put(struct block *block, const void *bytes, size_t n)
{
    if (block->n + n > block->cap) {
        block->cap = 2 * (block->n + n);
        block->bytes = weft_realloc(block->bytes, block->cap);
    }
    if (n > 0) {
        memcpy(block->bytes + block->n, bytes, n);
    }
    block->n += n;
}

static void put_u16(struct block *block, unsigned value)
{
    uint8_t bytes[2] = {(uint8_t)value, (uint8_t)(value >> 8)};

    put(block, bytes, sizeof(bytes));
}

static void put_u32(struct block *block, uint32_t value)
{
    put_u16(block, value & 0xffff);
    put_u16(block, value >> 16);
}

static void put_padded(struct block *block, const void *bytes, size_t n)
{
    static const uint8_t zero[4];

    put(block, bytes, n);
    put(block, zero, (4 - n % 4) % 4);
}

static void put_option(struct block *block, unsigned code, const void *bytes, size_t n)
{
    put_u16(block, code);
    put_u16(block, (unsigned)n);
    put_padded(block, bytes, n);
}

/* Writes the body framed by type and both lengths, then empties the block. */
static void write_block(struct pcapng *pcapng, struct block *block, uint32_t type)
{
    struct block framed = {NULL, 0, 0};
    uint32_t total = (uint32_t)block->n + 12;

    put_u32(&framed, type);
    put_u32(&framed, total);
    put(&framed, block->bytes, block->n);
    put_u32(&framed, total);
    if (!pcapng->failed && fwrite(framed.bytes, 1, framed.n, pcapng->file) != framed.n) {
        pcapng->failed = true;
    }
    free(framed.bytes);
    block->n = 0;
}

/* Returns the lower of the rates of port and cable; 0 if unknown. */
static uint64_t speed_bps(const struct world_spec *spec, uint32_t host, uint32_t port)
{
    uint64_t speed = spec->hosts[host].ports[port].rate_bps;

    for (uint32_t c = 0; c < spec->n_cables; c++) {
        const struct world_cable *cable = &spec->cables[c];
        for (unsigned i = 0; i < 2; i++) {
            const struct world_end *end = &cable->ends[i];
            bool is_here = !end->is_switch && end->node == host && end->port == port;
            if (is_here && (speed == 0 || cable->rate_bps < speed)) {
                speed = cable->rate_bps;
            }
        }
    }
    return speed;
}

static void write_interface(struct pcapng *pcapng, struct block *block, uint32_t host,
                            uint32_t port)
{
    static const uint8_t nanoseconds = 9;
    const struct world_host *owner = &pcapng->spec->hosts[host];
    uint64_t speed = speed_bps(pcapng->spec, host, port);
    char name[128];

    weft_format(name, sizeof(name), "%s:%s", owner->name, owner->ports[port].name);
    put_u16(block, LINKTYPE_ETHERNET);
    put_u16(block, 0);
    put_u32(block, 0); /* no snapshot limit */
    put_option(block, OPTION_IF_NAME, name, strlen(name));
    if (speed > 0) {
        uint8_t bytes[8];
        for (unsigned i = 0; i < sizeof(bytes); i++) {
            bytes[i] = (uint8_t)(speed >> (8 * i));
        }
        put_option(block, OPTION_IF_SPEED, bytes, sizeof(bytes));
    }
    put_option(block, OPTION_IF_TSRESOL, &nanoseconds, 1);
    put_u32(block, 0); /* end of options */
    write_block(pcapng, block, BLOCK_INTERFACE);
}

bool pcapng_open(struct pcapng *pcapng, FILE *file, const struct world_spec *spec)
{
    char writer[32];
    struct block block = {NULL, 0, 0};
    uint32_t n_interfaces = 0;

    weft_format(writer, sizeof(writer), "weft %s", weft_version);
    pcapng->file = file;
    pcapng->spec = spec;
    pcapng->failed = false;
    pcapng->first_interface = weft_calloc(spec->n_hosts + 1, sizeof(uint32_t));
    put_u32(&block, BYTE_ORDER_MAGIC);
    put_u16(&block, 1);
    put_u16(&block, 0);
    put_u32(&block, UINT32_MAX); /* section length unknown */
    put_u32(&block, UINT32_MAX);
    put_option(&block, OPTION_SHB_USERAPPL, writer, strlen(writer));
    put_u32(&block, 0); /* end of options */
    write_block(pcapng, &block, BLOCK_SECTION);
    for (uint32_t h = 0; h < spec->n_hosts; h++) {
        pcapng->first_interface[h] = n_interfaces;
        for (uint32_t p = 0; p < spec->hosts[h].n_ports; p++) {
            write_interface(pcapng, &block, h, p);
            n_interfaces++;
        }
    }
    free(block.bytes);
    return !pcapng->failed;
}

void pcapng_frame(void *context, const struct world_frame *frame)
{
    struct pcapng *pcapng = context;
    struct block block = {NULL, 0, 0};
    uint64_t at_ns = (uint64_t)frame->at_ns;
    uint8_t flags[4] = {frame->is_outgoing ? 2 : 1, 0, 0, 0};

    put_u32(&block, pcapng->first_interface[frame->host] + frame->port);
    put_u32(&block, (uint32_t)(at_ns >> 32));
    put_u32(&block, (uint32_t)at_ns);
    put_u32(&block, (uint32_t)frame->n_bytes);
    put_u32(&block, (uint32_t)frame->n_bytes);
    put_padded(&block, frame->bytes, frame->n_bytes);
    put_option(&block, OPTION_EPB_FLAGS, flags, sizeof(flags));
    if (frame->comment != NULL) {
        put_option(&block, OPTION_COMMENT, frame->comment, strlen(frame->comment));
    }
    put_u32(&block, 0);
    write_block(pcapng, &block, BLOCK_PACKET);
    free(block.bytes);
}

bool pcapng_close(struct pcapng *pcapng)
{
    if (fflush(pcapng->file) != 0) {
        pcapng->failed = true;
    }
    free(pcapng->first_interface);
    pcapng->first_interface = NULL;
    return !pcapng->failed;
}
