/* Completes the place of a finding: the end at fault, and the ports that would have been right. */
#include <errno.h>
#include <string.h>

#include "diag/private.h"

/* Adds two ports of the two hosts that face each other. */
static void name_facing(const struct diag_case *c, struct diag_finding *out)
{
    for (uint32_t i = 0; i < c->local.n; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            if (diag_facing(&c->local.items[i], &c->remote.items[j]) == DIAG_YES) {
                diag_evidence_text(out, "local_facing_port", c->local.items[i].name);
                diag_evidence_text(out, "remote_facing_port", c->remote.items[j].name);
                return;
            }
        }
    }
}

static bool counted(const struct diag_port *port, enum diag_counter counter)
{
    return port != NULL && port->counters[counter] > 0;
}

/* Adds the host that drops packets, because the failure is recorded by the sender, but the drops by
 * the receiver. */
static void name_dropper(const struct diag_case *c, struct diag_finding *out)
{
    bool is_firewall = out->entry->id == DIAG_HOST_FIREWALL_ROCE;
    enum diag_counter counter =
        is_firewall ? DIAG_RX_FILTERED_PORT : DIAG_RX_FILTERED_SOURCE;
    bool here = counted(c->local_port, counter);

    if ((is_firewall || out->entry->id == DIAG_HOST_RP_FILTER) &&
        here != counted(c->remote_port, counter)) {
        diag_evidence_text(out, "dropped_at", here ? c->host->name : c->peer_name);
    }
}

/* Returns true if the caller itself filters the packets. If other hosts reach the called host, the
 * caller drops the replies. If others fail as well, the called host drops the requests. A neighbour
 * that the called host missed, too, may have been kept from it by anything. With only two hosts
 * this is unknown, and false is returned. */
static bool is_callers_filter(const struct diag_case *caller)
{
    enum diag_known others_reach = DIAG_NO;

    for (uint32_t i = 0; i < caller->input->n_hosts; i++) {
        const struct diag_host *other = &caller->input->hosts[i];

        if (!diag_is_same_machine(other->name, caller->host->name) &&
            !diag_is_same_machine(other->name, caller->peer_name)) {
            enum diag_known in_vain =
                diag_failed_to_reach(other, caller->peer_name, ETIMEDOUT);

            if (in_vain != DIAG_NO) {
                return false;
            }
            if (caller->peer == NULL ||
                !diag_misses_neighbour(caller->input, caller->peer, other)) {
                others_reach = DIAG_YES;
            }
        }
    }
    return others_reach == DIAG_YES && caller->peer != NULL;
}

static void turn_filter(const struct diag_case *caller, struct diag_finding *out)
{
    if (out->entry->id == DIAG_CONN_FILTERED && is_callers_filter(caller)) {
        struct diag_case called = diag_case_from_far(caller);

        diag_describe(&called, out);
    }
}

/* Places the finding at the end that could not reach the other, with that end's failure, because
 * the end that waited is not at fault. */
static void place_at_caller(const struct diag_case *c, int sys_errno,
                            struct diag_finding *out)
{
    if (c->sys_errno == sys_errno || c->peer == NULL) {
        turn_filter(c, out);
        return;
    }
    for (uint32_t i = 0; i < c->peer->n_errors; i++) {
        struct diag_case caller;

        diag_case_init(&caller, c->input, c->peer, &c->peer->errors[i]);
        if (caller.host == c->peer && caller.peer == c->host &&
            caller.sys_errno == sys_errno) {
            diag_describe(&caller, out);
            turn_filter(&caller, out);
            return;
        }
    }
}

/* Swaps both ends of a finding about the peer if this host, not the peer, has the cause. */
static void turn_to_peer(const struct diag_case *c, diag_end_test *is_at,
                         struct diag_finding *out)
{
    struct diag_case far;

    if (is_at(c, DIAG_FAR) != DIAG_YES && is_at(c, DIAG_NEAR) == DIAG_YES &&
        c->peer != NULL) {
        far = diag_case_from_far(c);
        diag_describe(&far, out);
    }
}

/* Adds the rail that loses frames, or whose ends are in different VLANs, if a handshake over it
 * failed and no port is known. */
