/* Checks for what veth cables and processes cannot express, with any kind of NIC. */
#include <net/if.h>
#include <string.h>

#include "backends/lab/fabric.h"
#include "base/error.h"

weft_status lab_refuse(const char *backend, const char *what, const char *of,
                       struct weft_error *error)
{
    return weft_fail(error, WEFT_ERR_UNSUPPORTED, weft_phase_find(backend),
                     "backend %s has no %s: %s", backend, what, of);
}

/* Linux removes the IPv6 addresses of a netdev with a smaller MTU (RFC 8200, 5; addrconf.c). */
#define IPV6_MTU_MIN 1280u
#define IPV6_BELOW_MIN "IPv6 with an MTU below 1280"

static bool has_ipv6(const struct world_port *port)
{
    for (uint32_t i = 0; i < port->n_addresses; i++) {
        if (!io_ip_is_v4(&port->addresses[i].ip)) {
            return true;
        }
    }
    return false;
}

static weft_status check_host(const char *backend, const struct world_host *host,
                              struct weft_error *error)
{
    if (host->n_routes > 0) {
        return lab_refuse(backend, "route over another host", host->name, error);
    }
    if (host->n_input_drop > 0 || !host->forward_accept) {
        return lab_refuse(backend, "firewall", host->name, error);
    }
    for (uint32_t i = 0; i < host->n_ports; i++) {
        if (strlen(host->ports[i].name) >= IF_NAMESIZE ||
            strcmp(host->ports[i].name, LAB_MANAGEMENT) == 0) {
            return lab_refuse(backend, "netdev of that name", host->ports[i].name, error);
        }
        if (host->ports[i].mtu_bytes < IPV6_MTU_MIN && has_ipv6(&host->ports[i])) {
            return lab_refuse(backend, IPV6_BELOW_MIN, host->ports[i].name, error);
        }
    }
    return WEFT_OK;
}

static weft_status check_cable(const char *backend, const struct world_spec *spec,
                               const struct world_cable *cable, struct weft_error *error)
{
    for (unsigned side = 0; side < 2; side++) {
        if (cable->ends[side].is_switch) {
            return lab_refuse(backend, "switch",
                              spec->switches[cable->ends[side].node].name, error);
        }
    }
    const char *at = spec->hosts[cable->ends[0].node].name;
    if (cable->path_limit_bytes != 0) {
        return lab_refuse(backend, "path_limit", at, error);
    }
    if (cable->pause) {
        return lab_refuse(backend, "pause", at, error);
    }
    return cable->impairment.ecn_ppb != 0 ? lab_refuse(backend, "ecn", at, error)
                                          : WEFT_OK;
}

static weft_status check_fault(const char *backend, const struct world_spec *spec,
                               const struct world_fault *fault, struct weft_error *error)
{
    if (!lab_fault_is_expressible(fault)) {
        return lab_refuse(backend, fault->has_match ? "fault of one packet" : "fault",
                          world_fault_name(fault->kind), error);
    }
    if (fault->kind == WORLD_FAULT_MTU && fault->size_bytes < IPV6_MTU_MIN) {
        const struct world_port *port = &spec->hosts[fault->host].ports[fault->port];

        return has_ipv6(port) ? lab_refuse(backend, IPV6_BELOW_MIN, port->name, error)
                              : WEFT_OK;
    }
    return WEFT_OK;
}

weft_status lab_can_express(const char *backend, const struct world_spec *spec,
                            struct weft_error *error)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < spec->n_hosts && status == WEFT_OK; i++) {
        status = check_host(backend, &spec->hosts[i], error);
    }
    for (uint32_t i = 0; i < spec->n_cables && status == WEFT_OK; i++) {
        status = check_cable(backend, spec, &spec->cables[i], error);
    }
    for (uint32_t i = 0; i < spec->n_faults && status == WEFT_OK; i++) {
        status = check_fault(backend, spec, &spec->faults[i], error);
    }
    return status;
}
