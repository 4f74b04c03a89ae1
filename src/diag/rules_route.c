/* Rules about the choice of ports, addresses and GIDs. */
#include <errno.h>
#include <string.h>

#include "diag/private.h"

/* Prefix length with which NCCL 2.30 compares IPv6 addresses. */
#define COARSE_V6 64

bool diag_is_link_local_cable(const struct diag_case *c)
{
    return diag_is_default_gid(c->has_local_gid, &c->local_gid) == DIAG_YES &&
           diag_is_default_gid(c->has_remote_gid, &c->remote_gid) == DIAG_YES &&
           diag_are_ends_joined(c) == DIAG_YES;
}

static enum diag_known same_subnet(const struct diag_case *c)
{
    if (diag_is_link_local_cable(c)) {
        return DIAG_YES; /* fe80::/64 of the cable */
    }
    return c->has_remote_gid ? diag_faces(c->local_port, &c->remote_gid) : DIAG_UNKNOWN;
}

static enum diag_known another_faces(const struct diag_case *c)
{
    return c->has_remote_gid && c->local_port != NULL
               ? diag_any_faces(c->local, c->local_port, &c->remote_gid)
               : DIAG_UNKNOWN;
}

bool diag_way_works(const struct diag_case *c)
{
    return diag_number(c, WEFT_VALUE_SMALL_PASSED) == 1;
}

/* ---- a port that does not face the peer, although others do ---- */

static enum diag_known is_wrong(const struct diag_case *c)
{
    enum diag_known same = same_subnet(c);
    enum diag_known other = another_faces(c);
    enum diag_known any = diag_any_facing(c->local, c->remote);

    if (diag_way_works(c) || same == DIAG_YES) {
        return DIAG_NO;
    }
    return diag_and(diag_not(same), diag_or(other, any));
}

bool diag_find_only_way_down(const struct diag_case *c,
                             const struct diag_port **out_local,
                             const struct diag_port **out_remote)
{
    bool all_down = is_wrong(c) == DIAG_YES, any = false;

    for (uint32_t i = 0; i < c->local.n && all_down; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            const struct diag_port *a = &c->local.items[i], *b = &c->remote.items[j];

            if (diag_facing(a, b) != DIAG_YES) {
                continue;
            }
            all_down = all_down && (a->is_up == DIAG_NO || b->is_up == DIAG_NO);
            any = true;
            *out_local = a;
            *out_remote = b;
        }
    }
    return any && all_down;
}

/* Returns NO for a host without events that did not report, as every host whose device could have
 * failed does. */
static enum diag_known is_gone(const struct diag_host *host, const struct diag_port *port)
{
    return host != NULL && (host->was_observed || host->has_events || host->n_events > 0)
               ? diag_is_device_gone(host, port->name)
               : DIAG_NO;
}

enum diag_known diag_find_gone_way(const struct diag_case *c, struct diag_case *out)
{
    enum diag_known answer = DIAG_NO;

    for (uint32_t i = 0; i < c->local.n && is_wrong(c) == DIAG_YES; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            const struct diag_port *a = &c->local.items[i], *b = &c->remote.items[j];
            enum diag_known near = is_gone(c->host, a), far = is_gone(c->peer, b);
            enum diag_known is_it = diag_and(diag_facing(a, b), diag_or(near, far));

            answer = diag_or(answer, is_it);
            if (is_it == DIAG_YES) {
                *out = *c;
                out->local_port = a;
                out->remote_port = b;
                *out = near == DIAG_YES ? *out : diag_case_from_far(out);
                return DIAG_YES;
            }
        }
    }
    return answer;
}

/* Returns YES if the program used other ports because the device of one that faces the peer
 * failed. */
enum diag_known diag_is_way_gone(const struct diag_case *c)
{
    struct diag_case ignored;

    return diag_find_gone_way(c, &ignored);
}

