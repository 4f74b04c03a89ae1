/* Why programs failed, as `weft exec` and `weft lab exec` report it after the programs' own
 * output. */
#ifndef WEFT_CLI_FAILED_H
#define WEFT_CLI_FAILED_H

#include <jansson.h>
#include <sys/types.h>

#include "cli/cli.h"
#include "run/program_causes.h"

/* Returns false if `--findings off` is set. */
bool failed_is_wanted(const struct cli_options *options);
/* Returns true if `--findings now` is set. */
bool failed_is_now(const struct cli_options *options);
/* Returns false if `--watch off` is set. */
bool failed_is_watched(const struct cli_options *options);
/* Returns a document with only "findings": errors that a rule decided. There are none if no program
 * has used RDMA, because it then failed for a reason of its own. The caller frees it. */
json_t *failed_findings(const struct program_causes *causes);
/* Prints them to stderr: the first in full, the others in one line each. Prints nothing if there
 * are none. */
void failed_tell(const struct cli_options *options, const json_t *document);
/* Appends the beginning and the end of a file, from `from` on, with NULs replaced. Does nothing if
 * `fd` is -1. */
void failed_add_output(int fd, off_t from, struct weft_text *out);

#endif
