/* The command: its verbs, their table, and which one a command line names. */
#include <stdio.h>
#include <string.h>

#include "backends/registry.h"
#include "base/check.h"
#include "base/version.h"
#include "cli/cli.h"
#include "scenario/diagnose.h"

static const struct cli_verb_spec verbs[] = {
    {"run", cli_run, "FILE...", "run scenarios and judge what they expect"},
    {"validate", cli_validate, "FILE...",
     "check scenarios, and NCCL topology files (*.xml), without running them"},
    {"list", cli_list, "[DIR]", "the scenarios, a line each"},
    {"show", cli_show, "FILE", "draw the mesh; ports, routes, rings"},
    {"bench", cli_bench, "NAME...", "measure the simulator"},
    {"diagnose", cli_diagnose, "OBS.json", "find causes in recorded observations"},
    {"explain", cli_explain, "[CODE|SYMPTOM]",
     "explain a finding, or an errno, a status or a line of a log"},
    {"paths", cli_paths, "[FILE.xml]", "NCCL-compatible paths inside a host"},
    {"swarm", cli_swarm, "FILE...", "many seeds in one process"},
    {"doctor", cli_doctor, "[FILE...]",
     "check machines, or the hosts of a scenario, before a run"},
    {"import", cli_import, "netplan|hosts FILE...",
     "make a scenario of netplan files, or of one as /etc/hosts: hosts, ports, cables"},
    {"plugin", cli_plugin, "", "the NCCL plugin's settings"},
    {"plugin-check", cli_plugin_check, "SO...", "drive a net plugin as NCCL does"},
    {"relayd", cli_relayd, "", "relay for a host without a rank"},
    {"node", cli_node, "", "one rank of a run over several machines"},
    {"guest", cli_guest, "COMMAND...", "run a command where the kernel has soft-RoCE"},
    {"exec", cli_exec, "FILE [HOST...] -- COMMAND...",
     "any programs in a scenario's hosts, over the kernel's soft-RoCE"},
    {"lab", cli_lab, "up|exec|run|fault|clear|capture|diagnose|ls|down",
     "a mesh that stays, programs in its hosts, and faults"},
    {"cleanup", cli_cleanup, "", "remove what a killed run left"},
    {"completion", cli_completion, "SHELL", "completion of commands for a shell"},
    {.name = NULL},
};

#define N_VERBS (WEFT_LENGTH(verbs) - 1)

static void print_usage(FILE *to)
{
    fprintf(to,
            "weft %s: a testbed for direct-connect RDMA meshes\n\n"
            "usage: weft VERB [flags] ...    (weft VERB --help)\n\n",
            weft_version);
    for (size_t i = 0; i < N_VERBS; i++) {
        fprintf(to, "  %-12s %-10s %s\n", verbs[i].name, verbs[i].operands,
                verbs[i].help);
    }
    fprintf(
        to,
        "\nexit status: 0 expectations met, 1 not met, 2 usage or input error, 3 device,"
        "\n             permission or feature missing, 77 skipped, 124 timed out, 130 "
        "interrupted"
        "\n");
}

static const struct cli_verb_spec *find_verb(const char *name)
{
    for (size_t i = 0; i < N_VERBS; i++) {
        if (strcmp(name, verbs[i].name) == 0) {
            return &verbs[i];
        }
    }
    return NULL;
}

static int dispatch(const struct cli_verb_spec *verb, int argc, char **argv)
{
    struct cli_options options;

    if (!cli_options_parse(&options, verb, argc, argv, 2) ||
        !cli_check_outputs(verb->name, &options)) {
        return CLI_USAGE;
    }
    options.verbs = verbs;
    return verb->run(&options);
}

static int no_such_verb(const char *name)
{
    const char *names[N_VERBS];
    char quoted[DIAGNOSE_QUOTE_BYTES];
    char hint[64];

    for (size_t i = 0; i < N_VERBS; i++) {
        names[i] = verbs[i].name;
    }
    fprintf(stderr, "weft: no such verb: %s%s\n", diagnose_quote(name, quoted),
            diagnose_hint(name, names, WEFT_LENGTH(names), hint, sizeof(hint)));
    fprintf(stderr, "weft --help lists them\n");
    return CLI_USAGE;
}

static int run_command(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    const struct cli_verb_spec *verb = find_verb(name);
    bool is_help;

    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        printf("weft %s\n", weft_version);
        return CLI_OK;
    }
    is_help = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 ||
              strcmp(name, "help") == 0;
    if (is_help && argc > 2) {
        if (find_verb(argv[2]) == NULL) {
            return no_such_verb(argv[2]);
        }
        cli_help(find_verb(argv[2]));
        return CLI_OK;
    }
    if (is_help) {
        print_usage(stdout);
        return CLI_OK;
    }
    if (verb != NULL) {
        return dispatch(verb, argc, argv);
    }
    if (argc > 1) {
        return no_such_verb(name);
    }
    print_usage(stderr);
    return CLI_USAGE;
}

int cli_main(int argc, char **argv)
{
    backend_guest_init();
    return cli_with_stdout(run_command(argc, argv));
}
