/* Rules about GIDs: which GID was used, and which address it belongs to. */
#include <string.h>

#include "diag/private.h"

/* One end of a case, as the rules of this file need it. */
struct side {
    const struct diag_host *host; /* NULL if not in the input */
    const char *name;
    const struct diag_port *port; /* NULL if unknown */
    bool has_gid;
    const struct io_ip *gid;
};

static struct side side_of(const struct diag_case *c, enum diag_end end)
{
    return end == DIAG_NEAR ? (struct side){c->host, c->host->name, c->local_port,
                                            c->has_local_gid, &c->local_gid}
                            : (struct side){c->peer, c->peer_name, c->remote_port,
                                            c->has_remote_gid, &c->remote_gid};
}

static enum diag_end other_than(enum diag_end end)
{
    return end == DIAG_NEAR ? DIAG_FAR : DIAG_NEAR;
}

/* Returns YES if the GID slot that the host's settings select is empty on this port. */
static enum diag_known lacks_index(const struct diag_host *host,
                                   const struct diag_port *port)
{
    enum diag_known answer = DIAG_YES;

    if (host == NULL || host->gid_index == IO_UNKNOWN) {
        return DIAG_UNKNOWN;
    }
    if (host->gid_index == DIAG_NO_GID_INDEX) {
        return DIAG_NO;
    }
    if (port == NULL || !port->has_gids) {
        return DIAG_UNKNOWN;
    }
    if (diag_may_lack_gids(port)) {
        answer = DIAG_UNKNOWN;
    }
    for (uint32_t i = 0; i < port->n_gids; i++) {
        int index = port->gids[i].index;

        answer = diag_and(answer, index == IO_UNKNOWN
                                      ? DIAG_UNKNOWN
                                      : diag_known_of(index != host->gid_index));
    }
    return answer;
}

/* Returns YES if the GID in use is in the slot that the host's settings select. Checks all entries,
 * because a table contains a GID twice, once per RoCE version. */
static enum diag_known is_of_fixed_slot(const struct side *side)
{
    enum diag_known answer;

    if (side->host == NULL || side->host->gid_index == IO_UNKNOWN) {
        return DIAG_UNKNOWN;
    }
    if (side->host->gid_index == DIAG_NO_GID_INDEX) {
        return DIAG_NO;
    }
    if (side->port == NULL || !side->port->has_gids || !side->has_gid) {
        return DIAG_UNKNOWN;
    }
    answer = diag_may_lack_gids(side->port) ? DIAG_UNKNOWN : DIAG_NO;
    for (uint32_t i = 0; i < side->port->n_gids; i++) {
        const struct diag_gid *at = &side->port->gids[i];

        if (io_ip_equal(&at->ip, side->gid)) {
            answer =
                diag_or(answer, at->index == IO_UNKNOWN
                                    ? DIAG_UNKNOWN
                                    : diag_known_of(at->index == side->host->gid_index));
        }
    }
    return answer;
}

/* Returns YES if the GID is an address neither of the port nor of another host. It then belongs to
 * another network namespace of this host. */
static enum diag_known is_foreign(const struct diag_case *c, const struct side *side)
{
    const struct diag_gid *gid = diag_gid_of(side->port, side->has_gid, side->gid);

    if (gid == NULL || gid->prefix_len == IO_UNKNOWN) {
        return DIAG_UNKNOWN;
    }
    if (gid->prefix_len > 0 || io_ip_is_link_local(&gid->ip)) {
        return DIAG_NO;
    }
    return diag_not(diag_is_anothers(c, &gid->ip, side->name));
}

/* Returns YES if the port has a GID of that family that is an address of its netdev and not
 * link-local. */
static enum diag_known has_family(const struct diag_port *port, bool is_v4)
{
    enum diag_known answer;

