/* Ports and their cables: creation, carrier, and faults. */
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/link.h"
#include "sim/train.h"

static const struct sim_root_ops root_ops = {
    .transmit = sim_port_transmit,
    .deliver_frame = sim_port_deliver_frame,
    .deliver_packet = sim_port_deliver_packet,
};

void sim_port_check_carrier(struct sim_port *port)
{
    bool is_up = sim_port_is_up(port);
    if (is_up == port->was_up) {
        return;
    }
    port->was_up = is_up;
    if (port->is_paused) {
        port->is_paused = false; /* the port that paused it is gone */
        sim_port_note_hold(port);
        sim_port_kick(port);
    }
    sim_port_review(port);
    uint32_t n_lost = 0;
    if (!is_up) {
        sim_train_settle_link(&port->out);
        n_lost = sim_link_lose_all(&port->out);
    }
    port->out.drop_was_logged = false;
    weft_trace_event(sim_trace(port->engine), sim_now_ns(port->engine), port->host,
                     port->name, is_up ? "port_up" : "port_down", "in_flight_lost=%u",
                     n_lost);
    if (port->bridge != NULL && !is_up) {
        port->bridge_ops->carrier_lost(port->bridge, port);
    }
    if (port->nic != NULL) {
        port->engine->nic_ops->carrier(port->nic, port, is_up);
    }
    if (port->stack != NULL) {
        port->stack_ops->carrier(port->stack, port, is_up);
    }
}

struct sim_port *sim_port_create(struct sim_engine *engine,
                                 const struct sim_port_config *config)
{
    struct sim_port *port = weft_arena_calloc(&engine->arena, sizeof(*port));
    port->engine = engine;
    port->host = weft_strdup(config->host);
    port->name = weft_strdup(config->name);
    port->mac = config->mac;
    port->mtu_bytes = config->mtu_bytes;
    port->root_bps = config->rate_bps;
    port->root = config->root;
    sim_link_init(&port->out, port, sim_port_frame_arrives, sim_port_packet_arrives);
    sim_link_init(&port->loop, port, sim_port_frame_arrives, sim_port_packet_arrives);
    port->loop.to = port;
    port->has_loop_rate = config->loop_bps > 0;
    if (port->has_loop_rate) {
        port->loop.rate = sim_rate_of(config->loop_bps);
    }
    sim_port_init_transmitter(port);
    if (port->root != NULL) {
        sim_root_set_ops(port->root, &root_ops);
    }
    return port;
}

/* Leaves the far end of a cable without one. */
static void uncable(struct sim_port *port)
{
    struct sim_port *peer = port->out.to;
    if (port->network != NULL) {
        sim_network_leave(port->network, port);
    }
    if (peer != NULL) {
        sim_train_settle_link(&peer->out);
        sim_link_lose_all(&peer->out);
        peer->out.to = NULL;
        sim_link_set_transit(&peer->out, peer->out.delay_ps, 0);
        sim_link_set_rate(&peer->out, 0, NULL);
        sim_port_check_carrier(peer);
    }
}

void sim_port_destroy(struct sim_port *port)
{
    if (port == NULL) {
        return;
    }
    /* Its NIC settled them when it was destroyed. Settling one now would schedule `transmit`. */
    weft_check(!port->in_train && port->out.n_trains == 0);
    uncable(port);
    if (port->root != NULL) {
        sim_root_forget(port->root, port);
    }
    sim_cancel(port->engine, &port->transmit);
    sim_link_fini(&port->out);
    sim_link_fini(&port->loop);
    sim_queue_fini(&port->waiting);
    while (port->paths != NULL) {
        struct sim_path *path = port->paths;
        port->paths = path->next;
        free(path);
    }
    free(port->matches);
    free(port->host);
    free(port->name);
    weft_arena_free(&port->engine->arena, port, sizeof(*port));
}

static void connect_direction(const struct sim_cable_config *config,
                              struct sim_port *from, struct sim_port *to)
{
    char stream[160];
    weft_check(from->out.cable_bps == 0);
    weft_format(stream, sizeof(stream), "cable:%s:%s:%s", config->name, from->host,
                from->name);
    weft_rng_init(&from->out.rng, sim_seed(from->engine), stream);
    sim_link_configure(&from->out, config, to);
}

void sim_cable_connect(struct sim_engine *engine, const struct sim_cable_config *config,
                       struct sim_port *a, struct sim_port *b)
{
    weft_check(a->engine == engine && b->engine == engine && a != b);
    weft_check(config->rate_bps > 0);
    connect_direction(config, a, b);
    connect_direction(config, b, a);
    a->was_up = sim_port_is_up(a);
    b->was_up = sim_port_is_up(b);
    sim_port_review(a);
    sim_port_review(b);
}

