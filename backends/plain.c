#include "backends/plain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/linux/env.h"
#include "backends/node.h"
#include "backends/plain_loopback.h"
#include "backends/sim/backend.h"
#include "backends/soft/udp.h"
#include "base/check.h"
#include "base/text.h"
#include "io/interface.h"

#define PORTS_MAX 16u

struct plain_world {
    struct world base;
    struct world *node;          /* Owned */
    const struct world_ops *its; /* operations of `node` */
    struct io_task *task;        /* Not owned; woken by the loop's bell */
    /* Not owned: loop of `node`; NULL until plain_world_wakes(). */
    struct linux_loop *loop;
    uint32_t n_hosts;
    struct plain_loopback *loopback; /* Owned; or NULL */
    struct world_spec spec;
    struct world_host host;
    struct world_port ports[PORTS_MAX];
    struct io_prefix *addresses[PORTS_MAX]; /* Owned */
    char names[PORTS_MAX][32], name[64], management[32], process[8];
    char interfaces[256];
    struct world_setting settings[3];
    uint64_t root_bps;
};

static struct plain_world *plain_of(struct world *world)
{
    return weft_container_of(world, struct plain_world, base);
}

/* ---- the machine as a host of a scenario ---- */

static void add_port(struct plain_world *plain, const struct io_netdev *netdev)
{
    uint32_t i = plain->host.n_ports;
    struct io_prefix *addresses = weft_calloc(netdev->n_addresses, sizeof(*addresses));
    uint32_t n = 0;

    for (uint32_t a = 0; a < netdev->n_addresses; a++) {
        if (!io_ip_is_link_local(&netdev->addresses[a].ip)) {
            addresses[n++] = netdev->addresses[a];
        }
    }
    if (n == 0 || i == PORTS_MAX) {
        free(addresses);
        return;
    }
    plain->addresses[i] = addresses;
    weft_format(plain->names[i], sizeof(plain->names[i]), "%s", netdev->name);
    plain->ports[i] = (struct world_port){
        .name = plain->names[i],
        .device = i,
        .port = 1,
        .rate_bps = netdev->speed_bps != 0 ? netdev->speed_bps : UINT64_C(10000000000),
        .mtu_bytes = netdev->mtu_bytes,
        .addresses = addresses,
        .n_addresses = n};
    plain->host.n_ports++;
}

static bool is_port(const struct plain_world *plain, const char *netdev)
{
    for (uint32_t p = 0; p < plain->host.n_ports; p++) {
        if (strcmp(netdev, plain->names[p]) == 0) {
            return true;
        }
    }
    return false;
}

/* Sets the management netdev to the first that is up, has an address and that `interfaces` selects
 * (NULL: any). Prefers one that is no port; without `interfaces` takes no other. */
static void choose_management(struct plain_world *plain, const struct io_hostinfo *info,
                              const char *interfaces)
{
    const struct io_netdev *best = NULL;

    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        const struct io_netdev *netdev = &info->netdevs[i];
        bool is_shared = is_port(plain, netdev->name);

        if (!netdev->is_up || netdev->n_addresses == 0 ||
            (interfaces == NULL && is_shared) ||
            (interfaces != NULL && !io_interface_is_selected(interfaces, netdev->name))) {
            continue;
        }
        if (best == NULL || (is_port(plain, best->name) && !is_shared)) {
            best = netdev;
        }
    }
    if (best != NULL) {
        weft_format(plain->management, sizeof(plain->management), "%s", best->name);
    }
}

/* Reads the netdevs, with a temporary loop and environment. */
static weft_status describe_soft(struct plain_world *plain,
                                 const struct plain_config *config,
                                 struct weft_error *error)
{
    const struct linux_env_config env_config = {.netns_fd = -1, .log = config->log};
    struct linux_loop *loop = NULL;
    struct linux_env *env = NULL;
    weft_status status = linux_loop_create(1, &loop, error);

