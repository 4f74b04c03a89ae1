/* What a connection keeps to itself, and the seams between the files of conn/. */
#ifndef WEFT_CONN_PRIVATE_H
#define WEFT_CONN_PRIVATE_H

#include <sodium.h>

#include "conn/auth.h"
#include "conn/codec.h"
#include "conn/conn.h"
#include "conn/frame.h"
#include "conn/journal.h"
#include "conn/prove.h"

#define CONN_WAYS_MAX 16
#define CONN_PROBE_BYTES 4096u       /* one slot: the largest path MTU */
#define CONN_PROBE_SMALL 16u         /* passes where only large frames vanish */
#define CONN_INLINE_WISH 128u        /* covers a CTS entry */
#define CONN_BACKOFF_MIN_NS 10000000 /* first pause before a round of ways is retried */
#define CONN_BACKOFF_MAX_NS 1000000000
#define CONN_TX_BYTES (2 * CODEC_FRAME_MAX)

/* A TCP path to the listener. */
struct conn_way {
    struct io_endpoint from; /* bound to it when `is_bound` */
    struct io_endpoint to;
    bool is_bound;
    bool
        is_hurried; /* TIMER_ADDRESS_NS at most: the peer may answer by another way only */
};

/* What the connector remembers while it finds and authenticates the listener. */
struct conn_dial {
    struct codec_handle handle;
    struct conn_way ways[CONN_WAYS_MAX];
    uint32_t n_ways, way;
    bool retry_round;    /* some way of this round may work later */
    weft_ns patience_ns; /* until when, absolute */
    weft_ns short_ns;    /* since when it lacks a descriptor or buffer; 0: it does not */
    weft_ns way_ns;      /* limit of the present way, absolute */
    weft_ns resume_ns;   /* end of the pause between rounds; 0: no pause */
    weft_ns backoff_ns;
    uint32_t attempt;
    struct weft_error why; /* how the last way failed */
    uint8_t key[AUTH_KEY_BYTES];
    uint8_t hello[PROVE_HELLO_BYTES];
};

struct conn_rail_private {
    struct io_op cq_op;
    struct rdma_mr target; /* the probe area that the peer writes and reads */
    struct rdma_mr local;  /* what this end's probes send and receive */
    bool window_known, target_known, local_known, cq_known;
};

enum conn_probe_stage {
    CONN_PROBE_IDLE,
    CONN_PROBE_SMALL_SENT,
    CONN_PROBE_FULL_SENT,
    CONN_PROBE_PASSED
};

struct conn_probe_qp {
    enum conn_probe_stage stage;
    weft_ns started_ns; /* of the present stage */
    weft_ns try_ns;     /* when its present try began */
    uint32_t tries;     /* deadlines that passed */
};

/* A queue's completions so far. */
struct conn_sequence {
    uint64_t n;
    bool is_over; /* it failed */
    struct conn_completion first[CONN_JOURNAL_FIRST];
    crypto_hash_sha256_state hash;
};

struct conn_private {
    struct frame_link link;
    uint8_t rx[CODEC_FRAME_MAX];
    uint8_t tx[CONN_TX_BYTES];
    struct conn_dial dial; /* the connector's */
    weft_ns deadline_ns;   /* of the whole set-up, absolute */
    weft_ns heard_ns; /* when the peer was last heard during set-up; 0: not yet dialed */
    weft_ns busy_ns;  /* when this end is to send BUSY next, absolute */
    weft_ns look_ns;  /* when the task asked to be woken at the latest, absolute; or 0 */
    weft_ns still_ns; /* when an end stood still, of streams that are over; 0: never */
    bool is_witness;  /* FAILED: the stream shows whether the peer stands still */
    struct rdma_port_facts local[CODEC_PORTS_MAX];
    uint32_t local_ports[CODEC_PORTS_MAX]; /* whose facts they are: into rdma->ports */
    uint32_t n_local;
    uint64_t got;      /* bit t: message t came */
    bool peer_gave_up; /* by ABORT or CLOSE: nothing more to tell it */
    struct codec_meta mine, theirs;
    struct rdma_rail chosen[CONN_RAILS_MAX]; /* indices into local[] and peer.ports[] */
    uint32_t kept_rails[CONN_RAILS_MAX];     /* where they are in config.kept */
    struct conn_rail_private rails[CONN_RAILS_MAX];
    uint32_t n_qps_made; /* qps[0..n) were initialised */
    bool qps_started;
    uint8_t *probe; /* per QP: target, source, landing; Owned */
    struct conn_probe_qp probes[CONN_QPS_MAX];
    bool probed_sent;
    bool has_answer;   /* the owner's, if the peer wants one */
    bool is_alone;     /* the stream ended after READY */
    weft_ns alone_ns;  /* until when the peer's probes may run, absolute */
    bool was_up;       /* the owner may still use what a failure leaves */
    bool was_shown_up; /* conn_progress has returned while the connection was UP */
    weft_ns close_ns;  /* limit of the close, absolute */
    uint32_t close_step;
    uint32_t n_marks;                /* sentinels still to be flushed */
    uint32_t marked[CONN_QPS_MAX];   /* bit 0: send sentinel posted, bit 1: receive */
    struct conn_sequence *sequences; /* Owned [2 n_qps], send queues first; or NULL */
};

static inline struct io_env *conn_env(const struct conn *conn)
{
    return conn->rdma->env;
}

/* conn.c: the only place that changes conn->state. */
void conn_enter(struct conn *conn, enum conn_state next);
struct conn *conn_new(struct rdma *rdma, const struct conn_config *config, int task_kind,
                      bool is_connector);
