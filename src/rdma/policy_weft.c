/* Policy weft. Chooses every pair of ports that shares a subnet at the interface's own prefix, by
 * v2 GIDs with an address behind them. Relies on no names, indices or order. */
#include "rdma/policy_weft.h"

#include "base/text.h"

#define PAIRS_MAX 256

/* Kinds of subnets. The earlier ones show more reliably that two ports face each other. Link-local
 * subnets are the same on every cable. 169.254/16 is at least configured, but fe80::/64 always
 * exists. */
enum scope { SCOPE_ROUTABLE, SCOPE_LINK_LOCAL_V4, SCOPE_LINK_LOCAL_V6 };

static enum scope scope_of(const struct io_ip *ip)
{
    if (!io_ip_is_link_local(ip)) {
        return SCOPE_ROUTABLE;
    }
    return io_ip_is_v4(ip) ? SCOPE_LINK_LOCAL_V4 : SCOPE_LINK_LOCAL_V6;
}

uint32_t rdma_weft_gid(const struct rdma_port_facts *port)
{
    uint32_t link_local = UINT32_MAX;
    for (uint32_t i = 0; i < port->n_gids; i++) {
        if (port->gids[i].type != IBV_GID_TYPE_ROCE_V2 || port->gids[i].prefix_len == 0) {
            continue;
        }
        struct io_ip ip = rdma_gid_ip(&port->gids[i].gid);
        if (!io_ip_is_link_local(&ip)) {
            return i;
        }
        if (link_local == UINT32_MAX) {
            link_local = i;
        }
    }
    return link_local;
}

/* Returns true if two GIDs face each other: they are v2, differ, and are in one subnet of `scope`.
 * The local prefix must be known (not 0) and match. The peer's must match, too, if it is known. */
static bool gids_face(const struct rdma_port_facts *local, uint32_t l,
                      const struct rdma_port_facts *remote, uint32_t r, enum scope scope)
{
    if (local->gids[l].type != IBV_GID_TYPE_ROCE_V2 ||
        remote->gids[r].type != IBV_GID_TYPE_ROCE_V2) {
        return false;
    }
    struct io_ip a = rdma_gid_ip(&local->gids[l].gid);
    struct io_ip b = rdma_gid_ip(&remote->gids[r].gid);
    uint8_t a_len = local->gids[l].prefix_len;
    uint8_t b_len = remote->gids[r].prefix_len;
    if (a_len == 0 || io_ip_equal(&a, &b) || scope_of(&a) != scope) {
        return false;
    }
    return io_ip_same_subnet(&a, &b, a_len) &&
           (b_len == 0 || io_ip_same_subnet(&a, &b, b_len));
}

/* Finds the GIDs by which two ports face each other: IPv4 before IPv6, then in table order. */
static bool ports_face(const struct rdma_port_facts *local,
                       const struct rdma_port_facts *remote, enum scope scope,
                       struct rdma_rail *out)
{
    bool found = false;
    for (uint32_t l = 0; l < local->n_gids; l++) {
        for (uint32_t r = 0; r < remote->n_gids; r++) {
            if (!gids_face(local, l, remote, r, scope)) {
                continue;
            }
            struct io_ip ip = rdma_gid_ip(&local->gids[l].gid);
            if (!found || io_ip_is_v4(&ip)) {
                out->local_gid = l;
                out->remote_gid = r;
                found = true;
            }
            if (io_ip_is_v4(&ip)) {
                return true;
            }
        }
    }
    return found;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t rate_of(const struct rdma_choice_input *input,
                        const struct rdma_rail *rail)
{
    return least(input->local[rail->local_port].rate_bps,
                 input->remote[rail->remote_port].rate_bps);
}

static bool is_better(const struct rdma_choice_input *input, const struct rdma_rail *a,
                      const struct rdma_rail *b)
{
    uint64_t a_rate = rate_of(input, a);
    uint64_t b_rate = rate_of(input, b);
    return a_rate != b_rate ? a_rate > b_rate : a->path_mtu > b->path_mtu;
}

static uint32_t find_pairs(const struct rdma_choice_input *input, enum scope scope,
                           struct rdma_rail *pairs)
{
    uint32_t n = 0;
    for (uint32_t l = 0; l < input->n_local; l++) {
        for (uint32_t r = 0; r < input->n_remote; r++) {
            const struct rdma_port_facts *local = &input->local[l];
            const struct rdma_port_facts *remote = &input->remote[r];
            struct rdma_rail rail = {.local_port = l, .remote_port = r};
            if (n == PAIRS_MAX || !local->is_active || !remote->is_active ||
                !ports_face(local, remote, scope, &rail)) {
                continue;
            }
            rail.path_mtu = (uint32_t)least(local->active_mtu, remote->active_mtu);
            /* Insertion keeps (local, remote) order among equals. */
            uint32_t at = n++;
            while (at > 0 && is_better(input, &rail, &pairs[at - 1])) {
                pairs[at] = pairs[at - 1];
                at--;
            }
            pairs[at] = rail;
        }
    }
    return n;
}

/* Finds the first two ports, up or down, that share a subnet of a kind up to `last`. */
static bool find_facing(const struct rdma_choice_input *input, enum scope last,
                        struct rdma_rail *out)
{
    for (enum scope scope = SCOPE_ROUTABLE; scope <= last; scope++) {
        for (uint32_t l = 0; l < input->n_local; l++) {
            for (uint32_t r = 0; r < input->n_remote; r++) {
                *out = (struct rdma_rail){.local_port = l, .remote_port = r};
                if (ports_face(&input->local[l], &input->remote[r], scope, out)) {
                    return true;
                }
            }
        }
    }
    return false;
}

bool rdma_weft_inactive(const struct rdma_choice_input *input, struct rdma_rail *out)
{
    /* With one port at each end, link-local GIDs can only be on one cable. */
    enum scope last = input->n_local == 1 && input->n_remote == 1 ? SCOPE_LINK_LOCAL_V6
                                                                  : SCOPE_LINK_LOCAL_V4;

    return find_facing(input, last, out);
}

static const struct rdma_port_facts *only_active(const struct rdma_port_facts *ports,
                                                 uint32_t n_ports)
{
    const struct rdma_port_facts *found = NULL;

    for (uint32_t i = 0; i < n_ports; i++) {
        if (ports[i].is_active && found != NULL) {
            return NULL;
        }
        found = ports[i].is_active ? &ports[i] : found;
    }
    return found;
}

static bool has_routable(const struct rdma_port_facts *port)
{
    for (uint32_t i = 0; i < port->n_gids; i++) {
        struct io_ip ip = rdma_gid_ip(&port->gids[i].gid);
        if (port->gids[i].type == IBV_GID_TYPE_ROCE_V2 && port->gids[i].prefix_len != 0 &&
            scope_of(&ip) == SCOPE_ROUTABLE) {
            return true;
        }
    }
    return false;
}

/* Returns true if fe80::/64, the subnet of every cable, can only be that of one cable between the
 * two hosts: each end has one active port. If a host has more ports, both active ones may be on
 * cables to other hosts. They are if both have addresses and yet share no subnet. */
static bool has_one_cable(const struct rdma_choice_input *input)
{
    const struct rdma_port_facts *local = only_active(input->local, input->n_local);
    const struct rdma_port_facts *remote = only_active(input->remote, input->n_remote);

    if (local == NULL || remote == NULL) {
        return false;
    }
    return (input->n_local == 1 && input->n_remote == 1) ||
           !(has_routable(local) && has_routable(remote));
}

/* Chooses a port that sends to itself, for two processes of one host. The fastest one is preferred,
 * then the one with the largest path MTU, then the first. More ports would only take more bandwidth
 * from the cables. */
static uint32_t choose_loopback(const struct rdma_choice_input *input,
                                struct rdma_rail *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < input->n_local && i < input->n_remote; i++) {
        const struct rdma_port_facts *port = &input->local[i];
        uint32_t gid = rdma_weft_gid(port);
        struct rdma_rail rail = {.local_port = i,
                                 .remote_port = i,
                                 .local_gid = gid,
                                 .remote_gid = gid,
                                 .path_mtu = port->active_mtu};
        if (port->is_active && gid != UINT32_MAX &&
            (n == 0 || is_better(input, &rail, out))) {
            *out = rail;
            n = 1;
        }
    }
    return n;
}

