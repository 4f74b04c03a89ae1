/* Policies of NCCL's net_ib, as of 2.25.1 and, with subnet-aware routing, of 2.30.7. */
#include "nccl/policies.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NICS_MAX 32         /* MAX_IB_DEVS, net_ib.cc */
#define NIC_PORTS_MAX 4     /* NCCL_NET_MAX_DEVS_PER_NIC */
#define LISTENER_GIDS_MAX 2 /* GIDs in the handle, connect.cc of 2.30.7 */

/* Recovery of NCCL 2.29 and later with NCCL_IB_RESILIENCY_PORT_FAILOVER=1 and
 * NCCL_IB_RESILIENCY_PORT_RECOVERY=1. The values are START_DELAY, ATTEMPTS_MAX and, for an attempt,
 * ALIVE_MSG_TIMEOUT of p2p_resiliency_recovery.cc. The queue pairs are set up again with
 * connect.cc's gidInfo. */
const struct rdma_recovery nccl_recovery = {
    .fails_over = true,
    .keeps_rails = true,
    .attempts_max = 5,
    .start_ns = INT64_C(200000000),
    .step_ns = INT64_C(4000000000),
};

/* One merged device: the active ports of one NIC (NCCL_NET_MERGE_LEVEL=PORT). */
struct nic {
    uint32_t device;
    uint32_t ports[NIC_PORTS_MAX]; /* indices into the facts */
    uint32_t n_ports;
};

struct end {
    const struct rdma_port_facts *facts;
    struct nic nics[NICS_MAX];
    uint32_t n_nics;
};

int64_t nccl_number(const char *text, int64_t otherwise)
{
    int64_t value;

    if (text == NULL || text[0] == '\0') {
        return otherwise;
    }
    errno = 0;
    value = strtoll(text, NULL, 0);
    return errno == ERANGE ? otherwise : value;
}

/* Level LOC means that ports are not merged. All higher levels include what PORT merges
 * (ncclTopoMakeVnics, ncclIbMakeVDeviceInternal). */
bool nccl_merges(const char *merge_nics, const char *merge_level)
{
    return nccl_number(merge_nics, 1) != 0 &&
           (merge_level == NULL || strcmp(merge_level, "LOC") != 0);
}

/* Returns true if a port matches one entry of the list, of `n` characters: a name, or the beginning
 * of one, and possibly a port. */
static bool entry_matches(const char *entry, size_t n, bool is_exact, const char *device,
                          uint8_t port)
{
    const char *colon = memchr(entry, ':', n);
    size_t n_name = colon == NULL ? n : (size_t)(colon - entry);

    if (n_name == 0 || strncmp(device, entry, n_name) != 0 ||
        (is_exact && device[n_name] != '\0')) {
        return false;
    }
    return colon == NULL || strtol(colon + 1, NULL, 10) == port;
}

bool nccl_opens(const char *ib_hca, const char *device, uint8_t port)
{
    bool is_not = ib_hca != NULL && ib_hca[0] == '^';
    const char *at = ib_hca == NULL ? "" : ib_hca + is_not;
    bool is_exact = at[0] == '=';
    bool is_listed = false, is_empty = true;

    at += is_exact;
    while (at[0] != '\0') {
        size_t n = strcspn(at, ",");

        is_empty = is_empty && strcspn(at, ",:") == 0; /* an entry needs a name */
        is_listed = is_listed || entry_matches(at, n, is_exact, device, port);
        at += n;
        at += at[0] == ',';
    }
    return (is_empty || is_listed) != is_not;
}

/* Lists the NICs as ncclIbInitDevices does: every active port of every device, in device order. Up
 * to four ports of one NIC are merged, unless NICs are split. */