    if (port == NULL || !port->has_gids) {
        return DIAG_UNKNOWN;
    }
    answer = diag_may_lack_addresses(port) ? DIAG_UNKNOWN : DIAG_NO;
    for (uint32_t i = 0; i < port->n_gids; i++) {
        const struct diag_gid *gid = &port->gids[i];

        if (io_ip_is_link_local(&gid->ip) || io_ip_is_v4(&gid->ip) != is_v4) {
            continue;
        }
        answer = diag_or(answer, gid->prefix_len == IO_UNKNOWN
                                     ? DIAG_UNKNOWN
                                     : diag_known_of(gid->prefix_len > 0));
    }
    return answer;
}

enum diag_known diag_has_peers_only(const struct diag_port *port)
{
    enum diag_known any;

    if (port == NULL || !port->has_gids) {
        return DIAG_UNKNOWN;
    }
    any = diag_may_lack_gids(port) ? DIAG_UNKNOWN : DIAG_NO;
    for (uint32_t i = 0; i < port->n_gids; i++) {
        const struct diag_gid *gid = &port->gids[i];

        if (io_ip_is_v4(&gid->ip)) {
            any = diag_or(any, gid->prefix_len == IO_UNKNOWN
                                   ? DIAG_UNKNOWN
                                   : diag_known_of(gid->prefix_len == 0));
        }
    }
    return diag_and(any, diag_not(has_family(port, true)));
}

/* Returns YES if the GID in use is an IPv4 address of another host, which the port's own address
 * names as its peer. If both ends name each other like this, no table contains an address of
 * either. */
enum diag_known diag_is_peer_address(const struct diag_case *c)
{
    if (diag_way_works(c) || (c->has_local_gid && !io_ip_is_v4(&c->local_gid))) {
        return DIAG_NO;
    }
    const struct diag_gid *gid =
        diag_gid_of(c->local_port, c->has_local_gid, &c->local_gid);
    if (gid == NULL || gid->prefix_len == IO_UNKNOWN) {
        return DIAG_UNKNOWN;
    }
    if (gid->prefix_len > 0) {
        return DIAG_NO;
    }
    return diag_or(diag_is_anothers(c, &c->local_gid, c->host->name),
                   diag_and(diag_has_peers_only(c->local_port),
                            diag_has_peers_only(c->remote_port)));
}

/* Returns YES if the GIDs of both ends differ in their family, and this port has an address of the
 * other end's family. If both ends have IPv4 addresses, the IPv6 end is the wrong one, because
 * programs prefer IPv4. */
static enum diag_known is_of_other_family(const struct side *side,
                                          const struct side *other)
{
    enum diag_known could;
    bool is_v4;

    if (!side->has_gid || !other->has_gid) {
        return DIAG_UNKNOWN;
    }
    is_v4 = io_ip_is_v4(side->gid);
    if (is_v4 == io_ip_is_v4(other->gid) || io_ip_is_link_local(side->gid) ||
        io_ip_is_link_local(other->gid)) {
        return DIAG_NO;
    }
    could = has_family(side->port, !is_v4);
    return is_v4 ? diag_and(could, diag_not(has_family(other->port, true))) : could;
}

enum diag_known diag_fixed_index_at(const struct diag_case *c, enum diag_end end)
{
    struct side side = side_of(c, end), other = side_of(c, other_than(end));

    return diag_or(
        lacks_index(side.host, side.port),
        diag_and(is_of_fixed_slot(&side),
                 diag_or(is_foreign(c, &side), is_of_other_family(&side, &other))));
}

enum diag_known diag_is_fixed_index(const struct diag_case *c)
{
    if (diag_way_works(c)) {
        return DIAG_NO;
    }
    return diag_or(diag_fixed_index_at(c, DIAG_NEAR), diag_fixed_index_at(c, DIAG_FAR));
}

enum diag_known diag_gid_link_local_at(const struct diag_case *c, enum diag_end end)
{
    struct side side = side_of(c, end);

    return diag_and(diag_is_default_gid(side.has_gid, side.gid),
                    has_family(side.port, true));
}

enum diag_known diag_is_gid_link_local(const struct diag_case *c)
{
    if (diag_way_works(c) || diag_is_link_local_cable(c)) {
        return DIAG_NO;
    }
    return diag_or(diag_gid_link_local_at(c, DIAG_NEAR),
                   diag_gid_link_local_at(c, DIAG_FAR));
}

