/* Tests the codec of every message. A message that decodes must encode to the same bytes, and a
 * truncated or extended message and every invalid field must be rejected. The offsets are those of
 * docs/wire.md. */
#include "conn/codec.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"

static void put_gid(union ibv_gid *out, uint8_t c, uint8_t d)
{
    struct io_ip ip = io_ip_v4(192, 168, c, d);

    memcpy(out->raw, ip.bytes, sizeof(out->raw));
}

static struct codec_facts some_facts(void)
{
    struct codec_facts facts = {.policy = WEFT_POLICY_WEFT};
    struct conn_peer *peer = &facts.peer;

    memcpy(peer->host, "titanic", sizeof("titanic"));
    memset(peer->host_id, 0x11, sizeof(peer->host_id));
    peer->n_ports = 2;
    for (uint32_t i = 0; i < peer->n_ports; i++) {
        struct rdma_port_facts *port = &peer->ports[i];

        weft_format(port->name, sizeof(port->name), "p%u", i);
        port->device = i;
        port->is_active = true;
        port->is_chosen = i == 1;
        port->may_stall = i == 0;
        port->active_mtu = 4096;
        port->netdev_mtu = 9000;
        port->rate_bps = 100000000000;
        port->n_gids = 1;
        put_gid(&port->gids[0].gid, (uint8_t)(101 + i), 1);
        port->gids[0].type = IBV_GID_TYPE_ROCE_V2;
        port->gids[0].prefix_len = 24;
        port->gids[0].index = 3;
    }
    return facts;
}

static struct codec_meta some_meta(void)
{
    struct codec_meta meta = {.n_rails = 2,
                              .n_qps = 4,
                              .max_rd_atomic = 16,
                              .max_msg_bytes = 1u << 30,
                              .window_bytes = 16448,
                              .recv_posted = 256};

    for (uint32_t i = 0; i < meta.n_rails; i++) {
        meta.rails[i] = (struct codec_rail){
            .local_port = (uint8_t)i,
            .remote_port = (uint8_t)(1 - i),
            .local_type = IBV_GID_TYPE_ROCE_V2,
            .remote_type = IBV_GID_TYPE_ROCE_V2,
            .path_mtu = 4096,
            .window_addr = 0x7f0000001000,
            .window_rkey = 0x1234,
            .probe_addr = 0x7f0000009000,
            .probe_rkey = 0x5678,
        };
        put_gid(&meta.rails[i].local_gid, (uint8_t)(101 + i), 1);
        put_gid(&meta.rails[i].remote_gid, (uint8_t)(101 + i), 2);
    }
    for (uint32_t i = 0; i < meta.n_qps; i++) {
        meta.qps[i] = (struct codec_qp){.qpn = 0xfffffe - i, .psn = i};
    }
    return meta;
}

static struct codec_handle some_handle(void)
{
    struct codec_handle handle = {.epoch = 7, .n_endpoints = 2};

    memset(handle.host_id, 0x22, sizeof(handle.host_id));
    memset(handle.cookie, 0x33, sizeof(handle.cookie));
    handle.endpoints[0] =
        (struct codec_endpoint){.prefix = {.ip = io_ip_v4(10, 0, 0, 2), .prefix_len = 24},
                                .port = 40000,
                                .is_management = true};
    ck_assert(io_ip_parse("fd00::2", &handle.endpoints[1].prefix.ip));
    handle.endpoints[1].prefix.prefix_len = 64;
    handle.endpoints[1].port = 40001;
    return handle;
}

/* Returns a compact handle: some_handle(), and an endpoint one byte away from its last. */
static struct codec_handle compact_handle(void)
{
    struct codec_handle handle = some_handle();

    handle.is_compact = true;
    handle.n_endpoints = 3;
    handle.endpoints[2] = handle.endpoints[1];
    ck_assert(io_ip_parse("fd00:0:0:1::2", &handle.endpoints[2].prefix.ip));
    return handle;
}

/* ---- one function for all messages ---- */

enum subject { HELLO, CHALLENGE, AUTH, FACTS, META, ABORT, HANDLE, COMPACT, N_SUBJECTS };

