#define _GNU_SOURCE
#include "backends/linux/env.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "backends/linux/private.h"
#include "backends/linux/shm.h"
#include "base/check.h"
#include "base/text.h"

static weft_ns env_now(struct io_env *io)
{
    return linux_loop_now(linux_env_of(io)->loop);
}

static void env_random(struct io_env *io, void *out, size_t n_bytes)
{
    (void)io;
    size_t n = 0;
    while (n < n_bytes) {
        ssize_t got = getrandom((char *)out + n, n_bytes - n, 0);
        /* EINTR is the only possible error (getrandom(2)). */
        weft_check(got > 0 || errno == EINTR);
        n += got > 0 ? (size_t)got : 0;
    }
}

/* Returns true for settings that only tests make, for hosts of a scenario; never from the
 * environment of a process. */
static bool is_of_tests(const char *name)
{
    return strcmp(name, "WEFT_FIRST_PSN") == 0;
}

static const char *env_setting(struct io_env *io, const char *name)
{
    const struct linux_env *env = linux_env_of(io);
    for (uint32_t i = 0; i < env->n_settings; i++) {
        if (strcmp(env->names[i], name) == 0) {
            return env->values[i];
        }
    }
    return env->only_given_settings || is_of_tests(name) ? NULL : getenv(name);
}

static const struct io_machine *machine_of(struct linux_env *env)
{
    if (env->given != NULL) {
        return env->given;
    }
    if (!env->has_own_machine) {
        linux_machine_read_own(&env->own_machine);
        env->has_own_machine = true;
    }
    return &env->own_machine;
}

static const struct io_hostinfo *env_hostinfo(struct io_env *io)
{
    struct linux_env *env = linux_env_of(io);
    if (env->aliases != NULL) {
        env->aliased = *env->aliases->info;
        env->aliased.machine = machine_of(env);
        return &env->aliased;
    }
    int result = linux_netns_enter(&env->netns);
    if (result != 0) {
        weft_log(io->log, WEFT_LOG_ERROR, "cannot enter the host's namespace: %s",
                 strerrordesc_np(result));
        return &env->info; /* unchanged */
    }
    linux_hostinfo_read(&env->info, env->management, env_setting(io, "WEFT_HOST_ID"),
                        &env->knows_host_id, io->log);
    env->info.machine = machine_of(env);
    linux_netns_leave(&env->netns);
    return &env->info;
}

static const uint8_t *env_host_id(struct io_env *io)
{
    struct linux_env *env = linux_env_of(io);
    if (env->aliases != NULL) {
        return env->aliases->info->host_id;
    }
    if (!env->knows_host_id) {
        (void)env_hostinfo(io);
    }
    return env->info.host_id;
}

/* ---- members that ended ---- */

static void add_ended(struct linux_env *env, uint32_t member)
{
    env->ended = weft_realloc(env->ended, (env->n_ended + 1) * sizeof *env->ended);
    env->ended[env->n_ended++] = member;
    io_task_wake(env->io.ended_task);
}

/* Takes the next byte of lines that each have the number of a member. Ignores lines that are no
 * number, because standard input may be a terminal. */
static void take_byte(struct linux_env *env, char byte)
{
    bool is_digit = byte >= '0' && byte <= '9';
    uint64_t number = env->number * 10 + (uint64_t)(is_digit ? byte - '0' : 0);

    if (byte != '\n') {
        env->is_no_number = env->is_no_number || !is_digit || number > UINT32_MAX;
        env->has_digit = true;
        env->number = env->is_no_number ? 0 : number;
        return;
    }
    if (env->has_digit && !env->is_no_number) {
        add_ended(env, (uint32_t)env->number);
    }
    env->number = 0;
    env->has_digit = env->is_no_number = false;
}

