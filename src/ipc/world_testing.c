#include "ipc/world_testing.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define STEPS_MAX 4000000u

struct ipc_way_message {
    struct ipc_way_message *next;
    size_t n_bytes;
    uint8_t bytes[];
};

/* ---- I/O environment ---- */

static struct ipc_side *side_of(struct io_env *env)
{
    return weft_container_of(env, struct ipc_side, env);
}

static weft_ns env_now(struct io_env *env)
{
    return side_of(env)->now;
}

static void env_random(struct io_env *env, void *out, size_t n_bytes)
{
    weft_rng_bytes(&side_of(env)->rng, out, n_bytes);
}

static const char *env_setting(struct io_env *env, const char *name)
{
    return strcmp(name, "WEFT_IPC") == 0 ? side_of(env)->setting : NULL;
}

static const struct io_hostinfo *env_hostinfo(struct io_env *env)
{
    static const struct io_hostinfo one_host = {.name = "host", .host_id = {1, 2, 3}};

    (void)env;
    return &one_host;
}

static const struct io_env_ops env_ops = {.now = env_now,
                                          .random = env_random,
                                          .setting = env_setting,
                                          .hostinfo = env_hostinfo};

static void write_story(void *context, const char *line, size_t n_bytes)
{
    struct ipc_side *side = context;

    weft_text_add_bytes(&side->story, line, n_bytes);
}

struct ipc_settings ipc_world_settings(void)
{
    struct ipc_side side = {.env = {.ops = &env_ops}};
    struct ipc_settings settings;

    ck_assert_int_eq(ipc_settings_read(&side.env, &settings, NULL), WEFT_OK);
    return settings;
}

/* ---- messages in transit ---- */

static void lock(struct ipc_world *world)
{
    if (world->lock != NULL) {
        world->lock(world->context);
    }
}

static void unlock(struct ipc_world *world)
{
    if (world->unlock != NULL) {
        world->unlock(world->context);
    }
}

static void put_on_way(struct ipc_side *to, const uint8_t *bytes, size_t n_bytes)
{
    struct ipc_way_message *message = weft_alloc(sizeof(*message) + n_bytes);

    message->next = NULL;
    message->n_bytes = n_bytes;
    memcpy(message->bytes, bytes, n_bytes);
    lock(to->world);
    if (to->way.last == NULL) {
        to->way.first = message;
    } else {
        to->way.last->next = message;
    }
    to->way.last = message;
    to->way.n++;
    unlock(to->world);
}

static void clear_way(struct ipc_way *way)
{
    while (way->first != NULL) {
        struct ipc_way_message *message = way->first;

        way->first = message->next;
        free(message);
    }
    *way = (struct ipc_way){.has_ended = way->has_ended};
}

bool ipc_side_emit(struct ipc_side *side)
{
    uint8_t bytes[IPC_MESSAGE_MAX];
    size_t n_bytes = ipc_channel_next(&side->channel, bytes);

    if (n_bytes > 0) {
        put_on_way(&side->world->sides[1 - side->index], bytes, n_bytes);
    }
    return n_bytes > 0;
}

bool ipc_side_absorb(struct ipc_side *side)
{
    struct ipc_way_message *message;
    bool has_ended;
    weft_status status;

    lock(side->world);
    message = side->way.first;
    has_ended = message == NULL && side->way.has_ended;
    unlock(side->world);
    if (has_ended) {
        ipc_channel_gone(&side->channel);
    }
    if (message == NULL) {
        return false;
    }
    status = ipc_channel_take(&side->channel, message->bytes, message->n_bytes);
    if (status == WEFT_AGAIN) {
        return false;
    }
    lock(side->world);
    side->way.first = message->next;
    side->way.last = message->next == NULL ? NULL : side->way.last;
    side->way.n--;
    unlock(side->world);
    free(message);
    return true;
}

/* ---- the environment ---- */

static void init_side(struct ipc_world *world, uint32_t index,
                      const struct ipc_world_config *config)
{
    struct ipc_side *side = &world->sides[index];
    struct ipc_settings settings = config->settings[index];
    struct ipc_channel_config channel = {.link = {.node = &side->node,
                                                  .self = index,
                                                  .peer = 1 - index,
                                                  .is_higher = index == 1},
                                         .chunk_bytes = 1024};

    side->world = world;
    side->index = index;
    side->gpu = hostmem_join(world->machine, &config->processes[index]);
    weft_rng_init(&side->rng, config->seed, index == 0 ? "left" : "right");
    weft_trace_init(&side->trace, WEFT_TRACE_STORY, write_story, side);
    side->env = (struct io_env){.ops = &env_ops, .gpu = side->gpu, .trace = &side->trace};
    weft_format(side->env.name, sizeof(side->env.name), index == 0 ? "left" : "right");
    if (settings.n_events == 0) {
        settings = ipc_world_settings();
    }
    ipc_node_init(&side->node, &side->env, NULL, &settings);
    ipc_channel_init(&side->channel, &channel);
    side->got = weft_alloc(IPC_WORLD_BYTES_MAX);
    side->junk = ipc_side_alloc(side, IO_MEMORY_HOST, IPC_WORLD_BYTES_MAX + 3 * 4096);
    memset(side->junk, 0x55, IPC_WORLD_BYTES_MAX + 3 * 4096);
    for (uint32_t i = 0; i < IPC_WORLD_SLOTS; i++) {
        side->patterns[i] = ipc_side_alloc(side, IO_MEMORY_HOST, IPC_WORLD_BYTES_MAX);
    }
    if (side->gpu->sharing != NULL) {
        ck_assert_int_eq(side->gpu->sharing->stream_create(side->gpu, &side->streams[1]),
                         0);
    }
}

