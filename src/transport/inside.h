/* What of a rank's transports is inside its host: who of the ranks shares it, which transport
 * leads to each, the proxy and the streams between the processes, and the connectors over p2p and
 * shm. One machine per rank:
 *
 *   FACTS      an all-gather: /dev/shm, GPU and proxy of every rank
 *   SETUP      a transport is chosen for every direction of every pair; the owner's end of each
 *              connector gets its memory, from its own proxy
 *   EXCHANGE   all-gathers of connectors' blobs, in NCCL's order: for i = 1, 2 ... those for the
 *              rank i before and the rank i after, channel by channel, up to
 *              128 pairs a round
 *   CONNECT    streams to the proxies of peers; the other ends attach, names go
 *   UP         messages move
 *   CLOSING, CLOSED, or FAILED
 *
 * All members of a job take part in the all-gathers, if any host has several ranks
 * (inside_is_needed); the caller runs them. */
#ifndef WEFT_TRANSPORT_INSIDE_H
#define WEFT_TRANSPORT_INSIDE_H

#include "io/env.h"
#include "transport/choice.h"
#include "transport/transport.h"

#define INSIDE_KEY_BYTES 32
#define INSIDE_ROUND_PEERS 128u

struct inside;

struct inside_config {
    uint32_t rank, n_ranks, n_members;
    /* [n_members]: the first member of each one's host; copied */
    const uint32_t *host_of;
    /* [n_ranks]: over which channels the rank sends to each, and receives from it: bit c for
     * channel c; copied. NULL: none. */
    const uint32_t *send_channels, *receive_channels;
    uint32_t n_channels; /* 1..32, of all members together; 0 means 1 */
    uint8_t job_key[INSIDE_KEY_BYTES];
    uint32_t buffer_bytes; /* of all steps of a connector; 0: NCCL_BUFFSIZE, or 4 MiB */
    int task_kind;         /* of its streams' tasks */
    bool merges_nics;      /* ports of one card are one NET (topo/describe.h) */
};

/* Whether some host has several ranks. */
bool inside_is_needed(const uint32_t *host_of, uint32_t n_ranks);

/* `task` is woken by copies of the GPU. Listens, if other ranks are in this host. */
weft_status inside_open(struct io_env *env, const struct inside_config *config,
                        struct io_task *task, struct inside **out,
                        struct weft_error *error) WEFT_MUST_CHECK;
/* The rank's part of the next all-gather: *out_n_bytes the same on all members, 0 when there is
 * none any more. AGAIN: not yet. Valid until the next call. */
weft_status inside_round(struct inside *inside, const uint8_t **out_bytes,
                         size_t *out_n_bytes, struct weft_error *error) WEFT_MUST_CHECK;
/* Its result: n_members times as much. */
weft_status inside_take(struct inside *inside, const uint8_t *result,
                        struct weft_error *error) WEFT_MUST_CHECK;
/* Does what can be done now. `task` is the one of a stream that was woken, or NULL: all. An error
 * concerns inside_error_peer. */
weft_status inside_progress(struct inside *inside, struct io_task *task,
                            struct weft_error *error) WEFT_MUST_CHECK;
/* The rank that the last error happened with, or UINT32_MAX. */
uint32_t inside_error_peer(const struct inside *inside);
bool inside_is_up(const struct inside *inside);

/* Over which transport a peer of this host is reached in a direction, once FACTS are in; NULL:
 * it is of another host, or the rank has nothing to do with it. */
const struct transport_choice *inside_choice(const struct inside *inside, uint32_t peer,
                                             bool is_sender);
/* The connector of a channel, once UP; NULL: there is none, or that direction goes over the
 * network. */
struct transport_connector *inside_connector(struct inside *inside, uint32_t peer,
                                             bool is_sender, uint32_t channel);

/* Orderly end: progress until inside_is_closed. Nothing may be under way. */
void inside_close(struct inside *inside);
bool inside_is_closed(const struct inside *inside);
/* Ends streams and names at once, and tells the others why unless `reason` is NULL. Memory stays
 * until inside_destroy: a GPU may still copy. */
void inside_stop(struct inside *inside, const char *reason);
/* NULL is ignored. */
void inside_destroy(struct inside *inside);

#endif
