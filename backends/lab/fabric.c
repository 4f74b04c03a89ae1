#define _GNU_SOURCE
#include "backends/lab/fabric.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/lab/chance.h"
#include "backends/lab/layout.h"
#include "backends/lab/place.h"
#include "base/check.h"
#include "base/text.h"

void lab_device_by_name(const struct world_spec *spec, uint32_t host, uint32_t port,
                        char *out, size_t n_bytes)
{
    weft_format(out, n_bytes, "%s-%s", spec->hosts[host].name,
                spec->hosts[host].ports[port].name);
}

void lab_device_name(const struct lab_fabric *fabric, uint32_t host, uint32_t port,
                     char *out, size_t n_bytes)
{
    if (fabric->devices == LAB_DEVICES_BY_NAME) {
        lab_device_by_name(fabric->spec, host, port, out, n_bytes);
    } else {
        weft_format(out, n_bytes, "weft%dh%up%u", fabric->owner, host, port);
    }
}

bool lab_host_is_soft(const struct world_host *host)
{
    bool is_soft = false;

    for (uint32_t i = 0; i < host->n_settings; i++) {
        if (strcmp(host->settings[i].name, "WEFT_NIC") == 0) {
            is_soft = strcmp(host->settings[i].value, "soft") == 0;
        }
    }
    return is_soft;
}

/* ---- the management network ---- */

static weft_status join_management(struct lab_fabric *fabric, uint32_t index,
                                   struct weft_error *error)
{
    struct lab_host *host = &fabric->hosts[index];
    const struct world_host *spec = &fabric->spec->hosts[index];
    struct io_prefix address = {spec->management_ip, fabric->spec->management.prefix_len};
    struct netlink_veth_end ends[2] = {{host->management, host->place.netns_fd, 1500},
                                       {NULL, fabric->bridge.netns_fd, 1500}};
    char port[LAB_NAME_BYTES];
    int problem;

    weft_format(port, sizeof(port), "host%u", index);
    ends[1].name = port;
    problem = netlink_add_veth(host->place.route_fd, ends);
    if (problem == 0) {
        problem = netlink_enslave(fabric->bridge.route_fd, port, "br0");
    }
    if (problem == 0) {
        problem = netlink_set_up(fabric->bridge.route_fd, port, true);
    }
    if (problem == 0) {
        problem = netlink_set_up(host->place.route_fd, host->management, true);
    }
    if (problem == 0) {
        problem = netlink_add_address(host->place.route_fd, host->management, &address);
    }
    if (problem != 0) {
        return weft_fail_errno(error, problem, WEFT_PHASE_MANAGEMENT, "cannot connect %s",
                               spec->name);
    }
    lab_tap_open(fabric, &host->place, host->management, false, &host->management_tap);
    return WEFT_OK;
}

static weft_status make_management(struct lab_fabric *fabric, struct weft_error *error)
{
    const struct world_spec *spec = fabric->spec;
    const struct world_sysctl none = {0};
    weft_status status;
    int problem;

    /* This namespace also holds the far ends of ports without a cable. */
    status = lab_place_make(fabric, &fabric->bridge, "management", &none, false, error);
    if (status != WEFT_OK || !spec->management.exists) {
        return status;
    }
    problem = netlink_add_bridge(fabric->bridge.route_fd, "br0");
    if (problem == 0) {
        problem = netlink_set_up(fabric->bridge.route_fd, "br0", true);
    }
    if (problem != 0) {
        return weft_fail_errno(error, problem, WEFT_PHASE_MANAGEMENT,
                               "cannot make a bridge");
    }
    return WEFT_OK;
}

/* ---- ports and cables ---- */

static void plan_port(struct lab_fabric *fabric, uint32_t cable, unsigned side)
{
    const struct world_cable *spec = &fabric->spec->cables[cable];
    const struct world_end *own = &spec->ends[side];
    const struct world_end *other = &spec->ends[1 - side];
    struct lab_port *port = &fabric->hosts[own->node].ports[own->port];

    port->has_cable = true;
    port->cable = cable;
    port->peer_host = other->node;
    port->peer_port = other->port;
    lab_base_impairment(spec, port->mtu_bytes, fabric->is_exact, &port->impairment);
}

static weft_status make_cable(struct lab_fabric *fabric, uint32_t cable,
                              struct weft_error *error)
{
    const struct world_cable *spec = &fabric->spec->cables[cable];
    struct netlink_veth_end ends[2];
    int problem;

    for (unsigned side = 0; side < 2; side++) {
        const struct world_end *end = &spec->ends[side];
        const struct lab_host *host = &fabric->hosts[end->node];
        const struct lab_port *port = &host->ports[end->port];

        plan_port(fabric, cable, side);
        ends[side] = (struct netlink_veth_end){port->netdev, host->place.netns_fd,
                                               port->mtu_bytes};
    }
    problem = netlink_add_veth(fabric->bridge.route_fd, ends);
    if (problem != 0) {
        const struct world_host *hosts = fabric->spec->hosts;

        return weft_fail_errno(error, problem, WEFT_PHASE_CABLE,
                               "cannot make %s:%s to %s:%s",
                               hosts[spec->ends[0].node].name,
                               hosts[spec->ends[0].node].ports[spec->ends[0].port].name,
                               hosts[spec->ends[1].node].name,
                               hosts[spec->ends[1].node].ports[spec->ends[1].port].name);
    }
    return WEFT_OK;
}

