#include "conn/codec.h"

#include <string.h>

#include "base/check.h"
#include "base/text.h"

enum weft_phase codec_type_phase(uint32_t type)
{
    switch (type) {
    case CODEC_HELLO:
        return WEFT_PHASE_HELLO;
    case CODEC_CHALLENGE:
        return WEFT_PHASE_CHALLENGE;
    case CODEC_AUTH:
        return WEFT_PHASE_AUTH;
    case CODEC_FACTS:
        return WEFT_PHASE_FACTS;
    case CODEC_META:
        return WEFT_PHASE_META;
    case CODEC_READY:
        return WEFT_PHASE_READY;
    case CODEC_PROBED:
        return WEFT_PHASE_PROBED;
    case CODEC_CLOSE:
        return WEFT_PHASE_CLOSE;
    case CODEC_ABORT:
        return WEFT_PHASE_ABORT;
    case CODEC_BUSY:
        return WEFT_PHASE_BUSY;
    case CODEC_JOIN:
        return WEFT_PHASE_JOIN;
    case CODEC_BLOB:
        return WEFT_PHASE_BLOB;
    case CODEC_BYE:
        return WEFT_PHASE_BYE;
    case CODEC_GIVE_UP:
        return WEFT_PHASE_GIVE_UP;
    case CODEC_MEMBER:
        return WEFT_PHASE_MEMBER;
    case CODEC_LINKS:
        return WEFT_PHASE_LINKS;
    case CODEC_PIECE:
        return WEFT_PHASE_PIECE;
    case CODEC_ALIVE:
        return WEFT_PHASE_ALIVE;
    case CODEC_CALL:
        return WEFT_PHASE_CALL;
    case CODEC_ANSWER:
        return WEFT_PHASE_ANSWER;
    case CODEC_IPC:
        return WEFT_PHASE_IPC;
    default:
        return WEFT_PHASE_NONE;
    }
}

const char *codec_type_name(uint32_t type)
{
    enum weft_phase phase = codec_type_phase(type);

    return phase != WEFT_PHASE_NONE ? weft_phase_name(phase) : NULL;
}

weft_status codec_bad_field(struct weft_error *error, enum weft_phase message,
                            const char *field, int64_t value, const char *rule)
{
    weft_status status = weft_fail(error, WEFT_ERR_PROTOCOL, message, "%s is %lld: %s",
                                   field, (long long)value, rule);

    weft_error_text(error, WEFT_VALUE_FIELD, field);
    weft_error_int(error, WEFT_VALUE_VALUE, value);
    return status;
}

weft_status codec_other_version(struct weft_error *error, enum weft_phase message,
                                uint32_t version, uint32_t ours)
{
    weft_status status =
        weft_fail(error, WEFT_ERR_UNSUPPORTED, message,
                  "the peer's weft has version %u of the protocol, this one has %u: "
                  "install the same weft on all hosts",
                  version, ours);

    weft_error_text(error, WEFT_VALUE_FIELD, "version");
    weft_error_int(error, WEFT_VALUE_VALUE, version);
    return status;
}

weft_status codec_check_end(const struct wire_reader *reader, enum weft_phase message,
                            size_t n_bytes, struct weft_error *error)
{
    if (reader->bad) {
        return codec_bad_field(error, message, "length", (int64_t)n_bytes,
                               "too short for what it announces");
    }
    if (wire_left(reader) != 0) {
        return codec_bad_field(error, message, "length", (int64_t)n_bytes,
                               "longer than what it announces");
    }
    return WEFT_OK;
}

void codec_put_name(struct wire_writer *writer, const char *name)
{
    size_t n_bytes = strlen(name);

    weft_check(n_bytes > 0 && n_bytes < 256);
    wire_put_u8(writer, (uint8_t)n_bytes);
    wire_put_bytes(writer, name, n_bytes);
}

bool codec_get_name(struct wire_reader *reader, char *out, size_t out_bytes)
{
    size_t n_bytes = wire_get_u8(reader);

    memset(out, 0, out_bytes);
    if (n_bytes == 0 || n_bytes >= out_bytes || reader->bad) {
        return false;
    }
    wire_get_bytes(reader, out, n_bytes);
    for (size_t i = 0; i < n_bytes; i++) {
        if (out[i] <= ' ' || out[i] > '~') {
            return false;
        }
    }
    return true;
}

