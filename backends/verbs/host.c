#define _GNU_SOURCE
#include "backends/verbs/host.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "backends/hostmem/hostmem.h"
#include "backends/verbs/device.h"
#include "base/check.h"
#include "base/text.h"
#include "io/interface.h"

#define DEVICES_MAX 64

struct verbs_host {
    struct linux_env *linux_env; /* Owned. */
    struct linux_loop *loop;     /* Not owned. */
    struct verbs_library own_library;
    const struct verbs_library *library;
    struct io_gpu *gpu;         /* Owned. */
    struct io_device **devices; /* Owned [n_devices]; each a verbs_device's io */
    uint32_t n_devices;
};

/* ---- choice of devices ---- */

/* An entry of WEFT_DEVICES. */
struct wanted {
    char name[32]; /* as users see it */
    char device[64];
};

struct wish {
    struct wanted entries[DEVICES_MAX];
    uint32_t n; /* 0: use all devices */
};

static weft_status parse_wish(const char *text, struct wish *out,
                              struct weft_error *error)
{
    out->n = 0;
    while (text != NULL && *text != '\0') {
        size_t n = strcspn(text, ",");
        size_t n_name = strcspn(text, "=,");
        const char *device = n_name < n ? text + n_name + 1 : text;
        size_t n_device = n_name < n ? n - n_name - 1 : n;
        struct wanted *entry = &out->entries[out->n];
        if (out->n == DEVICES_MAX || n_name == 0 || n_name >= sizeof entry->name ||
            n_device == 0 || n_device >= sizeof entry->device) {
            weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_START,
                      "WEFT_DEVICES: expected NAME=DEVICE,..., got %.60s", text);
            return WEFT_ERR_INPUT;
        }
        weft_format(entry->name, sizeof entry->name, "%.*s", (int)n_name, text);
        weft_format(entry->device, sizeof entry->device, "%.*s", (int)n_device, device);
        out->n++;
        text += n + (text[n] == ',' ? 1 : 0);
    }
    return WEFT_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct io_device *left = *(struct io_device *const *)a;
    const struct io_device *right = *(struct io_device *const *)b;
    return strcmp(left->name, right->name);
}

/* Opens `from`, and keeps it if it has a netdev in this namespace. */
static weft_status open_one(struct verbs_host *host, struct ibv_device *from,
                            const struct verbs_device_config *config,
                            const struct wanted *wanted, struct weft_error *error)
{
    struct verbs_device *device;
    weft_status status = verbs_device_open(host->library, from, config, &device, error);
    if (status != WEFT_OK) {
        return status;
    }
    if (!verbs_device_is_ours(device)) {
        weft_log(config->log, WEFT_LOG_INFO, "%s has no netdev in this namespace",
                 device->kernel_name);
        verbs_device_close(device);
        return WEFT_ERR_ENVIRONMENT;
    }
    if (wanted != NULL) {
        weft_format(device->io.name, sizeof device->io.name, "%s", wanted->name);
    }
    host->devices[host->n_devices++] = &device->io;
    return WEFT_OK;
}

static bool has_address(const struct io_netdev *netdev, const struct world_port *port)
{
    for (uint32_t i = 0; i < netdev->n_addresses; i++) {
        for (uint32_t k = 0; k < port->n_addresses; k++) {
            if (io_ip_equal(&netdev->addresses[i].ip, &port->addresses[k].ip)) {
                return true;
            }
        }
    }
    return false;
}

/* Names the device like the port of `like` with the same address, because users may not know the
 * kernel's name. */
static void name_like(struct io_device *device, const struct io_hostinfo *info,
                      const struct world_host *like)
{
    uint32_t ifindex;

    if (device->n_ports != 1 || device->ops->port_netdev(device, 1, &ifindex) != 0) {
        return;
    }
    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        for (uint32_t k = 0; k < like->n_ports && info->netdevs[i].ifindex == ifindex;
             k++) {
            if (has_address(&info->netdevs[i], &like->ports[k])) {
                weft_format(device->name, sizeof device->name, "%s", like->ports[k].name);
                return;
            }
        }
    }
}

