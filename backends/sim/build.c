/* Builds engine, ports, cables, stacks and NICs from the description of a world. */
#include <stdlib.h>
#include <string.h>

#include "backends/sim/sim_world.h"
#include "base/check.h"
#include "base/text.h"

/* Locally administered MACs: 02:57, host, port + 1; the management interface is port 0xff00. */
#define MAC_BASE 0x025700000000ull
#define MAC_MANAGEMENT 0xff00u

static uint64_t mac_of(uint32_t host, uint32_t port)
{
    return MAC_BASE | (uint64_t)(host & 0xffff) << 16 | port;
}

/* ---- hosts ---- */

/* Parses "tcp:LO-HI" or "tcp:PORT", or the same with "udp:". */
static bool parse_drop(const char *text, struct sim_port_range *out)
{
    unsigned long bounds[2];
    bool is_udp = strncmp(text, "udp:", 4) == 0;
    if (!is_udp && strncmp(text, "tcp:", 4) != 0) {
        return false;
    }
    text += 4;
    for (int i = 0; i < 2; i++) {
        char *end;
        if (*text < '0' || *text > '9') {
            return false;
        }
        bounds[i] = strtoul(text, &end, 10);
        if (i == 0 && *end == '\0') {
            bounds[1] = bounds[0];
            text = end;
            break;
        }
        if (i == 0 && *end++ != '-') {
            return false;
        }
        text = end;
    }
    *out = (struct sim_port_range){
        .low = (uint16_t)bounds[0], .high = (uint16_t)bounds[1], .is_udp = is_udp};
    return *text == '\0' && bounds[0] <= bounds[1] && bounds[1] <= UINT16_MAX;
}

static uint32_t chunk_of(const struct world_host *spec)
{
    const char *text = sim_env_setting(spec, "WEFT_SIM_TCP_CHUNK");
    return text == NULL ? 0 : (uint32_t)strtoul(text, NULL, 10);
}

static weft_status build_stack(struct sim_host *host, struct weft_error *error)
{
    const struct world_host *spec = host->spec;
    struct sim_stack_config config = {
        .host = spec->name,
        .sysctl = {.rp_filter = spec->sysctl.rp_filter,
                   .arp_ignore = spec->sysctl.arp_ignore,
                   .arp_announce = spec->sysctl.arp_announce,
                   .ip_forward = spec->sysctl.ip_forward,
                   .accept_local = spec->sysctl.accept_local,
                   .arp_filter = spec->sysctl.arp_filter,
                   .promote_secondaries = spec->sysctl.promote_secondaries},
        .forward_accept = spec->forward_accept,
        .n_input_drop = spec->n_input_drop,
        .tcp_chunk_bytes = chunk_of(spec),
    };
    struct sim_port_range *ranges = weft_calloc(spec->n_input_drop + 1, sizeof *ranges);
    for (uint32_t i = 0; i < spec->n_input_drop; i++) {
        if (!parse_drop(spec->input_drop[i], &ranges[i])) {
            free(ranges);
            return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_WORLD,
                             "%s: input_drop \"%s\" is not \"tcp:LOW-HIGH\" or \"udp:\"",
                             spec->name, spec->input_drop[i]);
        }
    }
    config.input_drop = ranges;
    host->stack = sim_stack_create(host->world->engine, &config);
    free(ranges);
    return WEFT_OK;
}

/* Returns the rate of a PCIe root; 0 if unlimited. */
static uint64_t root_rate(const struct world_host *spec, uint32_t root)
{
    return root < spec->n_pcie_roots ? spec->pcie_root_bps[root] : 0;
}

/* Returns the lower of the rates of the port and of its PCIe root; 0 if unlimited. */
static uint64_t port_rate(const struct world_host *spec, const struct world_port *port)
{
    uint64_t root = root_rate(spec, port->pcie_root);
    if (root == 0 || (port->rate_bps != 0 && port->rate_bps < root)) {
        return port->rate_bps;
    }
    return root;
}

