/* Compares the results of a job's programs with its `expect`. A pure function of the recorded
 * facts. */
#ifndef WEFT_RUN_PROGRAM_VERDICT_H
#define WEFT_RUN_PROGRAM_VERDICT_H

#include "base/text.h"
#include "io/programs.h"
#include "scenario/scenario.h"

/* Facts about one program after its job is over. Times count from the start of the first job. */
struct program_facts {
    uint32_t host;         /* index in the world */
    uint32_t id;           /* in the records of libweft-watch.so */
    const char *host_name; /* Not owned; must outlive the facts */
    bool has_begun, has_ended;
    weft_ns began_ns, ended_ns; /* valid if has_begun, has_ended */
    bool is_stopped;            /* a fault stopped it and has not continued it */
    weft_ns stopped_ns;         /* time of the last stop or continuation */
    /* When a fault killed it, even if it ended later; 0 if none did. */
    weft_ns killed_ns;
    enum world_program_end end; /* valid if has_ended; defines the meaning of `code` */
    int code;
    /* Owned; lines of both streams in the order of arrival; never NULL. */
    struct weft_text output;
};

/* Makes room for `n` more bytes if `output` would exceed `max`, and keeps its beginning and end.
 * Removes whole lines after the first `head` bytes, at least (max - head) / 2 bytes if there are
 * that many. Returns the number of bytes removed. */
size_t program_output_shorten(struct weft_text *output, size_t n, size_t head,
                              size_t max);

/* The end of a program, independent of what was expected. */
enum program_how {
    PROGRAM_NOT_BEGUN, /* its job was over before it started */
    /* Status 126 or 127, which a shell returns if a program cannot be run or does not exist. */
    PROGRAM_NOT_RUN,
    PROGRAM_EXITED,    /* with any status but those */
    PROGRAM_SIGNALLED, /* by a signal that no fault sent */
    PROGRAM_KILLED,    /* by a fault */
    PROGRAM_HANGS,     /* still running when the time of its job was over */
};
enum program_how program_how(const struct program_facts *facts);
/* Records that a fault stopped (or, if is_over, continued) the running programs of `host`. */
void program_stop(struct program_facts *facts, uint32_t n, uint32_t host, bool is_over,
                  weft_ns now);
/* Records that a fault killed the running programs of `host`. */
void program_kill(struct program_facts *facts, uint32_t n, uint32_t host, weft_ns now);
/* Returns the status that a shell would report: 128 + N after signal N. */
int program_status(const struct program_facts *facts);

#define PROGRAM_ALL UINT32_MAX

/* The verdict on one expectation. */
struct program_verdict {
    uint32_t program; /* index in the facts, or PROGRAM_ALL */
    bool ok;
    /* Owned; such as "status 0", and "status 1, its last line is 'x'". If ok, both describe what
     * was expected. */
    struct weft_text expected, got;
};

struct program_verdicts {
    struct program_verdict *items; /* Owned [n] */
    uint32_t n;
};

/* Judges the programs [n] of a job that began at `began_ns`: for each its end and its output, then
 * the time of the whole job. Aborts when out of memory. */
void program_verdicts_make(const struct scenario_exec *exec,
                           const struct program_facts *facts, uint32_t n,
                           weft_ns began_ns, struct program_verdicts *out);
void program_verdicts_fini(struct program_verdicts *verdicts);

#endif
