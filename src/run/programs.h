/* Runs scenarios whose jobs are external programs (`exec`), in the hosts of the mesh over the
 * kernel's soft-RoCE. Judges them by how they end and what they print. */
#ifndef WEFT_RUN_PROGRAMS_H
#define WEFT_RUN_PROGRAMS_H

#include "run/run.h"

/* Checks what can be checked before the programs run: that every placeholder has a value, and that
 * the kernel supports the mesh and its faults. Returns true if so, or if the jobs are collectives.
 * Otherwise appends a line with its place in the file to `*why` and sets `*out`: RUN_ERROR for an
 * error in the file, RUN_ENVIRONMENT for an unsupported feature. */
bool run_programs_check(const struct scenario *scenario, struct weft_text *why,
                        enum run_result *out);

/* Implements run_scenario() for such a scenario. */
enum run_result run_programs(const struct scenario *scenario,
                             const struct run_options *options, json_t **out_document,
                             struct weft_error *error);

#endif
