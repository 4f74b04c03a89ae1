/* Objects of a NIC (users, PDs, MRs, CQs, QPs, SRQs, and the NIC itself): how they are created,
 * found and freed, and the events that they raise. Internal to sim/; users of a NIC include
 * nic.h. */
#ifndef WEFT_SIM_NIC_OBJECTS_H
#define WEFT_SIM_NIC_OBJECTS_H

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
    int64_t *memlock_bytes;        /* remaining pinned-memory limit; NULL if unlimited */
    struct sim_dmabufs *dmabufs;   /* Not owned; NULL if none */
    struct ibv_async_event *async; /* Owned array of [cap], a ring. */
    uint32_t head, n, cap;
    struct sim_waker waker;
    struct sim_event notify;
};

/* A range that a key was found to allow, under one PD and for one kind of access. Valid
 * until the next key is invalidated. */
struct sim_grant {
    uint64_t from, n_bytes; /* n_bytes is 0 if nothing was found yet */
    uint64_t generation;    /* generation of MRs */
    uint32_t key;
};

struct sim_pd {
    struct ibv_pd ibv; /* must be first, because users hold its address */
    struct sim_nic *nic;
    struct sim_nic_user *user; /* creator; also owner of MRs and QPs under it */
    uint32_t n_children;       /* number of MRs and QPs */
    struct sim_pd *next, **link;
};

struct sim_mr {
    struct ibv_mr ibv; /* must be first */
    struct sim_nic *nic;
    struct sim_pd *pd;
    uint32_t access; /* IBV_ACCESS_* */
    int64_t pinned_bytes;
    uint64_t iova;  /* address of its first byte for users of the key */
    uint64_t shift; /* from there to the address in memory, modulo 2^64 */
    bool is_revoked;
    /* IBV_ACCESS_RELAXED_ORDERING: PCIe may reorder the pieces of a WRITE */
    bool is_relaxed;
    bool sees_late;            /* GPU memory on a device with a gpu_visibility_ps */
    struct sim_dmabuf *dmabuf; /* NULL if not GPU memory by dmabuf */
    struct sim_mr *next_attached;
};

/* A slot of the MR table. A key is index << 8 | variant. */
struct sim_mr_slot {
    struct sim_mr *mr; /* NULL while free */
    uint32_t next_free;
    uint8_t variant;
};

struct sim_cqe {
    struct ibv_wc wc;
    weft_ps visible_at;
    /* queue position up to which polling this entry frees the QP's slots */
    uint32_t n_retired;
    uint32_t qp_serial : 30;
    uint32_t is_send : 1;
    /* or an error; wakes a CQ that is armed for solicited ones only */
    uint32_t is_solicited : 1;
};

_Static_assert(sizeof(struct sim_cqe) == WEFT_LINE_BYTES, "one cache line an entry");

/* Bits of a QP's serial number that completions hold. */
#define SIM_SERIAL_MASK 0x3fffffffu

struct sim_cq {
    struct ibv_cq ibv; /* must be first */
    _Alignas(WEFT_LINE_BYTES) struct sim_nic_user *user;
    uint32_t n_qps;
    uint32_t number;    /* CQN: id * cqn_banks + bank */
    uint32_t n_unacked; /* events that the user got and has not acknowledged */
    bool acks_events;
    struct sim_waker waker;
    /* Fields that every completion uses, in one cache line from the middle of the event
     * on. `notify` is pending while the CQ is armed and an entry is about to become
     * visible. */
    struct sim_event notify;
    struct sim_nic *nic;
    /* Owned array of [cap], a power of two that grows to the depth. */
    struct sim_cqe *ring;
    uint32_t head, n, cap;
    uint32_t depth; /* depth that the user sees */
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
    uint32_t n_done; /* READ: number of responses landed */
    uint32_t n_sge;
    enum ibv_wr_opcode opcode;
    bool is_signaled, is_fenced, is_solicited, is_inline;
    bool is_plain;       /* a SEND or WRITE from one piece of memory */
    bool is_too_long;    /* longer than the port allows; `length` is then 0 */
    bool is_outstanding; /* counts against max_rd_atomic */
};

_Static_assert(sizeof(struct sim_wqe) == WEFT_LINE_BYTES, "one cache line a message");

/* Operands of an atomic. */
struct sim_operands {
    uint64_t compare, swap_add;
};

struct sim_recv_wqe {
    uint64_t wr_id;
    uint64_t capacity; /* total size of its SGEs */
    weft_ps ready_at;  /* when the NIC has read it */
    uint32_t n_sge;
};

