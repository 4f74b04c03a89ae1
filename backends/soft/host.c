#define _GNU_SOURCE
#include "backends/soft/host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/hostmem/hostmem.h"
#include "backends/soft/device.h"
#include "backends/soft/follow.h"
#include "backends/soft/loopback.h"
#include "backends/soft/raw.h"
#include "base/check.h"
#include "base/text.h"
#include "sim/profile.h"
#include "sim/stack.h"

struct soft_host_port {
    struct sim_port *sim; /* Owned */
    struct soft_udp *udp; /* Owned; NULL on the raw wire */
    struct soft_raw *raw; /* Owned; or NULL */
    uint32_t ifindex;     /* as the host numbers it */
    uint32_t sim_ifindex;
};

struct soft_host {
    struct linux_env *linux_env;    /* Owned */
    struct soft_loopback *loopback; /* Owned; NULL without aliases */
    const struct world_spec *spec;  /* Not owned */
    const struct world_host *self;  /* Not owned */
    uint32_t index;                 /* in the spec */
    uint32_t process;               /* of the host */
    struct soft_follow *follow;     /* Owned; NULL with aliases */
    struct soft_engine *engine;     /* Owned */
    struct sim_stack *stack;        /* Owned */
    struct soft_host_port *ports;   /* Owned [self->n_ports] */
    struct sim_nic **nics;          /* Owned [n_devices], with elements */
    struct soft_device *devices;    /* Owned [n_devices] */
    struct io_device **io;          /* Owned [n_devices] */
    uint32_t n_devices;
    struct io_gpu *gpu; /* Owned */
    int64_t pinned_limit;
    struct sim_profile profile;
};

enum {
    WINDOW_PACKETS = 64,
    ACK_REQ_PACKETS = 16,
    PORTS_OF_DEVICE_MAX = 2,
    /* QP numbers of a process have SOFT_PROCESS_SHIFT bits; this leaves room for 2^16. */
    FIRST_QPN_MAX = 0xeffff
};

/* ---- the profile ---- */

static weft_status refuse(struct weft_error *error, const char *what, const char *of)
{
    return weft_fail(error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_SOFT,
                     "backend soft has no %s: %s", what, of);
}

static void take_machine_time(struct sim_profile *profile)
{
    profile->tx_overhead_ps = 0;
    profile->rx_overhead_ps = 0;
    profile->cqe_overhead_ps = 0;
    profile->ack_delay_ps = 0;
    profile->write_spread_ps = 0;
    profile->gpu_visibility_ps = 0;
    profile->alloc_pd_ps = 0;
    profile->dealloc_pd_ps = 0;
    profile->reg_mr_ps = 0;
    profile->reg_mr_page_ps = 0;
    profile->dereg_mr_ps = 0;
    profile->create_cq_ps = 0;
    profile->destroy_cq_ps = 0;
    profile->create_qp_ps = 0;
    profile->modify_qp_ps = 0;
    profile->destroy_qp_ps = 0;
    profile->mailbox_stall_nth = 0;
    profile->writes_in_order = true; /* memory is written in order */
    profile->has_dmabuf = false;
    profile->ipv4_id_rises = false;
    profile->window_packets = WINDOW_PACKETS;
    profile->ack_req_packets = ACK_REQ_PACKETS;
}

static weft_status build_profile(const struct world_host *self, struct sim_profile *out,
                                 struct weft_error *error)
{
    *out = *sim_profile(self->profile);
    take_machine_time(out);
    for (uint32_t i = 0; i < self->n_overrides; i++) {
        const struct world_setting *set = &self->overrides[i];
        if (!sim_profile_override(out, set->name, set->value)) {
            return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_WORLD,
                             "%s: profile %s cannot take %s = \"%s\"", self->name,
                             weft_profile_name(self->profile), set->name, set->value);
        }
    }
    return out->first_qpn > FIRST_QPN_MAX
               ? refuse(error, "first_qpn above 983039", self->name)
               : WEFT_OK;
}

/* ---- checks of a scenario ---- */

