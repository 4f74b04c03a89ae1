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

    if (!fault_is_ours(&world->config, fault)) {
        return world->inner->ops->inject(world->inner, fault);
    }
    fault_timed_plan(fault_timed_add(world, fault, UINT32_MAX), world_now(base));
    fault_fire_due(world, world_now(base));
    return 0;
}

/* Faults of calls are known here, all others to the inner world. */
static weft_ns world_fault_began(const struct world *base, uint32_t fault)
{
    const struct fault_world *world = (const struct fault_world *)(const void *)base;
    const struct world *inner = world->inner;

    return fault_is_ours(&world->config, &world->spec->faults[fault])
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

static void world_report_ended(struct world *base, uint32_t member)
{
    struct world *inner = world_of(base)->inner;

    inner->ops->report_ended(inner, member);
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
        weft_ns next = fault_next_timer(world);
        weft_status status =
            world->inner->ops->step(world->inner, next < until ? next : until);

        fault_fire_due(world, world_now(base));
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
        .report_ended = inner->report_ended == NULL ? NULL : world_report_ended,
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

    return (fault_is_ours(config, fault) && is_here) || counts;
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
        if (!fault_is_ours(&world->config, fault) ||
            (world->config.is_one_host && fault->host != world->config.host)) {
            continue;
        }
        if (fault->moment.kind == WORLD_MOMENT_START) {
            fault_timed_plan(fault_timed_add(world, fault, i), now + fault->at_ns);
        } else {
            fault_timed_await(world, i);
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
    fault_fire_due(world, inner->ops->now(inner));
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
