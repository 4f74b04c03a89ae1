#include "backends/fault/fault.h"

#include <errno.h>
#include <stdlib.h>

#include "backends/fault/private.h"

static struct fault_world *world_of(struct world *base)
{
    return weft_container_of(base, struct fault_world, base);
}

/* Casts instead of weft_container_of(), because `base` is const; it is the first member. */
static const struct world *below(const struct world *base)
{
    return ((const struct fault_world *)(const void *)base)->inner;
}
_Static_assert(offsetof(struct fault_world, base) == 0, "the base comes first");

/* ---- timers ---- */

void fault_timer_set(struct fault_world *world, struct fault_timer *timer, weft_ns at)
{
    weft_heap_set(&world->timers, &timer->due, at);
}

void fault_timer_stop(struct fault_world *world, struct fault_timer *timer)
{
    weft_heap_remove(&world->timers, &timer->due);
}

static weft_ns next_timer(const struct fault_world *world)
{
    const struct weft_heap_node *node = weft_heap_peek(&world->timers);

    return node == NULL ? WEFT_NEVER : node->key;
}

static void fire_due(struct fault_world *world, weft_ns now)
{
    struct weft_heap_node *node;

    while ((node = weft_heap_peek(&world->timers)) != NULL && node->key <= now) {
        struct fault_timer *timer = weft_container_of(node, struct fault_timer, due);

        weft_heap_remove(&world->timers, node);
        timer->fire(timer);
    }
}

static void open_gate(struct fault_timer *timer)
{
    struct fault_gate *gate = weft_container_of(timer, struct fault_gate, timer);

    io_task_wake(gate->task);
}

void fault_gate_init(struct fault_gate *gate, struct fault_env *env, struct io_task *task)
{
    *gate = (struct fault_gate){.env = env, .task = task};
    gate->timer.due = (struct weft_heap_node)WEFT_HEAP_NODE_INIT;
    gate->timer.fire = open_gate;
}

bool fault_gate_is_shut(struct fault_gate *gate, const struct fault_verdict *verdict)
{
    weft_ns now = io_now(gate->env->inner);

    if (now < gate->until) {
        return true;
    }
    if (verdict->by_ns == 0) {
        return false;
    }
    gate->until = now + verdict->by_ns;
    fault_timer_set(gate->env->world, &gate->timer, gate->until);
    return true;
}

void fault_gate_fini(struct fault_gate *gate)
{
    fault_timer_stop(gate->env->world, &gate->timer);
}

/* ---- timed faults ---- */

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
                     spec->has_port ? host->ports[spec->port].name : "host", "fault",
                     "kind=%s", world_fault_name(spec->kind));
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

static bool is_ours(const struct fault_config *config, const struct world_fault *fault)
{
    bool is_verb =
        fault->kind == WORLD_FAULT_VERB_ERROR || fault->kind == WORLD_FAULT_VERB_SLOW;

    return world_fault_is_of_calls(fault->kind) || (config->has_verbs && is_verb);
}

