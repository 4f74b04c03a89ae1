#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/observe.h"
#include "base/text.h"
#include "cli/cli.h"
#include "scenario/diagnose.h"

/* Types of a flag's value. */
enum value_kind {
    VALUE_TEXT,
    VALUE_OUTPUT,
    VALUE_SWITCH,
    VALUE_LIST,
    VALUE_SET,
    VALUE_HELP
};

/* One flag of some verbs: its name, argument and effect. A flag that means something else to other
 * verbs has another row for those. */
struct flag_spec {
    const char *name;
    const char *argument; /* NULL: none; "[FILE]": optional */
    int letter;           /* 0: only the long form */
    const char *verbs;    /* blank-separated; "*": all */
    const char *help;
    const char *choices; /* blank-separated: all that the argument can be; or NULL */
    /* Values that WEFT_<FLAG> can have in addition, because a shell sets it for several verbs. */
    const char *others_in_environment;
    enum value_kind kind;
    size_t offset; /* in struct cli_options: const char *, bool or struct cli_list */
    bool (*set)(struct cli_options *options, const char *verb, const char *value);
};

#define TEXT(field) .kind = VALUE_TEXT, .offset = offsetof(struct cli_options, field)
#define OUTPUT(field) .kind = VALUE_OUTPUT, .offset = offsetof(struct cli_options, field)
#define SWITCH(field) .kind = VALUE_SWITCH, .offset = offsetof(struct cli_options, field)
#define LIST(field) .kind = VALUE_LIST, .offset = offsetof(struct cli_options, field)
#define SET_BY(function) .kind = VALUE_SET, .set = function

/* Prints a usage error. If `problem` ends in "got", the value follows. */
static bool usage(const char *verb, const char *name, const char *problem,
                  const char *value)
{
    char quoted[DIAGNOSE_QUOTE_BYTES];

    fprintf(stderr, "weft %s: --%s: %s", verb, name, problem);
    if (value != NULL) {
        fprintf(stderr, " '%s'", diagnose_quote(value, quoted));
    }
    fputc('\n', stderr);
    return false;
}

static bool set_seed(struct cli_options *options, const char *verb, const char *value)
{
    char *end = NULL;

    errno = 0;
    options->seed = strtoull(value, &end, 0);
    if (errno != 0 || end == value || *end != '\0' || strchr(value, '-') != NULL) {
        return usage(verb, "seed", "expected a number from 0 to 2^64-1, got", value);
    }
    options->has_seed = true;
    return true;
}

/* Parses whole seconds, from 1 to a day. */
static bool parse_seconds(const char *verb, const char *name, const char *value, int *out)
{
    char *end = NULL;
    long seconds = strtol(value, &end, 10);

    if (end == value || *end != '\0' || seconds < 1 || seconds > 86400) {
        return usage(verb, name, "expected 1 to 86400 seconds, got", value);
    }
    *out = (int)seconds;
    return true;
}

static bool set_patience(struct cli_options *options, const char *verb, const char *value)
{
    int seconds = 0;
    bool ok = parse_seconds(verb, "patience", value, &seconds);

    options->patience_s = seconds;
    return ok;
}

static bool add_set(struct cli_options *options, const char *verb, const char *value)
{
    if (strchr(value, '=') == NULL) {
        return usage(verb, "set", "expected PATH=VALUE, got", value);
    }
    if (options->n_sets == CLI_SETS_MAX) {
        return usage(verb, "set", "more than 64 values, with", value);
    }
    options->sets[options->n_sets++].text = value;
    return true;
}

/* Sets the factor of all limits, which overrides the scenario's key in a run. */
static bool set_factor(struct cli_options *options, const char *verb, const char *value)
{
    char *end = NULL;
    long factor = strtol(value, &end, 10);
    size_t n = sizeof(options->patience_set);

    if (end == value || *end != '\0' || factor < 1 || factor > SCENARIO_PATIENCE_MAX) {
        return usage(verb, "patience", "expected a factor from 1 to 1000, got", value);
    }
    options->patience = (uint32_t)factor;
    weft_format(options->patience_set, n, "patience=%ld", factor);
    return strcmp(verb, "explain") == 0 || add_set(options, verb, options->patience_set);
}

