#define _GNU_SOURCE
#include "plugin/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"
#include "base/version.h"
#include "plugin/driver.h"
#include "plugin/dump.h"
#include "plugin/finding.h"
#include "plugin/log.h"
#include "plugin/settings.h"

#define DEVICES_MAX 256u

/* The state of this process. Changed under `lock`, or before the thread starts. */
static struct {
    pthread_mutex_t lock;
    bool is_started, is_broken;
    atomic_bool is_child; /* child of a fork, in which the thread does not exist */
    bool knows_forks;
    struct plugin_settings settings;
    struct weft_log log;
    uint32_t n_devices;
    struct {
        struct engine *engine;
        uint32_t port;
    } devices[DEVICES_MAX]; /* valid once all engines are ready */
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the log ---- */

static void write_line(void *context, enum weft_log_level level, const char *line)
{
    (void)context;
    plugin_log(level <= WEFT_LOG_WARN ? ABI_LOG_WARN : ABI_LOG_INFO, "%s", line);
}

static void warn(const char *text)
{
    plugin_log(ABI_LOG_WARN, "%s", text);
}

static const char *get_setting(const char *name)
{
    return getenv(name);
}

/* ---- start ---- */

static void forked(void)
{
    atomic_store(&process.is_child, true);
}

static void log_failure(const struct weft_error *error)
{
    char text[400];

    finding_word(error, text, sizeof(text));
    plugin_log(ABI_LOG_WARN, "cannot start: %s", text);
}

static void start_dump(void)
{
    const struct plugin_settings *settings = &process.settings;
    const char *why = NULL;

    if (settings->dump[0] != '\0') {
        why = dump_start(settings->dump, settings->dump_signal, driver.ops->wake,
                         driver_context(0));
    }
    if (why != NULL) {
        plugin_log(ABI_LOG_WARN,
                   "NCCL_MESH_DUMP_SIGNAL: only failures write the state, because signal "
                   "%d cannot ask for it: %s",
                   settings->dump_signal, why);
    }
}

static bool start_engine(uint32_t host, struct engine_config *config)
{
    struct weft_error error = {0};

    config->world = driver.world;
    config->host = host;
    config->names_host = plain_world_hosts(driver.world) > 1;
    config->wake = driver.ops->wake;
    config->wait = driver.ops->wait;
    config->done = driver.ops->done;
    config->context = driver_context(host);
    if (engine_create(config, &driver.engines[host], &error) < 0) {
        log_failure(&error);
        return false;
    }
    driver.n_engines = host + 1;
    return true;
}

static bool start(void)
{
    struct weft_error error = {0};
    struct engine_config config;
    weft_status status;
    uint32_t n_hosts;

    plugin_log(ABI_LOG_INFO, "weft %s", weft_version);
    if (!process.knows_forks) {
        pthread_atfork(NULL, NULL, forked);
        process.knows_forks = true;
    }
    engine_config_default(&config);
    status = plugin_settings_read(get_setting, warn, &process.settings, &config, &error);
    plugin_settings_unread(environ, warn);
    if (status != WEFT_OK) {
        log_failure(&error);
        return false;
    }
    process.log.level = process.settings.is_debug ? WEFT_LOG_DEBUG : WEFT_LOG_INFO;
    process.log.write = write_line;
    process.settings.plain.log = &process.log;
    if (plain_world_create(&process.settings.plain, &driver.world, &error) != WEFT_OK) {
        log_failure(&error);
        return false;
    }
    driver.ops =
        process.settings.plain.simulated != NULL ? &driver_stepped : &driver_thread;
    n_hosts = plain_world_hosts(driver.world);
    weft_check(n_hosts <= DRIVER_ENGINES_MAX);
    for (uint32_t host = 0; host < n_hosts; host++) {
        if (!start_engine(host, &config)) {
            return false;
        }
    }
    driver.ops->prepare(); /* a signal may call `wake` from now on */
    start_dump();
    if (!driver.ops->start()) {
        plugin_log(ABI_LOG_WARN, "cannot start: no thread");
        return false;
    }
    return true;
}

/* ---- after the start ---- */

/* Waits for all engines. On failure logs the reason and returns false. */
static bool all_are_ready(void)
{
    for (uint32_t host = 0; host < driver.n_engines; host++) {
        const _Atomic int *progress = engine_progress(driver.engines[host]);

        driver.ops->wait(NULL, progress);
        if (atomic_load(progress) != ENGINE_READY) {
            log_failure(engine_error(driver.engines[host]));
            return false;
        }
    }
    return true;
}

static void number_devices(void)
{
    bool any = true;

    for (uint32_t port = 0; any; port++) {
        any = false;
        for (uint32_t host = 0; host < driver.n_engines; host++) {
            struct engine *engine = driver.engines[host];

            if (port < engine_n_ports(engine) && process.n_devices < DEVICES_MAX) {
                process.devices[process.n_devices].engine = engine;
                process.devices[process.n_devices++].port = port;
                any = true;
            }
        }
    }
}

abi_status process_start(abi_logger logger)
{
    bool is_broken;

    plugin_log_to(logger);
    if (atomic_load(&process.is_child)) {
        plugin_log(ABI_LOG_WARN, "not in the child of a fork: its parent had started");
        return ABI_INVALID_USAGE;
    }
    pthread_mutex_lock(&process.lock);
    if (!process.is_started) {
        process.is_started = true;
        process.is_broken = !start();
    }
    is_broken = process.is_broken;
    if (!is_broken && !all_are_ready()) {
        is_broken = true;
    } else if (!is_broken && process.n_devices == 0) {
        number_devices();
    }
    pthread_mutex_unlock(&process.lock);
    return is_broken ? ABI_SYSTEM_ERROR : ABI_SUCCESS;
}

bool process_is_up(void)
{
    return driver.n_engines > 0 && !atomic_load(&process.is_child);
}

int process_n_devices(void)
{
    return (int)process.n_devices;
}

struct engine *process_device(int device, uint32_t *out_port)
{
    if (device < 0 || (uint32_t)device >= process.n_devices) {
        return NULL;
    }
    *out_port = process.devices[device].port;
    return process.devices[device].engine;
}

void process_enter(void)
{
    driver.ops->enter();
}

void process_leave(void)
{
    driver.ops->leave();
}

void process_polled(void)
{
    driver.ops->polled();
}
