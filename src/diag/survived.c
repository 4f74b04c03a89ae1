/* Warns about what a job survived: retransmitted frames, a carrier that was lost and came back, a
 * cable that pause frames stopped, a failed device. Does nothing if a host failed. Reports only
 * conditions with one possible reading, so values that could hide another cause must be known and
 * harmless. */
#include <string.h>

#include "base/text.h"
#include "diag/private.h"

/* Maximum number of frames that can be in flight between the readings of the counters of two
 * ends. */
#define UNDER_WAY 4
/* More losses than this in one direction and none in the other are not chance, because at equal
 * loss rates 16 of 16 in a given direction has a probability of 2^-16. */
#define CERTAIN 16
/* Pauses that hold a port for this time can let an ACK timer of a queue pair expire: the shortest
 * that a policy sets lasts 67 ms. Ordinary flow control holds a port for microseconds at a time,
 * and no timer expires meanwhile. */
#define HELD_NS INT64_C(50000000)
/* Bytes that a packet can add to the path MTU: IPv6 40, UDP 8, BTH 12, RETH 16, ICRC 4. */
#define PACKET_OVERHEAD_MOST 80

int64_t diag_carrier_losses(const struct diag_host *host, const char *port)
{
    bool is_complete = host->has_events;
    int64_t n = 0;

    for (uint32_t i = 0; i < host->n_events; i++) {
        const struct diag_event *event = &host->events[i];
        bool is_loss = strcmp(event->type, "port_error") == 0;

        /* An event without a type, or a loss of an unnamed port, can concern this port. */
        is_complete =
            is_complete && event->type[0] != '\0' && (!is_loss || event->port[0] != '\0');
        n += is_loss && strcmp(event->port, port) == 0;
    }
    return is_complete || n > 1 ? n : IO_UNKNOWN;
}

struct rail {
    const struct diag_host *host, *peer;
    const struct diag_use *use;
    const struct diag_port *local, *remote;
};

static void start(const struct rail *rail, enum diag_code code, struct diag_finding *out)
{
    *out = (struct diag_finding){
        .entry = diag_entry(code), .severity = DIAG_WARNING, .is_survived = true};
    diag_name_place(out, rail->host->name, rail->local->name, rail->peer->name);
    diag_evidence_int(out, "survived", 1);
    diag_evidence_text(out, "local_port", rail->local->name);
    diag_evidence_text(out, "remote_port", rail->remote->name);
}

static bool is_none(const struct diag_port *port, enum diag_counter counter)
{
    return port->counters[counter] != IO_UNKNOWN && port->counters[counter] <= UNDER_WAY;
}

/* Returns true if a netdev drops no frame because of its length: it counts none, or does not count
 * them and has room for the longest one of the rail. */
static bool fits_all(const struct rail *rail, const struct diag_port *port)
{
    int64_t path_mtu = rail->use->path_mtu;

    return is_none(port, DIAG_RX_OVERSIZE) ||
           (port->counters[DIAG_RX_OVERSIZE] == IO_UNKNOWN && path_mtu != IO_UNKNOWN &&
            path_mtu + PACKET_OVERHEAD_MOST <= port->netdev_mtu);
}

/* Warns about frames that were sent but not received, if only the cable can have lost them. */
static void inspect_frames(const struct diag_input *input, const struct rail *rail,
                           struct diag_findings *out)
{
    int64_t n_out = diag_lost_frames(rail->local, rail->remote);
    int64_t n_in = diag_lost_frames(rail->remote, rail->local);
    int64_t n_most = n_out > n_in ? n_out : n_in;
    bool is_one_way = n_out == 0 || n_in == 0;
    struct diag_finding finding;

    if (rail->use->vanished_mtu != 0 || n_out == IO_UNKNOWN || n_in == IO_UNKNOWN ||
        !fits_all(rail, rail->local) || !fits_all(rail, rail->remote) ||
        (rail->local->counters[DIAG_RETRANSMITS] <= 0 &&
         rail->remote->counters[DIAG_RETRANSMITS] <= 0) ||
        n_most <= (is_one_way ? CERTAIN : UNDER_WAY) ||
        diag_is_one_cable(input, rail->local, rail->remote) != DIAG_YES) {
        return;
    }
    start(rail, is_one_way ? DIAG_LINK_ONE_WAY : DIAG_LINK_LOSSY, &finding);
    diag_evidence_int(&finding, "frames_lost_out", n_out);
    diag_evidence_int(&finding, "frames_lost_in", n_in);
    diag_say(out, &finding);
}

