#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"
#include "cli/cli.h"
#include "rdma/policy.h"

enum flag {
    FLAG_JSON = 256,
    FLAG_NDJSON,
    FLAG_JUNIT,
    FLAG_HTML,
    FLAG_PCAP,
    FLAG_TRACE,
    FLAG_EVENTS,
    FLAG_EVENTS_LEVEL,
    FLAG_OBSERVATIONS,
    FLAG_BACKEND,
    FLAG_POLICY,
    FLAG_SEED,
    FLAG_SET,
    FLAG_COLOR,
    FLAG_DOT,
    FLAG_LIST,
    FLAG_NIC,
    FLAG_PLAN,
    FLAG_JOB,
    FLAG_RANK,
    FLAG_SCENARIO,
    FLAG_NAME,
    FLAG_RENDEZVOUS,
    FLAG_RESULT,
    FLAG_PATIENCE,
    FLAG_TIME_LIMIT,
    FLAG_SEEDS,
    FLAG_SHARD,
    FLAG_JOBS,
    FLAG_SHRINK,
    FLAG_NO_TRAINS,
    FLAG_QUIET = 'q',
    FLAG_VERBOSE = 'v',
    FLAG_HELP = 'h'
};

/* One flag: what it is called, what it takes, which verbs know it, what it does. */
struct flag_spec {
    enum flag flag;
    const char *name;
    const char *argument; /* NULL: none; "[FILE]": optional */
    const char *verbs;    /* blank-separated; "*": all */
    const char *help;
};

static const struct flag_spec specs[] = {
    {FLAG_BACKEND, "backend", "NAME", "run show", "sim (default), soft, rxe or verbs"},
    {FLAG_POLICY, "policy", "NAME", "run swarm show node relayd",
     "weft, nccl-2.25, nccl-2.30-subnet-aware or mesh-plugin-2026-01"},
    {FLAG_SEED, "seed", "N", "run show node relayd",
     "seed of all randomness; default: the file's"},
    {FLAG_SET, "set", "PATH=VALUE", "run swarm validate show list node relayd",
     "override a value of the scenario, e.g. jobs.0.all_reduce.bytes=64KiB"},
    {FLAG_JSON, "json", "[FILE]", "run show bench list validate diagnose",
     "one JSON document, to FILE or alone on stdout"},
    {FLAG_NDJSON, "ndjson", NULL, "run", "one JSON document a line and run, on stdout"},
    {FLAG_JUNIT, "junit", "FILE", "run", "JUnit XML, a case per expectation"},
    {FLAG_HTML, "html", "FILE", "run", "a self-contained page"},
    {FLAG_PCAP, "pcap", "FILE", "run", "capture every frame (pcapng)"},
    {FLAG_TRACE, "trace", "FILE", "run", "Chrome/Perfetto trace"},
    {FLAG_EVENTS, "events", "FILE", "run node relayd",
     "the event story, one line per event"},
    {FLAG_EVENTS_LEVEL, "events-level", "LEVEL", "run", "story (default) or packet"},
    {FLAG_NO_TRAINS, "no-trains", NULL, "run",
     "simulate every packet by itself: slower, the same result"},
    {FLAG_OBSERVATIONS, "observations", "FILE", "run", "what `weft diagnose` reads"},
    {FLAG_DOT, "dot", NULL, "show", "the mesh in Graphviz' language"},
    {FLAG_NIC, "nic", "HOST:PORT", "show", "what happened inside that NIC in a run"},
    {FLAG_PLAN, "plan", NULL, "show", "how the jobs will run: choices and steps"},
    {FLAG_JOB, "job", "N", "show", "--plan of one job, from 0"},
    {FLAG_RANK, "rank", "R", "show", "--plan of one rank, from 0"},
    {FLAG_LIST, "list", NULL, "bench", "the names of the benchmarks"},
    {FLAG_SCENARIO, "scenario", "FILE", "node relayd", "the scenario all ranks run"},
    {FLAG_NAME, "name", "HOST", "node relayd", "the host of it that this process is"},
    {FLAG_RENDEZVOUS, "rendezvous", "ADDR:PORT", "node relayd",
     "where rank 0 serves; default: its management address"},
    {FLAG_RESULT, "result", "FILE", "node relayd", "what this rank did, as JSON"},
    {FLAG_PATIENCE, "patience", "SECONDS", "node relayd",
     "for ranks not started; default 900"},
    {FLAG_TIME_LIMIT, "time-limit", "SECONDS", "guest swarm",
     "then it (of a swarm: the run) is killed; default 3600 (600)"},
    {FLAG_SEEDS, "seeds", "A..B", "swarm", "every seed from A to B"},
    {FLAG_SHARD, "shard", "i/N", "swarm", "every Nth of them, from the ith"},
    {FLAG_JOBS, "jobs", "J", "swarm", "processes; default: one a processor"},
    {FLAG_SHRINK, "shrink", NULL, "swarm",
     "make a file's first failure small and save it as a scenario"},
    {FLAG_COLOR, "color", "WHEN", "*", "auto (default), always or never"},
    {FLAG_QUIET, "quiet", NULL, "*", "no progress, no tables; only failures"},
    {FLAG_VERBOSE, "verbose", NULL, "*", "log what is being done"},
    {FLAG_HELP, "help", NULL, "*", "this text"},
};

