/* The event engine: integer picoseconds, total order (time, rank or sequence), no
 * allocation per event. Frames in flight wait in FIFOs, one for each direction of a cable
 * (sim/link.h), so that only the head of each busy direction is pending here. */
#ifndef WEFT_SIM_ENGINE_H
#define WEFT_SIM_ENGINE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/trace.h"
#include "sim/event.h"
#include "sim/memory.h"
#include "sim/pending.h"
#include "sim/pool.h"

#define SIM_NEVER INT64_MAX

/* Private to the functions below. Defined here so that they can be inlined, because some
 * run for every packet. */
struct sim_engine {
    weft_ps now;
    struct sim_pending pending;
    struct weft_trace *trace;
    struct sim_phantom phantom;
    struct sim_pool pool;
    uint64_t n_events;
    uint32_t rank_reached; /* events of `now` up to this rank have had their turn */
    uint32_t n_ranks;
    uint64_t seed;
    bool allows_trains;
    /* Calls of ports to their NICs (sim/link.h), set with the first NIC. Here, because the
     * ports of a large fabric do not fit in the cache. */
    const struct sim_nic_ops *nic_ops;
    struct sim_shared *shared; /* Owned list. */
    /* memory of ports, NICs and queues, which every packet uses */
    struct weft_arena arena;
};

/* Aborts when out of memory. `trace` is not owned and may be NULL. */
struct sim_engine *sim_engine_create(uint64_t seed, struct weft_trace *trace);
void sim_engine_destroy(struct sim_engine *engine);

static inline weft_ps sim_now(const struct sim_engine *engine)
{
    return engine->now;
}

/* Returns sim_now() in nanoseconds, rounded down: the time of the event log. */
weft_ns sim_now_ns(const struct sim_engine *engine);

static inline struct weft_trace *sim_trace(const struct sim_engine *engine)
{
    return engine->trace;
}

uint64_t sim_seed(const struct sim_engine *engine);

/* Ranks of events. Of the events of one time those with a rank come first, by kind and
 * then in the order of initialisation, regardless of when they were scheduled. Events
 * that packets cause have ranks, so that the event log does not depend on whether each
 * packet has its own event (sim/train.h). */
enum sim_rank {
    SIM_RANK_DUE, /* reply timers of QPs: what transmitters can send at this time */
    SIM_RANK_WIRE /* frames leave ports and arrive */
};
void sim_event_init_ranked(struct sim_engine *engine, struct sim_event *event,
                           enum sim_rank kind, void (*fire)(struct sim_event *event));
/* Queues `event` for `at` >= now, or moves it there. */
void sim_schedule(struct sim_engine *engine, struct sim_event *event, weft_ps at);
void sim_cancel(struct sim_engine *engine, struct sim_event *event);

/* Returns the time of the next event, or SIM_NEVER. */
weft_ps sim_next(struct sim_engine *engine);
/* Runs the next event if it is at or before `until` and returns true. Otherwise moves the
 * clock to `until`, unless that is SIM_NEVER or in the past, and returns false. */
bool sim_step(struct sim_engine *engine, weft_ps until);

/* Runs events until `*n_woken` is not 0. Returns false if none is pending before that. */
bool sim_run(struct sim_engine *engine, const uint32_t *n_woken);

/* Returns true if an event of that rank has had its turn, had it been scheduled for `at`
 * beforehand. */
bool sim_is_past(const struct sim_engine *engine, weft_ps at, uint32_t rank);

/* Returns true if an event of that rank, scheduled for now, would be the next to run.
 * Only for the event that is running. */
static inline bool sim_would_be_next(const struct sim_engine *engine, uint32_t rank)
{
    return engine->pending.taken_at == engine->now &&
           sim_pending_is_before_all(&engine->pending, engine->now, rank);
}

/* Counts an event of that rank as run now, because the event before it has done its
 * work. */
static inline void sim_skip_turn(struct sim_engine *engine, uint32_t rank)
{
    engine->rank_reached = rank > engine->rank_reached ? rank : engine->rank_reached;
}

/* Allows packet trains (sim/train.h), which is the default. They never start while the
 * event log includes packets. */
void sim_engine_allow_trains(struct sim_engine *engine, bool allowed);
static inline bool sim_engine_allows_trains(const struct sim_engine *engine)
{
    return engine->allows_trains && !weft_trace_on(engine->trace, WEFT_TRACE_PACKET);
}

/* Returns a copy of the bytes that lives as long as the engine. Equal bytes share one
 * copy. */
const void *sim_engine_share(struct sim_engine *engine, const void *bytes,
                             size_t n_bytes);

/* Returns the number of events run so far. */
uint64_t sim_n_events(const struct sim_engine *engine);

/* Callback by which the simulator reports a change to its user. It is never called while
 * a user's own call into the simulator has the same object half updated. `wake` may be
 * NULL. */
struct sim_waker {
    void (*wake)(void *context);
    void *context;
};

static inline void sim_wake(const struct sim_waker *waker)
{
    if (waker->wake != NULL) {
        waker->wake(waker->context);
    }
}

#endif