/* Decodes `in` as a `subject`. On success encodes the result again, to `out`. */
static weft_status recode(enum subject subject, const uint8_t *in, size_t n_in,
                          uint8_t *out, size_t *out_n, struct weft_error *error)
{
    union {
        struct codec_hello hello;
        struct codec_challenge challenge;
        struct codec_auth auth;
        struct codec_facts facts;
        struct codec_meta meta;
        struct codec_abort abort;
        struct codec_handle handle;
    } m;
    weft_status status = WEFT_ERR_INPUT;
    bool ok = true;

    switch (subject) {
    case HELLO:
        status = codec_decode_hello(in, n_in, &m.hello, error);
        *out_n = status == WEFT_OK ? codec_encode_hello(&m.hello, out) : 0;
        break;
    case CHALLENGE:
        status = codec_decode_challenge(in, n_in, &m.challenge, error);
        *out_n = status == WEFT_OK ? codec_encode_challenge(&m.challenge, out) : 0;
        break;
    case AUTH:
        status = codec_decode_auth(in, n_in, &m.auth, error);
        *out_n = status == WEFT_OK ? codec_encode_auth(&m.auth, out) : 0;
        break;
    case FACTS:
        status = codec_decode_facts(in, n_in, &m.facts, error);
        *out_n = status == WEFT_OK ? codec_encode_facts(&m.facts, out) : 0;
        break;
    case META:
        status = codec_decode_meta(in, n_in, &m.meta, error);
        *out_n = status == WEFT_OK ? codec_encode_meta(&m.meta, out) : 0;
        break;
    case ABORT:
        status = codec_decode_abort(in, n_in, &m.abort, error);
        *out_n = status == WEFT_OK ? codec_encode_abort(&m.abort, out) : 0;
        break;
    case HANDLE:
    case COMPACT:
        ck_assert_uint_eq(n_in, CONN_HANDLE_BYTES);
        status = codec_decode_handle(in, &m.handle, error);
        *out_n = CONN_HANDLE_BYTES;
        ok = status != WEFT_OK || codec_encode_handle(&m.handle, out);
        break;
    case N_SUBJECTS:
        break;
    }
    ck_assert(ok);
    return status;
}

static size_t example(enum subject subject, uint8_t *out)
{
    struct codec_hello hello = {.id = 0x0102030405060708, .attempt = 1, .epoch = 9};
    struct codec_challenge challenge = {.nonce = {1}, .proof = {2}};
    struct codec_auth auth = {.proof = {3}};
    struct codec_facts facts = some_facts();
    struct codec_meta meta = some_meta();
    struct codec_abort abort = {.phase = "rtr",
                                .status = WEFT_ERR_SYSTEM,
                                .sys_errno = 110,
                                .reason = "no answer"};
    struct codec_handle handle = subject == COMPACT ? compact_handle() : some_handle();

    switch (subject) {
    case HELLO:
        return codec_encode_hello(&hello, out);
    case CHALLENGE:
        return codec_encode_challenge(&challenge, out);
    case AUTH:
        return codec_encode_auth(&auth, out);
    case FACTS:
        return codec_encode_facts(&facts, out);
    case META:
        return codec_encode_meta(&meta, out);
    case ABORT:
        return codec_encode_abort(&abort, out);
    case HANDLE:
    case COMPACT:
        ck_assert(codec_encode_handle(&handle, out));
        return CONN_HANDLE_BYTES;
    case N_SUBJECTS:
        break;
    }
    return 0;
}

START_TEST(what_decodes_encodes_to_the_same_bytes)
{
    static const size_t expected[N_SUBJECTS] = {48, 48, 32, 171, 225, 23, 128, 128};
    uint8_t in[CODEC_BODY_MAX], out[CODEC_BODY_MAX];
    struct weft_error error = {0};
    size_t n, n_out = 0;

    n = example((enum subject)_i, in);
    ck_assert_uint_eq(n, expected[_i]);
    ck_assert_int_eq(recode((enum subject)_i, in, n, out, &n_out, &error), WEFT_OK);
    ck_assert_uint_eq(n_out, n);
    ck_assert_mem_eq(in, out, n);
}
END_TEST

START_TEST(a_message_cut_at_any_byte_or_with_one_more_is_refused)
{
    uint8_t in[CODEC_BODY_MAX], out[CODEC_BODY_MAX];
    size_t n = example((enum subject)_i, in), n_out;

    if (_i == HANDLE || _i == COMPACT) {
        return; /* a handle has a fixed size */
    }
    for (size_t cut = 0; cut <= n + 1; cut++) {
        struct weft_error error = {0};

        if (cut == n || (_i == ABORT && cut == 13)) { /* an ABORT without a reason */
            continue;
        }
        in[n] = 0;
        ck_assert_int_eq(recode((enum subject)_i, in, cut, out, &n_out, &error),
                         WEFT_ERR_PROTOCOL);
        ck_assert_ptr_nonnull(weft_error_value(&error, WEFT_VALUE_FIELD));
    }
}
END_TEST

