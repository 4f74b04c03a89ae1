/* The `weft` command: options, verbs, exit codes. The only place, with plugin/, that
 * reads the process environment and the wall clock. */
#ifndef WEFT_CLI_CLI_H
#define WEFT_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "base/text.h"
#include "report/style.h"
#include "run/run.h"
#include "scenario/scenario.h"

/* docs/cli.md. Of several runs the gravest counts: 130 > 2 > 3 > 124 > 1 > 0. */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1, /* a job, check or expectation failed */
    CLI_USAGE = 2,  /* usage, scenario or input error */
    CLI_ENVIRONMENT =
        3, /* a device, module or permission is missing; not implemented yet */
    CLI_SKIPPED = 77,
    CLI_TIMEOUT = 124,
    CLI_INTERRUPTED = 130
};

/* Returns the graver of two exit codes. */
int cli_worse(int a, int b);

enum cli_colour { CLI_COLOUR_AUTO, CLI_COLOUR_ALWAYS, CLI_COLOUR_NEVER };

#define CLI_SETS_MAX 64
#define CLI_FLAGS_MAX 160

/* The values of a flag that may be repeated; not owned. */
struct cli_list {
    const char *values[CLI_SETS_MAX];
    size_t n;
};

struct cli_options;
typedef int (*cli_verb)(struct cli_options *options);

struct cli_verb_spec {
    const char *name;
    cli_verb run;
    const char *operands; /* "FILE...", "[DIR]", "" */
    const char *help;
};

/* Everything that flags and WEFT_<FLAG> can say. Strings are not owned: argv's or the
 * environment's. */
struct cli_options {
    const struct cli_verb_spec *verb;  /* of the command line */
    const struct cli_verb_spec *verbs; /* all; the last has no name */
    const char *json;                  /* file, "-" for stdout, or NULL */
    bool ndjson;
    const char *junit, *html, *pcap, *trace, *events, *observations;
    bool events_packet;
    bool no_trains;
    const char *backend; /* "sim"; of plugin-check NULL */
    const char *clock;   /* "virtual", "real" or NULL */
    const char *policy;
    bool has_seed;
    uint64_t seed;
    struct scenario_set sets[CLI_SETS_MAX];
    size_t n_sets;
    bool quiet, verbose, dot, list, plan, shrink, print;
    bool nocomm, forceflush, dump, info, nographs, xml, local; /* of paths */
    const char *root;                                          /* of paths */
    enum cli_colour colour;
    const char *nic;
    const char *explain, *nccl, *nranks, *nogdr, *netversion; /* of paths */
    const char *messages, *sequences;                         /* of plugin-check */
    struct cli_list shmdev, hosthash, p2poff, netns;
    struct cli_list cable, switches, without; /* of import */
    const char *hosts;                        /* of import; or NULL */
    unsigned prefix_len[2];                   /* of import, for IPv4 and IPv6; or 0 */
    const char *space, *seeds, *shard, *jobs; /* of a swarm; or NULL */
    const char *job, *rank;                   /* of `show --plan`; or NULL: all */
    const char *scenario, *name, *rendezvous, *result; /* of a node; or NULL */
    const char *secret;                                /* of a node; or NULL */
    const char *save, *netdevs;                        /* of one without a scenario */
    bool join, qualify;                                /* of doctor */
    bool times;                                        /* of explain */
    bool reads_stdin;                                  /* of lab */
    bool wants_terminal;                               /* of lab */
    const char *findings;  /* of exec and lab: "exit", "now", "off" or NULL */
    const char *watch;     /* of exec, lab and run: "on", "off" or NULL */
    int64_t patience_s;    /* 0: default */
    uint32_t patience;     /* run, explain: factor of all limits; 0: none given */
    char patience_set[24]; /* the same as an override of the scenario */
    int time_limit_s;      /* 0: default */
    char **operands;       /* [n_operands], from argv */
    int n_operands;
    int n_before;              /* operands before "--"; -1: there is no "--" */
    struct report_style style; /* for stdout */
    struct weft_log log;       /* to stderr */
    bool is_given
        [CLI_FLAGS_MAX]; /* by row of the flags' table; false if by WEFT_<FLAG> only */
};

/* The flags that `verb` takes, one at a time: *index is 0 at first, and moves on. False: there
 * are no more. */
struct cli_flag {
    const char *name, *help;
    const char *argument; /* NULL: none; "[FILE]": optional */
    const char *choices;  /* blank-separated, of the argument; or NULL */
    int letter;           /* 0: only the long form */
    bool may_repeat;
};
bool cli_flag_next(const char *verb, size_t *index, struct cli_flag *out);

