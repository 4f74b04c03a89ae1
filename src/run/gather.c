/* Runs whose hosts are separate processes. Starts each, waits for all, and decodes their records
 * into run->hosts, where evaluation expects them. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "run/private.h"
#include "run/record.h"

#define SECOND INT64_C(1000000000)
/* How long ranks wait for each other. They start together, so a rank that is later than this does
 * not come. */
#define PATIENCE_S 15
/* exit status of a member whose machine lacks something (docs/cli.md) */
#define EXIT_LACKS 3
/* exit status of ssh(1) on failure; other statuses from 128 on mean a signal */
#define EXIT_UNREACHED 255

struct gathering {
    struct run *run;
    weft_ns last_ended_ns; /* 0 if none has ended */
    bool *launched;        /* Owned [n_members] */
    bool *ended;           /* Owned [n_members] */
    /* Owned [n_members]; true: killed because it made no progress. */
    bool *hung;
    uint32_t n_ended;
    struct weft_error absent; /* error of the first machine that could not take part */
    struct host_config config;
};

/* ---- starting ---- */

struct arguments {
    char *items[72];
    uint32_t n;
};

static void add(struct arguments *arguments, const char *text)
{
    weft_check(arguments->n + 1 < WEFT_LENGTH(arguments->items));
    arguments->items[arguments->n++] = weft_strdup(text);
}

static void add_number(struct arguments *arguments, const char *flag, uint64_t number)
{
    char text[32];

    weft_format(text, sizeof(text), "%llu", (unsigned long long)number);
    add(arguments, flag);
    add(arguments, text);
}

static weft_ns latest_start(const struct run *run)
{
    weft_ns latest = 0;

    for (uint32_t member = 0; member < run->n_members; member++) {
        weft_ns start = run->plan->spec.hosts[run->member_hosts[member]].start_ns;

        latest = start > latest ? start : latest;
    }
    return latest;
}

/* Returns how long the others may run after one ended. Members that wait for one that ended are
 * notified; nothing else takes longer than this. */
static weft_ns hang_ns(const struct gathering *g)
{
    return latest_start(g->run) + timer_limit(TIMER_HANG_NS, g->run->scenario->patience);
}

/* Adds the files that a member reads and writes: inherited descriptors, or the standard streams of
 * a member on another machine. */
static void add_files(const struct run *run, struct arguments *arguments)
{
    bool is_elsewhere = run->world->ops->is_elsewhere;
    char result[32] = "-";
    char story[32] = "-";

    if (!is_elsewhere) {
        weft_format(result, sizeof(result), "/proc/self/fd/%d", WORLD_RESULT_FD);
        weft_format(story, sizeof(story), "/proc/self/fd/%d", WORLD_STORY_FD);
    }
    add(arguments, "--scenario");
    add(arguments, is_elsewhere ? "-" : run->scenario->file);
    add(arguments, "--result");
    add(arguments, result);
    if (run->story.sink != NULL) {
        add(arguments, "--events");
        add(arguments, story);
    }
}

/* Adds the address of rank 0. Machines know each other by the names that this machine uses, unless
 * the user gives an address. Rank 0 listens on all addresses, because its own name can resolve to
 * an address that only it can reach, such as loopback. */
static void add_rendezvous(const struct run *run, uint32_t member,
                           struct arguments *arguments)
{
    const char *given = run->options->rendezvous;
    const char *host = run->plan->spec.hosts[run->member_hosts[0]].name;
    const char *port = given == NULL ? NULL : strrchr(given, ':');
    char own[8];
    char text[300];

    if (!run->world->ops->is_elsewhere || run_boot_mode(run) != BOOT_RENDEZVOUS) {
        return;
    }
    weft_format(own, sizeof(own), ":%u", RUN_RENDEZVOUS_PORT);
    if (member == 0) {
        weft_format(text, sizeof(text), "0.0.0.0%s", port != NULL ? port : own);
    } else if (given != NULL) {
        weft_format(text, sizeof(text), "%s", given);
    } else {
        weft_format(text, sizeof(text), "%s%s", host, own);
    }
    add(arguments, "--rendezvous");
    add(arguments, text);
}

/* Builds the command line of a member: weft node or relayd, with all settings of this run. */
static void make_arguments(const struct gathering *g, uint32_t member,
                           struct arguments *out)
{
    const struct run *run = g->run;
    const struct scenario *scenario = run->scenario;
    uint32_t process = run->member_processes[member];
    char name[96];

