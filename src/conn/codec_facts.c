/* Encodes and decodes the handle and the long messages, FACTS and META. */
#include "conn/codec.h"

#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define HANDLE_MAGIC 0x57465448u /* "WFTH" */
#define HANDLE_PLAIN CODEC_VERSION
#define HANDLE_COMPACT 4u
#define HANDLE_PLAIN_MAX 10u /* endpoints, if all are IPv4 */
#define HANDLE_HEAD_BYTES 44u
#define ENDPOINT_LONGEST 22u /* a compact one of which no byte can be omitted */
#define HANDLE_LONGEST (HANDLE_HEAD_BYTES + CODEC_ENDPOINTS_MAX * ENDPOINT_LONGEST)
#define ENDPOINT_V6 0x01u
#define ENDPOINT_MANAGEMENT 0x02u
/* Only in a compact handle: the field is omitted, because the endpoint before has the same. */
#define ENDPOINT_SAME_PREFIX 0x04u
#define ENDPOINT_SAME_PORT 0x08u

/* Values of the endpoint before one of a compact handle, and the IPv6 address before it; zero at
 * the first. */
struct handle_before {
    uint8_t prefix_len;
    uint16_t port;
    uint8_t v6[16];
};

/* State of a port in FACTS: 0 (inactive), PORT_ACTIVE or PORT_CHOSEN (active, and NCCL's own choice
 * of a device). PORT_MAY_STALL can be added to each. */
enum { PORT_ACTIVE = 1, PORT_CHOSEN = 2, PORT_MAY_STALL = 4 };

/* Returns true if the address can belong to one host: it is neither zero, loopback nor multicast
 * (nor in 0.0.0.0/8 or 240.0.0.0/4). */
static bool is_unicast(const uint8_t bytes[16])
{
    struct io_ip ip;

    memcpy(ip.bytes, bytes, sizeof(ip.bytes));
    if (io_ip_is_zero(&ip)) {
        return false;
    }
    if (io_ip_is_v4(&ip)) {
        return ip.bytes[12] != 0 && ip.bytes[12] != 127 && ip.bytes[12] < 224;
    }
    if (ip.bytes[0] == 0xff) {
        return false;
    }
    for (size_t i = 0; i < 15; i++) {
        if (ip.bytes[i] != 0) {
            return true;
        }
    }
    return false; /* ::1 */
}

static bool prefix_fits(const uint8_t bytes[16], uint8_t prefix_len)
{
    struct io_ip ip;

    memcpy(ip.bytes, bytes, sizeof(ip.bytes));
    return prefix_len <= (io_ip_is_v4(&ip) ? 32 : 128);
}

static bool is_mtu(uint32_t bytes)
{
    return rdma_mtu_enum(bytes) != 0;
}

static bool is_gid_type(uint8_t type)
{
    return type == IBV_GID_TYPE_ROCE_V1 || type == IBV_GID_TYPE_ROCE_V2;
}

/* ---- the handle ---- */

/* Returns a bit for each byte in which the addresses differ. The first byte has the highest. */
static uint32_t changed_bytes(const uint8_t ip[16], const uint8_t before[16])
{
    uint32_t mask = 0;

    for (uint32_t i = 0; i < 16; i++) {
        mask |= ip[i] != before[i] ? UINT32_C(0x8000) >> i : 0;
    }
    return mask;
}

static void put_address(struct wire_writer *writer, const struct io_ip *ip,
                        const struct handle_before *before, bool is_compact)
{
    uint32_t mask;

    if (io_ip_is_v4(ip)) {
        wire_put_bytes(writer, ip->bytes + 12, 4);
        return;
    }
    if (!is_compact) {
        wire_put_bytes(writer, ip->bytes, 16);
        return;
    }
    mask = changed_bytes(ip->bytes, before->v6);
    wire_put_u16(writer, (uint16_t)mask);
    for (uint32_t i = 0; i < 16; i++) {
        if ((mask & UINT32_C(0x8000) >> i) != 0) {
            wire_put_u8(writer, ip->bytes[i]);
        }
    }
}

