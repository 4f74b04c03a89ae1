/* Checks what this kernel and this user can do, and what the kernel's soft-RoCE cannot
 * express. */
#define _GNU_SOURCE
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "backends/lab/netlink.h"
#include "backends/rxe/backend.h"
#include "backends/rxe/guest.h"

/* If set, hosts share one namespace even where each could have its own. For tests. */
#define ONE_NAMESPACE "WEFT_ONE_NAMESPACE"

/* First release whose rdma_rxe resolves routes in its netdev's namespace. Before, a device in a
 * namespace can be created but not used (drivers/infiniband/sw/rxe/rxe_net.c). */
#define FIRST_MAJOR 7
#define FIRST_MINOR 1

weft_status rxe_probe(enum lab_layout *out_layout, struct weft_error *error)
{
    bool is_guest = getenv(RXE_GUEST_MARKER) != NULL;
    struct utsname name;
    int major = 0;
    int minor = 0;
    int fd;
    int problem = netlink_open(NETLINK_RDMA, &fd);

    if (problem != 0) {
        return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_RXE,
                         "this kernel has no RDMA: modprobe rdma_rxe, or make rxe-guest");
    }
    close(fd);
    *out_layout =
        is_guest && getenv(ONE_NAMESPACE) != NULL ? LAB_ONE_NAMESPACE : LAB_NAMESPACES;
    if (uname(&name) != 0 || sscanf(name.release, "%d.%d", &major, &minor) != 2 ||
        major < FIRST_MAJOR || (major == FIRST_MAJOR && minor < FIRST_MINOR)) {
        *out_layout = LAB_ONE_NAMESPACE;
    }
    if (*out_layout == LAB_ONE_NAMESPACE && !is_guest) {
        return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_RXE,
                         "rdma_rxe in namespaces needs Linux %d.%d, this is %.40s: "
                         "make rxe-guest",
                         FIRST_MAJOR, FIRST_MINOR, name.release);
    }
    if (geteuid() != 0) {
        return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_RXE,
                         "namespaces and devices need root: run as root, or make "
                         "rxe-guest");
    }
    return WEFT_OK;
}

/* ---- checks of a scenario ---- */

static weft_status refuse(struct weft_error *error, const char *what, const char *of)
{
    return lab_refuse("rxe", what, of, error);
}

/* Checks for what the kernel's devices cannot do; lab_can_express() checks the cables. */
static weft_status check_host(const struct world_host *host, struct weft_error *error)
{
    if (host->n_overrides > 0) {
        return refuse(error, "profile_override", host->name);
    }
    if (host->n_bonds > 0) {
        return refuse(error, "bond", host->name);
    }
    if (host->memlock_bytes != INT64_MAX) {
        /* The limit does not apply to root. */
        return refuse(error, "memlock", host->name);
    }
    for (uint32_t i = 0; i < host->n_ports; i++) {
        if (host->ports[i].vlan_id != 0) {
            return refuse(error, "VLAN", host->ports[i].name);
        }
        if (host->ports[i].port != 1) {
            return refuse(error, "device with two ports", host->name);
        }
    }
    return WEFT_OK;
}

weft_status rxe_can_express(const struct world_spec *spec, struct weft_error *error)
{
    weft_status status = WEFT_OK;

    if (spec->is_timing_only) {
        return refuse(error, "payload: timing", "its memory is real");
    }
    for (uint32_t i = 0; i < spec->n_hosts && status == WEFT_OK; i++) {
        status = check_host(&spec->hosts[i], error);
    }
    return status == WEFT_OK ? lab_can_express("rxe", spec, error) : status;
}

weft_status rxe_layout_can_express(const struct world_spec *spec, enum lab_layout layout,
                                   struct weft_error *error)
{
    for (uint32_t i = 0; i < spec->n_hosts && layout == LAB_ONE_NAMESPACE; i++) {
        const struct world_host *host = &spec->hosts[i];
        if (host->sysctl.ip_forward != 0) {
            return refuse(error, "ip_forward before Linux 7.1", host->name);
        }
        for (uint32_t j = 0; j < host->n_ports; j++) {
            const struct world_port *port = &host->ports[j];
            for (uint32_t k = 0; k < port->n_addresses && port->peers != NULL; k++) {
                if (!io_ip_is_zero(&port->peers[k])) {
                    return refuse(error, "address with a peer before Linux 7.1",
                                  host->name);
                }
            }
        }
    }
    return WEFT_OK;
}
