/* `weft lab diagnose`: findings about the hosts of a lab as they are, and about the programs that
 * run in it or ran last. */
#ifndef WEFT_CLI_LAB_DIAGNOSE_H
#define WEFT_CLI_LAB_DIAGNOSE_H

#include <jansson.h>

#include "cli/cli.h"
#include "run/program_verdict.h"

/* Programs of a lab that ran at overlapping times. The first program that starts while no other
 * runs begins a new session. Of those that have ended, the last 64 are kept. */
struct lab_session {
    struct program_facts *facts; /* Owned [n] */
    struct weft_text *commands;  /* Owned [n]; command lines */
    uint32_t *ids;               /* Owned [n] */
    uint32_t n;
};

/* Times are those of the lab's clock; `folder` has the programs' files. */
void lab_session_add(struct lab_session *session, const struct world_host *host,
                     uint32_t index, uint32_t id, char *const *argv, weft_ns begins_ns);
/* Records the end of program `id` and keeps its output; ignores other numbers. */
void lab_session_end(struct lab_session *session, uint32_t id, int code, weft_ns now,
                     const char *folder);
/* Records a fault that begins now; NULL: all faults end. */
void lab_session_fault(struct lab_session *session, const struct world_fault *fault,
                       weft_ns now);
void lab_session_fini(struct lab_session *session);

/* Returns the document of `weft lab diagnose --json` from what backend_lab_look() wrote [n]; NULL
 * if that is malformed. The caller frees it. */
json_t *lab_diagnosis(const struct world_spec *spec, const struct lab_session *session,
                      const char *folder, weft_ns now, const char *looks, size_t n);

/* Returns the document of failed_findings() about the programs of the session, or, if `id` is none
 * of them, one without findings. If `n_now` is not 0, programs that run have failed only if a call
 * of them has, and there are no findings if none of the `n_now` programs from `id` on has failed.
 * NULL if what backend_lab_look() wrote is malformed. The caller frees it. */
json_t *lab_failure(const struct world_spec *spec, const struct lab_session *session,
                    uint32_t id, uint32_t n_now, const char *folder, weft_ns now,
                    const char *looks, size_t n);

/* Asks the lab for its document and prints it. Returns an exit status. */
int lab_diagnose(const struct cli_options *options);
/* Prints the findings about program `id`, which failed, to stderr. Prints nothing if there are none
 * or the lab has gone. */
void lab_tell_failure(const struct cli_options *options, unsigned long id);
/* Asks for the findings about the `n` programs from `id` on, while they run. Returns a descriptor
 * from which the answer for lab_tell_answer() is read, to its end; -1 if the lab has gone. */
int lab_ask_failure(const struct cli_options *options, unsigned long id, size_t n);
/* Prints the findings of an answer to stderr. Returns false if there are none. */
bool lab_tell_answer(const struct cli_options *options, const struct weft_text *answer);

#endif
