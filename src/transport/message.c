#include "transport/message.h"

#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/wire.h"
#include "transport/steps.h"

const char *proxy_type_name(uint32_t type)
{
    switch (type) {
    case PROXY_INIT:
        return "init";
    case PROXY_SHARED_INIT:
        return "shared_init";
    case PROXY_SETUP:
        return "setup";
    case PROXY_CONNECT:
        return "connect";
    case PROXY_START:
        return "start";
    case PROXY_CLOSE:
        return "close";
    case PROXY_ABORT:
        return "abort";
    case PROXY_STOP:
        return "stop";
    case PROXY_GET_FD:
        return "get_fd";
    case PROXY_REGISTER:
        return "register";
    case PROXY_DEREGISTER:
        return "deregister";
    case PROXY_JOIN:
        return "join";
    case PROXY_BELL:
        return "bell";
    case PROXY_FALL_BACK:
        return "fall_back";
    default:
        return NULL;
    }
}

static weft_status bad(struct weft_error *error, const char *message, const char *field,
                       uint64_t value, const char *why)
{
    return weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_INSIDE, "%s: %s %llu: %s",
                     message, field, (unsigned long long)value, why);
}

/* ---- fields ---- */

/* Writes the text, padded with zeroes to n_bytes including at least one NUL. */
static void put_text(struct wire_writer *writer, const char *text, size_t n_bytes)
{
    size_t n = strnlen(text, n_bytes - 1);

    wire_put_bytes(writer, text, n);
    for (; n < n_bytes; n++) {
        wire_put_u8(writer, 0);
    }
}

static bool get_text(struct wire_reader *reader, char *out, size_t n_bytes)
{
    size_t n;

    wire_get_bytes(reader, out, n_bytes);
    if (reader->bad || out[n_bytes - 1] != '\0') {
        return false;
    }
    n = strlen(out);
    for (size_t i = 0; i < n; i++) {
        if (out[i] < ' ' || out[i] > '~') {
            return false;
        }
    }
    for (; n < n_bytes; n++) {
        if (out[n] != '\0') {
            return false;
        }
    }
    return true;
}

static bool get_bool(struct wire_reader *reader, bool *out)
{
    uint8_t value = wire_get_u8(reader);

    *out = value == 1;
    return value <= 1;
}

static bool get_kind(struct wire_reader *reader, enum weft_transport *out)
{
    uint8_t value = wire_get_u8(reader);

    *out = (enum weft_transport)value;
    return value < WEFT_N_TRANSPORTS;
}

static bool get_errno(struct wire_reader *reader, int *out)
{
    uint32_t number = wire_get_u32(reader);

    *out = (int)(number & 4095);
    return number <= 4095;
}

static bool is_step(uint32_t n_bytes)
{
    return n_bytes >= STEPS_BYTES_MIN && n_bytes <= STEPS_BYTES_MAX;
}

static bool all_zero(struct wire_reader *reader)
{
    bool zero = true;

    while (wire_left(reader) > 0) {
        zero = wire_get_u8(reader) == 0 && zero;
    }
    return zero;
}

/* Writes the export, or zeroes of the same size if there is none. */
static void put_memory(struct wire_writer *writer, const struct io_gpu_export *memory)
{
    wire_put_u8(writer, memory->n_bytes > 0);
    if (memory->n_bytes > 0) {
        ipc_put_export(writer, memory);
        return;
    }
    for (unsigned i = 0; i < IPC_EXPORT_BYTES; i++) {
        wire_put_u8(writer, 0);
    }
}

static bool get_memory(struct wire_reader *reader, struct io_gpu_export *out)
{
    bool is_there = false, ok = get_bool(reader, &is_there);

    if (is_there) {
        ipc_get_export(reader, out);
        return ok && !reader->bad;
    }
    for (unsigned i = 0; i < IPC_EXPORT_BYTES; i++) {
        ok = wire_get_u8(reader) == 0 && ok;
    }
    return ok;
}

/* ---- requests ---- */