enum diag_known diag_are_ends_joined(const struct diag_case *c)
{
    return c->local_port == NULL || c->remote_port == NULL
               ? DIAG_UNKNOWN
               : diag_is_joined(c->input, c->host->name, c->local_port->name,
                                c->peer_name, c->remote_port->name);
}

/* Returns YES if the program used the two ends of one cable, which both have an address, in
 * different subnets. The ports were not the wrong ones then. */
enum diag_known diag_is_cable_apart(const struct diag_case *c)
{
    return diag_known_of(c->local_port != NULL && c->remote_port != NULL &&
                         diag_is_bare(c->local_port) != DIAG_YES &&
                         diag_is_bare(c->remote_port) != DIAG_YES &&
                         is_wrong(c) == DIAG_YES && diag_are_ends_joined(c) == DIAG_YES &&
                         diag_facing(c->local_port, c->remote_port) == DIAG_NO &&
                         diag_faces_one_of(c->local_port, c->remote) == DIAG_NO &&
                         diag_faces_one_of(c->remote_port, c->local) == DIAG_NO);
}

bool diag_find_misled(const struct diag_case *c, const struct diag_port **out_local,
                      const struct diag_port **out_remote)
{
    bool any = false;

    for (uint32_t i = 0; i < c->local.n; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            const struct diag_port *a = &c->local.items[i], *b = &c->remote.items[j];

            if (diag_facing(a, b) != DIAG_YES) {
                continue;
            }
            if (diag_is_joined(c->input, c->host->name, a->name, c->peer_name, b->name) !=
                DIAG_NO) {
                return false;
            }
            *out_local = any ? *out_local : a;
            *out_remote = any ? *out_remote : b;
            any = true;
        }
    }
    return any;
}

enum diag_known diag_is_misled(const struct diag_case *c)
{
    const struct diag_port *local, *remote;
    bool is_over_ports = diag_has_policy(c->host, WEFT_POLICY_WEFT) == DIAG_YES &&
                         (c->phase != WEFT_PHASE_BOOT || diag_is_boot_over_cables(c));

    return diag_known_of(is_over_ports && diag_find_misled(c, &local, &remote));
}

/* Returns YES if the program used other ports because no cable of the two hosts has carrier. */
enum diag_known diag_is_only_way_down(const struct diag_case *c)
{
    const struct diag_port *local, *remote;

    return diag_known_of(diag_find_only_way_down(c, &local, &remote));
}

static enum diag_known is_subnet_aware(const struct diag_case *c)
{
    return diag_has_policy(c->host, WEFT_POLICY_NCCL_2_30_SUBNET_AWARE);
}

/* Returns YES if `other` is a different port of the NIC of `port`. */
static enum diag_known is_sibling(const struct diag_port *port,
                                  const struct diag_port *other)
{
    if (strcmp(port->name, other->name) == 0) {
        return DIAG_NO;
    }
    return port->device == IO_UNKNOWN || other->device == IO_UNKNOWN
               ? DIAG_UNKNOWN
               : diag_known_of(port->device == other->device);
}

static enum diag_known has_sibling(struct diag_ports ports, const struct diag_port *port)
{
    enum diag_known answer = port == NULL || ports.n == 0 ? DIAG_UNKNOWN : DIAG_NO;

    for (uint32_t i = 0; port != NULL && i < ports.n; i++) {
        answer = diag_or(answer, is_sibling(port, &ports.items[i]));
    }
    return answer;
}

/* Returns YES if other ports of the two NICs face each other. */
static enum diag_known siblings_face(const struct diag_case *c)
{
    enum diag_known answer = DIAG_NO;

    if (c->local_port == NULL || c->remote_port == NULL) {
        return DIAG_UNKNOWN;
    }
    for (uint32_t i = 0; i < c->local.n; i++) {
        enum diag_known local = is_sibling(c->local_port, &c->local.items[i]);

        for (uint32_t k = 0; local != DIAG_NO && k < c->remote.n; k++) {
            enum diag_known both =
                diag_and(local, is_sibling(c->remote_port, &c->remote.items[k]));

            answer = diag_or(answer, diag_and(both, diag_facing(&c->local.items[i],
                                                                &c->remote.items[k])));
        }
    }
    return answer;
}

