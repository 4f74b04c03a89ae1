/* Faults that begin at a time or a moment. */
#include <stdlib.h>

#include "backends/fault/private.h"

static void add_rule(struct fault_env *env, const struct world_fault *spec)
{
    struct fault_rule *rule = weft_calloc(1, sizeof(*rule));
    struct fault_rule **at = &env->rules;

    while (*at != NULL) {
        at = &(*at)->next;
    }
    rule->spec = spec;
    rule->until = spec->for_ns > 0 ? io_now(env->inner) + spec->for_ns : WEFT_NEVER;
    *at = rule;
}

static void begin_at(struct fault_env *env, const struct world_fault *spec)
{
    const struct world_host *host = &env->world->spec->hosts[env->host];

    if (spec->kind != WORLD_FAULT_DEVICE_FATAL && spec->kind != WORLD_FAULT_ASYNC_EVENT) {
        add_rule(env, spec);
        return;
    }
    for (uint32_t i = 0; i < env->io.n_devices; i++) {
        const struct world_port *port = &host->ports[spec->port];

        if (spec->has_port && port->device != i) {
            continue;
        }
        if (spec->kind == WORLD_FAULT_DEVICE_FATAL) {
            fault_device_go(&env->devices[i]);
        } else {
            fault_device_tell(&env->devices[i], (enum ibv_event_type)spec->event,
                              spec->has_port ? port->port : 1,
                              spec->n_calls == 0 ? 1 : spec->n_calls);
        }
    }
}

static bool is_of(const struct fault_env *env, const struct world_fault *spec)
{
    return env->host == spec->host &&
           (!spec->has_process || env->process == spec->process);
}

static void begin(struct fault_timer *timer)
{
    struct fault_timed *timed = weft_container_of(timer, struct fault_timed, timer);
    struct fault_world *world = timed->world;
    const struct world_fault *spec = &timed->spec;
    const struct world_host *host = &world->spec->hosts[spec->host];

    weft_trace_event(world->spec->trace, world->ops.now(&world->base), host->name,
                     world_fault_place(host, spec), "fault", "kind=%s",
                     world_fault_name(spec->kind));
    if (timed->index != UINT32_MAX && world->began_ns[timed->index] == WEFT_NEVER) {
        world->began_ns[timed->index] = world->ops.now(&world->base);
    }
    for (uint32_t i = 0; i < world->n_envs; i++) {
        struct fault_env *env = &world->envs[i];

        if (timed->env != NULL ? timed->env == env : is_of(env, spec)) {
            begin_at(env, spec);
        }
    }
}

bool fault_is_ours(const struct fault_config *config, const struct world_fault *fault)
{
    bool is_verb =
        fault->kind == WORLD_FAULT_VERB_ERROR || fault->kind == WORLD_FAULT_VERB_SLOW;

    return world_fault_is_of_calls(fault->kind) || (config->has_verbs && is_verb);
}

struct fault_timed *fault_timed_add(struct fault_world *world,
                                    const struct world_fault *fault, uint32_t index)
{
    struct fault_timed *timed = weft_calloc(1, sizeof(*timed));
    struct fault_timed **at = &world->timed;

    while (*at != NULL) {
        at = &(*at)->next;
    }
    timed->timer.due = (struct weft_heap_node)WEFT_HEAP_NODE_INIT;
    timed->timer.fire = begin;
    timed->world = world;
    timed->spec = *fault;
    timed->index = index;
    *at = timed;
    return timed;
}

void fault_timed_plan(struct fault_timed *timed, weft_ns at)
{
    timed->is_met = true;
    fault_timer_set(timed->world, &timed->timer, at);
}

void fault_timed_await(struct fault_world *world, uint32_t index)
{
    const struct world_fault *fault = &world->spec->faults[index];

    for (uint32_t i = 0; i < world->n_envs; i++) {
        if (is_of(&world->envs[i], fault)) {
            fault_timed_add(world, fault, index)->env = &world->envs[i];
        }
    }
}

/* A rule without delay begins at once, so that it applies to the next call. All other faults wait
 * for the next step, because the caller must not be disturbed. */
void fault_world_reached(struct fault_env *env, enum io_stage stage, uint64_t n)
{
    struct fault_world *world = env->world;

    for (struct fault_timed *timed = world->timed; timed != NULL; timed = timed->next) {
        const struct world_fault *fault = &timed->spec;

        if (timed->is_met || timed->env != env ||
            !world_moment_is_met(&fault->moment, stage, n)) {
            continue;
        }
        fault_timed_plan(timed, io_now(env->inner) + fault->at_ns);
        if (fault->at_ns == 0 && fault->kind != WORLD_FAULT_DEVICE_FATAL) {
            fault_timer_stop(world, &timed->timer);
            begin(&timed->timer);
        }
    }
}
