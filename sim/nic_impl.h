/* Inside the NIC: its objects and the functions that its files share. */
#ifndef WEFT_SIM_NIC_IMPL_H
#define WEFT_SIM_NIC_IMPL_H

#include "base/heap.h"
#include "base/text.h"
#include "sim/frame.h"
#include "sim/link.h"
#include "sim/memory.h"
#include "sim/nic.h"
#include "sim/numbers.h"

enum { SIM_PORTS_MAX = 2, SIM_PAGE_BYTES = 4096, SIM_BANKS_MAX = 8, SIM_SGES_MAX = 256 };

/* A process that has the device open. */
struct sim_nic_user {
    struct sim_nic *nic;
    int64_t *memlock_bytes;        /* what it may still pin; or NULL */
    struct sim_dmabufs *dmabufs;   /* Not owned. Or NULL */
    struct ibv_async_event *async; /* Owned array of [cap], a ring. */
    uint32_t head, n, cap;
    struct sim_waker waker;
    struct sim_event notify;
};

/* What a key was found to allow, under one PD and to one kind of access: it does as long as no key
 * dies. */
struct sim_grant {
    uint64_t from, n_bytes; /* n_bytes 0: nothing yet */
    uint64_t generation;    /* of MRs */
    uint32_t key;
};

struct sim_pd {
    struct ibv_pd ibv; /* first: users hold its address */
    struct sim_nic *nic;
    struct sim_nic_user *user; /* who made it; MRs and QPs under it are that one's */
    uint32_t n_children;       /* MRs and QPs */
    struct sim_pd *next, **link;
};

struct sim_mr {
    struct ibv_mr ibv; /* first */
    struct sim_nic *nic;
    struct sim_pd *pd;
    uint32_t access; /* IBV_ACCESS_* */
    int64_t pinned_bytes;
    uint64_t iova;  /* how keys address its first byte */
    uint64_t shift; /* from there to where that byte is, modulo 2^64 */
    bool is_revoked;
    bool is_relaxed; /* IBV_ACCESS_RELAXED_ORDERING: PCIe may bring pieces in any order */
    bool sees_late;  /* a GPU's, and the device has a gpu_visibility_ps */
    struct sim_dmabuf *dmabuf; /* memory of a GPU; or NULL */
    struct sim_mr *next_attached;
};

/* A slot of the MR table. Keys are index << 8 | variant. */
struct sim_mr_slot {
    struct sim_mr *mr; /* NULL while free */
    uint32_t next_free;
    uint8_t variant;
};

struct sim_cqe {
    struct ibv_wc wc;
    weft_ps visible_at;
    /* position in the QP's queue that polling this entry frees up to */
    uint32_t n_retired;
    uint32_t qp_serial : 30;
    uint32_t is_send : 1;
    uint32_t is_solicited : 1; /* or an error: wakes a CQ armed for solicited ones only */
};

_Static_assert(sizeof(struct sim_cqe) == WEFT_LINE_BYTES, "one cache line an entry");

/* Serial numbers of QPs, as entries have them. */
#define SIM_SERIAL_MASK 0x3fffffffu

struct sim_cq {
    struct ibv_cq ibv; /* first */
    _Alignas(WEFT_LINE_BYTES) struct sim_nic_user *user;
    uint32_t n_qps;
    uint32_t number;    /* CQN: id * cqn_banks + bank */
    uint32_t n_unacked; /* events that the user got and did not acknowledge */
    bool acks_events;
    struct sim_waker waker;
    /* What every completion uses, in one cache line from the middle of the event on. Pending
     * while armed and an entry is to become visible. */
    struct sim_event notify;
    struct sim_nic *nic;
    /* Owned array of [cap], a power of two that grows to the depth. */
    struct sim_cqe *ring;
    uint32_t head, n, cap;
    uint32_t depth; /* of what the user sees */
    bool is_overrun;
    bool is_armed, armed_solicited;

