/* The processes of hosts: each in its host's network namespace, with the /sys of that
 * namespace, told what is its own, and gone when we are. */
#ifndef WEFT_BACKENDS_RXE_PROCESS_H
#define WEFT_BACKENDS_RXE_PROCESS_H

#include <signal.h>
#include <sys/types.h>

#include "backends/rxe/fabric.h"

struct rxe_process {
    pid_t pid;     /* 0: never started */
    int pid_fd;    /* -1: not running */
    int result_fd; /* memory files; -1: none */
    int story_fd;
    int notice_fds[2]; /* a pipe: what it reads, what we write; both stay open here */
    bool is_over;
    int wait_status; /* of waitpid(2) */
    bool was_read;   /* result and story are here */
    char *result;    /* Owned */
    size_t n_result;
    char *story; /* Owned */
    size_t n_story;
};

struct rxe_process *rxe_processes_create(uint32_t n);
/* Kills what still runs and waits for it, for a bounded time. */
void rxe_processes_destroy(struct rxe_process *processes, uint32_t n);

/* What tells a process which host it is, in WEFT_DEVICES, WEFT_MANAGEMENT, WEFT_HOST_ID; which
 * of its processes, in WEFT_PROCESS; and in WEFT_CAPTURED that its frames are looked at. */
struct rxe_identity {
    const char *devices;    /* "p0=DEVICE,p1=DEVICE" */
    const char *management; /* a netdev */
    const char *host;
    uint32_t process;
    bool is_captured;
    const struct world_setting *settings; /* besides; [n_settings] */
    uint32_t n_settings;
    bool has_private_shm; /* a /dev/shm of its own */
};

/* This program with `argv` in `place` (NULL: where we are), signals masked by `mask`. */
int rxe_process_start(struct rxe_process *process, const struct rxe_place *place,
                      char *const *argv, const struct rxe_identity *identity,
                      const sigset_t *mask);
/* ESRCH if it does not run. */
int rxe_process_signal(const struct rxe_process *process, int signal_number);
/* Notes which have ended; true if any did since the last call. */
bool rxe_processes_reap(struct rxe_process *processes, uint32_t n);
/* Sleeps until one ends, `other_fd` (or -1) is readable, or `for_ns` passed. */
void rxe_processes_wait(const struct rxe_process *processes, uint32_t n, int other_fd,
                        int64_t for_ns);
/* Tells a process that runs that `member` ended. What does not fit is lost. */
void rxe_process_tell_ended(const struct rxe_process *process, uint32_t member);
void rxe_process_ending(struct rxe_process *process, struct world_ending *out);

#endif