static void list_nics(struct end *end, const struct rdma_port_facts *facts,
                      uint32_t n_ports, bool splits_nics)
{
    memset(end, 0, sizeof(*end));
    end->facts = facts;
    for (uint32_t p = 0; p < n_ports; p++) {
        if (!facts[p].is_active) {
            continue;
        }
        struct nic *nic = NULL;
        for (uint32_t i = 0; !splits_nics && i < end->n_nics; i++) {
            if (end->nics[i].device == facts[p].device &&
                end->nics[i].n_ports < NIC_PORTS_MAX) {
                nic = &end->nics[i];
                break;
            }
        }
        if (nic == NULL) {
            if (end->n_nics == NICS_MAX) {
                return;
            }
            nic = &end->nics[end->n_nics++];
            nic->device = facts[p].device;
        }
        nic->ports[nic->n_ports++] = p;
    }
}

/* Returns the index into port->gids of a slot, or UINT32_MAX if the slot is empty. */
static uint32_t slot(const struct rdma_port_facts *port, uint32_t index)
{
    for (uint32_t i = 0; i < port->n_gids; i++) {
        if (port->gids[i].index == index) {
            return i;
        }
    }
    return UINT32_MAX;
}

/* Returns true if a GID is configured (not zero) and not link-local (ncclIbGetGid, validGid). */
static bool is_valid(const union ibv_gid *gid)
{
    struct io_ip ip = rdma_gid_ip(gid);
    return !io_ip_is_zero(&ip) && !(ip.bytes[0] == 0xfe && ip.bytes[1] == 0x80);
}

static bool is_inet(const union ibv_gid *gid)
{
    struct io_ip ip = rdma_gid_ip(gid);
    return io_ip_is_v4(&ip);
}

/* Reads settings as envIbAddrFamily, envIbAddrRange and the parameters IB_ROCE_VERSION_NUM and
 * IB_SUBNET_PREFIX_LEN do. An unknown family is AF_INET. A range is ignored if it is invalid, of
 * the other family or too long. */
void nccl_scan(const struct rdma_gid_settings *settings, struct rdma_gid_rule *rule)
{
    const char *range = settings->range == NULL ? "" : settings->range;
    const char *slash = strchr(range, '/');
    char address[IO_IP_TEXT_BYTES];
    int64_t subnet_len = nccl_number(settings->subnet_len, rule->subnet_len);
    long len;

    rule->subnet_len = subnet_len < 0 ? 0 : subnet_len > 32 ? 32 : (unsigned)subnet_len;
    rule->roce_version = nccl_number(settings->roce_version, rule->roce_version);
    rule->wants_ipv6 =
        settings->family != NULL && strcmp(settings->family, "AF_INET6") == 0;
    if (slash == NULL || (size_t)(slash - range) >= sizeof(address)) {
        return;
    }
    memcpy(address, range, (size_t)(slash - range));
    address[slash - range] = '\0';
    len = strtol(slash + 1, NULL, 10);
    if (io_ip_parse(address, &rule->range) &&
        io_ip_is_v4(&rule->range) != rule->wants_ipv6 &&
        len <= (rule->wants_ipv6 ? 128 : 32)) {
        rule->range_len = len < 0 ? -1 : (int)len;
    }
}

/* Returns true if a GID is of the wanted family (getGidAddrFamily). */
static bool is_wanted(const union ibv_gid *gid, const struct rdma_gid_rule *rule)
{
    return is_inet(gid) != rule->wants_ipv6;
}

/* Returns true if a GID of the wanted family is in the range (matchGidAddrPrefix). */
static bool is_in_range(const union ibv_gid *gid, const struct rdma_gid_rule *rule)
{
    struct io_ip ip = rdma_gid_ip(gid);

    return rule->range_len == 0 ||
           (rule->range_len > 0 &&
            io_ip_same_subnet(&ip, &rule->range, (unsigned)rule->range_len));
}

bool nccl_looks_for(const struct rdma_gid_rule *rule, const union ibv_gid *gid)
{
    return is_wanted(gid, rule) && is_in_range(gid, rule) && is_valid(gid);
}