/* ---- the header ---- */

void codec_encode_header(const struct codec_header *header,
                         uint8_t out[CODEC_HEADER_BYTES])
{
    struct wire_writer writer = wire_writer_init(out, CODEC_HEADER_BYTES);

    wire_put_u32(&writer, CODEC_MAGIC);
    wire_put_u16(&writer, (uint16_t)CODEC_VERSION);
    wire_put_u16(&writer, (uint16_t)header->type);
    wire_put_u32(&writer, header->n_bytes);
    weft_check(!writer.bad && header->n_bytes <= CODEC_BODY_MAX);
}

weft_status codec_decode_header(const uint8_t *bytes, size_t n_bytes, uint32_t body_max,
                                struct codec_header *out, struct weft_error *error)
{
    static const uint8_t magic[4] = {'W', 'E', 'F', 'T'};
    struct wire_reader reader = wire_reader_init(bytes, n_bytes);
    uint32_t version, type;

    /* The first byte suffices to reject a client that speaks another protocol, such as HTTP. */
    for (size_t i = 0; i < n_bytes && i < sizeof(magic); i++) {
        if (bytes[i] != magic[i]) {
            return codec_bad_field(error, WEFT_PHASE_HEADER, "magic", bytes[i],
                                   "not a weft peer");
        }
    }
    if (n_bytes < CODEC_HEADER_BYTES) {
        return WEFT_AGAIN;
    }
    wire_get_u32(&reader);
    version = wire_get_u16(&reader);
    if (version != CODEC_VERSION) {
        return codec_other_version(error, WEFT_PHASE_HEADER, version, CODEC_VERSION);
    }
    type = wire_get_u16(&reader);
    if (codec_type_name(type) == NULL) {
        return codec_bad_field(error, WEFT_PHASE_HEADER, "type", type, "no such message");
    }
    out->type = (enum codec_type)type;
    out->n_bytes = wire_get_u32(&reader);
    if (out->n_bytes > body_max) {
        return codec_bad_field(error, WEFT_PHASE_HEADER, "length", out->n_bytes,
                               "more than is accepted now");
    }
    return WEFT_OK;
}

/* ---- HELLO, CHALLENGE, AUTH ---- */

size_t codec_encode_hello(const struct codec_hello *hello, uint8_t *out)
{
    struct wire_writer writer = wire_writer_init(out, CODEC_HELLO_BYTES);

    wire_put_bytes(&writer, hello->nonce, sizeof(hello->nonce));
    wire_put_u64(&writer, hello->id);
    wire_put_u32(&writer, hello->attempt);
    wire_put_u32(&writer, hello->epoch);
    wire_put_bytes(&writer, hello->host_id, sizeof(hello->host_id));
    weft_check(!writer.bad);
    return wire_written(&writer, out);
}

weft_status codec_decode_hello(const uint8_t *body, size_t n_bytes,
                               struct codec_hello *out, struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(body, n_bytes);
    weft_status status;

    wire_get_bytes(&reader, out->nonce, sizeof(out->nonce));
    out->id = wire_get_u64(&reader);
    out->attempt = wire_get_u32(&reader);
    out->epoch = wire_get_u32(&reader);
    wire_get_bytes(&reader, out->host_id, sizeof(out->host_id));
    status = codec_check_end(&reader, WEFT_PHASE_HELLO, n_bytes, error);
    if (status == WEFT_OK && out->attempt == 0) {
        status = codec_bad_field(error, WEFT_PHASE_HELLO, "attempt", 0, "counts from 1");
    }
    return status;
}

size_t codec_encode_challenge(const struct codec_challenge *challenge, uint8_t *out)
{
    struct wire_writer writer = wire_writer_init(out, CODEC_CHALLENGE_BYTES);

    wire_put_bytes(&writer, challenge->nonce, sizeof(challenge->nonce));
    wire_put_bytes(&writer, challenge->proof, sizeof(challenge->proof));
    weft_check(!writer.bad);
    return wire_written(&writer, out);
}

