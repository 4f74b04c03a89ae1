#define _GNU_SOURCE
#include "backends/rxe/fabric.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/rxe/private.h"
#include "base/check.h"
#include "base/text.h"

void rxe_device_name(int owner, uint32_t host, uint32_t port, char *out, size_t n_bytes)
{
    weft_format(out, n_bytes, "weft%dh%up%u", owner, host, port);
}

/* ---- namespaces ---- */

int rxe_place_enter(const struct rxe_place *place)
{
    return setns(place->netns_fd, CLONE_NEWNET) == 0 ? 0 : errno;
}

void rxe_fabric_go_home(const struct rxe_fabric *fabric)
{
    /* What came out may go back; going on elsewhere would configure the wrong host. */
    int result = setns(fabric->home_fd, CLONE_NEWNET);

    weft_check(result == 0);
}

static void path_of(const char *name, char out[RXE_PATH_BYTES])
{
    weft_format(out, RXE_PATH_BYTES, "%s/%s", RXE_NETNS_DIR, name);
}

/* Gives the calling thread's namespace a name, as ip-netns(8) does. */
static int pin_namespace(const char *name)
{
    char path[RXE_PATH_BYTES];
    int fd;

    path_of(name, path);
    if (mkdir(RXE_NETNS_DIR, 0755) != 0 && errno != EEXIST) {
        return errno;
    }
    fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    close(fd);
    if (mount("/proc/thread-self/ns/net", path, "none", MS_BIND, NULL) != 0) {
        int error = errno;

        unlink(path);
        return error;
    }
    return 0;
}

void rxe_unpin(const char *name)
{
    char path[RXE_PATH_BYTES];

    path_of(name, path);
    umount2(path, MNT_DETACH);
    unlink(path);
}

static void write_setting(const char *path, int value)
{
    char text[16];
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0) {
        return; /* a kernel without IPv6 has none of its settings */
    }
    weft_format(text, sizeof(text), "%d\n", value);
    if (write(fd, text, strlen(text)) < 0) {
        /* the value stays the kernel's default, and host facts will tell */
    }
    close(fd);
}

/* For interfaces to come ("default") and, where the kernel takes the greater of both, for
 * all: ip-sysctl of the kernel's documentation. */
static void apply_sysctl(const struct world_sysctl *sysctl)
{
    const struct {
        const char *name;
        int value;
    } settings[] = {
        {"rp_filter", sysctl->rp_filter},       {"arp_ignore", sysctl->arp_ignore},
        {"arp_announce", sysctl->arp_announce}, {"accept_local", sysctl->accept_local},
        {"forwarding", sysctl->ip_forward},
    };

    for (size_t i = 0; i < WEFT_LENGTH(settings); i++) {
        static const char *const scopes[] = {"all", "default"};

        for (size_t j = 0; j < WEFT_LENGTH(scopes); j++) {
            char path[RXE_PATH_BYTES];

            weft_format(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/%s", scopes[j],
                        settings[i].name);
            write_setting(path, settings[i].value);
        }
    }
    /* Nobody else is on a cable: a link-local GID need not wait for a second's probing. */
    write_setting("/proc/sys/net/ipv6/conf/default/accept_dad", 0);
    write_setting("/proc/sys/net/ipv6/conf/default/router_solicitations", 0);
}

/* The namespace was entered: its descriptor and its sockets. */
static int open_place(struct rxe_place *place, bool with_devices)
{
    int error;

    place->netns_fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (place->netns_fd < 0) {
        return errno;
    }
    error = netlink_open(NETLINK_ROUTE, &place->route_fd);
    if (error == 0 && with_devices) {
        error = netlink_open(NETLINK_RDMA, &place->rdma_fd);
    }
    return error != 0 ? error : netlink_set_up(place->route_fd, "lo", true);
}

