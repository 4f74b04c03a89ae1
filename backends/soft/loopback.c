#define _GNU_SOURCE
#include "backends/soft/loopback.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/linux/shm.h"
#include "backends/soft/udp.h"
#include "base/check.h"
#include "base/text.h"

enum { FIRST_IFINDEX = 2, BLOCK_MIN = 16, BLOCK_MAX = 239 };
/* Numbered as in backends/sim, so that GIDs are the same. */
#define MAC_BASE UINT64_C(0x025700000000)
#define MAC_MANAGEMENT 0xff00u

struct soft_loopback {
    struct linux_aliases aliases;
    struct linux_alias *items;          /* Owned */
    struct linux_alias_netdev *netdevs; /* Owned */
    struct io_hostinfo info;            /* netdevs and addresses are Owned */
    uint8_t block;
};

uint32_t soft_loopback_ifindex(uint32_t port)
{
    return FIRST_IFINDEX + port;
}

uint64_t soft_loopback_mac(uint32_t host, uint32_t port)
{
    return MAC_BASE | (uint64_t)(host & 0xffff) << 16 | (port + 1);
}

bool soft_port_cable(const struct world_spec *spec, uint32_t host, uint32_t port,
                     uint32_t *out_cable)
{
    for (uint32_t i = 0; i < spec->n_cables; i++) {
        for (unsigned side = 0; side < 2; side++) {
            const struct world_end *end = &spec->cables[i].ends[side];
            if (!end->is_switch && end->node == host && end->port == port) {
                *out_cable = i;
                return true;
            }
        }
    }
    return false;
}

/* ---- links ---- */

/* Numbers the links: cables first, then ports without a cable, the management network, and one
 * link per host for its own processes. */
static uint32_t link_of_port(const struct world_spec *spec, uint32_t host, uint32_t port)
{
    uint32_t link = 0;
    if (soft_port_cable(spec, host, port, &link)) {
        return link;
    }
    link = spec->n_cables + port;
    for (uint32_t i = 0; i < host; i++) {
        link += spec->hosts[i].n_ports;
    }
    return link;
}

static uint32_t management_link(const struct world_spec *spec)
{
    return link_of_port(spec, spec->n_hosts, 0);
}

static struct io_ip group_of(const struct soft_loopback *self, uint32_t link)
{
    return io_ip_v4(239, self->block, (uint8_t)((link + 1) >> 8), (uint8_t)(link + 1));
}

/* ---- addresses ---- */

static struct io_ip link_local_of(uint64_t mac)
{
    uint64_t high = (mac >> 24 & 0xffffff) ^ 0x020000;
    uint64_t eui = high << 40 | UINT64_C(0xfffe) << 24 | (mac & 0xffffff);
    struct io_ip ip = {.bytes = {0xfe, 0x80}};
    for (int i = 0; i < 8; i++) {
        ip.bytes[8 + i] = (uint8_t)(eui >> (56 - 8 * i));
    }
    return ip;
}

static void add_alias(struct soft_loopback *self, const struct io_ip *seen, uint32_t link)
{
    uint32_t number = self->aliases.n_items + 1;
    self->items = weft_realloc(self->items, number * sizeof *self->items);
    self->items[self->aliases.n_items] = (struct linux_alias){
        .seen = *seen,
        .real = io_ip_v4(127, self->block, (uint8_t)(number >> 8), (uint8_t)number),
        .link = link};
    self->aliases.items = self->items;
    self->aliases.n_items = number;
}

static void add_host_aliases(struct soft_loopback *self, const struct world_spec *spec,
                             uint32_t host)
{
    const struct world_host *of = &spec->hosts[host];
    for (uint32_t i = 0; i < of->n_ports; i++) {
        uint32_t link = link_of_port(spec, host, i);
        struct io_ip local = link_local_of(soft_loopback_mac(host, i));
        add_alias(self, &local, link);
        for (uint32_t j = 0; j < of->ports[i].n_addresses; j++) {
            add_alias(self, &of->ports[i].addresses[j].ip, link);
        }
    }
    if (spec->management.exists && !io_ip_is_zero(&of->management_ip)) {
        add_alias(self, &of->management_ip, management_link(spec));
    }
}

/* ---- facts ---- */

static void add_netdev(struct soft_loopback *self, const struct world_spec *spec,
                       uint32_t host, const struct io_netdev *netdev, uint64_t mac)
{
    struct io_netdev *added = &self->info.netdevs[self->info.n_netdevs++];
    const struct world_sysctl *sysctl = &spec->hosts[host].sysctl;
    *added = *netdev;
    added->rp_filter = sysctl->rp_filter;
    added->arp_ignore = sysctl->arp_ignore;
    added->arp_announce = sysctl->arp_announce;
    added->accept_local = sysctl->accept_local;
    for (int i = 0; i < 6; i++) {
        added->mac[i] = (uint8_t)(mac >> (40 - 8 * i));
    }
}

static void add_link(struct soft_loopback *self, uint32_t ifindex, uint32_t link)
{
    self->netdevs[self->aliases.n_netdevs++] = (struct linux_alias_netdev){
        .ifindex = ifindex, .link = link, .group = group_of(self, link)};
}