static void note_endpoint(struct handle_before *before,
                          const struct codec_endpoint *endpoint)
{
    before->prefix_len = endpoint->prefix.prefix_len;
    before->port = endpoint->port;
    if (!io_ip_is_v4(&endpoint->prefix.ip)) {
        memcpy(before->v6, endpoint->prefix.ip.bytes, sizeof(before->v6));
    }
}

static void put_endpoint(struct wire_writer *writer,
                         const struct codec_endpoint *endpoint,
                         const struct handle_before *before, bool is_compact)
{
    bool same_prefix = is_compact && endpoint->prefix.prefix_len == before->prefix_len;
    bool same_port = is_compact && endpoint->port == before->port;

    wire_put_u8(writer, (uint8_t)((io_ip_is_v4(&endpoint->prefix.ip) ? 0u : ENDPOINT_V6) |
                                  (endpoint->is_management ? ENDPOINT_MANAGEMENT : 0u) |
                                  (same_prefix ? ENDPOINT_SAME_PREFIX : 0u) |
                                  (same_port ? ENDPOINT_SAME_PORT : 0u)));
    if (!same_prefix) {
        wire_put_u8(writer, endpoint->prefix.prefix_len);
    }
    if (!same_port) {
        wire_put_u16(writer, endpoint->port);
    }
    put_address(writer, &endpoint->prefix.ip, before, is_compact);
}

/* Encodes a handle that can be too long. Returns its length. */
static size_t put_handle(const struct codec_handle *handle, uint8_t out[HANDLE_LONGEST])
{
    struct wire_writer writer = wire_writer_init(out, HANDLE_LONGEST);
    struct handle_before before = {.prefix_len = 0};

    wire_put_u32(&writer, HANDLE_MAGIC);
    wire_put_u16(&writer, (uint16_t)(handle->is_compact ? HANDLE_COMPACT : HANDLE_PLAIN));
    wire_put_u8(&writer, 0);
    wire_put_u8(&writer, (uint8_t)handle->n_endpoints);
    wire_put_bytes(&writer, handle->host_id, sizeof(handle->host_id));
    wire_put_bytes(&writer, handle->cookie, sizeof(handle->cookie));
    wire_put_u32(&writer, handle->epoch);
    for (uint32_t i = 0; i < handle->n_endpoints; i++) {
        put_endpoint(&writer, &handle->endpoints[i], &before, handle->is_compact);
        note_endpoint(&before, &handle->endpoints[i]);
    }
    weft_check(!writer.bad);
    return wire_written(&writer, out);
}

size_t codec_handle_bytes(const struct codec_handle *handle)
{
    uint8_t ignored[HANDLE_LONGEST];

    return put_handle(handle, ignored);
}

bool codec_encode_handle(const struct codec_handle *handle,
                         uint8_t out[CONN_HANDLE_BYTES])
{
    uint8_t bytes[HANDLE_LONGEST];
    size_t n = put_handle(handle, bytes);

    memset(out, 0, CONN_HANDLE_BYTES);
    if (n > CONN_HANDLE_BYTES) {
        return false;
    }
    memcpy(out, bytes, n);
    return true;
}

/* Reads an IPv6 address of a compact handle. Returns false if it lists a byte that is the same as
 * in the address before, which would give the handle a second encoding. */
static bool get_compact_v6(struct wire_reader *reader, const struct handle_before *before,
                           struct io_ip *out)
{
    uint32_t mask = wire_get_u16(reader);

    memcpy(out->bytes, before->v6, sizeof(out->bytes));
    for (uint32_t i = 0; i < 16; i++) {
        if ((mask & UINT32_C(0x8000) >> i) != 0) {
            out->bytes[i] = wire_get_u8(reader);
        }
    }
    return changed_bytes(out->bytes, before->v6) == mask;
}

