/* Transports inside the host of a rank: which ranks share the host, the transport to each, the
 * proxy, the streams between the processes, and the connectors over p2p and shm. One state
 * machine per rank:
 *
 *   FACTS      an all-gather of /dev/shm, GPU and proxy of every rank
 *   SETUP      chooses a transport for both directions of every pair; the owner's end of each
 *              connector gets its memory from its own proxy
 *   EXCHANGE   all-gathers of connectors' blobs, in NCCL's order: for i = 1, 2 ... those for
 *              the rank i before and the rank i after, channel by channel, up to
 *              128 pairs a round
 *   CONNECT    connects streams to the proxies of peers; the other ends attach to the memory,
 *              and names are unlinked
 *   UP         moves messages
 *   CLOSING, CLOSED, or FAILED
 *
 * All members of a job take part in the all-gathers if any host has several ranks
 * (inside_is_needed); the caller runs them. */
#ifndef WEFT_TRANSPORT_INSIDE_H
#define WEFT_TRANSPORT_INSIDE_H

#include "io/env.h"
#include "nccl/transports.h"
#include "transport/transport.h"

#define INSIDE_KEY_BYTES 32
#define INSIDE_ROUND_PEERS 128u

struct inside;

struct inside_config {
    uint32_t rank, n_ranks, n_members;
    /* [n_members]: first member of each member's host; copied */
    const uint32_t *host_of;
    /* [n_ranks]: channels over which this rank sends to each rank, and receives from it; bit c
     * for channel c; copied. NULL if none. */
    const uint32_t *send_channels, *receive_channels;
    uint32_t n_channels; /* 1 to 32, the same on all members; 0 means 1 */
    uint8_t job_key[INSIDE_KEY_BYTES];
    /* size of all steps of a connector, if NCCL_BUFFSIZE is unset; 0 means 4 MiB */
    uint32_t buffer_bytes;
    int task_kind;     /* kind of its streams' tasks */
    uint32_t patience; /* factor of the limits (rdma/timers.h); 0 counts as 1 */
    bool merges_nics;  /* treat the ports of one card as one NET (nccl/describe.h) */
};

/* Returns true if some host has several ranks. */
bool inside_is_needed(const uint32_t *host_of, uint32_t n_ranks);

/* Creates *out, to be freed with inside_destroy(). Listens if other ranks are on this host.
 * Completed GPU copies wake `task`. Sets *out to NULL on error. */
weft_status inside_open(struct io_env *env, const struct inside_config *config,
                        struct io_task *task, struct inside **out,
                        struct weft_error *error) WEFT_MUST_CHECK;
/* Returns this rank's contribution to the next all-gather in *out_bytes, valid until the next
 * call. *out_n_bytes is equal on all members, and 0 if no all-gather is left. Returns WEFT_AGAIN
 * if it is not ready yet. */
weft_status inside_round(struct inside *inside, const uint8_t **out_bytes,
                         size_t *out_n_bytes, struct weft_error *error) WEFT_MUST_CHECK;
/* Takes the result of the all-gather: n_members contributions in order. */
weft_status inside_take(struct inside *inside, const uint8_t *result,
                        struct weft_error *error) WEFT_MUST_CHECK;
/* Makes progress without blocking. `task` is the task that was woken, of one stream or of the
 * listener; NULL means all. inside_error_peer() is the rank that an error concerns. */
weft_status inside_progress(struct inside *inside, struct io_task *task,
                            struct weft_error *error) WEFT_MUST_CHECK;
/* Returns the rank that the last error concerns, or UINT32_MAX. */
uint32_t inside_error_peer(const struct inside *inside);
/* Returns true in UP. */
bool inside_is_up(const struct inside *inside);

/* Returns the transport chosen for one direction to or from a peer, available after FACTS: that of
 * the first channel that fell back from p2p to shm, or else of the first channel. NULL if the peer
 * is on another host, or if no channel connects it in that direction. */
const struct transport_choice *inside_choice(const struct inside *inside, uint32_t peer,
                                             bool is_sender);
/* Returns the connector of a channel, available in UP. NULL if there is none or that direction
 * uses the network. */
struct transport_connector *inside_connector(struct inside *inside, uint32_t peer,
                                             bool is_sender, uint32_t channel);

/* Starts an orderly end. Call inside_progress() until inside_is_closed(). No message may be in
 * progress. */
void inside_close(struct inside *inside);
/* Returns true in CLOSED and FAILED. */
bool inside_is_closed(const struct inside *inside);
/* Closes all streams at once and enters FAILED, after sending `reason` to the peers unless it is
 * NULL. Memory is kept until inside_destroy(), because a GPU may still be copying. */
void inside_stop(struct inside *inside, const char *reason);
/* Frees everything. NULL is ignored. */
void inside_destroy(struct inside *inside);

#endif
