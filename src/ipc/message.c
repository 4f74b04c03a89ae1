#include "ipc/message.h"

#include <string.h>

#include "base/check.h"
#include "base/wire.h"

const char *ipc_type_name(uint32_t type)
{
    static const char *const names[] = {NULL,         "hello",       "verdict",  "offer",
                                        "staged",     "chunk",       "done",     "retry",
                                        "invalidate", "invalidated", "original", "go"};

    return type < WEFT_LENGTH(names) ? names[type] : NULL;
}

const char *ipc_reason_name(enum ipc_reason reason)
{
    static const char *const names[IPC_N_REASONS] = {
        [IPC_FINE] = "fine",
        [IPC_OFF] = "switched off",
        [IPC_OTHER_VERSION] = "another version",
        [IPC_OTHER_HOST] = "another host",
        [IPC_SAME_PROCESS] = "same process",
        [IPC_SAME_GPU] = "same GPU",
        [IPC_NO_KIND] = "no common kind of handle",
        [IPC_NO_ACCESS] = "no access",
        [IPC_OTHER_MEMORY] = "other memory",
        [IPC_BUFFER] = "not this buffer",
        [IPC_PEER_REFUSED] = "the peer refused",
        [IPC_PEER_GONE] = "the peer is gone",
    };

    weft_check(reason < IPC_N_REASONS);
    return names[reason];
}

/* ---- parts ---- */

static void put_text(struct wire_writer *writer, const char *text, size_t n_bytes)
{
    char field[64] = {0};

    weft_check(n_bytes <= sizeof(field));
    memcpy(field, text, strnlen(text, n_bytes - 1));
    wire_put_bytes(writer, field, n_bytes);
}

/* Reads a NUL-terminated text. Marks the reader as bad if the NUL is missing or followed by
 * other bytes. */
static void get_text(struct wire_reader *reader, char *out, size_t n_bytes)
{
    size_t n;

    wire_get_bytes(reader, out, n_bytes);
    n = reader->bad ? 0 : strnlen(out, n_bytes);
    reader->bad |= n == n_bytes;
    for (size_t i = n; i < n_bytes && !reader->bad; i++) {
        reader->bad = out[i] != 0;
    }
}

static bool get_bool(struct wire_reader *reader)
{
    uint8_t value = wire_get_u8(reader);

    reader->bad |= value > 1;
    return value == 1;
}

static enum ipc_reason get_reason(struct wire_reader *reader)
{
    uint8_t value = wire_get_u8(reader);

    reader->bad |= value >= IPC_N_REASONS;
    return reader->bad ? IPC_FINE : (enum ipc_reason)value;
}

void ipc_put_export(struct wire_writer *writer, const struct io_gpu_export *exported)
{
    wire_put_u8(writer, (uint8_t)exported->kind);
    wire_put_bytes(writer, exported->handle.bytes, IO_GPU_HANDLE_BYTES);
    wire_put_u64(writer, exported->base);
    wire_put_u64(writer, exported->n_bytes);
    wire_put_u64(writer, exported->buffer_id);
}

void ipc_get_export(struct wire_reader *reader, struct io_gpu_export *out)
{
    uint8_t kind = wire_get_u8(reader);

    reader->bad |= kind >= IO_GPU_N_HANDLE_KINDS;
    out->kind = reader->bad ? IO_GPU_HANDLE_LEGACY : (enum io_gpu_handle_kind)kind;
    wire_get_bytes(reader, out->handle.bytes, IO_GPU_HANDLE_BYTES);
    out->base = wire_get_u64(reader);
    out->n_bytes = wire_get_u64(reader);
    out->buffer_id = wire_get_u64(reader);
    reader->bad |= out->n_bytes == 0 || out->n_bytes > UINT64_MAX - out->base;
}

