#include "run/carrier.h"

#include <stdlib.h>

#include "base/text.h"

struct change {
    weft_ns at;
    bool is_down;
    bool is_of[2]; /* outwards and inwards */
};

/* Sorts by time; at the same time `up` first. */
static int compare_changes(const void *a, const void *b)
{
    const struct change *x = a, *y = b;

    return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : x->is_down - y->is_down;
}

/* Returns all changes of the port's carrier in order. The caller frees them. */
static struct change *changes_of(const struct scenario *scenario, uint32_t host,
                                 uint32_t port, size_t *out_n)
{
    struct change *changes =
        weft_calloc(2 * (size_t)scenario->n_faults + 1, sizeof(*changes));
    size_t n = 0;

    for (uint32_t i = 0; i < scenario->n_faults; i++) {
        const struct world_fault *fault = &scenario->faults[i].spec;
        bool is_down = fault->kind == WORLD_FAULT_DOWN;

        if ((!is_down && fault->kind != WORLD_FAULT_UP) || fault->host != host ||
            fault->on_management || (fault->has_port && fault->port != port)) {
            continue;
        }
        changes[n] = (struct change){.at = fault->at_ns,
                                     .is_down = is_down,
                                     .is_of = {fault->direction != WORLD_INWARDS,
                                               fault->direction != WORLD_OUTWARDS}};
        n++;
        if (fault->for_ns > 0) {
            changes[n] = changes[n - 1];
            changes[n].at = fault->at_ns + fault->for_ns;
            changes[n].is_down = !is_down;
            n++;
        }
    }
    qsort(changes, n, sizeof(*changes), compare_changes);
    *out_n = n;
    return changes;
}

struct run_dark *run_carrier_dark(const struct scenario *scenario, uint32_t host,
                                  uint32_t port, size_t *out_n)
{
    int32_t link = scenario->nodes[host].ports[port].link;
    bool is_given = link >= 0 && !scenario->cables[link].up;
    bool is_down[2] = {is_given, is_given}, is_dark = is_given;
    size_t n_changes, n = 0;
    struct change *changes = changes_of(scenario, host, port, &n_changes);
    struct run_dark *darks = weft_calloc(n_changes + 1, sizeof(*darks));

    for (size_t i = 0; i < n_changes; i++) {
        for (int k = 0; k < 2; k++) {
            is_down[k] = changes[i].is_of[k] ? changes[i].is_down : is_down[k];
        }
        if ((is_down[0] || is_down[1]) == is_dark) {
            continue;
        }
        if (is_dark) {
            darks[n++].to = changes[i].at;
        } else {
            darks[n].from = changes[i].at;
        }
        is_dark = !is_dark;
    }
    if (is_dark) {
        darks[n++].to = WEFT_NEVER;
    }
    free(changes);
    *out_n = n;
    return darks;
}

weft_ns run_carrier_quiet_ns(const struct scenario *scenario, uint32_t host,
                             uint32_t port)
{
    size_t n;
    struct change *changes = changes_of(scenario, host, port, &n);
    weft_ns quiet_ns = n > 0 ? changes[n - 1].at : -1;

    free(changes);
    return quiet_ns;
}
