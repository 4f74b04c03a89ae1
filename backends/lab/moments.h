/* Notices moments of programs: when a port's queue pairs reach RTS, and when it has sent a number
 * of packets. */
#ifndef WEFT_BACKENDS_LAB_MOMENTS_H
#define WEFT_BACKENDS_LAB_MOMENTS_H

#include <poll.h>

#include "backends/lab/fabric.h"
#include "base/error.h"
#include "io/world.h"

struct lab_moments;

/* Begins to count for the faults of the fabric's spec that wait for such a moment, and stores NULL
 * if none does. Call after lab_watch_begin(), and before chance begins. Fails with
 * WEFT_ERR_UNSUPPORTED if a fault waits for a queue pair and programs are not watched. */
weft_status lab_moments_begin(const struct lab_fabric *fabric, bool is_watched,
                              struct lab_moments **out,
                              struct weft_error *error) WEFT_MUST_CHECK;
/* Stores the descriptors to wait for, at most lab_moments_n() of them. NULL has none. */
uint32_t lab_moments_n(const struct lab_moments *moments);
uint32_t lab_moments_fds(const struct lab_moments *moments, struct pollfd *out);
/* Reads what has happened. Returns true if a fault's moment has come, whose time is `now`. */
bool lab_moments_take(struct lab_moments *moments, weft_ns now);
/* Returns when the fault's moment came; WEFT_NEVER if it did not. */
weft_ns lab_moments_at(const struct lab_moments *moments, uint32_t fault);
/* NULL is ignored. */
void lab_moments_end(struct lab_moments *moments);

#endif
