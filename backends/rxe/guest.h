/* A guest whose kernel has rdma_rxe: User Mode Linux, an ordinary program that needs
 * neither root nor KVM. It sees this machine's own files (hostfs), so the very same
 * program runs inside it with the same arguments; built by `make rxe-guest`.
 *
 * Everything about one guest is in a scratch folder, which goes when the guest does:
 * argv, environ, cwd (what to run), out, err, exit (what came of it), results (what it kept for a
 * listener), console (what its kernel said), init (this program), pid and owner (for
 * `weft cleanup`). */
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
/* Set in the environment of everything that runs inside a guest: "virtual" where time is so. */
#define RXE_GUEST_MARKER LAB_GUEST_MARKER

/* The variable that names a descriptor of its folder to what runs in a guest with a tender or a
 * listener. */
#define RXE_GUEST_FOLDER "WEFT_GUEST_FOLDER"

/* Keeps a guest company, while what it writes is passed on. */
struct rxe_guest_tender {
    void *context;
    /* Its folder is there, and it does not run yet. */
    weft_status (*begin)(void *context, const char *scratch, struct weft_error *error);
    /* Waits for `fds` [n], whose revents it sets, for what it waits for itself, and not for
     * long; `pid` is the guest's kernel. False: the guest is to end. */
    bool (*tend)(void *context, pid_t pid, struct pollfd *fds, size_t n);
    /* Whether the guest is stopped, and needs no processor. */
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
    bool is_virtual;  /* idle time takes none, computing is free, chance comes from `seed`
                          * (docs/virtual-time.md); else time is this machine's */
    uint64_t seed;
    bool is_any_program; /* the command may spin, or read the time stamp counter */
    const struct rxe_guest_tender *tender;     /* or NULL; then no time limit counts */
    const struct rxe_guest_listener *listener; /* or NULL */
};

/* The guest's kernel: WEFT_GUEST_KERNEL, or the newest ${XDG_CACHE_HOME:-~/.cache}/weft/
 * uml-HASH/linux. WEFT_ERR_ENVIRONMENT names `make rxe-guest`. */
weft_status rxe_guest_kernel(char *out, size_t n_bytes,
                             struct weft_error *error) WEFT_MUST_CHECK;

/* WEFT_OK: a guest that keeps virtual time can be started from here; else why not, and what to
 * do. */
weft_status rxe_guest_can_be_virtual(struct weft_error *error) WEFT_MUST_CHECK;

/* Runs `argv` in a guest, in this working directory and environment; its output goes to
 * ours. `*out_code`: its exit code (128 + N after signal N, as a shell reports it).
 * WEFT_ERR_TIMEOUT: killed after time_limit_s. */
weft_status rxe_guest_run(const struct rxe_guest_options *options, char *const *argv,
                          int *out_code, struct weft_error *error) WEFT_MUST_CHECK;

/* Whether a variable of the environment may go where time is virtual. */
bool rxe_guest_may_enter(const char *variable);

/* Runs this whole process's command line in a guest. False: go on here, which is so inside a guest,
 * and, unless time is to be virtual, where `is_possible_here`. */
bool rxe_guest_instead(const struct rxe_guest_options *options, bool is_possible_here,
                       int *out_code);

/* In a guest with a listener: returns a descriptor of its folder for rxe_guest_keep(), which other
 * programs do not inherit; -1 elsewhere. To be called once. */
int rxe_guest_take_folder(void);
/* Appends to the results of this guest, which its listener gets even if the guest is killed.
 * Returns false, with errno, if they may not get there. */
bool rxe_guest_keep(int folder, const char *bytes, size_t n);

/* Never returns in the first process of a guest; does nothing elsewhere. */
void rxe_guest_init(void);

/* Ends guests whose owner is no more, and removes their folders. Returns how many. */
unsigned rxe_guest_cleanup(struct weft_log *log);

#endif
