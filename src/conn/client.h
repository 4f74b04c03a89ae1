/* One client of a listener, from its TCP stream until it becomes a connection or is refused. */
#ifndef WEFT_CONN_CLIENT_H
#define WEFT_CONN_CLIENT_H

#include "conn/codec.h"
#include "conn/frame.h"
#include "io/oob.h"

/* Maximum number of received bytes that an unauthenticated client can make this process hold. */
#define CLIENT_RX_BYTES 64u
#define CLIENT_TX_BYTES 192u
/* How long to accept no connection after accept() failed, for example because this process has no
 * more descriptors. Waiting connections raise no new event. */
#define CLIENT_PAUSE_NS 100000000

enum client_state {
    CLIENT_NONE,  /* unused slot */
    CLIENT_HELLO, /* waits for HELLO */
    CLIENT_AUTH,  /* waits for AUTH; CHALLENGE is queued or sent */
    CLIENT_FACTS, /* authenticated; waits for FACTS */
    CLIENT_DONE   /* FACTS received; waits for the listener to make a connection of it */
};

/* Buffers and facts of a client that has proved that it knows the key. */
struct client_member {
    uint8_t rx[CODEC_FRAME_MAX];
    uint8_t tx[CLIENT_TX_BYTES];
    struct codec_facts facts; /* valid when DONE */
};

/* Identity of a listener, and the key that it proves to know. */
struct client_identity {
    uint8_t host_id[16];
    uint32_t epoch;
    uint8_t key[AUTH_KEY_BYTES];
};

struct client {
    enum client_state state;
    struct frame_link link;
    uint8_t rx[CLIENT_RX_BYTES];
    uint8_t tx[CLIENT_TX_BYTES];
    struct client_member *member; /* from FACTS on, NULL before; Owned */
    weft_ns deadline_ns;          /* for all steps together, absolute */
    struct io_endpoint source;
    struct codec_hello hello;
    /* The voucher of its HELLO was made with the listener's key; HELLO can be a replayed one. */
    bool is_vouched;
    uint8_t proof[AUTH_MAC_BYTES]; /* proof that AUTH must contain */
    uint8_t session[AUTH_KEY_BYTES];
};

/* Accepts the next connection. `*n` counts the calls of accept(), from 0; after a number of them
 * `task` is woken instead, so that other tasks run before the rest. Returns 0; EAGAIN if no
 * connection is to be accepted now; or another errno, after which CLIENT_PAUSE_NS must pass. */
int client_accept(struct io_env *env, struct io_listener *listener, struct io_task *task,
                  uint32_t *n, struct io_stream **out);
/* Returns a slot for a new client from `source`: a free one, or that of a client which the caller
 * must then refuse. Returns NULL if every slot has an authenticated client.
 *
 * A client whose HELLO has a valid voucher is refused only if no others are left. The refused
 * client belongs to the source with the most clients, or to the new client's own source if that
 * has as many. A source can therefore not take a slot from one that has fewer clients. Among the
 * clients of that source, one that has not sent HELLO is refused first. Among equals the choice is
 * random, so that no rate of new clients can keep out a client that needs more time. */
struct client *client_place(struct client *clients, uint32_t n_clients,
                            struct io_env *env, const struct client_identity *identity,
                            const struct io_ip *source);
/* Starts a client on a free slot. Takes over `stream`. */
void client_start(struct client *client, struct io_env *env, struct io_stream *stream,
                  weft_ns deadline_ns);
/* Returns the first of `clients` in that state, or NULL. */
struct client *client_find(struct client *clients, uint32_t n_clients,
                           enum client_state state);
/* Handles the next message. Returns WEFT_OK if one was handled: call it again, unless the state is
 * DONE; the caller then takes over link and facts. Returns WEFT_AGAIN until a message is complete.
 * After an error the caller must refuse the client. */
weft_status client_step(struct client *client, const struct client_identity *identity,
                        struct weft_error *error) WEFT_MUST_CHECK;
/* Sends `error` as an ABORT if the client speaks the protocol, closes the stream and frees the
 * slot. */
void client_refuse(struct client *client, const struct weft_error *error);
/* Closes the stream and frees the slot. */
void client_fini(struct client *client, bool reset);

#endif
