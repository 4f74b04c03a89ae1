/* Forwards the lanes of flows between hosts that share no cable. There is one relay per host and
 * job, run by the host's first rank or by a process without a rank. Each lane that a relay forwards
 * has a connection in, a connection out and buffers of its own, which are reserved at set-up. Data
 * enters only with a clear-to-send from the receiver, so that rings of relays cannot deadlock
 * (docs/wire.md, "Relays"). */
#ifndef WEFT_XFER_RELAY_H
#define WEFT_XFER_RELAY_H

#include "xfer/flow.h"

struct relay;

struct relay_config {
    struct conn_config conn; /* for connections out */
    uint32_t member;         /* member of this host, which refusals name */
    /* Maximum bytes of all buffers (default 256 MiB) and number of lanes (default 1024). Lanes
     * beyond half of the memory have one buffer each. The last earlier epoch of a lane, which
     * closes, does not count against the next. */
    uint64_t memory_max;
    uint32_t lanes_max;
    int task_kind; /* kind of the tasks of connections out */
    /* Returns the handle of a member, which a lane connects to, or NULL if it is unknown. */
    const uint8_t *(*handle_of)(void *context, uint32_t member);
    /* Hops are numbers by which this relay's neighbours are known to it, and the last hop is the
     * process of the receiver. If false, hops are members, and the receiver is not a hop. */
    bool names_all;
    void *context;
};

/* Opens a relay without lanes. Fails with WEFT_ERR_INPUT if config->handle_of is NULL. */
weft_status relay_open(struct rdma *rdma, const struct relay_config *config,
                       struct io_task *task, struct relay **out,
                       struct weft_error *error) WEFT_MUST_CHECK;
/* Takes an accepted connection if its purpose is FLOW_FORWARD, and owns it from then on. Returns
 * false for another purpose. A lane that exceeds a limit, or whose next member is unknown, is
 * refused: the connection ends with the reason, which the sender's flow reports. */
bool relay_accept(struct relay *relay, struct conn *conn);
/* Returns true if `conn` is a connection of a lane of the relay. */
bool relay_owns(const struct relay *relay, const struct conn *conn);
/* Does what is possible now for all lanes. Never fails: a lane that fails is closed on both sides,
 * with the reason. */
void relay_progress(struct relay *relay);
/* Does the same for the lane of one connection, whose task was woken. */
void relay_conn_progress(struct relay *relay, const struct conn *conn);
/* Returns the first failure of a lane that this relay detected itself, and the member at the other
 * end of the connection that failed. Returns NULL if there is none, or if a lane between the same
 * two ranks came up since. A report that another process gave up does not count. The failure of a
 * port that is up again is replaced by that of the next lane that fails. */
const struct weft_error *relay_trouble(const struct relay *relay, uint32_t *member);
/* Calls `add` with the next member of each lane that waits for it: for a connection to it, or until
 * it has taken the data in a buffer. A member can be added several times. */
void relay_awaited(const struct relay *relay, void (*add)(void *context, uint32_t member),
                   void *context);
/* Handles PORT_ACTIVE, PORT_ERR or DEVICE_FATAL of a device of this host. Call after rdma_refresh()
 * or rdma_lose_device(). Lanes that use the port end if they can go on over another one, and lanes
 * that wait for a port connect. */
void relay_device_event(struct relay *relay, uint32_t device,
                        const struct io_async_event *event);
/* Starts to close every lane, and refuses new ones. Progress until relay_is_closed(). */
void relay_close(struct relay *relay);
bool relay_is_closed(const struct relay *relay);
/* Frees the relay and its lanes at once, in any state. Ignores NULL. */
void relay_destroy(struct relay *relay);

struct relay_counters {
    uint32_t lanes, lanes_peak, refused, failed;
    uint64_t messages, bytes;     /* forwarded messages, and their bytes */
    uint64_t memory, memory_peak; /* bytes reserved for buffers */
};
void relay_counters(const struct relay *relay, struct relay_counters *out);

#endif