/* Opens all devices. A device that cannot be opened does not prevent the use of others. */
static void open_all(struct verbs_host *host, struct ibv_device **list, int n,
                     const struct verbs_device_config *config,
                     const struct world_host *like)
{
    for (int i = 0; i < n && i < DEVICES_MAX; i++) {
        struct weft_error error = {.status = WEFT_OK};
        char text[300];
        if (open_one(host, list[i], config, NULL, &error) != WEFT_OK &&
            error.status != WEFT_OK) {
            weft_error_format(&error, text, sizeof text);
            weft_log(config->log, WEFT_LOG_WARN, "%s: %s", error.object, text);
        }
    }
    for (uint32_t i = 0; like != NULL && i < host->n_devices; i++) {
        name_like(host->devices[i], config->info, like);
    }
    qsort(host->devices, host->n_devices, sizeof(struct io_device *), by_name);
}

static weft_status open_wanted(struct verbs_host *host, struct ibv_device **list, int n,
                               const struct verbs_device_config *config,
                               const struct wish *wish, struct weft_error *error)
{
    for (uint32_t i = 0; i < wish->n; i++) {
        const struct wanted *wanted = &wish->entries[i];
        weft_status status = WEFT_ERR_ENVIRONMENT;
        for (int j = 0; j < n; j++) {
            if (strcmp(host->library->get_device_name(list[j]), wanted->device) == 0) {
                status = open_one(host, list[j], config, wanted, error);
                break;
            }
        }
        if (status != WEFT_OK) { /* an error filled by open_one() is kept */
            weft_error_object(error, "%s", wanted->device);
            return weft_fail(error, status, WEFT_PHASE_START,
                             "no RDMA device %s in this network namespace",
                             wanted->device);
        }
    }
    return WEFT_OK;
}

static weft_status open_devices(struct verbs_host *host,
                                const struct verbs_host_config *config,
                                const struct wish *wish, struct weft_error *error)
{
    struct io_env *env = verbs_host_env(host);
    const struct verbs_device_config device_config = {
        .loop = host->loop,
        .log = config->env.log,
        .info = env->ops->hostinfo(env),
        .sysfs = config->sysfs == NULL ? "/sys" : config->sysfs};
    int n = 0;
    int result = linux_env_enter(host->linux_env);
    weft_check(result == 0); /* hostinfo() has just entered it */
    errno = 0;
    struct ibv_device **list = host->library->get_device_list(&n);
    if (list == NULL) { /* ENOSYS: the kernel has no RDMA (ibv_get_device_list(3)) */
        int why = errno != 0 ? errno : ENOSYS;
        linux_env_leave(host->linux_env);
        if (why == EMFILE || why == ENFILE) {
            return weft_fail_errno(error, why, WEFT_PHASE_START,
                                   "cannot list RDMA devices");
        }
        return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_START,
                         "this kernel has no RDMA devices: %s", strerrordesc_np(why));
    }
    weft_status status = WEFT_OK;
    if (wish->n > 0) {
        status = open_wanted(host, list, n, &device_config, wish, error);
    } else {
        open_all(host, list, n, &device_config, config->like);
    }
    linux_env_leave(host->linux_env);
    host->library->free_device_list(list);
    if (status == WEFT_OK && host->n_devices == 0) {
        status =
            weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_START,
                      "no RDMA device has a port in this network namespace (%d seen)", n);
    }
    return status;
}

/* ---- management ---- */

static bool has_rdma_port(const struct verbs_host *host, uint32_t ifindex)
{
    for (uint32_t i = 0; i < host->n_devices; i++) {
        struct io_device *device = host->devices[i];
        for (uint8_t port = 1; port <= device->n_ports; port++) {
            uint32_t netdev;
            if (device->ops->port_netdev(device, port, &netdev) == 0 &&
                netdev == ifindex) {
                return true;
            }
        }
    }
    return false;
}

/* Returns the first netdev without an RDMA port that `interfaces` selects (NULL: any), or NULL. */
static const struct io_netdev *find_management(const struct verbs_host *host,
                                               const struct io_hostinfo *info,
                                               const char *interfaces, bool is_usable)
{
    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        const struct io_netdev *netdev = &info->netdevs[i];

        if ((!is_usable || (netdev->is_up && netdev->n_addresses > 0)) &&
            (interfaces == NULL || io_interface_is_selected(interfaces, netdev->name)) &&
            !has_rdma_port(host, netdev->ifindex)) {
            return netdev;
        }
    }
    return NULL;
}

/* Chooses the netdev that WEFT_MANAGEMENT names, or the first without an RDMA port that
 * WEFT_INTERFACES selects, or the first without one. Many users set NCCL_SOCKET_IFNAME to the
 * netdev of a cable. Such a netdev must stay a cable, because a management network carries no
 * data. */
