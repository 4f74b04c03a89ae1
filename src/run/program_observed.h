/* What is known of the hosts of a job of programs, and how these ended. Pure. */
#ifndef WEFT_RUN_PROGRAM_OBSERVED_H
#define WEFT_RUN_PROGRAM_OBSERVED_H

#include "run/program_causes.h"
#include "run/program_words.h"

#define PROGRAM_NONE UINT32_MAX

struct program_observing {
    const struct program_causes *causes;
    struct program_words *words; /* Owned [n] */
    weft_ns first_bad_ns; /* when the first program ended, and failed; WEFT_NEVER */
    struct diag_input *out;
};

/* Whatever it ran under. */
bool program_has_exited_badly(const struct program_facts *facts);
bool program_hangs(const struct program_observing *o, uint32_t program);
bool program_is_bad(const struct program_observing *o, uint32_t program);
/* Returns when the first program that is not on `host` (or PROGRAM_NONE) ended and failed. */
weft_ns program_first_bad(const struct program_observing *o, uint32_t host);
/* Returns true if a port loses its carrier by that cut: the two ends of a cable do so together. */
bool program_shares_carrier(const struct world_spec *spec, uint32_t host, uint32_t port,
                            const struct program_cut *cut);
/* Returns NULL if there is none of that name. */
struct diag_port *program_find_port(const struct diag_host *host, const char *name);
/* Fills `out` (zero), without errors. */
void program_observe_host(const struct program_observing *o, uint32_t host,
                          struct diag_host *out);

#endif
