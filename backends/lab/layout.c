/* Hosts in one namespace: the names of their netdevs, and their routes. */
#include <errno.h>
#include <stddef.h>

#include "backends/lab/layout.h"
#include "backends/lab/place.h"
#include "backends/lab/routes.h"
#include "base/text.h"

void lab_layout_name(struct lab_fabric *fabric)
{
    for (uint32_t i = 0; i < fabric->spec->n_hosts; i++) {
        const struct world_host *spec = &fabric->spec->hosts[i];
        struct lab_host *host = &fabric->hosts[i];
        bool is_shared = fabric->layout == LAB_ONE_NAMESPACE;

        weft_format(host->management, sizeof(host->management),
                    is_shared ? "w%dh%um" : LAB_MANAGEMENT, fabric->owner, i);
        for (uint32_t j = 0; j < spec->n_ports; j++) {
            struct lab_port *port = &host->ports[j];

            if (is_shared) {
                weft_format(port->netdev, sizeof(port->netdev), "w%dh%up%u",
                            fabric->owner, i, j);
            } else {
                weft_format(port->netdev, sizeof(port->netdev), "%s",
                            spec->ports[j].name);
            }
        }
    }
}

/* ---- cables ---- */

/* Returns the netdev at the other end of the cable, or NULL. */
static const char *other_end(const struct lab_fabric *fabric, const struct lab_port *port)
{
    return port->has_cable ? fabric->hosts[port->peer_host].ports[port->peer_port].netdev
                           : NULL;
}

int lab_layout_address(struct lab_fabric *fabric, uint32_t host, uint32_t index,
                       bool adds, const struct io_prefix *address)
{
    const struct lab_port *port = &fabric->hosts[host].ports[index];
    int fd = fabric->hosts[host].place.route_fd;
    int error = 0;

    if (fabric->layout != LAB_ONE_NAMESPACE) {
        return 0;
    }
    if (adds) {
        error = lab_routes_add_subnet(fd, port->netdev, address);
        /* A port that is down gets its routes when it comes up (lab_layout_port_up). */
        error = error == ENETDOWN ? 0 : error;
    }
    return error == 0 ? lab_routes_change_address(fd, adds, port->netdev,
                                                  other_end(fabric, port), address)
                      : error;
}

int lab_layout_port_up(struct lab_fabric *fabric, uint32_t host, uint32_t index)
{
    const struct world_port *spec = &fabric->spec->hosts[host].ports[index];
    int error = 0;

    if (fabric->layout != LAB_ONE_NAMESPACE) {
        return 0;
    }
    for (uint32_t i = 0; i < spec->n_addresses && error == 0; i++) {
        error = lab_routes_add_subnet(fabric->hosts[host].place.route_fd,
                                      fabric->hosts[host].ports[index].netdev,
                                      &spec->addresses[i]);
    }
    return error;
}

static int begin_port(struct lab_fabric *fabric, uint32_t host, uint32_t index)
{
    const struct world_host *spec = &fabric->spec->hosts[host];
    const char *netdev = fabric->hosts[host].ports[index].netdev;
    int error = lab_routes_add_netdev(fabric->hosts[host].place.route_fd, netdev);

    lab_apply_sysctl(&spec->sysctl, netdev);
    for (uint32_t i = 0; i < spec->ports[index].n_addresses && error == 0; i++) {
        error = lab_layout_address(fabric, host, index, true,
                                   &spec->ports[index].addresses[i]);
    }
    return error;
}

/* ---- the management network ---- */

static bool is_managed(const struct lab_fabric *fabric, uint32_t host)
{
    return fabric->spec->management.exists &&
           !io_ip_is_zero(&fabric->spec->hosts[host].management_ip);
}

static int add_management_subnet(struct lab_fabric *fabric, uint32_t index)
{
    const struct io_prefix address = {fabric->spec->hosts[index].management_ip,
                                      fabric->spec->management.prefix_len};

    return lab_routes_add_subnet(fabric->hosts[index].place.route_fd,
                                 fabric->hosts[index].management, &address);
}

int lab_layout_management_up(struct lab_fabric *fabric, uint32_t host)
{
    return fabric->layout == LAB_ONE_NAMESPACE ? add_management_subnet(fabric, host) : 0;
}

static int begin_management(struct lab_fabric *fabric, uint32_t index)
{
    /* All netdevs are neighbours on the bridge, so each must answer ARP for its own address
     * only. */
    const struct world_sysctl sysctl = {.arp_ignore = 1};
    const struct io_prefix address = {fabric->spec->hosts[index].management_ip,
                                      fabric->spec->management.prefix_len};
    const struct lab_host *host = &fabric->hosts[index];
    const char *other = NULL;
    int error;

    for (uint32_t i = 0; i < fabric->spec->n_hosts && other == NULL; i++) {
        other = i != index && is_managed(fabric, i) ? fabric->hosts[i].management : NULL;
    }
    lab_apply_sysctl(&sysctl, host->management);
    error = lab_routes_add_netdev(host->place.route_fd, host->management);
    if (error == 0) {
        error = add_management_subnet(fabric, index);
    }
    return error == 0 ? lab_routes_change_address(host->place.route_fd, true,
                                                  host->management, other, &address)
                      : error;
}

/* ---- set-up and release ---- */

int lab_layout_begin(struct lab_fabric *fabric)
{
    int error;

    if (fabric->layout != LAB_ONE_NAMESPACE || fabric->spec->n_hosts == 0) {
        return 0;
    }
    error = lab_routes_begin(fabric->hosts[0].place.route_fd);
    for (uint32_t i = 0; i < fabric->spec->n_hosts && error == 0; i++) {
        for (uint32_t j = 0; j < fabric->spec->hosts[i].n_ports && error == 0; j++) {
            error = begin_port(fabric, i, j);
        }
        if (error == 0 && is_managed(fabric, i)) {
            error = begin_management(fabric, i);
        }
    }
    return error;
}

void lab_layout_end(struct lab_fabric *fabric)
{
    if (fabric->layout == LAB_ONE_NAMESPACE && fabric->spec->n_hosts > 0 &&
        fabric->hosts[0].place.route_fd >= 0) {
        lab_routes_end(fabric->hosts[0].place.route_fd);
    }
}
