/* Defines the private state of a connection and the functions that the files of conn/ share. */
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
#define CONN_PROBE_BYTES 4096u       /* size of a slot: the largest path MTU */
#define CONN_PROBE_SMALL 16u         /* size that passes if only large frames are lost */
#define CONN_INLINE_WISH 128u        /* at least the size of a CTS entry */
#define CONN_BACKOFF_MIN_NS 10000000 /* first pause between rounds of dialing */
#define CONN_BACKOFF_MAX_NS 1000000000
#define CONN_TX_BYTES (2 * CODEC_FRAME_MAX)

/* An address of the listener to dial, and the address to dial it from. */
struct conn_way {
    struct io_endpoint from; /* local address of the stream; only if `is_bound` */
    struct io_endpoint to;
    bool is_bound;
    /* Wait at most TIMER_ADDRESS_NS for a stream, because the peer may be reachable only through
     * another way. */
    bool is_hurried;
};

/* State of a connector while it dials and authenticates the listener. */
struct conn_dial {
    struct codec_handle handle;
    struct conn_way ways[CONN_WAYS_MAX];
    uint32_t n_ways, way; /* their number, and the index of the current one */
    bool retry_round;     /* a way that failed in this round may work later */
    bool is_answered;     /* an answer came on a way of this round */
    bool is_unanswered;   /* given up because none came */
    weft_ns patience_ns;  /* deadline for the listener to appear, absolute */
    weft_ns short_ns; /* since when it lacks a descriptor or buffer; 0 if it does not */
    weft_ns way_start_ns; /* when the current way was dialed */
    weft_ns way_ns;       /* deadline of the current way, absolute */
    /* the first way on a cable from which no answer came: when it was dialed, and from where; 0 if
     * there is none */
    weft_ns silent_ns;
    struct io_ip silent_from;
    weft_ns resume_ns;     /* end of the pause between rounds; 0 if there is none */
    weft_ns backoff_ns;    /* length of the next pause */
    uint32_t attempt;      /* number of HELLOs sent */
    struct weft_error why; /* failure of the last way */
    uint8_t key[AUTH_KEY_BYTES];
    uint8_t hello[PROVE_HELLO_BYTES]; /* the last HELLO, for the proofs */
};

struct conn_rail_private {
    struct io_op cq_op;    /* creation of the CQ */
    struct rdma_mr target; /* probe area that the peer writes and reads */
    struct rdma_mr local;  /* source and landing area of this end's probes */
};

enum conn_probe_stage {
    CONN_PROBE_IDLE,       /* nothing posted */
    CONN_PROBE_SMALL_SENT, /* waits for the small READ */
    CONN_PROBE_FULL_SENT,  /* waits for the full-size READ */
    CONN_PROBE_PASSED
};

/* Probe of one queue pair. */
struct conn_probe_qp {
    enum conn_probe_stage stage;
    weft_ns started_ns; /* start of the current stage */
    weft_ns try_ns;     /* start of the current try */
    uint32_t tries;     /* tries of this stage that expired */
};

/* Completions of one queue so far. */
struct conn_sequence {
    uint64_t n;
    bool is_over; /* one failed; the rest is not recorded */
    struct conn_completion first[CONN_JOURNAL_FIRST];
    crypto_hash_sha256_state hash;
};

struct conn_private {
    struct frame_link link;
    uint8_t rx[CODEC_FRAME_MAX];
    uint8_t tx[CONN_TX_BYTES];
    struct conn_dial dial; /* connector only */
    weft_ns deadline_ns;   /* deadline of the whole set-up, absolute */
    bool is_cut_off;       /* connector: the address of its stream no longer exists */
    weft_ns heard_ns; /* last message from the peer, or start of the watch; 0: none yet */
    weft_ns busy_ns;  /* when this end must send BUSY next, absolute */
    weft_ns look_ns;  /* deadline of the task, absolute; 0 before the first */
    weft_ns still_ns; /* when an end was last seen to stall, if noted; 0 if never */
    /* FAILED: the stream is kept open, because it shows whether the peer stalls. */
    bool is_witness;
    struct rdma_port_facts local[CODEC_PORTS_MAX]; /* ports as this end reported them */
    uint32_t local_ports[CODEC_PORTS_MAX]; /* index into rdma->ports of each in local[] */
    uint32_t n_local;
    uint64_t got;      /* bit t: a message of type t was received */
    bool peer_gave_up; /* the peer sent ABORT or CLOSE, so nothing more is sent to it */
    struct codec_meta mine, theirs;
    struct rdma_rail chosen[CONN_RAILS_MAX]; /* indices into local[] and peer.ports[] */
    uint32_t kept_rails[CONN_RAILS_MAX]; /* index into config.kept->rails of each rail */
    struct conn_rail_private rails[CONN_RAILS_MAX];
    uint32_t n_qps_made; /* qps[0..n) were initialised */
    bool qps_started;
    uint8_t *probe; /* three areas of n_qps slots: target, source, landing; Owned */
    struct conn_probe_qp probes[CONN_QPS_MAX];
    bool probed_sent;
    bool has_answer;   /* the owner has called conn_answer */
    bool is_alone;     /* the stream ended in PROBE */
    weft_ns alone_ns;  /* if is_alone: when the peer's probes must be over, absolute */
    bool was_up;       /* was UP, so the owner may use its queues after a failure */
    bool was_shown_up; /* conn_progress has returned while the connection was UP */
    weft_ns close_ns;  /* deadline of the close, absolute */
    uint32_t close_step;
    uint32_t n_marks;                /* marks posted by close.c that have not flushed */
    uint32_t marked[CONN_QPS_MAX];   /* queues with a mark: bit 0 send, bit 1 receive */
    struct conn_sequence *sequences; /* Owned [2 n_qps], send queues first; or NULL */
};

