/* Names the finding of a failure from what this process knows, so that `weft explain` can
 * explain it. */
#ifndef WEFT_PLUGIN_FINDING_H
#define WEFT_PLUGIN_FINDING_H

#include "rdma/rdma.h"

/* Adds the value "finding" to `error`: a code, or candidate codes separated by blanks. Adds
 * nothing if no finding fits. Called by the thread that owns `rdma`. If `rdma` is NULL, uses the
 * error alone; then callable from any thread, also if no device could be opened. */
void finding_name(const struct rdma *rdma, struct weft_error *error);
/* Writes "phase: message (errno ...) [CODE: weft explain CODE]", for a log; NUL-terminated. */
void finding_format(const struct weft_error *error, char *out, size_t out_bytes);
/* Calls finding_name() on a copy, and finding_format(). Callable from any thread. */
void finding_word(const struct weft_error *error, char *out, size_t out_bytes);

#endif
