/* The processes of hosts: each in its host's network namespace, with the /sys of that
 * namespace, told what is its own, and gone when we are. */
#ifndef WEFT_BACKENDS_LAB_PROCESS_H
#define WEFT_BACKENDS_LAB_PROCESS_H

#include <signal.h>
#include <sys/types.h>

#include "backends/lab/fabric.h"

struct lab_process {
    pid_t pid;     /* 0: never started */
    int pid_fd;    /* -1: not running */
    int result_fd; /* memory files; -1: none */
    int story_fd;
    int notice_fds[2]; /* a pipe: what it reads, what we write; both stay open here */
    bool is_elsewhere; /* what result_fd has is both story and result */
    bool is_over;
    int wait_status; /* of waitpid(2) */
    bool was_read;   /* result and story are here */
    char *result;    /* Owned */
    size_t n_result;
    char *story; /* Owned */
    size_t n_story;
};

struct lab_process *lab_processes_create(uint32_t n);
/* Kills what still runs and waits for it, for a bounded time. */
void lab_processes_destroy(struct lab_process *processes, uint32_t n);

/* What tells a process which host it is, in WEFT_DEVICES, WEFT_MANAGEMENT, WEFT_HOST_ID; which
 * of its processes, in WEFT_PROCESS; and in WEFT_CAPTURED that its frames are looked at. */
struct lab_identity {
    const char *devices;    /* "p0=DEVICE,p1=DEVICE" */
    const char *management; /* a netdev */
    const char *host;
    uint32_t process;
    bool is_captured;
    const struct world_setting *settings; /* besides; [n_settings] */
    uint32_t n_settings;
    bool has_private_shm; /* a /dev/shm of its own */
    int stages_fd;        /* where it says what it reached; -1: nobody asks */
    uint32_t index;       /* over all hosts; WEFT_STAGES is "FD:INDEX" */
};

/* This program with `argv` in `place` (NULL: where we are), signals masked by `mask`. */
int lab_process_start(struct lab_process *process, const struct lab_place *place,
                      char *const *argv, const struct lab_identity *identity,
                      const sigset_t *mask);
/* `line` by /bin/sh: what it starts elsewhere reads `input`, a line "...", and notices, until we
 * are no more. E2BIG: `input` is more than a pipe takes. */
int lab_process_start_elsewhere(struct lab_process *process, const char *line,
                                const char *input, size_t n_input, const sigset_t *mask);
/* ESRCH if it does not run. */
int lab_process_signal(const struct lab_process *process, int signal_number);
/* Notes which have ended; true if any did since the last call. */
bool lab_processes_reap(struct lab_process *processes, uint32_t n);
/* Sleeps until one ends, one of `others` [2] (or -1) is readable, or `for_ns` passed. */
void lab_processes_wait(const struct lab_process *processes, uint32_t n,
                        const int others[2], int64_t for_ns);
/* Tells a process that runs that `member` ended. What does not fit is lost. */
void lab_process_tell_ended(const struct lab_process *process, uint32_t member);
void lab_process_ending(struct lab_process *process, struct world_ending *out);

#endif