static weft_status get_address(struct wire_reader *reader, uint8_t flags, uint32_t i,
                               const struct handle_before *before, bool is_compact,
                               struct io_ip *out, struct weft_error *error)
{
    uint8_t v4[4];
    bool is_shortest = true;

    if ((flags & ENDPOINT_V6) == 0) {
        wire_get_bytes(reader, v4, sizeof(v4));
        *out = io_ip_v4(v4[0], v4[1], v4[2], v4[3]);
        return WEFT_OK;
    }
    if (is_compact) {
        is_shortest = get_compact_v6(reader, before, out);
    } else {
        wire_get_bytes(reader, out->bytes, 16);
    }
    if (!reader->bad && (!is_shortest || io_ip_is_v4(out))) {
        return codec_bad_field(error, WEFT_PHASE_HANDLE, "address", i,
                               is_shortest ? "an IPv4 address in the long form"
                                           : "repeats a byte of the one before");
    }
    return WEFT_OK;
}

/* Reads endpoint i of n. An error about its address has i as its value. */
static weft_status get_endpoint(struct wire_reader *reader, uint32_t i, uint32_t n,
                                const struct handle_before *before, bool is_compact,
                                struct codec_endpoint *out, struct weft_error *error)
{
    uint8_t flags = wire_get_u8(reader);
    uint32_t known = ENDPOINT_V6 | ENDPOINT_MANAGEMENT |
                     (is_compact ? ENDPOINT_SAME_PREFIX | ENDPOINT_SAME_PORT : 0u);
    bool same_prefix = (flags & ENDPOINT_SAME_PREFIX) != 0;
    bool same_port = (flags & ENDPOINT_SAME_PORT) != 0;
    weft_status status;

    if ((flags & ~known) != 0) {
        return codec_bad_field(error, WEFT_PHASE_HANDLE, "endpoint_flags", flags,
                               "unknown flags");
    }
    out->is_management = (flags & ENDPOINT_MANAGEMENT) != 0;
    out->prefix.prefix_len = same_prefix ? before->prefix_len : wire_get_u8(reader);
    out->port = same_port ? before->port : wire_get_u16(reader);
    status = get_address(reader, flags, i, before, is_compact, &out->prefix.ip, error);
    if (status != WEFT_OK) {
        return status;
    }
    if (reader->bad) {
        return codec_bad_field(error, WEFT_PHASE_HANDLE, "n_endpoints", n,
                               "more endpoints than fit");
    }
    if (!is_unicast(out->prefix.ip.bytes)) {
        return codec_bad_field(error, WEFT_PHASE_HANDLE, "address", i,
                               "zero, loopback or multicast");
    }
    if (!prefix_fits(out->prefix.ip.bytes, out->prefix.prefix_len)) {
        return codec_bad_field(error, WEFT_PHASE_HANDLE, "prefix_len",
                               out->prefix.prefix_len, "longer than the address");
    }
    if (out->port == 0) {
        return codec_bad_field(error, WEFT_PHASE_HANDLE, "port", 0, "1 to 65535");
    }
    if (is_compact && ((!same_prefix && out->prefix.prefix_len == before->prefix_len) ||
                       (!same_port && out->port == before->port))) {
        return codec_bad_field(error, WEFT_PHASE_HANDLE, "endpoint_flags", flags,
                               "repeats a value of the one before");
    }
    return WEFT_OK;
}

/* Reads what precedes the endpoints. */
static weft_status get_handle_head(struct wire_reader *reader, struct codec_handle *out,
                                   struct weft_error *error)
{
    uint32_t magic = wire_get_u32(reader);
    uint32_t version = wire_get_u16(reader);
    uint32_t reserved = wire_get_u8(reader);

