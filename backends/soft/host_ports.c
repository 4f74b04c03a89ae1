/* The ports of a host: their netdevs, addresses and wires. */
#define _GNU_SOURCE
#include <string.h>

#include "backends/soft/host_private.h"
#include "base/check.h"
#include "base/text.h"

/* Returns the netdev of a port: from WEFT_DEVICES, or the port's name. */
static void netdev_name(struct soft_host *host, const struct world_port *port, char *out,
                        size_t n_bytes)
{
    struct io_env *env = linux_env_io(host->linux_env);
    const char *text = env->ops->setting(env, "WEFT_DEVICES");
    size_t n_name = strlen(port->name);
    weft_format(out, n_bytes, "%s", port->name);
    while (text != NULL && *text != '\0') {
        size_t n = strcspn(text, ",");
        if (n > n_name && strncmp(text, port->name, n_name) == 0 && text[n_name] == '=') {
            weft_format(out, n_bytes, "%.*s", (int)(n - n_name - 1), text + n_name + 1);
            return;
        }
        text += n + (text[n] == ',' ? 1 : 0);
    }
}

static weft_status find_netdev(struct soft_host *host, uint32_t index,
                               const struct io_netdev **out, struct weft_error *error)
{
    struct io_env *env = linux_env_io(host->linux_env);
    const struct io_hostinfo *info = env->ops->hostinfo(env);
    char name[64];
    netdev_name(host, &host->self->ports[index], name, sizeof name);
    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        if (strcmp(info->netdevs[i].name, name) == 0) {
            *out = &info->netdevs[i];
            return WEFT_OK;
        }
    }
    if (info->netdevs_errno != 0) {
        return weft_fail_errno(error, info->netdevs_errno, WEFT_PHASE_START,
                               "%s:%s: cannot ask the kernel for its interfaces",
                               host->self->name, host->self->ports[index].name);
    }
    return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_START,
                     "%s:%s: there is no netdev %s here", host->self->name,
                     host->self->ports[index].name, name);
}

static void add_addresses(struct soft_host *host, uint32_t index)
{
    const struct world_port *port = &host->self->ports[index];
    struct soft_host_port *own = &host->ports[index];
    for (uint32_t i = 0; i < port->n_addresses; i++) {
        struct sim_ip ip;
        memcpy(ip.bytes, port->addresses[i].ip.bytes, sizeof ip.bytes);
        struct sim_prefix reached = {.ip = ip,
                                     .prefix_len = port->addresses[i].prefix_len};
        if (port->peers != NULL && !io_ip_is_zero(&port->peers[i])) {
            memcpy(reached.ip.bytes, port->peers[i].bytes, sizeof ip.bytes);
        }
        (void)sim_stack_add_peer_address(host->stack, own->sim_ifindex, &ip, &reached);
    }
    if (host->profile.gids_by_scan) {
        (void)sim_stack_scan_gids(host->stack, own->sim);
    }
}

/* Indexes of the wires' names. */
enum { WIRE_UDP, WIRE_UDP_FOREIGN, WIRE_RAW };

static weft_status choose_wire(struct soft_host *host, unsigned *out,
                               struct weft_error *error)
{
    static const char *const names[] = {"udp", "udp-foreign", "raw"};
    struct io_env *env = linux_env_io(host->linux_env);
    const char *wire = env->ops->setting(env, "WEFT_SOFT_WIRE");
    *out = 0;
    while (wire != NULL && *out < WEFT_LENGTH(names) && strcmp(wire, names[*out]) != 0) {
        ++*out;
    }
    if (*out == WEFT_LENGTH(names)) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_START,
                         "WEFT_SOFT_WIRE: udp, udp-foreign or raw, not %.40s", wire);
    }
    if (*out == WIRE_RAW &&
        (host->loopback != NULL || world_host_processes(host->self) > 1)) {
        return weft_fail(error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_SOFT,
                         "the raw wire needs a netdev a port, and one process a host: %s",
                         host->self->name);
    }
    return WEFT_OK;
}

/* Opens the wire of a port. Must be called inside the namespace. */
static weft_status open_wire(struct soft_host *host, uint32_t index, bool is_up,
                             struct weft_error *error)
{
    struct io_env *env = linux_env_io(host->linux_env);
    uint32_t cable = 0;
    bool has_cable = soft_port_cable(host->spec, host->index, index, &cable);
    struct soft_host_port *own = &host->ports[index];
    struct soft_raw_config raw = {.engine = host->engine,
                                  .port = own->sim,
                                  .ifindex = own->ifindex,
                                  .rate_bps =
                                      has_cable ? host->spec->cables[cable].rate_bps : 0,
                                  .is_up = is_up};
    unsigned wire = WIRE_UDP;
    weft_status status = choose_wire(host, &wire, error);
    if (status != WEFT_OK) {
        return status;
    }
    raw.carries_frames = wire == WIRE_RAW;
    int problem = host->loopback == NULL ? soft_raw_create(&raw, &own->raw) : 0;
    if (problem != 0 && raw.carries_frames) {
        return weft_fail_errno(error, problem, WEFT_PHASE_START,
                               "no packet socket on %s:%s", host->self->name,
                               host->self->ports[index].name);
    }
    if (raw.carries_frames) {
        return WEFT_OK;
    }
    const struct soft_udp_config udp = {
        .engine = host->engine,
        .port = own->sim,
        .stack = host->stack,
        .aliases = host->loopback == NULL ? NULL : soft_loopback_aliases(host->loopback),
        .neighbours = own->raw,
        .ifindex = own->ifindex,
        .process = host->process,
        .rate_bps = raw.rate_bps,
        .is_up = is_up,
        .no_segments =
            wire == WIRE_UDP_FOREIGN || env->ops->setting(env, "WEFT_CAPTURED") != NULL,
        .icrc_is_unseen = wire == WIRE_UDP_FOREIGN,
        .log = env->log};
    return soft_udp_create(&udp, &own->udp, error);
}

