/* Lists the queue pairs of a program that waits, with the state of each one's peer. Pure. */
#ifndef WEFT_RUN_PROGRAM_QUEUES_H
#define WEFT_RUN_PROGRAM_QUEUES_H

#include "run/program_causes.h"

#define PROGRAM_QUEUES_MAX 16 /* listed of a program; the rest is counted */

/* Appends a line for each queue pair of program `id` (facts) on `host`: its device, number and
 * state, its peer, that one's state, and what keeps them from exchanging packets, if anything does.
 * Appends nothing for a program that is not watched. `causes` needs the spec, the facts, the names
 * of devices, and the looks after. */
void program_queues_list(const struct program_causes *causes, uint32_t host, uint32_t id,
                         struct weft_text *out);

#endif
