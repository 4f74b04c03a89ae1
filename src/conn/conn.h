/* Connections: from an opaque handle to a proven set of queue pairs. The connector is
 * the sender, the acceptor the receiver of messages (xfer/); control flows both ways.
 *
 * Happy path: TCP -> HELLO, CHALLENGE, AUTH+facts, META (docs/wire.md) -> QPs RTR, RTS
 * on both ends -> READY -> probe (a WRITE and a full-MTU READ cross every QP in both
 * directions) -> UP. Failure at any step: both ends get a typed error within their
 * deadline, everything is given back, the listener lives on. */
#ifndef WEFT_CONN_CONN_H
#define WEFT_CONN_CONN_H

#include "io/env.h"
#include "rdma/mr.h"
#include "rdma/policy.h"
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

/* The wr_id of receives that conn posts (no SGEs, for WRITE_WITH_IMM). */
#define CONN_WR_RECV UINT64_C(0xfffffffffffffff0)

struct conn_journal;

/* Rails as a connection had them when it was up: for one that takes them again as they were. */
struct conn_kept {
    uint32_t n_rails;
    struct {
        const struct rdma_port *port; /* Not owned */
        char remote_name[40];         /* rdma_port_facts' */
        union ibv_gid local_gid, remote_gid;
        enum ibv_gid_type local_type, remote_type;
        uint32_t local_index, remote_index; /* the GIDs' slots then */
        uint32_t path_mtu;
    } rails[CONN_RAILS_MAX];
};

struct conn_config {
    enum rdma_policy policy;
    uint32_t channel;      /* for policies that choose by channel */
    uint32_t qps_per_rail; /* 1..; total at most CONN_QPS_MAX */
    uint32_t send_wr_max;  /* send queue depth asked per QP */
    uint32_t recv_wr_max;  /* receives kept posted per QP */
    uint32_t window_bytes; /* registered memory that the peer may write: xfer's CTS */
    /* ACK timeout code; with retry_cnt the detection time. 0: TIMER_ACK_CODE, and
     * TIMER_ACK_CODE_STALL on rails with an end that may stall (io_device_attr). */
    uint8_t timeout;
    uint8_t retry_cnt;
    uint8_t traffic_class; /* of this end's packets: TOS byte, ECN bits included; 0 */
    bool has_secret;
    uint8_t secret[CONN_SECRET_BYTES]; /* job key: mixed into every connection's key */
    weft_ns authenticate_ns;           /* limit for a client to authenticate: 5 s */
    weft_ns total_ns; /* limit for the whole set-up once TCP is up: 30 s */
    /* Limit for a peer from which nothing comes during set-up, not even BUSY; 0: none. */
    weft_ns silence_ns;
    weft_ns patience_ns; /* how long a peer may not be listening yet: 900 s */
    /* Software deadline of one probe try: 100 ms; TIMER_PROBE_STALL_NS at least on rails with an
     * end that may stall. */
    weft_ns probe_ns;
    uint32_t probe_tries;  /* 3 */
    uint32_t pending_max;  /* clients not yet authenticated: 64 */
    bool over_management;  /* TCP by the management network, not the cable ... */
    bool management_first; /* ... or by the cable only when that fails */
    /* How the listener's log words a refusal; NULL: weft_error_format. Always terminates. */
    void (*word)(const struct weft_error *why, char *out, size_t out_bytes);
    /* What queues completed goes there; or NULL. Not owned. */
    struct conn_journal *journal;
    /* The connector's: what the connection is for, told under authentication. Opaque here. */
    uint8_t purpose[CONN_PURPOSE_BYTES];
    bool wants_answer; /* the acceptor waits for its owner's conn_answer before META */
    /* Ports of this host that NCCL's own choice of a device gives, for policies that choose as
     * NCCL does; none: NIC `channel` mod n. */
    uint32_t n_chosen;
    struct {
        uint32_t device;
        uint8_t port;
    } chosen[CONN_CHOSEN_MAX];
    /* Not NULL: the rails are those of these whose ports are active at both ends, and nothing is
     * chosen or looked up. Both ends set it, the acceptor before conn_answer. Not owned. */
    const struct conn_kept *kept;
    /* Ports of this host that are not used, nor told as active: their owner suspects them. */
    uint32_t n_excluded;
    struct {
        uint32_t device;
        uint8_t port;
    } excluded[CONN_EXCLUDED_MAX];
};
/* The defaults stated above; 2 QPs a rail. */
void conn_config_default(struct conn_config *config);

enum conn_state {
    CONN_NEW,
    CONN_TCP,
    CONN_HELLO,
    CONN_CHALLENGE,
    CONN_AUTH,
    CONN_QPS,
    CONN_META,
    CONN_CONNECT_QPS,
    CONN_READY,
    CONN_PROBE,
    CONN_UP,
    CONN_CLOSING,
    CONN_CLOSED,
    CONN_FAILED
};
const char *conn_state_name(enum conn_state state);