void sim_network_connect(struct sim_engine *engine, const struct sim_cable_config *config,
                         struct sim_port *const *ports, size_t n_ports)
{
    struct sim_network *network = sim_network_create(ports, n_ports);
    for (size_t i = 0; i < n_ports; i++) {
        weft_check(ports[i]->engine == engine);
        ports[i]->network = network;
        connect_direction(config, ports[i], NULL);
        ports[i]->was_up = sim_port_is_up(ports[i]);
    }
}

/* ---- faults ---- */

/* The directions that a fault selects, relative to the port: at most two. */
struct directions {
    struct sim_link *links[2];
    unsigned n;
};

static struct directions select_links(struct sim_port *port, bool outwards, bool inwards)
{
    struct directions chosen = {.n = 0};
    if (outwards) {
        chosen.links[chosen.n++] = &port->out;
    }
    if (inwards && port->out.to != NULL) {
        chosen.links[chosen.n++] = &port->out.to->out;
    }
    return chosen;
}

void sim_port_set_down(struct sim_port *port, bool outwards, bool inwards, bool down)
{
    sim_train_settle(port);
    struct sim_port *peer = port->out.to;
    struct directions chosen = select_links(port, outwards, inwards);
    for (unsigned i = 0; i < chosen.n; i++) {
        chosen.links[i]->is_taken_down = down;
    }
    if (inwards && port->network != NULL) {
        port->inwards_down = down;
    }
    sim_port_check_carrier(port);
    if (peer != NULL) {
        sim_port_check_carrier(peer);
    }
}

static void set_paused(struct sim_port *port, bool paused)
{
    port->is_paused_by_fault = paused;
    port->dropped.rx_pauses += paused ? 1 : 0;
    sim_port_note_hold(port);
    sim_port_review(port);
    if (!paused) {
        sim_port_kick(port);
    }
}

void sim_port_set_paused(struct sim_port *port, bool outwards, bool inwards, bool paused)
{
    sim_train_settle(port);
    if (outwards) {
        set_paused(port, paused);
    }
    if (inwards && port->out.to != NULL) {
        set_paused(port->out.to, paused);
    }
}

void sim_port_set_mtu(struct sim_port *port, uint32_t mtu_bytes)
{
    sim_train_settle(port);
    port->mtu_bytes = mtu_bytes;
    sim_port_review(port);
}

void sim_port_set_impairment(struct sim_port *port, bool outwards, bool inwards,
                             const struct sim_impairment *impairment)
{
    sim_train_settle(port);
    struct directions chosen = select_links(port, outwards, inwards);
    for (unsigned i = 0; i < chosen.n; i++) {
        sim_link_set_impairment(chosen.links[i], impairment);
        sim_port_review(chosen.links[i]->from);
    }
}

void sim_port_set_delay(struct sim_port *port, bool outwards, bool inwards,
                        weft_ps delay_ps, weft_ps jitter_ps)
{
    sim_train_settle(port);
    struct directions chosen = select_links(port, outwards, inwards);
    for (unsigned i = 0; i < chosen.n; i++) {
        sim_link_set_transit(chosen.links[i], delay_ps, chosen.links[i]->rx_overhead_ps);
        chosen.links[i]->jitter_ps = jitter_ps;
        sim_port_review(chosen.links[i]->from);
    }
}

void sim_port_set_rate(struct sim_port *port, uint64_t rate_bps)
{
    sim_train_settle(port);
    struct sim_port *peer = port->out.to;
    sim_link_set_rate(&port->out, rate_bps, peer);
    if (peer != NULL) {
        sim_link_set_rate(&peer->out, rate_bps, port);
    }
}

void sim_port_set_path_limit(struct sim_port *port, uint32_t path_limit_bytes)
{
    sim_train_settle(port);
    struct directions chosen = select_links(port, true, true);
    for (unsigned i = 0; i < chosen.n; i++) {
        chosen.links[i]->path_limit_bytes = path_limit_bytes;
        sim_port_review(chosen.links[i]->from);
    }
}

void sim_port_add_match(struct sim_port *port, const struct sim_match *match)
{
    /* The port that sends the packet. */
    struct sim_port *from = match->is_inward ? port->out.to : port;
    if (from == NULL) {
        return;
    }
    sim_train_settle(from);
    size_t n = from->n_matches + 1u;
    from->matches = weft_realloc(from->matches, n * sizeof(*from->matches));
    from->matches[from->n_matches] = (struct sim_match_state){.match = *match};
    from->n_matches++;
    sim_port_review(from);
}

void sim_port_tap(struct sim_port *port, sim_tap tap, void *context)
{
    sim_train_settle(port);
    port->tap = tap;
    port->tap_context = context;
    sim_port_review(port);
}