/* Returns true if the candidate replaces the current GID (ncclUpdateGidIndex). */
static bool replaces(const struct rdma_port_facts *port, uint32_t candidate,
                     uint32_t current, const struct rdma_gid_rule *rule)
{
    const union ibv_gid empty = {.raw = {0}};
    const union ibv_gid *now = current == UINT32_MAX ? &empty : &port->gids[current].gid;
    const union ibv_gid *next = &port->gids[candidate].gid;
    int64_t version = port->gids[candidate].type == IBV_GID_TYPE_ROCE_V2 ? 2 : 1;
    bool differs;

    if (!is_wanted(next, rule) || !is_in_range(next, rule)) {
        return false;
    }
    /* A candidate of the wanted family replaces one of the other, whatever its version. */
    if (!is_wanted(now, rule)) {
        return true;
    }
    differs =
        current == UINT32_MAX || port->gids[current].type != port->gids[candidate].type;
    return is_valid(next) && (differs || !is_valid(now)) && version == rule->roce_version;
}

/* Returns the GID in slot NCCL_IB_GID_INDEX if that is set. Otherwise begins with slot 0 and scans
 * the others (ncclIbGetGidIndex). Returns UINT32_MAX for an empty slot. An empty slot reads as
 * zeros, which are IPv6 to the scan, and only its use fails. */
uint32_t nccl_gid(const struct rdma_port_facts *port, const struct rdma_gid_rule *rule)
{
    const union ibv_gid empty = {.raw = {0}};
    uint32_t current;

    if (rule->index >= 0) {
        return slot(port, (uint32_t)rule->index);
    }
    current = slot(port, 0);
    for (uint32_t i = 0; i < port->n_gids; i++) {
        if (port->gids[i].index != 0 && replaces(port, i, current, rule)) {
            current = i;
        }
    }
    if (rule->wants_ipv6 && current != UINT32_MAX && is_inet(&port->gids[current].gid) &&
        is_in_range(&empty, rule)) {
        return UINT32_MAX;
    }
    return current;
}

/* Returns the GID of a port for a rail: the first one if no GID can be used. */
static uint32_t gid_or_first(const struct rdma_port_facts *port,
                             const struct rdma_gid_rule *rule)
{
    uint32_t gid = nccl_gid(port, rule);
    return gid == UINT32_MAX ? 0 : gid;
}

bool nccl_same_subnet(const struct rdma_gid_rule *rule, const union ibv_gid *a,
                      const union ibv_gid *b)
{
    struct io_ip x = rdma_gid_ip(a);
    struct io_ip y = rdma_gid_ip(b);
    return io_ip_same_subnet(&x, &y, io_ip_is_v4(&x) ? rule->subnet_len : 64);
}

/* Returns true if every port of the NIC shares the subnet of one of the GIDs ("all PFs must match",
 * connect.cc of 2.30.7). */
static bool nic_matches(const struct end *end, const struct nic *nic,
                        const struct rdma_gid_rule *rule, const union ibv_gid *gids,
                        uint32_t n_gids)
{
    for (uint32_t p = 0; p < nic->n_ports; p++) {
        const struct rdma_port_facts *port = &end->facts[nic->ports[p]];
        bool matches = false;
        uint32_t own = nccl_gid(port, rule);
        for (uint32_t g = 0; own != UINT32_MAX && g < n_gids; g++) {
            matches = matches || nccl_same_subnet(rule, &port->gids[own].gid, &gids[g]);
        }
        if (!matches) {
            return false;
        }
    }
    return true;
}

/* Returns the given NIC if it matches, otherwise the first that does, or the given one if none
 * does. */
static uint32_t reselect(const struct end *end, uint32_t given,
                         const struct rdma_gid_rule *rule, const union ibv_gid *gids,
                         uint32_t n_gids)
{
    if (nic_matches(end, &end->nics[given], rule, gids, n_gids)) {
        return given;
    }
    for (uint32_t i = 0; i < end->n_nics; i++) {
        if (nic_matches(end, &end->nics[i], rule, gids, n_gids)) {
            return i;
        }
    }
    return given;
}

/* Writes the GIDs of up to `cap` ports of a NIC. Returns their number. */
static uint32_t gids_of(const struct end *end, uint32_t nic,
                        const struct rdma_gid_rule *rule, union ibv_gid *out,
                        uint32_t cap)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < end->nics[nic].n_ports && n < cap; p++) {
        const struct rdma_port_facts *port = &end->facts[end->nics[nic].ports[p]];
        uint32_t gid = nccl_gid(port, rule);
        if (gid != UINT32_MAX) {
            out[n++] = port->gids[gid].gid;
        }
    }
    return n;
}

