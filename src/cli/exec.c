/* weft exec: runs programs in the hosts of a scenario, over the kernel's soft-RoCE in a guest. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backends/registry.h"
#include "base/check.h"
#include "base/observe.h"
#include "cli/cli.h"
#include "cli/exec_witness.h"
#include "cli/failed.h"
#include "report/pcapng.h"
#include "run/program_plan.h"

#define PATIENCE_S 10

static int usage(const char *problem)
{
    fprintf(stderr,
            "%s%s%susage: weft exec FILE [HOST...] -- COMMAND... [: [HOST...] -- "
            "COMMAND...]...\n",
            problem != NULL ? "weft exec: " : "", problem != NULL ? problem : "",
            problem != NULL ? "\n" : "");
    return CLI_USAGE;
}

static int report(const struct weft_error *error)
{
    char text[512];

    weft_error_format(error, text, sizeof(text));
    fprintf(stderr, "weft exec: %s\n", text);
    return error->status == WEFT_ERR_CLOSED ? CLI_INTERRUPTED : CLI_ENVIRONMENT;
}

/* Runs the programs. Called in the guest. */
static int run(const struct cli_options *options, const struct world_spec *spec,
               const struct program_plan *plan)
{
    struct world_programs what = {
        .items = plan->items,
        .n = plan->n,
        .is_tagged = plan->n > 1,
        .is_watched = failed_is_watched(options),
        .patience_ns =
            (options->patience_s != 0 ? options->patience_s : PATIENCE_S) * 1000000000LL};
    struct weft_error error = {0};
    struct exec_witness *witness = NULL;
    struct pcapng pcapng;
    FILE *file;
    int code = CLI_OK;

    weft_observe_begin();
    file = options->pcap != NULL ? fopen(options->pcap, "wbe") : NULL;
    if (file != NULL) {
        pcapng_open(&pcapng, file, spec);
    }
    weft_observe_end();
    if (options->pcap != NULL && file == NULL) {
        fprintf(stderr, "weft exec: %s: %s\n", options->pcap, strerror(errno));
        return CLI_USAGE;
    }
    if (file != NULL) {
        what.tap = pcapng_frame;
        what.tap_context = &pcapng;
    }
    if (failed_is_wanted(options)) {
        witness = exec_witness_create(options, spec, plan);
        what.witness = exec_witness_hooks(witness);
    }
    if (backend_programs_run(spec, &what, &code, &error) != WEFT_OK) {
        code = report(&error);
    } else if (code != CLI_OK && witness != NULL) {
        exec_witness_tell(witness);
    }
    exec_witness_free(witness);
    if (file != NULL) {
        bool is_whole = pcapng_close(&pcapng);

        is_whole = fclose(file) == 0 && is_whole;
        if (!is_whole) {
            fprintf(stderr, "weft exec: %s: the capture is incomplete\n", options->pcap);
            code = code == CLI_OK ? CLI_USAGE : code;
        }
    }
    return code;
}

/* Checks the commands and the mesh, so that errors are reported before the guest starts, then runs
 * them in the guest, where all this is repeated. */
static int exec_in(struct cli_options *options, const struct scenario *scenario,
                   struct scenario_world *world)
{
    int n_before = options->n_before;
    struct weft_error error = {0};
    struct weft_text why = {NULL, 0, 0};
    struct program_plan plan;
    const struct backend_guest guest = {.time_limit_s = options->time_limit_s,
                                        .clock = options->clock,
                                        .seed = options->has_seed ? options->seed
                                                                  : scenario->seed};
    int code = CLI_USAGE;

    world->spec.log = &options->log;
    if (!program_plan_make(world, backend_program_device, options->operands + 1,
                           (size_t)n_before - 1, options->operands + n_before,
                           (size_t)(options->n_operands - n_before), &plan, &why)) {
        fprintf(stderr, "weft exec: %s\n", why.bytes);
    } else if (backend_programs_can(&world->spec, false, &error) != WEFT_OK) {
        code = report(&error);
    } else if (!backend_programs_elsewhere(&guest, &code)) {
        code = run(options, &world->spec, &plan);
    }
    program_plan_fini(&plan);
    weft_text_fini(&why);
    return code;
}

int cli_exec(struct cli_options *options)
{
    struct scenario *scenario;
    struct scenario_world *world = NULL;
    int code = CLI_USAGE;

    if (options->n_before < 0) {
        return usage(options->n_operands == 0 ? NULL
                                              : "\"--\" is missing before the command");
    }
    if (options->n_before == 0) {
        return usage("a scenario's file is missing before \"--\"");
    }
    if (options->pcap != NULL && strcmp(options->pcap, "-") == 0) {
        fprintf(stderr, "weft exec: --pcap: stdout is the commands': name a file\n");
        return CLI_USAGE;
    }
    scenario = cli_load(options, options->operands[0]);
    if (scenario != NULL && scenario_to_world(scenario, &world) == WEFT_OK) {
        code = exec_in(options, scenario, world);
    }
    scenario_world_free(world);
    scenario_free(scenario);
    return code;
}
