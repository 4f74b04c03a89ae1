/* Reduces a scenario as text, to shrink a failing run to the minimum that still fails. */
#ifndef WEFT_SCENARIO_REDUCE_H
#define WEFT_SCENARIO_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "scenario/scenario.h"

/* Appends to `*out` the scenario `text` with its `index`th reduction applied, counted from 0:
 * one of its faults, hosts (with their cables), cables, jobs or sizes of a job removed; then a
 * `repeat` removed; then a size halved. Returns false and appends nothing if it has no more
 * than `index` reductions or is not YAML. The result is YAML without comments and aliases; it
 * need not be a valid scenario. */
bool scenario_reduce(const char *text, size_t n_bytes, uint32_t index,
                     struct weft_text *out);

/* Appends the scenario with every --set applied and `seed:` set, so that one file describes a
 * run. Returns false and appends nothing if `text` is not a YAML map or a --set does not fit. */
bool scenario_flatten(const char *text, size_t n_bytes, const struct scenario_set *sets,
                      size_t n_sets, uint64_t seed, struct weft_text *out);

#endif
