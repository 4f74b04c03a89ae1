/* Signals that end a command: noticed first, so that what it has built goes before it does.
 * One thread; one of these at a time. */
#ifndef WEFT_BACKENDS_RXE_SIGNALS_H
#define WEFT_BACKENDS_RXE_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct rxe_signals {
    int fd;            /* readable once one came; -1: this kernel gave none */
    int number;        /* that came, or 0 */
    sigset_t old_mask; /* for children */
};

/* From here on SIGINT, SIGTERM and SIGHUP are kept, those left out that this process was
 * told to ignore (nohup, a shell's background job): nobody waits for their effect. */
void rxe_signals_catch(struct rxe_signals *signals);
/* Whether one came; looks, and does not wait. */
bool rxe_signals_came(struct rxe_signals *signals);
/* What came now does what it does, which ends the process unless a handler is there. */
void rxe_signals_release(struct rxe_signals *signals);

#endif