    struct sim_cq *next, **link;
};

_Static_assert(offsetof(struct sim_cq, notify.at) % WEFT_LINE_BYTES == 0,
               "a completion finds what it uses in one cache line");

/* A work request in the send queue. */
struct sim_wqe {
    uint64_t wr_id;
    uint64_t remote_addr;
    weft_ps ready_at; /* when the NIC has read it */
    uint32_t rkey;
    uint32_t imm;    /* host order */
    uint32_t length; /* bytes of the message */
    uint32_t first_psn;
    uint32_t n_psn;
    uint32_t n_done; /* READ: responses landed */
    uint32_t n_sge;
    enum ibv_wr_opcode opcode;
    bool is_signaled, is_fenced, is_solicited, is_inline;
    bool is_plain;       /* a SEND or WRITE out of one piece of memory */
    bool is_too_long;    /* for the port; `length` is 0 */
    bool is_outstanding; /* counts against max_rd_atomic */
};

_Static_assert(sizeof(struct sim_wqe) == WEFT_LINE_BYTES, "one cache line a message");

/* What an atomic has besides. */
struct sim_operands {
    uint64_t compare, swap_add;
};

struct sim_recv_wqe {
    uint64_t wr_id;
    uint64_t capacity; /* bytes of its SGEs */
    weft_ps ready_at;  /* when the NIC knows of it */
    uint32_t n_sge;
};

struct sim_srq {
    struct ibv_srq ibv; /* first */
    struct sim_nic *nic;
    struct sim_pd *pd;
    uint32_t n_qps, n_unacked;
    uint32_t head, post; /* run freely; slot = position & mask */
    uint32_t depth, mask, max_sge;
    uint32_t limit;            /* 0: not armed */
    struct sim_recv_wqe *wqes; /* Owned array of [mask + 1]. */
    struct ibv_sge *sges;      /* Owned array of [mask + 1][max_sge]. */
    struct sim_srq *next, **link;
};

/* What a responder remembers of a READ or atomic, so that it can answer a duplicate. */
struct rc_resource {
    uint32_t first_psn, n_psn;
    uint32_t next; /* READ: the next response to send, from 0 */
    uint32_t last; /* one past the last response of this run */
    uint32_t base; /* the response at which this run started: sent as FIRST */
    uint64_t va;   /* of response 0 */
    uint32_t rkey, length;
    uint32_t msn;      /* of its responses: messages that follow are not done by then */
    uint64_t original; /* atomics: the value found */
    weft_ps ready_at;
    bool is_known;   /* holds something */
    bool is_pending; /* responses are still to be sent */
    bool is_repeat;  /* this run answers a duplicate */
    bool is_atomic;
};

enum rc_message { RC_NO_MESSAGE, RC_IN_SEND, RC_IN_WRITE };

/* One acknowledgement waiting for its turn. */
struct rc_reply {
    bool is_pending;
    bool is_fatal; /* sent although the QP is in ERR */
    uint8_t syndrome;
    uint32_t psn, msn;
    weft_ps at;
};

/* Requester, responder and QP: what every message uses comes first, in whole cache lines. */
struct rc_requester {
    /* Queue positions run freely; slot = position & mask. Retired (`free`), then sent, then
     * posted. */
    uint32_t una, send, post, mask;
    struct sim_wqe *wqes;         /* Owned array of [mask + 1]. */
    uint32_t packet;              /* of the WR at `send` */
    uint32_t next_psn;            /* of the next packet */
    uint32_t max_psn;             /* one past the highest that was ever sent */
    uint32_t una_psn;             /* the oldest not acknowledged */
    uint8_t retry_cnt, rnr_retry; /* as in attr */
    uint8_t retries_left, rnr_retries_left;
    bool went_back; /* by a NAK, without progress since */
    bool is_rnr_waiting;
    bool is_faulted;    /* the WR at `send` failed locally */
    bool is_timed;      /* `retry` is scheduled */
    weft_ps deadline;   /* of the oldest unacknowledged packet; SIM_NEVER: none */
    weft_ps timeout_ps; /* by attr.timeout; 0: none */
    /* An acknowledgement finds all above in one cache line; posting and sending use the next. */
    uint32_t free, depth;
    uint32_t started;       /* one past the last WR of which something was sent */
    uint32_t max_sge;       /* of a WR */
    struct ibv_sge *sges;   /* Owned array of [mask + 1][max_sge]. */
    uint32_t post_psn;      /* of the next WR to be posted */
    uint32_t since_ack_req; /* packets */
    struct sim_grant grant; /* to read what is sent */