static bool verb_takes(const struct flag_spec *spec, const char *verb)
{
    const char *at = spec->verbs;
    size_t n = strlen(verb);

    if (strcmp(at, "*") == 0) {
        return true;
    }
    while (at != NULL) {
        at += *at == ' ' ? 1 : 0;
        if (strncmp(at, verb, n) == 0 && (at[n] == ' ' || at[n] == '\0')) {
            return true;
        }
        at = strchr(at, ' ');
    }
    return false;
}

void cli_options_help(const char *verb)
{
    for (size_t i = 0; i < WEFT_LENGTH(specs); i++) {
        char left[40];
        const char *argument = specs[i].argument;

        if (!verb_takes(&specs[i], verb)) {
            continue;
        }
        if (argument == NULL) {
            weft_format(left, sizeof(left), "--%s", specs[i].name);
        } else if (argument[0] == '[') {
            weft_format(left, sizeof(left), "--%s[=%s", specs[i].name, argument + 1);
        } else {
            weft_format(left, sizeof(left), "--%s %s", specs[i].name, argument);
        }
        printf("  %-26s %s\n", left, specs[i].help);
    }
}

static bool usage(const char *verb, const char *name, const char *problem,
                  const char *value)
{
    fprintf(stderr, "weft %s: --%s: %s%s%s\n", verb, name, problem,
            value != NULL ? ": " : "", value != NULL ? value : "");
    return false;
}

static bool set_seed(struct cli_options *options, const char *verb, const char *value)
{
    char *end = NULL;

    errno = 0;
    options->seed = strtoull(value, &end, 0);
    if (errno != 0 || end == value || *end != '\0' || strchr(value, '-') != NULL) {
        return usage(verb, "seed", "not a number from 0 to 2^64-1", value);
    }
    options->has_seed = true;
    return true;
}

/* Whole seconds, from 1 to a day. */
static bool set_seconds(struct cli_options *options, const char *verb, int flag,
                        const char *value)
{
    char *end = NULL;
    long seconds = strtol(value, &end, 10);

    if (end == value || *end != '\0' || seconds < 1 || seconds > 86400) {
        return usage(verb, flag == FLAG_PATIENCE ? "patience" : "time-limit",
                     "not 1 to 86400 seconds", value);
    }
    if (flag == FLAG_PATIENCE) {
        options->patience_s = seconds;
    } else {
        options->time_limit_s = (int)seconds;
    }
    return true;
}

