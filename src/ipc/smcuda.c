#include "ipc/smcuda.h"

enum smcuda_message smcuda_send(struct smcuda_machine *machine)
{
    if (!machine->is_ready || machine->state != IPC_INIT) {
        return SMCUDA_NOTHING;
    }
    machine->n_tries++;
    if (machine->n_tries > SMCUDA_TRIES_MAX) {
        machine->state = IPC_BAD;
        return SMCUDA_NOTHING;
    }
    machine->state = IPC_SENT;
    return SMCUDA_REQUEST;
}

static enum smcuda_message take_request(struct smcuda_machine *machine, bool can_access)
{
    bool is_taken =
        machine->state == IPC_INIT || (machine->state == IPC_SENT && machine->is_higher);

    if (!is_taken) {
        return SMCUDA_NOTHING;
    }
    machine->state = IPC_ACKING;
    if (!machine->is_ready) {
        machine->state = IPC_INIT;
        return SMCUDA_NOT_READY;
    }
    machine->state = can_access ? IPC_ACKED : IPC_BAD;
    return can_access ? SMCUDA_ACK : SMCUDA_NOTHING;
}

enum smcuda_message smcuda_receive(struct smcuda_machine *machine,
                                   enum smcuda_message message, bool can_access)
{
    switch (message) {
    case SMCUDA_REQUEST:
        return take_request(machine, can_access);
    case SMCUDA_ACK:
        machine->has_asserted |= machine->state != IPC_SENT;
        machine->state = IPC_ACKED;
        break;
    case SMCUDA_NOT_READY:
        if (machine->state == IPC_SENT) {
            machine->state = IPC_INIT;
        }
        break;
    case SMCUDA_NOTHING:
        break;
    }
    return SMCUDA_NOTHING;
}

bool smcuda_is_up(const struct smcuda_machine *machine)
{
    return machine->state == IPC_ACKED;
}
