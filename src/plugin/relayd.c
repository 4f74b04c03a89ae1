#include "plugin/relayd.h"

#include <inttypes.h>

#include "base/text.h"
#include "plugin/settings.h"

#define LOOK_NS INT64_C(250000000)

static void wake(void *context)
{
    (void)context; /* all work comes from the world */
}

static void wait_for(void *context, const _Atomic int *is_done)
{
    (void)context; /* no other thread makes calls */
    (void)is_done;
}

static void warn_nobody(const char *text)
{
    (void)text; /* these settings are for ranks, which log the warnings */
}

static void run(struct world *world, struct engine *engine, weft_ns until)
{
    struct io_loop *loop = world->ops->loop(world);
    struct io_task *task;

    while ((task = io_loop_pop(loop)) != NULL) {
        engine_dispatch(engine, task);
    }
    (void)world->ops->step(world, until);
}

static weft_status serve(struct world *world, struct engine *engine,
                         bool (*is_over)(void), void (*report)(const char *line),
                         struct weft_error *error)
{
    struct engine_counters counters;
    bool has_reported = false;
    char line[120];

    while (!is_over()) {
        int progress = *engine_progress(engine);

        if (progress == ENGINE_BROKEN) {
            *error = *engine_error(engine);
            return error->status;
        }
        if (progress == ENGINE_READY && !has_reported) {
            has_reported = true;
            weft_format(line, sizeof(line), "relays over %u ports",
                        engine_n_ports(engine));
            report(line);
        }
        run(world, engine, world->ops->now(world) + LOOK_NS);
    }
    engine_counters(engine, &counters);
    weft_format(line, sizeof(line), "%" PRIu64 " bytes forwarded, %u lanes open",
                counters.bytes_passed, counters.n_passing);
    report(line);
    return WEFT_OK;
}

weft_status plugin_relayd(const char *(*get)(const char *name), struct weft_log *log,
                          bool (*is_over)(void), void (*report)(const char *line),
                          struct weft_error *error)
{
    struct plugin_settings settings;
    struct engine_config config;
    struct world *world = NULL;
    struct engine *engine = NULL;
    weft_status status;

    engine_config_default(&config);
    status = plugin_settings_read(get, warn_nobody, &settings, &config, error);
    if (status != WEFT_OK) {
        return status;
    }
    settings.plain.log = log;
    config.relays = config.is_dedicated = true;
    config.wake = wake;
    config.wait = wait_for;
    config.done = wake;
    status = plain_world_create(&settings.plain, &world, error);
    if (status == WEFT_OK) {
        config.world = world;
        status = engine_create(&config, &engine, error);
    }
    if (status == WEFT_OK) {
        status = serve(world, engine, is_over, report, error);
    }
    engine_destroy(engine);
    if (world != NULL) {
        world->ops->destroy(world);
    }
    return status;
}
