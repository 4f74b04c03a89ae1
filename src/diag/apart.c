/* Finds cables whose two ends do not find each other in a subnet, if the ports of the cables are
 * known. Such a cable carries no data, and nothing fails if other cables carry the job. A program
 * that compares no subnets can use it all the same, because Linux takes an address without a route
 * for one on the cable. */
#include <string.h>

#include "base/text.h"
#include "diag/private.h"

/* One end of a cable whose two ports are known. */
struct end {
    const struct diag_host *host;
    const struct diag_port *port;
    /* NO only if it is certain that it shares no subnet with a port of another host, in either
     * direction. */
    enum diag_known is_facing;
    struct end_facing {
        const struct diag_host *host;
        const struct diag_port *port;
    } other; /* a port that it faces; `port` is NULL if there is none */
};

/* Returns the address of `port` that numbers its cable, or NULL. */
static const struct diag_gid *address_of(const struct diag_port *port)
{
    for (uint32_t i = 0; i < port->n_gids; i++) {
        const struct diag_gid *gid = &port->gids[i];

        if (gid->prefix_len > 0 && !io_ip_is_link_local(&gid->ip) &&
            !diag_is_extra(port, gid)) {
            return gid;
        }
    }
    return NULL;
}

/* Returns true if a connection of any process of the machine used `port`. */
static bool is_used(const struct diag_input *input, const char *machine,
                    const struct diag_port *port)
{
    for (uint32_t h = 0; h < input->n_hosts; h++) {
        const struct diag_host *host = &input->hosts[h];

        for (uint32_t i = 0; i < host->n_uses; i++) {
            if (diag_is_same_machine(host->name, machine) &&
                strcmp(host->uses[i].local_port, port->name) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Returns true if `port` can carry data, and is not known to have lost its carrier. */
static bool is_in_order(const struct diag_host *host, const struct diag_port *port)
{
    return port->is_up == DIAG_YES && port->is_opened != DIAG_NO &&
           address_of(port) != NULL && diag_carrier_losses(host, port->name) <= 0;
}

static bool is_link_local(const char *gid)
{
    struct io_ip ip;

    return io_ip_parse(gid, &ip) && io_ip_is_link_local(&ip);
}

/* Returns true if the host used the cable from `near` to `far` with the addresses of its ends. */
static bool crosses(const struct diag_host *host, const struct end *near,
                    const struct end *far)
{
    for (uint32_t i = 0; i < host->n_uses; i++) {
        const struct diag_use *use = &host->uses[i];

        if (diag_is_same_machine(host->name, near->host->name) &&
            strcmp(use->local_port, near->port->name) == 0 &&
            strcmp(use->remote_port, far->port->name) == 0 &&
            diag_is_same_machine(use->peer, far->host->name) &&
            !is_link_local(use->local_gid) && !is_link_local(use->remote_gid)) {
            return true;
        }
    }
    return false;
}

/* Returns true if a connection of any process used the cable with the addresses of its ends. */
static bool is_crossed(const struct diag_input *input, const struct end *a,
                       const struct end *b)
{
    for (uint32_t h = 0; h < input->n_hosts; h++) {
        if (crosses(&input->hosts[h], a, b) || crosses(&input->hosts[h], b, a)) {
            return true;
        }
    }
    return false;
}

static enum diag_known face(const struct diag_port *a, const struct diag_port *b)
{
    return diag_or(diag_facing(a, b), diag_facing_one_way(a, b));
}

static void look_around(const struct diag_input *input, struct end *end)
{
    end->is_facing = DIAG_NO;
    for (uint32_t h = 0; h < input->n_hosts; h++) {
        const struct diag_host *other = &input->hosts[h];

        if (diag_is_same_machine(end->host->name, other->name)) {
            continue;
        }
        if (!other->was_observed || other->n_ports == 0) {
            end->is_facing = diag_or(end->is_facing, DIAG_UNKNOWN);
        }
        for (uint32_t i = 0; i < other->n_ports; i++) {
            end->is_facing = diag_or(end->is_facing, face(end->port, &other->ports[i]));
            if (diag_facing(end->port, &other->ports[i]) == DIAG_YES) {
                end->other = (struct end_facing){other, &other->ports[i]};
            }
        }
    }
}

/* Finds the ends of `cable`. Returns false unless both are known and in order, on two machines, and
 * either used by no connection or by one over this cable. */
static bool find_ends(const struct diag_input *input, const struct diag_cable *cable,
                      struct end ends[2])
{
    const char *const hosts[] = {cable->from, cable->to};
    const char *const ports[] = {cable->from_port, cable->to_port};
    bool is_idle = true;

    for (int i = 0; i < 2; i++) {
        ends[i] = (struct end){.host = diag_find_host(input, hosts[i])};
        ends[i].port = diag_find_port(ends[i].host, ports[i]);
        if (ends[i].port == NULL || !is_in_order(ends[i].host, ends[i].port)) {
            return false;
        }
        is_idle = is_idle && !is_used(input, hosts[i], ends[i].port);
    }
    return !diag_is_same_machine(ends[0].host->name, ends[1].host->name) &&
           (is_idle || is_crossed(input, &ends[0], &ends[1]));
}

/* Returns true if find_ends() finds the ends of `cable`, and they certainly do not face each
 * other. */
static bool is_apart(const struct diag_input *input, const struct diag_cable *cable,
                     struct end ends[2])
{
    if (!find_ends(input, cable, ends) || face(ends[0].port, ends[1].port) != DIAG_NO) {
        return false;
    }
    look_around(input, &ends[0]);
    look_around(input, &ends[1]);
    return true;
}

bool diag_find_apart(const struct diag_case *c, const struct diag_port **out_local,
                     const struct diag_port **out_remote)
{
    for (uint32_t i = 0; c->peer != NULL && i < c->input->n_cables; i++) {
        struct end ends[2];

        if (!is_apart(c->input, &c->input->cables[i], ends)) {
            continue;
        }
        for (int k = 0; k < 2; k++) {
            if (diag_is_same_machine(ends[k].host->name, c->host->name) &&
                diag_is_same_machine(ends[1 - k].host->name, c->peer->name)) {
                *out_local = ends[k].port;
                *out_remote = ends[1 - k].port;
                return true;
            }
        }
    }
    return false;
}

/* ---- findings ---- */

/* Returns true if a finding already reports that the two hosts have no ports that face each
 * other. */
static bool is_reported(const struct diag_findings *out, const struct end ends[2])
{
    for (uint32_t i = 0; i < out->n; i++) {
        const struct diag_finding *said = &out->items[i];

        for (int k = 0; k < 2; k++) {
            if (said->entry->id == DIAG_ROUTE_NO_FACING_PORT &&
                diag_is_same_machine(said->host, ends[k].host->name) &&
                diag_is_same_machine(said->peer, ends[1 - k].host->name)) {
                return true;
            }
        }
    }
    return false;
}

static void add_address(struct diag_finding *out, const char *name,
                        const struct diag_port *port)
{
    const struct diag_gid *gid = address_of(port);
    char ip[IO_IP_TEXT_BYTES], text[IO_IP_TEXT_BYTES + 8];

    weft_format(text, sizeof(text), "%s/%d", io_ip_format(&gid->ip, ip, sizeof(ip)),
                gid->prefix_len);
    diag_evidence_text(out, name, text);
}

/* Adds whether a connection used the cable although its addresses are wrong. */
static void add_use(struct diag_finding *out, bool is_used)
{
    if (out->is_survived) {
        diag_evidence_int(out, "used", is_used);
    }
}

/* Returns the code of a cable whose ends face no port at all. In a run, two hosts without any other
 * cable have failed to connect, which is reported instead. */
static enum diag_code code_of(const struct end ends[2])
{
    struct diag_ports near = {ends[0].host->ports, ends[0].host->n_ports};
    struct diag_ports far = {ends[1].host->ports, ends[1].host->n_ports};
    bool is_before_run = !ends[0].host->has_uses && !ends[1].host->has_uses;

    return is_before_run && diag_any_facing(near, far) == DIAG_NO
               ? DIAG_ROUTE_NO_FACING_PORT
               : DIAG_ADDR_NO_FACING_PORT;
}

/* Returns true if the addresses of this end changed during the run, and those of the other did
 * not. */
static bool is_renumbered_alone(const struct end *end, const struct end *other)
{
    return diag_was_renumbered(end->host, end->port) && other->host->has_events &&
           !diag_was_renumbered(other->host, other->port);
}

/* Adds a finding about the end `near`. The remote port is the one that `near` faces, otherwise
 * `far`. */
static void say(const struct diag_input *input, enum diag_code code,
                const struct end *near, const struct end *far, struct diag_findings *out)
{
    struct diag_finding finding = {.entry = diag_entry(code),
                                   .severity = DIAG_ERROR,
                                   .is_survived = near->host->has_uses};
    bool faces = near->other.port != NULL;
    char text[2 * DIAG_NAME_BYTES];

    diag_name_place(&finding, near->host->name, near->port->name,
                    faces ? near->other.host->name : far->host->name);
    if (finding.is_survived) {
        finding.severity = DIAG_WARNING;
        diag_evidence_int(&finding, "survived", 1);
    }
    diag_evidence_text(&finding, "local_port", near->port->name);
    diag_evidence_text(&finding, "remote_port",
                       faces ? near->other.port->name : far->port->name);
    add_address(&finding, "address", near->port);
    weft_format(text, sizeof(text), "%s:%s", far->host->name, far->port->name);
    diag_evidence_text(&finding, "cable_leads_to", text);
    add_address(&finding, "address_there", far->port);
    add_use(&finding, is_crossed(input, near, far));
    diag_add(out, &finding);
}

/* Warns about the addresses of a cable: both ends have the same one, or only one finds the other in
 * its subnet. */
static void inspect_addresses(const struct diag_input *input, const struct end ends[2],
                              struct diag_findings *out)
{
    const struct diag_port *near = ends[0].port, *far = ends[1].port;
    bool is_same = diag_share_address(near, far, NULL) == DIAG_YES;
    bool is_one_way = !is_same && diag_facing_one_way(near, far) == DIAG_YES;
    struct diag_finding finding = {.severity = DIAG_WARNING, .is_survived = true};

    if ((!is_same && !is_one_way) || !ends[0].host->has_uses || !ends[1].host->has_uses) {
        return;
    }
    finding.entry = diag_entry(is_same ? DIAG_ADDR_DUPLICATE : DIAG_ADDR_PREFIX_MISMATCH);
    diag_name_place(&finding, ends[0].host->name, near->name, ends[1].host->name);
    diag_evidence_int(&finding, "survived", 1);
    diag_evidence_text(&finding, "local_port", near->name);
    diag_evidence_text(&finding, "remote_port", far->name);
    add_address(&finding, "address", near);
    add_address(&finding, "address_there", far);
    add_use(&finding, is_crossed(input, &ends[0], &ends[1]));
    diag_say(out, &finding);
}

void diag_inspect_apart(const struct diag_input *input, struct diag_findings *out)
{
    for (uint32_t i = 0; !diag_has_failed(input) && i < input->n_cables; i++) {
        struct end ends[2];

        if (find_ends(input, &input->cables[i], ends)) {
            inspect_addresses(input, ends, out);
        }
        if (!is_apart(input, &input->cables[i], ends) || is_reported(out, ends)) {
            continue;
        }
        for (int k = 0; k < 2; k++) {
            const struct end *near = &ends[k], *far = &ends[1 - k];

            if (is_renumbered_alone(far, near)) {
                continue;
            }
            if (near->is_facing == DIAG_NO && far->is_facing == DIAG_NO) {
                say(input, code_of(ends), near, far, out);
            } else if (near->other.port != NULL && !near->host->has_uses) {
                /* In a run the rail is left out and reported as that. */
                say(input, DIAG_NEIGH_NO_ANSWER, near, far, out);
            }
        }
    }
}
