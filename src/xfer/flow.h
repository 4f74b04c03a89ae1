/* Messages from one rank to another, wherever it is: over the rails of a direct connection,
 * or over relays; through failures of cables, exactly once. What a flow rests on is a lane
 * per route; each lane is a connection with its xfer, replaced by another (the next epoch)
 * when it fails or when more rails are there. docs/wire.md, "Flows".
 *
 *   direct     one lane, all rails; a message is one xfer message
 *   relayed    up to FLOW_LANES_MAX lanes over disjoint routes; messages travel as fragments
 *              of FLOW_FRAGMENT_BYTES, which the receiver asks for on the lane that is behind
 *              its share; a send is done when the receiver has the data (a notice comes
 *              back), for a relay may die with what it holds
 *
 * Failover: an end that sees its lane fail puts the lane's QPs into ERR, drains its
 * completions and counts what is complete. The sender connects again, over what is left,
 * with the next epoch in its purpose; the receiver asks again for what it has not, so nothing
 * is sent twice into a buffer that is in use again. Epochs end deliberately when a better
 * route is back for `hysteresis_ns`. */
#ifndef WEFT_XFER_FLOW_H
#define WEFT_XFER_FLOW_H

#include "mesh/routes.h"
#include "xfer/xfer.h"

#define FLOW_LANES_MAX MESH_ROUTES_MAX
#define FLOW_FRAGMENT_BYTES (128u * 1024)

struct flow;
struct flow_request;

struct flow_config {
    uint32_t from, to; /* ranks; which end this is shows in `is_sender` */
    bool is_sender;
    struct conn_config conn;
    uint32_t n_lanes;
    struct {
        uint32_t share;      /* in 1/65536 */
        uint32_t n_via;      /* 0: direct */
        const uint32_t *via; /* members that relay, in order; copied */
        /* sender: of the first relay, or of the receiver */
        uint8_t handle[CONN_HANDLE_BYTES];
    } lanes[FLOW_LANES_MAX];
    uint32_t relay_buffers; /* per hop and lane: fragments a relay may hold, 1..; 8 */
    bool may_fail_over;     /* else a failed lane is the flow's end */
    /* A first set-up is begun again if nothing comes from the peer: its stream may wait at a cable
     * that died. */
    bool redials;
    weft_ns hysteresis_ns; /* how long a better route must be there: 20 ms */
    /* How long a flow may be without a lane: 30 s; at least 3 s with software at an end, and
     * TIMER_STILL_NS in total while such an end stands still. */
    weft_ns failover_ns;
    /* The same for a flow with no route but the cables that both ends share, whose ports report
     * that they are back; 0: failover_ns. Not 0 also marks a rank's flow: under policy weft one
     * that was never up ends so long after no time mends it (an address that is missing, a verb
     * that is refused), and an only cable on which nothing completes fails its lane. */
    weft_ns cables_ns;
    int task_kind; /* of its connections' tasks */
    void *user;    /* the owner's; never touched */
    /* Sender, or NULL: called when a relayed lane over `via` [n_via] failed. */
    void (*lane_failed)(void *user, const uint16_t *via, uint32_t n_via,
                        const struct weft_error *why);
    /* Sender, or NULL: the way of a relayed lane that failed, before it is tried again, for a relay
     * may come back as another process. `via`: [FLOW_VIA_MAX]. AGAIN: there is none now. */
    weft_status (*reroute)(void *user, uint32_t lane, uint8_t handle[CONN_HANDLE_BYTES],
                           uint32_t *via, uint32_t *out_n_via);
};

/* Starts a flow; the sender connects its lanes, the receiver waits for flow_accept. `task`
 * is woken by registrations. The purposes that its connections carry name both ranks. */
weft_status flow_open(struct rdma *rdma, const struct flow_config *config,
                      struct io_task *task, struct flow **out,
                      struct weft_error *error) WEFT_MUST_CHECK;
/* Hands an accepted connection to the receiving flow that its purpose names; the flow owns
 * it. False: it is of another flow, or of an epoch that is over (the caller destroys it). */
bool flow_accept(struct flow *flow, struct conn *conn);
/* Whether `conn` is one of the flow's, past ones that are still closing included. */
bool flow_owns(const struct flow *flow, const struct conn *conn);
/* The flow that owns `conn`, or NULL: a relay's, or handed to nobody yet. */
struct flow *flow_of(const struct conn *conn);
/* The ranks at its ends, and which of them this is. */
uint32_t flow_peer(const struct flow *flow);
bool flow_is_sender(const struct flow *flow);
/* flow_config.user. */
void *flow_user(const struct flow *flow);
/* Changes whenever requests may have come to an end, or one that had to wait may start. */
uint64_t flow_n_looks(const struct flow *flow);
/* Does what can be done now: connections, completions, failover. Call when the task of one
 * of its connections was woken. WEFT_OK; an error: the flow is dead (flow_error). */
weft_status flow_progress(struct flow *flow) WEFT_MUST_CHECK;
/* Some lane was up, and so was each that the flow begins with, but for those that have no ports to
 * come up over by what both ends reported, and those that were waited for long enough after the
 * first (TIMER_FIRST_LANES_NS): these come up later, if ever. */
bool flow_is_up(const struct flow *flow);
const struct weft_error *flow_error(const struct flow *flow);
/* A value of flow_error and flow_trouble where a relayed lane failed at its first connection: the
 * member at the other end of that, which is not the flow's peer. */
