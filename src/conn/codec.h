/* The messages of the handshake, byte by byte (docs/wire.md): pure and bounded. Decoders take
 * bytes from strangers and give a struct whose every field was checked, or WEFT_ERR_PROTOCOL
 * (WEFT_ERR_UNSUPPORTED for another version) with the values "field" and "value"; what decodes,
 * encodes to the same bytes. */
#ifndef WEFT_CONN_CODEC_H
#define WEFT_CONN_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/wire.h"
#include "conn/conn.h"

#define CODEC_MAGIC 0x57454654u /* "WEFT" */
#define CODEC_VERSION 2u
#define CODEC_HEADER_BYTES 12u
#define CODEC_BODY_MAX 4096u /* a sealed body's MAC included */
#define CODEC_FRAME_MAX (CODEC_HEADER_BYTES + CODEC_BODY_MAX)
#define CODEC_MAC_BYTES 32u
#define CODEC_NONCE_BYTES 16u
#define CODEC_COOKIE_BYTES 16u
#define CODEC_PORTS_MAX 16u     /* as conn_peer.ports */
#define CODEC_ENDPOINTS_MAX 10u /* what fits a handle: IPv4 takes 8 bytes, IPv6 20 */
#define CODEC_PHASE_BYTES 24u

enum codec_type {
    CODEC_HELLO = 1,
    CODEC_CHALLENGE = 2,
    CODEC_AUTH = 3,
    CODEC_FACTS = 4,
    CODEC_META = 5,
    CODEC_READY = 6,
    CODEC_PROBED = 7,
    CODEC_CLOSE = 8,
    CODEC_ABORT = 9,
    CODEC_BUSY = 10,
    /* boot/ */
    CODEC_JOIN = 16,
    CODEC_BLOB = 17,
    CODEC_BYE = 18,
    CODEC_GIVE_UP = 19,
    CODEC_MEMBER = 20,
    CODEC_LINKS = 21,
    CODEC_PIECE = 22,
    CODEC_ALIVE = 23,
    /* transport/ */
    CODEC_CALL = 32,
    CODEC_ANSWER = 33,
    CODEC_IPC = 34
};

/* "hello"; NULL for a type that the protocol does not have. */
const char *codec_type_name(uint32_t type);

struct codec_header {
    enum codec_type type;
    uint32_t n_bytes; /* of the body */
};

void codec_encode_header(const struct codec_header *header,
                         uint8_t out[CODEC_HEADER_BYTES]);
/* `bytes` may be incomplete (n_bytes <= CODEC_HEADER_BYTES): WEFT_AGAIN if what is there can
 * still become a header. A body longer than `body_max` is refused. */
weft_status codec_decode_header(const uint8_t *bytes, size_t n_bytes, uint32_t body_max,
                                struct codec_header *out,
                                struct weft_error *error) WEFT_MUST_CHECK;

/* ---- the handle ---- */

struct codec_endpoint {
    struct io_prefix prefix; /* the address, at its interface's prefix length */
    uint16_t port;           /* of TCP */
    bool is_management;
};

struct codec_handle {
    uint8_t host_id[16];
    uint8_t cookie[CODEC_COOKIE_BYTES];
    uint32_t epoch; /* of the listener */
    uint32_t n_endpoints;
    struct codec_endpoint endpoints[CODEC_ENDPOINTS_MAX];
};

/* False if the endpoints do not fit. */
bool codec_encode_handle(const struct codec_handle *handle,
                         uint8_t out[CONN_HANDLE_BYTES]);
weft_status codec_decode_handle(const uint8_t bytes[CONN_HANDLE_BYTES],
                                struct codec_handle *out,
                                struct weft_error *error) WEFT_MUST_CHECK;

/* ---- before the session has a key ---- */

struct codec_hello {
    uint8_t nonce[CODEC_NONCE_BYTES];
    uint64_t id;         /* of the connection */
    uint32_t attempt;    /* from 1; a higher one replaces a lower one of the same id */
    uint32_t epoch;      /* of the listener that is meant */
    uint8_t host_id[16]; /* the connector's */
};
#define CODEC_HELLO_BYTES 48u

struct codec_challenge {
    uint8_t nonce[CODEC_NONCE_BYTES];
    uint8_t proof[CODEC_MAC_BYTES];
};
#define CODEC_CHALLENGE_BYTES 48u

