/* Catches the signals that end a command, so that it can first remove what it has built. For one
 * thread, and one object at a time. */
#ifndef WEFT_BACKENDS_LAB_SIGNALS_H
#define WEFT_BACKENDS_LAB_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct lab_signals {
    int fd;            /* readable once a signal is pending; -1 if the kernel gave none */
    int number;        /* number of the signal received, or 0 */
    sigset_t old_mask; /* mask to restore, also in children */
};

/* Blocks SIGINT, SIGTERM and SIGHUP for later, except those that this process ignores (nohup,
 * background jobs of a shell). */
void lab_signals_catch(struct lab_signals *signals);
/* Returns true if a signal was received. Does not wait. */
bool lab_signals_came(struct lab_signals *signals);
/* Restores the mask and raises the signal received, which ends the process unless it has a
 * handler. */
void lab_signals_release(struct lab_signals *signals);

#endif