    out->is_compact = version == HANDLE_COMPACT;
    out->n_endpoints = wire_get_u8(reader);
    if (magic != HANDLE_MAGIC) {
        return codec_bad_field(error, WEFT_PHASE_HANDLE, "magic", magic,
                               "not a weft handle");
    }
    if (version != HANDLE_PLAIN && version != HANDLE_COMPACT) {
        return codec_other_version(error, WEFT_PHASE_HANDLE, version, CODEC_VERSION);
    }
    if (reserved != 0) {
        return codec_bad_field(error, WEFT_PHASE_HANDLE, "reserved", reserved,
                               "must be 0");
    }
    if (out->n_endpoints == 0 ||
        out->n_endpoints > (out->is_compact ? CODEC_ENDPOINTS_MAX : HANDLE_PLAIN_MAX)) {
        return codec_bad_field(error, WEFT_PHASE_HANDLE, "n_endpoints", out->n_endpoints,
                               out->is_compact ? "1 to 16" : "1 to 10");
    }
    wire_get_bytes(reader, out->host_id, sizeof(out->host_id));
    wire_get_bytes(reader, out->cookie, sizeof(out->cookie));
    out->epoch = wire_get_u32(reader);
    return WEFT_OK;
}

weft_status codec_decode_handle(const uint8_t bytes[CONN_HANDLE_BYTES],
                                struct codec_handle *out, struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(bytes, CONN_HANDLE_BYTES);
    struct handle_before before = {.prefix_len = 0};
    weft_status status;

    memset(out, 0, sizeof(*out));
    status = get_handle_head(&reader, out, error);
    if (status != WEFT_OK) {
        return status;
    }
    for (uint32_t i = 0; i < out->n_endpoints; i++) {
        status = get_endpoint(&reader, i, out->n_endpoints, &before, out->is_compact,
                              &out->endpoints[i], error);
        if (status != WEFT_OK) {
            return status;
        }
        note_endpoint(&before, &out->endpoints[i]);
    }
    while (wire_left(&reader) > 0) {
        uint8_t padding = wire_get_u8(&reader);

        if (padding != 0) {
            return codec_bad_field(error, WEFT_PHASE_HANDLE, "padding", padding,
                                   "must be 0");
        }
    }
    return WEFT_OK;
}

/* ---- FACTS ---- */

size_t codec_encode_facts(const struct codec_facts *facts, uint8_t *out)
{
    struct wire_writer writer = wire_writer_init(out, CODEC_BODY_MAX - CODEC_MAC_BYTES);
    const struct conn_peer *peer = &facts->peer;

    wire_put_u8(&writer, (uint8_t)facts->policy);
    codec_put_name(&writer, peer->host);
    wire_put_bytes(&writer, peer->host_id, sizeof(peer->host_id));
    wire_put_u8(&writer, peer->wants_answer ? 1 : 0);
    wire_put_bytes(&writer, peer->purpose, sizeof(peer->purpose));
    wire_put_u8(&writer, (uint8_t)peer->n_ports);
    for (uint32_t i = 0; i < peer->n_ports; i++) {
        const struct rdma_port_facts *port = &peer->ports[i];

        codec_put_name(&writer, port->name);
        wire_put_u8(&writer, (uint8_t)port->device);
        wire_put_u8(&writer, (uint8_t)((port->is_chosen   ? PORT_CHOSEN
                                        : port->is_active ? PORT_ACTIVE
                                                          : 0) |
                                       (port->may_stall ? PORT_MAY_STALL : 0)));
        wire_put_u16(&writer, (uint16_t)port->active_mtu);
        wire_put_u32(&writer, port->netdev_mtu);
        wire_put_u64(&writer, port->rate_bps);
        wire_put_u8(&writer, (uint8_t)port->n_gids);
        for (uint32_t g = 0; g < port->n_gids; g++) {
            wire_put_bytes(&writer, port->gids[g].gid.raw, 16);
            wire_put_u8(&writer, port->gids[g].type);
            wire_put_u8(&writer, port->gids[g].prefix_len);
            wire_put_u16(&writer, (uint16_t)port->gids[g].index);
        }
    }
    weft_check(!writer.bad);
    return wire_written(&writer, out);
}