struct codec_auth {
    uint8_t proof[CODEC_MAC_BYTES];
};
#define CODEC_AUTH_BYTES 32u

/* ---- sealed ---- */

struct codec_facts {
    enum rdma_policy policy;
    struct conn_peer peer;
};

struct codec_rail {
    uint8_t local_port,
        remote_port; /* as the sender counts: its own facts, the other's */
    union ibv_gid local_gid, remote_gid;
    uint8_t local_type, remote_type; /* enum ibv_gid_type */
    uint16_t path_mtu;               /* bytes */
    uint64_t window_addr;
    uint32_t window_rkey;
    uint64_t probe_addr; /* n_qps slots of 4096 bytes */
    uint32_t probe_rkey;
};

struct codec_qp {
    uint32_t qpn, psn; /* 24 bits */
};

struct codec_meta {
    uint32_t n_rails; /* 1..CONN_RAILS_MAX */
    uint32_t n_qps;   /* a multiple of n_rails, at most CONN_QPS_MAX */
    uint8_t max_rd_atomic;
    uint32_t max_msg_bytes;
    uint32_t window_bytes;
    uint16_t recv_posted; /* per queue pair */
    uint8_t answer[CONN_PURPOSE_BYTES];
    struct codec_rail rails[CONN_RAILS_MAX];
    struct codec_qp qps[CONN_QPS_MAX];
};

/* Why an end gives up. */
struct codec_abort {
    char phase[CODEC_PHASE_BYTES]; /* of its error */
    weft_status status;            /* negative */
    uint32_t sys_errno;
    uint32_t wc_status;
};

/* Each returns the bytes of the body in `out`, which holds CODEC_BODY_MAX. The values are our
 * own and legal: checked, not reported. */
size_t codec_encode_hello(const struct codec_hello *hello, uint8_t *out);
size_t codec_encode_challenge(const struct codec_challenge *challenge, uint8_t *out);
size_t codec_encode_auth(const struct codec_auth *auth, uint8_t *out);
size_t codec_encode_facts(const struct codec_facts *facts, uint8_t *out);
size_t codec_encode_meta(const struct codec_meta *meta, uint8_t *out);
size_t codec_encode_abort(const struct codec_abort *abort, uint8_t *out);

weft_status codec_decode_hello(const uint8_t *body, size_t n_bytes,
                               struct codec_hello *out,
                               struct weft_error *error) WEFT_MUST_CHECK;
weft_status codec_decode_challenge(const uint8_t *body, size_t n_bytes,
                                   struct codec_challenge *out,
                                   struct weft_error *error) WEFT_MUST_CHECK;
weft_status codec_decode_auth(const uint8_t *body, size_t n_bytes, struct codec_auth *out,
                              struct weft_error *error) WEFT_MUST_CHECK;
weft_status codec_decode_facts(const uint8_t *body, size_t n_bytes,
                               struct codec_facts *out,
                               struct weft_error *error) WEFT_MUST_CHECK;
weft_status codec_decode_meta(const uint8_t *body, size_t n_bytes, struct codec_meta *out,
                              struct weft_error *error) WEFT_MUST_CHECK;
weft_status codec_decode_abort(const uint8_t *body, size_t n_bytes,
                               struct codec_abort *out,
                               struct weft_error *error) WEFT_MUST_CHECK;
/* READY, PROBED and CLOSE have no body. */
weft_status codec_decode_empty(enum codec_type type, size_t n_bytes,
                               struct weft_error *error) WEFT_MUST_CHECK;

/* ---- for the codecs of boot/ too ---- */

/* Fails with the values "field" and "value". */
weft_status codec_bad_field(struct weft_error *error, const char *message,
                            const char *field, int64_t value, const char *rule);
/* Fails for a format that the peer writes in another version than this program: UNSUPPORTED, with
 * both versions in the message, and the values "field" and "value". */
weft_status codec_other_version(struct weft_error *error, const char *message,
                                uint32_t version, uint32_t ours);
/* A length byte and that many printable, non-blank ASCII characters. */
void codec_put_name(struct wire_writer *writer, const char *name);
/* False unless 1 to out_bytes - 1 such characters follow. */
bool codec_get_name(struct wire_reader *reader, char *out, size_t out_bytes);

#endif