static void on_notices(void *context)
{
    struct linux_env *env = context;
    char bytes[256];
    ssize_t n;
    while ((n = read(env->notices_fd, bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            take_byte(env, bytes[i]);
        }
    }
    if (n == 0) { /* the starter has ended, so no process needs the result */
        raise(SIGTERM);
    }
}

static bool env_next_ended(struct io_env *io, uint32_t *out_member)
{
    struct linux_env *env = linux_env_of(io);
    if (env->n_taken == env->n_ended) {
        return false;
    }
    *out_member = env->ended[env->n_taken++];
    return true;
}

/* Watches the descriptor in WEFT_NOTICES, which is not owned. */
static void watch_notices(struct linux_env *env)
{
    const char *text = env_setting(&env->io, "WEFT_NOTICES");
    char *end = NULL;
    long fd = text == NULL ? -1 : strtol(text, &end, 10);
    int flags = fd < 0 || fd > INT_MAX ? -1 : fcntl((int)fd, F_GETFL);
    if (text == NULL || *text == '\0') {
        return;
    }
    env->notices_fd = (int)fd;
    if (*end != '\0' || flags < 0 || fcntl((int)fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        linux_loop_watch(env->loop, (int)fd, on_notices, env, &env->notices) != 0) {
        weft_log(env->io.log, WEFT_LOG_WARN, "WEFT_NOTICES is no descriptor: %s", text);
    }
}

/* ---- stages of the job ---- */

/* Reports a stage. Blocks while the pipe is full, because its reader reads all the time. */
static void env_reached(struct io_env *io, enum io_stage stage, uint64_t n)
{
    const struct linux_env *env = linux_env_of(io);
    const struct world_stage_record record = {.process = env->stages_process,
                                              .stage = (uint32_t)stage,
                                              .n = n,
                                              .at_ns = linux_loop_now(env->loop)};
    ssize_t written = -1;
    while (env->stages_fd >= 0 && written < 0) {
        written = write(env->stages_fd, &record, sizeof record);
        if (written < 0 && errno != EINTR) {
            return;
        }
    }
}

static void find_stages(struct linux_env *env)
{
    const char *text = env_setting(&env->io, "WEFT_STAGES");
    char *end = NULL;
    env->stages_fd = -1;
    if (text == NULL || *text == '\0') {
        return;
    }
    long fd = strtol(text, &end, 10);
    unsigned long process = *end == ':' ? strtoul(end + 1, &end, 10) : ULONG_MAX;
    if (*end != '\0' || process > UINT32_MAX || fd < 0 || fd > INT_MAX ||
        fcntl((int)fd, F_GETFL) < 0) {
        weft_log(env->io.log, WEFT_LOG_WARN, "WEFT_STAGES is no FD:PROCESS: %s", text);
        return;
    }
    env->stages_fd = (int)fd;
    env->stages_process = (uint32_t)process;
}

static const struct io_env_ops env_ops = {
    .now = env_now,
    .random = env_random,
    .setting = env_setting,
    .hostinfo = env_hostinfo,
    .host_id = env_host_id,
    .next_ended = env_next_ended,
    .reached = env_reached,
};

static void copy_settings(struct linux_env *env, const struct linux_env_config *config)
{
    env->only_given_settings = config->only_given_settings;
    env->n_settings = config->n_settings;
    env->names = weft_calloc((size_t)config->n_settings + 1, sizeof *env->names);
    env->values = weft_calloc((size_t)config->n_settings + 1, sizeof *env->values);
    for (uint32_t i = 0; i < config->n_settings; i++) {
        env->names[i] = weft_strdup(config->settings[i].name);
        env->values[i] = weft_strdup(config->settings[i].value);
    }
}

weft_status linux_env_create(struct linux_loop *loop,
                             const struct linux_env_config *config,
                             struct linux_env **out, struct weft_error *error)
{
    struct linux_env *env = weft_calloc(1, sizeof *env);
    char name[sizeof env->io.name] = "";
    int result = linux_netns_init(&env->netns, config->netns_fd);
    if (result == 0) {
        result = linux_netns_enter(&env->netns);
    }
    if (result != 0) {
        linux_netns_fini(&env->netns);
        free(env);
        weft_error_int(error, WEFT_VALUE_ERRNO, result);
        return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_START,
                         "cannot enter the host's network namespace: %s",
                         strerrordesc_np(result));
    }
    linux_netns_leave(&env->netns);
    if (config->name == NULL && gethostname(name, sizeof name - 1) != 0) {
        weft_format(name, sizeof name, "localhost");
    }
    env->loop = loop;
    env->aliases = config->aliases;
    env->io = (struct io_env){.ops = &env_ops,
                              .oob = &linux_oob_ops,
                              .shm = &linux_shm_ops,
                              .loop = linux_loop_io(loop),
                              .host = config->host,
                              .trace = config->trace,
                              .log = config->log};
    weft_format(env->io.name, sizeof env->io.name, "%s",
                config->name != NULL ? config->name : name);
    weft_format(env->info.name, sizeof env->info.name, "%s", env->io.name);
    linux_env_set_management(env, config->management);
    copy_settings(env, config);
    env->given = config->machine;
    watch_notices(env);
    find_stages(env);
    *out = env;
    return WEFT_OK;
}

void linux_env_destroy(struct linux_env *env)
{
    if (env == NULL) {
        return;
    }
    linux_oob_close_all(env);
    linux_loop_unwatch(env->notices);
    free(env->ended);
    for (uint32_t i = 0; i < env->n_settings; i++) {
        free(env->names[i]);
        free(env->values[i]);
    }
    free(env->names);
    free(env->values);
    io_hostinfo_fini(&env->info);
    io_machine_fini(&env->own_machine);
    linux_netns_fini(&env->netns);
    free(env);
}

struct io_env *linux_env_io(struct linux_env *env)
{
    return &env->io;
}

void linux_env_set_management(struct linux_env *env, const char *netdev)
{
    weft_format(env->management, sizeof env->management, "%s",
                netdev == NULL ? "" : netdev);
}

int linux_env_enter(struct linux_env *env)
{
    return linux_netns_enter(&env->netns);
}

void linux_env_leave(struct linux_env *env)
{
    linux_netns_leave(&env->netns);
}
