/* The negotiation of CUDA IPC with one peer. Adds to machine.h identities, opening the peer's
 * probe, time, trace and messages. In mode smcuda-4.1 it runs the machine of smcuda.h instead. */
#ifndef WEFT_IPC_LINK_H
#define WEFT_IPC_LINK_H

#include "ipc/machine.h"
#include "ipc/node.h"
#include "ipc/smcuda.h"

struct ipc_link_config {
    struct ipc_node *node; /* Not owned; must outlive the link */
    uint32_t self;         /* number of this end, for the trace */
    uint32_t peer;         /* number of the peer, for trace and errors */
    bool is_higher;        /* self > peer, by which smcuda decides */
};

#define IPC_SAID_MAX 8u

/* OUTDATED: copying, but the peer has a new epoch, so the result is ignored. */
enum ipc_probe { IPC_PROBE_IDLE, IPC_PROBE_COPYING, IPC_PROBE_OUTDATED };

/* Fields are read-only for users. */
struct ipc_link {
    struct ipc_link_config config;
    struct ipc_machine machine;
    struct smcuda_machine original;
    struct ipc_identity peer;
    enum ipc_reason reason; /* reason of this end's verdict, or of the end of the link */
    enum ipc_reason peer_reason; /* reason of the peer's verdict */
    weft_ns deadline_ns; /* next call of ipc_link_progress(); WEFT_NEVER if none */
    weft_ns expires_ns;  /* expiry of this end's refusal; WEFT_NEVER: never */
    uint32_t n_refusals;
    /* messages to send, in this order */
    bool says_hello, says_verdict, is_again;
    enum smcuda_message original_said[IPC_SAID_MAX]; /* messages of smcuda, in order */
    uint32_t n_original_said;
    /* the probe that is being read */
    enum ipc_probe probe;
    uint32_t probe_epoch;
    struct ipc_mapping *probe_mapping;
    uint8_t probe_owner[IPC_NONCE_BYTES];
    uint64_t probe_buffer;
    void *probe_landing; /* Owned, GPU memory */
    struct io_gpu_op probe_op;
};

/* Initializes a link in INIT. Sends nothing. */
void ipc_link_init(struct ipc_link *link, const struct ipc_link_config *config);
/* Ends the negotiation. Does not wait: returns false while the GPU is still copying; call again
 * later. */
bool ipc_link_fini(struct ipc_link *link);

/* Drops a probe that is being read. The GPU must not be polled for it any more. */
void ipc_link_drop_probe(struct ipc_link *link);

/* Called before a GPU buffer is sent to the peer. Starts the negotiation, or starts it again if
 * a refusal has expired. */
void ipc_link_touch(struct ipc_link *link);
/* Takes a HELLO, VERDICT or ORIGINAL. */
void ipc_link_take(struct ipc_link *link, const struct ipc_message *message);
/* Ends the negotiation, because the peer speaks another version of the protocol. */
void ipc_link_other_version(struct ipc_link *link);
/* Ends the negotiation, because the stream or the peer's process has ended. */
void ipc_link_gone(struct ipc_link *link);
/* Starts a new epoch, because the device of this process changed (ipc_node_device_changed). Without
 * a context both ends stage, until ipc_link_progress() starts another epoch with one. */
void ipc_link_renew(struct ipc_link *link);
/* Makes progress without blocking. */
void ipc_link_progress(struct ipc_link *link);
/* Returns the next message to send in `out`, or false if there is none. */
bool ipc_link_next(struct ipc_link *link, struct ipc_message *out);

enum ipc_state ipc_link_state(const struct ipc_link *link);
/* Returns true if memory of this process can be offered now. */
bool ipc_link_is_up(const struct ipc_link *link);
/* Returns why the state is BAD. */
enum ipc_reason ipc_link_reason(const struct ipc_link *link);

#endif