static weft_status refusal_of(const char *field)
{
    return strcmp(field, "version") == 0 ? WEFT_ERR_UNSUPPORTED : WEFT_ERR_PROTOCOL;
}

START_TEST(any_changed_byte_is_refused_or_means_something_else)
{
    uint8_t in[CODEC_BODY_MAX], out[CODEC_BODY_MAX];
    size_t n = example((enum subject)_i, in), n_out = 0;

    for (size_t at = 0; at < n; at++) {
        uint8_t was = in[at];

        for (unsigned value = 0; value < 256; value++) {
            struct weft_error error = {0};
            weft_status status;

            in[at] = (uint8_t)value;
            status = recode((enum subject)_i, in, n, out, &n_out, &error);
            if (status != WEFT_OK) {
                ck_assert_int_eq(
                    status, refusal_of(weft_error_value(&error, WEFT_VALUE_FIELD)->text));
                continue;
            }
            if (n_out != n || memcmp(in, out, n) != 0) {
                ck_abort_msg("byte %zu = %u decodes but encodes to something else", at,
                             value);
            }
        }
        in[at] = was;
    }
}
END_TEST

/* A field with a value that no peer may send. */
struct bad {
    enum subject subject;
    size_t at, n_bytes;
    uint64_t value;
    const char *field;
};

static const struct bad bad_fields[] = {
    {HELLO, 24, 4, 0, "attempt"},
    {FACTS, 0, 1, WEFT_N_POLICIES, "policy"},
    {FACTS, 0, 1, 255, "policy"},
    {FACTS, 1, 1, 0, "host"},
    {FACTS, 1, 1, 64, "host"},
    {FACTS, 2, 1, ' ', "host"},
    {FACTS, 2, 1, 0x7f, "host"},
    {FACTS, 2, 1, 0, "host"},
    {FACTS, 25, 1, 2, "wants_answer"},
    {FACTS, 90, 1, 17, "n_ports"},
    {FACTS, 90, 1, 255, "n_ports"},
    {FACTS, 90, 1, 3, "length"},
    {FACTS, 90, 1, 1, "length"},
    {FACTS, 91, 1, 0, "port_name"},
    {FACTS, 91, 1, 40, "port_name"},
    {FACTS, 92, 1, '\n', "port_name"},
    {FACTS, 95, 1, 3, "is_active"},
    {FACTS, 95, 1, 7, "is_active"},
    {FACTS, 95, 1, 9, "is_active"},
    {FACTS, 96, 2, 0, "active_mtu"},
    {FACTS, 96, 2, 1500, "active_mtu"},
    {FACTS, 96, 2, 8192, "active_mtu"},
    {FACTS, 110, 1, 9, "n_gids"},
    {FACTS, 110, 1, 255, "n_gids"},
    {FACTS, 123, 4, 0, "gid"},          /* 0.0.0.0 */
    {FACTS, 123, 4, 0x7f000001, "gid"}, /* 127.0.0.1 */
    {FACTS, 123, 4, 0xe0000001, "gid"}, /* 224.0.0.1 */
    {FACTS, 111, 1, 0xff, "gid"},       /* ff00::/8 */
    {FACTS, 127, 1, IBV_GID_TYPE_IB, "gid_type"},
    {FACTS, 127, 1, 9, "gid_type"},
    {FACTS, 128, 1, 33, "prefix_len"},
    {META, 0, 1, 0, "n_rails"},
    {META, 0, 1, 5, "n_rails"},
    {META, 1, 1, 0, "n_qps"},
    {META, 1, 1, 17, "n_qps"},
    {META, 1, 1, 3, "n_qps"},
    {META, 1, 1, 6, "length"},
    {META, 2, 1, 0, "max_rd_atomic"},
    {META, 3, 4, 4095, "max_msg_bytes"},
    {META, 11, 2, 0, "recv_posted"},
    {META, 77, 1, 16, "local_port"},
    {META, 78, 1, 255, "remote_port"},
    {META, 91, 4, 0, "local_gid"},
    {META, 79, 1, 0xff, "local_gid"},
    {META, 95, 1, IBV_GID_TYPE_IB, "local_type"},
    {META, 108, 4, 0xefffffff, "remote_gid"},
    {META, 112, 1, 3, "remote_type"},
    {META, 113, 2, 0, "path_mtu"},
    {META, 113, 2, 6, "path_mtu"},
    {META, 113, 2, 4095, "path_mtu"},
    {META, 201, 3, 0, "qpn"},
    {META, 201, 3, 1, "qpn"},
    {ABORT, 0, 1, 0, "phase"},
    {ABORT, 0, 1, 24, "phase"},
    {ABORT, 1, 1, ' ', "phase"},
    {ABORT, 4, 1, 0, "status"},
    {ABORT, 4, 1, 14, "status"},
    {ABORT, 4, 1, 255, "status"},
    {ABORT, 13, 1, 0, "reason"},
    {ABORT, 13, 1, 96, "reason"},
    {ABORT, 14, 1, '\n', "reason"},
    {ABORT, 22, 1, 0x7f, "reason"},
    {HANDLE, 0, 4, 0x57454654, "magic"},
    {HANDLE, 4, 2, 1, "version"},
    {HANDLE, 6, 1, 1, "reserved"},
    {HANDLE, 7, 1, 0, "n_endpoints"},
    {HANDLE, 7, 1, 11, "n_endpoints"},
    {HANDLE, 7, 1, 1, "padding"},
    {HANDLE, 44, 1, 4, "endpoint_flags"},
    {HANDLE, 45, 1, 33, "prefix_len"},
    {HANDLE, 46, 2, 0, "port"},
    {HANDLE, 48, 4, 0, "address"},
    {HANDLE, 48, 4, 0x7f000001, "address"},
    {HANDLE, 48, 4, 0xe0000001, "address"},
    {HANDLE, 53, 1, 129, "prefix_len"},
    {HANDLE, 56, 1, 0xff, "address"},
    {HANDLE, 127, 1, 1, "padding"},
    /* The endpoints are at 44 (8 bytes), 52 (flags, prefix, port, mask, 2 bytes) and 60 (flags,
     * mask, 1 byte). */
    {COMPACT, 4, 2, 5, "version"},
    {COMPACT, 7, 1, 0, "n_endpoints"},
    {COMPACT, 7, 1, 17, "n_endpoints"},
    {COMPACT, 44, 1, 0x10, "endpoint_flags"},
    {COMPACT, 44, 1, 0x08, "port"},
    {COMPACT, 53, 1, 24, "endpoint_flags"},
    {COMPACT, 54, 2, 40000, "endpoint_flags"},
    {COMPACT, 58, 1, 0, "address"},
    {COMPACT, 58, 1, 0xff, "address"},
    {COMPACT, 63, 1, 0, "address"},
    {COMPACT, 64, 1, 1, "padding"},
};