    if (status == WEFT_OK) {
        status = linux_env_create(loop, &env_config, &env, error);
    }
    if (status == WEFT_OK) {
        struct io_env *io = linux_env_io(env);
        const struct io_hostinfo *info = io->ops->hostinfo(io);

        for (uint32_t i = 0; i < info->n_netdevs; i++) {
            const struct io_netdev *netdev = &info->netdevs[i];

            if (config->netdevs == NULL ? netdev->is_up && netdev->n_addresses > 0
                                        : weft_is_listed(config->netdevs, netdev->name)) {
                add_port(plain, netdev);
            }
        }
        if (config->management != NULL) {
            weft_format(plain->management, sizeof(plain->management), "%s",
                        config->management);
        } else {
            choose_management(plain, info, config->interfaces);
        }
        if (plain->management[0] == '\0') {
            choose_management(plain, info, NULL);
        }
        if (plain->host.n_ports == 0 && info->netdevs_errno != 0) {
            status = weft_fail_errno(error, info->netdevs_errno, WEFT_PHASE_START,
                                     "cannot ask the kernel for its interfaces");
        } else if (plain->host.n_ports == 0) {
            status = weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_START,
                               "no netdev with an address to simulate a NIC on");
        }
    }
    linux_env_destroy(env);
    linux_loop_destroy(loop);
    return status;
}

static void describe(struct plain_world *plain, const struct plain_config *config)
{
    if (config->name != NULL) {
        weft_format(plain->name, sizeof(plain->name), "%s", config->name);
    } else if (gethostname(plain->name, sizeof(plain->name) - 1) != 0) {
        weft_format(plain->name, sizeof(plain->name), "localhost");
    }
    plain->host = (struct world_host){.name = plain->name,
                                      .profile = WEFT_PROFILE_MLX5,
                                      .ports = plain->ports,
                                      .pcie_root_bps = &plain->root_bps,
                                      .n_pcie_roots = 1,
                                      .n_gpus = 1,
                                      .forward_accept = true,
                                      .memlock_bytes = INT64_MAX,
                                      .settings = plain->settings};
    plain->spec = (struct world_spec){
        .seed = 1, .hosts = &plain->host, .n_hosts = 1, .log = config->log};
}

static void set(struct plain_world *plain, const char *name, const char *value)
{
    plain->settings[plain->host.n_settings++] =
        (struct world_setting){.name = name, .value = value};
}

/* With RDMA devices, the host chooses the management netdev, because it knows which netdevs have a
 * port. */
static void set_interfaces(struct plain_world *plain, const struct plain_config *config)
{
    if (config->management != NULL) {
        weft_format(plain->interfaces, sizeof(plain->interfaces), "=%s",
                    config->management);
    } else if (config->interfaces != NULL) {
        weft_format(plain->interfaces, sizeof(plain->interfaces), "%s",
                    config->interfaces);
    }
    if (plain->interfaces[0] != '\0') {
        set(plain, "WEFT_INTERFACES", plain->interfaces);
    }
}

/* ---- the world ---- */

static struct io_env *plain_host_env(struct world *world, uint32_t host, uint32_t process)
{
    return plain_of(world)->its->host_env(plain_of(world)->node, host, process);
}

static struct io_loop *plain_loop(struct world *world)
{
    return plain_of(world)->its->loop(plain_of(world)->node);
}

static weft_ns plain_now(struct world *world)
{
    return plain_of(world)->its->now(plain_of(world)->node);
}

static weft_status plain_step(struct world *world, weft_ns until)
{
    return plain_of(world)->its->step(plain_of(world)->node, until);
}

static void plain_destroy(struct world *world)
{
    struct plain_world *plain;

    if (world == NULL) {
        return;
    }
    plain = plain_of(world);
    if (plain->node != NULL) {
        plain->its->destroy(plain->node);
    }
    for (uint32_t i = 0; i < plain->host.n_ports; i++) {
        free(plain->addresses[i]);
    }
    plain_loopback_destroy(plain->loopback);
    free(plain);
}

