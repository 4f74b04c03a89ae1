#include "backends/node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/fault/fault.h"
#include "backends/linux/env.h"
#include "backends/linux/loop.h"
#include "backends/soft/host.h"
#include "backends/verbs/host.h"
#include "base/check.h"
#include "base/text.h"
#include "io/gpu.h"
#include "io/machine.h"

struct node_world {
    struct world base;
    struct world_ops ops; /* named after the backend of the devices */
    struct world_setting
        *settings; /* Owned: settings of the host, and the number of this process */
    char process[12];
    struct linux_loop *loop;  /* Owned. */
    struct verbs_host *host;  /* Owned; one of host, soft and bare is set */
    struct soft_host *soft;   /* Owned */
    struct linux_env *bare;   /* Owned */
    struct node_gpu gpu;      /* Owned; gpu is NULL if none */
    struct linux_watch *wake; /* watches gpu.wake_fd; NULL if none */
    /* Owned: what the scenario says about the host's hardware. */
    struct io_machine machine;
};

static struct node_world *node_of(struct world *world)
{
    return weft_container_of(world, struct node_world, base);
}

static struct io_env *node_host_env(struct world *world, uint32_t host, uint32_t process)
{
    (void)process;
    weft_check(host == 0);
    const struct node_world *node = node_of(world);
    if (node->bare != NULL) {
        return linux_env_io(node->bare);
    }
    return node->soft != NULL ? soft_host_env(node->soft) : verbs_host_env(node->host);
}

static struct io_loop *node_loop(struct world *world)
{
    return linux_loop_io(node_of(world)->loop);
}

static weft_ns node_now(struct world *world)
{
    return linux_loop_now(node_of(world)->loop);
}

/* Faults are injected by the process that built the cables. */
static int node_inject(struct world *world, const struct world_fault *fault)
{
    (void)world;
    (void)fault;
    return EOPNOTSUPP;
}

static bool node_host_alive(const struct world *world, uint32_t host)
{
    (void)world;
    (void)host;
    return true;
}

static int node_tap(struct world *world,
                    void (*tap)(void *context, const struct world_frame *frame),
                    void *context)
{
    (void)world;
    (void)context;
    return tap == NULL ? 0 : EOPNOTSUPP;
}

static weft_status node_step(struct world *world, weft_ns until)
{
    return linux_loop_step(node_of(world)->loop, until);
}

static void node_cable_stats(const struct world *world, uint32_t cable,
                             struct world_cable_stats *out)
{
    (void)world;
    (void)cable;
    *out = (struct world_cable_stats){0};
}

static bool node_counter(const struct world *world, uint32_t index, const char **out_name,
                         uint64_t *out_value)
{
    (void)world;
    (void)index;
    (void)out_name;
    (void)out_value;
    return false;
}

static void close_gpu(struct node_world *node)
{
    if (node->gpu.gpu != NULL) {
        linux_loop_unwatch(node->wake);
        node->gpu.close(node->gpu.gpu);
    }
}

static void node_destroy(struct world *world)
{
    if (world != NULL) {
        verbs_host_destroy(node_of(world)->host);
        soft_host_destroy(node_of(world)->soft);
        close_gpu(node_of(world));
        linux_env_destroy(node_of(world)->bare);
        linux_loop_destroy(node_of(world)->loop);
        io_machine_fini(&node_of(world)->machine);
        free(node_of(world)->settings);
        free(node_of(world));
    }
}

static const struct world_ops node_ops = {
    .is_unpaced = true,
    .host_env = node_host_env,
    .loop = node_loop,
    .now = node_now,
    .inject = node_inject,
    .host_alive = node_host_alive,
    .tap = node_tap,
    .step = node_step,
    .cable_stats = node_cable_stats,
    .counter = node_counter,
    .destroy = node_destroy,
};

/* Sets the host's settings, which override the environment; only WEFT_PROCESS does not. */
static uint32_t make_settings(struct node_world *node, const struct world_host *self,
                              uint32_t process)
{
    uint32_t n = self->n_settings;

    node->settings = weft_calloc((size_t)n + 1, sizeof(*node->settings));
    memcpy(node->settings, self->settings, n * sizeof(*node->settings));
    if (process > 0 && getenv("WEFT_PROCESS") == NULL) {
        weft_format(node->process, sizeof(node->process), "%u", process);
        node->settings[n++] = (struct world_setting){"WEFT_PROCESS", node->process};
    }
    return n;
}

