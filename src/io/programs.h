/* Programs that are not ours, in the hosts of a world. */
#ifndef WEFT_IO_PROGRAMS_H
#define WEFT_IO_PROGRAMS_H

#include "base/text.h"
#include "io/world.h"

/* From one step of programs to the next, by the world's clock. */
#define WORLD_PROGRAM_STEP_NS INT64_C(1000000000)

struct world_program {
    uint32_t host;
    uint32_t
        step; /* those of one step start together, each step a second after the one before */
    char *const *argv; /* ends with NULL; the first is looked for in PATH */
    uint32_t
        job; /* jobs come one after another; their steps count from their own start */
};

enum world_program_end {
    WORLD_PROGRAM_EXITED, /* with `code` */
    WORLD_PROGRAM_SIGNAL, /* `code` is its number */
    WORLD_PROGRAM_KILLED, /* by a fault */
    WORLD_PROGRAM_LATE,   /* its job's time was over: it was ended, or never started */
};

/* Hears of programs in place of our stdout and stderr. Times count from when the first job
 * begins; a program is its place in `items`. */
struct world_program_watch {
    void *context;
    void (*job_began)(void *context, uint32_t job, weft_ns now);
    void (*began)(void *context, uint32_t program, weft_ns now);
    /* A line [n] without its end, of stdout (0) or stderr (1). */
    void (*line)(void *context, uint32_t program, int stream, weft_ns now,
                 const char *line, size_t n);
    void (*ended)(void *context, uint32_t program, enum world_program_end end, int code,
                  weft_ns now);
    /* `problem` is an errno; 0: it came. */
    void (*fault)(void *context, uint32_t fault, bool undo, weft_ns now, int problem);
    /* A job is over, and the next has not begun: returns true if the hosts are to be looked at.
     * Before the first job they are always looked at. */
    bool (*over)(void *context, uint32_t job);
    /* Looks at a host, in a process of its own within it, and appends what it sees. After all
     * hosts comes WORLD_PROGRAM_OUTSIDE: there the kernel shows the devices of all, and what they
     * count, which it does not show in a network namespace. */
    void (*look)(void *context, uint32_t host, struct weft_text *out);
    /* What a look brought [n], n = 0 if it failed; `job` is WORLD_PROGRAM_BEFORE for the one before
     * the first job. */
    void (*saw)(void *context, uint32_t job, uint32_t host, const char *bytes, size_t n);
};
/* What the kernel counts of a device, and shows in no network namespace. */
enum world_program_count {
    WORLD_PROGRAM_SENT, /* packets, as all of these */
    WORLD_PROGRAM_RECEIVED,
    WORLD_PROGRAM_RETRIED,
    WORLD_PROGRAM_OUT_OF_SEQUENCE, /* requests */
    WORLD_PROGRAM_NOT_READY,       /* RNR NAKs sent */
    WORLD_PROGRAM_N_COUNTS
};
#define WORLD_PROGRAM_OUTSIDE UINT32_MAX
#define WORLD_PROGRAM_BEFORE UINT32_MAX

/* All of it outlives the run.
 *
 * Without a watch there is one job. The time of a fault counts from when the last program starts.
 * Once one has failed, those that wait are not started, and those that run have `patience_ns` to
 * end before they are terminated. The code is that of the first that failed, as shells have it: its
 * exit status, 128 + N after signal N, 126 or 127 if it could not be started; else 0. What a fault
 * kills has not failed.
 *
 * With a watch, times of faults count from when the first job begins, `jobs` is when all programs
 * of the first job have begun, and `row N` is when job N - 1 begins. No failure stops anything;
 * what of a job still runs after its limit is terminated. */
struct world_programs {
    const struct world_program *items; /* [n] */
    uint32_t n;
    bool is_tagged; /* each line of their output begins with "HOST: " */
    weft_ns patience_ns;
    const struct world_program_watch *watch;                     /* or NULL */
    uint32_t n_jobs;                                             /* with a watch */
    const weft_ns *limits_ns;                                    /* likewise; [n_jobs] */
    void (*tap)(void *context, const struct world_frame *frame); /* or NULL */
    void *tap_context;
};

#endif