START_TEST(each_bad_value_is_refused_by_its_fields_name)
{
    const struct bad *bad = &bad_fields[_i];
    uint8_t in[CODEC_BODY_MAX], out[CODEC_BODY_MAX];
    size_t n = example(bad->subject, in), n_out;
    struct weft_error error = {0};
    const struct weft_value *field;

    for (size_t i = 0; i < bad->n_bytes; i++) {
        in[bad->at + i] = (uint8_t)(bad->value >> (8 * (bad->n_bytes - 1 - i)));
    }
    ck_assert_int_eq(recode(bad->subject, in, n, out, &n_out, &error),
                     refusal_of(bad->field));
    field = weft_error_value(&error, WEFT_VALUE_FIELD);
    ck_assert_ptr_nonnull(field);
    ck_assert_str_eq(field->text, bad->field);
    ck_assert_ptr_nonnull(weft_error_value(&error, WEFT_VALUE_VALUE));
}
END_TEST

/* An error about an address gives its number, and one about a count gives the count. */
START_TEST(bad_addresses_and_counts_are_reported_by_number)
{
    static const struct {
        struct bad bad;
        int64_t told;
    } rows[] = {
        {{HANDLE, 48, 4, 0x7f000001, "address"}, 0},
        {{HANDLE, 56, 1, 0xff, "address"}, 1},
        {{HANDLE, 7, 1, 10, "n_endpoints"}, 10},
        {{META, 91, 4, 0, "local_gid"}, 0},
        {{META, 141, 1, 0xff, "local_gid"}, 1},
        {{META, 158, 1, 0xff, "remote_gid"}, 1},
    };
    const struct bad *bad = &rows[_i].bad;
    uint8_t in[CODEC_BODY_MAX], out[CODEC_BODY_MAX];
    struct weft_error error = {0};
    size_t n = example(bad->subject, in), n_out;

    if (strcmp(bad->field, "n_endpoints") == 0) {
        /* Ten endpoints of 8 bytes fit, but not if five of them are as long as the second. */
        for (size_t at = 72; at < n; at++) {
            in[at] = in[at - 20];
        }
    }
    for (size_t i = 0; i < bad->n_bytes; i++) {
        in[bad->at + i] = (uint8_t)(bad->value >> (8 * (bad->n_bytes - 1 - i)));
    }
    ck_assert_int_eq(recode(bad->subject, in, n, out, &n_out, &error), WEFT_ERR_PROTOCOL);
    ck_assert_str_eq(weft_error_value(&error, WEFT_VALUE_FIELD)->text, bad->field);
    ck_assert_int_eq(weft_error_value(&error, WEFT_VALUE_VALUE)->number, rows[_i].told);
}
END_TEST

