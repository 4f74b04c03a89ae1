/* Sets up connections: turns the opaque handle of a listener into a set of proven queue pairs. The
 * connector is the sender of messages, the acceptor their receiver (xfer/). Control messages flow
 * in both directions.
 *
 * Set-up: TCP -> HELLO, CHALLENGE, AUTH, FACTS, META (docs/wire.md) -> QPs to RTR and RTS at both
 * ends -> READY -> probe -> UP. The probe sends small and full-size frames through every QP in both
 * directions. If a step fails, both ends get a structured error by their deadlines and free what
 * they created. The listener goes on. */
#ifndef WEFT_CONN_CONN_H
#define WEFT_CONN_CONN_H

#include "io/env.h"
#include "rdma/choice.h"
#include "rdma/mr.h"
#include "rdma/qp.h"
#include "rdma/rdma.h"
#include "rdma/timers.h"

#define CONN_HANDLE_BYTES 128
#define CONN_QPS_MAX 16
#define CONN_RAILS_MAX 4
#define CONN_SECRET_BYTES 32
#define CONN_PURPOSE_BYTES 64
#define CONN_EXCLUDED_MAX 16
#define CONN_CHOSEN_MAX 4

/* wr_id of the receives that conn/ posts (without SGEs, for WRITE_WITH_IMM). */
#define CONN_WR_RECV UINT64_C(0xfffffffffffffff0)

struct conn_journal;

/* The rails of an established connection, saved so that a later connection can reuse the same
 * ports, GIDs and GID slots. */
struct conn_kept {
    uint32_t n_rails;
    struct {
        const struct rdma_port *port; /* Not owned */
        char remote_name[40];         /* name of the peer's port (rdma_port_facts) */
        union ibv_gid local_gid, remote_gid;
        enum ibv_gid_type local_type, remote_type;
        uint32_t local_index, remote_index; /* slots that held the GIDs */
        uint32_t path_mtu;                  /* bytes */
    } rails[CONN_RAILS_MAX];
};

struct conn_config {
    enum weft_policy policy;
    uint32_t channel;      /* channel number, for policies that choose a NIC by channel */
    uint32_t qps_per_rail; /* at least 1 (default 2); total at most CONN_QPS_MAX */
    uint32_t send_wr_max;  /* requested send queue depth per QP (default 512) */
    uint32_t recv_wr_max;  /* receives kept posted per QP (default 256) */
    /* Size of the registered memory that the peer can write, for xfer's clear-to-sends and
     * flushes (default 16448). */
    uint32_t window_bytes;
    /* ACK timeout code; with retry_cnt it determines the detection time. 0 for TIMER_ACK_CODE, or
     * TIMER_ACK_CODE_STALL on rails with an end that may stall (io_device_attr). */
    uint8_t timeout;
    uint8_t retry_cnt;
    uint8_t traffic_class; /* TOS byte of this end's packets, with ECN bits (default 0) */
    bool has_secret;
    uint8_t secret[CONN_SECRET_BYTES]; /* job secret: part of every connection's key */
    /* Limit for a client to authenticate, and for one attempt of a connector (default 5 s). */
    weft_ns authenticate_ns;
    /* Limit of the whole set-up, from the first HELLO at the connector and from FACTS at the
     * acceptor (default 30 s). */
    weft_ns total_ns;
    /* Maximum time without a message from the peer, not even BUSY, during set-up; 0 for none. */
    weft_ns silence_ns;
    weft_ns patience_ns; /* how long a peer may not listen yet (default 900 s) */
    /* Connector: fail if no address of the peer answers, and do not try again for patience_ns,
     * because the peer's machine is known to run. */
    bool is_known_to_run;
    /* Deadline of one try of a probe (default 100 ms). At least TIMER_PROBE_STALL_NS is used on
     * rails with an end that may stall. */
    weft_ns probe_ns;
    uint32_t probe_tries; /* default 3 */
    /* Factor of all limits above but that of `timeout` (rdma/timers.h; default 1).
     * conn_config_stretch() applies it to them. */
    uint32_t patience;
    /* Maximum number of clients that are not authenticated yet, and of connections that conn_accept
     * has not returned yet (default 64). */
    uint32_t pending_max;
    bool over_management;  /* use TCP on the management network only, not on the cables */
    bool management_first; /* dial the cables only if the management network fails */
    /* Formats a refusal for the listener's log and terminates `out`. NULL for weft_error_format. */
    void (*word)(const struct weft_error *why, char *out, size_t out_bytes);
    /* Receives the completions of all queues; NULL if they are not recorded. Not owned. */
    struct conn_journal *journal;
    /* Connector: purpose of the connection, sent after authentication. Opaque to conn/. */
    uint8_t purpose[CONN_PURPOSE_BYTES];
    /* Connector: the acceptor sends META only after its owner has called conn_answer. */
    bool wants_answer;
    /* Ports of this host that NCCL's own choice of a device selects, for policies that choose as
     * NCCL does. If there are none, NIC `channel` mod n is used. */
    uint32_t n_chosen;
    struct {
        uint32_t device;
        uint8_t port;
    } chosen[CONN_CHOSEN_MAX];
    /* If not NULL, the connection uses those of these rails whose ports are active at both ends. It
     * then chooses no ports and looks up no GIDs. Both ends must set it, the acceptor before
     * conn_answer. Not owned. */
    const struct conn_kept *kept;
    /* Ports of this host that must not be used and are reported to the peer as inactive, because
     * the owner suspects them. */
    uint32_t n_excluded;
    struct {
        uint32_t device;
        uint8_t port;
    } excluded[CONN_EXCLUDED_MAX];
};
/* Sets the defaults stated above. */
void conn_config_default(struct conn_config *config);
/* Multiplies the limits of `config` by `patience`, and sets config->patience. Call it once. */
void conn_config_stretch(struct conn_config *config, uint32_t patience);

