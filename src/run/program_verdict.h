/* What came of the programs of a job, compared with what its `expect` says. A pure function of what
 * was seen of them: no process, no clock, no file. */
#ifndef WEFT_RUN_PROGRAM_VERDICT_H
#define WEFT_RUN_PROGRAM_VERDICT_H

#include "base/text.h"
#include "io/programs.h"
#include "scenario/scenario.h"

/* One program, once its job is over. Times count from when the first job began. */
struct program_facts {
    uint32_t host;         /* in the world */
    const char *host_name; /* outlives the facts */
    bool has_begun, has_ended;
    weft_ns began_ns, ended_ns; /* of what happened */
    bool is_stopped;            /* by a fault, and it was not continued */
    weft_ns stopped_ns;         /* if it is stopped */
    weft_ns killed_ns;          /* when a fault killed it, which ended it later; or 0 */
    enum world_program_end end; /* if it has ended, as in its `code` */
    int code;
    struct weft_text output; /* Owned; lines of both streams, as they came; never NULL */
};

/* Makes room for `n` more bytes where `output` would exceed `max`: takes whole lines out behind the
 * first `head` bytes, at least half of what follows, so that how a program began is kept, and how
 * it ended. Returns how many bytes it took. */
size_t program_output_shorten(struct weft_text *output, size_t n, size_t head,
                              size_t max);

/* How a program ended, whatever was expected. */
enum program_how {
    PROGRAM_NOT_BEGUN, /* the time of its job was over before */
    PROGRAM_NOT_RUN, /* status 126 or 127: by the custom of shells there is no such program, or
                        * it cannot be run */
    PROGRAM_EXITED,
    PROGRAM_SIGNALLED, /* but not by a fault */
    PROGRAM_KILLED,    /* by a fault */
    PROGRAM_HANGS,     /* it still ran when the time of its job was over */
};
enum program_how program_how(const struct program_facts *facts);
/* A fault stops (or continues) those of the programs [n] that run on `host`. */
void program_stop(struct program_facts *facts, uint32_t n, uint32_t host, bool is_over,
                  weft_ns now);
/* A fault kills those that run on `host`. */
void program_kill(struct program_facts *facts, uint32_t n, uint32_t host, weft_ns now);
/* Returns the status that a shell would report: 128 + N after signal N. */
int program_status(const struct program_facts *facts);

#define PROGRAM_ALL UINT32_MAX

/* One line of the judgement. */
struct program_verdict {
    uint32_t program; /* in the facts, or PROGRAM_ALL */
    bool ok;
    /* Owned; "status 0", and "status 1, its last line is 'x'". If it is ok both are about what was
     * expected. */
    struct weft_text expected, got;
};

struct program_verdicts {
    struct program_verdict *items; /* Owned [n] */
    uint32_t n;
};

/* Judges the programs [n] of a job that began at `began_ns`: of each, in their order, its end and
 * its output; then the time that all took. Aborts when out of memory. */
void program_verdicts_make(const struct scenario_exec *exec,
                           const struct program_facts *facts, uint32_t n,
                           weft_ns began_ns, struct program_verdicts *out);
void program_verdicts_fini(struct program_verdicts *verdicts);

#endif