static void put_identity(struct wire_writer *writer, const struct ipc_identity *identity)
{
    const struct io_gpu_identity *gpu = &identity->gpu;

    wire_put_bytes(writer, identity->nonce, IPC_NONCE_BYTES);
    wire_put_bytes(writer, identity->host, IPC_HOST_BYTES);
    put_text(writer, gpu->uuid, sizeof(gpu->uuid));
    put_text(writer, gpu->pci_bus_id, sizeof(gpu->pci_bus_id));
    wire_put_u32(writer, gpu->ordinal);
    wire_put_u32(writer, gpu->driver);
    wire_put_u32(writer, gpu->kinds);
    wire_put_bytes(writer, gpu->cluster, sizeof(gpu->cluster));
    wire_put_u32(writer, gpu->clique);
    wire_put_u32(writer, gpu->pid);
    wire_put_u64(writer, gpu->pid_ns);
    wire_put_u8(writer, identity->has_probe);
    if (identity->has_probe) {
        ipc_put_export(writer, &identity->probe);
    }
}

static void get_identity(struct wire_reader *reader, struct ipc_identity *out)
{
    struct io_gpu_identity *gpu = &out->gpu;

    wire_get_bytes(reader, out->nonce, IPC_NONCE_BYTES);
    wire_get_bytes(reader, out->host, IPC_HOST_BYTES);
    get_text(reader, gpu->uuid, sizeof(gpu->uuid));
    get_text(reader, gpu->pci_bus_id, sizeof(gpu->pci_bus_id));
    gpu->ordinal = wire_get_u32(reader);
    gpu->driver = wire_get_u32(reader);
    gpu->kinds = wire_get_u32(reader);
    wire_get_bytes(reader, gpu->cluster, sizeof(gpu->cluster));
    gpu->clique = wire_get_u32(reader);
    gpu->pid = wire_get_u32(reader);
    gpu->pid_ns = wire_get_u64(reader);
    out->has_probe = get_bool(reader);
    if (out->has_probe) {
        ipc_get_export(reader, &out->probe);
        reader->bad |= out->probe.n_bytes < IPC_NONCE_BYTES;
    }
}

static void put_offer(struct wire_writer *writer, const struct ipc_offer *offer)
{
    wire_put_u64(writer, offer->generation);
    ipc_put_export(writer, &offer->memory);
    wire_put_u64(writer, offer->offset);
    wire_put_u64(writer, offer->n_bytes);
    wire_put_bytes(writer, offer->event.bytes, IO_GPU_HANDLE_BYTES);
}

/* Reads an offer. Marks the reader as bad unless the offer lies within its allocation. */
static void get_offer(struct wire_reader *reader, struct ipc_offer *out)
{
    out->generation = wire_get_u64(reader);
    ipc_get_export(reader, &out->memory);
    out->offset = wire_get_u64(reader);
    out->n_bytes = wire_get_u64(reader);
    wire_get_bytes(reader, out->event.bytes, IO_GPU_HANDLE_BYTES);
    reader->bad |= out->offset > out->memory.n_bytes ||
                   out->n_bytes > out->memory.n_bytes - out->offset;
}

void ipc_encode_offer(const struct ipc_offer *offer, uint8_t out[IPC_OFFER_BYTES])
{
    struct wire_writer writer = wire_writer_init(out, IPC_OFFER_BYTES);

    put_offer(&writer, offer);
    weft_check(!writer.bad && wire_written(&writer, out) == IPC_OFFER_BYTES);
}

bool ipc_decode_offer(const uint8_t bytes[IPC_OFFER_BYTES], struct ipc_offer *out)
{
    struct wire_reader reader = wire_reader_init(bytes, IPC_OFFER_BYTES);

    memset(out, 0, sizeof(*out));
    get_offer(&reader, out);
    return !reader.bad;
}

/* ---- messages ---- */