size_t proxy_encode_call(const struct proxy_call *call, uint8_t *out)
{
    struct wire_writer writer = wire_writer_init(out, PROXY_CALL_MAX);

    wire_put_u8(&writer, (uint8_t)call->type);
    wire_put_u32(&writer, call->op);
    wire_put_u32(&writer, call->connection);
    switch (call->type) {
    case PROXY_INIT:
        wire_put_u8(&writer, (uint8_t)call->kind);
        wire_put_u8(&writer, call->is_sender);
        wire_put_u8(&writer, call->is_owner);
        wire_put_u32(&writer, call->peer);
        wire_put_u32(&writer, call->channel);
        break;
    case PROXY_SHARED_INIT:
        wire_put_u32(&writer, call->step_bytes);
        break;
    case PROXY_CONNECT:
        put_text(&writer, call->name, sizeof(call->name));
        put_memory(&writer, &call->memory);
        break;
    case PROXY_REGISTER:
    case PROXY_DEREGISTER:
        wire_put_u64(&writer, call->address);
        wire_put_u64(&writer, call->n_bytes);
        break;
    case PROXY_ABORT:
        wire_put_u32(&writer, call->rank);
        put_text(&writer, call->reason, sizeof(call->reason));
        break;
    case PROXY_JOIN:
        wire_put_u32(&writer, call->rank);
        break;
    case PROXY_FALL_BACK:
        wire_put_u8(&writer, call->is_owner);
        wire_put_u32(&writer, (uint32_t)call->sys_errno);
        break;
    case PROXY_SETUP:
    case PROXY_START:
    case PROXY_CLOSE:
    case PROXY_STOP:
    case PROXY_GET_FD:
    case PROXY_BELL:
        break;
    }
    weft_check(!writer.bad);
    return wire_written(&writer, out);
}

/* Reads the fields of `type` behind the header. Returns false if a value is invalid. */
static bool get_fields(struct wire_reader *reader, struct proxy_call *out)
{
    bool ok = true;

    switch (out->type) {
    case PROXY_INIT:
        ok = get_kind(reader, &out->kind) && ok;
        ok = get_bool(reader, &out->is_sender) && ok;
        ok = get_bool(reader, &out->is_owner) && ok;
        out->peer = wire_get_u32(reader);
        out->channel = wire_get_u32(reader);
        return ok;
    case PROXY_SHARED_INIT:
        out->step_bytes = wire_get_u32(reader);
        return is_step(out->step_bytes);
    case PROXY_CONNECT:
        ok = get_text(reader, out->name, sizeof(out->name));
        return get_memory(reader, &out->memory) && ok;
    case PROXY_REGISTER:
    case PROXY_DEREGISTER:
        out->address = wire_get_u64(reader);
        out->n_bytes = wire_get_u64(reader);
        return true;
    case PROXY_ABORT:
        out->rank = wire_get_u32(reader);
        return get_text(reader, out->reason, sizeof(out->reason));
    case PROXY_JOIN:
        out->rank = wire_get_u32(reader);
        return true;
    case PROXY_FALL_BACK:
        ok = get_bool(reader, &out->is_owner);
        return get_errno(reader, &out->sys_errno) && ok;
    case PROXY_SETUP:
    case PROXY_START:
    case PROXY_CLOSE:
    case PROXY_STOP:
    case PROXY_GET_FD:
    case PROXY_BELL:
        return true;
    }
    return false;
}

weft_status proxy_decode_call(const uint8_t *bytes, size_t n_bytes,
                              struct proxy_call *out, struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(bytes, n_bytes);
    uint8_t type = wire_get_u8(&reader);
    const char *name = proxy_type_name(type);
    bool ok;

    memset(out, 0, sizeof(*out));
    if (name == NULL) {
        return bad(error, "request", "type", type, "no such request");
    }
    out->type = (enum proxy_type)type;
    out->op = wire_get_u32(&reader);
    out->connection = wire_get_u32(&reader);
    ok = get_fields(&reader, out);
    if (reader.bad || wire_left(&reader) != 0) {
        return bad(error, name, "length", n_bytes, "not that of such a request");
    }
    return ok ? WEFT_OK : bad(error, name, "field", 0, "not what it may be");
}

size_t proxy_encode_answer(const struct proxy_answer *answer, uint8_t *out)
{
    struct wire_writer writer = wire_writer_init(out, PROXY_ANSWER_BYTES);

    wire_put_u32(&writer, answer->op);
    wire_put_u32(&writer, (uint32_t)answer->sys_errno);
    wire_put_u32(&writer, answer->connection);
    put_text(&writer, answer->name, sizeof(answer->name));
    put_memory(&writer, &answer->memory);
    weft_check(!writer.bad && wire_written(&writer, out) == PROXY_ANSWER_BYTES);
    return PROXY_ANSWER_BYTES;
}