static weft_status make_place(struct rxe_fabric *fabric, struct rxe_place *place,
                              const char *name, const struct world_sysctl *sysctl,
                              bool with_devices, struct weft_error *error)
{
    char full[RXE_NAME_BYTES];
    int problem;

    weft_format(full, sizeof(full), "%s%d-%s", RXE_NAME_PREFIX, fabric->owner, name);
    if (unshare(CLONE_NEWNET) != 0) {
        return weft_fail_errno(error, errno, "namespace", "cannot make %s", full);
    }
    problem = pin_namespace(full);
    if (problem == 0) {
        memcpy(place->name, full, sizeof(full));
        apply_sysctl(sysctl);
        problem = open_place(place, with_devices);
    }
    rxe_fabric_go_home(fabric);
    return problem == 0
               ? WEFT_OK
               : weft_fail_errno(error, problem, "namespace", "cannot make %s", full);
}

static void close_place(struct rxe_place *place)
{
    int *const fds[] = {&place->netns_fd, &place->route_fd, &place->rdma_fd};

    for (size_t i = 0; i < WEFT_LENGTH(fds); i++) {
        if (*fds[i] >= 0) {
            close(*fds[i]);
        }
        *fds[i] = -1;
    }
    if (place->name[0] != '\0') {
        rxe_unpin(place->name);
        place->name[0] = '\0';
    }
}

/* ---- the management network ---- */

static weft_status join_management(struct rxe_fabric *fabric, uint32_t index,
                                   struct weft_error *error)
{
    struct rxe_host *host = &fabric->hosts[index];
    const struct world_host *spec = &fabric->spec->hosts[index];
    struct io_prefix address = {spec->management_ip, fabric->spec->management.prefix_len};
    struct netlink_veth_end ends[2] = {{RXE_MANAGEMENT, host->place.netns_fd, 1500},
                                       {NULL, fabric->bridge.netns_fd, 1500}};
    char port[RXE_NAME_BYTES];
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
        problem = netlink_set_up(host->place.route_fd, RXE_MANAGEMENT, true);
    }
    if (problem == 0) {
        problem = netlink_add_address(host->place.route_fd, RXE_MANAGEMENT, &address);
    }
    if (problem != 0) {
        return weft_fail_errno(error, problem, "management", "cannot connect %s",
                               spec->name);
    }
    rxe_tap_open(fabric, &host->place, RXE_MANAGEMENT, &host->management_tap);
    return WEFT_OK;
}

static weft_status make_management(struct rxe_fabric *fabric, struct weft_error *error)
{
    const struct world_spec *spec = fabric->spec;
    const struct world_sysctl none = {0};
    weft_status status;
    int problem;

    /* Ends of ports without a cable are kept here as well. */
    status = make_place(fabric, &fabric->bridge, "management", &none, false, error);
    if (status != WEFT_OK || !spec->management.exists) {
        return status;
    }
    problem = netlink_add_bridge(fabric->bridge.route_fd, "br0");
    if (problem == 0) {
        problem = netlink_set_up(fabric->bridge.route_fd, "br0", true);
    }
    if (problem != 0) {
        return weft_fail_errno(error, problem, "management", "cannot make a bridge");
    }
    return WEFT_OK;
}

/* ---- ports and cables ---- */

static void plan_port(struct rxe_fabric *fabric, uint32_t cable, unsigned side)
{
    const struct world_cable *spec = &fabric->spec->cables[cable];
    const struct world_end *own = &spec->ends[side];
    const struct world_end *other = &spec->ends[1 - side];
    struct rxe_port *port = &fabric->hosts[own->node].ports[own->port];

    port->has_cable = true;
    port->cable = cable;
    port->peer_host = other->node;
    port->peer_port = other->port;
    rxe_base_impairment(spec, port->mtu_bytes, &port->impairment);
}

static weft_status make_cable(struct rxe_fabric *fabric, uint32_t cable,
                              struct weft_error *error)
{
    const struct world_cable *spec = &fabric->spec->cables[cable];
    struct netlink_veth_end ends[2];
    int problem;