/* Returns YES if the wrong port was used because it belongs to a merged NIC. Either another port of
 * that NIC is the right one, or the policy accepts a NIC only if all its ports match. The ports of
 * a NIC with cables to two hosts never do. */
enum diag_known diag_is_merged_nic(const struct diag_case *c)
{
    enum diag_known shares = diag_or(has_sibling(c->local, c->local_port),
                                     has_sibling(c->remote, c->remote_port));
    enum diag_known merged = diag_and(c->host->merges_nics, shares);

    return diag_and(is_wrong(c),
                    diag_and(merged, diag_or(siblings_face(c), is_subnet_aware(c))));
}

/* Returns YES if the policy of `host` merges `port` with other ports of its NIC. */
static enum diag_known is_merged(const struct diag_host *host, struct diag_ports ports,
                                 const struct diag_port *port)
{
    enum diag_known shares = has_sibling(ports, port);
    enum weft_policy policy;

    if (shares != DIAG_YES) {
        return shares;
    }
    if (host == NULL || !weft_policy_parse(host->policy, &policy)) {
        return DIAG_UNKNOWN;
    }
    return diag_and(host->merges_nics, diag_known_of(weft_policy_is_nccl(policy)));
}

/* Returns YES if another port of the NIC of `port` faces `other`. */
static enum diag_known sibling_faces(struct diag_ports ports,
                                     const struct diag_port *port,
                                     const struct diag_port *other)
{
    enum diag_known answer = port == NULL || other == NULL ? DIAG_UNKNOWN : DIAG_NO;

    for (uint32_t i = 0; answer != DIAG_UNKNOWN && i < ports.n; i++) {
        answer = diag_or(answer, diag_and(is_sibling(port, &ports.items[i]),
                                          diag_facing(&ports.items[i], other)));
    }
    return answer;
}

/* Returns YES if only one end merges its NIC, and another port of that NIC faces the other end.
 * Only for connections with several rails, because one with a single rail uses a single port of the
 * NIC. */
enum diag_known diag_is_merged_one_end(const struct diag_case *c)
{
    int64_t n_rails = diag_number(c, WEFT_VALUE_RAILS);
    enum diag_known spreads =
        n_rails == IO_UNKNOWN ? DIAG_UNKNOWN : diag_known_of(n_rails > 1);
    enum diag_known here = is_merged(c->host, c->local, c->local_port);
    enum diag_known there = is_merged(c->peer, c->remote, c->remote_port);
    enum diag_known only_here =
        diag_and(diag_and(here, diag_not(there)),
                 sibling_faces(c->local, c->local_port, c->remote_port));
    enum diag_known only_there =
        diag_and(diag_and(there, diag_not(here)),
                 sibling_faces(c->remote, c->remote_port, c->local_port));

    return diag_and(diag_and(is_wrong(c), spreads), diag_or(only_here, only_there));
}

enum diag_known diag_faces_one_of(const struct diag_port *port, struct diag_ports ports)
{
    enum diag_known answer = port == NULL || ports.n == 0 ? DIAG_UNKNOWN : DIAG_NO;

    for (uint32_t i = 0; port != NULL && i < ports.n; i++) {
        answer = diag_or(answer, diag_facing(port, &ports.items[i]));
    }
    return answer;
}

/* Returns YES if both ports face the right host, but not each other. */
enum diag_known diag_is_crossed_planes(const struct diag_case *c)
{
    return diag_and(is_wrong(c), diag_and(diag_faces_one_of(c->local_port, c->remote),
                                          diag_faces_one_of(c->remote_port, c->local)));
}

static enum diag_known same_coarse_subnet(const struct diag_case *c)
{
    if (!c->has_local_gid || !c->has_remote_gid) {
        return DIAG_UNKNOWN;
    }
    if (c->host->subnet_len < 0 || c->host->subnet_len > 32) {
        return DIAG_UNKNOWN;
    }
    return diag_known_of(io_ip_same_subnet(
        &c->local_gid, &c->remote_gid,
        io_ip_is_v4(&c->local_gid) ? (unsigned)c->host->subnet_len : COARSE_V6));
}