    uint64_t checked_generation; /* since this generation of MRs... */
    uint32_t checked;            /* ...the SGEs of this WR position, less one, are good */
    uint32_t n_outstanding;      /* READs and atomics */
    enum ibv_wc_status fault;
    uint32_t max_inline;
    uint8_t *inline_bytes;         /* Owned array of [mask + 1][max_inline]. */
    struct sim_operands *operands; /* Owned array of [mask + 1]. */
    struct sim_event doorbell, retry, rnr;
};

struct rc_responder {
    uint32_t free, head, post, mask;
    struct sim_recv_wqe *wqes; /* Owned array of [mask + 1]. */
    uint32_t epsn, msn;        /* 24 bits */
    struct rc_reply reply;
    uint32_t n_pending; /* of `pending` */
    bool sent_nak;      /* one NAK per gap */
    bool comm_est;      /* the first packet came */

    struct sim_grant grant; /* to write */
    enum rc_message message;
    uint32_t message_bytes;
    uint32_t write_rkey;
    uint32_t write_left;
    uint64_t write_va;
    uint64_t write_generation; /* of MRs, when the whole WRITE was allowed */

    uint32_t depth;
    uint32_t max_sge;
    struct ibv_sge *sges; /* Owned array of [mask + 1][max_sge]. */
    /* Behind `reply`, where ACKs are single: Owned ring of [behind_cap]. */
    struct rc_reply *behind;
    uint32_t behind_head, n_behind;
    uint32_t behind_cap;
    struct rc_resource *resources; /* Owned array of [n_resources]: a ring. */
    uint32_t n_resources, next_resource;
    uint32_t *pending;    /* Owned array of [n_resources]: by PSN, first next. */
    struct sim_event due; /* the next reply may be sent */
};

struct sim_nic_port;

struct sim_qp {
    struct ibv_qp ibv; /* first */
    struct sim_pd *pd;
    struct sim_srq *srq; /* or NULL: `rq` holds what was posted, else one WR in hand */
    const struct sim_path *path; /* of what it sends */

    _Alignas(WEFT_LINE_BYTES) struct sim_nic *nic;
    struct sim_nic_port *port; /* bound at INIT; NULL before */
    struct sim_cq *send_cq, *recv_cq;
    /* Incoming path that was found to match: interned, or `heard`; NULL if none. */
    const struct sim_path *verified;
    struct sim_qp *next_ready; /* of its port's list */
    /* What modify_qp set; the rest of it is `attr`. */
    uint32_t access;
    uint16_t mtu_bytes;
    uint16_t overhead_bytes; /* of a packet without payload, on the wire */
    uint32_t serial;         /* changes with every use of the slot and every RESET */
    uint8_t state;           /* enum ibv_qp_state */
    bool is_ready;           /* on its port's list */
    bool reply_turn;         /* responses go first if both sides have something */
    bool sq_sig_all;

    _Alignas(WEFT_LINE_BYTES) struct rc_requester sq;
    _Alignas(WEFT_LINE_BYTES) struct rc_responder rq;
    /* What all packets that it sends have in common. */
    _Alignas(WEFT_LINE_BYTES) struct sim_frame model;

