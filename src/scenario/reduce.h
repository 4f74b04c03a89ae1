/* A scenario made smaller, as text: how a failing run is shrunk to what it takes to fail. */
#ifndef WEFT_SCENARIO_REDUCE_H
#define WEFT_SCENARIO_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "scenario/scenario.h"

/* Appends to `*out` the scenario `text` with its `index`th reduction, counted from 0, done:
 * without one of its faults, hosts (with their cables), cables, jobs or sizes of a job; then
 * without a `repeat`; then with a size halved. False, with nothing appended, if it has no more
 * than `index` reductions or is no YAML. The result is YAML without comments and aliases; it
 * need not be a valid scenario: load it. */
bool scenario_reduce(const char *text, size_t n_bytes, uint32_t index,
                     struct weft_text *out);

/* Appends the scenario with every --set applied and `seed:` set: what a run was, in one file.
 * False, with nothing appended, if `text` is not a YAML map or a --set does not fit. */
bool scenario_flatten(const char *text, size_t n_bytes, const struct scenario_set *sets,
                      size_t n_sets, uint64_t seed, struct weft_text *out);

#endif