static bool set_colour(struct cli_options *options, const char *verb, const char *value)
{
    static const char *const names[] = {"auto", "always", "never"};

    for (int i = 0; i < 3; i++) {
        if (strcmp(value, names[i]) == 0) {
            options->colour = (enum cli_colour)i;
            return true;
        }
    }
    return usage(verb, "color", "not auto, always or never", value);
}

static bool set_events_level(struct cli_options *options, const char *verb,
                             const char *value)
{
    options->events_packet = strcmp(value, "packet") == 0;
    if (!options->events_packet && strcmp(value, "story") != 0) {
        return usage(verb, "events-level", "not story or packet", value);
    }
    return true;
}

static bool set_policy(struct cli_options *options, const char *verb, const char *value)
{
    enum rdma_policy policy;

    if (!rdma_policy_parse(value, &policy)) {
        return usage(verb, "policy", "no such policy", value);
    }
    options->policy = value;
    return true;
}

static bool add_set(struct cli_options *options, const char *verb, const char *value)
{
    if (strchr(value, '=') == NULL) {
        return usage(verb, "set", "not path=value", value);
    }
    if (options->n_sets == CLI_SETS_MAX) {
        return usage(verb, "set", "too many", value);
    }
    options->sets[options->n_sets++].text = value;
    return true;
}

/* The field that holds the file or name of a flag that is only kept, or NULL. */
static const char **text_field(struct cli_options *options, enum flag flag)
{
    switch (flag) {
    case FLAG_JSON:
        return &options->json;
    case FLAG_JUNIT:
        return &options->junit;
    case FLAG_HTML:
        return &options->html;
    case FLAG_PCAP:
        return &options->pcap;
    case FLAG_TRACE:
        return &options->trace;
    case FLAG_EVENTS:
        return &options->events;
    case FLAG_OBSERVATIONS:
        return &options->observations;
    case FLAG_BACKEND:
        return &options->backend;
    case FLAG_NIC:
        return &options->nic;
    case FLAG_SEEDS:
        return &options->seeds;
    case FLAG_SHARD:
        return &options->shard;
    case FLAG_JOBS:
        return &options->jobs;
    case FLAG_JOB:
        return &options->job;
    case FLAG_RANK:
        return &options->rank;
    case FLAG_SCENARIO:
        return &options->scenario;
    case FLAG_NAME:
        return &options->name;
    case FLAG_RENDEZVOUS:
        return &options->rendezvous;
    case FLAG_RESULT:
        return &options->result;
    case FLAG_PATIENCE:
    case FLAG_TIME_LIMIT:
    case FLAG_NDJSON:
    case FLAG_EVENTS_LEVEL:
    case FLAG_POLICY:
    case FLAG_SEED:
    case FLAG_SET:
    case FLAG_COLOR:
    case FLAG_SHRINK:
    case FLAG_NO_TRAINS:
    case FLAG_DOT:
    case FLAG_PLAN:
    case FLAG_LIST:
    case FLAG_QUIET:
    case FLAG_VERBOSE:
    case FLAG_HELP:
    default:
        return NULL;
    }
}

/* The field of a flag that is on or off, or NULL. */
static bool *switch_field(struct cli_options *options, int flag)
{
    return flag == FLAG_NDJSON      ? &options->ndjson
           : flag == FLAG_NO_TRAINS ? &options->no_trains
           : flag == FLAG_DOT       ? &options->dot
           : flag == FLAG_PLAN      ? &options->plan
           : flag == FLAG_SHRINK    ? &options->shrink
           : flag == FLAG_LIST      ? &options->list
           : flag == FLAG_QUIET     ? &options->quiet
           : flag == FLAG_VERBOSE   ? &options->verbose
                                    : NULL;
}

