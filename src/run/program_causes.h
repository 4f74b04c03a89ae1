/* From programs that failed, and what their hosts saw of themselves, to the observations that diag/
 * judges by the same rules as a job's of Weft. Pure. */
#ifndef WEFT_RUN_PROGRAM_CAUSES_H
#define WEFT_RUN_PROGRAM_CAUSES_H

#include "diag/diag.h"
#include "run/program_look.h"
#include "run/program_verdict.h"

/* A fault took a port's carrier away. */
struct program_cut {
    uint32_t host, port; /* in the world */
    weft_ns at_ns;
};

/* The programs [n] of one job. Times count from one moment. */
struct program_causes {
    const struct world_spec *spec;
    program_look_device *device;
    const struct program_facts *facts; /* [n] */
    const char *const *commands;       /* [n], each a text */
    uint32_t n;
    const struct program_look *before; /* [n_hosts], as the job began */
    const struct program_look *after;  /* [n_hosts] */
    const struct program_cut *cuts;    /* [n_cuts] of this job, or of ones before */
    uint32_t n_cuts;
};

/* Returns true if any program failed, or did not end: what a fault kills has not failed. */
bool program_causes_any(const struct program_facts *facts, uint32_t n);
/* Adds to `out` (zero) a host each; the caller's to fini. A program that waits for one that ended
 * with a failure waits because of it, and has none of its own. What faults did after the first such
 * end explains nothing: carriers, and processes that were killed or stopped. */
void program_causes_observe(const struct program_causes *causes, struct diag_input *out);

#endif
