/* `weft doctor`: what its parts share. */
#ifndef WEFT_CLI_DOCTOR_H
#define WEFT_CLI_DOCTOR_H

#include <jansson.h>

#include "cli/cli.h"
#include "diag/observations.h"
#include "diag/preflight.h"

enum { DOCTOR_KNOWN_MAX = 64 };

struct examination {
    struct diag_input input; /* the hosts that were looked at */
    struct diag_findings findings;
    json_t *told; /* Owned: findings of other machines, as they told them; or NULL */
    struct diag_preflight more;
    const char *known[DOCTOR_KNOWN_MAX];
};

/* Adds the hosts of a document of `weft doctor --json`; if `only_new`, those whose names are not
 * there yet. False: it is none, and `error` says why. */
bool doctor_add_hosts(struct examination *all, const json_t *document, bool only_new,
                      struct weft_error *error);

/* ---- doctor_tell.c ---- */

/* Cables of which both ends are known, as `weft diagnose` compares them. */
void doctor_compare_ends(struct examination *all);
/* All that is known, as `--json` has it; the caller's. */
json_t *doctor_document(const struct examination *all);
/* `document` of `all` as `--json` asks, or for people. False after a message. */
bool doctor_tell(const struct cli_options *options, const struct examination *all,
                 const json_t *document);
/* CLI_FAILED if a finding of `document` is an error. */
int doctor_verdict(const json_t *document);

/* ---- doctor_join.c ---- */

/* `all` has what was found here: from then on what all members found. An exit code. */
int doctor_join(struct cli_options *options, struct examination *all, bool *out_tells);

#endif