    uint32_t dest_qpn;
    uint16_t sport;
    struct ibv_qp_attr attr;
    char name[40];      /* "p0/qp17" */
    uint32_t ordinal;   /* by creation on its port, from 1 */
    uint32_t n_verbs;   /* control verbs in progress */
    uint32_t n_unacked; /* events that the user got and did not acknowledge */
    uint32_t ece_asked, ece_accepted; /* options */
    bool ece_is_asked;                /* and not yet accepted */
    bool flush_is_due; /* ERR, and its first error completion is not polled yet */
    bool holds_gid;    /* the sgid_index of `attr`: that slot is not refilled meanwhile */
    struct sim_piece *pieces; /* list: not in host memory yet */
    struct sim_path heard;    /* copy of the last accepted path that is not interned */
};

/* Returns the copy of `path` that QP `dest_qpn` accepted last, or `path` itself. nic may be
 * NULL. */
const struct sim_path *sim_nic_heard_path(const struct sim_nic *nic, uint32_t dest_qpn,
                                          const struct sim_path *path);

/* One port as the NIC sees it. */
struct sim_nic_port {
    struct sim_port *port;
    struct sim_qp *ready;
    uint32_t n_bound; /* QPs ever bound to it */
    uint16_t ipv4_id; /* of the last packet, where they rise */
    uint8_t number;   /* from 1 */
    struct sim_qp **ready_tail;
};

struct sim_verb_fault {
    int verb;
    uint32_t nth;
    int error;
    weft_ps by;
    struct sim_verb_fault *next;
};

struct sim_nic {
    /* What every packet and every completion uses, in one cache line: a fabric of a thousand
     * NICs does not fit a cache. */
    struct sim_engine *engine;
    const struct sim_profile *profile; /* the engine's, shared with NICs like it */
    struct sim_qp **qps; /* Owned array of [n_qp_slots] by QPN - qpn_base; NULL: free. */
    uint32_t n_qp_slots, qpn_base;
    struct sim_qp *few_qps[2]; /* `qps` while these are enough */
    uint64_t tx_packets, rx_packets;
    /* What every message uses besides, in the next. */
    uint64_t mr_generation;            /* grows when a key dies */
    const struct sim_phantom *phantom; /* the engine's */
    struct sim_piece *pieces; /* Owned tree: written, not in memory yet (sim/landing.c) */
    uint32_t n_odd_mrs;       /* with a shift, or of a GPU */
    uint8_t n_ports;
    bool checks_payload;           /* hash at send, compare at delivery */
    struct sim_verb_fault *faults; /* Owned list */
    struct sim_nic_port ports[SIM_PORTS_MAX];

    /* Owned array of [mr_cap]; slots up to n_mr_slots were used. */
    struct sim_mr_slot *mrs;
    uint32_t n_mr_slots;
    struct sim_nic_counters counters; /* but packets */

    char *host, *name; /* Owned. */
    struct sim_stack *stack;
    struct sim_nic_user **users; /* Owned array of [n_users], and they. */
    uint32_t n_users;
    struct weft_rng rng;

    struct sim_pd *pds;
    uint32_t n_pds;
    struct sim_numbers pdns;
    struct sim_cq *cqs;
    uint32_t n_cqs;
    struct sim_srq *srqs;
    struct sim_numbers cqns[SIM_BANKS_MAX]; /* by bank */

    uint32_t mr_cap, n_mrs, n_mr_free;
    uint32_t mr_free_first, mr_free_last;
    struct sim_event landing; /* of the next of `pieces` */
    struct weft_heap pieces_due;
    struct sim_piece *pieces_of_side[2]; /* lists: of the host, of a GPU */
    uint64_t n_pieces_ever;
    uint64_t n_piece_visits; /* of entries of the tree, as a measure of its cost */
    struct weft_rng landing_rng;

    uint32_t n_qps, next_serial;
    uint32_t qpn_next[SIM_BANKS_MAX]; /* of each bank, where the next number is sought */
    uint32_t qps_in_bank[SIM_BANKS_MAX];

