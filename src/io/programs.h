/* External programs that run in the hosts of a world. */
#ifndef WEFT_IO_PROGRAMS_H
#define WEFT_IO_PROGRAMS_H

#include "base/text.h"
#include "io/world.h"

/* Time between two steps of programs, by the world's clock. */
#define WORLD_PROGRAM_STEP_NS INT64_C(1000000000)

struct world_program {
    uint32_t host;
    /* Programs of one step start together, each step 1 s after the one before. */
    uint32_t step;
    char *const *argv; /* NULL-terminated; the first is searched for in PATH */
    uint32_t job; /* jobs run one after another; their steps count from their own start */
};

enum world_program_end {
    WORLD_PROGRAM_EXITED, /* exited with status `code` */
    WORLD_PROGRAM_SIGNAL, /* terminated by signal number `code` */
    WORLD_PROGRAM_KILLED, /* killed by a fault */
    /* Its job reached its limit: it was terminated, or never started. */
    WORLD_PROGRAM_LATE,
};

/* Callbacks that receive events and output of programs, instead of this process's stdout and
 * stderr. Times count from the start of the first job; `program` is an index into `items`. */
struct world_program_watch {
    void *context;
    void (*job_began)(void *context, uint32_t job, weft_ns now);
    void (*began)(void *context, uint32_t program, weft_ns now);
    /* Reports a line [n], without its newline, of stdout (`stream` 0) or stderr (1). */
    void (*line)(void *context, uint32_t program, int stream, weft_ns now,
                 const char *line, size_t n);
    void (*ended)(void *context, uint32_t program, enum world_program_end end, int code,
                  weft_ns now);
    /* Reports that a fault began, or ended if `undo`. `problem` is 0, or the errno with which it
     * failed. */
    void (*fault)(void *context, uint32_t fault, bool undo, weft_ns now, int problem);
    /* Reports that a job is over, before the next one begins. Returns true if the hosts are to be
     * inspected. Before the first job they always are. */
    bool (*over)(void *context, uint32_t job);
    /* Inspects a host, in a process of its own within it, and appends its findings to `out`. After
     * all hosts it is called with WORLD_PROGRAM_OUTSIDE, where the kernel shows the devices of all
     * hosts and their counters, which it does not show in a network namespace. */
    void (*look)(void *context, uint32_t host, struct weft_text *out);
    /* Delivers the result of `look` [n], with n = 0 if it failed. `job` is WORLD_PROGRAM_BEFORE for
     * the inspection before the first job. */
    void (*saw)(void *context, uint32_t job, uint32_t host, const char *bytes, size_t n);
    /* Reports to a witness, unless it is NULL, that a program has ended with a failure, or that a
     * call of a watched one has failed, while programs run. It is called outside the hosts; its
     * calls take no virtual time, and it must start no process. */
    void (*failing)(void *context, weft_ns now);
};
/* Counters of a device that the kernel shows in no network namespace. */
enum world_program_count {
    WORLD_PROGRAM_SENT, /* in packets, as are all others */
    WORLD_PROGRAM_RECEIVED,
    WORLD_PROGRAM_RETRIED,
    WORLD_PROGRAM_OUT_OF_SEQUENCE, /* requests */
    WORLD_PROGRAM_NOT_READY,       /* RNR NAKs sent */
    /* Requests that ended because of IBV_WC_RETRY_EXC_ERR and IBV_WC_RNR_RETRY_EXC_ERR. */
    WORLD_PROGRAM_RETRY_EXCEEDED,
    WORLD_PROGRAM_RNR_EXCEEDED,
    WORLD_PROGRAM_N_COUNTS
};
#define WORLD_PROGRAM_OUTSIDE UINT32_MAX
#define WORLD_PROGRAM_BEFORE UINT32_MAX

/* The programs of a run. All pointers must outlive it.
 *
 * Without a watch there is one job. The times of faults count from the start of the last program.
 * Once a program has failed, those that wait are not started, and those that run have `patience_ns`
 * to exit before they are terminated. The result is that of the first that failed, as in shells:
 * its exit status, 128 + N after signal N, 126 or 127 if it could not be started; otherwise 0. A
 * program that a fault kills has not failed.
 *
 * With a watch, the times of faults count from the start of the first job; moment `jobs` is when
 * all programs of the first job have started, and `row N` is when job N - 1 begins. A failure stops
 * nothing; programs that still run at the limit of their job are terminated. */
struct world_programs {
    const struct world_program *items; /* [n] */
    uint32_t n;
    bool is_tagged; /* each line of their output begins with "HOST: " */
    /* libweft-watch.so is preloaded, which records what they do with RDMA devices. */
    bool is_watched;
    weft_ns patience_ns;
    const struct world_program_watch *watch; /* or NULL */
    /* Without a watch, or NULL: as a watch, but changes nothing about how the programs run. Its
     * times are those at which starts and faults were last due, but for `failing`. Not called:
     * `job_began` and `line`, nor `look` before the job. */
    const struct world_program_watch *witness;
    uint32_t n_jobs;          /* with a watch */
    const weft_ns *limits_ns; /* with a watch: limit of each job [n_jobs] */
    void (*tap)(void *context, const struct world_frame *frame); /* or NULL */
    void *tap_context;
};

#endif
