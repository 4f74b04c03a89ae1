/* Rules about cables, about the GIDs and MTUs of connected queue pairs, and about packets that a
 * host drops. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/policy.h"
#include "diag/private.h"

/* Bytes that a full-size packet adds to the path MTU: IPv4 20, UDP 8, BTH 12, RETH 16, ICRC 4. */
#define PACKET_OVERHEAD 60
/* Maximum number of frames that can be in flight between the readings of the counters of two
 * ends. */
#define UNDER_WAY 4
/* If more frames than this were lost in one direction, up to UNDER_WAY missing frames in the other
 * are in flight, not lost. */
#define MANY 64
/* Value of arp_ignore that suppresses all replies (ip-sysctl). The kernel treats greater ones as
 * 0. */
#define ARP_ANSWERS_NOTHING 8
/* Maximum time that modify to RTR waits for one neighbour. */
#define RESOLVE_NS INT64_C(5000000000)

/* ---- carrier ---- */

static uint32_t count_port_errors(const struct diag_host *host,
                                  const struct diag_port *port)
{
    uint32_t n = 0;

    for (uint32_t i = 0; host != NULL && port != NULL && i < host->n_events; i++) {
        n += strcmp(host->events[i].type, "port_error") == 0 &&
             strcmp(host->events[i].port, port->name) == 0;
    }
    return n;
}

enum diag_known diag_flapping_at(const struct diag_case *c, enum diag_end end)
{
    const struct diag_host *host = end == DIAG_NEAR ? c->host : c->peer;
    const struct diag_port *port = end == DIAG_NEAR ? c->local_port : c->remote_port;

    if (count_port_errors(host, port) > 1) {
        return DIAG_YES;
    }
    return host == NULL || port == NULL || !host->has_events ? DIAG_UNKNOWN : DIAG_NO;
}

/* Returns YES if the port at this end lost its carrier. Behind a switch only one of the two ports
 * does. If the port is unknown, checks all ports that face the other end. */
enum diag_known diag_link_down_at(const struct diag_case *c, enum diag_end end)
{
    const struct diag_host *host = end == DIAG_NEAR ? c->host : c->peer;
    const struct diag_port *port = end == DIAG_NEAR ? c->local_port : c->remote_port;
    struct diag_ports ports = end == DIAG_NEAR ? c->local : c->remote;
    struct diag_ports others = end == DIAG_NEAR ? c->remote : c->local;
    enum diag_known answer = DIAG_NO;

    if (port != NULL) {
        return diag_was_down(host, port);
    }
    for (uint32_t i = 0; i < ports.n; i++) {
        answer = diag_or(answer, diag_and(diag_was_down(host, &ports.items[i]),
                                          diag_faces_one_of(&ports.items[i], others)));
    }
    return answer;
}

/* Combines both ends of a cable. NO of one end is sufficient, because both ends share the
 * carrier. */
static enum diag_known either_down(enum diag_known local, enum diag_known remote)
{
    if (local == DIAG_YES || remote == DIAG_YES) {
        return DIAG_YES;
    }
    return local == DIAG_NO || remote == DIAG_NO ? DIAG_NO : DIAG_UNKNOWN;
}

/* Returns YES if a port lost its carrier at least twice. A single loss is a cable that went down; a
 * second one requires that it came back. */
enum diag_known diag_is_flapping(const struct diag_case *c)
{
    return either_down(diag_flapping_at(c, DIAG_NEAR), diag_flapping_at(c, DIAG_FAR));
}

enum diag_known diag_is_link_down(const struct diag_case *c)
{
    return either_down(diag_was_down(c->host, c->local_port),
                       diag_was_down(c->peer, c->remote_port));
}

/* Returns YES if the port was down during neighbour resolution. NO if it was up again too long
 * before the failure to be its cause. A host that waited (failover_ns) reports the first failure of
 * that time. */
static enum diag_known was_down_at_rtr(const struct diag_case *c,
                                       const struct diag_host *host,
                                       const struct diag_port *port)
{
    enum diag_known down = diag_was_down(host, port);
    int64_t waited_ns = diag_number(c, WEFT_VALUE_FAILOVER_NS);
    weft_ns up_ns = IO_UNKNOWN, ago_ns;

    if (down != DIAG_YES || port->is_up == DIAG_NO) {
        return down;
    }
    if (!host->has_events) {
        return DIAG_UNKNOWN; /* it may have changed again */
    }
    for (uint32_t i = 0; i < host->n_events; i++) {
        const struct diag_event *event = &host->events[i];

        if (strcmp(event->port, port->name) == 0 &&
            strncmp(event->type, "port_", strlen("port_")) == 0) {
            up_ns = strcmp(event->type, "port_active") == 0 ? event->at_ns : IO_UNKNOWN;
        }
    }
    if (up_ns < 0 || c->failure->at_ns < 0) {
        return DIAG_YES;
    }
    ago_ns = c->failure->at_ns - up_ns;
    if (ago_ns <= RESOLVE_NS) {
        return DIAG_YES;
    }
    return waited_ns == IO_UNKNOWN ? DIAG_UNKNOWN
                                   : diag_known_of(ago_ns - RESOLVE_NS <= waited_ns);
}

enum diag_known diag_is_down_at_rtr(const struct diag_case *c)
{
    return either_down(was_down_at_rtr(c, c->host, c->local_port),
                       was_down_at_rtr(c, c->peer, c->remote_port));
}

/* Returns YES if the device of the port at this end failed. Its port is then also down, but not
 * because of the cable. */
