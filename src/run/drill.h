/* Makes two neighbours of a run's world exchange random verbs traffic after its processes ended. It
 * covers NIC features that jobs do not use: READs, atomics, late receives, and errors with their
 * consequences. A model without packets predicts every verb's result, completion and byte. Does
 * nothing while a fault of the scenario can still act on the world. */
#ifndef WEFT_RUN_DRILL_H
#define WEFT_RUN_DRILL_H

#include "base/text.h"

struct run;

/* Appends the deviations from the model to `broken`. `is_calm`: nothing disturbs a packet. Destroys
 * all objects that it creates. */
void run_drill(struct run *run, bool is_calm, struct weft_text *broken);

#endif
