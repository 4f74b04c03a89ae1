/* Draws complete random settings (mesh, policy, jobs, options and overlapping faults) as the text
 * of an ordinary scenario file. The same space and seed always give the same text. */
#ifndef WEFT_SWARM_SPACE_H
#define WEFT_SWARM_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* A named part of the space of settings; see docs/swarm.md. */
struct swarm_space;

/* Returns the space called `name`, or NULL. */
const struct swarm_space *swarm_space_find(const char *name);
/* Returns the `index`th space, or NULL past the last. */
const struct swarm_space *swarm_space_at(unsigned index);
const char *swarm_space_name(const struct swarm_space *space); /* "all" */
const char *swarm_space_help(const struct swarm_space *space);

/* A backend that cannot express every scenario. */
struct swarm_backend {
    const char *name; /* "rxe" */
    /* Returns true if the scenario file `text` [n] loads, and the backend accepts it. */
    bool (*can_express)(const char *text, size_t n, void *context);
    void *context;
};

/* Appends the setting of `seed` to `out`: a scenario file that loads without errors. Its `expect`
 * accepts any result and judges invariants; whether `wire`, `verbs` and `trains` are among them is
 * drawn. What `backend` cannot express is drawn again or left out; NULL can express all. */
void swarm_draw(const struct swarm_space *space, uint64_t seed,
                const struct swarm_backend *backend, struct weft_text *out);

#endif
