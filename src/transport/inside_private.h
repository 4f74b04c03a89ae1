/* What the files of transport/ share about the inside of a host. */
#ifndef WEFT_TRANSPORT_INSIDE_PRIVATE_H
#define WEFT_TRANSPORT_INSIDE_PRIVATE_H

#include "conn/client.h"
#include "conn/frame.h"
#include "conn/prove.h"
#include "ipc/peer.h"
#include "transport/inside.h"
#include "transport/proxy.h"

#define INSIDE_PROVE_NS 5000000000
/* Answers to what a peer may ask at once: of each channel, for both directions. */
#define INSIDE_TX_BYTES 16384u
#define INSIDE_PENDING_MIN 64u

/* ---- inside_stream.c: a stream between two processes of the host ---- */

enum inside_stream_state {
    INSIDE_STREAM_NONE,
    INSIDE_STREAM_DIALING, /* ours: TCP is on its way */
    INSIDE_STREAM_PROVING, /* ... and each proves that it knows the key */
    INSIDE_STREAM_GUEST,   /* theirs: likewise */
    INSIDE_STREAM_OPEN,
    INSIDE_STREAM_STOPPED /* over, in order: nothing comes any more */
};

struct inside_stream {
    struct io_task task;
    struct inside *inside; /* Not owned. */
    enum inside_stream_state state;
    bool is_ours;  /* we ask at the other end's proxy; else it asks at ours */
    uint32_t rank; /* at the other end; UINT32_MAX: not known yet */
    struct frame_link link;
    uint8_t rx[CODEC_FRAME_MAX], tx[INSIDE_TX_BYTES];
    struct client client; /* GUEST */
    uint8_t hello[PROVE_HELLO_BYTES];
    weft_ns deadline_ns;
};

struct inside_pending {
    bool is_used;
    struct inside_stream *stream; /* Not owned. */
    struct proxy_call call;
};

/* ---- connectors ---- */

enum inside_link_state {
    INSIDE_LINK_NEW,
    INSIDE_LINK_INIT,        /* the own proxy knows it */
    INSIDE_LINK_SHARED_INIT, /* ... and its size; the owner has control words */
    INSIDE_LINK_SETUP,       /* the owner has steps; blobs may be exchanged */
    INSIDE_LINK_TOLD,        /* the other end's blob is there */
    INSIDE_LINK_FETCHING,    /* not the owner: GET_FD is under way */
    INSIDE_LINK_CONNECT,     /* the own proxy connects */
    INSIDE_LINK_STARTING,    /* not the owner: START is under way */
    INSIDE_LINK_UP
};

struct inside_link {
    struct transport_connector connector;
    struct transport_choice choice;
    struct inside *inside; /* Not owned. */
    enum inside_link_state state;
    uint32_t peer;
    bool is_sender, is_owner;
    uint32_t connection;      /* at the own proxy */
    struct inside_blob other; /* of the other end */
    uint32_t op;              /* asked at the peer's proxy, not answered; 0: none */
    struct proxy_answer answer;
    bool tells_to_fall_back; /* the other end does not know yet that p2p cannot be */
    struct steps steps;
};

enum inside_state {
    INSIDE_FACTS,
    INSIDE_SETUP,
    INSIDE_EXCHANGE,
    INSIDE_CONNECT,
    INSIDE_UP,
    INSIDE_CLOSING,
    INSIDE_CLOSED,
    INSIDE_FAILED
};

/* What a rank has of CUDA IPC with another of its host, and what is to be said to it next. */
struct inside_ipc {
    struct ipc_peer peer;
    uint8_t said[IPC_MESSAGE_MAX];
    size_t n_said; /* of a message that did not fit into the stream yet; 0: none */
};

struct inside {
    enum inside_state state;
    struct io_env *env;   /* Not owned. */
    struct io_task *task; /* Not owned. */
    struct inside_config config;
    uint32_t *host_of;                          /* Owned [n_members] */
    uint32_t *send_channels, *receive_channels; /* Owned [n_ranks] */
    uint32_t *locals;           /* Owned [n_locals]: ranks of this host, ascending */
    uint32_t n_locals, self;    /* self: place of the own rank in locals */
    uint32_t n_locals_max;      /* of any host */
    struct inside_facts *facts; /* Owned [n_locals] */
    struct topo_peer *peers;    /* Owned [n_members] */
    struct topo_settings settings;
    struct topo_comm comm;
    struct topo_view view;      /* system NULL: nobody knows */
    struct topo_system *system; /* Owned; of view */
    uint32_t step_bytes;