START_TEST(handles_refuse_the_rest_of_the_addresses)
{
    uint8_t bytes[CONN_HANDLE_BYTES];
    struct codec_handle handle = some_handle(), decoded;
    struct weft_error error = {0};

    /* ::1 */
    ck_assert(io_ip_parse("::1", &handle.endpoints[1].prefix.ip));
    ck_assert(codec_encode_handle(&handle, bytes));
    ck_assert_int_eq(codec_decode_handle(bytes, &decoded, &error), WEFT_ERR_PROTOCOL);
    ck_assert_str_eq(weft_error_value(&error, WEFT_VALUE_FIELD)->text, "address");

    /* IPv4 in the long form, which would give the same handle a second encoding. */
    weft_error_clear(&error);
    handle = some_handle();
    ck_assert(codec_encode_handle(&handle, bytes));
    memset(bytes + 56, 0, 10);
    memset(bytes + 66, 0xff, 2);
    ck_assert_int_eq(codec_decode_handle(bytes, &decoded, &error), WEFT_ERR_PROTOCOL);
    ck_assert_str_eq(weft_error_value(&error, WEFT_VALUE_FIELD)->text, "address");

    /* Ten IPv4 endpoints fit into a handle. Five IPv6 endpoints do not. */
    handle.n_endpoints = 10;
    for (uint32_t i = 0; i < 10; i++) {
        handle.endpoints[i] = handle.endpoints[0];
    }
    ck_assert(codec_encode_handle(&handle, bytes));
    handle.n_endpoints = 5;
    for (uint32_t i = 0; i < 5; i++) {
        ck_assert(io_ip_parse("fd00::2", &handle.endpoints[i].prefix.ip));
    }
    ck_assert(!codec_encode_handle(&handle, bytes));

    /* The compact form holds five, and sixteen that differ in one byte. */
    handle.is_compact = true;
    ck_assert(codec_encode_handle(&handle, bytes));
    handle.n_endpoints = CODEC_ENDPOINTS_MAX;
    for (uint32_t i = 0; i < CODEC_ENDPOINTS_MAX; i++) {
        handle.endpoints[i] = handle.endpoints[0];
        handle.endpoints[i].prefix.ip.bytes[7] = (uint8_t)i;
    }
    ck_assert(codec_encode_handle(&handle, bytes));
    ck_assert_int_eq(codec_decode_handle(bytes, &decoded, &error), WEFT_OK);
    ck_assert_mem_eq(&decoded, &handle, sizeof(handle));
    handle.is_compact = false;

    /* The count is five, but there is room for only four IPv6 endpoints. */
    weft_error_clear(&error);
    handle.n_endpoints = 4;
    ck_assert(codec_encode_handle(&handle, bytes));
    bytes[7] = 5;
    ck_assert_int_eq(codec_decode_handle(bytes, &decoded, &error), WEFT_ERR_PROTOCOL);
}
END_TEST

