/* Waits: for what a process of a job waits, at another one or by itself. The names appear in
 * observations (docs/cli.md). */
#ifndef WEFT_BASE_WAIT_H
#define WEFT_BASE_WAIT_H

#include <stdbool.h>

enum weft_wait_for {
    WEFT_WAIT_ROUND,      /* its part in the rendezvous, a gather or a barrier */
    WEFT_WAIT_CONNECTION, /* a connection to or from it */
    WEFT_WAIT_SEND,       /* it must receive a message, and acknowledge it */
    WEFT_WAIT_RECEIVE,    /* it must send a message */
    WEFT_WAIT_CLIENT,     /* it must connect to this process, which is a server */
    WEFT_WAIT_CLOSE,      /* it must close its end of a connection */
    WEFT_WAIT_RELAY, /* it must connect, or take data, for a lane that this host relays */
    WEFT_WAIT_OWN,   /* it is this process: its own devices, kernel, memory or timer */
    WEFT_N_WAITS
};

const char *weft_wait_name(enum weft_wait_for what); /* "round" */
/* Returns what the other process has to do, as in "waits for iceberg TEXT": "to receive". */
const char *weft_wait_text(enum weft_wait_for what);
/* Returns false if no wait has that name. */
bool weft_wait_find(const char *name, enum weft_wait_for *out);

#endif
