/* Signals that end a command: noticed first, so that what it has built goes before it does.
 * One thread; one of these at a time. */
#ifndef WEFT_BACKENDS_LAB_SIGNALS_H
#define WEFT_BACKENDS_LAB_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct lab_signals {
    int fd;            /* readable once one came; -1: this kernel gave none */
    int number;        /* that came, or 0 */
    sigset_t old_mask; /* for children */
};

/* From here on SIGINT, SIGTERM and SIGHUP are kept, those left out that this process was
 * told to ignore (nohup, a shell's background job): nobody waits for their effect. */
void lab_signals_catch(struct lab_signals *signals);
/* Whether one came; looks, and does not wait. */
bool lab_signals_came(struct lab_signals *signals);
/* What came now does what it does, which ends the process unless a handler is there. */
void lab_signals_release(struct lab_signals *signals);

#endif
