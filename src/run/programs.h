/* Scenarios whose jobs are programs that are not ours (`exec`): they run in the hosts of the mesh
 * over the kernel's soft-RoCE, and are judged by how they end and by what they write. */
#ifndef WEFT_RUN_PROGRAMS_H
#define WEFT_RUN_PROGRAMS_H

#include "run/run.h"

/* What can be known before the programs run: that every placeholder has a value, and that the
 * kernel can have the mesh and its faults. True if all is well, or the jobs are collectives. Else
 * `*why` (appended to) is a line with its place in the file, and `*out` the verdict: RUN_ERROR for
 * a mistake in the file, RUN_ENVIRONMENT for what the kernel cannot do. */
bool run_programs_check(const struct scenario *scenario, struct weft_text *why,
                        enum run_result *out);

/* run_scenario of such a scenario. */
enum run_result run_programs(const struct scenario *scenario,
                             const struct run_options *options, json_t **out_document,
                             struct weft_error *error);

#endif
