#include <string.h>

#include "base/check.h"
#include "base/wire.h"
#include "host/private.h"

_Static_assert(HOST_BLOB_BYTES <= BOOT_BLOB_MAX, "the rendezvous carries it");
_Static_assert(HOST_PORTS_MAX == 16, "HOST_BLOB_BYTES");

/* Flags of a port. */
enum { PORT_ACTIVE = 1, PORT_CUT = 2 };

static void put_port(struct wire_writer *writer, const struct rdma_port_facts *port)
{
    wire_put_bytes(writer, port->name, sizeof(port->name));
    wire_put_u32(writer, port->device);
    wire_put_u8(writer, (uint8_t)((port->is_active ? PORT_ACTIVE : 0) |
                                  (port->is_cut ? PORT_CUT : 0)));
    wire_put_u32(writer, port->active_mtu);
    wire_put_u32(writer, port->netdev_mtu);
    wire_put_u64(writer, port->rate_bps);
    wire_put_u8(writer, (uint8_t)port->n_gids);
    for (uint32_t i = 0; i < RDMA_FACTS_GIDS_MAX; i++) {
        wire_put_bytes(writer, port->gids[i].gid.raw, 16);
        wire_put_u8(writer, port->gids[i].type);
        wire_put_u8(writer, port->gids[i].prefix_len);
        wire_put_u32(writer, port->gids[i].index);
    }
}

/* Maximum number of members that exchange their ports; each then keeps about 250 KiB of blobs. */
#define FULL_MEMBERS_MAX 64

size_t host_blob_bytes(uint32_t n_members)
{
    return n_members <= FULL_MEMBERS_MAX ? HOST_BLOB_BYTES : HOST_BLOB_SHORT_BYTES;
}

void host_blob_encode(const struct host_peer *peer, uint8_t *out, size_t n_bytes)
{
    struct wire_writer writer = wire_writer_init(out, n_bytes);
    uint32_t n_ports = n_bytes == HOST_BLOB_BYTES ? peer->n_ports : 0;

    weft_check(n_bytes == HOST_BLOB_BYTES || n_bytes == HOST_BLOB_SHORT_BYTES);
    memset(out, 0, n_bytes);
    wire_put_u32(&writer, HOST_BLOB_VERSION);
    wire_put_bytes(&writer, peer->name, sizeof(peer->name));
    wire_put_bytes(&writer, peer->host_id, sizeof(peer->host_id));
    wire_put_bytes(&writer, peer->handle, sizeof(peer->handle));
    wire_put_u8(&writer, (uint8_t)n_ports);
    for (uint32_t i = 0; i < n_ports; i++) {
        put_port(&writer, &peer->ports[i]);
    }
    weft_check(!writer.bad);
}

static bool is_text(const char *text, size_t n_bytes)
{
    const char *end = memchr(text, '\0', n_bytes);

    if (end == NULL) {
        return false;
    }
    for (; text < end; text++) {
        if (*text <= ' ' || *text > '~') {
            return false;
        }
    }
    return true;
}

static bool get_port(struct wire_reader *reader, struct rdma_port_facts *port)
{
    uint8_t flags;

    wire_get_bytes(reader, port->name, sizeof(port->name));
    port->device = wire_get_u32(reader);
    flags = wire_get_u8(reader);
    port->is_active = (flags & PORT_ACTIVE) != 0;
    port->is_cut = (flags & PORT_CUT) != 0;
    port->active_mtu = wire_get_u32(reader);
    port->netdev_mtu = wire_get_u32(reader);
    port->rate_bps = wire_get_u64(reader);
    port->n_gids = wire_get_u8(reader);
    for (uint32_t i = 0; i < RDMA_FACTS_GIDS_MAX; i++) {
        wire_get_bytes(reader, port->gids[i].gid.raw, 16);
        port->gids[i].type = wire_get_u8(reader);
        port->gids[i].prefix_len = wire_get_u8(reader);
        port->gids[i].index = wire_get_u32(reader);
    }
    return is_text(port->name, sizeof(port->name)) && port->n_gids <= RDMA_FACTS_GIDS_MAX;
}

weft_status host_blob_decode(const uint8_t *bytes, size_t n_bytes, struct host_peer *peer,
                             struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(bytes, n_bytes);
    uint32_t n_ports;
    uint32_t version = wire_get_u32(&reader);

    if (version != HOST_BLOB_VERSION) {
        return weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_BOOT,
                         "a member speaks version %u, this one %d", version,
                         HOST_BLOB_VERSION);
    }
    wire_get_bytes(&reader, peer->name, sizeof(peer->name));
    wire_get_bytes(&reader, peer->host_id, sizeof(peer->host_id));
    wire_get_bytes(&reader, peer->handle, sizeof(peer->handle));
    n_ports = wire_get_u8(&reader);
    if (!is_text(peer->name, sizeof(peer->name)) ||
        n_ports > (n_bytes == HOST_BLOB_BYTES ? HOST_PORTS_MAX : 0)) {
        return weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_BOOT,
                         "a member sent no name or %u ports", n_ports);
    }
    peer->ports = weft_calloc((size_t)n_ports + 1, sizeof(*peer->ports));
    for (uint32_t i = 0; i < n_ports; i++) {
        if (!get_port(&reader, &peer->ports[i])) {
            return weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_BOOT,
                             "port %u of %s is malformed", i, peer->name);
        }
        peer->n_ports = i + 1;
    }
    weft_check(!reader.bad);
    return WEFT_OK;
}
