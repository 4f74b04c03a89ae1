/* The waist's conformance suite over real TCP between two namespaces, with host memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/hostmem/hostmem.h"
#include "backends/linux/env.h"
#include "backends/linux/netns_testing.h"
#include "base/check.h"
#include "base/text.h"
#include "io/conformance_testing.h"

struct veth_world {
    struct world world;
    struct linux_loop *loop;
    struct linux_env *envs[2];
    struct io_gpu *gpus[2];
    int netns[2];
};

static const struct world_ops veth_ops;

static struct veth_world *of(struct world *world)
{
    return weft_container_of(world, struct veth_world, world);
}

static void lay_cables(const struct world_spec *spec, const int netns[2])
{
    char text[IO_IP_TEXT_BYTES + 4], ip[IO_IP_TEXT_BYTES];
    netns_testing_veth(netns[0], "p0", netns[1], "p0", spec->hosts[0].ports[0].mtu_bytes);
    netns_testing_veth(netns[0], "mgmt", netns[1], "mgmt", 1500);
    for (uint32_t i = 0; i < 2; i++) {
        const struct io_prefix *prefix = &spec->hosts[i].ports[0].addresses[0];
        weft_format(text, sizeof text, "%s/%u", io_ip_format(&prefix->ip, ip, sizeof ip),
                    prefix->prefix_len);
        netns_testing_address(netns[i], "p0", text);
        weft_format(text, sizeof text, "fe80::%u/64", i + 1);
        netns_testing_address(netns[i], "p0", text);
        weft_format(text, sizeof text, "%s/%u",
                    io_ip_format(&spec->hosts[i].management_ip, ip, sizeof ip),
                    spec->management.prefix_len);
        netns_testing_address(netns[i], "mgmt", text);
    }
}

static weft_status create(const struct world_spec *spec, struct world **out,
                          struct weft_error *error)
{
    struct veth_world *self = weft_calloc(1, sizeof *self);
    self->world.ops = &veth_ops;
    ck_assert_int_eq(linux_loop_create(2, &self->loop, error), WEFT_OK);
    self->netns[0] = netns_testing_create();
    self->netns[1] = netns_testing_create();
    lay_cables(spec, self->netns);
    for (uint32_t i = 0; i < 2; i++) {
        struct linux_env_config config = {.name = spec->hosts[i].name,
                                          .host = i,
                                          .netns_fd = self->netns[i],
                                          .management = "mgmt",
                                          .only_given_settings = true,
                                          .settings = spec->hosts[i].settings,
                                          .n_settings = spec->hosts[i].n_settings};
        ck_assert_int_eq(linux_env_create(self->loop, &config, &self->envs[i], error),
                         WEFT_OK);
        self->gpus[i] = hostmem_create();
        linux_env_io(self->envs[i])->gpu = self->gpus[i];
    }
    *out = &self->world;
    return WEFT_OK;
}

static struct io_env *host_env(struct world *world, uint32_t host, uint32_t process)
{
    (void)process;
    return linux_env_io(of(world)->envs[host]);
}

static struct io_loop *loop(struct world *world)
{
    return linux_loop_io(of(world)->loop);
}

static weft_ns now(struct world *world)
{
    return linux_loop_now(of(world)->loop);
}

static int inject(struct world *world, const struct world_fault *fault)
{
    (void)world;
    (void)fault;
    return EOPNOTSUPP;
}

static bool host_alive(const struct world *world, uint32_t host)
{
    (void)world;
    (void)host;
    return true;
}

static weft_status step(struct world *world, weft_ns until)
{
    return linux_loop_step(of(world)->loop, until);
}

static void cable_stats(const struct world *world, uint32_t cable,
                        struct world_cable_stats *out)
{
    (void)world;
    (void)cable;
    *out = (struct world_cable_stats){.bytes = {0, 0}};
}

static bool counter(const struct world *world, uint32_t index, const char **out_name,
                    uint64_t *out_value)
{
    (void)world;
    (void)index;
    (void)out_name;
    (void)out_value;
    return false;
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
    linux_loop_destroy(of(world)->loop);
    free(of(world));
}

static const struct world_ops veth_ops = {
    .name = "linux",
    .create = create,
    .host_env = host_env,
    .loop = loop,
    .now = now,
    .inject = inject,
    .host_alive = host_alive,
    .step = step,
    .cable_stats = cable_stats,
    .counter = counter,
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
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