static bool set_time_limit(struct cli_options *options, const char *verb,
                           const char *value)
{
    return parse_seconds(verb, "time-limit", value, &options->time_limit_s);
}

/* Sets the prefix length of IPv4 networks if it is at most 31, otherwise that of IPv6 networks. */
static bool set_prefix(struct cli_options *options, const char *verb, const char *value)
{
    char *end = NULL;
    long length = strtol(value, &end, 10);

    if (end == value || *end != '\0' || length < 1 || length == 32 || length > 127) {
        return usage(verb, "prefix",
                     "expected 1 to 31 for IPv4, or 33 to 127 for IPv6, got", value);
    }
    options->prefix_len[length > 32] = (unsigned)length;
    return true;
}

static bool set_colour(struct cli_options *options, const char *verb, const char *value)
{
    static const char *const names[] = {"auto", "always", "never"};

    (void)verb;
    for (int i = 0; i < 3; i++) {
        if (strcmp(value, names[i]) == 0) {
            options->colour = (enum cli_colour)i;
        }
    }
    return true;
}

static bool set_events_level(struct cli_options *options, const char *verb,
                             const char *value)
{
    (void)verb;
    options->events_packet = strcmp(value, "packet") == 0;
    return true;
}

static const struct flag_spec specs[] = {
    {"backend", "NAME", 0, "run show", "sim (default), soft, rxe or verbs",
     .choices = "sim soft rxe verbs", TEXT(backend)},
    {"backend", "NAME", 0, "swarm",
     "sim (default); soft or rxe: each run in a guest, in virtual time",
     .choices = "sim soft rxe verbs", TEXT(backend)},
    {"backend", "NAME", 0, "node relayd doctor",
     "verbs (default): the NICs of this machine; or soft: simulated ones",
     .choices = "verbs soft", .others_in_environment = "sim rxe", TEXT(backend)},
    {"backend", "NAME", 0, "plugin-check",
     "the plugin's: sim, soft or verbs; default: NCCL_MESH_BACKEND",
     .choices = "sim soft rxe verbs", TEXT(backend)},
    {"policy", "NAME", 0, "run swarm show doctor node relayd",
     "weft, nccl-2.25, nccl-2.30-subnet-aware, mesh-plugin-2026-01, mooncake-2026-06 or "
     "nccl-2.29-port-recovery",
     .choices =
         "weft nccl-2.25 nccl-2.30-subnet-aware mesh-plugin-2026-01 mooncake-2026-06 "
         "nccl-2.29-port-recovery",
     TEXT(policy)},
    {"seed", "N", 0, "run show node relayd",
     "seed of all randomness; default: the file's", SET_BY(set_seed)},
    {"seed", "N", 0, "plugin-check", "seed of messages and random calls",
     SET_BY(set_seed)},
    {"seed", "N", 0, "guest", "seed of all chance with --clock virtual; default 1",
     SET_BY(set_seed)},
    {"seed", "N", 0, "exec lab",
     "seed of all chance with --clock virtual; default: the file's", SET_BY(set_seed)},
    {"clock", "virtual|real", 0, "exec lab",
     "whose time goes by for the programs; default: virtual", .choices = "virtual real",
     TEXT(clock)},
    {"clock", "virtual|real", 0, "run",
     "whose time goes by with --backend rxe or soft; default: real with soft, virtual "
     "with rxe where its guest's kernel is built",
     .choices = "virtual real", TEXT(clock)},
    {"clock", "virtual|real", 0, "guest", "whose time goes by in it; default: real",
     .choices = "virtual real", TEXT(clock)},
    {"set", "PATH=VALUE", 0, "run swarm validate show list doctor node relayd exec lab",
     "override a value of the scenario, e.g. jobs.0.all_reduce.bytes=64KiB",
     SET_BY(add_set)},
    {"json", "[FILE]", 0,
     "run show bench list validate diagnose doctor paths plugin-check node",
     "one JSON document, to FILE or alone on stdout", OUTPUT(json)},
    {"json", "[FILE]", 0, "lab",
     "diagnose: one JSON document, to FILE or alone on stdout", OUTPUT(json)},
    {"ndjson", NULL, 0, "run", "one JSON document a line and run, on stdout",
     SWITCH(ndjson)},
    {"junit", "FILE", 0, "run node", "JUnit XML, a case per expectation", OUTPUT(junit)},
    {"html", "FILE", 0, "run", "a self-contained page", OUTPUT(html)},
    {"pcap", "FILE", 0, "run exec", "capture every frame (pcapng)", OUTPUT(pcap)},
    {"trace", "FILE", 0, "run", "Chrome/Perfetto trace", OUTPUT(trace)},
    {"events", "FILE", 0, "run node relayd", "write the event log, one line per event",
     OUTPUT(events)},
    {"events-level", "LEVEL", 0, "run", "story (default) or packet",
     .choices = "story packet", SET_BY(set_events_level)},
    {"no-trains", NULL, 0, "run",
     "simulate every packet by itself: slower, the same result", SWITCH(no_trains)},
    {"observations", "FILE", 0, "run node", "write what `weft diagnose` reads",
     OUTPUT(observations)},
    {"netns", "FILE", 0, "plugin-check", "network namespace of the next rank",
     LIST(netns)},
    {"cable", "PORT,PORT", 0, "import",
     "these two ports, each as HOST:PORT, are joined by a cable", LIST(cable)},
    {"switch", "NETWORK", 0, "import", "the ports in this network are on one switch",
     LIST(switches)},
    {"without", "PORT", 0, "import",
     "leave this device out, of every host, or of one as HOST:PORT", LIST(without)},
    {"hosts", "FILE", 0, "import",
     "as /etc/hosts: networks of these addresses are the management network",
     TEXT(hosts)},
    {"prefix", "LENGTH", 0, "import",
     "with hosts: the length of the networks' prefixes, as 24 or, of IPv6, 64",
     SET_BY(set_prefix)},
    {"dot", NULL, 0, "show", "the mesh in Graphviz' language", SWITCH(dot)},
    {"nic", "HOST:PORT", 0, "show", "what happened inside that NIC in a run", TEXT(nic)},
    {"plan", NULL, 0, "show", "how the jobs will run: choices and steps", SWITCH(plan)},
    {"job", "N", 0, "show", "with --plan: only job N, from 0", TEXT(job)},
    {"rank", "R", 0, "show", "with --plan: only rank R, from 0", TEXT(rank)},
    {"rank", "R", 0, "paths", "compute as this rank; default: the file's first",
     TEXT(rank)},
    {"rank", "R", 0, "node doctor",
     "rank of this process, from 0; default: from torchrun, mpirun or srun", TEXT(rank)},
    {"list", NULL, 0, "bench", "the names of the benchmarks", SWITCH(list)},
    {"list", NULL, 0, "plugin-check", "the clauses", SWITCH(list)},
    {"scenario", "FILE", 0, "node",
     "the scenario all ranks run; default: made of what is there", TEXT(scenario)},
    {"scenario", "FILE", 0, "relayd", "the scenario all ranks run", TEXT(scenario)},
    {"save", "FILE", 0, "node", "rank 0 writes the scenario that was made", OUTPUT(save)},
    {"save", "FILE", 0, "doctor",
     "with --qualify: rank 0 writes the scenario that was made", OUTPUT(save)},
    {"netdevs", "A,B", 0, "node doctor", "without a scenario: only ports on these",
     TEXT(netdevs)},
    {"name", "HOST", 0, "node relayd", "host of the scenario that this process runs as",
     TEXT(name)},
    {"name", "HOST", 0, "doctor", "name of this machine in the report", TEXT(name)},
    {"name", "NAME", 0, "lab",
     "of the lab; default: the file's, without its ending, and else the only one",
     TEXT(name)},
    {"stdin", NULL, 0, "lab", "exec, run: each command reads all that is on stdin",
     SWITCH(reads_stdin)},
    {"tty", NULL, 0, "lab", "exec: the command has this terminal",
     SWITCH(wants_terminal)},
    {"rendezvous", "HOST:PORT", 0, "run",
     "with --backend verbs: address of rank 0; default: its host's name, port 29500",
     TEXT(rendezvous)},
    {"rendezvous", "HOST:PORT", 0, "node relayd",
     "address of rank 0; default: from the launcher, else its management address in the "
     "file",
     TEXT(rendezvous)},
    {"rendezvous", "HOST:PORT", 0, "doctor",
     "with --join or --qualify: address of rank 0; default: from the launcher",
     TEXT(rendezvous)},
    {"secret", "FILE", 0, "node relayd doctor",
     "file with the job secret (64 hexadecimal digits), the same on every rank",
     TEXT(secret)},
    {"join", NULL, 0, "doctor",
     "as one of several machines, which compare what they found", SWITCH(join)},
    {"qualify", NULL, 0, "doctor", "the same, and then with traffic", SWITCH(qualify)},
    {"result", "FILE", 0, "node relayd",
     "this rank's record, to be gathered later: rank 0 then judges nothing",
     OUTPUT(result)},
    {"patience", "SECONDS", 0, "node relayd doctor",
     "how long to wait for all ranks to join; default 900", SET_BY(set_patience)},
    {"patience", "SECONDS", 0, "plugin-check",
     "time limit of one plugin call; default 20", SET_BY(set_patience)},
    {"patience", "SECONDS", 0, "exec",
     "how long the other commands may go on once one has failed; default 10",
     SET_BY(set_patience)},
    {"patience", "N", 0, "run explain",
     "multiplies all limits of the job; default: the file's, or 1", SET_BY(set_factor)},
    {"sequences", "N", 0, "plugin-check",
     "of random calls, with each version; default 20", TEXT(sequences)},
    {"findings", "WHEN", 0, "exec lab",
     "a program that fails: exit (default), why, on stderr after its end; now, as soon "
     "as "
     "the failure shows, while others run; or off",
     .choices = "exit now off", TEXT(findings)},
    {"watch", "WHEN", 0, "exec lab run",
     "on (default): programs are watched by libweft-watch.so, so that what fails in "
     "silence has its finding, too; or off",
     .choices = "on off", TEXT(watch)},
    {"messages", "N", 0, "plugin-check", "on each connection at its busiest; default 600",
     TEXT(messages)},
    {"time-limit", "SECONDS", 0, "guest exec",
     "kill the command after SECONDS; default 3600", SET_BY(set_time_limit)},
    {"time-limit", "SECONDS", 0, "run", "kill the guest after SECONDS; default 3600",
     SET_BY(set_time_limit)},
    {"time-limit", "SECONDS", 0, "swarm", "kill a run after SECONDS; default 600",
     SET_BY(set_time_limit)},
    {"seeds", "A..B", 0, "swarm", "every seed from A to B", TEXT(seeds)},
    {"space", "NAME", 0, "swarm",
     "settings drawn from that space, `all` for instance, instead of files", TEXT(space)},
    {"print", NULL, 0, "swarm", "the files that would run, and run none", SWITCH(print)},
    {"shard", "i/N", 0, "swarm", "every Nth of them, from the ith", TEXT(shard)},
    {"jobs", "J", 0, "swarm", "processes; default: one a processor", TEXT(jobs)},
    {"shrink", NULL, 0, "swarm",
     "make a file's first failure small and save it as a scenario", SWITCH(shrink)},
    {"nccl", "2.25|2.28", 0, "paths", "the rules of that release; default 2.25",
     .choices = "2.25 2.28", TEXT(nccl)},
    {"nranks", "N", 0, "paths", "ranks in total; default: those of the file",
     TEXT(nranks)},
    {"nranks", "N", 0, "node doctor",
     "ranks in total; default: from torchrun, mpirun or srun", TEXT(nranks)},
    {"shmdev", "R=0x..", 0, "paths", "that rank sees another /dev/shm", LIST(shmdev)},
    {"hosthash", "R=0x..", 0, "paths", "that rank is another host to NCCL",
     LIST(hosthash)},
    {"nogdr", "R,..", 0, "paths", "GPUs of these ranks without GPUDirect", TEXT(nogdr)},
    {"p2poff", "A,B", 0, "paths", "NVML denies peer access between these GPUs",
     LIST(p2poff)},
    {"netversion", "N", 0, "paths", "interface of the net plugin; 4: no PXN",
     TEXT(netversion)},
    {"netversion", "N", 0, "plugin-check",
     "only this interface; several, as in 8,12, for ranks by turns", TEXT(netversion)},
    {"nocomm", NULL, 0, "paths", "paths without a communicator", SWITCH(nocomm)},
    {"forceflush", NULL, 0, "paths", "the plugin asks for flushes", SWITCH(forceflush)},
    {"dump", NULL, 0, "paths", "nodes, links, paths and queries (default)", SWITCH(dump)},
    {"info", NULL, 0, "paths", "what NCCL would log of it", SWITCH(info)},
    {"explain", "GPU", 0, "paths", "and then a NET or GPU: why this path", TEXT(explain)},
    {"nographs", NULL, 0, "paths", "no search for rings and trees", SWITCH(nographs)},
    {"times", NULL, 0, "explain", "the timers of recovery, and what they promise",
     SWITCH(times)},
    {"local", NULL, 0, "paths", "of this machine, instead of a file", SWITCH(local)},
    {"root", "DIR", 0, "paths", "of a machine whose /sys and /proc were copied there",
     TEXT(root)},
    {"xml", NULL, 0, "paths", "the topology document, as NCCL writes it", SWITCH(xml)},
    {"color", "WHEN", 0, "*", "auto (default), always or never",
     .choices = "auto always never", SET_BY(set_colour)},
    {"quiet", NULL, 'q', "run node", "no progress, no tables; only failures",
     SWITCH(quiet)},
    {"quiet", NULL, 'q', "validate doctor", "only failures", SWITCH(quiet)},
    {"quiet", NULL, 'q', "swarm", "no progress and no summary; only rows", SWITCH(quiet)},
    {"quiet", NULL, 'q', "plugin-check", "no progress; only the verdicts", SWITCH(quiet)},
    {"quiet", NULL, 'q', "cleanup", "do not say how much was removed", SWITCH(quiet)},
    {"quiet", NULL, 'q', "paths", "do not say what was completed or left out",
     SWITCH(quiet)},
    {"quiet", NULL, 'q', "relayd guest exec lab", "log errors only", SWITCH(quiet)},
    {"quiet", NULL, 'q', "list show bench diagnose explain import plugin completion",
     "no effect: the verb prints its result only", SWITCH(quiet)},
    {"verbose", NULL, 'v', "run node", "log what is being done, and print every table",
     SWITCH(verbose)},
    {"verbose", NULL, 'v', "show", "with --nic: every verb in full", SWITCH(verbose)},
    {"verbose", NULL, 'v',
     "validate list bench diagnose explain paths swarm doctor import plugin plugin-check "
     "relayd guest exec lab cleanup completion",
     "log what is being done", SWITCH(verbose)},
    {"help", NULL, 'h', "*", "this text", .kind = VALUE_HELP},
};