static weft_status get_port_gids(struct wire_reader *reader, struct rdma_port_facts *out,
                                 struct weft_error *error)
{
    for (uint32_t g = 0; g < out->n_gids; g++) {
        wire_get_bytes(reader, out->gids[g].gid.raw, 16);
        out->gids[g].type = wire_get_u8(reader);
        out->gids[g].prefix_len = wire_get_u8(reader);
        out->gids[g].index = wire_get_u16(reader);
        if (reader->bad) {
            return WEFT_OK; /* codec_decode_facts reports the length */
        }
        if (!is_unicast(out->gids[g].gid.raw)) {
            return codec_bad_field(error, WEFT_PHASE_FACTS, "gid", g,
                                   "zero, loopback or multicast");
        }
        if (!is_gid_type(out->gids[g].type)) {
            return codec_bad_field(error, WEFT_PHASE_FACTS, "gid_type", out->gids[g].type,
                                   "neither RoCE v1 nor v2");
        }
        if (!prefix_fits(out->gids[g].gid.raw, out->gids[g].prefix_len)) {
            return codec_bad_field(error, WEFT_PHASE_FACTS, "prefix_len",
                                   out->gids[g].prefix_len, "longer than the address");
        }
    }
    return WEFT_OK;
}

static weft_status get_port(struct wire_reader *reader, struct rdma_port_facts *out,
                            struct weft_error *error)
{
    uint8_t state, active;

    if (!codec_get_name(reader, out->name, sizeof(out->name)) && !reader->bad) {
        return codec_bad_field(error, WEFT_PHASE_FACTS, "port_name", out->name[0],
                               "1 to 39 printable characters");
    }
    out->device = wire_get_u8(reader);
    state = wire_get_u8(reader);
    active = (uint8_t)(state & ~PORT_MAY_STALL);
    out->active_mtu = wire_get_u16(reader);
    out->netdev_mtu = wire_get_u32(reader);
    out->rate_bps = wire_get_u64(reader);
    out->n_gids = wire_get_u8(reader);
    if (reader->bad) {
        return WEFT_OK;
    }
    if (active > PORT_CHOSEN) {
        return codec_bad_field(error, WEFT_PHASE_FACTS, "is_active", active, "0 to 2");
    }
    out->is_active = active >= PORT_ACTIVE;
    out->is_chosen = active == PORT_CHOSEN;
    out->may_stall = state != active;
    if (!is_mtu(out->active_mtu)) {
        return codec_bad_field(error, WEFT_PHASE_FACTS, "active_mtu", out->active_mtu,
                               "not 256, 512, 1024, 2048 or 4096");
    }
    if (out->n_gids > RDMA_FACTS_GIDS_MAX) {
        return codec_bad_field(error, WEFT_PHASE_FACTS, "n_gids", out->n_gids,
                               "at most 8");
    }
    return get_port_gids(reader, out, error);
}

weft_status codec_decode_facts(const uint8_t *body, size_t n_bytes,
                               struct codec_facts *out, struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(body, n_bytes);
    struct conn_peer *peer = &out->peer;
    uint8_t policy = wire_get_u8(&reader);
    uint8_t wants_answer;
    weft_status status = WEFT_OK;

    memset(out, 0, sizeof(*out));
    if (policy >= WEFT_N_POLICIES) {
        return codec_bad_field(error, WEFT_PHASE_FACTS, "policy", policy,
                               "no such policy");
    }
    out->policy = (enum weft_policy)policy;
    if (!codec_get_name(&reader, peer->host, sizeof(peer->host)) && !reader.bad) {
        return codec_bad_field(error, WEFT_PHASE_FACTS, "host", peer->host[0],
                               "1 to 63 printable characters");
    }
    wire_get_bytes(&reader, peer->host_id, sizeof(peer->host_id));
    wants_answer = wire_get_u8(&reader);
    if (wants_answer > 1) {
        return codec_bad_field(error, WEFT_PHASE_FACTS, "wants_answer", wants_answer,
                               "0 or 1");
    }
    peer->wants_answer = wants_answer == 1;
    wire_get_bytes(&reader, peer->purpose, sizeof(peer->purpose));
    peer->n_ports = wire_get_u8(&reader);
    if (peer->n_ports > CODEC_PORTS_MAX) {
        return codec_bad_field(error, WEFT_PHASE_FACTS, "n_ports", peer->n_ports,
                               "at most 16");
    }
    for (uint32_t i = 0; i < peer->n_ports && status == WEFT_OK && !reader.bad; i++) {
        status = get_port(&reader, &peer->ports[i], error);
    }
    if (status != WEFT_OK) {
        return status;
    }
    if (reader.bad || wire_left(&reader) != 0) {
        return codec_bad_field(error, WEFT_PHASE_FACTS, "length", (int64_t)n_bytes,
                               reader.bad ? "too short for what it announces"
                                          : "longer than what it announces");
    }
    return WEFT_OK;
}

