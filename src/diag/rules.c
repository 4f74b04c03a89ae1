/* The rules. Each hypothesis answers yes, no or unknown from positive evidence only. They are
 * asked in order: a yes counts once everything before it is a no; the first unknown on the way
 * makes the answer `undetermined`, with what is still possible as candidates. So evidence that
 * is missing can cost the answer, but never turn it into a wrong one. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "diag/private.h"

/* Of enum ibv_wc_status: IBV_WC_RETRY_EXC_ERR, "transport retry counter exceeded". */
#define RETRY_EXC 12
/* IBV_WC_WR_FLUSH_ERR and IBV_WC_LOC_QP_OP_ERR: what rdma_rxe completes with when its own
 * netdev goes down; the latter was seen on Linux 6.1. */
#define WR_FLUSH 5
#define LOC_QP_OP 2
/* IPv4 20, UDP 8, BTH 12, RETH 16, ICRC 4: what a full packet adds to the path MTU. */
#define PACKET_OVERHEAD 60

struct hypothesis {
    enum diag_code code;
    enum diag_known (*test)(const struct diag_case *c);
};

/* ---- hypotheses ---- */

static enum diag_known same_subnet(const struct diag_case *c)
{
    return c->has_remote_gid ? diag_faces(c->local_port, &c->remote_gid) : DIAG_UNKNOWN;
}

static enum diag_known another_faces(const struct diag_case *c)
{
    return c->has_remote_gid && c->local_port != NULL
               ? diag_any_faces(c->local, c->local_port, &c->remote_gid)
               : DIAG_UNKNOWN;
}

/* Small messages went there and back: the way itself is right. */
static bool way_works(const struct diag_case *c)
{
    return diag_number(c, "small_passed") == 1;
}

static enum diag_known wrong_nic(const struct diag_case *c)
{
    enum diag_known same = same_subnet(c);
    enum diag_known other = another_faces(c);
    enum diag_known any = diag_any_facing(c->local, c->remote);

    if (same == DIAG_NO && (other == DIAG_YES || any == DIAG_YES)) {
        return DIAG_YES;
    }
    if (same == DIAG_YES || way_works(c) || (other == DIAG_NO && any == DIAG_NO)) {
        return DIAG_NO;
    }
    return DIAG_UNKNOWN;
}

static enum diag_known no_facing_port(const struct diag_case *c)
{
    enum diag_known any = diag_any_facing(c->local, c->remote);

    if (any == DIAG_YES || way_works(c) || same_subnet(c) == DIAG_YES ||
        another_faces(c) == DIAG_YES) {
        return DIAG_NO;
    }
    return any == DIAG_NO ? DIAG_YES : DIAG_UNKNOWN;
}

static enum diag_known gid_collision(const struct diag_case *c)
{
    enum diag_known same = same_subnet(c);
    enum diag_known other = another_faces(c);

    if (same == DIAG_NO || other == DIAG_NO || way_works(c)) {
        return DIAG_NO;
    }
    return same == DIAG_YES && other == DIAG_YES ? DIAG_YES : DIAG_UNKNOWN;
}

/* What `port`'s table says of `gid`, or NULL. */
static const struct diag_gid *gid_of(const struct diag_port *port, bool has_gid,
                                     const struct io_ip *gid)
{
    for (uint32_t i = 0; port != NULL && has_gid && i < port->n_gids; i++) {
        if (io_ip_equal(&port->gids[i].ip, gid)) {
            return &port->gids[i];
        }
    }
    return NULL;
}

/* An IPv4 GID without an address behind it: the address has a peer, whose GID it is. */
static enum diag_known peer_address(const struct diag_case *c)
{
    if (way_works(c) || (c->has_local_gid && !io_ip_is_v4(&c->local_gid))) {
        return DIAG_NO;
    }
    const struct diag_gid *gid = gid_of(c->local_port, c->has_local_gid, &c->local_gid);
    if (gid == NULL || gid->prefix_len == IO_UNKNOWN) {
        return DIAG_UNKNOWN;
    }
    return gid->prefix_len == 0 ? DIAG_YES : DIAG_NO;
}