_Static_assert(WEFT_LENGTH(specs) <= CLI_FLAGS_MAX,
               "each flag has its place in is_given");

/* Returns true if the blank-separated `words` contain `word`. */
static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);

    while (words != NULL) {
        words += *words == ' ' ? 1 : 0;
        if (n > 0 && strncmp(words, word, n) == 0 &&
            (words[n] == ' ' || words[n] == '\0')) {
            return true;
        }
        words = strchr(words, ' ');
    }
    return false;
}

static bool verb_takes(const struct flag_spec *spec, const char *verb)
{
    return strcmp(spec->verbs, "*") == 0 || has_word(spec->verbs, verb);
}

/* Stores "; did you mean 'weft'?" for the choice that is most similar to `value`, or "". Returns
 * `out`. */
static char *choice_hint(const char *choices, const char *value, char *out,
                         size_t out_bytes)
{
    char words[8][40];
    const char *names[WEFT_LENGTH(words)];
    size_t n = 0;

    while (*choices != '\0' && n < WEFT_LENGTH(words)) {
        size_t length = strcspn(choices, " ");

        weft_format(words[n], sizeof(words[n]), "%.*s", (int)length, choices);
        names[n] = words[n];
        n++;
        choices += length + (choices[length] == ' ');
    }
    return diagnose_hint(value, names, n, out, out_bytes);
}

