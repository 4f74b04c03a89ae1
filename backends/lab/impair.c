/* Impairments and faults of cables, as netem settings and link states. */
#include <errno.h>
#include <string.h>

#include "backends/lab/fabric.h"
#include "backends/lab/layout.h"
#include "base/check.h"

/* In real time a veth takes about 20 us per frame and has no line rate, so smaller delays and
 * higher rates cannot be added to it. The defaults of a scenario (1 us, 100 Gbit/s) mean an
 * unimpaired cable, except where cables are exact. */
#define DELAY_FLOOR_NS 100000
#define ALL_PPB 1000000000
#define RATE_CEILING_BPS UINT64_C(10000000000)

void lab_base_impairment(const struct world_cable *cable, uint32_t mtu_bytes,
                         bool is_exact, struct netlink_impairment *out)
{
    *out = (struct netlink_impairment){.random = cable->impairment};
    if (is_exact || cable->delay_ps / 1000 >= DELAY_FLOOR_NS) {
        out->delay_ns = cable->delay_ps / 1000;
    }
    if (is_exact || cable->rate_bps < RATE_CEILING_BPS) {
        out->rate_bps = cable->rate_bps;
    }
    if (cable->queue_bytes != 0) {
        uint64_t packets = cable->queue_bytes / (mtu_bytes + 1U) + 1;

        out->queue_packets = packets > UINT32_MAX ? UINT32_MAX : (uint32_t)packets;
    }
}

static bool is_nothing(const struct netlink_impairment *impairment)
{
    const struct world_impairment *random = &impairment->random;

    return random->loss_ppb == 0 && random->corrupt_ppb == 0 &&
           random->duplicate_ppb == 0 && random->reorder_ppb == 0 &&
           impairment->delay_ns == 0 && impairment->jitter_ns == 0 &&
           impairment->rate_bps == 0;
}

/* Returns true if a fault changes an impairment of a cable. */
static bool is_impairing(const struct world_fault *fault)
{
    switch (fault->kind) {
    case WORLD_FAULT_LOSS:
    case WORLD_FAULT_CORRUPT:
    case WORLD_FAULT_DUPLICATE:
    case WORLD_FAULT_REORDER:
    case WORLD_FAULT_DELAY:
    case WORLD_FAULT_RATE:
        return true;
    case WORLD_FAULT_DOWN:
    case WORLD_FAULT_UP:
    case WORLD_FAULT_MTU:
    case WORLD_FAULT_KILL:
    case WORLD_FAULT_STOP:
    case WORLD_FAULT_ADDR_ADD:
    case WORLD_FAULT_ADDR_DEL:
    case WORLD_FAULT_ECN:
    case WORLD_FAULT_PATH_LIMIT:
    case WORLD_FAULT_PAUSE:
    case WORLD_FAULT_DROP:
    case WORLD_FAULT_RESTART:
    case WORLD_FAULT_CLOCK:
    case WORLD_FAULT_GID_DELETE:
    case WORLD_FAULT_GID_ADD:
    case WORLD_FAULT_VERB_ERROR:
    case WORLD_FAULT_VERB_SLOW:
    case WORLD_FAULT_CALL_ERROR:
    case WORLD_FAULT_CALL_SLOW:
    case WORLD_FAULT_CALL_SHORT:
    case WORLD_FAULT_CALL_LOST:
    case WORLD_FAULT_DEVICE_FATAL:
    case WORLD_FAULT_ASYNC_EVENT:
    case WORLD_FAULT_STRANGER:
    case WORLD_N_FAULTS:
        break;
    }
    return false;
}

/* Returns true if a fault acts on a cable through netem. One direction of a veth has no carrier of
 * its own, so all its frames are lost instead. */
static bool needs_netem(const struct world_fault *fault)
{
    bool is_carrier = fault->kind == WORLD_FAULT_DOWN || fault->kind == WORLD_FAULT_UP;

    return is_impairing(fault) || (is_carrier && fault->direction != WORLD_BOTH_WAYS);
}

/* Returns true if the spec has a netem fault of the cable at this port. */
static bool will_be_impaired(const struct lab_fabric *fabric, const struct lab_port *port)
{
    for (uint32_t i = 0; i < fabric->spec->n_faults && port->has_cable; i++) {
        const struct world_fault *fault = &fabric->spec->faults[i];
        const struct lab_port *at;

        if (!fault->has_port || !needs_netem(fault)) {
            continue;
        }
        at = &fabric->hosts[fault->host].ports[fault->port];
        if (at->has_cable && at->cable == port->cable) {
            return true;
        }
    }
    return false;
}

/* When one qdisc replaces another, one that drops everything is active for a moment, and rdma_rxe
 * treats a frame dropped by its own host as an error of the queue pair. So netem is set from the
 * start where a fault will need it, and never removed. */
