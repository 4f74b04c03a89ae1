/* Finds the other ends of cables. */
#include <stdlib.h>

#include "base/text.h"
#include "run/asks.h"

bool run_far_end(const struct world_spec *spec, uint32_t host, uint32_t port,
                 struct world_end *out)
{
    for (uint32_t c = 0; c < spec->n_cables; c++) {
        for (unsigned e = 0; e < 2; e++) {
            const struct world_end *end = &spec->cables[c].ends[e];

            if (!end->is_switch && end->node == host && end->port == port) {
                *out = spec->cables[c].ends[1 - e];
                return true;
            }
        }
    }
    return false;
}

/* Returns true if the switches are connected. Spreads from one over cables between switches until
 * no other is reached. */
static bool are_connected(const struct world_spec *spec, uint32_t from, uint32_t to)
{
    bool *is_reached = weft_calloc(spec->n_switches + 1, sizeof(*is_reached));
    bool has_grown = true, is_it;

    is_reached[from] = true;
    while (has_grown) {
        has_grown = false;
        for (uint32_t c = 0; c < spec->n_cables; c++) {
            const struct world_end *ends = spec->cables[c].ends;

            if (ends[0].is_switch && ends[1].is_switch &&
                is_reached[ends[0].node] != is_reached[ends[1].node]) {
                is_reached[ends[0].node] = is_reached[ends[1].node] = true;
                has_grown = true;
            }
        }
    }
    is_it = is_reached[to];
    free(is_reached);
    return is_it;
}

bool run_is_wired(const struct world_spec *spec, uint32_t host, uint32_t port,
                  uint32_t peer, uint32_t peer_port)
{
    struct world_end far, other;

    if (!run_far_end(spec, host, port, &far)) {
        return false;
    }
    if (!far.is_switch) {
        return far.node == peer && far.port == peer_port;
    }
    return run_far_end(spec, peer, peer_port, &other) && other.is_switch &&
           are_connected(spec, far.node, other.node);
}