/* States in the connector's order. An acceptor goes from NEW to AUTH at once, then through META,
 * QPS and CONNECT_QPS. */
enum conn_state {
    CONN_NEW,       /* created; waits for the first conn_progress */
    CONN_TCP,       /* waits for a TCP stream, or for the end of a pause between rounds */
    CONN_HELLO,     /* waits until the stream has accepted HELLO */
    CONN_CHALLENGE, /* waits for CHALLENGE */
    CONN_AUTH,      /* AUTH and FACTS are queued or sent; waits for the peer's FACTS */
    CONN_QPS,       /* waits until memory is registered and CQs and QPs (INIT) exist */
    CONN_META,      /* waits for META; acceptor: also for conn_answer if it is wanted */
    CONN_CONNECT_QPS, /* waits until all QPs are in RTS */
    CONN_READY,       /* waits for the peer's READY */
    CONN_PROBE,       /* waits until this end's probes have passed, then for PROBED */
    CONN_UP,          /* ready for its owner's work requests */
    CONN_CLOSING,     /* waits until the queues are flushed and the QPs destroyed */
    CONN_CLOSED,      /* everything is freed but the struct itself */
    CONN_FAILED       /* `error` is set; only conn_close or conn_destroy is left */
};
/* Returns the name of a state ("connect_qps"): static text, "?" if it is invalid. */
const char *conn_state_name(enum conn_state state);

/* Returns the phase of a failure in `state`, WEFT_PHASE_NONE where a connection cannot fail. */
enum weft_phase conn_state_phase(enum conn_state state);

/* One rail of a connection, from the moment at which it is chosen. */
struct conn_rail {
    const struct rdma_port *port; /* local port; Not owned */
    uint32_t remote_port;         /* index into peer.ports[] */
    union ibv_gid local_gid, remote_gid;
    enum ibv_gid_type gid_type;
    uint32_t path_mtu;        /* bytes */
    uint32_t vanished_mtu;    /* smallest path MTU of which probes were lost; 0 if none */
    struct ibv_cq *cq;        /* CQ of all QPs of this rail; Owned */
    struct rdma_mr window_mr; /* memory region of the local window on this device */
    enum ibv_gid_type remote_gid_type;
    uint64_t remote_window; /* address of the peer's window */
    uint32_t remote_rkey;   /* rkey of the peer's window on this rail */
};

