/* Definitions shared by the files that implement transports inside a host. */
#ifndef WEFT_TRANSPORT_INSIDE_PRIVATE_H
#define WEFT_TRANSPORT_INSIDE_PRIVATE_H

#include "conn/client.h"
#include "conn/frame.h"
#include "conn/prove.h"
#include "ipc/peer.h"
#include "rdma/timers.h"
#include "transport/inside.h"
#include "transport/proxy.h"

/* Room for the answers to everything that a peer may request at once, for each channel and both
 * directions. */
#define INSIDE_TX_BYTES 16384u
#define INSIDE_PENDING_MIN 64u

/* ---- inside_stream.c: a stream between two processes of the host ---- */

enum inside_stream_state {
    INSIDE_STREAM_NONE,
    INSIDE_STREAM_DIALING, /* ours: waiting for TCP to connect */
    INSIDE_STREAM_PROVING, /* ours: waiting for the peer to authenticate */
    INSIDE_STREAM_OPEN,    /* carries messages */
    INSIDE_STREAM_STOPPED  /* closed in order; no more messages arrive */
};

struct inside_stream {
    struct io_task task;
    struct inside *inside; /* Not owned. */
    enum inside_stream_state state;
    bool is_ours;  /* true: carries requests to the peer's proxy; false: from the peer */
    uint32_t rank; /* rank of the peer; UINT32_MAX if not known yet */
    struct frame_link link;
    uint8_t rx[CODEC_FRAME_MAX], tx[INSIDE_TX_BYTES];
    uint8_t hello[PROVE_HELLO_BYTES];
    weft_ns deadline_ns;
    weft_ns
        redial_until_ns; /* ours: if it is not accepted, the proxy is dialed until then */
    bool was_lost; /* ours: the peer accepted the previous stream, which ended unproved */
};

struct inside_pending {
    bool is_used;
    struct inside_stream *stream; /* Not owned. */
    struct proxy_call call;
};

/* ---- connectors ---- */

enum inside_link_state {
    INSIDE_LINK_NEW,         /* not known to its own proxy yet */
    INSIDE_LINK_INIT,        /* known to its own proxy */
    INSIDE_LINK_SHARED_INIT, /* its proxy knows the size; the owner has control words */
    INSIDE_LINK_SETUP,    /* the owner has steps; waiting for the blobs to be exchanged */
    INSIDE_LINK_TOLD,     /* the peer's blob was received */
    INSIDE_LINK_FETCHING, /* non-owner: waiting for the answer to GET_FD or FALL_BACK */
    INSIDE_LINK_CONNECT,  /* owner: waiting for the peer to attach; non-owner: attaches */
    INSIDE_LINK_STARTING, /* non-owner: waiting for the answer to START */
    INSIDE_LINK_UP        /* can move messages */
};

struct inside_link {
    struct transport_connector connector;
    struct transport_choice choice;
    bool has_fallen;       /* back from p2p to shm, at either end */
    struct inside *inside; /* Not owned. */
    enum inside_link_state state;
    uint32_t peer;
    bool is_sender, is_owner;
    uint32_t connection;      /* number at its own proxy */
    struct inside_blob other; /* blob of the peer */
    uint32_t op; /* number of the open request to the peer's proxy; 0 if none */
    struct proxy_answer answer;
    bool asks_to_fall_back; /* the peer must be asked to fall back from p2p */
    struct steps steps;
};

enum inside_state {
    INSIDE_FACTS,    /* waits for the all-gather of facts */
    INSIDE_SETUP,    /* sets up the own ends of the connectors */
    INSIDE_EXCHANGE, /* waits for the all-gathers of blobs */
    INSIDE_CONNECT,  /* waits for streams, and for the other ends to attach */
    INSIDE_UP,       /* moves messages */
    INSIDE_CLOSING,  /* waits for the peers to stop their streams */
    INSIDE_CLOSED,   /* ended in order */
    INSIDE_FAILED    /* ended by inside_stop() */
};