    struct ipc_settings ipc_settings;
    struct ipc_node ipc;           /* has_ipc */
    bool has_ipc;                  /* messages may go from buffer to buffer */
    struct inside_ipc **peers_ipc; /* Owned [n_locals], and they; NULL: no p2p with it */
    size_t direct_bytes;           /* of the shortest message that goes directly */

    struct proxy *proxy; /* Owned */
    struct io_listener *listener;
    struct io_task door; /* of the listener */
    struct io_endpoint at;
    struct client_identity identity;
    /* Owned [2 * n_locals], and they: ours by place, then guests; NULL: none yet */
    struct inside_stream **streams;
    struct inside_pending *pending; /* Owned [n_pending] */
    uint32_t n_pending;
    uint32_t last_op;

    /* Owned [2 * n_locals * n_channels], and they: of each channel receiving, then sending, by
     * place; NULL: none */
    struct inside_link **links;
    uint32_t *order; /* Owned [n_links]: in which they are set up */
    uint32_t n_links;
    uint32_t n_offsets, round; /* of blobs; rounds done */
    uint8_t *round_bytes;      /* Owned */
    struct weft_error error;
    uint32_t error_peer;
};

weft_status inside_fail(struct inside *inside, uint32_t peer, weft_status status,
                        const char *phase, const char *format, ...) WEFT_PRINTF(5, 6);

weft_status inside_listen(struct inside *inside, struct weft_error *error);
/* Starts a stream to the proxy of the rank at a place. */
weft_status inside_dial(struct inside *inside, uint32_t place);
/* Lets in who waits at the door. */
void inside_welcome(struct inside *inside);
/* Sends what is queued; a failure is met by the next look at the stream. */
void inside_stream_flush(struct inside_stream *stream);
/* Moves one stream on. An error is in inside->error. */
weft_status inside_stream_progress(struct inside_stream *stream);
/* Asks at the proxy of the rank at a place; false: there is no room. */
bool inside_ask(struct inside *inside, uint32_t place, const struct proxy_call *call);
/* Requests that could not be answered are asked again. */
void inside_serve_pending(struct inside *inside);
/* The ith, made if it is not there yet. */
struct inside_stream *inside_stream_at(struct inside *inside, uint32_t i);
void inside_streams_close(struct inside *inside, bool reset);

/* inside_link.c: sets a connector up, as far as it goes. WEFT_OK: it is UP, or waits for its
 * blob. */
weft_status inside_link_progress(struct inside_link *link) WEFT_MUST_CHECK;
/* Takes the answer of the proxy of `rank`. Returns false if no call to that proxy waits for it. */
bool inside_answered(struct inside *inside, uint32_t rank,
                     const struct proxy_answer *answer);
void inside_blob_of(const struct inside_link *link, struct inside_blob *out);
weft_status inside_blob_take(struct inside_link *link,
                             const struct inside_blob *blob) WEFT_MUST_CHECK;
void inside_link_close(struct inside_link *link);
/* Wakes the rank at the other end, if a counter moved while it slept. */
void inside_link_ring(struct inside_link *link);
/* Where in `links` one is. */
uint32_t inside_link_index(const struct inside *inside, uint32_t place, bool is_sender,
                           uint32_t channel);
/* The ith connector in the order of set-up; NULL: it goes over the network. */
struct inside_link *inside_link_at(const struct inside *inside, uint32_t i);
/* All of them, as far as they go. */
weft_status inside_links_progress(struct inside *inside) WEFT_MUST_CHECK;
/* inside_ipc.c: CUDA IPC with the ranks that p2p leads to, carried by the streams. */
weft_status inside_ipc_open(struct inside *inside, struct weft_error *error);
/* Made if it is not there yet; NULL: switched off. */
struct ipc_peer *inside_ipc_with(struct inside *inside, uint32_t place);
/* Says what is to be said, as far as there is room. */
void inside_ipc_say(struct inside *inside, uint32_t place);
void inside_ipc_progress(struct inside *inside);
weft_status inside_ipc_take(struct inside *inside, uint32_t place, const uint8_t *bytes,
                            size_t n_bytes, struct weft_error *error);
/* No copy is under way any more, or nobody looks at one: what is open is closed. */
void inside_ipc_stop(struct inside *inside);
void inside_ipc_fini(struct inside *inside);
void inside_enter(struct inside *inside, enum inside_state next);
/* inside_topology.c: what is inside the host, if anybody knows, for inside->view. */
void inside_find_topology(struct inside *inside);
uint32_t inside_place(const struct inside *inside, uint32_t rank);

#endif