static weft_status check_host(const struct world_host *host, struct weft_error *error)
{
    struct sim_profile profile;

    if (host->n_bonds > 0) {
        return refuse(error, "bond", host->name);
    }
    if (world_host_processes(host) > SOFT_PROCESSES_MAX) {
        return refuse(error, "host of that many processes", host->name);
    }
    for (uint32_t i = 0; i < host->n_ports; i++) {
        if (host->ports[i].vlan_id != 0) {
            return refuse(error, "VLAN", host->ports[i].name);
        }
    }
    return build_profile(host, &profile, error);
}

weft_status soft_host_can_express(const struct world_spec *spec, struct weft_error *error)
{
    weft_status status = WEFT_OK;
    if (spec->is_timing_only) {
        return refuse(error, "payload: timing", "its memory is real");
    }
    for (uint32_t i = 0; i < spec->n_hosts && status == WEFT_OK; i++) {
        status = check_host(&spec->hosts[i], error);
    }
    return status;
}

/* ---- ports: their netdevs, addresses and wires ---- */

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

static bool is_of_frames(const struct world_fault *fault)
{
    return fault->kind == WORLD_FAULT_LOSS || fault->kind == WORLD_FAULT_CORRUPT ||
           fault->kind == WORLD_FAULT_DUPLICATE || fault->kind == WORLD_FAULT_REORDER;
}

/* Returns true if single frames of the cable are lost, damaged, duplicated or reordered at any
 * time. netem(8) draws once per packet before the kernel divides it into frames. */
static bool cable_draws_frames(const struct world_spec *spec, uint32_t cable)
{
    const struct world_impairment *random = &spec->cables[cable].impairment;
    bool draws = random->loss_ppb != 0 || random->corrupt_ppb != 0 ||
                 random->duplicate_ppb != 0 || random->reorder_ppb != 0;
    for (uint32_t i = 0; i < spec->n_faults && !draws; i++) {
        const struct world_fault *fault = &spec->faults[i];
        uint32_t of = 0;
        draws = fault->has_port && is_of_frames(fault) &&
                soft_port_cable(spec, fault->host, fault->port, &of) && of == cable;
    }
    return draws;
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
        .no_segments = wire == WIRE_UDP_FOREIGN ||
                       env->ops->setting(env, "WEFT_CAPTURED") != NULL ||
                       (has_cable && cable_draws_frames(host->spec, cable)),
        .icrc_is_unseen = wire == WIRE_UDP_FOREIGN,
        .log = env->log};
    return soft_udp_create(&udp, &own->udp, error);
}

/* Creates port `index` and opens its wire. MAC, MTU and carrier are the netdev's. */
static weft_status build_port(struct soft_host *host, uint32_t index,
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

/* ---- changes of the netdevs ---- */

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

/* Starts following the carriers and addresses of the ports' netdevs. Must be called inside the
 * namespace. */
static weft_status follow_netdevs(struct soft_host *host, struct weft_error *error)
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

/* ---- devices ---- */

static void on_gids_changed(void *context, struct sim_port *port)
{
    sim_nic_gid_changed(context, port);
}

static uint64_t guid_of(uint64_t mac)
{
    return (mac >> 24 ^ 0x020000) << 40 | (uint64_t)0xfffe << 24 | (mac & 0xffffff);
}

static weft_status build_device(struct soft_host *host, uint32_t index,
                                struct weft_error *error)
{
    const struct world_host *self = host->self;
    struct soft_device *device = &host->devices[index];
    struct sim_port *ports[PORTS_OF_DEVICE_MAX];
    uint8_t n = 0;
    for (uint32_t i = 0; i < self->n_ports; i++) {
        if (self->ports[i].device != index) {
            continue;
        }
        if (n == PORTS_OF_DEVICE_MAX || self->ports[i].port != n + 1u) {
            return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_WORLD,
                             "%s:%s is port %u of a device that has %u so far",
                             self->name, self->ports[i].name, self->ports[i].port, n);
        }
        device->ifindexes[n] = host->ports[i].ifindex;
        device->sim_ifindexes[n] = host->ports[i].sim_ifindex;
        device->wires[n] = host->ports[i].udp;
        ports[n++] = host->ports[i].sim;
    }
    weft_check(n > 0);
    int64_t *memlock = self->memlock_bytes == INT64_MAX ? NULL : &host->pinned_limit;
    struct sim_nic *nic =
        sim_nic_create(host->engine->sim, self->name, sim_port_name(ports[0]),
                       &host->profile, host->stack, ports, n, memlock);
    sim_nic_number_from(nic, host->process << SOFT_PROCESS_SHIFT);
    host->nics[host->n_devices++] = nic;
    for (uint8_t i = 0; i < n; i++) {
        sim_port_attach(ports[i], nic, host->stack);
        sim_stack_watch_gids(host->stack, ports[i], on_gids_changed, nic);
    }
    device->is_shared = world_host_processes(self) > 1;
    soft_device_init(device, host->engine, nic);
    weft_format(device->io.name, sizeof device->io.name, "%s", sim_port_name(ports[0]));
    device->io.guid = guid_of(sim_port_mac(ports[0]));
    device->io.n_ports = n;
    host->io[index] = &device->io;
    return WEFT_OK;
}