weft_status codec_decode_challenge(const uint8_t *body, size_t n_bytes,
                                   struct codec_challenge *out, struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(body, n_bytes);

    wire_get_bytes(&reader, out->nonce, sizeof(out->nonce));
    wire_get_bytes(&reader, out->proof, sizeof(out->proof));
    return codec_check_end(&reader, WEFT_PHASE_CHALLENGE, n_bytes, error);
}

size_t codec_encode_auth(const struct codec_auth *auth, uint8_t *out)
{
    memcpy(out, auth->proof, sizeof(auth->proof));
    return sizeof(auth->proof);
}

weft_status codec_decode_auth(const uint8_t *body, size_t n_bytes, struct codec_auth *out,
                              struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(body, n_bytes);

    wire_get_bytes(&reader, out->proof, sizeof(out->proof));
    return codec_check_end(&reader, WEFT_PHASE_AUTH, n_bytes, error);
}

/* ---- ABORT, and messages without a body ---- */

static bool is_text(char c)
{
    return c >= ' ' && c <= '~';
}

static void put_reason(struct wire_writer *writer, const char *reason)
{
    size_t n_bytes = strnlen(reason, CODEC_REASON_BYTES - 1);

    if (n_bytes > 0) {
        wire_put_u8(writer, (uint8_t)n_bytes);
    }
    for (size_t i = 0; i < n_bytes; i++) {
        wire_put_u8(writer, is_text(reason[i]) ? (uint8_t)reason[i] : '?');
    }
}

/* Reads a reason, if there is one. Returns false if it is not 1 to 95 printable characters. A body
 * that is too short is left to codec_check_end(). */
static bool get_reason(struct wire_reader *reader, char *out)
{
    size_t n_bytes;

    memset(out, 0, CODEC_REASON_BYTES);
    if (reader->bad || wire_left(reader) == 0) {
        return true;
    }
    n_bytes = wire_get_u8(reader);

    if (n_bytes == 0 || n_bytes >= CODEC_REASON_BYTES) {
        return false;
    }
    wire_get_bytes(reader, out, n_bytes);
    for (size_t i = 0; i < n_bytes && !reader->bad; i++) {
        if (!is_text(out[i])) {
            return false;
        }
    }
    return true;
}

size_t codec_encode_abort(const struct codec_abort *abort, uint8_t *out)
{
    struct wire_writer writer = wire_writer_init(out, CODEC_BODY_MAX);

    codec_put_name(&writer, abort->phase);
    wire_put_u8(&writer, (uint8_t)-abort->status);
    wire_put_u32(&writer, abort->sys_errno);
    wire_put_u32(&writer, abort->wc_status);
    put_reason(&writer, abort->reason);
    weft_check(!writer.bad);
    return wire_written(&writer, out);
}

weft_status codec_decode_abort(const uint8_t *body, size_t n_bytes,
                               struct codec_abort *out, struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(body, n_bytes);
    bool named = codec_get_name(&reader, out->phase, sizeof(out->phase));
    uint8_t status = wire_get_u8(&reader);
    weft_status finished;

    out->sys_errno = wire_get_u32(&reader);
    out->wc_status = wire_get_u32(&reader);
    if (!named) {
        return codec_bad_field(error, WEFT_PHASE_ABORT, "phase",
                               n_bytes == 0 ? 0 : body[0],
                               "1 to 23 printable characters");
    }
    if (!get_reason(&reader, out->reason)) {
        return codec_bad_field(error, WEFT_PHASE_ABORT, "reason", (int64_t)n_bytes,
                               "1 to 95 printable characters");
    }
    finished = codec_check_end(&reader, WEFT_PHASE_ABORT, n_bytes, error);
    if (finished != WEFT_OK) {
        return finished;
    }
    if (status == 0 || status > (uint8_t)-WEFT_ERR_ENVIRONMENT) {
        return codec_bad_field(error, WEFT_PHASE_ABORT, "status", status,
                               "no such status");
    }
    out->status = (weft_status) - (int)status;
    return WEFT_OK;
}

weft_status codec_decode_empty(enum codec_type type, size_t n_bytes,
                               struct weft_error *error)
{
    if (n_bytes != 0) {
        return codec_bad_field(error, codec_type_phase(type), "length", (int64_t)n_bytes,
                               "it has no body");
    }
    return WEFT_OK;
}
