/* Causes that lie in GIDs: which one was taken, and what is behind it. */
#include <string.h>

#include "diag/private.h"

enum diag_known diag_is_default_gid(bool has_gid, const struct io_ip *ip)
{
    return has_gid ? diag_known_of(ip->bytes[0] == 0xfe && ip->bytes[1] == 0x80)
                   : DIAG_UNKNOWN;
}

/* An IPv4 GID without an address behind it: the address has a peer, whose GID it is. */
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
    return gid->prefix_len == 0 ? DIAG_YES : DIAG_NO;
}

/* The slot that the host's settings name is empty in this port's table. */
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
    if (port == NULL || !port->has_gids || port->n_gids >= DIAG_TOLD_GIDS_MAX) {
        return DIAG_UNKNOWN;
    }
    for (uint32_t i = 0; i < port->n_gids; i++) {
        int index = port->gids[i].index;

        answer = diag_and(answer, index == IO_UNKNOWN
                                      ? DIAG_UNKNOWN
                                      : diag_known_of(index != host->gid_index));
    }
    return answer;
}

enum diag_known diag_is_fixed_index(const struct diag_case *c)
{
    if (diag_way_works(c)) {
        return DIAG_NO;
    }
    return diag_or(lacks_index(c->host, c->local_port),
                   lacks_index(c->peer, c->remote_port));
}

/* Has the port an address of that family, beyond link-local ones? */
static enum diag_known has_family(const struct diag_port *port, bool is_v4)
{
    enum diag_known answer = DIAG_NO;

    if (port == NULL || !port->has_gids) {
        return DIAG_UNKNOWN;
    }
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

enum diag_known diag_is_gid_link_local(const struct diag_case *c)
{
    if (diag_way_works(c)) {
        return DIAG_NO;
    }
    return diag_or(diag_and(diag_is_default_gid(c->has_local_gid, &c->local_gid),
                            has_family(c->local_port, true)),
                   diag_and(diag_is_default_gid(c->has_remote_gid, &c->remote_gid),
                            has_family(c->remote_port, true)));
}

static enum diag_known only_v6(const struct diag_port *port)
{
    return diag_and(has_family(port, false), diag_not(has_family(port, true)));
}

enum diag_known diag_is_no_ipv4(const struct diag_case *c)
{
    if (diag_way_works(c)) {
        return DIAG_NO;
    }
    return diag_or(diag_and(diag_is_default_gid(c->has_local_gid, &c->local_gid),
                            only_v6(c->local_port)),
                   diag_and(diag_is_default_gid(c->has_remote_gid, &c->remote_gid),
                            only_v6(c->remote_port)));
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
    return answer == DIAG_NO && port->n_gids >= DIAG_TOLD_GIDS_MAX ? DIAG_UNKNOWN
                                                                   : answer;
}

/* The GID is in another slot than that which was kept. */
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
                             c->local_type, diag_number(c, "local_kept_index")),
                   has_moved(c->remote_port, c->has_remote_gid, &c->remote_gid,
                             c->remote_type, diag_number(c, "remote_kept_index")));
}
