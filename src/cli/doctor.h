/* Shared by the files of `weft doctor`. */
#ifndef WEFT_CLI_DOCTOR_H
#define WEFT_CLI_DOCTOR_H

#include <jansson.h>

#include "cli/cli.h"
#include "diag/observations.h"
#include "diag/preflight.h"

enum { DOCTOR_KNOWN_MAX = 64 };

struct examination {
    struct diag_input input; /* the examined hosts */
    struct diag_findings findings;
    json_t *told; /* Owned; findings that other machines reported; NULL without --join */
    struct diag_preflight more;
    const char *known[DOCTOR_KNOWN_MAX];
};

/* Returns an examination without hosts; doctor_end() frees it. */
struct examination *doctor_begin(void);
void doctor_end(struct examination *all);
/* Adds the findings about all->input.hosts[index], with the settings that the scenario gives it. */
void doctor_check_host(const struct world_host *spec, uint32_t index,
                       struct examination *all);

/* ---- doctor_tell.c ---- */

/* Adds the hosts of a document of `weft doctor --json`; with `only_new`, only those whose names are
 * not known yet. Returns false and fills `error` if the document is malformed. */
bool doctor_add_hosts(struct examination *all, const json_t *document, bool only_new,
                      struct weft_error *error);
/* Compares the two ends of each cable of which both are known, as `weft diagnose` does. */
void doctor_compare_ends(struct examination *all);
/* Returns all results as the document of `--json`. The caller frees it. */
json_t *doctor_document(const struct examination *all);
/* Prints `document` of `all` as JSON if requested, otherwise as text. Returns false after a
 * message. */
bool doctor_tell(const struct cli_options *options, const struct examination *all,
                 const json_t *document);
/* Returns CLI_FAILED if `document` has a finding with severity error, otherwise CLI_OK. */
int doctor_verdict(const json_t *document);

/* ---- doctor_join.c ---- */

/* Exchanges results with all members. Replaces the local results in `all` by those of all members;
 * sets *out_tells on rank 0, which prints them. Returns an exit status, after a message unless it
 * is CLI_OK. */
int doctor_join(struct cli_options *options, struct examination *all, bool *out_tells);

#endif