/* ---- behind a switch ---- */

/* All ports of one subnet and the sums of their counters. Three or more are joined by a switch. */
struct segment {
    const struct diag_host *host; /* the host of `port` */
    const struct diag_port *port; /* port with the most packets out of sequence */
    uint32_t n_ports;
    int64_t sent, received, retransmits;
    bool is_known; /* each port has all counters, and no other cause for a loss */
};

static bool is_sound(const struct diag_host *host, const struct diag_port *port)
{
    for (uint32_t i = 0; i < host->n_uses; i++) {
        if (host->uses[i].vanished_mtu != 0) {
            return false;
        }
    }
    return port->is_up == DIAG_YES && diag_carrier_losses(host, port->name) == 0 &&
           is_none(port, DIAG_RX_OVERSIZE) && is_none(port, DIAG_ICRC_ERRORS) &&
           port->counters[DIAG_OUT_OF_SEQUENCE] != IO_UNKNOWN;
}

static void count_port(struct segment *segment, const struct diag_host *host,
                       const struct diag_port *port)
{
    segment->n_ports++;
    segment->is_known = segment->is_known && is_sound(host, port);
    if (segment->port == NULL || port->counters[DIAG_OUT_OF_SEQUENCE] >
                                     segment->port->counters[DIAG_OUT_OF_SEQUENCE]) {
        segment->host = host;
        segment->port = port;
    }
}

/* Adds up `port` and all ports that face it. Uses only the first process of each machine, because
 * all its processes describe the same ports. */
static struct segment segment_of(const struct diag_input *input,
                                 const struct diag_host *host,
                                 const struct diag_port *port)
{
    struct segment segment = {
        .sent = diag_sum_in_subnet(input, host, port, DIAG_TX_PACKETS),
        .received = diag_sum_in_subnet(input, host, port, DIAG_RX_PACKETS),
        .retransmits = diag_sum_in_subnet(input, host, port, DIAG_RETRANSMITS)};

    segment.is_known = segment.sent != IO_UNKNOWN && segment.received != IO_UNKNOWN &&
                       segment.retransmits != IO_UNKNOWN;
    for (uint32_t h = 0; h < input->n_hosts; h++) {
        const struct diag_host *other = &input->hosts[h];

        for (uint32_t i = 0; strchr(other->name, '/') == NULL && i < other->n_ports;
             i++) {
            if (diag_is_in_subnet(host, port, other, &other->ports[i]) == DIAG_YES) {
                count_port(&segment, other, &other->ports[i]);
            }
        }
    }
    return segment;
}

/* Returns the number of frames that a switch between three or more ports dropped, 0 if none or
 * unknown. */
static int64_t dropped_by_switch(const struct segment *segment)
{
    int64_t lost = segment->sent - segment->received;

    return segment->is_known && segment->n_ports >= 3 && segment->retransmits > 0 &&
                   lost > UNDER_WAY * (int64_t)segment->n_ports
               ? lost
               : 0;
}

enum diag_known diag_is_lossy_segment(const struct diag_case *c)
{
    struct segment segment;
    bool is_theirs;

    if (c->local_port == NULL || c->remote_port == NULL || c->peer == NULL) {
        return DIAG_NO;
    }
    segment = segment_of(c->input, c->host, c->local_port);
    /* If no port got a packet out of sequence, none came any more where these two failed. */
    is_theirs = segment.port != NULL &&
                (segment.port->counters[DIAG_OUT_OF_SEQUENCE] == 0 ||
                 diag_is_same_machine(segment.host->name, c->host->name) ||
                 diag_is_same_machine(segment.host->name, c->peer_name));
    return diag_known_of(dropped_by_switch(&segment) > 0 && is_theirs);
}

/* Returns true if the frames that this segment lost are already reported, because each of its ports
 * leads to it. */
static bool is_segment_said(const struct diag_findings *out,
                            const struct diag_finding *finding)
{
    for (uint32_t i = 0; i < out->n; i++) {
        const struct diag_finding *other = &out->items[i];

        if (other->entry == finding->entry && strcmp(other->host, finding->host) == 0 &&
            strcmp(other->port, finding->port) == 0) {
            return true;
        }
    }
    return false;
}