/* One rail of a connection that is up. */
struct conn_rail {
    const struct rdma_port *port; /* local; Not owned */
    uint32_t remote_port;         /* index into peer facts */
    union ibv_gid local_gid, remote_gid;
    enum ibv_gid_type gid_type;
    uint32_t path_mtu;        /* bytes */
    uint32_t vanished_mtu;    /* a larger one, whose packets vanished in probes; or 0 */
    struct ibv_cq *cq;        /* of this connection on this device; Owned */
    struct rdma_mr window_mr; /* local window on this device */
    uint64_t remote_window;   /* address of the peer's window ... */
    uint32_t remote_rkey;     /* ... as this rail reaches it */
};

struct conn_peer {
    char host[64];
    uint8_t host_id[16];
    struct rdma_port_facts ports[16];
    uint32_t n_ports;
    uint8_t purpose[CONN_PURPOSE_BYTES]; /* the connector's; zero if the peer accepted */
    bool wants_answer;
};

/* A connection. Fields are for reading; set only by conn/. */
struct conn {
    struct io_task task; /* woken by the stream, verbs, CQs; the owner dispatches */
    enum conn_state state;
    bool is_connector;
    struct rdma *rdma; /* Not owned. */
    struct conn_config config;
    uint64_t id;           /* random, chosen by the connector */
    struct conn_peer peer; /* as authenticated */
    struct conn_rail rails[CONN_RAILS_MAX];
    uint32_t n_rails;
    struct rdma_qp qps[CONN_QPS_MAX]; /* qp i is on rail i % n_rails */
    uint32_t n_qps;
    uint32_t max_inline_bytes; /* the least granted */
    uint32_t max_msg_bytes;    /* the lesser of both ends' devices */
    uint32_t recv_posted;      /* receives posted per QP when UP */
    uint32_t peer_recv_posted; /* the peer's */
    uint8_t *window;           /* config.window_bytes, zeroed; Owned */
    weft_ns started_ns, up_ns; /* set-up time is the difference */
    weft_ns probe_rtt_ns;      /* of the last probe */
    struct weft_error error;   /* when FAILED */
    uint32_t stuck_rail;       /* ... by which an end failed to connect, or UINT32_MAX */
    uint8_t answer[CONN_PURPOSE_BYTES]; /* the acceptor's; zero if it gave none */
    void *user;                         /* the owner's; never touched */
    /* The peer sent CLOSE, which ends a connection in order; and the final state that its owner
     * sent with it, zero if it sent none. An end that closes as soon as it is up does not undo the
     * other end's set-up: that end is UP first, and fails at its next conn_progress. */
    bool peer_closed;
    uint8_t peer_final[CONN_PURPOSE_BYTES];
    /* Set by whoever uses the queues: completions that come as often as time will have it, and
     * stay out of the journal. NULL: none. */
    bool (*is_by_the_clock)(const struct ibv_wc *wc);
    struct conn_private *private;
};

/* ---- listening ---- */

struct conn_listener {
    struct io_task task;
    struct conn_listener_private *private;
    void *user;
    struct { /* always: accepted + rejected + pending == clients */
        uint64_t clients, pending, accepted, rejected, timed_out;
    } counters;
};

/* Listens on every RDMA port's addresses and on the management address (or only there,
 * by policy). Fills `out_handle`, CONN_HANDLE_BYTES, to be carried to the connector by
 * any means; it holds no state, and knowing it proves membership of the job.
 * `task_kind` tags the listener's task; `conn_kind` that of the connections it
 * accepts. */
weft_status conn_listen(struct rdma *rdma, const struct conn_config *config,
                        int task_kind, int conn_kind,
                        uint8_t out_handle[CONN_HANDLE_BYTES], struct conn_listener **out,
                        struct weft_error *error) WEFT_MUST_CHECK;
/* Serves clients; never fails: bad clients are counted, logged and dropped. */
void conn_listener_progress(struct conn_listener *listener);
/* Takes a connection that has authenticated (state META or later): now the caller's,
 * to be progressed and closed. NULL if there is none. */
struct conn *conn_accept(struct conn_listener *listener);
/* Resets pending clients. NULL is ignored. */
void conn_listener_close(struct conn_listener *listener);

/* ---- connecting ---- */

/* Whether a cable leads to the host of `handle`, by the subnets of both ends' addresses, or it
 * is this host itself. False for what is no handle. */
bool conn_faces(const struct rdma *rdma, const struct conn_config *config,
                const uint8_t handle[CONN_HANDLE_BYTES]);
/* One cable to another host, as the subnets of both ends' addresses show it. */
struct conn_facing {
    const struct rdma_port *port; /* Not owned */
    struct io_ip local, remote;
};
/* Finds the first cable to the host of `handle` by a port that `config` does not exclude. Returns
 * false if there is none, and for a handle of this host or a malformed one. */