static bool apply(struct cli_options *options, const char *verb, int flag,
                  const char *value)
{
    const char **text = text_field(options, (enum flag)flag);
    bool *is_on = switch_field(options, flag);

    if (text != NULL) {
        *text = value == NULL ? "-" : value;
        return true;
    }
    if (is_on != NULL) {
        *is_on = true;
        return true;
    }
    if (flag == FLAG_SEED) {
        return set_seed(options, verb, value);
    }
    if (flag == FLAG_PATIENCE || flag == FLAG_TIME_LIMIT) {
        return set_seconds(options, verb, flag, value);
    }
    if (flag == FLAG_SET) {
        return add_set(options, verb, value);
    }
    if (flag == FLAG_COLOR) {
        return set_colour(options, verb, value);
    }
    if (flag == FLAG_POLICY) {
        return set_policy(options, verb, value);
    }
    weft_check(flag == FLAG_EVENTS_LEVEL);
    return set_events_level(options, verb, value);
}

/* WEFT_<FLAG>, upper case with underscores; a switch is on unless it says 0 or nothing.
 */
static bool apply_environment(struct cli_options *options, const char *verb)
{
    for (size_t i = 0; i < WEFT_LENGTH(specs); i++) {
        char name[40];
        const char *value;

        weft_format(name, sizeof(name), "WEFT_%s", specs[i].name);
        for (char *c = name; *c != '\0'; c++) {
            *c = *c == '-' ? '_' : (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
        }
        value = getenv(name);
        if (value == NULL || value[0] == '\0' || specs[i].flag == FLAG_HELP ||
            !verb_takes(&specs[i], verb) ||
            (specs[i].argument == NULL && strcmp(value, "0") == 0)) {
            continue;
        }
        if (!apply(options, verb, (int)specs[i].flag, value)) {
            fprintf(stderr, "weft %s: (from the environment: %s)\n", verb, name);
            return false;
        }
    }
    return true;
}

static void write_log(void *context, enum weft_log_level level, const char *line)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};

    (void)context;
    fprintf(stderr, "weft: %s: %s\n", names[level], line);
}

/* Colour: asked for, or a terminal that can and a user who did not refuse (no-color.org).
 */
static bool wants_colour(const struct cli_options *options)
{
    const char *refusal = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");

    if (options->colour != CLI_COLOUR_AUTO) {
        return options->colour == CLI_COLOUR_ALWAYS;
    }
    return (refusal == NULL || refusal[0] == '\0') && isatty(STDOUT_FILENO) &&
           (terminal == NULL || strcmp(terminal, "dumb") != 0);
}

bool cli_options_parse(struct cli_options *options, const char *verb, int argc,
                       char **argv, int first)
{
    struct option longs[WEFT_LENGTH(specs) + 1];
    size_t n = 0;
    int flag;

    memset(options, 0, sizeof(*options));
    memset(longs, 0, sizeof(longs));
    options->backend = "sim";
    if (!apply_environment(options, verb)) {
        return false;
    }
    for (size_t i = 0; i < WEFT_LENGTH(specs); i++) {
        if (verb_takes(&specs[i], verb)) {
            longs[n].name = specs[i].name;
            longs[n].has_arg = specs[i].argument == NULL     ? no_argument
                               : specs[i].argument[0] == '[' ? optional_argument
                                                             : required_argument;
            longs[n++].val = (int)specs[i].flag;
        }
    }
    argv[first - 1] = argv[0]; /* getopt's messages begin with the program's name */
    optind = 1;
    while ((flag = getopt_long(argc - first + 1, argv + first - 1, "qvh", longs, NULL)) !=
           -1) {
        if (flag == FLAG_HELP) {
            printf("usage: weft %s [flags] ...\n", verb);
            cli_options_help(verb);
            exit(CLI_OK);
        }
        if (flag == '?' || !apply(options, verb, flag, optarg)) {
            return false;
        }
    }
    options->operands = argv + first - 1 + optind;
    options->n_operands = argc - first + 1 - optind;
    options->style = report_style(wants_colour(options));
    options->log.level = options->verbose ? WEFT_LOG_DEBUG
                         : options->quiet ? WEFT_LOG_ERROR
                                          : WEFT_LOG_WARN;
    options->log.write = write_log;
    return true;
}
