/* Rules about pause frames that hold a port while a connection is set up: it cannot resolve its
 * neighbour, or its queue pairs get no answer. RoCE counters do not show the former, because no
 * queue pair has sent anything. */
#include <string.h>

#include "diag/private.h"

/* Time for which a probe waits for one answer: it fails before pauses have lasted for HELD_NS. mlx5
 * takes a port for stalled by pauses after as long (MLX5E_PFC_PREVEN_AUTO_TOUT_MSEC). */
#define PROBE_NS INT64_C(100000000)
/* Minimum time for which pauses must have held a port. Modify to RTR waits at least this long for a
 * neighbour. Ordinary flow control holds a port for microseconds at a time. The counter is the sum
 * over the run, so that a long run can reach this time without one long pause. */
#define HELD_NS INT64_C(1000000000)

static bool counts_pauses(const struct diag_port *port)
{
    return port != NULL && (port->counters[DIAG_RX_PAUSES] != IO_UNKNOWN ||
                            port->counters[DIAG_RX_PAUSE_NS] != IO_UNKNOWN);
}

static enum diag_known is_held(const struct diag_port *port)
{
    if (!counts_pauses(port)) {
        return DIAG_UNKNOWN;
    }
    if (port->counters[DIAG_RX_PAUSE_NS] != IO_UNKNOWN) {
        return diag_known_of(port->counters[DIAG_RX_PAUSE_NS] >= HELD_NS);
    }
    return port->counters[DIAG_RX_PAUSES] == 0 ? DIAG_NO : DIAG_UNKNOWN;
}

/* Returns NO if the port was without a carrier for too short a time to make a resolution fail, YES
 * if it has none now. */
static enum diag_known was_dark(const struct diag_host *host,
                                const struct diag_port *port)
{
    weft_ns down_at = IO_UNKNOWN, dark_ns = 0;

    if (port == NULL || host == NULL) {
        return DIAG_UNKNOWN;
    }
    if (port->is_up != DIAG_YES || !host->has_events) {
        return port->is_up == DIAG_NO ? DIAG_YES : DIAG_UNKNOWN;
    }
    for (uint32_t i = 0; i < host->n_events; i++) {
        const struct diag_event *event = &host->events[i];

        if (event->type[0] == '\0' || event->at_ns < 0) {
            return DIAG_UNKNOWN;
        }
        if (strcmp(event->port, port->name) != 0) {
            continue;
        }
        if (strcmp(event->type, "port_error") == 0) {
            down_at = event->at_ns;
        } else if (strcmp(event->type, "port_active") == 0 && down_at != IO_UNKNOWN) {
            if (event->at_ns < down_at || event->at_ns - down_at >= HELD_NS - dark_ns) {
                return DIAG_UNKNOWN;
            }
            dark_ns += event->at_ns - down_at;
            down_at = IO_UNKNOWN;
        }
    }
    return down_at == IO_UNKNOWN ? DIAG_NO : DIAG_UNKNOWN;
}

/* Returns NO if the cable has its carrier, and had it but for moments. One end that observed so is
 * sufficient, because both ends share the carrier. */
static enum diag_known was_cable_dark(const struct diag_case *c)
{
    enum diag_known near = was_dark(c->host, c->local_port);
    enum diag_known far = was_dark(c->peer, c->remote_port);

    if (near == DIAG_YES || far == DIAG_YES) {
        return DIAG_YES;
    }
    return near == DIAG_NO || far == DIAG_NO ? DIAG_NO : DIAG_UNKNOWN;
}

enum diag_known diag_is_port_held(const struct diag_case *c)
{
    /* Many devices count no pauses, and that alone is no reason to suspect them. */
    bool counts_any = counts_pauses(c->local_port) || counts_pauses(c->remote_port);

    return counts_any ? diag_or(is_held(c->local_port), is_held(c->remote_port))
                      : DIAG_NO;
}

/* Returns true if pauses of the port lasted for `ns` each on average. */
static bool is_stopped_for(const struct diag_port *port, int64_t ns)
{
    return port != NULL && port->counters[DIAG_RX_PAUSES] > 0 &&
           port->counters[DIAG_RX_PAUSE_NS] / ns >= port->counters[DIAG_RX_PAUSES];
}

bool diag_is_stopped(const struct diag_port *port)
{
    return is_stopped_for(port, HELD_NS);
}

bool diag_is_rail_stopped(const struct diag_case *c)
{
    int64_t ns = c->phase == WEFT_PHASE_PROBE ? PROBE_NS : HELD_NS;

    return is_stopped_for(c->local_port, ns) || is_stopped_for(c->remote_port, ns);
}

enum diag_known diag_is_held_at_rtr(const struct diag_case *c)
{
    /* A neighbour was resolved if small messages were exchanged. */
    return diag_way_works(c)
               ? DIAG_NO
               : diag_and(diag_is_port_held(c), diag_not(was_cable_dark(c)));
}

static bool was_paused(const struct diag_port *port)
{
    return port != NULL && port->counters[DIAG_RX_PAUSES] > 0;
}

enum diag_known diag_pauses_other_at(const struct diag_case *c, enum diag_end end)
{
    const struct diag_port *here = end == DIAG_NEAR ? c->local_port : c->remote_port;
    const struct diag_port *there = end == DIAG_NEAR ? c->remote_port : c->local_port;

    if (here == NULL || there == NULL || was_paused(here) || !was_paused(there)) {
        return DIAG_NO;
    }
    return diag_is_one_cable(c->input, here, there);
}