/* CUDA IPC with one other rank of the host, and the next message to send to it. */
struct inside_ipc {
    struct ipc_peer peer;
    uint8_t said[IPC_MESSAGE_MAX];
    size_t n_said; /* length of `said`, which did not fit into the stream; 0 if none */
};

struct inside {
    enum inside_state state;
    struct io_env *env;   /* Not owned. */
    struct io_task *task; /* Not owned. */
    struct inside_config config;
    uint32_t *host_of;                          /* Owned [n_members] */
    uint32_t *send_channels, *receive_channels; /* Owned [n_ranks] */
    uint32_t *locals;           /* Owned [n_locals]: ranks of this host, ascending */
    uint32_t n_locals, self;    /* index of this rank in `locals` */
    uint32_t n_locals_max;      /* maximum over all hosts */
    struct inside_facts *facts; /* Owned [n_locals] */
    struct topo_peer *peers;    /* Owned [n_members] */
    struct topo_settings settings;
    struct topo_comm comm;
    struct topo_view view;      /* system is NULL if unknown */
    struct topo_system *system; /* Owned; of view */
    uint32_t step_bytes;

    struct ipc_settings ipc_settings;
    struct ipc_node ipc;           /* valid if has_ipc */
    bool has_ipc;                  /* messages may be copied from buffer to buffer */
    struct inside_ipc **peers_ipc; /* Owned [n_locals] and its entries; NULL if no p2p */
    size_t direct_bytes;           /* shortest message that is copied directly */

    struct proxy *proxy; /* Owned */
    struct io_listener *listener;
    struct io_task door; /* woken by the listener, its clients and the GPU (CUDA IPC) */
    struct client *strangers; /* Owned [n_strangers]: clients not authenticated yet */
    uint32_t n_strangers;
    struct io_endpoint at;
    struct client_identity identity;
    /* Owned [2 * n_locals] and its entries: streams that this rank opened, by place, then
     * accepted ones. NULL if not created yet. */
    struct inside_stream **streams;
    struct inside_pending *pending; /* Owned [n_pending] */
    uint32_t n_pending;
    uint32_t last_op;

    /* Owned [2 * n_locals * n_channels] and its entries: for each channel those that receive,
     * then those that send, by place. NULL if none. */
    struct inside_link **links;
    uint32_t *order; /* Owned [n_links]: indices in `links`, in the order of set-up */
    uint32_t n_links;
    uint32_t n_offsets, round; /* offsets whose blobs were exchanged; rounds done */
    uint8_t *round_bytes;      /* Owned */
    struct weft_error error;
    uint32_t error_peer;
};

/* Returns the limit for a peer or its proxy to authenticate, at the patience of the job. */
static inline weft_ns inside_prove_ns(const struct inside *inside)
{
    return timer_limit(TIMER_AUTHENTICATE_NS, inside->config.patience);
}

/* Returns the index of a rank of this host in `locals`, or UINT32_MAX. */
static inline uint32_t inside_place(const struct inside *inside, uint32_t rank)
{
    for (uint32_t i = 0; i < inside->n_locals; i++) {
        if (inside->locals[i] == rank) {
            return i;
        }
    }
    return UINT32_MAX;
}

/* Returns the index of a connector in `links`. */
static inline uint32_t inside_link_index(const struct inside *inside, uint32_t place,
                                         bool is_sender, uint32_t channel)
{
    return (2 * channel + is_sender) * inside->n_locals + place;
}

static inline uint32_t inside_n_streams(const struct inside *inside)
{
    return 2 * inside->n_locals;
}

/* ---- inside_state.c ---- */

void inside_enter(struct inside *inside, enum inside_state next);
weft_status inside_fail(struct inside *inside, uint32_t peer, weft_status status,
                        enum weft_phase phase, const char *format, ...) WEFT_PRINTF(5, 6);