struct sim_srq {
    struct ibv_srq ibv; /* must be first */
    struct sim_nic *nic;
    struct sim_pd *pd;
    uint32_t n_qps, n_unacked;
    uint32_t head, post; /* run freely; slot = position & mask */
    uint32_t depth, mask, max_sge;
    uint32_t limit;            /* 0 if not armed */
    struct sim_recv_wqe *wqes; /* Owned array of [mask + 1]. */
    struct ibv_sge *sges;      /* Owned array of [mask + 1][max_sge]. */
    struct sim_srq *next, **link;
};

/* A responder's record of a READ or atomic, from which it answers duplicates. */
struct rc_resource {
    uint32_t first_psn, n_psn;
    uint32_t next; /* READ: index of the next response to send */
    uint32_t last; /* one past the last response of this run */
    uint32_t base; /* the response at which this run started: sent as FIRST */
    uint64_t va;   /* address of response 0 */
    uint32_t rkey, length;
    uint32_t msn;      /* MSN of its responses; does not count later messages */
    uint64_t original; /* atomics: the value before the operation */
    weft_ps ready_at;
    bool is_known;   /* false if empty */
    bool is_pending; /* responses are still to be sent */
    bool is_repeat;  /* this run answers a duplicate */
    bool is_atomic;
};

enum rc_message { RC_NO_MESSAGE, RC_IN_SEND, RC_IN_WRITE };

/* One acknowledgement waiting for its turn. */
struct rc_reply {
    bool is_pending;
    bool is_fatal; /* sent even though the QP is in ERR */
    uint8_t syndrome;
    uint32_t psn, msn;
    weft_ps at;
};

/* The requester's state. Fields that every message uses come first, in whole cache
 * lines. */
struct rc_requester {
    /* Queue positions run freely; slot = position & mask. Up to `free` they are retired,
     * up to `send` sent, up to `post` posted. */
    uint32_t una, send, post, mask;
    struct sim_wqe *wqes;         /* Owned array of [mask + 1]. */
    uint32_t packet;              /* index of the next packet of the WR at `send` */
    uint32_t next_psn;            /* of the next packet */
    uint32_t max_psn;             /* one past the highest ever sent */
    uint32_t una_psn;             /* oldest unacknowledged PSN */
    uint8_t retry_cnt, rnr_retry; /* as in attr */
    uint8_t retries_left, rnr_retries_left;
    bool went_back; /* went back because of a NAK, without progress since */
    bool is_rnr_waiting;
    bool is_faulted;    /* the WR at `send` failed locally */
    bool is_timed;      /* `retry` is scheduled */
    weft_ps deadline;   /* of the oldest unacknowledged packet; SIM_NEVER if none */
    weft_ps timeout_ps; /* from attr.timeout; 0 if none */
    /* An ACK uses the fields above, in one cache line; posting and sending use the
     * next. */
    uint32_t free, depth;
    uint32_t started;       /* one past the last WR of which a packet was sent */
    uint32_t max_sge;       /* of a WR */
    struct ibv_sge *sges;   /* Owned array of [mask + 1][max_sge]. */
    uint32_t post_psn;      /* first PSN of the next WR to be posted */
    uint32_t since_ack_req; /* packets since the last AckReq */
    struct sim_grant grant; /* for reading what is sent */

    uint64_t checked_generation; /* `checked` holds for this generation of MRs */
    uint32_t checked;            /* position + 1 of the WR whose SGEs were checked */
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
    uint32_t n_pending; /* entries of `pending` */
    bool sent_nak;      /* a NAK was sent for the current gap */
    bool comm_est;      /* a packet has arrived */

    struct sim_grant grant; /* for writing */
    enum rc_message message;
    uint32_t message_bytes;
    uint32_t write_rkey;
    uint32_t write_left;
    uint64_t write_va;
    uint64_t write_generation; /* generation of MRs when the whole WRITE was allowed */

    uint32_t depth;
    uint32_t max_sge;
    struct ibv_sge *sges; /* Owned array of [mask + 1][max_sge]. */
    /* replies behind `reply`, if ACKs are not coalesced; Owned ring of [behind_cap]. */
    struct rc_reply *behind;
    uint32_t behind_head, n_behind;
    uint32_t behind_cap;
    struct rc_resource *resources; /* Owned array of [n_resources]: a ring. */
    uint32_t n_resources, next_resource;
    /* Owned array of [n_resources]: indices by PSN, the next to answer first. */
    uint32_t *pending;
    struct sim_event due; /* when the next reply may be sent */
};

