/* The negotiation as Open MPI's smcuda BTL of the 4.1 series has it (btl_smcuda.c, README of the
 * BTL), for comparison: who sends asks, up to five times; who is asked decides for both, by the
 * ordinals of two processes, and does not answer when it refuses. IPC_OK is declared and never
 * entered. Kept as it is, with what is wrong with it; docs/ipc.md lists where it gets stuck. */
#ifndef WEFT_IPC_SMCUDA_H
#define WEFT_IPC_SMCUDA_H

#include "ipc/machine.h"

#define SMCUDA_TRIES_MAX 5u

/* The numbers of its control messages. */
enum smcuda_message {
    SMCUDA_NOTHING = 0,
    SMCUDA_REQUEST = 10,
    SMCUDA_ACK = 11,
    SMCUDA_NOT_READY = 12
};

struct smcuda_machine {
    enum ipc_state state;
    uint8_t n_tries;
    bool is_ready;     /* the CUDA environment is initialised */
    bool is_higher;    /* of two crossing requests, the higher rank answers the other's */
    bool has_asserted; /* an ACK came in a state where debug builds abort */
};

/* A GPU buffer is to be sent; returns what is said to the peer. */
enum smcuda_message smcuda_send(struct smcuda_machine *machine);
/* `can_access`: what cuDeviceCanAccessPeer says of the two ordinals, or the same-GPU setting. */
enum smcuda_message smcuda_receive(struct smcuda_machine *machine,
                                   enum smcuda_message message, bool can_access);
/* Whether it would use IPC now: ACKED counts as done. */
bool smcuda_is_up(const struct smcuda_machine *machine);

#endif
