#include "boot/record.h"

#include <string.h>

#include "base/check.h"
#include "boot/boot.h"

#define MAGIC 0x57454641u /* "WEFA" */
#define VERSION 1u
#define FIELDS_BYTES (RECORD_ANNOUNCEMENT_BYTES - AUTH_MAC_BYTES)

void record_announcement_key(const uint8_t job_key[32], uint8_t out[AUTH_KEY_BYTES])
{
    static const char name[] = "weft-v1 announce";

    auth_hkdf(NULL, 0, job_key, 32, name, sizeof(name) - 1, out);
}

/* ---- parts ---- */

static void put_identity(struct wire_writer *writer,
                         const struct record_identity *identity)
{
    wire_put_bytes(writer, identity->host_id, sizeof(identity->host_id));
    wire_put_u64(writer, identity->started_ns);
    wire_put_u64(writer, identity->nonce);
}

static void get_identity(struct wire_reader *reader, struct record_identity *out)
{
    wire_get_bytes(reader, out->host_id, sizeof(out->host_id));
    out->started_ns = wire_get_u64(reader);
    out->nonce = wire_get_u64(reader);
}

static void put_self(struct wire_writer *writer, const struct record_self *self)
{
    wire_put_u32(writer, self->member);
    wire_put_u32(writer, self->n_ranks);
    wire_put_u32(writer, self->n_members);
    put_identity(writer, &self->identity);
}

static void get_self(struct wire_reader *reader, struct record_self *out)
{
    out->member = wire_get_u32(reader);
    out->n_ranks = wire_get_u32(reader);
    out->n_members = wire_get_u32(reader);
    get_identity(reader, &out->identity);
}

static weft_status check_nonce(uint64_t nonce, enum weft_phase message,
                               struct weft_error *error)
{
    return nonce != 0 ? WEFT_OK : codec_bad_field(error, message, "nonce", 0, "never 0");
}

static weft_status check_self(const struct record_self *self, enum weft_phase message,
                              struct weft_error *error)
{
    if (self->n_ranks == 0 || self->n_ranks > self->n_members) {
        return codec_bad_field(error, message, "n_ranks", self->n_ranks,
                               "1 to the number of members");
    }
    if (self->member >= self->n_members) {
        return codec_bad_field(error, message, "member", self->member,
                               "below the number of members");
    }
    return check_nonce(self->identity.nonce, message, error);
}

/* ---- announcements ---- */

static void seal(const uint8_t *bytes, const uint8_t key[AUTH_KEY_BYTES],
                 uint8_t out[AUTH_MAC_BYTES])
{
    auth_prove(key, AUTH_ANNOUNCEMENT, bytes, FIELDS_BYTES, bytes, 0, out);
}

void record_encode_announcement(const struct record_announcement *announcement,
                                const uint8_t key[AUTH_KEY_BYTES],
                                uint8_t out[RECORD_ANNOUNCEMENT_BYTES])
{
    struct wire_writer writer = wire_writer_init(out, FIELDS_BYTES);

    wire_put_u32(&writer, MAGIC);
    wire_put_u16(&writer, VERSION);
    wire_put_u8(&writer, announcement->port);
    wire_put_u8(&writer, 0);
    put_self(&writer, &announcement->self);
    wire_put_u16(&writer, announcement->control);
    wire_put_u16(&writer, 0);
    weft_check(!writer.bad && wire_written(&writer, out) == FIELDS_BYTES);
    seal(out, key, out + FIELDS_BYTES);
}

bool record_announcement_is_ours(const uint8_t bytes[RECORD_ANNOUNCEMENT_BYTES],
                                 const uint8_t key[AUTH_KEY_BYTES])
{
    uint8_t mac[AUTH_MAC_BYTES];

    seal(bytes, key, mac);
    return auth_equal(mac, bytes + FIELDS_BYTES);
}