weft_status proxy_decode_answer(const uint8_t *bytes, size_t n_bytes,
                                struct proxy_answer *out, struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(bytes, n_bytes);
    bool ok;

    memset(out, 0, sizeof(*out));
    if (n_bytes != PROXY_ANSWER_BYTES) {
        return bad(error, "answer", "length", n_bytes, "not that of an answer");
    }
    out->op = wire_get_u32(&reader);
    ok = get_errno(&reader, &out->sys_errno);
    out->connection = wire_get_u32(&reader);
    ok = get_text(&reader, out->name, sizeof(out->name)) && ok;
    ok = get_memory(&reader, &out->memory) && ok;
    return ok ? WEFT_OK : bad(error, "answer", "field", 0, "not what it may be");
}

/* ---- exchanged in all-gathers ---- */

void inside_encode_facts(const struct inside_facts *facts,
                         uint8_t out[INSIDE_FACTS_BYTES])
{
    struct wire_writer writer = wire_writer_init(out, INSIDE_FACTS_BYTES);

    wire_put_u8(&writer, 1); /* version */
    wire_put_u8(&writer, facts->has_proxy);
    wire_put_bytes(&writer, facts->at.ip.bytes, sizeof(facts->at.ip.bytes));
    wire_put_u16(&writer, facts->at.port);
    wire_put_u64(&writer, facts->shm_dev);
    put_text(&writer, facts->gpu, sizeof(facts->gpu));
    while (wire_written(&writer, out) < INSIDE_FACTS_BYTES) {
        wire_put_u8(&writer, 0);
    }
    weft_check(!writer.bad);
}

weft_status inside_decode_facts(const uint8_t bytes[INSIDE_FACTS_BYTES],
                                struct inside_facts *out, struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(bytes, INSIDE_FACTS_BYTES);
    uint8_t version = wire_get_u8(&reader);
    bool ok;

    memset(out, 0, sizeof(*out));
    ok = get_bool(&reader, &out->has_proxy);
    wire_get_bytes(&reader, out->at.ip.bytes, sizeof(out->at.ip.bytes));
    out->at.port = wire_get_u16(&reader);
    out->shm_dev = wire_get_u64(&reader);
    ok = get_text(&reader, out->gpu, sizeof(out->gpu)) && ok;
    ok = all_zero(&reader) && ok;
    if (version != 1) {
        return bad(error, "facts", "version", version, "ours is 1");
    }
    return ok ? WEFT_OK : bad(error, "facts", "field", 0, "not what it may be");
}

void inside_encode_blob(const struct inside_blob *blob, uint8_t out[INSIDE_BLOB_BYTES])
{
    struct wire_writer writer = wire_writer_init(out, INSIDE_BLOB_BYTES);

    memset(out, 0, INSIDE_BLOB_BYTES);
    if (!blob->is_there) {
        return;
    }
    wire_put_u8(&writer, 1);
    wire_put_u8(&writer, (uint8_t)blob->kind);
    wire_put_u8(&writer, blob->is_owner);
    wire_put_u8(&writer, blob->reads);
    wire_put_u32(&writer, blob->connection);
    wire_put_u32(&writer, blob->channel);
    wire_put_u32(&writer, blob->step_bytes);
    weft_check(!writer.bad);
}

weft_status inside_decode_blob(const uint8_t bytes[INSIDE_BLOB_BYTES],
                               struct inside_blob *out, struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(bytes, INSIDE_BLOB_BYTES);
    bool ok;

    memset(out, 0, sizeof(*out));
    ok = get_bool(&reader, &out->is_there);
    ok = get_kind(&reader, &out->kind) && ok;
    ok = get_bool(&reader, &out->is_owner) && ok;
    ok = get_bool(&reader, &out->reads) && ok;
    out->connection = wire_get_u32(&reader);
    out->channel = wire_get_u32(&reader);
    out->step_bytes = wire_get_u32(&reader);
    ok = all_zero(&reader) && ok;
    ok = ok && (out->is_there ? is_step(out->step_bytes)
                              : out->kind == 0 && !out->is_owner && !out->reads &&
                                    out->connection == 0 && out->channel == 0 &&
                                    out->step_bytes == 0);
    return ok ? WEFT_OK : bad(error, "blob", "field", 0, "not what it may be");
}