int lab_port_impair(struct lab_fabric *fabric, uint32_t host, uint32_t index)
{
    struct lab_port *port = &fabric->hosts[host].ports[index];
    struct netlink_impairment now = port->impairment;
    int error;

    if (port->is_mute) {
        now.random.loss_ppb = ALL_PPB;
    }
    if (!port->has_netem && is_nothing(&now) && !will_be_impaired(fabric, port)) {
        return 0;
    }
    error = netlink_set_netem(fabric->hosts[host].place.route_fd, port->netdev, &now);
    port->has_netem = port->has_netem || error == 0;
    return error;
}

/* ---- faults ---- */

bool lab_fault_is_of_process(const struct world_fault *fault)
{
    return world_fault_is_of_calls(fault->kind) ||
           fault->kind == WORLD_FAULT_VERB_ERROR || fault->kind == WORLD_FAULT_VERB_SLOW;
}

bool lab_fault_is_expressible(const struct world_fault *fault)
{
    if (fault->has_match || fault->icrc_is_good) {
        return false; /* netem cannot select packets and does not know the ICRC */
    }
    switch (fault->kind) {
    case WORLD_FAULT_DOWN:
    case WORLD_FAULT_UP:
    case WORLD_FAULT_LOSS:
    case WORLD_FAULT_CORRUPT:
    case WORLD_FAULT_DUPLICATE:
    case WORLD_FAULT_REORDER:
    case WORLD_FAULT_DELAY:
    case WORLD_FAULT_RATE:
    case WORLD_FAULT_MTU:
    case WORLD_FAULT_KILL:
    case WORLD_FAULT_STOP:
    case WORLD_FAULT_ADDR_ADD:
    case WORLD_FAULT_ADDR_DEL:
    case WORLD_FAULT_VERB_ERROR:
    case WORLD_FAULT_CALL_ERROR:
    case WORLD_FAULT_CALL_SLOW:
    case WORLD_FAULT_CALL_SHORT:
    case WORLD_FAULT_CALL_LOST:
    case WORLD_FAULT_DEVICE_FATAL:
    case WORLD_FAULT_ASYNC_EVENT:
        return true;
    case WORLD_FAULT_VERB_SLOW: /* posts cannot be delayed */
        return fault->call <= WORLD_CALL_DESTROY_QP;
    case WORLD_FAULT_ECN:
    case WORLD_FAULT_PATH_LIMIT:
    case WORLD_FAULT_PAUSE:
    case WORLD_FAULT_DROP:
    case WORLD_FAULT_RESTART:
    case WORLD_FAULT_CLOCK:
    case WORLD_FAULT_GID_DELETE:
    case WORLD_FAULT_GID_ADD:
    case WORLD_FAULT_STRANGER:
    case WORLD_N_FAULTS:
        break;
    }
    return false;
}

/* Applies or ends a fault of the frames that one end sends. */
static int impair_end(struct lab_fabric *fabric, uint32_t host, uint32_t index,
                      const struct world_fault *fault, bool undo)
{
    struct lab_port *port = &fabric->hosts[host].ports[index];
    struct netlink_impairment *now = &port->impairment;
    struct netlink_impairment base;

    lab_base_impairment(&fabric->spec->cables[port->cable], port->mtu_bytes,
                        fabric->is_exact, &base);
    if (fault->kind == WORLD_FAULT_LOSS) {
        now->random.loss_ppb = undo ? base.random.loss_ppb : fault->share_ppb;
    } else if (fault->kind == WORLD_FAULT_CORRUPT) {
        now->random.corrupt_ppb = undo ? base.random.corrupt_ppb : fault->share_ppb;
    } else if (fault->kind == WORLD_FAULT_DUPLICATE) {
        now->random.duplicate_ppb = undo ? base.random.duplicate_ppb : fault->share_ppb;
    } else if (fault->kind == WORLD_FAULT_REORDER) {
        now->random.reorder_ppb = undo ? base.random.reorder_ppb : fault->share_ppb;
    } else if (fault->kind == WORLD_FAULT_DELAY) {
        now->delay_ns = undo ? base.delay_ns : fault->delay_ns;
        now->jitter_ns = undo ? base.jitter_ns : fault->jitter_ns;
    } else if (fault->kind == WORLD_FAULT_RATE) {
        now->rate_bps = undo ? base.rate_bps : fault->rate_bps;
    }
    return lab_port_impair(fabric, host, index);
}

static int impair_cable(struct lab_fabric *fabric, const struct world_fault *fault,
                        bool undo)
{
    const struct lab_port *port = &fabric->hosts[fault->host].ports[fault->port];
    int error = 0;

    if (!port->has_cable) {
        return ENODEV;
    }
    if (fault->direction != WORLD_INWARDS) {
        error = impair_end(fabric, fault->host, fault->port, fault, undo);
    }
    if (fault->direction != WORLD_OUTWARDS && error == 0) {
        error = impair_end(fabric, port->peer_host, port->peer_port, fault, undo);
    }
    return error;
}

