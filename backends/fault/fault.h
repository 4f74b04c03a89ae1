/* Faults of the waist itself, over any backend: a world whose hosts are given environments
 * (io/env.h) that refuse, delay, cut or lose what they are asked, before the backend sees it.
 *
 * A rule counts the calls that it is about, of one process, from when it begins; the nth and
 * those after it meet it. Nothing else changes: with no rule a world behaves as without this.
 *
 * What each fault does:
 *   call_error   the call gives the errno, and the backend is not asked. A queue that is not
 *                destroyed would wake a user who is gone: destroy_qp and destroy_cq fail, but
 *                leave something that can only be destroyed again
 *   call_slow    a verb starts later; poll_cq, recv, accept and hear have nothing until then, and
 *                send has no room; who waits is woken
 *   call_short   send and recv move so many bytes at most
 *   call_lost    what send takes goes nowhere, and so does all that follows in this stream; an
 *                announcement is not made
 *   device_fatal the device is gone: IBV_EVENT_DEVICE_FATAL, its QPs go to ERR, every verb but
 *                destroying gives EIO
 *   async_event  the device tells of something that did not happen
 *   verb_error, verb_slow   of backends that do not have these themselves
 *
 * With `world_spec.rare_ppb`, calls draw a rare but legal outcome. A verb starts up to 0.13 ms
 * later. poll_cq, recv, accept and hear have nothing for so long, and send has no room. send and
 * recv move up to 7 bytes, and poll_cq gives up to 7 completions.
 *
 * With `nth` and `count` a rule is the k-th call that fails, for every k: backends/fault/
 * sweep_test.c. */
#ifndef WEFT_BACKENDS_FAULT_H
#define WEFT_BACKENDS_FAULT_H

#include "io/world.h"

struct fault_config {
    bool has_verbs; /* verb_error and verb_slow as well: the backend leaves them to us */
    bool is_one_host; /* the world below is of one host, this one of the spec: */
    uint32_t host;
    bool is_always; /* also where the spec has no such fault: somebody will inject one */
};

/* A world over `inner`, which was made of `spec` and goes with it; or `inner` itself where there
 * is nothing to do. Times count from now. */
struct world *fault_world_wrap(struct world *inner, const struct world_spec *spec,
                               const struct fault_config *config);
/* How often a process made a call (WORLD_CALL_ANY: any) that may fail, as asked so far. */
uint64_t fault_world_calls(struct world *world, uint32_t host, uint32_t process,
                           enum world_call call);
/* How many of them met a rule. */
uint64_t fault_world_hits(struct world *world, uint32_t host, uint32_t process);
/* The last of these. */
enum world_call fault_world_hit(struct world *world, uint32_t host, uint32_t process);

#endif