enum diag_known diag_device_gone_at(const struct diag_case *c, enum diag_end end)
{
    const struct diag_host *host = end == DIAG_NEAR ? c->host : c->peer;
    const struct diag_port *port = end == DIAG_NEAR ? c->local_port : c->remote_port;
    const char *name = port != NULL
                           ? port->name
                           : diag_text(c, end == DIAG_NEAR ? WEFT_VALUE_LOCAL_INACTIVE
                                                           : WEFT_VALUE_REMOTE_INACTIVE);

    return host == NULL || name == NULL ? DIAG_UNKNOWN : diag_is_device_gone(host, name);
}

enum diag_known diag_is_gone(const struct diag_case *c)
{
    enum diag_known near = diag_device_gone_at(c, DIAG_NEAR);
    enum diag_known far = diag_device_gone_at(c, DIAG_FAR);

    return near == DIAG_YES || far == DIAG_YES ? DIAG_YES : DIAG_NO;
}

/* ---- GIDs of connected queue pairs ---- */

/* Returns YES if the GID is no longer in the table. */
static enum diag_known is_gone(const struct diag_port *port, bool has_gid,
                               const struct io_ip *gid)
{
    if (port == NULL || !port->has_gids || !has_gid) {
        return DIAG_UNKNOWN;
    }
    if (diag_gid_of(port, has_gid, gid) != NULL) {
        return DIAG_NO;
    }
    return diag_may_lack_gids(port) ? DIAG_UNKNOWN : DIAG_YES;
}

/* Returns YES if the GID is gone and the port still faces the peer's GID, so that its address was
 * replaced. */
static enum diag_known is_replaced(const struct diag_port *port, bool has_gid,
                                   const struct io_ip *gid, bool has_peer_gid,
                                   const struct io_ip *peer_gid)
{
    enum diag_known gone = is_gone(port, has_gid, gid);

    return gone == DIAG_YES && has_peer_gid ? diag_faces(port, peer_gid)
           : gone == DIAG_YES               ? DIAG_UNKNOWN
                                            : gone;
}

enum diag_known diag_addr_changed_at(const struct diag_case *c, enum diag_end end)
{
    return end == DIAG_NEAR
               ? is_replaced(c->local_port, c->has_local_gid, &c->local_gid,
                             c->has_remote_gid, &c->remote_gid)
               : is_replaced(c->remote_port, c->has_remote_gid, &c->remote_gid,
                             c->has_local_gid, &c->local_gid);
}

enum diag_known diag_is_addr_changed(const struct diag_case *c)
{
    return diag_or(diag_addr_changed_at(c, DIAG_NEAR), diag_addr_changed_at(c, DIAG_FAR));
}

static enum diag_known gid_gone_at(const struct diag_case *c, enum diag_end end)
{
    return end == DIAG_NEAR ? is_gone(c->local_port, c->has_local_gid, &c->local_gid)
                            : is_gone(c->remote_port, c->has_remote_gid, &c->remote_gid);
}

enum diag_known diag_is_gid_gone(const struct diag_case *c)
{
    return diag_or(gid_gone_at(c, DIAG_NEAR), gid_gone_at(c, DIAG_FAR));
}

/* Evaluates one of the two rules above at both ends for a set-up that was not answered, because a
 * stream at an address that is gone is silent. Returns NO unless an end's GID, on which both had
 * agreed, and its port are known. */
static enum diag_known of_agreed(const struct diag_case *c,
                                 enum diag_known at(const struct diag_case *c,
                                                    enum diag_end end))
{
    enum diag_known answer = DIAG_NO;

    if (c->local_port != NULL && c->has_local_gid) {
        answer = diag_or(answer, at(c, DIAG_NEAR));
    }
    if (c->remote_port != NULL && c->has_remote_gid) {
        answer = diag_or(answer, at(c, DIAG_FAR));
    }
    return answer;
}

/* Returns true if the peer described a port whose address was replaced since. */
static bool has_another_address_since(const struct diag_case *c)
{
    struct diag_ports described = diag_ports_described(c->host, c->peer_name);

    for (uint32_t i = 0; i < described.n; i++) {
        const struct diag_port *now = diag_find_port(c->peer, described.items[i].name);

        for (uint32_t g = 0; now != NULL && g < described.items[i].n_gids; g++) {
            const struct diag_gid *gid = &described.items[i].gids[g];

            if (gid->prefix_len > 0 && is_gone(now, true, &gid->ip) == DIAG_YES &&
                diag_was_renumbered(c->peer, now) &&
                diag_faces_one_of(now, c->local) == DIAG_YES) {
                return true;
            }
        }
    }
    return false;
}

enum diag_known diag_is_agreed_addr_changed(const struct diag_case *c)
{
    /* Before rails are chosen, the address is the one that the peer's handle has. */
    bool is_early = c->phase == WEFT_PHASE_CHALLENGE || c->phase == WEFT_PHASE_AUTH;

    if (is_early && c->local_port == NULL && c->remote_port == NULL && c->peer != NULL &&
        has_another_address_since(c)) {
        return DIAG_YES;
    }
    return of_agreed(c, diag_addr_changed_at);
}

enum diag_known diag_is_agreed_gid_gone(const struct diag_case *c)
{
    return of_agreed(c, gid_gone_at);
}

enum diag_known diag_gid_missing_at(const struct diag_case *c, enum diag_end end)
{
    return diag_or(gid_gone_at(c, end), diag_gid_lost_at(c, end));
}

