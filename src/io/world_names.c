#include "io/world.h"

const char *world_fault_name(enum world_fault_kind kind)
{
    static const char *const names[WORLD_N_FAULTS] = {
        [WORLD_FAULT_DOWN] = "down",
        [WORLD_FAULT_UP] = "up",
        [WORLD_FAULT_LOSS] = "loss",
        [WORLD_FAULT_CORRUPT] = "corrupt",
        [WORLD_FAULT_DUPLICATE] = "duplicate",
        [WORLD_FAULT_REORDER] = "reorder",
        [WORLD_FAULT_ECN] = "ecn",
        [WORLD_FAULT_DELAY] = "delay",
        [WORLD_FAULT_RATE] = "rate",
        [WORLD_FAULT_MTU] = "mtu",
        [WORLD_FAULT_PATH_LIMIT] = "path_limit",
        [WORLD_FAULT_PAUSE] = "pause",
        [WORLD_FAULT_DROP] = "drop",
        [WORLD_FAULT_KILL] = "kill",
        [WORLD_FAULT_STOP] = "stop",
        [WORLD_FAULT_RESTART] = "restart",
        [WORLD_FAULT_CLOCK] = "clock",
        [WORLD_FAULT_GID_DELETE] = "gid_delete",
        [WORLD_FAULT_GID_ADD] = "gid_add",
        [WORLD_FAULT_ADDR_ADD] = "addr_add",
        [WORLD_FAULT_ADDR_DEL] = "addr_del",
        [WORLD_FAULT_VERB_ERROR] = "verb_error",
        [WORLD_FAULT_VERB_SLOW] = "verb_slow",
    };

    return kind < WORLD_N_FAULTS ? names[kind] : "?";
}