static void name_rail(const struct diag_case *c, struct diag_finding *out)
{
    const struct diag_entry *entry = out->entry;
    diag_test *is_so = entry->id == DIAG_LINK_CORRUPTING      ? diag_is_corrupting
                       : entry->id == DIAG_LINK_ONE_WAY       ? diag_is_one_way
                       : entry->id == DIAG_LINK_VLAN_MISMATCH ? diag_are_vlans_different
                                                              : diag_is_lossy;
    struct diag_case rail;

    if (c->local_port == NULL && c->remote_port == NULL &&
        diag_find_rail(c, is_so, &rail)) {
        diag_describe(&rail, out);
    }
}

/* Adds the slots in which the tables now contain the GIDs whose earlier slots were kept. */
static void name_slots(const struct diag_case *c, struct diag_finding *out)
{
    int64_t local, remote;

    (void)diag_find_index(c->local_port, c->has_local_gid, &c->local_gid, c->local_type,
                          &local);
    (void)diag_find_index(c->remote_port, c->has_remote_gid, &c->remote_gid,
                          c->remote_type, &remote);
    diag_evidence_int(out, "local_index", local);
    diag_evidence_int(out, "remote_index", remote);
}

static diag_end_test *end_test_of(enum diag_code code)
{
    switch ((int)code) {
    case DIAG_GID_FIXED_INDEX:
        return diag_fixed_index_at;
    case DIAG_GID_LINK_LOCAL:
        return diag_gid_link_local_at;
    case DIAG_GID_NO_IPV4:
        return diag_no_ipv4_at;
    case DIAG_ADDR_MISSING:
        return diag_addr_missing_at;
    case DIAG_GID_MISSING:
        return diag_gid_missing_at;
    case DIAG_DEVICE_FAILED:
        return diag_device_gone_at;
    case DIAG_ADDR_CHANGED:
        return diag_addr_changed_at;
    case DIAG_HOST_FIREWALL_ROCE:
        return diag_firewall_roce_at;
    case DIAG_LINK_DOWN:
        return diag_link_down_at;
    case DIAG_HOST_RP_FILTER:
        return diag_rp_filter_at;
    case DIAG_HOST_HCA_LIST:
        return diag_hca_list_at;
    case DIAG_HOST_BOND_PEERS:
        return diag_bond_peers_at;
    case DIAG_HOST_FD_LIMIT:
        return diag_is_short_at;
    default:
        return NULL;
    }
}

/* Names the port of the end that has none with carrier, and the host at the other end of its cable
 * instead of the one that it could not reach. */
static void name_cut_off(const struct diag_case *c, struct diag_finding *out)
{
    bool is_far = diag_is_cut_off_at(c, DIAG_NEAR) != DIAG_YES && c->peer != NULL;
    struct diag_case headed = is_far ? diag_case_from_far(c) : *c;
    const struct diag_input *input = c->input;

    headed.local_port = headed.local.n == 1 ? &headed.local.items[0] : NULL;
    for (uint32_t i = 0; headed.local_port != NULL && i < input->n_hosts; i++) {
        const struct diag_host *other = &input->hosts[i];

        if (!diag_is_same_machine(other->name, headed.host->name) &&
            diag_faces_one_of(headed.local_port, diag_ports_of(input, other->name)) ==
                DIAG_YES) {
            headed.peer_name = other->name;
        }
    }
    diag_describe(&headed, out);
    diag_evidence_text(out, "unreached", is_far ? c->host->name : c->peer_name);
}

/* Names the cable without carrier that the two hosts have, instead of the ports in use. */
static void name_only_way(const struct diag_case *c, const struct diag_port *local,
                          const struct diag_port *remote, struct diag_finding *out)
{
    diag_describe_at(c, c->host->name, local->name, c->peer_name, out);
    diag_evidence_text(out, "local_port", local->name);
    diag_evidence_text(out, "remote_port", remote->name);
    diag_evidence_text(out, "used_port", c->local_port->name);
}

