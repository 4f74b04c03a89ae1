/* The conformance suite of the I/O interface over real TCP between two namespaces, with host
 * memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/hostmem/hostmem.h"
#include "backends/linux/env.h"
#include "backends/linux/netns_testing.h"
#include "backends/linux/world_testing.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "io/conformance_testing.h"

struct veth_world {
    struct loop_world base;
    struct linux_env *envs[2];
    struct io_gpu *gpus[2];
    int netns[2];
};

static const struct world_ops veth_ops;

static struct veth_world *of(struct world *world)
{
    return weft_container_of(world, struct veth_world, base.world);
}

static void add_link_local(const int netns[2])
{
    netns_testing_address(netns[0], "p0", "fe80::1/64");
    netns_testing_address(netns[1], "p0", "fe80::2/64");
}

static weft_status create(const struct world_spec *spec, struct world **out,
                          struct weft_error *error)
{
    struct veth_world *self = weft_calloc(1, sizeof *self);
    self->base.world.ops = &veth_ops;
    ck_assert_int_eq(linux_loop_create(2, &self->base.loop, error), WEFT_OK);
    self->netns[0] = netns_testing_create();
    self->netns[1] = netns_testing_create();
    loop_world_lay_cables(spec, self->netns);
    add_link_local(self->netns);
    for (uint32_t i = 0; i < 2; i++) {
        struct linux_env_config config = {.name = spec->hosts[i].name,
                                          .host = i,
                                          .netns_fd = self->netns[i],
                                          .management = "mgmt",
                                          .only_given_settings = true,
                                          .settings = spec->hosts[i].settings,
                                          .n_settings = spec->hosts[i].n_settings};
        ck_assert_int_eq(
            linux_env_create(self->base.loop, &config, &self->envs[i], error), WEFT_OK);
        self->gpus[i] = hostmem_create();
        linux_env_io(self->envs[i])->gpu = self->gpus[i];
    }
    *out = &self->base.world;
    return WEFT_OK;
}

static struct io_env *host_env(struct world *world, uint32_t host, uint32_t process)
{
    (void)process;
    return linux_env_io(of(world)->envs[host]);
}

static int inject(struct world *world, const struct world_fault *fault)
{
    (void)world;
    (void)fault;
    return EOPNOTSUPP;
}

static void cable_stats(const struct world *world, uint32_t cable,
                        struct world_cable_stats *out)
{
    (void)world;
    (void)cable;
    *out = (struct world_cable_stats){.bytes = {0, 0}};
}

static void destroy(struct world *world)
{
    if (world == NULL) {
        return;
    }
    for (uint32_t i = 0; i < 2; i++) {
        linux_env_destroy(of(world)->envs[i]);
        hostmem_destroy(of(world)->gpus[i]);
        close(of(world)->netns[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        for (int j = 0; j < N_TASKS; j++) {
            io_task_fini(&now_testing.task[i][j]);
        }
    }
    linux_loop_destroy(of(world)->base.loop);
    free(of(world));
}

static const struct world_ops veth_ops = {
    .name = "linux",
    .create = create,
    .host_env = host_env,
    LOOP_WORLD_OPS,
    .inject = inject,
    .cable_stats = cable_stats,
    .destroy = destroy,
};

int main(void)
{
    const char *why;
    if (!netns_testing_available(&why)) {
        printf("SKIP io conformance, linux: %s\n", why);
        return 77;
    }
    Suite *suite = suite_create("io conformance, linux");
    conformance_add_without_devices(suite, &veth_ops);
    return suite_run(suite);
}