bool conn_find_facing(const struct rdma *rdma, const struct conn_config *config,
                      const uint8_t handle[CONN_HANDLE_BYTES], struct conn_facing *out);

/* Starts a connection to `handle`; it is the caller's to progress and close. Fails
 * only on a malformed handle or lack of memory. */
weft_status conn_connect(struct rdma *rdma, const struct conn_config *config,
                         const uint8_t handle[CONN_HANDLE_BYTES], int task_kind,
                         struct conn **out, struct weft_error *error) WEFT_MUST_CHECK;

/* Does what can be done now, for either end. WEFT_OK: UP (or CLOSED after conn_close).
 * AGAIN: wait for the task, whose deadline is set. An error: FAILED, conn->error
 * tells. */
weft_status conn_progress(struct conn *conn) WEFT_MUST_CHECK;

/* The acceptor's owner answers a purpose that wants it, once, before the connection is up;
 * the connector reads conn->answer when it is. */
void conn_answer(struct conn *conn, const uint8_t answer[CONN_PURPOSE_BYTES]);
/* Ends a connection that is not closing, from either end, telling the peer `why` (status,
 * phase, errno): FAILED, unless it is already. */
void conn_refuse(struct conn *conn, const struct weft_error *why);

/* A path was asked, whether it takes full frames, and `why` is what came of it: the same ports
 * are worth another attempt, with a lower path MTU, or the same after RDMA_PATH_PAUSE_NS. */
bool conn_path_is_judged(const struct weft_error *why);
/* Returns true if set-up failed, as `why` says, because a port is down at either end, because a
 * GID is away there, or because nothing passed: the same connection can succeed later. */
bool conn_waits_for_port(const struct conn *conn, const struct weft_error *why);
/* Returns true if a port is down at either end, as far as this attempt learned. It may come up with
 * addresses that it has not now. Ports that the configuration leaves out, and those of a device
 * that is gone, do not count. */
bool conn_any_down(const struct conn *conn);
/* Returns true if this end has no address in a subnet of the peer: no port shares one, or RTR was
 * refused (ENETUNREACH) for a GID that has outlived its address. */
bool conn_lacks_address(const struct weft_error *why);

/* Whether either end of a rail may stall (io_device_attr); false before rails are chosen. */
bool conn_may_stall(const struct conn *conn);
/* Returns when an end was last seen to stand still, or 0: the peer's process said nothing for
 * TIMER_STILL_AFTER_NS though its kernel acknowledged all that it was sent, or this process had no
 * processor. A process that died has a kernel that ends its streams. */
weft_ns conn_still_ns(const struct conn *conn);
/* Ports of this host over which there would be more rails, if set-up was now: they were told as
 * inactive, or without the address, are active and have it, and face ports of the peer that are not
 * in use, whatever became of those. Policy weft's only; returns how many. */
uint32_t conn_late_ports(const struct conn *conn,
                         const struct rdma_port *out[CONN_RAILS_MAX]);

/* Takes down the rails of a connection that is up. */
void conn_keep(const struct conn *conn, struct conn_kept *out);
/* Adds to `error` what a rail of a connection with config.kept has from before: both ends' GIDs,
 * with their types and slots. */
void conn_kept_describe(const struct conn *conn, uint32_t rail, struct weft_error *error);

/* Orderly: QPs to ERR, flushed completions drained, everything given back; progress until
 * CLOSED. */
void conn_close(struct conn *conn);
/* As conn_close, and sends the owner's final state with CLOSE. Opaque here. */
void conn_close_with(struct conn *conn, const uint8_t final[CONN_PURPOSE_BYTES]);
/* Frees the connection at once from any state; what is under way is abandoned. NULL
 * ok. */
void conn_destroy(struct conn *conn);

/* What this process's settings make of other programs' choices: rdma_gid_rule, and whether ports
 * of a NIC are NICs of their own. Policy weft reads none. */
void conn_choice_settings(struct io_env *env, enum rdma_policy policy,
                          struct rdma_gid_rule *out_gid, bool *out_splits_nics);

/* Whether the policy's program opens this port at all: NCCL's by NCCL_IB_HCA. */
bool conn_opens(struct io_env *env, enum rdma_policy policy,
                const struct rdma_port *port);

/* Whether `config` excludes this port. */
bool conn_excludes(const struct conn_config *config, uint32_t device, uint8_t port);

/* Returns true if one of these ports is active and has no address that a peer could face. */
bool conn_any_bare(const struct rdma_port_facts *ports, uint32_t n_ports);
/* This end's ports as facts for the peer; returns how many of `cap`. */
uint32_t conn_local_facts(const struct rdma *rdma, struct rdma_port_facts *out,
                          uint32_t cap);

#endif