weft_status soft_host_build_port(struct soft_host *host, uint32_t index,
                                 struct weft_error *error)
{
    const struct sim_gid_config gids = {.n_slots = host->profile.gid_tbl_len,
                                        .has_roce_v1 = host->profile.has_roce_v1,
                                        .n_foreign = host->profile.foreign_gids};
    struct soft_host_port *own = &host->ports[index];
    const struct io_netdev *netdev = NULL;
    uint64_t mac = 0;
    weft_status status = find_netdev(host, index, &netdev, error);
    if (status != WEFT_OK) {
        return status;
    }
    for (int i = 0; i < 6; i++) {
        mac = mac << 8 | netdev->mac[i];
    }
    const struct sim_port_config config = {.host = host->self->name,
                                           .name = host->self->ports[index].name,
                                           .mac = mac,
                                           .mtu_bytes = netdev->mtu_bytes};
    bool is_up = netdev->is_up;
    own->ifindex = netdev->ifindex;
    own->sim = sim_port_create(host->engine->sim, &config);
    own->sim_ifindex = sim_stack_add_port(host->stack, own->sim, &gids);
    add_addresses(host, index);
    int problem = linux_env_enter(host->linux_env);
    if (problem != 0) {
        return weft_fail_errno(error, problem, WEFT_PHASE_START,
                               "cannot enter the namespace");
    }
    status = open_wire(host, index, is_up, error);
    linux_env_leave(host->linux_env);
    return status;
}

/* ---- changes ---- */

static struct soft_host_port *port_of(const struct soft_host *host, uint32_t ifindex)
{
    for (uint32_t i = 0; i < host->self->n_ports; i++) {
        if (host->ports[i].ifindex == ifindex) {
            return &host->ports[i];
        }
    }
    return NULL;
}

static void on_carrier(void *context, uint32_t ifindex, bool is_up)
{
    const struct soft_host_port *port = port_of(context, ifindex);
    if (port != NULL && sim_port_is_up(port->sim) != is_up) {
        sim_port_set_outside_carrier(port->sim, is_up);
    }
}

static void on_address(void *context, uint32_t ifindex, bool is_there,
                       const struct io_ip *local, const struct io_prefix *prefix)
{
    struct soft_host *host = context;
    const struct soft_host_port *port = port_of(host, ifindex);
    struct sim_ip ip;
    struct sim_prefix reached = {.prefix_len = prefix->prefix_len};
    if (port == NULL) {
        return;
    }
    memcpy(ip.bytes, local->bytes, sizeof ip.bytes);
    memcpy(reached.ip.bytes, prefix->ip.bytes, sizeof ip.bytes);
    if (is_there) {
        (void)sim_stack_add_peer_address(host->stack, port->sim_ifindex, &ip, &reached);
    } else {
        (void)sim_stack_del_address(host->stack, port->sim_ifindex, &ip);
    }
    /* Even if the stack has it already: an IPv6 address is reported again when it can be bound,
     * after duplicate address detection (net/ipv6/addrconf.c, addrconf_dad_completed). */
    if (port->udp != NULL) {
        soft_udp_follow_gids(port->udp);
    }
}

weft_status soft_host_follow(struct soft_host *host, struct weft_error *error)
{
    static const struct soft_follow_ops ops = {.carrier = on_carrier,
                                               .address = on_address};
    int problem = host->loopback == NULL
                      ? soft_follow_create(host->engine, &ops, host, &host->follow)
                      : 0;
    for (uint32_t i = 0; i < host->self->n_ports && host->follow != NULL; i++) {
        if (host->ports[i].udp != NULL) {
            /* Again, because duplicate address detection can have ended before reports began. */
            soft_udp_follow_gids(host->ports[i].udp);
        }
        if (!sim_port_is_up(host->ports[i].sim)) {
            soft_follow_ask(host->follow, host->ports[i].ifindex);
        }
    }
    return problem == 0
               ? WEFT_OK
               : weft_fail_errno(error, problem, WEFT_PHASE_START,
                                 "cannot follow the netdevs of %s", host->self->name);
}