static weft_status make_loose_port(struct lab_fabric *fabric, uint32_t host,
                                   uint32_t index, struct weft_error *error)
{
    const struct world_port *port = &fabric->spec->hosts[host].ports[index];
    char name[LAB_NAME_BYTES];
    const struct netlink_veth_end ends[2] = {
        {fabric->hosts[host].ports[index].netdev, fabric->hosts[host].place.netns_fd,
         port->mtu_bytes},
        {name, fabric->bridge.netns_fd, port->mtu_bytes}};
    int problem;

    weft_format(name, sizeof(name), "h%up%u", host, index);
    problem = netlink_add_veth(fabric->bridge.route_fd, ends);
    return problem == 0
               ? WEFT_OK
               : weft_fail_errno(error, problem, WEFT_PHASE_PORT, "cannot make %s:%s",
                                 fabric->spec->hosts[host].name, port->name);
}

/* Sets the link state, the addresses and the impairment of an existing interface. */
static int configure_port(struct lab_fabric *fabric, uint32_t host, uint32_t index)
{
    const struct world_port *spec = &fabric->spec->hosts[host].ports[index];
    struct lab_place *place = &fabric->hosts[host].place;
    struct lab_port *port = &fabric->hosts[host].ports[index];
    bool is_up = !port->has_cable || fabric->spec->cables[port->cable].up;
    int problem = netlink_set_up(place->route_fd, port->netdev, is_up);

    port->is_down = !is_up;
    for (uint32_t i = 0; i < spec->n_addresses && problem == 0; i++) {
        bool has_peer = spec->peers != NULL && !io_ip_is_zero(&spec->peers[i]);
        problem =
            netlink_add_peer_address(place->route_fd, port->netdev, &spec->addresses[i],
                                     has_peer ? &spec->peers[i] : &spec->addresses[i].ip);
    }
    if (problem == 0) {
        problem = lab_port_impair(fabric, host, index);
    }
    lab_tap_open(fabric, place, port->netdev, false, &port->tap);
    return problem;
}

static weft_status make_device(struct lab_fabric *fabric, uint32_t host, uint32_t index,
                               struct weft_error *error)
{
    const struct world_port *spec = &fabric->spec->hosts[host].ports[index];
    char device[LAB_NAME_BYTES];
    int problem;

    lab_device_name(fabric, host, index, device, sizeof(device));
    problem = netlink_add_rxe(fabric->hosts[host].place.rdma_fd, device,
                              fabric->hosts[host].ports[index].netdev);
    if (problem == EINVAL || problem == EOPNOTSUPP) {
        return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_RXE,
                         "this kernel has no rdma_rxe: modprobe rdma_rxe, or "
                         "make rxe-guest");
    }
    if (problem != 0) {
        return weft_fail_errno(error, problem, WEFT_PHASE_RXE,
                               "cannot make a device on %s:%s",
                               fabric->spec->hosts[host].name, spec->name);
    }
    fabric->hosts[host].ports[index].has_device = true;
    return WEFT_OK;
}

static weft_status make_port(struct lab_fabric *fabric, uint32_t host, uint32_t index,
                             struct weft_error *error)
{
    const struct world_host *spec = &fabric->spec->hosts[host];
    weft_status status = WEFT_OK;
    int problem;

    if (!fabric->hosts[host].ports[index].has_cable) {
        status = make_loose_port(fabric, host, index, error);
    }
    if (status != WEFT_OK) {
        return status;
    }
    problem = configure_port(fabric, host, index);
    if (problem != 0) {
        return weft_fail_errno(error, problem, WEFT_PHASE_PORT, "cannot configure %s:%s",
                               spec->name, spec->ports[index].name);
    }
    return fabric->devices != LAB_NO_DEVICES && !lab_host_is_soft(spec)
               ? make_device(fabric, host, index, error)
               : WEFT_OK;
}

static weft_status make_ports(struct lab_fabric *fabric, struct weft_error *error)
{
    const struct world_spec *spec = fabric->spec;
    weft_status status = WEFT_OK;

    for (uint32_t i = 0; i < spec->n_cables && status == WEFT_OK; i++) {
        status = make_cable(fabric, i, error);
    }
    for (uint32_t i = 0; i < spec->n_hosts && status == WEFT_OK; i++) {
        for (uint32_t j = 0; j < spec->hosts[i].n_ports && status == WEFT_OK; j++) {
            status = make_port(fabric, i, j, error);
        }
    }
    return status;
}

/* ---- set-up and release ---- */

static void init(const struct world_spec *spec, enum lab_layout layout,
                 enum lab_devices devices, struct lab_fabric *fabric)
{
    const struct lab_place nowhere = {.netns_fd = -1, .route_fd = -1, .rdma_fd = -1};
    const char *marker = getenv(LAB_GUEST_MARKER);

