#include "ipc/machine.h"

#include <stddef.h>

#include "base/check.h"

const char *ipc_state_name(enum ipc_state state)
{
    static const char *const names[IPC_N_STATES] = {"INIT",  "SENT", "ACKING",
                                                    "ACKED", "OK",   "BAD"};

    weft_check(state < IPC_N_STATES);
    return names[state];
}

bool ipc_machine_is_settled(const struct ipc_machine *machine)
{
    return machine->state == IPC_OK || machine->state == IPC_BAD;
}

/* Changes the state. A new epoch leads back to SENT or ACKING from any state. BAD is reached
 * from any state, because the peer can end or refuse at any time. */
static void enter(struct ipc_machine *machine, enum ipc_state next)
{
    enum ipc_state state = machine->state;

    weft_check(!machine->is_gone || next == IPC_BAD);
    weft_check(next != IPC_INIT);
    weft_check(next != IPC_ACKED || state == IPC_ACKING);
    weft_check(next != IPC_OK || state == IPC_ACKING || state == IPC_ACKED);
    machine->state = next;
}

/* Starts to judge the peer. Both HELLOs are known, and neither end has a verdict yet. */
static void judge(struct ipc_machine *machine, struct ipc_actions *actions)
{
    machine->own = IPC_UNKNOWN;
    machine->peer = IPC_UNKNOWN;
    enter(machine, IPC_ACKING);
    actions->judges = true;
}

static void begin_epoch(struct ipc_machine *machine, struct ipc_actions *actions)
{
    machine->epoch++;
    actions->says_hello = true;
    if (machine->peer_epoch != 0) {
        judge(machine, actions);
    } else {
        enter(machine, IPC_SENT);
    }
}

static void settle(struct ipc_machine *machine)
{
    if (machine->own == IPC_REFUSE || machine->peer == IPC_REFUSE) {
        enter(machine, IPC_BAD);
    } else if (machine->own == IPC_ACCEPT && machine->peer == IPC_ACCEPT) {
        enter(machine, IPC_OK);
    } else if (machine->own == IPC_ACCEPT) {
        enter(machine, IPC_ACKED);
    }
}

/* Repeats everything, because the peer can have missed any of it. */
static void say_all(const struct ipc_machine *machine, struct ipc_actions *actions)
{
    actions->says_hello = machine->epoch != 0;
    actions->says_verdict = machine->own != IPC_UNKNOWN;
}

static void take_hello(struct ipc_machine *machine, const struct ipc_event *event,
                       struct ipc_actions *actions)
{
    machine->is_wanted = true;
    if (event->epoch < machine->peer_epoch) {
        return; /* message of an old epoch */
    }
    if (event->epoch == machine->peer_epoch) {
        if (event->is_again) {
            say_all(machine, actions);
        }
        return;
    }
    machine->peer_epoch = event->epoch;
    machine->own = IPC_UNKNOWN;
    machine->peer = IPC_UNKNOWN;
    if (machine->epoch != 0) {
        judge(machine, actions);
        actions->says_hello = event->is_again;
    }
}

/* Takes a verdict. Ignores it if it concerns other epochs. */
static void take_verdict(struct ipc_machine *machine, const struct ipc_event *event,
                         struct ipc_actions *actions)
{
    bool is_now = event->epoch == machine->peer_epoch && machine->peer_epoch != 0 &&
                  event->about == machine->epoch;

    if (is_now && machine->peer == IPC_UNKNOWN && machine->state != IPC_BAD) {
        machine->peer = event->accepts ? IPC_ACCEPT : IPC_REFUSE;
        settle(machine);
    }
    if (event->is_again) {
        say_all(machine, actions);
    }
}

static void take_judgement(struct ipc_machine *machine, const struct ipc_event *event,
                           struct ipc_actions *actions)
{
    if (machine->state != IPC_ACKING || event->about != machine->peer_epoch) {
        return;
    }
    machine->own = event->accepts ? IPC_ACCEPT : IPC_REFUSE;
    actions->says_verdict = true;
    settle(machine);
}

static void ask_again(struct ipc_machine *machine, struct ipc_actions *actions)
{
    if (machine->state == IPC_SENT || machine->state == IPC_ACKED) {
        say_all(machine, actions);
        actions->is_again = true;
    }
}

struct ipc_actions ipc_machine_step(struct ipc_machine *machine,
                                    const struct ipc_event *event)
{
    struct ipc_actions actions = {0};

    if (machine->is_gone) {
        return actions;
    }
    switch (event->input) {
    case IPC_WANTED:
        machine->is_wanted = true;
        break;
    case IPC_READY:
        machine->is_ready = true;
        break;
    case IPC_RENEW:
        if (machine->epoch != 0) {
            begin_epoch(machine, &actions);
        }
        return actions;
    case IPC_HELLO_IN:
        take_hello(machine, event, &actions);
        break;
    case IPC_VERDICT_IN:
        take_verdict(machine, event, &actions);
        break;
    case IPC_JUDGED:
        take_judgement(machine, event, &actions);
        break;
    case IPC_TIMER:
        ask_again(machine, &actions);
        break;
    case IPC_GONE:
        machine->is_gone = true;
        enter(machine, IPC_BAD);
        break;
    }
    if (machine->state == IPC_INIT && machine->is_wanted && machine->is_ready) {
        begin_epoch(machine, &actions);
    }
    return actions;
}
