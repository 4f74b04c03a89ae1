#include "host/loop.h"

#include "base/check.h"
#include "base/text.h"

/* Number of steps between two reports of progress. */
#define REPORT_EVERY 4096
/* Maximum time between two calls of is_asked(). */
#define ASK_NS INT64_C(1000000000)

/* Result of a survey of all hosts. It is valid until a host ends or is due to start, or the world
 * pauses one; with many hosts a survey costs more than all their work. */
struct survey {
    bool is_stale; /* it changed the state of a host, or a host has ended since */
    bool all_over;
    bool rest_is_stopped; /* no host that is not over will go on */
    uint32_t n_over, n_new;
    weft_ns next_start; /* WEFT_NEVER if all have started */
    uint64_t n_pauses;  /* io_loop.n_pauses at the time of the survey */
};

static bool is_alive(const struct world *world, const struct io_env *env)
{
    if (world->ops->process_alive != NULL) {
        return world->ops->process_alive(world, env->world_host, env->process);
    }
    return world->ops->host_alive(world, env->world_host);
}

/* Reports to the others that a member ended without completing its part. */
static void report_end(const struct host_loop *loop, const struct host *host)
{
    if (loop->reports_ends && host->state != HOST_DONE) {
        loop->world->ops->report_ended(loop->world, host->config.rank);
    }
}

static struct survey survey(const struct host_loop *loop, weft_ns now)
{
    const struct world_ops *ops = loop->world->ops;
    struct survey result = {
        .all_over = true,
        .rest_is_stopped = loop->is_stopped != NULL,
        .next_start = WEFT_NEVER,
        .n_pauses = ops->loop(loop->world)->n_pauses,
    };

    for (uint32_t i = 0; i < loop->n_hosts; i++) {
        struct host *host = loop->hosts[i];

        if (host == NULL || host_is_over(host)) {
            result.n_over += host != NULL;
            continue;
        }
        if (!is_alive(loop->world, host->env)) {
            host_kill(host);
            report_end(loop, host);
            result.is_stale = true;
            continue;
        }
        if (host->state == HOST_NEW && host->config.start_ns <= now) {
            host_start(host);
            result.is_stale = true;
            if (host_is_over(host)) {
                report_end(loop, host);
            }
        }
        if (host->state == HOST_NEW && host->config.start_ns < result.next_start) {
            result.next_start = host->config.start_ns;
        }
        result.n_new += host->state == HOST_NEW;
        result.all_over = result.all_over && host_is_over(host);
        result.rest_is_stopped =
            result.rest_is_stopped &&
            (host_is_over(host) || loop->is_stopped(loop->context, host));
    }
    return result;
}

static bool is_stale(const struct host_loop *loop, const struct survey *seen, weft_ns now)
{
    const struct io_loop *tasks = loop->world->ops->loop(loop->world);

    return seen->is_stale || seen->n_pauses != tasks->n_pauses || seen->next_start <= now;
}

/* Deadline of hosts that make no progress after another one ended. */
struct patience {
    uint32_t n_over, n_new; /* at the last survey */
    weft_ns until;          /* WEFT_NEVER if no host has ended, or one has yet to start */
};

/* Kills hanging hosts. Returns true if it killed one. */
static bool end_hanging(const struct host_loop *loop, const struct survey *seen,
                        struct patience *patience, weft_ns now)
{
    bool any = false;

    if (seen->n_over != patience->n_over || seen->n_new != patience->n_new) {
        *patience = (struct patience){seen->n_over, seen->n_new, WEFT_NEVER};
        /* The others may wait for a host that starts later. */
        if (seen->n_over > 0 && seen->n_new == 0 && loop->hang_ns > 0) {
            patience->until = now + loop->hang_ns;
        }
    }
    if (seen->rest_is_stopped && patience->until != WEFT_NEVER) {
        patience->until = now;
    }
    if (now < patience->until) {
        return false;
    }
    patience->until = WEFT_NEVER;
    for (uint32_t i = 0; i < loop->n_hosts; i++) {
        struct host *host = loop->hosts[i];

        if (host != NULL && !host_is_over(host) && host->state != HOST_NEW) {
            host_kill_hanging(host);
            report_end(loop, host);
            any = true;
        }
    }
    return any;
}