/* The GID is not in the table any more. */
static enum diag_known is_gone(const struct diag_port *port, bool has_gid,
                               const struct io_ip *gid)
{
    if (port == NULL || !port->has_gids || !has_gid) {
        return DIAG_UNKNOWN;
    }
    if (gid_of(port, has_gid, gid) != NULL) {
        return DIAG_NO;
    }
    return port->n_gids < DIAG_GIDS_MAX ? DIAG_YES : DIAG_UNKNOWN;
}

/* Of a queue pair that was connected with it. */
static enum diag_known gid_gone(const struct diag_case *c)
{
    enum diag_known local = is_gone(c->local_port, c->has_local_gid, &c->local_gid);
    enum diag_known remote = is_gone(c->remote_port, c->has_remote_gid, &c->remote_gid);

    if (local == DIAG_YES || remote == DIAG_YES) {
        return DIAG_YES;
    }
    return local == DIAG_NO && remote == DIAG_NO ? DIAG_NO : DIAG_UNKNOWN;
}

static enum diag_known link_down(const struct diag_case *c)
{
    enum diag_known local = diag_was_down(c->host, c->local_port);
    enum diag_known remote = diag_was_down(c->peer, c->remote_port);

    if (local == DIAG_YES || remote == DIAG_YES) {
        return DIAG_YES;
    }
    /* A cable has one carrier: its near end is enough to say that it was never lost. */
    return local == DIAG_NO || remote == DIAG_NO ? DIAG_NO : DIAG_UNKNOWN;
}

static enum diag_known gid_type_mismatch(const struct diag_case *c)
{
    if (way_works(c)) {
        return DIAG_NO;
    }
    if (c->local_type == NULL || c->remote_type == NULL) {
        return DIAG_UNKNOWN;
    }
    return strcmp(c->local_type, c->remote_type) == 0 ? DIAG_NO : DIAG_YES;
}

static enum diag_known mtu_mismatch(const struct diag_case *c)
{
    int64_t local = c->local_port != NULL ? c->local_port->netdev_mtu : IO_UNKNOWN;
    int64_t remote = c->remote_port != NULL ? c->remote_port->netdev_mtu : IO_UNKNOWN;
    int64_t lesser = local < remote ? local : remote;

    if (local == IO_UNKNOWN || remote == IO_UNKNOWN) {
        return DIAG_UNKNOWN;
    }
    if (local == remote) {
        return DIAG_NO;
    }
    if (c->path_mtu == IO_UNKNOWN) {
        return DIAG_UNKNOWN;
    }
    return c->path_mtu + PACKET_OVERHEAD > lesser ? DIAG_YES : DIAG_NO;
}

/* The probe of a connection sends a small message first; one that failed in its second stage
 * says so. */
static enum diag_known black_hole(const struct diag_case *c)
{
    int64_t small_passed = diag_number(c, "small_passed");

    if (small_passed == IO_UNKNOWN) {
        return DIAG_UNKNOWN;
    }
    return small_passed == 1 ? DIAG_YES : DIAG_NO;
}

static enum diag_known memlock(const struct diag_case *c)
{
    int64_t limit = diag_number(c, "memlock_bytes");

    limit = limit == IO_UNKNOWN ? c->host->memlock_bytes : limit;
    if (limit == IO_UNKNOWN) {
        return DIAG_UNKNOWN;
    }
    return limit == INT64_MAX ? DIAG_NO : DIAG_YES;
}

/* Some pair of ports faces each other, and one of each such pair is down. */
static enum diag_known facing_down(const struct diag_case *c)
{
    enum diag_known answer = DIAG_NO;

    for (uint32_t i = 0; i < c->local.n; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            const struct diag_port *a = &c->local.items[i];
            const struct diag_port *b = &c->remote.items[j];

            if (diag_facing(a, b) != DIAG_YES) {
                continue;
            }
            if (diag_was_down(c->host, a) == DIAG_YES ||
                diag_was_down(c->peer, b) == DIAG_YES) {
                answer = DIAG_YES;
            } else if (a->is_up != DIAG_YES || b->is_up != DIAG_YES) {
                answer = answer == DIAG_YES ? DIAG_YES : DIAG_UNKNOWN;
            }
        }
    }
    return diag_any_facing(c->local, c->remote) == DIAG_UNKNOWN ? DIAG_UNKNOWN : answer;
}

