/* Encodes and decodes the messages of the handshake (docs/wire.md). All functions are pure and
 * bounded. Decoders accept bytes from unauthenticated peers and check every field. They fail with
 * WEFT_ERR_PROTOCOL, or WEFT_ERR_UNSUPPORTED for another version, and the values "field" and
 * "value". A message that decodes is encoded to the same bytes again. */
#ifndef WEFT_CONN_CODEC_H
#define WEFT_CONN_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/wire.h"
#include "conn/conn.h"

#define CODEC_MAGIC 0x57454654u /* "WEFT" */
#define CODEC_VERSION 3u
#define CODEC_HEADER_BYTES 12u
#define CODEC_BODY_MAX 4096u /* includes the seal of a sealed frame */
#define CODEC_FRAME_MAX (CODEC_HEADER_BYTES + CODEC_BODY_MAX)
#define CODEC_MAC_BYTES 32u
#define CODEC_NONCE_BYTES 16u
#define CODEC_COOKIE_BYTES 16u
#define CODEC_PORTS_MAX 16u     /* length of conn_peer.ports */
#define CODEC_ENDPOINTS_MAX 16u /* in a handle, if they fit */
#define CODEC_PHASE_BYTES 24u
#define CODEC_REASON_BYTES 96u

/* Types of messages (docs/wire.md; docs/transports.md for those of transport/). */
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
    /* messages of boot/ */
    CODEC_JOIN = 16,
    CODEC_BLOB = 17,
    CODEC_BYE = 18,
    CODEC_GIVE_UP = 19,
    CODEC_MEMBER = 20,
    CODEC_LINKS = 21,
    CODEC_PIECE = 22,
    CODEC_ALIVE = 23,
    /* messages of transport/ */
    CODEC_CALL = 32,
    CODEC_ANSWER = 33,
    CODEC_IPC = 34
};

/* Returns the phase in which an error of a message is reported, or WEFT_PHASE_NONE if the protocol
 * has no such type. */
enum weft_phase codec_type_phase(uint32_t type);

/* Returns the name of a message ("hello"), or NULL if the protocol has no such type. */
const char *codec_type_name(uint32_t type);

struct codec_header {
    enum codec_type type;
    uint32_t n_bytes; /* of the body */
};

void codec_encode_header(const struct codec_header *header,
                         uint8_t out[CODEC_HEADER_BYTES]);
/* Decodes a header, of which the first n_bytes (at most CODEC_HEADER_BYTES) have arrived. Returns
 * WEFT_AGAIN if it is incomplete and valid so far. Fails if the body is longer than `body_max`. */
weft_status codec_decode_header(const uint8_t *bytes, size_t n_bytes, uint32_t body_max,
                                struct codec_header *out,
                                struct weft_error *error) WEFT_MUST_CHECK;

/* ---- the handle ---- */

struct codec_endpoint {
    struct io_prefix prefix; /* address, and prefix length on its interface */
    uint16_t port;           /* TCP port */
    bool is_management;      /* on the management network, not on a cable */
};

struct codec_handle {
    /* encoded so that an endpoint omits what it shares with the one before; otherwise an IPv4
     * endpoint occupies 8 bytes, an IPv6 one 20 */
    bool is_compact;
    uint8_t host_id[16];
    uint8_t cookie[CODEC_COOKIE_BYTES];
    uint32_t epoch; /* random number of the listener */
    uint32_t n_endpoints;
    struct codec_endpoint endpoints[CODEC_ENDPOINTS_MAX];
};

/* Returns the number of bytes that a handle occupies, which can be more than CONN_HANDLE_BYTES. */
size_t codec_handle_bytes(const struct codec_handle *handle);
/* Encodes a handle. Returns false if the endpoints do not fit. */
bool codec_encode_handle(const struct codec_handle *handle,
                         uint8_t out[CONN_HANDLE_BYTES]);
