/* Decides which ports and addresses face each other, from the observations of both ends. */
#include <string.h>

#include "diag/private.h"

bool diag_may_lack_gids(const struct diag_port *port)
{
    return port->gids_cut == DIAG_YES || diag_may_lack_addresses(port);
}

bool diag_may_lack_addresses(const struct diag_port *port)
{
    return port->gids_cut != DIAG_NO && port->n_gids >= DIAG_TOLD_GIDS_MAX;
}

/* Returns NO if a search of the port's addresses that found nothing was complete. */
static enum diag_known not_among_addresses(const struct diag_port *port)
{
    return diag_may_lack_addresses(port) ? DIAG_UNKNOWN : DIAG_NO;
}

static bool is_in(const struct diag_gid *gid, const struct io_ip *ip)
{
    return gid->prefix_len > 0 &&
           io_ip_same_subnet(&gid->ip, ip, (unsigned)gid->prefix_len);
}

/* Returns true if several ports can have the subnet of `ip`. fe80::/64 is on every port,
 * 169.254.0.0/16 only on a port with an address in it. */
static bool is_ambiguous(const struct diag_port *port, const struct io_ip *ip)
{
    for (uint32_t i = 0; io_ip_is_v4(ip) && i < port->n_gids; i++) {
        const struct diag_gid *gid = &port->gids[i];

        if (io_ip_is_v4(&gid->ip) && io_ip_is_link_local(&gid->ip)) {
            return io_ip_is_link_local(ip);
        }
    }
    return io_ip_is_link_local(ip) && !io_ip_is_v4(ip);
}

enum diag_known diag_faces(const struct diag_port *port, const struct io_ip *ip)
{
    enum diag_known answer;

    if (port == NULL || !port->has_gids || is_ambiguous(port, ip)) {
        return DIAG_UNKNOWN;
    }
    answer = not_among_addresses(port);
    for (uint32_t i = 0; i < port->n_gids; i++) {
        const struct diag_gid *gid = &port->gids[i];

        if (gid->prefix_len == IO_UNKNOWN) {
            answer = DIAG_UNKNOWN;
        } else if (is_in(gid, ip)) {
            return DIAG_YES;
        }
    }
    return answer;
}

enum diag_known diag_any_faces(struct diag_ports ports, const struct diag_port *but,
                               const struct io_ip *ip)
{
    enum diag_known answer = ports.n == 0 ? DIAG_UNKNOWN : DIAG_NO;

    for (uint32_t i = 0; i < ports.n; i++) {
        if (&ports.items[i] != but) {
            answer = diag_or(answer, diag_faces(&ports.items[i], ip));
        }
    }
    return answer;
}

/* Returns false if the GID is link-local or not an address of the port's netdev. */
static bool counts(const struct diag_gid *gid)
{
    return gid->prefix_len != 0 && !io_ip_is_link_local(&gid->ip);
}

bool diag_is_extra(const struct diag_port *port, const struct diag_gid *gid)
{
    bool is_v4 = io_ip_is_v4(&gid->ip);

    if (gid->prefix_len != (is_v4 ? 32 : 128)) {
        return false;
    }
    for (uint32_t i = 0; i < port->n_gids; i++) {
        const struct diag_gid *other = &port->gids[i];

        if (io_ip_is_v4(&other->ip) == is_v4 && counts(other) && other->prefix_len > 0 &&
            other->prefix_len < gid->prefix_len) {
            return true;
        }
    }
    return false;
}

static enum diag_known reaches(const struct diag_gid *from, const struct diag_gid *to)
{
    return from->prefix_len == IO_UNKNOWN ? DIAG_UNKNOWN
                                          : diag_known_of(is_in(from, &to->ip));
}

/* Compares all pairs of addresses of two ports. With `both_ways`, returns YES if each address of a
 * pair is in the other's subnet. Otherwise returns YES if exactly one of a pair is. That skips the
 * addresses of diag_is_extra(), because their subnets contain no other address. */