/* Creates the limited roots that have contention: between several ports, or between cable traffic
 * and the loopback traffic of several processes. */
static void build_roots(struct sim_host *host)
{
    const struct world_host *spec = host->spec;
    host->roots = weft_calloc(spec->n_pcie_roots + 1, sizeof(*host->roots));
    for (uint32_t i = 0; i < spec->n_pcie_roots; i++) {
        uint32_t n_ports = 0;
        for (uint32_t j = 0; j < spec->n_ports; j++) {
            n_ports += spec->ports[j].pcie_root == i;
        }
        if (spec->pcie_root_bps[i] > 0 && (n_ports > 1 || host->n_processes > 1)) {
            host->roots[i] = sim_root_create(host->world->engine, spec->pcie_root_bps[i]);
        }
    }
}

/* Returns the MAC of a port. Ports of a bond have the MAC of its first port. */
static uint64_t port_mac(const struct sim_host *host, uint32_t port)
{
    for (uint32_t i = 0; i < host->spec->n_bonds; i++) {
        const struct world_bond *bond = &host->spec->bonds[i];
        for (uint32_t j = 0; j < bond->n_ports; j++) {
            if (bond->ports[j] == port) {
                return mac_of(host->index, bond->ports[0] + 1);
            }
        }
    }
    return mac_of(host->index, port + 1);
}

static void build_ports(struct sim_host *host)
{
    const struct world_host *spec = host->spec;
    host->ports = weft_calloc(spec->n_ports + 1, sizeof(*host->ports));
    host->taps = weft_calloc(spec->n_ports + 1, sizeof *host->taps);
    for (uint32_t i = 0; i < spec->n_ports; i++) {
        const struct world_port *port = &spec->ports[i];
        struct sim_port_config config = {.host = spec->name,
                                         .name = port->name,
                                         .mac = port_mac(host, i),
                                         .mtu_bytes = port->mtu_bytes,
                                         .rate_bps = port_rate(spec, port),
                                         .loop_bps = root_rate(spec, port->pcie_root)};
        if (port->pcie_root < spec->n_pcie_roots) {
            config.root = host->roots[port->pcie_root];
        }
        host->ports[i] = sim_port_create(host->world->engine, &config);
        host->taps[i] = (struct sim_tap_context){
            .world = host->world, .host = host->index, .port = i};
    }
    if (host->world->spec->management.exists && !io_ip_is_zero(&spec->management_ip)) {
        struct sim_port_config config = {.host = spec->name,
                                         .name = "mgmt0",
                                         .mac = mac_of(host->index, MAC_MANAGEMENT),
                                         .mtu_bytes = 1500};
        host->management = sim_port_create(host->world->engine, &config);
    }
}

static weft_status build_profile(const struct world_host *spec, struct sim_profile *out,
                                 struct weft_error *error)
{
    *out = *sim_profile(spec->profile);
    for (uint32_t i = 0; i < spec->n_overrides; i++) {
        const struct world_setting *set = &spec->overrides[i];
        if (!sim_profile_override(out, set->name, set->value)) {
            return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_WORLD,
                             "%s: profile %s cannot take %s = \"%s\"", spec->name,
                             weft_profile_name(spec->profile), set->name, set->value);
        }
    }
    return WEFT_OK;
}

static void add_address(struct sim_stack *stack, uint32_t ifindex,
                        const struct world_port *port, uint32_t index)
{
    const struct io_prefix *from = &port->addresses[index];
    struct sim_ip ip = sim_ip_of_io(&from->ip);
    struct sim_prefix reached = {.ip = ip, .prefix_len = from->prefix_len};
    if (port->peers != NULL && !io_ip_is_zero(&port->peers[index])) {
        reached.ip = sim_ip_of_io(&port->peers[index]);
    }
    (void)sim_stack_add_peer_address(stack, ifindex, &ip, &reached);
}

