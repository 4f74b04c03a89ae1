/* Observations of the hosts of a job of programs, and of how the programs ended. Pure. */
#ifndef WEFT_RUN_PROGRAM_OBSERVED_H
#define WEFT_RUN_PROGRAM_OBSERVED_H

#include "run/program_causes.h"
#include "run/program_words.h"

#define PROGRAM_NONE UINT32_MAX

struct program_observing {
    const struct program_causes *causes;
    struct program_words *words; /* Owned [n] */
    /* When the first failed program ended; WEFT_NEVER if none failed. */
    weft_ns first_bad_ns;
    struct diag_input *out;
};

/* Returns true if the program failed, including one that timeout(1) ended. */
bool program_has_exited_badly(const struct program_facts *facts);
bool program_hangs(const struct program_observing *o, uint32_t program);
bool program_is_bad(const struct program_observing *o, uint32_t program);
/* Returns when the first failed program that is not on `host` ended; WEFT_NEVER if none failed.
 * PROGRAM_NONE excludes no host. */
weft_ns program_first_bad(const struct program_observing *o, uint32_t host);
/* Returns true if the port loses its carrier with that cut, because it is the port or the other end
 * of its cable. */
bool program_shares_carrier(const struct world_spec *spec, uint32_t host, uint32_t port,
                            const struct program_cut *cut);
/* Fills `out` (zeroed) except for errors. */
void program_observe_host(const struct program_observing *o, uint32_t host,
                          struct diag_host *out);

#endif
