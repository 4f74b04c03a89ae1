#include "plugin/beacon.h"

#include <string.h>

#include "base/check.h"
#include "base/wire.h"
#include "conn/codec.h"

#define MAGIC UINT32_C(0x5742434e) /* "WBCN" */
#define FIXED_BYTES (4u + 1 + 1 + 2 + 3 * 8 + 4 + BEACON_NAME_BYTES + CONN_HANDLE_BYTES)

_Static_assert(FIXED_BYTES + 8 * BEACON_NEIGHBOURS_MAX + AUTH_MAC_BYTES <=
                   IO_ANNOUNCEMENT_MAX,
               "a beacon is one datagram");

void beacon_key(const uint8_t *secret, uint8_t out[AUTH_KEY_BYTES])
{
    static const char name[] = "weft-v1 beacon";
    static const uint8_t none[32];

    auth_hkdf(NULL, 0, secret != NULL ? secret : none, 32, name, sizeof(name) - 1, out);
}

size_t beacon_encode(const struct beacon *beacon, const uint8_t key[AUTH_KEY_BYTES],
                     uint8_t out[IO_ANNOUNCEMENT_MAX])
{
    struct wire_writer writer = wire_writer_init(out, IO_ANNOUNCEMENT_MAX);
    uint8_t mac[AUTH_MAC_BYTES];
    size_t n_bytes;

    weft_check(beacon->n_neighbours <= BEACON_NEIGHBOURS_MAX);
    wire_put_u32(&writer, MAGIC);
    wire_put_u8(&writer, BEACON_VERSION);
    wire_put_u8(&writer, (uint8_t)beacon->flags);
    wire_put_u16(&writer, (uint16_t)beacon->n_neighbours);
    wire_put_u64(&writer, beacon->sender);
    wire_put_u64(&writer, beacon->process);
    wire_put_u64(&writer, beacon->started_ns);
    wire_put_u32(&writer, beacon->sequence);
    wire_put_bytes(&writer, beacon->name, sizeof(beacon->name));
    wire_put_bytes(&writer, beacon->handle, sizeof(beacon->handle));
    for (uint32_t i = 0; i < beacon->n_neighbours; i++) {
        wire_put_u64(&writer, beacon->neighbours[i]);
    }
    n_bytes = FIXED_BYTES + 8 * (size_t)beacon->n_neighbours;
    auth_prove(key, AUTH_ANNOUNCEMENT, out, n_bytes, NULL, 0, mac);
    wire_put_bytes(&writer, mac, sizeof(mac));
    weft_check(!writer.bad);
    return n_bytes + sizeof(mac);
}

/* Returns true if the name is printable text without blanks, padded with zeroes. */
static bool is_name(const char name[BEACON_NAME_BYTES])
{
    size_t n = strnlen(name, BEACON_NAME_BYTES);

    if (n == BEACON_NAME_BYTES) {
        return false;
    }
    for (size_t i = 0; i < BEACON_NAME_BYTES; i++) {
        if (i < n ? name[i] <= ' ' || name[i] > '~' : name[i] != '\0') {
            return false;
        }
    }
    return true;
}

static bool read_fields(struct wire_reader *reader, struct beacon *out)
{
    struct codec_handle handle;
    struct weft_error ignored = {0};

    out->flags = wire_get_u8(reader);
    out->n_neighbours = wire_get_u16(reader);
    out->sender = wire_get_u64(reader);
    out->process = wire_get_u64(reader);
    out->started_ns = wire_get_u64(reader);
    out->sequence = wire_get_u32(reader);
    wire_get_bytes(reader, out->name, sizeof(out->name));
    wire_get_bytes(reader, out->handle, sizeof(out->handle));
    if (reader->bad || out->n_neighbours > BEACON_NEIGHBOURS_MAX || out->flags > 3 ||
        out->sender == 0 || out->process == 0 || out->sequence == 0 ||
        !is_name(out->name) ||
        codec_decode_handle(out->handle, &handle, &ignored) != WEFT_OK) {
        return false;
    }
    memcpy(out->host_id, handle.host_id, sizeof(out->host_id));
    for (uint32_t i = 0; i < out->n_neighbours; i++) {
        out->neighbours[i] = wire_get_u64(reader);
    }
    return !reader->bad && wire_left(reader) == AUTH_MAC_BYTES;
}

weft_status beacon_decode(const uint8_t *bytes, size_t n_bytes,
                          const uint8_t key[AUTH_KEY_BYTES], struct beacon *out)
{
    struct wire_reader reader = wire_reader_init(bytes, n_bytes);
    uint32_t magic = wire_get_u32(&reader);
    uint32_t version = wire_get_u8(&reader);
    uint8_t mac[AUTH_MAC_BYTES];

    memset(out, 0, sizeof(*out));
    if (reader.bad || magic != MAGIC) {
        return WEFT_ERR_PROTOCOL;
    }
    if (version != BEACON_VERSION) {
        return WEFT_ERR_UNSUPPORTED;
    }
    if (!read_fields(&reader, out)) {
        return WEFT_ERR_PROTOCOL;
    }
    auth_prove(key, AUTH_ANNOUNCEMENT, bytes, n_bytes - AUTH_MAC_BYTES, NULL, 0, mac);
    return auth_equal(mac, bytes + n_bytes - AUTH_MAC_BYTES) ? WEFT_OK : WEFT_ERR_AUTH;
}
