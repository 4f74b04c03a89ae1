/* Converts observations to JSON and back. `run --observations FILE` writes them; `weft diagnose
 * FILE` reads them and must derive the same findings. */
#ifndef WEFT_DIAG_OBSERVATIONS_H
#define WEFT_DIAG_OBSERVATIONS_H

#include <jansson.h>

#include "base/error.h"
#include "diag/diag.h"

/* Returns a new reference. Omits unknown values. */
json_t *diag_observations_encode(const struct diag_input *input);
/* Reads untrusted JSON. Fails with WEFT_ERR_INPUT and the path of the invalid member
 * ("hosts[1].ports[0].netdev_mtu: ..."). The caller calls diag_input_fini(out), also on failure. */
weft_status diag_observations_decode(const json_t *document, struct diag_input *out,
                                     struct weft_error *error) WEFT_MUST_CHECK;

/* Convert one host of the document, as a process sends it to the process that collects results. The
 * caller calls diag_host_fini(out), also on failure. */
json_t *diag_host_encode(const struct diag_host *host);
weft_status diag_host_decode(const json_t *object, struct diag_host *out,
                             struct weft_error *error) WEFT_MUST_CHECK;
/* Convert one error of a host. */
json_t *diag_error_encode(const struct diag_error *failure);
weft_status diag_error_decode(const json_t *object, struct diag_error *out,
                              struct weft_error *error) WEFT_MUST_CHECK;
/* Returns the "findings" array of a run's document; a new reference. */
json_t *diag_findings_encode(const struct diag_findings *findings);

#endif
