/* Computes the limits of an attempt to connect a lane. An attempt that waits for packets lost with
 * a cable must end, so that another one can follow. A sender and the relays of its lane use the
 * same limits. */
#ifndef WEFT_XFER_ATTEMPT_H
#define WEFT_XFER_ATTEMPT_H

#include "conn/conn.h"

/* Returns the maximum duration of an attempt over `n_via` relays with the probes of `config`.
 * `may_stall` is true if an end is software, or if the ends are not known yet. */
weft_ns attempt_ns(const struct conn_config *config, bool may_stall, uint32_t n_via);
/* Lowers `*limit` to `most` if it is longer. */
void attempt_lower(weft_ns *limit, weft_ns most);

#endif
