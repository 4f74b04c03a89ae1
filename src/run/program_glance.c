#include "run/program_glance.h"

#include <stdlib.h>
#include <string.h>

#include "backends/registry.h"
#include "base/check.h"

#define GIDS_READ 16   /* slots of a port; software devices fill the first */
#define RXE_HEADERS 80 /* RXE_MAX_HDR_LENGTH of drivers/infiniband/sw/rxe/rxe_hdr.h */
#define ACTIVE_MTU_MIN 256
#define ACTIVE_MTU_MAX 4096
#define LINK_LOCAL_PREFIX 64

static enum diag_known as_known(bool is)
{
    return is ? DIAG_YES : DIAG_NO;
}

/* eth_mtu_int_to_enum() of drivers/infiniband/sw/rxe/rxe.h */
void program_glance_mtu(struct diag_port *port, int64_t mtu_bytes)
{
    int64_t fits = ACTIVE_MTU_MAX;

    while (fits > ACTIVE_MTU_MIN && fits > mtu_bytes - RXE_HEADERS) {
        fits /= 2;
    }
    port->netdev_mtu = mtu_bytes;
    port->active_mtu = fits;
}

/* Returns the prefix length of the interface's address that equals the GID; 0 if there is none. */
static int prefix_of(const struct world_port *port, const struct io_ip *ip)
{
    for (uint32_t i = 0; i < port->n_addresses; i++) {
        if (io_ip_equal(&port->addresses[i].ip, ip)) {
            return port->addresses[i].prefix_len;
        }
    }
    return io_ip_is_link_local(ip) ? LINK_LOCAL_PREFIX : 0;
}

static int vlan_of(const struct world_port *port, const struct io_ip *ip)
{
    for (uint32_t i = 0; i < port->n_vlan_addresses; i++) {
        if (io_ip_equal(&port->addresses[i].ip, ip)) {
            return port->vlan_id;
        }
    }
    return 0;
}

static void add_gids(const char *device, const struct world_port *spec,
                     struct diag_port *port)
{
    for (int i = 0; i < GIDS_READ && port->n_gids < DIAG_GIDS_MAX; i++) {
        struct diag_gid gid = {.index = i};

        if (backend_program_gid(device, i, &gid.ip, &gid.type) &&
            !io_ip_is_zero(&gid.ip)) {
            gid.prefix_len = prefix_of(spec, &gid.ip);
            gid.vlan_id = vlan_of(spec, &gid.ip);
            port->gids[port->n_gids++] = gid;
        }
    }
    port->has_gids = port->n_gids > 0;
}

static void glance_port(const struct world_host *host, const struct world_port *spec,
                        const char *device, struct diag_port *port)
{
    diag_port_init(port);
    weft_format(port->name, sizeof(port->name), "%s", spec->name);
    port->is_up = as_known(backend_program_is_active(device));
    program_glance_mtu(port, spec->mtu_bytes);
    add_gids(device, spec, port);
    port->is_software = DIAG_YES;
    port->rp_filter = host->sysctl.rp_filter;
    port->arp_ignore = host->sysctl.arp_ignore;
    port->is_bonded = host->n_bonds == 0 ? DIAG_NO : DIAG_UNKNOWN;
    port->n_addresses = spec->n_addresses;
}

static void glance_host(const struct world_spec *spec, uint32_t index,
                        program_look_device *device, struct program_look *out)
{
    const struct world_host *from = &spec->hosts[index];
    struct diag_host *host = &out->host;
    struct weft_text watched = {NULL, 0, 0};

    *out = (struct program_look){.is_seen = true};
    weft_format(host->name, sizeof(host->name), "%s", from->name);
    host->was_observed = true;
    host->gid_index = host->subnet_len = host->memlock_bytes = IO_UNKNOWN;
    host->forwards_ip = as_known(from->sysctl.ip_forward != 0);
    host->ports = weft_calloc((size_t)from->n_ports + 1, sizeof(*host->ports));
    host->n_ports = from->n_ports;
    out->losses = weft_calloc((size_t)from->n_ports + 1, sizeof(*out->losses));
    out->given_up = weft_calloc((size_t)from->n_ports + 1, sizeof(*out->given_up));
    for (uint32_t i = 0; i < from->n_ports; i++) {
        char name[256];

        device(spec, index, i, name, sizeof(name));
        glance_port(from, &from->ports[i], name, &host->ports[i]);
        host->ports[i].device = i; /* each has one of its own */
    }
    backend_program_watched(from->name, &watched);
    out->watched = watched.n > 0 ? weft_strdup(watched.bytes) : NULL;
    weft_text_fini(&watched);
}

void program_glance(const struct world_spec *spec, program_look_device *device,
                    struct program_look *before, struct program_look *now)
{
    struct weft_text counts = {NULL, 0, 0};

    program_look_outside(spec, device, &counts);
    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        glance_host(spec, i, device, &before[i]);
        glance_host(spec, i, device, &now[i]);
    }
    program_look_count(spec, counts.bytes, counts.n, before);
    program_look_count(spec, counts.bytes, counts.n, now);
    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        program_look_reset(&spec->hosts[i], &before[i]);
        for (uint32_t k = 0; k < spec->hosts[i].n_ports; k++) {
            now[i].losses[k] = before[i].losses[k];
        }
    }
    weft_text_fini(&counts);
}