enum diag_known diag_is_prefix_collision(const struct diag_case *c)
{
    return diag_and(is_wrong(c), diag_and(is_subnet_aware(c), same_coarse_subnet(c)));
}

enum diag_known diag_is_listener_blind(const struct diag_case *c)
{
    return diag_and(is_wrong(c), is_subnet_aware(c));
}

enum diag_known diag_is_wrong_nic(const struct diag_case *c)
{
    return diag_and(is_wrong(c), diag_not(is_subnet_aware(c)));
}

/* ---- addresses on several ports ---- */

static bool is_self_assigned(const struct io_ip *ip)
{
    return io_ip_is_v4(ip) && io_ip_is_link_local(ip);
}

static uint32_t count_self_assigned(struct diag_ports ports)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < ports.n; i++) {
        bool has = false;

        for (uint32_t k = 0; k < ports.items[i].n_gids; k++) {
            has = has || is_self_assigned(&ports.items[i].gids[k].ip);
        }
        n += has ? 1 : 0;
    }
    return n;
}

enum diag_known diag_is_link_local_route(const struct diag_case *c)
{
    if (diag_way_works(c)) {
        return DIAG_NO;
    }
    if (!c->has_local_gid || !c->has_remote_gid) {
        return DIAG_UNKNOWN;
    }
    if (!is_self_assigned(&c->local_gid) || !is_self_assigned(&c->remote_gid)) {
        return DIAG_NO;
    }
    if (count_self_assigned(c->local) > 1 || count_self_assigned(c->remote) > 1) {
        return DIAG_YES;
    }
    return c->local.n > 0 && c->remote.n > 0 ? DIAG_NO : DIAG_UNKNOWN;
}

enum diag_known diag_is_gid_collision(const struct diag_case *c)
{
    if (diag_way_works(c) || diag_is_link_local_cable(c)) {
        return DIAG_NO;
    }
    return diag_and(same_subnet(c), another_faces(c));
}

enum diag_known diag_is_anothers(const struct diag_case *c, const struct io_ip *ip,
                                 const char *owner)
{
    enum diag_known answer = DIAG_NO;

    for (uint32_t h = 0; h < c->input->n_hosts; h++) {
        const char *name = c->input->hosts[h].name;
        struct diag_ports ports = diag_ports_of(c->input, name);

        if (diag_is_same_machine(name, owner)) {
            continue;
        }
        answer = ports.n == 0 ? diag_or(answer, DIAG_UNKNOWN) : answer;
        for (uint32_t i = 0; i < ports.n; i++) {
            const struct diag_gid *gid = diag_gid_of(&ports.items[i], true, ip);

            if (!ports.items[i].has_gids || (gid != NULL && gid->prefix_len < 0)) {
                answer = diag_or(answer, DIAG_UNKNOWN);
            } else if (gid != NULL && gid->prefix_len > 0) {
                return DIAG_YES;
            }
        }
    }
    return answer;
}

enum diag_known diag_is_addr_duplicate(const struct diag_case *c)
{
    if (diag_way_works(c)) {
        return DIAG_NO;
    }
    if (!c->has_local_gid || !c->has_remote_gid) {
        return DIAG_UNKNOWN;
    }
    if (io_ip_is_link_local(&c->local_gid) || io_ip_is_link_local(&c->remote_gid)) {
        return DIAG_NO;
    }
    /* If both ends use the same GID, its owner does not matter. */
    const struct diag_gid *local =
        diag_gid_of(c->local_port, c->has_local_gid, &c->local_gid);
    if (local != NULL && local->prefix_len == 0) {
        return DIAG_NO; /* the address belongs to the peer of this port */
    }
    return diag_or(diag_is_anothers(c, &c->local_gid, c->host->name),
                   diag_is_anothers(c, &c->remote_gid, c->peer_name));
}