struct sim_nic_port;

struct sim_qp {
    struct ibv_qp ibv; /* must be first */
    struct sim_pd *pd;
    /* NULL if none; `rq` then holds what was posted, otherwise the one WR taken from the
     * SRQ */
    struct sim_srq *srq;
    const struct sim_path *path; /* of packets that it sends */

    _Alignas(WEFT_LINE_BYTES) struct sim_nic *nic;
    struct sim_nic_port *port; /* bound at INIT; NULL before */
    struct sim_cq *send_cq, *recv_cq;
    /* Path of incoming packets that passed the checks: interned, or `heard`; NULL if
     * none. */
    const struct sim_path *verified;
    struct sim_qp *next_ready; /* in its port's list */
    /* Attributes that packets use; the others are in `attr`. */
    uint32_t access;
    uint16_t mtu_bytes;
    uint16_t overhead_bytes; /* size on the wire of a packet without payload */
    uint32_t serial;         /* changes at every RESET and with every reuse of the slot */
    uint8_t state;           /* enum ibv_qp_state */
    bool is_ready;           /* in its port's list */
    bool reply_turn;         /* replies go first if both sides have something to send */
    bool sq_sig_all;

    _Alignas(WEFT_LINE_BYTES) struct rc_requester sq;
    _Alignas(WEFT_LINE_BYTES) struct rc_responder rq;
    /* Fields that all packets of the QP have in common. */
    _Alignas(WEFT_LINE_BYTES) struct sim_frame model;

    uint32_t dest_qpn;
    uint16_t sport;
    struct ibv_qp_attr attr;
    char name[40];      /* "p0/qp17" */
    uint32_t ordinal;   /* number on its port by creation, from 1 */
    uint32_t n_verbs;   /* control verbs in progress */
    uint32_t n_unacked; /* events that the user got and has not acknowledged */
    uint32_t ece_asked, ece_accepted; /* options */
    bool ece_is_asked;                /* requested and not yet accepted */
    bool flush_is_due; /* in ERR, but its first error completion has not been polled */
    /* holds the slot at sgid_index of `attr`, so that it is not refilled */
    bool holds_gid;
    struct sim_piece *pieces; /* list of pieces not yet in host memory */
    struct sim_path heard;    /* copy of the last accepted path that is not interned */
};

/* Returns the copy of `path` that QP `dest_qpn` accepted last, or `path` itself if there
 * is none. `nic` may be NULL. */
const struct sim_path *sim_nic_heard_path(const struct sim_nic *nic, uint32_t dest_qpn,
                                          const struct sim_path *path);

/* One port as the NIC sees it. */
struct sim_nic_port {
    struct sim_port *port;
    struct sim_qp *ready;
    uint32_t n_bound; /* number of QPs ever bound to it */
    uint16_t ipv4_id; /* of the last packet, if the profile increments it */
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
    /* Fields that every packet and every completion uses, in one cache line, because the
     * NICs of a large fabric do not fit in the cache. */
    struct sim_engine *engine;
    /* owned by the engine and shared with NICs that have an equal one */
    const struct sim_profile *profile;
    /* Owned array of [n_qp_slots], by QPN - qpn_base; NULL if free. */
    struct sim_qp **qps;
    uint32_t n_qp_slots, qpn_base;
    struct sim_qp *few_qps[2]; /* storage of `qps` as long as it suffices */
    uint64_t tx_packets, rx_packets;
    /* Fields that every message uses in addition, in the next cache line. */
    uint64_t mr_generation;            /* changes when a key is invalidated */
    const struct sim_phantom *phantom; /* the engine's */
    /* Owned tree: written, but not in memory yet (sim/landing.c) */
    struct sim_piece *pieces;
    /* number of MRs that are mapped, relaxed, in a GPU or a dmabuf */
    uint32_t n_odd_mrs;
    uint8_t n_ports;
    /* payloads are hashed when sent and compared when delivered */
    bool checks_payload;
    struct sim_verb_fault *faults; /* Owned list */
    struct sim_nic_port ports[SIM_PORTS_MAX];

    /* Owned array of [mr_cap]; slots up to n_mr_slots have been used. */
    struct sim_mr_slot *mrs;
    uint32_t n_mr_slots;
    struct sim_nic_counters counters; /* all but packets */