static void put_body(struct wire_writer *writer, const struct ipc_message *message)
{
    switch (message->type) {
    case IPC_HELLO:
        wire_put_u32(writer, message->epoch);
        wire_put_u8(writer, message->is_again);
        put_identity(writer, &message->identity);
        break;
    case IPC_VERDICT:
        wire_put_u32(writer, message->epoch);
        wire_put_u32(writer, message->about);
        wire_put_u8(writer, message->is_again);
        wire_put_u8(writer, message->accepts);
        wire_put_u8(writer, (uint8_t)message->reason);
        break;
    case IPC_OFFER:
        wire_put_u64(writer, message->transfer);
        put_offer(writer, &message->offer);
        break;
    case IPC_STAGED:
        wire_put_u64(writer, message->transfer);
        wire_put_u64(writer, message->n_bytes);
        break;
    case IPC_CHUNK:
        wire_put_u64(writer, message->transfer);
        wire_put_bytes(writer, message->chunk, message->n_chunk);
        break;
    case IPC_RETRY:
        wire_put_u64(writer, message->transfer);
        wire_put_u8(writer, (uint8_t)message->reason);
        break;
    case IPC_DONE:
    case IPC_GO:
        wire_put_u64(writer, message->transfer);
        break;
    case IPC_INVALIDATE:
        wire_put_u64(writer, message->generation);
        wire_put_u64(writer, message->buffer_id);
        break;
    case IPC_INVALIDATED:
        wire_put_u64(writer, message->buffer_id);
        break;
    case IPC_ORIGINAL:
        wire_put_u32(writer, message->original);
        put_identity(writer, &message->identity);
        break;
    }
}

size_t ipc_encode(const struct ipc_message *message, uint8_t out[IPC_MESSAGE_MAX])
{
    struct wire_writer writer = wire_writer_init(out, IPC_MESSAGE_MAX);

    wire_put_u8(&writer, IPC_VERSION);
    wire_put_u8(&writer, (uint8_t)message->type);
    put_body(&writer, message);
    weft_check(!writer.bad);
    return wire_written(&writer, out);
}

static void get_chunk(struct wire_reader *reader, struct ipc_message *out)
{
    size_t n = wire_left(reader);

    reader->bad |= n == 0 || n > IPC_CHUNK_BYTES;
    out->chunk = reader->at;
    out->n_chunk = reader->bad ? 0 : (uint32_t)n;
    reader->at += out->n_chunk;
}

static void get_body(struct wire_reader *reader, struct ipc_message *out)
{
    switch (out->type) {
    case IPC_HELLO:
        out->epoch = wire_get_u32(reader);
        out->is_again = get_bool(reader);
        get_identity(reader, &out->identity);
        reader->bad |= out->epoch == 0;
        break;
    case IPC_VERDICT:
        out->epoch = wire_get_u32(reader);
        out->about = wire_get_u32(reader);
        out->is_again = get_bool(reader);
        out->accepts = get_bool(reader);
        out->reason = get_reason(reader);
        reader->bad |= out->accepts != (out->reason == IPC_FINE);
        break;
    case IPC_OFFER:
        out->transfer = wire_get_u64(reader);
        get_offer(reader, &out->offer);
        break;
    case IPC_STAGED:
        out->transfer = wire_get_u64(reader);
        out->n_bytes = wire_get_u64(reader);
        break;
    case IPC_CHUNK:
        out->transfer = wire_get_u64(reader);
        get_chunk(reader, out);
        break;
    case IPC_RETRY:
        out->transfer = wire_get_u64(reader);
        out->reason = get_reason(reader);
        break;
    case IPC_DONE:
    case IPC_GO:
        out->transfer = wire_get_u64(reader);
        break;
    case IPC_INVALIDATE:
        out->generation = wire_get_u64(reader);
        out->buffer_id = wire_get_u64(reader);
        break;
    case IPC_INVALIDATED:
        out->buffer_id = wire_get_u64(reader);
        break;
    case IPC_ORIGINAL:
        out->original = wire_get_u32(reader);
        get_identity(reader, &out->identity);
        reader->bad |= out->original < 10 || out->original > 12;
        break;
    }
}

weft_status ipc_decode(const uint8_t *bytes, size_t n_bytes, struct ipc_message *out,
                       struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(bytes, n_bytes);
    uint8_t version = wire_get_u8(&reader), type = wire_get_u8(&reader);

    memset(out, 0, sizeof(*out));
    if (reader.bad || ipc_type_name(type) == NULL) {
        return weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_IPC,
                         "no message of type %u", type);
    }
    if (version != IPC_VERSION) {
        return weft_fail(error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_IPC,
                         "version %u, ours is %u", version, IPC_VERSION);
    }
    out->type = (enum ipc_type)type;
    get_body(&reader, out);
    if (reader.bad || wire_left(&reader) > 0) {
        return weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_IPC,
                         "a bad %s of %zu bytes", ipc_type_name(type), n_bytes);
    }
    return WEFT_OK;
}