static weft_status build(struct soft_host *host, struct weft_error *error)
{
    const struct world_host *self = host->self;
    const struct sim_stack_config stack = {.host = self->name,
                                           /* The kernel applies these checks itself. */
                                           .sysctl = {.rp_filter = 0, .accept_local = 1},
                                           .forward_accept = true};
    uint32_t n_devices = 0;
    weft_status status = build_profile(host->self, &host->profile, error);
    host->stack = sim_stack_create(host->engine->sim, &stack);
    for (uint32_t i = 0; i < self->n_ports && status == WEFT_OK; i++) {
        uint32_t device = self->ports[i].device;
        n_devices = device >= n_devices ? device + 1 : n_devices;
        status = build_port(host, i, error);
    }
    host->nics = weft_calloc((size_t)n_devices + 1, sizeof(struct sim_nic *));
    host->devices = weft_calloc((size_t)n_devices + 1, sizeof *host->devices);
    host->io = weft_calloc((size_t)n_devices + 1, sizeof(struct io_device *));
    for (uint32_t i = 0; i < n_devices && status == WEFT_OK; i++) {
        status = build_device(host, i, error);
    }
    int problem = status == WEFT_OK ? linux_env_enter(host->linux_env) : 0;
    if (problem != 0) {
        return weft_fail_errno(error, problem, WEFT_PHASE_START,
                               "cannot enter the namespace");
    }
    if (status == WEFT_OK) {
        status = follow_netdevs(host, error);
        linux_env_leave(host->linux_env);
    }
    return status;
}

/* ---- set-up and release ---- */

/* Reads a number from 0 to `max` from the settings; `otherwise` if it is not set. */
static weft_status read_number(const struct io_env *env, const char *name, long max,
                               long otherwise, long *out, struct weft_error *error)
{
    const char *text = env->ops->setting((struct io_env *)(uintptr_t)env, name);
    char *end = NULL;
    *out = text == NULL ? otherwise : strtol(text, &end, 10);
    if (text != NULL && (end == text || *end != '\0' || *out < 0 || *out > max)) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_START,
                         "%s: not a number up to %ld: %s", name, max, text);
    }
    return WEFT_OK;
}

static weft_status open_env(struct soft_host *host, struct linux_loop *loop,
                            const struct soft_host_config *config,
                            struct weft_error *error)
{
    struct linux_env_config env_config = config->env;
    long block = -1, process = 0;
    weft_status status = linux_env_create(loop, &env_config, &host->linux_env, error);
    if (status == WEFT_OK) {
        struct io_env *env = soft_host_env(host);
        status = read_number(env, "WEFT_SOFT_BLOCK", 255, -1, &block, error);
        if (status == WEFT_OK) {
            status = read_number(env, "WEFT_PROCESS", SOFT_PROCESSES_MAX - 1, 0, &process,
                                 error);
        }
        linux_env_set_management(host->linux_env,
                                 env->ops->setting(env, "WEFT_MANAGEMENT"));
    }
    host->process = (uint32_t)process;
    if (status != WEFT_OK || block < 0) {
        return status;
    }
    linux_env_destroy(host->linux_env);
    host->linux_env = NULL;
    host->loopback = soft_loopback_create(config->spec, config->host, (uint8_t)block);
    env_config.aliases = soft_loopback_aliases(host->loopback);
    return linux_env_create(loop, &env_config, &host->linux_env, error);
}