weft_status record_decode_announcement(const uint8_t *bytes, size_t n_bytes,
                                       struct record_announcement *out,
                                       struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(bytes, n_bytes);
    uint32_t magic = wire_get_u32(&reader), version = wire_get_u16(&reader);
    uint32_t reserved;

    if (n_bytes != RECORD_ANNOUNCEMENT_BYTES) {
        return codec_bad_field(error, WEFT_PHASE_ANNOUNCEMENT, "length", (int64_t)n_bytes,
                               "88");
    }
    if (magic != MAGIC) {
        return codec_bad_field(error, WEFT_PHASE_ANNOUNCEMENT, "magic", magic,
                               "not an announcement");
    }
    if (version != VERSION) {
        return codec_other_version(error, WEFT_PHASE_ANNOUNCEMENT, version, VERSION);
    }
    out->port = wire_get_u8(&reader);
    reserved = wire_get_u8(&reader);
    get_self(&reader, &out->self);
    out->control = wire_get_u16(&reader);
    reserved |= wire_get_u16(&reader);
    if (reserved != 0 || out->control == 0) {
        return codec_bad_field(error, WEFT_PHASE_ANNOUNCEMENT, "control", out->control,
                               "a port, and zeros where nothing is");
    }
    return check_self(&out->self, WEFT_PHASE_ANNOUNCEMENT, error);
}

/* ---- greetings ---- */

size_t record_encode_greeting(const struct record_greeting *greeting, uint8_t *out)
{
    struct wire_writer writer = wire_writer_init(out, CODEC_BODY_MAX);

    put_self(&writer, &greeting->self);
    wire_put_u8(&writer, greeting->port);
    wire_put_u8(&writer, greeting->peer_port);
    return wire_written(&writer, out);
}

weft_status record_decode_greeting(const uint8_t *body, size_t n_bytes,
                                   struct record_greeting *out, struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(body, n_bytes);
    weft_status status;

    get_self(&reader, &out->self);
    out->port = wire_get_u8(&reader);
    out->peer_port = wire_get_u8(&reader);
    status = codec_check_end(&reader, WEFT_PHASE_MEMBER, n_bytes, error);
    return status == WEFT_OK ? check_self(&out->self, WEFT_PHASE_MEMBER, error) : status;
}

/* ---- link state ---- */

size_t record_encode_links(const struct record_links *links, uint8_t *out)
{
    struct wire_writer writer = wire_writer_init(out, CODEC_BODY_MAX - CODEC_MAC_BYTES);

    weft_check(links->n_entries <= RECORD_ENTRIES_MAX);
    wire_put_u32(&writer, links->member);
    put_identity(&writer, &links->identity);
    wire_put_u64(&writer, links->sequence);
    wire_put_u16(&writer, (uint16_t)links->n_entries);
    for (uint32_t i = 0; i < links->n_entries; i++) {
        wire_put_u32(&writer, links->entries[i].member);
        wire_put_u8(&writer, links->entries[i].port);
        wire_put_u8(&writer, links->entries[i].peer_port);
        wire_put_u8(&writer, (uint8_t)links->entries[i].flags);
    }
    weft_check(!writer.bad);
    return wire_written(&writer, out);
}

static weft_status get_entries(struct wire_reader *reader, uint32_t n_members,
                               struct record_links *out, struct weft_error *error)
{
    for (uint32_t i = 0; i < out->n_entries; i++) {
        struct record_entry *entry = &out->entries[i];

        entry->member = wire_get_u32(reader);
        entry->port = wire_get_u8(reader);
        entry->peer_port = wire_get_u8(reader);
        entry->flags = wire_get_u8(reader);
        if (!reader->bad &&
            (entry->member >= n_members || entry->member == out->member)) {
            return codec_bad_field(error, WEFT_PHASE_LINKS, "neighbour", entry->member,
                                   "another member");
        }
        if (entry->flags > RECORD_CARRIES) {
            return codec_bad_field(error, WEFT_PHASE_LINKS, "flags", entry->flags,
                                   "0 or 1");
        }
    }
    return WEFT_OK;
}

