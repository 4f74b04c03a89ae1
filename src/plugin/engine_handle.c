/* The plugin's handle: conn's handle of the one listener of the process, with the number of the
 * listen in its last bytes. */
#include <string.h>

#include "base/wire.h"
#include "conn/codec.h"
#include "plugin/engine_private.h"

#define ROOM_AT (CONN_HANDLE_BYTES - ENGINE_HANDLE_ROOM)
#define NUMBER_MAGIC UINT32_C(0x574e45) /* "WNE", followed by the version */
/* 'T' is version 1, without relays; in version 2 no relay stands in for a cable. */
#define NUMBER_VERSION 3u
#define NUMBER_FIRST UINT32_C(0x54)

weft_status engine_handle_trim(uint8_t handle[CONN_HANDLE_BYTES],
                               struct weft_error *error)
{
    struct codec_handle parts;
    weft_status status = codec_decode_handle(handle, &parts, error);

    if (status != WEFT_OK) {
        return status;
    }
    parts.is_compact = parts.is_compact || codec_handle_bytes(&parts) > ROOM_AT;
    while (codec_handle_bytes(&parts) > ROOM_AT) {
        parts.n_endpoints--;
    }
    return codec_encode_handle(&parts, handle)
               ? WEFT_OK
               : weft_fail(error, WEFT_ERR_LIMIT, WEFT_PHASE_LISTEN,
                           "the addresses do not fit");
}

void engine_handle_number(uint8_t handle[CONN_HANDLE_BYTES], uint32_t number)
{
    struct wire_writer writer = wire_writer_init(handle + ROOM_AT, ENGINE_HANDLE_ROOM);

    wire_put_u24(&writer, NUMBER_MAGIC);
    wire_put_u8(&writer, NUMBER_VERSION);
    wire_put_u32(&writer, number);
}

weft_status engine_handle_split(const uint8_t handle[CONN_HANDLE_BYTES],
                                uint8_t out[CONN_HANDLE_BYTES], uint32_t *out_number,
                                struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(handle + ROOM_AT, ENGINE_HANDLE_ROOM);
    uint32_t magic = wire_get_u24(&reader);
    uint32_t version = wire_get_u8(&reader);
    struct codec_handle parts;

    *out_number = wire_get_u32(&reader);
    memcpy(out, handle, CONN_HANDLE_BYTES);
    memset(out + ROOM_AT, 0, ENGINE_HANDLE_ROOM);
    if (magic != NUMBER_MAGIC || *out_number == 0) {
        weft_status status = weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_CONNECT,
                                       "not a handle of this plugin");

        weft_error_text(error, WEFT_VALUE_FIELD, "magic");
        return status;
    }
    if (version != NUMBER_VERSION) {
        weft_status status =
            weft_fail(error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_CONNECT,
                      "the peer's plugin is of version %u, this one of %u: install the "
                      "same weft on all hosts",
                      version == NUMBER_FIRST ? 1 : version, NUMBER_VERSION);

        weft_error_text(error, WEFT_VALUE_FIELD, "version");
        return status;
    }
    return codec_decode_handle(out, &parts, error);
}