static weft_status create_host(struct node_world *node, const struct world_spec *spec,
                               uint32_t host, uint32_t process, bool is_soft,
                               struct weft_error *error)
{
    const struct world_host *self = &spec->hosts[host];
    uint32_t n_settings = make_settings(node, self, process);
    const struct linux_env_config env = {.name = self->name,
                                         .netns_fd = -1,
                                         .settings = node->settings,
                                         .n_settings = n_settings,
                                         .machine = &node->machine,
                                         .trace = spec->trace,
                                         .log = spec->log};
    const char *nic = is_soft ? "soft" : getenv("WEFT_NIC");

    for (uint32_t i = 0; i < self->n_settings; i++) {
        nic = strcmp(self->settings[i].name, "WEFT_NIC") == 0 ? self->settings[i].value
                                                              : nic;
    }
    is_soft = nic != NULL && strcmp(nic, "soft") == 0;
    node->ops.name = is_soft ? "soft" : "verbs";
    if (is_soft) {
        const struct soft_host_config config = {.env = env, .spec = spec, .host = host};

        return soft_host_create(node->loop, &config, &node->soft, error);
    }
    const struct verbs_host_config config = {
        .env = env, .like = self, .owns_thread = true};

    return verbs_host_create(node->loop, &config, &node->host, error);
}

static void gpu_ready(void *context)
{
    struct node_world *node = context;

    node->gpu.progress(node->gpu.gpu);
}

/* A simulated NIC is software, so it reaches only memory that the CPU reaches. */
static weft_status take_gpu(struct node_world *node, node_gpu_open open_gpu,
                            struct weft_error *error)
{
    struct io_env *env = node_host_env(&node->base, 0, 0);
    struct io_gpu *gpu;
    weft_status status = open_gpu(env, &node->gpu, error);
    int sys_errno;

    if (status != WEFT_OK || node->gpu.gpu == NULL) {
        return status;
    }
    gpu = node->gpu.gpu;
    gpu->rdma_direct = gpu->rdma_direct && (node->soft == NULL || gpu->is_host_memory);
    env->gpu = gpu;
    if (node->gpu.wake_fd < 0) {
        return WEFT_OK;
    }
    sys_errno =
        linux_loop_watch(node->loop, node->gpu.wake_fd, gpu_ready, node, &node->wake);
    return sys_errno == 0 ? WEFT_OK
                          : weft_fail_errno(error, sys_errno, WEFT_PHASE_START,
                                            "the GPU's descriptor cannot be watched");
}

struct linux_loop *node_world_loop(struct world *world)
{
    return node_of(world)->loop;
}

weft_status node_world_create(const struct world_spec *spec, uint32_t host,
                              uint32_t process, bool is_soft, node_gpu_open open_gpu,
                              struct world **out, struct weft_error *error)
{
    struct node_world *node = weft_calloc(1, sizeof(*node));
    weft_status status = linux_loop_create(1, &node->loop, error);
    const struct fault_config faults = {
        .has_verbs = true, .is_one_host = true, .host = host};

    io_machine_of_spec(spec, host, &node->machine);
    node->ops = node_ops;
    node->base.ops = &node->ops;
    if (status == WEFT_OK) {
        status = create_host(node, spec, host, process, is_soft, error);
    }
    if (status == WEFT_OK && open_gpu != NULL) {
        status = take_gpu(node, open_gpu, error);
    }
    if (status != WEFT_OK) {
        node_destroy(&node->base);
        return status;
    }
    *out = fault_world_wrap(&node->base, spec, &faults);
    return WEFT_OK;
}

weft_status node_world_bare(struct weft_log *log, struct world **out,
                            struct weft_error *error)
{
    const struct linux_env_config config = {.netns_fd = -1, .log = log};
    struct node_world *node = weft_calloc(1, sizeof(*node));
    weft_status status = linux_loop_create(1, &node->loop, error);

    node->ops = node_ops;
    node->ops.name = "bare";
    node->base.ops = &node->ops;
    if (status == WEFT_OK) {
        status = linux_env_create(node->loop, &config, &node->bare, error);
    }
    if (status != WEFT_OK) {
        node_destroy(&node->base);
        return status;
    }
    *out = &node->base;
    return WEFT_OK;
}
