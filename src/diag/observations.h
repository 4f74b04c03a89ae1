/* Observations as JSON and back: `run --observations FILE` writes them, `weft diagnose
 * FILE` reads them and must give the same findings again. */
#ifndef WEFT_DIAG_OBSERVATIONS_H
#define WEFT_DIAG_OBSERVATIONS_H

#include <jansson.h>

#include "base/error.h"
#include "diag/diag.h"

/* A new reference. Unknown values are left out. */
json_t *diag_observations_encode(const struct diag_input *input);
/* WEFT_ERR_INPUT names the offending member ("hosts[1].ports[0].mtu"). `out` is the
 * caller's to fini, also on failure. */
weft_status diag_observations_decode(const json_t *document, struct diag_input *out,
                                     struct weft_error *error) WEFT_MUST_CHECK;

/* One host of it: what a process tells whoever gathers. */
json_t *diag_host_encode(const struct diag_host *host);
weft_status diag_host_decode(const json_t *object, struct diag_host *out,
                             struct weft_error *error) WEFT_MUST_CHECK;
/* The "findings" array of the run's document; a new reference. */
json_t *diag_findings_encode(const struct diag_findings *findings);

#endif