/* Warns about frames that one of three or more ports sent and none received. The switch between
 * them dropped these frames, at the queue of the port with the most packets out of sequence. */
static void inspect_segment(const struct diag_input *input, const struct diag_host *host,
                            const struct diag_port *port, struct diag_findings *out)
{
    struct diag_finding finding = {.entry = diag_entry(DIAG_LINK_LOSSY),
                                   .severity = DIAG_WARNING,
                                   .is_survived = true};
    struct segment segment = segment_of(input, host, port);
    int64_t lost = dropped_by_switch(&segment);

    if (lost == 0) {
        return;
    }
    diag_name_place(&finding, segment.host->name, segment.port->name, "");
    diag_evidence_int(&finding, "survived", 1);
    diag_evidence_int(&finding, "ports_in_subnet", segment.n_ports);
    diag_evidence_int(&finding, "frames_lost", lost);
    diag_evidence_int(&finding, "retransmits", segment.retransmits);
    diag_evidence_int(&finding, "out_of_sequence",
                      segment.port->counters[DIAG_OUT_OF_SEQUENCE]);
    if (!is_segment_said(out, &finding)) {
        diag_add(out, &finding);
    }
}

/* ---- cables ---- */

static void inspect_damage(const struct diag_input *input, const struct rail *rail,
                           struct diag_findings *out)
{
    int64_t local = rail->local->counters[DIAG_ICRC_ERRORS];
    int64_t remote = rail->remote->counters[DIAG_ICRC_ERRORS];
    enum diag_known is_damaged = diag_or(diag_damages(input, rail->local, rail->remote),
                                         diag_damages(input, rail->remote, rail->local));
    struct diag_finding finding;

    if (is_damaged == DIAG_NO) {
        inspect_frames(input, rail, out);
        return;
    }
    if (is_damaged == DIAG_UNKNOWN || local == IO_UNKNOWN || remote == IO_UNKNOWN) {
        return;
    }
    start(rail, DIAG_LINK_CORRUPTING, &finding);
    diag_evidence_int(&finding, "local_icrc_errors", local);
    diag_evidence_int(&finding, "remote_icrc_errors", remote);
    diag_say(out, &finding);
}

/* Returns true if pause frames held this port until a timer of its queue pairs expired. */
static bool is_held(const struct diag_port *port)
{
    return port->counters[DIAG_RX_PAUSE_NS] >= HELD_NS &&
           port->counters[DIAG_TIMEOUTS] > 0;
}

/* Warns about pause frames that stopped a cable, on which no frame was lost. The finding names the
 * end that sent them, if only the other one was held. */
static bool inspect_pauses(const struct diag_input *input, const struct rail *rail,
                           struct diag_findings *out)
{
    const struct rail turned = {rail->peer, rail->host, rail->use, rail->remote,
                                rail->local};
    int64_t n_out = diag_lost_frames(rail->local, rail->remote);
    int64_t n_in = diag_lost_frames(rail->remote, rail->local);
    bool is_local_held = is_held(rail->local), is_remote_held = is_held(rail->remote);
    const struct rail *named;
    struct diag_finding finding;

    if ((!is_local_held && !is_remote_held) || n_out == IO_UNKNOWN ||
        n_in == IO_UNKNOWN || n_out > UNDER_WAY || n_in > UNDER_WAY ||
        diag_is_one_cable(input, rail->local, rail->remote) != DIAG_YES) {
        return false;
    }
    named = is_remote_held ? rail : &turned;
    start(named, DIAG_LINK_PAUSE_STORM, &finding);
    diag_evidence_int(&finding, "local_pause_ns",
                      named->local->counters[DIAG_RX_PAUSE_NS]);
    diag_evidence_int(&finding, "remote_pause_ns",
                      named->remote->counters[DIAG_RX_PAUSE_NS]);
    diag_evidence_int(&finding, "timeouts", named->remote->counters[DIAG_TIMEOUTS]);
    diag_say(out, &finding);
    return true;
}

/* Warns about an address that was replaced while this rail was in use: what arrived for the former
 * one was dropped until the rail was given up or connected again. */