static void add_port(struct soft_loopback *self, const struct world_spec *spec,
                     uint32_t host, uint32_t index)
{
    const struct world_port *port = &spec->hosts[host].ports[index];
    uint32_t cable = 0;
    bool has_cable = soft_port_cable(spec, host, index, &cable);
    struct io_netdev netdev = {.ifindex = soft_loopback_ifindex(index),
                               .mtu_bytes = port->mtu_bytes,
                               .speed_bps = has_cable ? spec->cables[cable].rate_bps : 0,
                               .is_up = has_cable && spec->cables[cable].up,
                               .n_addresses = port->n_addresses};
    weft_format(netdev.name, sizeof netdev.name, "%s", port->name);
    netdev.addresses = weft_calloc(port->n_addresses + 1, sizeof *netdev.addresses);
    for (uint32_t i = 0; i < port->n_addresses; i++) {
        netdev.addresses[i] = port->addresses[i];
    }
    add_netdev(self, spec, host, &netdev, soft_loopback_mac(host, index));
    add_link(self, netdev.ifindex, link_of_port(spec, host, index));
}

static void add_management(struct soft_loopback *self, const struct world_spec *spec,
                           uint32_t host)
{
    const struct world_host *of = &spec->hosts[host];
    struct io_netdev netdev = {.ifindex = soft_loopback_ifindex(of->n_ports),
                               .name = "mgmt0",
                               .mtu_bytes = 1500,
                               .speed_bps = spec->management.rate_bps,
                               .is_up = true,
                               .is_management = true,
                               .n_addresses = 1};
    if (!spec->management.exists || io_ip_is_zero(&of->management_ip)) {
        return;
    }
    netdev.addresses = weft_calloc(1, sizeof *netdev.addresses);
    netdev.addresses[0] =
        (struct io_prefix){of->management_ip, spec->management.prefix_len};
    add_netdev(self, spec, host, &netdev, soft_loopback_mac(host, MAC_MANAGEMENT - 1));
    add_link(self, netdev.ifindex, management_link(spec));
}

/* Gives each host of a run a unique id, which also differs between runs. */
static void name_host(struct soft_loopback *self, const struct world_host *of,
                      uint32_t index)
{
    const uint8_t id[16] = {
        'w', 'e', 'f', 't', self->block, (uint8_t)(index >> 8), (uint8_t)index};
    weft_format(self->info.name, sizeof self->info.name, "%s", of->name);
    memcpy(self->info.host_id, id, sizeof id);
    self->info.memlock_bytes = of->memlock_bytes;
    self->info.shm_dev = linux_shm_dev();
    self->info.ip_forward = of->sysctl.ip_forward;
}

struct soft_loopback *soft_loopback_create(const struct world_spec *spec, uint32_t host,
                                           uint8_t block)
{
    struct soft_loopback *self = weft_calloc(1, sizeof *self);
    uint32_t n_ports = spec->hosts[host].n_ports;
    self->block = block;
    self->netdevs = weft_calloc((size_t)n_ports + 2, sizeof *self->netdevs);
    self->info.netdevs = weft_calloc((size_t)n_ports + 1, sizeof *self->info.netdevs);
    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        add_host_aliases(self, spec, i);
    }
    for (uint32_t i = 0; i < n_ports; i++) {
        add_port(self, spec, host, i);
    }
    add_management(self, spec, host);
    add_link(self, 0, management_link(spec) + 1 + host);
    name_host(self, &spec->hosts[host], host);
    self->aliases.netdevs = self->netdevs;
    self->aliases.info = &self->info;
    return self;
}

void soft_loopback_destroy(struct soft_loopback *self)
{
    if (self == NULL) {
        return;
    }
    for (uint32_t i = 0; i < self->info.n_netdevs; i++) {
        free(self->info.netdevs[i].addresses);
    }
    free(self->info.netdevs);
    free(self->netdevs);
    free(self->items);
    free(self);
}

const struct linux_aliases *soft_loopback_aliases(const struct soft_loopback *loopback)
{
    return &loopback->aliases;
}

void soft_loopback_set_up(struct soft_loopback *loopback, uint32_t port, bool is_up)
{
    loopback->info.netdevs[port].is_up = is_up;
}

int soft_loopback_claim(uint8_t *out_block, int *out_fd)
{
    unsigned first = (unsigned)getpid();
    int error = EADDRINUSE;
    for (unsigned i = 0; i <= BLOCK_MAX - BLOCK_MIN && error == EADDRINUSE; i++) {
        unsigned block = BLOCK_MIN + (first + i) % (BLOCK_MAX - BLOCK_MIN + 1);
        struct sockaddr_in name = {.sin_family = AF_INET,
                                   .sin_port = htons(SOFT_UDP_PORT),
                                   .sin_addr.s_addr =
                                       htonl(127u << 24 | block << 16 | 0xfffe)};
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            return errno;
        }
        error = bind(fd, (struct sockaddr *)(void *)&name, sizeof name) == 0 ? 0 : errno;
        if (error == 0) {
            *out_block = (uint8_t)block;
            *out_fd = fd;
        } else {
            close(fd);
        }
    }
    return error;
}
