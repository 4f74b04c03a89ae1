/* A fixture for tests of the RC engine: two hosts, one cable, and one NIC each with a
 * connected QP. Runs in virtual time. */
#ifndef WEFT_SIM_RC_TESTING_H
#define WEFT_SIM_RC_TESTING_H

#include "base/text.h"
#include "base/trace.h"
#include "sim/frame.h"
#include "sim/nic.h"
#include "sim/port.h"
#include "sim/stack_config.h"

#define RC_MEMORY_BYTES (1u << 20)
#define RC_PS_PER_US ((weft_ps)1000000)
#define RC_PS_PER_MS ((weft_ps)1000000000)
#define RC_PS_PER_S ((weft_ps)1000000000000)

/* Options of the fixture. Zero selects the default in brackets. */
struct rc_options {
    const char *profile;         /* [mlx5] */
    const char *overrides[6][2]; /* profile overrides: field and value */
    uint64_t seed;               /* [1] */
    uint32_t mtu_bytes;          /* of the netdevs [9000] */
    enum ibv_mtu path_mtu;       /* [4096] */
    uint8_t timeout;             /* [14]; RC_NO_TIMEOUT: 0 */
    uint8_t retry_cnt;           /* [7]; RC_NONE: 0 */
    uint8_t rnr_retry;           /* [7]; RC_NONE: 0 */
    uint8_t min_rnr_timer;       /* [12] */
    uint8_t max_rd_atomic;       /* [16]; RC_NONE: 0 */
    uint8_t max_dest_rd_atomic;  /* [16]; RC_NONE: 0 */
    uint32_t depth;              /* of both queues [64] */
    int cqe;                     /* [256] */
    int qp_access, mr_access;    /* [all] */
    uint32_t max_inline;         /* [0] */
    uint32_t sq_psn[2];          /* of each end [0x100, 0x200] */
    enum weft_trace_level level; /* [STORY] */
    int64_t memlock_bytes;       /* [unlimited] */
    bool is_unconnected;         /* leaves the QPs in RESET */
    bool is_ipv6;                /* connects by link-local GIDs */
    bool is_roce_v1;             /* connects by GIDs of RoCE v1 */
    uint16_t vlan_id;            /* connects by a VLAN's IPv4 addresses [0: untagged] */
};
#define RC_NONE 0xff

struct rc_end {
    struct sim_stack *stack;
    struct sim_port *port;
    struct sim_port *second; /* "p1", without a cable; NULL if the device has one port */
    struct sim_nic *nic;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_mr gone; /* for tests that deregister `mr` and continue to use its keys */
    struct ibv_qp *qp;
    uint8_t *memory; /* Owned; RC_MEMORY_BYTES, registered as `mr` */
    int n_wakes;     /* calls of the CQ's waker */
    int n_async_wakes;
    int64_t memlock_left;
};

struct rc_pair {
    struct sim_engine *engine;
    struct weft_trace trace;
    struct weft_text story;
    struct sim_profile profile;
    struct rc_options options;
    struct rc_end ends[2]; /* hosts "a" and "b", ports and NICs "p0" */
};

/* Builds both ends, connected and in RTS unless the options say otherwise. Clears the
 * event log. */
void rc_pair_init(struct rc_pair *pair, const struct rc_options *options);
void rc_pair_fini(struct rc_pair *pair);

/* Runs `request` to its end and returns its error. */
int rc_verb(struct rc_pair *pair, unsigned end, struct sim_request *request);
struct ibv_qp *rc_make_qp(struct rc_pair *pair, unsigned end);
struct ibv_cq *rc_make_cq(struct rc_pair *pair, unsigned end, int cqe);
int rc_modify(struct rc_pair *pair, unsigned end, struct ibv_qp *qp,
              const struct ibv_qp_attr *attr, int mask);
int rc_to_state(struct rc_pair *pair, unsigned end, struct ibv_qp *qp,
                enum ibv_qp_state state);
/* Return the attributes of the three steps according to the options. */
struct ibv_qp_attr rc_init_attr(const struct rc_pair *pair);
struct ibv_qp_attr rc_rtr_attr(const struct rc_pair *pair, unsigned end,
                               uint32_t dest_qpn);
struct ibv_qp_attr rc_rts_attr(const struct rc_pair *pair, unsigned end);
extern const int rc_init_mask, rc_rtr_mask, rc_rts_mask;
/* Returns attributes of all three steps, for a move to `to`. */
struct ibv_qp_attr rc_all_attrs(const struct rc_pair *pair, unsigned end,
                                enum ibv_qp_state to);
/* Returns a new QP that legal steps have moved to `state`; for SQE one in RTS, which can
 * claim that state. */
struct ibv_qp *rc_make_qp_in(struct rc_pair *pair, unsigned end, enum ibv_qp_state state);
void rc_destroy_qp(struct rc_pair *pair, unsigned end, struct ibv_qp *qp);
/* Moves a QP from RESET to RTS. */
void rc_connect(struct rc_pair *pair, unsigned end, struct ibv_qp *qp, uint32_t dest_qpn);

/* Runs all events within `time` from now, and moves the clock there. */
void rc_run(struct rc_pair *pair, weft_ps time);

/* Posting, signalled. Offsets are into the memories of the posting end and of its
 * peer. */
int rc_post(struct rc_pair *pair, unsigned end, enum ibv_wr_opcode opcode, uint64_t wr_id,
            size_t local_offset, uint32_t bytes, size_t remote_offset);
int rc_post_recv(struct rc_pair *pair, unsigned end, uint64_t wr_id, size_t offset,
                 uint32_t bytes);
/* Polls at most `n_max` completions. */
int rc_poll(struct rc_pair *pair, unsigned end, struct ibv_wc *wc, int n_max);
/* Returns the next completion, running for at most 100 s. Fails the test if there is
 * none. */
struct ibv_wc rc_wait(struct rc_pair *pair, unsigned end);
/* Passes a packet to the QP of `end` at once, as if its peer had sent it. Fills in
 * addresses and QP numbers. `payload` must outlive the call. */
void rc_inject(struct rc_pair *pair, unsigned end, const struct sim_frame *frame);
/* Returns true if the event log contains `text`. */
bool rc_told(const struct rc_pair *pair, const char *text);
/* Returns how often the event log contains `text`. */
unsigned rc_times_told(const struct rc_pair *pair, const char *text);
void rc_clear_story(struct rc_pair *pair);
/* Fills both memories with bytes that depend on offset and end. */
void rc_fill(struct rc_pair *pair);
struct sim_nic_counters rc_counters(const struct rc_pair *pair, unsigned end);

#endif
