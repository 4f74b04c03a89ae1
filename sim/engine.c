#include "sim/engine.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/pool.h"

enum { PS_PER_NS = 1000 };

struct sim_engine {
    weft_ps now;
    struct weft_heap heap; /* of sim_event.node, keyed by time */
    struct sim_pool pool;
    struct weft_trace *trace;
    struct weft_log *log;
    uint64_t seed;
};

struct sim_engine *sim_engine_create(uint64_t seed, struct weft_trace *trace,
                                     struct weft_log *log)
{
    struct sim_engine *engine = weft_calloc(1, sizeof(*engine));
    weft_heap_init(&engine->heap);
    engine->seed = seed;
    engine->trace = trace;
    engine->log = log;
    return engine;
}

void sim_engine_destroy(struct sim_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    weft_heap_fini(&engine->heap);
    sim_pool_fini(&engine->pool);
    free(engine);
}

weft_ps sim_now(const struct sim_engine *engine)
{
    return engine->now;
}

weft_ns sim_now_ns(const struct sim_engine *engine)
{
    return engine->now / PS_PER_NS;
}

struct weft_trace *sim_trace(const struct sim_engine *engine)
{
    return engine->trace;
}

struct weft_log *sim_log(const struct sim_engine *engine)
{
    return engine->log;
}

uint64_t sim_seed(const struct sim_engine *engine)
{
    return engine->seed;
}

struct sim_pool *sim_engine_pool(struct sim_engine *engine)
{
    return &engine->pool;
}

void sim_event_init(struct sim_event *event, void (*fire)(struct sim_event *event))
{
    event->node = (struct weft_heap_node)WEFT_HEAP_NODE_INIT;
    event->fire = fire;
}

void sim_schedule(struct sim_engine *engine, struct sim_event *event, weft_ps at)
{
    weft_check(at >= engine->now);
    weft_heap_set(&engine->heap, &event->node, at);
}

void sim_cancel(struct sim_engine *engine, struct sim_event *event)
{
    weft_heap_remove(&engine->heap, &event->node);
}

weft_ps sim_next(const struct sim_engine *engine)
{
    const struct weft_heap_node *node = weft_heap_peek(&engine->heap);
    return node == NULL ? SIM_NEVER : node->key;
}

bool sim_step(struct sim_engine *engine, weft_ps until)
{
    struct weft_heap_node *node = weft_heap_peek(&engine->heap);
    if (node == NULL || node->key > until) {
        if (until != SIM_NEVER && until > engine->now) {
            engine->now = until;
        }
        return false;
    }
    weft_heap_remove(&engine->heap, node);
    engine->now = node->key;
    struct sim_event *event = weft_container_of(node, struct sim_event, node);
    event->fire(event);
    return true;
}