static enum diag_known has_v2(const struct diag_port *port)
{
    enum diag_known answer = DIAG_NO;

    if (!port->has_gids) {
        return DIAG_UNKNOWN;
    }
    for (uint32_t i = 0; i < port->n_gids; i++) {
        if (port->gids[i].type == 2 && port->gids[i].prefix_len > 0) {
            return DIAG_YES;
        }
        if (port->gids[i].type == 0 || port->gids[i].prefix_len == IO_UNKNOWN) {
            answer = DIAG_UNKNOWN;
        }
    }
    return answer;
}

/* Ports face each other, and no such pair has version 2 GIDs on both ends. */
static enum diag_known facing_without_v2(const struct diag_case *c)
{
    enum diag_known answer = diag_any_facing(c->local, c->remote);

    for (uint32_t i = 0; i < c->local.n; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            const struct diag_port *a = &c->local.items[i];
            const struct diag_port *b = &c->remote.items[j];
            enum diag_known near = has_v2(a);
            enum diag_known far = has_v2(b);

            if (diag_facing(a, b) != DIAG_YES) {
                continue;
            }
            if (near == DIAG_YES && far == DIAG_YES) {
                return DIAG_NO;
            }
            if (near != DIAG_NO && far != DIAG_NO) {
                answer = DIAG_UNKNOWN;
            }
        }
    }
    return answer;
}

static enum diag_known certain(const struct diag_case *c)
{
    (void)c;
    return DIAG_YES;
}

/* The address is on this very cable, nothing above explains it, and the carrier is there. */
static enum diag_known no_answer(const struct diag_case *c)
{
    return same_subnet(c) == DIAG_YES ? DIAG_YES : DIAG_UNKNOWN;
}

/* ---- symptoms and what they may mean, in the order of asking ---- */

/* Modify to RTR: the neighbour could not be resolved. */
static const struct hypothesis unresolved[] = {
    {DIAG_ROUTE_WRONG_NIC, wrong_nic},
    {DIAG_GID_PEER_ADDRESS, peer_address},
    {DIAG_ROUTE_NO_FACING_PORT, no_facing_port},
    {DIAG_ROUTE_GID_COLLISION, gid_collision},
    {DIAG_LINK_DOWN, link_down},
    {DIAG_NEIGH_NO_ANSWER, no_answer},
};

/* Packets were sent and never acknowledged. */
static const struct hypothesis lost[] = {
    {DIAG_PEER_DEAD, diag_peer_died},
    {DIAG_LINK_DOWN, link_down},
    {DIAG_GID_MISSING, gid_gone},
    {DIAG_ROUTE_WRONG_NIC, wrong_nic},
    {DIAG_ROUTE_NO_FACING_PORT, no_facing_port},
    {DIAG_GID_TYPE_MISMATCH, gid_type_mismatch},
    {DIAG_LINK_MTU_MISMATCH, mtu_mismatch},
    {DIAG_ROUTE_GID_COLLISION, gid_collision},
    {DIAG_LINK_BLACK_HOLE, black_hole},
};

/* The device itself gave the requests up, without a try that ran out. */
static const struct hypothesis flushed[] = {{DIAG_LINK_DOWN, link_down}};

/* Policy weft found no way to the peer. */
static const struct hypothesis no_route[] = {
    {DIAG_ROUTE_NO_FACING_PORT, no_facing_port},
    {DIAG_LINK_DOWN, facing_down},
    {DIAG_GID_MISSING, facing_without_v2},
};

static const struct hypothesis no_memory[] = {{DIAG_HOST_MEMLOCK, memlock}};
static const struct hypothesis no_gid[] = {{DIAG_GID_MISSING, certain}};
static const struct hypothesis no_proof[] = {{DIAG_CONN_AUTH_FAILED, certain}};
static const struct hypothesis refused[] = {{DIAG_PEER_DEAD, diag_peer_died},
                                            {DIAG_CONN_REFUSED, certain}};