static struct fault_timed *add_timed(struct fault_world *world,
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

static void plan(struct fault_timed *timed, weft_ns at)
{
    timed->is_met = true;
    fault_timer_set(timed->world, &timed->timer, at);
}

/* Adds the fault for each process separately, so that it also works where processes run in
 * different worlds. */
static void await_moment(struct fault_world *world, uint32_t index)
{
    const struct world_fault *fault = &world->spec->faults[index];

    for (uint32_t i = 0; i < world->n_envs; i++) {
        if (is_of(&world->envs[i], fault)) {
            add_timed(world, fault, index)->env = &world->envs[i];
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
        plan(timed, io_now(env->inner) + fault->at_ns);
        if (fault->at_ns == 0 && fault->kind != WORLD_FAULT_DEVICE_FATAL) {
            fault_timer_stop(world, &timed->timer);
            begin(&timed->timer);
        }
    }
}

/* ---- forwarded operations ---- */

static struct io_env *world_host_env(struct world *base, uint32_t host, uint32_t process)
{
    struct fault_world *world = world_of(base);
    uint32_t of_spec = world->config.is_one_host ? world->config.host : host;

    for (uint32_t i = 0; i < world->n_envs; i++) {
        if (world->envs[i].host == of_spec && world->envs[i].process == process) {
            return &world->envs[i].io;
        }
    }
    weft_check(false);
    return NULL;
}

static struct io_loop *world_loop(struct world *base)
{
    struct world *inner = world_of(base)->inner;

    return inner->ops->loop(inner);
}

static weft_ns world_now(struct world *base)
{
    struct world *inner = world_of(base)->inner;

    return inner->ops->now(inner);
}

static int world_inject(struct world *base, const struct world_fault *fault)
{
    struct fault_world *world = world_of(base);

    if (!is_ours(&world->config, fault)) {
        return world->inner->ops->inject(world->inner, fault);
    }
    plan(add_timed(world, fault, UINT32_MAX), world_now(base));
    fire_due(world, world_now(base));
    return 0;
}

/* Faults of calls are known here, all others to the inner world. */
static weft_ns world_fault_began(const struct world *base, uint32_t fault)
{
    const struct fault_world *world = (const struct fault_world *)(const void *)base;
    const struct world *inner = world->inner;

    return is_ours(&world->config, &world->spec->faults[fault])
               ? world->began_ns[fault]
               : inner->ops->fault_began(inner, fault);
}

static bool world_host_alive(const struct world *base, uint32_t host)
{
    const struct world *inner = below(base);

    return inner->ops->host_alive(inner, host);
}

static bool world_process_alive(const struct world *base, uint32_t host, uint32_t process)
{
    const struct world *inner = below(base);

    return inner->ops->process_alive(inner, host, process);
}

static int world_tap(struct world *base,
                     void (*tap)(void *context, const struct world_frame *frame),
                     void *context)
{
    struct world *inner = world_of(base)->inner;

    return inner->ops->tap(inner, tap, context);
}

static int world_watch_nic(struct world *base, uint32_t host, uint32_t port,
                           void (*tell)(void *context, const struct world_nic_verb *verb),
                           void *context)
{
    struct world *inner = world_of(base)->inner;

    return inner->ops->watch_nic(inner, host, port, tell, context);
}

static void world_cable_stats(const struct world *base, uint32_t cable,
                              struct world_cable_stats *out)
{
    const struct world *inner = below(base);

    inner->ops->cable_stats(inner, cable, out);
}

static void world_objects(const struct world *base, uint32_t host,
                          struct world_objects *out)
{
    const struct world *inner = below(base);

    inner->ops->objects(inner, host, out);
}

static void world_port_frames(const struct world *base, uint32_t host, uint32_t port,
                              struct world_port_frames *out)
{
    const struct world *inner = below(base);

    inner->ops->port_frames(inner, host, port, out);
}

static bool world_counter(const struct world *base, uint32_t index, const char **out_name,
                          uint64_t *out_value)
{
    const struct world *inner = below(base);

    return inner->ops->counter(inner, index, out_name, out_value);
}

/* ---- time ---- */

static void stop_the_dead(struct fault_world *world)
{
    const struct world *inner = world->inner;

    for (uint32_t i = 0; i < world->n_envs; i++) {
        struct fault_env *env = &world->envs[i];
        uint32_t host = env->inner->world_host;

        if (inner->ops->process_alive != NULL
                ? !inner->ops->process_alive(inner, host, env->process)
                : !inner->ops->host_alive(inner, host)) {
            fault_env_stop(env);
        }
    }
}

static weft_status world_step(struct world *base, weft_ns until)
{
    struct fault_world *world = world_of(base);
    struct io_loop *loop = world_loop(base);

    for (uint32_t i = 0; i < world->n_envs; i++) {
        fault_env_pass_tasks(&world->envs[i]);
    }
    for (;;) {
        weft_ns next = next_timer(world);
        weft_status status =
            world->inner->ops->step(world->inner, next < until ? next : until);

        fire_due(world, world_now(base));
        stop_the_dead(world);
        if (status == WEFT_AGAIN && loop->n_ready > 0) {
            return WEFT_OK;
        }
        if (status != WEFT_AGAIN || world_now(base) >= until) {
            return status;
        }
    }
}

/* ---- set-up and release ---- */

static void world_destroy(struct world *base)
{
    if (base == NULL) {
        return;
    }
    struct fault_world *world = world_of(base);

    for (uint32_t i = 0; i < world->n_envs; i++) {
        fault_env_fini(&world->envs[i]);
    }
    while (world->timed != NULL) {
        struct fault_timed *timed = world->timed;

        world->timed = timed->next;
        fault_timer_stop(world, &timed->timer);
        free(timed);
    }
    weft_heap_fini(&world->timers);
    world->inner->ops->destroy(world->inner);
    free(world->began_ns);
    free(world->envs);
    free(world);
}

static void fill_ops(struct fault_world *world)
{
    const struct world_ops *inner = world->inner->ops;

    world->ops = (struct world_ops){
        .name = inner->name,
        .is_unpaced = inner->is_unpaced,
        .host_env = world_host_env,
        .loop = world_loop,
        .now = world_now,
        .inject = world_inject,
        .fault_began = inner->fault_began == NULL ? NULL : world_fault_began,
        .host_alive = world_host_alive,
        .process_alive = inner->process_alive == NULL ? NULL : world_process_alive,
        .tap = world_tap,
        .watch_nic = inner->watch_nic == NULL ? NULL : world_watch_nic,
        .step = world_step,
        .cable_stats = world_cable_stats,
        .objects = inner->objects == NULL ? NULL : world_objects,
        .port_frames = inner->port_frames == NULL ? NULL : world_port_frames,
        .counter = world_counter,
        .destroy = world_destroy,
    };
    world->base.ops = &world->ops;
}

static void wrap_envs(struct fault_world *world)
{
    const struct world_spec *spec = world->spec;
    struct world *inner = world->inner;

    if (world->config.is_one_host) {
        world->envs = weft_calloc(1, sizeof(*world->envs));
        world->n_envs = 1;
        fault_env_init(world->envs, world, inner->ops->host_env(inner, 0, 0),
                       world->config.host, 0);
        return;
    }
    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        world->n_envs += world_host_processes(&spec->hosts[i]);
    }
    world->envs = weft_calloc(world->n_envs + 1, sizeof(*world->envs));
    world->n_envs = 0;
    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        for (uint32_t k = 0; k < world_host_processes(&spec->hosts[i]); k++) {
            fault_env_init(&world->envs[world->n_envs++], world,
                           inner->ops->host_env(inner, i, k), i, k);
        }
    }
}