enum diag_known diag_is_type_mismatch(const struct diag_case *c)
{
    if (diag_way_works(c)) {
        return DIAG_NO;
    }
    if (c->local_type == NULL || c->remote_type == NULL) {
        return DIAG_UNKNOWN;
    }
    return strcmp(c->local_type, c->remote_type) == 0 ? DIAG_NO : DIAG_YES;
}

/* Returns YES if the types differ only because an end was left with default GIDs: its address, or
 * the GIDs of it, are gone. */
static enum diag_known is_mistyped_for_want(const struct diag_case *c,
                                            diag_end_test *is_wanting)
{
    return diag_and(diag_is_type_mismatch(c),
                    diag_or(is_wanting(c, DIAG_NEAR), is_wanting(c, DIAG_FAR)));
}

enum diag_known diag_is_mistyped_without_address(const struct diag_case *c)
{
    return is_mistyped_for_want(c, diag_addr_missing_at);
}

enum diag_known diag_is_mistyped_without_gid(const struct diag_case *c)
{
    return is_mistyped_for_want(c, diag_gid_lost_at);
}

/* ---- sizes ---- */

/* Returns the bytes of headers in an IP packet with the largest payload. */
static int64_t overhead(const struct diag_case *c)
{
    bool is_v6 = c->has_local_gid && !io_ip_is_v4(&c->local_gid);

    return is_v6 ? PACKET_OVERHEAD + 20 : PACKET_OVERHEAD;
}

enum diag_known diag_is_mtu_mismatch(const struct diag_case *c)
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
    return c->path_mtu + overhead(c) > lesser ? DIAG_YES : DIAG_NO;
}

/* Returns YES if the device refused a path MTU on which both ends had agreed before the MTU of its
 * port became smaller than the peer's. */
enum diag_known diag_is_mtu_refused(const struct diag_case *c)
{
    const struct diag_port *port = c->local_port;
    enum diag_known is_beyond =
        port == NULL || port->active_mtu == IO_UNKNOWN || c->path_mtu == IO_UNKNOWN
            ? DIAG_UNKNOWN
            : diag_known_of(port->active_mtu < c->path_mtu);

    return diag_and(is_beyond, diag_is_mtu_mismatch(c));
}

/* Returns YES if this port is a software device and its own netdev has the smaller MTU. Such a
 * device aborts a packet that is too large for its netdev, whereas a NIC sends it. */
static enum diag_known is_narrower(const struct diag_case *c,
                                   const struct diag_port *port,
                                   const struct diag_port *other)
{
    if (port->active_mtu == IO_UNKNOWN || other->active_mtu == IO_UNKNOWN) {
        return DIAG_UNKNOWN;
    }
    if (port->active_mtu >= other->active_mtu) {
        return DIAG_NO;
    }
    return c->path_mtu == IO_UNKNOWN ? DIAG_UNKNOWN
                                     : diag_known_of(port->active_mtu < c->path_mtu);
}

/* Considers the ports of `host`. */
static enum diag_known find_narrow_at(const struct diag_case *c,
                                      const struct diag_host *host, struct diag_case *out)
{
    enum diag_known answer = host == NULL || host->n_ports > 0 ? DIAG_NO : DIAG_UNKNOWN;

    for (uint32_t i = 0; host != NULL && i < host->n_ports; i++) {
        for (uint32_t h = 0; h < c->input->n_hosts; h++) {
            const struct diag_host *other = &c->input->hosts[h];

            answer = other->n_ports > 0 ? answer : diag_or(answer, DIAG_UNKNOWN);
            for (uint32_t k = 0; k < other->n_ports; k++) {
                const struct diag_port *a = &host->ports[i], *b = &other->ports[k];
                enum diag_known is_it =
                    diag_is_same_machine(host->name, other->name)
                        ? DIAG_NO
                        : diag_and(diag_facing(a, b), is_narrower(c, a, b));

                answer = diag_or(answer, is_it);
                if (is_it == DIAG_YES) {
                    *out = *c;
                    out->host = host;
                    out->peer = other;
                    out->peer_name = other->name;
                    out->local_port = a;
                    out->remote_port = b;
                    return DIAG_YES;
                }
            }
        }
    }
    return answer;
}

enum diag_known diag_find_narrow_port(const struct diag_case *c, struct diag_case *out)
{
    struct diag_case ignored;
    enum diag_known near = find_narrow_at(c, c->host, out != NULL ? out : &ignored);

    return near == DIAG_YES
               ? near
               : diag_or(near, find_narrow_at(c, c->peer, out != NULL ? out : &ignored));
}

/* Returns YES if the peer recorded another path MTU for the same queue pairs. */
static enum diag_known has_other_path_mtu(const struct diag_case *c)
{
    for (uint32_t i = 0; c->peer != NULL && i < c->peer->n_errors; i++) {
        const struct diag_error *error = &c->peer->errors[i];
        const struct weft_value *mtu =
            weft_error_value(&error->error, WEFT_VALUE_PATH_MTU);

        if (strcmp(error->peer, c->host->name) == 0 && mtu != NULL &&
            c->path_mtu != IO_UNKNOWN) {
            return diag_known_of(mtu->number != c->path_mtu);
        }
    }
    return DIAG_UNKNOWN;
}

/* Returns YES if the two ends of a queue pair have different path MTUs, because a program took that
 * of another port, which has a smaller one than the port at the other end of its cable. */
enum diag_known diag_is_mtu_of_another_port(const struct diag_case *c)
{
    return diag_and(has_other_path_mtu(c), diag_find_narrow_port(c, NULL));
}