    char *host, *name; /* Owned. */
    struct sim_stack *stack;
    struct sim_nic_user **users; /* Owned array of [n_users], and its elements. */
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
    struct sim_event landing; /* when the next of `pieces` lands */
    struct weft_heap pieces_due;
    struct sim_piece *pieces_of_side[2]; /* lists: of host memory, of GPU memory */
    uint64_t n_pieces_ever;
    uint64_t n_piece_visits; /* entries of the tree visited, as a measure of its cost */
    struct weft_rng landing_rng;

    uint32_t n_qps, next_serial;
    /* in each bank, where the search for the next number starts */
    uint32_t qpn_next[SIM_BANKS_MAX];
    uint32_t qps_in_bank[SIM_BANKS_MAX];

    struct sim_request *requests; /* in progress */

    /* Moves a QP to ERR, because one of its CQs, which know no QPs, overran. */
    void (*cq_overran)(struct sim_qp *qp);
    void (*watch)(void *context, const struct nic_verb *verb); /* NULL if none */
    void *watch_context;

    uint32_t n_commands;   /* number of control verbs that were commands to the device */
    uint32_t n_send_cqes;  /* successful ones; counted only if general_err_nth is set */
    weft_ps dereg_free_at; /* when the last dereg_mr ends, if they are serialised */

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

/* Hashes payloads when sent and compares them when delivered; a change in between is
 * counted and logged. For tests, because it costs time for every packet. */
void sim_nic_check_payloads(struct sim_nic *nic, bool on);
uint64_t sim_nic_payload_changes(const struct sim_nic *nic);

/* Event log of a QP: "object event" with a format for the rest. Callers on the path of
 * every message check sim_qp_traced() first. */
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

/* Returns the largest path MTU that the netdev behind `port` carries; 0 if none. */
uint32_t sim_nic_active_mtu(const struct sim_nic *nic, const struct sim_port *port);

/* Objects. The functions that create them return 0 or a positive errno. */
int sim_pd_alloc(struct sim_nic_user *user, struct sim_pd **out);
int sim_pd_dealloc(struct sim_pd *pd);
int sim_mr_reg(struct sim_pd *pd, const struct sim_reg_mr *arg, struct sim_mr **out);
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
/* Moves the oldest receive WR of the SRQ to `qp`. Returns false if there is none. */
bool sim_srq_take(struct sim_qp *qp);
/* Returns a free slot of the QP table by the profile's rule, or SIM_NO_NUMBER. */
uint32_t sim_qp_take_slot(struct sim_nic *nic, const struct sim_cq *send_cq);
void sim_qp_give_slot(struct sim_nic *nic, uint32_t slot);
/* Free an object without the checks of its destroy function. */
void sim_srq_free(struct sim_srq *srq);
void sim_pd_free(struct sim_pd *pd);
void sim_mr_free(struct sim_mr *mr);
void sim_cq_free(struct sim_cq *cq);
void sim_qp_free(struct sim_qp *qp);

/* Returns the QP of that number, or NULL. */
static inline struct sim_qp *sim_nic_qp(const struct sim_nic *nic, uint32_t qpn)
{
    uint32_t index = qpn - nic->qpn_base;
    return index < nic->n_qp_slots ? nic->qps[index] : NULL;
}

/* Async events. The element of an event is its QP, CQ, SRQ or port number. */
void sim_nic_raise_qp(struct sim_qp *qp, enum ibv_event_type type);
void sim_nic_raise_cq(struct sim_cq *cq, enum ibv_event_type type);
void sim_nic_raise_srq(struct sim_srq *srq, enum ibv_event_type type);
void sim_nic_raise_port(struct sim_nic *nic, uint8_t port, enum ibv_event_type type);
/* Drops the user's events about an object that is being freed. */
void sim_nic_forget_events(struct sim_nic_user *user, const void *object);
void sim_nic_forget_all_events(struct sim_nic *nic);
/* Frees all users of the NIC. */
void sim_nic_close_all(struct sim_nic *nic);

/* Counts an event as acknowledged. Returns its object if that was its last, or NULL. */
const void *sim_nic_acknowledge(const struct ibv_async_event *event);

/* Counts a verb for the verb faults. Returns the errno of the fault that takes effect, or
 * 0, and adds its delay to `*by`. */
int sim_nic_take_fault(struct sim_nic *nic, int verb, weft_ps *by);
/* Drops the record of a verb that was cancelled, so that no watcher sees it. */
void sim_watch_drop(struct sim_request *request);

#endif