/* Prints "--nccl: expected 2.25 or 2.28, got '3'" with all `choices`. Returns false. */
static bool refuse_choice(const struct flag_spec *spec, const char *verb,
                          const char *value)
{
    const char *last = strrchr(spec->choices, ' ');
    char quoted[DIAGNOSE_QUOTE_BYTES];
    char hint[80];

    fprintf(stderr, "weft %s: --%s: expected ", verb, spec->name);
    for (const char *at = spec->choices; *at != '\0'; at++) {
        fputs(at == last ? " or " : *at == ' ' ? ", " : "", stderr);
        if (*at != ' ') {
            fputc(*at, stderr);
        }
    }
    fprintf(stderr, ", got '%s'%s\n", diagnose_quote(value, quoted),
            choice_hint(spec->choices, value, hint, sizeof(hint)));
    return false;
}

/* Prints the flags that `verb` takes. */
static void print_flags(const char *verb)
{
    for (size_t i = 0; i < WEFT_LENGTH(specs); i++) {
        char left[40];
        const char *argument = specs[i].argument;

        if (!verb_takes(&specs[i], verb)) {
            continue;
        }
        if (specs[i].letter != 0) {
            weft_format(left, sizeof(left), "-%c, --%s", specs[i].letter, specs[i].name);
        } else if (argument == NULL) {
            weft_format(left, sizeof(left), "--%s", specs[i].name);
        } else if (argument[0] == '[') {
            weft_format(left, sizeof(left), "--%s[=%s", specs[i].name, argument + 1);
        } else {
            weft_format(left, sizeof(left), "--%s %s", specs[i].name, argument);
        }
        printf("  %-26s %s\n", left, specs[i].help);
    }
}