/* Uses each port for one rail only, because two rails on one port would share its cable. */
uint32_t rdma_weft_choose(const struct rdma_choice_input *input, struct rdma_rail *out,
                          uint32_t cap)
{
    if (input->is_same_host) {
        return cap > 0 ? choose_loopback(input, out) : 0;
    }
    struct rdma_rail pairs[PAIRS_MAX], down;
    uint32_t n_pairs = find_pairs(input, SCOPE_ROUTABLE, pairs);
    /* Other subnets identify no cable, so a pair that is down is waited for. */
    bool is_down = n_pairs == 0 && find_facing(input, SCOPE_ROUTABLE, &down);
    if (n_pairs == 0 && !is_down) {
        n_pairs = find_pairs(input, SCOPE_LINK_LOCAL_V4, pairs);
    }
    if (n_pairs == 0 && !is_down && has_one_cable(input)) {
        n_pairs = find_pairs(input, SCOPE_LINK_LOCAL_V6, pairs);
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_pairs && n < cap; i++) {
        bool is_free = true;
        for (uint32_t k = 0; k < n; k++) {
            is_free = is_free && out[k].local_port != pairs[i].local_port &&
                      out[k].remote_port != pairs[i].remote_port;
        }
        if (is_free) {
            out[n++] = pairs[i];
        }
    }
    return n;
}

uint32_t rdma_weft_reasons(const struct rdma_choice_input *input,
                           const struct rdma_rail *rails, uint32_t n_rails,
                           struct rdma_reason out[RDMA_REASONS_MAX])
{
    const struct rdma_port_facts *local = &input->local[rails[0].local_port];
    const struct rdma_port_facts *remote = &input->remote[rails[0].remote_port];
    char ours[RDMA_GID_TEXT_BYTES], theirs[RDMA_GID_TEXT_BYTES];
    uint32_t n = 0;
    char *text = rdma_reason_add(out, &n, "port", "docs/rdma.md, Policies");

    if (input->is_same_host) {
        weft_format(text, sizeof(out->text),
                    "both ends are on one host: its fastest port talks to itself");
    } else {
        weft_format(text, sizeof(out->text),
                    "%s and %s face each other: one subnet at both ends' own prefix; "
                    "%u such pair%s, fastest first, each port once",
                    rdma_gid_text(local, rails[0].local_gid, ours),
                    rdma_gid_text(remote, rails[0].remote_gid, theirs), n_rails,
                    n_rails == 1 ? "" : "s");
    }
    text = rdma_reason_add(out, &n, "gid", "docs/rdma.md, Discovery");
    weft_format(text, sizeof(out->text),
                "RoCE v2 with an address behind it, held by value: slots move");
    text = rdma_reason_add(out, &n, "path_mtu", "docs/wire.md, The probe");
    weft_format(text, sizeof(out->text),
                "the lesser of both active MTUs (%u, %u), less where probes fail",
                local->active_mtu, remote->active_mtu);
    return n;
}