static const struct diag_port *only_port(struct diag_ports ports, diag_port_test *is_so)
{
    const struct diag_port *found = NULL;

    for (uint32_t i = 0; i < ports.n; i++) {
        if (is_so(&ports.items[i]) == DIAG_YES) {
            if (found != NULL) {
                return NULL;
            }
            found = &ports.items[i];
        }
    }
    return found;
}

static bool is_end_of(const char *host, const char *port, const char *named,
                      const struct diag_port *known)
{
    return diag_is_same_machine(host, named) && strcmp(port, known->name) == 0;
}

/* Returns the port of `c->host` at the other end of the peer's cable; NULL if the cables are
 * unknown, or if that cable leads elsewhere. */
static const struct diag_port *facing_end(const struct diag_case *c)
{
    for (uint32_t i = 0; i < c->input->n_cables; i++) {
        const struct diag_cable *cable = &c->input->cables[i];

        if (is_end_of(cable->from, cable->from_port, c->peer_name, c->remote_port) &&
            diag_is_same_machine(cable->to, c->host->name)) {
            return diag_find_port(c->host, cable->to_port);
        }
        if (is_end_of(cable->to, cable->to_port, c->peer_name, c->remote_port) &&
            diag_is_same_machine(cable->from, c->host->name)) {
            return diag_find_port(c->host, cable->from_port);
        }
    }
    return NULL;
}

/* Places the finding at the end at fault and names the port there, because the failure belongs to
 * the end that detected it. */
static void head_by_fault(const struct diag_case *c, diag_end_test *is_at,
                          struct diag_finding *out)
{
    bool is_far = is_at(c, DIAG_NEAR) != DIAG_YES && is_at(c, DIAG_FAR) == DIAG_YES &&
                  c->peer != NULL;
    struct diag_case headed = is_far ? diag_case_from_far(c) : *c;
    const struct diag_entry *entry = out->entry;
    bool is_missing = entry->id == DIAG_ADDR_MISSING || entry->id == DIAG_GID_MISSING;
    diag_port_test *is_so =
        entry->id == DIAG_ADDR_MISSING ? diag_is_bare : diag_is_without_gid;

    if (is_missing && headed.local_port != NULL && is_so(headed.local_port) != DIAG_YES &&
        only_port(headed.local, is_so) != NULL) {
        /* used only because the port at fault was unusable */
        headed.local_port = headed.remote_port = NULL;
    }
    if (is_missing && headed.local_port == NULL) {
        headed.local_port = only_port(headed.local, is_so);
        headed.remote_port = headed.remote_port == NULL ? only_port(headed.remote, is_so)
                                                        : headed.remote_port;
    }
    if (entry->id == DIAG_LINK_DOWN && headed.local_port == NULL &&
        headed.remote_port != NULL) {
        headed.local_port = facing_end(&headed);
    }
    diag_describe(&headed, out);
    if (entry->id == DIAG_HOST_BOND_PEERS && headed.local_port != NULL) {
        diag_evidence_text(out, "bond", headed.local_port->master);
    }
    if (entry->id == DIAG_HOST_HCA_LIST) {
        diag_evidence_text(out, "NCCL_IB_HCA",
                           headed.host->hca_list[0] != '\0' ? headed.host->hca_list
                                                            : "unknown");
    }
}

/* Places the finding at the end at fault of the rail of which `is_so`, if a handshake failed and no
 * port is known. */
static void head_rail_by_fault(const struct diag_case *c, diag_test *is_so,
                               diag_end_test *is_at, struct diag_finding *out)
{
    struct diag_case rail;
    bool is_found = c->local_port == NULL && c->remote_port == NULL &&
                    diag_find_rail(c, is_so, &rail);

    head_by_fault(is_found ? &rail : c, is_at, out);
}

/* Returns YES if this end of a pair that shares no subnet is the one at fault: its addresses are of
 * the family that is rarer in the mesh, or they alone changed, or it shares a subnet with no other
 * host either. */
static enum diag_known is_odd_at(const struct diag_case *c, enum diag_end end)
{
    enum diag_known odd = diag_is_odd_family_at(c, end);
    bool near = diag_was_renumbered(c->host, c->local_port);
    bool far = diag_was_renumbered(c->peer, c->remote_port);

