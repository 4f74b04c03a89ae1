/* Forwarding between two neighbours that share no cable: one relay per host and job, run by
 * the host's first rank, or by a process without a rank. Every lane that passes has a
 * connection in, a connection out and buffers of its own, reserved when it is set up; data
 * enters only under a clear-to-send that came from the receiver, so that rings of relays
 * cannot wait for each other. docs/wire.md, "Relays". */
#ifndef WEFT_XFER_RELAY_H
#define WEFT_XFER_RELAY_H

#include "xfer/flow.h"

struct relay;

struct relay_config {
    struct conn_config conn;
    uint32_t member;     /* this host's, to be named in refusals */
    uint64_t memory_max; /* of all buffers: what admission refuses to exceed; 256 MiB */
    uint32_t lanes_max;  /* 1024 */
    int task_kind;
    /* The handle of a member, which the connection out is made to; NULL: unknown. */
    const uint8_t *(*handle_of)(void *context, uint32_t member);
    /* Hops are names that this relay gives to its neighbours, the receiver's process too, which
     * is the last of them; else they are members, and the receiver is not named twice. */
    bool names_all;
    void *context;
};

weft_status relay_open(struct rdma *rdma, const struct relay_config *config,
                       struct io_task *task, struct relay **out,
                       struct weft_error *error) WEFT_MUST_CHECK;
/* Takes an accepted connection whose purpose asks for forwarding; it is the relay's from
 * now on. Refusals (memory, lanes, unknown member) close it with the reason, which the
 * sender's flow reports. False: its purpose is another. */
bool relay_accept(struct relay *relay, struct conn *conn);
bool relay_owns(const struct relay *relay, const struct conn *conn);
/* Never fails: a lane that fails is closed on both sides, with the reason. */
void relay_progress(struct relay *relay);
/* The same for the lane of one connection: when its task was woken. */
void relay_conn_progress(struct relay *relay, const struct conn *conn);
/* What the first lane to fail met here itself, and with which member, unless the same way came
 * up again since; NULL: none. News that another gave up is not met here. Where that was a port
 * which is up again, and a lane fails all the same, it is what this one met. */
const struct weft_error *relay_trouble(const struct relay *relay, uint32_t *member);
/* Handles PORT_ACTIVE, PORT_ERR or DEVICE_FATAL of a device of this host, after rdma_refresh or
 * rdma_lose_device: lanes end that have another port to go on with, and lanes that wait for a port
 * connect. */
void relay_device_event(struct relay *relay, uint32_t device,
                        const struct io_async_event *event);
void relay_close(struct relay *relay);
bool relay_is_closed(const struct relay *relay);
void relay_destroy(struct relay *relay); /* NULL is ignored. */

struct relay_counters {
    uint32_t lanes, lanes_peak, refused, failed;
    uint64_t messages, bytes;     /* forwarded */
    uint64_t memory, memory_peak; /* reserved */
};
void relay_counters(const struct relay *relay, struct relay_counters *out);

#endif
