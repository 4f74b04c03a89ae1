/* The event engine: integer picoseconds, total order (time, rank or sequence), no
 * allocation per event. Frames in flight wait in per-direction FIFOs (sim/link.h), so that
 * only the head of each busy direction is pending here. */
#ifndef WEFT_SIM_ENGINE_H
#define WEFT_SIM_ENGINE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/trace.h"
#include "sim/event.h"
#include "sim/memory.h"
#include "sim/pending.h"
#include "sim/pool.h"

#define SIM_NEVER INT64_MAX

/* For its own functions only; open, so that what every packet asks costs no call. */
struct sim_engine {
    weft_ps now;
    struct sim_pending pending;
    struct weft_trace *trace;
    struct sim_phantom phantom;
    struct sim_pool pool;
    uint64_t n_events;
    uint32_t rank_reached; /* events of `now` up to this rank have run */
    uint32_t n_ranks;
    struct weft_log *log;
    uint64_t seed;
    bool allows_trains;
    struct sim_shared *shared; /* Owned list. */
    struct weft_arena arena;   /* ports, NICs, queues: what packets go through */
};

/* Aborts when out of memory. `trace` and `log` are not owned and may be NULL. */
struct sim_engine *sim_engine_create(uint64_t seed, struct weft_trace *trace,
                                     struct weft_log *log);
void sim_engine_destroy(struct sim_engine *engine);

static inline weft_ps sim_now(const struct sim_engine *engine)
{
    return engine->now;
}

/* Story time: sim_now in nanoseconds, rounded down. */
weft_ns sim_now_ns(const struct sim_engine *engine);

static inline struct weft_trace *sim_trace(const struct sim_engine *engine)
{
    return engine->trace;
}

struct weft_log *sim_log(const struct sim_engine *engine);
uint64_t sim_seed(const struct sim_engine *engine);

/* Among events of one time those with a rank come first, by kind and then in the order of
 * initialisation, whenever they were scheduled. What packets do has ranks, so that the order
 * of a story does not depend on whether each packet had its event (sim/train.h). */
enum sim_rank {
    SIM_RANK_DUE, /* what the transmitters of this time can send */
    SIM_RANK_WIRE /* frames leave and arrive */
};
void sim_event_init_ranked(struct sim_engine *engine, struct sim_event *event,
                           enum sim_rank kind, void (*fire)(struct sim_event *event));
/* Queues `event`, or moves it, to `at` >= now. */
void sim_schedule(struct sim_engine *engine, struct sim_event *event, weft_ps at);
void sim_cancel(struct sim_engine *engine, struct sim_event *event);

/* The time of the next event, or SIM_NEVER. */
weft_ps sim_next(struct sim_engine *engine);
/* Runs the next event if it is at or before `until` and returns true; else moves the
 * clock to `until` (never back) and returns false. */
bool sim_step(struct sim_engine *engine, weft_ps until);

/* sim_step with SIM_NEVER again and again, until `*n_woken` is not 0. False: nothing is
 * pending. */
bool sim_run(struct sim_engine *engine, const uint32_t *n_woken);

/* True if an event of that rank, scheduled for `at` before that time came, has had its
 * turn. */
bool sim_is_past(const struct sim_engine *engine, weft_ps at, uint32_t rank);

/* For an event that is running: true if an event of that rank, scheduled for now, would be the
 * next to run. */
static inline bool sim_would_be_next(const struct sim_engine *engine, uint32_t rank)
{
    return engine->pending.taken_at == engine->now &&
           sim_pending_is_before_all(&engine->pending, engine->now, rank);
}

/* What an event of that rank would have done now has been done, by the one before it. */
static inline void sim_skip_turn(struct sim_engine *engine, uint32_t rank)
{
    engine->rank_reached = rank > engine->rank_reached ? rank : engine->rank_reached;
}

/* Packet trains (sim/train.h) may start. They may unless told otherwise, or the story has
 * packets in it. */
void sim_engine_allow_trains(struct sim_engine *engine, bool allowed);
static inline bool sim_engine_allows_trains(const struct sim_engine *engine)
{
    return engine->allows_trains && !weft_trace_on(engine->trace, WEFT_TRACE_PACKET);
}

/* A copy of what many objects hold alike, the same for equal bytes; as long as the engine. */
const void *sim_engine_share(struct sim_engine *engine, const void *bytes,
                             size_t n_bytes);

/* Events run so far. */
uint64_t sim_n_events(const struct sim_engine *engine);

/* How the simulator tells its user that something changed; never called from inside a
 * user's own call into the simulator with the same object half updated. `wake` may be
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
