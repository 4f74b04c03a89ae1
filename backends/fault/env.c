/* The environment of a process: forwarded calls, shared and GPU memory, and the tasks to wake. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/fault/private.h"

static weft_ns env_now(struct io_env *io)
{
    return io_now(fault_env_of(io)->inner);
}

static void env_random(struct io_env *io, void *out, size_t n_bytes)
{
    struct io_env *inner = fault_env_of(io)->inner;

    inner->ops->random(inner, out, n_bytes);
}

static const char *env_setting(struct io_env *io, const char *name)
{
    struct io_env *inner = fault_env_of(io)->inner;

    return inner->ops->setting(inner, name);
}

static const struct io_hostinfo *env_hostinfo(struct io_env *io)
{
    struct io_env *inner = fault_env_of(io)->inner;

    return inner->ops->hostinfo(inner);
}

static const uint8_t *env_host_id(struct io_env *io)
{
    return io_host_id(fault_env_of(io)->inner);
}

static bool env_next_ended(struct io_env *io, uint32_t *out_member)
{
    struct fault_env *env = fault_env_of(io);

    fault_env_pass_tasks(env);
    return io_next_ended(env->inner, out_member);
}

static void env_reached(struct io_env *io, enum io_stage stage, uint64_t n)
{
    struct fault_env *env = fault_env_of(io);

    fault_world_reached(env, stage, n);
    io_reached(env->inner, stage, n);
}

static bool waits_for_sent(const struct world_spec *spec, uint32_t host)
{
    for (uint32_t i = 0; i < spec->n_faults; i++) {
        const struct world_moment *moment = &spec->faults[i].moment;

        if (moment->kind == WORLD_MOMENT_SENT && moment->host == host) {
            return true;
        }
    }
    return false;
}

static const struct io_env_ops env_ops = {
    .now = env_now,
    .random = env_random,
    .setting = env_setting,
    .hostinfo = env_hostinfo,
    .host_id = env_host_id,
    .next_ended = env_next_ended,
    .reached = env_reached,
};

/* ---- shared memory ---- */

static int shm_create(struct io_env *io, size_t n_bytes, char out_name[IO_SHM_NAME_BYTES],
                      struct io_shm **out)
{
    struct fault_env *env = fault_env_of(io);
    int error = fault_judge(env, FAULT_NO_DEVICE, WORLD_CALL_SHM_CREATE).error;

    return error != 0 ? error
                      : env->inner->shm->create(env->inner, n_bytes, out_name, out);
}

static int shm_attach(struct io_env *io, const char *name, size_t n_bytes,
                      struct io_shm **out)
{
    struct fault_env *env = fault_env_of(io);
    int error = fault_judge(env, FAULT_NO_DEVICE, WORLD_CALL_SHM_ATTACH).error;

    return error != 0 ? error : env->inner->shm->attach(env->inner, name, n_bytes, out);
}

/* ---- GPU memory ---- */

static struct fault_gpu *gpu_of(struct io_gpu *io)
{
    return weft_container_of(io, struct fault_gpu, io);
}

static int gpu_alloc(struct io_gpu *io, enum io_memory where, size_t n_bytes, void **out)
{
    struct fault_gpu *gpu = gpu_of(io);
    int error = fault_judge(gpu->env, FAULT_NO_DEVICE, WORLD_CALL_ALLOC).error;

    return error != 0 ? error : gpu->inner->ops->alloc(gpu->inner, where, n_bytes, out);
}

static void gpu_free(struct io_gpu *io, void *memory)
{
    gpu_of(io)->inner->ops->free(gpu_of(io)->inner, memory);
}

static int gpu_start(struct io_gpu *io, struct io_gpu_op *op)
{
    struct fault_gpu *gpu = gpu_of(io);
    int error = fault_judge(gpu->env, FAULT_NO_DEVICE, WORLD_CALL_START).error;

    return error != 0 ? error : gpu->inner->ops->start(gpu->inner, op);
}

static int gpu_poll(struct io_gpu *io, struct io_gpu_op *op)
{
    return gpu_of(io)->inner->ops->poll(gpu_of(io)->inner, op);
}

static int gpu_fence(struct io_gpu *io, void *memory, size_t n_bytes)
{
    return gpu_of(io)->inner->ops->fence(gpu_of(io)->inner, memory, n_bytes);
}

static int gpu_upload(struct io_gpu *io, void *to, const void *from, size_t n_bytes)
{
    return gpu_of(io)->inner->ops->upload(gpu_of(io)->inner, to, from, n_bytes);
}

static int gpu_download(struct io_gpu *io, void *to, const void *from, size_t n_bytes)
{
    return gpu_of(io)->inner->ops->download(gpu_of(io)->inner, to, from, n_bytes);
}

static bool gpu_can_access(struct io_gpu *io, const char *peer_uuid)
{
    return gpu_of(io)->inner->ops->can_access(gpu_of(io)->inner, peer_uuid);
}

/* Offers only what the inner GPU offers. */
static void init_gpu(struct fault_env *env)
{
    struct fault_gpu *gpu = &env->gpu;
    const struct io_gpu_ops *below = env->inner->gpu->ops;

    gpu->io = *env->inner->gpu;
    gpu->inner = env->inner->gpu;
    gpu->env = env;
    gpu->ops = (struct io_gpu_ops){
        .alloc = gpu_alloc,
        .free = gpu_free,
        .start = gpu_start,
        .poll = gpu_poll,
        .fence = gpu_fence,
        .upload = gpu_upload,
        .download = gpu_download,
        .can_access = below->can_access == NULL ? NULL : gpu_can_access,
    };
    gpu->io.ops = &gpu->ops;
    gpu->io.sharing = gpu->inner->sharing == NULL ? NULL : &fault_sharing_ops;
    env->io.gpu = &gpu->io;
}

/* ---- set-up and release ---- */

void fault_env_init(struct fault_env *env, struct fault_world *world,
                    struct io_env *inner, uint32_t host, uint32_t process)
{
    char stream[40];

    *env = (struct fault_env){
        .inner = inner, .world = world, .host = host, .process = process};
    env->io = *inner;
    env->counts_sent = waits_for_sent(world->spec, host);
    weft_format(stream, sizeof(stream), "rare:%u:%u", host, process);
    weft_rng_init(&env->rng, world->spec->seed, stream);
    env->io.ops = &env_ops;
    env->io.oob = &fault_oob_ops;
    if (inner->shm != NULL) {
        env->shm = *inner->shm;
        env->shm.create = shm_create;
        env->shm.attach = shm_attach;
        env->io.shm = &env->shm;
    }
    env->io.ended_task = NULL;
    env->devices = weft_calloc(inner->n_devices + 1, sizeof(*env->devices));
    env->io.devices = weft_calloc(inner->n_devices + 1, sizeof(struct io_device *));
    for (uint32_t i = 0; i < inner->n_devices; i++) {
        fault_device_init(&env->devices[i], env, i);
        env->io.devices[i] = &env->devices[i].io;
    }
    init_gpu(env);
}

void fault_env_stop(struct fault_env *env)
{
    for (uint32_t i = 0; i < env->io.n_devices; i++) {
        fault_calls_stop(&env->devices[i]);
    }
}

void fault_env_fini(struct fault_env *env)
{
    env->inner->ended_task = NULL;
    for (uint32_t i = 0; i < env->io.n_devices; i++) {
        fault_device_fini(&env->devices[i]);
    }
    while (env->rules != NULL) {
        struct fault_rule *rule = env->rules;

        env->rules = rule->next;
        free(rule);
    }
    free(env->io.devices);
    free(env->devices);
}