    for (unsigned side = 0; side < 2; side++) {
        const struct world_end *end = &spec->ends[side];
        const struct world_port *port = &fabric->spec->hosts[end->node].ports[end->port];

        plan_port(fabric, cable, side);
        ends[side] = (struct netlink_veth_end){
            port->name, fabric->hosts[end->node].place.netns_fd, port->mtu_bytes};
    }
    problem = netlink_add_veth(fabric->bridge.route_fd, ends);
    if (problem != 0) {
        return weft_fail_errno(error, problem, "cable", "cannot make %s:%s to %s:%s",
                               fabric->spec->hosts[spec->ends[0].node].name, ends[0].name,
                               fabric->spec->hosts[spec->ends[1].node].name,
                               ends[1].name);
    }
    return WEFT_OK;
}

static weft_status make_loose_port(struct rxe_fabric *fabric, uint32_t host,
                                   uint32_t index, struct weft_error *error)
{
    const struct world_port *port = &fabric->spec->hosts[host].ports[index];
    char name[RXE_NAME_BYTES];
    const struct netlink_veth_end ends[2] = {
        {port->name, fabric->hosts[host].place.netns_fd, port->mtu_bytes},
        {name, fabric->bridge.netns_fd, port->mtu_bytes}};
    int problem;

    weft_format(name, sizeof(name), "h%up%u", host, index);
    problem = netlink_add_veth(fabric->bridge.route_fd, ends);
    return problem == 0 ? WEFT_OK
                        : weft_fail_errno(error, problem, "port", "cannot make %s:%s",
                                          fabric->spec->hosts[host].name, port->name);
}

/* The interface is there: addresses, up, impairment. */
static int configure_port(struct rxe_fabric *fabric, uint32_t host, uint32_t index)
{
    const struct world_port *spec = &fabric->spec->hosts[host].ports[index];
    struct rxe_place *place = &fabric->hosts[host].place;
    struct rxe_port *port = &fabric->hosts[host].ports[index];
    bool is_up = !port->has_cable || fabric->spec->cables[port->cable].up;
    int problem = netlink_set_up(place->route_fd, spec->name, is_up);

    for (uint32_t i = 0; i < spec->n_addresses && problem == 0; i++) {
        problem = netlink_add_address(place->route_fd, spec->name, &spec->addresses[i]);
    }
    if (problem == 0) {
        problem = rxe_port_impair(fabric, host, index);
    }
    rxe_tap_open(fabric, place, spec->name, &port->tap);
    return problem;
}

static weft_status make_device(struct rxe_fabric *fabric, uint32_t host, uint32_t index,
                               struct weft_error *error)
{
    const struct world_port *spec = &fabric->spec->hosts[host].ports[index];
    char device[RXE_NAME_BYTES];
    int problem;

    rxe_device_name(fabric->owner, host, index, device, sizeof(device));
    problem = netlink_add_rxe(fabric->hosts[host].place.rdma_fd, device, spec->name);
    if (problem == EINVAL || problem == EOPNOTSUPP) {
        return weft_fail(error, WEFT_ERR_ENVIRONMENT, "rxe",
                         "this kernel has no rdma_rxe: modprobe rdma_rxe, or "
                         "make rxe-guest");
    }
    if (problem != 0) {
        return weft_fail_errno(error, problem, "rxe", "cannot make a device on %s:%s",
                               fabric->spec->hosts[host].name, spec->name);
    }
    fabric->hosts[host].ports[index].has_device = true;
    return WEFT_OK;
}

static weft_status make_port(struct rxe_fabric *fabric, uint32_t host, uint32_t index,
                             bool with_devices, struct weft_error *error)
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
        return weft_fail_errno(error, problem, "port", "cannot configure %s:%s",
                               spec->name, spec->ports[index].name);
    }
    return with_devices ? make_device(fabric, host, index, error) : WEFT_OK;
}

static weft_status make_ports(struct rxe_fabric *fabric, bool with_devices,
                              struct weft_error *error)
{
    const struct world_spec *spec = fabric->spec;
    weft_status status = WEFT_OK;

    for (uint32_t i = 0; i < spec->n_cables && status == WEFT_OK; i++) {
        status = make_cable(fabric, i, error);
    }
    for (uint32_t i = 0; i < spec->n_hosts && status == WEFT_OK; i++) {
        for (uint32_t j = 0; j < spec->hosts[i].n_ports && status == WEFT_OK; j++) {
            status = make_port(fabric, i, j, with_devices, error);
        }
    }
    return status;
}

