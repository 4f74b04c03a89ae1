/* Records what programs of `weft exec` and their hosts did, to report why they failed. */
#ifndef WEFT_CLI_EXEC_WITNESS_H
#define WEFT_CLI_EXEC_WITNESS_H

#include "cli/cli.h"
#include "io/programs.h"
#include "run/program_plan.h"

struct exec_witness;

/* Creates a witness. `spec` and `plan` must outlive it. The caller calls exec_witness_free(). */
struct exec_witness *exec_witness_create(const struct cli_options *options,
                                         const struct world_spec *spec,
                                         const struct program_plan *plan);
const struct world_program_watch *exec_witness_hooks(struct exec_witness *witness);
/* Prints the findings after the run, if a program failed and a rule decides why, unless they were
 * printed while programs ran (`--findings now`). */
void exec_witness_tell(struct exec_witness *witness);
void exec_witness_free(struct exec_witness *witness);

#endif
