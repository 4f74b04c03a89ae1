#include "sim/engine.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

enum { PS_PER_NS = 1000, RANKS_SHIFT = 28 };

struct sim_shared {
    struct sim_shared *next;
    size_t n_bytes;
    _Alignas(max_align_t) unsigned char bytes[];
};

struct sim_engine *sim_engine_create(uint64_t seed, struct weft_trace *trace)
{
    struct sim_engine *engine = weft_calloc(1, sizeof(*engine));
    sim_pending_init(&engine->pending);
    engine->seed = seed;
    engine->allows_trains = true;
    engine->trace = trace;
    return engine;
}

void sim_engine_destroy(struct sim_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    sim_pending_fini(&engine->pending);
    sim_pool_fini(&engine->pool);
    weft_arena_fini(&engine->arena);
    while (engine->shared != NULL) {
        struct sim_shared *shared = engine->shared;
        engine->shared = shared->next;
        free(shared);
    }
    free(engine);
}

const void *sim_engine_share(struct sim_engine *engine, const void *bytes, size_t n_bytes)
{
    struct sim_shared *shared = engine->shared;
    for (; shared != NULL; shared = shared->next) {
        if (shared->n_bytes == n_bytes && memcmp(shared->bytes, bytes, n_bytes) == 0) {
            return shared->bytes;
        }
    }
    shared = weft_alloc(sizeof(*shared) + n_bytes);
    shared->n_bytes = n_bytes;
    memcpy(shared->bytes, bytes, n_bytes);
    shared->next = engine->shared;
    engine->shared = shared;
    return shared->bytes;
}

weft_ns sim_now_ns(const struct sim_engine *engine)
{
    return engine->now / PS_PER_NS;
}

uint64_t sim_seed(const struct sim_engine *engine)
{
    return engine->seed;
}

void sim_engine_allow_trains(struct sim_engine *engine, bool allowed)
{
    engine->allows_trains = allowed;
}

struct sim_pool *sim_engine_pool(struct sim_engine *engine)
{
    return &engine->pool;
}

void sim_engine_set_phantom(struct sim_engine *engine, const struct sim_phantom *phantom)
{
    engine->phantom = *phantom;
}

const struct sim_phantom *sim_engine_phantom(const struct sim_engine *engine)
{
    return &engine->phantom;
}

void sim_event_init_ranked(struct sim_engine *engine, struct sim_event *event,
                           enum sim_rank kind, void (*fire)(struct sim_event *event))
{
    sim_event_init(event, fire);
    engine->n_ranks++;
    weft_check(engine->n_ranks < 1u << RANKS_SHIFT);
    event->rank = (uint32_t)kind << RANKS_SHIFT | engine->n_ranks;
}

/* Sets the clock to `now`; events up to `order` (UINT32_MAX: all) have then had their
 * turn. */
static inline void reach(struct sim_engine *engine, weft_ps now, uint32_t order)
{
    if (now > engine->now || order > engine->rank_reached) {
        engine->rank_reached = order;
    }
    engine->now = now;
}

bool sim_is_past(const struct sim_engine *engine, weft_ps at, uint32_t rank)
{
    return at < engine->now || (at == engine->now && rank <= engine->rank_reached);
}

void sim_schedule(struct sim_engine *engine, struct sim_event *event, weft_ps at)
{
    weft_check(at >= engine->now);
    sim_pending_set(&engine->pending, event, at);
}

void sim_cancel(struct sim_engine *engine, struct sim_event *event)
{
    sim_pending_remove(&engine->pending, event);
}

weft_ps sim_next(struct sim_engine *engine)
{
    const struct sim_event *event = sim_pending_peek(&engine->pending);
    return event == NULL ? SIM_NEVER : event->at;
}

/* Does the work of sim_step() if the next event might not be the first of the line. */
static WEFT_APART bool step_any(struct sim_engine *engine, weft_ps until)
{
    struct sim_event *event = sim_pending_peek(&engine->pending);
    if (event == NULL || event->at > until) {
        if (until != SIM_NEVER && until >= engine->now) {
            reach(engine, until, UINT32_MAX);
        }
        return false;
    }
    sim_pending_take(&engine->pending, event);
    reach(engine, event->at, event->rank);
    engine->n_events++;
    event->fire(event);
    return true;
}

static inline bool step(struct sim_engine *engine, weft_ps until)
{
    struct sim_line_entry next;
    if (!sim_pending_take_near(&engine->pending, until, &next)) {
        return step_any(engine, until);
    }
    reach(engine, next.at, next.order);
    engine->n_events++;
    next.event->fire(next.event);
    return true;
}

bool sim_step(struct sim_engine *engine, weft_ps until)
{
    return step(engine, until);
}

bool sim_run(struct sim_engine *engine, const uint32_t *n_woken)
{
    while (*n_woken == 0) {
        if (!step(engine, SIM_NEVER)) {
            return false;
        }
    }
    return true;
}

uint64_t sim_n_events(const struct sim_engine *engine)
{
    return engine->n_events;
}