/* Tries process numbers until one is free, because processes of a host share its addresses. */
static weft_status create_soft(struct plain_world *plain, struct weft_error *error)
{
    weft_status status = WEFT_ERR_ENVIRONMENT;

    set(plain, "WEFT_NIC", "soft");
    if (plain->management[0] != '\0') {
        set(plain, "WEFT_MANAGEMENT", plain->management);
    }
    set(plain, "WEFT_PROCESS", plain->process);
    for (uint32_t i = 0; i < SOFT_PROCESSES_MAX; i++) {
        weft_error_clear(error);
        weft_format(plain->process, sizeof(plain->process), "%u", i);
        status = node_world_create(&plain->spec, 0, 0, false, NULL, &plain->node, error);
        if (status == WEFT_OK || error->sys_errno != EADDRINUSE) {
            break;
        }
    }
    return status;
}

static weft_status create_loopback(struct plain_world *plain,
                                   const struct plain_config *config,
                                   struct weft_error *error)
{
    const struct world_spec *spec;
    uint32_t host;
    weft_status status =
        plain_loopback_create(config->loopback, config->log, &plain->loopback, error);

    if (status == WEFT_OK) {
        spec = plain_loopback_spec(plain->loopback, &host);
        status = node_world_create(spec, host, 0, false, NULL, &plain->node, error);
    }
    return status;
}

static weft_status create_simulated(struct plain_world *plain,
                                    const struct plain_config *config,
                                    struct weft_error *error)
{
    const struct world_spec *spec;
    uint32_t first;
    weft_status status = plain_loopback_create_all(config->simulated, config->log,
                                                   &plain->loopback, error);

    if (status == WEFT_OK) {
        spec = plain_loopback_spec(plain->loopback, &first);
        plain->n_hosts = spec->n_hosts;
        status = backend_sim.create(spec, &plain->node, error);
    }
    return status;
}

weft_status plain_world_create(const struct plain_config *config, struct world **out,
                               struct weft_error *error)
{
    static const struct world_ops ops = {.name = "plain",
                                         .is_unpaced = true,
                                         .host_env = plain_host_env,
                                         .loop = plain_loop,
                                         .now = plain_now,
                                         .step = plain_step,
                                         .destroy = plain_destroy};
    struct plain_world *plain = weft_calloc(1, sizeof(*plain));
    weft_status status = WEFT_OK;

    plain->base.ops = &ops;
    plain->n_hosts = 1;
    describe(plain, config);
    if (config->simulated != NULL) {
        status = create_simulated(plain, config, error);
    } else if (config->is_soft && config->loopback != NULL) {
        status = create_loopback(plain, config, error);
    } else if (config->is_soft) {
        status = describe_soft(plain, config, error);
        if (status == WEFT_OK) {
            status = create_soft(plain, error);
        }
    } else {
        set_interfaces(plain, config);
        status = node_world_create(&plain->spec, 0, 0, false, NULL, &plain->node, error);
    }
    if (status != WEFT_OK) {
        plain_destroy(&plain->base);
        return status;
    }
    plain->its = plain->node->ops;
    *out = &plain->base;
    return WEFT_OK;
}

uint32_t plain_world_hosts(struct world *world)
{
    return plain_of(world)->n_hosts;
}

/* ---- from other threads ---- */

static void wake_now(void *context)
{
    struct plain_world *plain = context;

    io_task_wake(plain->task);
}

void plain_world_wakes(struct world *world, struct io_task *task)
{
    struct plain_world *plain = plain_of(world);

    plain->task = task;
    plain->loop = node_world_loop(plain->node);
    linux_loop_hang_bell(plain->loop, wake_now, plain);
}

void plain_world_wake(struct world *world)
{
    linux_loop_ring(plain_of(world)->loop);
}
