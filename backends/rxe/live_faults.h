/* Faults that a user requests in a running mesh. */
#ifndef WEFT_BACKENDS_RXE_LIVE_FAULTS_H
#define WEFT_BACKENDS_RXE_LIVE_FAULTS_H

#include "io/world.h"

/* Makes a fault, or ends it; returns 0 or an errno. */
typedef int (*live_fault_apply)(void *context, const struct world_fault *fault,
                                bool undo);

struct live_faults {
    live_fault_apply apply;
    void *context;
    struct live_fault *items; /* Owned [n]; in the order of the requests */
    uint32_t n;
};

/* Begins the fault at `now`, ignoring its time. Returns 0, or the errno of apply, and then does not
 * keep it. A fault with a duration ends `for_ns` later. */
int live_faults_add(struct live_faults *faults, const struct world_fault *fault,
                    weft_ns now);
/* Ends the faults that are due, in the order of their ends. Returns the time of the next end, or
 * WEFT_NEVER. */
weft_ns live_faults_due(struct live_faults *faults, weft_ns now);
/* Ends all, the last that came first. Returns 0, or the first errno of apply. */
int live_faults_clear(struct live_faults *faults);
void live_faults_fini(struct live_faults *faults);

/* Convert a fault to hexadecimal digits, for another process of this program, and back. */
#define LIVE_FAULT_WORD_BYTES (2 * sizeof(struct world_fault) + 1)
void live_fault_write(const struct world_fault *fault, char out[LIVE_FAULT_WORD_BYTES]);
bool live_fault_read(const char *word, struct world_fault *out);

#endif