void ipc_world_init(struct ipc_world *world, const struct ipc_world_config *config)
{
    memset(world, 0, sizeof(*world));
    world->machine = hostmem_machine_create(config->seed,
                                            config->n_pieces == 0 ? 3 : config->n_pieces);
    weft_rng_init(&world->rng, config->seed, "world");
    for (uint32_t i = 0; i < 2; i++) {
        init_side(world, i, config);
    }
    if (config->is_same_process) {
        memcpy(world->sides[1].node.identity.nonce, world->sides[0].node.identity.nonce,
               IPC_NONCE_BYTES);
    }
}

void ipc_world_send(struct ipc_world *world, uint64_t n_left, uint64_t n_right)
{
    world->sides[0].n_to_send += n_left;
    world->sides[1].n_to_receive += n_left;
    world->sides[1].n_to_send += n_right;
    world->sides[0].n_to_receive += n_right;
}

void ipc_world_step(struct ipc_world *world)
{
    uint64_t which = weft_rng_below(&world->rng, 8);

    if (which < 2) {
        (void)hostmem_step(world->machine);
    } else {
        struct ipc_side *side = &world->sides[which % 2];

        ipc_side_step(side);
        side->now += 1000;
    }
}

bool ipc_world_is_done(const struct ipc_world *world)
{
    return ipc_side_is_done(&world->sides[0]) && ipc_side_is_done(&world->sides[1]);
}

void ipc_world_run(struct ipc_world *world)
{
    for (uint32_t i = 0; !ipc_world_is_done(world); i++) {
        ck_assert_msg(i < STEPS_MAX, "nothing moves: left sent %llu of %llu",
                      (unsigned long long)world->sides[0].n_send_ended,
                      (unsigned long long)world->sides[0].n_to_send);
        ipc_world_step(world);
    }
}

void ipc_world_settle(struct ipc_world *world)
{
    for (uint32_t n_quiet = 0; n_quiet < 4; n_quiet++) {
        for (uint32_t i = 0; i < 2; i++) {
            struct ipc_side *side = &world->sides[i];

            if (side->is_dead) {
                continue;
            }
            ipc_channel_progress(&side->channel);
            while (ipc_side_emit(side) || ipc_side_absorb(side)) {
                n_quiet = 0;
            }
        }
        while (hostmem_step(world->machine)) {
            n_quiet = 0;
        }
    }
}

void ipc_world_kill(struct ipc_world *world, uint32_t index)
{
    struct ipc_side *side = &world->sides[index];

    side->is_dead = true;
    hostmem_die(side->gpu);
    lock(world);
    world->sides[1 - index].way.has_ended = true;
    unlock(world);
}

/* Frees a side. A process that was killed closes nothing; others end in order. */
static void fini_side(struct ipc_side *side)
{
    struct io_gpu *gpu = side->gpu;

    free(side->got);
    if (side->is_dead) {
        while (!TAILQ_EMPTY(&side->node.cache.mappings)) {
            struct ipc_mapping *mapping = TAILQ_FIRST(&side->node.cache.mappings);

            TAILQ_REMOVE(&side->node.cache.mappings, mapping, link);
            free(mapping);
        }
        free(side->channel.peer.offered);
        free(side->channel.peer.closing);
        return;
    }
    while (!ipc_channel_fini(&side->channel)) {
        ck_assert(hostmem_step(side->world->machine));
    }
    for (uint32_t i = 0; i < IPC_EVENTS_MAX; i++) {
        ck_assert(!side->node.is_lent[i]);
    }
    ipc_node_fini(&side->node);
    ck_assert_uint_eq(hostmem_n_imports(gpu), 0);
}

void ipc_world_fini(struct ipc_world *world)
{
    while (hostmem_step(world->machine)) {
    }
    for (uint32_t i = 0; i < 2; i++) {
        fini_side(&world->sides[i]);
        clear_way(&world->sides[i].way);
        weft_text_fini(&world->sides[i].story);
    }
    hostmem_machine_destroy(world->machine);
}