enum diag_known diag_is_own_mtu_lesser(const struct diag_case *c)
{
    const struct diag_port *local = c->local_port, *remote = c->remote_port;
    enum diag_known is_software = local != NULL ? local->is_software : DIAG_UNKNOWN;
    bool is_lesser = local == NULL || remote == NULL ||
                     remote->netdev_mtu == IO_UNKNOWN ||
                     local->netdev_mtu < remote->netdev_mtu;

    return is_lesser ? diag_and(is_software, diag_is_mtu_mismatch(c)) : DIAG_NO;
}

/* Evaluates the same for all ports of the subnet of `port`, because behind a switch the counters of
 * a port include frames of other peers. */
static enum diag_known full_ones_vanish_at_switch(const struct diag_input *input,
                                                  const struct diag_host *host,
                                                  const struct diag_port *port)
{
    int64_t sent = diag_sum_in_subnet(input, host, port, DIAG_TX_PACKETS);
    int64_t received = diag_sum_in_subnet(input, host, port, DIAG_RX_PACKETS);
    int64_t n_after = diag_sum_in_subnet(input, host, port, DIAG_OUT_OF_SEQUENCE);

    return sent == IO_UNKNOWN || received == IO_UNKNOWN || n_after == IO_UNKNOWN
               ? DIAG_UNKNOWN
               : diag_known_of(n_after >= sent - received - n_after);
}

/* Returns YES if full-size packets are lost and small ones arrive. After each lost full-size WRITE,
 * the small READ request behind it arrives out of sequence. Their number must be at least half the
 * number of lost frames. */
static enum diag_known full_ones_vanish(const struct diag_case *c,
                                        const struct diag_port *from,
                                        const struct diag_port *to)
{
    const struct diag_host *owner = from == c->local_port ? c->host : c->peer;
    int64_t n_lost, n_after;

    if (from == NULL || to == NULL || to->counters[DIAG_OUT_OF_SEQUENCE] < 0) {
        return DIAG_UNKNOWN;
    }
    n_after = to->counters[DIAG_OUT_OF_SEQUENCE];
    if (n_after == 0) {
        return DIAG_NO;
    }
    switch (diag_is_one_cable(c->input, from, to)) {
    case DIAG_YES:
        n_lost = diag_lost_frames(from, to);
        return n_lost == IO_UNKNOWN ? DIAG_UNKNOWN
                                    : diag_known_of(n_after >= n_lost - n_after);
    case DIAG_NO:
        return owner != NULL ? full_ones_vanish_at_switch(c->input, owner, from)
                             : DIAG_UNKNOWN;
    case DIAG_UNKNOWN:
        break;
    }
    return DIAG_UNKNOWN;
}

/* Returns YES if small frames still arrive. If the cable loses or damages frames of any size, the
 * probe's small frames may have arrived before its full-size ones were lost. */
static enum diag_known only_full_ones_vanish(const struct diag_case *c)
{
    return diag_and(diag_or(full_ones_vanish(c, c->local_port, c->remote_port),
                            full_ones_vanish(c, c->remote_port, c->local_port)),
                    diag_not(diag_is_corrupting(c)));
}

/* Returns YES if only full-size packets are lost. The probe of a connection sends small messages
 * first and reports if it failed afterwards (small_passed). In phase data full-size packets have
 * already passed in both directions. */
enum diag_known diag_is_black_hole(const struct diag_case *c)
{
    int64_t small_passed = diag_number(c, WEFT_VALUE_SMALL_PASSED);

    if (small_passed == IO_UNKNOWN) {
        return c->phase == WEFT_PHASE_DATA || c->use != NULL
                   ? DIAG_NO
                   : diag_and(DIAG_UNKNOWN, only_full_ones_vanish(c));
    }
    return small_passed == 1 ? only_full_ones_vanish(c) : DIAG_NO;
}

/* ---- neighbours ---- */

enum diag_known diag_is_vlan_mismatch(const struct diag_case *c)
{
    const struct diag_gid *local =
        diag_gid_of(c->local_port, c->has_local_gid, &c->local_gid);
    const struct diag_gid *remote =
        diag_gid_of(c->remote_port, c->has_remote_gid, &c->remote_gid);

    if (diag_way_works(c)) {
        return DIAG_NO;
    }
    if (local == NULL || remote == NULL || local->vlan_id == IO_UNKNOWN ||
        remote->vlan_id == IO_UNKNOWN) {
        return DIAG_UNKNOWN;
    }
    return diag_known_of(local->vlan_id != remote->vlan_id);
}

static enum diag_known ignores(struct diag_ports ports, const struct diag_port *port)
{
    enum diag_known answer = ports.n == 0 ? DIAG_UNKNOWN : DIAG_NO;

    for (uint32_t i = 0; i < ports.n; i++) {
        const struct diag_port *one = &ports.items[i];

        if (port == NULL || port == one) {
            answer = diag_or(answer,
                             one->arp_ignore == IO_UNKNOWN
                                 ? DIAG_UNKNOWN
                                 : diag_known_of(one->arp_ignore == ARP_ANSWERS_NOTHING));
        }
    }
    return answer;
}

enum diag_known diag_is_arp_ignored(const struct diag_case *c)
{
    return ignores(c->remote, c->remote_port);
}

enum diag_known diag_arp_ignored_at(const struct diag_case *c, enum diag_end end)
{
    return end == DIAG_NEAR ? ignores(c->local, c->local_port)
                            : ignores(c->remote, c->remote_port);
}

/* Returns YES if either end ignores ARP requests, because the end that waits is unreachable as well
 * if it ignores them. */
enum diag_known diag_is_arp_ignored_at_all(const struct diag_case *c)
{
    return diag_or(diag_arp_ignored_at(c, DIAG_NEAR), diag_arp_ignored_at(c, DIAG_FAR));
}

