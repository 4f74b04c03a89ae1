/* The processes of hosts. Each runs in its host's network namespace, with the /sys of that
 * namespace, gets its identity in the environment, and is killed when this process ends. */
#ifndef WEFT_BACKENDS_LAB_PROCESS_H
#define WEFT_BACKENDS_LAB_PROCESS_H

#include <signal.h>
#include <sys/types.h>

#include "backends/lab/fabric.h"

struct lab_process {
    pid_t pid;     /* 0 if not started */
    int pid_fd;    /* -1: not running */
    int result_fd; /* memory files; -1 if none */
    int story_fd;
    int notice_fds[2]; /* pipe of notices to the process; both ends stay open here */
    /* Started by start_elsewhere(); result_fd then holds story and result. */
    bool is_elsewhere;
    bool is_over;
    int wait_status; /* of waitpid(2) */
    bool was_read;   /* `result` and `story` are valid */
    char *result;    /* Owned */
    size_t n_result;
    char *story; /* Owned */
    size_t n_story;
};

struct lab_process *lab_processes_create(uint32_t n);
/* Kills the processes that still run, waits for them up to 10 s each, and frees all. */
void lab_processes_destroy(struct lab_process *processes, uint32_t n);

/* The identity that a process gets in its environment: its host in WEFT_DEVICES, WEFT_MANAGEMENT
 * and WEFT_HOST_ID, its number in WEFT_PROCESS, and WEFT_CAPTURED if it must send each frame as a
 * packet. */
struct lab_identity {
    const char *devices;    /* "p0=DEVICE,p1=DEVICE" */
    const char *management; /* a netdev */
    const char *host;
    uint32_t process;
    bool sends_apart;
    /* [n_settings]; further environment variables. */
    const struct world_setting *settings;
    uint32_t n_settings;
    bool has_private_shm; /* mount a /dev/shm of its own */
    int stages_fd;        /* pipe for records of stages; -1 if none is needed */
    uint32_t index;       /* number among all processes; WEFT_STAGES is "FD:INDEX" */
};

/* Starts this program with `argv` in `place` (NULL: in the current namespace), with the signal
 * mask `mask`. Returns an errno. */
int lab_process_start(struct lab_process *process, const struct lab_place *place,
                      char *const *argv, const struct lab_identity *identity,
                      const sigset_t *mask);
/* Starts `line` with /bin/sh. The process elsewhere reads `input`, a line "..." and notices from
 * its standard input, which stays open as long as this process lives. Returns an errno; E2BIG if
 * `input` does not fit into a pipe. */
int lab_process_start_elsewhere(struct lab_process *process, const char *line,
                                const char *input, size_t n_input, const sigset_t *mask);
/* Sends a signal. Returns ESRCH if the process does not run. */
int lab_process_signal(const struct lab_process *process, int signal_number);
/* Records which processes have ended. Returns true if any ended since the last call. */
bool lab_processes_reap(struct lab_process *processes, uint32_t n);
/* Sleeps until a process ends, one of `others` [2] (-1: unused) is readable, or `for_ns` has
 * passed (WEFT_NEVER: without limit). */
void lab_processes_wait(const struct lab_process *processes, uint32_t n,
                        const int others[2], int64_t for_ns);
/* Sends a notice that `member` ended to a running process. Drops it if the pipe is full. */
void lab_process_report_ended(const struct lab_process *process, uint32_t member);
void lab_process_ending(struct lab_process *process, struct world_ending *out);

#endif