static enum diag_known compare(const struct diag_port *a, const struct diag_port *b,
                               bool both_ways)
{
    enum diag_known answer;

    if (a == NULL || b == NULL || !a->has_gids || !b->has_gids) {
        return DIAG_UNKNOWN;
    }
    answer = diag_or(not_among_addresses(a), not_among_addresses(b));
    for (uint32_t i = 0; i < a->n_gids; i++) {
        for (uint32_t k = 0; counts(&a->gids[i]) && k < b->n_gids; k++) {
            enum diag_known forth = reaches(&a->gids[i], &b->gids[k]);
            enum diag_known back = reaches(&b->gids[k], &a->gids[i]);

            if (!counts(&b->gids[k]) || (!both_ways && (diag_is_extra(a, &a->gids[i]) ||
                                                        diag_is_extra(b, &b->gids[k])))) {
                continue;
            }
            answer =
                diag_or(answer, both_ways ? diag_and(forth, back)
                                          : diag_or(diag_and(forth, diag_not(back)),
                                                    diag_and(diag_not(forth), back)));
        }
    }
    return answer;
}

enum diag_known diag_facing(const struct diag_port *a, const struct diag_port *b)
{
    return compare(a, b, true);
}

enum diag_known diag_facing_one_way(const struct diag_port *a, const struct diag_port *b)
{
    return compare(a, b, false);
}

enum diag_known diag_any_facing(struct diag_ports local, struct diag_ports remote)
{
    enum diag_known answer = local.n == 0 || remote.n == 0 ? DIAG_UNKNOWN : DIAG_NO;

    for (uint32_t i = 0; i < local.n; i++) {
        for (uint32_t j = 0; j < remote.n; j++) {
            answer = diag_or(answer, diag_facing(&local.items[i], &remote.items[j]));
        }
    }
    return answer;
}

enum diag_known diag_has_address(const struct diag_port *port)
{
    enum diag_known answer;

    if (port == NULL || !port->has_gids) {
        return DIAG_UNKNOWN;
    }
    answer = not_among_addresses(port);
    for (uint32_t i = 0; i < port->n_gids; i++) {
        const struct diag_gid *gid = &port->gids[i];
        bool is_default = gid->ip.bytes[0] == 0xfe && gid->ip.bytes[1] == 0x80;

        if (!is_default) {
            answer = diag_or(answer, gid->prefix_len == IO_UNKNOWN
                                         ? DIAG_UNKNOWN
                                         : diag_known_of(gid->prefix_len > 0));
        }
    }
    return answer;
}

enum diag_known diag_share_address(const struct diag_port *a, const struct diag_port *b,
                                   struct io_ip *out)
{
    enum diag_known answer;

    if (!a->has_gids || !b->has_gids) {
        return DIAG_UNKNOWN;
    }
    answer = diag_or(not_among_addresses(a), not_among_addresses(b));
    for (uint32_t i = 0; i < a->n_gids; i++) {
        const struct diag_gid *mine = &a->gids[i];
        const struct diag_gid *other = diag_gid_of(b, true, &mine->ip);

        if (!counts(mine) || other == NULL || !counts(other)) {
            continue;
        }
        if (mine->prefix_len > 0 && other->prefix_len > 0) {
            if (out != NULL) {
                *out = mine->ip;
            }
            return DIAG_YES;
        }
        answer = DIAG_UNKNOWN;
    }
    return answer;
}

const struct diag_gid *diag_gid_of(const struct diag_port *port, bool has_gid,
                                   const struct io_ip *gid)
{
    for (uint32_t i = 0; port != NULL && has_gid && i < port->n_gids; i++) {
        if (io_ip_equal(&port->gids[i].ip, gid)) {
            return &port->gids[i];
        }
    }
    return NULL;
}

enum diag_known diag_is_device_gone(const struct diag_host *host, const char *port)
{
    size_t length = strcspn(port, "/");
    enum diag_known answer = host->has_events ? DIAG_NO : DIAG_UNKNOWN;

