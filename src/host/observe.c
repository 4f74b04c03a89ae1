#include "host/observe.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "io/machine.h"

_Static_assert(IBV_GID_TYPE_ROCE_V1 == 1 && IBV_GID_TYPE_ROCE_V2 == 2,
               "diag counts RoCE versions as verbs does");
_Static_assert(RDMA_FACTS_GIDS_MAX <= DIAG_GIDS_MAX, "all facts are observed");

static void observe_port(const struct rdma_port_facts *facts, struct diag_port *out)
{
    diag_port_init(out);
    weft_format(out->name, sizeof(out->name), "%s", facts->name);
    out->is_up = facts->is_active ? DIAG_YES : DIAG_NO;
    out->netdev_mtu = facts->netdev_mtu;
    out->active_mtu = facts->active_mtu;
    out->rate_bps = (int64_t)facts->rate_bps;
    out->device = facts->device;
    out->has_gids = true;
    out->gids_cut = facts->is_cut ? DIAG_YES : DIAG_NO;
    for (uint32_t i = 0; i < facts->n_gids; i++) {
        struct diag_gid *gid = &out->gids[out->n_gids++];

        memcpy(gid->ip.bytes, facts->gids[i].gid.raw, sizeof(gid->ip.bytes));
        gid->type = facts->gids[i].type;
        gid->prefix_len = facts->gids[i].prefix_len;
        gid->index = (int)facts->gids[i].index;
        gid->vlan_id = IO_UNKNOWN;
    }
}

struct diag_port *observe_ports(const struct rdma_port_facts *facts, uint32_t n)
{
    struct diag_port *ports = weft_calloc((size_t)n + 1, sizeof(*ports));

    for (uint32_t i = 0; i < n; i++) {
        observe_port(&facts[i], &ports[i]);
    }
    return ports;
}

/* Returns the netdev of this host that has the address of a GID; NULL if none or more than one has
 * it. */
static const struct io_netdev *netdev_with(const struct io_hostinfo *info,
                                           const struct io_ip *ip)
{
    const struct io_netdev *found = NULL;

    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        for (uint32_t k = 0; k < info->netdevs[i].n_addresses; k++) {
            if (!io_ip_equal(&info->netdevs[i].addresses[k].ip, ip)) {
                continue;
            }
            if (found != NULL) {
                return NULL;
            }
            found = &info->netdevs[i];
        }
    }
    return found;
}

static void add_netdevs(const struct io_hostinfo *info, struct diag_port *out)
{
    for (uint32_t i = 0; i < out->n_gids; i++) {
        struct diag_gid *gid = &out->gids[i];
        const struct io_netdev *netdev =
            gid->prefix_len > 0 ? netdev_with(info, &gid->ip) : NULL;

        if (netdev != NULL) {
            gid->vlan_id = netdev->vlan_id;
        }
    }
}

static void copy_counters(const struct io_port_counters *from, struct diag_port *out)
{
    const int64_t all[DIAG_N_COUNTERS] = {
        [DIAG_TX_PACKETS] = from->tx_packets,
        [DIAG_RX_PACKETS] = from->rx_packets,
        [DIAG_RETRANSMITS] = from->retransmits,
        [DIAG_TIMEOUTS] = from->timeouts,
        [DIAG_OUT_OF_SEQUENCE] = from->out_of_sequence,
        [DIAG_RNR_NAKS_SENT] = from->rnr_naks_sent,
        [DIAG_ICRC_ERRORS] = from->icrc_errors,
        [DIAG_RX_UNCLAIMED] = from->rx_unclaimed,
        [DIAG_RX_FILTERED_SOURCE] = from->rx_filtered_source,
        [DIAG_RX_FILTERED_PORT] = from->rx_filtered_port,
        [DIAG_RX_OVERSIZE] = from->rx_oversize,
        [DIAG_TX_QUEUE_DROPS] = from->tx_queue_drops,
        [DIAG_RX_PAUSES] = from->rx_pauses,
        [DIAG_RX_PAUSE_NS] = from->rx_pause_ns,
        [DIAG_RX_FRAMES] = from->rx_frames,
        [DIAG_RX_DUPLICATES] = from->rx_duplicates,
        [DIAG_TX_FRAMES] = from->tx_frames,
    };

    memcpy(out->counters, all, sizeof(all));
}

static bool is_reported(const struct diag_port *port, const struct io_ip *ip)
{
    for (uint32_t i = 0; i < port->n_gids; i++) {
        if (io_ip_equal(&port->gids[i].ip, ip)) {
            return true;
        }
    }
    return false;
}

/* Returns true if the port's GID table contains the address. Reads every slot, because on real NICs
 * an empty slot can return EINVAL, as a slot beyond the table does. */
static bool is_in_table(struct io_device *device, uint8_t port, const struct io_ip *ip)
{
    struct ibv_port_attr attr;
    struct io_gid_entry entry;

    if (device->ops->query_port(device, port, &attr) != 0) {
        return false;
    }
    for (int i = 0; i < attr.gid_tbl_len; i++) {
        if (device->ops->query_gid(device, port, (uint32_t)i, &entry) == 0 &&
            memcmp(entry.gid.raw, ip->bytes, sizeof(ip->bytes)) == 0) {
            return true;
        }
    }
    return false;
}

