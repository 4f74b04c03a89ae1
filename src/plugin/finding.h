/* Which finding a failure is, by what this process knows: the code that `weft explain` explains. */
#ifndef WEFT_PLUGIN_FINDING_H
#define WEFT_PLUGIN_FINDING_H

#include "rdma/rdma.h"

/* Adds the value "finding" to `error`: a code, or codes that it may be, separated by blanks;
 * nothing where nothing is known of such a failure. For the thread that `rdma` belongs to; NULL,
 * for any thread: by the error alone, also where no device could be opened. */
void finding_name(const struct rdma *rdma, struct weft_error *error);
/* "phase: message (errno ...) [CODE: weft explain CODE]", for a log; always terminated. */
void finding_format(const struct weft_error *error, char *out, size_t out_bytes);
/* Both, for any thread. */
void finding_word(const struct weft_error *error, char *out, size_t out_bytes);

#endif
