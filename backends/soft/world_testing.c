#include "backends/soft/world_testing.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/linux/world_testing.h"
#include "backends/soft/loopback.h"
#include "base/check.h"
#include "base/text.h"

struct soft_world {
    struct loop_world base;
    const struct world_spec *spec;
    struct soft_host **hosts; /* Owned [spec->n_hosts] */
    struct world_setting **settings;
    int claim_fd;
};

static struct soft_world *of(const struct world *world)
{
    return (struct soft_world *)(uintptr_t)((uintptr_t)world -
                                            offsetof(struct soft_world, base.world));
}

static void destroy(struct world *world)
{
    if (world == NULL) {
        return;
    }
    struct soft_world *self = of(world);
    for (uint32_t i = 0; i < self->spec->n_hosts; i++) {
        soft_host_destroy(self->hosts[i]);
        free(self->settings[i]);
    }
    linux_loop_destroy(self->base.loop);
    close(self->claim_fd);
    free(self->settings);
    free(self->hosts);
    free(self);
}

static weft_status create(const struct world_spec *spec, struct world **out,
                          struct weft_error *error)
{
    struct soft_world *self = weft_calloc(1, sizeof *self);
    uint8_t block = 0;
    static char text[8];
    weft_status status = linux_loop_create(spec->n_hosts, &self->base.loop, error);
    weft_check(status == WEFT_OK);
    self->base.world.ops = &soft_testing_ops;
    self->spec = spec;
    self->hosts = weft_calloc((size_t)spec->n_hosts + 1, sizeof(struct soft_host *));
    self->settings =
        weft_calloc((size_t)spec->n_hosts + 1, sizeof(struct world_setting *));
    int problem = soft_loopback_claim(&block, &self->claim_fd);
    weft_check(problem == 0);
    weft_format(text, sizeof text, "%u", block);
    for (uint32_t i = 0; i < spec->n_hosts && status == WEFT_OK; i++) {
        const struct world_host *host = &spec->hosts[i];
        self->settings[i] =
            weft_calloc((size_t)host->n_settings + 1, sizeof **self->settings);
        for (uint32_t j = 0; j < host->n_settings; j++) {
            self->settings[i][j] = host->settings[j];
        }
        self->settings[i][host->n_settings] =
            (struct world_setting){"WEFT_SOFT_BLOCK", text};
        const struct soft_host_config config = {
            .env = {.name = host->name,
                    .host = i,
                    .netns_fd = -1,
                    .only_given_settings = true,
                    .settings = self->settings[i],
                    .n_settings = host->n_settings + 1,
                    .trace = spec->trace,
                    .log = spec->log},
            .spec = spec,
            .host = i};
        status = soft_host_create(self->base.loop, &config, &self->hosts[i], error);
    }
    if (status != WEFT_OK) {
        destroy(&self->base.world);
        return status;
    }
    *out = &self->base.world;
    return WEFT_OK;
}

static struct io_env *host_env(struct world *world, uint32_t host, uint32_t process)
{
    weft_check(process == 0);
    return soft_host_env(of(world)->hosts[host]);
}

/* Supports only WORLD_FAULT_DOWN and UP of a cable, which both of its ends see. */
static int inject(struct world *world, const struct world_fault *fault)
{
    struct soft_world *self = of(world);
    uint32_t cable;
    bool is_up = fault->kind == WORLD_FAULT_UP;
    if ((!is_up && fault->kind != WORLD_FAULT_DOWN) || !fault->has_port ||
        !soft_port_cable(self->spec, fault->host, fault->port, &cable)) {
        return EOPNOTSUPP;
    }
    for (unsigned i = 0; i < 2; i++) {
        const struct world_end *end = &self->spec->cables[cable].ends[i];
        soft_host_set_carrier(self->hosts[end->node], end->port, is_up);
    }
    return 0;
}

static void cable_stats(const struct world *world, uint32_t cable,
                        struct world_cable_stats *out)
{
    *out = (struct world_cable_stats){.bytes = {0, 0}};
    for (unsigned i = 0; i < 2; i++) {
        const struct world_end *end = &of(world)->spec->cables[cable].ends[i];
        struct sim_direction_stats sent =
            soft_host_sent(of(world)->hosts[end->node], end->port);
        out->bytes[i] = sent.bytes;
        out->packets[i] = sent.packets;
        out->drops[i] = sent.drops;
    }
}

const struct world_ops soft_testing_ops = {
    .name = "soft",
    .is_unpaced = true,
    .create = create,
    .host_env = host_env,
    LOOP_WORLD_OPS,
    .inject = inject,
    .cable_stats = cable_stats,
    .destroy = destroy,
};

struct soft_host *soft_testing_host(struct world *world, uint32_t host)
{
    return of(world)->hosts[host];
}

struct linux_loop *soft_testing_loop(struct world *world)
{
    return of(world)->base.loop;
}