void cli_help(const struct cli_verb_spec *verb)
{
    printf("usage: weft %s [flags]%s%s\n\n%s\n\n", verb->name,
           verb->operands[0] == '\0' ? "" : " ", verb->operands, verb->help);
    print_flags(verb->name);
}

bool cli_refuse_given(const struct cli_options *options, const char *flags,
                      const char *why)
{
    const char *verb = options->verb->name;
    bool any = false;

    for (size_t i = 0; i < WEFT_LENGTH(specs) && !any; i++) {
        any = options->is_given[i] && verb_takes(&specs[i], verb) &&
              has_word(flags, specs[i].name);
        if (any) {
            usage(verb, specs[i].name, why, NULL);
        }
    }
    return any;
}

bool cli_flag_next(const char *verb, size_t *index, struct cli_flag *out)
{
    for (; *index < WEFT_LENGTH(specs); ++*index) {
        const struct flag_spec *spec = &specs[*index];

        if (verb_takes(spec, verb)) {
            *out = (struct cli_flag){
                .name = spec->name,
                .help = spec->help,
                .argument = spec->argument,
                .choices = spec->choices,
                .letter = spec->letter,
                .may_repeat = spec->kind == VALUE_LIST || spec->set == add_set,
            };
            ++*index;
            return true;
        }
    }
    return false;
}