static inline struct io_env *conn_env(const struct conn *conn)
{
    return conn->rdma->env;
}

/* state.c */
/* Enters a state and adds it to the event log. No other code changes conn->state. */
void conn_enter(struct conn *conn, enum conn_state next);
/* Creates a connection in NEW. */
struct conn *conn_new(struct rdma *rdma, const struct conn_config *config, int task_kind,
                      bool is_connector);
/* Queues a sealed message. Does nothing if the stream has ended. Fails with WEFT_ERR_LIMIT if there
 * is no room because the peer does not read. */
weft_status conn_send(struct conn *conn, enum codec_type type, const uint8_t *body,
                      size_t n_bytes) WEFT_MUST_CHECK;
/* Starts to watch the peer for silence, and to send BUSY every TIMER_BUSY_NS. */
void conn_watch_peer(struct conn *conn);
/* Notes whether an end stalls. Call it before the stream is closed. */
void conn_note_still(struct conn *conn);
/* Returns true if a message of that type was received. */
static inline bool conn_got(const struct conn *conn, enum codec_type type)
{
    return (conn->private->got & UINT64_C(1) << type) != 0;
}

/* conn.c */
/* Enters FAILED with conn->error, which must be set: sends ABORT to the peer. Frees everything if
 * the connection was never UP; otherwise moves its QPs to ERR. Returns conn->error.status. */
weft_status conn_fail(struct conn *conn);

/* talk.c */
/* Handles all received messages. The end of the stream is an error, except in PROBE: the probes
 * then decide. A connector that has no FACTS of the listener yet dials again. */
weft_status conn_listen_to_peer(struct conn *conn) WEFT_MUST_CHECK;
/* Sends the queued messages. Treats the end of the stream like conn_listen_to_peer. */
weft_status conn_talk_to_peer(struct conn *conn) WEFT_MUST_CHECK;
/* Returns when BUSY is due or the peer counts as silent for too long, absolute; WEFT_NEVER if
 * neither applies, as after set-up. */
weft_ns conn_watch_ns(const struct conn *conn);
/* Sends BUSY if it is due. Fails with WEFT_ERR_TIMEOUT if nothing arrived for config.silence_ns. */
weft_status conn_watch(struct conn *conn) WEFT_MUST_CHECK;

/* connect.c: the connector's steps. A step returns WEFT_OK when it must be called again at once, in
 * the same state or in a new one. */
weft_status conn_step_tcp(struct conn *conn) WEFT_MUST_CHECK;
weft_status conn_step_hello(struct conn *conn) WEFT_MUST_CHECK;
weft_status conn_step_challenge(struct conn *conn) WEFT_MUST_CHECK;
/* Dials again after the stream ended (`error_number`, or 0), or the listener sent ABORT, before the
 * listener's FACTS. */
weft_status conn_turned_away(struct conn *conn, int error_number) WEFT_MUST_CHECK;
/* Returns the end of the pause or the deadline of the current way, absolute. */
weft_ns conn_dial_deadline(const struct conn *conn);

/* ports.c: re-reads the ports, at most once in TIMER_LISTEN_NS, if an active one lost its last
 * address, or has a GID without a known address. No event reports an address that appears after its
 * GID. Policy weft only. */
void conn_settle_ports(struct conn *conn);

