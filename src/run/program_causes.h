/* From programs that failed, and what their hosts saw of themselves, to the observations that diag/
 * judges by the same rules as a job's of Weft. Pure. */
#ifndef WEFT_RUN_PROGRAM_CAUSES_H
#define WEFT_RUN_PROGRAM_CAUSES_H

#include "diag/diag.h"
#include "run/program_look.h"
#include "run/program_verdict.h"

/* The programs [n] of one job. */
struct program_causes {
    const struct world_spec *spec;
    program_look_device *device;
    const struct program_facts *facts; /* [n] */
    const char *const *commands;       /* [n], each a text */
    uint32_t n;
    const struct program_look *before; /* [n_hosts], or not seen: no carrier was lost */
    const struct program_look *after;  /* [n_hosts] */
    const bool *is_stopped;            /* [n_hosts]: all that runs there, for good */
};

/* Returns true if any program failed, or did not end: what a fault kills has not failed. */
bool program_causes_any(const struct program_facts *facts, uint32_t n);
/* Adds to `out` (zero) a host each; the caller's to fini. Where programs ended with a failure,
 * those that wait for them wait because of it, and have none of their own. */
void program_causes_observe(const struct program_causes *causes, struct diag_input *out);

#endif