/* Returns YES if another host has an address of the peer: its listener may have answered. NO if
 * no host but this one is known. */
enum diag_known diag_is_anothers_listener(const struct diag_case *c)
{
    enum diag_known answer =
        c->input->n_hosts > 1 && c->remote.n == 0 ? DIAG_UNKNOWN : DIAG_NO;

    for (uint32_t i = 0; i < c->remote.n; i++) {
        const struct diag_port *port = &c->remote.items[i];

        answer = port->has_gids ? answer : diag_or(answer, DIAG_UNKNOWN);
        for (uint32_t g = 0; g < port->n_gids; g++) {
            if (!io_ip_is_link_local(&port->gids[g].ip)) {
                answer = diag_or(
                    answer, port->gids[g].prefix_len < 0
                                ? DIAG_UNKNOWN
                                : diag_is_anothers(c, &port->gids[g].ip, c->peer_name));
            }
        }
    }
    return answer;
}

/* Returns YES if the two hosts have ports with the same address. */
enum diag_known diag_is_one_address(const struct diag_case *c)
{
    enum diag_known answer = c->local.n == 0 || c->remote.n == 0 ? DIAG_UNKNOWN : DIAG_NO;

    for (uint32_t i = 0; i < c->local.n; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            answer = diag_or(answer, diag_share_address(&c->local.items[i],
                                                        &c->remote.items[j], NULL));
        }
    }
    return answer;
}

/* ---- no port faces the peer ---- */

static enum diag_known none_faces(const struct diag_case *c)
{
    if (diag_way_works(c)) {
        return DIAG_NO;
    }
    return diag_not(diag_any_facing(c->local, c->remote));
}

static enum diag_known any_one_way(const struct diag_case *c)
{
    enum diag_known answer = c->local.n == 0 || c->remote.n == 0 ? DIAG_UNKNOWN : DIAG_NO;

    for (uint32_t i = 0; i < c->local.n; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            answer = diag_or(
                answer, diag_facing_one_way(&c->local.items[i], &c->remote.items[j]));
        }
    }
    return answer;
}

/* Returns YES if no port at that end faces any port of another host, so that the cause is at that
 * end. */
enum diag_known diag_is_alone_at(const struct diag_case *c, enum diag_end end)
{
    const char *name = end == DIAG_NEAR ? c->host->name : c->peer_name;
    struct diag_ports ports = end == DIAG_NEAR ? c->local : c->remote;
    enum diag_known answer = ports.n == 0 ? DIAG_UNKNOWN : DIAG_YES;

    for (uint32_t h = 0; h < c->input->n_hosts; h++) {
        const char *other = c->input->hosts[h].name;

        if (!diag_is_same_machine(other, name)) {
            answer = diag_and(
                answer, diag_not(diag_any_facing(ports, diag_ports_of(c->input, other))));
        }
    }
    return answer;
}

enum diag_known diag_is_prefix_mismatch(const struct diag_case *c)
{
    return diag_and(none_faces(c), any_one_way(c));
}

/* Returns YES if no GID of the port is an address, because its netdev has no address. */
static enum diag_known lacks_address(const struct diag_port *port)
{
    enum diag_known has_any = port == NULL || port->n_addresses == IO_UNKNOWN
                                  ? DIAG_UNKNOWN
                                  : diag_known_of(port->n_addresses > 0);

    return diag_and(diag_not(diag_has_address(port)), diag_not(has_any));
}

/* Returns YES if no GID of the port is an address, although its netdev has one. */
static enum diag_known lacks_gid(const struct diag_port *port)
{
    return diag_and(diag_not(diag_has_address(port)), diag_not(lacks_address(port)));
}

enum diag_known diag_is_bare(const struct diag_port *port)
{
    return diag_and(port->is_up, lacks_address(port));
}

enum diag_known diag_is_without_gid(const struct diag_port *port)
{
    return diag_and(port->is_up, lacks_gid(port));
}