/* ---- inside_stream.c ---- */

/* Changes stream->state, and adds the change to the event log. */
void inside_stream_enter(struct inside_stream *stream, enum inside_stream_state next);
weft_status inside_stream_broken(struct inside_stream *stream,
                                 const struct weft_error *why);
/* Advances a stream that is dialed or not authenticated yet. Returns WEFT_AGAIN while it waits. */
weft_status inside_stream_connect(struct inside_stream *stream);
/* Starts a stream to the proxy of the rank at `place`. */
weft_status inside_dial(struct inside *inside, uint32_t place);
/* Makes a stream of an authenticated client. Returns false if there is no room for it. */
bool inside_stream_take_over(struct inside *inside, struct client *client);
/* Sends queued bytes. A failure is handled by the next inside_stream_progress(). */
void inside_stream_flush(struct inside_stream *stream);
/* Sends a request to the proxy of the rank at `place`. Returns false if the stream is not open
 * or has no room. */
bool inside_ask(struct inside *inside, uint32_t place, const struct proxy_call *call);
/* Returns the ith stream; creates it if needed. */
struct inside_stream *inside_stream_at(struct inside *inside, uint32_t i);

/* ---- inside_call.c: what arrives over the streams ---- */

/* Advances one stream. Errors are in inside->error. */
weft_status inside_stream_progress(struct inside_stream *stream);
/* Retries requests that the proxy could not answer yet. Errors are in inside->error. */
weft_status inside_serve_pending(struct inside *inside);
void inside_streams_close(struct inside *inside, bool reset);

/* ---- inside_door.c: the listener ---- */

weft_status inside_listen(struct inside *inside, struct weft_error *error);
/* Accepts waiting connections, and advances the authentication of clients. */
void inside_welcome(struct inside *inside);
void inside_door_close(struct inside *inside);

/* inside_link.c: advances the set-up of a connector as far as possible. Returns WEFT_OK unless
 * it failed. */
weft_status inside_link_progress(struct inside_link *link) WEFT_MUST_CHECK;
/* Takes an answer of the proxy of `rank`. Returns false if no request to that proxy waits for
 * it. */
bool inside_answered(struct inside *inside, uint32_t rank,
                     const struct proxy_answer *answer);
void inside_blob_of(const struct inside_link *link, struct inside_blob *out);
weft_status inside_blob_take(struct inside_link *link,
                             const struct inside_blob *blob) WEFT_MUST_CHECK;
void inside_link_close(struct inside_link *link);
/* Rings the bell of the peer if it slept when a counter moved. */
void inside_link_ring(struct inside_link *link);
/* Returns the ith connector in the order of set-up, or NULL if it uses the network. */
struct inside_link *inside_link_at(const struct inside *inside, uint32_t i);
/* Advances the set-up of all connectors. */
weft_status inside_links_progress(struct inside *inside) WEFT_MUST_CHECK;
/* inside_ipc.c: CUDA IPC with the ranks reached by p2p. Its messages travel over the streams. */
weft_status inside_ipc_open(struct inside *inside, struct weft_error *error);
/* Returns the CUDA IPC state for the rank at `place`; creates it if needed. NULL if CUDA IPC is
 * disabled. */
struct ipc_peer *inside_ipc_with(struct inside *inside, uint32_t place);
/* Sends pending messages while there is room. */
void inside_ipc_say(struct inside *inside, uint32_t place);
void inside_ipc_progress(struct inside *inside);
weft_status inside_ipc_take(struct inside *inside, uint32_t place, const uint8_t *bytes,
                            size_t n_bytes, struct weft_error *error);
/* Closes what is open and returns what was lent. No copy may be in progress, unless its end is
 * no longer polled for. */
void inside_ipc_stop(struct inside *inside);
void inside_ipc_fini(struct inside *inside);
/* inside_topology.c: sets inside->view.system if the topology of the host is known. */
void inside_find_topology(struct inside *inside);

#endif