/* ---- packets that a host's IP stack drops (software devices only) ---- */

static enum diag_known refuses(const struct diag_port *port, enum diag_counter counter)
{
    if (port == NULL) {
        return DIAG_UNKNOWN;
    }
    if (port->counters[counter] != IO_UNKNOWN) {
        return diag_known_of(port->counters[counter] > 0);
    }
    return port->is_software == DIAG_NO ? DIAG_NO : DIAG_UNKNOWN;
}

/* Returns true if the connection was established. Packets that are always dropped prevent that. */
static bool was_up(const struct diag_case *c)
{
    return diag_way_works(c) || c->phase == WEFT_PHASE_DATA || c->use != NULL;
}

/* Returns YES if the firewall dropped RoCE packets on the port. If that is not counted, NO if any
 * port received packets. */
static enum diag_known bars_roce(const struct diag_port *port, struct diag_ports ports)
{
    enum diag_known answer = refuses(port, DIAG_RX_FILTERED_PORT);

    for (uint32_t i = 0; answer == DIAG_UNKNOWN && i < ports.n; i++) {
        if (ports.items[i].counters[DIAG_RX_PACKETS] > 0) {
            return DIAG_NO;
        }
    }
    return answer;
}

enum diag_known diag_firewall_roce_at(const struct diag_case *c, enum diag_end end)
{
    return end == DIAG_NEAR ? bars_roce(c->local_port, c->local)
                            : bars_roce(c->remote_port, c->remote);
}

enum diag_known diag_is_firewall_roce(const struct diag_case *c)
{
    return was_up(c) ? DIAG_NO
                     : diag_or(diag_firewall_roce_at(c, DIAG_NEAR),
                               diag_firewall_roce_at(c, DIAG_FAR));
}

enum diag_known diag_rp_filter_at(const struct diag_case *c, enum diag_end end)
{
    return refuses(end == DIAG_NEAR ? c->local_port : c->remote_port,
                   DIAG_RX_FILTERED_SOURCE);
}

enum diag_known diag_is_rp_filter(const struct diag_case *c)
{
    return was_up(c)
               ? DIAG_NO
               : diag_or(diag_rp_filter_at(c, DIAG_NEAR), diag_rp_filter_at(c, DIAG_FAR));
}

/* ---- counters of both ends ---- */

/* Returns true if `from` repeated nothing and another port that faces `to` did, so that the damaged
 * frames of `to` may all be those of the other. */
static bool is_other_repeating(const struct diag_input *input,
                               const struct diag_port *from, const struct diag_port *to)
{
    if (from == NULL || to == NULL || from->counters[DIAG_RETRANSMITS] != 0) {
        return false;
    }
    for (uint32_t h = 0; h < input->n_hosts; h++) {
        const struct diag_host *host = &input->hosts[h];

        for (uint32_t i = 0; i < host->n_ports; i++) {
            const struct diag_port *other = &host->ports[i];

            if (other != from && other != to && other->counters[DIAG_RETRANSMITS] > 0 &&
                diag_facing(other, to) == DIAG_YES) {
                return true;
            }
        }
    }
    return false;
}

static enum diag_known is_damaging(const struct diag_case *c,
                                   const struct diag_port *from,
                                   const struct diag_port *to)
{
    enum diag_known damages = diag_damages(c->input, from, to);

    return damages == DIAG_YES && is_other_repeating(c->input, from, to) ? DIAG_UNKNOWN
                                                                         : damages;
}

/* Returns true if most of `n_lost` packets did not arrive, according to the netdevs' counters of
 * frames of any protocol. A netdev whose counters are older than the other's is short of far more
 * frames, or of none. */
static bool have_vanished(const struct diag_port *from, const struct diag_port *to,
                          int64_t n_lost)
{
    int64_t sent = from->counters[DIAG_TX_FRAMES];
    int64_t dropped = from->counters[DIAG_TX_QUEUE_DROPS];
    int64_t received = to->counters[DIAG_RX_FRAMES];
    int64_t short_of;

    if (n_lost <= 0 || sent < 0 || dropped < 0 || received < 0 ||
        __builtin_add_overflow(sent, dropped, &sent)) {
        return false;
    }
    short_of = sent - received;
    return short_of > n_lost - short_of && short_of - n_lost <= n_lost;
}

enum diag_known diag_damages(const struct diag_input *input, const struct diag_port *from,
                             const struct diag_port *to)
{
    const int64_t *counters = to != NULL ? to->counters : NULL;
    int64_t n_lost, n_other;

    if (counters != NULL && counters[DIAG_ICRC_ERRORS] != IO_UNKNOWN) {
        return diag_known_of(counters[DIAG_ICRC_ERRORS] > UNDER_WAY);
    }
    if (from == NULL || to == NULL || counters[DIAG_RX_FRAMES] < 0 ||
        diag_is_one_cable(input, from, to) != DIAG_YES) {
        return DIAG_UNKNOWN;
    }
    n_lost = diag_lost_frames(from, to);
    if (have_vanished(from, to, n_lost)) {
        return DIAG_NO;
    }
    if (n_lost == IO_UNKNOWN) {
        return DIAG_UNKNOWN;
    }
    n_other = counters[DIAG_RX_FRAMES] - counters[DIAG_RX_PACKETS];
    return n_lost <= UNDER_WAY || n_other < n_lost - n_other ? DIAG_NO : DIAG_UNKNOWN;
}