/* ---- META ---- */

size_t codec_encode_meta(const struct codec_meta *meta, uint8_t *out)
{
    struct wire_writer writer = wire_writer_init(out, CODEC_BODY_MAX - CODEC_MAC_BYTES);

    wire_put_u8(&writer, (uint8_t)meta->n_rails);
    wire_put_u8(&writer, (uint8_t)meta->n_qps);
    wire_put_u8(&writer, meta->max_rd_atomic);
    wire_put_u32(&writer, meta->max_msg_bytes);
    wire_put_u32(&writer, meta->window_bytes);
    wire_put_u16(&writer, meta->recv_posted);
    wire_put_bytes(&writer, meta->answer, sizeof(meta->answer));
    for (uint32_t i = 0; i < meta->n_rails; i++) {
        const struct codec_rail *rail = &meta->rails[i];

        wire_put_u8(&writer, rail->local_port);
        wire_put_u8(&writer, rail->remote_port);
        wire_put_bytes(&writer, rail->local_gid.raw, 16);
        wire_put_u8(&writer, rail->local_type);
        wire_put_bytes(&writer, rail->remote_gid.raw, 16);
        wire_put_u8(&writer, rail->remote_type);
        wire_put_u16(&writer, rail->path_mtu);
        wire_put_u64(&writer, rail->window_addr);
        wire_put_u32(&writer, rail->window_rkey);
        wire_put_u64(&writer, rail->probe_addr);
        wire_put_u32(&writer, rail->probe_rkey);
    }
    for (uint32_t i = 0; i < meta->n_qps; i++) {
        wire_put_u24(&writer, meta->qps[i].qpn);
        wire_put_u24(&writer, meta->qps[i].psn);
    }
    weft_check(!writer.bad);
    return wire_written(&writer, out);
}

/* Reads rail i. An error about one of its GIDs has i as its value. */
static weft_status get_rail(struct wire_reader *reader, uint32_t i,
                            struct codec_rail *out, struct weft_error *error)
{
    out->local_port = wire_get_u8(reader);
    out->remote_port = wire_get_u8(reader);
    wire_get_bytes(reader, out->local_gid.raw, 16);
    out->local_type = wire_get_u8(reader);
    wire_get_bytes(reader, out->remote_gid.raw, 16);
    out->remote_type = wire_get_u8(reader);
    out->path_mtu = wire_get_u16(reader);
    out->window_addr = wire_get_u64(reader);
    out->window_rkey = wire_get_u32(reader);
    out->probe_addr = wire_get_u64(reader);
    out->probe_rkey = wire_get_u32(reader);
    if (reader->bad) {
        return WEFT_OK;
    }
    if (out->local_port >= CODEC_PORTS_MAX) {
        return codec_bad_field(error, WEFT_PHASE_META, "local_port", out->local_port,
                               "0 to 15");
    }
    if (out->remote_port >= CODEC_PORTS_MAX) {
        return codec_bad_field(error, WEFT_PHASE_META, "remote_port", out->remote_port,
                               "0 to 15");
    }
    if (!is_unicast(out->local_gid.raw)) {
        return codec_bad_field(error, WEFT_PHASE_META, "local_gid", i,
                               "zero, loopback or multicast");
    }
    if (!is_unicast(out->remote_gid.raw)) {
        return codec_bad_field(error, WEFT_PHASE_META, "remote_gid", i,
                               "zero, loopback or multicast");
    }
    if (!is_gid_type(out->local_type)) {
        return codec_bad_field(error, WEFT_PHASE_META, "local_type", out->local_type,
                               "neither RoCE v1 nor v2");
    }
    if (!is_gid_type(out->remote_type)) {
        return codec_bad_field(error, WEFT_PHASE_META, "remote_type", out->remote_type,
                               "neither RoCE v1 nor v2");
    }
    if (!is_mtu(out->path_mtu)) {
        return codec_bad_field(error, WEFT_PHASE_META, "path_mtu", out->path_mtu,
                               "not 256, 512, 1024, 2048 or 4096");
    }
    return WEFT_OK;
}