/* Takes a netdev down or up. Its port has a carrier if both ends of the cable are up. */
static int set_netdev(struct lab_fabric *fabric, uint32_t host, uint32_t index,
                      bool is_up)
{
    struct lab_port *port = &fabric->hosts[host].ports[index];
    bool was_down = port->is_down;
    int error = netlink_set_up(fabric->hosts[host].place.route_fd, port->netdev, is_up);

    port->is_down = !is_up;
    return error == 0 && is_up && was_down ? lab_layout_port_up(fabric, host, index)
                                           : error;
}

/* Makes a cable lose all frames that this end sends, or no longer. */
static int set_mute(struct lab_fabric *fabric, uint32_t host, uint32_t index,
                    bool is_mute)
{
    struct lab_port *port = &fabric->hosts[host].ports[index];

    if (port->is_mute == is_mute) {
        return 0;
    }
    port->is_mute = is_mute;
    return lab_port_impair(fabric, host, index);
}

/* Takes both directions of a cable up, whatever took them down, at either end. */
static int raise(struct lab_fabric *fabric, uint32_t host, uint32_t index)
{
    const struct lab_port *port = &fabric->hosts[host].ports[index];
    uint32_t hosts[] = {host, port->peer_host}, ports[] = {index, port->peer_port};
    int error = 0;

    for (int i = 0; i < (port->has_cable ? 2 : 1) && error == 0; i++) {
        error = set_netdev(fabric, hosts[i], ports[i], true);
        error = error == 0 ? set_mute(fabric, hosts[i], ports[i], false) : error;
    }
    return error;
}

/* Takes the direction in which `from` sends down or up. If the cable has no carrier, neither
 * direction works, so the other one becomes mute before the carrier is back. */
static int change_direction(struct lab_fabric *fabric, uint32_t from, uint32_t index,
                            bool is_up)
{
    const struct lab_port *port = &fabric->hosts[from].ports[index];
    const struct lab_port *peer = &fabric->hosts[port->peer_host].ports[port->peer_port];
    uint32_t to = port->peer_host, far = port->peer_port;
    int error = 0;

    if (is_up && (port->is_down || peer->is_down)) {
        error = set_mute(fabric, to, far, true);
        error = error == 0 ? set_netdev(fabric, from, index, true) : error;
        error = error == 0 ? set_netdev(fabric, to, far, true) : error;
    }
    return error == 0 ? set_mute(fabric, from, index, !is_up) : error;
}

static int change_carrier(struct lab_fabric *fabric, const struct world_fault *fault,
                          bool is_up)
{
    const struct lab_port *port = &fabric->hosts[fault->host].ports[fault->port];

    if (fault->direction == WORLD_BOTH_WAYS) {
        return is_up ? raise(fabric, fault->host, fault->port)
                     : set_netdev(fabric, fault->host, fault->port, false);
    }
    if (!port->has_cable) {
        return ENODEV;
    }
    return fault->direction == WORLD_OUTWARDS
               ? change_direction(fabric, fault->host, fault->port, is_up)
               : change_direction(fabric, port->peer_host, port->peer_port, is_up);
}

static int change_link(struct lab_fabric *fabric, const struct world_fault *fault,
                       bool undo)
{
    int fd = fabric->hosts[fault->host].place.route_fd;
    const struct world_port *spec = &fabric->spec->hosts[fault->host].ports[fault->port];
    struct lab_port *port = &fabric->hosts[fault->host].ports[fault->port];
    bool adds = (fault->kind == WORLD_FAULT_ADDR_ADD) != undo;
    int error;

    if (fault->kind == WORLD_FAULT_DOWN || fault->kind == WORLD_FAULT_UP) {
        return change_carrier(fabric, fault, (fault->kind == WORLD_FAULT_UP) != undo);
    }
    if (fault->kind == WORLD_FAULT_MTU) {
        port->mtu_bytes = undo ? spec->mtu_bytes : fault->size_bytes;
        return netlink_set_mtu(fd, port->netdev, port->mtu_bytes);
    }
    error = adds ? netlink_add_address(fd, port->netdev, &fault->address)
                 : netlink_delete_address(fd, port->netdev, &fault->address);
    return error == 0 ? lab_layout_address(fabric, fault->host, fault->port, adds,
                                           &fault->address)
                      : error;
}

static int change_management(struct lab_fabric *fabric, const struct world_fault *fault,
                             bool undo)
{
    struct lab_host *host = &fabric->hosts[fault->host];
    bool is_up = (fault->kind == WORLD_FAULT_UP) != undo;
    int error;

    if (fault->kind != WORLD_FAULT_DOWN && fault->kind != WORLD_FAULT_UP) {
        return EOPNOTSUPP;
    }
    error = netlink_set_up(host->place.route_fd, host->management, is_up);
    return error == 0 && is_up ? lab_layout_management_up(fabric, fault->host) : error;
}

int lab_fault_apply(struct lab_fabric *fabric, const struct world_fault *fault, bool undo)
{
    if (fault->on_management) {
        return change_management(fabric, fault, undo);
    }
    if (!lab_fault_is_expressible(fault) || !fault->has_port) {
        return EOPNOTSUPP;
    }
    return is_impairing(fault) ? impair_cable(fabric, fault, undo)
                               : change_link(fabric, fault, undo);
}
