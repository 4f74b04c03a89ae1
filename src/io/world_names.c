#include "io/world.h"

#include <string.h>

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
        [WORLD_FAULT_CALL_ERROR] = "call_error",
        [WORLD_FAULT_CALL_SLOW] = "call_slow",
        [WORLD_FAULT_CALL_SHORT] = "call_short",
        [WORLD_FAULT_CALL_LOST] = "call_lost",
        [WORLD_FAULT_DEVICE_FATAL] = "device_fatal",
        [WORLD_FAULT_ASYNC_EVENT] = "async_event",
        [WORLD_FAULT_STRANGER] = "stranger",
    };

    return kind < WORLD_N_FAULTS ? names[kind] : "?";
}

const char *world_call_name(enum world_call call)
{
    static const char *const names[WORLD_N_CALLS] = {
        [WORLD_CALL_ANY] = "any",
        [WORLD_CALL_QUERY_DEVICE] = "query_device",
        [WORLD_CALL_QUERY_PORT] = "query_port",
        [WORLD_CALL_QUERY_GID] = "query_gid",
        [WORLD_CALL_ALLOC_PD] = "alloc_pd",
        [WORLD_CALL_DEALLOC_PD] = "dealloc_pd",
        [WORLD_CALL_REG_MR] = "reg_mr",
        [WORLD_CALL_DEREG_MR] = "dereg_mr",
        [WORLD_CALL_CREATE_CQ] = "create_cq",
        [WORLD_CALL_DESTROY_CQ] = "destroy_cq",
        [WORLD_CALL_CREATE_QP] = "create_qp",
        [WORLD_CALL_MODIFY_QP] = "modify_qp",
        [WORLD_CALL_DESTROY_QP] = "destroy_qp",
        [WORLD_CALL_POST_SEND] = "post_send",
        [WORLD_CALL_POST_RECV] = "post_recv",
        [WORLD_CALL_POLL_CQ] = "poll_cq",
        [WORLD_CALL_REQ_NOTIFY] = "req_notify",
        [WORLD_CALL_LISTEN] = "listen",
        [WORLD_CALL_ACCEPT] = "accept",
        [WORLD_CALL_CONNECT] = "connect",
        [WORLD_CALL_CONNECTED] = "connected",
        [WORLD_CALL_SEND] = "send",
        [WORLD_CALL_RECV] = "recv",
        [WORLD_CALL_OPEN_ANNOUNCER] = "open_announcer",
        [WORLD_CALL_ANNOUNCE] = "announce",
        [WORLD_CALL_HEAR] = "hear",
        [WORLD_CALL_ALLOC] = "alloc",
        [WORLD_CALL_START] = "start",
        [WORLD_CALL_SHM_CREATE] = "shm_create",
        [WORLD_CALL_SHM_ATTACH] = "shm_attach",
        [WORLD_CALL_EXPORT_MEMORY] = "export_memory",
        [WORLD_CALL_IMPORT_MEMORY] = "import_memory",
    };

    return call < WORLD_N_CALLS ? names[call] : "?";
}

bool world_moment_is_met(const struct world_moment *moment, enum io_stage stage,
                         uint64_t n)
{
    switch (moment->kind) {
    case WORLD_MOMENT_JOBS:
        return stage == IO_STAGE_JOBS;
    case WORLD_MOMENT_ROW:
        return stage == IO_STAGE_ROW && n == moment->row;
    case WORLD_MOMENT_SENT:
        return stage == IO_STAGE_SENT && n >= moment->bytes;
    case WORLD_MOMENT_START:
    case WORLD_MOMENT_RTS:
    case WORLD_MOMENT_PACKET:
    case WORLD_N_MOMENTS:
        break;
    }
    return false;
}

bool world_moment_is_of_programs(enum world_moment_kind kind)
{
    return kind == WORLD_MOMENT_RTS || kind == WORLD_MOMENT_PACKET;
}

bool world_fault_is_of_calls(enum world_fault_kind kind)
{
    return kind == WORLD_FAULT_CALL_ERROR || kind == WORLD_FAULT_CALL_SLOW ||
           kind == WORLD_FAULT_CALL_SHORT || kind == WORLD_FAULT_CALL_LOST ||
           kind == WORLD_FAULT_DEVICE_FATAL || kind == WORLD_FAULT_ASYNC_EVENT;
}

bool world_fault_is_of_link(const struct world_fault *fault)
{
    return fault->has_port || fault->on_management;
}

const char *world_fault_place(const struct world_host *host,
                              const struct world_fault *fault)
{
    if (fault->has_port) {
        return host->ports[fault->port].name;
    }
    return fault->on_management ? "management" : "host";
}

bool world_facing(const struct world_spec *spec, uint32_t host, uint32_t peer,
                  uint32_t *out_port, uint32_t *out_peer_port)
{
    for (uint32_t i = 0; i < spec->n_cables; i++) {
        const struct world_end *ends = spec->cables[i].ends;

        for (unsigned side = 0; side < 2; side++) {
            const struct world_end *own = &ends[side];
            const struct world_end *other = &ends[1 - side];

            if (!own->is_switch && !other->is_switch && own->node == host &&
                other->node == peer) {
                *out_port = own->port;
                *out_peer_port = other->port;
                return true;
            }
        }
    }
    return false;
}

uint32_t world_port_index(const struct world_host *host, const char *name)
{
    uint32_t i = 0;

    while (i < host->n_ports && strcmp(host->ports[i].name, name) != 0) {
        i++;
    }
    return i;
}

const struct io_ip *world_port_address(const struct world_port *port,
                                       const struct world_port *near)
{
    for (uint32_t i = 0; near != NULL && i < port->n_addresses; i++) {
        for (uint32_t j = 0; j < near->n_addresses; j++) {
            if (io_ip_same_subnet(&port->addresses[i].ip, &near->addresses[j].ip,
                                  near->addresses[j].prefix_len)) {
                return &port->addresses[i].ip;
            }
        }
    }
    return port->n_addresses > 0 ? &port->addresses[0].ip : NULL;
}