static weft_status check_meta(const struct codec_meta *meta, struct weft_error *error)
{
    if (meta->n_rails == 0 || meta->n_rails > CONN_RAILS_MAX) {
        return codec_bad_field(error, WEFT_PHASE_META, "n_rails", meta->n_rails,
                               "1 to 4");
    }
    if (meta->n_qps == 0 || meta->n_qps > CONN_QPS_MAX ||
        meta->n_qps % meta->n_rails != 0) {
        return codec_bad_field(error, WEFT_PHASE_META, "n_qps", meta->n_qps,
                               "1 to 16, and a multiple of n_rails");
    }
    if (meta->max_rd_atomic == 0) {
        return codec_bad_field(error, WEFT_PHASE_META, "max_rd_atomic", 0, "at least 1");
    }
    if (meta->max_msg_bytes < 4096) {
        return codec_bad_field(error, WEFT_PHASE_META, "max_msg_bytes",
                               meta->max_msg_bytes, "at least 4096");
    }
    if (meta->recv_posted == 0) {
        return codec_bad_field(error, WEFT_PHASE_META, "recv_posted", 0, "at least 1");
    }
    return WEFT_OK;
}

weft_status codec_decode_meta(const uint8_t *body, size_t n_bytes, struct codec_meta *out,
                              struct weft_error *error)
{
    struct wire_reader reader = wire_reader_init(body, n_bytes);
    weft_status status;

    memset(out, 0, sizeof(*out));
    out->n_rails = wire_get_u8(&reader);
    out->n_qps = wire_get_u8(&reader);
    out->max_rd_atomic = wire_get_u8(&reader);
    out->max_msg_bytes = wire_get_u32(&reader);
    out->window_bytes = wire_get_u32(&reader);
    out->recv_posted = wire_get_u16(&reader);
    wire_get_bytes(&reader, out->answer, sizeof(out->answer));
    status = reader.bad ? WEFT_OK : check_meta(out, error);
    for (uint32_t i = 0; status == WEFT_OK && !reader.bad && i < out->n_rails; i++) {
        status = get_rail(&reader, i, &out->rails[i], error);
    }
    for (uint32_t i = 0; status == WEFT_OK && !reader.bad && i < out->n_qps; i++) {
        out->qps[i].qpn = wire_get_u24(&reader);
        out->qps[i].psn = wire_get_u24(&reader);
        /* 0 and 1 are the management QPs of every port, so no peer uses them. */
        if (!reader.bad && out->qps[i].qpn < 2) {
            status = codec_bad_field(error, WEFT_PHASE_META, "qpn", out->qps[i].qpn,
                                     "at least 2");
        }
    }
    if (status != WEFT_OK) {
        return status;
    }
    if (reader.bad || wire_left(&reader) != 0) {
        return codec_bad_field(error, WEFT_PHASE_META, "length", (int64_t)n_bytes,
                               reader.bad ? "too short for what it announces"
                                          : "longer than what it announces");
    }
    return WEFT_OK;
}
