#include "plugin/process.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "plugin/dump.h"
#include "plugin/finding.h"
#include "plugin/settings.h"

/* One of each, as there is one process. Set under `lock`, or before the thread starts. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* something that is waited for */
    _Atomic(abi_logger) logger;
    bool is_started, is_broken;
    atomic_bool is_child; /* of a fork: the thread did not come along */
    bool knows_forks;
    struct plugin_settings settings;
    struct weft_log log;
    struct world *world;
    struct engine *engine;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* ---- the log ---- */

void process_log(int level, const char *format, ...)
{
    abi_logger logger = atomic_load(&process.logger);
    char text[600];
    va_list arguments;

    if (logger == NULL) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    logger(level, ABI_SUBSYSTEM_INIT | ABI_SUBSYSTEM_NET, "NET/MESH", 0, "NET/MESH %s",
           text);
}

static void write_line(void *context, enum weft_log_level level, const char *line)
{
    (void)context;
    process_log(level <= WEFT_LOG_WARN ? ABI_LOG_WARN : ABI_LOG_INFO, "%s", line);
}

static void warn(const char *text)
{
    process_log(ABI_LOG_WARN, "%s", text);
}

static const char *get_setting(const char *name)
{
    return getenv(name);
}

/* ---- the thread ---- */

static void wake(void *context)
{
    (void)context;
    plain_world_wake(process.world);
}

static void wait_for(void *context, const _Atomic int *is_done)
{
    (void)context;
    pthread_mutex_lock(&process.lock);
    while (atomic_load(is_done) == 0) {
        pthread_cond_wait(&process.changed, &process.lock);
    }
    pthread_mutex_unlock(&process.lock);
}

static void done(void *context)
{
    (void)context;
    pthread_mutex_lock(&process.lock);
    pthread_cond_broadcast(&process.changed);
    pthread_mutex_unlock(&process.lock);
}

static void *run(void *context)
{
    const struct world_ops *ops = process.world->ops;
    struct io_loop *loop = ops->loop(process.world);
    struct io_task *task;

    (void)context;
    for (;;) {
        while ((task = io_loop_pop(loop)) != NULL) {
            engine_dispatch(process.engine, task);
        }
        dump_look(process.engine);
        (void)ops->step(process.world, WEFT_NEVER);
    }
    return NULL;
}

static bool start_thread(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int result;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the application's */
    result = pthread_create(&thread, &attributes, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return result == 0;
}

static void forked(void)
{
    atomic_store(&process.is_child, true);
}

/* ---- start ---- */

static void tell_failure(const struct weft_error *error)
{
    struct weft_error named = *error;
    char text[400];

    finding_name(NULL, &named);
    finding_format(&named, text, sizeof(text));
    process_log(ABI_LOG_WARN, "cannot start: %s", text);
}

static void start_dump(void)
{
    const struct plugin_settings *settings = &process.settings;

    if (settings->dump[0] != '\0' &&
        !dump_start(settings->dump, settings->dump_signal, wake)) {
        process_log(
            ABI_LOG_WARN,
            "NCCL_MESH_DUMP_SIGNAL: signal %d has a handler already; only failures "
            "write the state",
            settings->dump_signal);
    }
}

static bool start(void)
{
    struct weft_error error = {0};
    struct engine_config config;

    process_log(ABI_LOG_INFO, "weft %s", WEFT_VERSION);
    if (!process.knows_forks) {
        pthread_atfork(NULL, NULL, forked);
        process.knows_forks = true;
    }
    engine_config_default(&config);
    plugin_settings_read(get_setting, warn, &process.settings, &config);
    process.log.level = process.settings.is_debug ? WEFT_LOG_DEBUG : WEFT_LOG_INFO;
    process.log.write = write_line;
    process.settings.plain.log = &process.log;
    if (plain_world_create(&process.settings.plain, &process.world, &error) != WEFT_OK) {
        tell_failure(&error);
        return false;
    }
    config.world = process.world;
    config.wake = wake;
    config.wait = wait_for;
    config.done = done;
    if (engine_create(&config, &process.engine, &error) < 0) {
        tell_failure(&error);
        return false;
    }
    plain_world_wakes(process.world, engine_task(process.engine));
    start_dump();
    if (!start_thread()) {
        process_log(ABI_LOG_WARN, "cannot start: no thread");
        return false;
    }
    return true;
}

abi_status process_start(abi_logger logger)
{
    const _Atomic int *progress;
    bool is_broken;

    if (logger != NULL) {
        atomic_store(&process.logger, logger);
    }
    if (atomic_load(&process.is_child)) {
        process_log(ABI_LOG_WARN, "not in the child of a fork: its parent had started");
        return ABI_INVALID_USAGE;
    }
    pthread_mutex_lock(&process.lock);
    if (!process.is_started) {
        process.is_started = true;
        process.is_broken = !start();
    }
    is_broken = process.is_broken;
    pthread_mutex_unlock(&process.lock);
    if (is_broken) {
        return ABI_SYSTEM_ERROR;
    }
    progress = engine_progress(process.engine);
    wait_for(NULL, progress);
    if (atomic_load(progress) != ENGINE_READY) {
        tell_failure(engine_error(process.engine));
        return ABI_SYSTEM_ERROR;
    }
    return ABI_SUCCESS;
}

struct engine *process_engine(void)
{
    return atomic_load(&process.is_child) ? NULL : process.engine;
}
