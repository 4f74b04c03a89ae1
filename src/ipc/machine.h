/* The negotiation of CUDA IPC between two processes of a host, as a pure function: a small state
 * machine without memory, clock or messages, so that a test can walk through all its states.
 * link.h provides these.
 *
 * Both ends are symmetric. Each sends a HELLO once per epoch, when it has a usable context, and
 * a VERDICT about the peer's HELLO when it has checked the peer's memory:
 *
 *   INIT    nothing sent: no GPU buffer was used yet, or there is no context
 *   SENT    HELLO sent; waiting for the peer's
 *   ACKING  both HELLOs known; finding out whether the peer's memory can be opened
 *   ACKED   it can, and the VERDICT is sent; waiting for the peer's
 *   OK      both ends can
 *   BAD     one end cannot, or the peer is gone; messages between them are staged
 *
 * A new epoch (another device, or an expired refusal) restarts the negotiation; messages about
 * an older one are ignored. Nothing is repeated or counted. Only if messages can be lost does an
 * end that is not settled repeat its messages, marked `again`, and the receiver of these
 * replies. */
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
/* Returns a name such as "INIT". */
const char *ipc_state_name(enum ipc_state state);

/* UNKNOWN: waits for the result of judging. */
enum ipc_verdict { IPC_UNKNOWN, IPC_ACCEPT, IPC_REFUSE };

struct ipc_machine {
    enum ipc_state state;
    bool is_wanted;             /* a GPU buffer was used at either end */
    bool is_ready;              /* this end has a context */
    bool is_gone;               /* the peer is gone */
    uint32_t epoch;             /* epoch of this end's last HELLO; 0 if none yet */
    uint32_t peer_epoch;        /* epoch of the peer's last HELLO; 0 if none received */
    enum ipc_verdict own, peer; /* this end's about the peer; the peer's about this end */
};

enum ipc_input {
    IPC_WANTED,     /* the first GPU buffer is used */
    IPC_READY,      /* a context is usable */
    IPC_RENEW,      /* another device, or the refusal expired: starts a new epoch */
    IPC_HELLO_IN,   /* `epoch` is the peer's */
    IPC_VERDICT_IN, /* `epoch` is the peer's, `about` this end's; `accepts` */
    IPC_JUDGED,     /* `about` is the peer's epoch that was judged; `accepts` */
    IPC_TIMER,      /* resend_ns without being settled; messages can be lost */
    IPC_GONE        /* the peer is gone */
};

struct ipc_event {
    enum ipc_input input;
    uint32_t epoch, about;
    bool accepts;
    bool is_again; /* only for messages: the sender requests a reply */
};

/* Actions to perform after an event, in this order. */
struct ipc_actions {
    bool says_hello; /* send HELLO{machine.epoch} */
    /* send VERDICT{machine.epoch, about machine.peer_epoch, machine.own} */
    bool says_verdict;
    bool is_again; /* mark both messages as `again` */
    bool judges;   /* judge machine.peer_epoch, then pass in IPC_JUDGED */
};

/* Processes an event. Returns the actions that the caller must perform. */
struct ipc_actions ipc_machine_step(struct ipc_machine *machine,
                                    const struct ipc_event *event);
/* Returns true in OK and BAD, where the machine waits for nothing. */
bool ipc_machine_is_settled(const struct ipc_machine *machine);

#endif