weft_status soft_host_create(struct linux_loop *loop,
                             const struct soft_host_config *config,
                             struct soft_host **out, struct weft_error *error)
{
    struct soft_host *host = weft_calloc(1, sizeof *host);
    host->spec = config->spec;
    host->index = config->host;
    host->self = &config->spec->hosts[config->host];
    host->pinned_limit = host->self->memlock_bytes;
    host->ports = weft_calloc((size_t)host->self->n_ports + 1, sizeof *host->ports);
    host->gpu = hostmem_create();
    weft_status status = soft_host_can_express(config->spec, error);
    if (status == WEFT_OK) {
        status = open_env(host, loop, config, error);
    }
    if (status == WEFT_OK) {
        status = soft_engine_create(loop, config->spec->seed, config->env.trace,
                                    &host->engine, error);
    }
    if (status == WEFT_OK) {
        status = build(host, error);
    }
    if (status == WEFT_OK) {
        status = soft_engine_start(host->engine, error);
    }
    if (status != WEFT_OK) {
        soft_host_destroy(host);
        return status;
    }
    struct io_env *env = soft_host_env(host);
    env->world_host = host->index;
    env->process = host->process;
    env->gpu = host->gpu;
    env->devices = host->io;
    env->n_devices = host->n_devices;
    *out = host;
    return WEFT_OK;
}

void soft_host_destroy(struct soft_host *host)
{
    if (host == NULL) {
        return;
    }
    if (host->engine != NULL) {
        soft_engine_stop(host->engine);
    }
    for (uint32_t i = 0; i < host->n_devices; i++) {
        soft_device_fini(&host->devices[i]);
        sim_nic_destroy(host->nics[i]);
    }
    for (uint32_t i = 0; i < host->self->n_ports; i++) {
        sim_port_destroy(host->ports[i].sim);
        soft_udp_destroy(host->ports[i].udp);
        soft_raw_destroy(host->ports[i].raw);
    }
    if (host->stack != NULL) {
        sim_stack_destroy(host->stack);
    }
    soft_follow_destroy(host->follow);
    soft_engine_destroy(host->engine);
    free(host->nics);
    free(host->devices);
    free(host->io);
    free(host->ports);
    hostmem_destroy(host->gpu);
    linux_env_destroy(host->linux_env);
    soft_loopback_destroy(host->loopback);
    free(host);
}

struct io_env *soft_host_env(struct soft_host *host)
{
    return linux_env_io(host->linux_env);
}

void soft_host_set_carrier(struct soft_host *host, uint32_t port, bool is_up)
{
    if (host->loopback != NULL) {
        soft_loopback_set_up(host->loopback, port, is_up);
    }
    soft_enter(host->engine);
    sim_port_set_outside_carrier(host->ports[port].sim, is_up);
    soft_leave(host->engine);
}

void soft_host_counters(struct soft_host *host, uint32_t port,
                        struct soft_udp_counters *out_wire,
                        struct sim_nic_counters *out_nic)
{
    soft_enter(host->engine);
    *out_wire = (struct soft_udp_counters){.rx_datagrams = 0};
    if (host->ports[port].udp != NULL) {
        soft_udp_counters(host->ports[port].udp, out_wire);
    }
    sim_nic_counters(host->nics[host->self->ports[port].device], out_nic);
    soft_leave(host->engine);
}

struct sim_direction_stats soft_host_sent(struct soft_host *host, uint32_t port)
{
    soft_enter(host->engine);
    struct sim_direction_stats sent = sim_port_sent(host->ports[port].sim);
    soft_leave(host->engine);
    return sent;
}