    add(out, "weft");
    add(out, member < run->n_ranks ? "node" : "relayd");
    add_files(run, out);
    weft_format(name, sizeof(name), process == 0 ? "%s" : "%s/%u",
                run->plan->spec.hosts[run->member_hosts[member]].name, process);
    add(out, "--name");
    add(out, name);
    add(out, "--policy");
    add(out, weft_policy_name(run->policy));
    add_number(out, "--seed", run->seed);
    add_number(out, "--patience",
               PATIENCE_S * (uint64_t)scenario->patience +
                   (uint64_t)(latest_start(run) / SECOND));
    add_rendezvous(run, member, out);
    for (size_t i = 0; i < scenario->n_sets; i++) {
        add(out, "--set");
        add(out, scenario->sets[i].text);
    }
}

static weft_status launch(struct gathering *g, uint32_t member, struct weft_error *error)
{
    struct run *run = g->run;
    const struct scenario *scenario = run->scenario;
    struct arguments arguments = {.n = 0};
    struct world_process what = {
        .argv = arguments.items, .input = scenario->text, .n_input = scenario->n_text};
    weft_status status;

    if (scenario->n_sets > 16) {
        return weft_fail(error, WEFT_ERR_LIMIT, WEFT_PHASE_LAUNCH, "more than 16 --set");
    }
    make_arguments(g, member, &arguments);
    status = run->world->ops->launch(run->world, run->member_hosts[member],
                                     run->member_processes[member], &what, error);
    for (uint32_t i = 0; i < arguments.n; i++) {
        free(arguments.items[i]);
    }
    g->launched[member] = status == WEFT_OK;
    return status;
}

/* Starts the members that are due and returns when the next is. */
static weft_status launch_due(struct gathering *g, weft_ns now, weft_ns *out_next,
                              struct weft_error *error)
{
    weft_status status = WEFT_OK;

    *out_next = WEFT_NEVER;
    for (uint32_t member = 0; member < g->run->n_members && status == WEFT_OK; member++) {
        weft_ns start = g->run->origin_ns +
                        g->run->plan->spec.hosts[g->run->member_hosts[member]].start_ns;

        if (g->launched[member]) {
            continue;
        }
        if (start <= now) {
            status = launch(g, member, error);
        } else {
            *out_next = start < *out_next ? start : *out_next;
        }
    }
    return status;
}

/* ---- ending ---- */

/* Returns the member's clock at the time at which this world began. For a machine with its own
 * clock, the error is the delay with which its end is noticed here. */
static weft_ns origin_of(const struct run *run, const json_t *record)
{
    const json_t *clock = json_object_get(record, "clock_ns");

    return run->world->ops->is_elsewhere && json_is_integer(clock)
               ? json_integer_value(clock) -
                     (run->world->ops->now(run->world) - run->origin_ns)
               : run->origin_ns;
}

/* Records that a machine could not take part, so that there is no verdict on the mesh. */
static void note_absent(struct gathering *g, const char *name,
                        const struct world_ending *ending)
{
    int code = ending->exit_code;
    bool is_unreached =
        ending->n_bytes == 0 && code > 0 && (code < 128 || code == EXIT_UNREACHED);

    if (!g->run->world->ops->is_elsewhere || g->absent.status != WEFT_OK) {
        return;
    }
    if (is_unreached && code != EXIT_LACKS) {
        weft_fail(&g->absent, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_LAUNCH,
                  "%s: cannot start weft (launcher exit status %d); check that 'ssh %s "
                  "weft --version' works, or set WEFT_LAUNCH",
                  name, code, name);
    } else if (code == EXIT_LACKS) {
        weft_fail(&g->absent, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_LAUNCH,
                  "%s lacks what it needs (exit status %d)", name, code);
    }
}

static void collect(struct gathering *g, uint32_t member,
                    const struct world_ending *ending)
{
    struct run *run = g->run;
    uint32_t index = run->member_hosts[member];
    const char *name = run->plan->spec.hosts[index].name;
    json_error_t ignored;
    struct weft_error error = {0};
    /* A process that was killed by a signal may have written half a record, or one from before it
     * died. */
    json_t *record = ending->signal == 0 && ending->n_bytes > 0
                         ? json_loadb(ending->result, ending->n_bytes, 0, &ignored)
                         : NULL;

    weft_ns origin_ns = origin_of(run, record);

    run_configure_member(run, member, &g->config);
    run->hosts[member] = run_record_decode(record, name, &g->config, origin_ns, &error);
    json_decref(record);
    run_story_add(&run->story, member + 1, origin_ns - run->origin_ns, ending->story,
                  ending->n_story);
    note_absent(g, name, ending);
    run->hosts[member]->has_hung = g->hung[member];
    if (run->hosts[member]->state == HOST_DEAD) {
        weft_log(run->options->log, WEFT_LOG_WARN,
                 "%s: its process ended without a record (exit code %d, signal %d)", name,
                 ending->exit_code, ending->signal);
    }
    /* Members that wait for it may not know yet that it ever started. */
    if (run->hosts[member]->state != HOST_DONE) {
        run->world->ops->report_ended(run->world, member);
    }
    g->ended[member] = true;
    g->n_ended++;
}