    if (odd != DIAG_UNKNOWN) {
        return odd;
    }
    return near != far ? diag_known_of(near == (end == DIAG_NEAR))
                       : diag_is_alone_at(c, end);
}

/* Names both ends of the cable between the hosts whose ends have addresses in different subnets, if
 * there is one, whatever ports were used instead. */
static void name_apart(const struct diag_case *c, struct diag_finding *out)
{
    struct diag_case apart = *c;

    if (!diag_find_apart(c, &apart.local_port, &apart.remote_port)) {
        apart = *c;
    }
    head_by_fault(&apart, is_odd_at, out);
}

/* Two ports that have the same address. */
struct owners {
    const char *host, *peer;
    const struct diag_port *port, *other;
    struct io_ip ip;
};

/* Returns the port of `ports` with the address `ip`, or NULL. */
static const struct diag_port *owner_in(struct diag_ports ports, const struct io_ip *ip)
{
    const struct diag_port *items = ports.items;

    for (uint32_t i = 0; i < ports.n; i++) {
        const struct diag_gid *gid = diag_gid_of(&items[i], true, ip);

        if (gid != NULL && gid->prefix_len > 0) {
            return &items[i];
        }
    }
    return NULL;
}

/* Finds another owner of an address that an end of the failure uses. */
static bool find_another(const struct diag_case *c, enum diag_end end,
                         const struct io_ip *ip, struct owners *out)
{
    bool is_near = end == DIAG_NEAR;

    out->host = is_near ? c->host->name : c->peer_name;
    out->ip = *ip;
    out->port = owner_in(is_near ? c->local : c->remote, &out->ip);
    for (uint32_t h = 0; out->port != NULL && h < c->input->n_hosts; h++) {
        out->peer = c->input->hosts[h].name;
        out->other = diag_is_same_machine(out->host, out->peer)
                         ? NULL
                         : owner_in(diag_ports_of(c->input, out->peer), &out->ip);
        if (out->other != NULL) {
            return true;
        }
    }
    return false;
}

/* Finds another owner of any address of the peer, for a failure that names no GID. */
static bool find_anothers_listener(const struct diag_case *c, struct owners *out)
{
    for (uint32_t i = 0; i < c->remote.n; i++) {
        for (uint32_t g = 0; g < c->remote.items[i].n_gids; g++) {
            if (find_another(c, DIAG_FAR, &c->remote.items[i].gids[g].ip, out)) {
                return true;
            }
        }
    }
    return false;
}

static bool find_owners(const struct diag_case *c, struct owners *out)
{
    out->host = c->host->name;
    out->peer = c->peer_name;
    for (uint32_t i = 0; i < c->local.n; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            out->port = &c->local.items[i];
            out->other = &c->remote.items[j];
            if (diag_share_address(out->port, out->other, &out->ip) == DIAG_YES) {
                return true;
            }
        }
    }
    return (c->has_local_gid && find_another(c, DIAG_NEAR, &c->local_gid, out)) ||
           (c->has_remote_gid && find_another(c, DIAG_FAR, &c->remote_gid, out)) ||
           (c->status == WEFT_ERR_AUTH && find_anothers_listener(c, out));
}

/* Places the finding at the two ports with the same address. They can be other ports than those in
 * use, and on other hosts than the two ends. */
static void name_owners(const struct diag_case *c, struct diag_finding *out)
{
    struct owners owners;
    char text[IO_IP_TEXT_BYTES];

    if ((c->local_port != NULL && c->remote_port != NULL &&
         diag_share_address(c->local_port, c->remote_port, NULL) == DIAG_YES) ||
        !find_owners(c, &owners)) {
        return;
    }
    diag_describe_at(c, owners.host, owners.port->name, owners.peer, out);
    diag_evidence_text(out, "address", io_ip_format(&owners.ip, text, sizeof(text)));
    diag_evidence_text(out, "local_port", owners.port->name);
    diag_evidence_text(out, "remote_port", owners.other->name);
}