static enum diag_known any_port(struct diag_ports ports, diag_port_test *is_so)
{
    enum diag_known answer = ports.n == 0 ? DIAG_UNKNOWN : DIAG_NO;

    for (uint32_t i = 0; i < ports.n; i++) {
        answer = diag_or(answer, is_so(&ports.items[i]));
    }
    return answer;
}

/* Returns YES if a port of the host has carrier, but no address. */
enum diag_known diag_is_bare_at_all(const struct diag_case *c)
{
    return any_port(c->local, diag_is_bare);
}

/* Returns true if the connection failed before the ends exchanged the GIDs to use (META), or if
 * these no longer matter. */
static bool has_no_gids(const struct diag_case *c)
{
    return c->status == WEFT_ERR_ROUTE || c->phase == WEFT_PHASE_TCP ||
           c->phase == WEFT_PHASE_HELLO || c->phase == WEFT_PHASE_CHALLENGE ||
           c->phase == WEFT_PHASE_AUTH ||
           (c->is_left_out && !c->has_local_gid && !c->has_remote_gid);
}

/* Returns YES if the port at this end was used with its default GID, because of `is_so`. */
static enum diag_known is_taken_so(const struct diag_case *c, enum diag_end end,
                                   diag_port_test *is_so)
{
    if (has_no_gids(c)) {
        return DIAG_NO;
    }
    return end == DIAG_NEAR
               ? diag_and(diag_is_default_gid(c->has_local_gid, &c->local_gid),
                          is_so(c->local_port))
               : diag_and(diag_is_default_gid(c->has_remote_gid, &c->remote_gid),
                          is_so(c->remote_port));
}

static struct diag_ports ports_at(const struct diag_case *c, enum diag_end end)
{
    return end == DIAG_NEAR ? c->local : c->remote;
}

enum diag_known diag_addr_missing_at(const struct diag_case *c, enum diag_end end)
{
    return diag_or(is_taken_so(c, end, lacks_address),
                   diag_and(none_faces(c), any_port(ports_at(c, end), diag_is_bare)));
}

/* Returns YES if the program used the two ends of one cable, one of which has no address. */
enum diag_known diag_is_cable_bare(const struct diag_case *c)
{
    return diag_and(diag_are_ends_joined(c),
                    diag_or(is_taken_so(c, DIAG_NEAR, lacks_address),
                            is_taken_so(c, DIAG_FAR, lacks_address)));
}

enum diag_known diag_gid_lost_at(const struct diag_case *c, enum diag_end end)
{
    return diag_or(
        is_taken_so(c, end, lacks_gid),
        diag_and(none_faces(c), any_port(ports_at(c, end), diag_is_without_gid)));
}

/* Returns YES if a port at either end has an address but no GID of it. */
enum diag_known diag_is_gid_lost(const struct diag_case *c)
{
    if (diag_way_works(c)) {
        return DIAG_NO;
    }
    return diag_or(diag_gid_lost_at(c, DIAG_NEAR), diag_gid_lost_at(c, DIAG_FAR));
}

enum diag_known diag_is_addr_missing(const struct diag_case *c)
{
    if (diag_way_works(c)) {
        return DIAG_NO;
    }
    return diag_or(diag_addr_missing_at(c, DIAG_NEAR), diag_addr_missing_at(c, DIAG_FAR));
}

/* Returns YES if each of `ports` faces a host that is neither end. */
static enum diag_known all_elsewhere(const struct diag_case *c, struct diag_ports ports)
{
    enum diag_known answer = ports.n == 0 ? DIAG_UNKNOWN : DIAG_YES;

    for (uint32_t i = 0; i < ports.n; i++) {
        enum diag_known faces = DIAG_NO;

        for (uint32_t h = 0; h < c->input->n_hosts; h++) {
            const char *name = c->input->hosts[h].name;

            if (!diag_is_same_machine(name, c->host->name) &&
                !diag_is_same_machine(name, c->peer_name)) {
                faces = diag_or(faces, diag_faces_one_of(&ports.items[i],
                                                         diag_ports_of(c->input, name)));
            }
        }
        answer = diag_and(answer, faces);
    }
    return answer;
}

