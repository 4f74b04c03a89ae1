/* Draws complete random settings (mesh, policy, jobs, options and overlapping faults) as the text
 * of an ordinary scenario file. The same space and seed always give the same text. */
#ifndef WEFT_SWARM_SPACE_H
#define WEFT_SWARM_SPACE_H

#include <stdbool.h>
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

/* Appends the setting of `seed` to `out`: a scenario file that loads without errors. Its `expect`
 * accepts any result and judges invariants; whether `wire`, `verbs` and `trains` are among them is
 * drawn. */
void swarm_draw(const struct swarm_space *space, uint64_t seed, struct weft_text *out);

#endif
