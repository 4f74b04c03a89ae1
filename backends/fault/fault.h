/* Faults of the I/O interface itself, over any backend: a world whose hosts get environments
 * (io/env.h) that fail, delay, shorten or lose calls before the backend sees them.
 *
 * A rule counts the matching calls of one process from its start time and applies to `count` of
 * them (default 1), beginning with the nth. A world without rules behaves as if it were not
 * wrapped.
 *
 * Effect of each kind of fault:
 *   call_error   the call returns the errno, and the backend does not see it. A failed destroy_qp
 *                or destroy_cq nevertheless destroys the backend's queue, because it could wake a
 *                task that no longer exists; the object that remains can only be destroyed
 *   call_slow    a verb starts later; until then poll_cq, recv, accept and hear return nothing,
 *                and send accepts nothing; the task is woken afterwards
 *   call_short   send and recv transfer at most this many bytes
 *   call_lost    send discards its data and all later data of the stream; an announcement is
 *                not sent
 *   device_fatal the device is lost: IBV_EVENT_DEVICE_FATAL, its QPs enter ERR, every verb but
 *                the destroying ones returns EIO
 *   async_event  the device reports an event that did not happen
 *   verb_error, verb_slow   for backends that do not implement these themselves
 *
 * With `world_spec.rare_ppb`, calls draw a rare but legal outcome. A verb starts up to 0.13 ms
 * later. poll_cq, recv, accept and hear return nothing for up to that long, and send accepts
 * nothing. send and recv transfer up to 7 bytes, and poll_cq returns up to 7 completions.
 *
 * backends/fault/sweep_test.c uses `nth` and `count` to make the k-th call fail, for every k. */
#ifndef WEFT_BACKENDS_FAULT_H
#define WEFT_BACKENDS_FAULT_H

#include "io/world.h"

struct fault_config {
    /* Also apply verb_error and verb_slow, which the backend does not implement. */
    bool has_verbs;
    bool is_one_host; /* the inner world has one host, which is `host` of the spec */
    uint32_t host;
    /* Wrap even if the spec has no such fault, because one will be injected. */
    bool is_always;
};

/* Wraps `inner`, which was created from `spec` and is destroyed with the result. Returns `inner`
 * itself if the spec requires no wrapping. Fault times count from this call. `spec` must outlive
 * the result. */
struct world *fault_world_wrap(struct world *inner, const struct world_spec *spec,
                               const struct fault_config *config);
/* Returns how often a process has made a call that can fail; all of them for WORLD_CALL_ANY,
 * except poll_cq and connected. */
uint64_t fault_world_calls(struct world *world, uint32_t host, uint32_t process,
                           enum world_call call);
/* Returns how often a rule applied to a call of the process. */
uint64_t fault_world_hits(struct world *world, uint32_t host, uint32_t process);
/* Returns the call to which a rule applied last. */
enum world_call fault_world_hit(struct world *world, uint32_t host, uint32_t process);

#endif