enum diag_known diag_is_no_cable(const struct diag_case *c)
{
    return diag_and(none_faces(c),
                    diag_and(all_elsewhere(c, c->local), all_elsewhere(c, c->remote)));
}

/* Returns YES if the two hosts share no cable, and another order of the ranks needs no such
 * pair. */
enum diag_known diag_is_rank_order(const struct diag_case *c)
{
    const struct diag_rank_order *order = &c->input->rank_order;
    enum diag_known is_better = DIAG_UNKNOWN;

    if (diag_has_policy(c->host, WEFT_POLICY_WEFT) == DIAG_YES) {
        return DIAG_NO; /* it places its rings on cables in any rank order */
    }
    if (order->is_known) {
        is_better = diag_known_of(order->missing > 0 && order->better_missing == 0);
    }
    return diag_and(diag_is_no_cable(c), is_better);
}

/* Returns YES if all ports at that end, at least one, have no carrier. */
enum diag_known diag_is_cut_off_at(const struct diag_case *c, enum diag_end end)
{
    const struct diag_host *host = end == DIAG_NEAR ? c->host : c->peer;
    struct diag_ports ports = ports_at(c, end);
    enum diag_known answer = ports.n == 0 ? DIAG_UNKNOWN : DIAG_YES;

    for (uint32_t i = 0; i < ports.n; i++) {
        answer = diag_and(answer, diag_and(diag_was_down(host, &ports.items[i]),
                                           diag_not(ports.items[i].is_up)));
    }
    return answer;
}

/* Returns YES if relays could join the two hosts, which share no cable, if one of them had a port
 * with carrier. */
enum diag_known diag_is_cut_off(const struct diag_case *c)
{
    enum diag_known relays = diag_has_policy(c->host, WEFT_POLICY_WEFT);
    enum diag_known is_dark =
        diag_or(diag_is_cut_off_at(c, DIAG_NEAR), diag_is_cut_off_at(c, DIAG_FAR));

    return diag_and(relays, diag_and(none_faces(c), is_dark));
}

enum diag_known diag_is_no_facing_port(const struct diag_case *c)
{
    enum diag_known any = diag_any_facing(c->local, c->remote);

    if (any == DIAG_YES || diag_way_works(c) || same_subnet(c) == DIAG_YES ||
        another_faces(c) == DIAG_YES) {
        return DIAG_NO;
    }
    return any == DIAG_NO ? DIAG_YES : DIAG_UNKNOWN;
}

/* ---- the addresses are right ---- */

/* Returns YES if both GIDs belong to one address family, so that a mix of families is not why
 * modify_qp failed. */
enum diag_known diag_is_one_family(const struct diag_case *c)
{
    return c->has_local_gid && c->has_remote_gid
               ? diag_known_of(io_ip_is_v4(&c->local_gid) == io_ip_is_v4(&c->remote_gid))
               : DIAG_UNKNOWN;
}

/* Returns YES if the address is in the subnet of the port used. Must be the last rule, because it
 * assumes that the carrier is up and that no other cause applies. */
enum diag_known diag_is_no_answer(const struct diag_case *c)
{
    /* The reporting end does not know which port of a merged NIC failed. */
    if (c->is_turned &&
        diag_and(c->host->merges_nics, has_sibling(c->local, c->local_port)) != DIAG_NO) {
        return DIAG_UNKNOWN;
    }
    return same_subnet(c) == DIAG_YES ? DIAG_YES : DIAG_UNKNOWN;
}

/* Returns true if the peer is known to have no port with this address. */
static bool is_gone_there(const struct diag_case *c, const struct io_ip *ip)
{
    for (uint32_t i = 0; i < c->remote.n; i++) {
        const struct diag_port *port = &c->remote.items[i];

        if (!port->has_gids || diag_may_lack_addresses(port) ||
            diag_gid_of(port, true, ip) != NULL) {
            return false;
        }
    }
    return c->remote.n > 0;
}