static void add_bond(struct sim_host *host, const struct world_bond *bond)
{
    uint32_t *slaves = weft_calloc(bond->n_ports, sizeof *slaves);
    for (uint32_t i = 0; i < bond->n_ports; i++) {
        slaves[i] = sim_stack_ifindex(host->stack, host->ports[bond->ports[i]], 0);
    }
    uint32_t ifindex = sim_stack_add_bond(host->stack, bond->name, slaves, bond->n_ports);
    for (uint32_t i = 0; i < bond->n_addresses; i++) {
        struct sim_prefix address = {.ip = sim_ip_of_io(&bond->addresses[i].ip),
                                     .prefix_len = bond->addresses[i].prefix_len};
        (void)sim_stack_add_address(host->stack, ifindex, &address);
    }
    free(slaves);
}

static void add_netdevs(struct sim_host *host, const struct sim_profile *profile)
{
    const struct world_host *spec = host->spec;
    struct sim_gid_config gids = {.n_slots = profile->gid_tbl_len,
                                  .has_roce_v1 = profile->has_roce_v1,
                                  .n_foreign = profile->foreign_gids};
    for (uint32_t i = 0; i < spec->n_ports; i++) {
        const struct world_port *port = &spec->ports[i];
        uint32_t ifindex = sim_stack_add_port(host->stack, host->ports[i], &gids);
        uint32_t vlan_ifindex = 0;
        if (port->vlan_id != 0) {
            vlan_ifindex = sim_stack_add_vlan(host->stack, ifindex, port->vlan_id);
        }
        for (uint32_t j = 0; j < port->n_addresses; j++) {
            bool is_tagged = j < port->n_vlan_addresses;
            add_address(host->stack, is_tagged ? vlan_ifindex : ifindex, port, j);
        }
        if (profile->gids_by_scan) {
            (void)sim_stack_scan_gids(host->stack, host->ports[i]);
        }
    }
    for (uint32_t i = 0; i < spec->n_bonds; i++) {
        add_bond(host, &spec->bonds[i]);
    }
    if (host->management != NULL) {
        uint32_t ifindex = sim_stack_add_management(host->stack, host->management);
        struct sim_prefix address = {.ip = sim_ip_of_io(&spec->management_ip),
                                     .prefix_len =
                                         host->world->spec->management.prefix_len};
        (void)sim_stack_add_address(host->stack, ifindex, &address);
        sim_port_attach(host->management, NULL, host->stack);
    }
    for (uint32_t i = 0; i < spec->n_routes; i++) {
        const struct world_route *route = &spec->routes[i];
        struct sim_prefix to = {.ip = sim_ip_of_io(&route->to.ip),
                                .prefix_len = route->to.prefix_len};
        struct sim_ip via = sim_ip_of_io(&route->via);
        (void)sim_stack_add_route_via(host->stack, &to, &via);
    }
}

static void on_gids_changed(void *context, struct sim_port *port)
{
    sim_nic_gid_changed(context, port);
}

/* Returns the ports of device `index`, in the order of their numbers. */
static weft_status device_ports(const struct sim_host *host, uint32_t index,
                                struct sim_port *out[2], uint8_t *out_n,
                                struct weft_error *error)
{
    const struct world_host *spec = host->spec;
    *out_n = 0;
    for (uint32_t i = 0; i < spec->n_ports; i++) {
        const struct world_port *port = &spec->ports[i];
        if (port->device != index) {
            continue;
        }
        if (*out_n == 2 || port->port != *out_n + 1u) {
            return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_WORLD,
                             "%s:%s is port %u of a device that has %u so far",
                             spec->name, port->name, port->port, *out_n);
        }
        out[(*out_n)++] = host->ports[i];
    }
    weft_check(*out_n > 0);
    return WEFT_OK;
}