    struct sim_request *requests; /* in progress */

    void (*watch)(void *context, const struct nic_verb *verb); /* or NULL */
    void *watch_context;

    uint32_t n_commands;   /* control verbs that were commands to the device */
    uint32_t n_send_cqes;  /* successful ones, if general_err_nth counts them */
    weft_ps dereg_free_at; /* when the last dereg_mr ends, where they are serialised */

    uint64_t n_payload_changes;
};

static inline struct sim_qp *sim_qp_of(struct ibv_qp *qp)
{
    return (struct sim_qp *)(void *)qp;
}

static inline struct sim_cq *sim_cq_of(struct ibv_cq *cq)
{
    return (struct sim_cq *)(void *)cq;
}

static inline struct sim_srq *sim_srq_of(struct ibv_srq *srq)
{
    return (struct sim_srq *)(void *)srq;
}

static inline struct sim_pd *sim_pd_of(struct ibv_pd *pd)
{
    return (struct sim_pd *)(void *)pd;
}

static inline struct sim_mr *sim_mr_of(struct ibv_mr *mr)
{
    return (struct sim_mr *)(void *)mr;
}

/* Hashes payloads at send and compares at delivery: a change between the two is counted and
 * told in the story. For tests; costs time on every packet. */
void sim_nic_check_payloads(struct sim_nic *nic, bool on);
uint64_t sim_nic_payload_changes(const struct sim_nic *nic);

/* Story lines of a QP, if they are on: "object event" with a format for the tail. Who comes
 * by with every message asks first. */
static inline bool sim_qp_traced(const struct sim_qp *qp)
{
    return weft_trace_on(sim_trace(qp->nic->engine), WEFT_TRACE_STORY);
}
void sim_qp_trace(const struct sim_qp *qp, const char *event, const char *format, ...)
    WEFT_PRINTF(3, 4);
const char *sim_qp_state_name(enum ibv_qp_state state);
const char *sim_wc_status_name(enum ibv_wc_status status);
const char *sim_wr_opcode_name(enum ibv_wr_opcode opcode);
const char *sim_event_name(enum ibv_event_type type);

/* The largest path MTU that the netdev behind `port` carries; 0: none. */
uint32_t sim_nic_active_mtu(const struct sim_nic *nic, const struct sim_port *port);

/* Objects. The makers return a positive errno or 0. */
int sim_pd_alloc(struct sim_nic_user *user, struct sim_pd **out);
int sim_pd_dealloc(struct sim_pd *pd);
int sim_mr_reg(struct sim_pd *pd, const struct sim_reg_mr *arg, struct sim_mr **out);
/* Its memory went; the key lives and allows nothing. */
void sim_mr_revoke(struct sim_mr *mr);
int sim_mr_dereg(struct sim_mr *mr);
int sim_cq_create(struct sim_nic_user *user, int cqe, const struct sim_waker *waker,
                  struct sim_cq **out);
int sim_cq_destroy(struct sim_cq *cq);
int sim_qp_create(struct sim_pd *pd, struct ibv_qp_init_attr *init, struct sim_qp **out);
int sim_qp_destroy(struct sim_qp *qp);
int sim_srq_create(struct sim_pd *pd, struct ibv_srq_init_attr *init,
                   struct sim_srq **out);
int sim_srq_modify(struct sim_srq *srq, const struct ibv_srq_attr *attr, int mask);
int sim_srq_destroy(struct sim_srq *srq);
/* The oldest receive WR becomes the one in hand of `qp`. False if there is none. */
bool sim_srq_take(struct sim_qp *qp);
/* A free slot of the QP table by the profile's rule, or SIM_NO_NUMBER. */
uint32_t sim_qp_take_slot(struct sim_nic *nic, const struct sim_cq *send_cq);
void sim_qp_give_slot(struct sim_nic *nic, uint32_t slot);
/* Frees without the checks of destruction. */
void sim_srq_free(struct sim_srq *srq);
void sim_pd_free(struct sim_pd *pd);
void sim_mr_free(struct sim_mr *mr);
void sim_cq_free(struct sim_cq *cq);
void sim_qp_free(struct sim_qp *qp);