enum diag_known diag_is_corrupting(const struct diag_case *c)
{
    return diag_or(is_damaging(c, c->local_port, c->remote_port),
                   is_damaging(c, c->remote_port, c->local_port));
}

/* Returns YES if more frames were sent than received, beyond those in flight. Only for a cable that
 * joins just these two ports, because its loss is then certain. */
static enum diag_known loses(const struct diag_case *c, const struct diag_port *from,
                             const struct diag_port *to)
{
    int64_t n_lost;

    if (from == NULL || to == NULL || diag_is_one_cable(c->input, from, to) != DIAG_YES) {
        return DIAG_UNKNOWN;
    }
    n_lost = diag_lost_frames(from, to);
    return n_lost == IO_UNKNOWN ? DIAG_UNKNOWN : diag_known_of(n_lost > UNDER_WAY);
}

static enum diag_known loses_out(const struct diag_case *c)
{
    return loses(c, c->local_port, c->remote_port);
}

static enum diag_known loses_in(const struct diag_case *c)
{
    return loses(c, c->remote_port, c->local_port);
}

/* Returns true if the port is known to have repeated nothing until a transfer failed. An end that
 * hears nothing and has nothing of its own to send sends nothing, so a direction can be silent
 * because the other is. Set-up fails before anything is repeated. */
static bool repeats_nothing(const struct diag_case *c, const struct diag_port *port)
{
    return c->phase == WEFT_PHASE_DATA && port != NULL &&
           port->counters[DIAG_RETRANSMITS] == 0;
}

/* Returns YES if no frame was lost in this direction. Returns UNKNOWN if a few are missing and at
 * most MANY in the other direction, because those few can be lost or in flight. Also if nothing
 * shows that the direction was used after the failure. */
static enum diag_known loses_nothing(const struct diag_case *c,
                                     const struct diag_port *from,
                                     const struct diag_port *to, enum diag_known loses,
                                     int64_t n_other_way)
{
    int64_t n_lost = from != NULL && to != NULL ? diag_lost_frames(from, to) : IO_UNKNOWN;

    if (loses == DIAG_NO &&
        (repeats_nothing(c, from) || (n_lost > 0 && n_other_way <= MANY))) {
        return DIAG_UNKNOWN;
    }
    return diag_not(loses);
}

enum diag_known diag_is_one_way(const struct diag_case *c)
{
    const struct diag_port *a = c->local_port, *b = c->remote_port;
    enum diag_known out = loses_out(c);
    enum diag_known in = loses_in(c);
    int64_t n_out = a != NULL && b != NULL ? diag_lost_frames(a, b) : IO_UNKNOWN;
    int64_t n_in = a != NULL && b != NULL ? diag_lost_frames(b, a) : IO_UNKNOWN;

    return diag_or(diag_and(out, loses_nothing(c, b, a, in, n_out)),
                   diag_and(in, loses_nothing(c, a, b, out, n_in)));
}

/* Returns `loses`, but UNKNOWN for NO if nothing shows that the direction was used. */
static enum diag_known loses_if_used(const struct diag_case *c,
                                     const struct diag_port *from, enum diag_known loses)
{
    return loses == DIAG_NO && repeats_nothing(c, from) ? DIAG_UNKNOWN : loses;
}

enum diag_known diag_is_lossy(const struct diag_case *c)
{
    enum diag_known out = loses_out(c), in = loses_in(c);

    if (out != DIAG_YES && in != DIAG_YES) {
        return diag_and(out, in);
    }
    return diag_and(loses_if_used(c, c->local_port, out),
                    loses_if_used(c, c->remote_port, in));
}

static enum diag_known was_paused(const struct diag_port *port)
{
    return port == NULL || port->counters[DIAG_RX_PAUSES] == IO_UNKNOWN
               ? DIAG_UNKNOWN
               : diag_known_of(port->counters[DIAG_RX_PAUSES] > 0);
}

/* Returns YES if either port was paused. Pauses are normal with flow control; they explain a
 * failure only if no frame was lost. */
enum diag_known diag_is_paused(const struct diag_case *c)
{
    return diag_or(was_paused(c->local_port), was_paused(c->remote_port));
}

enum diag_known diag_is_pause_storm(const struct diag_case *c)
{
    enum diag_known lost = diag_or(loses_out(c), loses_in(c));

    /* A switch drops what it may not send to a port for as long as that. */
    if (diag_is_rail_stopped(c)) {
        return DIAG_YES;
    }
    return diag_and(diag_is_paused(c), diag_not(lost));
}

/* Returns YES if pauses held an end of the rail and no frame was lost. */
enum diag_known diag_is_held(const struct diag_case *c)
{
    return diag_and(diag_is_port_held(c), diag_is_pause_storm(c));
}

/* ---- on any rail between the two hosts, because a handshake does not record its rail ---- */

bool diag_find_rail(const struct diag_case *c, diag_test *is_so, struct diag_case *out)
{
    *out = *c;
    for (uint32_t i = 0; i < c->local.n; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            if (diag_facing(&c->local.items[i], &c->remote.items[j]) == DIAG_YES) {
                out->local_port = &c->local.items[i];
                out->remote_port = &c->remote.items[j];
                if (is_so(out) == DIAG_YES) {
                    return true;
                }
            }
        }
    }
    return false;
}

static enum diag_known on_any_rail(const struct diag_case *c, diag_test *is_so)
{
    enum diag_known answer = diag_any_facing(c->local, c->remote);
    struct diag_case rail = *c;