weft_status record_decode_links(const uint8_t *body, size_t n_bytes, uint32_t n_members,
                                struct record_links *out, struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(body, n_bytes);
    weft_status status;

    out->member = wire_get_u32(&reader);
    get_identity(&reader, &out->identity);
    out->sequence = wire_get_u64(&reader);
    out->n_entries = wire_get_u16(&reader);
    if (out->n_entries > RECORD_ENTRIES_MAX) {
        return codec_bad_field(error, WEFT_PHASE_LINKS, "n_entries", out->n_entries,
                               "at most 256");
    }
    status = get_entries(&reader, n_members, out, error);
    if (status == WEFT_OK) {
        status = codec_check_end(&reader, WEFT_PHASE_LINKS, n_bytes, error);
    }
    if (status == WEFT_OK && out->member >= n_members) {
        status = codec_bad_field(error, WEFT_PHASE_LINKS, "member", out->member,
                                 "below the number of members");
    }
    if (status == WEFT_OK && out->sequence == 0) {
        status = codec_bad_field(error, WEFT_PHASE_LINKS, "sequence", 0, "counts from 1");
    }
    return status == WEFT_OK ? check_nonce(out->identity.nonce, WEFT_PHASE_LINKS, error)
                             : status;
}

/* ---- pieces ---- */

size_t record_encode_piece(const struct record_piece *piece, uint8_t *out)
{
    struct wire_writer writer = wire_writer_init(out, CODEC_BODY_MAX - CODEC_MAC_BYTES);

    wire_put_u32(&writer, piece->member);
    wire_put_u64(&writer, piece->nonce);
    wire_put_u32(&writer, piece->round);
    wire_put_u32(&writer, piece->each);
    wire_put_u32(&writer, piece->offset);
    wire_put_u32(&writer, piece->n_bytes);
    wire_put_bytes(&writer, piece->bytes, piece->n_bytes);
    weft_check(!writer.bad);
    return wire_written(&writer, out);
}

weft_status record_decode_piece(const uint8_t *body, size_t n_bytes, uint32_t n_members,
                                struct record_piece *out, struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(body, n_bytes);

    out->member = wire_get_u32(&reader);
    out->nonce = wire_get_u64(&reader);
    out->round = wire_get_u32(&reader);
    out->each = wire_get_u32(&reader);
    out->offset = wire_get_u32(&reader);
    out->n_bytes = wire_get_u32(&reader);
    out->bytes = reader.at;
    if (reader.bad || wire_left(&reader) != out->n_bytes) {
        return codec_bad_field(error, WEFT_PHASE_PIECE, "length", (int64_t)n_bytes,
                               "other than what it announces");
    }
    if (out->member >= n_members) {
        return codec_bad_field(error, WEFT_PHASE_PIECE, "member", out->member,
                               "below the number of members");
    }
    if (out->round == 0 || out->each > BOOT_BLOB_MAX) {
        return codec_bad_field(error, WEFT_PHASE_PIECE, "each", out->each,
                               "at most 65536, in a round from 1");
    }
    if ((uint64_t)out->offset + out->n_bytes > out->each) {
        return codec_bad_field(error, WEFT_PHASE_PIECE, "offset", out->offset,
                               "beyond the blob");
    }
    if (out->n_bytes == 0 && out->each != 0) {
        return codec_bad_field(error, WEFT_PHASE_PIECE, "n_bytes", 0, "an empty piece");
    }
    return check_nonce(out->nonce, WEFT_PHASE_PIECE, error);
}

/* ---- alive ---- */

size_t record_encode_alive(const struct record_alive *alive, uint8_t *out)
{
    struct wire_writer writer = wire_writer_init(out, CODEC_BODY_MAX - CODEC_MAC_BYTES);

    wire_put_u32(&writer, alive->round);
    return wire_written(&writer, out);
}

weft_status record_decode_alive(const uint8_t *body, size_t n_bytes,
                                struct record_alive *out, struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(body, n_bytes);

    out->round = wire_get_u32(&reader);
    return codec_check_end(&reader, WEFT_PHASE_ALIVE, n_bytes, error);
}
