/* Inspects the hosts of a fabric, each from a process of its own inside it. */
#ifndef WEFT_BACKENDS_LAB_LOOK_H
#define WEFT_BACKENDS_LAB_LOOK_H

#include "backends/lab/inside.h"
#include "backends/lab/signals.h"
#include "io/programs.h"

struct lab_looking {
    const struct lab_fabric *fabric;
    const struct lab_inside *insides; /* [n_hosts] */
    const struct lab_signals *signals;
    /* Appends what it finds to `out`, in a process inside `host`; WORLD_PROGRAM_OUTSIDE: outside
     * all hosts. */
    void (*look)(void *context, uint32_t host, struct weft_text *out);
    void *context;
};

/* Appends what `look` found in `host` to `out`. Appends only a part of it, or nothing, if the host
 * cannot be entered, a signal arrives, or the process writes nothing for 10 s. */
void lab_look(const struct lab_looking *looking, uint32_t host, struct weft_text *out);

#endif
