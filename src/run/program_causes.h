/* Converts failed programs, and what their hosts recorded, to observations that diag/ judges by the
 * same rules as those of Weft's own jobs. Pure. */
#ifndef WEFT_RUN_PROGRAM_CAUSES_H
#define WEFT_RUN_PROGRAM_CAUSES_H

#include "diag/diag.h"
#include "run/program_look.h"
#include "run/program_verdict.h"

/* The moment at which a fault took a port's carrier away. */
struct program_cut {
    uint32_t host, port; /* in the world */
    weft_ns at_ns;
};

/* The programs [n] of one job. All times have the same origin. */
struct program_causes {
    const struct world_spec *spec;
    program_look_device *device;
    const struct program_facts *facts; /* [n] */
    const char *const *commands;       /* [n], one command line each */
    uint32_t n;
    const struct program_look *before; /* [n_hosts], when the job began */
    const struct program_look *after;  /* [n_hosts], after the job ended */
    const struct program_cut *cuts;    /* [n_cuts], of this job and earlier ones */
    uint32_t n_cuts;
};

/* Returns true if any program failed or did not end. A program that a fault killed has not
 * failed. */
bool program_causes_any(const struct program_facts *facts, uint32_t n);
/* Ends a program that runs now, in a copy of its facts, to judge what has failed so far: with a
 * failure if one of its calls has failed, and otherwise with none, because it may wait for what is
 * still to come. `look` is at its host. */
void program_end_now(struct program_facts *facts, const struct program_look *look,
                     weft_ns now);
/* Follows a fault of a port, which begins or (`undo`) ends at `now`. If the port loses its carrier,
 * appends the moment to `cuts`; a cable that another fault keeps down has none to lose. The last
 * change of a port counts. `keeps_down` [n_faults] is true while a fault keeps its port down. */
void program_cuts_follow(const struct world_spec *spec, uint32_t fault, bool undo,
                         weft_ns now, bool *keeps_down, struct program_cut *cuts,
                         uint32_t *n_cuts);
/* Adds one diag_host for each host to `out` (zeroed). The caller frees it with diag_input_fini(). A
 * program that hangs because its peer failed has no failure of its own. Lost carriers, kills and
 * stops after the first failure are not causes of it. */
void program_causes_observe(const struct program_causes *causes, struct diag_input *out);

#endif