static inline bool conn_got(const struct conn *conn, enum codec_type type)
{
    return (conn->private->got & UINT64_C(1) << type) != 0;
}
/* Ends the set-up or the connection with conn->error: tells the peer, gives back, FAILED. */
weft_status conn_fail(struct conn *conn);

/* talk.c */
/* Queues a sealed message; WEFT_ERR_LIMIT if the peer does not read. */
weft_status conn_tell(struct conn *conn, enum codec_type type, const uint8_t *body,
                      size_t n_bytes) WEFT_MUST_CHECK;
/* Takes all that came; sends what was queued. The end of the stream is an error, but for an
 * end that comes when READY is in: then the probe decides. */
weft_status conn_listen_to_peer(struct conn *conn) WEFT_MUST_CHECK;
weft_status conn_talk_to_peer(struct conn *conn) WEFT_MUST_CHECK;
/* Starts to watch a peer for silence, and to send BUSY every second. */
void conn_watch_peer(struct conn *conn);
/* When BUSY is due or the peer has been silent for too long, absolute; WEFT_NEVER after set-up. */
weft_ns conn_watch_ns(const struct conn *conn);
/* Takes down whether an end stands still, before the stream goes. */
void conn_note_still(struct conn *conn);
/* Sends BUSY if it is due. WEFT_ERR_TIMEOUT if the peer has been silent for too long. */
weft_status conn_watch(struct conn *conn) WEFT_MUST_CHECK;

/* connect.c: the connector's steps. Steps return WEFT_OK when they entered a new state. */
weft_status conn_step_tcp(struct conn *conn) WEFT_MUST_CHECK;
weft_status conn_step_hello(struct conn *conn) WEFT_MUST_CHECK;
weft_status conn_step_challenge(struct conn *conn) WEFT_MUST_CHECK;
/* The stream ended, by `error_number` or 0, before the listener's FACTS: dials again. */
weft_status conn_turned_away(struct conn *conn, int error_number) WEFT_MUST_CHECK;
weft_ns conn_dial_deadline(const struct conn *conn);

/* Reads the ports again, once in TIMER_LISTEN_NS, if an active one lost its last address, or has a
 * GID whose address it does not know: nothing reports an address that comes after its GID. */
void conn_settle_ports(struct conn *conn);

/* rails.c: facts, choice, proposal. */
void conn_facts_body(struct conn *conn, struct codec_facts *out);
weft_status conn_take_facts(struct conn *conn,
                            const struct codec_facts *facts) WEFT_MUST_CHECK;
/* The connector's choice, or the acceptor's answer to `theirs`; fills rails[], chosen[]. */
weft_status conn_choose_rails(struct conn *conn) WEFT_MUST_CHECK;
/* kept.c: of config.kept, whose rails can be had now; their indices go into kept_rails[]. */
weft_status conn_choose_kept(struct conn *conn, uint32_t *out_n) WEFT_MUST_CHECK;
/* Gives rail `i` what it had. */
void conn_set_kept(struct conn *conn, uint32_t i);
/* What rails are chosen from: both ends' facts as told. */
struct rdma_choice_input conn_choice_input(const struct conn *conn);
/* Returns true if RTR was refused because a port's MTU is lower by now than what both ends agreed
 * on: another attempt agrees on the new one. */
bool conn_has_stale_mtu(const struct conn *conn, const struct weft_error *why);
/* Where `port` has the GID of this type (as gids[].type), or UINT32_MAX. */
uint32_t conn_find_gid(const struct rdma_port_facts *port, const union ibv_gid *gid,
                       uint8_t type);
/* The connector checks the acceptor's answer. */
weft_status conn_check_answer(struct conn *conn) WEFT_MUST_CHECK;
void conn_fill_meta(struct conn *conn, struct codec_meta *out);
/* The other end's host, as far as it is known: before it told its facts, by its handle. */
const uint8_t *conn_peer_id(const struct conn *conn);
/* Adds both ends' facts of `rail` to conn->error. */
void conn_add_values(struct conn *conn, uint32_t rail);

/* qps.c */
weft_status conn_make_qps(struct conn *conn) WEFT_MUST_CHECK;
weft_status conn_connect_qps(struct conn *conn) WEFT_MUST_CHECK;
/* The peer gave up connecting: which of this end's rails is not connected either? */
void conn_qps_heard(struct conn *conn);
/* Gives up everything at once. */
void conn_release(struct conn *conn);
void conn_release_probe(struct conn *conn);

/* probe.c */
weft_status conn_probe(struct conn *conn) WEFT_MUST_CHECK;
weft_ns conn_probe_deadline(const struct conn *conn);
/* How long one try lasts on a rail that was chosen. */
weft_ns conn_probe_ns(const struct conn *conn, uint32_t rail);
/* The peer's probe failed, and `is_unanswered` if for want of an answer: what this end's own say
 * of that goes into conn->error, and counts for the next attempt. */
void conn_probe_heard(struct conn *conn, bool is_unanswered);

/* journal.c: leaves what the queues completed, once. */
void conn_journal_leave(struct conn *conn);

/* close.c */
weft_status conn_step_closing(struct conn *conn) WEFT_MUST_CHECK;

/* accept.c: a connection, in META, from a client that proved itself; takes over the stream of
 * `link`. NULL if its facts do not suit: it was told, and `error` says why. */
struct conn *conn_from_client(struct rdma *rdma, const struct conn_config *config,
                              int task_kind, struct frame_link *link,
                              const struct codec_hello *hello,
                              const struct codec_facts *facts,
                              struct weft_error *error) WEFT_MUST_CHECK;

#endif