/* Returns true if the peer has none of the addresses any more by which this host could call it. */
static bool is_called_in_vain(const struct diag_case *c)
{
    bool any = false;

    for (unsigned i = 0; i < WEFT_VALUE_ADDRESSES; i++) {
        const char *text = diag_text(c, weft_value_remote_address(i));
        struct io_prefix prefix;

        if (text == NULL || !io_prefix_parse(text, &prefix) ||
            diag_any_faces(c->local, NULL, &prefix.ip) == DIAG_NO) {
            continue;
        }
        if (!is_gone_there(c, &prefix.ip)) {
            return false;
        }
        any = true;
    }
    return any;
}

bool diag_is_unaddressed(const struct diag_case *c)
{
    return c->phase == WEFT_PHASE_TCP && diag_number(c, WEFT_VALUE_WAYS) == 1 &&
           diag_has_policy(c->host, WEFT_POLICY_WEFT) == DIAG_YES &&
           (diag_any_facing(c->local, c->remote) == DIAG_NO || is_called_in_vain(c));
}

/* Returns YES if addresses changed during the run: of this host, if it could not start a
 * connection, otherwise of the host that it called. */
enum diag_known diag_is_renumbered(const struct diag_case *c)
{
    bool is_near = c->sys_errno == EADDRNOTAVAIL;
    const struct diag_host *host = is_near ? c->host : c->peer;

    if (diag_was_renumbered(host, is_near ? c->local_port : c->remote_port)) {
        return DIAG_YES;
    }
    return host != NULL && host->has_events ? DIAG_NO : DIAG_UNKNOWN;
}

/* ---- policy weft found no rail: why was none of the possible pairs of ports usable? ---- */

/* Returns YES if ports face each other and one of any such pair is down. Does not require that all
 * pairs are down. */
enum diag_known diag_is_facing_down(const struct diag_case *c)
{
    enum diag_known answer = DIAG_NO;

    for (uint32_t i = 0; i < c->local.n; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            const struct diag_port *a = &c->local.items[i];
            const struct diag_port *b = &c->remote.items[j];

            if (diag_facing(a, b) == DIAG_YES) {
                answer = diag_or(answer, diag_or(diag_was_down(c->host, a),
                                                 diag_was_down(c->peer, b)));
            }
        }
    }
    return diag_any_facing(c->local, c->remote) == DIAG_UNKNOWN ? DIAG_UNKNOWN : answer;
}

static enum diag_known has_v2(const struct diag_port *port)
{
    enum diag_known answer;

    if (!port->has_gids) {
        return DIAG_UNKNOWN;
    }
    answer = diag_may_lack_addresses(port) ? DIAG_UNKNOWN : DIAG_NO;
    for (uint32_t i = 0; i < port->n_gids; i++) {
        const struct diag_gid *gid = &port->gids[i];

        if (gid->type == 2 && gid->prefix_len > 0) {
            return DIAG_YES;
        }
        if (gid->type == 0 || gid->prefix_len == IO_UNKNOWN) {
            answer = DIAG_UNKNOWN;
        }
    }
    return answer;
}

/* Returns YES if ports face each other, and no such pair has RoCE v2 GIDs of addresses at both
 * ends. */
enum diag_known diag_is_facing_without_v2(const struct diag_case *c)
{
    enum diag_known answer = diag_any_facing(c->local, c->remote);

    for (uint32_t i = 0; i < c->local.n; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            const struct diag_port *a = &c->local.items[i];
            const struct diag_port *b = &c->remote.items[j];
            enum diag_known both = diag_and(has_v2(a), has_v2(b));

            if (diag_facing(a, b) != DIAG_YES) {
                continue;
            }
            if (both == DIAG_YES) {
                return DIAG_NO;
            }
            answer = both == DIAG_UNKNOWN ? DIAG_UNKNOWN : answer;
        }
    }
    return answer;
}