    for (uint32_t i = 0; i < host->n_events; i++) {
        const struct diag_event *event = &host->events[i];
        bool is_fatal = strcmp(event->type, "device_fatal") == 0;

        if (is_fatal && strlen(event->device) == length &&
            strncmp(event->device, port, length) == 0) {
            return DIAG_YES;
        }
        if (event->type[0] == '\0' || (is_fatal && event->device[0] == '\0')) {
            answer = DIAG_UNKNOWN;
        }
    }
    return answer;
}

enum diag_known diag_was_down(const struct diag_host *host, const struct diag_port *port)
{
    if (port == NULL) {
        return DIAG_UNKNOWN;
    }
    if (host != NULL && diag_is_device_gone(host, port->name) == DIAG_YES) {
        return DIAG_NO; /* the device failed, not the cable */
    }
    if (port->is_up == DIAG_NO) {
        return DIAG_YES;
    }
    for (uint32_t i = 0; host != NULL && i < host->n_events; i++) {
        if (strcmp(host->events[i].type, "port_error") == 0 &&
            strcmp(host->events[i].port, port->name) == 0) {
            return DIAG_YES;
        }
    }
    return host != NULL && host->has_events && port->is_up == DIAG_YES ? DIAG_NO
                                                                       : DIAG_UNKNOWN;
}

bool diag_was_renumbered(const struct diag_host *host, const struct diag_port *port)
{
    bool any = false;

    for (uint32_t i = 0; host != NULL && i < host->n_events; i++) {
        const struct diag_event *event = &host->events[i];

        any = any || (strcmp(event->type, "gid_change") == 0 &&
                      (port == NULL || strcmp(event->port, port->name) == 0));
    }
    return any;
}

/* Returns the name of the first process that has `port`, or "". */
static const char *owner_of(const struct diag_input *input, const struct diag_port *port)
{
    for (uint32_t h = 0; h < input->n_hosts; h++) {
        const char *name = input->hosts[h].name;
        struct diag_ports ports = diag_ports_of(input, name);

        for (uint32_t i = 0; i < ports.n; i++) {
            if (&ports.items[i] == port) {
                return name;
            }
        }
    }
    return "";
}

/* Returns true if both are one port of one machine, which each of its processes describes. */
static bool is_same_port(const char *owner_a, const struct diag_port *a,
                         const char *owner_b, const struct diag_port *b)
{
    return a == b ||
           (diag_is_same_machine(owner_a, owner_b) && strcmp(a->name, b->name) == 0);
}

/* Returns true if `port` faces a GID that another host than its own and `peer` used. The port of
 * that GID may have lost it since. */
static bool faced_others(const struct diag_input *input, const struct diag_port *port,
                         const char *owner, const char *peer)
{
    for (uint32_t h = 0; h < input->n_hosts; h++) {
        const struct diag_host *host = &input->hosts[h];

        for (uint32_t i = 0; i < host->n_uses; i++) {
            const struct diag_use *use = &host->uses[i];
            const char *const users[] = {host->name, use->peer};
            const char *const gids[] = {use->local_gid, use->remote_gid};
            struct io_ip gid;

            for (int k = 0; k < 2; k++) {
                if (!diag_is_same_machine(users[k], owner) &&
                    !diag_is_same_machine(users[k], peer) && io_ip_parse(gids[k], &gid) &&
                    diag_faces(port, &gid) == DIAG_YES) {
                    return true;
                }
            }
        }
    }
    return false;
}

enum diag_known diag_is_one_cable(const struct diag_input *input,
                                  const struct diag_port *a, const struct diag_port *b)
{
    enum diag_known answer = diag_facing(a, b);
    const char *owner_a = owner_of(input, a), *owner_b = owner_of(input, b);

    if (owner_a[0] != '\0' && owner_b[0] != '\0' &&
        faced_others(input, a, owner_a, owner_b)) {
        return DIAG_NO;
    }
    for (uint32_t h = 0; h < input->n_hosts; h++) {
        struct diag_ports ports = diag_ports_of(input, input->hosts[h].name);

        if (ports.n == 0) {
            answer = diag_and(answer, DIAG_UNKNOWN);
        }
        for (uint32_t i = 0; i < ports.n; i++) {
            const struct diag_port *other = &ports.items[i];

            if (!is_same_port(owner_a, a, input->hosts[h].name, other) &&
                !is_same_port(owner_b, b, input->hosts[h].name, other)) {
                answer = diag_and(answer, diag_not(diag_facing(a, other)));
            }
        }
    }
    return answer;
}