/* The peer's FACTS. */
struct conn_peer {
    char host[64];
    uint8_t host_id[16];
    struct rdma_port_facts ports[16];
    uint32_t n_ports;
    uint8_t purpose[CONN_PURPOSE_BYTES]; /* zero if the peer is the acceptor */
    bool wants_answer; /* the peer is a connector and wants conn_answer */
};

/* A connection. Only conn/ writes the fields, except `user`, `is_by_the_clock` and config.kept. */
struct conn {
    struct io_task task; /* woken by stream, verbs and CQs; conn_progress handles it */
    enum conn_state state;
    bool is_connector;
    struct rdma *rdma; /* Not owned. */
    struct conn_config config;
    uint64_t id;           /* random, chosen by the connector */
    struct conn_peer peer; /* zero until the peer's FACTS arrive */
    struct conn_rail rails[CONN_RAILS_MAX];
    uint32_t n_rails;
    struct rdma_qp qps[CONN_QPS_MAX]; /* qp i is on rail i % n_rails */
    uint32_t n_qps;
    uint32_t max_inline_bytes;  /* smallest size that a QP was granted */
    uint32_t max_msg_bytes;     /* smallest limit of both ends' devices */
    uint32_t recv_posted;       /* receives posted per QP when UP */
    uint32_t peer_recv_posted;  /* receives that the peer posted per QP */
    uint32_t peer_window_bytes; /* size of the peer's window */
    uint8_t *window;            /* config.window_bytes, zeroed; Owned */
    weft_ns started_ns, up_ns;  /* begin and end of the set-up, absolute */
    weft_ns probe_rtt_ns;       /* duration of the last probe that passed */
    struct weft_error error;    /* valid when FAILED */
    uint32_t stuck_rail; /* rail on which an end failed to connect, or UINT32_MAX */
    uint8_t answer[CONN_PURPOSE_BYTES]; /* acceptor's conn_answer; zero if it gave none */
    void *user;                         /* for the owner; conn/ does not use it */
    /* The peer sent CLOSE, which ends a connection in order. If the peer closes as soon as it is
     * UP, this end still reaches UP and fails at its next conn_progress. */
    bool peer_closed;
    /* Final state in the peer's CLOSE; zero if none. */
    uint8_t peer_final[CONN_PURPOSE_BYTES];
    /* Set by the user of the queues. Returns true for completions whose number depends on timing;
     * the journal excludes them. NULL if there are none. */
    bool (*is_by_the_clock)(const struct ibv_wc *wc);
    struct conn_private *private;
};

/* ---- listening ---- */

/* Sockets on all addresses of a handle, and the clients that came through them. */
struct conn_listener {
    struct io_task task;
    struct conn_listener_private *private;
    void *user;
    /* accepted + rejected + pending == clients; rejected includes timed_out. */
    struct {
        uint64_t clients, pending, accepted, rejected, timed_out;
    } counters;
};

/* Listens on the management addresses and on the addresses of every RDMA port that is not excluded.
 * Policies other than weft and config->over_management leave out the RDMA ports. Writes the handle
 * to `out_handle`; the caller carries it to the connector by any means. The handle holds no state,
 * and knowing it proves membership of the job. `task_kind` tags the listener's task, `conn_kind`
 * the tasks of the connections it accepts. Fails if it can listen on no address. */
weft_status conn_listen(struct rdma *rdma, const struct conn_config *config,
                        int task_kind, int conn_kind,
                        uint8_t out_handle[CONN_HANDLE_BYTES], struct conn_listener **out,
                        struct weft_error *error) WEFT_MUST_CHECK;
/* Accepts and serves clients. Sends BUSY to the peers of connections that conn_accept has not
 * returned for a second. It cannot fail, because it counts, logs and drops bad clients. */
