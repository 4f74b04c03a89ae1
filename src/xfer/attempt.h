/* Limits of an attempt to connect a lane, so that one which is stuck at what was lost with a cable
 * makes room for the next. A sender and the relays on its way use the same. */
#ifndef WEFT_XFER_ATTEMPT_H
#define WEFT_XFER_ATTEMPT_H

#include "conn/conn.h"

/* Returns the longest attempt over `n_via` relays with the probes of `config`. `may_stall`: an end
 * has software, or is not known yet. */
weft_ns attempt_ns(const struct conn_config *config, bool may_stall, uint32_t n_via);
/* Lowers a limit to `most` if it is longer. */
void attempt_lower(weft_ns *limit, weft_ns most);

#endif
