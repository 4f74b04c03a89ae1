/* Defines flows. A flow moves messages from one rank to another, over the rails of a direct
 * connection or over relays. It delivers each message exactly once, also if cables fail. It has one
 * lane per route. A lane is a connection with its xfer. Another connection (the next epoch)
 * replaces it if it fails or if more rails become usable. docs/wire.md, "Flows".
 *
 *   direct     one lane, all rails; a message is one xfer message
 *   relayed    up to FLOW_LANES_MAX lanes over disjoint routes; messages travel as fragments
 *              of FLOW_FRAGMENT_BYTES, each requested by the receiver on the lane that is
 *              furthest behind its share; a send completes when the receiver's notice says
 *              that it has the data, because a relay can fail with the data that it holds
 *
 * Failover: an end whose lane fails puts the lane's QPs into ERR, drains its completions and counts
 * what is complete. The sender connects again, over the remaining ports, with the next epoch in its
 * purpose. The receiver requests again only what it does not have, so that nothing is written into
 * a buffer that is already reused. An epoch also ends deliberately, when a better route has been
 * back for `hysteresis_ns`. */
#ifndef WEFT_XFER_FLOW_H
#define WEFT_XFER_FLOW_H

#include "mesh/routes.h"
#include "xfer/xfer.h"

#define FLOW_LANES_MAX MESH_ROUTES_MAX
#define FLOW_FRAGMENT_BYTES (128u * 1024)

struct flow;
struct flow_request;

struct flow_config {
    uint32_t from, to; /* ranks; this end is `from` if is_sender, otherwise `to` */
    bool is_sender;
    struct conn_config conn;
    uint32_t n_lanes;
    struct {
        /* share of the data, in 1/65536; a lane without one only stands in for the others */
        uint32_t share;
        uint32_t n_via;      /* 0 if the lane is direct */
        const uint32_t *via; /* relaying members [n_via], in order; copied */
        /* sender: handle of the first relay, or of the receiver if the lane is direct */
        uint8_t handle[CONN_HANDLE_BYTES];
    } lanes[FLOW_LANES_MAX];
    uint32_t relay_buffers; /* fragments that each relay of a lane may hold (default 8) */
    bool may_fail_over;     /* if false, a lane that fails ends the flow */
    /* The sender restarts a first set-up if nothing arrives from the peer, because the cable that
     * carries its stream may have failed. */
    bool redials;
    /* how long a better route must be usable before a lane moves to it (default 20 ms) */
    weft_ns hysteresis_ns;
    /* Timeout of a flow that has no lane (default 30 s). It is at least TIMER_STALL_NS with
     * software at an end, and at least TIMER_FIRST_LANE_NS before the first lane was up. It
     * restarts while an end that is software stalls, up to TIMER_STILL_NS in total. */
    weft_ns failover_ns;
    /* Replaces failover_ns if the cables that both ends share are the only route, because their
     * ports report that they are back. 0 if failover_ns applies to that, too. A nonzero value also
     * marks a rank's flow, for which policy weft has two more rules. A flow that was never up ends
     * sooner if waiting cannot help: if an address is missing or a verb is refused. A lane over the
     * only cable fails if nothing completes on it. */
    weft_ns cables_ns;
    int task_kind; /* of the tasks of its connections */
    void *user;    /* for the owner; not used by the flow */
    /* Sender, or NULL: called when a relayed lane over `via` [n_via] fails, if may_fail_over. */
    void (*lane_failed)(void *user, const uint16_t *via, uint32_t n_via,
                        const struct weft_error *why);
    /* Sender, or NULL: finds the route of a relayed lane that is to be connected again, because
     * another process may have replaced a relay. Fills `handle` and `via` [FLOW_VIA_MAX]. Returns
     * WEFT_AGAIN if there is no route now. */
    weft_status (*reroute)(void *user, uint32_t lane, uint8_t handle[CONN_HANDLE_BYTES],
                           uint32_t *via, uint32_t *out_n_via);
};

/* Starts a flow. The sender connects its lanes; the receiver waits for flow_accept(). Memory
 * registrations wake `task`. The purpose of every connection contains both ranks. */
weft_status flow_open(struct rdma *rdma, const struct flow_config *config,
                      struct io_task *task, struct flow **out,
                      struct weft_error *error) WEFT_MUST_CHECK;
/* Gives an accepted connection to the receiving flow that its purpose names. Returns true if the
 * flow takes ownership. Returns false if the connection is for another flow or for an old epoch, or
 * if the flow has ended or is closing. The caller then destroys it. */
bool flow_accept(struct flow *flow, struct conn *conn);
/* Returns true if the flow owns `conn`. It also owns past connections that are still closing. */
bool flow_owns(const struct flow *flow, const struct conn *conn);
/* Returns the flow that owns `conn`, or NULL if a relay owns it or no flow has accepted it. */
struct flow *flow_of(const struct conn *conn);
/* Returns the rank at the other end. */
uint32_t flow_peer(const struct flow *flow);
bool flow_is_sender(const struct flow *flow);
/* Returns flow_config.user. */
void *flow_user(const struct flow *flow);
/* Returns a counter. It changes whenever a request may have ended, or when a request that had to
 * wait may be able to start. */
uint64_t flow_n_looks(const struct flow *flow);
/* Does what can be done now: connections, completions, failover. Must be called when the task of
 * one of the flow's connections was woken. Returns an error once the flow has ended
 * (flow_error). */
weft_status flow_progress(struct flow *flow) WEFT_MUST_CHECK;
/* Returns true if each lane that the flow begins with has been up. After the first lane came up, it
 * does not wait for lanes that have no ports to come up over, by what both ends reported. If
 * may_fail_over, it waits for the others for TIMER_FIRST_LANES_NS; they come up later, if ever.
 * Also returns true if the peer has closed and some lane has been up. */