static void choose_management(struct verbs_host *host)
{
    struct io_env *env = verbs_host_env(host);
    const char *name = env->ops->setting(env, "WEFT_MANAGEMENT");
    const char *interfaces = env->ops->setting(env, "WEFT_INTERFACES");
    const struct io_hostinfo *info;
    const struct io_netdev *netdev = NULL;

    if (name != NULL) {
        linux_env_set_management(host->linux_env, name);
        return;
    }
    info = env->ops->hostinfo(env);
    if (interfaces != NULL) {
        netdev = find_management(host, info, interfaces, true);
        netdev = netdev != NULL ? netdev : find_management(host, info, interfaces, false);
    }
    if (interfaces != NULL && netdev == NULL) {
        weft_log(
            env->log, WEFT_LOG_INFO,
            "\"%s\" selects no netdev without an RDMA port, so the management network "
            "is the default",
            interfaces);
    }
    netdev = netdev != NULL ? netdev : find_management(host, info, NULL, true);
    linux_env_set_management(host->linux_env, netdev == NULL ? NULL : netdev->name);
}

/* ---- scheduling ---- */

static bool has_software_nic(const struct verbs_host *host)
{
    for (uint32_t i = 0; i < host->n_devices; i++) {
        if (strcmp(verbs_device_of(host->devices[i])->profile, "rxe") == 0) {
            return true;
        }
    }
    return false;
}

/* On one CPU with 64 KiB messages, a wake-up for each, with some ten system calls and two process
 * switches, would cost more than the message. */
static void let_nic_go_first(struct weft_log *log)
{
    const struct sched_param none = {0};

    if (sched_getscheduler(0) == SCHED_OTHER &&
        sched_setscheduler(0, SCHED_BATCH, &none) != 0) {
        weft_log(log, WEFT_LOG_INFO, "SCHED_BATCH: %s", strerrordesc_np(errno));
    }
}

/* ---- set-up and release ---- */

static weft_status start(struct verbs_host *host, const struct verbs_host_config *config,
                         struct weft_error *error)
{
    struct wish wish;
    struct io_env *env = verbs_host_env(host);
    weft_status status = parse_wish(env->ops->setting(env, "WEFT_DEVICES"), &wish, error);
    if (status == WEFT_OK && config->library == NULL) {
        status = verbs_library_open(NULL, &host->own_library, error);
        host->library = &host->own_library;
    } else {
        host->library = config->library;
    }
    if (status != WEFT_OK) {
        return status;
    }
    status = open_devices(host, config, &wish, error);
    if (status == WEFT_OK) {
        choose_management(host);
        env->devices = host->devices;
        env->n_devices = host->n_devices;
        if (config->owns_thread && has_software_nic(host)) {
            let_nic_go_first(config->env.log);
        }
        for (uint32_t i = 0; i < host->n_devices; i++) {
            verbs_device_tell(verbs_device_of(host->devices[i]), config->env.trace,
                              env->name);
        }
    }
    return status;
}

weft_status verbs_host_create(struct linux_loop *loop,
                              const struct verbs_host_config *config,
                              struct verbs_host **out, struct weft_error *error)
{
    struct verbs_host *host = weft_calloc(1, sizeof *host);
    host->loop = loop;
    weft_status status = linux_env_create(loop, &config->env, &host->linux_env, error);
    if (status != WEFT_OK) {
        free(host);
        return status;
    }
    host->gpu = hostmem_create();
    verbs_host_env(host)->gpu = host->gpu;
    host->devices = weft_calloc(DEVICES_MAX, sizeof(struct io_device *));
    status = start(host, config, error);
    if (status != WEFT_OK) {
        verbs_host_destroy(host);
        return status;
    }
    *out = host;
    return WEFT_OK;
}

void verbs_host_destroy(struct verbs_host *host)
{
    if (host == NULL) {
        return;
    }
    for (uint32_t i = 0; i < host->n_devices; i++) {
        verbs_device_close(verbs_device_of(host->devices[i]));
    }
    free(host->devices);
    verbs_library_close(&host->own_library);
    hostmem_destroy(host->gpu);
    linux_env_destroy(host->linux_env);
    free(host);
}

struct io_env *verbs_host_env(struct verbs_host *host)
{
    return linux_env_io(host->linux_env);
}
