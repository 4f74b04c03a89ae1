/* One host of a small mesh whose hosts are all processes of this machine. Addresses, cables and
 * the management network are aliases on the loopback interface (soft/loopback.h). */
#ifndef WEFT_BACKENDS_PLAIN_LOOPBACK_H
#define WEFT_BACKENDS_PLAIN_LOOPBACK_H

#include "io/world.h"

struct plain_loopback;

/* Parses `mesh`, such as "1: 0-1 1-2 0-2": this process is host 1, and each pair of hosts has a
 * cable. Link i of the text is 192.168.(101 + i).0/24 with .1 at its first end. Port pK leads to
 * host K; a second cable to it is pK.1. All processes must give the same pairs in the same order.
 * Fails with WEFT_ERR_INPUT if `mesh` is invalid. */
weft_status plain_loopback_create(const char *mesh, struct weft_log *log,
                                  struct plain_loopback **out,
                                  struct weft_error *error) WEFT_MUST_CHECK;
/* Parses all hosts of "0-1 1-2 0-2", without one for this process. */
weft_status plain_loopback_create_all(const char *cables, struct weft_log *log,
                                      struct plain_loopback **out,
                                      struct weft_error *error) WEFT_MUST_CHECK;
/* Returns the spec, which belongs to `loopback`. */
const struct world_spec *plain_loopback_spec(const struct plain_loopback *loopback,
                                             uint32_t *out_host);
void plain_loopback_destroy(struct plain_loopback *loopback); /* Ignores NULL. */

#endif