/* Names the device that failed, and the ports of the cable that the program would have used. */
static void name_gone_way(const struct diag_case *gone, const struct diag_case *c,
                          struct diag_finding *out)
{
    diag_describe_at(c, gone->host->name, gone->local_port->name, gone->peer_name, out);
    diag_evidence_text(out, "local_port", gone->local_port->name);
    diag_evidence_text(out, "remote_port", gone->remote_port->name);
}

/* Places the finding at the host without a management network. The ports of the cables do not
 * matter. */
static void name_off_management(const struct diag_case *c, struct diag_finding *out)
{
    diag_describe_at(c, diag_host_off_management(c)->name, "", "", out);
    diag_evidence_text(out, "failed_at", c->host->name);
}

/* Names the only two ports of which one finds the other in its subnet, and not the other way
 * round. */
static void name_one_way(const struct diag_case *c, struct diag_finding *out)
{
    struct diag_case headed = *c;
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->local.n; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            if (diag_facing_one_way(&c->local.items[i], &c->remote.items[j]) ==
                DIAG_YES) {
                headed.local_port = &c->local.items[i];
                headed.remote_port = &c->remote.items[j];
                n++;
            }
        }
    }
    if (n == 1) {
        diag_describe(&headed, out);
    }
}

/* Names the host that came too late instead of one behind it. */
static void name_latecomer(const struct diag_case *c, struct diag_finding *out)
{
    struct diag_case late;

    if (diag_find_latecomer(c, &late)) {
        diag_describe(&late, out);
    }
}

/* Names the first port with carrier and without an address, if the host could not listen. */
static void name_bare(const struct diag_case *c, struct diag_finding *out)
{
    struct diag_case bare = *c;

    for (uint32_t i = 0; i < c->local.n && bare.local_port == NULL; i++) {
        if (diag_is_bare(&c->local.items[i]) == DIAG_YES) {
            bare.local_port = &c->local.items[i];
        }
    }
    diag_describe(&bare, out);
}

/* Names the first port whose addresses changed, if no port is known: of this host, if it could not
 * start a connection, otherwise of the host that it called. */
static void name_renumbered(const struct diag_case *c, struct diag_finding *out)
{
    const struct diag_entry *entry = out->entry;
    struct diag_case changed =
        c->sys_errno == EADDRNOTAVAIL || c->peer == NULL ? *c : diag_case_from_far(c);

    for (uint32_t i = 0; i < changed.local.n && changed.local_port == NULL; i++) {
        if (diag_was_renumbered(changed.host, &changed.local.items[i])) {
            changed.local_port = &changed.local.items[i];
        }
    }
    *out = (struct diag_finding){.entry = entry};
    diag_describe(&changed, out);
}

/* Names the first two ports that face each other although their cables lead elsewhere, if a stream
 * between the hosts failed and no port is known. Returns false otherwise. */
static bool name_misled(const struct diag_case *c, struct diag_finding *out)
{
    struct diag_case misled = *c;
    bool is_misled = c->local_port == NULL && c->remote_port == NULL &&
                     diag_find_misled(c, &misled.local_port, &misled.remote_port);

    if (is_misled) {
        diag_describe(&misled, out);
    }
    return is_misled;
}

/* Names the port whose MTU was taken for that of the port in use. Returns false if none was. */
static bool name_narrow(const struct diag_case *c, struct diag_finding *out)
{
    struct diag_case narrow;

    if (diag_is_mtu_mismatch(c) == DIAG_YES ||
        diag_is_mtu_of_another_port(c) != DIAG_YES ||
        diag_find_narrow_port(c, &narrow) != DIAG_YES) {
        return false;
    }
    diag_describe_at(c, narrow.host->name, narrow.local_port->name, narrow.peer_name,
                     out);
    diag_evidence_int(out, "wc_status", c->wc_status);
    diag_evidence_text(out, "local_port", narrow.local_port->name);
    diag_evidence_int(out, "local_mtu", narrow.local_port->netdev_mtu);
    diag_evidence_text(out, "remote_port", narrow.remote_port->name);
    diag_evidence_int(out, "remote_mtu", narrow.remote_port->netdev_mtu);
    return true;
}