/* Memory. The region that `key` names, or NULL. */
static inline const struct sim_mr *sim_mr_find(const struct sim_nic *nic, uint32_t key)
{
    uint32_t index = key >> 8;
    if (index >= nic->n_mr_slots) {
        return NULL;
    }
    const struct sim_mr *mr = nic->mrs[index].mr;
    return mr != NULL && mr->ibv.lkey == key ? mr : NULL;
}

/* True if `key` allows `access` (all of its bits) to [addr, addr + length) under `pd`. */
bool sim_mr_allows(const struct sim_nic *nic, const struct sim_pd *pd, uint32_t key,
                   uint64_t addr, uint64_t length, uint32_t access);
/* The same with length > 0, remembered in `*grant`, which is for that PD and access only. */
bool sim_mr_grant(const struct sim_nic *nic, const struct sim_pd *pd, uint32_t key,
                  uint64_t addr, uint64_t length, uint32_t access,
                  struct sim_grant *grant);
static inline bool sim_mr_granted(const struct sim_nic *nic,
                                  const struct sim_grant *grant, uint32_t key,
                                  uint64_t addr, uint64_t length)
{
    return grant->key == key && grant->generation == nic->mr_generation &&
           length <= grant->n_bytes && addr - grant->from <= grant->n_bytes - length;
}
bool sim_sges_allowed(const struct sim_nic *nic, const struct sim_pd *pd,
                      const struct ibv_sge *sges, uint32_t n_sge, uint32_t access);
/* Copies `n_bytes` into or out of the list, from `offset` of its bytes on. Bytes that are
 * not there read as 0. */
void sim_sges_scatter(const struct sim_phantom *phantom, const struct ibv_sge *sges,
                      uint32_t n_sge, uint64_t offset, const uint8_t *bytes,
                      size_t n_bytes);
void sim_sges_gather(const struct sim_phantom *phantom, const struct ibv_sge *sges,
                     uint32_t n_sge, uint64_t offset, uint8_t *bytes, size_t n_bytes);
/* Where [offset, offset + n_bytes) lies if it is in one piece, or NULL. */
const uint8_t *sim_sges_piece(const struct ibv_sge *sges, uint32_t n_sge, uint64_t offset,
                              size_t n_bytes);
uint64_t sim_sges_bytes(const struct ibv_sge *sges, uint32_t n_sge);

/* The QP of that number, or NULL. */
static inline struct sim_qp *sim_nic_qp(const struct sim_nic *nic, uint32_t qpn)
{
    uint32_t index = qpn - nic->qpn_base;
    return index < nic->n_qp_slots ? nic->qps[index] : NULL;
}

/* Async events. `object` by `type`: qp, cq, or port number. */
void sim_nic_raise_qp(struct sim_qp *qp, enum ibv_event_type type);
void sim_nic_raise_cq(struct sim_cq *cq, enum ibv_event_type type);
void sim_nic_raise_srq(struct sim_srq *srq, enum ibv_event_type type);
void sim_nic_raise_port(struct sim_nic *nic, uint8_t port, enum ibv_event_type type);
/* Forgets events about an object of the user's that goes. */
void sim_nic_forget_events(struct sim_nic_user *user, const void *object);
void sim_nic_forget_all_events(struct sim_nic *nic);
/* The NIC goes, and everybody who had it open. */
void sim_nic_close_all(struct sim_nic *nic);

/* The last event of `object` was acknowledged: what waited for that goes on. */
void sim_nic_acknowledged(struct sim_nic *nic, const void *object);

/* The nth verb fault: its errno (or 0), with its delay added to `*by`. */
int sim_nic_take_fault(struct sim_nic *nic, int verb, weft_ps *by);

#endif