static bool inspect_address(const struct rail *rail, struct diag_findings *out)
{
    const struct rail turned = {rail->peer, rail->host, rail->use, rail->remote,
                                rail->local};
    struct diag_case c = {.local_port = rail->local, .remote_port = rail->remote};
    struct diag_finding finding;
    bool is_local;

    c.has_local_gid = io_ip_parse(rail->use->local_gid, &c.local_gid);
    c.has_remote_gid = io_ip_parse(rail->use->remote_gid, &c.remote_gid);
    is_local = diag_addr_changed_at(&c, DIAG_NEAR) == DIAG_YES;
    if (!is_local && diag_addr_changed_at(&c, DIAG_FAR) != DIAG_YES) {
        return false;
    }
    start(is_local ? rail : &turned, DIAG_ADDR_CHANGED, &finding);
    diag_evidence_text(&finding, "former_gid",
                       is_local ? rail->use->local_gid : rail->use->remote_gid);
    diag_say(out, &finding);
    return true;
}

static void inspect_rail(const struct diag_input *input, const struct rail *rail,
                         struct diag_findings *out)
{
    int64_t near = diag_carrier_losses(rail->host, rail->local->name);
    int64_t far = diag_carrier_losses(rail->peer, rail->remote->name);
    struct rail turned = {rail->peer, rail->host, rail->use, rail->remote, rail->local};
    struct diag_finding finding;

    if (near <= 1 && far <= 1 && (near == IO_UNKNOWN || far == IO_UNKNOWN)) {
        return;
    }
    if (near == 0 && far == 0) {
        if (!inspect_address(rail, out) && !inspect_pauses(input, rail, out)) {
            inspect_damage(input, rail, out);
        }
        return;
    }
    /* Behind a switch only one end loses its carrier. */
    start(near > 0 ? rail : &turned,
          near > 1 || far > 1 ? DIAG_LINK_FLAPPING : DIAG_LINK_DOWN, &finding);
    diag_evidence_int(&finding, "carrier_lost", near > far ? near : far);
    diag_say(out, &finding);
}

/* Returns true if event `i` is the first fatal error of its device. */
static bool is_first_fatal(const struct diag_host *host, uint32_t i)
{
    const struct diag_event *event = &host->events[i];

    if (strcmp(event->type, "device_fatal") != 0 || event->device[0] == '\0') {
        return false;
    }
    for (uint32_t k = 0; k < i; k++) {
        if (strcmp(host->events[k].type, event->type) == 0 &&
            strcmp(host->events[k].device, event->device) == 0) {
            return false;
        }
    }
    return true;
}

/* Warns about the devices of a host that reported a fatal error. A process with another rail
 * continues without them. */
static void inspect_devices(const struct diag_host *host, struct diag_findings *out)
{
    struct diag_finding finding = {.entry = diag_entry(DIAG_DEVICE_FAILED),
                                   .severity = DIAG_WARNING,
                                   .is_survived = true};
    struct weft_text devices = {0};

    for (uint32_t i = 0; i < host->n_events; i++) {
        if (is_first_fatal(host, i)) {
            weft_text_add(&devices, "%s%s", devices.n > 0 ? " " : "",
                          host->events[i].device);
        }
    }
    if (devices.n > 0) {
        diag_name_place(&finding, host->name, "", "");
        diag_evidence_int(&finding, "survived", 1);
        diag_evidence_text(&finding, "device", devices.bytes);
        diag_evidence_text(&finding, "event", "device_fatal");
        diag_say(out, &finding);
    }
    weft_text_fini(&devices);
}

void diag_inspect_survived(const struct diag_input *input, struct diag_findings *out)
{
    if (diag_has_failed(input)) {
        return;
    }
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        const struct diag_host *host = &input->hosts[i];

        inspect_devices(host, out);
        for (uint32_t k = 0; strchr(host->name, '/') == NULL && k < host->n_ports; k++) {
            inspect_segment(input, host, &host->ports[k], out);
        }
        for (uint32_t k = 0; k < host->n_uses; k++) {
            struct rail rail = {.host = host, .use = &host->uses[k]};

            rail.peer = diag_find_host(input, rail.use->peer);
            rail.local = diag_find_port(host, rail.use->local_port);
            if (rail.peer == NULL || rail.local == NULL) {
                continue;
            }
            rail.remote = diag_find_port(rail.peer, rail.use->remote_port);
            if (rail.remote != NULL) {
                inspect_rail(input, &rail, out);
            }
        }
    }
}