void conn_listener_progress(struct conn_listener *listener);
/* Returns the errno of the last accept if it failed, so that clients wait; otherwise 0. */
int conn_listener_errno(const struct conn_listener *listener);
/* Returns an authenticated connection (state META or later), or NULL if there is none. The caller
 * owns it and must progress and destroy it. */
struct conn *conn_accept(struct conn_listener *listener);
/* Resets pending clients, destroys the connections that conn_accept has not returned, and frees the
 * listener. NULL is ignored. */
void conn_listener_close(struct conn_listener *listener);

/* ---- connecting ---- */

/* Returns true if a port that `config` does not exclude has an address in a subnet of `handle`, or
 * if `handle` is of this host. Returns false if `handle` is malformed. */
bool conn_faces(const struct rdma *rdma, const struct conn_config *config,
                const uint8_t handle[CONN_HANDLE_BYTES]);
/* One cable to another host, inferred from the subnets of both ends' addresses. */
struct conn_facing {
    const struct rdma_port *port; /* Not owned */
    struct io_ip local, remote;
};
/* Finds the first cable to the host of `handle` by a port that `config` does not exclude. Returns
 * false if there is none, or if the handle is malformed. Equal addresses do not face each other. */
bool conn_find_facing(const struct rdma *rdma, const struct conn_config *config,
                      const uint8_t handle[CONN_HANDLE_BYTES], struct conn_facing *out);

/* Starts a connection to `handle`. The caller owns it and must progress and destroy it. Fails only
 * if the handle is malformed or of another version. */
weft_status conn_connect(struct rdma *rdma, const struct conn_config *config,
                         const uint8_t handle[CONN_HANDLE_BYTES], int task_kind,
                         struct conn **out, struct weft_error *error) WEFT_MUST_CHECK;

/* Advances either end of a connection. Returns WEFT_OK when UP (CLOSED after conn_close), and
 * WEFT_AGAIN before that; the task is then woken, at the latest at the next deadline. Returns
 * conn->error.status when FAILED. */
weft_status conn_progress(struct conn *conn) WEFT_MUST_CHECK;

/* Connector: handles that a port of this host lost an address. If it was that of the stream, the
 * watch for a silent peer (silence_ns) ends at once, because nothing can arrive. */
void conn_lost_address(struct conn *conn);

/* Answers the purpose of a connector that wants it. The acceptor's owner must call it once, before
 * the connection is UP. The connector can read conn->answer when it is UP. */
void conn_answer(struct conn *conn, const uint8_t answer[CONN_PURPOSE_BYTES]);
/* Aborts the connection at either end. Sends `why` (status, phase, errno) to the peer and enters
 * FAILED. Does nothing in CLOSING, CLOSED or FAILED. */
void conn_refuse(struct conn *conn, const struct weft_error *why);

/* Returns true if `why` is the result of a path MTU probe after which the same ports can be tried
 * again: with a smaller path MTU, or with the same one after RDMA_PATH_PAUSE_NS. */
bool conn_path_is_judged(const struct weft_error *why);
/* Returns true if set-up failed with `why` for a reason that can pass, so that a retry can succeed.
 * Reasons: a port at either end is down or excluded, a GID is missing, nothing arrived, or a port's
 * MTU is now lower than the agreed path MTU. Can re-read the ports of this host. */
bool conn_waits_for_port(const struct conn *conn, const struct weft_error *why);
/* Returns true if a port of this host is down, or if the peer reported one as inactive. A port can
 * come up with addresses that it does not have now. Ports of this host that the configuration
 * excludes, and those of a lost device, do not count. */
bool conn_any_down(const struct conn *conn);
/* Returns true if this end has no address in a subnet of the peer: no port shares one, or the step
 * to RTR failed (ENETUNREACH) because the address of the GID no longer exists. */
bool conn_lacks_address(const struct weft_error *why);
/* Returns true if a verb at either end was refused for a reason that waiting does not remove. The
 * other reasons (a signal, a lost device, a neighbour that does not answer) can pass soon. */