#define FLOW_NEXT_HOP "next_hop"
/* The peer has closed its end in order, and all that it did before has been taken: flow_test
 * returns WEFT_OK for each request that the peer completed or this end can complete. Others never
 * complete; for them flow_test returns the flow's error, WEFT_ERR_CLOSED. */
bool flow_peer_has_closed(const struct flow *flow);
/* Why data cannot move now, while the flow still tries to: the failure that took its last lane,
 * or kept its first from coming up. NULL: it can, or nothing failed. Valid until the next call.
 */
const struct weft_error *flow_trouble(const struct flow *flow);
/* A port of this host went down or came back. */
void flow_port_event(struct flow *flow, uint32_t device, uint8_t port, bool is_up);
/* A device of this host is gone for good (rdma_lose_device was called): lanes that use it end, and
 * go on over what is left, if the flow may fail over; where nothing is left the flow is dead. */
void flow_device_lost(struct flow *flow, uint32_t device);
/* Either, as `event` of `device` says: PORT_ACTIVE, PORT_ERR or DEVICE_FATAL; or
 * GID_CHANGE: a port may have the address that it had not. rdma_refresh was called. */
void flow_device_event(struct flow *flow, uint32_t device,
                       const struct io_async_event *event);
/* Orderly end: progress until flow_is_closed. Requests are forgotten. The peer's requests whose
 * counterparts were done here still succeed: the receiver's final state goes out with CLOSE before
 * flow_close returns, and the sender's requests are done only when the receiver has the data. */
void flow_close(struct flow *flow);
bool flow_is_closed(const struct flow *flow);
/* The final state that flow_close sent, for conn_close_with: a sender whose lane failed as the
 * receiver closed connects again, and learns by it what the receiver has. */
const uint8_t *flow_final_state(const struct flow *flow);
/* Frees at once from any state. NULL is ignored. */
void flow_destroy(struct flow *flow);

/* As xfer_register and the others; see xfer.h. */
weft_status flow_register(struct flow *flow, void *addr, size_t length,
                          struct xfer_memory *out,
                          struct weft_error *error) WEFT_MUST_CHECK;
/* As flow_register, of a dma-buf: rdma/mr.h. */
weft_status flow_register_dmabuf(struct flow *flow, void *addr, size_t length, int fd,
                                 uint64_t offset, struct xfer_memory *out,
                                 struct weft_error *error) WEFT_MUST_CHECK;
weft_status flow_register_progress(struct flow *flow, struct xfer_memory *memory,
                                   struct weft_error *error) WEFT_MUST_CHECK;
void flow_deregister(struct flow *flow, struct xfer_memory *memory);
void flow_invalidate(struct flow *flow, const void *addr, size_t length);
weft_status flow_isend(struct flow *flow, const void *data, size_t n_bytes, uint32_t tag,
                       const struct xfer_memory *memory,
                       struct flow_request **out) WEFT_MUST_CHECK;
/* In relayed flows the buffers of a group are filled in the group's order. */
weft_status flow_irecv(struct flow *flow, uint32_t n, void *const *data,
                       const size_t *sizes, const uint32_t *tags,
                       const struct xfer_memory *const *memories,
                       struct flow_request **out) WEFT_MUST_CHECK;
weft_status flow_test(struct flow *flow, struct flow_request *request,
                      size_t *out_sizes) WEFT_MUST_CHECK;
weft_status flow_iflush(struct flow *flow, const void *data, size_t n_bytes,
                        const struct xfer_memory *memory,
                        struct flow_request **out) WEFT_MUST_CHECK;

/* Moves flushes on when flow_peer_has_closed: each rail's NIC reads through a queue pair that is
 * connected to itself. WEFT_OK: all are done. An error: none will be. */
weft_status flow_flush_after_close(struct flow *flow,
                                   struct weft_error *error) WEFT_MUST_CHECK;

struct flow_counters {
    struct xfer_counters xfer; /* of all epochs */
    uint32_t epochs;           /* lanes that came up */
    uint32_t failovers;        /* lanes that failed and were replaced */
    uint32_t returns;          /* deliberate ones */
    weft_ns without_lane_ns;   /* time in which data could not move */
};
void flow_counters(const struct flow *flow, struct flow_counters *out);
/* Why a port of this host that leads to the peer was left out when the flow came up, and is still,
 * or why a lane that the flow was to begin with never had one; NULL: none is. As long as the flow
 * lives. */
const struct weft_error *flow_left_out(const struct flow *flow);
uint32_t flow_n_lanes(const struct flow *flow);
/* The members that relay on a lane, in order: returns how many, at most `cap` are written. */
uint32_t flow_lane_via(const struct flow *flow, uint32_t lane, uint32_t *out,
                       uint32_t cap);
/* What it is at, in lines that begin with `indent`; and what a request of it waits for, in part of
 * a line: for who looks at a job that hangs. Appended. */
struct weft_text;
void flow_describe(const struct flow *flow, const char *indent, struct weft_text *out);
void flow_request_describe(const struct flow *flow, const struct flow_request *request,
                           struct weft_text *out);
/* The connection of a lane that is up, or NULL. */
const struct conn *flow_lane_conn(const struct flow *flow, uint32_t lane);

#endif
