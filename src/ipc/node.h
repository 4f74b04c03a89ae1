/* What one process has for CUDA IPC with all others: who it is, its settings, events to lend, a
 * stream for its copies, and the memory of others that it has open. */
#ifndef WEFT_IPC_NODE_H
#define WEFT_IPC_NODE_H

#include "io/env.h"
#include "ipc/cache.h"

#define IPC_EVENTS_MAX 256u

struct ipc_settings {
    bool is_off;
    bool is_original;      /* smcuda-4.1, for comparison */
    bool forbids_same_gpu; /* two processes on one GPU stage */
    weft_ns negative_ns;   /* until a refusal is reconsidered, at first */
    weft_ns resend_ns;     /* 0: the carrier loses nothing */
    uint32_t n_events;     /* offers open at a time; 1 ... IPC_EVENTS_MAX */
    uint32_t n_open_max;
    uint64_t n_bytes_open_max;
};

/* WEFT_IPC (on, off, smcuda-4.1), WEFT_IPC_SAME_GPU (1, 0), WEFT_IPC_OPEN (256 allocations),
 * WEFT_IPC_OPEN_MIB (no limit), WEFT_IPC_RETRY_MS (30000). WEFT_ERR_INPUT names the one that is
 * wrong. */
weft_status ipc_settings_read(struct io_env *env, struct ipc_settings *out,
                              struct weft_error *error) WEFT_MUST_CHECK;

/* Fields are for reading. */
struct ipc_node {
    struct io_env *env;   /* Not owned. */
    struct io_task *task; /* Not owned; woken by the GPU */
    struct ipc_settings settings;
    struct ipc_identity identity; /* its GPU: once it is ready */
    bool is_ready;                /* there is a context that can be used */
    bool is_out;                  /* it will never be: the GPU cannot share */
    void *probe;                  /* Owned; memory that begins with the nonce */
    void **retired; /* Owned [n_retired]; probes that a peer may still read */
    uint32_t n_retired;
    struct io_gpu_stream *stream; /* Owned; of copies from others' memory */
    struct io_gpu_event *events[IPC_EVENTS_MAX]; /* Owned [settings.n_events], or NULL */
    bool is_lent[IPC_EVENTS_MAX];
    struct ipc_cache cache;
    uint64_t generation; /* of the last export */
};

void ipc_node_init(struct ipc_node *node, struct io_env *env, struct io_task *task,
                   const struct ipc_settings *settings);
/* All links are closed, the peers' too, and no copy is under way. */
void ipc_node_fini(struct ipc_node *node);
/* Whether memory can be shared now. Asked again whenever the answer may have changed; it is
 * cheap until then. */
bool ipc_node_ready(struct ipc_node *node);
/* The device is another one now: its identity is found anew. Links are to be renewed. */
void ipc_node_device_changed(struct ipc_node *node);
/* Index of an event that is the caller's until it is returned; false: all are lent. */
bool ipc_node_lend(struct ipc_node *node, uint32_t *out);
/* Whether any is lent, and so comes back. */
bool ipc_node_lends(const struct ipc_node *node);
void ipc_node_return(struct ipc_node *node, uint32_t event);

/* What can be said without trying: IPC_FINE, or why not. Pure. */
enum ipc_reason ipc_judge(const struct ipc_identity *own, const struct ipc_identity *peer,
                          const struct ipc_settings *settings);
/* As smcuda decided: by comparing ordinals of two processes. */
bool ipc_judge_original(struct ipc_node *node, const struct ipc_identity *peer);

#endif