START_TEST(headers_are_judged_byte_by_byte)
{
    static const uint8_t http[] = "GET /metrics HTTP/1.1\r\n";
    uint8_t bytes[CODEC_HEADER_BYTES];
    struct codec_header header = {.type = CODEC_META, .n_bytes = 4096}, out;
    struct weft_error error = {0};
    static const struct {
        size_t at;
        uint8_t value;
        const char *field;
    } bad[] = {
        {0, 'w', "magic"}, {1, 'W', "magic"},   {2, 0, "magic"},     {3, 't', "magic"},
        {5, 1, "version"}, {4, 1, "version"},   {7, 0, "type"},      {7, 11, "type"},
        {6, 1, "type"},    {8, 0x80, "length"}, {8, 0xff, "length"}, {11, 1, "length"},
    };

    ck_assert_int_eq(codec_decode_header(http, 1, 4096, &out, &error), WEFT_ERR_PROTOCOL);
    codec_encode_header(&header, bytes);
    for (size_t n = 0; n < CODEC_HEADER_BYTES; n++) {
        ck_assert_int_eq(codec_decode_header(bytes, n, 4096, &out, NULL), WEFT_AGAIN);
    }
    ck_assert_int_eq(codec_decode_header(bytes, 12, 4096, &out, NULL), WEFT_OK);
    ck_assert_int_eq(out.type, CODEC_META);
    ck_assert_uint_eq(out.n_bytes, 4096);
    ck_assert_int_eq(codec_decode_header(bytes, 12, 52, &out, NULL), WEFT_ERR_PROTOCOL);
    for (size_t i = 0; i < WEFT_LENGTH(bad); i++) {
        weft_error_clear(&error);
        codec_encode_header(&header, bytes);
        bytes[bad[i].at] = bad[i].value;
        ck_assert_int_eq(codec_decode_header(bytes, 12, 4096, &out, &error),
                         refusal_of(bad[i].field));
        ck_assert_str_eq(weft_error_value(&error, WEFT_VALUE_FIELD)->text, bad[i].field);
    }
}
END_TEST

START_TEST(every_type_has_a_name_and_no_other)
{
    for (uint32_t type = 0; type < 300; type++) {
        bool known = (type >= 1 && type <= 10) || (type >= 16 && type <= 23) ||
                     type == 32 || type == 33 || type == 34;

        ck_assert_int_eq(codec_type_name(type) != NULL, known);
    }
    ck_assert_int_eq(codec_decode_empty(CODEC_READY, 0, NULL), WEFT_OK);
    ck_assert_int_eq(codec_decode_empty(CODEC_READY, 1, NULL), WEFT_ERR_PROTOCOL);
}
END_TEST

START_TEST(the_largest_facts_fit_a_frame)
{
    struct codec_facts facts = some_facts(), out;
    uint8_t body[CODEC_BODY_MAX];
    size_t n;

    memset(facts.peer.host, 'h', 63);
    facts.peer.host[63] = '\0';
    facts.peer.n_ports = CODEC_PORTS_MAX;
    for (uint32_t i = 0; i < CODEC_PORTS_MAX; i++) {
        facts.peer.ports[i] = facts.peer.ports[0];
        memset(facts.peer.ports[i].name, 'p', 39);
        facts.peer.ports[i].n_gids = RDMA_FACTS_GIDS_MAX;
        for (uint32_t g = 0; g < RDMA_FACTS_GIDS_MAX; g++) {
            facts.peer.ports[i].gids[g] = facts.peer.ports[0].gids[0];
        }
    }
    n = codec_encode_facts(&facts, body);
    ck_assert_uint_le(n, CODEC_BODY_MAX - CODEC_MAC_BYTES);
    ck_assert_int_eq(codec_decode_facts(body, n, &out, NULL), WEFT_OK);
    ck_assert_str_eq(out.peer.ports[15].name, facts.peer.ports[15].name);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("codec");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, what_decodes_encodes_to_the_same_bytes, 0, N_SUBJECTS);
    tcase_add_loop_test(tcase, a_message_cut_at_any_byte_or_with_one_more_is_refused, 0,
                        N_SUBJECTS);
    tcase_add_loop_test(tcase, any_changed_byte_is_refused_or_means_something_else, 0,
                        N_SUBJECTS);
    tcase_add_loop_test(tcase, each_bad_value_is_refused_by_its_fields_name, 0,
                        (int)WEFT_LENGTH(bad_fields));
    tcase_add_loop_test(tcase, bad_addresses_and_counts_are_reported_by_number, 0, 6);
    tcase_add_test(tcase, handles_refuse_the_rest_of_the_addresses);
    tcase_add_test(tcase, headers_are_judged_byte_by_byte);
    tcase_add_test(tcase, every_type_has_a_name_and_no_other);
    tcase_add_test(tcase, the_largest_facts_fit_a_frame);
    return suite_run(suite);
}