static weft_status build_nics(struct sim_host *host, const struct sim_profile *profile,
                              struct weft_error *error)
{
    const struct world_host *spec = host->spec;
    uint32_t n_nics = 0;
    for (uint32_t i = 0; i < spec->n_ports; i++) {
        n_nics = spec->ports[i].device >= n_nics ? spec->ports[i].device + 1 : n_nics;
    }
    host->nics = weft_calloc(n_nics + 1, sizeof(*host->nics));
    for (uint32_t i = 0; i < n_nics; i++) {
        struct sim_port *ports[2];
        uint8_t n_ports;
        weft_status status = device_ports(host, i, ports, &n_ports, error);
        if (status != WEFT_OK) {
            return status;
        }
        struct sim_nic *nic = sim_nic_create(
            host->world->engine, spec->name, sim_port_name(ports[0]), profile,
            host->stack, ports, n_ports, sim_process_memlock(&host->processes[0]));
        host->nics[host->n_nics++] = nic;
        for (uint8_t j = 0; j < n_ports; j++) {
            sim_port_attach(ports[j], nic, host->stack);
            sim_stack_watch_gids(host->stack, ports[j], on_gids_changed, nic);
        }
    }
    return WEFT_OK;
}

/* ---- switches and cables ---- */

struct sim_port *sim_world_port(const struct sim_world *world,
                                const struct world_end *end)
{
    return end->is_switch ? sim_switch_port(world->switches[end->node], end->port)
                          : world->hosts[end->node].ports[end->port];
}

/* Returns the representative of all switches that are connected to `node`. */
static uint32_t leader_of(uint32_t *leaders, uint32_t node)
{
    while (leaders[node] != node) {
        node = leaders[node];
    }
    return node;
}

/* Rejects loops of switches, because without a spanning tree a broadcast would circulate
 * forever. */
static weft_status check_loops(const struct world_spec *spec, struct weft_error *error)
{
    uint32_t *leaders = weft_calloc(spec->n_switches + 1, sizeof(*leaders));
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < spec->n_switches; i++) {
        leaders[i] = i;
    }
    for (uint32_t i = 0; i < spec->n_cables && status == WEFT_OK; i++) {
        const struct world_end *ends = spec->cables[i].ends;
        if (!ends[0].is_switch || !ends[1].is_switch) {
            continue;
        }
        uint32_t a = leader_of(leaders, ends[0].node);
        uint32_t b = leader_of(leaders, ends[1].node);
        if (a == b) {
            status = weft_fail(error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_WORLD,
                               "cables between switches make a loop at %s: there is no "
                               "spanning tree",
                               spec->switches[ends[0].node].name);
        }
        leaders[a] = b;
    }
    free(leaders);
    return status;
}

static weft_status build_switches(struct sim_world *world, struct weft_error *error)
{
    const struct world_spec *spec = world->spec;
    weft_status status = check_loops(spec, error);
    world->switches = weft_calloc(spec->n_switches + 1, sizeof(*world->switches));
    for (uint32_t i = 0; i < spec->n_switches; i++) {
        world->switches[i] = sim_switch_create(world->engine, spec->switches[i].name,
                                               spec->switches[i].n_ports);
    }
    return status;
}

static struct sim_impairment impairment_of(const struct world_impairment *from)
{
    return (struct sim_impairment){.loss_ppb = from->loss_ppb,
                                   .corrupt_ppb = from->corrupt_ppb,
                                   .duplicate_ppb = from->duplicate_ppb,
                                   .reorder_ppb = from->reorder_ppb,
                                   .ecn_ppb = from->ecn_ppb};
}

static void build_cable(struct sim_world *world, uint32_t index)
{
    const struct world_cable *cable = &world->spec->cables[index];
    char name[160], names[2][80];
    for (int i = 0; i < 2; i++) {
        const struct sim_port *port = sim_world_port(world, &cable->ends[i]);
        weft_format(names[i], sizeof names[i], "%s:%s", sim_port_host(port),
                    sim_port_name(port));
    }
    weft_format(name, sizeof name, "%s-%s", names[0], names[1]);
    struct sim_cable_config config = {.name = name,
                                      .rate_bps = cable->rate_bps,
                                      .delay_ps = cable->delay_ps,
                                      .path_limit_bytes = cable->path_limit_bytes,
                                      .queue_bytes = cable->queue_bytes,
                                      .pause = cable->pause,
                                      .up = cable->up,
                                      .impairment = impairment_of(&cable->impairment)};
    sim_cable_connect(world->engine, &config, sim_world_port(world, &cable->ends[0]),
                      sim_world_port(world, &cable->ends[1]));
    for (int i = 0; i < 2; i++) {
        world->cables[index].impairment[i] = config.impairment;
        world->cables[index].delay_ps[i] = config.delay_ps;
    }
}