static enum diag_known only_v6(const struct diag_port *port)
{
    return diag_and(has_family(port, false), diag_not(has_family(port, true)));
}

enum diag_known diag_no_ipv4_at(const struct diag_case *c, enum diag_end end)
{
    struct side side = side_of(c, end);

    return diag_and(diag_is_default_gid(side.has_gid, side.gid), only_v6(side.port));
}

enum diag_known diag_is_no_ipv4(const struct diag_case *c)
{
    if (diag_way_works(c) || diag_is_link_local_cable(c)) {
        return DIAG_NO;
    }
    return diag_or(diag_no_ipv4_at(c, DIAG_NEAR), diag_no_ipv4_at(c, DIAG_FAR));
}

static enum diag_known only_v4(const struct diag_port *port)
{
    return diag_and(has_family(port, true), diag_not(has_family(port, false)));
}

static uint32_t count(const struct diag_input *input, diag_port_test *is_so)
{
    uint32_t n = 0;

    for (uint32_t h = 0; h < input->n_hosts; h++) {
        for (uint32_t i = 0; i < input->hosts[h].n_ports; i++) {
            n += is_so(&input->hosts[h].ports[i]) == DIAG_YES;
        }
    }
    return n;
}

enum diag_known diag_is_odd_family_at(const struct diag_case *c, enum diag_end end)
{
    struct side side = side_of(c, end), other = side_of(c, other_than(end));
    bool is_v4 = only_v4(side.port) == DIAG_YES && only_v6(other.port) == DIAG_YES;
    bool is_v6 = only_v6(side.port) == DIAG_YES && only_v4(other.port) == DIAG_YES;

    if (!is_v4 && !is_v6) {
        return DIAG_UNKNOWN;
    }
    /* Programs prefer IPv4. */
    return diag_known_of(is_v4 == (count(c->input, only_v4) < count(c->input, only_v6)));
}

enum diag_known diag_find_index(const struct diag_port *port, bool has_gid,
                                const struct io_ip *gid, const char *type,
                                int64_t *out_index)
{
    enum diag_known answer = DIAG_NO;

    *out_index = IO_UNKNOWN;
    if (port == NULL || !port->has_gids || !has_gid || type == NULL) {
        return DIAG_UNKNOWN;
    }
    for (uint32_t i = 0; i < port->n_gids; i++) {
        const struct diag_gid *at = &port->gids[i];

        if (!io_ip_equal(&at->ip, gid)) {
            continue;
        }
        if (at->type == 0 || at->index == IO_UNKNOWN) {
            return DIAG_UNKNOWN;
        }
        if (strcmp(type, at->type == 1 ? "RoCE v1" : "RoCE v2") == 0) {
            *out_index = at->index;
            answer = DIAG_YES;
        }
    }
    return answer == DIAG_NO && diag_may_lack_gids(port) ? DIAG_UNKNOWN : answer;
}

/* Returns YES if the GID is now in a slot other than `kept`, which the connection stored. */
static enum diag_known has_moved(const struct diag_port *port, bool has_gid,
                                 const struct io_ip *gid, const char *type, int64_t kept)
{
    int64_t index;
    enum diag_known is_there = diag_find_index(port, has_gid, gid, type, &index);

    return is_there == DIAG_YES && kept == IO_UNKNOWN
               ? DIAG_UNKNOWN
               : diag_and(is_there, diag_known_of(index != kept));
}

enum diag_known diag_is_stale_index(const struct diag_case *c)
{
    return diag_or(has_moved(c->local_port, c->has_local_gid, &c->local_gid,
                             c->local_type, diag_number(c, WEFT_VALUE_LOCAL_KEPT_INDEX)),
                   has_moved(c->remote_port, c->has_remote_gid, &c->remote_gid,
                             c->remote_type,
                             diag_number(c, WEFT_VALUE_REMOTE_KEPT_INDEX)));
}