/* Makes one rail per queue pair, of which there are as many as ports at the end that has more. QP q
 * uses port q mod n of each end (ncclIbCreateQp's devIndex), with the lesser of both active
 * MTUs. */
static uint32_t make_rails(const struct rdma_choice_input *input, const struct nic *local,
                           const struct nic *remote, struct rdma_rail *out, uint32_t cap)
{
    uint32_t n = local->n_ports > remote->n_ports ? local->n_ports : remote->n_ports;
    n = n < cap ? n : cap;
    for (uint32_t q = 0; q < n; q++) {
        uint32_t l = local->ports[q % local->n_ports];
        uint32_t r = remote->ports[q % remote->n_ports];
        uint32_t l_mtu = input->local[l].active_mtu;
        uint32_t r_mtu = input->remote[r].active_mtu;
        out[q] = (struct rdma_rail){
            .local_port = l,
            .remote_port = r,
            .local_gid = gid_or_first(&input->local[l], &input->gid),
            .remote_gid = gid_or_first(&input->remote[r], &input->gid),
            .path_mtu = l_mtu < r_mtu ? l_mtu : r_mtu,
        };
    }
    return n;
}

/* Returns the NIC that the end itself chose, or NIC c mod n for channel c if it chose none. The
 * choice can be one port of a card whose ports are not merged. */
static struct nic first_nic(const struct end *end, uint32_t channel, uint32_t *out_index)
{
    struct nic chosen = {.n_ports = 0};

    *out_index = channel % end->n_nics;
    for (uint32_t i = 0; i < end->n_nics; i++) {
        for (uint32_t p = 0; p < end->nics[i].n_ports; p++) {
            if (end->facts[end->nics[i].ports[p]].is_chosen &&
                chosen.n_ports < NIC_PORTS_MAX) {
                *out_index = chosen.n_ports == 0 ? i : *out_index;
                chosen.device = end->nics[i].device;
                chosen.ports[chosen.n_ports++] = end->nics[i].ports[p];
            }
        }
    }
    return chosen.n_ports > 0 ? chosen : end->nics[*out_index];
}

/* Selects the NIC that each end's own machine suggests, whatever the peer can reach. The
 * subnet-aware version then moves the connector to a NIC that matches the listener's first two
 * GIDs. It also moves the listener to one that matches the GIDs of the connector's NIC. */
uint32_t nccl_choose(const struct rdma_choice_input *input, bool subnet_aware,
                     struct rdma_rail *out, uint32_t cap)
{
    struct end local, remote;
    uint32_t local_nic, remote_nic;
    list_nics(&local, input->local, input->n_local, input->splits_nics);
    list_nics(&remote, input->remote, input->n_remote, input->splits_nics);
    if (local.n_nics == 0 || remote.n_nics == 0) {
        return 0;
    }
    struct nic ours = first_nic(&local, input->channel, &local_nic);
    struct nic theirs = first_nic(&remote, input->channel, &remote_nic);
    if (subnet_aware) {
        const struct end *connector = input->is_connector ? &local : &remote;
        const struct end *listener = input->is_connector ? &remote : &local;
        uint32_t *connector_nic = input->is_connector ? &local_nic : &remote_nic;
        uint32_t *listener_nic = input->is_connector ? &remote_nic : &local_nic;
        union ibv_gid gids[NIC_PORTS_MAX];
        uint32_t n =
            gids_of(listener, *listener_nic, &input->gid, gids, LISTENER_GIDS_MAX);
        *connector_nic = reselect(connector, *connector_nic, &input->gid, gids, n);
        n = gids_of(connector, *connector_nic, &input->gid, gids, NIC_PORTS_MAX);
        *listener_nic = reselect(listener, *listener_nic, &input->gid, gids, n);
        ours = local.nics[local_nic];
        theirs = remote.nics[remote_nic];
    }
    return make_rails(input, &ours, &theirs, out, cap);
}
