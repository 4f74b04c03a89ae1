/* One client of a listener, until it is a connection or gone. */
#ifndef WEFT_CONN_CLIENT_H
#define WEFT_CONN_CLIENT_H

#include "conn/codec.h"
#include "conn/frame.h"

#define CLIENT_RX_BYTES 64u /* all that an unauthenticated client may make us hold */
#define CLIENT_TX_BYTES 192u

enum client_state { CLIENT_NONE, CLIENT_HELLO, CLIENT_AUTH, CLIENT_FACTS, CLIENT_DONE };

/* What a client gets once it has proved that it knows the key. */
struct client_member {
    uint8_t rx[CODEC_FRAME_MAX];
    uint8_t tx[CLIENT_TX_BYTES];
    struct codec_facts facts; /* when DONE */
};

/* Who the listener is. */
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
    struct client_member *member; /* from AUTH on; Owned */
    weft_ns deadline_ns;          /* for all steps together, absolute */
    struct io_endpoint source;
    struct codec_hello hello;
    bool is_vouched; /* its HELLO was made with the listener's key, now or before */
    uint8_t proof[AUTH_MAC_BYTES]; /* that AUTH must hold */
    uint8_t session[AUTH_KEY_BYTES];
};

/* Returns the place of a newcomer from `source`: a free one, or that of a client which the caller
 * then refuses; NULL if every place has an authenticated client. A client whose HELLO has a voucher
 * stays as long as there are others. The client that goes belongs to the source with the most of
 * these, the newcomer's if that has as many, so that no source takes a place from one that has
 * fewer. It is one that has not sent a HELLO, if there is one. Among equals chance decides, so
 * that no pace of newcomers keeps out a client that needs more time. */
struct client *client_place(struct client *clients, uint32_t n_clients,
                            struct io_env *env, const struct client_identity *identity,
                            const struct io_ip *source);
/* Takes over `stream`. */
void client_start(struct client *client, struct io_env *env, struct io_stream *stream,
                  weft_ns deadline_ns);
/* The first of `clients` in that state, or NULL. */
struct client *client_find(struct client *clients, uint32_t n_clients,
                           enum client_state state);
/* One message further. WEFT_OK: look at the state (DONE: link and facts are to be taken over)
 * and step again; AGAIN: wait. */
weft_status client_step(struct client *client, const struct client_identity *identity,
                        struct weft_error *error) WEFT_MUST_CHECK;
/* Tells the client why and closes. */
void client_refuse(struct client *client, const struct weft_error *error);
void client_fini(struct client *client, bool reset);

#endif