static const struct hypothesis unanswered[] = {{DIAG_PEER_DEAD, diag_peer_died},
                                               {DIAG_CONN_TIMEOUT, certain}};
static const struct hypothesis closed[] = {{DIAG_PEER_DEAD, diag_peer_died}};
static const struct hypothesis no_device[] = {{DIAG_HOST_NO_DEVICE, certain}};
static const struct hypothesis wrong_data[] = {{DIAG_DATA_WRONG, certain}};

struct symptom {
    const struct hypothesis *list; /* NULL: none that is known */
    size_t n;
};
#define SYMPTOM(list) ((struct symptom){list, WEFT_LENGTH(list)})

static bool phase_is(const struct weft_error *error, const char *phase)
{
    return strcmp(error->phase, phase) == 0;
}

static struct symptom of_errno(const struct weft_error *error)
{
    bool is_rtr = phase_is(error, "rtr");

    switch (error->sys_errno) {
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return is_rtr ? SYMPTOM(unresolved) : SYMPTOM(unanswered);
    case ENODATA:
    case ENODEV:
        return is_rtr ? SYMPTOM(no_gid) : (struct symptom){NULL, 0};
    case ENOMEM:
        return SYMPTOM(no_memory);
    case ECONNREFUSED:
    case EPERM:
        return SYMPTOM(refused);
    case ECONNRESET:
    case EPIPE:
        return SYMPTOM(closed);
    default:
        return (struct symptom){NULL, 0};
    }
}

static struct symptom of_completion(int wc_status)
{
    switch (wc_status) {
    case RETRY_EXC:
        return SYMPTOM(lost);
    case WR_FLUSH:
    case LOC_QP_OP:
        return SYMPTOM(flushed);
    default:
        return (struct symptom){NULL, 0};
    }
}

static struct symptom symptom_of(const struct weft_error *error)
{
    if (error->wc_status != 0) {
        return of_completion(error->wc_status);
    }
    if (error->sys_errno != 0) {
        return of_errno(error);
    }
    switch (error->status) {
    case WEFT_ERR_AUTH:
        return SYMPTOM(no_proof);
    case WEFT_ERR_TIMEOUT:
        return phase_is(error, "probe") ? SYMPTOM(lost) : SYMPTOM(unanswered);
    case WEFT_ERR_CLOSED:
        return SYMPTOM(closed);
    case WEFT_ERR_ROUTE:
        return SYMPTOM(no_route);
    case WEFT_ERR_DATA:
        return SYMPTOM(wrong_data);
    case WEFT_ERR_ENVIRONMENT:
        return phase_is(error, "discover") || phase_is(error, "start")
                   ? SYMPTOM(no_device)
                   : (struct symptom){NULL, 0};
    case WEFT_OK:
    case WEFT_AGAIN:
    case WEFT_ERR_INPUT:
    case WEFT_ERR_NOMEM:
    case WEFT_ERR_SYSTEM:
    case WEFT_ERR_COMPLETION:
    case WEFT_ERR_PROTOCOL:
    case WEFT_ERR_LIMIT:
    case WEFT_ERR_UNSUPPORTED:
        break;
    }
    return (struct symptom){NULL, 0};
}

void diag_judge(const struct diag_case *c, struct diag_finding *out)
{
    struct symptom symptom = symptom_of(&c->failure->error);

    *out = (struct diag_finding){.entry = NULL};
    diag_describe(c, out);
    for (size_t i = 0; i < symptom.n && out->entry == NULL; i++) {
        enum diag_known answer = symptom.list[i].test(c);
        const struct diag_entry *entry = diag_entry(symptom.list[i].code);

        if (answer == DIAG_NO) {
            continue;
        }
        if (answer == DIAG_YES && out->n_candidates == 0) {
            out->entry = entry;
        } else if (out->n_candidates < DIAG_CANDIDATES_MAX) {
            out->candidates[out->n_candidates++] = entry;
        }
    }
    if (out->entry == NULL) {
        out->entry = diag_entry(DIAG_UNDETERMINED);
    }
    out->severity = out->entry->severity;
}