bool conn_is_refused(const struct weft_error *why);

/* Connector: returns since when the cable of the only rail was silent, if set-up failed with `why`
 * because nothing passed there. Nothing had come before, when the cable was dialed, or the stream
 * was on the cable and nothing came. A host with one port, or with one pair of addresses to dial,
 * has one cable, also before rails are chosen. 0 if that is unknown. */
weft_ns conn_silent_since(const struct conn *conn, const struct weft_error *why);

/* Connector: returns true if the connection failed because no address of the peer answered
 * (conn_config.is_known_to_run). */
bool conn_is_unanswered(const struct conn *conn);

/* Returns true if an end of one of the rails may stall (io_device_attr); false before rails are
 * chosen. */
bool conn_may_stall(const struct conn *conn);
/* Returns when an end was last seen to stall; 0 if never. The peer stalls if its process sends
 * nothing for TIMER_STILL_AFTER_NS although its kernel acknowledges all that is sent to it. This
 * process stalls while it is descheduled. A process that exited does not stall, because its kernel
 * ends its streams. */
weft_ns conn_still_ns(const struct conn *conn);
/* Returns when the last message came from the peer, or when this end began to wait for one; 0 if it
 * has not begun. */
weft_ns conn_heard_ns(const struct conn *conn);
/* Writes to `out` the ports of this host that would add rails if set-up began now, and returns
 * their number. Such a port was reported as inactive, or without an address that it has now. It is
 * active and shares a subnet with a port of the peer that no rail uses. That port can be inactive.
 * Also returns one port that has an address if the peer reported an active port without one.
 * Excluded ports count, because they were reported as inactive. Returns 0 unless the policy is
 * weft. */
uint32_t conn_late_ports(const struct conn *conn,
                         const struct rdma_port *out[CONN_RAILS_MAX]);

/* Saves the rails of a connection that is UP. */
void conn_keep(const struct conn *conn, struct conn_kept *out);
/* Adds to `error` the saved values of a rail of a connection with config.kept: ports and both ends'
 * GIDs, with their types and slots. */
void conn_kept_describe(const struct conn *conn, uint32_t rail, struct weft_error *error);

/* Starts an orderly close: sends CLOSE, moves the QPs to ERR, drains the flushed completions and
 * frees everything but the struct. The caller must progress the connection until CLOSED. */
void conn_close(struct conn *conn);
/* Like conn_close, but sends the owner's final state with CLOSE. Opaque to conn/. */
void conn_close_with(struct conn *conn, const uint8_t final[CONN_PURPOSE_BYTES]);
/* Frees the connection in any state without waiting; abandons operations under way. NULL is
 * ignored. */
void conn_destroy(struct conn *conn);

/* Reads the settings by which other programs choose GIDs (rdma_gid_rule), and whether they treat
 * each port of a NIC as a NIC of its own. Policy weft reads none. */
void conn_choice_settings(struct io_env *env, enum weft_policy policy,
                          struct rdma_gid_rule *out_gid, bool *out_splits_nics);

/* Returns true if the policy's program opens this port. NCCL's policies read NCCL_IB_HCA; the
 * others open all ports. */
bool conn_opens(struct io_env *env, enum weft_policy policy,
                const struct rdma_port *port);

/* Returns true if `config` excludes this port. */
bool conn_excludes(const struct conn_config *config, uint32_t device, uint8_t port);

/* Returns true if one of these ports is active and has no GID of an address that is not
 * link-local. */
bool conn_any_bare(const struct rdma_port_facts *ports, uint32_t n_ports);
/* Does the same for ports that can be down. */
bool conn_any_unaddressed(const struct rdma_port_facts *ports, uint32_t n_ports);
/* Writes the facts of the first `cap` ports of this host and returns their number. */
uint32_t conn_local_facts(const struct rdma *rdma, struct rdma_port_facts *out,
                          uint32_t cap);

#endif