/* Parses argv[first..argc) after the environment. False after a message on stderr. */
bool cli_options_parse(struct cli_options *options, const struct cli_verb_spec *verb,
                       int argc, char **argv, int first);
/* Returns true after a message if one of `flags` (blank-separated) is on the command line, where it
 * has no effect. `why` says what it needs. A shell's WEFT_<FLAG> is not refused, because it is for
 * several verbs. */
bool cli_refuse_given(const struct cli_options *options, const char *flags,
                      const char *why);
/* Prints what `weft VERB --help` shows. */
void cli_help(const struct cli_verb_spec *verb);

int cli_run(struct cli_options *options);
int cli_validate(struct cli_options *options);
int cli_list(struct cli_options *options);
int cli_show(struct cli_options *options);
/* Runs `show --plan` of a loaded scenario (show_plan.c). */
int cli_show_plan(const struct cli_options *options, const struct scenario *scenario);
/* Runs `show --nic` of a loaded scenario (show_nic.c). */
int cli_show_nic(const struct cli_options *options, const struct scenario *scenario);
int cli_bench(struct cli_options *options);
int cli_import(struct cli_options *options);
int cli_explain(struct cli_options *options);
int cli_explain_times(const struct cli_options *options);
int cli_paths(struct cli_options *options);
int cli_swarm(struct cli_options *options);
int cli_diagnose(struct cli_options *options);
int cli_node(struct cli_options *options);
int cli_relayd(struct cli_options *options);
int cli_guest(struct cli_options *options);
int cli_exec(struct cli_options *options);
int cli_lab(struct cli_options *options);
int cli_plugin(struct cli_options *options);
int cli_plugin_check(struct cli_options *options);
int cli_cleanup(struct cli_options *options);
int cli_doctor(struct cli_options *options);
int cli_completion(struct cli_options *options);

/* Loads a scenario with the options' --set; prints every diagnostic to stderr. NULL after
 * an error. */
struct scenario *cli_load(const struct cli_options *options, const char *path);
/* Does the same, and appends what it printed to `*why`, without the last newline. */
struct scenario *cli_load_why(const struct cli_options *options, const char *path,
                              struct weft_text *why);
/* Does the same with a text in memory, which messages call `name`. */
struct scenario *cli_load_bytes(const struct cli_options *options, const char *name,
                                const char *bytes, size_t n_bytes);
/* Does the same, and stores the file as it was read in the empty `*text`, which the caller
 * frees. */
struct scenario *cli_load_keep(const struct cli_options *options, const char *path,
                               struct weft_text *text);
/* Appends the command, in words for a POSIX shell, that runs `path` again as it was run. */
void cli_replay(const struct cli_options *options, const char *path, uint64_t seed,
                struct weft_text *out);
/* Does the same for a file whose seed is unknown, because it was not loaded. */
void cli_replay_unread(const struct cli_options *options, const char *path,
                       struct weft_text *out);
/* Stores "; did you mean 'x'?" for the finding whose code is most similar to `code`, or "". Returns
 * `out`. */
char *cli_code_hint(const char *code, char *out, size_t out_bytes);
/* Makes ^C end the process at once, because a simulated world needs no clean-up. */
void cli_end_when_interrupted(void);
/* Prints `text` to stdout, all of it; false (with a message) if stdout failed. */
bool cli_print(const char *bytes, size_t n);
/* Returns true if no flag writes to stdout, so that text can be printed there. */
bool cli_has_stdout(const struct cli_options *options);
/* Returns false after a message if two flags write to one file, or to stdout, or the name of a file
 * is empty. */
bool cli_check_outputs(const char *verb, const struct cli_options *options);
/* Writes a whole file ("-": stdout); false after a message. */
bool cli_write_file(const char *path, const char *bytes, size_t n);
/* Writes a JSON document in the same way, indented. */
bool cli_write_json(const char *path, const json_t *document);
/* Reads a file of JSON; NULL after a message. */
json_t *cli_read_json(const char *path);
/* Returns the text as a JSON string. In text that is not UTF-8, `?` replaces each byte that is not
 * ASCII. */
json_t *cli_json_text(const char *text);
/* Flushes stdout. Returns `status`, or CLI_USAGE if anything printed there was lost. */
int cli_with_stdout(int status);
/* Returns a run's verdict as an exit code. */
int cli_verdict(enum run_result result);

/* Runs the program. */
int cli_main(int argc, char **argv);

#endif