static void collect_ended(struct gathering *g, weft_ns now)
{
    const struct world_ops *ops = g->run->world->ops;

    for (uint32_t member = 0; member < g->run->n_members; member++) {
        struct world_ending ending;

        if (!g->launched[member] || g->ended[member]) {
            continue;
        }
        ops->ending(g->run->world, g->run->member_hosts[member],
                    g->run->member_processes[member], &ending);
        if (ending.is_over) {
            collect(g, member, &ending);
            g->last_ended_ns = now;
        }
    }
}

/* Returns true if a fault of the scenario has stopped the process of that member for good. */
static bool is_stopped_for_good(const struct gathering *g, uint32_t member)
{
    bool is_planned = run_stops_for_good(g->run, g->run->member_hosts[member]);
    struct world_ending ending = {.is_stopped = false};

    if (is_planned) {
        g->run->world->ops->ending(g->run->world, g->run->member_hosts[member],
                                   g->run->member_processes[member], &ending);
    }
    return is_planned && ending.is_stopped;
}

/* Returns true if all members were started, and those that have not ended will not. */
static bool are_rest_stopped(const struct gathering *g)
{
    bool all = g->n_ended > 0;

    for (uint32_t member = 0; all && member < g->run->n_members; member++) {
        all = g->launched[member] && (g->ended[member] || is_stopped_for_good(g, member));
    }
    return all;
}

static void kill_hanging(struct gathering *g)
{
    bool are_stopped = are_rest_stopped(g);

    for (uint32_t member = 0; member < g->run->n_members; member++) {
        const struct world_fault fault = {.kind = WORLD_FAULT_KILL,
                                          .host = g->run->member_hosts[member]};

        if (g->launched[member] && !g->ended[member]) {
            const char *name = g->run->plan->spec.hosts[fault.host].name;

            if (are_stopped) {
                weft_log(g->run->options->log, WEFT_LOG_WARN,
                         "%s: killed; stopped for good, and all others have ended", name);
            } else {
                weft_log(
                    g->run->options->log, WEFT_LOG_WARN,
                    "%s: killed; still running %lld s after the last other process ended",
                    name, (long long)(hang_ns(g) / INT64_C(1000000000)));
            }
            g->run->world->ops->inject(g->run->world, &fault);
            g->hung[member] = true;
        }
    }
}

/* Counts members that did not end as killed. */
static void bury(struct gathering *g)
{
    for (uint32_t member = 0; member < g->run->n_members; member++) {
        if (!g->ended[member]) {
            collect(g, member, &(struct world_ending){.exit_code = -1});
        }
    }
}

/* ---- all of it ---- */

static weft_status wait_for_all(struct gathering *g, struct weft_error *error)
{
    struct world *world = g->run->world;
    weft_ns limit = g->run->origin_ns + RUN_LIMIT_NS;

    for (;;) {
        weft_ns now = world->ops->now(world);
        weft_ns until;
        weft_status status = launch_due(g, now, &until, error);

        collect_ended(g, now);
        if (g->absent.status != WEFT_OK) {
            *error = g->absent;
            return error->status;
        }
        if (status != WEFT_OK || g->n_ended == g->run->n_members) {
            return status;
        }
        if (now >= limit) {
            return weft_fail(error, WEFT_ERR_TIMEOUT, WEFT_PHASE_GATHER,
                             "the run is not over after %lld ns",
                             (long long)RUN_LIMIT_NS);
        }
        until = until < limit ? until : limit;
        if (g->last_ended_ns != 0) {
            weft_ns hang = are_rest_stopped(g) ? now : g->last_ended_ns + hang_ns(g);

            if (now >= hang) {
                kill_hanging(g);
                hang = now + hang_ns(g);
            }
            until = until < hang ? until : hang;
        }
        status = world->ops->step(world, until);
        if (status < 0) {
            return weft_fail(error, status, WEFT_PHASE_GATHER, "the run was interrupted");
        }
    }
}

weft_status run_gather(struct run *run, struct weft_error *error)
{
    struct gathering g = {.run = run};
    weft_status status;

    run_configure(run, &g.config);
    run_story_gather(&run->story);
    g.launched = weft_calloc(run->n_members, sizeof(*g.launched));
    g.ended = weft_calloc(run->n_members, sizeof(*g.ended));
    g.hung = weft_calloc(run->n_members, sizeof(*g.hung));
    status = wait_for_all(&g, error);
    bury(&g);
    run_story_end_gather(&run->story, run->origin_ns);
    run->ended_ns = run->world->ops->now(run->world) - run->origin_ns;
    free(g.launched);
    free(g.ended);
    free(g.hung);
    return status;
}
