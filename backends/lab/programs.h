/* Runs any programs on the hosts of a mesh, over the kernel's soft-RoCE, while the faults of the
 * scenario happen. */
#ifndef WEFT_BACKENDS_LAB_PROGRAMS_H
#define WEFT_BACKENDS_LAB_PROGRAMS_H

#include "io/programs.h"

/* Builds the mesh, runs the programs and removes the mesh. Fails with WEFT_ERR_CLOSED after a
 * signal, which ends this process on return, and with WEFT_ERR_ENVIRONMENT or WEFT_ERR_UNSUPPORTED
 * if nothing was run. */
weft_status lab_programs_run(const struct world_spec *spec,
                             const struct world_programs *what, int *out_code,
                             struct weft_error *error) WEFT_MUST_CHECK;
/* Checks that foreign programs can run in the mesh of `spec`. Fails with WEFT_ERR_UNSUPPORTED,
 * naming what they or their devices cannot have. `has_jobs` is true if they are jobs of the
 * scenario. */
weft_status lab_programs_can(const struct world_spec *spec, bool has_jobs,
                             struct weft_error *error) WEFT_MUST_CHECK;
/* Adds the variables of a host's programs to this process's environment. Returns an errno. */
int lab_programs_settle(const struct world_host *host);

#endif
