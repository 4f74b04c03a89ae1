/* The negotiation of Open MPI's smcuda BTL of the 4.1 series (btl_smcuda.c, README of the BTL),
 * for comparison. The sender of a message requests CUDA IPC, up to five times; the receiver
 * decides for both, by comparing device ordinals of two processes, and does not reply when it
 * refuses. IPC_OK is declared and never entered. Bugs are kept; docs/ipc.md lists where it gets
 * stuck. */
#ifndef WEFT_IPC_SMCUDA_H
#define WEFT_IPC_SMCUDA_H

#include "ipc/machine.h"

#define SMCUDA_TRIES_MAX 5u

/* Numbers of its control messages. */
enum smcuda_message {
    SMCUDA_NOTHING = 0,
    SMCUDA_REQUEST = 10,
    SMCUDA_ACK = 11,
    SMCUDA_NOT_READY = 12
};

struct smcuda_machine {
    enum ipc_state state;
    uint8_t n_tries;
    bool is_ready;  /* the CUDA environment is initialised */
    bool is_higher; /* this end has the higher rank, which answers when requests cross */
    bool has_asserted; /* an ACK came in a state where debug builds abort */
};

/* Called before a GPU buffer is sent. Returns the message to send to the peer. */
enum smcuda_message smcuda_send(struct smcuda_machine *machine);
/* Takes a message, and returns the reply. `can_access` is the result of cuDeviceCanAccessPeer()
 * for the two ordinals, or the same-GPU setting. */
enum smcuda_message smcuda_receive(struct smcuda_machine *machine,
                                   enum smcuda_message message, bool can_access);
/* Returns true if smcuda would use IPC now, which it does from ACKED on. */
bool smcuda_is_up(const struct smcuda_machine *machine);

#endif