    if (answer != DIAG_YES) {
        return answer;
    }
    answer = DIAG_NO;
    for (uint32_t i = 0; i < c->local.n; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            if (diag_facing(&c->local.items[i], &c->remote.items[j]) == DIAG_YES) {
                rail.local_port = &c->local.items[i];
                rail.remote_port = &c->remote.items[j];
                answer = diag_or(answer, is_so(&rail));
            }
        }
    }
    return answer;
}

/* Returns true if one of the errors is that nothing came from the peer: in time, or in answer to
 * what the kernel sent. */
static bool any_timed_out(const struct diag_error *errors, uint32_t n, const char *peer)
{
    for (uint32_t i = 0; i < n; i++) {
        int sys_errno = errors[i].error.sys_errno;
        bool is_silent = errors[i].error.status == WEFT_ERR_TIMEOUT ||
                         sys_errno == ETIMEDOUT || sys_errno == EHOSTUNREACH;

        if (is_silent && strcmp(errors[i].peer, peer) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns true if the host failed in a rendezvous over the cables, in which the blobs of others
 * come from its neighbours. */
static bool met_over_cables(const struct diag_host *host)
{
    for (uint32_t i = 0; i < host->n_errors; i++) {
        const struct weft_error *error = &host->errors[i].error;
        const struct weft_value *at = weft_error_value(error, WEFT_VALUE_RENDEZVOUS);

        if (error->phase == WEFT_PHASE_BOOT && at != NULL &&
            strcmp(at->text, "none") == 0) {
            return true;
        }
    }
    return false;
}

/* Returns true if the host waits for the peer, or waited for it until it failed or left out its
 * rail. */
static bool is_held_by(const struct diag_host *host, const char *peer)
{
    if (any_timed_out(host->errors, host->n_errors, peer) ||
        any_timed_out(host->left_out, host->n_left_out, peer)) {
        return true;
    }
    for (uint32_t i = 0; i < host->n_waits; i++) {
        bool is_through = host->waits[i].what == WEFT_WAIT_ROUND && met_over_cables(host);

        if (is_through || strcmp(host->waits[i].peer, peer) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns true if RoCE packets may have passed between the two ports. Behind a switch, what a port
 * sent may have been for others; one that counted none at all exchanged none with the other. */
static bool may_have_exchanged(const struct diag_case *c, const struct diag_port *a,
                               const struct diag_port *b)
{
    bool used_a = a->counters[DIAG_TX_PACKETS] > 0,
         used_b = b->counters[DIAG_TX_PACKETS] > 0;

    if (diag_is_one_cable(c->input, a, b) != DIAG_NO) {
        return used_a || used_b;
    }
    used_a = used_a || a->counters[DIAG_RX_PACKETS] != 0;
    used_b = used_b || b->counters[DIAG_RX_PACKETS] != 0;
    return used_a && used_b;
}

/* Returns UNKNOWN if two running hosts held each other up while none of their rails had sent a RoCE
 * packet, otherwise NO. Few devices count other frames, so the counters do not show whether
 * the cable passes any. */
static enum diag_known is_uncounted(const struct diag_case *c)
{
    bool any = false;

    if (c->peer == NULL || !c->peer->was_observed || !is_held_by(c->host, c->peer_name) ||
        !is_held_by(c->peer, c->host->name)) {
        return DIAG_NO;
    }
    for (uint32_t i = 0; i < c->local.n; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            const struct diag_port *a = &c->local.items[i], *b = &c->remote.items[j];

            if (diag_facing(a, b) == DIAG_YES) {
                any = true;
                if (may_have_exchanged(c, a, b)) {
                    return DIAG_NO;
                }
            }
        }
    }
    return any ? DIAG_UNKNOWN : DIAG_NO;
}

/* Returns true for a failed step of connection set-up. A rail is left out by policy weft, which
 * also makes its TCP connection over the cable. */
static bool is_of_set_up(const struct diag_case *c)
{
    static const enum weft_phase steps[] = {WEFT_PHASE_HELLO, WEFT_PHASE_CHALLENGE,
                                            WEFT_PHASE_AUTH, WEFT_PHASE_META,
                                            WEFT_PHASE_READY};

    for (size_t i = 0; i < WEFT_LENGTH(steps); i++) {
        if (c->phase == steps[i]) {
            return true;
        }
    }
    return c->is_left_out && c->phase == WEFT_PHASE_TCP;
}

/* Evaluates `is_so` on all rails, for a failed step of connection set-up, whose losses the queue
 * pairs of the same cable also count. Returns NO in other phases, because no counter covers the
 * network of the rendezvous. Without a rendezvous two neighbours may not have heard each other for
 * the same reasons. */
static enum diag_known on_rail_of_set_up(const struct diag_case *c, diag_test *is_so)
{
    if (is_of_set_up(c)) {
        return diag_or(on_any_rail(c, is_so), is_uncounted(c));
    }
    if (diag_is_unheard_over_cable(c)) {
        return diag_or(on_any_rail(c, is_so), DIAG_UNKNOWN);
    }
    if (c->phase == WEFT_PHASE_TCP &&
        (c->sys_errno == ETIMEDOUT || c->sys_errno == EHOSTUNREACH) &&
        diag_number(c, WEFT_VALUE_WAYS) == 1) {
        /* Without a management network the only way is the cable. */
        return on_any_rail(c, is_so) == DIAG_YES ? DIAG_YES : is_uncounted(c);
    }
    return c->phase == WEFT_PHASE_NONE ? DIAG_UNKNOWN : DIAG_NO;
}

/* Returns YES if no address of the two ports is in the same VLAN, NO if the VLANs of both are
 * unknown. */
enum diag_known diag_are_vlans_different(const struct diag_case *c)
{
    const struct diag_port *a = c->local_port, *b = c->remote_port;
    bool any_known = false, any_unknown = false, differ = false;

    for (uint32_t i = 0; i < a->n_gids; i++) {
        for (uint32_t j = 0; j < b->n_gids; j++) {
            const struct diag_gid *mine = &a->gids[i], *other = &b->gids[j];

            if (io_ip_is_link_local(&mine->ip) || io_ip_is_link_local(&other->ip)) {
                continue;
            }
            if (mine->vlan_id == IO_UNKNOWN || other->vlan_id == IO_UNKNOWN) {
                any_unknown = true;
                any_known = any_known || mine->vlan_id != other->vlan_id;
                continue;
            }
            any_known = true;
            if (mine->vlan_id == other->vlan_id) {
                return DIAG_NO;
            }
            differ = true;
        }
    }
    if (any_unknown || diag_may_lack_gids(a) || diag_may_lack_gids(b)) {
        return any_known ? DIAG_UNKNOWN : DIAG_NO;
    }
    return diag_known_of(differ);
}

/* Returns YES if frames of one host have another VLAN than the other host expects, on each of their
 * rails. Only for a connection that policy weft makes over the cables. */
enum diag_known diag_are_vlans_apart(const struct diag_case *c)
{
    struct diag_case rail = *c;
    enum diag_known all = DIAG_YES;
    bool any = false;

    if (c->phase != WEFT_PHASE_TCP ||
        diag_has_policy(c->host, WEFT_POLICY_WEFT) != DIAG_YES) {
        return DIAG_NO;
    }
    for (uint32_t i = 0; i < c->local.n; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            rail.local_port = &c->local.items[i];
            rail.remote_port = &c->remote.items[j];
            if (diag_facing(rail.local_port, rail.remote_port) == DIAG_YES) {
                all = diag_and(all, diag_are_vlans_different(&rail));
                any = true;
            }
        }
    }
    return any ? all : DIAG_NO;
}

enum diag_known diag_is_any_corrupting(const struct diag_case *c)
{
    return on_rail_of_set_up(c, diag_is_corrupting);
}

enum diag_known diag_is_any_one_way(const struct diag_case *c)
{
    return on_rail_of_set_up(c, diag_is_one_way);
}

enum diag_known diag_is_any_lossy(const struct diag_case *c)
{
    return on_rail_of_set_up(c, diag_is_lossy);
}

enum diag_known diag_is_any_held(const struct diag_case *c)
{
    enum diag_known held = on_rail_of_set_up(c, diag_is_held);

    /* Pauses are counted whatever they hold. */
    return held == DIAG_UNKNOWN && is_uncounted(c) == DIAG_UNKNOWN ? DIAG_NO : held;
}

/* Returns NO unless `is_so` is not NO for each rail between the two hosts. */
static enum diag_known on_each_rail(const struct diag_case *c, diag_test *is_so)
{
    struct diag_case rail = *c;
    enum diag_known all = DIAG_YES;
    bool any = false;

    for (uint32_t i = 0; i < c->local.n; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            rail.local_port = &c->local.items[i];
            rail.remote_port = &c->remote.items[j];
            if (diag_facing(rail.local_port, rail.remote_port) == DIAG_YES) {
                all = diag_and(all, is_so(&rail));
                any = true;
            }
        }
    }
    return any ? all : DIAG_NO;
}

/* Evaluates `is_so` for a rail that was left out before its queue pairs were connected. */
static enum diag_known on_each_rail_left_out(const struct diag_case *c, diag_test *is_so)
{
    return c->is_left_out && is_of_set_up(c) ? on_each_rail(c, is_so) : DIAG_NO;
}

static enum diag_known is_stopped(const struct diag_case *c)
{
    return diag_known_of(diag_is_stopped(c->local_port) ||
                         diag_is_stopped(c->remote_port));
}

/* Returns YES if pauses stopped each rail between the two hosts while a connection was set up, or
 * while neighbours waited for announcements. What such a cable loses or damages is then not the
 * cause. */
enum diag_known diag_is_set_up_stopped(const struct diag_case *c)
{
    return is_of_set_up(c) || diag_is_unheard_over_cable(c) ? on_each_rail(c, is_stopped)
                                                            : DIAG_NO;
}

/* Returns YES if each rail between the two hosts lost its carrier at least twice. */
enum diag_known diag_is_left_out_flapping(const struct diag_case *c)
{
    return on_each_rail_left_out(c, diag_is_flapping);
}

static enum diag_known is_down_still(const struct diag_case *c)
{
    return diag_and(diag_is_link_down(c),
                    diag_known_of(c->local_port->is_up == DIAG_NO ||
                                  c->remote_port->is_up == DIAG_NO));
}

/* Returns YES if no rail between the two hosts has carrier. Returns UNKNOWN if each lost it and has
 * it again, because it might have lost it only after it was left out. */
enum diag_known diag_is_left_out_down(const struct diag_case *c)
{
    if (on_each_rail_left_out(c, is_down_still) == DIAG_YES) {
        return DIAG_YES;
    }
    return on_each_rail_left_out(c, diag_is_link_down) == DIAG_NO ? DIAG_NO
                                                                  : DIAG_UNKNOWN;
}

/* Returns true for a rail that was left out before its queue pairs were connected, if no ports of
 * the two hosts face each other any more. */
bool diag_is_left_out_apart(const struct diag_case *c)
{
    return c->is_left_out && is_of_set_up(c) &&
           diag_any_facing(c->local, c->remote) == DIAG_NO;
}
