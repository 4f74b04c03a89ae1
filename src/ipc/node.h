/* The CUDA IPC state of one process, shared by its links to all peers: its identity, settings,
 * events to lend, a stream for copies, and the imported memory of other processes. */
#ifndef WEFT_IPC_NODE_H
#define WEFT_IPC_NODE_H

#include "io/env.h"
#include "ipc/cache.h"

#define IPC_EVENTS_MAX 256u

struct ipc_settings {
    bool is_off;
    bool is_original;      /* smcuda-4.1, for comparison */
    bool forbids_same_gpu; /* two processes on one GPU stage their messages */
    weft_ns negative_ns;   /* time until the first refusal is reconsidered; doubles */
    weft_ns resend_ns;     /* retry interval of messages; 0 if the carrier loses none */
    uint32_t n_events;     /* maximum number of open offers; 1 to IPC_EVENTS_MAX */
    uint32_t n_open_max;
    uint64_t n_bytes_open_max;
};

/* Reads WEFT_IPC (on, off, smcuda-4.1; default on), WEFT_IPC_SAME_GPU (1, 0; default 1),
 * WEFT_IPC_OPEN (default 256 allocations), WEFT_IPC_OPEN_MIB (default no limit) and
 * WEFT_IPC_RETRY_MS (default 30000). Fails with WEFT_ERR_INPUT, which names the invalid setting. */
weft_status ipc_settings_read(struct io_env *env, struct ipc_settings *out,
                              struct weft_error *error) WEFT_MUST_CHECK;

/* Fields are read-only for users. */
struct ipc_node {
    struct io_env *env;   /* Not owned. */
    struct io_task *task; /* Not owned; woken by the GPU */
    struct ipc_settings settings;
    struct ipc_identity identity; /* its `gpu` and `probe` are valid once is_ready */
    bool is_ready;                /* there is a usable context */
    bool is_out;                  /* permanent: the GPU cannot share memory */
    weft_ns
        retry_ns; /* when to try again to create the probe, for which there was no room */
    void *probe;  /* Owned; memory that begins with the nonce */
    void **retired; /* Owned [n_retired]; old probes that a peer may still read */
    uint32_t n_retired;
    /* Owned; for copies from memory of peers, and events of offers */
    struct io_gpu_stream *stream;
    /* Owned [settings.n_events]; NULL: not created */
    struct io_gpu_event *events[IPC_EVENTS_MAX];
    bool is_lent[IPC_EVENTS_MAX];
    struct ipc_cache cache;
    uint64_t generation; /* generation of the last export */
};

/* Initializes the state of a process. `env` and `task` must outlive it. Creates nothing on the
 * GPU before ipc_node_ready(). */
void ipc_node_init(struct ipc_node *node, struct io_env *env, struct io_task *task,
                   const struct ipc_settings *settings);
/* Frees everything. All links must be closed, at the peers, too, and no copy may be in progress. */
void ipc_node_fini(struct ipc_node *node);
/* Returns true if memory can be shared now. Call again whenever that may have changed; it is
 * cheap once it has succeeded or can never succeed. */
bool ipc_node_ready(struct ipc_node *node);
/* Discards the identity of the old device, because the device has changed. The caller must call
 * ipc_link_renew() for all links. No event may be lent. */
void ipc_node_device_changed(struct ipc_node *node);
/* Lends an event: *out is its index, for ipc_node_return(). Returns false if all are lent or
 * none can be created. */
bool ipc_node_lend(struct ipc_node *node, uint32_t *out);
/* Returns true if an event is lent, so that one will be returned. */
bool ipc_node_lends(const struct ipc_node *node);
/* Returns an event lent by ipc_node_lend(). */
void ipc_node_return(struct ipc_node *node, uint32_t event);

/* Returns what can be decided without opening memory: IPC_FINE, or the reason why not. Pure. */
enum ipc_reason ipc_judge(const struct ipc_identity *own, const struct ipc_identity *peer,
                          const struct ipc_settings *settings);
/* Decides as smcuda does, by comparing device ordinals of two processes. */
bool ipc_judge_original(struct ipc_node *node, const struct ipc_identity *peer);

#endif