/* rails.c: facts, choice, proposal. */
/* Fills in the facts of rdma->ports[i]. */
void conn_port_facts(const struct rdma *rdma, uint32_t i, struct rdma_port_facts *out);
/* Fills this end's FACTS, and local[] of the connection. */
void conn_facts_body(struct conn *conn, struct codec_facts *out);
/* Copies the peer's FACTS to conn->peer. Fails with WEFT_ERR_PROTOCOL if the policies differ, or if
 * the peer is not the host of the handle. */
weft_status conn_take_facts(struct conn *conn,
                            const struct codec_facts *facts) WEFT_MUST_CHECK;
/* Chooses the rails at the connector; checks the proposal in `theirs` at the acceptor. Fills
 * rails[] and chosen[]. */
weft_status conn_choose_rails(struct conn *conn) WEFT_MUST_CHECK;
/* kept.c: chooses the rails of config.kept whose ports are active at both ends, and writes their
 * indices to kept_rails[]. Fails with WEFT_ERR_ROUTE if there are none. */
weft_status conn_choose_kept(struct conn *conn, uint32_t *out_n) WEFT_MUST_CHECK;
/* kept.c: sets the GIDs of rail `i` to the saved ones. */
void conn_set_kept(struct conn *conn, uint32_t i);
/* Returns the input of the choice of rails: both ends' facts as they were sent. */
struct rdma_choice_input conn_choice_input(const struct conn *conn);
/* ports.c: returns true if the step to RTR failed (EINVAL) because a port's MTU is now lower than
 * the path MTU that both ends agreed on. The next attempt agrees on a lower one. Re-reads the
 * ports. */
bool conn_has_stale_mtu(const struct conn *conn, const struct weft_error *why);
/* Returns the index of the GID of this type (as gids[].type) in the facts of `port`, or
 * UINT32_MAX. */
uint32_t conn_find_gid(const struct rdma_port_facts *port, const union ibv_gid *gid,
                       uint8_t type);
/* Checks the acceptor's META against the connector's. Copies its answer and path MTUs. */
weft_status conn_check_answer(struct conn *conn) WEFT_MUST_CHECK;
/* qps.c: fills this end's META. */
void conn_fill_meta(struct conn *conn, struct codec_meta *out);
/* Returns the host_id of the peer: from the handle at the connector, from FACTS at the acceptor. */
const uint8_t *conn_peer_id(const struct conn *conn);
/* Adds both ends' facts of `rail` to conn->error. */
void conn_add_values(struct conn *conn, uint32_t rail);

/* qps.c */
/* Registers memory, creates CQs and QPs, moves the QPs to INIT and posts receives. Returns
 * WEFT_AGAIN until all is done. */
weft_status conn_make_qps(struct conn *conn) WEFT_MUST_CHECK;
/* Moves all QPs to RTS with the values of the peer's META. Returns WEFT_AGAIN until they are. */
weft_status conn_connect_qps(struct conn *conn) WEFT_MUST_CHECK;
/* Sets stuck_rail, if it is not known, to the first rail of this end that is not in RTS, after the
 * peer failed to connect. */
void conn_qps_heard(struct conn *conn);
/* Abandons and frees everything on the devices without waiting. */
void conn_release(struct conn *conn);
/* Frees the probe area and its memory regions. */
void conn_release_probe(struct conn *conn);

/* probe.c */
/* Probes all QPs. Returns WEFT_AGAIN until all have passed. */
weft_status conn_probe(struct conn *conn) WEFT_MUST_CHECK;
/* Returns when the next try expires, absolute. */
weft_ns conn_probe_deadline(const struct conn *conn);
/* qps.c: returns the length of one try on a chosen rail. */
weft_ns conn_probe_ns(const struct conn *conn, uint32_t rail);
/* Handles the failure of the peer's probe. Sets stuck_rail if it is not known. If the peer's probe
 * got no response (`is_unanswered`), judges the path MTUs by this end's probes and adds the result
 * to conn->error. */
void conn_probe_heard(struct conn *conn, bool is_unanswered);

/* journal.c: moves the recorded completions to the journal. */
void conn_journal_leave(struct conn *conn);

/* close.c */
/* Advances the orderly close. Returns WEFT_OK when it enters CLOSED. */
weft_status conn_step_closing(struct conn *conn) WEFT_MUST_CHECK;

/* accept.c: creates a connection in META from an authenticated client. Takes over the stream of
 * `link`. Returns NULL, with `error`, if the client's facts are not acceptable; it was then sent an
 * ABORT. */
struct conn *conn_from_client(struct rdma *rdma, const struct conn_config *config,
                              int task_kind, struct frame_link *link,
                              const struct codec_hello *hello,
                              const struct codec_facts *facts,
                              struct weft_error *error) WEFT_MUST_CHECK;

#endif
