/* Connectors: channels that move messages from one rank to another over any transport. As in
 * NCCL, the first transport in the order of enum weft_transport that can connect two ranks is
 * used.
 *
 * A connector is one direction of one channel to one peer. Its ends move messages in order with
 * isend, irecv and test, over any of these transports:
 *
 *   p2p    a ring of steps in a GPU's memory, which the other GPU writes or reads
 *   shm    a ring of steps in shared memory of the host
 *   net    messages of a flow (xfer/flow.h); a connector adds nothing to them
 *
 * Connectors inside a host are set up by inside.h. See docs/transports.md. */
#ifndef WEFT_TRANSPORT_TRANSPORT_H
#define WEFT_TRANSPORT_TRANSPORT_H

#include "base/transport.h"
#include "xfer/flow.h"

/* p2p: shortest message that is copied directly. Shorter ones are faster through the steps,
 * whose sender need not wait for the receiver; measured on the simulator (docs/transports.md). */
#define TRANSPORT_DIRECT_BYTES (64u << 10)

struct inside_link;
struct steps_request;

struct transport_connector {
    enum weft_transport kind;
    bool is_sender;
    uint32_t peer;              /* rank */
    uint32_t channel;           /* number, from 0 */
    struct flow *flow;          /* NET; Not owned */
    struct inside_link *inside; /* P2P, SHM; Not owned */
};

/* A message in progress. Owned by the connector until transport_test() reports its end. */
union transport_request {
    struct flow_request *net; /* NULL: none */
    struct steps_request *steps;
};

/* Makes a connector over an existing flow. `flow` must outlive it. */
void transport_net(struct transport_connector *connector, struct flow *flow);

/* Like flow_register() and its companions (xfer/flow.h). Inside a host memory needs no
 * registration: `out` stays unchanged, and must be zeroed before. */
weft_status transport_register(struct transport_connector *connector, void *addr,
                               size_t length, struct xfer_memory *out,
                               struct weft_error *error) WEFT_MUST_CHECK;
/* Like flow_register_dmabuf(). */
weft_status transport_register_dmabuf(struct transport_connector *connector, void *addr,
                                      size_t length, int fd, uint64_t offset,
                                      struct xfer_memory *out,
                                      struct weft_error *error) WEFT_MUST_CHECK;
/* Returns WEFT_AGAIN until the registration is complete. */
weft_status transport_register_progress(struct transport_connector *connector,
                                        struct xfer_memory *memory,
                                        struct weft_error *error) WEFT_MUST_CHECK;
void transport_deregister(struct transport_connector *connector,
                          struct xfer_memory *memory);
/* Called before the memory is freed, when no message uses it. Returns WEFT_AGAIN while the peer
 * may still have it open; call again when transport_looks() has changed. */
weft_status transport_invalidate(struct transport_connector *connector, const void *addr,
                                 size_t length) WEFT_MUST_CHECK;

/* Starts sending [data, +n_bytes) as the next message. Returns WEFT_AGAIN if it cannot start
 * now; call again when transport_looks() has changed. */
weft_status transport_isend(struct transport_connector *connector, const void *data,
                            size_t n_bytes, const struct xfer_memory *memory,
                            union transport_request *out) WEFT_MUST_CHECK;
/* Posts `data` for the next message, which may have up to n_bytes. AGAIN as for isend. */
weft_status transport_irecv(struct transport_connector *connector, void *data,
                            size_t n_bytes, const struct xfer_memory *memory,
                            union transport_request *out) WEFT_MUST_CHECK;
/* Returns WEFT_OK once the request is complete; it is then freed, and *out_bytes (out_bytes may
 * be NULL) is the length of the message. Returns WEFT_AGAIN before that, and an error if the
 * connection failed (transport_error). */
weft_status transport_test(struct transport_connector *connector,
                           union transport_request request,
                           size_t *out_bytes) WEFT_MUST_CHECK;
/* Returns true if received data must be flushed before the GPU reads it, because a NIC wrote it. */
bool transport_needs_flush(const struct transport_connector *connector);
/* Flushes [data, +n_bytes). Only if transport_needs_flush(). */
weft_status transport_iflush(struct transport_connector *connector, const void *data,
                             size_t n_bytes, const struct xfer_memory *memory,
                             union transport_request *out) WEFT_MUST_CHECK;
/* Makes progress without blocking inside a host. Returns a counter that changes whenever
 * requests may have completed or a call that returned WEFT_AGAIN may succeed. */
uint64_t transport_looks(struct transport_connector *connector);
/* Returns why the connection failed; its status is WEFT_OK if it did not. */
const struct weft_error *transport_error(const struct transport_connector *connector);

#endif