weft_status codec_decode_handle(const uint8_t bytes[CONN_HANDLE_BYTES],
                                struct codec_handle *out,
                                struct weft_error *error) WEFT_MUST_CHECK;

/* ---- before the session has a key ---- */

struct codec_hello {
    uint8_t nonce[CODEC_NONCE_BYTES]; /* half random, half voucher (conn/prove.h) */
    uint64_t id;                      /* random number of the connection */
    uint32_t attempt;    /* from 1; a higher one replaces a lower one of the same id */
    uint32_t epoch;      /* epoch in the listener's handle */
    uint8_t host_id[16]; /* host of the connector */
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
    enum weft_policy policy;
    struct conn_peer peer;
};

struct codec_rail {
    /* Indices into the FACTS of the sender of this META, and into those of its receiver. */
    uint8_t local_port, remote_port;
    union ibv_gid local_gid, remote_gid;
    uint8_t local_type, remote_type; /* enum ibv_gid_type */
    uint16_t path_mtu;               /* bytes */
    uint64_t window_addr;
    uint32_t window_rkey;
    uint64_t probe_addr; /* probe area: n_qps slots of 4096 bytes */
    uint32_t probe_rkey;
};

struct codec_qp {
    uint32_t qpn, psn; /* 24 bits each */
};

struct codec_meta {
    uint32_t n_rails;      /* 1..CONN_RAILS_MAX */
    uint32_t n_qps;        /* a multiple of n_rails, at most CONN_QPS_MAX */
    uint8_t max_rd_atomic; /* READs in flight per queue pair, at least 1 */
    uint32_t max_msg_bytes;
    uint32_t window_bytes;
    uint16_t recv_posted;               /* receives posted per queue pair */
    uint8_t answer[CONN_PURPOSE_BYTES]; /* answer of the acceptor's owner; zero if none */
    struct codec_rail rails[CONN_RAILS_MAX];
    struct codec_qp qps[CONN_QPS_MAX];
};

/* The error with which an end gave up. */
struct codec_abort {
    char phase[CODEC_PHASE_BYTES]; /* phase of the error, or a replacement (send_abort) */
    weft_status status;            /* negative */
    uint32_t sys_errno;
    uint32_t wc_status;
    char reason[CODEC_REASON_BYTES]; /* message of the error; empty if it is not sent */
};

/* Each encodes a body into `out` and returns its length. `out` must hold the CODEC_*_BYTES of the
 * message if it has a fixed length, otherwise CODEC_BODY_MAX. The values come from this process and
 * must be valid, so a body that does not fit is a failed check, not an error. */
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
/* Checks that the body of a message without one is empty (READY, PROBED, BUSY). */
weft_status codec_decode_empty(enum codec_type type, size_t n_bytes,
                               struct weft_error *error) WEFT_MUST_CHECK;

/* ---- shared with the codecs of boot/ ---- */

/* Fails with WEFT_ERR_PROTOCOL and the values "field" and "value". `message` becomes the phase. */
weft_status codec_bad_field(struct weft_error *error, enum weft_phase message,
                            const char *field, int64_t value, const char *rule);
/* Fails as codec_bad_field() does, with field "length", if a message of `n_bytes` bytes was shorter
 * or longer than its fields, which `reader` has read. */
weft_status codec_check_end(const struct wire_reader *reader, enum weft_phase message,
                            size_t n_bytes, struct weft_error *error);
/* Fails with WEFT_ERR_UNSUPPORTED because the peer uses another version of a format. The message
 * contains both versions; the values are "field" and "value". `message` becomes the phase. */
weft_status codec_other_version(struct weft_error *error, enum weft_phase message,
                                uint32_t version, uint32_t ours);
/* Writes a name: a length byte, followed by that number of printable, non-blank ASCII
 * characters. */
void codec_put_name(struct wire_writer *writer, const char *name);
/* Reads a name. Returns false unless it has 1 to out_bytes - 1 such characters. */
bool codec_get_name(struct wire_reader *reader, char *out, size_t out_bytes);

#endif