static void build_management(struct sim_world *world)
{
    const struct world_spec *spec = world->spec;
    size_t n_ports = 0;
    struct sim_port **ports = weft_calloc(spec->n_hosts + 1, sizeof(*ports));
    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        if (world->hosts[i].management != NULL) {
            ports[n_ports++] = world->hosts[i].management;
        }
    }
    struct sim_cable_config config = {.name = "management",
                                      .rate_bps = spec->management.rate_bps,
                                      .delay_ps = spec->management.delay_ps,
                                      .up = true};
    if (n_ports > 0) {
        sim_network_connect(world->engine, &config, ports, n_ports);
    }
    free(ports);
}

weft_status sim_world_build(struct sim_world *world, struct weft_error *error)
{
    const struct world_spec *spec = world->spec;
    weft_status status = build_switches(world, error);
    uint32_t n_tasks = 0;
    for (uint32_t i = 0; i < spec->n_hosts && status == WEFT_OK; i++) {
        struct sim_host *host = &world->hosts[i];
        host->world = world;
        host->spec = &spec->hosts[i];
        host->index = i;
        host->first_task = n_tasks;
        sim_processes_build(host);
        n_tasks += host->n_processes;
        build_roots(host);
        build_ports(host);
        status = build_stack(host, error);
    }
    /* Build cables before netdevs, so that speed and carrier are known when addresses are
     * added. */
    for (uint32_t i = 0; i < spec->n_cables && status == WEFT_OK; i++) {
        build_cable(world, i);
    }
    if (status == WEFT_OK) {
        build_management(world);
    }
    for (uint32_t i = 0; i < spec->n_hosts && status == WEFT_OK; i++) {
        struct sim_host *host = &world->hosts[i];
        struct sim_profile profile;
        status = build_profile(host->spec, &profile, error);
        if (status == WEFT_OK) {
            add_netdevs(host, &profile);
            status = build_nics(host, &profile, error);
            sim_processes_open(host);
        }
    }
    return status;
}

static void teardown_host(struct sim_host *host)
{
    if (host->world == NULL) {
        return;
    }
    sim_processes_fini(host);
    /* Detach ports first, because a port that is removed notifies the other end, which can be a
     * port of the same host. */
    for (uint32_t i = 0; i < host->spec->n_ports; i++) {
        sim_port_attach(host->ports[i], NULL, NULL);
    }
    for (uint32_t i = 0; i < host->n_nics; i++) {
        sim_nic_destroy(host->nics[i]);
    }
    for (uint32_t i = 0; i < host->spec->n_ports; i++) {
        sim_port_destroy(host->ports[i]);
    }
    if (host->management != NULL) {
        sim_port_destroy(host->management);
    }
    sim_stack_destroy(host->stack);
    for (uint32_t i = 0; i < host->spec->n_pcie_roots; i++) {
        sim_root_destroy(host->roots[i]);
    }
    free(host->roots);
    free(host->ports);
    free(host->taps);
    free(host->nics);
    free(host->processes);
}

void sim_world_teardown(struct sim_world *world)
{
    for (uint32_t i = 0; i < world->spec->n_hosts; i++) {
        teardown_host(&world->hosts[i]);
    }
    for (uint32_t i = 0; i < world->spec->n_switches; i++) {
        sim_switch_destroy(world->switches[i]);
    }
    free(world->switches);
}