/* ---- life ---- */

static void init(const struct world_spec *spec, struct rxe_fabric *fabric)
{
    const struct rxe_place nowhere = {.netns_fd = -1, .route_fd = -1, .rdma_fd = -1};

    *fabric = (struct rxe_fabric){
        .spec = spec, .owner = getpid(), .home_fd = -1, .bridge = nowhere};
    fabric->hosts = weft_calloc(spec->n_hosts + 1, sizeof(*fabric->hosts));
    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        struct rxe_host *host = &fabric->hosts[i];

        host->place = nowhere;
        host->management_tap.fd = -1;
        host->ports = weft_calloc(spec->hosts[i].n_ports + 1, sizeof(*host->ports));
        for (uint32_t j = 0; j < spec->hosts[i].n_ports; j++) {
            host->ports[j].tap.fd = -1;
            host->ports[j].mtu_bytes = spec->hosts[i].ports[j].mtu_bytes;
        }
    }
}

weft_status rxe_fabric_create(const struct world_spec *spec, bool with_devices,
                              struct rxe_fabric *out, struct weft_error *error)
{
    weft_status status = WEFT_OK;

    init(spec, out);
    out->home_fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (out->home_fd < 0) {
        status = weft_fail_errno(error, errno, "namespace", "this kernel has none");
    } else {
        status = make_management(out, error);
    }
    for (uint32_t i = 0; i < spec->n_hosts && status == WEFT_OK; i++) {
        status = make_place(out, &out->hosts[i].place, spec->hosts[i].name,
                            &spec->hosts[i].sysctl, with_devices, error);
        if (status == WEFT_OK && spec->management.exists &&
            !io_ip_is_zero(&spec->hosts[i].management_ip)) {
            status = join_management(out, i, error);
        }
    }
    if (status == WEFT_OK) {
        status = make_ports(out, with_devices, error);
    }
    if (status != WEFT_OK) {
        rxe_fabric_destroy(out);
    }
    return status;
}

static void delete_devices(struct rxe_fabric *fabric, uint32_t index)
{
    struct rxe_host *host = &fabric->hosts[index];

    for (uint32_t i = 0; i < fabric->spec->hosts[index].n_ports; i++) {
        char device[RXE_NAME_BYTES];
        int problem;

        if (!host->ports[i].has_device) {
            continue;
        }
        rxe_device_name(fabric->owner, index, i, device, sizeof(device));
        problem = netlink_delete_rdma(host->place.rdma_fd, device);
        if (problem != 0) {
            weft_log(fabric->spec->log, WEFT_LOG_WARN, "rxe: %s stays: %s", device,
                     strerror(problem));
        }
    }
}

static void destroy_host(struct rxe_fabric *fabric, uint32_t index)
{
    const struct world_host *spec = &fabric->spec->hosts[index];
    struct rxe_host *host = &fabric->hosts[index];

    for (uint32_t i = 0; i < spec->n_ports; i++) {
        if (host->ports[i].tap.fd >= 0) {
            close(host->ports[i].tap.fd);
        }
        if (host->place.route_fd >= 0) {
            netlink_delete_link(host->place.route_fd, spec->ports[i].name);
        }
    }
    if (host->management_tap.fd >= 0) {
        close(host->management_tap.fd);
    }
    close_place(&host->place);
    free(host->ports);
}

void rxe_fabric_destroy(struct rxe_fabric *fabric)
{
    /* All devices first: an interface takes its cable's other end with it, and a device
     * whose interface went is removed only some time later. */
    for (uint32_t i = 0; i < fabric->spec->n_hosts; i++) {
        delete_devices(fabric, i);
    }
    for (uint32_t i = 0; i < fabric->spec->n_hosts; i++) {
        destroy_host(fabric, i);
    }
    free(fabric->hosts);
    fabric->hosts = NULL;
    close_place(&fabric->bridge);
    if (fabric->home_fd >= 0) {
        close(fabric->home_fd);
        fabric->home_fd = -1;
    }
}
