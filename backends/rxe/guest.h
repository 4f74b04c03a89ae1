/* A guest whose kernel has rdma_rxe: User Mode Linux, an ordinary program that needs neither root
 * nor KVM (`make rxe-guest`). It sees this machine's own files (hostfs), so this program runs
 * inside it with the same arguments. The files of a guest are in a scratch folder, which is removed
 * with the guest: argv, environ and cwd (what to run), out, err and exit (its output and exit
 * status), results (what it kept for a listener), console (messages of its kernel), init (this
 * program), pid and owner (for `weft cleanup`). */
#ifndef WEFT_BACKENDS_RXE_GUEST_H
#define WEFT_BACKENDS_RXE_GUEST_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "backends/lab/fabric.h"
#include "backends/rxe/guest_end.h"
#include "base/error.h"
#include "base/log.h"

/* The variable with the scratch folder of a guest, for its first process. */
#define RXE_GUEST_SCRATCH "WEFT_GUEST_SCRATCH"
/* Set in the environment of all processes inside a guest; "virtual" in virtual time. */
#define RXE_GUEST_MARKER LAB_GUEST_MARKER

/* The variable with a descriptor of the scratch folder, in a guest with a tender or a listener. */
#define RXE_GUEST_FOLDER "WEFT_GUEST_FOLDER"

/* Works beside a guest while its output is copied. */
struct rxe_guest_tender {
    void *context;
    /* Called when the guest's folder exists and the guest does not run yet. */
    weft_status (*begin)(void *context, const char *scratch, struct weft_error *error);
    /* Waits a short time for `fds` [n], whose revents it sets, and for its own events. `pid` is the
     * guest's kernel. Returns false to end the guest. */
    bool (*tend)(void *context, pid_t pid, struct pollfd *fds, size_t n);
    /* Returns true if the guest is stopped and needs no processor. */
    bool (*is_idle)(const void *context);
};

/* Called when a guest that was started has ended, before a signal that ended it ends this
 * process. */
struct rxe_guest_listener {
    void *context;
    void (*ended)(void *context, const struct rxe_guest_end *end);
};

struct rxe_guest_options {
    int time_limit_s; /* 0: one hour; then the guest is killed */
    int memory_mib;   /* 0: WEFT_GUEST_MEMORY, or 1024 to 4096; taken as touched */
    /* Time is virtual: waiting takes no real time, computing no virtual time, and randomness
     * follows from `seed` (docs/virtual-time.md). Otherwise time is this machine's. */
    bool is_virtual;
    uint64_t seed;
    bool is_any_program; /* the command may spin, or read the time stamp counter */
    const struct rxe_guest_tender *tender;     /* or NULL; then no time limit counts */
    const struct rxe_guest_listener *listener; /* or NULL */
};

/* Finds the guest's kernel: WEFT_GUEST_KERNEL, or the newest
 * ${XDG_CACHE_HOME:-~/.cache}/weft/uml-HASH/linux. Fails with WEFT_ERR_ENVIRONMENT, naming `make
 * rxe-guest`. */
weft_status rxe_guest_kernel(char *out, size_t n_bytes,
                             struct weft_error *error) WEFT_MUST_CHECK;

/* Returns WEFT_OK if a guest that keeps virtual time can be started from here. Otherwise fails, and
 * the error says why not and what to do. */
weft_status rxe_guest_can_be_virtual(struct weft_error *error) WEFT_MUST_CHECK;

/* Runs `argv` in a guest, in this working directory and environment, and copies its output to the
 * output of this process. Stores its exit code, 128 + N after signal N as a shell does. Fails with
 * WEFT_ERR_TIMEOUT if it was killed after time_limit_s. */
weft_status rxe_guest_run(const struct rxe_guest_options *options, char *const *argv,
                          int *out_code, struct weft_error *error) WEFT_MUST_CHECK;

/* Returns true if a variable of the environment is passed to guests in virtual time. Variables that
 * differ from shell to shell are not. */
bool rxe_guest_may_enter(const char *variable);

/* Runs this process's whole command line in a guest. Returns false if the caller shall go on here:
 * inside a guest and, unless time is to be virtual, if `is_possible_here`. */
bool rxe_guest_instead(const struct rxe_guest_options *options, bool is_possible_here,
                       int *out_code);

/* Returns a descriptor of the guest's folder for rxe_guest_keep(), which other programs do not
 * inherit; -1 outside a guest with a listener. Must be called at most once. */
int rxe_guest_take_folder(void);
/* Appends to the results of this guest, which its listener gets even if the guest is killed.
 * Returns false and sets errno if they may be lost. */
bool rxe_guest_keep(int folder, const char *bytes, size_t n);

/* Runs the guest, in its first process, and does not return; does nothing in other processes. */
void rxe_guest_init(void);

/* Ends guests whose owner is gone, and removes their folders. Returns the number of guests. */
unsigned rxe_guest_cleanup(struct weft_log *log);

#endif