    *fabric =
        (struct lab_fabric){.spec = spec,
                            .layout = layout,
                            .devices = devices,
                            .is_exact = devices == LAB_DEVICES_BY_NAME &&
                                        marker != NULL && strcmp(marker, "virtual") == 0,
                            .owner = getpid(),
                            .home_fd = -1,
                            .bridge = nowhere};
    fabric->hosts = weft_calloc(spec->n_hosts + 1, sizeof(*fabric->hosts));
    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        struct lab_host *host = &fabric->hosts[i];

        host->place = nowhere;
        host->management_tap.fd = -1;
        host->ports = weft_calloc(spec->hosts[i].n_ports + 1, sizeof(*host->ports));
        for (uint32_t j = 0; j < spec->hosts[i].n_ports; j++) {
            host->ports[j].tap.fd = -1;
            host->ports[j].mtu_bytes = spec->hosts[i].ports[j].mtu_bytes;
        }
    }
    lab_layout_name(fabric);
}

/* Keeps this thread's network namespace, to which each change of another one returns. */
static weft_status open_home(struct lab_fabric *fabric, struct weft_error *error)
{
    fabric->home_fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (fabric->home_fd < 0) {
        return weft_fail_errno(error, errno, WEFT_PHASE_NAMESPACE,
                               "this kernel has none");
    }
    /* A user namespace can make network namespaces, but returns only to those that it owns. */
    if (setns(fabric->home_fd, CLONE_NEWNET) != 0) {
        return weft_fail(
            error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_NAMESPACE,
            "cannot return to this process's network namespace, which "
            "another user namespace owns; start weft with `unshare --net`, too");
    }
    return WEFT_OK;
}

weft_status lab_fabric_create(const struct world_spec *spec, enum lab_layout layout,
                              enum lab_devices devices, struct lab_fabric *out,
                              struct weft_error *error)
{
    weft_status status;

    lab_chance_begin(LAB_CHANCE_CABLES);
    init(spec, layout, devices, out);
    status = open_home(out, error);
    if (status == WEFT_OK) {
        status = make_management(out, error);
    }
    for (uint32_t i = 0; i < spec->n_hosts && status == WEFT_OK; i++) {
        status = lab_place_make_host(out, i, devices != LAB_NO_DEVICES, error);
        if (status == WEFT_OK && spec->management.exists &&
            !io_ip_is_zero(&spec->hosts[i].management_ip)) {
            status = join_management(out, i, error);
        }
    }
    if (status == WEFT_OK) {
        status = make_ports(out, error);
    }
    if (status == WEFT_OK) {
        int problem = lab_layout_begin(out);

        status = problem == 0 ? WEFT_OK
                              : weft_fail_errno(error, problem, WEFT_PHASE_ROUTES,
                                                "cannot keep the hosts apart");
    }
    if (status != WEFT_OK) {
        lab_fabric_destroy(out);
    }
    return status;
}

static void delete_devices(struct lab_fabric *fabric, uint32_t index)
{
    struct lab_host *host = &fabric->hosts[index];

    for (uint32_t i = 0; i < fabric->spec->hosts[index].n_ports; i++) {
        char device[LAB_NAME_BYTES];
        int problem;

        if (!host->ports[i].has_device) {
            continue;
        }
        lab_device_name(fabric, index, i, device, sizeof(device));
        problem = netlink_delete_rdma(host->place.rdma_fd, device);
        if (problem != 0) {
            weft_log(fabric->spec->log, WEFT_LOG_WARN, "rxe: %s stays: %s", device,
                     strerror(problem));
        }
    }
}

static void destroy_host(struct lab_fabric *fabric, uint32_t index)
{
    const struct world_host *spec = &fabric->spec->hosts[index];
    struct lab_host *host = &fabric->hosts[index];

    for (uint32_t i = 0; i < spec->n_ports; i++) {
        if (host->ports[i].tap.fd >= 0) {
            close(host->ports[i].tap.fd);
        }
        if (host->place.route_fd >= 0) {
            netlink_delete_link(host->place.route_fd, host->ports[i].netdev);
        }
    }
    if (host->management_tap.fd >= 0) {
        close(host->management_tap.fd);
    }
    if (fabric->layout == LAB_ONE_NAMESPACE && host->place.route_fd >= 0) {
        netlink_delete_link(host->place.route_fd, host->management);
    }
    lab_place_close(&host->place);
    free(host->ports);
}

void lab_fabric_destroy(struct lab_fabric *fabric)
{
    /* Deletes all devices first. Deleting an interface deletes the other end of its cable, and a
     * device whose interface is gone is removed only some time later. */
    for (uint32_t i = 0; i < fabric->spec->n_hosts; i++) {
        delete_devices(fabric, i);
    }
    lab_layout_end(fabric);
    for (uint32_t i = 0; i < fabric->spec->n_hosts; i++) {
        destroy_host(fabric, i);
    }
    free(fabric->hosts);
    fabric->hosts = NULL;
    lab_place_close(&fabric->bridge);
    if (fabric->home_fd >= 0) {
        close(fabric->home_fd);
        fabric->home_fd = -1;
    }
}
