/* Encodes and decodes the messages of a mesh without a rendezvous (docs/wire.md): announcements on
 * the link, and between neighbours greetings, link-state records and pieces of blobs. Pure
 * functions with bounded access, as conn/codec.h. */
#ifndef WEFT_BOOT_RECORD_H
#define WEFT_BOOT_RECORD_H

#include "conn/auth.h"
#include "conn/codec.h"

#define RECORD_ANNOUNCEMENT_BYTES 88u
#define RECORD_PORT_NONE 255u /* no RDMA port (within a host), or unknown */
#define RECORD_ENTRIES_MAX 256u
#define RECORD_PIECE_MAX (CODEC_BODY_MAX - CODEC_MAC_BYTES - 28u)

/* The process of a member. Of two on the same host the one that started later is valid. */
struct record_identity {
    uint8_t host_id[16];
    uint64_t started_ns; /* on the host's monotonic clock */
    uint64_t nonce;      /* random, not 0 */
};

/* A job's size, and a member of it. */
struct record_self {
    uint32_t member, n_ranks, n_members;
    struct record_identity identity;
};

/* An announcement of a process on one port. */
struct record_announcement {
    struct record_self self;
    uint8_t port;     /* the sender's port, in device order; or RECORD_PORT_NONE */
    uint16_t control; /* TCP port of its control listener */
};

/* The first sealed message on a stream between neighbours, in both directions. */
struct record_greeting {
    struct record_self self;
    /* Ports of the sender and of the receiver; or RECORD_PORT_NONE. */
    uint8_t port, peer_port;
};

#define RECORD_CARRIES 1u /* the control stream of the two members uses this link */

/* A neighbour on a port. */
struct record_entry {
    uint32_t member;
    uint8_t port, peer_port;
    uint16_t flags; /* RECORD_CARRIES or 0; one byte on the wire */
};

/* The links of a member, as it knows them. */
struct record_links {
    uint32_t member;
    struct record_identity identity;
    uint64_t sequence; /* from 1; a record replaces those with a lower one */
    uint32_t n_entries;
    struct record_entry entries[RECORD_ENTRIES_MAX];
};

/* A piece of a member's blob of one round. */
struct record_piece {
    uint32_t member;
    uint64_t nonce; /* nonce of its process */
    uint32_t round; /* from 1 */
    uint32_t each;  /* bytes of the blob */
    uint32_t offset, n_bytes;
    const uint8_t *bytes; /* Not owned: inside the body */
};

/* A keepalive, sent after a period without messages, and when a round is complete. */
struct record_alive {
    uint32_t round; /* last round of which the sender has every blob; 0 if none */
};

/* Derives the key of announcements from the job key. */
void record_announcement_key(const uint8_t job_key[32], uint8_t out[AUTH_KEY_BYTES]);
void record_encode_announcement(const struct record_announcement *announcement,
                                const uint8_t key[AUTH_KEY_BYTES],
                                uint8_t out[RECORD_ANNOUNCEMENT_BYTES]);
/* Decodes the fields, without authentication. WEFT_ERR_PROTOCOL if they are invalid. */
weft_status record_decode_announcement(const uint8_t *bytes, size_t n_bytes,
                                       struct record_announcement *out,
                                       struct weft_error *error) WEFT_MUST_CHECK;
/* Returns true if the announcement is sealed with `key`. */
bool record_announcement_is_ours(const uint8_t bytes[RECORD_ANNOUNCEMENT_BYTES],
                                 const uint8_t key[AUTH_KEY_BYTES]);

/* Write a body to `out`, which holds CODEC_BODY_MAX, and return its length. */
size_t record_encode_greeting(const struct record_greeting *greeting, uint8_t *out);
size_t record_encode_links(const struct record_links *links, uint8_t *out);
size_t record_encode_piece(const struct record_piece *piece, uint8_t *out);
size_t record_encode_alive(const struct record_alive *alive, uint8_t *out);

weft_status record_decode_greeting(const uint8_t *body, size_t n_bytes,
                                   struct record_greeting *out,
                                   struct weft_error *error) WEFT_MUST_CHECK;
weft_status record_decode_links(const uint8_t *body, size_t n_bytes, uint32_t n_members,
                                struct record_links *out,
                                struct weft_error *error) WEFT_MUST_CHECK;
weft_status record_decode_piece(const uint8_t *body, size_t n_bytes, uint32_t n_members,
                                struct record_piece *out,
                                struct weft_error *error) WEFT_MUST_CHECK;
weft_status record_decode_alive(const uint8_t *body, size_t n_bytes,
                                struct record_alive *out,
                                struct weft_error *error) WEFT_MUST_CHECK;

#endif
