/* The negotiation of CUDA IPC between two processes of a host, as a pure function: a small state
 * machine without memory, clock or messages of its own, so that a test can walk through all of
 * its lives. link.h gives it those.
 *
 * Both ends are alike; nobody asks and nobody answers. Each says HELLO once per epoch, when it has
 * a context that can be used, and a VERDICT about the other's HELLO when it has found out:
 *
 *   INIT    said nothing: no GPU buffer was touched yet, or there is no context
 *   SENT    HELLO is out, the other's is not in
 *   ACKING  both are in: finding out whether its memory can be reached
 *   ACKED   it can, and the other was told; its verdict is not in
 *   OK      both can
 *   BAD     one cannot, or the other end is gone: what goes between them is staged
 *
 * A new epoch (another device, or a refusal that expired) begins the whole again; what was said of
 * an older one is ignored. Nothing is repeated and nothing counted. Only where messages can be
 * lost does an end that is not settled say the same `again`, and whoever hears that answers. */
#ifndef WEFT_IPC_MACHINE_H
#define WEFT_IPC_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

enum ipc_state {
    IPC_INIT,
    IPC_SENT,
    IPC_ACKING,
    IPC_ACKED,
    IPC_OK,
    IPC_BAD,
    IPC_N_STATES
};
/* "INIT" */
const char *ipc_state_name(enum ipc_state state);

enum ipc_verdict { IPC_UNKNOWN, IPC_ACCEPT, IPC_REFUSE };

struct ipc_machine {
    enum ipc_state state;
    bool is_wanted;             /* a GPU buffer was touched, here or there */
    bool is_ready;              /* there is a context */
    bool is_gone;               /* the other end */
    uint32_t epoch;             /* of our last HELLO; 0: none yet */
    uint32_t peer_epoch;        /* of its last HELLO; 0: none came */
    enum ipc_verdict own, peer; /* about each other's epoch */
};

enum ipc_input {
    IPC_WANTED,     /* the first GPU buffer */
    IPC_READY,      /* a context can be used */
    IPC_RENEW,      /* another device, or the refusal expired: a new epoch */
    IPC_HELLO_IN,   /* epoch: the other's */
    IPC_VERDICT_IN, /* epoch: the other's; about: ours; accepts */
    IPC_JUDGED,     /* about: the other's epoch that was judged; accepts */
    IPC_TIMER,      /* not settled for long, and messages can be lost */
    IPC_GONE        /* the other end */
};

struct ipc_event {
    enum ipc_input input;
    uint32_t epoch, about;
    bool accepts;
    bool is_again; /* of messages: an answer is asked for */
};

/* What is to be done after an event, in this order. */
struct ipc_actions {
    bool says_hello;   /* HELLO{machine.epoch} */
    bool says_verdict; /* VERDICT{machine.epoch, about machine.peer_epoch, machine.own} */
    bool is_again;     /* ... both marked so */
    bool judges; /* find out about machine.peer_epoch, and come back with IPC_JUDGED */
};

struct ipc_actions ipc_machine_step(struct ipc_machine *machine,
                                    const struct ipc_event *event);
/* OK or BAD: nothing is waited for. */
bool ipc_machine_is_settled(const struct ipc_machine *machine);

#endif