static int64_t count_addresses_of(const struct io_netdev *netdev,
                                  struct io_device *device, uint8_t port,
                                  const struct diag_port *reported)
{
    int64_t n = 0;

    for (uint32_t i = 0; netdev != NULL && i < netdev->n_addresses; i++) {
        const struct io_ip *ip = &netdev->addresses[i].ip;

        n += !io_ip_is_link_local(ip) &&
             (is_reported(reported, ip) || !is_in_table(device, port, ip));
    }
    return n;
}

/* Counts the addresses for which a port should have GIDs. Returns IO_UNKNOWN if the host has VLANs,
 * because it is not known which port a VLAN is on. Also if the port's bond has addresses, because
 * they belong to one of its ports at a time. Ignores addresses added after the GIDs were read. */
static int64_t count_addresses(const struct io_hostinfo *info, struct io_device *device,
                               uint8_t port, const struct io_netdev *netdev,
                               const struct diag_port *reported)
{
    const struct io_netdev *master = io_hostinfo_netdev(info, netdev->master);

    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        if (info->netdevs[i].vlan_id != 0) {
            return IO_UNKNOWN;
        }
    }
    if (count_addresses_of(master, device, port, reported) > 0) {
        return IO_UNKNOWN;
    }
    return count_addresses_of(netdev, device, port, reported);
}

/* Adds facts of a port's device and netdev that peers do not exchange. */
static void add_device(const struct io_hostinfo *info, struct io_device *device,
                       uint8_t port, struct diag_port *out)
{
    struct io_device_attr attr;
    struct io_port_counters counters;
    uint32_t ifindex = 0;
    const struct io_netdev *netdev, *master;

    if (device->ops->query_device(device, &attr) == 0 && attr.profile != NULL &&
        strcmp(attr.profile, "unknown") != 0) {
        out->is_software = strcmp(attr.profile, "rxe") == 0 ? DIAG_YES : DIAG_NO;
    }
    if (device->ops->port_counters != NULL &&
        device->ops->port_counters(device, port, &counters) == 0) {
        copy_counters(&counters, out);
    }
    netdev = device->ops->port_netdev(device, port, &ifindex) == 0
                 ? io_hostinfo_netdev(info, ifindex)
                 : NULL;
    if (netdev != NULL) {
        /* No event reports that it changed. The lower one limits what passed. */
        if (out->netdev_mtu <= 0 || netdev->mtu_bytes < out->netdev_mtu) {
            out->netdev_mtu = netdev->mtu_bytes;
        }
        out->rp_filter = netdev->rp_filter;
        out->arp_ignore = netdev->arp_ignore;
        out->n_addresses = count_addresses(info, device, port, netdev, out);
        master = io_hostinfo_netdev(info, netdev->master);
        out->is_bonded = master != NULL ? DIAG_YES : DIAG_NO;
        if (master != NULL) {
            weft_format(out->master, sizeof(out->master), "%s", master->name);
        }
    }
}

/* Converts "32.0 GT/s PCIe" to millions of transfers per second. */
static int64_t mega_transfers(const char *text)
{
    char *end = NULL;
    long whole = strtol(text, &end, 10);
    long tenths =
        end != text && end[0] == '.' && end[1] >= '0' && end[1] <= '9' ? end[1] - '0' : 0;

    return end == text || whole <= 0 || whole > 1000 ? IO_UNKNOWN
                                                     : 1000 * whole + 100 * tenths;
}

static int64_t known_lesser(int64_t a, int64_t b)
{
    return a == IO_UNKNOWN || b == IO_UNKNOWN ? IO_UNKNOWN : a < b ? a : b;
}

static int64_t known_lanes(uint32_t lanes)
{
    return lanes == 0 ? IO_UNKNOWN : (int64_t)lanes;
}

/* Adds the PCIe link of the card to the port above it: its present state, and the maximum of both
 * ends. */
static void add_slot(const struct io_machine *machine, uint32_t device, uint8_t port,
                     struct diag_port *out)
{
    for (uint32_t i = 0; machine != NULL && i < machine->n_nets; i++) {
        const struct io_net_facts *net = &machine->nets[i];
        const struct io_pci *pci, *above;

        if (net->device != device || net->port != port || net->pci == IO_MACHINE_NONE ||
            machine->pcis[net->pci].parent == IO_MACHINE_NONE) {
            continue;
        }
        pci = &machine->pcis[net->pci];
        above = &machine->pcis[pci->parent];
        out->pcie_lanes = known_lanes(pci->link_width);
        out->pcie_lanes_max = known_lesser(known_lanes(pci->max_link_width),
                                           known_lanes(above->max_link_width));
        out->pcie_mts = mega_transfers(pci->link_speed);
        out->pcie_mts_max = known_lesser(mega_transfers(pci->max_link_speed),
                                         mega_transfers(above->max_link_speed));
    }
}

void observe_devices(struct io_env *env, struct diag_port *ports, uint32_t n_ports)
{
    const struct io_hostinfo *info = env->ops->hostinfo(env);
    char name[DIAG_NAME_BYTES];

    for (uint32_t k = 0; k < n_ports; k++) {
        add_netdevs(info, &ports[k]);
    }
    for (uint32_t i = 0; i < env->n_devices; i++) {
        struct io_device *device = env->devices[i];

        for (uint8_t port = 1; port <= device->n_ports; port++) {
            weft_format(name, sizeof(name), port == 1 ? "%s" : "%s/%u", device->name,
                        port);
            for (uint32_t k = 0; k < n_ports; k++) {
                if (strcmp(ports[k].name, name) == 0) {
                    add_device(info, device, port, &ports[k]);
                    add_slot(info->machine, i, port, &ports[k]);
                }
            }
        }
    }
}