static bool add_value(struct cli_list *list, const struct flag_spec *spec,
                      const char *verb, const char *value)
{
    if (list->n == CLI_SETS_MAX) {
        return usage(verb, spec->name, "more than 64 values, with", value);
    }
    list->values[list->n++] = value;
    return true;
}

static bool is_choice(const struct flag_spec *spec, const char *value)
{
    return spec->choices == NULL || has_word(spec->choices, value);
}

static bool apply(struct cli_options *options, const char *verb,
                  const struct flag_spec *spec, const char *value)
{
    void *field = (char *)options + spec->offset;

    switch (spec->kind) {
    case VALUE_TEXT:
    case VALUE_OUTPUT:
        *(const char **)field = value == NULL ? "-" : value;
        return true;
    case VALUE_SWITCH:
        *(bool *)field = true;
        return true;
    case VALUE_LIST:
        return add_value(field, spec, verb, value);
    case VALUE_SET:
        return spec->set(options, verb, value);
    case VALUE_HELP:
        break;
    }
    cli_help(options->verb);
    exit(cli_with_stdout(CLI_OK));
}

/* Applies the variables WEFT_<FLAG>, in upper case with underscores. A switch is on unless its
 * variable is 0 or empty. */
static bool apply_environment(struct cli_options *options, const char *verb)
{
    for (size_t i = 0; i < WEFT_LENGTH(specs); i++) {
        char name[40];
        const char *value;
        bool is_good;

        weft_format(name, sizeof(name), "WEFT_%s", specs[i].name);
        for (char *c = name; *c != '\0'; c++) {
            *c = *c == '-' ? '_' : (char)(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
        }
        value = getenv(name);
        if (value == NULL || value[0] == '\0' || specs[i].kind == VALUE_HELP ||
            !verb_takes(&specs[i], verb) ||
            (specs[i].argument == NULL && strcmp(value, "0") == 0)) {
            continue;
        }
        if (!is_choice(&specs[i], value) &&
            !has_word(specs[i].others_in_environment, value)) {
            is_good = refuse_choice(&specs[i], verb, value);
        } else {
            is_good = apply(options, verb, &specs[i], value);
        }
        if (!is_good) {
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

/* Returns true if colour was asked for, or the terminal has colours and the user did not refuse
 * them (no-color.org). */
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

static const struct flag_spec *spec_of_letter(int letter)
{
    for (size_t i = 0; i < WEFT_LENGTH(specs); i++) {
        if (specs[i].letter == letter) {
            return &specs[i];
        }
    }
    return NULL;
}

/* Returns 0 if a file can be written at `path`, as far as can be seen without opening it, or errno.
 * Creates nothing, because the command can still fail before it writes. */
static int cannot_write(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct weft_text folder = {NULL, 0, 0};
    struct stat at;
    int sys_errno;

    if (stat(path, &at) == 0) {
        return S_ISDIR(at.st_mode) ? EISDIR : access(path, W_OK) == 0 ? 0 : errno;
    }
    if (errno != ENOENT || lstat(path, &at) == 0) {
        return errno == ENOENT ? 0 : errno; /* a link that leads nowhere is followed */
    }
    weft_text_add(&folder, "%.*s", slash == NULL ? 1 : (int)(slash - path) + 1,
                  slash == NULL ? "." : path);
    sys_errno = access(folder.bytes, W_OK | X_OK) == 0 ? 0 : errno;
    weft_text_fini(&folder);
    return sys_errno;
}

/* Refuses files that cannot be written before the command does its work. */
static bool may_write(const struct cli_options *options, const char *verb)
{
    for (size_t i = 0; i < WEFT_LENGTH(specs); i++) {
        const struct flag_spec *spec = &specs[i];
        const char *path;
        int sys_errno;

        if (spec->kind != VALUE_OUTPUT || !verb_takes(spec, verb)) {
            continue;
        }
        path = *(const char *const *)((const char *)options + spec->offset);
        weft_observe_begin(); /* a host's process has an event log, or has none */
        sys_errno = path == NULL || strcmp(path, "-") == 0 ? 0 : cannot_write(path);
        weft_observe_end();
        if (sys_errno != 0) {
            fprintf(stderr, "weft %s: --%s: cannot write %s: %s\n", verb, spec->name,
                    path, strerror(sys_errno));
            return false;
        }
    }
    return true;
}

/* getopt_long returns FIRST_FLAG + i for specs[i], which no letter equals. */
enum { FIRST_FLAG = 256 };

/* Prints why getopt(3), which returned `outcome` (':' or '?'), refused `word`. Returns false. */
static bool refuse(const char *verb, const char *word, int outcome)
{
    const char *names[WEFT_LENGTH(specs)];
    const char *nearest;
    char quoted[DIAGNOSE_QUOTE_BYTES];
    char name[64]; /* without "--", and without a value */
    size_t begin_so = 0;
    size_t n = 0;

    if (optopt >= FIRST_FLAG) {
        return usage(verb, specs[optopt - FIRST_FLAG].name,
                     outcome == ':' ? "a value is missing" : "takes no value", NULL);
    }
    if (optopt != 0) {
        fprintf(stderr, "weft %s: no such flag: -%c\n", verb, optopt);
        return false;
    }
    weft_format(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
    for (size_t i = 0; i < WEFT_LENGTH(specs); i++) {
        if (verb_takes(&specs[i], verb)) {
            names[n++] = specs[i].name;
            begin_so += strncmp(specs[i].name, name, strlen(name)) == 0;
        }
    }
    nearest = begin_so > 1 ? NULL : diagnose_nearest(name, names, n);
    fprintf(stderr, "weft %s: %s: %s%s%s%s\n", verb,
            begin_so > 1 ? "several flags begin so" : "no such flag",
            diagnose_quote(word, quoted), nearest != NULL ? "; did you mean --" : "",
            nearest != NULL ? nearest : "", nearest != NULL ? "?" : "");
    return false;
}

/* Returns how many words stand behind the first "--", or -1 if there is none. */
static int words_behind(int argc, char **argv, int first)
{
    for (int i = first; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            return argc - i - 1;
        }
    }
    return -1;
}

bool cli_options_parse(struct cli_options *options, const struct cli_verb_spec *of,
                       int argc, char **argv, int first)
{
    const char *verb = of->name;
    int n_behind = words_behind(argc, argv, first); /* getopt moves them */
    struct option longs[WEFT_LENGTH(specs) + 1];
    size_t n = 0;
    int flag;

    memset(options, 0, sizeof(*options));
    options->verb = of;
    memset(longs, 0, sizeof(longs));
    options->backend = strcmp(verb, "plugin-check") == 0 ? NULL : "sim";
    if (!apply_environment(options, verb)) {
        return false;
    }
    for (size_t i = 0; i < WEFT_LENGTH(specs); i++) {
        if (verb_takes(&specs[i], verb)) {
            longs[n].name = specs[i].name;
            longs[n].has_arg = specs[i].argument == NULL     ? no_argument
                               : specs[i].argument[0] == '[' ? optional_argument
                                                             : required_argument;
            longs[n++].val = FIRST_FLAG + (int)i;
        }
    }
    for (int i = first; strcmp(verb, "explain") == 0 && i < argc; i++) {
        /* An errno as the kernel prints it, and no flag. */
        argv[i] += argv[i][0] == '-' && argv[i][1] >= '0' && argv[i][1] <= '9';
    }
    optind = 1;
    opterr = 0;
    while ((flag = getopt_long(argc - first + 1, argv + first - 1, ":qvh", longs,
                               NULL)) != -1) {
        const struct flag_spec *spec =
            flag >= FIRST_FLAG ? &specs[flag - FIRST_FLAG] : spec_of_letter(flag);

        if (spec == NULL) {
            return refuse(verb, argv[first - 1 + optind - 1], flag);
        }
        if (!is_choice(spec, optarg)) {
            return refuse_choice(spec, verb, optarg);
        }
        if (!apply(options, verb, spec, optarg)) {
            return false;
        }
        options->is_given[spec - specs] = true;
    }
    options->operands = argv + first - 1 + optind;
    options->n_operands = argc - first + 1 - optind;
    options->n_before = n_behind < 0 || n_behind > options->n_operands
                            ? -1
                            : options->n_operands - n_behind;
    options->style = report_style(wants_colour(options));
    options->log.level = options->verbose ? WEFT_LOG_DEBUG
                         : options->quiet ? WEFT_LOG_ERROR
                                          : WEFT_LOG_WARN;
    options->log.write = write_log;
    return may_write(options, verb);
}