/* Returns true if a process of the inner world is affected by the fault, or must count what it
 * sends for its moment. */
static bool concerns_us(const struct fault_world *world, const struct world_fault *fault)
{
    const struct fault_config *config = &world->config;
    bool is_here = !config->is_one_host || fault->host == config->host;
    bool counts = fault->moment.kind == WORLD_MOMENT_SENT &&
                  (!config->is_one_host || fault->moment.host == config->host);

    return (is_ours(config, fault) && is_here) || counts;
}

/* Sets the timers of all faults. The environments must exist. */
static void plan_all(struct fault_world *world)
{
    const struct world_spec *spec = world->spec;
    weft_ns now = world->inner->ops->now(world->inner);

    world->began_ns = weft_calloc((size_t)spec->n_faults + 1, sizeof(*world->began_ns));
    for (uint32_t i = 0; i < spec->n_faults; i++) {
        const struct world_fault *fault = &spec->faults[i];

        world->began_ns[i] = WEFT_NEVER;
        if (!is_ours(&world->config, fault) ||
            (world->config.is_one_host && fault->host != world->config.host)) {
            continue;
        }
        if (fault->moment.kind == WORLD_MOMENT_START) {
            plan(add_timed(world, fault, i), now + fault->at_ns);
        } else {
            await_moment(world, i);
        }
    }
}

struct world *fault_world_wrap(struct world *inner, const struct world_spec *spec,
                               const struct fault_config *config)
{
    struct fault_world *world = weft_calloc(1, sizeof(*world));
    bool is_needed = config->is_always || spec->rare_ppb > 0;

    world->inner = inner;
    world->spec = spec;
    world->config = *config;
    for (uint32_t i = 0; i < spec->n_faults; i++) {
        is_needed = is_needed || concerns_us(world, &spec->faults[i]);
    }
    if (!is_needed) {
        free(world);
        return inner;
    }
    weft_heap_init(&world->timers);
    fill_ops(world);
    wrap_envs(world);
    plan_all(world);
    fire_due(world, inner->ops->now(inner));
    return &world->base;
}

static const struct fault_env *env_at(struct world *world, uint32_t host,
                                      uint32_t process)
{
    return fault_env_of(world_host_env(world, host, process));
}

uint64_t fault_world_calls(struct world *world, uint32_t host, uint32_t process,
                           enum world_call call)
{
    return env_at(world, host, process)->n_calls[call];
}

uint64_t fault_world_hits(struct world *world, uint32_t host, uint32_t process)
{
    return env_at(world, host, process)->n_hits;
}

enum world_call fault_world_hit(struct world *world, uint32_t host, uint32_t process)
{
    return env_at(world, host, process)->last_hit;
}