void diag_place(const struct diag_case *c, struct diag_finding *out)
{
    const struct diag_port *local, *remote;
    struct diag_case gone;

    if (out->entry->id == DIAG_DEVICE_FAILED &&
        diag_find_gone_way(c, &gone) == DIAG_YES) {
        name_gone_way(&gone, c, out);
    } else if (out->entry->id == DIAG_LINK_DOWN && c->local_port != NULL &&
               diag_find_only_way_down(c, &local, &remote)) {
        name_only_way(c, local, remote, out);
    } else if (out->entry->id == DIAG_LINK_DOWN && diag_name_dark(c, out)) {
        return;
    } else if (out->entry->id == DIAG_PEER_DEADLOCK) {
        diag_name_circle(c, out);
    } else if (out->entry->id == DIAG_HOST_MANAGEMENT_DOWN) {
        name_off_management(c, out);
    } else if (out->entry->id == DIAG_ADDR_PREFIX_MISMATCH) {
        name_one_way(c, out);
    } else if (out->entry->id == DIAG_LINK_MTU_MISMATCH && name_narrow(c, out)) {
        return;
    } else if (out->entry->id == DIAG_ADDR_MISSING && c->phase == WEFT_PHASE_LISTEN) {
        name_bare(c, out);
    } else if (out->entry->id == DIAG_ADDR_CHANGED &&
               (c->phase == WEFT_PHASE_TCP ||
                (c->local_port == NULL && c->remote_port == NULL))) {
        name_renumbered(c, out);
    } else if (out->entry->id == DIAG_PEER_LATE) {
        name_latecomer(c, out);
    } else if (out->entry->id == DIAG_CONN_FILTERED) {
        place_at_caller(c, ETIMEDOUT, out);
    } else if (out->entry->id == DIAG_CONN_NO_ROUTE) {
        place_at_caller(c, ENETUNREACH, out);
    } else if (out->entry->id == DIAG_NEIGH_ARP_IGNORED) {
        turn_to_peer(c, diag_arp_ignored_at, out);
    } else if (out->entry->id == DIAG_LINK_CORRUPTING ||
               out->entry->id == DIAG_LINK_VLAN_MISMATCH ||
               out->entry->id == DIAG_LINK_ONE_WAY || out->entry->id == DIAG_LINK_LOSSY) {
        name_rail(c, out);
    } else if (out->entry->id == DIAG_ROUTE_FORWARD_OFF ||
               out->entry->id == DIAG_ROUTE_FORWARD_BLOCKED) {
        diag_evidence_text(out, "over", diag_host_between(c)->name);
    } else if (out->entry->id == DIAG_GID_STALE_INDEX) {
        name_slots(c, out);
    } else if (out->entry->id == DIAG_ADDR_DUPLICATE) {
        name_owners(c, out);
    } else if (out->entry->id == DIAG_ROUTE_NO_FACING_PORT) {
        name_apart(c, out);
    } else if (out->entry->id == DIAG_NEIGH_NO_ANSWER && name_misled(c, out)) {
        return;
    } else if (out->entry->id == DIAG_LINK_PAUSE_STORM) {
        head_rail_by_fault(c, diag_is_held, diag_pauses_other_at, out);
    } else if (out->entry->id == DIAG_LINK_DOWN && c->is_left_out &&
               c->local_port == NULL && c->remote_port == NULL) {
        head_rail_by_fault(c, diag_is_link_down, diag_link_down_at, out);
    } else if (out->entry->id == DIAG_LINK_FLAPPING) {
        head_rail_by_fault(c, diag_is_flapping, diag_flapping_at, out);
    } else if (out->entry->id == DIAG_LINK_DOWN && c->status == WEFT_ERR_ROUTE &&
               c->phase == WEFT_PHASE_ROUTE && diag_is_cut_off(c) == DIAG_YES) {
        name_cut_off(c, out);
    } else if (out->entry->id == DIAG_LINK_DOWN && c->local_port == NULL &&
               c->remote_port == NULL && diag_name_severed(c, out)) {
        return;
    } else if (end_test_of(out->entry->id) != NULL) {
        head_by_fault(c, end_test_of(out->entry->id), out);
        name_dropper(c, out);
    } else if (out->entry->place == DIAG_AT_PORTS) {
        name_facing(c, out);
    }
}