/* Dispatches all ready tasks. Returns true if a host ended. */
static bool dispatch_ready(const struct host_loop *loop)
{
    struct io_loop *tasks = loop->world->ops->loop(loop->world);
    struct io_task *task;
    bool any = false;

    while ((task = io_loop_pop(tasks)) != NULL) {
        struct host *host;

        weft_check(task->host < loop->n_hosts);
        host = loop->hosts[task->host];
        if (host != NULL && !host_is_over(host)) {
            host_dispatch(host, task);
            if (host_is_over(host)) {
                report_end(loop, host);
                any = true;
            }
        }
    }
    return any;
}

/* Notes for whom the hosts wait that are not over. */
static void note_waits(const struct host_loop *loop)
{
    for (uint32_t i = 0; i < loop->n_hosts; i++) {
        if (loop->hosts[i] != NULL && !host_is_over(loop->hosts[i])) {
            host_note_waits(loop->hosts[i]);
        }
    }
}

static void report_waits(const struct host_loop *loop)
{
    struct weft_text text = {0};

    for (uint32_t i = 0; i < loop->n_hosts; i++) {
        if (loop->hosts[i] != NULL && !host_is_over(loop->hosts[i])) {
            host_describe_waits(loop->hosts[i], &text);
        }
    }
    if (text.n > 0) {
        loop->report(text.bytes);
    }
    weft_text_fini(&text);
}

static weft_status stalled(const struct host_loop *loop, struct weft_error *error)
{
    weft_status status =
        weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_LOOP,
                  "nothing is ready and nothing is due, but not all hosts are over");

    for (uint32_t i = 0; i < loop->n_hosts; i++) {
        const struct host *host = loop->hosts[i];

        if (host != NULL && !host_is_over(host)) {
            weft_error_text(error, WEFT_VALUE_HOST, host->env->name);
            weft_error_text(error, WEFT_VALUE_STATE, host_state_name(host->state));
            break;
        }
    }
    return status;
}

/* Lets time pass. Returns WEFT_OK if the run can go on. */
static weft_status pass_time(const struct host_loop *loop, weft_ns next_start,
                             struct weft_error *error)
{
    struct world *world = loop->world;
    bool is_due = io_loop_next_deadline(world->ops->loop(world)) != WEFT_NEVER;
    weft_ns until = next_start < loop->limit_ns ? next_start : loop->limit_ns;
    weft_ns ask_ns = loop->is_asked != NULL ? world->ops->now(world) + ASK_NS : until;
    weft_status status = world->ops->step(world, ask_ns < until ? ask_ns : until);

    if (status < 0) {
        return weft_fail(error, status, WEFT_PHASE_LOOP, "the world cannot go on");
    }
    if (status == WEFT_OK || world->ops->now(world) < loop->limit_ns) {
        return WEFT_OK;
    }
    if (!is_due) {
        return stalled(loop, error);
    }
    return weft_fail(error, WEFT_ERR_TIMEOUT, WEFT_PHASE_LOOP,
                     "the run is not over after %lld ns of world time",
                     (long long)loop->limit_ns);
}

weft_status host_loop_run(const struct host_loop *loop, struct weft_error *error)
{
    struct world *world = loop->world;
    struct io_loop *tasks = world->ops->loop(world);
    uint32_t n_steps = 0;
    struct patience patience = {.until = WEFT_NEVER};
    struct survey seen = {.is_stale = true};
    weft_status status = WEFT_OK;

    while (status == WEFT_OK) {
        seen.is_stale = dispatch_ready(loop) || seen.is_stale;
        if (is_stale(loop, &seen, world->ops->now(world))) {
            seen = survey(loop, world->ops->now(world));
        }
        if (seen.all_over) {
            return WEFT_OK;
        }
        if (end_hanging(loop, &seen, &patience, world->ops->now(world))) {
            seen.is_stale = true;
            continue;
        }
        if (tasks->n_ready > 0) {
            continue; /* a host was started */
        }
        if (loop->progress != NULL && n_steps++ % REPORT_EVERY == 0) {
            loop->progress(loop->context, world->ops->now(world));
        }
        if (loop->is_asked != NULL && loop->is_asked()) {
            report_waits(loop);
        }
        status = pass_time(
            loop, seen.next_start < patience.until ? seen.next_start : patience.until,
            error);
    }
    note_waits(loop);
    return status;
}
