/* Any programs in the hosts of a mesh, over the kernel's soft-RoCE, while the faults of the
 * scenario happen. */
#ifndef WEFT_BACKENDS_LAB_PROGRAMS_H
#define WEFT_BACKENDS_LAB_PROGRAMS_H

#include "io/programs.h"

/* Builds the mesh, runs the programs, takes it down. WEFT_ERR_CLOSED: a signal came, and ends this
 * process on return; WEFT_ERR_ENVIRONMENT, WEFT_ERR_UNSUPPORTED: nothing was run. */
weft_status lab_programs_run(const struct world_spec *spec,
                             const struct world_programs *what, int *out_code,
                             struct weft_error *error) WEFT_MUST_CHECK;
/* WEFT_ERR_UNSUPPORTED names what foreign programs, or their devices, cannot have. `has_jobs`:
 * with a watch. */
weft_status lab_programs_can(const struct world_spec *spec, bool has_jobs,
                             struct weft_error *error) WEFT_MUST_CHECK;
/* Adds to this process's environment what programs of a host have besides. An errno. */
int lab_programs_settle(const struct world_host *host);

#endif
