/* The negotiation of CUDA IPC with one peer, with all that machine.h leaves out: identities,
 * opening the peer's probe, time, trace and messages. Or, in mode smcuda-4.1, the original's. */
#ifndef WEFT_IPC_LINK_H
#define WEFT_IPC_LINK_H

#include "ipc/machine.h"
#include "ipc/node.h"
#include "ipc/smcuda.h"

struct ipc_link_config {
    struct ipc_node *node; /* Not owned; outlives the link */
    uint32_t self;         /* the own number, for the trace */
    uint32_t peer;         /* its number, for trace and errors */
    bool is_higher;        /* than the peer's number: the original decides by it */
};

#define IPC_SAID_MAX 8u

enum ipc_probe { IPC_PROBE_IDLE, IPC_PROBE_COPYING, IPC_PROBE_OUTDATED };

/* Fields are for reading. */
struct ipc_link {
    struct ipc_link_config config;
    struct ipc_machine machine;
    struct smcuda_machine original;
    struct ipc_identity peer;
    enum ipc_reason reason;      /* of the own verdict, or of the end */
    enum ipc_reason peer_reason; /* of the peer's */
    weft_ns deadline_ns;         /* to be progressed then; WEFT_NEVER */
    weft_ns expires_ns;          /* of the own refusal; WEFT_NEVER: it stands */
    uint32_t n_refusals;
    /* what is to be said, in this order */
    bool says_hello, says_verdict, is_again;
    enum smcuda_message original_said[IPC_SAID_MAX]; /* in order */
    uint32_t n_original_said;
    /* of the probe that is being read */
    enum ipc_probe probe;
    uint32_t probe_epoch;
    struct ipc_mapping *probe_mapping;
    uint8_t probe_owner[IPC_NONCE_BYTES];
    uint64_t probe_buffer;
    void *probe_landing; /* Owned, of the GPU */
    struct io_gpu_op probe_op;
};

void ipc_link_init(struct ipc_link *link, const struct ipc_link_config *config);
/* Waits for nothing: false while the GPU still copies; then again. */
bool ipc_link_fini(struct ipc_link *link);

/* A probe that is being read is given up: nobody looks at the GPU any more. */
void ipc_link_drop_probe(struct ipc_link *link);

/* A GPU buffer is to go to the peer. */
void ipc_link_touch(struct ipc_link *link);
/* A HELLO, VERDICT or ORIGINAL came. */
void ipc_link_take(struct ipc_link *link, const struct ipc_message *message);
/* What came is of another version: nothing will come of it. */
void ipc_link_other_version(struct ipc_link *link);
/* The stream ended, or the process did. */
void ipc_link_gone(struct ipc_link *link);
/* The device of this process changed (ipc_node_device_changed). */
void ipc_link_renew(struct ipc_link *link);
/* Does what can be done now. */
void ipc_link_progress(struct ipc_link *link);
/* What is to be sent now; false: nothing. */
bool ipc_link_next(struct ipc_link *link, struct ipc_message *out);

enum ipc_state ipc_link_state(const struct ipc_link *link);
/* Whether memory of this process can be offered now. */
bool ipc_link_is_up(const struct ipc_link *link);
/* Why it is BAD. */
enum ipc_reason ipc_link_reason(const struct ipc_link *link);

#endif