bool flow_is_up(const struct flow *flow);
/* Returns why the flow has ended; the status is WEFT_OK if it has not. */
const struct weft_error *flow_error(const struct flow *flow);
/* Returns true if `why`, of a connection with a relay, only says that the relay's own connection
 * onwards did not come up in time: a relay sends META after that. */
bool flow_failed_beyond(const struct weft_error *why);
/* Returns true if the peer has closed its end in order, and everything that it did before has been
 * processed. flow_test() then returns WEFT_OK for each request that the peer completed or this end
 * can complete. The other requests never complete, and flow_test() returns the flow's error for
 * them, WEFT_ERR_CLOSED. */
bool flow_peer_has_closed(const struct flow *flow);
/* Returns why data cannot move now: the failure that took the last lane, or that kept the first
 * from coming up. Returns NULL if a lane is up or nothing has failed. Valid until the next call. */
const struct weft_error *flow_trouble(const struct flow *flow);
/* Handles that a port of this host went down or came up. Does nothing unless may_fail_over. */
void flow_port_event(struct flow *flow, uint32_t device, uint8_t port, bool is_up);
/* Handles the permanent loss of a device of this host, after rdma_lose_device(). Lanes that use the
 * device fail. If may_fail_over, the flow continues over other devices; it ends if there are
 * none. */
void flow_device_lost(struct flow *flow, uint32_t device);
/* Handles an event of `device`: PORT_ACTIVE, PORT_ERR, DEVICE_FATAL or GID_CHANGE (a port may have
 * got or lost an address). The caller has called rdma_refresh(), or rdma_lose_device(). */
void flow_device_event(struct flow *flow, uint32_t device,
                       const struct io_async_event *event);
/* Starts an orderly end and forgets all requests. The caller calls flow_progress() until
 * flow_is_closed(). The peer's requests whose counterparts are complete here still succeed. The
 * receiver's final state is sent with CLOSE before flow_close() returns, and a sender's request is
 * only complete when the receiver has the data. */
void flow_close(struct flow *flow);
bool flow_is_closed(const struct flow *flow);
/* Returns the final state that flow_close() sent, for conn_close_with(). A sender whose lane failed
 * while the receiver closed connects again, and this state shows it what the receiver has. The flow
 * must be closing. */
const uint8_t *flow_final_state(const struct flow *flow);
/* Frees the flow at once, in any state. NULL is ignored. */
void flow_destroy(struct flow *flow);

/* The functions from here to flow_iflush() do what those of the same name in xfer.h do. */
weft_status flow_register(struct flow *flow, void *addr, size_t length,
                          struct xfer_memory *out,
                          struct weft_error *error) WEFT_MUST_CHECK;
/* Does what flow_register() does, for a dma-buf (rdma/mr.h). Sets out->is_gpu. */
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
/* A relayed flow requests the buffers of a group one after the other, in the group's order. */
weft_status flow_irecv(struct flow *flow, uint32_t n, void *const *data,
                       const size_t *sizes, const uint32_t *tags,
                       const struct xfer_memory *const *memories,
                       struct flow_request **out) WEFT_MUST_CHECK;
weft_status flow_test(struct flow *flow, struct flow_request *request,
                      size_t *out_sizes) WEFT_MUST_CHECK;
weft_status flow_iflush(struct flow *flow, const void *data, size_t n_bytes,
                        const struct xfer_memory *memory,
                        struct flow_request **out) WEFT_MUST_CHECK;

/* Makes progress with flushes after flow_peer_has_closed(). Each rail's NIC reads the memory
 * through a queue pair that is connected to itself. Returns WEFT_OK when all flushes are complete.
 * After an error no flush completes. */
weft_status flow_flush_after_close(struct flow *flow,
                                   struct weft_error *error) WEFT_MUST_CHECK;

struct flow_counters {
    struct xfer_counters xfer; /* sums over all epochs */
    uint32_t epochs;           /* connections that came up */
    uint32_t failovers;        /* of these, replacements of a failed lane */
    uint32_t returns;          /* of these, deliberate moves of a lane */
    weft_ns without_lane_ns;   /* time without a lane after a failure */
};
void flow_counters(const struct flow *flow, struct flow_counters *out);
/* Returns why a port of this host that leads to the peer is left out. It was left out before the
 * flow came up, or the attempts to recover it are used up. Without such a port, returns why a lane
 * that the sender was to begin with has never been up. Returns NULL if there is neither. Valid
 * until the flow makes progress or handles an event. */
const struct weft_error *flow_left_out(const struct flow *flow);
uint32_t flow_n_lanes(const struct flow *flow);
/* Writes the members that relay on a lane, in order, at most `cap` of them. Returns their
 * number. */
uint32_t flow_lane_via(const struct flow *flow, uint32_t lane, uint32_t *out,
                       uint32_t cap);
/* Appends the state of the flow to a report about a job that hangs, in lines that begin with
 * `indent`. */
struct weft_text;
void flow_describe(const struct flow *flow, const char *indent, struct weft_text *out);
/* Returns the last known reason why a lane is not up; NULL if there is none. */
const struct weft_error *flow_why(const struct flow *flow);
/* Appends what a request waits for, as a part of a line. */
void flow_request_describe(const struct flow *flow, const struct flow_request *request,
                           struct weft_text *out);
/* Returns the pace of rail `rail` of flow_lane_conn(flow, lane), which must not be NULL. */
struct xfer_pace flow_lane_pace(const struct flow *flow, uint32_t lane, uint32_t rail);
/* Returns the connection of a lane, or NULL if the lane is not up. */
const struct conn *flow_lane_conn(const struct flow *flow, uint32_t lane);

#endif
