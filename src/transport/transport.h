/* Connectors: how messages get from one rank to another, whatever lies between the two. As in
 * NCCL, the first transport that can connect them does, in the order of enum transport_kind.
 *
 * A connector is one direction of one channel to one peer. Its ends move messages with isend,
 * irecv and test, in order, whichever transport is beneath:
 *
 *   p2p    a ring of steps in a GPU's memory, which the other GPU writes or reads
 *   shm    a ring of steps in shared memory of the host
 *   net    messages of a flow (xfer/flow.h); a connector adds nothing to them
 *
 * Those inside a host are set up by inside.h.
 *
 * docs/transports.md. */
#ifndef WEFT_TRANSPORT_TRANSPORT_H
#define WEFT_TRANSPORT_TRANSPORT_H

#include "xfer/flow.h"

/* NCCL's order: the first that can, does. */
enum transport_kind { TRANSPORT_P2P, TRANSPORT_SHM, TRANSPORT_NET, TRANSPORT_COLLNET };
#define TRANSPORT_N_KINDS (TRANSPORT_COLLNET + 1)
const char *transport_kind_name(enum transport_kind kind); /* "p2p" */

/* p2p: shorter messages are better off with the steps, which do not keep their sender waiting;
 * measured on the simulator (docs/transports.md). */
#define TRANSPORT_DIRECT_BYTES (64u << 10)

struct inside_link;
struct steps_request;

struct transport_connector {
    enum transport_kind kind;
    bool is_sender;
    uint32_t peer;              /* rank */
    uint32_t channel;           /* from 0 */
    struct flow *flow;          /* NET; Not owned */
    struct inside_link *inside; /* P2P, SHM; Not owned */
};

/* A message under way; belongs to the connector until transport_test says that it ended. */
union transport_request {
    struct flow_request *net; /* NULL: none */
    struct steps_request *steps;
};

/* The connector over a flow that is there; `flow` outlives it. */
void transport_net(struct transport_connector *connector, struct flow *flow);

/* As flow_register and the others (xfer/flow.h). Memory that a transport needs no hold of stays
 * one of none: out->n is 0. */
weft_status transport_register(struct transport_connector *connector, void *addr,
                               size_t length, struct xfer_memory *out,
                               struct weft_error *error) WEFT_MUST_CHECK;
/* As flow_register_dmabuf. */
weft_status transport_register_dmabuf(struct transport_connector *connector, void *addr,
                                      size_t length, int fd, uint64_t offset,
                                      struct xfer_memory *out,
                                      struct weft_error *error) WEFT_MUST_CHECK;
weft_status transport_register_progress(struct transport_connector *connector,
                                        struct xfer_memory *memory,
                                        struct weft_error *error) WEFT_MUST_CHECK;
void transport_deregister(struct transport_connector *connector,
                          struct xfer_memory *memory);
/* The memory is about to be freed, and no message uses it. AGAIN: the other end may still have it
 * open; call again when something moved. */
weft_status transport_invalidate(struct transport_connector *connector, const void *addr,
                                 size_t length) WEFT_MUST_CHECK;

/* Starts sending [data, +n_bytes) as the next message. AGAIN: call again when something moved.
 */
weft_status transport_isend(struct transport_connector *connector, const void *data,
                            size_t n_bytes, const struct xfer_memory *memory,
                            union transport_request *out) WEFT_MUST_CHECK;
/* Posts `data` for the next message, of at most n_bytes. AGAIN as for isend. */
weft_status transport_irecv(struct transport_connector *connector, void *data,
                            size_t n_bytes, const struct xfer_memory *memory,
                            union transport_request *out) WEFT_MUST_CHECK;
/* WEFT_OK: done, the request is gone, *out_bytes (or NULL) are the message's. AGAIN: not yet. An
 * error: the connection failed (transport_error). */
weft_status transport_test(struct transport_connector *connector,
                           union transport_request request,
                           size_t *out_bytes) WEFT_MUST_CHECK;
/* Whether what arrived may have to be made visible to the GPU: a NIC wrote it. */
bool transport_needs_flush(const struct transport_connector *connector);
/* Does so for [data, +n_bytes). */
weft_status transport_iflush(struct transport_connector *connector, const void *data,
                             size_t n_bytes, const struct xfer_memory *memory,
                             union transport_request *out) WEFT_MUST_CHECK;
/* Changes whenever requests may have come to an end, or one that had to wait may start; does what
 * can be done now inside a host. */
uint64_t transport_looks(struct transport_connector *connector);
/* Why it failed; status WEFT_OK: it did not. */
const struct weft_error *transport_error(const struct transport_connector *connector);

#endif