enum diag_known diag_is_joined(const struct diag_input *input, const char *host,
                               const char *port, const char *peer, const char *other)
{
    enum diag_known answer = DIAG_UNKNOWN;

    for (uint32_t i = 0; i < input->n_cables; i++) {
        const struct diag_cable *cable = &input->cables[i];
        const char *const hosts[] = {cable->from, cable->to};
        const char *const ports[] = {cable->from_port, cable->to_port};

        for (int k = 0; k < 2; k++) {
            bool is_near =
                diag_is_same_machine(hosts[k], host) && strcmp(ports[k], port) == 0;
            bool is_far =
                diag_is_same_machine(hosts[k], peer) && strcmp(ports[k], other) == 0;

            if (is_near && diag_is_same_machine(hosts[1 - k], peer) &&
                strcmp(ports[1 - k], other) == 0) {
                return DIAG_YES;
            }
            if ((is_near || is_far) && diag_find_host(input, hosts[1 - k]) != NULL) {
                answer = DIAG_NO;
            }
        }
    }
    return answer;
}

/* Returns true if the frames that `to` did not receive never left the host of `from`, a software
 * device. Requests that `to` received again, and none after a gap, show that this direction works
 * and that the answers are lost. With the answers, ARP replies are lost: after some seconds the
 * neighbour entry expires, and the IP stack drops packets that the device has counted as sent. */
static bool are_unsent(const struct diag_port *from, const struct diag_port *to)
{
    return from->is_software == DIAG_YES && from->counters[DIAG_RETRANSMITS] > 0 &&
           from->counters[DIAG_RX_DUPLICATES] == 0 &&
           to->counters[DIAG_RX_DUPLICATES] > 0 &&
           to->counters[DIAG_OUT_OF_SEQUENCE] == 0;
}

int64_t diag_lost_frames(const struct diag_port *from, const struct diag_port *to)
{
    int64_t sent = from->counters[DIAG_TX_PACKETS];
    int64_t received = to->counters[DIAG_RX_PACKETS];

    if (sent < 0 || received < 0) {
        return IO_UNKNOWN;
    }
    return sent > received && !are_unsent(from, to) ? sent - received : 0;
}

enum diag_known diag_is_default_gid(bool has_gid, const struct io_ip *ip)
{
    return has_gid ? diag_known_of(ip->bytes[0] == 0xfe && ip->bytes[1] == 0x80)
                   : DIAG_UNKNOWN;
}

enum diag_known diag_is_in_subnet(const struct diag_host *host,
                                  const struct diag_port *port,
                                  const struct diag_host *other,
                                  const struct diag_port *other_port)
{
    enum diag_known faces = diag_facing(port, other_port);

    if (other_port == port) {
        return DIAG_YES;
    }
    return faces == DIAG_YES
               ? diag_known_of(!diag_is_same_machine(host->name, other->name))
               : faces;
}

int64_t diag_sum_in_subnet(const struct diag_input *input, const struct diag_host *host,
                           const struct diag_port *port, enum diag_counter counter)
{
    int64_t sum = 0;

    for (uint32_t h = 0; h < input->n_hosts; h++) {
        const struct diag_host *other = &input->hosts[h];

        if (other->n_ports == 0) {
            return IO_UNKNOWN;
        }
        /* All processes of a machine describe the same ports. */
        for (uint32_t i = 0; strchr(other->name, '/') == NULL && i < other->n_ports;
             i++) {
            int64_t count = other->ports[i].counters[counter];

            switch (diag_is_in_subnet(host, port, other, &other->ports[i])) {
            case DIAG_YES:
                if (count < 0 || __builtin_add_overflow(sum, count, &sum)) {
                    return IO_UNKNOWN;
                }
                break;
            case DIAG_UNKNOWN:
                return IO_UNKNOWN;
            case DIAG_NO:
                break;
            }
        }
    }
    return sum;
}
